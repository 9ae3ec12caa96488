"""Where the time of a training step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne._tables import Profile
from dsstne.errors import InvalidArgumentError
from dsstne.plots import _style

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

__all__ = ["profile"]

_BARS = 14  # further operations are one bar together
_COLOURS = {"arithmetic": _style.COLOURS[0], "memory": _style.COLOURS[4], None: _style.QUIET}


def profile(
    profile: Any,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Plots the time of each operation of a training step, the longest on top, and its share of the machine's limit.

    The colour says which limit the operation has, arithmetic or memory; grey bars have none that is known, or are work
    of the host.

    Args:
        profile: What :meth:`dsstne.Trainer.profile` returned.
        title, ax, path: See :mod:`dsstne.plots`.

    Example::

        with dsstne.Trainer(model, X) as trainer:
            trainer.run(steps=5)
            dsstne.plots.profile(trainer.profile(steps=20), path="profile.png")
    """
    _style.check(title, ax, path)
    if not isinstance(profile, Profile):
        raise InvalidArgumentError(f"profile must be what Trainer.profile returned, not {_checks.shown(profile)}")
    several = len({one["device"] for one in profile["operations"]}) > 1
    bars = [(one["milliseconds"], _name(one, several), one["limit"], one) for one in profile["operations"]]
    bars += [(value, f"host: {name}", None, {}) for name, value in profile["outside"].items()]
    bars = sorted(bars, key=lambda bar: -bar[0])
    if len(bars) > _BARS:
        rest = bars[_BARS - 1 :]
        bars = [*bars[: _BARS - 1], (sum(bar[0] for bar in rest), f"{len(rest)} others", None, {})]

    ax = ax or _style.new_axes(interactive=path is None, size=(10, 1 + 0.34 * len(bars)))
    for place, (time, _, limit, one) in enumerate(bars):
        ax.barh(place, time, color=_COLOURS[limit], height=0.68)
        text = f"{time:,.3f} ms" + (f"   {100 * one['limit_share']:.0f} % of {limit}" if limit else "")
        ax.annotate(text, (time, place), (5, 0), textcoords="offset points", va="center", fontsize=9, color=_style.TEXT)
    ax.set_yticks(range(len(bars)), [bar[1] for bar in bars])
    ax.invert_yaxis()
    ax.margins(x=0.3)
    ax.set_xlim(left=0)
    _style.style(ax, grid="x")
    ax.set_xlabel(
        f"milliseconds of a step of {profile['milliseconds']:,.3g} ms, mean of {profile['steps']:,} steps",
        color=_style.TEXT,
    )
    return _style.finish(ax, title, path)


def _name(operation: Any, several: bool) -> str:
    text = _style.shortened(operation["operation"], 56)
    return f"{operation['device']}: {text}" if several else text
