"""The trainer: steps, epochs, seconds, and what it says of itself."""

import copy
import math
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dsstne
from dsstne import _native


@pytest.fixture
def fresh(X):
    return dsstne.fit(X, hidden=[8], temperature=None, epochs=0)


def test_steps_epochs_and_seconds_limit_a_run(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=50) as trainer:
        assert trainer.progress.steps_per_epoch == 5
        assert math.isnan(trainer.progress.loss)
        assert trainer.run(steps=3).step == 3
        assert trainer.run(epochs=1).step == 5  # the begun epoch is finished
        assert trainer.run(epochs=2).step == 15
        assert trainer.run(epochs=100, steps=2).step == 17
        assert 0 < trainer.run(seconds=0.05).seconds < 30  # late on a busy machine, but it ends
        assert trainer.progress.epoch_loss > 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "needs a limit"),
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"steps": 0.5}, "steps must be an integer, not 0.5"),
        ({"steps": "3"}, "steps must be an integer, not '3'"),
        ({"steps": True}, "steps must be an integer, not True"),
        ({"epochs": -1}, "epochs must be at least 1"),
        ({"epochs": 0.5}, "epochs must be an integer, not 0.5"),
        ({"epochs": 0.5, "steps": 2}, "epochs must be an integer"),
        ({"seconds": float("nan")}, "seconds must be above 0"),
        ({"seconds": 0}, "seconds must be above 0"),
        ({"seconds": float("inf")}, "^seconds must be finite"),
        ({"seconds": "3"}, "seconds must be a number"),
    ],
)
def test_a_run_needs_a_limit_above_zero(fresh, X, limits, words):
    with dsstne.Trainer(fresh, X) as trainer:
        with pytest.raises(dsstne.InvalidArgumentError, match=words):
            trainer.run(**limits)
        assert trainer.progress.step == 0


def test_cut_runs_give_the_bits_of_an_uncut_one(fresh, X):
    other = copy.deepcopy(fresh)
    with dsstne.Trainer(fresh, X, batch_size=50) as trainer:
        trainer.run(epochs=3)
    with dsstne.Trainer(other, X, batch_size=50) as trainer:
        for steps in (1, 4, 2, 8):
            trainer.run(steps=steps)
    for name in fresh.tensors:
        assert fresh.tensor(name).tobytes() == other.tensor(name).tobytes(), name


def test_the_model_can_be_used_between_runs(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=50) as trainer:
        trainer.run(steps=1)
        first = fresh.predict(X[:1])
        trainer.run(steps=1)
        assert (fresh.predict(X[:1]) != first).any()


def test_the_plan_lists_parts_and_operations(fresh, X):
    with dsstne.Trainer(fresh, X) as trainer:
        plan = trainer.plan()
    assert plan["bytes"] == sum(part["bytes"] for part in plan["parts"])
    assert plan["bytes"] >= fresh.nbytes
    assert plan["operations"]
    assert all({"name", "bytes", "device"} <= set(part) for part in plan["parts"])


def test_a_limit_below_the_plan_lists_its_parts(fresh, X):
    with pytest.raises(dsstne.OutOfMemoryError) as caught, dsstne.Trainer(fresh, X, memory_limit=1000) as trainer:
        trainer.run(steps=1)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.plan is not None
    assert caught.value.plan["bytes"] > 1000
    assert "memory_limit" in str(caught.value)
    assert "workspace" in str(caught.value)
    fresh.recommend(X, k=1)


def test_progress_is_told_while_a_run_goes_on(fresh, X):
    seen = []

    def look(progress):
        seen.append(progress)
        if len(seen) == 3:
            raise LookupError("seen enough")

    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        with pytest.raises(LookupError):
            trainer.run(seconds=60, on_progress=look)
        assert trainer.progress.examples_per_second > 0
    assert [p.step for p in seen] == sorted(p.step for p in seen)
    assert 0 < seen[-1].step <= fresh.step


def test_an_exception_in_on_progress_ends_the_run_and_is_raised(fresh, X):
    def fail(_):
        raise LookupError("seen enough")

    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        with pytest.raises(LookupError, match="seen enough"):
            trainer.run(epochs=10**9, on_progress=fail)
        step = trainer.progress.step
        assert trainer.run(steps=1).step == step + 1


def test_the_model_is_busy_while_a_run_goes_on(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        errors = []

        def look(_):
            for use in (lambda: fresh.recommend(X), trainer.close, lambda: trainer.run(steps=1), fresh.close):
                with pytest.raises(dsstne.BusyError) as caught:
                    use()
                errors.append(caught.value)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            trainer.run(epochs=10**9, on_progress=look)
        assert len(errors) == 4
        trainer.run(steps=1)
    assert repr(trainer) == "Trainer(closed)"  # though close() was refused before
    assert all(dataset.closed for bound in trainer._data for dataset in bound.datasets.values())
    fresh.close()
    assert fresh.closed


@pytest.mark.parametrize("moments", [{"not begun"}, {"begun"}, {"look 1"}, {"look 2"}, {"look 1", "look 2", "look 3"}])
def test_ctrl_c_between_any_two_instructions_waits_for_the_engine(fresh, X, monkeypatch, moments):
    class Flag(_native.Flag):
        looks = 0

        def is_set(self):
            self.looks += 1
            interrupt(f"look {self.looks}")
            return super().is_set()

    class Thread(threading.Thread):
        def start(self):
            interrupt("not begun")
            super().start()
            interrupt("begun")

    def interrupt(moment):
        if moment in moments:
            raise KeyboardInterrupt

    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        with monkeypatch.context() as patch:
            patch.setattr(_native, "Flag", Flag)
            patch.setattr(_native, "threading", types.SimpleNamespace(Thread=Thread, Lock=threading.Lock))
            with pytest.raises(KeyboardInterrupt):
                trainer.run(epochs=10**9)
        assert not _native.trainer_progress(trainer._handle)["running"]
        step = trainer.progress.step
        assert step == 0 or moments != {"not begun"}
        assert trainer.run(steps=1).step == step + 1
    assert repr(trainer) == "Trainer(closed)"


def test_training_runs_in_a_thread_that_is_not_the_main_one(fresh, X):
    steps = []

    def work():
        with dsstne.Trainer(fresh, X) as trainer:
            steps.append(trainer.run(steps=2).step)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert steps == [2]


def test_other_python_threads_run_while_the_engine_trains(fresh, X):
    beats, stop, enough = [], threading.Event(), threading.Event()

    def beat():
        while not stop.wait(0.001):
            beats.append(1)
            if len(beats) == 20:
                enough.set()

    def look(_):
        if enough.is_set():
            raise LookupError("the interpreter lock was free")

    heart = threading.Thread(target=beat)
    with dsstne.Trainer(fresh, X, batch_size=8, threads=1) as trainer:
        heart.start()
        try:
            with pytest.raises(LookupError):
                trainer.run(seconds=60, on_progress=look)
        finally:
            stop.set()
            heart.join()
    assert len(beats) >= 20


def test_a_number_of_the_optimizer_is_given_once(fresh, X):
    rule = {"kind": "sgd", "learning_rate": 0.5}
    with pytest.raises(dsstne.InvalidArgumentError, match="learning_rate is given as learning_rate= and in optimizer="):
        dsstne.Trainer(fresh, X, optimizer=rule, learning_rate=0.1)
    with dsstne.Trainer(fresh, X, optimizer=rule) as trainer:
        assert trainer.run(steps=1).learning_rate == 0.5


def test_a_schedule_changes_the_learning_rate(fresh, X):
    schedule = {"kind": "linear", "steps": 10, "warmup_steps": 2}
    with dsstne.Trainer(fresh, X, batch_size=50, learning_rate=1.0, optimizer="sgd", schedule=schedule) as trainer:
        rates = [trainer.run(steps=1).learning_rate for _ in range(6)]
    assert rates[:3] == [0.5, 1.0, 1.0]
    assert rates[5] == pytest.approx(0.7)


def test_weight_decay_shrinks_what_is_not_used(fresh, X):
    before = np.linalg.norm(fresh.tensor("hidden1.weight"))
    with dsstne.Trainer(fresh, X, optimizer="sgd", learning_rate=0.1, weight_decay=1.0) as trainer:
        trainer.run(epochs=20)
    assert np.linalg.norm(fresh.tensor("hidden1.weight")) < before / 2


def test_a_trainer_does_not_pickle(fresh, X):
    import pickle

    with dsstne.Trainer(fresh, X) as trainer, pytest.raises(TypeError, match="pass on its model"):
        pickle.dumps(trainer)
    assert repr(trainer) == "Trainer(closed)"


def test_a_brief_run_takes_no_thread_and_trains_alike(fresh, X, monkeypatch):
    other = copy.deepcopy(fresh)
    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        monkeypatch.setattr("dsstne.trainer._BRIEF", 0.0)  # none is brief
        trainer.run(steps=7)
    monkeypatch.setattr("dsstne.trainer._BRIEF", 1e9)
    monkeypatch.setattr(_native.threading, "Thread", None)
    with dsstne.Trainer(other, X, batch_size=8) as trainer:
        assert trainer.run(steps=3).step == 3
        assert trainer.run(steps=4).step == trainer.progress.step == 7
    for name in fresh.tensors:
        assert fresh.tensor(name).tobytes() == other.tensor(name).tobytes()


def test_another_thread_can_cancel_a_run(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=16) as trainer, ThreadPoolExecutor(1) as pool:
        trainer.cancel()  # nothing runs
        run = pool.submit(trainer.run, seconds=60)
        while trainer.progress.step < 3:
            time.sleep(0.001)
        trainer.cancel()
        with pytest.raises(dsstne.CancelledError):
            run.result(timeout=20)
        step = trainer.progress.step
        assert trainer.run(steps=2).step == step + 2 == fresh.step
    assert fresh.recommend(X, k=3)[0].shape == (X.shape[0], 3)
