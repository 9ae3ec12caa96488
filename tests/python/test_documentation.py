"""Links of pages and notebooks lead somewhere, README.md leads to every page, names are on the site, and code runs."""

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import datasets

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/*.md")])
SITE_ROOT = ROOT / "docs" / "index.md"
SITE = [page for page in PAGES if page.parent.name == "docs"]
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(page):
    """The text of a page, or of a notebook, without its code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return CODE.sub("", text)


def links(page):
    """The links of a page to files and headings of this repository."""
    text = text_of(page)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def headings(page):
    """The fragments by which links name the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", text_of(page), re.MULTILINE)
    shown = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in shown}


def broken(page):
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (fragment and fragment not in headings(target)):
            yield link


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page):
    assert list(broken(page)) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.md").write_text("# One `two`\n[a](b.md) [b](#one) [c](#one-two) [d](https://e.org)\n")
    assert list(broken(tmp_path / "a.md")) == ["b.md", "#one"]


def test_every_command_of_make_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z][a-z-]*)", page.read_text(encoding="utf-8")))
        assert named <= targets, page


@pytest.mark.long
def test_the_table_of_rungs_is_what_its_program_prints():
    program = [sys.executable, ROOT / "tests" / "bench" / "rungs.py", "--table"]
    printed = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout
    assert printed.count("\n") == 6
    assert printed in (ROOT / "docs" / "search.md").read_text(encoding="utf-8")


class Packages:
    """What load_debian() returns, but small."""

    matrix = scipy.sparse.random_array((300, 80), density=0.1, format="csr", rng=0, dtype=np.float32)
    item_names = np.array([f"library {n}" for n in range(80)])
    row_names = np.array(["gimp", "audacity", *(f"program {n}" for n in range(298))])

    def rows(self, names):
        return [len(name) for name in names]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


BUDGETS = {"epochs=16": "epochs=2", "seconds=60": "seconds=1"}


@pytest.mark.long
def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_debian", Packages)
    code = "\n".join(python_blocks(ROOT / "README.md"))
    for written, short in BUDGETS.items():
        assert code.count(written) == 1
        code = code.replace(written, short)
    X, X_held_out = datasets.hold_out(Packages.matrix)
    names = {"X": X, "X_held_out": X_held_out}
    exec(code, names)
    assert names["best"].report.table
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.dsstne", "run.checkpoint"]


def test_the_readme_links_every_page_and_notebook():
    linked = {ROOT / link.partition("#")[0] for link in links(ROOT / "README.md")}
    assert {*ROOT.glob("docs/*.md"), *NOTEBOOKS} - linked == set()


def listed(page):
    """The pages in the tables of contents of a page of the site."""
    for table in re.findall(r"^```{toctree}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        entries = [line for line in table.splitlines() if line and not line.startswith(":")]
        for entry in entries:
            name = re.sub(r".*<(.*)>", r"\1", entry)
            yield next(path for path in page.parent.glob(f"{name}.*") if path.suffix in (".md", ".ipynb")).resolve()


def test_every_page_is_in_a_table_of_contents_of_the_site():
    pages = [path for page in SITE for path in listed(page)]
    assert len(pages) == len(set(pages))
    assert {*SITE, *ROOT.glob("*.md"), *NOTEBOOKS} - set(pages) == {SITE_ROOT}


def api_names():
    """The names in the lists of docs/api.md, and the modules whose introductions it has."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    lists = re.findall(r"^\.\. autosummary::\n((?:   :.*\n)+)\n((?:   \S+\n)+)", text, re.MULTILINE)
    assert len(lists) == text.count(".. autosummary::")
    assert all("   :toctree: api\n" in options for options, _ in lists)
    return [name for _, names in lists for name in names.split()], re.findall(r"automodule:: dsstne\.(\w+)", text)


def test_the_api_page_lists_every_public_name():
    names, modules = api_names()
    public = set(dsstne.__all__) - {"__version__"}
    submodules = {name for name in public if inspect.ismodule(getattr(dsstne, name))}
    submodules |= {"dask"}  # not in __all__, where it would hide Dask's own name
    assert set(modules) == submodules
    for module in submodules - {"errors"}:  # whose classes are names of dsstne
        public |= {f"{module}.{name}" for name in getattr(dsstne, module).__all__}
    public -= {"datasets.Interactions"}  # dsstne.Interactions
    assert len(names) == len(set(names))
    assert public - submodules - set(names) == set()


def test_every_name_of_the_api_page_exists():
    for name in api_names()[0]:
        thing = dsstne
        for part in name.split("."):
            thing = getattr(thing, part)
        assert thing.__doc__


RUN = [
    "faq",
    "coming-from-lightfm",
    "coming-from-pytorch",
    "coming-from-recbole",
    "dsstne",
    "dsstne-files",
    "dsstne-functions",
    "index",
    "search",
]
PEERS = ("optuna", "pandas", "sklearn", "torch")
LEFT = {"search": ["study.log"]}  # files that the code of a page writes on purpose


@pytest.mark.long
@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_debian", Packages)
    names = {}
    for block in python_blocks(ROOT / "docs" / f"{page}.md"):
        missing = [peer for peer in PEERS if f"import {peer}\n" in block and importlib.util.find_spec(peer) is None]
        if missing:
            pytest.skip(f"the rest needs {missing}")
        exec(block.replace('budget="20 s"', 'budget="1 s"'), names)
    if "their_logits" in names:
        np.testing.assert_allclose(names["their_logits"].numpy(), names["logits"], rtol=1e-4, atol=1e-5)
    if "ease" in names:
        np.testing.assert_allclose(names["ease"].tensor("weight"), plain_ease(names["X"], 250), atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")) == LEFT.get(page, [])


def plain_ease(X, regularization):
    """The weights of EASE (Steck, 2019), as other libraries compute them."""
    gram = (X.T @ X).toarray().astype(float)
    regularization *= np.trace(gram) / X.nnz  # 1 for a matrix of ones
    inverse = np.linalg.inv(gram + regularization * np.eye(X.shape[1]))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights
