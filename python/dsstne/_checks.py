"""Checks of argument types; errors name the parameter. The engine checks most ranges."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def integer(value: Any, name: str, least: int | None = None) -> int:
    """Returns an integer (also one of NumPy, but not a bool) as an int: of 64 bits, and at least ``least``."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise InvalidArgumentError(f"{name} must be an integer, not {shown(value)}")
    if least is not None and number < least:
        raise InvalidArgumentError(f"{name} must be at least {least}, not {shown(number)}")
    if number.bit_length() > 63:
        raise InvalidArgumentError(f"{name} must be an integer of 64 bits, not {shown(number)}")
    return number


def boolean(value: Any, name: str) -> bool:
    """Returns True or False, also one of NumPy, as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidArgumentError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def is_number(value: Any) -> bool:
    """Reports whether a value is an integer or a float, also one of NumPy; a bool and a duration are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))


def positive(value: Any, name: str) -> float:
    """Returns a number as a float; it must be above 0."""
    if not is_number(value):
        raise InvalidArgumentError(f"{name} must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if not number > 0:
        raise InvalidArgumentError(f"{name} must be above 0, not {shown(value)}")
    return number


def duration(value: Any, name: str) -> float:
    """Returns seconds as a float; they must be above 0 and finite."""
    number = positive(value, name)
    if math.isinf(number):
        raise InvalidArgumentError(f"{name} must be finite, not {shown(value)}")
    return number


def text(value: Any, name: str) -> str:
    """Returns the value, which must be a str."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a str, not {shown(value)}")
    return value


def kind(value: Any, name: str, example: str) -> dict[str, Any]:
    """Returns an option as a dict of ``kind`` and its parameters; a str is the kind without parameters."""
    if isinstance(value, str):
        return {"kind": value}
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{name} must be a str such as {example!r} or a mapping, not {shown(value)}")
    return dict(value)


def is_mapping(value: Any) -> bool:
    """Reports whether a value is a mapping; SciPy's ``dok`` matrices, which are dicts too, are not."""
    return isinstance(value, Mapping) and not scipy.sparse.issparse(value)


def several(value: Any, name: str, wanted: str = "a list") -> list[Any]:
    """Returns the elements of a list or another iterable; refuses str, bytes, mappings and matrices of SciPy."""
    is_iterable = isinstance(value, Iterable) and getattr(value, "shape", None) != ()
    if isinstance(value, (str, bytes, Mapping)) or not is_iterable or scipy.sparse.issparse(value):
        raise InvalidArgumentError(f"{name} must be {wanted}, not {shown(value)}")
    return list(value)


def labels(values: Any, name: str) -> list[str]:
    """Returns the elements of a list or another iterable as str; refuses elements that have elements themselves."""
    listed = several(values, name, "a list of labels")
    for place, label in enumerate(listed):
        if isinstance(label, Iterable) and not isinstance(label, str):
            raise InvalidArgumentError(f"{name}[{place}] must be a str or a number, not {shown(label)}")
    return [str(label) for label in listed]


def array(values: Any) -> NDArray[Any]:
    """Converts values to an array; lists of different lengths become an object array without dimensions."""
    if np.ma.is_masked(values):
        raise InvalidArgumentError("an array has masked values; say what they are, as in values.filled(0)")
    try:
        return np.asarray(values)
    except (TypeError, ValueError):  # also of Interactions, which are no sequence
        return np.asarray(None)


def shown(value: Any) -> str:
    """Returns the repr of a value for a message, in one line and shortened to 80 characters."""
    try:
        whole = repr(value)
    except Exception:  # of an object of the caller, or an integer with too many digits for Python
        whole = f"a {type(value).__name__}"
    whole = " ".join(whole.split()) if "\n" in whole else whole
    return whole if len(whole) <= 80 else whole[:77] + "..."
