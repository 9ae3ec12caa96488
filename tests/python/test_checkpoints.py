"""A run that goes on from a checkpoint has the bits of one that was never stopped; forks leave their trainer alone."""

import gc
import json
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from emulated import PROGRAM

import dsstne
from dsstne import api

OPTIONS = {"batch_size": 64, "learning_rate": 0.01, "seed": 3}


def bits(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


def untrained(X, **options):
    return dsstne.fit(X, hidden=[12], epochs=0, seed=3, progress=False, **options)


def trained(X, steps, devices="cpu", **options):
    """The bits of a run that is not stopped."""
    model = untrained(X)
    with dsstne.Trainer(model, X, devices=devices, **{**OPTIONS, **options}) as trainer:
        trainer.run(steps=steps)
    return bits(model)


@pytest.mark.parametrize("optimizer", ["sgd", "nesterov", "adam", "adamw", "adagrad", "rmsprop", "adadelta"])
@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_a_run_goes_on_with_the_same_bits(X, tmp_path, optimizer, devices):
    options = {**OPTIONS, "optimizer": optimizer, "devices": devices, "weight_decay": 0.01}
    want = trained(X, 17, **options)
    model = untrained(X, items=[f"item {n}" for n in range(X.shape[1])])
    with dsstne.Trainer(model, X, **options, threads=2) as trainer:
        trainer.run(steps=9)
        trainer.save(tmp_path / "run", background=True)
        trainer.run(steps=1)
    model.history, model.attributes = [{"epoch": 1}], {"shop": "Zürich"}
    resumed = dsstne.Trainer.resume(tmp_path / "run", X, devices=devices, threads=1)
    assert (resumed.progress.step, resumed.model.step) == (9, 9)
    resumed.run(steps=8)
    got = bits(resumed.model)
    assert {name: got[name] for name in want} == want
    assert resumed.model.items[3] == "item 3"
    assert dsstne.load(tmp_path / "run").attributes == {}  # a model like any other


IN_ANOTHER_PROCESS = """
import sys
import numpy as np, scipy.sparse, dsstne
X = scipy.sparse.load_npz(sys.argv[1])
with dsstne.Trainer.resume(sys.argv[2], X) as trainer:
    trainer.run(steps=8)
    trainer.model.save(sys.argv[3])
"""


def test_another_process_goes_on(X, tmp_path, python):
    scipy.sparse.save_npz(tmp_path / "X.npz", X.tocsc().tocsr().astype(np.float64))  # stored in another way
    with dsstne.Trainer(untrained(X), X, **OPTIONS) as trainer:
        trainer.run(steps=9)
        trainer.save(tmp_path / "run")
    python(IN_ANOTHER_PROCESS, tmp_path / "X.npz", tmp_path / "run", tmp_path / "model")
    assert bits(dsstne.load(tmp_path / "model")) == trained(X, 17)


EMULATED = (
    PROGRAM
    + """
import tempfile
X, found = matrix(), {}
for devices in devices_of(1), devices_of(2):
    options = {"devices": devices, "precision": "float32", "seed": 1}
    whole = trainer(X, **options)
    whole.run(steps=7)
    first = trainer(X, **options)
    first.run(steps=4)
    path = tempfile.mkdtemp() + "/run"
    first.save(path, background=True)
    first.run(steps=1)
    first.settle()
    resumed = dsstne.Trainer.resume(path, X, devices=devices)
    fork = resumed.fork()
    resumed.run(steps=3)
    fork.run(steps=3)
    other = dsstne.Trainer.resume(path, X, devices="cpu")
    other.run(steps=3)
    want, got, forked, cpu = (t.model.tensor("output.weight") for t in (whole, resumed, fork, other))
    found[len(devices)] = [bool((want == got).all()), bool((want == forked).all()), float(abs(want - cpu).max())]
print(json.dumps(found))
"""
)


@pytest.mark.long
@pytest.mark.device
def test_cuda_devices_go_on(device):
    for same, forked, off in json.loads(device(EMULATED, timeout=300)).values():
        assert same
        assert forked
        assert off < 1e-5  # on the CPU, sums have another order


def test_what_resume_may_change(X, tmp_path):
    with dsstne.Trainer(untrained(X), X, **OPTIONS) as trainer:
        trainer.run(steps=9)
        trainer.save(tmp_path / "run")
    with dsstne.Trainer.resume(
        tmp_path / "run", X, learning_rate=0.5, schedule={"kind": "cosine", "steps": 30}
    ) as trainer:
        assert trainer._options["optimizer"]["learning_rate"] == 0.5
        assert trainer._options["schedule"]["kind"] == "cosine"
        trainer.run(steps=1)
    for wrong, words in ((X[:100], "dataset: the rows for layer 'input'"), (X[:, ::-1], "dataset")):
        with pytest.raises(dsstne.InvalidArgumentError, match=words.replace("'", '"')):
            dsstne.Trainer.resume(tmp_path / "run", wrong)
    untrained(X).save(tmp_path / "model")
    with pytest.raises(dsstne.InvalidArgumentError, match="is a model, not a checkpoint"):
        dsstne.Trainer.resume(tmp_path / "model", X)
    with pytest.raises(dsstne.MissingFileError):
        dsstne.Trainer.resume(tmp_path / "none", X)
    whole = (tmp_path / "run").read_bytes()
    (tmp_path / "run").write_bytes(whole[:-5])
    with pytest.raises(dsstne.CorruptFileError):
        dsstne.Trainer.resume(tmp_path / "run", X)


def test_a_fork_shares_memory_until_one_of_the_two_trains(X):
    want = trained(X, 15)
    model = untrained(X)
    trainer = dsstne.Trainer(model, X, **OPTIONS)
    trainer.run(steps=9)
    fork = trainer.fork()
    assert fork.model.step == 9
    parts = [part for part in trainer.plan()["parts"] if part.get("of", "").startswith("a private copy of")]
    assert {part["name"] for part in parts} == {"weights", "optimizer state"}
    other = fork.fork(learning_rate=0.1, weight_decay=0.1, schedule={"kind": "cosine", "steps": 30}, threads=1)
    fork.run(steps=6)
    other.run(steps=6)
    assert bits(fork.model) == want
    assert bits(other.model) != want
    trainer.run(steps=6)
    assert bits(model) == want
    assert not [part for part in trainer.plan()["parts"] if part.get("of", "").startswith("a private copy of")]
    trainer.close()  # the forks keep the data
    fork.run(steps=1)
    other.close()
    fork.close()


# ---- fit ----


class StoppedError(Exception):
    """Ends a run in a test."""


def stop_at(epoch, error=StoppedError):
    def callback(_, record):
        if record["epoch"] == epoch:
            raise error

    return callback


@pytest.mark.long
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("error", [StoppedError, KeyboardInterrupt])
def test_fit_goes_on_with_the_same_bits(X, tmp_path, early, error):
    train, held_out = dsstne.datasets.hold_out(X)
    options = {"hidden": [12], "batch_size": 64, "seed": 3, "progress": False}
    options |= {"epochs": "auto", "validation": held_out} if early else {"epochs": 9}
    whole = dsstne.fit(train, **options)
    options |= {"checkpoint": tmp_path / "run", "resume": True}  # the file is not there yet
    for epoch in (3, 6):
        with pytest.raises(error):
            dsstne.fit(train, **options, callbacks=stop_at(epoch, error))
    for _ in range(2):  # the second time, nothing is left to do
        model = dsstne.fit(train, **options)
        assert bits(model) == bits(whole)
        kept = [{key: value for key, value in record.items() if "second" not in key} for record in model.history]
        assert kept == [{key: value for key, value in one.items() if "second" not in key} for one in whole.history]
    again = dsstne.fit(train, **{**options, "resume": False}, max_seconds=1000)
    assert bits(again) == bits(whole)


def test_fit_that_ended_within_an_epoch_goes_on(X, tmp_path):
    options = {"hidden": [12], "batch_size": 8, "seed": 3, "progress": False, "epochs": 4}
    whole = dsstne.fit(X, **options)
    options |= {"checkpoint": tmp_path / "run", "resume": True}
    seconds, step = [0.0], 0
    for _ in range(10_000):
        model = dsstne.fit(X, **options, max_seconds=0.001)
        if model.step > step:  # a busy machine may leave no time for a step
            seconds.append(model.history[-1]["seconds"])
        step = model.step
        again = dsstne.fit(X, **options, max_seconds=1e-9)  # no time for a step
        assert (again.step, again.history) == (model.step, model.history)
        if model.step == whole.step:
            break
    assert seconds == sorted(set(seconds))  # the time of a part of an epoch counts, though its record is replaced
    assert bits(model) == bits(whole)
    assert [record["epoch"] for record in model.history] == [1, 2, 3, 4]


def test_what_a_callback_has_noted_in_the_attributes_goes_on(X, tmp_path):
    def note(model, record):
        model.attributes[f"epoch {record['epoch']}"] = "done"

    options = {"hidden": [4], "progress": False, "checkpoint": tmp_path / "run", "resume": True, "callbacks": note}
    dsstne.fit(X, **options, epochs=1)
    assert dsstne.fit(X, **options, epochs=2).attributes == {"epoch 1": "done", "epoch 2": "done"}


def test_what_fit_refuses_to_go_on_with(X, tmp_path):
    train, held_out = dsstne.datasets.hold_out(X)
    options = {"hidden": [12], "batch_size": 64, "progress": False, "epochs": 2, "checkpoint": tmp_path / "run"}
    dsstne.fit(train, **options)
    longer = dsstne.fit(train, **{**options, "epochs": 3, "learning_rate": 0.01}, resume=True)  # these two may change
    assert [record["epoch"] for record in longer.history] == [1, 2, 3]
    for change, words in (
        ({"hidden": [13]}, r"network.layers\[1\] \(hidden1\).size: the checkpoint has 12, this trainer has 13"),
        ({"hidden": [12, 5]}, r"network.layers: the checkpoint has"),
        ({"loss": "sigmoid", "temperature": 0.1}, r"network.loss\[0\].kind"),
        ({"batch_size": 32}, "batch_size: the checkpoint has 64, this trainer has 32"),
        ({"seed": 5}, "seed"),
        ({"optimizer": "sgd"}, "optimizer: the checkpoint has adam, this trainer has sgd"),
        ({"weight_decay": 0.5}, "weight_decay"),
        ({"optimizer": {"kind": "adam", "l1": 0.5}}, "l1"),
        ({"validation": held_out, "callbacks": dsstne.callbacks.EarlyStopping()}, "is of a run with no early end"),
    ):
        with pytest.raises(dsstne.InvalidArgumentError, match=words):
            dsstne.fit(train, **{**options, **change}, resume=True)
    with pytest.raises(dsstne.InvalidArgumentError, match="dataset"):
        dsstne.fit(held_out, **options, resume=True)
    with pytest.raises(dsstne.InvalidArgumentError, match="needs checkpoint="):
        dsstne.fit(train, epochs=1, resume=True)
    with pytest.raises(dsstne.InputOutputError, match="no file can be written in the folder"):
        dsstne.fit(train, **{**options, "checkpoint": tmp_path / "nowhere" / "run"})
    with pytest.raises(dsstne.InputOutputError, match="is a folder; add a file name") as error:
        dsstne.fit(train, **{**options, "checkpoint": tmp_path})
    assert error.value.model.step == 0
    with pytest.raises(dsstne.InputOutputError, match="cannot save"), pytest.warns(UserWarning, match="goes on"):
        dsstne.fit(train, **{**options, "checkpoint": tmp_path / ("a" * 300)}, resume=True)


def test_fit_refuses_another_early_end_and_other_held_out_items(X, tmp_path):
    train, held_out = dsstne.datasets.hold_out(X)
    options = {"hidden": [4], "epochs": 1, "progress": False, "checkpoint": tmp_path / "run", "validation": held_out}
    words = {"metric": "recall@5", "patience": 3, "min_delta": 0.1, "restore_best": True}
    dsstne.fit(train, **options, callbacks=dsstne.callbacks.EarlyStopping(**words))
    for change in ({"metric": None}, {"patience": 4}, {"min_delta": 0.0}, {"restore_best": False}):
        (name,) = change
        with pytest.raises(dsstne.InvalidArgumentError, match=f"EarlyStopping: {name}: the checkpoint has"):
            dsstne.fit(train, **options, callbacks=dsstne.callbacks.EarlyStopping(**words | change), resume=True)
    early = dsstne.callbacks.EarlyStopping(**words)
    with pytest.raises(dsstne.InvalidArgumentError, match="validation: the held-out items are not those"):
        dsstne.fit(train, **options | {"validation": (train, held_out)}, callbacks=early, resume=True)
    same = held_out.tocsc().tocsr().astype(np.float64)  # stored in another way
    dsstne.fit(train, **options | {"validation": same}, callbacks=early, resume=True)


def rates(model):
    return [record["learning_rate"] for record in model.history]


def test_arguments_that_are_not_given_are_those_of_the_run_before(X, tmp_path):
    options = {"hidden": [4], "batch_size": 64, "progress": False, "checkpoint": tmp_path / "run", "resume": True}
    dsstne.fit(X, **options, learning_rate=0.5, schedule=None, epochs=2)
    assert rates(dsstne.fit(X, **options, epochs=4)) == [0.5] * 4
    assert rates(dsstne.fit(X, **options)) == [0.5] * 4  # nothing is left to do
    changed = dsstne.fit(X, **options, learning_rate=0.25, epochs=5)
    assert rates(dsstne.fit(X, **options, epochs=6)) == [*rates(changed), 0.25]


def test_a_schedule_that_spans_the_run_spans_a_longer_one(X, tmp_path):
    options = {"hidden": [4], "batch_size": 64, "progress": False, "schedule": "linear"}
    whole = dsstne.fit(X, **options, epochs=6)
    kept = {"checkpoint": tmp_path / "run", "resume": True}
    dsstne.fit(X, **options, **kept, epochs=2)
    del options["schedule"]
    assert rates(dsstne.fit(X, **options, **kept, epochs=6))[2:] == rates(whole)[2:]


def test_a_trainer_says_what_may_change_when_it_goes_on(X, tmp_path):
    with pytest.raises(dsstne.InvalidArgumentError, match="batch_size: resume.* cannot change it.*learning_rate"):
        dsstne.Trainer.resume(tmp_path / "run", X, batch_size=32)


READ_ONLY = """
path = sys.argv[1] + "/run"
options = {"hidden": 4, "progress": False, "checkpoint": path}
trainer = dsstne.Trainer(dsstne.load(path), X)
drop_privileges()
with pytest.raises(dsstne.InputOutputError, match="no file can be written in the folder " + sys.argv[1]):
    dsstne.fit(X, **options, epochs=2, resume=True)
with pytest.raises(dsstne.InputOutputError, match="[Pp]ermission denied"):
    trainer.save(path)
assert dsstne.Trainer.resume(path, X).progress.step == 1
"""


def test_a_checkpoint_in_a_read_only_folder_can_be_read_only(read_only):
    data = scipy.sparse.csr_array(np.eye(5, dtype=np.float32))
    dsstne.fit(data, hidden=4, epochs=1, progress=False, checkpoint=read_only.folder / "run")
    read_only.run("X = scipy.sparse.csr_array(np.eye(5, dtype=np.float32))\n" + READ_ONLY)


# ---- what goes wrong ----

KILLED = """
import sys
import numpy as np, scipy.sparse, dsstne
X = scipy.sparse.load_npz(sys.argv[1])
options = dict(hidden=[64], epochs=8, batch_size=64, seed=3, progress=False)
begun = lambda *_: print("an epoch", flush=True)
dsstne.fit(X, **options, checkpoint=sys.argv[2], resume=True, callbacks=begun).save(sys.argv[3])
"""


def kill_rounds(folder, rounds):
    """Kills runs after an epoch, most while they write 15 MB; each goes on from the file that the others have left."""
    random, killed, whole = np.random.default_rng(0), 0, 0
    X = scipy.sparse.random_array((200, 20_000), density=0.001, format="csr", rng=0, dtype=np.float32)
    want = bits(dsstne.fit(X, hidden=[64], epochs=8, batch_size=64, seed=3, progress=False))
    scipy.sparse.save_npz(folder / "X.npz", X)
    while killed < rounds or not whole:
        command = [sys.executable, "-c", KILLED, folder / "X.npz", folder / "run", folder / "model"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            assert program.stdout.readline() in ("an epoch\n", ""), program.stderr.read()
            try:
                program.wait(None if killed >= rounds else 0.3 * random.random())
            except subprocess.TimeoutExpired:
                program.kill()
                killed += 1
                if (folder / "run").exists():
                    dsstne.load(folder / "run")  # whole, at whichever byte the process was killed
                continue
            assert program.returncode == 0, program.stderr.read()
        assert bits(dsstne.load(folder / "model")) == want
        whole += 1
        (folder / "run").unlink()
    return killed, whole


@pytest.mark.long
def test_a_killed_run_never_loses_its_checkpoint(tmp_path):
    rounds = int(os.environ.get("DSSTNE_TEST_KILLS", "5"))
    killed, whole = kill_rounds(tmp_path, rounds)
    print(f"killed {killed} times, {whole} runs came to their end")
    assert len(list(tmp_path.glob(".run.saving-*"))) <= killed  # what is left of these is removed after a minute


def test_a_full_disk_is_a_warning_and_then_an_error(X, tmp_path):
    """The system refuses files above a size, as a full disk does; training goes on and the model is kept."""
    path, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    options = {"hidden": [12], "batch_size": 64, "epochs": 3, "progress": False, "checkpoint": path}
    try:
        dsstne.fit(X, **{**options, "epochs": 1})
        good = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with (
            pytest.warns(UserWarning, match="training goes on without a new checkpoint"),
            pytest.raises(dsstne.InputOutputError) as error,
        ):
            dsstne.fit(X, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert error.value.model.history[-1]["epoch"] == 3
    assert path.read_bytes() == good
    assert not list(tmp_path.glob(".run.saving-*"))


def test_an_error_of_the_background_is_raised_by_settle_and_close(X, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    for how in (dsstne.Trainer.settle, dsstne.Trainer.close):
        trainer = dsstne.Trainer(untrained(X), X, **OPTIONS)
        trainer.run(steps=2)
        trainer.save(tmp_path / "a", background=True)
        trainer.settle()
        trainer.save(tmp_path / "missing" / "b", background=True)
        with pytest.raises(dsstne.InputOutputError, match="does not exist"):
            how(trainer)
        trainer.close()
        assert trainer.closed


def test_a_checkpoint_in_a_limit_of_memory(X, tmp_path):
    options = {"hidden": [12], "batch_size": 64, "epochs": 2, "progress": False, "devices": "cpu"}
    with dsstne.Trainer(untrained(X), X, **OPTIONS) as trainer:
        limit = trainer.plan()["bytes"]
    with dsstne.Trainer(untrained(X), X, **OPTIONS, checkpoints=True, memory_limit=limit + 100) as trainer:
        plan = trainer.plan()
        assert plan["bytes"] <= limit
        assert "between two steps: there is no memory" in plan["operations"][-1]
        trainer.run(steps=2)
        trainer.save(tmp_path / "run", background=True)
        assert dsstne.load(tmp_path / "run").step == 2  # written already
    want = dsstne.fit(X, **options)
    with dsstne.Trainer(untrained(X), X, **OPTIONS, checkpoints=True) as trainer:
        assert sum(part["bytes"] for part in trainer.plan()["parts"] if part["name"] == "checkpoint") == 3 * 4 * (
            want.parameters
        )


def test_many_checkpoints_and_forks_leave_nothing(X, tmp_path):
    def one_round():
        trainer.run(steps=1)
        trainer.save(tmp_path / "run", background=True)
        with trainer.fork() as fork:
            fork.run(steps=1)
        trainer.settle()
        with dsstne.Trainer.resume(tmp_path / "run", X) as again:
            again.run(steps=1)

    def held():
        gc.collect()
        engine = dsstne.doctor().engine
        return engine["open"], engine["memory"]["allocated"]

    with dsstne.Trainer(untrained(X), X, **OPTIONS) as trainer:
        one_round()
        before = held()
        for _ in range(20):
            one_round()
        assert held() == before


def test_ctrl_c_while_an_epoch_is_evaluated(X, tmp_path, monkeypatch):
    train, held_out = dsstne.datasets.hold_out(X)
    options = {"hidden": [12], "batch_size": 64, "seed": 3, "progress": False, "validation": held_out}
    whole = dsstne.fit(train, **options)
    options |= {"checkpoint": tmp_path / "run", "resume": True}
    evaluate, calls = api.evaluate, []

    def interrupted(*arguments, **named):
        calls.append(1)
        if len(calls) in (2, 5):
            raise KeyboardInterrupt
        return evaluate(*arguments, **named)

    monkeypatch.setattr(api, "evaluate", interrupted)
    for epochs in (2, 4):  # none is trained again: the run that goes on begins with the metrics of the last one
        with pytest.raises(KeyboardInterrupt):
            dsstne.fit(train, **options)
        assert dsstne.load(tmp_path / "run").step == epochs * whole.history[0]["step"]
    model = dsstne.fit(train, **options)
    assert bits(model) == bits(whole)
    timed = {"seconds", "examples_per_second"}
    kept = [[{k: v for k, v in record.items() if k not in timed} for record in m.history] for m in (model, whole)]
    assert kept[0] == kept[1]
    assert np.all(np.diff([record["seconds"] for record in model.history]) > 0)


def test_a_failure_of_an_earlier_file_does_not_end_the_run(X, tmp_path, monkeypatch):
    folder, away = tmp_path / "here", tmp_path / "away"
    folder.mkdir()
    settle, last = dsstne.Trainer.settle, []

    def move(_, record):
        if record["epoch"] == 2:
            folder.rename(away)
        elif record["epoch"] == 3:
            last.append(True)

    def settle_and_move_back(trainer):  # not before: the file of epoch 2 may be begun late
        try:
            settle(trainer)
        finally:
            if last and away.exists():
                away.rename(folder)

    monkeypatch.setattr(dsstne.Trainer, "settle", settle_and_move_back)
    options = {"hidden": [12], "batch_size": 64, "epochs": 3, "progress": False, "checkpoint": folder / "run"}
    with pytest.warns(UserWarning, match="training goes on without a new checkpoint"):
        dsstne.fit(X, **options, callbacks=move, checkpoint_every=2)
    assert dsstne.load(folder / "run").history[-1]["epoch"] == 3


def test_what_happens_while_a_file_is_written_does_not_change_it(X, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = untrained(X)
    before = bits(model)
    with dsstne.Trainer(model, X, **OPTIONS, checkpoints=True) as trainer:
        trainer.save("run", background=True)
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        model.set_tensor("hidden1.bias", np.ones(12, np.float32))
        trainer.run(steps=1)
        trainer.settle()
    assert bits(dsstne.load(tmp_path / "run")) == before


def test_a_file_is_written_to_its_end_when_the_program_ends(tmp_path, python):
    python(
        "import sys, dsstne, numpy as np, scipy.sparse\n"
        "X = scipy.sparse.random_array((50, 20_000), density=0.001, format='csr', rng=0, dtype=np.float32)\n"
        "trainer = dsstne.Trainer(dsstne.fit(X, hidden=64, epochs=0, progress=False), X)\n"
        "trainer.save(sys.argv[1], background=True)\n",
        tmp_path / "run",
    )
    assert dsstne.load(tmp_path / "run").parameters > 2_000_000


def test_a_run_that_skips_a_step_that_failed_can_go_on(tmp_path):
    X = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((8, 5))).astype(np.float32))
    model = dsstne.fit(X, hidden=[4], epochs=0, progress=False, loss="squared", temperature=None)
    options = {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 4, "shuffle": False, "devices": "cpu"}
    with dsstne.Trainer(model, X, **options) as trainer:
        trainer.run(steps=2)
        good = {name: model.tensor(name) for name in model.tensors}
        model.set_tensor("output.weight", np.full_like(good["output.weight"], 1e38))
        with pytest.raises(dsstne.NotFiniteError):
            trainer.run(steps=5)
        for name, values in good.items():
            model.set_tensor(name, values)
        trainer.save(tmp_path / "run")
        fork, resumed = trainer.fork(), dsstne.Trainer.resume(tmp_path / "run", X, devices="cpu")
        trainer.run(steps=3)
        for other in (fork, resumed):
            other.run(steps=3)
            assert bits(other.model) == bits(model)


def test_what_goes_on_takes_no_more_memory_than_what_was_stopped(X, tmp_path):
    def peak(start):
        with start() as trainer:
            plan = trainer.plan()["bytes"]
            trainer.run(steps=1)
            return plan, dsstne.doctor().engine["memory"]["allocated"]

    model = dsstne.fit(X, hidden=[20_000], epochs=0, progress=False)
    plan, used = peak(lambda: dsstne.Trainer(model, X, **OPTIONS))
    with dsstne.Trainer(model, X, **OPTIONS) as trainer:
        trainer.run(steps=1)
        trainer.save(tmp_path / "run")
        limit = {"memory_limit": plan}
        fork = trainer.fork(**limit)
        assert fork.plan()["bytes"] > plan  # it makes copies of what the two share
    fork.close()
    model.close()
    del fork, trainer
    gc.collect()
    again = peak(lambda: dsstne.Trainer.resume(tmp_path / "run", X, **limit))
    assert again[0] == plan
    assert again[1] <= 1.01 * used
