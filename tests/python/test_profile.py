"""The profile of a step: what it says, and that a run goes on as if there had been none."""

import copy
import threading

import numpy as np
import pytest

import dsstne


@pytest.fixture
def fresh(X):
    return dsstne.fit(X, hidden=[8], epochs=0)


def words(operations):
    return [operation["operation"].split()[0] for operation in operations]


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_a_profile_lists_the_operations_of_the_plan(fresh, X, devices):
    with dsstne.Trainer(fresh, X, batch_size=50, devices=devices) as trainer:
        planned = trainer.plan()["operations"]
        profile = trainer.profile(steps=4)
    prefix = "" if devices == "cpu" else "{device}: "
    found = [(prefix + "{operation}").format(**operation) for operation in profile["operations"]]
    assert [text for text in planned if text in found] == found
    assert len(profile["limits"]) == len({operation["device"] for operation in profile["operations"]})
    assert all(limit["gflop_per_second"] > 0 for limit in profile["limits"])


def test_the_parts_of_a_step_add_up_to_it(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=50, devices="cpu") as trainer:
        profile = trainer.profile()
    assert profile["steps"] == 20
    taken = [operation["milliseconds"] for operation in profile["operations"]]
    assert min(taken) > 0
    assert min(profile["outside"].values()) > 0
    assert sum(taken) + sum(profile["outside"].values()) == pytest.approx(profile["milliseconds"])
    assert sum(o["share"] for o in profile["operations"]) == pytest.approx(sum(taken) / profile["milliseconds"])
    assert profile["end_of_run"] >= 0


def test_work_is_counted_by_the_formulas(fresh, X):
    """A sigmoid output needs 6 B I K operations, soft-max 8 B I K."""
    rows, items = X.shape
    batch, units = 60, 8
    assert rows % batch == 0
    output = 2 * batch * items * units
    for loss, expected in (("sigmoid", 3 * output), ("softmax", 4 * output)):
        model = dsstne.fit(X, hidden=[units], epochs=0, loss=loss, denoising=0)
        with dsstne.Trainer(model, X, batch_size=batch, devices="cpu", optimizer="sgd") as trainer:
            profile = trainer.profile(steps=rows // batch)
        work = dict(zip(words(profile["operations"]), profile["operations"], strict=True))
        counted = sum(2 * o["multiply_adds"] for word, o in work.items() if word.startswith("Output"))
        assert counted == expected
        assert work["Gather"]["multiply_adds"] == pytest.approx(X.nnz * batch / rows * units)
        assert work["Scatter"]["multiply_adds"] == work["Gather"]["multiply_adds"]
        for operation in work.values():
            seconds = operation["milliseconds"] / 1e3
            assert operation["gflop_per_second"] == pytest.approx(2e-9 * operation["multiply_adds"] / seconds)
            assert operation["gigabytes_per_second"] == pytest.approx(1e-9 * operation["bytes"] / seconds)
            assert operation["limit"] in ("arithmetic", "memory")
            assert operation["limit_share"] > 0


@pytest.mark.parametrize("devices", ["cpu", "cpu:2"])
def test_profiled_steps_train_as_those_of_a_run(fresh, X, devices):
    other = copy.deepcopy(fresh)
    with dsstne.Trainer(fresh, X, batch_size=50, devices=devices) as trainer:
        trainer.run(steps=9)
    with dsstne.Trainer(other, X, batch_size=50, devices=devices) as trainer:
        trainer.run(steps=2)
        trainer.profile(steps=4)
        assert trainer.progress.step == 6
        assert trainer.run(steps=3).step == 9
    for name in fresh.tensors:
        assert fresh.tensor(name).tobytes() == other.tensor(name).tobytes(), name


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (0, "steps must be at least 1, not 0"),
        (-3, "at least 1"),
        (1.5, "must be an integer"),
        (None, "must be an integer"),
    ],
)
def test_a_profile_needs_steps(fresh, X, steps, text):
    with dsstne.Trainer(fresh, X) as trainer:
        with pytest.raises(dsstne.InvalidArgumentError, match=text):
            trainer.profile(steps=steps)
        assert trainer.progress.step == 0


def test_an_exception_in_on_progress_ends_a_profile(fresh, X):
    seen = []

    def look(progress):
        seen.append(progress.step)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        with pytest.raises(KeyboardInterrupt):
            trainer.profile(steps=10**12, on_progress=look)
        step = trainer.progress.step
        assert trainer.run(steps=1).step == step + 1
        assert trainer.profile(steps=2)["steps"] == 2
    assert seen == sorted(seen)


def test_another_thread_cancels_a_profile(fresh, X):
    with dsstne.Trainer(fresh, X, batch_size=8) as trainer:
        errors = []

        def profile():
            with pytest.raises(dsstne.CancelledError) as caught:
                trainer.profile(steps=10**12)
            errors.append(caught.value)

        thread = threading.Thread(target=profile)
        thread.start()
        while thread.is_alive():
            trainer.cancel()
            thread.join(0.01)
        assert len(errors) == 1
        trainer.run(steps=1)


def test_a_profile_of_steps_that_diverge_reports_them(fresh, X):
    options = {"batch_size": 8, "optimizer": "sgd", "learning_rate": 1e30}
    with dsstne.Trainer(fresh, X * np.float32(1e20), **options) as trainer, pytest.raises(dsstne.NotFiniteError):
        trainer.profile(steps=50)
    fresh.recommend(X, k=1)


def test_a_profile_of_many_operations_is_complete(X):
    """Its text is longer than the buffer that Python offers first."""
    model = dsstne.fit(X, hidden=[3] * 20, epochs=0)
    with dsstne.Trainer(model, X, batch_size=50, devices="cpu:2") as trainer:
        profile = trainer.profile(steps=2)
        assert trainer.progress.step == 2
    assert words(profile["operations"]).count("Dense") == 2 * 19
