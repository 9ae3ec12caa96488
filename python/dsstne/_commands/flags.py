"""Command lines: flags with one or two dashes, whose value is the next argument; an unknown flag is an error.

A command may also take operands, which are arguments without a flag, in a fixed order.
"""

from __future__ import annotations

import argparse
import difflib
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class Parser(argparse.ArgumentParser):
    """Reads the flags of a command.

    Args:
        command: Name of the command.
        description: What it does.
    """

    def __init__(self, command: str, description: str) -> None:
        super().__init__(f"dsstne {command}", description=description, add_help=False, allow_abbrev=False)
        self._flags: dict[str, bool] = {}  # whether a flag takes a value
        self._lists: set[str] = set()  # flags that take several values
        self._operands: list[str] = []
        self.flag("-h", "--help", action="help", help="show this help and exit")

    def flag(self, *names: str, **options: Any) -> None:
        """Adds a flag, as ``add_argument`` does; the action "append" takes all values up to the next flag."""
        action = self.add_argument(*names, **options)
        self._flags.update(dict.fromkeys(names, action.nargs != 0))
        if options.get("action") == "append":
            self._lists.update(names)

    def operand(self, name: str, shown: str, **options: Any) -> None:
        """Adds an operand, as ``add_argument`` does; ``shown`` is its name for users."""
        self.add_argument(name, metavar=shown, **options)
        self._operands.append(shown)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Reads a command line; a mistake ends the program with status 2."""
        return self.parse_args(list(self._joined(arguments)))

    def _joined(self, arguments: Sequence[str]) -> Iterable[str]:
        """Joins each flag with its value, which may therefore begin with a dash, and puts the operands last."""
        given = set()
        operands: list[str] = []
        rest = iter(arguments)
        several = None  # the flag whose list of values goes on
        for argument in rest:
            if several is not None and not argument.startswith("-"):
                yield f"{several}={argument}"
                continue
            name, is_joined, value = argument.partition("=")
            if argument in self._flags:
                name, is_joined = argument, ""
            elif not argument.startswith("-") and len(operands) < len(self._operands):
                operands.append(argument)
                continue
            elif name not in self._flags or not name.startswith("--"):
                self.error(self._unknown(argument))
            if name in given:
                self.error(f"{name} is given twice")
            given.add(name)
            if self._flags[name] and not is_joined:
                following = next(rest, None)
                if following is None or following in self._flags:
                    self.error(f"{name} needs a value" + (f", but {following} follows" if following else ""))
                value, is_joined = following or "", "="
            several = name if name in self._lists else None
            yield name + is_joined + value if is_joined else name
        yield from operands

    def _unknown(self, argument: str) -> str:
        if not argument.startswith("-") or argument == "-":
            names = self._operands
            there = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} given already" if names else ""
            return f"unexpected argument {argument!r}: {there or 'each value follows a flag'}"
        name = argument.partition("=")[0]
        if argument[:2] in self._flags and argument[2:3].isdigit():
            return f"there is no flag {name}; did you mean {argument[:2]} {argument[2:]}?"
        return f"there is no flag {name}; {nearest(name, self._flags)}"

    def error(self, message: str) -> Any:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog}: error: {message}\nSee {self.prog} -h for the flags.\n")


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown word."""
    folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1)
    return f"did you mean {folded[close[0]]}?" if close else f"the known ones are {', '.join(folded.values())}"


def precision(parser: Parser) -> None:
    """Adds the flag of commands that train."""
    kinds = word("auto", "float32", "bfloat16", "tensorfloat32")
    parser.flag("--precision", type=kinds, default="auto", help="auto, float32, bfloat16 or tensorfloat32")


def computing(parser: Parser) -> None:
    """Adds the flags of commands that compute."""
    parser.flag("--devices", type=devices, help="such as cpu, cuda:0 or cuda:0,cuda:1 (default: auto)")
    reading(parser)


def reading(parser: Parser) -> None:
    """Adds the flags of commands that read text."""
    skip = "what happens to a malformed line of a text: skip (the default) and count it, or error"
    parser.flag("--malformed", type=word("skip", "error"), default="skip", help=skip)
    parser.flag("--threads", type=count, help="number of CPU threads (default: all)")
    parser.flag("--memory-limit", type=size, metavar="BYTES", help="most memory to use, such as 500M or 16G")


# ---- types of values ----


def character(text: str) -> str:
    r"""Reads one character; ``\t`` stands for a TAB."""
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or text in "\r\n\0":
        raise argparse.ArgumentTypeError(f"expected one character, or \\t for a TAB, got {text!r}")
    return text


def path(text: str) -> str:
    """Reads the path of a file."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("expected the path of a file, got " + repr(text))
    return text


def name(text: str) -> str:
    """Reads a name."""
    if not text:
        raise argparse.ArgumentTypeError("expected a name, got ''")
    return text


def names(text: str) -> list[str]:
    """Reads names that commas separate."""
    found = text.split(",")
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, got {text!r}")
    return found


def count(text: str) -> int:
    """Reads a whole number above 0."""
    if not re.fullmatch(r"\+?0*[1-9][0-9]{0,17}", text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """Reads a seed."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def number(text: str) -> float:
    """Reads a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


def size(text: str) -> int:
    """Reads a number of bytes, which may end with K, M, G or T (powers of 1024)."""
    found = re.fullmatch(r"0*([1-9][0-9]{0,14})([KMGT]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected bytes such as 500M or 16G, got {text!r}")
    return int(found[1]) << _UNITS[found[2]]


def devices(text: str) -> str | list[str]:
    """Reads names of devices."""
    return text.split(",") if "," in text else text


def word(*words: str) -> Callable[[str], str]:
    """Returns a type that has only some words."""

    def read(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"expected {' or '.join(words)}, got {text!r}; {nearest(text, words)}")
        return text

    return read
