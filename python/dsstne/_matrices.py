"""Matrices of SciPy, NumPy and DataFrames as the arrays that the engine reads, copied only if needed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, InvalidDataError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger("dsstne")

_INT32, _INT64, _FLOAT32, _FLOAT64 = map(np.dtype, (np.int32, np.int64, np.float32, np.float64))
_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)


class _Types(NamedTuple):
    """Types beside int32, int64, float32 and float64 that need no conversion."""

    indices: frozenset[np.dtype[Any]]
    values: frozenset[np.dtype[Any]]


_PLAIN = _Types(frozenset(), frozenset())  # for a predictor that is asked, and for SciPy
STORED = _Types(  # for a Dataset
    frozenset([_UINT32]), frozenset(map(np.dtype, ("f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")))
)


class Arrays(NamedTuple):
    """The arrays of a matrix in compressed row form that is not SciPy's."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any] | None
    shape: tuple[int, int]


def one_row(X: Any, name: str) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Returns the stored columns, values and number of columns of a matrix with one row; duplicates are summed."""
    X = as_csr(X, name)
    offsets, indices, values = csr_arrays(X)
    if X.shape[0] != 1:
        raise InvalidArgumentError(f"{name} must be one row, such as X[[7]]; it has {X.shape[0]:,} rows")
    stored = slice(max(0, offsets[0]), max(0, offsets[1]))
    ids, place = np.unique(indices[stored], return_inverse=True)
    weights = None if values is None else values[stored].astype(np.float64)
    return ids, np.bincount(place, weights, len(ids)), X.shape[1]


def arrays_of(X: Any, name: str) -> tuple[Any, tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]]:
    """Returns X in compressed row form, and its arrays as the engine reads them."""
    X = as_csr(X, name)
    try:
        return X, csr_arrays(X)
    except InvalidDataError as error:
        raise InvalidDataError(f"{name}: {error}") from None


def as_csr(X: Any, name: str) -> Any:
    """Returns X itself if it is in compressed row form, else a converted copy."""
    X = as_matrix(X, name)
    if not isinstance(X, np.ndarray):
        return X
    log.debug("converted an array of shape %s to compressed rows, which copies it", X.shape)
    return scipy.sparse.csr_array(X.astype(_plain(X.dtype), copy=False))


def as_matrix(X: Any, name: str) -> Any:
    """Returns X itself if it is in compressed row form, a NumPy array if it is dense, else a converted copy."""
    if scipy.sparse.issparse(X) and X.format == "csr":  # first: a predictor is asked for single rows
        _check_dimensions(X, name)
        return X
    if isinstance(X, Arrays):
        return X
    source = type(X).__name__
    if isinstance(X, Interactions):
        return X.matrix
    if X is None:
        raise InvalidArgumentError(f"{name} is None; expected a matrix")
    if _checks.is_mapping(X):
        raise InvalidArgumentError(f"{name}: expected a matrix, got a mapping")
    if hasattr(X, "_in_memory"):  # a Dataset
        return X._matrix(name)
    if hasattr(X, "to_numpy") and len(getattr(X, "shape", ())) == 2:  # a DataFrame of pandas or polars
        X = _of_sparse_frame(X, name) if hasattr(X, "sparse") else X.to_numpy()
    if hasattr(X, "__arrow_c_stream__"):
        raise InvalidArgumentError(
            f"{name} is a {source}, which may be in several chunks: give one list column as one array, such as "
            "table['column'].combine_chunks() of pyarrow, to dsstne.Dataset(array, columns=...)"
        )
    if getattr(X, "format", None) == "csr" and hasattr(X, "indptr"):
        _check_dimensions(X, name)
        return X
    if not scipy.sparse.issparse(X):
        if np.ma.is_masked(X):
            raise InvalidDataError(f"{name} is an array with masked values; say what they are, as in X.filled(0)")
        try:
            X = np.asarray(X)
        except ValueError:
            raise InvalidDataError(f"{name} is a {source} whose rows have different lengths; see csr_array") from None
        if X.dtype.kind not in "bifu":
            remedy = "; is it a table of interactions, for Interactions.from_frame?" if source == "DataFrame" else ""
            raise InvalidDataError(f"{name} is a {source} with values of type {X.dtype}; expected numbers{remedy}")
        _check_dimensions(X, name)
        return X
    _check_dimensions(X, name)
    log.debug("converted a %s of shape %s to compressed rows, which copies it", source, X.shape)
    return scipy.sparse.csr_array(X)


def in_row_order(X: NDArray[Any]) -> NDArray[Any]:
    """Returns a dense matrix as the engine reads it; copies only if needed."""
    made = np.require(X, _plain(X.dtype), ["C", "A"])
    if not np.may_share_memory(made, X):
        log.debug("copied an array of shape %s, so that its rows follow one another as %s", X.shape, made.dtype)
    return made


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type of the machine's own numbers that the engine and SciPy read instead of a type."""
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return _FLOAT32 if dtype.itemsize < 4 else _FLOAT64
    plain: np.dtype[Any] = dtype.newbyteorder("=")
    return plain


def _of_sparse_frame(X: Any, name: str) -> Any:
    """Returns a DataFrame of pandas whose columns are all sparse as a matrix."""
    try:
        return X.sparse.to_coo()
    except ValueError as error:  # what is not stored is not 0 but, for example, NaN
        remedy = "X.fillna(0).astype(pandas.SparseDtype(float, 0)) has 0 there"
        raise InvalidDataError(f"{name} is a sparse DataFrame: {error}; {remedy}") from None


def _check_dimensions(X: Any, name: str) -> None:
    if len(X.shape) != 2:
        raise InvalidArgumentError(
            f"{name} must have two dimensions, rows and columns; it has {len(X.shape)}. For one row of a matrix give "
            f"{name}[[0]] instead of {name}[0]; numbers of rows belong into rows=, beside the matrix"
        )


def csr_arrays(X: Any, types: _Types = _PLAIN) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Returns row offsets, column indices and values in types that the engine reads; copies only if needed."""
    indptr, indices = _signed(np.asarray(X.indptr), "indptr"), _integers(X.indices, "indices", types)
    data = indices if X.data is None else np.asarray(X.data)
    rows = X.shape[0]
    if len(indptr) != rows + 1:
        raise InvalidDataError(f"indptr has {len(indptr):,} entries; a matrix of {rows:,} rows needs {rows + 1:,}")
    if data.ndim != 1:
        raise InvalidDataError(f"data has {data.ndim} dimensions instead of one")
    for name, array in (("indices", indices), ("data", data)):
        if indptr[-1] > len(array):
            raise InvalidDataError(f"indptr ends at {indptr[-1]:,} but {name} has only {len(array):,} entries")
    if X.data is None:
        return indptr, indices, None
    if data.dtype.kind != "b":
        return indptr, indices, _values(data, types)
    first, last = int(indptr[0]), int(indptr[-1])
    used = data[first:last] if 0 <= first <= last else data
    return (indptr, indices, None) if used.all() else _without_false(indptr, indices, data)


def plain_arrays(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Returns arrays of a Dataset in types that SciPy has; copies only if needed."""
    signed = indices.view(_INT32) if indices.dtype == _UINT32 else indices  # columns are below 2^31
    return indptr, signed, None if values is None else _values(values, _PLAIN)


def _signed(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Returns row offsets as signed numbers; unsigned ones that fit are the same bits."""
    if array.dtype in (_UINT32, _UINT64) and array.ndim == 1 and len(array):
        signed = _INT32 if array.dtype == _UINT32 else _INT64
        if int(array.max()) < 1 << (8 * signed.itemsize - 1):
            array = array.view(signed)
    return _integers(array, name, _PLAIN)


def _integers(array: Any, name: str, types: _Types) -> NDArray[Any]:
    array = np.asarray(array)
    if array.ndim != 1:
        raise InvalidDataError(f"{name} has {array.ndim} dimensions instead of one")
    if array.dtype.kind not in "iu":
        raise InvalidDataError(f"{name} is of type {array.dtype}; expected integers")
    if array.dtype in types.indices:
        return _converted(array, array.dtype, name)
    width = array.dtype.itemsize
    wanted = _INT32 if width < 4 or (width == 4 and array.dtype.kind == "i") else _INT64
    if array.dtype.kind == "u" and width == 8 and len(array) and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidDataError(f"{name} holds {int(array.max()):,}, which is not a possible index")
    return _converted(array, wanted, name)


def _values(data: NDArray[Any], types: _Types) -> NDArray[Any]:
    if data.dtype.kind not in "uif":
        raise InvalidDataError(f"data is of type {data.dtype}; expected numbers")
    if data.dtype in types.values:
        return _converted(data, data.dtype, "data")
    wide = data.dtype.itemsize >= (8 if data.dtype.kind == "f" else 4)  # float32 represents integers of 24 bits
    return _converted(data, _FLOAT64 if wide else _FLOAT32, "data")


def _converted(array: NDArray[Any], wanted: np.dtype[Any], name: str) -> NDArray[Any]:
    if array.dtype != wanted:
        log.debug("converted %s from %s to %s, which copies it", name, array.dtype, wanted)
        return array.astype(wanted)
    if not array.flags.c_contiguous:
        log.debug("copied %s, which is not contiguous", name)
        return np.ascontiguousarray(array)
    return array


def _without_false(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], None]:
    """Drops the stored False entries of a boolean matrix; without values, every stored entry counts as 1."""
    if (np.diff(indptr) < 0).any() or indptr[0] < 0:
        return indptr, indices, None  # damaged; the engine reports where
    log.debug("dropped stored False entries, which copies the matrix")
    first, last = int(indptr[0]), int(indptr[-1])
    kept = data[first:last].astype(bool)
    positions = np.concatenate(([0], np.cumsum(kept)))
    return positions[indptr - first].astype(indptr.dtype), indices[first:last][kept], None


def index_of(index: Any) -> NDArray[Any]:
    """Returns row numbers as the engine reads them; copies only if needed."""
    numbers = _checks.array(index)
    if numbers.ndim != 1:
        raise InvalidArgumentError(f"index has {numbers.ndim} dimensions; expected one, a row number for each row")
    if not len(numbers):
        return numbers.astype(np.int64)  # of what is empty NumPy knows no type
    try:
        return _integers(numbers, "index", STORED)
    except InvalidDataError as error:
        raise InvalidArgumentError(str(error)) from None
