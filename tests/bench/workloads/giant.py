"""8,000,000 - 256 - 8,000,000 in float32, 8 GB a weight matrix, on a machine of 24 GiB without a GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.alternate import Contestant, UnavailableError
from measure.lines import Goal, Line
from measure.resident import forget_most, resident
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(j) 8,000,000 - 256 - 8,000,000, float32, sigmoid, batch 256: trains and recommends"

ITEMS, UNITS, BATCH, LENGTH = 8_000_000, 256, 256, 100
CASES = {"untied, SGD": (False, "sgd"), "tied, momentum": (True, "momentum")}


def lines(bench: Bench) -> Iterator[Line]:
    """Both ways to have two arrays of 8 GB."""
    bench.limits.close()
    for case, (tied, optimizer) in CASES.items():
        if not bench.wants(case):
            continue
        try:
            with Contestant(make, tied, optimizer, bench.threads) as giant:
                yield from measured(bench, case, giant)
        except UnavailableError as error:
            yield Line(case, unavailable=str(error))


def measured(bench: Bench, case: str, giant: Contestant) -> Iterator[Line]:
    """Seconds of a step, memory, and recommendations."""
    created = giant.call("create")
    limit = bench.peak()
    seconds, limits = [], []
    for _ in range(bench.repeats(2, 3) + 1):
        before = limit()
        seconds.append(giant.call("step"))
        limits.append(max(before, limit()))
    shape: dict[str, Any] = {"items": ITEMS, "units": UNITS, "batch": BATCH, "created": created}
    yield Line(
        f"{case}: a step",
        "s",
        seconds[1:],
        work=6 * BATCH * UNITS * ITEMS / 1e9,
        limit=limits[1:],
        limit_name=bench.peak_name(),
        parameters={**shape, "first_step": seconds[0]},
        note=f"weights made in {created:.0f} s, first step {seconds[0]:.1f} s",
    )
    grown, plan = giant.call("memory")
    yield Line(
        f"{case}: growth of resident memory",
        "% above",
        [100 * (grown / plan - 1)],
        goal=Goal("value", 5, 2),
        parameters={**shape, "grown": grown, "plan": plan},
        note=f"grown by {grown / 2**30:.2f} GiB at most, plan {plan / 2**30:.2f} GiB",
    )
    taken = [giant.call("recommend", BATCH) for _ in range(2)]
    precision = "int8" if bench.limits.peak("int8") > 0 else "float32"  # the widest that screening could use
    yield Line(
        f"{case}: top-10 for {BATCH} rows",
        "s",
        taken[1:],
        work=2 * BATCH * UNITS * ITEMS / 1e9,
        limit=[bench.limits.peak(precision)],
        limit_name=bench.peak_name(precision),
        parameters=shape,
    )


class Giant:
    """The network with synthetic rows: as many as a few steps need."""

    def __init__(self, tied: bool, optimizer: str, threads: int) -> None:
        import dsstne

        self.tied, self.optimizer, self.threads = tied, optimizer, threads
        random = np.random.default_rng(0)
        rows = 4 * BATCH
        start = random.integers(0, ITEMS // LENGTH, rows, dtype=np.int64)
        indices = start[:, None] + np.arange(LENGTH) * (ITEMS // LENGTH)
        offsets = np.arange(rows + 1) * LENGTH
        ones = np.ones(rows * LENGTH, np.float32)
        X = sparse.csr_array(
            (ones, indices.reshape(-1).astype(np.int32), offsets.astype(np.int32)), shape=(rows, ITEMS)
        )
        needed = 2 * 4 * ITEMS * (UNITS + 2) + (1 << 30)
        available = _available()
        if available < needed:
            need, have = needed / 2**30, available / 2**30
            raise UnavailableError(f"it needs {need:.1f} GiB of free memory, and {have:.1f} are there")
        self.data = dsstne.Dataset(X)
        forget_most()
        self.before = resident()

    def create(self) -> float:
        """Seconds until the model and its trainer are there."""
        import dsstne

        begin = time.perf_counter()
        layers = [
            {"name": "input", "kind": "input", "size": ITEMS},
            {"name": "hidden", "kind": "hidden", "size": UNITS, "activation": "tanh"},
            {"name": "output", "kind": "output", "size": ITEMS, **({"shared": "hidden.weight"} if self.tied else {})},
        ]
        self.model = dsstne.Model({"layers": layers, "loss": "sigmoid"})
        self.trainer = dsstne.Trainer(
            self.model,
            self.data,
            optimizer=self.optimizer,
            learning_rate=1e-5,
            batch_size=BATCH,
            devices="cpu",
            threads=self.threads,
        )
        return time.perf_counter() - begin

    def step(self) -> float:
        """Seconds of a step; the catching up of lazy rows at the end of a run is spread over two steps here."""
        return self.trainer.run(steps=2).seconds / 2

    def memory(self) -> tuple[int, int]:
        """Growth at its highest, and the plan without the data."""
        plan = sum(part["bytes"] for part in self.trainer.plan()["parts"] if part["name"] != "data")
        return resident("VmHWM") - self.before, plan

    def recommend(self, rows: int) -> float:
        """Seconds of a call, after the trainer is closed."""
        self.trainer.close()
        begin = time.perf_counter()
        ids, _ = self.model.recommend(self.data, k=10, rows=np.arange(rows), devices="cpu", threads=self.threads)
        assert (ids >= 0).all()
        return time.perf_counter() - begin


def _available() -> int:
    return int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) << 10


def make(*arguments: Any) -> Giant:
    """For `alternate.Contestant`."""
    return Giant(*arguments)
