"""Models beside each other: a metric at several lengths of the list, and differences with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, NotFoundError
from dsstne.plots import _style

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

__all__ = ["comparison", "metric_at_k"]

_LENGTHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def metric_at_k(
    models: Any,
    X_in: Any,
    X_held_out: Any,
    metric: str = "ndcg",
    *,
    ks: Iterable[int] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
    **options: Any,
) -> Axes:
    """Plots a metric over the length k of the list, a curve for each model. Each model ranks the items once.

    Args:
        models: Name -> model, or a list of models.
        X_in: Input matrix [n, inputs].
        X_held_out: Held-out items [n, outputs]; rows without any are not counted.
        metric: A metric of :func:`dsstne.evaluate` without its k, such as ``"recall"``.
        ks: Lengths of the list; None = 12 lengths from 1 to 100, as far as there are items.
        title, ax, path: See :mod:`dsstne.plots`.
        **options: As in :func:`dsstne.evaluate`.

    Raises:
        InvalidArgumentError: There is no such metric, or a length is not possible.

    Example::

        models = {"item_knn": dsstne.item_knn(X_in), "popularity": dsstne.popularity(X_in)}
        dsstne.plots.metric_at_k(models, X_in, X_held_out, "recall", path="recall.png")
    """
    from dsstne.comparison import named_models
    from dsstne.evaluation import evaluate

    _style.check(title, ax, path)
    metric, named = _checks.text(metric, "metric"), named_models(models)
    if ks is None:
        lengths = [k for k in _LENGTHS if all(k <= getattr(model, "output_units", k) for model in named.values())]
    else:
        lengths = sorted({_checks.integer(k, "ks", 1) for k in _checks.several(ks, "ks")})
    if not lengths:
        raise InvalidArgumentError("ks: expected at least one length of the list, got none")
    names = [f"{metric}@{k}" for k in lengths]
    curves = {name: evaluate(model, X_in, X_held_out, names, **options) for name, model in named.items()}

    ax = ax or _style.new_axes(interactive=path is None)
    labels = []
    for number, (name, values) in enumerate(curves.items()):
        look, heights = _style.curve(number), [values[one] for one in names]
        ax.plot(lengths, heights, marker="o", markersize=3.5, **look)
        labels.append((heights[-1], f"{_style.shortened(name, 40)}  {heights[-1]:.3f}", look["color"]))
    ax.set_xscale("log")
    ax.set_xticks([k for k in _TICKS if lengths[0] <= k <= lengths[-1]] if len(lengths) > 8 else lengths)
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(bottom=0)
    _style.style(ax)
    ax.set_xlabel(f"k, length of the list; the numbers are those of k = {lengths[-1]:,}", color=_style.TEXT)
    ax.set_ylabel(f"{metric}@k", color=_style.TEXT)
    _style.label_right(ax, [label for label in labels if label[0] == label[0]])
    return _style.finish(ax, title, path)


def comparison(
    result: Mapping[str, Any],
    *,
    metric: str | None = None,
    baseline: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Plots models that were compared, best on top, with the intervals of their differences to one of them.

    A whisker is the paired interval of a difference, put where the baseline is 0. A filled point differs
    significantly from the baseline: its p value, corrected by Holm's method, is below 1 minus the level of the
    intervals.

    Args:
        result: What :func:`dsstne.compare` returned.
        metric: The metric to plot; None = the first one.
        baseline: The model that the others are compared with; None = that of ``result``, or else the best model.
        title, ax, path: See :mod:`dsstne.plots`.

    Raises:
        NotFoundError: The result does not have the metric or the baseline.

    Example::

        result = dsstne.compare(models, X_in, X_held_out, "ndcg@20")
        dsstne.plots.comparison(result, path="comparison.png")
    """
    from dsstne.comparison import Comparison

    _style.check(title, ax, path)
    if not isinstance(result, Comparison):
        raise InvalidArgumentError(f"result must be what dsstne.compare returned, not {_checks.shown(result)}")
    metric = result["metrics"][0] if metric is None else _checks.text(metric, "metric")
    means = {one["model"]: one["mean"] for one in result["means"] if one["metric"] == metric}
    if not means:
        raise NotFoundError(f"the result has no metric {_checks.shown(metric)}; it has {', '.join(result['metrics'])}")
    fixed = result["baseline"] if baseline is None else _checks.text(baseline, "baseline")
    best_last = sorted(means, key=lambda name: means[name])
    against = best_last[-1] if fixed is None else fixed
    intervals = _differences(result, metric, against)
    if against not in means or len(intervals) < len(means) - 1:
        raise NotFoundError(f"the result does not compare all models with {_checks.shown(against)}")

    ax = ax or _style.new_axes(interactive=path is None, size=(7.5, 1.2 + 0.42 * len(means)))
    ax.axvline(means[against], color=_style.QUIET, linewidth=1.2, linestyle=(0, (5, 4)), zorder=1)
    for height, name in enumerate(best_last):
        colour, face = (_style.QUIET, _style.QUIET) if name == against else (_style.COLOURS[0], "white")
        if name != against:
            difference, low, high, p = intervals[name]
            face = colour if p < 1 - result["level"] else "white"
            ax.plot([means[against] + low, means[against] + high], [height, height], color=colour, linewidth=2)
            _style.write_right(ax, height, f"{difference:+.4f} [{low:+.4f}, {high:+.4f}]", offset=60)
        ax.plot([means[name]], [height], "o", color=colour, markerfacecolor=face, markersize=6)
        _style.write_right(ax, height, f"{means[name]:.4f}")
    _style.write_right(ax, len(means) - 0.3, "mean", _style.QUIET)
    short = _style.shortened(against, 20)
    _style.write_right(ax, len(means) - 0.3, f"minus {short}, {100 * result['level']:g} % interval", _style.QUIET, 60)
    ax.set_yticks(range(len(best_last)), [_style.shortened(name, 40) for name in best_last])
    ax.set_ylim(-0.6, len(best_last) - 0.1)
    _style.style(ax, grid="x")
    how = "whisker: interval of the difference; filled: significant"
    ax.set_xlabel(f"{metric} ({how})", color=_style.TEXT, fontsize=9)
    return _style.finish(ax, title, path)


def _differences(result: Any, metric: str, against: str) -> dict[str, tuple[float, float, float, float]]:
    """Returns, for each other model, its difference to one model, the ends of the interval, and the p value."""
    found = {}
    for one in result["differences"]:
        if one["metric"] != metric:
            continue
        if one["other"] == against:
            found[one["model"]] = (one["difference"], one["low"], one["high"], one["p_holm"])
        elif one["model"] == against:
            found[one["other"]] = (-one["difference"], -one["high"], -one["low"], one["p_holm"])
    return found
