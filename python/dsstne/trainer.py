"""Training in runs of any number of steps; :func:`dsstne.fit` uses it."""

from __future__ import annotations

import atexit
import json
import math
import os
import time
import warnings
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _handles, _native, _options
from dsstne._layers import bind, weights_by_layer
from dsstne._predictor import check_item_names
from dsstne._tables import Plan, Profile, Shown, Table
from dsstne._weights import check_model
from dsstne.devices import chosen
from dsstne.errors import BusyError, InvalidArgumentError, OutOfMemoryError
from dsstne.model import CHECKPOINT, FIT, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dsstne._layers import Bound
    from dsstne.model import Model

__all__ = ["Progress", "Trainer"]

_BRIEF = 0.01  # longest run, in seconds, that Ctrl-C does not interrupt
_PATIENCE = 10  # seconds that the end of the program waits for trainers that other threads use


@dataclass(frozen=True)
class Progress(Shown):
    """State of a training run.

    Attributes:
        step: Number of steps done.
        steps_per_epoch: Number of steps of an epoch.
        epoch: Number of complete epochs done.
        examples: Number of examples processed in the current epoch.
        loss: Mean loss of the examples processed in the current epoch; NaN before the first step.
        epoch_loss: Mean loss of the last complete epoch; NaN before the end of the first epoch.
        learning_rate: Learning rate of the last step.
        examples_per_second: Speed of the current run, or of the last one.
        seconds: Duration of the current run, or of the last one.
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

    def _parts(self) -> list[str | Table]:
        done = f"{self.step:,} steps, {self.epoch:,} epochs and {self.examples:,} examples"
        rows = [
            ["done", done],
            ["loss", "none yet" if math.isnan(self.loss) else f"{self.loss:.5g}"],
            ["loss of the last epoch", "none yet" if math.isnan(self.epoch_loss) else f"{self.epoch_loss:.5g}"],
            ["learning rate", f"{self.learning_rate:.3g}"],
            ["speed", f"{self.examples_per_second:,.0f} examples a second for {self.seconds:.3g} s"],
        ]
        return [Table(None, rows)]


def _progress(state: dict[str, Any]) -> Progress:
    del state["running"]
    return Progress(**state)


class Trainer(_handles.Closing):
    """Trains a model; keeps the state of the optimizer until it is closed.

    Args:
        model: The model. It can be used between runs and after an interrupted run.
        X: Interaction matrix [rows, inputs], a Dataset, or a mapping from input layers to these.
        targets: Target matrix [rows, outputs], a Dataset, or a mapping from output layers to these; None = X.
        sample_weight: Weights of the rows in the loss, see :func:`dsstne.fit`.
        shuffle: Visit the rows in a new order in each epoch.
        checkpoints: Include in the plan the memory to write checkpoints beside training, see :meth:`save`. Where it
            does not fit, they are written between two steps, and the operations of the plan say so.
        optimizer, weight_decay, schedule, batch_size, seed: See :func:`dsstne.fit`.
        locked: Names of weights and of layers that training leaves as they are, see :func:`dsstne.fit`. A step computes
            no gradients for them, and the optimizer keeps no state.
        learning_rate: Learning rate; give it here or in the mapping of the optimizer, not both. None = 0.001, or 1 for
            ``"adadelta"``.
        devices, parallel, precision, threads, memory_limit: See :func:`dsstne.fit`.

    Raises:
        InvalidArgumentError: A shape or option is not valid; for an unknown word the message suggests the nearest one.
            Or ``locked`` leaves nothing to train.
        NotFoundError: ``locked`` has a name that is neither a layer nor a weight; the message suggests the nearest one.
        InvalidDataError: A matrix is damaged; the message names row, column and value.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.random_array((64, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
        >>> model = dsstne.fit(X, hidden=4, epochs=0, progress=False)
        >>> with dsstne.Trainer(model, X, batch_size=16) as trainer:
        ...     trainer.run(steps=3).step
        3

        A trained model goes on with other data, which change only its output:

        >>> before = model.tensor("hidden1.weight")
        >>> with dsstne.Trainer(model, X[:32], batch_size=16, locked=["hidden1"]) as trainer:
        ...     trainer.run(epochs=2).step
        4
        >>> np.array_equal(model.tensor("hidden1.weight"), before)
        True
    """

    def __init__(
        self,
        model: Model,
        X: Any,
        targets: Any = None,
        *,
        sample_weight: Any = None,
        optimizer: str | Mapping[str, Any] = "adam",
        learning_rate: float | None = None,
        weight_decay: float = 0.0,
        batch_size: int = 512,
        schedule: str | Mapping[str, Any] | None = None,
        locked: Sequence[str] = (),
        seed: int = 0,
        shuffle: bool = True,
        devices: Any = "auto",
        parallel: str = "auto",
        precision: str = "float32",
        threads: int | None = None,
        memory_limit: int | None = None,
        checkpoints: bool = False,
    ) -> None:
        rule = _checks.kind(optimizer, "optimizer", "adam")
        for name, value, default in (("learning_rate", learning_rate, None), ("weight_decay", weight_decay, 0.0)):
            if name in rule and value != default:
                raise InvalidArgumentError(f"{name} is given as {name}= and in optimizer=; give it once")
        options = {
            "optimizer": {"learning_rate": learning_rate, "weight_decay": weight_decay, **rule},
            "schedule": None if schedule is None else _checks.kind(schedule, "schedule", "constant"),
            "locked": locked_names(locked),
            "batch_size": _checks.integer(batch_size, "batch_size", 1),
            "seed": seed,
            "shuffle": shuffle,
            "devices": chosen(devices),
            "parallel": parallel,
            "precision": precision,
            "threads": threads,
            "memory_limit": None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1),
            "checkpoints": _checks.boolean(checkpoints, "checkpoints"),
        }
        self._open(model, X, targets, sample_weight, options)

    def _open(self, model: Model, X: Any, targets: Any, sample_weight: Any, options: dict[str, Any]) -> None:
        check_model(model)
        if not model.outputs:
            raise InvalidArgumentError("the network has no output layer, so there is nothing to train")
        self.model, self._options = model, options
        # Seconds of a step in the last run; before the first run, an estimate for 1 GFLOP/s.
        self._step_seconds = 8e-9 * model.parameters * min(int(options["batch_size"]), 1 << 20)
        with _handles.Undo() as undo:
            inputs, outputs = bind(undo, X, targets)
            inputs.pair(model.inputs)
            outputs.pair(model.outputs)
            inputs.check_rows(outputs.named())
            weights = weights_by_layer(sample_weight, outputs)
            name = "X" if targets is None else "targets"
            check_item_names(model, outputs.datasets[model.output].item_names, name)
            self.rows = inputs.rows
            owners = (model._handle, inputs, outputs)
            arguments = (model._handle.value, _options.to_json(options))
            self._handle = _handles.Handle("trainer_open", *arguments, owners=owners)
            undo.callback(self._handle.close)
            with self._explaining_memory():
                for layer, dataset in (inputs.datasets | outputs.datasets).items():
                    _native.call("trainer_bind", self._handle.value, layer.encode(), dataset._handle.value)
                for layer, values in weights.items():
                    given = (layer.encode(), values.ctypes.data, len(values))
                    _native.call("trainer_set_row_weights", self._handle.value, *given)
            self._data: tuple[Bound, ...] = (outputs, inputs)
            if options["precision"] == "bfloat16":
                _warn_if_emulated("bfloat16", self.plan()["devices"])
            undo.pop_all()
        fed = list(inputs.datasets.values())
        model._learn_same_items(len(fed) == 1 and fed == list(outputs.datasets.values()))

    @property
    def progress(self) -> Progress:
        """State of the training; another thread can read it during a run."""
        return _progress(_native.trainer_progress(self._handle))

    def plan(self) -> dict[str, Any]:
        """Returns what a run needs and does; allocates nothing.

        Returns:
            A dictionary that prints as tables. ``parts``: list of ``{"name", "of", "bytes", "device", "held"}``, where
            ``of`` names the tensor, layer or dataset, if any, and ``held`` is True if the part is already in memory;
            ``bytes``: their sum; ``available``: free bytes, -1 if unknown; ``limit``: the ``memory_limit``, if given;
            ``operations``: the operations of a step in order, as strings, which end with the way in which a CUDA device
            does them where it has several, such as "(chunked, cuBLASLt 12.9.1)"; ``devices``: the devices, as described
            by :func:`dsstne.doctor`; ``parallel``: "model" or "data", with several devices; ``precision``: that of
            products, also where ``precision="auto"`` chose it.
        """
        return Plan(_native.call_json("trainer_plan", self._handle.value))

    def run(
        self,
        *,
        steps: int | None = None,
        epochs: int | None = None,
        seconds: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Trains until the first of the limits is reached.

        Ctrl-C and an exception in ``on_progress`` end the run after the current step. The model and the trainer stay
        usable, and another run can continue.

        Args:
            steps: Number of further steps.
            epochs: Number of further epochs; a partly done epoch counts as one.
            seconds: Time limit.
            on_progress: Called about 20 times a second, in the calling thread.

        Returns:
            The state of the training after the run.

        Raises:
            InvalidArgumentError: No limit was given, a limit is not above 0, or steps or epochs is not an integer.
            NotFiniteError: The loss or a weight is no longer finite. The message names tensor and step and suggests
                remedies; the model keeps its last finite weights.
            OutOfMemoryError: The plan is above ``memory_limit`` or does not fit; the error's ``plan`` lists the parts.
            CancelledError: Another thread called :meth:`cancel`.
            KeyboardInterrupt: Ctrl-C.
        """
        if steps is None and epochs is None and seconds is None:
            raise InvalidArgumentError("run() needs a limit: steps=, epochs= or seconds=")
        limits = [] if steps is None else [_checks.integer(steps, "steps", 1)]
        if epochs is not None:
            wanted, now = _checks.integer(epochs, "epochs", 1), self.progress
            left_steps = wanted * now.steps_per_epoch - now.examples // self._options["batch_size"]
            limits.append(min(max(1, left_steps), (1 << 63) - 1))
        left = 0.0 if seconds is None else _checks.duration(seconds, "seconds")  # 0 = no limit, as for the steps
        poll = self._poll(on_progress)
        wanted = min(limits, default=0)
        brief = 0 < wanted * self._step_seconds < _BRIEF
        with self._explaining_memory():
            now = _progress(_native.trainer_run(self._handle, wanted, left, brief=brief, poll=poll))
        if wanted and not left:
            self._step_seconds = now.seconds / wanted
        return now

    def profile(self, *, steps: int = 20, on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
        """Trains for some steps and returns what the operations of a step take.

        The steps count as training, as those of :meth:`run`, and give the same weights. The first steps of a trainer
        take longer than later ones: run a few before. While it is profiled, each step ends before the next begins, and
        CUDA devices do not use graphs; a step of :meth:`run` may therefore be faster than the profile says.

        Args:
            steps: Number of further steps.
            on_progress: Called about 20 times a second, in the calling thread.

        Returns:
            A dictionary that prints as a table; times are milliseconds of a step, on average.

            ``steps``: the number of steps; ``milliseconds``: a step.

            ``operations``: the operations of a step on each device, in the order of :meth:`plan`, as dictionaries:

            - ``device``, ``operation``: the name of the device, and the text of the plan;
            - ``milliseconds``, ``share``: its time, and the share of the step;
            - ``multiply_adds``, ``bytes``: what the operation has to do in a step by its definition, None where that is
              not known;
            - ``gflop_per_second``, ``gigabytes_per_second``: the same by its time, a multiply-add being two operations;
            - ``limit``, ``limit_share``: "arithmetic" or "memory", whichever the device needs longer for, and the
              shortest possible time there as a share of the time taken; None if the limits are not known. The share of
              "memory" exceeds 1 if the numbers were in a cache.

            ``outside``: what the first device's operations do not include: ``batch`` (the host makes the batch),
            ``waiting`` (the device begins, copies, and waits for the host or other devices) and ``settling`` (the host
            counts the step). With the operations of the first device they add up to the step.

            ``end_of_run``: bringing lazily updated rows up to date, once.

            ``limits``: what each device can do at best, measured in this process: ``gflop_per_second`` in the
            ``precision`` of the trainer, ``float32_gflop_per_second``, ``read_gigabytes_per_second`` and
            ``update_gigabytes_per_second`` of memory; empty for devices that do not measure it, such as CUDA devices.

        Raises:
            InvalidArgumentError: steps is not an integer above 0.
            NotFiniteError, OutOfMemoryError, CancelledError, KeyboardInterrupt: As :meth:`run`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((64, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=4, epochs=0, progress=False)
            >>> with dsstne.Trainer(model, X, batch_size=16, devices="cpu") as trainer:
            ...     profile = trainer.profile(steps=3)
            >>> [operation["operation"].split()[0] for operation in profile["operations"]]
            ['Replay', 'Gather', 'OutputStats', 'OutputStep', 'Backward', 'Scatter']
            >>> slowest = max(profile["operations"], key=lambda operation: operation["milliseconds"])
        """
        wanted = _checks.integer(steps, "steps", 1)
        poll = self._poll(on_progress)
        with self._explaining_memory():
            return Profile(_native.trainer_profile(self._handle, wanted, poll=poll))

    # ---- checkpoints and forks ----

    def save(self, path: str | os.PathLike[str], *, background: bool = False) -> None:
        """Writes a checkpoint: a model file that also has the state of the optimizer and the place in the data.

        A run that goes on from it (:meth:`resume`) has the bits of one that was never stopped. :func:`dsstne.load`
        reads the model of it. An existing file stays intact until the new one is on the disk, also if the process is
        killed.

        Args:
            path: The file.
            background: Copy everything, return, and write while training goes on. The next ``save``, :meth:`settle` or
                :meth:`close` waits for the file and raises its error. If there is no memory for the copy, the file is
                written before this returns.

        Raises:
            InputOutputError: The operating system refused to write; an existing file is unchanged.
            BusyError: Another thread is running the trainer.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse, tempfile
            >>> X = scipy.sparse.random_array((64, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=4, epochs=0, progress=False)
            >>> with tempfile.TemporaryDirectory() as folder, dsstne.Trainer(model, X, batch_size=16) as trainer:
            ...     now = trainer.run(steps=3)
            ...     trainer.save(f"{folder}/run.checkpoint")
            ...     with dsstne.Trainer.resume(f"{folder}/run.checkpoint", X) as resumed:
            ...         resumed.run(steps=2).step
            5
        """
        self._save(path, _checks.boolean(background, "background"))

    def _save(
        self, path: str | os.PathLike[str], background: bool, best: Model | None = None, of_fit: str | None = None
    ) -> None:
        """Writes a checkpoint with the best weights so far and the place of fit(), if there are any."""
        attributes = self.model._file_attributes()
        if of_fit is not None:
            attributes[FIT] = of_fit
        options = _options.to_json({"attributes": attributes, "background": background})
        if background:
            _writing.add(self)
        with _options.path_argument(path) as name, self._explaining_memory():
            _native.call("trainer_save", self._handle.value, name, options, best._handle.value if best else 0)

    def settle(self) -> None:
        """Waits for the checkpoint that is being written, if there is one.

        Raises:
            InputOutputError: It could not be written; an existing file is unchanged.
        """
        _native.call("trainer_settle", self._handle.value)

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        X: Any,
        targets: Any = None,
        *,
        sample_weight: Any = None,
        learning_rate: float | None = None,
        schedule: str | Mapping[str, Any] | None = "same",
        devices: Any = "auto",
        parallel: str = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
        checkpoints: bool = False,
        other_data: bool = False,
        **others: Any,
    ) -> Trainer:
        """Makes a trainer that goes on from a checkpoint; its ``model`` is that of the checkpoint.

        All other options are those of the saved trainer. With the same number of devices, the weights after any number
        of steps have the bits of a run that was not stopped; another number of devices changes the order of sums.

        Args:
            path: A file of :meth:`save`.
            X, targets, sample_weight: The data of the saved trainer, or, with ``other_data``, any rows of the same
                columns.
            learning_rate: Another learning rate; None = that of the checkpoint.
            schedule: Another schedule, see :func:`dsstne.fit`; ``"same"`` = that of the checkpoint.
            devices, parallel, threads, memory_limit, checkpoints: As for a new trainer.
            other_data: Go on with other rows, of which an epoch begins, as :meth:`fork` does with ``X=``: training with
                today's rows goes on from where yesterday's ended, with the state of the optimizer.
            **others: Refused: the checkpoint determines all other options.

        Raises:
            InvalidArgumentError: The data are not those of the saved trainer, the file is not a checkpoint, or it
                determines an argument.
            MissingFileError: The file does not exist.
            CorruptFileError: The file is damaged.

        Example:
            See :meth:`save`.
        """
        for name in others:
            raise InvalidArgumentError(
                f"{name}: resume() cannot change it: the trainer has the options of the checkpoint. learning_rate, "
                "schedule, devices, parallel, threads, memory_limit, checkpoints and other_data may be others"
            )
        model = load(path, threads=threads)
        if CHECKPOINT not in model._checkpoint:
            raise InvalidArgumentError(
                f"{os.fsdecode(path)} is a model, not a checkpoint; load() reads it, and Trainer(model, X) trains it "
                "with an optimizer that begins anew"
            )
        record = json.loads(model._checkpoint[CHECKPOINT])
        options = {
            "optimizer": {},
            "batch_size": 512,  # the defaults of C, whose options may lack them
            "locked": [],
            **record["options"],
            "precision": record["precision"],
            "devices": chosen(devices),
            "parallel": parallel,
            "threads": threads,
            "memory_limit": None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1),
            "checkpoints": _checks.boolean(checkpoints, "checkpoints"),
            "other_data": _checks.boolean(other_data, "other_data"),
        }
        trainer = cls.__new__(cls)
        trainer._open(model, X, targets, sample_weight, _changed(options, learning_rate, None, schedule))
        try:
            best = trainer._resume(path)
            if best is not None:
                best.close()
        except BaseException:
            trainer.close()
            raise
        return trainer

    def _resume(self, path: str | os.PathLike[str]) -> Model | None:
        """Goes on from a checkpoint; returns the best weights that it has."""
        best = _handles.Handle.awaiting("model")
        with _options.path_argument(path) as name, self._explaining_memory():
            _native.call("trainer_resume", self._handle.value, name, best.number)
        return None if best.closed else self.model._copied(best, *self.model._kept())

    def fork(
        self,
        *,
        X: Any = None,
        targets: Any = None,
        sample_weight: Any = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        schedule: str | Mapping[str, Any] | None = "same",
        devices: Any = None,
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> Trainer:
        """Makes another trainer that goes on from where this one is, with a copy of the model, in milliseconds.

        The two share the weights and the optimizer's state until one of them runs, which then copies what is shared.
        This is what searches need that try several settings from the same state on, such as population-based training.
        With ``X=``, the other trainer goes on with other rows, and an epoch of theirs begins.

        Args:
            X, targets, sample_weight: Other data with the same columns, as for a new trainer; None = those of this
                trainer.
            learning_rate, weight_decay: Other values; None = those of this trainer.
            schedule: Another schedule, see :func:`dsstne.fit`; ``"same"`` = that of this trainer.
            devices, threads, memory_limit: Others; None = those of this trainer.

        Returns:
            The trainer; its ``model`` is the copy.

        Raises:
            BusyError: Another thread is running the trainer.
            InvalidArgumentError: An option is not valid, or the data do not have the columns of the network.
            InvalidDataError: A matrix is damaged; the message names row, column and value.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((64, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=4, epochs=0, progress=False)
            >>> with dsstne.Trainer(model, X, batch_size=16) as trainer:
            ...     now = trainer.run(steps=3)
            ...     with trainer.fork(learning_rate=0.01) as other:
            ...         other.run(steps=2).step, trainer.progress.step
            (5, 3)
        """
        limit = None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1)
        where = {"devices": None if devices is None else chosen(devices), "threads": threads, "memory_limit": limit}
        given = {name: value for name, value in where.items() if value is not None}
        options = _changed({**self._options, **given}, learning_rate, weight_decay, schedule)
        if X is not None:
            return self._followed(self.model.copy(), X, targets, sample_weight, options)
        for name, value in (("targets", targets), ("sample_weight", sample_weight)):
            if value is not None:
                raise InvalidArgumentError(f"{name}= are for the rows of X=; give both, or neither")
        made = type(self).__new__(type(self))
        copied = _handles.Handle.awaiting("model")
        made._handle = _handles.Handle.awaiting("trainer", owners=(copied, *self._data))
        numbers = copied.number, made._handle.number
        _native.call("trainer_fork", self._handle.value, _options.to_json(options), *numbers)
        made.model, made._options = self.model._copied(copied, *self.model._kept()), options
        made.rows, made._step_seconds = self.rows, self._step_seconds
        made._data = ()  # the datasets are those of this trainer, and closed when nobody uses them
        return made

    def _followed(self, model: Model, X: Any, targets: Any, sample_weight: Any, options: dict[str, Any]) -> Trainer:
        """Returns a trainer with other data that goes on from where this one is."""
        made = type(self).__new__(type(self))
        made._open(model, X, targets, sample_weight, options)
        made._continue(self)
        return made

    def _continue(self, other: Trainer) -> None:
        """Goes on from where another trainer is; closes this trainer if that is not possible."""
        try:
            _native.call("trainer_continue", self._handle.value, other._handle.value)
        except BaseException:
            self.close()
            raise

    def _without_data(self) -> Trainer:
        """Returns a trainer that keeps the state of the optimizer, for another trainer to go on from."""
        made = type(self).__new__(type(self))
        made.model, made._data, made.rows = self.model, (), 0
        where = {"devices": "cpu", "parallel": "auto", "precision": "float32", "threads": 1, "memory_limit": None}
        made._options = {**self._options, **where}
        arguments = (self.model._handle.value, _options.to_json(made._options))
        made._handle = _handles.Handle("trainer_open", *arguments, owners=(self.model._handle,))
        made._continue(self)
        return made

    def _learn_at(self, rate: float) -> None:
        """Goes on with another learning rate, without a schedule: takes the place of a fork of itself."""
        if self._options["schedule"] is None and self._options["optimizer"].get("learning_rate") == rate:
            return
        fork, model, before = self.fork(learning_rate=rate, schedule=None), self.model, self._handle
        self._handle, self._options, model._handle = fork._handle, fork._options, fork.model._handle
        before.close()

    def cancel(self) -> None:
        """Ends a run of another thread after the current step; that call of :meth:`run` raises CancelledError.

        The model and the trainer stay usable, and another run can continue. Without a run this does nothing.
        """
        _native.call("cancel", self._handle.value)

    @contextmanager
    def _explaining_memory(self) -> Iterator[None]:
        """Attaches the plan of the run to an OutOfMemoryError of the block."""
        try:
            yield
        except OutOfMemoryError as error:
            with suppress(Exception):  # the first error is the one to report
                error.plan = self.plan()
            raise

    def _poll(self, on_progress: Callable[[Progress], None] | None) -> Callable[[], None] | None:
        """Returns what calls the function with the progress."""
        if on_progress is None:
            return None
        if not callable(on_progress):
            raise InvalidArgumentError(f"on_progress must be a function, not {_checks.shown(on_progress)}")
        return lambda: on_progress(self.progress)

    def close(self) -> None:
        """Frees the optimizer state and releases the datasets; closing twice does nothing.

        Raises:
            BusyError: Another thread is running the trainer; it stays open.
            DeviceFailedError: A device with its own memory failed before the latest weights were copied to the model;
                the model keeps its previous weights.
        """
        try:
            self._handle.close()
        finally:
            if self._handle.closed:
                for data in self._data:
                    data.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Trainer uses memory of its process and cannot be pickled; pass on its model")

    def __repr__(self) -> str:
        if self._handle.closed:
            return "Trainer(closed)"
        now = self.progress
        return f"Trainer({self.model!r}, step {now.step:,}, epoch {now.epoch:,})"


_writing: weakref.WeakSet[Trainer] = weakref.WeakSet()  # those that have written in the background


@atexit.register
def _settle() -> None:
    """Waits for files that are being written when the program ends; cancels runs in daemon threads, which go on."""
    end = time.monotonic() + _PATIENCE
    for trainer in list(_writing):
        with suppress(Exception):
            while not _native.is_forked():
                try:
                    trainer.settle()
                    break
                except BusyError:
                    if time.monotonic() > end:
                        break
                    trainer.cancel()
                    time.sleep(0.01)


def locked_names(locked: Any) -> list[str]:
    """Returns the names of what is locked as a list of str."""
    names = _checks.several(locked, "locked", "a list of names of layers or weights")
    return [_checks.text(name, f"locked[{n}]") for n, name in enumerate(names)]


def _changed(
    options: dict[str, Any], learning_rate: float | None, weight_decay: float | None, schedule: Any
) -> dict[str, Any]:
    """Returns options with other values where they are given."""
    given = {"learning_rate": learning_rate, "weight_decay": weight_decay}
    rule = {**options["optimizer"], **{name: value for name, value in given.items() if value is not None}}
    changed = {**options, "optimizer": rule}
    if not (isinstance(schedule, str) and schedule == "same"):
        changed["schedule"] = None if schedule is None else _checks.kind(schedule, "schedule", "constant")
    return changed


def _warn_if_emulated(precision: str, devices: list[dict[str, Any]]) -> None:
    """Warns if a device has no instructions for a reduced precision."""
    for device in devices:
        if precision not in device["precisions"]:
            warnings.warn(
                f"this {device['name'].upper()} ({device['kind']}) has no instructions for {precision}: it is emulated,"
                ' which is slower than precision="float32"',
                stacklevel=3,
            )
