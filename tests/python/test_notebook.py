"""The notebooks of the examples run, show what they say, leave nothing, and are stored without outputs."""

import contextlib
import json
import os
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from test_documentation import NOTEBOOKS, Packages

from dsstne import datasets

NEEDS = {"notebook": [], "search": ["optuna"], "dask": ["distributed", "optuna", "pyarrow"]}
STAY = {"dask-scratch-space"}  # a folder that Dask makes once; so does a lock of this package, whose name varies


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder for temporary files of this process, and of those that it starts."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def code(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def left_in(folder):
    return {file.name for file in folder.iterdir() if file.suffix != ".lock"} - STAY


def processes_with(folder):
    """The command lines of processes that have this folder for their temporary files."""
    psutil = pytest.importorskip("psutil")
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("TMPDIR") == str(folder):
                found.append(" ".join(process.cmdline()))
    return [command for command in found if "resource_tracker" not in command]  # which ends with this process


def wait_for_the_end_of_processes_with(folder):
    end = time.monotonic() + 10
    while processes_with(folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_with(folder) == []


def test_a_notebook_is_stored_without_outputs(path):
    cells = code(path)
    assert [cell["outputs"] for cell in cells] == [[]] * len(cells)
    assert {cell["execution_count"] for cell in cells} == {None}


# ---- in plain Python, with few data ----


def run(name, monkeypatch):
    """Runs the code of a notebook in this process; returns its variables."""
    for module in NEEDS[name]:
        pytest.importorskip(module)
    matplotlib.use("agg")
    monkeypatch.setattr(datasets, "load_debian", Packages)
    names = {"__name__": "__main__"}  # functions are sent to workers by value, as those of a kernel
    try:
        for cell in code(next(path for path in NOTEBOOKS if path.stem == name)):
            exec("".join(cell["source"]), names)
    finally:
        for opened in ("client", "cluster"):  # which the notebook closes itself if nothing fails
            if opened in names:
                names[opened].close()
    return names


def test_the_code_of_the_first_notebook_runs(folder, monkeypatch):
    assert run("notebook", monkeypatch)["ids"].shape == (2, 5)


@pytest.mark.long
def test_the_code_of_the_notebook_about_searches_runs(folder, monkeypatch):
    names = run("search", monkeypatch)
    trials = {row["trial"] for row in names["model"].report.table}
    assert trials == set(range(9))
    assert set(names["best"]["arguments"]) == set(names["space"])
    assert {(one["model"], one["metric"]) for one in names["compared"]["means"]} == {
        (model, metric) for model in names["models"] for metric in ("ndcg@20", "recall@20")
    }
    assert {row["trial"] for row in names["continued"].report.table} == set(range(6))
    assert "3 results are those of an earlier call" in str(names["continued"].report)
    assert [row["epochs"] for row in names["of_a_list"].report.table] == [4, 4, 4]
    assert names["in_time"].report.seconds < 10
    assert left_in(folder) == set()


@pytest.mark.long
def test_the_code_of_the_notebook_about_dask_runs(folder, monkeypatch):
    names = run("dask", monkeypatch)
    rows = Packages.matrix.shape[0]
    for made in ("from_futures", "from_bag"):
        np.testing.assert_array_equal(names[made].predict(names["X"]), names["model"].predict(names["X"]))
    assert {name: job.done() for name, job in names["jobs"].items()} == dict.fromkeys(names["models"], True)
    assert sum(one["rows"] for one in names["written"]) == names["vectors"].num_rows == rows
    assert sorted(names["lists"]["row"].to_pylist()) == ["audacity", "gimp"]
    assert all(len(one) == 5 and set(one) <= set(Packages.item_names) for one in names["lists"]["items"].to_pylist())
    assert {row["trial"] for row in names["searched"].report.table} == set(range(6))
    assert names["client"].status == "closed"
    assert left_in(folder) == set()
    wait_for_the_end_of_processes_with(folder)


# ---- in a kernel ----

SHOWN = {  # numbers of images and of tables in HTML, and parts of these tables and of texts
    "notebook": (2, 3, ["recall@20"]),
    "search": (1, 5, ["trial 0", "chosen by ndcg@20", "chosen by recall@20", "paired difference", "defaults of fit"]),
    "dask": (0, 4, ["part-00003.parquet", "paired difference", "trial 0", "'row': 'gimp'", "((17133, 2), "]),
}


@pytest.mark.slow  # 30 s
def test_a_notebook_runs_in_a_kernel_and_shows_tables_bars_and_plots(path, folder, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for module in NEEDS[path.stem]:
        pytest.importorskip(module)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, 4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    if "DSSTNE_TEST_NOTEBOOKS" in os.environ:  # a folder for files to look at
        nbformat.write(notebook, Path(os.environ["DSSTNE_TEST_NOTEBOOKS"]) / path.name)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in shown} <= {"stream", "display_data", "execute_result"}
    streams = "".join(output.text for output in shown if output.output_type == "stream")
    assert [line for line in streams.replace("\r", "\n").split("\n") if not is_of_a_bar(line)] == []
    data = [output.data for output in shown if "data" in output]
    images, tables, parts = SHOWN[path.stem]
    assert sum("image/png" in one for one in data) == images
    assert sum("<table" in one.get("text/html", "") for one in data) >= tables
    text = "\n".join(one.get("text/html", one["text/plain"]) for one in data)
    assert [part for part in parts if part not in text] == []
    if path.stem == "dask":
        assert [one["text/plain"] for one in data].count("True") == 2
        assert left_in(folder) == set()
    wait_for_the_end_of_processes_with(folder)


def is_of_a_bar(line):
    return not line.strip() or "%|" in line or line.startswith("search")
