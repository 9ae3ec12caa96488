"""Files of ``scipy.sparse.save_npz`` and texts of DSSTNE, and what the writers of all texts share."""

from __future__ import annotations

import contextlib
import gzip
import re
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse

from dsstne._commands import parts
from dsstne.errors import CorruptFileError, InvalidArgumentError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from dsstne._commands.parts import Part

# What the readers of NumPy and SciPy raise for damaged files.
_DAMAGED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    NotImplementedError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)

_NOT_IN_LABELS = re.compile("[\t\n\r:,\ufeff]")


def read_npz(path: str, given: Namespace) -> Any:
    """Reads a file of ``scipy.sparse.save_npz``.

    Raises:
        CorruptFileError: It is another file, or damaged.
    """
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
            is_csr = "indptr.npy" in members.namelist()
        parts.need(given, path, (2 if is_csr else 4) * size)
        matrix = scipy.sparse.load_npz(path)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # converting a damaged one would read memory of others
        return matrix.tocsr()
    except _DAMAGED as error:
        text = f"{path}: this is not a complete file of scipy.sparse.save_npz: {error}"
        raise CorruptFileError(text) from None


@contextlib.contextmanager
def new_file(name: str, target: str) -> Iterator[IO[bytes]]:
    """Opens a file for writing: compressed, and without a time and a name in it, if the target ends with ``.gz``."""
    with open(name, "xb") as file:  # noqa: PTH123
        if target.endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
                yield cast("IO[bytes]", compressed)
        else:
            yield file


def decimals(values: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Returns the texts of the distinct values, and for each value the place of its text.

    A text is the shortest decimal that gives the same number in its type.
    """
    distinct, places = np.unique(values, return_inverse=True)
    if distinct.dtype.kind == "b":
        texts = ["1"] * len(distinct)
    elif distinct.dtype.kind in "iu":
        texts = list(map(str, distinct.tolist()))
    else:
        texts = [str(value).removesuffix(".0") for value in distinct]
    return texts, places


def lines(
    offsets: NDArray[Any], heads: Sequence[str], between: str, *pieces: tuple[Sequence[str], NDArray[Any]]
) -> bytes:
    """Returns a line for each row: its head, and its entries with a separator between them. Without heads, only these.

    Args:
        offsets: The first entry of each row, and the end of the last row.
        heads: The begin of each line.
        between: The separator.
        pieces: What an entry consists of: texts, and for each entry the place of its text.
    """
    n = int(offsets[-1])
    texts, columns = ["", between], [np.ones(n, np.int64)]
    columns[0][offsets[:-1][offsets[:-1] < n]] = 0  # the first entry of a row has no separator before it
    for listed, places in pieces:
        columns.append(places + len(texts))
        texts += listed
    # A line begins with the end of the line before it, so that rows without entries need no care.
    order = np.insert(
        np.stack(columns, axis=1).ravel(), offsets[:-1] * len(columns), np.arange(len(heads)) + len(texts)
    )
    encoded = [text.encode() for text in [*texts, *(f"\n{head}" for head in heads)]]
    bounds = np.concatenate([[0], np.cumsum([len(text) for text in encoded])])
    starts, lengths = bounds[order], np.diff(bounds)[order]
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    places += np.arange(len(places))
    whole: bytes = np.frombuffer(b"".join(encoded), np.uint8)[places].tobytes()
    return whole[1:] + b"\n" if heads else whole


def unwritable(labels: Sequence[str]) -> str:
    """Says why a text or an index cannot hold some labels; "" if it can."""
    known: dict[str, int] = {}
    for at, label in enumerate(labels):
        if not label or _NOT_IN_LABELS.search(label):
            return f"label {at} is {label!r}; labels are not empty and have no TAB, end of line, colon or comma"
        if (other := known.setdefault(label, at)) != at:
            return f"the labels {other} and {at} are both {label!r}; labels must differ"
    return ""


def write_text(file: IO[bytes], part: Part, rows: Sequence[str], items: Sequence[str]) -> None:
    """Writes a matrix as a text of DSSTNE, with values where one is not 1.

    Raises:
        InvalidArgumentError: A text cannot hold the label of a row; the message names it.
    """
    if fault := unwritable(rows):
        raise InvalidArgumentError(f"the names of the samples: {fault}")
    first = 0
    for block in part.blocks():
        columns, places = np.unique(block.indices, return_inverse=True)
        pieces = [([items[column] for column in columns.tolist()], places)]
        if not part.is_boolean:
            texts, places = decimals(block.data)
            pieces.append(([f",{text}" for text in texts], places))
        heads = [f"{label}\t" for label in rows[first : first + block.shape[0]]]
        file.write(lines(block.indptr, heads, ":", *pieces))
        first += block.shape[0]


def write_npz(file: IO[bytes], part: Part) -> None:
    """Writes a matrix as ``scipy.sparse.save_npz(..., compressed=False)`` does, in blocks."""
    offsets = np.concatenate([[0], np.cumsum(part.counts())])
    integers = np.int32 if offsets[-1] < 1 << 31 else np.int64
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as members:

        def add(name: str, dtype: Any, shape: tuple[int, ...], values: Iterator[NDArray[Any]]) -> None:
            with members.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
                header = {
                    "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
                    "fortran_order": False,
                    "shape": shape,
                }
                np.lib.format.write_array_header_1_0(member, header)
                for some in values:
                    member.write(np.ascontiguousarray(some, dtype).tobytes())

        def entries(of: Callable[[Any], NDArray[Any]]) -> Iterator[NDArray[Any]]:
            return (of(block) for block in part.blocks())

        stored = (int(offsets[-1]),)
        add("indices", integers, stored, entries(lambda block: block.indices))
        add("indptr", integers, (len(offsets),), iter([offsets]))
        add("format", "S3", (), iter([np.array(b"csr")]))
        add("shape", np.int64, (2,), iter([np.array(part.shape)]))
        add("data", part.dtype, stored, entries(lambda block: block.data))
