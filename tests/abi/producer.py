"""Matrices as Arrow structs that can be wrong in every way, with release callbacks that count."""

from __future__ import annotations

import ctypes
import json
import struct
from collections import Counter
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int64, c_uint64, c_void_p

from native import STATUS, Error, Info, Library

OK = STATUS["OK"]
PACKED = {"i": "i", "l": "q", "f": "f", "g": "d", "C": "B"}  # letters of Arrow and of struct


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


RELEASE_SCHEMA, RELEASE_ARRAY = CFUNCTYPE(None, POINTER(Schema)), CFUNCTYPE(None, POINTER(Array))

Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_char_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))),
    ("dictionary", POINTER(Schema)),
    ("release", RELEASE_SCHEMA),
    ("private_data", c_void_p),
]
Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(Array))),
    ("dictionary", POINTER(Array)),
    ("release", RELEASE_ARRAY),
    ("private_data", c_void_p),
]


class Producer:
    """A matrix as schema and array, with callbacks that count the releases of both and of nothing else."""

    def __init__(self, offsets, indices, values=None, *, offset="l", index="i", value="f", length=None):
        self.released = Counter()
        self.forgetful = False  # callbacks that do not mark their struct as released
        self.kept = []
        self.callbacks = {}  # of the outermost structs
        self.buffers = {
            "offsets": self.buffer("i" if offset == "l" else "l", offsets),
            "indices": self.buffer(index, indices),
        }
        self.index, self.index_schema = self.array(len(indices), (None, "indices")), self.schema(index.encode())
        self.item, self.item_schema = self.index, self.index_schema
        if values is not None:
            self.buffers["values"] = self.buffer(value, values)
            self.value, self.value_schema = self.array(len(values), (None, "values")), self.schema(value.encode())
            self.item = self.array(len(indices), (None,), self.index, self.value)
            self.item_schema = self.schema(b"+s", self.index_schema, self.value_schema)
        rows = max(0, len(offsets) - 1) if length is None else length
        self.list = self.array(rows, (None, "offsets"), self.item)
        self.list_schema = self.schema(b"+" + offset.encode(), self.item_schema)

    def buffer(self, kind, numbers):
        return ctypes.create_string_buffer(struct.pack(f"<{len(numbers)}{PACKED[kind]}", *numbers))

    def address(self, name):
        return ctypes.addressof(self.buffers[name])

    def array(self, length, buffers, *children):
        array = Array(length=length, n_buffers=len(buffers), n_children=len(children))
        table = (c_void_p * max(1, len(buffers)))(*(b and self.address(b) for b in buffers))
        array.buffers = ctypes.cast(table, POINTER(c_void_p))
        self.callbacks["array"] = self.finish(array, Array, RELEASE_ARRAY, children, "array")
        self.kept.append(table)
        return array

    def schema(self, text, *children):
        schema = Schema(format=text, n_children=len(children))
        self.callbacks["schema"] = self.finish(schema, Schema, RELEASE_SCHEMA, children, "schema")
        return schema

    def finish(self, node, kind, callback, children, what):
        if children:
            table = (POINTER(kind) * len(children))(*(ctypes.pointer(child) for child in children))
            node.children = ctypes.cast(table, POINTER(POINTER(kind)))
            self.kept.append(table)
        released = self.released

        def release(pointer):
            released[what] += 1
            if not self.forgetful:
                for child in children:
                    child.release = callback()
                pointer.contents.release = callback()

        node.release = called = callback(release)
        self.kept += [called, node]  # what is read from node.release is a view of that field, not the callback
        return called


def pairs(**options) -> Producer:
    """Rows [(1, 0.5), (2, 1)], [], [(0, 2)]."""
    return Producer([0, 2, 2, 3], [1, 2, 0], [0.5, 1, 2], **options)


class Opened:
    """What came of dsstne_dataset_open."""

    def __init__(self, library: Library, producer, columns=3, **others):
        self.raw, self.error, self.handle = library.raw, Error(struct_size=ctypes.sizeof(Error)), c_uint64(0)
        options = json.dumps({"columns": columns, **others}).encode()
        self.status = self.raw.dsstne_dataset_open(
            byref(producer.list_schema), byref(producer.list), options, byref(self.handle), byref(self.error)
        )
        self.message = self.error.message.decode()

    def info(self) -> Info:
        assert self.status == OK, self.message
        info = Info(struct_size=ctypes.sizeof(Info))
        assert self.raw.dsstne_dataset_get_info(self.handle, byref(info), None) == OK
        return info

    def close(self) -> int:
        return self.raw.dsstne_dataset_close(self.handle, None)


def opened(library, producer, **options) -> Info:
    """Opens, describes and closes a matrix."""
    dataset = Opened(library, producer, **options)
    info = dataset.info()
    assert dataset.close() == OK
    return info


def refused(library, producer, status="INVALID_DATA", **options) -> str:
    """The message with which a matrix is refused; both structs are released once."""
    dataset = Opened(library, producer, **options)
    assert dataset.status == STATUS[status], dataset.message
    assert dataset.handle.value == 0
    assert producer.released == {"schema": 1, "array": 1}
    return dataset.message
