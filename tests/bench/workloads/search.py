"""A hyperparameter search: a prepared list of trials and rungs, replayed beside PyTorch with Optuna."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measure import real, searches
from measure.alternate import Contestant
from measure.lines import Goal, Line
from peers import TORCH_ENVIRONMENT

from dsstne.datasets import hold_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(m) a search: trials a minute, and memory"
# The dataset, trials in full and in a quick run, the largest hidden layer, rungs.
CASES = {"lastfm": (100, 20, 256, 3), "gowalla": (12, 0, 256, 3)}


def lines(bench: Bench) -> Iterator[Line]:
    """Each dataset once; a turn of both sides is minutes."""
    for name, (many, few, hidden, rungs) in CASES.items():
        count = many if bench.full else few
        if count and bench.wants(f"a search, {name}"):
            yield from search(bench, name, count, hidden, rungs)


def search(bench: Bench, name: str, count: int, hidden: int, rungs: int) -> Iterator[Line]:
    """Trials a minute and peak memory."""
    import peers.torch_search as torch_search

    split = real.load(bench.data, name)
    case = f"a search, {name}"
    if split is None:
        yield Line(case, unavailable=f"the data of {name} are not there, see tests/bench/README.md")
        return
    train, held_out = hold_out(split.train, seed=0)
    whole = min(50, max(8, round(800 / -(-train.shape[0] // 512))))
    reached = [2 if number % 9 == 0 else 1 if number % 3 == 0 else 0 for number in range(count)]
    replay = searches.Replay(train, held_out, searches.trials(count, hidden), reached, whole, rungs, bench.threads)
    ours, theirs = [], []
    with (
        Contestant(torch_search.make, replay, environment=TORCH_ENVIRONMENT) as them,
        Contestant(searches.make, replay) as us,
    ):
        for _ in range(1 if name == "gowalla" else bench.repeats(1, 3)):
            ours.append(us.call("run"))
            theirs.append(them.call("run"))
        setting = them.call("name")
    bench.tell(
        f"{name}: best ndcg@20 {ours[-1]['best']:.4f}, PyTorch {theirs[-1]['best']:.4f} (its rungs do not cool down)"
    )
    yield Line(
        f"{case}: {count} trials",
        "trials/min",
        [60 * count / one["seconds"] for one in ours],
        [60 * count / one["seconds"] for one in theirs],
        setting,
        rate=True,
        goal=Goal("ratio", 3, 5),
        parameters={"trials": count, "hidden": hidden, "epochs": whole, "rungs": rungs},
    )
    yield Line(
        f"{case}: peak memory, share of PyTorch's",
        "%",
        [100 * one["peak"] / other["peak"] for one, other in zip(ours, theirs, strict=True)],
        goal=Goal("value", 20, 10),
        parameters={"ours": ours[-1]["peak"], "theirs": theirs[-1]["peak"]},
        note=f"{ours[-1]['peak'] / 2**20:,.0f} and {theirs[-1]['peak'] / 2**20:,.0f} MiB",
    )
