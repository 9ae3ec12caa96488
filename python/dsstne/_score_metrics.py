"""Metrics of the scores of all items, beside those of rankings, which the engine computes: rmse, mae, auc and losses.

The scores come block by block, so memory does not grow with rows x items. The sums of a row are those of
``math.fsum``, exact and rounded once, or of integers, and so are the sums of the rows: results do not depend on the
blocks, on ``batch_size`` or on ``threads``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dsstne._activations import Activation
    from dsstne._losses import Loss
    from dsstne._predictor import Choice, Predictor
    from dsstne.dataset import Dataset


class Tally:
    """Collects what the metrics need from each row.

    Args:
        count: Number of rows.
        value: The activation behind the scores; None: the scores are the values.
        loss: The loss of the output, if it is wanted.
        allowed: A mask of the items that may be ranked.
    """

    def __init__(self, count: int, value: Activation | None, loss: Loss | None, allowed: NDArray[np.bool_]) -> None:
        self._value, self._loss, self._allowed = value, loss, allowed
        self._losses = np.full(count, np.nan)
        self._entries = np.zeros(count, np.int64)
        self._squares, self._distances = np.full(count, np.nan), np.full(count, np.nan)
        self._auc = np.full(count, np.nan)

    def add(
        self,
        place: int,
        scores: NDArray[np.float32],
        ids: NDArray[Any],
        targets: NDArray[np.float32],
        left_out: NDArray[Any],
    ) -> None:
        """Takes a row with held-out items: the scores of all items, those held out, and those to leave out."""
        self._entries[place] = len(ids)
        values = scores[ids] if self._value is None else self._value.at(scores, ids)
        distances = np.abs(values.astype(np.float64) - targets)
        self._squares[place] = math.fsum((distances * distances).tolist())
        self._distances[place] = math.fsum(distances.tolist())
        others = self._allowed.copy()
        others[left_out] = False
        others[ids] = False
        self._auc[place] = _auc(np.sort(scores[ids]), scores[others])
        if self._loss is not None:
            others[ids] = True  # and so all that count
            all_targets = np.zeros(len(scores))
            all_targets[ids] = targets
            counted = ids if self._loss.stored_only else others
            self._losses[place] = self._loss.of(scores[counted], all_targets[counted])

    def rows(self, name: str) -> NDArray[np.float64]:
        """Returns the metric of each row; NaN for rows without held-out items."""
        if name in ("auc", "held_out_loss"):
            return self._auc if name == "auc" else self._losses
        entries = np.maximum(self._entries, 1)
        return np.sqrt(self._squares / entries) if name == "rmse" else self._distances / entries

    def mean(self, name: str) -> float:
        """Returns the metric of all rows: over the entries; for auc and losses the mean of the rows that have one."""
        if name in ("auc", "held_out_loss"):
            each = self.rows(name)
            having = each[~np.isnan(each)]
            return math.fsum(having.tolist()) / len(having) if len(having) else math.nan
        count = int(self._entries.sum())
        if not count:
            return math.nan
        sums = (self._squares if name == "rmse" else self._distances)[self._entries > 0]
        mean = math.fsum(sums.tolist()) / count
        return math.sqrt(mean) if name == "rmse" else mean


def _auc(held_out: NDArray[Any], others: NDArray[Any]) -> float:
    """Returns the share of pairs in which a held-out item is above another one; the held-out scores ascend."""
    pairs = len(held_out) * len(others)
    if not pairs:
        return math.nan
    at_most = int(np.searchsorted(held_out, others, "right").sum(dtype=np.int64))  # pairs not above, with the ties
    below = int(np.searchsorted(held_out, others, "left").sum(dtype=np.int64))
    return (2 * pairs - at_most - below) / (2 * pairs)


def compute(
    predictor: Predictor,
    held_out: Dataset,
    excluded: Dataset | None,
    choice: Choice,
    value: Activation | None,
    loss: Loss | None,
    names: Sequence[str],
) -> dict[str, tuple[float, NDArray[np.float64]]]:
    """Computes metrics of an open predictor; returns the value of all rows and that of each row by name."""
    units = held_out.shape[1]
    tally = Tally(predictor.count, value, loss, choice.mask(units))
    nothing = np.empty(0, np.int64)
    for places, rows in predictor.blocks():
        targets = held_out[rows]
        having = np.flatnonzero(np.diff(targets.indptr))
        if not len(having):
            continue
        left_out = None if excluded is None else excluded[rows[having]]
        for n, scores in enumerate(predictor.block(rows[having])):
            stored = slice(*targets.indptr[having[n] : having[n] + 2])
            seen = nothing if left_out is None else left_out.indices[slice(*left_out.indptr[n : n + 2])]
            tally.add(places.start + int(having[n]), scores, targets.indices[stored], targets.data[stored], seen)
    return {name: (tally.mean(name), tally.rows(name)) for name in names}
