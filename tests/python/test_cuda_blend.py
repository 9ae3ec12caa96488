"""Sums of models on CUDA devices, by the emulated driver."""

import pytest

PRELUDE = """
import numpy as np, scipy.sparse, dsstne

random = np.random.default_rng(1)
X = scipy.sparse.random(45, 1300, 0.02, "csr", np.float32, random_state=random)
X.data[:] = 1
quiet = dict(progress=False, devices="cpu")
network = dsstne.fit(X, hidden=[16], epochs=2, precision="float32", **quiet)
linear, near = dsstne.linear(X, **quiet), dsstne.item_knn(X, k=20, **quiet)
"""


@pytest.mark.long
@pytest.mark.parametrize("devices", ["cuda:0", ["cuda:0", "cuda:1"]])
def test_sums_with_a_network_agree_with_the_cpu(emulated, devices):
    code = """
model, devices = dsstne.blend([network, linear], weights=[0.7, 0.3]), DEVICES
scores = model.predict(X, devices="cpu")
for options in ({}, {"batch_size": 16}):
    np.testing.assert_allclose(model.predict(X, devices=devices, **options), scores, rtol=1e-4, atol=1e-5)
    ids, best = model.recommend(X, k=9, devices=devices, **options)
    np.testing.assert_allclose(best, np.take_along_axis(scores, ids, 1), rtol=1e-4, atol=1e-5)
    assert (ids == model.recommend(X, k=9, devices="cpu")[0]).mean() > 0.99
ids, _ = model.recommend(X, k=9, items=range(3, 60), devices=devices)
assert ids.max() < 60 and (ids[ids >= 0] >= 3).all()
metrics = [dsstne.evaluate(model, X, X, "ndcg@20", exclude=None, devices=at)["ndcg@20"] for at in ("cpu", devices)]
np.testing.assert_allclose(*metrics, rtol=1e-3)
operations = " ".join(model.plan(X, devices=devices)["operations"])
assert "Moments of the scores of part 1" in operations and "Blend the scores of 2 models" in operations, operations
"""
    emulated(PRELUDE + code.replace("DEVICES", repr(devices)))


@pytest.mark.long
def test_sums_of_stored_matrices_have_the_bits_of_the_cpu(emulated):
    emulated(
        PRELUDE
        + """
model = dsstne.blend([linear, near, dsstne.popularity(X)], weights=[0.5, 0.4, 0.1])
for options in ({}, {"batch_size": 7}, {"rows": [3, 3, 44]}):
    ours, theirs = (model.recommend(X, k=9, devices=at, **options) for at in ("cpu", "cuda:0"))
    assert ours[0].tobytes() == theirs[0].tobytes() and ours[1].tobytes() == theirs[1].tobytes()
assert model.predict(X, devices="cpu").tobytes() == model.predict(X, devices="cuda:0").tobytes()
"""
    )


def test_a_sum_with_a_part_that_only_the_host_computes_runs_on_the_host(emulated):
    emulated(
        PRELUDE
        + """
model = dsstne.blend([network, dsstne.factorize(X, factors=4, **quiet)])
assert model.predict(X, devices="cpu").tobytes() == model.predict(X, devices="cuda:0").tobytes()
plan = model.plan(X, devices="cuda:0")
assert [device["name"] for device in plan["devices"]] == ["cpu"]
assert plan["operations"][-1] == "Only the CPU computes the scores of this model, whatever the devices"
"""
    )
