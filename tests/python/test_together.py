"""Several trainings in one process: limits for all of them together."""

import gc
import threading

import pytest

import dsstne

OPTIONS = {"hidden": [12], "epochs": 3, "batch_size": 64, "seed": 3, "progress": False, "devices": "cpu"}


@pytest.fixture(autouse=True)
def unlimited():
    yield
    dsstne.set_limits()


def allocated():
    gc.collect()  # what other tests have left, such as models in the tracebacks of errors
    return dsstne.doctor().engine["memory"]["allocated"]


@pytest.mark.parametrize("threads", [1, 3, 8, None])
def test_trainings_in_threads_have_the_bits_of_single_ones(X, threads):
    want = {seed: dsstne.fit(X, **{**OPTIONS, "seed": seed}).tensor("output.weight") for seed in range(4)}
    dsstne.set_limits(threads=threads)
    with dsstne.Dataset(X) as data:
        got = {}

        def train(seed):
            got[seed] = dsstne.fit(data, **{**OPTIONS, "seed": seed}).tensor("output.weight")

        trainings = [threading.Thread(target=train, args=[seed]) for seed in want]
        for training in trainings:
            training.start()
        for training in trainings:
            training.join()
    assert {seed: weight.tobytes() for seed, weight in got.items()} == {
        seed: weight.tobytes() for seed, weight in want.items()
    }


def test_threads_are_those_of_calls_that_give_none(X):
    model = dsstne.fit(X, **OPTIONS)
    dsstne.set_limits(threads=1)
    assert model.plan(X, devices="cpu")["devices"][0]["threads"] == 1
    assert model.plan(X, devices="cpu", threads=2)["devices"][0]["threads"] == 2


def test_memory_is_limited_for_all_together(X):
    wide = dsstne.fit(X, **{**OPTIONS, "hidden": [20_000], "epochs": 0})  # 10 MB of weights, and twice that of state
    first = dsstne.Trainer(wide, X, batch_size=64)
    first.run(steps=1)
    used = allocated()
    dsstne.set_limits(memory=used + 1_000_000)
    with pytest.raises(dsstne.OutOfMemoryError, match="all computations of this process may have") as error:
        dsstne.fit(X, **{**OPTIONS, "hidden": [20_000]})
    assert "are in use" in str(error.value)
    copy = wide.copy()  # which takes no memory
    with dsstne.Trainer(copy, X, batch_size=64) as second, pytest.raises(dsstne.OutOfMemoryError):
        second.run(steps=1)
    assert allocated() <= used + 1_000_000
    copy.close()
    first.run(steps=1)
    first.close()
    with dsstne.Trainer(wide, X, batch_size=64) as third:  # in the memory of the first
        third.run(steps=1)


def test_memory_is_compared_with_the_plan_before_anything_is_taken(X):
    before = allocated()
    dsstne.set_limits(memory=before + 30_000_000)
    with pytest.raises(dsstne.OutOfMemoryError, match="available; nothing was allocated"):
        dsstne.fit(X, **{**OPTIONS, "hidden": [60_000]})
    assert allocated() == before


ON_ONE_DEVICE = """
import dsstne, scipy.sparse
from concurrent.futures import ThreadPoolExecutor
X = scipy.sparse.random_array((300, 60), density=0.1, format="csr", rng=0, dtype="float32")
with dsstne.Dataset(X) as data, ThreadPoolExecutor(2) as pool:
    def trained(seed):
        model = dsstne.fit(data, hidden=[8], epochs=2, batch_size=64, seed=seed, devices="cuda:0", progress=False)
        return model.tensor("output.weight").tobytes()
    alone = [trained(seed) for seed in (1, 2, 3)]
    assert list(pool.map(trained, (1, 2, 3))) == alone
"""


@pytest.mark.long
def test_trainings_in_threads_share_a_device_and_a_dataset(emulated):
    emulated(ON_ONE_DEVICE)
