"""The text data of Amazon's DSSTNE, and its index files."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _handles, _items, _native, _options
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["read_index", "write_index"]


def read_index(path: str | os.PathLike[str]) -> NDArray[np.object_]:
    """Reads an index file of DSSTNE: a label, a TAB and the label's number on each line, in any order.

    Args:
        path: Path of the file; it may be compressed with gzip.

    Returns:
        The labels, str, in the order of their numbers: an object array [labels].

    Raises:
        MissingFileError: The file does not exist.
        InvalidDataError: A line is malformed, a label or a number is there twice, or a number is missing; the message
            names the line.
        InputOutputError: The file cannot be read.

    Example:
        >>> import dsstne, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.write_index(f"{folder}/features", ["tea", "milk"])
        ...     dsstne.read_index(f"{folder}/features")
        array(['tea', 'milk'], dtype=object)
    """
    with _options.path_argument(path) as name:
        size = os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202 - of bytes too
        count, length = np.array([size // 4 + 1], np.int64), _native.out_size(size)  # a line has 4 bytes or more
        while True:
            offsets, text = np.empty(int(count[0]) + 1, np.int64), np.empty(length.contents.value, np.uint8)
            room = int(count[0]), length.contents.value
            _native.call("index_read", name, count, offsets, length, text if len(text) else None)
            if int(count[0]) <= room[0] and length.contents.value <= room[1]:
                offsets, text = offsets[: int(count[0]) + 1], text[: length.contents.value]
                return _items.decode_names(text, offsets, "text", "labels")


def write_index(path: str | os.PathLike[str], labels: Sequence[str] | ArrayLike) -> None:
    r"""Writes an index file of DSSTNE, such as the names of the columns or rows of a text.

    The old file, if there is one, stays complete until the new one is on the disk.

    Args:
        path: Path of the file.
        labels: Labels in the order of their numbers, all different; integers are written as text. A label has no TAB,
            newline, colon or comma.

    Raises:
        InvalidArgumentError: A label is there twice, or cannot be in such a file.
        InputOutputError: The file cannot be written.

    Example:
        >>> import dsstne, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.write_index(f"{folder}/features", ["tea", "milk"])
        ...     pathlib.Path(folder, "features").read_text()
        'tea\t0\nmilk\t1\n'
    """
    text, offsets, _ = _items.encode_names(labels, "labels")
    with _options.path_argument(path) as name:
        _native.call("index_write", name, len(offsets) - 1, offsets, text if len(text) else None)


def open_text(paths: Any, features: Any, samples: Any, options: dict[str, Any]) -> _handles.Handle:
    """Reads a text; see :meth:`dsstne.Dataset.from_text`."""
    listed: list[Any] = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else _checks.several(paths, "paths")
    names = [_options.path_bytes(path) for path in listed]
    indexes: list[Any] = []
    for labels, what in ((features, "features"), (samples, "samples")):
        text, offsets, _ = (None, None, "") if labels is None else _items.encode_names(labels, what)
        indexes += [
            0 if offsets is None else len(offsets) - 1,
            offsets,
            text if text is not None and len(text) else None,
        ]
    for key, what in (("new_features", features), ("new_samples", samples)):
        if what is None and options[key] != "drop":
            raise InvalidArgumentError(f"{key} is for labels beside those of {key[4:]}=, which is not given")
    arguments = (_native.texts(names), len(names), _options.to_json(options), *indexes)
    return _handles.Handle("dataset_read_text", *arguments, slow=True, cancels=True)


class Lent:
    """Arrays that belong to the engine, as NumPy views; the views keep the dataset open.

    Args:
        handle: The dataset.
        info: What ``dataset_info`` says about it.
    """

    def __init__(self, handle: _handles.Handle, info: dict[str, Any]) -> None:
        owner = _Owner(handle)
        self._owner = weakref.ref(owner)
        entries, bits = info["non_zeros"], info["value_bits"]
        self.arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None] | None = (
            owner.view(info["offsets"], info["rows"] + 1, f"=i{info['offset_bits'] // 8}"),
            owner.view(info["indices"], entries, "=i4"),
            owner.view(info["values"], entries, "=f4") if bits else None,
        )

    def forget(self) -> None:
        """Drops the views of this object."""
        self.arrays = None

    @property
    def is_viewed(self) -> bool:
        """Whether a view is left."""
        return self._owner() is not None


class _Owner:
    """What views of a dataset's arrays refer to."""

    def __init__(self, handle: _handles.Handle) -> None:
        self.handle = handle

    def view(self, address: int | None, n: int, kind: str) -> NDArray[Any]:
        if not address or not n:
            return np.empty(0, kind)
        return np.asarray(_Interface(self, address, n, kind))


class _Interface:
    def __init__(self, owner: _Owner, address: int, n: int, kind: str) -> None:
        self.owner = owner
        typestr = np.dtype(kind).str
        self.__array_interface__ = {"data": (address, True), "shape": (n,), "typestr": typestr, "version": 3}
