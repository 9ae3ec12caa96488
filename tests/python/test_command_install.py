"""install-commands: scripts with DSSTNE's names that start this Python, and never in place of other files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dsstne
from dsstne._commands.install import _PROGRAMS
from dsstne.cli import main

NAMES = ["KnnSearch", "encoder", "generateNetCDF", "predict", "train"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(path, *arguments, **options):
    return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.long
@pytest.mark.parametrize("name", ["bin", 'a folder/it\'s "here" $HOME', "ü"])
def test_the_scripts_start_the_commands(folder, capsys, name):
    assert main(["install-commands", name]) == 0
    place = folder / name
    assert sorted(path.name for path in place.iterdir()) == NAMES
    err = capsys.readouterr().err.splitlines()
    assert err[0] == f"wrote generateNetCDF, train, predict, encoder, KnnSearch to {place}"
    (folder / "D").write_text("a\t1 2\nit's\t3 4\n")
    done = start(place / "KnnSearch", "--data-files", "D", "--input-files", "D", "--id-score-sep", " $HOME ")
    assert done.stdout == "a\tit's $HOME 11.000 a $HOME 5.000\nit's\tit's $HOME 25.000 a $HOME 11.000\n", done.stderr
    for program in set(NAMES) - {"encoder"}:
        done = start(place / program, "-h")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: dsstne {_PROGRAMS[program]} ")
    done = start(place / "train", "-zz")
    assert done.returncode == 2
    assert "there is no flag -zz" in done.stderr


def test_the_line_for_path_works_as_it_is(folder, capsys):
    assert main(["install-commands", "a folder"]) == 0
    line = capsys.readouterr().err.splitlines()[-1].strip()
    found = start("/bin/sh", "-c", f"{line}; command -v KnnSearch").stdout
    assert found == f"{folder}/a folder/KnnSearch\n"
    assert main(["install-commands", "a folder"]) == 0


def test_nothing_is_said_of_a_folder_that_is_in_path(folder, capsys, monkeypatch):
    monkeypatch.setenv("PATH", f"{folder}/bin", prepend=os.pathsep)
    assert main(["install-commands", "bin"]) == 0
    assert "PATH" not in capsys.readouterr().err


def test_the_current_folder_is_not_searched_for_modules(folder):
    assert main(["install-commands", "bin"]) == 0
    (folder / "dsstne").mkdir()
    (folder / "dsstne" / "__init__.py").write_text("raise SystemExit(77)")
    assert start("bin/train", "-h").returncode == 0


def test_scripts_start_this_python(folder):
    assert main(["install-commands", "bin"]) == 0
    text = Path("bin/predict").read_text()
    assert sys.executable in text
    assert os.access("bin/predict", os.X_OK)


def test_scripts_of_before_are_replaced(folder):
    assert main(["install-commands", "bin"]) == 0
    new = Path("bin/train").read_text()
    Path("bin/train").write_text(new.replace(sys.executable, "/old/python"))
    Path("bin/other").write_text("mine")
    assert main(["install-commands", "bin"]) == 0
    assert Path("bin/train").read_text() == new
    assert Path("bin/other").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "empty", "folder", "link", "dangling", "binary"])
def test_files_of_others_are_not_replaced(folder, capsys, kind):
    Path("bin").mkdir()
    path = Path("bin/predict")
    if kind == "folder":
        path.mkdir()
    elif kind in ("link", "dangling"):
        path.symlink_to("target")
        if kind == "link":
            assert main(["install-commands", "elsewhere"]) == 0
            Path("bin/target").write_text(Path("elsewhere/predict").read_text())
    else:
        path.write_bytes({"file": b"#!/bin/sh\necho mine\n", "empty": b"", "binary": bytes(range(256))}[kind])
    before = sorted(os.listdir("bin"))
    assert main(["install-commands", "bin"]) == 1
    err = capsys.readouterr().err
    assert f"{folder}/bin/predict: this command did not write this file, and nothing was changed" in err
    assert sorted(os.listdir("bin")) == before


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "the following arguments are required: DIR"),
        (["a", "b"], 2, "unexpected argument 'b': DIR is given already"),
        (["-x", "a"], 2, "there is no flag -x"),
        ([""], 2, "argument DIR: expected the path of a file, got ''"),
        (["a:b"], 1, "has a ':', and such a folder cannot be in PATH"),
        (["file"], 1, "cannot write to"),
        (["file/bin"], 1, "cannot write to"),
    ],
)
def test_what_is_wrong_is_said(folder, capsys, arguments, status, message):
    (folder / "file").write_text("")
    try:
        returned = main(["install-commands", *arguments])
    except SystemExit as error:
        returned = error.code
    assert returned == status
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert os.listdir() == ["file"]


def test_the_package_of_the_scripts_is_this_one(folder):
    assert main(["install-commands", "bin"]) == 0
    text = Path("bin/train").read_text().replace("from dsstne.cli import main", "import dsstne; print(dsstne.__file__)")
    Path("bin/train").write_text(text.replace("sys.exit(main([", "sys.exit(print([", 1))
    assert start("bin/train").stdout.splitlines()[0] == dsstne.__file__
