"""The learning curve of a training run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError
from dsstne.plots import _style

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

__all__ = ["learning_curve"]

# Fields of a history record that are not metrics.
NOT_METRICS = {"epoch", "step", "loss", "seconds", "examples_per_second", "examples", "learning_rate"}


def learning_curve(
    history: Any,
    *,
    metrics: Iterable[str] | None = None,
    baseline: Mapping[str, float] | None = None,
    baseline_name: str = "popularity",
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Plots the loss (left axis) and the validation metrics (right axis) over the epochs.

    Args:
        history: A model, or its ``history``: a list with a dict for each epoch.
        metrics: Names of the metrics to plot; None = all in the history.
        baseline: The same metrics of another model, for example the result of ``dsstne.evaluate`` for
            ``dsstne.popularity(X)``; each is a dashed line in the colour of its metric.
        baseline_name: Name of the baseline in the plot.
        title, ax, path: See :mod:`dsstne.plots`.

    Returns:
        The axes of the loss. The axes of the metrics, if any, are the last ones of the figure.

    Raises:
        InvalidArgumentError: The history is empty, or a requested metric is not in it.

    Example::

        model = dsstne.fit(X_in, validation=X_held_out)
        popular = dsstne.evaluate(dsstne.popularity(X_in), X_in, X_held_out, metrics=["recall@20"])
        dsstne.plots.learning_curve(model, baseline=popular, path="learning-curve.png")
    """
    _check(baseline, baseline_name)
    _style.check(title, ax, path)
    epochs = _epochs(history)
    names = _metric_names(epochs, metrics)
    ax = ax or _style.new_axes(interactive=path is None)

    from matplotlib.ticker import MaxNLocator

    _draw(ax, epochs, "loss", _style.QUIET)
    ax.set_xlabel("epoch", color=_style.TEXT)
    ax.set_ylabel("training loss", color=_style.QUIET)
    _style.style(ax, tick_colour=_style.QUIET, grid=None if names else "y")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, steps=[1, 2, 5, 10]))
    if names:
        _draw_metrics(ax, epochs, names, dict(baseline or {}), baseline_name)
    return _style.finish(ax, title, path)


def _check(baseline: Any, baseline_name: Any) -> None:
    """Raises an error if the baseline of :func:`learning_curve` is of another type."""
    numbers: Any = baseline.values() if isinstance(baseline, Mapping) else [None]
    if baseline is not None and not all(_is_number(value) and math.isfinite(value) for value in numbers):
        raise InvalidArgumentError(f"baseline must be a mapping from names to numbers, not {_checks.shown(baseline)}")
    _checks.text(baseline_name, "baseline_name")


def _epochs(history: Any) -> Sequence[Mapping[str, Any]]:
    epochs = _checks.several(getattr(history, "history", history), "history")
    if not all(isinstance(epoch, Mapping) and _is_number(epoch.get("loss", 0)) for epoch in epochs):
        raise InvalidArgumentError(
            f"history must be a list of dicts with a number as 'loss', not {_checks.shown(epochs)}"
        )
    if not any("loss" in epoch for epoch in epochs):
        raise InvalidArgumentError(
            "the history is empty: dsstne.fit writes a record for each epoch, but dsstne.Trainer writes none"
        )
    return epochs


def _metric_names(epochs: Sequence[Mapping[str, Any]], wanted: Iterable[str] | None) -> list[str]:
    known = list(dict.fromkeys(k for e in epochs for k, v in e.items() if k not in NOT_METRICS and _is_number(v)))
    if wanted is None:
        return known
    names = [wanted] if isinstance(wanted, str) else _checks.several(wanted, "metrics")
    for name in names:
        if not isinstance(name, str) or name not in known:
            has = ", ".join(known) or "none; give dsstne.fit a validation matrix"
            raise InvalidArgumentError(f"the history has no metric {_checks.shown(name)}; it has {has}")
    return names


def _is_number(value: Any) -> bool:
    return _checks.is_number(value) and not 1e300 < abs(value) < math.inf  # axes need sums and multiples of it


def _draw(ax: Axes, epochs: Sequence[Mapping[str, Any]], name: str, colour: str) -> tuple[float, float]:
    """Plots one quantity over the epochs that have it; returns its last point."""
    points = [(float(e.get("epoch", i)), float(e[name])) for i, e in enumerate(epochs, 1) if name in e]
    points = [(x, y) for x, y in points if math.isfinite(y)]
    if not points:
        return float("nan"), float("nan")
    x, y = zip(*points, strict=True)
    marker = "o" if len(points) <= 40 else ""
    ax.plot(x, y, color=colour, linewidth=2, marker=marker, markersize=3.5, solid_capstyle="round")
    return points[-1]


def _draw_metrics(
    loss_axes: Axes, epochs: Sequence[Mapping[str, Any]], names: list[str], baseline: dict[str, float], what: str
) -> None:
    ax = loss_axes.twinx()
    labels = []
    for i, name in enumerate(names):
        colour = _style.COLOURS[i % len(_style.COLOURS)]
        _, last = _draw(ax, epochs, name, colour)
        if math.isfinite(last):
            labels.append((last, f"{name}  {last:.3f}", colour))
        if name in baseline:
            ax.axhline(baseline[name], color=colour, linewidth=1.3, linestyle=(0, (5, 4)), alpha=0.85)
            labels.append((baseline[name], f"{what}  {baseline[name]:.3f}", colour))
    top = max(value for value, _, _ in labels) if labels else 1.0
    ax.set_ylim(0, top * 1.1 or 1.0)
    _style.style(ax)
    ax.set_zorder(loss_axes.get_zorder() - 1)  # draws its grid behind the loss
    loss_axes.patch.set_visible(False)
    _style.label_right(ax, labels, offset=34)  # to the right of the tick labels
