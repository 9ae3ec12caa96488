"""Logistic regression with an L1 penalty, a label at a time in scikit-learn's saga, all labels at once in dsstne.

Both minimise the mean over the rows of the sum of the labels' losses, plus the sum of |w| over the number of rows,
which is C = 1 in scikit-learn. saga stops after 100 passes over the data, dsstne after 500 whole batches with momentum.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import real
from measure.lines import Goal, Line
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench
    from numpy.typing import NDArray

TITLE = "(lo) logistic regression with an L1 penalty on bibtex's labels, beside scikit-learn's saga"

PASSES, EPOCHS, MOMENTUM = 100, 500, 0.9
NETWORK = {
    "layers": [
        {"name": "features", "kind": "input"},
        {"name": "labels", "kind": "output", "initializer": {"kind": "constant", "scale": 0, "bias": -4}},
    ],
    "loss": "sigmoid",
}


def lines(bench: Bench) -> Iterator[Line]:
    """The objective that is reached, and what the weights are like."""
    data = real.load(bench.data, "bibtex")
    if data is None:
        yield Line("bibtex", unavailable="the data are not there, see tests/bench/README.md")
        return
    ours, theirs = timed(fitted, data, bench.threads), timed(saga, data)
    name = f"scikit-learn's saga, {PASSES} passes"
    parameters = {"epochs": EPOCHS, "batch_size": data.train.shape[0], "l1": 1 / data.train.shape[0]}
    yield Line("objective", "loss a row", [ours["objective"]], [theirs["objective"]], name, parameters=parameters)
    for case in ("share of exact zeros", "precision@1"):
        goal = Goal("ratio", 1, 1) if case == "share of exact zeros" else None
        yield Line(case, "%", [ours[case]], [theirs[case]], name, rate=True, goal=goal, parameters=parameters)
    yield Line("time", "s", [ours["seconds"]], [theirs["seconds"]], name, parameters=parameters)


def timed(fit: Any, data: real.Split, *arguments: Any) -> dict[str, float]:
    """Fits, and measures the result."""
    begin = time.perf_counter()
    W, b = fit(data, *arguments)
    seconds = time.perf_counter() - begin
    assert data.targets is not None
    assert data.test_targets is not None
    rows, z, best = data.train.shape[0], data.train @ W + b, (data.test @ W + b).argmax(axis=1)
    loss = np.logaddexp(0, z).sum() - data.targets.multiply(z).sum()
    hits = data.test_targets.toarray()[np.arange(len(best)), best] > 0
    return {
        "seconds": seconds,
        "objective": float(loss + np.abs(W).sum()) / rows,
        "share of exact zeros": 100 * float((W == 0).mean()),
        "precision@1": 100 * float(hits.mean()),
    }


def fitted(data: real.Split, threads: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ours. With momentum m the penalty acts 1 - m times as strongly, see docs/training.md."""
    import dsstne

    rows = data.train.shape[0]
    optimizer = {"kind": "momentum", "momentum": MOMENTUM, "learning_rate": 1.0, "l1": 1 / rows / (1 - MOMENTUM)}
    model = dsstne.fit(
        data.train,
        data.targets,
        network=NETWORK,
        optimizer=optimizer,
        epochs=EPOCHS,
        batch_size=rows,
        threads=threads,
        progress=False,
    )
    return model.tensor("labels.weight").astype(float), model.tensor("labels.bias").astype(float)


def saga(data: real.Split) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A model for each label."""
    from sklearn.linear_model import LogisticRegression

    assert data.targets is not None
    X, Y = data.train, data.targets.toarray()
    X = sparse.csr_matrix((X.data.astype(float), X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    W, b = np.zeros((X.shape[1], Y.shape[1])), np.zeros(Y.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged; the objective tells how far it came
        for label in range(Y.shape[1]):
            one = LogisticRegression(penalty="l1", C=1.0, solver="saga", max_iter=PASSES).fit(X, Y[:, label] > 0)
            W[:, label], b[label] = one.coef_[0], one.intercept_[0]
    return W, b
