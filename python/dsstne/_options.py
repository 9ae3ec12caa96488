"""Encodes options as JSON and names as UTF-8 for C; refuses values that these cannot represent."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dsstne import _checks
from dsstne.errors import InputOutputError, InvalidArgumentError, MissingFileError


def to_json(options: Mapping[str, Any]) -> bytes:
    """Encodes options as JSON, NumPy numbers included; leaves out entries that are None. Nothing left: an empty text.

    Raises:
        InvalidArgumentError: A value is not finite, or JSON does not support its type.
    """
    try:
        plain = _plain(options, "")
    except RecursionError:
        raise InvalidArgumentError("options are nested too deeply, or contain themselves") from None
    return _encode(plain).encode() if plain else b""


_encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make one for each call


_LARGEST = 1024  # bits of an integer, which a float does not exceed either


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, str):
        return _unicode(value, where)
    if isinstance(value, int) and value.bit_length() > _LARGEST:
        raise InvalidArgumentError(f"{where}: an integer of {value.bit_length():,} bits is too large")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        pairs = ((_unicode(str(key), where), item) for key, item in value.items() if item is not None)
        return {key: _plain(item, f"{where}.{key}" if where else key) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{n}]") for n, item in enumerate(value)]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a NumPy scalar
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgumentError(f"{where}: {value} is not a finite number")
    if isinstance(value, (str, bool, int, float)):
        return value
    kind = type(value).__name__
    raise InvalidArgumentError(f"{where}: {_checks.shown(value)} is a {kind}; expected a number, a str or a bool")


def _unicode(text: str, where: str) -> str:
    """Returns the text; JSON would represent lone surrogates, which the engine would replace."""
    try:
        return text if text.isascii() else text.encode().decode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{where}: {_checks.shown(text)} is not valid Unicode: {error}") from None


def text_argument(text: str, what: str) -> bytes:
    """Encodes a str for C.

    Raises:
        InvalidArgumentError: It contains a NUL character, which would end it in C.
    """
    if "\0" in text:
        raise InvalidArgumentError(f"{what} {_checks.shown(text)} contains a NUL character")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} {_checks.shown(text)} is not valid Unicode: {error}") from None


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """Encodes the path of a file for C, as ``open`` does."""
    try:
        name = os.fsencode(path)
    except TypeError:
        raise InvalidArgumentError(f"path must be a str or a path, not {_checks.shown(path)}") from None
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"path {_checks.shown(path)} cannot be the name of a file: {error}") from None
    if b"\0" in name:
        raise InvalidArgumentError(f"path {_checks.shown(path)} contains a NUL character")
    return name


@contextmanager
def path_argument(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Does as :func:`path_bytes`, and names the file in errors of the block."""
    name = path_bytes(path)
    try:
        yield name
    except (InputOutputError, MissingFileError) as error:
        error.filename = os.fspath(path)
        raise
