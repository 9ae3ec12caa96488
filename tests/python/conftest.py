"""What several test files use: small matrices, other Python processes, and CUDA devices for them."""

import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from emulated import EMULATOR, WAYS, emulated_driver
from matrices import blocks
from warm import Server

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
    return dsstne.fit(
        X, hidden=[12], temperature=None, schedule=None, epochs=3, batch_size=64, learning_rate=0.01, progress=False
    )


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


class ReadOnly:
    """A folder of which other users may read the files, and programs of a user who may not write there.

    Python itself may be in a folder of root, so such a program imports everything before drop_privileges().
    """

    BEGIN = """
import os, sys
import numpy as np, pytest, scipy.sparse
import dsstne
dsstne.popularity(scipy.sparse.csr_array(np.eye(3, dtype=np.float32)))
def drop_privileges():
    if os.geteuid() == 0:
        os.setuid(65534)
"""

    def __init__(self, folder, python):
        self.folder, self._python = Path(folder), python
        self.folder.chmod(0o755)

    def run(self, code, *arguments):
        self.folder.chmod(0o555)
        self._python(self.BEGIN + code, self.folder, *arguments)


@pytest.fixture
def read_only(python):
    """A ReadOnly; not in tmp_path, which others cannot search."""
    with tempfile.TemporaryDirectory() as folder:
        made = ReadOnly(folder, python)
        yield made
        made.folder.chmod(0o700)


@pytest.fixture(scope="session")
def warm():
    """Runs a program in a process that has begun already, see Server; there is one for each environment.

    What the emulated driver reads may differ from program to program.
    """
    servers = {}

    def run(code, *arguments, timeout, check):
        fixed, own = {}, {}
        for name, value in os.environ.items():
            (own if name.startswith(("DSSTNE_CUDAEMU_", "PYTEST_")) else fixed)[name] = value
        key = tuple(sorted(fixed.items()))
        if key not in servers:
            servers[key] = Server(fixed)
        done = servers[key].run(code, arguments, own, timeout)
        if check:
            assert done.returncode == 0, done.stderr
            return done.stdout
        return done

    yield run
    for server in servers.values():
        server.close()


@pytest.fixture
def emulated(warm, monkeypatch):
    """Runs a program like `python`, with emulated devices, `emulator.Control` to import and variables as keywords.

    Nothing is left open after a call, so that a program can count and disturb the opening, unless with keep=True.
    """
    if os.environ.get("DSSTNE_TEST_DRIVER") == "real":
        pytest.skip("needs the emulated driver, which can be told to fail")

    def run(code, *arguments, timeout=120, check=True, keep=False, **settings):
        with monkeypatch.context() as patch:
            for name, value in {**emulated_driver(), **settings}.items():
                patch.setenv(name, value)
            closing = "" if keep else "import dsstne\ndsstne.keep_devices(False)\n"
            return warm(closing + code, *arguments, timeout=timeout, check=check)

    return run


@pytest.fixture(scope="session")
def without_libraries(tmp_path_factory):
    """A folder with the emulated driver and neither NCCL nor cuBLASLt."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "libcuda.so.1").symlink_to(EMULATOR / "libcuda.so.1")
    return str(folder)


@pytest.fixture(params=[*WAYS[:2], pytest.param(WAYS[2], marks=pytest.mark.slow)])
def joined(request, without_libraries, emulated):
    """Runs a program like `emulated`, with devices joined in one of the ways; late: work waits for somebody."""
    settings = {"DSSTNE_CUDAEMU_TIMEOUT": "60"}
    if request.param != "NCCL":
        settings["LD_LIBRARY_PATH"] = without_libraries
    if request.param == "copies by way of the host":
        settings["DSSTNE_CUDAEMU_PEERS"] = "0"
    return lambda code, late=False, **more: emulated(
        code, timeout=1500, DSSTNE_CUDAEMU_LAZY=str(int(late)), **settings, **more
    )


@pytest.fixture
def device(python, warm, monkeypatch):
    """Runs a program like `python`, with whatever CUDA devices there are: real ones if DSSTNE_TEST_DRIVER=real."""

    def run(code, *arguments, timeout=120):
        if os.environ.get("DSSTNE_TEST_DRIVER") == "real":
            monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)  # for programs.py
            return python(code, *arguments, timeout=timeout)
        for name, value in emulated_driver().items():
            monkeypatch.setenv(name, value)
        return warm(code, *arguments, timeout=timeout, check=True)

    return run


@pytest.fixture(scope="session")
def shared_data():
    """The folder of research data, which is not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"research data is not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def last_fm(shared_data):
    """The training and test matrices of lastfm-hetrec."""
    folder = shared_data / "lastfm-hetrec-lightgcn"
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist")
    parts = []
    for name in ("data1.txt.xz", "test1.txt.xz"):
        with lzma.open(folder / name, "rt") as file:
            parts.append(np.array([line.split()[:2] for line in file], np.int64))
    shape = tuple(np.max([part.max(axis=0) for part in parts], axis=0) + 1)
    return tuple(scipy.sparse.csr_array((np.ones(len(p), np.float32), p.T), shape=shape) for p in parts)
