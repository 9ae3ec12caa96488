"""Locks of index files: several processes that number new labels in one index."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

import dsstne
from dsstne._commands import locks
from dsstne.cli import main

# generateNetCDF on a disk where an index takes a while to be written, so that commands without locks would interfere.
SLOW = """
import sys, time
from dsstne import textfile
from dsstne.cli import main
write, seconds = textfile.write_index, float(sys.argv[1])
def slow(path, labels):
    print("writing", flush=True)
    time.sleep(seconds)
    write(path, labels)
textfile.write_index = slow
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def generate(n, features=None):
    features = features or f"f{n}"
    return ["generateNetCDF", "-d", "x", "-i", f"T{n}", "-o", f"{n}.nc", "-f", features, "-s", "samples", "-c"]


def start(seconds, arguments):
    command = [sys.executable, "-c", SLOW, str(seconds), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("processes", [2, 8])
def test_no_label_is_lost_and_no_number_is_given_twice(folder, processes):
    for n in range(processes):
        own = "".join(f"sample{n}-{k}\ta:b\n" for k in range(50))
        (folder / f"T{n}").write_text(f"everybody\ta\n{own}")
    started = [start(0.2, generate(n)) for n in range(processes)]
    errors = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0] * processes, errors
    labels = dsstne.read_index("samples").tolist()  # which refuses a number or a label that is there twice
    assert sorted(labels) == sorted(["everybody", *(f"sample{n}-{k}" for n in range(processes) for k in range(50))])
    for n in range(processes):
        rows = dsstne.netcdf.read(f"{n}.nc").rows
        assert rows == labels[: len(rows)]
    assert "samples: waiting for another command that uses this index" in "".join(errors)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


@pytest.mark.long
def test_a_killed_process_blocks_nobody(folder):
    for n in range(2):
        (folder / f"T{n}").write_text(f"sample{n}\ta\n")
    holder = start(600, generate(0))
    assert holder.stdout.readline() == "writing\n"
    assert (folder / ".samples.lock").exists()
    waiting = start(0, generate(1))
    assert "waiting" in waiting.stderr.readline()
    assert waiting.poll() is None
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert waiting.wait(timeout=60) == 0
    waiting.communicate()
    assert dsstne.read_index("samples").tolist() == ["sample1"]
    assert not (folder / ".samples.lock").exists()


def test_ctrl_c_ends_the_waiting(folder):
    (folder / "T0").write_text("a\tb\n")
    with locks.held(["samples"]):
        waiting = start(0, generate(0))
        assert "waiting" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=60)[1] == "dsstne generateNetCDF: interrupted\n"
        assert waiting.returncode == 130
    assert os.listdir(folder) == ["T0"]


def test_locks_in_different_orders_do_not_wait_for_each_other_for_ever(folder):
    code = "import sys, time\nfrom dsstne._commands import locks\n"
    code += "for _ in range(200):\n    with locks.held(sys.argv[1:]):\n        pass\n"
    names = (["a", "b"], ["b", "a", "./a"])
    started = [subprocess.Popen([sys.executable, "-c", code, *paths], stderr=subprocess.PIPE) for paths in names]
    assert [(process.communicate(timeout=120), process.returncode)[1] for process in started] == [0, 0]
    assert os.listdir(folder) == []


def test_a_link_has_the_lock_of_its_index(folder):
    (folder / "link").symlink_to("samples")
    (folder / "T0").write_text("a\tb\n")
    with locks.held(["samples"]), locks.held(["other"]):
        assert sorted(os.listdir(folder)) == [".other.lock", ".samples.lock", "T0", "link"]
        waiting = start(0, [*generate(0)[:-2], "link", "-c"])
        assert "link: waiting" in waiting.stderr.readline()
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert (folder / "samples").read_text() == "a\t0\n"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_said_once(folder, capsys, monkeypatch, number):
    def refuse(descriptor, operation):
        raise OSError(number, os.strerror(number))

    (folder / "T0").write_text("a\tb\n")
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert main(generate(0)) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "has no locks" in line]
    assert len(lines) == 1
    assert sorted(os.listdir(folder)) == ["0.nc", "T0", "f0", "samples"]


def test_a_lock_that_cannot_be_opened_is_an_error(folder, capsys):
    (folder / "T0").write_text("a\tb\n")
    (folder / ".samples.lock").symlink_to("elsewhere")
    assert main(generate(0)) == 1
    assert "samples: its lock, the file" in capsys.readouterr().err
    assert sorted(os.listdir(folder)) == [".samples.lock", "T0"]


def test_other_errors_of_a_lock_are_errors(folder, capsys, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (folder / "T0").write_text("a\tb\n")
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert main(generate(0)) == 1
    assert "Input/output error" in capsys.readouterr().err


def test_an_index_that_is_only_read_is_not_locked(folder):
    (folder / "T0").write_text("a\tb\n")
    dsstne.write_index("f0", ["b"])
    with locks.held(["f0"]):
        assert main(generate(0)[:-1]) == 0


CONFIG = '{"Layers": [{"Name": "I", "N": "auto"}, {"Name": "H", "N": 2}, {"Name": "O", "N": "auto"}]}'


def test_training_makes_missing_indexes_before_it_trains_and_then_holds_no_lock(folder):
    (folder / "config.json").write_text(CONFIG)
    (folder / "T0").write_text("a\tx:y\nb\tx\n")
    (folder / "T1").write_text("c\tz\n")
    command = [sys.executable, "-m", "dsstne", "train", "-c", "config.json", "-i", "T0", "-o", "T0", "-n", "n.dsstne"]
    command += ["-e", "1000000000", "--features", "f0", "--samples", "samples"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as training:
        assert training.stderr.readline().startswith("epoch 1/")
        assert dsstne.read_index("f0").tolist() == ["x", "y"]
        assert main(generate(1)) == 0
        assert training.poll() is None
        training.send_signal(signal.SIGINT)
        training.communicate(timeout=60)
    assert dsstne.read_index("samples").tolist() == ["a", "b", "c"]
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_two_trainings_with_one_missing_index_number_its_labels_once(folder):
    (folder / "config.json").write_text(CONFIG)
    (folder / "T0").write_text("a\tx:y\nb\tx\n")
    (folder / "T1").write_text("b\ty:x\na\ty\n")
    started = []
    for n in range(2):
        files = ["-i", f"T{n}", "-o", f"T{n}", "-n", f"{n}.dsstne", "--samples", "samples", "--features", "f"]
        started.append(start(0.3, ["train", "-c", "config.json", "-e", "1", *files]))
    assert [(process.communicate(timeout=120)[1], process.returncode)[1] for process in started] == [0, 0]
    models = [dsstne.load(f"{n}.dsstne").items.tolist() for n in range(2)]
    assert models[0] == models[1] == dsstne.read_index("f").tolist()


def test_a_dry_run_makes_no_lock(folder):
    (folder / "config.json").write_text(CONFIG)
    (folder / "T0").write_text("a\tx\n")
    files = ["-i", "T0", "-o", "T0", "-n", "n.nc", "--samples", "samples"]
    with locks.held(["samples"]):
        before = time.monotonic()
        assert main(["train", "-c", "config.json", *files, "--dry-run"]) == 0
        assert time.monotonic() - before < 60
