"""dsstne as a contestant: what `peers.torch_network.TorchNetwork` is for PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dsstne
from measure.alternate import UnavailableError

if TYPE_CHECKING:
    from scipy import sparse

    from measure.network import Network


class Ours:
    """Trains a network on a matrix, with the trainer that `dsstne.fit` uses."""

    def __init__(self, X: sparse.csr_array, network: Network, threads: int, devices: str = "cpu") -> None:
        self.X, self.network, self.threads, self.devices = X, network, threads, devices
        self.data = dsstne.Dataset(X)
        self.trainer: dsstne.Trainer | None = None
        self.start(0)

    def start(self, seed: int) -> None:
        """New weights and a new optimizer."""
        net = self.network
        if self.trainer is not None:
            self.trainer.close()
        self.model = dsstne.fit(self.data, network=net.definition(), epochs=0, seed=seed, devices="cpu", progress=False)
        try:
            self.trainer = dsstne.Trainer(
                self.model,
                self.data,
                optimizer=net.optimizer,
                learning_rate=net.learning_rate,
                batch_size=net.batch_size,
                seed=seed,
                devices=self.devices,
                precision=net.precision,
                threads=self.threads,
            )
        except dsstne.DsstneError as error:
            if net.precision == "float32":
                raise
            raise UnavailableError(str(error)) from error

    def epoch(self) -> dict[str, float]:
        """Trains for an epoch: loss (mean over the rows) and seconds."""
        assert self.trainer is not None
        now = self.trainer.run(epochs=1)
        return {"loss": now.epoch_loss, "seconds": now.seconds}

    def run(self, steps: int) -> float:
        """Seconds of a step, with the making of batches and the catching up of lazy rows at the end."""
        assert self.trainer is not None
        return self.trainer.run(steps=steps).seconds / steps

    def evaluate(self, held_out: sparse.csr_array, k: int = 20) -> dict[str, float]:
        """Recall and NDCG of the rows that have held-out items, without the items of the input."""
        return dsstne.evaluate(
            self.model, self.data, held_out, [f"recall@{k}", f"ndcg@{k}"], devices="cpu", threads=self.threads
        )


def make(*arguments: Any) -> Ours:
    """For `alternate.Contestant`."""
    return Ours(*arguments)
