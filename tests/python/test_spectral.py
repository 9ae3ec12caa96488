"""spectral(), compared with a short program in NumPy."""

import math

import numpy as np
import pytest
import scipy.sparse

import dsstne

FILTERS = {
    "gf_cf": (1, 0.5, 0.5, 0.3, 0.5, 0, 0, False),
    "bspm_em": (1, 0.5, 0.5, 0.2, 0.5, 2.5, 0, False),
    "f": (0.75, 0.55, 0.25, 0.6, 0.5, 1.3, 0, True),
}
OTHER = {
    "row_exponent": 0.4,
    "first_in": 0.2,
    "first_out": 0.1,
    "low_pass": 1.5,
    "low_pass_exponent": 0.3,
    "sharpening": 0.7,
    "output_exponent": -0.2,
    "balanced": False,
}


def interactions(rows=150, items=100, seed=3, values=False):
    """Some empty rows and columns."""
    random = np.random.default_rng(seed)
    dense = (random.random((rows, items)) < random.random(items) * 0.3) * 1.0
    if values:
        dense *= random.normal(size=dense.shape)
    dense[[0, 7]], dense[:, [3, items - 1]] = 0, 0
    return scipy.sparse.csr_array(dense.astype(np.float32))


def power(d, exponent):
    return np.where(d > 0, np.maximum(d, 1.0) ** exponent, 0)


def expected(X, x, rank, settings):
    """Scores of the rows x; with balanced parts, the parts."""
    a, b1, b2, beta, g, h, c, balanced = settings
    du, d = (X != 0).sum(axis=1), (X != 0).sum(axis=0)
    X, x = X.toarray().astype(np.float64), x.toarray().astype(np.float64)
    R = power(du, -0.5)[:, None] * X * power(d, -0.5)
    C, V = R.T @ R, np.linalg.svd(R, full_matrices=False)[2][:rank].T
    first = x * power(d, -b1) @ X.T * power(du, -a) @ X * power(d, -b2)
    low = x * power(d, -g) @ V @ V.T * power(d, g)

    def finish(y):
        terms = [(-h) ** n / math.factorial(n) * y @ np.linalg.matrix_power(C, n) for n in range(5)]
        return sum(terms) * power(d, c)

    return (finish(first), finish(low)) if balanced else finish(first + beta * low)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("name", [*FILTERS, "other"])
@pytest.mark.parametrize("shape", [(150, 100), (100, 150)])
def test_the_scores_are_those_of_numpy(shape, name, values):
    X, new = interactions(*shape, values=values), interactions(70, shape[1], seed=9, values=values)
    options = OTHER if name == "other" else {"method": name}
    model = dsstne.spectral(X, 20, iterations=5, **options)
    some = np.diff(new.indptr) > 0
    found = model.predict(new).astype(np.float64)[some]
    settings = FILTERS.get(name, tuple(OTHER.values()))
    parts = expected(X, new[some], 20, settings)
    if settings[-1]:  # found = kappa first + 0.6 iota low, for some kappa and iota
        scales = np.linalg.lstsq(np.stack([p.ravel() for p in parts], axis=1), found.ravel())[0]
        parts = scales[0] * parts[0] + scales[1] * parts[1]
    np.testing.assert_allclose(found, parts, atol=2e-5 * np.abs(parts).max())


def test_balanced_parts_have_a_root_mean_square_of_one():
    X = interactions(400, 100)

    def first(**options):
        return dsstne.spectral(X, 20, method="f", sharpening=0, **options).predict(X)

    every = np.diff(X.indptr) > 0
    assert np.sqrt((first(low_pass=0)[every].astype(np.float64) ** 2).mean()) == pytest.approx(1, rel=0.1)
    low = first(low_pass=1) - first(low_pass=0)
    assert np.sqrt((low[every].astype(np.float64) ** 2).mean()) == pytest.approx(1, rel=0.1)


def test_threads_and_other_rows_of_the_batch_change_no_bit():
    X = interactions(700, 300)
    model = dsstne.spectral(X, 70, threads=1)
    scores = model.predict(X)
    np.testing.assert_array_equal(dsstne.spectral(X, 70, threads=3).predict(X, threads=3), scores)
    np.testing.assert_array_equal(model.predict(X, rows=[650, 5, 130]), scores[[650, 5, 130]])
    np.testing.assert_array_equal(model.predict(X, batch_size=100), scores)


def test_the_lists_are_those_of_the_scores_and_empty_rows_get_popular_items():
    X = interactions()
    model = dsstne.spectral(X, 20)
    ids, scores = model.recommend(X, k=10, exclude_seen=False)
    order = np.argsort(-model.predict(X), axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(scores, np.take_along_axis(model.predict(X), order, axis=1))
    np.testing.assert_array_equal(model.predict(X, rows=[0])[0], (X != 0).sum(axis=0))
    assert (model.predict(X)[1:7, [3, 99]] == 0).all()


def test_the_parts_of_the_items_add_up_to_the_score():
    X = interactions()
    model = dsstne.spectral(X, 20)
    ids, parts = model.explain(X[[5]], 11)
    assert set(ids) == set(X[[5]].indices)
    assert parts.sum() == pytest.approx(model.scores(X[[5]], [11])[0, 0], rel=1e-4, abs=1e-5)


def test_a_saved_model_scores_as_before(tmp_path):
    X = interactions()
    model = dsstne.spectral(X, 20, method="bspm_em", items=[f"item {n}" for n in range(100)])
    model.save(tmp_path / "filter.dsstne")
    again = dsstne.load(tmp_path / "filter.dsstne")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.items[7] == "item 7"


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2)])
def test_matrices_with_little_in_them_give_models(shape):
    for X in (scipy.sparse.csr_array(shape, dtype=np.float32), scipy.sparse.csr_array(np.ones(shape, np.float32))):
        for name in FILTERS:
            assert np.isfinite(dsstne.spectral(X, 1, method=name).predict(X)).all()


@pytest.mark.parametrize(("shape", "rank"), [((30, 20), 20), ((150, 100), 32), ((900, 1000), 56)])
def test_the_default_rank_follows_from_the_smaller_side(shape, rank):
    X = interactions(*shape)
    model, same = (dsstne.spectral(X, **given, progress=False) for given in ({}, {"rank": rank}))
    assert np.array_equal(model.predict(X[:9]), same.predict(X[:9]))
    listed = dsstne.spectral(X.toarray().tolist(), progress=False)
    assert np.array_equal(model.predict(X[:9]), listed.predict(X[:9]))
    assert not np.array_equal(model.predict(X[:9]), dsstne.spectral(X, rank // 2, progress=False).predict(X[:9]))


def test_what_cannot_be_is_refused():
    X = interactions()
    with pytest.raises(dsstne.InvalidArgumentError, match=r"101 singular values are asked for; a matrix \[150, 100\]"):
        dsstne.spectral(X, 101)
    with pytest.raises(dsstne.InvalidArgumentError, match="did you mean 'gf_cf'"):
        dsstne.spectral(X, 5, method="gfcf")
    for options in ({"rank": 0}, {"low_pass": -1.0}, {"sharpening": float("nan")}, {"balanced": 2}):
        with pytest.raises(dsstne.InvalidArgumentError):
            dsstne.spectral(X, **{"rank": 5, **options})
    X.data[3] = np.nan
    with pytest.raises(dsstne.InvalidDataError):
        dsstne.spectral(X, 2)


def test_limits_of_memory_and_time_are_kept():
    X = interactions(4000, 3000)
    with pytest.raises(dsstne.OutOfMemoryError):
        dsstne.spectral(X, 100, memory_limit=1_000_000)
    with pytest.raises(dsstne.CancelledError):
        dsstne.spectral(X, 500, iterations=1000, max_seconds=0.01)


def test_duplicates_are_summed():
    X = scipy.sparse.csr_array(np.ones((30, 20), np.float32))
    twice = scipy.sparse.csr_array(
        (np.full(2 * X.nnz, 0.5, np.float32), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    np.testing.assert_array_equal(dsstne.spectral(twice, 2).predict(X), dsstne.spectral(X, 2).predict(X))
