"""How long the CUDA kernels should take on a GPU, from their compiled loops: the tables of docs/gpu-performance.md.

    python scripts/gpu_model.py                              # prints the page
    python scripts/gpu_model.py --json --device H200         # a line of JSON for each case
    python scripts/gpu_model.py --case "softmax 1M" --kernels  # the launches of a case, one by one
    python scripts/gpu_model.py --write [--measured docs/gpu/bench-DEVICE-DATE.json]

The time of a launch is the longest of: the bytes that cross the memory, those that cross the second-level cache, the
instructions at the rate of their units, and the loads and instructions of a thread that follow from each other, wave of
blocks after wave. Instructions are those of the compiled loops (gpu_listing.py); bytes, blocks and elements are the
formulas of gpu_kernels.py, which the emulator confirms, as it does the launches of gpu_steps.py. A step is the sum over
its launches, with a gap after each.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gpu_cases
import gpu_kernels
import gpu_listing
import gpu_steps
from gpu_kernels import KERNELS, Launch, up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gpu-performance.md"

# ---- the constants of the model ----


@dataclass(frozen=True)
class Machine:
    """A GPU. Numbers of the data sheet, unless said otherwise."""

    name: str
    multiprocessors: int
    cache: int  # bytes of the second-level cache, as the driver reports them
    sheet: float  # bytes a second of the memory, by the data sheet
    bandwidth: float  # of copies on the device, measured on such machines: 88 to 92 % of the data sheet's; +-3 %
    cache_bandwidth: float = 5.5e12  # microbenchmarks of sm_90: 5.5 to 6 TB/s; +-10 %
    clock: float = 1.755e9  # base clock with all units busy; up to 1.98e9 in light kernels: +-10 %
    registers: int = 65536  # of a multiprocessor, allocated to warps by 256
    shared: int = 233472  # bytes of a multiprocessor; a block takes 1,024 more than it declares
    threads: int = 2048  # of a multiprocessor
    blocks: int = 32  # of a multiprocessor


MACHINES = {
    "H200": Machine("H200", 132, 60 << 20, 4.8e12, 4.3e12),
    "H100": Machine("H100", 132, 50 << 20, 3.35e12, 3.0e12),
}

NEAR_LATENCY = 0.02e-6  # of a load from the first-level cache: 33 cycles
CACHE_LATENCY = 0.25e-6  # of a load from the second-level cache while others load; 0.15e-6 alone; +-30 %
MEMORY_LATENCY = 0.7e-6  # from memory while others load; 0.6e-6 to 0.8e-6
GAP = 1.3e-6  # from the end of a kernel of a graph to the beginning of the next; 1.0e-6 to 1.5e-6 on sm_90
COPY = 2.0e-6  # a small copy or fill as a node of a graph; +-50 %
DEPENDENT = 2.6  # cycles between two instructions of one warp: 4 where they depend, 1 where not; +-30 %

# Cycles of a quarter of a multiprocessor for an instruction of a warp, by unit. Source: CUDA C++ Programming Guide,
# table of arithmetic throughput, compute capability 9.0: results a clock cycle and multiprocessor, 128, 64 or 16. Loads
# and stores: 128 bytes a cycle and multiprocessor. HMMA: mma.sync comes to 62 % of the wgmma rate on sm_90; +-10 %.
UNITS = (
    ("tensor", 6.5, r"HMMA"),
    ("64-bit", 2, r"DFMA|DADD|DMUL|DSETP|DMNMX"),
    ("special", 8, r"MUFU|F2F\.|F2I|I2F\.|FRND|POPC|FLO|BREV|I2F$"),
    ("load", 16, r"(LD|LDG|ST|STG|LDS|STS)\b.*\.128|LDSM.*\.4"),
    ("load", 8, r"(LD|LDG|ST|STG|LDS|STS)\b.*\.64"),
    ("load", 4, r"LD|LDG|ST|STG|LDS|STS|LDSM|ATOM|ATOMS|ATOMG|RED|REDG|SHFL|LDL|STL|LDGSTS|MATCH"),
    ("multiply", 2, r"IMAD"),
    ("multiply", 1, r"FFMA|FMUL|FADD|HFMA2"),
    (
        "integer",
        2,
        r"IADD3|VIADD|LOP3|SHF|ISETP|FSETP|SEL|FSEL|FMNMX|LEA|PRMT|PLOP3|VIMNMX|IABS|MOV|F2FP|FCHK|I2FP|FSET",
    ),
)

# What a library's product comes to: the share of the data sheet's rate by tile, and what a wave of tiles costs beside
# its arithmetic (loading the first slabs, storing the result). Source: published runs of cuBLAS on sm_90; +-20 %.
TILES = {
    "bfloat16": ((128, 256, 0.72), (128, 128, 0.62), (64, 128, 0.45), (64, 64, 0.30)),
    "float32": ((128, 128, 0.80), (64, 128, 0.70), (64, 64, 0.60)),
}
TILE_OVERHEAD = 2.0e-6
LIBRARY_WORKSPACE = 32 << 20  # kernels/cuda/chunked.go, libraryBytes

# NCCL between 8 GPUs of one board. Source: nccl-tests on such boards: 14 us for small messages in a graph, 360 GB/s of
# bus bandwidth for large ones; +-50 % and +-20 %.
COLLECTIVE, BUS = 14e-6, 360e9


# ---- the time of a launch ----


@dataclass
class Body:
    """A trip of a loop, or what a thread does outside of its loops: cycles by unit, and instructions."""

    units: defaultdict[str, float]
    count: int
    elements: int = 1  # of a trip


@dataclass
class Compiled:
    """A kernel as it is compiled, on the way that the launch takes through it."""

    outside: Body
    loops: list[Body]
    resources: gpu_listing.Resources


def body(instructions: list[gpu_listing.Instruction]) -> Body:
    """Sums up a path."""
    found: defaultdict[str, float] = defaultdict(float, issue=float(len(instructions)))
    for instruction in instructions:
        for unit, cycles, pattern in UNITS:
            if re.match(f"(?:{pattern})(?:\\.|$|\\b)", instruction.opcode):
                found[unit] += cycles
                break
    return Body(found, len(instructions))


@cache
def sources() -> gpu_listing.Sources:
    """The kernels' sources."""
    return gpu_listing.Sources()


def cold_of(unused: tuple[str, ...]) -> Callable[[gpu_listing.Block], bool]:
    """Whether no thread comes to a block: it calls a subroutine, or most of it belongs to what is not used."""
    texts = sources()
    words = [word for word in unused if not word.isidentifier() or word in gpu_kernels.COSINE]
    pattern = re.compile("|".join(map(re.escape, words))) if words else None
    names = {"fail", *unused}

    @cache
    def is_cold(line: gpu_listing.Line) -> bool:
        return texts.of.get(line) in names or bool(pattern and pattern.search(texts.text(line)))

    def cold(block: gpu_listing.Block) -> bool:
        if any(i.opcode.startswith("CALL") for i in block.instructions):
            return True
        known = [i for i in block.instructions if i.lines and not re.match("BRA|BSYNC|BSSY|WARPSYNC|YIELD", i.opcode)]
        return 2 * sum(any(map(is_cold, i.lines)) for i in known) > len(known)

    return cold


def aside(path: list[gpu_listing.Instruction], unused: tuple[str, ...]) -> bool:
    """Whether a trip stands where no thread comes to: in another instance of a template, for example."""
    texts = sources()
    pieces = [word for word in unused if not word.isidentifier()]
    lines = [{texts.text(line) for line in i.lines} for i in path if i.lines]
    cold = sum(any(piece in text for text in around for piece in pieces) for around in lines)
    return 2 * cold > len(lines)


@cache
def compiled(name: str, unused: tuple[str, ...]) -> Compiled:
    """Finds the loops of an entry in the listing."""
    function, entry, texts = gpu_listing.listing()[name], KERNELS[name], sources()
    loops = []
    for loop in entry.loops:
        cold = cold_of((*unused, *loop.unused))
        best = Body(defaultdict(float), 0, 0)
        (opcode, _, each), lines = loop.marker, loop.lines(texts)

        def marked(i: gpu_listing.Instruction, opcode: str = opcode, lines: set[gpu_listing.Line] = lines) -> bool:
            return bool(re.match(f"(?:{opcode})(?:\\.|$)", i.opcode)) and (not lines or bool(lines & set(i.lines)))

        for candidate in function.at(texts.find(loop.at, loop.within)):
            try:
                path = function.path(candidate, cold, marked if loop.through else lambda _: False)
            except gpu_listing.ListingError:
                continue  # a loop of which no trip is whole
            if aside(path, (*unused, *loop.unused)):
                continue
            found = body(path)
            found.elements = round(sum(map(marked, path)) / each) if opcode else 1
            if found.elements > best.elements or (found.elements == best.elements and found.count > best.count):
                best = found
        if best.count == 0:
            raise gpu_listing.ListingError(f"{name} has no loop at {loop.at!r}: change its entry in gpu_kernels.py")
        loops.append(best)
    images = gpu_listing.images()
    return Compiled(body(function.path(None, cold_of(unused))), loops, images["sm_90a"][name])


@dataclass
class Timed:
    """A launch with its time and what bounds it."""

    launch: Launch
    seconds: float  # of one, with the gap
    bound: str
    memory: float = 0.0  # bytes
    cached: float = 0.0
    instructions: float = 0.0  # of threads
    elements: float = 0.0
    resident: float = 0.0  # warps of a multiprocessor
    waves: float = 0.0
    tail: float = 0.0  # what the last wave of blocks costs, beside a time without it
    limits: dict[str, float] = field(default_factory=dict)
    alone: float = 0.0  # seconds, of what is done beside the step before


def resident_blocks(m: Machine, threads: int, taken: gpu_listing.Resources) -> int:
    """How many blocks a multiprocessor holds."""
    warps = up(threads, 32)
    by_registers = m.registers // (up(taken.registers * 32, 256) * 256 * warps)
    by_shared = m.shared // (up(taken.shared, 128) * 128) if taken.shared else m.blocks
    return min(m.blocks, m.threads // (32 * warps), by_registers, by_shared)


def time_of(m: Machine, launch: Launch) -> Timed:
    """The time of a launch."""
    v = launch.v
    if launch.kernel in ("copy", "fill"):
        return Timed(launch, COPY + 2 * v.bytes / m.bandwidth, "launch", 2 * v.bytes)
    if launch.kernel in ("AllReduce", "AllGather"):
        factor = 2 if launch.kernel == "AllReduce" else 1
        return Timed(launch, COLLECTIVE + factor * v.bytes * (v.ranks - 1) / v.ranks / BUS, "exchange", v.bytes)
    if launch.kernel == "product":
        return product(m, launch)
    entry = KERNELS[launch.kernel]
    code = compiled(launch.kernel, entry.unused(v))
    grid = entry.grid(v)
    blocks = grid[0] * grid[1]
    active = min(blocks, entry.active(v)) if entry.active else blocks
    memory = cached = 0.0
    for name, (read, written, times) in entry.streams(v).items():
        cached += read * times + written
        if not (name.startswith("~") and max(read, written) < gpu_cases.RESIDENT * m.cache):
            memory += read + written
    slots: defaultdict[str, float] = defaultdict(float)  # cycles of the units, of all warps
    first = sum_hops(entry.hops)  # later waves find the record in the first-level cache
    later = sum_hops((0, entry.hops[1])) + entry.hops[0] * NEAR_LATENCY
    chain = worst = code.outside.count * DEPENDENT / m.clock
    size = entry.threads(v) if callable(entry.threads) else entry.threads
    threads = active * size
    instructions = float(code.outside.count * threads)
    for unit, cycles in code.outside.units.items():
        slots[unit] += cycles * threads / 32
    for loop, found in zip(entry.loops, code.loops, strict=True):
        elements = loop.elements(v)
        if elements == 0 or found.elements == 0:
            continue
        trips = elements / found.elements
        instructions += trips * found.count
        for unit, cycles in found.units.items():
            slots[unit] += cycles * trips / 32
        trip = found.count * DEPENDENT / m.clock + sum_hops(loop.hops)
        chain += trips / threads * trip
        most = loop.worst(v) if loop.worst else elements / threads
        worst += most / found.elements * trip
    resident = resident_blocks(m, size, replace(code.resources, shared=code.resources.shared + entry.shared(v)))
    waves = active / (resident * m.multiprocessors)
    busiest = up(active, m.multiprocessors) / (active / m.multiprocessors)
    limits = {
        "memory": memory / m.bandwidth,
        "cache": cached / m.cache_bandwidth,
        "instructions": max(slots.values()) / (4 * m.multiprocessors * m.clock) * busiest,
        "latency": (math.ceil(waves) - 1) * (chain + later) + max(chain, worst) + first,
    }
    bound = max(limits, key=lambda name: limits[name])
    warps = min(resident, up(active, m.multiprocessors)) * up(size, 32)
    return Timed(
        launch,
        limits[bound] + GAP,
        "launch" if limits[bound] < GAP else bound,
        memory,
        cached,
        instructions,
        entry.elements(v),
        warps,
        waves,
        (math.ceil(waves) / waves if waves > 1 else busiest) - 1,
        limits,
    )


def sum_hops(hops: tuple[float, float]) -> float:
    """Seconds of loads that wait for each other."""
    return hops[0] * CACHE_LATENCY + hops[1] * MEMORY_LATENCY


def product(m: Machine, launch: Launch) -> Timed:
    """A product of the library: the best of its tiles and of splitting the sums."""
    v = launch.v
    rate = gpu_cases.RATES[v.precision] / m.multiprocessors
    size = 2 if v.precision == "bfloat16" else 4
    moved = size * (v.m * v.k + v.k * v.n) + getattr(v, "result", 4) * v.m * v.n
    best = (math.inf, "")
    for wide, high, share in TILES[v.precision]:
        for split in (1, 2, 4, 8, 16, 32, 64):
            if split > 1 and (split * v.m * v.n * 4 > LIBRARY_WORKSPACE or v.k // split < 64):
                break
            tiles = up(v.m, wide) * up(v.n, high) * split
            waves = up(tiles, m.multiprocessors)
            seconds = waves * 2 * wide * high * v.k / split / (rate * share) + TILE_OVERHEAD
            if split > 1:
                seconds += GAP + 1e-6 + 4 * (split + 1) * v.m * v.n / m.cache_bandwidth
            best = min(best, (seconds, "arithmetic"))
    best = max(best, (moved / m.cache_bandwidth, "cache"))
    memory = float(getattr(v, "memory", 0))  # of a factor that nobody has just written
    best = max(best, (memory / m.bandwidth, "memory"))
    limits = {"memory": memory / m.bandwidth, "cache": moved / m.cache_bandwidth, "tensor": best[0]}
    return Timed(launch, best[0] + GAP, best[1], memory, moved, limits=limits)


# ---- cases ----


@dataclass(frozen=True)
class Case:
    """What `--json` prints a line about."""

    name: str
    precision: str
    network: gpu_cases.Network | None = None
    ranked: tuple[int, int] = (0, 0)

    def launches(self, m: Machine, ranks: int = 1) -> list[Launch]:
        """The graph."""
        if self.network:
            return gpu_steps.step(self.network, self.precision, m.cache, ranks)
        return self.ranking(held=True)

    def ranking(self, held: bool) -> list[Launch]:
        """The launches of a ranking; held: a predictor holds rounded weights."""
        rows, k, seen = gpu_cases.RANKED_ROWS, gpu_cases.RANKED_K, gpu_cases.RANKED_SEEN
        return gpu_steps.ranking(*self.ranked, rows, k, seen, held)

    def roofline(self, m: Machine) -> dict[str, float]:
        """Seconds at the limits of the data sheet, by part."""
        rate = gpu_cases.RATES[self.precision]
        if self.network:
            return {op.name: gpu_cases.least(op.flops, op.bytes, rate, m.sheet)[0] for op in self.network.ops()}
        items, units = self.ranked
        flops = 2.0 * gpu_cases.RANKED_ROWS * items * units
        return {"TopK": gpu_cases.least(flops, 4.0 * items * units, rate, m.sheet)[0]}


STEP, SMALL, MILLION, TEN_MILLION = gpu_cases.NETWORKS
CASES = [
    Case("step bfloat16", "bfloat16", STEP),
    Case("step float32", "float32", STEP),
    Case("softmax 41k bfloat16", "bfloat16", SMALL),
    Case("softmax 1M bfloat16", "bfloat16", MILLION),
    Case("softmax 10M bfloat16", "bfloat16", TEN_MILLION),
    Case("softmax 41k cosine bfloat16", "bfloat16", replace(SMALL, title=f"{SMALL.title}, cosine logits", cosine=True)),
    *(
        Case(f"top-10 {name}", "bfloat16", ranked=shape)
        for name, shape in zip(("27k", "1M", "10M"), gpu_cases.RANKED, strict=True)
    ),
]


def seconds_of(timed: Sequence[Timed]) -> float:
    """Of all launches."""
    return sum(t.seconds * t.launch.count for t in timed)


def timed(case: Case, m: Machine, ranks: int = 1) -> list[Timed]:
    """The launches of a case with their times."""
    return early([time_of(m, launch) for launch in case.launches(m, ranks)])


def early(found: list[Timed]) -> list[Timed]:
    """Counts of what is done beside the step before only what lasts longer than a step."""
    ahead, step = (seconds_of([t for t in found if t.launch.early is early]) for early in (True, False))
    for t in found:
        if t.launch.early:
            t.alone, t.seconds = t.seconds, t.seconds * max(0.0, ahead - step) / ahead
    return found


def answer(case: Case, m: Machine) -> dict[str, Any]:
    """A line of `--json`."""
    found = timed(case, m)
    return {
        "case": case.name,
        "ms": round(1e3 * seconds_of(found), 4),
        "launches": sum(t.launch.count for t in found if not t.launch.early),
        "roofline_ms": round(1e3 * sum(case.roofline(m).values()), 4),
    }


# ---- compiled PyTorch, from below ----


def torch_step(n: gpu_cases.Network, precision: str, m: Machine) -> list[tuple[str, float]]:
    """At least what a compiled step takes: all bytes at full bandwidth, products at the rates above, its launches."""
    narrow = precision == "bfloat16"
    size, rows, items, last = (2 if narrow else 4), n.rows, n.items, n.hidden[-1]
    pairs = [*zip(n.hidden, n.hidden[1:], strict=False), (last, items)]
    dense = sum(a * b for a, b in pairs)
    every = dense + items * n.hidden[0]
    products = []
    for inputs, units in pairs:
        shapes = ((units, rows, inputs), (inputs, rows, units), (inputs, units, rows))
        products += [gpu_kernels.Launch("", "product", Product(*shape, precision)) for shape in shapes]
    moved = [
        ("weights are cast", 6 * dense if narrow else 0),
        ("embedding_bag and its gradient", 4 * n.hidden[0] * (n.input.distinct + 2 * rows + items + n.input.entries)),
        ("logits, loss and gradients", size * rows * items * 3),
        ("gradients of weights are widened", 6 * dense if narrow else 0),
        ("optimizer", every * 4 * (2 + n.states + 1 + n.states)),
    ]
    found = [(name, byte / m.bandwidth) for name, byte in moved if byte]
    found.append(("products", sum(product(m, launch).seconds for launch in products)))
    found.append(("launches", GAP * (12 + 6 * len(pairs))))
    return found


@dataclass
class Product:
    """The numbers of a product's launch."""

    m: int
    n: int
    k: int
    precision: str


def torch_ranking(items: int, units: int, m: Machine) -> list[tuple[str, float]]:
    """A product in float32, since lists have to be exact, and `topk`, which reads the scores at least twice."""
    rows = gpu_cases.RANKED_ROWS
    launch = gpu_kernels.Launch("", "product", Product(items, rows, units, "float32"))
    return [
        ("product", max(product(m, launch).seconds, 4 * items * units / m.bandwidth)),
        ("topk", 2 * 4 * rows * items / m.bandwidth),
        ("launches", 6 * GAP),
    ]


def torch(case: Case, m: Machine) -> float:
    """Seconds."""
    parts = torch_step(case.network, case.precision, m) if case.network else torch_ranking(*case.ranked, m)
    return sum(seconds for _, seconds in parts)


# ---- the page ----


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


def time(seconds: float) -> str:
    """In the unit that suits."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def amount(number: float) -> str:
    """Three digits or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def row(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def share(least: float, seconds: float) -> str:
    """In percent."""
    return f"{100 * least / seconds:.0f} %" if least and seconds else ""


def title_of(case: Case) -> str:
    """As the reports of `make gpu-bench` name it."""
    items, units = case.ranked
    return case.network.title if case.network else f"{items:,} items, {units} units"


def table(case: Case, m: Machine, measured: Measured) -> list[str]:
    """The parts of a case."""
    found, roofline = timed(case, m), case.roofline(m)
    parts = list(dict.fromkeys(t.launch.part for t in found))
    lines = [
        row("part", "launches", "MB of memory", "MB of cache", "time", "bound by", "share of the roofline", "measured")
    ]
    lines.append("|---" * 8 + "|")
    for part in parts:
        own = [t for t in found if t.launch.part == part]
        seconds = seconds_of(own)
        by: defaultdict[str, float] = defaultdict(float)
        for t in own:
            by[t.bound] += t.seconds * t.launch.count
        memory, cached = (sum(x * t.launch.count for t, x in zip(own, sizes, strict=True)) / 1e6
                          for sizes in ([t.memory for t in own], [t.cached for t in own]))  # fmt: skip
        count, alone = sum(t.launch.count for t in own), sum(t.launch.count * t.alone for t in own)
        taken = f"({time(alone)})" if alone else time(seconds)
        lines.append(row(part, f"{count:,}", amount(memory), amount(cached), taken, max(by, key=by.__getitem__),
                         share(roofline.get(part, 0.0), seconds), measured.cell(title_of(case), part)))  # fmt: skip
    total, least = seconds_of(found), sum(roofline.values())
    memory, cached = (
        sum(t.memory * t.launch.count for t in found) / 1e6,
        sum(t.cached * t.launch.count for t in found) / 1e6,
    )
    count = sum(t.launch.count for t in found if not t.launch.early)
    lines.append(row("**in all**", f"{count:,}", amount(memory), amount(cached), time(total), "", share(least, total),
                     measured.cell(title_of(case), "a step")))  # fmt: skip
    return lines


def kernels(case: Case, m: Machine) -> list[str]:
    """The kernels of a case, the most expensive first."""
    found = timed(case, m)
    total = seconds_of(found)
    lines = [
        row("part", "kernel", "launches", "us each", "share", "bound by", "instructions per element", "warps", "waves")
    ]
    lines.append("|---" * 9 + "|")
    groups: dict[tuple[str, str], list[Timed]] = {}
    for t in found:
        groups.setdefault((t.launch.part, t.launch.kernel), []).append(t)
    for (part, kernel), own in sorted(groups.items(), key=lambda item: -seconds_of(item[1])):
        count, seconds, first = (
            sum(t.launch.count for t in own),
            seconds_of(own),
            max(own, key=lambda t: t.seconds * t.launch.count),
        )
        each = f"{first.instructions / first.elements:.0f}" if first.elements else ""
        cells = [f"{count:,}", f"{seconds / count * 1e6:.1f}", f"{seconds / total:.1%}", first.bound, each]
        cells += [f"{first.resident:.0f}", f"{first.waves:.2g}"] if first.resident else ["", ""]
        lines.append(row(part, kernel, *cells))
    return lines


ABOUT = """\
`scripts/gpu_model.py --write` makes this page; `--measured` fills the last column.
**{what}**

The model takes each launch of a step as the code in this repository makes it, and computes the longest of four times:
the bytes that cross the memory, those that cross the second-level cache, the instructions, and the loads and
instructions of a thread that follow from each other. Instructions are counted in the compiled loops. The constants
stand in the script, with their sources and errors. Expect errors of 30 %.

- {device}: {sms} multiprocessors at {clock:.3g} GHz; memory {bandwidth:.2g} TB/s; second-level cache
  {cache_bandwidth:.2g} TB/s. A load takes {cache_latency:.2g} us from the cache, {memory_latency:.2g} us from memory.
- From one kernel of a graph to the next pass {gap:.2g} us.
- Batches are made beside the step before, by launches that are not part of the step's graph; their time stands in
  parentheses. The statistics of a chunk of items, and updates, run in a second branch of the graph, beside the next
  chunk's kernels. They are counted as if all ran one after the other: on an H200 a step took 732 us in which the
  kernels, each alone, take 720 us. Two kernels of this size do not fit on the card at once.
- The roofline is that of the data sheet: {limits};
  memory {sheet} TB/s; at least {launch:.0f} us for an operation. Its bytes are those that must pass through memory:
  weights, optimizer states and rows of the batch, once; W twice with soft-max, since the statistics come first.
- Logits that are kept for the step after the statistics go through memory, if they take more than {resident:.0%} of the
  cache."""


def page(measured: Measured, m: Machine = MACHINES["H200"]) -> str:
    """The whole page."""
    what = "Everything on this page is computed; nothing was measured."
    if measured.where:
        what = f"Everything is computed except the last column, which `make gpu-bench` measured on {measured.where}."
    limits = ", ".join(f"{name} {rate / 1e12:.0f} TFLOP/s" for name, rate in gpu_cases.RATES.items())
    parts = [
        f"# What the kernels should take on an {m.name}: a model",
        ABOUT.format(
            what=what,
            device=m.name,
            sms=m.multiprocessors,
            clock=m.clock / 1e9,
            bandwidth=m.bandwidth / 1e12,
            cache_bandwidth=m.cache_bandwidth / 1e12,
            cache_latency=CACHE_LATENCY * 1e6,
            limits=limits,
            memory_latency=MEMORY_LATENCY * 1e6,
            gap=GAP * 1e6,
            sheet=m.sheet / 1e12,
            launch=gpu_cases.LAUNCH * 1e6,
            resident=gpu_cases.RESIDENT,
        ),
        "## In short",
        summary(m),
    ]
    for case in CASES:
        parts += [f"## {case.name}: {title_of(case)}", "\n".join(table(case, m, measured))]
        parts += ["The most expensive kernels:", "\n".join(kernels(case, m)[:9])]
    parts += ["## Eight GPUs beside one", eight(m)]
    return "\n\n".join(parts) + "\n"


def floor(case: Case, m: Machine) -> float:
    """Seconds that no kernels can undercut: each operation at the best rate of a product here, and at the bandwidth."""
    rate = gpu_cases.RATES[case.precision] * TILES[case.precision][0][2]
    if case.network:
        return sum(max(op.flops / rate, op.bytes / m.bandwidth) for op in case.network.ops())
    items, units = case.ranked
    return max(2.0 * gpu_cases.RANKED_ROWS * items * units / rate, 4.0 * items * units / m.bandwidth)


def summary(m: Machine) -> str:
    """All cases, beside compiled PyTorch from below."""
    names = "case,model,launches,roofline,share,compiled PyTorch at least,ratio,aim,floor,floor of the aim"
    lines = [row(*names.split(",")), "|---" * 10 + "|"]
    impossible = []
    for case in CASES:
        found = answer(case, m)
        ours, least, theirs = found["ms"] / 1e3, found["roofline_ms"] / 1e3, torch(case, m)
        times = 2 if case.network else 4
        aim, lowest = theirs / times, floor(case, m)
        cells = [case.name, time(ours), f"{found['launches']:,}", time(least), share(least, ours), time(theirs)]
        lines.append(row(*cells, f"{theirs / ours:.2f}", f"{times} x: {time(aim)}", time(lowest), share(lowest, aim)))
        if lowest > aim:
            parts = torch_step(case.network, case.precision, m) if case.network else torch_ranking(*case.ranked, m)
            terms = " + ".join(f"{time(seconds)} ({name})" for name, seconds in parts)
            impossible.append(
                f"**{times} x is not possible for {case.name}**: PyTorch takes {terms} = {time(theirs)}, so the aim is "
                f"{time(aim)}; the operations of ours alone take {time(lowest)} at the rate of the same products."
            )
    return "\n".join(lines) + "\n" + "\n\n".join([SUMMARY.format(memory_of_torch(), first_rankings()), *impossible])


SUMMARY = """
"Compiled PyTorch at least" is a lower bound of its time: its optimizer goes over all weights, its logits and gradients
pass through memory, all at full bandwidth; its products take what ours take; its launches are those of a CUDA graph.
The lists of a ranking have to be exact, so its product is in float32. At 10M its step needs {:.0f} GB of memory. The
floor is the time of all operations at the best rate of a library's product and at the measured bandwidth: an aim that
is near it, or below, is out of reach.

Rankings are those of a predictor that holds W in bfloat16. Rankings that round W as they go, as the first three of a
predictor do, take {}."""


def first_rankings() -> str:
    """The times of rankings for which nobody holds rounded weights."""
    m = MACHINES["H200"]
    ranked = [[time_of(m, launch) for launch in case.ranking(held=False)] for case in CASES if not case.network]
    return "{}, {} and {}".format(*(time(seconds_of(found)) for found in ranked))


def memory_of_torch(n: gpu_cases.Network = TEN_MILLION) -> float:
    """Gigabytes of weights, gradients and states, and of the logits in bfloat16 three times."""
    return (2 * n.items * n.hidden[0] * 4 * (2 + n.states) + 3 * 2 * n.rows * n.items) / 1e9


def eight(m: Machine, ranks: int = 8) -> str:
    """Steps on several GPUs that have a part of the items each, with collectives over NVLink."""
    lines = [
        row("case", "one GPU", "eight GPUs", "of that exchange", "faster by", "launches of a rank"),
        "|---" * 6 + "|",
    ]
    for case in (CASES[0], CASES[3], CASES[4]):
        one, many = seconds_of(timed(case, m)), timed(case, m, ranks)
        exchange = sum(t.seconds for t in many if t.bound == "exchange")
        count = sum(t.launch.count for t in many)
        seconds = seconds_of(many)
        lines.append(row(case.name, time(one), time(seconds), time(exchange), f"{one / seconds:.2g}", f"{count:,}"))
    return "\n".join([*lines, "", most_of_eight(CASES[0], m, ranks)])


def most_of_eight(case: Case, m: Machine, ranks: int) -> str:
    """How much faster a step could be if what is divided among the GPUs took its share of the time, and no more."""
    divided = {"Replay", "Gather", "OutputStats", "OutputStep", "Scatter"}
    one, many = timed(case, m), timed(case, m, ranks)
    exchange = [t for t in many if t.bound == "exchange" or t.launch.kernel.endswith("_well")]
    whole = [t for t in many if t not in exchange and t.launch.part not in divided]
    share = seconds_of([t for t in one if t.launch.part in divided]) / ranks
    parts = (seconds_of(exchange), seconds_of(whole), share)
    return (
        "{}: {} (exchanges) + {} (hidden layers, which every GPU computes, and the record) + {} (its share of the "
        "rest) = {}, so {} GPUs cannot be more than {:.2f} x as fast as one, unless they divide the hidden layers."
    ).format(case.name, *map(time, parts), time(sum(parts)), ranks, seconds_of(one) / sum(parts))


def main() -> int:
    """Prints or writes the page, lines of JSON, or the kernels of a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="H200", choices=sorted(MACHINES))
    parser.add_argument("--json", action="store_true", help="a line for each case")
    parser.add_argument("--case", default="", metavar="WORDS", help="only the cases whose name holds them")
    parser.add_argument("--kernels", action="store_true", help="the kernels of the cases, most expensive first")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name} instead of printing it")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="a JSON report of `make gpu-bench`")
    args = parser.parse_args()
    machine = MACHINES[args.device]
    cases = [case for case in CASES if args.case in case.name]
    try:
        if args.json:
            for case in cases:
                print(json.dumps(answer(case, machine)), flush=True)
        elif args.kernels or args.case:
            for case in cases:
                print(
                    "\n".join([f"## {case.name}", *table(case, machine, Measured()), "", *kernels(case, machine), ""])
                )
        else:
            text = page(read(args.measured) if args.measured else Measured(), machine)
            if args.write:
                PAGE.write_text(text)
            else:
                sys.stdout.write(text)
    except gpu_listing.ListingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
