"""Files that commands write: regular files appear when they are complete, and never in part."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from dsstne.errors import InputOutputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def check(flag: str, path: str, *, regular: bool = True) -> None:
    """Finds what would keep a file from being written, before there is work that would be lost.

    Args:
        flag: The flag that names it, for messages.
        path: The file.
        regular: Whether it must be a regular file if it exists.

    Raises:
        InputOutputError: It is a folder, or is in a folder that does not exist or may not be written.
        InvalidArgumentError: It must be a regular file and is not.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputOutputError(f"{flag}: {path} is a folder; give the name of a file", errno.EISDIR, path)
    if not _is_regular(path):
        if regular:
            raise InvalidArgumentError(f"{flag}: {path} is not a regular file, and this file cannot be written there")
        return
    if not target.parent.is_dir():
        raise InputOutputError(f"{flag}: {path}: there is no folder {target.parent}", errno.ENOENT, path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputOutputError(f"{flag}: {path}: the folder {target.parent} may not be written", errno.EACCES, path)


def _is_regular(path: str) -> bool:
    """Reports whether a path names a regular file or nothing yet; /dev/stdout is never one, whatever it leads to."""
    whole = os.path.abspath(path)  # noqa: PTH100 - a Path would follow links
    if whole.startswith(("/dev/", "/proc/")) and not whole.startswith("/dev/shm/"):
        return False
    return os.path.isfile(path) or not os.path.exists(path)  # noqa: PTH110, PTH113


def check_distinct(written: dict[str, str], read: dict[str, str]) -> None:
    """Refuses files that two flags write, or that one writes and another reads.

    Raises:
        InvalidArgumentError: Two flags name the same file.
    """
    known: dict[str, str] = {}
    for flag, path in [*written.items(), *read.items()]:
        real = os.path.realpath(path)
        if real in known and (flag in written or os.path.isfile(real)):  # noqa: PTH113
            raise InvalidArgumentError(f"{known[real]} and {flag} name the same file, {path}; give two files")
        if flag in written:
            known[real] = flag


class Series(NamedTuple):
    """Files that are written every few epochs, with the number of the epoch in their names.

    Attributes:
        begin, end: What stands before and after the number.
        every: Number of epochs from one file to the next.
        last: The last epoch.
    """

    begin: str
    end: str
    every: int
    last: int

    def name(self, epoch: int) -> str:
        """Returns the file of an epoch."""
        return f"{self.begin}{epoch}{self.end}"

    def has(self, path: str) -> bool:
        """Reports whether a path is that of one of the files."""
        begin = Path(os.path.realpath(self.begin + "0"))
        target = Path(os.path.realpath(path))
        number = re.fullmatch(re.escape(begin.name[:-1]) + "([1-9][0-9]{0,18})" + re.escape(self.end), target.name)
        epoch = int(number[1]) if number else 0
        return target.parent == begin.parent and 0 < epoch <= self.last and epoch % self.every == 0

    def existing(self) -> list[str]:
        """Returns the files that there are."""
        folder = os.path.dirname(self.begin)  # noqa: PTH120 - a Path would change "./x"
        names = [os.path.join(folder, name) for name in os.listdir(folder or ".")]  # noqa: PTH118, PTH208
        return sorted(name for name in names if self.has(name))


@contextlib.contextmanager
def beside(path: str) -> Iterator[str]:
    """Gives the name of a file beside another one; the caller writes it and renames it, or it is removed."""
    target = Path(os.path.realpath(path))
    name = target.with_name(f".{target.name[:200]}-{secrets.token_hex(8)}.new")
    try:
        yield os.fspath(name)
    finally:
        name.unlink(missing_ok=True)


def _target(path: str) -> str | int:
    """Returns what to open: of the standard streams a copy, which shares the place in a file with its other writers."""
    number = {"/dev/stdout": 1, "/dev/stderr": 2}.get(os.path.abspath(path))  # noqa: PTH100 - a Path would follow links
    return path if number is None else os.dup(number)


@contextlib.contextmanager
def together(paths: Sequence[str]) -> Iterator[dict[str, str]]:
    """Gives names of files beside others; the caller writes them, and then they replace the others in this order.

    Raises:
        InputOutputError: The operating system refused to write; existing files are unchanged.
    """
    with contextlib.ExitStack() as stack:
        names = {path: stack.enter_context(beside(path)) for path in paths}
        try:
            yield names
            for name in names.values():
                with open(name, "rb") as file:  # noqa: PTH123
                    os.fsync(file.fileno())
            _replace([(name, os.path.realpath(path)) for path, name in names.items()])
        except OSError as error:
            text = str(error) if isinstance(error, InputOutputError) else ""
            for path, name in names.items():
                text = text.replace(name, path)
            if not paths:
                raise
            raise _refused(paths[-1], error, text) from None


def _refused(path: str, error: OSError, text: str = "") -> OSError:
    """Returns an error of the operating system with a message for users."""
    return InputOutputError(text or f"cannot write {path}: {error.strerror or error}", error.errno or 0, path)


class Text:
    """A text that is written.

    Args:
        path: The file.
        file: The open file.
    """

    def __init__(self, path: str, file: IO[str]) -> None:
        self.path, self.file = path, file

    def write(self, text: str) -> None:
        """Writes text.

        Raises:
            InputOutputError: The operating system refused to write.
        """
        with _writing(self.path):
            self.file.write(text)

    def finish(self) -> None:
        """Writes what is left, to the disk if it is a file."""
        with _writing(self.path), self.file:
            self.file.flush()
            if os.path.isfile(self.file.name):  # noqa: PTH113 - a pipe cannot be synchronised
                os.fsync(self.file.fileno())


@contextlib.contextmanager
def texts(paths: Sequence[str]) -> Iterator[list[Text]]:
    """Opens texts for writing; pipes and devices are written at once, and all files appear when all are complete.

    Raises:
        InputOutputError: The operating system refused to write; existing files are unchanged.
    """
    with contextlib.ExitStack() as stack:
        opened, complete = [], []
        for path in paths:
            name, mode = _target(path), "a"
            if _is_regular(path):
                name, mode = stack.enter_context(beside(path)), "x"
                complete.append((name, os.path.realpath(path)))
            with _writing(path):
                file = stack.enter_context(open(name, mode, encoding="utf-8", newline="\n"))  # noqa: PTH123
            opened.append(Text(path, file))
        yield opened
        for text in opened:
            text.finish()
        _replace(complete)


def _replace(complete: Sequence[tuple[str, str]]) -> None:
    """Renames files; if one cannot be renamed, those before it are again as they were."""
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as undo:
        for name, target in complete:
            with contextlib.suppress(OSError):  # there is none, or its mode cannot be taken over
                shutil.copymode(target, name)
            if len(complete) > 1:
                old = f"{name}.old"
                stack.callback(Path(old).unlink, missing_ok=True)
                if os.path.exists(target):  # noqa: PTH110
                    _keep(target, old)
                    undo.callback(os.replace, old, target)
                else:
                    undo.callback(Path(target).unlink, missing_ok=True)
            with _writing(target):
                os.replace(name, target)  # noqa: PTH105
        undo.pop_all()


def _keep(path: str, name: str) -> None:
    """Gives a file a second name, or copies it where files have only one."""
    try:
        os.link(path, name)
    except OSError:
        with _writing(path):
            shutil.copy2(path, name)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Turns an error of the operating system into one that names the file."""
    try:
        yield
    except OSError as error:
        if isinstance(error, InputOutputError):
            raise
        raise _refused(path, error) from None
