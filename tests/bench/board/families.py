"""The families of models: how they are fitted and what is searched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import dsstne
from board import data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from measure.real import Split
    from scipy import sparse

    Top = Callable[[sparse.csr_array, np.ndarray | None], np.ndarray]
    """Ids [rows, 20] for these rows of a matrix, or for all, without the items that a row has."""
    Fit = Callable[[Any, dict[str, Any], int], "Fitted"]
    """Takes the training matrix or the Split, settings, and a seed."""

LENGTH = 20
SECONDS = 300  # that `auto` may take


@dataclass(frozen=True)
class Fitted:
    """A fitted model.

    Attributes:
        top: Ranks items.
        chosen: What the model says about a choice of its own.
        model: The model, if it is one of dsstne.
    """

    top: Top
    chosen: str = ""
    model: Any = None


@dataclass(frozen=True)
class Family:
    """A kind of model.

    Attributes:
        title: Its name on the page.
        fit: Fits with some settings and a seed.
        how: Which rows the table has: "D" for the defaults, "V" for settings chosen on validation data, "P" for
            published settings.
        defaults: The values of the defaults for what is searched.
        space: The values that the search tries, in order.
        published: Published settings.
        chance: Whether the seed changes the model by more than rounding.
        environment: Environment variables of its process.
        takes_split: Whether `fit` takes the Split, whose rows can be in the order of time, not its training matrix.
    """

    title: str
    fit: Fit
    how: str
    defaults: dict[str, Any] = field(default_factory=dict)
    space: dict[str, Sequence[Any]] = field(default_factory=dict)
    published: dict[str, Any] = field(default_factory=dict)
    chance: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    takes_split: bool = False


def fitted(model: Any, chosen: str = "") -> Fitted:
    """A model of dsstne."""

    def top(X: sparse.csr_array, rows: np.ndarray | None) -> np.ndarray:
        ids: np.ndarray = model.recommend(X, k=LENGTH, rows=rows)[0]
        return ids

    return Fitted(top, chosen, model)


def solved(function: Callable[..., Any], **fixed: Any) -> Fit:
    """The fit of a function of dsstne that takes a matrix and options."""

    def fit(X: sparse.csr_array, settings: dict[str, Any], seed: int) -> Fitted:
        return fitted(function(X, **{**fixed, **settings}, seed=seed, progress=False))

    return fit


def popular(X: sparse.csr_array, settings: dict[str, Any], seed: int) -> Fitted:
    """The items of the most rows."""
    return fitted(dsstne.popularity(X))


def spectral(X: sparse.csr_array, settings: dict[str, Any], seed: int) -> Fitted:
    """A filter; its rank is at most the smaller side of the matrix."""
    rank = {"rank": min(settings["rank"], *X.shape)} if settings.get("rank") else {}
    return solved(dsstne.spectral)(X, {**settings, **rank}, seed)


def factorized(X: sparse.csr_array, settings: dict[str, Any], seed: int) -> Fitted:
    """Factors; their number is at most the smaller side of the matrix."""
    return solved(dsstne.factorize)(X, {**settings, "factors": min(settings.get("factors", 128), *X.shape)}, seed)


def auto(split: Split, settings: dict[str, Any], seed: int) -> Fitted:
    """The model that dsstne chooses on validation data of its own."""
    X = split.train if split.in_order else data.ordered(split.train)  # sorted rows say nothing about time
    model = dsstne.auto(X, metric="ndcg@20", seconds=SECONDS, seed=seed, progress=False)
    return fitted(model, model.report.chosen)


def total(split: Split, settings: dict[str, Any], seed: int) -> Fitted:
    """The sum of PARTS; its weights are chosen on validation data, then the parts are fitted to all training data."""
    part = data.validation(split)[0]

    def parts(X: sparse.csr_array) -> list[Any]:
        return [FAMILIES[name].fit(X, settings[name], seed).model for name in PARTS]

    weights = dsstne.blend(parts(part.shown), part.shown, validation=part.hidden, seed=seed).tensor("weights")
    model = dsstne.blend(parts(data.ordered(split.train)), weights=weights)
    return fitted(model, " + ".join(f"{weight:.2f} {name}" for name, weight in zip(PARTS, weights, strict=True)))


def implicit(module: str, name: str) -> Fit:
    """The fit of a recommender of implicit."""

    def fit(X: sparse.csr_array, settings: dict[str, Any], seed: int) -> Fitted:
        import importlib

        from scipy.sparse import csr_matrix

        made = getattr(importlib.import_module(module), name)
        model = made(**settings, random_state=seed, num_threads=0, use_gpu=False)
        model.fit(csr_matrix(X), show_progress=False)

        def top(X: sparse.csr_array, rows: np.ndarray | None) -> np.ndarray:
            rows = np.arange(X.shape[0]) if rows is None else rows
            ids: np.ndarray = model.recommend(rows, csr_matrix(X)[rows], N=LENGTH)[0]
            return ids

        return Fitted(top)

    return fit


ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}  # as implicit asks for

FAMILIES: dict[str, Family] = {
    "popularity": Family("popularity", popular, "D"),
    "item_knn": Family(
        "item_knn",
        solved(dsstne.item_knn),
        "DV",
        {"k": 200, "metric": "cosine", "shrink": 20.0},
        {
            "k": (10, 20, 50, 100, 200, 400, 1000),
            "metric": ("cosine", "jaccard", "dice"),
            "shrink": (0.0, 1.0, 3.0, 10.0, 20.0, 50.0, 100.0),
        },
    ),
    "rp3beta": Family(
        "rp3beta",
        solved(dsstne.rp3beta),
        "DV",
        {"k": 200, "alpha": 0.6, "beta": 0.2},
        {
            "k": (10, 20, 50, 100, 200, 400, 1000),
            "alpha": (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
            "beta": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8),
        },
    ),
    "linear": Family(
        "linear",
        solved(dsstne.linear),
        "DV",
        {
            "regularization": 18.0,
            "regularization_exponent": 0.25,
            "dropout": 0.1,
            "row_exponent": 0.5,
            "item_exponent": 0.2,
            "output_exponent": 0.2,
        },
        {
            "regularization": (2.0, 4.0, 9.0, 18.0, 36.0, 72.0, 144.0, 288.0),
            "regularization_exponent": (0.0, 0.25, 0.5, 0.75),
            "dropout": (0.0, 0.1, 0.25, 0.4, 0.6),
            "row_exponent": (0.0, 0.25, 0.5, 0.75, 1.0),
            "item_exponent": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
            "output_exponent": (0.0, 0.1, 0.2, 0.3, 0.4),
        },
    ),
    "gf_cf": Family("spectral, gf_cf", spectral, "P", published={"method": "gf_cf", "rank": 256}, chance=True),
    "bspm_em": Family("spectral, bspm_em", spectral, "P", published={"method": "bspm_em", "rank": 448}, chance=True),
    "f": Family(
        "spectral, f",
        spectral,
        "DV",
        {
            "rank": None,
            "row_exponent": 0.75,
            "first_in": 0.55,
            "first_out": 0.25,
            "low_pass": 0.6,
            "low_pass_exponent": 0.5,
            "sharpening": 1.3,
        },
        {
            "rank": (None, 32, 64, 128, 256, 448, 640),
            "row_exponent": (0.25, 0.5, 0.75, 1.0),
            "first_in": (0.25, 0.4, 0.55, 0.7),
            "first_out": (0.0, 0.25, 0.5),
            "low_pass": (0.0, 0.3, 0.6, 0.9, 1.2),
            "low_pass_exponent": (0.0, 0.25, 0.5),
            "sharpening": (0.0, 0.65, 1.3, 1.9, 2.5),
        },
        chance=True,
    ),
    "factorize": Family(
        "factorize",
        factorized,
        "DV",
        {"factors": 128, "regularization": None, "unobserved_weight": 0.02, "epochs": 16},
        {
            "factors": (32, 64, 128, 256, 512),
            "regularization": (None, 0.0003, 0.001, 0.003, 0.006, 0.01, 0.02, 0.05),
            "unobserved_weight": (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2),
            "epochs": (8, 16, 32),
        },
        chance=True,
    ),
    "fit": Family("fit, autoencoder", solved(dsstne.fit), "D", chance=True),
    "implicit ALS": Family(
        "implicit, ALS",
        implicit("implicit.als", "AlternatingLeastSquares"),
        "DV",
        {"factors": 100, "alpha": 1.0, "regularization": 0.01, "iterations": 15},
        {
            "factors": (32, 64, 100, 192, 320, 512),
            "alpha": (1.0, 3.0, 10.0, 20.0, 40.0, 100.0),
            "regularization": (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
            "iterations": (8, 15, 30),
        },
        chance=True,
        environment=ONE_BLAS_THREAD,
    ),
    "implicit BPR": Family(
        "implicit, BPR",
        implicit("implicit.bpr", "BayesianPersonalizedRanking"),
        "DV",
        {"factors": 100, "learning_rate": 0.01, "regularization": 0.01, "iterations": 100},
        {
            "factors": (32, 64, 100, 192, 320),
            "learning_rate": (0.003, 0.01, 0.02, 0.05, 0.1, 0.2),
            "regularization": (0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1),
            "iterations": (50, 100, 200, 400),
        },
        chance=True,
        environment=ONE_BLAS_THREAD,
    ),
}
if hasattr(dsstne, "blend"):
    FAMILIES["sum"] = Family("blend of linear, spectral and fit", total, "V", chance=True, takes_split=True)
if hasattr(dsstne, "auto"):
    FAMILIES["auto"] = Family("auto", auto, "V", chance=True, takes_split=True)

PARTS = {"linear": "V", "f": "V", "fit": "D"}
"""The parts of the sum, and how their settings are chosen."""


def in_trial(name: str, settings: dict[str, Any], items: int) -> dict[str, Any]:
    """The settings that a trial fits with: where few rows are scored, `linear` solves for those alone."""
    if name == "linear":
        return {**settings, "method": "inverse" if items <= 5000 else "operator"}
    return settings
