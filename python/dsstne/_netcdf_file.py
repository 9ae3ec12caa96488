"""NetCDF-4 files that are read: attributes and variables, with errors that name the file.

The packages h5netcdf and h5py are imported when a file is opened, and not before.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _items, _options
from dsstne.errors import (
    CorruptFileError,
    InputOutputError,
    MissingFileError,
    OutOfMemoryError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

BLOCK = 1 << 26  # bytes that are read or written at once; up to three blocks are in memory, one in another order

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_CLASSIC = (b"CDF\1", b"CDF\2", b"CDF\5")

# What the deflate filter can make of a byte at most. A variable that claims to hold more than this many times the size
# of its file is damaged.
_INFLATION = 1032

_MISSING: Any = object()


def need_packages() -> None:
    """Raises ImportError if the packages that read NetCDF files are not installed."""
    try:
        import h5netcdf  # noqa: F401
        import h5py  # noqa: F401
    except ImportError as error:
        raise ImportError("NetCDF files need h5netcdf and h5py: pip install dsstne[netcdf]") from error


def is_netcdf(path: str | os.PathLike[str]) -> bool:
    """Reports whether the content of a file is NetCDF-4; False if it cannot be read.

    Raises:
        UnsupportedError: It is one of the older, classic NetCDF formats.
    """
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - a Path takes no bytes; to open a pipe would wait for its writer
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            begin = file.read(9)
    except (OSError, ValueError, TypeError):
        return False  # what opens the file will say what is wrong with it
    # A file of dsstne begins with the length of its header, which may look like that, and then with a brace.
    if begin.startswith(_CLASSIC) and begin[8:] != b"{":
        name = shown(os.fsdecode(path))
        raise UnsupportedError(
            f"{name}: this is a file in a classic NetCDF format; convert it with `nccopy -k nc4 {name} new.nc`"
        )
    return begin.startswith(_SIGNATURE)


def checked_path(path: str | os.PathLike[str]) -> str:
    """Returns the name of a file as a str.

    Raises:
        InvalidArgumentError: It cannot be the name of a file.
    """
    with _options.path_argument(path) as name:
        return os.fsdecode(name)


def shown(path: str) -> str:
    """Returns the name of a file for a message."""
    return path if len(path) <= 300 else "..." + path[-297:]


class Attributes:
    """The global attributes of a file, or those that are about to be written to it.

    Args:
        values: The attributes by name.
        path: The file, for messages.
    """

    def __init__(self, values: Mapping[str, Any], path: str) -> None:
        self.path = shown(path)
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = _MISSING) -> str:
        """Returns a text."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self.fault(f"the attribute {name} is {_checks.shown(value)}, which is not a text in UTF-8")
        return value

    def integer(self, name: str, default: int = _MISSING, *, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """Returns a whole number within limits."""
        number = self.real(name, default)
        if number != int(number):
            raise self.fault(f"the attribute {name} is {number}, which is not a whole number")
        if not least <= number <= most:
            raise self.fault(f"the attribute {name} is {number}; it must be from {least} to {most}")
        return int(number)

    def real(self, name: str, default: float = _MISSING) -> float:
        """Returns a finite number: an int where the attribute has one, else a float."""
        value = self._value(name, default)
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.reshape(())[()]
        if not _checks.is_number(value):
            raise self.fault(f"the attribute {name} is {_checks.shown(value)}, which is not a number")
        if not np.isfinite(value):
            raise self.fault(f"the attribute {name} is {value}, which is not finite")
        if isinstance(value, np.floating):
            return float(str(value))  # the decimals of a float32, not those of the nearest float64
        plain: float = value.item() if isinstance(value, np.generic) else value
        return plain

    def word(self, name: str, words: Mapping[int, str], default: int = _MISSING) -> str:
        """Returns the word for the number in an attribute."""
        number = self.integer(name, default)
        if number not in words:
            known = ", ".join(f"{n} ({word})" for n, word in words.items())
            raise self.fault(f"the attribute {name} is {number}; it must be one of {known}")
        return words[number]

    def digest(self, name: str) -> str | None:
        """Returns a digest of names; None if there is none."""
        if name not in self:
            return None
        text = self.text(name)
        if not _items.is_digest(text):
            raise self.fault(
                f"the attribute {name} is {_checks.shown(text)}; it must be a number of labels, a blank and a SHA-256 "
                "in 64 hexadecimal digits"
            )
        return text

    def flag(self, name: str, default: int = _MISSING) -> bool:
        """Reports whether a number is not 0."""
        return self.integer(name, default, most=(1 << 32) - 1) != 0

    def _value(self, name: str, default: Any) -> Any:
        if name in self._values:
            return self._values[name]
        if default is _MISSING:
            raise self.fault(f"the attribute {name} is missing")
        return default

    def fault(self, text: str) -> CorruptFileError:
        """Returns an error about the file."""
        return CorruptFileError(f"{self.path}: {text}")


class Reader(Attributes):
    """A file that is open for reading."""

    def __init__(self, path: str, hdf: Any) -> None:
        self._hdf, self._bytes = hdf, Path(path).stat().st_size
        super().__init__({}, path)
        with self._reading("the attributes"):
            self._values = {name: _plain(value) for name, value in hdf.attrs.items()}

    def has(self, name: str) -> bool:
        """Reports whether there is a variable."""
        return hasattr(self._own(name), "dtype")

    def length(self, dimension: str) -> int:
        """Returns the size of a dimension."""
        scale = self._own(dimension)
        with self._reading(f"the dimension {dimension}"):
            if getattr(scale, "ndim", None) == 1:
                return int(scale.shape[0])
        raise self.fault(f"the dimension {dimension} is missing")

    def variable(self, name: str, size: int | None, kinds: str, meaning: str) -> Variable:
        """Returns a variable after a look at its type and its size, which the file must have room for.

        Args:
            name: Its name.
            size: The number of its elements; None = any.
            kinds: The NumPy kinds of the types that it may have.
            meaning: What has this size, for messages.
        """
        data = self._own(name)
        if not hasattr(data, "dtype"):
            raise self.fault(f"the variable {name} is missing")
        with self._reading(name):
            shape, dtype = data.shape, data.dtype
            stored, packed = (
                int(data.id.get_storage_size()),
                bool(data.chunks and data.id.get_create_plist().get_nfilters()),
            )
        if dtype.kind not in kinds:
            wanted = " or ".join(
                {"u": "unsigned", "i": "signed integers", "f": "floats", "O": "strings", "S": "characters"}[k]
                for k in kinds
            )
            raise self.fault(f"the variable {name} is of type {dtype}; it must be of {wanted}")
        if shape is None or len(shape) != 1:
            raise self.fault(f"the variable {name} has the shape {shape}; it must have one dimension")
        if size is not None and shape[0] != size:
            raise self.fault(f"the variable {name} has {shape[0]:,} elements; {meaning} needs {size:,}")
        claimed = shape[0] * dtype.itemsize
        # Chunks may be longer than what they hold. Strings are stored elsewhere in the file.
        if claimed > (_INFLATION * self._bytes if packed else min(stored, self._bytes)):
            raise self.fault(
                f"the variable {name} claims to have {claimed:,} bytes, of which the file of {self._bytes:,} bytes "
                f"stores {stored:,}; it is damaged or was not written completely"
            )
        return Variable(self, name, data)

    def _own(self, name: str) -> Any:
        """Returns a variable, a dimension or a group; None if there is none.

        A file of somebody else must not make us read other files of this machine, so nothing of it may be elsewhere.
        """
        import h5py

        data = None
        with self._reading(name):
            links = self._hdf.id.links
            if not links.exists(name.encode()):
                return None
            is_here = links.get_info(name.encode()).type == h5py.h5l.TYPE_HARD
            if is_here:
                data = self._hdf[name]
                is_here = not (isinstance(data, h5py.Dataset) and (data.is_virtual or data.external))
        if not is_here:
            raise self.fault(f"{name} is a link or refers to other files, which NetCDF files do not have")
        return data

    @contextlib.contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Names the file and the part in errors of HDF5."""
        try:
            yield
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise self.fault(f"{what} cannot be read: {error}") from None
        except MemoryError:
            raise OutOfMemoryError(f"{self.path}: {what} does not fit into memory") from None


class Variable:
    """A variable of an open file, with one dimension."""

    def __init__(self, reader: Reader, name: str, data: Any) -> None:
        self._reader, self.name, self.path, self._data = reader, name, reader.path, data
        self.size, self.dtype = int(data.shape[0]), data.dtype

    def __getitem__(self, part: slice) -> NDArray[Any]:
        """Reads a part."""
        with self._reader._reading(f"the variable {self.name}"):
            values: NDArray[Any] = self._data[part]
            return values

    def attribute(self, name: str, default: str = "") -> str:
        """Returns a text that belongs to the variable."""
        with self._reader._reading(f"the variable {self.name}"):
            values = {key: _plain(value) for key, value in self._data.attrs.items()}
        return Attributes(values, f"{self.path}: the variable {self.name}").text(name, default)

    def all(self) -> NDArray[Any]:
        """Reads all of it."""
        return self[0 : self.size]

    def texts(self) -> list[str]:
        """Reads all of it as strings."""
        with self._reader._reading(f"the variable {self.name}"):
            return [text.decode() if isinstance(text, bytes) else str(text) for text in self._data[()].tolist()]


def _plain(value: Any) -> Any:
    """Returns an attribute as a str, a number or an array; netCDF stores a single number as an array of one."""
    if type(value).__name__ == "Empty":  # of h5py: a text of length 0
        return ""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return value.rstrip(b"\0").decode()
    return value


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Reader]:
    """Opens a file.

    Raises:
        ImportError: The packages are not installed.
        MissingFileError: There is no such file.
        UnsupportedError: It is in a classic NetCDF format.
        CorruptFileError: It is not a NetCDF-4 file, or is truncated.
    """
    need_packages()
    import h5py

    name = checked_path(path)
    try:
        # HDF5's errors do not have the number of the system's. To open a pipe would wait for its writer.
        if not stat.S_ISFIFO(os.stat(name).st_mode):  # noqa: PTH116 - a Path takes no bytes
            with open(name, "rb"):  # noqa: PTH123
                pass
    except FileNotFoundError as error:
        raise MissingFileError(f"{shown(name)}: no such file", error.errno or 0, os.fspath(path)) from None
    except OSError as error:
        raise InputOutputError(f"{shown(name)}: {error.strerror}", error.errno or 0, os.fspath(path)) from None
    if not is_netcdf(name):
        raise CorruptFileError(f"{shown(name)}: this is not a NetCDF-4 file")
    try:
        hdf = h5py.File(name, "r")
    except OSError as error:
        raise CorruptFileError(f"{shown(name)}: this is not a complete NetCDF-4 file: {error}") from None
    with hdf:
        yield Reader(name, hdf)
