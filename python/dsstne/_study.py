"""What all searches have in common: which job is next, what is known of each trial, and the journal to go on from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsstne import _space
from dsstne._candidates import Lengths, Outcome
from dsstne._halving import Halving, Job
from dsstne._recipes import Recipe
from dsstne.errors import InvalidArgumentError
from dsstne.report import table_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from dsstne._store import Store

_OF_OUTCOME = ("value", "epochs", "seconds", "score_seconds", "memory", "note")


@dataclass
class Trial:
    """A candidate.

    Attributes:
        settings: Arguments of :func:`dsstne.fit`.
        own: Those that not all trials have.
        seed: Its seed.
        outcomes: The outcome at each rung.
    """

    settings: dict[str, Any]
    own: dict[str, Any]
    seed: int
    outcomes: dict[int, Outcome] = field(default_factory=dict)


class Study:
    """A search without the work: gives out jobs and takes their results.

    Args:
        source: Where settings come from.
        common: Arguments of ``fit`` that all trials have.
        lengths: The lengths of trainings.
        trials: Most trials; None = no limit.
        brackets: See :class:`dsstne._halving.Halving`.
        jobs: See there.
        seed: The seed of the search.
        metric: Name of the metric.
        store: Where checkpoints and the journal are.
        data: What identifies the data, for the journal.

    Attributes:
        trials: All trials.
        best: The number and the rung of the best result so far, or None.
        restored: Number of results that were known from the journal.
        unfinished: Jobs without a result, with the reasons; a search that goes on does them again.
    """

    def __init__(
        self,
        source: _space.Source,
        common: dict[str, Any],
        lengths: Lengths,
        trials: int | None,
        brackets: int,
        jobs: int | None,
        seed: int,
        metric: str,
        store: Store,
        data: str = "",
    ) -> None:
        self._source, self._common, self._lengths, self._seed, self._store = source, common, lengths, seed, store
        self.metric, self.trials, self.restored = metric, dict[int, Trial](), 0
        self.best: tuple[int, int] | None = None
        self.unfinished: list[tuple[Job, Outcome]] = []
        self._out: set[int] = set()
        if brackets > lengths.rungs:
            raise InvalidArgumentError(f"brackets={brackets}: there are {lengths.rungs} rungs, so at most as many")
        most = self._most(trials)
        self._halving = Halving(lengths.rungs, most, lengths.eta, brackets, jobs, self._learn)
        header = {
            "metric": metric,
            "seed": seed,
            "number of rungs, eta and brackets": [lengths.rungs, lengths.eta, brackets],
            "number of rows or epochs": [lengths.rows, lengths.epochs],
            "number of jobs": "any, with a budget of seconds" if jobs is None else jobs,
            "space": source.described(),
            "options": _space.text(common),
            "data": data,
        }
        self._known: dict[tuple[int, int], dict[str, Any]] = {}
        for line in store.read(header):
            self._known[line["trial"], line["rung"]] = line

    def extend(self, trials: int | None = None) -> None:
        """Sets another number of trials; None = as many as there are settings."""
        self._halving.extend(self._most(trials))

    def _most(self, trials: int | None) -> int | None:
        counts = [count for count in (trials, self._source.count) if count is not None]
        return min(counts) if counts else None

    def ask(self) -> Job | None:
        """Returns the next job; None if one must wait for results, or, if no job is running, at the end."""
        while True:
            job = self._halving.next()
            if job is None:
                return None
            line = self._known.pop((job.candidate, job.rung), None)
            if job.candidate not in self.trials:
                known = None if line is None else line["settings"]
                self._add(job.candidate, self._source.draw(job.candidate, self._seed_of(job.candidate), known))
            if line is None:
                return job
            self._take(job, self._restored(line))

    def _seed_of(self, number: int) -> int:
        return _space.seed_of(self._seed, number)

    def _add(self, number: int, settings: dict[str, Any]) -> None:
        self.trials[number] = Trial({**self._common, **settings}, settings, self._seed_of(number))

    def _restored(self, line: Mapping[str, Any]) -> Outcome:
        """Returns the outcome that a line of the journal has."""
        self.restored += 1
        value = -math.inf if line["value"] is None else line["value"]
        return Outcome(**{name: line[name] for name in _OF_OUTCOME} | {"value": value})

    def take_the_rest(self) -> None:
        """Takes what the journal has of jobs that this call did not come to, as time may decide."""
        for (number, rung), line in sorted(self._known.items()):
            if line["value"] is None:
                continue
            if number not in self.trials:
                self._add(number, line["settings"])
            if self.trials[number].own != line["settings"]:
                continue
            self.trials[number].outcomes[rung] = self._restored(line)
            self._look_for_best(number, rung)
        self._known.clear()

    @property
    def running(self) -> int:
        """Number of jobs that were given out and have no result."""
        return self._halving.running

    def tell(self, job: Job, outcome: Outcome) -> bool:
        """Takes the result of a job; reports whether it is the best so far. The model is not kept."""
        if not outcome.finished:  # the rung before remains the last one of the trial, with its checkpoint
            self.unfinished.append((job, outcome))
            self._halving.tell(job, -math.inf)
            return False
        values = {name: getattr(outcome, name) for name in _OF_OUTCOME}
        values["value"] = None if math.isinf(outcome.value) else outcome.value
        self._store.append(
            {"trial": job.candidate, "rung": job.rung, "settings": self.trials[job.candidate].own, **values}
        )
        is_best = self._take(job, outcome)
        self._tidy()
        return is_best

    def _take(self, job: Job, outcome: Outcome) -> bool:
        outcome.model = None
        trial = self.trials[job.candidate]
        trial.outcomes[job.rung] = outcome
        self._halving.tell(job, outcome.value)
        if job.before is not None:
            self._store.drop(job.candidate, below=job.rung)
        if math.isinf(outcome.value):
            self._store.drop(job.candidate)
        out = self._halving.out() - {job.candidate for job, _ in self.unfinished}
        for number in out - self._out:
            self._store.drop(number)
        self._out |= out
        return self._look_for_best(job.candidate, job.rung)

    def _look_for_best(self, number: int, rung: int) -> bool:
        """Reports whether a result is the best so far, and keeps it then."""
        best = self.best is None or self._order_of(number, rung) < self._order_of(*self.best)
        best = best and math.isfinite(self.trials[number].outcomes[rung].value)
        if best:
            self.best = number, rung
        return best

    def _order_of(self, number: int, rung: int) -> tuple[float, int, int]:
        """Orders results: the best value first, then the longest training, then the oldest trial."""
        return -self.trials[number].outcomes[rung].value, -rung, number

    def checkpoint(self, number: int, rung: int) -> Path:
        """Returns the path of the checkpoint of a trial after a rung."""
        return self._store.checkpoint(number, rung, _space.text(self.trials[number].own))

    def _tidy(self) -> None:
        """Keeps the checkpoints within the limit of the store: those of the worst trials go first."""
        paused = [
            self._order_of(number, max(trial.outcomes)) for number, trial in self.trials.items() if trial.outcomes
        ]
        self._store.keep_within_limit([number for _, _, number in sorted(paused, reverse=True)])

    def _learn(self, candidate: int, value: float) -> None:
        self._source.learn(self.trials[candidate].own, candidate, value)

    # ---- results ----

    def best_outcome(self) -> Outcome:
        """Returns the best result."""
        assert self.best is not None
        number, rung = self.best
        return self.trials[number].outcomes[rung]

    def table(self, rows: int) -> list[dict[str, Any]]:
        """Returns the rows of the report: one for each result, in the order of the trials.

        Args:
            rows: Number of validation rows.
        """
        table = []
        for number, trial in sorted(self.trials.items()):
            settings = Recipe.of("autoencoder", **trial.own).settings or "defaults"
            best = min(trial.outcomes, key=lambda rung: self._order_of(number, rung), default=0)
            for rung, outcome in sorted(trial.outcomes.items()):
                failed = math.isinf(outcome.value)
                table.append(
                    {
                        **table_row(self.metric, f"trial {number}", settings, None if failed else outcome.value),
                        "rows": 0 if failed else rows,
                        "seconds": outcome.seconds,
                        "score_seconds": outcome.score_seconds,
                        "memory": outcome.memory,
                        "kept": rung == best,
                        "chosen": (number, rung) == self.best,
                        "note": outcome.note,
                        "trial": number,
                        "epochs": outcome.epochs,
                        "arguments": dict(trial.settings),
                    }
                )
        return table


def drive(
    study: Study,
    workers: Callable[[], int],
    submit: Callable[[Job], object],
    finished: Callable[[], Iterable[tuple[Job, Outcome]]],
    take: Callable[[Job, Outcome], object],
) -> None:
    """Runs a search to its end.

    Args:
        study: The search.
        workers: Returns how many jobs may run at the same time; 0 = none are begun any more.
        submit: Begins a job.
        finished: Waits for jobs, and returns those that are done.
        take: Called with each result, to tell the study.
    """
    while True:
        while study.running < workers():
            job = study.ask()
            if job is None:
                break
            submit(job)
        if not study.running:
            study.take_the_rest()
            return
        for job, outcome in finished():
            take(job, outcome)
