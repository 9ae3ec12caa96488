"""Reading DSSTNE's text data: speed and memory, and a compressed file beside gzip."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.lines import Goal, Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(r) DSSTNE's text data: 20 million entries of 139 thousand samples, the shape of MovieLens 20M"

ENTRIES, SAMPLES = 20_000_000, 138_493
LABELS = {"27 thousand features": 26_744, "5 million features": 5_000_000}

# Reads a text once and says how long it took (seconds of the clock and of the processor), how large the result is with
# its labels, and by how much the process grew at most.
PROGRAM = """
import json, resource, sys, time
import dsstne
dsstne.doctor()
paths, threads = sys.argv[2:], int(sys.argv[1])
used = lambda: resource.getrusage(resource.RUSAGE_SELF)
size = lambda name: 1024 * int(open("/proc/self/status").read().split(name + ":")[1].split()[0])
before, resident = used(), size("VmRSS")
begin = time.perf_counter()
data = dsstne.Dataset.from_text(paths, threads=threads)
seconds, after = time.perf_counter() - begin, used()
names = sum(data._described["arrays"].values())
busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
grown = size("VmHWM") - resident
print(json.dumps([seconds, busy, data.nbytes + names, grown, data.nnz, data.shape[1]]))
"""


def write(path: Path, entries: int, samples: int, features: int, *, times: bool) -> None:
    """Writes the text: popular features first, and every one of them at least once."""
    random = np.random.default_rng(0)
    chosen = (features * random.random(entries) ** 3).astype(np.int64)
    chosen[random.choice(entries, features, replace=False)] = np.arange(features)
    when = random.integers(789_652_009, 1_427_784_002, entries) if times else None
    ends = np.linspace(0, entries, samples + 1).astype(np.int64)
    with path.open("w") as file:
        for sample in range(samples):
            row = slice(ends[sample], ends[sample + 1])
            labels = map(str, chosen[row].tolist())
            if when is not None:
                labels = map(",".join, zip(labels, map(str, when[row].tolist()), strict=True))
            file.write(f"{sample + 1}\t{':'.join(labels)}\n")


def read(path: Path, threads: int) -> Any:
    """Runs the program above."""
    import json

    command = [sys.executable, "-c", PROGRAM, str(threads), str(path)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def lines(bench: Bench) -> Iterator[Line]:
    """Each text on all threads and on one, and the memory beside the result."""
    divisor = 1000 if bench.tiny else 1
    with tempfile.TemporaryDirectory() as folder:
        for case, features in LABELS.items():
            path = Path(folder, "text")
            sizes = ENTRIES // divisor, features // divisor
            write(path, sizes[0], SAMPLES // divisor, sizes[1], times=features < 1_000_000)
            yield from plain_lines(bench, path, case, features, list(sizes))
            if features < 1_000_000:
                yield from compressed_lines(bench, path, case)


def plain_lines(bench: Bench, path: Path, case: str, features: int, sizes: list[int]) -> Iterator[Line]:
    """A text that is not compressed, with a number of entries and features."""
    megabytes = path.stat().st_size / 1e6
    for threads in (bench.threads, 1):
        runs = [read(path, threads) for _ in range(bench.repeats(3, 5))]
        assert all(run[4:] == sizes for run in runs)
        speeds = [", ".join(f"{megabytes / run[n]:.0f}" for run in runs) for n in (0, 1)]
        note = f"{megabytes:.0f} MB; MB/s: {speeds[0]}; MB per second of processor time: {speeds[1]}"
        words, least, aim = f"{case}, {threads} threads", *((100, 300) if features < 1_000_000 else (40, 100))
        goal = Goal("value", megabytes / least, megabytes / aim) if threads > 1 else None
        yield Line(words, "s", [run[0] for run in runs], goal=goal, note=note)
        extra = [(run[3] - run[2]) / 1e6 for run in runs]
        memory = Goal("value", 256, 64) if features > 1_000_000 and threads > 1 else None
        yield Line(f"{words}: peak memory beside matrix and labels", "MB", extra, goal=memory)


def compressed_lines(bench: Bench, path: Path, case: str) -> Iterator[Line]:
    """The same text compressed, beside ``gzip -dc`` on one thread."""
    if not shutil.which("gzip"):
        return
    packed = path.with_suffix(".gz")
    with packed.open("wb") as file:
        subprocess.run(["gzip", "-c", str(path)], check=True, stdout=file)
    ours, peer, busy = [], [], []
    for _ in range(bench.repeats(3, 5)):
        begin = time.perf_counter()
        subprocess.run(["gzip", "-dc", str(packed)], check=True, stdout=subprocess.DEVNULL)
        peer.append(time.perf_counter() - begin)
        run = read(packed, bench.threads)
        ours.append(run[0])
        busy.append(f"{run[1]:.1f}")
    note = f"{packed.stat().st_size / 1e6:.0f} MB compressed; seconds of processor time: {', '.join(busy)}"
    yield Line(f"{case}, gzip", "s", ours, peer, "gzip -dc", goal=Goal("ratio", 0.9, 1), note=note)
