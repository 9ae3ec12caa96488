"""encoder: what CDL files of DSSTNE say is done, and what is wrong with them is said."""

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cdl_files import CONFIG, TRAIN, X, Y, trained, write_files

import dsstne
from dsstne.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


def run(said, *flags):
    with open("run.cdl", "w") as file:
        json.dump(said, file)
    return main(["encoder", "run.cdl", *flags])


def weights(path):
    with dsstne.load(path) as model:
        return {name: model.tensor(name) for name in model.tensors}


def same(left, right):
    return all(np.array_equal(left[name], right[name]) for name in left)


def fitted(**options):
    """The weights of fit(), by default as DSSTNE's defaults are."""
    given = {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 0.001, "epochs": 3, "batch_size": 1024}
    with dsstne.fit(
        {"Input": X}, {"Output": Y}, network="config.json", seed=12134, progress=False, **{**given, **options}
    ) as model:
        return {name: model.tensor(name) for name in model.tensors}


NESTEROV = {"kind": "nesterov", "momentum": 0.5}


@pytest.mark.parametrize(
    ("training", "options"),
    [
        ({}, {}),
        ({"Alpha": 0.5, "Lambda": 0, "MiniBatch": 7}, {"learning_rate": 0.5, "weight_decay": 0, "batch_size": 7}),
        ({"MiniBatch": 0}, {"batch_size": 60}),
        ({"Epochs": 5.0, "Mu": 0.5}, {"epochs": 5}),
        ({"Optimizer": "Nesterov", "mu": 0.5}, {"optimizer": NESTEROV}),
        ({"Optimizer": "nesterov"}, {"optimizer": {"kind": "nesterov", "momentum": 0.9}}),
        ({"Optimizer": "ADAM", "Mu": 0.8}, {"optimizer": {"kind": "adam", "beta1": 0.8}, "learning_rate": "auto"}),
        (
            {"Epochs": 7, "AlphaInterval": 2, "AlphaMultiplier": 0.25},
            {"epochs": 7, "schedule": {"kind": "step", "epochs": 2, "factor": 0.25}},
        ),
        ({"Epochs": 4, "AlphaInterval": 1}, {"epochs": 4, "schedule": {"kind": "step", "epochs": 1, "factor": 0.5}}),
        ({"AlphaMultiplier": 0.25}, {}),  # without an interval, the rate is constant
    ],
)
def test_it_trains_as_the_file_says(training, options):
    assert run(trained(**training)) == 0
    assert same(fitted(**options), weights("network.nc"))


def test_the_other_keys_of_a_training(folder):
    (folder / "results").mkdir()
    said = {**trained(Results="results/net.dsstne"), "RandomSeed": 7, "Version": 0.2, "PredictionParameters": {}}
    assert run(said) == 0
    with dsstne.fit(
        {"Input": X},
        {"Output": Y},
        network="config.json",
        optimizer="sgd",
        learning_rate=0.1,
        weight_decay=0.001,
        epochs=3,
        seed=7,
        progress=False,
    ) as model:
        assert np.array_equal(model.tensor("Output.weight"), weights("results/net.dsstne")["Output.weight"])
    assert run({**trained(), "RandomSeed": -1}) == 0
    assert same(fitted(), weights("network.nc"))


def test_shuffle_indices_of_the_cdl_file_takes_the_place_of_that_of_the_network(folder):
    options = {"MiniBatch": 16}
    assert run(trained(**options, Results="a.nc", ShuffleIndices=True)) == 0
    (folder / "config.json").write_text(json.dumps({**CONFIG, "ShuffleIndices": True}))
    assert same(fitted(batch_size=16), weights("a.nc"))
    assert run(trained(**options, Results="b.nc", ShuffleIndices=False)) == 0
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert same(fitted(batch_size=16), weights("b.nc"))
    assert not same(weights("a.nc"), weights("b.nc"))


@pytest.mark.long
def test_a_sample_of_dsstne_as_it_is(folder):
    (folder / "train.cdl").write_text(
        """{
        "Version" : 0.2, "Network" : "config.json", "Command" : "Train", "RandomSeed" : 12134,
        "TrainingParameters" : {
            "Optimizer" : "Nesterov", "Epochs" : 60, "Alpha" : 0.025, "AlphaInterval" : 20, "AlphaMultiplier" : 0.8,
            "mu": 0.5, "lambda" : 0.0001, "Checkpointname" : "checkpoint/check", "Results" : "network.nc"
        },
        "Data" : "data.nc"
        }"""
    )
    (folder / "checkpoint").mkdir()
    assert main(["encoder", "train.cdl"]) == 0
    options = {"learning_rate": 0.025, "weight_decay": 0.0001, "epochs": 60, "optimizer": NESTEROV}
    assert same(fitted(**options, schedule={"kind": "step", "epochs": 20, "factor": 0.8}), weights("network.nc"))
    assert len(list((folder / "checkpoint").iterdir())) == 60
    assert same(weights("checkpoint/check60.nc"), weights("network.nc"))


def test_networks_of_epochs_have_the_name_of_the_file(folder):
    assert run({**TRAIN, "TrainingParameters": {"Epochs": 3}}) == 0
    assert sorted(path.name for path in folder.glob("check*")) == ["check1.nc", "check2.nc", "check3.nc"]
    assert run(trained(CheckpointInterval=2, CheckpointName="x", Results="y.nc")) == 0
    assert [path.name for path in folder.glob("x*")] == ["x2.nc"]
    assert same(weights("x2.nc"), fitted(epochs=2))


def test_the_data_may_be_a_text(folder):
    (folder / "T").write_text("".join(f"row{n}\t{':'.join(map(str, X[[n]].indices))}\n" for n in range(60)))
    assert run({**trained(), "Data": "T"}) == 0
    assert len(dsstne.read_index("network.nc.features")) == 30
    assert weights("network.nc")["Output.weight"].shape == (30, 8)


def test_inputs_and_outputs_may_be_in_two_files():
    assert run({**trained(), "Data": ["in.nc", "out.nc"]}) == 0
    assert same(fitted(), weights("network.nc"))


def test_a_dry_run_writes_nothing(folder, capsys):
    assert run(trained(Results="a.nc")) == 0
    before = sorted(path.name for path in folder.iterdir())
    capsys.readouterr()
    said = {"train": trained(), "predict": {"Network": "a.nc"}, "validate": {}}
    for command, more in said.items():
        assert run({**TRAIN, **more, "Command": command}, "--dry-run") == 0
        out, err = capsys.readouterr()
        assert ("Output.weight" in out) == (command == "train")
        assert err.startswith("nothing was ")
    assert sorted(path.name for path in folder.iterdir()) == before


# ---- predict ----


def oracle(scores, targets, k):
    """Precision, recall and NDCG at k, row by row, of rows with targets."""
    values = []
    for row, wanted in zip(scores, targets, strict=True):
        if wanted.any():
            hit = wanted[np.argsort(-row, kind="stable")[:k]] > 0
            discount = 1 / np.log2(np.arange(2, k + 2))
            best = discount[: int(min(k, wanted.sum()))].sum()
            values.append([hit.mean(), hit.sum() / wanted.sum(), (hit * discount).sum() / best])
    return np.mean(values, axis=0)


@pytest.mark.parametrize("ending", [".nc", ".dsstne"])
@pytest.mark.parametrize("data", ["data.nc", ["in.nc", "out.nc"]])
def test_predict_prints_the_metrics_of_ten_lengths(ending, data, capsys):
    assert run(trained(Alpha=1, Epochs=20, Results=f"net{ending}")) == 0
    with dsstne.load(f"net{ending}") as model:
        scores = model.predict(X)
    capsys.readouterr()
    said = {"Command": "Predict", "Network": f"net{ending}", "Data": data, "PredictionParameters": {"MiniBatch": 7}}
    assert run(said) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["k", "precision", "recall", "ndcg"]
    for k, line in enumerate(lines[1:], 1):
        got = [float(value) for value in line.split()]
        assert got[0] == k
        assert got[1:] == pytest.approx(oracle(scores, Y.toarray(), k), abs=6e-5)
    assert len(lines) == 11


def test_predict_leaves_out_the_units_that_fill_up_the_layers_of_dsstne(capsys):
    assert run(trained(Alpha=1, Epochs=20)) == 0
    with dsstne.load("network.nc", sizes={"Input": 128, "Output": 128}) as model:
        bias = model.tensor("Output.bias")
        bias[30:] = 100  # they would be the first of all lists
        model.set_tensor("Output.bias", bias)
        model.save("filled.dsstne")
    printed = []
    for network in ("network.nc", "filled.dsstne"):
        capsys.readouterr()
        assert run({**TRAIN, "Command": "predict", "Network": network}) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


def test_predict_takes_the_data_sets_of_the_layers_if_they_have_other_names(folder, capsys):
    config = json.dumps(CONFIG).replace('"input"', '"gl_input"').replace('"output"', '"gl_output"')
    (folder / "config.json").write_text(config)
    dsstne.netcdf.write("gl.nc", {"gl_output": Y, "gl_input": X})
    assert run({**trained(), "Data": "gl.nc"}) == 0
    printed = []
    for data in ("gl.nc", "data.nc"):
        capsys.readouterr()
        assert run({"Command": "predict", "Network": "network.nc", "Data": data}) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


# ---- validate ----


@pytest.mark.long
def test_validate_compares_gradients(capsys):
    assert run({**TRAIN, "Command": "Validate"}) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("60 rows, loss ")
    assert "Hidden.weight" in out
    assert run(trained(Results="a.nc")) == 0
    capsys.readouterr()
    assert run({**TRAIN, "Command": "validate", "Network": "a.nc"}) == 0
    assert "Output.bias" in capsys.readouterr().out
    with dsstne.popularity(X) as model:
        model.save("popular.dsstne")
    assert run({**TRAIN, "Command": "validate", "Network": "popular.dsstne"}) == 1
    assert "popular.dsstne is not a network of layers; it has no gradients" in capsys.readouterr().err


def test_validate_says_what_a_text_has_malformed(folder, capsys):
    (folder / "T").write_text("s0\ta:b\nno tab\ns1\tb\n")
    assert run({**TRAIN, "Command": "validate", "Data": "T"}) == 0
    assert "T: skipped 1 malformed line: 1 with no TAB" in capsys.readouterr().err


def test_validate_ends_with_status_1_if_gradients_disagree(monkeypatch, capsys):
    check = dsstne.Model.check_gradients

    def wrong(*arguments, **options):
        found = check(*arguments, **options)
        return type(found)({**found, "agrees": False, "disagreeing": ["Hidden.bias"]})

    monkeypatch.setattr(dsstne.Model, "check_gradients", wrong)
    assert run({**TRAIN, "Command": "validate"}) == 1
    out, err = capsys.readouterr()
    assert "Hidden.weight" in out
    assert "error: the gradients of Hidden.bias do not agree with the differences of the loss" in err


# ---- interruptions ----


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_training_that_a_signal_ends_goes_on_with_the_command_that_it_prints(number, status):
    said = trained(Epochs=2000, MiniBatch=16, Results="net.nc", AlphaInterval=500)
    with open("run.cdl", "w") as file:
        json.dump(said, file)
    command = [sys.executable, "-m", "dsstne", "encoder", "run.cdl", "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline().startswith("epoch 1/")
        time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == status
    again = err.splitlines()[-1]
    assert again == "dsstne encoder run.cdl --threads 1 --resume"
    assert "net.nc.checkpoint has the state of the run" in err.splitlines()[-2]
    assert not os.path.exists("net.nc")
    assert main(shlex.split(again)[1:]) == 0
    assert not os.path.exists("net.nc.checkpoint")
    assert run(trained(Epochs=2000, MiniBatch=16, Results="at_once.nc", AlphaInterval=500)) == 0
    assert same(weights("net.nc"), weights("at_once.nc"))


def test_the_metrics_of_predict_are_a_table_that_other_programs_read(capsys):
    assert run(trained()) == 0
    capsys.readouterr()
    assert run({**TRAIN, "Command": "predict", "Network": "network.nc"}) == 0
    table = list(csv.reader(io.StringIO(capsys.readouterr().out), delimiter=" ", skipinitialspace=True))
    assert [row[0] for row in table[1:]] == [str(k) for k in range(1, 11)]
    assert {len(row) for row in table} == {4}
