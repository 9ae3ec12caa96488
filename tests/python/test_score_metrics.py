"""Metrics of the scores of all items, beside formulas that are written out."""

import math

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne

NAMES = ["rmse", "mae", "auc", "accuracy"]


@pytest.fixture(scope="module")
def held_out(X):
    """Ratings from 1 to 5 of other items; the first rows have none."""
    other = blocks(seed=1).toarray()
    other[X.toarray() > 0] = 0
    other[:7] = 0
    return scipy.sparse.csr_array(other * np.random.default_rng(0).integers(1, 6, other.shape)).astype(np.float32)


def pairwise(scores, targets, others):
    """The share of pairs in which the target is above the other item."""
    above = scores[targets][:, None] > scores[others]
    equal = scores[targets][:, None] == scores[others]
    return (above + 0.5 * equal).mean()


def expected(scores, values, held_out, seen):
    """The metrics of each row that has held-out items, and those of all rows."""
    rows, errors = {name: np.full(len(scores), np.nan) for name in NAMES}, []
    for u in range(len(scores)):
        targets = held_out[[u]].indices
        if not len(targets):
            continue
        others = np.setdiff1d(np.arange(scores.shape[1]), np.append(targets, seen[[u]].indices))
        error = values[u, targets].astype(float) - held_out[[u]].data
        errors += error.tolist()
        rows["rmse"][u], rows["mae"][u] = np.sqrt((error**2).mean()), np.abs(error).mean()
        rows["auc"][u] = pairwise(scores[u], targets, others)
        ranked = scores[u].copy()
        ranked[seen[[u]].indices] = -np.inf
        rows["accuracy"][u] = ranked.argmax() in targets
    means = {name: np.nanmean(rows[name]) for name in ("auc", "accuracy")}
    return rows, {"rmse": np.sqrt(np.square(errors).mean()), "mae": np.abs(errors).mean(), **means}


def rating_model(X):
    layers = [
        {"name": "input", "kind": "input"},
        {"name": "hidden", "kind": "hidden", "size": 6},
        {"name": "output", "kind": "output", "activation": "relu"},
    ]
    network = {"layers": layers, "loss": "squared"}
    return dsstne.fit(X, network=network, epochs=3, learning_rate=0.01, progress=False)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["softmax", "relu", "popularity"])
@pytest.mark.parametrize("exclude", ["input", None])
def test_metrics_equal_the_formulas(model, X, held_out, kind, exclude):
    judged = {"softmax": lambda: model, "relu": lambda: rating_model(X), "popularity": lambda: dsstne.popularity(X)}
    model = judged[kind]()
    scores = model.predict(X)
    values = scores if kind == "popularity" else model.predict(X, activation=True)
    rows, means = expected(scores, values, held_out, X if exclude else scipy.sparse.csr_array(X.shape))
    found = dsstne.evaluate(model, X, held_out, NAMES, exclude=exclude, per_row=True)
    assert list(found) == NAMES
    for name in NAMES:
        np.testing.assert_allclose(found[name], rows[name], rtol=1e-12, err_msg=name)
    assert dsstne.evaluate(model, X, held_out, NAMES, exclude=exclude) == pytest.approx(means, rel=1e-12)


def test_the_area_under_the_curve_is_that_of_scikit_learn(model, X, held_out):
    roc_auc_score = pytest.importorskip("sklearn.metrics").roc_auc_score
    dense, scores = held_out.toarray() > 0, model.predict(X)
    found = dsstne.evaluate(model, X, held_out, "auc", exclude=None, per_row=True)["auc"]
    each = [roc_auc_score(dense[u], scores[u]) for u in range(7, 20)]
    np.testing.assert_allclose(found[7:20], each, rtol=1e-12)


def test_equal_scores_count_one_half():
    X = scipy.sparse.csr_array(np.ones((1, 5), np.float32))
    assert dsstne.evaluate(dsstne.popularity(X), X, X[:, [0, 1, 2, 3, 4]], "auc", exclude=None) == pytest.approx(
        {"auc": math.nan}, nan_ok=True
    )
    target = scipy.sparse.csr_array(np.array([[1, 0, 0, 0, 0]], np.float32))
    assert dsstne.evaluate(dsstne.popularity(X), X, target, "auc", exclude=None) == {"auc": 0.5}


def test_other_items_are_those_that_may_be_ranked(model, X, held_out):
    scores, dense = model.predict(X), held_out.toarray() > 0
    for choice, allowed in (({"items": range(20)}, np.arange(60) < 20), ({"filter_items": [3]}, np.arange(60) != 3)):
        found = dsstne.evaluate(model, X, held_out, "auc", exclude=None, per_row=True, **choice)["auc"]
        for u in range(7, 12):
            expected = pairwise(scores[u], np.flatnonzero(dense[u]), np.flatnonzero(allowed & ~dense[u]))
            assert found[u] == pytest.approx(expected, rel=1e-12)


def test_threads_batches_and_blocks_do_not_change_a_bit(model, X, held_out, monkeypatch):
    def evaluate(**options):
        return dsstne.evaluate(model, X, held_out, NAMES, **options)

    once = evaluate()
    assert once == evaluate(threads=1, batch_size=7)
    assert once == evaluate(memory_limit=20_000_000)
    monkeypatch.setattr("dsstne._predictor._BLOCK", 700)
    assert once == evaluate()


def test_the_scores_of_all_rows_are_never_in_memory_together(model, X, held_out, monkeypatch):
    sizes = []
    block = dsstne._predictor.Predictor.block
    monkeypatch.setattr("dsstne._predictor._BLOCK", 700)
    monkeypatch.setattr(
        dsstne._predictor.Predictor, "block", lambda self, rows: sizes.append(len(rows)) or block(self, rows)
    )
    dsstne.evaluate(model, X, held_out, "rmse")
    assert max(sizes) <= 700 // 60
    assert sum(sizes) == np.count_nonzero(np.diff(held_out.indptr))  # rows without held-out items are not computed


def test_a_block_of_scores_counts_for_the_memory_limit(model, X, held_out):
    with pytest.raises(dsstne.OutOfMemoryError, match="memory_limit"):
        dsstne.evaluate(model, X, held_out, "auc", memory_limit=2_000)


def test_rows_restrict_and_order_the_values(model, X, held_out):
    rows = [200, 3, 100]
    every = dsstne.evaluate(model, X, held_out, NAMES, per_row=True)
    some = dsstne.evaluate(model, X, held_out, NAMES, rows=rows, per_row=True)
    for name in NAMES:
        np.testing.assert_array_equal(some[name], every[name][rows])


def test_metrics_of_scores_go_with_those_of_rankings_in_the_order_that_is_asked_for(model, X, held_out):
    names = ["auc", "precision@1", "accuracy", "rmse", "ndcg@5"]
    found = dsstne.evaluate(model, X, held_out, names)
    assert list(found) == names
    assert found["accuracy"] == found["precision@1"]
    assert found["ndcg@5"] == dsstne.evaluate(model, X, held_out, "ndcg@5")["ndcg@5"]


def test_held_out_items_may_be_a_file_or_arrow_data(model, X, held_out, tmp_path):
    with dsstne.Dataset(held_out) as data:
        data.save(tmp_path / "held_out.arrow")
    with dsstne.Dataset.open(tmp_path / "held_out.arrow") as data:
        assert dsstne.evaluate(model, X, data, NAMES) == dsstne.evaluate(model, X, held_out, NAMES)


def test_stored_zeros_are_absent(model, X, held_out):
    zeros = held_out.copy()
    zeros.data[::3] = 0
    without = zeros.copy()
    without.eliminate_zeros()
    assert dsstne.evaluate(model, X, zeros, NAMES[:3]) == dsstne.evaluate(model, X, without, NAMES[:3])


def test_every_output_is_compared_by_its_own_activation():
    X = scipy.sparse.random_array((30, 40), density=0.2, format="csr", rng=1, dtype=np.float32)
    tags = scipy.sparse.random_array((30, 13), density=0.3, format="csr", rng=2, dtype=np.float32)
    layers = [
        {"name": "input", "kind": "input", "size": 40},
        {"name": "hidden", "kind": "hidden", "size": 8},
        {"name": "products", "kind": "output", "size": 40},
        {"name": "tags", "kind": "output", "size": 13, "sources": ["hidden"]},
    ]
    loss = [{"layer": "products", "kind": "softmax"}, {"layer": "tags", "kind": "sigmoid"}]
    model = dsstne.Model({"layers": layers, "loss": loss}, seed=3)
    values = model.predict(X, "tags", activation=True).astype(float)
    row, column = tags.nonzero()
    expected = np.abs(values[row, column] - tags.toarray()[row, column]).mean()
    assert dsstne.evaluate(model, X, tags, "mae", layer="tags") == pytest.approx({"mae": expected}, rel=1e-12)


def test_no_row_with_held_out_items_gives_nan(model, X):
    nothing = scipy.sparse.csr_array(X.shape, dtype=np.float32)
    found = dsstne.evaluate(model, X, nothing, NAMES)
    assert all(math.isnan(value) for value in found.values())
    assert all(math.isnan(value) for value in dsstne.evaluate(model, X, X, NAMES, rows=[]).values())


WRONG = {
    "rmes": "did you mean 'rmse'",
    "RMSE": "did you mean 'rmse'",
    "roc_auc": "did you mean 'auc'",
    "auc@10": "auc has no cut-off; write 'auc'",
    "map": "no cut-off; write for example",
}


@pytest.mark.parametrize("metric", WRONG)
def test_a_wrong_name_is_told_the_right_one(model, X, metric):
    with pytest.raises(dsstne.InvalidArgumentError, match=WRONG[metric]):
        dsstne.evaluate(model, X, X, metric)


def test_a_metric_listed_twice_is_refused(model, X):
    with pytest.raises(dsstne.InvalidArgumentError, match="'auc' is listed twice"):
        dsstne.evaluate(model, X, X, ["auc", "rmse", "auc"])


def test_models_are_compared_by_metrics_of_scores(model, X, held_out):
    result = dsstne.compare([model, dsstne.popularity(X)], X, held_out, ["auc", "mae"], resamples=100)
    assert result["means"][0]["mean"] == pytest.approx(dsstne.evaluate(model, X, held_out, "auc")["auc"])


def test_training_stops_when_an_error_no_longer_falls(X, held_out):
    early = dsstne.callbacks.EarlyStopping("rmse", patience=2)
    options = {"hidden": 6, "loss": "squared", "learning_rate": 0.03, "batch_size": 32, "progress": False}
    model = dsstne.fit(X, epochs=40, validation=held_out, callbacks=early, **options)
    values = [record["rmse"] for record in model.history]
    assert early.best_value == min(values)
    assert early.best_epoch == 1 + int(np.argmin(values))
    assert dsstne.evaluate(model, X, held_out, "rmse") == {"rmse": min(values)}


def test_a_callback_finds_its_metric_among_those_of_validation(X, held_out):
    logs = []

    class Errors(dsstne.callbacks.Callback):
        metrics = ("rmse", "auc")

        def after_iteration(self, model, epoch, evals_log):
            logs.append(evals_log["validation"])

    dsstne.fit(X, hidden=4, epochs=1, validation=held_out, callbacks=Errors(), progress=False)
    assert {"rmse", "auc", "recall@20", "ndcg@20"} == set(logs[0])


def test_an_error_does_not_choose_a_model(X):
    popular = dsstne.popularity(X)
    calls = [
        lambda metric: dsstne.auto(X, metric, seconds=1, progress=False),
        lambda metric: dsstne.search(X, [{"hidden": 4}], metric=metric, progress=False),
        lambda metric: dsstne.blend([popular, popular], X, validation=X, metric=metric),
    ]
    for call in calls:
        with pytest.raises(dsstne.InvalidArgumentError, match="metric: rmse falls as models get better"):
            call("rmse")
        with pytest.raises(dsstne.InvalidArgumentError, match="metric: auc is not a metric of the first k items"):
            call("auc")
    with pytest.raises(dsstne.InvalidArgumentError, match="metric: mae falls"):
        dsstne.Recommender("popularity", metric="mae").fit(X)
    scorer = dsstne.Recommender("popularity", metric="auc", random_state=0).fit(X)
    assert 0 < scorer.score(X) < 1


# ---- the loss ----

LOSSES = {
    "softmax": {},
    "cosine": {"temperature": 0.2},
    "shares of a row": {"loss": {"kind": "softmax", "normalize_rows": True, "weight": 0.5}},
    "margins of a soft-max": {"loss": {"kind": "softmax", "one_target": 0.02, "one_scale": 3}},
    "margins of shares": {"loss": {"kind": "softmax", "one_target": 0.02, "normalize_rows": True}},
    "sigmoid": {"loss": "sigmoid"},
    "boosted sigmoid": {"loss": {"kind": "sigmoid", "one_scale": 3, "zero_scale": 0.5}},
    "boosted values": {"loss": {"kind": "squared", "one_scale": 0.5}},
    "scaled marginal": {
        "loss": {"kind": "scaled_marginal", "one_scale": 3, "zero_scale": 0.5, "one_target": 0.51, "zero_target": 0.49}
    },
    "squared": {"loss": {"kind": "squared", "weight": 2}},
    "absolute": {"loss": "absolute"},
    "hinge": {"loss": "hinge"},
    "l2 hinge": {"loss": "l2_hinge"},
    "contrastive": {"loss": {"kind": "cosine_contrastive", "zero_scale": 0.3, "margin": 0.1}, "temperature": 1},
    "stored entries": {"loss": {"kind": "squared", "stored_only": True}},
}


def hardly_trained(X, **options):
    """A network whose weights have not moved while the loss of all rows was reported."""
    return dsstne.fit(
        X,
        **{"hidden": 6, "temperature": None, "denoising": 0, **options},
        epochs=1,
        batch_size=1000,
        optimizer="sgd",
        learning_rate=1e-12,
        precision="float32",
        schedule=None,
        progress=False,
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_the_one_that_training_reports(X, loss):
    X = X[np.flatnonzero(np.diff(X.indptr))]
    model = hardly_trained(X, **LOSSES[loss])
    found = dsstne.evaluate(model, X, X, "held_out_loss", exclude=None)
    assert found["held_out_loss"] == pytest.approx(model.history[0]["loss"], rel=2e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu", "elu", "softplus"])
def test_the_loss_is_that_of_the_values_of_the_activation(X, activation):
    X = X[np.flatnonzero(np.diff(X.indptr))]
    layers = [
        {"name": "input", "kind": "input"},
        {"name": "hidden", "kind": "hidden", "size": 6},
        {"name": "output", "kind": "output", "activation": activation},
    ]
    network = {"layers": layers, "loss": "squared"}
    options = {"optimizer": "sgd", "learning_rate": 1e-12, "precision": "float32"}
    model = dsstne.fit(X, network=network, epochs=1, batch_size=1000, **options)
    found = dsstne.evaluate(model, X, X, "held_out_loss", exclude=None)
    assert found["held_out_loss"] == pytest.approx(model.history[0]["loss"], rel=2e-5)


def test_the_loss_leaves_out_what_the_ranking_leaves_out(model, X, held_out):
    scores = model.predict(X).astype(float)
    found = dsstne.evaluate(model, X, held_out, "held_out_loss", per_row=True)["held_out_loss"]
    assert np.isnan(found[:7]).all()
    for u in range(7, 20):
        counted = np.setdiff1d(np.arange(60), X[[u]].indices)
        t = held_out[[u]].toarray()[0, counted]
        z = scores[u, counted]
        expected = -(t * (z - np.log(np.exp(z).sum()))).sum()
        assert found[u] == pytest.approx(expected, rel=1e-6)


def test_training_stops_when_the_loss_no_longer_falls(X, held_out):
    early = dsstne.callbacks.EarlyStopping("held_out_loss", patience=2)
    options = {"hidden": 6, "epochs": 200, "learning_rate": 0.2, "schedule": None, "progress": False}
    model = dsstne.fit(X, validation=held_out, callbacks=early, **options)
    values = [record["held_out_loss"] for record in model.history]
    assert len(values) < 200
    assert dsstne.evaluate(model, X, held_out, "held_out_loss") == {"held_out_loss": min(values)}


def test_only_networks_have_a_loss(X, held_out):
    with pytest.raises(dsstne.InvalidArgumentError, match="held_out_loss: a model of kind 'item_weights' has no loss"):
        dsstne.evaluate(dsstne.popularity(X), X, held_out, "held_out_loss")
    for name in ("loss", "val_loss", "held_out_los"):
        with pytest.raises(dsstne.InvalidArgumentError, match="did you mean 'held_out_loss'"):
            dsstne.evaluate(dsstne.popularity(X), X, held_out, name)
