"""Data files of commands, which are told apart by their content.

All commands read NetCDF-4, the files of Dataset.save and text; ``dsstne convert`` reads the other kinds, too.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import zlib
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import scipy.sparse

from dsstne import _netcdf_file, netcdf
from dsstne.dataset import Dataset
from dsstne.errors import (
    CorruptFileError,
    InputOutputError,
    InvalidArgumentError,
    MissingFileError,
    NotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

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
    "not_extreme": "another form than `label,label feature:value`",
    "no_such_label": "a label that the first line does not count",
    "no_such_feature": "a feature that the first line does not count",
    "tab": "a TAB",
    "colon": "a colon",
}

# What only ``dsstne convert`` reads.
_OTHERS = {
    "npz": "a matrix of SciPy",
    "mtx": "a Matrix Market file",
    "extreme": "a text of extreme classification",
    "dsstne": "a network",
}
# Kinds of files, and programs that compress, by the bytes with which files begin.
_BEGINS = {b"ARROW1": "mapped", b"PK\3\4": "npz", b"PK\5\6": "npz", b"%%MatrixMarket": "mtx"}
_COMPRESSED = {b"\xfd7zXZ\0": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_COUNTS = re.compile(rb" *[0-9]+ +[0-9]+ +[0-9]+ *\r?\n")  # the first line of a text of extreme classification
_MODEL = re.compile(rb".{6}\0\0\{", re.DOTALL)  # the length of the header, and the header, which is JSON


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
        items_digest: Digest of the names of the columns, of a NetCDF file that has one.
        rows_digest: Digest of the names of the rows.
    """

    matrix: Any
    items: Any = None
    rows: Any = None
    sample_weight: Any = None
    stored_only: bool = False
    name: str | None = None
    findings: str = ""
    items_digest: str | None = None
    rows_digest: str | None = None


def kind_of(path: str) -> str:
    """Returns "netcdf", "mapped", "npz", "mtx", "extreme", "dsstne" or "text".

    Raises:
        MissingFileError: There is no such file.
        UnsupportedError: It is in a classic NetCDF format, or compressed by another program than gzip.
        InputOutputError: It cannot be read.
    """
    if not os.path.exists(path):  # noqa: PTH110 - a Path would change "./x"
        raise MissingFileError(f"{path}: no such file", errno.ENOENT, path)
    if not os.path.isfile(path):  # noqa: PTH113 - a folder; to open a pipe would wait for its writer
        return "text"
    is_compressed = False
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            begin = file.read(1 << 12)
        if begin.startswith(b"\x1f\x8b"):
            is_compressed = True
            with contextlib.suppress(zlib.error):  # what reads all of it will say where it is damaged
                begin = zlib.decompressobj(31).decompress(begin, 128)
    except OSError as error:
        raise InputOutputError(f"{path}: {error.strerror or error}", error.errno or 0, path) from None
    kind = "netcdf" if not is_compressed and _netcdf_file.is_netcdf(path) else _told(begin)
    program = next((program for magic, program in _COMPRESSED.items() if begin.startswith(magic)), None)
    if is_compressed and kind not in ("text", "mtx", "extreme"):
        program = "gzip"
    if program is not None:
        also = "" if program == "gzip" else ", or compress it with gzip if it is a text"
        raise UnsupportedError(f"{path} is compressed with {program}; decompress it{also}")
    return kind


def _told(begin: bytes) -> str:
    """Returns the kind of a file that begins with some bytes and is not NetCDF-4."""
    for magic, kind in _BEGINS.items():
        if begin.lower().startswith(magic.lower()):
            return kind
    return "extreme" if _COUNTS.match(begin) else "dsstne" if _MODEL.match(begin) else "text"


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
        UnsupportedError: The file is of a kind that only ``dsstne convert`` reads.
        DsstneError: The file cannot be read.
    """
    kind = kind_of(path)
    if kind in _OTHERS:
        remedy = "" if kind == "dsstne" else f"; `dsstne convert {path} NEW.arrow` makes a data file of it"
        raise UnsupportedError(f"{flag}: {path} is {_OTHERS[kind]}{remedy}")
    if kind == "netcdf":
        return _read(path, data_sets(flag, path, layers, names, given, are_targets=are_targets), are_targets)
    if len(layers) != 1:
        raise InvalidArgumentError(
            f"{flag}: {path} holds one matrix, and the network takes one for each of the layers {', '.join(layers)}; "
            "give a NetCDF file with a data set for each"
        )
    return {layers[0]: read_mapped(path) if kind == "mapped" else read_text(path, given, **text)}


def data_sets(
    flag: str,
    path: str,
    layers: Sequence[str],
    known: Mapping[str, str],
    given: Namespace,
    *,
    are_targets: bool = False,
) -> dict[str, netcdf.DataSet]:
    """Returns the data sets of a NetCDF file that layers take; arguments and errors are those of :func:`by_layer`."""
    wanted = given.d
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
            has_flag = len(layers) == 1 and flag.startswith("-")
            remedy = "-d names the one to use" if has_flag else "DataSet of the layer names it"
            raise NotFoundError(
                f"{flag}: {path} has {'the data sets' if len(listed) > 1 else 'the data set'} "
                f"{', '.join(map(repr, listed))}, and {takes}; {remedy}"
            )
        chosen[layer] = listed[found]
    return chosen


def _read(path: str, chosen: Mapping[str, netcdf.DataSet], are_targets: bool) -> dict[str, Source]:
    """Reads data sets of a NetCDF file, each once."""
    sources = {}
    for name, of in {one.name: one for one in chosen.values()}.items():
        data = netcdf.read(path, name, as_target=are_targets)
        matrix, weights = data.matrix, data.sample_weight
        if weights is not None and not are_targets:  # the weight of an example multiplies its input, too
            matrix = scipy.sparse.csr_array(matrix[:]).multiply(weights[:, None]).tocsr()
            weights = None
        sources[name] = Source(
            matrix,
            data.items,
            data.rows,
            weights,
            of.stored_only,
            name,
            items_digest=of.items_digest,
            rows_digest=of.rows_digest,
        )
    return {layer: sources[one.name] for layer, one in chosen.items()}


def files_of(path: str) -> list[str]:
    """Returns a file, or those of a folder in the order of their names' bytes; hidden ones are left out."""
    if not os.path.isdir(path):  # noqa: PTH112 - a Path would change "./x"
        return [path]
    names = sorted((name for name in os.listdir(path) if not name.startswith(".")), key=os.fsencode)  # noqa: PTH208
    return [os.path.join(path, name) for name in names]  # noqa: PTH118


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Opens a text, which may be compressed with gzip.

    Raises:
        InputOutputError: It cannot be opened.
        CorruptFileError: The compressed file is damaged.
    """
    try:
        file = open(path, "rb")  # noqa: PTH123, SIM115
    except OSError as error:
        raise InputOutputError(f"{path}: {error.strerror}", error.errno or 0, path) from None
    with file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        try:
            with gzip.open(file) as text:
                yield cast("IO[bytes]", text)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CorruptFileError(f"{path}: the compressed file is damaged: {error}") from None


def skipped_lines(malformed: dict[str, Any], words: Mapping[str, str]) -> str:
    """Says how many malformed lines were skipped, and where the first of each kind is.

    Args:
        malformed: Of each kind the number of lines and the first place, as in dataset.info["text"]["malformed"].
        words: What is wrong with a line of each kind.
    """
    kinds = [
        f"{one['lines']:,} with {words.get(kind, kind)} (first: {one['first']['file']}, line "
        f"{one['first']['line']:,}, column {one['first']['column']:,})"
        for kind, one in malformed.items()
    ]
    return f"skipped {counted(sum(kind['lines'] for kind in malformed.values()), 'malformed line')}: {', '.join(kinds)}"


def widened(matrix: Any, columns: int) -> scipy.sparse.csr_array:
    """Returns a sparse matrix with more columns, which shares the memory of the given one."""
    matrix = scipy.sparse.csr_array(matrix)
    arrays = (matrix.data, matrix.indices, matrix.indptr)
    return scipy.sparse.csr_array(arrays, shape=(matrix.shape[0], columns), copy=False)


def findings(path: str, text: dict[str, Any]) -> str:
    """Says what was left out of a text, and where the first malformed line of each kind is; "" if nothing was."""
    parts = []
    if any(kind["lines"] for kind in text["malformed"].values()):
        parts.append(skipped_lines(text["malformed"], MALFORMED))
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
