"""What "auto" stands for in fit(), and that plain values give what they always gave."""

import numpy as np
import pytest
from matrices import blocks

import dsstne
from dsstne import _defaults

PLAIN = {"temperature": None, "learning_rate": 1e-3, "schedule": None, "epochs": 20, "precision": "float32"}


def test_plain_settings_have_the_bits_of_a_trainer_with_its_defaults(X):
    # test_bits.py holds the bits of trainers.
    fitted = dsstne.fit(X, hidden=8, batch_size=100, seed=3, progress=False, **PLAIN)
    layers = [
        {"name": "input", "kind": "input", "scaling": "l2", "denoising": 0.5},
        {"name": "hidden1", "kind": "hidden", "size": 8, "activation": "tanh"},
        {"name": "output", "kind": "output"},
    ]
    model = dsstne.Model({"layers": layers, "loss": "softmax"}, seed=3, sizes={"input": 60, "output": 60})
    with dsstne.Trainer(model, X, batch_size=100, seed=3) as trainer:
        trainer.run(epochs=20)
    assert fitted.network == model.network
    for name in model.tensors:
        np.testing.assert_array_equal(fitted.tensor(name), model.tensor(name))


def rates(model):
    return np.array([record["learning_rate"] for record in model.history])


def test_soft_max_has_cosine_logits_and_a_schedule_that_spans_the_run(X):
    model = dsstne.fit(X, hidden=8, batch_size=12, epochs=10, progress=False)  # 20 steps an epoch
    assert model.network["layers"][-1]["temperature"] == pytest.approx(0.1)
    falls = np.cos(np.pi * (np.arange(1, 11) * 20 - 10 - 1) / 190)  # after 10 steps of warm-up
    np.testing.assert_allclose(rates(model), 2e-3 * (1 + falls) / 2, rtol=1e-6)


@pytest.mark.parametrize("given", ["loss", "network"])
def test_other_losses_and_given_networks_keep_the_plain_values(X, given):
    plain = dsstne.fit(X, hidden=4, loss="sigmoid", temperature=None, epochs=0).network
    options = {"hidden": 4, "loss": "sigmoid"}
    if given == "network":
        options = {"network": {**plain, "loss": "softmax"}, "validation": X[::-1]}  # it does not stop early
    model = dsstne.fit(X, progress=False, **options)
    assert model.network["layers"] == plain["layers"]
    assert len(model.history) == 20
    assert set(rates(model)) == {1e-3}


def test_the_learning_rate_was_searched_for_adam_only(X):
    def first(**options):
        return rates(dsstne.fit(X, hidden=4, epochs=1, schedule=None, progress=False, **options))[0]

    assert first() == first(optimizer="adamw") == 2e-3
    assert first(optimizer="sgd") == 1e-3
    assert first(optimizer={"kind": "adam", "learning_rate": 0.5}) == 0.5
    assert first(learning_rate=0.25) == 0.25


@pytest.mark.parametrize(("steps", "passes"), [(1, _defaults.MOST_EPOCHS), (20, 40), (10**6, _defaults.LEAST_EPOCHS)])
def test_the_number_of_epochs_follows_from_the_steps(steps, passes):
    assert _defaults.epochs("auto", steps, searched=True) == passes
    assert _defaults.epochs("auto", steps, searched=False) == 20
    assert _defaults.epochs(7, steps, searched=True) == 7


def test_a_schedule_without_steps_spans_the_run(X):
    options = {"hidden": 4, "batch_size": 60, "learning_rate": 1.0, "optimizer": "sgd", "progress": False}
    linear = dsstne.fit(X, epochs=4, schedule={"kind": "linear", "warmup_steps": 4, "minimum": 0.5}, **options)
    np.testing.assert_allclose(rates(linear), 1 - np.array([0, 3 / 12, 7 / 12, 11 / 12]) / 2)
    short = dsstne.fit(X, epochs=4, schedule={"kind": "cosine", "steps": 4}, **options)
    assert rates(short)[-1] == 0
    assert set(rates(dsstne.fit(X, epochs=2, schedule="constant", **options))) == {1.0}
    model = dsstne.fit(X, hidden=4, epochs=0)
    with pytest.raises(dsstne.InvalidArgumentError, match="schedule.*steps"):
        dsstne.Trainer(model, X, schedule="cosine")


def test_early_stopping_returns_the_best_epoch_and_the_whole_history(X):
    # With so high a rate, the network soon learns nothing but noise.
    options = {"hidden": 64, "batch_size": 16, "learning_rate": 0.1, "denoising": 0, "progress": False}
    seen = []
    model = dsstne.fit(X, validation=blocks(seed=5), **options, callbacks=lambda _, record: seen.append(record))
    values = [record["ndcg@20"] for record in model.history]
    assert model.history == seen
    best = int(np.argmax(values)) + 1
    assert 3 <= len(values) == best + max(3, 50 // 5) < 50
    assert model.step == best * 15
    assert dsstne.evaluate(model, X, blocks(seed=5), "ndcg@20")["ndcg@20"] == max(values)
    assert model.same_items


def test_given_epochs_are_all_done(X):
    options = {"hidden": 64, "batch_size": 16, "learning_rate": 0.1, "denoising": 0, "progress": False}
    model = dsstne.fit(X, validation=blocks(seed=5), epochs=25, **options)
    assert len(model.history) == 25
    assert model.step == 25 * 15


def test_the_copy_of_the_best_weights_is_in_the_plan(X):
    wide = {"hidden": 4096, "batch_size": 16, "precision": "float32", "progress": False}
    model = dsstne.fit(X, epochs=0, **wide)
    with dsstne.Trainer(model, X, batch_size=16) as trainer:
        limit = trainer.plan()["bytes"] + model.nbytes // 2
    with pytest.raises(dsstne.OutOfMemoryError, match="keeps the best weights beside") as caught:
        dsstne.fit(X, validation=X.copy(), memory_limit=limit, **wide)
    assert caught.value.model.step == 0
    dsstne.fit(X, validation=blocks(seed=5), memory_limit=limit, epochs=1, **wide)


def test_the_precision_is_the_faster_one_of_the_device(X):
    model = dsstne.fit(X, hidden=4, epochs=0)
    with dsstne.Trainer(model, X, precision="auto", devices="cpu") as trainer:
        plan = trainer.plan()
    assert plan["precision"] == ("bfloat16" if plan["devices"][0].get("fast_bfloat16") else "float32")
    with dsstne.Trainer(model, X) as trainer:
        assert trainer.plan()["precision"] == "float32"


@pytest.mark.parametrize("name", ["temperature", "learning_rate", "epochs"])
def test_the_only_word_is_auto(X, name):
    with pytest.raises(dsstne.InvalidArgumentError, match=f"{name} must be an?.* or 'auto', not 'best'"):
        dsstne.fit(X, **{name: "best"})
