"""The output layer with each loss and each activation, beside the same with the sigmoid loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure.alternate import take_turns
from measure.lines import Goal, Line
from measure.ops import Op

from workloads import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(a) output layer with other losses, B=256 K=256 I=100,000, momentum, float32, beside the sigmoid loss"

LOSSES = ("scaled_marginal", "squared", "absolute", "hinge", "l2_hinge")
ACTIVATIONS = ("sigmoid", "tanh", "relu", "leaky_relu", "elu", "selu", "softplus", "softsign", "gelu", "silu")
SHAPE = {**output.SHAPES["B=256 K=256 I=100,000 sigmoid, momentum"], "row_length": output.ROW_LENGTH}
GOAL = Goal("ratio", 0.9, 1.0)


def lines(bench: Bench) -> Iterator[Line]:
    """Losses of values, and the squared loss of the values of each activation."""
    cases = {loss: {"loss": loss} for loss in LOSSES}
    cases |= {f"squared, {activation}": {"loss": "squared", "activation": activation} for activation in ACTIVATIONS}
    limit, work = bench.peak("float32"), 6 * SHAPE["rows"] * SHAPE["units"] * SHAPE["items"] / 1e9
    with Op(op="output", threads=bench.threads, **SHAPE) as sigmoid:
        for case, of in cases.items():
            if not bench.wants(case):
                continue
            with Op(op="output", threads=bench.threads, **{**SHAPE, **of}) as op:
                turns = take_turns(lambda one=op: one.run(1), lambda: sigmoid.run(1), limit, bench.repeats(5, 9))
            yield Line(
                case,
                "ms",
                turns.ours,
                turns.peer,
                "dsstne, sigmoid loss",
                work=work,
                limit=turns.limit,
                limit_name=bench.peak_name("float32"),
                goal=GOAL,
                parameters={**SHAPE, **of, "threads": bench.threads},
            )
