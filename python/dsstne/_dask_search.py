"""A search whose trials train on the workers of a Dask cluster.

The client decides (:mod:`dsstne._study`) and sends tasks of some kilobytes. Data and checkpoints stay in the store, a
folder that all workers see: a task names files, and a trial goes on at the worker that has trained it before, if that
one is free, since the file is in its memory.
"""

from __future__ import annotations

import contextlib
import math
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _candidates, _checks, _dask_jobs, _recipes, _space, _validation
from dsstne._candidates import Data, Lengths, Outcome
from dsstne._dask_cluster import (
    can_run,
    client_of,
    distributed,
    failure,
    place,
    settle,
    slot_given_up,
    workers_of,
)
from dsstne._dask_data import Parcel, path_of
from dsstne._halving import Job
from dsstne._store import Store, writing
from dsstne._study import Study, drive
from dsstne.dataset import Dataset
from dsstne.errors import CancelledError, ClusterError, DsstneError, InvalidDataError
from dsstne.model import load
from dsstne.progress import Budget
from dsstne.searching import Clock, code_of, limits_of, no_result, notes_of, recipe_of, report_of, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dsstne._dask_cluster import Placement
    from dsstne._dask_data import DataHandle
    from dsstne.model import Model

_SILENT = 15.0  # seconds without a sign of life, after which the trial of a worker begins on another one, too
_RETRIES = 3  # how often a task may begin again after its worker died


@dataclass
class Prepared:
    """What a worker tells of the data that it has split.

    Attributes:
        digest: Of the training data.
        files: Names of the files in the store, by role.
        rows: Number of rows to learn from.
        measured: Number of validation rows.
        split, notes, preparation, problem: See :class:`dsstne._validation.Task`.
        named: Whether the items have names.
    """

    digest: str
    files: dict[str, str]
    rows: int
    measured: int
    split: str
    notes: list[str]
    preparation: str
    problem: str | None
    named: bool


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
) -> Prepared:
    """Splits the data and saves the parts in the store, as a task."""
    items = X.item_names if isinstance(X, Dataset) else None
    if isinstance(X, Dataset):  # of a file; the split is in memory
        X = X[:]
    given = _validation.given(X, items, times, validation)
    _validation.try_metric(given, metric, {"devices": devices, "threads": threads, "memory_limit": memory_limit})
    task = _validation.prepare(given.X, given.times, validation, seed, most_folds=1)
    fold = task.folds[0]
    folder = Path(store) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    saved: dict[int, str] = {}
    files, digest = {}, ""
    for role, matrix in (
        ("train", fold.train),
        ("inputs", fold.inputs),
        ("held_out", fold.held_out),
        ("whole", task.whole),
    ):
        if id(matrix) not in saved:
            with Dataset(matrix) as data:
                name = f"{data._digest()[:32]}.arrow"
                digest += data._digest()
                if not (folder / name).exists():
                    data.save(folder / name, items=given.items)
            saved[id(matrix)] = name
        files[role] = saved[id(matrix)]
    about = (task.train.shape[0], task.rows, task.split, task.notes, given.begin + task.preparation, task.problem)
    return Prepared(digest, files, *about, given.items is not None)


def try_settings(
    train: Any,
    inputs: Any,
    held_out: Any,
    settings: Mapping[str, Any],
    lengths: Lengths,
    rung: int,
    seed: int,
    metric: str,
    source: str | None,
    target: str | None,
    model: str | None,
    least: float,
    seconds: float,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Outcome:
    """Trains a candidate up to a rung, as a task; see :func:`dsstne._candidates.advance`.

    Args:
        model: Where to save the model if its value is above ``least``; None = nowhere.
        least: The best value when the task was sent.
        seconds: Time that was left when the task was sent.
    """
    end = time.monotonic() + seconds
    data = Data(train, inputs, held_out, train.item_names, metric)
    compute = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
    try:
        found = _candidates.advance(
            data,
            settings,
            lengths,
            rung,
            seed,
            compute,
            source=None if source is None else Path(source),
            target=None if target is None else Path(target),
            limit=lambda: end - time.monotonic(),
        )
    except CancelledError:
        return Outcome(note="not finished: the time was over", finished=False)
    if found.model is not None:
        if model is not None and found.value >= least:
            with writing("the model of a trial could not be written"):
                found.model.save(model)
        found.model.close()
        found.model = None
    return found


def train_best(
    X: Any,
    recipe: _recipes.Recipe,
    seed: int,
    path: str,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
) -> None:
    """Trains the model of the best settings, as a task, and saves it."""
    common = {"items": X.item_names, "seed": seed, "devices": devices, "threads": threads, "memory_limit": memory_limit}
    recipe.make(X, common).save(path)


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
        avoid: str | None = None,
    ) -> Any:
        """Submits a task; ``near`` is the worker that it should run on, and ``avoid`` one that it should not."""
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
        if avoid is not None:
            given["workers"] = [one for one in self.placement.workers or self.placement.eligible if one != avoid]
        return self.client.submit(_dask_jobs.run, work, *futures, key=key, pure=False, **given)

    def wait(self, future: Any, what: str) -> Any:
        """Returns the result of one task.

        Raises:
            DsstneError: That of the task, or of the cluster.
        """
        with slot_given_up():
            settle(self.client, [future], what, self.placement)
        if future.status != "finished":
            raise failure(self.client, future, what) from None
        return self.client.gather(future).value


def search(client: Any, X: Any, space: Any, given: dict[str, Any], options: dict[str, Any]) -> Model:
    """Does what :func:`dsstne.dask.search` says; ``given`` are its arguments."""
    clock = Clock()
    client = client_of(client)
    limits = limits_of(given["budget"])
    metric, progress = _validation.check_metric(given["metric"]), _checks.boolean(given["progress"], "progress")
    seed, refit = _checks.integer(given["seed"], "seed", 0), _checks.boolean(given["refit"], "refit")
    disk = given["disk_limit"]
    disk = None if disk is None else _checks.integer(disk, "disk_limit", 0)
    source = source_of(space, given["sampler"])
    _space.check_names(options, "search()")
    eta = _checks.integer(given["eta"], "eta", 2)
    placement = place(client, given["workers"], given["resources"])
    compute = {name: given[name] for name in ("devices", "threads", "memory_limit") if given[name] is not None}
    folder = path_of(given["store"], "store")
    cluster = Cluster(client, placement, f"dsstne-search-{uuid.uuid4().hex[:8]}")
    store = Store(folder, disk)
    bar = Budget("search", limits.get("seconds"), progress)
    try:
        jobs = _jobs(given["jobs"], store, placement)
        bar.update("split")
        prepared = _prepared(cluster, X, store, given, metric, seed, compute)
        if prepared.problem:
            raise InvalidDataError(f"X cannot be searched with: {prepared.problem}")
        lengths = Lengths.choose(prepared.rows, given["epochs"], given["rungs"], eta, options)
        window = None if "seconds" in limits else jobs
        brackets = _checks.integer(given["brackets"], "brackets", 1)
        study = Study(
            source, options, lengths, limits.get("trials"), brackets, window, seed, metric, store, prepared.digest
        )
        clock.begin(study, lengths, limits.get("seconds"), refit)
        run = _Run(cluster, study, store, prepared, lengths, compute, jobs, clock, bar, refit)
        return run.model()
    finally:
        bar.close()
        store.close()


def _jobs(wanted: Any, store: Store, placement: Placement) -> int:
    """Returns how many trials train at the same time: as before, if the search goes on, else as there are workers."""
    if wanted is not None:
        return _checks.integer(wanted, "jobs", 1)
    before = store.header().get("number of jobs")
    return before if isinstance(before, int) else max(1, len(placement.eligible))


def _prepared(
    cluster: Cluster,
    X: Any,
    store: Store,
    given: Mapping[str, Any],
    metric: str,
    seed: int,
    compute: Mapping[str, Any],
) -> Prepared:
    """Has a worker split the data."""
    parcel = Parcel(cluster.client, cluster.placement, copies=True)
    data = {"X": parcel.add(X, "X")}
    for name in ("times", "validation"):
        if given[name] is not None:
            data[name] = parcel.add(given[name], name, pair=name == "validation")
    settings = {"store": str(store.folder), "metric": metric, "seed": seed, **compute}
    future = cluster.send(prepare, data, settings, "split of the data", parcel.futures)
    found: Prepared = cluster.wait(future, "the split of the data")
    return found


class _Run:
    """The trials of a search on a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        study: Study,
        store: Store,
        prepared: Prepared,
        lengths: Lengths,
        compute: Mapping[str, Any],
        jobs: int,
        clock: Clock,
        bar: Budget,
        refit: bool,
    ) -> None:
        self._cluster, self._study, self._store, self._prepared = cluster, study, store, prepared
        self._lengths, self._compute, self._jobs, self._clock = lengths, compute, jobs, clock
        self._bar, self._refit = bar, refit
        self._out_of_time = self._interrupted = False
        self._tasks: dict[Any, tuple[Job, Any]] = {}  # by future
        self._declined: list[tuple[Job, Outcome]] = []
        self._looked = self._counted = time.monotonic()
        self._alone_since: float | None = None
        self._where: dict[int, str] = {}  # the worker that has trained a trial last
        parcel = Parcel(cluster.client, cluster.placement)
        self._data = {
            role: parcel.add(str(store.folder / "data" / prepared.files[role]), role)
            for role in ("train", "inputs", "held_out", "whole")
        }

    def model(self) -> Model:
        """Runs the trials, and returns the best model with its report."""
        study = self._study
        try:
            drive(study, self._workers, self._submit, self._finished, self._take)
        except KeyboardInterrupt:
            if study.best is None:
                raise
            self._interrupted = True
        finally:
            self._cancel()
        if study.best is None:
            raise no_result(study, self._out_of_time)
        notes = [*self._prepared.notes, *notes_of(study, self._interrupted)]
        number, rung = study.best
        trial = study.trials[number]
        recipe = recipe_of(trial, self._lengths, rung)
        path = self._store.folder / "best.dsstne"
        tried = self._path_of(number, rung)
        if self._refit and not self._interrupted:
            self._bar.update("refit", f"best {study.best_outcome().value:.4f}")
            options = {"recipe": recipe, "seed": trial.seed, "path": str(path), **self._compute}
            self._wait(self._cluster.send(train_best, {"X": self._data["whole"]}, options, "refit"), "the refit")
            model = load(path)
        else:
            if not tried.exists():
                again = self._wait(self._sent(Job(-1, number, rung)), "the best trial")
                if not tried.exists():
                    raise DsstneError(f"the best trial could not be trained again: {again.note or 'see the warnings'}")
            model = load(tried)
        code = code_of(recipe, trial, self._prepared.preparation, self._prepared.named, self._compute.get("devices"))
        model.report = report_of(study, self._prepared.split, code, self._clock, notes, self._prepared.measured)
        if not self._interrupted:
            self._store.clear()
        return model

    def _wait(self, future: Any, what: str) -> Any:
        try:
            return self._cluster.wait(future, what)
        except BaseException:
            future.cancel()
            raise

    def _path_of(self, number: int, rung: int) -> Path:
        return self._store.folder / "models" / f"{number:06d}-{rung}.dsstne"

    # ---- what drive() calls ----

    def _workers(self) -> int:
        self._out_of_time = self._out_of_time or self._clock.left() <= 0
        return 0 if self._out_of_time else self._jobs

    def _submit(self, job: Job) -> None:
        needed = self._clock.needed(job)
        if needed > self._clock.left():
            self._out_of_time = self._out_of_time or job.before is None
            outcome = Outcome(note=f"not begun: it would take about {needed:,.0f} s", finished=False)
            self._declined.append((job, outcome))
            return
        self._tasks[self._sent(job)] = job, None

    def _sent(self, job: Job, avoid: str | None = None) -> Any:
        trial, last = self._study.trials[job.candidate], job.rung == self._lengths.rungs - 1
        best = -math.inf if self._study.best is None else self._study.best_outcome().value
        options = {
            "settings": trial.settings,
            "lengths": self._lengths,
            "rung": job.rung,
            "seed": trial.seed,
            "metric": self._study.metric,
            "source": None if job.before is None else str(self._store.checkpoint(job.candidate, job.before)),
            "target": None if last or job.number < 0 else str(self._store.checkpoint(job.candidate, job.rung)),
            "model": str(self._path_of(job.candidate, job.rung)),
            "least": -math.inf if job.number < 0 else best,
            "seconds": math.inf if job.number < 0 else self._clock.left(),
            **self._compute,
        }
        data = {role: self._data[role] for role in ("train", "inputs", "held_out")}
        what = f"trial {job.candidate} at rung {job.rung}"
        return self._cluster.send(try_settings, data, options, what, near=self._where.get(job.candidate), avoid=avoid)

    def _finished(self) -> Iterable[tuple[Job, Outcome]]:
        if self._declined:
            declined, self._declined = self._declined, []
            return declined
        client = self._cluster.client
        done: list[tuple[Job, Outcome]] = []
        while not done:
            with slot_given_up():
                settle_any(client, list(self._tasks), self._cluster.placement)
            for future in [future for future in self._tasks if future.done()]:
                if future not in self._tasks:
                    continue  # the other task of a job that is done
                job = self._tasks[future][0]
                done.append((job, self._outcome(future, job)))
                for other in [other for other, (its, _) in self._tasks.items() if its is job]:
                    del self._tasks[other]
                    if other is not future:
                        other.cancel()
                    other.release()  # or Dask would compute it again if its worker died later
            self._replace_silent()
            if not done:
                self._check_workers()
        return done

    def _check_workers(self) -> None:
        """Raises an error if no worker was there for some time that could do a trial."""
        now = time.monotonic()
        if now - self._counted < _SILENT / 3:
            return
        self._counted = now
        if can_run(self._cluster.client, self._cluster.placement):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > 2 * _SILENT:
            raise ClusterError(
                f"no worker that could do a trial was there for {2 * _SILENT:g} s; start workers, and the same call "
                "goes on with the search"
            )

    def _outcome(self, future: Any, job: Job) -> Outcome:
        if future.status == "finished":
            with contextlib.suppress(Exception):
                where = self._cluster.client.who_has([future]).get(future.key)
                if where:
                    self._where[job.candidate] = where[0]
            found: Outcome = self._cluster.client.gather(future).value
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
        known = workers_of(self._cluster.client)
        silent = {address for address, info in known.items() if time.time() - info.get("last_seen", 0) > _SILENT}
        others = [address for address in known if address not in silent]
        if not silent or not others:
            return
        for address, keys in self._cluster.client.processing().items():
            if address not in silent:
                continue
            for future, (job, replaced) in list(self._tasks.items()):
                if future.key in keys and replaced is None:
                    self._tasks[future] = job, True
                    self._tasks[self._sent(job, avoid=address)] = job, True

    def _take(self, job: Job, outcome: Outcome) -> None:
        before = self._study.best
        if self._study.tell(job, outcome):
            if before is not None:
                with contextlib.suppress(OSError):
                    self._path_of(*before).unlink()
        else:
            with contextlib.suppress(OSError):
                self._path_of(job.candidate, job.rung).unlink()
        self._study.tidy()
        best = "" if self._study.best is None else f"best {self._study.best_outcome().value:.4f}"
        self._bar.update(f"{len(self._study.trials)} trials", best)

    def _cancel(self) -> None:
        for future in self._tasks:
            with contextlib.suppress(Exception):
                future.cancel()
        self._tasks = {}


def settle_any(client: Any, futures: list[Any], placement: Placement) -> None:
    """Waits a moment for one of several tasks.

    Raises:
        ClusterError: The scheduler is gone.
    """
    try:
        with client.as_current():
            distributed.wait(futures, timeout=1, return_when="FIRST_COMPLETED")
    except (TimeoutError, distributed.TimeoutError):
        pass
    except distributed.CancelledError:
        pass  # which the status of the future tells
    except (OSError, RuntimeError, ValueError) as error:
        if client.status != "running":
            raise ClusterError(f"the search: the connection to the scheduler is lost ({error})") from None
        raise
