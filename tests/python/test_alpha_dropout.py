"""Alpha dropout of layers with ELU and SELU units."""

import numpy as np
import pytest

import dsstne


def network(activation="selu", **dropout):
    layers = [
        {"name": "input", "kind": "input", "scaling": "l2"},
        {"name": "h", "kind": "hidden", "size": 12, "activation": activation, **dropout},
        {"name": "g", "kind": "hidden", "size": 9, "activation": activation, **dropout},
        {"name": "output", "kind": "output"},
    ]
    return {"layers": layers}


OPTIONS = {"epochs": 2, "batch_size": 64, "learning_rate": 0.01, "seed": 3}


@pytest.mark.long
@pytest.mark.parametrize("activation", ["elu", "selu"])
@pytest.mark.parametrize("devices", ["cpu", "cpu:4"])
def test_gradients_are_those_of_the_loss(X, activation, devices):
    model = dsstne.fit(X, network=network(activation, alpha_dropout=0.2), **OPTIONS)
    assert model.check_gradients(X, devices=devices)["agrees"]


def test_it_differs_from_other_dropout_in_training_only(X):
    models = [dsstne.fit(X, network=network(**how), **OPTIONS) for how in ({"alpha_dropout": 0.3}, {"dropout": 0.3})]
    assert not np.array_equal(models[0].tensor("g.weight"), models[1].tensor("g.weight"))
    for name in models[0].tensors:
        models[1].set_tensor(name, models[0].tensor(name))
    assert np.array_equal(models[0].predict(X), models[1].predict(X))


@pytest.mark.parametrize("where", [{"devices": "cpu:4"}, {"devices": "cpu:3", "parallel": "data"}])
def test_several_devices_train_like_one(X, where):
    options = {**OPTIONS, "optimizer": "sgd"}
    one = dsstne.fit(X, network=network(alpha_dropout=0.2), **options)
    several = dsstne.fit(X, network=network(alpha_dropout=0.2), **options, **where)
    for name in one.tensors:
        assert several.tensor(name) == pytest.approx(one.tensor(name), abs=1e-4)


def test_a_file_of_dsstne_with_selu_has_it():
    layers = [
        {"Name": "In", "N": 60, "Sparse": True},
        {"Name": "H", "N": 8, "Activation": "SELU", "pDropout": 0.1},
        {"Name": "Out", "N": 60, "Sparse": True},
    ]
    hidden = dsstne.Network.from_dsstne({"Layers": layers}).definition["layers"][1]
    assert hidden["alpha_dropout"] == pytest.approx(0.1)
    assert "dropout" not in hidden
