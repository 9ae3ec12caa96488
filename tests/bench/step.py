"""One training step of DSSTNE's benchmark network beside PyTorch's: 27,278 - 3 x 1024 - 27,278, batch 256.

    python tests/bench/step.py
    python tests/bench/step.py --repeats 9 --steps 20
    python tests/bench/step.py --precision bfloat16

Sigmoid units, dropout 0.5, sigmoid cross entropy over all items, momentum 0.9. The data are synthetic, in the
shape of MovieLens-20M: Zipf's law for the items, rows of log-normal length with mean 144. The two sides take
turns; ours runs through `dsstne.fit`, of which the first epoch is not counted.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import ours
import torch_peer
from alternate import Contestant, ratios, spread
from peak import peak_gflops, threads_available
from settings import Network
from synthetic import interactions

ITEMS = 27_278
MEAN_LENGTH = 144
NETWORK = {
    "hidden": (1024, 1024, 1024),
    "activation": "sigmoid",
    "loss": "sigmoid",
    "scaling": None,
    "denoising": 0.0,
    "dropout": 0.5,
    "optimizer": "momentum",
    "learning_rate": 1e-4,
    "batch_size": 256,
}


def main() -> None:
    """Reads the command line, takes turns and prints times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="turns of each side (%(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps of a turn (%(default)s)")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    args = parser.parse_args()

    network = Network(**NETWORK, precision=args.precision)  # type: ignore[arg-type]
    X = interactions(args.steps * network.batch_size, ITEMS, MEAN_LENGTH)
    threads = threads_available()
    print(f"I - 3 x 1024 - I, {ITEMS:,} items, batch {network.batch_size}, {args.precision}, {threads} threads")
    print(f"synthetic data: {X.shape[0]:,} rows, mean length {X.nnz / X.shape[0]:.0f}", flush=True)
    flops = network.flops_per_example(ITEMS) * network.batch_size
    peaks: list[float] = []
    torch_times: list[float] = []
    our_times: list[float] = []

    def rate(seconds: float) -> str:
        return f"{1e3 * seconds:7.1f} ms, {flops / seconds / 1e9:5.0f} GFLOP/s"

    with (
        Contestant(torch_peer.make, X, network, threads) as torch,
        Contestant(ours.make, X, network, threads) as dsstne,
    ):
        for name, seconds in torch.call("variants").items():
            print(f"  PyTorch {name:<18} {rate(seconds)}")
        for turn in range(args.repeats):
            peaks.append(peak_gflops(threads) or math.nan)
            torch_times.append(torch.call("epoch")["seconds"] / args.steps)
            history = dsstne.call("fit", 2)
            our_times.append(network.batch_size / history[-1]["examples_per_second"])
            if not history[-1]["loss"] < history[0]["loss"]:
                raise SystemExit(f"the loss did not fall: {history[0]['loss']} to {history[-1]['loss']}")
            ratio = torch_times[-1] / our_times[-1]
            print(
                f"  turn {turn + 1}: PyTorch {rate(torch_times[-1])}; dsstne {rate(our_times[-1])}; ratio {ratio:.2f}",
                flush=True,
            )
        variant = torch.call("name")

    peak = np.nanmax(peaks)
    for side, times in ((f"PyTorch ({variant})", torch_times), ("dsstne", our_times)):
        seconds = float(np.median(times))
        print(f"{side:<32} {rate(seconds)}, {flops / seconds / 1e9 / peak:.0%} of the float32 peak")
    print(f"{'peak':<32} {peak:20.0f} GFLOP/s (multiply-adds on registers, the best of the turns)")
    print(f"{'ratio':<32} {spread(ratios(torch_times, our_times))}")


if __name__ == "__main__":
    main()
