"""One pass of inference: opens the inputs of a model, computes, and releases them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne import _checks, _handles, _native, _options
from dsstne._items import first_difference
from dsstne._layers import Bound, check_columns, nearest, numbers
from dsstne._tables import Plan
from dsstne._weights import Weights, check_model
from dsstne.devices import chosen
from dsstne.errors import InvalidArgumentError, NotFoundError, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dsstne.dataset import Dataset


WEIGHTS_ONLY: Any = object()  # used as X by calls that read no matrix

# Calls with fewer multiplications take only milliseconds and need no thread for Ctrl-C.
_SHORT = 1 << 28

# Floats of all items that are computed for some rows at a time; with memory_limit at most a quarter of it.
_BLOCK = 1 << 24

# What is computed of a row of a block takes at most as much memory as this many rows of it.
_BESIDE = 8

# Results above this size are compared with the available memory.
_LARGE = 1 << 29


class Choice(NamedTuple):
    """The items that may be ranked."""

    items: NDArray[np.int32] | None
    length: int
    mode: str | None  # the option ``items``: "deny" for items that are never ranked

    def mask(self, units: int) -> NDArray[np.bool_]:
        """Returns which of all items may be ranked."""
        allowed = np.full(units, self.items is None or self.mode == "deny")
        if self.items is not None:
            allowed[self.items] = self.mode != "deny"
        return allowed


ALL = Choice(None, 0, None)


class Predictor(_handles.Closing):
    """Computes results from a model and a matrix per input layer; neighbours need no matrix.

    Args:
        model: The model.
        X: Matrix [n, inputs], Dataset, or mapping from input layers to them; ``WEIGHTS_ONLY`` = none.
        options: ``batch_size``, ``devices``, ``threads``, ``memory_limit``; None = default.
        rows: Row numbers, in any order, or a boolean mask; None = all.
        layer: Output layer to rank; None = the first.
        name: Name of X in error messages.
        row_bytes: Bytes that the caller allocates for each row, which ``memory_limit`` includes.
        in_blocks: The caller computes the scores of all items block by block, see :meth:`blocks`.
    """

    def __init__(
        self,
        model: Weights,
        X: Any,
        options: dict[str, Any],
        *,
        rows: Any = None,
        layer: Any = None,
        name: str = "X",
        row_bytes: int = 0,
        in_blocks: bool = False,
    ) -> None:
        check_model(model)
        self._model, self._units, self._ranked = model, 0, layer
        if layer is not None or model.outputs:  # else the call asks for values of a hidden layer
            self._units, self._ranked = ranked_units(model, layer), layer or model.output
        self._inputs: Bound | None = None
        self.rows: NDArray[np.int64] | None = None
        self.count = 0
        with _handles.Undo() as undo:
            if X is not WEIGHTS_ONLY:
                self._inputs = Bound(X, name, model.inputs)
                undo.callback(self._inputs.close)
                self.count = self._inputs.rows
                if model.same_items:
                    check_item_names(model, next(iter(self._inputs.datasets.values())).item_names, name)
            if rows is not None:
                self.rows = numbers(rows, self.count, "rows", np.int64)
                self.count = len(self.rows)
            self._result, limit = row_bytes * self.count, options.get("memory_limit")
            if in_blocks:
                floats = _BLOCK if limit is None else min(_BLOCK, _checks.integer(limit, "memory_limit", 1) // 16)
                self._block_rows = min(max(1, floats // self._units), max(1, self.count))
                self._result += 4 * self._units * (self._block_rows + _BESIDE)
            limit = _left_of(limit, self._result)
            options = {**options, "devices": chosen(options.get("devices")), "memory_limit": limit}
            if options.get("batch_size") is not None:  # no more workspace than these rows need
                size = _checks.integer(options["batch_size"], "batch_size", 1)
                options["batch_size"] = min(size, self.count or size)
            owners = (model._handle, self._inputs)
            arguments = (model._handle.value, _options.to_json(options))
            self._handle = _handles.Handle("predictor_open", *arguments, owners=owners)
            undo.callback(self._handle.close)
            for fed, dataset in self._inputs.datasets.items() if self._inputs else ():
                _native.call("predictor_bind", self._handle.value, fed.encode(), dataset._handle.value)
            self._close = undo.pop_all().close

    def close(self) -> None:
        """Closes the native object and the datasets that were opened for it."""
        self._close()

    def plan(self, k: int) -> dict[str, Any]:
        """Returns the plan for recommending k items."""
        options = _options.to_json({"k": k, "layer": self._ranked})
        return Plan(_native.call_json("predictor_plan", self._handle.value, options))

    def predict(self, layer: str | None, units: int, out: NDArray[np.float32]) -> None:
        """Writes the values of a layer into out, [count, units]."""
        name = _options.text_argument(layer or self._ranked, "layer")
        self._run("predict", name, self.rows, self.count, out, units)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Divides the rows of the call into blocks; gives their places in the call and their numbers."""
        every = np.arange(self.count, dtype=np.int64) if self.rows is None else self.rows
        for start in range(0, self.count, self._block_rows):
            places = slice(start, min(start + self._block_rows, self.count))
            yield places, every[places]

    def block(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Computes the scores of all items for some rows of a block, [rows, items]."""
        out = np.empty((len(rows), self._units), np.float32)
        name = _options.text_argument(self._ranked, "layer")
        self._run("predict", name, np.ascontiguousarray(rows), len(rows), out, self._units)
        return out

    def recommend(self, k: int, exclude: Any, choice: Choice = ALL) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the k best items of each row and their scores."""
        ids, scores = np.empty((self.count, k), np.int32), np.empty((self.count, k), np.float32)
        options = _options.to_json({"items": choice.mode, "layer": self._ranked})
        arguments = (handle_of(self._excluded(exclude)), choice.items, choice.length, k, options, ids, scores)
        self._run("recommend", self.rows, self.count, *arguments)
        return ids, scores

    def neighbors(
        self, tensor: str | None, queries: NDArray[np.int32], k: int, options: Mapping[str, Any], choice: Choice = ALL
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the k nearest rows of a weight for each query and their similarities."""
        name = None if tensor is None else _options.text_argument(tensor, "tensor")
        self.count = len(queries)
        ids, scores = np.empty((self.count, k), np.int32), np.empty((self.count, k), np.float32)
        text = _options.to_json({**options, "items": choice.mode})
        self._run("neighbors", name, queries, self.count, choice.items, choice.length, k, text, ids, scores)
        return ids, scores

    def search(
        self, queries: NDArray[np.float32], k: int, options: Mapping[str, Any], choice: Choice = ALL
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the k nearest rows of the weight of the output for each query, a vector, and their scores."""
        self.count, columns = queries.shape
        ids, scores = np.empty((self.count, k), np.int32), np.empty((self.count, k), np.float32)
        text = _options.to_json({**options, "items": choice.mode})
        arguments = (choice.items, choice.length, k, text, ids, scores)
        self._run("search", None, queries, self.count, columns, *arguments)
        return ids, scores

    def evaluate(
        self, targets: Any, exclude: Any, metrics: Sequence[str], per_row: Any = None, choice: Choice = ALL
    ) -> dict[str, Any]:
        """Returns ``{"rows": n, "metrics": {name: mean}}`` and fills per_row, float64 [count, metrics]."""
        held_out, left_out = self.judged(targets, exclude)
        data = (held_out._handle.value, handle_of(left_out), self.rows, self.count)
        options = _options.to_json({"metrics": list(metrics), "items": choice.mode, "layer": self._ranked})
        buffer, length = _native.text_buffer(4096 + 256 * len(metrics))
        self._run("evaluate", *data, choice.items, choice.length, options, buffer, length, per_row)
        result = _native.read_json(buffer)
        is_zero = result["rows"] and not any(result["metrics"].values())
        if left_out is not None and is_zero and held_out._is_within(left_out):
            warnings.warn(
                "all held-out items are excluded as seen, so every metric is 0: X_held_out (validation= of fit) needs "
                "items that X_in does not contain, or evaluate() exclude=None",
                stacklevel=3,
            )
        return result

    def judged(self, targets: Any, exclude: Any) -> tuple[Dataset, Dataset | None]:
        """Opens the held-out items of an evaluation and the items that it leaves out, if any."""
        return self._outputs(targets, "X_held_out"), self._excluded(exclude)

    def _excluded(self, exclude: Any) -> Dataset | None:
        """Returns the matrix whose stored items are left out.

        "input" is the matrix of the input layer; "auto" is the same if outputs and inputs are the same items.
        """
        assert self._inputs is not None
        if isinstance(exclude, str) and exclude == "auto":
            exclude = "input" if self._model.same_items and self._ranked == self._model.output else None
        if exclude is None:
            return None
        if isinstance(exclude, (bool, np.bool_)):
            raise InvalidArgumentError(
                f"exclude is {exclude}, but must be a matrix of the items to leave out; "
                "use exclude_seen=True or False in recommend(), exclude='input' or None in evaluate()"
            )
        if isinstance(exclude, str):
            if exclude != "input":
                raise InvalidArgumentError(
                    f"exclude: {_checks.shown(exclude)} is not known; give 'auto', 'input', a matrix or None"
                )
            seen = next(iter(self._inputs.datasets.values()))
            check_columns(seen, self._units, "exclude: the input", self._ranked)
            return seen
        return self._outputs(exclude, "exclude")

    def _outputs(self, matrix: Any, name: str) -> Dataset:
        """Opens a matrix of the ranked items."""
        assert self._inputs is not None
        dataset = self._inputs.open(matrix, name, self._units, self._ranked)
        if self._ranked == self._model.output:
            check_item_names(self._model, dataset.item_names, name)
        return dataset

    def _run(self, name: str, *arguments: Any) -> None:
        brief = self.count * self._model.parameters < _SHORT
        try:
            _native.call_interruptibly(self._handle, "predictor_" + name, *arguments, brief=brief)
        except OutOfMemoryError as error:
            if not self._result:
                raise
            raise OutOfMemoryError(f"{error}. The result takes {self._result:,} bytes beside that") from None


def _left_of(limit: Any, result: int) -> int | None:
    """Returns what the result of a call leaves of memory_limit; None = no limit.

    Raises:
        OutOfMemoryError: The result is above the limit, or above the memory of the machine.
    """
    remedy = "compute some of the rows at a time (rows=)"
    if limit is not None:
        limit = _checks.integer(limit, "memory_limit", 1)
        if result >= limit:
            raise OutOfMemoryError(f"the result takes {result:,} bytes, memory_limit is {limit:,}; {remedy}")
        return int(limit - result)
    if result > _LARGE:
        available = _native.call_json("describe")["memory"]["available"]
        if 0 <= available < result:  # -1: unknown. The system would hand it out, and end the process when it is used
            raise OutOfMemoryError(f"the result takes {result:,} bytes, {available:,} are available; {remedy}")
    return None


def handle_of(dataset: Dataset | None) -> int:
    """Returns the number that stands for a dataset in the C interface; 0 = none."""
    return 0 if dataset is None else dataset._handle.value


def check_item_names(model: Weights, names: NDArray[Any] | None, name: str) -> None:
    """Raises an error if the items of Interactions have other names than those of the model; without names, nothing."""
    if names is None:
        return
    if len(names) != model.output_units:
        raise InvalidArgumentError(f"{name} has {len(names):,} items, the model {model.output_units:,}")
    known = model._item_names()
    if known is None or (difference := first_difference(names, known)) is None:
        return
    at, given, wanted = difference
    raise InvalidArgumentError(
        f"{name} has other items than the model: item {at} is {given} and in the model {wanted}; "
        "Interactions.from_frame(..., items=model.items) takes those of the model"
    )


def ranked_units(model: Weights, layer: str | None) -> int:
    """Returns the number of items of an output layer; None = the first.

    Raises:
        NotFoundError: The model does not have this output layer.
    """
    check_model(model)
    outputs = model.outputs
    if layer is None:
        return outputs[model.output]
    if _checks.text(layer, "layer") not in outputs:
        raise NotFoundError(f"the model has no output layer {_checks.shown(layer)}; {nearest(layer, outputs)}")
    return outputs[layer]


def are_names(items: Any) -> bool:
    """Reports whether items are given by names that are strings; integers are always numbers of items."""
    array = _checks.array(items)
    return array.dtype.kind in "UO" and array.size > 0 and all(isinstance(name, str) for name in array.flat)


def item_numbers(model: Weights, items: Any, name: str, units: int, of: str | None = None) -> NDArray[np.int32]:
    """Returns the numbers of items that are given by numbers, a mask or names.

    Args:
        model: Its items have the names.
        items: The items.
        name: What messages call them.
        units: How many there are to choose from.
        of: The layer, or the tensor, whose units they are; None = the first output.
    """
    kind = model._item_kind if of in (None, *list(model.outputs)[:1]) else "none"
    if kind != "none" and are_names(items):
        return model.ids(items).astype(np.int32)
    try:
        return numbers(items, units, name, np.int32)
    except InvalidArgumentError as error:
        if kind != "integer" or _checks.array(items).dtype.kind not in "iu":
            raise
        raise InvalidArgumentError(f"{error}; model.ids(names) finds the numbers of names") from None


def chosen_items(model: Weights, items: Any, filter_items: Any, units: int, of: str | None = None) -> Choice:
    """Returns the choice that the parameters ``items`` and ``filter_items`` make; see :func:`item_numbers`."""
    if items is not None and filter_items is not None:
        raise InvalidArgumentError("give items= (rank only these) or filter_items= (never these), not both")
    name, given = ("items", items) if filter_items is None else ("filter_items", filter_items)
    if given is None:
        return ALL
    ids = item_numbers(model, given, name, units, of)
    return Choice(ids, len(ids), None if filter_items is None else "deny")


def check_k(k: Any, units: int, what: str = "items") -> int:
    """Returns k as an int; it must be from 1 to ``units``. None is 10, or all if there are fewer."""
    k = min(10, units) if k is None else _checks.integer(k, "k")
    if not 1 <= k <= units:
        raise InvalidArgumentError(f"k is {k:,}; with {units:,} {what} it can be 1 to {units:,}")
    return int(k)
