"""Losses of outputs in NumPy: those that a network trains with (docs/network.md), for a row of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne._activations import ACTIVATIONS, activation_of
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dsstne._activations import Activation
    from dsstne._weights import Weights


class Loss(NamedTuple):
    """The loss of an output layer.

    Attributes:
        defined: Its definition, with every default.
        value: The activation behind the logits.
    """

    defined: Mapping[str, Any]
    value: Activation

    @property
    def stored_only(self) -> bool:
        """Whether items that are not stored count as nothing."""
        return bool(self.defined.get("stored_only", False))

    def of(self, scores: NDArray[np.float32], targets: NDArray[np.float64]) -> float:
        """Returns the loss of the items of a row; a target is 0 where nothing is stored.

        Of a loss that draws negatives in training it is the mean over all draws; of a sampled soft-max, the soft-max.
        """
        z, formula = scores.astype(float), _LOSSES[self.defined["kind"]]
        negatives = self.defined.get("negatives", 0)
        if negatives and self.defined["kind"] not in ("bpr", "softmax"):
            stored, absent = np.flatnonzero(targets), np.flatnonzero(targets == 0)
            share = min(1.0, negatives * len(stored) / max(1, len(absent)))
            total = formula(self, z[stored], targets[stored]) + share * formula(self, z[absent], targets[absent])
        else:
            total = formula(self, z, targets)
        return float(self.defined["weight"]) * float(total)


def loss_of(model: Weights, layer: str) -> Loss:
    """Returns the loss of an output layer of a network.

    Raises:
        InvalidArgumentError: The model is not a network.
    """
    if model._network is None:
        kind = model._definition.get("kind")
        raise InvalidArgumentError(f"held_out_loss: a model of kind {kind!r} has no loss; only networks have one")
    defined = next(one for one in model._network["loss"] if one["layer"] == layer)
    return Loss(defined, activation_of(model, layer))


def _softmax(loss: Loss, z: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    total = float(t.sum())
    if total == 0:
        return 0.0
    top = z.max()
    logarithms = z - top - np.log(np.exp(z - top).sum())
    scale, limit = float(loss.defined.get("one_scale", 1)), float(loss.defined.get("one_target", 1))
    counts = np.ones(len(z)) if limit == 1 else logarithms < np.log(limit)
    summed = scale * float(-(t * counts * logarithms).sum())
    return summed / total if loss.defined["normalize_rows"] else summed


def _scaled_marginal(loss: Loss, z: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    of, a = loss.defined, ACTIVATIONS["sigmoid"][0](z, {})
    zeros = np.where(a > of["zero_target"], of["zero_scale"] * np.logaddexp(0, z), 0)
    ones = np.where(a < of["one_target"], of["one_scale"] * t * np.logaddexp(0, -z), 0)
    return float(np.where(t == 0, zeros, ones).sum())


def _l2_hinge(a: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * np.where(t > 0, np.minimum(0, a - t), np.maximum(0, a - t)) ** 2


def _bpr(_: Loss, z: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    absent = z[t == 0]
    if not len(absent):
        return 0.0
    return sum(float(t[i] * np.logaddexp(0, absent - z[i]).mean()) for i in np.flatnonzero(t))


def _contrastive(loss: Loss, z: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    a = ACTIVATIONS[loss.value.word][0](z, loss.value.layer)
    zeros = loss.defined["zero_scale"] * np.maximum(0, a - loss.defined["margin"])
    return float(np.where(t == 0, zeros, t * (1 - a)).sum())


def _boosts(loss: Loss, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the weights of items with and without a target."""
    return np.asarray(np.where(t == 0, loss.defined.get("zero_scale", 1), loss.defined.get("one_scale", 1)))


def _of_values(formula: Any) -> Any:
    """Returns the loss of a row that adds up a formula of the values and the targets."""

    def of_row(loss: Loss, z: NDArray[np.float64], t: NDArray[np.float64]) -> Any:
        return (_boosts(loss, t) * formula(ACTIVATIONS[loss.value.word][0](z, loss.value.layer), t)).sum()

    return of_row


_LOSSES: dict[str, Any] = {
    "softmax": _softmax,
    "bpr": _bpr,
    "sigmoid": lambda loss, z, t: (_boosts(loss, t) * (np.logaddexp(0, z) - t * z)).sum(),
    "scaled_marginal": _scaled_marginal,
    "squared": _of_values(lambda a, t: (a - t) ** 2 / 2),
    "absolute": _of_values(lambda a, t: np.abs(a - t)),
    "hinge": _of_values(lambda a, t: np.maximum(0, 1 - np.where(t == 0, -1, t) * a)),
    "l2_hinge": _of_values(_l2_hinge),
    "cosine_contrastive": _contrastive,
}
