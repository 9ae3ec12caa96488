"""Recommendations and values of layers for many rows, computed by all workers of Dask, as Parquet files."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _native
from dsstne._dask_cluster import client_of as checked
from dsstne._dask_cluster import current_task, distributed, failure, place, settle, slot_given_up
from dsstne._dask_data import (
    Kept,
    blocks_of,
    check_columns,
    check_folder,
    here,
    matrices_in,
    open_path,
    path_of,
    scattered,
)
from dsstne._dask_jobs import _StopError, node_given_up, pack, stopper
from dsstne._predictor import check_item_names
from dsstne._tables import Shown, Table
from dsstne.dataset import Dataset, arrays_of, names_of
from dsstne.errors import CancelledError, ClusterError, InputOutputError, InvalidArgumentError, MissingFileError
from dsstne.interactions import Interactions
from dsstne.model import Model, load
from dsstne.serving import OpenPredictor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_GROUP = 1 << 25  # bytes of results that are computed and written together, about
_MOST_ROWS = 1 << 16  # of such a group
_OLD = 3600.0  # seconds after which nobody writes to a temporary file of another call
_TIMES = 3  # a partition whose data were lost with a worker is sent


class Written(Shown, list[dict[str, Any]]):
    """The files of :func:`dsstne.dask.recommend` or :func:`dsstne.dask.predict`: a list with a dict for each.

    It prints as a table.
    """

    def _parts(self) -> list[str | Table]:
        rows = [[str(one["partition"]), one["file"], f"{one['rows']:,}", f"{one['seconds']:.3g}"] for one in self]
        return [Table(["partition", "file", "rows", "seconds"], rows, right=[0, 2, 3])]


@dataclass(frozen=True)
class Part:
    """A partition, in a form that can be sent to a worker.

    Attributes:
        kind, options, k, layer: What to compute.
        folder, run, number: Where to write it: the folder, the call and the number of the partition.
        first, rows: Number of its first row, and number of rows.
        path: Of the file that has the rows, or "".
        model: Path of the model's file, or "".
    """

    kind: str
    options: dict[str, Any]
    k: int | None
    layer: str | None
    folder: str
    run: str
    number: int = 0
    first: int = 0
    rows: int = 0
    path: str = ""
    model: str = ""

    @property
    def file(self) -> str:
        """Name of its file."""
        return f"part-{self.number:05d}.parquet"


@dataclass(eq=False)
class _Task:
    """A partition as the client sees it: its rows, as a future or a matrix to send, and its task."""

    part: Part
    block: Any = None
    matrix: Any = None
    future: Any = field(default=None)
    sent: int = 0


def write(
    client: Any,
    model: Any,
    X: Any,
    what: dict[str, Any],
    output: Any,
    rows_per_partition: Any,
    overwrite: Any,
    resources: Any,
    workers: Any,
) -> Written:
    """Computes all partitions and returns the files; see :func:`dsstne.dask.recommend`."""
    _import_parquet()
    client = checked(client)
    size, overwrite = (
        _checks.integer(rows_per_partition, "rows_per_partition", 1),
        _checks.boolean(overwrite, "overwrite"),
    )
    folder, run = path_of(output, "output"), uuid.uuid4().hex[:8]
    name = f"{what['kind']} into {folder}"
    common = Part(what["kind"], what["options"], what.get("k"), what.get("layer"), folder, run)
    if isinstance(model, (str, os.PathLike)):
        common = replace(common, model=path_of(model, "model"))
    elif not isinstance(model, Model):
        raise InvalidArgumentError(f"model must be a Model or the path of one, not {_checks.shown(model)}")
    else:
        _ = model._handle.value  # raises an error if it is closed
    pack(write, what["options"])  # raises an error if an option cannot be sent
    session = _Session(client, workers, resources, name)
    with node_given_up(stopper(*current_task())), slot_given_up():
        try:
            tasks = _tasks(session, X, common, size)
            session.one(_open_folder, folder, overwrite)
            sender = _Sender(session, model)
            for task in tasks:
                sender.send(task)
            sender.wait(tasks)
            files = client.gather([task.future for task in tasks])
            session.one(_sweep, folder, f".dsstne-{run}-", 0.0)
        finally:
            session.end(run)
    return Written(files)


class _Session:
    """Submits the tasks of a call, and cancels those that are under way at its end."""

    def __init__(self, client: Any, workers: Any, resources: Any, name: str) -> None:
        self.client, self.name = client, name
        self._wanted = workers, resources
        self.placement = place(client, workers, resources)
        self.futures: list[Any] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        key = f"dsstne-{function.__name__.strip('_')}-{uuid.uuid4().hex[:12]}"
        future = self.client.submit(function, *arguments, key=key, pure=False, **self.placement.options())
        self.futures.append(future)
        return future

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Waits for tasks and returns their results; raises what the first one has raised."""
        settle(self.client, futures, self.name, self.placement)
        for future in futures:
            if future.status in ("error", "cancelled"):
                raise failure(self.client, future, self.name)
        return list(self.client.gather(list(futures)))

    def one(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function on a worker and waits for it."""
        return self.results([self.submit(function, *arguments)])[0]

    def place(self) -> None:
        """Looks again for workers."""
        self.placement = place(self.client, *self._wanted)

    def end(self, run: str) -> None:
        """Cancels what is under way; has workers close what they opened for the call."""
        if self.client.status != "running":
            return
        with contextlib.suppress(OSError, RuntimeError):
            self.client.cancel([future for future in self.futures if future.status == "pending"])
            for future in self.futures:  # or Dask would compute them again if their worker died later
                future.release()
            for n, address in enumerate(self.placement.eligible):  # nobody waits for these, as for a worker that hangs
                where = {"workers": [address], "allow_other_workers": True, "key": f"dsstne-close-{run}-{n}"}
                distributed.fire_and_forget(self.client.submit(_forget, run, pure=False, **where))


class _Sender:
    """Submits partitions with their data and the model, again if these were lost with a worker."""

    def __init__(self, session: _Session, model: Any) -> None:
        self._session, self._given = session, model
        self._model: Any = None
        if isinstance(model, Model):
            self._model = scattered(session.client, model, session.placement, copies=True)

    def send(self, task: _Task) -> None:
        client, placement = self._session.client, self._session.placement
        task.sent += 1
        if task.matrix is not None:
            task.block = client.scatter(task.matrix, workers=placement.eligible, hash=False)
        task.future = self._session.submit(_write, task.part, task.block, self._model)

    def wait(self, tasks: Sequence[_Task]) -> None:
        session = self._session
        under_way = list(tasks)
        while under_way:
            settle(session.client, [task.future for task in under_way], session.name, session.placement)
            again = [task for task in under_way if task.future.status in ("error", "cancelled")]
            for task in again:
                error = failure(session.client, task.future, f"{session.name}, partition {task.part.number}")
                lost = isinstance(error, ClusterError) and task.future.status == "cancelled"
                if not lost or task.sent >= _TIMES or session.client.status != "running":
                    raise error
            if again:
                session.place()
                self.__init__(session, self._given)  # type: ignore[misc] # sends the model again
            for task in again:
                self.send(task)
            under_way = [task for task in under_way if task.future.status != "finished"]


def _tasks(session: _Session, X: Any, common: Part, size: int) -> list[_Task]:
    """Divides the rows into partitions."""
    if X is None or _checks.is_mapping(X):
        raise InvalidArgumentError("X must be one matrix, path or list of blocks here, for a model with one input")
    path = path_of(X, "X") if isinstance(X, (str, os.PathLike)) else ""
    if isinstance(X, Dataset) and X._path is not None:
        path = path_of(X._path, "X")
    if path:
        rows, _ = session.one(_shape_of_path, path)
        return [
            _Task(replace(common, number=n, first=at, rows=count, path=path)) for n, at, count in _divided(rows, size)
        ]
    blocks = blocks_of(session.client, X, "X")
    if blocks is None:
        matrix = _whole(X)
        rows = matrix.matrix.shape[0] if isinstance(matrix, Interactions) else matrix.shape[0]
        return [
            _Task(replace(common, number=n, first=at, rows=count), matrix=_rows_of(matrix, at, at + count))
            for n, at, count in _divided(rows, size)
        ]
    shapes = session.results([session.submit(_shape_of_block, block, n) for n, block in enumerate(blocks)])
    tasks, first = [], 0
    for n, (block, (rows, columns)) in enumerate(zip(blocks, shapes, strict=True)):
        check_columns(shapes[0][1], columns, n, "X")
        tasks.append(_Task(replace(common, number=n, first=first, rows=rows), block=block))
        first += rows
    return tasks


def _divided(rows: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yields number, first row and number of rows of each partition; there is at least one."""
    for n, first in enumerate(range(0, max(1, rows), size)):
        yield n, first, min(size, rows - first)


def _whole(X: Any) -> Any:
    if isinstance(X, Dataset):
        return X._interactions if X._interactions is not None else X._matrix("X")
    return X if isinstance(X, Interactions) else arrays_of(X, "X")[0]


def _rows_of(X: Any, first: int, last: int) -> Any:
    """Returns some rows of a matrix or of Interactions."""
    if isinstance(X, Interactions):
        matrix: Any = X.matrix
        return Interactions(matrix[first:last], X.row_names[first:last], X.item_names)
    return X[first:last]


# ---- on a worker ----

_models = Kept(1)
_predictors = Kept(1)
_names = Kept(1)


def _forget(run: str) -> None:
    """Closes what a call has opened."""
    for kept in (_predictors, _models):
        kept.drop(run)


def _import_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("recommend and predict of dsstne.dask need pyarrow: pip install pyarrow") from error
    return pyarrow


def _shape_of_path(path: str) -> tuple[int, int]:
    return open_path(path, "X").shape


def _shape_of_block(block: Any, n: int) -> tuple[int, int]:
    matrices = matrices_in(block)
    if not matrices:
        raise InvalidArgumentError(f"X: block {n} has no matrices")
    shapes = [_checked(one, n).shape for one in matrices]
    for _, columns in shapes:
        check_columns(shapes[0][1], columns, n, "X")
    return sum(rows for rows, _ in shapes), shapes[0][1]


def _checked(X: Any, n: int) -> Any:
    return X.matrix if isinstance(X, Interactions) else arrays_of(X, f"X, block {n}")[0]


def _open_folder(folder: str, overwrite: bool) -> None:
    """Makes the folder; refuses or removes the partitions of another call, and what dead workers have left."""
    place = Path(folder)
    try:
        place.mkdir(exist_ok=True)
    except FileNotFoundError:
        text = f"output: {place.parent}: no such folder on {here()}; give a path that all workers see"
        raise MissingFileError(text, 2, folder) from None
    except OSError as error:
        raise InputOutputError(f"output: {folder}: {error.strerror} on {here()}", error.errno or 0, folder) from None
    old = sorted(place.glob("part-*.parquet"))
    if old and not overwrite:
        raise InvalidArgumentError(
            f"output: {folder} has {len(old)} partitions, such as {old[0].name}, of another call; "
            "overwrite=True replaces them"
        )
    for file in old:
        file.unlink(missing_ok=True)
    _sweep(folder, ".dsstne-", _OLD)


def _sweep(folder: str, prefix: str, age: float) -> None:
    """Removes temporary files that nobody has written to for some seconds."""
    for file in Path(folder).glob(f"{prefix}*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime >= age:
                file.unlink()


def _write(part: Part, block: Any, model: Any) -> dict[str, Any]:
    """Computes a partition and writes its file."""
    begun, (worker, key) = time.monotonic(), current_task()
    check_folder(part.folder, "output")
    stop = stopper(worker, key)
    try:
        with _native.watched(stop):
            model = _models.get((part.run,), lambda: _open_model(part)) if part.model else model
            compute, schema, group = (_recommender if part.kind == "recommend" else _layer)(part, model, worker)
            names = None if block is not None else _row_names(part)
            rows = _write_file(part, _batches(part, block, model, group, names, stop), compute, schema)
    except _StopError:
        raise CancelledError(f"partition {part.number} was cancelled") from None
    return {
        "partition": part.number,
        "file": str(Path(part.folder) / part.file),
        "rows": rows,
        "seconds": time.monotonic() - begun,
    }


def _open_model(part: Part) -> Model:
    try:
        return load(part.model)
    except MissingFileError as error:
        text = f"model: {part.model}: no such file on {here()}; give a path that all workers see, or the model"
        raise MissingFileError(text, error.errno or 0, part.model) from None


def _row_names(part: Part) -> Any:
    """Returns the names of the rows of the file, or None."""
    data = open_path(part.path, "X")
    return _names.get((part.run,), lambda: data.row_names)


def _batches(
    part: Part, block: Any, model: Model, group: int, names: Any, stop: Callable[[], None]
) -> Iterator[tuple[Any, Any]]:
    """Yields some rows at a time, as a matrix, and their names or numbers."""
    if block is None:
        data = open_path(part.path, "X")
        if model.same_items:
            check_item_names(model, data.item_names, "X")
        for first in range(part.first, part.first + part.rows, group):
            stop()
            rows = np.arange(first, min(first + group, part.first + part.rows))
            yield data[rows], rows if names is None else names[rows]
        return
    at = part.first
    for one in matrices_in(block):
        if model.same_items:
            check_item_names(model, names_of(one), "X")
        matrix = _checked(one, part.number)
        for first in range(0, matrix.shape[0], group):
            stop()
            rows = matrix[first : first + group]
            count = rows.shape[0]
            numbers = np.arange(at, at + count)
            yield rows, one.row_names[first : first + count] if isinstance(one, Interactions) else numbers
            at += count


def _options(part: Part, worker: Any) -> dict[str, Any]:
    return {"threads": None if worker is None else worker.state.nthreads, **part.options}


def _recommender(part: Part, model: Model, worker: Any) -> tuple[Callable[[Any], dict[str, Any]], Any, int]:
    """Returns a function that computes the columns of some rows, their types, and how many rows to give it."""
    pyarrow = _import_parquet()

    def opened() -> tuple[OpenPredictor, Any]:
        of_output = part.options.get("layer") in (None, model.output)
        return OpenPredictor(model, part.k, **_options(part, worker)), model.items if of_output else None

    predictor, items = _predictors.get((part.run,), opened)
    kind = pyarrow.int32() if items is None else pyarrow.int64() if items.dtype.kind in "iu" else pyarrow.string()

    def compute(X: Any) -> dict[str, Any]:
        ids, scores = predictor.recommend(X)
        there = ids >= 0
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int32)
        chosen = ids[there] if items is None else items[ids[there]]
        return {
            "items": pyarrow.ListArray.from_arrays(offsets, pyarrow.array(chosen, kind)),
            "scores": pyarrow.ListArray.from_arrays(offsets, pyarrow.array(scores[there])),
        }

    columns = {"items": pyarrow.list_(kind), "scores": pyarrow.list_(pyarrow.float32())}
    return compute, columns, max(1, min(_MOST_ROWS, _GROUP // (8 * predictor.k)))


def _layer(part: Part, model: Model, worker: Any) -> tuple[Callable[[Any], dict[str, Any]], Any, int]:
    """Does the same for the values of a layer."""
    pyarrow = _import_parquet()
    layer = part.layer or model.output
    units = model._layers[layer]["size"] if layer in model._layers else 1  # predict() says what is wrong

    def compute(X: Any) -> dict[str, Any]:
        values = pyarrow.array(model.predict(X, part.layer, **_options(part, worker)).reshape(-1))
        return {"values": pyarrow.FixedSizeListArray.from_arrays(values, units)}

    columns = {"values": pyarrow.list_(pyarrow.float32(), units)}
    return compute, columns, max(1, min(_MOST_ROWS, _GROUP // (4 * units)))


def _write_file(part: Part, batches: Iterator[tuple[Any, Any]], compute: Callable[[Any], Any], columns: Any) -> int:
    """Writes the file of a partition: beside its place, and then there; returns the number of rows."""
    pyarrow = _import_parquet()
    place = Path(part.folder)
    mine = place / f".dsstne-{part.run}-{part.number:05d}-{os.getpid()}-{threading.get_ident()}.tmp"
    writer, rows = None, 0
    try:
        with mine.open("wb") as file:
            for X, names in batches:
                row = pyarrow.array(names)
                if writer is None:
                    writer = _writer(file, row.type, columns)
                rows += len(row)
                writer.write_table(pyarrow.table({"row": row, **compute(X)}, writer.schema))
            (writer or _writer(file, pyarrow.int64(), columns)).close()
            file.flush()
            os.fsync(file.fileno())
        mine.replace(place / part.file)
    except OSError as error:
        raise InputOutputError(f"{mine}: {error.strerror} on {here()}", error.errno or 0, str(mine)) from None
    finally:
        mine.unlink(missing_ok=True)
    return rows


def _writer(file: Any, row: Any, columns: dict[str, Any]) -> Any:
    pyarrow = _import_parquet()
    return pyarrow.parquet.ParquetWriter(file, pyarrow.schema({"row": row, **columns}))
