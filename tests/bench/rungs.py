"""Is the order of candidates at the rungs of a search that of whole trainings? Measured on Gowalla.

    python tests/bench/rungs.py              # measures what is missing in rungs.jsonl: half an hour on two cores
    python tests/bench/rungs.py --table      # the table of docs/search.md from the results

Each candidate is trained to all rungs, as `dsstne.search` would do if it promoted everybody, and once by `dsstne.fit`
with its defaults, whose cosine schedule knows the length beforehand. Items are held out of the training data by the
protocol of `dsstne.search`; the test set is not used.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measure import real
from scipy.stats import spearmanr

import dsstne
from dsstne._candidates import Data, Lengths, advance, measured
from dsstne._space import seed_of
from dsstne._validation import prepare

FOLDER = Path(__file__).resolve().parent
RECORD = FOLDER / "rungs.jsonl"
CANDIDATES = 12
COMPUTE: dict[str, Any] = {"devices": "auto", "threads": None, "memory_limit": None}


def candidates() -> list[dict[str, Any]]:
    """Draws settings at random, from ranges that a user might search."""
    draw = np.random.default_rng(0)
    return [
        {
            "hidden": int(draw.choice([64, 128, 256])),
            "learning_rate": float(np.exp(draw.uniform(np.log(5e-4), np.log(1e-2)))),
            "temperature": float(np.exp(draw.uniform(np.log(0.05), np.log(0.4)))),
            "denoising": float(draw.uniform(0.2, 0.8)),
        }
        for _ in range(CANDIDATES)
    ]


def measure(folder: Path) -> None:
    """Measures the candidates that are not in the record."""
    task = prepare(real.load(folder, "gowalla").train, None, None, 0)
    fold = task.folds[0]
    data = Data(dsstne.Dataset(fold.train), fold.inputs, fold.held_out, None, "ndcg@20")
    lengths = Lengths.choose(task.train.shape[0], "auto", "auto", 3, {})
    known = {line["candidate"] for line in record()}
    for number, settings in enumerate(candidates()):
        if number in known:
            continue
        line: dict[str, Any] = {"candidate": number, "settings": settings, "values": [], "seconds": []}
        with tempfile.TemporaryDirectory() as place:
            source = None
            for rung in range(lengths.rungs):
                target = Path(place) / f"{rung}.dsstne"
                done = advance(data, settings, lengths, rung, seed_of(0, number), COMPUTE, source=source, target=target)
                source = target
                line["values"].append(done.value)
                line["seconds"].append(done.seconds)
        model = dsstne.fit(data.train, **settings, epochs=lengths.epochs, seed=seed_of(0, number), progress=False)
        line["fit"], line["fit_seconds"] = measured(data, model, COMPUTE), model.history[-1]["seconds"]
        line["steps"] = [lengths.steps(rung, 512) for rung in range(lengths.rungs)]
        with RECORD.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)


def record() -> list[dict[str, Any]]:
    """Returns what was measured."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()] if RECORD.exists() else []


def table() -> None:
    """Prints Spearman's rank correlations."""
    lines = record()
    values = np.array([[*line["values"], line["fit"]] for line in lines])
    steps = lines[0]["steps"]
    names = [f"rung of {n} steps" for n in steps] + [f"`fit`, {steps[-1]} steps with a cosine schedule"]
    print(
        f"| {len(lines)} candidates on Gowalla, NDCG@20 of held-out items | rank correlation with the last rung "
        "| with `fit` | best value | place of the candidate that is best by `fit` |"
    )
    print("|---|---|---|---|---|")
    for n, name in enumerate(names):
        last, full = (spearmanr(values[:, n], values[:, other])[0] for other in (len(names) - 2, len(names) - 1))
        place = 1 + int(np.sum(values[:, n] > values[np.argmax(values[:, -1]), n]))
        print(f"| {name} | {last:.2f} | {full:.2f} | {values[:, n].max():.4f} | {place} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER.parents[1].parent / "shared" / "data")
    parser.add_argument("--table", action="store_true", help="print the table from the record")
    given = parser.parse_args()
    if not given.table:
        measure(given.data)
    table()
