"""Draws docs/benchmarks.svg (for light pages) and docs/benchmarks-dark.svg from the newest results of a machine.

    python tests/bench/picture.py [results.jsonl]

Left: share of the machine's limit, ours and the peer's. Right: how many times as fast as the peer.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
THEMES = {
    "benchmarks.svg": {"back": "#ffffff", "text": "#1f2328", "grid": "#d1d9e0", "ours": "#0a69da", "peer": "#9a6700"},
    "benchmarks-dark.svg": {
        "back": "#0d1117",
        "text": "#e6edf3",
        "grid": "#3d444d",
        "ours": "#58a6ff",
        "peer": "#d29922",
    },
}
# Workload, case, and what to call it; those that have not been measured are left out.
SHOWN = [
    ("step", "momentum, float32", "step of 27,278 - 3 x 1024 - 27,278, float32"),
    ("step", "momentum, bfloat16", "step of 27,278 - 3 x 1024 - 27,278, bfloat16"),
    ("gowalla", "an epoch, I-256-I, tanh, soft-max", "epoch of Gowalla, I-256-I soft-max"),
    ("softmax", "I=1,000,000, batch 256, float32", "step of 1,000,000 - 256, soft-max"),
    ("small", "soft-max, Adam", "step of 2,000 - 64, soft-max"),
    ("output", "B=256 K=1024 I=27,278 sigmoid, momentum, float32", "output layer, K = 1024, float32"),
    ("output", "B=512 K=64 I=100,000 sigmoid, momentum, float32", "output layer, K = 64, float32"),
    ("output", "B=256 K=1024 I=27,278 sigmoid, momentum, bfloat16", "output layer, K = 1024, bfloat16"),
    ("output", "B=512 K=64 I=100,000 sigmoid, momentum, bfloat16", "output layer, K = 64, bfloat16"),
    ("topk", "K=1024, 2,048 rows, beside implicit", "exact top-10, K = 1024, vs implicit"),
    ("topk", "K=128, 2,048 rows, beside implicit", "exact top-10, K = 128, vs implicit"),
    ("sparse", "forward, mean row length 144", "sparse input, forward"),
    ("sparse", "update, sgd, mean row length 144", "sparse input, update"),
]


def main() -> int:
    """Reads the newest line of each case and draws both pictures."""
    files = sorted(RESULTS.glob("*-threads.jsonl"), key=lambda path: path.stat().st_mtime)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else files[-1]
    newest, about = read(path)
    found = [(title, newest[workload, case]) for workload, case, title in SHOWN if (workload, case) in newest]
    found = [(title, line) for title, line in found if line.get("share")]
    if not found:
        print(f"{path.name} has no line to show")
        return 1
    for name, colours in THEMES.items():
        draw(found, about, ROOT / "docs" / name, colours)
        print(f"docs/{name}")
    return 0


def read(path: Path) -> tuple[dict[tuple[str, str], dict[str, Any]], str]:
    """The newest line of each case, and a line about machine and versions."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    run: dict[str, Any] = {}
    for text in path.read_text().splitlines():
        entry = json.loads(text)
        if "of_run" in entry:
            newest[entry["workload"], entry["case"]] = entry
        else:
            run = entry
    machine, versions = run["machine"], run["versions"]
    peers = ", ".join(f"{name} {versions[key]}" for name, key in (("PyTorch", "torch"), ("implicit", "implicit")))
    about = f"{machine['cpu']}, {machine['threads']} threads, {machine['instruction_set']}; {peers}"
    limits = "limits: multiply-adds on registers; for sparse input bandwidth"
    return newest, f"{about}; {run['run'][:10]}; median and range over turns; {limits}"


def draw(found: list[tuple[str, dict[str, Any]]], about: str, path: Path, colours: dict[str, str]) -> None:
    """One picture: a row for each case."""
    mpl.rcParams.update({"svg.hashsalt": "dsstne", "font.size": 10, "svg.fonttype": "path"})
    for key in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"):
        mpl.rcParams[key] = colours["text"]
    figure, (left, right) = plt.subplots(
        1, 2, sharey=True, figsize=(10, 1.3 + 0.42 * len(found)), width_ratios=(3, 2), facecolor=colours["back"]
    )
    for row, (_, line) in enumerate(found):
        bar(left, row - 0.19, line["share"], colours["ours"], "dsstne" if row == 0 else None)
        if "peer_share" in line:
            bar(left, row + 0.19, line["peer_share"], colours["peer"], "peer" if row == 0 else None)
        if "ratio" in line:
            middle, low, high = middle_and_range(line["ratio"])
            right.plot([low, high], [row, row], color=colours["ours"], linewidth=2)
            right.plot([middle], [row], "o", color=colours["ours"])
            right.annotate(f"{middle:.2f} x", (high, row), xytext=(7, -4), textcoords="offset points")
    left.set_xlim(0, 1)
    left.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    left.set_xlabel("share of the machine's limit")
    left.set_yticks(range(len(found)), [title for title, _ in found])
    left.invert_yaxis()
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, labelcolor=colours["text"])
    most = max((max(line["ratio"]) for _, line in found if "ratio" in line), default=1)
    right.set_xlim(0, 1.25 * max(most, 2))
    right.axvline(1, color=colours["peer"], linestyle="--", linewidth=1)
    right.set_xlabel("times as fast as the peer")
    for axes in (left, right):
        axes.set_facecolor(colours["back"])
        axes.grid(axis="x", color=colours["grid"], linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(left=False)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(colours["grid"])
    figure.text(0.01, 0.012, about, fontsize=8, color=colours["text"])
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, metadata={"Date": None}, facecolor=colours["back"])
    plt.close(figure)


def bar(axes: Any, row: float, values: list[float], colour: str, label: str | None) -> None:
    """The median as a bar with the range on it."""
    middle, low, high = middle_and_range(values)
    reach = [[middle - low], [high - middle]]
    axes.barh([row], [middle], height=0.36, color=colour, label=label, xerr=reach, ecolor=axes_text())
    axes.annotate(f"{middle:.0%}", (high, row), xytext=(4, -3), textcoords="offset points", fontsize=8)


def axes_text() -> str:
    """The colour of texts in the theme at hand."""
    return str(mpl.rcParams["text.color"])


def middle_and_range(values: list[float]) -> tuple[float, float, float]:
    """Median, least and most."""
    return statistics.median(values), min(values), max(values)


if __name__ == "__main__":
    sys.exit(main())
