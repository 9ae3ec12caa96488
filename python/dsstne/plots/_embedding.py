"""A map of the items: their vectors in two dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, NotFoundError
from dsstne.plots import _style

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["embedding_map"]


def embedding_map(
    vectors: Any,
    X: Any,
    *,
    names: Any = None,
    groups: Any = None,
    labels: int = 30,
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Plots item vectors on the two axes along which they differ most: the principal components (Pearson, 1901).

    Vectors are divided by their lengths first, because items are alike if the angle between them is small. Two
    components show only a part of how the items differ, which the labels of the axes say: items that are far from
    each other are different, those near each other may be.

    Args:
        vectors: A model with one output layer, whose weight is used, or vectors [items, d], such as those of
            ``model.tensor("...")`` or :func:`dsstne.svd`.
        X: Interaction matrix [rows, items]. It says how popular items are: this is their size, and their colour
            without ``groups``; the most popular items have labels.
        names: Names of the items; None = those of the model, or else their numbers.
        groups: A label for each item, such as its category. The six largest groups have colours.
        labels: Number of items that have labels, at most; a label that would cover another is left out.
        title, ax, path: See :mod:`dsstne.plots`.

    Raises:
        NotFoundError: The model has no weight with a vector for each item.
        InvalidArgumentError: Shapes do not match.
        InvalidDataError: A value of a vector is not finite.
        UnsupportedError: X is Arrow data; give a SciPy matrix.

    Example::

        model = dsstne.fit(X, items=names)
        dsstne.plots.embedding_map(model, X, path="items.png")
    """
    from dsstne.metrics import counts_of, unit_vectors

    _style.check(title, ax, path)
    labels = _checks.integer(labels, "labels", 0)
    array, own_names = _vectors(vectors)
    counts, _ = counts_of(X)
    listed = _per_item(names, "names", len(array)) if names is not None else own_names
    grouped = None if groups is None else _per_item(groups, "groups", len(array))
    if len(counts) != len(array):
        raise InvalidArgumentError(f"X has {len(counts):,} columns, but there are {len(array):,} vectors")
    places, shares = components(unit_vectors(array))

    ax = ax or _style.new_axes(interactive=path is None, size=(8, 6.5))
    order = np.argsort(counts, kind="stable")  # the popular ones on top
    sizes = (4 + 60 * np.sqrt(counts / max(1, counts.max()))) * min(1, np.sqrt(10_000 / len(counts)))
    _draw(ax, places, counts, sizes, order, grouped)
    _style.style(ax, grid=None)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    for set_label, number in ((ax.set_xlabel, 0), (ax.set_ylabel, 1)):
        set_label(
            f"component {number + 1}: {100 * shares[number]:.0f} % of the variance", color=_style.TEXT, fontsize=9
        )
    shown = order[::-1][:labels]
    texts = [str(number if listed is None else listed[number]) for number in shown]
    _write(ax, places[shown], np.sqrt(sizes[shown]) / 2, texts)
    return _style.finish(ax, title, path)


def components(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns vectors on their first two principal components, [n, 2], and the shares of these in the variance."""
    centred = vectors - vectors.mean(axis=0)
    # The right singular vectors of the data are the eigenvectors of this small matrix.
    variances, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)  # the same at every call
    places = np.zeros((len(vectors), 2))
    places[:, : axes.shape[1]] = centred @ axes
    shares = np.append(np.maximum(variances[::-1], 0), 0)[:2]
    return places, shares / (variances.sum() or 1)


def _vectors(given: Any) -> tuple[NDArray[Any], Any]:
    """Returns the vectors of the items, and their names if a model has them."""
    from dsstne._sharing import shared_weights
    from dsstne._weights import Weights

    names = None
    if isinstance(given, Weights):
        layers = (given.network or {}).get("layers", [])
        # Weights of inputs have a row for each of their columns, not for each item.
        inputs = {layer["name"] for layer in layers if layer["kind"] == "input"}
        output = [layer for layer in layers if layer["name"] == given.output]
        shared = [name for layer in output for name in shared_weights(layer, inputs)]
        usual = [f"{given.output}.weight", *shared, "factors"]
        found = [name for name in usual if name in given.tensors]
        if not found:
            raise NotFoundError("the model has no vector for each item; give vectors, such as dsstne.svd(X, k=64)[2].T")
        given, names = given.tensor(found[0]), given.items
    array = _checks.array(given)
    if array.ndim != 2 or array.dtype.kind not in "buif" or not array.size:
        got = f"shape {array.shape} of {array.dtype}"
        raise InvalidArgumentError(f"vectors must be a model or numbers [items, d]; got {got}")
    return array, names


def _per_item(given: Any, name: str, items: int) -> list[str]:
    """Returns a text for each item."""
    listed = _checks.labels(given, name)
    if len(listed) != items:
        raise InvalidArgumentError(f"{name} has {len(listed):,} entries, but there are {items:,} vectors")
    return listed


def _draw(
    ax: Axes,
    places: NDArray[np.float64],
    counts: NDArray[np.int64],
    sizes: NDArray[np.float64],
    order: NDArray[np.int64],
    groups: list[str] | None,
) -> None:
    """Draws a point for each item, coloured by its group or its popularity."""
    x, y = places[order].T
    common: dict[str, Any] = {"s": sizes[order], "linewidths": 0, "alpha": 0.75, "rasterized": True}
    if groups is None:
        from matplotlib.colors import LogNorm

        norm = LogNorm(1, max(2, counts.max()))
        points = ax.scatter(x, y, c=np.maximum(counts[order], 1), cmap="viridis_r", norm=norm, **common)
        bar = ax.figure.colorbar(points, ax=ax, shrink=0.5, pad=0.02, aspect=25)
        bar.set_label("rows that have the item", color=_style.TEXT, fontsize=9)
        bar.ax.yaxis.set_major_formatter("{x:,.0f}")
        bar.outline.set_visible(False)  # type: ignore[operator]
        bar.ax.tick_params(length=0, which="both", colors=_style.TEXT, labelsize=9)
        return
    from matplotlib.lines import Line2D

    largest = sorted(set(groups), key=lambda group: (-groups.count(group), group))
    colours = dict(zip(largest, _style.COLOURS, strict=False))
    ax.scatter(x, y, c=[colours.get(groups[item], _style.AXIS) for item in order], **common)
    named = [*colours.items(), *([("others", _style.AXIS)] if len(largest) > len(colours) else [])]
    keys = [Line2D([], [], color=c, marker="o", linestyle="", label=_style.shortened(g, 40)) for g, c in named]
    ax.legend(
        handles=keys, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9.5, labelcolor=_style.TEXT
    )


def _write(ax: Axes, places: NDArray[np.float64], radii: NDArray[np.float64], texts: list[str]) -> None:
    """Writes labels beside points of these radii, the first ones first; leaves out those that would cover another."""
    from matplotlib import patheffects

    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    notes = [
        ax.annotate(
            _style.shortened(text, 24),
            (float(x), float(y)),
            (float(radius) + 2, 2),
            textcoords="offset points",
            fontsize=8.5,
            color=_style.TEXT,
            path_effects=halo,
        )
        for (x, y), radius, text in zip(places, radii, texts, strict=True)
    ]
    if not notes:
        return
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    taken: list[Any] = []
    for note in notes:
        box = note.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            note.remove()
        else:
            taken.append(box)
