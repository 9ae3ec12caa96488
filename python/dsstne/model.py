"""A model: a network definition with its weights, and everything that can be asked of it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _native, _options
from dsstne._items import decode_names, encode_names
from dsstne._layers import nearest, numbers
from dsstne._predictor import Predictor, check_k, chosen_items
from dsstne.errors import InvalidArgumentError, MissingFileError, NotFoundError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Model", "load"]

_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype(np.float32), "U8": np.dtype(np.uint8), "I64": np.dtype(np.int64)}
_HISTORY, _ITEM_KIND = "dsstne.history", "dsstne.items"  # attributes of a model file that are ours
_BLOCK = 1 << 24  # floats of a dense block of scores


class Model:
    """A network with its weights.

    Usually made by :func:`dsstne.fit` or :func:`dsstne.load`. A model may be pickled and deep-copied, used by several
    threads at once, and by a :class:`dsstne.Trainer` (not while that runs). Options that the calls below share:

    - ``rows``: which rows of X to work on (indices or a boolean mask); None = all.
    - ``items`` / ``filter_items``: rank only these items / never these (ids or a boolean mask).
    - ``batch_size``: rows at a time; ``devices``, ``threads``, ``memory_limit`` (bytes): as in :func:`dsstne.fit`.

    Args:
        network: Definition as a mapping, JSON text or path of a JSON file.
        sizes: Units of the layers whose size the definition leaves ``"auto"``.
        seed: Seed of the initial weights.
        items: Names of the output's items, in order: strings or integers.

    Attributes:
        history: One record per epoch of training, see :func:`dsstne.fit`.
        attributes: Texts of your own that are saved with the model.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> layers = [dict(name="in", kind="input", size=4), dict(name="h", kind="hidden", size=2),
        ...           dict(name="out", kind="output", size=4)]
        >>> model = dsstne.Model({"layers": layers}, seed=1)
        >>> X = scipy.sparse.csr_array(np.eye(4, dtype=np.float32))
        >>> ids, scores = model.recommend(X, k=2)
        >>> ids.shape, scores.dtype
        ((4, 2), dtype('float32'))
    """

    def __init__(
        self,
        network: Mapping[str, Any] | str | os.PathLike[str],
        *,
        sizes: Mapping[str, int] | None = None,
        seed: int = 0,
        items: Sequence[str] | ArrayLike | None = None,
    ) -> None:
        options = _options.to_json({"seed": seed, "sizes": sizes or None})
        self._adopt(_native.Handle("model", "model_create", read_network(network), options))
        if items is not None:
            self.items = items

    def _adopt(self, handle: _native.Handle) -> None:
        self._handle = handle
        self.history: list[dict[str, Any]] = []
        self.attributes: dict[str, str] = {}
        description = self._describe()
        self._network: dict[str, Any] = description["network"]
        self._parameters = int(description["parameters"])
        self._layers = {layer["name"]: layer for layer in self._network["layers"]}
        self._item_kind = "none"

    def _describe(self) -> dict[str, Any]:
        description: dict[str, Any] = json.loads(_native.call_text("model_describe", self._handle.value))
        return description

    # ---- what it is ----

    @property
    def network(self) -> dict[str, Any]:
        """The complete network definition."""
        return copy.deepcopy(self._network)

    @property
    def inputs(self) -> dict[str, int]:
        """Name and number of units of each input layer."""
        return self._sizes("input")

    @property
    def outputs(self) -> dict[str, int]:
        """Name and number of units of each output layer."""
        return self._sizes("output")

    def _sizes(self, kind: str) -> dict[str, int]:
        return {name: layer["size"] for name, layer in self._layers.items() if layer["kind"] == kind}

    @property
    def output(self) -> str:
        """Name of the output layer that is ranked: the only one, or the first."""
        return next(iter(self.outputs))

    @property
    def output_units(self) -> int:
        """Number of items of that layer."""
        return self.outputs[self.output]

    @property
    def parameters(self) -> int:
        """Number of trainable numbers."""
        return self._parameters

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return int(self._describe()["bytes"])

    @property
    def step(self) -> int:
        """Training steps done."""
        return int(self._describe()["step"])

    # ---- weights ----

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight and bias by name: ``"<layer>.weight"``, ``"<layer>.bias"``.

        Weights that touch items have a row per item, the others are [units, inputs], and a bias is [units].
        """
        listed = self._describe()["tensors"]
        return {t["name"]: _shape(t) for t in listed if not t["name"].startswith("items.")}

    def _tensor_entry(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        listed = {t["name"]: t for t in self._describe()["tensors"]}
        if name not in listed:
            raise NotFoundError(f"the model has no tensor {name!r}; {nearest(name, listed)}")
        return _DTYPES[listed[name]["dtype"]], _shape(listed[name])

    def tensor(self, name: str) -> NDArray[Any]:
        """Returns a copy of a tensor; :attr:`tensors` lists them.

        Raises:
            NotFoundError: There is none of that name.
        """
        dtype, shape = self._tensor_entry(name)
        array = np.empty(shape, dtype)
        _native.call("model_get_tensor", self._handle.value, name.encode(), array.ctypes.data, array.nbytes)
        return array

    def set_tensor(self, name: str, values: ArrayLike) -> None:
        """Replaces a tensor by values of the same shape.

        Raises:
            NotFoundError: There is none of that name.
            InvalidArgumentError: The shape is another.
            NotFiniteError: A value is not finite.
            BusyError: A trainer or predictor is working with the model.
        """
        dtype, shape = self._tensor_entry(name)
        array = np.ascontiguousarray(values, dtype=dtype)
        if array.shape != shape:
            raise InvalidArgumentError(f"{name} has the shape {shape}, not {array.shape}")
        self._set(name, array)

    def _set(self, name: str, array: NDArray[Any]) -> None:
        _native.call("model_set_tensor", self._handle.value, name.encode(), array.ctypes.data, array.nbytes)

    # ---- names of items ----

    @property
    def items(self) -> NDArray[Any] | None:
        """Names of the output's items in order, strings or int64, or None. Set it to name them."""
        if self._item_kind == "none":
            return None
        return decode_names(self.tensor("items.bytes"), self.tensor("items.offsets"), self._item_kind)

    @items.setter
    def items(self, names: Sequence[str] | ArrayLike) -> None:
        text, offsets, kind = encode_names(names)
        if len(offsets) - 1 != self.output_units:
            raise InvalidArgumentError(
                f"items has {len(offsets) - 1:,} names; the model has {self.output_units:,} items"
            )
        self._set("items.bytes", text)
        self._set("items.offsets", offsets)
        self._item_kind = kind

    def names(self, ids: ArrayLike) -> NDArray[Any]:
        """Translates ids that :meth:`recommend` gave into names, of the same shape; None stands for -1.

        Raises:
            InvalidArgumentError: The model's items have no names.
        """
        items = self.items
        if items is None:
            raise InvalidArgumentError("the items of this model have no names; set model.items or give fit(items=...)")
        ids = np.asarray(ids)
        if ids.size and (ids.min() < -1 or ids.max() >= len(items)):
            raise InvalidArgumentError(f"ids: expected -1 to {len(items) - 1:,}")
        named = np.empty(len(items) + 1, object)  # the last one, which -1 finds, stays None
        named[:-1] = items
        chosen: NDArray[Any] = named[ids]
        return chosen

    # ---- answers ----

    def recommend(
        self,
        X: Any,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Any = None,
        items: Any = None,
        filter_items: Any = None,
        rows: Any = None,
        batch_size: int = 512,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Finds the k best items for each row.

        Every item is scored and the ranking is exact; of equal scores the lower id comes first.

        Args:
            X: Interaction matrix [n, inputs], one row per user, who need not have been in the training data.
            k: Length of the lists, 1 to the number of items.
            exclude_seen: Leave out the items stored in the row of X (where outputs are the same items as inputs).
            exclude: Another matrix [n, items] of what counts as seen.
            items: Rank only these.
            filter_items: Never these.
            rows: Which rows, see :class:`Model`.
            batch_size: See :class:`Model`.
            devices: See :class:`Model`.
            threads: See :class:`Model`.
            memory_limit: See :class:`Model`.

        Returns:
            Ids, int32 [n, k], and scores (logits), float32 [n, k], best first; -1 and -inf where nothing is left.

        Raises:
            InvalidArgumentError: k, a shape or an id that cannot be.
            InvalidDataError: X is damaged.
        """
        k = check_k(k, self.output_units)
        chosen, deny = chosen_items(items, filter_items, self.output_units)
        if exclude is not None and not exclude_seen:
            raise InvalidArgumentError("exclude= says what counts as seen, and exclude_seen=False leaves nothing out")
        if exclude is None and exclude_seen and list(self.inputs.values()) == [self.output_units]:
            exclude = "input"
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Predictor(self, X, rows=rows, options=options) as predictor:
            return predictor.recommend(k, exclude, chosen, deny)

    def predict(
        self,
        X: Any,
        layer: str | None = None,
        *,
        rows: Any = None,
        batch_size: int = 512,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> NDArray[np.float32]:
        """Computes all values of a layer, densely: scores (logits) of an output layer, activations of a hidden one.

        Args:
            X: Interaction matrix [n, inputs].
            layer: Name of the layer; None = the output layer.
            rows: Which rows, see :class:`Model`.
            batch_size: See :class:`Model`.
            devices: See :class:`Model`.
            threads: See :class:`Model`.
            memory_limit: See :class:`Model`.

        Returns:
            float32 [n, units of the layer].

        Raises:
            NotFoundError: There is no such layer, or it is an input.
        """
        known = [name for name, entry in self._layers.items() if entry["kind"] != "input"]
        if layer is not None and layer not in known:
            raise NotFoundError(f"there is no layer {layer!r} to compute; {nearest(layer, known)}")
        units = self._layers[layer or self.output]["size"]
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Predictor(self, X, rows=rows, options=options) as predictor:
            out = np.empty((predictor.count, units), np.float32)
            predictor.predict(layer, units, out)
        return out

    def embed(self, X: Any, layer: str | None = None, **options: Any) -> NDArray[np.float32]:
        """Computes the activations of a hidden layer (None = the last one), float32 [n, units]; see :meth:`predict`."""
        hidden = list(self._sizes("hidden"))
        if not hidden:
            raise NotFoundError("the model has no hidden layer")
        return self.predict(X, layer or hidden[-1], **options)

    def scores(self, X: Any, items: Any, *, rows: Any = None, **options: Any) -> NDArray[np.float32]:
        """Scores given items only, float32 [n, items], without holding all scores of all rows at once.

        Args:
            X: Interaction matrix [n, inputs].
            items: Ids, in the order of the result's columns.
            rows: Which rows, see :class:`Model`.
            **options: As in :meth:`predict`.
        """
        chosen = numbers(items, self.output_units, "items", np.int32)
        with Predictor(self, X, rows=rows, options=options) as predictor:
            every = np.arange(predictor.count, dtype=np.int64) if predictor.rows is None else predictor.rows
            out = np.empty((len(every), len(chosen)), np.float32)
            size = max(1, _BLOCK // self.output_units)
            for start in range(0, len(every), size):
                predictor.rows = every[start : start + size]
                predictor.count = len(predictor.rows)
                block = np.empty((predictor.count, self.output_units), np.float32)
                predictor.predict(None, self.output_units, block)
                out[start : start + size] = block[:, chosen]
        return out

    def neighbors(
        self,
        queries: Any,
        k: int = 10,
        *,
        tensor: str | None = None,
        metric: str = "cosine",
        include_self: bool = False,
        items: Any = None,
        filter_items: Any = None,
        devices: Any = "auto",
        threads: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Finds the k nearest rows of a weight for given rows of it.

        Args:
            queries: Row numbers, [n].
            k: Length of the lists.
            tensor: Name of the weight; None = the output layer's, whose rows are the items.
            metric: ``"cosine"`` or ``"dot"``.
            include_self: Whether a row may be its own neighbour.
            items: Only these rows.
            filter_items: Never these rows.
            devices: See :class:`Model`.
            threads: See :class:`Model`.

        Returns:
            Row numbers, int32 [n, k], and similarities, float32 [n, k], best first; -1 and -inf where nothing is left.
        """
        count = self.output_units if tensor is None else self._tensor_entry(tensor)[1][0]
        k = check_k(k, count)
        chosen, deny = chosen_items(items, filter_items, count)
        asked = numbers(queries, count, "queries", np.int32)
        options = {"metric": metric, "include_self": include_self, "items": "deny" if deny else None}
        with Predictor(self, options={"devices": devices, "threads": threads}) as predictor:
            return predictor.neighbors(tensor, asked, k, chosen, options)

    def similar_items(self, items: Any, k: int = 10, **options: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Finds the k items most like each of the given ones: :meth:`neighbors` among the output layer's items."""
        return self.neighbors(items, k, **options)

    # ---- files and copies ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file: definition, weights, names of items, history and attributes.

        An existing file stays whole until the new one is on the disk. The format holds no code.

        Raises:
            InputOutputError: The operating system refused; an old file is untouched.
        """
        attributes = dict(self.attributes)
        attributes[_HISTORY] = json.dumps(self.history, default=_plain)
        attributes[_ITEM_KIND] = self._item_kind
        name = _options.text_argument(os.fspath(path), "path")
        _native.call("model_save", self._handle.value, name, _options.to_json({"attributes": attributes}))

    @classmethod
    def _load(cls, path: str | os.PathLike[str], threads: int | None) -> Model:
        name = _options.text_argument(os.fspath(path), "path")
        model = cls.__new__(cls)
        model._adopt(_native.Handle("model", "model_load", name, _options.to_json({"threads": threads})))
        model.attributes = dict(model._describe()["attributes"])
        model.history = json.loads(model.attributes.pop(_HISTORY, "[]"))
        model._item_kind = model.attributes.pop(_ITEM_KIND, "none")
        return model

    def _state(self) -> dict[str, Any]:
        listed = [t["name"] for t in self._describe()["tensors"]]
        return {
            "network": self.network,
            "tensors": {name: self.tensor(name) for name in sorted(listed)},  # items.bytes before items.offsets
            "item_kind": self._item_kind,
            "history": copy.deepcopy(self.history),
            "attributes": dict(self.attributes),
        }

    @classmethod
    def _from_state(cls, state: Mapping[str, Any]) -> Model:
        model = cls(state["network"])
        for name, array in state["tensors"].items():
            model._set(name, array)
        model._item_kind, model.history = state["item_kind"], state["history"]
        model.attributes = state["attributes"]
        return model

    def __reduce__(self) -> Any:
        return Model._from_state, (self._state(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return Model._from_state(self._state())

    # ---- life ----

    def close(self) -> None:
        """Frees the weights; closing twice does nothing. A model that nobody refers to is closed by itself.

        Raises:
            BusyError: A trainer uses it; close that first.
        """
        self._handle.close()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has succeeded."""
        return self._handle.closed

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        sizes = " - ".join(f"{layer['size']:,}" for layer in self._layers.values())
        state = "closed" if self.closed else f"{self.parameters:,} parameters"
        return f"Model({sizes}; {state})"


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> Model:
    """Reads a model file that :meth:`Model.save` wrote; every digest and number in it is checked.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is no model, or is damaged.

    Example:
        >>> import dsstne
        >>> dsstne.load("no-such-file.dsstne")
        Traceback (most recent call last):
            ...
        dsstne.errors.MissingFileError: no-such-file.dsstne: no such file
    """
    if not Path(path).exists():
        raise MissingFileError(f"{os.fspath(path)}: no such file")
    return Model._load(path, threads)


def read_network(network: Mapping[str, Any] | str | os.PathLike[str]) -> bytes:
    """Returns a network definition as JSON text; a text that does not begin with a brace is the path of a file."""
    if isinstance(network, Mapping):
        return _options.to_json(network)
    if isinstance(network, str) and network.lstrip().startswith("{"):
        return _options.text_argument(network, "network")
    try:
        return _options.text_argument(Path(network).read_text("utf-8"), "network")
    except FileNotFoundError:
        raise MissingFileError(f"network: {os.fspath(network)}: no such file") from None


def _shape(tensor: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the shape of a tensor as users see it: the engine's biases are matrices of one column."""
    shape = tuple(tensor["shape"])
    return shape[:1] if tensor["name"].endswith(".bias") else shape


def _plain(value: Any) -> Any:
    """Turns what JSON has not, NumPy numbers first of all, into what it has."""
    return value.item() if hasattr(value, "item") else str(value)
