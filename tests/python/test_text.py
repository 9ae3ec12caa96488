"""Text data and index files of Amazon's DSSTNE."""

import gc
import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import dsstne

TEXT = "ann\ttea,5:milk,3\nbob\tbread,1\n\ncid\ttea,2:tea,1:bread,4\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "ratings.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture
def ascending(tmp_path):
    """Text whose rows SciPy can share."""
    file = tmp_path / "ascending.txt"
    file.write_text(TEXT.replace("tea,1:", ""))
    return file


def written(tmp_path, text):
    file = tmp_path / "text"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


# ---- reading ----


def test_a_text_is_a_matrix_with_names(path):
    with dsstne.Dataset.from_text(path) as data:
        assert data.row_names.tolist() == ["ann", "bob", "cid"]
        assert data.item_names.tolist() == ["tea", "milk", "bread"]
        assert data[:].toarray().tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 1]]  # a duplicate counts once
        assert (data.shape, data.nnz, data.info["value_bits"]) == ((3, 3), 6, 0)


def test_values_are_read_if_they_are_wanted(path):
    with dsstne.Dataset.from_text(path, values="analog") as data:
        assert data[:].toarray().tolist() == [[5, 3, 0], [0, 0, 1], [3, 0, 4]]  # duplicates are summed
        assert (data.info["minimum"], data.info["maximum"]) == (1, 5)


def test_a_feature_without_a_value_has_the_default(tmp_path):
    path = written(tmp_path, "ann\ttea,5:milk\nbob\tbread\ncid\ttea,x\n")
    options = {"values": "analog", "on_malformed": "skip"}
    with dsstne.Dataset.from_text(path, default_value=-0.25, **options) as data:
        assert data.to_scipy().toarray().tolist() == [[5, -0.25, 0], [0, 0, -0.25]]
        assert list(data.info["text"]["malformed"]) == ["not_a_number"]
    with dsstne.Dataset.from_text(path, default_value=0, **options) as data:
        assert data.to_scipy().data.tolist() == [5, 0, 0], "a value of 0 is stored"
    with pytest.raises(dsstne.InvalidDataError, match='"milk" has no value; write label,value, give default_value'):
        dsstne.Dataset.from_text(path, values="analog", default_value=None)


def test_the_report_says_what_was_found(path, tmp_path):
    bad = written(tmp_path, "bob\tmilk\nnothing\n")
    with dsstne.Dataset.from_text([path, bad], on_malformed="skip", features=["tea", "milk"]) as data:
        assert data.info["text"] == {
            "files": 2,
            "bytes": len(TEXT) + 17,
            "lines": 6,
            "samples": 4,
            "repeated_samples": 1,
            "new_samples": 3,
            "new_features": 0,
            "unknown_samples": 0,
            "unknown_features": 2,
            "malformed": {"no_tab": {"lines": 1, "first": {"file": str(bad), "line": 2, "column": 1}}},
        }
        assert data[:].toarray().tolist() == [[1, 1], [0, 1], [1, 0]]


def test_indexes_align_two_texts(tmp_path):
    inputs = written(tmp_path, "a\tx\nb\ty\nc\tx:z\n")
    with dsstne.Dataset.from_text(inputs) as X:
        outputs = written(tmp_path, "d\tx\nc\ty\na\tw\n")
        with dsstne.Dataset.from_text(outputs, samples=X.row_names, features=X.item_names) as Y:
            assert Y[:].toarray().tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
            assert Y.info["text"]["unknown_samples"] == 1
        more = {"new_samples": "add", "new_features": "add"}
        with dsstne.Dataset.from_text(outputs, samples=X.row_names, features=X.item_names, **more) as Y:
            assert (Y.row_names.tolist(), Y.item_names.tolist()) == (["a", "b", "c", "d"], ["x", "y", "z", "w"])


def test_repeated_samples_are_replaced_merged_or_refused(tmp_path):
    file = written(tmp_path, "a\tx\nb\ty\na\tz\n")
    with dsstne.Dataset.from_text(file) as data:
        assert data[:].toarray().tolist() == [[0, 0, 1], [0, 1, 0]]
    with dsstne.Dataset.from_text(file, on_repeated="merge") as data:
        assert data[:].toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    with pytest.raises(dsstne.InvalidDataError, match=r'line 3: the sample "a" is already in .*, line 1'):
        dsstne.Dataset.from_text(file, on_repeated="error")


def test_folders_and_compressed_files_are_read(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "2").write_text("b\ty\n")
    (folder / "1").write_bytes(gzip.compress(b"a\tx\n"))
    (folder / ".hidden").write_text("no text")
    with dsstne.Dataset.from_text(str(folder)) as data:
        assert (data.row_names.tolist(), data.item_names.tolist()) == (["a", "b"], ["x", "y"])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"paths": []}, dsstne.InvalidArgumentError, "there are no paths; give at least one file or folder"),
        ({"paths": "none"}, dsstne.MissingFileError, "none: no such file or folder"),
        ({"paths": 7}, dsstne.InvalidArgumentError, "paths must be a list, not 7"),
        ({"paths": [7]}, dsstne.InvalidArgumentError, "path must be a str or a path, not 7"),
        ({"paths": "/dev/null"}, dsstne.InputOutputError, "/dev/null: it is not a regular file"),
        ({"values": "scores"}, dsstne.InvalidArgumentError, "values"),
        ({"default_value": 1}, dsstne.InvalidArgumentError, 'default_value is for values "analog"'),
        ({"values": "analog", "default_value": "1"}, dsstne.InvalidArgumentError, "default_value"),
        ({"values": "analog", "default_value": 1e39}, dsstne.InvalidArgumentError, "default_value"),
        ({"values": "analog", "default_value": float("nan")}, dsstne.InvalidArgumentError, "default_value: nan"),
        ({"on_malformed": "warn"}, dsstne.InvalidArgumentError, "on_malformed"),
        ({"on_repeated": "sum"}, dsstne.InvalidArgumentError, "on_repeated"),
        ({"features": ["a", "a"]}, dsstne.InvalidArgumentError, 'feature 1 has the label "a", which feature 0 has'),
        ({"features": ["a:b"]}, dsstne.InvalidArgumentError, 'the label of feature 0 is "a:b", but labels have no'),
        ({"samples": {"a"}}, dsstne.InvalidArgumentError, "samples is a set, which has no order"),
        ({"samples": [""]}, dsstne.InvalidArgumentError, "the label of sample 0 is empty"),
        ({"features": []}, dsstne.InvalidDataError, "the text has no features"),
        ({"new_features": "add"}, dsstne.InvalidArgumentError, "new_features is for labels beside those of features="),
        ({"new_samples": "add"}, dsstne.InvalidArgumentError, "new_samples is for labels beside those of samples="),
        ({"longest_line": 4}, dsstne.InvalidDataError, r"ratings.txt, line 1: the line has more than 4 bytes"),
        ({"longest_line": 0}, dsstne.InvalidArgumentError, "longest_line"),
        ({"memory_limit": 1000}, dsstne.OutOfMemoryError, "more memory than memory_limit, 1,000 bytes"),
        ({"threads": -1}, dsstne.InvalidArgumentError, "threads"),
    ],
)
def test_what_cannot_be_meant_is_an_error(path, given, error, message):
    with pytest.raises(error, match=message):
        dsstne.Dataset.from_text(**{"paths": path} | given)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_an_error(path):
    path.chmod(0)
    with pytest.raises(dsstne.InputOutputError, match=r"ratings.txt: permission denied"):
        dsstne.Dataset.from_text(path)


# ---- use ----


def test_numpy_views_the_arrays_and_keeps_them(ascending):
    data = dsstne.Dataset.from_text(ascending, values="analog")
    matrix = data.to_scipy()
    for array, address in ((matrix.indices, data.info["indices"]), (matrix.data, data.info["values"])):
        assert array.ctypes.data == address
        assert not array.flags.writeable
    assert (matrix.indptr.dtype, matrix.indices.dtype, matrix.data.dtype) == (np.int32, np.int32, np.float32)
    before = matrix.toarray()
    data.close()
    assert data.closed
    with pytest.raises(dsstne.InvalidHandleError):
        data[:]
    gc.collect()
    assert np.array_equal(matrix.toarray(), before)
    opened = count()
    del matrix, array
    gc.collect()
    assert count() == opened - 1


def count():
    from dsstne import _native

    return _native.call_json("describe")["open"]["datasets"]


def test_views_keep_a_dataset_that_nobody_closed(ascending):
    matrix = dsstne.Dataset.from_text(ascending).to_scipy()
    gc.collect()
    assert matrix.indices.tolist() == [0, 1, 2, 0, 2]


def test_a_closed_dataset_without_views_is_gone(path):
    before = count()
    data = dsstne.Dataset.from_text(path)
    assert count() == before + 1
    data.close()
    assert count() == before


def test_models_are_trained_on_a_text_and_recommend_its_labels(tmp_path):
    random = np.random.default_rng(0)
    X = scipy.sparse.random_array((60, 20), density=0.2, format="csr", rng=random)
    rows = [f"u{u}\t" + ":".join(f"i{i}" for i in X.indices[X.indptr[u] : X.indptr[u + 1]]) for u in range(60)]
    file = written(tmp_path, "\n".join(rows))
    with dsstne.Dataset.from_text(file) as data:
        model = dsstne.fit(data, hidden=4, epochs=2, progress=False, threads=1, devices="cpu")
        same = dsstne.fit(data.to_scipy(), hidden=4, epochs=2, progress=False, threads=1, devices="cpu")
        assert model.items.tolist() == data.item_names.tolist()
        assert np.array_equal(model.tensor("hidden1.weight"), same.tensor("hidden1.weight"))
        ids, _ = model.recommend(data, k=3, threads=1, devices="cpu")
        assert ids.shape == (60, 3)
        assert data.column_counts().sum() == data.nnz
        linear = dsstne.linear(data, threads=1)
        assert linear.items.tolist() == data.item_names.tolist()


def test_a_text_is_saved_with_its_names(path, tmp_path):
    with dsstne.Dataset.from_text(path, values="analog") as data:
        data.save(tmp_path / "data.arrow")
        with dsstne.Dataset.open(tmp_path / "data.arrow") as opened:
            assert np.array_equal(opened[:].toarray(), data[:].toarray())
            assert opened.item_names.tolist() == data.item_names.tolist()
            assert opened.row_names.tolist() == data.row_names.tolist()
            assert opened._digest() == data._digest()


def test_an_open_trainer_keeps_a_text_from_being_closed(ascending):
    data = dsstne.Dataset.from_text(ascending)
    trainer = dsstne.Trainer(dsstne.Model({"layers": layers()}), data, devices="cpu", threads=1)
    with pytest.raises(dsstne.BusyError):
        data.close()
    assert data.column_counts().tolist() == [2, 1, 2]  # it is as before
    matrix = data.to_scipy()
    trainer.close()
    data.close()
    assert matrix.indices.tolist() == [0, 1, 2, 0, 2]


def layers():
    return [
        {"name": "in", "kind": "input", "size": 3},
        {"name": "h", "kind": "hidden", "size": 2},
        {"name": "out", "kind": "output", "size": 3},
    ]


def test_ctrl_c_ends_the_reading(tmp_path):
    file = tmp_path / "large.gz"
    block = b"".join(b"%d\t%s\n" % (n, b"a:b:c:d:" * 100) for n in range(1000))
    file.write_bytes(gzip.compress(block, 1) * 400)
    program = (
        "import dsstne, threading, _thread, time\n"
        "from dsstne import _native\n"
        "read = dsstne.Dataset.from_text\n"
        "def count(): return _native.call_json('describe')['open']['datasets']\n"
        "def later():\n"
        "    while not count(): time.sleep(0.001)\n"
        "    _thread.interrupt_main()\n"
        "threading.Thread(target=later).start()\n"
        f"try: read({str(file)!r}, on_repeated='merge', threads=1)\n"
        "except KeyboardInterrupt: print('ended')\n"
        "print(count())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["ended", "0"]


# ---- index files ----


def test_an_index_is_read_and_written(tmp_path):
    labels = ["b", "a", "ü €", "0"]
    dsstne.write_index(tmp_path / "index", labels)
    assert (tmp_path / "index").read_text() == "b\t0\na\t1\nü €\t2\n0\t3\n"
    assert dsstne.read_index(tmp_path / "index").tolist() == labels
    (tmp_path / "index").write_bytes(gzip.compress(b"".join(b"%d\t%d\n" % (n, 9999 - n) for n in range(10_000))))
    assert dsstne.read_index(tmp_path / "index").tolist() == [str(9999 - n) for n in range(10_000)]
    dsstne.write_index(tmp_path / "index", [3, 1])
    assert dsstne.read_index(tmp_path / "index").tolist() == ["3", "1"]
    dsstne.write_index(tmp_path / "index", [])
    assert dsstne.read_index(tmp_path / "index").tolist() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\t0\nb\n", "line 2: the line has no TAB"),
        ("a\t0\na\t1\n", 'line 2: the label "a" is already in line 1'),
        ("a\t0\nb\t0\n", "line 2: the number 0 is already in line 1"),
        ("a\t0\nb\t2\n", "no label has the number 1, but one has 2"),
        ("a\tx\n", 'line 1: "x" is not a number of a label'),
    ],
)
def test_a_damaged_index_is_an_error(tmp_path, text, message):
    with pytest.raises(dsstne.InvalidDataError, match=message):
        dsstne.read_index(written(tmp_path, text))


def test_a_missing_index_is_an_error(tmp_path):
    with pytest.raises(dsstne.MissingFileError, match="no such file") as caught:
        dsstne.read_index(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(dsstne.InvalidArgumentError, match="has a label|which entry 0 has"):
        dsstne.write_index(tmp_path / "index", ["a", "a"])
    assert not (tmp_path / "index").exists()


def test_a_feature_that_is_there_twice_counts_once_in_scipy_too(tmp_path):
    path = tmp_path / "text"
    path.write_text("a\tz:x:y\nb\ty:z\nc\tx:x:w\n")
    data = dsstne.Dataset.from_text(path)
    matrix = data.to_scipy()
    assert matrix.max() == 1  # SciPy sorts rows for this
    np.testing.assert_array_equal(matrix.toarray(), data[:].toarray())
