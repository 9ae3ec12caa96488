"""The benchmarks on a CUDA device: ours beside PyTorch at its best, and beside the limits of the card, measured.

    make gpu-bench                                  # or: python3 tests/bench/run_gpu.py
    python3 tests/bench/run_gpu.py --only softmax --minutes 30
    python3 tests/bench/run_gpu.py --tiny           # on the emulator: to see that all of it works, without PyTorch

It needs Python with NumPy, SciPy and (for the peer) PyTorch, a driver, and the folder build/gpu that `make gpu-kit`
fills. Each case is a process of its own with a time limit; what fails or does not fit is told, and the others go on.
All cases take longer than a call: a further one on the same day, with --only, adds its cases to the report.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "python")]

import gpu_machine  # noqa: E402
import gpu_reports  # noqa: E402
from gpu.cases import CASES, Case  # noqa: E402
from gpu.report import NO_TIME, limit_lines, merged, page, shown  # noqa: E402
from gpu.setting import Setting  # noqa: E402
from measure.alternate import Contestant  # noqa: E402

MARK = "record: "  # begins a line of a case's output that is for this program
LIMITS = "limits"
SMOKE = "**On the emulator of tests/cudaemu, at toy sizes: this is not a measurement.**"


def one(name: str, setting: Setting) -> int:
    """A case, in a process of its own."""
    if name == LIMITS:
        from gpu import limits

        with Contestant(limits.make, setting.tiny) as measuring:
            print(MARK + json.dumps(measuring.call("measure")), flush=True)
        return 0
    case = next(case for case in CASES if case.name == name)
    for line in case.lines(setting):
        print(MARK + json.dumps({**line.record(), "case": line.case, "workload": name}), flush=True)
    return 0


def run(name: str, seconds: float, arguments: argparse.Namespace, limits: dict[str, Any]) -> tuple[list[Any], str]:
    """What a case's process says, and why it says no more."""
    command = [sys.executable, str(FOLDER / "run_gpu.py"), "--one", name, "--limits", json.dumps(limits)]
    command += ["--data", str(arguments.data), *["--tiny"] * arguments.tiny]
    process = subprocess.Popen(
        command,
        env=gpu_machine.environment(),
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
        last = (errors.strip().splitlines() or ["it died"])[-1]
        trouble = "" if process.returncode == 0 else f"failed: {last}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        trouble = f"stopped after {seconds:.0f} s"
    if trouble:
        print("\n".join("        " + line for line in errors.strip().splitlines()[-12:]), flush=True)
    return [json.loads(line.removeprefix(MARK)) for line in output.splitlines() if line.startswith(MARK)], trouble


def run_all(
    chosen: list[Case], deadline: float, arguments: argparse.Namespace, limits: dict[str, Any]
) -> Iterator[tuple[list[dict[str, Any]], dict[str, str]]]:
    """After each case: the records so far, and by case why there are none or not all."""
    records: list[dict[str, Any]] = []
    untold: dict[str, str] = {}
    for case in chosen:
        left = deadline - time.monotonic()
        if left < min(20, case.seconds / 3):
            untold[case.name] = NO_TIME
        else:
            print(case.name, flush=True)
            lines, trouble = run(case.name, min(left, case.seconds), arguments, limits)
            for record in lines:
                print(shown(record), flush=True)
            records += lines
            if trouble:
                untold[case.name] = trouble
                print(f"    {case.name}: {trouble}", flush=True)
        yield records, untold


def main() -> int:
    """Runs the cases, and writes the reports after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="cases with this in their names")
    parser.add_argument("--minutes", type=float, default=8.8, help="for all of it (default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, no PyTorch: to try the program on the emulator")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of real data")
    parser.add_argument("--out", type=Path, help="folder of the reports")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--limits", type=json.loads, default={}, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return one(args.one, Setting(args.tiny, args.data, args.limits, repeats=2 if args.tiny else 5))
    gpu_machine.need_kit()
    machine = gpu_machine.look_elsewhere()
    print("\n".join(machine.lines()), flush=True)
    if not machine.devices:
        return 1
    if machine.emulated and not args.tiny:
        parser.error("the driver is the emulator, which says nothing about speed: only --tiny makes sense")
    chosen = [case for case in CASES if not args.only or any(word in case.name for word in args.only)]
    if not chosen:
        parser.error(f"there are {', '.join(case.name for case in CASES)}")

    folder = args.out or (gpu_machine.KIT / "reports" if args.tiny else machine.folder())
    path = folder / f"bench-{machine.file_name}{'-tiny' * args.tiny}.md"
    earlier = gpu_reports.earlier(path)
    deadline = time.monotonic() + 60 * args.minutes
    measured, trouble = run(LIMITS, 90, args, {})
    limits = measured[0] if measured else {"missing": [trouble]}
    print("\n".join(limit_lines(limits)), flush=True)
    title = f"Benchmarks on a CUDA device: {machine.file_name}"
    about = [*[SMOKE, ""] * args.tiny, "By `tests/bench/run_gpu.py`.", "", *machine.lines()]
    for records, untold in run_all(chosen, deadline, args, limits):
        found = {
            "emulated": machine.emulated or args.tiny,
            "machine": dataclasses.asdict(machine),
            "limits": limits,
            "cases": records,
            "not measured": untold,
        }
        everything = merged(earlier, found, [case.name for case in CASES])
        # Now, since the call may be ended before the next case is.
        gpu_reports.write(path, page(title, about, everything), everything)
    print(f"the reports are {path} and {path.with_suffix('.json').name}")
    return 1 if trouble or set(untold.values()) - {NO_TIME} else 0


if __name__ == "__main__":
    sys.exit(main())
