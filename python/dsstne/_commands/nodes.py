"""Node filters of ``dsstne predict``: texts with a feature, or a feature, a comma and a value, on each line."""

from __future__ import annotations

import errno
import os
import re
from typing import Any

import numpy as np

from dsstne._commands import sources
from dsstne.errors import InputOutputError, InvalidDataError

# A decimal number, as it is in the texts that the engine reads.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LINE = "a node filter has a feature, or a feature, a comma and a value, on each line"


def read(path: str, known: set[str], malformed: str) -> tuple[dict[str, float], str]:
    """Reads a node filter.

    Args:
        path: The file; it may be compressed with gzip.
        known: The labels of the items.
        malformed: "skip" or "error".

    Returns:
        The value of each listed item, 0 where the text has none; of an item that is there again the last one. And what
        the reading found, "" if nothing.

    Raises:
        InvalidDataError: A line is malformed, or all of them are.
        CorruptFileError: A compressed file is damaged.
        InputOutputError: The file cannot be read.
    """
    if sources.kind_of(path) != "text":
        raise InvalidDataError(f"{path}: expected a text; {_LINE}")
    if not os.path.isfile(path):  # noqa: PTH113 - a folder or a pipe
        what = "it is a folder" if os.path.isdir(path) else "it is not a regular file"  # noqa: PTH112
        raise InputOutputError(f"{path}: {what}; {_LINE}", errno.EINVAL, path)
    found: dict[str, float] = {}
    bad: dict[str, dict[str, Any]] = {}
    unknown = lines = 0
    try:
        with sources.opened(path) as file:
            for number, line in enumerate(file, 1):
                text = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).removesuffix(b"\n")
                text = text.removesuffix(b"\r")
                if not text:
                    continue
                lines += 1
                label, value, kind = _parsed(text)
                if kind:
                    if malformed == "error":
                        raise InvalidDataError(
                            f"{path}, line {number:,}: the line has {sources.MALFORMED[kind]}; {_LINE}"
                        )
                    first = {"file": path, "line": number, "column": 1}
                    bad.setdefault(kind, {"lines": 0, "first": first})["lines"] += 1
                elif label in known:
                    found[label] = value
                else:
                    unknown += 1
    except OSError as error:
        if isinstance(error, InputOutputError):
            raise
        raise InputOutputError(f"{path}: {error.strerror or error}", error.errno or 0, path) from None
    findings = sources.findings(path, {"malformed": bad, "unknown_features": unknown})
    if lines and lines == sum(kind["lines"] for kind in bad.values()):
        raise InvalidDataError(f"{findings}. That is all lines; {_LINE}")
    return found, findings


def _parsed(line: bytes) -> tuple[str, float, str]:
    """Reads a line: the label, the value, and what is wrong ("" if nothing), a key of ``sources.MALFORMED``."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return "", 0.0, "not_utf8"
    label, comma, number = text.partition(",")
    kind = ""
    if "\t" in text:
        kind = "tab"
    elif ":" in text:
        kind = "colon"
    elif "," in number:
        kind = "several_values"
    elif not label:
        kind = "empty_feature"
    elif comma and not _NUMBER.fullmatch(number):
        kind = "not_finite" if _NOT_FINITE.fullmatch(number) else "not_a_number"
    if kind or not comma:
        return label, 0.0, kind
    with np.errstate(over="ignore"):
        value = float(np.float32(number))
    return label, value, "" if np.isfinite(value) else "not_finite"
