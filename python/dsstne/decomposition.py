"""Singular values and vectors of a sparse matrix, and filters that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _native
from dsstne._layers import nearest
from dsstne.errors import InvalidArgumentError
from dsstne.solvers import _solve, compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dsstne import _handles
    from dsstne.model import Model

__all__ = ["spectral", "svd"]

_MOST = (1 << 31) - 1

_GF_CF = {"row_exponent": 1.0, "first_in": 0.5, "first_out": 0.5, "low_pass": 0.3, "sharpening": 0.0}

# The settings of published filters, and of "f", which was chosen on held-out data of Gowalla.
FILTERS: dict[str, dict[str, float]] = {
    "gf_cf": _GF_CF,
    "bspm_em": {**_GF_CF, "low_pass": 0.2, "sharpening": 2.5},
    "f": {
        "row_exponent": 0.75,
        "first_in": 0.55,
        "first_out": 0.25,
        "low_pass": 0.6,
        "sharpening": 1.3,
        "balanced": True,
    },
}
_LEAST_RANK, _MOST_RANK = 32, 448  # where rank is not given


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
        progress: Show a progress bar in terminals and notebooks, or a line every 30 seconds if stderr is a file.

    Returns:
        ``(u, s, vt)``, float32 [rows, k], [k] and [k, columns]. Of the numbers of a row of vt that are largest in size,
        the first is positive.

    Raises:
        InvalidArgumentError: k is above the smaller side of X, or an option is not valid.
        InvalidDataError: X is damaged or has values that are not finite; the message names row, column and value.
        NotFiniteError: The square of a singular value is too large for float32.
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
    options = {"kind": "svd", **_basis(k, "k", oversampling, iterations, seed)}
    k = options["k"]

    def take(
        solver: _handles.Handle, shape: tuple[int, int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        arrays = np.empty((shape[0], k), np.float32), np.empty(k, np.float32), np.empty((k, shape[1]), np.float32)
        for name, array in zip(("u", "s", "vt"), arrays, strict=True):
            _native.call("solver_get_array", solver.value, name.encode(), array, array.nbytes)
        return arrays

    return compute(X, options, seed, devices, threads, memory_limit, max_seconds, progress, take)


def _basis(k: int, name: str, oversampling: int | None, iterations: int, seed: int) -> dict[str, Any]:
    """Returns the options for singular vectors."""
    return {
        "k": min(_checks.integer(k, name, 1), _MOST),
        "oversampling": 0 if oversampling is None else min(_checks.integer(oversampling, "oversampling", 1), _MOST),
        "iterations": min(_checks.integer(iterations, "iterations", 1), 1000),
        "seed": seed,
    }


def spectral(
    X: Any,
    rank: int | None = None,
    *,
    method: str = "f",
    row_exponent: float | None = None,
    first_in: float | None = None,
    first_out: float | None = None,
    low_pass: float | None = None,
    low_pass_exponent: float | None = None,
    sharpening: float | None = None,
    output_exponent: float | None = None,
    balanced: bool | None = None,
    oversampling: int | None = None,
    iterations: int = 1,
    items: Sequence[str] | ArrayLike | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Model:
    """Makes a model that filters a row by the spectrum of the interactions.

    With D_u and D the numbers of stored entries of the rows and the items of X, R = D_u^-1/2 X D^-1/2, C = R'R, and V
    the right singular vectors of R with the ``rank`` largest singular values, a row x is scored by

    - y = kappa x D^-first_in X' D_u^-row_exponent X D^-first_out
      + low_pass iota x D^-low_pass_exponent V V' D^low_pass_exponent,
    - score = (y - h y C + h^2/2 y C^2 - h^3/6 y C^3 + h^4/24 y C^4) D^output_exponent, with h = sharpening.

    kappa and iota are 1. If the filter is balanced, they give each part a root mean square of 1 over 256 rows of X that
    the seed draws. The filters are settings of these numbers:

    - ``"gf_cf"``: row_exponent 1, first_in, first_out and low_pass_exponent 0.5, low_pass 0.3, sharpening 0. Shen et
      al., "How Powerful is Graph Convolution for Recommendation?", 2021.
    - ``"bspm_em"``: the same with low_pass 0.2 and sharpening 2.5. Choi et al., "Blurring-Sharpening Process Models for
      Collaborative Filtering", 2023.
    - ``"f"``: row_exponent 0.75, first_in 0.55, first_out 0.25, low_pass 0.6, sharpening 1.3, balanced; chosen on
      held-out data of Gowalla.

    Args:
        X: Interaction matrix [rows, items].
        rank: Number of singular vectors, up to the smaller side of X. None = a sixteenth of that side, but not
            less than 32 (or the whole side, if it is shorter) and not more than 448. Too many vectors filter small
            data too little.
        method: ``"gf_cf"``, ``"bspm_em"`` or ``"f"``; what the other arguments are where they are None.
        row_exponent, first_in, first_out, low_pass, low_pass_exponent, sharpening, output_exponent, balanced: See
            above.
        oversampling, iterations: For the singular vectors, see :func:`dsstne.svd`.
        items: Names of the items.
        seed: Of the random vectors that the singular vectors begin with, and of the rows that balance a filter.
        devices, threads, memory_limit, max_seconds, progress: See :func:`dsstne.svd`.

    Returns:
        A model that keeps R and V, and scores on one device. A row does not have to be one of X; one without entries is
        scored by popularity.

    Raises:
        InvalidArgumentError: rank is above the smaller side of X, or an option is not valid.
        DsstneError: As :func:`dsstne.svd`.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 1]], dtype=np.float32))
        >>> dsstne.spectral(X, rank=2, method="gf_cf").recommend(X[[0]], k=1)[0]
        array([[3]], dtype=int32)
    """
    given = {
        "row_exponent": row_exponent,
        "first_in": first_in,
        "first_out": first_out,
        "low_pass": low_pass,
        "low_pass_exponent": low_pass_exponent,
        "sharpening": sharpening,
        "output_exponent": output_exponent,
        "balanced": balanced,
    }
    if _checks.text(method, "method") not in FILTERS:
        raise InvalidArgumentError(f"method: {_checks.shown(method)} is unknown; {nearest(method, FILTERS)}")

    def options(shape: tuple[int, int]) -> dict[str, Any]:
        smaller = max(1, min(shape))
        k = min(max(smaller // 16, _LEAST_RANK), smaller, _MOST_RANK) if rank is None else rank
        return {
            "kind": "spectral",
            **_basis(k, "rank", oversampling, iterations, seed),
            **FILTERS[method],
            **{key: value for key, value in given.items() if value is not None},
        }

    return _solve(X, options, items, seed, devices, threads, memory_limit, max_seconds, progress)
