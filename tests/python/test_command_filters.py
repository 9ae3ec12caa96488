"""Filters of predict: JSON that names several, node filters, and values that multiply."""

import gzip
import json
import os
import pathlib

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne._commands import outputs, ranking
from dsstne.cli import main

ITEMS = [f"i{n}" for n in range(23)]
ROWS = [f"s{n}" for n in range(60)]
X = scipy.sparse.random_array((60, 23), density=0.2, format="csr", rng=4, dtype=np.float32)
X.data[:] = 1
PREDICT = ["predict", "-n", "net.dsstne", "-r", "T", "-i", "features", "-o", "features", "-p", ".9g"]


def text(matrix, value=""):
    return "".join(
        f"{name}\t" + ":".join(ITEMS[i] + value for i in matrix[[row]].indices) + "\n" for row, name in enumerate(ROWS)
    )


@pytest.fixture(scope="module")
def trained():
    return dsstne.fit(X, hidden=5, loss="sigmoid", optimizer="adam", epochs=15, progress=False)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    trained.save("net.dsstne")
    dsstne.write_index("features", ITEMS)
    (tmp_path / "T").write_text(text(X))
    return tmp_path


def lines(path):
    with open(path, encoding="utf-8") as file:
        read = [line.rstrip("\n").split("\t") for line in file]
    assert [sample for sample, _ in read] == ROWS
    return [[(item, float(score)) for item, score in (pair.split(",") for pair in pairs.split(":")[:-1])]
            for _, pairs in read]  # fmt: skip


def describe(*filters, path="F"):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"filters": filters}, file)


def expected(values, factors, k):
    """The k best products of values and factors [samples, items], of which 0 leaves an item out."""
    products = np.where(factors == 0, -np.inf, (values.astype(np.float64) * factors).astype(np.float32))
    ranked = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return [
        [(ITEMS[i], float(row[i])) for i in best if row[i] > -np.inf]
        for row, best in zip(products, ranked, strict=True)
    ]


def assert_same(found, wanted):
    assert [[item for item, _ in row] for row in found] == [[item for item, _ in row] for row in wanted]
    for row, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose([v for _, v in row], [v for _, v in other], rtol=1e-6)


def test_one_run_writes_the_file_of_each_filter(folder, trained, monkeypatch):
    node = ["i3", "i7", "i20"]
    (folder / "N").write_text("i3\ni7,5\r\n\ni20,0\nunknown\n")
    (folder / "other").write_text("s0\ti1:i2\ns9\ti5\n")
    describe(
        {"sampleFilters": "T", "outputFile": "seen"},
        {"outputFile": "all"},
        {"SAMPLEFILTERS": ["T", "other"], "nodefilters": ["N"], "OutputFile": "both"},
        {"nodeFilters": "N", "outputFile": "node"},
    )
    ranked = []
    best = ranking.Task.best
    monkeypatch.setattr(
        ranking.Task, "best", lambda task, rows, *rest: ranked.append(len(rows)) or best(task, rows, *rest)
    )
    assert main([*PREDICT, "-k", "6", "-f", "F"]) == 0
    assert ranked == [60], "scores are computed once for all outputs"
    values = trained.predict(X, activation=True)
    seen = 1.0 * (X.toarray() == 0)
    nodes = np.where(np.isin(ITEMS, node), 0.0, 1.0)[None]
    other = np.ones((60, 23))
    other[0, [1, 2]] = other[9, 5] = 0
    for path, factors in (
        ("seen", seen),
        ("all", other**0),
        ("both", seen * other * nodes),
        ("node", nodes + 0 * seen),
    ):
        assert_same(lines(path), expected(values, factors, 6))


def test_rows_of_which_much_is_left_out_are_ranked_again(folder, trained, monkeypatch):
    monkeypatch.setattr(ranking, "_BEYOND", 1)
    many = scipy.sparse.csr_array(np.random.default_rng(0).random((60, 23)) < 0.8)
    (folder / "many").write_text(text(many))
    describe({"outputFile": "all"}, {"sampleFilters": "many", "outputFile": "few"})
    assert main([*PREDICT, "-k", "2", "-f", "F"]) == 0
    values = trained.predict(X, activation=True)
    assert_same(lines("all"), expected(values, np.ones((60, 23)), 2))
    assert_same(lines("few"), expected(values, 1.0 - many.toarray(), 2))


@pytest.mark.long
@pytest.mark.parametrize("loss", ["sigmoid", "softmax", "squared"])
@pytest.mark.parametrize("block", [40, 1 << 24])
def test_values_of_filters_multiply(folder, monkeypatch, loss, block):
    monkeypatch.setattr(ranking, "_BLOCK", block)
    model = dsstne.fit(X, hidden=5, loss=loss, epochs=3, progress=False)
    model.save("net.dsstne")
    random = np.random.default_rng(1)
    A = random.choice([1.0, 0.0, 0.5, 2.0, -1.5], (60, 23), p=[0.7, 0.1, 0.1, 0.05, 0.05])
    B = random.choice([1.0, 0.0, 3.0], (60, 23), p=[0.9, 0.05, 0.05])
    A[5], B[7] = 1.0, 0.0
    N = np.ones(23)
    N[[2, 11, 4]] = 0, 4, 0.25
    for path, M in (("A", A), ("B", B)):
        pairs = [[f"{ITEMS[i]},{M[row, i]:g}" for i in np.flatnonzero(M[row] != 1)] for row in range(60)]
        (folder / path).write_text("".join(f"{name}\t{':'.join(row)}\n" for name, row in zip(ROWS, pairs, strict=True)))
    (folder / "N").write_text("i11,1\ni2\ni11,4\ni4,2.5e-1\n")  # the last line of a feature counts
    describe(
        {"sampleFilters": ["A", "B"], "outputFile": "ab"},
        {"sampleFilters": "A", "nodeFilters": "N", "outputFile": "an"},
        {"nodeFilters": "N", "outputFile": "n"},
        {"sampleFilters": "T", "nodeFilters": "N", "outputFile": "tn"},
        {"outputFile": "plain"},
    )
    assert main([*PREDICT, "-k", "9", "-f", "F", "--filter-values"]) == 0
    values = model.predict(X, activation=True)
    seen = 1.0 * (X.toarray() == 0)
    wanted = {"ab": A * B, "an": A * N, "n": N + 0 * A, "tn": seen * N, "plain": A**0}
    for path, factors in wanted.items():
        assert_same(lines(path), expected(values, factors, 9))


def test_filters_of_any_kind_of_file_multiply_alike(folder):
    F = X * np.float32(2.5)
    (folder / "text").write_text(text(F, ",2.5"))
    dsstne.netcdf.write("nc", {"net_output": F}, items={"net_output": ITEMS}, rows=ROWS)
    order = np.random.default_rng(0).permutation(60)
    with dsstne.Dataset(F[order][:, ::-1]) as data:
        data.save("mapped", items=ITEMS[::-1], rows=[ROWS[row] for row in order])
    (folder / "more").write_text("s1\ti0\n")
    kinds = ["text", "nc", "mapped"]
    describe(*({"sampleFilters": [kind, "more"], "outputFile": f"{kind}.out"} for kind in kinds))
    assert main([*PREDICT, "-k", "7", "-f", "F", "--filter-values"]) == 0
    found = [lines(f"{kind}.out") for kind in kinds]
    assert found[0] == found[1] == found[2]
    assert any(item in {ITEMS[i] for i in X[[0]].indices} for item, _ in found[0][0])
    assert "i0" not in {item for item, _ in found[0][1]}


def test_products_that_float32_cannot_hold_keep_their_place(folder):
    (folder / "A").write_text("s0\ti0,3e38:i1,-3e38\n")
    (folder / "B").write_text("s0\ti0,3e38:i1,3e38\n")
    describe({"sampleFilters": ["A", "B"], "outputFile": "out"})
    assert main([*PREDICT, "-k", "23", "-f", "F", "--filter-values"]) == 0
    row = lines("out")[0]
    assert (row[0][0], row[-1][0], len(row)) == ("i0", "i1", 23)
    assert np.isfinite([score for _, score in row]).all()


@pytest.mark.parametrize("more", [[], ["--filter-values"], ["-t", "analog"], ["-t", "analog", "--filter-values"]])
def test_samples_that_are_the_filter_too_are_read_once(folder, monkeypatch, more):
    (folder / "T").write_text(text(X, ",2"))
    (folder / "copy").write_text(text(X, ",2"))
    read = []
    from_text = dsstne.Dataset.from_text
    monkeypatch.setattr(dsstne.Dataset, "from_text", lambda path, **rest: read.append(path) or from_text(path, **rest))
    assert main([*PREDICT, "-k", "6", "-s", "once", "-f", "./T", *more]) == 0
    assert read == ["T"]
    assert main([*PREDICT, "-k", "6", "-s", "twice", "-f", "copy", *more]) == 0
    assert read == ["T", "T", "copy"]
    assert lines("once") == lines("twice")


def test_a_line_that_only_the_samples_cannot_have_is_one_of_the_filter(folder):
    (folder / "T").write_text(text(X, ",1") + "s0\ti4\n")  # analog samples need values
    (folder / "copy").write_text(text(X, ",1") + "s0\ti4\n")
    for name in ("T", "copy"):
        assert main([*PREDICT, "-k", "23", "-s", name + ".out", "-f", name, "-t", "analog"]) == 0
        assert set(ITEMS) - {item for item, _ in lines(name + ".out")[0]} == {"i4"}


def test_samples_and_filter_with_different_indexes_are_both_right(folder, trained):
    with trained.copy() as model:
        model.save("net.dsstne")
    dsstne.write_index("turned", ITEMS[::-1])
    assert main([*PREDICT[:-4], "-o", "turned", "-p", ".9g", "-k", "6", "-s", "out", "-f", "T"]) == 0
    for row, pairs in enumerate(lines("out")):
        assert not {item for item, _ in pairs} & {ITEMS[i] for i in X[[row]].indices}


def test_a_node_filter_may_be_compressed(folder):
    (folder / "N").write_bytes(gzip.compress(b"\xef\xbb\xbfi3\ni4\n"))
    describe({"nodeFilters": "N", "outputFile": "out"})
    assert main([*PREDICT, "-k", "23", "-f", "F"]) == 0
    assert all({item for item, _ in row} == set(ITEMS) - {"i3", "i4"} for row in lines("out"))


def test_nothing_is_left_if_all_is_left_out(folder, capsys):
    (folder / "N").write_text("\n".join(ITEMS))
    describe({"sampleFilters": "T", "nodeFilters": "N", "outputFile": "none"}, {"outputFile": "all"})
    assert main([*PREDICT, "-k", "3", "-f", "F"]) == 0
    assert lines("none") == [[]] * 60
    assert capsys.readouterr().err.splitlines()[:2] == [
        "none: 60 lines, of which 60 have fewer than 3 items, because the filter leaves no more",
        "all: 60 lines",
    ]


def test_malformed_lines_of_a_node_filter_are_counted_with_their_place(folder, capsys):
    (folder / "N").write_bytes(b"i0\ns1\ti1\ni2,x\ni3,1,2\n,5\ni4:i5\ni6,nan\ni7,1e39\n\xff\nzz\n")
    describe({"nodeFilters": "N", "outputFile": "out"})
    assert main([*PREDICT, "-k", "23", "-f", "F"]) == 0
    assert all({item for item, _ in row} == set(ITEMS) - {"i0"} for row in lines("out"))
    assert capsys.readouterr().err.splitlines()[-1] == (
        "N: skipped 8 malformed lines: 1 with a TAB (first: N, line 2, column 1), 1 with a value that is not a "
        "number (first: N, line 3, column 1), 1 with several values of a feature (first: N, line 4, column 1), 1 with "
        "no label before a comma (first: N, line 5, column 1), 1 with a colon (first: N, line 6, column 1), 2 with a "
        "value that is too large (first: N, line 7, column 1), 1 with bytes that are not UTF-8 (first: N, line 9, "
        "column 1); left out 1 entries whose features are not in the index"
    )


def test_a_text_may_begin_with_a_brace(folder):
    (folder / "T").write_text("{0}\ti0:i1\n")
    assert main([*PREDICT, "-k", "23", "-s", "recs", "-f", "T"]) == 0
    assert (folder / "recs").read_text().startswith("{0}\t")
    assert "i0," not in (folder / "recs").read_text()


def test_s_names_the_output_of_a_filter_that_does_not(folder):
    describe({"sampleFilters": "T"}, {"outputFile": "all"})
    assert main([*PREDICT, "-k", "3", "-f", "F", "-s", "recs"]) == 0
    assert lines("recs") != lines("all")


def of(filters):
    return f'{{"filters": [{filters}]}}'


# Text of F, more flags, and a part of the message.
BAD = [
    ("{", "", "-f: F: line 1, column 2: this is not JSON: Expecting property name enclosed in double quotes"),
    ('{"filters": [{"outputFile": "a"}', "", "-f: F: line 1, column 33: this is not JSON: Expecting ',' delimiter"),
    ("{}", "", "-f: F: filters: expected a list of at least one filter, got null"),
    ('{"filters": {"outputFile": "a"}}', "", "filters: expected a list of at least one filter, got an object"),
    (of(""), "", "filters: expected a list of at least one filter, got []"),
    ('{"filter": []}', "", "-f: F: unknown key 'filter'; did you mean 'filters'?"),
    (of('"a"'), "", 'filters[0]: expected an object with sampleFilters, nodeFilters, outputFile, got "a"'),
    (of('{"sampleFilter": "T"}'), "", "filters[0]: unknown key 'sampleFilter'; did you mean 'sampleFilters'"),
    (of('{"outputFile": "a", "OUTPUTFILE": "b"}'), "", "filters[0]: the key 'outputFile' is there twice"),
    (of('{"sampleFilters": 7, "outputFile": "a"}'), "", "filters[0].sampleFilters: expected the path of a"),
    (of('{"sampleFilters": ["T", ""], "outputFile": "a"}'), "", 'sampleFilters: expected the path of a file, got ""'),
    (of('{"nodeFilters": [], "outputFile": "a"}'), "", "filters[0].nodeFilters: the list is empty; give a path"),
    (of('{"nodeFilters": "a\\u0000", "outputFile": "a"}'), "", "nodeFilters: expected the path of a file"),
    (of('{"nodeFilters": "\\ud800", "outputFile": "a"}'), "", "cannot be the path of a file"),
    (of('{"sampleFilters": "T"}'), "", "filters[0]: outputFile is missing; it names the file to write"),
    (of('{"outputFile": "a"}, {"outputFile": "./a"}'), "", "filters[1].outputFile name the same file, ./a"),
    (of('{"outputFile": "a"}'), "-s b", "-s: each filter of F has an outputFile; leave -s out"),
    (of('{"nodeFilters": "N"}, {}'), "-s b", "filters: several have no outputFile, and -s is only one file"),
    (of('{"outputFile": "T"}'), "", "filters[0].outputFile and -r name the same file, T; give two files"),
    (of('{"nodeFilters": "N", "outputFile": "N"}'), "", "outputFile and the filter N name the same file, N"),
    (of('{"outputFile": "F"}'), "", "outputFile and -f name the same file, F"),
    (of('{"outputFile": "none/a"}'), "", "filters[0].outputFile: none/a: there is no folder"),
    (of('{"sampleFilters": "none", "outputFile": "a"}'), "", "none: no such file"),
    (of('{"nodeFilters": "none", "outputFile": "a"}'), "", "none: no such file"),
    (of('{"nodeFilters": ".", "outputFile": "a"}'), "", ".: it is a folder; a node filter has a feature, or"),
    (of('{"sampleFilters": "F", "outputFile": "a"}'), "", "filters[0].sampleFilters: F is JSON; give a filter"),
    (of('{"nodeFilters": "T", "outputFile": "a"}'), "", "T: skipped 60 malformed lines: 60 with a TAB"),
    (of('{"nodeFilters": "bad", "outputFile": "a"}'), "--malformed error", "bad, line 2: the line has no label"),
    (of('{"nodeFilters": "cut", "outputFile": "a"}'), "", "cut: the compressed file is damaged"),
    (of('{"nodeFilters": "data", "outputFile": "a"}'), "", "data: expected a text; a node filter has a feature"),
    ('{"\xff": 1}', "", "-f: F: this is not JSON in UTF-8: invalid start byte at byte 2"),
    ('{"a": ' + "[" * 100_000, "", "-f: F: "),
    ("s0\ti0\n", "", "-s is missing: F is not JSON that names the files to write"),
]


@pytest.mark.parametrize(("description", "more", "message"), BAD, ids=[f"{case[0][:60]} {case[1]}" for case in BAD])
def test_what_is_wrong_with_a_filter_is_said_and_nothing_is_written(folder, capsys, description, more, message):
    (folder / "F").write_bytes(description.encode("latin-1"))
    (folder / "N").write_text("i0\n")
    (folder / "bad").write_text("i0\n,1\n")
    (folder / "cut").write_bytes(gzip.compress(b"i0\n" * 1000)[:30])
    with dsstne.Dataset(X) as data:
        data.save("data")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert main([*PREDICT, "-f", "F", *more.split()]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_no_output_appears_unless_all_are_complete(folder, monkeypatch, capsys):
    (folder / "a").write_text("old")
    replaced = []
    replace = os.replace

    def fail(name, target):
        replaced.append(target)
        if len(replaced) == 3:
            raise PermissionError(13, "Permission denied", str(target))
        replace(name, target)

    describe(*({"outputFile": name} for name in "abc"))
    before = {path.name for path in folder.iterdir()}
    monkeypatch.setattr(outputs.os, "replace", fail)
    assert main([*PREDICT, "-k", "3", "-f", "F"]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == before
    assert (folder / "a").read_text() == "old"
    assert [pathlib.Path(path).name for path in replaced] == ["a", "b", "c", "a"]


def test_a_disk_that_is_full_leaves_all_outputs(folder, capsys):
    (folder / "a").write_text("old")
    describe({"outputFile": "a"}, {"outputFile": "/dev/full"}, {"outputFile": "b"})
    before = {path.name for path in folder.iterdir()}
    assert main([*PREDICT, "-k", "3", "-f", "F"]) == 1
    assert "cannot write /dev/full: No space left on device" in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == before
    assert (folder / "a").read_text() == "old"


@pytest.mark.parametrize("k", [1, 3, 7, 8])
def test_the_highest_values_are_those_of_a_sort(k):
    random = np.random.default_rng(k)
    values = random.integers(0, 4, (200, 8)).astype(np.float32)
    values[random.random(values.shape) < 0.3] = -np.inf
    values[0] = -np.inf
    ids, best = ranking.highest(values, k)
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    wanted = np.take_along_axis(values, order, axis=1)
    assert np.array_equal(best, wanted)
    assert np.array_equal(ids, np.where(wanted > -np.inf, order, -1))
