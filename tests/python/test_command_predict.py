"""predict: the lines of DSSTNE's tool, and its walk-through from text to recommendations."""

import json

import h5py
import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne.cli import main
from dsstne.datasets import load_debian

ITEMS = [f"i{n}" for n in range(20)]
ROWS = [f"s{n}" for n in range(50)]
X = scipy.sparse.random_array((50, 20), density=0.2, format="csr", rng=3, dtype=np.float32)
X.data[:] = 1
CONFIG = {
    "Version": 0.7,
    "Name": "AE",
    "Kind": "FeedForward",
    "ShuffleIndices": False,
    "SparsenessPenalty": {"p": 0.5, "beta": 2.0},
    "Denoising": {"p": 0.2},
    "ScaledMarginalCrossEntropy": {"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 1.0, "zeroScale": 1.0},
    "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
        {"Name": "Hidden", "Kind": "Hidden", "Source": "Input", "N": 128, "Activation": "Sigmoid", "Sparse": True},
        {"Name": "Output", "Kind": "Output", "DataSet": "gl_output", "N": "auto", "Activation": "Sigmoid"},
    ],
    "ErrorFunction": "ScaledMarginalCrossEntropy",
}
PREDICT = ["predict", "-n", "gl.dsstne", "-r", "T", "-s", "recs", "-i", "features", "-o", "features", "-d", "gl"]


def text(matrix, value=""):
    return "".join(
        f"{ROWS[row]}\t" + ":".join(ITEMS[i] + value for i in matrix[[row]].indices) + "\n"
        for row in range(matrix.shape[0])
    )


@pytest.fixture(scope="module")
def trained():
    network = {**CONFIG, "Layers": [CONFIG["Layers"][0], {**CONFIG["Layers"][1], "N": 6}, CONFIG["Layers"][2]]}
    return dsstne.fit(X, network=network, optimizer="adam", learning_rate=0.05, epochs=20, progress=False)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    trained.save("gl.dsstne")
    dsstne.write_index("features", ITEMS)
    (tmp_path / "T").write_text(text(X))
    return tmp_path


def lines(path="recs"):
    with open(path, encoding="utf-8") as file:
        read = [line.rstrip("\n").split("\t") for line in file]
    assert all(pairs == "" or pairs.endswith(":") for _, pairs in read)
    return {sample: [tuple(pair.split(",")) for pair in pairs.split(":")[:-1]] for sample, pairs in read}


@pytest.mark.long
def test_the_walk_through_of_dsstne(tmp_path, capsys):
    debian = load_debian()
    M = debian.matrix
    with (tmp_path / "T").open("w") as file:
        for row, name in enumerate(debian.row_names):
            items = M.indices[M.indptr[row] : M.indptr[row + 1]]
            pairs = (f"{debian.item_names[i]},{1112486027 + 60 * int(i)}" for i in items)
            file.write(f"{name}\t{':'.join(pairs)}\n")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for command in (
        "generateNetCDF -d gl_input -i T -o gl_input.nc -f features_input -s samples_input -c",
        "generateNetCDF -d gl_output -i T -o gl_output.nc -f features_output -s samples_input -c",
        "train -c config.json -i gl_input.nc -o gl_output.nc -n gl.nc -b 256 -e 10",
        "predict -b 1024 -d gl -i features_input -o features_output -k 10 -n gl.nc -f T -s recs -r T",
    ):
        assert main(command.split()) == 0, capsys.readouterr().err
    found = lines()
    assert list(found) == list(map(str, debian.row_names))
    for row, pairs in enumerate(found.values()):
        own = set(debian.item_names[M.indices[M.indptr[row] : M.indptr[row + 1]]])
        assert len(pairs) == 10
        assert not own & {item for item, _ in pairs}, "nobody is recommended what he has"
    numbers = [float(score) for _, score in found["gimp"]]
    assert numbers == sorted(numbers, reverse=True)
    assert all(0 <= number <= 1 for number in numbers)
    assert capsys.readouterr().err.splitlines()[-1] == "recs: 17,133 lines"


def test_scores_are_those_after_the_activation_of_the_output(trained):
    assert main([*PREDICT, "-k", "20", "-p", ".9g"]) == 0
    values = trained.predict(X, activation=True)
    for row, (sample, pairs) in enumerate(lines().items()):
        assert sample == ROWS[row]
        assert [item for item, _ in pairs] == [ITEMS[i] for i in np.argsort(-values[row], kind="stable")]
        assert np.array_equal(np.array([score for _, score in pairs], np.float32), np.sort(values[row])[::-1])


def test_scores_of_soft_max_add_up_to_1():
    model = dsstne.fit(X, hidden=4, epochs=2, progress=False)
    model.save("soft.dsstne")
    assert main([*PREDICT[:2], "soft.dsstne", *PREDICT[3:], "-k", "20", "-p", ".9g"]) == 0
    for pairs in lines().values():
        assert sum(float(score) for _, score in pairs) == pytest.approx(1, abs=1e-5)


def test_a_filter_leaves_out_what_it_lists_whatever_the_values(folder):
    (folder / "bare").write_text(text(X))
    (folder / "times").write_text(text(X, ",1112486027"))
    (folder / "zeros").write_text(text(X, ",0"))
    dsstne.netcdf.write("nc", {"gl_output": X * 7}, items={"gl_output": ITEMS}, rows=ROWS)
    dsstne.netcdf.write("nc of zeros", {"gl_output": X * 7}, items={"gl_output": ITEMS}, rows=ROWS)
    with h5py.File("nc of zeros", "r+") as file:
        file["sparseData0"][:] = 0
    order = np.random.default_rng(0).permutation(50)
    columns = np.random.default_rng(1).permutation(20)
    with dsstne.Dataset(X[order][:, columns]) as data:
        data.save("mapped", items=[ITEMS[i] for i in columns], rows=[ROWS[i] for i in order])
    answers = []
    for name in ("bare", "times", "zeros", "nc", "nc of zeros", "mapped"):
        assert main([*PREDICT, "-k", "5", "-f", name]) == 0
        answers.append(lines())
    assert all(answer == answers[0] for answer in answers)
    for row, pairs in enumerate(answers[0].values()):
        assert len(pairs) == 5
        assert not {item for item, _ in pairs} & {ITEMS[i] for i in X[[row]].indices}


def test_values_of_a_filter_multiply_the_scores(folder, trained):
    (folder / "F").write_text("s0\ti0,0:i1,0.5:i2,3:i3\ns7\ti9\n")
    assert main([*PREDICT, "-k", "20", "-p", ".9g", "-f", "F", "--filter-values"]) == 0
    values = trained.predict(X, activation=True)
    found = lines()
    pairs = {item: np.float32(score) for item, score in found["s0"]}
    assert set(pairs) == set(ITEMS) - {"i0", "i3"}
    assert pairs["i1"] == np.float32(values[0, 1] * 0.5)
    assert pairs["i2"] == np.float32(values[0, 2] * 3)
    assert pairs["i4"] == values[0, 4]
    assert list(pairs.values()) == sorted(pairs.values(), reverse=True)
    assert set(ITEMS) - {item for item, _ in found["s7"]} == {"i9"}
    (folder / "many").mkdir()
    (folder / "many" / "one").write_text("s0\ti0,0:i1,0.5\r\n")
    (folder / "many" / "two").write_text("bad\ns0\ti0,0:i1,0.5:i2,3:i3\ns7\ti9:\n")
    assert main([*PREDICT, "-k", "20", "-p", ".9g", "-f", "many", "--filter-values"]) == 0
    assert lines() == found


def test_lines_that_are_short_are_counted(folder, capsys):
    (folder / "F").write_text("s0\t" + ":".join(ITEMS[:18]) + "\n" + "s1\t" + ":".join(ITEMS) + "\n")
    assert main([*PREDICT, "-k", "5", "-f", "F"]) == 0
    found = lines()
    assert [len(found[name]) for name in ROWS[:3]] == [2, 0, 5]
    text = "recs: 50 lines, of which 2 have fewer than 5 items, because the filter leaves no more"
    assert capsys.readouterr().err.splitlines()[0] == text


@pytest.mark.parametrize("batch", ["1", "7", "1000"])
def test_lines_stand_in_the_order_of_the_samples_whatever_the_batch(folder, batch):
    order = [9, 3, 44, 0]
    whole = text(X).splitlines(keepends=True)
    (folder / "T").write_text("".join(whole[row] for row in order))
    assert main([*PREDICT, "-b", batch, "-p", ".9g"]) == 0
    assert list(lines()) == [ROWS[row] for row in order]
    if batch != "1":
        first = (folder / "recs").read_text()
        assert main([*PREDICT, "-b", "2", "-p", ".9g"]) == 0
        assert (folder / "recs").read_text() == first


def test_a_hidden_layer_gives_numbers_of_units(trained):
    assert main([*PREDICT, "-l", "Hidden", "-p", ".9g"]) == 0
    values = trained.predict(X, "Hidden")
    found = lines()
    assert [unit for unit, _ in found["s0"]] == list("012345")
    assert np.array_equal(np.array([[score for _, score in pairs] for pairs in found.values()], np.float32), values)
    assert main([*PREDICT, "-l", "Hidden", "-k", "2", "-p", ".9g"]) == 0
    best = np.argsort(-values, axis=1, kind="stable")[:, :2]
    assert [[int(unit) for unit, _ in pairs] for pairs in lines().values()] == best.tolist()


def test_analog_samples_are_predicted_with_their_values(folder, trained):
    (folder / "T").write_text(text(X, ",2.5"))
    assert main([*PREDICT, "-k", "20", "-p", ".9g", "-t", "analog"]) == 0
    values = trained.predict(X * 2.5, activation=True)
    assert {item: np.float32(score) for item, score in lines()["s0"]} == dict(zip(ITEMS, values[0], strict=True))


@pytest.mark.parametrize("kind", ["nc", "mapped"])
def test_samples_come_from_data_files_too(folder, kind):
    assert main([*PREDICT, "-k", "5"]) == 0
    expected = lines()
    dsstne.netcdf.write("nc", {"gl_input": X, "other": X * 2}, items={"gl_input": ITEMS}, rows=ROWS)
    with dsstne.Dataset(X) as data:
        data.save("mapped", items=ITEMS, rows=ROWS)
    assert main([*PREDICT[:4], kind, *PREDICT[5:], "-k", "5"]) == 0
    assert lines() == expected


def test_names_of_the_network_stand_in_for_the_index_of_the_output(trained):
    with trained.copy() as model:
        model.items = ITEMS
        model.save("named.dsstne")
    assert main([*PREDICT, "-k", "5"]) == 0
    expected = lines()
    assert main(["predict", "-n", "named.dsstne", "-r", "T", "-s", "recs", "-i", "features", "-k", "5"]) == 0
    assert lines() == expected


def test_units_that_only_fill_up_a_network_of_dsstne_are_no_items(folder, trained):
    trained.save("own.nc")
    network = dsstne.load("own.nc", sizes={"Input": 128, "Output": 128})  # as a file that DSSTNE has written
    network.save("gl.nc")
    assert network.output_units == 128
    assert main([*PREDICT, "-k", "20", "-p", ".5f"]) == 0
    expected = lines()
    assert main([*PREDICT[:2], "gl.nc", *PREDICT[3:], "-k", "20", "-p", ".5f", "-f", "T"]) == 0
    for row, (sample, pairs) in enumerate(lines().items()):
        own = {ITEMS[i] for i in X[[row]].indices}
        assert pairs == [pair for pair in expected[sample] if pair[0] not in own]


@pytest.mark.parametrize(
    ("flag", "expected"), [("4.3f", "0.250"), ("%e", "2.500000e-01"), ("+g", "+0.25"), ("-8.2f", "0.25    ")]
)
def test_formats_of_a_score(flag, expected):
    from dsstne._commands.predict import conversion

    assert conversion(flag) % 0.25 == expected
    assert main([*PREDICT, "-k", "1", "-p", flag]) == 0


def test_a_pipe_is_written_as_it_is(capfd):
    assert main([*PREDICT[:6], "/dev/stdout", *PREDICT[7:], "-k", "1"]) == 0
    assert capfd.readouterr().out.startswith("s0\ti")


def test_ctrl_c_leaves_the_old_lines(folder, monkeypatch):
    def interrupt(*_):
        yield [(np.array([[0]]), np.array([[0.5]], np.float32))]
        raise KeyboardInterrupt

    (folder / "recs").write_text("old")
    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr("dsstne._commands.ranking.best_items", interrupt)
    assert main(PREDICT) == 130
    assert (folder / "recs").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == before


TWO = {
    "ErrorFunction": "CrossEntropy",
    "Layers": [
        {"Name": "Left", "Kind": "Input", "N": "auto", "DataSet": "a"},
        {"Name": "Right", "Kind": "Input", "N": "auto", "DataSet": "b"},
        {"Name": "Hidden", "Kind": "Hidden", "N": 5, "Source": ["Left", "Right"]},
        {"Name": "First", "Kind": "Output", "N": "auto", "DataSet": "a", "Source": "Hidden"},
        {"Name": "Second", "Kind": "Output", "N": "auto", "DataSet": "b", "Source": "Hidden"},
    ],
}


def test_several_inputs_and_outputs_take_their_data_sets(folder):
    (folder / "two.json").write_text(json.dumps(TWO))
    few = X[:, :7]
    dsstne.netcdf.write("two.nc", {"a": X, "b": few}, items={"a": ITEMS, "b": ITEMS[:7]}, rows=ROWS)
    dsstne.write_index("few", ITEMS[:7])
    assert main(["train", "-c", "two.json", "-i", "two.nc", "-o", "two.nc", "-n", "two.dsstne", "-e", "3"]) == 0
    model = dsstne.load("two.dsstne")
    assert model.items.tolist() == ITEMS
    predict = ["predict", "-n", "two.dsstne", "-r", "two.nc", "-s", "recs", "-p", ".9g", "-k", "7"]
    for layer, more in (("First", []), ("Second", ["-o", "few"])):
        assert main([*predict, "-l", layer, *more]) == 0
        values = model.predict({"Left": X, "Right": few}, layer, activation=True)
        for row, pairs in enumerate(lines().values()):
            assert [item for item, _ in pairs] == [ITEMS[i] for i in np.argsort(-values[row], kind="stable")[:7]]
    assert main([*predict, "-l", "Second"]) == 1
    assert main([*predict[:3], "-r", "T", *predict[5:], "-i", "features"]) == 1
