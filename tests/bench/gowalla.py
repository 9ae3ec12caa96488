"""Ranking quality and speed on real data: Gowalla check-ins in the 80/20 split of NGCF and LightGCN.

    python tests/bench/gowalla.py                                  # quality of both networks, 16 epochs
    python tests/bench/gowalla.py --seeds 3                        # with mean and range
    python tests/bench/gowalla.py --peer torch --epochs 4          # epochs beside PyTorch's, taking turns

The data are for research and are not part of this repository: --data names a folder with train.txt.xz and
test.txt.xz (a line is a user and her items, as numbers).
"""

from __future__ import annotations

import argparse
import lzma
import statistics
import sys
from pathlib import Path

import numpy as np
import ours
from alternate import Contestant, ratios, spread
from peak import threads_available
from scipy import sparse
from settings import Network

import dsstne

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "gowalla-lightgcn"
NETWORKS = {
    "plain": Network(hidden=(256,)),
    "cosine": Network(hidden=(512,), temperature=0.1, output_bias=False),
}
TITLES = {"plain": "I-256-I, tanh, soft-max", "cosine": "I-512-I, tanh, soft-max of cosines / 0.1"}
REPORTED = (4, 8, 12, 16)


def read(path: Path, shape: tuple[int, int] | None = None) -> sparse.csr_array:
    """A matrix of ones from lines `user item item ...`."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    users = [np.array(line.split(), dtype=np.int32) for line in lines]
    row = np.concatenate([np.full(len(user) - 1, user[0]) for user in users])
    column = np.concatenate([user[1:] for user in users])
    return sparse.csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)


def quality(train: sparse.csr_array, test: sparse.csr_array, network: Network, seeds: int, epochs: int) -> None:
    """Prints the metrics after some epochs, and the seconds of an epoch, over seeds."""
    reported = [e for e in REPORTED if e <= epochs] or [epochs]
    found: dict[int, list[dict[str, float]]] = {e: [] for e in reported}
    seconds: list[float] = []
    with Contestant(ours.make, train, network, threads_available()) as contestant:
        for seed in range(seeds):
            contestant.call("start", seed)
            for epoch in range(1, epochs + 1):
                seconds.append(contestant.call("epoch")["seconds"])
                if epoch in found:
                    metrics = contestant.call("evaluate", test)
                    found[epoch].append(metrics)
                    told = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
                    print(f"  seed {seed}, epoch {epoch:>2}, {seconds[-1]:6.2f} s: {told}", flush=True)
    print(f"  {'epoch':>5}  {'recall@20':>22}  {'ndcg@20':>22}")
    for epoch, runs in found.items():
        recall, ndcg = ([run[name] for run in runs] for name in ("recall@20", "ndcg@20"))
        print(f"  {epoch:>5}  {over_seeds(recall):>22}  {over_seeds(ndcg):>22}")
    print(f"  seconds per epoch: mean {statistics.mean(seconds):.2f}, median {spread(seconds)}", flush=True)


def over_seeds(values: list[float]) -> str:
    """Mean and range as text: `0.1812 (0.1808-0.1816)`."""
    mean = f"{statistics.mean(values):.4f}"
    return mean if len(values) < 2 else f"{mean} ({min(values):.4f}-{max(values):.4f})"


def race(train: sparse.csr_array, test: sparse.csr_array, network: Network, epochs: int) -> None:
    """Prints the ratio of the seconds of an epoch, in turns, and both sides' metrics at the end."""
    import torch_peer

    threads = threads_available()
    times: dict[str, list[float]] = {"torch": [], "dsstne": []}
    with (
        Contestant(torch_peer.make, train, network, threads) as torch,
        Contestant(ours.make, train, network, threads) as dsstne,
    ):
        tried = ", ".join(f"{name} {1e3 * t:.0f} ms" for name, t in torch.call("variants").items())
        print(f"  PyTorch, a step: {tried}; the fastest is used", flush=True)
        for epoch in range(1, epochs + 1):
            sides = {"torch": torch, "dsstne": dsstne}
            took = {name: side.call("epoch") for name, side in sides.items()}
            for name in times:
                times[name].append(took[name]["seconds"])
            print(
                f"  epoch {epoch}: PyTorch {times['torch'][-1]:6.2f} s, dsstne {times['dsstne'][-1]:6.2f} s,"
                f" ratio {times['torch'][-1] / times['dsstne'][-1]:.2f};"
                f" losses {took['torch']['loss']:.3f} and {took['dsstne']['loss']:.3f}",
                flush=True,
            )
        for name, side in (("PyTorch", torch), ("dsstne", dsstne)):
            metrics = side.call("evaluate", test)
            print(f"  {name:<8} after {epochs} epochs:", *(f"{k} {v:.4f}" for k, v in metrics.items()))
    print(f"  seconds per epoch: PyTorch {spread(times['torch'])}, dsstne {spread(times['dsstne'])}")
    print(f"  ratio: {spread(ratios(times['torch'], times['dsstne']))}", flush=True)


def main() -> None:
    """Reads the command line and runs what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the data (%(default)s)")
    parser.add_argument("--network", choices=[*NETWORKS, "both"], default="both")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--peer", choices=["torch"], help="race against it instead of measuring quality")
    args = parser.parse_args()
    if not (args.data / "train.txt.xz").exists():
        print(f"skipped: {args.data} has no train.txt.xz; see tests/bench/README.md for the data")
        sys.exit(0)

    train = read(args.data / "train.txt.xz")
    test = read(args.data / "test.txt.xz", train.shape)
    rows, items = train.shape
    print(f"Gowalla: {rows:,} users, {items:,} items, {train.nnz:,} + {test.nnz:,} check-ins,", end=" ")
    print(f"{threads_available()} threads")
    if not args.peer:
        popular = dsstne.evaluate(dsstne.popularity(train), train, test, ["recall@20", "ndcg@20"])
        print("most popular (published: 0.0416, 0.0317):", *(f"{name} {v:.5f}" for name, v in popular.items()))
    for name in NETWORKS if args.network == "both" else [args.network]:
        print(TITLES[name], flush=True)
        if args.peer:
            race(train, test, NETWORKS[name], args.epochs)
        else:
            quality(train, test, NETWORKS[name], args.seeds, args.epochs)


if __name__ == "__main__":
    main()
