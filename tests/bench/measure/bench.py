"""What every workload is given: how thorough to be, the limits, and races between contestants."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peers import TORCH_ENVIRONMENT

from measure import ours
from measure.alternate import Contestant, UnavailableError, take_turns
from measure.limits import Limits, threads_available
from measure.lines import Line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scipy import sparse

    from measure.lines import Goal
    from measure.network import Network


@dataclass
class Bench:
    """The settings of a run."""

    full: bool
    data: Path  # folder of the real data
    case: str = ""  # only cases with this in their names
    tiny: bool = False  # the smallest sizes and one turn, which try a workload and measure nothing
    limits: Limits = field(default_factory=Limits)
    threads: int = field(default_factory=threads_available)

    def wants(self, case: str) -> bool:
        """Whether a case is to be measured."""
        return self.case in case or case in self.case

    def repeats(self, quick: int = 3, full: int = 7) -> int:
        """Turns of a measurement."""
        return 1 if self.tiny else full if self.full else quick

    def peak(self, precision: str = "float32", instruction_set: str = "auto") -> Callable[[], float]:
        """Measures operations on registers, with all threads."""
        return lambda: self.limits.peak(precision, instruction_set, self.threads)

    def peak_name(self, precision: str = "float32", instruction_set: str = "auto") -> str:
        """What `peak` measures, in words."""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"peak {self.limits.loop(precision, instruction_set)}, {threads}"

    def network_race(
        self,
        case: str,
        network: Network,
        X: sparse.csr_array,
        steps: int,
        *,
        goal: Goal | None = None,
        repeats: int | None = None,
        together: bool = True,
        unit: str = "ms",
    ) -> Line:
        """A training step beside PyTorch's.

        Args:
            case, unit, goal: of the line.
            network, X: what is trained on what.
            steps: of a turn.
            repeats: turns.
            together: hold both in memory at once and alternate; else one after the other, where memory is short.
        """
        import peers.torch_network as torch_network

        limit = self.peak(network.precision)
        count = repeats or self.repeats()
        arguments = (X, network, self.threads)
        with ExitStack() as stack:
            us = stack.enter_context(Contestant(ours.make, *arguments))
            if together:
                them = stack.enter_context(Contestant(torch_network.make, *arguments, environment=TORCH_ENVIRONMENT))
                turns = take_turns(lambda: us.call("run", steps), lambda: them.call("run", steps), limit, count)
                name = them.call("name")
            else:
                turns = take_turns(lambda: us.call("run", steps), None, limit, count)
                us.close()
                try:
                    them = stack.enter_context(
                        Contestant(torch_network.make, *arguments, environment=TORCH_ENVIRONMENT)
                    )
                    alone = take_turns(lambda: them.call("run", steps), repeats=count)
                    turns.peer, name = alone.ours, them.call("name")
                except UnavailableError as error:
                    name = f"PyTorch: {error}"
        return Line(
            case,
            unit,
            turns.ours,
            turns.peer,
            name,
            work=network.operations(X.shape[1]) / 1e9,
            peer_work=network.operations(X.shape[1], stored_logits=True) / 1e9,
            limit=turns.limit,
            limit_name=self.peak_name(network.precision),
            goal=goal,
            parameters={**vars(network), "rows": X.shape[0], "items": X.shape[1], "entries": X.nnz, "steps": steps},
            note="" if together else "one after the other, not in turns: both at once do not fit into memory",
        )

    def tell(self, text: str) -> None:
        """A remark between the lines."""
        print(f"    {text}", flush=True)
