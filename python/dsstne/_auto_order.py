"""What auto() tries, in which order: first each family with its usual settings, then other settings while time is left.

Everything here is the same for the same data and seed, but for what the budget of time ends.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import numpy as np

from dsstne import _recipes
from dsstne._auto_networks import Networks
from dsstne.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dsstne._auto_trials import Trial, Trials
    from dsstne._recipes import Recipe

POPULARITY = _recipes.Recipe.of("popularity")
_WORTH = 0.8  # further settings are tried of families that reach this share of the best
_SHARE = 0.2  # of the budget, for the search of one family
_WORK = 1e10  # FLOP to score all validation rows by solving or filtering; a search of more work scores some of the rows
_MOST = 60  # settings of a family
_GAIN = 1.0005  # a step of that search must be better by this factor


def search(trials: Trials) -> None:
    """Tries everything, cheap models first."""
    task = trials.task
    shape = task.train.shape
    trials.run(POPULARITY)
    for family in ("item_knn", "rp3beta"):
        trials.run(_recipes.Recipe.of(family))
    seconds = trials.spare() / 3 / len(task.folds)
    _linear(trials, _recipes.linear(shape, task.train.nnz, task.rows, seconds))
    for recipe in _recipes.SPECTRAL:
        trials.run(recipe)
    trials.confirm()
    trials.run(_recipes.ials(shape))
    with contextlib.ExitStack() as stack:
        networks = None
        try:
            networks = stack.enter_context(contextlib.closing(Networks(trials)))
        except InputOutputError as error:
            trials.skip(_recipes.Recipe.of("autoencoder"), f"{type(error).__name__}: {error}")
        if task.fresh:  # an autoencoder for each of several splits takes the time in which all else can be searched
            _further(trials, networks)
        searched = set(trials.best) if task.fresh else set()
        if networks is not None:
            networks.first()
        _further(trials, networks, searched)


def _linear(trials: Trials, recipe: Recipe, few: bool = False) -> Trial:
    """Tries a linear model."""

    def refits(trial: Trial) -> list[tuple[Recipe, float]]:
        growth, folds = 1.1 * trials.task.growth, len(trials.task.folds)
        each = growth * trial.score_seconds / folds / max(1, trial.rows)
        ways = _recipes.refits_of_linear(recipe, growth * trial.seconds / folds, each * trials.task.train.shape[1])
        return [(way, 0.0 if trials.task.is_whole and way == recipe else seconds) for way, seconds in ways]

    return trials.run(recipe, refits, few)


def _further(trials: Trials, networks: Networks | None, but: Collection[str] = ()) -> None:
    """Tries other settings of the families that are near the best, cheap ones first, in the time that refits leave."""
    ranked = [trial for trial in trials.ranked() if trial.recipe.family not in but]
    near = [trial for trial in ranked if trial.value >= _WORTH * trials.ranked()[0].value]
    for trial in sorted(near, key=lambda trial: trial.seconds + trial.score_seconds):
        if trial.recipe.family == "autoencoder" and networks is not None:
            networks.further()
        elif trial.recipe.family in _recipes.RANGES:
            _vary(trials, trial)


def _vary(trials: Trials, start: Trial) -> None:
    """Searches the arguments of a family; where ranking takes most of the time, on some of the rows."""
    family, task = start.recipe.family, trials.task
    ranks_slowly = family == "spectral" or start.recipe.get("method") == "operator"
    few = ranks_slowly and len(trials.few) < task.rows and 64.0 * task.train.nnz * task.rows > _WORK
    last = start.seconds + start.score_seconds if few else 0.0  # to score all rows in the end
    cost = start.seconds + start.score_seconds * (len(trials.few) / task.rows if few else 1)
    end = trials.elapsed + _SHARE * trials.seconds - last
    known = {start.recipe}
    definition = start.models[0]._definition

    def run(recipe: Recipe, few: bool) -> Trial:
        return _linear(trials, recipe, few) if family == "linear" else trials.run(recipe, few=few)

    def value(recipe: Recipe) -> float | None:
        nonlocal cost
        if recipe in known:
            return -np.inf
        if len(known) > _MOST:
            return None
        if trials.elapsed + cost > end or 2 * cost + last > trials.slack():
            trials.decided.append(f"the search of {family} ended after {len(known) - 1} settings")
            return None
        known.add(recipe)
        trial = run(recipe, few)
        cost = max(cost, trial.seconds + trial.score_seconds)
        return trial.value

    def move(recipe: Recipe, name: str, steps: float) -> Recipe:
        return _recipes.moved(recipe, name, steps, definition, task.train.shape)

    assert start.values is not None
    most = float((start.values[trials.few] if few else start.values).mean())
    best = _climb(start.recipe, most, list(_recipes.RANGES[family]), move, value)
    if few and best != start.recipe:
        run(best, False)
    trials.confirm()


def _climb(
    best: Recipe,
    most: float,
    names: Sequence[str],
    move: Callable[[Recipe, str, float], Recipe],
    value: Callable[[Recipe], float | None],
) -> Recipe:
    """Moves one argument after the other as long as it helps, and halves the steps once when none does.

    Args:
        best: Where to begin.
        most: Its value.
        names: The arguments.
        move: Returns a recipe with one argument moved by some steps.
        value: Returns the value of another recipe, or None to end the search.
    """
    for scale in (1.0, 0.5):
        improved = True
        while improved:
            improved = False
            for name, sign in itertools.product(names, (1, -1)):
                while True:
                    moved = move(best, name, sign * scale)
                    found = value(moved)
                    if found is None:
                        return best
                    if found <= _GAIN * most:
                        break
                    best, most, improved = moved, found, True
    return best
