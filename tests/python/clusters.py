"""Clusters of Dask for tests, and functions that their workers run."""

import contextlib
import os
import resource
import signal
import tempfile
import time
import warnings
from pathlib import Path

import distributed
import numpy as np
import psutil
import scipy.sparse

import dsstne

OPTIONS = {"hidden": [8], "epochs": 2, "seed": 3, "devices": "cpu"}


def matrix(rows=60, items=40, seed=0):
    return scipy.sparse.random_array((rows, items), density=0.2, format="csr", rng=seed, dtype=np.float32)


@contextlib.contextmanager
def local_cluster(n_workers=4, **options):
    """A client of a new cluster of processes; afterwards none of them is left."""
    before = children()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
        with (
            tempfile.TemporaryDirectory() as folder,  # or jobs would take turns with those of other test processes
            distributed.LocalCluster(n_workers=n_workers, env={"TMPDIR": folder}, **{**settings, **options}) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            if n_workers:
                client.wait_for_workers(n_workers, timeout=60)
            yield client
    assert left(before) == []


def children():
    """The processes below this one, except those that Python's multiprocessing and the system keep."""
    found = psutil.Process().children(recursive=True)
    return {one for one in found if "resource_tracker" not in " ".join(command(one))}


def command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def left(before):
    """What is left of new processes after some time."""
    gone_by = time.monotonic() + 10
    while True:
        new = [one for one in children() - before if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        if not new or time.monotonic() > gone_by:
            return [command(one) for one in new]
        time.sleep(0.05)


def wait_until(condition, seconds=300, what="the condition"):
    """Waits for something true and returns it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} has not come true after {seconds} s"
        time.sleep(0.01)
    return found


def same(a, b):
    """Whether two models have the same weights, to the bit."""
    return a.tensors == b.tensors and all(bits(a.tensor(name)) == bits(b.tensor(name)) for name in a.tensors)


def bits(tensor):
    parts = (tensor.data, tensor.indices, tensor.indptr) if scipy.sparse.issparse(tensor) else (tensor,)
    return [part.tobytes() for part in parts]


def working(client):
    """The tasks that workers have not ended, whether or not anybody wants them."""
    found = client.run(lambda dask_worker: list(dask_worker.active_threads.values()))
    return [key for keys in found.values() for key in keys]


class Tell(dsstne.callbacks.Callback):
    """Writes the process and the epoch to a file after each epoch, and may then do something in one of them."""

    def __init__(self, path, at=None, deed=None):
        self.path, self.at, self.deed = path, at, deed

    def after_iteration(self, model, epoch, evals_log):
        note(self.path, f"{os.getpid()} {epoch}")
        if epoch == self.at and not os.path.exists(f"{self.path}.done"):
            Path(f"{self.path}.done").touch()
            self.deed()


def note(path, text):
    Path(f"{path}.new").write_text(text)
    os.replace(f"{path}.new", path)


def begun(job, path):
    """Waits until a job has told that it trains; returns its process."""
    pid, _ = wait_until(lambda: told(path)() or (job.done() and job.result()))
    return pid


def told(path):
    """The process and the epoch that a Tell has written, once it has."""
    return lambda: Path(path).exists() and [int(word) for word in Path(path).read_text().split()]


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)


def stop_myself():
    os.kill(os.getpid(), signal.SIGSTOP)


def freeze_once(path):
    """Stops its process, in the first call only; returns the address of its worker."""
    if not os.path.exists(path):
        note(path, str(os.getpid()))
        stop_myself()
    return distributed.get_worker().address


@contextlib.contextmanager
def full_disks(client, bytes_=1000):
    """Makes the system refuse files above a size to the workers, as a full disk does."""

    def limit(n):
        resource.setrlimit(resource.RLIMIT_FSIZE, (n, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    client.run(limit, bytes_)
    try:
        yield
    finally:
        client.run(limit, resource.RLIM_INFINITY)


@contextlib.contextmanager
def frozen(path):
    """Kills the process of which the number is in a file, at the end of the block."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(Path(path).read_text().split()[0]), signal.SIGKILL)


class MineError(Exception):
    """An error of the caller's own code."""


def raise_mine():
    raise MineError("of a callback")


def for_long(path, **more):
    """Options of a training that ends only if somebody ends it, and tells that it has begun."""
    return {"hidden": [8], "epochs": 10**7, "devices": "cpu", "callbacks": Tell(str(path)), **more}


# ---- functions of jobs ----


def where(X, threads=None, devices="auto", progress=True):
    worker = distributed.get_worker()
    return {"address": worker.address, "threads": threads, "devices": devices, "progress": progress, "data": id(X)}


def meet(X, hall, count, seconds):
    """Reports whether as many calls of this function were under way at the same time."""
    mine = Path(hall) / f"{time.monotonic_ns()}-{os.getpid()}"
    mine.touch()
    try:
        end = time.monotonic() + seconds
        while len(list(Path(hall).iterdir())) < count:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        time.sleep(0.2)
        return True
    finally:
        mine.unlink()


def train_on(X, hall, count, devices="auto"):
    """Trains on the devices while other calls do; returns the names of the devices."""
    assert meet(X, hall, count, 30)
    model = dsstne.fit(X, hidden=[4], epochs=0, devices="cpu", progress=False)
    with dsstne.Trainer(model, X, devices=devices) as trainer:
        trainer.run(steps=2)
        return [device["name"] for device in trainer.plan()["devices"]]


def die(X):
    kill_myself()


def eat(X, bytes_):
    kept = []
    for _ in range(0, bytes_, 10_000_000):
        kept.append(np.ones(10_000_000, np.uint8))
        time.sleep(0.01)
    time.sleep(30)
    return len(kept)


def fit_inside(X, **options):
    """A task, or a job, that has another worker train."""
    return dsstne.dask.fit(None, X, **options)


def shapes(X, targets=None):
    return [getattr(one, "shape", None) for one in (X, targets)]
