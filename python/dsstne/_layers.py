"""Pairs matrices with the layers that they feed."""

from __future__ import annotations

import difflib
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._items import row_difference
from dsstne.dataset import Dataset, named_rows, open_dataset, same_rows
from dsstne.errors import BusyError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dsstne._handles import Undo


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the end of an error message about an unknown word: the nearest known word, or all known words."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "the known ones are " + ", ".join(map(repr, known))


class Bound:
    """Opens matrices as Datasets and pairs them with layers; closes the Datasets that it opened.

    Args:
        X: One matrix, or a mapping from layer names to matrices.
        name: Name of X in error messages.
        layers: Name and number of units of each layer; None = call :meth:`pair` later.
        like: Another Bound; the matrices that it opened are not opened again.
    """

    def __init__(self, X: Any, name: str, layers: Mapping[str, int] | None = None, like: Bound | None = None) -> None:
        self.name = name
        self._own: list[Dataset] = []
        self._opened: list[tuple[Any, Dataset]] = list(like._opened) if like else []
        self.datasets: dict[Any, Dataset]
        try:
            if _checks.is_mapping(X):
                sizes = layers or {}
                self.datasets = {
                    layer: self._open(matrix, f"{name}[{layer!r}]", sizes.get(layer)) for layer, matrix in X.items()
                }
            else:
                self.datasets = {None: self._open(X, name, next(iter(layers.values())) if layers else None)}
            if layers is not None:
                self.pair(layers)
        except BaseException:
            self.close()
            raise

    def sizes(self, only: str) -> dict[str, int]:
        """Returns the number of columns for each layer; a matrix without a layer name has the key ``only``."""
        return {only if layer is None else layer: dataset.shape[1] for layer, dataset in self.datasets.items()}

    def pair(self, layers: Mapping[str, int]) -> None:
        """Assigns a dataset to each layer and checks the numbers of columns and rows."""
        name = self.name
        if None in self.datasets:
            if len(layers) != 1:
                names = ", ".join(map(repr, layers))
                raise InvalidArgumentError(
                    f"{name}: the network has {len(layers)} such layers; give a mapping with the keys {names}"
                )
            self.datasets = {next(iter(layers)): self.datasets[None]}
        for layer, dataset in self.datasets.items():
            if layer not in layers:
                raise NotFoundError(f"{name}: the network has no such layer {layer!r}; {nearest(str(layer), layers)}")
            check_columns(dataset, layers[layer], name, layer)
        for layer in layers:
            if layer not in self.datasets:
                raise InvalidArgumentError(f"{name}: no matrix for layer {layer!r}")
        self.datasets = {layer: self.datasets[layer] for layer in layers}  # in the order of the layers
        check_row_names(self.named())
        if len({dataset.shape[0] for dataset in self.datasets.values()}) > 1:
            listed = ", ".join(f"{dataset.shape[0]:,} for {layer!r}" for layer, dataset in self.datasets.items())
            raise InvalidArgumentError(f"{name}: all matrices must describe the same rows; they have {listed}")

    def named(self) -> list[tuple[str, Dataset]]:
        """Returns the datasets, each with its name in error messages."""
        several = len(self.datasets) > 1
        return [(f"{self.name}[{layer!r}]" if several else self.name, one) for layer, one in self.datasets.items()]

    @property
    def rows(self) -> int:
        """Number of rows, the same for all datasets."""
        return next(iter(self.datasets.values())).shape[0]

    def open(self, matrix: Any, name: str, units: int, layer: str) -> Dataset:
        """Opens another matrix for the same rows, [rows, units of the layer]; :meth:`close` closes it."""
        dataset = self._open(matrix, name, units)
        check_columns(dataset, units, name, layer)
        self.check_rows([(name, dataset)])
        return dataset

    def check_rows(self, others: Sequence[tuple[str, Dataset]]) -> None:
        """Raises an error if other datasets, each with its name, do not describe the same rows."""
        check_row_names([*self.named(), *others])
        for name, dataset in others:
            check_rows(name, dataset.shape[0], self.name, self.rows)

    def _open(self, matrix: Any, name: str, columns: int | None = None) -> Dataset:
        """Opens a matrix unless it is open; columns is the number for Arrow data, which do not contain it."""
        for known, dataset in self._opened:
            if known is matrix:
                return dataset
        dataset, made = open_dataset(matrix, name, columns)
        self._opened.append((matrix, dataset))
        if made:
            self._own.append(dataset)
        return dataset

    def close(self) -> None:
        """Closes the datasets that this object opened.

        A dataset may be in use if Ctrl-C came before its trainer or predictor was closed. It is then closed when
        nothing refers to it any more.
        """
        while self._own:
            with suppress(BusyError):
                self._own[-1].close()
            self._own.pop()


def bind(undo: Undo, X: Any, targets: Any) -> tuple[Bound, Bound]:
    """Opens the matrices of inputs and outputs; ``undo`` closes them. If targets is None, X is used."""
    inputs = Bound(X, "X")
    undo.callback(inputs.close)
    outputs = Bound(X, "X", like=inputs) if targets is None else Bound(targets, "targets", like=inputs)
    undo.callback(outputs.close)
    return inputs, outputs


def row_weights(sample_weight: Any, rows: int, name: str = "sample_weight") -> NDArray[np.float64]:
    """Returns the weights of rows, checked."""
    weights = _checks.array(sample_weight)
    if weights.dtype.kind not in "biuf" or weights.shape != (rows,):
        raise InvalidArgumentError(
            f"{name}: expected a number for each of {rows:,} rows, got an array of {weights.dtype} with the shape "
            f"{weights.shape}"
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InvalidArgumentError(f"{name}: weights must be finite and at least 0")
    if not weights.any():
        raise InvalidArgumentError(f"{name}: all weights are zero, so there is nothing to learn from")
    return weights.astype(np.float64)


def weights_by_layer(sample_weight: Any, outputs: Bound) -> dict[str, NDArray[np.float32]]:
    """Returns the weights of the rows for the outputs that have some: one array for all, or a mapping from outputs."""
    if sample_weight is None:
        return {}
    if not _checks.is_mapping(sample_weight):
        weights = row_weights(sample_weight, outputs.rows)
        given = dict.fromkeys(outputs.datasets, weights)
    else:
        for layer in sample_weight:
            if layer not in outputs.datasets:
                known = nearest(str(layer), outputs.datasets)
                raise NotFoundError(f"sample_weight: the network has no output layer {layer!r}; {known}")
        given = {
            layer: row_weights(weights, outputs.rows, f"sample_weight[{layer!r}]")
            for layer, weights in sample_weight.items()
        }
    with np.errstate(over="ignore"):  # the engine refuses what is infinite then
        return {layer: weights.astype(np.float32) for layer, weights in given.items()}


def check_columns(dataset: Dataset, units: int, name: str, layer: str) -> None:
    """Raises an error if a matrix does not have one column for each unit of the layer."""
    if dataset.shape[1] != units:
        raise InvalidArgumentError(
            f"{name} has {dataset.shape[1]:,} columns and layer {layer!r} of the model has {units:,} units; "
            "was the matrix built with another item list?"
        )


def check_rows(name: str, count: int, other: str, other_count: int) -> None:
    """Raises an error if two matrices that describe the same rows have different numbers of rows."""
    if count != other_count:
        text = f"{name} has {count:,} rows and {other} {other_count:,}; both must describe the same rows"
        raise InvalidArgumentError(text)


def check_row_names(matrices: Iterable[tuple[str, Any]]) -> None:
    """Raises an error if matrices of the same rows, each with its name, have different names of rows.

    Of each pair only the names are compared, if both have some; :func:`check_rows` compares numbers of rows.
    """
    named = [(name, having) for name, matrix in matrices if (having := named_rows(matrix)) is not None]
    for (other, known), (name, given) in combinations(named, 2):
        if same_rows(given, known):
            continue
        names, wanted = given.row_names, known.row_names
        assert names is not None
        assert wanted is not None
        if len(names) != len(wanted):
            text = f"{len(names):,} rows and {other} {len(wanted):,}"
        elif (difference := row_difference(names, wanted)) is not None:
            text = "other rows than {0}: row {1} is {2} and in {0} {3}".format(other, *difference)
        else:
            continue
        remedy = f"Interactions.from_frame(..., users={other}.row_names) takes those of {other}"
        raise InvalidArgumentError(f"{name} has {text}; {remedy}")


def numbers(values: Any, limit: int, name: str, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Returns indices below ``limit`` as a contiguous array; a boolean mask gives the positions that are True."""
    array = _checks.array(values)
    if array.dtype == bool:
        if array.shape != (limit,):
            raise InvalidArgumentError(f"{name}: a mask must have {limit:,} entries; it has the shape {array.shape}")
        array = np.flatnonzero(array)
    if array.size == 0:
        array = array.astype(dtype)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        got = f"{array.ndim} dimensions of {array.dtype}"
        if array.dtype.kind in "UO":
            got += "; Interactions.rows(names), .items(names) and model.ids(names) find numbers of names"
        raise InvalidArgumentError(f"{name}: expected one list of integers, got {got}")
    place, array = "[{}]" if array.ndim else "", array.reshape(-1)
    bad = np.flatnonzero((array < 0) | (array >= limit))
    if bad.size:
        raise InvalidArgumentError(f"{name}{place.format(bad[0])} is {array[bad[0]]}; expected 0 to {limit - 1:,}")
    return np.array(array, dtype=dtype)  # a copy: the caller's array may change while the engine reads it
