"""The cases of run_gpu.py, in the order of their importance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import gpu_cases as roofline
from measure.network import Network
from workloads import step

from gpu.alone import output, ranking
from gpu.training import epochs_of, gowalla_data, movielens_data, training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measure.lines import Line

    from gpu.setting import Setting

SOFTMAX = Network(hidden=(256,))


@dataclass(frozen=True)
class Case:
    """One case, in the order of its importance."""

    name: str
    seconds: float  # at most
    lines: Callable[[Setting], Iterator[Line]]


BENCHMARK, SMALL, MILLION, TEN_MILLION = roofline.NETWORKS


def step_case(name: str, precision: str, seconds: float, steps: int, *, together: bool = True) -> Case:
    """A step of one of the roofline's networks."""
    network, shape = {
        "step": (step.NETWORK, BENCHMARK),
        "softmax 41k": (SOFTMAX, SMALL),
        "softmax 1m": (SOFTMAX, MILLION),
        "softmax 10m": (SOFTMAX, TEN_MILLION),
    }[name]
    title = f"a step of {shape.title}, {precision}"
    made = training(title, network, shape, steps, precision=precision, together=together)
    return Case(f"{name} {precision}", seconds, made)


def ranking_case(name: str, shape: tuple[int, int], seconds: float) -> Case:
    """Top-k of one of the roofline's shapes."""
    return Case(f"topk {name}", seconds, ranking(*shape))


CASES = [
    step_case("step", "bfloat16", 180, 40),  # the first compiles what the others find compiled
    step_case("softmax 41k", "bfloat16", 120, 60),
    step_case("softmax 1m", "bfloat16", 120, 16),
    Case("output step bfloat16", 30, output(BENCHMARK, "bfloat16", 20)),
    Case("output softmax 41k bfloat16", 30, output(SMALL, "bfloat16", 20)),
    ranking_case("27k", roofline.RANKED[0], 60),
    ranking_case("1m", roofline.RANKED[1], 80),
    Case("gowalla", 60, epochs_of("an epoch of Gowalla, I-256-I, soft-max, float32", SOFTMAX, SMALL, gowalla_data)),
    step_case("step", "float32", 80, 20),
    step_case("softmax 41k", "float32", 80, 40),
    Case("output step float32", 30, output(BENCHMARK, "float32", 10)),
    Case("output softmax 41k float32", 30, output(SMALL, "float32", 10)),
    Case(
        "dsstne epoch",
        120,
        epochs_of(
            "an epoch of DSSTNE's benchmark, 138,493 users, bfloat16",
            replace(step.NETWORK, precision="bfloat16"),
            BENCHMARK,
            movielens_data,
        ),
    ),
    step_case("softmax 10m", "bfloat16", 180, 4, together=False),
    ranking_case("10m", roofline.RANKED[2], 150),
    step_case("step", "tensorfloat32", 80, 20),
    step_case("softmax 1m", "float32", 120, 8),
]
