"""Weights of entries that come from text retrieval: rows are documents, columns are terms, values are counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._matrices import as_csr
from dsstne._weights import sparse_matrix
from dsstne.dataset import Dataset
from dsstne.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

__all__ = ["bm25_weight", "tfidf_weight"]


def tfidf_weight(X: Any) -> sparse.csr_array:
    """Weights counts by TF-IDF: sqrt(x) ln(n / (1 + d)), for n rows and a column with d stored entries.

    Entries that few rows share weigh more (Spärck Jones, "A statistical interpretation of term specificity", 1972). For
    similarities between items that count active users less, items are the documents: ``tfidf_weight(X.T).T``.

    Args:
        X: Counts [documents, terms], not negative. It is not changed.

    Returns:
        ``csr_array`` of float32 in the shape of X. A column that n - 1 rows have becomes 0, and one that all have
        negative.

    Raises:
        InvalidDataError: X is damaged or has negative values.

    Example:
        >>> import dsstne, numpy as np
        >>> dsstne.tfidf_weight(np.array([[4, 1], [0, 1], [0, 1], [0, 0]])).toarray().round(2)
        array([[1.39, 0.  ],
               [0.  , 0.  ],
               [0.  , 0.  ],
               [0.  , 0.  ]], dtype=float32)
    """
    weighted = _counts(X)
    weighted.data = (np.sqrt(weighted.data) * _idf(weighted)).astype(np.float32)
    return weighted


def bm25_weight(X: Any, k1: float = 100.0, b: float = 0.8) -> sparse.csr_array:
    """Weights counts by BM25: x (k1 + 1) / (x + k1 (1 - b + b l / m)) ln(n / (1 + d)).

    l is the sum of the row, m the mean of these sums; n and d are as in :func:`tfidf_weight`. Large counts and long
    rows weigh less (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; this idf is
    never above the one there). For similarities between items, items are the documents: ``bm25_weight(X.T).T``.

    Args:
        X: Counts [documents, terms], not negative. It is not changed.
        k1: The larger, the later a count stops to matter. Text retrieval uses about 1.2.
        b: How much the length of the row matters, from 0 to 1.

    Returns:
        ``csr_array`` of float32 in the shape of X.

    Raises:
        InvalidArgumentError: k1 or b is out of range.
        InvalidDataError: X is damaged or has negative values.

    Example:
        >>> import dsstne, numpy as np
        >>> dsstne.bm25_weight(np.array([[8, 1], [0, 1], [0, 1], [0, 0]]), k1=1.2, b=0.75).toarray().round(2)
        array([[1.08, 0.  ],
               [0.  , 0.  ],
               [0.  , 0.  ],
               [0.  , 0.  ]], dtype=float32)
    """
    k1 = _checks.positive(k1, "k1")
    if not _checks.is_number(b) or not 0 <= b <= 1:
        raise InvalidArgumentError(f"b must be from 0 to 1, not {_checks.shown(b)}")
    if not np.isfinite(k1):
        raise InvalidArgumentError(f"k1 must be finite, not {_checks.shown(k1)}")
    weighted = _counts(X)
    counts, lengths = weighted.data.astype(float), weighted.sum(axis=1, dtype=float)
    if lengths.any():
        of_entry = np.repeat(lengths / lengths.mean(), np.diff(weighted.indptr))
        norm = 1 - b + b * of_entry
        weighted.data = (counts * ((k1 + 1) / (counts + k1 * norm)) * _idf(weighted)).astype(np.float32)
    return weighted


def _counts(X: Any) -> sparse.csr_array:
    """Returns a copy of X in float32 without stored zeros."""
    if not isinstance(X, Dataset):
        Dataset(X).close()  # raises the errors of a damaged matrix
    matrix: sparse.csr_array = sparse_matrix(as_csr(X, "X"), "X").copy()
    matrix.eliminate_zeros()
    if matrix.nnz and matrix.data.min() < 0:
        raise InvalidDataError(f"X has a value of {matrix.data.min():g}; counts are not negative")
    return matrix


def _idf(matrix: sparse.csr_array) -> NDArray[np.float64]:
    """Returns the inverse document frequency of each entry."""
    rows, columns = matrix.shape[0], matrix.shape[-1]
    return np.log(max(1, rows) / (1 + np.bincount(matrix.indices, minlength=columns)))[matrix.indices]
