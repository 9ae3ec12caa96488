"""The datasets of the leaderboard, and the part of their training data on which settings are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import real

from dsstne.datasets import hold_out

if TYPE_CHECKING:
    from pathlib import Path

    from scipy import sparse

FRACTION = 0.2
MOST_ROWS = 4000
ENOUGH, SPLITS = 5000, 5  # fewer held-out entries do not tell settings apart, so that several splits are made

# Names for the command line and the records, and the names in measure.real.
SETS = {
    "gowalla": "gowalla",
    "amazon-electronics": "amazon-electronics",
    "citeulike": "citeulike, DHCF",
    "lastfm": "lastfm",
}


@dataclass(frozen=True)
class Validation:
    """A part of the training data to fit with, and what was held out of it.

    Attributes:
        shown, hidden: Matrices with the shape of the training data.
        rows: The rows on which a setting is evaluated: those with held-out items, or a random part of them.
        about: How the split was made, for the records.
    """

    shown: sparse.csr_array
    hidden: sparse.csr_array
    rows: np.ndarray
    about: dict[str, Any]


def load(folder: Path, name: str) -> real.Split | None:
    """Reads a dataset by its name in SETS; None where its files are not there."""
    return real.load(folder, SETS[name])


def ordered(X: sparse.csr_array) -> sparse.csr_array:
    """A copy with sorted rows."""
    X = X.copy()
    X.sort_indices()
    return X


def validation(split: real.Split) -> list[Validation]:
    """Holds out a fifth of the entries of each row: the last ones where the rows are in the order of time.

    Items of fewer than 10 rows are left out where the mean item has at least 10: only such sets were filtered in this
    way before they were split. Where few entries are held out, several random splits are made.
    """
    core = 10 if split.train.nnz >= 10 * split.train.shape[1] else 0
    parts: list[Validation] = []
    while not parts or (parts[0].hidden.nnz < ENOUGH and len(parts) < SPLITS and not split.in_order):
        shown, hidden = hold_out(split.train, FRACTION, seed=len(parts), last=split.in_order, core=core)
        rows = np.flatnonzero(np.diff(hidden.indptr))
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))
        about = {"fraction": FRACTION, "last": split.in_order, "core": core, "rows": len(rows), "seed": len(parts)}
        parts.append(Validation(shown, hidden, rows, about))
    return parts
