"""Links of the pages lead somewhere, and README.md leads to every page."""

import re
from pathlib import Path

import pytest

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


def test_the_readme_links_every_page():
    linked = {ROOT / link.partition("#")[0] for link in links(ROOT / "README.md")}
    assert set(ROOT.glob("docs/*.md")) - linked == set()
