"""What users of the commands see when something is wrong, and what a command costs to start."""

import json
import subprocess
import sys

import numpy as np
import pytest

import dsstne
from dsstne.cli import main

CONFIG = {
    "Layers": [
        {"Name": "Input", "N": "auto", "DataSet": "gl_input"},
        {"Name": "Hidden", "N": 4},
        {"Name": "Output", "N": "auto", "DataSet": "gl_output"},
    ]
}
ITEMS = ["a", "b", "c", "d"]
TEXT = "s0\ta\ns1\tb:c\ns2\td:a\n"
TRAIN = "train -c config.json -i gl_input.nc -o gl_output.nc -n new.nc -e 1"
PREDICT = "predict -n gl.dsstne -r T -s recs -i features -o features"
GENERATE = "generateNetCDF -d x -i T -o x.nc -f features -s samples"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    X = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]], np.float32)
    named = {"rows": ["s0", "s1", "s2"]}
    for name in ("gl_input", "gl_output"):
        dsstne.netcdf.write(folder / f"{name}.nc", {name: X}, items={name: ITEMS}, **named)
    dsstne.netcdf.write(folder / "two.nc", {"a": X, "b": X})
    dsstne.netcdf.write(folder / "short.nc", {"gl_output": X[:2]})
    dsstne.netcdf.write(folder / "others.nc", {"gl_output": X}, rows=["s0", "s2", "s1"])
    (folder / "T").write_text(TEXT)
    (folder / "features").write_text("".join(f"{item}\t{n}\n" for n, item in enumerate(ITEMS)))
    (folder / "swapped").write_text("b\t0\na\t1\nc\t2\nd\t3\n")
    (folder / "few").write_text("a\t0\nb\t1\n")
    (folder / "twice").write_text("a\t0\na\t1\n")
    (folder / "classic.nc").write_bytes(b"CDF\x01" + bytes(100))
    (folder / "broken.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (folder / "x.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n3 4 1\n1 1\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "cut.json").write_text(json.dumps(CONFIG)[:-9])
    unknown = {"Layers": [{**CONFIG["Layers"][0], "Kernal": 1}, *CONFIG["Layers"][1:]]}
    (folder / "unknown.json").write_text(json.dumps(unknown))
    wide = {"Layers": [*CONFIG["Layers"][:2], {**CONFIG["Layers"][2], "N": 7}]}
    (folder / "wide.json").write_text(json.dumps(wide))
    anonymous = {"Layers": [{"N": "auto"}, {"N": 4}, {"N": "auto"}]}
    (folder / "anonymous.json").write_text(json.dumps(anonymous))
    two = {"Layers": [CONFIG["Layers"][0], {"Name": "More", "Kind": "Input", "N": "auto"}, *CONFIG["Layers"][1:]]}
    two["Layers"][2] = {**two["Layers"][2], "Source": ["Input", "More"]}
    (folder / "two.json").write_text(json.dumps(two))
    (folder / "many").mkdir()
    dsstne.netcdf.write(
        folder / "turned.nc",
        {"gl_output": X, "gl_input": X},
        items=dict.fromkeys(("gl_output", "gl_input"), ITEMS[::-1]),
    )
    (folder / "new.nc1.nc").write_text("")
    (folder / "left.nc.checkpoint").write_text("")
    with dsstne.fit(X, network=folder / "config.json", items=ITEMS, epochs=1, progress=False) as model:
        model.attributes["netcdf"] = json.dumps({"datasets": {"Input": "gl_input", "Output": "gl_output"}})
        model.save(folder / "gl.dsstne")
        model.save(folder / "gl.nc")
        model.items = None
        model.save(folder / "nameless.dsstne")
    return folder


# A command line, its status, and a part of the message.
CASES = [
    # ---- the command line ----
    ("trian", 2, "invalid choice: 'trian'"),
    ("encodr", 2, "invalid choice: 'encodr'"),
    (f"{TRAIN} -alhpa 0.1", 2, "there is no flag -alhpa; did you mean -alpha?"),
    (f"{TRAIN} --optimiser adam", 2, "there is no flag --optimiser; did you mean --optimizer?"),
    (f"{TRAIN} -lambda2 1", 2, "there is no flag -lambda2; did you mean -lambda"),
    (f"{TRAIN} -b256", 2, "there is no flag -b256; did you mean -b 256?"),
    (f"{TRAIN} 256", 2, "unexpected argument '256': each value follows a flag"),
    (f"{TRAIN} -b", 2, "-b needs a value"),
    (f"{TRAIN} -b -alpha 0.1", 2, "-b needs a value, but -alpha follows"),
    (f"{TRAIN} -e 2", 2, "-e is given twice"),
    (f"{TRAIN} -b 0", 2, "argument -b: expected a whole number above 0, got '0'"),
    (f"{TRAIN} -b 10.5", 2, "argument -b: expected a whole number above 0, got '10.5'"),
    (f"{TRAIN} -alpha fast", 2, "argument -alpha: expected a number of at least 0, got 'fast'"),
    (f"{TRAIN} -alpha -1", 2, "argument -alpha: expected a number of at least 0, got '-1'"),
    (f"{TRAIN} -lambda nan", 2, "argument -lambda: expected a number of at least 0, got 'nan'"),
    (f"{TRAIN} --seed -1", 2, "argument --seed: expected a whole number of at least 0, got '-1'"),
    (f"{TRAIN} --memory-limit 5X", 2, "argument --memory-limit: expected bytes such as 500M or 16G, got '5X'"),
    (f"{TRAIN} --optimizer adma", 2, "got 'adma'; did you mean adam?"),
    (f"{TRAIN} --precision float64", 2, "expected auto or float32 or bfloat16 or tensorfloat32, got 'float64'"),
    (f"{TRAIN} --optimizer adagrad -mu 0.5", 2, "-mu: the optimizer adagrad has no parameter for it; leave it out"),
    (f"{TRAIN} --optimizer momentum -mu1 0.5", 2, "-mu1: the optimizer momentum has no parameter for it"),
    (f"{TRAIN} --metrics auc", 2, "--metrics needs --validation, the held-out items"),
    (f"{TRAIN} --validation-input T", 2, "--validation-input needs --validation, the held-out items"),
    (f"{TRAIN} --validation T --metrics auc,,map@3", 2, "expected names with commas between them, got 'auc,,map@3'"),
    (f"{TRAIN} --checkpoint-interval 0", 2, "argument --checkpoint-interval: expected a whole number above 0, got '0'"),
    (f"{TRAIN} --overwrite=yes", 2, "argument --overwrite: ignored explicit argument 'yes'"),
    (TRAIN.replace("new.nc", "new.net"), 2, "'new.net' must end with .nc or .dsstne"),
    ("train -c config.json", 2, "the following arguments are required: -i, -o, -n"),
    ("predict", 2, "the following arguments are required: -n, -r, -s"),
    (f"{PREDICT} -k 0", 2, "argument -k: expected a whole number above 0, got '0'"),
    (f"{PREDICT} -p %d", 2, "argument -p: expected one format of a number for printf, such as 4.3f, got '%d'"),
    (f"{PREDICT} -p 4.3f%s", 2, "argument -p: expected one format of a number"),
    (f"{PREDICT} -p 99999f", 2, "argument -p: expected one format of a number"),
    (f"{PREDICT} --filter-values", 2, "--filter-values needs -f, the filter"),
    (f"{GENERATE} -c -m", 2, "give one of them"),
    (f"{GENERATE} -c -t analogue", 2, "got 'analogue'; did you mean analog?"),
    # ---- files ----
    (TRAIN.replace("config", "none"), 1, "'none.json': no such file"),
    (TRAIN.replace("gl_input.nc", "none.nc"), 1, "none.nc: no such file"),
    (TRAIN.replace("gl_input.nc", "classic.nc"), 1, "convert it with `nccopy -k nc4 classic.nc new.nc`"),
    (TRAIN.replace("gl_input.nc", "broken.nc"), 1, "broken.nc: this is not a complete NetCDF-4 file"),
    (TRAIN.replace("gl_input.nc", "many"), 1, "many"),
    (TRAIN.replace("gl_input.nc", "gl.nc"), 1, "gl.nc: the attribute datasets is missing"),
    (TRAIN.replace("new.nc", "gl.nc"), 1, "gl.nc exists already; give -n another name, or --overwrite to replace it"),
    (TRAIN.replace("new.nc", "none/new.nc"), 1, "-n: none/new.nc: there is no folder"),
    (TRAIN.replace("new.nc", "gl_input.nc"), 1, "-n and -i name the same file, gl_input.nc; give two files"),
    (f"{TRAIN} --checkpoint many", 1, "--checkpoint: many is a folder"),
    (f"{TRAIN} --metrics-file none/log", 1, "--metrics-file: none/log: there is no folder"),
    (f"{TRAIN} --metrics-file new.nc", 1, "-n and --metrics-file name the same file, new.nc"),
    (f"{TRAIN} --validation none.nc", 1, "none.nc: no such file"),
    (f"{TRAIN} --validation gl_output.nc --metrics recal@2", 1, "recal"),
    (f"{TRAIN} --validation short.nc", 1, "-i: gl_input.nc has 3 samples, and --validation: short.nc has 2"),
    (f"{TRAIN} --validation others.nc", 1, "sample 1 is 's1' in -i: gl_input.nc and 's2' in --validation: others.nc"),
    (f"{TRAIN} --validation turned.nc", 1, "--validation: turned.nc has other features than -o: gl_output.nc, or in"),
    (
        f"{TRAIN} --validation gl_output.nc --validation-input turned.nc -d gl",
        1,
        "--validation-input: turned.nc has other features than -i: gl_input.nc, or in another order",
    ),
    (
        f"{TRAIN.replace('gl_output', 'two')} -d a --validation T",
        1,
        "--validation: T is a text, and -o: two.nc has no names of features to read it by",
    ),
    (f"{TRAIN} --checkpoint-interval 1", 1, "new.nc1.nc exists already; --overwrite replaces the networks of epochs"),
    (
        f"{TRAIN.replace('gl_input', 'new.nc1')} --checkpoint-interval 1 --overwrite",
        1,
        "-i: new.nc1.nc is the name of the network of an epoch; give another name",
    ),
    (
        TRAIN.replace("new.nc", "left.nc"),
        1,
        "left.nc.checkpoint has the state of a run that was interrupted; --resume goes on with it, --overwrite starts",
    ),
    (f"{TRAIN} --features new.nc", 1, "-n and --features name the same file, new.nc"),
    (f"{TRAIN} --features none/f", 1, "--features: none/f: there is no folder"),
    (TRAIN.replace("gl_input.nc", "two.nc") + " -d a --samples s", 1, "s: no such index, and two.nc has no names"),
    (f"{PREDICT} --filter-values -f /dev/null", 1, "/dev/null: it is not a regular file"),
    (f"{TRAIN} --devices cuda:77", 1, "cuda:77"),
    (f"{TRAIN} --devices gpu", 1, "gpu"),
    (f"{TRAIN} --memory-limit 1K", 1, "memory_limit"),
    (f"{PREDICT} -f none", 1, "none: no such file"),
    (
        TRAIN.replace("gl_input.nc", "x.mtx"),
        1,
        "-i: x.mtx is a Matrix Market file; `dsstne convert x.mtx NEW.arrow` makes a data file of it",
    ),
    (PREDICT.replace("-r T", "-r gl.dsstne"), 1, "-r: gl.dsstne is a network"),
    (GENERATE.replace("-i T", "-i x.mtx") + " -c", 1, "-i: x.mtx is a data file already; expected text"),
    (PREDICT.replace("gl.dsstne", "none"), 1, "none: no such file"),
    (PREDICT.replace("gl.dsstne", "gl_input.nc"), 1, "gl_input.nc: this is not a network file of DSSTNE"),
    (PREDICT.replace("-i features", "-i twice"), 1, "twice, line 2"),
    (PREDICT.replace("recs", "many"), 1, "-s: many is a folder; give the name of a file"),
    (PREDICT.replace("recs", "T"), 1, "-s and -r name the same file, T; give two files"),
    # ---- networks and data that do not fit ----
    (TRAIN.replace("config", "cut"), 1, "JSON"),
    (TRAIN.replace("config", "unknown"), 1, "Kernal"),
    (TRAIN.replace("config", "wide"), 1, 'the layer "Output" has size 7 in the network'),
    (TRAIN.replace("config", "two"), 1, "the layer 'More' does not say which it takes; DataSet of the layer names it"),
    (
        TRAIN.replace("config", "two").replace("gl_input.nc", "T"),
        1,
        "T holds one matrix, and the network takes one for",
    ),
    (
        TRAIN.replace("gl_input.nc", "two.nc"),
        1,
        "-i: two.nc has the data sets 'a', 'b', and the layer 'Input' takes 'gl_input'; -d names the one to use",
    ),
    (
        TRAIN.replace("config", "anonymous").replace("gl_input.nc", "two.nc"),
        1,
        "and the layer 'Input0' does not say which it takes; -d names the one to use",
    ),
    (f"{TRAIN} -d z", 1, "-d: neither gl_input.nc nor gl_output.nc has a data set 'z'"),
    (
        TRAIN.replace("gl_output.nc", "short.nc"),
        1,
        "-i: gl_input.nc has 3 samples, and -o: short.nc has 2; -o: short.nc has neither names nor a digest of them",
    ),
    (
        TRAIN.replace("gl_output.nc", "others.nc"),
        1,
        "sample 1 is 's1' in -i: gl_input.nc and 's2' in -o: others.nc",
    ),
    (f"{PREDICT} -k 5", 1, "-k is 5, and the layer 'Output' has 4 items"),
    (f"{PREDICT} -l Hiden", 1, "-l: gl.dsstne has no layer 'Hiden' that it computes; did you mean 'Hidden'?"),
    (f"{PREDICT} -l Input", 1, "-l: gl.dsstne has no layer 'Input' that it computes"),
    (f"{PREDICT} -l Hidden -f T", 1, "-f: a filter lists items, and the layer 'Hidden' is not an output"),
    (f"{PREDICT} -l Hidden -k 5", 1, "-k is 5, and the layer 'Hidden' has 4 units"),
    (
        PREDICT.replace("gl.dsstne", "gl.nc") + " -d x",
        1,
        "-d: the layer 'Input' of gl.nc takes the data set 'gl_input', and not x_input",
    ),
    (PREDICT.replace("-i features", "-i few"), 1, "-i: few has 2 features, and the layer 'Input' of gl.dsstne has 4"),
    (PREDICT.replace("-o features", "-o few"), 1, "-o: few has 2 features, and the layer 'Output' of gl.dsstne has 4"),
    (PREDICT.replace("-o features", "-o swapped"), 1, "feature 0 is 'b' in -o: swapped and 'a' in the layer 'Output'"),
    (PREDICT.replace(" -i features", ""), 1, "-i is missing: T is a text, which needs the index of the features"),
    (
        PREDICT.replace("gl.dsstne", "nameless.dsstne").replace(" -o features", ""),
        1,
        "-o: nameless.dsstne has no names for the layer 'Output'; give the features' index",
    ),
    (f"{PREDICT} -t analog --malformed error", 1, "T, line 1, column 4"),
    (f"{PREDICT} -f short.nc", 1, "-f: short.nc has 2 samples, and -r: T has 3; -f: short.nc has neither names"),
]


@pytest.mark.parametrize(("line", "status", "message"), CASES, ids=[case[0] for case in CASES])
def test_what_is_wrong_is_said_and_nothing_is_written(files, monkeypatch, capsys, line, status, message):
    monkeypatch.chdir(files)
    before = {path.name: path.stat().st_mtime_ns for path in files.iterdir()}
    try:
        returned = main(line.split())
    except SystemExit as error:
        returned = error.code
    err = capsys.readouterr().err
    assert returned == status, err
    assert message in err
    assert "Traceback" not in err
    assert {path.name: path.stat().st_mtime_ns for path in files.iterdir()} == before


@pytest.mark.parametrize("command", ["", "train", "predict", "generateNetCDF", "encoder", "convert"])
def test_help_is_shown_with_status_0(capsys, command):
    with pytest.raises(SystemExit) as error:
        main([*command.split(), "-h"])
    assert error.value.code == 0
    assert f"usage: dsstne {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["train", "-h"], ["predict", "-k"], ["encoder"], ["generateNetCDF", "-zz"], ["convert", "a"], ["-h"]],
)
def test_a_command_line_is_read_without_large_modules(arguments):
    code = (
        "import sys\nfrom dsstne.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('loaded', {'numpy', 'scipy', 'h5py', 'dsstne._native', 'tqdm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "loaded set()"


def test_each_command_needs_the_packages_of_netcdf_only_for_netcdf(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(files)
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    assert main([*GENERATE.replace("x.nc", f"{tmp_path}/x.nc").split(), "-c"]) == 1
    assert "pip install dsstne[netcdf]" in capsys.readouterr().err
    assert main(TRAIN.split()) == 1
    assert "pip install dsstne[netcdf]" in capsys.readouterr().err
    command = f"train -c config.json -i T -o T -n {tmp_path}/new.dsstne -e 1"
    assert main(command.split()) == 0


def test_a_write_that_fails_is_an_error(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert main(PREDICT.replace("recs", "/dev/full").split()) == 1
    assert "cannot write /dev/full: No space left on device" in capsys.readouterr().err


def test_a_mistake_of_the_program_shows_where(monkeypatch, files):
    monkeypatch.chdir(files)
    monkeypatch.setattr("dsstne._commands.predict._samples", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(PREDICT.split())
