"""What a network file of DSSTNE says about a network: its attributes as the JSON of DSSTNE's own definitions.

The translation to a definition of dsstne is that of :meth:`dsstne.Network.from_dsstne`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne._items import number_of
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsstne._netcdf_file import Attributes

ATTRIBUTE = "netcdf"  # of a model that was in such a file: what the file says and the model does not hold, as JSON
ITEMS = "itemNames"  # the variable with the names of the items, which DSSTNE does not read

NETWORK_KINDS = {0: "FeedForward", 1: "AutoEncoder"}
LOSSES = {
    0: "L1",
    1: "L2",
    2: "CrossEntropy",
    3: "ScaledMarginalCrossEntropy",
    4: "DataScaledMarginalCrossEntropy",
    5: "Hinge",
    6: "L2Hinge",
}
KINDS = {0: "Input", 1: "Hidden", 2: "Output", 3: "Target"}
TYPES = {0: "FullyConnected", 1: "Convolutional", 2: "Pooling"}
# DSSTNE computes the activations 4, 5, 6, 8 and 9, which have other names, as linear: the weights were trained so.
ACTIVATIONS = {
    0: "Sigmoid",
    1: "Tanh",
    2: "RectifiedLinear",
    3: "Linear",
    7: "SoftMax",
    10: "ExponentialLinear",
    11: "LeakyRectifiedLinear",
    12: "ScaledExponentialLinear",
    **dict.fromkeys((4, 5, 6, 8, 9), "Linear"),
}
SCHEMES = {
    0: "Xavier",
    1: "CaffeXavier",
    2: "Gaussian",
    3: "Uniform",
    4: "UnitBall",
    5: "Constant",
    6: "SELU",
}
POOLING = {1: "Max", 2: "Average", 3: "LRN", 4: "MaxOut", 5: "DotProduct", 6: "Cosine"}
SPARSE, DENOISING, BATCH_NORM = 1, 2, 4  # bits of a layer's attributes


class Weight(NamedTuple):
    """A weight of a file."""

    number: int  # of the weight in the file
    source: str  # the layer it comes from
    layer: str  # the layer it leads to
    norm: float
    shared: tuple[str, str, bool] | None  # the layers whose weight it is, and whether it is transposed
    locked: bool

    def __str__(self) -> str:
        return f"weight {self.number}, from {self.source!r} to {self.layer!r}"


class Description(NamedTuple):
    """A network of a file."""

    definition: dict[str, Any]  # in the dialect of DSSTNE
    weights: dict[tuple[str, str], Weight]  # by the names of the layers between which they are
    numbers: dict[str, int]  # of the layers in the file
    units: dict[str, int]  # of each layer in the file, with padding
    features: dict[str, str]  # digests of the labels of inputs and outputs, as far as the file has them


def describe(attributes: Attributes, sizes: Mapping[str, int]) -> Description:
    """Reads the attributes of a file.

    Args:
        attributes: The attributes.
        sizes: Columns or items of layers that the file pads; others are in the file.
    """
    if "layers" not in attributes:
        hint = "; it is a data file, which dsstne.netcdf.read reads" if "datasets" in attributes else ""
        raise attributes.fault(f"this is not a network file of DSSTNE, because the attribute layers is missing{hint}")
    weights = _weights(attributes)
    layers, units, features = [], {}, {}
    for number in range(attributes.integer("layers", least=1)):
        layer = _layer(attributes, f"layer{number}_")
        name = layer["Name"]
        if name in units:
            raise attributes.fault(f"the attribute layer{number}_name is {name!r}, the name of another layer, too")
        units[name] = layer["N"]
        layer["N"] = _size(attributes, number, layer, sizes)
        digest = _features(attributes, number, layer, sizes)
        if digest is not None:
            features[name] = digest
        layers.append(layer)
    for name in sizes:
        if name not in units:
            text = f"{attributes.path}: sizes names {name!r}; the layers are {', '.join(map(repr, units))}"
            raise InvalidArgumentError(text)
    by_name = {layer["Name"]: layer for layer in layers}
    for weight in weights.values():
        for name in (weight.source, weight.layer):
            if name not in by_name:
                raise attributes.fault(f"{weight} names a layer that the file does not have: {name!r}")
    for layer in layers:
        _connect(attributes, layer, weights)
    definition = _network(attributes) | {"Layers": layers}
    return Description(definition, weights, {layer["Name"]: n for n, layer in enumerate(layers)}, units, features)


def _size(attributes: Attributes, number: int, layer: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Returns the columns or items of a layer, without those that only fill up the file."""
    units: int = layer["N"]
    name, padded = layer["Name"], layer["Kind"] in ("Input", "Output")
    if name in sizes:
        if not padded:
            text = f"{attributes.path}: sizes names {name!r}, a hidden layer; it is for inputs and outputs"
            raise InvalidArgumentError(text)
        if sizes[name] > units:
            text = f"sizes[{name!r}] is {sizes[name]:,}; the layer has {units:,} units in the file"
            raise InvalidArgumentError(f"{attributes.path}: {text}")
        return sizes[name]
    size = attributes.integer(f"layer{number}_columns", units, least=1) if padded else units
    if size > units:
        raise attributes.fault(
            f"the attribute layer{number}_columns is {size:,}; the layer {name!r} has {units:,} units in the file"
        )
    return size


def _features(attributes: Attributes, number: int, layer: Mapping[str, Any], sizes: Mapping[str, int]) -> str | None:
    """Returns the digest of the labels of an input or output; None if there is none, or one of more than are read."""
    digest = attributes.digest(f"layer{number}_featuresDigest")
    if digest is None or number_of(digest) == layer["N"]:
        return digest
    if layer["Name"] in sizes:
        return None
    raise attributes.fault(
        f"the attribute layer{number}_featuresDigest is a digest of {number_of(digest):,} labels; the layer "
        f"{layer['Name']!r} has {layer['N']:,} units"
    )


def _network(attributes: Attributes) -> dict[str, Any]:
    loss = attributes.word("errorFunction", LOSSES)
    network: dict[str, Any] = {
        "Version": attributes.real("version", 0.9),
        "Name": attributes.text("name", ""),
        "Kind": attributes.word("kind", NETWORK_KINDS, 0),
        "ErrorFunction": loss,
        "ShuffleIndices": attributes.flag("ShuffleIndices", 1),
        "Decay": attributes.real("decay", 0.0),
        "DeltaBoost": {key: attributes.real(f"deltaBoost_{key}", 1.0) for key in ("one", "zero")},
    }
    if attributes.flag("bDenoising", 0):
        network["Denoising"] = {"p": attributes.real("denoising_p")}
    if attributes.flag("bSparsenessPenalty", 0):
        network["SparsenessPenalty"] = {key: attributes.real(f"sparsenessPenalty_{key}") for key in ("p", "beta")}
    if "Marginal" in loss:
        defaults = {"oneScale": 1.0, "zeroScale": 1.0, "oneTarget": 0.9, "zeroTarget": 0.1}
        network["ScaledMarginalCrossEntropy"] = {
            key: attributes.real(f"SMCE_{key}", default) for key, default in defaults.items()
        }
    return network


def _layer(attributes: Attributes, prefix: str) -> dict[str, Any]:
    """Reads a layer, without what its weights say; N is the number of its units in the file."""
    kind, form = attributes.word(prefix + "kind", KINDS), attributes.word(prefix + "type", TYPES)
    name = attributes.text(prefix + "name")
    units = attributes.integer(prefix + "Nx", least=1)
    for axis in ("Ny", "Nz", "Nw"):
        units *= max(1, attributes.integer(prefix + axis, 1))
    layer: dict[str, Any] = {"Name": name, "Kind": kind, "Type": form, "N": units}
    bits = attributes.integer(prefix + "attributes", 0)
    if kind != "Hidden" and attributes.text(prefix + "dataSet", ""):
        layer["DataSet"] = attributes.text(prefix + "dataSet")
    dropout = attributes.real(prefix + "pDropout", 0.0)
    if dropout:
        layer["pDropout"] = dropout
    if kind in ("Input", "Target"):
        layer["Sparse"] = bool(bits & DENOISING)
        return layer
    layer["Source"] = _names(attributes, prefix, "source")
    skips = _names(attributes, prefix, "skip")
    if skips:
        layer["Skip"] = skips
    if form == "Pooling":
        layer["Function"] = attributes.word(prefix + "poolingfunction", POOLING)
        if kind == "Hidden":
            return layer
    _activation(attributes, prefix, layer)
    if form == "Pooling":
        return layer
    scheme = attributes.word(prefix + "weightInit", SCHEMES, 0)
    scale, bias = attributes.real(prefix + "weightInitScale", 1.0), attributes.real(prefix + "biasInit", 0.0)
    layer["WeightInit"] = {"Scheme": scheme, "Scale": scale, "Bias": bias}
    for key, attribute in {"WeightNorm": "weightNorm", "DeltaNorm": "deltaNorm"}.items():
        if attributes.real(prefix + attribute, 0.0):
            layer[key] = attributes.real(prefix + attribute)
    if kind == "Hidden":
        layer["BatchNormalization"] = bool(bits & BATCH_NORM)
        layer["Sparse"] = bool(bits & SPARSE) and attributes.flag("bSparsenessPenalty", 0)
        layer["SparsenessPenalty"] = {
            key: attributes.real(f"{prefix}sparsenessPenalty_{key}", 0.0) for key in ("p", "beta")
        }
    return layer


def _activation(attributes: Attributes, prefix: str, layer: dict[str, Any]) -> None:
    """Adds the activation of a layer with the parameters that it has an effect on."""
    word = attributes.word(prefix + "activation", ACTIVATIONS)
    layer["Activation"] = word
    parameters = {
        "LeakyRectifiedLinear": {"RELUSlope": 1.0},
        "ExponentialLinear": {"ELUAlpha": 1.0},
        "ScaledExponentialLinear": {"ELUAlpha": 1.0, "SELULambda": 1.050701},
    }
    for key, default in parameters.get(word, {}).items():
        layer[key] = attributes.real(prefix + key, default)
    if layer.get("RELUSlope", 0) > 1:
        raise attributes.fault(
            f"the attribute {prefix}RELUSlope of the layer {layer['Name']!r} is {layer['RELUSlope']}; above 1 DSSTNE "
            "computes another function than the leaky ReLU, which is not supported"
        )


def _names(attributes: Attributes, prefix: str, what: str) -> list[str]:
    """Reads a list of names of layers."""
    count = attributes.integer(f"{prefix}{what}s", 0)
    return [attributes.text(f"{prefix}{what}{n}") for n in range(count)]


def _weights(attributes: Attributes) -> dict[tuple[str, str], Weight]:
    weights: dict[tuple[str, str], Weight] = {}
    for number in range(attributes.integer("weights")):
        prefix = f"weight{number}_"
        ends = attributes.text(prefix + "inputLayer"), attributes.text(prefix + "outputLayer")
        shared = None
        if attributes.flag(prefix + "bShared", 0):
            source, owner = (attributes.text(f"{prefix}source{end}Layer") for end in ("Input", "Output"))
            shared = (source, owner, attributes.flag(prefix + "bTransposed", 0))
        norm, locked = attributes.real(prefix + "norm", 0.0), attributes.flag(prefix + "bLocked", 0)
        weight = Weight(number, *ends, norm, shared, locked)
        if ends in weights:
            raise attributes.fault(f"{weight} is there twice; the other is weight {weights[ends].number}")
        weights[ends] = weight
    return weights


def _connect(attributes: Attributes, layer: dict[str, Any], weights: Mapping[tuple[str, str], Weight]) -> None:
    """Adds what the weights of a layer say, of which each source needs one."""
    name, sources = layer["Name"], layer.get("Source", ())
    has_weights = layer["Type"] == "FullyConnected"
    own = {weight.source: weight for (_, to), weight in weights.items() if to == name}
    for source in sources if has_weights else ():
        if source not in own:
            raise attributes.fault(f"there is no weight from {source!r} to {name!r}, a source of the layer")
    for source, weight in own.items():
        if source not in sources or not has_weights:
            raise attributes.fault(f"{weight} leads to a layer that does not have this source")
    shared = [
        {
            "InputLayer": w.source,
            "SourceInputLayer": w.shared[0],
            "SourceOutputLayer": w.shared[1],
            "Transposed": w.shared[2],
        }
        for w in own.values()
        if w.shared is not None
    ]
    if shared:
        layer["SharedWeights"] = shared
    norms = {weight.norm for weight in own.values() if weight.shared is None}
    if len(norms) > 1:
        raise attributes.fault(f"the weights that lead to {name!r} have different norms, which is not supported")
    for norm in norms:
        layer.pop("WeightNorm", None)
        if norm:
            layer["WeightNorm"] = norm


def weight_name(layer: Mapping[str, Any], source: str) -> str:
    """Returns the name of the tensor that a layer of dsstne has between itself and a source."""
    name: str = layer["name"] + ".weight"
    return name if len(layer["sources"]) == 1 else f"{name}.{source}"
