"""A dense matrix gives the results of the sparse one that stores what is not zero, and is not copied."""

import logging

import numpy as np
import pytest
import scipy.sparse
from test_dataset import address

import dsstne

RNG = np.random.default_rng(5)
RATINGS = (RNG.integers(1, 6, (90, 40)) * (RNG.random((90, 40)) < 0.4)).astype(np.float32)
TYPES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_dense_array_has_the_same_address_on_both_sides(dtype, caplog):
    X = RATINGS.astype(dtype)
    X.flags.writeable = False
    with caplog.at_level(logging.DEBUG, "dsstne"), dsstne.Dataset(X) as data:
        assert data.info["values"] == address(X)
        assert (data.info["value_bits"], data.info["index_bits"]) == (8 * X.itemsize, 0)
        assert (data.shape, data.nnz, data.nbytes) == (X.shape, np.count_nonzero(X), X.nbytes)
        assert (data.info["minimum"], data.info["maximum"]) == (1, X.max())
    assert not caplog.records


@pytest.mark.parametrize(
    "make", [np.asfortranarray, lambda X: X[::2], lambda X: X.astype(">f4"), np.float16, np.longdouble]
)
def test_other_arrays_are_copied_with_a_debug_message(make, caplog):
    X = make(RATINGS)
    with caplog.at_level(logging.DEBUG, "dsstne"), dsstne.Dataset(X) as data:
        assert np.array_equal(data[:].toarray(), np.asarray(X, np.float32))
    assert "copied" in caplog.text


@pytest.mark.parametrize("dtype", TYPES)
def test_a_dense_dataset_reads_as_a_sparse_one(dtype):
    X = RATINGS.astype(dtype)
    sparse = scipy.sparse.csr_array(X)
    with dsstne.Dataset(X) as dense, dsstne.Dataset(sparse) as wanted:
        assert dense._digest() == wanted._digest()
        assert np.array_equal(dense[[7, 3]].toarray(), wanted[[7, 3]].toarray())
        assert dense.column_counts().tolist() == wanted.column_counts().tolist()
        assert dense._is_within(wanted)
        assert wanted._is_within(dense)


@pytest.mark.parametrize("device", ["cpu:1", "cpu:2"])
@pytest.mark.parametrize("loss", ["sigmoid", {"kind": "squared", "stored_only": True}])
def test_training_on_dense_data_has_the_bits_of_sparse_data(device, loss):
    X = RATINGS if isinstance(loss, dict) else (RATINGS > 0).astype(np.float32)
    options = {"network": network(loss), "epochs": 2, "batch_size": 16, "devices": device, "seed": 3, "progress": False}
    dense, sparse = dsstne.fit(X, **options), dsstne.fit(scipy.sparse.csr_array(X), **options)
    for name in dense.tensors:
        assert np.array_equal(dense.tensor(name), sparse.tensor(name)), name
    assert np.array_equal(dense.predict(X), sparse.predict(scipy.sparse.csr_array(X)))
    for got, want in zip(dense.recommend(X, 5), sparse.recommend(scipy.sparse.csr_array(X), 5), strict=True):
        assert np.array_equal(got, want)
    metrics = [dsstne.evaluate(dense, *data, exclude=None) for data in ((X, X), 2 * (scipy.sparse.csr_array(X),))]
    assert dict(metrics[0]) == dict(metrics[1])


def network(loss):
    return {
        "layers": [
            {"name": "input", "kind": "input", "scaling": "l2", "denoising": 0.3},
            {"name": "hidden", "kind": "hidden", "size": 8},
            {"name": "output", "kind": "output"},
        ],
        "loss": loss,
    }


@pytest.mark.parametrize(("value", "words"), [(np.nan, "holds NaN"), (-np.inf, "holds -Inf"), (1e39, "too large")])
def test_bad_cells_are_named(value, words):
    X = RATINGS.astype(np.float64)
    X[17, 4] = value
    with pytest.raises(dsstne.InvalidDataError, match=f"row 17, column 4 .*{words}"):
        dsstne.Dataset(X)


def test_rows_that_were_changed_are_refused():
    X = np.zeros((3, 4), np.float32)
    with dsstne.Dataset(X) as data:
        X[1, 2] = 1
        with pytest.raises(dsstne.InvalidDataError, match="row 1 grew while it was read"):
            data[:]


def test_dense_arrays_may_be_empty_but_have_columns():
    with dsstne.Dataset(np.zeros((0, 3))) as data:
        assert (data.shape, data.nnz) == ((0, 3), 0)
    with pytest.raises(dsstne.InvalidArgumentError, match="columns"):
        dsstne.Dataset(np.zeros((3, 0)))


def test_a_mapped_array_is_read_where_it_is(tmp_path):
    np.save(tmp_path / "X.npy", RATINGS)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    with dsstne.Dataset(X) as data:
        assert data.info["values"] == address(X)
        data.save(tmp_path / "X.arrow")
    with dsstne.Dataset.open(tmp_path / "X.arrow") as data:
        assert np.array_equal(data[:].toarray(), RATINGS)


def test_arrow_lists_of_fixed_size_are_dense():
    pyarrow = pytest.importorskip("pyarrow")
    array = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(RATINGS.reshape(-1)), 40).slice(10, 20)
    with dsstne.Dataset(array, columns=40) as data:
        assert np.array_equal(data[:].toarray(), RATINGS[10:30])
        assert "dense; numbers of 32 bits" in data._repr_html_()
    with pytest.raises(dsstne.InvalidArgumentError, match="the rows have 40 cells, but columns is 41"):
        dsstne.Dataset(array, columns=41)
