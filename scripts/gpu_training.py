"""A small training, ranking and evaluation on a CUDA device, with every kind of op: what compute-sanitizer watches.

python scripts/gpu_training.py [cuda:0]
"""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse

import dsstne

ROWS, ITEMS = 96, 150
NETWORKS: list[dict[str, object]] = [
    {"loss": "softmax", "hidden": [32], "denoising": 0.5},
    {"loss": "softmax", "hidden": [16], "temperature": 0.1, "optimizer": "momentum"},
    {"loss": "sigmoid", "hidden": [24, 16], "dropout": 0.3, "optimizer": "rmsprop", "activation": "relu"},
    {"loss": "squared", "hidden": [20], "tied": True, "optimizer": "sgd"},
    {"loss": "softmax", "hidden": [32], "precision": "bfloat16", "weight_decay": 0.01},
]


def forms(model: dsstne.Model, X: scipy.sparse.csr_array, device: str, precision: str) -> str:
    """The ways in which the device computes the model's layers, as a plan names them."""
    with dsstne.Trainer(model, X, batch_size=40, devices=device, precision=precision) as trainer:
        operations = trainer.plan()["operations"]
    return "; ".join(dict.fromkeys(text for text in operations if text.startswith(("Output", "Dense"))))


def main() -> int:
    """Trains each network for some steps; an error ends it."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
    X, held_out = (
        scipy.sparse.random(ROWS, ITEMS, 0.1, "csr", np.float32, random_state=np.random.default_rng(n)) for n in (1, 2)
    )
    for network in NETWORKS:
        model = dsstne.fit(X, devices=device, epochs=2, batch_size=40, progress=False, **network)
        ids, scores = model.recommend(X, k=10, devices=device)
        found = dsstne.evaluate(model, X, held_out, ["recall@10", "ndcg@10"], devices=device)
        model.neighbors([0, ITEMS - 1], k=5, devices=device)
        model.predict(X[:7], devices=device)
        assert ids.shape == scores.shape == (ROWS, 10)
        loss = model.history[-1]["loss"]
        assert np.isfinite(loss), network
        print(f"{network}: loss {loss:.4f}, " + ", ".join(f"{k} {v:.4f}" for k, v in found.items()))
        print(f"    {forms(model, X, device, str(network.get('precision', 'float32')))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
