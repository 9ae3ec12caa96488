"""DSSTNE's training in float64, formula by formula: what a network file, data sets and the arguments of a call mean.

Nothing here is taken from the engine. The formulas are those of DSSTNE's sources. A number such as (2.4) is a section
of the maintainers' notes on them. The oracle reads the keys that the tests use; any other key is an error.

Where DSSTNE computes something else than its own formulas promise, the formula counts:

- The gradient is that of the loss that is reported (2.3, 2.4). DSSTNE has another one for the hinge loss, for analog
  targets of some losses, for the rows of a soft-max that have no target, for the scaled marginal cross-entropy of a
  soft-max, and for outputs with ELU and SELU.
- The data-scaled marginal cross-entropy goes with a soft-max, too, where DSSTNE exits (2.3).
- The gradient with respect to the weights of an analog input uses the value of each entry (4.7).
- The gradient with respect to a shared weight is the sum over the layers that share it. DSSTNE divides it by their
  number (3.1).
- Soft-plus and soft-sign are computed; DSSTNE treats them as linear (2.1).
- Leaky ReLU has the slope 0.01 by default, not 1. SELU has the two constants of its authors (2.1).
- Xavier's range is that of Glorot and Bengio, not half of it. Constant is +Scale. SELU, the scheme, has the variance
  Scale^2 / n_in (4.1). CaffeXavier keeps DSSTNE's n_out.
  UnitBall gives the weights of each unit the length Scale; in DSSTNE they are uniform in 0 .. Scale.
- Adam's first step is number 1, not 2 (3.2).
- A layer has one bias, not one for each of its sources (1.2). That of a layer with BatchNormalization is its shift,
  which begins at 0: biases of weights have no effect there (4.2).
- Dropout would mask the gradient, too, and denoising would scale kept entries only (4.3, 4.4). Both draw at random, so
  neither is computed here: a file may have Denoising where no input is Sparse, so that it drops nothing.
- There is no divergence brake (3.3).

Where the two programs differ on purpose, the rules are those of this project (docs/training.md, docs/network.md):

- The optimizers add epsilon to the root, or below the roots of AdaDelta; DSSTNE bounds the squares from below.
- lambda1 is a proximal step after the update; DSSTNE adds lambda1 sgn(w) to the gradient (3.1).
- An item that is not stored has the target -1 with the hinge loss, which DSSTNE has for dense targets only.
"""

import math
from dataclasses import dataclass, field

import numpy as np

# --- Activations (2.1, kActivation.cu): the value of the sum z, and the derivative as a function of the value a, as in
# DSSTNE's backward kernels (2.2). `of` is the layer, which has the parameters.


def sigmoid(z, of):
    return 1 / (1 + np.exp(-z))


def sigmoid_derivative(a, of):
    return a * (1 - a)


def tanh(z, of):
    return np.tanh(z)


def tanh_derivative(a, of):
    return 1 - a**2


def linear(z, of):
    return z


def linear_derivative(a, of):
    return np.ones_like(a)


def relu(z, of):
    return np.maximum(0, z)


def relu_derivative(a, of):
    return np.where(a > 0, 1.0, 0.0)


def leaky_relu(z, of):
    """Maas et al., 2013."""
    return np.where(z > 0, z, of.slope * z)


def leaky_relu_derivative(a, of):
    return np.where(a > 0, 1.0, of.slope)


def elu(z, of):
    """Clevert et al., 2016."""
    return np.where(z > 0, z, of.alpha * (np.exp(z) - 1))


def elu_derivative(a, of):
    return np.where(a > 0, 1.0, a + of.alpha)


SELU_LAMBDA, SELU_ALPHA = 1.0507009873554805, 1.6732632423543773  # Klambauer et al., 2017


def selu(z, of):
    return SELU_LAMBDA * np.where(z > 0, z, SELU_ALPHA * (np.exp(z) - 1))


def selu_derivative(a, of):
    return np.where(a > 0, SELU_LAMBDA, a + SELU_LAMBDA * SELU_ALPHA)


def softplus(z, of):
    return np.log(1 + np.exp(z))


def softplus_derivative(a, of):
    """sigmoid(z) = e^z / (1 + e^z), and 1 + e^z = e^a."""
    return 1 - np.exp(-a)


def softsign(z, of):
    """Bergstra et al., 2009."""
    return z / (1 + np.abs(z))


def softsign_derivative(a, of):
    """1 / (1 + |z|)^2, and 1 - |a| = 1 / (1 + |z|)."""
    return (1 - np.abs(a)) ** 2


def softmax(z, of):
    exponential = np.exp(z - z.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


def softmax_back(a, delta):
    """The derivative of a loss with respect to z from that with respect to the values. DSSTNE leaves it out."""
    return a * (delta - (a * delta).sum(axis=1, keepdims=True))


def capped(delta, most):
    """The delta-norm cap (2.4): rows that are longer than it are scaled to it."""
    return delta * most / np.maximum(most, np.linalg.norm(delta, axis=1, keepdims=True))


def limited(weight, most):
    """The weight norm (3.1): vectors of units, which are columns, that are longer than it are scaled to it."""
    return weight * most / np.maximum(most, np.linalg.norm(weight, axis=0))


ACTIVATIONS = {
    "sigmoid": (sigmoid, sigmoid_derivative),
    "tanh": (tanh, tanh_derivative),
    "linear": (linear, linear_derivative),
    "relu": (relu, relu_derivative),
    "leaky relu": (leaky_relu, leaky_relu_derivative),
    "elu": (elu, elu_derivative),
    "selu": (selu, selu_derivative),
    "softplus": (softplus, softplus_derivative),
    "softsign": (softsign, softsign_derivative),
    "softmax": (softmax, None),
}
WORDS = {
    "rectifiedlinear": "relu",
    "leakyrectifiedlinear": "leaky relu",
    "lrelu": "leaky relu",
    "exponentiallinear": "elu",
    "scaledexponentiallinear": "selu",
}


# --- Losses (2.3, kLoss.cu). Each returns the loss of every item, and its derivative with respect to the sum z (2.4,
# kDelta.cu). `a` are the values of the output, `t` its targets, `derivative` is that of its activation at `a`, and
# `margin` has the numbers of the scaled marginal cross-entropy.


def l1(a, t, derivative, margin):
    return np.abs(a - t), np.sign(a - t) * derivative


def l2(a, t, derivative, margin):
    return (a - t) ** 2 / 2, (a - t) * derivative


def l2_hinge(a, t, derivative, margin):
    """No test has targets below 0: there DSSTNE compares a with |t|, and this project with t."""
    d = a - np.abs(t)
    d = np.where(t > 0, np.minimum(0, d), np.maximum(0, d))
    return d**2 / 2, d * derivative


def hinge(a, t, derivative, margin):
    t = np.where(t == 0, -1, t)
    return np.maximum(0, 1 - t * a), np.where(t * a < 1, -t, 0) * derivative


def cross_entropy(a, t, derivative, margin):
    return -(t * np.log(a) + (1 - t) * np.log(1 - a)), a - t


def multinomial_cross_entropy(a, t, derivative, margin):
    """CrossEntropy of a soft-max: each of the n ones of a row has the target 1 / n."""
    u = t / np.maximum(1, t.sum(axis=1, keepdims=True))
    return -u * np.log(a), np.where(u.any(axis=1, keepdims=True), a - u, 0)


def marginal_of_softmax(a, t, margin):
    """The scaled marginal cross-entropies of a soft-max with the targets t, in which zeros have no loss (2.3)."""
    t = np.where((t > 0) & (a < margin.onetarget), margin.onescale * t, 0)
    return -t * np.log(a), t.sum(axis=1, keepdims=True) * a - t


def scaled_marginal_cross_entropy(a, t, derivative, margin):
    one = (t > 0) & (a < margin.onetarget)
    zero = (t == 0) & (a > margin.zerotarget)
    loss = np.where(one, -margin.onescale * np.log(a), 0) + np.where(zero, -margin.zeroscale * np.log(1 - a), 0)
    return loss, np.where(one, margin.onescale * (a - 1), 0) + np.where(zero, margin.zeroscale * a, 0)


def data_scaled_marginal_cross_entropy(a, t, derivative, margin):
    """The scaled marginal cross-entropy with the ones weighted by their values."""
    loss, delta = scaled_marginal_cross_entropy(a, t, derivative, margin)
    return np.where(t > 0, t, 1) * loss, np.where(t > 0, t, 1) * delta


# The cross-entropies are those of a sigmoid, whose derivative cancels the denominators of theirs.
LOSSES = {
    "l1": l1,
    "l2": l2,
    "l2hinge": l2_hinge,
    "hinge": hinge,
    "crossentropy": cross_entropy,
    "scaledmarginalcrossentropy": scaled_marginal_cross_entropy,
    "datascaledmarginalcrossentropy": data_scaled_marginal_cross_entropy,
}


# --- Optimizers (3.2, kernels.cu). Each takes a weight or bias w, its gradient g with the weight decay in it, the
# learning rate r, the arguments of the call, the states of w, which are 0 at first, and the number n of the step,
# counted from 1. It returns the new w.


def sgd(w, g, r, call, state, n):
    return w - r * g


def momentum(w, g, r, call, state, n):
    v = state["v"] = call.mu * state.get("v", 0) - r * g
    return w + v


def nesterov(w, g, r, call, state, n):
    """Sutskever et al., 2013, in the form of DSSTNE: w is what they call the weights plus mu v."""
    before = state.get("v", 0)
    v = state["v"] = call.mu * before - r * g
    return w + v + call.mu * (v - before)


def adagrad(w, g, r, call, state, n):
    """Duchi et al., 2011."""
    s = state["s"] = state.get("s", 0) + g**2
    return w - r * g / (np.sqrt(s) + 1e-10)


def rmsprop(w, g, r, call, state, n):
    """Tieleman and Hinton, 2012."""
    s = state["s"] = call.mu * state.get("s", 0) + (1 - call.mu) * g**2
    return w - r * g / (np.sqrt(s) + 1e-8)


def adadelta(w, g, r, call, state, n):
    """Zeiler, 2012; the learning rate is 1."""
    s = state["s"] = call.mu * state.get("s", 0) + (1 - call.mu) * g**2
    u = g * np.sqrt(state.get("v", 0) + 1e-6) / np.sqrt(s + 1e-6)
    state["v"] = call.mu * state.get("v", 0) + (1 - call.mu) * u**2
    return w - r * u


def adam(w, g, r, call, state, n):
    """Kingma and Ba, 2015; mu and mu1 are their beta1 and beta2."""
    m = state["m"] = call.mu * state.get("m", 0) + (1 - call.mu) * g
    s = state["s"] = call.mu1 * state.get("s", 0) + (1 - call.mu1) * g**2
    return w - r * m / (1 - call.mu**n) / (np.sqrt(s / (1 - call.mu1**n)) + 1e-8)


OPTIMIZERS = {
    "SGD": sgd,
    "Momentum": momentum,
    "Nesterov": nesterov,
    "AdaGrad": adagrad,
    "RMSProp": rmsprop,
    "AdaDelta": adadelta,
    "Adam": adam,
}


@dataclass(frozen=True)
class Call:
    """The arguments of DSSTNE's calls: NNNetwork::Train, SetBatch, LockWeights, and two of the encoder's file (3.3).

    Attributes:
        mode: A key of OPTIMIZERS.
        alpha: Learning rate.
        lambda_, lambda1: Factors of the penalties w^2 / 2 and |w| of each weight.
        mu, mu1: Parameters of the optimizer.
        batch: Rows of a step.
        alpha_interval: The number of epochs after which the learning rate is multiplied by alpha_multiplier; 0 = never.
        alpha_multiplier: The factor of the learning rate.
        locked: Layers whose weights and biases stay as they are.
    """

    mode: str = "SGD"
    alpha: float = 1.0
    lambda_: float = 0.0
    lambda1: float = 0.0
    mu: float = 0.0
    mu1: float = 0.0
    batch: int = 8
    alpha_interval: int = 0
    alpha_multiplier: float = 1.0
    locked: tuple[str, ...] = ()

    def rate(self, decay, step, epoch):
        """The learning rate of a step; both numbers count from 0 (3.3)."""
        rate = self.alpha / (1 + decay * step)
        return rate * self.alpha_multiplier ** (epoch // self.alpha_interval) if self.alpha_interval else rate


@dataclass(frozen=True)
class DataSet:
    """Rows of a data set (5.1).

    Attributes:
        values: float64 [rows, columns]; a boolean data set has ones where something is stored.
        stored: Where something is stored, which may be a zero.
        ignore_zero: The attribute "ignore zero" of a sparse target: what is not stored has no loss.
    """

    values: np.ndarray
    stored: np.ndarray
    ignore_zero: bool = False

    def __getitem__(self, rows):
        return DataSet(self.values[rows], self.stored[rows], self.ignore_zero)


@dataclass(frozen=True)
class Margin:
    """The key ScaledMarginalCrossEntropy or DataScaledMarginalCrossEntropy (1.1)."""

    onetarget: float = 0.9
    zerotarget: float = 0.1
    onescale: float = 1.0
    zeroscale: float = 1.0


@dataclass(frozen=True)
class Layer:
    """A layer of the file (1.2).

    Attributes:
        units: None for "auto".
        penalty: p and beta of the sparseness penalty, if it has one.
        shared: For each source of which the weight is shared: the pair of layers that own it, and whether it is
            transposed.
    """

    name: str
    kind: str
    units: int | None
    data: str | None = None
    sources: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    function: str | None = None  # of a pooling layer, which has no weights
    activation: str = "sigmoid"
    slope: float = 0.01
    alpha: float = 1.0
    scheme: str = "xavier"
    scale: float = 1.0
    bias: float = 0.0
    shared: dict[str, tuple[tuple[str, str], bool]] = field(default_factory=dict)
    penalty: tuple[float, float] | None = None
    normalised: bool = False  # BatchNormalization
    cap: float = 0.0  # DeltaNorm
    norm: float = 0.0  # WeightNorm


EPSILON = 1e-5  # CUDNN_BN_MIN_EPSILON


def normalise(z):
    """Batch normalisation (4.2; Ioffe and Szegedy, 2015) without scale and shift, and what it divides by."""
    deviation = np.sqrt(z.var(axis=0) + EPSILON)
    return (z - z.mean(axis=0)) / deviation, deviation


def denormalise(delta, normal, deviation):
    """The derivative of a loss with respect to z from that with respect to what normalise has made of it."""
    return (delta - delta.mean(axis=0) - normal * (delta * normal).mean(axis=0)) / deviation


def penalty(mean, p, beta):
    """The sparseness penalty (4.6) of the means of units over a batch, and its derivative by them."""
    mean = np.clip(mean, 1e-6, 1 - 1e-6)
    divergence = p * np.log(p / mean) + (1 - p) * np.log((1 - p) / (1 - mean))
    return beta * divergence.sum(), beta * ((1 - p) / (1 - mean) - p / mean)


def lowered(value):
    """A JSON value with the keys of all its objects in lower case."""
    if isinstance(value, dict):
        return {key.lower(): lowered(item) for key, item in value.items()}
    return [lowered(item) for item in value] if isinstance(value, list) else value


def pool(function, values):
    """The values of a pooling layer for those of its sources (4.8): the maximum, or products of the first one."""
    if function == "maxout":
        return np.max(values, axis=0)
    lengths = [np.linalg.norm(v, axis=1, keepdims=True) if function == "cosine" else 1.0 for v in values]
    first, *others = (v / length for v, length in zip(values, lengths, strict=True))
    return np.stack([(first * other).sum(axis=1) for other in others], axis=1)


def pool_back(function, values, delta):
    """The derivatives of a loss with respect to the sources from that with respect to what pool has made of them."""
    if function == "maxout":
        return [np.where(np.argmax(values, axis=0) == n, delta, 0) for n in range(len(values))]
    found = [np.zeros_like(v) for v in values]
    for n, g in enumerate(delta.T[:, :, None], start=1):
        a, b = values[0], values[n]
        if function == "dotproduct":
            found[0], found[n] = found[0] + g * b, found[n] + g * a
            continue
        size, other = (np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
        cosine = (a * b).sum(axis=1, keepdims=True) / (size * other)
        found[0] = found[0] + g * (b / (size * other) - cosine * a / size**2)
        found[n] = found[n] + g * (a / (size * other) - cosine * b / other**2)
    return found


def scale_of(layer):
    """The key of the scale of a normalised layer."""
    return f"{layer} scale"


def owner(key):
    """The layer of a parameter."""
    return key.removesuffix(" scale") if isinstance(key, str) else key[1]


def listed(value):
    return value if isinstance(value, list) else [value]


class Network:
    """A network file (1): `file` is the JSON object.

    A weight is known by its pair (source, layer) and has the shape [units of the source, units of the layer]; a bias is
    known by its layer and has the shape [units], and so is the scale of a normalised layer, see `scale_of`.
    """

    def __init__(self, file):
        keys = lowered(file)
        for word in ("version", "name", "kind", "shuffleindices"):  # they do not change a step
            keys.pop(word, None)
        self.decay = keys.pop("decay", 0.0)
        self.loss = keys.pop("errorfunction", "CrossEntropy").lower()
        margin = keys.pop("scaledmarginalcrossentropy", None) or keys.pop("datascaledmarginalcrossentropy", {})
        self.margin = Margin(**margin)
        parameters = self._parameters(keys, {})
        self.boost = {"one": 1.0, "zero": 1.0, **keys.pop("deltaboost", {})}
        self.denoising, self.penalty = keys.pop("denoising", None), keys.pop("sparsenesspenalty", {})
        entries, layers = listed(keys.pop("layers")), []
        for place, layer in enumerate(entries):
            default = "Input" if place == 0 else "Output" if place == len(entries) - 1 else "Hidden"
            layers.append(self._layer(layer, default, place, layers[-1].name if layers else None, parameters))
        self.layers = {layer.name: layer for layer in layers}
        if keys:
            raise KeyError(f"unknown keys of the file: {', '.join(keys)}")

    @staticmethod
    def _parameters(keys, defaults):
        """Parameters of activations, of the file or of a layer, which has those of the file as defaults."""
        own = {"slope": keys.pop("reluslope", keys.pop("slope", None)), "alpha": keys.pop("elualpha", None)}
        return {**defaults, **{name: value for name, value in own.items() if value is not None}}

    def _layer(self, keys, default_kind, place, before, parameters):
        kind = keys.pop("kind", default_kind).lower()
        name = keys.pop("name", f"{kind.capitalize()}{place}")
        units = keys.pop("n", "auto")
        made = {"units": None if units == "auto" else math.prod(listed(units)), "data": keys.pop("dataset", None)}
        if keys.pop("type", "FullyConnected").lower() == "pooling":
            made["function"] = keys.pop("function").lower()
        sparse, own = keys.pop("sparse", False), keys.pop("sparsenesspenalty", {})
        if sparse and kind == "input" and self.denoising:  # (4.4)
            raise ValueError(f"{name} is sparse, so {self.denoising} has an effect, which is not computed here")
        p, beta = (own.get(key) or self.penalty.get(key, 0.0) for key in ("p", "beta"))
        if sparse and kind == "hidden" and beta:
            made["penalty"] = (p, beta)
        if kind != "input":
            made["sources"] = tuple(listed(keys.pop("source", before)))
            made["skips"] = tuple(listed(keys.pop("skip", [])))
            word = keys.pop("activation", "Sigmoid").lower()
            made["activation"] = WORDS.get(word, word)
            made.update(self._parameters(keys, parameters))
            weights = keys.pop("weightinit", {})
            made["scheme"] = weights.get("scheme", "Xavier").lower()
            made["normalised"] = keys.pop("batchnormalization", False)
            made["cap"] = keys.pop("deltanorm", 0.0)
            made["norm"] = keys.pop("weightnorm", 0.0)
            made["scale"] = weights.get("scale", 1.0)
            made["bias"] = 0.0 if made["normalised"] else weights.get("bias", 0.0)
            made["shared"] = {
                share["inputlayer"]: (
                    (share["sourceinputlayer"], share["sourceoutputlayer"]),
                    share.get("transposed", False),
                )
                for share in listed(keys.pop("sharedweights", []))
            }
        if keys:
            raise KeyError(f"unknown keys of the layer {name}: {', '.join(keys)}")
        return Layer(name, kind, **made)

    def pairs(self):
        """The pairs (source, layer) that own a weight."""
        layers = [layer for layer in self.layers.values() if not layer.function]
        return [(s, layer.name) for layer in layers for s in layer.sources if s not in layer.shared]

    def weight(self, parameters, source, layer):
        """The weight that a layer multiplies the values of a source with."""
        if source in layer.shared:
            owner, transposed = layer.shared[source]
            return parameters[owner].T if transposed else parameters[owner]
        return parameters[source, layer.name]

    def initial(self, pair, n_in, n_out):
        """The distribution of an initial weight, and its parameter (4.1): the bound, the deviation or the value."""
        layer = self.layers[pair[1]]
        return {
            "xavier": ("uniform", layer.scale * math.sqrt(6 / (n_in + n_out))),  # Glorot and Bengio, 2010
            "unitball": ("length", layer.scale),  # of the weights of each unit
            "caffexavier": ("uniform", layer.scale * math.sqrt(3 / n_out)),
            "uniform": ("uniform", layer.scale),
            "gaussian": ("normal", layer.scale),
            "selu": ("normal", layer.scale / math.sqrt(n_in)),
            "constant": ("constant", layer.scale),
        }[layer.scheme]

    def ordered(self):
        """The layers, each one after its sources."""
        left, done = list(self.layers.values()), {}
        while left:
            layer = next(layer for layer in left if all(source in done for source in layer.sources + layer.skips))
            done[layer.name] = layer
            left.remove(layer)
        return list(done.values())

    def forward(self, parameters, data):
        """The values of all layers: a = f(b + the sum over the sources of their values times the weight + the skips).

        In a normalised layer a = f(b + scale * normalise(sum)); what normalise returns has the key
        (layer, "normalised").
        """
        values = {}
        for layer in self.ordered():
            if layer.kind == "input":
                values[layer.name] = data[layer.data].values
                continue
            if layer.function:
                z = pool(layer.function, [values[source] for source in layer.sources])
                is_output = layer.kind == "output"  # the others have no activation
                values[layer.name] = ACTIVATIONS[layer.activation][0](z, layer) if is_output else z
                continue
            z = sum(values[source] @ self.weight(parameters, source, layer) for source in layer.sources)
            z = z + sum(values[skip] for skip in layer.skips)
            if layer.normalised:
                values[layer.name, "normalised"] = normalise(z)
                z = parameters[scale_of(layer.name)] * values[layer.name, "normalised"][0]
            z = z + parameters[layer.name]
            values[layer.name] = ACTIVATIONS[layer.activation][0](z, layer)
        return values

    def output(self, layer, a, target):
        """The loss of an output, summed over rows and items, and its derivative with respect to the sums z."""
        if (self.loss, layer.activation) == ("crossentropy", "softmax"):
            loss, delta = multinomial_cross_entropy(a, target.values, None, None)
        elif layer.activation == "softmax" and self.loss.endswith("marginalcrossentropy"):
            t = target.values
            if self.loss == "scaledmarginalcrossentropy":  # each of the n ones of a row has the target 1 / n
                t = t / np.maximum(1, t.sum(axis=1, keepdims=True))
            loss, delta = marginal_of_softmax(a, t, self.margin)
        elif self.loss.endswith("crossentropy") and layer.activation != "sigmoid":
            raise ValueError(f"{self.loss} does not go with {layer.activation}")
        else:
            derivative = ACTIVATIONS[layer.activation][1](a, layer)
            loss, delta = LOSSES[self.loss](a, target.values, derivative, self.margin)
            boost = np.where(target.values != 0, self.boost["one"], self.boost["zero"])
            loss, delta = boost * loss, boost * delta  # DSSTNE's losses do not have it (2.4)
        counted = target.stored if target.ignore_zero else np.ones_like(target.stored)
        return (loss * counted).sum(), delta * counted

    def gradients(self, parameters, data):
        """The mean loss of a batch, and its gradient with respect to each parameter (2.4, 3.1)."""
        values = self.forward(parameters, data)
        rows = len(next(iter(values.values())))
        total, handed = 0.0, {}  # handed: the derivative of the loss with respect to the values of a hidden layer
        found = {key: np.zeros_like(value) for key, value in parameters.items()}
        for layer in reversed(self.ordered()):
            if layer.kind == "input":
                continue
            if layer.kind == "output":
                loss, delta = self.output(layer, values[layer.name], data[layer.data])
                total += loss
            else:
                delta = handed[layer.name]
                if layer.penalty:
                    loss, slope = penalty(values[layer.name].mean(axis=0), *layer.penalty)
                    total += rows * loss  # once for the batch
                    delta = delta + slope
                if layer.activation == "softmax":
                    delta = softmax_back(values[layer.name], delta)
                elif not layer.function:
                    delta = delta * ACTIVATIONS[layer.activation][1](values[layer.name], layer)
            if layer.cap:
                delta = capped(delta, layer.cap)
            if layer.function:
                of = [values[source] for source in layer.sources]
                for source, g in zip(layer.sources, pool_back(layer.function, of, delta), strict=True):
                    handed[source] = handed.get(source, 0) + g
                continue
            found[layer.name] = delta.sum(axis=0) / rows
            if layer.normalised:
                normal, deviation = values[layer.name, "normalised"]
                found[scale_of(layer.name)] = (delta * normal).sum(axis=0) / rows
                delta = denormalise(parameters[scale_of(layer.name)] * delta, normal, deviation)
            for source in layer.sources:
                product = values[source].T @ delta / rows
                if source in layer.shared:
                    owner, transposed = layer.shared[source]
                    found[owner] += product.T if transposed else product
                else:
                    found[source, layer.name] += product
                handed[source] = handed.get(source, 0) + delta @ self.weight(parameters, source, layer).T
            for skip in layer.skips:
                handed[skip] = handed.get(skip, 0) + delta
        return total / rows, found


def train(network, parameters, data, call, steps):
    """Trains in the order of the rows.

    Args:
        network: A Network.
        parameters: The initial weights and biases by pair and by layer.
        data: The data sets by name.
        call: A Call.
        steps: How many; an epoch ends with a shorter batch if the rows do not divide.

    Returns:
        The trained parameters, and the mean loss of the rows in the last complete epoch.
    """
    parameters, states = dict(parameters), {key: {} for key in parameters}
    rows = len(next(iter(data.values())).values)
    batches = math.ceil(rows / call.batch)
    losses = []
    for step in range(steps):
        epoch, place = divmod(step, batches)
        chosen = slice(place * call.batch, (place + 1) * call.batch)
        loss, gradients = network.gradients(parameters, {name: one[chosen] for name, one in data.items()})
        losses.append(loss * (min(rows, chosen.stop) - chosen.start))
        rate = call.rate(network.decay, step, epoch)
        for key, g in gradients.items():
            is_bias = isinstance(key, str)
            if owner(key) in call.locked:
                continue
            w = parameters[key]
            if not is_bias:  # biases are never regularised (3.1)
                g = g + call.lambda_ * w
            w = OPTIMIZERS[call.mode](w, g, rate, call, states[key], step + 1)
            if not is_bias:  # Duchi and Singer, 2009
                w = np.sign(w) * np.maximum(0, np.abs(w) - rate * call.lambda1)
                if most := network.layers[key[1]].norm:
                    w = limited(w, most)
            parameters[key] = w
    last = len(losses) // batches * batches
    return parameters, sum(losses[last - batches : last]) / rows
