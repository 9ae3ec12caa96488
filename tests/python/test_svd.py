"""svd(), compared with LAPACK's in float64."""

import time

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne


def random(rows, columns, density=0.1, seed=0):
    return scipy.sparse.random_array((rows, columns), density=density, format="csr", rng=seed, dtype=np.float32)


def exact(X):
    return np.linalg.svd(X.toarray().astype(np.float64), full_matrices=False)


def check(X, k, u, s, vt, values, tolerance=2e-6):
    """Orthonormal vectors, values as they should be, and residuals in both directions."""
    assert [a.shape for a in (u, s, vt)] == [(X.shape[0], k), (k,), (k, X.shape[1])]
    assert all(a.dtype == np.float32 for a in (u, s, vt))
    X, u, s, vt = X.toarray().astype(np.float64), *(a.astype(np.float64) for a in (u, s, vt))
    for gram in (u.T @ u, vt @ vt.T):
        np.testing.assert_allclose(gram, np.eye(k), atol=5e-6)
    size = max(values[0], 1e-30)
    np.testing.assert_allclose(s, values[:k], atol=tolerance * size)
    assert np.linalg.norm(X.T @ u - vt.T * s, axis=0).max() <= 3 * tolerance * size
    assert np.linalg.norm(X @ vt.T - u * s, axis=0).max() <= 3 * tolerance * size


@pytest.mark.long
@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (64, 64), (65, 500), (500, 130), (1000, 900)])
@pytest.mark.parametrize("k", [1, 5, 64])
def test_singular_values_and_vectors_are_those_of_lapack(shape, k):
    X = random(*shape)
    check(X, k, *dsstne.svd(X, k, iterations=60), exact(X)[1])


def test_all_of_them_can_be_asked_for():
    for X in (random(150, 90), random(90, 150), random(7, 3, 0.9), random(1, 1, 1.0)):
        k = min(X.shape)
        check(X, k, *dsstne.svd(X, k), exact(X)[1])


@pytest.mark.parametrize("name", ["identity", "blocks", "rank 3", "zero", "repeated rows", "falling values"])
def test_special_matrices_have_orthonormal_vectors(name):
    random = np.random.default_rng(1)
    dense = {
        "identity": np.eye(300),
        "blocks": blocks().toarray(),
        "rank 3": random.normal(size=(200, 3)) @ random.normal(size=(3, 150)),
        "zero": np.zeros((80, 70)),
        "repeated rows": np.repeat(random.random((5, 400)) < 0.1, 60, axis=0),
        "falling values": np.linalg.qr(random.normal(size=(200, 200)))[0] * 10.0 ** -np.linspace(0, 5, 200),
    }[name]
    X = scipy.sparse.csr_array(dense.astype(np.float32))
    check(X, 20, *dsstne.svd(X, 20, iterations=5), exact(X)[1], 5e-6)


def test_the_signs_are_those_of_the_largest_numbers():
    vt = dsstne.svd(random(200, 100), 10)[2]
    assert (vt[np.arange(10), np.abs(vt).argmax(axis=1)] > 0).all()


def test_threads_and_the_form_of_the_matrix_change_no_bit():
    X = random(3000, 900, 0.02)
    expected = dsstne.svd(X, 70, iterations=2, seed=5, threads=1)
    for options in ({"threads": 2}, {"threads": 3}):
        for a, b in zip(dsstne.svd(X, 70, iterations=2, seed=5, **options), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(dsstne.svd(dsstne.Dataset(X.tocsc()), 70, iterations=2, seed=5), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.long
def test_more_iterations_and_a_larger_basis_come_closer():
    X = random(2000, 1500, 0.01)
    values = np.linalg.svd(X.toarray().astype(np.float64), compute_uv=False)[:40]

    def error(**options):
        return np.abs(dsstne.svd(X, 40, **options)[1] - values).max()

    assert error(iterations=8) < 0.1 * error()
    assert error(oversampling=400) < 0.1 * error()
    assert error(iterations=20) < 1e-5 * values[0]


def test_what_cannot_be_is_refused():
    X = random(30, 20)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"21 singular values .*; a matrix \[30, 20\] has 20"):
        dsstne.svd(X, 21)
    for options in ({"k": 0}, {"k": 2, "iterations": 0}, {"k": 2, "oversampling": 0}, {"k": 2, "seed": -1}):
        with pytest.raises(dsstne.InvalidArgumentError):
            dsstne.svd(X, **options)
    X.data[3] = np.nan
    with pytest.raises(dsstne.InvalidDataError):
        dsstne.svd(X, 2)
    with pytest.raises(dsstne.NotFiniteError, match="too large for float32: scale the data"):
        dsstne.svd(random(30, 20) * np.float32(1e25), 2)


def test_limits_of_memory_and_time_are_kept():
    X = random(4000, 3000, 0.01)
    with pytest.raises(dsstne.OutOfMemoryError, match="basis"):
        dsstne.svd(X, 100, memory_limit=1_000_000)
    start = time.monotonic()
    with pytest.raises(dsstne.CancelledError, match="steps within max_seconds"):
        dsstne.svd(X, 500, iterations=1000, max_seconds=0.01)
    assert time.monotonic() - start < 10
