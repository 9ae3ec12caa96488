"""The limits of this machine, measured: multiply-adds on registers, and bandwidth of memory.

    python tests/bench/measure/limits.py

`limits.c` holds the loops; it is compiled when it is first needed. A benchmark measures the limit beside every timing,
because clocks and neighbours of a machine change from one second to the next.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECONDS = 0.06  # of one measurement


@dataclass(frozen=True)
class Loop:
    """A loop on registers: its function, its bit in `available()`, and operations of a round."""

    function: str
    bit: int
    operations: int
    unit: str = "GFLOP/s"


LOOPS = {
    "float32/portable": Loop("fma_portable", 0, 12 * 4 * 2),
    "float32/avx2": Loop("fma_avx2", 1, 12 * 8 * 2),
    "float32/avx512": Loop("fma_avx512", 2, 20 * 16 * 2),
    "bfloat16": Loop("dot_bfloat16", 3, 20 * 16 * 2 * 2),
    "int8": Loop("dot_int8", 4, 10 * 16 * 4 * 2, "Gop/s"),
}
STREAMS = {"read": 4, "update": 8, "triad": 12}  # bytes that are counted for an element


def threads_available() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def last_level_cache() -> int:
    """Bytes of the largest cache, 32 MiB where the system does not tell."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0))
    return max(sizes, default=32 << 20)


class Limits:
    """Measures limits; all results are in billions a second (GFLOP/s, Gop/s, GB/s)."""

    def __init__(self) -> None:
        self._streams: list[tuple[Any, int]] = []

    def peak(self, precision: str = "float32", instruction_set: str = "auto", threads: int | None = None) -> float:
        """Operations on registers, in 1e9 a second; NaN if the CPU does not have these instructions."""
        loop = LOOPS.get(self.loop(precision, instruction_set))
        if loop is None or not library().available() >> loop.bit & 1:
            return float("nan")
        threads = threads or threads_available()
        run = getattr(library(), loop.function)
        outs = [(ctypes.c_float * 16)() for _ in range(threads)]
        rate = _rate(run, lambda rounds: [(rounds, out) for out in outs], 1 << 17, loop.operations * threads)
        return rate / 1e9

    def loop(self, precision: str, instruction_set: str = "auto") -> str:
        """Name of the loop whose rate bounds a kernel of that precision and instruction set."""
        if precision != "float32":
            return precision
        if instruction_set == "auto":
            can = library().available()
            instruction_set = next(s for s, b in (("avx512", 2), ("avx2", 1), ("portable", 0)) if can >> b & 1)
        return f"float32/{instruction_set}"

    def bandwidth(self, stream: str = "read", threads: int | None = None) -> float:
        """GB/s of "read", "update" (in place) or "triad", over memory of eight times the largest cache."""
        threads = threads or threads_available()
        if not self._streams:
            # Each is eight caches large: the two threads may sit on two caches of that size.
            elements = 8 * last_level_cache() // 4
            self._streams = [(library().claim(elements), elements) for _ in range(3)]
            if not all(pointer for pointer, _ in self._streams):
                raise MemoryError("no memory for the measurement of bandwidth")
        (a, elements), (b, _), (c, _) = self._streams
        part = elements // threads // 128 * 128
        run = getattr(library(), f"stream_{stream}")
        sink = (ctypes.c_float * 16)()

        def arguments(rounds: int) -> list[tuple[Any, ...]]:
            starts = [4 * part * t for t in range(threads)]
            if stream == "read":
                return [(a + s, part, rounds, sink) for s in starts]
            if stream == "update":
                return [(a + s, part, rounds) for s in starts]
            return [(a + s, b + s, c + s, part, rounds) for s in starts]

        return _rate(run, arguments, 1, part * threads * STREAMS[stream]) / 1e9

    def rows(self, threads: int | None = None) -> float:
        """GB/s of reading rows of 256 bytes that lie anywhere in 8 MB, and adding them."""
        threads = threads or threads_available()
        elements, sink = 1 << 21, (ctypes.c_float * 16)()
        memory = library().claim(elements)
        if not memory:
            raise MemoryError("no memory for the measurement of rows")
        try:
            run = library().random_rows
            return _rate(run, lambda n: [(memory, elements, n, sink)] * threads, 1 << 16, 256 * threads) / 1e9
        finally:
            library().release(memory, elements)

    def close(self) -> None:
        """Gives the memory back."""
        for pointer, elements in self._streams:
            library().release(pointer, elements)
        self._streams = []


def _rate(run: Any, arguments: Callable[[int], Sequence[tuple[Any, ...]]], rounds: int, work: float) -> float:
    """Work a second with one thread for each tuple of arguments; ctypes lets go of the interpreter lock."""
    while True:
        workers = [threading.Thread(target=run, args=given) for given in arguments(rounds)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        elapsed = time.perf_counter() - start
        if elapsed > SECONDS:
            return rounds * work / elapsed
        rounds = max(2 * rounds, int(1.2 * rounds * SECONDS / elapsed))


@functools.cache
def library() -> Any:
    """The compiled loops."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise SystemExit("the benchmarks need a C compiler, as the build does (CC, or cc on the PATH)")
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "limits.so"
        options = ["-O3", "-march=native", "-mprefer-vector-width=512", "-Wno-psabi", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, str(source), "-o", str(made)], check=True)
        loaded = ctypes.CDLL(str(made))
    for loop in LOOPS.values():
        getattr(loaded, loop.function).argtypes = [ctypes.c_long, ctypes.c_void_p]
    loaded.claim.restype, loaded.claim.argtypes = ctypes.c_void_p, [ctypes.c_long]
    loaded.release.argtypes = [ctypes.c_void_p, ctypes.c_long]
    loaded.stream_read.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
    loaded.random_rows.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
    loaded.stream_update.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    loaded.stream_triad.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_long, ctypes.c_long]
    return loaded


def main() -> None:
    """Prints every limit, on one thread and on all."""
    limits = Limits()
    counts = sorted({1, threads_available()})
    print(f"{'':<18}" + "".join(f"{f'{n} thread' + 's' * (n > 1):>14}" for n in counts))
    for name, loop in LOOPS.items():
        precision, _, instruction_set = name.partition("/")
        rates = [limits.peak(precision, instruction_set or "auto", n) for n in counts]
        print(f"{name:<18}" + "".join(f"{rate:14.0f}" for rate in rates) + f"  {loop.unit}")
    for stream in STREAMS:
        print(f"{stream:<18}" + "".join(f"{limits.bandwidth(stream, n):14.1f}" for n in counts) + "  GB/s")


if __name__ == "__main__":
    main()
