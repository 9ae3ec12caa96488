"""A search for the settings of a network: dsstne.search."""

from __future__ import annotations

import contextvars
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _native
from dsstne._candidates import Data, Outcome
from dsstne._handles import Undo
from dsstne._search_run import OVER, Arguments, Run, split
from dsstne._store import Store
from dsstne.dataset import open_dataset
from dsstne.errors import CancelledError, DsstneError
from dsstne.progress import Budget

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from dsstne._halving import Job
    from dsstne._recipes import Recipe
    from dsstne._search_run import Training
    from dsstne.model import Model

__all__ = ["search"]

JOBS = 4  # trials at the same time, unless the call says it


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
    jobs: int | None = None,
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
        metric: What to choose by: a metric of :func:`dsstne.evaluate` with a length of the list, except coverage.
        times, validation, items: As in :func:`dsstne.auto`, which also says how items are held out of X.
        epochs: Length of a whole training, the last rung; ``"auto"`` as in :func:`dsstne.fit`.
        rungs: Number of rungs; only the best trials continue after a rung. ``"auto"`` chooses at most 4, so that the
            first rung has about 60 steps or more. 1 = each trial is a whole training.
        eta: One in ``eta`` trials goes on to the next rung, whose training is ``eta`` times as long.
        brackets: Number of different rungs at which trials begin. More than 1 is Hyperband, which relies less on short
            trainings.
        jobs: The largest number of trials that train at the same time; they share the threads. None = 4. With None,
            fewer train at the same time if the CPU has fewer threads, if their memory would be more than half of what
            is free, or on CUDA devices; the result is the same.
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
        with the reason. After Ctrl-C, or if the refit fails, the model is the best so far as it was tried; the report
        says so. Trials that had no time to go on are in the notes; the same call goes on with them in its ``store``.

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
    where = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
    arguments = Arguments(
        space, sampler, budget, options, where, metric, epochs, rungs, eta, brackets, refit, disk_limit, seed, progress
    )
    compute = arguments.compute
    most, at_once = (JOBS, None) if jobs is None else (_checks.integer(jobs, "jobs", 1),) * 2
    task, given, about = split(X, items, times, validation, arguments.metric, arguments.seed, compute)
    fold = task.folds[0]
    with Undo() as undo:
        opened = Store(store, arguments.disk_limit)
        undo.callback(opened.close)
        train, inputs, held_out = parts = _open(undo, fold.train, fold.inputs, fold.held_out)
        if store is not None:
            about = replace(about, digest=" ".join(part._digest() for part in parts))
        bar = Budget("search", arguments.limits.get("seconds"), arguments.progress)
        undo.callback(bar.close)
        run = Run(arguments, about, opened, most, bar)
        data = Data(train, inputs, held_out, given.items, arguments.metric)
        return run.model(_Threads(data, task.whole, compute, at_once, run.clock.left))


def _jobs(compute: Mapping[str, Any]) -> tuple[int, int]:
    """Returns how many trials may train at the same time, and how much memory they may take together."""
    about = _native.call_json("describe")
    on_cpu = compute.get("devices", "auto") == "cpu" or all(
        device["name"] == "cpu" for device in about["devices"] if "missing" not in device
    )
    threads = compute.get("threads", about["cpu"]["threads"])
    return (min(JOBS, threads) if on_cpu else 1), max(1, about["memory"]["available"] // 2)


def _open(undo: Undo, *matrices: Any) -> list[Any]:
    """Opens matrices once for all trials."""
    opened: dict[int, Any] = {}
    for matrix in matrices:
        if id(matrix) not in opened:
            opened[id(matrix)], made = open_dataset(matrix, "X")
            if made:
                undo.callback(opened[id(matrix)].close)
    return [opened[id(matrix)] for matrix in matrices]


class _Threads:
    """Trials in threads of this process: a place of work, see :class:`dsstne._search_run.Place`.

    Args:
        data: The data of trials.
        whole: The data of the refit.
        compute: ``devices``, ``threads`` and ``memory_limit``.
        jobs: Number of trials at the same time; a single one trains in the thread that calls. None = up
            to ``JOBS``, if there are threads and memory for them.
        left: Returns the seconds that are left.
    """

    def __init__(
        self, data: Data, whole: Any, compute: Mapping[str, Any], jobs: int | None, left: Callable[[], float]
    ) -> None:
        self._data, self._whole, self._compute, self._left = data, whole, compute, left
        self._jobs, self._memory = (jobs, 0) if jobs is not None else _jobs(compute)
        self._largest = 0  # bytes of a training so far
        self._pool = ThreadPoolExecutor(self._jobs, "dsstne-search") if self._jobs > 1 else None
        self._models: dict[tuple[int, int], Model] = {}
        self._done: queue.SimpleQueue[tuple[Job, Outcome | BaseException]] = queue.SimpleQueue()
        self._stop = threading.Event()

    def room(self) -> int:
        if not self._memory:
            return self._jobs
        # The first training shows how much memory they take.
        return max(1, min(self._jobs, self._memory // self._largest)) if self._largest else 1

    def begin(self, training: Training) -> None:
        compute = dict(self._compute)
        if "threads" in compute:  # the engine shares those that no call claims
            compute["threads"] = max(1, compute["threads"] // self.room())
        if self._pool is None:
            self._work(training, compute)
        else:
            # In the context of the caller, by which Dask knows its workers, where a trial takes one of all devices.
            self._pool.submit(contextvars.copy_context().run, self._work, training, compute)

    def _work(self, training: Training, compute: Mapping[str, Any]) -> None:
        try:
            self._done.put((training.job, training.run(self._data, compute, limit=self._left, glance=self._glance)))
        except BaseException as error:
            if self._pool is None and not isinstance(error, CancelledError):
                raise
            self._done.put((training.job, error))

    def _glance(self, _: Any) -> None:
        if self._stop.is_set():
            raise CancelledError("the search has ended")

    def finished(self) -> Iterable[tuple[Job, Outcome]]:
        job, found = self._done.get()
        if isinstance(found, CancelledError):
            found = Outcome(note=OVER, finished=False)
        if isinstance(found, BaseException):
            raise found
        self._largest = max(self._largest, found.memory or 0)
        if found.model is not None:
            self._models[job.candidate, job.rung] = found.model
        return [(job, found)]

    def drop(self, number: int, rung: int) -> None:
        model = self._models.pop((number, rung), None)
        if model is not None:
            model.close()

    def stop(self) -> None:
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def tried(self, training: Training) -> Model:
        model = self._models.get((training.job.candidate, training.job.rung))
        if model is None:  # the best result is that of an earlier call
            found = training.run(self._data, self._compute)
            if found.model is None:
                raise DsstneError(f"the best trial could not be trained again: {found.note}")
            model = found.model
        return model

    def refit(self, recipe: Recipe, seed: int) -> Model:
        return recipe.make(self._whole, {"items": self._data.items, "seed": seed, **self._compute})
