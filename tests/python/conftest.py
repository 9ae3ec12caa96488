"""What several test files use: small matrices, other Python processes, and CUDA devices for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import EMULATOR, emulated_driver
from matrices import blocks

import dsstne

# What names no CUDA device is tested on the CPU, also on a machine that has some. The emulator shows its own anyway.
if os.environ.get("DSSTNE_TEST_DRIVER") != "real":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session", name="X")
def interactions():
    return blocks()


@pytest.fixture(scope="session")
def model(X):
    return dsstne.fit(X, hidden=[12], epochs=3, batch_size=64, learning_rate=0.01, progress=False)


@pytest.fixture
def python():
    """Runs a program in another process and returns what it prints; its failure is the test's."""

    def run(code, *arguments, timeout=60, check=True):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if check:
            assert done.returncode == 0, done.stderr
            return done.stdout
        return done

    return run


@pytest.fixture
def emulated(python, monkeypatch):
    """Runs a program like `python`, with emulated devices, `emulator.Control` to import and variables as keywords.

    Nothing is left open after a call, so that a program can count and disturb the opening, unless with keep=True.
    """
    if os.environ.get("DSSTNE_TEST_DRIVER") == "real":
        pytest.skip("needs the emulated driver, which can be told to fail")

    def run(code, *arguments, timeout=120, check=True, keep=False, **settings):
        for name, value in {**emulated_driver(), **settings}.items():
            monkeypatch.setenv(name, value)
        closing = "" if keep else "import dsstne\ndsstne.keep_devices(False)\n"
        return python(closing + code, *arguments, timeout=timeout, check=check)

    return run


@pytest.fixture(params=["NCCL", "peer copies", pytest.param("copies by way of the host", marks=pytest.mark.slow)])
def joined(request, tmp_path, emulated):
    """Runs a program like `emulated`, with devices joined in one of the ways; late: work waits for somebody."""
    settings = {"DSSTNE_CUDAEMU_TIMEOUT": "60"}
    if request.param != "NCCL":
        (tmp_path / "libcuda.so.1").symlink_to(EMULATOR / "libcuda.so.1")
        settings["LD_LIBRARY_PATH"] = str(tmp_path)
    if request.param == "copies by way of the host":
        settings["DSSTNE_CUDAEMU_PEERS"] = "0"
    return lambda code, late=False, **more: emulated(
        code, timeout=1500, DSSTNE_CUDAEMU_LAZY=str(int(late)), **settings, **more
    )


@pytest.fixture
def device(python, monkeypatch):
    """Runs a program like `python`, with whatever CUDA devices there are: real ones if DSSTNE_TEST_DRIVER=real."""

    def run(code, *arguments, timeout=120):
        if os.environ.get("DSSTNE_TEST_DRIVER") != "real":
            for name, value in emulated_driver().items():
                monkeypatch.setenv(name, value)
        return python(code, *arguments, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def shared_data():
    """The folder of research data, which is not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"research data is not at {SHARED}")
    return SHARED
