"""Factors by gradient steps at stored entries: of ratings, beside LIBMF, with errors; and BPR, beside implicit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from measure import real
from measure.alternate import Contestant, take_turns
from measure.lines import Goal, Line
from peers import ratings

from workloads import gowalla

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench
    from numpy.typing import NDArray
    from scipy import sparse

TITLE = "(r) factors of users and items of Gowalla's shape by gradient steps at stored entries: an epoch"

FACTORS = 128


def lines(bench: Bench) -> Iterator[Line]:
    """Gowalla's training entries, for ratings with numbers from 1 to 5. In full also errors of predictions."""
    yield from epoch(bench)
    if bench.full:
        yield from errors(bench)


def epoch(bench: Bench) -> Iterator[Line]:
    """Seconds of an epoch."""
    train = gowalla.load(bench.data, "train")
    if train is None:
        yield Line("epoch", unavailable=gowalla.MISSING)
        return
    rated = train.copy()
    rated.data = np.random.default_rng(0).integers(1, 6, train.nnz).astype(np.float32)
    for loss, data, peer, name in (
        ("squared", rated, "LIBMF", "LIBMF, compiled for AVX"),
        ("bpr", train, "implicit", "implicit"),
    ):
        if not bench.wants(loss):
            continue
        arguments = (data, FACTORS, bench.threads)
        with Contestant(ratings.make, loss, *arguments) as us, Contestant(ratings.make, peer, *arguments) as them:
            turns = take_turns(
                lambda ours=us: ours.call("seconds", 4),
                lambda theirs=them: theirs.call("seconds", 6),
                repeats=bench.repeats(5, 7),
            )
        yield Line(
            f"an epoch of {loss}, K={FACTORS}",
            "s",
            turns.ours,
            turns.peer,
            name,
            goal=Goal("ratio", 1, 2),
            parameters={"factors": FACTORS, "batch_size": ratings.BATCH, "threads": bench.threads, "optimizer": "sgd"},
        )


def errors(bench: Bench) -> Iterator[Line]:
    """The error of predicted logarithms of counts, of networks over three seeds and of means.

    The networks predict what is left beside the mean of the user. Their settings are those that were best for a tenth
    of the training entries.
    """
    data = real.lastfm(bench.data, counts=True)
    if data is None:
        yield Line("error", unavailable="the data are not there, see tests/bench/README.md")
        return
    train, test = logarithms(data.train), logarithms(data.test)
    mean = float(train.data.mean())
    of_users, of_items = (means(places, train.data, n) for places, n in zip(train.coords, train.shape, strict=True))
    predicted = {
        "the mean": np.full(test.nnz, mean),
        "means of users": of_users[test.row],
        "means of items": of_items[test.col],
        "means of users and items, damped": damped(train, test),
    }
    for name, values in predicted.items():
        yield Line(f"error of the logarithms of counts, {name}", "RMSE", [rmse(values, test)])
    for name in ("factors", "autoencoder"):
        runs = [rmse(predictions(name, train, of_users, seed)[test.row, test.col], test) for seed in range(3)]
        yield Line(f"error of the logarithms of counts, {name}", "RMSE", runs, note=f"mean {np.mean(runs):.4f}")


def logarithms(X: sparse.csr_array) -> sparse.coo_array:
    """The logarithm of each entry; that of 1 stays, as a stored zero."""
    entries: sparse.coo_array = X.tocoo()
    entries.data = np.log(entries.data)
    return entries


def means(places: NDArray[np.int32], values: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    """The mean of the values at each place; that of all where there are none."""
    numbers = np.bincount(places, minlength=count)
    return np.where(numbers > 0, np.bincount(places, values, count) / np.maximum(numbers, 1), values.mean())


def damped(train: sparse.coo_array, test: sparse.coo_array) -> NDArray[np.float64]:
    """The mean, and what users and items differ from it (Koren et al., 2009), each as if 1 or 20 values did not."""
    users, items, mean = np.zeros(train.shape[0]), np.zeros(train.shape[1]), train.data.mean()
    for _ in range(10):
        for own, other, mine, others, count in (
            (items, users, train.col, train.row, 20),
            (users, items, train.row, train.col, 1),
        ):
            rest = train.data - mean - other[others]
            own[:] = np.bincount(mine, rest, len(own)) / (np.bincount(mine, minlength=len(own)) + count)
    result: NDArray[np.float64] = mean + users[test.row] + items[test.col]
    return result


def predictions(name: str, train: sparse.coo_array, of_users: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Predicted logarithms of all users and items."""
    from scipy import sparse

    import dsstne

    rest = train.copy()
    rest.data = (train.data - of_users[train.row]).astype(np.float32)
    rest = rest.tocsr()
    if name == "factors":
        X, hidden = sparse.eye_array(rest.shape[0], format="csr", dtype=np.float32), {"activation": "linear"}
    else:
        X, hidden = rest, {"activation": "tanh", "denoising": 0.3}
    model = dsstne.fit(
        X,
        rest,
        hidden=[8],
        loss={"kind": "squared", "stored_only": True},
        temperature=None,
        input_scaling=None,
        optimizer="adam",
        learning_rate=0.003,
        weight_decay=0.01,
        batch_size=64,
        epochs=3 if name == "factors" else 5,
        seed=seed,
        progress=False,
        **{"denoising": 0.0, **hidden},
    )
    result: NDArray[np.float64] = model.predict(X) + of_users[:, None]
    return result


def rmse(predicted: NDArray[np.float64], test: sparse.coo_array) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((predicted - test.data) ** 2)))
