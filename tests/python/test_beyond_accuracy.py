"""Metrics beyond accuracy against references that are slow and obvious."""

import math

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import metrics

IDS = np.array([[0, 3, 2], [1, -1, -1], [-1, -1, -1], [3, 0, 4], [5, 3, -1]], np.int32)
TRAIN = np.array(
    [[1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 0, 2, 0, 0], [0, 0, 0, 1, 3, 0], [1, 1, 1, 1, 0, 0]], np.float32
)
COUNTS = (TRAIN != 0).sum(axis=0)  # item 5 is in no row


def of_each_list(value):
    """The mean of a value of the items over each list; NaN for an empty one."""
    return [np.mean([value(i) for i in row if i >= 0]) if max(row) >= 0 else math.nan for row in IDS.tolist()]


def random_lists(rows, k, items, seed=0):
    rng = np.random.default_rng(seed)
    ids = np.argsort(rng.random((rows, items)), axis=1)[:, :k].astype(np.int32)
    ids[rng.random((rows, k)) < 0.2] = -1
    return ids


def test_coverage_is_the_share_of_the_items_in_any_list():
    assert metrics.coverage(IDS, 8) == 6 / 8


def test_coverage_of_empty_lists_is_zero():
    assert metrics.coverage(np.full((3, 2), -1), 4) == 0


@pytest.mark.parametrize("items", [6, 7, 100])
def test_gini_is_half_the_mean_difference_of_two_items_over_their_mean(items):
    times = np.bincount(IDS[IDS >= 0], minlength=items).astype(float)
    differences = np.abs(times[:, None] - times[None]).mean()
    assert metrics.gini(IDS, items) == pytest.approx(differences / (2 * times.mean()), rel=1e-12)


def test_gini_of_a_single_item_is_zero():
    assert metrics.gini([[0], [0]], 1) == 0


def test_gini_of_empty_lists_is_nan():
    assert math.isnan(metrics.gini([[-1], [-1]], 3))


def test_novelty_is_the_mean_self_information_of_the_items():
    expected = of_each_list(lambda i: math.log2(5 / max(1, COUNTS[i])))
    np.testing.assert_allclose(metrics.novelty(IDS, TRAIN, per_row=True), expected)
    assert metrics.novelty(IDS, TRAIN) == pytest.approx(np.nanmean(expected))


def test_average_popularity_is_the_mean_number_of_rows_that_have_the_items():
    expected = of_each_list(lambda i: COUNTS[i])
    np.testing.assert_allclose(metrics.average_popularity(IDS, TRAIN, per_row=True), expected)


def test_popularity_lift_compares_lists_with_what_the_rows_had():
    had = TRAIN.copy()
    had[1] = 0  # has a list but no items: does not count, as row 2 without a list
    given = of_each_list(lambda i: COUNTS[i])
    before = [COUNTS[had[row] != 0].mean() for row in (0, 3, 4)]
    expected = np.mean([given[row] for row in (0, 3, 4)]) / np.mean(before) - 1
    assert metrics.popularity_lift(IDS, had, TRAIN) == pytest.approx(expected)


def test_popularity_lift_without_any_row_to_compare_is_nan():
    assert math.isnan(metrics.popularity_lift([[-1]], [[1, 0]]))


def distance(a, b):
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return 1 - (a @ b / lengths if lengths else 0)


def mean_distances(ids, vectors):
    """The mean distance of the pairs of each list, one pair at a time."""
    means = []
    for row in ids:
        items = row[row >= 0]
        pairs = [distance(vectors[a], vectors[b]) for at, a in enumerate(items) for b in items[at + 1 :]]
        means.append(np.mean(pairs) if pairs else math.nan)
    return means


@pytest.mark.parametrize("block", [1, 50, 1 << 22])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_diversity_is_the_mean_distance_of_all_pairs_of_a_list(monkeypatch, form, block):
    monkeypatch.setattr(metrics, "_BLOCK", block)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((30, 7)) * (rng.random((30, 7)) < 0.5)
    vectors[3] = 0
    ids = random_lists(40, 6, 30)
    ids[0, :2] = 3, 4
    got = metrics.diversity(ids, form(vectors), per_row=True)
    np.testing.assert_allclose(got, mean_distances(ids, vectors), atol=1e-12)


def test_diversity_of_equal_items_is_zero_and_of_unrelated_ones_one():
    vectors = np.array([[1, 0], [5, 0], [0, 1]])
    assert metrics.diversity([[0, 1], [0, 2]], vectors, per_row=True).tolist() == [0, 1]


def test_diversity_needs_two_items():
    assert math.isnan(metrics.diversity([[0], [1]], np.eye(2)))


def test_beyond_accuracy_equals_the_metrics_of_the_lists_of_the_model(X, model):
    ids, _ = model.recommend(X, k=5)
    expected = {
        "coverage@5": metrics.coverage(ids, X.shape[1]),
        "gini@5": metrics.gini(ids, X.shape[1]),
        "novelty@5": metrics.novelty(ids, X),
        "average_popularity@5": metrics.average_popularity(ids, X),
        "popularity_lift@5": metrics.popularity_lift(ids, X),
        "diversity@5": metrics.diversity(ids, X.T),
    }
    assert dsstne.beyond_accuracy(model, X, k=5) == pytest.approx(expected, rel=1e-12)


def test_blocks_of_rows_give_what_all_rows_together_give(monkeypatch, X, model):
    whole = dsstne.beyond_accuracy(model, X, k=5)
    monkeypatch.setattr(dsstne.evaluation, "_IDS", 35)  # 7 rows
    assert dsstne.beyond_accuracy(model, X, k=5) == pytest.approx(whole, rel=1e-12)


def test_chosen_rows_are_the_rows_that_count(X, model):
    rows = [5, 3, 100]
    ids, _ = model.recommend(X, k=4, rows=rows)
    got = dsstne.beyond_accuracy(model, X, k=4, rows=rows)
    assert got["popularity_lift@4"] == pytest.approx(metrics.popularity_lift(ids, X[rows], X), rel=1e-12)


@pytest.mark.parametrize(("chosen", "catalogue"), [({"items": [1, 2, 3, 3]}, 3), ({"filter_items": [0, 1]}, 58)])
def test_the_catalogue_is_what_may_be_ranked(X, model, chosen, catalogue):
    ids, _ = model.recommend(X, k=2, **chosen)
    got = dsstne.beyond_accuracy(model, X, k=2, **chosen)
    assert got["coverage@2"] == len(np.unique(ids[ids >= 0])) / catalogue
    assert got["gini@2"] == pytest.approx(metrics.gini_of(np.unique(ids[ids >= 0], return_counts=True)[1], catalogue))


def test_no_items_to_rank_give_nan(X, model):
    got = dsstne.beyond_accuracy(model, X, k=2, items=[])
    assert all(math.isnan(value) for value in got.values())


def test_given_vectors_replace_the_columns_of_the_data(X, model):
    ids, _ = model.recommend(X, k=5)
    vectors = model.tensor("output.weight")
    got = dsstne.beyond_accuracy(model, X, k=5, vectors=vectors)
    assert got["diversity@5"] == pytest.approx(metrics.diversity(ids, vectors))


def test_inputs_that_are_not_the_items_need_train():
    features = scipy.sparse.csr_array(np.eye(4, 3, dtype=np.float32))
    labels = scipy.sparse.csr_array(np.eye(4, 5, dtype=np.float32))
    model = dsstne.fit(features, labels, hidden=2, epochs=1, progress=False)
    with pytest.raises(dsstne.InvalidArgumentError, match="train is None, but the columns of X are not the items"):
        dsstne.beyond_accuracy(model, features, k=2)
    got = dsstne.beyond_accuracy(model, features, k=2, train=labels)
    assert math.isnan(got["popularity_lift@2"])
    assert 0 < got["coverage@2"] <= 1


def test_the_result_prints_as_a_table(X, model):
    text = str(dsstne.beyond_accuracy(model, X, k=5))
    assert [line.split()[0] for line in text.splitlines()][1] == "coverage@5"
    assert "<table>" in dsstne.beyond_accuracy(model, X, k=5)._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.coverage([0, 1], 3), "ids must be integers"),
        (lambda: metrics.coverage([[0.5]], 3), "ids must be integers"),
        (lambda: metrics.gini([[0, 1], [2, 9]], 3), r"ids\[1, 1\] is 9; with 3 items it is -1 to 2"),
        (lambda: metrics.novelty([[-2]], np.eye(3)), r"ids\[0, 0\] is -2"),
        (lambda: metrics.novelty([[0]], np.zeros((0, 3))), "train has no rows"),
        (lambda: metrics.popularity_lift([[0]], np.eye(3)), "ids has 1 rows and X 3"),
        (lambda: metrics.popularity_lift([[0]], np.eye(3), np.eye(4)), "X has 3 columns and train 4"),
        (lambda: metrics.diversity([[0]], [1, 2]), "vectors must be numbers"),
        (lambda: metrics.diversity([[0]], [[np.nan]]), "vectors: row 0 has a value that is not finite"),
    ],
)
def test_bad_lists_and_matrices_are_refused_in_words(call, message):
    with pytest.raises(dsstne.DsstneError, match=message):
        call()


def test_train_and_vectors_must_have_the_items_of_the_model(X, model):
    with pytest.raises(dsstne.InvalidArgumentError, match="train has 59 items; the model has 60"):
        dsstne.beyond_accuracy(model, X, k=5, train=X[:, :59])
    with pytest.raises(dsstne.InvalidArgumentError, match="vectors has 2 items; the model has 60"):
        dsstne.beyond_accuracy(model, X, k=5, vectors=np.eye(2))


def test_a_dataset_is_read_like_its_matrix(X, model):
    with dsstne.Dataset(X) as data:
        assert dsstne.beyond_accuracy(model, data, k=5) == dsstne.beyond_accuracy(model, X, k=5)


def test_duplicates_and_stored_zeros_do_not_count():
    train = scipy.sparse.csr_array(([1.0, 1.0, 0.0], [0, 0, 1], [0, 3, 3]), shape=(2, 2))
    assert metrics.average_popularity([[0], [1]], train, per_row=True).tolist() == [1, 0]
