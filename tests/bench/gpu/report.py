"""What run_gpu.py writes: a page for people, and all values as JSON."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from measure.lines import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = ("", "dsstne", "peer", "ratio", "TFLOP/s", "GB/s", "share of the roofline", "memory", "peer's memory")

NO_TIME = "no time was left"

ABOUT = """\
Medians, ranges in brackets, over turns that alternate. A step is the slope between a short and a longer run, so that
what begins and ends a run is left out; an epoch has both in it. Operations and bytes are those of the paper roofline
(`scripts/gpu_cases.py`): what must be computed and pass through memory. The share is the time which that takes at
the limits measured in the same call, over ours. Rankings are exact, but nearly all of their operations are the bfloat16
products that screen items, so their share is of the limit of bfloat16. Memory: what the device has taken; in brackets
without weights and state. Calls of a day share this report: versions and limits are those of the last."""


def merged(earlier: dict[str, Any], found: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A report with what an earlier one of the same name, if any, says of other cases.

    A line that was measured again takes the place of the earlier one; a case that failed or had no time leaves it.

    Args:
        earlier: the report before this call.
        found: the report on this call.
        names: of all cases, in their order.
    """
    every = (*earlier.get("cases", ()), *found["cases"])
    records = {(r["workload"], r["case"]): r for r in every if r["workload"] in names}
    again = {r["workload"] for r in found["cases"]}
    untold = {name: why for name, why in earlier.get("not measured", {}).items() if name not in again}
    known = {*untold, *(r["workload"] for r in records.values())}
    untold |= {name: why for name, why in found["not measured"].items() if why != NO_TIME or name not in known}
    limits = dict(found["limits"])
    for kind in ("flops", "bandwidth"):
        limits[kind] = {**earlier.get("limits", {}).get(kind, {}), **limits.get(kind, {})}
    ordered = sorted(records.values(), key=lambda record: names.index(record["workload"]))
    return {**found, "limits": limits, "cases": ordered, "not measured": untold}


def page(title: str, about: list[str], report: dict[str, Any]) -> str:
    """The report as Markdown.

    Args:
        title: of the page.
        about: lines on machine and command.
        report: limits, records of the lines, and the cases that were not measured, with the reason.
    """
    records = report["cases"]
    lines = [f"# {title}", "", *about, "", "## The card's limits, measured", "", *limit_lines(report["limits"]), ""]
    lines += ["## Cases", "", row(HEAD), "|---" * len(HEAD) + "|"]
    lines += [row(cells(record)) for record in records if not record.get("unavailable")]
    lines += ["", ABOUT, ""]
    notes = [(r["case"], "; ".join(filter(None, [r.get("peer_name", ""), r.get("note", "")]))) for r in records]
    if told := [f"- {case}: {note}" for case, note in notes if note]:
        lines += ["## Peers and notes", "", *told, ""]
    untold = [f"{r['case']}: {r['unavailable']}" for r in records if r.get("unavailable")]
    untold += [f"{name}: {why}" for name, why in report["not measured"].items()]
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
