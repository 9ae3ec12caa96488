"""Factors by alternating least squares beside implicit's, at the same objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from peers import als

from workloads import gowalla

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(n) Gowalla, factors by alternating least squares: an epoch at implicit's objective"

UNOBSERVED, RIDGE = 0.01, 3.0  # of a grid of nine, the best on held-out entries of the training data
GOAL = Goal("ratio", 1.5, 3)


def lines(bench: Bench) -> Iterator[Line]:
    """128 factors; in full also 64 and 256, implicit's exact solver, and metrics."""
    train, test = gowalla.load(bench.data, "train"), gowalla.load(bench.data, "test")
    if train is None or test is None:
        yield Line("epoch", unavailable=gowalla.MISSING)
        return
    cases = [(128, "CG"), (64, "CG"), (256, "CG"), (128, "exact")] if bench.full else [(128, "CG")]
    for factors, peer in cases:
        case = f"an epoch, K={factors}, beside implicit's {peer}"
        if not bench.wants(case):
            continue
        arguments = (train, factors, UNOBSERVED, RIDGE, bench.threads)
        alone = {"OPENBLAS_NUM_THREADS": "1"}  # as implicit asks for
        with (
            Contestant(als.make, "dsstne", *arguments) as us,
            Contestant(als.make, peer, *arguments, environment=alone) as them,
        ):
            few, many = (1, 3) if peer == "exact" else (2, 10)
            turns = take_turns(
                lambda side=us, few=few, many=many: side.call("seconds", few, many),
                lambda side=them, few=few, many=many: side.call("seconds", few, many),
                repeats=bench.repeats(3, 5),
            )
            setting = them.call("name")
            if bench.full and factors == 128:
                for who, side in (("dsstne", us), (setting, them)):
                    metrics = ", ".join(f"{k} {v:.4f}" for k, v in side.call("evaluate", test).items())
                    bench.tell(f"K={factors}, {who} after {als.EPOCHS} epochs: {metrics}")
        yield Line(
            case,
            "s",
            turns.ours,
            turns.peer,
            setting,
            goal=GOAL if (factors, peer) == (128, "CG") else None,
            parameters={"factors": factors, "unobserved_weight": UNOBSERVED, "regularization": RIDGE},
        )
