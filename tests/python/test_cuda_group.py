"""How the steps of several CUDA devices follow each other, and what is left of one that fails, on the emulator."""

import json

import pytest
from emulated import PROGRAM, WAYS, sample

EACH_STEP = """
X = matrix()
with trainer(X, devices=devices_of(count), hidden=(8, 5), parallel=way) as t:
    t.run(steps=3)  # an epoch has 4, the last of which is smaller
    few, many = (counted(lambda: t.run(steps=n)) for n in (5, 13))
each = {name: (many.get(name, 0) - few.get(name, 0)) / 8 / count for name in many}
for name in ("calls.cuGraphInstantiate", "allocations", "frees", "calls.cuStreamSynchronize", "calls.ncclAllReduce"):
    assert each.get(name, 0) == 0, (name, each)
assert each["copies.host_to_device"] == each["copies.device_to_host"] == 1, each
if with_nccl:
    assert each["graph_launches"] == 2, each  # the batch is made beside the step before
    assert each["launches"] > 10, "within it"
    assert each.get("calls.cuLaunchKernel", 0) == 0, "outside of the graph"
print(json.dumps(each))
assert not control.messages()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("joined", "count", "way"),
    sample(
        ("NCCL", 4, "model"),
        ("peer copies", 2, "data"),
        of=(WAYS, (2, 4), ("model", "data")),
    ),
    indirect=["joined"],
)
def test_a_step_is_two_launches_of_graphs_on_each_device_and_waits_for_nothing(joined, count, way):
    for late in (False, True):
        each = json.loads(joined(f"{PROGRAM}count, way = {count}, {way!r}\n{EACH_STEP}", late))
        # Only for the results of the oldest step, where another device is behind, or all work late.
        assert each.get("synchronisations", 0) <= max(0, each.get("calls.cuEventSynchronize", 0)) <= 1


# A kernel of NCCL holds its place on the device while it waits for other ranks, so those of two groups are kept apart.
TWO_GROUPS = """
X = matrix()
options = {"hidden": (8, 5), "parallel": "model"}
with trainer(X, devices=devices_of(3), **options) as a:
    a.run(steps=12)
    want = tensors(a.model)
with trainer(X, devices=devices_of(3), **options) as a, trainer(X, devices=["cuda:2", "cuda:1"], **options) as b:
    for t in (a, b):
        t.run(steps=4)
    in_rows = counted(lambda: (a.run(steps=1), a.run(steps=1), a.run(steps=1), b.run(steps=1), b.run(steps=1)))
    b.run(steps=1)
    in_turn = counted(lambda: (a.run(steps=1), b.run(steps=1), a.run(steps=1), b.run(steps=1), a.run(steps=1)))
    a.run(steps=2)
    assert a.progress.step == 12, a.progress
    assert same(want, a.model)
waits = "calls.cuStreamWaitEvent"
changes, devices_in_common = 5 - 2, 2
print((in_turn[waits] - in_rows[waits]) / changes / devices_in_common)
assert not control.messages()
"""


@pytest.mark.long
@pytest.mark.parametrize(("joined", "waits"), [("NCCL", 1), ("peer copies", 0)], indirect=["joined"])
def test_steps_of_two_groups_do_not_meet_on_a_device(joined, waits):
    assert float(joined(PROGRAM + TWO_GROUPS, True)) == waits


# A target that is too large for the loss, in a step and on a rank: one that has the item, or the row.
NOT_FINITE = """
X = matrix(70, 60)
FAILURES = ((["cuda:1", "cuda:0"], ((2, 1), (5, 1))), (devices_of(4), ((1, 0), (3, 3), (7, 0))))
for devices, places in FAILURES:
    for way in ("model", "data"):
        for step, rank in places:
            row, item = 10 * step - 5, 60 * rank // len(devices)
            if way == "data":
                row = 10 * (step - 1) + 10 * rank // len(devices)
            Y = X.tolil()
            Y[row, item] = 3e38
            Y = Y.tocsr()
            seen = []
            for steps in (1, 30):
                model = untrained(X, hidden=[8, 5], loss="squared")
                with dsstne.Trainer(model, X, Y, devices=devices, parallel=way, batch_size=10, shuffle=False) as t:
                    told = str(fails(lambda: [t.run(steps=steps) for _ in range(30 // steps)], dsstne.NotFiniteError))
                    seen.append((told, t.progress.step, t.progress.epoch, t.progress.loss, tensors(model)))
                    assert t.progress.step == step - 1, (told, t.progress)
                    t.run(steps=1)  # the step after the one that failed
                    seen[-1] += (t.progress.step, t.progress.loss, tensors(model))
            one, many = seen
            case = (devices, way, step, rank)
            assert str(one[:4]) == str(many[:4]) and str(one[5:7]) == str(many[5:7]), (case, one[:4], many[:4])
            for at in (4, 7):
                assert same(one[at], many[at]), case
                assert all(np.isfinite(x).all() for x in one[at].values()), case
assert not control.messages()
"""


@pytest.mark.long
@pytest.mark.parametrize(("joined", "late"), sample(("NCCL", True), of=(WAYS, (False, True))), indirect=["joined"])
def test_a_step_that_fails_on_one_device_ends_all_as_if_each_had_been_done_before_the_next(joined, late):
    joined(PROGRAM + NOT_FINITE, late)


# With plain SGD a number of a weight is that of one step or of the next one. Were it changed by a sum that is wrong, it
# would be neither.
FAULTS = """
X = matrix(60, 50)
options = {"devices": devices_of(count), "parallel": way, "optimizer": "sgd", "learning_rate": 0.5, "batch_size": 10,
           "hidden": (8, 5)}
with trainer(X, **options) as t:
    states = [tensors(t.model)]
    for _ in range(9):
        t.run(steps=1)
        states.append(tensors(t.model))
held = live()
functions = ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync")
functions += ("cuEventRecord", "cuEventQuery", "cuStreamWaitEvent")
functions += ("cuGraphLaunch", "ncclCommGetAsyncError") if with_nccl else ("cuMemcpyPeerAsync", "cuLaunchKernel")
reached, parts = set(), 0
for function in functions:
    for n in (1, 4, 16, 64, 256):
        with trainer(X, **options) as t:
            t.run(steps=2)
            control.fail(function, n, 6 if function.startswith("nccl") else 999)
            try:
                t.run(steps=6)
                break
            except dsstne.DeviceFailedError as error:
                assert "group has failed" not in str(error), "the cause is told and not what followed"
            finally:
                control.clear_faults()
            reached.add(function)
            done, got = t.progress.step, tensors(t.model)
            assert 2 <= done <= 8, (function, n, done)
            for name, x in got.items():
                before, after = states[done][name], states[done + 1][name]
                assert ((x == before) | (x == after)).all(), (function, n, done, name)
                parts += (x != before).any()
            t.run(steps=1)
            assert finite(t.model)
        del t
        assert live() == held, (function, n, live(), held)
assert reached == set(functions), set(functions) - reached
assert not control.messages()
print(parts)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("joined", "case"),
    sample(
        ("NCCL", (2, "model", False)),
        of=(WAYS, ((2, "model", False), (2, "data", True), (4, "model", True), (3, "data", False))),
    ),
    indirect=["joined"],
)
def test_after_a_failure_no_weight_is_made_of_wrong_sums(joined, case):
    count, way, late = case
    joined(f"{PROGRAM}count, way = {count}, {way!r}\n{FAULTS}", late)


# The group is asked to join again when a run has failed, when the next one has, and when the devices are to be kept.
NOT_JOINED_AGAIN = """
X = matrix(60, 50)
options = {"devices": devices_of(3), "parallel": way, "batch_size": 10}
functions = ("ncclCommInitRank", "ncclGroupEnd")
for broken, code in (("cuGraphLaunch", 999), ("ncclAllReduce", 3)):
    for function in functions:
        for n in (1, 3):
            with trainer(X, **options) as t:
                t.run(steps=1 if broken == "ncclAllReduce" else 4)
                control.fail(broken, 1, code)
                for k in range(3):  # as often as it is tried again
                    control.fail(function, n + k, 2)
                for attempt in range(4):
                    try:
                        t.run(steps=2)
                        assert attempt > 0, (broken, function, n)
                        break
                    except LOST as error:
                        # Collectives that agree are groups of calls, too: their end may be what fails first.
                        first = broken in str(error) or function == "ncclGroupEnd"
                        assert first or attempt > 0, (broken, function, n, error)
                control.clear_faults()
                t.run(steps=2)
                assert finite(t.model)
            model = dsstne.fit(X, hidden=[8], epochs=1, progress=False, devices=devices_of(3), parallel=way)
            assert finite(model)
assert not control.messages()
"""


@pytest.mark.long
@pytest.mark.parametrize("joined", ["NCCL"], indirect=True)
@pytest.mark.parametrize(
    ("way", "late"),
    [
        ("model", True),
        pytest.param("data", False, marks=pytest.mark.slow),
        pytest.param("model", False, marks=pytest.mark.slow),
        pytest.param("data", True, marks=pytest.mark.slow),
    ],
)
def test_a_group_that_cannot_be_joined_again_is_an_error_and_joined_later(joined, way, late):
    joined(f"{PROGRAM}way = {way!r}\n{NOT_JOINED_AGAIN}", late)


LOST = """
X = matrix(60, 50)
for way in ("model", "data"):
    for lost in range(3):
        model = untrained(X, hidden=[8])
        t = dsstne.Trainer(model, X, devices=devices_of(3), parallel=way, batch_size=10)
        t.run(steps=2)
        before = tensors(model)
        def lose(progress):
            control.lose(lost)
        error = fails(lambda: t.run(epochs=10**6, on_progress=lose), *LOST)
        assert f"cuda:{lost}" in str(error), (lost, error)
        assert same(before, model), (way, lost)
        raised(t.close, dsstne.DsstneError)
        control.lose(lost, 0)
        assert model.recommend(X, k=3, devices=devices_of(3))[0].shape == (60, 3)
"""


@pytest.mark.long
def test_a_lost_device_leaves_the_model_that_was_stored_last(joined):
    joined(PROGRAM + LOST)
    joined(PROGRAM + LOST, late=True)


@pytest.mark.long
def test_a_run_on_several_devices_that_is_interrupted_ends_with_whole_steps(joined):
    joined(
        PROGRAM
        + """
X = matrix()
for way in ("model", "data"):
    with trainer(X, batch_size=2, devices=devices_of(3), parallel=way) as t:
        fails(lambda: t.run(steps=10**9, on_progress=interrupt), Enough)
        done = t.progress.step
        assert done >= 10
        with trainer(X, batch_size=2, devices=devices_of(3), parallel=way) as again:
            again.run(steps=done)
            assert again.progress.loss == t.progress.loss and same(t.model, again.model)
"""
    )


# Batches 1 and 3 are light; the second has all its entries in rows and items of one rank.
PLAN = """
rows, items = 30_000, 400
X = matrix(rows, items, 0.01)
dense = scipy.sparse.csr_matrix(np.ones((10, items // count), np.float32))
dense.resize(10, items)
X = scipy.sparse.vstack([X[:100], dense, X[100:]], "csr")
options = {"devices": devices_of(count), "parallel": way, "batch_size": 100, "shuffle": False, "hidden": (16,)}
nothing = control.count("live_bytes")
limit = None
for where in ("device", "host"):
    with trainer(X, memory_limit=limit, **options) as t:
        plan = t.plan()
        t.run(steps=1)
        grown = counted(lambda: t.run(steps=1))
        held = control.count("live_bytes") - nothing
    assert grown.get("calls.cuMemAlloc", 0) == 0, "what was planned is enough for the fullest batch"
    parts = [part for part in plan["parts"] if part["device"].startswith("cuda")]
    assert any("from the host" in text for text in plan["operations"]) == (where == "host")
    planned, exchange = (sum(p["bytes"] for p in parts if p["name"] in names) for names in (
        {p["name"] for p in parts}, {"exchange"}))
    least = 1 << 20 if with_nccl else (count - 1) << 22
    assert count * least < exchange <= count * (least + 512), exchange
    # Sizes are rounded up: 512 bytes, then an eighth.
    assert planned <= held <= planned + (planned - exchange) / 8 + 512 * len(parts), (way, where, planned, held)
    limit = without_spares(plan)
"""


@pytest.mark.long
@pytest.mark.parametrize(("count", "way"), [(2, "model"), (4, "model"), (3, "data")])
def test_the_plan_is_what_the_devices_hold(joined, count, way):
    joined(f"{PROGRAM}count, way = {count}, {way!r}\n{PLAN}")


NO_OTHER_DEVICE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")

def used(device):
    flags, active = ctypes.c_uint(), ctypes.c_int()
    assert cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0
    return active.value

with trainer(matrix(), devices=["cuda:2", "cuda:3"], parallel="model") as t:
    t.run(steps=3)
    assert [used(device) for device in range(4)] == [0, 0, 1, 1]
assert [used(device) for device in range(4)] == [0, 0, 0, 0], "a context on a device that nobody asked for, or is left"
assert not control.messages()
print("none")
"""


@pytest.mark.long
def test_devices_that_were_not_asked_for_are_left_alone(joined):
    assert joined(PROGRAM + NO_OTHER_DEVICE).strip() == "none"


@pytest.mark.long
def test_scores_of_a_batch_come_in_one_copy_from_each_device(joined):
    out = joined(
        PROGRAM
        + """
X = matrix()
model = dsstne.fit(X, hidden=[8], epochs=1, progress=False, devices="cpu")
want = model.predict(X, devices="cuda:0")
assert (model.predict(X, devices="all") == want).all()
counts = counted(lambda: model.predict(X, devices="all"))
moved, calls, copies = (counts[n] for n in ("bytes.device_to_host", "calls.cuMemcpy2DAsync", "copies.device_to_host"))
print(moved // want.nbytes, calls, copies < 20)
"""
    )
    assert out == "1 4 True\n"
