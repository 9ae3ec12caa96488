"""Models that keep the data, on CUDA devices, by the emulated driver."""

import pytest

PRELUDE = """
import numpy as np, scipy.sparse, dsstne

random = np.random.default_rng(1)
X = scipy.sparse.random(90, 700, 0.03, "csr", np.float32, random_state=random)
X.data[:] = 1
X = scipy.sparse.vstack([X, scipy.sparse.csr_matrix((1, 700), dtype=np.float32)]).tocsr()
quiet = dict(progress=False, devices="cpu")
models = {
    "f": dsstne.spectral(X, rank=70, **quiet),
    "gf_cf": dsstne.spectral(X, rank=20, method="gf_cf", **quiet),
    "operator": dsstne.linear(X, method="operator", **quiet),
    "operator, own": dsstne.linear(X, method="operator", dropout=0.3, item_exponent=0.5, **quiet),
}
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["f", "gf_cf", "operator", "operator, own"])
def test_scores_agree_with_the_cpu(emulated, name):
    code = """
model = models[NAME]
scores = model.predict(X, devices="cpu")
size = np.abs(scores).max()
for options in ({}, {"batch_size": 7}, {"rows": [3, 3, 90]}):
    want = scores[options.get("rows", slice(None))]
    got = model.predict(X, devices="cuda:0", **options)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * size)
    ids, best = model.recommend(X, k=9, devices="cuda:0", **options)
    np.testing.assert_array_equal(best, np.take_along_axis(got, ids, 1))
    assert np.mean(ids == model.recommend(X, k=9, devices="cpu", **options)[0]) > 0.95
some = slice(3, None, 11)  # the empty row is among them
alone = model.predict(X[some], devices="cuda:0", batch_size=1)
assert model.predict(X, devices="cuda:0")[some].tobytes() == alone.tobytes()
"""
    emulated(PRELUDE + code.replace("NAME", repr(name)))


@pytest.mark.long
def test_one_device_of_several_computes(emulated):
    emulated(
        PRELUDE
        + """
model = models["f"]
alone = model.predict(X, devices="cuda:0")
for devices in (["cuda:0", "cuda:1"], "all"):
    assert model.predict(X, devices=devices).tobytes() == alone.tobytes()
plan = model.plan(X, devices=["cuda:0", "cuda:1"])
assert [device["name"] for device in plan["devices"]] == ["cuda:0"], plan["devices"]
assert plan["operations"][-1] == "One device computes all scores of this model"
try:
    model.predict(X, devices=["cuda:0", "cuda:77"])
except dsstne.DeviceUnavailableError as error:
    assert "cuda:77" in str(error)
else:
    raise AssertionError("a device that is not there was accepted")
"""
    )


def test_a_sum_of_a_network_and_a_filter_runs_on_the_device(emulated):
    emulated(
        PRELUDE
        + """
network = dsstne.fit(X, hidden=[16], epochs=2, precision="float32", **quiet)
model = dsstne.blend([network, models["f"], models["operator"]], weights=[0.5, 0.3, 0.2])
want, got = (model.predict(X, devices=at) for at in ("cpu", "cuda:0"))
np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
assert [device["name"] for device in model.plan(X, devices="cuda:0")["devices"]] == ["cuda:0"]
"""
    )
