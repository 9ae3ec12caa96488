"""Makes the models that auto() tries, within its budget of time, and measures them."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _blending
from dsstne.errors import CancelledError, DsstneError
from dsstne.evaluation import evaluate
from dsstne.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dsstne._recipes import Recipe
    from dsstne._validation import Fold, Task
    from dsstne.model import Model
    from dsstne.progress import Budget

_PROBE_STEPS = 20  # of a training, at most, to predict how long it takes
_PILOT = 64  # rows that are scored to predict the time for all of them
_SEARCH_ROWS = 1024  # that a search of settings scores where scoring takes most of the time
_MOST_PARTS = 4  # of a sum
_WORTH = 0.7  # a model with less than this share of the best metric is no part of a sum
_MARGIN = 1.1  # on the prediction of a time


@dataclass
class Trial:
    """A model that was tried, or was not.

    Attributes:
        recipe: How the model was made.
        values: The metric of each row, the mean over the splits; None if the model failed.
        rows: Number of validation rows that were scored.
        seconds, score_seconds: Time to make the models of all splits, and to rank the items for the rows of all.
        memory: Growth of the memory of the process in bytes, or None.
        refits: What to make of all data if the model is chosen, the best first, with the expected times.
        models: The models of the splits, as long as they may be needed.
        note: Why the model failed, or what was unusual.
        finished: False if there was no time.
    """

    recipe: Recipe
    values: NDArray[np.float64] | None = None
    rows: int = 0
    seconds: float = 0.0
    score_seconds: float = 0.0
    memory: int | None = None
    refits: list[tuple[Recipe, float]] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    note: str = ""
    finished: bool = True

    @property
    def value(self) -> float:
        """The mean of the metric; -inf if the model failed."""
        return -np.inf if self.values is None else float(self.values.mean())

    @property
    def cheapest(self) -> float:
        """The least time in which the model can be made of all data."""
        return min(seconds for _, seconds in self.refits)


class Trials:
    """Everything that was tried.

    Args:
        task: The data.
        metric: Name of the metric.
        seconds: The budget, which has begun at ``start``.
        start: A time of ``time.monotonic``.
        common: Arguments of all functions that make models.
        bar: Shows the progress.

    Attributes:
        tried: All trials in their order.
        best: The best trial of each family that was scored on all rows; these keep their models.
        lucky: A trial that has a better mean than the best of its family, though not by more than the standard error,
            and is to be confirmed; it keeps its models, too.
        decided: What would have been done with more time.
    """

    def __init__(
        self, task: Task, metric: str, seconds: float, start: float, common: Mapping[str, Any], bar: Budget
    ) -> None:
        self.task, self.metric, self.common, self.bar = task, metric, common, bar
        self.seconds, self._start = seconds, start
        self.tried: list[Trial] = []
        self.best: dict[str, Trial] = {}
        self.lucky: Trial | None = None
        self.decided: list[str] = []
        few = np.random.default_rng(common["seed"]).permutation(task.rows)[:_SEARCH_ROWS]
        self.few: NDArray[np.int64] = np.sort(few)

    # ---- time and memory ----

    @property
    def elapsed(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Seconds until the end of the budget, with a margin for what cannot be predicted."""
        return 0.98 * self.seconds - self.elapsed

    def ranked(self) -> list[Trial]:
        """The best trial of each family, the best first."""
        return sorted(self.best.values(), key=lambda trial: -trial.value)

    def parts(self) -> list[Trial]:
        """The trials that may be parts of a sum."""
        ranked = [trial for trial in self.ranked() if trial.recipe.family != "popularity"]
        return [trial for trial in ranked if trial.value >= _WORTH * ranked[0].value][:_MOST_PARTS]

    def panel_seconds(self, parts: Sequence[Trial] | None = None) -> float:
        """The time that choosing a sum takes: all parts score the rows once more, and weights are tried."""
        rows, items = self.task.rows * len(self.task.folds), self.task.train.shape[1]
        parts = self.parts() if parts is None else parts
        if len(parts) < 2:
            return 0.0
        tried = 20 + 30 * (len(parts) - 1)  # weights, each for up to 256 candidates of a part
        each = 1e-8 * items + 3e-8 * tried * min(items, 256)
        return float(sum(trial.score_seconds + rows * each for trial in parts))

    def spare(self) -> float:
        """Seconds for a further trial and its refit, when the best model and sums have what they need."""
        ranked = self.ranked()
        return self.left - self.panel_seconds() - (ranked[0].cheapest if ranked else 0.0)

    def slack(self) -> float:
        """Seconds that are left when all parts of a sum are refitted, an autoencoder at its whole length."""
        return self.left - self.panel_seconds() - whole_refits(self.parts() or self.ranked())

    def limited(self, memory_limit: int | None, others: Sequence[Model] = ()) -> int | None:
        """Returns what the models that are kept, and others, leave of a limit of memory."""
        if memory_limit is None:
            return None
        trials = [*self.best.values(), *([self.lucky] if self.lucky else [])]
        kept = itertools.chain(others, *(trial.models for trial in trials))
        return max(1, memory_limit - sum(4 * model.parameters for model in kept))

    @property
    def options(self) -> dict[str, Any]:
        """The options of everything that computes with a model."""
        names = ("devices", "threads", "memory_limit")
        options = {name: self.common[name] for name in names}
        return {**options, "memory_limit": self.limited(options["memory_limit"])}

    # ---- trials ----

    def run(
        self,
        recipe: Recipe,
        refits: Callable[[Trial], list[tuple[Recipe, float]]] | None = None,
        few: bool = False,
        ratio: float | None = None,
        make: Callable[[int, Mapping[str, Any], float], Model] | None = None,
        paused: bool = False,
    ) -> Trial:
        """Makes a model of the training part and scores it.

        Args:
            recipe: How to make it.
            refits: Returns what to make of all data, and the times; None = the same.
            few: Score some of the rows, which only a search of settings does.
            ratio: How many times as long the shortest refit takes as the trial; None = in proportion to the entries.
            make: Makes the model of a split by its number, common arguments and the seconds that are left; None = as
                the recipe says.
            paused: The training is a part of one that may go on, so that its model is not one to choose.
        """
        trial = Trial(recipe)
        self.tried.append(trial)
        self.show(recipe.family)
        again = (_MARGIN * self.task.growth if ratio is None else ratio) / len(self.task.folds)
        limit = self.spare() / (1 + (0.0 if self.task.is_whole else again))
        if limit <= 0 and recipe.family != "popularity":
            trial.note, trial.finished = "not begun: no time left", False
            self.decided.append(f"{recipe.family} ({recipe.settings}) was not tried")
            return trial
        try:
            with _Peak() as peak, _noted(trial):
                self._make(trial, limit, few, self.task.folds, make)
        except (DsstneError, MemoryError) as error:
            trial.note = _reason(error, limit)
            trial.models = []
            if isinstance(error, CancelledError):
                trial.finished = False
                self.decided.append(f"{recipe.family} ({recipe.settings}) was not finished")
            return trial
        finally:
            trial.memory = peak.bytes
        if few or paused:
            trial.models = []
            return trial
        again = 0.0 if self.task.is_whole else again * trial.seconds
        trial.refits = [(recipe, again)] if refits is None else refits(trial)
        self._keep(trial)
        return trial

    def show(self, what: str) -> None:
        """Shows what is being done, and the best so far."""
        ranked = self.ranked()
        self.bar.update(what, f"best: {ranked[0].recipe.family} {ranked[0].value:.4f}" if ranked else "")

    def skip(self, recipe: Recipe, note: str) -> None:
        """Lists a model that was not begun."""
        self.tried.append(Trial(recipe, note=note))

    def probe(self, recipe: Recipe, seconds: float) -> tuple[float, float] | None:
        """Trains a network for a moment; returns the seconds of its first step and of a later one.

        The first step allocates memory and takes much longer. The result is None if a step fails, which is listed as a
        trial.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begun = time.monotonic()
                common = {**self.common, "memory_limit": self.options["memory_limit"]}
                model = recipe.but(epochs=0).make(self.task.train, common)
                with Trainer(model, self.task.train, precision="auto", seed=common["seed"], **self.options) as trainer:
                    trainer.run(steps=1)
                    first = time.monotonic() - begun
                    last = trainer.run(steps=_PROBE_STEPS, seconds=max(seconds - first, 0.1 * seconds))
                    return first, last.seconds / (last.step - 1) if last.step > 1 else first
        except (DsstneError, MemoryError) as error:
            self.skip(recipe, _reason(error, seconds))
            return None

    def _make(
        self,
        trial: Trial,
        limit: float,
        few: bool,
        folds: Sequence[Fold],
        make: Callable[[int, Mapping[str, Any], float], Model] | None = None,
    ) -> None:
        """Makes and scores the models of a trial."""
        begun = time.monotonic()
        try:
            for number, fold in enumerate(folds):
                left = limit - (time.monotonic() - begun)
                if left <= 0 and trial.recipe.family != "popularity":
                    raise CancelledError("not all splits were done")
                common = {**self.common, "memory_limit": self.limited(self.common["memory_limit"], trial.models)}
                made = trial.recipe.make(fold.train, common, left) if make is None else make(number, common, left)
                trial.models.append(made)
        finally:
            trial.seconds = time.monotonic() - begun
        self._score(trial, few, limit - trial.seconds, folds)

    def _score(self, trial: Trial, few: bool, limit: float, folds: Sequence[Fold]) -> None:
        """Ranks the items for the rows, if a pilot of some rows shows that there is time for them."""
        count = len(self.few) if few else self.task.rows
        begun = time.monotonic()
        if count > 4 * _PILOT and trial.recipe.family != "popularity":
            self._values(trial.models[0], folds[0], np.arange(_PILOT))
            expected = (time.monotonic() - begun) * len(folds) * count / _PILOT
            if expected > max(limit, 1.0):
                raise CancelledError(f"ranking the items for {count:,} rows takes about {expected:,.0f} s")
            begun = time.monotonic()
        pairs = zip(trial.models, folds, strict=True)
        trial.values = np.mean([self._values(*pair, self.few if few else None) for pair in pairs], axis=0)
        trial.score_seconds, trial.rows = time.monotonic() - begun, count

    def _values(self, model: Model, fold: Fold, rows: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Returns the metric of each of the rows of a split; None = all."""
        found = evaluate(
            model, fold.inputs, fold.held_out, self.metric, rows=rows, exclude="input", per_row=True, **self.options
        )
        values: NDArray[np.float64] = found[self.metric]
        return values

    def _keep(self, trial: Trial) -> None:
        """Keeps the model of a trial if it is better than the one that its family has, else drops it.

        The first settings of a family are good for many datasets. Others replace them only if they are better by more
        than the standard error, since the best of many is partly the luckiest, or if they are confirmed later.
        """
        assert trial.values is not None
        family, lucky = trial.recipe.family, self.lucky
        old = self.best.get(family)
        if old is None or old.values is None:
            self.best[family] = trial
        elif _blending.is_better(trial.values, old.values):
            self.best[family], old.models = trial, []
        elif self.task.fresh and family != "autoencoder" and trial.value > max(old.value, lucky.value if lucky else 0):
            if lucky:
                lucky.models = []
            self.lucky = trial
        else:
            trial.models = []

    def confirm(self) -> None:
        """Keeps the lucky trial of a family if it is better than the best on splits that have chosen neither."""
        lucky, self.lucky = self.lucky, None
        if lucky is None:
            return
        old = self.best[lucky.recipe.family]
        if lucky.value > old.value and self._is_confirmed(lucky, old):
            self.best[lucky.recipe.family], old.models = lucky, []
        else:
            lucky.models = []

    def _is_confirmed(self, lucky: Trial, old: Trial) -> bool:
        """Compares two recipes on the fresh splits."""
        limit = 2 * (lucky.seconds + lucky.score_seconds) + 0.5
        if 2 * limit > self.slack():
            self.decided.append(f"{lucky.recipe.family} ({lucky.recipe.settings}) was not confirmed")
            return False
        found = [Trial(lucky.recipe), Trial(old.recipe)]
        try:
            for trial in found:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._make(trial, limit, False, self.task.fresh)
                trial.models = []
        except (DsstneError, MemoryError) as error:
            if isinstance(error, CancelledError):
                self.decided.append(f"{lucky.recipe.family} ({lucky.recipe.settings}) was not confirmed")
            return False
        return found[0].value > found[1].value


def whole_refits(parts: Sequence[Trial]) -> float:
    """Returns the time of refits as short as quality allows: a shorter training costs quality, other ways do not."""
    return sum(one.refits[0][1] if one.recipe.family == "autoencoder" else one.cheapest for one in parts)


def _reason(error: BaseException, limit: float) -> str:
    """Returns the first sentence of an error for the table."""
    if isinstance(error, CancelledError):
        return f"not finished in the {limit:.1f} s that were left for it: {error}"
    return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _noted(trial: Trial) -> Iterator[None]:
    """Writes warnings of a block into the note of a trial."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    trial.note = "; ".join(dict.fromkeys(str(warning.message) for warning in caught))


class _Peak:
    """Measures by how many bytes the memory of the process grows in a block, by looking at it 50 times a second.

    Attributes:
        bytes: The result, or None where the system does not tell.
    """

    bytes: int | None = None

    def __enter__(self) -> _Peak:
        self._end = threading.Event()
        self._before = _resident()
        if self._before is not None:
            self.bytes = 0
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._end.wait(0.02):
            self._look()

    def _look(self) -> None:
        now = _resident()
        if now is not None and self._before is not None:
            self.bytes = max(self.bytes or 0, now - self._before)

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._before is not None:
            self._thread.join()
            self._look()


def _resident() -> int | None:
    """Returns the resident memory of the process in bytes, or None."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * mmap.PAGESIZE
