"""The results file: a JSON line for each run (machine, versions, command) and for each of its measurements."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.limits import last_level_cache, threads_available

if TYPE_CHECKING:
    from measure.lines import Line

FOLDER = Path(__file__).resolve().parents[1] / "results"
PACKAGES = ("dsstne", "torch", "implicit", "numpy", "scipy")


class Results:
    """Appends to the file of this machine's kind."""

    def __init__(self, mode: str, keep: bool = True) -> None:
        self.machine = machine()
        self.keep = keep
        self.path = FOLDER / f"{file_name(self.machine)}.jsonl"
        self.run = {
            "run": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": " ".join(["tests/bench/run.py", *_without_paths(sys.argv[1:])]),
            "mode": mode,
            "commit": commit(),
            "machine": self.machine,
            "versions": versions(),
        }
        self._begun = False

    def add(self, workload: str, line: Line) -> None:
        """Writes a measurement at once: a run that breaks keeps what it has."""
        if not self.keep:
            return
        FOLDER.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            if not self._begun:
                file.write(json.dumps(self.run) + "\n")
                self._begun = True
            file.write(json.dumps({"of_run": self.run["run"], "workload": workload, **line.record()}) + "\n")


def _without_paths(arguments: list[str]) -> list[str]:
    """The command line without the folder of the data."""
    kept = [text for text in arguments if not text.startswith("--data=")]
    if "--data" in kept:
        where = kept.index("--data")
        del kept[where : where + 2]
    return kept


def machine() -> dict[str, Any]:
    """What the machine is; no names of hosts or people."""
    import dsstne._native as native

    described = native.call_json("describe")
    information = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(re.findall(r"^(cpu family|model|stepping)\s*: (\d+)$", information, re.MULTILINE))
    return {
        "cpu": described["cpu"].get("model", platform.machine()),
        "family": fields.get("cpu family", ""),
        "model": fields.get("model", ""),
        "instruction_set": described["cpu"]["instruction_set"],
        "features": described["cpu"].get("features", []),
        "threads": threads_available(),
        "cache": last_level_cache(),
        "memory_gib": round(described["memory"]["total"] / 2**30, 1),
        "huge_pages": _huge_pages(),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
    }


def _huge_pages() -> str:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    found = re.search(r"\[(\w+)\]", path.read_text()) if path.exists() else None
    return found[1] if found else "unknown"


def file_name(of: dict[str, Any]) -> str:
    """Stable from run to run and safe as a name: `amd-epyc-25-17-2-threads`."""
    text = f"{of['cpu']} {of['family']} {of['model']} {of['threads']} threads"
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def versions() -> dict[str, str]:
    """Of the interpreter and the packages."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit() -> str:
    """Of the sources, with a `+` if they were changed."""
    try:
        root = Path(__file__).resolve().parents[3]
        name, changes = (
            subprocess.run(
                ["git", "-C", str(root), *command], text=True, capture_output=True, check=True
            ).stdout.strip()
            for command in (
                ["rev-parse", "--short=12", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no", "--", "capi", "engine", "kernels", "python"],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + ("+" if changes else "")
