"""Model.similar_users: the rows of a matrix whose vectors are nearest to those of some users."""

import numpy as np
import pytest
from matrices import blocks

import dsstne


def cosines(a, b):
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a.astype(float), b.astype(float)))
    return a @ b.T


@pytest.fixture(scope="module", params=["network", "factors"])
def trained(request):
    X = blocks()
    if request.param == "network":
        return dsstne.fit(X, hidden=[12, 6], epochs=5, threads=1, progress=False)
    return dsstne.factorize(X, factors=6, epochs=5, threads=1, progress=False)


def test_they_are_the_rows_with_the_greatest_cosines(trained, X):
    ids, scores = trained.similar_users([5, 0], X, k=7)
    every = cosines(trained.embed(X, rows=[5, 0]), trained.embed(X))
    every[[0, 1], [5, 0]] = -2  # not the user itself
    np.testing.assert_array_equal(ids, np.argsort(-every, kind="stable")[:, :7])
    np.testing.assert_allclose(scores, -np.sort(-every)[:, :7], atol=1e-6)


def test_users_with_the_same_taste_are_similar(X):
    model = dsstne.factorize(X, factors=6, epochs=10, threads=1, progress=False)
    ids, _ = model.similar_users(np.arange(60), X, k=5)
    assert (ids % 6 == np.arange(60)[:, None] % 6).mean() > 0.9


def test_new_users_are_given_as_rows(trained, X):
    ids, scores = trained.similar_users(X[[8, 3]], X, k=4)
    with_self = trained.similar_users([8, 3], X, k=4, include_self=True)
    np.testing.assert_array_equal(ids, with_self[0])
    np.testing.assert_array_equal(scores, with_self[1])
    assert ids[:, 0].tolist() == [8, 3]


def test_users_can_be_named_by_interactions(trained, X):
    named = dsstne.Interactions(X, row_names=[f"user {n}" for n in range(240)])
    for users, numbers in ((named.users(["user 8", "user 3"]), X[[8, 3]]), (["user 8", "user 3"], [8, 3])):
        found, (ids, scores) = trained.similar_users(users, named, k=4), trained.similar_users(numbers, X, k=4)
        assert list(found) == ["user", "similar", "score", "rank"]
        assert found["user"].tolist() == ["user 8"] * 4 + ["user 3"] * 4
        assert found["similar"].tolist() == [f"user {n}" for n in ids.ravel()]
        assert (found["score"].tolist(), found["rank"].tolist()) == (scores.ravel().tolist(), [1, 2, 3, 4] * 2)
    assert set(trained.similar_users(X[[8]], named, k=4)["user"].tolist()) == {0}
    without = trained.similar_users("user 8", named, k=2, filter_users=["user 2"])
    assert "user 2" not in without["similar"].tolist()


def test_users_are_left_out_and_layer_and_metric_chosen(X):
    model = dsstne.fit(X, hidden=[12, 6], epochs=5, threads=1, progress=False)
    filtered = np.arange(240) % 2 == 0
    ids, scores = model.similar_users([5], X, k=3, layer="hidden1", metric="dot", filter_users=filtered)
    vectors = model.embed(X, "hidden1").astype(float)
    every = np.where(filtered, -np.inf, vectors[5] @ vectors.T)
    every[5] = -np.inf
    np.testing.assert_array_equal(ids[0], np.argsort(-every)[:3])
    np.testing.assert_allclose(scores[0], -np.sort(-every)[:3], rtol=1e-5)
    assert (model.similar_users(X[[5]], X, k=240, filter_users=filtered)[0][0, 120:] == -1).all()


def test_models_without_vectors_are_refused_and_the_remedy_works(X):
    for model in (dsstne.item_knn(X, progress=False), dsstne.popularity(X), dsstne.spectral(X, progress=False)):
        with pytest.raises(dsstne.NotFoundError, match=r"item_knn\(X.T, k=100, shrink=0\).similar_items\(users\)"):
            model.similar_users([0], X)
    ids, scores = dsstne.item_knn(X.T, k=100, shrink=0, progress=False).similar_items([4], k=5)
    every = cosines(X[[4]].toarray(), X.toarray())[0]
    every[4] = -1
    np.testing.assert_array_equal(ids[0], np.argsort(-every.astype(np.float32), kind="stable")[:5])
    np.testing.assert_allclose(scores[0], -np.sort(-every)[:5], rtol=1e-6)


def test_mistakes_are_named(trained, X):
    for users, more, message in (
        ([240], {}, r"users\[0\] is 240; expected 0 to 239"),
        ([0], {"k": 241}, "k is 241; with 240 rows it can be 1 to 240"),
        ([0], {"metric": "cosin"}, 'did you mean "cosine"'),
        ([0], {"filter_users": [300]}, r"filter_users\[0\] is 300; expected 0 to 239"),
        (X[:2, :9], {}, "9 columns"),
        ("ann", {}, "users: expected one list of integers"),
    ):
        with pytest.raises(dsstne.InvalidArgumentError, match=message):
            trained.similar_users(users, X, **more)
    with pytest.raises(dsstne.NotFoundError, match="hidden9"):
        trained.similar_users([0], X, layer="hidden9")
    with pytest.raises(dsstne.OutOfMemoryError, match="memory_limit"):
        trained.similar_users([0], X, memory_limit=1000)
