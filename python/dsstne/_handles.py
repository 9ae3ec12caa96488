"""Objects of the native library as Python objects: each is closed once, also after Ctrl-C at any moment."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from dsstne import _native
from dsstne.errors import BusyError, DsstneError, InvalidHandleError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T", bound="Closing")


class Closing:
    """Base class of objects that own a native object; a ``with`` block closes them."""

    _handle: Handle

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has succeeded."""
        return self._handle.closed

    def close(self) -> None:
        """Closes the native object; closing twice does nothing."""
        self._handle.close()

    def __enter__(self: _T) -> _T:
        _ = self._handle.value  # raises an error if it is closed
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except BusyError:
            if kind is None:
                raise
            # Else what uses the object is in the traceback of the exception that ends the block, such as
            # KeyboardInterrupt. That exception is the one to report, and the object is closed after it.


class Undo:
    """Calls functions in reverse order at the end of a ``with`` block, like ``contextlib.ExitStack``.

    An exception that passes through an ExitStack may become part of a reference cycle. It would then keep models in
    memory until a garbage collection.
    """

    def __init__(self, functions: Sequence[Callable[[], object]] = ()) -> None:
        self._functions = list(functions)

    def callback(self, function: Callable[[], object]) -> None:
        """Adds a function."""
        self._functions.append(function)

    def pop_all(self) -> Undo:
        """Moves the functions to a new object."""
        moved = Undo(self._functions)
        self._functions = []
        return moved

    def close(self) -> None:
        """Calls the functions, also after one of them has raised an exception."""
        if self._functions:
            try:
                self._functions.pop()()
            finally:
                self.close()

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Native:
    """A native object: its number and the objects that must outlive it. It is closed when nothing refers to it.

    Ctrl-C that arrives in ``__del__`` ends ``__del__``. :class:`Handle` and this class therefore both call
    :meth:`release`: if one call is interrupted, the other closes the object.
    """

    __slots__ = ("kind", "number", "owners")

    def __init__(self, kind: str, owners: object) -> None:
        self.kind, self.owners = kind, owners
        self.number = _native.out_number()  # C writes here: Ctrl-C during the call does not lose the number

    def forget(self) -> None:
        """Drops the references after the object was closed."""
        self.number.value, self.owners = 0, None

    def release(self) -> None:
        """Closes the object.

        The garbage collector may reach a dataset before the trainer that uses it. The memory of the dataset is then
        kept, and :func:`close_abandoned` tries again.
        """
        number = self.number.value
        if number == 0 or sys is None or sys.is_finalizing() or _native.is_forked():
            return
        _abandoned[number] = self  # before the call: Ctrl-C leaves it for close_abandoned()
        try:
            _native.call(self.kind + "_close", number)
        except BusyError:
            return
        except DsstneError:
            pass  # already closed or lost, and no caller is left to report to
        self.forget()
        _abandoned.pop(number, None)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            self.release()


_abandoned: dict[int, _Native] = {}


def close_abandoned() -> None:
    """Tries again to close objects that were in use when they were collected."""
    if _abandoned and not _native.is_forked():
        for number, native in list(_abandoned.items()):
            native.release()
            if not native.number.value:  # Ctrl-C may have come before the line that removes it
                _abandoned.pop(number, None)


def _open_slowly(native: _Native, opener: str, *arguments: Any, cancels: bool) -> None:
    """Opens an object on another thread, so that Ctrl-C ends the wait; that thread is then the last to refer to it."""
    work = _native.Work(opener, lambda: _native.call(opener, *arguments, native.number), daemon=True)
    work.start()
    try:
        while not work.done.wait(0.1):
            pass
    except BaseException:
        while cancels and not work.done.wait(0.02):
            if native.number.value:  # C writes it when it begins
                with contextlib.suppress(DsstneError):  # the call has just ended
                    _native.call("cancel", native.number.value)
        raise
    work.raise_failure()


class Handle:
    """A native object that is closed once; it keeps the memory that it borrows alive until then.

    Args:
        opener: Name of the function that opens it; its first word is the kind of the object.
        arguments: Its arguments before the out-parameter.
        owners: Objects that must outlive the native object.
        slow: Opens it on another thread, so that Ctrl-C ends the wait. What is opened then is closed in the background.
        cancels: Ctrl-C also ends the opener, which writes the handle when it begins.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(
        self, opener: str, *arguments: Any, owners: object = None, slow: bool = False, cancels: bool = False
    ) -> None:
        self._native = _Native(opener.partition("_")[0], owners)
        close_abandoned()
        if slow:
            _open_slowly(self._native, opener, *arguments, cancels=cancels)
        else:
            _native.call(opener, *arguments, self._native.number)

    @classmethod
    def awaiting(cls, kind: str, owners: object = None) -> Handle:
        """Returns a closed handle; it is open when a call has written to its :attr:`number`."""
        handle = cls.__new__(cls)
        handle._native = _Native(kind, owners)
        close_abandoned()
        return handle

    @property
    def number(self) -> Any:
        """Where a call writes the number of an object that it opens."""
        return self._native.number

    @property
    def value(self) -> int:
        """The number that identifies the object in the C interface."""
        if self.closed:
            raise InvalidHandleError(f"this {self._native.kind} is closed")
        number: int = self._native.number.value
        return number

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._native.number.value

    def close(self) -> None:
        """Closes the object; closing twice does nothing. In a forked child, only the references are dropped.

        Raises:
            BusyError: Another object still uses it; it stays open.
        """
        try:
            if not self.closed and not _native.is_forked():
                _native.call(self._native.kind + "_close", self.value)
        except BusyError:
            raise
        except InvalidHandleError:
            pass  # another thread closed it, or Ctrl-C came before the lines below
        except DsstneError:  # it is closed, but closing reported an error
            self._native.forget()
            raise
        self._native.forget()

    def __del__(self) -> None:
        if hasattr(self, "_native"):
            self._native.release()
