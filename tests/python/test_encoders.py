"""Layers that lead to no output, and networks without outputs."""

import pickle

import numpy as np
import pytest

import dsstne

INPUT = {"name": "input", "kind": "input", "scaling": "l2"}
HIDDEN = {"name": "hidden1", "kind": "hidden", "size": 8}
SPUR = {"name": "spur", "kind": "hidden", "size": 3}
OUTPUT = {"name": "output", "kind": "output", "sources": ["hidden1"]}


def encoder_of(model):
    """A network that ends with the hidden layer of a model."""
    made = dsstne.Model({"layers": [INPUT, HIDDEN]}, sizes={"input": model.inputs["input"]})
    for name in made.tensors:
        made.set_tensor(name, model.tensor(name))
    return made


@pytest.fixture(scope="module")
def spurred(X):
    return dsstne.fit(X, network={"layers": [INPUT, HIDDEN, SPUR, OUTPUT]}, epochs=2, seed=2)


@pytest.fixture(scope="module")
def encoder(spurred):
    return encoder_of(spurred)


def test_a_layer_that_leads_to_no_output_is_computed_and_not_trained(X, spurred):
    plain = dsstne.fit(X, network={"layers": [INPUT, HIDDEN, OUTPUT]}, epochs=0)
    fresh = dsstne.fit(X, network={"layers": [INPUT, HIDDEN, SPUR, OUTPUT]}, epochs=0, seed=2)
    assert np.array_equal(spurred.tensor("spur.weight"), fresh.tensor("spur.weight"))
    assert not np.array_equal(spurred.tensor("hidden1.weight"), fresh.tensor("hidden1.weight"))
    values = spurred.embed(X, "spur")
    hidden = spurred.embed(X, "hidden1")
    expected = np.tanh(hidden @ spurred.tensor("spur.weight").T + spurred.tensor("spur.bias"))
    assert np.allclose(values, expected, atol=1e-6)
    assert not [text for text in spurred.plan(X, k=5)["operations"] if "spur" in text]
    assert [op.split()[0] for op in plain.plan(X, k=5)["operations"]] == [
        op.split()[0] for op in spurred.plan(X, k=5)["operations"]
    ]
    ids, scores = spurred.recommend(X, k=5)
    assert ids.shape == scores.shape == (X.shape[0], 5)


def test_such_a_layer_changes_neither_explanations_nor_blends(X, spurred):
    plain = dsstne.Model({"layers": [INPUT, HIDDEN, OUTPUT]}, sizes=spurred.inputs | spurred.outputs)
    for name in plain.tensors:
        plain.set_tensor(name, spurred.tensor(name))
    ids, parts = spurred.explain(X[:1], 5)
    same_ids, same_parts = plain.explain(X[:1], 5)
    assert np.array_equal(ids, same_ids)
    assert np.array_equal(parts, same_parts)
    blends = [dsstne.blend([model, dsstne.popularity(X)], weights=[0.7, 0.3]) for model in (spurred, plain)]
    assert np.array_equal(blends[0].predict(X), blends[1].predict(X))


def test_an_encoder_gives_the_values_of_its_layers(X, spurred, encoder):
    expected = spurred.embed(X, "hidden1")
    assert encoder.outputs == {}
    assert np.array_equal(encoder.embed(X), expected)
    assert np.array_equal(encoder.predict(X, "hidden1", rows=[3, 1], devices="cpu:3"), expected[[3, 1]])
    assert np.array_equal(encoder.similar_users([0], X, k=3)[0], spurred.similar_users([0], X, layer="hidden1", k=3)[0])
    assert not encoder.same_items
    neighbors = [model.neighbors([4], tensor="hidden1.weight", k=3, items=[2, 7, 9]) for model in (encoder, spurred)]
    assert np.array_equal(neighbors[0][0], neighbors[1][0])


def test_an_encoder_is_saved_copied_and_shown(X, encoder, tmp_path):
    expected = encoder.embed(X)
    encoder.save(tmp_path / "encoder.dsstne")
    for other in (dsstne.load(tmp_path / "encoder.dsstne"), encoder.copy(), pickle.loads(pickle.dumps(encoder))):
        assert np.array_equal(other.embed(X), expected)
    assert "hidden1" in str(encoder)
    assert "items" not in str(encoder)


def test_what_an_encoder_cannot_do_says_so(X, encoder):
    for call in (
        lambda: encoder.recommend(X),
        lambda: encoder.predict(X),
        lambda: encoder.plan(X),
        lambda: encoder.scores(X, [1]),
        lambda: encoder.predictor(),
        lambda: encoder.similar_items([1]),
        lambda: dsstne.evaluate(encoder, X, X),
        lambda: dsstne.beyond_accuracy(encoder, X),
        lambda: encoder.output_units,
    ):
        with pytest.raises(dsstne.InvalidArgumentError, match="the model has no output layer"):
            call()
    with pytest.raises(dsstne.NotFoundError, match="no output layer 'hidden1'"):
        encoder.recommend(X, layer="hidden1")
    with pytest.raises(dsstne.InvalidArgumentError, match="the model has no output layer"):
        encoder.items = [str(n) for n in range(8)]


def test_there_is_nothing_to_train_in_an_encoder(X, encoder):
    with pytest.raises(dsstne.InvalidArgumentError, match="no output layer, so there is nothing to train"):
        dsstne.Trainer(encoder, X)
    with pytest.raises(dsstne.InvalidArgumentError, match="no output layer, so there is nothing to train"):
        dsstne.fit(X, network={"layers": [INPUT, HIDDEN]})
    with pytest.raises(dsstne.InvalidArgumentError, match="loss is given, but the network has no output layer"):
        dsstne.Model({"layers": [INPUT, HIDDEN], "loss": "softmax"}, sizes={"input": 9})


def test_a_network_file_of_dsstne_may_end_with_a_hidden_layer():
    network = dsstne.Network.from_dsstne(
        {
            "ErrorFunction": "L2Hinge",
            "Layers": [
                {"Name": "Words", "N": 20, "DataSet": "words", "Sparse": True},
                {"Name": "Vector", "Kind": "Hidden", "N": 8, "Activation": "Tanh"},
            ],
        }
    )
    assert [layer["kind"] for layer in network.definition["layers"]] == ["input", "hidden"]
    assert network.definition["loss"] == []
    assert dsstne.Model(network).embed(np.eye(2, 20, dtype=np.float32)).shape == (2, 8)
