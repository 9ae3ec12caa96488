"""Gradients of a training step beside central differences of the loss: whether the backward pass fits the forward pass.

One step of SGD with the learning rate r changes a weight w to w - r g, so that g is (w - w') / r, without most of the
rounding of w if r is large. The loss that a step reports is that before its update, so steps of copies whose weight w
is changed to w + h and w - h give the difference quotient (L(w + h) - L(w - h)) / 2h. Those at h = 1/64 to 1/512, or
from 1/1024 on, are extrapolated to h = 0 (Romberg). The error is estimated from how far extrapolations from other h are
apart, and from how the slopes of the two sides differ, which shows kinks of the loss. An estimate can be too small
where many kinks are near. So a tensor disagrees only if most of its uncertain elements do, or any other.

All steps have the number and the seed of the first one, so what dropout and denoising drop is the same in all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._handles import Undo
from dsstne._layers import bind, nearest, numbers
from dsstne._tables import Shown, Table
from dsstne.dataset import Dataset
from dsstne.errors import InvalidArgumentError, NotFoundError
from dsstne.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dsstne.model import Model

_ROWS = 64
_RATE = 2.0**10  # of the step that gives the gradient
_LARGEST = (2.0**-6, 2.0**-10)  # h; the second where the loss is too curved for the first
_LEVELS = 4  # of h, each half the one before
_CERTAIN = 4  # times the estimated error of a quotient is allowed
_NOISE = 2.0**-25  # of the loss, as a share of it: twice what is seen; a quotient has that of the smallest h


class Gradients(Shown, dict[str, Any]):
    """The result of :meth:`dsstne.Model.check_gradients`: a dictionary that prints as a table."""

    __repr__ = Shown.__str__

    def _parts(self) -> list[str | Table]:
        rows = [
            [
                name,
                f"{one['elements']:,}",
                f"{one['uncertain']:,}",
                f"{one['difference']:.2g}",
                f"{one['relative']:.2g}",
                "yes" if one["agrees"] else "no: {gradient:.5g} instead of {quotient:.5g} at {at}".format_map(one),
            ]
            for name, one in self["tensors"].items()
        ]
        head = ["tensor", "elements", "uncertain", "difference", "relative", "agrees"]
        return [f"{self['rows']:,} rows, loss {self['loss']:.6g}", Table(head, rows, right=[1, 2, 3, 4])]


class _Steps:
    """Steps of copies of a model, which all begin with the same state.

    Args:
        model: The model, which stays as it is.
        X, targets: The datasets of its inputs and outputs.
        options: Options of the trainers.
    """

    def __init__(
        self, model: Model, X: Mapping[str, Dataset], targets: Mapping[str, Dataset], options: Mapping[str, Any]
    ) -> None:
        self._model, self._X, self._targets, self._options = model, X, targets, options

    def loss(self, name: str, values: NDArray[Any]) -> float:
        """Returns the loss where a tensor has other values."""
        with self._model.copy() as copied:
            copied.set_tensor(name, values)
            return self._step(copied)

    def gradients(self, names: list[str]) -> tuple[float, dict[str, NDArray[np.float64]]]:
        """Returns the loss and the gradients of tensors."""
        with self._model.copy() as copied:
            loss = self._step(copied)
            return loss, {
                name: (self._model.tensor(name).astype(np.float64) - copied.tensor(name)) / _RATE for name in names
            }

    def _step(self, model: Model) -> float:
        with Trainer(model, self._X, self._targets, **self._options) as trainer:
            return trainer.run(steps=1).loss


def check(
    model: Model,
    X: Any,
    targets: Any,
    tensors: Any,
    rows: Any,
    elements: int,
    tolerance: float,
    seed: int,
    compute: dict[str, Any],
) -> Gradients:
    """Compares gradients; see :meth:`dsstne.Model.check_gradients`."""
    if model.network is None:
        kind = model._definition.get("kind")
        raise InvalidArgumentError(f"a model of kind {kind!r} is not trained, so it has no gradients; networks have")
    for layer in model.network["layers"]:
        if layer.get("delta_norm"):
            raise InvalidArgumentError(
                f"the layer {layer['name']!r} has delta_norm, which changes gradients on purpose, so that they do not "
                "fit the loss; check the network without it"
            )
        if layer.get("weight_norm"):
            raise InvalidArgumentError(
                f"the layer {layer['name']!r} has weight_norm, which changes weights after a step, so that they do not "
                "tell its gradients; check the network without it"
            )
    names = _tensors(model, tensors)
    elements, tolerance = _checks.integer(elements, "elements", 1), _checks.duration(tolerance, "tolerance")
    rng = np.random.default_rng(_checks.integer(seed, "seed", 0))
    with Undo() as undo:
        inputs, outputs = bind(undo, X, targets)
        inputs.pair(model.inputs)
        outputs.pair(model.outputs)
        inputs.check_rows(outputs.named())
        chosen = np.arange(min(_ROWS, inputs.rows)) if rows is None else numbers(rows, inputs.rows, "rows", np.int64)
        if not len(chosen):
            raise InvalidArgumentError("rows: expected at least one row to compute a gradient with, got none")
        parts = []
        for bound in (inputs, outputs):
            parts.append({name: Dataset(dataset[chosen]) for name, dataset in bound.datasets.items()})
            for dataset in parts[-1].values():
                undo.callback(dataset.close)
        options = {"batch_size": len(chosen), "shuffle": False, "seed": seed, **compute}
        steps = _Steps(model, parts[0], parts[1], {"optimizer": "sgd", "learning_rate": _RATE, **options})
        loss, gradients = steps.gradients(names)
        found = {
            name: _compare(steps, name, model.tensor(name), gradients[name], loss, elements, tolerance, rng)
            for name in names
        }
    disagreeing = [name for name, one in found.items() if not one["agrees"]]
    return Gradients(
        {"rows": len(chosen), "loss": loss, "agrees": not disagreeing, "disagreeing": disagreeing, "tensors": found}
    )


def _tensors(model: Model, tensors: Any) -> list[str]:
    """Returns the names of the tensors that a caller chose by their names or those of their layers; None = all."""
    known = [name for name, one in model._listed().items() if name in model.tensors and one["role"] == "weight"]
    if tensors is None:
        return known
    given = [tensors] if isinstance(tensors, str) else _checks.several(tensors, "tensors")
    chosen: dict[str, None] = {}
    for one in given:
        word = _checks.text(one, "tensors")
        fitting = [name for name in known if name == word or name.startswith(word + ".")]
        if not fitting:
            shown = _checks.shown(word)
            raise NotFoundError(f"tensors: the model has no tensor or layer {shown}; {nearest(word, known)}")
        chosen |= dict.fromkeys(fitting)
    if not chosen:
        raise InvalidArgumentError("tensors: expected at least one name, got none; None means all")
    return list(chosen)


def _compare(
    steps: _Steps,
    name: str,
    values: NDArray[np.float32],
    gradient: NDArray[np.float64],
    loss: float,
    elements: int,
    tolerance: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Compares elements of the gradient of a tensor: half of them those with the largest gradients."""
    flat, chosen = gradient.ravel(), _chosen(gradient.ravel(), elements, rng)
    worst, farthest, largest, relative = (0, 0.0), -np.inf, 0.0, 0.0
    wrong, uncertain, wrong_uncertain = 0, 0, 0
    for at in chosen:
        for start in _LARGEST:
            quotient, error = _quotient(steps, name, values, int(at), loss, start)
            size = max(abs(flat[at]), abs(quotient))
            allowed = tolerance * size + _NOISE * abs(loss) / (start / 2 ** (_LEVELS - 1))
            if error <= allowed:
                break
        difference = abs(flat[at] - quotient)
        excess = difference - allowed - _CERTAIN * error
        if error <= allowed:
            wrong += excess > 0
            largest, relative = max(largest, difference), max(relative, difference / (size or 1.0))
        else:
            uncertain, wrong_uncertain = uncertain + 1, wrong_uncertain + (excess > 0)
        if excess > farthest:
            farthest, worst = excess, (int(at), quotient)
    place = tuple(int(n) for n in np.unravel_index(worst[0], values.shape))
    return {
        "elements": len(chosen),
        "uncertain": uncertain,
        "difference": float(largest),
        "relative": float(relative),
        "agrees": not wrong and 2 * wrong_uncertain <= uncertain,
        "at": place,
        "gradient": float(flat[worst[0]]),
        "quotient": float(worst[1]),
    }


def _chosen(gradient: NDArray[np.float64], elements: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns the places of the largest gradients and of others drawn by chance, each once."""
    count = min(elements, len(gradient))
    first = np.argpartition(-np.abs(gradient), (count + 1) // 2 - 1)[: (count + 1) // 2]
    drawn = rng.choice(len(gradient), size=count, replace=False)
    rest = drawn[~np.isin(drawn, first)][: count - len(first)]
    return np.concatenate([np.sort(first), rest]).astype(np.int64)


def _quotient(
    steps: _Steps, name: str, values: NDArray[np.float32], at: int, loss: float, start: float
) -> tuple[float, float]:
    """Returns the derivative of the loss by an element, extrapolated from some h on, and an estimate of its error."""
    quotients, bends = np.empty(_LEVELS), np.empty(_LEVELS)
    here = float(values.ravel()[at])
    for level in range(_LEVELS):
        slopes = []
        for sign in (1, -1):
            changed = values.copy()
            changed.ravel()[at] += np.float32(sign * start / 2**level)
            moved = float(changed.ravel()[at]) - here  # what float32 makes of h
            slopes.append((steps.loss(name, changed) - loss) / moved if moved else np.nan)
        quotients[level], bends[level] = sum(slopes) / 2, (slopes[0] - slopes[1]) / 2
    first = quotients[1:] + np.diff(quotients) / 3  # without the terms of order h^2
    second = first[1:] + np.diff(first) / 15  # nor those of order h^4
    # Without a kink the two slopes differ in proportion to h; beside a kink they differ by its jump, whatever h is.
    kink = abs(2 * bends[2] - bends[1])
    return float(second[-1]), float(max(abs(first[-1] - first[-2]), kink))
