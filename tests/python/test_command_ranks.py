"""Commands that mpirun or srun starts several times, with the variables of the launchers set by hand."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dsstne._commands import ranks
from dsstne.cli import main

OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "{n}", "OMPI_COMM_WORLD_LOCAL_SIZE": "{n}", "OMPI_COMM_WORLD_RANK": "{r}"}
HYDRA = {"PMI_SIZE": "{n}", "PMI_RANK": "{r}", "MPI_LOCALNRANKS": "{n}", "MPI_LOCALRANKID": "{r}"}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "3",
    "SLURM_NTASKS": "{n}",
    "SLURM_STEP_NUM_TASKS": "{n}",
    "SLURM_NNODES": "1",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_PROCID": "{r}",
}
LAUNCHERS = {
    "mpirun": OPEN_MPI,
    "mpirun with a namespace": {**OPEN_MPI, "PMIX_NAMESPACE": "prterun-host-123@1"},
    "mpiexec": HYDRA,
    "srun": SLURM,
    "srun with PMI-2": {**SLURM, "PMI_SIZE": "{n}", "PMI_RANK": "{r}"},
    "mpirun in a step": {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", **OPEN_MPI},
    "mpiexec in a step": {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", **HYDRA},
}
KNN = ["knn", "--data-files", "D", "--input-files", "D", "--k", "2", "--output-file"]

# rank 0 is slow, or does something else in the place of its work
PROGRAM = """import os, signal, sys, time
from dsstne._commands import knn
from dsstne.cli import main
kind = os.environ["KIND"]
def run(given):
    with open("worked", "a") as file:
        file.write(f"{given.devices}\\n")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "waits":
        time.sleep(600)
    if kind == "code":
        raise SystemExit(42)
    time.sleep(1)
knn.run = run
sys.exit(main())
"""


def environment(launcher, rank, count=3):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
    return {
        **kept,
        "CUDA_VISIBLE_DEVICES": "",
        **{name: value.format(r=rank, n=count) for name, value in launcher.items()},
    }


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("OMPI_", "PMI", "SLURM_"))]:
        monkeypatch.delenv(name)
    X = np.random.default_rng(0).standard_normal((20, 4))
    (tmp_path / "D").write_text("".join(f"k{n}\t{' '.join(map(str, row))}\n" for n, row in enumerate(X.tolist())))
    return tmp_path


@pytest.fixture
def start(folder):
    """Starts ranks of a job and, when the test ends, ends those that are left."""
    started = []

    def run(launcher, rank, *command, count=3, **more):
        given = command or (sys.executable, "-m", "dsstne", *KNN, "out")
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(given, env={**environment(launcher, rank, count), **more}, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ended(processes, timeout=60):
    """Returns exit statuses and what the processes wrote to stderr."""
    outputs = [process.communicate(timeout=timeout)[1] for process in processes]
    return [process.returncode for process in processes], outputs


@pytest.mark.long
@pytest.mark.parametrize("kind", ["mpirun", "mpiexec", "srun"])
def test_rank_0_works_and_the_others_wait_for_it(folder, start, kind):
    launcher = LAUNCHERS[kind]
    others = [start(launcher, rank) for rank in (2, 1)]
    time.sleep(0.5)
    assert all(process.poll() is None for process in others), "there is no rank 0 yet"
    statuses, errors = ended([start(launcher, 0), *others])
    assert statuses == [0, 0, 0]
    used = "the CPU, because no GPU can be used"
    line = f"{kind} has started 3 processes: the first one works on {used}; the others wait for it"
    assert errors[0].splitlines()[0] == line
    assert errors[1:] == ["", ""]
    assert len((folder / "out").read_text().splitlines()) == 20
    assert main([*KNN, "alone"]) == 0
    assert (folder / "out").read_text() == (folder / "alone").read_text()


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_process_knows_its_rank(kind):
    for rank in range(3):
        found = ranks.job_of(environment(LAUNCHERS[kind], rank))
        assert (found.ranks, found.rank, found.is_local) == (3, rank, True)
        assert found.launcher.program == kind.split(" ")[0]


@pytest.mark.long
def test_rank_0_waits_for_ranks_that_begin_late(start):
    first = start(SLURM, 0)
    early = start(SLURM, 1)
    time.sleep(2)
    assert first.poll() is None, "one rank has not been told"
    assert early.poll() is None, "it could go on to a command whose rank 0 is this one"
    late = start(SLURM, 2)
    assert ended([first, early, late])[0] == [0, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "srun"])
def test_commands_one_after_the_other_meet_one_by_one(folder, start, launcher):
    """Each rank is a shell of its own, as with mpirun sh -c; the second command fails."""
    command = " ".join(KNN)
    script = f"alias d='{sys.executable} -m dsstne'\n" + "\n".join(
        [f"d {command} a && echo one", f"d {command} none/b; echo $?", f"d {command} a && echo three"]
    )
    shells = [start(LAUNCHERS[launcher], rank, "sh", "-c", script) for rank in (1, 0, 2)]
    outputs = [shell.communicate(timeout=120) for shell in shells]
    assert [output[0] for output in outputs] == ["one\n1\nthree\n"] * 3
    assert [("there is no folder" in output[1]) for output in outputs] == [False, True, False]


def test_the_exit_status_of_rank_0_is_that_of_all(start):
    command = (sys.executable, "-m", "dsstne", "knn", "--data-files", "none", "--input-files", "D")
    statuses, errors = ended([start(HYDRA, rank, *command) for rank in range(3)])
    assert statuses == [1, 1, 1]
    assert "none: no such file" in errors[0]
    assert errors[1:] == ["", ""]
    command = (sys.executable, "-m", "dsstne", "knn", "--data-fils", "D")
    statuses, errors = ended([start(HYDRA, rank, *command) for rank in range(3)])
    assert statuses == [2, 2, 2]
    assert "there is no flag --data-fils" in errors[0]
    assert errors[1:] == ["", ""]
    command = (sys.executable, "-c", PROGRAM, *KNN, "out")
    assert ended([start(HYDRA, rank, *command, KIND="code") for rank in range(3)])[0] == [42, 42, 42]


def test_nobody_waits_for_a_rank_0_that_was_killed(folder, start):
    command = (sys.executable, "-c", PROGRAM, *KNN, "out")
    others = [start(SLURM, rank, *command, KIND="killed") for rank in (1, 2)]
    time.sleep(1)
    statuses, errors = ended([start(SLURM, 0, *command, KIND="killed"), *others], timeout=20)
    assert statuses == [-signal.SIGKILL, 1, 1]
    assert all("rank 0 of this job of srun has ended without an exit status" in error for error in errors[1:])
    assert (folder / "worked").read_text() == "cpu\n"


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_rank_0_and_ranks_that_wait(folder, start, number, status):
    command = (sys.executable, "-c", PROGRAM, *KNN, "out")
    processes = [start(SLURM, rank, *command, KIND="waits") for rank in (0, 1, 2)]
    while not (folder / "worked").exists():
        time.sleep(0.1)
    time.sleep(1)
    processes[1].send_signal(number)
    assert ended([processes[1]], timeout=20)[0] == [status]
    processes[0].send_signal(number)
    assert ended([processes[0], processes[2]], timeout=20)[0] == [status, status]


def test_a_single_rank_is_an_ordinary_process(start, capsys):
    statuses, errors = ended([start(OPEN_MPI, 0, count=1)])
    assert statuses == [0]
    assert "processes" not in errors[0]


ALONE = {
    "salloc": {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NNODES": "2"},
    "sbatch": {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_PROCID": "0"},
    "an interactive step": {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
    "a rank of a step whose number was unset": {**SLURM, "SLURM_PROCID": "", "PMI_SIZE": "{n}", "PMI_RANK": "{r}"},
    "no numbers": {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "many"},
    "a rank that there cannot be": {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "3"},
    "nothing": {},
}


@pytest.mark.parametrize("given", ALONE.values(), ids=ALONE)
def test_a_process_outside_of_a_step_is_alone(given):
    assert ranks.job_of(environment(given, 0)) is None


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "mpirun -np 1"),
        ({**HYDRA, "MPI_LOCALNRANKS": "1"}, "mpiexec -n 1"),
        ({**SLURM, "SLURM_STEP_NUM_NODES": "3", "SLURM_NNODES": "3"}, "srun --ntasks=1"),
    ],
)
def test_several_hosts_are_refused_once(monkeypatch, capsys, folder, given, remedy):
    for rank in range(3):
        for name, value in environment(given, rank).items():
            monkeypatch.setenv(name, value)
        assert main([*KNN, "out"]) == 1
        err = capsys.readouterr().err
        if rank:
            assert err == ""
        else:
            assert "has started 3 processes on several hosts, and dsstne uses the devices of one host" in err
            assert err.endswith(f"start one process with {remedy}\n")
    assert not (folder / "out").exists()


def job(count=4):
    return ranks.job_of(environment(OPEN_MPI, 0, count))


@pytest.mark.parametrize(("there", "used"), [(8, 4), (4, 4), (2, 2), (1, 1)])
def test_rank_0_takes_a_gpu_for_each_rank(monkeypatch, capsys, there, used):
    names = [f"cuda:{n}" for n in range(there)]
    monkeypatch.setattr("dsstne.devices.cuda_devices", lambda: names)
    assert ranks.devices(None, job()) == names[:used]
    text = f"mpirun has started 4 processes: the first one works on {', '.join(names[:used])}; the others wait for it\n"
    assert capsys.readouterr().err == text


def test_devices_that_are_named_are_taken(capsys):
    assert ranks.devices("auto", job()) == "auto"
    assert ranks.devices(["cuda:1", "cuda:0"], job()) == ["cuda:1", "cuda:0"]
    assert ranks.devices(None, None) == "auto"
    assert ranks.devices("cpu", None) == "cpu"
    assert capsys.readouterr().err == ""


def test_named_devices_win_in_a_job(folder, start):
    command = (sys.executable, "-c", PROGRAM, *KNN, "out", "--devices", "cpu:2")
    statuses, errors = ended([start(SLURM, rank, *command, KIND="ends") for rank in range(3)])
    assert (statuses, errors) == ([0, 0, 0], ["", "", ""])
    assert (folder / "worked").read_text() == "cpu:2\n"


def lead(monkeypatch, work, patience=30.0):
    monkeypatch.setattr(ranks, "_PATIENCE", patience)
    return ranks._lead(job(2), b"\0dsstne/test/" + str(Path.cwd()).encode(), work)


def test_rank_0_does_not_wait_for_ever_for_ranks_that_do_not_come(monkeypatch):
    begin = time.monotonic()
    assert lead(monkeypatch, lambda _: 5, patience=0.5) == 5
    assert 0.4 < time.monotonic() - begin < 10


def test_a_rank_that_does_not_find_rank_0_is_told_why(monkeypatch, capsys):
    monkeypatch.setattr(ranks, "_SEARCH", 0.3)
    for name, value in environment(SLURM, 1).items():
        monkeypatch.setenv(name, value)
    assert main([*KNN, "out"]) == 1
    err = capsys.readouterr().err
    assert "srun has started 3 processes, and rank 1 does not find rank 0" in err
    assert err.endswith("to run this command on its own, unset SLURM_PROCID\n")


def test_the_same_command_twice_at_a_time_is_an_error(monkeypatch):
    from dsstne.errors import InvalidStateError

    def again(_):
        with pytest.raises(InvalidStateError, match="rank 0 of this job of mpirun runs the same command already"):
            lead(monkeypatch, lambda _: 0)
        return 0

    assert lead(monkeypatch, again, patience=0.0) == 0


def test_a_rank_that_has_gone_does_not_disturb_the_others(monkeypatch):
    name = b"\0dsstne/gone/" + str(Path.cwd()).encode()
    answers = []

    def work(_):
        with ranks.socket.socket(ranks.socket.AF_UNIX) as gone:
            gone.connect(name)
        thread.start()
        time.sleep(0.3)
        return 9

    thread = threading.Thread(target=lambda: answers.append(ranks._follow(job(3), name)))
    assert ranks._lead(job(3), name, work) == 9
    thread.join(timeout=20)
    assert answers == [9]


def test_ranks_of_other_commands_jobs_and_steps_have_other_names(monkeypatch):
    names = set()
    for more in ({}, {"SLURM_JOB_ID": "78"}, {"SLURM_STEP_ID": "4"}, {"SLURM_STEP_ID": ""}):
        for name, value in environment({**SLURM, **more}, 1).items():
            monkeypatch.setenv(name, value)
        names |= {ranks._name(ranks.job_of(os.environ), command) for command in (["a", "b"], ["a"], ["ab"])}
    assert len(names) == 12
    assert all(len(name) < 100 for name in names)
