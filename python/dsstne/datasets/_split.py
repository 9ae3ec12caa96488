"""Splits an interaction matrix into a part to learn from and a part to test with."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from dsstne import _checks
from dsstne.dataset import Dataset
from dsstne.errors import InvalidArgumentError, InvalidDataError
from dsstne.interactions import Interactions


def hold_out(X: Any, fraction: float = 0.2, seed: int = 0, *, last: Any = False, core: int = 0) -> tuple[Any, Any]:
    """Splits the entries of each row into an input for a model and held-out entries to test it.

    Of ``n`` entries in a row, ``n * fraction`` (rounded, halves up) are held out, but at least one stays in the input.
    By default they are drawn at random. A model that will predict the future should be chosen on the last entries of
    each row instead: a random split can prefer another model than the future does.

    Args:
        X: Interaction matrix [rows, items] in any SciPy sparse format, or :class:`dsstne.Interactions` or a
            :class:`dsstne.Dataset` of one; it is not changed.
        fraction: Share of the entries of each row to hold out, from 0 to 1.
        seed: Seed of a random split; the same seed gives the same split on every machine.
        last: True holds out the last entries of each row in the order in which X stores them; X must be a CSR matrix
            whose rows are in order of time. A CSR matrix of the times of X's entries, with the same ``indptr`` and
            ``indices``, holds out the latest; at equal times those that are stored later. Of an item that a row stores
            several times, the latest entry counts.
        core: Leaves out the items that fewer rows than this have, in both parts. A test set is often made from items
            that had many entries before the split; without ``core`` the validation data would have rarer ones.

    Returns:
        ``(X_in, X_held_out)``, both CSR with the shape of X; ``X_in + X_held_out`` equals X, without the items that
        ``core`` leaves out. They are sparse arrays if X is one, else sparse matrices.

    Raises:
        InvalidArgumentError: An argument has the wrong type or range, or the times do not belong to X.
        InvalidDataError: X is damaged, or a time is not a number.

    Warns:
        UserWarning: With ``last=True``, most rows are sorted by item, so that their order tells nothing about time.

    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = sparse.csr_array(np.ones((1000, 10), dtype=np.float32))
    >>> X_in, X_held_out = hold_out(X, fraction=0.2)
    >>> X_in.nnz, X_held_out.nnz
    (8000, 2000)
    >>> visits = sparse.csr_array((np.ones(4), [7, 2, 9, 4], [0, 4]), shape=(1, 10))  # item 7 first, item 4 last
    >>> hold_out(visits, last=True)[1].indices.tolist()
    [4]
    """
    if not _checks.is_number(fraction) or not 0 <= fraction <= 1:
        raise InvalidArgumentError(f"fraction must be from 0 to 1, not {_checks.shown(fraction)}")
    seed, core = _checks.integer(seed, "seed", 0), _checks.integer(core, "core", 0)
    ordered = sparse.issparse(last) or _checks.boolean(last, "last")
    X = _csr(X, "X", unconverted=ordered)
    order = np.empty(0)
    if ordered:
        X, order = _by_time(X, last)
    elif not X.has_canonical_format or not np.all(X.data):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    if core:
        kept = np.bincount(X.indices, minlength=X.shape[1])[X.indices] >= core
        X, order = _entries(X, kept), order[kept] if ordered else order

    # The first entries of a row are held out.
    place = places(X, order if ordered else np.random.default_rng(seed))
    hidden = place < np.repeat(share(X, fraction), np.diff(X.indptr))
    return _entries(X, ~hidden), _entries(X, hidden)


def share(X: Any, fraction: float) -> np.ndarray:
    """Returns how many entries of each row are a fraction of them, rounded; at least one entry is not among them."""
    lengths = np.diff(X.indptr)
    count: np.ndarray = np.minimum(np.floor(lengths * fraction + 0.5).astype(np.int64), np.maximum(lengths - 1, 0))
    return count


def places(X: Any, order: np.ndarray | np.random.Generator) -> np.ndarray:
    """Returns the place of each entry in its row, from 0: at random, or by different numbers, the largest first."""
    row = _rows(X)
    if isinstance(order, np.random.Generator):
        ranked = np.argsort(row + order.random(X.nnz), kind="stable")
    else:
        ranked = np.lexsort((-order, row))
    place = np.empty(X.nnz, np.int64)
    place[ranked] = np.arange(X.nnz) - np.repeat(X.indptr[:-1], np.diff(X.indptr))
    return place


def _csr(X: Any, name: str, unconverted: bool) -> Any:
    """Returns the matrix as CSR; its entries stay in their order."""
    X = X.matrix if isinstance(X, Interactions) else X._matrix(name) if isinstance(X, Dataset) else X
    is_sparse: bool = sparse.issparse(X)
    if not is_sparse:
        raise InvalidArgumentError(f"{name} must be a SciPy sparse matrix, not {type(X).__name__}; try csr_array(X)")
    if len(X.shape) != 2:
        raise InvalidArgumentError(f"{name} must have two dimensions, rows and columns; it has {len(X.shape)}")
    if unconverted and X.format != "csr":
        raise InvalidArgumentError(
            f"{name} is a {X.format} matrix; with last=, it must be CSR, because converting it would sort its rows"
        )
    X = X.tocsr()
    try:
        X.check_format()
    except ValueError as error:
        raise InvalidDataError(f"{name} is damaged: {error}") from None
    return X


def canonical(X: Any, name: str) -> Any:
    """Returns a copy as CSR without duplicates and stored zeros, as the engine reads it; for a message, a name."""
    X = _csr(X, name, unconverted=False).copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _by_time(X: Any, last: Any) -> tuple[Any, np.ndarray]:
    """Returns X with sorted rows, without duplicates and zeros, and for each entry its place in the order of time."""
    row = _rows(X)
    place = np.arange(X.nnz)
    if sparse.issparse(last):
        times = _csr(last, "last", unconverted=True)
        if times.dtype.kind not in "biuf":
            raise InvalidArgumentError(f"last: times are real numbers, not {times.dtype}")
        if times.shape != X.shape or not np.array_equal(times.indptr, X.indptr):
            raise InvalidArgumentError("last must have the shape of X, and as many entries in each row")
        differs = np.flatnonzero(times.indices != X.indices)
        if len(differs):
            at = differs[0]
            raise InvalidArgumentError(
                f"last must store its entries in the order of X: in row {row[at]} it has item {times.indices[at]} "
                f"where X has item {X.indices[at]}"
            )
        if np.isnan(times.data).any():
            unknown = row[np.isnan(times.data)][0]
            raise InvalidDataError(f"last: the time in row {unknown} is not a number")
        place[np.lexsort((place, times.data))] = np.arange(X.nnz)
    elif is_sorted_by_item(X):
        warnings.warn(
            "last=True, but most rows of X are sorted by item, so that their order tells nothing about time; give a "
            "matrix of times, or leave out last=",
            UserWarning,
            stacklevel=3,
        )
    # Entries of the same item in a row become one, with the sum of the values and the latest place.
    by_item = np.lexsort((place, X.indices, row))
    keys = np.stack([row[by_item], X.indices[by_item]])
    first = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: X.nnz])
    values = np.add.reduceat(X.data[by_item], first) if len(first) else X.data
    latest = place[by_item[np.append(first[1:], X.nnz) - 1]] if len(first) else place
    summed = _made(X, keys[0, first], keys[1, first], values)
    return _entries(summed, values != 0), latest[values != 0]


def is_sorted_by_item(X: Any) -> bool:
    """Reports whether most rows with several entries store them in the order of the items."""
    row = _rows(X)
    falls = (np.diff(X.indices) < 0) & (row[1:] == row[:-1])
    unsorted = len(np.unique(row[1:][falls]))
    return bool(2 * unsorted < np.count_nonzero(np.diff(X.indptr) > 1))


def _rows(X: Any) -> np.ndarray:
    """Returns the row of each entry."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _entries(X: Any, chosen: np.ndarray) -> Any:
    """Returns the chosen entries of X as a matrix."""
    return _made(X, _rows(X)[chosen], X.indices[chosen], X.data[chosen])


def _made(like: Any, rows: np.ndarray, indices: np.ndarray, values: np.ndarray) -> Any:
    """Returns a matrix of sorted entries with the class, types and shape of another."""
    lengths = np.bincount(rows, minlength=like.shape[0])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(like.indptr.dtype)
    part = type(like)((values, indices.astype(like.indices.dtype), offsets), shape=like.shape)
    part.has_canonical_format = True
    return part
