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
    yield whole_fit(bench, rows=1_024, items=1_000, row_length=20)
    yield whole_fit(bench, rows=128, items=10, row_length=3, goal=Goal("value", 2, 1))


def whole_fit(bench: Bench, rows: int, items: int, row_length: int, goal: Goal | None = None) -> Line:
    """Seconds of a fit of one epoch, on data that stay open, as in a search; a tiny model has the fixed costs alone."""
    import dsstne

    X = interactions(rows, items, row_length)
    times: list[float] = []
    with dsstne.Dataset(X) as data:
        for _ in range(10 * bench.repeats()):
            begin = time.perf_counter()
            dsstne.fit(data, hidden=16, epochs=1, batch_size=128, progress=False, devices="cpu")
            times.append(time.perf_counter() - begin)
    times.sort()
    steps = rows // 128
    return Line(
        f"a whole fit: {items:,} - 16 - {items:,}, {steps} step{'s' * (steps > 1)}",
        "ms",
        [statistics.median(times), times[len(times) // 10], times[-len(times) // 10]],
        goal=goal,
        parameters={"rows": rows, "items": items, "hidden": 16, "steps": steps, "fits": len(times)},
        note="median, first and last decile",
    )
