"""Recommender(store=): an estimator that pickles to a reference, for searches that send many of them to workers."""

import copy
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse

import dsstne

X = scipy.sparse.random_array((300, 80), density=0.1, format="csr", rng=0, dtype=np.float32)
PARTS = [X[:120], X[100:220], X[180:], X[:120]]


def recommender(store, **options):
    return dsstne.Recommender("network", **{"hidden": 16, "batch_size": 32, "store": store, **options})


def bits(estimator):
    return {name: estimator.model_.tensor(name).tobytes() for name in estimator.model_.tensors}


def test_a_pickle_is_a_reference_of_about_a_kilobyte(tmp_path):
    wide = scipy.sparse.random_array((50, 20_000), density=0.001, format="csr", rng=0, dtype=np.float32)
    kept, whole = (recommender(store, hidden=64).partial_fit(wide) for store in (str(tmp_path), None))
    assert len(pickle.dumps(kept)) < 2048
    assert len(pickle.dumps(whole)) > 4 * 2 * 64 * 20_000


@pytest.mark.parametrize("copied", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy, copy.copy])
def test_training_goes_on_with_the_same_bits(tmp_path, copied):
    one, other = recommender(str(tmp_path)), recommender(None)
    for part in PARTS:
        one, other = copied(one.partial_fit(part)), other.partial_fit(part)
    assert bits(one) == bits(other)
    assert [record["loss"] for record in one.model_.history] == [record["loss"] for record in other.model_.history]
    assert np.array_equal(one.predict(X), other.predict(X))


def test_training_by_steps_goes_on_with_the_same_bits(tmp_path):
    one, other = recommender(str(tmp_path)), recommender(None)
    for part, steps in zip(PARTS, (3, 1, 9, 4), strict=True):
        one, other = (
            pickle.loads(pickle.dumps(one.partial_fit(part, steps=steps))),
            other.partial_fit(part, steps=steps),
        )
    assert one.model_.step == 17
    assert bits(one) == bits(other)


def test_training_goes_on_after_the_model_was_used(tmp_path):
    one, other = recommender(str(tmp_path)).partial_fit(X), recommender(None).partial_fit(X)
    one = pickle.loads(pickle.dumps(one))
    one.score(X)
    assert bits(one.partial_fit(X)) == bits(other.partial_fit(X))


def test_options_count_in_each_call_as_without_a_store(tmp_path):
    one, other = recommender(str(tmp_path)), recommender(None)
    for part, rate in zip(PARTS, (0.01, 0.002, 0.02, 0.01), strict=True):
        one, other = (each.set_params(learning_rate=rate).partial_fit(part) for each in (one, other))
        one = pickle.loads(pickle.dumps(one))
    assert bits(one) == bits(other)


def test_a_training_that_is_done_again_has_the_same_bits_and_disturbs_no_other(tmp_path):
    first = recommender(str(tmp_path)).partial_fit(PARTS[0])
    one, other = (pickle.loads(pickle.dumps(copy.deepcopy(first).partial_fit(PARTS[1]))) for _ in range(2))
    assert bits(one) == bits(other)
    assert bits(pickle.loads(pickle.dumps(first))) == bits(first)


def test_a_copy_that_goes_on_leaves_the_file_of_the_original(tmp_path):
    base, plain = recommender(str(tmp_path)).partial_fit(X), recommender(None).partial_fit(X)
    copied = copy.deepcopy(base)
    other = copy.deepcopy(base)  # has no model in memory
    copied.partial_fit(X).partial_fit(X)
    for estimator in (base, other):
        assert bits(pickle.loads(pickle.dumps(estimator))) == bits(plain)
    plain.partial_fit(X)
    for estimator in (base, other):
        assert bits(pickle.loads(pickle.dumps(estimator)).partial_fit(X)) == bits(plain)


def test_copies_that_go_on_in_different_ways_delete_no_file_of_each_other(tmp_path):
    base = recommender(str(tmp_path)).partial_fit(X)
    slow = pickle.dumps(copy.deepcopy(base).set_params(learning_rate=0.01).partial_fit(X))  # as in another process
    fast = copy.deepcopy(base)
    for _ in range(4):
        fast.partial_fit(X)
    wanted = recommender(None).partial_fit(X).set_params(learning_rate=0.01).partial_fit(X)
    assert bits(pickle.loads(slow)) == bits(wanted)


def test_a_file_that_is_lost_is_written_again_from_memory(tmp_path):
    one, plain = recommender(str(tmp_path)).partial_fit(X), recommender(None).partial_fit(X).partial_fit(X)
    used = copy.deepcopy(one)
    used.predict(X)
    (tmp_path / one._kept.name).unlink()
    with pytest.warns(UserWarning, match="is not there any more. The model is written again, but the optimizer begins"):
        assert np.array_equal(pickle.loads(pickle.dumps(used)).predict(X), one.predict(X))
    assert bits(pickle.loads(pickle.dumps(one)).partial_fit(X)) == bits(plain)  # with the state of the optimizer
    assert bits(one.partial_fit(X)) == bits(plain)


def test_what_a_callback_has_interrupted_goes_on_with_the_same_bits(tmp_path):
    def interrupt(model, record):
        raise KeyboardInterrupt

    one, plain = recommender(str(tmp_path), callbacks=interrupt), recommender(None)
    with pytest.raises(KeyboardInterrupt):
        one.partial_fit(X)
    one = pickle.loads(pickle.dumps(one.set_params(callbacks="default")))
    assert bits(one.partial_fit(X)) == bits(plain.partial_fit(X).partial_fit(X))


def test_two_versions_are_kept(tmp_path):
    one = recommender(str(tmp_path))
    for _ in range(5):
        before = one
        one = copy.deepcopy(before).partial_fit(X)
    assert sorted(os.listdir(tmp_path)) == sorted([before._kept.name, one._kept.name])
    assert bits(pickle.loads(pickle.dumps(before))) != bits(one)


def test_files_over_the_limit_go_those_first_that_were_not_used(tmp_path):
    first, second = (recommender(str(tmp_path), random_state=seed).partial_fit(X) for seed in (1, 2))
    os.utime(tmp_path / second._kept.name, (1, 1))
    limit = int(2.1 * os.path.getsize(tmp_path / first._kept.name))
    third = recommender(str(tmp_path), random_state=3, disk_limit=limit).partial_fit(X)
    assert sorted(os.listdir(tmp_path)) == sorted([first._kept.name, third._kept.name])
    for odd in (-1, 1.5, "1 GB"):
        with pytest.raises(dsstne.InvalidArgumentError, match="disk_limit must be"):
            third.set_params(disk_limit=odd).partial_fit(X)


def test_over_the_limit_versions_that_were_trained_further_go_first(tmp_path):
    other = recommender(str(tmp_path), random_state=1).partial_fit(X)
    os.utime(tmp_path / other._kept.name, (1, 1))
    one = recommender(str(tmp_path)).partial_fit(X)
    one.set_params(disk_limit=int(2.5 * os.path.getsize(tmp_path / one._kept.name))).partial_fit(X)
    assert sorted(os.listdir(tmp_path)) == sorted([other._kept.name, one._kept.name])


def test_half_of_the_free_space_is_the_limit_unless_it_is_given(tmp_path, monkeypatch):
    first = recommender(str(tmp_path), random_state=1).partial_fit(X)
    size = os.path.getsize(tmp_path / first._kept.name)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("usage", (), {"free": size}))
    second = recommender(str(tmp_path), random_state=2).partial_fit(X)  # (1 + 2) / 2 files
    assert os.listdir(tmp_path) == [second._kept.name]


def test_without_its_store_an_estimator_pickles_whole_and_the_folder_may_go(tmp_path):
    best = pickle.loads(pickle.dumps(recommender(str(tmp_path / "store")).partial_fit(X)))  # as a search returns it
    text = pickle.dumps(best.set_params(store=None))
    shutil.rmtree(tmp_path / "store")
    assert bits(pickle.loads(text)) == bits(best) == bits(recommender(None).partial_fit(X))


@pytest.mark.parametrize("method", ["network", "linear", "factorize", "item_knn", "popularity"])
def test_a_fitted_estimator_of_any_method_is_a_reference_too(tmp_path, method):
    fitted = dsstne.Recommender(method, store=str(tmp_path)).fit(X)
    text = pickle.dumps(fitted)
    assert len(text) < 2048
    assert np.array_equal(pickle.loads(text).predict(X[:9]), fitted.predict(X[:9]))
    assert hasattr(pickle.loads(text), "transform") == hasattr(fitted, "transform")
    refitted = pickle.loads(text).fit(X[:50])
    assert not np.array_equal(refitted.predict(X[:9]), fitted.predict(X[:9]))


@pytest.mark.long
def test_another_process_loads_it(tmp_path):
    fitted = recommender(str(tmp_path / "store")).partial_fit(X)
    (tmp_path / "pickle").write_bytes(pickle.dumps(fitted))
    script = (
        "import pickle, sys, numpy as np, scipy.sparse\n"
        "X = scipy.sparse.random_array((300, 80), density=0.1, format='csr', rng=0, dtype=np.float32)\n"
        "one = pickle.load(open(sys.argv[1], 'rb')).partial_fit(X)\n"
        "print(one.predict(X[:3]).tobytes().hex())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "pickle"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == fitted.partial_fit(X).predict(X[:3]).tobytes().hex()


def test_without_a_model_nothing_is_written(tmp_path):
    assert pickle.loads(pickle.dumps(recommender(str(tmp_path / "store")))).hidden == 16
    assert not (tmp_path / "store").exists()
    with pytest.raises(AttributeError, match="no attribute 'model_'"):
        _ = recommender(str(tmp_path)).model_


def test_a_missing_store_is_an_error_that_names_it(tmp_path):
    store = tmp_path / "store"
    one = pickle.loads(pickle.dumps(recommender(str(store)).partial_fit(X)))
    for path in store.iterdir():
        path.unlink()
    for call in (lambda: one.predict(X), lambda: one.partial_fit(X), lambda: one.model_):
        with pytest.raises(dsstne.MissingFileError, match=rf"store: {store}: .*\.dsstne is not there on "):
            call()
    store.rmdir()
    with pytest.raises(dsstne.MissingFileError, match=rf"store: {store}: the folder is not there on "):
        one.predict(X)


def test_a_store_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(dsstne.InputOutputError, match="store: .*file"):
        recommender(str(tmp_path / "file")).partial_fit(X)
    with pytest.raises(dsstne.InvalidArgumentError, match="path must be a str or a path"):
        recommender(3).partial_fit(X)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(self, path, **_):
        path.write_bytes(b"half")
        raise dsstne.InputOutputError("no space left on device", 28, path)

    one = recommender(str(tmp_path)).partial_fit(X)
    monkeypatch.setattr(dsstne.Trainer, "save", full)
    with pytest.raises(dsstne.InputOutputError, match=f"store: {tmp_path}: no space left") as caught:
        one.partial_fit(X)
    assert caught.value.errno == 28
    assert len(os.listdir(tmp_path)) == 1
    monkeypatch.undo()
    assert pickle.loads(pickle.dumps(one)).predict(X).shape == X.shape


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(self, path, **_):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    one = recommender(str(tmp_path)).partial_fit(X)
    monkeypatch.setattr(dsstne.Trainer, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.partial_fit(X)
    assert len(os.listdir(tmp_path)) == 1


KILLED = """
import os, signal, sys, threading, numpy as np, scipy.sparse, dsstne
X = scipy.sparse.random_array((300, 80), density=0.1, format="csr", rng=0, dtype=np.float32)
save = dsstne.Trainer.save
def killed(self, path, **_):
    save(self, path)
    os.replace(path, path.with_name(f".{path.name}.saving-0123456789abcdef")) if sys.argv[2] == "engine" else None
    os.kill(os.getpid(), signal.SIGKILL)
dsstne.Trainer.save = killed
dsstne.Recommender("network", hidden=16, store=sys.argv[1]).partial_fit(X)
"""


@pytest.mark.long
@pytest.mark.parametrize("moment", ["python", "engine"])
def test_what_a_killed_process_has_left_is_deleted_after_an_hour(tmp_path, moment):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path, moment], timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    others = [tmp_path / name for name in (".part", ".notes.part", "0123456789abcdef.part")]
    for path in others:
        path.write_text("of somebody else")
    one = recommender(str(tmp_path)).partial_fit(X)
    assert left.exists()  # another process may be writing it
    for path in (left, *others):
        os.utime(path, (time.time() - 4000,) * 2)
    one.partial_fit(X)
    assert not left.exists()
    assert all(path.exists() for path in others)


@pytest.mark.long
def test_halving_of_scikit_learn_sends_references(tmp_path):
    pytest.importorskip("sklearn")
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV

    search = HalvingGridSearchCV(
        recommender(str(tmp_path)),
        {"hidden": [2, 4, 8], "denoising": [0.2, 0.5, 0.8]},
        resource="epochs",
        max_resources=9,
        factor=3,
        cv=2,
        n_jobs=2,
    )
    found = search.fit(X)
    assert found.best_estimator_.epochs == 9
    assert len(pickle.dumps(found.best_estimator_)) < 2048
