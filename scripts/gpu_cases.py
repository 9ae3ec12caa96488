"""The networks and rankings that are measured on a GPU, the batches of their data, and their roofline.

`gpu_model.py` computes what they take; `tests/bench/gpu` measures them.
"""

from __future__ import annotations

from dataclasses import dataclass

# NVIDIA H200 SXM, data sheet, dense matrices: operations a second and bytes a second.
RATES = {"float32": 67e12, "TF32": 494e12, "bfloat16": 989e12}
BANDWIDTH = 4.8e12
RESIDENT = 0.6  # share of the second-level cache in which data stay until they are read again: an assumption
LAUNCH = 3e-6  # what a kernel costs inside a graph, whatever it does: an assumption
STATES = {"SGD": 0, "momentum": 1, "Adam": 2}


@dataclass(frozen=True)
class Batch:
    """A batch, on average over 24 of tests/bench/measure/synthetic.py; tests/python/test_gpu_model.py computes them."""

    entries: int  # in all rows
    longest: int  # entries of the longest row, on average over the batches
    distinct: int  # items that occur
    hottest: int  # entries of the item that occurs most


@dataclass(frozen=True)
class Op:
    """One op of a step: its operations and the bytes that have to go through memory."""

    name: str
    flops: float
    bytes: float


@dataclass(frozen=True)
class Network:
    """An autoencoder I - hidden - I and its data."""

    title: str
    items: int
    hidden: tuple[int, ...]
    rows: int
    entries: int  # of a row, on average
    softmax: bool
    optimizer: str
    target: Batch
    input: Batch
    behind: int  # rows of the input's weight that Replay brings up to date
    missed: int  # steps that it makes for them in all
    capacity: int  # entries that there is room for in a batch
    cosine: bool = False

    @property
    def states(self) -> int:
        """How many numbers the optimizer keeps of a weight."""
        return STATES[self.optimizer]

    def ops(self) -> list[Op]:
        """The step, in order. Weights and states that change are read and written."""
        rows, items, first, last = self.rows, self.items, self.hidden[0], self.hidden[-1]
        writes = 2 * (1 + self.states)
        pairs = list(zip(self.hidden, self.hidden[1:], strict=False))
        dense = sum(a * b for a, b in pairs)
        batches = 20 * (self.target.entries + self.input.entries)  # read: an index; written: both orders
        found = [
            Op("Assemble", 0, batches),
            Op("Replay", 0, 4 * first * self.behind * writes),
            Op("Gather", 2 * self.input.entries * first, 4 * first * (self.input.distinct + rows)),
        ]
        if pairs:
            found.append(Op("Dense, forward", 2 * rows * dense, 4 * (dense + 2 * rows * sum(self.hidden[1:]))))
        if self.softmax:
            found.append(Op("OutputStats", 2 * rows * last * items, 4 * items * last))
        found.append(Op("OutputStep", 6 * rows * last * items, 4 * items * last * writes))
        if pairs:
            found.append(Op("Dense, backward", 4 * rows * dense, 4 * (dense * writes + 4 * rows * sum(self.hidden))))
        found.append(Op("Scatter", 2 * self.input.entries * first, 4 * first * (self.input.distinct * writes + rows)))
        return found

    def distinct_of(self, entries: int) -> int:
        """About how many items occur among entries, by the share in the target's batch."""
        return max(1, round(self.target.distinct * entries / max(1, self.target.entries)))


def least(flops: float, size: float, rate: float, bandwidth: float = BANDWIDTH) -> tuple[float, str]:
    """The time at the limits, and what sets it."""
    compute, memory = flops / rate, size / bandwidth
    longest = max(compute, memory, LAUNCH)
    return longest, "launch" if longest == LAUNCH else "arithmetic" if compute >= memory else "memory"


# Gowalla's rows have 27 entries on average, MovieLens-20M's 144. The input of the soft-max networks is denoised.
_STEP = Batch(36_737, 1_988, 14_523, 200)
_SOFTMAX = "{:,} - 256 - {:,}, batch 512, soft-max, Adam"
NETWORKS = [
    Network(
        "27,278 - 3 x 1,024 - 27,278, batch 256, sigmoid, momentum",
        27_278,
        (1024,) * 3,
        256,
        144,
        False,
        "momentum",
        _STEP,
        _STEP,
        5_625,
        12_754,
        254_456,
    ),
    *(
        Network(
            _SOFTMAX.format(items, items), items, (256,), 512, 27, True, "Adam", target, entered, behind, missed, 95_405
        )
        for items, target, entered, behind, missed in (
            (40_981, Batch(13_577, 492, 7_880, 188), Batch(6_804, 246, 4_557, 95), 3_340, 28_692),
            (1_000_000, Batch(13_577, 492, 11_259, 119), Batch(6_804, 246, 5_904, 62), 5_376, 96_191),
            (10_000_000, Batch(13_577, 492, 12_357, 83), Batch(6_804, 246, 6_334, 42), 6_047, 123_664),
        )
    ),
]
RANKED = [(27_278, 1024), (1_000_000, 256), (10_000_000, 256)]
RANKED_ROWS, RANKED_K, RANKED_SEEN = 512, 10, 144
