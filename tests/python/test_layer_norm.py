"""Layer normalisation of hidden layers."""

import numpy as np
import pytest
import scipy.sparse

import dsstne


def network(layer_norm=True, activation="tanh", **keys):
    hidden = {"name": "h", "kind": "hidden", "size": 12, "activation": activation, "layer_norm": layer_norm, **keys}
    return {
        "layers": [{"name": "input", "kind": "input"}, hidden, {"name": "output", "kind": "output"}],
        "loss": "sigmoid",
    }


OPTIONS = {"epochs": 4, "batch_size": 64, "learning_rate": 0.02}
PLACES = [{}, {"devices": "cpu:4", "parallel": "model"}, {"devices": "cpu:3", "parallel": "data"}]


@pytest.mark.parametrize("where", PLACES)
def test_the_values_are_those_of_the_formula(X, where):
    model = dsstne.fit(X, network=network({"epsilon": 0.001}), **OPTIONS, **where)
    assert model.history[-1]["loss"] < model.history[0]["loss"]
    assert list(model.tensors) == ["h.weight", "h.bias", "h.scale", "output.weight", "output.bias"]
    z = X @ model.tensor("h.weight").astype(float)
    xhat = (z - z.mean(axis=1, keepdims=True)) / np.sqrt(z.var(axis=1, keepdims=True) + 0.001)
    expected = np.tanh(model.tensor("h.scale") * xhat + model.tensor("h.bias"))
    np.testing.assert_allclose(model.embed(X), expected, atol=3e-6)


def test_several_devices_predict_the_same_bits_and_train_alike(X):
    models = [dsstne.fit(X, network=network(), **OPTIONS, **where) for where in PLACES]
    for model in models[1:]:
        for name in models[0].tensors:
            np.testing.assert_allclose(model.tensor(name), models[0].tensor(name), atol=2e-3)
    np.testing.assert_array_equal(models[0].embed(X, devices="cpu:4"), models[0].embed(X))
    np.testing.assert_array_equal(models[0].embed(X[5:6]), models[0].embed(X)[5:6])


@pytest.mark.long
def test_gradients_are_those_of_the_loss(X):
    for keys in (
        {},
        {"activation": "sigmoid", "sparsity": {"mean": 0.3, "weight": 1}},
        {"bias": False, "dropout": 0.2},
    ):
        model = dsstne.fit(X, network=network({"epsilon": 0.1}, **keys), epochs=1)
        found = model.check_gradients(X)
        assert found["agrees"], found
        assert "h.scale" in found["tensors"]


def test_a_locked_scale_stays(X):
    model = dsstne.fit(X, network=network(), epochs=0)
    with dsstne.Trainer(model, X, locked=["h.scale"]) as trainer:
        trainer.run(steps=3)
        assert "NormSums h" not in trainer.plan()["operations"]
    np.testing.assert_array_equal(model.tensor("h.scale"), np.ones(12))


def test_one_unit_and_empty_rows_are_the_bias(X):
    model = dsstne.fit(X, network={**network(), "layers": [
        {"name": "input", "kind": "input"},
        {"name": "h", "kind": "hidden", "size": 1, "layer_norm": True},
        {"name": "output", "kind": "output"},
    ]}, epochs=2)  # fmt: skip
    assert np.isfinite(model.history[-1]["loss"])
    np.testing.assert_allclose(model.embed(X), np.full((X.shape[0], 1), np.tanh(model.tensor("h.bias")[0])), rtol=1e-6)
    wide = dsstne.fit(X, network=network(), epochs=2)
    empty = scipy.sparse.csr_array((1, X.shape[1]), dtype=np.float32)
    np.testing.assert_allclose(wide.embed(empty)[0], np.tanh(wide.tensor("h.bias")), rtol=1e-5, atol=1e-7)


def test_the_parts_of_a_score_add_up(X):
    layers = [
        {"name": "input", "kind": "input"},
        {"name": "h", "kind": "hidden", "size": 8, "layer_norm": {"epsilon": 0.1}},
        {"name": "g", "kind": "hidden", "size": 6, "layer_norm": True, "activation": "softplus"},
        {"name": "output", "kind": "output"},
    ]
    model = dsstne.fit(X, network={"layers": layers}, epochs=2)
    _, parts = model.explain(X[3:4], 2)
    empty = scipy.sparse.csr_array((1, X.shape[1]), dtype=np.float32)
    assert sum(parts) == pytest.approx(model.predict(X[3:4])[0, 2] - model.predict(empty)[0, 2], rel=1e-3, abs=1e-4)
