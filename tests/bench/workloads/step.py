"""A training step of DSSTNE's benchmark network, 27,278 - 3 x 1024 - 27,278: batch 256, sigmoid, dropout 0.5."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from measure.alternate import UnavailableError
from measure.lines import Goal, Line
from measure.network import Network
from measure.synthetic import interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(b) a step of DSSTNE's benchmark network, 27,278 - 3 x 1024 - 27,278, batch 256; data like MovieLens-20M's"

ITEMS, MEAN_LENGTH = 27_278, 144
NETWORK = Network(
    hidden=(1024, 1024, 1024),
    activation="sigmoid",
    loss="sigmoid",
    scaling=None,
    denoising=0.0,
    dropout=0.5,
    optimizer="momentum",
    learning_rate=1e-4,
    batch_size=256,
)
GOALS = {"float32": Goal("share", 0.79, 0.83), "bfloat16": Goal("share", 0.68, 0.75)}


def lines(bench: Bench) -> Iterator[Line]:
    """Momentum in both precisions; in full also RMSProp and Adam."""
    steps = 20 if bench.full else 4
    X = interactions(steps * NETWORK.batch_size, ITEMS, MEAN_LENGTH)
    for optimizer in ("momentum", "rmsprop", "adam") if bench.full else ("momentum",):
        for precision in ("float32", "bfloat16"):
            network = replace(NETWORK, optimizer=optimizer, precision=precision)
            case = f"{optimizer}, {precision}"
            if not bench.wants(case):
                continue
            try:
                yield bench.network_race(case, network, X, steps, goal=GOALS[precision])
            except UnavailableError as error:
                yield Line(case, unavailable=str(error))
