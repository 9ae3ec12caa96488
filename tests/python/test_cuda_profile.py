"""The profile of a step on a CUDA device, on the emulated driver."""

import pytest
from emulated import PROGRAM


@pytest.fixture
def program(emulated):
    """Runs a program on the emulator; late: work is done when somebody waits for it."""
    return lambda code, late=False: emulated(PROGRAM + code, DSSTNE_CUDAEMU_LAZY=str(int(late)))


PROFILE = """
X = matrix(70)
options = {"hidden": (8, 5), "optimizer": "adam", "batch_size": 16}
with trainer(X, devices=devices, **options) as t:
    t.run(steps=2)
    before = control.count("live_events")
    launched = control.count("graph_launches")
    profile = t.profile(steps=5)  # an epoch has 5
    assert control.count("graph_launches") == launched, "no graph is launched while operations are measured"
    assert control.count("live_events") == before, "the events are given back"
    t.run(steps=2)
    if captures:
        assert control.count("graph_launches") > launched, "later runs use graphs as before"
    planned = t.plan()["operations"]
    weights = {name: t.model.tensor(name).copy() for name in t.model.tensors}
with trainer(X, devices=devices, **options) as t:
    t.run(steps=9)
    assert all((t.model.tensor(name) == weights[name]).all() for name in weights)
names = sorted({operation["device"] for operation in profile["operations"]})
assert names == expected, names
text = [("" if len(names) == 1 else operation["device"] + ": ") + operation["operation"]
        for operation in profile["operations"]]
assert [line for line in planned if line in text] == text, (planned, text)
assert profile["limits"] == [] and profile["steps"] == 5
first = [operation for operation in profile["operations"] if operation["device"] == names[0]]
assert all(operation["milliseconds"] >= 0 for operation in first)
total = sum(operation["milliseconds"] for operation in first) + sum(profile["outside"].values())
assert abs(total - profile["milliseconds"]) < 1e-6 * total
if len(names) == 1:
    works = {operation["operation"].split()[0]: operation for operation in first}
    entries = works["Gather"]["multiply_adds"] / 8  # of the batches that the device made, after denoising
    assert 0.35 * X.nnz / 5 < entries < 0.65 * X.nnz / 5, "half of them are left out"
    assert works["Scatter"]["multiply_adds"] == works["Gather"]["multiply_adds"]
    assert abs(works["OutputStep"]["multiply_adds"] - 3 * 14 * X.shape[1] * 5) < 1e-6
    assert works["Assemble"]["bytes"] is None and works["Gather"]["limit"] is None
assert not control.messages()
"""


@pytest.mark.long
@pytest.mark.parametrize("late", [False, True])
def test_a_device_is_profiled_by_events(program, late):
    program('devices, expected, captures = "cuda:0", ["cuda:0"], True\n' + PROFILE, late)


@pytest.mark.long
def test_several_devices_are_profiled(program):
    program('devices, expected, captures = ["cuda:0", "cuda:1"], ["cuda:0", "cuda:1"], False\n' + PROFILE)
