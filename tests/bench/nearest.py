"""How many of the best items approximate indexes find with a model's item vectors: the table of docs/export.md.

    pip install faiss-cpu hnswlib usearch
    python tests/bench/nearest.py

Trains three models on Gowalla, and searches for 2,000 of its rows with one thread. The effort is the number of
candidates that a search keeps (efSearch, ef, expansion_search). Times are those of the processor.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import real

import dsstne
from dsstne.export import item_vectors, query_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

K, QUERIES, EFFORTS = 10, 2000, (16, 64, 256)
LINKS, BUILD_EFFORT = 32, 200  # of every index

MODELS: dict[str, Callable[..., Any]] = {
    "`fit(X)`, cosine logits": lambda X: dsstne.fit(X, epochs=4, progress=False),
    "`fit(X, hidden=[128], temperature=None)`": lambda X: dsstne.fit(
        X, hidden=[128], temperature=None, epochs=4, progress=False
    ),
    "`factorize(X)`": lambda X: dsstne.factorize(X, progress=False),
}


def faiss_index(vectors: np.ndarray) -> Callable[..., np.ndarray]:
    """Builds an index of FAISS and returns its search."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_EFFORT
    index.add(vectors)

    def search(queries: np.ndarray, effort: int) -> np.ndarray:
        index.hnsw.efSearch = effort
        return index.search(queries, K)[1]

    return search


def hnswlib_index(vectors: np.ndarray) -> Callable[..., np.ndarray]:
    """Builds an index of hnswlib and returns its search."""
    import hnswlib

    index = hnswlib.Index("ip", vectors.shape[1])
    index.init_index(len(vectors), M=LINKS, ef_construction=BUILD_EFFORT)
    index.add_items(vectors, num_threads=1)

    def search(queries: np.ndarray, effort: int) -> np.ndarray:
        index.set_ef(effort)
        return index.knn_query(queries, K, num_threads=1)[0]

    return search


def usearch_index(vectors: np.ndarray) -> Callable[..., np.ndarray]:
    """Builds an index of usearch and returns its search."""
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f32", connectivity=LINKS, expansion_add=BUILD_EFFORT)
    index.add(np.arange(len(vectors)), vectors, threads=1)

    def search(queries: np.ndarray, effort: int) -> np.ndarray:
        index.expansion_search = effort
        return index.search(queries, K, threads=1).keys

    return search


INDEXES = {"FAISS": faiss_index, "hnswlib": hnswlib_index, "usearch": usearch_index}


def timed(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Returns the result of a call and the seconds of the processor that it took."""
    start = time.process_time()
    return call(*arguments, **options), time.process_time() - start


def main() -> None:
    """Prints a line of the table for each model and index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=folder, help="folder of real data")
    split = real.load(parser.parse_args().data, "gowalla")
    if split is None:
        raise SystemExit("the files of Gowalla are not in the folder of --data")
    X = split.train
    rows = np.random.default_rng(0).choice(X.shape[0], QUERIES, replace=False)
    for name, make in MODELS.items():
        model = make(X)
        (wanted, _), seconds = timed(model.recommend, X, K, rows=rows, exclude_seen=False, threads=1, devices="cpu")
        print(f"| {name} | `recommend` | | 1 | {QUERIES / seconds:,.0f} |", flush=True)
        vectors, queries = item_vectors(model), query_vectors(model, X, rows=rows)
        for library, build in INDEXES.items():
            search, built = timed(build, vectors)
            recalls, rates = [], []
            for effort in EFFORTS:
                found, seconds = timed(search, queries, effort)
                pairs = zip(found.tolist(), wanted.tolist(), strict=True)
                recalls.append(f"{np.mean([len({*a} & {*b}) / K for a, b in pairs]):.3f}")
                rates.append(f"{QUERIES / seconds:,.0f}")
            print(f"| | {library} | {built:.0f} | {', '.join(recalls)} | {'; '.join(rates)} |", flush=True)


if __name__ == "__main__":
    main()
