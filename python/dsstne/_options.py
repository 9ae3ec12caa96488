"""Encodes options as JSON and names as UTF-8 for C; refuses values that these cannot represent."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, MissingFileError


def to_json(options: Mapping[str, Any]) -> bytes:
    """Encodes options as JSON, NumPy numbers included; leaves out entries that are None. Nothing left: an empty text.

    Raises:
        InvalidArgumentError: A value is not finite, or JSON does not support its type.
    """
    plain = _plain(options, "")
    return _encode(plain).encode() if plain else b""


_encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make one for each call


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        pairs = ((str(key), item) for key, item in value.items() if item is not None)
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


def text_argument(text: str, what: str) -> bytes:
    """Encodes a str for C.

    Raises:
        InvalidArgumentError: It contains a NUL character, which would end it in C.
    """
    if "\0" in text:
        raise InvalidArgumentError(f"{what} {text!r} contains a NUL character")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} {text!r} is not valid Unicode: {error}") from None


def path_argument(path: str | os.PathLike[str], must_exist: bool = False) -> bytes:
    """Encodes the path of a file for C.

    Raises:
        MissingFileError: The file must exist but does not.
    """
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise InvalidArgumentError(f"path must be a str or a path, not {_checks.shown(path)}") from None
    name = text_argument(text, "path")
    if must_exist:
        try:
            Path(text).stat()
        except FileNotFoundError:
            raise MissingFileError(f"{text}: no such file") from None
        except OSError:
            pass  # the engine will say what it is
    return name
