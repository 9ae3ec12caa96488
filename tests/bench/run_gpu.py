"""The benchmarks on a CUDA device: ours beside PyTorch at its best, and beside the limits of the card, measured.

    make gpu-bench                                  # or: python3 tests/bench/run_gpu.py
    python3 tests/bench/run_gpu.py --only softmax --minutes 30
    python3 tests/bench/run_gpu.py --tiny           # on the emulator: to see that all of it works, without PyTorch

It needs Python with NumPy, SciPy and (for the peer) PyTorch, a driver, and the folder build/gpu that `make gpu-kit`
fills. Each case is a process of its own with a time limit; what fails or does not fit is told, and the others go on.
Ours is measured, and written to the report, before the peer begins. All cases take longer than a call: a further one on
the same day, with --only, adds its cases to the report. If that is not in the folder of --out, --earlier names its
folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import queue
import subprocess
import sys
import tempfile
import threading
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


def run(name: str, seconds: float, arguments: argparse.Namespace, limits: dict[str, Any]) -> Iterator[Any]:
    """The records of a case's process, as it writes them; then a string: why there are no more, empty if it is done."""
    command = [sys.executable, str(FOLDER / "run_gpu.py"), "--one", name, "--limits", json.dumps(limits)]
    command += ["--data", str(arguments.data), *["--tiny"] * arguments.tiny]
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            env=gpu_machine.environment(),
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=read_lines, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            while line := lines.get(timeout=max(0.0, deadline - time.monotonic())):
                if line.startswith(MARK):
                    yield json.loads(line.removeprefix(MARK))
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except (queue.Empty, subprocess.TimeoutExpired):
            trouble = f"stopped after {seconds:.0f} s"
        else:
            trouble = "failed" if process.returncode else ""
        if trouble:
            gpu_machine.kill_group(process.pid)  # also contestants that outlive a process which died
        process.wait()
        reader.join()
        errors.seek(0)
        last = errors.read().strip().splitlines()[-12:] or ["it died"]
    if trouble:
        print("\n".join("        " + line for line in last), flush=True)
    yield f"failed: {last[-1]}" if trouble == "failed" else trouble


def read_lines(file: Any, to: queue.Queue[str]) -> None:
    """Puts the lines of a file into a queue, and an empty string after them."""
    with file:
        for line in file:
            to.put(line)
    to.put("")


def run_all(
    chosen: list[Case], deadline: float, arguments: argparse.Namespace, limits: dict[str, Any]
) -> Iterator[tuple[list[dict[str, Any]], dict[str, str]]]:
    """After each record and each case: the records so far, and by case why there are none or not all."""
    records: dict[tuple[str, str], dict[str, Any]] = {}  # a later one about the same has more in it
    untold: dict[str, str] = {}
    for case in chosen:
        left = deadline - time.monotonic()
        if left < min(20, case.seconds / 3):
            untold[case.name] = NO_TIME
        else:
            print(case.name, flush=True)
            for record in run(case.name, min(left, case.seconds, arguments.each), arguments, limits):
                if not isinstance(record, str):
                    print(shown(record), flush=True)
                    records[case.name, record["case"]] = record
                elif record:
                    untold[case.name] = record
                    print(f"    {case.name}: {record}", flush=True)
                yield list(records.values()), untold
        yield list(records.values()), untold


def main() -> int:
    """Runs the cases, and writes the reports after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="cases with this in their names")
    parser.add_argument("--minutes", type=float, default=8.8, help="for all of it (default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, no PyTorch: to try the program on the emulator")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of real data")
    parser.add_argument("--each", type=float, default=math.inf, metavar="SECONDS", help="for any case")
    parser.add_argument("--out", type=Path, help="folder of the reports")
    parser.add_argument("--earlier", type=Path, help="folder of an earlier report, to which this one adds")
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
    earlier = gpu_reports.earlier(path, args.earlier)
    deadline = time.monotonic() + 60 * args.minutes
    *measured, trouble = run(LIMITS, min(90, 60 * args.minutes / 3), args, {})
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
