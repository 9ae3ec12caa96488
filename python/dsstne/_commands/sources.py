"""Data files of commands, which are told apart by their content: NetCDF-4, the files of Dataset.save, or text."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import scipy.sparse

from dsstne import _netcdf_file, netcdf
from dsstne.dataset import Dataset
from dsstne.errors import InputOutputError, InvalidArgumentError, InvalidDataError, MissingFileError, NotFoundError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

# What is wrong with a line of each kind of dataset.info["text"]["malformed"], and of a node filter.
MALFORMED = {
    "no_tab": "no TAB",
    "empty_sample": "no label of the sample",
    "sample_character": "a colon or comma in the label of the sample",
    "empty_feature": "no label before a comma",
    "tab_in_features": "a second TAB",
    "several_values": "several values of a feature",
    "no_value": "no value of a feature",
    "not_a_number": "a value that is not a number",
    "not_finite": "a value that is too large",
    "not_utf8": "bytes that are not UTF-8",
    "tab": "a TAB",
    "colon": "a colon",
}


class Source(NamedTuple):
    """A matrix of a file.

    Attributes:
        matrix: The matrix or Dataset.
        items: Names of the columns; None if the file has none.
        rows: Names of the rows; None if the file has none.
        sample_weight: Weights of the rows, if they have any.
        stored_only: Whether only stored entries count in the loss.
        name: Name of the data set in a NetCDF file.
        findings: What the reading of a text found, for the user.
    """

    matrix: Any
    items: Any = None
    rows: Any = None
    sample_weight: Any = None
    stored_only: bool = False
    name: str | None = None
    findings: str = ""


def kind_of(path: str) -> str:
    """Returns "netcdf", "mapped" or "text".

    Raises:
        MissingFileError: There is no such file.
        UnsupportedError: It is in a classic NetCDF format.
        InputOutputError: It cannot be read.
    """
    if not os.path.exists(path):  # noqa: PTH110 - a Path would change "./x"
        raise MissingFileError(f"{path}: no such file", errno.ENOENT, path)
    if not os.path.isfile(path):  # noqa: PTH113 - a folder; to open a pipe would wait for its writer
        return "text"
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            is_mapped = file.read(6) == b"ARROW1"
    except OSError as error:
        raise InputOutputError(f"{path}: {error.strerror}", error.errno or 0, path) from None
    return "mapped" if is_mapped else "netcdf" if _netcdf_file.is_netcdf(path) else "text"


def is_same(path: str, other: str) -> bool:
    """Reports whether two paths name the same file or folder."""
    return os.path.realpath(path) == os.path.realpath(other)


def read_text(path: str, given: Namespace, **options: Any) -> Source:
    """Reads a text with the flags of :func:`dsstne._commands.flags.reading`; options as those of Dataset.from_text."""
    data = Dataset.from_text(
        path, on_malformed=given.malformed, threads=given.threads, memory_limit=given.memory_limit, **options
    )
    return Source(data, data.item_names, data.row_names, findings=findings(path, data.info["text"]))


def read_mapped(path: str) -> Source:
    """Opens a file of Dataset.save."""
    data = Dataset.open(path)
    return Source(data, data.item_names, data.row_names)


def by_layer(
    flag: str,
    path: str,
    layers: Sequence[str],
    names: Mapping[str, str],
    given: Namespace,
    *,
    are_targets: bool = False,
    **text: Any,
) -> dict[str, Source]:
    """Reads the matrices of layers from a file.

    Args:
        flag: The flag that names the file, for messages.
        path: The file.
        layers: Names of the layers.
        names: Names of the data sets that the layers take, as far as they are known.
        given: The flags; ``-d`` names the data set, or its name without "_input" or "_output".
        are_targets: Whether the layers are outputs.
        text: Options of :func:`read_text`.

    Raises:
        NotFoundError: The file does not have the data set of a layer.
        InvalidArgumentError: The file holds one matrix, and there are several layers.
        DsstneError: The file cannot be read.
    """
    kind = kind_of(path)
    if kind == "netcdf":
        return _data_sets(flag, path, layers, names, given.d, are_targets)
    if len(layers) != 1:
        raise InvalidArgumentError(
            f"{flag}: {path} holds one matrix, and the network takes one for each of the layers {', '.join(layers)}; "
            "give a NetCDF file with a data set for each"
        )
    return {layers[0]: read_mapped(path) if kind == "mapped" else read_text(path, given, **text)}


def _data_sets(
    flag: str, path: str, layers: Sequence[str], known: Mapping[str, str], wanted: str | None, are_targets: bool
) -> dict[str, Source]:
    """Reads data sets of a NetCDF file, each once."""
    listed = {one.name: one for one in netcdf.datasets(path)}
    suffix = "_output" if are_targets else "_input"
    chosen = {}
    for layer in layers:
        own, names = known.get(layer), []
        if wanted is not None and len(layers) == 1:
            names = [wanted, wanted + suffix]
        names += [own] if own is not None else [*listed] if len(listed) == len(layers) == 1 else []
        found = next((name for name in names if name in listed), None)
        if found is None:
            takes = f"the layer {layer!r} takes {own!r}" if own else f"the layer {layer!r} does not say which it takes"
            remedy = "-d names the one to use" if len(layers) == 1 else "DataSet of the layer names it"
            raise NotFoundError(
                f"{flag}: {path} has {'the data sets' if len(listed) > 1 else 'the data set'} "
                f"{', '.join(map(repr, listed))}, and {takes}; {remedy}"
            )
        chosen[layer] = found
    sources = {}
    for name in dict.fromkeys(chosen.values()):
        data = netcdf.read(path, name, as_target=are_targets)
        matrix, weights = data.matrix, data.sample_weight
        if weights is not None and not are_targets:  # the weight of an example multiplies its input, too
            matrix = scipy.sparse.csr_array(matrix[:]).multiply(weights[:, None]).tocsr()
            weights = None
        sources[name] = Source(matrix, data.items, data.rows, weights, listed[name].stored_only, name)
    return {layer: sources[name] for layer, name in chosen.items()}


def check_rows(left: str, ours: Source, right: str, theirs: Source) -> None:
    """Refuses files whose rows are not the same samples, as far as they have names.

    Raises:
        InvalidDataError: The numbers of rows or the names differ.
    """
    a, b = (source.matrix.shape[0] for source in (ours, theirs))
    remedy = "make both files with the same index of the samples"
    if a != b:
        raise InvalidDataError(f"{left} has {counted(a, 'row')} and {right} {counted(b, 'row')}; {remedy}")
    if ours.rows is not None and theirs.rows is not None:
        for row, (one, other) in enumerate(zip(ours.rows, theirs.rows, strict=True)):
            if str(one) != str(other):
                raise InvalidDataError(f"row {row} is {one!r} in {left} and {other!r} in {right}; {remedy}")


def findings(path: str, text: dict[str, Any]) -> str:
    """Says what was left out of a text, and where the first malformed line of each kind is; "" if nothing was."""
    parts = []
    if skipped := sum(kind["lines"] for kind in text["malformed"].values()):
        kinds = [
            f"{one['lines']:,} with {MALFORMED.get(kind, kind)} (first: {one['first']['file']}, line "
            f"{one['first']['line']:,}, column {one['first']['column']:,})"
            for kind, one in text["malformed"].items()
        ]
        parts.append(f"skipped {counted(skipped, 'malformed line')}: {', '.join(kinds)}")
    if text.get("repeated_samples"):
        parts.append(f"{counted(text['repeated_samples'], 'sample')} repeated, of which the last line counts")
    if text["unknown_features"]:
        parts.append(f"left out {text['unknown_features']:,} entries whose features are not in the index")
    if text.get("unknown_samples"):
        parts.append(f"left out {counted(text['unknown_samples'], 'sample')} not in the index")
    return f"{path}: {'; '.join(parts)}" if parts else ""


def counted(n: int, noun: str) -> str:
    """Returns a number with a noun."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
