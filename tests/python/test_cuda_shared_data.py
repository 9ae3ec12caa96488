"""Trainers and predictors that share the copy of a dataset on a CUDA device, counted by the emulated driver."""

import pytest
from emulated import PROGRAM

PRELUDE = (
    PROGRAM
    + """
import threading

X = matrix(300, 80, 0.5)
data = dsstne.Dataset(X)
# Where rows begin and end (the last end twice), their sums, norms and scaled sums, and the columns of the ones in them.
SIZE = 8 * 302 + (4 + 8 + 4) * 300 + 4 * X.nnz
options = dict(batch_size=64, devices="cuda:0", seed=5)

def trainer(X=data, devices="cuda:0", **more):
    return dsstne.Trainer(untrained(X, hidden=[8]), X, **{**options, "devices": devices, **more})

def sent(work):
    return copied(work)["host_to_device"]

def copies_of(plan):
    return [part for part in plan["parts"] if part["name"] == "data" and part["device"] != "host"]

with trainer() as alone:
    alone_sent = sent(lambda: alone.run(steps=8))
    WANT = tensors(alone.model)
assert alone_sent > SIZE
dsstne.keep_devices(False)
dsstne.keep_devices(True)
"""
)


@pytest.fixture
def run(emulated):
    return lambda program: emulated(PRELUDE + program, keep=True)


@pytest.mark.long
def test_a_second_trainer_copies_no_data_and_has_the_same_bits(run):
    run("""
first, second = trainer(), trainer()
assert [part["held"] for part in copies_of(first.plan())] == [False]
moved = sent(lambda: first.run(steps=8))
assert moved == alone_sent, (moved, alone_sent)
assert [part["held"] for part in copies_of(second.plan())] == [True]
assert sent(lambda: second.run(steps=8)) == alone_sent - SIZE
assert same(tensors(first.model), WANT)
assert same(tensors(second.model), WANT)
first.close()
dsstne.keep_devices(False)  # the devices of the first, in whose memory the data are
assert [part["held"] for part in copies_of(second.plan())] == [True]
second.run(steps=8)
second.close()
assert live().get("live_bytes", 0) == 0, live()
""")


@pytest.mark.long
def test_the_last_user_frees_the_data(run):
    run("""
first, second = trainer(), trainer()
first.run(steps=1), second.run(steps=1)
first.close()
second.close()
with trainer() as third:
    assert [part["held"] for part in copies_of(third.plan())] == [False]
    third.run(steps=1)
    with trainer() as fourth:
        assert sent(lambda: fourth.run(steps=1)) < SIZE
""")


@pytest.mark.long
def test_a_fork_and_a_predictor_use_the_data_of_the_trainer(run):
    run("""
with trainer() as first:
    first.run(steps=4)
    with first.fork() as fork:
        assert [part["held"] for part in copies_of(fork.plan())] == [True]
        assert sent(lambda: fork.run(steps=4)) < SIZE
        first.run(steps=4)
        assert same(tensors(first.model), WANT) and same(tensors(fork.model), WANT)
    lists = []
    recommend = lambda of: lists.append(first.model.recommend(of, k=5, devices="cuda:0", batch_size=64))
    assert sent(lambda: recommend(X)) > SIZE
    assert sent(lambda: recommend(data)) < SIZE
    assert all((got == want).all() for got, want in zip(*lists))
""")


@pytest.mark.long
def test_trainings_in_threads_copy_the_data_once(run):
    run("""
trainers = [trainer() for _ in range(4)]
def together():
    threads = [threading.Thread(target=t.run, kwargs=dict(steps=8)) for t in trainers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert sent(together) == 4 * alone_sent - 3 * SIZE
assert all(same(tensors(t.model), WANT) for t in trainers)
closing = [threading.Thread(target=t.close) for t in trainers]
for thread in closing:
    thread.start()
for thread in closing:
    thread.join()
dsstne.keep_devices(False)
assert live().get("live_bytes", 0) == 0, live()
""")


@pytest.mark.long
def test_another_device_and_other_data_have_copies_of_their_own(run):
    run("""
with trainer() as first:
    first.run(steps=8)
    for other in (trainer(devices="cuda:1"), trainer(X)):
        with other:
            assert sent(lambda: other.run(steps=8)) == alone_sent
            assert same(tensors(other.model), WANT)
""")


@pytest.mark.long
def test_ranks_share_their_columns(run):
    run("""
two = ["cuda:0", "cuda:1"]
with trainer(devices=two, parallel="model") as first, trainer(devices=two, parallel="model") as second:
    moved = [sent(lambda: t.run(steps=8)) for t in (first, second)]
    assert moved[0] - moved[1] >= 4 * X.nnz, moved
    assert [part["held"] for part in copies_of(second.plan())] == [True, True]
    assert same(tensors(first.model), tensors(second.model))
""")


@pytest.mark.long
def test_data_whose_copying_has_failed_are_copied_by_the_next(run):
    run("""
first, second = trainer(), trainer()
for n in range(1, 4):
    control.fail("cuMemcpyHtoDAsync", n, UNKNOWN)
    assert raised(lambda: first.run(steps=1), dsstne.DeviceFailedError) is not None
assert [part["held"] for part in copies_of(second.plan())] == [False]
assert sent(lambda: second.run(steps=8)) >= SIZE
assert same(tensors(second.model), WANT)
first.run(steps=8)
assert same(tensors(first.model), WANT)
first.close(), second.close()
""")


@pytest.mark.long
def test_data_that_are_there_need_no_memory(run):
    run("""
with trainer() as first:
    first.run(steps=1)
    own = first.plan()["bytes"]
    with trainer() as second:
        plan = second.plan()
        assert plan["bytes"] == own, "memory_limit counts the copy of each"
        assert sum(part["bytes"] for part in plan["parts"] if part["held"]) >= sum(
            part["bytes"] for part in copies_of(plan)
        )
""")
