"""Models of weights between items: EASE, computed by NumPy, and small ones whose answers are known."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

import dsstne


@pytest.fixture(params=["dense", "sparse"])
def stored(request):
    """How a matrix is given."""
    return np.asarray if request.param == "dense" else scipy.sparse.csr_array


def weights(items=50, seed=3):
    random = np.random.default_rng(seed)
    W = np.where(random.random((items, items)) < 0.3, random.normal(size=(items, items)), 0).astype(np.float32)
    np.fill_diagonal(W, 0)
    return W


def users(rows=40, items=50, seed=4):
    X = scipy.sparse.random_array((rows, items), density=0.1, format="csr", rng=seed, dtype=np.float32)
    return scipy.sparse.vstack([X, scipy.sparse.csr_array((1, items), dtype=np.float32)]).tocsr()  # and an empty row


def scores_of(X, W):
    return np.float32(X.toarray().astype(np.float64) @ W.astype(np.float64))


def agrees(ids, scores, expected, k):
    """Whether a ranking is that of the expected scores, but for the order of those that nearly tie."""
    best = -np.sort(-expected, axis=1)[:, :k]
    np.testing.assert_allclose(scores, best, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(expected, ids, 1), scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_scores_are_the_product(stored, devices):
    W, X = weights(), users()
    model = dsstne.Model.from_item_weights(stored(W))
    np.testing.assert_allclose(model.predict(X, devices=devices), scores_of(X, W), rtol=1e-6, atol=1e-7)
    ids, scores = model.recommend(X, k=10, exclude_seen=False, devices=devices)
    agrees(ids, scores, scores_of(X, W), 10)
    ids, _ = model.recommend(X, k=50, devices=devices)
    for row, listed in enumerate(ids):
        seen = X[[row]].indices
        assert not set(listed) & set(seen)
        assert (listed >= 0).sum() == 50 - len(seen)
    ids, _ = model.recommend(X, k=3, items=[4, 7, 30, 31], devices=devices, exclude_seen=False)
    assert set(ids.ravel()) <= {4, 7, 30, 31}


def test_all_devices_and_both_ways_of_storing_have_the_same_bits():
    W, X = weights(), users()
    models = [dsstne.Model.from_item_weights(W), dsstne.Model.from_item_weights(scipy.sparse.coo_array(W))]
    found = [model.recommend(X, k=7, devices=devices) for model in models for devices in ("cpu", "cpu:2", "cpu:5")]
    for ids, scores in found[1:]:
        assert ids.tobytes() == found[0][0].tobytes()
        assert scores.tobytes() == found[0][1].tobytes()


def test_what_it_is(stored):
    W = weights()
    model = dsstne.Model.from_item_weights(stored(W), items=[f"item {n}" for n in range(50)])
    assert model.network is None
    assert model.same_items
    assert model.inputs == {"input": 50}
    assert model.outputs == {"output": 50}
    assert model.tensors == {"weight": (50, 50)}
    found = model.tensor("weight")
    assert (found.toarray() if stored is scipy.sparse.csr_array else found).tobytes() == W.tobytes()
    assert scipy.sparse.issparse(found) == (stored is scipy.sparse.csr_array)
    model.set_tensor("weight", stored(2 * W))
    np.testing.assert_allclose(model.predict(users()), scores_of(users(), 2 * W), rtol=1e-6, atol=1e-6)
    with pytest.raises(dsstne.InvalidArgumentError, match="not a network"):
        dsstne.Trainer(model, users())


def test_it_is_saved_loaded_and_copied(stored, tmp_path):
    model = dsstne.Model.from_item_weights(stored(weights()), items=np.arange(50) + 100)
    model.save(tmp_path / "m.dsstne")
    want = model.recommend(users(), k=5)
    for other in (dsstne.load(tmp_path / "m.dsstne"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.network is None
        assert other.same_items
        assert other.items.tolist() == list(range(100, 150))
        got = other.recommend(users(), k=5)
        assert got[0].tobytes() == want[0].tobytes()
        assert got[1].tobytes() == want[1].tobytes()


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_similar_items_are_the_greatest_entries_of_a_row(stored, devices):
    W = weights()
    model = dsstne.Model.from_item_weights(stored(W))
    ids, entries = model.similar_items([7, 0], k=5, devices=devices)
    masked = W[[7, 0]].copy()
    masked[[0, 1], [7, 0]] = -np.inf
    np.testing.assert_array_equal(entries, -np.sort(-masked, axis=1)[:, :5])
    np.testing.assert_array_equal(np.take_along_axis(W[[7, 0]], ids, 1), entries)


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_neighbors_compare_rows(stored, devices, metric):
    W = weights()
    model = dsstne.Model.from_item_weights(stored(W))
    rows = W.astype(np.float64)
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = rows[[3, 9]] @ rows.T
    ids, near = model.neighbors([3, 9], k=6, tensor="weight", metric=metric, include_self=True, devices=devices)
    agrees(ids, near, np.float32(expected), 6)


def test_a_wrong_matrix_is_refused_by_name():
    refuse = dsstne.InvalidArgumentError
    for W, error, words in [
        (np.zeros((2, 3)), refuse, r"the shape \(2, 3\)"),
        (np.zeros(3), refuse, "one row and one column"),
        ([[1], [1, 2]], refuse, "matrix of numbers"),
        (np.array([["a"]]), refuse, "matrix of numbers"),
        (np.zeros((0, 0)), refuse, "one row and one column"),
        (scipy.sparse.csr_array((2, 3)), refuse, r"the shape \(2, 3\)"),
        (np.array([[0, np.nan], [0, 0]]), dsstne.NotFiniteError, "row 0, column 1: NaN is not finite"),
        (scipy.sparse.csr_array([[0, 0], [np.nan, 0]]), dsstne.NotFiniteError, "W, row 1, column 0: nan is not finite"),
        (scipy.sparse.csr_array([[0, 1e300], [0, 0]]), dsstne.NotFiniteError, "W, row 0, column 1"),
    ]:
        with pytest.raises(error, match=words):
            dsstne.Model.from_item_weights(W)


def test_duplicates_are_summed_and_the_matrix_of_the_caller_stays():
    W = scipy.sparse.csr_array((np.array([1.0, 2, 4]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    model = dsstne.Model.from_item_weights(W)
    assert model.tensor("weight").toarray().tolist() == [[0, 3], [4, 0]]
    assert W.nnz == 3
    with pytest.raises(dsstne.InvalidArgumentError, match="2 stored entries, got .* 1;"):
        model.set_tensor("weight", scipy.sparse.csr_array([[0, 1], [0, 0]]))


def test_a_matrix_without_entries_scores_nothing():
    model = dsstne.Model.from_item_weights(scipy.sparse.csr_array((4, 4)))
    ids, scores = model.recommend(np.eye(4, dtype=np.float32)[:1], k=4)
    assert ids.tolist() == [[1, 2, 3, -1]]
    assert scores[0, :3].tolist() == [0, 0, 0]


def test_the_plan_says_what_recommending_takes():
    model = dsstne.Model.from_item_weights(scipy.sparse.csr_array(weights()))
    plan = model.plan(users(), k=5, devices="cpu:2")
    assert sum(part["bytes"] for part in plan["parts"]) == plan["bytes"]
    assert {"weight.offsets", "weight.indices", "weight.values"} <= {part.get("of") for part in plan["parts"]}
    assert [line for line in plan["operations"] if "MergeTopK 5 of 2 x 5" in line]
    assert "TopK 5 of 25 items <- weight[50, 50]" in plan["operations"][0]
    with pytest.raises(dsstne.InvalidArgumentError, match="k is 51"):
        model.plan(k=51)
    network = dsstne.fit(users(), hidden=4, epochs=0, progress=False)
    without = network.plan(k=5, devices="cpu")
    with_rows = network.plan(users(), k=5, devices="cpu")
    assert without["operations"] == with_rows["operations"]
    assert len(without["operations"]) == 2


def ease(X, strength=300.0):
    """Embarrassingly shallow autoencoders (Steck, 2019): P = (X^T X + strength I)^-1, W = P / -diag(P), diagonal 0."""
    G = (X.T @ X).toarray().astype(np.float64)
    G[np.diag_indices_from(G)] += strength
    P = np.linalg.inv(G)
    W = P / -np.diag(P)
    np.fill_diagonal(W, 0)
    return W.astype(np.float32)


def frequent(train, test):
    """Both matrices with the 3,000 most frequent items."""
    items = np.sort(np.argsort(-train.sum(axis=0), kind="stable")[:3000])
    return train[:, items].tocsr(), test[:, items].tocsr()


@pytest.mark.long
def test_ease_of_numpy_is_ranked_evaluated_saved_and_explained(last_fm, tmp_path):
    train, test = frequent(*last_fm)
    W = ease(train)
    sparse = scipy.sparse.csr_array(np.where(np.abs(W) > 1e-3, W, 0))
    for matrix, given in ((W, W), (sparse.toarray(), sparse)):
        model = dsstne.Model.from_item_weights(given)
        expected = scores_of(train, matrix)
        expected[train.nonzero()] = -np.inf
        ids, scores = model.recommend(train, k=20)
        agrees(ids, scores, expected, 20)
        first = np.argsort(-expected, axis=1, kind="stable")[:, :20]
        assert (first == ids).mean() > 0.999
        hits = np.take_along_axis(test.toarray(), first, 1).sum(axis=1)
        known = np.asarray(test.sum(axis=1)).ravel()
        recall = (hits[known > 0] / known[known > 0]).mean()
        measured = dsstne.evaluate(model, train, test, "recall@20")["recall@20"]
        popular = dsstne.evaluate(dsstne.popularity(train), train, test, "recall@20")["recall@20"]
        assert abs(measured - recall) < 1e-4
        assert measured > 1.5 * popular
        model.save(tmp_path / "ease.dsstne")
        again = dsstne.load(tmp_path / "ease.dsstne").recommend(train, k=20, devices="cpu:2")
        assert again[0].tobytes() == ids.tobytes()
        assert again[1].tobytes() == scores.tobytes()
        assert "weight" in model.plan(train, k=20)["operations"][0]
