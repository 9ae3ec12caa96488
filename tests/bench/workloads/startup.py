"""What is paid before the first useful work: import, the smallest call, opening a dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from measure.alternate import take_turns
from measure.lines import Goal, Line
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(h) start-up: import, the smallest call of the C interface, opening 100 million entries"

ROOT = Path(__file__).resolve().parents[3]
IMPORT = """
import time
import numpy, scipy.sparse
begin = time.perf_counter()
import dsstne
dsstne.fit, dsstne.Model, dsstne.Trainer
imported = time.perf_counter()
import dsstne._native
dsstne._native.library()
print(imported - begin, time.perf_counter() - imported)
"""


def lines(bench: Bench) -> Iterator[Line]:
    """Import, calls from C and from Python, a dataset."""
    with tempfile.TemporaryDirectory() as folder:  # of the bytecode, which the first turn writes
        pairs = [started(folder) for _ in range(bench.repeats(5, 15) + 1)][1:]
    yield Line("import dsstne with fit, after numpy, scipy", "ms", [p[0] for p in pairs], goal=Goal("value", 50, 20))
    yield Line("loading the library, at the first call", "ms", [p[1] for p in pairs])
    yield from calls(bench)
    yield opening(bench)


def started(bytecode: str) -> tuple[float, float]:
    """Seconds of the import and of loading the library, in a new interpreter that keeps bytecode in a folder."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    command = [sys.executable, "-c", IMPORT]
    told = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout
    imported, loaded = told.split()
    return float(imported), float(loaded)


def calls(bench: Bench) -> Iterator[Line]:
    """From a C program, and the same through ctypes."""
    from dsstne import _native

    library = _native.library().path
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "abi"
        source = Path(__file__).with_name("abi.c")
        include = ["-I", str(ROOT / "include"), str(source), str(library), f"-Wl,-rpath,{library.parent}"]
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", str(program), *include], check=True)
        told = [
            json.loads(subprocess.run([program, "1000000"], check=True, text=True, stdout=subprocess.PIPE).stdout)
            for _ in range(bench.repeats(3, 9))
        ]
    goal = Goal("value", 1000, 400)
    names = {"abi_version": "dsstne_abi_version", "get_info": "dsstne_dataset_get_info", "refused": "the same, refused"}
    for key, name in names.items():
        values = [entry[key] / 1e9 for entry in told]
        yield Line(f"{name}, from C", "ns", values, goal=goal if key != "refused" else None)
    version = _native.library().functions["abi_version"]
    times = []
    for _ in range(bench.repeats(3, 9)):
        begin = time.perf_counter()
        for _ in range(200_000):
            version()
        times.append((time.perf_counter() - begin) / 200_000)
    yield Line("dsstne_abi_version, from Python through ctypes", "ns", times, note="the loop in Python included")


def opening(bench: Bench) -> Line:
    """Opens a dataset of 100 million entries, which checks all; beside it, the same checks by SciPy and NumPy."""
    import dsstne

    rows, length = 1_000_000, 100
    gap = 10_000
    start = np.random.default_rng(0).integers(0, gap, rows, dtype=np.int32)
    indices = (start[:, None] + np.arange(length, dtype=np.int32) * gap).reshape(-1)
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    X = sparse.csr_array((np.ones(rows * length, np.float32), indices, offsets), shape=(rows, length * gap))

    def ours() -> float:
        begin = time.perf_counter()
        dsstne.Dataset(X).close()
        return time.perf_counter() - begin

    def scipys() -> float:
        begin = time.perf_counter()
        X.check_format(full_check=True)
        assert np.isfinite(X.data).all()
        return time.perf_counter() - begin

    turns = take_turns(ours, scipys, lambda: bench.limits.bandwidth("read", bench.threads), bench.repeats(3, 7))
    return Line(
        "Dataset of 100 M entries (800 MB), opened",
        "ms",
        turns.ours,
        turns.peer,
        "SciPy: check_format(full_check=True), and NumPy: isfinite(values).all()",
        work=(X.indices.nbytes + X.data.nbytes + X.indptr.nbytes) / 1e9,
        limit=turns.limit,
        limit_name=f"bandwidth (read), {bench.threads} threads",
        goal=Goal("ratio", 1, 2),
        parameters={"rows": rows, "entries": X.nnz},
    )
