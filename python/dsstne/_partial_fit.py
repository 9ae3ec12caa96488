"""Training in calls that go on from each other as the epochs of one run."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _defaults, api
from dsstne._handles import Undo
from dsstne.callbacks import Callback, Checkpoint, EarlyStopping, LearningRate, Run, TimeBudget, as_list, only
from dsstne.errors import InvalidArgumentError
from dsstne.network import read
from dsstne.progress import Bar
from dsstne.trainer import Trainer, locked_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dsstne.model import Model

_OPTIONS = ("weight_decay", "locked", "batch_size", "parallel", "precision")


def callbacks_of(options: Mapping[str, Any]) -> list[Callback]:
    """Returns the callbacks of a call, each of which is a run."""
    called = as_list(options.get("callbacks"))
    for callback in called:
        if isinstance(callback, (EarlyStopping, Checkpoint)) or len(callback.metrics):
            why = "partial_fit() trains without validation; use fit(), or look at score() between the calls"
            raise InvalidArgumentError(f"callbacks: {type(callback).__name__} cannot be used here, because {why}")
    if options.get("max_seconds") is not None:
        called.append(TimeBudget(_checks.duration(options["max_seconds"], "max_seconds")))
    return called


def trainer_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what arguments of fit() mean for a Trainer; a schedule is that of a network file of DSSTNE."""
    given = {name: about.default for name, about in inspect.signature(api.fit).parameters.items()} | dict(options)
    rule = _checks.kind(given["optimizer"], "optimizer", "adam")
    term = _checks.kind(given["loss"], "loss", "softmax")
    searched = given["network"] is None and term.get("kind") == "softmax"
    rate = _defaults.learning_rate(given["learning_rate"], rule, searched)
    training = {} if given["network"] is None else read(given["network"]).training
    return {"optimizer": rule, "learning_rate": rate, **{name: given[name] for name in _OPTIONS}, **training}


class Training:
    """What goes on from call to call beside the weights: the state of the optimizer. Copies and pickles have none."""

    _earlier: Trainer | None = None  # the trainer of the last call, without its data

    @classmethod
    def resume(cls, path: str, X: Any, **compute: Any) -> tuple[Training, Model]:
        """Returns what goes on from a checkpoint with any rows, and the model of the checkpoint."""
        made = cls()
        made._earlier = Trainer.resume(path, X, other_data=True, **compute)
        return made, made._earlier.model

    def run(
        self,
        model: Model,
        X: Any,
        sample_weight: Any,
        steps: int | None,
        options: Mapping[str, Any],
        called: list[Callback],
        seed: Callable[[], int],
        save: Callable[[Trainer], object] | None = None,
        **compute: Any,
    ) -> None:
        """Trains a model, from the beginning of an epoch on.

        Args:
            model: The model; another one than in the last call begins with a new optimizer.
            X: The rows.
            sample_weight: Their weights in the loss; None: all are 1.
            steps: Number of steps; None = one epoch.
            options: Arguments of fit().
            called: The callbacks.
            seed: Returns the seed of a new trainer.
            save: Called with the trainer after the last step, to write a checkpoint.
            **compute: Where to compute, and ``progress``.
        """
        progress = _checks.boolean(compute.pop("progress"), "progress")
        chosen = {"schedule": None, **trainer_options(options), **compute}
        schedule = options.get("schedule", "auto")
        if only(called, LearningRate):
            chosen["schedule"] = None
        elif not (isinstance(schedule, str) and schedule == "auto"):
            chosen["schedule"] = schedule
        rule = chosen["optimizer"]
        earlier = self._earlier
        if earlier is not None:
            known, locked = earlier._options["optimizer"].get("kind"), earlier._options["locked"]
            same = known == rule.get("kind") and locked == locked_names(chosen["locked"])
            earlier = earlier if self.trains(model) and same else None
        # A new trainer counts its steps from 0, and by them it draws: another seed, or it would draw what fit() drew.
        first = earlier._options["seed"] if earlier else (seed() + model.step) % (1 << 63)
        with Undo() as undo:
            trainer = Trainer(model, X, sample_weight=sample_weight, seed=first, **chosen)
            undo.callback(trainer.close)
            if earlier is not None:
                trainer._continue(earlier)
            self.close()
            undo.callback(lambda: self._keep(trainer))
            now = trainer.progress
            epochs = now.epoch
            until = epochs + (1 if steps is None else -(-steps // now.steps_per_epoch))
            bar = Bar(until, trainer.rows, progress)
            undo.callback(bar.close)
            last = model.history[-1] if model.history else {"epoch": 0, "seconds": 0.0}
            before = math.ceil(last["epoch"]) - epochs
            run = Run(trainer, before + until, model, before, float(last["seconds"]), steps)
            api.train(run, dict, bar, called)
            if save is not None:
                save(trainer)

    def trains(self, model: Model) -> bool:
        """Reports whether the state is that of a model."""
        return self._earlier is not None and self._earlier.model is model

    def save(self, path: Path) -> None:
        """Writes a checkpoint, which :meth:`resume` reads."""
        assert self._earlier is not None, "the caller has looked at trains()"
        model, options = self._earlier.model, self._earlier._options
        # A trainer needs some data to save. The rows of a network of partial_fit() are input and targets.
        row = np.eye(1, model.output_units, dtype=np.float32)
        with self._earlier._followed(model, row, None, None, options) as trainer:
            trainer.save(path)

    def _keep(self, trainer: Trainer) -> None:
        self._earlier = trainer._without_data()

    def close(self) -> None:
        """Frees the state."""
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            earlier.close()

    def __reduce__(self) -> Any:
        return Training, ()
