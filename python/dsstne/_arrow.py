"""Arrow C structs over NumPy arrays, without pyarrow and without a copy.

A matrix in compressed row form is exactly one Arrow array: ``list<struct<index, value>>``, or ``list<index>`` when
every stored value is 1. Row offsets are the list's offsets; column indices and values are its child arrays. A dense
matrix is a ``fixed_size_list<value>``. The structs follow the Arrow C Data Interface
(https://arrow.apache.org/docs/format/CDataInterface.html).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne import _native
from dsstne.errors import InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMATS = {"int8": b"c", "int16": b"s", "int32": b"i", "int64": b"l", "float32": b"f", "float64": b"g"}
_FORMATS |= {"float16": b"e", "uint8": b"C", "uint16": b"S", "uint32": b"I", "uint64": b"L"}


class ArrowSchema(ctypes.Structure):
    """``struct ArrowSchema``."""


ArrowSchema._fields_ = (
    *((name, c_char_p) for name in ("format", "name", "metadata")),
    *((name, c_int64) for name in ("flags", "n_children")),
    ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", POINTER(ArrowSchema)),
    *((name, c_void_p) for name in ("release", "private_data")),
)


class ArrowArray(ctypes.Structure):
    """``struct ArrowArray``."""


ArrowArray._fields_ = (
    *((name, c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))),
    ("dictionary", POINTER(ArrowArray)),
    *((name, c_void_p) for name in ("release", "private_data")),
)


class Exported(NamedTuple):
    """An Arrow schema and array that a receiver moves from, and the objects that own their memory."""

    schema: int  # address of the ``ArrowSchema``
    array: int  # address of the ``ArrowArray``
    owners: object  # keep these alive until the receiver has called ``release``


def export_csr(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any] | None) -> Exported:
    """Describes three arrays as one Arrow array.

    Args:
        indptr: Row offsets, int32 or int64 [rows + 1].
        indices: Column indices, int32, int64 or uint32 [nnz or more].
        values: Floats or integers [nnz or more], or None if every stored value is 1.

    Returns:
        The structs. Their ``release`` is a function of the library that frees nothing: keep ``owners`` until its call.
    """
    release = _native.release_callbacks()
    item = _array(len(indices), (None, indices), (), release[0])
    item_schema = _schema(_FORMATS[indices.dtype.name], b"index", (), release[1])
    if values is not None:
        length = min(len(indices), len(values))
        value = _array(len(values), (None, values), (), release[0])
        value_schema = _schema(_FORMATS[values.dtype.name], b"value", (), release[1])
        item = _array(length, (None,), (item, value), release[0])
        item_schema = _schema(b"+s", b"item", (item_schema, value_schema), release[1])
    array = _array(len(indptr) - 1, (None, indptr), (item,), release[0])
    schema = _schema(b"+L" if indptr.dtype.itemsize == 8 else b"+l", b"", (item_schema,), release[1])
    return Exported(ctypes.addressof(schema), ctypes.addressof(array), (schema, array, indptr, indices, values))


def export_dense(X: NDArray[Any]) -> Exported:
    """Describes an array of two dimensions, in the order of its rows, as one Arrow array.

    Args:
        X: float32, float64 or integers [rows, columns].

    Returns:
        The structs, as those of :func:`export_csr`.
    """
    release = _native.release_callbacks()
    cells = _array(X.size, (None, X), (), release[0])
    cell = _schema(_FORMATS[X.dtype.name], b"value", (), release[1])
    array = _array(len(X), (None,), (cells,), release[0])
    schema = _schema(b"+w:%d" % X.shape[1], b"", (cell,), release[1])
    return Exported(ctypes.addressof(schema), ctypes.addressof(array), (schema, array, X))


def _array(
    length: int, buffers: tuple[NDArray[Any] | None, ...], children: tuple[ArrowArray, ...], release: int
) -> ArrowArray:
    addresses = (c_void_p * len(buffers))(*(None if b is None else b.ctypes.data for b in buffers))
    # ctypes accepts an array for a pointer field. A struct keeps the objects that are assigned to it alive.
    return ArrowArray(
        length=length,
        n_buffers=len(buffers),
        buffers=addresses,
        n_children=len(children),
        children=_pointers(ArrowArray, children),
        release=release,
    )


def _schema(text: bytes, name: bytes, children: tuple[ArrowSchema, ...], release: int) -> ArrowSchema:
    below = _pointers(ArrowSchema, children)
    return ArrowSchema(format=text, name=name, n_children=len(children), children=below, release=release)


def _pointers(kind: Any, children: tuple[Any, ...]) -> Any:
    if not children:
        return None
    return (POINTER(kind) * len(children))(*(ctypes.pointer(child) for child in children))


def import_capsules(producer: Any) -> Exported:
    """Reads the structs of an object with ``__arrow_c_array__`` (the Arrow PyCapsule interface).

    Args:
        producer: For example a pyarrow or polars array of ``list<struct<index, value>>``.

    Returns:
        The producer's structs. The receiver moves from them; the capsules then have nothing to release.

    Raises:
        InvalidDataError: The object does not follow the interface.
    """
    capsules = producer.__arrow_c_array__()
    get_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]  # a private copy: other code cannot set its types
    get_pointer.restype, get_pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)
    try:
        schema, array = capsules
        addresses = get_pointer(schema, b"arrow_schema"), get_pointer(array, b"arrow_array")
    except (TypeError, ValueError) as error:
        kind = type(producer).__name__
        raise InvalidDataError(f"{kind}.__arrow_c_array__ did not return a schema and an array: {error}") from None
    return Exported(*addresses, capsules)
