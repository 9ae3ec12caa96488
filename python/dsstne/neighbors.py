"""Exact nearest neighbours in a collection of vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _checks, _handles, _native
from dsstne._items import encode_names
from dsstne._naming import check_word
from dsstne._predictor import WEIGHTS_ONLY, Predictor, check_k, chosen_items
from dsstne._rounding import to_bfloat16, to_float16
from dsstne.errors import InvalidArgumentError, InvalidDataError, InvalidHandleError, NotFiniteError
from dsstne.model import Model, load

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Index"]

_METRICS = ("dot", "cosine")

# The types that vectors are stored as, and how an array is rounded to them.
_STORAGES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "float32": lambda array: np.ascontiguousarray(array, np.float32),
    "float16": to_float16,
    "bfloat16": to_bfloat16,
}
_LARGEST = {"float32": "3.4028e38", "float16": "65,504", "bfloat16": "3.3895e38"}

_KIND, _TENSOR = "vectors", "vectors"  # of the definition, and the name of the tensor

# Numbers that are rounded at a time.
_BLOCK = 1 << 18


class Index(_handles.Closing):
    """Finds the vectors of a collection that are nearest to queries. The result is exact.

    The score of a vector is its dot product with the query, or their cosine: a sum in float64, in an order that is
    always the same, of the numbers as stored, rounded to float32 once. Of equal scores the lower row comes first. So
    ids and scores have the same bits on all devices, for any number of threads, and however many queries come together.
    Screening in low precision skips vectors that provably are not among the nearest.

    An index keeps a copy of the vectors, n d 4 bytes, or half of it with a ``storage`` of 2 bytes, and no reference to
    the arrays. An index that is searched repeatedly with a few queries at a time (up to 64 on CPUs with AVX512_VNNI)
    also keeps the vectors in low precision, if ``memory_limit`` allows. This takes n d more bytes; on a GPU it takes
    twice as many, but nothing for bfloat16 vectors of a multiple of 32 numbers. Several threads may search an index;
    their calls take turns. It can be pickled and copied, as a :class:`dsstne.Model`.

    Args:
        vectors: Matrix [n, d] of numbers. Or a list of such matrices, one above the other; or with ``shape`` an
            iterator of them, such as a generator that reads a file: then nothing but the index and one block is in
            memory. Arrays in C order that have the type of ``storage`` are copied to the index directly, others are
            rounded block by block.
        names: Names of the vectors: n different strings or integers.
        metric: ``"dot"`` or ``"cosine"``. The cosine of a vector of zeros is 0.
        storage: Type of the vectors in the index and in its file: ``"float32"``, ``"float16"`` or ``"bfloat16"``. Each
            number is rounded to it once, to the nearest. float16 has numbers up to 65,504 with 11 significant bits,
            bfloat16 has the range of float32 with 8 bits. Queries and scores are float32.
        shape: (n, d); needed if ``vectors`` is an iterator.
        devices, threads: Where to search, as in :func:`dsstne.fit`.
        memory_limit: Maximum bytes of the vectors and of everything that a search takes beside its result.

    Attributes:
        model: The model of the vectors, a :class:`dsstne.Model` with the input ``"query"``. Its
            :meth:`dsstne.Model.predictor` answers single queries from many threads in common batches.

    Raises:
        InvalidArgumentError: There are no vectors, a shape is wrong, or a name is there twice.
        NotFiniteError: A number is not finite, or too large for ``storage``; the message names row and column.
        OutOfMemoryError: The vectors do not fit into memory.

    Example:
        >>> import dsstne, numpy as np
        >>> index = dsstne.neighbors.Index(np.eye(3), names=["red", "green", "blue"])
        >>> index.search(np.array([[0.1, 0.9, 0.2]]), k=2)
        (array([[1, 2]], dtype=int32), array([[0.9, 0.2]], dtype=float32))
        >>> index.search(np.array([[0.1, 0.9, 0.2]]), k=2, return_names=True)[0]
        array([['green', 'blue']], dtype=object)
        >>> index
        Index(3 x 3, dot)
    """

    def __init__(
        self,
        vectors: ArrayLike | Iterable[ArrayLike],
        names: Sequence[str] | ArrayLike | None = None,
        *,
        metric: str = "dot",
        storage: str = "float32",
        shape: tuple[int, int] | None = None,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        check_word(metric, "metric", _METRICS)
        check_word(storage, "storage", tuple(_STORAGES))
        blocks, (rows, columns) = _blocks_of(vectors, shape)
        named = None if names is None else _different(names, rows)
        definition = {"kind": _KIND, "items": rows, "size": columns, "metric": metric, "storage": storage}
        model = Model._new(definition, memory_limit=memory_limit)
        _fill(model, blocks, rows, columns, storage)
        if named is not None:
            model.items = named
        self._open(model, {"devices": devices, "threads": threads, "memory_limit": memory_limit})

    def _open(self, model: Model, options: dict[str, Any]) -> None:
        self.model, self._options, self._turn = model, options, threading.Lock()
        self._predictor = Predictor(model, WEIGHTS_ONLY, dict(options))

    @classmethod
    def _of(cls, model: Model, options: dict[str, Any]) -> Index:
        index = cls.__new__(cls)
        index._open(model, options)
        return index

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> Index:
        """Reads the file of :meth:`save` and checks all digests and numbers in it.

        Raises:
            MissingFileError: The file does not exist.
            CorruptFileError: The file is not a model file, or is damaged.
            InvalidArgumentError: The file has another kind of model.
        """
        model = load(path, threads=threads)
        if model._definition.get("kind") != _KIND:
            raise InvalidArgumentError(f"{path}: this file is not an index but has {model!r}; dsstne.load() reads it")
        return cls._of(model, {"devices": devices, "threads": threads, "memory_limit": memory_limit})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the vectors and their names to a model file, as :meth:`dsstne.Model.save`.

        Raises:
            InputOutputError: The operating system refused to write; an existing file is unchanged.

        Example:
            >>> import dsstne, numpy as np, tempfile
            >>> index = dsstne.neighbors.Index(np.eye(3), metric="cosine")
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     index.save(f"{folder}/unit.dsstne")
            ...     dsstne.neighbors.Index.load(f"{folder}/unit.dsstne")
            Index(3 x 3, cosine)
        """
        self._check_open()
        self.model.save(path)

    def search(
        self,
        queries: ArrayLike,
        k: int | None = None,
        *,
        items: Any = None,
        filter_items: Any = None,
        return_names: bool = False,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Finds the k nearest vectors for each query.

        Args:
            queries: Matrix [m, d] of numbers, which are rounded to float32.
            k: Length of the lists, up to n; None = 10, or n if that is less.
            items: Return only these vectors: row numbers, a boolean mask, or names that are strings.
            filter_items: Never return these.
            return_names: Whether names are returned instead of row numbers.

        Returns:
            Row numbers, int32 [m, k], and scores, float32 [m, k], best first; -1 and -inf where no vector is left. With
            ``return_names`` the first array has names, and None where no vector is left.

        Raises:
            InvalidArgumentError: k or a row number is not valid, or names are asked for that are not there.
            NotFoundError: No vector has such a name.
            InvalidDataError: The queries have another number of columns than the vectors.
            NotFiniteError: A query is not finite; the message names row and column.
            KeyboardInterrupt: Ctrl-C; the index stays usable.
        """
        self._check_open()
        n, d = self.shape
        wanted = _matrix(queries, "queries", d)
        k = check_k(k, n, "vectors")
        choice = chosen_items(self.model, items, filter_items, n)
        named = _checks.boolean(return_names, "return_names")
        if named and self.names is None:
            raise InvalidArgumentError("return_names: the vectors have no names; give Index(vectors, names=...)")
        with self._turn:
            ids, scores = self._predictor.search(wanted, k, {"metric": self.metric}, choice)
        return (self.model.names(ids) if named else ids), scores

    @property
    def metric(self) -> str:
        """``"dot"`` or ``"cosine"``."""
        return str(self.model._definition["metric"])

    @property
    def storage(self) -> str:
        """Type of the stored vectors: ``"float32"``, ``"float16"`` or ``"bfloat16"``."""
        return str(self.model._definition.get("storage", "float32"))

    @property
    def names(self) -> NDArray[Any] | None:
        """Names of the vectors in order (str or int64), or None."""
        return self.model.items

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors, and of the numbers in each."""
        return self.model._definition["items"], self.model._definition["size"]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has succeeded."""
        return self._predictor.closed

    def close(self) -> None:
        """Gives back what searches have taken; the vectors are freed when nothing refers to :attr:`model` any more.

        Raises:
            BusyError: Another thread is searching.
        """
        self._predictor.close()

    def _check_open(self) -> None:
        _native.library()  # raises an error in a forked child, where another thread's turn would never end
        if self.closed:
            raise InvalidHandleError("this index is closed")

    def __enter__(self) -> Index:
        self._check_open()
        return self

    def __reduce__(self) -> Any:
        return type(self)._of, (self.model, self._options)

    def __repr__(self) -> str:
        n, d = self.shape
        stored = "" if self.storage == "float32" else f", {self.storage}"
        return "Index(closed)" if self.closed else f"Index({n:,} x {d:,}, {self.metric}{stored})"


def _blocks_of(vectors: Any, shape: Any) -> tuple[Iterable[Any], tuple[int, int]]:
    """Returns the vectors in blocks, and the numbers of rows and columns."""
    if shape is not None:
        if not isinstance(shape, (tuple, list)) or len(shape) != 2:
            raise InvalidArgumentError(f"shape must be (vectors, columns), not {_checks.shown(shape)}")
        rows, columns = (_checks.integer(size, "shape", 1) for size in shape)
        return (vectors if isinstance(vectors, Iterator) or _are_blocks(vectors) else [vectors]), (rows, columns)
    if isinstance(vectors, Iterator):
        raise InvalidArgumentError("vectors is an iterator: give shape=(vectors, columns)")
    if _are_blocks(vectors):
        blocks = [_numbers(block, f"vectors[{n}]") for n, block in enumerate(vectors)]
    else:
        blocks = [_numbers(vectors, "vectors")]
    rows, columns = sum(map(len, blocks)), blocks[0].shape[1]
    if not rows or not columns:
        raise InvalidArgumentError(f"vectors has the shape ({rows}, {columns}); an index needs at least one number")
    return blocks, (rows, columns)


def _are_blocks(vectors: Any) -> bool:
    """Reports whether these are matrices, one above the other, in a list."""
    return isinstance(vectors, (list, tuple)) and len(vectors) > 0 and _checks.array(vectors[0]).ndim == 2


def _fill(model: Model, blocks: Iterable[Any], rows: int, columns: int, storage: str) -> None:
    """Copies blocks of vectors to a model of them."""
    first = 0
    for n, given in enumerate(blocks):
        block = _numbers(given, f"vectors[{n}]")
        if block.shape[1] != columns:
            raise InvalidArgumentError(f"vectors[{n}] has {block.shape[1]:,} columns, but {columns:,} are expected")
        if first + len(block) > rows:
            raise InvalidArgumentError(f"shape has {rows:,} vectors, but there are more: {first + len(block):,} so far")
        is_ready = storage != "bfloat16" and block.dtype == storage and block.flags.c_contiguous
        step = len(block) if is_ready else max(1, _BLOCK // columns)
        for start in range(0, len(block), max(1, step)):
            _set_rows(model, first + start, block[start : start + step], storage)
        first += len(block)
    if first < rows:
        raise InvalidArgumentError(f"shape has {rows:,} vectors, but there are only {first:,}")


def _set_rows(model: Model, first: int, block: NDArray[Any], storage: str) -> None:
    """Rounds rows and copies them to a model of vectors, from row first on."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which the engine reports
        part = _STORAGES[storage](block)
    try:
        arguments = (_TENSOR.encode(), first, len(part), part, part.nbytes)
        _native.call("model_set_rows", model._handle.value, *arguments)
    except NotFiniteError:
        bits = part.view(np.uint32 if storage == "float32" else np.uint16)
        exponent = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}[storage]
        row, column = np.argwhere((bits & exponent) == exponent)[0]
        if not np.isfinite(block[row, column]):
            raise
        raise NotFiniteError(
            f"{_TENSOR}, row {first + row}, column {column}: {block[row, column]} is too large for {storage}, whose "
            f"numbers go up to {_LARGEST[storage]}; scale the vectors or choose another storage"
        ) from None


def _numbers(values: Any, name: str) -> NDArray[Any]:
    """Returns a matrix of numbers of any type."""
    if scipy.sparse.issparse(values):
        raise InvalidArgumentError(f"{name} is a sparse matrix; vectors are dense: give {name}.toarray()")
    array = _checks.array(values)
    if array.ndim != 2:
        hint = f"; a single vector is {name}[None]" if array.ndim == 1 and array.dtype.kind in "buif" else ""
        raise InvalidArgumentError(f"{name} must be a matrix, not {_checks.shown(values)}{hint}")
    if array.dtype.kind not in "buif":
        raise InvalidArgumentError(f"{name} must have numbers, not {array.dtype}")
    return array


def _matrix(values: Any, name: str, columns: int) -> NDArray[np.float32]:
    """Returns a matrix of float32 in C order."""
    array = _numbers(values, name)
    if array.shape[1] != columns:
        raise InvalidDataError(f"{name} has {array.shape[1]:,} columns, the vectors of the index have {columns:,}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which the engine reports
        return np.ascontiguousarray(array, np.float32)


def _different(names: Any, rows: int) -> list[Any]:
    """Returns names, of which none is there twice."""
    listed = list(names) if isinstance(names, Iterator) else names
    encode_names(listed, "names")  # which checks their types
    listed = listed.tolist() if isinstance(listed, np.ndarray) else list(listed)
    if len(listed) != rows:
        raise InvalidArgumentError(f"there are {len(listed):,} names for {rows:,} vectors")
    places: dict[Any, int] = {}
    for place, name in enumerate(listed):
        if places.setdefault(name, place) != place:
            raise InvalidArgumentError(
                f"names[{place}] is {_checks.shown(name)}, and so is names[{places[name]}]; names must differ"
            )
    return listed
