"""What is copied between the host and a CUDA device, counted by the emulated driver that ``make test`` builds."""

import pytest
from emulated import PROGRAM


@pytest.fixture
def run(emulated):
    return lambda program: emulated(PROGRAM + program, keep=True)


@pytest.mark.long
def test_a_step_copies_no_data(run):
    run("""
bytes_sent = {}
for density in (0.05, 0.5):
    X = matrix(64, 80, density, ones=False)
    with dsstne.Trainer(untrained(X, hidden=[64]), X, batch_size=32, devices="cuda:0") as trainer:
        trainer.run(steps=1)
        bytes_sent[density] = [copied(lambda: trainer.run(steps=n))["host_to_device"] for n in (1, 3)]
assert bytes_sent[0.05] == bytes_sent[0.5], bytes_sent
assert max(bytes_sent[0.5]) < 3 * 1024, bytes_sent
""")


def test_weights_stay_on_the_device_between_runs(run):
    run("""
X = matrix(64, 80, 0.2, ones=False)
model = untrained(X, hidden=[64])
size = sum(values.nbytes for values in tensors(model).values())
with dsstne.Trainer(model, X, batch_size=32, devices="cuda:0") as trainer:
    assert copied(lambda: trainer.run(steps=1))["host_to_device"] > size
    for _ in range(2):
        moved = copied(lambda: trainer.run(steps=1))
        assert max(moved.values()) < 2048 < size, moved
    assert copied(lambda: tensors(model)) == {"host_to_device": 0, "device_to_host": size}
    assert copied(lambda: tensors(model))["device_to_host"] == 0
    assert max(copied(lambda: trainer.run(steps=1)).values()) < 2048
    before = tensors(model)
    model.set_tensor("output.bias", np.ones(80, np.float32))
    assert same({**before, "output.bias": np.ones(80, np.float32)}, tensors(model))
    moved = copied(lambda: trainer.run(steps=1))
    assert moved["host_to_device"] > size and moved["device_to_host"] < 2048, moved
    assert not same(before, tensors(model))
    trainer.run(steps=1)
    assert copied(trainer.close)["device_to_host"] == size
""")


@pytest.mark.long
def test_runs_in_parts_with_readers_between_them_change_no_bit(run):
    run("""
X = matrix(64, 80, 0.2, ones=False)
models = [untrained(X, hidden=[64]), untrained(X, hidden=[64]), untrained(X, hidden=[64])]
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
X = matrix(64, 80, 0.2, ones=False)
model, other = untrained(X, hidden=[64]), untrained(X, hidden=[64])
for m in (model, other):
    with dsstne.Trainer(m, X, batch_size=32, devices="cuda:0") as trainer:
        trainer.run(steps=3)
        if m is model:
            control.fail("cuMemcpyDtoHAsync", 1, 999)
            error = fails(lambda: model.tensor("output.bias"), dsstne.DeviceFailedError)
            assert "the weights of step 3" in str(error) and "has those of step 0" in str(error), error
            control.fail("cuMemcpyDtoHAsync", 1, 999)
            fails(lambda: model.set_tensor("output.bias", np.ones(80, np.float32)), dsstne.DeviceFailedError)
        trainer.run(steps=1)
        if m is model:
            assert same(tensors(model), tensors(model)) and model.step == 4
assert same(tensors(model), tensors(other))
""")


def test_a_lost_device_leaves_the_weights_that_were_last_stored(run):
    run("""
X = matrix(64, 80, 0.2, ones=False)
model = untrained(X, hidden=[64])
trainer = dsstne.Trainer(model, X, batch_size=32, devices="cuda:0")
trainer.run(steps=2)
stored = tensors(model)
trainer.run(steps=1)
control.lose(0)
error = fails(lambda: trainer.run(steps=1), *LOST)
assert "the weights of step 3" in str(error) and "has those of step 2" in str(error), error
assert same(stored, tensors(model)) and model.step == 2
raised(trainer.close, *LOST)
assert repr(trainer) == "Trainer(closed)"
model.close()
""")


def test_as_many_rows_as_there_are_come_from_the_data_on_the_device(run):
    run("""
from dsstne._predictor import Predictor
X = matrix(100, 80, 0.5, ones=False)
model = dsstne.fit(X, hidden=[16], epochs=1, progress=False, devices="cpu", input_scaling="l2")
lists = []
for rows in (None, np.arange(50)):
    with Predictor(model, X, rows=rows, options=dict(devices="cuda:0", batch_size=32)) as predictor:
        work = lambda: lists.append(predictor.recommend(5, None))
        sent = [copied(work)["host_to_device"] for _ in range(4)]
    if rows is None:
        assert sent[1] == sent[2] == sent[3] < sent[0] / 2, sent
    else:  # half of the rows, and then the other half if they are as many
        assert sent[1] > sent[0] > 2 * sent[2] == 2 * sent[3], sent
for ids, scores in lists:
    assert (ids == lists[0][0][: len(ids)]).all() and (scores == lists[0][1][: len(ids)]).all()
""")


def test_neighbors_again_copy_no_weights(run):
    run("""
from dsstne._predictor import Predictor, WEIGHTS_ONLY
X = matrix(64, 80, 0.2, ones=False)
model = untrained(X, hidden=[64])
queries = np.arange(5, dtype=np.int32)
with Predictor(model, WEIGHTS_ONLY, options={"devices": "cuda:0"}) as predictor:
    lists = []
    work = lambda: lists.append(predictor.neighbors(None, queries, 3, {}))
    sent = [copied(work)["host_to_device"] for _ in range(3)]
    assert sent[1] == sent[2] == sent[0] - 4 * 80 * 64, sent
    model.set_tensor("output.weight", np.roll(model.tensor("output.weight"), 1, axis=0))
    assert copied(work)["host_to_device"] == sent[0]
want = model.neighbors(queries, k=3, devices="cpu")
assert (lists[3][0] == want[0]).all() and not (lists[0][0] == want[0]).all() and (lists[0][0] == lists[2][0]).all()
""")


def test_data_that_do_not_fit_are_copied_step_by_step_with_the_same_bits(run):
    run("""
X = matrix(3000, 80, 0.5, ones=False)
Y = matrix(3000, 80, 0.1, ones=False)
def train(**options):
    model = untrained(X, hidden=[64])
    with dsstne.Trainer(model, X, Y, batch_size=16, devices="cuda:0", **options) as trainer:
        plan = trainer.plan()
        trainer.run(steps=3)
        sent = copied(lambda: trainer.run(steps=1))["host_to_device"]
    return plan, sent, tensors(model)
kept, small, want = train()
data = {part["of"]: part["bytes"] for part in kept["parts"] if part["name"] == "data" and part["device"] == "cuda:0"}
assert len(data) == 2, kept
assembled = [text for text in kept["operations"] if text.startswith("Assemble the batch of ")]
assert [text.split("[")[0].split()[-1] for text in assembled] == ["input", "output"], kept["operations"]

some, more, got = train(memory_limit=without_spares(kept))
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
X = matrix(300, 80, 0.5, ones=False)
with dsstne.Trainer(untrained(X, hidden=[64]), X, batch_size=16, devices="cuda:0") as trainer:
    before = control.count("live_bytes")
    planned = sum(part["bytes"] for part in trainer.plan()["parts"] if part["device"] == "cuda:0")
    trainer.run(steps=2)
    taken = control.count("live_bytes") - before
assert taken <= 1.2 * planned and planned <= 1.2 * taken, (taken, planned)
""")


@pytest.mark.long
@pytest.mark.parametrize("parallel", ["model", "data"])
def test_several_devices_make_their_parts_of_batches_with_the_bits_of_the_host(run, parallel):
    run(
        f"parallel = {parallel!r}"
        + """
X = matrix(12000, 80, 0.3, ones=False)
def train(**options):
    model = untrained(X, hidden=[64], denoising=0.4, input_scaling="l2")
    devices = ["cuda:0", "cuda:1", "cuda:2"]
    with dsstne.Trainer(model, X, batch_size=31, devices=devices, parallel=parallel, **options) as trainer:
        plan = trainer.plan()
        trainer.run(steps=3)
    assert plan["parallel"] == parallel
    return plan, tensors(model)
kept, want = train()
assert sum("Assemble the batch of " in text for text in kept["operations"]) == 2 * 3, kept["operations"]
plan, got = train(memory_limit=without_spares(kept))
assert not any("Assemble" in text for text in plan["operations"]), plan["operations"]
assert same(want, got)
"""
    )


def test_layers_that_read_the_same_share_a_batch_with_the_bits_of_the_host(run):
    run("""
X = matrix(3000, 80, 0.1, ones=False)
def train(**options):
    model = untrained(X, hidden=[64], denoising=0, input_scaling=None)
    with dsstne.Trainer(model, X, batch_size=16, devices="cuda:0", **options) as trainer:
        plan = trainer.plan()
        trainer.run(steps=3)
    return plan, tensors(model)
kept, want = train()
assembled = [text for text in kept["operations"] if text.startswith("Assemble the batch of ")]
assert len(assembled) == 1 and assembled[0].endswith(", for 2 layers"), kept["operations"]
plan, got = train(memory_limit=without_spares(kept))
assert not any("Assemble" in text for text in plan["operations"]), plan["operations"]
assert same(want, got)
""")


@pytest.mark.long
def test_logits_and_rounded_copies_of_weights_change_no_bit_and_give_way_to_data(run):
    run("""
X = matrix(300, 80, 0.2, ones=False)
def train(loss, **options):
    model = untrained(X, hidden=[64, 20], loss=loss)
    with dsstne.Trainer(model, X, batch_size=16, devices="cuda:0", precision="bfloat16", **options) as trainer:
        plan = trainer.plan()
        trainer.run(steps=3)
        trainer.run(steps=2)
    return plan, tensors(model)
for loss in "softmax", "sigmoid":
    kept, want = train(loss)
    copies = {part["of"]: part["bytes"] for part in kept["parts"] if part["name"] == "rounded weights"}
    assert copies == {"output.weight": 2 * 80 * 24}, copies  # rows are filled up to a multiple of 8
    assert any(text == "at the start of a run: Round output.weight[80, 20] for products" for text in kept["operations"])
    logits = [part["bytes"] for part in kept["parts"] if part["name"] == "logits"]
    assert logits == ([2 * 16 * 128] if loss == "softmax" else []), logits  # chunks have a multiple of 64 items
    for spares, limit in ({"rounded weights"}, kept["bytes"] - 1), (set(), kept["bytes"] - 1 - sum(logits)):
        plan, got = train(loss, memory_limit=limit)
        left = {part["name"] for part in plan["parts"]} & {"logits", "rounded weights"}
        assert left == (spares if logits else set()), (limit, plan)
        assert any("Assemble" in text for text in plan["operations"]), plan
        assert same(want, got)
""")
