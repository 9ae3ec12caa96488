"""Training, as fine as single steps: what :func:`dsstne.fit` is made of."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dsstne import _native, _options
from dsstne._layers import Bound, check_rows
from dsstne.errors import InvalidArgumentError, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsstne.model import Model

__all__ = ["Progress", "Trainer"]


@dataclass(frozen=True)
class Progress:
    """Where a training run stands.

    Attributes:
        step: Steps done.
        steps_per_epoch: Steps of a whole epoch.
        epoch: Whole epochs done.
        examples: Examples seen in the current epoch.
        loss: Mean over the examples of the current epoch so far; NaN before the first step.
        epoch_loss: Mean loss of the last whole epoch; NaN before its end.
        learning_rate: That of the last step.
        examples_per_second: Of the running or the last run.
        seconds: Of the running or the last run.
    """

    step: int
    steps_per_epoch: int
    epoch: int
    examples: int
    loss: float
    epoch_loss: float
    learning_rate: float
    examples_per_second: float
    seconds: float


class Trainer:
    """Improves a model step by step; the state of the optimizer lives as long as the trainer.

    Args:
        model: The model. It can be used between runs and after an interrupted one.
        X: Interaction matrix [rows, inputs], a Dataset, or a mapping from input layers to them.
        targets: What the outputs should be, [rows, outputs], likewise; None = X.
        optimizer: ``"sgd"``, ``"momentum"``, ``"nesterov"``, ``"rmsprop"``, ``"adam"`` or ``"adamw"``; or a mapping
            with ``kind`` and its numbers, such as ``{"kind": "adam", "beta2": 0.99}``.
        learning_rate: Size of a step.
        weight_decay: Added to the gradient as this times the weight (``"adamw"``: applied apart); biases are exempt.
        batch_size: Examples per step.
        schedule: How the learning rate changes, such as ``{"kind": "cosine", "steps": 1000}``; None =
            not at all.
        seed: Seed of shuffling, denoising and dropout.
        shuffle: Visit the rows in a new order in each epoch.
        devices: See :func:`dsstne.fit`.
        precision: See :func:`dsstne.fit`.
        threads: See :func:`dsstne.fit`.
        memory_limit: See :func:`dsstne.fit`.

    Raises:
        InvalidArgumentError: A shape or an option that cannot be; an unknown one is named with the nearest known one.
        OutOfMemoryError: The plan is above ``memory_limit``; its ``plan`` attribute lists the parts.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.random_array((64, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
        >>> model = dsstne.fit(X, hidden=4, epochs=0, progress=False)
        >>> with dsstne.Trainer(model, X, batch_size=16) as trainer:
        ...     trainer.run(steps=3).step
        3
    """

    def __init__(
        self,
        model: Model,
        X: Any,
        targets: Any = None,
        *,
        optimizer: str | Mapping[str, Any] = "adam",
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 512,
        schedule: Mapping[str, Any] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        devices: Any = "auto",
        precision: str = "float32",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        rule = {"kind": optimizer} if isinstance(optimizer, str) else dict(optimizer)
        options = {
            "optimizer": {"learning_rate": learning_rate, "weight_decay": weight_decay, **rule},
            "schedule": schedule,
            "batch_size": batch_size,
            "seed": seed,
            "shuffle": shuffle,
            "devices": devices,
            "precision": precision,
            "threads": threads,
            "memory_limit": memory_limit,
        }
        self.model = model
        self._stack = ExitStack()
        try:
            inputs = Bound(X, model.inputs, "X")
            self._stack.callback(inputs.close)
            wanted, name = (X, "X") if targets is None else (targets, "targets")
            outputs = Bound(wanted, model.outputs, name, inputs)
            self._stack.callback(outputs.close)
            check_rows("targets", outputs.rows, "X", inputs.rows)
            self.rows = inputs.rows
            owners = (model._handle, inputs, outputs)
            self._handle = _native.Handle(
                "trainer", "trainer_open", model._handle.value, _options.to_json(options), owners=owners
            )
            self._stack.callback(self._handle.close)
            with self._explaining_memory():
                for layer, dataset in (inputs.datasets | outputs.datasets).items():
                    _native.call("trainer_bind", self._handle.value, layer.encode(), dataset._handle.value)
        except BaseException:
            self._stack.close()
            raise

    @property
    def progress(self) -> Progress:
        """Where the training stands; may be asked from another thread while it runs."""
        state = _native.trainer_progress(self._handle)
        return Progress(**{field.name: state[field.name] for field in fields(Progress)})

    def plan(self) -> dict[str, Any]:
        """Tells what a run needs and does, without allocating anything.

        Returns:
            ``parts``: list of ``{"name", "bytes", "device"}``; ``bytes``: their sum; ``available``: bytes that are
            free; ``operations``: the ordered operations of a step, as texts.
        """
        plan: dict[str, Any] = json.loads(_native.call_text("trainer_plan", self._handle.value))
        return plan

    def run(
        self,
        *,
        steps: int | None = None,
        epochs: int | None = None,
        seconds: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Trains on, until the first of the limits is reached.

        Ctrl-C and an exception in ``on_progress`` end the run after the current step; the model and the trainer stay
        usable, and training can go on.

        Args:
            steps: This many more steps.
            epochs: To the end of this many more epochs, a begun one included.
            seconds: This long.
            on_progress: Called some 20 times a second, in the calling thread.

        Returns:
            Where the training stands now.

        Raises:
            InvalidArgumentError: No limit was given, or one that is not above 0.
            NotFiniteError: The loss or a weight is no longer finite; the message names tensor, step and what to try,
                and the model keeps its last finite weights.
            OutOfMemoryError: As for the constructor.
            KeyboardInterrupt: Ctrl-C.
        """
        given = {"steps": steps, "epochs": epochs, "seconds": seconds}
        for name, limit in given.items():
            if limit is not None and not limit > 0:
                raise InvalidArgumentError(f"{name} must be above 0, not {limit}")
        if all(limit is None for limit in given.values()):
            raise InvalidArgumentError("run() needs a limit: steps=, epochs= or seconds=")
        limits = [] if steps is None else [int(steps)]
        if epochs is not None:
            now = self.progress
            limits.append(int(epochs) * now.steps_per_epoch - now.step % now.steps_per_epoch)
        poll = None if on_progress is None else lambda: on_progress(self.progress)
        with self._explaining_memory():
            arguments = (min(limits, default=0), float(seconds or 0), None)
            _native.call_interruptibly(self._handle, "trainer_run", *arguments, poll=poll)
        return self.progress

    def _explaining_memory(self) -> _MemoryExplained:
        return _MemoryExplained(self)

    def close(self) -> None:
        """Frees the state of the optimizer and lets go of the data; closing twice does nothing."""
        self._stack.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Trainer is bound to memory of its process and cannot be pickled; pass on its model")

    def __repr__(self) -> str:
        if self._handle.closed:
            return "Trainer(closed)"
        now = self.progress
        return f"Trainer({self.model!r}, step {now.step:,}, epoch {now.epoch:,})"


class _MemoryExplained:
    """Gives an OutOfMemoryError of its block the plan of the run."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OutOfMemoryError):
            try:
                error.plan = self._trainer.plan()
            except Exception:  # the first error is the one to tell
                return
