"""The first call on a new machine with a GPU: within nine minutes, what tells most comes first.

    make gpu-first OUT=FOLDER               # or, without make: python3 scripts/gpu_first.py --out FOLDER

1. what the machine is, and which libraries dsstne finds (doctor, libraries of gpu_check.py);
2. the kernels and the backend against the reference (cuda.test, conformance.test);
3. training, ranking and evaluation of small networks;
4. a step of the two first networks of the benchmarks in bfloat16, ours before PyTorch;
5. the kernels of these steps, one by one.

Each is a program of its own that writes its report, in the folder, whenever a part of it is done. A stage that takes
longer than its share is stopped, so the later ones have their time; what a stage leaves goes to the later ones.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import gpu_machine
from gpu_machine import ROOT

SECONDS, RESERVE = 540.0, 20.0  # of all, and of these for the beginning and the end
CHECK, BENCH, PROFILE = (
    str(ROOT / name) for name in ("scripts/gpu_check.py", "tests/bench/run_gpu.py", "scripts/gpu_profile.py")
)


def stages(emulated: bool) -> list[tuple[str, float, list[str]]]:
    """Of each: its name, its share of the time and its command, without that time."""
    tiny = ["--tiny"] * emulated
    return [
        ("probe", 0.10, [CHECK, "--only", "doctor", "--only", "libraries"]),
        ("kernels", 0.10, [CHECK, "--only", "kernels"]),
        ("conformance", 0.25, [CHECK, "--only", "conformance"]),
        ("training", 0.08, [CHECK, "--only", "training"]),
        # A case's peer may not take the time of the next case.
        ("steps", 0.32, [BENCH, "--only", "step bfloat16", "--only", "softmax 41k bfloat16", "--each", "105", *tiny]),
        ("profile", 0.15, [PROFILE, *tiny]),
    ]


def run(command: list[str], seconds: float) -> str:
    """How a program ended."""
    with subprocess.Popen(command, cwd=ROOT, env=gpu_machine.environment(), start_new_session=True) as process:
        try:
            return "FAILED" if process.wait(timeout=seconds) else "passed"
        except subprocess.TimeoutExpired:
            gpu_machine.kill_group(process.pid)
            return "stopped"


def main() -> int:
    """Runs the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the reports")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of it (default: %(default)s)")
    args = parser.parse_args()
    begin = time.monotonic()
    gpu_machine.need_kit()
    machine = gpu_machine.look_elsewhere()
    print("\n".join(machine.lines()), flush=True)
    if not machine.devices:
        return 1
    end = begin + args.seconds - RESERVE
    ended: list[str] = []
    todo = stages(machine.emulated)
    while todo:
        name, share, command = todo.pop(0)
        left = end - time.monotonic()
        # Its share of what is left, in proportion to those that follow.
        seconds = left * share / (share + sum(other for _, other, _ in todo)) if todo else left
        print(f"== {name}, at most {seconds:.0f} s", flush=True)
        stage_begin = time.monotonic()
        minutes = ["--minutes", f"{seconds / 60:.3f}", "--out", str(args.out.absolute())]
        state = run([sys.executable, *command, *minutes], seconds + RESERVE / 2)
        ended.append(f"{name:<12} {state:<8} {time.monotonic() - stage_begin:4.0f} s")
    print("\n".join([*ended, f"{time.monotonic() - begin:.0f} s; the reports are in {args.out}"]))
    return 0 if all(" passed " in line for line in ended) else 1


if __name__ == "__main__":
    sys.exit(main())
