"""dsstne.dask.search: the results of dsstne.search, whatever the workers do."""

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("optuna")

import clusters
import dask
import distributed
from clusters import local_cluster, wait_until, working
from test_search import SMALL, SPACE, X, bits, found, results

import dsstne
import dsstne.dask
from dsstne import _candidates, _dask_search, _dask_session, _recipes, _search_run, _store


@pytest.fixture(scope="module")
def cluster():
    patient = {"distributed.scheduler.worker-ttl": "600s", "distributed.scheduler.allowed-failures": 5}
    with dask.config.set(patient), local_cluster(2) as made:
        yield made


@pytest.fixture
def client(cluster):
    """The client of a cluster whose nannies have started what the test before has killed."""
    wait_until(lambda: len(cluster.run(os.getpid, on_error="ignore")) == 2)
    return cluster


@pytest.fixture(scope="module")
def local():
    """The same search in this process."""
    return found(jobs=2)


def searched(client, store, space=SPACE, **options):
    return dsstne.dask.search(client, X, space, store=store, **{"budget": "12 trials", "jobs": 2, **SMALL, **options})


# ---- the same results ----


def test_the_result_is_that_of_a_search_without_a_cluster(client, local, tmp_path):
    model = searched(client, tmp_path)
    assert results(model) == results(local)
    assert bits(model) == bits(local)
    assert model.report.code == local.report.code
    assert sorted(os.listdir(tmp_path)) == ["best.dsstne", "journal.jsonl", "lock"]


@pytest.mark.parametrize("form", ["path", "futures", "interactions"])
def test_data_may_be_where_workers_find_them(client, local, tmp_path, form):
    if form == "path":
        dsstne.Dataset(X).save(tmp_path / "x.arrow")
        given = str(tmp_path / "x.arrow")
    elif form == "futures":
        given = client.scatter([X[:50], X[50:]])
    else:
        given = dsstne.Interactions(X, item_names=[f"item {n}" for n in range(X.shape[1])])
    options = {"store": tmp_path / "store", "budget": "4 trials", "jobs": 2, **SMALL}
    model = dsstne.dask.search(client, given, SPACE, **options)
    assert results(model) == results(found(budget="4 trials", jobs=2))
    assert (model.items[1] == "item 1") if form == "interactions" else model.items is None


def test_without_a_refit_the_model_is_that_of_the_best_trial(client, tmp_path):
    assert bits(searched(client, tmp_path, refit=False)) == bits(found(jobs=2, refit=False))


def test_hyperband_on_a_cluster(client, tmp_path):
    wanted = results(found(jobs=2, brackets=3))
    assert results(searched(client, tmp_path, brackets=3)) == wanted


@pytest.mark.long
def test_a_budget_of_seconds_is_kept(client, tmp_path):
    begun = time.monotonic()
    report = searched(client, tmp_path, budget="3 s").report
    assert len(report.table) > 1
    assert time.monotonic() - begun < 15  # generous: a busy machine


def test_tasks_are_kilobytes(client, tmp_path, monkeypatch):
    sent = []
    real = distributed.Client.submit

    def submit(self, function, *arguments, **options):
        sent.append(len(pickle.dumps(arguments[0])))
        return real(self, function, *arguments, **options)

    monkeypatch.setattr(distributed.Client, "submit", submit)
    searched(client, tmp_path, budget="6 trials")
    assert len(sent) > 6
    assert max(sent) < 1000


def in_a_task(store):
    return results(dsstne.dask.search(None, X, SPACE, store=store, budget="6 trials", jobs=2, **SMALL))


@pytest.mark.long
def test_a_search_inside_a_task_gives_up_its_slot(client, tmp_path):
    # Four searches on two workers of one thread: each waits for tasks that need its slot.
    tasks = [client.submit(in_a_task, str(tmp_path / f"{n}"), pure=False) for n in range(4)]
    wanted = results(found(budget="6 trials", jobs=2))
    assert client.gather(tasks) == [wanted] * 4


def endless(store):
    """Searches for two seconds, in a task, with a trial that would never end."""
    options = {**SMALL, "epochs": 10**7, "rungs": 1}
    try:
        dsstne.dask.search(None, X, [{"hidden": 4}], store=store, budget="2 s", **options)
    except dsstne.CancelledError as error:
        return str(error)


@pytest.mark.long
def test_a_budget_of_seconds_is_kept_inside_a_task_whose_slot_a_trial_has(tmp_path):
    with local_cluster(1) as client:
        task = client.submit(endless, str(tmp_path), pure=False)
        assert "the budget was over" in task.result(timeout=15)
        wait_until(lambda: not working(client), what="the end of the trial")


# ---- bad luck ----


def test_a_trial_that_fails_is_listed(client, tmp_path):
    listed = [{"hidden": 4}, {"loss": "squared", "learning_rate": 1e30}, {"hidden": 8}]
    notes = {row["trial"]: row["note"] for row in searched(client, tmp_path, listed).report.table}
    assert "NotFiniteError" in notes[1]
    assert notes[0] == notes[2] == ""


def slowly(monkeypatch=None):
    """Makes trials of a worker take a tenth of a second longer, so that something can happen meanwhile."""
    real = _candidates.advance

    def advance(*arguments, **options):
        time.sleep(0.1)
        return real(*arguments, **options)

    _candidates.advance = advance


@pytest.mark.long
@pytest.mark.parametrize("fate", ["SIGKILL", pytest.param("SIGSTOP", marks=pytest.mark.slow)])
def test_workers_that_die_or_freeze_do_not_change_the_result(local, tmp_path, fate):
    with dask.config.set({"distributed.scheduler.allowed-failures": 9}), local_cluster(2) as client:
        client.run(slowly)
        workers = list(client.run(os.getpid).values())
        watch = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import os, signal, sys, time\n"
                "journal, pid, fate = sys.argv[1], int(sys.argv[2]), getattr(signal, sys.argv[3])\n"
                "while not os.path.exists(journal) or open(journal).read().count(chr(10)) < 4:\n"
                "    time.sleep(0.01)\n"
                "os.kill(pid, fate)\n",
                str(tmp_path / "journal.jsonl"),
                str(workers[0]),
                fate,
            ]
        )
        begun = time.monotonic()
        try:
            model = searched(client, tmp_path)
        finally:
            watch.communicate()
            if fate == "SIGSTOP":
                os.kill(workers[0], signal.SIGKILL)
        assert time.monotonic() - begun < 60
        assert results(model) == results(local)
        assert bits(model) == bits(local)
        if fate == "SIGKILL":
            wait_until(lambda: len(client.run(os.getpid, on_error="ignore")) == 2)
            assert workers[0] not in client.run(os.getpid).values()


def greedy(path):
    """Makes the first trial in the cluster take memory until the nanny of its worker kills it."""
    real = _candidates.advance

    def advance(*arguments, **options):
        with contextlib.suppress(FileExistsError):
            Path(path).touch(exist_ok=False)
            clusters.eat(None, bytes_=1_000_000_000)
        return real(*arguments, **options)

    _candidates.advance = advance


@pytest.mark.slow
def test_a_worker_that_its_nanny_kills_for_its_memory_does_not_change_the_result(local, tmp_path):
    with local_cluster(2, memory_limit="600MB") as client:
        workers = set(client.run(os.getpid).values())
        client.run(greedy, str(tmp_path / "begun"))
        model = searched(client, tmp_path / "store")
        assert (tmp_path / "begun").exists()
        wait_until(lambda: len(left := set(client.run(os.getpid, on_error="ignore").values())) == 2 and left != workers)
    assert results(model) == results(local)
    assert bits(model) == bits(local)


def note_warnings(path):
    """Makes a worker write what each warning of the search is about to a file."""

    def note(text, **_):
        with Path(path).open("a") as file:
            file.write(f"{text.partition(';')[0]}\n")

    _store.warnings = types.SimpleNamespace(warn=note)


@pytest.mark.long
def test_full_disks_of_the_workers_are_told_or_cost_time_only(local, tmp_path):
    with local_cluster(2) as client:
        client.run(note_warnings, str(tmp_path / "warnings"))
        with (
            clusters.full_disks(client),
            pytest.raises(dsstne.InputOutputError, match=r"cannot save .*/data/.*file too large"),
        ):
            searched(client, tmp_path / "store")
        with clusters.full_disks(client, 26_400):  # enough for the parts of the data, too little for large candidates
            assert results(searched(client, tmp_path / "store")) == results(local)
    assert set((tmp_path / "warnings").read_text().splitlines()) == {"a paused candidate could not be written"}


def freeze_in(names, folder):
    """Makes a worker freeze when it begins one of these functions for the first time in the cluster."""

    def freezing(name, real):
        def freeze(*arguments, **options):
            path = Path(folder) / name
            with contextlib.suppress(FileExistsError):
                path.touch(exist_ok=False)
                path.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGSTOP)
            return real(*arguments, **options)

        return freeze

    for name in names:
        setattr(_search_run if name == "split" else _recipes.Recipe, name, freezing(name, FREEZING[name]))


FREEZING = {"split": _search_run.split, "make": _recipes.Recipe.make}


@pytest.mark.slow
def test_a_search_goes_on_if_the_workers_of_the_split_and_of_the_refit_freeze(local, tmp_path, monkeypatch):
    monkeypatch.setattr(_dask_session, "SILENT", 4.0)
    monkeypatch.setattr(_dask_session, "_LOOK", 0.5)
    with dask.config.set({"distributed.scheduler.worker-ttl": "600s"}), local_cluster(3) as client:
        client.run(freeze_in, ["split", "make"], str(tmp_path))
        try:
            model = searched(client, tmp_path / "store")
        finally:
            for name in FREEZING:
                with contextlib.suppress(OSError):
                    os.kill(int((tmp_path / name).read_text()), signal.SIGKILL)
    assert results(model) == results(local)
    assert bits(model) == bits(local)


@pytest.mark.long
def test_a_restart_of_the_workers_does_not_change_the_result(local, tmp_path):
    with local_cluster(2) as client:
        journal = tmp_path / "journal.jsonl"

        def restart():
            wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 3)
            client.restart()

        thread = threading.Thread(target=restart)
        thread.start()
        model = searched(client, tmp_path)
        thread.join()
    assert results(model) == results(local)
    assert bits(model) == bits(local)


@pytest.mark.slow
def test_workers_that_come_during_a_search_train_too(tmp_path, monkeypatch):
    monkeypatch.setattr(_dask_session, "_LOOK", 0.5)
    with local_cluster(1) as client:
        busy = []

        def grow():
            wait_until(lambda: working(client), what="the first trial")
            client.cluster.scale(2)
            busy.append(wait_until(lambda: sum(map(bool, client.processing().values())) == 2))

        thread = threading.Thread(target=grow)
        thread.start()
        with pytest.raises(dsstne.CancelledError, match="the budget was over"):
            searched(client, tmp_path, budget="15 s", jobs=None, epochs=10**7, rungs=1)
        thread.join()
        assert busy


def fail_to_refit(fate, path):
    """Makes the next refit of a worker tell its process in a file, and then die, fail or go on for long."""
    real = _recipes.Recipe.make

    def make(self, X, common):
        if os.path.exists(path):
            return real(self, X, common)
        Path(path).write_text(str(os.getpid()))
        if fate == "death":
            time.sleep(0.5)  # until the scheduler knows who has begun
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "an error":
            raise dsstne.NotFiniteError("diverged")
        return real(self.but(epochs=10**7), X, common)

    _recipes.Recipe.make = make


@pytest.mark.long
@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ("Ctrl-C", "KeyboardInterrupt"),
        ("an error", "NotFiniteError diverged"),
        ("death", "ClusterError refit: the worker .* died"),
    ],
)
def test_if_the_refit_fails_the_model_is_the_best_as_it_was_tried(client, tmp_path, monkeypatch, fate, reason):
    begun, wanted = tmp_path / "begun", found(jobs=2, refit=False)
    client.run(fail_to_refit, fate, str(begun))
    monkeypatch.setattr(_dask_search, "_RETRIES", 0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if fate == "Ctrl-C":

            def interrupt():
                wait_until(begun.exists, 60)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
        model = searched(client, tmp_path / "store")
    finally:
        signal.signal(signal.SIGINT, before)
    assert bits(model) == bits(wanted)
    assert re.search(f"there was no refit, .* as it was tried: {reason}", " ".join(model.report.notes))
    wait_until(lambda: len(client.run(os.getpid, on_error="ignore")) == 2)
    wait_until(lambda: not working(client), what="the end of the refit")
    assert bits(searched(client, tmp_path / "store")) == bits(found(jobs=2))  # the same call makes up for it


@pytest.mark.long
def test_if_the_scheduler_is_gone_before_the_refit_the_model_is_the_best_as_it_was_tried(tmp_path, monkeypatch):
    real = _dask_search._Tasks.refit

    def refit(self, *arguments):
        self._session.client.close()
        return real(self, *arguments)

    monkeypatch.setattr(_dask_search._Tasks, "refit", refit)
    with local_cluster(1) as client:
        model = searched(client, tmp_path, budget="4 trials")
    assert bits(model) == bits(found(budget="4 trials", jobs=2, refit=False))
    assert "ClusterError" in model.report.notes[-1]


@pytest.mark.long
def test_trainings_that_wait_for_a_worker_keep_the_budget_too(client, tmp_path):
    begun = time.monotonic()
    with pytest.raises(dsstne.CancelledError, match="the budget was over before the first trial was measured"):
        searched(client, tmp_path, budget="3 s", jobs=8, epochs=10**7, rungs=1)
    assert time.monotonic() - begun < 8  # four trainings after each other would have 3 s each
    wait_until(lambda: not working(client), what="the end of the trainings")


CALLER = """
import sys
sys.path.insert(0, {folder!r})
import distributed, dsstne.dask, test_dask_search
client = distributed.Client({address!r})
client.run(test_dask_search.slowly)
print("begun", flush=True)
try:
    model = test_dask_search.searched(client, {store!r})
    print(*model.report.notes)
except dsstne.DsstneError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "fate", [*(pytest.param(fate, marks=pytest.mark.slow) for fate in ("the scheduler is gone", "Ctrl-C")), "a kill"]
)
def test_a_search_goes_on_with_another_cluster(client, local, tmp_path, fate):
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:
        script = CALLER.format(folder=os.path.dirname(__file__), address=cluster.scheduler_address, store=str(tmp_path))
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        journal = tmp_path / "journal.jsonl"
        wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 4, 60)
        if fate == "the scheduler is gone":
            cluster.close()
        else:
            process.send_signal(signal.SIGINT if fate == "Ctrl-C" else signal.SIGKILL)
        out, error = process.communicate(timeout=60)
        if fate == "the scheduler is gone":
            assert "ClusterError" in out, error
            assert "connection to the scheduler is lost" in out
        elif fate == "Ctrl-C":
            assert "Ctrl-C ended the search" in out, error
    assert results(searched(client, tmp_path)) == results(local)


def test_a_store_in_use_and_impossible_resources_are_errors(client, tmp_path):
    with pytest.raises(dsstne.InvalidArgumentError, match="none of the 2 workers has GPU=99"):
        searched(client, tmp_path, resources={"GPU": 99})
    (tmp_path / "file").write_text("")
    with pytest.raises(dsstne.InputOutputError, match="store: .*file"):
        searched(client, tmp_path / "file")
    with pytest.raises(dsstne.InvalidDataError, match="too few to compare"):
        dsstne.dask.search(client, X[:4], SPACE, store=tmp_path, budget="2 trials", **SMALL)
    damaged = X.copy()
    damaged.data[0] = np.nan
    with pytest.raises(dsstne.InvalidDataError, match=r"row 0.*nan|NaN"):
        dsstne.dask.search(client, damaged, SPACE, store=tmp_path, budget="2 trials", **SMALL)
