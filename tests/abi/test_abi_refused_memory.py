"""Each allocation of host memory in turn is refused: an error in words, nothing leaks, and the next call has its bits.

The calls are those of the Python package, with a library that refuses the n-th allocation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import header

PREPARE = """
import gc, json, os, sys
import numpy as np, scipy.sparse, dsstne
from dsstne import _handles, _native

X = scipy.sparse.csr_array((np.random.default_rng(0).random((90, 30)) < 0.2).astype(np.float32))
quiet = {"progress": False, "devices": "cpu", "threads": 1}
path = os.path.join(sys.argv[1], "run")
options = {**quiet, "hidden": [8], "batch_size": 30}
model = dsstne.fit(X, epochs=1, **options)

def refuse(n):
    _native.call("configure", json.dumps({"refuse_allocation": n}).encode())

def held():
    gc.collect()
    _handles.close_abandoned()
    engine = _native.call_json("describe")
    return engine["open"], engine["memory"]["allocated"], len(os.listdir("/proc/self/fd"))

def bits(model):
    return [model.tensor(name).tobytes() for name in model.tensors]

def lists(model):
    return [part.tobytes() for part in model.recommend(X, k=5, devices="cpu", threads=1)]

def fit():
    return bits(dsstne.fit(X, validation=X[::-1], epochs=2, **options))

def recommend():
    return lists(model)

def evaluate():
    return dsstne.evaluate(model, X, X[::-1], devices="cpu", threads=1)

def neighbors():
    return [part.tobytes() for part in model.neighbors([1, 2], k=3, devices="cpu", threads=1)]

def predictor():
    with model.predictor(5, devices="cpu", threads=1) as opened:
        return [part.tobytes() for part in opened.recommend(X)]

def checkpoint():
    with dsstne.Trainer(model.copy(), X, batch_size=30, devices="cpu", threads=1) as trainer:
        trainer.run(steps=2)
        trainer.save(path, background=True)
        with trainer.fork() as fork:
            fork.run(steps=1)
        trainer.settle()
    with dsstne.Trainer.resume(path, X, devices="cpu", threads=1) as trainer:
        trainer.run(steps=2)
        return bits(trainer.model)

def item_knn():
    return lists(dsstne.item_knn(X, k=5, **quiet))

def linear():
    return lists(dsstne.linear(X, **quiet))

def operator():
    return lists(dsstne.linear(X, method="operator", **quiet))

def spectral():
    return lists(dsstne.spectral(X, rank=6, **quiet))

def factorize():
    return lists(dsstne.factorize(X, factors=4, epochs=2, **quiet))

def blend():
    return lists(dsstne.blend([model, dsstne.popularity(X)], weights=[0.5, 0.5], progress=False))
"""

EVERY_ALLOCATION = """
def refused(what, want, n):
    refuse(n)
    try:
        assert what() == want, n
    except dsstne.OutOfMemoryError as error:
        assert "the system refused" in str(error) and " of :" not in str(error), error
        return True
    finally:
        refuse(0)
    return False

gc.collect()
gc.freeze()  # later collections need not look at the modules
for name in sys.argv[2:]:
    what = globals()[name]
    want = what()
    before = held()
    n = 1
    while refused(what, want, n):
        assert held() == before, (name, n, before, held())
        n += 1
    assert what() == want  # without a refusal, after all these
    assert held() == before, (name, before, held())
    print(name, n - 1)
"""

# The number of allocations that are refused at least: those of the weights and of the workspace, for example.
LEAST = {
    "fit": 20,
    "recommend": 3,
    "evaluate": 5,
    "neighbors": 3,
    "predictor": 1,
    "checkpoint": 15,
    "item_knn": 15,
    "linear": 15,
    "operator": 25,
    "spectral": 35,
    "factorize": 12,
    "blend": 10,
}


@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files in /proc")
def test_every_allocation_may_be_refused(faulty_library: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(header.ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "DSSTNE_LIBRARY": str(faulty_library), "PYTHONPATH": paths}
    command = [sys.executable, "-c", PREPARE + EVERY_ALLOCATION, str(tmp_path), *LEAST]
    ended = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    refused = {name: int(n) for name, n in (line.split() for line in ended.stdout.splitlines())}
    assert refused.keys() == LEAST.keys()
    assert all(refused[name] >= least for name, least in LEAST.items()), refused
