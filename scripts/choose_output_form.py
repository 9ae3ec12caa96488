"""Measures the forms of the output op on the first CUDA device, and writes kernels/cuda/forms.txt.

    make build/opbench && python scripts/choose_output_form.py            # or --print, which writes nothing
    python3 scripts/choose_output_form.py --out FOLDER                    # writes FOLDER/forms.txt

Without Go, use the opbench in build/gpu, which `make gpu-kit` builds. Times of an emulated driver can be printed, not
written. Lines of other devices and shapes in the table stay; shapes that the table does not have yet are measured
first, so that a second call goes on where the first had no more time. The shapes of the benchmarks come first, then the
others, small ones first. Each line is written as soon as it is known.

The fastest form is the one with the least median over several turns. In each turn all forms work, and another is the
first. A turn ends when the device has done its work.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import gpu_cases  # noqa: E402
import gpu_machine  # noqa: E402
from measure.alternate import UnavailableError  # noqa: E402
from measure.ops import Op  # noqa: E402

TABLE = ROOT / "kernels" / "cuda" / "forms.txt"

UNITS = (32, 64, 128, 256, 512, 1024)
ROWS = (64, 256, 1024, 4096)
ITEMS = 100_000
PRECISIONS = ("bfloat16", "float32", "tensorfloat32")  # in the order of their importance
TURN = 0.05  # seconds of a form in a turn, at least a step
RESERVE = 20.0  # seconds that a shape may take


@dataclass(frozen=True)
class Shape:
    """An output whose forms are compared."""

    precision: str
    units: int
    rows: int
    items: int
    loss: str = "softmax"
    optimizer: str = "adam"

    def __str__(self) -> str:
        return f"{self.precision}, {self.units} units, {self.rows} rows, {self.items:,} items"

    @property
    def key(self) -> str:
        """What a line of the table is about, after the kind of device."""
        return f"{self.precision} {self.units} {self.rows} {self.items}"

    def forms(self) -> list[str]:
        """The forms that serve it."""
        fused = self.precision != "float32" and self.units <= 256
        return ["simple", *["fused"] * fused, "chunked"]


def shapes(units: list[int], rows: list[int], items: int) -> list[Shape]:
    """All shapes: those of the benchmarks, then the others by the work of a step."""
    step, small, million, _ = gpu_cases.NETWORKS
    first = [
        Shape(p, n.hidden[-1], n.rows, n.items, "softmax" if n.softmax else "sigmoid", n.optimizer.lower())
        for n in (step, small, million)
        for p in PRECISIONS[:2]
    ]
    first.sort(key=lambda shape: PRECISIONS.index(shape.precision))
    others = [Shape(p, u, r, items) for p, u, r in itertools.product(PRECISIONS, units, rows)]
    return first + sorted(others, key=lambda shape: shape.units * shape.rows)


def measure(shape: Shape, turns: int, deadline: float) -> dict[str, float]:
    """The median seconds of a step in each form; forms that are not available raise UnavailableError."""
    request = {"op": "output", "backend": "cuda", "row_length": 30, **vars(shape)}
    with ExitStack() as stack:
        contestants = {form: stack.enter_context(Op(form=form, **request)) for form in shape.forms()}
        steps, seconds = {}, {}
        for form, contestant in contestants.items():
            if contestant.form.split(",")[0] != form:
                raise UnavailableError(f"{shape}: asked for {form}, opbench computes {contestant.form}")
            contestant.run(3)  # the first steps load code, and capture the graph
            steps[form], seconds[form] = max(1, min(100, int(TURN / contestant.run(1)))), []
        names = list(contestants)
        for turn in range(turns):
            if turn and time.monotonic() > deadline:
                break
            for form in names[turn % len(names) :] + names[: turn % len(names)]:
                seconds[form].append(contestants[form].run(steps[form]))
        return {form: statistics.median(taken) for form, taken in seconds.items()}


def with_line(table: str, kind: int, shape: Shape, form: str) -> str:
    """The table with a new line, which takes the place of one about the same shape."""
    begin = f"{kind} {shape.key} "
    return "".join(
        [*(line for line in table.splitlines(keepends=True) if not line.startswith(begin)), f"{begin}{form}\n"]
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=ITEMS, help="of the shapes that --units and --rows name")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--units", type=int, nargs="*", default=UNITS)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--minutes", type=float, default=8.0, help="for all of it (default: %(default)s)")
    parser.add_argument("--only-these", action="store_true", help="without the shapes of the benchmarks")
    parser.add_argument("--print", action="store_true", help="leave the table alone")
    parser.add_argument("--out", type=Path, help="folder of the table that is written, instead of the library's")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    gpu_machine.unpack_kit()
    gpu_machine.use_environment()
    machine = gpu_machine.look_elsewhere()
    if not machine.devices:
        parser.error(f"there is no CUDA device here: {machine.problem}")
    if machine.emulated and not options.print:
        parser.error("the driver is the emulator, whose times say nothing of hardware: only --print makes sense")
    target = options.out / TABLE.name if options.out else TABLE
    table = (target if target.exists() else TABLE).read_text()
    kind = round(10 * float(machine.devices[0].capability))
    found = shapes(options.units, options.rows, options.items)
    if options.only_these:
        found = [shape for shape in found if shape.items == options.items]
    for shape in sorted(found, key=lambda shape: f"{kind} {shape.key} " in table):
        if time.monotonic() > deadline - min(RESERVE, 6 * options.minutes):
            print("no time is left for more; a further call goes on here")
            break
        try:
            seconds = measure(shape, options.turns, deadline)
        except UnavailableError as error:
            if "not found" in str(error) or "turned off" in str(error):
                raise  # the same for all shapes
            print(f"{shape}: not measured: {error}", flush=True)
            continue
        print(f"{shape}: " + ", ".join(f"{name} {1e3 * s:.3f} ms" for name, s in seconds.items()), flush=True)
        if not options.print:
            table = with_line(table, kind, shape, min(seconds, key=seconds.__getitem__))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UnavailableError as error:
        sys.exit(str(error))
