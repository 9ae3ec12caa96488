"""The attributes of a network file of DSSTNE for a model, and a check that they say what the model is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _items, _options
from dsstne._netcdf_network import (
    ACTIVATIONS,
    ATTRIBUTE,
    BATCH_NORM,
    DENOISING,
    KINDS,
    LOSSES,
    NETWORK_KINDS,
    POOLING,
    SCHEMES,
    SPARSE,
    weight_name,
)
from dsstne.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsstne.model import Model

PADDING = 128  # DSSTNE rounds the columns of a data set up to a multiple of this

# What units without an item begin at, for outputs of which the others are between 0 and 1: near 0, so that they never
# rank first. Others begin at 0.
_LOW_LOGIT = -80.0

_WORDS = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "RectifiedLinear",
    "linear": "Linear",
    "softmax": "SoftMax",
    "elu": "ExponentialLinear",
    "leaky_relu": "LeakyRectifiedLinear",
    "selu": "ScaledExponentialLinear",
}
_VALUE_LOSSES = {"absolute": "L1", "squared": "L2", "hinge": "Hinge", "l2_hinge": "L2Hinge"}
# Losses that decide the activation of the output, and the words for them that a file can have.
_MARGINAL = ("ScaledMarginalCrossEntropy", "DataScaledMarginalCrossEntropy")
_LOGIT_LOSSES = {
    "sigmoid": (("CrossEntropy",), "Sigmoid"),
    "softmax": (("CrossEntropy", *_MARGINAL), "SoftMax"),
    "scaled_marginal": (_MARGINAL, "Sigmoid"),
}
_FUNCTIONS = {"maximum": "MaxOut", "dot": "DotProduct", "cosine": "Cosine"}
# DSSTNE's schemes for our initial weights, with the factor from our scale to its own. Those that it lacks are left out:
# they say nothing about weights that are there.
_SCHEMES = {
    "xavier_uniform": ("Xavier", 1.0),
    "fan_out_uniform": ("CaffeXavier", 1.0),
    "normal": ("Gaussian", 1.0),
    "uniform": ("Uniform", 1.0),
    "constant": ("Constant", 1.0),
    "unit_norm": ("UnitBall", 1.0),
    "he_normal": ("SELU", 2**0.5),
}
_ELU_ALPHA, _SELU_ALPHA, _SELU_LAMBDA = 1.0, 1.6732632, 1.050701


def _number(words: Mapping[int, str], word: str) -> Any:
    """Returns the first number of a word."""
    return np.uint32(next(number for number, known in words.items() if known == word))


def attributes_of(model: Model, path: str) -> dict[str, Any]:
    """Returns all global attributes of the file of a model.

    Raises:
        UnsupportedError: DSSTNE has no such layer, activation or loss; the message names it.
    """
    network = model.network
    if network is None:
        kind = model._definition.get("kind")
        raise UnsupportedError(
            f"{path}: DSSTNE's files hold networks only, and this is a model of kind {kind!r}; save it under a name "
            "that does not end with .nc"
        )
    kept = _kept(model)
    items = model._item_names()
    if items is not None:  # they may be newer than the digest
        kept["features"] = {**kept["features"], model.output: _items.digest_of(items.tolist())}
    layers, fused = _fused(network["layers"])
    names = {layer["name"] for layer in layers}
    losses = {loss["layer"]: loss for loss in network["loss"]}
    padded = _padded(layers, fused)
    weights = _weight_attributes(layers, fused, padded, kept)
    attributes = _network_attributes(network, kept)
    attributes["layers"] = np.uint32(len(layers))
    for number, layer in enumerate(layers):
        prefix = f"layer{number}_"
        loss = losses.get(layer["name"])
        values = _layer_attributes(layer, loss, fused.get(layer["name"]))
        values |= {"dataSet": "", "Nx": np.uint32(padded[layer["name"]]), "name": layer["name"]}
        if layer["kind"] in ("input", "output"):
            values["dataSet"] = kept["datasets"].get(layer["name"], layer["name"])
            if padded[layer["name"]] != layer["size"]:
                values["columns"] = np.uint64(layer["size"])
            digest = kept["features"].get(layer["name"])
            if digest is not None and _items.number_of(digest) == layer["size"]:  # else units came or went since then
                values["featuresDigest"] = digest
        attributes |= {prefix + key: value for key, value in values.items()}
    for key in ("datasets", "features"):
        for name in kept[key]:
            if name not in names:
                raise InvalidArgumentError(f"attributes[{ATTRIBUTE!r}]: {key} names {name!r}, which is not a layer")
    return attributes | weights


def _kept(model: Model) -> dict[str, Any]:
    """Returns what a file says and a model does not hold: from the file that the model was loaded from, or defaults."""
    kept: dict[str, Any] = {"kind": "FeedForward", "loss": "", "shuffle": True, "schedule": None}
    kept |= {"datasets": {}, "features": {}, "locked": []}
    text = model.attributes.get(ATTRIBUTE, "{}")
    where = f"attributes[{ATTRIBUTE!r}]"
    try:
        given = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{where} is not JSON: {error}") from None
    if not isinstance(given, dict) or not set(given) <= set(kept):
        raise InvalidArgumentError(f"{where} is {_checks.shown(text)}; expected an object with keys among {list(kept)}")
    kept |= given
    is_right = (
        isinstance(kept["kind"], str) and isinstance(kept["shuffle"], bool) and isinstance(kept["datasets"], dict)
    )
    is_right = is_right and kept["kind"] in NETWORK_KINDS.values() and kept["loss"] in ("", *LOSSES.values())
    if not is_right or not isinstance(kept["locked"], list) or not isinstance(kept["features"], dict):
        raise InvalidArgumentError(f"{where} is {_checks.shown(text)}; a value of it is of another type or word")
    for layer, name in kept["datasets"].items():
        what = f"{where}: the data set of {_checks.shown(layer)}"
        _options.text_argument(_checks.text(name, what), what)
    for name in kept["locked"]:
        _checks.text(name, f"{where}: a name in locked")
    for layer, digest in kept["features"].items():
        if not _items.is_digest(digest):
            raise InvalidArgumentError(
                f"{where}: features has {_checks.shown(digest)} for the layer {_checks.shown(layer)}; expected a "
                "number of labels, a blank and a SHA-256 in 64 hexadecimal digits"
            )
    schedule = kept["schedule"] or {"kind": "inverse"}
    is_decay = isinstance(schedule, dict) and set(schedule) <= {"kind", "rate"} and schedule.get("kind") == "inverse"
    rate: Any = schedule.get("rate", 0) if is_decay else None
    if not _checks.is_number(rate) or not 0 <= rate <= float(np.finfo(np.float32).max):
        raise InvalidArgumentError(
            f'{where}: schedule is {_checks.shown(schedule)}; DSSTNE has only {{"kind": "inverse", "rate": ...}}, with '
            "a rate of at least 0 that is finite in float32"
        )
    return kept | {"decay": float(rate)}


def _fused(layers: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Takes out merge layers that are one layer together with an output in DSSTNE; returns them by that output."""
    by_name, users = {layer["name"]: layer for layer in layers}, []
    for layer in layers:
        users += [*layer.get("sources", ()), *layer.get("skips", ())]
    fused = {}
    for layer in layers:
        merge = by_name.get(layer["name"] + ".merge", {"kind": ""})
        is_only = layer.get("skips") == [layer["name"] + ".merge"] and users.count(layer["name"] + ".merge") == 1
        if layer["kind"] == "output" and not layer["sources"] and is_only and merge["kind"] == "merge":
            fused[layer["name"]] = merge
    gone = {merge["name"] for merge in fused.values()}
    return [layer for layer in layers if layer["name"] not in gone], fused


def _padded(layers: list[dict[str, Any]], fused: Mapping[str, Any]) -> dict[str, int]:
    """Returns the units of each layer in the file.

    Values that DSSTNE adds up must be as many, so an output with skips is not filled up. Neither is what may have the
    same weight as such an output.
    """
    skipping = {layer["name"] for layer in layers if layer["kind"] == "output" and layer.get("skips")} - set(fused)
    if skipping and any(layer.get("shared") for layer in layers):
        return {layer["name"]: layer["size"] for layer in layers}
    filled = {layer["name"] for layer in layers if layer["kind"] in ("input", "output")} - skipping - set(fused)
    return {
        layer["name"]: -(-layer["size"] // PADDING) * PADDING if layer["name"] in filled else layer["size"]
        for layer in layers
    }


def _network_attributes(network: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    loss = network["loss"][0] if network["loss"] else {"kind": "sigmoid"}
    denoising = max((layer.get("denoising", 0) for layer in network["layers"]), default=0)
    penalty = next((layer["sparsity"] for layer in network["layers"] if layer.get("sparsity")), None)
    word = _loss_word(loss, kept["loss"])
    marginal: dict[str, Any] = {"one_scale": 1.0, "zero_scale": 1.0, "one_target": 0.9, "zero_target": 0.1}
    boosts: dict[str, Any] = {"one_scale": 1.0, "zero_scale": 1.0}
    given = marginal if word in _MARGINAL else boosts
    if word in _MARGINAL and loss["kind"] == "softmax":
        marginal |= {"one_target": 1.0, "zero_target": 0.0}  # where our soft-max has no such numbers
    given |= {key: loss[key] for key in given if key in loss}
    real = np.float32
    return {
        "version": real(0.9),
        "name": network["name"],
        "kind": _number(NETWORK_KINDS, kept["kind"]),
        "errorFunction": _number(LOSSES, word),
        "maxout_k": np.int32(2),
        "decay": real(kept["decay"]),
        "LRN_k": real(2),
        "LRN_n": np.int32(5),
        "LRN_alpha": real(1e-4),
        "LRN_beta": real(0.75),
        "bSparsenessPenalty": np.uint32(penalty is not None),
        "sparsenessPenalty_p": real(penalty["mean"] if penalty else 0),
        "sparsenessPenalty_beta": real(penalty["weight"] if penalty else 0),
        "bDenoising": np.uint32(denoising > 0),
        "denoising_p": real(denoising),
        "deltaBoost_one": real(boosts["one_scale"]),
        "deltaBoost_zero": real(boosts["zero_scale"]),
        "SMCE_oneScale": real(marginal["one_scale"]),
        "SMCE_zeroScale": real(marginal["zero_scale"]),
        "SMCE_oneTarget": real(marginal["one_target"]),
        "SMCE_zeroTarget": real(marginal["zero_target"]),
        "ShuffleIndices": np.uint32(kept["shuffle"]),
        "checkpoint_name": "",
        "checkpoint_interval": np.int32(0),
        "checkpoint_epochs": np.int32(0),
    }


def _loss_word(loss: Mapping[str, Any], kept: str = "") -> str:
    """Returns DSSTNE's word for a loss: the one that its file had, if it can be that."""
    kind = loss["kind"]
    if kind in _LOGIT_LOSSES:
        words, _ = _LOGIT_LOSSES[kind]
        if kind == "softmax" and "one_target" in loss:  # with a margin
            words = _MARGINAL
        return kept if kept in words else words[0]
    if kind in _VALUE_LOSSES:
        return _VALUE_LOSSES[kind]
    raise UnsupportedError(f"layer {loss['layer']!r}: DSSTNE does not have the loss {kind!r}")


def _layer_attributes(
    layer: Mapping[str, Any], loss: Mapping[str, Any] | None, merge: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Returns the attributes of a layer, apart from its name, its size and its data set."""
    kind, name = layer["kind"], layer["name"]
    bits, activation, pooling = 0, "Sigmoid", 0
    kinds = {"input": "Input", "hidden": "Hidden", "merge": "Hidden", "output": "Output"}
    if kind not in kinds:
        raise UnsupportedError(f"layer {name!r}: DSSTNE does not have layers of kind {kind!r}")
    function = (merge or layer).get("function")
    if kind == "input":
        bits = SPARSE | (DENOISING if layer["denoising"] else 0)
    elif kind == "merge":
        activation = "Linear"
    elif loss is not None and loss["kind"] in _LOGIT_LOSSES:
        activation = _LOGIT_LOSSES[loss["kind"]][1]
    else:
        word = layer.get("activation") or "linear"
        if word not in _WORDS:
            raise UnsupportedError(f"layer {name!r}: DSSTNE does not have the activation {word!r}")
        activation = _WORDS[word]
    if loss is not None:
        _loss_word(loss)
    if kind == "hidden":
        bits = (SPARSE if layer.get("sparsity") else 0) | (BATCH_NORM if layer.get("batch_norm") else 0)
    if function is not None:
        pooling = int(_number(POOLING, _FUNCTIONS[function]))
    sources = (merge or layer).get("sources", [])
    skips = [] if merge else layer.get("skips", [])
    if kind != "input" and not sources:
        raise UnsupportedError(f"layer {name!r}: DSSTNE does not have layers without a source")
    is_selu = activation == "ScaledExponentialLinear"
    sparsity, begin = layer.get("sparsity") or {}, layer.get("initializer") or {}
    scheme, factor = _SCHEMES.get(begin.get("kind", ""), ("Xavier", 0.0))
    one, zero, real = np.uint32(1), np.uint32(0), np.float32
    values: dict[str, Any] = {
        "name": name,
        "kind": _number(KINDS, kinds[kind]),
        "type": np.uint32(2 * (function is not None)),
        "poolingfunction": np.uint32(pooling),
        "dataSet": "",
        "Nx": one,
        "Ny": one,
        "Nz": one,
        "Nw": one,
        "dimensions": one,
        **{f"kernel{axis}": one for axis in "XYZ"},
        "kernelDimensions": zero,
        **{f"kernelStride{axis}": one for axis in "XYZ"},
        **{f"kernelPadding{axis}": zero for axis in "XYZ"},
        "pDropout": real(layer.get("dropout") or layer.get("alpha_dropout") or 0),
        "weightInit": _number(SCHEMES, scheme),
        "weightInitScale": real(begin.get("scale", 1) * factor if factor else 1),
        "biasInit": real(begin.get("bias", 0)),
        "weightNorm": real(layer.get("weight_norm", 0)),
        "deltaNorm": real(layer.get("delta_norm", 0)),
        "activation": _number(ACTIVATIONS, activation),
        "sparsenessPenalty_p": real(sparsity.get("mean", 0)),
        "sparsenessPenalty_beta": real(sparsity.get("weight", 0)),
        "RELUSlope": real(layer.get("slope", 1)),
        "ELUAlpha": real(_SELU_ALPHA if is_selu else layer.get("alpha", _ELU_ALPHA)),
        "SELULambda": real(_SELU_LAMBDA),
        "attributes": np.uint32(bits),
    }
    for what, listed in (("source", sources), ("skip", skips)):
        values[what + "s"] = np.uint32(len(listed))
        values |= {f"{what}{n}": other for n, other in enumerate(listed)}
    return values


def _weight_attributes(
    layers: list[dict[str, Any]], fused: Mapping[str, Any], padded: Mapping[str, int], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the attributes of all weights, in the order of the layers and of their sources."""
    owners = {
        weight_name(layer, source): (source, layer["name"])
        for layer in layers
        if layer["kind"] != "input" and layer["kind"] != "merge"
        for source in layer["sources"]
        if source not in _shared(layer)
    }
    values: dict[str, Any] = {}
    ends = [
        (layer, source)
        for layer in layers
        if layer["kind"] not in ("input", "merge") and layer["name"] not in fused
        for source in layer["sources"]
    ]
    one = np.uint64(1)
    locked = _locked(kept["locked"], ends)
    values["weights"] = np.uint32(len(ends))
    for number, (layer, source) in enumerate(ends):
        share = _shared(layer).get(source)
        tensor = share["weight"] if share else weight_name(layer, source)
        of: dict[str, Any] = {"inputLayer": source, "outputLayer": layer["name"]}
        of |= {"width": np.uint64(padded[layer["name"]]), "height": np.uint64(padded[source])}
        of |= {"length": one, "depth": one, "breadth": one, "bShared": np.uint32(share is not None)}
        if share:
            of |= {"bTransposed": np.uint32(_is_transposed(share, layers, owners[tensor], (source, layer["name"])))}
            of |= dict(zip(("sourceInputLayer", "sourceOutputLayer"), owners[tensor], strict=True))
        # Of a shared weight only the bias belongs to this layer.
        of |= {"bLocked": np.uint32((layer["name"] + ".bias" if share else tensor) in locked)}
        of |= {"norm": np.float32(0 if share else layer.get("weight_norm", 0))}
        values |= {f"weight{number}_{key}": value for key, value in of.items()}
    return values


def _locked(names: list[str], ends: list[tuple[dict[str, Any], str]]) -> set[str]:
    """Returns the names of the locked weights and biases, where a layer stands for all that it computes with.

    Raises:
        InvalidArgumentError: A file of DSSTNE cannot lock one of these: it locks a weight with its bias.
    """
    weights: dict[str, list[str]] = {layer["name"]: [] for layer, _ in ends}  # of each layer, its own
    locked = set(names)
    for layer, source in ends:
        share = _shared(layer).get(source)
        if share is None:
            weights[layer["name"]].append(weight_name(layer, source))
        if layer["name"] in names:
            locked |= {layer["name"] + ".bias", share["weight"] if share else weight_name(layer, source)}
    known = {weight for own in weights.values() for weight in own} | set(weights)
    # A bias needs a weight that is locked with it, or a shared one.
    sharing = {layer["name"] for layer, source in ends if source in _shared(layer)}
    known |= {f"{name}.bias" for name, own in weights.items() if name in sharing or locked.intersection(own)}
    for name in names:
        if name not in known:
            raise InvalidArgumentError(
                f"attributes[{ATTRIBUTE!r}]: locked names {_checks.shown(name)}, which a file of DSSTNE cannot lock; "
                f"name layers among {list(weights)}, or weights between them, which it locks with their biases"
            )
    return locked


def _shared(layer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the weights of others that a layer uses, by source, in the longest of the ways to write them."""
    shared = layer.get("shared") or []
    if isinstance(shared, str):
        shared = {"weight": shared}
    if isinstance(shared, dict):
        shared = [{"source": layer["sources"][0], **shared}]
    return {entry["source"]: entry for entry in shared}


def _is_transposed(
    share: Mapping[str, Any], layers: list[dict[str, Any]], owner: tuple[str, str], user: tuple[str, str]
) -> bool:
    """Reports which way round a weight is used; where the definition does not say, only one way fits."""
    if "transposed" in share:
        return bool(share["transposed"])
    by_name = {layer["name"]: layer for layer in layers}
    ends = [[(by_name[n]["size"], by_name[n]["kind"] in ("input", "output")) for n in pair] for pair in (owner, user)]
    return ends[0] != ends[1]


def bias_of_padding(network: Mapping[str, Any], layer: Mapping[str, Any]) -> float:
    """Returns the bias of the units of an output that are no items."""
    kinds = [loss["kind"] for loss in network["loss"] if loss["layer"] == layer["name"]]
    return _LOW_LOGIT if kinds and kinds[0] in _LOGIT_LOSSES else 0.0


# ---- the comparison ----

# What a model has and its weights do not depend on: initial weights, of which DSSTNE lacks some.
_WITHOUT_EFFECT = {"initializer"}


def compare(ours: Mapping[str, Any], read: Mapping[str, Any]) -> None:
    """Compares a network with the one that would be read from its file.

    Raises:
        UnsupportedError: They differ, so that DSSTNE's files cannot express the network; the message says where.
    """
    for of, key in (("layers", "name"), ("loss", "layer")):
        theirs = {entry[key]: entry for entry in read[of]}
        for entry in ours[of]:
            name = entry[key]
            place = f"layer {name!r}" + (": the loss" if of == "loss" else "")
            if name not in theirs:
                raise UnsupportedError(f"{place}: DSSTNE's files cannot express this layer")
            other = theirs[name]
            for setting in [*entry, *(set(other) - set(entry))]:
                a, b = entry.get(setting), other.get(setting)
                if setting not in _WITHOUT_EFFECT and not _same(a, b):
                    hint = _HINTS.get(setting, "change it before training, or save a model file of dsstne")
                    raise UnsupportedError(
                        f"{place}: {setting} is {_checks.shown(a)}, but what DSSTNE's files can say is "
                        f"{_checks.shown(b)}; {hint}"
                    )


_HINTS = {
    "normalize_rows": "DSSTNE divides the targets of a row by their number, as normalize_rows does",
    "scaling": "DSSTNE does not scale rows; scale the matrix instead",
}


def _same(a: Any, b: Any) -> bool:
    """Reports whether settings are equal, numbers as float32."""
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(_same(a[key], b[key]) for key in a)
    if _checks.is_number(a) and _checks.is_number(b):
        return bool(np.float32(a) == np.float32(b))
    return bool(a == b) or (a in (None, "", 0, []) and b in (None, "", 0, []))
