"""What each CUDA kernel does, one entry a kernel.

An entry has the formulas of a launch: blocks, bytes of each array, the elements of each loop, and the loads that follow
from each other. Its numbers v are those of the launch. tests/python/test_gpu_model.py compares them with what the
emulator counts, and the elements of a trip with the compiled loop. A change of a kernel changes its entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gpu_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gpu_listing

V = Any  # the numbers of a launch, by name
Streams = dict[str, tuple[float, float, float]]


def up(n: float, size: int) -> int:
    """How many blocks of a size cover n."""
    return max(1, math.ceil(n / size))


@dataclass(frozen=True)
class Loop:
    """A loop of a kernel. Elements are counted by thread: a warp with a column a lane has 32 in a trip."""

    at: str  # a piece of its line
    elements: Callable[[V], float]  # of all threads of the launch
    marker: tuple[str, str, float] = ("", "", 1)  # an instruction, a piece of its line, and how many an element has
    per_trip: int = 1  # elements of a trip: how often the marker is found in it
    hops: tuple[float, float] = (0, 0)  # loads of a trip that wait for each other: from the cache, from memory
    worst: Callable[[V], float] | None = None  # elements of the thread with the most; otherwise all have alike
    within: str = ""  # the function that it stands in, if that is inlined
    unused: tuple[str, ...] = ()  # pieces of lines that these elements do not come to, though others of the loop may
    through: bool = False  # whether a trip is one with the most markers, not one with the fewest unused blocks

    def lines(self, sources: gpu_listing.Sources) -> set[gpu_listing.Line]:
        """The lines of the marker."""
        return set().union(*(sources.find(piece) for piece in self.marker[1].split("|") if piece))

    def counted_lines(self, sources: gpu_listing.Sources) -> set[gpu_listing.Line]:
        """Those lines, if the marker is a load, which the emulator counts; stores follow from the bytes."""
        return self.lines(sources) if self.marker[0].startswith("LD") else set()


@dataclass(frozen=True)
class Kernel:
    """The formulas of a kernel.

    Streams are, by array, the bytes that are read and written, each once, and how often all threads together read
    them. Arrays whose name begins with ~ were written shortly before and lie in the second-level cache if they fit.
    """

    threads: int | Callable[[V], int]
    grid: Callable[[V], tuple[int, int]]
    streams: Callable[[V], Streams]
    loops: tuple[Loop, ...] = ()
    elements: Callable[[V], float] = lambda v: 0.0  # what "instructions per element" is about
    unused: Callable[[V], tuple[str, ...]] = lambda v: ()  # functions and pieces of lines that no thread comes to
    active: Callable[[V], float] | None = None  # blocks that have work, if not all
    hops: tuple[float, float] = (3, 0)  # before the loops: the record, and what it points to
    persistent: bool = False  # blocks go on to further work until there is none
    product: bool = False  # matrix units
    shared: Callable[[V], int] = lambda v: 0  # bytes of dynamic shared memory


@dataclass
class Launch:
    """A node of the graph: a kernel of ours, or "product", "copy", "fill", "AllReduce", "AllGather"."""

    part: str
    kernel: str
    v: V
    count: int = 1
    collectives: list[str] = field(default_factory=list)
    early: bool = False  # in a graph of its own, beside the step before


# ---- what several kernels have in common ----

# Where rows are not aligned for four columns at a time, which they are in the cases here.
WIDE_ONLY = tuple(
    f"{name}("
    for name in ("gather_columns<1>", "scatter_columns<1>", "replay_elements<1>", "update_part<1>", "update_item<1>")
)
STORED = (r"STG\.E\.128", "write<n>(w.value + at, x.value)", 0.25)  # four columns at once
RULES = {"SGD": "sgd", "momentum": "momentum", "Adam": "adam"}
ALL_RULES = ("sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw", "adagrad", "adadelta")
ACTIVATIONS = ("linear", "sigmoid", "tanh", "relu", "elu", "selu", "leaky_relu", "softplus", "softsign", "gelu", "silu")
LOSSES = ("sigmoid", "scaled_marginal", "softmax", "squared", "hinge", "absolute", "l2_hinge")


def other(prefix: str, words: tuple[str, ...], used: str) -> tuple[str, ...]:
    """The functions of the kinds that are not used."""
    return tuple(prefix + word for word in words if word != used)


def rule(v: V) -> tuple[str, ...]:
    """The optimizers that are not used, the step of l1, and a gradient that is written."""
    unused = other("update_", ALL_RULES, RULES[v.optimizer])
    return (*unused, "shrink(", "w.gradient + at, g", "to.tied + touched", *WIDE_ONLY)


def weights(v: V, rows: float, columns: float) -> tuple[float, float, float]:
    """A weight and its states, read and written."""
    size = 4 * rows * columns * (1 + gpu_cases.STATES[v.optimizer])
    return size, size, 1


MULTIPROCESSORS = 132  # of an H100 and of an H200
STATS_ROWS = 4  # of a block: kernels/cuda/output.go
STATS_THREADS = 256
COSINE = ("hidden_inverse", "along")


def cosine(v: V) -> tuple[str, ...]:
    """Lines that are for cosine logits, unless they are."""
    return () if v.cosine else COSINE


def slabs(columns: int) -> int:
    """Units of a row in slabs of 32."""
    return up(columns, 32) * 32


def screening(rows: int, threads: int, at_once: int) -> Kernel:
    """Products with weights in bfloat16, by blocks of some rows; a trip has units `at_once`."""

    def blocks(v: V) -> int:
        return up(v.rows, rows)

    reaching = "while (reaching)"
    return Kernel(
        threads,
        lambda v: (v.tiles * blocks(v), 1),
        lambda v: {
            "weight" if v.held else "~weight": ((2 * slabs(v.columns) + 8) * v.items, 0, blocks(v)),
            "~hidden": (2 * v.rows * slabs(v.columns), 0, v.tiles),
            "~rows": (12 * v.rows, 12 * v.found * v.rows, v.tiles),
        },
        loops=(
            Loop(
                "for (int slab = 0; slab < slabs; slab++)",
                lambda v: v.tiles * blocks(v) * threads * slabs(v.columns),
                ("HMMA", "", rows / threads * 2),
                at_once,
                (0, at_once / 32 / 3),  # three slabs are on their way
                within="screen_tile",
            ),
            Loop(reaching, lambda v: 0 if v.all else v.found * v.rows, hops=(5, 0), within="screen_tile"),
            Loop(reaching, lambda v: v.found * v.rows if v.all else 0, within="screen_tile"),
        ),
        elements=lambda v: v.rows * v.items,
        unused=lambda v: ("inverse_of(", "a.widens", *(() if v.all else ("reached[(4",))),
        product=True,
        shared=lambda v: 4 * (rows + 128) * 80,
    )


def sorting(n: float) -> float:
    """Steps of sort_found in kernels/cuda/src/rank.cuh."""
    runs = math.ceil(math.log2(max(2.0, n)))
    return runs * (runs + 1) / 2


def sorted_at_once(n: float) -> int:
    """Threads that compare in a step, in whole warps."""
    return max(32, 1 << math.ceil(math.log2(max(2.0, n))) - 1)


def assembling(threads: int, grid: Callable[[V], tuple[int, int]], streams: Callable[[V], Streams],
               hops: tuple[float, float], active: Callable[[V], float] | None = None) -> Kernel:  # fmt: skip
    """A kernel of batch.cu: its time is that of a few loads and barriers that follow each other."""
    return Kernel(threads, grid, streams, active=active, hops=hops, elements=lambda v: v.batch.entries)


def rows_of_batch(v: V) -> tuple[int, int]:
    """A warp a row, as many blocks as have work."""
    return min(up(v.rows, 8), 1 << 14), 1


def tiles_of_batch(v: V) -> tuple[int, int]:
    """A tile of 2,048 entries a block, for the largest batch."""
    return up(v.capacity, 2048), 1


def used_tiles(v: V) -> float:
    """Tiles that the batch at hand fills."""
    return up(v.batch.entries, 2048)


def counted(v: V, counts: bool) -> tuple[float, float, float]:
    """What counting the entries of a digit and tile adds to: an atomic addition reads and writes."""
    return (4 * v.batch.entries * counts, 4 * v.batch.entries * counts, 1)


def wide(v: V) -> int:
    """Columns that a lane has at a time."""
    return 4 if v.columns % 4 == 0 else 1


def add_rows(
    warps: Callable[[V], float],
    entries: Callable[[V], float],
    busiest: Callable[[V], Sequence[float]],
    under_way: int,
    hops: tuple[float, float],
    pieces: int = 1,
    unused: tuple[str, ...] = WIDE_ONLY,
) -> tuple[Loop, Loop]:
    """The loops of add_rows, where `warps` warps add up `entries` rows, each in `pieces` pieces of 128 columns.

    `busiest` are the entries of the busiest warp, call by call.
    """

    def trips(v: V, size: int) -> float:
        each = entries(v) / max(1, warps(v))
        return warps(v) * up(v.columns, 128 * pieces) * 32 * max(1.0, each / size + 0.5 * (each > size))

    def most(v: V, size: int) -> int:
        return sum(up(call, size) for call in busiest(v))

    return (
        Loop(
            "for (int e = begin; e < entries; e += 32)",
            lambda v: trips(v, 32),
            hops=(1, 0),
            worst=lambda v: most(v, 32),
            unused=unused,
        ),
        Loop(
            "for (int first = 0; first < count; first += under_way)",
            lambda v: 4 * pieces * under_way * trips(v, under_way),
            ("FFMA", "fmaf(factor, x[i][p][c], sum[p][c])", 1),
            4 * pieces * under_way,
            hops,
            lambda v: 4 * pieces * under_way * most(v, under_way),
            unused=unused,
        ),
    )


GATHER_ROWS, GATHER_PIECES, GATHER_WARPS = 4, 16, 16  # of a block, of a row, of a block in training


def pieces_of(entries: float) -> tuple[int, int]:
    """How gather cuts a row in training: pieces, and entries of one."""
    each = 8 * up(entries, 8 * GATHER_PIECES)
    return up(entries, each), each


def pieces_of_rows(v: V) -> int:
    """Of a row of the mean length."""
    return pieces_of(v.batch.entries / v.rows)[0] if v.trains else 1


def longest_pieces(v: V) -> list[float]:
    """Entries that the busiest warp adds, piece by piece, in the block of the longest row."""
    if not v.trains:
        return [v.batch.longest]
    cut, most = pieces_of(v.batch.longest)
    others, each = pieces_of(v.batch.entries / v.rows)
    return [most, *[each] * (up(cut + (GATHER_ROWS - 1) * others, GATHER_WARPS) - 1)]


FEW = 2  # entries that scatter adds at once


def hot(v: V) -> tuple[float, float]:
    """Items with more than a few entries, and their entries: all items, or the hottest one if the mean is below."""
    if v.batch.entries > FEW * v.batch.distinct:
        return v.batch.distinct, v.batch.entries
    return (1, v.batch.hottest) if v.batch.hottest > FEW else (0, 0)


def scatter_rows(hotter: bool) -> tuple[Loop, Loop]:
    """The loops of scatter over an item's entries: up to two of them, or more; a warp has 256 columns."""

    def of(v: V, n: int) -> float:
        return hot(v)[n] if hotter else (v.batch.distinct, v.batch.entries)[n] - hot(v)[n]

    others = ("add_fetched<4 / pieces>(",) if hotter else ("add_fetched<8 / pieces>(", "add_rows<8 / pieces>(")
    return add_rows(
        lambda v: of(v, 0),
        lambda v: of(v, 1),
        lambda v: (v.batch.hottest if hotter else FEW,),
        4 if hotter else 2,
        (1, 0),
        2,
        (*WIDE_ONLY, *others),
    )


RATES = (12.0, 0.0, 1.0)  # of the step: the learning rate and two scales

# ---- the kernels ----

KERNELS: dict[str, Kernel] = {
    "begin_step": Kernel(128, lambda v: (1, 1), lambda v: {"rates": (0, RATES[0], 1)}),
    # A warp goes along its row 32 entries at a time; the ballots and the sums of a trip follow each other.
    "assemble_count": assembling(
        256,
        rows_of_batch,
        lambda v: {
            "data": (8 * (v.rows + 1) + 4 * v.whole.entries * v.denoised, 0, 1),
            "~batch": (0, 4 * v.rows + 4 * v.passes * v.digits * up(v.capacity, 2048), 1),
        },
        (5, 2),
    ),
    "assemble_fill": Kernel(
        256,
        rows_of_batch,
        lambda v: {
            "data": (4 * v.whole.entries + 12 * v.rows + 8 - 4 * v.rows * v.denoised, 0, 1),
            "~lengths": (4 * v.rows, 0, up(v.rows, 8)),
            "~batch": (0, (8 + 4 * (v.passes > 0)) * v.batch.entries + 8 * v.rows + 12, 1),
            "~counts of digits": counted(v, v.passes > 0),
        },
        loops=(
            Loop(
                "for (int64_t first = a.data.offsets[row]; first < end; first += 32 * kAtOnce)",
                lambda v: 32 * sum_of_warps(v.whole, v.rows, 128),
                within="assemble_fill",
                worst=lambda v: up(v.whole.longest, 128),
                hops=(0, 1),
            ),
        ),
        elements=lambda v: v.batch.entries,
        unused=lambda v: () if v.denoised else ("philox", "denoise", "__shfl_sync(kAllLanes, part, i)"),
        hops=(7, 2),
    ),
    "sort_scan": assembling(
        256,
        lambda v: (v.digits, 1),
        lambda v: {
            "~tiles": (4 * v.digits * used_tiles(v), 4 * v.digits * used_tiles(v), 1),
            "~counts": (4, 0, 1),
            "~digits": (0, 4 * v.digits, 1),
        },
        (6, 0),
    ),
    "sort_place": assembling(
        256,
        tiles_of_batch,
        lambda v: {
            "~from": (4 * v.batch.entries * (1 + (v.turn > 0)) + 4 * v.digits * (1 + used_tiles(v)) + 4, 0, 1),
            "~to": (0, 8 * v.batch.entries, 1),
            "~counts of digits": counted(v, v.turn + 1 < v.passes),
        },
        (10, 0),
        used_tiles,
    ),
    "items_count": assembling(
        256,
        tiles_of_batch,
        lambda v: {"~items": (4 * v.batch.entries + 4, 0, 1), "~tiles": (0, 4 * used_tiles(v), 1)},
        (6, 0),
        used_tiles,
    ),
    "items_write": assembling(
        256,
        tiles_of_batch,
        lambda v: {
            "~from": (16 * v.batch.entries + 4, 0, 1),
            "~tiles": (4 * used_tiles(v), 0, used_tiles(v)),
            "~batch": (0, 8 * v.batch.entries + 8 * v.batch.distinct + 8, 1),
        },
        (14, 0),
        used_tiles,
    ),
    "replay": Kernel(
        lambda v: replaying_threads(v),
        lambda v: (min(max(1, v.items), replaying(v)), 1),
        lambda v: {
            "weight": (weights(v, v.behind, v.columns)[0], weights(v, v.behind, v.columns)[1], 1),
            "last": (4 * v.batch.distinct, 4 * v.behind, 1),
            "~batch": (4 * v.batch.distinct, 0, 1),
        },
        loops=(
            Loop(
                "for (int64_t n = blockIdx.x; n < count;",
                lambda v: v.batch.distinct * 32 * up(v.columns, 128),
            ),
            Loop(
                "for (int64_t k = 4 * threadIdx.x; k < w.columns; k += 4 * blockDim.x)",
                lambda v: v.behind * v.columns,
                STORED,
                4,
                hops=(0, 1),
            ),
            Loop(
                "for (int64_t number = last + 1;",
                lambda v: v.missed * v.columns / 4,
                hops=(0.1, 0),  # the rates of recent steps, from the first-level cache
                within="replay_elements",
                unused=WIDE_ONLY,
            ),
        ),
        elements=lambda v: v.behind * v.columns,
        unused=rule,
        hops=(4, 1),
        active=lambda v: min(v.batch.distinct, replaying(v)),
        persistent=True,
    ),
    "gather": Kernel(
        lambda v: 512 if v.trains else 128,
        lambda v: (up(v.columns, 32 * wide(v)), up(v.rows, GATHER_ROWS)),
        lambda v: {
            "weight": (4 * v.batch.distinct * v.columns, 0, v.batch.entries / max(1, v.batch.distinct)),
            "~batch": (8 * v.batch.entries + 4 * (v.rows + 1), 0, up(v.columns, 128)),
            "out": (0, 4 * v.rows * v.columns, 1),
            "bias": (4 * v.columns * v.finishes, 0, v.rows),
        },
        loops=(
            Loop(
                "for (int piece = warp_id(); piece < pieces;",
                lambda v: 32 * up(v.columns, 128) * pieces_of_rows(v) * v.rows,
                worst=lambda v: len(longest_pieces(v)),
                unused=WIDE_ONLY,
            ),
            *add_rows(lambda v: pieces_of_rows(v) * v.rows, lambda v: v.batch.entries, longest_pieces, 8, (0, 1)),
            Loop(
                "for (int at = threadIdx.x; at < kGatherRows * 32 * n;",
                lambda v: v.rows * v.columns,
                unused=WIDE_ONLY,
            ),
            Loop(
                "for (int i = begin + 1; i < end; i++)",
                lambda v: v.rows * v.columns * (pieces_of_rows(v) - 1),
                ("FADD", "sum += sums[i][c]", 1),
                4,
                unused=WIDE_ONLY,
            ),
        ),
        elements=lambda v: v.batch.entries * v.columns,
        unused=lambda v: (
            *other("activate_", ACTIVATIONS, v.activation if v.finishes else ""),
            *(() if v.dropout and v.finishes else ("philox", "kept")),
            *WIDE_ONLY,
        ),
        hops=(5, 0),
        shared=lambda v: 4 * 32 * wide(v) * GATHER_ROWS * (GATHER_PIECES if v.trains else 1),
    ),
    "scatter": Kernel(
        128,
        lambda v: (min(up(max(1, v.items) * up(v.columns, 256), 4), 5 * MULTIPROCESSORS), 1),
        lambda v: {
            "weight": weights(v, v.batch.distinct, v.columns),
            "~batch": (8 * v.batch.entries + 8 * v.batch.distinct + 4, 0, up(v.columns, 128)),
            "rates": RATES,
            "~dz": (4 * v.rows_with_entries * v.columns, 0, v.batch.entries / max(1, v.rows_with_entries)),
            "last": (0, 4 * v.batch.distinct, 1),
        },
        loops=(
            Loop(
                "while (next.item < items)",
                lambda v: v.batch.distinct * v.columns,
                STORED,
                8,
                hops=(0, 0),  # what it needs is fetched meanwhile
                through=True,
            ),
            scatter_rows(False)[1],
            *scatter_rows(True),
        ),
        elements=lambda v: v.batch.entries * v.columns,
        unused=lambda v: (*rule(v), "a.tied + int64_t(x.item)"),
        hops=(4, 0),
        persistent=True,
    ),
    "pack_rows": Kernel(
        128,
        lambda v: (up(v.rows, 4), up(v.padded, 512)),
        lambda v: {
            v.source: (4 * v.valid * v.columns, 0, 1),
            "~packed": (0, v.size * v.rows * v.padded, 1),
        },
        elements=lambda v: v.rows * v.padded,
        unused=lambda v: (
            "inside && k + c < columns ? row[k + c]",
            *(("write<4>(static", "narrowed(") if v.size == 2 else ("make_uint2(to_bf16x2",)),
        ),
        hops=(3, 1),
    ),
    "finish": Kernel(
        128,
        lambda v: (up(v.columns, 128), v.rows),
        lambda v: {
            "~sums": (4 * v.rows * v.columns, 0, 1),
            "out": (0, 4 * v.rows * v.columns, 1),
            "bias": (4 * v.columns, 0, v.rows),
        },
        elements=lambda v: v.rows * v.columns,
        unused=lambda v: (*other("activate_", ACTIVATIONS, v.activation), *(() if v.dropout else ("philox", "kept"))),
        hops=(5, 0),
    ),
    "backward": Kernel(
        1024,
        lambda v: (up(v.columns, 8), 1),
        lambda v: {
            "~h": (4 * v.rows * v.columns, 0, 1),
            "~dh": (4 * v.rows * v.columns, 4 * v.rows * v.columns, 1),
            "bias": weights(v, 1, v.columns),
            "rates": RATES,
        },
        loops=(
            Loop(
                "for (int64_t first = warp * kRows + lane / kBackwardUnits;",
                lambda v: up(v.rows, 128) * 128 * v.columns,  # a thread stops at the first row that is not there
                ("STG|ST", "a.dh[u * a.units + k] = dz", 1),
                4,
                (1, 0),
                worst=lambda v: 4 * up(v.rows, 512),
            ),
        ),
        elements=lambda v: v.rows * v.columns,
        unused=lambda v: (
            *rule(v),
            *other("slope_", ACTIVATIONS, v.activation),
            *(() if v.dropout else ("philox",)),
        ),
    ),
    "inverse_norms": Kernel(
        256,
        lambda v: (up(v.rows, 8), 1),
        lambda v: {v.source: (4 * v.rows * v.columns, 0, 1), "~inverse": (0, 4 * v.rows, 1)},
        loops=(
            Loop(
                "for (int64_t k = lane_id(); k < columns; k += 32) {",
                lambda v: v.rows * v.columns,
                ("LDG|LD", "const double x = row[k]", 1),
                16,
                (0, 1),
                within="inverse_norm",
            ),
        ),
        elements=lambda v: v.rows * v.columns,
    ),
    "output_stats": Kernel(
        256,
        lambda v: (up(v.rows, STATS_ROWS), v.parts),
        lambda v: {
            "~logits": (logit(v) * v.rows * v.items, 0, 1),
            "bias": (4 * v.items, 0, up(v.rows, STATS_ROWS)),
            "~stats": (0 if v.begins else 8 * v.rows * v.parts, 8 * v.rows * v.parts, 1),
            **(
                {"~inverse": (4 * v.items, 0, up(v.rows, STATS_ROWS)), "~of_rows": (4 * v.rows, 0, 1)}
                if v.cosine
                else {}
            ),
        },
        loops=(
            Loop(
                "for (; i + kEight <= items; i += apart)",
                lambda v: STATS_ROWS * up(v.rows, STATS_ROWS) * up(v.items, 256) * 256,
                ("FMNMX", "next = fmaxf(next, x[n])", 1),
                8 * STATS_ROWS,
                (1, 0),
                within="stats_of_eights",
                worst=lambda v: STATS_ROWS * 8 * up(v.items, 2048 * v.parts),
            ),
        ),
        elements=lambda v: v.rows * v.items,
        unused=lambda v: (*of_eight(v), *cosine(v)),
    ),
    "output_loss": Kernel(
        256,
        lambda v: (up(v.items, 256), row_strips(v)),
        lambda v: {
            "logits" if v.far else "~logits": (
                logit(v) * v.rows * v.items,
                0 if v.kept else logit(v) * v.rows * up(v.items, 8) * 8,
                1,
            ),
            "~gradients": (0, logit(v) * v.rows * up(v.items, 8) * 8 if v.kept else 0, 1),
            "bias": (4 * v.items, 0, row_strips(v)),  # once a block
            "~loss": (
                0 if v.begins else 8 * up(v.items, 256) * row_strips(v),
                8 * up(v.items, 256) * row_strips(v),
                1,
            ),
            "~bias_gradient": (0, 4 * v.items * row_strips(v), 1),
            # of a row: the sum of its targets, where they begin and end, and with soft-max ln of the sum
            "~rows": (v.rows * (8 if v.loss == "softmax" else 4) + 4 * (v.rows + 1), 0, up(v.items, 256)),
            **(
                {"~inverse": (4 * v.items, 0, row_strips(v)), "~of_rows": (4 * v.rows, 0, up(v.items, 256))}
                if v.cosine
                else {}
            ),
        },  # and what find_rows looks at
        loops=(
            Loop(
                "while (low < high)",
                lambda v: 256 * up(v.items, 256) * row_strips(v) * math.log2(max(2, v.batch.entries / v.rows)),
                hops=(1, 0),
                worst=lambda v: math.log2(max(2, v.batch.longest)),
                within="find_rows",
            ),
            Loop(
                "for (int n = lane_id(); n < kWarpRows * lines; n += 32)",
                lambda v: v.kept * 256 * up(v.items, 256) * row_strips(v) * up(12 * 2 * logit(v), 32),
                within="fetch_logits",
            ),
            # the logits of the next row are on their way meanwhile
            Loop(
                "for (; u < rows; u += 8, row += apart, to += apart, found++)",
                lambda v: v.rows * up(v.items, 256) * 256 * (1 - with_targets(v)),
                ("MUFU.EX2", "[](int) { return 0.0f; }", 1),
                8,
                through=True,
                unused=("return t[k];", "take_targets(target, *found"),
            ),
            Loop(
                "for (; u < rows; u += 8, row += apart, to += apart, found++)",
                lambda v: v.rows * up(v.items, 256) * 256 * with_targets(v),
                ("MUFU.EX2", "return t[k];", 1),
                8,
                (1, 0),
                through=True,
                unused=("[](int) { return 0.0f; }",),
            ),
            Loop(
                "for (int e = row.begin + lane_id(); e < row.end; e += 32)",
                lambda v: 32 * v.rows * up(v.items, 256) * with_targets(v),
                within="take_targets",
            ),
        ),
        elements=lambda v: v.rows * v.items,
        unused=lambda v: (
            *other("loss_", LOSSES, v.loss),
            *of_eight(v),
            "const Eight at{strip",
            *cosine(v),
        ),
        hops=(5, 0),
    ),
    "output_sum": Kernel(
        32,
        lambda v: (1, 1),
        lambda v: {"~sums": (8 * v.blocks, 0, 1)},
        loops=(
            Loop(
                "for (int64_t b = lane_id(); b < a.blocks; b += 32)",
                lambda v: v.blocks,
                ("LDG|LD", "total += a.loss[b]", 1),
                16,
                (1, 0),
            ),
        ),
        elements=lambda v: v.blocks,
    ),
    "output_update": Kernel(
        256,
        lambda v: (up(v.items, 8) + v.bias * up(v.items, 256), pieces(v)),
        lambda v: {
            "~strip": (4 * v.items * v.columns, 0, 2 if v.cosine else 1),
            "weight": weights(v, v.items, v.columns),
            **({"~gradient": (4 * v.items * v.parts, 0, 1), "bias": weights(v, v.items, 1)} if v.bias else {}),
            "rates": RATES,
            **({"rounded": (0, 2 * v.items * v.columns, 1)} if v.precision == "bfloat16" else {}),
            **({"~inverse": (4 * v.items, 0, 1)} if v.cosine else {}),
        },
        loops=(
            Loop(
                "for (int k = begin + n * lane_id(); k < end; k += 32 * n)",
                lambda v: v.items * v.columns,
                STORED,
                4,
                hops=(0, 1),
                within="update_item",
                through=True,
            ),
            Loop(
                "for (int64_t k = lane_id(); k < columns; k += 32)",
                lambda v: v.items * v.columns * v.cosine,
                ("FFMA", "sum = fmaf(x[k], y[k], sum)", 1),
                16,
                (0, 1),
                within="warp_dot",
            ),
            Loop(
                "for (int64_t p = 1; p < a.bias_parts; p++)",
                lambda v: v.items * (v.parts - 1) * v.bias,
                ("LDG|LD", "sum[0] += a.bias_gradient", 1),
                16,
                (1, 0),
            ),
        ),
        elements=lambda v: v.items * v.columns,
        unused=lambda v: (*rule(v), *cosine(v), "touched_by"),
    ),
    "update_written": Kernel(
        256,
        lambda v: (up(v.items, 1024), 1),
        lambda v: {"~gradient": (4 * v.items * v.parts, 0, 1), "bias": weights(v, v.items, 1), "rates": RATES},
        loops=(
            Loop(
                "for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * n; i < a.count",
                lambda v: v.items,
                ("STG|ST", "write<n>(w.value + at, x.value)", 1),  # a bias has one column
                hops=(1, 1),
            ),
            Loop(
                "for (int64_t p = 1; p < a.parts; p++)",
                lambda v: v.items * (v.parts - 1),
                ("LDG|LD", "read<n>(a.gradient + p * a.pitch + i, part)", 1),
                16,
                (1, 0),
            ),
        ),
        elements=lambda v: v.items,
        unused=lambda v: (*(word for word in rule(v) if word != "update_part<1>("), "update_part<4>("),
    ),
    "output_merge_hidden": Kernel(
        256,
        lambda v: (up(v.rows, 8), pieces(v)),
        lambda v: {
            "~parts": (4 * v.rows * v.columns, 0, 1 + v.cosine),
            "dh": (0, 4 * v.rows * v.columns, 1),
            **({"~h": (4 * v.rows * v.columns + 4 * v.rows, 0, 2)} if v.cosine else {}),
        },
        loops=(
            Loop(
                "for (int k = begin + n * lane_id(); k < end; k += 32 * n)",
                lambda v: v.rows * v.columns * (1 + v.cosine),
                (r"STG\.E\.128", "write<n>(dh, g)", 0.25),
                4,
                (1, 0),
                within="merge_row",
            ),
        ),
        elements=lambda v: v.rows * v.columns,
        unused=lambda v: (*cosine(v), "merge_row<1>(", "read<n>(dh, before)"),
    ),
    "begin_screen": Kernel(
        256,
        lambda v: (up(v.rows, 32), 1),
        lambda v: {
            "hidden": (4 * v.rows * v.columns, 0, 1),
            "~rows": (0, (28 + 16 * v.k) * v.rows + 2 * v.rows * slabs(v.columns), 1),
        },
        elements=lambda v: v.rows * v.columns,
        hops=(3, 4),
    ),
    "screen_32": screening(32, 256, 64),
    "screen_256": screening(256, 512, 32),
    "round_tiles": Kernel(
        256,
        lambda v: (up(v.tiles * 128, 8), 1),
        lambda v: {
            "weight": (4 * v.items * v.columns, 0, 1),
            "~rounded": (0, (2 * slabs(v.columns) + 8) * v.items, 1),
        },
        loops=(
            Loop(
                "for (int k = 4 * lane_id(); k < padded; k += 128)",
                lambda v: v.tiles * 128 * slabs(v.columns),
                (r"STG\.E\.64", "a.weights + slab + k", 0.25),
                8,
                (0, 1),
                within="round_weights",
            ),
        ),
        elements=lambda v: v.items * v.columns,
        unused=lambda v: ("columns ? w[k", "round_weights<uint16_t>("),
        hops=(3, 0),
    ),
    "raise_limit": Kernel(
        256,
        lambda v: (v.rows, 1),
        lambda v: {
            "~candidates": (12 * v.things * v.rows, 12 * v.kept * v.rows, 1),
            "~least": (8 * v.rows * v.k, 8 * v.rows * v.k, 1),
        },
        loops=(
            Loop(
                "for (int step = run / 2; step > 0; step /= 2)",
                lambda v: v.rows * sorting(v.things) * sorted_at_once(v.things),
                worst=lambda v: sorting(v.things),
            ),
        ),
        elements=lambda v: v.rows * v.things,
        unused=lambda v: ("score_of_item", "keep_scored"),
        hops=(10, 0),
    ),
    "refine": Kernel(
        256,
        lambda v: (v.rows, 1),
        lambda v: {"weight": (4 * v.scored * v.columns, 0, 1), "~hidden": (4 * v.rows * v.columns, 0, 1)},
        loops=(
            Loop(
                "for (int from = threadIdx.x % kRankLanes; from < columns; from += kInFlight * kRankLanes)",
                lambda v: v.rows * v.things * v.columns,
                ("DFMA", "sum = fma(double(h[n]), double(w[n]), sum)", 1),
                16,
                (0, 1),
                lambda v: up(v.things, 32) * v.columns / 8,
                within="products",
            ),
        ),
        elements=lambda v: v.rows * v.things * v.columns,
        unused=lambda v: ("square = fma", "square +=", "const double norm", "products_of_halves"),
        hops=(8, 0),
    ),
    "ranked": Kernel(
        256,
        lambda v: (up(v.rows * v.k, 256), 1),
        lambda v: {"~list": (8 * v.rows * v.k, 0, 1), "ids": (0, 8 * v.rows * v.k, 1)},
        elements=lambda v: v.rows * v.k,
    ),
    "tell_well": Kernel(32, lambda v: (1, 1), lambda v: {}),
    "hear_well": Kernel(32, lambda v: (1, 1), lambda v: {}),
    "combine_stats": Kernel(
        256, lambda v: (up(v.rows, 256), 1), lambda v: {"~stats": (8 * v.rows * v.shards, 8 * v.rows, 1)}, hops=(5, 0)
    ),
}


def pieces(v: V) -> int:
    """Into how many pieces a row is cut: kernels/cuda/output.go, pieces."""
    return 1 if v.cosine else up(v.columns, 256)


def replaying_threads(v: V) -> int:
    """Of a block of replay: kernels/cuda/hidden.go."""
    return min(256, up(v.columns, 128) * 32)


def replaying(v: V) -> int:
    """Blocks of replay: as many as there are at the same time."""
    return 1024 // replaying_threads(v) * MULTIPROCESSORS


def logit(v: V) -> int:
    """Bytes of a logit, and of the gradient in its place."""
    return 2 if v.narrow else 4


def of_eight(v: V) -> tuple[str, ...]:
    """Lines for logits of the other type, and for the last items of a tile, which do not fill an eight."""
    own = f"<{'uint16_t' if v.narrow else 'float'}, {str(v.cosine).lower()}"
    others = {f"<{number}, {cosine}" for number in ("uint16_t", "float") for cosine in ("false", "true")} - {own}
    return (*sorted(others), "has(e, n", "item_of(e, n) < e.room", "has(at, n)", "false, items, items}")


def row_strips(v: V) -> int:
    """Strips of rows of output_loss: kernels/cuda/output.go, stripRows."""
    return up(v.rows, v.strip_rows)


def rows_of_strip(items: int, rows: int) -> int:
    """As few rows as there can be without a second wave of blocks, of which a multiprocessor holds three."""
    room = max(1, 3 * MULTIPROCESSORS // up(items, 256))
    return max(32, min(up(rows, room) + 7, 96) // 8 * 8)


def with_targets(v: V) -> float:
    """Which share of the strips of 256 items of a row has targets, if these lie anywhere."""
    return 1 - math.exp(-v.batch.entries / v.rows * 256 / v.all_items)


def sum_of_warps(batch: gpu_cases.Batch, rows: int, size: int) -> float:
    """Trips over all rows by so many entries: each row's last is half empty on average, and the only one of most."""
    return max(rows, batch.entries / size + rows / 2)


def padded(columns: int, precision: str) -> int:
    """Columns as the library's products take them."""
    return up(columns, 8) * 8 if precision == "bfloat16" else up(columns, 4) * 4
