"""What an H200 could do at best, on paper: the tables of docs/gpu-performance.md.

    python scripts/gpu_roofline.py                                        # prints the page
    python scripts/gpu_roofline.py --write                                # writes it
    python scripts/gpu_roofline.py --write --measured docs/gpu/bench-DEVICE-DATE.json

Operations and bytes of each op are counted by its definition (kernels/ops.go); the time is that of whichever of the two
takes longer. The last column is for what `make gpu-bench` measured on a device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gpu-performance.md"

# NVIDIA H200 SXM, data sheet, dense matrices: operations a second and bytes a second.
RATES = {"float32": 67e12, "TF32": 494e12, "bfloat16": 989e12}
BANDWIDTH = 4.8e12
LAUNCH = 3e-6  # what a kernel costs inside a graph, whatever it does: an assumption
STATES = {"SGD": 0, "momentum": 1, "Adam": 2}


@dataclass
class Op:
    """One op of a step: its operations and the bytes that have to go through memory."""

    name: str
    flops: float
    bytes: float


@dataclass
class Network:
    """An autoencoder I - hidden - I and its data: entries a row and the distinct items of a batch."""

    title: str
    items: int
    hidden: tuple[int, ...]
    rows: int
    entries: int
    distinct: int
    softmax: bool
    optimizer: str

    def ops(self) -> list[Op]:
        """The step, in order."""
        rows, items, first, last = self.rows, self.items, self.hidden[0], self.hidden[-1]
        writes = 2 * (1 + STATES[self.optimizer])  # weights and states, read and written
        pairs = list(zip(self.hidden, self.hidden[1:], strict=False))
        dense = sum(a * b for a, b in pairs)
        found = [Op("Gather", 2 * rows * self.entries * first, 4 * first * (self.distinct + rows))]
        if pairs:
            found.append(Op("Dense, forward", 2 * rows * dense, 4 * (dense + 2 * rows * sum(self.hidden[1:]))))
        if self.softmax:
            found.append(Op("OutputStats", 2 * rows * last * items, 4 * items * last))
        found.append(Op("OutputStep", 6 * rows * last * items, 4 * items * last * writes))
        if pairs:
            found.append(Op("Dense, backward", 4 * rows * dense, 4 * (dense * writes + 4 * rows * sum(self.hidden))))
        found.append(Op("Scatter", 2 * rows * self.entries * first, 4 * first * (self.distinct * writes + rows)))
        return found


# Gowalla's rows have 27 entries on average, MovieLens-20M's 144.
NETWORKS = [
    Network(
        "27,278 - 3 x 1,024 - 27,278, batch 256, sigmoid, momentum",
        27_278,
        (1024,) * 3,
        256,
        144,
        12_000,
        False,
        "momentum",
    ),
    Network("40,981 - 256 - 40,981, batch 512, soft-max, Adam", 40_981, (256,), 512, 27, 9_000, True, "Adam"),
    Network("1,000,000 - 256 - 1,000,000, batch 512, soft-max, Adam", 1_000_000, (256,), 512, 27, 13_000, True, "Adam"),
    Network(
        "10,000,000 - 256 - 10,000,000, batch 512, soft-max, Adam", 10_000_000, (256,), 512, 27, 13_800, True, "Adam"
    ),
]
RANKED = [(27_278, 1024), (1_000_000, 256), (10_000_000, 256)]
RANKED_ROWS = 512


@dataclass
class Measured:
    """What a report of `make gpu-bench` says of the networks and shapes here; empty without one."""

    cases: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    where: str = ""

    def cell(self, title: str, op: str) -> str:
        """The last column of a line."""
        return ", ".join(self.cases.get((title, op), ()))


def read(path: Path) -> Measured:
    """Picks the steps, ops and rankings of this page from a report."""
    report: dict[str, Any] = json.loads(path.read_text())
    if report["emulated"]:
        raise SystemExit(f"{path} is from an emulator, which says nothing about speed")
    found = Measured(where=report["machine"]["devices"][0]["name"])
    for case in report["cases"]:
        parameters = case.get("parameters", {})
        if "roofline" in parameters and case.get("ours"):
            text = f"{time(statistics.median(case['ours']))} {parameters['precision']}"
            found.cases.setdefault((parameters["roofline"], parameters.get("op", "a step")), []).append(text)
    return found


def least(flops: float, size: float, rate: float) -> tuple[float, str]:
    """The time at the limits, and what sets it."""
    compute, memory = flops / rate, size / BANDWIDTH
    longest = max(compute, memory, LAUNCH)
    return longest, "launch" if longest == LAUNCH else "arithmetic" if compute >= memory else "memory"


def time(seconds: float) -> str:
    """In the unit that suits."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def amount(number: float) -> str:
    """Three digits or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def row(name: str, flops: float, size: float, measured: str = "") -> str:
    """A line of a table, with the time in each precision."""
    cells = [name, amount(flops / 1e9), amount(size / 1e6)]
    for rate in RATES.values():
        seconds, bound = least(flops, size, rate)
        cells.append(f"{time(seconds)} ({bound})")
    return "| " + " | ".join([*cells, measured]) + " |"


def table(lines: list[str]) -> str:
    """With its head; the last column is for what hardware says."""
    head = "| | GFLOP | MB | " + " | ".join(RATES) + " | measured |\n|---|---|---|" + "---|" * (len(RATES) + 1)
    return "\n".join([head, *lines])


ABOUT = """\
`scripts/gpu_roofline.py` makes this page; `--measured` fills the last column.
**{what}**

An operation takes at least the time of its arithmetic, of its memory traffic, or of a launch. The tables show the
largest of the three and which one it is.

- Limits from the data sheet (dense): {limits}; memory {bandwidth} TB/s.
- The smallest kernel of a graph takes {launch:.0f} us. This is assumed, not from the data sheet.
- Bytes are those that must pass through memory once: weights, optimizer states and rows of the batch. Logits stay in
  the second-level cache or in registers.
- In bfloat16 only products are narrow. Weights and states stay float32, so their traffic does not shrink."""

FOLLOWS = """\
## What follows

- At these batch sizes `OutputStep` is bound by arithmetic in float32, and by memory in bfloat16. A step of I - 256 - I
  with Adam moves 6 KB per item for the update, and no kernel can be faster than that. A larger batch, momentum instead
  of Adam, or tied weights help; a faster product does not.
- The statistics of soft-max are a quarter of the arithmetic in float32, and a sixth of the time in bfloat16.
- Hidden layers and the sparse input take microseconds. Launching them one by one would take as long, so a step has to
  be one graph.
- Ranking reads the weights once for a batch of rows. In bfloat16 it is bound by arithmetic from about 400 rows on."""


def page(measured: Measured) -> str:
    """The whole page."""
    what = "Everything on this page is computed; nothing was measured."
    if measured.where:
        what = f"Everything is computed except the last column, which `make gpu-bench` measured on {measured.where}."
    limits = ", ".join(f"{name} {rate / 1e12:.0f} TFLOP/s" for name, rate in RATES.items())
    parts = [
        "# What a GPU could do: the roofline of an H200, on paper",
        ABOUT.format(what=what, limits=limits, bandwidth=BANDWIDTH / 1e12, launch=LAUNCH * 1e6),
    ]
    for network in NETWORKS:
        ops = network.ops()
        lines = [row(op.name, op.flops, op.bytes, measured.cell(network.title, op.name)) for op in ops]
        total = [time(sum(least(op.flops, op.bytes, rate)[0] for op in ops)) for rate in RATES.values()]
        flops, size = sum(op.flops for op in ops), sum(op.bytes for op in ops)
        total = [amount(flops / 1e9), amount(size / 1e6), *total, measured.cell(network.title, "a step")]
        lines.append("| **a step** | " + " | ".join(total) + " |")
        parts += [
            f"## {network.title}",
            f"Assumed: {network.entries} entries per row and {network.distinct:,} distinct items in a batch.",
            table(lines),
        ]
    lines = [
        row(title, 2 * RANKED_ROWS * units * items, 4 * items * units, measured.cell(title, "a step"))
        for title, items, units in ((f"{items:,} items, {units} units", items, units) for items, units in RANKED)
    ]
    parts += [
        f"## Exact top-10 for {RANKED_ROWS} rows",
        "The time of screening, without the few exact scores of the survivors. dsstne screens with bfloat16 products\n"
        "of float32 weights, whatever the precision of the model, so the bfloat16 column is its limit.",
        table(lines),
    ]
    parts.append(FOLLOWS)
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Prints or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name} instead of printing it")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="a JSON report of `make gpu-bench`")
    args = parser.parse_args()
    text = page(read(args.measured) if args.measured else Measured())
    if args.write:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
