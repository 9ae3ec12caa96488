"""The engine trains networks of DSSTNE as DSSTNE's formulas say: each weight after 20 steps, beside the oracle's.

The tolerance is a share of what the largest weight of a tensor has moved, and a little for weights that are rounded to
float32 in each step: 20 roundings of a weight below 1 add up to 20 / 2^25 = 6e-7 at most, and to about 1e-7 as a rule,
because they have both signs. The sums of a gradient have relative errors of a few 2^-24. The tests show both sides: a
change of the initial weights by such errors stays within half of the tolerance, and an error of 0.1 % in the gradient
of a single tensor is outside.
"""

import dataclasses
import math
from collections import Counter
from functools import cache

import dsstne_oracle as oracle
import numpy as np
import pytest
import scipy.sparse
from dsstne_networks import DATA, NETWORKS, ROWS, STEPS

import dsstne

SHARE, ABSOLUTE = 3e-5, 3e-7
every_network = pytest.mark.parametrize("name", NETWORKS)


def csr(data):
    """The stored entries of a data set, also those that are zeros."""
    rows, columns = np.nonzero(data.stored)
    return scipy.sparse.csr_array((np.float32(data.values[rows, columns]), (rows, columns)), shape=data.values.shape)


class Engine:
    """The engine's training of a network.

    Attributes:
        start, end: The parameters before and after it, in float64, by the keys of the oracle.
        loss: The mean loss of the last complete epoch.
    """

    def __init__(self, name):
        file, self.call = NETWORKS[name]
        self.network = oracle.Network(file)
        translated = dsstne.Network.from_dsstne(file)
        layers = {layer.name: layer.data for layer in self.network.layers.values() if layer.data}
        assert translated.datasets == layers
        model = dsstne.Model(
            self._ignoring_zeros(translated.definition),
            seed=3,
            sizes={n: DATA[d].values.shape[1] for n, d in layers.items()},
        )
        matrices = {
            kind: {n: csr(DATA[layers[n]]) for n in layers if self.network.layers[n].kind == kind}
            for kind in ("input", "output")
        }
        self.start = self._parameters(model)
        options = {"batch_size": self.call.batch, "locked": self.call.locked, "devices": "cpu", "precision": "float32"}
        with dsstne.Trainer(
            model,
            matrices["input"],
            matrices["output"],
            optimizer=self._optimizer(),
            **options,
            **self._training(translated),
        ) as trainer:
            trainer.run(steps=STEPS)
            self.loss = trainer.progress.epoch_loss
        self.end = self._parameters(model)

    def _ignoring_zeros(self, definition):
        """The definition with the attribute "ignore zero" of the data sets, of which a file says nothing."""
        for loss in definition["loss"]:
            if DATA[self.network.layers[loss["layer"]].data].ignore_zero:
                loss["stored_only"] = True
        return definition

    def _optimizer(self):
        call = self.call
        words = {
            "Momentum": {"momentum": call.mu},
            "Nesterov": {"momentum": call.mu},
            "RMSProp": {"decay_rate": call.mu},
            "AdaDelta": {"decay_rate": call.mu},
            "Adam": {"beta1": call.mu, "beta2": call.mu1},
        }
        return {
            "kind": call.mode.lower(),
            "learning_rate": call.alpha,
            "weight_decay": call.lambda_,
            "l1": call.lambda1,
            **words.get(call.mode, {}),
        }

    def _training(self, translated):
        if not self.call.alpha_interval:
            return translated.training
        steps = self.call.alpha_interval * math.ceil(ROWS / self.call.batch)
        return {
            **translated.training,
            "schedule": {"kind": "step", "steps": steps, "factor": self.call.alpha_multiplier},
        }

    def _parameters(self, model):
        found = {}
        for source, layer in self.network.pairs():
            several = len(self.network.layers[layer].sources) > 1
            weight = model.tensor(f"{layer}.weight.{source}" if several else f"{layer}.weight").astype(float)
            found[source, layer] = weight if self.network.layers[source].kind == "input" else weight.T
        for layer in self.network.layers.values():
            if layer.kind != "input" and not layer.function:
                found[layer.name] = model.tensor(f"{layer.name}.bias").astype(float)
            if layer.normalised:
                found[oracle.scale_of(layer.name)] = model.tensor(f"{layer.name}.scale").astype(float)
        assert len(found) == len([name for name in model.tensors if ".running_" not in name])
        return found


engine = cache(Engine)


def trained(name, network=None, call=None, start=None):
    """The oracle's parameters and loss, from the engine's initial weights; arguments replace those of the engine."""
    run = engine(name)
    return oracle.train(network or run.network, start or run.start, DATA, call or run.call, STEPS)


def excess(name, parameters):
    """By parameter, the largest difference from what the engine has trained, as a multiple of the tolerance."""
    start, end = engine(name).start, engine(name).end
    assert parameters.keys() == end.keys()
    tolerance = {key: SHARE * np.abs(end[key] - start[key]).max() + ABSOLUTE for key in end}
    return {key: np.abs(parameters[key] - end[key]).max() / tolerance[key] for key in end}


@pytest.mark.long
@every_network
def test_the_weights_are_those_of_the_oracle(name):
    parameters, _ = trained(name)
    assert max(excess(name, parameters).values()) < 1, excess(name, parameters)


@every_network
def test_the_loss_is_that_of_the_oracle(name):
    _, loss = trained(name)
    assert engine(name).loss == pytest.approx(loss, rel=1e-5)


@every_network
def test_the_initial_weights_are_those_of_the_file(name):
    run = engine(name)
    columns = {layer.name: layer.units or DATA[layer.data].values.shape[1] for layer in run.network.layers.values()}
    for key, value in run.start.items():
        if isinstance(key, str):
            layer = run.network.layers[oracle.owner(key)]
            begins = layer.bias if key == layer.name else 1
            np.testing.assert_array_equal(value, np.full(columns[layer.name], np.float32(begins)))
            continue
        assert value.shape == (columns[key[0]], columns[key[1]])
        kind, parameter = run.network.initial(key, *value.shape)
        if kind == "constant":
            np.testing.assert_array_equal(value, np.float32(parameter))
        elif kind == "length":
            np.testing.assert_allclose(np.linalg.norm(value, axis=0), parameter, rtol=1e-6)
            assert (value < 0).any()
            assert (value > 0).any()
        elif kind == "uniform":  # all of 30 numbers are below 0.8 of the range once in 800 times, 0.8^-30
            assert 0.8 * parameter < np.abs(value).max() <= np.float32(parameter)
        else:  # the estimate of a deviation deviates by 1 / sqrt(2 n) of it
            assert np.sqrt(np.mean(value**2)) == pytest.approx(parameter, rel=4 / np.sqrt(2 * value.size))


def learning(name):
    """The parameters that are not locked."""
    run = engine(name)
    return [key for key in run.end if oracle.owner(key) not in run.call.locked]


@pytest.mark.long
@every_network
def test_rounding_stays_within_half_of_the_tolerance(name):
    """It also shows that no value of the network is at a kink of a loss or of an activation, where rounding decides."""
    random, start = np.random.default_rng(1), engine(name).start
    for _ in range(3):
        rounded = {key: start[key] * (1 + random.uniform(-4, 4, start[key].shape) / 2**24) for key in learning(name)}
        found = excess(name, trained(name, start={**start, **rounded})[0])
        assert max(found.values()) < 0.5, found


@every_network
def test_all_weights_that_are_not_locked_move(name):
    run = engine(name)
    for key in run.end:
        moved = np.abs(run.end[key] - run.start[key]).max()
        assert moved > 0.03 if key in learning(name) else moved == 0, key


class Wrong(oracle.Network):
    """The network with 0.1 % too much in the gradient of one parameter."""

    def __init__(self, file, key):
        super().__init__(file)
        self.key = key

    def gradients(self, parameters, data):
        loss, found = super().gradients(parameters, data)
        found[self.key] = 1.001 * found[self.key]
        return loss, found


# The other optimizers scale the gradient, so that a constant factor has little effect.
PROPORTIONAL = [name for name, (_, call) in NETWORKS.items() if call.mode in ("SGD", "Momentum", "Nesterov")]


@pytest.mark.long
@pytest.mark.parametrize("name", PROPORTIONAL)
def test_a_thousandth_too_much_in_a_gradient_is_seen(name):
    file, _ = NETWORKS[name]
    for key in learning(name):
        assert excess(name, trained(name, network=Wrong(file, key))[0])[key] > 1, key


def smaller(value):
    """Copies of a JSON value, each with one of its fractions 5 % smaller, and the name of the fraction."""
    if not isinstance(value, (dict, list)):
        return [("", 0.95 * value)] if isinstance(value, float) else []
    copies = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if key not in ("Version", "WeightInit", "Denoising"):  # without effect on a step here
            for name, other in smaller(item):
                copy = value.copy()
                copy[key] = other
                copies.append((f"{key} {name}", copy))
    return copies


@every_network
def test_another_number_in_the_file_or_in_the_call_is_seen(name):
    """Each number counts, and is what the engine has taken."""
    file, call = NETWORKS[name]
    penalised = any(layer.penalty for layer in oracle.Network(file).layers.values())
    for number, other in smaller(file):
        if number.startswith("SparsenessPenalty") and not penalised:
            continue
        assert max(excess(name, trained(name, network=oracle.Network(other))[0]).values()) > 1, number
    defaults = {"alpha_multiplier": 1, "mu": 0, "mu1": 0, "lambda_": 0, "lambda1": 0}
    for number, other in smaller(dataclasses.asdict(call)):
        number = number.strip()
        if getattr(call, number) != defaults.get(number):
            assert max(excess(name, trained(name, call=oracle.Call(**other))[0]).values()) > 1, number
    wrong = dataclasses.replace(call, alpha=1.01 * call.alpha)
    assert max(excess(name, trained(name, call=wrong)[0]).values()) > 1, "the learning rate by 1 %"


@every_network
def test_the_gradients_of_the_oracle_are_those_of_its_loss(name):
    """A central difference in a random direction."""
    random = np.random.default_rng(2)
    network, (parameters, _) = engine(name).network, trained(name)
    if any(layer.cap for layer in network.layers.values()):
        pytest.skip("DeltaNorm changes gradients")
    _, gradients = network.gradients(parameters, DATA)
    for key, value in parameters.items():
        direction = random.standard_normal(value.shape)
        up, down = (
            network.gradients({**parameters, key: value + sign * 1e-6 * direction}, DATA)[0] for sign in (1, -1)
        )
        assert (up - down) / 2e-6 == pytest.approx((gradients[key] * direction).sum(), rel=1e-6, abs=1e-7), key


def options(name):
    """What a network uses: keys, words, kinds of data and shapes."""
    file, call = NETWORKS[name]
    network, keys = oracle.Network(file), oracle.lowered(file)
    layers = network.layers.values()
    inputs, hiddens, outputs = (
        [layer for layer in layers if layer.kind == kind] for kind in ("input", "hidden", "output")
    )
    yield from (f"key {key}" for key in keys)
    yield from {f"key of a layer {key}" for layer in keys["layers"] for key in layer}
    yield f"loss {network.loss}"
    yield f"mode {call.mode}"
    yield from (f"argument {f.name}" for f in dataclasses.fields(call) if getattr(call, f.name) != f.default)
    yield from {f"hidden {layer.activation}" for layer in hiddens}
    yield from {f"output {layer.activation}" for layer in outputs}
    yield from {f"loss {network.loss} of a soft-max" for layer in outputs if layer.activation == "softmax"}
    yield from {f"function {layer.function}" for layer in layers if layer.function}
    yield from {f"scheme {layer.scheme}" for layer in [*hiddens, *outputs]}
    for kind, members in (("input", inputs), ("target", outputs)):
        for data in (DATA[layer.data] for layer in members):
            yield f"{kind} {'boolean' if (data.values == data.stored).all() else 'analog'}"
            if data.ignore_zero:
                yield f"{kind} ignore zero"
    for word, members in (("inputs", inputs), ("hidden layers", hiddens), ("outputs", outputs)):
        if len(members) > 1:
            yield f"several {word}"
    yield from {f"several sources of a layer of kind {layer.kind}" for layer in layers if len(layer.sources) > 1}
    if keys["shuffleindices"]:
        yield "shuffled"


def test_every_option_is_used_by_two_networks():
    used = Counter(option for name in NETWORKS for option in set(options(name)))
    words = [f"hidden {word}" for word in oracle.ACTIVATIONS]
    words += [f"output {word}" for word in oracle.ACTIVATIONS]
    words += [f"loss {word}" for word in oracle.LOSSES] + [f"mode {word}" for word in oracle.OPTIMIZERS]
    assert {word: used[word] for word in {*words, *used} if used[word] < 2} == {}
