"""A line of the benchmark: ours, the peer's, their ratio, the share of the machine's limit, each with its spread."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass
class Goal:
    """What a line is meant to reach: a share of the limit, a ratio to the peer, or (smaller is better) a value."""

    of: str  # "share", "ratio" or "value"
    least: float
    aim: float

    def verdict(self, reached: float) -> str:
        """In words, and by how much it falls short."""
        if self.of == "value":
            if reached <= self.aim:
                return "aim"
            return "at least" if reached <= self.least else f"MISSES by {reached - self.least:.3g}"
        if reached >= self.aim:
            return "aim"
        if reached >= self.least:
            return "at least"
        short = self.least - reached
        return f"MISSES by {100 * short:.0f} %" if self.of == "share" else f"MISSES by {short:.2f} x"

    def __str__(self) -> str:
        if self.of == "share":
            return f"{self.least:.0%} / {self.aim:.0%}"
        return f"{self.least:g} / {self.aim:g}" + (" x" if self.of == "ratio" else "")


@dataclass
class Line:
    """One measurement.

    Args:
        case: what was measured, in a few words; unique within its workload.
        unit: of `ours` and `peer`: "s", "ms", "us", "ns" (both are then kept in seconds), or what a plain number means,
            such as "rows/s", "%", "exponent".
        ours, peer: a value per turn.
        peer_name: which peer, with the setting that was found to be fastest.
        rate: more is better.
        work: billions of operations or bytes of one unit of `ours`, as its limit counts them.
        peer_work: the same of the peer, where it needs fewer (0 = as many).
        limit: what the machine could do beside each turn, in billions a second.
        limit_name: for example "float32/avx512, 2 threads".
        goal: what it is meant to reach, if that is laid down.
        unavailable: why there is nothing to report.
    """

    case: str
    unit: str = "ms"
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    peer_name: str = ""
    rate: bool = False
    work: float = 0.0
    peer_work: float = 0.0
    limit: list[float] = field(default_factory=list)
    limit_name: str = ""
    goal: Goal | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    unavailable: str = ""

    @property
    def ratio(self) -> list[float]:
        """How many times as fast as the peer, turn by turn."""
        pairs = zip(self.ours, self.peer, strict=True) if self.peer else ()
        return [ours / peer if self.rate else peer / ours for ours, peer in pairs]

    @property
    def share(self) -> list[float]:
        """Of the machine's limit, turn by turn."""
        if not self._has_limit():
            return []
        return [self._speed(x) / limit for x, limit in zip(self.ours, self.limit, strict=True)]

    @property
    def peer_share(self) -> list[float]:
        """The same for the peer."""
        if not self._has_limit() or not self.peer:
            return []
        return [self._speed(x, self.peer_work) / limit for x, limit in zip(self.peer, self.limit, strict=True)]

    def _has_limit(self) -> bool:
        """A CPU without the instructions has no limit for them."""
        return bool(self.limit and self.work) and not any(map(math.isnan, self.limit))

    def _speed(self, value: float, work: float = 0.0) -> float:
        work = work or self.work
        return work * value if self.rate else work / value

    def verdict(self) -> str:
        """Whether it reaches its goal, in words; empty without one."""
        if self.goal is None or self.unavailable:
            return ""
        reached = {"share": self.share, "ratio": self.ratio, "value": self.ours}[self.goal.of]
        scale = SECONDS.get(self.unit, 1.0) if self.goal.of == "value" else 1.0
        return self.goal.verdict(scale * statistics.median(reached)) if reached else "not measured"

    def record(self) -> dict[str, Any]:
        """All values, for the results file."""
        entries = {
            "case": self.case,
            "unit": "s" if self.unit in SECONDS else self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "more_is_better": self.rate,
            "ratio": self.ratio,
            "work": self.work,
            "limit": self.limit if self._has_limit() else [],
            "limit_name": self.limit_name,
            "share": self.share,
            "peer_share": self.peer_share,
            "goal": None if self.goal is None else vars(self.goal),
            "verdict": self.verdict(),
            "parameters": self.parameters,
            "note": self.note,
            "unavailable": self.unavailable,
        }
        kept = {name: rounded(value) for name, value in entries.items() if value not in ("", [], {}, None, 0.0)}
        return {"unit": entries["unit"], **kept}


COLUMNS = ("", "dsstne", "peer", "ratio", "share of limit", "goal", "")


def head() -> str:
    """The names of the columns."""
    return row(*COLUMNS)


def shown(line: Line) -> str:
    """A line as text for people."""
    if line.unavailable:
        return f"{line.case:<48}  not available: {line.unavailable}"
    scale = SECONDS.get(line.unit, 1.0)
    cells = [
        line.case,
        f"{spread([scale * x for x in line.ours])} {line.unit}",
        f"{spread([scale * x for x in line.peer])}" if line.peer else "",
        spread(line.ratio) if line.peer else "",
        spread([100 * x for x in line.share], suffix=" %") if line.share else "",
        str(line.goal or ""),
        line.verdict(),
    ]
    more = [line.peer_name, f"of {line.limit_name}" if line.share else "", line.note]
    told = "; ".join(text for text in more if text)
    return row(*cells) + (f"\n    {told}" if told else "")


def row(*cells: str) -> str:
    """Cells under each other."""
    widths = (48, 28, 20, 17, 18, 13, 0)
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def spread(values: Sequence[float], suffix: str = "") -> str:
    """Median and range as text: `2.31 (2.27-2.40)`."""
    if not values:
        return ""
    middle = number(statistics.median(values)) + suffix
    return middle if len(values) < 2 else f"{middle} ({number(min(values))}-{number(max(values))})"


def number(value: float) -> str:
    """Three or four digits that mean something."""
    if value != value:
        return "?"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return f"{value:,.{digits}f}"


def rounded(value: Any) -> Any:
    """Six digits are more than a measurement has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, (list, tuple)):
        return [rounded(x) for x in value]
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    return value
