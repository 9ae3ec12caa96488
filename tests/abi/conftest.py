"""Where the tests of the C interface find the library."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import header
from native import Blocks, Library

# What names no CUDA device is tested on the CPU, also on a machine that has some. The emulator shows its own anyway.
if os.environ.get("DSSTNE_TEST_DRIVER") != "real":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

sys.path.insert(0, str(header.ROOT))

import hatch_build


@pytest.fixture(scope="session")
def library() -> Library:
    """The library as `make build` made it."""
    if not hatch_build.LIBRARY.exists():
        pytest.fail(f"{hatch_build.LIBRARY} is not there; run make build")
    return Library(hatch_build.LIBRARY)


@pytest.fixture
def blocks(library: Library) -> Iterator[Blocks]:
    things = Blocks(library)
    yield things
    things.close()


@pytest.fixture(scope="session")
def faulty_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that panics where it is asked to."""
    path = tmp_path_factory.mktemp("faulty") / "libdsstne.so"
    hatch_build.build_library(path, "0.0.0", tags=("faultinject",))
    return path
