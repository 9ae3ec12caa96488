"""What is copied between the host and a CUDA device, counted by the emulated driver that ``make test`` builds."""

import pytest

PRELUDE = """
import numpy as np, scipy.sparse, dsstne
from emulator import Control
control = Control()

def matrix(density, rows=64, columns=80):
    random = np.random.default_rng(1)
    return scipy.sparse.random(rows, columns, density, "csr", np.float32, random_state=random)

def untrained(X, **options):
    return dsstne.fit(X, hidden=[64], epochs=0, progress=False, devices="cpu", **options)

def counted(work):
    control.reset_counts()
    work()
    counts = control.counts()
    return {name: counts.get(f"bytes.{name}", 0) for name in ("host_to_device", "device_to_host")}

def tensors(model):
    return {name: model.tensor(name) for name in model.tensors}

def same(a, b):
    return all((a[name] == b[name]).all() for name in a)

def weights(model):
    return sum(values.nbytes for values in tensors(model).values())
"""


@pytest.fixture
def run(emulated):
    return lambda program: emulated(PRELUDE + program, keep=True)


def test_a_step_copies_no_data(run):
    run("""
copied = {}
for density in (0.05, 0.5):
    X = matrix(density)
    with dsstne.Trainer(untrained(X), X, batch_size=32, devices="cuda:0") as trainer:
        trainer.run(steps=1)
        copied[density] = [counted(lambda: trainer.run(steps=n))["host_to_device"] for n in (1, 3)]
assert copied[0.05] == copied[0.5], copied
assert max(copied[0.5]) < 3 * 1024, copied
""")


def test_weights_stay_on_the_device_between_runs(run):
    run("""
X = matrix(0.2)
model = untrained(X)
size = weights(model)
with dsstne.Trainer(model, X, batch_size=32, devices="cuda:0") as trainer:
    assert counted(lambda: trainer.run(steps=1))["host_to_device"] > size
    for _ in range(2):
        moved = counted(lambda: trainer.run(steps=1))
        assert max(moved.values()) < 2048 < size, moved
    assert counted(lambda: tensors(model)) == {"host_to_device": 0, "device_to_host": size}
    assert counted(lambda: tensors(model))["device_to_host"] == 0
    assert max(counted(lambda: trainer.run(steps=1)).values()) < 2048
    before = tensors(model)
    model.set_tensor("output.bias", np.ones(80, np.float32))
    assert same({**before, "output.bias": np.ones(80, np.float32)}, tensors(model))
    moved = counted(lambda: trainer.run(steps=1))
    assert moved["host_to_device"] > size and moved["device_to_host"] < 2048, moved
    assert not same(before, tensors(model))
    trainer.run(steps=1)
    assert counted(trainer.close)["device_to_host"] == size
""")


def test_runs_in_parts_with_readers_between_them_change_no_bit(run):
    run("""
X = matrix(0.2)
models = [untrained(X), untrained(X), untrained(X)]
options = dict(batch_size=20, devices="cuda:0", optimizer="momentum", seed=5)
with dsstne.Trainer(models[0], X, **options) as trainer:
    trainer.run(steps=6)
with dsstne.Trainer(models[1], X, **options) as trainer:
    for _ in range(6):
        trainer.run(steps=1)
with dsstne.Trainer(models[2], X, **options) as trainer:
    for _ in range(3):
        trainer.run(steps=2)
        models[2].recommend(X[:3], k=3, devices="cpu")
        models[2].set_tensor("output.bias", models[2].tensor("output.bias"))
assert [model.step for model in models] == [6, 6, 6]
assert same(*map(tensors, models[:2])) and same(*map(tensors, models[1:]))
""")


def test_a_reader_whose_copy_fails_may_try_again(run):
    run("""
X = matrix(0.2)
model, other = untrained(X), untrained(X)
for m in (model, other):
    with dsstne.Trainer(m, X, batch_size=32, devices="cuda:0") as trainer:
        trainer.run(steps=3)
        if m is model:
            control.fail("cuMemcpyDtoHAsync", 1, 999)
            try:
                model.tensor("output.bias")
                raise SystemExit("no error")
            except dsstne.DeviceFailedError as error:
                assert "the weights of step 3" in str(error) and "has those of step 0" in str(error), error
            control.fail("cuMemcpyDtoHAsync", 1, 999)
            try:
                model.set_tensor("output.bias", np.ones(80, np.float32))
                raise SystemExit("no error")
            except dsstne.DeviceFailedError:
                pass
            trainer.run(steps=1)
        else:
            trainer.run(steps=1)
        if m is model:
            assert same(tensors(model), tensors(model)) and model.step == 4
assert same(tensors(model), tensors(other))
""")


def test_a_lost_device_leaves_the_weights_that_were_last_stored(run):
    run("""
LOST = (dsstne.DeviceFailedError, dsstne.DeviceUnavailableError)
X = matrix(0.2)
model = untrained(X)
trainer = dsstne.Trainer(model, X, batch_size=32, devices="cuda:0")
trainer.run(steps=2)
stored = tensors(model)
trainer.run(steps=1)
control.lose(0)
try:
    trainer.run(steps=1)
    raise SystemExit("no error")
except LOST as error:
    assert "the weights of step 3" in str(error) and "has those of step 2" in str(error), error
assert same(stored, tensors(model)) and model.step == 2
try:
    trainer.close()
except LOST:
    pass
assert repr(trainer) == "Trainer(closed)"
model.close()
""")


def test_as_many_rows_as_there_are_come_from_the_data_on_the_device(run):
    run("""
from dsstne._predictor import Predictor
X = matrix(0.5, rows=100)
model = dsstne.fit(X, hidden=[16], epochs=1, progress=False, devices="cpu", input_scaling="l2")
lists = []
for rows in (None, np.arange(50)):
    with Predictor(model, X, rows=rows, options=dict(devices="cuda:0", batch_size=32)) as predictor:
        work = lambda: lists.append(predictor.recommend(5, None))
        copied = [counted(work)["host_to_device"] for _ in range(4)]
    if rows is None:
        assert copied[1] == copied[2] == copied[3] < copied[0] / 2, copied
    else:  # half of the rows, and then the other half if they are as many
        assert copied[1] > copied[0] > 2 * copied[2] == 2 * copied[3], copied
for ids, scores in lists:
    assert (ids == lists[0][0][: len(ids)]).all() and (scores == lists[0][1][: len(ids)]).all()
""")


def test_neighbors_again_copy_no_weights(run):
    run("""
from dsstne._predictor import Predictor, WEIGHTS_ONLY
X = matrix(0.2)
model = untrained(X)
queries = np.arange(5, dtype=np.int32)
with Predictor(model, WEIGHTS_ONLY, options={"devices": "cuda:0"}) as predictor:
    lists = []
    work = lambda: lists.append(predictor.neighbors(None, queries, 3, {}))
    copied = [counted(work)["host_to_device"] for _ in range(3)]
    assert copied[1] == copied[2] == copied[0] - 4 * 80 * 64, copied
    model.set_tensor("output.weight", np.roll(model.tensor("output.weight"), 1, axis=0))
    assert counted(work)["host_to_device"] == copied[0]
want = model.neighbors(queries, k=3, devices="cpu")
assert (lists[3][0] == want[0]).all() and not (lists[0][0] == want[0]).all() and (lists[0][0] == lists[2][0]).all()
""")


def test_data_that_do_not_fit_are_copied_step_by_step_with_the_same_bits(run):
    run("""
X = matrix(0.5, rows=3000)
Y = matrix(0.1, rows=3000)
def train(**options):
    model = untrained(X)
    with dsstne.Trainer(model, X, Y, batch_size=16, devices="cuda:0", **options) as trainer:
        plan = trainer.plan()
        trainer.run(steps=3)
        copied = counted(lambda: trainer.run(steps=1))["host_to_device"]
    return plan, copied, tensors(model)
kept, small, want = train()
data = {part["of"]: part["bytes"] for part in kept["parts"] if part["name"] == "data" and part["device"] == "cuda:0"}
assert len(data) == 2, kept
assembled = [text for text in kept["operations"] if text.startswith("Assemble the batch of ")]
assert [text.split("[")[0].split()[-1] for text in assembled] == ["input", "output"], kept["operations"]

some, more, got = train(memory_limit=kept["bytes"] - 1)
copies = [text for text in some["operations"] if text.startswith("Copy the batch of ")]
assert len(copies) == 1 and copies[0].startswith("Copy the batch of input[80] from the host: the data take "), copies
assert "and memory_limit is " in copies[0], copies
assert same(want, got) and small < more

none, most, got = train(memory_limit=some["bytes"] - 1)
copies = [text for text in none["operations"] if text.startswith("Copy the batch of ")]
assert len(copies) == 2 and none["bytes"] < some["bytes"] < kept["bytes"], none["operations"]
assert same(want, got) and more < most
""")


def test_the_plan_is_what_is_allocated(run):
    run("""
X = matrix(0.5, rows=300)
with dsstne.Trainer(untrained(X), X, batch_size=16, devices="cuda:0") as trainer:
    before = control.count("live_bytes")
    planned = sum(part["bytes"] for part in trainer.plan()["parts"] if part["device"] == "cuda:0")
    trainer.run(steps=2)
    taken = control.count("live_bytes") - before
assert taken <= 1.2 * planned and planned <= 1.2 * taken, (taken, planned)
""")


@pytest.mark.parametrize("parallel", ["model", "data"])
def test_several_devices_make_their_parts_of_batches_with_the_bits_of_the_host(run, parallel):
    run(
        f"parallel = {parallel!r}"
        + """
X = matrix(0.3, rows=12000)
def train(**options):
    model = untrained(X, denoising=0.4, input_scaling="l2")
    devices = ["cuda:0", "cuda:1", "cuda:2"]
    with dsstne.Trainer(model, X, batch_size=31, devices=devices, parallel=parallel, **options) as trainer:
        plan = trainer.plan()
        trainer.run(steps=3)
    assert plan["parallel"] == parallel
    return plan, tensors(model)
kept, want = train()
assert sum("Assemble the batch of " in text for text in kept["operations"]) == 2 * 3, kept["operations"]
plan, got = train(memory_limit=kept["bytes"] - 1)
assert not any("Assemble" in text for text in plan["operations"]), plan["operations"]
assert same(want, got)
"""
    )
