"""The units of a layer that ``dsstne predict`` writes for each sample, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne._activations import activation_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import scipy.sparse
    from numpy.typing import NDArray

    from dsstne.model import Model

_BLOCK = 1 << 24  # values that are in memory at a time

Answer = tuple["NDArray[Any]", "NDArray[np.float32]"]  # units and values of a sample, best first


class Task(NamedTuple):
    """What is computed.

    Attributes:
        model: The model.
        X: The matrices of the inputs by layer.
        samples: Number of rows.
        layer: Name of the layer.
        units: Number of units that count, the first of the layer.
        options: Options of Model.predict.
    """

    model: Model
    X: dict[str, Any]
    samples: int
    layer: str
    units: int
    options: dict[str, Any]

    def blocks(self, width: int) -> Iterator[NDArray[np.int64]]:
        """Divides the rows."""
        step = max(1, _BLOCK // width)
        for start in range(0, self.samples, step):
            yield np.arange(start, min(start + step, self.samples))

    def values(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Computes the values of the layer after its activation [rows, units]."""
        has_activation = self.model.network is not None
        values = self.model.predict(self.X, self.layer, activation=has_activation, rows=rows, **self.options)
        return values[:, : self.units]


def best_items(task: Task, k: int, excluded: Any) -> Iterator[Answer]:
    """Ranks the items of an output by its scores, and gives their values after its activation."""
    model, layer = task.model, task.layer
    width = model.outputs[layer]
    items = None if task.units == width else np.arange(task.units)
    leave = {"exclude_seen": False} if excluded is None else {"exclude": excluded}
    activation = None if model.network is None else activation_of(model, layer)
    of_rows = activation is not None and activation.word == "softmax"
    for rows in task.blocks(width if of_rows else k):
        ids, scores = model.recommend(task.X, k, items=items, layer=layer, rows=rows, **leave, **task.options)
        there = ids >= 0
        if of_rows:
            scores = np.take_along_axis(task.values(rows), np.maximum(ids, 0), axis=1)
        elif activation is not None:
            scores[there] = activation.of(scores[there])
        for row in range(len(rows)):
            yield ids[row, there[row]], scores[row, there[row]]


def multiplied(task: Task, k: int, factors: scipy.sparse.csr_array) -> Iterator[Answer]:
    """Ranks the items of an output by their values times the factors of a filter, of which 0 leaves an item out."""
    factors = factors.copy()
    factors.sum_duplicates()
    for rows in task.blocks(task.model.outputs[task.layer]):
        for row, values in zip(rows, task.values(rows), strict=True):
            listed = slice(factors.indptr[row], factors.indptr[row + 1])
            known = factors.indices[listed] < task.units
            items, by = factors.indices[listed][known], factors.data[listed][known]
            values = values.copy()
            values[items] = np.where(by == 0, -np.inf, values[items] * by)
            yield highest(values, k)


def values_of(task: Task, k: int | None) -> Iterator[Answer]:
    """Gives the values of a layer, in the order of its units, or the k highest ones."""
    every = np.arange(task.units)
    for rows in task.blocks(task.units):
        for values in task.values(rows):
            yield (every, values) if k is None else highest(values, k)


def highest(values: NDArray[np.float32], k: int) -> Answer:
    """Returns the k highest values and their places, of equal ones the first; -inf is none."""
    places = np.arange(len(values))
    if k < len(values):
        places = np.flatnonzero(values >= np.partition(values, len(values) - k)[len(values) - k])
    places = places[np.argsort(-values[places], kind="stable")][:k]
    places = places[values[places] > -np.inf]
    return places, values[places]
