"""The output layer alone: logits, loss, gradients and update of weights, per shape, precision and instruction set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from measure.alternate import Contestant, Turns, UnavailableError, take_turns
from measure.lines import Goal, Line
from measure.ops import Op
from peers import TORCH_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(a) output layer alone, training: 6 B K I operations, soft-max 8"

WIDE = {"loss": "sigmoid", "optimizer": "momentum", "rows": 256, "units": 1024, "items": 27_278}
SHAPES: dict[str, dict[str, Any]] = {
    "B=256 K=1024 I=27,278 sigmoid, momentum": WIDE,
    "B=256 K=256 I=100,000 sigmoid, momentum": {**WIDE, "units": 256, "items": 100_000},
    "B=512 K=64 I=100,000 sigmoid, momentum": {**WIDE, "rows": 512, "units": 64, "items": 100_000},
    "B=512 K=256 I=40,981 soft-max, Adam": {
        "loss": "softmax",
        "optimizer": "adam",
        "rows": 512,
        "units": 256,
        "items": 40_981,
    },
    "B=128 K=64 I=2,000 sigmoid, momentum": {**WIDE, "rows": 128, "units": 64, "items": 2_000},
}
QUICK_PEERS = ("B=256 K=1024 I=27,278 sigmoid, momentum",)
QUICK_SETS = (*QUICK_PEERS, "B=512 K=64 I=100,000 sigmoid, momentum")
ROW_LENGTH = 30
SECONDS = 0.35  # of a turn of ours


def lines(bench: Bench) -> Iterator[Line]:
    """All shapes in float32 and bfloat16, then other instruction sets."""
    for precision in ("float32", "bfloat16"):
        for case, shape in SHAPES.items():
            if not bench.wants(f"{case}, {precision}"):
                continue
            race = bench.full or (precision == "float32" and case in QUICK_PEERS)
            yield measured(bench, f"{case}, {precision}", {**shape, "precision": precision}, race=race)
    for case, shape in SHAPES.items():
        for instruction_set in ("avx2", "portable") if bench.full else ("avx2",) if case in QUICK_SETS else ():
            if not bench.wants(f"{case}, {instruction_set}"):
                continue
            given = {**shape, "precision": "float32", "instruction_set": instruction_set}
            yield measured(bench, f"{case}, {instruction_set}", given, race=False)


def goal(shape: dict[str, Any]) -> Goal | None:
    """Large batches, by width; the same for AVX-512 at half and at full rate."""
    if shape.get("instruction_set") == "avx2":
        return Goal("share", 0.75, 0.85) if shape["rows"] >= 256 else None
    if shape["rows"] < 256 or "instruction_set" in shape:
        return None
    wide = shape["units"] >= 256
    if shape["precision"] == "bfloat16":
        return Goal("share", 0.80, 0.87) if wide else Goal("share", 0.68, 0.80)
    return Goal("share", 0.88, 0.91) if wide else Goal("share", 0.82, 0.87)


def measured(bench: Bench, case: str, shape: dict[str, Any], *, race: bool) -> Line:
    """One shape beside PyTorch (if it races) and the peak."""
    precision, instruction_set = shape["precision"], shape.get("instruction_set", "auto")
    limit = bench.peak(precision, instruction_set)
    plain = 6 * shape["rows"] * shape["units"] * shape["items"] / 1e9
    work = plain / 6 * 8 if shape["loss"] == "softmax" else plain
    # The portable build is compared with its own limit only; without that loop there is nothing to compare with.
    if math.isnan(limit()):
        return Line(case, unavailable=f"this CPU has no {precision} {instruction_set} instructions")
    steps = max(1, round(SECONDS * 0.7 * limit() / work))
    try:
        op = Op(op="output", row_length=ROW_LENGTH, threads=bench.threads, **shape)
    except UnavailableError as error:
        return Line(case, unavailable=str(error))
    name = ""
    with op:
        if race:
            from peers import torch_layer

            arguments = ({**shape, "row_length": ROW_LENGTH}, plain * 1e9, bench.threads)
            with Contestant(torch_layer.make, *arguments, environment=TORCH_ENVIRONMENT) as torch:
                theirs = max(1, round(steps / 2))
                turns: Turns = take_turns(
                    lambda: op.run(steps), lambda: torch.call("run", theirs), limit, bench.repeats(3, 7)
                )
                name = torch.call("name")
        else:
            turns = take_turns(lambda: op.run(steps), None, limit, bench.repeats(3, 7))
    return Line(
        case,
        "ms",
        turns.ours,
        turns.peer,
        name,
        work=work,
        peer_work=plain,
        limit=turns.limit,
        limit_name=bench.peak_name(precision, instruction_set),
        goal=goal(shape),
        parameters={**shape, "threads": bench.threads, "steps": steps},
    )
