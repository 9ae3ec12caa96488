"""All workers of Dask compute recommendations and values of layers, into complete Parquet files."""

import itertools
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array
import dask.bag
import pyarrow.parquet
import scipy.sparse
from clusters import OPTIONS, frozen, local_cluster, matrix, wait_until, working
from test_bad_luck_values import badly_answered

import dsstne
import dsstne.dask
from dsstne import _dask_files, _dask_jobs, _dask_session

X = matrix(100)


@pytest.fixture(scope="module")
def client():
    with local_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def model():
    return dsstne.fit(X, progress=False, **OPTIONS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.arrow"
    dsstne.Dataset(X).save(path)
    return str(path)


def blocks():
    return [X[:30], X[30:31], X[31:60], X[60:]]


FORMS = {
    "a matrix": lambda client, saved: X,
    "a path": lambda client, saved: saved,
    "a Dataset of a file": lambda client, saved: dsstne.Dataset.open(saved),
    "futures": lambda client, saved: client.scatter(blocks()),
    "a dask.bag": lambda client, saved: dask.bag.from_sequence(blocks(), npartitions=2),
    "a dask.array": lambda client, saved: dask.array.concatenate(
        [dask.array.from_delayed(dask.delayed(one), one.shape, one.dtype) for one in blocks()]
    ),
}


def lists(folder):
    return pyarrow.parquet.read_table(folder).to_pydict()


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_the_lists_are_those_of_the_model(client, model, saved, tmp_path, form):
    done = dsstne.dask.recommend(
        client, model, FORMS[form](client, saved), 5, output=tmp_path / "out", rows_per_partition=40
    )
    ids, scores = model.recommend(X, 5)
    found = lists(tmp_path / "out")
    assert found["row"] == list(range(100))
    assert found["items"] == ids.tolist()
    assert np.array_equal(np.array(found["scores"], np.float32), scores)
    assert sum(one["rows"] for one in done) == 100
    assert [one["partition"] for one in done] == list(range(len(done)))
    assert sorted(one["file"] for one in done) == sorted(str(path) for path in (tmp_path / "out").iterdir())
    assert len(done) > 1
    assert "part-00001.parquet" in str(done)


def test_types_are_small_and_fixed(client, model, tmp_path):
    dsstne.dask.recommend(client, model, X, 5, output=tmp_path / "a")
    dsstne.dask.predict(client, model, X, "hidden1", output=tmp_path / "b")
    schemas = [pyarrow.parquet.read_schema(next((tmp_path / folder).iterdir())) for folder in "ab"]
    types = {field.name: str(field.type) for schema in schemas for field in schema}
    assert types["row"] == "int64"
    assert types["items"].endswith("int32>")
    assert types["scores"].endswith("float>")
    assert types["values"].endswith("float>[8]")


def test_options_are_those_of_a_predictor(client, model, tmp_path):
    dsstne.dask.recommend(client, model, X, 40, output=tmp_path / "a", filter_items=[3], exclude_seen=True)
    found = lists(tmp_path / "a")["items"]
    ids = model.recommend(X, 40, filter_items=[3])[0]
    assert found == [[item for item in row if item >= 0] for row in ids.tolist()]  # a list is shorter than k


@pytest.mark.parametrize("layer", ["hidden1", None])
def test_values_are_those_of_the_layer(client, model, saved, tmp_path, layer):
    dsstne.dask.predict(client, model, saved, layer, output=tmp_path / "out", rows_per_partition=33)
    found = np.array(lists(tmp_path / "out")["values"], np.float32)
    assert np.array_equal(found, model.predict(X, layer))


def test_names_stand_for_rows_and_items(client, tmp_path):
    frame = {"user": [f"u{n % 7}" for n in range(40)], "item": [f"i{n % 9}" for n in range(40)]}
    named = dsstne.Interactions.from_frame(frame)
    knn = dsstne.item_knn(named, progress=False)
    dsstne.Dataset(named).save(tmp_path / "named.arrow")
    knn.save(tmp_path / "knn.dsstne")
    for n, (model, data) in enumerate([(knn, named), (tmp_path / "knn.dsstne", tmp_path / "named.arrow")]):
        dsstne.dask.recommend(client, model, data, 2, output=tmp_path / f"{n}", rows_per_partition=3)
        found = lists(tmp_path / f"{n}")
        assert found["row"] == named.row_names.tolist()
        ids, _ = knn.recommend(named.matrix, 2)
        assert found["items"] == [[knn.items[item] for item in row if item >= 0] for row in ids]
    other = dsstne.Interactions.from_frame({"user": ["a"] * 9, "item": [f"j{n}" for n in range(9)]})
    with pytest.raises(dsstne.InvalidArgumentError, match="X has other items than the model"):
        dsstne.dask.recommend(client, knn, other, 2, output=tmp_path / "other")


def test_no_rows_make_an_empty_file(client, model, tmp_path):
    (one,) = dsstne.dask.recommend(client, model, X[:0], output=tmp_path / "out")
    assert one["rows"] == 0
    assert lists(tmp_path / "out") == {"row": [], "items": [], "scores": []}


def test_partitions_of_another_call_are_replaced_only_on_demand(client, model, tmp_path):
    dsstne.dask.recommend(client, model, X, output=tmp_path / "out", rows_per_partition=20)
    with pytest.raises(
        dsstne.InvalidArgumentError, match="has 5 partitions, such as part-00000.parquet, of another call"
    ):
        dsstne.dask.recommend(client, model, X, output=tmp_path / "out")
    dsstne.dask.recommend(client, model, X[:10], output=tmp_path / "out", overwrite=True)
    assert lists(tmp_path / "out")["row"] == list(range(10))


def test_what_dead_workers_have_left_is_removed_later(client, model, tmp_path):
    old, new = (tmp_path / f".dsstne-1234abcd-00000-{n}-1.tmp" for n in (1, 2))
    for file in (old, new):
        file.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    dsstne.dask.recommend(client, model, X, output=tmp_path)
    assert not old.exists()
    assert new.exists()  # somebody may write to it


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"X": []}, "X is an empty list"),
        ({"X": None}, "X must be one matrix"),
        ({"X": {"input": X}}, "X must be one matrix"),
        ({"X": dask.bag.from_sequence([X, X[:, :7]], npartitions=2)}, "block 1 has 7 columns and block 0 has 40"),
        ({"X": X[:, :7]}, "X has 7 columns and the layer of the model has 40"),
        ({"model": 3}, "model must be a Model or the path of one, not 3"),
        ({"k": 0}, "k must be at least 1"),
        ({"k": 41}, "k is 41"),
        ({"rows_per_partition": 0}, "rows_per_partition must be at least 1"),
        ({"overwrite": 1}, "overwrite must be True or False"),
        ({"wait": 1.0}, "no option 'wait'"),
        ({"filter_item": [1]}, "did you mean 'filter_items'"),
        ({"resources": {"GPU": 1}}, "none of the 4 workers has GPU=1"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_wrong_arguments_are_refused_in_words(client, model, tmp_path, given, words):
    usual = {"model": model, "X": X, "output": tmp_path / "out"}
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        dsstne.dask.recommend(client, **{**usual, **given})
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["X", "model", "k", "output", "rows_per_partition", "overwrite", "filter_items"])
@pytest.mark.filterwarnings("ignore")
def test_odd_values_are_taken_or_refused_in_words(client, model, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    number = itertools.count()

    def call(word, value):
        given = {"model": model, "X": X, "output": f"out{next(number)}", name: value}
        if word != "1" or name != "rows_per_partition":
            dsstne.dask.recommend(client, **given)

    assert not badly_answered(call)


def test_paths_that_workers_do_not_see_are_named(client, model, tmp_path):
    none = tmp_path / "none"
    for given in ({"model": none}, {"X": none}, {"output": none / "out"}):
        usual = {"model": model, "X": X, "output": tmp_path / "out"}
        (name,) = given
        with pytest.raises(
            dsstne.MissingFileError, match=rf"{name}: .*none: no such f\w+ on worker tcp://.* workers see"
        ):
            dsstne.dask.recommend(client, **{**usual, **given})
    with pytest.raises(
        dsstne.NotFoundError, match="no computed layer 'h'; did you mean 'hidden1'|no computed layer 'h'"
    ):
        dsstne.dask.predict(client, model, X, "h", output=tmp_path / "out")


# ---- bad luck ----


def temporary(folder):
    """The process that writes a temporary file now, and the file."""
    for file in Path(folder).glob(".dsstne-*.tmp"):
        return int(file.name.split("-")[3]), file
    return None


def wide(rows=60_000, items=400):
    return scipy.sparse.random_array((rows, items), density=0.02, format="csr", rng=1, dtype=np.float32)


def test_a_worker_that_wakes_up_late_replaces_no_file_of_a_later_call(tmp_path):
    place = tmp_path / "part-00000.parquet"
    place.write_text("of a later call")
    part = _dask_files.Part("predict", {}, None, None, str(tmp_path), "1234abcd", rows=2)

    def unwanted():
        raise _dask_jobs._StopError

    with pytest.raises(_dask_jobs._StopError):
        _dask_files._write_file(part, iter([(X[:2], np.arange(2))]), lambda X: {}, {}, unwanted)
    state = _dask_jobs.state_of(place)
    place.write_text("of an even later call")
    _dask_files._clear(str(tmp_path), [(place.name, state)])
    assert [file.read_text() for file in tmp_path.iterdir()] == ["of an even later call"]


@pytest.mark.slow
def test_the_partition_of_a_frozen_worker_is_done_by_another_one(tmp_path, monkeypatch):
    monkeypatch.setattr(_dask_session, "SILENT", 4.0)
    monkeypatch.setattr(_dask_session, "_LOOK", 0.5)
    data = wide(30_000)
    model = dsstne.fit(data[:1000], hidden=[8], epochs=1, progress=False, devices="cpu")

    def freeze():
        pid, _ = wait_until(lambda: (tmp_path / "out").exists() and temporary(tmp_path / "out"))
        os.kill(pid, signal.SIGSTOP)
        (tmp_path / "frozen").write_text(str(pid))

    thread = threading.Thread(target=freeze)
    with local_cluster(2) as client, frozen(tmp_path / "frozen"):
        thread.start()
        done = dsstne.dask.predict(client, model, data, output=tmp_path / "out", rows_per_partition=10_000)
        thread.join()
    assert [one["rows"] for one in done] == [10_000] * 3
    found = np.array(lists(tmp_path / "out")["values"], np.float32)
    assert np.array_equal(found, model.predict(data))


@pytest.mark.long
@pytest.mark.parametrize("form", ["a matrix", "a path"])
def test_the_partition_of_a_killed_worker_is_done_again_with_the_same_bytes(client, tmp_path, form):
    data = wide()
    model = dsstne.fit(data[:1000], hidden=[8], epochs=1, progress=False, devices="cpu")
    if form == "a path":
        dsstne.Dataset(data).save(tmp_path / "x.arrow")
        data = tmp_path / "x.arrow"
    whole = dict.fromkeys(["rows_per_partition"], 15_000)
    dsstne.dask.predict(client, model, data, output=tmp_path / "a", **whole)

    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        work = pool.submit(dsstne.dask.predict, client, model, data, output=tmp_path / "b", **whole)
        pid, _ = wait_until(lambda: (tmp_path / "b").exists() and temporary(tmp_path / "b"))
        os.kill(pid, signal.SIGKILL)
        done = work.result(timeout=60)
    assert len(done) == 4
    wait_until(lambda: not temporary(tmp_path / "b"), what="the end of temporary files")
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in "ab"]
    assert files[0] == files[1] == [f"part-0000{n}.parquet" for n in range(4)]
    for name in files[0]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_ctrl_c_ends_the_work_and_leaves_no_part_of_a_file(client, tmp_path, monkeypatch):
    data = wide(120_000)
    model = dsstne.fit(data[:1000], hidden=[8], epochs=1, progress=False, devices="cpu")
    settle = _dask_session.Session.settle

    def interrupted(session, tasks, *more):
        if len(tasks) > 1:  # Ctrl-C while partitions are written
            pid, _ = wait_until(lambda: temporary(tmp_path / "out"))
            os.kill(pid, signal.SIGKILL)  # and a worker dies, which leaves its file
            raise KeyboardInterrupt
        settle(session, tasks, *more)

    monkeypatch.setattr(_dask_session.Session, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dsstne.dask.predict(client, model, data, output=tmp_path / "out", rows_per_partition=20_000)
    wait_until(lambda: len(client.run(os.getpid, on_error="ignore")) == 4)
    wait_until(lambda: not working(client))
    wait_until(lambda: not list((tmp_path / "out").glob("*.tmp")))
    for file in (tmp_path / "out").iterdir():
        assert pyarrow.parquet.read_metadata(file).num_rows == 20_000
    assert len(list((tmp_path / "out").iterdir())) < 6
