"""encoder: what CDL files of DSSTNE say is done, and what is wrong with them is said."""

import csv
import io
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne._commands import cdl
from dsstne.cli import main

X = scipy.sparse.random_array((60, 30), density=0.2, format="csr", rng=0, dtype=np.float32)
X.data[:] = 1
Y = scipy.sparse.random_array((60, 30), density=0.2, format="csr", rng=1, dtype=np.float32)
Y.data[:] = 1
CONFIG = {
    "ShuffleIndices": False,
    "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "input", "Sparse": True},
        {"Name": "Hidden", "N": 8, "Activation": "Sigmoid"},
        {"Name": "Output", "N": "auto", "DataSet": "output", "Activation": "Sigmoid"},
    ],
}
TRAINING = {"Epochs": 3, "CheckpointInterval": 0}
TRAIN = {"Command": "train", "Network": "config.json", "Data": "data.nc", "TrainingParameters": TRAINING}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    dsstne.netcdf.write("data.nc", {"input": X, "output": Y})
    dsstne.netcdf.write("in.nc", {"input": X})
    dsstne.netcdf.write("out.nc", {"output": Y})
    return tmp_path


def run(said, *flags):
    with open("run.cdl", "w") as file:
        json.dump(said, file)
    return main(["encoder", "run.cdl", *flags])


def trained(**more):
    """What train says, with other training parameters."""
    return {**TRAIN, "TrainingParameters": {**TRAINING, **more}}


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


# ---- what is wrong ----

BASE = '{"Command": "train", "Network": "config.json", "Data": "data.nc", "TrainingParameters": {"Epochs": 1}}'


def changed(**more):
    return json.dumps({**trained(), **more})


# A text, and the message after "dsstne encoder: error: ".
BAD = {
    "cut": (BASE[:-9], "run.cdl: line 1, column 90: Unterminated string starting at"),
    "empty": ("", "run.cdl: line 1, column 1: Expecting value"),
    "comment": ('{"Command": "train", // now\n}', "run.cdl: line 1, column 22: comments are not JSON; remove them"),
    "binary": (b"\x89HDF\r\n\x1a\n", "run.cdl: byte 0 is not UTF-8; expected a CDL file, which is JSON"),
    "large": (" " * (1 << 20) + "{}", "run.cdl: the file has more than 1,048,576 bytes; expected a CDL file"),
    "deep": ("[" * 100000, "run.cdl: too many lists or objects are inside each other"),
    "list": ('["train"]', "run.cdl: expected an object with the key Command, got a list"),
    "nan": (BASE.replace("1}", "NaN}"), "run.cdl: NaN is not a number of JSON"),
    "twice": (BASE.replace('"Data"', '"NETWORK": "a", "Data"'), "run.cdl: Network is given twice"),
    "no command": (BASE.replace('"Command": "train",', ""), "run.cdl: Command is missing; it is train, predict or v"),
    "no network": (BASE.replace('"Network": "config.json",', ""), "run.cdl: Network is missing; it is the path of a n"),
    "no data": (BASE.replace('"Data": "data.nc",', ""), "run.cdl: Data is missing; it is the path of the data file"),
    "null": (BASE.replace('"data.nc"', "null"), "run.cdl: Data is missing; it is the path of the data file"),
    "no epochs": (BASE.replace('"Epochs": 1', ""), "run.cdl: TrainingParameters.Epochs is missing; it is the number"),
    "unknown": (BASE.replace('"Data"', '"Dat": 1, "Data"'), 'there is no key "Dat"; did you mean Data?'),
    "unknown case": (BASE.replace("Epochs", "EPOCSH"), '"TrainingParameters.EPOCSH"; did you mean Epochs?'),
    "unknown far": (BASE.replace('"Data"', '"q": 1, "Data"'), 'there is no key "q"; the known ones are Version, Net'),
    "place": (BASE.replace('"Data"', '"Alpha": 1, "Data"'), 'there is no key "Alpha"; it belongs into TrainingParam'),
    "place 2": (changed(TrainingParameters={"Data": "x"}), '"TrainingParameters.Data"; it belongs outside of Training'),
    "word": (
        changed(Command="tarin"),
        'Command is "tarin"; it must be one of train, predict, validate; did you mean t',
    ),
    "command type": (changed(Command=1), "Command is 1; it must be one of train, predict, validate"),
    "epochs type": (
        changed(TrainingParameters={"Epochs": "3"}),
        'TrainingParameters.Epochs is "3"; it must be a whole',
    ),
    "epochs 0": (
        changed(TrainingParameters={"Epochs": 0}),
        "TrainingParameters.Epochs is 0; it must be a whole number",
    ),
    "epochs part": (changed(TrainingParameters={"Epochs": 1.5}), "Epochs is 1.5; it must be a whole number above 0"),
    "epochs bool": (changed(TrainingParameters={"Epochs": True}), "Epochs is true; it must be a whole number above 0"),
    "epochs huge": (BASE.replace("1}", "1" * 5000 + "}"), "TrainingParameters.Epochs is Infinity; it must be a whole"),
    "alpha": (
        changed(TrainingParameters={"Epochs": 1, "Alpha": 0}),
        "TrainingParameters.Alpha is 0; it must be a numb",
    ),
    "alpha huge": (BASE.replace("1}", '1, "Alpha": 1e999}'), "TrainingParameters.Alpha is Infinity; it must be a num"),
    "mu": (
        changed(TrainingParameters={"Epochs": 1, "Mu": 1}),
        "TrainingParameters.Mu is 1; it must be a number from 0",
    ),
    "lambda": (
        changed(TrainingParameters={"Epochs": 1, "Lambda": -1}),
        "TrainingParameters.Lambda is -1; it must be a",
    ),
    "optimizer": (changed(TrainingParameters={"Epochs": 1, "Optimizer": "sdg"}), 'Optimizer is "sdg"; it must be one'),
    "shuffle": (
        changed(TrainingParameters={"Epochs": 1, "ShuffleIndices": 1}),
        "ShuffleIndices is 1; it must be true or",
    ),
    "results": (
        changed(TrainingParameters={"Epochs": 1, "Results": "x"}),
        'Results is "x"; it must be a path that ends w',
    ),
    "parameters": (changed(TrainingParameters=[1]), "TrainingParameters is a list; it must be an object"),
    "network type": (changed(Network={}), "Network is an object; it must be the path of a file"),
    "network NUL": (changed(Network="a\0b"), 'Network is "a\\u0000b"; it must be the path of a file'),
    "network surrogate": (changed(Network="\ud800"), 'Network is "\\ud800"; it must be the path of a file'),
    "data number": (changed(Data=["a", 1]), "Data[1] is 1; it must be the path of a file"),
    "data many": (changed(Data=["a", "b", "c"]), "Data has 3 files; it must be one data file, or two"),
    "seed": (changed(RandomSeed=-2), "RandomSeed is -2; it must be a whole number of at least -1"),
    "version": (changed(Version="1"), 'Version is "1"; it must be a number'),
    "adagrad": (
        changed(TrainingParameters={"Epochs": 1, "Optimizer": "adagrad", "Mu": 0.5}),
        "run.cdl: TrainingParameters.Mu: the optimizer adagrad has no parameter for it; remove it",
    ),
    "no file": (changed(Network="none.json"), "Network: none.json: no such file"),
    "folder": (changed(Network="."), "Network: .: Is a directory"),
    "no data file": (changed(Data="none.nc"), "none.nc: no such file"),
    "network for train": (
        changed(Network="data.nc"),
        "Network: data.nc is not JSON; Command train takes a network def",
    ),
    "definition for predict": (
        changed(Command="predict"),
        "Network: config.json is a definition; Command predict takes a trained network",
    ),
    "decay": (
        changed(Network="decay.json", TrainingParameters={"Epochs": 1, "AlphaInterval": 2}),
        "TrainingParameters.AlphaInterval: decay.json has Decay, which changes the learning rate, too; remove one",
    ),
    "data set": (changed(Data="other.nc"), "Data: other.nc has the data sets 'a', 'b', and the layer 'Input' takes 'i"),
    "rows": (changed(Data=["in.nc", "short.nc"]), "Data[0]: in.nc has 60 samples, and Data[1]: short.nc has 3"),
    "results exist": (
        changed(TrainingParameters={"Epochs": 1, "Results": "old.nc"}),
        "old.nc exists already; give TrainingParameters.Results another name, or --overwrite to replace it",
    ),
    "networks exist": (
        changed(TrainingParameters={"Epochs": 1, "CheckpointName": "old"}),
        "old1.nc exists already; --overwrite replaces the networks of epochs",
    ),
    "results folder": (
        changed(TrainingParameters={"Epochs": 1, "Results": "none/x.nc"}),
        "TrainingParameters.Results: none/x.nc: there is no folder",
    ),
    "results are data": (
        changed(TrainingParameters={"Epochs": 1, "Results": "data.nc"}),
        "TrainingParameters.Results and Data name the same file, data.nc; give two files",
    ),
    "predict width": (
        changed(Command="predict", Network="wide.dsstne"),
        "Data: data.nc has 30 features, and the layer 'Input' of wide.dsstne has 31",
    ),
    "predict text": (
        changed(Command="predict", Network="wide.dsstne", Data="T"),
        "Data: T is a text, whose features have no numbers; make a NetCDF file of it",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_and_nothing_is_written(folder, capsys, text, message):
    (folder / "run.cdl").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "decay.json").write_text(json.dumps({**CONFIG, "Decay": 0.1}))
    dsstne.netcdf.write("other.nc", {"a": X, "b": X})
    dsstne.netcdf.write("short.nc", {"output": X[:3]})
    for name in ("old.nc", "old1.nc"):
        (folder / name).write_text("")
    (folder / "T").write_text("a\tb\n")
    layers = [{"name": "Input", "kind": "input", "size": 31}, {"name": "Output", "kind": "output", "size": 31}]
    with dsstne.Model({"layers": layers}) as model:
        model.save("wide.dsstne")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert main(["encoder", "run.cdl"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("dsstne encoder: error: ")
    assert message in err
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "FILE.cdl is missing. DSSTNE's encoder then evaluates network.nc on"),
        (["run.cdl", "again.cdl"], 2, "unexpected argument 'again.cdl': there is one value without a flag"),
        (["run.cdl", "-e", "3"], 2, "there is no flag -e; the known ones are"),
        (["run.cdl", "--overwite"], 2, "there is no flag --overwite; did you mean --overwrite?"),
        (["none.cdl"], 1, "none.cdl: no such file"),
        (["."], 1, ".: Is a directory"),
        (
            ["predict.cdl", "--precision", "bfloat16"],
            1,
            "--precision: Command is predict, and the flag is one of train",
        ),
        (["predict.cdl", "--resume"], 1, "--resume: Command is predict, and the flag is one of train; leave it out"),
        (["run.cdl", "--devices", "gpu"], 1, "gpu"),
    ],
)
def test_mistakes_of_the_command_line(folder, capsys, arguments, status, message):
    (folder / "run.cdl").write_text(changed())
    (folder / "predict.cdl").write_text(changed(Command="predict"))
    try:
        returned = main(["encoder", *arguments])
    except SystemExit as error:
        returned = error.code
    assert returned == status
    assert message in capsys.readouterr().err


# ---- damaged files ----

PIECES = [
    *'{}[]",:\\0-1.eE+ \n\t/*\0',
    *("null", "true", "NaN", "-Infinity", "1e999", "9" * 400, '"\\ud800"', "\ufeff", "\xe9", "\u212a", "[[", '{"a":'),
    *('"Epochs"', '"epochs": 2,', '"Data": ["a", "b"],', '"MiniBatch": 0,', '"Command"', '"PredictionParameters": {},'),
]


def damaged(text, rng):
    """Returns a text after some cuts, insertions, repetitions and flipped bits."""
    for _ in range(rng.randint(1, 4)):
        at, end = sorted(rng.randint(0, len(text)) for _ in range(2))
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[min(end, at + 8) :]
        elif kind == 1:
            text = text[:at] + rng.choice(PIECES).encode() + text[at:]
        elif kind == 2:
            text = text[:end] + text[at:end] + text[end:]
        elif kind == 3 and text:
            place = min(at, len(text) - 1)
            text = text[:place] + bytes([text[place] ^ 1 << rng.randrange(8)]) + text[place + 1 :]
        else:
            text = text.replace(*(rng.choice([b'"', b"1", b":", b"a", b"T", b"{", b"}", b","]) for _ in range(2)), 1)
    return text


def test_damaged_files_are_read_or_refused_with_an_error_of_the_package():
    whole = json.dumps(
        {
            "Version": 0.2,
            **trained(
                Alpha=0.1,
                AlphaInterval=2,
                Mu=0.5,
                Optimizer="Nesterov",
                ShuffleIndices=True,
                Results="a.nc",
                MiniBatch=9,
            ),
            "RandomSeed": 1,
            "PredictionParameters": {"MiniBatch": 3},
        }
    ).encode()
    rng = random.Random(20)
    refused, keys = 0, set()
    for _ in range(10000):
        text = damaged(whole, rng)
        try:
            said = cdl.parse(text, "x.cdl")
        except dsstne.InvalidArgumentError as error:
            assert str(error).startswith("x.cdl: ")  # noqa: PT017
            assert len(str(error)) < 1000  # noqa: PT017
            refused += 1
            keys.add(str(error).split()[1])
        else:
            assert said.command in ("train", "predict", "validate")
            assert all(os.fsencode(path) for path in [said.network, *said.data, said.training["Results"]])
            assert isinstance(said.training["AlphaInterval"], int)
    assert 5000 < refused < 10000  # the others are still CDL
    assert len(keys) > 10


def test_the_metrics_of_predict_are_a_table_that_other_programs_read(capsys):
    assert run(trained()) == 0
    capsys.readouterr()
    assert run({**TRAIN, "Command": "predict", "Network": "network.nc"}) == 0
    table = list(csv.reader(io.StringIO(capsys.readouterr().out), delimiter=" ", skipinitialspace=True))
    assert [row[0] for row in table[1:]] == [str(k) for k in range(1, 11)]
    assert {len(row) for row in table} == {4}
