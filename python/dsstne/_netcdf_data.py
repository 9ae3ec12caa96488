"""Data sets in NetCDF-4 files of DSSTNE."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dsstne import _checks, _netcdf_file, _netcdf_saving
from dsstne._items import digest_of_encoded, encode_names, number_of
from dsstne.errors import InvalidArgumentError, InvalidDataError, NotFoundError, OutOfMemoryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from numpy.typing import ArrayLike, NDArray

    from dsstne._netcdf_file import Reader
    from dsstne._netcdf_saving import Writer

SPARSE, BOOLEAN, IGNORE_ZERO, INDEXED, WEIGHTED = 1, 2, 32, 64, 128  # bits of the attributes
_ALL_BITS = 255
_KINDS = {0: "numeric", 1: "image", 2: "audio"}
_TYPES = {0: "UInt", 1: "Int", 4: "Float", 5: "Double", 6: "RGB8", 8: "UChar", 9: "Char"}
_UNREADABLE = {2: "LLInt", 3: "ULLInt", 7: "RGB16"}  # which end DSSTNE's own programs
_DTYPES: dict[str, Any] = {
    "UInt": np.uint32,
    "Int": np.int64,
    "Float": np.float32,
    "Double": np.float64,
    "RGB8": np.uint8,
    "UChar": np.uint8,
    "Char": np.int8,
}
# DSSTNE divides bytes by these, and moves those of dense inputs by -0.5.
_DIVISORS = {"RGB8": 256, "UChar": 256, "Char": 128}
_PADDING = 128  # DSSTNE rounds the columns of a data set up to a multiple of this


@dataclass(frozen=True)
class DataSet:
    """A data set of a file, as :func:`dsstne.netcdf.datasets` lists it.

    Attributes:
        name: The name by which layers of DSSTNE take it.
        rows: Number of examples.
        columns: Number of columns, without those that only fill up the file if the file tells them apart.
        entries: Number of values that the file stores.
        sparse: Whether it stores single entries; else whole rows.
        boolean: Whether all its entries are 1.
        dtype: DSSTNE's word for the type of the values, such as ``"Float"``.
        stored_only: Whether only stored entries count in the loss (DSSTNE's "ignore zero"; the key ``stored_only`` of
            a loss).
        indexed: Whether examples share stored rows.
        weighted: Whether each example has a weight.
        items_digest: The digest of the names of the columns: their number and a SHA-256; None if the file has none. See
            docs/dsstne-commands.md.
        rows_digest: The digest of the names of the rows; None if the file has none.
    """

    name: str
    rows: int
    columns: int
    entries: int
    sparse: bool
    boolean: bool
    dtype: str
    stored_only: bool
    indexed: bool
    weighted: bool
    items_digest: str | None = None
    rows_digest: str | None = None


@dataclass(frozen=True, eq=False)
class Data:
    """The content of a data set, as :func:`dsstne.netcdf.read` returns it.

    Attributes:
        matrix: The examples [rows, columns], for :func:`dsstne.fit` and others: a sparse matrix of SciPy, or an array
            if the file stores whole rows. Bytes are a :class:`dsstne.Dataset` with a scale; if examples share stored
            rows, the matrix is a Dataset with an index of these, which copies none, unless a value is not finite.
        sample_weight: The weights of the examples [rows]; None if they have none.
        items: The names of the columns; None if the file has none.
        rows: The names of the rows; None if the file has none.
    """

    matrix: Any
    sample_weight: NDArray[np.float32] | None
    items: list[str] | None
    rows: list[str] | None


class _Header(NamedTuple):
    """What the attributes of a data set say."""

    number: int
    listed: DataSet
    width: int  # columns in the file
    stored: int  # rows in the file


def listed(file: Reader) -> list[_Header]:
    """Reads the headers of all data sets of a file."""
    headers = [_header(file, number) for number in range(file.integer("datasets", least=1))]
    names = [header.listed.name for header in headers]
    for name in names:
        if names.count(name) > 1:
            raise file.fault(f"there are several data sets {name!r}")
    return headers


def _header(file: Reader, n: int) -> _Header:
    name = file.text(f"name{n}")
    bits = file.integer(f"attributes{n}")
    if bits & ~_ALL_BITS:
        raise file.fault(f"the attribute attributes{n} is {bits}, which has bits without a meaning")
    file.word(f"kind{n}", _KINDS)
    number = file.integer(f"dataType{n}")
    if number in _UNREADABLE:
        raise UnsupportedError(
            f"{file.path}: the data set {name!r} is of type {_UNREADABLE[number]}, which DSSTNE itself cannot read"
        )
    width = 1
    for axis in ("width", "height", "length")[: file.integer(f"dimensions{n}", least=1, most=3)]:
        width *= file.integer(f"{axis}{n}", least=1)
    columns = file.integer(f"columns{n}", width, least=1)
    if max(width, columns) > min(width, (1 << 31) - 1):
        raise file.fault(f"the data set {name!r} has {max(width, columns):,} columns, more than its width or 2^31 - 1")
    rows = _length(file, f"examplesDim{n}")
    stored = _length(file, f"uniqueExamplesDim{n}") if bits & INDEXED else rows
    entries = _length(file, f"{'sparseDataDim' if bits & SPARSE else 'dataDim'}{n}")
    words = file.word(f"dataType{n}", _TYPES)
    found = DataSet(
        name,
        rows,
        columns,
        entries,
        sparse=bool(bits & SPARSE),
        boolean=bool(bits & BOOLEAN),
        dtype=words,
        stored_only=bool(bits & IGNORE_ZERO),
        indexed=bool(bits & INDEXED),
        weighted=bool(bits & WEIGHTED),
        items_digest=_digest(file, name, f"featuresDigest{n}", columns, "columns"),
        rows_digest=_digest(file, name, f"samplesDigest{n}", rows, "rows"),
    )
    return _Header(n, found, width, stored)


def _digest(file: Reader, name: str, attribute: str, size: int, what: str) -> str | None:
    digest = file.digest(attribute)
    if digest is not None and number_of(digest) != size:
        raise file.fault(
            f"the attribute {attribute} is a digest of {number_of(digest):,} labels; the data set {name!r} has "
            f"{size:,} {what}"
        )
    return digest


def _length(file: Reader, dimension: str) -> int:
    length = file.length(dimension)
    if length < 1:
        raise file.fault(f"the dimension {dimension} is {length}; DSSTNE needs at least 1")
    return length


def read(file: Reader, name: str | None, columns: int | None, as_target: bool) -> Data:
    """Reads a data set."""
    from dsstne.dataset import Dataset

    headers = listed(file)
    known = [header.listed.name for header in headers]
    if name is None and len(known) > 1:
        raise InvalidArgumentError(f"{file.path} has several data sets, {known}; name one of them")
    if name is not None and name not in known:
        raise NotFoundError(f"{file.path} has no data set {_checks.shown(name)}; it has {known}")
    header = headers[0 if name is None else known.index(name)]
    n, data = header.number, header.listed
    if columns is not None and columns > header.width:
        raise InvalidArgumentError(f"columns is {columns:,}, but the data set {data.name!r} has {header.width:,}")
    wanted = data.columns if columns is None else columns
    stored = _sparse(file, header, wanted) if data.sparse or data.boolean else _dense(file, header, wanted)
    scaling = _scaling(data, as_target)
    matrix = Dataset(stored, **scaling) if scaling and not data.indexed else stored
    weights = None
    if data.weighted:
        weights = file.variable(f"dataWeight{n}", data.rows, "f", _of(header)).all().astype(np.float32)
    if data.indexed:
        matrix = _chosen(file, header, stored, scaling)
    items = _names(file, f"indToFeature{n}")
    return Data(matrix, weights, items and items[:wanted], _names(file, f"indToSample{n}"))


def _of(header: _Header) -> str:
    return f"the data set {header.listed.name!r}"


def _names(file: Reader, name: str) -> list[str] | None:
    return file.variable(name, None, "O", "").texts() if file.has(name) else None


def _sparse(file: Reader, header: _Header, columns: int) -> Any:
    """Reads entries, or the one column of each row that a dense boolean data set stores."""
    n, data, of = header.number, header.listed, _of(header)
    if data.sparse:
        starts, ends = (
            _integers(file, f"{name}{n}", header.stored, of).astype(np.int64) for name in ("sparseStart", "sparseEnd")
        )
        indices = _integers(file, f"sparseIndex{n}", data.entries, of)
        _check_ranges(file, header, starts, ends)
    else:
        indices = _integers(file, f"data{n}", header.stored, of)
        starts, ends = np.arange(header.stored), np.arange(1, header.stored + 1)
    values = np.ones(len(indices), np.float32) if data.boolean else _values(file, f"sparseData{n}", header)
    lengths = ends - starts
    if starts[0] != 0 or ends[-1] != len(indices) or (starts[1:] != ends[:-1]).any():  # rows overlap or leave gaps
        total = int(lengths.sum())
        _need_memory(file, header, total * (indices.itemsize + values.itemsize + 16))
        chosen = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(total)
        indices, values = indices[chosen], values[chosen]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if len(indices) and indices.max() >= columns:
        bad = np.flatnonzero(indices >= columns)
        row, column = int(np.searchsorted(offsets, bad[0], "right")) - 1, indices[bad[0]]
        if column < data.columns:
            text = f"columns is {columns:,}, but row {row} of {of} has an entry in column {column:,}"
            raise InvalidArgumentError(f"{file.path}: {text}")
        raise file.fault(f"{of}, row {row}: the column {column:,} is beyond the {columns:,} columns of the matrix")
    # Columns of 4 bytes are not copied, whatever their sign: they are below 2^31.
    is_viewed = indices.dtype.itemsize == 4 and indices.dtype.isnative
    indices = indices.view(np.int32) if is_viewed else indices.astype(np.int32)
    if len(indices) < 1 << 31:
        offsets = offsets.astype(np.int32)
    return scipy.sparse.csr_array((values, indices, offsets), shape=(header.stored, columns))


def _check_ranges(file: Reader, header: _Header, starts: NDArray[Any], ends: NDArray[Any]) -> None:
    entries = header.listed.entries
    bad = np.flatnonzero((starts > ends) | (ends > entries))
    if bad.size:
        row, n = int(bad[0]), header.number
        raise file.fault(
            f"{_of(header)}, row {row}: sparseStart{n} and sparseEnd{n} are {starts[row]:,} and {ends[row]:,}; "
            f"they must be a range within the {entries:,} entries"
        )


def _integers(file: Reader, name: str, size: int, of: str) -> NDArray[Any]:
    """Reads numbers that are not negative and below 2^63, in the type that they have in the file."""
    numbers = file.variable(name, size, "ui", of).all()
    kind = numbers.dtype
    is_wrong = kind.kind == "i" and numbers.size and int(numbers.min()) < 0
    if is_wrong or (kind == np.uint64 and numbers.size and int(numbers.max()) >= 1 << 63):
        raise file.fault(f"{of}: the variable {name} has a number that is negative or too large")
    return numbers


def _values(file: Reader, name: str, header: _Header) -> NDArray[Any]:
    """Reads values as the file has them."""
    data = header.listed
    target = np.dtype(_DTYPES[data.dtype])
    size = data.entries if data.sparse else header.stored * header.width
    variable = file.variable(name, size, "fui" if target.kind == "f" else "uiS", _of(header))
    if variable.dtype.kind == "S" and (variable.dtype.itemsize != 1 or target.itemsize != 1):
        raise file.fault(f"{_of(header)}: the variable {name} holds characters, which are not numbers")
    numbers = variable.all()
    if numbers.dtype.kind == "S":  # NC_CHAR
        numbers = numbers.view(target)
    if target.kind != "f" and numbers.size:
        limits = np.iinfo(target)
        if int(numbers.min()) < limits.min or int(numbers.max()) > limits.max:
            raise file.fault(f"{_of(header)}: the variable {name} has a number that is not a {data.dtype}")
    return numbers.astype(target, copy=False)


def _dense(file: Reader, header: _Header, columns: int) -> NDArray[Any]:
    values = _values(file, f"data{header.number}", header)
    return np.ascontiguousarray(values.reshape(header.stored, header.width)[:, :columns])


def _scaling(data: DataSet, as_target: bool) -> dict[str, Any]:
    """Returns what makes the values of bytes that DSSTNE computes with; nothing for other types."""
    if data.boolean or data.dtype not in _DIVISORS:
        return {}
    is_moved = not data.sparse and not as_target and data.dtype in ("RGB8", "UChar")
    return {"scale": 1 / _DIVISORS[data.dtype], "offset": -0.5 if is_moved else 0}


def _chosen(file: Reader, header: _Header, matrix: Any, scaling: dict[str, Any]) -> Any:
    """Makes a dataset whose rows are stored rows, which several may share.

    A dataset would refuse values that are not finite in float32. A matrix with them is copied row by row, so that it
    can be read and that training refuses it as it does without an index.
    """
    from dsstne.dataset import Dataset

    n, data = header.number, header.listed
    index = file.variable(f"index{n}", data.rows, "ui", _of(header)).all()
    bad = np.flatnonzero((index < 0) | (index >= header.stored))
    if bad.size:
        raise file.fault(
            f"{_of(header)}: index{n}[{bad[0]}] is {index[bad[0]]:,}; the file stores {header.stored:,} rows"
        )
    try:
        return Dataset(matrix, index=index, **scaling)
    except InvalidDataError:
        is_dense = isinstance(matrix, np.ndarray)
        numbers = matrix.shape[1] * len(index) if is_dense else 2 * int(np.diff(matrix.indptr)[index].sum())
        _need_memory(file, header, numbers * 8)
        return matrix[index]


def _need_memory(file: Reader, header: _Header, size: int) -> None:
    """Refuses what this machine cannot hold: few stored rows can stand for very many."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > total:
        raise OutOfMemoryError(
            f"{file.path}: {_of(header)} needs {size:,} bytes with a copy for each row; this machine has {total:,}"
        )


# ---- writing ----


def write(
    path: str | os.PathLike[str],
    matrices: Mapping[str, Any],
    boolean: bool | None,
    sample_weight: Mapping[str, ArrayLike],
    items: Mapping[str, Any],
    rows: Any,
    stored_only: Collection[str],
    before_replacing: Callable[[], None] | None = None,
) -> None:
    """Writes sparse data sets; ``before_replacing`` is called when the file is complete and not yet in its place."""
    _netcdf_file.need_packages()
    attributes: dict[str, Any] = {"datasets": np.uint32(len(matrices))}
    parts = []
    for n, (name, X) in enumerate(matrices.items()):
        matrix, item_names, row_names = _to_write(X, name)
        is_boolean = bool((matrix.data == 1).all()) if boolean is None else boolean
        weights = _weights_to_write(sample_weight.get(name), matrix.shape[0], name)
        texts, digests = {}, {}
        for variable, attribute, given, size, what in (
            ("indToFeature", "featuresDigest", items.get(name, item_names), matrix.shape[1], f"items of {name!r}"),
            ("indToSample", "samplesDigest", row_names if rows is None else rows, matrix.shape[0], "rows"),
        ):
            if given is not None:
                texts[variable], digests[attribute + str(n)] = _texts(given, size, what)
        bits = SPARSE | (BOOLEAN if is_boolean else 0) | (WEIGHTED if weights is not None else 0)
        bits |= IGNORE_ZERO if name in stored_only else 0
        width = -(-matrix.shape[1] // _PADDING) * _PADDING
        of = {"name": name, "attributes": np.uint32(bits), "kind": np.uint32(0)}
        of |= {"dataType": np.uint32(0 if is_boolean else 4), "dimensions": np.uint32(1), "width": np.uint32(width)}
        attributes |= {f"{key}{n}": value for key, value in of.items()}
        attributes[f"columns{n}"] = np.uint32(matrix.shape[1])
        attributes |= digests
        parts.append((matrix, is_boolean, weights, texts))

    def fill(file: Writer) -> None:
        file.attributes(attributes)
        for n, (matrix, is_boolean, weights, texts) in enumerate(parts):
            file.dimension(f"examplesDim{n}", matrix.shape[0])
            file.dimension(f"sparseDataDim{n}", matrix.nnz)
            offset = np.uint32 if matrix.nnz < 1 << 32 else np.uint64
            file.variable(f"sparseStart{n}", f"examplesDim{n}", offset, matrix.indptr[:-1].astype(offset))
            file.variable(f"sparseEnd{n}", f"examplesDim{n}", offset, matrix.indptr[1:].astype(offset))
            file.variable(f"sparseIndex{n}", f"sparseDataDim{n}", np.uint32, matrix.indices.astype(np.uint32))
            if not is_boolean:
                file.variable(f"sparseData{n}", f"sparseDataDim{n}", np.float32, matrix.data)
            if weights is not None:
                file.variable(f"dataWeight{n}", f"examplesDim{n}", np.float32, weights)
            for variable, names in texts.items():
                file.dimension(f"{variable}Dim{n}", len(names))
                file.texts(f"{variable}{n}", f"{variable}Dim{n}", names)

    _netcdf_saving.write(path, fill, before_replacing)


def _to_write(X: Any, name: str) -> tuple[Any, Any, Any]:
    """Returns a matrix as training reads it, without zeros and duplicates, and the names of its columns and rows."""
    from dsstne.dataset import open_dataset

    what = f"the matrix {name!r}"
    data, made = open_dataset(X, what)
    try:
        matrix, names = data[:], (data.item_names, data.row_names)
    except InvalidDataError as error:
        raise InvalidDataError(f"{what}: {error}") from None
    finally:
        if made:
            data.close()
    if not matrix.nnz:
        raise InvalidArgumentError(f"{what} has no entries, and DSSTNE does not read a data set without any")
    bad = np.flatnonzero(~np.isfinite(matrix.data))  # of a Dataset that allows them
    if bad.size:
        row = int(np.searchsorted(matrix.indptr, bad[0], "right")) - 1
        raise InvalidDataError(f"{what}: row {row}, column {matrix.indices[bad[0]]} is {matrix.data[bad[0]]}")
    return matrix, *names


def _weights_to_write(given: ArrayLike | None, rows: int, name: str) -> NDArray[np.float32] | None:
    if given is None:
        return None
    weights = _checks.array(given)
    if weights.shape != (rows,) or weights.dtype.kind not in "buif":
        raise InvalidArgumentError(
            f"sample_weight of {name!r} is an array {weights.shape} of {weights.dtype}; expected {rows:,} numbers"
        )
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float32)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise InvalidArgumentError(
            f"sample_weight of {name!r}: the weight of row {bad[0]} is {weights[bad[0]]}; weights must be finite in "
            "float32 and at least 0"
        )
    return weights


def _texts(names: Any, size: int, what: str) -> tuple[list[str], str]:
    """Returns names as strings, and their digest."""
    texts, offsets, _ = encode_names(names, what)
    if len(offsets) - 1 != size:
        raise InvalidArgumentError(f"{what}: {len(offsets) - 1:,} names were given for {size:,}")
    whole = texts.tobytes()
    if b"\0" in whole:
        raise InvalidArgumentError(f"{what}: a name has a NUL character, which a NetCDF file cannot hold")
    strings = [whole[a:b].decode() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    return strings, digest_of_encoded(texts, offsets)
