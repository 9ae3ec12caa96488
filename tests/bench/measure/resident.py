"""Resident memory of a training run in a process of its own, against the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dsstne

if TYPE_CHECKING:
    from scipy import sparse

    from measure.network import Network


def resident(key: str = "VmRSS") -> int:
    """Bytes of this process that are in memory; "VmHWM": the most since `forget_most`."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{key}:")[1].split()[0]) << 10


def forget_most() -> None:
    """Starts the high-water mark anew."""
    Path("/proc/self/clear_refs").write_text("5")


class Growth:
    """Opens the data, and then measures what a run adds."""

    def __init__(self, X: sparse.csr_array, network: Network, threads: int) -> None:
        self.data, self.network, self.threads = dsstne.Dataset(X), network, threads

    def run(self, steps: int) -> dict[str, Any]:
        """Bytes of growth at its highest, bytes of the plan without the data, and how far above it that is."""
        net = self.network
        forget_most()
        before = resident()
        model = dsstne.fit(self.data, network=net.definition(), epochs=0, devices="cpu", progress=False)
        with dsstne.Trainer(
            model,
            self.data,
            optimizer=net.optimizer,
            learning_rate=net.learning_rate,
            batch_size=net.batch_size,
            devices="cpu",
            precision=net.precision,
            threads=self.threads,
        ) as trainer:
            plan = sum(part["bytes"] for part in trainer.plan()["parts"] if part["name"] != "data")
            trainer.run(steps=steps)
            grown = resident("VmHWM") - before
        return {"grown": grown, "plan": plan, "above": 100 * (grown / plan - 1)}


def make(*arguments: Any) -> Growth:
    """For `alternate.Contestant`."""
    return Growth(*arguments)
