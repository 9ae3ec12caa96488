"""Trains the candidates of a search: up to a rung, from the checkpoint of the rung before.

All candidates train at a constant rate. At a rung a fork of the run cools down, that is, its rate falls to 0, and is
measured; the run itself is paused there, and goes on when the candidate is promoted. A short training is thus measured
as what it is, a complete one, and the order of candidates at a rung is close to that of complete trainings of any
length (Hägele et al., "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations", NeurIPS 2024).
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _defaults, api
from dsstne._partial_fit import trainer_options
from dsstne.errors import (
    BusyError,
    CancelledError,
    CorruptFileError,
    DeviceFailedError,
    DeviceUnavailableError,
    DsstneError,
    InputOutputError,
    InvalidArgumentError,
    LibraryError,
    MissingFileError,
)
from dsstne.evaluation import evaluate
from dsstne.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dsstne.model import Model
    from dsstne.trainer import Progress

FALL = 0.2  # of the steps up to a rung, in which the rate falls
_LEAST_STEPS = 60  # of the first rung, if the number of rungs is chosen
_MOST_RUNGS = 4
# Errors of the machine, after which the same settings may work: the job has no result, and a later call does it again.
_PASSING = (BusyError, DeviceFailedError, DeviceUnavailableError, InputOutputError, LibraryError)


@dataclass(frozen=True)
class Lengths:
    """How long candidates train.

    Attributes:
        rows: Number of rows of the training data.
        epochs: Length of a whole training.
        rungs: Number of rungs; the training of each is ``eta`` times as long as that of the one before.
        eta: See ``rungs``.
    """

    rows: int
    epochs: int
    rungs: int
    eta: int

    @classmethod
    def choose(cls, rows: int, epochs: Any, rungs: Any, eta: int, options: Mapping[str, Any]) -> Lengths:
        """Chooses what is "auto".

        Args:
            rows: Number of rows of the training data.
            epochs: An integer, or "auto" for what :func:`dsstne.fit` means by it.
            rungs: An integer, or "auto".
            eta: An integer.
            options: Arguments of ``fit`` that all candidates have.
        """
        batch_size = _checks.integer(options.get("batch_size", 512), "batch_size", 1)
        loss = _checks.kind(options.get("loss", "softmax"), "loss", "softmax")
        searched = options.get("network") is None and loss.get("kind") == "softmax"
        per_epoch = -(-rows // batch_size)
        wanted = _defaults.epochs(epochs, per_epoch, searched)
        if wanted < 1:
            raise InvalidArgumentError("epochs must be at least 1 in a search")
        steps = wanted * per_epoch
        if isinstance(rungs, str):
            if rungs != "auto":
                raise InvalidArgumentError(f"rungs must be an integer or 'auto', not {_checks.shown(rungs)}")
            count = 1 + int(math.log(max(1.0, steps / _LEAST_STEPS), eta) + 1e-9)
            return cls(rows, wanted, min(count, _MOST_RUNGS), eta)
        count = _checks.integer(rungs, "rungs", 1)
        if count > 1 and steps < 2 * eta ** min(count - 1, 62):
            raise InvalidArgumentError(
                f"rungs={count}: a whole training has {steps:,} steps, so that the first rung would have less than 2; "
                "give fewer rungs or more epochs"
            )
        return cls(rows, wanted, count, eta)

    def steps(self, rung: int, batch_size: int) -> int:
        """Returns the steps of a training up to a rung, of which the last ones cool down."""
        whole = self.epochs * -(-self.rows // batch_size)
        return max(1, round(whole / float(self.eta) ** (self.rungs - 1 - rung)))

    def steps_from(self, before: int | None, rung: int, batch_size: int) -> float:
        """Returns the steps of a training up to a rung that begins where the rung before was paused."""
        done = 0.0 if before is None else (1 - FALL) * self.steps(before, batch_size)
        return self.steps(rung, batch_size) - done

    def schedule(self, rung: int, batch_size: int) -> dict[str, Any]:
        """Returns the schedule of a training up to a rung."""
        steps = self.steps(rung, batch_size)
        fall = max(1, round(FALL * steps))
        first = self.steps(0, batch_size)
        whole = self.steps(self.rungs - 1, batch_size)
        warmup = min(whole // _defaults.WARMUP, (first - max(1, round(FALL * first))) // 2)
        return {"kind": "linear", "warmup_steps": warmup, "hold_steps": steps - fall - warmup, "steps": fall}


@dataclass
class Outcome:
    """The result of a job.

    Attributes:
        value: The metric; -inf if the job failed.
        epochs: Length of the training.
        seconds, score_seconds: Time to train since the rung before, and to measure.
        memory: Bytes of the plan of the training, or None.
        note: Why it failed.
        finished: False if the time or the machine ended the job, which a search that goes on does again.
        model: The model, unless it stays elsewhere.
    """

    value: float = -math.inf
    epochs: float = 0.0
    seconds: float = 0.0
    score_seconds: float = 0.0
    memory: int | None = None
    note: str = ""
    finished: bool = True
    model: Any = field(default=None, repr=False)


@dataclass
class Data:
    """What candidates learn from and are measured with; each may be a Dataset or a CSR matrix.

    Attributes:
        train: The rows to learn from.
        inputs, held_out: Input rows, and the items to find in them.
        items: Names of the items, or None.
        metric: Name of the metric.
    """

    train: Any
    inputs: Any
    held_out: Any
    items: Any
    metric: str


def advance(
    data: Data,
    settings: Mapping[str, Any],
    lengths: Lengths,
    rung: int,
    seed: int,
    compute: Mapping[str, Any],
    **more: Any,
) -> Outcome:
    """Trains a candidate up to a rung, and measures it; the arguments are those of :func:`train`.

    Returns:
        The outcome. A candidate that fails has a note.

    Raises:
        CancelledError: The time is over, or ``glance`` has raised it.
        KeyboardInterrupt: Ctrl-C.
    """
    done = Outcome()
    begun = time.monotonic()
    try:
        model = train(done, data, settings, lengths, rung, seed, compute, **more)
        begun = time.monotonic()
        done.value = measured(data, model, compute)
        done.score_seconds = time.monotonic() - begun
        done.model = model
        if math.isnan(done.value):
            done.value, done.note = -math.inf, f"{data.metric} is not a number: no row has held-out items"
    except CancelledError:
        raise
    except (DsstneError, MemoryError) as error:
        done.seconds = done.seconds or time.monotonic() - begun
        done.note = f"{type(error).__name__}: {error}"
        done.finished = not isinstance(error, _PASSING)
    return done


def train(
    done: Outcome,
    data: Data,
    settings: Mapping[str, Any],
    lengths: Lengths,
    rung: int,
    seed: int,
    compute: Mapping[str, Any],
    *,
    source: Path | None = None,
    target: Path | None = None,
    limit: Callable[[], float] = lambda: math.inf,
    glance: Callable[[Progress], None] | None = None,
) -> Model:
    """Trains a candidate up to a rung.

    Args:
        done: Gets the length of the training, its time and its memory.
        data: The data.
        settings: Arguments of :func:`dsstne.fit`.
        lengths: The lengths of trainings.
        rung: The rung.
        seed: The seed of the candidate.
        compute: ``devices``, ``threads`` and ``memory_limit``.
        source: The checkpoint of a rung before, if there is one; a file that cannot be read is not used.
        target: Where to write the checkpoint of this rung; None = nowhere. If that fails, there is a warning.
        limit: Returns the seconds that are left.
        glance: Called now and then with the progress; an exception ends the training.

    Raises:
        CancelledError: The time is over, or ``glance`` has raised it.
        DsstneError, MemoryError: The candidate failed.
    """
    begun = time.monotonic()
    batch_size = _checks.integer(settings.get("batch_size", 512), "batch_size", 1)
    schedule = lengths.schedule(rung, batch_size)
    with contextlib.ExitStack() as stack:
        run = _opened(data, settings, seed, compute, schedule, source)
        stack.callback(run.close)
        done.memory = int(run.plan()["bytes"])
        trunk = schedule["warmup_steps"] + schedule["hold_steps"]
        _run(run, trunk, limit, glance)
        if target is not None:
            _save(run, target)
        fork = run.fork(schedule=schedule)
        stack.callback(fork.close)
        run.close()  # the fork then owns what both shared
        run.model.close()
        _run(fork, trunk + schedule["steps"], limit, glance)
        model = fork.model
    done.epochs = (trunk + schedule["steps"]) / -(-lengths.rows // batch_size)
    done.seconds = time.monotonic() - begun
    return model


def measured(data: Data, model: Model, compute: Mapping[str, Any]) -> float:
    """Returns the metric of a model."""
    found = evaluate(model, data.inputs, data.held_out, data.metric, exclude="input", **compute)
    return float(found[data.metric])


def _opened(
    data: Data,
    settings: Mapping[str, Any],
    seed: int,
    compute: Mapping[str, Any],
    schedule: Mapping[str, Any],
    source: Path | None,
) -> Trainer:
    """Returns a trainer at a constant rate, where the source ends or at the beginning."""
    constant = {"kind": "constant", "warmup_steps": schedule["warmup_steps"]}
    if source is not None:
        with contextlib.suppress(MissingFileError, CorruptFileError, InputOutputError):
            return Trainer.resume(source, data.train, schedule=constant, **compute)
    names = [name for name in settings if name not in ("optimizer", "learning_rate", "weight_decay")]
    model = api.fit(
        data.train,
        **{name: settings[name] for name in names},
        items=data.items,
        epochs=0,
        seed=seed,
        progress=False,
        **compute,
    )
    return Trainer(model, data.train, seed=seed, **{**trainer_options(settings), "schedule": constant}, **compute)


def _run(trainer: Trainer, until: int, limit: Callable[[], float], glance: Callable[[Progress], None] | None) -> None:
    """Trains until a step."""
    left = until - trainer.progress.step
    if left <= 0:
        return
    seconds = limit()
    if seconds <= 0:
        raise CancelledError("the time is over")
    now = trainer.run(steps=left, seconds=None if math.isinf(seconds) else seconds, on_progress=glance)
    if now.step < until:
        raise CancelledError("the time is over")


def _save(trainer: Trainer, target: Path) -> None:
    from dsstne._store import writing

    with writing("a paused candidate could not be written"):
        trainer.save(target)
