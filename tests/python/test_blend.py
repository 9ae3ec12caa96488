"""Sums of models: their scores are those of a short NumPy program, on any number of devices."""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pytest
import scipy.sparse

import dsstne

ITEMS = 300


def users(rows=120, seed=0):
    X = scipy.sparse.random_array((rows, ITEMS), density=0.05, format="csr", rng=seed, dtype=np.float32)
    X.data[:] = 1
    return scipy.sparse.vstack([X, scipy.sparse.csr_array((1, ITEMS), dtype=np.float32)]).tocsr()  # and an empty row


@functools.cache
def models():
    X, quiet = users(), {"progress": False}
    return {
        "network": dsstne.fit(X, hidden=[16], epochs=3, precision="float32", **quiet),
        "cosine": dsstne.fit(
            X, hidden=[8], temperature=0.2, epochs=2, input_scaling=None, precision="float32", **quiet
        ),
        "linear": dsstne.linear(X, **quiet),
        "operator": dsstne.linear(X, method="operator", **quiet),
        "spectral": dsstne.spectral(X, rank=20, **quiet),
        "factors": dsstne.factorize(X, factors=8, **quiet),
        "popularity": dsstne.popularity(X),
    }


def parts(*names):
    return [models()[name] for name in names]


def standardized(scores, X):
    others = np.where(X.toarray() != 0, np.nan, scores.astype(np.float64))
    deviation = np.nanstd(others, axis=1, keepdims=True)
    return np.where(deviation > 0, scores - np.nanmean(others, axis=1, keepdims=True), 0) / np.maximum(
        deviation, 1e-300
    )


SUMS = [
    ("network",),
    ("network", "linear"),
    ("popularity", "linear"),
    ("cosine", "network", "popularity"),
    ("spectral", "network", "operator"),
    ("factors", "network", "linear"),
]


@pytest.mark.parametrize("names", SUMS, ids="+".join)
def test_scores_are_the_weighted_sum_of_standardized_scores(names):
    X, weights = users(seed=1), np.arange(1, len(names) + 1) / 3
    model = dsstne.blend(parts(*names), weights=weights)
    expected = sum(w * standardized(part.predict(X), X) for w, part in zip(weights, parts(*names), strict=True))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("names", SUMS, ids="+".join)
def test_the_best_items_are_exact_and_the_same_on_several_devices_and_threads(names):
    X, model = users(seed=1), dsstne.blend(parts(*names))
    scores = model.predict(X)
    ids, best = model.recommend(X, k=7)
    expected = np.argsort(np.where(X.toarray() != 0, np.inf, -scores), axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(scores, ids, 1))
    for where in ({"threads": 1}, {"batch_size": 3}):
        np.testing.assert_array_equal(model.predict(X, **where), scores)
    others = model.predict(X, devices="cpu:3")  # moments are added up in the order of the devices
    np.testing.assert_allclose(others, scores, rtol=1e-6, atol=1e-6)


def test_mean_and_deviation_do_not_depend_on_the_items_that_are_ranked():
    X, model = users(), dsstne.blend(parts("network", "linear"))
    scores = model.predict(X)
    for choice in ({"items": [3, 4, 50]}, {"filter_items": np.arange(10)}, {"exclude_seen": False}, {"k": 1}):
        ids, best = model.recommend(X, **{"k": 3, **choice})
        np.testing.assert_array_equal(best[ids >= 0], np.take_along_axis(scores, ids, 1)[ids >= 0])


def test_a_part_whose_scores_are_all_equal_adds_nothing():
    flat = dsstne.Model.from_item_weights(np.zeros((ITEMS, ITEMS), np.float32))
    X = users()
    with_it = dsstne.blend([flat, *parts("linear")], weights=[5, 1]).predict(X)
    np.testing.assert_array_equal(with_it, dsstne.blend(parts("linear"), weights=[1]).predict(X))
    assert not dsstne.blend([flat]).predict(X).any()


def test_a_row_that_has_stored_all_items_or_all_but_one_scores_0():
    full = scipy.sparse.csr_array(np.ones((2, ITEMS), np.float32))
    full[1, 7] = 0
    full.eliminate_zeros()
    assert not dsstne.blend(parts("linear")).predict(full).any()


def test_a_scaled_part_is_divided_and_not_standardized():
    X = users()
    model = dsstne.blend(parts("linear", "network"), weights=[3, 1], scales=[2.0, None])
    expected = 1.5 * models()["linear"].predict(X) + standardized(models()["network"].predict(X), X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5, atol=1e-5)
    moments = [op for op in model.plan(X, devices="cpu")["operations"] if op.startswith("Moments")]
    assert len(moments) == 1


def test_a_file_a_pickle_and_a_copy_have_all_parts(tmp_path):
    X, model = users(), dsstne.blend(parts("network", "spectral"), weights=[0.8, 0.2], items=np.arange(ITEMS) + 5)
    model.save(tmp_path / "sum.dsstne")
    for other in (dsstne.load(tmp_path / "sum.dsstne"), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert other.items.tolist() == model.items.tolist()
    for part, original in zip(model.parts(), parts("network", "spectral"), strict=True):
        np.testing.assert_array_equal(part.predict(X), original.predict(X))


def test_explain_parts_returns_what_each_part_adds():
    X, model = users(), dsstne.blend(parts("network", "linear", "popularity"), weights=[0.5, 0.3, 0.2])
    added = model.explain_parts(X[[4]], 17)
    assert added.shape == (3,)
    np.testing.assert_allclose(added.sum(), model.predict(X[[4]])[0, 17], rtol=1e-5)
    linear = standardized(models()["linear"].predict(X[[4]]), X[[4]])[0, 17]
    np.testing.assert_allclose(added[1], 0.3 * linear, rtol=1e-5)
    with pytest.raises(dsstne.NotFoundError, match="not a blend"):
        models()["linear"].explain_parts(X[[4]], 17)


def left_out(name, item):
    """What explain() of a part leaves out: the score of an empty row, which linear models answer by popularity."""
    empty = scipy.sparse.csr_array((1, ITEMS), dtype=np.float32)
    is_linear = name in ("linear", "operator", "spectral")
    return 0.0 if is_linear else float(models()[name].predict(empty)[0, item])


@pytest.mark.parametrize("scales", ["standardized", "scaled"])
@pytest.mark.parametrize("names", SUMS[1:], ids="+".join)
def test_parts_of_the_items_and_a_constant_of_the_blend_are_the_score(names, scales):
    X, weights, item = users(), np.arange(1, len(names) + 1) / 3, 17
    row, divisors = X[[4]], [None if scales == "standardized" else 1.5 + n for n in range(len(names))]
    model = dsstne.blend(parts(*names), weights=weights, scales=divisors)
    ids, found = model.explain(row, item)
    assert sorted(ids.tolist()) == row.indices.tolist()
    assert (np.diff(found) <= 0).all()
    constant, of_item = 0.0, dict.fromkeys(row.indices.tolist(), 0.0)
    for name, part, weight, divisor in zip(names, parts(*names), weights, divisors, strict=True):
        scores = part.predict(row)[0].astype(np.float64)
        others = np.delete(scores, row.indices)
        mean, deviation = (others.mean(), others.std()) if divisor is None else (0.0, divisor)
        constant += weight / deviation * (left_out(name, item) - mean)
        if name != "popularity":
            for one, value in zip(*part.explain(row, item), strict=True):
                of_item[one] += weight / deviation * value
    np.testing.assert_allclose(found, [of_item[one] for one in ids.tolist()], rtol=1e-5, atol=1e-6)
    # The operator solves for its scores to about 1e-5, and its deviation of 0.01 divides them.
    atol = 1e-3 if "operator" in names else 1e-5
    np.testing.assert_allclose(found.sum(dtype=float) + constant, model.predict(row)[0, item], rtol=0, atol=atol)


def test_items_have_no_part_in_a_blend_of_popularity():
    with pytest.raises(dsstne.NotFoundError, match="gives all rows the same scores"):
        dsstne.blend(parts("popularity")).explain(users()[[4]], 1)
    flat = dsstne.Model.from_item_weights(np.zeros((ITEMS, ITEMS), np.float32))
    assert not dsstne.blend([flat]).explain(users()[[4]], 1)[1].any()  # its deviation is 0


def test_similar_items_are_those_of_a_row_with_one_item():
    model = dsstne.blend(parts("network", "linear"))
    alone = scipy.sparse.csr_array(np.eye(ITEMS, dtype=np.float32)[[8]])
    np.testing.assert_array_equal(model.similar_items([8], k=4)[0], model.recommend(alone, k=4)[0])
    with pytest.raises(dsstne.InvalidArgumentError, match="no weight matrix belongs to layer"):
        model.neighbors([8])


def test_the_weights_can_be_changed():
    X, model = users(), dsstne.blend(parts("network", "linear"), weights=[1, 1])
    model.set_tensor("weights", [0, 1])
    np.testing.assert_array_equal(model.predict(X), dsstne.blend(parts("linear"), weights=[1]).predict(X))
    model.set_tensor("weights", [-1, 1])
    with pytest.raises(dsstne.InvalidDataError, match=r"weights\[0\] is -1; weights must be finite and not negative"):
        model.predict(X)


def test_metrics_are_those_of_its_recommendations():
    X, held_out = users(), users(seed=2)
    model = dsstne.blend(parts("spectral", "network"))
    ids, _ = model.recommend(X, k=20)
    hits = [np.isin(ids[row], held_out[[row]].indices).sum() / max(1, held_out[[row]].nnz) for row in range(X.shape[0])]
    counted = np.diff(held_out.indptr) > 0
    result = dsstne.evaluate(model, X, held_out, "recall@20")["recall@20"]
    assert result == pytest.approx(np.mean(np.array(hits)[counted]), rel=1e-6)


def test_the_plan_has_the_memory_of_the_scores_of_a_batch_and_never_more():
    wide = 200_000
    model = dsstne.blend(
        [dsstne.Model.from_item_weights(scipy.sparse.eye_array(wide, format="csr", dtype=np.float32))] * 2
    )
    plan = model.plan(scipy.sparse.csr_array((5000, wide), dtype=np.float32), devices="cpu")
    scores = [part["bytes"] for part in plan["parts"] if part["name"] == "scores"]
    assert len(scores) == 2
    assert max(scores) <= 1 << 26


def test_validation_chooses_the_weights():
    X_in, held_out = dsstne.datasets.hold_out(users(rows=400, seed=5), fraction=0.4)
    names = ("network", "linear", "popularity")
    model = dsstne.blend(parts(*names), X_in, validation=held_out)
    weights = model.tensor("weights")
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights * 20, np.round(weights * 20), atol=1e-4)
    best = dsstne.evaluate(model, X_in, held_out, "ndcg@20")["ndcg@20"]
    for one in parts(*names):
        assert dsstne.evaluate(one, X_in, held_out, "ndcg@20")["ndcg@20"] <= best + 1e-12
    again = dsstne.blend(parts(*names), X_in.tocoo(), validation=held_out, threads=1)
    np.testing.assert_array_equal(again.tensor("weights"), weights)


def test_the_choice_of_weights_has_a_time_limit():
    X_in, held_out = dsstne.datasets.hold_out(users(rows=400, seed=5), fraction=0.4)
    with pytest.raises(dsstne.CancelledError, match="not done within max_seconds=1e-06"):
        dsstne.blend(parts("linear", "popularity"), X_in, validation=held_out, max_seconds=1e-6)


BAD = [
    ({"models": []}, "models: expected 1 to 8 models, got 0"),
    ({"models": 9 * ["linear"]}, "models: expected 1 to 8 models, got 9"),
    ({"weights": [1]}, "weights: expected 2 numbers, one for each model"),
    ({"weights": [1, -1]}, "weights: expected finite numbers that are not negative"),
    ({"weights": [np.nan, 1]}, "weights: expected finite numbers that are not negative"),
    ({"weights": [0, 0]}, "all are 0"),
    ({"scales": [1]}, "scales: expected 2 numbers or None"),
    ({"scales": [0, None]}, r"scales\[0\]"),
    ({"validation": users()}, "belong together"),
    ({"X": users()}, "belong together"),
    ({"X": users(), "validation": users(), "weights": [1, 1]}, "contradict each other"),
    ({"X": users(), "validation": users(), "scales": [1, None]}, "weights of standardized scores"),
    ({"X": users(), "validation": users(rows=7)}, "validation: expected the shape"),
    ({"X": users(), "validation": users()[:, :7]}, "validation: expected the shape"),
    ({"X": users(), "validation": users(), "metric": "coverage@5"}, "coverage"),
    ({"X": users(), "validation": users(), "metric": "ndgc@5"}, "ndcg"),
    ({"X": users(), "validation": 0 * users()}, "no row has held-out items"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_options_are_refused(options, message):
    options = dict(options)
    models = parts(*options.pop("models", ["linear", "network"]))
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        dsstne.blend(models, **options)


def test_models_that_do_not_fit_together_are_refused():
    small = dsstne.popularity(users()[:, :7])
    with pytest.raises(dsstne.InvalidArgumentError, match=r"models\[1\] has 7 input items and 7 output items"):
        dsstne.blend([*parts("linear"), small])
    with pytest.raises(dsstne.InvalidArgumentError, match=r"models\[0\] is a blend itself"):
        dsstne.blend([dsstne.blend(parts("linear"))])
    with pytest.raises(dsstne.InvalidArgumentError, match=r"models\[1\]: expected a dsstne.Model"):
        dsstne.blend([*parts("linear"), "linear"])
    named = models()["linear"].copy()
    named.items = np.arange(ITEMS)
    other = models()["linear"].copy()
    other.items = np.arange(ITEMS) + 1
    with pytest.raises(dsstne.InvalidArgumentError, match="other item names"):
        dsstne.blend([named, other])


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"parts": []}, "parts has no model"),
        ({"parts": [{}]}, r"parts\[0\].model is missing"),
        ({"parts": [{"model": 3}]}, r"parts\[0\].model is a number; it must be the definition of a model"),
        ({"parts": [{"model": {"kind": "item_weights", "items": 4}}]}, r'layer "input" has 4 units, items is 3'),
        ({"parts": [{"model": {"kind": "item_weight", "items": 3}}]}, r"parts\[0\].model.*item_weights"),
        ({"parts": [{"model": {"kind": "item_weights", "items": 3}, "standardised": True}]}, "standardized"),
    ],
)
def test_a_bad_definition_names_the_place(definition, message):
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        dsstne.Model({"kind": "blend", "items": 3, **definition})


def test_only_a_blend_has_parts():
    with pytest.raises(dsstne.NotFoundError, match="not a blend"):
        models()["linear"].parts()
