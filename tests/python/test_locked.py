"""Weights that training leaves as they are."""

import numpy as np
import pytest

import dsstne

NETWORK = {
    "layers": [
        {"name": "input", "kind": "input"},
        {"name": "hidden1", "kind": "hidden", "size": 8},
        {"name": "hidden2", "kind": "hidden", "size": 6, "bias": False},
        {"name": "output", "kind": "output"},
    ]
}


def weights(model):
    return {name: model.tensor(name) for name in model.tensors}


def changed(before, model):
    return {name for name, value in weights(model).items() if not np.array_equal(value, before[name])}


@pytest.mark.parametrize("where", [{}, {"devices": "cpu:4"}, {"devices": "cpu:3", "parallel": "data"}])
def test_fit_leaves_locked_weights_as_the_seed_has_made_them(X, where):
    before = weights(dsstne.fit(X, network=NETWORK, epochs=0, seed=4))
    model = dsstne.fit(X, network=NETWORK, epochs=2, seed=4, locked=["hidden1", "output.bias"], **where)
    assert changed(before, model) == {"hidden2.weight", "output.weight"}


def test_a_trainer_locks_and_the_next_one_frees(X):
    model = dsstne.fit(X, network=NETWORK, epochs=1)
    before = weights(model)
    with dsstne.Trainer(model, X, locked=("hidden1", "hidden2")) as trainer:
        plan = trainer.plan()
        trainer.run(epochs=2)
    assert changed(before, model) == {"output.weight", "output.bias"}
    states = {part["of"] for part in plan["parts"] if part["name"] == "optimizer state"}
    assert states == {"output.weight", "output.bias"}
    updating = ("Backward", "DenseBackward", "Scatter", "Replay", "Update")
    assert not [operation for operation in plan["operations"] if operation.startswith(updating)]
    with dsstne.Trainer(model, X) as trainer:
        trainer.run(epochs=2)
    assert changed(before, model) == set(before)


@pytest.mark.parametrize(
    ("locked", "error", "words"),
    [
        (["hiden1"], dsstne.NotFoundError, r'locked\[0\]: the network has no layer and no weight "hiden1".*"hidden1"'),
        (["output", "hidden2.bias"], dsstne.NotFoundError, r'locked\[1\]: .* "hidden2.bias"; did you mean "hidden1.b'),
        (["input"], dsstne.InvalidArgumentError, '"input" is an input layer, which has no weights of its own'),
        (["hidden1", "hidden2", "output"], dsstne.InvalidArgumentError, "nothing to train; leave out at least one"),
        ("hidden1", dsstne.InvalidArgumentError, "locked must be a list of names of layers or weights, not 'hidden1'"),
        ([1], dsstne.InvalidArgumentError, r"locked\[0\] must be a str, not 1"),
        (None, dsstne.InvalidArgumentError, "locked must be a list"),
    ],
)
def test_what_cannot_be_locked_is_an_error(X, locked, error, words):
    with pytest.raises(error, match=words):
        dsstne.fit(X, network=NETWORK, locked=locked)


def test_a_checkpoint_goes_on_with_what_it_has_locked(X, tmp_path):
    path = tmp_path / "run.checkpoint"
    options = {"network": NETWORK, "locked": ["hidden1"], "learning_rate": 0.01, "schedule": None}
    whole = dsstne.fit(X, epochs=3, **options)
    dsstne.fit(X, epochs=1, checkpoint=path, **options)
    resumed = dsstne.fit(X, epochs=3, checkpoint=path, resume=True, **options)
    assert not changed(weights(whole), resumed)
    with dsstne.Trainer.resume(path, X) as trainer, trainer.fork() as other:
        before = weights(other.model)
        other.run(epochs=1)
        assert changed(before, other.model) == {"hidden2.weight", "output.weight", "output.bias"}
    with pytest.raises(dsstne.InvalidArgumentError, match=r'locked: the checkpoint has \["hidden1"\], this'):
        dsstne.fit(X, epochs=4, checkpoint=path, resume=True, **{**options, "locked": []})


def test_partial_fit_locks_and_begins_anew_when_other_weights_are_locked(X):
    recommender = dsstne.Recommender("network", hidden=[8, 6], locked=["hidden1"], temperature=None)
    recommender.partial_fit(X)
    before = weights(recommender.model_)
    recommender.partial_fit(X)
    assert changed(before, recommender.model_) == {"hidden2.weight", "hidden2.bias", "output.weight", "output.bias"}
    recommender.set_params(locked=()).partial_fit(X)
    assert changed(before, recommender.model_) == set(before)
