"""Chooses settings on validation data: the defaults, random settings, then changes of the best one.

All families go through the same steps, with the same number of trials or the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRIC = "ndcg@20"
RANDOM = 8  # trials with random settings


def following(
    defaults: Mapping[str, Any],
    space: Mapping[str, Sequence[Any]],
    tried: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """The settings of the next trial, the same for the same past.

    The first trial has the defaults, and the next ones are random. Each of the others moves one setting of the best
    trial to a neighbouring value; where all neighbours were tried, it is random.

    Args:
        defaults: The first settings.
        space: The values of each setting, in order.
        tried: Earlier trials, with "settings" and METRIC.

    Returns:
        Settings that were not tried; None if there are none.
    """
    if not tried:
        return dict(defaults)
    rng = np.random.default_rng(len(tried))
    known = [trial["settings"] for trial in tried]
    if len(tried) >= 1 + RANDOM:
        near = [settings for settings in neighbours(best(tried)["settings"], space) if settings not in known]
        if near:
            return near[rng.integers(len(near))]
    for _ in range(100):
        settings = {name: values[rng.integers(len(values))] for name, values in space.items()}
        if settings not in known:
            return settings
    return None


def neighbours(settings: Mapping[str, Any], space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All settings that differ by one step of one value."""
    found = []
    for name, values in space.items():
        at = list(values).index(settings[name])
        found += [{**settings, name: values[near]} for near in (at - 1, at + 1) if 0 <= near < len(values)]
    return found


def best(tried: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The trial with the greatest metric; of equal ones the earliest."""
    return max(tried, key=lambda trial: trial[METRIC])
