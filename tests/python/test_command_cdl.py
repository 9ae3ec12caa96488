"""CDL files with mistakes: what is wrong is said, and nothing is written."""

import json
import os
import random
import re

import pytest
from cdl_files import CONFIG, X, trained, write_files

import dsstne
from dsstne._commands import cdl
from dsstne.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


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


@pytest.mark.long
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
        (["run.cdl", "again.cdl"], 2, "unexpected argument 'again.cdl': FILE.cdl is given already"),
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
    *("null", "true", "NaN", "-Infinity", "1e999", "9" * 5000, '"\\ud800"', "\ufeff", "\xe9", "\u212a", "[[", '{"a":'),
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
            values = [match.span(1) for match in re.finditer(rb": ([^,{}]*)", text)]
            at, behind = rng.choice(values) if values and rng.random() < 0.5 else (at, at)
            text = text[:at] + rng.choice(PIECES).encode() + text[behind:]
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
