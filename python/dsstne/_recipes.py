"""The models that auto() can make: which function, with which arguments, and the arguments to try next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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

# Arguments of linear() in the order of the search: the default, the bounds, and the first step. That of the
# regularization is a power of ten.
LINEAR = {
    "row_exponent": (0.5, 0.0, 2.0, 0.25),
    "regularization": (18.0, 1e-3, 1e5, 0.25),
    "dropout": (0.1, 0.0, 0.9, 0.2),
    "regularization_exponent": (0.25, 0.0, 2.0, 0.25),
    "output_exponent": (0.2, 0.0, 1.0, 0.1),
    "item_exponent": (0.2, 0.0, 1.0, 0.1),
}


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

    def make(self, X: Any, common: Mapping[str, Any], seconds: float | None = None, **more: Any) -> Model:
        """Computes or trains the model, in a limit of seconds if there is one."""
        if self.family == "popularity":
            return api.popularity(X, items=common["items"])
        if seconds is not None:
            more["max_seconds"] = max(seconds, 1e-3)
        return FUNCTIONS[self.family](X, **dict(self.arguments), **common, **more, progress=False)

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


def refits_of_linear(
    recipe: Recipe, seconds: float, score_seconds: float, rows: int, items: int
) -> list[tuple[Recipe, float]]:
    """Returns what a linear model can be refitted as, with the predicted times: as weights, else as it was tried."""
    if recipe.get("method") == "inverse":
        return [(recipe, seconds)]
    # The rows of P are solutions of the same equations as scores, one for each item.
    weights = 1.5 * (seconds + score_seconds * items / rows)
    return [(recipe.but(method="iterative"), weights), (recipe, seconds)]


def moved(recipe: Recipe, name: str, steps: float) -> Recipe:
    """Returns a linear model with one argument moved by some steps, within its bounds."""
    start, low, high, step = LINEAR[name]
    now = recipe.get(name, start)
    value = float(f"{now * 10 ** (steps * step):.4g}") if name == "regularization" else round(now + steps * step, 4)
    return recipe.but(**{name: min(max(value, low), high)})


# ---- the others ----


def spectral(shape: tuple[int, int]) -> list[Recipe]:
    """Returns the filters to try first."""
    rank = min(448, max(1, min(shape) // 4))
    return [Recipe.of("spectral", rank=rank, method=method) for method in ("f", "bspm_em", "gf_cf")]


def ials(shape: tuple[int, int]) -> Recipe:
    """Returns the factors to try first."""
    return Recipe.of("ials", factors=min(128, *shape))


def autoencoder(rows: int) -> tuple[Recipe, int, int]:
    """Returns the network to try, the epochs of its trial and those of fit()'s defaults."""
    per_epoch = -(-rows // BATCH)
    whole = _defaults.epochs("auto", per_epoch, True)
    trial = -(-whole // 2) if whole * per_epoch >= _LONG_RUN else whole
    return Recipe.of("autoencoder"), trial, whole


def variants(best: Recipe, shape: tuple[int, int]) -> list[list[dict[str, Any]]]:
    """Returns further arguments to try of a family that is not searched step by step.

    They come in groups. The best of a group is kept when the next group is tried.
    """
    if best.family == "spectral":
        ranks = [rank for rank in (32, 64, 128, 256, 448, 768) if rank < min(shape) and rank != best.get("rank")]
        return [[{"rank": rank} for rank in ranks]]
    if best.family == "ials":
        factors = [count for count in (32, 64, 256, 512) if count < min(shape)]
        weights = [{"unobserved_weight": weight} for weight in (0.01, 0.1, 0.3)]
        return [
            weights,
            [{"factors": count} for count in factors],
            [{"regularization": 0.001}, {"regularization": 0.003}, {"regularization": 0.01}],
        ]
    if best.family == "item_knn":
        return [[{"k": 100}, {"k": 1000}], [{"shrink": 5.0}, {"shrink": 100.0}]]
    if best.family == "rp3beta":
        return [[{"beta": 0.1}, {"beta": 0.35}], [{"alpha": 0.4}, {"alpha": 0.8}], [{"k": 400}]]
    if best.family == "autoencoder":
        return [
            [{"temperature": 0.14}, {"temperature": 0.2}],
            [{"denoising": 0.7}, {"denoising": 0.8}],
            [{"hidden": 1024}],
            [{"learning_rate": 1e-3}, {"learning_rate": 4e-3}],
        ]
    return []
