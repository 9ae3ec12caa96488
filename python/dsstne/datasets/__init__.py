"""An example dataset, and a function that holds out a part of a dataset.

>>> from dsstne.datasets import hold_out, load_debian
>>> debian = load_debian()
>>> X_in, X_held_out = hold_out(debian.matrix, fraction=0.2, seed=0)
"""

from __future__ import annotations

import difflib
import lzma
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from dsstne import _checks
from dsstne.datasets._split import hold_out
from dsstne.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Interactions", "hold_out", "load_debian"]


@dataclass(frozen=True, eq=False)
class Interactions:
    """An interaction matrix with the names of its rows and items.

    Attributes:
        matrix: ``csr_array`` of float32 [rows, items]; every stored value is 1, indices are sorted.
        row_names, item_names: Arrays of str, in the order of the matrix.
        row_descriptions, item_descriptions: Arrays of str, one line each; empty if there is no description.
        description: Source of the data, how they were prepared, and their licence.
    """

    matrix: sparse.csr_array
    row_names: np.ndarray
    item_names: np.ndarray
    row_descriptions: np.ndarray
    item_descriptions: np.ndarray
    description: str

    def rows(self, names: Iterable[str]) -> np.ndarray:
        """Returns the numbers of the named rows, int64; the NotFoundError of an unknown name suggests the nearest."""
        return _numbers(names, self.row_names, "row")

    def items(self, names: Iterable[str]) -> np.ndarray:
        """Returns the numbers of the named items, int64; the NotFoundError of an unknown name suggests the nearest."""
        return _numbers(names, self.item_names, "item")

    def matrix_of(self, rows: Iterable[Iterable[str]]) -> sparse.csr_array:
        """Returns a matrix with the same items and new rows, each given as a list of item names.

        >>> from dsstne.datasets import load_debian
        >>> debian = load_debian()
        >>> debian.matrix_of([["libssl3", "zlib1g"], ["python3"]]).shape[0]
        2
        """
        numbers = [np.unique(self.items(names)) for names in _checks.several(rows, "rows")]
        offsets = np.concatenate([[0], np.cumsum([len(n) for n in numbers])]).astype(np.int32)
        indices = np.concatenate([*numbers, np.empty(0, np.int64)]).astype(np.int32)
        values = np.ones(len(indices), np.float32)
        return sparse.csr_array((values, indices, offsets), shape=(len(numbers), len(self.item_names)))


def _numbers(names: Iterable[str], known: np.ndarray, what: str) -> np.ndarray:
    number = {name: i for i, name in enumerate(known.tolist())}
    wanted = [names] if isinstance(names, str) else _checks.several(names, "names")
    for name in wanted:
        if not isinstance(name, str) or name not in number:
            near = difflib.get_close_matches(name, number, n=1) if isinstance(name, str) else []
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise NotFoundError(f"no {what} is named {_checks.shown(name)}{hint}")
    return np.array([number[name] for name in wanted], dtype=np.int64)


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
