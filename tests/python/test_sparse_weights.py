"""The key l1 of optimizers, which makes weights exactly 0, and AdaDelta, whose states a zero gradient moves."""

import numpy as np
import pytest
import scipy.sparse

import dsstne

RULES = {
    "adadelta": {"kind": "adadelta"},
    "adadelta, l1": {"kind": "adadelta", "l1": 1e-4},
    "sgd, l1": {"kind": "sgd", "learning_rate": 0.1, "l1": 1e-3},
    "adagrad, l1": {"kind": "adagrad", "learning_rate": 0.05, "l1": 0.01},
    "adam, l1 and decay": {"kind": "adam", "learning_rate": 0.01, "l1": 0.01, "weight_decay": 0.01},
}


@pytest.fixture(scope="module")
def rows():
    """Rows of 90 items, of which a batch of 8 touches a few and the last ten are in no row."""
    X = scipy.sparse.random_array((200, 80), density=0.03, format="csr", rng=4, dtype=np.float32)
    return scipy.sparse.csr_array((X.data, X.indices, X.indptr), shape=(200, 90))


def untrained(rows):
    return dsstne.fit(rows, hidden=[20], temperature=None, epochs=0, seed=3, progress=False)


def trained(rows, rule, pieces, **options):
    """Trains in several runs, given the number of steps of each. Every run ends with all rows up to date."""
    model = untrained(rows)
    with dsstne.Trainer(model, rows, optimizer=rule, batch_size=8, seed=3, **{"devices": "cpu", **options}) as trainer:
        for steps in pieces:
            trainer.run(steps=steps)
    return model


def bits(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_rows_that_are_updated_later_have_the_bits_of_rows_that_every_step_updates(rows, rule, devices):
    assert bits(trained(rows, rule, [40], devices=devices)) == bits(trained(rows, rule, [1] * 40, devices=devices))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_the_bits_do_not_depend_on_the_threads(rows, rule):
    want = bits(trained(rows, rule, [30], threads=1))
    assert all(bits(trained(rows, rule, [30], threads=threads)) == want for threads in (2, 5))


def test_an_item_that_no_row_has_only_moves_towards_zero(rows):
    want = untrained(rows).tensor("hidden1.weight")[80:].copy()
    rate, l1 = np.float32(0.25), np.float32(1e-3)
    for _ in range(40):
        want = np.sign(want) * np.maximum(np.float32(0), np.abs(want) - rate * l1)
    model = trained(rows, {"kind": "sgd", "learning_rate": 0.25, "l1": 1e-3}, [40])
    np.testing.assert_array_equal(model.tensor("hidden1.weight")[80:], want)
    assert 0 < (want == 0).mean() < 1


def test_with_a_larger_l1_more_weights_are_zero_and_biases_are_exempt(rows):
    found = [trained(rows, {"kind": "sgd", "learning_rate": 0.5, "l1": l1}, [100]) for l1 in (0, 2e-3, 1e-2)]
    none, some, most = [(model.tensor("output.weight") == 0).mean() for model in found]
    assert none == 0
    assert 0.05 < some < 0.5
    assert most > 0.9
    assert (found[-1].tensor("output.bias") != 0).all()


@pytest.mark.parametrize(("kind", "momentum"), [("sgd", 0), ("momentum", 0.9), ("nesterov", 0.9)])
def test_training_ends_where_the_loss_and_the_sum_of_absolute_weights_are_least_together(kind, momentum):
    X = scipy.sparse.random_array((40, 12), density=0.3, format="csr", rng=4, dtype=np.float32)
    X.data[:] = 1
    options = {"batch_size": X.shape[0], "shuffle": False, "devices": "cpu"}
    model = dsstne.fit(X, hidden=5, loss="sigmoid", denoising=0, epochs=0, seed=3, progress=False)
    rule = {"kind": kind, "learning_rate": 0.3 * (1 - momentum), "l1": 0.02 / (1 - momentum)}
    with dsstne.Trainer(model, X, optimizer=rule, **options) as trainer:
        trainer.run(steps=8000)
    after = model.copy()
    with dsstne.Trainer(after, X, optimizer="sgd", learning_rate=0.1, **options) as trainer:
        trainer.run(steps=1)  # whose move is the gradient of the loss
    for name in ("hidden1.weight", "output.weight"):
        weight = model.tensor(name)
        gradient = (weight - after.tensor(name)) / np.float32(0.1)
        assert 0.4 < (weight == 0).mean() < 0.9
        np.testing.assert_allclose(gradient[weight != 0], -0.02 * np.sign(weight[weight != 0]), rtol=0.01)
        assert abs(gradient[weight == 0]).max() < 0.0202


def test_a_checkpoint_goes_on_with_the_same_zeros(rows, tmp_path):
    rule = {"kind": "adadelta", "learning_rate": 0.5, "l1": 5e-3}
    want = trained(rows, rule, [60])
    with dsstne.Trainer(untrained(rows), rows, optimizer=rule, batch_size=8, seed=3, devices="cpu") as trainer:
        trainer.run(steps=25)
        trainer.save(tmp_path / "run")
    with dsstne.Trainer.resume(tmp_path / "run", rows, devices="cpu") as trainer:
        trainer.run(steps=35)
        assert bits(trainer.model) == bits(want)
    assert (want.tensor("hidden1.weight") == 0).mean() > 0.3


def test_the_learning_rate_of_adadelta_is_one_unless_it_is_given(rows):
    def first(**options):
        with dsstne.Trainer(untrained(rows), rows, **options) as trainer:
            return trainer.run(steps=1).learning_rate

    assert first(optimizer="adadelta") == 1
    assert first(optimizer="adadelta", learning_rate=0.001) == 0.001
    assert first(optimizer={"kind": "adadelta", "learning_rate": 0.5}) == 0.5
    assert first(optimizer="adagrad") == 0.001
    model = dsstne.fit(rows, hidden=4, optimizer="adadelta", schedule=None, epochs=1, progress=False)
    assert model.history[0]["learning_rate"] == 1
