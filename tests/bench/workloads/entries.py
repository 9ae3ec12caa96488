"""An output at the stored entries of its target, bound by memory, beside the same output at all items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure.alternate import take_turns
from measure.lines import Goal, Line
from measure.ops import Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(e) output at 100 stored of 100,000 items a row: reads distinct rows K 4, updates K 8 (1 + states) bytes"

SHAPE = {"rows": 256, "units": 256, "items": 100_000, "row_length": 100, "batches": 8}
# The states of a weight, and how many times as fast as all items it is to be: at least, and the aim.
OPTIMIZERS = {"sgd": (0, 20, 30), "momentum": (1, 12, 20)}


def lines(bench: Bench) -> Iterator[Line]:
    """The share of the bandwidth, and the ratio to all items, with each optimizer."""
    for optimizer, (states, least, aim) in OPTIMIZERS.items():
        request = {**SHAPE, "loss": "squared", "optimizer": optimizer, "threads": bench.threads}
        with Op(op="entries", **request) as ours, Op(op="output", **request) as all_items:
            # Rows that missed steps move twice: the replay of a weight with a state reads and writes them, too.
            updates = 2 * (1 + states) * (1 + (states > 0))
            rows = ours.distinct / SHAPE["batches"] * SHAPE["units"] * 4 / 1e9
            steps = SHAPE["batches"] * (4 if bench.full else 2)
            turns = take_turns(
                lambda ours=ours, steps=steps: ours.run(steps),
                lambda all_items=all_items: all_items.run(2),
                lambda updates=updates: both(bench, updates),
                bench.repeats(3, 7),
            )
        parameters = {**request, "steps": steps}
        for case, peer, goal in (
            ("share of the bandwidth", "", Goal("share", 0.5, 0.75)),
            ("beside all items", "the same output at all items", Goal("ratio", least, aim)),
        ):
            yield Line(
                f"{optimizer}, {case}",
                "ms",
                turns.ours,
                turns.peer if peer else None,
                peer,
                work=rows * (1 + updates),
                limit=turns.limit,
                limit_name=f"bandwidth (read once, update in place), {bench.threads} threads",
                goal=goal,
                parameters=parameters,
            )


def both(bench: Bench, updates: int) -> float:
    """Bandwidth where rows are read once, and `updates` times their bytes are moved by updates."""
    read, update = (bench.limits.bandwidth(stream, bench.threads) for stream in ("read", "update"))
    return (1 + updates) / (1 / read + updates / update)
