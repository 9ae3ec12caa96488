"""Metrics beyond accuracy: what lists of recommendations are like, whoever made them.

Lists are ids [rows, k], best first, as :meth:`dsstne.Model.recommend` returns them; -1 stands where no item is left.
:func:`dsstne.beyond_accuracy` computes all of them for a model. docs/metrics.md has the formulas.

>>> import numpy as np
>>> from dsstne import metrics
>>> metrics.coverage(np.array([[0, 2], [0, -1]]), items=4)
0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _checks
from dsstne.dataset import pattern
from dsstne.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["average_popularity", "coverage", "diversity", "gini", "novelty", "popularity_lift"]

_BLOCK = 1 << 22  # entries of the sums of vectors that are computed at a time


def coverage(ids: Any, items: int) -> float:
    """Computes the share of the items that are recommended to anybody (Ge et al., 2010).

    Args:
        ids: Lists [rows, k]; -1 where no item is left.
        items: Number of items of the catalogue.

    Returns:
        From 0 to 1.

    Raises:
        InvalidArgumentError: An id is not an item, or ids are not integers in two dimensions.

    Example:
        >>> coverage([[0, 2], [0, -1]], items=4)
        0.5
    """
    items = _checks.integer(items, "items", 1)
    return len(_exposure(ids, items)) / items


def gini(ids: Any, items: int) -> float:
    """Computes the Gini index of how often the items are recommended (Fleder and Hosanagar, 2009).

    Args:
        ids: Lists [rows, k]; -1 where no item is left.
        items: Number of items of the catalogue.

    Returns:
        0 if all items are recommended equally often; (items - 1) / items if only one is. NaN if all lists are empty.
        Some authors report 1 minus this number.

    Raises:
        InvalidArgumentError: As :func:`coverage`.

    Example:
        >>> gini([[0, 1], [2, 3]], items=4)
        0.0
        >>> gini([[0], [0]], items=4)
        0.75
    """
    items = _checks.integer(items, "items", 1)
    return gini_of(_exposure(ids, items), items)


def novelty(ids: Any, train: Any, *, per_row: bool = False) -> Any:
    """Computes the mean self-information of the recommended items (Zhou et al., 2010), in bits.

    An item that n of the N rows of ``train`` have carries log2(N / n) bits; an item that no row has counts as if one
    row had it.

    Args:
        ids: Lists [rows, k]; -1 where no item is left.
        train: Matrix [N, items] that the popularity of the items is counted in.
        per_row: Return the mean of each list instead of the mean over the lists.

    Returns:
        The mean over the rows with a recommended item; with ``per_row`` float64 [rows], NaN for rows without any.

    Raises:
        InvalidArgumentError: As :func:`coverage`, or ``train`` has no rows.
        UnsupportedError: ``train`` is Arrow data, a file or a product; give a SciPy matrix.

    Example:
        >>> train = np.array([[1, 1], [1, 0], [1, 0], [1, 0]])
        >>> novelty([[0], [1]], train, per_row=True)
        array([0., 2.])
    """
    return _answer(row_means(ids, self_information(*counts_of(train))), per_row)


def average_popularity(ids: Any, train: Any, *, per_row: bool = False) -> Any:
    """Computes the average recommendation popularity (Yin et al., 2012): how many rows have a recommended item.

    Args:
        ids: Lists [rows, k]; -1 where no item is left.
        train: Matrix [N, items] that the popularity of the items is counted in.
        per_row: Return the mean of each list instead of the mean over the lists.

    Returns:
        The mean over the rows with a recommended item, in rows of ``train``; with ``per_row`` float64 [rows], NaN for
        rows without any.

    Raises:
        InvalidArgumentError: As :func:`novelty`.
        UnsupportedError: As :func:`novelty`.

    Example:
        >>> train = np.array([[1, 1], [1, 0], [1, 0], [1, 0]])
        >>> average_popularity([[0, 1]], train)
        2.5
    """
    return _answer(row_means(ids, counts_of(train)[0]), per_row)


def popularity_lift(ids: Any, X: Any, train: Any = None) -> float:
    """Computes how much more popular the recommended items are than what the rows had (Abdollahpouri et al., 2020).

    Args:
        ids: Lists [rows, k]; -1 where no item is left.
        X: Matrix [rows, items] of what each row had.
        train: Matrix [N, items] that the popularity of the items is counted in; None = X.

    Returns:
        (R - P) / P: R is the mean popularity of the items in a list, P that of the items in a row of X, both averaged
        over the rows that have both. 0 = as popular as before, 1 = twice as popular. NaN if no row has both.

    Raises:
        InvalidArgumentError: As :func:`novelty`, or shapes do not match.
        UnsupportedError: As :func:`novelty`.

    Example:
        >>> X = np.array([[1, 1], [1, 0], [1, 0]])
        >>> popularity_lift([[0], [-1], [-1]], X)
        0.5
    """
    had = pattern(X, "X")
    counts, _ = counts_of(had if train is None else train)
    if had.shape[1] != len(counts):
        raise InvalidArgumentError(f"X has {had.shape[1]:,} columns and train {len(counts):,}; both must be the items")
    given = row_means(ids, counts)
    if len(given) != had.shape[0]:
        raise InvalidArgumentError(f"ids has {len(given):,} rows and X {had.shape[0]:,}; both must be the same rows")
    return lift_of(given, profile_means(had, counts))


def diversity(ids: Any, vectors: Any, *, per_row: bool = False) -> Any:
    """Computes the mean distance of two items in the same list (Ziegler et al., 2005): 1 minus their cosine.

    Args:
        ids: Lists [rows, k]; -1 where no item is left.
        vectors: A vector for each item, [items, d], dense or sparse. ``X.T`` compares items by the rows that have
            them, a matrix [items, tags] by their tags, ``model.tensor("output.weight")`` by what a network learned.
            An item without values has the distance 1 to all others.
        per_row: Return the mean of each list instead of the mean over the lists.

    Returns:
        The mean over the rows with at least two recommended items; with ``per_row`` float64 [rows], NaN for the others.

    Raises:
        InvalidArgumentError: As :func:`coverage`, or the vectors are not numbers in two dimensions.
        InvalidDataError: A value is not finite.

    Example:
        >>> diversity([[0, 1], [1, 2]], np.array([[1, 0], [1, 0], [0, 2]]), per_row=True)
        array([0., 1.])
    """
    return _answer(mean_distances(ids, unit_vectors(vectors)), per_row)


# ---- parts that dsstne.beyond_accuracy uses on lists that come in blocks ----


def lists(ids: Any, items: int) -> NDArray[Any]:
    """Returns lists as an array of integers; checks them.

    Raises:
        InvalidArgumentError: They are something else, or an id is not an item.
    """
    array = _checks.array(ids)
    if array.ndim != 2 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidArgumentError(
            "ids must be integers [rows, k], as model.recommend(X)[0] of a matrix X; "
            f"got {array.ndim} dimensions of {array.dtype}"
        )
    array = array.astype(np.int64 if array.dtype.kind != "i" else array.dtype, copy=False)
    bad = np.argwhere((array < -1) | (array >= items))
    if len(bad):
        row, place = bad[0].tolist()
        raise InvalidArgumentError(
            f"ids[{row}, {place}] is {array[row, place]}; with {items:,} items it is -1 to {items - 1:,}"
        )
    return array


def _exposure(ids: Any, items: int) -> NDArray[np.int64]:
    """Returns how often each item is recommended, of those that are."""
    given = lists(ids, items)
    return np.unique(given[given >= 0], return_counts=True)[1]


def gini_of(exposure: NDArray[np.int64], items: int) -> float:
    """Returns the Gini index; ``exposure`` is above 0, and the other items are not recommended."""
    ranks = np.arange(items - len(exposure) + 1, items + 1, dtype=np.float64)
    total = float(exposure.sum())
    return float((2 * ranks - items - 1) @ np.sort(exposure)) / (items * total) if total else float("nan")


def counts_of(train: Any) -> tuple[NDArray[np.int64], int]:
    """Returns how many rows of a matrix have each item, and the number of rows."""
    matrix = pattern(train, "train")
    if matrix.shape[0] == 0:
        raise InvalidArgumentError("train has no rows, so no item has a popularity")
    return np.bincount(matrix.indices, minlength=matrix.shape[1]), matrix.shape[0]


def self_information(counts: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Returns the bits of each item."""
    return np.log2(rows / np.maximum(counts, 1))


def row_means(ids: Any, values: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the mean of a value of the items over each list; NaN for an empty one."""
    given = lists(ids, len(values))
    sums = np.append(values, 0).astype(np.float64)[given].sum(axis=1)  # id -1 is the 0 at the end
    return _divided(sums, (given >= 0).sum(axis=1))


def profile_means(X: Any, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the mean popularity of the stored items of each row; NaN for an empty one."""
    return _divided(X @ counts.astype(np.float64), np.diff(X.indptr))


def lift_of(given: NDArray[np.float64], had: NDArray[np.float64]) -> float:
    """Returns the popularity lift of mean popularities of lists and of rows."""
    both = np.isfinite(given) & np.isfinite(had)
    before = float(had[both].sum())
    return float(given[both].sum()) / before - 1 if before else float("nan")


def unit_vectors(vectors: Any) -> Any:
    """Returns vectors divided by their lengths, as a CSR array or a dense one; a vector of zeros stays as it is."""
    if scipy.sparse.issparse(vectors) and len(vectors.shape) == 2 and vectors.dtype.kind in "buif":  # type: ignore[attr-defined]
        matrix: Any = scipy.sparse.csr_array(vectors, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        lengths = _lengths(matrix.multiply(matrix).sum(axis=1))
        matrix.data /= np.repeat(lengths, np.diff(matrix.indptr))
        return matrix
    array = _checks.array(vectors)
    if array.ndim != 2 or array.dtype.kind not in "buif":
        got = f"{array.ndim} dimensions of {array.dtype}"
        raise InvalidArgumentError(f"vectors must be numbers [items, d], dense or sparse; got {got}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float64)
        return array / _lengths((array * array).sum(axis=1))[:, None]


def _lengths(squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns square roots, and 1 for 0."""
    bad = np.flatnonzero(~np.isfinite(squares))
    if len(bad):
        raise InvalidDataError(f"vectors: row {bad[0]} has a value that is not finite or too large to square")
    return np.sqrt(np.where(squares > 0, squares, 1))


def mean_distances(ids: Any, unit: Any) -> NDArray[np.float64]:
    """Returns the mean distance of two items of each list; NaN for a list of fewer than two.

    The cosines of all pairs of a list add up to the squared length of the sum of its unit vectors, without the 1 that
    each vector has with itself. So no pair of items is looked at alone, and no matrix of all pairs is needed.
    """
    given = lists(ids, unit.shape[0])
    is_sparse = scipy.sparse.issparse(unit)
    entries = np.diff(unit.indptr) if is_sparse else np.full(unit.shape[0], unit.shape[1])
    squares = unit.multiply(unit).sum(axis=1) if is_sparse else (unit * unit).sum(axis=1)  # 1, or 0 for a zero vector
    work = np.cumsum(np.append(entries, 0)[given].sum(axis=1))
    cosines = np.empty(len(given))
    for rows in _blocks(work):
        part = given[rows]
        offsets = np.append(0, np.cumsum((part >= 0).sum(axis=1)))
        chosen = part[part >= 0]
        which = scipy.sparse.csr_array((np.ones(len(chosen)), chosen, offsets), shape=(len(part), unit.shape[0]))
        sums = which @ unit
        cosines[rows] = (sums.multiply(sums) if is_sparse else sums * sums).sum(axis=1) - which @ squares
    length = (given >= 0).sum(axis=1)
    return 1 - _divided(cosines, length * (length - 1))


def _blocks(work: NDArray[np.int64]) -> Iterator[slice]:
    """Divides rows into slices of about equal work, given its cumulative sum."""
    first = 0
    while first < len(work):
        done = int(work[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(work, done + _BLOCK, "right")))
        yield slice(first, last)
        first = last


def _divided(sums: Any, counts: Any) -> NDArray[np.float64]:
    """Returns quotients, NaN where there is nothing to divide by."""
    quotients = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=quotients, where=np.asarray(counts) > 0)
    return quotients


def mean_of(values: NDArray[np.float64]) -> float:
    """Returns the mean of the values that are not NaN; NaN if there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _answer(values: NDArray[np.float64], per_row: Any) -> Any:
    return values if _checks.boolean(per_row, "per_row") else mean_of(values)
