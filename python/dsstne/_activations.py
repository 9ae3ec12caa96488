"""Activations in NumPy: those of sums of a layer, and that of an output, which its loss may decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dsstne._weights import Weights

_BLOCK = 1 << 20  # numbers that are computed in float64 at a time

_SCALE, _ALPHA = 1.0507009873554805, 1.6732632423543773


def _special() -> Any:
    from scipy import special  # here, since it starts threads of a library, and few networks need it

    return special


# The activation of a sum z of a layer, and its derivative; soft-max, which is of whole rows, has softmax below.
ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "linear": (lambda z, _: z, lambda z, _: np.ones_like(z)),
    "sigmoid": (lambda z, _: 0.5 + 0.5 * np.tanh(z / 2), lambda z, _: 0.25 * (1 - np.tanh(z / 2) ** 2)),
    "tanh": (lambda z, _: np.tanh(z), lambda z, _: 1 - np.tanh(z) ** 2),
    "relu": (lambda z, _: np.maximum(z, 0), lambda z, _: (z > 0).astype(float)),
    "elu": (
        lambda z, layer: np.where(z > 0, z, layer["alpha"] * np.expm1(np.minimum(z, 0))),
        lambda z, layer: np.where(z > 0, 1, layer["alpha"] * np.exp(np.minimum(z, 0))),
    ),
    "selu": (
        lambda z, _: _SCALE * np.where(z > 0, z, _ALPHA * np.expm1(np.minimum(z, 0))),
        lambda z, _: _SCALE * np.where(z > 0, 1, _ALPHA * np.exp(np.minimum(z, 0))),
    ),
    "leaky_relu": (
        lambda z, layer: np.where(z > 0, z, layer["slope"] * z),
        lambda z, layer: np.where(z > 0, 1, layer["slope"]),
    ),
    "softplus": (lambda z, _: np.logaddexp(0, z), lambda z, _: 0.5 + 0.5 * np.tanh(z / 2)),
    "softsign": (lambda z, _: z / (1 + np.abs(z)), lambda z, _: 1 / (1 + np.abs(z)) ** 2),
    "gelu": (
        lambda z, _: z * _special().ndtr(z),
        lambda z, _: _special().ndtr(z) + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi),
    ),
    "silu": (
        lambda z, _: z * _special().expit(z),
        lambda z, _: _special().expit(z) * (1 + z * _special().expit(-z)),
    ),
}


def softmax(z: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the soft-max of each row."""
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return np.asarray(powers)


def activated(layer: Mapping[str, Any], z: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the values of a layer with units for its sums z [rows, units]."""
    word = layer.get("activation", "linear")
    return softmax(z) if word == "softmax" else np.asarray(ACTIVATIONS[word][0](z, layer))


def activated_back(layer: Mapping[str, Any], z: NDArray[Any], g: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the gradient with respect to the sums z [rows, units], given that with respect to the values."""
    word = layer.get("activation", "linear")
    if word != "softmax":
        return np.asarray(g * ACTIVATIONS[word][1](z, layer))
    a = softmax(z)
    return np.asarray(a * (g - (a * g).sum(axis=1, keepdims=True)))


# The losses that decide the activation of their output; the others take that of the layer.
_OF_LOSSES = {"softmax": "softmax", "sigmoid": "sigmoid", "scaled_marginal": "sigmoid"}


class Activation(NamedTuple):
    """The activation of an output layer.

    Attributes:
        word: Its name, a key of ``ACTIVATIONS`` or "softmax".
        layer: The definition of the layer, which has the parameters.
    """

    word: str
    layer: Mapping[str, Any]

    def of(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the values of scores [rows, all items] in float64."""
        z = scores.astype(np.float64)
        with np.errstate(under="ignore"):
            if self.word != "softmax":
                return np.asarray(ACTIVATIONS[self.word][0](z, self.layer))
            return softmax(z)

    def at(self, scores: NDArray[np.float32], ids: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the values of some items of a row, rounded as :meth:`apply` rounds them; scores are of all items."""
        whole = self.word == "softmax"
        values = self.of((scores if whole else scores[ids])[None])[0]
        with np.errstate(under="ignore"):
            chosen: NDArray[np.float32] = (values[ids] if whole else values).astype(np.float32)
        return chosen

    def apply(self, scores: NDArray[np.float32]) -> None:
        """Replaces scores [rows, all items] by their values, some rows at a time, rounded to float32."""
        if self.word == "linear":
            return
        step = max(1, _BLOCK // scores.shape[1])
        for start in range(0, len(scores), step):
            with np.errstate(under="ignore"):  # a probability may be 0 in float32
                scores[start : start + step] = self.of(scores[start : start + step])


def activation_of(model: Weights, layer: str) -> Activation:
    """Returns the activation of an output layer of a network.

    Raises:
        InvalidArgumentError: The model is not a network.
    """
    if model._network is None:
        kind = model._definition.get("kind")
        raise InvalidArgumentError(
            f"activation: the scores of a model of kind {kind!r} have no activation; only outputs of networks have "
            "one. Leave activation= out"
        )
    defined = next(one for one in model._network["layers"] if one["name"] == layer)
    loss = next(one["kind"] for one in model._network["loss"] if one["layer"] == layer)
    return Activation(_OF_LOSSES.get(loss) or defined.get("activation", "linear"), defined)


def normalisation(model: Weights, layer: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns what a prediction subtracts from the sums of a normalised layer, and what it multiplies the rest by."""
    mean, variance, scale = (
        model.tensor(f"{layer['name']}.{what}").astype(np.float64)
        for what in ("running_mean", "running_variance", "scale")
    )
    return mean, scale / np.sqrt(variance + layer["batch_norm"]["epsilon"])
