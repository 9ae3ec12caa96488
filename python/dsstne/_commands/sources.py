"""Data files of commands, which are told apart by their content: NetCDF-4, the files of Dataset.save, or text."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne import _netcdf_file
from dsstne.dataset import Dataset
from dsstne.errors import InputOutputError, MissingFileError

if TYPE_CHECKING:
    from argparse import Namespace

# What is wrong with a line of each kind of dataset.info["text"]["malformed"].
_MALFORMED = {
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
}


class Source(NamedTuple):
    """A matrix of a file.

    Attributes:
        matrix: The matrix or Dataset.
        items: Names of the columns; None if the file has none.
        rows: Names of the rows; None if the file has none.
        sample_weight: Weights of the rows, if they have any.
        stored_only: Whether only stored entries count in the loss.
        findings: What the reading of a text found, for the user.
    """

    matrix: Any
    items: Any = None
    rows: Any = None
    sample_weight: Any = None
    stored_only: bool = False
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
    if not os.path.isfile(path):  # noqa: PTH113 - a folder of texts, or a pipe, of which reading would take the beginning
        return "text"
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            is_mapped = file.read(6) == b"ARROW1"
    except OSError as error:
        raise InputOutputError(f"{path}: {error.strerror}", error.errno or 0, path) from None
    return "mapped" if is_mapped else "netcdf" if _netcdf_file.is_netcdf(path) else "text"


def read_text(path: str, given: Namespace, **options: Any) -> Source:
    """Reads a text with the flags of :func:`dsstne._commands.flags.reading`; options as those of Dataset.from_text."""
    data = Dataset.from_text(
        path, on_malformed=given.malformed, threads=given.threads, memory_limit=given.memory_limit, **options
    )
    return Source(data, data.item_names, data.row_names, findings=_findings(path, data.info["text"]))


def read_mapped(path: str) -> Source:
    """Opens a file of Dataset.save."""
    data = Dataset.open(path)
    return Source(data, data.item_names, data.row_names)


def _findings(path: str, text: dict[str, Any]) -> str:
    """Says what was left out of a text, and where the first malformed line of each kind is; "" if nothing was."""
    parts = []
    if skipped := sum(kind["lines"] for kind in text["malformed"].values()):
        kinds = [
            f"{one['lines']:,} with {_MALFORMED.get(kind, kind)} (first: {one['first']['file']}, line "
            f"{one['first']['line']:,}, column {one['first']['column']:,})"
            for kind, one in text["malformed"].items()
        ]
        parts.append(f"skipped {counted(skipped, 'malformed line')}: {', '.join(kinds)}")
    if text["repeated_samples"]:
        parts.append(f"{counted(text['repeated_samples'], 'sample')} repeated, of which the last line counts")
    if text["unknown_features"]:
        parts.append(f"left out {text['unknown_features']:,} entries whose features are not in the index")
    if text["unknown_samples"]:
        parts.append(f"left out {counted(text['unknown_samples'], 'sample')} not in the index")
    return f"{path}: {'; '.join(parts)}" if parts else ""


def counted(n: int, noun: str) -> str:
    """Returns a number with a noun."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
