"""A step of I - 256 - I with soft-max and Adam: on as many items as Gowalla has, and on a million."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from measure.alternate import UnavailableError
from measure.lines import Line
from measure.network import Network
from measure.synthetic import interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(c) a step of I - 256 - I, soft-max, Adam; synthetic data"

NETWORK = Network(hidden=(256,))


def lines(bench: Bench) -> Iterator[Line]:
    """40,981 items with batch 512, a million with batch 256; both precisions."""
    for precision in ("float32", "bfloat16"):
        for items, batch, steps in ((40_981, 512, 10), (1_000_000, 256, 4)):
            network = replace(NETWORK, batch_size=batch, precision=precision)
            case = f"I={items:,}, batch {batch}, {precision}"
            if not bench.wants(case):
                continue
            X = interactions(steps * batch, items, 27)
            small = items < 1_000_000
            try:
                yield bench.network_race(case, network, X, steps, repeats=7 if small else 3, together=small)
            except UnavailableError as error:
                yield Line(case, unavailable=str(error))
