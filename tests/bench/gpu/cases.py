"""The cases of run_gpu.py: what is trained or ranked on what, and how it is measured beside the peers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gpu_roofline as roofline
from measure.alternate import Contestant, Turns, UnavailableError, take_turns
from measure.lines import Line
from measure.network import Network
from measure.synthetic import interactions
from peers import device_rankers
from workloads import gowalla, step

from gpu import ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scipy import sparse

DSSTNE_USERS = 138_493  # of MovieLens-20M, which DSSTNE's benchmark trains an epoch on
SOFTMAX = Network(hidden=(256,))
TINY = {"items": 60, "rows": 40, "hidden": 8, "batch_size": 20}
RANKED_ROWS, K = roofline.RANKED_ROWS, 10


@dataclass(frozen=True)
class Setting:
    """How to measure: in earnest or, on the emulator, only to see that it works."""

    tiny: bool
    data: Path
    limits: dict[str, Any]  # what gpu.limits measured
    repeats: int = 5


@dataclass(frozen=True)
class Case:
    """One case, in the order of its importance."""

    name: str
    seconds: float  # at most
    lines: Callable[[Setting], Iterator[Line]]


def least(flops: float, size: float, precision: str, limits: dict[str, Any]) -> float:
    """Seconds at the measured limits; 0 where they were not measured."""
    rate = limits.get("flops", {}).get(precision, 0.0)
    width = max(limits.get("bandwidth", {}).values(), default=0.0)
    return max(flops / rate, size / width) if rate and width else 0.0


def finished(line: Line, turns: int, flops: float, size: float, precision: str, setting: Setting) -> Line:
    """Adds what the work needs at least; the limit is then the roofline at the measured limits."""
    line.parameters["precision"] = precision
    if setting.tiny:
        return line
    line.parameters |= {"flops": flops, "bytes": size}
    at_least = least(flops, size, precision, setting.limits)
    if at_least and not line.unavailable:
        line.work, line.limit = at_least, [1.0] * turns  # so that a share is at_least over seconds
        line.limit_name = "the roofline at the measured limits"
    return line


# ---- training ----


def training(
    title: str, network: Network, shape: roofline.Network, steps: int, *, precision: str, together: bool = True
) -> Callable[[Setting], Iterator[Line]]:
    """A step of a network of the roofline's page, on synthetic data."""

    def lines(setting: Setting) -> Iterator[Line]:
        used, items, rows, count = replace(network, precision=precision), shape.items, shape.rows, steps
        if setting.tiny:
            used = replace(used, hidden=(TINY["hidden"],) * len(used.hidden), batch_size=TINY["batch_size"])
            items, rows, count = TINY["items"], TINY["batch_size"], 2
        X = interactions(min(count, 24) * rows, items, min(shape.entries, items // 4))
        ops = shape.ops()
        flops, size = sum(op.flops for op in ops), sum(op.bytes for op in ops)
        line = race(title, X, used, lambda side: side.call("run", count), setting, together=together)
        line.parameters |= {"roofline": shape.title}
        yield finished(line, len(line.ours), flops, size, precision, setting)

    return lines


def race(
    title: str,
    X: sparse.csr_array,
    network: Network,
    turn: Callable[[Contestant], float],
    setting: Setting,
    *,
    unit: str = "ms",
    together: bool = True,
) -> Line:
    """Ours and PyTorch in turns; a side that cannot take part is told of, and the other is measured alone."""
    line = Line(title, unit, parameters={**vars(network), "rows": X.shape[0], "items": X.shape[1], "entries": X.nnz})
    with ExitStack() as stack:
        try:
            us = stack.enter_context(Contestant(ours.make, X, network))
            turn(us)
            line.parameters["memory"] = us.call("memory")
            line.parameters["edges"] = us.call("edges")
        except UnavailableError as error:
            line.unavailable = str(error)
            return line
        turns = Turns()
        if not together:  # both at once do not fit
            turns = take_turns(lambda: turn(us), repeats=setting.repeats)
            us.close()
        try:
            them = stack.enter_context(peer_of(setting)(X, network))
        except (UnavailableError, RuntimeError) as error:
            line.note = f"PyTorch not measured: {str(error).strip().splitlines()[-1]}"
            line.ours = turns.ours or take_turns(lambda: turn(us), repeats=setting.repeats).ours
            return line
        if together:
            turns = take_turns(lambda: turn(us), lambda: turn(them), repeats=setting.repeats)
        else:
            turns.peer = take_turns(lambda: turn(them), repeats=setting.repeats).ours
            line.note = "one after the other, not in turns"
        line.ours, line.peer, line.peer_name = turns.ours, turns.peer, them.call("name")
        line.parameters["peer_memory"] = them.call("memory")
    return line


def peer_of(setting: Setting) -> Callable[..., Contestant]:
    """PyTorch on the device; on the emulator there is none for it."""
    if setting.tiny:

        def missing(*_: Any) -> Contestant:
            raise UnavailableError("no such device")

        return missing
    from peers import torch_device

    return lambda *arguments: Contestant(torch_device.make, *arguments)


# ---- epochs ----


def epochs_of(
    title: str, network: Network, shape: roofline.Network, data: Callable[[Setting], tuple[sparse.csr_array, str]]
) -> Callable[[Setting], Iterator[Line]]:
    """A whole epoch, with beginning and end of the run."""

    def lines(setting: Setting) -> Iterator[Line]:
        X, note = data(setting)
        used = network
        if setting.tiny:
            X = interactions(TINY["rows"], TINY["items"], 10)
            used = replace(network, hidden=(TINY["hidden"],) * len(network.hidden), batch_size=TINY["batch_size"])
        fewer = replace(setting, repeats=min(3, setting.repeats))
        line = race(title, X, used, lambda side: side.call("epoch"), fewer, unit="s")
        line.note = "; ".join(filter(None, [line.note, note]))
        steps = X.shape[0] / used.batch_size
        ops = shape.ops()
        flops, size = steps * sum(op.flops for op in ops), steps * sum(op.bytes for op in ops)
        yield finished(line, len(line.ours), flops, size, used.precision, setting)

    return lines


def gowalla_data(setting: Setting) -> tuple[sparse.csr_array, str]:
    """The real data, or some of the same shape."""
    if setting.tiny:
        return interactions(TINY["rows"], TINY["items"], 10), ""
    X = gowalla.load(setting.data, "train")
    if X is None:
        return interactions(*gowalla.SHAPE, 27), "synthetic data of Gowalla's shape"
    return X, ""


def movielens_data(setting: Setting) -> tuple[sparse.csr_array, str]:
    """Data of MovieLens-20M's shape, whose download DSSTNE's page names and which is gone."""
    if setting.tiny:
        return gowalla_data(setting)
    return interactions(DSSTNE_USERS, step.ITEMS, step.MEAN_LENGTH), "synthetic data of MovieLens-20M's shape"


# ---- ranking ----


def ranking(items: int, units: int) -> Callable[[Setting], Iterator[Line]]:
    """Top-10 of so many items, seen ones left out, beside each peer."""

    def lines(setting: Setting) -> Iterator[Line]:
        rows, used = (8, 16) if setting.tiny else (RANKED_ROWS, units)
        arguments = (TINY["items"] if setting.tiny else items, used, rows, K)
        seconds = 0.02 if setting.tiny else 0.2
        repeats = min(setting.repeats, 3) if items > 1_000_000 else setting.repeats
        with Contestant(device_rankers.make, "dsstne", *arguments) as us:
            found = us.call("lists")

            def ours_turn() -> float:
                return float(us.call("run", seconds))

            for peer in ("PyTorch", "PyTorch bfloat16", "cuVS"):
                line = Line(f"top-10 of {items:,} items, {units} units, {rows} rows, beside {peer}", "ms")
                line.parameters = {"items": items, "units": units, "rows": rows, "k": K}
                if peer == "PyTorch":
                    line.parameters["roofline"] = f"{items:,} items, {units} units"
                try:
                    if setting.tiny:
                        raise UnavailableError("no such device")
                    with Contestant(device_rankers.make, peer, *arguments) as them:
                        if peer == "PyTorch":
                            line.note = alike(found, them.call("lists"))
                        turns = take_turns(ours_turn, lambda them=them: them.call("run", seconds), repeats=repeats)
                        line.peer_name = them.call("name")
                except (UnavailableError, RuntimeError) as error:
                    reason = str(error).strip().splitlines()[-1]
                    if peer != "PyTorch":
                        yield Line(line.case, unavailable=reason)
                        continue
                    line.note = f"{peer} not measured: {reason}"
                    turns = take_turns(ours_turn, repeats=repeats)
                line.ours, line.peer = turns.ours, turns.peer
                flops, size = 2.0 * RANKED_ROWS * units * items, 4.0 * items * units
                yield finished(line, len(line.ours), flops, size, "float32", setting)

    return lines


def alike(ours_: tuple[Any, Any], theirs: tuple[Any, Any]) -> str:
    """How alike two results are, by the rounding of float32 sums."""
    same = (ours_[0] == theirs[0]).mean()
    return "all ids equal" if same == 1 else f"{same:.2%} of the ids equal"


# ---- the list ----

BENCHMARK, SMALL, MILLION, TEN_MILLION = roofline.NETWORKS


def step_case(name: str, precision: str, seconds: float, steps: int, *, together: bool = True) -> Case:
    """A step of one of the roofline's networks."""
    network, shape = {
        "step": (step.NETWORK, BENCHMARK),
        "softmax 41k": (SOFTMAX, SMALL),
        "softmax 1m": (SOFTMAX, MILLION),
        "softmax 10m": (SOFTMAX, TEN_MILLION),
    }[name]
    title = f"a step of {shape.title}, {precision}"
    made = training(title, network, shape, steps, precision=precision, together=together)
    return Case(f"{name} {precision}", seconds, made)


def ranking_case(name: str, shape: tuple[int, int], seconds: float) -> Case:
    """Top-k of one of the roofline's shapes."""
    return Case(f"topk {name}", seconds, ranking(*shape))


CASES = [
    step_case("step", "bfloat16", 100, 40),
    step_case("softmax 41k", "bfloat16", 90, 60),
    step_case("softmax 1m", "bfloat16", 120, 16),
    ranking_case("27k", roofline.RANKED[0], 60),
    ranking_case("1m", roofline.RANKED[1], 80),
    Case("gowalla", 60, epochs_of("an epoch of Gowalla, I-256-I, soft-max, float32", SOFTMAX, SMALL, gowalla_data)),
    step_case("step", "float32", 80, 20),
    step_case("softmax 41k", "float32", 80, 40),
    Case(
        "dsstne epoch",
        120,
        epochs_of(
            "an epoch of DSSTNE's benchmark, 138,493 users, bfloat16",
            replace(step.NETWORK, precision="bfloat16"),
            BENCHMARK,
            movielens_data,
        ),
    ),
    step_case("softmax 10m", "bfloat16", 180, 4, together=False),
    ranking_case("10m", roofline.RANKED[2], 150),
    step_case("step", "tensorfloat32", 80, 20),
    step_case("softmax 1m", "float32", 120, 8),
]
