"""Files of Matrix Market (.mtx), which have an entry on each line: its row, its column and its value.

SciPy 1.17 ends the process when it looks into some open files of this kind, so they are read here.
"""

from __future__ import annotations

import gzip
import math
import os
import warnings
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dsstne._commands import matrixfiles, parts, sources
from dsstne.errors import CorruptFileError, InvalidDataError, UnsupportedError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dsstne._commands.parts import Part

_BLOCK = 1 << 23  # bytes of lines that are read at once
_INFLATION = 1032  # bytes that gzip makes of one at most
_WORDS = (
    ("matrix",),
    ("coordinate", "array"),
    ("real", "double", "integer", "unsigned-integer", "pattern"),
    ("general", "symmetric", "skew-symmetric"),
)


class _Header(NamedTuple):
    """The first lines of a file, up to the one with its sizes."""

    layout: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int
    line: int

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return bool if self.field == "pattern" else np.int64 if "integer" in self.field else np.float64


def read(path: str, given: Namespace) -> Any:
    """Reads a file, which may be compressed with gzip; a symmetric matrix is completed.

    Raises:
        InvalidDataError: A line is malformed, or names a row or column beyond the matrix; the message names the line.
        CorruptFileError: The file has fewer or more entries than it says, or is damaged.
        UnsupportedError: It holds complex numbers, or another thing than a matrix.
    """
    with sources.opened(path) as file:
        header = _header(file, path)
        most = os.path.getsize(path) * (_INFLATION if isinstance(file, gzip.GzipFile) else 1)  # noqa: PTH202
        if header.entries > most // 2:  # a line has two bytes or more
            raise CorruptFileError(
                f"{path}, line {header.line}: the file cannot have {header.entries:,} entries; it is too short"
            )
        mirrored = 1 if header.symmetry == "general" else 2
        # Rows, columns and values, and then the columns and values in the order of the rows.
        parts.need(given, path, header.entries * mirrored * 28 + header.shape[0] * 16)
        return (_coordinates if header.layout == "coordinate" else _dense)(file, path, header)


def _header(file: IO[bytes], path: str) -> _Header:
    words = file.readline(1 << 10).decode("utf-8", "replace").lower().split()
    known = ["%%matrixmarket", *words[1:5]]
    for word, expected in zip(words[1:], _WORDS, strict=False):
        if word not in expected:
            raise UnsupportedError(f"{path}, line 1: {word!r} is not supported; expected {' or '.join(expected)}")
    number, line = 1, b"%"
    while line.startswith(b"%") or (line and not line.strip()):
        number, line = number + 1, file.readline(1 << 20)
    try:
        sizes = list(map(int, line.split()))
    except ValueError:
        sizes = []
    is_sparse = known[2:3] == ["coordinate"]
    if len(words) != 5 or len(sizes) != (3 if is_sparse else 2) or min(sizes) < 0:
        expected_sizes = "rows, columns and entries" if is_sparse else "rows and columns"
        raise CorruptFileError(f"{path}, line {number}: expected the numbers of {expected_sizes}")
    if max(sizes[:2]) >= 1 << 31:
        raise InvalidDataError(
            f"{path}, line {number}: dsstne reads at most 2,147,483,647 rows and columns from such files"
        )
    if not is_sparse and (words[4] != "general" or words[3] == "pattern"):
        raise UnsupportedError(
            f"{path}, line 1: an array that is {words[3]} and {words[4]} is not supported; use coordinate"
        )
    if words[4] != "general" and sizes[0] != sizes[1]:
        raise InvalidDataError(f"{path}: a matrix of {sizes[0]:,} x {sizes[1]:,} cannot be {words[4]}")
    entries = sizes[2] if is_sparse else math.prod(sizes)
    return _Header(words[2], words[3], words[4], (sizes[0], sizes[1]), entries, number)


def _blocks(file: IO[bytes], path: str, header: _Header, width: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yields numbers [lines, width], and the number of the first line of each block.

    Raises:
        InvalidDataError: A line does not have as many numbers.
    """
    dtype = np.int64 if header.dtype is not np.float64 else np.float64
    line, found = header.line, 0
    while lines := file.readlines(_BLOCK):
        first, line = line + 1, line + len(lines)
        used = [text for text in lines if not text.startswith(b"%") and text.strip()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some text is not a number, which the size shows, too
            try:
                numbers = np.fromstring(b"".join(used), dtype, sep=" ") if used else np.empty(0, dtype)
            except ValueError:
                numbers = np.empty(0, dtype)
        if len(numbers) != len(used) * width or any(len(text.split()) != width for text in used):
            _raise_malformed(lines, first, path, header, width)
        found += len(used)
        if found > header.entries:
            break
        yield first, numbers.reshape(-1, width)
    if found != header.entries:
        more = "more" if found > header.entries else f"only {found:,}"
        raise CorruptFileError(f"{path}: line {header.line} says {header.entries:,} entries, and {more} follow")


def _raise_malformed(lines: list[bytes], first: int, path: str, header: _Header, width: int) -> None:
    what = ["row", "column", "value"][:width] if header.layout == "coordinate" else ["value"]
    read = int if header.dtype is not np.float64 else float
    for number, text in enumerate(lines, first):
        words = text.split()
        try:
            is_right = len([*map(int, words[: width - 1]), *map(read, words[width - 1 :])]) == width
        except ValueError:
            is_right = False
        if not is_right and words and not text.startswith(b"%"):
            raise InvalidDataError(f"{path}, line {number:,}: expected {', '.join(what)} as {header.field} numbers")
    raise InvalidDataError(f"{path}: the lines from {first:,} have a number that cannot be read")


def _coordinates(file: IO[bytes], path: str, header: _Header) -> Any:
    width = 2 if header.field == "pattern" else 3
    rows, columns = np.empty(header.entries, np.int32), np.empty(header.entries, np.int32)
    values = np.ones(header.entries, header.dtype)
    at = 0
    for first, numbers in _blocks(file, path, header, width):
        part = slice(at, at + len(numbers))
        for axis, (places, what) in enumerate(((rows, "row"), (columns, "column"))):
            found = numbers[:, axis]
            bad = np.flatnonzero((found != np.floor(found)) | (found < 1) | (found > header.shape[axis]))
            if bad.size:
                number = f"{found[bad[0]]:g}" if found.dtype.kind == "f" else f"{found[bad[0]]:,}"
                raise InvalidDataError(
                    f"{path}: entry {at + int(bad[0]) + 1:,} (near line {first + int(bad[0]):,}) has the {what} "
                    f"{number}; {what}s are from 1 to {header.shape[axis]:,}"
                )
            places[part] = found - 1
        if width == 3:
            values[part] = _checked(numbers[:, 2], path)
        at += len(numbers)
    if header.symmetry != "general":
        other = rows != columns
        sign = -1 if header.symmetry == "skew-symmetric" else 1
        mirror = values[other] if sign == 1 else -values[other]
        rows, columns = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
        values = np.concatenate([values, mirror])
    return scipy.sparse.coo_array((values, (rows, columns)), shape=header.shape).tocsr()


def _checked(values: NDArray[Any], path: str) -> NDArray[Any]:
    """Returns values after a look at the bounds of integers, at which reading ends."""
    limits = np.iinfo(np.int64)
    if values.dtype == np.int64 and np.isin([limits.min, limits.max], values).any():
        raise InvalidDataError(f"{path}: a value is an integer that does not fit in 64 bits")
    return values


def _dense(file: IO[bytes], path: str, header: _Header) -> Any:
    """Reads the columns of an array, one after the other."""
    blocks = [_checked(numbers[:, 0], path) for _, numbers in _blocks(file, path, header, 1)]
    values = np.concatenate([*blocks, np.empty(0, header.dtype)])
    return scipy.sparse.csr_array(values.reshape(header.shape[::-1]).T)


def write(file: IO[bytes], part: Part) -> None:
    """Writes a matrix in the coordinate form, row by row."""
    is_pattern = part.dtype.kind == "b"
    field = "pattern" if is_pattern else "integer" if part.dtype.kind in "iu" else "real"
    rows, columns = part.shape
    header = f"%%MatrixMarket matrix coordinate {field} general\n{rows} {columns} {int(part.counts().sum())}\n"
    file.write(header.encode())
    first = 1  # lines count rows and columns from 1
    for block in part.blocks():
        n = len(block.data)
        numbers = list(map(str, range(first, first + block.shape[0])))
        pieces = [(numbers, np.repeat(np.arange(block.shape[0]), np.diff(block.indptr)))]
        for values in [block.indices + np.int64(1), *([] if is_pattern else [block.data])]:
            texts, places = matrixfiles.decimals(values)
            pieces.append(([f" {text}" for text in texts], places))
        end = ["\n"], np.zeros(n, np.int64)
        file.write(matrixfiles.lines(np.array([0, n]), [], "", *pieces, end))
        first += block.shape[0]
