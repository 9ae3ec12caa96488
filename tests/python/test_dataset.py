"""Matrices reach the engine without a copy, unchanged, whatever they are."""

import ctypes
import gc
import logging
import weakref

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne
from dsstne import _handles, _native


def address(array):
    return array.__array_interface__["data"][0]


def parts(X):
    return X.indptr.tobytes(), X.indices.tobytes(), X.data.tobytes(), X.shape


def with_types(X, offsets=np.int32, indices=np.int32, values=np.float32):
    """The same matrix with arrays of the given types, which SciPy would otherwise choose itself."""
    made = scipy.sparse.csr_array(X.shape, dtype=np.float32)
    made.indptr, made.indices = X.indptr.astype(offsets), X.indices.astype(indices)
    made.data = X.data.astype(values)
    return made


@pytest.mark.parametrize("offsets", [np.int32, np.int64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("values", [np.float32, np.float64])
def test_arrays_have_the_same_address_on_both_sides(X, offsets, indices, values, caplog):
    made = with_types(X, offsets, indices, values)
    with caplog.at_level(logging.DEBUG, "dsstne"), dsstne.Dataset(made) as data:
        assert data.info["offsets"] == address(made.indptr)
        assert data.info["indices"] == address(made.indices)
        assert data.info["values"] == address(made.data)
        assert data.info["offset_bits"] == made.indptr.itemsize * 8
        assert data.info["index_bits"] == made.indices.itemsize * 8
        assert data.info["value_bits"] == made.data.itemsize * 8
    assert not caplog.records


def test_shape_entries_and_range_are_told(X):
    with dsstne.Dataset(X) as data:
        assert data.shape == X.shape
        assert data.nnz == X.nnz
        assert (data.info["minimum"], data.info["maximum"]) == (1, 1)
        assert data.nbytes >= X.indices.nbytes + X.data.nbytes
        assert repr(data) == f"Dataset(240 x 60, {X.nnz:,} stored)"


@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_both_csr_containers_are_taken_as_they_are(X, container):
    made = container(X)
    with dsstne.Dataset(made) as data:
        assert data.info["indices"] == address(made.indices)


def test_boolean_matrix_needs_no_values(X):
    made = X.astype(bool)
    with dsstne.Dataset(made) as data:
        assert data.info["value_bits"] == 0
        assert data.info["indices"] == address(made.indices)


def test_stored_false_does_not_count_as_one():
    made = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1]], bool))
    made.data[[1, 3]] = False
    with dsstne.Dataset(made) as data:
        assert data.nnz == 2
        assert data.column_counts().tolist() == [1, 1, 0]


def test_stored_zeros_do_not_count():
    made = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1]], np.float32))
    made.data[1] = 0
    assert dsstne.popularity(made).tensor("bias").tolist() == [1, 1, 1]


def test_read_only_arrays_are_taken_as_they_are(X):
    made = X.copy()
    for array in (made.indptr, made.indices, made.data):
        array.flags.writeable = False
    with dsstne.Dataset(made) as data:
        assert data.info["values"] == address(made.data)


@pytest.mark.parametrize(
    ("change", "dtype"),
    [("offsets", t) for t in (">i4", "u2", "i2", ">u8")]
    + [("indices", t) for t in (">i4", "u2", "i2", "u8", "u1")]
    + [("values", t) for t in (">f8", ">f4", ">f2", "g", ">i4")],
)
def test_odd_types_are_converted_with_a_debug_message(X, change, dtype, caplog):
    scaled = X * 2 if change == "values" else X
    made = with_types(scaled, **{change: dtype})
    before = parts(made)
    with caplog.at_level(logging.DEBUG, "dsstne"), dsstne.Dataset(made) as data:
        assert data.shape == X.shape
        assert data.info["maximum"] == (2 if change == "values" else 1)
        assert data.column_counts().tolist() == X.sum(axis=0).tolist()
    assert caplog.records
    assert parts(made) == before


@pytest.mark.parametrize("convert", ["tocsc", "tocoo", "tolil"])
def test_other_containers_are_converted_with_a_debug_message(X, convert, caplog):
    with caplog.at_level(logging.DEBUG, "dsstne"), dsstne.Dataset(getattr(X, convert)()) as data:
        assert data.column_counts().tolist() == X.sum(axis=0).tolist()
    assert "compressed rows" in caplog.text


def test_spare_room_behind_the_entries_is_ignored(X):
    made = scipy.sparse.csr_array(X.shape, dtype=np.float32)
    made.indptr = X.indptr
    made.indices, made.data = (
        np.append(X.indices, [10**6]).astype(np.int32),
        np.append(X.data, np.nan).astype(np.float32),
    )
    with dsstne.Dataset(made) as data:
        assert data.nnz == X.nnz


def test_rows_of_a_larger_buffer_are_taken_as_they_are(X, model):
    part = scipy.sparse.csr_array((100, X.shape[1]), dtype=np.float32)
    part.indptr, part.indices, part.data = X.indptr[50:151], X.indices, X.data
    assert part.indptr[0] > 0
    with dsstne.Dataset(part) as data:
        assert data.nnz == X[50:150].nnz
        assert data.info["indices"] == address(X.indices)
        ids, scores = model.recommend(data, k=5)
    expected = model.recommend(X, k=5, rows=np.arange(50, 150))
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


def test_unsorted_rows_and_duplicates_mean_their_sum(model, X):
    shuffled, doubled = X.copy(), scipy.sparse.csr_array(X.shape, dtype=np.float32)
    for row in range(X.shape[0]):
        shuffled.indices[X.indptr[row] : X.indptr[row + 1]] = X.indices[X.indptr[row] : X.indptr[row + 1]][::-1]
    doubled.indptr, doubled.indices = X.indptr * 2, np.repeat(X.indices, 2)
    doubled.data = np.repeat(X.data / 2, 2)
    for other in (shuffled, doubled):
        before = parts(other)
        np.testing.assert_array_equal(model.predict(other), model.predict(X))
        assert parts(other) == before


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_duplicates_of_numbers_count_as_their_sum_whatever_the_numbers(model, dtype):
    once, doubled = (scipy.sparse.csr_array((1, 60), dtype=np.float32) for _ in range(2))
    once.indptr, once.indices, once.data = np.array([0, 2]), np.array([3, 5]), np.array([2.0, 1.0])
    doubled.indptr, doubled.indices, doubled.data = np.array([0, 3]), np.array([3, 5, 3]), np.ones(3, dtype)
    np.testing.assert_array_equal(model.predict(doubled), model.predict(once))


def test_boolean_duplicates_count_once(model):
    once, doubled = (scipy.sparse.csr_array((1, 60), dtype=bool) for _ in range(2))
    once.indptr, once.indices, once.data = np.array([0, 2]), np.array([3, 5]), np.ones(2, bool)
    doubled.indptr, doubled.indices, doubled.data = np.array([0, 3]), np.array([3, 5, 3]), np.ones(3, bool)
    np.testing.assert_array_equal(model.predict(doubled), model.predict(once))


@pytest.mark.parametrize(("dtype", "bits"), [("i1", 8), ("u2", 16), ("i4", 32), ("u4", 32), ("i8", 64), ("f2", 16)])
def test_values_keep_the_type_in_which_they_are_stored(dtype, bits):
    largest = np.iinfo(dtype).max if dtype in ("i1", "u2", "i4", "u4") else 1000
    made = scipy.sparse.csr_array((1, 3), dtype=np.float32)
    made.indptr, made.indices, made.data = np.array([0, 1]), np.array([2]), np.array([largest], dtype)
    with dsstne.Dataset(made) as data:
        assert (data.info["value_bits"], data.info["maximum"]) == (bits, largest)


def test_nothing_is_mutated_by_any_call(X):
    made = X.copy()
    before = parts(made)
    with pytest.warns(UserWarning, match="excluded as seen"):  # which compares the matrices
        model = dsstne.fit(made, hidden=[4], epochs=1, validation=made.copy(), progress=False)
    model.recommend(made, exclude=made)
    model.predict(made)
    dsstne.evaluate(model, made, made, exclude=None)
    dsstne.popularity(made)
    assert parts(made) == before
    assert made.has_sorted_indices


def test_arrow_arrays_are_taken_without_a_copy(X, model):
    pyarrow = pytest.importorskip("pyarrow")
    values = pyarrow.array(X.data)
    entries = pyarrow.StructArray.from_arrays([pyarrow.array(X.indices), values], names=["item", "count"])
    lists = pyarrow.ListArray.from_arrays(pyarrow.array(X.indptr), entries)
    with dsstne.Dataset(lists, columns=X.shape[1]) as data:
        assert data.shape == X.shape
        assert data.info["values"] == values.buffers()[1].address
        np.testing.assert_array_equal(model.recommend(data)[0], model.recommend(X)[0])


def test_sliced_arrow_arrays_mean_their_slice(X, model):
    pyarrow = pytest.importorskip("pyarrow")
    lists = pyarrow.LargeListArray.from_arrays(pyarrow.array(X.indptr.astype(np.int64)), pyarrow.array(X.indices))
    with dsstne.Dataset(lists.slice(7, 20), columns=X.shape[1]) as data:
        assert data.info["value_bits"] == 0
        np.testing.assert_array_equal(model.recommend(data)[0], model.recommend(X[7:27])[0])


@pytest.mark.long
def test_arrow_memory_is_given_back():
    pyarrow = pytest.importorskip("pyarrow")
    gc.collect()
    before = pyarrow.total_allocated_bytes()
    for _ in range(3):
        lists = pyarrow.array([[0, 1], [1]] * 500, type=pyarrow.list_(pyarrow.int32()))
        dsstne.Dataset(lists, columns=3).close()
        del lists
    gc.collect()
    assert pyarrow.total_allocated_bytes() == before


def test_arrow_data_needs_its_columns():
    pyarrow = pytest.importorskip("pyarrow")
    lists = pyarrow.array([[0]], type=pyarrow.list_(pyarrow.int32()))
    for use in (dsstne.Dataset, dsstne.fit, dsstne.popularity):
        with pytest.raises(dsstne.InvalidArgumentError, match=r"give dsstne\.Dataset\(array, columns="):
            use(lists)


def test_arrow_data_in_pieces_is_refused_with_a_remedy():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"items": pyarrow.array([[0, 2], [1]], type=pyarrow.list_(pyarrow.int32()))})
    for pieces in (table, table["items"]):
        with pytest.raises(dsstne.InvalidArgumentError, match=r"which may be in several chunks.*combine_chunks\(\)"):
            dsstne.Dataset(pieces, columns=3)
    with dsstne.Dataset(table["items"].combine_chunks(), columns=3) as data:
        assert data.shape == (2, 3)


def test_arrow_data_of_another_kind_is_refused_and_released():
    pyarrow = pytest.importorskip("pyarrow")
    for lists in (pyarrow.array(["a"]), pyarrow.array([[0], None], type=pyarrow.list_(pyarrow.int32()))):
        with pytest.raises(dsstne.DsstneError):
            dsstne.Dataset(lists, columns=3)


def test_an_object_that_breaks_the_capsule_interface_is_refused():
    class Broken:
        def __arrow_c_array__(self):
            return 1, 2

    with pytest.raises(dsstne.InvalidDataError, match="did not return a schema and an array"):
        dsstne.Dataset(Broken(), columns=3)


def test_a_dataset_serves_many_calls(X, model):
    with dsstne.Dataset(X) as data:
        np.testing.assert_array_equal(model.recommend(data)[0], model.recommend(X)[0])
        fitted = dsstne.fit(data, hidden=[4], epochs=1, validation=(data, X[::-1]), progress=False)
        dsstne.evaluate(fitted, data, data, exclude=None)
        assert not data.closed
    assert data.closed


def test_closing_is_refused_while_a_trainer_is_bound_and_succeeds_afterwards(X, model):
    data = dsstne.Dataset(X)
    trainer = dsstne.Trainer(model, data)
    with pytest.raises(dsstne.BusyError):
        data.close()
    assert not data.closed
    trainer.close()
    data.close()
    data.close()
    assert data.closed


def test_using_a_closed_dataset_is_an_error(X, model):
    data = dsstne.Dataset(X)
    data.close()
    with pytest.raises(dsstne.InvalidHandleError, match="closed"):
        model.recommend(data)


def test_arrays_live_as_long_as_the_dataset():
    data = dsstne.Dataset(blocks(seed=3))
    gc.collect()
    np.empty(10**6)[:] = 7  # would reuse freed memory
    assert dsstne.popularity(data).recommend(data, k=1)[0].shape == (240, 1)
    data.close()


@pytest.mark.parametrize("make", [dsstne.Dataset, lambda X: dsstne.Dataset.product(X, np.eye(60))])
def test_a_closed_dataset_refers_to_no_matrix(make):
    X = dsstne.Interactions(blocks())
    alive = weakref.ref(X)
    data = make(X)
    del X
    assert alive() is not None
    data.close()
    assert alive() is None
    with pytest.raises(dsstne.InvalidHandleError, match="closed"):
        data.item_names  # noqa: B018


def test_whatever_order_the_collector_takes_all_memory_is_given_back(X, model):
    data = dsstne.Dataset(X)
    trainer = dsstne.Trainer(model, data)
    values = {"dataset_get_info": data._handle.value, "trainer_plan": trainer._handle.value}
    cycle = [data, trainer]
    cycle.append(cycle)
    del data, trainer, cycle
    gc.collect()
    _handles.close_abandoned()
    assert not _handles._abandoned
    info = _native.DatasetInfoStruct(struct_size=ctypes.sizeof(_native.DatasetInfoStruct))
    with pytest.raises(dsstne.InvalidHandleError):
        _native.call("dataset_get_info", values["dataset_get_info"], ctypes.byref(info))
    with pytest.raises(dsstne.InvalidHandleError):
        _native.call_json("trainer_plan", values["trainer_plan"])


def test_a_dataset_does_not_pickle(X):
    import pickle

    with dsstne.Dataset(X) as data, pytest.raises(TypeError, match="pass on the matrix"):
        pickle.dumps(data)


def test_memory_changed_under_our_feet_is_an_error_not_a_crash(X):
    made = X.copy()
    model = dsstne.fit(made, hidden=[4], epochs=0, progress=False)
    with dsstne.Dataset(made) as data:
        made.indices[5] = 10**9
        with pytest.raises(dsstne.InvalidDataError):
            model.recommend(data)
        with dsstne.Trainer(model, data) as trainer, pytest.raises(dsstne.InvalidDataError):
            trainer.run(epochs=1)
        made.indices[5] = X.indices[5]
        made.indptr[3] = 10**9
        with pytest.raises(dsstne.InvalidDataError):
            model.recommend(data)


def test_the_matrix_of_a_dataset_can_be_used_without_changing_the_callers():
    X = scipy.sparse.csr_array(([1.0, 5.0, 5.0, 4.0], [1, 0, 0, 1], [0, 3, 4]), shape=(2, 3))  # unsorted, one twice
    before, data = X.toarray(), dsstne.Dataset(X)
    matrix = data.to_scipy()
    assert (matrix.max(), (matrix != 0).nnz) == (10, 3)  # which SciPy computes of sorted rows
    np.testing.assert_array_equal(X.toarray(), before)
    np.testing.assert_array_equal(matrix.toarray(), data[:].toarray())
