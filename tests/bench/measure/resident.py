"""Resident memory of trainings, solvers and rankings in a process of their own, against the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dsstne
from dsstne import _native

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


class Solving:
    """Opens the data, and then measures what a solver adds, and what ranking with its model adds."""

    def __init__(self, X: sparse.csr_array, function: str, options: dict[str, Any], threads: int) -> None:
        self.X, self.data, self.threads = X, dsstne.Dataset(X), threads
        self.solve, self.options = getattr(dsstne, function), options

    def run(self) -> dict[str, Any]:
        """Bytes of growth and of the plan without the data, for the solver and for ranking with its model."""
        plans, real = [], _native.solver_run

        def run(solver: Any, *arguments: Any, **options: Any) -> Any:
            plans.append(_native.call_json("solver_plan", solver.value))
            return real(solver, *arguments, **options)

        _native.solver_run = run
        try:
            forget_most()
            before = resident()
            model = self.solve(self.data, **self.options, threads=self.threads, progress=False)
            found = above("solver", resident("VmHWM") - before, plans[0])
        finally:
            _native.solver_run = real
        if isinstance(model, dsstne.Model):
            rows = self.X[:4096]
            plan = model.plan(rows, k=20, threads=self.threads)
            forget_most()
            before = resident()
            model.recommend(rows, k=20, threads=self.threads)
            found |= above("ranking", resident("VmHWM") - before, plan)
        return found


def above(name: str, grown: int, plan: dict[str, Any]) -> dict[str, Any]:
    """The growth, the plan without the data, and how many percent the first is above the second."""
    planned = sum(part["bytes"] for part in plan["parts"] if part["name"] != "data")
    return {name: 100 * (grown / planned - 1), f"{name} grown": grown, f"{name} plan": planned}


def make(*arguments: Any) -> Growth:
    """For `alternate.Contestant`."""
    return Growth(*arguments)


def make_solving(*arguments: Any) -> Solving:
    """For `alternate.Contestant`."""
    return Solving(*arguments)
