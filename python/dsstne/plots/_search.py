"""What a search tried, in its order."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError
from dsstne.plots import _style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

__all__ = ["search_results"]


def search_results(
    report: Any,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Plots the metric of everything that :func:`dsstne.auto` tried, in this order, a colour for each kind of model.

    The step line is the best so far. The ring is the chosen model. A hollow point was measured on a part of the rows
    only, and counts neither for the line nor for the number beside its kind. :meth:`dsstne.report.Report.plot` shows
    the kinds of models side by side instead.

    For :func:`dsstne.search`, each line shows a trial: its metric over the number of epochs that it was trained.

    Args:
        report: The report of ``auto`` or ``search``, or a model that has one.
        title, ax, path: See :mod:`dsstne.plots`.

    Raises:
        InvalidArgumentError: There is no report, or no model was tried.

    Example::

        dsstne.plots.search_results(dsstne.auto(X), path="search.png")
    """
    from dsstne.report import Report

    _style.check(title, ax, path)
    found = getattr(report, "report", report)
    if not isinstance(found, Report):
        raise InvalidArgumentError(
            f"report must be the report of dsstne.auto or dsstne.search, not {_checks.shown(report)}"
        )
    tried = [(number, row, row[found.metric]) for number, row in enumerate(found.table, 1)]
    tried = [(number, row, value) for number, row, value in tried if value is not None]
    if not tried:
        raise InvalidArgumentError("no model was tried, so there is nothing to plot")
    ax = ax or _style.new_axes(interactive=path is None)
    if "trial" in found.table[0]:
        _trials(ax, found.metric, [row for _, row, _ in tried])
        return _style.finish(ax, title, path)

    most = max(row["rows"] for _, row, _ in tried)
    whole = [one for one in tried if one[1]["rows"] == most]
    best = list(accumulate((value for _, _, value in whole), max))
    ax.step([number for number, _, _ in whole], best, where="post", color=_style.AXIS, linewidth=1.5, zorder=1)
    labels = []
    kinds = list(dict.fromkeys(row["model"] for _, row, _ in tried))
    colours = iter(_style.COLOURS * (1 + len(kinds) // len(_style.COLOURS)))
    for kind in kinds:
        colour = {"popularity": _style.QUIET, "sum": _style.TEXT}.get(kind) or next(colours)
        for number, row, value in tried:
            if row["model"] == kind:
                face = colour if row["rows"] == most else "white"
                ax.plot([number], [value], "o", color=colour, markerfacecolor=face, markersize=5)
        top = max((row["rows"], value) for _, row, value in tried if row["model"] == kind)[1]
        labels.append((top, f"{_style.shortened(kind, 40)}  {top:.4f}", colour))
    for number, row, value in tried:
        if row["chosen"]:
            ax.plot([number], [value], "o", color=_style.TEXT, markerfacecolor="none", markersize=11, mew=1.8)
    from matplotlib.ticker import MaxNLocator

    _style.style(ax)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, steps=[1, 2, 5, 10]))
    ax.set_xlim(left=0.5)  # they are counted from 1
    hollow = "; hollow: on a part of the rows" if len(whole) < len(tried) else ""
    ax.set_xlabel(f"models in the order in which they were tried{hollow}", color=_style.TEXT)
    ax.set_ylabel(found.metric, color=_style.TEXT)
    _style.label_right(ax, labels)
    return _style.finish(ax, title, path)


def _trials(ax: Axes, metric: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draws the trials of a search over the lengths of their trainings."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    chosen = next((row["trial"] for row in rows if row["chosen"]), None)
    labels = []
    for trial in sorted({row["trial"] for row in rows}, key=lambda trial: trial == chosen):  # the chosen one on top
        of_trial = [row for row in rows if row["trial"] == trial]
        epochs, values = [row["epochs"] for row in of_trial], [row[metric] for row in of_trial]
        colour = _style.COLOURS[1] if trial == chosen else _style.COLOURS[0]
        fade = 1.0 if trial == chosen else 0.35
        ax.plot(epochs, values, "o-", color=colour, markersize=5, linewidth=1.5, alpha=fade)
        if trial == chosen:
            labels.append((values[-1], f"trial {trial}  {max(values):.4f}", colour))
    _style.style(ax)
    if len({row["epochs"] for row in rows}) > 1:
        ax.set_xscale("log")
    ax.set_xticks(sorted({float(f"{row['epochs']:.2g}") for row in rows}))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("epochs of training", color=_style.TEXT)
    ax.set_ylabel(metric, color=_style.TEXT)
    _style.label_right(ax, labels)
