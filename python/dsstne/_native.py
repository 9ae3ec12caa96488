"""The C interface of ``include/dsstne.h`` and nothing else: load, declare, call, translate errors, close.

The library is loaded by the first call, never by ``import dsstne``, so a process may fork freely until then. After the
first call a forked child cannot use it: its threads exist in the parent only, and any call could wait for ever. Every
call therefore compares process ids and raises :class:`~dsstne.errors.ForkError` instead.

``ctypes.CDLL`` releases the interpreter lock during each call; the library never calls back into Python.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne.errors import (
    BusyError,
    DsstneError,
    ForkError,
    InvalidHandleError,
    LibraryError,
    from_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ABI_MAJOR, ABI_MINOR = 1, 1  # DSSTNE_ABI_VERSION of the header that this file was written from


# ---- structs ----


class ErrorStruct(ctypes.Structure):
    """``dsstne_error``."""

    _fields_ = (("struct_size", c_uint32), ("status", c_int32), ("message", c_char * 1024))


class DatasetInfoStruct(ctypes.Structure):
    """``dsstne_dataset_info``."""

    _fields_ = (
        ("struct_size", c_uint32),
        ("index_bits", c_uint32),
        ("offset_bits", c_uint32),
        ("value_bits", c_uint32),
        ("rows", c_int64),
        ("columns", c_int64),
        ("non_zeros", c_int64),
        ("bytes", c_int64),
        ("minimum", c_double),
        ("maximum", c_double),
        ("offsets", c_void_p),
        ("indices", c_void_p),
        ("values", c_void_p),
    )


class ProgressStruct(ctypes.Structure):
    """``dsstne_progress``."""

    _fields_ = (
        ("struct_size", c_uint32),
        ("running", c_uint32),
        ("step", c_uint64),
        ("steps_per_epoch", c_uint64),
        ("epoch", c_uint64),
        ("examples", c_uint64),
        ("loss", c_double),
        ("epoch_loss", c_double),
        ("learning_rate", c_double),
        ("examples_per_second", c_double),
        ("seconds", c_double),
    )


# ---- functions ----

_STATUS, _VERSION, _NOTHING = c_int32, c_uint32, None
_HANDLE, _OUT_HANDLE, _ERROR = c_uint64, POINTER(c_uint64), POINTER(ErrorStruct)
_TEXT, _BUFFER, _LENGTH, _ARRAY = c_char_p, c_void_p, POINTER(c_size_t), c_void_p
_PROGRESS, _INFO, _STRUCT = POINTER(ProgressStruct), POINTER(DatasetInfoStruct), c_void_p
_ITEMS = (_ARRAY, c_int64)

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "abi_version": (_VERSION, ()),
    "version": (c_char_p, ()),
    "configure": (_STATUS, (_TEXT, _ERROR)),
    "describe": (_STATUS, (_BUFFER, _LENGTH, _ERROR)),
    "cancel": (_STATUS, (_HANDLE, _ERROR)),
    "release_array": (_NOTHING, (_STRUCT,)),
    "release_schema": (_NOTHING, (_STRUCT,)),
    "dataset_open": (_STATUS, (_STRUCT, _STRUCT, _TEXT, _OUT_HANDLE, _ERROR)),
    "dataset_open_file": (_STATUS, (_TEXT, _TEXT, _OUT_HANDLE, _ERROR)),
    "dataset_get_info": (_STATUS, (_HANDLE, _INFO, _ERROR)),
    "dataset_close": (_STATUS, (_HANDLE, _ERROR)),
    "model_create": (_STATUS, (_TEXT, _TEXT, _OUT_HANDLE, _ERROR)),
    "model_load": (_STATUS, (_TEXT, _TEXT, _OUT_HANDLE, _ERROR)),
    "model_save": (_STATUS, (_HANDLE, _TEXT, _TEXT, _ERROR)),
    "model_describe": (_STATUS, (_HANDLE, _BUFFER, _LENGTH, _ERROR)),
    "model_get_tensor": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_size_t, _ERROR)),
    "model_set_tensor": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_size_t, _ERROR)),
    "model_copy": (_STATUS, (_HANDLE, _OUT_HANDLE, _ERROR)),
    "model_close": (_STATUS, (_HANDLE, _ERROR)),
    "trainer_open": (_STATUS, (_HANDLE, _TEXT, _OUT_HANDLE, _ERROR)),
    "trainer_bind": (_STATUS, (_HANDLE, _TEXT, _HANDLE, _ERROR)),
    "trainer_plan": (_STATUS, (_HANDLE, _BUFFER, _LENGTH, _ERROR)),
    "trainer_run": (_STATUS, (_HANDLE, c_uint64, c_double, _PROGRESS, _ERROR)),
    "trainer_progress": (_STATUS, (_HANDLE, _PROGRESS, _ERROR)),
    "trainer_close": (_STATUS, (_HANDLE, _ERROR)),
    "predictor_open": (_STATUS, (_HANDLE, _TEXT, _OUT_HANDLE, _ERROR)),
    "predictor_plan": (_STATUS, (_HANDLE, _TEXT, _BUFFER, _LENGTH, _ERROR)),
    "predictor_bind": (_STATUS, (_HANDLE, _TEXT, _HANDLE, _ERROR)),
    "predictor_predict": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_int64, _ARRAY, c_int64, _ERROR)),
    "predictor_recommend": (
        _STATUS,
        (_HANDLE, _ARRAY, c_int64, _HANDLE, *_ITEMS, c_int64, _TEXT, _ARRAY, _ARRAY, _ERROR),
    ),
    "predictor_neighbors": (
        _STATUS,
        (_HANDLE, _TEXT, _ARRAY, c_int64, *_ITEMS, c_int64, _TEXT, _ARRAY, _ARRAY, _ERROR),
    ),
    "predictor_evaluate": (
        _STATUS,
        (_HANDLE, _HANDLE, _HANDLE, _ARRAY, c_int64, *_ITEMS, _TEXT, _BUFFER, _LENGTH, _ARRAY, _ERROR),
    ),
    "predictor_close": (_STATUS, (_HANDLE, _ERROR)),
}


class _Library:
    """The loaded library: one attribute per function, declared."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        library = ctypes.CDLL(str(path), mode=getattr(os, "RTLD_LOCAL", 0) | getattr(os, "RTLD_NOW", 2))
        self._check_version(library, path)
        self.functions: dict[str, Any] = {}
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "dsstne_" + name)
            function.restype, function.argtypes = result, arguments
            self.functions[name] = function
        array, schema = self.functions["release_array"], self.functions["release_schema"]
        self._name_folders()
        self.release_callbacks = (ctypes.cast(array, c_void_p).value or 0, ctypes.cast(schema, c_void_p).value or 0)

    def _name_folders(self) -> None:
        """Tells where NVIDIA's packages have put libraries that several GPUs need, such as NCCL."""
        folders = [str(folder) for entry in sys.path if (folder := Path(entry) / "nvidia").is_dir()]
        error = _new_error()
        _check(self.functions["configure"](json.dumps({"libraries": folders}).encode(), byref(error)), error)

    @staticmethod
    def _check_version(library: ctypes.CDLL, path: Path) -> None:
        number = library.dsstne_abi_version
        number.restype, number.argtypes = c_uint32, ()
        major, minor = divmod(int(number()), 1 << 16)
        if major != ABI_MAJOR or minor < ABI_MINOR:
            raise LibraryError(
                f"{path} speaks version {major}.{minor} of the C interface, and this package ({Path(__file__).parent}) "
                f"needs {ABI_MAJOR}.{ABI_MINOR}: they come from different releases; reinstall dsstne"
            )


_library: _Library | None = None
# Held while the library is loaded, and while the names of items, which are two tensors, are set or read. A fork waits
# for whoever holds it, so that a child never sees half of a load and finds the lock free.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def library_paths() -> list[Path]:
    """Where the native library is looked for, in order; ``DSSTNE_LIBRARY`` names one to take instead."""
    named = os.environ.get("DSSTNE_LIBRARY")
    return [Path(named)] if named else [Path(__file__).parent / "_lib" / "libdsstne.so"]


def is_forked() -> bool:
    """Tells whether this process was forked after the library had been loaded."""
    return _library is not None and _library.pid != os.getpid()


def library() -> _Library:
    """Returns the library, loaded if need be.

    Raises:
        LibraryError: It is missing, cannot be loaded, or is of another version.
        ForkError: This process was forked after the library had been loaded.
    """
    global _library
    loaded = _library
    if loaded is None:
        with lock:
            if _library is None:
                _library = _load()
            loaded = _library
    if loaded.pid != os.getpid():
        raise ForkError(
            f"dsstne was used in process {loaded.pid} before that process forked this one ({os.getpid()}), where its "
            'threads do not exist. Start processes with multiprocessing.get_context("spawn") or "forkserver", or fork '
            "before the first use of dsstne (importing alone does not count)"
        )
    return loaded


def _load() -> _Library:
    tried = []
    for path in library_paths():
        if not path.exists():
            tried.append(f"  {path}: no such file")
            continue
        try:
            return _Library(path)
        except LibraryError:
            raise
        except (OSError, AttributeError) as error:
            tried.append(f"  {path}: {error}")
    text = "\n".join(tried)
    raise LibraryError(f"the native library of dsstne could not be loaded. Tried:\n{text}\n{_likely_cause(text)}")


def _likely_cause(text: str) -> str:
    if sys.platform == "linux" and platform.libc_ver()[0] != "glibc":
        return "This Python does not run on glibc (Alpine?), which the library needs; use a glibc-based image."
    if "static TLS" in text:
        return "Another library took the space for thread-local data; call dsstne.doctor() before importing it."
    if "no such file" in text:
        return "The package was installed without its library: install a wheel, or run `make build` in a checkout."
    return f"Was it built for another kind of machine? This one is {sys.platform} on {platform.machine()}."


# ---- calls ----


def _check(status: int, error: ErrorStruct) -> None:
    """Turns a status into an exception; the one place where that happens."""
    if status != 0:
        raise from_status(status, error.message.decode("utf-8", "replace"))


def _new_error() -> ErrorStruct:
    return ErrorStruct(struct_size=ctypes.sizeof(ErrorStruct))


def call(name: str, *arguments: Any) -> None:
    """Calls ``dsstne_<name>`` with the arguments and an error struct, and raises what it reports.

    An array among the arguments is passed as the address of its first element.
    """
    function = library().functions[name]
    error = _new_error()
    plain = [argument.ctypes.data if hasattr(argument, "ctypes") else argument for argument in arguments]
    _check(function(*plain, byref(error)), error)


class TextBuffer:
    """Memory for a text that C writes, as the two arguments (buffer, length) of the header's convention."""

    def __init__(self, capacity: int = 1 << 14) -> None:
        self._buffer, self._length = ctypes.create_string_buffer(capacity), c_size_t(capacity)

    @property
    def arguments(self) -> tuple[Any, Any]:
        """The two arguments."""
        return self._buffer, byref(self._length)

    @property
    def needed(self) -> int:
        """Bytes that the text needs, after the call."""
        return int(self._length.value)

    @property
    def text(self) -> str | None:
        """The text, or None if it did not fit."""
        return self._buffer.value.decode("utf-8") if self.needed <= len(self._buffer) else None


def call_text(name: str, *arguments: Any) -> str:
    """Calls a function that writes text into (buffer, length), again if the text did not fit."""
    capacity = 1 << 14
    while True:
        buffer = TextBuffer(capacity)
        call(name, *arguments, *buffer.arguments)
        if (text := buffer.text) is not None:
            return text
        capacity = buffer.needed


def call_interruptibly(
    handle: Handle,
    name: str,
    *arguments: Any,
    poll: Callable[[], None] | None = None,
    interval: float = 0.05,
) -> None:
    """Calls a long function on a thread of its own, so that Ctrl-C is seen while it runs.

    An exception in this thread (KeyboardInterrupt, or what ``poll`` raises) asks the call to end at its next safe
    point, waits until it has, and is then raised. A second Ctrl-C does not cut the wait short: the call works on memory
    that must not go away.

    Args:
        handle: The trainer or predictor that the call runs on, its first argument.
        name: The function.
        arguments: Its other arguments without the error; arrays among them live until the call has ended.
        poll: Called in this thread every ``interval`` seconds while the call runs.
        interval: Seconds between polls.
    """
    failures: list[BaseException] = []
    done = threading.Event()
    value = handle.value
    claim: dict[str, str] = {}  # who enters a name first decides whether the call is made at all

    def work() -> None:
        try:
            if claim.setdefault("by", "worker") == "worker":
                call(name, value, *arguments)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work, name="dsstne-" + name)
    stop: BaseException | None = None
    while True:
        # Ctrl-C may arrive between any two instructions, so all that works or waits is inside, and the next round goes
        # on. Only a second one at the very jump back is not caught; the arrays outlive the call even then.
        try:
            if stop is not None and claim.setdefault("by", "caller") == "caller":
                break  # the call had not begun, and never will
            if stop is None:
                thread.start()
            while not done.is_set():
                if stop is not None:
                    call("cancel", value)  # again each time: the first may have come before the call had begun
                if not done.wait(interval) and poll is not None and stop is None:
                    poll()
            break
        except BaseException as error:
            stop = stop or error
    if stop is not None:
        raise stop
    if failures:
        raise failures[0]


# ---- handles ----

_abandoned: list[tuple[str, int, object]] = []


class Handle:
    """A native object, closed once; its owners (what it borrows) are kept alive until closing has succeeded.

    Args:
        kind: ``"dataset"``, ``"model"``, ``"trainer"`` or ``"predictor"``.
        opener: Name of the function that opens it.
        arguments: Its arguments before the out-parameter.
        owners: Whatever must outlive the native object.
    """

    __slots__ = ("__weakref__", "_kind", "_owners", "_value")

    def __init__(self, kind: str, opener: str, *arguments: Any, owners: object = None) -> None:
        self._kind, self._owners = kind, owners
        self._value = c_uint64(0)  # C writes here, so that Ctrl-C during the call does not lose the number
        close_abandoned()
        call(opener, *arguments, byref(self._value))

    @property
    def value(self) -> int:
        """The number that C knows it by."""
        if self.closed:
            raise InvalidHandleError(f"this {self._kind} is closed")
        return self._value.value

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._value.value

    def close(self) -> None:
        """Closes it; closing twice does nothing. In a forked child, where nothing is to be closed, it only forgets.

        Raises:
            BusyError: Something still uses it; it stays open.
        """
        try:
            if not self.closed and not is_forked():
                call(self._kind + "_close", self.value)
        except BusyError:
            raise
        except InvalidHandleError:
            pass  # it is closed, but Ctrl-C came before that was noted
        except DsstneError:  # it is closed, and had something to tell
            self._value.value, self._owners = 0, None
            raise
        self._value.value, self._owners = 0, None

    def __del__(self) -> None:
        if not hasattr(self, "_value") or self.closed or sys is None or sys.is_finalizing() or is_forked():
            return
        _close_or_keep(self._kind + "_close", self.value, self._owners)


def _close_or_keep(name: str, value: int, owners: object) -> None:
    """Closes what nobody refers to any more.

    The collector may come to a dataset before the trainer that uses it: then its memory is kept and closing is tried
    again later.
    """
    try:
        call(name, value)
    except BusyError:
        _abandoned.append((name, value, owners))
    except DsstneError:
        pass  # closed or lost already, and nobody is left to be told


def close_abandoned() -> None:
    """Tries again to close what was in use when it was collected."""
    if _abandoned and not is_forked():
        pending = _abandoned[:]
        del _abandoned[: len(pending)]
        for name, value, owners in pending:
            _close_or_keep(name, value, owners)


# ---- what the header's structs say, as Python values ----


def dataset_info(handle: Handle) -> dict[str, Any]:
    """Returns the fields of ``dsstne_dataset_info``; addresses are integers or None."""
    info = DatasetInfoStruct(struct_size=ctypes.sizeof(DatasetInfoStruct))
    call("dataset_get_info", handle.value, byref(info))
    return {name: getattr(info, name) for name, _ in DatasetInfoStruct._fields_[1:]}


_PROGRESS_FIELDS = tuple(name for name, _ in ProgressStruct._fields_[1:])


def trainer_progress(handle: Handle) -> dict[str, Any]:
    """Returns the fields of ``dsstne_progress``."""
    progress = ProgressStruct(struct_size=ctypes.sizeof(ProgressStruct))
    call("trainer_progress", handle.value, byref(progress))
    return {name: getattr(progress, name) for name in _PROGRESS_FIELDS}


def trainer_run(
    handle: Handle, steps: int, seconds: float, *, brief: bool, poll: Callable[[], None] | None
) -> dict[str, Any]:
    """Trains for so many steps or seconds (0: no such limit) and returns what :func:`trainer_progress` does.

    A brief run, which is over before anyone gets impatient, is not worth a thread of its own.
    """
    progress = ProgressStruct(struct_size=ctypes.sizeof(ProgressStruct))
    if brief:
        call("trainer_run", handle.value, steps, seconds, byref(progress))
    else:
        call_interruptibly(handle, "trainer_run", steps, seconds, byref(progress), poll=poll)
    return {name: getattr(progress, name) for name in _PROGRESS_FIELDS}


def describe_library() -> dict[str, Any]:
    """Returns what ``dsstne_describe`` says."""
    description: dict[str, Any] = json.loads(call_text("describe"))
    return description


def release_callbacks() -> tuple[int, int]:
    """Returns the addresses of ``dsstne_release_array`` and ``dsstne_release_schema``."""
    return library().release_callbacks
