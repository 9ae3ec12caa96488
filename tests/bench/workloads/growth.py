"""How time grows with items, batch and threads, as an exponent: 1 is linear."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from measure import ours
from measure.alternate import Contestant
from measure.lines import Line, number
from measure.network import Network
from measure.synthetic import interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(i) growth: exponents of seconds a step over items and batch, and what threads bring; I - 64 - I, soft-max"

NETWORK = Network(hidden=(64,), optimizer="sgd", batch_size=256)
ITEMS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def lines(bench: Bench) -> Iterator[Line]:
    """One exponent for each."""
    for threads in sorted({1, bench.threads}):
        if bench.wants(case := f"items {ITEMS[0]:,} to {ITEMS[-1]:,}, threads {threads}"):
            yield exponent(case, ITEMS, [best(bench, NETWORK, items, threads) for items in ITEMS])
        if bench.wants(case := f"batch {BATCHES[0]} to {BATCHES[-1]}, threads {threads}"):
            networks = [replace(NETWORK, batch_size=batch) for batch in BATCHES]
            yield exponent(case, BATCHES, [best(bench, network, 100_000, threads) for network in networks])
    if bench.threads > 1 and bench.wants("threads over one"):
        one, all_ = best(bench, NETWORK, 100_000, 1), best(bench, NETWORK, 100_000, bench.threads)
        yield Line("threads over one, 100,000 items", "times as fast", [one / all_])


def best(bench: Bench, network: Network, items: int, threads: int) -> float:
    """Seconds of a step, the least of some turns."""
    steps = max(1, round(3e11 / network.operations(items)))
    X = interactions(min(steps, 8) * network.batch_size, items, 30)
    with Contestant(ours.make, X, network, threads) as us:
        us.call("run", 2)
        return min(us.call("run", steps) for _ in range(5))


def exponent(case: str, sizes: tuple[int, ...], seconds: list[float]) -> Line:
    """Of the power law that fits best, with those of each pair of neighbours as its range."""
    logs, times = np.log(sizes), np.log(seconds)
    fitted = float(np.polyfit(logs, times, 1)[0])
    steps = [float(x) for x in np.diff(times) / np.diff(logs)]
    told = ", ".join(f"{number(1e3 * t)}" for t in seconds)
    return Line(
        case,
        "exponent",
        [fitted],
        parameters={"sizes": list(sizes), "seconds": seconds, "neighbours": steps},
        note=f"{told} ms; between neighbours {min(steps):.2f} to {max(steps):.2f}",
    )
