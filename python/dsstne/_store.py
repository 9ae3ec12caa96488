"""The folder of a search: checkpoints of candidates that are paused, and the journal, with which a search goes on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _options
from dsstne.errors import BusyError, InputOutputError, InvalidArgumentError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PREFIX = "dsstne-search-"
_OWN = re.compile(
    r"\.?(\d{6}-\d+(-[0-9a-f]{8})?\.dsstne|[0-9a-f]{32}\.arrow)"
)  # the beginning of the names of our files
_SHARE = 0.5  # of the free space, that checkpoints may take
_FRESH = 60.0  # seconds in which a process has locked the temporary folder that it has made


class Store:
    """A folder that one search uses at a time.

    Checkpoints are a cache: a candidate whose file is missing trains from its beginning again, with the same result.
    So a full disk, a limit and a lost file cost time, and nothing else.

    Args:
        folder: The folder, which is made if it does not exist; None = a temporary one, which is removed at the end. A
            temporary folder of a process that was killed is removed when the next one is made.
        limit: Most bytes of checkpoints; None = half of what is free on the disk.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int | None) -> None:
        self._is_temporary = folder is None
        if folder is None:
            try:
                _sweep(Path(tempfile.gettempdir()))
                self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            except OSError as error:
                text = f"no temporary folder for checkpoints can be made: {error.strerror}"
                raise InputOutputError(text, error.errno or 0) from None
        else:
            with _options.path_argument(folder) as encoded:
                self.folder = Path(os.fsdecode(encoded))
            with _explained(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = -1
        try:
            self._hold()
            for name in ("checkpoints", "models"):
                (self.folder / name).mkdir(exist_ok=True)
                _remove_parts(self.folder / name)
        except BaseException:
            self.close()
            raise
        self.limit = limit_of(self.folder, limit)

    def _hold(self) -> None:
        """Keeps other searches out, also those of other machines where the file system has locks."""
        with _explained(self.folder):
            self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                return  # the file system has no locks
            raise BusyError(f"store: {self.folder}: another search is using this folder; give another one") from None

    # ---- checkpoints ----

    def checkpoint(self, candidate: int, rung: int, settings: str) -> Path:
        """Returns the path of the checkpoint of a candidate after a rung.

        The path depends on the settings: a worker that nobody knows of any more may still write the file of a candidate
        that an earlier call has given the same number.
        """
        return self.folder / "checkpoints" / f"{candidate:06d}-{rung}-{zlib.crc32(settings.encode()):08x}.dsstne"

    def drop(self, candidate: int, below: int = 1 << 30) -> None:
        """Deletes the checkpoints of a candidate, or only those of the rungs below one."""
        for path in (self.folder / "checkpoints").glob(f"{candidate:06d}-*"):
            if int(path.name.split("-")[1]) < below:
                with contextlib.suppress(OSError):
                    path.unlink()

    def keep_within_limit(self, worst_first: list[int]) -> None:
        """Deletes checkpoints until those that are left are within the limit.

        Args:
            worst_first: The candidates in the order in which their files may go.
        """
        folder = self.folder / "checkpoints"
        worst = (path for candidate in worst_first for path in sorted(folder.glob(f"{candidate:06d}-*")))
        delete_above(self.limit, self.used(), worst)

    def used(self) -> int:
        """Returns the bytes of all checkpoints."""
        total = 0
        for path in (self.folder / "checkpoints").glob("*"):  # nothing if the folder is gone
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total

    # ---- the journal ----

    def read(self, header: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the lines of the journal, and begins one if there is none.

        Args:
            header: What the search is; a journal of another search is refused.

        Raises:
            InvalidArgumentError: The folder has the journal of another search.
        """
        if self._is_temporary:
            return []
        path = self.folder / "journal.jsonl"
        lines: list[dict[str, Any]] = []
        with _explained(path):
            text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]  # a line that a kill has cut is done again
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                lines.append(json.loads(line))
        if not lines:
            with _explained(path):
                path.write_bytes(b"")
            self.append(header)
            return []
        for name, value in header.items():
            if lines[0].get(name) != value:
                raise InvalidArgumentError(
                    f"store: {self.folder} has a search with another {name}: there {lines[0].get(name)!r:.200}, here "
                    f"{value!r:.200}; give the same arguments to go on with it, or another folder"
                )
        if whole != text:
            with _explained(path):
                os.truncate(path, len(whole))
        return lines[1:]

    def header(self) -> dict[str, Any]:
        """Returns the first line of the journal; {} if there is none."""
        with contextlib.suppress(OSError, ValueError), (self.folder / "journal.jsonl").open("rb") as file:
            return dict(json.loads(file.readline()))
        return {}

    def append(self, line: Mapping[str, Any]) -> None:
        """Adds a line, which is on the disk when this returns; a temporary store has no journal."""
        if self._is_temporary:
            return
        path = self.folder / "journal.jsonl"
        with _explained(path), path.open("ab") as file:
            file.write(json.dumps(line, default=repr).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    # ---- the end ----

    def close(self) -> None:
        """Lets others use the folder; removes the checkpoints of a temporary one."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def clear(self) -> None:
        """Deletes everything but the journal and the best model, when the search is done."""
        for name in ("checkpoints", "data", "models"):
            with contextlib.suppress(OSError):
                for path in (self.folder / name).iterdir():
                    if _OWN.match(path.name):
                        path.unlink(missing_ok=True)
                (self.folder / name).rmdir()  # unless somebody else has files there


def limit_of(folder: Path, limit: int | None, used: int = 0) -> int:
    """Returns the most bytes of checkpoints in a folder.

    Args:
        folder: The folder.
        limit: The limit that was given; None = half of what is free on the disk.
        used: Bytes of checkpoints that are there, and count as free.
    """
    return int(_SHARE * (shutil.disk_usage(folder).free + used)) if limit is None else limit


def delete_above(limit: int, used: int, order: Iterable[Path]) -> None:
    """Deletes files until those that are left are within a limit.

    Args:
        limit: Most bytes.
        used: Bytes of all files.
        order: The files that may be deleted, in this order.
    """
    for path in order:
        if used <= limit:
            return
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            used -= size


@contextlib.contextmanager
def writing(what: str) -> Iterator[None]:
    """Goes on without a file that could not be written, with a warning."""
    try:
        yield
    except (InputOutputError, MissingFileError) as error:
        warnings.warn(f"{what}; the search goes on without this file, and is slower: {error}", stacklevel=2)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into those of this package."""
    try:
        yield
    except OSError as error:
        text = f"store: {path!s:.300}: {error.strerror}"
        raise InputOutputError(text, error.errno or 0, str(path)) from None


def _remove_parts(folder: Path) -> None:
    """Removes what a process that was killed had not written completely."""
    for path in folder.iterdir():
        if _OWN.match(path.name) and path.suffix != ".dsstne":
            with contextlib.suppress(OSError):
                path.unlink()


def _sweep(folder: Path) -> None:
    """Removes the temporary folders whose process is gone: nobody holds the lock."""
    with contextlib.suppress(OSError):
        for path in folder.glob(_PREFIX + "*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime < _FRESH:
                    continue
                with (path / "lock").open("ab") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
