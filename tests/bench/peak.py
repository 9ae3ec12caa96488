"""The machine's peak: fused multiply-adds on registers only, on all cores at once.

python tests/bench/peak.py
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# Twenty independent chains hide the latency (4 cycles, 2 units: 8 would do) and leave registers for the factors.
SOURCE = """
typedef float vector __attribute__((vector_size(LANES * 4)));
void run(long rounds, float *out) {
  vector sum[20], a, b;
  for (int i = 0; i < LANES; i++) { a[i] = 0.999f; b[i] = 1e-6f * (i + 1); }
  for (int c = 0; c < 20; c++) sum[c] = b * (float)c;
  for (long r = 0; r < rounds; r++) {
    _Pragma("GCC unroll 20") for (int c = 0; c < 20; c++) sum[c] = sum[c] * a + b;
  }
  for (int c = 0; c < 20; c++) for (int i = 0; i < LANES; i++) out[i] += sum[c][i];
}
"""


def threads_available() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def lanes() -> int:
    """Floats in the widest register of this CPU that has fused multiply-adds."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return 16 if "avx512f" in flags else 8 if "fma" in flags else 4


def peak_gflops(threads: int | None = None, seconds: float = 0.4) -> float | None:
    """GFLOP/s of float32 multiply-adds on all cores; None without a C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    width, threads = lanes(), threads or threads_available()
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "peak.c", Path(folder) / "peak.so"
        source.write_text(SOURCE)
        options = ["-O3", "-ffast-math", "-march=native", f"-DLANES={width}", "-shared", "-fPIC"]
        options += ["-mprefer-vector-width=512"] if width == 16 else []
        subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True)
        run = ctypes.CDLL(str(library)).run  # ctypes lets go of the interpreter lock during a call
        run.argtypes = [ctypes.c_long, ctypes.c_void_p]
    rounds = 1 << 16
    while True:
        outs = [(ctypes.c_float * width)() for _ in range(threads)]
        workers = [threading.Thread(target=run, args=(rounds, out)) for out in outs]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        elapsed = time.perf_counter() - start
        if elapsed > seconds:
            return threads * rounds * 20 * width * 2 / elapsed / 1e9
        rounds *= 2


if __name__ == "__main__":
    print(f"{peak_gflops():.0f} GFLOP/s float32 with {threads_available()} threads, {lanes()} lanes")
