"""generateNetCDF: data files and indexes from text."""

import gzip
import os

import pytest

import dsstne
from dsstne.cli import main

TEXT = "ann\ttea,5:milk,3:\nbob\ttea,4\nbad line\neve\tmilk,much\n"
FLAGS = ("-d", "gl_input", "-i", "T", "-o", "gl.nc", "-f", "features", "-s", "samples")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "T").write_text(TEXT)
    return tmp_path


def rows(path="gl.nc"):
    data = dsstne.netcdf.read(path)
    return data.matrix.toarray().tolist()


def test_a_new_index_numbers_features_and_samples_as_they_appear(folder, capsys):
    assert main(["generateNetCDF", *FLAGS, "-c"]) == 0
    assert (folder / "features").read_text() == "tea\t0\nmilk\t1\n"
    assert (folder / "samples").read_text() == "ann\t0\nbob\t1\n"
    assert rows() == [[1, 1], [1, 0]]
    (listed,) = dsstne.netcdf.datasets("gl.nc")
    assert (listed.name, listed.boolean) == ("gl_input", True)
    data = dsstne.netcdf.read("gl.nc")
    assert (data.items, data.rows) == (["tea", "milk"], ["ann", "bob"])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "gl.nc: data set gl_input with 2 samples (2 new), 2 features (2 new) and 3 entries",
        "T: skipped 2 malformed lines: 1 with no TAB (first: T, line 3, column 1), 1 with a value that is not a number "
        "(first: T, line 4, column 10)",
    ]


def test_analog_keeps_the_values(folder):
    assert main(["generateNetCDF", *FLAGS, "-c", "-t", "analog"]) == 0
    assert rows() == [[5, 3], [4, 0]]


def test_rows_stand_at_the_numbers_of_their_samples_and_absent_ones_are_empty(folder):
    (folder / "samples").write_text("eve\t1\nbob\t0\n")
    assert main(["generateNetCDF", *FLAGS, "-c"]) == 0
    assert (folder / "samples").read_text() == "bob\t0\neve\t1\nann\t2\n"
    assert rows() == [[1, 0], [0, 0], [1, 1]]


def test_an_index_without_new_samples_is_not_written(folder):
    (folder / "samples").write_text("bob\t1\nann\t0\n")
    assert main(["generateNetCDF", *FLAGS, "-c"]) == 0
    assert (folder / "samples").read_text() == "bob\t1\nann\t0\n"


def test_an_index_of_features_is_read_or_extended(folder, capsys):
    (folder / "features").write_text("milk\t0\n")
    assert main(["generateNetCDF", *FLAGS]) == 0
    assert "left out 2 entries whose features are not in the index" in capsys.readouterr().err
    assert rows() == [[1], [0]]
    assert (folder / "features").read_text() == "milk\t0\n"
    assert main(["generateNetCDF", *FLAGS, "-m"]) == 0
    assert rows() == [[1, 1], [0, 1]]
    assert (folder / "features").read_text() == "milk\t0\ntea\t1\n"


def test_folders_and_compressed_files_are_texts(folder):
    (folder / "many").mkdir()
    (folder / "many" / "a.gz").write_bytes(gzip.compress(b"ann\ttea\n"))
    (folder / "many" / "b").write_text("bob\tmilk\n")
    assert main(["generateNetCDF", *FLAGS[:3], "many", *FLAGS[4:], "-c"]) == 0
    assert rows() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("arguments", "files", "message"),
    [
        (["-c", "--malformed", "error"], {}, "T, line 3, column 1: the line has no TAB"),
        ([], {}, "features: no such file; -c makes a new index of the features"),
        (["-m"], {"features": "tea\t0\ntea\t1\n"}, "tea"),
        (["-c"], {"samples": "ann\t0\nbob\t0\n"}, "samples"),
        (["-c"], {"T": "nothing\n"}, "no features"),
        ([], {"features": "rice\t0\n"}, "no feature is left, so there is nothing to write"),
        (["-c"], {"T": b"CDF\1 and more"}, "nccopy -k nc4"),
        (["-c"], {"T": b"\x89HDF\r\n\x1a\n"}, "T is a data file already; expected text"),
    ],
)
def test_bad_files_leave_everything_as_it_was(folder, capsys, arguments, files, message):
    for name, content in {"gl.nc": "old", **files}.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["generateNetCDF", *FLAGS, *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("dsstne generateNetCDF: error: ")
    assert message in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_failing_disk_leaves_everything_as_it_was(folder, capsys, monkeypatch):
    def fail(path, labels):
        raise dsstne.InputOutputError("no space left", 28, path)

    monkeypatch.setattr("dsstne.textfile.write_index", fail)
    assert main(["generateNetCDF", *FLAGS, "-c"]) == 1
    assert sorted(os.listdir(folder)) == ["T"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"-o": "T"}, "-o and -i name the same file"),
        ({"-f": "samples"}, "-s and -f name the same file"),
        ({"-o": "."}, "-o: . is a folder"),
        ({"-o": "none/gl.nc"}, "there is no folder"),
        ({"-s": "/dev/null"}, "-s: /dev/null is not a regular file"),
        ({"-i": "none"}, "none: no such file"),
    ],
)
def test_bad_paths(folder, capsys, change, message):
    given = {**dict(zip(FLAGS[::2], FLAGS[1::2], strict=True)), **change}
    assert main(["generateNetCDF", "-c", *(word for pair in given.items() for word in pair)]) == 1
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["T"]
