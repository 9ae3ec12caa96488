"""DSSTNE's training benchmark from its network file: seconds of an epoch, beside what DSSTNE's authors have published.

The network is 27,278 - 3 x 1024 - 27,278 with sigmoid units, dropout 0.5 and scaled marginal cross-entropy. A batch has
256 rows. The data have the shape of MovieLens 20M: 138,493 rows with 20 million ones, drawn at random. DSSTNE's figures
are read off the charts of its talks of 2016 and 2017, so they are good to 5 %, and they are of other hardware.

    .venv/bin/python tests/bench/dsstne_benchmark.py                  # some steps and their rows; an epoch is computed
    .venv/bin/python tests/bench/dsstne_benchmark.py --epochs 1       # whole epochs; to draw all rows takes minutes
"""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any

from measure.synthetic import interactions

import dsstne

USERS, ITEMS, MEAN_LENGTH, BATCH = 138_493, 27_278, 144, 256

GAUSSIAN = {"Scheme": "Gaussian", "Scale": 0.01}
HIDDEN = {"Kind": "Hidden", "N": 1024, "Activation": "Sigmoid", "pDropout": 0.5, "WeightInit": GAUSSIAN}
NETWORK: dict[str, Any] = {
    "Version": 0.7,
    "Name": "benchmark",
    "Kind": "FeedForward",
    "ShuffleIndices": False,
    "ScaledMarginalCrossEntropy": {"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 1.0, "zeroScale": 1.0},
    "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "input", "Sparse": True},
        *({"Name": f"Hidden{n}", **HIDDEN} for n in (1, 2, 3)),
        {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "output", "Activation": "Sigmoid"}
        | {"WeightInit": {**GAUSSIAN, "Bias": -10.2}},
    ],
    "ErrorFunction": "ScaledMarginalCrossEntropy",
}

# Seconds of an epoch by hardware, with 1, 2, 4 and 8 GPUs; None: not published.
PUBLISHED = {
    "DSSTNE, Tesla M40": (12.5, 6.5, 4, None),
    "DSSTNE, Tesla K80": (23, 14, None, 4.5),
    "DSSTNE, GRID K520": (43, 28, 19.5, None),
    "TensorFlow, Tesla M40": (66, None, None, None),
    "TensorFlow, Tesla K80": (67, None, None, None),
    "TensorFlow, GRID K520": (95, None, None, None),
}


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="auto", help="as for dsstne.fit")
    parser.add_argument("--precision", default="float32", help="as for dsstne.fit")
    parser.add_argument("--steps", type=int, default=10, help="steps of a turn")
    parser.add_argument("--epochs", type=int, default=0, help="train whole epochs instead")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    rows = USERS if args.epochs else min(USERS, (2 + args.turns * args.steps) * BATCH)
    X = interactions(rows, ITEMS, MEAN_LENGTH)
    model = dsstne.fit(X, network=NETWORK, epochs=0, devices="cpu", progress=False)
    options = {"optimizer": "sgd", "learning_rate": 0.025, "weight_decay": 0.0001, "batch_size": BATCH}
    all_steps = math.ceil(USERS / BATCH)
    with dsstne.Trainer(model, X, devices=args.devices, precision=args.precision, shuffle=False, **options) as trainer:
        device = ", ".join(one["name"] for one in trainer.plan()["devices"])
        trainer.run(steps=2)  # which makes what the others find
        seconds = []
        for _ in range(args.turns):
            if args.epochs:
                seconds.append(trainer.run(epochs=args.epochs).seconds / args.epochs)
            else:
                seconds.append(trainer.run(steps=args.steps).seconds / args.steps * all_steps)
    how = "whole epochs" if args.epochs else f"{all_steps:,} steps, from turns of {args.steps}"
    found = f"{statistics.median(seconds):,.1f} s ({min(seconds):,.1f}-{max(seconds):,.1f})"
    print(f"dsstne {dsstne.__version__}, {device}, {args.precision}: {found}, {how}")
    print("\nPublished, on other hardware: seconds of an epoch with 1, 2, 4 and 8 GPUs")
    for name, each in PUBLISHED.items():
        print(f"  {name:24}" + "".join(f"{'' if one is None else one:>8}" for one in each))


if __name__ == "__main__":
    main()
