"""Lists of names, which are strings or integers, and the numbers of names in them."""

from __future__ import annotations

import difflib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

UNKNOWN = ("raise", "warn", "skip")  # what to do about an unknown name
_MOST_COMPARED = 50_000  # names that are compared with a misspelt one; comparing a million takes many seconds


def check_word(value: Any, name: str, known: Sequence[str]) -> None:
    if _checks.text(value, name) not in known:
        words = ", ".join(map(repr, known))
        raise InvalidArgumentError(f"{name} must be one of {words}, not {_checks.shown(value)}")


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Returns names as an array of strings or integers."""
    if isinstance(values, (set, frozenset)):
        raise InvalidArgumentError(f"{name} is a set, which has no order; give a list")
    array = values if isinstance(values, np.ndarray) else np.array(_checks.several(values, name), object)
    if array.ndim == 1 and array.dtype.kind in "iuU":
        return array
    kinds = set(map(type, array.tolist())) if array.ndim == 1 else {None}
    if len(kinds) > 1 or not kinds <= {str, int}:
        raise InvalidArgumentError(f"{name} must be a list of strings or of integers, not {_checks.shown(values)}")
    try:
        return array.astype(np.int64) if array.dtype == object and kinds == {int} else array
    except OverflowError:
        raise InvalidArgumentError(f"{name} has integers that do not fit in 64 bits") from None


def listed(names: Any) -> list[Any]:
    return [names] if _is_name(names) else _checks.several(names, "names")


def known_numbers(names: Any, known: NDArray[Any], what: str, unknown: str) -> NDArray[np.int64]:
    found = numbers_of(listed(names), known, what, unknown)
    return found[found >= 0]


def numbers_of(
    names: Sequence[Any], known: NDArray[Any], what: str, unknown: str, *, stacklevel: int = 4
) -> NDArray[np.int64]:
    """Returns the numbers of names; an unknown one has the number -1, raises an error, or gives a warning.

    The warning points to the caller of the public function, by default two calls above this one.
    """
    check_word(unknown, "unknown", UNKNOWN)
    number = {name: i for i, name in enumerate(known.tolist())}
    found = np.array([number.get(name, -1) if _is_name(name) else -1 for name in names], np.int64)
    missing = np.flatnonzero(found < 0)
    if not len(missing) or unknown == "skip":
        return found
    name = names[missing[0]]
    near = difflib.get_close_matches(name, number, n=1) if _may_be_compared(name, number) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    more = f"; {len(missing):,} of {len(names):,} names are unknown" if len(missing) > 1 else ""
    text = f"no {what} is named {_checks.shown(name)}{hint}{more}"
    if unknown == "raise":
        raise NotFoundError(text)
    warnings.warn(f"{text}; left out", UserWarning, stacklevel=stacklevel)
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _may_be_compared(name: Any, known: dict[Any, int]) -> bool:
    """Reports whether a misspelt name is a str as the known ones, which are not too many to look at."""
    return isinstance(name, str) and len(known) <= _MOST_COMPARED and all(isinstance(n, str) for n in known)
