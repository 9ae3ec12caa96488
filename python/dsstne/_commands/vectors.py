"""Texts of vectors: lines of a key, a delimiter and numbers, which are read block by block."""

from __future__ import annotations

import os
import re
import warnings
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne._commands import sources
from dsstne.errors import InvalidDataError, MissingFileError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_BLOCK = 1 << 22  # bytes of a text that are read at a time
_LONGEST = 1 << 26  # bytes of a line, so that a file without newlines does not fill the memory

_NUMBER = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*", re.ASCII)
_NOT_FINITE = re.compile(r"\s*[-+]?(nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)

# What is wrong with a line of each kind.
_MALFORMED = {
    "no_delimiter": "no delimiter after the key",
    "no_key": "no key",
    "not_a_number": "a value that is not a number",
    "not_finite": "a value that is not finite or too large",
    "not_utf8": "bytes that are not UTF-8",
    "repeated_key": "a key that an earlier line has",
}


class Block(NamedTuple):
    """Some lines of a text.

    Attributes:
        keys: Their keys.
        vectors: Their numbers, float32 [lines, columns].
    """

    keys: list[str]
    vectors: NDArray[np.float32]


def files_of(flag: str, given: Sequence[str]) -> list[str]:
    """Returns the texts that the values of a flag name: files, folders, and lists of them with commas.

    Raises:
        InvalidDataError: A file is not a text, or a folder is empty.
        MissingFileError: There is no such file.
    """
    files: list[str] = []
    for value in given:
        listed = [] if os.path.exists(value) else [path for path in value.split(",") if path]  # noqa: PTH110
        for path in listed or [value]:
            texts = sources.files_of(path)
            if not texts:
                raise InvalidDataError(f"{flag}: the folder {path} has no files")
            for text in texts:
                try:
                    kind = sources.kind_of(text)
                except MissingFileError as error:
                    raise MissingFileError(f"{flag}: {error}", error.errno or 0, text) from None
                if kind != "text":
                    what = "a data file; expected a text, in which each line is a key and a vector"
                    raise InvalidDataError(f"{flag}: {text} is {what}")
            files += texts
    return files


class Reader:
    """Reads texts of vectors.

    A malformed line is skipped and counted, or ends the reading, as ``--malformed`` says. A vector of another length
    always ends it, since it may as well be the others that are wrong.

    Args:
        files: The texts.
        given: The flags.
        columns: Length of the vectors; None = that of the first one.
        distinct: Whether a key that is there again is malformed.
    """

    def __init__(self, files: Sequence[str], given: Namespace, columns: int | None = None, *, distinct: bool) -> None:
        self.columns = columns
        self._files = files
        self._key_end = given.key_val_delim
        # Without a delimiter NumPy splits at any run of blanks.
        self._delimiter = None if given.vec_delim == " " else given.vec_delim
        self._is_strict = given.malformed == "error"
        self._known: set[str] | None = set() if distinct else None
        self._malformed: dict[str, dict[str, Any]] = {}
        self._model = "the vectors of --data-files have" if columns is not None else ""  # what a vector must be like

    def blocks(self) -> Iterator[Block]:
        """Reads the lines in the order of the files.

        Raises:
            InvalidDataError: A line is malformed and ``--malformed`` is "error", a vector has another length, or a
                file is damaged.
            InputOutputError: A file cannot be read.
        """
        for path in self._files:
            with sources.opened(path) as text:
                for first, lines in _lines_of(path, text):
                    block = self._parsed(path, first, lines)
                    if block.keys:
                        yield block

    def findings(self) -> str:
        """Says what was skipped; "" if nothing was."""
        return sources.skipped_lines(self._malformed, _MALFORMED) if self._malformed else ""

    def _parsed(self, path: str, first: int, lines: Sequence[str]) -> Block:
        """Reads lines, of which the first has the number ``first``."""
        numbers, keys, texts = [], [], []
        for number, line in enumerate(lines, first):
            key, end, text = line.partition(self._key_end)
            if not line:
                continue
            if not line.isascii() and (bad := re.search("[\ud800-\udfff]", line)):
                what = "the line is not valid UTF-8; convert the file to UTF-8"
                self._skip("not_utf8", path, number, bad.start(), what)
            elif not end:
                what = f"the line has no {self._key_end!r}; a line is a key, {self._key_end!r} and the numbers"
                self._skip("no_delimiter", path, number, len(line), what)
            elif not key:
                self._skip("no_key", path, number, 0, f"there is no key before the {self._key_end!r}")
            else:
                numbers.append(number)
                keys.append(key)
                texts.append(text)
        rows: list[int] = []
        parts = [np.empty((0, self.columns or 0), np.float32)]
        for start, part in self._numbers(path, numbers, keys, texts):
            rows += range(start, start + len(part))
            parts.append(part)
        vectors = parts[1] if len(parts) == 2 else np.concatenate([part for part in parts if len(part)] or parts)
        if self._known is not None:
            is_new = [self._is_new(path, numbers[row], keys[row]) for row in rows]
            if not all(is_new):
                vectors, rows = vectors[is_new], [row for row, new in zip(rows, is_new, strict=True) if new]
        return Block([keys[row] for row in rows], vectors)

    def _numbers(
        self, path: str, numbers: Sequence[int], keys: Sequence[str], texts: Sequence[str]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Reads vectors; those with a mistake are found by halving, so that NumPy reads all others at once.

        Yields:
            The place of a vector in the lists, and an array of this vector and of some that follow it.
        """
        waiting = [(0, len(texts))] if texts else []
        while waiting:
            begin, end = waiting.pop()
            values = self._tried(texts[begin:end], path, numbers[begin])
            if values is not None:
                yield begin, values
            elif end - begin > 1:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
            else:
                self._examine(path, numbers[begin], len(keys[begin]) + len(self._key_end), texts[begin])

    def _tried(self, texts: Sequence[str], path: str, number: int) -> NDArray[np.float32] | None:
        """Reads vectors; None if there is any mistake."""
        try:
            with warnings.catch_warnings(), np.errstate(over="ignore"):
                warnings.simplefilter("ignore")  # of texts without any number
                values = np.loadtxt(texts, np.float32, comments=None, delimiter=self._delimiter, ndmin=2)
        except ValueError:
            return None
        if len(values) != len(texts) or not np.isfinite(values).all():
            return None
        if self.columns is None:
            self.columns, self._model = values.shape[1], f"{path}, line {number:,} has"
        return values if values.shape[1] == self.columns else None

    def _examine(self, path: str, number: int, start: int, text: str) -> None:
        """Finds out why NumPy does not read a line, and skips or refuses the line.

        Args:
            path: The file.
            number: Number of the line.
            start: Column of the text in the line, from 0.
            text: The line from its first number on.
        """
        pieces = _pieces(text, self._delimiter)
        for at, piece in pieces:
            shown = f"the value {piece[:60]!r}"
            if _NOT_FINITE.fullmatch(piece) or (_NUMBER.fullmatch(piece) and _overflows(piece)):
                what = f"{shown} is not finite or too large for float32"
                self._skip("not_finite", path, number, start + at, what)
                return
            if not _NUMBER.fullmatch(piece):
                what = f"{shown} is not a number; write it as 3, 0.5 or 1e-3"
                self._skip("not_a_number", path, number, start + at, what)
                return
        count, wanted = len(pieces), self.columns
        if count and wanted in (None, count):  # such as a carriage return in the middle of a line
            self._skip("not_a_number", path, number, start, "the line is not a list of numbers")
            return
        at = pieces[wanted][0] if wanted is not None and count > wanted else len(text)
        other = "a line is a key and at least one number" if wanted is None else f"{self._model} {wanted:,}"
        raise InvalidDataError(
            f"{path}, line {number:,}, column {start + at + 1:,}: the vector has {sources.counted(count, 'number')}; "
            f"{other}"
        )

    def _skip(self, kind: str, path: str, number: int, at: int, what: str) -> None:
        """Counts a malformed line, or refuses it."""
        if self._is_strict:
            raise InvalidDataError(f"{path}, line {number:,}, column {at + 1:,}: {what}")
        place = {"file": path, "line": number, "column": at + 1}
        self._malformed.setdefault(kind, {"lines": 0, "first": place})["lines"] += 1

    def _is_new(self, path: str, number: int, key: str) -> bool:
        """Reports whether no line before has the key; a line that repeats one is malformed."""
        if self._known is None:
            return True
        if key in self._known:
            what = f"the key {key[:60]!r} is there already; keys of --data-files must differ"
            self._skip("repeated_key", path, number, 0, what)
            return False
        self._known.add(key)
        return True


def _lines_of(path: str, text: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Reads lines in blocks, each with the number of its first line."""
    rest, number = b"", 1
    while data := text.read(_BLOCK):
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if len(rest) > _LONGEST:
            line = number + whole.count(b"\n") + len(newline)
            raise InvalidDataError(
                f"{path}, line {line:,}: the line has more than {_LONGEST >> 20} MiB; "
                "expected a text, in which each line is a key and a vector"
            )
        if newline:
            lines = _decoded(whole, number)
            yield number, lines
            number += len(lines)
    if rest:
        yield number, _decoded(rest, number)


def _decoded(block: bytes, number: int) -> list[str]:
    """Divides a block into lines; bytes that are not UTF-8 become surrogates."""
    block = block.removeprefix(b"\xef\xbb\xbf") if number == 1 else block
    lines = block.decode("utf-8", "surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in lines] if b"\r" in block else lines


def _pieces(text: str, delimiter: str | None) -> list[tuple[int, str]]:
    """Divides a text at a delimiter, or at blanks, as numpy.loadtxt does, and says where the pieces are."""
    if delimiter is None:
        return [(piece.start(), piece[0]) for piece in re.finditer(r"\S+", text)]
    pieces, at = [], 0
    for piece in text.split(delimiter):
        pieces.append((at, piece))
        at += len(piece) + 1
    return pieces


def _overflows(number: str) -> bool:
    with np.errstate(over="ignore"):
        return not np.isfinite(np.float32(float(number)))
