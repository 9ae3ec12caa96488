"""A limit of the norm of the weights of each unit."""

import numpy as np
import pytest

import dsstne

LAYERS = [
    {"name": "in", "kind": "input"},
    {"name": "h", "kind": "hidden", "size": 8, "weight_norm": 0.5},
    {"name": "out", "kind": "output", "weight_norm": 0.3},
]
OPTIONS = {"optimizer": "adam", "learning_rate": 0.05, "batch_size": 16, "progress": False}


def network(loss):
    return {"layers": LAYERS, "loss": loss}


def longest(model, name, axis):
    return np.linalg.norm(model.tensor(name).astype(float), axis=axis).max()


@pytest.mark.parametrize(
    "loss", ["softmax", {"kind": "squared", "stored_only": True}, {"kind": "sigmoid", "negatives": 2}]
)
@pytest.mark.parametrize(
    "where", [{}, {"devices": "cpu:3", "parallel": "model"}, {"devices": "cpu:3", "parallel": "data"}]
)
def test_no_unit_is_longer_than_its_norm(X, loss, where):
    model = dsstne.fit(X, network=network(loss), epochs=3, **OPTIONS, **where)
    assert longest(model, "h.weight", 0) == pytest.approx(0.5, rel=1e-6)
    assert longest(model, "out.weight", 1) == pytest.approx(0.3, rel=1e-6)
    assert np.abs(model.tensor("h.bias")).max() > 0.05


def test_a_checkpoint_goes_on_with_the_norm(X, tmp_path):
    options = {**OPTIONS, "network": network("softmax")}
    whole = dsstne.fit(X, epochs=3, **options)
    path = tmp_path / "run.checkpoint"
    dsstne.fit(X, epochs=1, checkpoint=path, **options)
    resumed = dsstne.fit(X, epochs=3, checkpoint=path, resume=True, **options)
    for name in whole.tensors:
        np.testing.assert_array_equal(whole.tensor(name), resumed.tensor(name))


def test_a_saved_model_keeps_the_norm(X, tmp_path):
    model = dsstne.fit(X, network=network("softmax"), epochs=1, **OPTIONS)
    model.save(tmp_path / "model.dsstne")
    assert [layer.get("weight_norm") for layer in dsstne.load(tmp_path / "model.dsstne").network["layers"]] == [
        None,
        0.5,
        0.3,
    ]


def test_a_norm_that_is_none_is_an_error(X):
    layers = [LAYERS[0], {**LAYERS[1], "weight_norm": -1}, LAYERS[2]]
    with pytest.raises(
        dsstne.InvalidArgumentError, match=r"layers\[1\].weight_norm is -1; it must be a number of at least 0"
    ):
        dsstne.fit(X, network={"layers": layers}, **OPTIONS)
