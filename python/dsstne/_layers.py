"""Which matrix feeds which layer, checked before anything native is called."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne.dataset import Dataset, open_dataset
from dsstne.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def nearest(word: str, known: Iterable[str]) -> str:
    """Ends an error message about an unknown word: the nearest known one, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "known are " + ", ".join(map(repr, known))


def assign(X: Any, layers: Mapping[str, int], name: str) -> dict[str, Any]:
    """Gives each layer its matrix.

    Args:
        X: One matrix for one layer, or a mapping from layer names to matrices.
        layers: Name and number of units of each layer that needs one.
        name: What X is called in errors.
    """
    if not layers:
        raise InvalidArgumentError(f"{name}: the network has no layer to feed with it")
    if not isinstance(X, Mapping):
        if len(layers) != 1:
            names = ", ".join(map(repr, layers))
            count = len(layers)
            raise InvalidArgumentError(f"{name}: the network has {count} such layers; give a mapping with {names}")
        return {next(iter(layers)): X}
    for key in X:
        if key not in layers:
            raise NotFoundError(f"{name}: there is no layer {key!r} to feed; {nearest(str(key), layers)}")
    missing = [layer for layer in layers if layer not in X]
    if missing:
        raise InvalidArgumentError(f"{name}: no matrix for layer {missing[0]!r}")
    return dict(X)


def check_columns(X: Any, units: int, name: str, layer: str) -> None:
    """Refuses a matrix whose columns are not the layer's units."""
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] != units:
        raise InvalidArgumentError(
            f"{name} has {shape[1]:,} columns and layer {layer!r} of the model has {units:,} units; "
            "was the matrix built with another item list?"
        )


class Bound:
    """Datasets by layer; the ones made here are closed with it.

    Args:
        X: One matrix, or a mapping from layer names to matrices.
        layers: Name and number of units of each layer.
        name: What X is called in errors.
        like: Datasets made before: a matrix that is found there is not opened twice.
    """

    def __init__(self, X: Any, layers: Mapping[str, int], name: str, like: Bound | None = None) -> None:
        self.datasets: dict[str, Dataset] = {}
        self._own: list[Dataset] = []
        self._opened: list[tuple[Any, Dataset]] = list(like._opened) if like else []
        try:
            for layer, matrix in assign(X, layers, name).items():
                check_columns(matrix, layers[layer], name, layer)
                self.datasets[layer] = self.open(matrix, name)
                check_columns(self.datasets[layer], layers[layer], name, layer)
            self.rows = self._common_rows(name)
        except BaseException:
            self.close()
            raise

    def open(self, matrix: Any, name: str) -> Dataset:
        """Returns the matrix as a Dataset; if it has to be made it is closed together with this object."""
        for known, dataset in self._opened:
            if known is matrix:
                return dataset
        dataset, made = open_dataset(matrix, name)
        self._opened.append((matrix, dataset))
        if made:
            self._own.append(dataset)
        return dataset

    def _common_rows(self, name: str) -> int:
        rows = {layer: dataset.shape[0] for layer, dataset in self.datasets.items()}
        if len(set(rows.values())) > 1:
            listed = ", ".join(f"{count:,} for {layer!r}" for layer, count in rows.items())
            raise InvalidArgumentError(f"{name}: all matrices must have the same rows; they have {listed}")
        return next(iter(rows.values()))

    def close(self) -> None:
        """Closes the datasets that were made here."""
        while self._own:  # one that refuses stays in the list, for the next try
            self._own[-1].close()
            self._own.pop()


def check_rows(name: str, count: int, other: str, other_count: int) -> None:
    """Refuses two matrices that should be about the same rows and are not."""
    if count != other_count:
        raise InvalidArgumentError(f"{name} has {count:,} rows and {other} {other_count:,}; they must be the same rows")


def numbers(values: Any, limit: int, name: str, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Returns indices below a limit as a contiguous array; a boolean mask stands for the positions that are True."""
    array = np.asarray(values)
    if array.dtype == bool:
        if array.shape != (limit,):
            raise InvalidArgumentError(f"{name}: a mask must have {limit:,} entries; it has the shape {array.shape}")
        array = np.flatnonzero(array)
    if array.size == 0:
        array = array.astype(dtype)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        got = f"{array.ndim} dimensions of {array.dtype}"
        raise InvalidArgumentError(f"{name}: expected one list of integers, got {got}")
    array = array.reshape(-1)
    bad = np.flatnonzero((array < 0) | (array >= limit))
    if bad.size:
        raise InvalidArgumentError(f"{name}[{bad[0]}] is {array[bad[0]]}; expected 0 to {limit - 1:,}")
    return np.ascontiguousarray(array, dtype=dtype)
