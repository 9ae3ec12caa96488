"""Models in network files of DSSTNE: a model is made of a file, and a file of a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _native, _netcdf_file, _netcdf_network, _netcdf_saving, _netcdf_write
from dsstne._netcdf_network import ATTRIBUTE, ITEMS, weight_name
from dsstne.errors import CorruptFileError, InvalidArgumentError, NotFiniteError
from dsstne.network import Network

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dsstne._netcdf_file import Reader, Variable
    from dsstne._netcdf_network import Description, Weight
    from dsstne._netcdf_saving import Writer
    from dsstne.model import Model

# Our tensors of a layer with batch normalisation, and DSSTNE's variables; the bias is handled apart.
_NORMS = {"scale": "scaleBN", "running_mean": "runningMeanBN", "running_variance": "runningVarianceBN"}


def read_network(path: str | os.PathLike[str], sizes: Mapping[str, int] | None) -> Network:
    """Reads the network of a file, and what it says about training."""
    with _netcdf_file.reading(path) as file:
        return _translated(_netcdf_network.describe(file, _checked_sizes(sizes)), file.path)


def load(path: str | os.PathLike[str], sizes: Mapping[str, int] | None) -> Model:
    """Makes the model of a file."""
    from dsstne.model import Model

    given = _checked_sizes(sizes)
    with _netcdf_file.reading(path) as file:
        described = _netcdf_network.describe(file, given)
        network = _translated(described, file.path)
        transfer = _Transfer(network.definition, described)
        transfer.check(file)  # before there is memory for a model that the file only claims to have
        model = Model(network)
        try:
            transfer.read(file, model)
            _read_names(file, model, given)
        except BaseException:
            model.close()
            raise
        kept = {
            **json.loads(model.attributes[ATTRIBUTE]),
            "features": described.features,
            "locked": [name for w in described.weights.values() if w.locked for name in transfer.tensors_of(w)],
        }
        model.attributes[ATTRIBUTE] = json.dumps(kept)
    return model


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes the file of a model."""
    attributes, described, names = check(model, path)
    network = model.network or {}

    def fill(file: Writer) -> None:
        file.attributes(attributes)
        _Transfer(network, described).write(file, model)
        if names is not None:
            file.dimension(ITEMS + "Dim", len(names))
            file.texts(ITEMS, ITEMS + "Dim", names, kind=model._item_kind)

    _netcdf_saving.write(path, fill)


def check(model: Model, path: str | os.PathLike[str]) -> tuple[dict[str, Any], Description, list[str] | None]:
    """Returns what the file of a model has beside the weights: its attributes, what they say, and the items' names.

    Raises:
        UnsupportedError: The file cannot express the model; the message names the layer.
    """
    _netcdf_file.need_packages()
    name = _netcdf_file.checked_path(path)
    attributes = _netcdf_write.attributes_of(model, name)
    described = _netcdf_network.describe(_netcdf_file.Attributes(attributes, name), {})
    _netcdf_write.compare(model.network or {}, _translated(described, name).definition)
    return attributes, described, _names_to_write(model)


def _translated(described: Description, path: str) -> Network:
    try:
        return Network.from_dsstne(described.definition)
    except InvalidArgumentError as error:
        raise type(error)(f"{path}: {error}") from None


def _checked_sizes(sizes: Mapping[str, int] | None) -> dict[str, int]:
    if sizes is None:
        return {}
    if not _checks.is_mapping(sizes):
        raise InvalidArgumentError(f"sizes must be a mapping, not {_checks.shown(sizes)}")
    return {
        _checks.text(name, "a key of sizes"): _checks.integer(size, f"sizes[{name!r}]", 1)
        for name, size in sizes.items()
    }


class _Transfer:
    """The way of weights between a model and a file, in blocks."""

    def __init__(self, definition: Mapping[str, Any], described: Description) -> None:
        self._layers = {layer["name"]: layer for layer in definition["layers"]}
        self._described = described

    def tensors_of(self, weight: Weight) -> list[str]:
        """Returns the names of the tensors that a weight of a file is: a matrix and a bias, or only the bias."""
        layer = self._layers[weight.layer]
        matrix = [] if weight.shared else [weight_name(layer, weight.source)]
        return matrix + ([layer["name"] + ".bias"] if layer["bias"] else [])

    def _shapes(self, weight: Weight) -> tuple[int, int, int, int]:
        """Returns the inputs and the outputs of a weight in the model, and those in the file."""
        ends = weight.source, weight.layer
        model = [self._layers[name]["size"] for name in ends]
        file = [self._described.units[name] for name in ends]
        return (*model, *file)

    def _is_by_input(self, weight: Weight) -> bool:
        """Reports whether a row of the model's tensor is that of an input, as in the file."""
        return bool(self._layers[weight.source]["kind"] == "input")

    def _normalised(self) -> Iterator[tuple[dict[str, Any], str]]:
        for name, layer in self._layers.items():
            if layer.get("batch_norm"):
                yield layer, f"layer{self._described.numbers[name]}_"

    # ---- from a file ----

    def check(self, file: Reader) -> None:
        """Finds all variables and compares their sizes."""
        for weight in self._described.weights.values():
            *_, inputs, outputs = self._shapes(weight)
            file.variable(f"weight{weight.number}_bias", outputs, "f", f"{weight},")
            if weight.shared is None:
                what = f"{weight}, {inputs:,} x {outputs:,},"
                file.variable(f"weight{weight.number}_weights", inputs * outputs, "f", what)
        for layer, prefix in self._normalised():
            for ending in (*_NORMS.values(), "biasBN"):
                file.variable(prefix + ending, layer["size"], "f", f"the layer {layer['name']!r}")

    def read(self, file: Reader, model: Model) -> None:
        """Copies all weights to the model."""
        biases: dict[str, NDArray[np.float64]] = {}
        for weight in self._described.weights.values():
            outputs = self._layers[weight.layer]["size"]
            bias = file.variable(f"weight{weight.number}_bias", None, "f", "")[0:outputs].astype(np.float64)
            biases[weight.layer] = biases.get(weight.layer, 0) + bias
            if weight.shared is None:
                matrix = file.variable(f"weight{weight.number}_weights", None, "f", "")
                self._read_matrix(matrix, model, weight)
        for layer, prefix in self._normalised():
            values = {
                ours: file.variable(prefix + theirs, None, "f", "").all().astype(np.float64)
                for ours, theirs in _NORMS.items()
            }
            # DSSTNE adds its biases before the normalisation; here the mean is that without them.
            values["running_mean"] -= biases[layer["name"]]
            biases[layer["name"]] = file.variable(prefix + "biasBN", None, "f", "").all().astype(np.float64)
            for ours, numbers in values.items():
                self._set(model, file.path, f"{layer['name']}.{ours}", 0, numbers)
        for name, numbers in biases.items():
            self._set(model, file.path, name + ".bias", 0, numbers)

    def _read_matrix(self, variable: Variable, model: Model, weight: Weight) -> None:
        tensor = weight_name(self._layers[weight.layer], weight.source)
        inputs, outputs, _, width = self._shapes(weight)
        path = variable.path
        if self._is_by_input(weight):
            for first, count in _blocks(inputs, width):
                rows = variable[first * width : (first + count) * width].reshape(count, width)
                self._set(model, path, tensor, first, rows[:, :outputs])
            return
        for first, count in _blocks(outputs, inputs):
            if count == width:
                columns = variable[0 : inputs * width].reshape(inputs, width)
            else:
                columns = np.empty((inputs, count), np.float32)
                for row in range(inputs):
                    columns[row] = variable[row * width + first : row * width + first + count]
            self._set(model, path, tensor, first, columns.T)

    @staticmethod
    def _set(model: Model, path: str, tensor: str, first: int, values: NDArray[Any]) -> None:
        with np.errstate(over="ignore"):  # the engine names the place of an infinite number
            rows = np.ascontiguousarray(values, np.float32)
        try:
            _native.call("model_set_rows", model._handle.value, tensor.encode(), first, len(rows), rows, rows.nbytes)
        except NotFiniteError as error:
            raise NotFiniteError(f"{path}: {error}") from None

    # ---- to a file ----

    def write(self, file: Writer, model: Model) -> None:
        """Copies all weights to the file."""
        done = set()
        for weight in self._described.weights.values():
            prefix = f"weight{weight.number}_"
            _, outputs, rows, width = self._shapes(weight)
            layer = self._layers[weight.layer]
            bias = np.zeros(width, np.float32)
            if weight.layer not in done and not layer.get("batch_norm"):
                bias[:outputs] = model.tensor(weight.layer + ".bias")
                bias[outputs:] = _netcdf_write.bias_of_padding(model.network or {}, layer)
            done.add(weight.layer)
            file.dimension(prefix + "biasDim", width)
            file.variable(prefix + "bias", prefix + "biasDim", np.float32, bias)
            if weight.shared is None:
                file.dimension(prefix + "weightDim", rows * width)
                matrix = file.variable(prefix + "weights", prefix + "weightDim", np.float32)
                self._write_matrix(matrix, model, weight)
        for layer, prefix in self._normalised():
            file.dimension(prefix + "bnDim", layer["size"])
            for ours, theirs in {**_NORMS, "bias": "biasBN"}.items():
                values = model.tensor(f"{layer['name']}.{ours}")
                file.variable(prefix + theirs, prefix + "bnDim", np.float32, values)

    def _write_matrix(self, variable: Any, model: Model, weight: Weight) -> None:
        tensor = weight_name(self._layers[weight.layer], weight.source)
        inputs, outputs, rows, width = self._shapes(weight)
        if self._is_by_input(weight):
            for first, count in _blocks(rows, width):
                block = np.zeros((count, width), np.float32)
                real = max(0, min(count, inputs - first))
                block[:real, :outputs] = self._get(model, tensor, first, real, outputs)
                variable[first * width : (first + count) * width] = block.ravel()
            return
        for first, count in _blocks(width, inputs):
            block = np.zeros((inputs, count), np.float32)
            real = max(0, min(count, outputs - first))
            block[:, :real] = self._get(model, tensor, first, real, inputs).T
            if count == width:
                variable[0 : inputs * width] = block.ravel()
                return
            for row in range(inputs):
                variable[row * width + first : row * width + first + count] = block[row]

    @staticmethod
    def _get(model: Model, tensor: str, first: int, count: int, columns: int) -> NDArray[np.float32]:
        rows = np.empty((count, columns), np.float32)
        if count:
            _native.call("model_get_rows", model._handle.value, tensor.encode(), first, count, rows, rows.nbytes)
        return rows


def _blocks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Divides rows into blocks of limited size: the first row and the number of rows of each."""
    count = max(1, _netcdf_file.BLOCK // (4 * columns))
    for first in range(0, rows, count):
        yield first, min(count, rows - first)


def _names_to_write(model: Model) -> list[str] | None:
    """Returns the names of the items as strings; None if they have no names."""
    names = model._item_names()
    if names is None:
        return None
    texts = list(map(str, names.tolist()))
    for at, text in enumerate(texts):
        if "\0" in text:
            raise InvalidArgumentError(
                f"items[{at}] is {_checks.shown(text)}; a NetCDF file cannot hold a NUL character"
            )
    return texts


def _read_names(file: Reader, model: Model, sizes: Mapping[str, int]) -> None:
    """Names the items of the model, if the file has names; a size that was given may cut them."""
    if not file.has(ITEMS):
        return
    is_given, units = model.output in sizes, model.output_units
    variable = file.variable(ITEMS, None if is_given else units, "O", f"the layer {model.output!r}")
    if variable.size < units:
        text = f"sizes[{model.output!r}] is {units:,}, but the file has the names of {variable.size:,} items"
        raise InvalidArgumentError(f"{file.path}: {text}")
    names: list[Any] = variable.texts()[:units]
    if variable.attribute("kind") == "integer":
        try:
            names = list(map(int, names))
        except ValueError as error:
            raise CorruptFileError(f"{file.path}: the variable {ITEMS}: {error}") from None
    model.items = names
