"""What auto() tries, in which order: first each family with its usual settings, then other settings while time is left.

Everything here is the same for the same data and seed, but for what the budget of time ends.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _recipes

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsstne._recipes import Recipe
    from dsstne._trials import Trial, Trials

POPULARITY = _recipes.Recipe.of("popularity")
_WORTH = 0.8  # further settings are tried of families that reach this share of the best
_SHARE = 0.25  # of the budget, for the search of a linear model
_WORK = 1e10  # FLOP of the operator for all validation rows; a search of more work scores some of the rows
_MOST = 60  # settings of a linear model
_GAIN = 1.0005  # a step of that search must be better by this factor
_PROBE = 3.0  # seconds of training that predict how long a run takes


def search(trials: Trials) -> None:
    """Tries everything, cheap models first."""
    train, rows = trials.task.train, trials.task.inputs.shape[0]
    shape = train.shape
    trials.run(POPULARITY)
    for family in ("item_knn", "rp3beta"):
        trials.run(_recipes.Recipe.of(family))
    _linear(trials, _recipes.linear(shape, train.nnz, rows, trials.spare() / 3))
    for recipe in _recipes.spectral(shape):
        trials.run(recipe)
    trials.run(_recipes.ials(shape))
    _autoencoder(trials)
    _further(trials)


def _linear(trials: Trials, recipe: Recipe) -> Trial:
    """Tries a linear model on all validation rows."""

    def refits(trial: Trial) -> list[tuple[Recipe, float]]:
        growth = 1.1 * trials.task.growth
        items = trials.task.train.shape[1]
        ways: list[tuple[Recipe, float]] = _recipes.refits_of_linear(
            recipe, growth * trial.seconds, growth * trial.score_seconds, max(1, trial.rows), items
        )
        return [(way, 0.0 if trials.task.is_whole and way == recipe else seconds) for way, seconds in ways]

    return trials.run(recipe, refits)


def _autoencoder(trials: Trials, **arguments: Any) -> Trial | None:
    """Tries a network, if a few steps show that there is time for it."""
    recipe, short, whole = _recipes.autoencoder(trials.task.train.shape[0])
    recipe = recipe.but(**arguments)
    before = trials.best.get("autoencoder")
    needed = _training_seconds(trials, recipe, short) if before is None else 1.2 * before.seconds
    if needed is None:
        return None
    again = 0.0 if trials.task.is_whole else 1.05
    both = needed * (1 + again)
    if both > (trials.spare() if before is None else trials.slack()):
        trials.decided.append(f"{recipe.family} ({recipe.settings or 'defaults'}) was not tried")
        trials.skip(recipe, f"not begun: trial and refit take about {both:,.0f} s")
        return None

    def refits(trial: Trial) -> list[tuple[Recipe, float]]:
        found = [(recipe, 1.05 * trial.seconds * whole / short)] if short < whole else []
        same = trial.recipe if short < whole else recipe
        return [*found, (same, again * trial.seconds)]

    return trials.run(recipe.but(epochs=short), refits, ratio=again)


def _training_seconds(trials: Trials, recipe: Recipe, epochs: int) -> float | None:
    """Predicts the time of a training by a short run that has no other use; None if there is no time for that."""
    left = trials.spare()
    if left < 0.5:
        trials.decided.append("autoencoder was not tried")
        trials.skip(recipe, "not begun: no time left")
        return None
    found = trials.probe(recipe, min(_PROBE, left / 4))
    if found is None:
        return None
    first, step = found
    steps = epochs * -(-int(trials.task.train.shape[0]) // _recipes.BATCH)
    return first + steps * step


def _further(trials: Trials) -> None:
    """Tries other settings of the families that are near the best, cheap ones first, in the time that refits leave."""
    ranked = trials.ranked()
    near = [trial for trial in ranked if trial.value >= _WORTH * ranked[0].value]
    for trial in sorted(near, key=lambda trial: trial.seconds + trial.score_seconds):
        if trial.recipe.family == "linear":
            _search_linear(trials)
        else:
            _vary(trials, trial.recipe.family)


def _vary(trials: Trials, family: str) -> None:
    """Tries groups of settings of a family; the best of a group is kept when the next is tried."""
    for group in _recipes.variants(trials.best[family].recipe, trials.task.train.shape):
        best = trials.best[family]
        for arguments in group:
            recipe = best.recipe.but(**arguments)
            if recipe == best.recipe:
                continue
            if family == "autoencoder":
                done = _autoencoder(trials, **dict(recipe.but(epochs=None).arguments))
            else:
                needed = 1.5 * (best.seconds + best.score_seconds + best.refits[0][1])
                done = trials.run(recipe) if needed <= trials.slack() else None
            if done is None:
                trials.decided.append(f"not all settings of {family} were tried")
                return


def _search_linear(trials: Trials) -> None:
    """Searches the arguments of a linear model; where ranking takes most of the time, on some of the rows."""
    start = trials.best["linear"]
    few = start.recipe.get("method") == "operator" and 64.0 * trials.task.train.nnz * start.rows > _WORK
    cost = start.seconds + start.score_seconds * (len(trials.few) / start.rows if few else 1)
    end = trials.elapsed + _SHARE * trials.seconds
    known = {start.recipe}

    def value(recipe: Recipe) -> float | None:
        if recipe in known:
            return -np.inf
        if len(known) > _MOST:
            return None
        if trials.elapsed + cost > end or 2 * cost > trials.slack():
            trials.decided.append(f"the search of linear ended after {len(known) - 1} settings")
            return None
        known.add(recipe)
        return (trials.run(recipe, few=True) if few else _linear(trials, recipe)).value

    assert start.values is not None
    best = _climb(start.recipe, float((start.values[trials.few] if few else start.values).mean()), value)
    if few and best != start.recipe:
        _linear(trials, best)


def _climb(best: Recipe, most: float, value: Callable[[Recipe], float | None]) -> Recipe:
    """Moves one argument after the other as long as it helps, and halves the steps once when none does.

    Args:
        best: Where to begin.
        most: Its value.
        value: Returns the value of another recipe, or None to end the search.
    """
    for scale in (1.0, 0.5):
        improved = True
        while improved:
            improved = False
            for name, sign in itertools.product(_recipes.LINEAR, (1, -1)):
                while True:
                    moved = _recipes.moved(best, name, sign * scale)
                    found = value(moved)
                    if found is None:
                        return best
                    if found <= _GAIN * most:
                        break
                    best, most, improved = moved, found, True
    return best
