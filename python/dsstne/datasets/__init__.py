"""An example dataset, functions that download public ones, and one that holds out a part of a dataset.

>>> from dsstne.datasets import hold_out, load_debian
>>> debian = load_debian()
>>> X_in, X_held_out = hold_out(debian.matrix, fraction=0.2, seed=0)
"""

from __future__ import annotations

import lzma
from importlib import resources

import numpy as np
from scipy import sparse

from dsstne.datasets._published import fetch_amazon, fetch_gowalla, fetch_gowalla_split, fetch_movielens
from dsstne.datasets._split import hold_out
from dsstne.interactions import Interactions

__all__ = [
    "Interactions",
    "fetch_amazon",
    "fetch_gowalla",
    "fetch_gowalla_split",
    "fetch_movielens",
    "hold_out",
    "load_debian",
]


def load_debian() -> Interactions:
    """Loads the dependencies between packages of Debian, as published in its package index.

    A row is a package; an item is a package that other packages depend on. A recommendation for a row is a guess of
    further packages that it needs. ``description`` gives the release, the preparation of the data and the licence.

    >>> from dsstne.datasets import load_debian
    >>> debian = load_debian()
    >>> print(debian.item_names[0], debian.item_descriptions[0], sep=": ")
    libc6: GNU C Library: Shared libraries
    >>> row = debian.rows(["gimp"])
    >>> "libtiff6" in debian.item_names[debian.matrix[row].indices]
    True
    """
    folder = resources.files(__package__) / "debian"
    lines = lzma.decompress((folder / "packages.txt.xz").read_bytes()).decode("utf-8").splitlines()
    items = int(lines[0])
    fields = [line.split("\t") for line in lines[1:]]
    item_names, item_descriptions = zip(*fields[:items], strict=True)
    row_names, row_descriptions, entries = zip(*fields[items:], strict=True)

    # Items of a row are stored as differences; a cumulative sum within each row restores them.
    lengths = np.array([row.count(" ") + 1 for row in entries])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    totals = np.cumsum(np.array(" ".join(entries).split(), dtype=np.int64))
    before = np.concatenate([[0], totals])[offsets[:-1]]
    indices = (totals - np.repeat(before, lengths)).astype(np.int32)

    values = np.ones(len(indices), np.float32)
    matrix = sparse.csr_array((values, indices, offsets), shape=(len(entries), items))
    return Interactions(
        matrix,
        np.array(row_names),
        np.array(item_names),
        np.array(row_descriptions),
        np.array(item_descriptions),
        (folder / "README.md").read_text(encoding="utf-8"),
    )
