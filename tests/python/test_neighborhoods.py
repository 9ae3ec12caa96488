"""item_knn() and rp3beta(), compared with short programs in NumPy."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne


def ratings(rows=70, items=45, density=0.15, seed=3):
    """Small whole numbers, some columns and rows empty, so that sums and many ties are exact."""
    random = np.random.default_rng(seed)
    dense = random.integers(1, 4, (rows, items)) * (random.random((rows, items)) < density)
    dense[[0, 7]], dense[:, [3, items - 1]] = 0, 0
    return scipy.sparse.csr_array(dense.astype(np.float32))


def lists(S, k):
    """The k largest weights of each row, without the diagonal; of equal ones, the lower items."""
    S = S.astype(np.float32)
    np.fill_diagonal(S, 0)
    for row in S:
        row[np.argsort(-row, kind="stable")[k:]] = 0
    return S


def weights(model):
    offsets, indices, values = (model.tensor(f"weight.{part}") for part in ("offsets", "indices", "values"))
    return scipy.sparse.csr_array((values, indices, offsets), shape=(len(offsets) - 1,) * 2).toarray()


def knn(X, k, metric, shrink):
    X = X.toarray().astype(np.float64)
    if metric in ("jaccard", "dice"):
        X = (X != 0).astype(np.float64)
    C, n = X.T @ X, X.sum(axis=0)
    length = np.sqrt(np.diag(C))
    with np.errstate(invalid="ignore", divide="ignore"):
        S = {
            "cosine": C / (np.outer(length, length) + shrink),
            "jaccard": C / (n[:, None] + n - C + shrink),
            "dice": C / (0.5 * (n[:, None] + n) + shrink / 2),
            "dot": C,
        }[metric]
    return lists(np.where(C == 0, 0, S), k)


@pytest.mark.parametrize(
    ("metric", "shrink"), [("dot", 0.0), *itertools.product(["cosine", "jaccard", "dice"], [0.0, 10.0])]
)
@pytest.mark.parametrize("k", [1, 5, 100])
def test_the_lists_of_item_knn_are_those_of_numpy(metric, k, shrink):
    X = ratings()
    model = dsstne.item_knn(X, k=k, metric=metric, shrink=shrink)
    np.testing.assert_array_equal(weights(model), knn(X, k, metric, shrink))


def walks(X, k, alpha, beta):
    X = X.toarray().astype(np.float64)
    raised = np.where(X > 0, X**alpha, 0).astype(np.float32).astype(np.float64)

    def power(x, exponent):
        return np.where(x > 0, np.where(x > 0, x, 1) ** exponent, 0)

    rows, items, popular = power(X.sum(1), -alpha), power(X.sum(0), -alpha), power((X > 0).sum(0), -beta)
    S = np.zeros((X.shape[1],) * 2)
    for u, row in enumerate(raised):  # in this order, as the bits depend on it
        S += (row * rows[u])[:, None] * row
    return lists(S * items[:, None] * popular, k)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0.5), (0.6, 0), (1.7, 0.9), (0, 0)])
@pytest.mark.parametrize("k", [3, 100])
def test_the_lists_of_rp3beta_are_those_of_numpy(alpha, beta, k):
    X = ratings()
    np.testing.assert_array_equal(weights(dsstne.rp3beta(X, k=k, alpha=alpha, beta=beta)), walks(X, k, alpha, beta))


def test_threads_and_the_form_of_the_matrix_change_no_bit():
    X = ratings(rows=500, items=300)
    expected = weights(dsstne.item_knn(X, k=20))
    shuffled = X.copy()
    for row in range(X.shape[0]):
        part = slice(*X.indptr[row : row + 2])
        shuffled.indices[part], shuffled.data[part] = X.indices[part][::-1], X.data[part][::-1]
    doubled = scipy.sparse.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    for other in (shuffled, doubled, X.astype(np.float64), dsstne.Dataset(X)):
        np.testing.assert_array_equal(weights(dsstne.item_knn(other, k=20)), expected)
    for threads in (1, 3):
        np.testing.assert_array_equal(weights(dsstne.item_knn(X, k=20, threads=threads)), expected)


def test_the_model_recommends_saves_and_names_items(tmp_path):
    X = blocks()
    names = [f"item {n}" for n in range(60)]
    model = dsstne.item_knn(X, k=10, items=names)
    ids, _ = model.recommend(X, k=3)
    assert np.mean(ids % 6 == (np.arange(240) % 6)[:, None]) > 0.95
    model.save(tmp_path / "knn.dsstne")
    again = dsstne.load(tmp_path / "knn.dsstne")
    np.testing.assert_array_equal(again.recommend(X, k=3)[0], ids)
    assert list(again.items) == names
    assert again.same_items


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (0, 3)])
def test_matrices_with_little_in_them_give_models(shape):
    for X in (scipy.sparse.csr_array(shape, dtype=np.float32), scipy.sparse.csr_array(np.ones(shape, np.float32))):
        for model in (dsstne.item_knn(X), dsstne.rp3beta(X, k=2)):
            assert model.recommend(X, k=1, exclude_seen=False)[0].shape == (shape[0], 1)


def test_what_cannot_be_is_refused():
    X = ratings()
    negative = X.copy()
    negative.data[5] = -1
    with pytest.raises(dsstne.InvalidDataError, match=r"row 1, column \d+: the value is -1; .* values of at least 0"):
        dsstne.rp3beta(negative)
    assert (weights(dsstne.item_knn(negative)) < 0).any()
    with pytest.raises(dsstne.InvalidArgumentError, match=r'metric.*did you mean "cosine"'):
        dsstne.item_knn(X, metric="cosin")
    with pytest.raises(dsstne.InvalidArgumentError, match="k must be at least 1"):
        dsstne.item_knn(X, k=0)
    with pytest.raises(dsstne.InvalidArgumentError, match='shrink.*"dot" divides by nothing'):
        dsstne.item_knn(X, metric="dot", shrink=1.0)
    with pytest.raises(dsstne.OutOfMemoryError, match="memory_limit"):
        dsstne.item_knn(X, memory_limit=1000)
    with pytest.raises(dsstne.DeviceUnavailableError):
        dsstne.item_knn(X, devices="cuda:7")
    huge = scipy.sparse.csr_array(np.full((2, 2), 3e38, np.float32))
    with pytest.raises(dsstne.InvalidDataError, match="the weight of items 0 and 1 is infinite"):
        dsstne.item_knn(huge, metric="dot")


def test_a_time_limit_ends_the_computation_with_an_error():
    X = scipy.sparse.random_array((20_000, 5_000), density=0.02, format="csr", rng=0, dtype=np.float32)
    with pytest.raises(dsstne.CancelledError, match=r"item_knn did \d+ of \d+ steps within max_seconds=1e-06"):
        dsstne.item_knn(X, max_seconds=1e-6)


def test_the_parts_of_a_score_add_up_to_it():
    X = ratings()
    model = dsstne.item_knn(X, k=8, shrink=5.0)
    W, row = weights(model), X[[11]]
    item = int(np.argmax(model.predict(row)[0]))
    ids, parts = model.explain(row, item)
    np.testing.assert_array_equal(np.sort(ids), row.indices)
    np.testing.assert_array_equal(parts, (row.toarray()[0, ids] * W[ids, item]).astype(np.float32))
    assert (np.diff(parts) <= 0).all()
    assert parts.sum() == pytest.approx(model.predict(row)[0, item], rel=1e-6)


def test_explain_knows_the_bias_and_refuses_what_has_no_parts():
    definition = {"kind": "item_weights", "items": 3, "weight": "dense", "bias": True}
    model = dsstne.Model(definition)
    model.set_tensor("weight", np.array([[0, 2, 0], [1, 0, 0], [0, 3, 0]], np.float32))
    model.set_tensor("bias", np.array([10, 20, 30], np.float32))
    ids, parts = model.explain(scipy.sparse.csr_array(([1.0, 1.0, 0.5], [0, 2, 2], [0, 3]), shape=(1, 3)), 1)
    assert (ids.tolist(), parts.tolist()) == ([2, 0], [4.5, 2])
    X = blocks()
    with pytest.raises(dsstne.NotFoundError, match="all rows the same scores"):
        dsstne.popularity(X).explain(X[[0]], 1)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"x must be one row, such as X\[\[7\]\]; it has 240 rows"):
        dsstne.item_knn(X).explain(X, 1)
