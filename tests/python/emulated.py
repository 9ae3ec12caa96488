"""Where the emulated CUDA driver is."""

import itertools
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = ROOT / "build" / "cudaemu"

# What programs on emulated devices begin with: the names of programs.py.
PROGRAM = "from programs import *\n"


# The ways in which the fixture `joined` joins devices.
WAYS = ("NCCL", "peer copies", "copies by way of the host")


def sample(*often, of):
    """All combinations of values, to parametrize a test with. Those that are not in `often` are slow."""
    slow = pytest.mark.slow
    return [case if case in often else pytest.param(*case, marks=slow) for case in itertools.product(*of)]


def emulated_driver():
    """Settings of a process that finds the emulated CUDA driver, which `make test` builds."""
    if not (EMULATOR / "libcuda.so.1").exists():
        pytest.skip("the emulated CUDA driver is not built: make emulator")
    path = os.environ.get("PYTHONPATH", "")
    return {
        "LD_LIBRARY_PATH": str(EMULATOR),
        "DSSTNE_CUDAEMU_QUIET": "1",
        "PYTHONPATH": os.pathsep.join([*(str(ROOT / "tests" / name) for name in ("cudaemu", "python")), path]),
    }
