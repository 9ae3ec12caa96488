"""Ranking and metrics on CUDA devices: what is copied and waited for, and what may fail, by the emulated driver."""

import json

import pytest
from emulated import PROGRAM

HEAD = (
    PROGRAM
    + """
from dsstne._predictor import Choice, Predictor

X, Y, Z = (matrix(100, 80, density, ones=False) for density in (0.5, 0.2, 0.3))
plain = {"temperature": None, "learning_rate": 1e-3, "schedule": None, "precision": "float32"}
model = dsstne.fit(X, hidden=[16], epochs=1, progress=False, devices="cpu", **plain)

def counted(work):
    control.reset_counts()
    result = work()
    return result, control.counts()

def predictor(devices="cuda:0", rows=None, **options):
    options = {"devices": devices, "batch_size": 32, **options}
    return Predictor(model, X, rows=None if rows is None else np.asarray(rows), options=options)

def evaluation(metrics, devices="cuda:0", exclude="input", rows=None, per_row=None, **options):
    with predictor(devices, rows, **options) as p:
        result, counts = counted(lambda: p.evaluate(Y, exclude, metrics, per_row))
    return result, {name: counts.get(f"bytes.{name}", 0) for name in ("host_to_device", "device_to_host")}
"""
)


@pytest.fixture
def program(emulated):
    """Runs a program on the emulator; late: work is done when somebody waits for it."""
    return lambda code, late=False: emulated(HEAD + code, DSSTNE_CUDAEMU_LAZY=str(int(late)))


def test_evaluating_copies_back_sums_and_no_items(program):
    program("""
want = {k: evaluation([f"ndcg@{k}"], "cpu")[0] for k in (1, 70)}
(few, a), (many, b) = (evaluation([f"ndcg@{k}"]) for k in (1, 70))
assert (few, many) == (want[1], want[70])
batches = 4
assert a["device_to_host"] == b["device_to_host"] == 16 * batches + 16 * 2, (a, b)
per_row, other = (np.empty((100, 2)) for _ in range(2))
metrics = ["map@70", "mrr@5"]
got, copied = evaluation(metrics, per_row=per_row)
assert got == evaluation(metrics, "cpu", per_row=other)[0] and np.array_equal(per_row, other, equal_nan=True)
assert copied["device_to_host"] == 16 * batches + 16 * 3 + per_row.nbytes, copied
""")


@pytest.mark.long
def test_items_to_leave_out_and_targets_come_from_the_data_on_the_device(program):
    program("""
metrics = ["recall@5", "coverage@5"]
for devices in (["cuda:0"], ["cuda:0", "cuda:1", "cuda:2"]):
    for exclude in (None, "input", Z):
        once, thrice = (evaluation(metrics, devices, exclude, list(range(100)) * n) for n in (1, 3))
        assert once[0]["metrics"] == thrice[0]["metrics"] == evaluation(metrics, "cpu", exclude)[0]["metrics"]
        each = (thrice[1]["host_to_device"] - once[1]["host_to_device"]) / 6  # batches of 32 more, at most
        assert each < 700 * len(devices), (exclude, each)
        if exclude is None:
            nothing = once[1]["host_to_device"]
        elif exclude is not Z:
            assert once[1]["host_to_device"] == nothing, "it is there already"
some = evaluation(metrics, exclude=Z, rows=range(40))  # fewer rows than there are: copied as they are wanted
assert some[0]["metrics"] == evaluation(metrics, "cpu", Z, range(40))[0]["metrics"]
""")


@pytest.mark.long
def test_what_does_not_fit_beside_a_ranking_is_copied_batch_by_batch_with_the_same_bits(program):
    program("""
X, Y, Z = (matrix(3000, 80, density, ones=False) for density in (0.4, 0.3, 0.3))
metrics = ["recall@5", "ndcg@20"]
want, _ = evaluation(metrics, "cpu", Z)
refused, least, copied = 0, 1 << 23, {}
while least - refused > 8000:
    limit = least if not copied else (refused + least) // 2
    try:
        got, moved = evaluation(metrics, exclude=Z, memory_limit=limit)
    except dsstne.OutOfMemoryError as error:
        assert "nothing was allocated" in str(error)
        refused = limit
    else:
        assert got == want
        least, copied[limit] = limit, moved["host_to_device"]
# Of X, Y and Z first one stays on the host, and so on.
assert len(set(copied.values())) > 2, copied
""")


EACH_BATCH = """
def each(work):
    # What a call takes beside its batches is taken twice, with 4 and with 10 batches.
    few, many = ({}, {})
    for counts, times in ((few, 1), (many, 3)):
        with predictor(rows=list(range(100)) * times) as p:
            counts.update(counted(lambda: work(p))[1])
    return {name: (many.get(name, 0) - few.get(name, 0)) / 6 for name in many}

metrics = ["recall@5", "coverage@7"]
per_row = np.empty((300, 2))
found = {
    "recommend": each(lambda p: p.recommend(5, Z)),
    "evaluate": each(lambda p: p.evaluate(Y, Z, metrics)),
    "evaluate by row": each(lambda p: p.evaluate(Y, Z, metrics, per_row[:p.count])),
}
for what, counts in found.items():
    assert counts["graph_launches"] == 2, (what, counts)  # one makes the batch, beside what was there before
    for name in ("calls.cuLaunchKernel", "calls.cuGraphInstantiate", "allocations", "frees"):
        assert counts.get(name, 0) == 0, (what, name)
    assert counts["copies.host_to_device"] == 1, (what, counts)
    assert counts["copies.device_to_host"] == (1 if what == "evaluate" else 2), (what, counts)
print(json.dumps({what: counts.get("synchronisations", 0) for what, counts in found.items()}))
assert not control.messages()
"""


@pytest.mark.long
@pytest.mark.parametrize("late", [False, True])
def test_a_batch_is_two_launches_of_graphs_and_is_waited_for_once_at_most(program, late):
    waited = json.loads(program(EACH_BATCH, late))
    assert waited == {"recommend": 1, "evaluate": int(late), "evaluate by row": 1}


@pytest.mark.long
def test_work_that_is_done_late_ranks_the_same(program):
    code = """
metrics = ["recall@5", "ndcg@20", "coverage@7"]
result = []
for devices in (["cuda:0"], ["cuda:0", "cuda:1", "cuda:2"]):
    with predictor(devices) as p:
        ids, scores = p.recommend(30, Z, Choice(np.arange(3, 60, dtype=np.int32), 57, None))
    per_row = np.empty((100, 3))
    got = evaluation(metrics, devices, Z, per_row=per_row)[0], evaluation(metrics, devices)[0]
    result.append([ids.tolist(), scores.tolist(), got, np.nan_to_num(per_row).tolist()])
assert result[0] == result[1]
print(json.dumps(result[0]))
assert not control.messages()
"""
    assert program(code) == program(code, late=True)


@pytest.mark.long
def test_a_ranking_that_the_driver_refuses_is_an_error_and_the_predictor_goes_on(program):
    program("""
functions = {
    "cuMemAlloc": OUT_OF_MEMORY, "cuMemHostAlloc": OUT_OF_MEMORY, "cuGraphInstantiate": OUT_OF_MEMORY,
    "cuGraphLaunch": UNKNOWN,
    "cuLaunchKernel": UNKNOWN, "cuMemcpyHtoDAsync": UNKNOWN, "cuMemcpyDtoHAsync": UNKNOWN, "cuMemcpyDtoDAsync": UNKNOWN,
    "cuMemsetD32Async": UNKNOWN, "cuStreamSynchronize": UNKNOWN, "cuEventRecord": UNKNOWN}
metrics = ["recall@5", "coverage@7"]
want = evaluation(metrics, exclude=Z)[0]
first = live()
for function, code in functions.items():
    for n in (1, 3, 8, 21):
        with predictor() as p:
            control.fail(function, n, code)
            try:
                p.evaluate(Y, Z, metrics)
            except (dsstne.OutOfMemoryError, dsstne.DeviceFailedError) as error:
                assert isinstance(error, dsstne.OutOfMemoryError) == (code == OUT_OF_MEMORY), (function, n, error)
            else:
                assert n > 1, (function, "was not reached")
                break
            finally:
                control.clear_faults()
            assert p.evaluate(Y, Z, metrics) == want, (function, n)
        assert live() == first, (function, n, live(), first)
assert not control.messages()
""")


def test_a_lost_device_ends_a_ranking(program):
    program("""
with predictor(rows=list(range(100)) * 3) as p:
    p.evaluate(Y, Z, ["recall@5"])
    control.lose(0)
    for call in (lambda: p.evaluate(Y, Z, ["recall@5"]), lambda: p.recommend(3, None)):
        fails(call, *LOST)
assert evaluation(["recall@5"], "cpu")[0]["rows"] == 100
""")


def test_an_open_predictor_answers_on_devices_without_allocating(program):
    program(
        """
rows = [X[[row]] for row in range(40)]
for devices in (["cuda:0"], ["cuda:0", "cuda:1"]):
    want = model.recommend(X, k=7, devices=devices)
    with model.predictor(7, devices=devices, batch_size=32) as p:
        for _ in range(2):  # the first run of a list loads code, the second captures it
            assert all(np.array_equal(a, b) for a, b in zip(p.recommend(X), want))
        got, counts = counted(lambda: [p.recommend(x) for x in rows])
        for row, (ids, scores) in enumerate(got):
            assert np.array_equal(ids[0], want[0][row]) and np.array_equal(scores[0], want[1][row]), (devices, row)
        assert counts.get("allocations", 0) == 0, counts
""",
        late=True,
    )
