"""How the cases are measured, and what their work takes at least by the limits of the card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from measure.lines import Line

TINY = {"items": 60, "rows": 40, "hidden": 8, "batch_size": 20}


@dataclass(frozen=True)
class Setting:
    """How to measure: in earnest or, on the emulator, only to see that it works."""

    tiny: bool
    data: Path
    limits: dict[str, Any]  # what gpu.limits measured
    repeats: int = 5


def least(flops: float, size: float, precision: str, limits: dict[str, Any]) -> float:
    """Seconds at the measured limits; 0 where they were not measured."""
    rate = limits.get("flops", {}).get(precision, 0.0)
    width = max(limits.get("bandwidth", {}).values(), default=0.0)
    return max(flops / rate, size / width) if rate and width else 0.0


def finished(line: Line, turns: int, flops: float, size: float, precision: str, setting: Setting) -> Line:
    """Adds what the work needs at least; the limit is then the roofline at the measured limits."""
    line.parameters["precision"] = precision
    if setting.tiny:
        return line
    line.parameters |= {"flops": flops, "bytes": size}
    at_least = least(flops, size, precision, setting.limits)
    if at_least and not line.unavailable:
        line.work, line.limit = at_least, [1.0] * turns  # so that a share is at_least over seconds
        line.limit_name = "the roofline at the measured limits"
    return line
