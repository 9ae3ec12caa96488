"""Batch normalisation of hidden layers."""

import numpy as np
import pytest
import scipy.sparse

import dsstne


def network(batch_norm=True, activation="tanh", **keys):
    hidden = {"name": "h", "kind": "hidden", "size": 12, "activation": activation, "batch_norm": batch_norm, **keys}
    return {
        "layers": [{"name": "input", "kind": "input"}, hidden, {"name": "output", "kind": "output"}],
        "loss": "sigmoid",
    }


OPTIONS = {"epochs": 4, "batch_size": 64, "learning_rate": 0.02}
PLACES = [{}, {"devices": "cpu:4", "parallel": "model"}, {"devices": "cpu:3", "parallel": "data"}]


def embedded(model, X):
    """What the formula of a prediction gives."""
    z = X @ model.tensor("h.weight").astype(float)
    mean, variance, scale, bias = (
        model.tensor(f"h.{name}").astype(float) for name in ("running_mean", "running_variance", "scale", "bias")
    )
    epsilon = model.network["layers"][1]["batch_norm"]["epsilon"]
    return np.tanh(scale * (z - mean) / np.sqrt(variance + epsilon) + bias)


@pytest.mark.parametrize("where", PLACES)
def test_predictions_use_the_running_moments(X, where):
    model = dsstne.fit(X, network=network({"epsilon": 0.001}), **OPTIONS, **where)
    assert model.history[-1]["loss"] < model.history[0]["loss"]
    np.testing.assert_allclose(model.embed(X), embedded(model, X), atol=2e-6)


def test_training_is_the_same_on_several_devices_but_for_rounding(X):
    models = [dsstne.fit(X, network=network(), **OPTIONS, **where) for where in PLACES]
    for model in models[1:]:
        for name in models[0].tensors:
            np.testing.assert_allclose(model.tensor(name), models[0].tensor(name), atol=2e-3)


def test_a_row_does_not_depend_on_the_others(X):
    model = dsstne.fit(X, network=network(), **OPTIONS)
    whole = model.embed(X)
    np.testing.assert_array_equal(model.embed(X[5:6]), whole[5:6])
    np.testing.assert_array_equal(model.embed(X, devices="cpu:4"), whole)
    np.testing.assert_array_equal(model.predict(X[7:9]), model.predict(X)[7:9])


@pytest.mark.long
def test_gradients_are_those_of_the_loss_over_the_batch(X):
    for keys in ({}, {"sparsity": {"mean": 0.3, "weight": 1}, "activation": "sigmoid"}, {"bias": False}):
        model = dsstne.fit(X, network=network({"epsilon": 0.1}, **keys), epochs=1)
        found = model.check_gradients(X)
        assert found["agrees"], found
        assert "h.scale" in found["tensors"]
        assert "h.running_mean" not in found["tensors"]


def test_the_running_moments_are_saved_and_copied(X, tmp_path):
    model = dsstne.fit(X, network=network(), **OPTIONS)
    model.save(tmp_path / "model.dsstne")
    again = dsstne.load(tmp_path / "model.dsstne")
    copied = model.copy()
    with dsstne.Trainer(copied, X, batch_size=64) as trainer:
        trainer.run(steps=2)
    assert (copied.tensor("h.running_mean") != model.tensor("h.running_mean")).all()
    for name in ("h.scale", "h.running_mean", "h.running_variance"):
        np.testing.assert_array_equal(again.tensor(name), model.tensor(name))
    larger = model.extended(X.shape[1] + 3)
    np.testing.assert_array_equal(larger.tensor("h.running_variance"), model.tensor("h.running_variance"))


def test_a_run_goes_on_from_a_checkpoint(X, tmp_path):
    whole = dsstne.fit(X, network=network(dropout=0.2), **OPTIONS)
    half = dsstne.fit(X, network=network(dropout=0.2), **{**OPTIONS, "epochs": 2}, checkpoint=tmp_path / "checkpoint")
    assert (half.tensor("h.running_mean") != whole.tensor("h.running_mean")).any()
    resumed = dsstne.fit(X, network=network(dropout=0.2), **OPTIONS, checkpoint=tmp_path / "checkpoint", resume=True)
    for name in whole.tensors:
        np.testing.assert_array_equal(resumed.tensor(name), whole.tensor(name))


def test_the_definition_has_the_defaults(X):
    assert dsstne.Network(network(True)).definition["layers"][1]["batch_norm"] == {"epsilon": 1e-5, "momentum": 0.1}
    assert "batch_norm" not in dsstne.Network(network(False)).definition["layers"][1]


def test_the_parts_of_a_score_add_up(X):
    layers = [
        {"name": "input", "kind": "input", "scaling": "l2"},
        {"name": "h", "kind": "hidden", "size": 8, "batch_norm": True},
        {"name": "g", "kind": "hidden", "size": 6, "batch_norm": True, "bias": False, "activation": "softplus"},
        {"name": "output", "kind": "output"},
    ]
    model = dsstne.fit(X, network={"layers": layers}, epochs=2)
    _, parts = model.explain(X[3:4], 2)
    empty = scipy.sparse.csr_array((1, X.shape[1]), dtype=np.float32)
    assert sum(parts) == pytest.approx(model.predict(X[3:4])[0, 2] - model.predict(empty)[0, 2], rel=1e-4, abs=1e-5)


CUDA = """
import numpy as np, scipy.sparse, dsstne
X = scipy.sparse.random_array((120, 60), density=0.1, format="csr", rng=0, dtype=np.float32)
layers = [
    {"name": "input", "kind": "input"},
    {"name": "h", "kind": "hidden", "size": 12, "batch_norm": True, "dropout": 0.1},
    {"name": "g", "kind": "hidden", "size": 6, "batch_norm": {"epsilon": 0.01}},
    {"name": "output", "kind": "output"},
]
def trained(**where):
    model = dsstne.Model({"layers": layers}, sizes={"input": 60, "output": 60})
    with dsstne.Trainer(model, X, optimizer="sgd", learning_rate=0.5, batch_size=50, precision="float32", **where) as t:
        t.run(steps=6)
    return model
cpu, two = trained(devices="cpu"), ["cuda:0", "cuda:1"]
for where in ({"devices": "cuda:0"}, {"devices": two, "parallel": "data"}, {"devices": two, "parallel": "model"}):
    model = trained(**where)
    for name in cpu.tensors:
        np.testing.assert_allclose(model.tensor(name), cpu.tensor(name), atol=1e-5, err_msg=f"{where} {name}")
    np.testing.assert_allclose(cpu.embed(X, devices=where["devices"]), cpu.embed(X, devices="cpu"), atol=1e-6)
"""


@pytest.mark.long
@pytest.mark.device
def test_cuda_devices_train_and_predict_as_the_cpu(device):
    device(CUDA)
