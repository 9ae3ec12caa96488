"""Several virtual devices of the CPU beside the CPU as one: what sharding the items costs where it can gain nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure import ours
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from measure.synthetic import interactions

from workloads import softmax, step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench
    from measure.network import Network

TITLE = "several virtual devices beside one; data like MovieLens-20M's"

GOAL = Goal("ratio", 0.9, 1.0)


def lines(bench: Bench) -> Iterator[Line]:
    """The benchmark network, whose dense layers every device computes, and one whose only weights face items."""
    for name, network, items, length in (
        ("3 x 1024 sigmoid", step.NETWORK, step.ITEMS, step.MEAN_LENGTH),
        ("256 soft-max", softmax.NETWORK, 40_981, 27),
    ):
        for devices in ("cpu:2", "cpu:4"):
            case = f"{items:,} - {name} - {items:,}, {devices}"
            if bench.wants(case):
                yield race(bench, case, network, items, length, devices)


def race(bench: Bench, case: str, network: Network, items: int, length: int, devices: str) -> Line:
    """Steps on several devices in turns with steps on one. The goal is for as many devices as there are threads."""
    steps = 4
    X = interactions(steps * network.batch_size, items, length)
    limit = bench.peak(network.precision)
    with (
        Contestant(ours.make, X, network, bench.threads, devices) as several,
        Contestant(ours.make, X, network, bench.threads) as one,
    ):
        turns = take_turns(lambda: several.call("run", steps), lambda: one.call("run", steps), limit, bench.repeats())
    return Line(
        case,
        "ms",
        turns.ours,
        turns.peer,
        'dsstne, devices="cpu"',
        work=network.operations(items) / 1e9,
        limit=turns.limit,
        limit_name=bench.peak_name(network.precision),
        goal=GOAL if devices == f"cpu:{bench.threads}" else None,
        parameters={**vars(network), "rows": X.shape[0], "items": items, "entries": X.nnz, "steps": steps},
    )
