"""Texts of the Extreme Classification Repository, which hold the features and the labels of samples.

The first line has the numbers of samples, features and labels. Each other line is a sample: its labels with commas
between them, and its features, each a number, a colon and a value. Labels and features are counted from 0.
"""

from __future__ import annotations

import re
from itertools import islice, repeat
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne._commands import matrixfiles, parts, sources
from dsstne._commands.sources import Source
from dsstne.errors import CorruptFileError, InvalidDataError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from dsstne._commands.parts import Part

_BLOCK = 1 << 23  # bytes of lines that are read at once
_NUMBER = rb"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_LINE = re.compile(rb"(?P<labels>[0-9]+(?:,[0-9]+)*(?= |$))?(?P<features>(?: *[0-9]+:%b(?= |$))*) *" % _NUMBER)
_WORDS = {
    "not_extreme": "expected labels with commas between them, and then features such as 7:0.5",
    "no_such_label": "a label is beyond those that the first line counts",
    "no_such_feature": "a feature is beyond those that the first line counts",
    "not_finite": "a value is too large for float32",
}


class _Tally:
    """The malformed lines of a text."""

    def __init__(self, path: str, is_error: bool) -> None:
        self._path, self._is_error = path, is_error
        self.malformed: dict[str, dict[str, Any]] = {}

    def add(self, kind: str, line: int, column: int = 1) -> None:
        if self._is_error:
            raise InvalidDataError(f"{self._path}, line {line:,}, column {column:,}: {_WORDS[kind]}")
        place = {"file": self._path, "line": line, "column": column}
        self.malformed.setdefault(kind, {"lines": 0, "first": place})["lines"] += 1


class _Growing:
    """A matrix that grows by rows."""

    def __init__(self, columns: int, dtype: Any) -> None:
        self.columns, self._dtype = columns, dtype
        self._indices = [np.empty(0, np.int32)]
        self._values = [np.empty(0, dtype)]
        self._counts = [np.zeros(1, np.int64)]  # of which the first is the offset of the first row

    def add(self, counts: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]) -> None:
        self._counts.append(counts)
        self._indices.append(indices.astype(np.int32))
        self._values.append(values.astype(self._dtype))

    @property
    def nbytes(self) -> int:
        """Bytes while the whole matrix is made."""
        return 2 * sum(array.nbytes for arrays in (self._indices, self._values, self._counts) for array in arrays)

    def matrix(self) -> Any:
        offsets = np.cumsum(np.concatenate(self._counts))
        self._counts.clear()
        indices = np.concatenate(self._indices)
        self._indices.clear()
        values = np.concatenate(self._values)
        return scipy.sparse.csr_array((values, indices, offsets), shape=(len(offsets) - 1, self.columns))


def read(path: str, given: Namespace, wanted: Collection[str]) -> dict[str, Source]:
    """Reads the wanted ones of "features" and "labels" of a text, which may be compressed with gzip.

    If both are wanted and there are none of one of them, it is left out.
    Features have values of float32. Malformed lines are skipped, or with ``--malformed error`` are errors.

    Raises:
        InvalidDataError: A number of the first line is too large or 0, or a line is malformed; the message names the
            place.
        CorruptFileError: The file does not have as many samples as its first line says, or is damaged.
    """
    tally = _Tally(path, given.malformed == "error")
    with sources.opened(path) as file:
        rows, features, labels = map(int, file.readline().split())
        if max(features, labels) >= 1 << 31:
            raise InvalidDataError(f"{path}, line 1: dsstne has at most 2,147,483,647 features and labels")
        made = {"features": _Growing(features, np.float32), "labels": _Growing(labels, bool)}
        line = 1  # number of the last line that was read
        while lines := file.readlines(_BLOCK):
            last = line + len(lines)
            while lines and last - 1 > rows and not lines[-1].strip():  # empty lines at the end
                lines.pop()
                last -= 1
            _add(lines, line + 1, made, wanted, tally)
            line = last
            parts.need(given, path, sum(one.nbytes for one in made.values()))
    if line - 1 != rows:
        raise CorruptFileError(
            f"{path}: the first line says {sources.counted(rows, 'sample')}, and {sources.counted(line - 1, 'line')} "
            "follow; the file is not complete, or its first line belongs to another one"
        )
    text = {"repeated_samples": 0, "unknown_features": 0, "unknown_samples": 0, "malformed": tally.malformed}
    findings = sources.findings(path, text)
    there = [name for name in made if name in wanted and (made[name].columns or len(wanted) == 1)]
    for name in there or wanted:
        if not made[name].columns:
            raise InvalidDataError(f"{path}: the first line says that there are no {name}")
    return {name: Source(made[name].matrix(), findings=findings) for name in there}


def _add(lines: list[bytes], first: int, made: dict[str, _Growing], wanted: Collection[str], tally: _Tally) -> None:
    """Adds samples to the matrices; ``first`` is the number of the first line."""
    at: list[int] = []
    texts: dict[str, list[bytes]] = {"features": [], "labels": []}
    for number, line in enumerate(lines, first):
        stripped = line.rstrip(b"\r\n")
        found = _LINE.match(stripped)
        if found is None or found.end() != len(stripped):
            tally.add("not_extreme", number, (0 if found is None else found.end()) + 1)
            continue
        at.append(number)
        texts["labels"].append(found["labels"] or b"")
        texts["features"].append(found["features"])
    counts = {
        "labels": np.array([text.count(b",") + bool(text) for text in texts["labels"]], np.int64),
        "features": np.array([text.count(b":") for text in texts["features"]], np.int64),
    }
    entries = {
        "labels": (_numbers(b" ".join(filter(None, texts["labels"])).replace(b",", b" ")), None),
        "features": _pairs(_numbers(b" ".join(texts["features"]).replace(b":", b" "))),
    }
    kept = np.ones(len(at), bool)
    for name, kind in (("labels", "no_such_label"), ("features", "no_such_feature")):
        columns, values = entries[name]
        places = np.repeat(np.arange(len(at)), counts[name])
        bad = {kind: columns >= made[name].columns}
        if values is not None:
            bad["not_finite"] = ~np.isfinite(values)
        for kind, which in bad.items():
            for place in np.unique(places[which]).tolist():
                if kept[place]:
                    tally.add(kind, at[place])
                kept[place] = False
    for name in wanted:
        columns, values = entries[name]
        chosen = np.repeat(kept, counts[name])
        ones = np.ones(len(columns), bool)
        made[name].add(counts[name][kept], columns[chosen], (ones if values is None else values)[chosen])


def _numbers(text: bytes) -> NDArray[np.float64]:
    """Returns the numbers of a text with spaces between them."""
    return np.fromstring(text, np.float64, sep=" ") if text.strip() else np.empty(0)


def _pairs(flat: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Divides columns and values that follow one another."""
    with np.errstate(over="ignore"):
        return flat[::2], flat[1::2].astype(np.float32)


def write(file: IO[bytes], features: Part | None, labels: Part | None) -> None:
    """Writes features, labels or both; entries of labels have no values, and a zero is not a label."""
    rows = next(part.shape[0] for part in (features, labels) if part is not None)
    sizes = [0 if part is None else part.shape[1] for part in (features, labels)]
    file.write(f"{rows} {sizes[0]} {sizes[1]}\n".encode())
    heads = _heads(labels, rows)
    if features is None:
        file.write("".join(f"{head}\n" for head in heads).encode())
        return
    for block in features.blocks():
        columns, of_columns = matrixfiles.decimals(block.indices)
        values, of_values = matrixfiles.decimals(block.data)
        pieces = ([f"{column}:" for column in columns], of_columns), (values, of_values)
        file.write(matrixfiles.lines(block.indptr, list(islice(heads, block.shape[0])), " ", *pieces))


def _heads(part: Part | None, rows: int) -> Iterator[str]:
    """Yields the labels of each sample, as lines begin with them."""
    if part is None:
        yield from repeat(" ", rows)
        return
    for block in part.blocks():
        block.eliminate_zeros()
        text = matrixfiles.lines(block.indptr, [""] * block.shape[0], ",", matrixfiles.decimals(block.indices))
        yield from (f"{labels} " for labels in text.decode().split("\n")[:-1])
