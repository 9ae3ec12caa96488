"""Weights for sums of models, chosen on validation rows.

A sum scores an item by w_1 z_1 + w_2 z_2 + ..., where z_p is the score of part p minus its mean, divided by its
deviation; both are taken over the items that are not stored in the row. A search tries hundreds of weights, and the
scores of all items for thousands of rows are too many to keep. :class:`Candidates` therefore keeps the scores of a few
hundred items of each row: of all that are among the best N of any part. An item outside all these lists scores at most
w_1 b_1 + w_2 b_2 + ..., where b_p is the N-th best score of part p. If the k-th best candidate is above that, the k
best candidates are the k best of all items. The rows where this proof fails are counted; with N = 256 and k = 20 there
are rarely any.

Memory: the scores of 32 to 128 rows at a time, at most 128 MiB for all parts together unless 32 rows need more; then
for each row 4 bytes for each part and candidate, of which there are at most N times the number of parts.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne._layers import numbers
from dsstne._metric_names import one_metric
from dsstne.datasets._split import _csr
from dsstne.errors import InvalidArgumentError
from dsstne.evaluation import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dsstne.model import Model

LEAST_CANDIDATES = 256  # of each part, or four times the length of the lists that the metric takes
MOST_ROWS = 4000  # of a sample
_STRIDE = 16  # one score in so many is looked at, to estimate above which score the best are
_PANEL = 1 << 25  # scores at a time: 128 MiB
_BLOCK = 128  # rows whose sums are computed together, which fit into the caches
GRID = 20  # weights are multiples of 1 / GRID


class Choice(NamedTuple):
    """A sum of parts.

    Attributes:
        weights: One for each part, of a sum of 1, in units of 1 / GRID.
        mean: The metric, as :func:`dsstne.evaluate` computes it for the rows.
        values: The metric of each row.
    """

    weights: tuple[int, ...]
    mean: float
    values: NDArray[np.float64]

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts whose weight is not 0."""
        return tuple(part for part, weight in enumerate(self.weights) if weight)


def length_of(metric: str) -> int:
    """Returns the k of the name of a metric, such as 20 for ``"ndcg@20"``."""
    return int(metric.rpartition("@")[2])


def sample(held_out: Any, seed: int = 0, most: int = MOST_ROWS) -> NDArray[np.int64]:
    """Returns the numbers of at most ``most`` rows that have held-out items, drawn by the seed, in order."""
    rows = np.flatnonzero(np.diff(held_out.indptr))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    return rows


def is_better(values: NDArray[np.float64], than: NDArray[np.float64]) -> bool:
    """Reports whether the mean of one metric is above another by more than the standard error of the difference."""
    gain = values - than
    return bool(gain.mean() > 0 and gain.mean() > gain.std() / np.sqrt(len(gain)))


class Candidates:
    """The best items of each part for some rows, and the scores that all parts give them.

    Args:
        models: The parts; they rank the same items.
        inputs: CSR matrix [rows, items]; the stored items of a row are left out.
        held_out: CSR matrix [rows, items] of the items to find; every row has some.
        k: Length of the lists that metrics take.
        options: ``devices``, ``threads`` and ``memory_limit`` of :meth:`dsstne.Model.predict`.
        check: Called for each block of rows; raises an error if there is no more time.
    """

    def __init__(
        self,
        models: Sequence[Model],
        inputs: Any,
        held_out: Any,
        k: int,
        options: Mapping[str, Any] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        rows, items = held_out.shape
        self.k, self.rows = k, rows
        self._wanted = np.diff(held_out.indptr)  # number of held-out items
        shape = (len(models), rows)
        self._scales, self._bounds = np.zeros(shape), np.full(shape, -np.inf)
        kept = min(items, max(LEAST_CANDIDATES, 4 * k))
        self._rest = np.empty(items)
        ids: list[NDArray[np.int64]] = []
        scores: list[NDArray[np.float32]] = []
        height = min(max(32, _PANEL // (items * len(models))), _BLOCK)
        for begin in range(0, rows, height):
            check()
            block = np.arange(begin, min(begin + height, rows))
            panels = [model.predict(inputs, rows=block, **(options or {})) for model in models]
            for place, row in enumerate(block):
                stored = inputs.indices[inputs.indptr[row] : inputs.indptr[row + 1]]
                lists = [self._best(part, row, panel[place], stored, kept) for part, panel in enumerate(panels)]
                union = np.unique(np.concatenate(lists))
                ids.append(union)
                scores.append(np.stack([panel[place, union] for panel in panels]))
        self._pad(ids, scores, held_out)

    def _best(
        self, part: int, row: int, scores: NDArray[np.float32], stored: NDArray[Any], kept: int
    ) -> NDArray[np.int64]:
        """Returns the best items of a row for one part, and marks stored ones in ``scores``."""
        rest, scores[stored] = self._rest, 0
        rest[:] = scores
        count = len(scores) - len(stored)
        rest -= rest.sum() / max(1, count)
        rest[stored] = 0
        deviation = float(np.sqrt(rest @ rest / max(1, count)))
        scale = self._scales[part, row] = 1 / deviation if deviation > 0 else 0.0
        scores[stored] = -np.inf
        if count <= kept:
            return np.flatnonzero(scores > -np.inf)
        # Twice as many are above the threshold that a sample suggests; only they are put in order.
        first = len(scores[::_STRIDE]) - 1 - 2 * kept // _STRIDE
        few = scores[scores >= np.partition(scores[::_STRIDE], first)[first]] if first > 0 else scores
        few = few if len(few) >= kept else scores
        least = np.partition(few, len(few) - kept)[len(few) - kept]
        self._bounds[part, row] = least * scale
        above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
        return np.concatenate([above, equal[: kept - len(above)]])

    def _pad(self, ids: list[NDArray[np.int64]], scores: list[NDArray[np.float32]], held_out: Any) -> None:
        """Copies the lists into arrays [parts, rows, most candidates] and [rows, most candidates]."""
        counts = np.array([len(one) for one in ids], np.int64)
        width = int(counts.max(initial=0))
        self._scores = np.zeros((len(self._scales), self.rows, width), np.float32)
        self._missing = np.arange(width) >= counts[:, None]
        self._is_target = np.zeros((self.rows, width), bool)
        for row, (listed, given) in enumerate(zip(ids, scores, strict=True)):
            self._scores[:, row, : len(listed)] = given
            targets = held_out.indices[held_out.indptr[row] : held_out.indptr[row + 1]]
            self._is_target[row, : len(listed)] = np.isin(listed, targets)

    def sums(self, weights: Sequence[float], rows: slice) -> NDArray[np.float64]:
        """Returns the sums of the candidates of some rows but for a constant of the row; -inf where there is none."""
        factors = np.asarray(weights)[:, None] * self._scales[:, rows]
        total = np.zeros(self._is_target[rows].shape)
        for factor, scores in zip(factors, self._scores[:, rows], strict=True):
            if factor.any():
                total += factor[:, None] * scores
        total[self._missing[rows]] = -np.inf
        return total

    def values(self, weights: Sequence[float], metric: str) -> NDArray[np.float64]:
        """Returns the metric of each row for a sum with these weights."""
        row, rank = [], []
        for begin in range(0, self.rows, _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            at, place = self._hits(self.sums(weights, rows), self._is_target[rows])
            row.append(at + begin)
            rank.append(place)
        return _metric(metric, np.concatenate(row), np.concatenate(rank), self._wanted)

    def _hits(
        self, sums: NDArray[np.float64], is_target: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the rows and the ranks, from 1, of the targets among the first k; of equal items the lower leads."""
        width = sums.shape[1]
        first = width - min(self.k, width)
        least = np.partition(sums, first, axis=1)[:, first, None] if width else sums
        row, column = np.nonzero(is_target & (sums >= least))
        score = sums[row, column]
        better = np.count_nonzero(sums[row] > score[:, None], axis=1)
        earlier = (sums[row] == score[:, None]) & (np.arange(width) < column[:, None])
        rank = 1 + better + np.count_nonzero(earlier, axis=1)
        return row[rank <= self.k], rank[rank <= self.k]

    def unproven(self, weights: Sequence[float]) -> int:
        """Returns for how many rows an item outside the candidates could be among the first k."""
        used = [part for part, weight in enumerate(weights) if weight]
        bounds = np.sum([weights[part] * self._bounds[part] for part in used], axis=0)
        found = 0
        for begin in range(0, self.rows, _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            sums = self.sums(weights, rows)
            first = sums.shape[1] - min(self.k, sums.shape[1])
            worst = np.partition(sums, first, axis=1)[:, first]
            # The list of a single part ends with the lower ones of equal items, as the ranking does.
            open_ = worst < bounds[rows] if len(used) == 1 else worst <= bounds[rows]
            found += int(np.count_nonzero(open_ & (bounds[rows] > -np.inf)))
        return found


def _metric(
    name: str, row: NDArray[np.int64], rank: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Returns a metric of :func:`dsstne.evaluate` for each row, from the rows and ranks of the hits."""
    kind, _, k = name.rpartition("@")
    count, best = len(wanted), np.minimum(wanted, int(k))
    hits = np.bincount(row, minlength=count).astype(np.float64)
    value = np.zeros(count)
    if kind == "precision":
        value = hits / int(k)
    elif kind in ("recall", "truncated_recall"):
        value = hits / (wanted if kind == "recall" else best)
    elif kind == "hit_rate":
        value = np.minimum(hits, 1)
    elif kind == "ndcg":
        ideal = np.cumsum(1 / np.log2(np.arange(2, best.max(initial=0) + 2)))
        value = np.bincount(row, 1 / np.log2(1 + rank), count) / ideal[best - 1]
    elif kind == "mrr":
        np.maximum.at(value, row, 1 / rank)
    else:
        order = np.lexsort((rank, row))
        row, rank = row[order], rank[order]
        found = 1 + np.arange(len(row)) - np.searchsorted(row, row)  # hits of the row up to this one
        value = np.bincount(row, found / rank, count) / best
    return value


class Search:
    """Tries weights of sums; each only once.

    Args:
        values: Returns the metric of each row for weights in units of 1 / GRID.
        parts: Number of parts.
        allowed: Reports whether a sum of these parts may be chosen.
    """

    def __init__(
        self,
        values: Callable[[Sequence[float]], NDArray[np.float64]],
        parts: int,
        allowed: Callable[[tuple[int, ...]], bool] = lambda parts: True,
    ) -> None:
        self._values, self._parts, self._allowed = values, parts, allowed
        self.tried: dict[tuple[int, ...], Choice] = {}

    def best_of_each_size(self) -> list[Choice]:
        """Returns the best part, the best sum of two parts, and so on, as far as there are any that are allowed.

        Two parts are tried at all weights. Of more parts, all pairs are tried in steps of 0.1, and further parts are
        added to the best sum of fewer, one at a time; then weight moves from one part to another as long as it helps.
        """
        singles = [self._mix((0,) * self._parts, part, GRID) for part in range(self._parts) if self._allowed((part,))]
        sizes = [_best(singles)] if singles else []
        step = 1 if self._parts == 2 else 2
        pairs = [
            self._mix(tuple(GRID * (part == a) for part in range(self._parts)), b, share)
            for a, b in itertools.combinations(range(self._parts), 2)
            if self._allowed((a, b))
            for share in range(step, GRID, step)
        ]
        found = pairs
        while found:
            best = _best(found)
            if self._parts > 2:
                best = self._climb(best)
            sizes.append(best)
            others = [part for part in range(self._parts) if not best.weights[part]]
            found = [
                self._mix(best.weights, part, share)
                for part in others
                if self._allowed(tuple(sorted((*best.parts, part))))
                for share in range(2, GRID, 2)
            ]
            found = [choice for choice in found if len(choice.parts) > len(best.parts)]
        return sizes

    def best_so_far(self) -> list[Choice]:
        """Returns the same of what was tried until an error ended the search."""
        sizes = sorted({len(choice.parts) for choice in self.tried.values()})
        return [_best([choice for choice in self.tried.values() if len(choice.parts) == size]) for size in sizes]

    def _climb(self, best: Choice) -> Choice:
        """Moves weight from one part to another while it helps."""
        step = 2
        while step:
            moves = [
                self._try(tuple(w + step * ((p == b) - (p == a)) for p, w in enumerate(best.weights)))
                for a, b in itertools.permutations(best.parts, 2)
                if best.weights[a] > step
            ]
            better = _best([best, *moves])
            step = step if better.mean > best.mean else step // 2
            best = better
        return best

    def _mix(self, weights: tuple[int, ...], part: int, share: int) -> Choice:
        """Tries weights of which another part takes a share, and the rest is as before, to the nearest unit."""
        rest = [weight * (GRID - share) / GRID for weight in weights]
        whole = [int(weight) for weight in rest]
        missing = GRID - share - sum(whole)
        for index in sorted(range(len(rest)), key=lambda at: whole[at] - rest[at])[:missing]:
            whole[index] += 1
        whole[part] += share
        return self._try(tuple(whole))

    def _try(self, weights: tuple[int, ...]) -> Choice:
        if weights not in self.tried:
            values = self._values([weight / GRID for weight in weights])
            self.tried[weights] = Choice(weights, float(values.mean()), values)
        return self.tried[weights]


def _best(choices: Sequence[Choice]) -> Choice:
    """Returns the choice with the best mean; of equal ones that of fewer parts, then the first."""
    return max(choices, key=lambda choice: (choice.mean, -len(choice.parts)))


def choose_weights(
    models: Sequence[Model],
    X: Any,
    held_out: Any,
    metric: str = "ndcg@20",
    rows: Any = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> tuple[list[float], list[dict[str, Any]]]:
    """Chooses the weights of a sum of models.

    Args:
        models: The parts, which rank the same items.
        X: Sparse matrix of SciPy [rows, items]; the stored items of a row are left out.
        held_out: Sparse matrix of SciPy [rows, items] of the items to find.
        metric: A metric of :func:`dsstne.evaluate` but for coverage.
        rows: Row numbers or a boolean mask; None = a sample of at most 4,000 rows with held-out items.
        options: ``devices``, ``threads`` and ``memory_limit`` of :meth:`dsstne.Model.predict`.
        seed: Of the sample.
        check: Called for each block of rows and for each sum; raises an error if there is no more time.

    Returns:
        ``(weights, table)``. The weights are multiples of 0.05 and their sum is 1; a part that does not help has 0. The
        table has a dict for each sum that was tried: ``weights``, the metric, the number of ``rows``, and for the
        chosen sum ``unproven``, the number of rows whose best items may be others (see above; 0 as a rule).

    Raises:
        InvalidArgumentError: No row has held-out items, shapes do not match, or the metric is not known or coverage.
        DsstneError: Otherwise as :meth:`dsstne.Model.predict`.
    """
    if one_metric(metric, of_lists=True).startswith("coverage"):
        raise InvalidArgumentError("metric: coverage describes all rows together, so it cannot choose a model")
    X, held_out = _csr(X, "X", unconverted=False), _csr(held_out, "validation", unconverted=False)
    if X.shape != held_out.shape:
        raise InvalidArgumentError(f"validation: expected the shape of X, {X.shape}, got {held_out.shape}")
    # evaluate() refuses an unknown metric, and inputs that do not fit the models.
    evaluate(models[0], X, held_out, metric, exclude="input", rows=[], **(options or {}))
    if rows is None:
        rows = sample(held_out, seed)
    else:
        rows = numbers(rows, held_out.shape[0], "rows", np.int64)
        rows = rows[np.diff(held_out.indptr)[rows] > 0]
    if not len(rows):
        raise InvalidArgumentError("no row has held-out items, so there is nothing to choose weights by")
    candidates = Candidates(models, X[rows], held_out[rows], length_of(metric), options, check)

    def values(weights: Sequence[float]) -> NDArray[np.float64]:
        check()
        return candidates.values(weights, metric)

    search = Search(values, len(models))
    chosen = _best(search.best_of_each_size())
    table = [
        {"weights": [weight / GRID for weight in one.weights], metric: one.mean, "rows": len(rows)}
        for one in sorted(search.tried.values(), key=lambda one: -one.mean)
    ]
    weights = [weight / GRID for weight in chosen.weights]
    next(row for row in table if row["weights"] == weights)["unproven"] = candidates.unproven(weights)
    return weights, table
