"""Networks with several outputs: each can be ranked by its name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import dsstne

LAYERS = [
    {"name": "input", "kind": "input", "size": 40},
    {"name": "hidden", "kind": "hidden", "size": 8},
    {"name": "products", "kind": "output", "size": 40},
    {"name": "tags", "kind": "output", "size": 13, "sources": ["hidden"]},
]


@pytest.fixture
def X() -> scipy.sparse.csr_array:
    return scipy.sparse.random_array((30, 40), density=0.2, format="csr", rng=1, dtype=np.float32)


@pytest.fixture
def model() -> dsstne.Model:
    return dsstne.Model({"layers": LAYERS}, seed=3)


def best(scores: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("layer", ["products", "tags"])
def test_recommend_ranks_the_output_layer_that_is_named(
    model: dsstne.Model, X: scipy.sparse.csr_array, layer: str
) -> None:
    scores = model.predict(X, layer)
    ids, found = model.recommend(X, k=5, layer=layer, exclude_seen=False)
    np.testing.assert_array_equal(ids, best(scores, 5))
    np.testing.assert_array_equal(found, np.take_along_axis(scores, ids, axis=1))


def test_items_are_chosen_among_the_units_of_the_named_output(model: dsstne.Model, X: scipy.sparse.csr_array) -> None:
    ids, _ = model.recommend(X, k=13, layer="tags", filter_items=[12])
    assert set(ids[:, :12].ravel()) == set(range(12))
    assert (ids[:, 12] == -1).all()
    with pytest.raises(dsstne.InvalidArgumentError, match="13"):
        model.recommend(X, k=14, layer="tags")
    with pytest.raises(dsstne.InvalidArgumentError, match="items"):
        model.recommend(X, k=1, layer="tags", items=[13])


def test_what_was_seen_is_given_in_the_columns_of_the_named_output(
    model: dsstne.Model, X: scipy.sparse.csr_array
) -> None:
    seen = scipy.sparse.csr_array(np.eye(30, 13, dtype=np.float32))
    ids, _ = model.recommend(X, k=13, layer="tags", exclude=seen)
    for row in range(13):
        assert row not in ids[row]
    with pytest.raises(dsstne.InvalidArgumentError, match="tags"):
        model.recommend(X, k=3, layer="tags", exclude=X)


def test_evaluate_ranks_the_output_layer_that_is_named(model: dsstne.Model, X: scipy.sparse.csr_array) -> None:
    ids = best(model.predict(X, "tags"), 1)[:, 0]
    hits = scipy.sparse.csr_array((np.ones(30, np.float32), (np.arange(30), ids)), shape=(30, 13))
    assert dsstne.evaluate(model, X, hits, metrics=["recall@1"], layer="tags") == {"recall@1": 1.0}
    with pytest.raises(dsstne.InvalidArgumentError, match="products"):
        dsstne.evaluate(model, X, hits, metrics=["recall@1"], layer="products")


def test_an_unknown_output_is_an_error_that_names_the_nearest(model: dsstne.Model, X: scipy.sparse.csr_array) -> None:
    with pytest.raises(dsstne.NotFoundError, match="tags"):
        model.recommend(X, k=1, layer="tag")
    with pytest.raises(dsstne.NotFoundError, match="hidden"):
        dsstne.evaluate(model, X, X, layer="hidden")
    with pytest.raises(dsstne.InvalidArgumentError, match="layer"):
        model.recommend(X, k=1, layer=3)


def test_the_first_output_is_ranked_unless_a_call_names_another(model: dsstne.Model, X: scipy.sparse.csr_array) -> None:
    for found, expected in zip(model.recommend(X, k=2), model.recommend(X, k=2, layer=model.output), strict=True):
        np.testing.assert_array_equal(found, expected)


MANY = [{"name": f"h{n}", "kind": "hidden", "sources": ["input"], "size": 1 + n % 3} for n in range(64)]


@pytest.mark.long
@pytest.mark.parametrize("devices", ["cpu", "cpu:4"])
def test_an_output_reads_64_layers(X: scipy.sparse.csr_array, devices: str) -> None:
    names = [layer["name"] for layer in MANY]
    output = {"name": "output", "kind": "output", "sources": names}
    network = {"layers": [{"name": "input", "kind": "input"}, *MANY, output], "loss": "sigmoid"}
    model = dsstne.fit(X, network=network, epochs=3, batch_size=7, devices=devices, seed=1, progress=False)
    wanted = model.tensor("output.bias").ravel() + sum(
        np.tanh(X @ model.tensor(f"{name}.weight") + model.tensor(f"{name}.bias").ravel())
        @ model.tensor(f"output.weight.{name}").T
        for name in names
    )
    np.testing.assert_allclose(model.predict(X), wanted, atol=1e-5)
    np.testing.assert_array_equal(model.recommend(X, k=5, exclude_seen=False)[0], best(model.predict(X), 5))
    assert model.history[-1]["loss"] < model.history[0]["loss"]
