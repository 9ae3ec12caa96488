"""Values after the activation of an output, beside formulas that are written out."""

import numpy as np
import pytest
import scipy.sparse
import scipy.special

import dsstne

X = scipy.sparse.random_array((30, 40), density=0.2, format="csr", rng=1, dtype=np.float32)


def network(loss, **output):
    layers = [
        {"name": "input", "kind": "input", "size": 40},
        {"name": "hidden", "kind": "hidden", "size": 8, "initializer": {"kind": "normal", "scale": 1}},
        {"name": "output", "kind": "output", "size": 40, "initializer": {"kind": "normal", "scale": 1}, **output},
    ]
    return dsstne.Model({"layers": layers, "loss": loss}, seed=3)


def softmax(z):
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


CASES = {
    "softmax": ("softmax", {}, softmax),
    "sigmoid": ("sigmoid", {}, sigmoid),
    "scaled marginal": ("scaled_marginal", {}, sigmoid),
    "squared": ("squared", {}, lambda z: z),
    "squared relu": ("squared", {"activation": "relu"}, lambda z: np.maximum(z, 0)),
    "absolute sigmoid": ("absolute", {"activation": "sigmoid"}, sigmoid),
    "hinge tanh": ("hinge", {"activation": "tanh"}, np.tanh),
    "l2 hinge elu": (
        "l2_hinge",
        {"activation": "elu", "alpha": 0.5},
        lambda z: np.where(z > 0, z, 0.5 * (np.exp(np.minimum(z, 0)) - 1)),
    ),
    "squared leaky": ("squared", {"activation": "leaky_relu", "slope": 0.2}, lambda z: np.where(z > 0, z, 0.2 * z)),
    "squared softplus": ("squared", {"activation": "softplus"}, lambda z: np.log1p(np.exp(z))),
    "squared softsign": ("squared", {"activation": "softsign"}, lambda z: z / (1 + np.abs(z))),
    "squared gelu": ("squared", {"activation": "gelu"}, lambda z: z * (1 + scipy.special.erf(z / np.sqrt(2))) / 2),
    "squared silu": ("squared", {"activation": "silu"}, lambda z: z * sigmoid(z)),
    "squared selu": (
        "squared",
        {"activation": "selu"},
        lambda z: 1.0507009873554805 * np.where(z > 0, z, 1.6732632423543773 * (np.exp(np.minimum(z, 0)) - 1)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_activation_is_that_of_the_loss_or_else_of_the_layer(case):
    loss, output, function = CASES[case]
    model = network(loss, **output)
    expected = function(model.predict(X).astype(np.float64))
    values = model.predict(X, activation=True)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-12)  # 8 units in the last place of float32
    np.testing.assert_array_equal(model.predict(X, rows=[7, 2], activation=True), values[[7, 2]])


def test_a_soft_max_of_some_items_is_that_over_all_items():
    model = network("softmax")
    values = model.predict(X, activation=True)
    np.testing.assert_array_equal(model.scores(X, [5, 0, 5], activation=True), values[:, [5, 0, 5]])
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-6)


def test_scores_beyond_the_range_of_exponentials_have_values():
    model = network("softmax")
    model.set_tensor("output.bias", np.where(np.arange(40) == 3, 1e4, -1e4))
    with np.errstate(all="raise"):
        values = model.predict(X, activation=True)
    np.testing.assert_array_equal(values, np.eye(40, dtype=np.float32)[[3] * 30])


def test_every_output_has_its_own_activation():
    layers = [
        {"name": "input", "kind": "input", "size": 40},
        {"name": "hidden", "kind": "hidden", "size": 8},
        {"name": "one", "kind": "output", "size": 40},
        {"name": "other", "kind": "output", "size": 13, "sources": ["hidden"]},
    ]
    loss = [{"layer": "one", "kind": "softmax"}, {"layer": "other", "kind": "sigmoid"}]
    model = dsstne.Model({"layers": layers, "loss": loss}, seed=3)
    first = softmax(model.predict(X, "one").astype(np.float64))
    np.testing.assert_allclose(model.predict(X, activation=True), first, rtol=1e-6)
    second = sigmoid(model.predict(X, "other").astype(np.float64))
    np.testing.assert_allclose(model.predict(X, "other", activation=True), second, rtol=1e-6)


def test_a_hidden_layer_has_the_same_values_with_and_without():
    model = network("softmax")
    np.testing.assert_array_equal(model.predict(X, "hidden", activation=True), model.predict(X, "hidden"))
    np.testing.assert_array_equal(model.embed(X, activation=True), model.embed(X))


def test_a_model_that_is_not_a_network_has_no_activation():
    model = dsstne.popularity(X)
    for call in (model.predict, lambda X, **options: model.scores(X, [1], **options)):
        with pytest.raises(dsstne.InvalidArgumentError, match="activation: .*'item_weights' have no activation"):
            call(X, activation=True)


def test_activation_is_true_or_false():
    with pytest.raises(dsstne.InvalidArgumentError, match="activation must be True or False, not 'sigmoid'"):
        network("softmax").predict(X, activation="sigmoid")
