"""The units of a layer that ``dsstne predict`` writes for each sample, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dsstne._activations import Activation, activation_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dsstne._commands.filters import Filter
    from dsstne.model import Model

_BLOCK = 1 << 24  # values that are in memory at a time
_ROWS = 1 << 17  # most rows of a block: the progress bar moves, and devices get the data a few times only
_BEYOND = 32  # items that a ranking for several filters has at least beyond those wanted

# Units of some samples [rows, width], best first, and their values; -1 where a filter leaves no more.
Answer = tuple["NDArray[Any]", "NDArray[np.float32]"]


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

    @property
    def activation(self) -> Activation | None:
        """The activation of the output; None if the model is not a network, whose scores have none."""
        return None if self.model.network is None else activation_of(self.model, self.layer)

    def blocks(self, width: int) -> Iterator[NDArray[np.int64]]:
        """Divides the rows into blocks with room for some values of each row."""
        yield from divided(np.arange(self.samples), min(_ROWS, _BLOCK // width))

    def values(self, rows: NDArray[np.int64], *, activation: bool) -> NDArray[np.float32]:
        """Computes the values of the layer [rows, units]."""
        values = self.model.predict(self.X, self.layer, activation=activation, rows=rows, **self.options)
        return values[:, : self.units]

    def best(self, rows: NDArray[np.int64], k: int, exclude: Any, never: NDArray[np.int32]) -> Answer:
        """Ranks the items of an output by their scores, without some of each row and without some of all rows."""
        width = self.model.outputs[self.layer]
        never = np.append(never, np.arange(self.units, width, dtype=np.int32))
        if len(never) == width:
            return np.full((len(rows), k), -1, np.int32), np.full((len(rows), k), -np.inf, np.float32)
        leave: dict[str, Any] = {"exclude_seen": False} if exclude is None else {"exclude": exclude}
        if len(never):
            leave["filter_items"] = never
        found: Answer = self.model.recommend(self.X, k, layer=self.layer, rows=rows, **leave, **self.options)
        return found


def divided(rows: NDArray[np.int64], step: int) -> Iterator[NDArray[np.int64]]:
    """Divides rows into blocks."""
    for start in range(0, len(rows), max(1, step)):
        yield rows[start : start + max(1, step)]


def best_items(task: Task, k: int, filters: Sequence[Filter]) -> Iterator[list[Answer]]:
    """Ranks the items of an output by their values after its activation, once for all filters.

    Yields:
        For each block of rows, the answer of each filter.
    """
    exclude, never = _common(filters)
    differ = any(one.exclude is not exclude or len(one.items) > len(never) for one in filters)
    depth = min(task.units, k + max(k, _BEYOND)) if differ else k
    activation = task.activation
    for rows in task.blocks(depth):
        ids, scores = task.best(rows, depth, exclude, never)
        if differ:
            answers = [_own(task, k, one, rows, ids, scores, one.exclude is exclude) for one in filters]
        else:
            answers = [(ids, scores), *((ids.copy(), scores.copy()) for _ in filters[1:])]
        if activation is not None and activation.word != "softmax":
            for ids, scores in answers:
                there = ids >= 0
                scores[there] = activation.of(scores[there])
        _multiply(task, filters, rows, answers, activation)
        yield answers


def _common(filters: Sequence[Filter]) -> tuple[Any, NDArray[np.int32]]:
    """Returns what all filters leave out: the items of each row, and those of all rows."""
    first: Any = filters[0].exclude
    never = filters[0].items
    for one in filters[1:]:
        never = np.intersect1d(never, one.items)
        if one.exclude is None or first is None:
            first = None
        elif one.exclude is not first:
            first = one.pattern.multiply(filters[0].pattern if first is filters[0].exclude else first).tocsr()
    return first, never


def _own(
    task: Task,
    k: int,
    one: Filter,
    rows: NDArray[np.int64],
    ids: NDArray[Any],
    scores: NDArray[np.float32],
    is_common: bool,
) -> Answer:
    """Takes the k best of a filter from a ranking that leaves out what all filters leave out.

    Args:
        task: What is computed.
        k: Number of items.
        one: The filter.
        rows: The rows.
        ids, scores: The ranking.
        is_common: Whether all filters leave out the same items of each row.
    """
    stays = ids >= 0
    if len(one.items):
        stays &= ~np.isin(ids, one.items)
    if one.exclude is not None and not is_common:
        places, pattern = np.nonzero(stays), cast("Any", one.pattern)
        if len(places[0]):  # of no place SciPy returns a sparse array
            stays[places] = pattern[rows[places[0]], ids[places]] == 0
    place = np.cumsum(stays, axis=1) - 1
    at = np.nonzero(stays & (place < k))
    chosen, values = np.full((len(rows), k), -1, np.int32), np.full((len(rows), k), -np.inf, np.float32)
    chosen[at[0], place[at]], values[at[0], place[at]] = ids[at], scores[at]
    # The ranking was too short for rows of which the filter leaves out many of the best items.
    short = np.flatnonzero((place[:, -1] < k - 1) & (ids[:, -1] >= 0) & (ids.shape[1] < task.units))
    if len(short):
        chosen[short], values[short] = task.best(rows[short], k, one.exclude, one.items)
    return chosen, values


def _multiply(
    task: Task, filters: Sequence[Filter], rows: NDArray[np.int64], answers: list[Answer], activation: Activation | None
) -> None:
    """Adds the items that a filter multiplies to its answer; makes probabilities of the scores of a soft-max."""
    is_softmax = activation is not None and activation.word == "softmax"
    asked = np.zeros(len(rows), bool)
    for one in filters:
        asked |= one.multiplies(rows)
    if is_softmax:
        asked[:] = True
    for at in divided(np.flatnonzero(asked), _BLOCK // task.model.outputs[task.layer]):
        scores = task.values(rows[at], activation=is_softmax)
        for one, (ids, values) in zip(filters, answers, strict=True):
            if is_softmax:
                values[at] = np.where(ids[at] < 0, -np.inf, np.take_along_axis(scores, np.maximum(ids[at], 0), axis=1))
            chosen = at[one.multiplies(rows[at])]
            if len(chosen):
                given = scores[np.searchsorted(at, chosen)] if len(chosen) < len(at) else scores
                best = ids[chosen], values[chosen]
                products = _products(one, rows[chosen], given, best, None if is_softmax else activation)
                ids[chosen], values[chosen] = _ranked(*products, best[0].shape)


def _products(
    one: Filter, rows: NDArray[np.int64], scores: NDArray[np.float32], best: Answer, activation: Activation | None
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Returns the candidates for the best items, as places in the rows, items and values.

    Args:
        one: The filter, which multiplies the values of the items that it lists.
        rows: The rows.
        scores: The scores of all items [rows, units].
        best: The best items of each row that the filter does not list.
        activation: What makes values of scores.
    """
    most = np.finfo(np.float32).max  # so that a product never is -inf, which means that there is no item

    def product(scores: NDArray[np.float32], factors: NDArray[np.float64]) -> NDArray[np.float32]:
        values = scores if activation is None else activation.of(scores).astype(np.float32)
        return np.clip(values.astype(np.float64) * factors, -most, most).astype(np.float32)

    of_all = np.ones(scores.shape[1])
    of_all[one.items] = one.item_factors
    boosted = one.items[one.item_factors != 0]
    candidates = [_entries(*best)]
    of_items = product(scores[:, boosted], of_all[boosted])
    if one.factors is not None:
        part = one.factors[rows]
        place, items = np.repeat(np.arange(len(rows)), np.diff(part.indptr)), part.indices
        column = np.full(len(of_all), -1)
        column[boosted] = np.arange(len(boosted))
        is_boosted = column[items] >= 0
        of_items[place[is_boosted], column[items[is_boosted]]] = -np.inf
        factors = part.data * of_all[items]
        stays = factors != 0
        place, items, factors = place[stays], items[stays], factors[stays]
        values = product(scores[place, items], factors)
        stays = values >= best[1][place, -1]
        candidates.append((place[stays], items[stays], values[stays]))
    if len(boosted):
        columns, values = highest(of_items, min(best[0].shape[1], len(boosted)))
        place, columns, values = _entries(columns, values)
        candidates.append((place, boosted[columns], values))
    place, items, values = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
    return place, items, values


def _entries(ids: NDArray[Any], values: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]:
    """Returns the rows, units and values of an answer that has these."""
    there = np.nonzero(ids >= 0)
    return there[0], ids[there], values[there]


def _ranked(row: NDArray[Any], unit: NDArray[Any], values: NDArray[np.float32], shape: tuple[int, ...]) -> Answer:
    """Ranks units by their values within each row, of equal ones by their numbers; shape is that of the answer."""
    order = np.lexsort((unit, -values, row))
    row, unit, values = row[order], unit[order], values[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    first = place < shape[1]
    row, place = row[first], place[first]
    ids, best = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    ids[row, place], best[row, place] = unit[first], values[first]
    return ids, best


def values_of(task: Task, k: int | None) -> Iterator[list[Answer]]:
    """Gives the values of a layer, in the order of its units, or the k highest ones."""
    for rows in task.blocks(task.units):
        values = task.values(rows, activation=task.layer in task.model.outputs and task.model.network is not None)
        every = np.broadcast_to(np.arange(task.units), values.shape)
        yield [(every, values) if k is None else highest(values, k)]


def highest(values: NDArray[np.float32], k: int) -> Answer:
    """Returns the places of the k highest values of each row and these, of equal ones the first; -inf is none."""
    rows, units = values.shape
    cut = np.partition(values, units - k, axis=1)[:, units - k, None]
    chosen = (values >= cut) & (values > -np.inf)
    if np.count_nonzero(chosen, axis=1).max(initial=0) > k:  # more values than one are the lowest of the k highest
        above = values > cut
        ties = chosen & ~above
        chosen = above | (ties & (np.cumsum(ties, axis=1) <= k - above.sum(axis=1, keepdims=True)))
    row, unit = np.nonzero(chosen)
    return _ranked(row, unit, values[row, unit], (rows, k))
