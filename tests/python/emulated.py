"""Where the emulated CUDA driver is."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = ROOT / "build" / "cudaemu"


def emulated_driver():
    """Settings of a process that finds the emulated CUDA driver, which `make test` builds."""
    if not (EMULATOR / "libcuda.so.1").exists():
        pytest.skip("the emulated CUDA driver is not built: make emulator")
    return {
        "LD_LIBRARY_PATH": str(EMULATOR),
        "DSSTNE_CUDAEMU_QUIET": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "cudaemu"), os.environ.get("PYTHONPATH", "")]),
    }


# What programs that train on emulated devices begin with.
TRAINING = """
import json
import numpy as np, scipy.sparse, dsstne
from emulator import Control
control = Control()

def matrix(rows=70, items=60, density=0.2):
    X = scipy.sparse.random(rows, items, density, "csr", np.float32, random_state=np.random.default_rng(1))
    X.data[:] = 1
    return X

def trainer(X, devices="cuda:0", hidden=(8,), loss="softmax", **options):
    model = dsstne.fit(X, hidden=list(hidden), loss=loss, epochs=0, progress=False, devices="cpu")
    return dsstne.Trainer(model, X, devices=devices, **{"batch_size": 20, "learning_rate": 0.01, **options})

def counted(work):
    control.reset_counts()
    work()
    return control.counts()

def tensors(model):
    return {name: model.tensor(name).copy() for name in model.tensors}

class Enough(Exception):
    pass

def interrupt(progress):
    if progress.step >= 10:
        raise Enough
"""
