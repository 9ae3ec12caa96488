"""Runs a function of this package as a task of Dask: on a worker, with the node to itself, until nobody wants it."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import itertools
import math
import os
import pickle
import tempfile
import threading
import time
import zlib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dsstne
from dsstne import _native
from dsstne._dask_cluster import ask, current_task, distributed, is_wanted
from dsstne._dask_data import check_folder, here, open_data
from dsstne._dask_session import Task
from dsstne.devices import cuda_devices
from dsstne.errors import CancelledError, ClusterError, InputOutputError, InvalidArgumentError
from dsstne.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dsstne._dask_data import DataHandle, Parcel
    from dsstne._dask_session import Session

_GPU = "GPU"  # the resource that stands for a CUDA device


class _StopError(BaseException):
    """Ends a computation that nobody wants any more; no handler of errors takes it for one of its own."""


@dataclass(frozen=True)
class Work:
    """A call of a function on a worker, in a form that can be sent there.

    Attributes:
        what: Name of the job in messages.
        call: The function and its arguments that are not data, of :func:`pack`.
        data: Arguments that are data, by name.
        resources: What the job takes of the resources of the worker.
        share: Run beside other jobs of the node.
        retries: How often the job may begin again after its worker died.
        folder: Folder for models above the limit, or None.
        limit: Bytes of a model above which it is written to the folder.
        version: Of this package in the client.
        note: Where in the scheduler's metadata :func:`_begin` notes it.
    """

    what: str
    call: bytes
    data: dict[str, DataHandle]
    resources: dict[str, float] = field(default_factory=dict)
    share: bool = False
    retries: int = 0
    folder: str | None = None
    limit: int = 0
    version: str = dsstne.__version__
    note: str = ""

    def __reduce__(self) -> Any:
        # Half the size, and all works of a search pass through the scheduler twice.
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return _decompressed, (zlib.compress(pickle.dumps(values)),)


def _decompressed(values: bytes) -> Work:
    return Work(**pickle.loads(zlib.decompress(values)))


def pack(function: Callable[..., Any], options: dict[str, Any]) -> bytes:
    """Encodes a call. Only the worker decodes it, so that an error about it is one of the job."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps((function, options)))
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
        raise InvalidArgumentError(f"the function or an option cannot be sent to a worker: {text}") from None


def _unpack(work: Work) -> tuple[Callable[..., Any], dict[str, Any]]:
    try:
        function, options = pickle.loads(work.call)
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
        raise ClusterError(
            f"{work.what}: {here()} could not read the task ({text}); workers need the same packages as the client, "
            "and functions that they can import"
        ) from None
    return function, options


class Made:
    """The result of a job: a value, or the path of the model file that has it."""

    def __init__(self, value: Any, path: str | None, nbytes: int) -> None:
        self.value, self.path, self.nbytes = value, path, nbytes

    def __sizeof__(self) -> int:  # for Dask, which counts what a worker holds
        return object.__sizeof__(self) + (0 if self.path else self.nbytes)

    def __reduce__(self) -> Any:
        return Made, (self.value, self.path, self.nbytes)


def run(work: Work, *values: Any) -> Made:
    """Does the work as a task of Dask; ``values`` are those of the futures of the data."""
    worker, key = current_task()
    if work.version != dsstne.__version__:
        raise ClusterError(
            f"{work.what}: {here()} has dsstne {dsstne.__version__} and the client {work.version}; install one version"
        )
    function, options = _unpack(work)
    if work.folder:
        check_folder(work.folder, "folder")
    stop = stopper(worker, key)
    try:
        with _native.watched(stop), _node(worker, work, stop), given(worker, function, work.resources) as more:
            data = {name: open_data(handle, values) for name, handle in work.data.items()}
            if _begin(worker, key, work, options.get("checkpoint")):
                options["resume"] = True
            result = function(**data, **{**more, **options})
            stop()
            return _made(work, key, result)
    except _StopError:
        raise CancelledError(f"{work.what} was cancelled") from None
    except BaseException as error:
        model = getattr(error, "model", None)
        if isinstance(model, Model) and _nbytes(model) > work.limit:
            error.model = None  # type: ignore[attr-defined] # it would be sent with the error, through the scheduler
        raise


def stopper(worker: Any, key: Any) -> Callable[[], None]:
    """Returns a function that raises _StopError once nobody wants the task any more."""

    def stop() -> None:
        if worker is not None and not is_wanted(worker, key):
            raise _StopError

    return stop


# ---- again after the death of a worker ----


def _begin(worker: Any, key: Any, work: Work, checkpoint: Any) -> bool:
    """Notes that a job begins; reports whether it goes on from a checkpoint that it has written before.

    The scheduler keeps the notes in its metadata, and drops those of a task with the task.

    Raises:
        ClusterError: Workers died more often than the job may begin again.
    """
    state = state_of(checkpoint)
    client = distributed.get_client()
    begun = list(client.get_metadata([work.note], []))
    client.set_metadata([work.note], [*begun, {"worker": worker.address, "name": str(worker.name), "state": state}])
    _check_retries(work, begun, checkpoint)
    return bool(begun) and checkpoint is not None and state is not None and state != _listed(begun[0]["state"])


def _check_retries(work: Work, begun: Sequence[Mapping[str, Any]], checkpoint: Any) -> None:
    """Raises an error if a job has begun so often that it may not begin again."""
    if len(begun) > work.retries:
        dead = ", ".join(f"{event['worker']} ({event['name']})" for event in begun)
        remedy = (
            "It goes on from the checkpoint if retries= allows it"
            if checkpoint
            else ("With retries=3 and checkpoint=, a path that all workers see, it would go on where it was")
        )
        raise ClusterError(
            f"{work.what}: the worker {dead} died or was taken for dead while it did it. Most often such a worker took "
            f"more memory than its limit, or a library crashed; its log says more. {remedy}"
        )


def sent(
    session: Session, work: Work, parcel: Parcel, key: str, near: Sequence[str] = (), checkpoint: Any = None
) -> Task:
    """Submits a job as a task, which may begin again if its worker gives no sign of life or its data are lost.

    Args:
        session: Sends the task.
        work: The job.
        parcel: Its data.
        key: Key of the task; later ones have a number, too.
        near: Workers that should run it.
        checkpoint: The checkpoint of the job, or None.
    """
    # With the key of the task the note is dropped with the task; a job that goes on must know of it longer.
    work = replace(work, note=f"{key}-begun" if work.retries and checkpoint is not None else key)
    keys = (f"{key}-{n}" for n in itertools.count(1))

    def send(again: bool) -> Any:
        if not again:
            return session.submit(run, work, *parcel.futures, key=key, near=near)
        _check_retries(work, ask(session.client, "get_metadata", keys=[work.note], default=[]), checkpoint)
        parcel.renew()
        # A worker that gives no sign of life may have the lock of its node.
        return session.submit(run, replace(work, share=True), *parcel.futures, key=next(keys), near=near)

    return Task(work.what, send, parcel.futures, renews=parcel.renews and work.retries > 0)


def _listed(state: Any) -> list[int] | None:
    return None if state is None else list(state)  # the scheduler makes tuples of lists


def state_of(path: Any) -> list[int] | None:
    """Returns what changes when a file is written."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as fit() reads it
    except (OSError, TypeError, ValueError):
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns]


# ---- one job per node ----

_own = threading.local()  # its attribute ``lock`` is the lock that the job of this thread holds


class NodeLock:
    """A lock of all jobs on a node: a file, which the system unlocks however a process ends.

    The name of the file has the host of the worker, for machines that share the folder of temporary files.
    """

    def __init__(self, host: str) -> None:
        name = "".join(letter if letter.isalnum() else "-" for letter in host)
        self._path = Path(tempfile.gettempdir()) / f"dsstne-dask-{os.getuid()}-{name}.lock"
        self._file: int | None = None

    def acquire(self, stop: Callable[[], None], wait: bool = True) -> None:
        """Takes the lock.

        Args:
            stop: Ends the wait by an exception.
            wait: Wait for the lock; otherwise it stays where it is if another job has it.
        """
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            text = f"{self._path}: {error.strerror}; jobs of a node take turns by this file, unless share=True"
            raise InputOutputError(text, error.errno or 0, str(self._path)) from None
        try:
            while not _locked(file):
                stop()
                if not wait:
                    os.close(file)
                    return
                time.sleep(0.02)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Lets the next job begin."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _node(worker: Any, work: Work, stop: Callable[[], None]) -> Iterator[None]:
    """Has the node to itself for the block, unless the scheduler's resources say who runs where."""
    if work.share or work.resources:
        yield
        return
    lock = NodeLock(str(getattr(worker, "ip", "") or "local"))
    lock.acquire(stop)
    before, _own.lock = getattr(_own, "lock", None), lock
    try:
        yield
    finally:
        _own.lock = before
        lock.release()


@contextlib.contextmanager
def node_given_up(stop: Callable[[], None], limited: bool = False) -> Iterator[None]:
    """Lets other jobs of the node run during the block, if the caller is a job: it waits for them.

    Args:
        stop: Ends a wait by an exception.
        limited: Whether the caller has promised to return at some time. If another job then has the node at the end of
            the block, the caller goes on beside it.
    """
    lock: NodeLock | None = getattr(_own, "lock", None)
    if lock is None:
        yield
        return
    lock.release()
    try:
        yield
    finally:
        lock.acquire(stop, wait=not limited)


# ---- devices and threads ----

_taken: dict[str, float] = {}  # how much of each CUDA device the jobs of this process have
_taking = threading.Lock()


@contextlib.contextmanager
def given(worker: Any, function: Callable[..., Any], resources: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Yields options for a function that a caller has not given: devices and threads for the share of the job."""
    known, options = parameters_of(function), {}
    if "progress" in known:
        options["progress"] = False
    total = getattr(worker.state, "total_resources", {})
    part = max((n / total[name] for name, n in resources.items() if total.get(name)), default=1.0)
    if "threads" in known:
        options["threads"] = max(1, math.floor(worker.state.nthreads * min(1.0, part)))
    wanted, all_of_them = resources.get(_GPU), total.get(_GPU, 0)
    if "devices" not in known or not wanted:
        yield options
        return
    if wanted >= all_of_them:
        yield {**options, "devices": "all"}
        return
    names = take(cuda_devices(), all_of_them, wanted)
    try:
        yield {**options, "devices": names} if names else options
    finally:
        give_back(names, wanted)


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a function by name."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"function: the parameters of {function!r:.80} are not known to Python") from None


def take(devices: list[str], total: float, wanted: float) -> list[str]:
    """Takes the devices that are used least; none if the resource does not count these devices."""
    if len(devices) != total:
        return []
    count = min(len(devices), math.ceil(wanted))
    with _taking:
        chosen = sorted(devices, key=lambda name: (_taken.get(name, 0.0), devices.index(name)))[:count]
        for name in chosen:
            _taken[name] = _taken.get(name, 0.0) + wanted / count
    return sorted(chosen, key=devices.index)


def give_back(devices: list[str], wanted: float) -> None:
    """Gives back devices that were taken."""
    with _taking:
        for name in devices:
            _taken[name] -= wanted / len(devices)


# ---- results ----


def _made(work: Work, key: Any, result: Any) -> Made:
    if not isinstance(result, Model):
        return Made(result, None, _size(result))
    nbytes = _nbytes(result)
    if work.folder is None or nbytes <= work.limit:
        return Made(result, None, nbytes)
    path = str(Path(work.folder) / f"{key}.dsstne")
    result.save(path)
    return Made(None, path, nbytes)


def _nbytes(model: Model) -> int:
    return int(model._describe()["bytes"])


def _size(value: Any) -> int:
    from dask.sizeof import sizeof

    return int(sizeof(value))
