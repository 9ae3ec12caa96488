"""The search that chose the defaults of `dsstne.fit`, on parts held out of the training data of real datasets.

    python tests/bench/search_defaults.py                          # everything: hours on two cores
    python tests/bench/search_defaults.py --sets lastfm bibtex     # some datasets
    python tests/bench/search_defaults.py --table                  # the table of docs/defaults.md from the results

Each line changes one thing of a common start. Test sets are not used. Results are appended to search_defaults.jsonl.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import real

import dsstne
from dsstne.datasets import hold_out

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent
RECORD = FOLDER / "search_defaults.jsonl"

START: dict[str, Any] = {
    "hidden": 512,
    "temperature": 0.1,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "denoising": 0.5,
    "steps": 800,
}
CHANGES: list[dict[str, Any]] = [
    {},
    {"temperature": None},
    {"temperature": 0.07},
    {"temperature": 0.14},
    {"temperature": 0.2},
    {"learning_rate": 1e-3},
    {"learning_rate": 4e-3},
    {"schedule": None},
    {"schedule": None, "learning_rate": 1e-3},
    {"steps": 200},
    {"steps": 400},
    {"steps": 1600},
    {"denoising": 0.3},
    {"denoising": 0.7},
    {"hidden": 256},
    {"hidden": 1024},
    {"tied": True},
    {"activation": "linear"},
    {"activation": "relu"},
    {"weight_decay": 1e-5},
    {"batch_size": 256},
    {"epochs": 50},
    {"temperature": None, "learning_rate": 1e-3, "schedule": None, "epochs": 20},
]
"""The last is what `fit` did before the search."""


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(real.NAMES), choices=list(real.NAMES))
    parser.add_argument("--data", type=Path, default=FOLDER.parents[2] / "shared" / "data", help="folder of real data")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--changes", type=int, nargs="*", default=range(len(CHANGES)), help="numbers of changes")
    parser.add_argument("--table", action="store_true", help="print the table of all results and stop")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table()))
        return
    for name in args.sets:
        split = real.load(args.data, name)
        if split is None:
            print(f"{name}: not in {args.data}")
            continue
        for number in args.changes:
            for seed in range(args.seeds):
                line = {"set": name, "change": CHANGES[number], "seed": seed, **trial(split, CHANGES[number], seed)}
                print(json.dumps(line), flush=True)
                with RECORD.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def trial(split: real.Split, change: dict[str, Any], seed: int) -> dict[str, Any]:
    """Trains with one change and evaluates on the held-out part."""
    options = {**START, **change}
    steps = options.pop("steps")
    X, targets, (V_in, V_out), metrics = validation(split)
    batch = options.get("batch_size", 512)
    options.setdefault("epochs", max(1, round(steps / -(-X.shape[0] // batch))))
    begin = time.perf_counter()
    model = dsstne.fit(X, targets, **options, seed=seed, progress=False, devices="cpu")
    seconds = time.perf_counter() - begin
    return {"seconds": round(seconds, 2), "epochs": len(model.history), **dsstne.evaluate(model, V_in, V_out, metrics)}


def validation(split: real.Split) -> tuple[Any, Any, tuple[Any, Any], list[str]]:
    """What to train with, its targets, the validation data, and the metrics; the last one decides."""
    if split.targets is None:
        core = 10 if split.train.nnz >= 10 * split.train.shape[1] else 0
        shown, hidden = hold_out(split.train, 0.2, last=split.in_order, core=core)
        return shown, None, (shown, hidden), ["recall@20", "ndcg@20"]
    chosen = np.random.default_rng(0).random(split.train.shape[0]) < 0.2
    held_out = split.train[chosen], split.targets[chosen]
    return split.train[~chosen], split.targets[~chosen], held_out, ["precision@5", "ndcg@5"]


def table() -> Iterator[str]:
    """A line for each change: NDCG on each set, and the mean of its ratios to the start."""
    found: dict[tuple[str, str], list[float]] = {}
    for text in RECORD.read_text().splitlines():
        line = json.loads(text)
        value = next(line[key] for key in ("ndcg@20", "ndcg@5") if key in line)
        found.setdefault((json.dumps(line["change"]), line["set"]), []).append(value)
    sets = [name for name in real.NAMES if any(key[1] == name for key in found)]
    yield "| change | " + " | ".join(sets) + " | mean ratio |"
    yield "|---|" + "---|" * (len(sets) + 1)
    for change in CHANGES:
        key = json.dumps(change)
        means = {name: statistics.mean(found[key, name]) for name in sets if (key, name) in found}
        ratios = [value / statistics.mean(found["{}", name]) for name, value in means.items()]
        cells = [f"{means[name]:.4f}" if name in means else "" for name in sets]
        if ratios:
            yield f"| {words(change)} | {' | '.join(cells)} | {statistics.mean(ratios):.3f} |"


def words(change: dict[str, Any]) -> str:
    """A change as code."""
    return ", ".join(f"`{key}={value!r}`" for key, value in change.items()) or "none"


if __name__ == "__main__":
    main()
