"""convert: networks, and what users see when something is wrong."""

import gzip
import lzma
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from matrices import ratings

import dsstne
from dsstne.cli import main

f4 = np.float32
X = ratings()
ONES = scipy.sparse.csr_array(X != 0)
ROWS = [f"row{n}" for n in range(40)]
ITEMS = [f"item{n}" for n in range(25)]
EXTREME = "3 4 2\n0,1 1:0.5 3:2\n 0:1 \n1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path="in.arrow", matrix=X, **names):
    with dsstne.Dataset(matrix) as data:
        data.save(path, **names)


def convert(*arguments):
    return main(["convert", *map(str, arguments)])


# ---- networks ----

NETWORK = {
    "Denoising": {"p": 0.2},
    "Layers": [
        {"Name": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
        {"Name": "Hidden", "N": 6, "Activation": "Sigmoid"},
        {"Name": "Output", "N": "auto", "DataSet": "gl_output"},
    ],
}


def trained(path, **options):
    network = dsstne.Network.from_dsstne(NETWORK)
    with dsstne.fit(ONES, network=network, items=ITEMS, epochs=1, progress=False, **options) as model:
        if path is not None:
            model.save(path)
        return model.predict(ONES)


def test_a_network_goes_to_netcdf_and_back_with_its_weights_and_names(folder, capsys):
    expected = trained("net.dsstne")
    assert convert("net.dsstne", "net.nc") == 0
    assert dsstne.read_index("net.nc.features").tolist() == ITEMS
    err = capsys.readouterr().err
    assert err.startswith("net.nc: 331 parameters\n")
    assert "warning: net.nc has no place for the history of the training" in err
    assert convert("net.nc", "again.dsstne") == 0
    assert capsys.readouterr().err == "again.dsstne: 331 parameters\n"
    with dsstne.load("again.dsstne") as model:
        assert np.array_equal(model.predict(ONES), expected)
        assert model.items.tolist() == ITEMS
    assert convert("again.dsstne", "again.nc") == 0
    assert "warning" not in capsys.readouterr().err
    assert dsstne.netcdf.network("again.nc").definition == dsstne.netcdf.network("net.nc").definition


def test_the_state_of_a_checkpoint_and_attributes_are_reported(capsys):
    trained(None, checkpoint="run")
    with dsstne.load("run") as model:
        model.attributes["who"] = "me"
        model.save("noted.dsstne")
    assert convert("run", "net.dsstne") == 0
    assert "warning: net.dsstne has no place for the state of the training" in capsys.readouterr().err
    assert convert("noted.dsstne", "net.nc") == 0
    assert "has no place for the attributes who\n" in capsys.readouterr().err


def test_a_network_that_dsstne_cannot_express_stays_where_it_is(folder, capsys):
    with dsstne.popularity(ONES) as model:
        model.save("popular.dsstne")
    assert convert("popular.dsstne", "popular.nc") == 1
    assert "popular.nc" in capsys.readouterr().err
    assert os.listdir(folder) == ["popular.dsstne"]


# ---- what is wrong ----


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of many kinds, most of which have a mistake."""
    folder, before = tmp_path_factory.mktemp("files"), os.getcwd()
    os.chdir(folder)
    try:
        make_files(folder)
    finally:
        os.chdir(before)
    return folder


def make_files(folder):
    save(items=ITEMS, rows=ROWS)
    save("swapped.arrow", rows=["row1", "row0", *ROWS[2:]])
    scipy.sparse.save_npz("in.npz", X)
    trained("net.dsstne")
    dsstne.netcdf.write("two.nc", {"a": X, "b": X})
    texts = {
        "T": "ann\ttea,5\n",
        "bad.txt": "ann\ttea,5\nno tab\n",
        "none.txt": "nothing\n",
        "in.xc": EXTREME,
        "short.xc": "4" + EXTREME[1:],
        "long.xc": "2" + EXTREME[1:],
        "wide.xc": "1 4 2\n0,2 1:1\n",
        "form.xc": "2 4 2\n0 1:1\n0, 1:1\n",
        "huge.xc": "1 4 2\n0 1:1e99\n",
        "vast.xc": "1 4294967296 2\n0 1:1\n",
        "complex.mtx": "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n",
        "vector.mtx": "%%MatrixMarket vector coordinate real general\n1 1\n1 1\n",
        "sizes.mtx": "%%MatrixMarket matrix coordinate real general\n3 x 1\n1 1 1\n",
        "short.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n",
        "long.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1\n2 2 2\n",
        "word.mtx": "%%MatrixMarket matrix coordinate real general\n% note\n3 3 2\n1 1 1\n2 2 two\n",
        "zero.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 1\n0 1 1\n",
        "beyond.mtx": "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 4\n",
        "nan.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 1\n2 3 nan\n",
        "lies.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 99999999999\n1 1 1\n",
        "big.mtx": "%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 1 99999999999999999999\n",
        "oblong.mtx": "%%MatrixMarket matrix coordinate real symmetric\n3 2 1\n1 1 1\n",
        "few": "a\t0\n",
        "others": "".join(f"other{n}\t{n}\n" for n in range(25)),
        "twice": "a\t0\na\t1\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "cut.gz").write_bytes(gzip.compress((texts["short.mtx"] * 999).encode())[:-9])
    (folder / "cut.xc").write_bytes(gzip.compress(EXTREME.encode())[:-12])
    (folder / "cut.npz").write_bytes((folder / "in.npz").read_bytes()[:-30])
    (folder / "cut.arrow").write_bytes((folder / "in.arrow").read_bytes()[:-30])
    (folder / "packed.gz").write_bytes(gzip.compress((folder / "in.arrow").read_bytes()))
    (folder / "in.xz").write_bytes(lzma.compress(EXTREME.encode()))
    np.savez("arrays.npz", a=np.eye(2))
    with np.load("in.npz") as arrays:
        np.savez("columns.npz", **{**arrays, "indices": arrays["indices"] + 20})
        np.savez("objects.npz", **{**arrays, "data": np.array([None] * len(arrays["data"]))})
        np.savez("complex.npz", **{**arrays, "data": arrays["data"].astype(complex)})
    (folder / "classic.nc").write_bytes(b"CDF\x01" + bytes(100))
    (folder / "folder").mkdir()


# A command line, its status, and a part of the message.
CASES = [
    # ---- the command line ----
    ("", 2, "the following arguments are required: IN, OUT"),
    ("in.npz", 2, "the following arguments are required: OUT"),
    ("in.npz a.npz b.npz", 2, "unexpected argument 'b.npz': IN and OUT are given already"),
    ("in.npz a.csv", 2, "OUT, a.csv, must end with .arrow, .dsstne, .mtx"),
    ("in.npz a.csv --to csv", 2, "got 'csv'"),
    ("in.npz a.npz.gz", 2, "OUT, a.npz.gz, must end with"),
    ("in.npz a.gz --to npz", 2, "a file of the format npz cannot be compressed; leave .gz out"),
    ("in.npz a.nc -d x --part lables", 2, "got 'lables'; did you mean labels?"),
    (
        "in.npz a.mtx --labels in.npz",
        2,
        "--labels: a file of the format mtx holds one matrix; netcdf and extreme hold two",
    ),
    ("in.npz a.xc --labels in.npz --part labels", 2, "leave --part out"),
    ("in.npz a.npz --dataset x", 2, "there is no flag --dataset"),
    ("in.npz -o a.npz", 2, "there is no flag -o"),
    # ---- paths ----
    ("none a.npz", 1, "none: no such file"),
    ("in.npz in.npz --overwrite", 1, "OUT and IN name the same file, in.npz; give two files"),
    ("in.npz in.arrow", 1, "in.arrow exists already; give OUT another name, or --overwrite to replace it"),
    ("in.npz none/a.npz", 1, "OUT: none/a.npz: there is no folder"),
    ("in.npz folder --to npz --overwrite", 1, "OUT: folder is a folder; give the name of a file"),
    ("in.npz /dev/stdout --to mtx", 1, "OUT: /dev/stdout is not a regular file"),
    ("T a.npz --features none/f", 1, "--features: none/f: there is no folder"),
    ("T a.npz --features a.npz", 1, "OUT and --features name the same file"),
    ("in.arrow T --to npz --features few --overwrite", 1, "feature 0 is 'a' in --features and 'item0' in in.arrow"),
    # ---- content ----
    ("classic.nc a.npz", 1, "nccopy -k nc4 classic.nc"),
    ("in.xz a.npz", 1, "in.xz is compressed with xz; decompress it, or compress it with gzip if it is a text"),
    ("packed.gz a.npz", 1, "packed.gz is compressed with gzip; decompress it"),
    ("cut.arrow a.npz", 1, "cut.arrow"),
    ("cut.npz a.arrow", 1, "cut.npz: this is not a complete file of scipy.sparse.save_npz"),
    ("arrays.npz a.arrow", 1, "arrays.npz: this is not a complete file of scipy.sparse.save_npz"),
    ("columns.npz a.arrow", 1, "columns.npz: this is not a complete file of scipy.sparse.save_npz"),
    ("objects.npz a.arrow", 1, "objects.npz: this is not a complete file of scipy.sparse.save_npz"),
    ("complex.npz a.arrow", 1, "complex.npz: the values are of type complex128; expected numbers or booleans"),
    ("bad.txt a.arrow --malformed error", 1, "bad.txt, line 2, column 1: the line has no TAB"),
    ("none.txt a.arrow", 1, "no features"),
    ("T a.arrow --features twice", 1, "twice, line 2"),
    ("short.xc a.npz --part labels", 1, "short.xc: the first line says 4 samples, and 3 lines follow"),
    ("long.xc a.npz --part labels", 1, "long.xc: the first line says 2 samples, and 3 lines follow"),
    (
        "wide.xc a.nc -d x --malformed error",
        1,
        "wide.xc, line 2, column 1: a label is beyond those that the first line",
    ),
    ("form.xc a.nc -d x --malformed error", 1, "form.xc, line 3, column 1: expected labels with commas between them"),
    ("huge.xc a.nc -d x --malformed error", 1, "huge.xc, line 2, column 1: a value is too large for float32"),
    ("vast.xc a.nc -d x", 1, "vast.xc, line 1: dsstne has at most 2,147,483,647 features and labels"),
    ("cut.xc a.nc -d x", 1, "cut.xc: the compressed file is damaged"),
    ("complex.mtx a.npz", 1, "complex.mtx, line 1: 'complex' is not supported; expected real or double or integer"),
    ("vector.mtx a.npz", 1, "vector.mtx, line 1: 'vector' is not supported; expected matrix"),
    ("sizes.mtx a.npz", 1, "sizes.mtx, line 2: expected the numbers of rows, columns and entries"),
    ("short.mtx a.npz", 1, "short.mtx: line 2 says 2 entries, and only 1 follow"),
    ("long.mtx a.npz", 1, "long.mtx: line 2 says 1 entries, and more follow"),
    ("word.mtx a.npz", 1, "word.mtx, line 5: expected row, column, value as real numbers"),
    ("zero.mtx a.npz", 1, "zero.mtx: entry 1 (near line 3) has the row 0; rows are from 1 to 3"),
    ("beyond.mtx a.npz", 1, "beyond.mtx: entry 1 (near line 3) has the column 4; columns are from 1 to 3"),
    ("nan.mtx a.npz", 1, "nan.mtx: row 1, column 2 holds NaN; values must be finite"),
    ("lies.mtx a.npz", 1, "lies.mtx, line 2: the file cannot have 99,999,999,999 entries; it is too short"),
    ("big.mtx a.npz", 1, "big.mtx: a value is an integer that does not fit in 64 bits"),
    ("oblong.mtx a.npz", 1, "oblong.mtx: a matrix of 3 x 2 cannot be symmetric"),
    ("cut.gz a.npz", 1, "cut.gz"),
    # ---- what does not fit together ----
    ("in.npz a.nc", 1, "-d is missing: it names the data set of a.nc"),
    ("in.npz a.mtx -d x", 1, "-d names a data set of a NetCDF file, and neither IN nor OUT is one; leave it out"),
    (
        "in.xc a.npz",
        1,
        "in.xc holds features and labels, and a.npz one matrix; --part features or --part labels says which",
    ),
    ("in.xc a.npz --part features --features few", 1, "--features has 1 feature, and in.xc has 4; in.xc has neither"),
    ("in.arrow a.npz --features others", 1, "feature 0 is 'other0' in --features and 'item0' in in.arrow"),
    ("in.npz a.arrow --features f", 1, "f: no such index, and in.npz has no names to make it of"),
    ("two.nc a.npz", 1, "two.nc has the data sets 'a', 'b'; -d names the one to convert"),
    ("two.nc a.npz -d c", 1, "two.nc has the data sets 'a', 'b', and not 'c'; -d names the one to convert"),
    ("two.nc a.nc -d a --labels two.nc", 1, "the features and the labels are both data sets with the name 'a'"),
    ("in.arrow a.xc --labels swapped.arrow", 1, "sample 0 is 'row0' in in.arrow and 'row1' in --labels: swapped.arrow"),
    ("in.npz a.xc --labels in.xc --overwrite", 1, "in.npz has 40 samples, and --labels: in.xc has 3"),
    ("in.npz a.dsstne", 1, "in.npz holds data, and a .dsstne file a network; give OUT another ending"),
    ("net.dsstne a.npz", 1, "net.dsstne is a network; OUT must end with .nc or .dsstne"),
    ("net.dsstne a.nc -d x", 1, "-d is for data, and net.dsstne is a network; leave it out"),
    ("in.npz a.arrow --memory-limit 1K", 1, "more than --memory-limit allows, 1,024"),
    ("in.xc a.nc -d x --memory-limit 10", 1, "more than --memory-limit allows, 10"),
    ("two.nc a.npz -d a --memory-limit 1K", 1, "more than --memory-limit allows"),
    ("net.dsstne a.nc --memory-limit 1K", 1, "more than --memory-limit allows"),
]


@pytest.mark.parametrize(("line", "status", "message"), CASES, ids=[case[0] for case in CASES])
def test_what_is_wrong_is_said_and_nothing_is_written(files, monkeypatch, capsys, line, status, message):
    monkeypatch.chdir(files)
    before = {path.name: path.stat().st_mtime_ns for path in files.iterdir()}
    try:
        returned = convert(*line.split())
    except SystemExit as error:
        returned = error.code
    err = capsys.readouterr().err
    assert returned == status, err
    assert message in err
    assert {path.name: path.stat().st_mtime_ns for path in files.iterdir()} == before


def test_malformed_samples_are_left_out_of_both_parts_and_counted(folder, capsys):
    (folder / "in.xc").write_text("5 4 2\n0 1:1\n0, 1:1\n1 9:1 8:1\n1 0:1e99\n1 2:3\n\n")
    assert convert("in.xc", "out.nc", "-d", "x") == 0
    assert dsstne.netcdf.read("out.nc", "x_input").matrix.toarray().tolist() == [[0, 1, 0, 0], [0, 0, 3, 0]]
    assert dsstne.netcdf.read("out.nc", "x_output").matrix.toarray().tolist() == [[1, 0], [0, 1]]
    assert capsys.readouterr().err.splitlines()[1] == (
        "in.xc: skipped 3 malformed lines: 1 with another form than `label,label feature:value` (first: in.xc, line 3, "
        "column 1), 1 with a feature that the first line does not count (first: in.xc, line 4, column 1), 1 with a "
        "value that is too large (first: in.xc, line 5, column 1)"
    )


@pytest.mark.long
@pytest.mark.parametrize("path", ["gl.nc", "gl.npz", "gl.mtx.gz", "gl.arrow", "gl.txt", "gl.xc"])
def test_a_full_disk_leaves_all_files_as_they_were(folder, path):
    save(matrix=scipy.sparse.random_array((4000, 50), density=0.5, rng=0, dtype=f4).tocsr(), items=map(str, range(50)))
    for name in (path, f"{path}.features"):
        (folder / name).write_text("old")
    limited = (
        "import resource, sys; from dsstne.cli import main; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000));"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = ["convert", "in.arrow", path, "--overwrite", *(["-d", "gl"] if path == "gl.nc" else [])]
    done = subprocess.run([sys.executable, "-c", limited, *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "file too large" in done.stderr.lower()
    assert ".new" not in done.stderr
    assert sorted(os.listdir(folder)) == sorted(["in.arrow", path, f"{path}.features"])
    assert (folder / path).read_text() == (folder / f"{path}.features").read_text() == "old"


@pytest.mark.parametrize("path", ["gl.npz", "gl.mtx", "gl.txt", "gl.xc"])
def test_an_interrupted_conversion_leaves_nothing(folder, monkeypatch, path):
    save()

    def interrupt(self):
        yield self.data[:]
        raise KeyboardInterrupt

    monkeypatch.setattr("dsstne._commands.parts.Part.blocks", interrupt)
    assert convert("in.arrow", path, *(["-d", "gl"] if path == "gl.nc" else [])) == 130
    assert os.listdir(folder) == ["in.arrow"]


def test_existing_indexes_are_replaced_only_with_overwrite(folder, capsys):
    save(items=ITEMS)
    (folder / "out.npz.features").write_text("old")
    assert convert("in.arrow", "out.npz") == 1
    assert "out.npz.features exists already" in capsys.readouterr().err
    assert sorted(os.listdir(folder)) == ["in.arrow", "out.npz.features"]
    assert convert("in.arrow", "out.npz", "--overwrite") == 0
    assert dsstne.read_index("out.npz.features").tolist() == ITEMS
