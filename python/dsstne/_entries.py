"""Sparse matrices of interactions: canonical, of float32, made of triples, of other matrices or of chosen entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def matrix_of(
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any] | None,
    times: NDArray[Any] | None,
    shape: tuple[int, int],
    duplicates: str,
) -> tuple[sparse.csr_array, NDArray[Any] | None]:
    """Returns a canonical matrix of float32 without zeros, and the times in its order."""
    keys = rows.astype(np.int64) * shape[1] + columns
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(keys)]
    if times is not None and not is_first.all():
        several = np.flatnonzero(~is_first | ~np.append(is_first[1:], True))
        of_several = order[several]
        order[several] = of_several[np.lexsort((times[of_several], ordered[several]))]
    first = np.flatnonzero(is_first)
    last = order[np.append(first[1:], len(keys)) - 1] if len(first) else order
    with np.errstate(over="ignore"):
        if values is None:
            counts = np.diff(np.append(first, len(keys)))
            data = (counts if duplicates == "sum" else np.ones(len(first))).astype(np.float32)
        elif duplicates == "sum" and len(first) < len(keys):
            data = np.add.reduceat(values[order].astype(np.float64), first).astype(np.float32)
        else:
            data = values[last].astype(np.float32)
    if not np.isfinite(data).all():
        raise InvalidDataError("value: a value, or a sum of values of a user and an item, is not finite as a float32")
    ids, used = ordered[first], data != 0
    if not used.all():
        ids, data, last = ids[used], data[used], last[used]
    width = np.int32 if max(len(ids), *shape) < 1 << 31 else np.int64
    offsets = np.searchsorted(ids, np.arange(shape[0] + 1) * shape[1]).astype(width)
    matrix = sparse.csr_array((data, (ids % max(1, shape[1])).astype(width), offsets), shape=shape)
    return marked(matrix), None if times is None else times[last]


def canonical(matrix: Any) -> Any:
    """Returns the matrix itself if it is a canonical csr_array of float32 without zeros, else a converted copy."""
    is_sparse: bool = sparse.issparse(matrix)
    if not is_sparse or len(matrix.shape) != 2:
        raise InvalidArgumentError(
            "matrix must be a sparse matrix of SciPy with rows and columns (Interactions.from_frame takes frames), "
            f"not {_checks.shown(matrix)}"
        )
    if matrix.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"matrix has values of type {matrix.dtype}; expected numbers")
    is_right = isinstance(matrix, sparse.csr_array) and matrix.dtype == np.float32
    try:
        matrix = sparse.csr_array(matrix, dtype=np.float32) if not is_right else matrix
        matrix.check_format()
    except ValueError as error:
        raise InvalidDataError(f"matrix is damaged: {error}") from None
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return matrix


def chosen_entries(matrix: sparse.csr_array, chosen: NDArray[np.bool_]) -> sparse.csr_array:
    """Returns the chosen entries as a matrix of the same shape."""
    offsets = np.append(0, np.cumsum(chosen))[matrix.indptr].astype(matrix.indptr.dtype)
    return marked(sparse.csr_array((matrix.data[chosen], matrix.indices[chosen], offsets), shape=matrix.shape))


def aligned(values: NDArray[Any], matrix: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Returns of values for the entries of a matrix those for the entries of some of its rows."""
    places: Any = sparse.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    chosen: NDArray[Any] = values[places[rows].data]
    return chosen


def marked(matrix: sparse.csr_array) -> sparse.csr_array:
    """Marks a matrix whose rows are sorted and free of duplicates."""
    matrix.has_canonical_format = True
    return matrix
