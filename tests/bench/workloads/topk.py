"""Exact top-10 with seen items left out, over 27,278 items: rows a second, and the latency of few rows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from measure.synthetic import interactions
from peers import TORCH_ENVIRONMENT, rankers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from measure.bench import Bench
    from scipy import sparse

TITLE = "(e) exact top-10 of 27,278 items, seen items left out; factors of normal numbers unless it says otherwise"

ITEMS, ROWS, K = 27_278, 2_048, 10
GOALS = {1024: Goal("share", 0.58, 0.68), 128: Goal("share", 0.45, 0.60)}
GOAL_OF_ONE = Goal("ratio", 1, 2.5)  # 128 units


def lines(bench: Bench) -> Iterator[Line]:
    """Many rows, 32 and one, beside implicit and PyTorch; in full also with the weights of a trained model."""
    random = np.random.default_rng(0)
    seen = interactions(ROWS, ITEMS, 144)
    for units in (64, 128, 256, 1024) if bench.full else (128, 1024):
        if not bench.wants(f"K={units}"):
            continue
        W = random.standard_normal((ITEMS, units), dtype=np.float32)
        H = random.standard_normal((ROWS, units), dtype=np.float32)
        yield from measured(bench, f"K={units}", W, H, seen, (ROWS, 32, 1) if bench.full else (ROWS, 1))
    if bench.full and bench.wants("trained"):
        yield from trained(bench)


def trained(bench: Bench) -> Iterator[Line]:
    """Vectors as training makes them have other lengths and directions than random ones."""
    import dsstne
    from workloads import gowalla

    X = gowalla.load(bench.data, "train")
    if X is None:
        yield Line("K=256, trained on Gowalla", unavailable=gowalla.MISSING)
        return
    network = gowalla.NETWORKS["plain"]
    without_bias = {**vars(network), "output_bias": False}
    model = dsstne.fit(X, network=type(network)(**without_bias).definition(), epochs=2, progress=False, devices="cpu")
    X = X[:ROWS]
    W, H = model.tensor("output.weight"), model.embed(X)
    yield from measured(bench, f"K=256, I={X.shape[1]:,}, trained on Gowalla", W, H, X, (ROWS,))


def measured(
    bench: Bench, case: str, W: np.ndarray, H: np.ndarray, seen: sparse.csr_array, counts: Sequence[int]
) -> Iterator[Line]:
    """One shape, with each of these numbers of rows in a call."""
    precision = "int8" if bench.limits.peak("int8") > 0 else "float32"  # the widest that screening could use
    limit = bench.peak(precision)
    items, units = W.shape
    with ExitStack() as stack:
        arguments = (W, H, seen, K, bench.threads)
        us = stack.enter_context(Contestant(rankers.make, "dsstne", *arguments))
        found = us.call("lists", len(H))
        for peer in ("implicit", "PyTorch") if bench.full else ("implicit",):
            environment = TORCH_ENVIRONMENT if peer == "PyTorch" else {}
            with Contestant(rankers.make, peer, *arguments, environment=environment) as them:
                alike = rankers.compare(found, them.call("lists", len(H)))
                for rows in counts:
                    name = them.call("choose_best", rows)
                    seconds = 0.3 if rows > 1 else 0.1
                    turns = take_turns(
                        lambda rows=rows, seconds=seconds: us.call("run", rows, seconds),
                        lambda rows=rows, seconds=seconds: them.call("run", rows, seconds),
                        limit,
                        bench.repeats(3, 7),
                    )
                    many, goal = rows > 32, None
                    if peer == "implicit" and many:
                        goal = GOALS.get(units)
                    elif peer == "implicit" and (units, rows) == (128, 1):
                        goal = GOAL_OF_ONE
                    yield Line(
                        f"{case}, {rows:,} row{'s' * (rows > 1)}, beside {peer}",
                        "rows/s" if many else "ms",
                        [rows / s for s in turns.ours] if many else turns.ours,
                        [rows / s for s in turns.peer] if many else turns.peer,
                        name,
                        rate=many,
                        work=2 * items * units * (1 if many else rows) / 1e9,
                        limit=turns.limit,
                        limit_name=bench.peak_name(precision) + ", which a few rows cannot reach" * (not many),
                        goal=goal,
                        parameters={"items": items, "units": units, "rows": rows, "k": K, "seen": seen.nnz},
                        note=alike if many else "",
                    )
