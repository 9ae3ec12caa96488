"""DSSTNE's sample network, 27,278 - 128 - 27,278: what sparse units, denoising and batch normalisation cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from measure import ours
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from measure.network import Network
from measure.synthetic import interactions

from workloads import step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "DSSTNE's sample network, 27,278 - 128 - 27,278, batch 256, beside the same without what is named"

NETWORK = Network(
    hidden=(128,),
    activation="sigmoid",
    loss="scaled_marginal",
    scaling=None,
    denoising=0.2,
    sparsity=(0.5, 2.0),
    optimizer="sgd",
    learning_rate=0.025,
    batch_size=256,
)


def lines(bench: Bench) -> Iterator[Line]:
    """The penalty alone, with denoising, and with batch normalisation, too."""
    steps = 40
    X = interactions(steps * NETWORK.batch_size, step.ITEMS, step.MEAN_LENGTH)
    plain = replace(NETWORK, denoising=0.0, sparsity=None)
    for case, network in (
        ("penalty", replace(NETWORK, denoising=0.0)),
        ("penalty and denoising", NETWORK),
        ("penalty, denoising and batch norm", replace(NETWORK, batch_norm=True)),
    ):
        if not bench.wants(case):
            continue
        with (
            Contestant(ours.make, X, network, bench.threads) as whole,
            Contestant(ours.make, X, plain, bench.threads) as without,
        ):
            turns = take_turns(
                lambda one=whole: one.call("run", steps),
                lambda one=without: one.call("run", steps),
                repeats=bench.repeats(9, 15),
            )
        yield Line(
            case,
            "ms",
            turns.ours,
            turns.peer,
            "dsstne, without",
            goal=Goal("ratio", 1 / 1.1, 1 / 1.03),
            parameters={**vars(network), "rows": X.shape[0], "items": step.ITEMS, "entries": X.nnz, "steps": steps},
        )
