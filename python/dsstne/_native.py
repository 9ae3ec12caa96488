"""The C interface of ``include/dsstne.h``: loads the library, declares and calls its functions, translates errors.

The first call loads the library; ``import dsstne`` does not. A process may fork before the first call. Afterwards a
forked child cannot use the library: its threads exist only in the parent, and a call could wait for ever. Every call
therefore compares process ids and raises :class:`~dsstne.errors.ForkError` in a child.

``ctypes.CDLL`` releases the interpreter lock during each call; the library never calls back into Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import struct
import sys
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne import _limits
from dsstne.errors import ForkError, LibraryError, from_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dsstne._handles import Handle

ABI_MAJOR, ABI_MINOR = 1, 9  # DSSTNE_ABI_VERSION of the header that this file declares
_M_ARENA_MAX = -8  # of malloc.h


# ---- structs ----


class ErrorStruct(ctypes.Structure):
    """``dsstne_error``."""

    _fields_ = (
        *(("struct_size", c_uint32), ("status", c_int32)),
        *(("message", c_char * 1024), ("system_error", c_int32)),
    )


class DatasetInfoStruct(ctypes.Structure):
    """``dsstne_dataset_info``."""

    _fields_ = (
        *((name, c_uint32) for name in ("struct_size", "index_bits", "offset_bits", "value_bits")),
        *((name, c_int64) for name in ("rows", "columns", "non_zeros", "bytes")),
        *((name, c_double) for name in ("minimum", "maximum")),
        *((name, c_void_p) for name in ("offsets", "indices", "values")),
    )


_INFO = struct.Struct("=4I4q2d3Q")  # the same
_NO_BYTES = c_char * 0


class ProgressStruct(ctypes.Structure):
    """``dsstne_progress``."""

    _fields_ = (
        *((name, c_uint32) for name in ("struct_size", "running")),
        *((name, c_uint64) for name in ("step", "steps_per_epoch", "epoch", "examples")),
        *((name, c_double) for name in ("loss", "epoch_loss", "learning_rate", "examples_per_second", "seconds")),
    )


class SolverStateStruct(ctypes.Structure):
    """``dsstne_solver_state``."""

    _fields_ = (
        *((name, c_uint32) for name in ("struct_size", "running")),
        *((name, c_uint64) for name in ("done", "steps")),
        ("seconds", c_double),
        ("unfinished", c_uint64),
    )


# ---- functions ----

_STATUS, _VERSION, _NOTHING = c_int32, c_uint32, None
_HANDLE, _OUT_HANDLE, _ERROR = c_uint64, POINTER(c_uint64), POINTER(ErrorStruct)
_TEXT, _BUFFER, _LENGTH, _ARRAY = c_char_p, c_void_p, POINTER(c_size_t), c_void_p
_PROGRESS, _OUT_INFO, _STRUCT = POINTER(ProgressStruct), POINTER(DatasetInfoStruct), c_void_p
_STATE = POINTER(SolverStateStruct)
_LIST = (_ARRAY, c_int64)

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
    "dataset_read_text": (_STATUS, (*_LIST, _TEXT, *(c_int64, _ARRAY, _ARRAY) * 2, _OUT_HANDLE, _ERROR)),
    "dataset_get_info": (_STATUS, (_HANDLE, _OUT_INFO, _ERROR)),
    "dataset_product": (_STATUS, (_HANDLE, _HANDLE, _TEXT, _OUT_HANDLE, _ERROR)),
    "dataset_index": (_STATUS, (_HANDLE, _ARRAY, c_int64, _TEXT, _OUT_HANDLE, _ERROR)),
    "dataset_save": (_STATUS, (_HANDLE, _TEXT, _TEXT, *(_ARRAY,) * 4, _ERROR)),
    "dataset_describe": (_STATUS, (_HANDLE, _BUFFER, _LENGTH, _ERROR)),
    "dataset_get_rows": (_STATUS, (_HANDLE, *_LIST, *(_ARRAY,) * 3, c_int64, _ERROR)),
    "dataset_get_array": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_size_t, _ERROR)),
    "dataset_close": (_STATUS, (_HANDLE, _ERROR)),
    "index_read": (_STATUS, (_TEXT, _ARRAY, _ARRAY, _LENGTH, _ARRAY, _ERROR)),
    "index_write": (_STATUS, (_TEXT, c_int64, _ARRAY, _ARRAY, _ERROR)),
    "network_read": (_STATUS, (_TEXT, _TEXT, _BUFFER, _LENGTH, _ERROR)),
    "model_create": (_STATUS, (_TEXT, _TEXT, _OUT_HANDLE, _ERROR)),
    "model_load": (_STATUS, (_TEXT, _TEXT, _OUT_HANDLE, _ERROR)),
    "model_save": (_STATUS, (_HANDLE, _TEXT, _TEXT, _ERROR)),
    "model_describe": (_STATUS, (_HANDLE, _BUFFER, _LENGTH, _ERROR)),
    "model_get_attribute": (_STATUS, (_HANDLE, _TEXT, _BUFFER, _LENGTH, _ERROR)),
    "model_get_tensor": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_size_t, _ERROR)),
    "model_set_tensor": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_size_t, _ERROR)),
    "model_get_rows": (_STATUS, (_HANDLE, _TEXT, c_int64, c_int64, _ARRAY, c_size_t, _ERROR)),
    "model_set_rows": (_STATUS, (_HANDLE, _TEXT, c_int64, c_int64, _ARRAY, c_size_t, _ERROR)),
    "model_copy": (_STATUS, (_HANDLE, _OUT_HANDLE, _ERROR)),
    "model_from_solver": (_STATUS, (_HANDLE, _OUT_HANDLE, _ERROR)),
    "model_close": (_STATUS, (_HANDLE, _ERROR)),
    "trainer_open": (_STATUS, (_HANDLE, _TEXT, _OUT_HANDLE, _ERROR)),
    "trainer_bind": (_STATUS, (_HANDLE, _TEXT, _HANDLE, _ERROR)),
    "trainer_set_row_weights": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_int64, _ERROR)),
    "trainer_plan": (_STATUS, (_HANDLE, _BUFFER, _LENGTH, _ERROR)),
    "trainer_run": (_STATUS, (_HANDLE, c_uint64, c_double, _PROGRESS, _ERROR)),
    "trainer_profile": (_STATUS, (_HANDLE, c_uint64, _BUFFER, _LENGTH, _ERROR)),
    "trainer_progress": (_STATUS, (_HANDLE, _PROGRESS, _ERROR)),
    "trainer_save": (_STATUS, (_HANDLE, _TEXT, _TEXT, _HANDLE, _ERROR)),
    "trainer_settle": (_STATUS, (_HANDLE, _ERROR)),
    "trainer_resume": (_STATUS, (_HANDLE, _TEXT, _OUT_HANDLE, _ERROR)),
    "trainer_fork": (_STATUS, (_HANDLE, _TEXT, _OUT_HANDLE, _OUT_HANDLE, _ERROR)),
    "trainer_continue": (_STATUS, (_HANDLE, _HANDLE, _ERROR)),
    "trainer_close": (_STATUS, (_HANDLE, _ERROR)),
    "predictor_open": (_STATUS, (_HANDLE, _TEXT, _OUT_HANDLE, _ERROR)),
    "predictor_plan": (_STATUS, (_HANDLE, _TEXT, _BUFFER, _LENGTH, _ERROR)),
    "predictor_bind": (_STATUS, (_HANDLE, _TEXT, _HANDLE, _ERROR)),
    "predictor_predict": (_STATUS, (_HANDLE, _TEXT, *_LIST, _ARRAY, c_int64, _ERROR)),
    "predictor_recommend": (_STATUS, (_HANDLE, *_LIST, _HANDLE, *_LIST, c_int64, _TEXT, _ARRAY, _ARRAY, _ERROR)),
    "predictor_neighbors": (_STATUS, (_HANDLE, _TEXT, *_LIST, *_LIST, c_int64, _TEXT, _ARRAY, _ARRAY, _ERROR)),
    "predictor_search": (
        _STATUS,
        (_HANDLE, _TEXT, *_LIST, c_int64, *_LIST, c_int64, _TEXT, _ARRAY, _ARRAY, _ERROR),
    ),
    "predictor_evaluate": (_STATUS, (*(_HANDLE,) * 3, *_LIST, *_LIST, _TEXT, _BUFFER, _LENGTH, _ARRAY, _ERROR)),
    "predictor_serve": (_STATUS, (_HANDLE, *_LIST, c_int64, _TEXT, _ERROR)),
    "predictor_ask": (_STATUS, (_HANDLE, _STRUCT, c_int64, _STRUCT, c_int64, _ARRAY, _ARRAY, _ERROR)),
    "predictor_close": (_STATUS, (_HANDLE, _ERROR)),
    "solver_open": (_STATUS, (_TEXT, _OUT_HANDLE, _ERROR)),
    "solver_bind": (_STATUS, (_HANDLE, _TEXT, _HANDLE, _ERROR)),
    "solver_plan": (_STATUS, (_HANDLE, _BUFFER, _LENGTH, _ERROR)),
    "solver_run": (_STATUS, (_HANDLE, c_double, _STATE, _ERROR)),
    "solver_progress": (_STATUS, (_HANDLE, _STATE, _ERROR)),
    "solver_get_array": (_STATUS, (_HANDLE, _TEXT, _ARRAY, c_size_t, _ERROR)),
    "solver_close": (_STATUS, (_HANDLE, _ERROR)),
}


class _Library:
    """The loaded library and its declared functions by name."""

    def __init__(self, path: Path) -> None:
        self.path, self.pid = path, os.getpid()
        library = ctypes.CDLL(str(path), mode=getattr(os, "RTLD_LOCAL", 0) | getattr(os, "RTLD_NOW", 2))
        _check_version(library, path)
        self.functions: dict[str, Any] = {}
        for name, (result, arguments) in _FUNCTIONS.items():
            function = self.functions[name] = getattr(library, "dsstne_" + name)
            function.restype, function.argtypes = result, arguments
        error = _sized(ErrorStruct)
        _check(self.functions["configure"](json.dumps({"libraries": _nvidia_folders()}).encode(), byref(error)), error)


def _nvidia_folders() -> list[str]:
    """Returns the folders into which NVIDIA's packages put libraries that several GPUs need, such as NCCL.

    As Python does, this ignores entries of sys.path that are not the name of a readable folder.
    """
    folders = []
    for entry in sys.path:
        with contextlib.suppress(OSError, TypeError, ValueError):
            folder = Path(entry).absolute() / "nvidia"  # an empty entry means the working directory
            if folder.is_dir():
                folders.append(str(folder))
    return folders


def _check_version(library: ctypes.CDLL, path: Path) -> None:
    number = library.dsstne_abi_version
    number.restype, number.argtypes = c_uint32, ()
    major, minor = divmod(int(number()), 1 << 16)
    if major != ABI_MAJOR or minor < ABI_MINOR:
        raise LibraryError(
            f"{path} has version {major}.{minor} of the C interface, but this package ({Path(__file__).parent}) needs "
            f"{ABI_MAJOR}.{ABI_MINOR}: the two come from different releases; reinstall dsstne"
        )


_library: _Library | None = None
# Held while the library is loaded, and while item names, which are two tensors, are set or read. A fork acquires the
# lock first; the child therefore never sees a half-done load, and finds the lock free.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def library_paths() -> list[Path]:
    """Returns the paths to try for the native library, in order; ``DSSTNE_LIBRARY`` replaces them."""
    named = os.environ.get("DSSTNE_LIBRARY")
    # Path drops a leading "./", without which the system would search elsewhere.
    return [Path(named).absolute()] if named else [Path(__file__).parent / "_lib" / "libdsstne.so"]


def is_forked() -> bool:
    """Reports whether this process was forked after the library had been loaded."""
    return _library is not None and _library.pid != os.getpid()


def library() -> _Library:
    """Returns the library; the first call loads it.

    Raises:
        LibraryError: It is missing, cannot be loaded, or has another version.
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
            f"process {loaded.pid} used dsstne and then forked this process ({os.getpid()}), in which the library's "
            'threads do not exist. Start processes with multiprocessing.get_context("spawn") or "forkserver", or fork '
            "before the first use of dsstne (an import is not a use)"
        )
    return loaded


def _load() -> _Library:
    tried = []
    if _limits.check_addresses():
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)  # by default, each thread reserves 64 MiB of addresses
    _limits.check_threads()
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
        return "The library needs glibc, but this Python runs without it (Alpine?); use a glibc-based image."
    if "static TLS" in text:
        return "Another library uses the space for thread-local data; call dsstne.doctor() before you import it."
    if "no such file" in text:
        return "The package was installed without its library: install a wheel, or run `make build` in a checkout."
    return f"Was it built for another kind of machine? This one is {sys.platform} on {platform.machine()}."


# ---- calls ----


def _check(status: int, error: ErrorStruct) -> None:
    """Raises the exception for a status that is not 0."""
    if status != 0:
        raise from_status(status, error.message.decode("utf-8", "replace"), error.system_error)


def call(name: str, *arguments: Any) -> None:
    """Calls ``dsstne_<name>`` with the arguments and an error struct; raises the error that it reports.

    An array among the arguments is passed as the address of its first element.
    """
    function = library().functions[name]
    error = _sized(ErrorStruct)
    plain = [address(argument) if isinstance(argument, np.ndarray) else argument for argument in arguments]
    _check(function(*plain, byref(error)), error)


def address(array: Any) -> int:
    """Returns the address of the first element of a contiguous array."""
    if array.flags.writeable:
        return ctypes.addressof(_NO_BYTES.from_buffer(array))  # takes less than half of the time of the line below
    return int(array.ctypes.data)


def out_number() -> Any:
    """Allocates the number of a handle, 0; as an argument it is where C writes."""
    return c_uint64(0)


def out_size(capacity: int) -> Any:
    """Allocates a capacity that C replaces by a size; ``.contents.value`` reads it."""
    return ctypes.pointer(c_size_t(capacity))


def texts(items: Sequence[bytes]) -> Any:
    """Returns the array of strings that C takes as ``const char *const *``."""
    return (c_char_p * len(items))(*items)


def text_buffer(capacity: int = 1 << 14) -> tuple[Any, Any]:
    """Allocates memory for text that C writes; returns the arguments (buffer, length) of the header's functions."""
    return ctypes.create_string_buffer(capacity), ctypes.pointer(c_size_t(capacity))


def call_json(name: str, *arguments: Any) -> dict[str, Any]:
    """Calls a function that writes JSON into (buffer, length), if needed with a larger buffer; decodes the JSON."""
    buffer, length = text_buffer()
    while True:
        call(name, *arguments, buffer, length)
        if length.contents.value <= len(buffer):
            return read_json(buffer)
        buffer, length = text_buffer(length.contents.value)


def call_text(name: str, *arguments: Any, size: int) -> str:
    """Calls a function that writes a text of ``size`` bytes into (buffer, length); the text may contain NUL."""
    buffer, length = text_buffer(size + 1)
    call(name, *arguments, buffer, length)
    return str(memoryview(buffer)[:size], "utf-8")


def read_json(buffer: Any) -> dict[str, Any]:
    """Decodes the JSON in a :func:`text_buffer`."""
    answer: dict[str, Any] = json.loads(buffer.value)
    return answer


_thread = threading.local()  # its attribute ``poll`` is what watched() has set


@contextlib.contextmanager
def watched(poll: Callable[[], None]) -> Iterator[None]:
    """Calls a function 20 times a second while this thread waits for a long call in the block.

    An exception of the function ends the call, as Ctrl-C does, and then the block.
    """
    before = getattr(_thread, "poll", None)
    _thread.poll = poll
    try:
        yield
    finally:
        _thread.poll = before


def call_interruptibly(
    handle: Handle, name: str, *arguments: Any, brief: bool = False, poll: Callable[[], None] | None = None
) -> None:
    """Calls a long function on a separate thread, so that Ctrl-C works while it runs.

    After an exception in this thread (KeyboardInterrupt, or one of ``poll``), the call is asked to end at its next safe
    point. The exception is raised when the call has ended. A second Ctrl-C does not shorten the wait, because the call
    uses memory that must stay valid.

    Args:
        handle: The trainer or predictor, the first argument of the call.
        name: Name of the function.
        arguments: Its other arguments except the error; arrays stay alive until the call has ended.
        brief: The call is too short to need a thread; it runs on this one.
        poll: Called in this thread 20 times a second while the call runs on another.
    """
    own: Callable[[], None] | None = getattr(_thread, "poll", None)
    if own is not None:
        own()
    if brief:
        call(name, handle.value, *arguments)
        return
    value = handle.value
    polls = [one for one in (poll, own) if one is not None]
    claim: dict[str, str] = {}  # the thread that sets "by" first decides whether the call is made

    def claimed_call() -> None:
        if claim.setdefault("by", "worker") == "worker":
            call(name, value, *arguments)

    work = Work(name, claimed_call)
    stop: BaseException | None = None
    try:
        while True:
            # Ctrl-C may arrive between any two instructions. All work and all waits are therefore inside the try block.
            # Only a second Ctrl-C at the jump back is not caught; the arrays outlive the call even then.
            try:
                if stop is not None and claim.setdefault("by", "caller") == "caller":
                    break  # the call has not begun and will not be made
                if stop is None:
                    work.start()
                while not work.done.is_set():
                    if stop is not None:
                        call("cancel", value)  # repeated: the first may come before the call begins
                    if not work.done.wait(0.05) and stop is None:
                        for one in polls:
                            one()
                break
            except BaseException as error:
                stop = stop or error
        if stop is not None:
            raise stop
        work.raise_failure()
    finally:  # an exception refers to this frame: without this line both would stay until a garbage collection
        stop = None


class Flag:
    """What one thread sets, once, and one other waits for.

    What the handler of a signal raises (such as KeyboardInterrupt) leaves :meth:`wait` as it is. Out of
    ``threading.Event.wait``, which is in Python, it may come as a RuntimeError about a lock.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._until_set = threading.Lock()
        self._until_set.acquire()

    def set(self) -> None:
        self._is_set = True
        self._until_set.release()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float = -1) -> bool:
        """Waits, with a negative number for ever; returns whether the flag is set."""
        return self._is_set or self._until_set.acquire(timeout=seconds)


def start(thread: threading.Thread) -> None:
    """Starts a thread; RuntimeError means that the system refuses one."""
    handled = sys.exc_info()[1]
    try:
        thread.start()
    except RuntimeError as error:
        # While Python waits for the thread to begin, what a signal's handler raises may make Python's own lock
        # complain. Then the thread is there.
        if error.__context__ is not None and error.__context__ is not handled:
            raise error.__context__ from None
        raise


class Work:
    """A call on a thread of its own, or on the caller's if the system refuses another thread.

    With ``daemon=None``, the thread is a daemon if that of the caller is: neither keeps the interpreter from ending.
    """

    def __init__(self, name: str, function: Callable[[], None], *, daemon: bool | None = None) -> None:
        self.done = Flag()
        self._function = function
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="dsstne-" + name, daemon=daemon)

    def start(self) -> None:
        try:
            start(self._thread)
        except RuntimeError:
            self._run()

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self._failure = error
        finally:
            self.done.set()

    def raise_failure(self) -> None:
        """Raises the exception of the call, if it raised one, and drops it: it refers to the frames of its callers."""
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            failure = None


# ---- the header's structs as Python values ----


class MatrixArrays(NamedTuple):
    """A matrix in compressed row form: the bits of its numbers, its sizes, and the addresses of its arrays."""

    index_bits: int
    offset_bits: int
    value_bits: int
    rows: int
    columns: int
    entries: int  # length of indices and values
    offsets: int
    indices: int
    values: int  # 0: every value is 1
    name: str
    owner: object  # keeps the arrays alive

    def info(self, first: int = 0, rows: int | None = None) -> bytes:
        """Returns the ``dsstne_dataset_info`` of some rows; None = all."""
        index_bits, offset_bits, value_bits, count, columns, entries, offsets, indices, values, _, _ = self
        count, offsets = count if rows is None else rows, offsets + first * offset_bits // 8
        bits = (index_bits, offset_bits, value_bits)
        return _INFO.pack(_INFO.size, *bits, count, columns, entries, 0, 0.0, 0.0, offsets, indices, values)


def dataset_info(handle: Handle) -> dict[str, Any]:
    """Returns the fields of ``dsstne_dataset_info``; addresses are integers or None."""
    info = _sized(DatasetInfoStruct)
    call("dataset_get_info", handle.value, byref(info))
    return _values(info)


def trainer_progress(handle: Handle) -> dict[str, Any]:
    """Returns the fields of ``dsstne_progress``."""
    progress = _sized(ProgressStruct)
    call("trainer_progress", handle.value, byref(progress))
    return _values(progress)


def trainer_run(
    handle: Handle, steps: int, seconds: float, *, brief: bool, poll: Callable[[], None] | None
) -> dict[str, Any]:
    """Trains for a number of steps or seconds (0 = no limit); returns the fields of ``dsstne_progress``."""
    progress = _sized(ProgressStruct)
    call_interruptibly(handle, "trainer_run", steps, seconds, byref(progress), brief=brief, poll=poll)
    return _values(progress)


def trainer_profile(handle: Handle, steps: int, *, poll: Callable[[], None] | None) -> dict[str, Any]:
    """Trains for a number of steps and returns their profile."""
    buffer, length = text_buffer()
    call_interruptibly(handle, "trainer_profile", steps, buffer, length, poll=poll)
    if length.contents.value <= len(buffer):
        return read_json(buffer)
    return call_json("trainer_profile", handle.value, 0)  # of the steps that are done


def solver_progress(handle: Handle) -> dict[str, Any]:
    """Returns the fields of ``dsstne_solver_state``."""
    state = _sized(SolverStateStruct)
    call("solver_progress", handle.value, byref(state))
    return _values(state)


def solver_run(handle: Handle, seconds: float, *, poll: Callable[[], None] | None) -> dict[str, Any]:
    """Does the remaining steps, or those of some seconds (0 = no limit); returns the fields of the state."""
    state = _sized(SolverStateStruct)
    call_interruptibly(handle, "solver_run", seconds, byref(state), poll=poll)
    return _values(state)


def _sized(kind: type[Any]) -> Any:
    """Makes a struct that contains its size, which C checks."""
    return kind(struct_size=ctypes.sizeof(kind))


def _values(struct: ctypes.Structure) -> dict[str, Any]:
    """Returns the fields of a struct except its size."""
    return {name: getattr(struct, name) for name, *_ in struct._fields_[1:]}


def release_callbacks() -> tuple[int, int]:
    """Returns the addresses of ``dsstne_release_array`` and ``dsstne_release_schema``."""
    array, schema = (library().functions[name] for name in ("release_array", "release_schema"))
    return ctypes.cast(array, c_void_p).value or 0, ctypes.cast(schema, c_void_p).value or 0
