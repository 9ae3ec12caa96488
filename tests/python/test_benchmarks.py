"""The benchmarks use parts of the package that no other test does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"


def test_the_machine_of_a_benchmark_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    try:
        from measure import results

        described = results.machine()
        assert described["instruction_set"] in {"portable", "avx2", "avx512", "avx512vnni", "avx512bf16", "neon"}
        assert described["threads"] >= 1
        assert described["memory_gib"] > 0
        assert results.file_name(described).endswith("-threads")
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == "measure"]:
            del sys.modules[name]
