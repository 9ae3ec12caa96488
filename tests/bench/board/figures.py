"""Metrics of lists of recommendations, and bootstrap intervals of differences between models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dsstne.comparison import resampled_means

if TYPE_CHECKING:
    from scipy import sparse

METRICS = ("recall@20", "ndcg@20", "precision@20")
LENGTH = 20
RESAMPLES = 2000


def of_lists(ids: np.ndarray, held_out: sparse.csr_array) -> dict[str, np.ndarray]:
    """METRICS of each row, as `dsstne.evaluate` defines them; NaN for rows without held-out items.

    Args:
        ids: Recommended items [rows, LENGTH], best first; -1 where no item is left.
        held_out: Matrix [rows, items] whose stored items are the targets.
    """
    rows, columns = held_out.shape
    targets = np.diff(held_out.indptr)
    wanted = np.repeat(np.arange(rows, dtype=np.int64), targets) * columns + held_out.indices
    found = np.isin(np.arange(rows, dtype=np.int64)[:, None] * columns + ids, wanted) & (ids >= 0)
    hits = found.sum(axis=1)
    discount = 1 / np.log2(np.arange(2, LENGTH + 2))
    ideal = np.cumsum(discount)[np.clip(targets, 1, LENGTH) - 1]
    values = {
        "recall@20": hits / np.maximum(targets, 1),
        "ndcg@20": found @ discount / ideal,
        "precision@20": hits / LENGTH,
    }
    return {name: np.where(targets > 0, value, np.nan) for name, value in values.items()}


def means(values: dict[str, np.ndarray]) -> dict[str, float]:
    """The mean of each metric over the rows that have a value."""
    return {name: float(np.nanmean(value)) for name, value in values.items()}


def intervals(
    values: np.ndarray, baseline: np.ndarray, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> list[tuple[float, float]]:
    """Paired bootstrap intervals of mean differences to a baseline, by percentiles.

    A resample draws as many users as there are, with replacement; all models are compared on the same resamples.

    Args:
        values: Metric of each user, [users, models].
        baseline: The same metric of the baseline, [users].
        resamples: Number of resamples.
        seed: Of the draws.
        level: Share of the resamples between the two ends.

    Returns:
        For each model the lower and the upper end of the interval of mean(values) - mean(baseline).
    """
    drawn = resampled_means(values - baseline[:, None], resamples, np.random.default_rng(seed))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))
