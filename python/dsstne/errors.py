"""The one family of exceptions.

Every class is a :class:`DsstneError` and also the built-in exception that a reader would reach for, so that both
``except dsstne.DsstneError`` and, say, ``except ValueError`` do what they say.

Example:
    >>> from dsstne.errors import InvalidDataError, from_status
    >>> issubclass(InvalidDataError, ValueError)
    True
    >>> from_status(9, "the plan needs 3 GiB, 2 GiB are free")
    OutOfMemoryError('the plan needs 3 GiB, 2 GiB are free')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsstne.model import Model


class DsstneError(Exception):
    """Anything that this library raises.

    Attributes:
        model: The partially trained, usable model, where an exception ended a :func:`dsstne.fit` that had one.
    """

    model: Model | None = None


class InvalidArgumentError(DsstneError, ValueError):
    """An option, a name, a size or a shape that is not valid."""


class InvalidDataError(DsstneError, ValueError):
    """Input data that fails a check; the message names the place in the data."""


class InvalidHandleError(DsstneError, RuntimeError):
    """An object that is already closed."""


class InvalidStateError(DsstneError, RuntimeError):
    """A call at the wrong time, for example training before data is bound."""


class NotFoundError(DsstneError, KeyError):
    """A layer or tensor that is not there."""

    __str__ = Exception.__str__  # KeyError would print the message quoted


class MissingFileError(NotFoundError, FileNotFoundError):
    """A file that is not there."""


class InputOutputError(DsstneError, OSError):
    """The operating system refused to read or write."""


class CorruptFileError(DsstneError, ValueError):
    """A file that is not a model or not data, or whose content fails a check."""


class UnsupportedError(DsstneError, NotImplementedError):
    """Understood, but not available in this build or version."""


class OutOfMemoryError(DsstneError, MemoryError):
    """The memory plan does not fit, or memory was refused.

    Attributes:
        plan: The memory plan of the run that did not fit, as :meth:`dsstne.Trainer.plan` gives it, or None.
    """

    plan: dict[str, Any] | None = None


class DeviceUnavailableError(DsstneError, RuntimeError):
    """A device that was asked for is not available; the message says why."""


class DeviceFailedError(DsstneError, RuntimeError):
    """A device failed while it worked."""


class CancelledError(DsstneError, RuntimeError):
    """A call that was asked to end from elsewhere."""


class BusyError(DsstneError, RuntimeError):
    """The object is in use by another call or another object."""


class NotFiniteError(DsstneError, ArithmeticError):
    """A loss, gradient or weight became NaN or infinite; the model keeps its last finite weights."""


class InternalError(DsstneError, RuntimeError):
    """A defect of this library."""


class ForkError(DsstneError, RuntimeError):
    """The native library was used in a process that was forked after the library had been loaded."""


class LibraryError(DsstneError, ImportError):
    """The native library is missing, cannot be loaded, or is of another version."""


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


def from_status(status: int, message: str) -> DsstneError:
    """Makes the exception of a status code of ``dsstne.h``; an unknown code is an :class:`InternalError`."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        return InternalError(f"unknown status {status}: {message}")
    return kind(message)
