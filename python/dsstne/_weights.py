"""The contents of a model: its definition, its weights and the names of its items."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _checks, _handles, _native
from dsstne._items import decode_names, encode_names
from dsstne._layers import nearest
from dsstne._naming import known_numbers
from dsstne._rounding import from_bfloat16, to_bfloat16, to_float16
from dsstne._tables import History
from dsstne.errors import InvalidArgumentError, NotFiniteError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "U8": np.dtype(np.uint8),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(np.uint16),  # the bits of bfloat16, which NumPy lacks
}

# A matrix in compressed row form is stored as three tensors: its name with these suffixes.
_OFFSETS, _INDICES, _VALUES = ".offsets", ".indices", ".values"

# What the name of a tensor with one number for each unit ends with.
_VECTORS = ("bias", "scale", "running_mean", "running_variance")


class Weights(_handles.Closing):
    """A definition and its weights; :class:`dsstne.Model` adds predictions and files."""

    def _adopt(self, handle: _handles.Handle) -> None:
        self._handle = handle
        self.history: list[dict[str, Any]] = History()
        self.attributes: dict[str, str] = {}
        description = self._describe()
        self._network: dict[str, Any] | None = description["network"]
        self._definition: dict[str, Any] = description["definition"]
        self._parameters = int(description["parameters"])
        self._layers = {layer["name"]: layer for layer in description["layers"]}
        self._item_kind = "none"
        self._names: NDArray[Any] | None = None
        self._same_items: bool | None = None
        self._checkpoint: dict[str, str] = {}  # what the file has beside the model, if it is a checkpoint

    def _describe(self) -> dict[str, Any]:
        return _native.call_json("model_describe", self._handle.value)

    def _read_attributes(self) -> None:
        for name, size in self._describe()["attribute_bytes"].items():
            arguments = self._handle.value, name.encode()
            self.attributes[name] = _native.call_text("model_get_attribute", *arguments, size=size)

    # ---- description ----

    @property
    def network(self) -> dict[str, Any] | None:
        """The complete network definition; None for a model that is not a network."""
        return copy.deepcopy(self._network)

    @property
    def inputs(self) -> dict[str, int]:
        """Name and number of units of each input layer."""
        return self._sizes("input")

    @property
    def outputs(self) -> dict[str, int]:
        """Name and number of units of each output layer."""
        return self._sizes("output")

    @property
    def _hidden(self) -> dict[str, int]:
        """Name and number of units of each layer between inputs and outputs."""
        return {name: layer["size"] for name, layer in self._layers.items() if layer["kind"] not in ("input", "output")}

    def _sizes(self, kind: str) -> dict[str, int]:
        return {name: layer["size"] for name, layer in self._layers.items() if layer["kind"] == kind}

    @property
    def output(self) -> str:
        """Name of the first output layer, which is ranked unless a call names another.

        Raises:
            InvalidArgumentError: The model has no output layer, and so no scores of items.
        """
        for name in self.outputs:
            return name
        raise InvalidArgumentError(
            "the model has no output layer, so it has no scores of items; embed(X) gives the values of a hidden layer"
        )

    @property
    def output_units(self) -> int:
        """Number of items of the first output layer."""
        return self.outputs[self.output]

    @property
    def parameters(self) -> int:
        """Number of weights and biases, trained or given."""
        return self._parameters

    @property
    def nbytes(self) -> int:
        """Size of the weights in bytes."""
        return int(self._describe()["bytes"])

    @property
    def step(self) -> int:
        """Number of training steps done."""
        return int(self._describe()["step"])

    @property
    def same_items(self) -> bool:
        """Whether outputs and inputs are the same items; the items stored in a row then count as seen.

        The first training sets it: True if :func:`dsstne.fit` or :class:`dsstne.Trainer` is given no ``targets``. Until
        then it is True if the model has one input and one output of the same size. You can set it yourself.
        """
        if self._same_items is None:
            if self._definition.get("kind") == "vectors":
                return False
            outputs = list(self.outputs.values())
            return len(outputs) == 1 and list(self.inputs.values()) == outputs
        return self._same_items

    @same_items.setter
    def same_items(self, same: bool) -> None:
        self._same_items = _checks.boolean(same, "same_items")

    def _learn_same_items(self, same: bool) -> None:
        """Sets :attr:`same_items` unless it is set."""
        if self._same_items is None:
            self._same_items = same

    # ---- weights ----

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight and bias by name: ``"<layer>.weight"``, ``"<layer>.bias"``.

        Weights that connect to items have one row per item; other weights are [units, inputs] and biases [units],
        and so are the scale and the running moments of a layer with ``batch_norm``.
        A model of weights between items has ``"weight"`` or ``"bias"``.
        """
        return self._shapes(self._listed())

    def _listed(self) -> dict[str, dict[str, Any]]:
        """Returns the description of each tensor by name, including the item names."""
        return {t["name"]: t for t in self._describe()["tensors"]}

    def _shapes(self, listed: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for name, entry in listed.items():
            matrix = name.rpartition(".")[0]
            if matrix + _VALUES in listed:
                offsets = listed[matrix + _OFFSETS]
                shapes[matrix] = (offsets["shape"][0] - 1, offsets.get("columns", 0))
            elif not name.startswith("items."):
                shapes[name] = user_shape(entry)
        return shapes

    def tensor(self, name: str) -> Any:
        """Returns a copy of a tensor, as a ``csr_array`` if it is stored sparsely; :attr:`tensors` lists the names.

        The vectors of an index that stores them as bfloat16 are returned as float32, the same numbers.

        Raises:
            NotFoundError: The model does not have this tensor.
        """
        listed = self._listed()
        if _checks.text(name, "name") + _VALUES in listed:
            parts: Any = tuple(self._stored(name + part, listed) for part in (_VALUES, _INDICES, _OFFSETS))
            shape: Any = self._shapes(listed)[name]
            return scipy.sparse.csr_array(parts, shape=shape)
        stored = self._stored(name, listed)
        return from_bfloat16(stored) if listed[name]["dtype"] == "BF16" else stored

    def _stored(self, name: str, listed: Mapping[str, Any]) -> NDArray[Any]:
        """Returns a copy of a tensor as it is stored."""
        dtype, shape = _entry(name, listed)
        array = np.empty(shape, dtype)
        _native.call("model_get_tensor", self._handle.value, name.encode(), array, array.nbytes)
        return array

    def set_tensor(self, name: str, values: ArrayLike) -> None:
        """Replaces the values of a tensor.

        Raises:
            NotFoundError: The model does not have this tensor.
            InvalidArgumentError: The shape differs, or the values are not numbers.
            NotFiniteError: A value is not finite.
            BusyError: A trainer or predictor is working with the model.
        """
        listed = self._listed()
        if _checks.text(name, "name") + _VALUES in listed:
            self._set_sparse(name, values, listed)
            return
        dtype, shape = _entry(name, listed)
        given = _checks.array(values)
        if given.dtype.kind not in "buif":
            raise InvalidArgumentError(f"{name}: expected numbers, got {_checks.shown(values)}")
        with np.errstate(over="ignore"):  # the engine refuses infinity
            round_to = {"F16": to_float16, "BF16": to_bfloat16}.get(listed[name]["dtype"])
            array = round_to(given) if round_to else given.astype(dtype, order="C", copy=False)
        if array.shape != shape:
            raise InvalidArgumentError(f"{name}: expected shape {shape}, got {array.shape}")
        self._set(name, array)

    def _set_sparse(self, name: str, values: Any, listed: Mapping[str, Any]) -> None:
        """Replaces a sparse tensor by a matrix with the same number of stored entries."""
        matrix, shape = sparse_matrix(values, name), self._shapes(listed)[name]
        entries = listed[name + _VALUES]["shape"][0]
        if matrix.shape != shape or matrix.nnz != entries:
            raise InvalidArgumentError(
                f"{name}: expected shape {shape}, {entries:,} stored entries, got {matrix.shape}, {matrix.nnz:,}; "
                "make a new model for another matrix"
            )
        self._set(name + _VALUES, matrix.data)
        self._set(name + _INDICES, matrix.indices.astype(np.int32, copy=False))
        self._set(name + _OFFSETS, matrix.indptr.astype(np.int64, copy=False))

    def _set(self, name: str, array: NDArray[Any]) -> None:
        if name.startswith("items."):
            self._names = None  # decoded from the tensors that change
        _native.call("model_set_tensor", self._handle.value, name.encode(), array, array.nbytes)

    def _copy_tensors(self, to: Weights, prefix: str, new: str) -> None:
        """Copies the tensors whose names begin with a prefix to those of another model with a new prefix."""
        listed = self._listed()
        for name in listed:
            if name.startswith(prefix) and not name.startswith("items."):
                to._set(new + name.removeprefix(prefix), self._stored(name, listed))

    # ---- names of items ----

    @property
    def items(self) -> NDArray[Any] | None:
        """Names of the output's items in order (str or int64), or None. May be assigned; None removes the names."""
        names = self._item_names()
        return None if names is None else names.copy()

    @items.setter
    def items(self, names: Sequence[str] | ArrayLike | None) -> None:
        units = self.output_units
        text, offsets, kind = encode_names([""] * units if names is None else names)
        if len(offsets) - 1 != units:
            raise InvalidArgumentError(f"items has {len(offsets) - 1:,} names; the model has {units:,} items")
        with _native.lock:
            self._set("items.bytes", text)
            self._set("items.offsets", offsets)
            self._item_kind, self._names = "none" if names is None else kind, None

    def _item_names(self) -> NDArray[Any] | None:
        """Returns the names without a copy; decodes them at the first use."""
        names = self._names
        if names is None:
            with _native.lock:
                if self._item_kind != "none" and self._names is None:
                    text, offsets = self.tensor("items.bytes"), self.tensor("items.offsets")
                    self._names = decode_names(text, offsets, self._item_kind)
                names = self._names
        return names

    def ids(self, names: Any, unknown: str = "raise") -> NDArray[np.int64]:
        """Returns the ids of items by their names, int64 [n]; the inverse of :meth:`names`.

        Methods with the parameters ``items``, ``filter_items`` or ``item`` look up names that are strings themselves.
        Integers are always ids there, so this method finds the ids of names that are integers.

        Args:
            names: Names of items, or one name.
            unknown: What to do about unknown names: ``"raise"``, ``"warn"`` and leave them out, or ``"skip"`` them.

        Raises:
            NotFoundError: A name is unknown, and ``unknown`` is ``"raise"``; the message suggests the nearest name.
            InvalidArgumentError: The model's items have no names.

        Example:
            >>> import dsstne, numpy as np
            >>> dsstne.popularity(np.eye(3), items=[1193, 661, 914]).ids([914, 1193])
            array([2, 0])
        """
        return known_numbers(names, self._needed_names(), "item", unknown)

    def _needed_names(self) -> NDArray[Any]:
        names = self._item_names()
        if names is None:
            raise InvalidArgumentError("the items of this model have no names; set model.items or give fit(items=...)")
        return names

    def names(self, ids: ArrayLike) -> NDArray[Any]:
        """Returns the names of ids from :meth:`Model.recommend`, in the same shape; None for the id -1.

        Raises:
            InvalidArgumentError: The model's items have no names, or an id is not valid.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
            >>> model = dsstne.popularity(X, items=["tea", "milk", "bread"])
            >>> model.names(model.recommend(X, k=2)[0])
            array([['milk', None],
                   ['tea', 'milk']], dtype=object)
        """
        items = self._needed_names()
        numbers = _checks.array(ids)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise InvalidArgumentError(f"ids must be integers, not {_checks.shown(ids)}")
        if numbers.size and (numbers.min() < -1 or numbers.max() >= len(items)):
            raise InvalidArgumentError(f"ids: expected -1 to {len(items) - 1:,}")
        numbers = numbers.astype(np.int64)
        chosen = np.full(numbers.shape, None, object)
        chosen[numbers >= 0] = items[numbers[numbers >= 0]]
        return chosen


def check_model(model: Any) -> None:
    """Raises an error if the argument ``model`` is something else."""
    if not isinstance(model, Weights):
        raise InvalidArgumentError(f"model must be a dsstne.Model, not {_checks.shown(model)}")


def sparse_matrix(matrix: Any, name: str) -> Any:
    """Converts a matrix to float32 in compressed row form, with sorted columns and summed duplicates.

    Raises:
        NotFiniteError: A value is not finite.
    """
    rows = scipy.sparse.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    with np.errstate(over="ignore"):
        values = rows.data.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = int(np.searchsorted(rows.indptr, bad[0], "right")) - 1
        raise NotFiniteError(f"{name}, row {row}, column {rows.indices[bad[0]]}: {rows.data[bad[0]]} is not finite")
    return scipy.sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)


def _entry(name: str, listed: Mapping[str, Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Returns the type and the shape of a tensor.

    Raises:
        NotFoundError: The model does not have this tensor.
    """
    if name not in listed:
        raise NotFoundError(f"the model has no tensor {_checks.shown(name)}; {nearest(name, listed)}")
    return DTYPES[listed[name]["dtype"]], user_shape(listed[name])


def user_shape(tensor: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the shape that users see; the engine stores a bias and its like as a matrix with one column."""
    shape = tuple(tensor["shape"])
    is_vector = tensor["name"].rpartition(".")[2] in _VECTORS and shape[1:] == (1,)  # not the weight of a source "bias"
    return shape[:1] if is_vector else shape
