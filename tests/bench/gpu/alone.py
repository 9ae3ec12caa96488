"""The output layer alone, and ranking beside the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gpu_cases as roofline
from measure.alternate import Contestant, UnavailableError, take_turns
from measure.lines import Line
from measure.ops import Op
from peers import device_rankers

from gpu.setting import TINY, Setting, finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RANKED_ROWS, K = roofline.RANKED_ROWS, 10

# ---- the output layer alone ----


def output(shape: roofline.Network, precision: str, steps: int) -> Callable[[Setting], Iterator[Line]]:
    """Logits, loss, gradients and update, by `opbench`; with soft-max, the statistics too."""

    def lines(setting: Setting) -> Iterator[Line]:
        request = {
            "op": "output",
            "backend": "cuda",
            "loss": "softmax" if shape.softmax else "sigmoid",
            "optimizer": shape.optimizer.lower(),
            "precision": precision,
            "rows": TINY["batch_size"] if setting.tiny else shape.rows,
            "units": TINY["hidden"] if setting.tiny else shape.hidden[-1],
            "items": TINY["items"] if setting.tiny else shape.items,
            "row_length": min(shape.entries, 20) if setting.tiny else shape.entries,
        }
        line = Line(f"the output layer of {shape.title}, {precision}", "ms", parameters=request)
        try:
            with Op(**request) as op:
                line.note = f"output: {op.form}"
                turns = take_turns(lambda: op.run(2 if setting.tiny else steps), repeats=setting.repeats)
        except UnavailableError as error:
            line.unavailable = str(error)
            yield line
            return
        line.ours = turns.ours
        ops = [op for op in shape.ops() if op.name.startswith("Output")]
        line.parameters |= {"roofline": shape.title, "op": " and ".join(op.name for op in ops)}
        flops, size = sum(op.flops for op in ops), sum(op.bytes for op in ops)
        yield finished(line, len(line.ours), flops, size, precision, setting)

    return lines


# ---- ranking ----


def ranking(items: int, units: int) -> Callable[[Setting], Iterator[Line]]:
    """Top-10 of all items without those seen, beside each peer.

    The model is float32 and the lists are exact, but nearly all operations are the bfloat16 products that screen items
    (kernels/cuda/src/screen.cu), so the limit is that of bfloat16.
    """

    def lines(setting: Setting) -> Iterator[Line]:
        rows, used = (8, 16) if setting.tiny else (RANKED_ROWS, units)
        arguments = (TINY["items"] if setting.tiny else items, used, rows, K)
        seconds = 0.02 if setting.tiny else 0.2
        repeats = min(setting.repeats, 3) if items > 1_000_000 else setting.repeats
        flops, size = 2.0 * RANKED_ROWS * units * items, 4.0 * items * units
        with Contestant(device_rankers.make, "dsstne", *arguments) as us:
            found = us.call("lists")

            def ours_turn() -> float:
                return float(us.call("run", seconds))

            for peer in ("PyTorch", "PyTorch bfloat16", "cuVS"):
                line = Line(f"top-10 of {items:,} items, {units} units, {rows} rows, beside {peer}", "ms")
                line.parameters = {"items": items, "units": units, "rows": rows, "k": K}
                if peer == "PyTorch":
                    line.parameters["roofline"] = f"{items:,} items, {units} units"
                    line.ours = take_turns(ours_turn, repeats=repeats).ours
                    line.note = f"{peer} not measured yet"
                    yield finished(line, len(line.ours), flops, size, "bfloat16", setting)
                    line.note = ""
                try:
                    if setting.tiny:
                        raise UnavailableError("no such device")
                    with Contestant(device_rankers.make, peer, *arguments) as them:
                        if peer == "PyTorch":
                            line.note = alike(found, them.call("lists"))
                        turns = take_turns(ours_turn, lambda them=them: them.call("run", seconds), repeats=repeats)
                        line.peer_name = them.call("name")
                        line.ours, line.peer = turns.ours, turns.peer
                except (UnavailableError, RuntimeError) as error:
                    reason = str(error).strip().splitlines()[-1]
                    if peer != "PyTorch":
                        yield Line(line.case, unavailable=reason)
                        continue
                    line.note = f"{peer} not measured: {reason}"
                yield finished(line, len(line.ours), flops, size, "bfloat16", setting)

    return lines


def alike(ours_: tuple[Any, Any], theirs: tuple[Any, Any]) -> str:
    """How alike two results are, by the rounding of float32 sums."""
    same = (ours_[0] == theirs[0]).mean()
    return "all ids equal" if same == 1 else f"{same:.2%} of the ids equal"
