"""train: DSSTNE's flags, files and defaults, on data files of all kinds."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse
from terminal import terminal

import dsstne
from dsstne._commands import outputs, train
from dsstne._commands.epochs import Epochs
from dsstne.cli import main

X = scipy.sparse.random_array((60, 30), density=0.2, format="csr", rng=0, dtype=np.float32)
X.data[:] = 1
ITEMS = [f"item{n}" for n in range(30)]
ROWS = [f"row{n}" for n in range(60)]
CONFIG = {
    "ShuffleIndices": False,
    "Denoising": {"p": 0.2},
    "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
        {"Name": "Hidden", "N": 8, "Activation": "Sigmoid"},
        {"Name": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "Sigmoid"},
    ],
    "ErrorFunction": "ScaledMarginalCrossEntropy",
}
FILES = ["train", "-c", "config.json", "-i", "gl_input.nc", "-o", "gl_output.nc"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for name in ("gl_input", "gl_output"):
        dsstne.netcdf.write(f"{name}.nc", {name: X}, items={name: ITEMS}, rows=ROWS)
    with dsstne.Dataset(X) as data:
        data.save("gl.arrow", items=ITEMS, rows=ROWS)
    lines = (f"{ROWS[row]}\t{':'.join(ITEMS[i] for i in X[[row]].indices)}\n" for row in range(60))
    (tmp_path / "T").write_text("".join(lines))
    return tmp_path


def weights(path):
    with dsstne.load(path) as model:
        return {name: model.tensor(name) for name in ("Hidden.weight", "Hidden.bias", "Output.weight", "Output.bias")}


def same(left, right):
    return all(np.array_equal(left[name], right[name]) for name in left)


def test_it_trains_as_dsstne_does_by_default(folder):
    assert main([*FILES, "-n", "gl.dsstne"]) == 0
    options = {"optimizer": "sgd", "learning_rate": 0.025, "epochs": 40, "batch_size": 1024, "seed": 12134}
    with dsstne.fit(X, network="config.json", weight_decay=1e-4, progress=False, **options) as model:
        expected = {name: model.tensor(name) for name in weights("gl.dsstne")}
        assert model.step == 40
    assert same(expected, weights("gl.dsstne"))
    with dsstne.load("gl.dsstne") as model:
        assert model.items.tolist() == ITEMS
        assert model.same_items


def test_items_are_others_if_their_names_are(folder):
    dsstne.netcdf.write("gl_output.nc", {"gl_output": X}, items={"gl_output": ITEMS[::-1]}, rows=ROWS)
    assert main([*FILES, "-n", "gl.dsstne", "-e", "1"]) == 0
    with dsstne.load("gl.dsstne") as model:
        assert not model.same_items


@pytest.mark.parametrize("data", ["T", "gl.arrow"])
def test_text_and_mapped_files_give_the_same_network_as_netcdf(folder, data):
    (folder / "features").write_text("".join(f"{name}\t{n}\n" for n, name in enumerate(ITEMS)))
    assert main([*FILES, "-n", "gl.nc", "-e", "2"]) == 0
    command = ["train", "-c", "config.json", "-i", data, "-o", data, "-e", "2", "--features", "features"]
    assert main([*command, "-n", "other.nc"]) == 0
    assert same(weights("gl.nc"), weights("other.nc"))


def test_names_and_data_sets_stay_with_the_network(folder, capsys):
    assert main([*FILES, "-n", "gl.nc", "-e", "2", "-b", "16"]) == 0
    assert dsstne.read_index("gl.nc.features").tolist() == ITEMS
    assert dsstne.netcdf.network("gl.nc").datasets == {"Input": "gl_input", "Output": "gl_output"}
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1/2", "epoch 2/2", "gl.nc"]
    assert lines[-1].startswith("gl.nc: 2 epochs, 8 steps, loss ")


def test_indexes_of_a_text_are_made_and_then_read(folder):
    command = ["train", "-c", "config.json", "-i", "T", "-o", "T", "-e", "1", "--features", "f", "--samples", "s"]
    assert main([*command, "-n", "one.dsstne"]) == 0
    assert dsstne.read_index("s").tolist() == ROWS
    assert sorted(dsstne.read_index("f").tolist()) == sorted(ITEMS)
    dsstne.write_index("f", ["new", *dsstne.read_index("f")])
    assert main([*command, "-n", "two.dsstne"]) == 0
    with dsstne.load("two.dsstne") as model:
        assert model.items[0] == "new"


def test_malformed_lines_are_counted_last(folder, capsys):
    with (folder / "T").open("a") as file:
        file.write("no tab\n")
    assert main(["train", "-c", "config.json", "-i", "T", "-o", "T", "-e", "1", "-n", "gl.dsstne"]) == 0
    last = "T: skipped 1 malformed line: 1 with no TAB (first: T, line 61, column 1)"
    assert capsys.readouterr().err.splitlines()[-1] == last
    assert main(["train", "-c", "config.json", "-i", "T", "-o", "T", "-n", "a.nc", "--malformed", "error"]) == 1


@pytest.mark.parametrize(
    ("arguments", "rule", "rate"),
    [
        ([], {"kind": "sgd"}, 0.025),
        (["-mu", "0.7", "-mu1", "0.5"], {"kind": "sgd"}, 0.025),
        (["--optimizer", "adam"], {"kind": "adam"}, "auto"),
        (["--optimizer", "adam", "-mu", "0.8", "-mu1", "0.99"], {"kind": "adam", "beta1": 0.8, "beta2": 0.99}, "auto"),
        (["--optimizer", "nesterov", "-mu", "0.8", "-alpha", "1"], {"kind": "nesterov", "momentum": 0.8}, 1.0),
        (["--optimizer", "rmsprop", "-mu", "0.8"], {"kind": "rmsprop", "decay_rate": 0.8}, "auto"),
    ],
)
def test_flags_of_the_optimizer(arguments, rule, rate):
    options = train._training(train.parse([*FILES[1:], "-n", "gl.nc", *arguments]), 60)
    assert options["optimizer"] == {**rule, "l1": 0}
    assert options["learning_rate"] == rate
    assert options["weight_decay"] == 1e-4


@pytest.mark.parametrize("kind", ["momentum", "nesterov", "rmsprop", "adam", "adamw", "adagrad", "adadelta"])
def test_every_optimizer_trains(kind):
    assert main([*FILES, "-n", "gl.nc", "-e", "1", "-lambda1", "1e-5", "--optimizer", kind]) == 0


def test_d_names_the_data_set_where_a_file_holds_several(folder):
    dsstne.netcdf.write("both.nc", {"a": X, "gl_input": 1 - X.toarray(), "b": X})
    command = ["train", "-c", "config.json", "-i", "both.nc", "-o", "gl_output.nc", "-e", "1"]
    assert main([*command, "-n", "one.nc", "-d", "a"]) == 0
    assert main([*command, "-n", "two.nc"]) == 0
    assert main([*FILES, "-n", "three.nc", "-e", "1"]) == 0
    assert same(weights("one.nc"), weights("three.nc"))
    assert not same(weights("one.nc"), weights("two.nc"))


def test_weights_of_examples_count():
    weight = np.linspace(0, 2, 60, dtype=np.float32)
    dsstne.netcdf.write("in.nc", {"gl_input": X}, sample_weight={"gl_input": weight})
    dsstne.netcdf.write("out.nc", {"gl_output": X}, sample_weight={"gl_output": weight})
    command = ["train", "-c", "config.json", "-i", "in.nc", "-o", "out.nc", "-n", "gl.dsstne", "-e", "2"]
    assert main(command) == 0
    options = {"optimizer": "sgd", "learning_rate": 0.025, "epochs": 2, "batch_size": 1024, "seed": 12134}
    given = {"Input": X.multiply(weight[:, None]).tocsr()}, {"Output": X}
    with dsstne.fit(
        *given, network="config.json", weight_decay=1e-4, progress=False, sample_weight=weight, **options
    ) as model:
        assert np.array_equal(model.tensor("Hidden.weight"), weights("gl.dsstne")["Hidden.weight"])


def test_a_dry_run_prints_the_plan_and_writes_nothing(folder, capsys):
    before = sorted(path.name for path in folder.iterdir())
    assert main([*FILES, "-n", "gl.nc", "--dry-run", "--checkpoint", "run"]) == 0
    out, err = capsys.readouterr()
    assert "Output.weight" in out
    assert err == "nothing was trained or written\n"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_run_goes_on_from_its_checkpoint():
    more = ["--checkpoint", "run", "--resume"]
    assert main([*FILES, "-n", "half.nc", "-e", "2", *more]) == 0
    assert main([*FILES, "-n", "whole.nc", "-e", "4", *more]) == 0
    assert main([*FILES, "-n", "at_once.nc", "-e", "4"]) == 0
    assert same(weights("whole.nc"), weights("at_once.nc"))


def test_an_existing_network_stays(folder, capsys):
    (folder / "gl.nc").write_text("old")
    assert main([*FILES, "-n", "gl.nc", "-e", "1"]) == 1
    assert "gl.nc exists already" in capsys.readouterr().err
    assert (folder / "gl.nc").read_text() == "old"
    assert main([*FILES, "-n", "gl.nc", "-e", "1", "--overwrite"]) == 0
    assert weights("gl.nc")


def interrupted(arguments, number):
    """Runs the command in another process, sends it a signal in training, and returns its status and messages."""
    command = [sys.executable, "-m", "dsstne", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline().startswith("epoch 1/")
        time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("more", [[], ["--validation", "others.nc", "--optimizer", "adam"]])
def test_a_run_that_a_signal_ends_goes_on_with_the_command_that_it_prints(folder, number, status, more):
    dsstne.netcdf.write("others.nc", {"gl_output": 1 - X.toarray()}, rows=ROWS)
    command = [*FILES, "-e", "800", "-b", "16", *more]
    returned, err = interrupted([*command, "-n", "my net.nc"], number)
    assert returned == status
    what, again = err.splitlines()[-2:]
    how = "interrupted" if number == signal.SIGINT else "ended by SIGTERM"
    assert what == f"dsstne train: {how}; my net.nc.checkpoint has the state of the run. This goes on with it:"
    assert again.startswith("dsstne train ")
    assert again.endswith(" --resume")
    assert not os.path.exists("my net.nc")
    with dsstne.load("my net.nc.checkpoint") as model:
        assert 0 < model.step < 3200
    assert main(shlex.split(again)[1:]) == 0
    assert not os.path.exists("my net.nc.checkpoint")
    assert main([*command, "-n", "at_once.nc"]) == 0
    assert same(weights("my net.nc"), weights("at_once.nc"))


def test_a_signal_before_the_training_leaves_nothing(folder, monkeypatch, capsys):
    monkeypatch.setattr("dsstne._commands.train.read", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = sorted(path.name for path in folder.iterdir())
    assert main([*FILES, "-n", "gl.nc"]) == 143
    assert capsys.readouterr().err == "dsstne train: ended by SIGTERM\n"
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_destructor_is_not_lost(folder, monkeypatch, capsys, number, status):
    class Interrupted:
        def __del__(self):
            signal.raise_signal(number)

    def read(*_):
        Interrupted()
        time.sleep(60)
        pytest.fail("the signal was lost")

    monkeypatch.setattr("dsstne._commands.train.read", read)
    hook = sys.unraisablehook
    assert main([*FILES, "-n", "gl.nc"]) == status
    assert capsys.readouterr().err.startswith("dsstne train: ")
    assert sys.unraisablehook is hook


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_waits_until_the_network_is_written(folder, monkeypatch, capsys, number, status):
    save = dsstne.Model.save

    def save_late(*arguments):
        signal.raise_signal(number)
        save(*arguments)

    monkeypatch.setattr(dsstne.Model, "save", save_late)
    assert main([*FILES, "-n", "gl.dsstne", "-e", "1"]) == status
    assert weights("gl.dsstne")
    assert "gl.dsstne: 1 epoch, 1 step, loss " in capsys.readouterr().err


@pytest.fixture
def two_epochs(monkeypatch):
    """Ends each training by Ctrl-C after two epochs."""
    after = Epochs.after_iteration

    def stop(callback, model, epoch, evals_log):
        after(callback, model, epoch, evals_log)
        if epoch == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Epochs, "after_iteration", stop)


def test_a_second_signal_waits_until_the_state_is_written(two_epochs, monkeypatch, capsys):
    save = dsstne.Trainer._save

    def save_late(*arguments):
        signal.raise_signal(signal.SIGTERM)
        save(*arguments)

    monkeypatch.setattr(dsstne.Trainer, "_save", save_late)
    assert main([*FILES, "-n", "gl.nc"]) == 143
    assert capsys.readouterr().err.endswith(
        "dsstne train -c config.json -i gl_input.nc -o gl_output.nc -n gl.nc --resume\n"
    )
    with dsstne.load("gl.nc.checkpoint") as model:
        assert model.step == 2


@pytest.mark.filterwarnings("default")
def test_without_a_state_no_command_goes_on(two_epochs, monkeypatch, capsys):
    def full(*_):
        raise dsstne.InputOutputError("the disk is full", 28, "gl.nc.checkpoint")

    monkeypatch.setattr(dsstne.Trainer, "_save", full)
    assert main([*FILES, "-n", "gl.nc"]) == 130
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "dsstne train: warning: training ends without a new checkpoint: the disk is full",
        "dsstne train: interrupted",
    ]


def test_only_a_state_of_every_epoch_takes_memory_beside_the_training(monkeypatch):
    planned = []
    trainer = dsstne.Trainer.__init__

    def noted(*arguments, **options):
        planned.append(options["checkpoints"])
        trainer(*arguments, **options)

    monkeypatch.setattr(dsstne.Trainer, "__init__", noted)
    assert main([*FILES, "-n", "a.nc", "-e", "1"]) == 0
    assert main([*FILES, "-n", "b.nc", "-e", "1", "--checkpoint", "run"]) == 0
    assert planned == [False, True]


def test_a_warning_is_a_line_for_users():
    command = [*FILES, "-n", "gl.nc", "-e", "1", "--validation", "gl_output.nc"]
    done = subprocess.run([sys.executable, "-m", "dsstne", *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "dsstne train: warning: all held-out items are excluded as seen" in done.stderr
    assert "UserWarning" not in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("more", [[], ["--checkpoint", "run"]])
def test_a_signal_after_the_last_epoch_does_not_lose_it(monkeypatch, capsys, number, status, more):
    close = dsstne.Trainer.close

    def close_late(trainer):
        signal.raise_signal(number)
        close(trainer)

    monkeypatch.setattr(dsstne.Trainer, "close", close_late)
    assert main([*FILES, "-n", "gl.nc", "-e", "2", *more]) == status
    last = capsys.readouterr().err.splitlines()[-1]
    if more:  # the state of the last epoch is there
        assert last.endswith("--resume")
        monkeypatch.setattr(dsstne.Trainer, "close", close)
        assert main(shlex.split(last)[1:]) == 0
    else:
        assert last.startswith("dsstne train: ")
    assert main([*FILES, "-n", "at_once.nc", "-e", "2"]) == (0 if more else status)
    assert same(weights("gl.nc"), weights("at_once.nc"))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_held_out_items_are_ranked_after_each_epoch(folder, capsys):
    train, held_out = dsstne.datasets.hold_out(X)
    for name, matrix in (("in", train), ("out", train), ("held_out", held_out)):
        data_set = "gl_input" if name == "in" else "gl_output"
        dsstne.netcdf.write(f"{name}.nc", {data_set: matrix}, items={data_set: ITEMS}, rows=ROWS)
    rows = [f"{ROWS[n]}\t{':'.join(ITEMS[i] for i in held_out[[n]].indices)}\n" for n in range(60)]
    (folder / "held_out").write_text("".join(rows))
    command = ["train", "-c", "config.json", "-i", "in.nc", "-o", "out.nc", "-e", "3", "-alpha", "1"]
    more = ["--metrics", "precision@1..2,auc", "--metrics-file", "log.csv"]
    for name in ("held_out", "held_out.nc"):
        assert main([*command, "-n", f"{name}.dsstne", "--validation", name, *more]) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("epoch 1/3: loss ")
    assert [word.split()[0] for word in err[0].split(", ")[1:-1]] == [
        "recall@20",
        "precision@1",
        "precision@2",
        "auc",
        "ndcg@20",
    ]
    with open("log.csv", newline="") as file:
        log = list(csv.DictReader(file))
    assert [line["epoch"] for line in log] == ["1", "2", "3"]
    names = ["recall@20", "precision@1", "precision@2", "auc", "ndcg@20"]
    for name in ("held_out", "held_out.nc"):
        with dsstne.load(f"{name}.dsstne") as model:
            want = dsstne.evaluate(model, train, held_out, names, exclude="input")
        assert {name: float(log[-1][name]) for name in names} == want


def test_held_out_items_may_be_those_of_other_samples(folder):
    train, held_out = dsstne.datasets.hold_out(X[:7])
    dsstne.netcdf.write("v_in.nc", {"gl_input": train}, items={"gl_input": ITEMS})
    dsstne.netcdf.write("v_out.nc", {"gl_output": held_out}, items={"gl_output": ITEMS})
    command = [*FILES, "-n", "gl.dsstne", "-e", "2", "--validation", "v_out.nc", "--validation-input", "v_in.nc"]
    assert main([*command, "--metrics-file", "log.csv"]) == 0
    with open("log.csv", newline="") as file:
        last = list(csv.DictReader(file))[-1]
    with dsstne.load("gl.dsstne") as model:
        want = dsstne.evaluate(model, train, held_out, exclude="input")
    assert {name: float(last[name]) for name in want} == want


def test_a_run_that_goes_on_has_each_epoch_once_in_its_metrics(folder):
    more = ["--checkpoint", "run", "--resume", "--metrics-file", "log.csv"]
    for epochs in ("2", "5"):
        assert main([*FILES, "-n", f"{epochs}.nc", "-e", epochs, *more]) == 0
    with open("log.csv", newline="") as file:
        assert [line["epoch"] for line in csv.DictReader(file)] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("ending", [".nc", ".dsstne"])
def test_networks_of_epochs_are_written(folder, ending):
    name = f"gl{ending}"
    assert main([*FILES, "-n", name, "-e", "5", "--checkpoint-interval", "2"]) == 0
    assert sorted(path.name for path in folder.glob(f"{name}[0-9]*")) == [f"{name}2{ending}", f"{name}4{ending}"]
    assert main([*FILES, "-n", "four.nc", "-e", "4"]) == 0
    assert same(weights(f"{name}4{ending}"), weights("four.nc"))
    assert main([*FILES, "-n", name, "-e", "5", "--checkpoint-interval", "3", "--overwrite"]) == 0
    assert os.path.exists(f"{name}3{ending}")


def test_a_network_of_an_epoch_that_cannot_be_written_does_not_end_the_run(folder, monkeypatch, capsys):
    save = dsstne.Model.save

    def full(model, path):
        if path == "gl.nc1.nc":
            raise dsstne.InputOutputError("the disk is full", 28, path)
        save(model, path)

    monkeypatch.setattr(dsstne.Model, "save", full)
    assert main([*FILES, "-n", "gl.nc", "-e", "2", "--checkpoint-interval", "1"]) == 0
    assert "training goes on without the network of epoch 1: the disk is full" in capsys.readouterr().err
    assert same(weights("gl.nc2.nc"), weights("gl.nc"))


def test_names_of_the_networks_of_epochs(tmp_path):
    files = outputs.Series("a/x.nc", ".nc", 2, 10)
    assert files.name(4) == "a/x.nc4.nc"
    names = ["a/x.nc2.nc", "./a/x.nc10.nc", "a/x.nc3.nc", "a/x.nc02.nc", "a/x.nc12.nc", "a/x.nc.nc", "b/x.nc2.nc"]
    assert [files.has(name) for name in names] == [True, True, False, False, False, False, False]


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_training_with_a_checkpoint_and_no_network(folder, number, status):
    returned, err = interrupted([*FILES, "-n", "gl.nc", "-e", "10000000", "--checkpoint", "run"], number)
    assert returned == status
    assert err.splitlines()[-2].startswith("dsstne train: ")
    assert "Traceback" not in err
    with dsstne.load("run") as model:
        assert model.step > 0
    assert not os.path.exists("gl.nc")


def test_a_terminal_shows_a_bar_instead_of_lines():
    command = [sys.executable, "-m", "dsstne", *FILES, "-n", "gl.nc", "-e", "5"]
    with terminal() as (stderr, shown):
        assert subprocess.run(command, stderr=stderr, timeout=60).returncode == 0
    text = shown.decode()
    assert "epoch 5/5: 100%" in text
    assert "examples a second" not in text


def test_it_finds_what_the_file_cannot_express_before_it_trains(folder, capsys):
    config = {**CONFIG, "Layers": [CONFIG["Layers"][0], {"Name": "Hidden", "N": 8}, CONFIG["Layers"][2]]}
    network = dsstne.Network.from_dsstne(config).definition
    network["layers"][1]["activation"] = "gelu"
    (folder / "config.json").write_text(json.dumps(network))
    command = [*FILES, "-d", "gl", "-e", "1"]
    assert main([*command, "-n", "gl.nc"]) == 1
    err = capsys.readouterr().err
    assert "DSSTNE does not have the activation 'gelu'" in err
    assert "epoch" not in err
    assert main([*command, "-n", "gl.dsstne"]) == 0


def test_a_data_set_that_counts_stored_entries_only_makes_such_a_loss(folder):
    import h5py

    config = {**CONFIG, "ErrorFunction": "L2"}
    (folder / "config.json").write_text(json.dumps(config))
    with h5py.File("gl_output.nc", "r+") as file:
        file.attrs["attributes0"] = np.uint32(file.attrs["attributes0"] | 32)
    assert main([*FILES, "-n", "gl.dsstne", "-e", "1"]) == 0
    with dsstne.load("gl.dsstne") as model:
        assert model.network["loss"][0]["stored_only"]


# ---- the files of a network ----


def test_a_network_that_cannot_be_written_leaves_the_old_one_with_its_index(folder, monkeypatch, capsys):
    assert main([*FILES, "-n", "gl.nc", "-e", "1"]) == 0
    before = {name: (folder / name).read_bytes() for name in ("gl.nc", "gl.nc.features")}
    others = [f"other{n}" for n in range(30)]
    for name in ("gl_input", "gl_output"):
        dsstne.netcdf.write(f"{name}.nc", {name: X}, items={name: others}, rows=ROWS)

    def full(self, path):
        raise dsstne.InputOutputError(f"cannot save {path}: the disk is full", 28, path)

    monkeypatch.setattr(dsstne.Model, "save", full)
    assert main([*FILES, "-n", "gl.nc", "-e", "1", "--overwrite"]) == 1
    assert "cannot save gl.nc: the disk is full" in capsys.readouterr().err
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not list(folder.glob(".*"))


def test_the_index_of_a_network_goes_with_it(folder):
    assert main([*FILES, "-n", "gl.nc", "-e", "1"]) == 0
    for name in ("gl_input", "gl_output"):
        dsstne.netcdf.write(f"{name}.nc", {name: X})
    assert main([*FILES, "-n", "gl.nc", "-e", "1", "--overwrite"]) == 0
    assert not (folder / "gl.nc.features").exists()


def test_a_file_keeps_its_mode(folder):
    assert main([*FILES, "-n", "gl.nc", "-e", "1"]) == 0
    (folder / "gl.nc.features").chmod(0o640)
    assert main([*FILES, "-n", "gl.nc", "-e", "1", "--overwrite"]) == 0
    assert (folder / "gl.nc.features").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("flag", ["--metrics-file", "--checkpoint"])
def test_an_index_that_is_read_is_not_written_over(folder, capsys, flag):
    dsstne.write_index("samples", ROWS)
    before = (folder / "samples").read_bytes()
    assert main([*FILES, "-n", "gl.nc", "-e", "1", "--samples", "samples", flag, "samples"]) == 1
    assert f"{flag} and --samples name the same file, samples" in capsys.readouterr().err
    assert (folder / "samples").read_bytes() == before


def test_ctrl_c_waits_for_the_network_of_an_epoch(folder, monkeypatch):
    save = dsstne.Model.save

    def interrupted(self, path):
        if path == "gl.nc1.nc":
            signal.raise_signal(signal.SIGINT)
        save(self, path)

    monkeypatch.setattr(dsstne.Model, "save", interrupted)
    assert main([*FILES, "-n", "gl.nc", "-e", "3", "--checkpoint-interval", "1"]) == 130
    assert (folder / "gl.nc1.nc").exists()
    assert not (folder / "gl.nc").exists()
