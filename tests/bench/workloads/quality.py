"""Ranking quality on real data after some epochs, over seeds: recall@20 and NDCG@20 on Gowalla.

Published on this split (recall@20 / ndcg@20): popularity 0.0416 / 0.0317, Mult-VAE 0.1641 / 0.1335, EASE 0.1765 /
0.1467, LightGCN 0.1830 / 0.1554.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from measure import ours
from measure.alternate import Contestant
from measure.lines import Line

from workloads import gowalla

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench
    from scipy import sparse

TITLE = "(d) Gowalla: ranking quality after some epochs, over seeds; popularity has 0.0416 and 0.0317"

METRICS = ("recall@20", "ndcg@20")


def lines(bench: Bench) -> Iterator[Line]:
    """Both networks."""
    train, test = gowalla.load(bench.data, "train"), gowalla.load(bench.data, "test")
    if train is None or test is None:
        yield Line("quality", unavailable=gowalla.MISSING)
        return
    for name in gowalla.NETWORKS:
        yield from measured(bench, name, train, test)


def measured(bench: Bench, name: str, train: sparse.csr_array, test: sparse.csr_array) -> Iterator[Line]:
    """One network."""
    epochs, seeds = {"plain": (4, 8, 16), "cosine": (4, 8)}[name], 2
    found: dict[int, list[dict[str, Any]]] = {e: [] for e in epochs}
    with Contestant(ours.make, train, gowalla.NETWORKS[name], bench.threads) as contestant:
        for seed in range(seeds):
            contestant.call("start", seed)
            for number in range(1, max(epochs) + 1):
                contestant.call("epoch")
                if number in found:
                    found[number].append(contestant.call("evaluate", test))
    for number, runs in found.items():
        for metric in METRICS:
            values = [run[metric] for run in runs]
            note = f"mean {statistics.mean(values):.4f} over {seeds} seeds"
            yield Line(f"{metric} after {number} epochs, {gowalla.TITLES[name]}", metric, values, note=note)
