"""Files in DSSTNE's command definition language (CDL): JSON that says what ``dsstne encoder`` does, and with what."""

from __future__ import annotations

import errno
import json
import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne._commands.flags import nearest
from dsstne._commands.train import MOMENTS
from dsstne.errors import InputOutputError, InvalidArgumentError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reader = Callable[[Any, str], Any]

_MOST_BYTES = 1 << 20  # of a file; a data file that is given by mistake is not read
_ENDINGS = (".nc", ".dsstne")


class Cdl(NamedTuple):
    """What a file says. A value that it does not give is the default of DSSTNE, or None.

    Attributes:
        command: "train", "predict" or "validate".
        network: Path of the network.
        data: Paths of one data file, or of two: those of inputs and outputs.
        seed: Seed of all random numbers; None = none is given.
        training: Values of ``TrainingParameters`` by their keys in the spelling of :data:`_TRAINING`.
        prediction: Values of ``PredictionParameters``.
    """

    command: str
    network: str
    data: list[str]
    seed: int | None
    training: dict[str, Any]
    prediction: dict[str, Any]


class _Members(list[tuple[str, Any]]):
    """The keys and values of an object, in order, with those that are there twice."""


def read(path: str) -> Cdl:
    """Reads a file.

    Raises:
        MissingFileError: There is no such file.
        InputOutputError: It cannot be read.
        InvalidArgumentError: It has a mistake; the message names the file and the key.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a Path would change "./x"
            text = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise MissingFileError(f"{path}: no such file", error.errno or errno.ENOENT, path) from None
    except OSError as error:
        raise InputOutputError(f"{path}: {error.strerror}", error.errno or 0, path) from None
    return parse(text, path)


def parse(text: bytes, path: str) -> Cdl:
    """Reads the text of a file; the path is for messages, see :func:`read`."""
    try:
        return _checked(_parsed(text))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


def _parsed(text: bytes) -> _Members:
    if len(text) > _MOST_BYTES:
        raise InvalidArgumentError(f"the file has more than {_MOST_BYTES:,} bytes; expected a CDL file, which is JSON")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"byte {error.start:,} is not UTF-8; expected a CDL file, which is JSON") from None
    try:
        found = json.loads(decoded, object_pairs_hook=_Members, parse_int=_integer, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        is_comment = decoded[error.pos :].lstrip()[:2] in ("//", "/*")
        what = "comments are not JSON; remove them" if is_comment else error.msg
        raise InvalidArgumentError(f"line {error.lineno}, column {error.colno}: {what}") from None
    except RecursionError:
        raise InvalidArgumentError("too many lists or objects are inside each other") from None
    if not isinstance(found, _Members):
        raise InvalidArgumentError(f"expected an object with the key Command, got {_shown(found)}")
    return found


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float(digits)  # which Python refuses to read from 4,301 digits on


def _refuse_constant(word: str) -> None:
    raise InvalidArgumentError(f"{word} is not a number of JSON")


def _checked(members: _Members) -> Cdl:
    top = _object(_TOP)(members, "")
    for key in ("Command", "Network", "Data"):
        if key not in top:
            raise InvalidArgumentError(f"{key} is missing; it is {_MEANINGS[key]}")
    training = top.get("TrainingParameters", {})
    if top["Command"] == "train" and "Epochs" not in training:
        raise InvalidArgumentError("TrainingParameters.Epochs is missing; it is the number of epochs")
    for key, value in _DEFAULTS.items():
        training.setdefault(key, value)
    prediction = {"MiniBatch": 1024, **top.get("PredictionParameters", {})}
    return Cdl(top["Command"], top["Network"], top["Data"], top.get("RandomSeed"), training, prediction)


# ---- types of values ----


def _object(readers: Mapping[str, Reader]) -> Reader:
    """Returns a type of objects whose keys may be in any letter case; null stands for a key that is not given."""
    spelling = {key.lower(): key for key in readers}

    def read(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, _Members):
            raise _wrong(value, where, "an object")
        begin = f"{where}." if where else ""
        found: dict[str, Any] = {}
        for given, one in value:
            key = spelling.get(given.lower() if given.isascii() else given)
            if key is None:
                raise InvalidArgumentError(f"there is no key {_shown(begin + given)}; {_meant(given, where, readers)}")
            if key in found:
                raise InvalidArgumentError(f"{begin}{key} is given twice")
            found[key] = None if one is None else readers[key](one, begin + key)
        return {key: one for key, one in found.items() if one is not None}

    return read


def _meant(given: str, where: str, readers: Mapping[str, Reader]) -> str:
    """Returns the end of the message about an unknown key: its right place, or the nearest key."""
    for name, others in (("", _TOP), ("TrainingParameters", _TRAINING), ("PredictionParameters", _PREDICTION)):
        if name != where and given.lower() in map(str.lower, others):
            return f"it belongs into {name}" if name else f"it belongs outside of {where}"
    return nearest(given, readers)


def _whole(least: int) -> Reader:
    wanted = "a whole number above 0" if least == 1 else f"a whole number of at least {least}"

    def read(value: Any, where: str) -> int:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or value != value // 1 or not least <= value < 1 << 63:  # of NaN and infinity, too
            raise _wrong(value, where, wanted)
        return int(value)

    return read


def _real(wanted: str, is_allowed: Callable[[float], bool]) -> Reader:
    def read(value: Any, where: str) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not is_allowed(value):
            raise _wrong(value, where, wanted)
        return float(value)

    return read


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, where, "true or false")
    return value


def _word(*words: str) -> Reader:
    def read(value: Any, where: str) -> str:
        word = value.lower() if isinstance(value, str) else ""
        if word not in words:
            hint = f"; {nearest(word, words)}" if word else ""
            raise _wrong(value, where, f"one of {', '.join(words)}{hint}")
        return word

    return read


def _path(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(value, where, "the path of a file")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise _wrong(value, where, "the path of a file") from None
    if "\0" in value:
        raise _wrong(value, where, "the path of a file")
    return value


def _network(value: Any, where: str) -> str:
    path = _path(value, where)
    if not path.endswith(_ENDINGS):
        raise _wrong(value, where, "a path that ends with .nc or .dsstne, which says the format of the file")
    return path


def _files(value: Any, where: str) -> list[str]:
    if isinstance(value, list) and not isinstance(value, _Members):
        if not 1 <= len(value) <= 2:
            raise InvalidArgumentError(
                f"{where} has {len(value)} files; it must be one data file, or two: those of inputs and outputs"
            )
        return [_path(one, f"{where}[{place}]") for place, one in enumerate(value)]
    return [_path(value, where)]


def _wrong(value: Any, where: str, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{where} is {_shown(value)}; it must be {wanted}")


def _shown(value: Any) -> str:
    """Returns a value as JSON, in one short line."""
    if isinstance(value, _Members):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_ANY = _real("a number", lambda _: True)
_ABOVE_0 = _real("a number above 0", lambda value: value > 0)
_AT_LEAST_0 = _real("a number of at least 0", lambda value: value >= 0)
_FRACTION = _real("a number from 0 to below 1", lambda value: 0 <= value < 1)

_TRAINING: dict[str, Reader] = {
    "Epochs": _whole(1),
    "MiniBatch": _whole(0),
    "Alpha": _ABOVE_0,
    "AlphaInterval": _whole(0),
    "AlphaMultiplier": _ABOVE_0,
    "Mu": _FRACTION,
    "Lambda": _AT_LEAST_0,
    "CheckpointInterval": _whole(0),
    "CheckpointName": _path,
    "Optimizer": _word(*MOMENTS),
    "Results": _network,
    "ShuffleIndices": _boolean,
}
_PREDICTION: dict[str, Reader] = {"MiniBatch": _whole(0)}
_TOP: dict[str, Reader] = {
    "Version": _ANY,
    "Network": _path,
    "Data": _files,
    "RandomSeed": _whole(-1),
    "Command": _word("train", "predict", "validate"),
    "TrainingParameters": _object(_TRAINING),
    "PredictionParameters": _object(_PREDICTION),
}
_MEANINGS = {
    "Command": "train, predict or validate",
    "Network": "the path of a network: a definition in JSON, or a trained network",
    "Data": "the path of the data file",
}
_DEFAULTS: dict[str, Any] = {
    "MiniBatch": 1024,
    "AlphaInterval": 0,
    "AlphaMultiplier": 0.5,
    "Lambda": 0.001,
    "CheckpointInterval": 1,
    "CheckpointName": "check",
    "Optimizer": "sgd",
    "Results": "network.nc",
}
