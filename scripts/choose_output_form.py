"""Measures the forms of the output op on the first CUDA device, and writes kernels/cuda/forms.txt.

    make build/opbench && python scripts/choose_output_form.py            # or --print, which writes nothing

Without Go, use the opbench in build/gpu, which `make gpu-kit` builds. Times of an emulated driver can be printed, not
written. Lines of other devices in the table stay. cuBLASLt has to be where the loader finds it (LD_LIBRARY_PATH). The
fastest form is the one with the fastest of several turns, in which the forms take part one after the other.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import gpu_machine  # noqa: E402
from measure.alternate import UnavailableError  # noqa: E402
from measure.ops import Op  # noqa: E402

TABLE = ROOT / "kernels" / "cuda" / "forms.txt"

UNITS = (32, 64, 128, 256, 512, 1024)
ROWS = (64, 256, 1024, 4096)
FORMS = {
    "float32": ("simple", "chunked"),
    "tensorfloat32": ("simple", "fused", "chunked"),
    "bfloat16": ("simple", "fused", "chunked"),
}


def fastest(precision: str, units: int, rows: int, items: int, turns: int) -> tuple[str, dict[str, float]]:
    """The form with the fastest turn, and the seconds of each."""
    # The fused form serves up to 256 units; asked for more it would be another form under its name.
    forms = [form for form in FORMS[precision] if form != "fused" or units <= 256]
    request = {"op": "output", "backend": "cuda", "loss": "softmax", "optimizer": "adam", "row_length": 30}
    shape = {"precision": precision, "units": units, "rows": rows, "items": items}
    contestants = {form: Op(form=form, **request, **shape) for form in forms}
    steps = {}
    for form, contestant in contestants.items():
        contestant.run(2)
        steps[form] = max(1, min(100, int(0.05 / contestant.run(1))))
    best = dict.fromkeys(forms, float("inf"))
    for _ in range(turns):
        for form, contestant in contestants.items():
            best[form] = min(best[form], contestant.run(steps[form]))
    for contestant in contestants.values():
        contestant.close()
    return min(best, key=best.__getitem__), best


def library() -> bool:
    """Whether the loader finds cuBLASLt; what is asked for as chunked would be another form without it."""
    for name in ("libcublasLt.so.12", "libcublasLt.so.13"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--units", type=int, nargs="*", default=UNITS)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--print", action="store_true", help="leave the table alone")
    options = parser.parse_args()
    gpu_machine.unpack_kit()
    machine = gpu_machine.look_elsewhere()
    if not machine.devices:
        parser.error(f"there is no CUDA device here: {machine.problem}")
    if machine.emulated and not options.print:
        parser.error("the driver is the emulator, whose times say nothing of hardware: only --print makes sense")
    if not library():
        parser.error("the loader does not find cuBLASLt, which the chunked form is made of; see LD_LIBRARY_PATH")
    major, minor = machine.devices[0].capability.split(".")
    kind, lines = 10 * int(major) + int(minor), []
    for precision in FORMS:
        for units in options.units:
            for rows in options.rows:
                form, seconds = fastest(precision, units, rows, options.items, options.turns)
                lines.append(f"{kind} {precision} {units} {rows} {form}\n")
                told = ", ".join(f"{name} {1e3 * s:.3f} ms" for name, s in seconds.items())
                print(f"{precision}, {units} units, {rows} rows: {told}", flush=True)
    if not options.print:
        others = [line for line in TABLE.read_text().splitlines(keepends=True) if not line.startswith(f"{kind} ")]
        TABLE.write_text("".join(others + lines))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UnavailableError as error:
        sys.exit(str(error))
