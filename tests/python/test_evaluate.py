"""Metrics against a reference that is slow and obvious."""

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne


def reference(name, ranked, targets):
    """One metric of one row: `ranked` item ids, best first; `targets` a non-empty set."""
    kind, k = name.split("@")
    k = int(k)
    hits = np.array([item in targets for item in ranked[:k]], float)
    ranks = np.arange(1, len(hits) + 1)
    best = min(k, len(targets))
    if kind == "precision":
        return hits.sum() / k
    if kind == "recall":
        return hits.sum() / len(targets)
    if kind == "truncated_recall":
        return hits.sum() / best
    if kind == "hit_rate":
        return float(hits.any())
    if kind == "mrr":
        return 1 / ranks[hits > 0][0] if hits.any() else 0.0
    if kind == "map":
        return (hits * hits.cumsum() / ranks).sum() / best
    if kind == "ndcg":
        return (hits / np.log2(ranks + 1)).sum() / (1 / np.log2(np.arange(2, best + 2))).sum()
    raise ValueError(name)


METRICS = [
    f"{kind}@{k}"
    for kind in ("precision", "recall", "truncated_recall", "ndcg", "hit_rate", "mrr", "map")
    for k in (1, 5, 20)
]


@pytest.fixture(scope="module")
def held_out(X):
    other = blocks(seed=1).toarray()
    other[X.toarray() > 0] = 0
    other[:7] = 0  # rows that do not count
    return scipy.sparse.csr_array(other)


@pytest.mark.parametrize("exclude", ["input", None, "matrix"])
def test_metrics_equal_the_reference(model, X, held_out, exclude):
    seen = {"input": X, None: None, "matrix": blocks(seed=2)}[exclude]
    given = seen if exclude == "matrix" else exclude
    means = dsstne.evaluate(model, X, held_out, METRICS, exclude=given)
    rows = dsstne.evaluate(model, X, held_out, METRICS, exclude=given, per_row=True)
    ids, _ = model.recommend(X, k=20, exclude=seen, exclude_seen=seen is not None)
    targets = [set(held_out[[u]].indices.tolist()) for u in range(240)]
    for name in METRICS:
        expected = np.array(
            [reference(name, r, t) if t else np.nan for r, t in zip(ids.tolist(), targets, strict=True)]
        )
        np.testing.assert_allclose(rows[name], expected, rtol=1e-12, err_msg=name)
        assert means[name] == pytest.approx(np.nanmean(expected), rel=1e-12)


def test_coverage_is_the_share_of_items_anybody_gets(model, X, held_out):
    few = held_out.toarray()
    few[20:] = 0  # rows without targets do not count
    few = scipy.sparse.csr_array(few)
    ids, _ = model.recommend(X, k=3)
    counted = ids[np.diff(few.indptr) > 0]
    assert len(np.unique(counted)) < len(np.unique(ids))
    assert dsstne.evaluate(model, X, few, "coverage@3")["coverage@3"] == len(np.unique(counted)) / 60
    assert np.isnan(dsstne.evaluate(model, X, few, "coverage@3", per_row=True)["coverage@3"]).all()


def test_coverage_of_an_allow_list_is_the_share_of_its_items(model, X, held_out):
    value = dsstne.evaluate(model, X, held_out, "coverage@3", items=range(30))["coverage@3"]
    ids, _ = model.recommend(X, k=3, items=range(30))
    assert value == len(np.setdiff1d(ids[np.diff(held_out.indptr) > 0], [-1])) / 30


def test_rows_and_items_restrict_the_ranking(model, X, held_out):
    rows = [200, 20, 100]
    some = dsstne.evaluate(model, X, held_out, ["recall@5"], rows=rows, per_row=True)["recall@5"]
    every = dsstne.evaluate(model, X, held_out, ["recall@5"], per_row=True)["recall@5"]
    np.testing.assert_array_equal(some, every[rows])
    assert dsstne.evaluate(model, X, held_out, ["recall@5"], items=[])["recall@5"] == 0


def test_no_row_with_targets_gives_nan(model, X):
    nothing = scipy.sparse.csr_array(X.shape, dtype=np.float32)
    assert np.isnan(dsstne.evaluate(model, X, nothing, "recall@5")["recall@5"])


def test_threads_and_batches_do_not_change_a_bit(model, X, held_out):
    values = {
        tuple(dsstne.evaluate(model, X, held_out, METRICS, threads=threads, batch_size=size).values())
        for threads in (1, 2)
        for size in (3, 512)
    }
    assert len(values) == 1


@pytest.mark.parametrize("metrics", ["recal@20", "recall@0", "recall@x", "recall", ["ndcg@5", "nope@5"], []])
def test_unknown_metrics_are_refused(model, X, metrics):
    with pytest.raises(dsstne.InvalidArgumentError):
        dsstne.evaluate(model, X, X, metrics)


def test_an_unknown_metric_is_named_with_the_nearest_one(model, X):
    with pytest.raises(dsstne.InvalidArgumentError, match="recall"):
        dsstne.evaluate(model, X, X, "recal@20")


@pytest.mark.parametrize("kind", ["precision", "coverage", "ndcg"])
def test_a_range_of_lengths_is_a_metric_of_each_length(model, X, held_out, kind):
    each = [f"{kind}@{k}" for k in range(1, 11)]
    found = dsstne.evaluate(model, X, held_out, f"{kind}@1..10")
    assert list(found) == each
    assert found == dsstne.evaluate(model, X, held_out, each)
    rows = dsstne.evaluate(model, X, held_out, ["recall@5", f"{kind}@9..10"], per_row=True)
    assert list(rows) == ["recall@5", *each[8:]]


def test_models_are_compared_by_a_range(model, X, held_out):
    result = dsstne.compare([model, dsstne.popularity(X)], X, held_out, ["recall@2..3"], resamples=100)
    assert result["metrics"] == ["recall@2", "recall@3"]


RANGES = {
    "recall@5..2": "recall@2..5",
    "recall@0..5": "two whole numbers",
    "recall@1..x": "two whole numbers",
    "recall@..5": "two whole numbers",
    "recall@1..2..3": "two whole numbers",
    "recall@1..1001": "1,001 metrics",
    "recall@1..99999999999999999999999": "metrics",
    "recal@1..2": "did you mean",
    "recall..2": "two whole numbers",
}


@pytest.mark.parametrize("metric", RANGES)
def test_a_range_that_is_not_valid_is_refused(model, X, metric):
    with pytest.raises(dsstne.InvalidArgumentError, match=RANGES[metric]):
        dsstne.evaluate(model, X, X, metric)


def test_a_metric_of_a_range_that_is_also_named_is_listed_twice(model, X):
    with pytest.raises(dsstne.InvalidArgumentError, match="recall@3.*twice"):
        dsstne.evaluate(model, X, X, ["recall@1..5", "recall@3"])


def test_a_choice_is_made_by_one_metric_and_not_by_a_range(X):
    popular = dsstne.popularity(X)
    calls = [
        lambda: dsstne.callbacks.EarlyStopping("recall@1..5"),
        lambda: dsstne.auto(X, "recall@5..5", seconds=1, progress=False),
        lambda: dsstne.search(X, [{"hidden": 4}], metric="recall@1..5", progress=False),
        lambda: dsstne.blend([popular, popular], X, validation=X, metric="recall@1..5"),
        lambda: dsstne.Recommender("popularity", metric="recall@1..5").fit(X),
    ]
    for call in calls:
        with pytest.raises(dsstne.InvalidArgumentError, match="metric: expected one metric, got the range"):
            call()


def test_a_callback_may_ask_for_a_range(X, held_out):
    class Lengths(dsstne.callbacks.Callback):
        metrics = ("precision@1..3",)

    model = dsstne.fit(X, hidden=4, epochs=1, validation=held_out, callbacks=Lengths(), progress=False)
    assert {"precision@1", "precision@2", "precision@3", "ndcg@20"} <= set(model.history[0])


def test_the_look_for_seen_items_leaves_unsorted_rows_as_they_are():
    indices = np.array([3, 1, 1, 2, 0], np.int32)
    rows = scipy.sparse.csr_array((np.ones(5), indices.copy(), np.array([0, 3, 5])), shape=(2, 4))
    seen = rows.copy()
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    model = dsstne.popularity(rows)
    with pytest.warns(UserWarning, match="excluded as seen"):
        dsstne.evaluate(model, seen, rows, metrics=["recall@2"], exclude="input")
    assert rows.indices.tolist() == indices.tolist()
