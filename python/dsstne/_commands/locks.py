"""Locks of index files: commands that number new labels in the same index wait for each other."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dsstne.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


@contextlib.contextmanager
def held(indexes: Iterable[str]) -> Iterator[None]:
    """Keeps other commands from changing indexes, from before they are read until the new ones are in their places.

    Says on stderr when it waits, and once if the file system has no locks.

    Args:
        indexes: Paths of the index files, which need not exist.

    Raises:
        InputOutputError: A lock cannot be taken.
    """
    paths = {os.path.realpath(path): path for path in indexes}
    is_said = False
    with contextlib.ExitStack() as stack:
        for real in sorted(paths):  # two commands that took the same locks in different orders would wait for ever
            is_locked = stack.enter_context(_lock(Path(real), paths[real]))
            if not is_locked and not is_said:
                print(
                    f"{paths[real]}: this file system has no locks, so nothing keeps another command from changing the "
                    "index at the same time",
                    file=sys.stderr,
                )
                is_said = True
        yield


@contextlib.contextmanager
def _lock(index: Path, shown: str) -> Iterator[bool]:
    """Holds the lock of an index; False if the file system has no locks.

    The lock is that of a file beside the index. That of the index itself would not do: a new index is renamed over the
    old one, whose lock then keeps nobody out who opens the new one. The file is removed when the lock is released. If
    a process is killed, the system releases the lock and the next command takes it.
    """
    beside = index.with_name(f".{os.fsdecode(os.fsencode(index.name)[:200])}.lock")  # names have at most 255 bytes
    try:
        descriptor, is_locked = _taken(beside, shown)
    except OSError as error:
        text = f"{shown}: its lock, the file {beside}, cannot be taken: {error.strerror or error}"
        raise InputOutputError(text, error.errno or 0, shown) from None
    try:
        yield is_locked
    finally:
        with contextlib.suppress(OSError):  # another user's, in a folder where only he may remove it
            beside.unlink()  # while the lock is held: later it may be the file of another command
        os.close(descriptor)


def _taken(beside: Path, shown: str) -> tuple[int, bool]:
    """Opens and locks a file; returns its descriptor and whether it is locked."""
    is_said = False
    while True:
        descriptor = _opened(beside)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not is_said:
                    print(f"{shown}: waiting for another command that uses this index", file=sys.stderr, flush=True)
                    is_said = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The command that had the lock has removed the file, and others may have made a new one: then the lock of
            # the old one keeps nobody out.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), beside.lstat()):
                    return descriptor, True
        except BaseException as error:  # also Ctrl-C while it waits
            if isinstance(error, OSError) and error.errno in _WITHOUT_LOCKS:
                return descriptor, False
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(beside: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK  # neither where a link leads nor a pipe, which would wait for its writer
    try:
        # NFS locks for one process alone only what is open for writing.
        return os.open(beside, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except PermissionError:
        return os.open(beside, os.O_RDONLY | flags)  # that of another user, who was killed
