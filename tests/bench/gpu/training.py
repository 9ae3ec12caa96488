"""Steps and epochs beside PyTorch."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from measure.alternate import Contestant, Turns, UnavailableError, take_turns
from measure.lines import Line
from measure.synthetic import interactions
from workloads import gowalla, step

from gpu import ours
from gpu.setting import TINY, Setting, finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import gpu_cases as roofline
    from measure.network import Network
    from scipy import sparse

DSSTNE_USERS = 138_493  # of MovieLens-20M, which DSSTNE's benchmark trains an epoch on

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
        for line in race(title, X, used, lambda side: side.call("run", count), setting, together=together):
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
) -> Iterator[Line]:
    """Ours alone, which is written before PyTorch begins; then again, with PyTorch in turns.

    A side that cannot take part is told of, and the other is measured alone.
    """
    line = Line(title, unit, parameters={**vars(network), "rows": X.shape[0], "items": X.shape[1], "entries": X.nnz})
    with ExitStack() as stack:
        try:
            us = stack.enter_context(Contestant(ours.make, X, network))
            turn(us)
            line.parameters["memory"] = us.call("memory")
            line.parameters["edges"] = us.call("edges")
            line.note = form = us.call("form")
        except UnavailableError as error:
            line.unavailable = str(error)
            yield line
            return
        line.ours = take_turns(lambda: turn(us), repeats=setting.repeats).ours
        yield replace(line, note=f"{form}; PyTorch not measured yet")
        if not together:  # both at once do not fit
            us.close()
        try:
            them = stack.enter_context(peer_of(setting)(X, network))
            if together:
                turns = take_turns(lambda: turn(us), lambda: turn(them), repeats=setting.repeats)
            else:
                turns = Turns(line.ours, take_turns(lambda: turn(them), repeats=setting.repeats).ours)
                line.note = f"{form}; one after the other, not in turns"
            line.parameters["peer_memory"] = them.call("memory")
            line.peer_name = them.call("name")
            line.ours, line.peer = turns.ours, turns.peer
        except (UnavailableError, RuntimeError) as error:
            line.note = f"{form}; PyTorch not measured: {str(error).strip().splitlines()[-1]}"
        yield line


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
        steps = X.shape[0] / used.batch_size
        ops = shape.ops()
        flops, size = steps * sum(op.flops for op in ops), steps * sum(op.bytes for op in ops)
        for line in race(title, X, used, lambda side: side.call("epoch"), fewer, unit="s"):
            line.note = "; ".join(filter(None, [line.note, note]))
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
