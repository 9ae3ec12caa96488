"""NetCDF-4 files that are written, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import io
import os
import secrets
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _native
from dsstne._netcdf_file import checked_path, need_packages, shown
from dsstne.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEPT = 1 << 20  # bytes of a write at most that is kept in memory when the system refuses it
_ABANDONED = 60  # seconds without a write, much more than passes between the creation of a file and its lock


class Sink(io.RawIOBase):
    """The file that HDF5 writes to. It records the first failure and reports success, because HDF5 crashes otherwise.

    When a write fails, HDF5 cannot close its file completely, and uses memory that it has already freed. So after a
    failure the sink writes no more and keeps in memory what HDF5 may read again to close the file: its own records,
    which are short, but not the numbers of variables.

    Args:
        file: An unbuffered file that is open for reading and writing.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file, self._at = file, 0
        self._kept: dict[int, bytes] | None = None  # by their offsets; None = the system has refused nothing
        self.failure: BaseException | None = None

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset += self._end()
        elif whence == os.SEEK_CUR:
            offset += self._at
        self._at = offset
        return offset

    def _end(self) -> int:
        end = max((at + len(data) for at, data in (self._kept or {}).items()), default=0)
        try:
            return max(end, self._file.seek(0, os.SEEK_END))
        except (OSError, ValueError) as error:
            self.fail(error)
            return end

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads what HDF5 has written before; what is not there is 0."""
        room = memoryview(buffer).cast("B")
        room[:] = bytes(len(room))
        try:
            self._file.seek(self._at)
            self._file.readinto(room)
        except (OSError, ValueError) as error:
            self.fail(error)
        end = self._at + len(room)
        for at, data in (self._kept or {}).items():
            first, last = max(at, self._at), min(at + len(data), end)
            if first < last:
                room[first - self._at : last - self._at] = data[first - at : last - at]
        self._at = end
        return len(room)

    def write(self, data: Any) -> int:
        whole = memoryview(data).cast("B")
        if self._kept is None:
            try:
                self._file.seek(self._at)
                written = 0
                while written < len(whole):
                    written += self._file.write(whole[written:]) or 0
            except (OSError, ValueError) as error:
                self.fail(error)
                self._kept = {}
        if self._kept is not None and len(whole) <= _KEPT:
            self._kept.pop(self._at, None)  # the last write counts, so it comes last
            self._kept[self._at] = bytes(whole)
        self._at += len(whole)
        return len(whole)

    def truncate(self, size: int | None = None) -> int:
        try:
            if self._kept is None:
                self._file.truncate(self._at if size is None else size)
        except (OSError, ValueError) as error:
            self.fail(error)
        return self._at if size is None else size

    def fail(self, error: BaseException) -> None:
        """Records a failure, unless there is one."""
        self.failure = self.failure or error

    def check(self) -> None:
        """Raises the recorded failure."""
        if self.failure is not None:
            raise self.failure


class Writer:
    """A file that is being written.

    Args:
        file: The file of h5netcdf.
        check: Raises an exception if the file cannot be completed.
    """

    def __init__(self, file: Any, check: Callable[[], None]) -> None:
        self._file, self._check = file, check

    def attributes(self, values: Mapping[str, Any]) -> None:
        """Writes global attributes; a str becomes characters (``NC_CHAR``), which every version of netCDF reads."""
        import h5py

        for name, value in values.items():
            if isinstance(value, str):
                value = np.bytes_(value.encode()) if value else h5py.Empty("S1")
            self._file.attrs[name] = value

    def dimension(self, name: str, size: int) -> None:
        """Adds a dimension."""
        self._check()
        self._file.dimensions[name] = size

    def variable(self, name: str, dimension: str, dtype: Any, values: Any = None) -> Any:
        """Adds a variable, and returns it; parts can be assigned to it."""
        self._check()
        added = self._file.create_variable(name, (dimension,), dtype)
        if values is not None:
            added[:] = values
        return added

    def texts(self, name: str, dimension: str, values: list[str], **attributes: str) -> None:
        """Adds a variable of strings with attributes."""
        import h5py

        added = self._file.create_variable(name, (dimension,), h5py.string_dtype())
        for key, value in attributes.items():
            added.attrs[key] = np.bytes_(value.encode())
        for first in range(0, len(values), 1 << 20):
            part = values[first : first + (1 << 20)]
            added[first : first + len(part)] = np.array(part, object)


def write(
    path: str | os.PathLike[str],
    fill: Callable[[Writer], None],
    before_replacing: Callable[[], None] | None = None,
) -> None:
    """Lets ``fill`` write a file beside the final one, which it replaces when ``fill`` has returned.

    The file has the mode of the one that it replaces. ``fill`` runs in a thread of its own. ``before_replacing`` is
    called when the file is on the disk.

    The new file has the name of the final one between a dot and ".saving-" with a random number, as those of the engine
    have. A process that is killed leaves it behind, and the next save of the same file removes it.

    Raises:
        ImportError: The packages are not installed.
        InputOutputError: The operating system refused to write, or the old file is not a regular file.
    """
    need_packages()
    name = checked_path(path)
    try:
        target, mode = _replaced(name)
        begin = os.fsdecode(os.fsencode(target.name)[:200])  # names have at most 255 bytes
        prefix = f".{begin}.saving-"
        beside = target.with_name(prefix + secrets.token_hex(8))
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        try:
            with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - a Path has no descriptor
                _lock(descriptor)  # until the file is closed, so that nobody takes it for abandoned
                _remove_abandoned(target.parent, prefix)
                if mode is not None:
                    os.fchmod(descriptor, mode)  # the umask may have taken away what the old file has
                _fill(Sink(file), fill)
                os.fsync(descriptor)
                if before_replacing is not None:
                    before_replacing()
                beside.replace(target)
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, InputOutputError):
            raise
        text = f"cannot save {shown(name)}: {error.strerror or error}"
        raise InputOutputError(text, error.errno or 0, os.fspath(path)) from None


def _lock(descriptor: int) -> bool:
    """Takes the lock of an open file; False if another process has it, or the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Removes the files of saves whose processes were killed: nobody has locked them, and nobody has written lately.

    It does so as the engine does for the files that it saves. What cannot be removed stays.
    """
    for path in folder.glob(glob.escape(prefix) + "?" * 16):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or time.time() - found.st_mtime < _ABANDONED:
                continue
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _lock(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def _fill(sink: Sink, fill: Callable[[Writer], None]) -> None:
    """Writes a whole HDF5 file in a thread.

    Python runs signal handlers in the main thread only. There, Ctrl-C could raise KeyboardInterrupt at the beginning of
    a method of the sink, where nothing catches it, and HDF5 would crash as it does when a write fails.
    """
    import h5netcdf

    done = _native.Flag()  # an interrupted join() of Python 3.11 can take a thread that runs for one that has ended
    claim = threading.Lock()  # whose holder decides whether the thread writes

    def work() -> None:
        if not claim.acquire(blocking=False):
            return
        try:
            # netCDF-C adds to a file only if it knows in which order everything was created.
            with h5netcdf.File(sink, "w", track_order=True) as hdf:
                fill(Writer(hdf, sink.check))
        except BaseException as error:
            sink.fail(error)  # unless the system has refused to write, which has a number that HDF5 does not tell
        finally:
            done.set()

    try:
        _native.start(threading.Thread(target=work, name="dsstne netcdf"))
    except BaseException as error:
        sink.fail(error)
        if claim.acquire(blocking=False):
            raise  # the thread has not begun, and now will not
    while not done.is_set():
        try:
            done.wait()
        except BaseException as error:  # noqa: PERF203 - Ctrl-C; the thread ends after the variable
            sink.fail(error)
    sink.check()


def _replaced(name: str) -> tuple[Path, int | None]:
    """Returns the file that a save replaces, behind all links, and its mode; None if there is no such file yet.

    Raises:
        OSError: It cannot be replaced.
    """
    target = Path(os.path.realpath(name))
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - a Path drops a slash at the end
    except FileNotFoundError:
        if name.endswith("/"):
            raise
        return target, None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder; add a file name")
    if not stat.S_ISREG(mode):
        raise OSError("it is not a regular file")
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, f"replacing the old file failed: {os.strerror(errno.EACCES)}")
    return target, stat.S_IMODE(mode)
