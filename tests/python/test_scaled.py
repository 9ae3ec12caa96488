"""Dataset(X, scale=, offset=): values of stored integers."""

import numpy as np
import pytest
import scipy.sparse

import dsstne

f4 = np.float32
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


def integers(dtype, rows=60, columns=20):
    random = np.random.default_rng(0)
    cells = random.integers(0, 100, (rows, columns)) * (random.random((rows, columns)) < 0.3)
    return cells.astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_values_of_a_sparse_matrix_are_those_of_its_stored_integers(dtype):
    X = scipy.sparse.csr_array(integers(dtype))
    expected = X.astype(f4)
    expected.data = (X.data * (1 / 256) - 0.25).astype(f4)
    expected.eliminate_zeros()
    with dsstne.Dataset(X, scale=1 / 256, offset=-0.25) as data:
        assert data.info["value_bits"] == 8 * X.dtype.itemsize
        assert (data.info["minimum"], data.info["maximum"]) == (expected.data.min(), expected.data.max())
        assert np.array_equal(data[:].toarray(), expected.toarray())
        assert np.array_equal(data.to_scipy().toarray(), expected.toarray())


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_zero_in_a_dense_matrix_is_decided_behind_the_scale(dtype):
    X = integers(dtype)
    X[3, :5] = 64
    values = (X * (1 / 256) - 0.25).astype(f4)
    with dsstne.Dataset(X, scale=1 / 256, offset=-0.25) as data:
        assert data.nnz == np.count_nonzero(values) < values.size
        assert data.nbytes == X.nbytes
        assert np.array_equal(data[:].toarray(), values)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_training_has_the_bits_of_the_same_values_in_float32(form):
    X = form(integers("u1"))
    options = {"hidden": [5], "loss": "squared", "epochs": 2, "progress": False, "seed": 3}
    floats = X.astype(f4) * f4(1 / 256)
    with dsstne.fit(floats, floats, **options) as other, dsstne.Dataset(X, scale=1 / 256) as data:
        model = dsstne.fit(data, data, **options)
        assert model.history[-1]["loss"] == other.history[-1]["loss"]
        assert np.array_equal(model.predict(data), other.predict(floats))


def test_rows_by_number_have_the_scale():
    X, index = integers("i2"), np.array([3, 0, 3], np.int32)
    expected = (X * 0.5)[index].astype(f4)
    with dsstne.Dataset(X, scale=0.5, index=index) as data:
        assert np.array_equal(data[:].toarray(), expected)
    with dsstne.Dataset(X, scale=0.5) as data, dsstne.Dataset(data, index=index) as rows:
        assert np.array_equal(rows[:].toarray(), expected)


def test_a_saved_file_has_the_values(tmp_path):
    X = integers("u1")
    with dsstne.Dataset(X, scale=3, offset=1) as data:
        data.save(tmp_path / "data.arrow")
        digest = data._digest()
    with dsstne.Dataset.open(tmp_path / "data.arrow") as data:
        assert np.array_equal(data[:].toarray(), 3 * X.astype(f4) + 1)
        assert data._digest() == digest


def test_stored_zeros_are_targets_with_the_offset():
    X = scipy.sparse.csr_array((np.zeros(3, np.uint8), [0, 1, 2], [0, 2, 3]), shape=(2, 4))
    with dsstne.Dataset(X, offset=2) as data:
        assert data[:].toarray().tolist() == [[2, 2, 0, 0], [0, 0, 2, 0]]


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.eye(2), {"scale": 2}, "scale and offset are for integers, and the matrix has values of another type"),
        (np.eye(2, dtype=f4), {"offset": 1}, "scale and offset are for integers"),
        (np.eye(2, dtype=bool), {"scale": 2}, "scale and offset are for integers, and the matrix is of booleans"),
        (scipy.sparse.eye_array(2, format="csr"), {"scale": 2}, "scale and offset are for integers"),
        (scipy.sparse.eye_array(2, format="csr", dtype=bool), {"scale": 2}, "scale and offset are for integers"),
        (np.eye(2, dtype=int), {"scale": 0}, "scale is 0"),
        (np.eye(2, dtype=int), {"scale": "2"}, "scale must be a number, not '2'"),
        (np.eye(2, dtype=int), {"offset": None}, "offset must be a number, not None"),
        (np.eye(2, dtype=int), {"scale": np.nan}, "scale"),
        (np.eye(2, dtype=int), {"offset": 10**400}, "offset is 10+.*, which is too large"),
        (np.eye(2, dtype=int), {"scale": 1e300}, "row 0, column 0 holds 1e[+]300, which is too large for float32"),
        (dsstne.Dataset(np.eye(2, dtype=int)), {"scale": 2}, "X is a Dataset already"),
        (dsstne.Dataset(np.eye(2, dtype=int)), {"scale": 2, "index": [0]}, "give columns, allow_not_finite, scale"),
    ],
)
def test_what_cannot_be_scaled_is_refused(X, options, message):
    with pytest.raises((dsstne.InvalidArgumentError, dsstne.InvalidDataError), match=message):
        dsstne.Dataset(X, **options)


def test_rows_in_memory_are_not_offered_with_their_stored_integers():
    data = dsstne.Dataset(integers("u1"), scale=2)
    with pytest.raises(dsstne.UnsupportedError, match="has an index or a scale"):
        data._in_memory("X")
