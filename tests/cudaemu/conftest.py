"""Builds the emulator, and says why its tests are skipped where it cannot be built."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

unfit = None
if sys.platform != "linux" or platform.machine() != "x86_64":
    unfit = "the emulator is for Linux on x86-64"
elif "avx2" not in Path("/proc/cpuinfo").read_text():
    unfit = "the emulator is compiled for processors with AVX2"
elif not shutil.which(os.environ.get("CUDAEMU_CXX", "g++")):
    unfit = "the emulator needs g++"


@pytest.fixture(scope="session")
def library():
    if unfit:
        pytest.skip(unfit)
    subprocess.run(["make", "-s", "-j2", "-f", "tests/cudaemu/Makefile", "emulator"], cwd=ROOT, check=True)


@pytest.fixture
def driver(library):
    from emulator import Driver

    driver = Driver()
    usual = {"lazy": 0, "checks": 3, "truncate": 0, "ulps": 0}
    driver.messages()
    driver.reset_counts()
    yield driver
    driver.clear_faults()
    for name, value in usual.items():
        driver.set(name, value)
    driver.close()
