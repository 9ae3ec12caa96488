"""A dataset with an index has the bits of the matrix with the chosen rows, and stores each row once."""

import copy
import logging
import pickle

import numpy as np
import pyarrow
import pytest
import scipy.sparse
from emulated import PROGRAM
from matrices import blocks, valued

import dsstne

TYPES = (np.int32, np.int64, np.uint32)


def chosen(rows=240, n=500, seed=1, dtype=np.int64):
    return np.random.default_rng(seed).integers(0, rows, n).astype(dtype)


def dense(seed=4):
    return np.random.default_rng(seed).integers(0, 3, (240, 20)).astype(np.uint8)


def weights(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


def same(left, right):
    assert left.shape == right.shape
    assert (left != right).nnz == 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("X", [blocks(), valued(), blocks().astype(bool), dense()])
def test_rows_are_those_that_the_index_names(X, dtype):
    index = chosen(dtype=dtype)
    with dsstne.Dataset(X, index=index) as data, dsstne.Dataset(X[index]) as expanded:
        assert (data.shape, data.nnz) == (expanded.shape, expanded.nnz)
        assert data.nbytes < expanded.nbytes + index.nbytes
        same(data[:], expanded[:])
        same(data[[7, 3, 7]], expanded[[7, 3, 7]])
        assert data._digest() == expanded._digest()
        assert data.column_counts().tolist() == expanded.column_counts().tolist()
        assert "row numbers" in str(data)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_index_is_not_copied(dtype):
    index = np.array([0, 1], dtype)
    with dsstne.Dataset(blocks(), index=index) as data:
        index[0] = 5
        same(data[:], dsstne.Dataset(blocks())[[5, 1]])


@pytest.mark.parametrize(
    "index", [[3, 1], range(4), np.array([3, 1], np.uint8), np.arange(10)[::-2], [], np.array([2], ">i8")]
)
def test_other_integers_are_converted(index):
    with dsstne.Dataset(blocks(), index=index) as data:
        same(data[:], dsstne.Dataset(blocks())[list(index)])


@pytest.mark.parametrize("devices", ["cpu", "cpu:4", "cpu:2"])
@pytest.mark.parametrize("parallel", ["model", "data"])
@pytest.mark.parametrize("X", [valued(), dense().astype(np.float32)])
def test_training_and_predicting_have_the_bits_of_the_expanded_matrix(devices, parallel, X):
    index = chosen()
    options = {"hidden": [8], "loss": "squared", "epochs": 2, "batch_size": 64, "seed": 3, "progress": False}
    options |= {"devices": devices, "parallel": parallel, "denoising": 0.2}
    with dsstne.Dataset(X, index=index) as data:
        got, want = dsstne.fit(data, **options), dsstne.fit(X[index], **options)
        assert weights(got) == weights(want)
        for call in (
            lambda given: np.concatenate([part.ravel() for part in got.recommend(given, k=3)]),
            got.predict,
            lambda given: got.embed(given),
        ):
            assert np.asarray(call(data)).tobytes() == np.asarray(call(X[index])).tobytes()
        held = blocks(seed=8)[:, : X.shape[1]]
        with dsstne.Dataset(held, index=index) as out:
            assert dsstne.evaluate(got, data, out) == dsstne.evaluate(got, X[index], held[index])


def test_a_checkpoint_goes_on_with_the_expanded_matrix(tmp_path):
    X, index = valued(), chosen()
    options = {"batch_size": 64, "seed": 3}
    ended = []
    with dsstne.Dataset(X, index=index) as data:
        for given in (data, X[index]):
            model = dsstne.fit(X, hidden=[8], loss="squared", epochs=0, seed=1, progress=False)
            with dsstne.Trainer(model, given, **options) as trainer:
                trainer.run(steps=5)
                trainer.save(tmp_path / "run.checkpoint")
                trainer.run(steps=5)
            with dsstne.Trainer.resume(tmp_path / "run.checkpoint", X[index]) as trainer:
                trainer.run(steps=5)
                ended += [weights(model), weights(trainer.model)]
    assert all(one == ended[0] for one in ended)


def test_an_index_of_a_dataset_a_file_a_product_and_an_index(tmp_path):
    X, F, index = valued(), blocks(60, 30, seed=2), chosen(n=300)
    with dsstne.Dataset(X) as whole:
        whole.save(tmp_path / "saved.arrow", items=[f"i{n}" for n in range(60)], rows=[f"r{n}" for n in range(240)])
    product = dsstne.Dataset.product(X, F)
    once = dsstne.Dataset(X, index=np.arange(240)[::-1])
    for base in (dsstne.Dataset(X), dsstne.Dataset.open(tmp_path / "saved.arrow"), product, once):
        expected = base[:][index]
        data = dsstne.Dataset(base, index=index)
        same(data[:], expected)
        data.save(tmp_path / "copy.arrow")
        with dsstne.Dataset.open(tmp_path / "copy.arrow") as copy:
            same(copy[:], expected)
        with pytest.raises(dsstne.BusyError):
            base.close()
        if base._path is not None:
            assert data.item_names.tolist() == [f"i{n}" for n in range(60)]
            assert data.row_names.tolist() == [f"r{n}" for n in index]
            again = pickle.loads(pickle.dumps(data))
            same(again[:], expected)
            again.close()
        else:
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(data)
        data.close()
        base.close()


def test_names_follow_interactions():
    pairs = scipy.sparse.csr_array(np.eye(3, 4))
    table = dsstne.Interactions(pairs, row_names=list("xyz"), item_names=list("abcd"))
    with dsstne.Dataset(table, index=[2, 2, 0]) as data:
        assert (data.item_names.tolist(), data.row_names.tolist()) == (list("abcd"), list("zzx"))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 240], r"index\[1\] is 240, but the matrix has 240 rows"),
        ([0, 1, -1], r"index\[2\] is -1, but"),
        (np.array([2**32 - 1], np.uint32), r"index\[0\] is 4294967295, but"),
        (np.array([2**63], np.uint64), "not a possible index"),
        ([0.5], "expected integers"),
        ([True, False], "expected integers"),
        (["a"], "expected integers"),
        ([[0, 1]], "index has 2 dimensions"),
        (3, "index has 0 dimensions"),
    ],
)
def test_an_index_that_names_no_row_is_refused(index, message):
    with dsstne.Dataset(blocks()) as base:
        for X in (blocks(), base):
            with pytest.raises(dsstne.InvalidArgumentError, match=message):
                dsstne.Dataset(X, index=index)
    assert base.closed


def test_options_of_an_open_dataset_are_its_own():
    with dsstne.Dataset(blocks()) as base:
        for option in ({"columns": 60}, {"allow_not_finite": True}):
            with pytest.raises(dsstne.InvalidArgumentError, match="is a Dataset already"):
                dsstne.Dataset(base, index=[0], **option)
    with pytest.raises(dsstne.InvalidHandleError):
        dsstne.Dataset(base, index=[0])


@pytest.mark.parametrize("number", [-1, 240, 2**31 - 1])
def test_an_index_that_changes_is_an_error(number):
    index = np.arange(240, dtype=np.int32)
    data = dsstne.Dataset(blocks(), index=index)
    options = {"hidden": [4], "batch_size": 32, "seed": 1, "progress": False}
    with dsstne.Trainer(dsstne.fit(data, epochs=1, **options), data, batch_size=32, devices="cpu") as trainer:
        trainer.run(steps=2)
        index[:] = number
        with pytest.raises(dsstne.InvalidDataError, match="the index must not be changed"):
            trainer.run(steps=20)
    with pytest.raises(dsstne.InvalidDataError, match=rf"index\[5\] became {number}"):
        data[[5]]
    with pytest.raises(dsstne.InvalidDataError, match="the index must not be changed"):
        data.column_counts()
    data.close()


def test_calls_that_need_the_rows_in_memory_refuse_an_index():
    with (
        dsstne.Dataset(blocks(), index=[0, 1]) as data,
        pytest.raises(dsstne.UnsupportedError, match="has an index"),
    ):
        dsstne.tfidf_weight(data)


def test_memory_does_not_grow_with_the_chosen_rows():
    X, index = valued(), np.zeros(200_000, np.uint32)
    network = {"hidden": [4], "batch_size": 64, "loss": "squared"}
    with dsstne.Dataset(X, index=index) as data:
        assert data.nbytes - index.nbytes == dsstne.Dataset(X).nbytes
        model = dsstne.fit(X, epochs=1, progress=False, seed=1, **network)
        with dsstne.Trainer(model, data, batch_size=64, devices="cpu") as trainer:
            held = sum(part["bytes"] for part in trainer.plan()["parts"] if part["name"] == "data")
        assert held == data.nbytes


@pytest.mark.long
def test_devices_keep_each_row_once(emulated):
    emulated(
        PROGRAM
        + """
X = matrix(64, 80, 0.2, ones=False)
index = np.random.default_rng(1).integers(0, 64, 1500).astype(np.uint32)
for given in (X, X.toarray()):
    for options in (dict(devices="cuda:0"), dict(devices=devices_of(2)), dict(devices=devices_of(2), parallel="data")):
        kept, models = [], []
        data = dsstne.Dataset(given, index=index)
        for dataset in (data, given[index]):
            model = untrained(X, hidden=[16])
            with dsstne.Trainer(model, dataset, batch_size=20, optimizer="momentum", seed=5, **options) as trainer:
                plan = trainer.plan()
                copies = [part for part in plan["parts"] if part["name"] == "data" and "copy of" in part["of"]]
                kept.append(sum(part["bytes"] for part in copies))
                assert any("Assemble" in text for text in plan["operations"]), plan["operations"]
                trainer.run(steps=9)
            models.append((tensors(model), model.recommend(dataset, k=3, rows=range(0, 1500, 50), devices="cuda:0")))
        assert same(models[0][0], models[1][0])
        assert all((a == b).all() for a, b in zip(models[0][1], models[1][1]))
        assert 5 * kept[0] < kept[1], kept
        data.close()
index[:] = 0
data = dsstne.Dataset(X, index=index)
model = untrained(X, hidden=[16])
with dsstne.Trainer(model, data, batch_size=20, devices="cuda:0") as trainer:
    index[77] = 64
    error = fails(lambda: trainer.run(steps=1), dsstne.InvalidDataError)
    assert "index[77] became 64" in str(error), error
"""
    )


@pytest.mark.parametrize("offsets", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("columns", TYPES)
@pytest.mark.parametrize(
    "values",
    ["float16", "float32", "float64", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))],
)
def test_arrays_are_viewed_as_they_are_stored(offsets, columns, values, caplog):
    caplog.set_level(logging.DEBUG, "dsstne")
    X = valued()
    parts = [X.indptr.astype(offsets), X.indices.astype(columns), X.data.astype(values)]
    plain = X.data.astype(bool if values == "bool" else np.float32)
    reference = scipy.sparse.csr_array((plain, X.indices, X.indptr), shape=X.shape)
    with dsstne.Dataset.from_csr(*parts, columns=60) as data, dsstne.Dataset(reference) as expected:
        assert (data.nnz, data.info["minimum"], data.info["maximum"]) == (
            expected.nnz,
            expected.info["minimum"],
            expected.info["maximum"],
        )
        assert not caplog.records
        same(data[:], expected[:])
        if values != "bool":
            parts[2][0] = 7  # of row 0, whose first column is another's, too
            X.data[0] = 7
        parts[1][1] = 59
        X.indices[1] = 59
        X.data = X.data.astype(plain.dtype)
        same(data[[0]], dsstne.Dataset(X)[[0]])
        assert data.info["index_bits"] == 8 * parts[1].itemsize


@pytest.mark.parametrize("values", [np.int8, np.uint16, np.int64, np.float16])
def test_training_on_stored_types_has_the_bits_of_float32(values, emulated):
    X = valued()
    Y = scipy.sparse.csr_array(X.shape, dtype=np.float32)
    Y.indptr, Y.indices, Y.data = X.indptr, X.indices, X.data
    options = {"hidden": [8], "loss": "squared", "epochs": 2, "batch_size": 64, "seed": 3, "progress": False}
    parts = X.indptr, X.indices.astype(np.uint32), X.data.astype(values)
    with dsstne.Dataset.from_csr(*parts, columns=60) as data:
        for devices in ("cpu", "cpu:3"):
            got, want = dsstne.fit(data, devices=devices, **options), dsstne.fit(Y, devices=devices, **options)
            assert weights(got) == weights(want)
        with got.predictor(k=3) as ask:
            assert [part.tolist() for part in ask.recommend(data)] == [part.tolist() for part in ask.recommend(Y)]


def test_arrow_arrays_of_all_types():
    for index, value in (
        (pyarrow.uint32(), pyarrow.int32()),
        (pyarrow.int64(), pyarrow.float16()),
        (pyarrow.uint32(), pyarrow.uint8()),
    ):
        numbers = np.array([3, 0, 2], value.to_pandas_dtype())
        entries = pyarrow.StructArray.from_arrays(
            [pyarrow.array([4, 0, 1], index), pyarrow.array(numbers, value)], names=["index", "value"]
        )
        rows = pyarrow.ListArray.from_arrays([0, 1, 3], entries)
        with dsstne.Dataset(rows[1:], columns=5) as data:
            assert data[:].toarray().tolist() == [[0, 2, 0, 0, 0]]
        model = dsstne.popularity(np.eye(5))
        with model.predictor(k=2) as ask:
            want = scipy.sparse.csr_array(np.array([[0, 0, 0, 0, 3.0], [0, 2, 0, 0, 0]]))
            assert [part.tolist() for part in ask.recommend(rows)] == [part.tolist() for part in ask.recommend(want)]


def test_integers_of_more_than_24_bits_are_rounded():
    numbers = np.array([2**24 + 1, 2**53 + 1, -(2**62) - 1], np.int64)
    with dsstne.Dataset.from_csr([0, 3], [0, 1, 2], numbers, columns=3) as data:
        assert data[:].data.tolist() == numbers.astype(np.float64).astype(np.float32).tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            ([0, 1], np.array([2**32 - 1], np.uint32), [1]),
            "row 0 holds column 4294967295, but the matrix has 3 columns",
        ),
        (([0, 2], [0], [1, 1]), "indptr ends at 2 but indices has only 1"),
        (([0, 2], [0, 1], [1]), "indptr ends at 2 but data has only 1"),
        ((np.array([2**63], np.uint64), [0], [1]), "not a possible index"),
        ((np.array([2, 0], np.uint64), [0, 1], [1, 1]), "row offsets run from 2 to 0"),
        (([[0, 1]], [0], [1]), r"indptr has the shape \(1, 2\)"),
        (([], [0], [1]), r"indptr has the shape \(0,\)"),
        (([0, 1], [[0]], [1]), "indices has 2 dimensions"),
        (([0, 1], [0], [[1]]), "data has 2 dimensions"),
        (([0, 1], [0.5], [1]), "indices is of type float64"),
        (([0, 1], [0], ["a"]), "data is of type"),
        (([0, 1], [0], np.array([np.inf], np.float16)), r"row 0, column 0 holds \+Inf"),
    ],
)
def test_arrays_that_are_no_matrix_are_refused(arrays, message):
    with pytest.raises(dsstne.InvalidDataError, match=message):
        dsstne.Dataset.from_csr(*arrays, columns=3)


def test_without_values_all_are_one():
    with dsstne.Dataset.from_csr([0, 2, 3], np.array([1, 1, 2], np.uint32), columns=3) as data:
        assert data[:].toarray().tolist() == [[0, 1, 0], [0, 0, 1]]
        assert data.column_counts().tolist() == [0, 2, 1]


def test_names_of_rows_are_compared_behind_an_index():
    X = blocks(60, 30, seed=2)
    names = np.array([f"r{n}" for n in range(X.shape[0])], dtype=object)
    one, other = (dsstne.Interactions(X, row_names=order) for order in (names, names[::-1]))
    index = np.arange(X.shape[0])[::2]
    with dsstne.Dataset(one, index=index) as left, dsstne.Dataset(other, index=index) as right:
        with pytest.raises(dsstne.InvalidArgumentError, match="rows"):
            dsstne.fit(left, right, epochs=1, progress=False)
        with pytest.raises(dsstne.InvalidArgumentError, match="rows"):
            dsstne.evaluate(dsstne.popularity(X), left, right)


def test_copies_of_an_indexed_file_are_closed_apart(tmp_path):
    path, index = tmp_path / "saved.arrow", np.array([2, 0])
    dsstne.Dataset(valued()).save(path)
    with dsstne.Dataset.open(path) as base, dsstne.Dataset(base, index=index) as data:
        expected = data[:]
        first, second = pickle.loads(pickle.dumps((base, data)))
        second.close()
        copied = copy.copy(data)
        copied.close()
        for one in (first[[2, 0]], base[[2, 0]], data[:]):
            same(one, expected)
        first.close()


def test_offsets_without_entries_are_a_matrix_without_entries():
    with dsstne.Dataset.from_csr([0, 0, 0], [], columns=5) as data:
        assert (data.shape, data.nnz) == ((2, 5), 0)
