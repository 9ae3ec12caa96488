"""train: DSSTNE's flags, files and defaults, on data files of all kinds."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse
from terminal import terminal

import dsstne
from dsstne._commands import train
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
    options = train._training(train.parse([*FILES[1:], "-n", "gl.nc", *arguments]))
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


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_training_with_a_checkpoint_and_no_network(folder, number, status):
    command = [sys.executable, "-m", "dsstne", *FILES, "-n", "gl.nc", "-e", "10000000", "--checkpoint", "run"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline().startswith("epoch 1/")
        time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert err.splitlines()[-1].startswith("dsstne train: ")
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
