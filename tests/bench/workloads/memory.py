"""Growth of resident memory in trainings, solvers and rankings, after the data are open, against the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure import resident
from measure.alternate import Contestant
from measure.lines import Goal, Line
from measure.synthetic import interactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from measure.bench import Bench
    from measure.network import Network

TITLE = "(g) growth of resident memory after the data are open, above the plan's parts"

GOAL = Goal("value", 5, 2)
LEAST = 100 << 20  # bytes of a plan with a goal: below, the runtime's own few megabytes are what one sees

# Functions that solve, with their options; those of the second list take longer.
SOLVERS: list[tuple[str, dict[str, Any]]] = [
    ("item_knn", {}),
    ("linear", {"method": "operator"}),
    ("spectral", {"rank": 448}),
    ("factorize", {"factors": 256}),
]
MORE: list[tuple[str, dict[str, Any]]] = [
    ("rp3beta", {}),
    ("linear", {"method": "iterative"}),
    ("linear", {"method": "restricted"}),
    ("svd", {"k": 448}),
]


def lines(bench: Bench) -> Iterator[Line]:
    """DSSTNE's network, I - 256 - I with a million items (in full), and solvers at the size of Gowalla."""
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
    for function, options in SOLVERS + MORE if bench.full else SOLVERS:
        case = ", ".join([function, *map(str, options.values())])
        if bench.wants(case):
            yield from solved(bench, case, function, options)


def solved(bench: Bench, case: str, function: str, options: dict[str, Any]) -> Iterator[Line]:
    """A solver in a new process each time, and ranking with its model."""
    X = interactions(30_000, 40_000, 27)
    found = []
    for _ in range(bench.repeats(1, 3)):
        with Contestant(resident.make_solving, X, function, options, bench.threads) as contestant:
            found.append(contestant.call("run"))
    for what in ("solver", "ranking"):
        if what in found[0]:
            grown, plan = ([run[f"{what} {key}"] for run in found] for key in ("grown", "plan"))
            yield line(f"{case}, {what}", [run[what] for run in found], grown, plan[0], {**options, "shape": X.shape})


def measured(bench: Bench, case: str, network: Network, items: int) -> Line:
    """A few steps in a new process each time."""
    X = interactions(4 * network.batch_size, items, 100)
    found = []
    for _ in range(bench.repeats(1, 3)):
        with Contestant(resident.make, X, network, bench.threads) as contestant:
            found.append(contestant.call("run", 4))
    grown = [run["grown"] for run in found]
    return line(case, [run["above"] for run in found], grown, found[0]["plan"], {**vars(network), "items": items})


def line(case: str, above: list[float], grown: list[int], plan: int, parameters: dict[str, Any]) -> Line:
    """A line of the report."""
    return Line(
        case,
        "% above",
        above,
        goal=GOAL if plan > LEAST else None,
        parameters={**parameters, "grown": grown, "plan": plan},
        note=f"grown by {max(grown) / 2**20:,.0f} MiB at most, plan {plan / 2**20:,.0f} MiB",
    )
