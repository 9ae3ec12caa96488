"""linear(), compared with a short program in NumPy."""

import numpy as np
import pytest
import scipy.sparse

import dsstne

PLAIN = {
    "regularization_exponent": 0.0,
    "dropout": 0.0,
    "row_exponent": 0.0,
    "item_exponent": 0.0,
    "output_exponent": 0.0,
}
SETTINGS = [
    {},
    {**PLAIN, "regularization": 5.0},
    {"regularization": 60.0, "row_exponent": 0.75, "item_exponent": 0.4, "output_exponent": 0.1, "dropout": 0.3},
]


def interactions(rows=300, items=90, seed=5, values=False):
    """Interactions with empty rows, an item that nobody has, and popular ones."""
    random = np.random.default_rng(seed)
    dense = random.random((rows, items)) < 0.4 * random.random(items) ** 2
    dense[[0, 7]], dense[:, [3, items - 1]] = 0, 0
    return scipy.sparse.csr_array((dense * (random.integers(1, 4, dense.shape) if values else 1)).astype(np.float32))


def power(d, exponent):
    return np.where(d > 0, np.maximum(d, 1) ** float(exponent), 0.0)


def expected(
    X,
    regularization=18.0,
    regularization_exponent=0.25,
    dropout=0.1,
    row_exponent=0.5,
    item_exponent=0.2,
    output_exponent=0.2,
):
    """S of all weights, in float64."""
    X = X.toarray().astype(np.float64)
    d_u, d_i = (X != 0).sum(1), (X != 0).sum(0)
    has = d_i > 0
    Y = np.sqrt(power(d_u, -row_exponent))[:, None] * X * power(d_i, -item_exponent)
    Y /= np.sqrt((Y**2).sum(0)[has].mean())
    G = Y.T @ Y
    g = np.diag(G)
    ridge = regularization * g**regularization_exponent + dropout / (1 - dropout) * g
    P = np.linalg.inv(G + np.diag(np.where(has, ridge, 1)))
    S = -power(d_i, -item_exponent)[:, None] * P / np.diag(P) * power(d_i, item_exponent - output_exponent)
    np.fill_diagonal(S, 0)
    return S


def weights(model):
    W = model.tensor("weight")
    return W.toarray() if scipy.sparse.issparse(W) else W


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("method", ["inverse", "iterative"])
def test_all_weights_are_those_of_the_dense_inverse(method, values, settings):
    X = interactions(values=values)
    S = expected(X, **settings)
    model = dsstne.linear(X, method=method, per_item=None, tolerance=1e-5, **settings)
    np.testing.assert_allclose(weights(model), S, rtol=0, atol=3e-5 * abs(S).max())


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_operator_scores_with_all_weights(settings):
    X = interactions()
    S = expected(X, **settings)
    model = dsstne.linear(X, method="operator", tolerance=1e-5, probes=2**15, **settings)
    scores, full = model.predict(X), X @ S
    np.testing.assert_allclose(scores[1:7], full[1:7], rtol=0, atol=0.01 * abs(full).max())


@pytest.mark.parametrize("method", ["inverse", "iterative"])
def test_a_row_keeps_its_largest_weights(method):
    X = interactions()
    S = expected(X)
    kept = weights(dsstne.linear(X, method=method, per_item=7, tolerance=1e-6, probes=2**15))
    for found, row in zip(kept, S, strict=True):
        assert np.count_nonzero(found) == min(7, np.count_nonzero(row))
        assert row[found != 0].min(initial=np.inf) >= np.sort(row)[-7] - 0.02 * abs(S).max()
    np.testing.assert_allclose(kept[kept != 0], S[kept != 0], rtol=0, atol=3e-5 * abs(S).max())


@pytest.mark.parametrize("method", ["inverse", "iterative", "operator"])
def test_an_empty_row_is_answered_by_popularity(method):
    X = interactions()
    model = dsstne.linear(X, method=method)
    popular = dsstne.popularity(X)
    empty = scipy.sparse.csr_array((2, X.shape[1]), dtype=np.float32)
    for found, wanted in zip(model.recommend(empty, k=20), popular.recommend(empty, k=20), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (model.predict(X)[1:6, [3, X.shape[1] - 1]] == 0).all()  # items that nobody has


@pytest.mark.parametrize("method", ["iterative", "restricted", "operator"])
def test_the_number_of_threads_and_the_other_rows_change_no_bit(method):
    X = interactions(values=True)
    model = dsstne.linear(X, method=method, per_item=None, threads=1)
    other = dsstne.linear(X, method=method, per_item=None, threads=3)
    for name in model.tensors:
        np.testing.assert_array_equal(np.asarray(_dense(model.tensor(name))), np.asarray(_dense(other.tensor(name))))
    all_scores = model.predict(X, threads=2)
    np.testing.assert_array_equal(all_scores[40:43], model.predict(X[40:43], threads=1))
    np.testing.assert_array_equal(all_scores, model.predict(X, batch_size=17))


def _dense(tensor):
    return tensor.toarray() if scipy.sparse.issparse(tensor) else tensor


@pytest.mark.parametrize("method", ["inverse", "iterative", "operator"])
def test_the_model_explains_saves_and_finds_similar_items(method, tmp_path):
    X = interactions()
    model = dsstne.linear(X, method=method, tolerance=1e-5, items=[f"item {i}" for i in range(X.shape[1])])
    ids, parts = model.explain(X[[5]], 11)
    assert set(ids) == set(X[[5]].indices)
    np.testing.assert_allclose(parts.sum(), model.scores(X[[5]], [11])[0, 0], rtol=1e-3, atol=1e-6)
    model.save(tmp_path / "linear.dsstne")
    loaded = dsstne.load(tmp_path / "linear.dsstne")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    similar, scores = loaded.similar_items([4, 9], k=5)
    assert similar.shape == scores.shape == (2, 5)
    alone = scipy.sparse.csr_array(([1.0], ([0], [9])), shape=(1, X.shape[1]), dtype=np.float32)
    np.testing.assert_array_equal(similar[1], loaded.recommend(alone, k=5)[0][0])
    assert list(loaded.names(similar)[0]) == [f"item {i}" for i in similar[0]]


@pytest.mark.parametrize("method", ["inverse", "iterative", "restricted", "operator"])
def test_duplicates_are_summed_and_zeros_are_no_entries(method):
    X = interactions()
    parts = X.tocoo()
    rows, columns = parts.row, parts.col
    halves = np.concatenate([np.full(X.nnz, 0.5), np.full(X.nnz, 0.5), np.zeros(5)]).astype(np.float32)
    rows, columns = np.concatenate([rows, rows, np.arange(5)]), np.concatenate([columns, columns, np.full(5, 3)])
    order = np.lexsort((columns, rows))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
    twice = scipy.sparse.csr_array((halves[order], columns[order], offsets), shape=X.shape)
    want, model = dsstne.linear(X, method=method), dsstne.linear(twice, method=method)
    np.testing.assert_array_equal(model.predict(X), want.predict(X))


@pytest.mark.parametrize("method", ["inverse", "iterative", "operator"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_the_values_does_not_matter(method, scale):
    X = interactions()
    want = dsstne.linear(X, method=method)
    model = dsstne.linear(X * np.float32(scale), method=method)
    np.testing.assert_allclose(model.predict(X)[1:7], want.predict(X)[1:7], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("method", ["auto", "inverse", "iterative", "restricted", "operator"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (0, 4), (4, 4)])
def test_tiny_and_empty_matrices_give_models(method, shape):
    X = scipy.sparse.csr_array(np.ones(shape, np.float32) if shape != (4, 4) else np.zeros(shape, np.float32))
    model = dsstne.linear(X, method=method)
    assert np.isfinite(model.predict(scipy.sparse.csr_array(np.ones((2, shape[1]), np.float32)))).all()


def test_the_restricted_method_with_all_neighbors_is_exact():
    X = scipy.sparse.random_array((200, 25), density=0.4, format="csr", rng=0, dtype=np.float32)  # all items co-occur
    S = expected(X)
    found = weights(dsstne.linear(X, method="restricted", neighbors=100, per_item=None))
    np.testing.assert_allclose(found, S, rtol=0, atol=1e-4 * abs(S).max())
    X = interactions()
    few = dsstne.linear(X, method="restricted", neighbors=40, per_item=10)
    assert (np.count_nonzero(weights(few), axis=1) <= 10).all()
    held, out = dsstne.datasets.hold_out(X, 0.3, seed=1)
    part, whole = (
        dsstne.evaluate(dsstne.linear(held, method=m, neighbors=40), held, out)["ndcg@20"]
        for m in ("restricted", "inverse")
    )
    assert part > 0.9 * whole


def test_too_little_regularization_is_reported():
    X = interactions()
    with pytest.warns(UserWarning, match="are not solved to tolerance=1e-06 after 20 iterations"):
        dsstne.linear(X, method="iterative", regularization=1e-4, dropout=0, tolerance=1e-6)
    random = np.random.default_rng(1)
    same = scipy.sparse.csr_array((random.random((500, 1)) * random.random(300)).astype(np.float32))
    with pytest.raises(dsstne.InvalidDataError, match="singular.*use more regularization"):
        dsstne.linear(same, method="inverse", regularization=1e-6, dropout=0)


@pytest.mark.parametrize("name", ["item_exponent", "output_exponent"])
def test_the_inverse_needs_its_exponents(name):
    with pytest.raises(dsstne.InvalidArgumentError, match=f"{name} must be a number, not None"):
        dsstne.linear(interactions(), method="inverse", progress=False, **{name: None})


def test_bad_arguments_and_values_are_refused():
    X = interactions()
    for wrong, message in (
        ({"method": "cholesky"}, "method: 'cholesky' is unknown"),
        ({"method": 3}, "method"),
        ({"per_item": 0}, "per_item"),
        ({"regularization": 0}, "regularization"),
        ({"dropout": 1.0}, "dropout"),
        ({"row_exponent": -1}, "row_exponent"),
        ({"probes": 0}, "probes"),
        ({"tolerance": 0}, "tolerance"),
        ({"max_seconds": -1}, "max_seconds"),
    ):
        with pytest.raises(dsstne.InvalidArgumentError, match=message):
            dsstne.linear(X, **{"method": "iterative", **wrong})
    X.data[5] = np.nan
    with pytest.raises(dsstne.InvalidDataError, match="row 1, column 41 holds NaN"):
        dsstne.linear(X)


@pytest.mark.parametrize("method", ["inverse", "iterative", "restricted", "operator"])
def test_limits_are_kept(method):
    X = scipy.sparse.random_array((4000, 800), density=0.02, format="csr", rng=0, dtype=np.float32)
    with pytest.raises(dsstne.OutOfMemoryError, match="memory_limit"):
        dsstne.linear(X, method=method, memory_limit=100_000)


def test_auto_takes_the_iterative_method_where_the_inverse_does_not_fit():
    X = scipy.sparse.random_array((900, 700), density=0.05, format="csr", rng=1, dtype=np.float32)
    limit = 3 * 4 * 700**2 + 16 * X.nnz
    whole, less = (dsstne.linear(X, memory_limit=limit + more, progress=False) for more in (1 << 20, -1))
    iterative = dsstne.linear(X, method="iterative", progress=False)
    np.testing.assert_array_equal(less.tensor("weight").toarray(), iterative.tensor("weight").toarray())
    assert np.any(whole.tensor("weight").toarray() != iterative.tensor("weight").toarray())
