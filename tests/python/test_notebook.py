"""The notebook of the examples runs, and is stored without outputs."""

import json
import os
from pathlib import Path

import matplotlib
import pytest
from test_documentation import Packages

from dsstne import datasets

PATH = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
CELLS = [cell for cell in json.loads(PATH.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_stored_without_outputs():
    assert [cell["outputs"] for cell in CELLS] == [[]] * len(CELLS)
    assert {cell["execution_count"] for cell in CELLS} == {None}


def test_the_code_of_the_notebook_runs(monkeypatch, tmp_path):
    matplotlib.use("agg")
    monkeypatch.setattr(datasets, "load_debian", Packages)
    monkeypatch.setattr("tempfile.mkdtemp", lambda: tmp_path)
    names = {}
    for cell in CELLS:
        exec("".join(cell["source"]), names)
    assert names["ids"].shape == (2, 5)


@pytest.mark.slow  # 30 s
def test_the_notebook_runs_in_a_kernel_and_shows_tables_bars_and_plots(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(PATH, 4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    data = [output.data for output in shown if "data" in output]
    assert sum("image/png" in one for one in data) == 2
    assert sum("<table" in one.get("text/html", "") for one in data) >= 3
    if "DSSTNE_TEST_NOTEBOOK" in os.environ:  # a file to look at
        nbformat.write(notebook, os.environ["DSSTNE_TEST_NOTEBOOK"])
