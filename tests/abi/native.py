"""The library through ctypes, declared from the header itself, and matrices made of plain Arrow structs."""

from __future__ import annotations

import ctypes
import json
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

import header

STATUS = {name.removeprefix("DSSTNE_"): value for value, name in enumerate(header.enumerators())}
NUMBERS = {"uint32_t": c_uint32, "int32_t": c_int32, "int64_t": c_int64, "uint64_t": c_uint64, "size_t": c_size_t}
NUMBERS |= {"double": c_double, "float": c_float, "void": None}
NUMBERS |= {name: NUMBERS[type_] for name, type_ in header.typedefs().items()}


class Error(ctypes.Structure):
    _fields_ = (
        *(("struct_size", c_uint32), ("status", c_int32)),
        *(("message", ctypes.c_char * 1024), ("system_error", c_int32)),
    )


class Info(ctypes.Structure):
    _fields_ = (
        *((name, c_uint32) for name in ("struct_size", "index_bits", "offset_bits", "value_bits")),
        *((name, c_int64) for name in ("rows", "columns", "non_zeros", "bytes")),
        *((name, c_double) for name in ("minimum", "maximum")),
        *((name, c_void_p) for name in ("offsets", "indices", "values")),
    )


class Progress(ctypes.Structure):
    _fields_ = (
        *((name, c_uint32) for name in ("struct_size", "running")),
        *((name, c_uint64) for name in ("step", "steps_per_epoch", "epoch", "examples")),
        *((name, c_double) for name in ("loss", "epoch_loss", "learning_rate", "examples_per_second", "seconds")),
    )


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


ArrowSchema._fields_ = (
    *((name, c_char_p) for name in ("format", "name", "metadata")),
    *((name, c_int64) for name in ("flags", "n_children")),
    ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", POINTER(ArrowSchema)),
    *((name, c_void_p) for name in ("release", "private_data")),
)
ArrowArray._fields_ = (
    *((name, c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))),
    ("dictionary", POINTER(ArrowArray)),
    *((name, c_void_p) for name in ("release", "private_data")),
)


class Failure(Exception):  # noqa: N818 - many tests expect it, so it is not an Error by name
    """A status other than OK."""

    def __init__(self, name: str, status: int, message: str, system_error: int = 0) -> None:
        self.status = next(word for word, value in STATUS.items() if value == status)
        self.message, self.system_error = message, system_error
        super().__init__(f"{name}: {self.status}: {message}")


class Library:
    """The functions of the header: ``library.raw`` as they are, ``call`` with an error that becomes a Failure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw = ctypes.CDLL(str(path))
        for name, (result, parameters) in header.functions().items():
            function = getattr(self.raw, name)
            function.argtypes = [self.ctype(type_) for type_ in parameters]
            function.restype = self.ctype(result)

    @staticmethod
    def ctype(type_: str) -> Any:
        if type_ == "const char *":
            return c_char_p
        return c_void_p if type_.endswith("*") else NUMBERS[type_]

    def call(self, name: str, *arguments: Any) -> None:
        error = Error(struct_size=ctypes.sizeof(Error))
        status = getattr(self.raw, "dsstne_" + name)(*arguments, byref(error))
        if status != 0:
            assert error.status == status
            raise Failure(name, status, error.message.decode(), error.system_error)

    def text(self, name: str, *arguments: Any) -> Any:
        """The JSON that a function writes to its (buf, len), whose place is where the arguments end."""
        length, capacity = c_size_t(0), 0
        self.call(name, *arguments, None, byref(length))
        while length.value > capacity:  # it may grow between the calls: a step gets another digit
            capacity = length.value
            buffer = ctypes.create_string_buffer(capacity)
            self.call(name, *arguments, buffer, byref(length))
        return json.loads(buffer.value)

    def open(self, name: str, *arguments: Any) -> int:
        """The handle that a function makes."""
        handle = c_uint64(0)
        self.call(name, *arguments, byref(handle))
        assert handle.value != 0
        return handle.value

    def dataset(self, matrix: Matrix, **options: Any) -> int:
        text = json.dumps({"columns": matrix.columns, **options}).encode()
        return self.open("dataset_open", byref(matrix.schema), byref(matrix.array), text)


class Matrix:
    """A CSR matrix as Arrow list<struct<index, value>>; the arrays stay with this object."""

    def __init__(self, library: Library, rows: list[list[int]], columns: int, values: np.ndarray | None = None) -> None:
        self.columns = columns
        self.offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
        self.indices = np.array([item for row in rows for item in row], dtype=np.int32)
        self.values = np.ones(len(self.indices), dtype=np.float32) if values is None else values
        release = ctypes.cast(library.raw.dsstne_release_array, c_void_p).value
        forget = ctypes.cast(library.raw.dsstne_release_schema, c_void_p).value
        self.kept: list[Any] = []
        n = len(self.indices)
        numbers = [self.node(n, [None, data.ctypes.data], [], release) for data in (self.indices, self.values)]
        entries = self.node(n, [None], numbers, release)
        self.array = self.node(len(rows), [None, self.offsets.ctypes.data], [entries], release)
        fields = [self.type(format_, [], forget) for format_ in (b"i", b"f")]
        self.schema = self.type(b"+l", [self.type(b"+s", fields, forget)], forget)

    def node(
        self, length: int, buffers: list[int | None], children: list[ArrowArray], release: int | None
    ) -> ArrowArray:
        pointers = (c_void_p * len(buffers))(*buffers)
        below = (POINTER(ArrowArray) * max(1, len(children)))(*(ctypes.pointer(child) for child in children))
        self.kept += [pointers, below, children]
        return ArrowArray(
            length=length,
            n_buffers=len(buffers),
            buffers=pointers,
            n_children=len(children),
            children=below,
            release=release,
        )

    def type(self, format_: bytes, children: list[ArrowSchema], release: int | None) -> ArrowSchema:
        below = (POINTER(ArrowSchema) * max(1, len(children)))(*(ctypes.pointer(child) for child in children))
        self.kept += [below, children]
        return ArrowSchema(format=format_, name=b"", n_children=len(children), children=below, release=release)


def network(hidden: int = 8) -> bytes:
    layers = [
        {"name": "input", "kind": "input", "size": "auto"},
        {"name": "hidden", "kind": "hidden", "sources": ["input"], "size": hidden, "activation": "tanh"},
        {"name": "output", "kind": "output", "sources": ["hidden"], "size": "auto"},
    ]
    return json.dumps({"name": "blocks", "layers": layers, "loss": "softmax"}).encode()


class Blocks:
    """Users who like items of their own block only, with a model, a trainer and a predictor that are bound to them."""

    def __init__(self, library: Library, users: int = 60, items: int = 12, blocks: int = 3) -> None:
        random = np.random.default_rng(0)
        width = items // blocks
        self.library, self.users, self.items = library, users, items
        rows = [sorted(random.choice(width, 3, replace=False) + u % blocks * width) for u in range(users)]
        self.matrix = Matrix(library, rows, items)
        self.dataset = library.dataset(self.matrix)
        sizes = json.dumps({"seed": 1, "sizes": {"input": items, "output": items}}).encode()
        self.model = library.open("model_create", network(), sizes)
        options = json.dumps(
            {"batch_size": 20, "optimizer": {"kind": "adam", "learning_rate": 0.01}, "seed": 1, "devices": "cpu"}
        )
        self.trainer = library.open("trainer_open", self.model, options.encode())
        self.predictor = library.open("predictor_open", self.model, b'{"devices": "cpu"}')
        for layer in (b"input", b"output"):
            library.call("trainer_bind", self.trainer, layer, self.dataset)
        library.call("predictor_bind", self.predictor, b"input", self.dataset)

    def recommend(self, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
        ids, scores = np.empty((self.users, k), np.int32), np.empty((self.users, k), np.float32)
        where = ids.ctypes.data, scores.ctypes.data
        self.library.call("predictor_recommend", self.predictor, None, self.users, 0, None, 0, k, None, *where)
        return ids, scores

    def close(self) -> None:
        for kind in ("predictor", "trainer", "model", "dataset"):
            self.library.call(f"{kind}_close", getattr(self, kind))
