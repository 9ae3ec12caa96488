"""Data of a task of Dask: a client says where they are, and a worker opens them once for all its tasks.

A client makes a :class:`DataHandle` with :class:`Parcel`, which collects the futures that the handles refer to. A task
gets the handle as a part of its description, and the values of the futures as arguments, so that Dask brings them to
the worker. :func:`open_data` returns what functions of this package take.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import scipy.sparse

from dsstne import _checks, _options
from dsstne._dask_cluster import distributed
from dsstne._matrices import arrays_of
from dsstne.dataset import Dataset
from dsstne.errors import InvalidArgumentError, MissingFileError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from dsstne._dask_session import Session

_LONGEST_PATH = 4000  # bytes; Linux allows 4,095 with the folder of this process

_WANTED = (
    "a path of a saved dataset, a list of futures of CSR matrices, a dask.array or dask.bag of them, a matrix or a "
    "Dataset"
)


@dataclass(frozen=True)
class DataHandle:
    """Says where data are, in a form that can be sent to workers.

    Attributes:
        name: Name of the argument, for messages.
        kind: ``"path"``, ``"blocks"``, ``"whole"``, ``"mapping"``, ``"pair"`` or ``"none"``.
        path: Of a saved dataset.
        first, count: Which values of futures these are.
        keys: Keys of these futures, by which a worker knows what it has opened already.
        parts: The handles in a mapping or a pair, by name or number.
    """

    name: str
    kind: str
    path: str = ""
    first: int = 0
    count: int = 0
    keys: tuple[Any, ...] = ()
    parts: tuple[tuple[Any, DataHandle], ...] = ()


class Parcel:
    """Data that go to workers: makes handles, and collects the futures that tasks need besides.

    Args:
        session: Sends matrices of this process.
        copies: Send them to all workers that may run a task, instead of one.
    """

    def __init__(self, session: Session, copies: bool = False) -> None:
        self.futures: list[Any] = []
        self._session, self._copies = session, copies
        self._whole: dict[int, Any] = {}  # matrices of this process, by the number of their future
        self._added: dict[int, tuple[Any, DataHandle]] = {}

    def add(self, X: Any, name: str, pair: bool = False) -> DataHandle:
        """Returns a handle, for the same object that of before; ``pair`` says that a tuple is a pair of data."""
        if id(X) not in self._added:
            self._added[id(X)] = X, self._new(X, name, pair)
        return replace(self._added[id(X)][1], name=name)

    def _new(self, X: Any, name: str, pair: bool) -> DataHandle:
        if X is None:
            return DataHandle(name, "none")
        if isinstance(X, (str, os.PathLike)):
            return DataHandle(name, "path", path=path_of(X, name))
        if isinstance(X, Dataset) and X._path is not None:
            return DataHandle(name, "path", path=path_of(os.fsdecode(X._path), name))
        if pair and isinstance(X, tuple):
            parts = tuple((n, self.add(one, f"{name}[{n}]")) for n, one in enumerate(X))
            return DataHandle(name, "pair", parts=parts)
        if _checks.is_mapping(X):
            parts = tuple((key, self.add(one, f"{name}[{key!r}]")) for key, one in X.items())
            return DataHandle(name, "mapping", parts=parts)
        blocks = blocks_of(self._session.client, X, name)
        kind = "blocks" if blocks is not None else "whole"
        if blocks is None:
            sent = self._whole[len(self.futures)] = whole(X, name)
            blocks = [self._session.scatter(sent, self._copies)]
        return self._listed(name, kind, blocks)

    @property
    def renews(self) -> bool:
        """Whether all data can be sent again."""
        return len(self._whole) == len(self.futures)

    def renew(self) -> None:
        """Sends those matrices again that are lost, or only on workers that give no sign of life.

        Dask drops copies that no task waits for, so a matrix that was sent to all workers may soon be on one of them.
        """
        for n, matrix in self._whole.items():
            future = self.futures[n]
            if future.status != "finished" or self._session.only_on_silent([future]):
                self.futures[n] = self._session.scatter(matrix, self._copies)

    def _listed(self, name: str, kind: str, futures: Sequence[Any]) -> DataHandle:
        first = len(self.futures)
        self.futures += futures
        return DataHandle(name, kind, "", first, len(futures), tuple(future.key for future in futures))


def whole(X: Any, name: str) -> Any:
    """Returns a matrix of this process in a form that can be sent: a matrix or Interactions."""
    if isinstance(X, Dataset):
        return X._interactions if X._interactions is not None else X._matrix(name)
    return X if isinstance(X, Interactions) else arrays_of(X, name)[0]


def path_of(path: Any, name: str) -> str:
    """Returns the path of a file as a worker opens it."""
    with _options.path_argument(path) as encoded:
        text = os.fsdecode(encoded)
    if not text:
        raise InvalidArgumentError(f"{name} is an empty path")
    if len(encoded) > _LONGEST_PATH:
        raise InvalidArgumentError(
            f"{name}: the path {_checks.shown(text)} has {len(encoded):,} bytes, which is too long"
        )
    return os.path.abspath(text)  # noqa: PTH100 - links stay


def blocks_of(client: Any, X: Any, name: str) -> list[Any] | None:
    """Returns the futures of blocks of rows; None if X is one matrix of this process.

    Raises:
        InvalidArgumentError: X is a list without futures, or an array that is divided by columns.
    """
    import dask  # here dask is Dask itself
    from dask.delayed import Delayed

    if isinstance(X, distributed.Future):
        return [X]
    if isinstance(X, (list, tuple)):
        if not X:
            raise InvalidArgumentError(f"{name} is an empty list; expected {_WANTED}")
        if all(isinstance(one, distributed.Future) for one in X):
            return list(X)
        if all(isinstance(one, Delayed) for one in X):
            return list(client.compute(list(X)))
        raise InvalidArgumentError(f"{name} is a list of {type(X[0]).__name__}; expected {_WANTED}")
    if not dask.is_dask_collection(X):
        return None
    if type(X).__module__.startswith("dask.array"):
        return _blocks_of_array(client, X, name)
    if hasattr(X, "to_delayed") and type(X).__module__.startswith("dask.bag"):
        return list(client.compute(list(X.to_delayed())))
    if isinstance(X, Delayed):
        return [client.compute(X)]
    raise InvalidArgumentError(
        f"{name} is a {type(X).__name__} of Dask; expected {_WANTED}. X.to_delayed() and a function that makes a CSR "
        "matrix of each partition give such blocks"
    )


def _blocks_of_array(client: Any, X: Any, name: str) -> list[Any]:
    if X.ndim != 2 or X.numblocks[1] != 1:
        raise InvalidArgumentError(
            f"{name} is a dask.array of {X.ndim} dimensions in {'x'.join(map(str, X.numblocks))} blocks; expected rows "
            "and columns, divided by rows only: X.rechunk({1: -1})"
        )
    return list(client.compute([block for row in X.to_delayed() for block in row]))


# ---- on a worker ----


class Kept:
    """Values that are made once for each key, of which the last few used stay; several threads may ask.

    Args:
        most: How many stay.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the value of a key; the first caller makes it, and others wait for that."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key]
            value = make()
            with self._lock:
                self._values[key] = value
                while len(self._values) > self._most:
                    old, _ = self._values.popitem(last=False)
                    self._making.pop(old, None)
            return value

    def drop(self, first: Hashable) -> None:
        """Forgets the values whose key, a tuple, begins with this."""
        with self._lock:
            for key in [key for key in self._values if isinstance(key, tuple) and key[0] == first]:
                del self._values[key]
                self._making.pop(key, None)


_files = Kept(8)  # mapped files cost no memory
_assembled = Kept(1)  # a copy of the rows


def open_data(handle: DataHandle, values: Sequence[Any]) -> Any:
    """Returns the data of a handle as functions of this package take them.

    Args:
        handle: The handle.
        values: Values of all futures of the parcel.
    """
    if handle.kind == "none":
        return None
    if handle.kind == "path":
        return open_path(handle.path, handle.name)
    if handle.kind == "pair":
        return tuple(open_data(part, values) for _, part in handle.parts)
    if handle.kind == "mapping":
        return {key: open_data(part, values) for key, part in handle.parts}
    mine = values[handle.first : handle.first + handle.count]
    if handle.kind == "whole" and isinstance(mine[0], Interactions):
        return mine[0]
    return _assembled.get(handle.keys, lambda: assemble(mine, handle.name))


def open_path(path: str, name: str) -> Dataset:
    """Opens a saved dataset, once for each version of the file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as Dataset.open does
        version = (path, found.st_ino, found.st_size, found.st_mtime_ns)
    except OSError:
        version = (path, 0, 0, 0)  # Dataset.open says what is wrong
    try:
        opened: Dataset = _files.get(version, lambda: Dataset.open(path))
    except MissingFileError as error:
        raise MissingFileError(
            f"{name}: {path}: no such file on {here()}; give a path that all workers see", error.errno or 0, path
        ) from None
    return opened


def here() -> str:
    """Returns the worker that runs this task, in words."""
    try:
        worker = distributed.get_worker()
    except ValueError:
        return "this machine"
    return f"worker {worker.address} ({worker.name})"


def matrices_in(value: Any) -> list[Any]:
    """Returns the matrices of a block: itself, or the elements of a partition of a bag."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def assemble(values: Sequence[Any], name: str) -> Any:
    """Joins blocks of rows to one Dataset; Interactions must be alone."""
    blocks = [matrix for value in values for matrix in matrices_in(value)]
    if not blocks:
        raise InvalidArgumentError(f"{name} has no blocks of rows")
    if len(blocks) == 1 and isinstance(blocks[0], (Interactions, Dataset)):
        return blocks[0]
    made = []
    for n, block in enumerate(blocks):
        where = name if len(blocks) == 1 else f"{name}, block {n}"
        if isinstance(block, Interactions):
            raise InvalidArgumentError(f"{where} has names of its own; pass blocks without names, or all in one")
        made.append(arrays_of(block, where)[0])
        check_columns(made[0].shape[1], made[n].shape[1], n, name)
    return Dataset(made[0] if len(made) == 1 else scipy.sparse.vstack(made, format="csr"))


def check_columns(first: int, columns: int, n: int, name: str) -> None:
    """Raises an error if a block has other columns than the first."""
    if columns != first:
        raise InvalidArgumentError(
            f"{name}: block {n} has {columns:,} columns and block 0 has {first:,}; were they built with one item list?"
        )


def check_folder(folder: str, name: str) -> None:
    """Raises an error if a folder is not there or cannot be written on this worker."""
    if not os.path.isdir(folder):  # noqa: PTH112 - False also for a name that no file can have
        raise MissingFileError(
            f"{name}: {folder}: no such folder on {here()}; give a folder that all workers see", 2, folder
        )
