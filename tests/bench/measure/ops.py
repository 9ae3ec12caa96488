"""One op of a backend alone: `opbench`, a Go program beside this folder, as a contestant."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from measure.alternate import UnavailableError

BUILD = Path(__file__).resolve().parents[3] / "build"
PROGRAMS = (BUILD / "opbench", BUILD / "kit" / "opbench")  # the second came along to a machine without Go


class Op:
    """An op in a process of its own; the keywords are those of opbench's `request`."""

    def __init__(self, **request: Any) -> None:
        programs = [path for path in PROGRAMS if path.exists()]
        if not programs:
            raise SystemExit("build/opbench is not there; run `make bench`, or `make build/opbench` alone")
        program = max(programs, key=lambda path: path.stat().st_mtime)
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            touched = self._ask(request)
        except BaseException:
            self.close()
            raise
        self.entries: int = touched.get("entries", 0)
        self.distinct: int = touched.get("distinct", 0)
        self.form: str = touched.get("form", "")  # the way in which a device that has several does the op

    def run(self, steps: int) -> float:
        """Seconds of a step."""
        return float(self._ask({"steps": steps})["seconds"]) / steps

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "opbench died"}')
        if "error" in answer:
            raise UnavailableError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Op:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
