"""A search for the settings of a network: dsstne.search."""

from __future__ import annotations

import math
import queue
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from dsstne import _candidates, _checks, _recipes, _space, _validation
from dsstne._candidates import FALL, Data, Lengths, Outcome
from dsstne._handles import Undo
from dsstne._store import Store
from dsstne._study import Study, Trial, drive
from dsstne.dataset import open_dataset
from dsstne.errors import CancelledError, DsstneError, InvalidArgumentError, InvalidDataError
from dsstne.progress import Budget
from dsstne.report import Report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from dsstne._halving import Job
    from dsstne._validation import Task
    from dsstne.model import Model

__all__ = ["search"]

_UNITS = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0, "trial": 0.0}
_RESERVE = 1.15  # times the expected time of the refit is kept for it


def search(
    X: Any,
    space: Any,
    *,
    budget: Any = "5 min",
    metric: str = "ndcg@20",
    times: Any = None,
    validation: Any = None,
    items: Sequence[str] | ArrayLike | None = None,
    epochs: int | str = "auto",
    rungs: int | str = "auto",
    eta: int = 3,
    brackets: int = 1,
    jobs: int = 1,
    refit: bool = True,
    store: str | os.PathLike[str] | None = None,
    disk_limit: int | None = None,
    sampler: Callable[[int], Any] | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: bool = True,
    **options: Any,
) -> Model:
    """Searches for the best settings of a network, and returns a network that is trained with them.

    It tries many settings with short trainings, and goes on with the best third for three times as long, and so forth
    (asynchronous successive halving, Li et al., MLSys 2020). Optuna draws the settings: at random at first, then near
    those that did well. A training goes on where it was paused, with the same bits as one that was never paused.

    All trainings run at a constant rate. What is measured is a fork whose rate falls to 0 in the last fifth of its
    steps, which is a complete, shorter training. The code in the report makes such a model with :func:`dsstne.fit`;
    where a rung ends within an epoch, it trains to the end of the epoch. The page docs/search.md shows how well the
    order of short trainings agrees with that of long ones.

    With a budget of trials, the result follows from the arguments and the seed, on one kind of machine. With a budget
    of seconds, time decides how many settings are tried.

    Args:
        X: Interaction matrix [rows, items], as for :func:`dsstne.fit`, or :class:`dsstne.Interactions`.
        space: What to try. A mapping from arguments of :func:`dsstne.fit` to a list of choices, a pair ``(low, high)``
            of integers or floats, ``(low, high, "log")``, or a distribution of Optuna or of SciPy; Optuna is needed
            (``pip install 'dsstne[search]'``). Or a list of mappings from arguments to values, all of which are tried.
        budget: ``"10 min"``, ``"300 s"``, ``"2 h"``, in which the refit is included, or ``"100 trials"``; both, as
            ``{"seconds": 300, "trials": 100}``, end the search at the first. A search of a list ends with the list.
        metric: What to choose by: a metric of :func:`dsstne.evaluate` except coverage.
        times, validation, items: As in :func:`dsstne.auto`, which also says how items are held out of X.
        epochs: Length of a whole training, the last rung; ``"auto"`` as in :func:`dsstne.fit`.
        rungs: Number of rungs; only the best trials continue after a rung. ``"auto"`` chooses at most 4, so that the
            first rung has about 60 steps or more. 1 = each trial is a whole training.
        eta: One in ``eta`` trials goes on to the next rung, whose training is ``eta`` times as long.
        brackets: Number of different rungs at which trials begin. More than 1 is Hyperband, which relies less on short
            trainings.
        jobs: Number of trials that train at the same time, which share the threads.
        refit: Train the best settings on all of X in the end; False returns the best model as it was tried.
        store: A folder for checkpoints and the journal, with which the same call goes on with a search that was
            stopped, even by a kill. None = a temporary folder.
        disk_limit: Most bytes of checkpoints of paused trials; None = half of the free space. Above the limit those of
            the worst trials are deleted, and would train again if they were needed.
        sampler: A function from a seed to a sampler of Optuna; None = ``optuna.samplers.TPESampler``.
        seed: Seed of the search. That of a trial follows from it and the number of the trial.
        devices, threads: As in :func:`dsstne.fit`.
        memory_limit: Maximum bytes of each training; a trial whose plan needs more fails.
        progress: Show a progress bar in terminals and notebooks, or a line every 30 seconds if stderr is a file.
        **options: Arguments of :func:`dsstne.fit` that all trials have.

    Returns:
        The model. Its attribute ``report``, a :class:`dsstne.report.Report`, has a row for each result of each trial,
        the best settings as code, and a plot. A trial that failed, for example because its loss diverged, is listed
        with the reason. After Ctrl-C, the model is the best so far as it was tried; the report says so.

    Raises:
        InvalidArgumentError: An argument is not valid, or the store has another search.
        InvalidDataError: X is damaged, or too small to hold out items.
        BusyError: Another search is using the store.
        InputOutputError: The journal cannot be written.
        ImportError: ``space`` is to be drawn from, and Optuna is not installed.
        DsstneError: All trials failed; the error is that of the first one.
        KeyboardInterrupt: Ctrl-C before the first result.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((9, 6))).astype(np.float32))
        >>> space = [{"hidden": 4}, {"hidden": 8, "learning_rate": 0.01}, {"hidden": 8, "denoising": 0.2}]
        >>> model = dsstne.search(X, space, metric="ndcg@5", epochs=8, progress=False)
        >>> len(model.report.table), model.report.metric
        (3, 'ndcg@5')
    """
    clock = Clock()
    limits = limits_of(budget)
    metric, progress = _validation.check_metric(metric), _checks.boolean(progress, "progress")
    refit = _checks.boolean(refit, "refit")
    seed, jobs = _checks.integer(seed, "seed", 0), _checks.integer(jobs, "jobs", 1)
    limit = None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1)
    disk = None if disk_limit is None else _checks.integer(disk_limit, "disk_limit", 0)
    source = source_of(space, sampler)
    _space.check_names(options, "search()")
    given = _validation.given(X, items, times, validation)
    compute = {"devices": devices, "threads": threads, "memory_limit": limit}
    _validation.try_metric(given, metric, compute)
    task = _validation.prepare(given.X, given.times, validation, seed, most_folds=1)
    if task.problem:
        raise InvalidDataError(f"X cannot be searched with: {task.problem}")
    lengths = Lengths.choose(task.train.shape[0], epochs, rungs, _checks.integer(eta, "eta", 2), options)
    fold = task.folds[0]
    with Undo() as undo:
        opened = Store(store, disk)
        undo.callback(opened.close)
        train, inputs, held_out = _open(undo, fold.train, fold.inputs, fold.held_out)
        data = Data(train, inputs, held_out, given.items, metric)
        study = Study(
            source,
            options,
            lengths,
            limits.get("trials"),
            _checks.integer(brackets, "brackets", 1),
            None if "seconds" in limits else jobs,
            seed,
            metric,
            opened,
            "" if store is None else " ".join(one._digest() for one in (train, inputs, held_out)),
        )
        clock.begin(study, lengths, limits.get("seconds"), refit)
        bar = Budget("search", limits.get("seconds"), progress)
        undo.callback(bar.close)
        return _finished(_Local(study, data, lengths, opened, compute, jobs, clock, bar), task, given, compute, refit)


def source_of(space: Any, sampler: Callable[[int], Any] | None) -> _space.Source:
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
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+?)s?\s*", budget)
        unit = found[2] if found and found[2] in _UNITS else "s" if found and not found[2] else None
        if found is None or unit is None:
            raise InvalidArgumentError(f"budget: expected {wanted}, not {_checks.shown(budget)}")
        if unit != "trial":
            return {"seconds": _checks.duration(float(found[1]) * _UNITS[unit], "budget")}
        count = float(found[1])
        return {"trials": _checks.integer(int(count) if count == int(count) else count, "budget: trials", 1)}
    if not _checks.is_mapping(budget) or not budget or not set(budget) <= {"seconds", "trials"}:
        raise InvalidArgumentError(f"budget: expected {wanted}, not {_checks.shown(budget)}")
    limits: dict[str, Any] = {}
    if "seconds" in budget:
        limits["seconds"] = _checks.duration(budget["seconds"], "budget: seconds")
    if "trials" in budget:
        limits["trials"] = _checks.integer(budget["trials"], "budget: trials", 1)
    return limits


def _open(undo: Undo, *matrices: Any) -> list[Any]:
    """Opens matrices once for all trials."""
    opened: dict[int, Any] = {}
    for matrix in matrices:
        if id(matrix) not in opened:
            opened[id(matrix)], made = open_dataset(matrix, "X")
            if made:
                undo.callback(opened[id(matrix)].close)
    return [opened[id(matrix)] for matrix in matrices]


class Clock:
    """How much time a search has left, and how long its parts take. It starts when it is made.

    Attributes:
        start: When it was started.
    """

    def __init__(self) -> None:
        self.start = time.monotonic()
        self._seconds: float | None = None

    def begin(self, study: Study, lengths: Lengths, seconds: float | None, refit: bool) -> None:
        """Says what the time is for.

        Args:
            study: The search.
            lengths: The lengths of trainings.
            seconds: The budget, or None.
            refit: Keep time for the refit of the best settings.
        """
        self._study, self._lengths, self._seconds, self._refit = study, lengths, seconds, refit

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def left(self) -> float:
        """Returns the seconds that are left for trials."""
        if self._seconds is None:
            return math.inf
        left = 0.99 * self._seconds - self.elapsed
        best = self._study.best
        if not self._refit or best is None:
            return left
        number, rung = best
        return left - _RESERVE * self.seconds_of(number, self._lengths.steps(rung, self._batch_size(number)))

    def needed(self, job: Job) -> float:
        """Predicts the time of a job; 0 without a budget of time, or if nothing is known."""
        if self._seconds is None:
            return 0.0
        batch_size = self._batch_size(job.candidate)
        if batch_size < 1:
            return 0.0  # training will say what is wrong
        before = 0.0 if job.before is None else (1 - FALL) * self._lengths.steps(job.before, batch_size)
        return self.seconds_of(job.candidate, self._lengths.steps(job.rung, batch_size) - before)

    def _batch_size(self, number: int) -> int:
        given = self._study.trials[number].settings.get("batch_size", 512)
        return int(given) if _checks.is_number(given) else 0

    def seconds_of(self, number: int, steps: float) -> float:
        """Predicts the time of some steps of a trial, by those that it or the slowest other one has done."""
        trials = self._study.trials
        if not any(outcome.epochs for outcome in trials[number].outcomes.values()):
            known = [other for other, trial in trials.items() if any(one.epochs for one in trial.outcomes.values())]
            return max((self.seconds_of(other, steps) for other in known), default=0.0)
        outcomes = [outcome for _, outcome in sorted(trials[number].outcomes.items()) if outcome.epochs]
        # Each training begins where the rung before ended, without the steps that cooled down.
        done = sum(outcome.epochs for outcome in outcomes) - (1 - FALL) * sum(one.epochs for one in outcomes[:-1])
        per_epoch = -(-self._lengths.rows // self._batch_size(number))
        return steps * sum(outcome.seconds for outcome in outcomes) / (done * per_epoch)


class _Local:
    """The trials of a search in this process.

    Attributes:
        model: The model of the best result, if it was made in this process.
        interrupted: Whether Ctrl-C has ended the search.
        out_of_time: Whether the budget of seconds has.
    """

    def __init__(
        self,
        study: Study,
        data: Data,
        lengths: Lengths,
        store: Store,
        compute: Mapping[str, Any],
        jobs: int,
        clock: Clock,
        bar: Budget,
    ) -> None:
        self.study, self.data, self.lengths, self.store, self.clock, self.bar = study, data, lengths, store, clock, bar
        self._compute, self._jobs = compute, jobs
        self.model: Model | None = None
        self.interrupted = self.out_of_time = False
        self._done: queue.SimpleQueue[tuple[Job, Outcome | BaseException]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._pool: ThreadPoolExecutor | None = None  # one trial at a time needs none

    def run(self) -> None:
        """Runs the trials until the budget is used up, or Ctrl-C."""
        try:
            if self._jobs > 1:
                self._pool = ThreadPoolExecutor(self._jobs, "dsstne-search")
            drive(self.study, self._workers, self._submit, self._finished, self._take)
        except KeyboardInterrupt:
            if self.study.best is None:
                raise
            self.interrupted = True
        finally:
            self._stop.set()
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)

    def _workers(self) -> int:
        self.out_of_time = self.out_of_time or self.clock.left() <= 0
        return 0 if self.out_of_time else self._jobs

    def _submit(self, job: Job) -> None:
        needed = self.clock.needed(job)
        if needed > self.clock.left():
            self.out_of_time = self.out_of_time or job.before is None  # others would take as long
            self._done.put((job, Outcome(note=f"not begun: it would take about {needed:,.0f} s", finished=False)))
        elif self._pool is None:
            self._work(job)
        else:
            self._pool.submit(self._work, job)

    def _work(self, job: Job) -> None:
        try:
            self._done.put((job, self._advance(job)))
        except BaseException as error:
            if self._pool is None and not isinstance(error, CancelledError):
                raise
            self._done.put((job, error))

    def _advance(self, job: Job) -> Outcome:
        trial = self.study.trials[job.candidate]
        last = job.rung == self.lengths.rungs - 1
        return _candidates.advance(
            self.data,
            trial.settings,
            self.lengths,
            job.rung,
            trial.seed,
            self._compute,
            source=None if job.before is None else self.store.checkpoint(job.candidate, job.before),
            target=None if last else self.store.checkpoint(job.candidate, job.rung),
            limit=self.clock.left,
            glance=self._glance,
        )

    def _glance(self, _: Any) -> None:
        if self._stop.is_set():
            raise CancelledError("the search has ended")

    def _finished(self) -> Iterable[tuple[Job, Outcome]]:
        job, found = self._done.get()
        if isinstance(found, CancelledError):
            found = Outcome(note="not finished: the time was over", finished=False)
        if isinstance(found, BaseException):
            raise found
        return [(job, found)]

    def _take(self, job: Job, outcome: Outcome) -> None:
        model = outcome.model
        if not self.study.tell(job, outcome):
            if model is not None:
                model.close()
        else:
            self.model, old = model, self.model
            if old is not None:
                old.close()
        self.study.tidy()
        best = "" if self.study.best is None else f"best {self.study.best_outcome().value:.4f}"
        self.bar.update(f"{len(self.study.trials)} trials", best)


def _finished(local: _Local, task: Task, given: _validation.Given, compute: Mapping[str, Any], refit: bool) -> Model:
    """Runs the search, and returns its model with the report."""
    local.run()
    study, lengths = local.study, local.lengths
    if study.best is None:
        raise no_result(study, local.out_of_time)
    number, rung = study.best
    trial = study.trials[number]
    recipe = recipe_of(trial, lengths, rung)
    model, unmade = local.model, list[str]()
    if refit and not local.interrupted:
        local.bar.update("refit", f"best {study.best_outcome().value:.4f}")
        try:
            refitted = recipe.make(task.whole, {"items": given.items, "seed": trial.seed, **compute})
            if model is not None:
                model.close()
            model = refitted
        except (KeyboardInterrupt, DsstneError, MemoryError) as error:
            unmade.append(
                f"there was no refit, and the model is the best as it was tried: {type(error).__name__} {error}"
            )
    if model is None:  # the best result is that of an earlier call
        found = _candidates.advance(local.data, trial.settings, lengths, rung, trial.seed, compute)
        if found.model is None:
            raise DsstneError(f"the best trial could not be trained again: {found.note}")
        model = found.model
    notes = [*task.notes, *notes_of(study, local.interrupted), *unmade]
    code = code_of(recipe, trial, given.begin + task.preparation, given.items is not None, compute["devices"])
    model.report = report_of(study, task.split, code, local.clock, notes, task.rows)
    if not local.interrupted:
        local.store.clear()
    return model


# ---- what a search on a cluster does in the same way ----


def no_result(study: Study, out_of_time: bool) -> DsstneError:
    """Returns the error for a search without any result."""
    reasons = [outcome.note for trial in study.trials.values() for outcome in trial.outcomes.values()]
    if out_of_time:
        return CancelledError(f"the budget was over before the first trial was measured; {'; '.join(reasons[:1])}")
    return DsstneError(f"all {len(study.trials)} trials failed; the first one: {reasons[0]}")


def notes_of(study: Study, interrupted: bool) -> list[str]:
    """Returns notes for the report on how the search went."""
    notes = [f"{study.restored} results are those of an earlier call"] if study.restored else []
    if interrupted:
        notes.append(
            "Ctrl-C ended the search; the model is the best so far, trained without the held-out items. The code below "
            "makes it from all data"
        )
    return notes


def recipe_of(trial: Trial, lengths: Lengths, rung: int) -> _recipes.Recipe:
    """Returns the call of fit() that trains as long as a trial up to a rung, in whole epochs."""
    batch_size = trial.settings.get("batch_size", 512)
    per_epoch = -(-lengths.rows // batch_size)
    schedule = lengths.schedule(rung, batch_size)
    total = schedule["warmup_steps"] + schedule["hold_steps"] + schedule["steps"]
    epochs = -(-total // per_epoch)
    schedule["hold_steps"] += epochs * per_epoch - total
    del schedule["steps"]  # what is left
    return _recipes.Recipe.of("autoencoder", **trial.settings, epochs=epochs, schedule=schedule)


def code_of(recipe: _recipes.Recipe, trial: Trial, preparation: str, named: bool, devices: Any) -> str:
    """Returns Python that makes the model again."""
    texts = {"items": "items"} if named else {}
    texts |= {"seed": repr(trial.seed)}
    texts |= {} if devices in (None, "auto") else {"devices": repr(devices)}
    return f"import dsstne\n\n{preparation}model = {recipe.code(texts)}\n"


def report_of(study: Study, split: str, code: str, clock: Clock, notes: Sequence[str], rows: int) -> Report:
    """Returns the report; ``rows`` is the number of validation rows."""
    assert study.best is not None
    table = study.table(rows)
    return Report(study.metric, split, f"trial {study.best[0]}", code, clock.elapsed, table, notes)
