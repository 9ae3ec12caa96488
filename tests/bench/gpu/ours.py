"""dsstne on a CUDA device as a contestant: what `peers.torch_device.TorchDevice` is for PyTorch."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from measure.alternate import UnavailableError

import dsstne
from gpu.limits import Usage

if TYPE_CHECKING:
    from measure.network import Network
    from scipy import sparse


class Ours:
    """Trains a network on a matrix, with the trainer that `dsstne.fit` uses."""

    def __init__(self, X: sparse.csr_array, network: Network, devices: str = "cuda:0") -> None:
        warnings.simplefilter("ignore")  # that a precision is emulated is seen in the result
        self.usage = Usage()
        self.before = self.usage.used()
        self.X = X
        self.data = dsstne.Dataset(X)
        self.model = dsstne.fit(self.data, network=network.definition(), epochs=0, devices="cpu", progress=False)
        try:
            self.trainer = dsstne.Trainer(
                self.model,
                self.data,
                optimizer=network.optimizer,
                learning_rate=network.learning_rate,
                batch_size=network.batch_size,
                devices=devices,
                precision=network.precision,
            )
        except dsstne.DsstneError as error:
            raise UnavailableError(str(error)) from error
        self.most = 0

    def run(self, steps: int) -> float:
        """Seconds of a step. Beginning and end of a run, which bring weights to the device and back, are taken out.

        That is the slope between a run of a few steps and a longer one.
        """
        few = max(1, steps // 4)
        begin = self.trainer.run(steps=few).seconds
        return max(1e-9, (self.trainer.run(steps=steps + few).seconds - begin) / steps)

    def edges(self) -> float:
        """Seconds of a run of one step: its beginning and its end."""
        return self._seconds(1)

    def epoch(self) -> float:
        """Seconds of an epoch, with all that belongs to a run."""
        begin = time.perf_counter()
        self.trainer.run(epochs=1)
        return time.perf_counter() - begin

    def form(self) -> str:
        """The forms of the outputs, as the plan names them."""
        operations = self.trainer.plan()["operations"]
        found = dict.fromkeys(text[text.rindex("(") + 1 : -1] for text in operations if text.startswith("Output"))
        return "output: " + "; ".join(found)

    def memory(self) -> dict[str, int]:
        """Bytes of the device: taken in all, planned, and planned for weights and optimizer's state."""
        parts = [part for part in self.trainer.plan()["parts"] if part["device"].startswith("cuda")]
        kept = sum(part["bytes"] for part in parts if "weight" in part["name"] or "state" in part["name"])
        planned = sum(part["bytes"] for part in parts)
        return {"most": self.usage.used() - self.before, "planned": planned, "kept": kept}

    def _seconds(self, steps: int) -> float:
        begin = time.perf_counter()
        self.trainer.run(steps=steps)
        return time.perf_counter() - begin


def make(*arguments: Any) -> Ours:
    """For `alternate.Contestant`."""
    return Ours(*arguments)
