"""Public datasets with their published splits, read from a folder that is not part of this repository.

Each loader returns None where its files are not there. Rows keep the order in which the files list their items.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Split:
    """A matrix to train with and what to test with: further items of the same rows, or other rows with targets.

    Attributes:
        train: Interactions or features, float32.
        test: Held-out items of the rows of ``train``; with ``targets``, the features of other rows.
        targets, test_targets: Labels of the rows of ``train`` and of ``test``; None for recommendations.
        in_order: Whether the items of a row are in the order of time.
    """

    train: sparse.csr_array
    test: sparse.csr_array
    targets: sparse.csr_array | None = None
    test_targets: sparse.csr_array | None = None
    in_order: bool = False


def load(folder: Path, name: str) -> Split | None:
    """Reads a dataset by its name in NAMES."""
    return NAMES[name](folder)


def lines(path: Path) -> list[np.ndarray]:
    """The numbers of each line of a compressed text."""
    return [np.array(line.split(), dtype=np.int64) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]


def matrix(rows: list[np.ndarray], shape: tuple[int, int]) -> sparse.csr_array:
    """Ones at the listed columns of each row, in their order."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate(rows).astype(np.int32)
    return sparse.csr_array((np.ones(len(indices), np.float32), indices, offsets), shape=shape)


def by_user(path: Path, shape: tuple[int, int]) -> sparse.csr_array:
    """Lines of a user and her items."""
    rows = [np.empty(0, np.int64)] * shape[0]
    for line in lines(path):
        rows[line[0]] = line[1:]
    return matrix(rows, shape)


def pair(folder: Path, train: str, test: str, shape: tuple[int, int], in_order: bool = False) -> Split | None:
    """A split whose files have lines of a user and her items."""
    if not (folder / train).exists():
        return None
    return Split(by_user(folder / train, shape), by_user(folder / test, shape), in_order=in_order)


def citeulike(folder: Path) -> Split | None:
    """CiteULike-a with ten items of each user to train with; a line begins with the number of items."""
    folder, shape = folder / "citeulike-a", (5551, 16980)
    if not folder.exists():
        return None
    train, test = (
        matrix([line[1:] for line in lines(folder / f"cf-{which}-10-users.dat.xz")], shape)
        for which in ("train", "test")
    )
    return Split(train, test)


def lastfm(folder: Path, counts: bool = False) -> Split | None:
    """Last.fm of HetRec 2011; a line is a user, an artist and a count, all from 1. Counts become ones unless wanted."""
    folder = folder / "lastfm-hetrec-lightgcn"
    if not folder.exists():
        return None
    parts = []
    for name in ("data1", "test1"):
        text = lzma.decompress((folder / f"{name}.txt.xz").read_bytes()).decode()
        table = np.array([line.split() for line in text.splitlines()], dtype=np.float64).astype(np.int64)
        values = table[:, 2] if counts else np.ones(len(table))
        entries = (values.astype(np.float32), (table[:, 0] - 1, table[:, 1] - 1))
        parts.append(sparse.csr_array(entries, shape=(1892, 4489)))
    return Split(*parts)


def labelled(folder: Path, name: str) -> Split | None:
    """Multi-label classification: a line is labels, then feature:value."""
    if not (folder / name).exists():
        return None
    parts = []
    for which in ("train", "test"):
        text = lzma.decompress((folder / name / f"{which}.xc.txt.xz").read_bytes()).decode().splitlines()
        rows, features, labels = (int(word) for word in text[0].split())
        split = [line.partition(" ") for line in text[1:]]
        columns = [np.array([word.partition(":")[0] for word in tail.split()], dtype=np.int64) for _, _, tail in split]
        classes = [np.array(head.split(",") if head else [], dtype=np.int64) for head, _, _ in split]
        parts.append((matrix(columns, (rows, features)), matrix(classes, (rows, labels))))
    (train, targets), (test, test_targets) = parts
    return Split(train, test, targets, test_targets)


NAMES = {
    "gowalla": lambda folder: pair(
        folder / "gowalla-lightgcn", "train.txt.xz", "test.txt.xz", (29_858, 40_981), in_order=True
    ),
    "amazon-electronics": lambda folder: pair(
        folder / "amazon-electronics-m1", "train.txt.xz", "test.txt.xz", (1_435, 1_522)
    ),
    "citeulike": citeulike,
    "citeulike, DHCF": lambda folder: pair(
        folder / "citeulike-a", "dhcf-train.txt.xz", "dhcf-test.txt.xz", (3_277, 16_807)
    ),
    "lastfm": lastfm,
    "bibtex": lambda folder: labelled(folder, "bibtex-xc"),
    "delicious": lambda folder: labelled(folder, "delicious-xc"),
}
