"""What run_gpu.py writes: a page for people, and all values as JSON."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from measure.lines import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = ("", "dsstne", "peer", "ratio", "TFLOP/s", "GB/s", "share of the roofline", "memory", "peer's memory")

ABOUT = """\
Medians, ranges in brackets, over turns that alternate. A step is the slope between a short and a longer run, so that
what begins and ends a run is left out; an epoch has both in it. Operations and bytes are those of the paper roofline
(`scripts/gpu_roofline.py`): what must be computed and pass through memory. The share is the time which that takes at
the measured limits, over ours. Memory: what the device has taken; in brackets without weights and state."""


def page(title: str, about: list[str], limits: dict[str, Any], records: list[dict[str, Any]], untold: list[str]) -> str:
    """The report as Markdown.

    Args:
        title: of the page.
        about: lines on machine and command.
        limits: what gpu.limits found.
        records: of the lines.
        untold: cases that were not measured, with the reason.
    """
    lines = [f"# {title}", "", *about, "", "## The card's limits, measured", "", *limit_lines(limits), ""]
    lines += ["## Cases", "", row(HEAD), "|---" * len(HEAD) + "|"]
    lines += [row(cells(record)) for record in records if not record.get("unavailable")]
    lines += ["", ABOUT, ""]
    notes = [(r["case"], "; ".join(filter(None, [r.get("peer_name", ""), r.get("note", "")]))) for r in records]
    if told := [f"- {case}: {note}" for case, note in notes if note]:
        lines += ["## Peers and notes", "", *told, ""]
    untold = [f"{r['case']}: {r['unavailable']}" for r in records if r.get("unavailable")] + untold
    if untold:
        lines += ["## Not measured", "", *(f"- {text}" for text in untold), ""]
    return "\n".join(lines)


def limit_lines(limits: dict[str, Any]) -> list[str]:
    """Products and copies."""
    found = [f"- {name} product: {rate / 1e12:.3g} TFLOP/s" for name, rate in limits.get("flops", {}).items()]
    found += [f"- copy {name}: {rate / 1e9:,.4g} GB/s" for name, rate in limits.get("bandwidth", {}).items()]
    return found + [f"- not measured: {text}" for text in limits.get("missing", [])]


def row(texts: Sequence[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(texts) + " |"


def cells(record: dict[str, Any]) -> list[str]:
    """A case in its columns."""
    scale = 1e3 if record["unit"] == "s" and statistics.median(record["ours"]) < 1 else 1.0
    unit = "ms" if scale == 1e3 else record["unit"]
    seconds, parameters = statistics.median(record["ours"]), record["parameters"]
    return [
        record["case"],
        f"{spread([scale * x for x in record['ours']])} {unit}",
        f"{spread([scale * x for x in record['peer']])} {unit}" if "peer" in record else "not measured",
        spread(record["ratio"]) if "ratio" in record else "",
        f"{parameters['flops'] / seconds / 1e12:.3g}" if "flops" in parameters else "",
        f"{parameters['bytes'] / seconds / 1e9:.4g}" if "bytes" in parameters else "",
        spread([100 * x for x in record["share"]], " %") if "share" in record else "not measured",
        memory(parameters.get("memory")),
        memory(parameters.get("peer_memory")),
    ]


def memory(used: dict[str, int] | None) -> str:
    """Gigabytes in all, and without weights and state."""
    if not used or not used["most"]:
        return ""
    return f"{used['most'] / 1e9:.3g} GB ({(used['most'] - used['kept']) / 1e9:.3g})"


def shown(record: dict[str, Any]) -> str:
    """A record while the cases go by."""
    if record.get("unavailable"):
        return f"    {record['case']}: not available: {record['unavailable']}"
    texts = [text for text in cells(record)[1:] if text]
    return f"    {record['case']}: " + "; ".join(texts) + (f"\n        {record['note']}" if record.get("note") else "")
