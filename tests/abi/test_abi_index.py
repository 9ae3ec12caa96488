"""Rows of a dataset that an index names: what C callers get and do wrong."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_int64, c_uint64

import numpy as np
import pytest

from native import Failure, Info, Library, Matrix


@pytest.fixture
def data(library: Library) -> Iterator[int]:
    matrix = Matrix(library, [[0, 1], [3], [2]], columns=4)  # whose memory is borrowed
    yield library.dataset(matrix)
    assert matrix is not None


@pytest.mark.parametrize("word", ["int32", "int64", "uint32"])
def test_rows_are_those_that_the_index_names(library: Library, data: int, word: str) -> None:
    index = np.array([2, 0, 0, 1], word)
    indexed = library.open("dataset_index", data, index.ctypes.data, 4, f'{{"type": "{word}"}}'.encode())
    info = Info(struct_size=88)
    library.call("dataset_get_info", indexed, byref(info))
    assert (info.rows, info.columns, info.non_zeros) == (4, 4, 6)
    assert (info.offsets, info.indices, info.values) == (None, None, None)
    rows, offsets = (c_int64 * 4)(0, 1, 2, 3), (c_int64 * 5)()
    indices, values = np.empty(6, np.int32), np.empty(6, np.float32)
    library.call("dataset_get_rows", indexed, rows, 4, offsets, indices.ctypes.data, values.ctypes.data, 6)
    assert (list(offsets), indices.tolist()) == ([0, 1, 3, 5, 6], [2, 0, 1, 0, 1, 3])
    with pytest.raises(Failure) as caught:
        library.call("dataset_close", data)
    assert "in use" in caught.value.message
    for handle in (indexed, data):
        library.call("dataset_close", handle)


@pytest.mark.parametrize(
    ("index", "n", "options", "message"),
    [
        ([0, 3], 2, None, "index[1] is 3, but the matrix has 3 rows"),
        ([0, -1], 2, None, "index[1] is -1"),
        (None, 2, None, "index is null but n_rows is 2"),
        ([0], -1, None, "n_rows is -1"),
        ([0], 1 << 62, None, "more than memory can hold"),
        ([0], 1 << 47, None, "more than memory can hold"),
        ([0], 1, b'{"type": "int16"}', "int32"),
        ([0], 1, b'{"types": "int64"}', "type"),
    ],
)
def test_an_index_that_is_wrong_is_refused(
    library: Library, data: int, index: list[int] | None, n: int, options: bytes | None, message: str
) -> None:
    numbers = None if index is None else np.array(index, np.int64)
    out = c_uint64(7)
    with pytest.raises(Failure) as caught:
        library.call("dataset_index", data, None if numbers is None else numbers.ctypes.data, n, options, byref(out))
    assert message in caught.value.message
    assert out.value == 7
    library.call("dataset_close", data)  # nobody uses it


def test_an_index_without_rows_needs_no_memory(library: Library, data: int) -> None:
    indexed = library.open("dataset_index", data, None, 0, None)
    info = Info(struct_size=88)
    library.call("dataset_get_info", indexed, byref(info))
    assert (info.rows, info.non_zeros) == (0, 0)
    library.call("dataset_close", indexed)
