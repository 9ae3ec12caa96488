"""Saved datasets: other programs read them, results have the bits of the matrix, and readers find damage."""

import multiprocessing
import os
import pickle
import subprocess
import sys

import duckdb
import numpy as np
import polars
import pyarrow
import pyarrow.ipc
import pytest
import scipy.sparse
from matrices import blocks, valued

import dsstne

ITEMS = [f"item é{n}" for n in range(60)]
ROWS = [f"row {n}" for n in range(240)]


@pytest.fixture
def X():
    return valued()


@pytest.fixture
def path(X, tmp_path):
    with dsstne.Dataset(X) as data:
        data.save(tmp_path / "data.arrow", items=ITEMS, rows=ROWS)
    return tmp_path / "data.arrow"


def canonical(X):
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def weights(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


def trained(X, **options):
    return dsstne.fit(X, hidden=[12], loss="squared", epochs=3, batch_size=64, seed=3, progress=False, **options)


def wanted(X):
    """Each row as a list of names and values."""
    X = canonical(X)
    return [
        [(ITEMS[X.indices[n]], X.data[n]) for n in range(begin, end)]
        for begin, end in zip(X.indptr, X.indptr[1:], strict=False)
    ]


# ---- the same data ----


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_training_from_a_saved_dataset_has_the_bits_of_the_matrix(X, path, devices):
    with dsstne.Dataset.open(path) as data:
        assert weights(trained(data, devices=devices)) == weights(trained(X, devices=devices))


def test_predictions_and_metrics_have_the_bits_of_the_matrix(X, path):
    model, held_out = trained(X), blocks(seed=2)
    with dsstne.Dataset.open(path) as data:
        for got, want in zip(model.recommend(data, k=7), model.recommend(X, k=7), strict=True):
            assert got.tobytes() == want.tobytes()
        assert dsstne.evaluate(model, data, held_out) == dsstne.evaluate(model, X, held_out)
        assert dsstne.evaluate(model, held_out, data) == dsstne.evaluate(model, held_out, X)


def test_a_saved_dataset_says_what_the_matrix_is(X, path):
    want = canonical(X)
    with dsstne.Dataset.open(path) as data:
        assert (data.shape, data.nnz) == (want.shape, want.nnz)
        assert (data.info["minimum"], data.info["maximum"]) == (want.data.min(), want.data.max())
        assert data.column_counts().tolist() == np.bincount(want.indices, minlength=60).tolist()
        assert data.item_names.tolist() == ITEMS
        assert data.row_names.tolist() == ROWS


def test_a_dataset_without_names_has_none(X, tmp_path):
    with dsstne.Dataset(X) as data:
        assert (data.item_names, data.row_names) == (None, None)
        data.save(tmp_path / "data.arrow")
    with dsstne.Dataset.open(tmp_path / "data.arrow") as data:
        assert (data.item_names, data.row_names) == (None, None)


def test_names_stay_when_an_opened_dataset_is_saved_over_its_file(X, path):
    with dsstne.Dataset.open(path) as data:
        data.save(path)
        assert data.column_counts().sum() == data.nnz  # the old file is still there for those who have it open
        with dsstne.Dataset.open(path) as again:
            assert again.item_names.tolist() == ITEMS
            assert weights(trained(again)) == weights(trained(X))


def test_boolean_and_arrow_data_are_saved(X, tmp_path):
    values = pyarrow.array([[3, 1], [], [2]], pyarrow.large_list(pyarrow.int64()))
    for source, columns in ((X.astype(bool), None), (values, 60)):
        with dsstne.Dataset(source, columns=columns) as data:
            data.save(tmp_path / "data.arrow")
            with dsstne.Dataset.open(tmp_path / "data.arrow") as opened:
                assert opened.shape == data.shape
                assert weights(trained(opened)) == weights(trained(data))


def test_a_run_goes_on_from_a_checkpoint_with_either(X, path, tmp_path):
    options = {"hidden": [8], "batch_size": 64, "seed": 3, "progress": False, "checkpoint": tmp_path / "run"}
    dsstne.fit(X, epochs=2, schedule=None, **options)
    with dsstne.Dataset.open(path) as data:
        resumed = dsstne.fit(data, epochs=4, schedule=None, resume=True, **options)
    del options["checkpoint"]
    assert weights(resumed) == weights(dsstne.fit(X, epochs=4, schedule=None, **options))


# ---- other programs ----


def test_pyarrow_reads_it(X, path):
    with pyarrow.memory_map(str(path)) as file:
        table = pyarrow.ipc.open_file(file).read_all()
        table.validate(full=True)
        assert table["row"].to_pylist() == ROWS
        got = [[(e["index"], e["value"]) for e in row] for row in table["items"].to_pylist()]
        assert got == wanted(X)
        assert table.schema.field("items").type.value_type[0].type == pyarrow.dictionary(
            pyarrow.int32(), pyarrow.string()
        )


def test_polars_reads_it(X, path):
    for frame in (polars.read_ipc(path), polars.scan_ipc(path).collect()):
        assert frame["row"].to_list() == ROWS
        assert [[(e["index"], e["value"]) for e in row] for row in frame["items"].to_list()] == wanted(X)


def test_duckdb_reads_it_through_pyarrow(X, path):
    stored = pyarrow.ipc.open_file(path).read_all()  # noqa: F841 - duckdb finds it by its name
    got = duckdb.sql("SELECT e.index, count(*) FROM (SELECT unnest(items) AS e FROM stored) GROUP BY ALL").fetchall()
    want = canonical(X)
    assert dict(got) == {ITEMS[n]: c for n, c in enumerate(np.bincount(want.indices, minlength=60).tolist()) if c}


def test_any_arrow_file_opens_with_from_file_with_names_too(X, path):
    with dsstne.Dataset.from_file(path, columns=60) as data:
        assert data.shape == X.shape
        assert weights(trained(data)) == weights(trained(X))


# ---- processes ----


def _count(path, out):
    with dsstne.Dataset.open(path) as data:
        out.put((data.nnz, weights(trained(data, threads=1))))


@pytest.mark.long
def test_processes_share_a_file(X, path):
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    workers = [context.Process(target=_count, args=(path, out)) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert found == [(canonical(X).nnz, weights(trained(X, threads=1)))] * 2


MEMORY = """
import sys
import numpy as np, dsstne, scipy.sparse
def kilobytes():  # of memory that is not a file's
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
model = dsstne.popularity(scipy.sparse.csr_array(np.ones((1, 100), np.float32)))
def read(path):
    with dsstne.Dataset.open(path) as data:
        model.recommend(data, k=1, exclude_seen=False, threads=2)
        return kilobytes()
before = read(sys.argv[2])
print(read(sys.argv[1]) - before)
"""


def test_a_process_that_reads_a_large_file_has_no_copy_of_its_rows(tmp_path, python):
    rows, each = 40_000, 100
    ends, indices = np.arange(rows + 1, dtype=np.int32) * each, np.tile(np.arange(each, dtype=np.int32), rows)
    X = scipy.sparse.csr_array((np.ones(rows * each, np.float32), indices, ends), shape=(rows, each))
    for name, part in (("large", X), ("small", X[:2000])):
        with dsstne.Dataset(part) as data:
            data.save(tmp_path / name)
    assert (tmp_path / "large").stat().st_size > 32_000_000
    assert int(python(MEMORY, tmp_path / "large", tmp_path / "small")) < 8000  # the system has the only copy


def test_a_pickle_has_the_path_and_not_the_rows(path, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(path.parent)
    with dsstne.Dataset.open(path.name) as data:
        text = pickle.dumps(data)
    assert len(text) < 400
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pickle.loads(text) as again:
        assert again.item_names.tolist() == ITEMS


def test_a_pickle_of_another_file_is_refused(X, path):
    with dsstne.Dataset.open(path) as data:
        text = pickle.dumps(data)
    with dsstne.Dataset(X) as data:
        data.save(path, items=ITEMS[::-1])
    with pytest.raises(dsstne.CorruptFileError, match=r"data\.arrow: the file is not the one"):
        pickle.loads(text)


def test_a_dataset_in_memory_is_not_pickled(X):
    with dsstne.Dataset(X) as data, pytest.raises(TypeError, match=r"Dataset\.open"):
        pickle.dumps(data)


# ---- what goes wrong ----


def test_a_flipped_bit_is_found_when_its_rows_are_read(path):
    content = bytearray(path.read_bytes())
    value = np.float32(4).tobytes()
    content[content.index(value * 2) + 1] ^= 1
    path.write_bytes(content)
    words = "are not those that were saved"
    with dsstne.Dataset.open(path) as data, pytest.raises(dsstne.CorruptFileError, match=words):
        trained(data)


def test_a_file_that_another_process_shortens_ends_a_training_with_words(path, python):
    python(
        """
        import subprocess, sys, dsstne, pytest
        data = dsstne.Dataset.open(sys.argv[1])
        model = dsstne.fit(data, hidden=[8], epochs=1, progress=False)
        with dsstne.Trainer(model, data) as trainer:
            trainer.run(steps=1)
            subprocess.run([sys.executable, "-c", f"import os; os.truncate({sys.argv[1]!r}, 0)"], check=True)
            with pytest.raises(dsstne.InvalidDataError, match="it was shortened while it was in use"):
                trainer.run(epochs=1)
        for use in (lambda: model.recommend(data), data.column_counts, lambda: data.row_names):
            with pytest.raises(dsstne.InvalidDataError, match="it was shortened while it was in use"):
                use()
        data.close()
        """.replace("\n        ", "\n"),
        path,
    )


def test_a_file_without_a_record_is_refused_with_what_to_do(tmp_path):
    table = pyarrow.table({"items": pyarrow.array([[1]], pyarrow.list_(pyarrow.int32()))})
    with pyarrow.ipc.new_file(tmp_path / "plain.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(dsstne.InvalidDataError, match=r"dsstne\.Dataset\.from_file"):
        dsstne.Dataset.open(tmp_path / "plain.arrow")


def test_rows_that_pyarrow_has_filtered_are_refused_with_what_to_do(path, tmp_path):
    table = pyarrow.ipc.open_file(path).read_all()
    with pyarrow.ipc.new_file(tmp_path / "some.arrow", table.schema) as writer:
        writer.write_table(table.slice(3, 50))
    with pytest.raises(dsstne.CorruptFileError, match=r"Dataset\.from_file opens it without the record"):
        dsstne.Dataset.open(tmp_path / "some.arrow")
    with dsstne.Dataset.from_file(tmp_path / "some.arrow", columns=60) as data:
        assert data.shape == (50, 60)


def test_values_that_are_not_finite_are_not_saved(X, tmp_path):
    X.data[0] = np.inf
    with (
        dsstne.Dataset(X, allow_not_finite=True) as data,
        pytest.raises(dsstne.InvalidDataError, match="row 0, column .* a saved dataset has finite values only"),
    ):
        data.save(tmp_path / "data.arrow")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"items": ITEMS[:-1]}, "items has 59 names, but the dataset has 60"),
        ({"rows": ["a"]}, "rows has 1 names, but the dataset has 240 rows"),
        ({"rows": [None] * 240}, r"rows\[0\] is None"),
        ({"items": set(ITEMS)}, "items is a set"),
        ({"items": ["\ud800"] * 60}, r"items\[0\] is .* not valid Unicode"),
    ],
)
def test_names_that_do_not_fit_are_refused(X, path, names, words):
    before = path.read_bytes()
    with dsstne.Dataset(X) as data, pytest.raises(dsstne.InvalidArgumentError, match=words):
        data.save(path, **names)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_an_error_with_words(X, tmp_path):
    with dsstne.Dataset(X) as data:
        with pytest.raises(dsstne.InputOutputError, match="does not exist"):
            data.save(tmp_path / "none" / "data.arrow")
        with pytest.raises(dsstne.InputOutputError, match="it is a folder; add a file name"):
            data.save(tmp_path)


SAVED_THERE = """
drop_privileges()
with dsstne.Dataset.open(sys.argv[1] + "/data") as data:
    for name in "data", "other":
        with pytest.raises(dsstne.InputOutputError, match=f"cannot save .*{name}.*[Pp]ermission denied"):
            data.save(f"{sys.argv[1]}/{name}")
    assert data.shape == (240, 60)
"""


def test_a_read_only_folder_is_an_error_with_words(X, read_only):
    with dsstne.Dataset(X) as data:
        data.save(read_only.folder / "data")
    read_only.run(SAVED_THERE)


def test_a_disk_that_is_full_leaves_the_old_file(path):
    before = path.read_bytes()
    text = """
        import resource, signal, sys, dsstne
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            dsstne.Dataset.open(sys.argv[1]).save(sys.argv[1])
        except dsstne.InputOutputError as error:
            print(error)
        """.replace("\n        ", "\n")
    ran = subprocess.run([sys.executable, "-c", text, path], capture_output=True, text=True, check=True)
    assert "writing failed: file too large" in ran.stdout
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_closed_dataset_is_not_saved(X, tmp_path):
    data = dsstne.Dataset(X)
    data.close()
    with pytest.raises(dsstne.InvalidHandleError):
        data.save(tmp_path / "data.arrow")


# ---- where the rows are needed in memory ----


def test_integer_names_meet_their_text_in_a_file(X, tmp_path):
    interactions = dsstne.Interactions(X)  # its names are numbers
    dsstne.Dataset(interactions).save(tmp_path / "data.arrow")
    with dsstne.Dataset.open(tmp_path / "data.arrow") as data:
        assert data.item_names[1] == "1"
        first, second = dsstne.popularity(interactions), dsstne.popularity(data)
        assert np.array_equal(first.recommend(data, 3)[0], second.recommend(data, 3)[0])
        assert second.recommend(interactions, 1)["item"].dtype == object


def uses():
    """Calls with a row or a matrix that has to be in memory."""
    model = dsstne.linear(valued(), progress=False)
    return {
        "explain": lambda X: model.explain(X, 0),
        "predictor": lambda X: model.predictor(3).recommend(X),
        "compare": lambda X: dsstne.compare([model], X, X, groups="activity", exclude=None),
        "beyond_accuracy": lambda X: dsstne.beyond_accuracy(model, X, 3),
        "tfidf_weight": dsstne.tfidf_weight,
    }


@pytest.mark.parametrize("call", uses())
def test_a_call_that_reads_rows_in_python_says_so_of_a_file(path, call):
    words = "is a Dataset of .* a file .* dataset.rows. copies some"
    with dsstne.Dataset.open(path) as data, pytest.raises(dsstne.UnsupportedError, match=words):
        uses()[call](data)


@pytest.mark.long
@pytest.mark.parametrize("call", [name for name in uses() if name != "explain"])
def test_a_call_that_reads_rows_in_python_takes_a_dataset_in_memory(call):
    X = abs(valued())
    with dsstne.Dataset(X) as data:
        assert repr(uses()[call](data)) == repr(uses()[call](X))


def kinds(X, path):
    entries = pyarrow.StructArray.from_arrays([X.indices, X.data], names=["index", "value"])
    return {
        "SciPy": lambda: dsstne.Dataset(X),
        "saved": lambda: dsstne.Dataset.open(path),
        "product": lambda: dsstne.Dataset.product(X, scipy.sparse.eye_array(X.shape[1], format="csr")),
        "Arrow": lambda: dsstne.Dataset(pyarrow.ListArray.from_arrays(X.indptr, entries), columns=X.shape[1]),
    }


@pytest.mark.parametrize("kind", ["SciPy", "saved", "product", "Arrow"])
def test_rows_of_every_dataset_can_be_copied(X, path, kind):
    X = scipy.sparse.csr_array(X).astype(np.float32)
    mask = np.arange(X.shape[0]) % 3 == 0
    with kinds(X, path)[kind]() as data:
        for rows in ([7, 3, 7], mask, slice(5, 20, 4), slice(None), np.arange(0), 9):
            wanted, found = X[[rows] if isinstance(rows, int) else rows], data[rows]
            assert isinstance(found, scipy.sparse.csr_array)
            assert found.dtype == np.float32
            assert found.shape == wanted.shape
            assert found.has_sorted_indices
            assert np.array_equal(found.toarray(), wanted.toarray())
        for rows in ([X.shape[0]], [-1], [0.5], None, (0, 1)):  # data[0, 1] is no row
            with pytest.raises(dsstne.InvalidArgumentError, match="rows"):
                data[rows]
        with pytest.raises(TypeError):
            iter(data)
    with pytest.raises(dsstne.InvalidHandleError):
        data[0]


def test_a_copied_row_of_a_file_is_explained_and_served(path):
    model = dsstne.linear(valued(), progress=False)
    with dsstne.Dataset.open(path) as data, model.predictor(3) as predictor:
        for row in (7, 20):
            given, wanted = (model.explain(x, 0) for x in (data[row], valued()[[row]]))
            assert all(np.array_equal(a, b) for a, b in zip(given, wanted, strict=True))
            assert np.array_equal(predictor.recommend(data[row])[0], model.recommend(data, 3, rows=[row])[0])


def test_explain_takes_a_row_as_a_dataset():
    with dsstne.Dataset(valued()[[7]]) as data:
        given, wanted = (uses()["explain"](x) for x in (data, valued()[[7]]))
        assert all(np.array_equal(a, b) for a, b in zip(given, wanted, strict=True))


def test_item_names_are_read_once(path):
    with dsstne.Dataset.open(path) as data:
        assert data.item_names is data.item_names
