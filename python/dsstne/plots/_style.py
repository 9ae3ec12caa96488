"""What all plots have in common: colours, axes, labels, and saving."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne.errors import InputOutputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

# The colours of Okabe and Ito, which people with any colour vision can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
QUIET = "#8A8F98"  # of what others are compared with
TEXT = "#33373D"
GRID = "#E6E8EB"
AXIS = "#B8BDC4"
_LINES = ("-", (0, (5, 2)), (0, (1, 1.5)))  # tell curves apart that have the same colour


def curve(number: int) -> dict[str, Any]:
    """Returns the look of a curve, by its number from 0."""
    line = _LINES[number // len(COLOURS) % len(_LINES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": line, "linewidth": 2}


def check(title: Any, ax: Any, path: Any) -> None:
    """Raises an error if an argument that all plots have is of another type."""
    if title is not None:
        _checks.text(title, "title")
    if ax is not None and not hasattr(ax, "get_figure"):
        raise InvalidArgumentError(f"ax must be Axes of matplotlib, not {_checks.shown(ax)}")
    is_path = isinstance(path, (str, os.PathLike)) and str(path) != ""
    if path is not None and not is_path and not hasattr(path, "write"):
        raise InvalidArgumentError(f"path must be a str or a path, not {_checks.shown(path)}")


def new_axes(interactive: bool, size: tuple[float, float] = (7.5, 4.2)) -> Axes:
    """Returns the axes of a new figure, made by pyplot for notebooks and without a window system for files."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("dsstne.plots needs matplotlib: pip install dsstne[plots]") from error
    if interactive:
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained").add_subplot()
    return Figure(figsize=size, layout="constrained").add_subplot()


def style(ax: Axes, *, tick_colour: str = TEXT, grid: str | None = "y") -> None:
    """Sets the style: faint lines across one axis, no frame."""
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0, which="both", colors=TEXT, labelsize=9)
    ax.tick_params(axis="y", labelcolor=tick_colour)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    ax.spines["bottom"].set_visible(True)
    ax.spines["bottom"].set_color(AXIS)


def label_right(ax: Axes, labels: Sequence[tuple[float, str, str]], offset: float = 8) -> None:
    """Writes (value, text, colour) to the right of the axes, at the height of the values but not on each other."""
    low, high = ax.get_ylim()
    for position, (_, text, colour) in zip(spread(labels, 0.062 * abs(high - low)), labels, strict=True):
        write_right(ax, position, text, colour, offset)


def write_right(ax: Axes, height: float, text: str, colour: str = TEXT, offset: float = 8) -> None:
    """Writes a text to the right of the axes, at a height in data coordinates."""
    ax.annotate(
        text,
        (1, height),
        (offset, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color=colour,
        va="center",
        fontsize=9.5,
        annotation_clip=False,
    )


def spread(labels: Sequence[tuple[float, str, str]], gap: float) -> list[float]:
    """Returns heights near those of the labels, at least ``gap`` apart, so that no label covers another."""
    order = sorted(range(len(labels)), key=lambda i: labels[i][0])
    heights = [labels[i][0] for i in order]
    for _ in range(50):
        for i in range(1, len(heights)):
            short = gap - (heights[i] - heights[i - 1])
            if short > 0:
                heights[i - 1] -= short / 2
                heights[i] += short / 2
    placed = dict(zip(order, heights, strict=True))
    return [placed[i] for i in range(len(labels))]


def shortened(text: str, length: int) -> str:
    """Shortens a text to one line of at most this many characters; matplotlib shows its dollar signs as they are."""
    line = " ".join(text.split())
    return (line if len(line) <= length else line[: length - 1] + "\u2026").replace("$", r"\$")


def finish(ax: Axes, title: str | None, path: Any) -> Axes:
    """Sets the title and saves the figure, where these are wanted.

    Raises:
        InvalidArgumentError: matplotlib does not know the format, or no file can have the name.
        InputOutputError: The operating system refused to write the file.
    """
    if title:
        ax.set_title(title, loc="left", color=TEXT, fontweight="bold", pad=12)
    if path is None:
        return ax
    try:
        ax.figure.savefig(path, dpi=160, bbox_inches="tight", facecolor="white")  # type: ignore[union-attr]
    except OSError as error:
        raise InputOutputError(f"{path!s:.300}: {error.strerror}", error.errno or 0, path) from None
    except ValueError as error:  # of a format that matplotlib does not have, or a name that no file can have
        raise InvalidArgumentError(f"path {_checks.shown(path)}: {error}") from None
    return ax
