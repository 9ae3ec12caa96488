"""Odd input is converted as documented, or refused with an error of this package that says what to do."""

import io
import json
import sys

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse

import dsstne
from dsstne import _native
from dsstne._layers import numbers

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1]], np.float32)

CONVERTED = {
    "a DataFrame of pandas": lambda: pandas.DataFrame(DENSE),
    "a sparse DataFrame of pandas": lambda: pandas.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_array(DENSE)),
    "a DataFrame of pandas with two types": lambda: pandas.DataFrame(DENSE).astype({0: np.int64}),
    "a DataFrame of polars": lambda: polars.DataFrame(DENSE),
    "dok_array": lambda: scipy.sparse.dok_array(DENSE),
    "dok_matrix": lambda: scipy.sparse.dok_matrix(DENSE),
    "float16": lambda: DENSE.astype(np.float16),
    "big-endian float32": lambda: DENSE.astype(">f4"),
    "big-endian float64": lambda: DENSE.astype(">f8"),
    "big-endian int32": lambda: DENSE.astype(">i4"),
    "an array whose mask is empty": lambda: np.ma.masked_array(DENSE, np.zeros(DENSE.shape, bool)),
}


@pytest.mark.parametrize("make", CONVERTED.values(), ids=CONVERTED.keys())
def test_what_is_documented_as_converted_is_converted(make):
    X = make()
    want = dsstne.popularity(DENSE)
    assert dsstne.popularity(X).tensor("bias").tobytes() == want.tensor("bias").tobytes()
    assert want.predict(X).tobytes() == want.predict(DENSE).tobytes()
    assert dsstne.Dataset(X).nnz == 4
    dsstne.fit(X, hidden=2, epochs=1, progress=False)


REFUSED = {
    "a masked array": (np.ma.masked_array(DENSE, DENSE == 2), r"masked values.*X\.filled\(0\)"),
    "a row of a matrix": (scipy.sparse.csr_array(DENSE)[[0]].toarray()[0], r"it has 1\. For one row .* X\[\[0\]\]"),
    "a sparse row": (scipy.sparse.csr_array(DENSE)[0], r"X\[\[0\]\] instead of X\[0\]"),
    "numbers of users": ([3, 5], "numbers of rows belong into rows="),
    "a Series": (pandas.Series([1.0, 2.0]), "has two dimensions|two dimensions|chunks"),
    "a DataFrame of words": (pandas.DataFrame({"a": ["x"]}), "type .*; expected numbers"),
    "a sparse DataFrame of NaN": (pandas.DataFrame(DENSE).astype("Sparse"), r"must be 0.*SparseDtype\(float"),
}


@pytest.mark.parametrize(("X", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_converted_is_refused_with_a_remedy(X, words):
    model = dsstne.popularity(DENSE)
    for call in (lambda: model.recommend(X, k=1), lambda: dsstne.fit(X, progress=False), lambda: dsstne.popularity(X)):
        with pytest.raises((dsstne.InvalidDataError, dsstne.InvalidArgumentError), match=words):
            call()


def trainer():
    return dsstne.Trainer(dsstne.Model({"layers": LAYERS}, seed=1), DENSE, devices="cpu")


LAYERS = [
    {"name": "in", "kind": "input", "size": 4},
    {"name": "h", "kind": "hidden", "size": 2},
    {"name": "out", "kind": "output", "size": 4},
]

# What used to end in an exception that is not of this package, or in a silent mistake.
ODD = {
    "precision": lambda: dsstne.fit(DENSE, precision=np.float32, progress=False),
    "learning_rate": lambda: dsstne.fit(DENSE, learning_rate=np.array([1e-3, 1e-2]), progress=False),
    "temperature": lambda: dsstne.fit(DENSE, temperature=10**400, progress=False),
    "max_seconds": lambda: dsstne.fit(DENSE, max_seconds=-(10**400), progress=False),
    "epochs": lambda: dsstne.fit(DENSE, epochs=2**64 + 1, progress=False),
    "tied": lambda: dsstne.fit(DENSE, tied="no", progress=False),
    "validation": lambda: dsstne.fit(DENSE, validation={"a": DENSE}, progress=False),
    "items": lambda: dsstne.fit(DENSE, items={"a", "b", "c", "d"}, progress=False),
    "exclude_seen": lambda: dsstne.popularity(DENSE).recommend(DENSE, k=1, exclude_seen="no"),
    "rows": lambda: dsstne.popularity(DENSE).recommend(DENSE, k=1, rows=[[1], [2, 3]]),
    "memory_limit": lambda: dsstne.fit(DENSE, memory_limit=0, progress=False),
    "memory_limit of predict": lambda: dsstne.popularity(DENSE).predict(DENSE, memory_limit=0),
    "steps": lambda: trainer().run(steps=2**64 + 3),
    "model": lambda: dsstne.Trainer(DENSE, dsstne.popularity(DENSE)),
    "model of evaluate": lambda: dsstne.evaluate(DENSE, dsstne.popularity(DENSE), DENSE),
    "path": lambda: dsstne.load(3),
    "surrogates": lambda: dsstne.load("\ud800.dsstne"),
    "network": lambda: dsstne.Model("a\0b"),
    "a long network": lambda: dsstne.Model("x" * 5000),
}


@pytest.mark.parametrize("call", ODD.values(), ids=ODD.keys())
def test_odd_arguments_are_errors_of_this_package(call):
    with pytest.raises(dsstne.DsstneError) as caught:
        call()
    assert len(str(caught.value)) < 700


def test_hidden_may_be_a_number_of_numpy():
    for hidden in (np.array(8), np.int64(8), np.array([8])):
        model = dsstne.fit(DENSE, hidden=hidden, epochs=0)
        assert model.tensors["output.weight"] == (4, 8)


def test_files_that_are_no_network_are_named(tmp_path):
    latin = tmp_path / "latin.json"
    latin.write_bytes('{"layers": "\u00e9"}'.encode("latin-1"))
    for path, words in ((tmp_path, "Is a directory"), (latin, "not a text in UTF-8")):
        with pytest.raises(dsstne.DsstneError, match=words) as caught:
            dsstne.Model(path)
        assert str(path)[-20:] in str(caught.value)


def test_a_network_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "network.json"
    path.write_text(json.dumps({"layers": LAYERS}), "utf-8-sig")
    assert dsstne.Model(path).inputs == {"in": 4}


def test_the_rest_of_the_library_works_with_odd_entries_of_sys_path(python, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    code = """
import os, sys
import numpy, scipy.sparse
sys.path += [sys.argv[1], "x" * 5000, b"bytes", None, "nul\\0", ""]
os.makedirs("gone"); os.chdir("gone"); os.rmdir("../gone")
import dsstne
assert not dsstne.doctor().problems, dsstne.doctor()
"""
    python(f"import os; os.chdir({str(tmp_path)!r})\n" + code, closed)


def test_a_library_beside_the_program_is_found(python, tmp_path):
    library = _native.library().path
    (tmp_path / "lib.so").symlink_to(library)
    code = f"""
import os
os.chdir({str(tmp_path)!r})
os.environ["DSSTNE_LIBRARY"] = "./lib.so"
import dsstne
print(dsstne.doctor().ok)
"""
    assert python(code).strip() == "True"


def test_evaluating_on_the_rows_themselves_is_noticed():
    model, X = dsstne.popularity(DENSE), scipy.sparse.csr_array(DENSE)
    copied = scipy.sparse.csr_array((X.data[[0, 1, 3, 2, 2]], X.indices[[0, 1, 3, 2, 2]], [0, 2, 2, 5]), shape=X.shape)
    part = scipy.sparse.csr_array(DENSE * [1, 0, 0, 0])
    for held_out in (X, X.copy(), copied, part):
        with pytest.warns(UserWarning, match="all held-out items are excluded as seen"):
            assert dsstne.evaluate(model, X, held_out) == {"recall@20": 0, "ndcg@20": 0}
    with pytest.warns(UserWarning, match="all held-out items are excluded as seen"):
        dsstne.fit(X, hidden=2, epochs=1, validation=X, progress=False)


def test_a_model_that_is_only_bad_is_not_warned_about():
    model, X = dsstne.popularity(DENSE), scipy.sparse.csr_array(DENSE)
    others = scipy.sparse.csr_array(np.eye(3, 4, 1, np.float32))
    assert dsstne.evaluate(model, X, others, "recall@1")["recall@1"] < 1
    assert dsstne.evaluate(model, X, scipy.sparse.csr_array(X.shape, dtype=np.float32), exclude="input")
    assert dsstne.evaluate(model, X, X, "recall@4", exclude=None) == {"recall@4": 1}


def test_a_model_knows_the_columns_of_arrow_data():
    X = scipy.sparse.csr_array(DENSE)
    entries = pyarrow.StructArray.from_arrays([pyarrow.array(X.indices), pyarrow.array(X.data)], ["index", "value"])
    rows = pyarrow.ListArray.from_arrays(pyarrow.array(X.indptr), entries)
    model = dsstne.popularity(X)
    for given in (rows, {"input": rows}):
        assert model.recommend(given, k=2, exclude=rows)[0].tolist() == model.recommend(X, k=2)[0].tolist()
    with pytest.raises(dsstne.InvalidArgumentError, match="number of columns"):
        dsstne.fit(rows, hidden=2, epochs=1)


def test_names_that_are_set_as_tensors_are_read_again():
    model = dsstne.popularity(DENSE, items=["a", "b", "c", "d"])
    assert model.items.tolist() == ["a", "b", "c", "d"]
    model.set_tensor("items.bytes", np.frombuffer(b"wxyz", np.uint8))
    model.set_tensor("items.offsets", np.arange(5))
    assert model.items.tolist() == ["w", "x", "y", "z"]


def test_the_engine_reads_a_copy_of_row_numbers():
    rows = np.arange(3)
    assert not np.shares_memory(numbers(rows, 3, "rows", np.int64), rows)


def test_the_memory_limit_includes_what_is_returned():
    X = scipy.sparse.random_array((20_000, 50), density=0.1, format="csr", rng=0, dtype=np.float32)
    model = dsstne.popularity(X)
    limit = 3_000_000  # predict returns 4 MB
    with pytest.raises(dsstne.OutOfMemoryError, match=r"4,000,000 bytes, memory_limit is 3,000,000; .*rows="):
        model.predict(X, memory_limit=limit)
    assert model.predict(X, rows=np.arange(10_000), memory_limit=limit).shape == (10_000, 50)
    with pytest.raises(dsstne.OutOfMemoryError, match="8,000,000 bytes, memory_limit"):
        model.recommend(X, k=50, memory_limit=limit)
    with pytest.raises(dsstne.OutOfMemoryError, match="640,000 bytes, memory_limit"):
        dsstne.evaluate(model, X, X, ["recall@5", "ndcg@5", "map@5", "mrr@5"], per_row=True, memory_limit=600_000)
    with pytest.raises(dsstne.OutOfMemoryError, match="The result takes 2,000,000 bytes beside that"):
        model.predict(X, rows=np.arange(10_000), memory_limit=2_000_100)


def test_a_result_larger_than_the_memory_is_refused():
    rows, items = 4_000_000, 60_000  # 960 GB
    X = scipy.sparse.csr_array((rows, items), dtype=np.float32)
    with pytest.raises(dsstne.OutOfMemoryError, match="960,000,000,000 bytes, .* are available"):
        dsstne.popularity(X).predict(X)


class Broken(io.StringIO):
    def isatty(self):
        raise OSError("not there")


def test_training_needs_no_stderr(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stream in (closed, Broken(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        dsstne.fit(DENSE, hidden=2, epochs=1)


@pytest.mark.long
@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_a_mapped_matrix_whose_file_shrinks_is_invalid_data(python, tmp_path, part):
    code = """
import os, sys
import numpy as np, scipy.sparse
import dsstne
X = scipy.sparse.random_array((20_000, 300), density=0.05, format="csr", rng=0, dtype=np.float32)
part, path = sys.argv[1:]
array = getattr(X, part)
array.tofile(path)
setattr(X, part, np.memmap(path, array.dtype, "r", shape=array.shape))
model = dsstne.popularity(X)
data = dsstne.Dataset(X)
trainer = dsstne.Trainer(dsstne.fit(X, hidden=4, epochs=0), data)
os.truncate(path, 0)
calls = {
    "recommend": lambda: model.recommend(data, k=3),
    "predict": lambda: model.predict(data, rows=[19_999]),
    "evaluate": lambda: dsstne.evaluate(model, data, data),
    "run": lambda: trainer.run(epochs=1),
    "fit": lambda: dsstne.fit(data, hidden=4, epochs=1, progress=False),
}
for name, call in calls.items():
    try:
        call()
    except dsstne.InvalidDataError as error:
        assert "it was shortened" in str(error), error
        print(name)
"""
    path = tmp_path / "array"
    assert python(code, part, path).split() == ["recommend", "predict", "evaluate", "run", "fit"]
