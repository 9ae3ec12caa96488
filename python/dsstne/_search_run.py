"""A search from its arguments to its model: the same wherever the trials train, which a :class:`Place` knows."""

from __future__ import annotations

import inspect
import math
import re
import time
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from dsstne import _candidates, _checks, _space, _validation, api
from dsstne._candidates import FALL, Data, Lengths, Outcome
from dsstne._halving import Job
from dsstne._recipes import Recipe
from dsstne._study import Study, Trial, drive
from dsstne.errors import CancelledError, DsstneError, InvalidArgumentError, InvalidDataError
from dsstne.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from dsstne._store import Store
    from dsstne._validation import Given, Task
    from dsstne.model import Model
    from dsstne.progress import Budget

OVER = "not finished: the time was over"
_UNITS = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_HIDDEN = inspect.signature(api.fit).parameters["hidden"].default
_RESERVE = 1.15  # times the expected time of the refit is kept for it
_MOST_REASONS = 3  # that a note of the report has


# ---- what is asked for ----


@dataclass(frozen=True)
class Arguments:
    """The arguments of :func:`dsstne.search` that all searches have, which are checked when the object is made.

    Attributes:
        compute: ``devices``, ``threads`` and ``memory_limit``; after the check without those that are None.
        source: Where settings come from, by ``space`` and ``sampler``.
        limits: ``seconds``, ``trials`` or both, by ``budget``.
        begun: When the search began, a time of ``time.monotonic``.
    """

    space: InitVar[Any]
    sampler: InitVar[Callable[[int], Any] | None]
    budget: InitVar[Any]
    options: dict[str, Any]
    compute: dict[str, Any]
    metric: str
    epochs: int | str
    rungs: int | str
    eta: int
    brackets: int
    refit: bool
    disk_limit: int | None
    seed: int
    progress: bool
    source: _space.Source = field(init=False)
    limits: dict[str, Any] = field(init=False)
    begun: float = field(init=False, default_factory=time.monotonic)

    def __post_init__(self, space: Any, sampler: Callable[[int], Any] | None, budget: Any) -> None:
        compute = {name: value for name, value in self.compute.items() if value is not None}
        if "memory_limit" in compute:
            compute["memory_limit"] = _checks.integer(compute["memory_limit"], "memory_limit", 1)
        checked: dict[str, Any] = {"compute": compute, "limits": limits_of(budget)}
        checked |= {"source": _source_of(space, sampler), "metric": _validation.check_metric(self.metric)}
        for name in ("refit", "progress"):
            checked[name] = _checks.boolean(getattr(self, name), name)
        for name, least in (("eta", 2), ("brackets", 1), ("seed", 0), ("disk_limit", 0)):
            value = getattr(self, name)
            none = name == "disk_limit" and value is None
            checked[name] = None if none else _checks.integer(value, name, least)
        _space.check_names(self.options, "search()")
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _source_of(space: Any, sampler: Callable[[int], Any] | None) -> _space.Source:
    """Returns where the settings of trials come from."""
    if sampler is not None and not callable(sampler):
        raise InvalidArgumentError(
            f"sampler: expected a function from a seed to a sampler of Optuna, not {_checks.shown(sampler)}; for "
            "example lambda seed: optuna.samplers.RandomSampler(seed=seed)"
        )
    if _checks.is_mapping(space):
        return _space.Drawn(space, sampler)
    wanted = "a mapping from arguments of fit() to what to try, or a list of settings"
    return _space.Listed(_checks.several(space, "space", wanted))


def limits_of(budget: Any) -> dict[str, Any]:
    """Returns the limits of a budget: ``seconds``, ``trials``, or both."""
    wanted = "'300 s', '10 min', '2 h', '100 trials', or {'seconds': 300, 'trials': 100}"
    limits = budget
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+?)s?\s*", budget)
        unit, number = found[2] if found else "", float(found[1]) if found else 0.0
        if unit == "trial":
            limits = {"trials": int(number) if number == int(number) else number}
        elif unit in _UNITS:
            limits = {"seconds": number * _UNITS[unit]}
    if not _checks.is_mapping(limits) or not limits or not set(limits) <= {"seconds", "trials"}:
        raise InvalidArgumentError(f"budget: expected {wanted}, not {_checks.shown(budget)}")
    limits = dict[str, Any](limits)
    if "seconds" in limits:
        limits["seconds"] = _checks.duration(limits["seconds"], "budget: seconds")
    if "trials" in limits:
        limits["trials"] = _checks.integer(limits["trials"], "budget: trials", 1)
    return limits


# ---- the data ----


@dataclass(frozen=True)
class About:
    """What a search tells of its data.

    Attributes:
        rows: Number of rows to learn from.
        measured: Number of validation rows.
        split, notes: See :class:`dsstne._validation.Task`.
        preparation: Lines of Python that make what the refit learns from.
        named: Whether the items have names.
        digest: What identifies the data in the journal.
        files: Names of the files in the store, by role, if the data are there.
    """

    rows: int
    measured: int
    split: str
    notes: list[str]
    preparation: str
    named: bool
    digest: str = ""
    files: dict[str, str] = field(default_factory=dict)


def split(
    X: Any, items: Any, times: Any, validation: Any, metric: str, seed: int, compute: Mapping[str, Any]
) -> tuple[Task, Given, About]:
    """Splits the data of a search, and tries the metric and ``compute``; see :func:`dsstne.search` for the arguments.

    Raises:
        InvalidArgumentError: The metric, an option of computing or the data are not valid.
        InvalidDataError: X is damaged, or too small to hold out items.
    """
    given = _validation.given(X, items, times, validation)
    _validation.try_metric(given, metric, compute)
    task = _validation.prepare(given.X, given.times, validation, seed, most_folds=1)
    if task.problem:
        raise InvalidDataError(f"X cannot be searched with: {task.problem}")
    begin, named = given.begin + task.preparation, given.items is not None
    return task, given, About(task.train.shape[0], task.rows, task.split, task.notes, begin, named)


# ---- where trials train ----


@dataclass(frozen=True)
class Training:
    """What a place of work is asked for.

    Attributes:
        job: The job: which trial, and up to which rung.
        settings, seed: Those of the trial.
        lengths: The lengths of trainings.
        source: The checkpoint of the rung before, or None.
        target: Where to write the checkpoint of this rung; None = nowhere.
        least: A model with a lower value than this is not needed.
    """

    job: Job
    settings: dict[str, Any]
    seed: int
    lengths: Lengths
    source: Path | None
    target: Path | None
    least: float

    def run(self, data: Data, compute: Mapping[str, Any], **more: Any) -> Outcome:
        """Does it here; ``more`` are other arguments of :func:`dsstne._candidates.advance`."""
        what = (self.settings, self.lengths, self.job.rung, self.seed)
        return _candidates.advance(data, *what, compute, source=self.source, target=self.target, **more)


class Place(Protocol):
    """A place where trials of a search train. It keeps the models of its results until :meth:`drop`."""

    def room(self) -> int:
        """Returns how many trainings may be under way at the same time, at least 1."""

    def begin(self, training: Training) -> None:
        """Begins a training, or does it at once."""

    def finished(self) -> Iterable[tuple[Job, Outcome]]:
        """Waits for trainings, and returns those that are done, or that the end of the time has ended."""

    def drop(self, number: int, rung: int) -> None:
        """Drops the model of a result."""

    def stop(self) -> None:
        """Ends the trainings that are under way."""

    def tried(self, training: Training) -> Model:
        """Returns the model of a result, which trains again if it is not there."""

    def refit(self, recipe: Recipe, seed: int) -> Model:
        """Trains a model of all data."""


# ---- time ----


class Pace:
    """How long the trainings of a search take.

    Args:
        study: The search.
        lengths: The lengths of trainings.
    """

    def __init__(self, study: Study, lengths: Lengths) -> None:
        self._study, self._lengths = study, lengths

    def batch_size_of(self, number: int) -> int:
        """Returns the batch size of a trial; 0 if it is not a number."""
        given = self._study.trials[number].settings.get("batch_size", 512)
        return int(given) if _checks.is_number(given) else 0

    def _units_of(self, number: int) -> int:
        """Returns the number of hidden units of a trial, at least 1."""
        hidden = self._study.trials[number].settings.get("hidden", _HIDDEN)
        sizes = hidden if isinstance(hidden, (list, tuple)) else [hidden]
        return max(1, sum(int(size) for size in sizes if _checks.is_number(size)))

    def seconds_of(self, number: int, steps: float) -> float:
        """Predicts the time of some steps of a trial, by those that it or the slowest other one has done.

        A network with more hidden units than another one takes longer in proportion to them.
        """
        trials = self._study.trials
        if not any(outcome.epochs for outcome in trials[number].outcomes.values()):
            known = [other for other, trial in trials.items() if any(one.epochs for one in trial.outcomes.values())]
            larger = [max(1.0, self._units_of(number) / self._units_of(other)) for other in known]
            return max((n * self.seconds_of(other, steps) for n, other in zip(larger, known, strict=True)), default=0.0)
        outcomes = [outcome for _, outcome in sorted(trials[number].outcomes.items()) if outcome.epochs]
        # Each training begins where the rung before ended, without the steps that cooled down.
        done = sum(outcome.epochs for outcome in outcomes) - (1 - FALL) * sum(one.epochs for one in outcomes[:-1])
        per_epoch = -(-self._lengths.rows // self.batch_size_of(number))
        return steps * sum(outcome.seconds for outcome in outcomes) / (done * per_epoch)


class Clock(Pace):
    """How much time a search has left, and how long its parts take.

    Args:
        study: The search.
        lengths: The lengths of trainings.
        asked: Has the budget, whether time is kept for the refit, and when the search began.
    """

    def __init__(self, study: Study, lengths: Lengths, asked: Arguments) -> None:
        super().__init__(study, lengths)
        self._seconds: float | None = asked.limits.get("seconds")
        self._refit, self._begun = asked.refit, asked.begun

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begun

    def left(self) -> float:
        """Returns the seconds that are left for trials."""
        if self._seconds is None:
            return math.inf
        left = 0.99 * self._seconds - self.elapsed
        best = self._study.best
        if not self._refit or best is None:
            return left
        number, rung = best
        return left - _RESERVE * self.seconds_of(number, self._lengths.steps(rung, self.batch_size_of(number)))

    def needed(self, job: Job) -> float:
        """Predicts the time to train and to measure; 0 without a budget of time, or if nothing is known."""
        if self._seconds is None:
            return 0.0
        batch_size = self.batch_size_of(job.candidate)
        if batch_size < 1:
            return 0.0  # training will say what is wrong
        steps = self._lengths.steps_from(job.before, job.rung, batch_size)
        return self.seconds_of(job.candidate, steps) + self._score_seconds_of(job.candidate)

    def _score_seconds_of(self, number: int) -> float:
        """Predicts the time to measure a trial, which does not depend on the rung."""
        trials = self._study.trials
        known = [trials[number]] if trials[number].outcomes else trials.values()
        return max((one.score_seconds for trial in known for one in trial.outcomes.values()), default=0.0)


# ---- the search ----


class Run:
    """A search.

    Args:
        asked: What is asked for.
        about: The data.
        store: The folder of the search.
        jobs: Most trials at the same time, on which the result depends if the budget is a number of trials.
        bar: Shows the progress.

    Attributes:
        clock: How much time is left.
    """

    def __init__(self, asked: Arguments, about: About, store: Store, jobs: int, bar: Budget) -> None:
        self._asked, self._about, self._store, self._bar = asked, about, store, bar
        self._lengths = lengths = Lengths.choose(about.rows, asked.epochs, asked.rungs, asked.eta, asked.options)
        trials, counted = asked.limits.get("trials"), None if "seconds" in asked.limits else jobs
        given = (asked.source, asked.options, lengths, trials, asked.brackets, counted, asked.seed, asked.metric)
        self._study = Study(*given, store, about.digest)
        self.clock = Clock(self._study, lengths, asked)
        self._declined: list[tuple[Job, Outcome]] = []
        self._interrupted = self._out_of_time = False

    def model(self, place: Place) -> Model:
        """Runs the trials at a place, and returns the best model with the report."""
        study = self._study
        self._place = place
        try:
            drive(study, self._workers, self._submit, self._finished, self._take)
        except KeyboardInterrupt:
            if study.best is None:
                raise
            self._interrupted = True
        finally:
            place.stop()
        if study.best is None:
            raise self._no_result()
        number, rung = study.best
        trial = study.trials[number]
        recipe = recipe_of(trial, self._lengths, rung)
        model, notes = None, self._notes()
        done = not (self._interrupted or self._out_of_time or study.unfinished)
        if self._asked.refit and not self._interrupted:
            self._show("refit")
            try:
                model = place.refit(recipe, trial.seed)
            except (KeyboardInterrupt, DsstneError, MemoryError) as error:
                why = f"{type(error).__name__} {error}"
                notes.append(f"there was no refit, and the model is the best as it was tried: {why}")
                done = False
        if model is None:
            again = self._training(Job(-1, number, rung))
            model = place.tried(replace(again, target=None, least=-math.inf))
        else:
            place.drop(number, rung)
        code = _code_of(recipe, trial, self._about, self._asked.compute.get("devices"))
        table = study.table(self._about.measured)
        model.report = Report(
            study.metric, self._about.split, f"trial {number}", code, self.clock.elapsed, table, notes
        )
        if done:  # otherwise the same call goes on with what the store has
            self._store.clear()
        return model

    # ---- what drive() calls ----

    def _workers(self) -> int:
        self._out_of_time = self._out_of_time or self.clock.left() <= 0
        return 0 if self._out_of_time else self._place.room()

    def _submit(self, job: Job) -> None:
        needed = self.clock.needed(job)
        if needed > self.clock.left():
            self._out_of_time = self._out_of_time or job.before is None  # others would take as long
            outcome = Outcome(note=f"not begun: it would take about {needed:,.0f} s", finished=False)
            self._declined.append((job, outcome))
        else:
            self._place.begin(self._training(job))

    def _training(self, job: Job) -> Training:
        trial, last = self._study.trials[job.candidate], job.rung == self._lengths.rungs - 1
        source = None if job.before is None else self._study.checkpoint(job.candidate, job.before)
        target = None if last else self._study.checkpoint(job.candidate, job.rung)
        least = -math.inf if self._study.best is None else self._study.best_outcome().value
        return Training(job, trial.settings, trial.seed, self._lengths, source, target, least)

    def _finished(self) -> Iterable[tuple[Job, Outcome]]:
        declined, self._declined = self._declined, []
        return declined or self._place.finished()

    def _take(self, job: Job, outcome: Outcome) -> None:
        before = self._study.best
        worse = before if self._study.tell(job, outcome) else (job.candidate, job.rung)
        if worse is not None:
            self._place.drop(*worse)
        count = len(self._study.trials)
        self._show(f"{count} trial{'s' * (count > 1)}")

    # ---- what it tells ----

    def _show(self, now: str) -> None:
        best = "" if self._study.best is None else f"best {self._study.best_outcome().value:.4f}"
        self._bar.update(now, best)

    def _no_result(self) -> DsstneError:
        study = self._study
        failed = [outcome.note for trial in study.trials.values() for outcome in trial.outcomes.values()]
        reasons = [*failed, *(outcome.note for _, outcome in study.unfinished)]
        if self._out_of_time:
            return CancelledError(f"the budget was over before the first trial was measured; {'; '.join(reasons[:1])}")
        return DsstneError(f"all {len(study.trials)} trials failed; the first one: {reasons[0]}")

    def _notes(self) -> list[str]:
        study = self._study
        notes = list(self._about.notes)
        if study.restored:
            notes.append(f"{study.restored} results are those of an earlier call")
        if study.unfinished:
            reasons = [f"trial {job.candidate}: {outcome.note}" for job, outcome in study.unfinished]
            more = [f"and {len(reasons) - _MOST_REASONS} more"] if len(reasons) > _MOST_REASONS else []
            notes.append(
                "trainings that have no result, with which the same call goes on if it has a store: "
                + "; ".join(reasons[:_MOST_REASONS] + more)
            )
        if self._interrupted:
            notes.append(
                "Ctrl-C ended the search; the model is the best so far, trained without the held-out items. The code "
                "below makes it from all data"
            )
        return notes


def recipe_of(trial: Trial, lengths: Lengths, rung: int) -> Recipe:
    """Returns the call of fit() that trains as long as a trial up to a rung, in whole epochs."""
    batch_size = trial.settings.get("batch_size", 512)
    per_epoch = -(-lengths.rows // batch_size)
    schedule = lengths.schedule(rung, batch_size)
    total = schedule["warmup_steps"] + schedule["hold_steps"] + schedule["steps"]
    epochs = -(-total // per_epoch)
    schedule["hold_steps"] += epochs * per_epoch - total
    del schedule["steps"]  # what is left
    return Recipe.of("autoencoder", **trial.settings, epochs=epochs, schedule=schedule)


def _code_of(recipe: Recipe, trial: Trial, about: About, devices: Any) -> str:
    """Returns Python that makes the model again."""
    texts = {"items": "items"} if about.named else {}
    texts |= {"seed": repr(trial.seed)}
    texts |= {} if devices in (None, "auto") else {"devices": repr(devices)}
    return f"import dsstne\n\n{about.preparation}model = {recipe.code(texts)}\n"
