"""What goes wrong on a CUDA device is a status and a text, and everything can be closed; on the emulated driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build
import header

HERE = Path(__file__).parent
EMULATOR = header.ROOT / "build" / "cudaemu"

PREPARE = """
import sys
from native import *
from emulator import Control

library = Library(Path(sys.argv[1]))
library.call("configure", b'{"keep_devices": false}')
control = Control()
blocks = Blocks(library)

def trainer(device="cuda:0"):
    options = {"batch_size": 20, "devices": device}
    handle = library.open("trainer_open", blocks.model, json.dumps(options).encode())
    for layer in b"input", b"output":
        library.call("trainer_bind", handle, layer, blocks.dataset)
    return handle

def run(handle, steps=3):
    progress = Progress(struct_size=ctypes.sizeof(Progress))
    library.call("trainer_run", handle, steps, 0.0, byref(progress))
    return progress.step

def failing(call):
    try:
        call()
    except Failure as error:
        return error
    raise AssertionError("it succeeded")
"""


@pytest.mark.parametrize(
    ("function", "n", "code", "status"),
    [
        ("cuMemAlloc", 2, 2, "OUT_OF_MEMORY"),
        ("cuMemHostAlloc", 1, 2, "OUT_OF_MEMORY"),
        ("cuLaunchKernel", 3, 999, "DEVICE_FAILED"),
        ("kernel:*", 3, 719, "DEVICE_FAILED"),
        ("cuMemcpyHtoDAsync", 3, 700, "DEVICE_FAILED"),
        ("cuDevicePrimaryCtxRetain", 1, 46, "DEVICE_UNAVAILABLE"),
    ],
)
def test_a_fault_on_a_device_is_a_status_and_all_can_be_closed(function: str, n: int, code: int, status: str) -> None:
    run(
        f"control.fail({function!r}, {n}, {code})\n"
        "handles = []\n"
        "def work():\n    handles.append(trainer())\n    run(handles[0])\n"
        "error = failing(work)\n"
        "control.clear_faults()\n"
        f"assert error.status == {status!r}, error\n"
        "assert 'cuda:0' in error.message, error\n"
        "for handle in handles:\n    library.call('trainer_close', handle)\n"
        "assert control.count('live_bytes') == 0\n"
        "blocks.recommend()\n"
        "if sys.argv[2] != '719':\n"
        "    again = trainer()\n    assert run(again) == 3\n    library.call('trainer_close', again)\n"
        "blocks.close()\n",
        str(code),
    )


def test_a_device_that_is_not_there_is_a_status() -> None:
    run(
        "error = failing(lambda: trainer('cuda:7'))\n"
        "assert (error.status, 'there are 4 devices' in error.message) == ('DEVICE_UNAVAILABLE', True), error\n"
        "blocks.close()\n"
    )


def run(script: str, *arguments: str) -> None:
    if not (EMULATOR / "libcuda.so.1").exists():
        pytest.skip("the emulated CUDA driver is not built: make emulator")
    paths = os.pathsep.join([str(HERE), str(header.ROOT / "tests" / "cudaemu")])
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "LD_LIBRARY_PATH": str(EMULATOR),
        "DSSTNE_CUDAEMU_QUIET": "1",
    }
    command = [sys.executable, "-c", PREPARE + script, str(hatch_build.LIBRARY), *arguments]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
