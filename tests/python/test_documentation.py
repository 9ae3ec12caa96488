"""Links of the pages lead somewhere, README.md leads to every page, and its code runs."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from dsstne import datasets

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/*.md")])
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def links(page):
    """The links of a page to files and headings of this repository."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def headings(page):
    """The fragments by which links name the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    shown = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in shown}


def broken(page):
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (fragment and fragment not in headings(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page):
    assert list(broken(page)) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.md").write_text("# One `two`\n[a](b.md) [b](#one) [c](#one-two) [d](https://e.org)\n")
    assert list(broken(tmp_path / "a.md")) == ["b.md", "#one"]


class Packages:
    """What load_debian() returns, but small."""

    matrix = scipy.sparse.random_array((300, 80), density=0.1, format="csr", rng=0, dtype=np.float32)
    item_names = np.array([f"library {n}" for n in range(80)])

    def rows(self, names):
        return [len(name) for name in names]


BUDGETS = {"epochs=16": "epochs=2", "seconds=60": "seconds=1"}


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_debian", Packages)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL))
    for written, short in BUDGETS.items():
        assert code.count(written) == 1
        code = code.replace(written, short)
    X, X_held_out = datasets.hold_out(Packages.matrix)
    names = {"X": X, "X_held_out": X_held_out}
    exec(code, names)
    assert names["best"].report.table
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.dsstne", "run.checkpoint"]


def test_the_readme_links_every_page():
    linked = {ROOT / link.partition("#")[0] for link in links(ROOT / "README.md")}
    assert set(ROOT.glob("docs/*.md")) - linked == set()
