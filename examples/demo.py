"""Learns which packages Debian's packages depend on, and predicts dependencies that it has not seen.

    python examples/demo.py          (or `make demo`)

A row is a package; an item is a package that it depends on. The demo hides a fifth of each row, trains a network on the
rest, and compares the network's recommendations with the hidden items.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dsstne
from dsstne.datasets import Interactions, hold_out, load_debian

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 100
METRICS = ["recall@10", "recall@20", "ndcg@20", "hit_rate@20"]

KNOWN_PACKAGES = ["gimp", "firefox-esr", "postgresql-15", "python3-matplotlib", "audacity"]
NEW_PACKAGES = {
    "a game": ["libsdl2-2.0-0", "libopenal1"],
    "a package for statistics": ["r-cran-ggplot2", "r-cran-dplyr"],
}
SIMILAR_TO = ["libjpeg62-turbo", "libmariadb3", "libgdal32", "libavcodec59", "python3-numpy", "texlive-latex-base"]


def main() -> None:
    """Trains a model, evaluates it and prints examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=16, help="passes over the data (%(default)s)")
    parser.add_argument("--devices", default="auto", help="where to train, such as cpu or cuda:0 (%(default)s)")
    parser.add_argument("--curve", type=Path, default=Path("learning-curve.png"), help="picture to write (%(default)s)")
    args = parser.parse_args()

    debian = load_debian()
    X_in, X_held_out = hold_out(debian.matrix, fraction=0.2, seed=0)
    rows, items = debian.matrix.shape
    heading("The data")
    print(f"{rows:,} packages of Debian 12, which depend on {items:,} others: {debian.matrix.nnz:,} dependencies.")
    print(f"{X_held_out.nnz:,} of them, a fifth of each package's, are hidden and have to be guessed from the rest.")

    heading("Training")
    start = time.perf_counter()
    model = dsstne.fit(
        X_in,
        items=debian.item_names,
        hidden=[256],
        denoising=0.3,
        epochs=args.epochs,
        validation=X_held_out,
        devices=args.devices,
        callbacks=[] if sys.stderr.isatty() else [print_epoch],  # a terminal shows a progress bar
    )
    seconds = time.perf_counter() - start
    print(f"{model.parameters:,} weights, {len(model.history)} epochs, {seconds:.0f} seconds")

    heading("How much of the hidden part is found")
    baseline = dsstne.popularity(X_in)
    scores = {
        "most popular": dsstne.evaluate(baseline, X_in, X_held_out, metrics=METRICS),
        "the model": dsstne.evaluate(model, X_in, X_held_out, metrics=METRICS),
    }
    print_scores(scores)
    draw(model, scores["most popular"], args.curve)

    heading("Guesses for packages that you may know (* was hidden: a hit)")
    for name in KNOWN_PACKAGES:
        show_package(model, debian, X_in, X_held_out, name)

    heading("Guesses for packages that do not exist yet")
    for idea, needs in NEW_PACKAGES.items():
        show_new_package(model, debian, idea, needs)

    heading("What is needed by the same sort of packages (cosines of item vectors)")
    show_similar(model, debian, SIMILAR_TO)


def heading(text: str) -> None:
    """Prints the title of a section."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def field(name: str, words: Iterable[str], lines: int, indent: int) -> None:
    """Prints a named list of words, wrapped and cut after the given number of lines."""
    text = textwrap.fill(
        ", ".join(words),
        WIDTH,
        initial_indent=f"  {name}".ljust(indent),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        max_lines=lines,
        placeholder=" ...",
    )
    print(text)


def print_epoch(_: dsstne.Model, record: dict[str, Any]) -> None:
    """Prints a line for some of the epochs, if there is no progress bar."""
    if record["epoch"] in (1, 2, 4) or record["epoch"] % 8 == 0:
        print(
            f"epoch {record['epoch']:>3}  loss {record['loss']:6.2f}  recall@20 {record['recall@20']:.3f}",
            flush=True,
        )


def print_scores(scores: dict[str, dict[str, float]]) -> None:
    """Prints metrics as a table, and the ratio of its last row to its first."""
    print(" " * 14 + "".join(f"{metric:>13}" for metric in METRICS))
    for name, values in scores.items():
        print(f"{name:<14}" + "".join(f"{values[metric]:13.3f}" for metric in METRICS))
    first, *_, last = scores.values()
    print(" " * 14 + "".join(f"{last[metric] / first[metric]:12.1f}x" for metric in METRICS))


def draw(model: dsstne.Model, baseline: dict[str, float], path: Path) -> None:
    """Saves the learning curve if matplotlib is installed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        dsstne.plots.learning_curve(
            model, baseline=baseline, path=path, title="Guessing dependencies of Debian packages"
        )
    except ImportError as error:
        print(f"no picture: {error}")
    else:
        print(f"learning curve: {path}")


def show_package(model: dsstne.Model, debian: Interactions, X_in: Any, X_held_out: Any, name: str) -> None:
    """Prints the items of a package that the model saw, and its recommendations."""
    row = debian.rows([name])
    shown, hidden = X_in[row].indices, X_held_out[row].indices
    itself = np.flatnonzero(debian.item_names == name)
    ids, _ = model.recommend(X_in[row], k=10, filter_items=itself)
    print(f"{name}: {debian.row_descriptions[row[0]]}")
    # Items are numbered by falling frequency. The rare items come first here, because they say most about a package.
    field(f"shown {len(shown)}", debian.item_names[np.sort(shown)[::-1]], 1, 12)
    field("guesses", [("*" if item in hidden else "") + debian.item_names[item] for item in ids[0]], 2, 12)
    missed = np.setdiff1d(hidden, ids[0])
    if len(missed):
        field("missed", debian.item_names[missed], 1, 12)


def show_new_package(model: dsstne.Model, debian: Interactions, idea: str, needs: list[str]) -> None:
    """Prints recommendations for a list of dependencies that is in no row of the data."""
    ids, scores = model.recommend(debian.matrix_of([needs]), k=6)
    print(f"{idea}: {', '.join(needs)}")
    for item, score in zip(ids[0], scores[0], strict=True):
        about = textwrap.shorten(debian.item_descriptions[item], 60, placeholder=" ...")
        print(f"  {score:5.2f}  {debian.item_names[item]:<24}  {about}")


def show_similar(model: dsstne.Model, debian: Interactions, names: list[str]) -> None:
    """Prints the items whose weight vectors have the smallest angle to those of the given items."""
    ids, cosines = model.neighbors(debian.items(names), k=4)
    for name, near, cosine in zip(names, ids, cosines, strict=True):
        field(name, [f"{debian.item_names[i]} {c:.2f}" for i, c in zip(near, cosine, strict=True)], 1, 22)


if __name__ == "__main__":
    main()
