"""Splitters of users and of interactions, alone and in the hands of scikit-learn."""

import pickle
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas
import pytest
from scipy import sparse

import dsstne
from dsstne import Interactions
from dsstne.datasets import hold_out
from dsstne.errors import InvalidArgumentError
from dsstne.model_selection import EntryKFold, HoldOut, LeaveLastOut, TimeSplit, UserKFold, UserShuffleSplit

ENTRY_SPLITTERS = {
    "HoldOut": HoldOut(0.3, n_splits=3, seed=1),
    "EntryKFold": EntryKFold(n_splits=4, seed=1),
    "LeaveLastOut": LeaveLastOut(n=2),
    "TimeSplit": TimeSplit(before=500),
}


@pytest.fixture(scope="module")
def taken():
    """Users with 1 to 30 interactions, at times that often are equal."""
    rng = np.random.default_rng(0)
    lengths = np.arange(1, 31)
    items = np.concatenate([rng.choice(40, n, replace=False) for n in lengths])
    return made(np.repeat(np.arange(30), lengths), items, rng.integers(0, 1000, len(items)) // 50 * 50)


def made(user, item, time):
    return Interactions.from_frame({"user": user, "item": item, "time": time}, time="time")


def rows_of(part):
    return np.diff(part.matrix.indptr)


def recall(X_train, X_test, k=5):
    """A model of the training part, measured with what is given of the test part."""
    model = dsstne.item_knn(X_train, k=k, progress=False, threads=1)
    return dsstne.evaluate(model, X_test.given, X_test, "recall@5", threads=1)["recall@5"]


@pytest.mark.parametrize("name", ENTRY_SPLITTERS)
def test_train_and_test_are_all_entries_and_none_twice(name, taken):
    splits = list(ENTRY_SPLITTERS[name].split(taken))
    assert len(splits) == ENTRY_SPLITTERS[name].get_n_splits(taken)
    for train, test in splits:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(taken)))
        assert np.array_equal(train, np.sort(train))


@pytest.mark.parametrize("name", ENTRY_SPLITTERS)
def test_what_is_given_of_a_test_part_is_the_training_part(name, taken):
    for train, test in ENTRY_SPLITTERS[name].split(taken):
        assert abs(taken[test].given - taken[train].matrix).nnz == 0


@pytest.mark.parametrize("name", sorted(set(ENTRY_SPLITTERS) - {"TimeSplit"}))
def test_the_only_entry_of_a_user_is_trained_with_and_every_user_keeps_one(name, taken):
    for train, test in ENTRY_SPLITTERS[name].split(taken):
        assert rows_of(taken[train]).min() == 1
        assert rows_of(taken[test])[0] == 0


@pytest.mark.parametrize(
    "splitter", [HoldOut(0.3, seed=1), EntryKFold(3, seed=1), UserKFold(3, 1), UserShuffleSplit(seed=1)]
)
def test_a_split_is_a_function_of_the_seed(splitter, taken):
    X = taken.matrix if "User" in repr(splitter) else taken
    first, again = (np.concatenate([test for _, test in splitter.split(X)]) for _ in range(2))
    other = np.concatenate([test for _, test in type(splitter)(seed=2).split(X)])
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_first_hold_out_is_that_of_the_function(taken):
    X_in, X_held_out = hold_out(taken, 0.3, seed=7)
    train, test = next(HoldOut(0.3, n_splits=2, seed=7).split(taken))
    assert abs(taken[train].matrix - X_in).nnz == 0
    assert abs(taken[test].matrix - X_held_out).nnz == 0


def test_held_out_parts_of_several_splits_differ(taken):
    tests = [test.tobytes() for _, test in HoldOut(0.3, n_splits=4).split(taken)]
    assert len(set(tests)) == 4


def test_each_entry_but_the_only_ones_is_tested_once_by_k_folds(taken):
    counts = np.bincount(np.concatenate([test for _, test in EntryKFold(4).split(taken)]), minlength=len(taken))
    assert counts.tolist() == [0] + [1] * (len(taken) - 1)  # the first user has a single entry


def test_folds_of_entries_have_equal_sizes_for_each_user_and_in_all():
    taken = Interactions(sparse.csr_array(np.ones((3000, 7), np.float32)))
    sizes = [(rows_of(taken[test]), len(test)) for _, test in EntryKFold(5).split(taken)]
    assert all(set(rows.tolist()) <= {1, 2} for rows, _ in sizes)
    # Two of seven entries go to one of two parts: 4200 each, with a deviation of sqrt(3000 0.4 0.6) = 27.
    assert all(abs(size - 4200) < 5 * 27 for _, size in sizes)


def test_the_last_entries_of_each_user_are_left_out(taken):
    train, test = next(LeaveLastOut(n=2).split(taken))
    assert rows_of(taken[test]).tolist() == [0, 1] + [2] * 28
    row = np.repeat(np.arange(30), rows_of(taken))
    for user in range(1, 30):
        earlier, later = (part[row[part] == user] for part in (train, test))
        assert taken.times[earlier].max() <= taken.times[later].min()


def test_of_equal_times_the_higher_item_is_the_later():
    taken = made([1, 1, 1], [5, 7, 6], [3, 3, 3])
    assert next(LeaveLastOut().split(taken))[1].tolist() == [2]


def test_a_time_split_separates_before_from_after(taken):
    train, test = next(TimeSplit(before=500).split(taken))
    assert taken.times[train].max() < 500 <= taken.times[test].min()


EAST = timezone(timedelta(hours=3))


@pytest.mark.parametrize(
    "before",
    [
        "2026-01-02",
        np.datetime64("2026-01-02T00:00"),
        "2026-01-01T13",
        datetime(2026, 1, 2),
        datetime(2026, 1, 2, 3, tzinfo=EAST),
        pandas.Timestamp("2026-01-01T13", tz="UTC"),
    ],
)
def test_a_time_split_of_dates_takes_a_date(before):
    taken = made([1, 1, 2], [1, 2, 1], np.array(["2026-01-01", "2026-01-03", "2026-01-02"], "datetime64[s]"))
    assert [part.tolist() for part in next(TimeSplit(before).split(taken))] == [[0], [1, 2]]


def test_each_row_is_tested_once_by_folds_of_users(taken):
    splits = list(UserKFold(n_splits=4).split(taken.matrix))
    assert np.sort(np.concatenate([test for _, test in splits])).tolist() == list(range(30))
    assert sorted(len(test) for _, test in splits) == [7, 7, 8, 8]
    assert all(len(np.intersect1d(train, test)) == 0 and len(train) + len(test) == 30 for train, test in splits)


def test_a_shuffled_split_of_users_has_the_share(taken):
    splits = list(UserShuffleSplit(0.25, n_splits=3).split(taken.matrix))
    assert [len(test) for _, test in splits] == [8, 8, 8]  # 7.5, rounded to even
    assert len({test.tobytes() for _, test in splits}) == 3


@pytest.mark.parametrize(
    ("splitter", "X", "words"),
    [
        (
            HoldOut(),
            sparse.eye_array(3).tocsr(),
            r"HoldOut splits the entries of dsstne.Interactions, not of a csr_array",
        ),
        (HoldOut(1.0), None, "fraction must be between 0 and 1, not 1.0"),
        (HoldOut(n_splits=0), None, "n_splits must be at least 1"),
        (HoldOut(seed="a"), None, "seed must be an integer"),
        (HoldOut(0.001), None, r"HoldOut\(fraction=0.001, n_splits=1, seed=0\) leaves nothing to test with"),
        (EntryKFold(1), None, "n_splits must be at least 2"),
        (LeaveLastOut(0), None, "n must be at least 1"),
        (
            LeaveLastOut(),
            Interactions(sparse.csr_array((2, 2))),
            r"LeaveLastOut needs the times .*from_frame\(..., time=\)",
        ),
        (TimeSplit(0), None, r"TimeSplit\(before=0\) leaves nothing to train with"),
        (TimeSplit("2026"), None, "before must be a number, as the times are, not '2026'"),
        (TimeSplit(float("nan")), None, "before must be a number"),
        (TimeSplit("soon"), made([1], [1], np.array(["2026"], "datetime64[s]")), "before must be a time"),
        (TimeSplit(7.5), made([1], [1], np.array(["2026"], "datetime64[s]")), "before must be a time"),
        (UserKFold(), Interactions(sparse.csr_array((9, 2))), "splits the rows of a matrix; give interactions.matrix"),
        (UserKFold(), [1, 2], "splits the rows of a matrix, not of a list"),
        (UserKFold(9), np.eye(3), "at least as many rows as parts; X has 3"),
        (UserShuffleSplit(0.01), np.eye(3), "leaves nothing to test with"),
    ],
)
def test_what_cannot_be_split_is_told(splitter, X, words, taken):
    with pytest.raises(InvalidArgumentError, match=words):
        list(splitter.split(taken if X is None else X))


@pytest.mark.parametrize("name", ENTRY_SPLITTERS)
def test_a_splitter_is_a_value(name):
    splitter = ENTRY_SPLITTERS[name]
    assert pickle.loads(pickle.dumps(splitter)) == splitter


def test_a_score_of_a_fold_finds_items_that_the_model_has_not_seen():
    blocks = np.kron(np.eye(3), np.ones((10, 8))).astype(np.float32)  # three groups of users with items of their own
    taken = Interactions(sparse.csr_array(blocks))
    train, test = next(HoldOut(0.25).split(taken))
    assert recall(taken[train], taken[test], k=8) == 1.0


# ---- scikit-learn ----


@pytest.fixture(scope="module")
def neighbors():
    """A class of estimators as scikit-learn knows them."""
    base = pytest.importorskip("sklearn.base")

    class Neighbors(base.BaseEstimator):
        def __init__(self, k=5):
            self.k = k

        def fit(self, X, y=None):
            self.model_ = dsstne.item_knn(X, k=self.k, progress=False, threads=1)
            return self

        def score(self, X, y=None):
            return dsstne.evaluate(self.model_, X.given, X, "recall@5", threads=1)["recall@5"]

    return Neighbors


@pytest.mark.parametrize(
    "splitter", [HoldOut(0.3, n_splits=2), EntryKFold(3), LeaveLastOut(), TimeSplit(500)], ids=repr
)
def test_cross_validation_of_scikit_learn_scores_the_folds(splitter, neighbors, taken):
    from sklearn.model_selection import cross_val_score

    expected = [recall(taken[train], taken[test]) for train, test in splitter.split(taken)]
    assert cross_val_score(neighbors(), taken, cv=splitter, error_score="raise").tolist() == expected


def test_splitters_of_scikit_learn_split_interactions(neighbors, taken):
    from sklearn.model_selection import KFold, ShuffleSplit, cross_val_score, train_test_split

    for splitter in (KFold(3, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0)):
        expected = [recall(taken[train], taken[test]) for train, test in splitter.split(taken)]
        assert cross_val_score(neighbors(), taken, cv=splitter, error_score="raise").tolist() == expected
    train, test = train_test_split(taken, test_size=0.2, random_state=0)
    assert abs(test.given - train.matrix).nnz == 0


def test_a_search_in_processes_gives_what_it_gives_in_one(neighbors, taken):
    from sklearn.model_selection import GridSearchCV

    def search(jobs):
        found = GridSearchCV(neighbors(), {"k": [1, 9]}, cv=EntryKFold(3), n_jobs=jobs, error_score="raise").fit(taken)
        return found.cv_results_["mean_test_score"].tolist(), found.best_params_

    alone = search(1)
    assert search(2) == alone
    assert max(alone[0]) > 0


def test_a_nested_search_sees_nothing_of_the_outer_test_part(neighbors, taken):
    from sklearn.model_selection import GridSearchCV, cross_validate

    seen = []

    class Watching(neighbors):
        def fit(self, X, y=None):
            seen.append(("fit", X))
            return super().fit(X)

        def score(self, X, y=None):
            seen.append(("score", X))
            return super().score(X)

    outer = EntryKFold(2)
    search = GridSearchCV(Watching(), {"k": [1, 5]}, cv=EntryKFold(3), error_score="raise")
    cross_validate(search, taken, cv=outer, error_score="raise")
    calls = iter(seen)
    for train, test in outer.split(taken):
        hidden, allowed = taken[test].matrix, taken[train].matrix
        for _ in range(2 * 3 * 2 + 1):  # of the inner folds and settings, and the refit
            kind, part = next(calls)
            known = part.matrix if kind == "fit" else part.given + part.matrix
            assert known.multiply(hidden).nnz == 0
            assert abs(known.multiply(allowed) - known).nnz == 0
        kind, part = next(calls)
        assert kind == "score"
        assert abs(part.given - allowed).nnz == 0
    assert next(calls, None) is None
