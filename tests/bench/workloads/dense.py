"""A training step of 4,096 - 1024 - 16 whose input is a dense array, batch 256: share of the machine's peak.

Counted are the products with the input's weight, forward and for its gradient, 4 B I K operations. The step also makes
the batch, updates the weight, and has an output of 16 labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(de) a step with a dense input, 4,096 - 1024 - 16, batch 256, SGD, float32"

COLUMNS, UNITS, LABELS, ROWS = 4096, 1024, 16, 256
WORK = 4 * ROWS * COLUMNS * UNITS / 1e9


class Step:
    """Trains on random numbers of which a share is 0."""

    def __init__(self, steps: int, zeros: float, threads: int) -> None:
        import dsstne

        random = np.random.default_rng(0)
        X = random.random((steps * ROWS, COLUMNS), dtype=np.float32)
        X[random.random(X.shape) < zeros] = 0
        Y = sparse.csr_array(np.eye(LABELS, dtype=np.float32)[random.integers(LABELS, size=len(X))])
        layers = [
            {"name": "input", "kind": "input", "scaling": "l2"},
            {"name": "hidden", "kind": "hidden", "size": UNITS, "activation": "relu"},
            {"name": "output", "kind": "output"},
        ]
        self.data, self.labels = dsstne.Dataset(X), dsstne.Dataset(Y)
        sizes = {"input": COLUMNS, "output": LABELS}
        self.model = dsstne.Model({"layers": layers, "loss": "softmax"}, sizes=sizes)
        self.trainer = dsstne.Trainer(
            self.model,
            self.data,
            self.labels,
            optimizer="sgd",
            learning_rate=0.01,
            batch_size=ROWS,
            devices="cpu",
            precision="float32",
            threads=threads,
        )

    def run(self, steps: int) -> float:
        """Seconds of a step."""
        return float(self.trainer.run(steps=steps).seconds) / steps


def lines(bench: Bench) -> Iterator[Line]:
    """All values stored, and beside it a quarter of them 0, which counts as much work."""
    steps, limit = 4, bench.peak("float32")
    for zeros in (0.0, 0.25):
        case = f"{zeros:.0%} of the values are 0"
        if not bench.wants(case):
            continue
        with Contestant(Step, steps, zeros, bench.threads) as step:
            turns = take_turns(lambda one=step: one.call("run", steps), None, limit, bench.repeats(5, 9))
        yield Line(
            case,
            "ms",
            turns.ours,
            work=WORK,
            limit=turns.limit,
            limit_name=bench.peak_name("float32"),
            goal=Goal("share", 0.75, 0.9) if not zeros else None,
            parameters={"columns": COLUMNS, "units": UNITS, "labels": LABELS, "batch_size": ROWS, "steps": steps},
        )
