"""The benchmarks use parts of the package that no other test does."""

from __future__ import annotations

import subprocess
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


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
def test_each_part_of_dsstne_is_measured_in_its_smallest_size() -> None:
    pytest.importorskip("h5netcdf")
    done = run("--tiny", "dsstne")
    assert done.returncode == 0, done.stdout + done.stderr
    for case in (
        "27 thousand features, 1 threads",
        "27 thousand features, gzip",
        "generateNetCDF, the whole command",
        "save a network 267 - 128 - 267 as .nc",
        "read a NetCDF data set",
        "predict: the samples as filter",
        "predict: a filter whose values multiply",
        "predict: two filters, one with a node filter",
    ):
        assert f"\n{case} " in done.stdout, done.stdout
    assert "1,024 queries" in done.stdout or "FAISS is not installed" in done.stdout
    assert "results in" not in done.stdout, "the smallest sizes are no results"


def test_a_workload_without_smallest_sizes_is_named() -> None:
    done = run("--tiny", "topk", "dsstne")
    assert done.returncode == 2
    assert "--tiny: topk has no smallest sizes; dsstne_text, dsstne, neighbours have" in done.stderr
