"""Two trainings at once in threads of a process: with a CPU thread for every processor each, and with their shares.

    .venv-bench/bin/python tests/bench/measure/together.py

The two ways take turns. Times are those of a step of both trainings.
"""

from __future__ import annotations

import os
import resource
import statistics
import threading
import time

import numpy as np
from scipy import sparse

import dsstne

TURNS = 12
SHAPES = ((2_000, 64, 128, 400), (20_000, 256, 256, 12))  # items, hidden units, batch, steps of a turn


def used() -> tuple[float, int]:
    """Seconds of the processors, and interruptions, of this process so far."""
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime + now.ru_stime, now.ru_nivcsw


def turn(trainers: list[dsstne.Trainer], steps: int) -> tuple[float, float, float]:
    """Milliseconds by the clock and of the processors, and interruptions, for a step of all trainers."""
    runs = [threading.Thread(target=trainer.run, kwargs={"steps": steps}) for trainer in trainers]
    (seconds, interruptions), start = used(), time.perf_counter()
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    wall, after = time.perf_counter() - start, used()
    return 1e3 * wall / steps, 1e3 * (after[0] - seconds) / steps, (after[1] - interruptions) / steps


def main() -> None:
    rows, per_row, processors = 20_000, 40, len(os.sched_getaffinity(0))
    for items, hidden, batch, steps in SHAPES:
        columns = np.random.default_rng(0).integers(0, items, rows * per_row, dtype=np.int32)
        X = sparse.csr_matrix((np.ones(rows * per_row, np.float32), columns, np.arange(0, columns.size + 1, per_row)))
        data = dsstne.Dataset(X)
        untrained = dsstne.fit(data, hidden=[hidden], epochs=0, devices="cpu", progress=False)
        ways = {
            way: [dsstne.Trainer(untrained.copy(), data, batch_size=batch, devices="cpu", threads=n) for _ in range(2)]
            for way, n in ((f"{processors} threads each", processors), ("shares", None))
        }
        turns: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
        for number in range(TURNS + 1):
            for way, trainers in ways.items():
                found = turn(trainers, steps)
                if number > 0:  # the first warms up
                    turns[way].append(found)
        for way, found in turns.items():
            texts = [f"{statistics.median(x):.2f} ({min(x):.2f} to {max(x):.2f})" for x in zip(*found, strict=True)]
            print(
                f"{items:,} - {hidden} - {items:,}, batch {batch}, {way}: wall {texts[0]} ms, CPU {texts[1]} ms, "
                f"interruptions {texts[2]}"
            )


if __name__ == "__main__":
    main()
