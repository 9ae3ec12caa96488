"""factorize(), compared with short programs in NumPy."""

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne


def weights(rows=70, items=45, density=0.15, seed=3):
    """Weights of observations; some columns and rows are empty."""
    random = np.random.default_rng(seed)
    dense = random.uniform(0.5, 2, (rows, items)) * (random.random((rows, items)) < density)
    dense[[0, 7]], dense[:, [3, items - 1]] = 0, 0
    return scipy.sparse.csr_array(dense.astype(np.float32))


def solved(X, H, alpha, unobserved, regularization, nu):
    """The factors of the rows of X, one after the other; the squares need not be diagonal."""
    X, H = X.toarray().astype(np.float64), H.astype(np.float64)
    W = np.zeros((len(X), H.shape[1]))
    for u, x in enumerate(X):
        seen = x > 0
        ridge = regularization * (seen.sum() + unobserved * X.shape[1]) ** nu
        A = unobserved * H.T @ H + ridge * np.eye(H.shape[1]) + alpha * (H[seen].T * x[seen]) @ H[seen]
        if seen.any():
            W[u] = np.linalg.solve(A, alpha * x[seen] @ H[seen])
    return W


def objective(X, W, H, alpha, unobserved, regularization, nu):
    X, Y = X.toarray().astype(np.float64), W @ H.T
    ridges = [
        regularization * (((X > 0).sum(axis=axis) + unobserved * X.shape[axis]) ** nu) @ (F**2).sum(axis=1)
        for axis, F in ((1, W), (0, H))
    ]
    return (alpha * X * (Y - 1) ** 2).sum() + unobserved * (Y**2).sum() + sum(ridges)


OBJECTIVE = {"alpha": 2.0, "unobserved": 0.3, "regularization": 0.02, "nu": 1.0}


def options(nu=1.0, **others):
    return {"alpha": 2.0, "unobserved_weight": 0.3, "regularization": 0.02, "nu": nu, "progress": False, **others}


@pytest.mark.parametrize("factors", [1, 8, 20, 45])
@pytest.mark.parametrize("nu", [1.0, 0.5, 0.0])
def test_an_epoch_is_that_of_numpy(factors, nu):
    X, known = weights(), {**OBJECTIVE, "nu": nu}
    before = dsstne.factorize(X, factors=factors, epochs=1, **options(nu))
    after = dsstne.factorize(X, factors=factors, epochs=2, **options(nu))
    W = solved(X, before.tensor("factors"), **known)
    np.testing.assert_allclose(before.embed(X), W, rtol=1e-3, atol=2e-5 * np.abs(W).max())
    H = solved(X.T.tocsr(), W, **known)
    np.testing.assert_allclose(after.predict(X), solved(X, H, **known) @ H.T, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(after.tensor("factors") @ after.tensor("factors").T, H @ H.T, rtol=1e-3, atol=1e-4)


def test_the_objective_decreases():
    X = weights(rows=200, items=90)
    values = []
    for epochs in (1, 2, 4, 8, 16):
        model = dsstne.factorize(X, factors=12, epochs=epochs, **options())
        values.append(objective(X, model.embed(X), model.tensor("factors"), **OBJECTIVE))
    assert (np.diff(values) < 0).all()


def test_no_weight_of_observations_and_rescaling_give_the_objective_of_implicit():
    """With confidences c: sum over all of c (p - y)^2 + regularization (|w|^2 + |h|^2), where c is 1 for zeros."""
    X, c, ridge = weights().sign(), 8.0, 0.5
    model = dsstne.factorize(
        X, factors=10, epochs=300, unobserved_weight=1 / (c - 1), regularization=ridge / c, nu=0.0, progress=False
    )
    scale = c / (c - 1)
    W, H = model.embed(X) * np.sqrt(scale), model.tensor("factors") * np.sqrt(scale)
    P = X.toarray()
    for u in range(len(P)):  # W is where the gradient of implicit's objective is zero
        confidence = np.where(P[u] > 0, c, 1)
        gradient = (confidence * (W[u] @ H.T - P[u])) @ H + ridge * W[u]
        assert np.abs(gradient).max() < 1e-4 or not P[u].any()


def ratings(seed=5):
    random = np.random.default_rng(seed)
    W, H, bias = random.standard_normal((90, 3)), random.standard_normal((60, 3)), random.standard_normal(60)
    full = 3.5 + 0.5 * W @ H.T + bias
    X = scipy.sparse.csr_array(np.where(random.random(full.shape) < 0.4, full, 0).astype(np.float32))
    X.eliminate_zeros()
    return X, full


def test_ratings_are_found_from_observed_entries_alone():
    X, full = ratings()
    model = dsstne.factorize(X, method="explicit", factors=3, regularization=0.01, epochs=40, progress=False)
    unseen = X.toarray() == 0
    predicted = model.predict(X)
    assert np.sqrt(np.mean((predicted - full)[unseen] ** 2)) < 0.35 * full[unseen].std()
    # A row's factors and bias are where the gradient of its objective is zero.
    H, item_bias, W = (x.astype(np.float64) for x in (model.tensor("factors"), model.tensor("bias"), model.embed(X)))
    for u in range(X.shape[0]):
        seen = X[[u]].indices
        error = predicted[u, seen] - X[[u]].data
        bias = np.mean(predicted[u] - W[u] @ H.T - item_bias)
        ridge = 0.01 * len(seen)
        assert np.abs(error @ H[seen] + ridge * W[u]).max() < 2e-4
        assert abs(error.sum() + ridge * bias) < 2e-4


def test_threads_change_no_bit_and_seeds_do():
    X = scipy.sparse.random_array((3000, 2000), density=0.01, format="csr", rng=0, dtype=np.float32)
    for method in ("ials", "explicit"):
        known = {"method": method, "factors": 24, "epochs": 2, "progress": False}
        one, three = (dsstne.factorize(X, threads=threads, **known) for threads in (1, 3))
        for name in one.tensors:
            np.testing.assert_array_equal(one.tensor(name), three.tensor(name))
        for threads in (1, 2):
            np.testing.assert_array_equal(one.embed(X, threads=threads), three.embed(X, threads=3))
        other = dsstne.factorize(X, seed=1, **known)
        assert (other.tensor("factors") != one.tensor("factors")).any()


def test_the_model_recommends_saves_and_finds_similar_items(tmp_path):
    X = blocks()
    names = [f"item {n}" for n in range(60)]
    for method in ("ials", "explicit"):
        model = dsstne.factorize(X, method=method, factors=6, items=names, progress=False)
        ids, scores = model.recommend(X, k=3)
        if method == "ials":
            assert np.mean(ids % 6 == (np.arange(240) % 6)[:, None]) > 0.9
            similar = model.similar_items(np.arange(12), k=3)[0]
            assert np.mean(similar % 6 == (np.arange(12) % 6)[:, None]) > 0.9
        np.testing.assert_array_equal(np.take_along_axis(model.predict(X), ids, axis=1), scores)
        model.save(tmp_path / "factors.dsstne")
        again = dsstne.load(tmp_path / "factors.dsstne")
        np.testing.assert_array_equal(again.recommend(X, k=3)[0], ids)
        np.testing.assert_array_equal(again.embed(X), model.embed(X))
        assert list(again.items) == names
        assert again.same_items


def test_new_rows_get_their_factors_by_one_solve():
    X = blocks()
    model = dsstne.factorize(X, factors=8, regularization=0.003, progress=False)
    new = scipy.sparse.csr_array(([1.0, 1.0], [0, 6], [0, 2, 2]), shape=(2, 60))
    ids, _ = model.recommend(new, k=4)
    assert (ids[0] % 6 == 0).all()
    assert (model.embed(new)[1] == 0).all()
    assert (model.predict(new)[1] == 0).all()
    H = model.tensor("factors")
    A = 0.02 * H.T @ H + 0.003 * (2 + 0.02 * 60) * np.eye(8) + H[[0, 6]].T @ H[[0, 6]]
    np.testing.assert_allclose(model.embed(new)[0], np.linalg.solve(A, H[0] + H[6]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
def test_matrices_with_little_in_them_give_models(shape):
    for X in (scipy.sparse.csr_array(shape, dtype=np.float32), scipy.sparse.csr_array(np.ones(shape, np.float32))):
        for method in ("ials", "explicit"):
            model = dsstne.factorize(X, method=method, factors=1, progress=False)
            assert model.recommend(X, k=1, exclude_seen=False)[0].shape == (shape[0], 1)


def test_what_cannot_be_is_refused():
    X = weights()
    negative = X.copy()
    negative.data[5] = -1
    with pytest.raises(dsstne.InvalidDataError, match=r"row 1, column \d+: the value is -1; .*method=\"explicit\""):
        dsstne.factorize(negative, factors=4)
    model = dsstne.factorize(X, factors=4, progress=False)
    with pytest.raises(dsstne.InvalidDataError, match=r"a value of -1; .* must be positive"):
        model.recommend(negative)
    assert np.isfinite(dsstne.factorize(negative, method="explicit", factors=4).predict(negative)).all()
    bad = X.copy()
    bad.data[3] = np.nan
    with pytest.raises(dsstne.InvalidDataError, match=r"row 1, column \d+"):
        dsstne.factorize(bad, factors=4)
    with pytest.raises(dsstne.InvalidArgumentError, match="factors is 46; a matrix of 70 rows .* at most 45"):
        dsstne.factorize(X, factors=46)
    with pytest.raises(dsstne.InvalidArgumentError, match=r'"al".*did you mean "ials"|method.*ials'):
        dsstne.factorize(X, method="al", factors=4)
    for name in ("regularization", "alpha", "unobserved_weight"):
        with pytest.raises(dsstne.InvalidArgumentError, match=f"{name}.* a number above 0"):
            dsstne.factorize(X, factors=4, **{name: 0.0})
    with pytest.raises(dsstne.InvalidArgumentError, match="alpha is given, but ratings are no weights"):
        dsstne.factorize(X, method="explicit", factors=4, alpha=1.0)
    with pytest.raises(dsstne.OutOfMemoryError, match="memory_limit"):
        dsstne.factorize(X, factors=4, memory_limit=1000)
    with pytest.raises(dsstne.DeviceUnavailableError):
        dsstne.factorize(X, factors=4, devices="cuda:7")
    with pytest.raises(dsstne.NotFiniteError, match="the solution of a row's factors, row"):
        dsstne.factorize(scipy.sparse.csr_array(X * np.float32(1e38)), factors=4, regularization=1e-30)


def test_factors_and_squares_that_do_not_belong_together_are_refused():
    model = dsstne.factorize(weights(), factors=4, progress=False)
    model.set_tensor("factors", 2 * model.tensor("factors"))
    with pytest.raises(dsstne.InvalidDataError, match=r"squares\[0\] is .*; set both"):
        model.recommend(weights())


def test_a_time_limit_ends_the_computation_with_an_error():
    X = scipy.sparse.random_array((20_000, 5_000), density=0.01, format="csr", rng=0, dtype=np.float32)
    with pytest.raises(dsstne.CancelledError, match=r"ials did \d+ of \d+ steps within max_seconds=1e-06"):
        dsstne.factorize(X, factors=16, max_seconds=1e-6)


def test_factors_that_vanish_by_too_much_regularization_still_rank():
    X = blocks()
    model = dsstne.factorize(X, factors=4, regularization=50.0, unobserved_weight=0.5, progress=False)
    assert np.abs(model.tensor("factors")).max() < 1e-6
    assert np.isfinite(model.predict(X)).all()
