"""The layer over sparse input: forward (rows of the weight are gathered) and update (scattered), bound by memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure.alternate import Contestant, take_turns
from measure.limits import last_level_cache
from measure.lines import Goal, Line
from measure.ops import Op
from peers import TORCH_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(f) sparse input: forward nnz K 4 bytes, update distinct rows K 8 (1 + states) bytes; items drawn evenly"

ROWS, UNITS = 256, 256
GOALS = {"forward": Goal("ratio", 1, 1.05), "update": Goal("share", 0.60, 0.85), "": Goal("share", 0.60, 0.85)}


def lines(bench: Bench) -> Iterator[Line]:
    """Forward, and update with plain SGD (as the peer does it) and with Adam's two states, at three row lengths; then
    other optimizers at one."""
    from peers import sparse_input

    items = 8 * last_level_cache() // (4 * UNITS)
    cases = [
        ("gather", "sgd", "forward", "PyTorch: embedding_bag"),
        ("scatter", "sgd", "update", "PyTorch: sparse gradient, SGD"),
        ("scatter", "adam", "", ""),
    ]
    if bench.full:
        cases.append(("gather", "sgd", "scipy", "SciPy: csr @ dense, one thread"))
    arguments = (ROWS, items, UNITS, bench.threads)
    with Contestant(sparse_input.make, *arguments, environment=TORCH_ENVIRONMENT) as torch:
        for length in (20, 144, 1000):
            batches = max(2, 300_000 // (ROWS * length))
            torch.call("prepare", length, batches)
            for op, optimizer, method, peer in cases:
                yield measured(bench, torch, method, peer, op, optimizer, items, length, batches)
        for optimizer in ("adagrad", "adadelta", "sgd with l1"):
            yield measured(bench, torch, "", "", "scatter", optimizer, items, 144, 8)


def measured(
    bench: Bench,
    torch: Contestant,
    method: str,
    peer: str,
    op: str,
    optimizer: str,
    items: int,
    length: int,
    batches: int,
) -> Line:
    """One op at one row length."""
    shape = {"rows": ROWS, "units": UNITS, "items": items, "row_length": length, "batches": batches}
    stream, word = ("read", "forward") if op == "gather" else ("update", f"update, {optimizer}")
    kind, l1 = optimizer.removesuffix(" with l1"), 1e-4 if optimizer.endswith(" with l1") else 0.0
    with Op(op=op, optimizer=kind, l1=l1, threads=bench.threads, **shape) as ours:
        states = {"sgd": 0, "adagrad": 1, "adam": 2, "adadelta": 2}[kind]
        touched = ours.entries * 4 if op == "gather" else ours.distinct * 8 * (1 + states)
        work = touched * UNITS / batches / 1e9
        steps = batches * max(1, round((3 if bench.full else 1) / work / batches))
        turns = take_turns(
            lambda: ours.run(steps),
            (lambda: torch.call(method, steps)) if method else None,
            lambda: bench.limits.bandwidth(stream, bench.threads),
            bench.repeats(3, 7),
        )
    return Line(
        f"{word}, mean row length {length:,}" + ", beside SciPy" * (method == "scipy"),
        "ms",
        turns.ours,
        turns.peer,
        peer,
        work=work,
        limit=turns.limit,
        limit_name=f"bandwidth ({'read' if op == 'gather' else 'update in place'}), {bench.threads} threads",
        goal=GOALS.get(method),
        parameters={**shape, "optimizer": optimizer, "threads": bench.threads, "steps": steps},
    )
