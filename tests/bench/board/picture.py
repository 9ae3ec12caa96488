"""Draws docs/images/leaderboard.png: a panel for each dataset, a line for each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from board.entries import Entry

OURS, PEER, PUBLISHED = "#0a69da", "#9a6700", "#6e7781"
TEXT, GRID = "#1f2328", "#d1d9e0"
WORDS = {"ndcg@20": "NDCG@20", "precision@20": "precision@20"}
HOW = {"D": "defaults", "V": "validated", "P": "as published"}


def draw(panels: dict[str, tuple[str, list[Entry]]], docs: Path) -> str:
    """Draws the panels that have measured entries, two in a line; returns the name of the file."""
    panels = {title: found for title, found in panels.items() if any(entry.runs for entry in found[1])}
    names = list(panels)
    pairs = [names[at : at + 2] for at in range(0, len(names), 2)]
    heights = [max(len(panels[name][1]) for name in pair) for pair in pairs]
    size = (12.5, 1.3 + sum(0.23 * height + 0.9 for height in heights))
    mpl.rcParams.update({"font.size": 9, "text.color": TEXT, "axes.labelcolor": TEXT, "ytick.color": TEXT})
    figure, grid = plt.subplots(len(pairs), 2, figsize=size, height_ratios=heights, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, names, strict=False):
        panel(axes, name, *panels[name])
    marks = [("dsstne", OURS, "o"), ("implicit, run here", PEER, "D"), ("published", PUBLISHED, "x")]
    handles = [mpl.lines.Line2D([], [], color=c, marker=m, linestyle="", label=label) for label, c, m in marks]
    figure.legend(handles=handles, loc="upper center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / size[1]))
    path = docs / "images" / "leaderboard.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110, facecolor="white", metadata={"Software": None})
    plt.close(figure)
    return f"docs/images/{path.name}"


def panel(axes: Axes, title: str, metric: str, found: list[Entry]) -> None:
    """A line for each entry, best on top; the whisker is the interval of the difference to the best."""
    best = max(entry.values["ndcg@20"] for entry in found if entry.runs)
    for row, entry in enumerate(found):
        value = entry.values[metric]
        colour = PEER if entry.family.startswith("implicit") else OURS if entry.runs else PUBLISHED
        marker = "D" if colour == PEER else "o" if entry.runs else "x"
        if entry.interval and metric == "ndcg@20":
            axes.plot([best + end for end in entry.interval], [row, row], color=colour, linewidth=1.6, alpha=0.6)
        axes.plot([value], [row], marker, color=colour, markersize=5)
        axes.annotate(f"{value:.4f}", (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    labels = [f"{entry.title}, {HOW[entry.how]}" if entry.runs else entry.title for entry in found]
    axes.set_yticks(range(len(found)), labels)
    axes.set_ylim(len(found) - 0.4, -0.6)
    for label, entry in zip(axes.get_yticklabels(), found, strict=True):
        label.set_color(TEXT if entry.runs else PUBLISHED)
    axes.set_title(title, loc="left", fontweight="bold", fontsize=11)
    axes.set_xlabel(WORDS[metric])
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(left=False, colors=TEXT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
