"""How recommendations are distributed over popular and rare items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne.errors import InvalidArgumentError
from dsstne.plots import _style

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["popularity_bias"]

_POINTS = 400  # of a curve


def popularity_bias(
    models: Any,
    X: Any,
    k: int = 20,
    *,
    train: Any = None,
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
    **options: Any,
) -> Axes:
    """Plots which share of the recommendations goes to the most popular items, a curve for each model.

    The grey curve is the share of these items in the data. A curve above it recommends popular items more than people
    take them. The text has the coverage: the share of the items that are recommended to anybody.

    Args:
        models: Name -> model, or a list of models. Instead of a model, also its lists: ids [n, k], -1 = none.
        X: Interaction matrix [n, items] with the rows to recommend to.
        k: Length of the lists of models.
        train: Matrix [N, items] that the popularity of the items is counted in; None = X.
        title, ax, path: See :mod:`dsstne.plots`.
        **options: As in :meth:`dsstne.Model.recommend`.

    Raises:
        InvalidArgumentError: There are no recommendations or no data, or shapes do not match.
        UnsupportedError: X is Arrow data; give a SciPy matrix.

    Example::

        models = {"item_knn": dsstne.item_knn(X), "popularity": dsstne.popularity(X)}
        dsstne.plots.popularity_bias(models, X, path="popularity.png")
    """
    from dsstne.comparison import named_models
    from dsstne.evaluation import exposure
    from dsstne.metrics import counts_of

    _style.check(title, ax, path)
    counts, _ = counts_of(X if train is None else train)
    found = {name: exposure(model, X, k, len(counts), **options) for name, model in named_models(models).items()}
    for name, times in {"the data": counts, **found}.items():
        if not times.any():
            raise InvalidArgumentError(f"{name} of popularity_bias: there are no items, so there is nothing to plot")

    ax = ax or _style.new_axes(interactive=path is None)
    order = np.lexsort((np.arange(len(counts)), -counts))
    ranks = np.unique(np.geomspace(1, len(counts), _POINTS).astype(np.int64))
    shares = 100 * ranks / len(counts)
    ax.fill_between(shares, _cumulated(counts, order, ranks), color=_style.GRID, linewidth=0, label="the data")
    for number, (name, times) in enumerate(found.items()):
        text = f"{_style.shortened(name, 40)}, coverage {100 * np.count_nonzero(times) / len(times):.3g} %"
        ax.plot(shares, _cumulated(times, order, ranks), label=text, **_style.curve(number))
    ax.set_xscale("log")
    ax.set_xlim(shares[0], 100)
    ax.set_ylim(0, 102)
    ax.xaxis.set_major_formatter("{x:g} %")
    ax.yaxis.set_major_formatter("{x:g} %")
    _style.style(ax)
    ax.set_xlabel("most popular items, share of the catalogue", color=_style.TEXT)
    ax.set_ylabel("share of the recommendations", color=_style.TEXT)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9.5, labelcolor=_style.TEXT)
    return _style.finish(ax, title, path)


def _cumulated(times: NDArray[np.int64], order: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the per cent of all times that the first items have, for each number of them."""
    shares: NDArray[np.float64] = 100 * np.cumsum(times[order])[ranks - 1] / times.sum()
    return shares
