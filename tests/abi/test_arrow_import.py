"""What dsstne_dataset_open takes and refuses, and that it releases both structs exactly once."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_uint64
from pathlib import Path

import pytest
from producer import OK, RELEASE_ARRAY, RELEASE_SCHEMA, Array, Opened, Producer, Schema, opened, pairs, refused

from native import STATUS

BITS = {"i": 32, "l": 64, "f": 32, "g": 64}


@pytest.mark.parametrize("offset", ["l", "L"])
@pytest.mark.parametrize("index", ["i", "l"])
@pytest.mark.parametrize("value", ["f", "g", None])
def test_every_accepted_type_is_opened_where_it_lies(library, offset, index, value):
    producer = pairs(offset=offset, index=index, value=value or "f")
    if value is None:
        producer = Producer([0, 2, 2, 3], [1, 2, 0], offset=offset, index=index)
    info = opened(library, producer)
    assert (info.offset_bits, info.index_bits) == (32 if offset == "l" else 64, BITS[index])
    assert info.value_bits == (BITS[value] if value else 0)
    assert (info.rows, info.columns, info.non_zeros) == (3, 3, 3)
    assert (info.minimum, info.maximum) == ((0.5, 2) if value else (1, 1))
    assert (info.offsets, info.indices) == (producer.address("offsets"), producer.address("indices"))
    assert info.values == (producer.address("values") if value else None)


def test_open_releases_the_schema_and_keeps_the_array(library):
    producer = pairs()
    dataset = Opened(library, producer)
    assert dataset.status == OK
    assert producer.released == {"schema": 1}
    dataset.close()


def test_open_moves_from_both_structs(library):
    producer = pairs()
    dataset = Opened(library, producer)
    assert not producer.list_schema.release
    assert not producer.list.release
    dataset.close()


def test_close_releases_the_array_once(library):
    producer = pairs()
    dataset = Opened(library, producer)
    assert (dataset.close(), dataset.close()) == (OK, STATUS["INVALID_HANDLE"])
    assert producer.released == {"schema": 1, "array": 1}


def test_the_structs_may_be_gone_after_open(library):
    producer = pairs()
    dataset = Opened(library, producer)
    for node in (producer.list, producer.item, producer.index, producer.value):
        ctypes.memset(byref(node), 0xFF, ctypes.sizeof(node))
    assert dataset.info().non_zeros == 3
    assert dataset.close() == OK
    assert producer.released["array"] == 1


def test_callbacks_that_forget_to_mark_their_struct_are_called_once(library):
    producer = pairs()
    producer.forgetful = True
    opened(library, producer)
    assert producer.released == {"schema": 1, "array": 1}


def test_callbacks_that_forget_to_mark_their_struct_are_called_once_on_failure(library):
    producer = pairs()
    producer.forgetful = True
    refused(library, producer, columns=2)


def test_slices_of_the_list_are_opened_where_they_lie(library):
    producer = pairs()
    producer.list.offset, producer.list.length = 1, 2
    info = opened(library, producer)
    assert (info.rows, info.non_zeros, info.minimum) == (2, 1, 2)
    assert (info.offsets, info.indices) == (producer.address("offsets") + 4, producer.address("indices"))


def test_slices_of_the_struct_and_its_fields_are_opened_where_they_lie(library):
    producer = Producer([0, 2], [99, 99, 99, 1, 2], [9, 9, 9, 9, 3, 4], index="l", value="g")
    producer.item.offset, producer.item.length = 1, 2
    # The struct's entry 0 is the index array's 1 and the index buffer's 3.
    producer.index.offset, producer.index.length = 2, 3
    producer.value.offset, producer.value.length = 3, 3
    info = opened(library, producer)
    assert (info.minimum, info.maximum) == (3, 4)
    assert info.indices == producer.address("indices") + 3 * 8
    assert info.values == producer.address("values") + 4 * 8


def test_empty_rows_are_fine(library):
    assert opened(library, Producer([0, 0, 0, 0], [], [])).non_zeros == 0


def test_zero_rows_are_fine(library):
    producer = Producer([0], [], [])
    assert opened(library, producer).rows == 0
    assert producer.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("values", [[], None])
def test_zero_rows_need_no_buffers(library, values):
    producer = Producer([], [], values, index="l")
    for node in {id(n): n for n in (producer.list, producer.item, producer.index)}.values():
        if node.n_buffers > 1:
            node.buffers[1] = None
    info = opened(library, producer)
    assert (info.rows, info.index_bits) == (0, 64)
    assert producer.released == {"schema": 1, "array": 1}


def test_zero_rows_of_a_slice_are_fine(library):
    producer = pairs()
    producer.list.offset, producer.list.length = 3, 0
    assert opened(library, producer).rows == 0


def test_names_and_metadata_do_not_matter(library):
    producer = pairs()
    producer.index_schema.name = b"\xff\xfe"
    producer.list_schema.metadata = b"\xff\xff\xff\x7f"  # a count that no reader should believe
    assert opened(library, producer).rows == 3


@pytest.mark.parametrize("null_count", [-1, 0])
def test_bitmaps_without_nulls_are_fine(library, null_count):
    producer, valid = pairs(), ctypes.create_string_buffer(b"\x07")
    for node in (producer.list, producer.item, producer.index, producer.value):
        node.buffers[0], node.null_count = ctypes.addressof(valid), null_count
    assert opened(library, producer).non_zeros == 3


def test_an_unknown_null_count_without_bitmap_is_fine(library):
    producer = pairs()
    for node in (producer.list, producer.item, producer.index, producer.value):
        node.null_count = -1
    assert opened(library, producer).non_zeros == 3


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("list", "row 2 is null"),
        ("item", "row 2 holds an entry that is null"),
        ("index", "row 2 holds a column that is null"),
        ("value", "row 2 holds a value that is null"),
    ],
)
@pytest.mark.parametrize("null_count", [-1, 0, 1])
def test_nulls_are_refused(library, node, message, null_count):
    producer, valid = pairs(), ctypes.create_string_buffer(b"\x03")
    getattr(producer, node).buffers[0] = ctypes.addressof(valid)
    getattr(producer, node).null_count = null_count
    assert message in refused(library, producer)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("list_schema", b"+vl"),
        ("list_schema", b"+w:2"),
        ("list_schema", b"u"),
        ("list_schema", b""),
        ("list_schema", b"+l" * 1000),
        ("item_schema", b"+m"),
        ("index_schema", b"S"),
        ("index_schema", b"s"),
        ("value_schema", b"u"),
        ("value_schema", b"b"),
        ("value_schema", None),
    ],
)
def test_other_formats_are_refused(library, node, text):
    producer = pairs()
    getattr(producer, node).format = text
    refused(library, producer)


WRONG = {
    "negative length": ("list", "length", -1),
    "huge length": ("list", "length", 2**63 - 1),
    "negative offset": ("list", "offset", -1),
    "huge offset": ("index", "offset", 2**63 - 1),
    "too many nulls": ("item", "null_count", 4),
    "null count below -1": ("list", "null_count", -2),
    "nulls without a bitmap": ("value", "null_count", 1),
    "no buffers": ("list", "n_buffers", 0),
    "negative buffers": ("list", "n_buffers", -1),
    "many buffers": ("index", "n_buffers", 2**40),
    "buffers null": ("list", "buffers", None),
    "no children": ("list", "n_children", 0),
    "negative children": ("item", "n_children", -1),
    "many children": ("item", "n_children", 2**40),
    "children null": ("item", "children", None),
    "fields shorter than the struct": ("value", "length", 2),
    "struct shorter than the offsets say": ("item", "length", 2),
    "struct offset beyond its fields": ("item", "offset", 1),
    "schema without children": ("list_schema", "n_children", 0),
    "schema with many children": ("list_schema", "n_children", 2**40),
    "schema with null children": ("item_schema", "children", None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_structs_that_contradict_themselves_are_refused(library, wrong):
    producer = pairs()
    node, field, value = WRONG[wrong]
    setattr(getattr(producer, node), field, value)
    refused(library, producer)


@pytest.mark.parametrize("node", ["list", "index", "value"])
def test_missing_data_is_refused(library, node):
    producer = pairs()
    getattr(producer, node).buffers[1] = None
    refused(library, producer)


@pytest.mark.parametrize("node", ["item", "item_schema"])
def test_null_children_are_refused(library, node):
    producer = pairs()
    getattr(producer, node).children[1] = None
    refused(library, producer, "INVALID_ARGUMENT")


@pytest.mark.parametrize("node", ["list", "index", "list_schema", "index_schema", "item_schema"])
def test_dictionaries_are_refused(library, node):
    producer, other = pairs(), pairs()
    getattr(producer, node).dictionary = ctypes.pointer(getattr(other, node))
    refused(library, producer)


@pytest.mark.parametrize("offsets", [[0, 2, 2, 4], [-1, 2, 2, 3], [3, 3, 3, 1], [0, 3, 2, 3], [0, 9, 9, 3]])
def test_bad_offsets_are_refused(library, offsets):
    refused(library, Producer(offsets, [1, 2, 0], [1, 1, 1]))


def test_a_column_beyond_the_matrix_is_refused_by_name(library):
    assert "row 0 holds column 2, but the matrix has 2 columns (0..1)" in refused(library, pairs(), columns=2)


def test_bad_options_release_both_structs(library):
    refused(library, pairs(), "INVALID_ARGUMENT", columns=-5)


def test_integers_have_a_scale_and_an_offset(library):
    producer = Producer([0, 2, 2, 3], [1, 2, 0], [0, 64, 200], value="C")
    info = opened(library, producer, scale=1 / 256, offset=-0.5)
    assert (info.value_bits, info.minimum, info.maximum) == (8, -0.5, 200 / 256 - 0.5)


@pytest.mark.parametrize("option", ["scale", "offset"])
def test_values_of_other_types_have_none(library, option):
    ones = Producer([0, 1], [0])
    for producer in (pairs(), pairs(value="g"), ones):
        assert "are for integers" in refused(library, producer, "INVALID_ARGUMENT", **{option: 2})


def test_a_scale_of_zero_is_refused(library):
    assert "scale is 0" in refused(library, pairs(), "INVALID_ARGUMENT", scale=0)


def test_a_released_schema_is_refused_and_the_array_released(library):
    producer = pairs()
    producer.list_schema.release = RELEASE_SCHEMA()
    assert Opened(library, producer).status == STATUS["INVALID_ARGUMENT"]
    assert producer.released == {"array": 1}


def test_a_released_array_is_refused_and_the_schema_released(library):
    producer = pairs()
    producer.list.release = RELEASE_ARRAY()
    assert Opened(library, producer).status == STATUS["INVALID_ARGUMENT"]
    assert producer.released == {"schema": 1}


@pytest.mark.parametrize("node", ["item", "value", "index_schema"])
def test_released_children_are_refused(library, node):
    producer = pairs()
    child = getattr(producer, node)
    child.release = type(child.release)()
    refused(library, producer, "INVALID_ARGUMENT")


def test_structs_cannot_be_used_twice(library):
    producer = pairs()
    dataset = Opened(library, producer)
    assert Opened(library, producer).status == STATUS["INVALID_ARGUMENT"]
    assert dataset.close() == OK
    assert producer.released == {"schema": 1, "array": 1}


def test_null_structs_are_refused(library):
    handle = c_uint64(0)
    assert (
        library.raw.dsstne_dataset_open(None, None, b'{"columns": 3}', byref(handle), None)
        == STATUS["INVALID_ARGUMENT"]
    )


def test_the_release_callbacks_mark_children_and_free_nothing(library):
    producer = pairs()
    for node in (producer.value, producer.index, producer.item, producer.list):
        node.release = ctypes.cast(library.raw.dsstne_release_array, RELEASE_ARRAY)
    for node in (producer.value_schema, producer.index_schema, producer.item_schema, producer.list_schema):
        node.release = ctypes.cast(library.raw.dsstne_release_schema, RELEASE_SCHEMA)
    opened(library, producer)
    nodes = (producer.value, producer.index, producer.item, producer.list, producer.value_schema, producer.list_schema)
    assert not any(node.release for node in nodes)
    assert producer.buffers["values"].raw[:4] == struct.pack("<f", 0.5)


def test_the_release_callbacks_take_null_and_released_structs(library):
    library.raw.dsstne_release_array(None)
    library.raw.dsstne_release_schema(None)
    library.raw.dsstne_release_array(byref(Array()))
    library.raw.dsstne_release_schema(byref(Schema()))


def test_many_matrices_leave_no_memory_behind(library):
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1])

    producer = pairs()
    producer.forgetful = True  # so that the same structs can be used again
    for count in range(24000):
        producer.list.release, producer.list_schema.release = producer.callbacks["array"], producer.callbacks["schema"]
        assert Opened(library, producer, columns=2 + count % 2).close() == (
            OK if count % 2 else STATUS["INVALID_HANDLE"]
        )
        if count == 4000:
            before = resident()
    assert producer.released == {"schema": 24000, "array": 24000}
    # In pages. 20,000 imports of 0.6 KiB would be 3,000; the Go heap moves by some hundred.
    assert resident() - before < 1000
