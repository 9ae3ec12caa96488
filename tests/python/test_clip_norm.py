"""A limit of the norm of the gradient of all weights."""

import numpy as np
import pytest

import dsstne

OPTIONS = {
    "hidden": 8,
    "loss": "squared",
    "temperature": None,
    "denoising": 0,
    "schedule": None,
    "precision": "float32",
}


def weights(model):
    return np.concatenate([model.tensor(name).ravel().astype(float) for name in model.tensors])


@pytest.mark.parametrize("where", [{}, {"devices": "cpu:3"}])
def test_a_step_is_as_long_as_the_limit_allows(X, where):
    def step(optimizer):
        begin, end = (
            dsstne.fit(X, epochs=epochs, batch_size=1000, optimizer=optimizer, **OPTIONS, **where) for epochs in (0, 1)
        )
        return weights(end) - weights(begin)

    free = step({"kind": "sgd", "learning_rate": 0.5})
    clipped = step({"kind": "sgd", "learning_rate": 0.5, "clip_norm": 0.01})
    assert np.linalg.norm(free) > 0.1
    assert np.linalg.norm(clipped) == pytest.approx(0.5 * 0.01, rel=1e-3)
    assert free @ clipped == pytest.approx(np.linalg.norm(free) * np.linalg.norm(clipped), rel=1e-4)


def test_a_run_that_would_diverge_does_not(X):
    options = {**OPTIONS, "epochs": 5, "batch_size": 16}
    wide = X * 100
    with pytest.raises(dsstne.NotFiniteError):
        dsstne.fit(wide, optimizer={"kind": "sgd", "learning_rate": 1.0}, **options)
    model = dsstne.fit(wide, optimizer={"kind": "sgd", "learning_rate": 1.0, "clip_norm": 0.1}, **options)
    assert np.isfinite(weights(model)).all()


def test_a_checkpoint_goes_on_with_the_limit(X, tmp_path):
    options = {**OPTIONS, "optimizer": {"kind": "adam", "clip_norm": 0.5}, "learning_rate": 0.01}
    whole = dsstne.fit(X, epochs=3, **options)
    path = tmp_path / "run.checkpoint"
    dsstne.fit(X, epochs=1, checkpoint=path, **options)
    resumed = dsstne.fit(X, epochs=3, checkpoint=path, resume=True, **options)
    assert (weights(resumed) == weights(whole)).all()
    with pytest.raises(dsstne.InvalidArgumentError, match="clip_norm: the checkpoint has 0.5, this trainer has 0.25"):
        dsstne.fit(
            X, epochs=3, checkpoint=path, resume=True, **{**options, "optimizer": {"kind": "adam", "clip_norm": 0.25}}
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": {"kind": "sgd", "clip_norm": -1}}, "clip_norm is -1; it must be a number of at least 0"),
        ({"optimizer": {"kind": "sgd", "clip_norm": "much"}}, 'clip_norm is "much"'),
        (
            {"optimizer": {"kind": "sgd", "clip_norm": 1}, "devices": "cpu:2", "parallel": "model"},
            'with several devices it goes with parallel="data" only',
        ),
    ],
)
def test_wrong_limits_are_refused(X, options, words):
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        dsstne.fit(X, epochs=1, **OPTIONS, **options)
