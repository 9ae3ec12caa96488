"""Singular values and vectors of a sparse matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _native
from dsstne.solvers import _solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsstne import _handles

__all__ = ["svd"]

_MOST = (1 << 31) - 1


def svd(
    X: Any,
    k: int,
    *,
    oversampling: int | None = None,
    iterations: int = 1,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Computes the k largest singular values of a sparse matrix and their vectors.

    X is approximately ``u @ np.diag(s) @ vt``, as with :func:`scipy.sparse.linalg.svds`, but in descending order. The
    method is block Krylov iteration with thick restarts, in float32: it multiplies blocks of 64 vectors by X X', keeps
    a basis of about k + oversampling vectors orthonormal, and computes the best approximations in its span. A further
    iteration begins from these. The last vectors converge last. Iterations that cannot improve the result are skipped.

    Args:
        X: Matrix [rows, columns].
        k: Number of singular values, up to the smaller side of X. Where that is more than the rank of X, the last
            values are 0, or as small as the rounding of float32, and the vectors are orthonormal all the same.
        oversampling: Vectors of the basis beyond k; None = 1.5 k, and at least 64. More take more memory and time, and
            converge faster.
        iterations: Most iterations.
        seed: Of the random vectors that the basis begins with.
        devices: The computation runs on the CPU. A named device that is not available raises an error.
        threads: CPU threads; None = as many as the process may use. They change no bit of the result.
        memory_limit: Maximum bytes of the computation; a plan that needs more raises an error.
        max_seconds: Time limit; a computation that is not done then raises :class:`dsstne.CancelledError`.
        progress: Show a progress bar if stderr is a terminal or a notebook.

    Returns:
        ``(u, s, vt)``, float32 [rows, k], [k] and [k, columns]. Of the numbers of a row of vt that are largest in size,
        the first is positive.

    Raises:
        InvalidArgumentError: k is above the smaller side of X, or an option is not valid.
        InvalidDataError: X is damaged or has values that are not finite; the message names row, column and value.
        OutOfMemoryError: The plan is above ``memory_limit`` or does not fit.
        CancelledError: ``max_seconds`` passed.
        KeyboardInterrupt: Ctrl-C.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.diag([1.0, 3.0, 2.0]))
        >>> u, s, vt = dsstne.svd(X, 2)
        >>> s
        array([3., 2.], dtype=float32)
    """
    k = min(_checks.integer(k, "k", 1), _MOST)
    extra = 0 if oversampling is None else min(_checks.integer(oversampling, "oversampling", 1), _MOST)
    method = {
        "kind": "svd",
        "k": k,
        "oversampling": extra,
        "iterations": min(_checks.integer(iterations, "iterations", 1), 1000),
        "seed": seed,
    }

    def take(solver: _handles.Handle, shape: tuple[int, int]) -> tuple[NDArray[np.float32], ...]:
        arrays = np.empty((shape[0], k), np.float32), np.empty(k, np.float32), np.empty((k, shape[1]), np.float32)
        for name, array in zip(("u", "s", "vt"), arrays, strict=True):
            _native.call("solver_get_array", solver.value, name.encode(), array, array.nbytes)
        return arrays

    return _solve(X, method, None, seed, devices, threads, memory_limit, max_seconds, progress, take)
