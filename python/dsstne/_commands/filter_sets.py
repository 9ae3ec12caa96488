"""What ``-f`` of ``dsstne predict`` names: a filter, or a JSON description of several, each with its output file."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne._commands import outputs, sources
from dsstne.errors import InputOutputError, InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from argparse import Namespace

_HEAD = 1 << 16  # bytes that tell whether a file is JSON
_MOST = 1 << 26  # bytes of a description
_SAMPLES, _NODES, _OUTPUT = "sampleFilters", "nodeFilters", "outputFile"


class FilterSet(NamedTuple):
    """A filter and where the lines go.

    Attributes:
        samples: Paths of sample filters, which list items for each sample.
        nodes: Paths of node filters, which list items for every sample.
        output: Path of the file to write.
        flag: What names the output, for messages.
    """

    samples: list[str]
    nodes: list[str]
    output: str
    flag: str


def of(given: Namespace) -> list[FilterSet]:
    """Returns the filters of a command line, and checks that their outputs can be written.

    Raises:
        InvalidDataError: A description is not correct.
        InvalidArgumentError: -s is missing or too much, or two outputs, or one and a file that is read, are the same.
        InputOutputError: An output cannot be written.
    """
    text = None if given.f is None else _description(given.f)
    if text is not None:
        sets = _Reader(given.f, given.s).read(text)
    elif given.s is None:
        sources.kind_of(given.f)  # raises an error if there is no such file
        raise InvalidArgumentError(f"-s is missing: {given.f} is not JSON that names the files to write")
    else:
        sets = [FilterSet([] if given.f is None else [given.f], [], given.s, "-s")]
    read = {"-n": given.n, "-r": given.r, "-i": given.i, "-o": given.o, "-f": given.f}
    if text is not None:
        read |= {f"the filter {path}": path for one in sets for path in one.samples + one.nodes}
    outputs.check_distinct(
        {one.flag: one.output for one in sets}, {flag: path for flag, path in read.items() if path is not None}
    )
    for one in sets:
        outputs.check(one.flag, one.output, regular=False)
    return sets


def _description(path: str) -> str | None:
    """Returns the text of a file that is JSON; None: it is a filter.

    JSON begins with a brace. So may the label of a sample, before a TAB; it has no quotes then.
    """
    if not os.path.isfile(path):  # noqa: PTH113 - to open a pipe would wait for its writer
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
            if not head.startswith(b"{") or re.match(rb'\{[^\t\r\n:,"]+\t', head):
                return None
            file.seek(0)
            whole = file.read(_MOST + 1)
    except OSError as error:
        raise InputOutputError(f"-f: {path}: {error.strerror}", error.errno or 0, path) from None
    if len(whole) > _MOST:
        raise InvalidDataError(f"-f: {path} begins with a brace like JSON, and has more than {_MOST:,} bytes")
    try:
        return whole.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidDataError(
            f"-f: {path}: this is not JSON in UTF-8: {error.reason} at byte {error.start:,}"
        ) from None


class _Reader:
    """Reads a description.

    Args:
        path: The file, for messages.
        fallback: Path of the output that does not name its file; None = there is none.
    """

    def __init__(self, path: str, fallback: str | None) -> None:
        self._path, self._fallback = path, fallback

    def read(self, text: str) -> list[FilterSet]:
        """Reads the text.

        Raises:
            InvalidDataError: It is not a description of filters.
            InvalidArgumentError: -s is given and no filter takes it.
        """
        try:
            whole = json.loads(text, object_pairs_hook=_Pairs)
        except json.JSONDecodeError as error:
            raise self._wrong(
                "",
                f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}; a filter that begins with "
                "a brace is JSON",
            ) from None
        except (ValueError, RecursionError) as error:
            raise self._wrong("", f"this is not JSON that can be read: {error}") from None
        filters = self._keys(whole, "", "filters").get("filters")
        if not isinstance(filters, list) or isinstance(filters, _Pairs) or not filters:
            raise self._wrong("filters", f"expected a list of at least one filter, {_got(filters)}")
        sets = [self._filter(one, f"filters[{number}]") for number, one in enumerate(filters)]
        if self._fallback is not None and all(one.flag != "-s" for one in sets):
            raise InvalidArgumentError(f"-s: each filter of {self._path} has an {_OUTPUT}; leave -s out")
        if sum(one.flag == "-s" for one in sets) > 1:
            raise self._wrong("filters", f"several have no {_OUTPUT}, and -s is only one file; name the others")
        return sets

    def _filter(self, given: Any, where: str) -> FilterSet:
        """Reads a filter."""
        keys = self._keys(given, where, _SAMPLES, _NODES, _OUTPUT)
        samples, nodes = (self._paths(keys.get(key), f"{where}.{key}") for key in (_SAMPLES, _NODES))
        if _OUTPUT in keys:
            flag = f"-f: {self._path}: {where}.{_OUTPUT}"
            return FilterSet(samples, nodes, self._one_path(keys[_OUTPUT], f"{where}.{_OUTPUT}"), flag)
        if self._fallback is None:
            raise self._wrong(where, f"{_OUTPUT} is missing; it names the file to write, or -s does")
        return FilterSet(samples, nodes, self._fallback, "-s")

    def _keys(self, given: Any, where: str, *known: str) -> dict[str, Any]:
        """Returns the values of an object by key, which may be written in capitals or not."""
        from dsstne._layers import nearest

        if not isinstance(given, _Pairs):
            raise self._wrong(where, f"expected an object with {', '.join(known)}, {_got(given)}")
        spelled = {key.lower(): key for key in known}
        values: dict[str, Any] = {}
        for key, value in given:
            if key.lower() not in spelled:
                raise self._wrong(where, f"unknown key {key!r}; {nearest(key, known)}")
            key = spelled[key.lower()]
            if key in values:
                raise self._wrong(where, f"the key {key!r} is there twice")
            values[key] = value
        return values

    def _paths(self, given: Any, where: str) -> list[str]:
        """Reads the path of a filter, or several."""
        if given is None:
            return []
        several = given if isinstance(given, list) and not isinstance(given, _Pairs) else [given]
        if not several:
            raise self._wrong(where, "the list is empty; give a path, or leave the key out")
        paths = [self._one_path(path, where) for path in several]
        for path in paths:
            if _description(path) is not None:
                raise self._wrong(where, f"{path} is JSON; give a filter, of which it may be one with several files")
        return paths

    def _one_path(self, given: Any, where: str) -> str:
        """Reads a path."""
        if not isinstance(given, str) or not given or "\0" in given:
            raise self._wrong(where, f"expected the path of a file, {_got(given)}")
        try:
            os.fsencode(given)
        except UnicodeEncodeError:
            raise self._wrong(where, f"{given!r} cannot be the path of a file") from None
        return given

    def _wrong(self, where: str, text: str) -> InvalidDataError:
        return InvalidDataError(f"-f: {self._path}: {where}{': ' if where else ''}{text}")


class _Pairs(list[Any]):
    """The keys and values of an object, each as often as it is there."""


def _got(value: Any) -> str:
    """Says what stands in place of what was expected."""
    text = "an object" if isinstance(value, _Pairs) else json.dumps(value, default=str)
    return f"got {text if len(text) <= 60 else text[:60] + '...'}"
