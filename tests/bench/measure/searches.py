"""A prepared list of trials and the rungs that they reach, which both sides of a benchmark replay."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dsstne
from dsstne._candidates import Data, Lengths, advance
from dsstne._space import seed_of
from dsstne.searching import JOBS
from measure.resident import forget_most, resident

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True)
class Replay:
    """What is replayed.

    Attributes:
        train, held_out: The data.
        trials: Settings of each trial: ``hidden``, ``learning_rate``, ``denoising``, ``temperature``.
        reached: The last rung of each trial.
        epochs, rungs: Length of a whole training, and number of rungs, each three times as long as the one before.
        threads: Number of threads.
    """

    train: sparse.csr_array
    held_out: sparse.csr_array
    trials: list[dict[str, Any]]
    reached: list[int]
    epochs: int
    rungs: int
    threads: int

    def lengths(self) -> Lengths:
        """Returns the lengths of trainings."""
        return Lengths(self.train.shape[0], self.epochs, self.rungs, 3)


def trials(count: int, most_hidden: int) -> list[dict[str, Any]]:
    """Draws settings; at most four sizes of hidden layers, as a person would list them."""
    draw = np.random.default_rng(0)
    sizes = [most_hidden // 4, most_hidden // 2, most_hidden]
    return [
        {
            "hidden": int(draw.choice(sizes)),
            "learning_rate": float(np.exp(draw.uniform(np.log(5e-4), np.log(1e-2)))),
            "denoising": float(draw.uniform(0.2, 0.8)),
            "temperature": float(np.exp(draw.uniform(np.log(0.05), np.log(0.4)))),
        }
        for _ in range(count)
    ]


class Ours:
    """Replays with what dsstne.search does: some trials at once, pauses in files, forks that cool down at each rung."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.data = Data(dsstne.Dataset(replay.train), replay.train, replay.held_out, None, "ndcg@20")
        dsstne.set_limits(threads=replay.threads)

    def run(self) -> dict[str, float]:
        """Returns seconds, the peak of the memory in bytes, and the best value."""
        numbers = range(len(self.replay.trials))
        forget_most()
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(JOBS, self.replay.threads)) as pool:
            best = max(pool.map(lambda number: self._trial(number, Path(folder)), numbers))
        return {"seconds": time.perf_counter() - begin, "peak": resident("VmHWM"), "best": best}

    def _trial(self, number: int, folder: Path) -> float:
        replay, source, best = self.replay, None, -np.inf
        compute = {"devices": "cpu", "threads": None, "memory_limit": None}
        what = replay.trials[number], replay.lengths()
        for rung in range(replay.reached[number] + 1):
            target = folder / f"{number}-{rung}.dsstne" if rung < replay.rungs - 1 else None
            done = advance(self.data, *what, rung, seed_of(0, number), compute, source=source, target=target)
            if done.note:
                raise RuntimeError(done.note)
            best = max(best, done.value)
            done.model.close()
            if source is not None:
                source.unlink()
            source = target
        if source is not None:
            source.unlink()
        return best


def make(replay: Replay) -> Ours:
    """For `alternate.Contestant`."""
    return Ours(replay)
