"""Layers that compute with the values of other layers, in NumPy: kernels/merge.go has the formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def merged(function: str, values: Sequence[Array]) -> Array:
    """Returns the values of a merge layer for those of its sources, [rows, units] each."""
    if function == "maximum":
        return np.asarray(np.max(values, axis=0))
    first, *others = _unit(function, values)
    return np.stack([(first * other).sum(axis=1) for other in others], axis=1)


def merged_back(function: str, values: Sequence[Array], gradient: Array) -> list[Array]:
    """Returns the gradients with respect to the sources for that with respect to the values of the layer."""
    if function == "maximum":
        first = np.argmax(values, axis=0)
        return [np.where(first == n, gradient, 0.0) for n in range(len(values))]
    units, parts = _unit(function, values), gradient.T[:, :, None]
    toward = [sum((g * other for g, other in zip(parts, units[1:], strict=True)), np.zeros_like(units[0]))]
    toward += [g * units[0] for g in parts]
    if function == "dot":
        return toward
    return [
        np.where(length > 0, (t - unit * (unit * t).sum(axis=1, keepdims=True)) / np.where(length > 0, length, 1), 0)
        for t, unit, length in zip(toward, units, map(_lengths, values), strict=True)
    ]


def _lengths(x: Array) -> Any:
    return np.linalg.norm(x, axis=1, keepdims=True)


def _unit(function: str, values: Sequence[Array]) -> list[Array]:
    """Returns what is multiplied: for cosines vectors of length 1, or 0."""
    if function == "dot":
        return list(values)
    return [x / np.where(_lengths(x) > 0, _lengths(x), 1) for x in values]
