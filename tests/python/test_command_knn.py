"""knn: the lines of DSSTNE's KnnSearch, beside brute force in float64, and what users do wrong with it."""

import gzip
import json
import os
import threading

import numpy as np
import pytest

import dsstne
from dsstne._commands import vectors
from dsstne.cli import main

RNG = np.random.default_rng(5)
DATA = RNG.standard_normal((300, 12)).astype(np.float32)
QUERIES = RNG.standard_normal((40, 12)).astype(np.float32)
KNN = ["knn", "--data-files", "D", "--input-files", "Q", "--output-file", "out"]


def text(matrix, prefix, key_end="\t", between=" "):
    return "".join(
        f"{prefix}{n}{key_end}{between.join(f'{value:.9g}' for value in row)}\n"
        for n, row in enumerate(matrix.tolist())
    )


def expected(data, queries, k, metric="dot"):
    """Keys and scores of the k nearest, by NumPy."""
    a, b = data.astype(np.float64), queries.astype(np.float64)
    if metric == "cosine":
        a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    scores = b @ a.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


def lines(path="out", key_end="\t", between=" ", separator=":"):
    with open(path, encoding="utf-8") as file:
        read = [line.removesuffix("\n").split(key_end) for line in file]
    return {key: [tuple(pair.rsplit(separator, 1)) for pair in pairs.split(between)] for key, pairs in read}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "D").write_text(text(DATA, "d"))
    (tmp_path / "Q").write_text(text(QUERIES, "q"))
    return tmp_path


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize(("batch", "block"), [("1", 1 << 22), ("7", 500), ("1000", 1)])
def test_the_neighbours_are_those_of_brute_force(monkeypatch, metric, batch, block):
    monkeypatch.setattr(vectors, "_BLOCK", block)
    more = ["--k", "25", "--score-precision", "9", "--metric", metric, "--batch-size", batch]
    assert main([*KNN, *more]) == 0
    order, scores = expected(DATA, QUERIES, 25, metric)
    found = lines()
    assert list(found) == [f"q{n}" for n in range(40)]
    for row, pairs in enumerate(found.values()):
        assert [key for key, _ in pairs] == [f"d{n}" for n in order[row]]
        assert np.allclose([float(score) for _, score in pairs], scores[row], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "storage"), [("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16")])
def test_the_numbers_are_those_of_the_index_to_the_bit(kind, storage):
    assert main([*KNN, "--k", "300", "--score-precision", "30", "--data-type", kind]) == 0
    with dsstne.neighbors.Index(DATA, storage=storage) as index:
        ids, scores = index.search(QUERIES, 300)
    for row, pairs in enumerate(lines().values()):
        assert [key for key, _ in pairs] == [f"d{n}" for n in ids[row]]
        assert np.array_equal(np.array([score for _, score in pairs], np.float32), scores[row])


def test_the_text_is_that_of_knn_search(folder):
    (folder / "D").write_text("apple\t1 0 0\npear\t0 1 0\nplum, red\t0.5 0.25 -2\n")
    (folder / "Q").write_text("first\t1 2 3\nsecond\t-1 0 1e-3\nfirst\t0 0 0\n")
    assert main(KNN) == 0
    assert (folder / "out").read_text() == (
        "first\tpear:2.000 apple:1.000 plum, red:-5.000\n"
        "second\tpear:0.000 plum, red:-0.502 apple:-1.000\n"
        "first\tapple:0.000 pear:0.000 plum, red:0.000\n"
    )
    assert main([*KNN, "--k", "1", "--output-keys-only"]) == 0
    assert (folder / "out").read_text() == "first\tpear\nsecond\tpear\nfirst\tapple\n"
    assert main([*KNN, "--k", "2", "--score-precision", "0", "--id-score-sep", " = 100%"]) == 0
    assert (folder / "out").read_text().splitlines()[0] == "first\tpear = 100%2 apple = 100%1"


@pytest.mark.parametrize(
    ("key_end", "between", "flags"),
    [
        ("|", ",", ["--key-val-delim", "|", "--vec-delim", ","]),
        (" ", " ", ["--key-val-delim", " "]),
        (",", "\t", ["--key-val-delim=,", "--vec-delim", "\\t"]),
        ("%", ";", ["--key-val-delim", "%", "--vec-delim", ";"]),
        ("é", "%", ["--key-val-delim", "é", "--vec-delim", "%"]),
    ],
)
def test_delimiters_are_read_and_written(folder, key_end, between, flags):
    assert main([*KNN, "--k", "4"]) == 0
    usual = (folder / "out").read_text()
    (folder / "D").write_text(text(DATA, "d", key_end, between))
    (folder / "Q").write_text(text(QUERIES, "q", key_end, between))
    assert main([*KNN, "--k", "4", *flags]) == 0
    written = [line.partition("\t") for line in usual.splitlines()]
    assert (folder / "out").read_text() == "".join(f"{a}{key_end}{b.replace(' ', between)}\n" for a, _, b in written)


def test_files_are_one_collection_however_they_are_given(folder):
    assert main([*KNN, "--k", "5"]) == 0
    once = (folder / "out").read_text()
    whole = text(DATA, "d").splitlines(keepends=True)
    (folder / "many").mkdir()
    (folder / "many" / "1").write_text("".join(whole[:7]))
    (folder / "many" / "2").write_bytes(gzip.compress("".join(whole[7:90]).encode()))
    (folder / "many" / "3").write_text("\ufeff" + "\n\n".join(line.strip() + "\r" for line in whole[90:]))
    (folder / "many" / ".hidden").write_text("damaged")
    (folder / "a,b").write_text("".join(whole[:7]))
    rest = ["--input-files", "Q", "--output-file", "out", "--k", "5"]
    for given in (["many"], ["many/1", "many/2", "many/3"], ["many/1,many/2", "many/3"], ["a,b", "many/2,many/3"]):
        assert main(["knn", "--data-files", *given, *rest]) == 0
        assert (folder / "out").read_text() == once
    assert main(["knn", "--data-files=many/1,many/2,many/3", *rest]) == 0
    assert (folder / "out").read_text() == once
    half = text(QUERIES, "q").splitlines(keepends=True)
    (folder / "first").write_text("".join(half[:3]).rstrip("\n"))
    (folder / "second").write_text("".join(half[3:]))
    assert main(["knn", "--input-files", "first", "second", "--data-files", "D", *rest[2:]]) == 0
    assert (folder / "out").read_text() == once


def test_runs_of_blanks_separate_numbers(folder):
    assert main([*KNN, "--k", "5"]) == 0
    once = (folder / "out").read_text()
    (folder / "D").write_text(text(DATA, "d", "\t  ", " \t  ").replace("\n", "  \n"))
    assert main([*KNN, "--k", "5"]) == 0
    assert (folder / "out").read_text() == once


DAMAGED = {
    "no delimiter": (b"bad 1 2 3", 10, "the line has no '\\t'; a line is a key, '\\t' and the numbers"),
    "no key": (b"\t1 2 3", 1, "there is no key before the '\\t'"),
    "a word": (b"bad\t1 x 3", 7, "the value 'x' is not a number; write it as 3, 0.5 or 1e-3"),
    "hexadecimal": (b"bad\t1 0x1 3", 7, "the value '0x1' is not a number"),
    "an underscore": (b"bad\t1 1_0 3", 7, "the value '1_0' is not a number"),
    "nan": (b"bad\t1 2 nan", 9, "the value 'nan' is not finite or too large for float32"),
    "infinity": (b"bad\t-inf 2 3", 5, "the value '-inf' is not finite"),
    "too large": (b"bad\t1 2 1e39", 9, "the value '1e39' is not finite or too large for float32"),
    "Latin-1": (b"b\xe9d\t1 2 3", 2, "the line is not valid UTF-8; convert the file to UTF-8"),
    "a carriage return": (b"bad\t1 2\r3", 5, "the line is not a list of numbers"),
    "a key again": (b"k1\t1 2 3", 1, "the key 'k1' is there already; keys of --data-files must differ"),
    "zeros": (b"bad\t" + bytes(5), 5, "is not a number"),
}


@pytest.mark.long
@pytest.mark.parametrize("block", [1 << 22, 1])
@pytest.mark.parametrize("place", [0, 3, 40])
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_line_is_skipped_and_counted_or_an_error(folder, monkeypatch, capsys, kind, place, block):
    monkeypatch.setattr(vectors, "_BLOCK", block)
    line, column, message = DAMAGED[kind]
    place = max(place, 2) if kind == "a key again" else place  # behind the line that has the key
    good = [f"k{n}\t{n} {n % 7} 0.5" for n in range(40)]
    (folder / "Q").write_text("q\t1 2 3\n")
    (folder / "D").write_text("\n".join(good))
    assert main([*KNN, "--k", "40"]) == 0
    once = (folder / "out").read_text()
    damaged = [one.encode() for one in good]
    damaged.insert(place, line)
    (folder / "D").write_bytes(b"\n".join(damaged) + b"\n")
    capsys.readouterr()
    assert main([*KNN, "--k", "40"]) == 0
    assert (folder / "out").read_text() == once
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("--data-files: skipped 1 malformed line: 1 with ")
    assert last.endswith(f"(first: D, line {place + 1}, column {column})")
    assert main([*KNN, "--k", "40", "--malformed", "error"]) == 1
    assert f"error: D, line {place + 1}, column {column}: " in (err := capsys.readouterr().err)
    assert message in err
    assert (folder / "out").read_text() == once


def test_two_lengths_that_add_up_are_not_taken_for_vectors(folder, capsys):
    (folder / "D").write_text("a\t1 2 3\nb\t1 2\nc\t1 2 3 4\n")
    assert main(KNN) == 1
    assert "D, line 2, column 6: the vector has 2 numbers; D, line 1 has 3" in capsys.readouterr().err
    (folder / "D").write_text("a\t1 2 3\nb\t1 2 3 4\nc\t1 2\n")
    assert main(KNN) == 1
    assert "D, line 2, column 9: the vector has 4 numbers; D, line 1 has 3" in capsys.readouterr().err


# Flags that replace others, files, the status, and a part of the message.
WRONG = [
    ("knn", {}, 2, "the following arguments are required: --data-files, --input-files"),
    ("knn --data-files --k 3", {}, 2, "--data-files needs a value, but --k follows"),
    ("--k 0", {}, 2, "argument --k: expected a whole number above 0, got '0'"),
    ("--k 301", {}, 1, "--k is 301, and --data-files have 300 vectors"),
    ("--kk 3", {}, 2, "there is no flag --kk"),
    ("--data-file D", {}, 2, "there is no flag --data-file; did you mean --data-files?"),
    ("--data-files D", {}, 2, "--data-files is given twice"),
    ("--metric euclidean", {}, 2, "expected dot or cosine, got 'euclidean'"),
    ("--data-type fp8", {}, 2, "expected fp32 or fp16 or bf16, got 'fp8'"),
    ("--vec-delim 5", {}, 2, "argument --vec-delim: '5' can be part of a number; expected another character"),
    ("--vec-delim ::", {}, 2, "argument --vec-delim: expected one character, or \\t for a TAB, got '::'"),
    ("--key-val-delim \\n", {}, 2, "argument --key-val-delim: expected one character"),
    ("--id-score-sep=", {}, 2, "argument --id-score-sep: expected a text of one line, got ''"),
    ("--score-precision 100", {}, 2, "argument --score-precision: expected a whole number from 0 to 99, got '100'"),
    ("--report-interval 0", {}, 2, "argument --report-interval: expected a whole number above 0"),
    ("knn --data-files none --input-files Q", {}, 1, "--data-files: none: no such file"),
    ("knn --data-files D --input-files Q,none", {}, 1, "--input-files: none: no such file"),
    ("knn --data-files empty --input-files Q", {}, 1, "--data-files: the folder empty has no files"),
    ("knn --data-files X --input-files Q", {"X": ""}, 1, "--data-files: there are no vectors"),
    ("knn --data-files X --input-files Q", {"X": "bad\n"}, 1, "there are no vectors; skipped 1 malformed line"),
    (
        "knn --data-files X --input-files Q",
        {"X": "a\t\n"},
        1,
        "X, line 1, column 3: the vector has 0 numbers; a line is",
    ),
    ("knn --data-files D --input-files X", {"X": "a\t1 2\n"}, 1, "2 numbers; the vectors of --data-files have 12"),
    ("knn --data-files D X --input-files Q", {"X": "a\t1 2\n"}, 1, "X, line 1, column 6: the vector has 2 numbers; D"),
    ("knn --data-files X --input-files Q", {"X": "ARROW1" + "\0" * 99}, 1, "--data-files: X is a data file; expected"),
    (
        "knn --data-files X --input-files Q",
        {"X": b"\x1f\x8b\x08" + b"\0" * 50},
        1,
        "X: the compressed file is damaged",
    ),
    (
        "knn --data-files X --input-files Q",
        {"X": gzip.compress(b"a\t1\n" * 999)[:-9]},
        1,
        "X: the compressed file is damaged",
    ),
    ("--output-file D", {}, 1, "--output-file and --data-files name the same file, D; give two files"),
    ("--output-file empty", {}, 1, "--output-file: empty is a folder; give the name of a file"),
    ("--output-file none/out", {}, 1, "--output-file: none/out: there is no folder"),
    ("--output-file /dev/full", {}, 1, "cannot write /dev/full: No space left on device"),
    ("--devices cuda:77", {}, 1, "cuda:77"),
    (
        "--memory-limit 1K",
        {},
        1,
        "--memory-limit is 1,024 bytes, and the first 300 vectors of --data-files take 14,400 bytes",
    ),
    ("--memory-limit 15K", {}, 1, "memory_limit"),
]


@pytest.mark.parametrize(("line", "files", "status", "message"), WRONG)
def test_what_is_wrong_is_said_and_nothing_is_written(folder, capsys, line, files, status, message):
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "empty").mkdir()
    given = line.split(" ")
    if given[0] != "knn":
        base = [*KNN[:-2]] if given[0] == "--output-file" else KNN
        given = [*base, *given]
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    try:
        returned = main(given)
    except SystemExit as error:
        returned = error.code
    err = capsys.readouterr().err
    assert returned == status, err
    assert message in err
    assert "Traceback" not in err
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_an_error_in_an_input_leaves_the_old_file(folder, capsys):
    (folder / "out").write_text("old")
    (folder / "Q").write_text("q\t" + "1 " * 12 + "\nr\t1\n")
    before = sorted(path.name for path in folder.iterdir())
    assert main(KNN) == 1
    assert "Q, line 2, column 4: the vector has 1 number" in capsys.readouterr().err
    assert (folder / "out").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_line_without_an_end_does_not_fill_the_memory(folder, monkeypatch, capsys):
    monkeypatch.setattr(vectors, "_LONGEST", 1 << 20)
    monkeypatch.setattr(vectors, "_BLOCK", 1 << 18)
    (folder / "D").write_text(text(DATA[:3], "d") + "d3\t" + "1 " * (1 << 20))
    assert main(KNN) == 1
    assert "D, line 4: the line has more than 1 MiB; expected a text" in capsys.readouterr().err


def test_lines_go_to_stdout_without_an_output_file(capfd):
    assert main([*KNN[:5], "--k", "1", "--output-keys-only"]) == 0
    order, _ = expected(DATA, QUERIES, 1)
    assert capfd.readouterr().out == "".join(f"q{n}\td{best}\n" for n, best in enumerate(order[:, 0]))


def test_what_a_program_writes_to_stdout_before_and_after_stays(folder):
    import subprocess
    import sys

    command = f"(echo begin; '{sys.executable}' -m dsstne {' '.join(KNN[:5])} --k 1 --output-keys-only; echo end) > all"
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=60)
    written = (folder / "all").read_text().splitlines()
    assert (written[0], len(written), written[-1]) == ("begin", 42, "end")


def test_pipes_are_read_and_written(folder):
    os.mkfifo("data")
    os.mkfifo("answers")
    read = []
    threads = [
        threading.Thread(target=lambda: (folder / "data").write_text(text(DATA, "d"))),
        threading.Thread(target=lambda: read.append((folder / "answers").read_text())),
    ]
    for thread in threads:
        thread.start()
    assert main(["knn", "--data-files", "data", "--input-files", "Q", "--output-file", "answers", "--k", "3"]) == 0
    for thread in threads:
        thread.join(timeout=60)
    assert main([*KNN, "--k", "3"]) == 0
    assert read == [(folder / "out").read_text()]


def test_the_speed_is_reported_after_as_many_batches(capsys):
    assert main([*KNN, "--batch-size", "7", "--report-interval", "2"]) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("300 vectors of 12 numbers in ")
    assert [line.split(" batches in ")[0] for line in err[1:-1]] == ["2", "4", "6"]
    assert all(line.endswith(" vectors a second") for line in err[1:-1])
    assert err[-1] == "out: 40 lines"


def test_ctrl_c_leaves_the_old_lines(folder, monkeypatch):
    (folder / "out").write_text("old")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(dsstne.neighbors.Index, "search", interrupt)
    assert main(KNN) == 130
    assert (folder / "out").read_text() == "old"
    assert json.dumps(sorted(path.name for path in folder.iterdir())) == '["D", "Q", "out"]'
