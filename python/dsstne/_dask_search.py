"""A search whose trials train on the workers of a Dask cluster.

The client decides (:mod:`dsstne._study`) and sends tasks of some kilobytes. Data and checkpoints stay in the store, a
folder that all workers see: a task names files, and a trial goes on at the worker that has trained it before, if that
one is free, since the file is in its memory.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _dask_jobs, _search_run
from dsstne._candidates import Data, Outcome
from dsstne._dask_cluster import ask, client_of, failure, slot_given_up
from dsstne._dask_data import Parcel, path_of
from dsstne._dask_session import Session, Task, UnreachableError
from dsstne._handles import Undo
from dsstne._search_run import OVER, About, Arguments, Run, Training
from dsstne._store import Store, writing
from dsstne.dataset import Dataset
from dsstne.errors import ClusterError, DsstneError
from dsstne.model import load
from dsstne.progress import Budget

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dsstne._dask_data import DataHandle
    from dsstne._halving import Job
    from dsstne._recipes import Recipe
    from dsstne.model import Model

_RETRIES = 3  # how often a task may begin again after its worker died


# ---- tasks ----


def prepare(
    X: Any,
    store: str,
    metric: str,
    seed: int,
    times: Any = None,
    validation: Any = None,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
) -> About:
    """Splits the data and saves the parts in the store, as a task."""
    items = X.item_names if isinstance(X, Dataset) else None
    if isinstance(X, Dataset):  # of a file; the split is in memory
        X = X[:]
    compute = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
    task, given, about = _search_run.split(X, items, times, validation, metric, seed, compute)
    fold = task.folds[0]
    folder = Path(store) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    saved: dict[int, str] = {}
    files, digest = {}, ""
    parts = {"train": fold.train, "inputs": fold.inputs, "held_out": fold.held_out, "whole": task.whole}
    for role, matrix in parts.items():
        if id(matrix) not in saved:
            with Dataset(matrix) as data:
                name = f"{data._digest()[:32]}.arrow"
                digest += data._digest()
                if not (folder / name).exists():
                    data.save(folder / name, items=given.items)
            saved[id(matrix)] = name
        files[role] = saved[id(matrix)]
    return replace(about, digest=digest, files=files)


def try_settings(
    train: Any,
    inputs: Any,
    held_out: Any,
    training: Training,
    metric: str,
    model: str,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Outcome:
    """Trains a candidate up to a rung, as a task; see :func:`dsstne._candidates.advance`.

    Args:
        train, inputs, held_out, metric: See :class:`dsstne._candidates.Data`.
        training: What to train.
        model: Where to save the model if it may be needed.
        devices, threads, memory_limit: As in :func:`dsstne.fit`.
    """
    compute = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
    found = training.run(Data(train, inputs, held_out, train.item_names, metric), compute)
    if found.model is not None:
        if found.value >= training.least:
            with writing("the model of a trial could not be written"):
                found.model.save(model)
        found.model.close()
        found.model = None
    return found


def train_best(
    X: Any,
    recipe: Recipe,
    seed: int,
    path: str,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
) -> None:
    """Trains the model of the best settings, as a task, and saves it."""
    common = {"items": X.item_names, "seed": seed, "devices": devices, "threads": threads, "memory_limit": memory_limit}
    recipe.make(X, common).save(path)


# ---- the client ----


def search(
    client: Any,
    X: Any,
    times: Any,
    validation: Any,
    arguments: Arguments,
    store: str | os.PathLike[str],
    jobs: int | None,
    resources: Mapping[str, float] | None,
    workers: Sequence[str] | str | None,
) -> Model:
    """Does what :func:`dsstne.dask.search` says; ``arguments`` are those that it shares with :func:`dsstne.search`."""
    session = Session(client_of(client), workers, resources, "the search")
    with slot_given_up(limited="seconds" in arguments.limits), Undo() as undo:
        opened = Store(path_of(store, "store"), arguments.disk_limit)
        undo.callback(opened.close)
        window = _window(jobs, opened, session)
        bar = Budget("search", arguments.limits.get("seconds"), arguments.progress)
        undo.callback(bar.close)
        bar.update("split")
        parcel = Parcel(session, copies=True)
        data = {"X": parcel.add(X, "X")}
        for name, given in (("times", times), ("validation", validation)):
            if given is not None:
                data[name] = parcel.add(given, name, pair=name == "validation")
        options = {"store": str(opened.folder), "metric": arguments.metric, "seed": arguments.seed}
        options |= arguments.compute
        name = f"dsstne-search-{uuid.uuid4().hex[:8]}"
        about: About = _result(session, _task(session, name, prepare, data, options, "the split of the data", parcel))
        run = Run(arguments, about, opened, window, bar)
        tasks = _Tasks(session, name, opened, about, arguments, window if jobs is not None else None, run.clock.left)
        return run.model(tasks)


def _window(wanted: Any, store: Store, session: Session) -> int:
    """Returns how many trials may train at the same time without a change of the result.

    It is as before if the search goes on, else the number of workers.
    """
    if wanted is not None:
        return _checks.integer(wanted, "jobs", 1)
    before = store.header().get("number of jobs")
    return before if isinstance(before, int) else max(1, len(session.placement.eligible))


def _task(
    session: Session,
    name: str,
    function: Callable[..., Any],
    data: Mapping[str, DataHandle],
    options: Mapping[str, Any],
    what: str,
    parcel: Parcel,
    near: Sequence[str] = (),
) -> Task:
    """Submits a task of the search.

    Args:
        session: Sends the task.
        name: Begins the key of the task.
        function, data, options: What to call, with what.
        what: Name of the task in messages.
        parcel: Has the futures of the data.
        near: Workers that should run it.
    """
    work = _dask_jobs.Work(
        what=what,
        call=_dask_jobs.pack(function, dict(options)),
        data=dict(data),
        resources=session.placement.resources or {},
        share=True,
        retries=_RETRIES,
    )
    key = f"{name}-{what.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
    return _dask_jobs.sent(session, work, parcel, key, near)


def _result(session: Session, task: Task) -> Any:
    """Waits for a task and returns its result; cancels it if it does not come to one."""
    try:
        return session.result(task).value
    finally:
        task.release()


class _Tasks:
    """Trials as tasks on a cluster: a place of work, see :class:`dsstne._search_run.Place`.

    Args:
        session: Sends tasks and watches the workers.
        name: Begins the keys of tasks.
        store: Has the files of the data, checkpoints and models.
        about: The data.
        arguments: The arguments of the search.
        jobs: Number of trials at the same time; None = as there are workers.
        left: Returns the seconds that are left.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        store: Store,
        about: About,
        arguments: Arguments,
        jobs: int | None,
        left: Callable[[], float],
    ) -> None:
        self._session, self._name, self._folder, self._jobs, self._left = session, name, store.folder, jobs, left
        self._metric, self._compute = arguments.metric, arguments.compute
        self._tasks: dict[Task, Training] = {}
        self._where: dict[int, str] = {}  # the worker that has trained a trial last
        self._parcel = Parcel(session)
        files = about.files.items()
        self._data = {role: self._parcel.add(str(self._folder / "data" / file), role) for role, file in files}

    def _path_of(self, number: int, rung: int) -> Path:
        return self._folder / "models" / f"{number:06d}-{rung}.dsstne"

    def room(self) -> int:
        return max(1, len(self._session.living)) if self._jobs is None else self._jobs

    def begin(self, training: Training) -> None:
        self._tasks[self._sent(training)] = training

    def _sent(self, training: Training) -> Task:
        job = training.job
        model = str(self._path_of(job.candidate, job.rung))
        options = {"training": training, "metric": self._metric, "model": model, **self._compute}
        data = {role: self._data[role] for role in ("train", "inputs", "held_out")}
        what, near = f"trial {job.candidate} at rung {job.rung}", self._where.get(job.candidate)
        near_ = [] if near is None else [near]
        return _task(self._session, self._name, try_settings, data, options, what, self._parcel, near_)

    def finished(self) -> Iterable[tuple[Job, Outcome]]:
        done: list[tuple[Job, Outcome]] = []
        room = self.room()
        while not done and self.room() <= room:  # more workers take more trials at once
            self._session.wait(list(self._tasks), min(1.0, max(0.01, self._left())), "FIRST_COMPLETED")
            for task in [task for task in self._tasks if task.done]:
                outcome = self._outcome(task, self._tasks[task].job)
                if outcome is not None:
                    done.append((self._tasks.pop(task).job, outcome))
                    task.release()
            # Only the client's clock ends tasks. A task does not know how long it has waited in the queue, and clocks
            # of machines differ. It is told within the 20th of a second, as after Ctrl-C, and so need not know.
            if not done and self._left() <= 0:
                late = [training.job for training in self._tasks.values()]
                self.stop()
                return [(job, Outcome(note=OVER, finished=False)) for job in late]
        return done

    def _outcome(self, task: Task, job: Job) -> Outcome | None:
        """Returns the outcome of a task that is done; None if the worker that has it does not answer."""
        client, future = self._session.client, task.future
        if future.status == "finished":
            with contextlib.suppress(ClusterError, IndexError):
                self._where[job.candidate] = ask(client, "who_has", keys=[future.key])[future.key][0]
            try:
                found: Outcome = self._session.gather([task])[0].value
            except UnreachableError:
                task.forget(future)
                return None
            return found
        error = failure(client, future, f"trial {job.candidate}")
        if isinstance(error, ClusterError) and client.status != "running":
            raise error
        if not isinstance(error, (DsstneError, MemoryError)):
            raise error
        # What is wrong with a trial is in the note of its outcome. This is something else: a later call tries again.
        return Outcome(note=f"{type(error).__name__}: {error}", finished=False)

    def drop(self, number: int, rung: int) -> None:
        with contextlib.suppress(OSError):
            self._path_of(number, rung).unlink()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = {}

    def tried(self, training: Training) -> Model:
        path = self._path_of(training.job.candidate, training.job.rung)
        if not path.exists():  # the best result is that of an earlier call, or the file could not be written
            again = _result(self._session, self._sent(training))
            if not path.exists():
                reason = again.note or f"{path} is not there; the log of its worker has warnings that say why"
                raise DsstneError(f"the best trial could not be trained again: {reason}")
        return load(path)

    def refit(self, recipe: Recipe, seed: int) -> Model:
        path = str(self._folder / "best.dsstne")
        options = {"recipe": recipe, "seed": seed, "path": path, **self._compute}
        data = {"X": self._data["whole"]}
        _result(self._session, _task(self._session, self._name, train_best, data, options, "refit", self._parcel))
        return load(path)
