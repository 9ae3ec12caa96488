"""Ctrl-C between any two instructions: nothing stays open or allocated, and the library works on.

A trace function raises KeyboardInterrupt at the n-th event. Events are the bytecode instructions of the functions that
open and close native objects, and the lines of all other functions of the package. This is stricter than signals, which
Python delivers at fewer places.
"""

import gc
import os
import sys
import threading
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import _handles, _native, _predictor, trainer

PACKAGE = Path(dsstne.__file__).parent
# Where every instruction is an event: the file that owns the handles, and functions that hand them on.
BY_INSTRUCTION = {"_create", "_adopt", "_new", "copy", "load", "bind", "open_dataset", "_open", "from_file", "open"}
BY_INSTRUCTION |= {"close", "pair", "fit", "train", "_judge"}
FILES_BY_INSTRUCTION = {"_handles.py", "_native.py", "_predictor.py", "trainer.py"}

X = scipy.sparse.csr_array((np.random.default_rng(0).random((24, 6)) < 0.4).astype(np.float32))
LAYERS = [
    {"name": "in", "kind": "input", "size": 6},
    {"name": "h", "kind": "hidden", "size": 2},
    {"name": "out", "kind": "output", "size": 6},
]


class Moment:
    """Raises KeyboardInterrupt at the n-th event; 0 only counts the events."""

    modes: ClassVar[dict[object, str | None]] = {}  # by code: the kind of its events, None outside of the package

    def __init__(self, n):
        self.n, self.passed = n, 0

    def mode(self, code):
        path = Path(code.co_filename)
        if path.parent != PACKAGE:
            return None
        return "opcode" if code.co_name in BY_INSTRUCTION or path.name in FILES_BY_INSTRUCTION else "line"

    def enter(self, frame, _event, _argument):
        code = frame.f_code
        if code not in self.modes:
            self.modes[code] = self.mode(code)
        if self.modes[code] is None:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = self.modes[code] == "opcode", self.modes[code] == "line"
        return self.trace

    def trace(self, _frame, event, _):
        if event in ("opcode", "line"):
            self.passed += 1
            if self.passed == self.n:
                raise KeyboardInterrupt
        return self.trace

    def run(self, act):
        """Returns the KeyboardInterrupt, or None if it never came or was lost in a destructor."""
        sys.settrace(self.enter)
        try:
            act()
        except KeyboardInterrupt as stop:
            return stop
        finally:
            sys.settrace(None)
        return None


@pytest.fixture(autouse=True)
def destructors_may_be_interrupted(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # it would print a KeyboardInterrupt


@pytest.fixture(name="scenes", scope="module")
def what_is_interrupted(tmp_path_factory):
    model = dsstne.Model({"layers": LAYERS})
    path = tmp_path_factory.mktemp("scenes") / "model.dsstne"
    model.save(path)
    quiet = {"hidden": [2], "epochs": 1, "batch_size": 12, "progress": False, "devices": "cpu"}

    def callbacks():
        return [dsstne.callbacks.EarlyStopping("mrr@2"), dsstne.callbacks.LearningRate([0.1])]

    def load_library():
        _native._library = None
        assert model.nbytes

    def train():
        with dsstne.Dataset(X) as data, dsstne.Trainer(model.copy(), data, devices="cpu") as opened:
            opened.run(steps=1)

    return {
        "model": lambda: dsstne.Model({"layers": LAYERS}, items=list("abcdef")),
        "load": lambda: dsstne.load(path),
        "fit": lambda: dsstne.fit(X, validation=X[::-1], **quiet),
        "callbacks": lambda: dsstne.fit(X, validation=X[::-1], **quiet, callbacks=callbacks()),
        "recommend": lambda: model.recommend(X, k=2, devices="cpu"),
        "evaluate": lambda: dsstne.evaluate(model, X, X[::-1], devices="cpu"),
        "trainer": train,
        "library": load_library,
    }


def state():
    described = _native.call_json("describe")
    return described["open"], described["memory"]["allocated"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "long"),  # long calls have a thread
    [(name, False) for name in ("model", "load", "fit", "callbacks", "recommend", "evaluate", "trainer", "library")]
    + [(name, True) for name in ("fit", "callbacks", "recommend", "evaluate", "trainer")],
)
def test_ctrl_c_at_any_moment_leaks_nothing(scenes, monkeypatch, name, long):
    """Every event in `make test-home`, every 61st otherwise."""
    stride = int(os.environ.get("DSSTNE_TEST_STRIDE", "61"))
    if long:
        monkeypatch.setattr(trainer, "_BRIEF", 0)  # every run has a thread
        monkeypatch.setattr(_predictor, "_SHORT", 0)
    monkeypatch.setattr(_native, "_library", _native.library())
    act, probe = scenes[name], scenes["recommend"]
    gc.collect()
    gc.disable()  # what only a collection frees is a leak here
    try:
        act()
        before = state()
        count = Moment(0)
        count.run(act)
        assert count.passed > 100
        leaks = []
        for n in range(1, count.passed + 1, stride):
            Moment(n).run(act)
            for thread in threading.enumerate():
                if thread.name.startswith("dsstne-"):  # a load goes on and closes the model at its end
                    thread.join(60)
            _handles.close_abandoned()  # as the next use does
            if state() != before:
                leaks.append(n)
                gc.collect()
                before = state()
            probe()
        assert not leaks, f"after these of {count.passed} events"
        assert state() == before
    finally:
        gc.enable()


def test_ctrl_c_in_fit_carries_a_model_that_works_or_none(scenes):
    count = Moment(0)
    count.run(scenes["fit"])
    without, untrained, trained = [], 0, 0
    for n in range(1, count.passed, 211):
        stop = Moment(n).run(scenes["fit"])
        if stop is None:  # lost in a destructor
            continue
        if not hasattr(stop, "model"):
            without.append(n)
        elif stop.model is None:
            untrained += 1
        else:
            trained += 1
            assert stop.model.recommend(X, k=1)[0].shape == (24, 1)
    assert without in ([], [1])  # before the first line of fit
    assert untrained > 5
    assert trained > 5


def test_a_second_ctrl_c_does_not_lose_the_model(monkeypatch):
    close = dsstne.Trainer.close

    def interrupted(self):
        close(self)
        raise KeyboardInterrupt("the second")

    def stop(*_):
        raise KeyboardInterrupt("the first")

    monkeypatch.setattr(dsstne.Trainer, "close", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the second") as caught:
        dsstne.fit(X, hidden=2, epochs=3, progress=False, callbacks=stop)
    assert caught.value.model.history[0]["epoch"] == 1


def test_an_error_before_training_has_no_model():
    with pytest.raises(dsstne.InvalidArgumentError) as caught:
        dsstne.fit(X, hidden=2, optimizer="adm")
    assert caught.value.model is None


def test_a_call_does_without_a_thread_where_there_is_none(monkeypatch, tmp_path):
    def refused(_):
        raise RuntimeError("can't start new thread")

    model = dsstne.Model({"layers": LAYERS})
    model.save(tmp_path / "model.dsstne")
    expected = model.recommend(X, k=2)[0]
    monkeypatch.setattr(_predictor, "_SHORT", 0)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert (model.recommend(X, k=2)[0] == expected).all()
    try:
        raise ValueError
    except ValueError:
        assert (model.recommend(X, k=2)[0] == expected).all()
    assert dsstne.load(tmp_path / "model.dsstne").tensors == model.tensors
    with pytest.raises(dsstne.InvalidArgumentError):
        model.recommend(X, k=2, filter_items=range(6), exclude=X[:1])


def test_a_signal_while_a_thread_begins_is_not_taken_for_the_want_of_a_thread(monkeypatch):
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        if thread.name == "dsstne-trainer_run":
            try:
                raise KeyboardInterrupt
            finally:
                raise RuntimeError("release unlocked lock")  # by a lock that the handler of a signal left open

    monkeypatch.setattr(trainer, "_BRIEF", 0)  # every run has a thread
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    options = {"hidden": 2, "epochs": 10**6, "max_seconds": 5, "progress": False}
    with pytest.raises(KeyboardInterrupt) as caught:
        dsstne.fit(X, **options)
    assert caught.value.model.recommend(X, k=2)[0].shape == (X.shape[0], 2)
    try:
        raise ValueError
    except ValueError:
        with pytest.raises(KeyboardInterrupt):
            dsstne.fit(X, **options)


@pytest.mark.parametrize("act", ["run", "open", "save"])
def test_no_wait_for_a_thread_is_pythons_own(monkeypatch, tmp_path, act):
    """A signal in ``threading.Event.wait`` or ``Thread.join`` may end it with a RuntimeError about a lock."""
    model = dsstne.Model({"layers": LAYERS})
    model.save(tmp_path / "model.dsstne")
    monkeypatch.setattr(_predictor, "_SHORT", 0)
    acts = {
        "run": lambda: model.recommend(X, k=2),
        "open": lambda: dsstne.load(tmp_path / "model.dsstne"),
        "save": lambda: dsstne.netcdf.write(tmp_path / "X.nc", {"data": X}),
    }
    acts[act]()  # what is imported once
    called = set()

    def enter(frame, _event, _argument):
        if frame.f_code.co_filename == threading.__file__ and Path(frame.f_back.f_code.co_filename).parent == PACKAGE:
            called.add(frame.f_code.co_name)

    sys.settrace(enter)
    try:
        acts[act]()
    finally:
        sys.settrace(None)
    assert {"__init__", "start"} <= called  # of Thread; what start() raises is looked at
    assert not {"wait", "join"} & called


def test_a_refused_close_disturbs_no_other_call():
    model, refused, end = dsstne.Model({"layers": LAYERS}), [], threading.Event()
    with dsstne.Dataset(X) as data, dsstne.Trainer(model.copy(), data):

        def close():
            while not end.is_set():
                try:
                    data.close()
                except dsstne.BusyError:
                    refused.append(1)

        thread = threading.Thread(target=close)
        thread.start()
        try:
            while len(refused) < 200:
                model.recommend(data, k=2)
        finally:
            end.set()
            thread.join()
        assert not data.closed


def test_the_doctor_shows_what_is_open():
    gc.collect()  # what other tests left
    _handles.close_abandoned()
    before = dsstne.doctor().engine
    with dsstne.Dataset(X):
        model = dsstne.Model({"layers": LAYERS})
        after = dsstne.doctor().engine
    assert {kind: after["open"][kind] - n for kind, n in before["open"].items()} == {
        "datasets": 1,
        "models": 1,
        "predictors": 0,
        "solvers": 0,
        "trainers": 0,
    }
    assert after["memory"]["allocated"] - before["memory"]["allocated"] >= model.nbytes
    model.close()
