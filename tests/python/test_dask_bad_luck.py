"""Workers that die, freeze or run out of memory, and a scheduler that is gone: an error in words, or a new attempt."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed")

import clusters
import dask
import distributed
from clusters import OPTIONS, begun, for_long, left, local_cluster, matrix, same, wait_until

import dsstne
import dsstne.dask
from dsstne import _dask_session
from dsstne._dask_cluster import workers_of

X = matrix()


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as made:
        yield made


@pytest.fixture
def client(cluster):
    """The client of a cluster whose nannies have started what the test before has killed, as the client knows."""

    def all_there():
        known = workers_of(cluster)
        return len(known) == 2 and set(cluster.run(os.getpid, on_error="ignore")) == set(known)

    wait_until(all_there)
    return cluster


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.arrow"
    dsstne.Dataset(X).save(path)
    return str(path)


def works(client):
    """Reports whether another job on the same cluster gives the right model."""
    return same(dsstne.dask.fit(client, X, **OPTIONS), dsstne.fit(X, progress=False, **OPTIONS))


def test_a_killed_worker_is_named_and_the_next_job_works(client, saved, tmp_path):
    job = dsstne.dask.submit(client, saved, **for_long(tmp_path / "told"))
    pid = begun(job, tmp_path / "told")
    (address,) = [address for address, one in client.run(os.getpid).items() if one == pid]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(
        dsstne.ClusterError, match=r"died .* while it did it.* With retries=3 and checkpoint="
    ) as caught:
        job.result(timeout=30)
    assert f"job {job.key}: the worker {address}" in str(caught.value)
    assert works(client)


@pytest.mark.long
def test_a_job_that_may_not_begin_again_does_not_on_a_busy_cluster(saved, tmp_path):
    with dask.config.set({"distributed.admin.low-level-log-length": 2}), local_cluster(2) as client:
        options = for_long(tmp_path / "told", share=True)
        job = dsstne.dask.submit(client, saved, **options)
        pid = begun(job, tmp_path / "told")
        others = [dsstne.dask.submit(client, saved, share=True, function=clusters.where) for _ in range(4)]
        for other in others:
            other.result()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(dsstne.ClusterError, match="died or was taken for dead while it did it"):
            job.result(timeout=30)
        job.cancel()
        del job, others, other
        noted = client.cluster.scheduler.task_metadata  # where jobs note that they begin
        wait_until(lambda: not [key for key in noted if key.startswith("dsstne-")], what=f"the end of {noted}")


def test_a_matrix_that_was_only_on_the_killed_worker_is_told(client, tmp_path):
    job = dsstne.dask.submit(client, X, **for_long(tmp_path / "told"))
    pid = begun(job, tmp_path / "told")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(dsstne.ClusterError, match="Dask has dropped it .* on a worker that died"):
        job.result(timeout=30)


@pytest.mark.long
@pytest.mark.parametrize("form", ["a path", "a matrix"])
def test_a_job_goes_on_from_its_checkpoint_with_the_same_bits(client, saved, tmp_path, form):
    options = {**OPTIONS, "epochs": 8}
    tell = clusters.Tell(str(tmp_path / "told"), at=5, deed=clusters.kill_myself)
    data = saved if form == "a path" else X
    made = dsstne.dask.fit(client, data, **options, callbacks=tell, checkpoint=tmp_path / "run.checkpoint", retries=1)
    assert (tmp_path / "told.done").exists()  # so a worker was killed
    assert same(made, dsstne.fit(X, progress=False, **options))
    assert [record["epoch"] for record in made.history] == list(range(1, 9))


def test_an_old_checkpoint_is_not_taken_for_one_of_this_job(client, saved, tmp_path):
    path = tmp_path / "run.checkpoint"
    dsstne.fit(X, progress=False, **{**OPTIONS, "seed": 9}, checkpoint=path)
    tell = clusters.Tell(str(tmp_path / "told"), at=1, deed=clusters.kill_myself)
    options = {**OPTIONS, "checkpoint": path, "checkpoint_every": 2}  # killed before the first one is written
    made = dsstne.dask.fit(client, saved, **options, callbacks=tell, retries=1)
    assert same(made, dsstne.fit(X, progress=False, **OPTIONS))


@pytest.mark.filterwarnings("ignore:training goes on without a new checkpoint")
def test_a_full_disk_is_told_and_the_model_is_kept(client, saved, tmp_path):
    model = dsstne.fit(X, progress=False, **OPTIONS)
    with clusters.full_disks(client):
        with pytest.raises(dsstne.InputOutputError, match=r"cannot save .*run.checkpoint") as caught:
            dsstne.dask.fit(client, saved, **OPTIONS, checkpoint=tmp_path / "run.checkpoint")
        assert same(caught.value.model, model)
        with pytest.raises(dsstne.InputOutputError, match=r"/lists/.*File too large on worker tcp://"):
            dsstne.dask.recommend(client, model, saved, 5, output=tmp_path / "lists")
    assert [path.name for path in tmp_path.rglob("*")] == ["lists"]
    assert works(client)


@pytest.mark.long
def test_a_job_that_kills_every_worker_ends(saved):
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), local_cluster(3) as client:
        job = dsstne.dask.submit(client, saved, function=clusters.die, retries=100)
        with pytest.raises(dsstne.ClusterError, match=r"2 workers died one after the other .* last one was tcp://"):
            job.result(timeout=60)
        assert works(client)


@pytest.mark.slow
def test_a_frozen_worker_is_given_up(saved, tmp_path):
    tell = clusters.Tell(str(tmp_path / "told"), at=1, deed=clusters.stop_myself)
    with dask.config.set({"distributed.scheduler.worker-ttl": "3s"}), local_cluster(2) as client:
        job = dsstne.dask.submit(client, saved, **{**OPTIONS, "epochs": 3}, callbacks=tell)
        pid = begun(job, tmp_path / "told")
        try:
            with pytest.raises(dsstne.ClusterError, match="died or was taken for dead"):
                job.result(timeout=60)
            assert works(client)
        finally:
            with contextlib.suppress(ProcessLookupError):  # its nanny has done it
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_its_nanny_kills_for_its_memory_is_told(saved):
    with local_cluster(1, memory_limit="500MB") as client:
        job = dsstne.dask.submit(client, saved, function=clusters.eat, bytes_=1_000_000_000)
        with pytest.raises(dsstne.ClusterError, match="took more memory than its limit"):
            job.result(timeout=60)
        assert works(client)


@pytest.mark.long
@pytest.mark.parametrize("form", ["a matrix", pytest.param("a path", marks=pytest.mark.slow)])
def test_work_for_which_no_worker_is_left_is_given_up(saved, form):
    with local_cluster(1) as client:
        name = client.scheduler_info()["workers"].popitem()[1]["name"]
        data = saved if form == "a path" else X
        job = dsstne.dask.submit(client, data, function=clusters.eat, bytes_=1, workers=name)
        wait_until(lambda: clusters.working(client))
        client.cluster.scale(0)
        since = time.monotonic()
        words = "no worker that could do it was there for 30 s" if form == "a path" else "Dask has dropped it"
        with pytest.raises(dsstne.ClusterError, match=words):
            job.result(timeout=120)
        assert time.monotonic() - since < 60


# ---- workers that freeze ----


@pytest.fixture
def impatient(monkeypatch):
    """Workers that give no sign of life are missed after some seconds, not after half a minute."""
    monkeypatch.setattr(_dask_session, "SILENT", 4.0)
    monkeypatch.setattr(_dask_session, "_LOOK", 0.5)


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True], ids=["retries=0", "retries=1"])
def test_a_job_of_a_frozen_worker_begins_again_or_is_told(impatient, saved, tmp_path, again):
    tell = clusters.Tell(str(tmp_path / "told"), at=2, deed=clusters.stop_myself)
    options = {**OPTIONS, "epochs": 4, "checkpoint": tmp_path / "run.checkpoint"}
    with local_cluster(2) as client, clusters.frozen(tmp_path / "told"):
        job = dsstne.dask.submit(client, saved, **options, callbacks=tell, retries=int(again), share=True)
        if again:
            made = job.result(timeout=60)
            assert [record["epoch"] for record in made.history] == [1, 2, 3, 4]
            assert same(made, dsstne.fit(X, progress=False, **{**OPTIONS, "epochs": 4}))
        else:
            with pytest.raises(dsstne.ClusterError, match="died or was taken for dead while it did it"):
                job.result(timeout=60)


@pytest.mark.slow
def test_a_frozen_worker_without_another_one_is_told(impatient, tmp_path):
    path, words = tmp_path / "frozen", "has given no sign of life .* and there is no other one"
    with local_cluster(1) as client, clusters.frozen(path), pytest.raises(dsstne.ClusterError, match=words):
        _dask_session.Session(client, None, None, "a call").call(clusters.freeze_once, str(path))


@pytest.mark.long
@pytest.mark.parametrize("named", [False, True], ids=["any worker", "a worker by its name"])
def test_work_goes_to_workers_that_came_later(impatient, tmp_path, named):
    with local_cluster(2) as client, clusters.frozen(tmp_path / "frozen"):
        before = client.run(os.getpid)
        name = str(workers_of(client)[min(before)]["name"])
        session = _dask_session.Session(client, name if named else None, None, "a call")
        os.kill(before[min(before)], signal.SIGKILL)
        task = session.task(clusters.freeze_once, str(tmp_path / "frozen")) if not named else session.task(os.getpid)
        found = session.result(task)
        now = workers_of(client)
        if named:
            assert found not in before.values()
        else:
            assert found in now
            assert Path(tmp_path / "frozen").exists()


@pytest.mark.long
def test_a_restart_of_the_workers_is_told(client, saved, tmp_path):
    job = dsstne.dask.submit(client, saved, **for_long(tmp_path / "told"))
    begun(job, tmp_path / "told")
    client.restart()
    with pytest.raises(dsstne.ClusterError, match="restarted"):
        job.result(timeout=30)
    assert works(client)


# ---- the scheduler ----


@pytest.fixture
def processes(tmp_path):
    """A scheduler and a worker as processes of their own, and a client."""
    before = clusters.children()
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(dsstne.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
    dask_ = [sys.executable, "-m", "dask"]
    log = tmp_path / "scheduler.log"
    started = []

    def start(*arguments, **more):
        started.append(subprocess.Popen([*dask_, *arguments], env=environment, cwd=tmp_path, **more))
        return started[-1]

    with log.open("w") as out:
        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", stderr=out)
        address = wait_until(lambda: re.search(r"tcp://127.0.0.1:\d+", log.read_text())).group()
        start("worker", address, "--nthreads", "1", "--no-dashboard", stderr=subprocess.DEVNULL)
        client = distributed.Client(address, set_as_default=False, timeout=5)
        client.wait_for_workers(1, timeout=60)
        try:
            yield scheduler, client
        finally:
            client.close(timeout=1)
            for one in started:
                one.send_signal(signal.SIGCONT)
            scheduler.kill()
            scheduler.wait()
            try:
                started[1].wait(60)  # it ends by itself without its scheduler
            finally:
                started[1].kill()
    assert left(before) == []


@pytest.mark.long
@pytest.mark.parametrize("fate", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_is_gone_ends_the_wait_and_the_training(processes, saved, tmp_path, fate):
    scheduler, client = processes
    job = dsstne.dask.submit(client, saved, **for_long(tmp_path / "told"))
    pid = begun(job, tmp_path / "told")
    scheduler.send_signal(fate)
    since = time.monotonic()
    with pytest.raises(dsstne.ClusterError, match="the connection to the scheduler is lost"):
        job.result(timeout=60)
    assert time.monotonic() - since < 30
    if fate == signal.SIGKILL:
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the worker")
    with pytest.raises(dsstne.ClusterError):
        dsstne.dask.fit(client, X)
