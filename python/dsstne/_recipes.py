"""The models that auto() can make: which function, with which arguments, and the arguments to try next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne import _defaults, api, decomposition, solvers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsstne.model import Model

FUNCTIONS: dict[str, Callable[..., Model]] = {
    "popularity": api.popularity,
    "item_knn": solvers.item_knn,
    "rp3beta": solvers.rp3beta,
    "linear": solvers.linear,
    "spectral": decomposition.spectral,
    "ials": solvers.factorize,
    "autoencoder": api.fit,
}

BATCH = 512  # of fit()
# Runs of at least this many steps are tried at half their length: which of two models is better shows by then.
_LONG_RUN = 700


class Range(NamedTuple):
    """The values of an argument in a search.

    Attributes:
        start: What the argument is where a recipe does not give it; None = the definition of the model says it.
        low, high: Bounds.
        step: What a step adds, or where ``multiplies`` is set, by what it multiplies.
    """

    start: float | None
    low: float
    high: float
    step: float
    multiplies: bool = False


# The arguments of each family that is searched step by step, in the order of the search.
RANGES: dict[str, dict[str, Range]] = {
    "item_knn": {"shrink": Range(20, 1, 1e4, 3, True), "k": Range(200, 10, 5000, 2, True)},
    "rp3beta": {"beta": Range(0.2, 0, 1, 0.1), "alpha": Range(0.6, 0, 2, 0.2), "k": Range(200, 10, 5000, 2, True)},
    "linear": {
        "row_exponent": Range(0.5, 0, 2, 0.25),
        "regularization": Range(18, 1e-3, 1e5, 10**0.25, True),
        "dropout": Range(0.1, 0, 0.9, 0.2),
        "regularization_exponent": Range(0.25, 0, 2, 0.25),
        "output_exponent": Range(0.2, 0, 1, 0.1),
        "item_exponent": Range(0.2, 0, 1, 0.1),
    },
    "spectral": {
        "sharpening": Range(None, 0, 5, 0.65),
        "low_pass": Range(None, 0, 5, 0.3),
        "rank": Range(None, 8, 2048, 2, True),
        "row_exponent": Range(None, 0, 2, 0.25),
        "first_in": Range(None, 0, 1, 0.15),
        "first_out": Range(None, 0, 1, 0.15),
    },
    "ials": {
        "regularization": Range(None, 1e-6, 10, 10**0.5, True),
        "unobserved_weight": Range(0.02, 1e-5, 10, 2, True),
        "factors": Range(None, 8, 512, 2, True),
    },
}
_WHOLE = ("k", "rank", "factors")  # arguments that are integers


@dataclass(frozen=True)
class Recipe:
    """A function of this package and its arguments, beside the matrix and what all have in common."""

    family: str
    arguments: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, family: str, **arguments: Any) -> Recipe:
        """Makes a recipe."""
        return cls(family, tuple(arguments.items()))

    def but(self, **arguments: Any) -> Recipe:
        """Returns the recipe with other arguments; None leaves one out."""
        merged = {**dict(self.arguments), **arguments}
        return replace(self, arguments=tuple((key, value) for key, value in merged.items() if value is not None))

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an argument."""
        return dict(self.arguments).get(name, default)

    def make(self, X: Any, common: Mapping[str, Any], seconds: float | None = None) -> Model:
        """Computes or trains the model, in a limit of seconds if there is one."""
        if self.family == "popularity":
            return api.popularity(X, items=common["items"])
        limit = {} if seconds is None else {"max_seconds": max(seconds, 1e-3)}
        return FUNCTIONS[self.family](X, **dict(self.arguments), **common, **limit, progress=False)

    @property
    def settings(self) -> str:
        """The arguments as Python has them in a call."""
        return ", ".join(f"{key}={value!r}" for key, value in self.arguments)

    def code(self, common: Mapping[str, Any]) -> str:
        """Returns the call as Python; ``common`` are further arguments, as texts."""
        words = ["X", *([self.settings] if self.arguments else [])]
        words += [f"{key}={text}" for key, text in common.items() if self.family != "popularity" or key == "items"]
        return f"dsstne.{FUNCTIONS[self.family].__name__}({', '.join(words)})"


# ---- linear models ----


def linear(shape: tuple[int, int], entries: int, rows: int, seconds: float) -> Recipe:
    """Returns the first linear model to try: by the method that is less work for this number of validation rows.

    The inverse is items^3 FLOP, which LAPACK does ten times as fast as the operator does its work of 64 for each entry
    and vector. Nothing ends LAPACK early, so it must be done in the seconds that there are even at 30 GFLOP/s.
    """
    inverse, operator = shape[1] ** 3 / 10, 64.0 * entries * (256 + rows)
    fits = shape[1] <= 20_000 and shape[1] ** 3 / 30e9 < seconds
    method = "inverse" if fits and inverse <= operator else "operator"
    return Recipe.of("linear", method=method)


def refits_of_linear(recipe: Recipe, seconds: float, score_seconds: float) -> list[tuple[Recipe, float]]:
    """Returns what a linear model can be refitted as, with the predicted times: as weights, else as it was tried.

    Args:
        recipe: What was tried.
        seconds: Time to make that of all data.
        score_seconds: Time to score as many rows as there are items: the rows of P are solutions of the same equations.
    """
    if recipe.get("method") == "inverse":
        return [(recipe, seconds)]
    return [(recipe.but(method="iterative"), 1.5 * (seconds + score_seconds)), (recipe, seconds)]


# ---- the others ----

SPECTRAL = [Recipe.of("spectral", method=method) for method in ("f", "bspm_em", "gf_cf")]


def ials(shape: tuple[int, int]) -> Recipe:
    """Returns the factors to try first."""
    return Recipe.of("ials", factors=min(128, *shape))


def moved(recipe: Recipe, name: str, steps: float, definition: Mapping[str, Any], shape: tuple[int, int]) -> Recipe:
    """Returns a recipe with one argument moved by some steps, within its bounds.

    Args:
        recipe: What to change.
        name: An argument of RANGES.
        steps: How far.
        definition: That of a model of the family, made with the defaults.
        shape: That of the matrix.
    """
    about = RANGES[recipe.family][name]
    now = recipe.get(name, about.start)
    if now is None and recipe.family == "spectral" and name != "rank":
        now = decomposition.FILTERS[recipe.get("method", "f")][name]
    elif now is None:
        now = definition[name]
    value = float(f"{now * about.step**steps:.4g}") if about.multiplies else round(now + steps * about.step, 4)
    value = min(max(value, about.low), about.high)
    if name in _WHOLE:
        value = min(round(value), *shape)
    return recipe if value == now else recipe.but(**{name: value})


def epochs_of_autoencoder(rows: int) -> tuple[int, int]:
    """Returns the epochs of a whole trial, and those of fit()'s defaults."""
    per_epoch = -(-rows // BATCH)
    whole = _defaults.epochs("auto", per_epoch, True)
    return (-(-whole // 2) if whole * per_epoch >= _LONG_RUN else whole), whole


# Further arguments of the autoencoder, in groups (see _auto_networks.Groups).
AUTOENCODER: list[list[dict[str, Any]]] = [
    [{"temperature": 0.14}, {"temperature": 0.2}],
    [{"denoising": 0.7}, {"denoising": 0.8}],
    [{"learning_rate": 1e-3}, {"learning_rate": 4e-3}],
    [{"hidden": 1024}],  # last: when there is no time for one setting, none of those after it is tried
]
