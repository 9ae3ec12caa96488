"""Indexes of samples and features: whether those of two files are the same, as far as the files tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dsstne import _checks, _items
from dsstne._commands.sources import counted, widened
from dsstne._netcdf_network import ATTRIBUTE
from dsstne.dataset import Dataset
from dsstne.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsstne._commands.sources import Source
    from dsstne.model import Model

_PADDING = 128  # DSSTNE rounds the columns of a data set up to a multiple of this


class Index(NamedTuple):
    """What is known of the samples or features of a file.

    Attributes:
        place: The file, for messages.
        size: Their number: the rows or columns of a matrix, the units of a layer, or the labels of an index.
        labels: Their labels in the order of their numbers; None if the file has none.
        digest: The digest of their labels; None if the file has none.
    """

    place: str
    size: int
    labels: Any = None
    digest: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is something to compare but the size."""
        return self.labels is not None or self.digest is not None


def compare(what: str, ours: Index, theirs: Index) -> str:
    """Refuses indexes that number other labels: as far as both go, their labels must be the same.

    An index that has only grown is therefore the same. A digest says how many labels it is made of. It is compared with
    the digest of the same number of labels of the other index.

    Args:
        what: "sample" or "feature".
        ours: An index.
        theirs: Another one.

    Returns:
        A note for the user if only the sizes could be compared, else "".

    Raises:
        InvalidDataError: Labels differ, and the message names the first one that does if both files have labels; or an
            index has nothing to compare but its size, and the sizes differ.
    """
    remedy = f"both need the same index of the {what}s"
    for one in (ours, theirs):
        if not one.is_known:
            if not fits(what, ours, theirs):
                raise InvalidDataError(
                    f"{different(what, ours, theirs)}; {one.place} has neither names nor a digest of them, without "
                    "which the numbers must be the same"
                )
            return f"{one.place} has neither names nor a digest of its {what}s: only their number was compared"
    if ours.labels is not None and theirs.labels is not None:
        found = _first_difference(ours.labels, theirs.labels)
        if found is not None:
            at, a, b = found
            raise InvalidDataError(f"{what} {at:,} is {a} in {ours.place} and {b} in {theirs.place}; {remedy}")
        return ""
    one, other = (ours, theirs) if ours.labels is None else (theirs, ours)
    _compare_digest(what, one, other, remedy)
    return ""


def of(what: str, place: str, source: Source) -> Index:
    """Returns what is known of the samples or features of a source."""
    axis = 1 if what == "feature" else 0
    labels = source.items if axis else source.rows
    return Index(place, source.matrix.shape[axis], labels, source.items_digest if axis else source.rows_digest)


def kept(model: Model, what: str) -> dict[str, str]:
    """Returns the names of the data sets that the layers of a model take, or the digests of their features.

    Args:
        model: The model.
        what: "datasets" or "features".
    """
    try:
        texts = json.loads(model.attributes.get(ATTRIBUTE, "{}"))[what]
        return {layer: text for layer, text in texts.items() if text}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def of_layer(model: Model, layer: str, path: str) -> Index:
    """Returns what a network says about the features of an input or output.

    Args:
        model: The network.
        layer: The layer.
        path: The file of the network, for messages.
    """
    is_output = layer in model.outputs
    labels = list(map(str, model.items)) if is_output and layer == model.output and model.items is not None else None
    digest = kept(model, "features").get(layer)
    units = (model.outputs if is_output else model.inputs)[layer]
    return Index(f"the layer {layer!r} of {path}", units, labels, digest if _items.is_digest(digest) else None)


def as_wide(flag: str, path: str, source: Source, known: Index) -> tuple[Source, list[str]]:
    """Gives a source the columns of a layer.

    Args:
        flag: The flag that names the file, for messages.
        path: The file.
        source: What was read of it.
        known: The features of the layer.

    Returns:
        The source with as many columns as the layer has units, and notes for the user.

    Raises:
        InvalidDataError: The network was trained with other features.
    """
    own = of("feature", f"{flag}: {path}", source)
    notes = [note] if (note := compare("feature", own, known)) else []
    if own.size == known.size:
        return source, notes
    matrix = source.matrix
    matrix = matrix.to_scipy() if hasattr(matrix, "to_scipy") else matrix
    if own.size < known.size:
        return source._replace(matrix=widened(matrix, known.size)), notes
    narrow = matrix[:, : known.size]
    lost = _entries(matrix) - _entries(narrow)
    if lost:
        notes.append(f"{path}: left out {lost:,} entries in columns that {known.place} does not have")
    items = None if source.items is None else source.items[: known.size]
    return source._replace(matrix=narrow, items=items), notes


def _entries(matrix: Any) -> int:
    """Returns the number of stored entries of a sparse matrix, or of those of an array that are not 0."""
    return int(np.count_nonzero(matrix) if isinstance(matrix, np.ndarray) else matrix.nnz)


def compare_sources(what: str, left: str, ours: Source, right: str, theirs: Source) -> str:
    """Refuses two sources whose samples or features are not the same, see :func:`compare`.

    Args:
        what: "sample" or "feature".
        left: The file of the first source, for messages.
        ours: The first source.
        right: The file of the second source.
        theirs: The second source.

    Returns:
        A note for the user if only the numbers could be compared, else "".

    Raises:
        InvalidDataError: They are not the same.
    """
    return compare(what, of(what, left, ours), of(what, right, theirs))


def fits(what: str, ours: Index, theirs: Index) -> bool:
    """Reports whether sizes are the same, or one may be that of the other's features rounded up, as DSSTNE does."""
    small, large = sorted((ours, theirs), key=lambda index: index.size)
    may_be_filled_up = what == "feature" and (large.labels is None or len(large.labels) < large.size)
    return small.size == large.size or (may_be_filled_up and large.size == -(-small.size // _PADDING) * _PADDING)


def different(what: str, ours: Index, theirs: Index) -> str:
    """Returns a message about different sizes."""
    return f"{ours.place} has {counted(ours.size, what)}, and {theirs.place} has {theirs.size:,}"


def same_samples(
    groups: Sequence[tuple[str, Mapping[str, Source]]],
) -> tuple[list[dict[str, Source]], list[str]]:
    """Gives groups of sources the same samples as rows, see :func:`aligned`.

    Args:
        groups: Files, for messages, and their sources by layer.

    Returns:
        The groups, in their order, and notes for the user.
    """
    distinct: dict[int, tuple[str, Source]] = {}  # several layers may have the same
    for place, group in groups:
        for source in group.values():
            distinct.setdefault(id(source), (place, source))
    made, notes = aligned(list(distinct.values()))
    by = dict(zip(distinct, made, strict=True))
    found = [{layer: by[id(source)] for layer, source in group.items()} for _, group in groups]
    return found, list(dict.fromkeys(notes))


def aligned(sources: Sequence[tuple[str, Source]]) -> tuple[list[Source], list[str]]:
    """Gives sources of the same samples as many rows: those of a shorter index get empty rows at the end.

    Args:
        sources: Files, for messages, and their sources.

    Returns:
        The sources with the rows of the longest one, of weight 1, and notes for the user.

    Raises:
        InvalidDataError: They are not of the same samples.
    """

    def known(pair: tuple[str, Source]) -> tuple[int, bool, bool]:
        index = of("sample", *pair)
        return index.size, index.labels is not None, index.is_known

    name, longest = max(sources, key=known)
    rows, made, notes = longest.matrix.shape[0], [], []
    for place, source in sources:
        missing = rows - source.matrix.shape[0]
        if source is not longest and (place != name or missing):  # those of one file are the same
            notes.append(compare_sources("sample", name, longest, place, source))
        if missing:
            last = "row is" if missing == 1 else f"{missing:,} rows are"
            notes.append(f"{place} has {counted(missing, 'sample')} fewer than {name}: its last {last} empty")
            source = _lengthened(source, rows)._replace(rows=source.rows if longest.rows is None else longest.rows)
        made.append(source)
    return made, [note for note in notes if note]


def _lengthened(source: Source, rows: int) -> Source:
    """Adds empty rows."""
    matrix, weights = source.matrix, source.sample_weight
    missing, columns = rows - matrix.shape[0], matrix.shape[1]
    if isinstance(matrix, np.ndarray):
        matrix = np.concatenate([matrix, np.zeros((missing, columns), matrix.dtype)])
    else:
        matrix = matrix.to_scipy() if isinstance(matrix, Dataset) else scipy.sparse.csr_array(matrix)
        offsets = np.append(matrix.indptr, np.full(missing, matrix.indptr[-1], matrix.indptr.dtype))
        arrays: Any = (matrix.data, matrix.indices, offsets)
        matrix = scipy.sparse.csr_array(arrays, shape=(rows, columns), copy=False)
    if weights is not None:
        weights = np.append(weights, np.ones(missing, weights.dtype))
    return source._replace(matrix=matrix, sample_weight=weights)


def _first_difference(ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[int, str, str] | None:
    size = min(len(ours), len(theirs))
    left, right = (list(map(str, labels[:size])) for labels in (ours, theirs))
    if left == right:  # which takes a fraction of the time of the search
        return None
    pairs = enumerate(zip(left, right, strict=True))
    return next((at, _checks.shown(a), _checks.shown(b)) for at, (a, b) in pairs if a != b)


def _compare_digest(what: str, one: Index, other: Index, remedy: str) -> None:
    """Compares an index of which only the digest is known with labels, or with another digest."""
    digest, others = one.digest or "", other.digest or ""
    size = _items.number_of(digest)
    if other.labels is None:
        number, is_comparable = _items.number_of(others), _items.number_of(others) == size
    else:
        number, is_comparable = len(other.labels), len(other.labels) >= size
        others = _items.digest_of(other.labels[:size])
    if not is_comparable:
        raise InvalidDataError(
            f"{one.place} has only a digest of {counted(size, what)}, which cannot be compared with the {number:,} of "
            f"{other.place}; {remedy}, with as many labels"
        )
    if others != digest:
        raise InvalidDataError(
            f"the {counted(size, what)} of {one.place}, of which it has the digest, are not the first {size:,} of "
            f"{other.place}; {remedy}"
        )
