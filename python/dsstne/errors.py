"""The exceptions of the package.

Every class is a :class:`DsstneError` and also the built-in exception with the nearest meaning. Both
``except dsstne.DsstneError`` and, for example, ``except ValueError`` therefore work.

Example:
    >>> from dsstne.errors import InvalidDataError, from_status
    >>> issubclass(InvalidDataError, ValueError)
    True
    >>> from_status(9, "the plan needs 3 GiB, 2 GiB are free")
    OutOfMemoryError('the plan needs 3 GiB, 2 GiB are free')
"""

from __future__ import annotations

import errno
import os
from typing import Any


class DsstneError(Exception):
    """Base class of the exceptions of this package.

    Attributes:
        model: The partially trained, usable model if the exception ended the training of :func:`dsstne.fit`, or None.
    """

    model: Any = None  # a dsstne.Model or None; this module imports no other

    __str__ = Exception.__str__  # KeyError would put the message in quotes, and OSError another before it


class InvalidArgumentError(DsstneError, ValueError):
    """An option, a name, a size or a shape is not valid."""


class InvalidDataError(DsstneError, ValueError):
    """Input data are damaged; the message names the place in the data."""


class InvalidHandleError(DsstneError, RuntimeError):
    """The object is already closed."""


class InvalidStateError(DsstneError, RuntimeError):
    """A call came at the wrong time, for example training before data are bound."""


class NotFoundError(DsstneError, KeyError):
    """A layer or tensor does not exist."""


class _SystemError(DsstneError, OSError):
    def __init__(self, message: str = "", number: int = 0, path: Any = None) -> None:
        super().__init__(message)
        if number:
            self.errno, self.strerror = number, os.strerror(number)
        self.filename = path

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.errno or 0, self.filename), self.__dict__ or None


class MissingFileError(_SystemError, NotFoundError, FileNotFoundError):
    """A file does not exist; ``filename`` is its name and ``errno`` is ``errno.ENOENT``."""


class InputOutputError(_SystemError):
    """The operating system refused to read or write a file.

    Attributes:
        errno: The number of the error, such as ``errno.ENOSPC``; None if the operating system gave none.
        strerror: Its text, or None.
        filename: The path as it was given.
    """


class CorruptFileError(DsstneError, ValueError):
    """A file is not a model or data file, or is damaged."""


class UnsupportedError(DsstneError, NotImplementedError):
    """The request is valid, but this build or version does not support it."""


class OutOfMemoryError(DsstneError, MemoryError):
    """The memory plan does not fit, or an allocation failed.

    Attributes:
        plan: The memory plan of the run that did not fit, as returned by :meth:`dsstne.Trainer.plan`, or None.
    """

    plan: dict[str, Any] | None = None


class DeviceUnavailableError(DsstneError, RuntimeError):
    """A requested device is not available; the message says why."""


class DeviceFailedError(DsstneError, RuntimeError):
    """A device failed during its work."""


class CancelledError(DsstneError, RuntimeError):
    """The call was cancelled."""


class BusyError(DsstneError, RuntimeError):
    """Another call or object is using this object."""


class NotFiniteError(DsstneError, ArithmeticError):
    """A loss, gradient or weight became NaN or infinite; the model keeps its last finite weights."""


class ClusterError(DsstneError, RuntimeError):
    """A cluster of Dask has no suitable worker, or lost the worker, the data or the scheduler of a job."""


class InternalError(DsstneError, RuntimeError):
    """A bug in this library."""


class ForkError(DsstneError, RuntimeError):
    """The native library was used in a process that was forked after the library had been loaded."""


class LibraryError(DsstneError, ImportError):
    """The native library is missing, cannot be loaded, or has another version."""


_BY_STATUS: dict[int, type[DsstneError]] = {
    1: InvalidArgumentError,
    2: InvalidHandleError,
    3: InvalidStateError,
    4: InvalidDataError,
    5: NotFoundError,
    6: InputOutputError,
    7: CorruptFileError,
    8: UnsupportedError,
    9: OutOfMemoryError,
    10: DeviceUnavailableError,
    11: DeviceFailedError,
    12: CancelledError,
    13: BusyError,
    14: NotFiniteError,
    15: InternalError,
}


def from_status(status: int, message: str, number: int = 0) -> DsstneError:
    """Returns the exception for a status code of ``dsstne.h``; an unknown code gives an :class:`InternalError`.

    Args:
        status: The status.
        message: Text of the exception.
        number: ``errno`` of the operating system's error that caused it, or 0.
    """
    kind = _BY_STATUS.get(status)
    if kind is None:
        return InternalError(f"unknown status {status}: {message}")
    if kind is NotFoundError and number == errno.ENOENT:
        kind = MissingFileError
    return kind(message, number) if issubclass(kind, _SystemError) else kind(message)
