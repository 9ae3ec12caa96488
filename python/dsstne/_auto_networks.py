"""The autoencoders that auto() tries: settings in groups, which train up to rungs as in every search."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from dsstne import _candidates, _recipes, _space
from dsstne._candidates import Data, Lengths, Outcome
from dsstne._recipes import Recipe
from dsstne._search_run import Pace, recipe_of
from dsstne._store import Store
from dsstne._study import Study, drive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dsstne._auto_trials import Trial, Trials
    from dsstne._halving import Job
    from dsstne.model import Model
    from dsstne.trainer import Progress

_PROBE = 3.0  # seconds of training that predict how long a run takes
_MARGIN = 1.05  # on the prediction of a refit


class Groups:
    """Settings in groups: the best of a group, by the first rung, is kept when the next group is tried.

    Args:
        groups: Arguments of each further trial; the first trial has none.
    """

    def __init__(self, groups: list[list[dict[str, Any]]]) -> None:
        self._listed = [(place, arguments) for place, group in enumerate(groups) for arguments in group]
        self._place, self._base, self._best = 0, _space.Settings(), (-math.inf, _space.Settings())
        self.count: int | None = 1 + len(self._listed)

    def draw(self, number: int, seed: int, known: Any = None) -> _space.Settings:
        """Returns the settings of a trial; all trials before it must have a result."""
        if number == 0:
            return {}
        place, arguments = self._listed[number - 1]
        if number == 1 or place != self._place:
            self._place, self._base = place, self._best[1]
        return {**self._base, **arguments}

    def learn(self, settings: _space.Settings, number: int, value: float) -> None:
        """Takes the first result of a trial."""
        if value > self._best[0]:
            self._best = value, settings

    def described(self) -> str:
        """Returns a text that is the same for the same groups."""
        return _space.text(self._listed)


class Networks:
    """The trials of autoencoders, which end when the time of :class:`dsstne._auto_trials.Trials` does not allow more.

    Where a training of the refit takes many steps, the last rung is half of it. Close it at the end.

    Raises:
        InputOutputError: There is no place for a temporary folder.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials, rows = trials, trials.task.train.shape[0]
        self._short, whole = _recipes.epochs_of_autoencoder(rows)
        self._longer, self._per_epoch = whole / self._short, -(-rows // _recipes.BATCH)
        self._lengths = Lengths.choose(rows, self._short, "auto", 3, {})
        self._last = self._lengths.rungs - 1
        self._ended = False
        folds, common = trials.task.folds, trials.common
        self._data = [Data(fold.train, fold.inputs, fold.held_out, common["items"], trials.metric) for fold in folds]
        self._store = Store(None, None)
        groups = Groups(_recipes.AUTOENCODER)
        self._study = Study(groups, {}, self._lengths, 1, 1, 1, common["seed"], trials.metric, self._store)
        self._pace = Pace(self._study, self._lengths)

    def close(self) -> None:
        """Removes the checkpoints."""
        self._store.close()

    def first(self) -> None:
        """Tries the usual settings, if a few steps show that there is time for that and for the refit."""
        recipe, trials = Recipe.of("autoencoder"), self._trials
        each = self._training_seconds(recipe)
        if each is None:
            return
        needed = each * (len(self._data) + self._again())
        if needed > trials.spare():
            self._skip(recipe, needed)
        else:
            self._drive()

    def further(self) -> None:
        """Tries further settings."""
        self._study.extend()
        self._drive()

    def _drive(self) -> None:
        drive(self._study, lambda: not self._ended, self._submit, lambda: [self._done], self._study.tell)

    def _submit(self, job: Job) -> None:
        trials, recipe = self._trials, Recipe.of("autoencoder", **self._study.trials[job.candidate].settings)
        before = trials.best.get("autoencoder")
        available = trials.spare()
        if before is not None:
            counted = any(part is before for part in trials.parts())  # in slack, but the better one is refitted
            available = trials.slack() + (before.refits[0][1] if counted else 0.0)
        rate = self._pace.seconds_of(job.candidate, 1.0)
        rest = sum(self._steps(rung, None if rung == 0 else rung - 1) for rung in range(job.rung, self._lengths.rungs))
        needed = rate * rest + self._again() * rate * self._steps(self._last) / len(self._data)
        if needed > available:
            self._ended = True
            self._skip(recipe, needed)
            self._done = job, Outcome(note="not begun", finished=False)
        else:
            self._done = job, self._advance(job, recipe)

    def _advance(self, job: Job, recipe: Recipe) -> Outcome:
        """Trains on each split up to a rung."""
        trials, done = self._trials, Outcome()
        settings, steps = self._study.trials[job.candidate].settings, self._steps(job.rung, job.before)

        def path(rung: int | None, fold: int) -> Path | None:
            if rung is None or rung == self._last:
                return None
            return self._study.checkpoint(job.candidate, rung).with_suffix(f".{fold}.dsstne")

        def make(fold: int, common: Mapping[str, Any], left: float) -> Model:
            end = time.monotonic() + left
            compute = {name: common[name] for name in ("devices", "threads", "memory_limit")}
            about = self._data[fold], settings, self._lengths, job.rung, common["seed"], compute
            return _candidates.train(
                done,
                *about,
                source=path(job.before, fold),
                target=path(job.rung, fold),
                limit=lambda: end - time.monotonic(),
                glance=self._glance,
            )

        def refits(trial: Trial) -> list[tuple[Recipe, float]]:
            return self._refits(job.candidate, recipe, trial.seconds / steps * self._steps(self._last))

        last = job.rung == self._last
        again = 0.0 if trials.task.is_whole else _MARGIN * self._steps(self._last) / steps
        epochs = self._short if last else round(self._steps(job.rung) / self._per_epoch, 1)
        trial = trials.run(recipe.but(epochs=epochs), refits, ratio=again, make=make, paused=not last)
        done.value, done.note, done.seconds, done.finished = trial.value, trial.note, trial.seconds, trial.finished
        self._ended = not trial.finished
        return done

    def _refits(self, number: int, recipe: Recipe, seconds: float) -> list[tuple[Recipe, float]]:
        """Returns what to train on all data, and the times, if the models of all splits take some seconds."""
        whole = recipe, self._again() * seconds / len(self._data)
        if self._trials.task.is_whole:  # the trial has seen all data
            same = recipe_of(self._study.trials[number], self._lengths, self._last), 0.0
            return [whole, same] if self._longer > 1 else [same]
        short = recipe.but(epochs=self._short), _MARGIN * seconds / len(self._data)
        return [whole, short] if self._longer > 1 else [whole]

    def _again(self) -> float:
        """Returns how many times as long the whole training on all data takes as the last rung takes on one split."""
        return 0.0 if self._trials.task.is_whole and self._longer == 1 else _MARGIN * self._longer

    def _steps(self, rung: int, before: int | None = None) -> float:
        """Returns the steps up to a rung, from the one before."""
        return self._lengths.steps_from(before, rung, _recipes.BATCH)

    def _training_seconds(self, recipe: Recipe) -> float | None:
        """Predicts the time of a training by a short run that has no other use; None if there is no time for that."""
        trials = self._trials
        left = trials.spare()
        if left < 0.5:
            trials.decided.append("autoencoder was not tried")
            trials.skip(recipe, "not begun: no time left")
            return None
        found = trials.probe(recipe, min(_PROBE, left / 4))
        if found is None:
            return None
        first, step = found
        return first + self._steps(self._last) * step

    def _skip(self, recipe: Recipe, needed: float) -> None:
        trials = self._trials
        tried = "autoencoder" in trials.best
        what = "not all settings of autoencoder were" if tried else f"autoencoder ({recipe.settings or 'defaults'}) was"
        trials.decided.append(f"{what} tried" if tried else f"{what} not tried")
        trials.skip(recipe, f"not begun: trial and refit take about {needed:,.0f} s")

    def _glance(self, now: Progress) -> None:
        self._trials.show(f"autoencoder, epoch {now.epoch:.0f}")
