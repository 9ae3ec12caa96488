"""Copies of a model share its memory until one of them is changed, and then they are apart."""

import copy
import threading
from pathlib import Path

import pytest

import dsstne

PRIVATE = "a private copy of "


def bits(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


def private_copies(plan):
    return [part for part in plan["parts"] if part.get("of", "").startswith(PRIVATE)]


@pytest.fixture
def fresh(X):
    return dsstne.fit(X, hidden=[12], epochs=1, batch_size=64, progress=False)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, dsstne.Model.copy])
def test_a_copy_has_everything_and_shares_none_of_it(fresh, X, how):
    fresh.items = [f"item {n}" for n in range(60)]
    fresh.attributes["shop"], fresh.same_items = "Zürich", False
    other = how(fresh)
    assert bits(other) == bits(fresh)
    assert (other.step, other.network, other.same_items) == (fresh.step, fresh.network, False)
    assert (other.items == fresh.items).all()
    assert (other.history, other.attributes) == (fresh.history, {"shop": "Zürich"})
    other.history[0]["loss"], other.attributes["shop"], other.same_items, other.items = 7, "Bern", True, None
    assert fresh.history[0]["loss"] != 7
    assert (fresh.attributes, fresh.same_items, fresh.items[3]) == ({"shop": "Zürich"}, False, "item 3")


@pytest.mark.parametrize("trained", ["copy", "original"])
@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_training_changes_one_of_them(fresh, X, trained, devices):
    pickled = dsstne.Model._from_state(fresh._state())  # shares nothing
    other = fresh.copy()
    before = bits(fresh)
    one, rest = (other, fresh) if trained == "copy" else (fresh, other)
    for model in (one, pickled):
        with dsstne.Trainer(model, X, batch_size=64, devices=devices) as trainer:
            trainer.run(epochs=2)
    assert bits(one) == bits(pickled) != before
    assert bits(rest) == before
    assert rest.step < one.step


def test_a_copy_between_two_runs_of_a_trainer_is_a_snapshot(fresh, X):
    whole, snapshots = fresh.copy(), []
    with dsstne.Trainer(whole, X, batch_size=64) as trainer:
        trainer.run(steps=6)
    with dsstne.Trainer(fresh, X, batch_size=64) as trainer:
        for _ in range(3):
            trainer.run(steps=2)
            snapshots.append((fresh.copy(), bits(fresh)))
    assert bits(fresh) == bits(whole)
    assert len({str(was) for _, was in snapshots}) == 3
    for snapshot, was in snapshots:
        assert bits(snapshot) == was


def test_a_predictor_sees_the_weights_of_its_own_model(fresh, X):
    other = fresh.copy()
    before = fresh.predict(X)
    other.set_tensor("output.weight", -other.tensor("output.weight"))
    with dsstne.Trainer(other, X, batch_size=64) as trainer:
        trainer.run(steps=1)
    assert (fresh.predict(X) == before).all()
    assert (other.predict(X) != before).any()


def test_copies_close_in_any_order(fresh, X):
    second = fresh.copy()
    third = second.copy()
    want = bits(fresh)
    fresh.close()
    assert bits(second) == bits(third) == want
    del second
    assert bits(third) == want
    with dsstne.Trainer(third, X) as trainer:
        assert private_copies(trainer.plan()) == []  # nobody is left to copy for
        trainer.run(steps=1)


def test_the_plan_of_a_copy_lists_what_is_copied_first(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=64) as trainer:
        alone = trainer.plan()
        other = fresh.copy()
        plan = trainer.plan()
        parts = private_copies(plan)
        assert [part["of"].removeprefix(PRIVATE) for part in parts] == list(fresh.tensors)
        assert all((part["name"], part["held"], part["device"]) == ("weights", False, "cpu") for part in parts)
        assert plan["bytes"] - alone["bytes"] == sum(part["bytes"] for part in parts) == other.nbytes
        trainer.run(steps=1)
        assert private_copies(trainer.plan()) == []


def test_memory_limit_refuses_a_copy_in_advance(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=64) as trainer:
        limit = trainer.plan()["bytes"] + 100
    other = fresh.copy()
    before = bits(other)
    with dsstne.Trainer(other, X, batch_size=64, memory_limit=limit) as trainer:
        with pytest.raises(dsstne.OutOfMemoryError, match="shared with a copy of the model") as caught:
            trainer.run(steps=1)
        assert private_copies(caught.value.plan)
        assert bits(other) == before
        fresh.close()
        trainer.run(steps=1)
    assert bits(other) != before


def test_a_model_and_its_copies_are_trained_by_threads_at_once(fresh, X):
    models = [fresh, *(fresh.copy() for _ in range(3))]
    start = threading.Barrier(len(models))

    def work(model):
        with dsstne.Trainer(model, X, batch_size=64) as trainer:
            start.wait()
            trainer.run(epochs=3)

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({str(bits(model)) for model in models}) == 1
    assert fresh.step == models[1].step > 4


def test_a_run_that_ctrl_c_ends_leaves_the_original_alone(fresh, X):
    other = fresh.copy()
    before = bits(fresh)

    def stop(_):
        raise KeyboardInterrupt

    with dsstne.Trainer(other, X, batch_size=8) as trainer:
        with pytest.raises(KeyboardInterrupt):
            trainer.run(epochs=10**9, on_progress=stop)
        trainer.run(steps=1)
    assert bits(fresh) == before != bits(other)


def test_a_model_is_not_copied_while_it_is_trained(fresh, X):
    def look(_):
        with pytest.raises(dsstne.BusyError, match="being trained"):
            fresh.copy()
        raise KeyboardInterrupt

    with dsstne.Trainer(fresh, X, batch_size=8) as trainer, pytest.raises(KeyboardInterrupt):
        trainer.run(epochs=10**9, on_progress=look)


LARGE = """
import copy, signal, threading
import numpy as np, scipy.sparse, dsstne
items, units = 100_000, 160
layers = [dict(name="in", kind="input", size=items), dict(name="h", kind="hidden", size=units),
          dict(name="out", kind="output", size=items)]
X = scipy.sparse.csr_array((np.ones(64, np.float32), np.arange(64) * 1000, np.arange(17) * 4), shape=(16, items))
def megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024 / 1e6
def row(model):
    return model.neighbors([77_000], k=5, tensor="h.weight")[1].tobytes()
model = dsstne.Model({"layers": layers}, seed=1)
one = model.tensor("out.weight")  # 64 MB
sgd = dict(optimizer="sgd", batch_size=8, devices="cpu")
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_copies_take_memory_when_they_are_changed_and_not_before(python):
    out = python(
        LARGE + "grown, last = [], megabytes()\n"
        "def note():\n"
        "    global last\n"
        "    now = megabytes()\n"
        "    grown.append(now - last)\n"
        "    last = now\n"
        "assert model.nbytes > 128e6\n"
        "copies = [copy.deepcopy(model) for _ in range(50)]\n"
        "note()\n"
        "copies[0].set_tensor('out.bias', np.ones(items))\n"
        "note()\n"
        "copies[0].set_tensor('out.weight', one)\n"
        "note()\n"
        "with dsstne.Trainer(copies[1], X, **sgd) as trainer:\n"
        "    trainer.run(steps=2)\n"
        "note()\n"
        "with dsstne.Trainer(model, X, **sgd) as trainer:\n"
        "    trainer.run(steps=2)\n"
        "    del copies\n"
        "    last = megabytes()\n"
        "    trainer.run(steps=2)\n"
        "note()\n"
        "print(*grown)",
        timeout=120,
    )
    copied, bias, weight, trained, alone = map(float, out.split())
    # 20 MB are the interpreter's, Go's heap and the threads': the weights have 128, each of the two matrices 64.
    assert copied < 20
    assert bias < 20
    assert 60 < weight < 84
    assert 126 < trained < 150
    assert alone < 20, "a model that has the memory for itself is trained in place"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_ctrl_c_while_a_large_copy_is_made_harms_neither_model(python):
    """Ctrl-C comes at several moments of the copying, which takes some 0.05 s, and of the first steps."""
    out = python(
        LARGE + "before = row(model)\n"
        "stopped = 0\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "for moment in range(5):\n"
        "    other = model.copy()\n"
        "    trainer = dsstne.Trainer(other, X, **sgd)\n"
        "    try:\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.02 * moment)\n"
        "        trainer.run(epochs=10**6)\n"
        "    except KeyboardInterrupt:\n"
        "        stopped += 1\n"
        "    assert row(model) == before\n"
        "    if trainer.progress.step == 0:\n"
        "        assert row(other) == before\n"
        "    trainer.run(steps=1)\n"
        "    trainer.close()\n"
        "    other.close()\n"
        "print(stopped)",
        timeout=120,
    )
    assert out == "5\n"
