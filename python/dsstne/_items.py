"""Names of items or rows as two arrays: their concatenated UTF-8 bytes and the offset of each name."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne.errors import CorruptFileError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DIGEST = re.compile(r"(0|[1-9][0-9]{0,17}) [0-9a-f]{64}")


def encode_names(names: Any, what: str = "items") -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    """Returns the bytes, ``len(names) + 1`` offsets, and the kind of the names, ``"text"`` or ``"integer"``."""
    if isinstance(names, (set, frozenset)):
        raise InvalidArgumentError(f"{what} is a set, which has no order; give a list, in the order of the matrix")
    listed = _checks.several(names.tolist() if isinstance(names, np.ndarray) else names, what)
    integers = bool(listed) and all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in listed)
    encoded = []
    for position, name in enumerate(listed):
        if not integers and not isinstance(name, str):
            raise InvalidArgumentError(
                f"{what}[{position}] is {_checks.shown(name)}; names must all be str or all be int"
            )
        if integers and not -(1 << 63) <= name < 1 << 63:
            raise InvalidArgumentError(
                f"{what}[{position}] is {_checks.shown(name)}, which does not fit in 64 bits; give it as a str"
            )
        try:
            encoded.append(str(name).encode())
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{what}[{position}] is {_checks.shown(name)}, which is not valid Unicode: {error}"
            ) from None
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(name) for name in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets, "integer" if integers else "text"


def digest_of_encoded(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> str:
    """Returns the digest of names: their number, a blank, and the SHA-256 of the offsets and the bytes in hexadecimal.

    docs/dataset-file.md and docs/dsstne-commands.md say so, too; the record of a dataset file has the same SHA-256.
    """
    digest = hashlib.sha256(np.ascontiguousarray(offsets, "<i8").data)
    digest.update(text.data)
    return f"{len(offsets) - 1} {digest.hexdigest()}"


def digest_of(labels: Sequence[Any] | NDArray[Any]) -> str:
    """Returns the digest of labels, of which integers are text, without encoding them one by one."""
    texts = [label if type(label) is str else str(label) for label in labels]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
    whole = "".join(texts)
    text = np.frombuffer(whole.encode(), np.uint8)
    if not whole.isascii():  # a character has several bytes, of which all but the first begin with the bits 10
        begins = np.flatnonzero((text & 0xC0) != 0x80)
        offsets = np.append(begins, len(text))[offsets]
    return digest_of_encoded(text, offsets)


def is_digest(text: Any) -> bool:
    """Reports whether something is a digest of names."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def number_of(digest: str) -> int:
    """Returns the number of names of which something is the digest."""
    return int(digest.partition(" ")[0])


def same_names(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Reports whether names are equal; integers equal their text, as which files of datasets have them."""
    if (left.dtype.kind in "iu") == (right.dtype.kind in "iu"):
        return np.array_equal(left, right)
    return left.shape == right.shape and list(map(str, left.tolist())) == list(map(str, right.tolist()))


def first_difference(given: NDArray[Any], known: NDArray[Any]) -> tuple[int, str, str] | None:
    """Returns the first place where as many names differ, and both names for a message; None where none do."""
    if same_names(given, known):
        return None
    pairs = enumerate(zip(given.tolist(), known.tolist(), strict=True))
    return next((at, _checks.shown(a), _checks.shown(b)) for at, (a, b) in pairs if str(a) != str(b))


def row_difference(given: NDArray[Any], known: NDArray[Any]) -> tuple[int, str, str] | None:
    """As :func:`first_difference`; the numbers 0, 1, ... of Interactions without names do not differ from strings."""
    for one, other in ((given, known), (known, given)):
        if one.dtype.kind in "iu" and other.dtype.kind not in "iu" and np.array_equal(one, np.arange(len(one))):
            return None
    return first_difference(given, known)


def check_integers(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    """Raises a ValueError if names that should be integers are not; decoding a million names would take a second."""
    begins, lengths = offsets[:-1], np.diff(offsets)
    may_be_minus = np.zeros(len(text), bool)
    may_be_minus[begins[lengths > 1]] = True  # a digit must follow
    is_right = ((text >= ord("0")) & (text <= ord("9"))) | (may_be_minus & (text == ord("-")))
    if not (is_right.all() and lengths.all()):
        raise ValueError("the names of the items are not all integers")
    long = np.flatnonzero(lengths > len("-") + 17)
    if any(abs(int(text[offsets[i] : offsets[i + 1]].tobytes())) > 1 << 62 for i in long.tolist()):
        decode_names(text, offsets, "integer")


def decode_names(text: NDArray[np.uint8], offsets: NDArray[np.int64], kind: str, what: str = "items") -> NDArray[Any]:
    """Returns the names as an object array of str, or as int64; the inverse of :func:`encode_names`."""
    whole = text.tobytes()
    try:
        names = [whole[a:b].decode() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        return np.array(names, np.int64) if kind == "integer" else np.array(names, object)
    except (ValueError, OverflowError) as error:
        raise CorruptFileError(f"the names of the {what} are damaged: {error}") from None
