"""One pass of inference: bind the rows of a model's inputs, compute, let go."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _native, _options
from dsstne._layers import Bound, check_columns, check_rows, nearest, numbers
from dsstne.devices import chosen
from dsstne.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dsstne.model import Model

WEIGHTS_ONLY: Any = object()  # stands for X where no row of a matrix is read

# Work below this many multiplications is a matter of milliseconds, and not worth a thread that listens to Ctrl-C.
_SHORT = 1 << 28


class Predictor:
    """Computes from a model and, but for neighbours, the rows of one matrix per input layer.

    Args:
        model: The model.
        X: Matrix [n, inputs], Dataset, or mapping from input layers to them; ``WEIGHTS_ONLY`` = none.
        rows: Which rows, in any order; None = all.
        options: ``batch_size``, ``devices``, ``threads``, ``memory_limit``; None values are left to the engine.
        name: What X is called in errors.
        layer: Output layer to rank; None = the only one.
    """

    def __init__(
        self,
        model: Model,
        X: Any,
        *,
        rows: Any = None,
        options: Mapping[str, Any],
        name: str = "X",
        layer: str | None = None,
    ) -> None:
        self._model = model
        self._layer = layer
        self._name = name
        self._inputs: Bound | None = None
        self.rows: NDArray[np.int64] | None = None
        self.count = 0
        with ExitStack() as undo:
            if X is not WEIGHTS_ONLY:
                self._inputs = Bound(X, model.inputs, name)
                undo.callback(self._inputs.close)
                self.count = self._inputs.rows
            if rows is not None:
                self.rows = numbers(rows, self.count, "rows", np.int64)
                self.count = len(self.rows)
            options = {**options, "devices": chosen(options.get("devices"))}
            if options.get("batch_size") is not None:  # no more workspace than these rows need
                size = _checks.integer(options["batch_size"], "batch_size", 1)
                options = {**options, "batch_size": min(size, self.count or size)}
            owners = (model._handle, self._inputs)
            self._handle = _native.Handle(
                "predictor", "predictor_open", model._handle.value, _options.to_json(options), owners=owners
            )
            undo.callback(self._handle.close)
            for layer, dataset in self._inputs.datasets.items() if self._inputs else ():
                _native.call("predictor_bind", self._handle.value, layer.encode(), dataset._handle.value)
            undo.pop_all()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()
        if self._inputs is not None:
            self._inputs.close()

    def plan(self, k: int) -> dict[str, Any]:
        """Returns the plan of recommending k items."""
        options = _options.to_json({"k": k, "layer": self._layer})
        plan: dict[str, Any] = json.loads(_native.call_text("predictor_plan", self._handle.value, options))
        return plan

    def predict(self, layer: str | None, units: int, out: NDArray[np.float32]) -> None:
        """Writes the values of a layer into out, [count, units]."""
        name = None if layer is None else _options.text_argument(layer, "layer")
        self._run("predict", name, *self._row_arguments(), out, units)

    def recommend(
        self, k: int, exclude: Any, items: NDArray[np.int32] | None, deny: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the k best items of each row and their scores."""
        excluded = self._excluded(exclude)
        ids, scores = np.empty((self.count, k), np.int32), np.empty((self.count, k), np.float32)
        options = None
        if deny or self._layer is not None:
            options = _options.to_json({"items": "deny" if deny else None, "layer": self._layer})
        arguments = (excluded, *_item_arguments(items), k, options, ids, scores)
        self._run("recommend", *self._row_arguments(), *arguments)
        return ids, scores

    def neighbors(
        self,
        tensor: str | None,
        queries: NDArray[np.int32],
        k: int,
        items: NDArray[np.int32] | None,
        options: Mapping[str, Any],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the k nearest rows of a weight for each query and their similarities."""
        name = None if tensor is None else _options.text_argument(tensor, "tensor")
        self.count = len(queries)
        ids, scores = np.empty((self.count, k), np.int32), np.empty((self.count, k), np.float32)
        arguments = (*_item_arguments(items), k, _options.to_json(options), ids, scores)
        self._run("neighbors", name, queries, len(queries), *arguments)
        return ids, scores

    def evaluate(
        self,
        targets: Any,
        exclude: Any,
        metrics: Sequence[str],
        items: NDArray[np.int32] | None,
        deny: bool,
        per_row: NDArray[np.float64] | None,
    ) -> dict[str, Any]:
        """Returns ``{"rows": n, "metrics": {name: mean}}`` and fills per_row, [count, metrics]."""
        assert self._inputs is not None
        units = ranked_units(self._model, self._layer)
        check_columns(targets, units, "X_held_out", self._ranked)
        held_out = self._inputs.open(targets, "X_held_out")
        check_columns(held_out, units, "X_held_out", self._ranked)
        check_rows("X_held_out", held_out.shape[0], self._name, self._inputs.rows)
        options = _options.to_json({"metrics": list(metrics), "items": "deny" if deny else None, "layer": self._layer})
        buffer = _native.TextBuffer(4096 + 256 * len(metrics))
        first = (held_out._handle.value, self._excluded(exclude), *self._row_arguments(), *_item_arguments(items))
        self._run("evaluate", *first, options, *buffer.arguments, per_row)
        result: dict[str, Any] = json.loads(buffer.text or "{}")
        return result

    @property
    def _ranked(self) -> str:
        return self._layer or self._model.output

    def _excluded(self, exclude: Any) -> int:
        """Returns the handle of what is left out row by row.

        "input" is what the input layer reads, and "auto" the same if outputs are known to be inputs' items.
        """
        assert self._inputs is not None
        units = ranked_units(self._model, self._layer)
        if isinstance(exclude, str) and exclude == "auto":
            exclude = "input" if self._model.same_items and self._ranked == self._model.output else None
        if exclude is None:
            return 0
        if isinstance(exclude, (bool, np.bool_)):
            raise InvalidArgumentError(
                f"exclude is {exclude}, but has to be a matrix of what counts as seen; "
                "use exclude_seen=True or False in recommend(), exclude='input' or None in evaluate()"
            )
        if isinstance(exclude, str):
            if exclude != "input":
                raise InvalidArgumentError(f"exclude: {exclude!r} is not known; give 'auto', 'input', a matrix or None")
            seen = next(iter(self._inputs.datasets.values()))
            check_columns(seen, units, "exclude: the input", self._ranked)
            return seen._handle.value
        check_columns(exclude, units, "exclude", self._ranked)
        dataset = self._inputs.open(exclude, "exclude")
        check_columns(dataset, units, "exclude", self._ranked)
        check_rows("exclude", dataset.shape[0], self._name, self._inputs.rows)
        return dataset._handle.value

    def _row_arguments(self) -> tuple[NDArray[np.int64] | None, int]:
        return self.rows, self.count

    def _run(self, name: str, *arguments: Any) -> None:
        if self.count * self._model.parameters < _SHORT:
            _native.call("predictor_" + name, self._handle.value, *arguments)
        else:
            _native.call_interruptibly(self._handle, "predictor_" + name, *arguments)


def _item_arguments(items: NDArray[np.int32] | None) -> tuple[NDArray[np.int32] | None, int]:
    return items, 0 if items is None else len(items)


def ranked_units(model: Model, layer: str | None) -> int:
    """Returns the number of items of an output layer, None = the only one.

    Raises:
        NotFoundError: There is no output layer of that name.
    """
    outputs = model.outputs
    if layer is None:
        return outputs[model.output]
    if _checks.text(layer, "layer") not in outputs:
        raise NotFoundError(f"there is no output layer {layer!r} to rank; {nearest(layer, outputs)}")
    return outputs[layer]


def chosen_items(items: Any, filter_items: Any, units: int) -> tuple[NDArray[np.int32] | None, bool]:
    """Returns the list of items and whether it is a deny-list."""
    if items is not None and filter_items is not None:
        raise InvalidArgumentError("give items= (rank only these) or filter_items= (never these), not both")
    if items is not None:
        return numbers(items, units, "items", np.int32), False
    if filter_items is not None:
        return numbers(filter_items, units, "filter_items", np.int32), True
    return None, False


def check_k(k: Any, units: int) -> int:
    """Returns k as an int if it is a possible length of a list."""
    k = _checks.integer(k, "k")
    if not 1 <= k <= units:
        raise InvalidArgumentError(f"k is {k:,}; with {units:,} items it can be 1 to {units:,}")
    return int(k)
