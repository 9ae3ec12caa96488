"""DSSTNE's text data and index files through the C interface."""

from __future__ import annotations

import ctypes
import gzip
import threading
import time
from ctypes import byref, c_char_p, c_int64, c_size_t, c_uint64
from pathlib import Path

import pytest

from native import Failure, Info, Library


def arguments(*paths: Path, options: bytes | None = None) -> tuple[object, ...]:
    names = [bytes(path) for path in paths]
    return (c_char_p * len(names))(*names), len(names), options, 0, None, None, 0, None, None


def write(folder: Path, text: str) -> Path:
    path = folder / "text"
    path.write_text(text)
    return path


def test_the_arrays_of_a_text_are_in_the_memory_of_the_library(library: Library, tmp_path: Path) -> None:
    path = write(tmp_path, "a\tx,1:y,2\nb\ty,3\n")
    data = library.open("dataset_read_text", *arguments(path, options=b'{"values": "analog"}'))
    info = Info(struct_size=ctypes.sizeof(Info))
    library.call("dataset_get_info", data, byref(info))
    assert (info.rows, info.columns, info.non_zeros, info.offset_bits, info.value_bits) == (2, 2, 3, 32, 32)
    assert list((ctypes.c_int32 * 3).from_address(info.offsets)) == [0, 2, 3]
    assert list((ctypes.c_int32 * 3).from_address(info.indices)) == [0, 1, 1]
    assert list((ctypes.c_float * 3).from_address(info.values)) == [1, 2, 3]
    described = library.text("dataset_describe", data)
    assert (described["sha256"], described["arrays"]) == (None, {"items": 26, "rows": 26})
    assert described["text"]["samples"] == 2
    names = ctypes.create_string_buffer(26)
    library.call("dataset_get_array", data, b"rows", names, 26)
    assert list((c_int64 * 3).from_buffer_copy(names.raw)) == [0, 1, 2]
    assert names.raw[24:] == b"ab"
    library.call("dataset_close", data)


def test_an_index_of_the_caller_is_used(library: Library, tmp_path: Path) -> None:
    path = write(tmp_path, "a\tx:y\n")
    for offsets, status in (((0, 1, 2), ""), ((0, 2, 1), "INVALID_ARGUMENT"), ((0, -1, 2), "INVALID_ARGUMENT")):
        given = (*arguments(path)[:3], 2, (c_int64 * 3)(*offsets), b"zy", 0, None, None)
        if status:
            with pytest.raises(Failure) as caught:
                library.open("dataset_read_text", *given)
            assert caught.value.status == status
            continue
        data = library.open("dataset_read_text", *given)
        info = Info(struct_size=ctypes.sizeof(Info))
        library.call("dataset_get_info", data, byref(info))
        assert (info.columns, info.non_zeros) == (2, 1)
        library.call("dataset_close", data)


def test_after_a_failure_there_is_no_handle(library: Library, tmp_path: Path) -> None:
    handle, before = c_uint64(99), library.text("describe")["open"]
    with pytest.raises(Failure) as caught:
        library.call("dataset_read_text", *arguments(write(tmp_path, "bad\n")), byref(handle))
    assert caught.value.status == "INVALID_DATA"
    assert caught.value.message.endswith(
        "text, line 1, column 1: the line has no TAB; a line is a sample's label, a TAB, "
        "and its features between colons"
    )
    assert handle.value == 0
    handle = c_uint64(99)
    with pytest.raises(Failure):
        library.call(
            "dataset_read_text", *arguments(write(tmp_path, "a\tb\n"), options=b'{"values": "x"}'), byref(handle)
        )
    assert handle.value == 0
    assert library.text("describe")["open"] == before


def test_a_reading_is_busy_until_it_is_cancelled(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "large.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\t%s\n" % (n, b"a:b:c:d:" * 100) for n in range(1000)), 1) * 400)
    handle, failures = c_uint64(0), []

    def read() -> None:
        try:
            library.call("dataset_read_text", *arguments(path, options=b'{"threads": 1}'), byref(handle))
        except Failure as failure:
            failures.append(failure)

    thread = threading.Thread(target=read)
    thread.start()
    while not handle.value:
        time.sleep(0.001)
    for call in ("dataset_get_info", "dataset_close"):
        with pytest.raises(Failure) as caught:
            library.call(call, handle, *([byref(Info(struct_size=88))] if call == "dataset_get_info" else []))
        assert caught.value.status == "BUSY"
    assert library.text("dataset_describe", handle) == {"sha256": None, "arrays": {}}
    library.call("cancel", handle)
    thread.join()
    assert [failure.status for failure in failures] == ["CANCELLED"]
    assert handle.value == 0


def test_an_index_is_written_and_read(library: Library, tmp_path: Path) -> None:
    path = bytes(tmp_path / "index")
    library.call("index_write", path, 2, (c_int64 * 3)(0, 1, 4), b"bcde")
    assert Path(path.decode()).read_text() == "b\t0\ncde\t1\n"
    n, length = c_int64(0), c_size_t(0)
    offsets, text = (c_int64 * 3)(7, 7, 7), ctypes.create_string_buffer(b"####", 4)
    for room in ((0, 0), (1, 4), (2, 3)):
        n.value, length.value = room
        library.call("index_read", path, byref(n), offsets, byref(length), text)
        assert (n.value, length.value) == (2, 4)
        assert (list(offsets), text.raw) == ([7, 7, 7], b"####")
    library.call("index_read", path, byref(n), offsets, byref(length), text)
    assert (list(offsets), text.raw) == ([0, 1, 4], b"bcde")
    with pytest.raises(Failure) as caught:
        library.call("index_write", path, -1, offsets, text)
    assert caught.value.status == "INVALID_ARGUMENT"
