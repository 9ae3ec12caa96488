"""Models are trained by workers of Dask as they are here, where the caller says, and several at the same time."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("distributed")

import clusters
import dask
import dask.array
import dask.bag
import distributed
from clusters import OPTIONS, for_long, left, local_cluster, matrix, same, told, wait_until, working
from emulated import emulated_driver
from test_bad_luck_values import badly_answered

import dsstne
import dsstne.dask
from dsstne import _dask_data, _dask_jobs, _dask_session

X = matrix()
LOCK = threading.Lock()  # nobody can pickle it


@pytest.fixture(scope="module")
def client():
    with local_cluster(resources={"GPU": 2}) as made:
        yield made


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.arrow"
    dsstne.Dataset(X).save(path)
    return str(path)


@pytest.fixture(scope="module")
def model():
    return dsstne.fit(X, progress=False, **OPTIONS)


# ---- data ----


def blocks():
    return [X[:25], X[25:26], X[26:]]


def lazy(n, meta=None):
    return dask.delayed(blocks()[n])


FORMS = {
    "a matrix": lambda client, saved: X,
    "an array": lambda client, saved: X.toarray(),
    "a Dataset": lambda client, saved: dsstne.Dataset(X),
    "Interactions": lambda client, saved: dsstne.Interactions(X),
    "a path": lambda client, saved: Path(saved),
    "a Dataset of a file": lambda client, saved: dsstne.Dataset.open(saved),
    "a future": lambda client, saved: client.scatter(X),
    "futures": lambda client, saved: client.scatter(blocks()),
    "delayed blocks": lambda client, saved: [lazy(n) for n in range(3)],
    "a dask.bag": lambda client, saved: dask.bag.from_sequence(blocks(), npartitions=2),
    "a dask.array": lambda client, saved: dask.array.concatenate(
        [dask.array.from_delayed(lazy(n), block.shape, block.dtype) for n, block in enumerate(blocks())]
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_a_worker_trains_with_the_bits_of_a_training_here(client, saved, model, form):
    made = dsstne.dask.fit(client, FORMS[form](client, saved), **OPTIONS)
    assert same(made, model)
    assert [record["epoch"] for record in made.history] == [1, 2]


def test_targets_and_validation_take_the_same_forms(client):
    held_out = matrix(20, seed=9)
    options = {**OPTIONS, "validation": (X[:20], held_out)}
    here = dsstne.fit(X, X.copy(), progress=False, **options)
    there = {**OPTIONS, "validation": (client.scatter(X[:20]), held_out)}
    made = dsstne.dask.fit(client, X, client.scatter(blocks()), **there)
    assert same(made, here)
    assert made.history[-1]["ndcg@20"] == here.history[-1]["ndcg@20"]


def test_targets_that_are_the_same_matrix_are_the_same_items(client):
    assert dsstne.dask.fit(client, X, X, **OPTIONS).same_items
    assert not dsstne.dask.fit(client, X, X.copy(), **OPTIONS).same_items


def test_several_inputs_are_a_mapping(client, saved):
    layers = [
        {"name": "a", "kind": "input", "size": 40},
        {"name": "b", "kind": "input", "size": 40},
        {"name": "h", "kind": "hidden", "sources": ["a", "b"], "size": 4},
        {"name": "out", "kind": "output", "size": 40},
    ]
    options = {"network": {"layers": layers}, "epochs": 1, "devices": "cpu"}
    here = dsstne.fit({"a": X, "b": X}, {"out": X}, progress=False, **options)
    assert same(dsstne.dask.fit(client, {"a": X, "b": saved}, {"out": X}, **options), here)


def test_names_of_items_come_back(client):
    frame = {"user": ["ann", "ann", "bob"], "item": ["tea", "rice", "tea"]}
    made = dsstne.dask.fit(client, dsstne.Interactions.from_frame(frame), function=dsstne.item_knn)
    assert made.items.tolist() == ["rice", "tea"]


def test_a_worker_opens_data_once(client, saved):
    name = next(iter(client.scheduler_info()["workers"].values()))["name"]
    futures = client.scatter(blocks())
    for data in (saved, futures):
        jobs = [dsstne.dask.submit(client, data, function=clusters.where, workers=name) for _ in range(2)]
        assert len({job.result()["data"] for job in jobs}) == 1


# ---- jobs ----


def test_jobs_run_beside_the_caller_and_each_gives_its_own_model(client, saved):
    jobs = [dsstne.dask.submit(client, saved, **{**OPTIONS, "seed": seed}) for seed in range(3)]
    made = [job.result() for job in jobs]
    assert all(job.done() and job.exception() is None for job in jobs)
    for seed, one in enumerate(made):
        assert same(one, dsstne.fit(X, progress=False, **{**OPTIONS, "seed": seed}))


def test_other_functions_make_models_too(client):
    made = dsstne.dask.fit(client, X, function=dsstne.item_knn, k=5)
    assert same(made, dsstne.item_knn(X, k=5, progress=False))


def test_jobs_of_one_node_take_turns(client, tmp_path):
    jobs = [
        dsstne.dask.submit(client, X, function=clusters.meet, hall=str(tmp_path), count=2, seconds=0.3)
        for _ in range(3)
    ]
    assert [job.result() for job in jobs] == [False] * 3


@pytest.mark.parametrize("how", [{"share": True}, {"resources": {"GPU": 1}}], ids=str)
def test_jobs_that_share_a_node_or_ask_for_resources_do_not(client, tmp_path, how):
    jobs = [
        dsstne.dask.submit(client, X, function=clusters.meet, hall=str(tmp_path), count=3, seconds=20, **how)
        for _ in range(3)
    ]
    assert [job.result() for job in jobs] == [True] * 3


def test_jobs_go_where_workers_says(client):
    known = client.scheduler_info()["workers"]
    for address, info in known.items():
        for workers in (address, info["name"], [str(info["name"])]):
            assert dsstne.dask.fit(client, X, function=clusters.where, workers=workers)["address"] == address


def test_a_job_computes_with_the_threads_of_its_worker_and_without_a_bar(client):
    made = dsstne.dask.fit(client, X, function=clusters.where)
    assert (made["threads"], made["devices"], made["progress"]) == (1, "auto", False)
    made = dsstne.dask.fit(client, X, function=clusters.where, threads=3, devices="cpu", progress=True)
    assert (made["threads"], made["devices"], made["progress"]) == (3, "cpu", True)


def test_a_job_that_takes_the_whole_resource_trains_on_all_devices(client):
    assert dsstne.dask.fit(client, X, function=clusters.where, resources={"GPU": 2})["devices"] == "all"
    assert dsstne.dask.fit(client, X, function=clusters.where, resources={"GPU": 1})["devices"] == "auto"


def test_jobs_that_take_parts_of_a_worker_get_threads_and_devices_of_their_own(monkeypatch):
    monkeypatch.setattr(_dask_jobs, "cuda_devices", lambda: [f"cuda:{n}" for n in range(4)])
    worker = SimpleNamespace(state=SimpleNamespace(total_resources={"GPU": 4}, nthreads=8))
    share = lambda n: _dask_jobs.given(worker, clusters.where, {"GPU": n})  # noqa: E731
    with share(1) as a, share(2) as b:
        with share(1) as c:
            assert [one["devices"] for one in (a, b, c)] == [["cuda:0"], ["cuda:1", "cuda:2"], ["cuda:3"]]
            assert [one["threads"] for one in (a, b, c)] == [2, 4, 2]
        with share(1) as c:
            assert c["devices"] == ["cuda:3"]
    assert not any(_dask_jobs._taken.values())


@pytest.mark.long
@pytest.mark.device
def test_jobs_train_on_cuda_devices_of_their_own(tmp_path, monkeypatch):
    real = os.environ.get("DSSTNE_TEST_DRIVER") == "real"
    for name, value in {} if real else {**emulated_driver(), "DSSTNE_CUDAEMU_DEVICES": "2"}.items():
        monkeypatch.setenv(name, value)
    count = 1 if real else 2
    with local_cluster(1, resources={"GPU": count}, threads_per_worker=2) as client:
        options = {"function": clusters.train_on, "hall": str(tmp_path)}
        jobs = [dsstne.dask.submit(client, X, **options, count=count, resources={"GPU": 1}) for _ in range(count)]
        devices = sorted(job.result() for job in jobs)
        assert devices == [[f"cuda:{n}"] for n in range(count)]
        every = dsstne.dask.fit(client, X, **options, count=1, resources={"GPU": count})
        assert every[:count] == [f"cuda:{n}" for n in range(count)]
        assert dsstne.dask.fit(client, X, **options, count=1) == ["cuda:0"]  # without resources, the first


@pytest.mark.long
def test_jobs_go_to_different_hosts_while_there_are_some(tmp_path):
    made = {n: {"cls": distributed.Nanny, "options": {"host": f"127.0.0.{1 + n % 2}", "nthreads": 4}} for n in range(3)}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0", "host": "127.0.0.1"}}
    with (
        distributed.SpecCluster(workers=made, scheduler=scheduler, silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(3)
        jobs = [
            dsstne.dask.submit(client, X, function=clusters.meet, hall=str(tmp_path), count=2, seconds=20)
            for _ in range(2)
        ]
        assert [job.result() for job in jobs] == [True, True]


# ---- the end of jobs ----


def test_a_cancelled_job_stops_training(client, tmp_path):
    job = dsstne.dask.submit(client, X, **for_long(tmp_path / "told"))
    wait_until(told(tmp_path / "told"))
    assert not job.done()
    job.cancel()
    assert job.done()
    with pytest.raises(dsstne.CancelledError, match="was cancelled"):
        job.result()
    wait_until(lambda: not working(client))
    assert_still(tmp_path / "told")


def assert_still(path):
    before = told(path)()
    time.sleep(0.2)
    assert told(path)() == before


def test_a_job_that_nobody_refers_to_stops_training(client, tmp_path):
    job = dsstne.dask.submit(client, X, **for_long(tmp_path / "told"))
    wait_until(told(tmp_path / "told"))
    del job
    wait_until(lambda: not working(client))
    assert_still(tmp_path / "told")


def test_a_solver_stops_too(client):
    big = matrix(3000, 1500)
    job = dsstne.dask.submit(client, big, function=dsstne.factorize, factors=64, epochs=10**6, devices="cpu")
    wait_until(lambda: working(client))
    job.cancel()
    wait_until(lambda: not working(client))


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[3])
import clusters, distributed, dsstne.dask

client = distributed.Client(sys.argv[1])
try:
    dsstne.dask.fit(client, clusters.matrix(), **clusters.for_long(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.parametrize("ends", ["by Ctrl-C", "by SIGKILL"])
def test_a_training_ends_with_the_call_that_waits_for_it(client, tmp_path, ends):
    arguments = [client.scheduler.address, str(tmp_path / "told"), str(Path(__file__).parent)]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            wait_until(told(tmp_path / "told"))
            if ends == "by Ctrl-C":
                program.send_signal(signal.SIGINT)
                assert program.stdout.readline() == "interrupted\n"  # the program, and its client, go on
            else:
                program.kill()
            wait_until(lambda: not working(client))
            assert_still(tmp_path / "told")
        finally:
            program.kill()


def test_a_result_that_takes_long_can_be_waited_for_again(client, tmp_path):
    job = dsstne.dask.submit(client, X, **for_long(tmp_path / "told"))
    with pytest.raises(TimeoutError, match="still under way after 0.2 s"):
        job.result(timeout=0.2)
    assert not job.done()
    job.cancel()


# ---- tasks inside tasks ----


@pytest.mark.long
def test_tasks_may_train_on_the_cluster_even_if_they_fill_it(client, model):
    tasks = [client.submit(clusters.fit_inside, X, **OPTIONS, pure=False) for _ in range(5)]
    assert all(same(one, model) for one in client.gather(tasks))


def test_a_job_may_train_on_the_cluster(client, model):
    assert same(dsstne.dask.fit(client, X, function=clusters.fit_inside, **OPTIONS), model)


def test_the_task_inside_stops_with_the_task_outside(client, tmp_path):
    task = client.submit(clusters.fit_inside, X, **for_long(tmp_path / "told"), pure=False)
    wait_until(told(tmp_path / "told"))
    task.cancel()
    wait_until(lambda: not working(client))


def waits_in_vain(X, path):
    """Waits for a short time for a training that never ends, in a task or a job; returns what it is told."""
    job = dsstne.dask.submit(None, X, **for_long(path))
    try:
        job.result(timeout=3)
    except TimeoutError as error:
        return str(error)
    finally:
        job.cancel()


@pytest.mark.long
@pytest.mark.parametrize("inside", ["a task", "a job"])
def test_a_wait_inside_a_task_ends_in_time_though_the_training_has_its_slot(tmp_path, inside):
    with local_cluster(1, threads_per_worker=1 if inside == "a task" else 2) as client:
        if inside == "a task":
            outer = client.submit(waits_in_vain, X, str(tmp_path / "told"), pure=False)
        else:
            outer = dsstne.dask.submit(client, X, function=waits_in_vain, path=str(tmp_path / "told"))
        assert "still under way" in outer.result(timeout=60)
        assert told(tmp_path / "told")()
        wait_until(lambda: not working(client))


# ---- models ----


def test_large_models_come_from_the_worker_itself(client, model, monkeypatch):
    asked = []
    gather = distributed.Client.gather
    monkeypatch.setattr(distributed.Client, "gather", lambda *a, **k: (asked.append(k), gather(*a, **k))[1])
    assert same(dsstne.dask.fit(client, X, limit=1000, **OPTIONS), model)
    assert same(dsstne.dask.fit(client, X, **OPTIONS), model)
    assert [one["direct"] for one in asked] == [True, None]


def test_large_models_come_by_a_shared_folder(client, model, tmp_path):
    assert same(dsstne.dask.fit(client, X, folder=tmp_path, **OPTIONS), model)
    assert list(tmp_path.iterdir()) == []  # it is not large
    job = dsstne.dask.submit(client, X, folder=tmp_path, limit=1000, **OPTIONS)
    assert same(job.result(), model)
    (file,) = tmp_path.iterdir()
    assert same(dsstne.load(file), model)
    assert file.name == f"{job.key}.dsstne"
    file.unlink()
    with pytest.raises(dsstne.MissingFileError, match="which this process does not see; give a folder="):
        job.result()


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: dsstne.dask.fit(c, X, resources={"GPU": 8}), r"none of the 4 workers has GPU=8; they have GPU=2"),
        (lambda c: dsstne.dask.fit(c, X, resources={"TPU": 1}), r"has TPU=1"),
        (lambda c: dsstne.dask.fit(c, X, resources={"GPU": -1}), r"resources\['GPU'\] must be above 0"),
        (lambda c: dsstne.dask.fit(c, X, resources=3), "resources must be a mapping"),
        (lambda c: dsstne.dask.fit(c, X, workers="gpu7"), "no worker with the address, name or host 'gpu7'"),
        (lambda c: dsstne.dask.fit(c, X, workers=[]), "workers is an empty list"),
        (lambda c: dsstne.dask.fit(c, X, workers=1.5), "workers must be a list of names"),
        (lambda c: dsstne.dask.fit(c, []), "X is an empty list; expected a path"),
        (lambda c: dsstne.dask.fit(c, None), "X is None"),
        (lambda c: dsstne.dask.fit(c, ""), "X is an empty path"),
        (lambda c: dsstne.dask.fit(c, "a\0b"), "contains a NUL character"),
        (lambda c: dsstne.dask.fit(c, [X, X]), "X is a list of csr_array; expected a path"),
        (lambda c: dsstne.dask.fit(c, dask.array.ones((4, 4), chunks=2)), r"divided by rows only: X.rechunk"),
        (
            lambda c: dsstne.dask.fit(c, dask.bag.from_sequence([X, X[:, :7]])),
            "block 1 has 7 columns and block 0 has 40",
        ),
        (lambda c: dsstne.dask.fit(c, X, learning_rat=1), r"no option 'learning_rat'; did you mean 'learning_rate'"),
        (lambda c: dsstne.dask.fit(c, X, function="fit"), "function must be a function"),
        (
            lambda c: dsstne.dask.fit(c, X, callbacks=lambda *_, lock=LOCK: lock),
            "cannot be sent to a worker",
        ),
        (lambda c: dsstne.dask.fit(c, X, retries=-1), "retries must be at least 0"),
        (lambda c: dsstne.dask.fit(c, X, share=1), "share must be True or False"),
        (lambda c: dsstne.dask.fit(c, X, limit=-1), "limit must be at least 0"),
        (lambda c: dsstne.dask.fit(c, X, loss="softmin"), "did you mean .*softmax"),  # found by the worker
        (lambda c: dsstne.dask.fit("tcp://1", X), "client must be a distributed.Client or None, not 'tcp://1'"),
        (lambda c: dsstne.dask.submit(c, X).result(timeout=-1), "timeout must be above 0"),
    ],
)
def test_wrong_arguments_are_refused_in_words(client, call, words):
    with pytest.raises(dsstne.InvalidArgumentError, match=words) as caught:
        call(client)
    assert caught.value.__cause__ is None
    assert caught.value.model is None


def test_a_path_that_the_worker_does_not_see_is_named_with_the_worker(client, tmp_path):
    with pytest.raises(
        dsstne.MissingFileError, match=r"X: .*none.arrow: no such file on worker tcp://.* all workers see"
    ):
        dsstne.dask.fit(client, tmp_path / "none.arrow")
    with pytest.raises(dsstne.MissingFileError, match=r"folder: .*none: no such folder on worker tcp://"):
        dsstne.dask.fit(client, X, folder=tmp_path / "none", **OPTIONS)


@pytest.mark.parametrize("limit", [16_000_000, 1000])
def test_an_error_of_a_callback_brings_the_model_up_to_the_limit(client, tmp_path, limit):
    tell = clusters.Tell(str(tmp_path / "told"), 1, clusters.raise_mine)
    with pytest.raises(clusters.MineError, match="of a callback") as caught:
        dsstne.dask.fit(client, X, callbacks=tell, limit=limit, **OPTIONS)
    if limit > 1000:
        assert same(caught.value.model, dsstne.fit(X, progress=False, **{**OPTIONS, "epochs": 1}))
    else:
        assert caught.value.model is None
        assert len(pickle.dumps(caught.value)) < 1000


def test_another_version_is_refused(client):
    session = _dask_session.Session(client, None, None, "job")
    work = _dask_jobs.Work("job", b"", {}, version="0.0.0")
    job = dsstne.dask.Job(session, _dask_jobs.sent(session, work, _dask_data.Parcel(session), "job"), None, 0)
    with pytest.raises(dsstne.ClusterError, match=r"has dsstne \S+ and the client 0.0.0; install one version"):
        job.result()


def test_a_function_that_workers_do_not_have_is_named(client, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def make(X):\n    return X\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    words = "could not read the task .*only_here.* workers need the same packages"
    with pytest.raises(dsstne.ClusterError, match=words):
        dsstne.dask.fit(client, X, function=only_here.make)


def test_a_cluster_without_workers_a_closed_client_and_none_at_all_are_told():
    none = pytest.raises(dsstne.ClusterError, match=r"has no workers; start one on each node, as in `dask worker")
    with local_cluster(0, processes=False) as client, none:
        dsstne.dask.fit(client, X)
    with pytest.raises(dsstne.ClusterError, match="the client is closed"):
        dsstne.dask.fit(client, X)
    with pytest.raises(dsstne.ClusterError, match="no client of Dask in this process"):
        dsstne.dask.fit(None, X)


def test_an_asynchronous_client_is_refused():
    import asyncio

    async def main():
        options = {"processes": False, "dashboard_address": ":0", "asynchronous": True}
        async with distributed.Client(**options) as client:
            with pytest.raises(dsstne.InvalidArgumentError, match="client is asynchronous"):
                dsstne.dask.fit(client, X)

    asyncio.run(main())


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["X", "targets", "function", "resources", "workers", "share", "retries", "folder", "limit"]
)
@pytest.mark.filterwarnings("ignore")
def test_odd_values_of_a_job_are_taken_or_refused_in_words(client, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)

    def call(_, value):
        given = {"X": X, "function": clusters.shapes, name: value}
        dsstne.dask.submit(client, given.pop("X"), **given).result(timeout=20)

    assert not badly_answered(call)


# ---- heartbeats ----


def silence(dask_scheduler):
    """Returns how long the scheduler has heard nothing of one of its workers."""
    return time.time() - min(worker.last_seen for worker in dask_scheduler.workers.values())


def train_for(client, seconds):
    """Trains a large network for some time; returns the longest time without a heartbeat of a worker."""
    big = matrix(400, 20_000)
    options = {"hidden": [256], "epochs": 10**6, "batch_size": 400, "devices": "cpu", "threads": 2}
    job = dsstne.dask.submit(client, big, **options, max_seconds=seconds)
    longest, end = 0.0, time.time() + seconds
    while time.time() < end:
        longest = max(longest, client.run_on_scheduler(silence))
        time.sleep(0.05)
    job.result()
    return longest


@pytest.mark.long
def test_a_worker_that_trains_answers_the_scheduler(client):
    assert train_for(client, 3) < 2.5  # a worker of a small cluster reports twice a second


@pytest.mark.slow
def test_a_worker_that_trains_for_minutes_answers_the_scheduler(client):
    assert train_for(client, 120) < 10


# ---- the package ----


@pytest.mark.long
def test_the_package_imports_no_dask_until_it_is_used(python):
    out = python(
        "import sys, dsstne\ndsstne.fit\nprint('dask' in sys.modules)\ndsstne.dask.fit\nprint('dask' in sys.modules)"
    )
    assert out.split() == ["False", "True"]
    assert "dask" not in dsstne.__all__  # an import of * would hide Dask's own module


def test_the_code_of_the_page_runs(client, tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "dask.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(code) == 4
    names = {"address": client.scheduler.address, "X": X, "folder": str(tmp_path)}
    settings = {"k=50": "k=5", "epochs=16": "epochs=1", 'checkpoint"': 'checkpoint", epochs=1'}
    try:
        for part in code:
            for written, short in settings.items():
                part = part.replace(written, short)
            exec(part, names)
    finally:
        names["client"].close()
    assert len(names["models"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "clicks.arrow",
        "lists",
        "run.checkpoint",
        "search",
        "vectors",
    ]


def test_without_dask_the_import_says_what_to_install(python):
    out = python(
        "import sys\nsys.modules['distributed'] = None\nimport dsstne\n"
        "try:\n    dsstne.dask\nexcept ImportError as error:\n    print(error)"
    )
    assert out == "dsstne.dask needs Dask and its scheduler: pip install dsstne[dask]\n"


def test_no_thread_is_left_here():
    assert [one.name for one in threading.enumerate() if one.name.startswith("dsstne-")] == []
    assert left(clusters.children()) == []
    assert np.isfinite(X.data).all()
