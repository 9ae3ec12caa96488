"""A search whose trials train on the workers of a Dask cluster.

The client decides (:mod:`dsstne._study`) and sends tasks of some kilobytes. Data and checkpoints stay in the store, a
folder that all workers see: a task names files, and a trial goes on at the worker that has trained it before, if that
one is free, since the file is in its memory.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _dask_jobs, _search_run
from dsstne._candidates import Data, Outcome
from dsstne._dask_cluster import (
    client_of,
    distributed,
    failure,
    own_task,
    place,
    settle,
    slot_given_up,
    wait,
    watch,
    workers_of,
)
from dsstne._dask_data import Parcel, path_of
from dsstne._handles import Undo
from dsstne._search_run import OVER, About, Arguments, Run, Training
from dsstne._store import Store, writing
from dsstne.dataset import Dataset
from dsstne.errors import CancelledError, ClusterError, DsstneError
from dsstne.model import load
from dsstne.progress import Budget

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dsstne._dask_cluster import Placement
    from dsstne._dask_data import DataHandle
    from dsstne._halving import Job
    from dsstne._recipes import Recipe
    from dsstne.model import Model

_SILENT = 15.0  # seconds without a sign of life, after which the trial of a worker begins on another one, too
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


class Cluster:
    """The tasks of a search.

    Args:
        client: The client.
        placement: Where tasks may run.
        name: Begins the keys of the tasks.
    """

    def __init__(self, client: Any, placement: Placement, name: str) -> None:
        self.client, self.placement, self._name = client, placement, name

    def send(
        self,
        function: Callable[..., Any],
        data: Mapping[str, DataHandle],
        options: Mapping[str, Any],
        what: str,
        futures: Iterable[Any] = (),
        near: str | None = None,
        avoid: Collection[str] = (),
    ) -> Any:
        """Submits a task; ``near`` is the worker that it should run on, and ``avoid`` those that it should not."""
        key = f"{self._name}-{what.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
        work = _dask_jobs.Work(
            what=what,
            call=_dask_jobs.pack(function, dict(options)),
            data=dict(data),
            resources=self.placement.resources or {},
            share=True,
            retries=_RETRIES,
        )
        given = self.placement.options()
        if near is not None and self.placement.workers is None:
            given |= {"workers": [near], "allow_other_workers": True}
        if avoid:
            others = [one for one in self.placement.workers or self.placement.eligible if one not in avoid]
            given |= {"workers": others} if others else {}
        return self.client.submit(_dask_jobs.run, work, *futures, key=key, pure=False, **given)

    def wait(self, future: Any, what: str) -> Any:
        """Returns the result of one task; cancels the task if it does not come to a result.

        Raises:
            DsstneError: That of the task, or of the cluster.
            KeyboardInterrupt: Ctrl-C.
        """
        try:
            settle(self.client, [future], what, self.placement)
            if future.status != "finished":
                raise failure(self.client, future, what) from None
            return self.client.gather(future).value
        except BaseException:
            cancel([future])
            raise


def cancel(futures: Iterable[Any]) -> None:
    """Cancels tasks; a scheduler that is gone has no more of them."""
    for future in futures:
        with contextlib.suppress(Exception):
            future.cancel()


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
    client = client_of(client)
    placement = place(client, workers, resources)
    cluster = Cluster(client, placement, f"dsstne-search-{uuid.uuid4().hex[:8]}")
    with slot_given_up(limited="seconds" in arguments.limits), Undo() as undo:
        opened = Store(path_of(store, "store"), arguments.disk_limit)
        undo.callback(opened.close)
        jobs = _jobs(jobs, opened, placement)
        bar = Budget("search", arguments.limits.get("seconds"), arguments.progress)
        undo.callback(bar.close)
        bar.update("split")
        parcel = Parcel(client, placement, copies=True)
        data = {"X": parcel.add(X, "X")}
        for name, given in (("times", times), ("validation", validation)):
            if given is not None:
                data[name] = parcel.add(given, name, pair=name == "validation")
        options = {"store": str(opened.folder), "metric": arguments.metric, "seed": arguments.seed}
        options |= arguments.compute
        future = cluster.send(prepare, data, options, "split of the data", parcel.futures)
        about: About = cluster.wait(future, "the split of the data")
        run = Run(arguments, about, opened, jobs, bar)
        return run.model(_Tasks(cluster, opened, about, arguments, jobs, run.clock.left))


def _jobs(wanted: Any, store: Store, placement: Placement) -> int:
    """Returns how many trials train at the same time: as before, if the search goes on, else as there are workers."""
    if wanted is not None:
        return _checks.integer(wanted, "jobs", 1)
    before = store.header().get("number of jobs")
    return before if isinstance(before, int) else max(1, len(placement.eligible))


class _Tasks:
    """Trials as tasks on a cluster: a place of work, see :class:`dsstne._search_run.Place`.

    Args:
        cluster: Sends tasks.
        store: Has the files of the data, checkpoints and models.
        about: The data.
        arguments: The arguments of the search.
        jobs: Number of trials at the same time.
        left: Returns the seconds that are left.
    """

    def __init__(
        self, cluster: Cluster, store: Store, about: About, arguments: Arguments, jobs: int, left: Callable[[], float]
    ) -> None:
        self._cluster, self._folder, self._jobs, self._left = cluster, store.folder, jobs, left
        self._metric, self._compute = arguments.metric, arguments.compute
        self._tasks: dict[Any, tuple[Training, bool]] = {}  # by future; whether another task does the same
        self._wanted = own_task()
        self._looked, self._look = time.monotonic(), watch(cluster.client, cluster.placement, "the search")
        self._where: dict[int, str] = {}  # the worker that has trained a trial last
        parcel = Parcel(cluster.client, cluster.placement)
        self._data = {role: parcel.add(str(self._folder / "data" / name), role) for role, name in about.files.items()}

    def _path_of(self, number: int, rung: int) -> Path:
        return self._folder / "models" / f"{number:06d}-{rung}.dsstne"

    def room(self) -> int:
        return self._jobs

    def begin(self, training: Training) -> None:
        self._tasks[self._sent(training)] = training, False

    def _sent(self, training: Training, avoid: Collection[str] = ()) -> Any:
        job = training.job
        model = str(self._path_of(job.candidate, job.rung))
        options = {"training": training, "metric": self._metric, "model": model, **self._compute}
        data = {role: self._data[role] for role in ("train", "inputs", "held_out")}
        what = f"trial {job.candidate} at rung {job.rung}"
        return self._cluster.send(try_settings, data, options, what, near=self._where.get(job.candidate), avoid=avoid)

    def finished(self) -> Iterable[tuple[Job, Outcome]]:
        done: list[tuple[Job, Outcome]] = []
        while not done:
            wait(self._cluster.client, list(self._tasks), min(1.0, max(0.01, self._left())), "FIRST_COMPLETED")
            if not self._wanted():
                raise CancelledError("the search: the task that waited for it was cancelled")
            for future in [future for future in self._tasks if future.done()]:
                if future not in self._tasks:
                    continue  # the other task of a job that is done
                training = self._tasks[future][0]
                outcome = self._outcome(future, training.job)
                for other in [other for other, (its, _) in self._tasks.items() if its is training]:
                    del self._tasks[other]
                    if other is not future:
                        other.cancel()
                    other.release()  # or Dask would compute it again if its worker died later
                if outcome is None:
                    silent = self._where.pop(training.job.candidate, "")
                    self._tasks[self._sent(training, avoid=[silent])] = training, True
                else:
                    done.append((training.job, outcome))
            # Only the client's clock ends tasks. A task does not know how long it has waited in the queue, and clocks
            # of machines differ. It is told within the 20th of a second, as after Ctrl-C, and so need not know.
            if not done and self._left() <= 0:
                late = dict.fromkeys(training.job for training, _ in self._tasks.values())
                self.stop()
                return [(job, Outcome(note=OVER, finished=False)) for job in late]
            self._replace_silent()
            if not done:
                self._look()
        return done

    def _outcome(self, future: Any, job: Job) -> Outcome | None:
        """Returns the outcome of a task that is done; None if the worker that has it does not answer."""
        if future.status == "finished":
            with contextlib.suppress(Exception):
                where = self._cluster.client.who_has([future]).get(future.key)
                if where:
                    self._where[job.candidate] = where[0]
            try:
                found: Outcome = future.result(timeout=min(_SILENT, max(1.0, self._left()))).value
            except (TimeoutError, distributed.TimeoutError):
                return None
            return found
        error = failure(self._cluster.client, future, f"trial {job.candidate}")
        if isinstance(error, ClusterError) and self._cluster.client.status != "running":
            raise error
        if not isinstance(error, (DsstneError, MemoryError)):
            raise error
        # What is wrong with a trial is in the note of its outcome. This is something else: a later call tries again.
        return Outcome(note=f"{type(error).__name__}: {error}", finished=False)

    def _replace_silent(self) -> None:
        """Begins the trials of workers that give no sign of life on others, too; the first result counts."""
        now = time.monotonic()
        if now - self._looked < _SILENT / 3:
            return
        self._looked = now
        silent = self._silent()
        processing = self._cluster.client.processing() if silent else {}
        for address in silent:
            for future, (training, replaced) in list(self._tasks.items()):
                if future.key in processing.get(address, ()) and not replaced:
                    self._tasks[future] = training, True
                    self._tasks[self._sent(training, avoid=silent)] = training, True

    def _silent(self) -> list[str]:
        """Returns the workers that give no sign of life; none if there are no others."""
        known = workers_of(self._cluster.client)
        silent = [address for address, info in known.items() if time.time() - info.get("last_seen", 0) > _SILENT]
        return silent if len(silent) < len(known) else []

    def drop(self, number: int, rung: int) -> None:
        with contextlib.suppress(OSError):
            self._path_of(number, rung).unlink()

    def stop(self) -> None:
        cancel(self._tasks)
        self._tasks = {}

    def tried(self, training: Training) -> Model:
        path = self._path_of(training.job.candidate, training.job.rung)
        if not path.exists():  # the best result is that of an earlier call, or the file could not be written
            again = self._cluster.wait(self._sent(training, avoid=self._silent()), "the best trial")
            if not path.exists():
                raise DsstneError(f"the best trial could not be trained again: {again.note or 'see the warnings'}")
        return load(path)

    def refit(self, recipe: Recipe, seed: int) -> Model:
        path = str(self._folder / "best.dsstne")
        options = {"recipe": recipe, "seed": seed, "path": path, **self._compute}
        data = {"X": self._data["whole"]}
        future = self._cluster.send(train_best, data, options, "refit", avoid=self._silent())
        self._cluster.wait(future, "the refit")
        return load(path)
