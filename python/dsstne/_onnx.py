"""Models as ONNX graphs: which nodes recommend, and the files that hold the nodes and the weights."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import dsstne
from dsstne import _checks, _options
from dsstne._activations import normalisation
from dsstne._sharing import is_transposed, weight_of
from dsstne.errors import InputOutputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dsstne._weights import Weights

_OPSET, _IR_VERSION = 18, 8

# Protocol buffers hold less than 2 GiB; 64 MiB of it are for nodes and the names of the items.
_LARGEST = (2 << 30) - (64 << 20)
_MOST_NAMES = 32 << 20  # bytes of the names of the items
_SMALL = 1024  # bytes of a tensor that stays in the graph: constants that shapes are computed from
_ALIGNMENT = 1 << 16  # of tensors in the data file, so that every system can map them into memory

_ACTIVATIONS = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "elu": "Elu",
    "selu": "Selu",
    "leaky_relu": "LeakyRelu",
    "softplus": "Softplus",
    "softsign": "Softsign",
}


class Input(NamedTuple):
    """An input layer in the graph. Padding has the id 0 and the value 0."""

    ids: str  # int64 [batch, length]
    values: str  # float32 [batch, length]
    sums: str  # float32 [batch, columns]: the row, with duplicates summed


def write(model: Weights, path: Any, k: int, layer: str, exclude_seen: bool) -> None:
    """Writes the graph that finds the k best items of an output layer."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install dsstne[onnx]") from error
    with _options.path_argument(path):
        target = pathlib.Path(os.fsdecode(path))
    if not target.name:
        raise InvalidArgumentError(f"path {_checks.shown(path)} is not the name of a file")
    graph = Graph(model, onnx)
    seen, scores = graph.network(layer) if model.network else graph.item_weights()
    if exclude_seen:
        scores = graph.add("Where", graph.is_zero(seen.sums), scores, graph.constant(np.float32(-np.inf)))
    best, ids = graph.add("TopK", scores, graph.constant(np.array([k])), outputs=2)
    is_none = graph.add("Equal", best, graph.constant(np.float32(-np.inf)))
    graph.node("Where", [is_none, graph.constant(np.int64(-1)), ids], ["items"])
    graph.node("Identity", [best], ["scores"])
    outputs = [("items", onnx.TensorProto.INT64), ("scores", onnx.TensorProto.FLOAT)]
    made = onnx.helper.make_graph(
        graph.nodes,
        "recommend",
        graph.inputs,
        [onnx.helper.make_tensor_value_info(name, kind, ["batch", k]) for name, kind in outputs],
    )
    made = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="dsstne",
        producer_version=dsstne.__version__,
    )
    metadata = {"exclude_seen": json.dumps(exclude_seen), "layer": layer, "items": _names(model, layer)}
    onnx.helper.set_model_props(made, {key: text for key, text in metadata.items() if text})
    _save(made, graph, target)


def _names(model: Weights, layer: str) -> str:
    """Returns the names of the items as JSON; the empty text if they have none, or too long ones."""
    names = model.items if layer == model.output else None
    text = "" if names is None else json.dumps(names.tolist())
    return text if len(text) <= _MOST_NAMES else ""


class Graph:
    """Nodes, and the tensors that they need. Values are named like the operator that computes them."""

    def __init__(self, model: Weights, onnx: Any) -> None:
        self.model, self.onnx = model, onnx
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.weights: dict[str, str] = {}  # names in the model by names in the graph
        self.batch = ""  # int64 [1]: the number of rows

    def node(self, operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        """Appends a node."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, outputs, **attributes))

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Appends a node and returns the name of its value, or the names of several."""
        names = [f"{operator}/{len(self.nodes)}" + (f".{n}" if n else "") for n in range(outputs)]
        self.node(operator, list(inputs), names, **attributes)
        return names[0] if outputs == 1 else names

    def constant(self, value: Any) -> str:
        """Returns the name of a constant."""
        name = f"constant/{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weight(self, name: str) -> str:
        """Returns the value of a tensor of the model, which is read when the file is written."""
        self.weights["tensor/" + name] = name
        return "tensor/" + name

    def float32(self, name: str) -> str:
        """Rounds a value to float32."""
        return str(self.add("Cast", name, to=self.onnx.TensorProto.FLOAT))

    def float64(self, name: str) -> str:
        """Widens a value to float64."""
        return str(self.add("Cast", name, to=self.onnx.TensorProto.DOUBLE))

    def int64(self, name: str) -> str:
        """Converts a value to int64."""
        return str(self.add("Cast", name, to=self.onnx.TensorProto.INT64))

    def is_zero(self, name: str) -> str:
        """Compares a float32 value with 0."""
        return str(self.add("Equal", name, self.constant(np.float32(0))))

    def input(self, layer: str, columns: int) -> Input:
        """Adds the ids and the values of an input layer, which have the layer's name if there are several."""
        end = "" if len(self.model.inputs) == 1 else "." + layer
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        shape = ["batch", "length" + end]
        what = f"columns of {layer!r}, 0 to {columns - 1}; -1 fills up short rows"
        self.inputs.append(helper.make_tensor_value_info("ids" + end, proto.INT64, shape, what))
        self.inputs.append(helper.make_tensor_value_info("values" + end, proto.FLOAT, shape, "values of the ids"))
        none = self.constant(np.int64(0))
        ids = self.add("Max", "ids" + end, none)
        values = self.add("Where", self.add("Less", "ids" + end, none), self.constant(np.float32(0)), "values" + end)
        self.batch = self.batch or self.add("Shape", ids, end=1)
        row = self.add("Expand", self.constant(np.float32(0)), self.shape(columns))
        sums = self.add("ScatterElements", row, ids, values, axis=1, reduction="add")
        return Input(ids, values, sums)

    def shape(self, columns: int) -> str:
        """Returns the shape [batch, columns]."""
        return str(self.add("Concat", self.batch, self.constant(np.array([columns])), axis=0))

    def divided(self, values: str, square: str) -> str:
        """Divides float32 values [batch, n] by the root of a float64 number [batch, 1], unless it is 0."""
        zero = self.add("Equal", square, self.constant(np.float64(0)))
        length = self.add("Sqrt", self.add("Where", zero, self.constant(np.float64(1)), square))
        return self.float32(self.add("Div", self.float64(values), length))

    def summed(self, product: str) -> str:
        """Adds up each row, [batch, 1]."""
        return str(self.add("ReduceSum", product, self.constant(np.array([1])), keepdims=1))

    # ---- networks ----

    def network(self, ranked: str) -> tuple[Input, str]:
        """Adds the layers that an output needs; returns the first input layer and the scores."""
        assert self.model.network is not None
        layers = {layer["name"]: layer for layer in self.model.network["layers"]}
        first = next(iter(self.model.inputs))
        needed = [ranked]
        for name in needed:  # which grows
            layer = layers[name]
            needed += [source for key in ("sources", "skips") for source in layer.get(key, ()) if source not in needed]
        inputs: dict[str, Input] = {}
        values: dict[str, str] = {}
        for name, layer in layers.items():
            if layer["kind"] == "input" and (name in needed or name == first):
                inputs[name] = self.input(name, layer["size"])
                values[name] = self.scaled(inputs[name]) if layer["scaling"] == "l2" else inputs[name].values
            elif name in needed and layer["kind"] == "merge":
                values[name] = self.merged(layer["function"], [values[source] for source in layer["sources"]])
            elif name in needed:
                values[name] = self.layer(layer, inputs, values)
        return inputs[first], values[ranked]

    def scaled(self, given: Input) -> str:
        """Divides rows by their lengths; of an id that a row has twice, the sum of its values counts."""
        sums = self.add("GatherElements", given.sums, given.ids, axis=1)
        square = self.summed(self.add("Mul", self.float64(given.values), self.float64(sums)))
        return self.divided(given.values, square)

    def layer(self, layer: dict[str, Any], inputs: dict[str, Input], values: dict[str, str]) -> str:
        """Adds a hidden or an output layer: the sum over its sources of W x, the bias, and a hidden activation."""
        temperature, weights = layer.get("temperature", 0), sources_of(layer)
        bias = self.weight(layer["name"] + ".bias") if layer["bias"] else None
        is_normalised = "batch_norm" in layer or "layer_norm" in layer
        total = None if is_normalised else bias
        for source, weight in weights:
            if source in inputs:
                total = self.plus(total, self.gathered(weight, inputs[source].ids, values[source]))
            elif temperature:
                total = self.plus(total, self.cosines(weight, values[source], temperature))
            else:
                beside = () if total is None else (total,)
                by_units = not is_transposed(layer, source, self.model.tensors[weight])
                total = self.add("Gemm", values[source], self.weight(weight), *beside, transB=int(by_units))
        skips = layer.get("skips", ())
        for skip in skips:
            total = self.plus(total, values[skip])
        if is_normalised and total is not None:
            total = self.normalised(layer, total)
            if bias is not None:
                total = self.plus(total, bias)
        assert total is not None
        if not weights and not skips:
            return str(self.add("Expand", total, self.shape(layer["size"])))
        if layer["kind"] == "variational":  # the means, which come before the log-variances
            begin, end, axis = (self.constant(np.array([n])) for n in (0, layer["size"], 1))
            return str(self.add("Slice", total, begin, end, axis))
        activation = layer["activation"] if layer["kind"] == "hidden" else "linear"  # an output's is for its loss
        if activation == "linear":
            return total
        if activation == "softmax":
            return str(self.add("Softmax", total, axis=1))
        if activation == "silu":
            return str(self.add("Mul", total, self.add("Sigmoid", total)))
        if activation == "gelu":  # z times 1/2 + erf(z / sqrt(2)) / 2; the operator Gelu is newer than the others
            half = self.constant(np.float32(0.5))
            error = self.add("Erf", self.add("Mul", total, self.constant(np.float32(np.sqrt(0.5)))))
            return str(self.add("Mul", total, self.add("Add", half, self.add("Mul", half, error))))
        alpha = layer.get("alpha", layer.get("slope"))  # a layer has one of them, or none
        attributes: dict[str, Any] = {} if alpha is None else {"alpha": float(alpha)}
        return str(self.add(_ACTIVATIONS[activation], total, **attributes))

    def merged(self, function: str, values: list[str]) -> str:
        """Adds the maximum of layers, or products of the first one with the others, whose sums are in float64."""
        if function == "maximum":
            return str(self.add("Max", *values))
        wide = [self.float64(value) for value in values]
        squares = [self.summed(self.add("Mul", value, value)) for value in wide] if function == "cosine" else []
        if squares:
            wide = [self.float64(self.divided(value, square)) for value, square in zip(values, squares, strict=True)]
        products = [self.float32(self.summed(self.add("Mul", wide[0], other))) for other in wide[1:]]
        return str(self.add("Concat", *products, axis=1))

    def normalised(self, layer: dict[str, Any], sums: str) -> str:
        """Centres and scales sums by the running means and variances of a layer, or by those of each row."""
        if "layer_norm" in layer:
            scale, epsilon = self.weight(layer["name"] + ".scale"), float(layer["layer_norm"]["epsilon"])
            return str(self.add("LayerNormalization", sums, scale, axis=-1, epsilon=epsilon))
        mean, factor = normalisation(self.model, layer)
        centred = self.add("Sub", sums, self.constant(mean.astype(np.float32)))
        return str(self.add("Mul", centred, self.constant(factor.astype(np.float32))))

    def plus(self, total: str | None, more: str) -> str:
        """Adds up two values; None = nothing."""
        return more if total is None else str(self.add("Add", total, more))

    def gathered(self, weight: str, ids: str, values: str) -> str:
        """Adds up the rows of a weight that the ids name, times the values."""
        rows = self.add("Gather", self.weight(weight), ids)
        one = self.constant(np.array([1]))
        return str(self.add("Squeeze", self.add("MatMul", self.add("Unsqueeze", values, one), rows), one))

    def cosines(self, weight: str, hidden: str, temperature: float) -> str:
        """Divides the cosines of hidden vectors and rows of a weight by the temperature."""
        wide = self.float64(hidden)  # squares of float32 numbers can be beyond float32
        unit = self.divided(hidden, self.summed(self.add("Mul", wide, wide)))
        products = self.add("Gemm", unit, self.weight(weight), transB=1)
        factors = reciprocal(lengths(self.model.tensor(weight))) / np.float32(temperature)
        return str(self.add("Mul", products, self.constant(factors.astype(np.float32))))

    # ---- weights between items ----

    def item_weights(self) -> tuple[Input, str]:
        """Adds x W + b; returns the input layer and the scores."""
        definition = self.model._definition
        given = self.input("input", definition["items"])
        scores = None
        if definition["weight"] == "dense":
            scores = self.row_by_row(given)
        elif definition["weight"] == "csr":
            scores = self.stored_entries(given, definition["items"])
        if scores is None:
            return given, str(self.add("Expand", self.weight("bias"), self.shape(definition["items"])))
        if not definition["bias"]:
            return given, scores
        bias = self.weight("bias")
        if definition.get("bias_if_empty"):
            stored = self.summed(self.int64(self.add("Not", self.is_zero(given.sums))))
            is_empty = self.add("Equal", stored, self.constant(np.int64(0)))
            bias = self.add("Where", is_empty, bias, self.constant(np.float32(0)))
        return given, self.plus(scores, bias)

    def row_by_row(self, given: Input) -> str:
        """Multiplies by a dense W, one row of the batch at a time: [length, items] numbers are gathered for each."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        body = [
            helper.make_node("Gather", [self.weight("weight"), "row_ids"], ["row_weights"]),
            helper.make_node("MatMul", ["row_values", "row_weights"], ["row_scores"]),
        ]
        takes = [("row_ids", proto.INT64), ("row_values", proto.FLOAT)]
        inputs = [helper.make_tensor_value_info(name, kind, ["length"]) for name, kind in takes]
        output = helper.make_tensor_value_info("row_scores", proto.FLOAT, ["items"])
        graph = helper.make_graph(body, "row", inputs, [output])
        return str(self.add("Scan", given.ids, given.values, body=graph, num_scan_inputs=2))

    def stored_entries(self, given: Input, items: int) -> str:
        """Multiplies by a sparse W: lists the entries of all rows of W that the batch needs, and adds up their parts.

        Sums are in float64, as those of dsstne, so that equal scores stay equal.
        """
        flat, zero, one = self.constant(np.array([-1])), self.constant(np.int64(0)), self.constant(np.int64(1))
        ids, values = self.add("Reshape", given.ids, flat), self.add("Reshape", given.values, flat)
        offsets = self.weight("weight.offsets")
        first = self.add("Gather", offsets, ids)
        stored = self.add("Sub", self.add("Gather", offsets, self.add("Add", ids, one)), first)
        count = self.add("Where", self.is_zero(values), zero, stored)
        end = self.add("CumSum", count, zero)
        begin = self.add("Sub", end, count)
        entries = self.add("ReduceSum", count, keepdims=0)
        entry = self.add("Range", zero, entries, one)
        # Which id an entry belongs to: the number of ids whose entries end at or before it.
        marks = self.add("Expand", zero, self.add("Reshape", self.add("Add", entries, one), flat))
        ends = self.add("ScatterElements", marks, end, self.add("Expand", one, self.add("Shape", end)), reduction="add")
        which = self.add("Gather", self.add("CumSum", ends, zero), entry)
        place = self.add("Add", entry, self.add("Gather", self.add("Sub", first, begin), which))
        parts = self.add(
            "Mul",
            self.float64(self.add("Gather", self.weight("weight.values"), place)),
            self.float64(self.add("Gather", values, which)),
        )
        length = self.add("Max", self.add("Shape", given.ids, start=1), one)  # 0 where nothing is divided
        row = self.add("Div", which, length)
        column = self.int64(self.add("Gather", self.weight("weight.indices"), place))
        to = self.add("Add", self.add("Mul", row, self.constant(np.int64(items))), column)
        size = self.add("Mul", self.batch, self.constant(np.array([items])))
        sums = self.add("Expand", self.constant(np.float64(0)), size)
        sums = self.add("ScatterElements", sums, to, parts, reduction="add")
        return self.float32(self.add("Reshape", sums, self.shape(items)))


def sources_of(layer: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the sources of a layer of a network, each with the name of its weight."""
    return [(source, weight_of(layer, source)) for source in layer["sources"]]


def lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the Euclidean lengths of rows, computed in blocks."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), 65536):
        out[start : start + 65536] = np.linalg.norm(rows[start : start + 65536].astype(np.float64), axis=1)
    return out


def reciprocal(length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns 1 / length, but 0 for lengths so near 0 that scores could leave the range of float32."""
    is_long = length > 1e-30
    return np.where(is_long, 1 / np.where(is_long, length, 1), 0)


# ---- files ----


def _save(made: Any, graph: Graph, target: pathlib.Path) -> None:
    """Writes a graph, and the weights beside it if they are too large for it."""
    listed, size = graph.model._listed(), graph.model.nbytes + sum(value.nbytes for value in graph.constants.values())
    beside = target.with_name(target.name + ".data")
    with _replacing(target) as file, _replacing(beside) if size > _LARGEST else contextlib.nullcontext() as data:
        for name in (*graph.constants, *graph.weights):
            stored = name in graph.weights
            array = graph.model._stored(graph.weights[name], listed) if stored else graph.constants[name]
            tensor = made.graph.initializer.add(name=name, dims=array.shape)
            tensor.data_type = graph.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            if data is None or array.nbytes <= _SMALL:
                tensor.raw_data = array.tobytes()
            else:
                _store(tensor, array, data, _options.text_argument(beside.name, "path").decode())
        file.write(made.SerializeToString())


def _store(tensor: Any, array: NDArray[Any], file: Any, name: str) -> None:
    """Writes the values of a tensor to the data file."""
    file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
    tensor.data_location = type(tensor).EXTERNAL
    for key, value in {"location": name, "offset": file.tell(), "length": array.nbytes}.items():
        tensor.external_data.add(key=key, value=str(value))
    file.write(array)


@contextlib.contextmanager
def _replacing(target: pathlib.Path) -> Iterator[Any]:
    """Opens a new file that takes the place of another one when the block ends without an error."""
    new = target.with_name(f".{target.name}.exporting-{secrets.token_hex(8)}")
    try:
        with new.open("xb") as file:
            yield file
        new.replace(target)
    except InputOutputError:  # of another file inside the block
        raise
    except OSError as error:
        raise InputOutputError(f"{target!s:.300}: {error.strerror}", error.errno or 0, str(target)) from None
    finally:
        with contextlib.suppress(OSError):  # it is there only after an error
            new.unlink()
