"""Training, as fine as single steps: what :func:`dsstne.fit` is made of."""

from __future__ import annotations

import warnings
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _native, _options
from dsstne._layers import bind, check_rows
from dsstne.devices import chosen
from dsstne.errors import InvalidArgumentError, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dsstne.model import Model

__all__ = ["Progress", "Trainer"]

_BRIEF = 0.01  # seconds that Ctrl-C may wait


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


def _progress(state: dict[str, Any]) -> Progress:
    del state["running"]
    return Progress(**state)


class Trainer(_native.Closing):
    """Improves a model step by step; the state of the optimizer lives as long as the trainer.

    Args:
        model: The model. It can be used between runs and after an interrupted one.
        X: Interaction matrix [rows, inputs], a Dataset, or a mapping from input layers to them.
        targets: What the outputs should be, [rows, outputs], likewise; None = X.
        shuffle: Visit the rows in a new order in each epoch.
        optimizer, learning_rate, weight_decay, schedule, batch_size, seed: See :func:`dsstne.fit`.
        devices, parallel, precision, threads, memory_limit: See :func:`dsstne.fit`.

    Raises:
        InvalidArgumentError: A shape or an option that is not valid; an unknown one is named with the nearest.
        InvalidDataError: A matrix is damaged; the message names row, column and value.

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
        parallel: str = "auto",
        precision: str = "float32",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        rule = _checks.kind(optimizer, "optimizer", "adam")
        for name, value, default in (("learning_rate", learning_rate, 1e-3), ("weight_decay", weight_decay, 0.0)):
            if name in rule and value != default:
                raise InvalidArgumentError(f"{name} is given as {name}= and in optimizer=; give it once")
        options = {
            "optimizer": {"learning_rate": learning_rate, "weight_decay": weight_decay, **rule},
            "schedule": schedule,
            "batch_size": batch_size,
            "seed": seed,
            "shuffle": shuffle,
            "devices": chosen(devices),
            "parallel": parallel,
            "precision": precision,
            "threads": threads,
            "memory_limit": memory_limit,
        }
        self.model = model
        # What a step of the last run took; before the first one, what it takes at 1 GFLOP/s.
        self._step_seconds = 8e-9 * model.parameters * min(batch_size, 1 << 20) if isinstance(batch_size, int) else 1.0
        with ExitStack() as undo:
            inputs, outputs = bind(undo, X, targets)
            inputs.pair(model.inputs)
            outputs.pair(model.outputs)
            check_rows("targets", outputs.rows, "X", inputs.rows)
            self.rows = inputs.rows
            owners = (model._handle, inputs, outputs)
            arguments = (model._handle.value, _options.to_json(options))
            self._handle = _native.Handle("trainer_open", *arguments, owners=owners)
            undo.callback(self._handle.close)
            with self._explaining_memory():
                for layer, dataset in (inputs.datasets | outputs.datasets).items():
                    _native.call("trainer_bind", self._handle.value, layer.encode(), dataset._handle.value)
            self._data = (outputs, inputs)
            if precision == "bfloat16":
                _warn_if_emulated(precision, self.plan()["devices"])
            undo.pop_all()
        fed = list(inputs.datasets.values())
        model._learn_same_items(len(fed) == 1 and fed == list(outputs.datasets.values()))

    @property
    def progress(self) -> Progress:
        """Where the training stands; may be asked from another thread while it runs."""
        return _progress(_native.trainer_progress(self._handle))

    def plan(self) -> dict[str, Any]:
        """Returns what a run needs and does, without allocating anything.

        Returns:
            ``parts``: list of ``{"name", "of", "bytes", "device", "held"}``, where ``of`` names the tensor or layer it
            belongs to, if any, and ``held`` is True if it exists already; ``bytes``: their sum; ``available``: bytes
            that are free, -1 if unknown; ``limit``: the ``memory_limit``, if given; ``operations``: the ordered
            operations of a step, each as a str; ``devices``: what it runs on, as :func:`dsstne.doctor` describes it.
        """
        return _native.call_json("trainer_plan", self._handle.value)

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
            InvalidArgumentError: No limit was given, or one that is not above 0; steps and epochs are integers.
            NotFiniteError: The loss or a weight is no longer finite; the message names tensor, step and what to try,
                and the model keeps its last finite weights.
            OutOfMemoryError: The plan is above ``memory_limit`` or does not fit; the error's ``plan`` lists the parts.
            KeyboardInterrupt: Ctrl-C.
        """
        if steps is None and epochs is None and seconds is None:
            raise InvalidArgumentError("run() needs a limit: steps=, epochs= or seconds=")
        limits = [] if steps is None else [_checks.integer(steps, "steps", 1)]
        if epochs is not None:
            wanted, now = _checks.integer(epochs, "epochs", 1), self.progress
            limits.append(max(1, wanted * now.steps_per_epoch - now.step % max(1, now.steps_per_epoch)))
        left = 0.0 if seconds is None else _checks.positive(seconds, "seconds")  # 0 is no limit here, as for the steps
        poll = None if on_progress is None else lambda: on_progress(self.progress)
        wanted = min(limits, default=0)
        brief = 0 < wanted * self._step_seconds < _BRIEF
        with self._explaining_memory():
            now = _progress(_native.trainer_run(self._handle, wanted, left, brief=brief, poll=poll))
        if wanted and not left:
            self._step_seconds = now.seconds / wanted
        return now

    @contextmanager
    def _explaining_memory(self) -> Iterator[None]:
        """Gives an OutOfMemoryError of the block the plan of the run."""
        try:
            yield
        except OutOfMemoryError as error:
            with suppress(Exception):  # the first error is the one to tell
                error.plan = self.plan()
            raise

    def close(self) -> None:
        """Frees the state of the optimizer and lets go of the data; closing twice does nothing.

        Raises:
            BusyError: It runs, in another thread; it stays open.
            DeviceFailedError: A device with memory of its own failed before the model had its newest weights; the model
                keeps the ones before.
        """
        try:
            self._handle.close()
        finally:
            if self._handle.closed:
                for data in self._data:
                    data.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Trainer is bound to memory of its process and cannot be pickled; pass on its model")

    def __repr__(self) -> str:
        if self._handle.closed:
            return "Trainer(closed)"
        now = self.progress
        return f"Trainer({self.model!r}, step {now.step:,}, epoch {now.epoch:,})"


def _warn_if_emulated(precision: str, devices: list[dict[str, Any]]) -> None:
    """Warns when a device has no instructions for a reduced precision."""
    for device in devices:
        if precision not in device["precisions"]:
            warnings.warn(
                f"this {device['name'].upper()} ({device['kind']}) has no instructions for {precision}: it is emulated,"
                ' which is slower than precision="float32"',
                stacklevel=3,
            )
