"""Writes the tables of docs/leaderboard.md between its markers, and draws its picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from board import data, entries, picture, published, records
from board.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from board.entries import Entry

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "leaderboard.md"
BEGIN, END = "<!-- The rest is written by `make leaderboard`. -->", "<!-- End of what is written. -->"

TITLES = {
    "gowalla": "Gowalla",
    "amazon-electronics": "Amazon Electronics",
    "citeulike": "CiteULike, DHCF's split",
    "lastfm": "Last.fm",
}
HEADS = {"precision@20": "precision@20", "recall@20": "recall@20", "ndcg@20": "NDCG@20"}


def write() -> None:
    """Brings intervals, page and picture up to date."""
    entries.update_intervals()
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(lines()) + "\n" + END + after)
    print(f"docs/{PAGE.name}")
    shown = {name: [entry for entry in entries.ordered(name) if not baseline(entry)] for name in data.SETS}
    print(picture.draw({TITLES[name]: (entries.leading(name), found) for name, found in shown.items()}, DOCS))


def baseline(entry: Entry) -> bool:
    """Whether an entry is popularity, which is too far from the others for the picture."""
    return entry.family in ("popularity", "ItemPop")


def lines() -> Iterator[str]:
    """All sections."""
    yield from machines()
    for name in data.SETS:
        yield f"## {TITLES[name]}"
        yield ""
        if entries.measured(name):
            yield from table(name)
            yield ""
            yield from settings(name)
            yield from own_choices(name)
        else:
            yield "Nothing was run on this dataset yet."
            yield ""
        absent = entries.missing(name)
        if entries.measured(name) and absent:
            yield f"Not run yet, and therefore absent: {', '.join(absent)}."
            yield ""


def machines() -> Iterator[str]:
    """What the rows were measured with."""
    rows = list(records.rows().values())
    if not rows:
        return
    found = {(row["machine"]["cpu"], row["machine"]["instruction_set"], row["machine"]["threads"]) for row in rows}
    cpus = [f"{cpu} ({instructions}, {threads} threads)" for cpu, instructions, threads in sorted(found)]
    versions: dict[str, set[str]] = {}
    for row in rows:
        for package, version in row["versions"].items():
            versions.setdefault(package, set()).add(version)
    used = ", ".join(f"{package} {' and '.join(sorted(values))}" for package, values in versions.items())
    dates = sorted({row["date"] for row in rows})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    loads = sorted(row["load_before"] for row in rows)
    low, middle, high = loads[0], loads[len(loads) // 2], loads[-1]
    yield f"Measured {when} on {'; '.join(cpus)}, with {used}."
    yield f"The load average before a row was {low:.1f} to {high:.1f}, {middle:.1f} in the median."
    yield ""


def table(name: str) -> Iterator[str]:
    """The table of a dataset."""
    found = entries.ordered(name)
    best = entries.measured(name)[0]
    columns = (["precision@20"] if name == "citeulike" else []) + ["recall@20", "ndcg@20"]
    heads = ["model", "settings", *(HEADS[column] for column in columns), "NDCG@20 minus the best's"]
    yield "| " + " | ".join([*heads, "fit, s", "rank all users, s", "memory, MB"]) + " |"
    yield "|---" * (len(heads) + 3) + "|"
    for entry in found:
        if entry.runs:
            yield (
                "| "
                + " | ".join(measured_cells(entry, columns, entry.family == best.family and entry.how == best.how))
                + " |"
            )
        else:
            values = [number(entry.values.get(column)) for column in columns]
            at = f"[{published.NAMES[entry.source]}]({entry.source})"
            yield "| " + " | ".join([f"*{entry.title}*", f"published: {at}", *values, "", "", "", ""]) + " |"


def measured_cells(entry: Entry, columns: list[str], is_best: bool) -> list[str]:
    """The cells of an entry that was run."""
    values = []
    for column in columns:
        spread = f" ±{entry.spread(column):.4f}" if len(entry.runs) > 1 else ""
        values.append(number(entry.values[column]) + spread)
    difference = "best" if is_best else ""
    if entry.interval:
        low, high = entry.interval
        difference = f"{signed(low)} to {signed(high)}"
    title = f"**{entry.title}**" if is_best else entry.title
    costs = [seconds(entry.middle("fit_seconds")), seconds(entry.middle("score_seconds"))]
    return [title, entry.how, *values, difference, *costs, f"{entry.middle('peak_bytes') / 1e6:,.0f}"]


def settings(name: str) -> Iterator[str]:
    """What the searches of a dataset chose."""
    found = [line for family in FAMILIES if (line := records.chosen(name, family))]
    if not found:
        return
    about = found[0]["split"]
    part = f"the last {about['fraction']:.0%}" if about["last"] else f"a random {about['fraction']:.0%}"
    core = f", items of fewer than {about['core']} users left out" if about["core"] else ""
    splits = about.get("splits", 1)
    several = f"; mean of {splits} random splits" if splits > 1 else ""
    yield f"Settings chosen on {part} of each user's training items ({about['rows']:,} users{core}{several}):"
    yield ""
    yield "| model | trials | time, s | validation NDCG@20: defaults | chosen | settings |"
    yield "|---|---|---|---|---|---|"
    for line in found:
        chosen = ", ".join(f"`{key}={value!r}`" for key, value in line["settings"].items())
        cells = [FAMILIES[line["family"]].title, line["trials"], f"{line['seconds']:.0f}"]
        cells += [number(line["defaults"]), number(line["ndcg@20"]), chosen]
        yield "| " + " | ".join(map(str, cells)) + " |"
    yield ""


def own_choices(name: str) -> Iterator[str]:
    """What models chose by themselves, for each seed."""
    for entry in entries.measured(name):
        chosen = [run["chosen"] for run in entry.runs if "chosen" in run]
        if chosen:
            yield f"{entry.title} chose: {'; '.join(dict.fromkeys(chosen))}."
            yield ""


def number(value: Any) -> str:
    """Four digits after the point; nothing for what is not known."""
    return "" if value is None else f"{value:.4f}"


def signed(value: float) -> str:
    """Four digits after the point, with a sign."""
    return f"{value:+.4f}".replace("-", "−")  # noqa: RUF001


def seconds(value: float) -> str:
    """Two digits below ten seconds, else whole seconds."""
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
