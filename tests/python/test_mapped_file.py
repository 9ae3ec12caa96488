"""Data in a mapped file give the bits of the same data in memory; a file that cannot be read is an error with words."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow
import pyarrow.feather as feather
import pytest
import scipy.sparse
from matrices import blocks, valued

import dsstne


def table(X, index=np.int32, large=False, values=True):
    """X as one column."""
    entries = pyarrow.array(X.indices.astype(index))
    if values:
        entries = pyarrow.StructArray.from_arrays([entries, pyarrow.array(X.data)], names=["index", "value"])
    lists = pyarrow.LargeListArray if large else pyarrow.ListArray
    offsets = pyarrow.array(X.indptr.astype(np.int64 if large else np.int32))
    return pyarrow.table({"items": lists.from_arrays(offsets, entries)})


def write(path, table, rows_per_batch=1000, compression=None):
    """Writes the file, with ``rows_per_batch`` rows in each record batch."""
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_per_batch)
    return path


def weights(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


def trained(X, **options):
    return dsstne.fit(X, hidden=[12], loss="squared", epochs=3, batch_size=64, seed=3, progress=False, **options)


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_training_from_a_file_has_the_bits_of_training_from_memory(tmp_path, devices):
    X = valued()
    path = write(tmp_path / "data.arrow", table(X), rows_per_batch=70)
    with dsstne.Dataset.from_file(path, columns=X.shape[1]) as data:
        assert weights(trained(data, devices=devices)) == weights(trained(X, devices=devices))


def test_emulated_devices_train_from_a_file_with_the_same_bits(tmp_path, emulated):
    X = valued()
    path = write(tmp_path / "data.arrow", table(X), rows_per_batch=70)
    scipy.sparse.save_npz(tmp_path / "data.npz", X)
    emulated(
        """
        import sys, dsstne, scipy.sparse
        X = scipy.sparse.load_npz(sys.argv[2])
        options = dict(hidden=[12], loss="squared", epochs=1, batch_size=64, seed=3, progress=False, devices="cuda:0")
        with dsstne.Dataset.from_file(sys.argv[1], columns=X.shape[1]) as data:
            mapped, held = dsstne.fit(data, **options), dsstne.fit(X, **options)
        for name in held.tensors:
            assert mapped.tensor(name).tobytes() == held.tensor(name).tobytes(), name
        """.replace("\n        ", "\n"),
        path,
        tmp_path / "data.npz",
    )


@pytest.mark.parametrize(("index", "large"), [(np.int32, False), (np.int64, True), (np.uint32, True)])
@pytest.mark.parametrize("values", [np.float32, np.float64, None])
def test_every_type_of_column_predicts_the_same(tmp_path, model, index, large, values):
    X = valued(seed=1, dtype=values or np.float32)
    if values is None:
        X.data[:] = 1
        X.sum_duplicates()  # without values, duplicates count once
        X.data[:] = 1
    path = write(tmp_path / "data.arrow", table(X, index, large, values is not None), rows_per_batch=100)
    held_out = blocks(seed=2)
    with dsstne.Dataset.from_file(path, columns=X.shape[1]) as data:
        assert (data.shape, data.nnz) == (X.shape, X.nnz)
        assert data.info["value_bits"] == (np.dtype(values).itemsize * 8 if values else 0)
        for got, want in zip(model.recommend(data, k=7), model.recommend(X, k=7), strict=True):
            assert got.tobytes() == want.tobytes()
        assert dsstne.evaluate(model, data, held_out) == dsstne.evaluate(model, X, held_out)
        assert dsstne.evaluate(model, held_out, data) == dsstne.evaluate(model, held_out, X)


def test_a_feather_file_is_taken(tmp_path):
    X, path = valued(), tmp_path / "data.feather"
    feather.write_feather(table(X), path, compression="uncompressed")
    with dsstne.Dataset.from_file(path, columns=X.shape[1]) as data:
        assert data.nnz == X.nnz
        assert (data.info["offsets"], data.info["indices"], data.info["values"]) == (None, None, None)


def test_a_file_that_is_used_stays_open(tmp_path, model):
    X = blocks()
    data = dsstne.Dataset.from_file(write(tmp_path / "data.arrow", table(X)), columns=X.shape[1])
    with dsstne.Trainer(model, data), pytest.raises(dsstne.BusyError):
        data.close()
    data.close()
    assert data.closed


def test_a_large_file_takes_no_memory(tmp_path, python):
    rows, each = 40_000, 100
    indices = np.tile(np.arange(each, dtype=np.int32), rows)
    X = scipy.sparse.csr_array(
        (np.ones(rows * each, np.float32), indices, np.arange(rows + 1, dtype=np.int32) * each), shape=(rows, each)
    )
    path = write(tmp_path / "data.arrow", table(X), rows_per_batch=rows)
    assert path.stat().st_size > 30_000_000
    grown = python(
        """
        import sys, dsstne
        def kilobytes():  # of memory that is not a file's
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
        dsstne.Dataset.from_file(sys.argv[2], columns=100)
        before = kilobytes()
        data = dsstne.Dataset.from_file(sys.argv[1], columns=100)
        print(kilobytes() - before)
        """.replace("\n        ", "\n"),
        path,
        write(tmp_path / "small.arrow", table(X[:9])),
    )
    assert int(grown) < 4000


# ---- files that cannot be read ----


def refused(path, error, words, columns=60):
    with pytest.raises(error, match=words) as raised:
        dsstne.Dataset.from_file(path, columns=columns)
    assert str(path) in str(raised.value)


def test_what_is_not_such_a_file_is_refused(tmp_path):
    path = tmp_path / "data.arrow"
    refused(path, dsstne.MissingFileError, "no such file")
    refused(tmp_path, dsstne.InputOutputError, "it is a folder, not a file")
    path.write_bytes(b"index,value\n" * 10)
    refused(path, dsstne.CorruptFileError, "does not begin with ARROW1")
    with pytest.raises(dsstne.InvalidArgumentError, match="columns"):
        dsstne.Dataset.from_file(path, columns=0)


def test_damaged_files_are_refused(tmp_path):
    path = write(tmp_path / "data.arrow", table(blocks()), rows_per_batch=100)
    content = path.read_bytes()
    for size in (0, 10, 1000, len(content) - 1):
        path.write_bytes(content[:size])
        refused(path, dsstne.CorruptFileError, "not whole|too few")
    path.write_bytes(content[:-10] + b"\xff\xff\xff\x7f" + content[-6:])
    refused(path, dsstne.CorruptFileError, "the file is damaged")


def test_files_of_another_kind_are_refused_with_a_remedy(tmp_path):
    X, path = blocks(), tmp_path / "data.arrow"
    refused(write(path, table(X), compression="zstd"), dsstne.UnsupportedError, "write it without compression")
    refused(write(path, pyarrow.table({"a": [1, 2]})), dsstne.InvalidDataError, 'column "a": it is not a list')
    refused(write(path, pyarrow.table({"a": [1], "b": [2]})), dsstne.InvalidDataError, "it has 2 columns")
    nulls = pyarrow.table({"items": pyarrow.array([[1], None], pyarrow.list_(pyarrow.int32()))})
    refused(write(path, nulls), dsstne.InvalidDataError, "it has null rows or entries")


def test_entries_that_are_not_valid_are_named_by_their_row_in_the_file(tmp_path):
    X, path = blocks(), tmp_path / "data.arrow"
    X.indices[X.indptr[150]] = 60
    refused(write(path, table(X), rows_per_batch=100), dsstne.InvalidDataError, "row 150 holds column 60")
    X.indices[X.indptr[150]] = 59
    X.data[X.indptr[239]] = np.nan
    refused(write(path, table(X), rows_per_batch=100), dsstne.InvalidDataError, "row 239, column .* holds NaN")
    with dsstne.Dataset.from_file(path, columns=60, allow_not_finite=True) as data:
        assert data.shape == X.shape


def test_columns_are_not_counted_in_a_file(tmp_path):
    X = blocks()
    with (
        dsstne.Dataset.from_file(write(tmp_path / "data.arrow", table(X)), columns=60) as data,
        pytest.raises(dsstne.UnsupportedError),
    ):
        data.column_counts()


@pytest.mark.long
@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_a_file_that_is_shortened_during_a_training_ends_it_with_words(tmp_path, python, devices):
    path = write(tmp_path / "data.arrow", table(blocks(rows=4000)))
    python(
        """
        import os, sys, dsstne, pytest
        data = dsstne.Dataset.from_file(sys.argv[1], columns=60)
        model = dsstne.fit(data, hidden=[8], epochs=1, progress=False)
        with dsstne.Trainer(model, data, devices=sys.argv[2]) as trainer:
            trainer.run(steps=2)
            os.truncate(sys.argv[1], 0)
            with pytest.raises(dsstne.InvalidDataError, match="it was shortened while it was in use"):
                trainer.run(epochs=1)
        for use in (lambda: model.recommend(data), lambda: dsstne.fit(data, epochs=1, progress=False)):
            with pytest.raises(dsstne.InvalidDataError, match="it was shortened while it was in use"):
                use()
        data.close()
        """.replace("\n        ", "\n"),
        path,
        devices,
    )


def test_files_are_read_from_many_threads_at_a_time(tmp_path, model):
    X = valued()
    path = write(tmp_path / "data.arrow", table(X), rows_per_batch=50)
    want = model.recommend(X, k=5)[0].tobytes()
    with dsstne.Dataset.from_file(path, columns=60) as data, ThreadPoolExecutor(4) as pool:
        got = [pool.submit(model.recommend, data, k=5) for _ in range(4)]
        assert [lists.result()[0].tobytes() for lists in got] == [want] * 4
