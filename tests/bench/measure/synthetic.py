"""Synthetic interactions of a given shape, for speed only: there is nothing to learn in them."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def interactions(
    rows: int, items: int, mean_length: float, *, deviation: float = 1.2, zipf: float = 0.8, seed: int = 0
) -> sparse.csr_array:
    """Rows of log-normal length with items drawn by Zipf's law, as a float32 matrix of ones.

    Item ids are shuffled: popular items are not neighbours, as in real data.

    Args:
        rows, items: the shape.
        mean_length: mean number of items in a row.
        deviation: of the logarithm of a row's length; 1.2 has ML-20M's ratio of mean to median, 2.
        zipf: an item's probability is proportional to rank ** -zipf.
        seed: another seed, another matrix.
    """
    rng = np.random.default_rng(seed)
    length = rng.lognormal(0, deviation, rows)
    length = np.clip(length * mean_length / length.mean(), 1, items // 4).astype(np.int64)
    share = np.cumsum(np.arange(1, items + 1) ** -zipf)
    share /= share[-1]
    chosen = np.empty(0, np.int64)  # row * items + rank
    missing = length
    while missing.sum():
        row = np.repeat(np.arange(rows), missing)
        rank = np.minimum(np.searchsorted(share, rng.random(len(row))), items - 1)
        chosen = np.union1d(chosen, row * items + rank)
        missing = length - np.bincount(chosen // items, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    indices = rng.permutation(items).astype(np.int32)[chosen % items]
    X = sparse.csr_array((np.ones(len(indices), np.float32), indices, offsets), shape=(rows, items))
    X.sort_indices()
    return X
