"""Weights of a linear model by LAPACK's dense inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg.lapack
import scipy.sparse

from dsstne.errors import InvalidDataError
from dsstne.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS = 512  # of a block


def invert(gram: Model, item_exponent: float, output_exponent: float, per_item: int | None) -> Model:
    """Makes a linear model of the matrix that is to be inverted, the weights of ``gram``, which is closed or returned.

    Memory beside ``gram``: the matrix once, in which LAPACK works, and the weights that are kept.
    """
    P = gram.tensor("weight")
    degrees = gram.tensor("bias").astype(np.float64)
    with np.errstate(divide="ignore"):
        rows = np.where(degrees > 0, degrees**-item_exponent, 0)
        columns = np.where(degrees > 0, degrees ** (item_exponent - output_exponent), 0)
    _invert(P)
    columns /= np.diag(P)
    for begin in range(0, len(P), _ROWS):
        block = slice(begin, begin + _ROWS)
        P[block] *= -rows[block, None] * columns
    np.fill_diagonal(P, 0)
    if per_item is None:
        gram.set_tensor("weight", P)
        return gram
    weights = _largest(P, per_item)
    definition = {"kind": "item_weights", "items": len(P), "weight": "csr", "entries": weights.nnz, "bias": True}
    names, popularity = gram.items, gram.tensor("bias")
    gram.close()
    model = Model._new({**definition, "bias_if_empty": True}, names)
    model.same_items = True
    model.set_tensor("weight", weights)
    model.set_tensor("bias", popularity)
    return model


def _invert(P: NDArray[np.float32]) -> None:
    """Inverts a symmetric positive definite matrix in place."""
    lapack: Any = scipy.linalg.lapack
    factor, failed = lapack.spotrf(P.T, lower=1, clean=0, overwrite_a=1)
    if failed == 0:
        _, failed = lapack.spotri(factor, lower=1, overwrite_c=1)
    if failed or not np.isfinite(np.diag(P)).all():
        raise InvalidDataError("the matrix to invert is singular within float32's precision; use more regularization")
    for begin in range(0, len(P), _ROWS):  # LAPACK leaves the other triangle as it was
        end = begin + _ROWS
        P[begin:end, :begin] = P[:begin, begin:end].T
        corner = np.triu(P[begin:end, begin:end])
        P[begin:end, begin:end] = corner + np.triu(corner, 1).T


def _largest(S: NDArray[np.float32], count: int) -> Any:
    """Returns the largest entries of each row that are not 0; of equal ones, any."""
    blocks = []
    for begin in range(0, len(S), _ROWS):
        block = S[begin : begin + _ROWS].copy()
        if count < len(S):
            block[block == 0] = -np.inf
            least = np.partition(block, len(S) - count, axis=1)[:, len(S) - count, None]
            block[(block < least) | np.isneginf(block)] = 0
        blocks.append(scipy.sparse.csr_array(block))
    return scipy.sparse.vstack(blocks, format="csr")
