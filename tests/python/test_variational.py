"""Variational layers: units that are drawn from normal distributions, with a divergence in the loss."""

import numpy as np
import pytest

import dsstne
from dsstne.errors import NotFiniteError

UNITS = 6


def network(kl=None, hidden="silu", dropout=0.0, **variational):
    layers = [
        {"name": "input", "kind": "input", "scaling": "l2"},
        {"name": "h", "kind": "hidden", "size": 10, "activation": hidden, "dropout": dropout},
        {"name": "z", "kind": "variational", "size": UNITS, "kl": kl or {}, **variational},
        {"name": "g", "kind": "hidden", "size": 10},
        {"name": "output", "kind": "output"},
    ]
    return {"layers": layers if hidden else [layer for layer in layers if layer["name"] != "h"]}


OPTIONS = {"epochs": 4, "batch_size": 64, "learning_rate": 0.01, "seed": 3}


def tensors(model):
    return {name: model.tensor(name) for name in model.tensors}


def heads(model, X):
    """Means and log-variances, [rows, units] each."""
    both = model.embed(X, "h") @ model.tensor("z.weight").T + model.tensor("z.bias").ravel()
    return both[:, :UNITS], both[:, UNITS:]


def test_the_layer_has_two_heads_and_predicts_the_means(X):
    model = dsstne.fit(X, network=network(), **OPTIONS)
    assert model.tensors["z.weight"] == (2 * UNITS, 10)
    assert model.tensors["z.bias"] == (2 * UNITS,)
    assert model.embed(X, "z").shape == (X.shape[0], UNITS)
    assert model.embed(X, "z") == pytest.approx(heads(model, X)[0], rel=1e-5, abs=1e-6)
    assert np.array_equal(model.predict(X), model.predict(X))


def test_without_other_hidden_layers_it_is_what_embed_computes(X):
    model = dsstne.fit(X, network=network(hidden=None), **OPTIONS)
    assert model.tensors["z.weight"] == (X.shape[1], 2 * UNITS)
    assert model.check_gradients(X)["agrees"]


def test_the_reported_loss_has_the_divergence(X):
    once = {"epochs": 1, "batch_size": 1000, "learning_rate": 1e-12}
    free = dsstne.fit(X, network=network({"weight": 0}), **once)
    model = dsstne.fit(X, network=network({"weight": 0.5}), **once)
    mean, log_variance = (head.astype(float) for head in heads(model, X))  # the weights have hardly moved
    divergence = (mean**2 + np.exp(log_variance) - 1 - log_variance).sum(axis=1).mean() / 2
    assert model.history[0]["loss"] - free.history[0]["loss"] == pytest.approx(0.5 * divergence, rel=1e-3)


def test_the_weight_of_the_divergence_may_rise(X):
    once = {"epochs": 1, "batch_size": 1000, "learning_rate": 1e-12}
    loss = [
        dsstne.fit(X, network=network(kl), **once).history[0]["loss"]
        for kl in (
            {"weight": 0},
            {"weight": 0.5},
            {"weight": 2, "schedule": {"kind": "constant", "warmup_steps": 4}},  # of which this is the first
        )
    ]
    assert loss[2] == loss[1] > loss[0]


@pytest.mark.long
@pytest.mark.parametrize("kl", [{"weight": 0.2}, {"weight": 3, "schedule": {"kind": "constant", "warmup_steps": 2}}])
@pytest.mark.parametrize("devices", ["cpu", "cpu:4"])
def test_gradients_are_those_of_the_loss(X, kl, devices):
    model = dsstne.fit(X, network=network(kl, dropout=0.3), **{**OPTIONS, "epochs": 1})
    assert model.check_gradients(X, devices=devices)["agrees"]


def test_the_noise_is_new_in_each_step_and_the_same_for_a_seed(X):
    one, same, other = (dsstne.fit(X, network=network(), **{**OPTIONS, "seed": seed}) for seed in (3, 3, 4))
    for name, value in tensors(one).items():
        assert np.array_equal(value, same.tensor(name))
    assert not np.array_equal(one.tensor("g.weight"), other.tensor("g.weight"))


def test_the_number_of_threads_changes_no_bit(X):
    one, four = (dsstne.fit(X, network=network(), **OPTIONS, threads=n) for n in (1, 4))
    for name, value in tensors(one).items():
        assert np.array_equal(value, four.tensor(name))


@pytest.mark.parametrize("where", [{"devices": "cpu:4"}, {"devices": "cpu:3", "parallel": "data"}])
@pytest.mark.parametrize("hidden", ["gelu", None])
def test_several_devices_train_like_one(X, where, hidden):
    one = dsstne.fit(X, network=network({"weight": 0.3}, hidden), **OPTIONS, optimizer="sgd")
    several = dsstne.fit(X, network=network({"weight": 0.3}, hidden), **OPTIONS, optimizer="sgd", **where)
    assert [record["loss"] for record in several.history] == pytest.approx([r["loss"] for r in one.history], rel=1e-4)
    for name, value in tensors(one).items():
        assert several.tensor(name) == pytest.approx(value, abs=1e-4)
    assert np.array_equal(several.predict(X), several.predict(X, devices="cpu:2"))


def test_a_large_divergence_makes_the_units_standard_normal(X):
    model = dsstne.fit(X, network=network({"weight": 100}), **{**OPTIONS, "epochs": 60})
    mean, log_variance = heads(model, X)
    assert np.abs(mean).max() < 0.1
    assert np.abs(log_variance).max() < 0.2


def test_a_layer_saves_and_locks_like_others(X, tmp_path):
    model = dsstne.fit(X, network=network({"weight": 0.2}), **OPTIONS, locked=["z"])
    assert np.array_equal(
        model.tensor("z.weight"), dsstne.fit(X, network=network(), **{**OPTIONS, "epochs": 0}).tensor("z.weight")
    )
    model.save(tmp_path / "model.dsstne")
    loaded = dsstne.load(tmp_path / "model.dsstne")
    assert loaded.network == model.network
    assert loaded.network["layers"][2]["kl"]["weight"] == pytest.approx(0.2)
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_the_plan_shows_the_layer(X):
    model = dsstne.fit(X, network=network({"weight": 0.25}), epochs=0)
    with dsstne.Trainer(model, X) as trainer:
        operations = trainer.plan()["operations"]
    assert operations.index("Sample z") < operations.index("SampleBackward z, divergence weight 0.25")


def test_a_log_variance_out_of_bounds_is_an_error(X):
    model = dsstne.fit(X, network=network(initializer={"bias": 100}), epochs=0)
    with pytest.raises(NotFiniteError, match="z"), dsstne.Trainer(model, X) as trainer:
        trainer.run(steps=1)
    assert all(np.isfinite(value).all() for value in tensors(model).values())
