"""dsstne.auto tries several models, keeps its budget, and says what it did."""

import errno
import itertools
import pickle
import subprocess
import sys
import tempfile
import time

import matplotlib.figure
import numpy as np
import pytest
import scipy.sparse
from terminal import terminal

import dsstne
from dsstne import _auto_networks, _auto_order, _auto_trials, _candidates, _recipes, _validation, progress, selection


def interactions(rows=150, items=60, seed=0):
    """Rows of two hidden tastes and popular items, sorted by item."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) @ rng.normal(size=(4, items)) + rng.normal(size=items) - 3
    return scipy.sparse.csr_array((rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32))


X = interactions()


def values(model):
    return {name: model.tensor(name) for name in model.tensors if scipy.sparse.issparse(model.tensor(name)) is False}


def same(a, b):
    assert sorted(a.tensors) == sorted(b.tensors)
    assert np.array_equal(a.predict(X), b.predict(X))


@pytest.fixture
def quick(monkeypatch):
    """Ends the search when every family was tried once, and trains for a moment."""
    monkeypatch.setattr(_auto_order, "_further", lambda *_: None)
    monkeypatch.setattr(_recipes._defaults, "MOST_EPOCHS", 8)


def only(monkeypatch, family):
    """Leaves one family whose settings are searched; of the others the usual settings are tried."""
    monkeypatch.setattr(_recipes, "RANGES", {family: _recipes.RANGES[family]})


@pytest.fixture(scope="module")
def chosen():
    """A whole search."""
    return dsstne.auto(X, "ndcg@10", seconds=1000, progress=False)  # time decides nothing, even on a busy machine


# ---- what is tried, and what is chosen ----


def test_every_kind_of_model_is_tried_with_several_settings(chosen):
    tried = [row["model"] for row in chosen.report.table if row["ndcg@10"] is not None]
    assert set(tried) == {"popularity", "item_knn", "rp3beta", "linear", "spectral", "ials", "autoencoder", "sum"}
    assert tried.count("linear") > 10
    assert tried.count("autoencoder") > 3
    assert len({(row["model"], row["settings"]) for row in chosen.report.table}) == len(tried)


def test_the_best_of_what_was_kept_is_chosen(chosen):
    kept = [row for row in chosen.report.table if row["kept"] and row["model"] != "sum"]
    assert len(kept) == 7
    better = [row["ndcg@10"] for row in chosen.report.table if row["model"] == "sum" and not row["note"]]
    best = max(row["ndcg@10"] for row in kept)
    assert [row["ndcg@10"] for row in chosen.report.table if row["chosen"]] == [max([best, *better])]
    assert best > 1.2 * next(row["ndcg@10"] for row in kept if row["model"] == "popularity")


def test_a_setting_replaces_another_only_if_it_is_better_by_more_than_its_standard_error(chosen):
    rows = [row for row in chosen.report.table if row["model"] == "linear"]
    assert sum(row["kept"] for row in rows) == 1
    first, kept = rows[0], next(row for row in rows if row["kept"])
    assert kept["ndcg@10"] >= first["ndcg@10"]
    assert dsstne._blending.is_better(np.full(10, 2.0), np.full(10, 1.0))
    assert not dsstne._blending.is_better(np.array([0.0, 3.0]), np.array([1.0, 1.0]))


@pytest.mark.long
def test_settings_that_look_better_are_kept_if_fresh_splits_confirm_it(monkeypatch):
    monkeypatch.setattr(_auto_networks.Networks, "first", lambda networks: None)
    only(monkeypatch, "linear")
    monkeypatch.setattr(_auto_trials._blending, "is_better", lambda *_: False)
    for answer in (False, True):
        monkeypatch.setattr(_auto_trials.Trials, "_is_confirmed", lambda *_, answer=answer: answer)
        rows = [row for row in dsstne.auto(X, progress=False).report.table if row["model"] == "linear"]
        kept = [row["ndcg@20"] for row in rows if row["kept"]]
        assert kept == [max(row["ndcg@20"] for row in rows) if answer else rows[0]["ndcg@20"]]


def test_fresh_splits_tell_better_from_worse():
    task = _validation.prepare(X, None, None, 0)
    hidden = {fold.held_out.indices.tobytes() for fold in task.folds + task.fresh}
    assert len(hidden) == 10
    common = {"items": None, "seed": 0, "devices": "auto", "threads": None, "memory_limit": None}
    bar = progress.Budget("test", 1000, False)
    trials = _auto_trials.Trials(task, "ndcg@10", 1000, time.monotonic(), common, bar)
    better, worse = (trials.run(_recipes.Recipe.of(name)) for name in ("linear", "popularity"))
    assert trials._is_confirmed(better, worse)
    assert not trials._is_confirmed(worse, better)


def test_what_ranks_slowly_is_searched_on_some_of_the_rows(monkeypatch):
    monkeypatch.setattr(_auto_order, "_WORK", 0)
    monkeypatch.setattr(_auto_networks.Networks, "first", lambda networks: None)
    only(monkeypatch, "spectral")
    monkeypatch.setattr(_auto_trials, "_SEARCH_ROWS", 20)
    monkeypatch.setattr(_auto_order, "_WORTH", 0)
    table = dsstne.auto(ordered(), "ndcg@10", progress=False).report.table
    of_all = next(row["rows"] for row in table if row["model"] == "popularity")
    rows = [row for row in table if row["model"] == "spectral"]
    assert {row["rows"] for row in rows} == {20, of_all}
    assert [row["rows"] for row in rows if row["kept"]] == [of_all]
    assert sum(row["rows"] == of_all for row in rows) <= 4  # the first settings, and the best of the search


def test_a_group_of_settings_begins_with_the_best_of_the_groups_before():
    groups = _auto_networks.Groups([[{"a": 1}, {"a": 2}], [{"b": 1}], [{"a": 3}]])
    drawn = []
    for number, value in enumerate([0.1, 0.05, 0.2, 0.15, 0.1]):
        drawn.append(groups.draw(number, seed=0))
        groups.learn(drawn[-1], number, value)
    assert groups.count == 5
    assert drawn == [{}, {"a": 1}, {"a": 2}, {"a": 2, "b": 1}, {"a": 3}]


def test_networks_train_up_to_rungs_and_leave_no_file(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_recipes, "RANGES", {})
    monkeypatch.setattr(_candidates, "_LEAST_STEPS", 5)
    table = dsstne.auto(ordered(), "ndcg@10", seconds=1000, progress=False).report.table
    rows = [row for row in table if row["model"] == "autoencoder"]
    paused = [row for row in rows if "." in row["settings"].rpartition("epochs=")[2]]
    whole = [row for row in rows if row not in paused]
    assert len(whole) >= 2, "the usual settings, and the best of the others"
    assert len(paused) > 2 * len(whole)
    assert not any(row["kept"] for row in paused)
    assert [row["kept"] for row in whole].count(True) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_network_is_tried_after_one_that_time_has_ended(monkeypatch):
    begun = []

    def train(done, data, settings, *_, **__):
        begun.append(settings)
        if settings.get("denoising") == 0.7:
            raise dsstne.CancelledError("the time is over")
        return real(done, data, settings, *_, **__)

    real = _candidates.train
    monkeypatch.setattr(_recipes, "RANGES", {})
    monkeypatch.setattr(_candidates, "_LEAST_STEPS", 5)
    monkeypatch.setattr(_candidates, "train", train)
    report = dsstne.auto(ordered(), "ndcg@10", seconds=1000, progress=False).report
    assert begun[-1]["denoising"] == 0.7
    assert not any("hidden" in settings for settings in begun)
    assert any("autoencoder (" in note and "was not finished" in note for note in report.notes)


def test_the_code_makes_the_network_of_a_trial_that_learnt_from_all_data(monkeypatch):
    def fail(*_, **__):
        raise dsstne.NotFiniteError("the loss is not finite")

    for family in ("item_knn", "rp3beta", "linear", "spectral", "ials"):
        monkeypatch.setitem(_recipes.FUNCTIONS, family, fail)
    monkeypatch.setattr(_auto_order, "_further", lambda *_: None)
    monkeypatch.setattr(_candidates, "_LEAST_STEPS", 5)
    validation = dsstne.datasets.hold_out(interactions(seed=1), seed=0)
    model = dsstne.auto(X, "ndcg@10", seconds=1000, validation=validation, progress=False)
    assert model.report.chosen.startswith("autoencoder (epochs=50, schedule=")
    names = {"X": X}
    exec(model.report.code, names)
    same(names["model"], model)


def test_without_a_temporary_folder_the_other_models_are_tried(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(_auto_order, "_further", lambda *_: None)
    report = dsstne.auto(X, "ndcg@10", progress=False).report
    notes = [row["note"] for row in report.table if row["model"] == "autoencoder"]
    assert len(notes) == 1
    assert "no temporary folder for checkpoints can be made: Read-only file system" in notes[0]


def test_the_metric_in_the_table_is_that_of_evaluate(quick):
    report = dsstne.auto(X, "recall@5", progress=False).report
    metric = report.metric
    task = _validation.prepare(X, None, None, 0)
    expected = []
    for fold in task.folds:
        model = dsstne.spectral(fold.train, method="gf_cf", progress=False)
        values = dsstne.evaluate(model, fold.inputs, fold.held_out, metric, per_row=True)[metric]
        assert np.isfinite(values).all()
        expected += list(values)
    row = next(row for row in report.table if row["settings"] == "method='gf_cf'")
    assert row[metric] == pytest.approx(np.mean(expected), abs=1e-12)
    assert row["rows"] == task.rows == len(expected) / 5


def test_few_data_are_compared_by_longer_lists(quick):
    report = dsstne.auto(X, "recall@3", progress=False).report
    longer = min(15, X.shape[1] // 10)
    assert longer >= 6
    assert report.metric == f"recall@{longer}"
    assert any(f"compared by recall@{longer}, not recall@3" in note for note in report.notes)
    few = _validation.prepare(X, None, None, 0)
    assert _validation.compared(f"ndcg@{X.shape[1] // 10}", few) == f"ndcg@{X.shape[1] // 10}"
    train, held_out = dsstne.datasets.hold_out(X)
    for task in (_validation.prepare(train, None, held_out, 0), _validation.prepare(ordered(), None, None, 0)):
        assert _validation.compared("ndcg@3", task) == "ndcg@3"  # the caller has given the data, or the order has


def test_the_code_of_the_report_makes_the_same_model(chosen):
    names = {"X": X}
    exec(chosen.report.code, names)
    same(chosen, names["model"])


@pytest.mark.long
def test_the_same_seed_gives_the_same_model(quick):
    first, second = (dsstne.auto(X, seed=3, progress=False, threads=n) for n in (1, 2))
    same(first, second)
    without = [{key: value for key, value in row.items() if "seconds" not in key and key != "memory"} for row in []]
    for a, b in zip(first.report.table, second.report.table, strict=True):
        without.append((a["model"], a["settings"], a["ndcg@20"]) == (b["model"], b["settings"], b["ndcg@20"]))
    assert all(without)
    assert first.report.split == second.report.split


def test_the_model_learns_from_all_data(quick):
    model = dsstne.auto(X, items=[f"item {n}" for n in range(60)], progress=False)
    direct = dsstne.popularity(X)
    trained = np.diff(X.tocsc().indptr)
    assert np.array_equal(direct.tensor("bias"), trained)
    assert list(model.items[:2]) == ["item 0", "item 1"]
    names = {"X": X, "items": model.items}
    exec(model.report.code, names)
    same(model, names["model"])


def lucky(search):
    """Makes a sum of the first two parts look better than all else."""
    choice = search._try((12, 8) + (0,) * (search._parts - 2))
    return [search._try((20,) + (0,) * (search._parts - 1)), choice._replace(mean=2.0)]


def test_a_sum_is_made_of_its_parts(quick, monkeypatch):
    monkeypatch.setattr(selection._blending.Search, "best_of_each_size", lucky)
    model = dsstne.auto(X, progress=False)
    assert " + " in model.report.chosen
    assert [row["settings"] for row in model.report.table if row["chosen"]] == [model.report.chosen]
    names = {"X": X}
    exec(model.report.code, names)
    same(model, names["model"])


def test_a_sum_of_more_parts_must_be_better(quick, monkeypatch):
    def unlucky(search):
        first, second = lucky(search)
        return [first, second, search._try((10, 6, 4) + (0,) * (search._parts - 3))._replace(mean=1.9)]

    monkeypatch.setattr(selection._blending.Search, "best_of_each_size", unlucky)
    report = dsstne.auto(X, progress=False).report
    assert [(row["chosen"], row["note"]) for row in report.table if row["model"] == "sum"] == [
        (True, ""),
        (False, "not better than fewer parts"),
    ]


# ---- how data are split ----


def ordered():
    """A matrix whose rows are not sorted."""
    shuffled = X.copy()
    rng = np.random.default_rng(1)
    for begin, end in itertools.pairwise(shuffled.indptr):
        shuffled.indices[begin:end] = rng.permutation(shuffled.indices[begin:end])
    shuffled.has_sorted_indices = False
    return shuffled


def test_times_decide_what_is_held_out():
    times = X.copy()
    times.data = np.random.default_rng(0).random(X.nnz).astype(np.float32)
    task = _validation.prepare(X, times, None, 0)
    expected = dsstne.datasets.hold_out(X, last=times, core=10)
    assert "by times=" in task.split
    assert not task.notes
    assert (task.train != expected[0]).nnz == 0


def test_the_order_of_unsorted_rows_decides_what_is_held_out():
    task = _validation.prepare(ordered(), None, None, 0)
    expected = dsstne.datasets.hold_out(ordered(), last=True, core=10)
    assert "in the order in which X stores it" in task.split
    assert (task.train != expected[0]).nnz == 0


def test_rows_that_are_sorted_by_item_are_split_at_random_and_the_report_says_so(chosen):
    assert chosen.report.split.startswith("a random fifth of each row")
    assert any("times=" in note for note in chosen.report.notes)


def test_equal_times_do_not_count():
    times = X.copy()
    times.data[:] = 7
    task = _validation.prepare(X, times, None, 0)
    assert task.split.startswith("a random fifth")
    assert "single time" in task.notes[0]


def test_rare_items_are_left_out_only_where_most_items_are_not_rare():
    assert "at least 10 rows" in _validation.prepare(X, None, None, 0).split
    rare = scipy.sparse.hstack([X, scipy.sparse.eye_array(150, 100)], format="csr")
    assert "at least 10 rows" not in _validation.prepare(rare, None, None, 0).split


def test_few_held_out_items_are_drawn_several_times():
    task = _validation.prepare(X, None, None, 0)
    assert len(task.folds) == 5
    assert "5 such splits, and 5 to confirm settings" in task.split
    assert {fold.held_out.shape for fold in task.folds} == {(task.rows, 60)}
    assert all(np.diff(fold.held_out.indptr).min() > 0 for fold in task.folds)
    assert len({fold.held_out.indices.tobytes() for fold in task.folds}) == 5
    assert len(_validation.prepare(ordered(), None, None, 0).folds) == 1
    assert len(_validation.prepare(scipy.sparse.csr_array(np.ones((5000, 11))), None, None, 0).folds) == 1


def test_at_most_4000_rows_count():
    wide = scipy.sparse.csr_array(np.ones((5000, 3), np.float32))
    task = _validation.prepare(wide, None, None, 0)
    assert all(fold.held_out.shape == (4000, 3) for fold in task.folds)
    assert "4,000 of 5,000 rows" in task.split


def test_the_entries_of_a_validation_matrix_belong_to_the_refit(quick):
    train, held_out = dsstne.datasets.hold_out(X, seed=5)
    model = dsstne.auto(train, validation=held_out, progress=False)
    names = {"X": train, "validation": held_out}
    exec(model.report.code, names)
    same(model, names["model"])
    assert names["X"].nnz == X.nnz


def test_zeros_and_duplicates_of_a_validation_matrix_do_not_count(quick):
    train, held_out = dsstne.datasets.hold_out(X, seed=5)
    twice = scipy.sparse.csr_array(
        (
            np.repeat(held_out.data, 3) * np.tile([0.25, 0.75, 0], held_out.nnz).astype(np.float32),
            (np.repeat(held_out.indices, 3) + np.tile([0, 0, 1], held_out.nnz)) % 60,
            3 * held_out.indptr,
        ),
        shape=held_out.shape,
    )
    reports = [dsstne.auto(train, validation=one, progress=False).report for one in (held_out, twice)]
    first, second = ([row["ndcg@20"] for row in report.table] for report in reports)
    assert first == second


def test_rows_of_a_validation_pair_are_not_learnt(quick):
    pair = dsstne.datasets.hold_out(X[100:], seed=5)
    model = dsstne.auto(X[:100], validation=pair, progress=False)
    names = {"X": X[:100]}
    exec(model.report.code, names)
    same(model, names["model"])


# ---- time and memory ----


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_a_budget_is_kept(seconds):
    larger = interactions(3000, 500)
    for _ in range(3):  # other processes may have the processors once, and twice
        start = time.monotonic()
        report = dsstne.auto(larger, seconds=seconds, progress=False).report
        elapsed = time.monotonic() - start
        if elapsed < seconds + 2:
            break
    assert elapsed < seconds + 2
    assert report.seconds == pytest.approx(elapsed, abs=0.5)
    assert any("time decided" in note for note in report.notes)


def test_no_time_for_anything_gives_popularity_and_a_warning():
    with pytest.warns(UserWarning, match=r"auto returns popularity, since .* no time left"):
        model = dsstne.auto(X, seconds=1e-6, progress=False)
    assert model.report.chosen == "popularity"
    same(model, dsstne.popularity(X))


def test_models_that_fail_are_listed_and_skipped(quick, monkeypatch):
    def fail(*_, **__):
        raise dsstne.NotFiniteError("the loss is not finite")

    monkeypatch.setitem(_recipes.FUNCTIONS, "autoencoder", fail)
    report = dsstne.auto(X, progress=False).report
    assert [row["note"] for row in report.table if row["model"] == "autoencoder"] == [
        "NotFiniteError: the loss is not finite"
    ]
    assert "autoencoder" not in report.chosen


def test_models_above_the_limit_of_memory_are_listed_and_skipped(quick):
    report = dsstne.auto(X, memory_limit=400_000, progress=False).report
    failed = [row["model"] for row in report.table if row["note"].startswith("OutOfMemoryError")]
    assert "autoencoder" in failed
    assert report.chosen.split()[0] not in failed


@pytest.mark.long
def test_a_refit_that_fails_leaves_the_choice_to_the_next_model(quick, monkeypatch):
    monkeypatch.setattr(selection._blending.Search, "best_of_each_size", lambda search: [])
    first = dsstne.auto(X, progress=False).report.chosen.split()[0]
    real = _recipes.FUNCTIONS[first]

    def only_on_the_split(data, **options):
        if data.nnz == X.nnz:
            raise dsstne.NotFiniteError("no refit")
        return real(data, **options)

    monkeypatch.setitem(_recipes.FUNCTIONS, first, only_on_the_split)
    report = dsstne.auto(X, progress=False).report
    assert report.chosen.split()[0] == report.best()[1]["model"]
    assert any(f"the refit of {first} failed: NotFiniteError: no refit" in note for note in report.notes)


def test_without_time_for_a_refit_the_best_model_is_returned_as_it_was_tried(quick, monkeypatch):
    monkeypatch.setattr(selection._Choice, "_ways", lambda *_: None)
    report = dsstne.auto(X, progress=False).report
    assert report.chosen.split()[0] != "popularity"
    assert any("there was no refit" in note and "without the held-out items" in note for note in report.notes)
    assert any("its refit does not fit into the time" in note for note in report.notes)


def test_sums_end_when_the_refits_need_the_time_that_is_left(quick, monkeypatch):
    real, count = dsstne._blending.Candidates.values, itertools.count()

    def slow(self, *arguments):
        if next(count) == 20:
            raise dsstne.CancelledError("no more time")
        return real(self, *arguments)

    monkeypatch.setattr(dsstne._blending.Candidates, "values", slow)
    report = dsstne.auto(X, progress=False).report
    assert any("not all sums of models were tried" in note for note in report.notes)
    assert not any("held-out" in note for note in report.notes)


# ---- Ctrl-C ----


def interrupting(monkeypatch, name, calls):
    """Makes a family raise KeyboardInterrupt at one of its calls."""
    real, count = _recipes.FUNCTIONS[name], itertools.count(1)

    def make(*arguments, **options):
        if next(count) == calls:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setitem(_recipes.FUNCTIONS, name, make)


def test_ctrl_c_during_the_search_returns_the_best_so_far(quick, monkeypatch):
    interrupting(monkeypatch, "spectral", 2)
    model = dsstne.auto(X, progress=False)
    assert model.report.table[-1]["note"] == "ended by Ctrl-C"
    assert any("Ctrl-C ended the search" in note and "without the held-out" in note for note in model.report.notes)
    best = max(row["ndcg@20"] for row in model.report.table if row["kept"])
    assert next(row["ndcg@20"] for row in model.report.table if row["chosen"]) == best


@pytest.mark.long
def test_ctrl_c_during_the_refit_returns_the_model_of_the_trial(quick, monkeypatch):
    kind = dsstne.auto(X, progress=False).report.chosen.split()[0]
    monkeypatch.setattr(selection._Choice, "_make", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    model = dsstne.auto(X, progress=False)
    assert model.report.chosen.split()[0] == kind
    assert any("without the held-out items" in note for note in model.report.notes)


def test_ctrl_c_before_the_first_model_raises(monkeypatch):
    monkeypatch.setattr(selection.api, "popularity", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        dsstne.auto(X, progress=False)


# ---- bad input ----


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (X[:5], "only 5 rows have items to hold out"),
        (X[:1], "only 1 rows have"),
        (X[:, [3]], "1 items, so there is nothing to rank"),
        (scipy.sparse.csr_array((40, 5), dtype=np.float32), "only 0 rows"),
        (scipy.sparse.eye_array(40, format="csr"), "only 0 rows"),
        (scipy.sparse.csr_array(np.kron(np.eye(20), [[1, 1, 1]]).astype(np.float32)), "no held-out item occurs"),
    ],
)
def test_data_that_allow_no_comparison_give_popularity_and_say_why(data, reason):
    with pytest.warns(UserWarning, match="auto returns popularity") as caught:
        model = dsstne.auto(data, progress=False)
    assert reason in str(caught[0].message)
    assert reason in str(model.report)
    assert np.array_equal(model.tensor("bias"), dsstne.popularity(data).tensor("bias"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "coverage@20"}, "coverage@20 describes all rows together"),
        ({"metric": "ndgc@20"}, 'did you mean "ndcg@20"'),
        ({"seconds": 0}, "seconds must be above 0"),
        ({"times": X, "validation": X}, "not both"),
        ({"validation": X[:, :5]}, r"expected the shape of X, \(150, 60\), got \(150, 5\)"),
        ({"validation": (X, X, X)}, "expected a matrix or a pair, got 3"),
        ({"validation": (X, X[:3])}, "two matrices of the same shape"),
        ({"validation": X}, "also in the input.*are its rows and columns those of X"),
        ({"devices": "gpu"}, "gpu"),
    ],
)
def test_bad_arguments_are_refused_with_a_sentence(options, message):
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        dsstne.auto(X, progress=False, **options)


def test_validation_items_that_no_row_has_are_refused():
    train = scipy.sparse.hstack([X, scipy.sparse.csr_array((150, 60))], format="csr")
    held_out = scipy.sparse.hstack([scipy.sparse.csr_array((150, 60)), X], format="csr")
    with pytest.raises(dsstne.InvalidArgumentError, match="no held-out item occurs in the rows to learn from"):
        dsstne.auto(train, validation=held_out, progress=False)


# ---- the report ----


def test_the_report_is_a_readable_table(chosen):
    text = str(chosen.report)
    assert text.splitlines()[0].startswith(chosen.report.chosen)
    assert sum(line.startswith("> ") for line in text.splitlines()) == 1
    assert "held out: a random fifth" in text.splitlines()[1]
    assert max(map(len, text.split("\n\n")[-2].splitlines())) <= 120
    assert chosen.report.code.strip() in text
    for row in chosen.report.table:
        assert row["seconds"] >= 0
        assert row["memory"] is None or row["memory"] >= 0


@pytest.mark.long
def test_the_bar_shows_the_time_and_the_best_model_in_a_terminal():
    code = (
        "import numpy as np, scipy.sparse, dsstne\n"
        "X = scipy.sparse.csr_array((np.random.default_rng(0).random((60, 30)) < 0.3).astype(np.float32))\n"
        "dsstne.auto(X, seconds=2)\n"
    )
    with terminal() as (stderr, shown):
        subprocess.run([sys.executable, "-c", code], stderr=stderr, check=True, timeout=60)
    for word in (b"auto: spectral", b"auto: refit of ", b"/2 s", b"best: "):
        assert word in shown, shown


def test_the_report_is_plotted(chosen):
    figure = matplotlib.figure.Figure()
    axes = figure.add_subplot()
    assert chosen.report.plot(axes) is axes
    words = " ".join(text.get_text() for text in axes.texts)
    for name in ("popularity", "linear", "autoencoder", f"{chosen.report.best()[0]['ndcg@10']:.4f}"):
        assert name in words
    with pytest.raises(dsstne.InvalidArgumentError, match="ax must be Axes"):
        chosen.report.plot(3)


def test_the_report_is_saved_and_copied_with_the_model(chosen, tmp_path):
    chosen.save(tmp_path / "chosen.dsstne")
    for other in (dsstne.load(tmp_path / "chosen.dsstne"), pickle.loads(pickle.dumps(chosen)), chosen.copy()):
        assert vars(other.report) == vars(chosen.report)
    assert "dsstne.report" not in dsstne.load(tmp_path / "chosen.dsstne").attributes
    assert dsstne.popularity(X).report is None


def test_what_is_no_report_is_not_saved(tmp_path):
    model = dsstne.popularity(X)
    model.report = 3
    with pytest.raises(dsstne.InvalidArgumentError, match="report must be a dsstne.report.Report"):
        model.save(tmp_path / "bad.dsstne")


@pytest.mark.parametrize("text", ["{}", "[]", "1", "{", '{"metric": 1}'])
def test_a_damaged_report_in_a_model_file_is_an_error(text, tmp_path):
    model = dsstne.popularity(X)
    model.attributes["dsstne.report"] = text
    model.save(tmp_path / "damaged.dsstne")
    with pytest.raises(dsstne.CorruptFileError, match="an attribute is damaged"):
        dsstne.load(tmp_path / "damaged.dsstne")
