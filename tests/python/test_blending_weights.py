"""Weights of sums of models are chosen by exact metrics."""

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import _blending
from dsstne.datasets import hold_out

METRICS = ["ndcg@5", "recall@5", "precision@5", "truncated_recall@5", "hit_rate@5", "mrr@5", "map@5"]


@pytest.fixture(scope="module")
def data():
    """Input rows, held-out items and three models; item_knn has many equal scores."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 700)) + rng.normal(size=700) - 5
    train, held_out = hold_out(scipy.sparse.csr_array((rng.random(logits.shape) < 1 / (1 + np.exp(-logits))) * 1.0))
    models = [
        dsstne.linear(train, progress=False),
        dsstne.spectral(train, 40, progress=False),
        dsstne.item_knn(train, k=3, progress=False),
    ]
    rows = _blending.sample(held_out)
    return train[rows], held_out[rows], models


@pytest.mark.parametrize("metric", METRICS)
def test_the_metric_of_a_part_is_that_of_evaluate(data, metric):
    train, held_out, models = data
    found = _blending.Candidates(models, train, held_out, 5)
    for part, model in enumerate(models):
        weights = np.eye(len(models))[part]
        expected = dsstne.evaluate(model, train, held_out, metric, per_row=True)[metric]
        assert np.allclose(found.values(weights, metric), expected, rtol=0, atol=1e-12)
        assert found.unproven(weights) == 0


@pytest.mark.long
def test_the_metric_of_a_sum_is_that_of_all_items(data, monkeypatch):
    monkeypatch.setattr(_blending, "LEAST_CANDIDATES", 60)  # fewer than the items
    train, held_out, models = data
    weights = [0.5, 0.3, 0.2]
    found = _blending.Candidates(models, train, held_out, 5)
    expected = []
    for row in range(train.shape[0]):
        rest = np.ones(train.shape[1], bool)
        rest[train.indices[train.indptr[row] : train.indptr[row + 1]]] = False
        total = np.full(len(rest), -np.inf)
        total[rest] = 0
        for weight, model in zip(weights, models, strict=True):
            scores = model.predict(train, rows=[row])[0, rest].astype(np.float64)
            if scores.std():
                total[rest] += weight * (scores - scores.mean()) / scores.std()
        best = np.argsort(-total, kind="stable")[:5]
        targets = held_out.indices[held_out.indptr[row] : held_out.indptr[row + 1]]
        expected.append(np.isin(best, targets).sum() / len(targets))
    assert found.unproven(weights) == 0
    assert np.allclose(found.values(weights, "recall@5"), expected)


def test_rows_without_proof_are_counted(data, monkeypatch):
    monkeypatch.setattr(_blending, "LEAST_CANDIDATES", 1)
    train, held_out, models = data
    found = _blending.Candidates(models[:2], train, held_out, 1)
    other = _blending.Candidates([models[0], dsstne.popularity(train)], train, held_out, 5)
    assert found.unproven([1, 0]) == 0
    assert other.unproven([0.5, 0.5]) > 0


def test_the_best_weights_on_the_grid_are_found(data):
    train, held_out, models = data
    weights, table = _blending.choose_weights(models[:2], train, held_out, "ndcg@5")
    assert len(table) == 21
    assert weights == table[0]["weights"]
    assert table[0]["ndcg@5"] == max(row["ndcg@5"] for row in table)
    assert sum(weights) == pytest.approx(1)
    assert table[0]["unproven"] == 0


def test_three_parts_are_at_least_as_good_as_two(data):
    train, held_out, models = data
    two = _blending.choose_weights(models[:2], train, held_out)[1]
    three = _blending.choose_weights(models, train, held_out)[1]
    assert max(row["ndcg@20"] for row in three) >= max(row["ndcg@20"] for row in two)


def test_of_equal_sums_the_one_of_fewer_parts_is_chosen(data):
    train, held_out, models = data
    assert _blending.choose_weights([models[0], models[0]], train, held_out)[0] == [1.0, 0.0]


def test_rows_are_sampled_by_the_seed():
    held_out = scipy.sparse.csr_array(np.ones((100, 2)))
    first, again, other = (_blending.sample(held_out, seed, most=10) for seed in (0, 0, 1))
    assert len(first) == 10
    assert first.tolist() == again.tolist() != other.tolist()


def test_given_rows_count_if_they_have_held_out_items(data):
    train, held_out, models = data
    mask = np.zeros(train.shape[0], bool)
    mask[:20] = True
    assert _blending.choose_weights(models[:2], train, held_out, rows=mask)[1][0]["rows"] == 20
    with pytest.raises(dsstne.InvalidArgumentError, match="no row has held-out items"):
        _blending.choose_weights(models[:2], train, held_out, rows=[])


def test_coverage_is_refused(data):
    train, held_out, models = data
    with pytest.raises(dsstne.InvalidArgumentError, match="coverage"):
        _blending.choose_weights(models, train, held_out, "coverage@5")


def test_an_unknown_metric_and_other_shapes_are_refused(data):
    train, held_out, models = data
    with pytest.raises(dsstne.InvalidArgumentError, match="did you mean"):
        _blending.choose_weights(models, train, held_out, "ndgc@5")
    with pytest.raises(dsstne.InvalidArgumentError, match="expected the shape of X"):
        _blending.choose_weights(models, train, held_out[:3])
