"""Recommendations and values of layers for many rows, computed by all workers of Dask, as Parquet files."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _native
from dsstne._dask_cluster import client_of as checked
from dsstne._dask_cluster import current_task, distributed, slot_given_up
from dsstne._dask_data import (
    Kept,
    blocks_of,
    check_columns,
    check_folder,
    here,
    matrices_in,
    open_path,
    path_of,
    whole,
)
from dsstne._dask_jobs import _StopError, node_given_up, pack, state_of, stopper
from dsstne._dask_session import Session, Task
from dsstne._matrices import arrays_of
from dsstne._predictor import check_item_names
from dsstne._tables import Shown, Table
from dsstne.dataset import Dataset, names_of
from dsstne.errors import CancelledError, ClusterError, InputOutputError, InvalidArgumentError, MissingFileError
from dsstne.interactions import Interactions
from dsstne.model import Model, load
from dsstne.serving import OpenPredictor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GROUP = 1 << 25  # bytes of results that are computed and written together, about
_MOST_ROWS = 1 << 16  # of such a group
_OLD = 3600.0  # seconds after which nobody writes to a temporary file of another call


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


@dataclass(frozen=True)
class _Rows:
    """The rows of a partition: a future of them, a matrix to send, or neither if they are in a file."""

    part: Part
    block: Any = None
    matrix: Any = None


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
    session = Session(client, workers, resources, name)
    tasks: list[Task] = []
    with node_given_up(stopper(*current_task())), slot_given_up():
        try:
            partitions = _partitions(session, X, common, size)
            old = session.call(_open_folder, folder, overwrite)
            if old:
                session.call(_clear, folder, old)
            sender = _Sender(session, model)
            tasks.extend(sender.send(partition) for partition in partitions)  # also those before a failure
            files = session.results(tasks)
            session.call(_sweep, folder, f".dsstne-{run}-", 0.0)
        finally:
            for task in tasks:
                task.release()
            _end(session, run, folder)
    return Written(files)


def _end(session: Session, run: str, folder: str) -> None:
    """Has all workers close what they opened for the call; nobody waits for this, as for a worker that hangs."""
    with contextlib.suppress(OSError, RuntimeError, ClusterError):
        for n, address in enumerate(session.placement.eligible):
            where = {"workers": [address], "allow_other_workers": True, "key": f"dsstne-close-{run}-{n}"}
            distributed.fire_and_forget(session.client.submit(_forget, run, folder, pure=False, **where))


class _Sender:
    """Submits partitions with their data and the model, again if these were lost with a worker."""

    def __init__(self, session: Session, model: Any) -> None:
        self._session, self._model = session, model
        self._sent: Any = None  # the future of the model

    def send(self, rows: _Rows) -> Task:
        """Submits a partition as a task."""
        needs: list[Any] = []
        key = f"dsstne-write-{rows.part.run}-{rows.part.number}"
        keys = (f"{key}-{n}" for n in itertools.count())

        def send(_: bool) -> Any:
            block = rows.block if rows.matrix is None else self._session.scatter(rows.matrix)
            model = self._model_there()
            needs[:] = [one for one in (block, model) if one is not None]
            return self._session.submit(_write, rows.part, block, model, key=next(keys))

        what = f"{self._session.what}, partition {rows.part.number}"
        return Task(what, send, needs, renews=rows.block is None)

    def _model_there(self) -> Any:
        """Returns the future of the model, which is sent again if it is lost; None if the model is a file."""
        if not isinstance(self._model, Model):
            return None
        there = self._sent is not None and self._sent.status == "finished"
        if not there or (self._session.silent and self._session.only_on_silent([self._sent])):
            self._sent = self._session.scatter(self._model, copies=True)
        return self._sent


def _partitions(session: Session, X: Any, common: Part, size: int) -> list[_Rows]:
    """Divides the rows into partitions."""
    if X is None or _checks.is_mapping(X):
        raise InvalidArgumentError("X must be one matrix, path or list of blocks here, for a model with one input")
    path = path_of(X, "X") if isinstance(X, (str, os.PathLike)) else ""
    if isinstance(X, Dataset) and X._path is not None:
        path = path_of(X._path, "X")
    if path:
        rows, _ = session.call(_shape_of_path, path)
        return [
            _Rows(replace(common, number=n, first=at, rows=count, path=path)) for n, at, count in _divided(rows, size)
        ]
    blocks = blocks_of(session.client, X, "X")
    if blocks is None:
        matrix = whole(X, "X")
        rows = matrix.matrix.shape[0] if isinstance(matrix, Interactions) else matrix.shape[0]
        return [
            _Rows(replace(common, number=n, first=at, rows=count), matrix=_rows_of(matrix, at, at + count))
            for n, at, count in _divided(rows, size)
        ]
    shapes = session.results([session.task(_shape_of_block, block, n) for n, block in enumerate(blocks)])
    partitions, first = [], 0
    for n, (block, (rows, columns)) in enumerate(zip(blocks, shapes, strict=True)):
        check_columns(shapes[0][1], columns, n, "X")
        partitions.append(_Rows(replace(common, number=n, first=first, rows=rows), block=block))
        first += rows
    return partitions


def _divided(rows: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yields number, first row and number of rows of each partition; there is at least one."""
    for n, first in enumerate(range(0, max(1, rows), size)):
        yield n, first, min(size, rows - first)


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


def _forget(run: str, folder: str) -> None:
    """Closes what a call has opened, and removes what dead workers have left of its files."""
    for kept in (_predictors, _models, _names):
        kept.drop(run)
    _sweep(folder, f".dsstne-{run}-", 0.0)


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


def _open_folder(folder: str, overwrite: bool) -> list[tuple[str, list[int]]]:
    """Makes the folder, refuses partitions of another call, and removes what dead workers have left long ago.

    Returns:
        The partitions of another call that the call replaces: their names, and what tells each from another file.
    """
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
    _sweep(folder, ".dsstne-", _OLD)
    return [(file.name, state_of(file) or []) for file in old]


def _clear(folder: str, old: list[tuple[str, list[int]]]) -> None:
    """Removes partitions of another call; a worker that does it late does not remove those of this one."""
    for name, state in old:
        if state_of(Path(folder) / name) == state:
            (Path(folder) / name).unlink(missing_ok=True)


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
            rows = _write_file(part, _batches(part, block, model, group, names, stop), compute, schema, stop)
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


def _write_file(
    part: Part,
    batches: Iterator[tuple[Any, Any]],
    compute: Callable[[Any], Any],
    columns: Any,
    stop: Callable[[], None],
) -> int:
    """Writes the file of a partition: beside its place, and then there.

    Args:
        part: The partition.
        batches: Some rows at a time, with their names or numbers.
        compute: Returns the columns of some rows.
        columns: The types of these columns.
        stop: Raises an exception if nobody wants the partition any more.

    Returns:
        The number of rows.
    """
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
        stop()  # a worker that was frozen must not replace the file of a later call
        mine.replace(place / part.file)
    except OSError as error:
        raise InputOutputError(f"{mine}: {error.strerror} on {here()}", error.errno or 0, str(mine)) from None
    finally:
        mine.unlink(missing_ok=True)
    return rows


def _writer(file: Any, row: Any, columns: dict[str, Any]) -> Any:
    pyarrow = _import_parquet()
    return pyarrow.parquet.ParquetWriter(file, pyarrow.schema({"row": row, **columns}))
