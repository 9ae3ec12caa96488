"""Small models, as a hyperparameter search trains them: the time of a step and of a whole fit."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from measure.lines import Goal, Line
from measure.network import Network
from measure.synthetic import interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "small models: a step of 2,000 - 64 - 2,000, batch 128, and what a run costs beside its steps"

NETWORK = Network(hidden=(64,), batch_size=128)
GOAL = Goal("ratio", 3, 5)


def lines(bench: Bench) -> Iterator[Line]:
    """The default network in small, sigmoid with momentum, and a whole fit of a tiny model."""
    X = interactions(128 * 100, 2_000, 40)
    yield bench.network_race("soft-max, Adam", NETWORK, X, 300, goal=GOAL, unit="us")
    if bench.full:
        sigmoid = Network(hidden=(64,), batch_size=128, loss="sigmoid", optimizer="momentum", learning_rate=1e-3)
        yield bench.network_race("sigmoid, momentum", sigmoid, X, 300, goal=GOAL, unit="us")
    yield search(bench)


def search(bench: Bench) -> Line:
    """Seconds of a fit of one epoch with 8 steps, on data that stay open, as in a search."""
    import dsstne

    X = interactions(1_024, 1_000, 20)
    times: list[float] = []
    with dsstne.Dataset(X) as data:
        for _ in range(10 * bench.repeats()):
            begin = time.perf_counter()
            dsstne.fit(data, hidden=16, epochs=1, batch_size=128, progress=False, devices="cpu")
            times.append(time.perf_counter() - begin)
    best = sorted(times)
    middle = [statistics.median(times), best[len(best) // 10], best[-len(best) // 10]]
    return Line(
        "a whole fit: 1,000 - 16 - 1,000, 8 steps",
        "ms",
        middle,
        parameters={"rows": 1_024, "items": 1_000, "hidden": 16, "steps": 8, "fits": len(times)},
        note="median, first and last decile",
    )
