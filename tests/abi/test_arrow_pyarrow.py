"""Arrays of pyarrow, whose slices share buffers and carry offsets, are datasets without a copy."""

from __future__ import annotations

import ctypes

import pytest
from producer import OK, Array, Opened, Schema, opened

from native import STATUS


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow")


def export(array):
    class Exported:
        list_schema, list = Schema(), Array()

    array._export_to_c(ctypes.addressof(Exported.list), ctypes.addressof(Exported.list_schema))
    return Exported


def rows(arrow):
    item = arrow.struct([("index", arrow.int32()), ("value", arrow.float32())])
    lists = [[{"index": i % 7, "value": float(r)} for i in range(r % 4)] for r in range(20)]
    return arrow.array(lists, type=arrow.list_(item))


def test_slices_are_taken(library, arrow):
    part = rows(arrow).slice(5, 7)
    info = opened(library, export(part), columns=7)
    assert (info.rows, info.non_zeros) == (7, sum(r % 4 for r in range(5, 12)))
    assert (info.minimum, info.maximum) == (5, 11)


def test_slices_are_not_copied(library, arrow):
    part = rows(arrow).slice(5, 7)
    info = opened(library, export(part), columns=7)
    assert info.offsets == part.buffers()[1].address + 5 * 4
    assert info.indices == part.values.field(0).buffers()[1].address


def test_indices_alone_are_taken(library, arrow):
    array = arrow.array([[1, 2], [], [0]], type=arrow.large_list(arrow.int64()))
    info = opened(library, export(array))
    assert (info.non_zeros, info.offset_bits, info.index_bits, info.value_bits) == (3, 64, 64, 0)


def test_zero_rows_are_taken(library, arrow):
    assert opened(library, export(rows(arrow).slice(3, 0)), columns=7).rows == 0
    assert opened(library, export(arrow.array([], type=arrow.list_(arrow.int32())))).rows == 0


def test_nulls_are_refused(library, arrow):
    array = arrow.array([[1], None], type=arrow.list_(arrow.int32()))
    dataset = Opened(library, export(array))
    assert (dataset.status, "row 1 is null" in dataset.message) == (STATUS["INVALID_DATA"], True)


def test_slices_between_nulls_are_taken(library, arrow):
    array = arrow.array([None, [1, 2], [0], None], type=arrow.list_(arrow.int32()))
    assert opened(library, export(array.slice(1, 2))).non_zeros == 3


def test_memory_is_given_back(library, arrow):
    before = arrow.total_allocated_bytes()
    array = rows(arrow)
    exported = export(array)
    del array
    dataset = Opened(library, exported, columns=7)
    assert dataset.info().non_zeros == 30
    assert arrow.total_allocated_bytes() > before
    assert dataset.close() == OK
    assert arrow.total_allocated_bytes() == before
