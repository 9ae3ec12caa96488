"""Growth of resident memory in a training run, after the data are open, against the parts of `Trainer.plan()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure import resident
from measure.alternate import Contestant
from measure.lines import Goal, Line
from measure.synthetic import interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench
    from measure.network import Network

TITLE = "(g) growth of resident memory after the data are open, above the plan's parts"

GOAL = Goal("value", 5, 2)


def lines(bench: Bench) -> Iterator[Line]:
    """DSSTNE's network, and I - 256 - I with a million items (in full)."""
    from workloads import small, softmax, step

    cases: list[tuple[str, Network, int]] = [
        (f"{step.ITEMS:,} - 3 x 1024, momentum", step.NETWORK, step.ITEMS),
        ("2,000 - 64 - 2,000, soft-max, Adam", small.NETWORK, 2_000),
    ]
    if bench.full:
        cases.append(("1,000,000 - 256, soft-max, Adam", softmax.NETWORK, 1_000_000))
    for case, network, items in cases:
        if bench.wants(case):
            yield measured(bench, case, network, items)


def measured(bench: Bench, case: str, network: Network, items: int) -> Line:
    """A few steps in a new process each time."""
    X = interactions(4 * network.batch_size, items, 100)
    found = []
    for _ in range(bench.repeats(1, 3)):
        with Contestant(resident.make, X, network, bench.threads) as contestant:
            found.append(contestant.call("run", 4))
    grown, plan = (max(run[key] for run in found) / 2**20 for key in ("grown", "plan"))
    return Line(
        case,
        "% above",
        [run["above"] for run in found],
        goal=GOAL if plan > 100 else None,  # below that, the runtime's own few megabytes are what one sees
        parameters={
            **vars(network),
            "items": items,
            "grown": [run["grown"] for run in found],
            "plan": found[0]["plan"],
        },
        note=f"grown by {grown:,.0f} MiB at most, plan {plan:,.0f} MiB",
    )
