"""A dataset through a file: what C callers write, read and do wrong."""

from __future__ import annotations

import json
from ctypes import byref, c_int64, c_size_t, c_uint64, create_string_buffer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from native import Failure, Info, Library, Matrix


def described(library: Library, dataset: int) -> dict[str, Any]:
    length = c_size_t(1000)
    buffer = create_string_buffer(length.value)
    library.call("dataset_describe", dataset, buffer, byref(length))
    answer: dict[str, Any] = json.loads(buffer.value)
    return answer


@pytest.fixture
def matrix(library: Library) -> Matrix:
    return Matrix(library, [[0, 1], [3]], columns=4)


@pytest.fixture
def path(library: Library, matrix: Matrix, tmp_path: Path) -> bytes:
    """A file of two rows whose four items have names."""
    data = library.dataset(matrix)
    name = str(tmp_path / "data.arrow").encode()
    offsets = (c_int64 * 5)(0, 1, 3, 3, 4)
    library.call("dataset_save", data, name, b'{"threads": 1}', offsets, b"abbd", None, None)
    library.call("dataset_close", data)
    return name


def test_what_was_saved_is_opened(library: Library, path: bytes) -> None:
    data = library.open("dataset_open_file", path, None)
    info = Info(struct_size=88)
    library.call("dataset_get_info", data, byref(info))
    assert (info.rows, info.columns, info.non_zeros) == (2, 4, 3)
    sizes = described(library, data)["arrays"]
    assert sizes == {"column_counts": 32, "items": 44}
    counts, names = np.empty(4, np.int64), np.empty(44, np.uint8)
    library.call("dataset_get_array", data, b"column_counts", counts.ctypes.data, counts.nbytes)
    library.call("dataset_get_array", data, b"items", names.ctypes.data, names.nbytes)
    assert counts.tolist() == [1, 1, 0, 1]
    assert (names[:40].view(np.int64).tolist(), names[40:].tobytes()) == ([0, 1, 3, 3, 4], b"abbd")
    library.call("dataset_close", data)


def test_rows_are_copied(library: Library, path: bytes) -> None:
    data = library.open("dataset_open_file", path, None)
    rows, offsets = (c_int64 * 3)(1, 0, 1), (c_int64 * 4)()
    library.call("dataset_get_rows", data, rows, 3, offsets, None, None, 0)
    assert list(offsets) == [0, 1, 3, 4]  # at most
    indices, values = np.empty(4, np.int32), np.empty(4, np.float32)
    arrays = indices.ctypes.data, values.ctypes.data
    library.call("dataset_get_rows", data, rows, 3, offsets, *arrays, 4)
    assert (list(offsets), indices.tolist(), values.tolist()) == ([0, 1, 3, 4], [3, 0, 1, 3], [1, 1, 1, 1])
    for arguments, words in (
        ((rows, 3, offsets, *arrays, 3), "more entries than the arrays have room for, 3"),
        ((rows, 3, None, *arrays, 4), "offsets is null"),
        ((rows, 3, offsets, arrays[0], None, 4), "values is null"),
        ((rows, -1, offsets, *arrays, 4), "n_rows is -1"),
        (((c_int64 * 1)(2), 1, offsets, *arrays, 4), "row 2 was asked for, but the dataset has 2 rows"),
        (((c_int64 * 1)(-1), 1, offsets, None, None, 0), "row -1 was asked for"),
    ):
        with pytest.raises(Failure, match=words) as caught:
            library.call("dataset_get_rows", data, *arguments)
        assert caught.value.status == "INVALID_ARGUMENT"
    library.call("dataset_close", data)


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [(b"rows", 8, 'no array "rows"'), (b"items", 43, '"items" has 44 bytes, not 43'), (b"items", -1, "bytes is -1")],
)
def test_other_arrays_and_sizes_are_refused(library: Library, path: bytes, name: bytes, size: int, words: str) -> None:
    data = library.open("dataset_open_file", path, None)
    memory = np.empty(64, np.uint8)
    with pytest.raises(Failure, match=words):
        library.call("dataset_get_array", data, name, memory.ctypes.data, c_size_t(size))
    library.call("dataset_close", data)


def test_a_dataset_in_memory_has_no_arrays(library: Library, matrix: Matrix) -> None:
    data = library.dataset(matrix)
    assert described(library, data) == {"sha256": None, "arrays": {}}
    with pytest.raises(Failure, match="it was neither read from a text nor opened from a file") as caught:
        library.call("dataset_get_array", data, b"items", None, 0)
    assert caught.value.status == "NOT_FOUND"
    library.call("dataset_close", data)


def test_names_that_are_not_names_are_refused(library: Library, matrix: Matrix, tmp_path: Path) -> None:
    data = library.dataset(matrix)
    name = str(tmp_path / "data.arrow").encode()
    for offsets, text, words in [
        ((0, 1, 1, 1, -5), b"a", "-5"),
        ((0, 2, 1, 1, 1), b"a", "decrease at name 0"),
        ((1, 1, 1, 1, 1), b"a", "must run from 0 to 1"),
        ((0, 1, 1, 1, 1), None, "item_text is null"),
        ((0, 1, 1, 1, 1), b"\xff", "the name of item 0 is not valid UTF-8"),
    ]:
        with pytest.raises(Failure, match=words) as caught:
            library.call("dataset_save", data, name, None, (c_int64 * 5)(*offsets), text, None, None)
        assert caught.value.status == "INVALID_ARGUMENT"
    assert list(tmp_path.iterdir()) == []
    library.call("dataset_close", data)


def test_a_file_without_a_record_takes_the_options_of_a_file_that_is_checked(library: Library, path: bytes) -> None:
    data = library.open("dataset_open_file", path, b'{"columns": 9, "allow_not_finite": true}')
    info = Info(struct_size=88)
    library.call("dataset_get_info", data, byref(info))
    assert info.columns == 9
    library.call("dataset_close", data)
    with pytest.raises(Failure, match="a file with a record of its rows has finite values only"):
        library.call("dataset_open_file", path, b'{"allow_not_finite": true}', byref(c_uint64(0)))
