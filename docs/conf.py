"""Configuration of Sphinx; ``make docs`` builds the site.

The source folder is the root of the repository, with the files that ``include_patterns`` names. Links between the
pages, README.md and the notebooks in examples are therefore the same in Sphinx and in a browser of the repository. A
link to any other file of the repository, such as a test, becomes a download.
"""

import re
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parents[1]

project = "dsstne"
author = "the authors of dsstne"
release = version = metadata.version("dsstne")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/api/*.rst", "examples/*.ipynb"]
# Sphinx would walk through all of these.
exclude_patterns = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("docs", "examples")]
templates_path = [str(ROOT / "docs" / "_templates")]  # autosummary takes relative ones from the source folder
nitpicky = True
# Types of other libraries, for whose pages the build would need a connection, and aliases in annotations.
nitpick_ignore_regex = [
    ("py:class", r"(np|numpy|scipy|sparse|collections|os|matplotlib|sklearn)\..*"),
    ("py:class", r"Callable\[.*|Mapping\[.*|Placement"),  # in signatures of dsstne.dask, as strings
    ("py:class", r"dsstne\._dask_session\..*"),  # what dask.submit makes a dask.Job of
    ("py:class", r"ArrayLike|Axes|EpochFunction|EvalsLog|NDArray|Names|Path|Scoring|Shape"),
    ("py:func", r"scipy\..*"),
]

myst_heading_anchors = 6  # links to headings, as in a browser of the repository
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_type_aliases = {"Report": "dsstne.report.Report"}  # not dsstne.diagnosis.Report
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
# A line may describe several parameters or attributes; it stays a line.
napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "pydata_sphinx_theme"
html_title = "dsstne"
html_static_path = ["_static"]
html_css_files = ["dsstne.css"]
html_show_sourcelink = False
html_copy_source = False
html_additional_pages = {"index": "forward.html"}  # the root page is docs/index.html
html_sidebars = {page: [] for page in (root_doc, "docs/faq", "examples/notebook")}  # these have no pages below
WIDE = ("README", "docs/comparison", "docs/leaderboard")  # pages with wide tables
html_theme_options = {
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in WIDE}},
    "logo": {"text": "dsstne"},
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "footer_start": ["sphinx-version"],
    "footer_end": ["theme-version"],
}

BAR = re.compile(r"(\d+)%\||\[(\d+):(\d+)[],]")  # the share, or the minutes and seconds if there is none
PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>')


def themed_pictures(app: Any, docname: str, source: list[str]) -> None:
    """Shows the light or the dark variant of a picture by the theme of the page, not by that of the browser."""
    source[0] = PICTURE.sub(
        "```{image} \\3\n:alt: \\2\n:class: only-light\n```\n\n```{image} \\1\n:alt: \\2\n:class: only-dark\n```\n",
        source[0],
    )


def progress(line: str) -> int:
    """Returns a number that grows while a progress bar does; -1 if the line is not one."""
    found = BAR.search(line)
    return -1 if found is None else int(found[1] or 60 * int(found[2]) + int(found[3]))


def last_states(app: Any, doctree: nodes.document) -> None:
    """Keeps the last line of each progress bar of a notebook, which would overwrite the lines before."""
    for block in doctree.findall(nodes.literal_block):
        if "stderr" in block["classes"]:
            lines = block.astext().split("\n")
            shares = [progress(line) for line in lines]
            last = [line for line, share, later in zip(lines, shares, [*shares[1:], -1], strict=True) if share > later]
            block[:] = [nodes.Text("\n".join(last))]
            block["classes"] = ["output", "stream"]  # without the red of errors


def readable(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Changes what napoleon would misread in a docstring, and links the pages it names, such as docs/training.md."""
    for number, line in enumerate(lines):
        line = re.sub(r"\b(docs/[\w-]+)\.md", r":doc:`\1.md </\1>`", line)
        if re.fullmatch(r" *(\w+, )+\*\*\w+: .*", line):
            line = line.replace("**", r"\*\*", 1)
        if lines[number - 1].strip() == "Returns:" or (what == "property" and number == 0):  # no type before a colon
            line = re.sub(r"\S", r":\g<0>", line, count=1)
        lines[number] = line


def public_bases(app: Any, name: str, obj: Any, options: Any, bases: list[Any]) -> None:
    """Names the bases of a private base instead of it."""
    private = [base for base in bases if "._" in f"{base.__module__}.{base.__name__}"]
    bases[:] = [public for base in bases for public in (base.__bases__ if base in private else [base])]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", themed_pictures)
    app.connect("doctree-read", last_states)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-process-docstring", readable, priority=400)  # before napoleon
