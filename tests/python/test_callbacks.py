"""Callbacks of fit(): what they see, what they stop, and what they leave behind."""

import copy
import csv
import doctest
import gc
import io
import math
import os
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from terminal import terminal

import dsstne
from dsstne import progress
from dsstne.callbacks import (
    Callback,
    Checkpoint,
    CSVLogger,
    EarlyStopping,
    LearningRate,
    MLflow,
    TensorBoard,
    TimeBudget,
)

OPTIONS = {"hidden": [12], "batch_size": 64, "seed": 3, "epochs": 4, "progress": False}


@pytest.fixture(name="split", scope="module")
def train_and_held_out(X):
    return dsstne.datasets.hold_out(X)


def bits(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


class Seen(Callback):
    """Writes down its calls."""

    def __init__(self, name="", calls=None, **answers):
        self.name, self.calls, self.answers = name, [] if calls is None else calls, answers

    def note(self, what, *more):
        self.calls.append((self.name + what, *more))
        answer = self.answers.get(what)
        return answer(*more) if callable(answer) else answer

    def before_training(self, model):
        return self.note("before_training")

    def after_training(self, model):
        self.model = model
        return self.note("after_training")

    def before_iteration(self, model, epoch, evals_log):
        return self.note("before_iteration", epoch)

    def after_iteration(self, model, epoch, evals_log):
        self.log = copy.deepcopy(evals_log)
        return self.note("after_iteration", epoch)


def test_the_examples_of_the_docstrings_run():
    result = doctest.testmod(dsstne.callbacks)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_the_methods_are_called_around_the_training_and_around_each_epoch(X):
    seen = Seen()
    model = dsstne.fit(X, **{**OPTIONS, "epochs": 2}, callbacks=seen)
    assert seen.calls == [
        ("before_training",),
        ("before_iteration", 1),
        ("after_iteration", 1),
        ("before_iteration", 2),
        ("after_iteration", 2),
        ("after_training",),
    ]
    assert seen.model is model


def test_the_log_has_a_value_of_each_epoch_by_name(split):
    train, held_out = split
    seen = Seen()
    model = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=[seen])
    assert seen.log == {
        "train": {"loss": [record["loss"] for record in model.history]},
        "validation": {name: [record[name] for record in model.history] for name in ("recall@20", "ndcg@20")},
    }


@pytest.mark.parametrize(("method", "epochs"), [("before_iteration", 1), ("after_iteration", 2)])
@pytest.mark.parametrize("answer", [True, np.True_])
def test_true_before_or_after_an_epoch_ends_the_training(X, method, epochs, answer):
    seen = Seen(**{method: lambda epoch: answer if epoch == 2 else None})
    assert len(dsstne.fit(X, **OPTIONS, callbacks=seen).history) == epochs
    assert seen.calls[-1] == ("after_training",)


def test_functions_and_objects_work_beside_each_other_in_their_order(X):
    calls = []
    function = lambda model, record: calls.append(("function", record["epoch"]))  # noqa: E731
    dsstne.fit(X, **{**OPTIONS, "epochs": 1}, callbacks=[Seen("a ", calls), function, Seen("b ", calls)])
    assert [call[0] for call in calls] == [
        *("a before_training", "b before_training"),
        *("a before_iteration", "b before_iteration"),
        *("a after_iteration", "function", "b after_iteration"),
        *("b after_training", "a after_training"),
    ]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["before_iteration", "after_iteration"])
def test_an_exception_reaches_the_caller_and_every_callback_ends(X, error, method):
    def fail(epoch):
        if epoch == 2:
            raise error("enough")

    first, second = Seen(), Seen(**{method: fail})
    with pytest.raises(error, match="enough") as caught:
        dsstne.fit(X, **OPTIONS, callbacks=[first, second])
    assert first.calls[-1] == second.calls[-1] == ("after_training",)
    model = caught.value.model
    assert len(model.history) == (1 if method == "before_iteration" else 2)
    with dsstne.Trainer(model, X) as trainer:
        assert trainer.run(steps=1).step == 1


def test_an_exception_before_training_ends_only_the_callbacks_that_have_begun(X):
    def fail():
        raise RuntimeError("enough")

    first, second, third = Seen(), Seen(before_training=fail), Seen()
    with pytest.raises(RuntimeError, match="enough"):
        dsstne.fit(X, **OPTIONS, callbacks=[first, second, third])
    assert [len(seen.calls) for seen in (first, second, third)] == [2, 1, 0]
    pickle.dumps(TimeBudget(1))


def test_an_exception_at_the_end_does_not_keep_other_callbacks_from_ending(X):
    def fail():
        raise RuntimeError("enough")

    first, second = Seen(), Seen(after_training=fail)
    with pytest.raises(RuntimeError, match="enough") as caught:
        dsstne.fit(X, **OPTIONS, callbacks=[first, second])
    assert first.calls[-1] == ("after_training",)
    assert len(caught.value.model.history) == 4


def test_a_callback_can_ask_for_metrics(split):
    train, held_out = split
    seen = Seen()
    seen.metrics = ["coverage@5", "mrr@3"]
    model = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=seen)
    assert list(seen.log["validation"]) == ["recall@20", "coverage@5", "mrr@3", "ndcg@20"]
    want = dsstne.evaluate(model, train, held_out, ["coverage@5", "mrr@3"])
    assert {name: model.history[-1][name] for name in want} == want
    with pytest.raises(dsstne.InvalidArgumentError, match="needs validation=.*'coverage@5'"):
        dsstne.fit(train, **OPTIONS, callbacks=seen)
    seen.metrics = "mrr@3"
    with pytest.raises(dsstne.InvalidArgumentError, match="metrics must be a list, not 'mrr@3'"):
        dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=seen)


def test_early_stopping_looks_at_the_same_metric_whatever_others_ask_for(split):
    train, held_out = split
    seen, early = Seen(), EarlyStopping()
    seen.metrics = ["ndcg@20", "mrr@3"]
    model = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=[seen, early])
    assert early.best_value == max(record["ndcg@20"] for record in model.history)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([3], "must be a function, .*, or a list of these, not 3 in a list"),
        ([TimeBudget], "expected an object, TimeBudget"),
        ([EarlyStopping(), EarlyStopping()], "can have one EarlyStopping, not 2"),
        ([TimeBudget(1)] * 2, "an object is given twice"),
        ([EarlyStopping()], "EarlyStopping needs validation="),
        ([LearningRate([0.1, 0.2])], "2 rates, but the run has 4 epochs"),
        ([LearningRate(lambda _: -1)], "rate of epoch 1 must be above 0, not -1"),
    ],
)
def test_what_cannot_be_callbacks_is_refused_with_a_reason(X, given, words):
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        dsstne.fit(X, **OPTIONS, callbacks=given)


# ---- early stopping ----


def test_early_stopping_returns_the_weights_of_the_best_epoch_of_any_metric(split):
    train, held_out = split
    early, last = EarlyStopping("mrr@3", patience=3), EarlyStopping("mrr@3", patience=3, restore_best=False)
    options = {**OPTIONS, "epochs": 60, "learning_rate": 0.02, "validation": held_out}
    model = dsstne.fit(train, **options, callbacks=early)
    values = [record["mrr@3"] for record in model.history]
    assert (early.best_epoch, early.best_value) == (int(np.argmax(values)) + 1, max(values))
    assert 3 < len(values) == early.best_epoch + 3 < 60
    assert dsstne.evaluate(model, train, held_out, "mrr@3") == {"mrr@3": max(values)}
    other = dsstne.fit(train, **options, callbacks=last)
    assert dsstne.evaluate(other, train, held_out, "mrr@3") == {"mrr@3": values[-1]}
    assert bits(dsstne.fit(train, **{**options, "epochs": early.best_epoch, "schedule": None})) != bits(other)


def test_a_rise_below_min_delta_does_not_count(split):
    train, held_out = split
    early = EarlyStopping(patience=2, min_delta=1.0)
    assert len(dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=early).history) == 3
    assert early.best_epoch == 1


def test_early_stopping_of_automatic_epochs_is_that_callback(split):
    train, held_out = split
    options = {**OPTIONS, "epochs": "auto", "validation": held_out}
    one, other = dsstne.fit(train, **options), dsstne.fit(train, **options, callbacks=EarlyStopping())
    assert bits(one) == bits(other)
    assert len(one.history) == len(other.history)


def test_other_callbacks_end_with_the_model_that_is_returned(split):
    train, held_out = split
    seen, early = Seen(), EarlyStopping(patience=1)

    def note(model, record):
        model.attributes["epochs"] = str(record["epoch"])

    options = {**OPTIONS, "epochs": 60, "learning_rate": 0.02, "validation": held_out}
    model = dsstne.fit(train, **options, callbacks=[seen, note, early])
    assert seen.model is model
    assert early.best_epoch < len(model.history) == int(model.attributes["epochs"])


@pytest.mark.parametrize("restore_best", [True, False])
def test_a_resumed_run_stops_early_where_the_whole_one_does(split, tmp_path, restore_best):
    train, held_out = split
    options = {**OPTIONS, "epochs": 60, "learning_rate": 0.02, "schedule": None, "validation": held_out}
    callback = EarlyStopping("mrr@3", 3, restore_best=restore_best)
    whole = dsstne.fit(train, **options, callbacks=callback)
    best = callback.best_epoch
    options |= {"checkpoint": tmp_path / "run", "resume": True}
    for _ in range(3):  # the third time, nothing is left to do
        model = dsstne.fit(train, **options, callbacks=[callback, Seen(after_iteration=lambda epoch: epoch == 2)])
    assert len(model.history) == len(whole.history)
    assert bits(model) == bits(whole)
    assert callback.best_epoch == best
    with pytest.raises(dsstne.InvalidArgumentError, match="metric: the checkpoint has 'mrr@3', this run has 'mrr@4'"):
        dsstne.fit(train, **options, callbacks=EarlyStopping("mrr@4", restore_best=restore_best))


# ---- time, learning rates, checkpoints ----


def test_the_shorter_of_two_budgets_ends_within_an_epoch(X):
    options = {**OPTIONS, "epochs": 10**6, "hidden": [64], "batch_size": 16}
    model = dsstne.fit(X, **options, callbacks=TimeBudget(0.1), max_seconds=10_000)
    assert 0 < model.history[-1]["seconds"] < 30  # late on a busy machine, but it ends


def test_learning_rates_of_epochs_have_the_bits_of_forks(X):
    rates = [0.01, 0.02, 0.02, 0.005]
    seen = Seen()
    model = dsstne.fit(X, **OPTIONS, callbacks=[LearningRate(rates), seen], schedule="cosine")
    assert [record["learning_rate"] for record in model.history] == rates
    assert seen.model is model
    again = dsstne.fit(X, **OPTIONS, callbacks=LearningRate(lambda epoch: rates[epoch - 1]))
    trainer = dsstne.Trainer(dsstne.fit(X, **{**OPTIONS, "epochs": 0}), X, batch_size=64, seed=3, precision="auto")
    for rate in rates:
        trainer = trainer.fork(learning_rate=rate)
        trainer.run(epochs=1)
    assert bits(model) == bits(again) == bits(trainer.model)


def test_a_constant_learning_rate_has_the_bits_of_the_option(X):
    model = dsstne.fit(X, **OPTIONS, callbacks=LearningRate([0.01] * 4))
    assert bits(model) == bits(dsstne.fit(X, **OPTIONS, learning_rate=0.01, schedule=None))


def test_a_schedule_that_counts_epochs_lowers_the_rate_between_them(X):
    halved = {"kind": "step", "epochs": 2, "factor": 0.5}
    model = dsstne.fit(X, **OPTIONS, learning_rate=0.02, schedule=halved)
    assert [record["learning_rate"] for record in model.history] == [0.02, 0.02, 0.01, 0.01]
    assert bits(model) == bits(dsstne.fit(X, **OPTIONS, callbacks=LearningRate([0.02, 0.02, 0.01, 0.01])))


def test_changes_of_the_learning_rate_leave_nothing_open(X):
    def held():
        gc.collect()  # what failures of other tests hold
        described = dsstne.doctor().engine
        return described["open"], described["memory"]["allocated"]

    dsstne.fit(X, **OPTIONS, callbacks=LearningRate([0.01, 0.02, 0.03, 0.04]))
    before = held()
    dsstne.fit(X, **OPTIONS, callbacks=LearningRate([0.01, 0.02, 0.03, 0.04]))
    assert held() == before


def test_a_run_with_learning_rates_goes_on_with_the_same_bits(X, tmp_path):
    rates = LearningRate(lambda epoch: 0.01 / epoch)
    whole = dsstne.fit(X, **OPTIONS, callbacks=rates)
    options = {**OPTIONS, "resume": True}
    kept = Checkpoint(tmp_path / "run")
    dsstne.fit(X, **options, callbacks=[kept, rates, Seen(after_iteration=lambda epoch: epoch == 2)])
    model = dsstne.fit(X, **options, callbacks=[kept, rates])
    assert bits(model) == bits(whole)
    assert [record["epoch"] for record in model.history] == [1, 2, 3, 4]


def test_a_warning_of_a_checkpoint_points_to_who_called_fit(X, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    move = lambda epoch: folder.rename(tmp_path / "away") if epoch == 1 else None  # noqa: E731
    with (
        pytest.warns(UserWarning, match="training goes on without a new checkpoint") as caught,
        pytest.raises(dsstne.InputOutputError),
    ):
        dsstne.fit(X, **OPTIONS, callbacks=[Checkpoint(folder / "run"), Seen(after_iteration=move)])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_callbacks_can_be_copied_after_a_run_and_start_anew(split, tmp_path, copied):
    train, held_out = split
    callbacks = [EarlyStopping("mrr@3", 2), TimeBudget(1000), LearningRate([0.02] * 4), CSVLogger(tmp_path / "a.csv")]
    callbacks.append(Checkpoint(tmp_path / "run", every=2))
    first = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=callbacks)
    second = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=copied(callbacks))
    assert bits(first) == bits(second)
    assert [record["loss"] for record in first.history] == [record["loss"] for record in second.history]


# ---- loggers ----


def lines(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_file_has_the_history(split, tmp_path):
    train, held_out = split
    log = CSVLogger(tmp_path / "log.csv")
    for _ in range(2):  # another run replaces it
        model = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=log)
    assert [
        {name: float(value) for name, value in line.items()} for line in lines(tmp_path / "log.csv")
    ] == model.history


def test_the_file_grows_with_each_epoch(X, tmp_path):
    path, sizes = tmp_path / "log.csv", []
    dsstne.fit(X, **OPTIONS, callbacks=[CSVLogger(path), lambda *_: sizes.append(len(lines(path)))])
    assert sizes == [1, 2, 3, 4]


def test_a_resumed_run_has_each_epoch_once_in_the_file(X, tmp_path):
    path = tmp_path / "log.csv"

    def fail(epoch):
        if epoch == 3:
            raise RuntimeError

    options = {**OPTIONS, "epochs": 6, "checkpoint": tmp_path / "run", "resume": True, "checkpoint_every": 2}
    with pytest.raises(RuntimeError):
        dsstne.fit(X, **options, callbacks=[CSVLogger(path), Seen(after_iteration=fail)])
    assert [line["epoch"] for line in lines(path)] == ["1", "2", "3"]  # the third is not in the checkpoint
    for _ in range(2):  # the second time, nothing is left to do
        model = dsstne.fit(X, **options, callbacks=CSVLogger(path))
        assert [line["epoch"] for line in lines(path)] == ["1", "2", "3", "4", "5", "6"]
    assert [float(line["loss"]) for line in lines(path)] == [record["loss"] for record in model.history]


def test_a_field_that_a_callback_adds_is_a_column(X, tmp_path):
    def add(model, record):
        if record["epoch"] > 1:
            record["half, or so"] = 0.5

    dsstne.fit(X, **OPTIONS, callbacks=[add, CSVLogger(tmp_path / "log.csv")])
    assert [line["half, or so"] for line in lines(tmp_path / "log.csv")] == ["", "0.5", "0.5", "0.5"]


def test_a_full_disk_leaves_the_whole_lines_of_the_file(X, tmp_path, python):
    path = tmp_path / "log.csv"
    program = """
import resource, signal, sys, numpy as np, scipy.sparse, dsstne
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))  # a longer file is refused with EFBIG, after a part
X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
try:
    dsstne.fit(X, hidden=4, epochs=50, progress=False, callbacks=dsstne.callbacks.CSVLogger(sys.argv[1]))
except dsstne.InputOutputError as error:
    print(error)
"""
    assert "CSVLogger: " in python(program, path)
    text = path.read_bytes()
    assert text.endswith(b"\n")
    assert 1 < len(lines(path)) < 50
    assert all(None not in line.values() for line in lines(path))


def test_a_file_is_replaced_when_its_new_lines_are_written(X, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    dsstne.fit(X, **OPTIONS, callbacks=CSVLogger(path))
    before = path.read_bytes()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(dsstne.InputOutputError, match="No space left"):
        dsstne.fit(X, **OPTIONS, callbacks=CSVLogger(path))
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["log.csv"]


def test_a_pipe_gets_the_lines(X, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    dsstne.fit(X, **OPTIONS, callbacks=CSVLogger(tmp_path / "pipe"))
    text = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert [line.partition(",")[0] for line in text.splitlines()] == ["epoch", "1", "2", "3", "4"]


def test_a_file_that_cannot_be_written_is_an_error_before_the_first_step(X, tmp_path):
    with pytest.raises(dsstne.InputOutputError, match="CSVLogger: .*nowhere.*No such file") as caught:
        dsstne.fit(X, **OPTIONS, callbacks=CSVLogger(tmp_path / "nowhere" / "log.csv"))
    assert caught.value.model.step == 0
    assert caught.value.filename == str(tmp_path / "nowhere" / "log.csv")


class Writer:
    """Takes the place of tensorboardX.SummaryWriter."""

    made = ()

    def __init__(self, folder, purge_step, filename_suffix):
        self.folder, self.purge_step, self.scalars, self.closed = folder, purge_step, [], False
        Writer.made = (*Writer.made, self)

    def add_scalar(self, name, value, epoch):
        self.scalars.append((name, value, epoch))

    def flush(self):
        pass

    def close(self):
        self.closed = True


def test_tensorboard_gets_each_number_of_an_epoch(split, tmp_path, monkeypatch):
    train, held_out = split
    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Writer))
    monkeypatch.setattr(Writer, "made", ())
    log = TensorBoard(tmp_path / "runs")
    options = {**OPTIONS, "validation": held_out, "checkpoint": tmp_path / "run", "resume": True}
    with pytest.raises(RuntimeError):
        dsstne.fit(train, **options, callbacks=[log, Seen(after_iteration=failing_at_three)])
    model = dsstne.fit(train, **options, callbacks=pickle.loads(pickle.dumps(log)))
    first, second = Writer.made
    assert (first.folder, first.purge_step, first.closed) == (str(tmp_path / "runs"), None, True)
    assert (second.purge_step, second.closed) == (3, True)  # the third epoch is trained again
    assert ("validation/ndcg_at_20", model.history[0]["ndcg@20"], 1) in first.scalars
    assert ("train/loss", model.history[3]["loss"], 4) in second.scalars
    assert {name for name, _, _ in second.scalars} == {
        *("train/loss", "train/seconds", "train/examples_per_second", "train/learning_rate"),
        *("validation/recall_at_20", "validation/ndcg_at_20"),
    }


def failing_at_three(epoch):
    if epoch == 3:
        raise RuntimeError


def test_mlflow_gets_each_number_of_an_epoch(split, monkeypatch):
    train, held_out = split
    logged = {}
    fake = types.SimpleNamespace(log_metrics=lambda metrics, step: logged.setdefault(step, metrics))
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    model = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=MLflow())
    assert list(logged) == [1, 2, 3, 4]
    for record, metrics in zip(model.history, logged.values(), strict=True):
        assert metrics["validation/recall_at_20"] == record["recall@20"]
        assert metrics["train/loss"] == record["loss"]


@pytest.mark.slow
def test_the_real_mlflow_gets_them_too(split, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    train, held_out = split
    client = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("packages")
    with mlflow.start_run() as run:
        model = dsstne.fit(train, **OPTIONS, validation=held_out, callbacks=MLflow())
    for key, name in (("train/loss", "loss"), ("validation/ndcg_at_20", "ndcg@20")):
        logged = client.get_metric_history(run.info.run_id, key)
        assert [(one.step, one.value) for one in logged] == [(r["epoch"], r[name]) for r in model.history]


@pytest.mark.parametrize(("callback", "package"), [(TensorBoard, "tensorboardX"), (MLflow, "mlflow-skinny")])
def test_a_logger_without_its_package_says_what_to_install(X, monkeypatch, callback, package):
    for name in ("tensorboardX", "torch.utils.tensorboard", "torch", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"pip install {package}") as caught:
        dsstne.fit(X, **OPTIONS, callbacks=callback())
    assert caught.value.model.step == 0


def losses(path):
    """Reads the steps and losses of an event file: length, checksum, an event as protocol buffer, checksum."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found, whole, at = [], path.read_bytes(), 0
    while at < len(whole):
        length = int.from_bytes(whole[at : at + 8], "little")
        event = event_pb2.Event.FromString(whole[at + 12 : at + 12 + length])
        found += [(event.step, value.simple_value) for value in event.summary.value if value.tag == "train/loss"]
        at += 16 + length
    return found


def test_event_files_have_the_history_also_of_a_resumed_run(X, tmp_path):
    pytest.importorskip("tensorboardX")
    options = {**OPTIONS, "checkpoint": tmp_path / "run", "resume": True, "checkpoint_every": 2}
    with pytest.raises(RuntimeError):
        dsstne.fit(X, **options, callbacks=[TensorBoard(tmp_path / "runs"), Seen(after_iteration=failing_at_three)])
    model = dsstne.fit(X, **options, callbacks=TensorBoard(tmp_path / "runs"))
    first, second = sorted((tmp_path / "runs").glob("*tfevents*"), key=lambda path: path.suffix)
    assert [step for step, _ in losses(first)] == [1, 2, 3]
    found = losses(first)[:2] + losses(second)  # TensorBoard hides the third of the first file
    assert [step for step, _ in found] == [1, 2, 3, 4]
    assert [value for _, value in found] == pytest.approx([record["loss"] for record in model.history], rel=1e-6)


# ---- progress ----

LONG = (
    "import sys, numpy as np, scipy.sparse, dsstne\n"
    "from dsstne import progress\n"
    "X = scipy.sparse.csr_array((np.random.default_rng(0).random((400, 30)) < 0.3).astype(np.float32))\n"
)


def test_a_log_gets_lines_without_carriage_returns(X, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0)
    dsstne.fit(X, **{**OPTIONS, "progress": True}, validation=X[::-1])
    shown = capsys.readouterr().err
    assert "\r" not in shown
    assert shown.endswith("\n")
    for epoch in range(2, 5):  # the line of the first epoch comes when the second has begun
        assert f"epoch {epoch}/4" in shown
    assert "100% of 960 examples" in shown
    assert "ndcg@20=" in shown.splitlines()[-1]


def test_a_log_gets_lines_of_solvers_and_searches(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0)
    steps = progress.Steps("conjugate gradients", True)
    steps.update({"steps": 4, "done": 1})
    steps.update({"steps": 0, "done": 2})
    progress.Budget("auto", 100, True).update("linear", "best: popularity")
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("conjugate gradients: 25% of 4 steps [")
    assert shown[1].startswith("conjugate gradients: 2 steps [")
    assert shown[2].startswith("auto: linear: 0% of 100")
    assert "best: popularity" in shown[2]


def test_a_log_gets_at_most_a_line_in_thirty_seconds(capsys, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    steps = progress.Steps("svd", True)
    for done in range(100):
        steps.update({"steps": 100, "done": done})
        now += 1.0
    shown = capsys.readouterr().err.splitlines()
    assert [line.split("%")[0] for line in shown] == ["svd: 30", "svd: 60", "svd: 90"]


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_log_that_is_closed_does_no_harm(X, monkeypatch, stream):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0)
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert len(dsstne.fit(X, **{**OPTIONS, "progress": True}).history) == 4


def test_a_terminal_gets_one_line_that_is_drawn_again():
    with terminal() as (stderr, shown):
        subprocess.run(
            [sys.executable, "-c", LONG + "dsstne.fit(X, hidden=[4], epochs=3)"], stderr=stderr, check=True, timeout=60
        )
    assert b"\repoch 3/3: 100%" in shown
    assert shown.count(b"\n") == 1


KERNEL = (
    "import sys, types, warnings\n"
    "warnings.simplefilter('always')\n"  # tqdm would hide an error
    "kernel = types.SimpleNamespace(config={'IPKernelApp': {}})\n"
    "sys.modules['IPython'] = types.SimpleNamespace(get_ipython=lambda: kernel)\n"
    "sys.modules['ipykernel'] = sys.modules['ipykernel.zmqshell'] = types.ModuleType('ipykernel')\n"
    "sys.modules['ipywidgets'] = None\n"
    "import io\nsys.stderr = io.StringIO()\n"
)


def test_a_notebook_without_widgets_gets_a_bar_of_text_without_a_warning(python):
    """The modules that tqdm looks for are those of a kernel, but IPython's widgets are not installed."""
    out = python(KERNEL + LONG + "dsstne.fit(X, hidden=[4], epochs=3)\nprint(sys.stderr.getvalue())\n")
    assert "epoch 3/3: 100%" in out
    assert "Warning" not in out


@pytest.mark.long
def test_a_search_in_a_notebook_without_widgets_has_a_bar_and_no_warning(python):
    """Optuna imports what warns about the widgets."""
    pytest.importorskip("optuna")
    out = python(
        KERNEL + LONG + "dsstne.search(X, {'hidden': [4]}, budget='2 trials', epochs=1)\nprint(sys.stderr.getvalue())\n"
    )
    assert re.search(r"search: 2 trials \[00:\d\d, best \d\.\d{4}\]", out)
    assert "Warning" not in out


def test_nothing_is_shown_where_progress_is_false(X, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0)
    dsstne.fit(X, **OPTIONS)
    assert capsys.readouterr().err == ""


def test_a_metric_that_is_not_known_yet_does_not_stop_early(X):
    nothing = scipy.sparse.csr_array(X.shape, dtype=np.float32)
    model = dsstne.fit(X, **OPTIONS, validation=nothing, callbacks=EarlyStopping(patience=1))
    assert len(model.history) == 4
    assert math.isnan(model.history[-1]["ndcg@20"])
