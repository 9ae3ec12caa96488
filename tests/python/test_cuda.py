"""The CUDA driver is left alone until somebody asks for its devices, and then treated with good manners."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from emulated import EMULATOR

import dsstne

SOURCES = Path(__file__).resolve().parents[2] / "kernels" / "cuda" / "driver" / "testdata"

DATA = (
    "import dsstne, warnings\n"
    "import numpy as np, scipy.sparse\n"
    "X = scipy.sparse.csr_array((np.random.default_rng(0).random((40, 20)) < 0.3).astype(np.float32))\n"
    "warnings.simplefilter('ignore')\n"
    "def loaded(): return 'libcuda' in open('/proc/self/maps').read()\n"
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The folder of a libcuda.so.1 that can do next to nothing."""
    if "cuda" not in dsstne.doctor().engine["backends"]:
        pytest.skip("this library was built without CUDA")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    compile_library(folder / "libcuda.so.1", "driver.c")
    return folder


def compile_library(path, source):
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, SOURCES / source], check=True)


@pytest.fixture
def with_driver(driver, python, monkeypatch):
    """Runs code in a process that finds the driver."""

    def run(code, folder=driver, **settings):
        monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return python(DATA + code)

    return run


def test_computing_on_the_cpu_never_touches_the_driver(with_driver, tmp_path):
    out = with_driver(
        "for precision in 'float32', 'bfloat16':\n"
        "    model = dsstne.fit(X, hidden=[4], epochs=1, progress=False, precision=precision, devices='cpu')\n"
        "model.recommend(X, k=3, devices='cpu')\n"
        "dsstne.evaluate(model, X, X, metrics=['recall@5'], devices='cpu')\n"
        "print(loaded())",
        FAKE_LOG=str(tmp_path / "log"),
    )
    assert out.strip() == "False"
    assert not (tmp_path / "log").exists()


def test_doctor_asks_the_driver_and_shows_its_devices(with_driver):
    out = with_driver("print(loaded())\nprint(dsstne.doctor())\nprint(loaded())")
    assert out.startswith("False")
    assert out.strip().endswith("True")
    assert "cuda:0: kind Fake 0, compute capability 9.0, memory 8.0 GiB, precisions" in out  # what is free nobody tells
    assert "cuda:1: kind Fake 1, compute capability 9.0" in out


def test_doctor_says_which_libraries_devices_use(emulated, tmp_path):
    report = "import dsstne\nprint(dsstne.doctor())"
    out = emulated(report)
    assert "extra     cuBLASLt: version 12.9.0, for products of dense matrices\n" in out
    assert "extra     NCCL: version 2.27.0, for exchange between devices" in out
    (tmp_path / "libcuda.so.1").symlink_to(EMULATOR / "libcuda.so.1")
    (tmp_path / "libnccl.so.2").write_text("nothing")
    out = emulated(report, LD_LIBRARY_PATH=str(tmp_path))
    assert "cuBLASLt: not available: libcublasLt.so.12 was not found; the package nvidia-cublas-cu12 has it" in out
    assert "NCCL: not available: libnccl.so.2 does not load: " in out
    assert "; devices copy to each other without it" in out
    assert "NCCL" not in emulated(report, DSSTNE_CUDAEMU_DEVICES="1")
    assert "extra" not in emulated(report, DSSTNE_CUDAEMU_DEVICES="0")


def test_doctor_says_by_whom_memory_is_used(with_driver, driver, tmp_path):
    compile_library(tmp_path / "libnvidia-ml.so.1", "nvml.c")
    (tmp_path / "libcuda.so.1").symlink_to(driver / "libcuda.so.1")
    processes = f"0:64 {os.getpid()}:1536 4194305:-1"  # the one that asks, this one, one that is not to be seen
    name = Path("/proc/self/comm").read_text().strip()
    out = with_driver("print(dsstne.doctor())", tmp_path, FAKE_NVML_PROCESSES=processes)
    (line,) = (line for line in out.splitlines() if "cuda:0" in line)
    assert ", memory 8.0 GiB, available 3.0 GiB, precisions" in line
    stranger = "a process of another container or user (pid 4194305)"
    assert line.endswith(f", used by {name} (pid {os.getpid()}, 1.5 GiB) and {stranger}")


def test_doctor_says_that_a_driver_is_too_old(with_driver):
    out = with_driver("print(dsstne.doctor())", FAKE_VERSION="11080")
    assert "cuda: not available: the NVIDIA driver is too old: it supports CUDA 11.8" in out


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("cuda:7", 'DeviceUnavailableError device "cuda:7": it is not there; there are 2 devices, cuda:0 to cuda:1'),
        ("cuda:0", "UnsupportedError cuda:0, opening: the kernels (sm_90a.cubin) do not load"),
    ],
)
def test_a_device_that_cannot_be_had_is_an_error_in_words(with_driver, device, reason):
    out = with_driver(
        f"try:\n    dsstne.fit(X, hidden=[4], epochs=1, progress=False, devices={device!r})\n"
        "except dsstne.DsstneError as error:\n    print(type(error).__name__, error)"
    )
    assert out.startswith(reason)


def test_the_users_current_context_stays_current(with_driver):
    out = with_driver(
        "import ctypes\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "mine, now = ctypes.c_void_p(), ctypes.c_void_p()\n"
        "def current():\n    cuda.cuCtxGetCurrent(ctypes.byref(now))\n    return now.value\n"
        "cuda.cuInit(0)\n"
        "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(mine), 1)\n"
        "cuda.cuCtxPushCurrent_v2(mine)\n"
        "seen = [current()]\n"
        "dsstne.doctor()\nseen.append(current())\n"
        "for device in 'cuda:0', 'cuda:1', 'auto':\n"
        "    try:\n        dsstne.fit(X, hidden=[4], epochs=1, progress=False, devices=device)\n"
        "    except dsstne.DsstneError:\n        pass\n"
        "    seen.append(current())\n"
        "print(set(seen) == {mine.value})"
    )
    assert out.strip() == "True"
