"""Losses of the stored entries of a target alone: loss.stored_only."""

import re

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import Dataset

LAYERS = [
    {"name": "user", "kind": "input", "size": "auto"},
    {"name": "factors", "kind": "hidden", "size": 6, "activation": "linear", "bias": False},
    {"name": "item", "kind": "output", "size": "auto"},
]
LOSS = {"kind": "squared", "stored_only": True}
DEVICES = {"cpu": {"devices": "cpu"}, "cpu:4": {"devices": "cpu:4"}, "rows": {"devices": "cpu:4", "parallel": "data"}}


def network(loss=LOSS, **output):
    return {"layers": [*LAYERS[:2], {**LAYERS[2], **output}], "loss": loss}


@pytest.fixture(scope="module")
def ratings():
    """Ratings by 40 users of 90 items; every third one is 0, and nobody rates the last ten items."""
    R = scipy.sparse.random_array((40, 80), density=0.1, format="csr", rng=3, dtype=np.float32)
    R.data[::3] = 0
    return scipy.sparse.csr_array((R.data, R.indices, R.indptr), shape=(40, 90))


def users(R):
    return scipy.sparse.eye_array(R.shape[0], format="csr", dtype=np.float32)


def untrained(R, **options):
    return dsstne.fit(users(R), R, network=network(**options), epochs=0, seed=5, progress=False)


def trained(R, pieces, optimizer, model=None, **options):
    """Trains in several runs of some steps each, with all rows in every batch."""
    model = model or untrained(R)
    with dsstne.Trainer(
        model, users(R), R, optimizer=optimizer, batch_size=40, seed=5, **{"devices": "cpu", **options}
    ) as trainer:
        for steps in pieces:
            trainer.run(steps=steps)
    return model


def by_formula(R, model, steps, rate, momentum):
    """Matrix factorisation by gradient steps with momentum on the loss of the stored ratings, in float64."""
    P, W, b = (model.tensor(name).astype(float) for name in ("factors.weight", "item.weight", "item.bias"))
    b = b.ravel()
    users, items = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr)), R.indices
    parameters = [P, W, b]
    velocity = [np.zeros_like(x) for x in parameters]
    losses = []
    for _ in range(steps):
        error = (P[users] * W[items]).sum(1) + b[items] - R.data
        losses.append((error**2).sum() / 2 / R.shape[0])
        gradients = [np.zeros_like(x) for x in parameters]
        np.add.at(gradients[0], users, error[:, None] * W[items] / R.shape[0])
        np.add.at(gradients[1], items, error[:, None] * P[users] / R.shape[0])
        np.add.at(gradients[2], items, error / R.shape[0])
        for x, v, g in zip(parameters, velocity, gradients, strict=True):
            v *= momentum
            v -= rate * g
            x += v
    return *parameters, losses


@pytest.mark.parametrize("options", DEVICES.values(), ids=DEVICES.keys())
def test_training_follows_the_gradient_of_the_stored_ratings(ratings, options):
    optimizer = {"kind": "momentum", "learning_rate": 0.5, "momentum": 0.9}
    P, W, b, losses = by_formula(ratings, untrained(ratings), 30, 0.5, 0.9)
    model = trained(ratings, [30], optimizer, **options)
    np.testing.assert_allclose(model.tensor("factors.weight"), P, atol=2e-5)
    np.testing.assert_allclose(model.tensor("item.weight"), W, atol=2e-5)
    np.testing.assert_allclose(model.tensor("item.bias").ravel(), b, atol=2e-5)
    assert losses[-1] < losses[0] / 3  # it learns


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam", "adadelta"])
def test_items_that_are_updated_later_have_the_bits_of_items_that_every_step_updates(ratings, kind, devices):
    few = scipy.sparse.csr_array(ratings[:20])

    def tensors(pieces):
        model = untrained(few)
        with dsstne.Trainer(model, users(few), few, optimizer=kind, batch_size=2, seed=5, devices=devices) as trainer:
            for steps in pieces:
                trainer.run(steps=steps)
        return {name: model.tensor(name).tobytes() for name in model.tensors}

    assert tensors([24]) == tensors([1] * 24)


def test_the_bits_do_not_depend_on_the_threads(ratings):
    want, same = (trained(ratings, [10], "adam", threads=threads) for threads in (1, 5))
    assert all(want.tensor(name).tobytes() == same.tensor(name).tobytes() for name in want.tensors)


def test_items_without_ratings_stay_as_they_were(ratings):
    model, before = trained(ratings, [10], "adam"), untrained(ratings)
    np.testing.assert_array_equal(model.tensor("item.weight")[80:], before.tensor("item.weight")[80:])


def test_a_zero_that_is_stored_is_a_rating(ratings):
    without = ratings.copy()
    without.eliminate_zeros()
    assert without.nnz < ratings.nnz
    with_zeros, others = (trained(R, [5], "sgd").tensor("item.bias") for R in (ratings, without))
    assert not np.array_equal(with_zeros, others)
    zeros = ratings.copy()
    zeros.data[:] = 0
    model = trained(zeros, [400], {"kind": "sgd", "learning_rate": 1.0})
    scores = model.predict(users(zeros))
    assert np.abs(scores[np.repeat(np.arange(40), np.diff(zeros.indptr)), zeros.indices]).max() < 0.05


def test_an_autoencoder_reconstructs_what_is_stored(ratings):
    values = ratings.copy()
    values.data[:] = 1 + np.arange(values.nnz) % 5
    model = dsstne.fit(
        values,
        hidden=[40],
        loss=LOSS,
        activation="tanh",
        denoising=0.0,
        temperature=None,
        optimizer="adam",
        learning_rate=0.02,
        batch_size=20,
        epochs=150,
        seed=1,
        progress=False,
    )
    rows = np.repeat(np.arange(40), np.diff(values.indptr))
    error = model.predict(values)[rows, values.indices] - values.data
    assert np.sqrt((error**2).mean()) < 0.1


def test_the_plan_names_the_operations_and_what_they_take(ratings):
    with dsstne.Trainer(untrained(ratings), users(ratings), ratings, optimizer="adam", devices="cpu") as trainer:
        plan = trainer.plan()
    text = str(plan)
    assert "OutputEntries item <- item.weight[90, 6], squared at the stored entries" in text
    assert "Replay the batch's rows of item.bias[90, 1]" in text


def test_the_definition_keeps_the_key(ratings, tmp_path):
    model = untrained(ratings)
    model.save(tmp_path / "model")
    assert dsstne.load(tmp_path / "model").network["loss"][0]["stored_only"] is True


REFUSED = {
    "softmax": (
        network({"kind": "softmax", "stored_only": True}),
        'loss.stored_only is true, but the loss "softmax" compares the scores of all items; with "negatives"',
    ),
    "number": (
        network({"kind": "squared", "stored_only": 1}),
        "loss.stored_only is 1; it must be true or false",
    ),
    "mistyped": (
        network({"kind": "squared", "stored": True}),
        'loss.stored is not a known key; did you mean "stored_only"?',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_an_error_that_says_why(ratings, case):
    definition, message = REFUSED[case]
    with pytest.raises(dsstne.InvalidArgumentError, match=re.escape(message)):
        dsstne.fit(users(ratings), ratings, network=definition, epochs=0, progress=False)


def test_several_runs_share_a_dataset_of_ratings(ratings):
    with Dataset(ratings) as R, Dataset(users(ratings)) as U:
        a, b = (dsstne.fit(U, R, network=network(), epochs=2, seed=5, progress=False) for _ in range(2))
    assert a.tensor("item.weight").tobytes() == b.tensor("item.weight").tobytes()
