"""Ratings: matrix factorisation by gradient steps at the stored entries, beside LIBMF's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from peers import ratings

from workloads import gowalla

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(r) ratings of Gowalla's shape, squared loss of the stored entries: an epoch"

FACTORS = 128


def lines(bench: Bench) -> Iterator[Line]:
    """Gowalla's training entries, with numbers from 1 to 5 in their places."""
    train = gowalla.load(bench.data, "train")
    if train is None:
        yield Line("epoch", unavailable=gowalla.MISSING)
        return
    train.data = np.random.default_rng(0).integers(1, 6, train.nnz).astype(np.float32)
    arguments = (train, FACTORS, bench.threads)
    with Contestant(ratings.make, "dsstne", *arguments) as us, Contestant(ratings.make, "LIBMF", *arguments) as them:
        turns = take_turns(lambda: us.call("seconds", 4), lambda: them.call("seconds", 6), repeats=bench.repeats(5, 7))
    yield Line(
        f"an epoch, K={FACTORS}",
        "s",
        turns.ours,
        turns.peer,
        "LIBMF, compiled for AVX",
        goal=Goal("ratio", 1, 2),
        parameters={"factors": FACTORS, "batch_size": ratings.BATCH, "threads": bench.threads, "optimizer": "sgd"},
    )
