"""Open predictors: the bits of recommend(), from any number of threads, and errors that harm nobody else."""

from __future__ import annotations

import copy
import functools
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse

import dsstne

ITEMS = 300


def users(rows=120, seed=0):
    X = scipy.sparse.random_array((rows, ITEMS), density=0.05, format="csr", rng=seed, dtype=np.float32)
    return scipy.sparse.vstack([X, scipy.sparse.csr_array((1, ITEMS), dtype=np.float32)]).tocsr()  # and an empty row


@functools.cache
def models():
    X, quiet = users(), {"progress": False}
    network = dsstne.fit(X, hidden=[16], epochs=3, **quiet)
    linear = dsstne.linear(X, **quiet)
    return {
        "network": network,
        "deep": dsstne.fit(X, hidden=[12, 8], epochs=1, temperature=None, **quiet),
        "linear": linear,
        "item_knn": dsstne.item_knn(X, k=20, **quiet),
        "operator": dsstne.linear(X, method="operator", **quiet),
        "spectral": dsstne.spectral(X, rank=20, **quiet),
        "factors": dsstne.factorize(X, factors=8, **quiet),
        "popularity": dsstne.popularity(X),
        "blend": dsstne.blend([network, linear], weights=[0.5, 0.5], progress=False),
    }


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def run_together(work, count):
    """Runs work(n) in threads that begin together; raises the first exception."""
    failures, start = [], threading.Barrier(count)

    def guarded(n):
        try:
            start.wait()
            work(n)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


NAMES = ("network", "deep", "linear", "item_knn", "operator", "spectral", "factors", "popularity", "blend")


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_has_the_bits_of_recommend(name):
    X, model = users(seed=1), models()[name]
    want = model.recommend(X, k=7)
    with model.predictor(7) as predictor:
        assert same(predictor.recommend(X), want)
        for row in (0, 17, X.shape[0] - 1):
            assert same(predictor.recommend(X[[row]]), (want[0][[row]], want[1][[row]]))


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 3}, {"threads": 1}, {"devices": "cpu:3"}, {"wait": 0.002}], ids=str
)
def test_threads_get_the_bits_of_one_who_asks_alone(options):
    X, model = users(seed=2), models()["network"]
    want = model.recommend(X, k=5)
    with model.predictor(5, **options) as predictor:

        def work(n):
            for row in range(n, X.shape[0], 8):
                k = 1 + row % 5
                assert same(predictor.recommend(X[[row]], k), (want[0][[row], :k], want[1][[row], :k]))

        run_together(work, 8)


def test_options_are_those_of_recommend():
    X, model = users(), models()["network"]
    for options in (
        {"exclude_seen": False},
        {"items": [5, 9, 200, 30]},
        {"filter_items": np.arange(100)},
        {"exclude_seen": True, "layer": model.output},
    ):
        with model.predictor(4, **options) as predictor:
            assert same(predictor.recommend(X), model.recommend(X, k=4, **options))


def test_items_to_leave_out_come_with_the_rows():
    X, other, model = users(), users(seed=9), models()["linear"]
    with model.predictor(6) as predictor:
        assert same(predictor.recommend(X, exclude=other), model.recommend(X, k=6, exclude=other))
        assert same(predictor.recommend(X), model.recommend(X, k=6))


def test_rows_come_in_any_form_that_recommend_takes():
    X, model = users(), models()["network"]
    want = model.recommend(X, k=5)
    wide = scipy.sparse.csr_array(
        (X.data.astype(np.float64), X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape
    )
    unsorted = X.copy()
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        unsorted.indices[part], unsorted.data[part] = X.indices[part][::-1], X.data[part][::-1]
    with model.predictor(5) as predictor, dsstne.Dataset(X) as data:
        for form in (wide, unsorted, scipy.sparse.csr_matrix(X), X.tocsc(), X.toarray(), data):
            assert same(predictor.recommend(form), want)
        assert predictor.recommend(X[:0])[0].shape == (0, 5)


def test_boolean_rows_are_ones():
    X, model = users(), models()["linear"]
    ones = scipy.sparse.csr_array((np.ones(X.nnz, bool), X.indices, X.indptr), shape=X.shape)
    with model.predictor(5) as predictor:
        assert same(predictor.recommend(ones), model.recommend(ones, k=5))


def test_a_network_with_two_inputs_takes_a_mapping():
    layers = [
        {"name": "a", "kind": "input", "size": 20},
        {"name": "b", "kind": "input", "size": 30},
        {"name": "h", "kind": "hidden", "size": 8, "sources": ["a", "b"]},
        {"name": "out", "kind": "output", "size": 20},
    ]
    model = dsstne.Model({"layers": layers}, seed=3)
    random = np.random.default_rng(0)
    X = {"a": (random.random((9, 20)) < 0.2).astype(np.float32), "b": (random.random((9, 30)) < 0.2).astype(np.float32)}
    with model.predictor(4, exclude_seen=True) as predictor:
        assert same(predictor.recommend(X), model.recommend(X, k=4, exclude_seen=True))
        with pytest.raises(dsstne.InvalidArgumentError, match="no matrix for layer 'b'"):
            predictor.recommend({"a": X["a"]})
        with pytest.raises(dsstne.NotFoundError, match="no such input 'c'"):
            predictor.recommend({**X, "c": X["a"]})
        with pytest.raises(dsstne.InvalidArgumentError, match="mapping with 'a', 'b'"):
            predictor.recommend(X["a"])
        with pytest.raises(dsstne.InvalidArgumentError, match="same rows"):
            predictor.recommend({"a": X["a"], "b": X["b"][:3]})


def test_new_weights_are_used_and_a_model_in_training_is_busy():
    X = users()
    model = dsstne.fit(X, hidden=[8], epochs=1, progress=False)
    with model.predictor(5) as predictor:
        before = predictor.recommend(X)
        with dsstne.Trainer(model, X, learning_rate=0.05) as trainer:
            trainer.run(steps=20)
            assert same(predictor.recommend(X), model.recommend(X, k=5))
            assert not same(predictor.recommend(X), before)


def test_a_bad_row_harms_no_other_request():
    X, model = users(), models()["network"]
    want = model.recommend(X, k=5)
    bad = X[[3]]
    bad.indices[0] = ITEMS + 4
    with model.predictor(5) as predictor:

        def work(n):
            for _ in range(50):
                if n % 2:
                    with pytest.raises(dsstne.InvalidDataError, match="row 0 holds column 304"):
                        predictor.recommend(bad)
                else:
                    assert same(predictor.recommend(X[[n]]), (want[0][[n]], want[1][[n]]))

        run_together(work, 6)


def test_wrong_requests_say_what_is_wrong():
    X, model = users(), models()["network"]
    with pytest.raises(dsstne.InvalidArgumentError, match="k is 301"):
        model.predictor(301)
    with pytest.raises(dsstne.InvalidArgumentError, match="wait"):
        model.predictor(wait=-1)
    with pytest.raises(dsstne.NotFoundError, match="no output layer"):
        model.predictor(layer="hiden1")
    with pytest.raises(dsstne.OutOfMemoryError):
        model.predictor(memory_limit=1000)
    with pytest.raises(TypeError, match="treads"):
        model.predictor(treads=2)
    with model.predictor(5) as predictor:
        with pytest.raises(dsstne.InvalidArgumentError, match="lists of 1 to 5"):
            predictor.recommend(X, 6)
        with pytest.raises(dsstne.InvalidArgumentError, match="299 columns"):
            predictor.recommend(X[:, :299])
        with pytest.raises(dsstne.InvalidArgumentError, match="exclude has 3 rows"):
            predictor.recommend(X, exclude=X[:3])
        with pytest.raises(dsstne.InvalidDataError, match="not finite|NaN|nan"):
            predictor.recommend(np.full((1, ITEMS), np.nan, np.float32))
        with pytest.raises(dsstne.BusyError):
            model.close()
        assert "300 items" in repr(predictor)
    with pytest.raises(dsstne.InvalidHandleError, match="closed"):
        predictor.recommend(X)


def test_a_predictor_is_not_copied_and_its_model_is():
    model = copy.copy(models()["network"])
    with model.predictor(3) as predictor:
        with pytest.raises(TypeError, match="pickle the model"):
            pickle.dumps(predictor)
        assert same(pickle.loads(pickle.dumps(model)).recommend(users(), k=3), predictor.recommend(users()))


def test_the_plan_has_the_memory_and_the_operations():
    with models()["network"].predictor(5) as predictor:
        plan = predictor.plan()
    assert plan["bytes"] == sum(part["bytes"] for part in plan["parts"])
    assert any(line.startswith("TopK 5 of 300 items") for line in plan["operations"])


def test_a_file_is_refused_with_the_remedy(tmp_path):
    import pyarrow
    import pyarrow.feather

    X = users()
    entries = pyarrow.StructArray.from_arrays([X.indices, X.data], names=["index", "value"])
    table = pyarrow.table({"items": pyarrow.ListArray.from_arrays(pyarrow.array(X.indptr), entries)})
    pyarrow.feather.write_feather(table, tmp_path / "x.arrow", compression="uncompressed")
    data = dsstne.Dataset.from_file(tmp_path / "x.arrow", columns=ITEMS)
    with models()["network"].predictor(5) as predictor:
        with pytest.raises(dsstne.UnsupportedError, match="X is a Dataset of .* a file .* dataset.rows. copies some"):
            predictor.recommend(data)
        data.close()
        with pytest.raises(dsstne.InvalidHandleError, match="closed"):
            predictor.recommend(data)
        rows = table["items"].combine_chunks()
        assert same(predictor.recommend(rows), models()["network"].recommend(X, k=5))


def test_interactions_are_answered_with_names_as_by_recommend():
    interactions = dsstne.Interactions(users())
    model = dsstne.popularity(interactions)
    want = model.recommend(interactions, k=4)
    with model.predictor(4) as predictor:
        for _ in range(2):  # the names are checked once
            got = predictor.recommend(interactions)
            assert list(got) == ["user", "item", "score", "rank"]
            assert all(np.array_equal(got[name], want[name]) for name in want)


@pytest.mark.parametrize("name", ["X", "exclude"])
def test_interactions_of_other_items_are_refused(name):
    X = users()
    other = dsstne.Interactions(X, item_names=np.arange(ITEMS) + 1)
    arguments = {"X": X, name: other}
    with dsstne.popularity(X, items=np.arange(ITEMS)).predictor(4) as predictor:
        for _ in range(2):
            with pytest.raises(
                dsstne.InvalidArgumentError, match=f"{name} has other items than the model: item 0 is 1"
            ):
                predictor.recommend(**arguments)
