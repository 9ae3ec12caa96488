"""Which kernels a training step consists of on a CUDA device, and how long each takes.

    python3 scripts/gpu_profile.py --out FOLDER

The table is made by Nsight Systems (nsys), if that is installed, or else by PyTorch's profiler, which records all
kernels of the process through NVIDIA's CUPTI. Neither needs the performance counters that administrators often keep for
themselves. Where there is neither, Nsight Compute (ncu) runs one kernel after the other and times each alone, also
those that run beside each other in a step. The report says by name what is not there; that is no failure. The networks
are the first ones of tests/bench/gpu/cases.py. Each profile is written as soon as it is there.
"""

from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "python")]
import gpu_machine  # noqa: E402
import gpu_reports  # noqa: E402

CASES = ("step", "softmax 41k")
STEPS, FEW_STEPS = 20, 6  # the latter where each launch takes long
TOOLS = {"nsys": "nsys", "PyTorch's profiler": "torch", "ncu, each kernel alone": "ncu"}
Profile = dict[str, dict[str, float]]  # by kernel: its launches and seconds in a step


# ---- in the process that is watched ----


def work(case: str, tiny: bool, steps: int, trace: Path | None) -> int:
    """Trains; with a trace, PyTorch's profiler writes one of the second run."""
    from dataclasses import replace

    import gpu_cases
    from gpu.cases import SOFTMAX
    from gpu.ours import Ours
    from gpu.setting import TINY
    from measure.synthetic import interactions
    from workloads import step

    used, shape = {"step": (step.NETWORK, 0), "softmax 41k": (SOFTMAX, 1)}[case]
    network, items = gpu_cases.NETWORKS[shape], gpu_cases.NETWORKS[shape].items
    used, entries = replace(used, precision="bfloat16"), network.entries
    if tiny:
        used = replace(used, hidden=(TINY["hidden"],) * len(used.hidden), batch_size=TINY["batch_size"])
        items, entries = TINY["items"], 10
    ours = Ours(interactions(STEPS * used.batch_size, items, entries), used)
    print("form: " + ours.form(), flush=True)
    ours.trainer.run(steps=steps)
    if trace is None:
        return 0
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        ours.trainer.run(steps=steps)
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(trace))
    return 0


# ---- who watches ----


def missing_of(tool: str) -> str:
    """Why a tool cannot be used; empty if it can be tried."""
    if tool != "torch":
        return "" if shutil.which(tool) else f"{tool} is not installed"
    if importlib.util.find_spec("torch") is None:
        return "PyTorch, whose profiler uses CUPTI, is not installed"
    code = (
        "import sys\n"
        "from torch.profiler import ProfilerActivity, supported_activities\n"
        "sys.exit(ProfilerActivity.CUDA not in supported_activities())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=gpu_machine.environment())
    return "" if done.returncode == 0 else "PyTorch's profiler has no CUPTI here"


def watched(tool: str, case: str, tiny: bool, seconds: float) -> tuple[Profile, str]:
    """The kernels of a case, and the form of its output; RuntimeError says why there are none."""
    steps = FEW_STEPS if tool == "ncu" else STEPS
    command = [sys.executable, str(Path(__file__).resolve()), "--work", case, "--steps", str(steps), *["--tiny"] * tiny]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "profile"
        if tool == "nsys":
            options = ["--trace=cuda", "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none", "-o", str(base)]
            said = asked([shutil.which("nsys") or "", "profile", *options, *command], seconds)
            stats = ["stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", f"{base}.nsys-rep"]
            kernels = of_nsys(asked([shutil.which("nsys") or "", *stats], seconds))
        elif tool == "ncu":
            table = base.with_suffix(".csv")
            options = ["--clock-control=none", "--cache-control=none", "--metrics=gpu__time_duration.sum", "--csv"]
            options += ["--page=raw", "--print-units=base", f"--log-file={table}"]
            said = asked([shutil.which("ncu") or "", *options, *command], seconds)
            kernels = of_ncu(table.read_text())
        else:
            trace = base.with_suffix(".json")
            said = asked([*command, "--trace", str(trace)], seconds)
            kernels = of_trace(json.loads(trace.read_text()))
    if not kernels:
        raise RuntimeError("no kernel was recorded")
    for kernel in kernels.values():
        kernel["launches"] /= steps
        kernel["seconds"] /= steps
    return kernels, next((line for line in said.splitlines() if line.startswith("form: ")), "").removeprefix("form: ")


def asked(command: list[str], seconds: float) -> str:
    """The output of a command; its children end with it."""
    with subprocess.Popen(
        command,
        env=gpu_machine.environment(),
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            gpu_machine.kill_group(process.pid)
            raise RuntimeError(f"stopped after {seconds:.0f} s") from None
    if process.returncode:
        raise RuntimeError(((errors or output).strip().splitlines() or ["it failed"])[-1])
    return output


def of_nsys(text: str) -> Profile:
    """The kernels of nsys's summary."""
    begin = text.find("Time (%)")
    rows = csv.DictReader(io.StringIO(text[begin:])) if begin >= 0 else ()
    return {
        row["Name"]: {"launches": float(row["Instances"]), "seconds": float(row["Total Time (ns)"]) / 1e9}
        for row in rows
        if row.get("Instances")
    }


def of_trace(trace: dict[str, Any]) -> Profile:
    """The kernels of a trace of PyTorch's profiler."""
    found: Profile = collections.defaultdict(lambda: {"launches": 0.0, "seconds": 0.0})
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            found[event["name"]]["launches"] += 1
            found[event["name"]]["seconds"] += event["dur"] / 1e6
    return dict(found)


def of_ncu(text: str) -> Profile:
    """The kernels of ncu's table, whose first row has the units."""
    found: Profile = collections.defaultdict(lambda: {"launches": 0.0, "seconds": 0.0})
    begin = text.find('"ID"')
    for row in csv.DictReader(io.StringIO(text[begin:])) if begin >= 0 else ():
        if row["ID"]:
            found[row["Kernel Name"]]["launches"] += 1
            found[row["Kernel Name"]]["seconds"] += float(row["gpu__time_duration.sum"].replace(",", "")) / 1e9
    return dict(found)


# ---- the report ----


def page(machine: gpu_machine.Machine, report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# Kernels of a training step: {machine.file_name}", ""]
    if machine.emulated:
        lines += ["**The driver is the emulator of tests/cudaemu: this is not a measurement.**", ""]
    lines += ["By `scripts/gpu_profile.py`: some steps in bfloat16, profiled.", "", *machine.lines(), ""]
    for case in report["cases"]:
        total = sum(kernel["seconds"] for kernel in case["kernels"].values())
        lines += [f"## {case['case']}", "", f"By {case['tool']}; {case['form']}. All kernels of a step together take"]
        lines += [f"{1e6 * total:.1f} us, which is more than the step where they overlap.", ""]
        lines += ["| kernel | launches a step | us each | us a step | share |", "|---|---|---|---|---|"]
        for name, kernel in sorted(case["kernels"].items(), key=lambda item: -item[1]["seconds"]):
            launches, seconds = kernel["launches"], kernel["seconds"]
            cells = [name[:100].replace("|", "/"), f"{launches:.1f}", f"{1e6 * seconds / launches:.1f}"]
            cells += [f"{1e6 * seconds:.1f}", f"{seconds / total:.1%}"]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    if report["not profiled"]:
        lines += ["## Not profiled", "", *(f"- {text}" for text in report["not profiled"]), ""]
    return "\n".join(lines)


def main() -> int:
    """Profiles the cases, and writes the report after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="for all of it (default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="toy sizes: to try the program on the emulator")
    parser.add_argument("--out", type=Path, help="folder of the report")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.tiny, args.steps, args.trace)
    deadline = time.monotonic() + 60 * args.minutes
    gpu_machine.need_kit()
    machine = gpu_machine.look_elsewhere()
    if not machine.devices:
        print("\n".join(machine.lines()))
        return 1
    if machine.emulated and not args.tiny:
        parser.error("the driver is the emulator, which says nothing about speed: only --tiny makes sense")
    path = (args.out or machine.folder()) / f"profile-{machine.file_name}.md"
    report: dict[str, Any] = {"emulated": machine.emulated, "machine": dataclasses.asdict(machine)}
    report |= {"cases": [], "not profiled": []}
    missing = {name: missing_of(tool) for name, tool in TOOLS.items()}
    report["not profiled"] += [f"by {name}: {why}" for name, why in missing.items() if why]
    for case in CASES:
        for name in (name for name, why in missing.items() if not why):
            try:
                kernels, form = watched(TOOLS[name], case, args.tiny, deadline - time.monotonic())
            except RuntimeError as error:
                report["not profiled"].append(f"{case} by {name}: {error}")
                continue
            report["cases"].append({"case": case, "tool": name, "form": form, "kernels": kernels})
            break
        gpu_reports.write(path, page(machine, report), report)
    print("\n".join([*(f"{case['case']}: by {case['tool']}" for case in report["cases"]), *report["not profiled"]]))
    print(f"the report is {path}")
    return 0 if all(missing.values()) or len(report["cases"]) == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
