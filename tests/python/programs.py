"""What the programs that run on emulated CUDA devices have in common: each begins with ``from programs import *``."""

import json as json
import os
import sys as sys
import time

import numpy as np
import scipy.sparse

import dsstne
from emulator import Control

control = Control()
with_nccl = os.environ.get("LD_LIBRARY_PATH", "").endswith("cudaemu")

INVALID_VALUE, OUT_OF_MEMORY, ILLEGAL_ADDRESS, LAUNCH_FAILED, INVALIDATED, UNKNOWN = 1, 2, 700, 719, 901, 999
LOST = (dsstne.DeviceFailedError, dsstne.DeviceUnavailableError)


def matrix(rows=70, items=60, density=0.2, *, ones=True):
    """Random entries, the same for the same arguments: ones or numbers below 1."""
    X = scipy.sparse.random(rows, items, density, "csr", np.float32, random_state=np.random.default_rng(1))
    if ones:
        X.data[:] = 1
    return X


def untrained(X, **options):
    """A model of X with its initial weights."""
    return dsstne.fit(X, epochs=0, progress=False, devices="cpu", **options)


def trainer(X, devices="cuda:0", hidden=(8,), loss="softmax", **options):
    """A trainer of a new model."""
    model = untrained(X, hidden=list(hidden), loss=loss)
    return dsstne.Trainer(model, X, devices=devices, **{"batch_size": 20, "learning_rate": 0.01, **options})


def devices_of(count):
    """The first emulated devices."""
    return [f"cuda:{n}" for n in range(count)]


def without_spares(plan):
    """A limit in which data that devices keep have no room: kept logits and rounded weights give way before them."""
    spares = ("logits", "rounded weights")
    return plan["bytes"] - 1 - sum(part["bytes"] for part in plan["parts"] if part["name"] in spares)


def counted(work):
    """The emulator's counters of a call."""
    control.reset_counts()
    work()
    return control.counts()


def copied(work):
    """The bytes that a call copies to and from devices."""
    counts = counted(work)
    return {name: counts.get(f"bytes.{name}", 0) for name in ("host_to_device", "device_to_host")}


def live():
    """The counters of what is held of devices, such as live_bytes."""
    return {name: value for name, value in control.counts().items() if name.startswith("live")}


def tensors(model):
    """The weights of a model."""
    return {name: model.tensor(name).copy() for name in model.tensors}


def same(a, b):
    """Whether two sets of weights have the same bits; a model stands for its weights."""
    a, b = (x if isinstance(x, dict) else tensors(x) for x in (a, b))
    return all(a[name].tobytes() == b[name].tobytes() for name in a)


def finite(model):
    """Whether all weights of a model are finite."""
    return all(np.isfinite(x).all() for x in tensors(model).values())


def raised(call, *kinds, within=60):
    """The error of one of the kinds that a call raises within some seconds; None if it raises nothing."""
    begin = time.perf_counter()
    try:
        call()
    except kinds as error:
        assert time.perf_counter() - begin < within, "too slow"
        return error
    return None


def fails(call, *kinds):
    """The error of one of the kinds that a call has to raise."""
    error = raised(call, *kinds)
    assert error is not None, "nothing was raised"
    return error


class Enough(Exception):  # noqa: N818
    """Ends a run."""


def interrupt(progress):
    """Ends a run after ten steps."""
    if progress.step >= 10:
        raise Enough
