"""An open predictor: latency of one row beside implicit, and rows a second when 16 threads ask."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from measure.synthetic import interactions
from peers import rankers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(q) rows that are asked for one by one: 27,278 items, 128 units, top-10, seen items left out"

ITEMS, UNITS, K, ROWS, THREADS = 27_278, 128, 10, 2_048, 16
ASKED = 400  # rows, one after the other, of a turn


def lines(bench: Bench) -> Iterator[Line]:
    """Both percentiles beside implicit; the share that many threads get of recommend()."""
    random = np.random.default_rng(0)
    W = random.standard_normal((ITEMS, UNITS), dtype=np.float32)
    H = random.standard_normal((ROWS, UNITS), dtype=np.float32)
    arguments = (W, H, interactions(ROWS, ITEMS, 144), K, bench.threads)
    with Contestant(make, "dsstne", *arguments) as us, Contestant(make, "implicit", *arguments) as them:
        name = them.call("choose_best", 1)
        for percentile, goal in ((50, Goal("ratio", 1, 2.5)), (99, Goal("ratio", 1, 2.5))):
            turns = take_turns(
                lambda percentile=percentile: us.call("latency", percentile),
                lambda percentile=percentile: them.call("latency", percentile),
                None,
                bench.repeats(5, 15),
            )
            parameters = {"items": ITEMS, "units": UNITS, "k": K, "rows": ASKED}
            yield Line(f"one row, p{percentile}", "us", turns.ours, turns.peer, name, goal=goal, parameters=parameters)
        pairs = [(us.call("together"), us.call("blocks")) for _ in range(bench.repeats(5, 15))]
        yield Line(f"{THREADS} threads, one row each", "rows/s", [rate for rate, _ in pairs], rate=True)
        shares = [100 * rate / whole for rate, whole in pairs]
        yield Line("its share of recommend() in batches of 1,024", "%", shares, rate=True, goal=SHARE)


class _Share(Goal):
    """A value of which more is better."""

    def verdict(self, reached: float) -> str:
        if reached >= self.aim:
            return "aim"
        return "at least" if reached >= self.least else f"MISSES by {self.least - reached:.0f} %"


SHARE = _Share("value", 25, 50)


class Latency:
    """Seconds that one row takes, row after row."""

    def one(self, row: int) -> Any:
        """Ranks a row."""
        raise NotImplementedError

    def latency(self, percentile: float) -> float:
        """A percentile of the times of many calls for one row."""
        taken = []
        for row in range(-20, ASKED):
            begin = time.perf_counter()
            self.one(max(row, 0))
            if row >= 0:
                taken.append(time.perf_counter() - begin)
        return float(np.percentile(taken, percentile))


class Ours(Latency):
    """A predictor of a network whose input is what a row has seen: it computes the hidden vector as well."""

    def __init__(self, W: np.ndarray, H: np.ndarray, seen: Any, k: int, threads: int) -> None:
        import dsstne

        layers = [
            {"name": "input", "kind": "input", "size": len(W)},
            {"name": "hidden", "kind": "hidden", "size": W.shape[1], "activation": "linear", "bias": False},
            {"name": "output", "kind": "output", "size": len(W), "bias": False},
        ]
        self.model = dsstne.Model({"layers": layers})
        random = np.random.default_rng(1)
        self.model.set_tensor("hidden.weight", random.standard_normal(W.shape, dtype=np.float32) / 12)
        self.model.set_tensor("output.weight", W)
        self.X, self.k, self.threads = seen, k, threads
        self.predictor = self.model.predictor(k, exclude_seen=True, devices="cpu", threads=threads)
        self.rows = [seen[[row]] for row in range(len(H))]

    def one(self, row: int) -> Any:
        return self.predictor.recommend(self.rows[row])

    def together(self) -> float:
        """Rows a second of threads that ask for one row at a time."""

        def ask(first: int) -> None:
            for row in range(first, len(self.rows), THREADS):
                self.one(row)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(THREADS)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(self.rows) / (time.perf_counter() - begin)

    def blocks(self) -> float:
        """Rows a second of recommend() for all rows, again and again."""
        begin, times = time.perf_counter(), 5
        for _ in range(times):
            self.model.recommend(
                self.X, k=self.k, exclude_seen=True, batch_size=1024, devices="cpu", threads=self.threads
            )
        return times * len(self.rows) / (time.perf_counter() - begin)


class Theirs(rankers.Implicit, Latency):
    """implicit's `topk` of one row."""

    def one(self, row: int) -> Any:
        self.H, self.seen = self.all_h[row : row + 1], self.all_seen[row]
        return self.lists(1)

    def choose_best(self, rows: int) -> str:
        name = super().choose_best(rows)
        self.all_h, self.all_seen = self.H, [self.seen[[row]] for row in range(len(self.H))]
        return name


def make(who: str, *arguments: Any) -> Latency:
    """For `alternate.Contestant`."""
    return Ours(*arguments) if who == "dsstne" else Theirs(*arguments)
