"""Intervals, paired tests and groups of dsstne.compare."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne
from dsstne import comparison


@pytest.fixture(scope="module")
def held_out(X):
    other = blocks(seed=1).toarray()
    other[X.toarray() > 0] = 0
    other[:7] = 0  # rows that do not count
    return scipy.sparse.csr_array(other)


@pytest.fixture(scope="module")
def models(X, model):
    return {"network": model, "item_knn": dsstne.item_knn(X, progress=False), "popularity": dsstne.popularity(X)}


@pytest.fixture(scope="module")
def result(models, X, held_out):
    return dsstne.compare(models, X, held_out, ["ndcg@5", "recall@5"], groups="activity", resamples=2000)


def per_row(*columns):
    """Models with these metrics of each row."""
    return {f"m{number}": {"ndcg@5": np.asarray(column, float)} for number, column in enumerate(columns)}


def test_means_are_those_of_evaluate(result, models, X, held_out):
    for name, model in models.items():
        expected = dsstne.evaluate(model, X, held_out, ["ndcg@5", "recall@5"])
        got = {one["metric"]: one["mean"] for one in result["means"] if one["model"] == name}
        assert got == pytest.approx(expected, rel=1e-12)


def test_differences_are_those_of_the_means(result):
    means = {(one["metric"], one["model"]): one["mean"] for one in result["means"]}
    for one in result["differences"]:
        expected = means[one["metric"], one["model"]] - means[one["metric"], one["other"]]
        assert one["difference"] == pytest.approx(expected, abs=1e-12)
        assert one["low"] <= one["difference"] <= one["high"]


def test_all_pairs_are_compared_or_all_models_with_the_baseline(result, models, X, held_out):
    assert len(result["differences"]) == 2 * 3
    found = dsstne.compare(models, X, held_out, "ndcg@5", baseline="popularity", resamples=100)
    pairs = [(one["model"], one["other"]) for one in found["differences"]]
    assert pairs == [("network", "popularity"), ("item_knn", "popularity")]


def test_an_interval_of_a_mean_has_the_width_of_the_normal_one():
    values = np.random.default_rng(0).random(2000)
    (mean,) = dsstne.compare(per_row(values))["means"]
    error = values.std() / math.sqrt(2000)
    # 10,000 resamples give an end of the interval to about 0.03 standard errors.
    assert mean["low"] == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert mean["high"] == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_the_interval_of_a_difference_is_paired():
    rng = np.random.default_rng(0)
    base = rng.random(500)
    (found,) = dsstne.compare(per_row(base + 0.01, base), resamples=1000)["differences"]
    assert (found["low"], found["high"]) == pytest.approx((0.01, 0.01))


def test_p_is_that_of_all_changes_of_signs():
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 10))
    difference = a - b
    exact = np.mean(
        [abs(difference @ signs) >= abs(difference.sum()) - 1e-12 for signs in itertools.product([1, -1], repeat=10)]
    )
    (found,) = dsstne.compare(per_row(a, b), resamples=20_000)["differences"]
    assert 0.05 < exact < 0.95
    # The standard error of a probability from 20,000 draws is at most 0.0036.
    assert found["p"] == pytest.approx(exact, abs=0.015)


@pytest.mark.long
def test_models_that_do_not_differ_are_significant_as_rarely_as_they_should_be():
    rng = np.random.default_rng(2)
    base = rng.random(60)
    p = np.array(
        [
            dsstne.compare(per_row(base + rng.standard_normal(60), base), resamples=200)["differences"][0]["p"]
            for _ in range(300)
        ]
    )
    assert 0.02 < np.mean(p < 0.05) < 0.09  # 0.05, with a standard error of 0.013
    assert np.mean(p) == pytest.approx(0.5, abs=0.06)


def test_equal_models_have_p_1_and_an_interval_of_zero():
    values = np.random.default_rng(3).random(100)
    (found,) = dsstne.compare(per_row(values, values))["differences"]
    assert (found["difference"], found["low"], found["high"], found["p"]) == (0, 0, 0, 1)


def test_p_is_never_zero():
    (found,) = dsstne.compare(per_row(np.ones(100), np.zeros(100)), resamples=1000)["differences"]
    assert found["p"] == 1 / 1001


def test_holm_multiplies_by_the_number_of_hypotheses_left_and_stays_in_order():
    # The example of four p values: 0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 that may not be below the one before.
    assert comparison.holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert comparison.holm(np.array([0.9, 0.8])) == [1, 1]


def test_the_same_seed_gives_the_same_result_and_another_one_another():
    values = np.random.default_rng(4).random((2, 50))
    first, again, other = (dsstne.compare(per_row(*values), seed=seed, resamples=500) for seed in (1, 1, 2))
    assert first == again
    assert first["means"][0]["low"] != other["means"][0]["low"]


def test_many_rows_are_resampled_less_often(monkeypatch):
    monkeypatch.setattr(comparison, "_DRAWS", 100_000)
    found = [dsstne.compare(per_row(np.ones(rows)))["resamples"] for rows in (5, 50, 500)]
    assert found == [10_000, 2_000, 1_000]


def test_blocks_of_resamples_change_nothing(monkeypatch):
    values = per_row(*np.random.default_rng(5).random((3, 40)))
    whole = dsstne.compare(values, resamples=300)
    monkeypatch.setattr(comparison, "_BLOCK", 40 * 7)
    blockwise = dsstne.compare(values, resamples=300)
    for part in ("means", "differences"):
        for one, other in zip(whole[part], blockwise[part], strict=True):
            assert (one["low"], one["high"]) == pytest.approx((other["low"], other["high"]), rel=1e-12)
            # The bytes that signs are drawn from depend on the block; 0.1 is 3 standard errors of a p of 0.5.
            assert one.get("p", 0) == pytest.approx(other.get("p", 0), abs=0.1)


def test_groups_by_activity_are_quarters_by_the_number_of_items(result, X, held_out):
    counted = np.diff(held_out.indptr) > 0
    lengths = np.diff(X.indptr)[counted]
    rows = {one["group"]: one["rows"] for one in result["groups"]}
    assert sum(rows.values()) == counted.sum() == result["rows"]
    for group, count in rows.items():
        low, _, high = group.removesuffix(" items").partition("-")
        assert ((lengths >= int(low)) & (lengths <= int(high or low))).sum() == count
    assert list(rows) == sorted(rows, key=lambda group: int(group.split("-")[0].split()[0]))


def test_groups_of_labels_have_the_means_of_their_rows():
    a = np.array([1, 0, np.nan, 0.5, 0.25])
    found = dsstne.compare(per_row(a), groups=["x", "y", "y", "x", "y"], resamples=100)["groups"]
    assert [(one["group"], one["rows"], one["mean"]) for one in found] == [("x", 2, 0.75), ("y", 2, 0.125)]


def test_numbers_in_labels_are_in_the_order_of_numbers():
    found = dsstne.compare(per_row(np.ones(3)), groups=["10 years", "9 years", "2"], resamples=100)["groups"]
    assert [one["group"] for one in found] == ["2", "9 years", "10 years"]


def test_rows_choose_labels_too(models, X, held_out):
    labels = np.where(np.arange(240) % 2, "odd", "even")
    found = dsstne.compare(models, X, held_out, "ndcg@5", rows=range(100, 130), groups=labels, resamples=100)
    assert {one["group"]: one["rows"] for one in found["groups"]} == {"even": 15, "odd": 15}


def test_metrics_of_another_library_are_compared_with_those_of_a_model(models, X, held_out):
    other = dsstne.evaluate(models["item_knn"], X, held_out, ["ndcg@5"], per_row=True)
    found = dsstne.compare({"ours": models["item_knn"], "theirs": other}, X, held_out, "ndcg@5", resamples=100)
    assert found["differences"][0]["p"] == 1


def test_models_of_a_list_are_numbered(models, X, held_out):
    assert dsstne.compare(list(models.values()), X, held_out, "ndcg@5", resamples=100)["models"][2] == "model 3"


def test_the_default_metrics_are_recall_and_ndcg(models, X, held_out):
    assert dsstne.compare(models, X, held_out, resamples=100)["metrics"] == ["recall@20", "ndcg@20"]


def test_the_result_prints_as_tables(result):
    text = str(result)
    assert text.splitlines()[0] == "231 rows with held-out items; brackets are 95 % intervals of the bootstrap"
    assert "network - item_knn" in text
    assert result._repr_html_().count("<table>") == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": "coverage@5"}, "have values for different rows|no row has a value"),
        ({"metrics": "ncdg@5"}, "did you mean"),
        ({"models": {}}, "expected at least one model"),
        ({"models": {1: None}}, "a name in models must be a str"),
        ({"baseline": "netwrok"}, "did you mean 'network'"),
        ({"groups": "age"}, "groups must be a label for each row or 'activity'"),
        ({"groups": ["a"]}, "groups has 1 labels; X_in has 240 rows"),
        ({"groups": ["a", "b"], "rows": [5, 7]}, "groups has 2 labels; with rows= too, it must have one for each row"),
        ({"level": 1}, "level must be below 1"),
        ({"resamples": 99}, "resamples must be at least 100"),
        ({"resamples": 10**7}, "resamples must be at most 1,000,000"),
        ({"metrics": []}, "metrics: expected at least one name"),
        ({"models": {"a": {}}, "metrics": None}, "metrics: expected at least one name"),
    ],
)
def test_bad_arguments_are_refused_in_words(models, X, held_out, given, message):
    usual = {"models": models, "X_in": X, "X_held_out": held_out, "metrics": "ndcg@5"}
    with pytest.raises(dsstne.DsstneError, match=message):
        dsstne.compare(**{**usual, **given})


def test_metrics_for_different_rows_are_refused():
    with pytest.raises(dsstne.InvalidArgumentError, match="have values for different rows"):
        dsstne.compare(per_row([1, 2, np.nan], [1, np.nan, 2]))
    with pytest.raises(dsstne.InvalidArgumentError, match="must be finite numbers or NaN"):
        dsstne.compare(per_row([1, np.inf]))
    with pytest.raises(dsstne.InvalidArgumentError, match="no row has a value"):
        dsstne.compare(per_row([np.nan]))


def test_more_groups_than_anybody_reads_are_refused():
    with pytest.raises(dsstne.InvalidArgumentError, match="1,001 different labels"):
        dsstne.compare(per_row(np.ones(1001)), groups=range(1001))
