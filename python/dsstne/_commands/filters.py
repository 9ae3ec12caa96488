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
from dsstne._commands.indexes import Index, compare, of
from dsstne.dataset import Dataset

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
    given: Namespace,
    samples: Sequence[str],
    labels: Sequence[str],
    units: int,
    layer: str,
    names: Mapping[str, str],
    known: sources.Source,
) -> Filter:
    """Reads the file of ``-f``.

    Args:
        given: The flags.
        samples: Labels of the samples.
        labels: Labels of the items.
        units: Number of units of the layer, at least that of the labels.
        layer: Name of the layer.
        names: Names of the data sets that the layers take.
        known: What was read of ``-r``, which may be the same file.

    Raises:
        InvalidDataError: Rows or columns have no names, and another number than the samples or items, or other digests.
    """
    kind = sources.kind_of(given.f)
    source = known if _is_in(given, kind, known, labels, layer, names) else None
    if source is not None and not (given.filter_values and kind == "text"):
        return _matched(given, source, known, samples, labels, units)
    if kind != "text":
        source = sources.by_layer("-f", given.f, [layer], names, given, are_targets=True)[layer]
        return _matched(given, source, known, samples, labels, units)
    indexes = {"features": labels, "samples": samples}
    source = sources.read_text(given.f, given, **indexes) if source is None else source
    if given.filter_values:  # the places of malformed lines are known from the reading before
        with tempfile.TemporaryDirectory() as folder:
            copy = _with_values(given.f, Path(folder))
            data = sources.read_text(copy, _lenient(given), values="analog", **indexes).matrix
            matrix = sources.widened(data.to_scipy(), units)
    else:
        matrix = sources.widened(source.matrix.to_scipy(), units)
    return Filter(matrix, source.findings)


def _is_in(
    given: Namespace, kind: str, known: sources.Source, labels: Sequence[str], layer: str, names: Mapping[str, str]
) -> bool:
    """Reports whether what was read of ``-r`` has all that a filter needs: it is the same file with all the items."""
    if not Path(given.f).samefile(given.r):
        return False
    if kind == "text" and given.t != "indicator":  # in which every feature must have a value, and 0 is no entry
        return False
    if kind == "netcdf":
        wanted = sources.data_sets("-f", given.f, [layer], names, given, are_targets=True)[layer]
        # Weights multiply the values of an input, and whole rows may be moved by -0.5.
        if wanted.name != known.name or wanted.weighted or not wanted.sparse:
            return False
    return known.items is not None and set(labels) <= set(map(str, known.items))


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
    given: Namespace,
    source: sources.Source,
    predicted: sources.Source,
    samples: Sequence[str],
    labels: Sequence[str],
    units: int,
) -> Filter:
    """Returns the matrix of a data file with the samples as rows and the items as columns."""
    place = f"-f: {given.f}"
    others = (of("sample", f"-r: {given.r}", predicted), Index("the output", len(labels), labels))
    notes = [
        compare(what, own, index)
        for what, index in zip(("sample", "feature"), others, strict=True)
        if (own := of(what, place, source)).labels is None  # else they are found by their labels
    ]
    matrix: Any = source.matrix[:] if isinstance(source.matrix, Dataset) else scipy.sparse.csr_array(source.matrix)
    if source.rows is not None and list(map(str, source.rows)) != list(samples):
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
        matrix = scipy.sparse.csr_array(entries, shape=(matrix.shape[0], units))
    matrix = scipy.sparse.csr_array(matrix, copy=False)
    matrix.resize((len(samples), units))  # of an index that has grown since the file was made, or was longer then
    return Filter(matrix, "\n".join(filter(None, notes)))


def listed(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Returns a matrix of ones where a matrix has a stored value, whichever."""
    arrays = (np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr)
    return scipy.sparse.csr_array(arrays, shape=matrix.shape, copy=False)
