"""The parts that the stored items of a row have in a score that is not linear in the row.

Networks: integrated gradients (Sundararajan, Taly and Yan, "Axiomatic Attribution for Deep Networks", 2017). Factors of
least squares: given the weights of its entries, the solution for a row is linear in their targets (Hu, Koren and
Volinsky, "Collaborative Filtering for Implicit Feedback Datasets", 2008, section 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne._activations import activated, activated_back, normalisation
from dsstne._merging import merged, merged_back
from dsstne._sharing import is_transposed, weight_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dsstne._weights import Weights

    Row = tuple[NDArray[Any], NDArray[Any]]  # stored columns and their values
    Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_ACCURACY = 1e-6  # of the integral over an interval, relative to the larger of the scores at the ends of the path
_MOST_HALVINGS = 30  # of the path: the kinks of ReLU and cosines near the empty row take many


class _Path:
    """A network along the straight line from the empty row (0) to a row (1) of its first input.

    Scaling divides the row by its length before the line is drawn: along a line through 0 the scaled row is constant.
    With cosine logits, the score jumps at 0 if the hidden vector there is 0, and its gradient has no integral. The
    vector is then divided by its length at the end of the line, which changes the score at neither end.

    Args:
        model: The network.
        rows: The row of each input, the first input first.
        item: The item of the first output whose score is explained.
    """

    def __init__(self, model: Weights, rows: Mapping[str, Row], item: int) -> None:
        assert model._network is not None
        self._layers = {layer["name"]: layer for layer in model._network["layers"]}
        self._units = model._hidden
        self._links: dict[str, list[tuple[str, Array]]] = {name: [] for name in self._units}
        self._norms: dict[str, tuple[Array, Any, float]] = {}  # scale, bias and epsilon of layers with layer_norm
        self._constant: dict[str, Any] = {}  # what does not change along the line: the bias and the other inputs
        self._fed: dict[str, Array] = {}  # what each stored item adds to the sums of a layer, [items, units]
        for name, units in self._units.items():
            layer = self._layers[name]
            if layer["kind"] == "merge":
                continue
            # Of a variational layer, which has twice as many sums, the means count, which come first.
            self._constant[name] = model.tensor(f"{name}.bias")[:units].astype(float) if layer["bias"] else 0.0
            factor: Any = 1.0
            if "layer_norm" in layer:
                scale = model.tensor(f"{name}.scale").astype(float)
                self._norms[name] = scale, self._constant[name], layer["layer_norm"]["epsilon"]
                self._constant[name] = 0.0
            elif "batch_norm" in layer:
                mean, factor = normalisation(model, layer)
                self._constant[name] = self._constant[name] - mean * factor
            for source in layer["sources"]:
                weight = model.tensor(weight_of(layer, source))
                if source not in rows and is_transposed(layer, source, weight.shape):
                    weight = weight.T
                weight = weight[:, :units] if source in rows else weight[:units]
                if source not in rows:
                    self._links[name].append((source, weight.astype(float) * np.reshape(factor, (-1, 1))))
                    continue
                ids, values = self._row(source, rows)
                fed = values[:, None] * weight[ids] * factor
                if source == next(iter(rows)):
                    self._fed[name] = fed
                else:
                    self._constant[name] = self._constant[name] + fed.sum(axis=0)
            for skip in layer.get("skips", ()):
                self._links[name].append((skip, np.eye(units) * np.reshape(factor, (-1, 1))))
        self._steps = {name: fed.sum(axis=0) for name, fed in self._fed.items()}
        output = self._layers[model.output]
        hidden = [source for source in output["sources"] if source not in rows]
        self._ends = [(source, model.tensor(weight_of(output, source))[item].astype(float)) for source in hidden]
        for skip in output.get("skips", ()):
            self._ends.append((skip, np.eye(self._units[skip])[item]))
        self._direct: Any = 0.0  # what each stored item adds to the score itself
        if (first_input := next(iter(rows))) in output["sources"]:
            ids, values = self._row(first_input, rows)
            self._direct = values * model.tensor(weight_of(output, first_input))[ids, item]
        self._cosine, self._length = bool(output["temperature"]), None
        if self._cosine:
            source, weight = self._ends[0]
            self._ends = [(source, weight / ((np.linalg.norm(weight) or 1.0) * output["temperature"]))]
            first, last = np.linalg.norm(self._forward(np.array([0.0, 1.0]))[1][source], axis=1)
            self._length = (last or 1.0) if first == 0 else None

    def parts(self) -> Array:
        """Integrates the gradient, with more nodes where it changes much; returns the parts of the stored items."""
        found = {name: np.zeros_like(step) for name, step in self._steps.items()}
        accuracy = _ACCURACY * np.abs(self._scores(np.array([0.0, 1.0]))).max()
        todo = [(0.0, 1.0, 0)]
        while todo:
            begin, end, halvings = todo.pop()
            gradients = self._gradients((begin + end) / 2 + (end - begin) / 2 * _NODES)
            integrals = {name: (end - begin) / 2 * (_WEIGHTS @ gradient) for name, gradient in gradients.items()}
            before, after = self._scores(np.array([begin, end]))
            missing = after - before - sum(integrals[name] @ step for name, step in self._steps.items())
            if abs(missing) > accuracy and halvings < _MOST_HALVINGS:
                middle = (begin + end) / 2
                todo += [(begin, middle, halvings + 1), (middle, end, halvings + 1)]
                continue
            for name, integral in integrals.items():
                found[name] += integral
        return np.asarray(np.sum([fed @ found[name] for name, fed in self._fed.items()], axis=0) + self._direct)

    def _row(self, source: str, rows: Mapping[str, Row]) -> Row:
        """Returns the ids and the values that an input layer hands on."""
        ids, values = rows[source]
        if self._layers[source]["scaling"] == "l2":
            values = values / (np.linalg.norm(values) or 1.0)
        return ids, values

    def _forward(self, at: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """Returns the sums and the activations of the hidden layers, [places, units]."""
        sums: dict[str, Array] = {}
        values: dict[str, Array] = {}
        for name, units in self._units.items():
            layer = self._layers[name]
            if layer["kind"] == "merge":
                values[name] = merged(layer["function"], [values[source] for source in layer["sources"]])
                continue
            z = np.zeros((len(at), units)) + self._constant[name]
            if name in self._steps:
                z += at[:, None] * self._steps[name]
            for source, weight in self._links[name]:
                z += values[source] @ weight.T
            sums[name], values[name] = z, activated(layer, self._normalised(name, z))
        return sums, values

    def _normalised(self, name: str, z: Array) -> Array:
        """Returns what the activation of a layer takes for its sums."""
        if name not in self._norms:
            return z
        scale, bias, epsilon = self._norms[name]
        return np.asarray(scale * _centred(z, epsilon)[0] + bias)

    def _lengths(self, values: Array) -> Array:
        """Returns what cosine logits divide the hidden vectors by, [places, 1]."""
        own = np.maximum(np.linalg.norm(values, axis=1, keepdims=True), np.finfo(float).tiny)
        return own if self._length is None else np.full_like(own, self._length)

    def _scores(self, at: Array) -> Array:
        """Returns the scores without the bias of the item, [places]."""
        values, scores = self._forward(at)[1], np.zeros(len(at))
        for source, weight in self._ends:
            length = self._lengths(values[source])[:, 0] if self._cosine else 1.0
            scores += values[source] @ weight / length
        return scores

    def _gradients(self, at: Array) -> dict[str, Array]:
        """Returns the gradients of the scores by the sums of the layers that the first input feeds, [places, units]."""
        sums, values = self._forward(at)
        back = {name: np.zeros_like(value) for name, value in values.items()}
        for source, weight in self._ends:
            if not self._cosine:
                back[source] += weight
                continue
            length = self._lengths(values[source])
            unit = values[source] / length
            across = weight if self._length is not None else weight - unit * (unit @ weight)[:, None]
            back[source] += across / length
        for name in reversed(self._units):
            layer = self._layers[name]
            if layer["kind"] == "merge":
                of = [values[source] for source in layer["sources"]]
                for source, g in zip(layer["sources"], merged_back(layer["function"], of, back[name]), strict=True):
                    back[source] += g
                continue
            back[name] = activated_back(layer, self._normalised(name, sums[name]), back[name])
            if name in self._norms:
                scale, _, epsilon = self._norms[name]
                normal, deviation = _centred(sums[name], epsilon)
                g = scale * back[name]
                across = (g * normal).mean(axis=1, keepdims=True)
                back[name] = (g - g.mean(axis=1, keepdims=True) - normal * across) / deviation
            for source, weight in self._links[name]:
                back[source] += back[name] @ weight
        return {name: back[name] for name in self._fed}


def _centred(z: Array, epsilon: float) -> tuple[Array, Array]:
    """Returns rows less their means, divided by their deviations, and the deviations."""
    deviation = np.sqrt(z.var(axis=1, keepdims=True) + epsilon)
    return (z - z.mean(axis=1, keepdims=True)) / deviation, deviation


def of_network(model: Weights, rows: Mapping[str, Row], item: int) -> Array:
    """Returns the parts of the stored items of the first row in a score of a network, less that of an empty row."""
    return _Path(model, rows, item).parts()


def of_factors(model: Weights, row: Row, item: int) -> Array:
    """Returns the parts of the stored items of a row in a score of factors, without the bias of the item."""
    definition, factors = model._definition, model.tensor("factors")
    ids, values = row
    seen, wanted = factors[ids].astype(float), factors[item].astype(float)
    ridge, exponent = definition["regularization"], definition["nu"]
    if definition["values"] == "ratings":  # the bias of the row is a further unknown
        seen, wanted = np.hstack([seen, np.ones((len(ids), 1))]), np.append(wanted, 1)
        weights, targets = np.ones(len(ids)), values - model.tensor("bias")[ids]
        normal, pairs = np.zeros((len(wanted), len(wanted))), 0.0
    else:
        weights, targets = definition["alpha"] * values, np.ones(len(ids))
        normal = definition["unobserved_weight"] * np.diag(model.tensor("squares").ravel().astype(float))
        pairs = definition["unobserved_weight"] * definition["items"]
    normal += (weights[:, None] * seen).T @ seen + ridge * (len(ids) + pairs) ** exponent * np.eye(len(wanted))
    return np.asarray(weights * targets * (seen @ np.linalg.solve(normal, wanted)))
