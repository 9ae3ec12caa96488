"""The launches of a training step and of a ranking, in order, as kernels/cuda makes them.

gpu_model.py adds up their times. tests/python/test_gpu_model.py compares the lists with those of emulated devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gpu_cases
from gpu_kernels import MULTIPROCESSORS, STATS_ROWS, STATS_THREADS, Launch, padded, rows_of_strip, slabs, up

if TYPE_CHECKING:
    from collections.abc import Iterator

# ---- a step ----


def chunk(items: int, rows: int, columns: int, precision: str, cache: int) -> int:
    """How many items' logits there are at a time: kernels/cuda/chunked.go."""
    each = 2 * rows + 6 * columns if precision == "bfloat16" else 4 * rows + 4 * columns
    most = min(cache // 4 * 3 // each, cache // 2 // (4 * columns))
    wave = 128 * MULTIPROCESSORS // up(rows, 256) // 64 * 64
    if most >= wave:
        most = most // wave * wave
    return max(64, min(most // 64 * 64, (items + 63) // 64 * 64))


class Graph:
    """Collects the launches of a part after the other."""

    def __init__(self, **common: Any) -> None:
        self.launches: list[Launch] = []
        self.common, self.part = common, ""

    def __call__(self, kernel: str, **numbers: Any) -> None:
        """Adds a launch, or counts it if it is like the one before it in a chunk before."""
        self.launches.append(Launch(self.part, kernel, SimpleNamespace(**{**self.common, **numbers})))


def assemble(
    g: Graph, batch: gpu_cases.Batch, whole: gpu_cases.Batch, denoised: bool, columns: int, by_item: bool = True
) -> None:
    """kernels/cuda/batch.go; targets are read by row."""
    width = max(1, max(0, columns - 1).bit_length())
    passes = up(width, 8)
    common = {"batch": batch, "whole": whole, "denoised": denoised, "digits": 1 << up(width, passes)}
    common["passes"] = passes = passes * by_item
    mark = len(g.launches)
    for kernel in ("assemble_count", "assemble_fill"):
        g(kernel, **common)
    for turn in range(passes):
        for kernel in ("sort_scan", "sort_place"):
            g(kernel, **common, turn=turn)
    for kernel in ("items_count", "items_write") if by_item else ():
        g(kernel, **common)
    for launch in g.launches[mark:]:
        launch.early = True


def pack(g: Graph, source: str, rows: int, columns: int, valid: int | None = None) -> None:
    """Rounds rows of a matrix, or fills them up."""
    precision = g.common["precision"]
    size = 2 if precision == "bfloat16" else 4
    valid = rows if valid is None else valid
    g("pack_rows", source=source, rows=rows, valid=valid, columns=columns, padded=padded(columns, precision), size=size)


def packs(columns: int, precision: str) -> bool:
    """Whether a weight is filled up before it is multiplied; for bfloat16 there is a rounded copy."""
    return precision != "bfloat16" and padded(columns, precision) != columns


def weight_size(columns: int, precision: str) -> int:
    """Bytes of a row of a weight as products read it from memory, if it is not packed just before."""
    size = 2 if precision == "bfloat16" else 4
    return 0 if packs(columns, precision) else size * padded(columns, precision)


LEAST_PRODUCT = 1 << 25  # kernels/cuda/librarydense.go


def step(n: gpu_cases.Network, precision: str, cache: int, ranks: int = 1) -> list[Launch]:
    """The launches of a training step, in order; of one of several devices that have a part of the items each."""
    items, rows, last = up(n.items, ranks), n.rows, n.hidden[-1]
    share = dict.fromkeys(("input", "target"), gpu_cases.Batch(0, 0, 0, 0))
    for name, b in (("input", n.input), ("target", n.target)):
        share[name] = (
            b
            if ranks == 1
            else gpu_cases.Batch(b.entries // ranks, up(b.longest, ranks), b.distinct // ranks, b.hottest)
        )
    activation, dropout = ("tanh", False) if n.softmax else ("sigmoid", True)
    g = Graph(
        rows=rows,
        optimizer=n.optimizer,
        cosine=n.cosine,
        precision=precision,
        activation=activation,
        dropout=dropout,
        capacity=up(n.capacity, ranks),
        loss="softmax" if n.softmax else "sigmoid",
        finishes=True,
        trains=True,
        rows_with_entries=rows,
        narrow=precision == "bfloat16",
    )
    pairs = list(zip(n.hidden, n.hidden[1:], strict=False))
    g.part = "record"
    g("copy", bytes=256)
    g("begin_step")
    g.part = "Assemble"
    assemble(g, share["input"], share["target"], n.input != n.target, items)
    if n.input != n.target:  # otherwise the same batch goes to both
        assemble(g, share["target"], share["target"], False, items, by_item=False)
    g.part = "Replay"
    g(
        "replay",
        items=items,
        columns=n.hidden[0],
        behind=n.behind // ranks,
        missed=n.missed / ranks,
        batch=share["input"],
    )
    g.part = "Gather"
    g("gather", columns=n.hidden[0], batch=share["input"], finishes=ranks == 1)
    if ranks > 1:
        collective(g, "AllReduce", 4 * rows * n.hidden[0], ranks, agrees=not n.softmax)
        g("finish", columns=n.hidden[0])
    g.part = "Dense, forward"
    for inputs, units in pairs:
        pack(g, "~in", rows, inputs, rows)
        if packs(inputs, precision):
            pack(g, "weight", units, inputs)
        g("product", m=units, n=rows, k=inputs, memory=units * weight_size(inputs, precision))
        g("finish", columns=units)
    size = chunk(items, rows, padded(last, precision), precision, cache)
    if n.softmax:
        g.part = "OutputStats"
        output(g, n, items, size, cache, share["target"], statistics=True)
        if ranks > 1:
            collective(g, "AllGather", 8 * rows * ranks, ranks, agrees=True)
            g("combine_stats", shards=ranks)
    g.part = "OutputStep"
    output(g, n, items, size, cache, share["target"], statistics=False)
    if ranks > 1:
        collective(g, "AllReduce", 4 * rows * last, ranks, agrees=True)
    for inputs, units in reversed(pairs):
        g.part = "Backward"
        g("backward", columns=units)
        g.part = "Dense, backward"
        pack(g, "~dz", rows, units, rows)
        if packs(inputs, precision):
            pack(g, "weight", units, inputs)
        g("product", m=inputs, n=rows, k=units, memory=units * weight_size(inputs, precision))
        g("output_merge_hidden", columns=inputs, cosine=False)
        pack(g, "~in", rows, inputs, rows)
        g("product", m=inputs, n=units, k=rows)
        g("output_update", items=units, columns=inputs, cosine=False, bias=False, parts=0)
    g.part = "Backward"
    g("backward", columns=n.hidden[0])
    g.part = "Scatter"
    g("scatter", items=items, columns=n.hidden[0], batch=share["input"])
    g.part = "record"
    g("copy", bytes=64)
    return g.launches


def output(
    g: Graph, n: gpu_cases.Network, items: int, size: int, cache: int, target: gpu_cases.Batch, statistics: bool
) -> None:
    """The chunked form: kernels/cuda/chunked.go and output.go. Chunks of one size are counted, not listed."""
    precision, rows, columns = g.common["precision"], n.rows, n.hidden[-1]
    wide = padded(columns, precision)
    again = n.softmax and not statistics  # what the statistics have rounded and measured is there
    if n.cosine and not again:
        g("inverse_norms", source="~h", rows=rows, columns=columns)
    if not again:
        pack(g, "~h", rows, columns, rows)
    whole, rest = divmod(items, size)
    narrow, strip = 2 if g.common["narrow"] else 4, rows_of_strip(min(size, items), rows)
    far = n.softmax and narrow * rows * items > gpu_cases.RESIDENT * cache  # logits that are kept, through memory
    parts = max(1, min(4 * MULTIPROCESSORS // up(rows, STATS_ROWS), up(min(size, items), 8 * STATS_THREADS)))
    chunks = ((size, min(1, whole), True), (size, whole - 1, False), (rest, min(1, rest), whole == 0))
    for here, count, begins in chunks:
        if count < 1 or here == 0:
            continue
        mark = len(g.launches)
        if packs(columns, precision):
            pack(g, "weight", here, columns)
        if not again:  # otherwise they are kept
            moved = here * (weight_size(columns, precision) + far * narrow * rows)
            g("product", m=here, n=rows, k=wide, memory=moved, result=narrow)
        if n.cosine and not again:
            source = "weight" if precision == "bfloat16" else "~weight"
            g("inverse_norms", source=source, rows=here, columns=columns)
        if statistics:
            g("output_stats", items=here, begins=begins, parts=parts)
        else:
            g(
                "output_loss",
                items=here,
                begins=begins,
                batch=target,
                all_items=items,
                strip_rows=strip,
                kept=again,
                far=far,
            )
            g("product", m=wide, n=rows, k=here, memory=again * here * weight_size(columns, precision))
            g("product", m=wide, n=here, k=rows)
            g("output_update", items=here, columns=columns, bias=True, parts=up(rows, strip))
        for launch in g.launches[mark:]:
            launch.count = count
    if statistics and parts > 1:
        g("combine_stats", shards=parts)
    if not statistics:
        g("output_sum", blocks=up(min(size, items), 256) * up(rows, strip))
        g("output_merge_hidden", columns=columns)


def collective(g: Graph, kind: str, size: int, ranks: int, agrees: bool) -> None:
    """A collective of NCCL, which adds up in the same launch who is well: kernels/cuda/agreement.go."""
    if agrees:
        g("tell_well")
    g(kind, bytes=size + 4 * agrees, ranks=ranks)
    if agrees:
        g("hear_well")


# ---- a ranking ----

SCREEN_ITEMS = 128
SCREEN_GROWTH = 7


@dataclass
class Part:
    """Tiles that are screened in one launch: a wave, or a part of it."""

    before: int  # items of the waves before
    tiles: int
    items: float
    ends: bool  # the wave ends with it


def parts_of(items: int, columns: int, rows: int, k: int, held: bool) -> Iterator[Part]:
    """The parts of all waves: kernels/cuda/screening.go."""
    tiles, begin, count = up(items, SCREEN_ITEMS), 0, up(4 * k, SCREEN_ITEMS)
    least = MULTIPROCESSORS // up(rows, 256)
    most = tiles if held else max(1, (18 << 20) // (2 * slabs(columns) * SCREEN_ITEMS) // least) * least
    while begin < tiles:
        count = min(count, tiles - begin)
        share = min(SCREEN_ITEMS, (items - SCREEN_ITEMS * begin) / count)
        for first in range(0, count, most):
            part = min(most, count - first)
            yield Part(SCREEN_ITEMS * begin, part, share * part, first + part == count)
        begin += count
        count = SCREEN_GROWTH * begin


def candidates(before: float, items: float, k: int, columns: int) -> float:
    """Items that a row finds among some, with a limit from `before` others: those above it, and those within the error.

    The limit is the k-th best bound from below of the waves before. An item's score is above the k-th best score with
    probability k / before. Rounding to bfloat16 takes 0.38 2^-8 of a norm away, so the bounds are 2 x 0.38 x 2^-8 |h|
    |w| from the product on either side, or 2^-7 0.76 K^(1/2) deviations of the scores from each other. If scores are
    about normal, with the limit at t deviations, exp of that times t times as many get in. The emulator counts as many,
    within 15 % at up to 4,095 items.
    """
    beyond = 0.85 * math.sqrt(2 * math.log(max(2.0, before / k)))
    off = 2**-7 * 0.76 + 2 * (2**-14 + columns * 2**-21)
    return k * items / before * math.exp(off * math.sqrt(columns) * beyond)


def ranking(items: int, columns: int, rows: int, k: int, stored: int, held: bool) -> list[Launch]:
    """The launches of a ranking of all items for rows that hold one entry each, without what each row has seen.

    With weights in bfloat16 that a predictor holds, or that the ranking makes of tiles as it goes.
    """
    entered = gpu_cases.Batch(rows, 1, rows, 1)
    g = Graph(
        rows=rows,
        columns=columns,
        k=k,
        precision="float32",
        activation="linear",
        dropout=False,
        finishes=False,
        trains=False,
        optimizer="SGD",
        cosine=False,
    )
    g.part = "record"
    g("copy", bytes=4096 + 24 * (rows + rows * stored))  # with the batches, which the host makes
    g("begin_step")
    g.part = "Gather"
    g("gather", batch=entered)
    g.part = "TopK"
    g("begin_screen")
    kept, seen, parts = 0.0, 0.0, list(parts_of(items, columns, rows, k, held))
    if not held:
        g("round_tiles", tiles=parts[0].tiles, items=parts[0].items)
    for number, part in enumerate(parts):
        if not held and number + 1 < len(parts):
            g("round_tiles", tiles=parts[number + 1].tiles, items=parts[number + 1].items)
        found = candidates(part.before, part.items, k, columns) if part.before else part.items
        few = rows <= 32 or part.tiles * up(rows, 32) <= 2 * MULTIPROCESSORS
        kernel = "screen_32" if few else "screen_256"
        g(kernel, tiles=part.tiles, items=part.items, found=found, held=held, all=part.before == 0)
        kept, seen = kept + found, seen + part.items
        if part.ends:
            things, kept = kept, candidates(seen, seen, k, columns)
            g("raise_limit", things=things, kept=kept)
    g("refine", things=kept + k, scored=min(items, kept * rows))
    g.part = "record"
    g("copy", bytes=8 * rows * k)
    return g.launches
