"""Checks a machine's CUDA devices: kernels against the reference, the sanitizers, training, and PyTorch beside us.

    make gpu-check                          # or, without make: python3 scripts/gpu_check.py
    python3 scripts/gpu_check.py --only conformance --minutes 5
    python3 scripts/gpu_check.py --only racecheck     # a tool of compute-sanitizer: one in a call

It needs Python with NumPy and SciPy, a driver, and the folder build/gpu that `make gpu-kit` fills; neither Go nor a
compiler. pytest runs one of the parts, which is skipped without it. Each part is a process of its own with a time
limit, so that one that crashes or hangs does not take the others along. The tools of compute-sanitizer make programs
up to a hundred times slower, so they run only if --only asks for them. They watch dsstne's kernels; initcheck runs
without libraries, since it cannot know what kernels have written that it does not watch.

The report is written to docs/gpu, or, about an emulated driver, to build/kit/reports, or to the folder that --out
names. A part that is checked again on the same day replaces what the report said of that part. If the earlier report is
in another folder, --earlier names that.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import math
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_machine
import gpu_reports
from gpu_machine import KIT, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_machine import Machine

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SHOWN = 40  # lines of the output of what failed
TOLD = ("doctor", "libraries", "training")  # parts whose output is in the report also if all is fine
WITHOUT_LIBRARIES = {"DSSTNE_LIBRARIES": "none"}


@dataclass
class Result:
    """How a part ended."""

    part: str
    state: str  # "passed", "FAILED", "skipped", "not run"
    seconds: float = 0.0
    what: str = ""
    skipped: list[str] = field(default_factory=list)  # tests, with their reasons
    output: str = ""

    @property
    def fine(self) -> bool:
        """Whether nothing is wrong; a part for which there was no time is not fine."""
        return self.state in ("passed", "skipped")

    def told(self) -> Result:
        """Without the output that no report shows."""
        lines = self.output.splitlines()
        shown = lines[-SHOWN:] if not self.fine else lines if self.part in TOLD else []
        return dataclasses.replace(self, output="\n".join(shown))


@dataclass
class Part:
    """A part of the check: a command, or why it is left out."""

    name: str
    command: list[str] = field(default_factory=list)
    folder: Path = ROOT
    seconds: float = 120.0  # at most
    read: Callable[[Result, str], None] | None = None  # picks counts and reasons from the output
    without: str = ""  # why it cannot be done here
    environment: dict[str, str] = field(default_factory=dict)
    alone: bool = False  # runs only if somebody asks for it

    def run(self, deadline: float, most: float = math.inf) -> Result:
        """Runs it, until its own limit, the one for every part or the deadline of the whole check."""
        if self.without:
            return Result(self.name, "skipped", what=self.without)
        begin = time.monotonic()
        limit = min(self.seconds, most, deadline - begin)
        if limit < 1:
            return Result(self.name, "not run", what="no time was left")
        if not Path(self.command[0]).exists():
            return Result(self.name, "FAILED", what=f"{Path(self.command[0]).name} is not in build/gpu")
        process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=gpu_machine.environment(**self.environment),
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children end with it
        )
        try:
            output, _ = process.communicate(timeout=limit)
            code = process.returncode
            ending = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        except subprocess.TimeoutExpired:
            gpu_machine.kill_group(process.pid)
            output, _ = process.communicate()
            code, ending = 1, f"stopped after {limit:.0f} s"
        result = Result(self.name, "FAILED" if code else "passed", time.monotonic() - begin, output=output)
        if self.read is not None:
            self.read(result, output)
        if code:
            result.what = "; ".join(filter(None, [ending, result.what]))
        return result


def read_go(result: Result, output: str) -> None:
    """Counts of `go test -v`, and what skipped tests say."""
    ended = re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", output, re.MULTILINE)
    count = {state: sum(found == state for found, _ in ended) for state in ("PASS", "FAIL", "SKIP")}
    result.what = ", ".join(f"{n} {state.lower()}ed" for state, n in count.items() if n).replace("skiped", "skipped")
    reasons = re.findall(r"^\s*--- SKIP: (\S+).*\n\s+(.*)$", output, re.MULTILINE)
    result.skipped = [f"{name}: {reason}" for name, reason in reasons]
    if result.state == "passed" and not count["PASS"]:
        result.state, result.what = "FAILED", "no test was run"


def read_pytest(result: Result, output: str) -> None:
    """The last line of pytest, and what skipped tests say."""
    lines = output.strip().splitlines() or [""]
    result.what = lines[-1].strip("= ")
    result.skipped = [line.removeprefix("SKIPPED ") for line in lines if line.startswith("SKIPPED ")]


def read_sanitizer(result: Result, output: str) -> None:
    """The summary, which a sanitizer writes whether or not it found something."""
    found = re.findall(r"^=+ (.*(?:SUMMARY).*)$", output, re.MULTILINE)
    result.what = found[-1].strip() if found else "no summary"
    if not found or "Device not supported" in output:  # it did not come to work here: nothing has been checked
        result.state = "FAILED"


def read_last(result: Result, output: str) -> None:
    """The last line says it all."""
    result.what = (output.strip().splitlines() or [""])[-1] if result.state == "FAILED" else ""


def parts(machine: Machine) -> list[Part]:
    """What there is to check, the most telling first."""
    python = sys.executable
    training = [python, str(ROOT / "scripts" / "gpu_training.py")]
    # The emulator is slow, and `make test-long` has the whole suite on it already.
    tests = "TestEveryOpAgreesWithTheReference" if machine.emulated else "."
    conformance = [str(KIT / "conformance.test"), "-test.v", "-test.run", f"{tests}/cuda"]
    pytest = [python, "-m", "pytest", "-q", "-rs", "-W", "default", "-p", "no:cacheprovider", "-m", "device"]
    marked = sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests" / "python").glob("test_*.py")
        if "mark.device" in path.read_text()
    )
    no_pytest = "" if importlib.util.find_spec("pytest") else "pytest is not installed"
    found = [
        Part("doctor", [python, "-c", "import dsstne; print(dsstne.doctor())"], seconds=60, read=read_last),
        Part("libraries", [python, str(ROOT / "scripts" / "gpu_libraries.py")], seconds=60, read=read_last),
        Part("kernels", [str(KIT / "cuda.test"), "-test.v"], ROOT / "kernels" / "cuda", 90, read_go),
        Part("training", training, seconds=90, read=read_last),
        Part("conformance", conformance, ROOT / "tests" / "conformance", 300, read_go),
        Part("python", [*pytest, *marked], seconds=240, read=read_pytest, without=no_pytest),
    ]
    sanitizer = shutil.which("compute-sanitizer")
    for tool in TOOLS:
        without = "" if sanitizer else "compute-sanitizer is not installed"
        if machine.emulated:
            without = "the emulator checks the same: bounds, races, barriers, initialisation"
        command = [sanitizer or "", "--tool", tool, "--error-exitcode", "9"]
        command += [] if tool == "initcheck" else ["--kernel-name", own_kernels()]
        part = Part(tool, [*command, *training], seconds=500, read=read_sanitizer, without=without, alone=True)
        if tool == "initcheck":
            part.environment = WITHOUT_LIBRARIES
        found.append(part)
    return found


def own_kernels() -> str:
    """The filter of compute-sanitizer that lets dsstne's kernels through: their names, which are not mangled."""
    sources = "".join(path.read_text() for path in sorted((ROOT / "kernels" / "cuda" / "src").glob("*.cu")))
    names = re.findall(r"^KERNEL(?:_BOUNDS)?\((\w+),", sources, re.MULTILINE)
    return ",".join([*(f"kne={name}" for name in names), "kns=fused_"])


def merged(names: list[str], earlier: dict[str, Any], results: list[Result]) -> list[Result]:
    """A result for each part: the newest, but one that was not run takes nobody's place."""
    found = {name: Result(name, "not run", what="nobody asked for it") for name in names}
    before = [Result(**entry) for entry in earlier.get("parts", ())]
    for result in (*before, *results):
        if result.part in found and (result.state != "not run" or found[result.part].state == "not run"):
            found[result.part] = result
    return list(found.values())


def page(machine: Machine, results: list[Result]) -> str:
    """The findings as Markdown."""
    lines = [f"# CUDA devices checked: {machine.file_name}", ""]
    if machine.emulated:
        lines += ["**The driver is the emulator of tests/cudaemu: this says nothing about hardware.**", ""]
    lines += ["By `scripts/gpu_check.py`.", "", *machine.lines(), ""]
    lines += ["| part | | seconds | |", "|---|---|---|---|"]
    lines += [f"| {r.part} | {r.state} | {r.seconds:.0f} | {r.what.replace('|', '/')} |" for r in results]
    bad = [r.part for r in results if not r.fine]
    seconds = sum(r.seconds for r in results)
    lines += ["", f"{seconds:.0f} s in all; " + (f"not passed: {', '.join(bad)}." if bad else "all fine."), ""]
    if skipped := [f"- {r.part}: {text}" for r in results for text in r.skipped]:
        lines += ["## Skipped tests", "", *skipped, ""]
    for r in results:
        if r.output:
            title = r.part if r.fine else f"The end of what {r.part} said"
            lines += [f"## {title}", "", "```", *r.output.splitlines(), "```", ""]
    return "\n".join(lines)


def report(path: Path, machine: Machine, results: list[Result]) -> None:
    """Writes page and values."""
    values = {"emulated": machine.emulated, "machine": dataclasses.asdict(machine)}
    values["parts"] = [dataclasses.asdict(result) for result in results]
    gpu_reports.write(path, page(machine, results), values)


def main() -> int:
    """Runs the parts, and writes the report after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="this part; may be repeated")
    parser.add_argument("--minutes", type=float, default=8.8, help="for all of it (default: %(default)s)")
    parser.add_argument("--most", type=float, default=math.inf, metavar="SECONDS", help="for any part")
    parser.add_argument("--no-libraries", action="store_true", help="dsstne uses neither cuBLASLt nor NCCL")
    parser.add_argument("--out", type=Path, help="folder of the report")
    parser.add_argument("--earlier", type=Path, help="folder of an earlier report, to which this one adds")
    args = parser.parse_args()
    gpu_machine.need_kit()
    begin = time.monotonic()
    machine = gpu_machine.look_elsewhere()
    print("\n".join(machine.lines()), flush=True)
    if not machine.devices:
        return 1
    there = parts(machine)
    names = [part.name for part in there]
    if unknown := set(args.only) - set(names):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; the parts are {', '.join(names)}")
    path = (args.out or machine.folder()) / f"check-{machine.file_name}.md"
    earlier = gpu_reports.earlier(path, args.earlier)
    results: list[Result] = []
    for part in there:
        if part.name not in args.only if args.only else part.alone:
            continue
        if args.no_libraries:
            part.environment = WITHOUT_LIBRARIES
        result = part.run(begin + 60 * args.minutes, args.most)
        if args.no_libraries:
            result.what = "; ".join(filter(None, [result.what, "without libraries"]))
        told = result.told()
        results.append(told)
        # Now, since the call may be ended before the next part is.
        report(path, machine, merged(names, earlier, results))
        print(f"{result.part:<12} {result.state:<8} {result.seconds:4.0f} s  {result.what}", flush=True)
        if not result.fine:
            print("\n".join("    " + line for line in told.output.splitlines()), flush=True)
            gpu_reports.keep(path.with_name(f"{path.stem}-{result.part}.log"), result.output)
    print(f"{time.monotonic() - begin:.0f} s; the report is {path}")
    return 0 if all(result.fine for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
