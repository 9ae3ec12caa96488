"""Filters of ``dsstne predict``: what is left out for each sample, or what multiplies its scores."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dsstne._commands import nodes, sources
from dsstne._commands.indexes import Index, compare, of
from dsstne.dataset import Dataset

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dsstne._commands.filter_sets import FilterSet


class Listed(NamedTuple):
    """What a file lists for each sample.

    Attributes:
        exclude: Dataset of the listed items [samples, units].
        factors: What multiplies their values, float64, of which 0 is stored like others; None: all are 0.
    """

    exclude: Dataset
    factors: scipy.sparse.csr_array | None


class Filter:
    """The filter of an output file.

    Args:
        listed: What is listed for each sample; None = nothing.
        items: Items that are listed for every sample.
        item_factors: What multiplies their values, float64; 0 leaves an item out.

    Attributes:
        exclude: Dataset of the items that are listed for each sample; None = none.
        factors: What multiplies their values, float64 [samples, units]; None: all are left out.
        items, item_factors: As above.
    """

    def __init__(self, listed: Listed | None, items: NDArray[np.int32], item_factors: NDArray[np.float64]) -> None:
        self.exclude: Dataset | None = None if listed is None else listed.exclude
        self.factors: Any = None if listed is None else listed.factors
        self.items, self.item_factors = items, item_factors
        if self.factors is None and self.exclude is not None and item_factors.any():
            self.factors = self.pattern * 0.0

    @functools.cached_property
    def pattern(self) -> scipy.sparse.csr_array:
        """The listed items of each sample: 1 in each place, in the order of the columns."""
        assert self.exclude is not None
        return ones(self.exclude.to_scipy(), np.int8)

    @functools.cached_property
    def _multiplied(self) -> NDArray[np.bool_]:
        """Rows with a factor other than 0."""
        assert self.factors is not None
        ends = np.r_[0, np.cumsum(self.factors.data != 0)][self.factors.indptr]
        return np.asarray(np.diff(ends) > 0)

    def multiplies(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Reports in which rows a value is multiplied by a factor other than 0."""
        if self.item_factors.any():
            return np.ones(len(rows), bool)
        return np.zeros(len(rows), bool) if self.factors is None else self._multiplied[rows]


class Reader:
    """Reads the files of filters, each once.

    Args:
        given: The flags.
        samples: Labels of the samples.
        labels: Labels of the items.
        whole: Labels of the index that the items are the first of.
        units: Number of units of the layer, at least that of the labels.
        layer: Name of the layer.
        names: Names of the data sets that the layers take.
        predicted: What was read of ``-r``.
        shared: The text of the samples, if it is one of the filters, too, and has the items of the output.

    Attributes:
        findings: What the reading of texts found.
    """

    def __init__(
        self,
        given: Namespace,
        samples: Sequence[str],
        labels: Sequence[str],
        whole: Sequence[str],
        units: int,
        layer: str,
        names: Mapping[str, str],
        predicted: sources.Source,
        shared: sources.Source | None,
    ) -> None:
        self._given, self._samples, self._labels = given, samples, labels
        self._units, self._layer, self._names = units, layer, names
        self._whole = whole
        self._predicted, self._shared = predicted, shared
        self._listed: dict[tuple[str, ...], Listed] = {}
        self._nodes: dict[str, dict[str, float]] = {}
        self.findings: list[str] = []

    def read(self, one: FilterSet) -> Filter:
        """Reads the files of a filter.

        Raises:
            InvalidDataError: Rows or columns have no names, and another number than the samples or items, or other
                digests.
            DsstneError: A file cannot be read.
        """
        factors: dict[str, float] = {}
        for path in one.nodes:
            for label, factor in self._node(path).items():
                factors[label] = factors.get(label, 1.0) * factor
        at = {label: n for n, label in enumerate(self._labels)}
        items = np.array([at[label] for label in factors], np.int32)
        order = np.argsort(items)
        listed = self._all(one.samples) if one.samples else None
        return Filter(listed, items[order], np.array([*factors.values()], np.float64)[order])

    def _node(self, path: str) -> dict[str, float]:
        """Reads a node filter; without ``--filter-values`` all factors are 0."""
        key = os.path.realpath(path)
        if key not in self._nodes:
            found, findings = nodes.read(path, set(self._labels), self._given.malformed)
            self.findings.append(findings)
            self._nodes[key] = found if self._given.filter_values else dict.fromkeys(found, 0.0)
        return self._nodes[key]

    def _all(self, paths: Sequence[str]) -> Listed:
        """Reads sample filters, which all hold."""
        given = {os.path.realpath(path): path for path in paths}
        key = tuple(sorted(given))
        if key in self._listed:
            return self._listed[key]
        if len(key) == 1:
            made = self._one(paths[0])
        else:
            parts = [self._all([given[path]]) for path in key]
            exclude = functools.reduce(
                lambda a, b: a.maximum(b), (ones(one.exclude.to_scipy(), np.int8) for one in parts)
            )
            factors = None
            if any(one.factors is not None for one in parts):
                every = (
                    ones(one.exclude.to_scipy(), np.float64) * 0.0 if one.factors is None else one.factors
                    for one in parts
                )
                factors = _product([*every])
            made = Listed(Dataset(exclude), factors)
        self._listed[key] = made
        return made

    def _one(self, path: str) -> Listed:
        """Reads a sample filter."""
        values = self._given.filter_values
        if self._shared is not None and sources.is_same(path, self._given.r):
            source = self._shared
        elif sources.kind_of(path) == "text":
            options = {"values": "analog", "default_value": 0.0} if values else {}
            source = sources.read_text(path, self._given, features=self._labels, samples=self._samples, **options)
            self.findings.append(source.findings)
        else:
            if self._is_read(path):
                source = self._predicted
            else:
                read = sources.by_layer("-f", path, [self._layer], self._names, self._given, are_targets=True)
                source = read[self._layer]
            return _listed(self._matched(path, source), values)
        data = source.matrix
        if not values and data.shape[1] == self._units and not data.info["value_bits"]:
            return Listed(data, None)  # the engine sorts the rows that it needs; SciPy would sort all of them
        return _listed(sources.widened(data.to_scipy(), self._units), values)

    def _is_read(self, path: str) -> bool:
        """Reports whether a data file is that of the samples, of which all the items were read."""
        known = self._predicted
        if not sources.is_same(path, self._given.r):
            return False
        if sources.kind_of(path) == "netcdf":
            wanted = sources.data_sets("-f", path, [self._layer], self._names, self._given, are_targets=True)
            one = wanted[self._layer]
            # Weights multiply the values of an input, and whole rows may be moved by -0.5.
            if one.name != known.name or one.weighted or not one.sparse:
                return False
        return known.items is not None and set(self._labels) <= set(map(str, known.items))

    def _matched(self, path: str, source: sources.Source) -> scipy.sparse.csr_array:
        """Returns the matrix of a data file with the samples as rows and the items as columns."""
        samples, labels = self._samples, self._labels
        others = (
            of("sample", f"-r: {self._given.r}", self._predicted),
            Index("the output", len(self._whole), self._whole),
        )
        self.findings += [
            compare(what, own, index)
            for what, index in zip(("sample", "feature"), others, strict=True)
            if (own := of(what, f"-f: {path}", source)).labels is None  # else they are found by their labels
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
            matrix = scipy.sparse.csr_array(entries, shape=(matrix.shape[0], self._units))
        sized = scipy.sparse.csr_array(matrix, copy=False)
        sized.resize((len(samples), self._units))  # of an index that has grown since the file was made, or was longer
        return sized


def _listed(matrix: scipy.sparse.csr_array, has_values: bool) -> Listed:
    """Returns what a matrix lists, whose stored zeros count."""
    factors = None
    if has_values and matrix.data.any():
        factors = matrix.astype(np.float64)
        factors.sum_duplicates()
    return Listed(Dataset(ones(matrix, bool)), factors)


def ones(matrix: scipy.sparse.csr_array, kind: Any) -> scipy.sparse.csr_array:
    """Returns a matrix of ones where a matrix has a stored value, whichever."""
    arrays = (np.ones(matrix.nnz, kind), matrix.indices, matrix.indptr)
    return scipy.sparse.csr_array(arrays, shape=matrix.shape, copy=False)


def _product(matrices: Sequence[scipy.sparse.csr_array]) -> scipy.sparse.csr_array:
    """Multiplies the stored values of matrices place by place; in a place that a matrix does not store it has 1."""
    rows, units = (matrices[0].shape[axis] for axis in (0, 1))
    places = np.concatenate(
        [np.repeat(np.arange(rows), np.diff(one.indptr)) * np.int64(units) + one.indices for one in matrices]
    )
    order = np.argsort(places, kind="stable")
    places, first = np.unique(places[order], return_index=True)
    data = np.concatenate([one.data for one in matrices])[order]
    data = np.multiply.reduceat(data, first) if len(first) else data
    offsets = np.searchsorted(places, np.arange(rows + 1) * np.int64(units))
    return scipy.sparse.csr_array((data, places % units, offsets), shape=(rows, units))
