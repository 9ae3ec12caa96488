"""dsstne as a contestant: what `torch_peer.TorchPeer` is for PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dsstne

if TYPE_CHECKING:
    from scipy import sparse
    from settings import Network


class Ours:
    """Trains a network on a matrix."""

    def __init__(self, X: sparse.csr_array, network: Network, threads: int) -> None:
        self.X, self.network, self.threads = X, network, threads
        self.data = dsstne.Dataset(X)
        self.start(0)

    def start(self, seed: int) -> None:
        """New weights and a new optimizer."""
        net = self.network
        self.model = dsstne.fit(self.data, network=net.definition(), epochs=0, seed=seed, devices="cpu", progress=False)
        self.trainer = dsstne.Trainer(
            self.model,
            self.data,
            optimizer=net.optimizer,
            learning_rate=net.learning_rate,
            batch_size=net.batch_size,
            seed=seed,
            devices="cpu",
            precision=net.precision,
            threads=self.threads,
        )

    def epoch(self) -> dict[str, float]:
        """Trains for an epoch: loss (mean over the rows) and seconds."""
        now = self.trainer.run(epochs=1)
        return {"loss": now.epoch_loss, "seconds": now.seconds}

    def fit(self, epochs: int) -> list[dict[str, Any]]:
        """The history of a fresh run through `dsstne.fit`."""
        net = self.network
        model = dsstne.fit(
            self.data,
            network=net.definition(),
            optimizer=net.optimizer,
            learning_rate=net.learning_rate,
            batch_size=net.batch_size,
            epochs=epochs,
            devices="cpu",
            precision=net.precision,
            threads=self.threads,
            progress=False,
        )
        return model.history

    def evaluate(self, held_out: sparse.csr_array, k: int = 20) -> dict[str, float]:
        """Recall and NDCG of the rows that have held-out items, without the items of the input."""
        return dsstne.evaluate(
            self.model, self.data, held_out, [f"recall@{k}", f"ndcg@{k}"], devices="cpu", threads=self.threads
        )


def make(*arguments: Any) -> Ours:
    """For `alternate.Contestant`."""
    return Ours(*arguments)
