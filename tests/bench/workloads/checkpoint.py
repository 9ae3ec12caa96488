"""Checkpoints and forks of a training on Gowalla: how long they keep the steps waiting."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from measure.lines import Goal, Line

import dsstne
from workloads import gowalla

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(p) a checkpoint and a fork of Gowalla's I-256-I with Adam, 250 MB of weights and state"

STEPS = 12  # of a round; the file is written during these


def lines(bench: Bench) -> Iterator[Line]:
    """The longest step while a file is written, and forks."""
    X = gowalla.load(bench.data, "train")
    if X is None:
        yield Line("longest step while a checkpoint is written", unavailable=gowalla.MISSING)
        return
    model = dsstne.fit(X, hidden=256, epochs=0, progress=False)
    waits, shares, forks = [], [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        dsstne.Trainer(model, X, threads=bench.threads, checkpoints=True) as trainer,
    ):

        def step() -> float:
            begin = time.perf_counter()
            trainer.run(steps=1)
            return time.perf_counter() - begin

        for _ in range(3):
            step()
        for _ in range(bench.repeats(5, 9)):
            usual = statistics.median(step() for _ in range(STEPS))
            begin = time.perf_counter()
            trainer.save(Path(folder) / "run", background=True)
            saving = time.perf_counter() - begin
            during = [step() for _ in range(STEPS)]
            during[0] += saving  # the first of them waits for the copy
            trainer.settle()
            waits.append(max(during) - usual)
            shares.append(100 * (statistics.mean(during) / usual - 1))
            begin = time.perf_counter()
            fork = trainer.fork()
            forks.append(time.perf_counter() - begin)
            fork.close()
            fork.model.close()
    case = "longest step while a checkpoint is written, less the median step"
    yield Line(case, "ms", waits, goal=Goal("value", 100, 20))
    yield Line("time that the steps lose to it", "%", shares, note=f"{STEPS} steps, the copy included")
    yield Line("fork", "ms", forks, goal=Goal("value", 5, 1))
