"""Models of weights between items on CUDA devices, by the emulated driver: the bits of the CPU."""

import pytest

PRELUDE = """
import numpy as np, scipy.sparse, dsstne

random = np.random.default_rng(1)
X = scipy.sparse.random(45, 70, 0.2, "csr", np.float32, random_state=random)
W = np.where(random.random((70, 70)) < 0.3, random.normal(size=(70, 70)), 0).astype(np.float32)
model = dsstne.Model.from_item_weights({wrap}(W))

def same(work, devices):
    for want, got in zip(work("cpu"), work(devices), strict=True):
        assert np.asarray(want).tobytes() == np.asarray(got).tobytes(), devices
"""


@pytest.mark.long
@pytest.mark.parametrize("wrap", ["np.asarray", "scipy.sparse.csr_array"])
@pytest.mark.parametrize("devices", ["cuda:0", ["cuda:0", "cuda:1"]])
def test_answers_have_the_bits_of_the_cpu(emulated, wrap, devices):
    code = """
devices = DEVICES
for options in ({}, {"batch_size": 16}, {"rows": [3, 3, 44], "batch_size": 2}):
    same(lambda at: model.recommend(X, k=9, devices=at, **options), devices)
    same(lambda at: model.recommend(X, k=70, exclude_seen=False, items=range(3, 60), devices=at, **options), devices)
    same(lambda at: [model.predict(X, devices=at, **options)], devices)
    same(lambda at: dsstne.evaluate(model, X, X, "ndcg@20", exclude=None, devices=at, **options).values(), devices)
same(lambda at: model.similar_items([5, 69], k=7, devices=at), devices)
same(lambda at: model.neighbors([5, 69], k=7, devices=at), devices)
model.set_tensor("weight", 3 * model.tensor("weight"))
same(lambda at: model.recommend(X, k=9, devices=at), devices)
same(lambda at: model.similar_items([5, 69], k=7, devices=at), devices)
popular = dsstne.popularity(X)
same(lambda at: popular.recommend(X, k=9, devices=at), devices)
plan = model.plan(X, k=9, devices=devices)
assert any("the device's copy of weight" in part.get("of", "") for part in plan["parts"]), plan
"""
    emulated(PRELUDE.replace("{wrap}", wrap) + code.replace("DEVICES", repr(devices)))
