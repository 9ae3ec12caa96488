"""One model on several devices, which are virtual ones of the CPU here."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matrices import blocks

import dsstne


@pytest.fixture(scope="module")
def X():
    return blocks(rows=150, items=77, seed=3)


def fitted(X, devices, **options):
    return dsstne.fit(X, hidden=[12], epochs=10, batch_size=32, devices=devices, progress=False, **options)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_training_on_several_devices_reaches_the_loss_of_one(X, loss):
    one = fitted(X, "cpu", loss=loss).history[-1]["loss"]
    for devices in ("cpu:2", "cpu:3", ["cpu:8"]):
        for parallel in ("auto", "model", "data"):
            many = fitted(X, devices, loss=loss, parallel=parallel).history[-1]["loss"]
            assert many == pytest.approx(one, rel=1e-4), (devices, parallel)


def test_the_plan_tells_how_devices_train(X):
    model = fitted(X, "cpu")
    for parallel in ("model", "data"):
        with dsstne.Trainer(model, X, devices="cpu:3", parallel=parallel) as trainer:
            plan = trainer.plan()
        assert plan["parallel"] == parallel
        assert ("AllReduce the gradients of all weights" in str(plan["operations"])) == (parallel == "data")
    with pytest.raises(dsstne.InvalidArgumentError, match='did you mean "data"'):
        fitted(X, "cpu:2", parallel="date")


def test_predictions_have_the_bits_of_one_device(X):
    model = fitted(X, "cpu:3")
    ids, scores = model.recommend(X, k=9, devices="cpu")
    for devices in ("cpu:2", "cpu:4", "cpu:8"):
        again, values = model.recommend(X, k=9, devices=devices)
        np.testing.assert_array_equal(ids, again)
        np.testing.assert_array_equal(scores, values)
        np.testing.assert_array_equal(model.predict(X, devices="cpu"), model.predict(X, devices=devices))
        for one, many in zip(model.neighbors([3, 5], k=4), model.neighbors([3, 5], k=4, devices=devices), strict=True):
            np.testing.assert_array_equal(one, many)
        assert dsstne.evaluate(model, X, X, exclude=None, devices=devices) == dsstne.evaluate(
            model, X, X, exclude=None, devices="cpu"
        )


def test_a_model_is_saved_and_trained_further_with_another_number_of_devices(X, tmp_path):
    model = fitted(X, "cpu:4")
    model.save(tmp_path / "m.dsstne")
    loaded = dsstne.load(tmp_path / "m.dsstne")
    for name in model.tensors:
        np.testing.assert_array_equal(model.tensor(name), loaded.tensor(name))
    for devices in ("cpu", "cpu:2", "cpu:7"):
        with dsstne.Trainer(loaded, X, devices=devices) as trainer:
            trainer.run(epochs=1)


def test_the_plan_tells_what_each_device_holds(X):
    with dsstne.Trainer(fitted(X, "cpu"), X, devices="cpu:3") as trainer:
        plan = trainer.plan()
    assert {part["device"] for part in plan["parts"]} == {"cpu[0/3]", "cpu[1/3]", "cpu[2/3]", "host"}
    assert sum(part["bytes"] for part in plan["parts"]) == plan["bytes"]


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ("cpu:-1", 'devices is "cpu:-1"'),
        ("cpu:100000", "at most 64 virtual devices"),
        (["cpu:0", "cpu:1"], 'names 2 devices, but a machine\'s CPU is one; "cpu:2" makes 2 virtual devices of it'),
        (["cpu", "cpu"], 'names 2 devices, "cpu" twice'),
        (["cpu", "cuda:0"], "some of cpu and some of cuda"),
        ([], "devices is empty"),
    ],
)
def test_devices_that_cannot_be_are_refused(X, devices, words):
    with pytest.raises(dsstne.InvalidArgumentError, match=re.escape(words)):
        fitted(X, devices)
