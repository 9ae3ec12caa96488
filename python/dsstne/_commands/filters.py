"""Filters of ``dsstne predict``: what is left out for each sample, or what multiplies its scores."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dsstne._commands import sources
from dsstne.dataset import Dataset
from dsstne.errors import InvalidDataError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

# A feature of a line without a value.
_BARE = re.compile(rb"(?<=[\t:])([^\t:,\r\n]+)(?=[:\r\n]|$)")


class Filter(NamedTuple):
    """What a filter lists.

    Attributes:
        matrix: The listed items [samples, units], where 0 is a stored value like others.
        findings: What the reading of a text found.
    """

    matrix: scipy.sparse.csr_array
    findings: str


def read(
    given: Namespace, samples: Sequence[str], labels: Sequence[str], units: int, layer: str, names: Mapping[str, str]
) -> Filter:
    """Reads the file of ``-f``.

    Args:
        given: The flags.
        samples: Labels of the samples.
        labels: Labels of the items.
        units: Number of units of the layer, at least that of the labels.
        layer: Name of the layer.
        names: Names of the data sets that the layers take.

    Raises:
        InvalidDataError: Rows or columns have no names and another number than those of the samples or items.
    """
    if sources.kind_of(given.f) != "text":
        source = sources.by_layer("-f", given.f, [layer], names, given, are_targets=True)[layer]
        return Filter(_matched(given.f, source, samples, labels, units), "")
    indexes = {"features": labels, "samples": samples}
    source = sources.read_text(given.f, given, **indexes)
    if given.filter_values:  # the places of malformed lines are known from the reading before
        with tempfile.TemporaryDirectory() as folder:
            copy = _with_values(given.f, Path(folder))
            data = sources.read_text(copy, _lenient(given), values="analog", **indexes).matrix
            matrix = sources.widened(data.to_scipy(), units)
    else:
        matrix = sources.widened(source.matrix.to_scipy(), units)
    return Filter(matrix, source.findings)


def _lenient(given: Namespace) -> Namespace:
    import argparse

    return argparse.Namespace(**{**vars(given), "malformed": "skip"})


def _with_values(path: str, folder: Path) -> str:
    """Copies a text, or the texts of a folder, and writes the value 0 where a feature has none."""
    for number, name in enumerate(sources.files_of(path)):
        with sources.opened(name) as text, (folder / f"{number:012}").open("wb") as copy:
            copy.writelines(_BARE.sub(rb"\1,0", line) for line in text)
    return os.fspath(folder)


def _matched(
    path: str, source: sources.Source, samples: Sequence[str], labels: Sequence[str], units: int
) -> scipy.sparse.csr_array:
    """Returns the matrix of a data file with the samples as rows and the items as columns."""
    matrix: Any = source.matrix[:] if isinstance(source.matrix, Dataset) else scipy.sparse.csr_array(source.matrix)
    for axis, (what, names, ours) in enumerate((("rows", source.rows, samples), ("columns", source.items, labels))):
        if names is None and matrix.shape[axis] not in (len(ours), units if axis else len(ours)):
            raise InvalidDataError(
                f"-f: {path} has {matrix.shape[axis]:,} {what} without names; expected {len(ours):,}, one for each "
                f"{'item' if axis else 'sample'}"
            )
    if source.rows is not None:
        at = {str(name): row for row, name in enumerate(source.rows)}
        empty = scipy.sparse.csr_array((1, matrix.shape[1]), dtype=matrix.dtype)
        matrix = scipy.sparse.csr_array(scipy.sparse.vstack([matrix, empty], format="csr"))
        matrix = matrix[[at.get(str(name), len(at)) for name in samples]]
    if source.items is not None:
        at = {str(name): column for column, name in enumerate(labels)}
        columns = np.array([at.get(str(name), -1) for name in source.items], np.int32)
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        chosen = columns[matrix.indices]
        known = chosen >= 0
        entries = (
            matrix.data[known],
            chosen[known],
            np.r_[0, np.cumsum(np.bincount(rows[known], minlength=matrix.shape[0]))],
        )
        return scipy.sparse.csr_array(entries, shape=(matrix.shape[0], units))
    return sources.widened(matrix, units)


def listed(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Returns a matrix of ones where a matrix has a stored value, whichever."""
    arrays = (np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr)
    return scipy.sparse.csr_array(arrays, shape=matrix.shape, copy=False)
