"""Exact nearest neighbours of a million vectors, beside FAISS and stored as bfloat16; the memory of an index."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.alternate import Contestant, UnavailableError, take_turns
from measure.lines import Goal, Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(nn) exact nearest neighbours by inner products: 1,000,000 vectors of 128 normal numbers, k = 100"

VECTORS, SIZE, QUERIES, K = 1_000_000, 128, 1_024, 100
GOALS = {QUERIES: Goal("ratio", 1.5, 3)}
MEMORY = Goal("value", 1.3, 1.27)
STORED = Goal("ratio", 1, 1.5)  # bfloat16 beside float32
STORED_MEMORY = Goal("value", 1.3, 0.8)


def lines(bench: Bench) -> Iterator[Line]:
    """Many queries and one, and what an index adds to the memory."""
    vectors = VECTORS // 1000 if bench.tiny else VECTORS
    precision = "int8" if not bench.tiny and bench.limits.peak("int8") > 0 else "float32"
    parameters = {"vectors": vectors, "size": SIZE, "k": K}
    with Contestant(make, "dsstne", bench.threads, vectors) as us:
        found = us.call("search", QUERIES)
        with Contestant(make, "FAISS", bench.threads, vectors) as them:
            alike = compare(found, them.call("search", QUERIES))
            for queries in (QUERIES, 32, 1):
                turns = take_turns(
                    lambda queries=queries: us.call("run", queries),
                    lambda queries=queries: them.call("run", queries),
                    None if bench.tiny else bench.peak(precision),
                    bench.repeats(3, 7),
                )
                yield Line(
                    f"{queries:,} quer{'ies' if queries > 1 else 'y'}",
                    "ms",
                    turns.ours,
                    turns.peer,
                    them.call("name"),
                    work=2 * vectors * SIZE * queries / 1e9,
                    limit=turns.limit,
                    limit_name="" if bench.tiny else bench.peak_name(precision),
                    goal=GOALS.get(queries),
                    parameters={**parameters, "queries": queries},
                    note=alike if queries == QUERIES else "",
                )
        yield Line("memory of the index after these searches", "x the vectors", [us.call("memory")], goal=MEMORY)
        yield from stored(bench, us, vectors)


def stored(bench: Bench, wide: Contestant, vectors: int) -> Iterator[Line]:
    """The same with vectors stored as bfloat16, beside float32."""
    with Contestant(make, "bfloat16", bench.threads, vectors) as us:
        for queries in (QUERIES, 32, 1):
            us.call("search", queries)
            turns = take_turns(
                lambda queries=queries: us.call("run", queries),
                lambda queries=queries: wide.call("run", queries),
                None,
                bench.repeats(3, 7),
            )
            yield Line(
                f"{queries:,} quer{'ies' if queries > 1 else 'y'}, stored as bfloat16",
                "ms",
                turns.ours,
                turns.peer,
                "stored as float32",
                work=2 * vectors * SIZE * queries / 1e9,
                goal=STORED if queries == QUERIES else None,
                parameters={"vectors": vectors, "size": SIZE, "k": K, "queries": queries, "storage": "bfloat16"},
            )
        memory = [us.call("memory")]
        yield Line("memory of the index stored as bfloat16", "x the float32 vectors", memory, goal=STORED_MEMORY)


def compare(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> str:
    """How alike two results are, in words; raises an error if they cannot be of the same vectors."""
    same, error = float((ours[0] == theirs[0]).mean()), float(np.abs(ours[1] - theirs[1]).max())
    if same < 0.99 or error > 1e-3:
        raise RuntimeError(f"only {same:.1%} of the neighbours are the same, and scores differ by up to {error:g}")
    return f"{same:.2%} of the neighbours in the same place, scores within {error:.1g} (FAISS adds in float32)"


class Searcher:
    """Searches the same vectors; they are made where they are needed, since sending them would take long."""

    def __init__(self, threads: int, vectors: int) -> None:
        self.threads = threads
        random = np.random.default_rng(0)
        self.vectors = random.standard_normal((vectors, SIZE), np.float32)
        self.queries = random.standard_normal((QUERIES, SIZE), np.float32)

    def search(self, queries: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the neighbours of the first queries: rows and scores."""
        raise NotImplementedError

    def name(self) -> str:
        """Who it is, with its setting."""
        raise NotImplementedError

    def run(self, queries: int) -> float:
        """Seconds of a search, the mean of several if they are short."""
        self.search(queries)
        begin, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - begin < 0.5:
            self.search(queries)
            calls += 1
        return (time.perf_counter() - begin) / calls


class Ours(Searcher):
    """`neighbors.Index`."""

    def __init__(self, threads: int, vectors: int, storage: str = "float32") -> None:
        super().__init__(threads, vectors)
        from measure.resident import resident

        from dsstne.neighbors import Index

        Index(self.vectors[:10], devices="cpu").close()  # loads the library
        self.before = resident()
        self.index = Index(self.vectors, storage=storage, devices="cpu", threads=threads)

    def search(self, queries: int) -> tuple[np.ndarray, np.ndarray]:
        return self.index.search(self.queries[:queries], K)

    def memory(self) -> float:
        """What the index has added to the memory of the process, in sizes of the vectors."""
        from measure.resident import resident

        return (resident() - self.before) / self.vectors.nbytes


class Theirs(Searcher):
    """FAISS's `IndexFlatIP`."""

    def __init__(self, threads: int, vectors: int) -> None:
        try:
            import faiss
        except ImportError:
            raise UnavailableError("FAISS is not installed") from None
        super().__init__(threads, vectors)
        faiss.omp_set_num_threads(threads)
        self.version, self.index = faiss.__version__, faiss.IndexFlatIP(SIZE)
        self.index.add(self.vectors)

    def search(self, queries: int) -> tuple[np.ndarray, np.ndarray]:
        scores, rows = self.index.search(self.queries[:queries], K)
        return rows, scores

    def name(self) -> str:
        return f"FAISS {self.version}: IndexFlatIP, {self.threads} threads"


def make(who: str, threads: int, vectors: int) -> Any:
    """For `alternate.Contestant`."""
    if who == "FAISS":
        return Theirs(threads, vectors)
    return Ours(threads, vectors, "bfloat16" if who == "bfloat16" else "float32")
