"""convert: data files and networks in other formats."""

import gzip
import itertools
import lzma
import os

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from conftest import SHARED
from matrices import ratings

import dsstne
from dsstne._commands import locks
from dsstne.cli import main

f4 = np.float32
ROWS = [f"row{n}" for n in range(40)]
ITEMS = [f"item{n}" for n in range(25)]


X = ratings()
ONES = scipy.sparse.csr_array(X != 0)
OUTPUTS = ["a.arrow", "a.npz", "a.mtx", "b.mtx.gz", "a.nc", "a.txt", "b.txt.gz", "a.xc", "b.xc.txt.gz"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path="in.arrow", matrix=X, **names):
    with dsstne.Dataset(matrix) as data:
        data.save(path, **names)


def convert(*arguments):
    return main(["convert", *map(str, arguments)])


def to(path):
    """The flags that a file of the name needs when it is written."""
    return ["-d", "gl"] if path.endswith(".nc") else []


def of(path):
    """The flags that a file of the name needs when it is read."""
    if ".txt" in path and ".xc" not in path:
        return ["-t", "analog"]
    return ["--part", "features"] if ".xc" in path else []


def indexes(path, before=()):
    """The flags for the indexes beside a file, or else those that it was made with."""
    flags = []
    for key in ("features", "samples"):
        own = [f"--{key}", f"{path}.{key}"] if os.path.exists(f"{path}.{key}") else []
        flags += own or [
            word for flag in before if flag == f"--{key}" for word in (flag, before[before.index(flag) + 1])
        ]
    return flags


def content(path):
    with dsstne.Dataset.open(path) as data:
        return data[:].toarray(), data.item_names.tolist(), data.row_names.tolist()


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), [*itertools.product(OUTPUTS, ["c" + name[1:] for name in OUTPUTS])])
def test_a_matrix_with_names_comes_back_through_any_two_formats(first, second):
    save(items=ITEMS, rows=ROWS)
    assert convert("in.arrow", first, *to(first)) == 0
    read = indexes(first)
    assert convert(first, second, *of(first), *to(second), *read) == 0
    assert convert(second, "out.arrow", *of(second), *indexes(second, read)) == 0
    matrix, items, rows = content("out.arrow")
    assert np.array_equal(matrix, X.toarray())
    assert (items, rows) == (ITEMS, ROWS)


@pytest.mark.parametrize("path", OUTPUTS)
def test_ones_have_no_values_where_a_format_can_say_so(folder, path):
    scipy.sparse.save_npz("in.npz", ONES)
    assert convert("in.npz", path, *to(path)) == 0
    content = (gzip.decompress if path.endswith(".gz") else bytes)((folder / path).read_bytes())
    if ".mtx" in path:
        assert content.startswith(b"%%MatrixMarket matrix coordinate pattern general\n")
    if path.endswith("txt") and ".xc" not in path:
        assert b"," not in content
    if path == "a.nc":
        assert dsstne.netcdf.datasets(path)[0].boolean
    flags = [word.replace("analog", "indicator") for word in of(path)]
    assert convert(path, "out.npz", *flags, *indexes(path)) == 0
    assert np.array_equal(scipy.sparse.load_npz("out.npz").toarray(), ONES.toarray())


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("middle", ["a.mtx", "a.npz"])
def test_values_keep_their_types_and_digits(dtype, middle):
    values = np.array([[1, 0, 100], [0, 1, 0]]).astype(dtype)
    if dtype in ("f4", "f8"):
        values[0, 2] = np.dtype(dtype).type(1) / 3
    if dtype in ("i8", "u8"):
        values[0, 2] = (1 << 62) + 1
    scipy.sparse.save_npz("in.npz", scipy.sparse.csr_array(values))
    assert convert("in.npz", middle) == 0
    assert convert(middle, "out.npz") == 0
    out = scipy.sparse.load_npz("out.npz")
    assert np.array_equal(out.toarray().astype(dtype), values)
    if middle == "a.npz":
        assert out.dtype == np.dtype(dtype)


def test_stored_zeros_stay_or_are_reported(capsys):
    matrix = scipy.sparse.csr_array((f4([0, 2, 3]), [0, 2, 1], [0, 2, 3]), shape=(2, 3))
    scipy.sparse.save_npz("in.npz", matrix)
    assert convert("in.npz", "a.mtx") == 0
    assert convert("a.mtx", "a.txt") == 0
    assert convert("a.txt", "a.xc", "-t", "analog", "--features", "a.txt.features") == 0
    assert convert("a.xc", "out.npz", "--part", "features") == 0
    assert scipy.sparse.load_npz("out.npz").nnz == 3
    assert "warning" not in capsys.readouterr().err
    assert convert("out.npz", "out.arrow") == 0
    assert "warning: out.arrow has no place for 1 zero that is stored" in capsys.readouterr().err
    assert convert("out.npz", "out.nc", "-d", "x") == 0
    assert "warning: out.nc has no place for 1 zero that is stored" in capsys.readouterr().err
    assert dsstne.Dataset.open("out.arrow").nnz == 2


@pytest.mark.parametrize("path", ["out.arrow", "out.nc"])
@pytest.mark.parametrize("values", [[1 / 3, 2], [16777217, 2]])
def test_digits_beyond_those_of_float32_are_reported(path, values, capsys):
    for name, some in (("in.npz", values), ("short.npz", [0.1, 3.25e-9])):
        scipy.sparse.save_npz(name, scipy.sparse.csr_array([some]))
    assert convert("in.npz", path, *to(path)) == 0
    assert f"warning: {path} has no place for all digits of the values" in capsys.readouterr().err
    assert convert("short.npz", path, *to(path), "--overwrite") == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("path", [*OUTPUTS, "b.nc"])
def test_weights_and_the_mark_of_stored_entries_stay_in_netcdf_and_are_reported_elsewhere(path, capsys):
    weights = np.linspace(0, 1, 40, dtype=f4)
    dsstne.netcdf.write("in.nc", {"gl": X}, sample_weight={"gl": weights}, stored_only=["gl"])
    assert convert("in.nc", path) == 0
    err = capsys.readouterr().err
    if path.endswith(".nc"):
        assert np.array_equal(dsstne.netcdf.read(path).sample_weight, weights)
        assert dsstne.netcdf.datasets(path)[0].stored_only
        assert "warning" not in err
    else:
        assert f"warning: {path} has no place for the weights of the samples\n" in err
        assert f"warning: {path} has no place for the mark that only stored entries count" in err


@pytest.mark.parametrize("path", OUTPUTS)
def test_each_example_of_an_indexed_data_set_has_its_row(path, capsys):
    h5py = pytest.importorskip("h5py")
    dsstne.netcdf.write("in.nc", {"gl": X})
    chosen = np.arange(60, dtype=np.uint32) % 7
    with h5py.File("in.nc", "r+") as file:  # DSSTNE's "indexed": the bit 64, and the rows by number
        file.attrs["attributes0"] = np.uint32(file.attrs["attributes0"] | 64)
        file.move("examplesDim0", "uniqueExamplesDim0")
        for name, length in (("examplesDim0", 60),):
            file.create_dataset(name, data=np.zeros(length, ">f4")).make_scale(name)
        file["index0"] = chosen
        file["index0"].dims[0].attach_scale(file["examplesDim0"])
    assert convert("in.nc", path) == 0
    assert convert(path, "out.arrow", *of(path), *indexes(path)) == 0
    with dsstne.Dataset.open("out.arrow") as data:
        assert np.array_equal(data[:].toarray(), X.toarray()[chosen])
    assert "warning" not in capsys.readouterr().err


def test_whole_rows_of_bytes_become_the_values_that_dsstne_computes_with():
    h5py = pytest.importorskip("h5py")
    stored = np.array([[0, 64, 128], [192, 0, 32]], np.uint8)
    with h5py.File("in.nc", "w") as file:
        header = {"attributes0": 0, "kind0": 0, "dataType0": 8, "dimensions0": 1, "width0": 3}  # of UChar
        file.attrs.update({"datasets": np.uint32(1), "name0": np.bytes_("gl_output"), **header})
        for name, length in (("examplesDim0", 2), ("dataDim0", 6)):
            file.create_dataset(name, data=np.zeros(length, ">f4")).make_scale(name)
        file["data0"] = stored.ravel()
    assert convert("in.nc", "features.npz", "-d", "gl_output") == 0
    assert np.array_equal(scipy.sparse.load_npz("features.npz").toarray(), stored / 256 - 0.5)
    assert convert("in.nc", "labels.npz", "--part", "labels") == 0
    assert np.array_equal(scipy.sparse.load_npz("labels.npz").toarray(), stored / 256)


@pytest.mark.parametrize("layout", ["csc", "coo", "bsr", "dia", "csr"])
def test_other_layouts_of_scipy_are_read(layout):
    scipy.sparse.save_npz("in.npz", X.asformat(layout))
    assert convert("in.npz", "out.arrow") == 0
    assert np.array_equal(dsstne.Dataset.open("out.arrow")[:].toarray(), X.toarray())


def test_dense_and_symmetric_matrices_of_matrix_market_are_read():
    scipy.io.mmwrite("dense.mtx", X.toarray())
    assert convert("dense.mtx", "dense.npz") == 0
    assert np.array_equal(scipy.sparse.load_npz("dense.npz").toarray().astype(f4), X.toarray())
    symmetric = scipy.sparse.coo_array(X[:25] @ X[:25].T > 0).astype(int)
    scipy.io.mmwrite("symmetric.mtx", symmetric, symmetry="symmetric")
    assert convert("symmetric.mtx", "symmetric.npz") == 0
    assert np.array_equal(scipy.sparse.load_npz("symmetric.npz").toarray(), symmetric.toarray())


def test_files_of_matrix_market_and_npz_are_those_of_scipy():
    save()
    assert convert("in.arrow", "out.mtx") == 0
    assert np.array_equal(scipy.io.mmread("out.mtx").toarray().astype(f4), X.toarray())
    assert convert("in.arrow", "out.npz") == 0
    loaded = scipy.sparse.load_npz("out.npz")
    assert (loaded.format, loaded.dtype, loaded.indices.dtype) == ("csr", f4, np.int32)


def test_content_tells_what_a_file_is_and_to_what_it_becomes(folder):
    save()
    os.rename("in.arrow", "in.npz")
    assert convert("in.npz", "out", "--to", "mtx") == 0
    assert convert("out", "out.xc", "--to", "arrow") == 0
    assert np.array_equal(dsstne.Dataset.open("out.xc")[:].toarray(), X.toarray())


def test_blocks_do_not_change_what_is_written(folder, monkeypatch):
    save(items=ITEMS, rows=ROWS)
    for name in ("a.npz", "a.mtx", "a.txt", "a.xc"):
        assert convert("in.arrow", name) == 0
    monkeypatch.setattr("dsstne._commands.parts._BLOCK", 7)
    for name in ("a.npz", "a.mtx", "a.txt", "a.xc"):
        assert convert("in.arrow", f"b{name}") == 0
        assert (folder / f"b{name}").read_bytes() == (folder / name).read_bytes()
    for module in ("extreme", "market"):
        monkeypatch.setattr(f"dsstne._commands.{module}._BLOCK", 50)
    for name, flags in (("a.xc", ["--part", "features"]), ("a.mtx", [])):
        assert convert(name, "parts.npz", "--overwrite", *flags) == 0
        assert np.array_equal(scipy.sparse.load_npz("parts.npz").toarray().astype(f4), X.toarray())


# ---- names and indexes ----

TEXT = "ann\ttea,5:milk,3.5\nbob\ttea,4\nbad line\neve\t\n"


def test_a_text_is_read_as_all_commands_read_it(folder, capsys):
    (folder / "T").write_text(TEXT)
    assert convert("T", "out.npz") == 0
    assert scipy.sparse.load_npz("out.npz").toarray().tolist() == [[True, True], [True, False], [False, False]]
    assert (folder / "out.npz.features").read_text() == "tea\t0\nmilk\t1\n"
    assert (folder / "out.npz.samples").read_text() == "ann\t0\nbob\t1\neve\t2\n"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "out.npz: 3 samples, 2 features (3 stored)",
        "T: skipped 1 malformed line: 1 with no TAB (first: T, line 3, column 1)",
        "T: its values count as 1; -t analog keeps them",
    ]
    assert convert("T", "analog.npz", "-t", "analog") == 0
    assert scipy.sparse.load_npz("analog.npz").toarray().tolist() == [[5, 3.5], [4, 0], [0, 0]]
    assert "count as 1" not in capsys.readouterr().err


def test_indexes_that_flags_name_are_made_once_and_then_number_the_text(folder):
    (folder / "T").write_text(TEXT)
    flags = ["-t", "analog", "--features", "f", "--samples", "s"]
    assert convert("T", "a.arrow", *flags) == 0
    assert (folder / "f").read_text() == "tea\t0\nmilk\t1\n"
    (folder / "f").write_text("rice\t0\nmilk\t1\ntea\t2\n")
    (folder / "s").write_text("eve\t0\nann\t1\nbob\t2\n")
    assert convert("T", "b.npz", *flags) == 0
    assert scipy.sparse.load_npz("b.npz").toarray().tolist() == [[0, 0, 0], [0, 3.5, 5], [0, 0, 4]]
    assert not [name for name in os.listdir(folder) if name.startswith("b.npz.")]


def test_an_index_that_is_made_is_locked_until_it_is_there(monkeypatch):
    held = []
    take = locks.held

    def watched(paths):
        held.append(list(paths))
        return take(held[-1])

    monkeypatch.setattr(locks, "held", watched)
    save(items=ITEMS, rows=ROWS)
    assert convert("in.arrow", "a.npz", "--features", "index") == 0
    assert held == [["index"]]


def test_an_index_of_a_file_that_was_replaced_is_removed(folder):
    save(items=ITEMS, rows=ROWS)
    assert convert("in.arrow", "a.npz") == 0
    save("bare.arrow")
    assert convert("bare.arrow", "a.npz", "--overwrite") == 0
    assert not (folder / "a.npz.features").exists()
    assert not (folder / "a.npz.samples").exists()


def test_samples_have_the_names_that_one_of_two_files_has(folder):
    scipy.sparse.save_npz("in.npz", X)
    labels = ONES[:, :3]
    with dsstne.Dataset(labels) as data:
        data.save("labels.arrow", rows=ROWS)
    assert convert("in.npz", "a.nc", "-d", "gl", "--labels", "labels.arrow") == 0
    for name in ("gl_input", "gl_output"):
        assert list(dsstne.netcdf.read("a.nc", name).rows) == ROWS


def test_a_digest_without_names_is_compared_or_reported(capsys):
    dsstne.netcdf.write("in.nc", {"gl": X}, items={"gl": ITEMS}, rows=ROWS)
    with h5py.File("in.nc", "r+") as file:
        for name in [name for name in file if name.startswith("indTo")]:
            del file[name]
    dsstne.write_index("others", ITEMS[::-1])
    assert convert("in.nc", "a.npz", "--features", "others") == 1
    assert "the 25 features of in.nc, of which it has the digest, are not the first 25 of" in capsys.readouterr().err
    assert convert("in.nc", "a.npz") == 0
    err = capsys.readouterr().err
    assert "warning: a.npz has no place for the digest of its features, of which in.nc has no names" in err
    assert "the digest of its samples" in err


@pytest.mark.parametrize("known", [[*ITEMS, "another"], ITEMS[:20]])
def test_an_index_that_has_grown_since_or_before_still_fits(known):
    save(items=ITEMS, rows=ROWS)
    dsstne.write_index("index", known)
    assert convert("in.arrow", "a.arrow", "--features", "index") == 0
    values, items, rows = content("a.arrow")
    assert (values == X.toarray()).all()
    assert (items, rows) == (ITEMS, ROWS)


def test_the_index_beside_a_text_keeps_the_order_of_features(folder):
    save(matrix=np.array([[0, 0, 1], [0, 2, 0]]), items=["a", "b", "c"])
    assert convert("in.arrow", "out.txt") == 0
    assert (folder / "out.txt").read_text() == "0\tc,1\n1\tb,2\n"
    assert (folder / "out.txt.features").read_text() == "a\t0\nb\t1\nc\t2\n"
    save(matrix=np.array([[0, 0, 1], [0, 1, 0]]))
    assert convert("in.arrow", "out.txt", "--overwrite") == 0
    assert (folder / "out.txt").read_text() == "0\t2\n1\t1\n"
    assert (folder / "out.txt.features").read_text() == "0\t0\n1\t1\n2\t2\n"


def test_names_that_an_index_cannot_hold_are_reported_and_kept_by_other_formats(folder, capsys):
    save(items=["a:b", *ITEMS[1:]], rows=["same", "same", *ROWS[2:]])
    assert convert("in.arrow", "out.npz") == 0
    err = capsys.readouterr().err
    assert "has no place for names, and the index out.npz.features cannot hold them: label 0 is 'a:b'" in err
    assert "the index out.npz.samples cannot hold them: the labels 0 and 1 are both 'same'" in err
    assert sorted(os.listdir(folder)) == ["in.arrow", "out.npz"]
    assert convert("in.arrow", "out.nc", "-d", "x") == 0
    assert dsstne.netcdf.read("out.nc").items[0] == "a:b"


def test_folders_are_texts(folder):
    (folder / "many").mkdir()
    (folder / "many" / "a.gz").write_bytes(gzip.compress(b"ann\ttea,1\n"))
    (folder / "many" / "b").write_text("bob\tmilk,2\n")
    assert convert("many", "out.arrow", "-t", "analog") == 0
    assert content("out.arrow")[1:] == (["tea", "milk"], ["ann", "bob"])


# ---- features and labels ----

EXTREME = "3 4 2\n0,1 1:0.5 3:2\n 0:1 \n1\n"


def test_a_text_of_extreme_classification_holds_two_matrices(folder):
    (folder / "in.txt").write_text(EXTREME)
    assert convert("in.txt", "f.npz", "--part", "features") == 0
    assert scipy.sparse.load_npz("f.npz").toarray().tolist() == [[0, 0.5, 0, 2], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert convert("in.txt", "l.npz", "--part", "labels") == 0
    assert scipy.sparse.load_npz("l.npz").toarray().tolist() == [[True, True], [False, False], [False, True]]
    assert convert("in.txt", "both.nc", "-d", "x") == 0
    assert [one.name for one in dsstne.netcdf.datasets("both.nc")] == ["x_input", "x_output"]
    for source, flags in (("both.nc", []), ("both.nc", ["-d", "x"]), ("f.npz", ["--labels", "l.npz"])):
        assert convert(source, "out.xc", "--overwrite", *flags) == 0
        assert (folder / "out.xc").read_text() == EXTREME.replace(" \n", "\n").replace("1\n", "1 \n").replace(
            ":1 ", ":1"
        )
    assert convert("l.npz", "only.xc", "--part", "labels") == 0
    assert (folder / "only.xc").read_text() == "3 0 2\n0,1 \n \n1 \n"
    assert convert("only.xc", "only.nc", "-d", "x") == 0
    assert dsstne.netcdf.read("only.nc", "x").matrix.shape == (3, 2)
    assert convert("f.npz", "two.nc", "-d", "y", "--labels", "only.xc") == 0
    assert np.array_equal(dsstne.netcdf.read("two.nc", "y_output").matrix.toarray(), [[1, 1], [0, 0], [0, 1]])


def test_d_names_a_data_set_as_dsstne_does():
    dsstne.netcdf.write("in.nc", {"gl_input": X, "gl_output": ONES, "other": X[:3]})
    assert convert("in.nc", "a.npz", "-d", "gl") == 0
    assert convert("in.nc", "b.npz", "-d", "gl", "--part", "labels") == 0
    assert convert("in.nc", "c.npz", "-d", "gl_output") == 0
    assert np.array_equal(scipy.sparse.load_npz("a.npz").toarray(), X.toarray())
    assert np.array_equal(scipy.sparse.load_npz("b.npz").toarray(), ONES.toarray())
    assert np.array_equal(scipy.sparse.load_npz("c.npz").toarray(), ONES.toarray())
    assert convert("in.nc", "other.nc", "-d", "other") == 0
    assert [one.name for one in dsstne.netcdf.datasets("other.nc")] == ["other"]


def test_names_and_samples_of_labels_belong_to_those_of_the_features(folder):
    (folder / "F").write_text("ann\ttea\nbob\tmilk\n")
    (folder / "L").write_text("bob\tgood\nann\tbad:good\n")
    assert convert("F", "out.xc", "--labels", "L") == 0
    assert (folder / "out.xc").read_text() == "2 2 2\n0,1 0:1\n0 1:1\n"
    assert dsstne.read_index("out.xc.features").tolist() == ["tea", "milk"]
    assert dsstne.read_index("out.xc.labels").tolist() == ["good", "bad"]
    assert dsstne.read_index("out.xc.samples").tolist() == ["ann", "bob"]


def test_what_labels_cannot_say_is_reported(capsys):
    scipy.sparse.save_npz("f.npz", scipy.sparse.csr_array(np.eye(2)))
    scipy.sparse.save_npz("l.npz", scipy.sparse.csr_array((f4([0, 2]), [0, 1], [0, 1, 2]), shape=(2, 2)))
    assert convert("f.npz", "out.xc", "--labels", "l.npz") == 0
    err = capsys.readouterr().err
    assert "warning: out.xc has no place for 1 zero that is stored\n" in err
    assert "warning: out.xc has no place for the values of the labels\n" in err
    with open("out.xc") as file:
        assert file.read() == "2 2 2\n 0:1\n1 1:1\n"


@pytest.mark.parametrize("dataset", ["bibtex", "delicious"])
def test_published_texts_come_back_to_the_byte(folder, dataset):
    path = SHARED / f"{dataset}-xc" / "test.xc.txt.xz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    (folder / "in.xc").write_bytes(lzma.decompress(path.read_bytes()))
    assert convert("in.xc", "both.nc", "-d", dataset) == 0
    assert convert("both.nc", "out.xc") == 0
    assert (folder / "out.xc").read_bytes() == (folder / "in.xc").read_bytes()
