"""Odd values of any parameter give a right result or an exception of this package, and nothing hangs."""

import numpy as np
import pytest

import dsstne

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1]], np.float32)


def test_more_threads_than_are_useful_are_not_started():
    model = dsstne.popularity(DENSE)
    usual, many = (model.plan(devices="cpu", k=2, threads=n)["devices"][0]["threads"] for n in (None, 4096))
    assert many == max(64, 4 * usual)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"threads is -1; .*\(0: as many as the process may use"):
        model.recommend(DENSE, k=2, threads=-1)
