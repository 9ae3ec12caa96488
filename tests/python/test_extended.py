"""Model.extended: a catalogue that has grown."""

import re

import numpy as np
import pytest
import scipy.sparse

import dsstne


def matrix(rows, items, seed=0):
    return scipy.sparse.random_array((rows, items), density=0.2, format="csr", rng=seed, dtype=np.float32)


@pytest.fixture(scope="module")
def model():
    model = dsstne.fit(matrix(60, 20), hidden=[8, 5], epochs=2, seed=1, progress=False)
    model.attributes["day"] = "1"
    return model


def test_old_items_keep_their_weights_and_new_ones_begin_as_the_initializer_says(model):
    larger = model.extended(26, seed=4)
    for name, shape in model.tensors.items():
        old, new = model.tensor(name), larger.tensor(name)
        if 20 in shape:
            np.testing.assert_array_equal(new[:20], old)
            assert new.shape[0] == 26
        else:
            np.testing.assert_array_equal(new, old)
    begin = dsstne.fit(matrix(60, 26), hidden=[8, 5], epochs=0, seed=4, progress=False)
    np.testing.assert_array_equal(larger.tensor("hidden1.weight")[20:], begin.tensor("hidden1.weight")[20:])
    assert not np.array_equal(larger.tensor("hidden1.weight"), model.extended(26, seed=5).tensor("hidden1.weight"))


def test_scores_of_old_items_stay(model):
    X = matrix(10, 20, 3)
    wide = scipy.sparse.csr_array((X.data, X.indices, X.indptr), shape=(10, 26))
    np.testing.assert_array_equal(model.extended(26).predict(wide)[:, :20], model.predict(X))


def test_training_goes_on_with_the_new_items(model):
    larger, X = model.extended(26), matrix(60, 26, 5)
    before = larger.predict(X)
    with dsstne.Trainer(larger, X, optimizer="adam") as trainer:
        trainer.run(epochs=3)
    assert not np.array_equal(larger.predict(X), before)
    assert larger.attributes == {"day": "1"}
    assert larger.history == model.history
    assert larger.same_items


def test_items_with_names_keep_their_weights_in_their_new_places():
    model = dsstne.fit(matrix(30, 4), hidden=[3], items=["a", "b", "c", "d"], epochs=1, progress=False)
    larger = model.extended(["e", "d", "c", "f", "a", "b"])
    assert larger.items.tolist() == ["e", "d", "c", "f", "a", "b"]
    for name in ("hidden1.weight", "output.bias"):
        np.testing.assert_array_equal(larger.tensor(name)[[4, 5, 2, 1]], model.tensor(name))


def test_users_may_become_more():
    layers = [
        {"name": "user", "kind": "input"},
        {"name": "factors", "kind": "hidden", "size": 3, "activation": "linear", "bias": False},
        {"name": "item", "kind": "output"},
    ]
    network = {"layers": layers, "loss": {"kind": "squared", "stored_only": True}}
    R = matrix(30, 12)
    model = dsstne.fit(scipy.sparse.eye_array(30, format="csr"), R, network=network, epochs=1, progress=False)
    larger = model.extended(40, layers="user")
    assert larger.tensors["factors.weight"] == (40, 3)
    np.testing.assert_array_equal(larger.tensor("factors.weight")[:30], model.tensor("factors.weight"))
    np.testing.assert_array_equal(larger.tensor("item.weight"), model.tensor("item.weight"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": 19}, "items must be at least 21, not 19"),
        ({"items": ["a"] * 3}, "items has 3 names, but the model has 20 items already"),
        ({"items": 30, "layers": "outptu"}, "layers: the model has no input or output layer 'outptu'; did you mean"),
        ({"items": 30, "layers": []}, "layers is empty; it must name at least one layer"),
        ({"items": list("abc"), "layers": "input"}, "items must be the number of columns of input"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_why(model, arguments, message):
    with pytest.raises(dsstne.InvalidArgumentError, match=re.escape(message)):
        model.extended(**arguments)


def test_names_must_not_get_lost():
    model = dsstne.fit(matrix(30, 4), hidden=[3], items=["a", "b", "c", "d"], epochs=1, progress=False)
    with pytest.raises(dsstne.InvalidArgumentError, match="items has 4 names, but the model has 4 items already"):
        model.extended(["d", "c", "b", "a"])
    with pytest.raises(dsstne.InvalidArgumentError, match="items has the name 'a' more than once"):
        model.extended(["a", "b", "c", "d", "a"])
    with pytest.raises(dsstne.InvalidArgumentError, match="lacks 1 of the model's items, such as 'c'"):
        model.extended(["a", "b", "d", "e", "f"])
    with pytest.raises(dsstne.InvalidArgumentError, match="pass the names of all"):
        model.extended(7)


def test_models_without_a_network_are_refused():
    with pytest.raises(dsstne.UnsupportedError, match="compute it again with all items"):
        dsstne.Model.from_item_weights(np.eye(3)).extended(4)
