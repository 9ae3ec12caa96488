"""Draws the pictures of docs/evaluation.md on the bundled data; takes about a minute.

python scripts/draw_evaluation.py
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image  # comes with matplotlib

import dsstne
from dsstne import plots
from dsstne.datasets import hold_out, load_debian

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
COLOURS = 128  # of a palette, which takes a third of the bytes


def save(ax: Any, name: str) -> None:
    """Writes the figure of a plot as a PNG with a palette."""
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, dpi=100, bbox_inches="tight", facecolor="white")
    Image.open(buffer).convert("RGB").quantize(COLOURS).save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size:,} bytes")


def main() -> None:
    """Makes the models, prints the tables and draws the pictures."""
    debian = load_debian()
    X_in, X_held_out = hold_out(debian.matrix, fraction=0.2, seed=0)
    models = {
        "autoencoder": dsstne.fit(X_in, hidden=[128], epochs=12, items=debian.item_names, progress=False),
        "spectral": dsstne.spectral(X_in, progress=False),
        "linear": dsstne.linear(X_in, progress=False),
        "rp3beta": dsstne.rp3beta(X_in, progress=False),
        "item_knn": dsstne.item_knn(X_in, progress=False),
        "popularity": dsstne.popularity(X_in),
    }
    trained = {name: model for name, model in models.items() if name != "popularity"}
    some = np.random.default_rng(0).choice(X_in.shape[0], 1000, replace=False)
    few = dsstne.compare(trained, X_in, X_held_out, "ndcg@20", rows=some)
    every = dsstne.compare(trained, X_in, X_held_out, "ndcg@20", groups="activity")
    print(few, every, sep="\n\n")
    for name, model in models.items():
        print(name, dsstne.beyond_accuracy(model, X_in), sep="\n")

    IMAGES.mkdir(exist_ok=True)
    axes = lambda *size: plots._style.new_axes(interactive=False, size=size)  # noqa: E731
    save(plots.comparison(few, title="1,000 packages", ax=axes(7.5, 3.2)), "comparison.png")
    save(plots.metric_at_k(models, X_in, X_held_out, "recall", ax=axes(7.5, 4.2)), "metric-at-k.png")
    save(plots.popularity_bias(models, X_in, ax=axes(7.5, 4.2)), "popularity-bias.png")
    save(plots.embedding_map(models["autoencoder"], X_in, ax=axes(7, 5.5)), "item-map.png")


if __name__ == "__main__":
    main()
