"""Real data: Gowalla check-ins in the 80/20 split of NGCF and LightGCN; an epoch beside PyTorch.

The data are for research and are not part of this repository: `--data` names a folder in which `gowalla-lightgcn` holds
train.txt.xz and test.txt.xz (a line is a user and her items, as numbers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure import ours, real
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from measure.network import Network
from peers import TORCH_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from measure.bench import Bench
    from scipy import sparse

TITLE = "(d) Gowalla, 29,858 users x 40,981 items: an epoch"
MISSING = "the Gowalla data are not there, see tests/bench/README.md"

SHAPE = (29_858, 40_981)
NETWORKS = {
    "plain": Network(hidden=(256,)),
    "cosine": Network(hidden=(512,), temperature=0.1, output_bias=False),
}
TITLES = {"plain": "I-256-I, tanh, soft-max", "cosine": "I-512-I, soft-max of cosines / 0.1"}
PART = 3072  # users of a quick run's epoch; the seconds are scaled to all


def load(folder: Path, which: str) -> sparse.csr_array | None:
    """Reads "train" or "test", with sorted rows; None where the data are not."""
    split = real.load(folder, "gowalla")
    if split is None:
        return None
    X: sparse.csr_array = getattr(split, which)
    X.sort_indices()
    return X


def lines(bench: Bench) -> Iterator[Line]:
    """One network on a part of the users; in full both, on all."""
    train, test = load(bench.data, "train"), load(bench.data, "test")
    if train is None or test is None:
        yield Line("epoch", unavailable=MISSING)
        return
    for name in NETWORKS if bench.full else ["plain"]:
        if bench.wants(f"an epoch, {TITLES[name]}"):
            yield epoch(bench, name, train, test)


def epoch(bench: Bench, name: str, train: sparse.csr_array, test: sparse.csr_array) -> Line:
    """Seconds of an epoch in turns; both sides' losses and metrics are told, so that one sees that they do the same."""
    import peers.torch_network as torch_network

    network = NETWORKS[name]
    X = train if bench.full else train[:PART]
    scale = SHAPE[0] / X.shape[0]
    repeats = bench.repeats(3, 4)
    arguments = (X, network, bench.threads)
    with (
        Contestant(torch_network.make, *arguments, environment=TORCH_ENVIRONMENT) as them,
        Contestant(ours.make, *arguments) as us,
    ):
        last: dict[str, dict[str, float]] = {}

        def turn(who: str, side: Contestant) -> float:
            last[who] = side.call("epoch")
            return scale * last[who]["seconds"]

        turns = take_turns(
            lambda: turn("dsstne", us), lambda: turn("PyTorch", them), bench.peak(network.precision), repeats
        )
        setting = them.call("name")
        if bench.full:
            for who, side in (("dsstne", us), ("PyTorch", them)):
                metrics = ", ".join(f"{k} {v:.4f}" for k, v in side.call("evaluate", test).items())
                bench.tell(f"{name}, {who} after {repeats + 1} epochs: loss {last[who]['loss']:.3f}, {metrics}")
    whole = network.operations(SHAPE[1]) / network.batch_size * SHAPE[0] / 1e9
    stored = network.operations(SHAPE[1], stored_logits=True) / network.batch_size * SHAPE[0] / 1e9
    return Line(
        f"an epoch, {TITLES[name]}",
        "s",
        turns.ours,
        turns.peer,
        setting,
        work=whole,
        peer_work=stored,
        limit=turns.limit,
        limit_name=bench.peak_name(network.precision),
        goal=Goal("share", 0.80, 0.87) if name == "plain" else None,
        parameters={**vars(network), "rows": X.shape[0], "items": SHAPE[1], "entries": X.nnz},
        note="" if bench.full else f"measured on {PART:,} of the users",
    )
