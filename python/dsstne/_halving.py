"""Successive halving: which candidate of a search trains next, and how far. Pure bookkeeping, without data or models.

The rule is that of ASHA (Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020): a candidate
is promoted to the next rung as soon as it is among the best 1/eta of those that have finished its rung. Several
*brackets*, which begin at different rungs, make it Hyperband (Li et al., "Hyperband", JMLR 2018).

What a job is depends on the results of older jobs in the order in which they would end on a number of imagined workers
that are all equally fast, a training taking as long as its rung says. The jobs are therefore the same whoever computes
them, how long they really take and how often they are tried again. There are twice as many imagined workers as jobs
that run at the same time, so that a job that takes longer than imagined does not make the others wait.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Job:
    """A piece of work: to train a candidate up to a rung, and to measure it there.

    Attributes:
        number: Number of the job, from 0.
        candidate: Number of the candidate, from 0.
        rung: Index of the rung; the last one is a whole training.
        before: The rung that the candidate was promoted from, or None if it begins.
    """

    number: int
    candidate: int
    rung: int
    before: int | None = None


@dataclass
class _Rung:
    """The candidates of a bracket that have finished a rung, with their values, and which of them were promoted."""

    values: dict[int, float] = field(default_factory=dict)
    promoted: set[int] = field(default_factory=set)

    def best(self, count: int) -> int | None:
        """Returns the best candidate that was not promoted, if it is among the best ``count``; ties: the older one."""
        ranked = sorted(self.values, key=lambda candidate: (-self.values[candidate], candidate))[:count]
        left = (one for one in ranked if one not in self.promoted and self.values[one] > -math.inf)
        return next(left, None)


class Halving:
    """Decides on the jobs of a search.

    Args:
        rungs: Number of rungs.
        candidates: Number of candidates; None = no limit.
        eta: One in ``eta`` candidates is promoted.
        brackets: Number of brackets; bracket b begins at rung b.
        jobs: How many jobs run at the same time at most, on which depends what later jobs are; None = any number, and a
            job depends on all results that are known when it is asked for.
        learn: Called as ``learn(candidate, value)`` with the first result of each candidate, in the order in which
            results are taken into account.
    """

    def __init__(
        self,
        rungs: int,
        candidates: int | None,
        eta: int = 3,
        brackets: int = 1,
        jobs: int | None = 1,
        learn: Callable[[int, float], object] = lambda candidate, value: None,
    ) -> None:
        self.rungs, self.candidates, self.eta = rungs, candidates, eta
        self._workers = None if jobs is None else 2 * jobs if jobs > 1 else 1
        self._imagined: list[tuple[float, int]] = []  # a heap of jobs under way on these: their end and number
        self._now = 0.0  # the time there
        self._begins = _pattern(rungs, eta, brackets)
        self._learn = learn
        self._brackets = [[_Rung() for _ in range(rungs)] for _ in range(brackets)]
        self._jobs: list[Job] = []
        self._told: dict[int, float] = {}  # by the number of a job
        self._begun = 0  # candidates
        self._final = False  # no candidate is left to begin, and all results are known

    @property
    def running(self) -> int:
        """Number of jobs that were given out and have no result."""
        return len(self._jobs) - len(self._told)

    def bracket(self, candidate: int) -> int:
        """Returns the bracket of a candidate, which is also the rung that it begins at."""
        return self._begins[candidate % len(self._begins)]

    def extend(self, candidates: int | None) -> None:
        """Sets another number of candidates; a search that was done may go on."""
        self.candidates, self._final = candidates, False

    def tell(self, job: Job, value: float) -> None:
        """Takes the result of a job; -inf if it failed."""
        self._told[job.number] = value
        if self._workers is None:
            self._look(job)

    def next(self) -> Job | None:
        """Returns the next job; None if one must wait for results, or, if none is running, at the end."""
        number = len(self._jobs)
        job = None
        while job is None:
            if self._workers is None or len(self._imagined) < self._workers:
                job = self._promotion(number) or self._beginning(number)
            if job is None and self._imagined:
                end, first = self._imagined[0]
                if first not in self._told:
                    return None
                heapq.heappop(self._imagined)
                self._now = end
                self._look(self._jobs[first])
            elif job is None:
                if not self.running:
                    self._final = True
                    job = self._promotion(number)
                break
        if job is not None:
            self._jobs.append(job)
            if self._workers is not None:
                heapq.heappush(self._imagined, (self._now + self._length(job), number))
        return job

    def _length(self, job: Job) -> float:
        """Returns how long a job trains, in units of the first rung."""
        return float(self.eta**job.rung - (0 if job.before is None else self.eta**job.before))

    def out(self) -> set[int]:
        """Returns the candidates that can no longer be promoted, or have finished the last rung."""
        found: set[int] = set()
        if self.candidates is None:
            return found.union(*(rungs[-1].values for rungs in self._brackets))
        for bracket, rungs in enumerate(self._brackets):
            whole, rest = divmod(self.candidates, len(self._begins))
            entrants = whole * self._begins.count(bracket) + self._begins[:rest].count(bracket)  # at most
            for rung in rungs[bracket:-1]:
                ranked = sorted(rung.values, key=lambda one: (-rung.values[one], one))
                beaten = set(ranked[max(1, entrants // self.eta) :]) - rung.promoted
                found |= beaten
                entrants -= len(beaten)
            found |= set(rungs[-1].values)
        return found

    def _look(self, job: Job) -> None:
        """Takes a result into account."""
        value = self._told[job.number]
        self._brackets[self.bracket(job.candidate)][job.rung].values[job.candidate] = value
        if job.before is None:
            self._learn(job.candidate, value)

    def _promotion(self, number: int) -> Job | None:
        """Returns the promotion to the highest rung that is due."""
        for at in range(self.rungs - 2, -1, -1):
            for rungs in self._brackets:
                rung = rungs[at]
                count = len(rung.values) // self.eta
                if self._final and not rung.promoted:
                    count = max(1, count)  # so that the best of few is trained to the end
                candidate = rung.best(count)
                if candidate is not None:
                    rung.promoted.add(candidate)
                    return Job(number, candidate, at + 1, at)
        return None

    def _beginning(self, number: int) -> Job | None:
        if self.candidates is not None and self._begun == self.candidates:
            return None
        candidate = self._begun
        self._begun += 1
        return Job(number, candidate, self.bracket(candidate))


def _pattern(rungs: int, eta: int, brackets: int) -> list[int]:
    """Returns the brackets of candidates 0, 1, ...: bracket b has about eta^-b as many as bracket 0.

    These are the numbers of Hyperband, in which all brackets have about the same work. They are spread evenly.
    """
    counts = [max(1, round(rungs / (rungs - b) * eta ** (brackets - 1 - b))) for b in range(brackets)]
    places = [((n + 0.5) / count, b) for b, count in enumerate(counts) for n in range(count)]
    return [b for _, b in sorted(places)]
