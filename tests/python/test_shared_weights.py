"""Weights that several layers use, as they are or transposed."""

import numpy as np
import pytest

import dsstne

LAYERS = [
    {"name": "input", "kind": "input", "scaling": "l2"},
    {"name": "a", "kind": "hidden", "size": 9, "sources": ["input"]},
    {"name": "b", "kind": "hidden", "size": 9, "sources": ["input"], "activation": "sigmoid", "shared": "a.weight"},
    {"name": "code", "kind": "hidden", "size": 4, "sources": ["a"]},
    {"name": "back", "kind": "hidden", "size": 9, "shared": "code.weight"},
    {"name": "s", "kind": "hidden", "size": 9},
    {"name": "t", "kind": "hidden", "size": 9, "shared": {"weight": "s.weight", "transposed": True}},
    {
        "name": "output",
        "kind": "output",
        "sources": ["t", "b"],
        "shared": [{"source": "t", "weight": "a.weight"}],
    },
]
NETWORK = {"layers": LAYERS, "loss": "sigmoid"}
TRANSPOSED = {"back.weight": "code.weight", "t.weight": "s.weight"}
AS_IT_IS = {"b.weight": "a.weight", "output.weight.t": "a.weight"}
WAYS = [{"devices": "cpu"}, {"devices": "cpu:3", "parallel": "model"}, {"devices": "cpu:3", "parallel": "data"}]
OPTIONS = {"batch_size": 50, "learning_rate": 0.01, "seed": 3}


def bits(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


def separate(X):
    """The same network with a weight for each layer, whose values are those of the shared ones."""
    model = untrained(X)
    apart = [{key: value for key, value in layer.items() if key != "shared"} for layer in LAYERS]
    other = dsstne.fit(X, network={"layers": apart, "loss": "sigmoid"}, epochs=0, seed=3, progress=False)
    for name in other.tensors:
        if name in TRANSPOSED:
            other.set_tensor(name, model.tensor(TRANSPOSED[name]).T)
        else:
            other.set_tensor(name, model.tensor(AS_IT_IS.get(name, name)))
    return model, other


def untrained(X):
    return dsstne.fit(X, network=NETWORK, epochs=0, seed=3, progress=False)


def test_the_values_are_those_of_layers_with_equal_weights(X):
    model, other = separate(X)
    for layer in ("a", "b", "code", "back", "s", "t", "output"):
        np.testing.assert_array_equal(model.predict(X, layer), other.predict(X, layer))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("more", [{}, {"precision": "bfloat16"}])
def test_the_gradient_is_the_sum_over_the_layers(X, way, more):
    model, other = separate(X)
    changes = []
    for trained in (model, other):
        before = {name: trained.tensor(name).astype(float) for name in trained.tensors}
        options = {**OPTIONS, **way, **more, "learning_rate": 1, "optimizer": "sgd"}
        with dsstne.Trainer(trained, X, **options) as trainer:
            trainer.run(steps=1)
        changes.append({name: before[name] - trained.tensor(name) for name in trained.tensors})
    found, parts = changes
    for name, owner in AS_IT_IS.items():
        parts[owner] += parts.pop(name)
    for name, owner in TRANSPOSED.items():
        parts[owner] += parts.pop(name).T
    assert list(found) == list(parts)
    for name, gradient in parts.items():
        assert np.abs(gradient).max() > 1e-4, name
        np.testing.assert_allclose(found[name], gradient, rtol=0, atol=2e-6 * (10 if more else 1), err_msg=name)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_on_from_a_checkpoint_and_a_fork_with_the_same_bits(X, tmp_path, way):
    options = {**OPTIONS, **way, "optimizer": "adam"}
    whole = untrained(X)
    with dsstne.Trainer(whole, X, **options) as trainer:
        trainer.run(steps=9)
    with dsstne.Trainer(untrained(X), X, **options) as trainer:
        trainer.run(steps=5)
        trainer.save(tmp_path / "run")
        with trainer.fork() as fork:
            trainer.run(steps=4)
            fork.run(steps=4)
            assert bits(trainer.model) == bits(fork.model) == bits(whole)
    with dsstne.Trainer.resume(tmp_path / "run", X, **way) as resumed:
        resumed.run(steps=4)
        assert bits(resumed.model) == bits(whole)


def test_only_the_tensors_of_the_owners_are_in_files_and_copies(X, tmp_path):
    model = dsstne.fit(X, network=NETWORK, epochs=1, progress=False)
    owned = ["a.weight", "code.weight", "s.weight", "output.weight.b"]
    assert [name for name in model.tensors if ".weight" in name] == owned
    model.save(tmp_path / "model")
    with model.copy() as copied:
        for other in (dsstne.load(tmp_path / "model"), copied):
            assert bits(other) == bits(model)
            np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_locking_a_layer_locks_what_it_shares(X):
    model = untrained(X)
    before = bits(model)
    with dsstne.Trainer(model, X, locked=["t"], **OPTIONS) as trainer:
        trainer.run(steps=3)
    assert {name for name, value in bits(model).items() if value == before[name]} == {"s.weight", "t.bias"}


def test_the_norm_of_the_gradient_has_a_shared_weight_once(X):
    model, _ = separate(X)
    before = {name: model.tensor(name).astype(float) for name in model.tensors}
    options = {**OPTIONS, "learning_rate": 1, "optimizer": {"kind": "sgd", "clip_norm": 1e-3}}
    with dsstne.Trainer(model, X, **options) as trainer:
        trainer.run(steps=1)
    square = sum(((before[name] - model.tensor(name)) ** 2).sum() for name in model.tensors)
    assert np.sqrt(square) == pytest.approx(1e-3, rel=1e-2)
