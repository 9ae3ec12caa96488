"""What test_wheel.py runs with an installed wheel, on this machine or under emulation."""

import hashlib
import json

import numpy as np
import scipy.sparse

import dsstne


def bits(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


# Half of the items of a row are from one of four groups, the others from anywhere: there is something to learn.
draw = np.random.default_rng(0)
group = draw.integers(4, size=400)
chance = np.where(np.arange(200) % 4 == group[:, None], 0.2, 0.02)
X = scipy.sparse.csr_array((draw.random(chance.shape) < chance).astype(np.float32))

report = dsstne.doctor()
options = {
    "hidden": [16],
    "epochs": 20,
    "batch_size": 64,
    "learning_rate": 0.01,
    "precision": "float32",
    "progress": False,
}
model = dsstne.fit(X, **options)
other = dsstne.fit(X, **options, threads=1)
ids, scores = model.recommend(X, k=10)
found = {
    "file": dsstne.__file__,
    "version": dsstne.__version__,
    "library": str(report.library),
    "target": report.engine["build"]["target"],
    "backends": report.engine["backends"],
    "instruction_set": report.engine["cpu"]["instruction_set"],
    "losses": [epoch["loss"] for epoch in model.history],
    "bits": [bits(ids), bits(scores)],
    "bits_of_one_thread": [bits(part) for part in other.recommend(X, k=10)],
    "right": float(np.mean(ids % 4 == group[:, None])),
    "linear": dsstne.linear(X).recommend(X[:20], k=3)[0].tolist(),
    "neighbours": dsstne.item_knn(X).recommend(X[:20], k=3)[0].tolist(),
}
print(json.dumps(found))
