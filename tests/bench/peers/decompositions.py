"""Truncated singular values of a sparse matrix: ours, SciPy's and scikit-learn's; and a pair of sparse products."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

Values = tuple[np.ndarray, np.ndarray, np.ndarray]

SETTINGS = {"ours": "one iteration", "ours, converged": "five iterations"}


class Decomposition:
    """Computes k singular values of a matrix and their vectors, and remembers how good they are."""

    def __init__(self, name: str, X: sparse.csr_array, k: int, threads: int) -> None:
        self.name, self.X, self.k, self.threads = name, X, k, threads
        self.found: Values | None = None

    def run(self) -> float:
        """Seconds of a decomposition."""
        begin = time.perf_counter()
        self.found = self.compute()
        return time.perf_counter() - begin

    def compute(self) -> Values:
        """Decomposes."""
        if self.name.startswith("ours"):
            import dsstne

            iterations = 5 if "converged" in self.name else 1
            return dsstne.svd(self.X, self.k, iterations=iterations, threads=self.threads, progress=False)
        from threadpoolctl import threadpool_limits

        with threadpool_limits(self.threads):
            if self.name == "SciPy":
                from scipy.sparse.linalg import svds

                found: Values = svds(self.X, self.k)
                return found
            from sklearn.utils.extmath import randomized_svd

            other: Values = randomized_svd(self.X, self.k, random_state=0)
            return other

    def residual(self) -> float:
        """The largest |X v - s u| or |X'u - s v|, divided by the largest singular value."""
        assert self.found is not None
        u, s, vt = (a.astype(np.float64) for a in self.found)
        X = self.X.astype(np.float64)
        both = (X @ vt.T - u * s, X.T @ u - vt.T * s)
        return float(max(np.linalg.norm(error, axis=0).max() for error in both) / s.max())


def make(name: str, X: sparse.csr_array, k: int, threads: int) -> Decomposition:
    """A contestant."""
    return Decomposition(name, X, k, threads)


class Pair:
    """z = X' (X p) by SciPy, with a panel of 64 columns."""

    def __init__(self, rows: int, items: int, length: int) -> None:
        from scipy import sparse

        random = np.random.default_rng(0)
        indices = random.integers(0, items, rows * length, dtype=np.int32)
        self.X = sparse.csr_array(
            (np.ones(len(indices), np.float32), indices, np.arange(rows + 1) * length), (rows, items)
        )
        self.X.sum_duplicates()
        self.transposed = self.X.T.tocsr()
        self.panel = random.random((items, 64), dtype=np.float32)

    def run(self) -> float:
        """Seconds of a pair of products."""
        begin = time.perf_counter()
        self.transposed @ (self.X @ self.panel)
        return time.perf_counter() - begin


def make_pair(rows: int, items: int, length: int) -> Pair:
    """A contestant."""
    return Pair(rows, items, length)
