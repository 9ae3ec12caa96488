"""Weights of rows in the loss."""

import numpy as np
import pytest
import scipy.sparse

import dsstne

NETWORK = {
    "layers": [
        {"name": "input", "kind": "input"},
        {"name": "h", "kind": "hidden", "size": 6},
        {"name": "items", "kind": "output"},
        {"name": "label", "kind": "output", "sources": ["h"]},
    ],
    "loss": [{"layer": "items", "kind": "softmax"}, {"layer": "label", "kind": "sigmoid"}],
}
ONE_STEP = {
    "batch_size": 1000,
    "epochs": 1,
    "optimizer": "sgd",
    "learning_rate": 0.5,
    "schedule": None,
    "precision": "float32",
    "denoising": 0.0,
}


def weights(model):
    return np.concatenate([model.tensor(name).ravel() for name in model.tensors])


@pytest.fixture(scope="module")
def label(X):
    rng = np.random.default_rng(1)
    return scipy.sparse.csr_array((rng.random((X.shape[0], 3)) < 0.5).astype(np.float32))


@pytest.mark.parametrize("loss", ["softmax", "sigmoid", {"kind": "squared", "stored_only": True}])
@pytest.mark.parametrize("where", [{}, {"devices": "cpu:4"}, {"devices": "cpu:3", "parallel": "data"}])
def test_a_row_of_weight_two_counts_as_two_rows_and_one_of_weight_zero_as_none(X, loss, where):
    counts = np.random.default_rng(0).integers(0, 3, X.shape[0])
    options = {**ONE_STEP, "hidden": 6, "loss": loss, **where}
    repeated = X[np.repeat(np.arange(X.shape[0]), counts)]
    rate = options["learning_rate"] * repeated.shape[0] / X.shape[0]  # the loss is divided by the number of rows
    expected = dsstne.fit(repeated, **{**options, "learning_rate": rate})
    weighted = dsstne.fit(X, sample_weight=counts, **options)
    start = dsstne.fit(X, **{**options, "epochs": 0})
    moved = np.abs(weights(expected) - weights(start)).max()
    assert np.allclose(weights(weighted), weights(expected), rtol=0, atol=1e-4 * moved)
    assert np.abs(weights(dsstne.fit(X, **options)) - weights(expected)).max() > 0.01 * moved
    assert weighted.history[0]["loss"] == pytest.approx(expected.history[0]["loss"] * repeated.shape[0] / X.shape[0])


@pytest.mark.parametrize(
    "ones", [np.ones(240), np.ones(240, np.float16), np.ones(240, bool), [1] * 240, np.ones(480, np.float32)[::2]]
)
def test_weights_of_one_of_any_type_change_no_bit(X, ones):
    options = {"hidden": 6, "epochs": 2}
    assert (weights(dsstne.fit(X, sample_weight=ones, **options)) == weights(dsstne.fit(X, **options))).all()


def test_one_array_counts_for_all_outputs_and_a_mapping_for_some(X, label):
    def trained(sample_weight):
        data = (X, {"items": X, "label": label})
        return weights(dsstne.fit(*data, network=NETWORK, epochs=2, sample_weight=sample_weight))

    some = np.arange(X.shape[0]) % 2
    ones = np.ones(X.shape[0])
    assert (trained(some) == trained({"items": some, "label": some})).all()
    assert (trained({"label": some}) == trained({"label": some, "items": ones})).all()
    assert (trained({"label": some}) != trained(some)).any()


def test_weights_are_copied(X):
    given = np.ones(X.shape[0], np.float32)
    expected = dsstne.fit(X, hidden=6, epochs=0)
    with dsstne.Trainer(expected, X, batch_size=64) as trainer:
        trainer.run(epochs=1)
    model = dsstne.fit(X, hidden=6, epochs=0)
    with dsstne.Trainer(model, X, sample_weight=given, batch_size=64) as trainer:
        given[:] = 0
        trainer.run(epochs=1)
    assert (weights(model) == weights(expected)).all()


def test_trainers_go_on_with_weights(X, tmp_path):
    given, others = np.arange(X.shape[0]) % 3, np.ones(X.shape[0])
    model = dsstne.fit(X, hidden=6, epochs=0)
    with dsstne.Trainer(model, X, sample_weight=given, batch_size=64) as trainer:
        trainer.run(epochs=1)
        trainer.save(tmp_path / "run.checkpoint")
        with trainer.fork() as fork:
            fork.run(epochs=1)
            expected = weights(fork.model)
        with trainer.fork(X=X, sample_weight=others) as other:
            other.run(epochs=1)
            assert (weights(other.model) != expected).any()
        with pytest.raises(dsstne.InvalidArgumentError, match="sample_weight= are for the rows of X="):
            trainer.fork(sample_weight=others)
    with dsstne.Trainer.resume(tmp_path / "run.checkpoint", X, sample_weight=given) as resumed:
        resumed.run(epochs=1)
        assert (weights(resumed.model) == expected).all()
    for wrong in (None, others):
        with pytest.raises(dsstne.InvalidArgumentError, match="or their weights, are not those that the checkpoint"):
            dsstne.Trainer.resume(tmp_path / "run.checkpoint", X, sample_weight=wrong)


def test_an_estimator_trains_on_with_weights_for_any_loss(X):
    given = np.arange(X.shape[0]) % 3
    options = {"hidden": 6, "loss": "squared", "input_scaling": None, "learning_rate": 0.01}
    whole = dsstne.fit(X, sample_weight=given, epochs=2, schedule=None, **options)
    recommender = dsstne.Recommender("network", random_state=0, progress=False, **options)
    for _ in range(2):
        recommender.partial_fit(X, sample_weight=given)
    assert (weights(recommender.model_) == weights(whole)).all()


@pytest.mark.parametrize(
    ("sample_weight", "error", "words"),
    [
        (
            [1.0],
            dsstne.InvalidArgumentError,
            r"expected a number for each of 240 rows, got an array of float64 .*\(1,\)",
        ),
        (np.ones((240, 1)), dsstne.InvalidArgumentError, r"the shape \(240, 1\)"),
        (["a"] * 240, dsstne.InvalidArgumentError, "expected a number for each of 240 rows"),
        (np.full(240, -1.0), dsstne.InvalidArgumentError, "weights must be finite and at least 0"),
        (np.full(240, np.nan), dsstne.InvalidArgumentError, "weights must be finite and at least 0"),
        (np.zeros(240), dsstne.InvalidArgumentError, "all weights are zero, so there is nothing to learn from"),
        (np.full(240, 1e300), dsstne.InvalidDataError, r"the weight of row 0 is \+Inf"),
        (np.full(240, 1e-300), dsstne.InvalidDataError, "all weights are 0"),
        ({"outptu": np.ones(240)}, dsstne.NotFoundError, "no output layer 'outptu'; did you mean 'output'"),
        ({"output": np.ones(3)}, dsstne.InvalidArgumentError, r"sample_weight\['output'\]: expected a number for each"),
    ],
)
def test_wrong_weights_are_refused_before_training(X, sample_weight, error, words):
    with pytest.raises(error, match=words) as caught:
        dsstne.fit(X, hidden=4, epochs=1, sample_weight=sample_weight)
    assert caught.value.model is None
