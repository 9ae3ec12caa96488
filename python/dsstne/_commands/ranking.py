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
_ROWS = 1 << 14  # rows of a block, so that the progress bar moves
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
            answers = [_own(task, k, one, rows, ids, scores) for one in filters]
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
    task: Task, k: int, one: Filter, rows: NDArray[np.int64], ids: NDArray[Any], scores: NDArray[np.float32]
) -> Answer:
    """Takes the k best of a filter from a ranking that leaves out what all filters leave out."""
    stays = ids >= 0
    if len(one.items):
        stays &= ~np.isin(ids, one.items)
    if one.exclude is not None:
        places, pattern = np.nonzero(stays), cast("Any", one.pattern)
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
                every = _products(task, one, rows[chosen], given, None if is_softmax else activation)
                here = np.nonzero(ids[chosen] >= 0)
                every[here[0], ids[chosen][here]] = values[chosen][here]
                ids[chosen], values[chosen] = highest(every, ids.shape[1])


def _products(
    task: Task, one: Filter, rows: NDArray[np.int64], scores: NDArray[np.float32], activation: Activation | None
) -> NDArray[np.float32]:
    """Returns the values of the items that a filter lists times their factors; -inf where it lists none or leaves out.

    Args:
        task: What is computed.
        one: The filter.
        rows: The rows.
        scores: The scores of all items [rows, units].
        activation: What makes values of them.
    """
    most = np.finfo(np.float32).max  # so that a product never is -inf, which means that there is no item

    def values(scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return scores if activation is None else activation.of(scores).astype(np.float32)

    def product(scores: NDArray[np.float32], factors: NDArray[np.float64]) -> NDArray[np.float32]:
        made = np.clip(values(scores).astype(np.float64) * factors, -most, most).astype(np.float32)
        return np.where(factors == 0, np.float32(-np.inf), made)

    every = np.full(scores.shape, -np.inf, np.float32)
    of_all = np.ones(task.units)
    of_all[one.items] = one.item_factors
    boosted = one.items[one.item_factors != 0]
    every[:, boosted] = product(scores[:, boosted], of_all[boosted])
    if one.factors is not None:
        part = one.factors[rows]
        place, items = np.repeat(np.arange(len(rows)), np.diff(part.indptr)), part.indices
        every[place, items] = product(scores[place, items], part.data * of_all[items])
    return every


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
    found = values[row, unit]
    order = np.lexsort((unit, -found, row))
    counts = np.count_nonzero(chosen, axis=1)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    ids, best = np.full((rows, k), -1, np.int32), np.full((rows, k), -np.inf, np.float32)
    ids[row, place], best[row, place] = unit[order], found[order]
    return ids, best
