"""A penalty on the mean of each hidden unit over a batch."""

import numpy as np
import pytest

import dsstne


def network(sparsity=None, activation="sigmoid"):
    hidden = {"name": "h", "kind": "hidden", "size": 12, "activation": activation}
    if sparsity is not None:
        hidden["sparsity"] = sparsity
    return {
        "layers": [{"name": "input", "kind": "input"}, hidden, {"name": "output", "kind": "output"}],
        "loss": "sigmoid",
    }


OPTIONS = {"epochs": 30, "batch_size": 64, "learning_rate": 0.02}


@pytest.mark.parametrize("where", [{}, {"devices": "cpu:4"}, {"devices": "cpu:3", "parallel": "data"}])
def test_units_are_off_for_most_rows(X, where):
    free = dsstne.fit(X, network=network(), **OPTIONS, **where)
    sparse = dsstne.fit(X, network=network({"mean": 0.05, "weight": 10}), **OPTIONS, **where)
    assert free.embed(X).mean() > 0.4
    assert sparse.embed(X).mean(axis=0) == pytest.approx(np.full(12, 0.05), abs=0.02)


def test_the_reported_loss_has_the_penalty(X):
    options = {"epochs": 1, "batch_size": 1000, "learning_rate": 1e-12}
    free = dsstne.fit(X, network=network(), **options)
    sparse = dsstne.fit(X, network=network({"mean": 0.1, "weight": 0.5}), **options)
    mean = free.embed(X).mean(axis=0).astype(float)  # the weights have hardly moved
    divergence = 0.1 * np.log(0.1 / mean) + 0.9 * np.log(0.9 / (1 - mean))
    penalty = sparse.history[0]["loss"] - free.history[0]["loss"]
    assert penalty == pytest.approx(0.5 * divergence.sum(), rel=1e-4)


def test_gradients_with_a_penalty_are_those_of_the_loss(X):
    model = dsstne.fit(X, network=network({"mean": 0.1, "weight": 2}), epochs=1)
    assert model.check_gradients(X)["agrees"]


def test_the_penalty_is_in_the_plan_and_the_definition(X):
    model = dsstne.fit(X, network=network({"mean": 0.25}), epochs=0)
    assert model.network["layers"][1]["sparsity"] == {"mean": 0.25, "weight": 1}
    with dsstne.Trainer(model, X) as trainer:
        operations = trainer.plan()["operations"]
    assert "Sparsity h, mean 0.25, weight 1" in operations
    assert operations.index("UnitSums h") < operations.index("Sparsity h, mean 0.25, weight 1")
    without = dsstne.fit(X, network=network({"mean": 0.25, "weight": 0}), epochs=0)
    assert "sparsity" not in without.network["layers"][1]


def test_units_beyond_the_ends_are_pushed_back(X):
    model = dsstne.fit(X, network=network({"mean": 0.1}, "relu"), **{**OPTIONS, "epochs": 3})
    assert np.isfinite(model.embed(X)).all()
    assert np.isfinite(model.history[-1]["loss"])


def test_the_sample_network_of_dsstne_learns_with_its_penalty(X):
    sample = {
        "Version": 0.7,
        "Kind": "FeedForward",
        "SparsenessPenalty": {"p": 0.5, "beta": 2.0},
        "ShuffleIndices": False,
        "Denoising": {"p": 0.2},
        "ScaledMarginalCrossEntropy": {"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 1.0, "zeroScale": 1.0},
        "Layers": [
            {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
            {"Name": "Hidden", "Kind": "Hidden", "Type": "FullyConnected", "N": 16, "Activation": "Sigmoid",
             "Sparse": True},
            {"Name": "Output", "Kind": "Output", "Type": "FullyConnected", "DataSet": "gl_output", "N": "auto",
             "Activation": "Sigmoid", "Sparse": True},
        ],
        "ErrorFunction": "ScaledMarginalCrossEntropy",
    }  # fmt: skip
    read = dsstne.Network.from_dsstne(sample)
    assert read.definition["layers"][1]["sparsity"] == {"mean": 0.5, "weight": 2}
    model = dsstne.fit(X, network=sample, **OPTIONS)
    losses = [record["loss"] for record in model.history]
    assert losses[-1] < 0.7 * losses[0]
    assert model.embed(X).mean(axis=0) == pytest.approx(np.full(16, 0.5), abs=0.1)
