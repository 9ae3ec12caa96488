"""Opening a dataset of 4 GB and reading its first batch, beside pyarrow; and what else such a file costs."""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.lines import Goal, Line
from scipy import sparse

import dsstne

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench
    from numpy.typing import NDArray

TITLE = "(q) a saved dataset of 4 GB: 5 million rows of 100 entries"

ROWS, EACH, WIDTH, BATCH = 5_000_000, 100, 100_000, 512


def matrix() -> Any:
    """Rows of one item from each hundredth of the items."""
    random, base = np.random.default_rng(0), 50_000
    step = WIDTH // EACH
    part = random.integers(0, step, (base, EACH), dtype=np.int32) + np.arange(EACH, dtype=np.int32) * step
    X = sparse.csr_array((ROWS, WIDTH), dtype=bool)
    X.indptr, X.indices = np.arange(ROWS + 1, dtype=np.int32) * EACH, np.tile(part.ravel(), ROWS // base)
    X.data = np.ones(ROWS * EACH, bool)
    return X


def lines(bench: Bench) -> Iterator[Line]:
    """Opening, the first batch, saving."""
    model = dsstne.fit(
        sparse.csr_array(([True], ([0], [0])), shape=(1, WIDTH)),
        hidden=8,
        epochs=0,
        progress=False,
        threads=bench.threads,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.arrow"
        with dsstne.Dataset(matrix()) as data:
            begin = time.perf_counter()
            data.save(path)
            saving = time.perf_counter() - begin
        opens, ours, again, peer = [], [], [], []
        random = np.random.default_rng(1)
        model.predict(sparse.csr_array((1, WIDTH), dtype=bool), "hidden1", threads=bench.threads)  # starts the threads
        for _ in range(bench.repeats(7, 15)):
            rows = random.choice(ROWS, BATCH, replace=False)
            begin = time.perf_counter()
            with dsstne.Dataset.open(path) as data:
                opens.append(time.perf_counter() - begin)
                model.predict(data, "hidden1", rows=rows, threads=bench.threads)
                ours.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                model.predict(data, "hidden1", rows=rows, threads=bench.threads)
                again.append(time.perf_counter() - begin)
            if find_spec("pyarrow"):
                peer.append(pyarrow_batch(path, rows))
        case = f"open, and the first {BATCH} random rows through a hidden layer of 8"
        note = "pyarrow: memory_map, open_file, read_all, take of the rows; it checks nothing"
        yield Line(case, "ms", ours, peer, "pyarrow", goal=Goal("value", 50, 10), note=note)
        yield Line("open alone", "ms", opens)
        yield Line("the same rows again", "ms", again)
        yield Line("save", "s", [saving], note=f"{path.stat().st_size / 1e9:.2f} GB")


def pyarrow_batch(path: Path, rows: NDArray[np.int64]) -> float:
    """Seconds in which pyarrow opens the file and copies the rows out."""
    import pyarrow
    import pyarrow.ipc

    begin = time.perf_counter()
    with pyarrow.memory_map(str(path)) as file:
        pyarrow.ipc.open_file(file).read_all()["items"].take(pyarrow.array(np.sort(rows)))
        return time.perf_counter() - begin
