"""Recommender.partial_fit: calls go on from each other as the epochs of one run."""

import copy
import pickle

import numpy as np
import pytest

import dsstne
from dsstne import Recommender
from dsstne.callbacks import Checkpoint, CSVLogger, EarlyStopping, LearningRate, TimeBudget


def quick(**options):
    return Recommender("network", **{"hidden": 4, **options}, threads=1)


def same(one, other):
    """Reports whether two estimators have the same weights, to the bit."""
    return all(np.array_equal(one.model_.tensor(name), other.model_.tensor(name)) for name in one.model_.tensors)


def test_calls_with_the_same_rows_have_the_bits_of_a_fit(X):
    recommender = quick(batch_size=100)  # the last batch of an epoch is shorter
    for _ in range(3):
        recommender.partial_fit(X.copy())
    whole = quick(batch_size=100, epochs=3, schedule=None).fit(X)
    assert same(recommender, whole)
    times = {"seconds", "examples_per_second"}
    known, wanted = (
        [{name: value for name, value in record.items() if name not in times} for record in one.model_.history]
        for one in (recommender, whole)
    )
    assert known == wanted


@pytest.mark.parametrize("epochs", [1, 2])
def test_calls_of_whole_epochs_by_steps_have_the_bits_of_one_call(X, epochs):
    steps = epochs * -(-X.shape[0] // 60)  # the last batch of an epoch is shorter
    recommender = quick(batch_size=60)
    for _ in range(3):
        recommender.partial_fit(X, steps=steps)
    assert same(recommender, quick(batch_size=60).partial_fit(X, steps=3 * steps))
    assert same(recommender, quick(batch_size=60, epochs=3 * epochs, schedule=None).fit(X))
    assert [record["epoch"] for record in recommender.model_.history] == list(range(1, 3 * epochs + 1))


def test_steps_may_end_within_an_epoch(X):
    all_steps = -(-X.shape[0] // 60)
    recommender = quick(batch_size=60).partial_fit(X, steps=all_steps + 1)
    assert recommender.model_.step == all_steps + 1
    assert [record["epoch"] for record in recommender.model_.history] == [1, 1 + 60 / X.shape[0]]
    anew = quick(batch_size=60).partial_fit(X).partial_fit(X, steps=1)
    assert same(recommender, anew)
    options = {"batch_size": 60, "learning_rate": 0.002, "precision": "auto", "threads": 1}
    with dsstne.Trainer(quick(epochs=0).fit(X).model_, X, **options) as trainer:
        trainer.run(steps=all_steps + 1)
        assert np.array_equal(trainer.model.predict(X), recommender.predict(X))
    recommender.partial_fit(X, steps=2)  # begins the third epoch
    assert recommender.model_.step == all_steps + 3
    assert recommender.model_.history[-1]["epoch"] == 2 + 120 / X.shape[0]
    assert not same(recommender, quick(batch_size=60).partial_fit(X).partial_fit(X, steps=3))


@pytest.mark.parametrize("odd", [0, -1, 1.5, True, "all"])
def test_steps_that_cannot_be_are_refused(X, odd):
    with pytest.raises(dsstne.InvalidArgumentError, match="steps must be"):
        quick().partial_fit(X, steps=odd)


def test_the_optimizer_goes_on_with_other_rows(X):
    recommender = quick().partial_fit(X[:100])
    model = recommender.model_.copy()
    # The copy's trainer does the same with fork(X=...), but its first epoch has to be trained again for the state.
    options = {"learning_rate": 0.002, "precision": "auto", "devices": "cpu", "threads": 2}
    begun = quick(epochs=0).fit(X[:100]).model_
    with dsstne.Trainer(begun, X[:100], **options) as first:
        first.run(epochs=1)
        assert np.array_equal(begun.predict(X), model.predict(X))
        with first.fork(X=X[100:]) as second:
            assert second.run(epochs=1).step == recommender.partial_fit(X[100:]).model_.step == 2
            assert np.array_equal(second.model.predict(X), recommender.predict(X))
    with dsstne.Trainer(model, X[100:], seed=1, **options) as anew:  # Adam's moments are zero again
        anew.run(epochs=1)
    assert not np.array_equal(model.predict(X), recommender.predict(X))


def test_another_learning_rate_counts_from_the_next_call_on(X):
    recommender = quick().partial_fit(X)
    step = recommender.set_params(learning_rate=0.5, batch_size=60).partial_fit(X).model_.step
    assert step == 1 + 4
    assert [record["learning_rate"] for record in recommender.model_.history] == [0.002, 0.5]


def test_another_optimizer_begins_anew(X):
    recommender = quick().partial_fit(X).set_params(optimizer="sgd").partial_fit(X)
    assert recommender.model_.step == 2
    assert recommender.partial_fit(X).model_.history[-1]["epoch"] == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_the_weights_and_begins_with_a_new_optimizer(X, copied):
    recommender = quick().partial_fit(X)
    other = copied(recommender)
    assert same(other, recommender)
    other.partial_fit(X)
    assert [record["epoch"] for record in other.model_.history] == [1, 2]
    assert not same(other, recommender.partial_fit(X))


def test_a_call_that_fails_keeps_the_state(X):
    recommender, whole = quick().partial_fit(X), quick(epochs=2, schedule=None).fit(X)
    with pytest.raises(dsstne.InvalidDataError, match="NaN"):
        recommender.partial_fit(X * np.nan)
    assert same(recommender.partial_fit(X), whole)


def test_an_exception_in_a_callback_keeps_what_was_trained(X):
    def interrupt(model, record):
        raise KeyboardInterrupt

    recommender = quick(callbacks=interrupt)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            recommender.partial_fit(X)
    assert same(recommender, quick(epochs=2, schedule=None).fit(X))


def test_partial_fit_keeps_no_reference_to_its_rows(X):
    with dsstne.Dataset(X) as data:
        recommender = quick().partial_fit(data)
    assert data.closed
    assert same(recommender.partial_fit(X), quick(epochs=2, schedule=None).fit(X))


def test_callbacks_see_a_run_in_each_call_whose_epochs_go_on(X, tmp_path):
    called, rates = [], LearningRate([0.1, 0.2, 0.3])
    log = CSVLogger(tmp_path / "log.csv")
    recommender = quick(callbacks=[lambda model, record: called.append(record["epoch"]), log, rates])
    for _ in range(3):
        recommender.partial_fit(X)
    assert called == [1, 2, 3]
    assert [record["learning_rate"] for record in recommender.model_.history] == [0.1, 0.2, 0.3]
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "1", "2", "3"]
    with pytest.raises(dsstne.InvalidArgumentError, match="3 rates, but the run has 4 epochs"):
        recommender.partial_fit(X)


def test_callbacks_go_on_after_a_fit(X):
    called = []
    recommender = quick(epochs=2, callbacks=lambda model, record: called.append(record["epoch"])).fit(X)
    recommender.partial_fit(X).partial_fit(X)
    assert called == [1, 2, 3, 4]


def test_limits_of_time_are_for_each_call(X):
    recommender = quick(callbacks=TimeBudget(1e-9)).partial_fit(X)
    assert (recommender.model_.step, recommender.model_.history) == (0, [])
    assert recommender.set_params(callbacks=None, max_seconds=1e-9).partial_fit(X).model_.step == 0
    assert recommender.set_params(max_seconds=1000).partial_fit(X).partial_fit(X).model_.step == 2


@pytest.mark.parametrize("callback", [EarlyStopping(), EarlyStopping("recall@5"), Checkpoint("a")])
def test_partial_fit_refuses_callbacks_of_whole_fits(X, callback):
    recommender = quick(callbacks=[callback])
    with pytest.raises(dsstne.InvalidArgumentError, match="partial_fit.. trains without validation"):
        recommender.partial_fit(X)
    assert not hasattr(recommender, "model_")
