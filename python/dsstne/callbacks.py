"""Callbacks of :func:`dsstne.fit`: early stopping, budgets of time, checkpoints, learning rates, and loggers.

The methods have the names of those of XGBoost's callbacks (https://xgboost.readthedocs.io, "Callback Functions").
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import math
import os
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dsstne import _checks, _options
from dsstne._metric_names import FALLING, is_metric, one_metric
from dsstne._tables import History
from dsstne.errors import InputOutputError, InvalidArgumentError
from dsstne.model import fit_state

if TYPE_CHECKING:
    from dsstne.model import Model
    from dsstne.trainer import Progress, Trainer

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "LearningRate",
    "MLflow",
    "TensorBoard",
    "TimeBudget",
]

EpochFunction = Callable[[Any, dict[str, Any]], Any]
EvalsLog = dict[str, dict[str, list[float]]]

_T = TypeVar("_T", bound="Callback")

_WANTED = "a function, an object of dsstne.callbacks such as EarlyStopping(), or a list of these"


@dataclass
class Run:
    """What fit() tells its callbacks, and what they answer.

    Attributes:
        trainer: The trainer.
        epochs: Planned number of epochs, with those before.
        model: The model that fit() returns.
        before: Number of epochs of the history that other trainers have done.
        seconds: Training time so far, with that of a part of an epoch, whose record is replaced.
        steps: Number of steps that are left; None = all those of the epochs.
        unfinished: The record of a part of an epoch that an earlier run has ended in, until it is replaced.
        unjudged: The record, without metrics, of an epoch that an earlier run has trained and not evaluated.
    """

    trainer: Trainer
    epochs: int
    model: Model
    before: int = 0
    seconds: float = 0.0
    steps: int | None = None
    unfinished: Sequence[dict[str, Any]] = ()
    unjudged: dict[str, Any] | None = None

    def record(self, now: Progress) -> dict[str, Any]:
        """Returns the record of the epoch, or of the part of one, that the trainer has just done, without metrics."""
        whole = now.examples == 0
        return {
            "epoch": self.before + now.epoch + (0 if whole else now.examples / self.trainer.rows),
            "step": self.model.step,
            "loss": now.epoch_loss if whole else now.loss,
            "seconds": self.seconds + now.seconds,
            "examples_per_second": now.examples_per_second,
            "learning_rate": now.learning_rate,
        }


class Callback:
    """Base class of callbacks; its methods do nothing, and a subclass overrides those that it needs.

    ``model.history[-1]`` is the record of the last epoch. ``evals_log`` has the same numbers by name, as lists with a
    value for each epoch: ``{"train": {"loss": [...]}, "validation": {"ndcg@20": [...], ...}}``.

    An exception in a method ends the training. It reaches the caller of :func:`dsstne.fit`, and its attribute ``model``
    has the usable model. One object can serve several runs one after the other: it starts anew with each. A search may
    copy or pickle it between runs.

    Attributes:
        metrics: Names of metrics of :func:`dsstne.evaluate`, or ranges such as ``"recall@1..10"``. ``fit`` computes
            them after each epoch for this callback, beside its own.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> class StopBelow(dsstne.callbacks.Callback):
        ...     def after_iteration(self, model, epoch, evals_log):
        ...         return evals_log["train"]["loss"][-1] < 20
        >>> X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
        >>> len(dsstne.fit(X, hidden=4, epochs=3, progress=False, callbacks=StopBelow()).history)
        1
    """

    metrics: Sequence[str] = ()

    _run: Run | None = None
    _seconds_left: float = math.inf  # that the next epoch may take

    def before_training(self, model: Model) -> Any:
        """Called before the first epoch; if the run was resumed, ``model.history`` has the epochs before."""

    def after_training(self, model: Model) -> Any:
        """Called at the end with the model that ``fit`` returns, also after an exception or Ctrl-C.

        It is called if :meth:`before_training` has returned; the callback that was called first there is the last here.
        """

    def before_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> Any:
        """Called before each epoch, which is counted from 1; True ends the training."""

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> Any:
        """Called after each epoch, which is counted from 1; True ends the training."""

    def _now(self) -> Run:
        """Returns the present run."""
        assert self._run is not None, "fit() calls this, and has set it"
        return self._run

    def _end(self) -> None:
        self.after_training(self._now().model)

    def _forget(self) -> None:
        self._run = None


class FunctionCallback(Callback):
    """Calls a function as ``function(model, record)`` after each epoch."""

    def __init__(self, function: EpochFunction) -> None:
        self._function = function

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> Any:
        """Calls the function."""
        return self._function(model, model.history[-1])


class EarlyStopping(Callback):
    """Ends the training if a metric on the validation data has not risen for some epochs.

    ``fit(..., epochs="auto", validation=...)`` makes an ``EarlyStopping()`` itself, unless it is given another.

    Args:
        metric: Name of a metric of :func:`dsstne.evaluate`, such as ``"recall@50"``; all items are ranked, as for the
            other validation metrics. ``"rmse"`` and ``"mae"`` fall instead of rising. None = the last of the history,
            which is ``ndcg@20``.
        patience: Number of epochs without a rise after which training ends; None = a fifth of the planned epochs, but
            at least 3.
        min_delta: A value counts as a rise if it is above the best by more than this.
        restore_best: Return the model with the weights of the best epoch; False = those of the last epoch. A copy of
            the best weights is kept.

    Attributes:
        best_epoch: The epoch of the best value, from 1; 0 before there is a value.
        best_value: The best value; -inf before there is a value, or inf for a metric that falls.

    Raises:
        InvalidArgumentError: A parameter is not valid; ``fit`` was given no validation data; or, from ``fit``, the
            metric is unknown.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((8, 5))).astype(np.float32))
        >>> train, held_out = dsstne.datasets.hold_out(X)
        >>> early = dsstne.callbacks.EarlyStopping("recall@5", patience=2)
        >>> model = dsstne.fit(train, hidden=8, epochs=100, validation=held_out, callbacks=early, progress=False)
        >>> len(model.history) - early.best_epoch
        2
    """

    def __init__(
        self,
        metric: str | None = None,
        patience: int | None = None,
        min_delta: float = 0.0,
        restore_best: bool = True,
    ) -> None:
        self.metrics = () if metric is None else (one_metric(metric, rising=False),)
        self._patience = None if patience is None else _checks.integer(patience, "patience", 1)
        none = _checks.is_number(min_delta) and min_delta == 0
        self._min_delta = 0.0 if none else _checks.duration(min_delta, "min_delta")
        self.restore_best = _checks.boolean(restore_best, "restore_best")
        self._falls = metric in FALLING
        self.best_value, self.best_epoch = self._worst, 0.0
        self._copy: Model | None = None

    @property
    def _worst(self) -> float:
        return math.inf if self._falls else -math.inf

    def before_training(self, model: Model) -> None:
        """Starts anew; copies the model, so that the first plan includes the memory of a copy."""
        self.best_value, self.best_epoch = self._worst, 0.0
        self._copy = model.copy() if self.restore_best else None
        self._wait = self._patience or max(3, self._now().epochs // 5)

    def before_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> bool:
        """Reports whether a run that goes on has ended already."""
        return bool(model.history) and self._waited(model.history[-1])

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> bool:
        """Looks at the metric; reports whether it has not risen for too long."""
        record = model.history[-1]
        value = record[self.metrics[0]] if self.metrics else list(record.values())[-1]
        falls, least = self._falls, self._min_delta
        better = value < self.best_value - least if falls else value > self.best_value + least
        if better:  # never if it is NaN, because no row has held-out items
            old, new = self._copy, model.copy() if self.restore_best else None
            self._copy, self.best_value, self.best_epoch = new, value, record["epoch"]
            if old is not None:
                old.close()
        return self._waited(record)

    def after_training(self, model: Model) -> None:
        """Frees the copy."""
        self._copy = None

    def _waited(self, record: Mapping[str, Any]) -> bool:
        return bool(self.best_epoch and record["epoch"] - self.best_epoch >= self._wait)

    def _options(self) -> dict[str, Any]:
        metric = self.metrics[0] if self.metrics else None
        known = {"metric": metric, "patience": self._patience, "min_delta": self._min_delta}
        return {**known, "restore_best": self.restore_best}

    def _state(self) -> dict[str, Any]:
        """Returns what is known of the best model, for a checkpoint."""
        return {"value": self.best_value, "epoch": self.best_epoch, **self._options()}

    def _resume(self, best: Model | None, known: Mapping[str, Any], name: str) -> None:
        """Goes on from such a state of the file with the name."""
        for option, value in self._options().items():
            if known[option] != value:
                raise InvalidArgumentError(
                    f"{name}: EarlyStopping: {option}: the checkpoint has {known[option]!r}, this run has {value!r}"
                )
        self._copy, self.best_value, self.best_epoch = best, known["value"], known["epoch"]

    def _choose(self, model: Model) -> Model:
        """Returns the model of the best epoch, with the whole history and what callbacks have noted since."""
        if self._copy is None or not model.history or self.best_epoch in (0, model.history[-1]["epoch"]):
            return model
        self._copy.history, self._copy.attributes = model.history, model.attributes
        return self._copy


class TimeBudget(Callback):
    """Ends the training after the step in which the time is over, as ``fit(max_seconds=)`` does.

    Args:
        seconds: The time from the first step on, of this call; with ``resume`` the earlier calls do not count.

    Raises:
        InvalidArgumentError: The time is not a finite number above 0.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
        >>> budget = dsstne.callbacks.TimeBudget(0.01)
        >>> model = dsstne.fit(X, hidden=4, epochs=10**6, progress=False, callbacks=budget)
        >>> model.history[-1]["seconds"] > 0
        True
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = _checks.duration(seconds, "seconds")

    def before_training(self, model: Model) -> None:
        """Starts the clock."""
        self._until = time.monotonic() + self._seconds

    def before_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> bool:
        """Reports whether the time is over."""
        self._seconds_left = self._until - time.monotonic()
        return self._seconds_left <= 0


class LearningRate(Callback):
    """Sets the learning rate of each epoch; it replaces ``learning_rate`` and ``schedule`` of ``fit``.

    The state of the optimizer goes on. Each change takes about a millisecond, in which a fork of the trainer
    (:meth:`dsstne.Trainer.fork`) replaces it; a checkpoint is then written between two epochs instead of beside
    training. ``fit(schedule=)`` has schedules that change the rate in every step.

    Args:
        rates: A function from the number of the epoch, counted from 1, to the rate, or a sequence with the rate of each
            epoch. A function must depend on the epoch only if the run may be resumed.

    Raises:
        InvalidArgumentError: A rate is not a number above 0, or, from ``fit``, there are fewer rates than epochs.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
        >>> halved = dsstne.callbacks.LearningRate(lambda epoch: 0.01 * 0.5 ** (epoch - 1))
        >>> model = dsstne.fit(X, hidden=4, epochs=3, progress=False, callbacks=halved)
        >>> [record["learning_rate"] for record in model.history]
        [0.01, 0.005, 0.0025]
    """

    def __init__(self, rates: Callable[[int], float] | Sequence[float]) -> None:
        if not callable(rates):
            listed = _checks.several(rates, "rates", "a function or a list")
            rates = [_checks.duration(rate, f"rates[{n}]") for n, rate in enumerate(listed)]
        self._rates = rates

    def before_training(self, model: Model) -> None:
        """Checks that there are enough rates."""
        rates, epochs = self._rates, self._now().epochs
        if not callable(rates) and len(rates) < epochs:
            raise InvalidArgumentError(f"LearningRate: {len(rates)} rates, but the run has {epochs} epochs")

    def before_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> None:
        """Sets the rate."""
        rate = self._rates(epoch) if callable(self._rates) else self._rates[epoch - 1]
        self._now().trainer._learn_at(_checks.duration(rate, f"LearningRate: the rate of epoch {epoch}"))


class Checkpoint(Callback):
    """Keeps the state of the run in a file, as ``fit(checkpoint=, checkpoint_every=)`` does.

    With ``fit(resume=True)`` the run goes on from the file, if it exists. The file is written beside training, and once
    more at the end, or after Ctrl-C.

    Args:
        path: The file.
        every: Number of epochs from one writing to the next.

    Raises:
        InvalidArgumentError: The path cannot be one, or ``every`` is not an integer above 0.
        InputOutputError: From ``fit``: the last file could not be written. Of an earlier one this is a warning.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse, tempfile
        >>> X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kept = dsstne.callbacks.Checkpoint(f"{folder}/run.checkpoint", every=2)
        ...     model = dsstne.fit(X, hidden=4, epochs=4, progress=False, callbacks=kept, resume=True)
        ...     dsstne.load(f"{folder}/run.checkpoint").step
        4
    """

    _after_epochs = True  # whether the file is also written while the run goes on
    _written = -1  # the step of the file

    def __init__(self, path: str | os.PathLike[str], every: int = 1) -> None:
        with _options.path_argument(path) as name:
            self._name = os.fsdecode(name)
        self._path, self._every = path, _checks.integer(every, "every", 1)

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> None:
        """Writes the file if it is time to."""
        self._write(model)

    def _arguments(self, given: dict[str, Any], resume: bool) -> dict[str, Any]:
        """Returns arguments of fit(), those of the run before for "auto"; they will be in the file."""
        before = fit_state(self._path).get("arguments", {}) if resume else {}
        self._given = {
            name: before[name] if name in before and isinstance(value, str) and value == "auto" else value
            for name, value in given.items()
        }
        return self._given

    def _begin(
        self, run: Run, early: EarlyStopping | None, beside: bool, resume: bool, held_out: Sequence[str]
    ) -> None:
        """Goes on from the file, if that is wanted and there is one; held_out are digests of the validation data."""
        self._early, self._beside = early, beside
        self._written = -1
        self._found: tuple[Model | None, Mapping[str, Any] | None] = None, None
        schedule = self._given["schedule"]  # which may be None, and that is left out of JSON
        arguments = {"schedule": schedule, **json.loads(_options.to_json(self._given))}
        self._known = {"arguments": arguments, "validation": [*held_out]}
        folder = Path(self._name).absolute().parent
        if os.path.isdir(self._name):  # noqa: PTH112 - here and below, a Path raises an OSError for a long name
            raise InputOutputError(f"checkpoint: {self._name} is a folder; add a file name", errno.EISDIR, self._name)
        if not os.access(folder, os.W_OK):
            raise InputOutputError(f"checkpoint: no file can be written in the folder {folder}", 0, str(folder))
        if not (resume and os.path.exists(self._name)):  # noqa: PTH110
            return
        model, trainer = run.model, run.trainer
        best = trainer._resume(self._path)
        before = json.loads(model._resumed(self._path) or "{}")
        if best is not None and best.items is None:
            best.items = model.items
        self._found = best, before.get("early")
        run.seconds = float(model.history[-1].get("seconds", 0)) if model.history else 0.0
        done = trainer.progress.epoch  # and a part of an epoch has no record when it is complete
        whole = [record.get("epoch") in range(1, done + 1) for record in model.history]
        run.unfinished = [record for record, kept in zip(model.history, whole, strict=True) if not kept]
        run.unjudged = before.get("unjudged")
        model.history = History(record for record, kept in zip(model.history, whole, strict=True) if kept)
        state = self._found[1]
        if (state is None) != (early is None):
            had = "no" if state is None else "an"
            raise InvalidArgumentError(
                f"{self._name}: epochs, validation: the checkpoint is of a run with {had} early end; give its arguments"
            )
        if held_out and before.get("validation") and before["validation"] != [*held_out]:
            raise InvalidArgumentError(f"{self._name}: validation: the held-out items are not those of the run before")
        self._written = trainer.progress.step

    def before_training(self, model: Model) -> None:
        """Gives the best weights that the file has, if any, to what keeps them from now on."""
        best, state = self._found
        self._found = None, None
        if self._early is not None and state is not None:
            self._early._resume(best, state, self._name)

    def _write(self, model: Model, last: bool = False) -> None:
        """Writes the file if it is time to; the run that goes on from it evaluates an epoch that was not yet."""
        run = self._now()
        trainer, history = run.trainer, model.history
        now = trainer.progress
        whole = now.examples == 0
        if now.step in (0, self._written) or not (last or (whole and now.epoch % self._every == 0)):
            return
        early = self._early
        best, state = (None, None) if early is None else (early._copy, early._state())
        of_run = {**self._known, "early": state}
        if whole and not (history and history[-1]["epoch"] == now.epoch):  # Ctrl-C came in between
            of_run["unjudged"] = run.record(now)
        with self._warning():  # of the last file, which was written meanwhile
            trainer.settle()
        with contextlib.nullcontext() if last else self._warning():
            trainer._save(self._path, self._beside and not last, best, json.dumps(of_run))
            self._written = now.step

    @contextlib.contextmanager
    def _warning(self, what: str = "training goes on") -> Iterator[None]:
        try:
            yield
        except InputOutputError as error:
            warnings.warn(f"{what} without a new checkpoint: {error}", stacklevel=11)  # who called fit()

    def __enter__(self) -> None:
        """Begins the epochs."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Writes the file at the end of the run or after Ctrl-C; after another error, it stays as it is."""
        run = self._now()
        if kind is None:
            self._write(run.model, last=True)
        elif issubclass(kind, KeyboardInterrupt):
            with self._warning("training ends"):
                self._write(run.model, last=True)
        else:
            with self._warning():
                run.trainer.settle()

    def _forget(self) -> None:
        super()._forget()
        self._early, self._found = None, (None, None)


class CSVLogger(Callback):
    """Writes the history to a file of comma-separated values, one line for each epoch, as soon as it is known.

    A run that was resumed goes on with the file, without lines of epochs that are trained again; another run replaces
    the file. The file has whole lines only, also if the process is killed or the disk is full.

    Args:
        path: The file.

    Raises:
        InvalidArgumentError: The path cannot be one.
        InputOutputError: From ``fit``: the file cannot be written.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse, tempfile
        >>> X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = dsstne.callbacks.CSVLogger(f"{folder}/run.csv")
        ...     model = dsstne.fit(X, hidden=4, epochs=2, progress=False, callbacks=log)
        ...     with open(f"{folder}/run.csv") as file:
        ...         print(file.readline().strip())
        epoch,step,loss,seconds,examples_per_second,learning_rate
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with _options.path_argument(path):
            self._path = path

    def before_training(self, model: Model) -> None:
        """Opens the file, to find out whether that is possible."""
        self._fields: list[str] = []
        self._write("a" if model.history else "w", [])

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> None:
        """Adds a line; writes the whole file if this epoch is the first of the run, or has other fields."""
        record = model.history[-1]
        if set(record) <= set(self._fields):
            self._write("a", [record])
        else:
            self._fields = list(dict.fromkeys(chain.from_iterable(model.history)))
            self._write("w", [dict(zip(self._fields, self._fields, strict=True)), *model.history])

    def _write(self, mode: str, rows: Sequence[Mapping[str, Any]]) -> None:
        text = io.StringIO(newline="")
        csv.DictWriter(text, self._fields, restval="").writerows(rows)
        lines = text.getvalue().encode()
        name = os.fsdecode(self._path)
        try:
            (_add_lines if mode == "a" else _replace_lines)(Path(name), lines)
        except OSError as error:
            what = f"CSVLogger: {name:.300}: {error.strerror}"
            raise InputOutputError(what, error.errno or 0, name) from None


def _add_lines(path: Path, lines: bytes) -> None:
    """Adds lines to a file, or to a pipe or device; if the disk is full, the file stays as it was."""
    with path.open("ab", buffering=0) as file:
        before = os.fstat(file.fileno())
        try:
            while lines:
                lines = lines[file.write(lines) :]
        except OSError:
            if stat.S_ISREG(before.st_mode):
                os.ftruncate(file.fileno(), before.st_size)
            raise


def _replace_lines(path: Path, lines: bytes) -> None:
    """Writes a file anew, which has its old lines until it has all new ones; adds to a pipe or device."""
    if os.fspath(path).startswith("/dev/std") or (path.exists() and not path.is_file()):
        _add_lines(path, lines)
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:200]}-{os.getpid()}.new")
    try:
        beside.write_bytes(lines)
        beside.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


class TensorBoard(Callback):
    """Writes loss, learning rate, speed and metrics as event files of TensorBoard; the step is the epoch.

    It needs ``pip install tensorboardX``, which is small, or PyTorch and TensorBoard. ``tensorboard --logdir FOLDER``
    shows the files. ``ndcg@20`` is shown as ``validation/ndcg_at_20``.

    Args:
        folder: The folder of the run; None = a new one in ``runs``.

    Raises:
        InvalidArgumentError: The folder cannot be one.
        ImportError: From ``fit``: neither package is installed.

    Example::

        dsstne.fit(X, validation=held_out, callbacks=dsstne.callbacks.TensorBoard("runs/first"))
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None
        if folder is not None:
            with _options.path_argument(folder) as name:
                self._folder = os.fsdecode(name)

    def before_training(self, model: Model) -> None:
        """Opens the files; events of epochs that a resumed run trains again are hidden."""
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ImportError("TensorBoard needs tensorboardX: pip install tensorboardX") from None
        again = len(model.history) + 1 if model.history else None
        self._writer = SummaryWriter(self._folder, purge_step=again, filename_suffix=f".{len(model.history)}")

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> None:
        """Writes the numbers of the epoch."""
        for name, value in _scalars(model.history[-1]).items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def after_training(self, model: Model) -> None:
        """Closes the files."""
        self._writer.close()
        del self._writer


class MLflow(Callback):
    """Logs loss, learning rate, speed and metrics to the active run of MLflow; the step is the epoch.

    It needs ``pip install mlflow-skinny``, or all of MLflow. Without an active run, MLflow starts one, which stays
    active. ``ndcg@20`` is logged as ``validation/ndcg_at_20``, because MLflow's names have no ``@``.

    Raises:
        ImportError: From ``fit``: MLflow is not installed.

    Example::

        with mlflow.start_run():
            dsstne.fit(X, validation=held_out, callbacks=dsstne.callbacks.MLflow())
    """

    def before_training(self, model: Model) -> None:
        """Looks whether MLflow is installed."""
        try:
            import mlflow  # noqa: F401
        except ImportError:
            raise ImportError("the callback MLflow needs MLflow: pip install mlflow-skinny") from None

    def after_iteration(self, model: Model, epoch: int, evals_log: EvalsLog) -> None:
        """Logs the numbers of the epoch."""
        import mlflow

        mlflow.log_metrics(_scalars(model.history[-1]), step=epoch)


def _scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of an epoch by names that TensorBoard and MLflow allow."""
    numbers = {name: float(value) for name, value in record.items() if _checks.is_number(value)}
    return {
        f"validation/{name.replace('@', '_at_')}" if is_metric(name) else f"train/{name}": value
        for name, value in numbers.items()
        if name not in ("epoch", "step")
    }


def as_list(given: Callback | EpochFunction | Iterable[Callback | EpochFunction] | None) -> list[Callback]:
    """Returns the callbacks that a user has given; functions are wrapped."""
    single = isinstance(given, Callback) or callable(given)
    callbacks: list[Any] = [] if given is None else [given] if single else _checks.several(given, "callbacks", _WANTED)
    for callback in callbacks:
        if isinstance(callback, type) and issubclass(callback, Callback):
            raise InvalidArgumentError(f"callbacks: expected an object, {callback.__name__}(...), not the class itself")
        if not isinstance(callback, Callback) and not callable(callback):
            raise InvalidArgumentError(f"callbacks must be {_WANTED}, not {_checks.shown(callback)} in a list")
    made = [one if isinstance(one, Callback) else FunctionCallback(one) for one in callbacks]
    if len(set(map(id, made))) < len(made):
        raise InvalidArgumentError("callbacks: an object is given twice; a run calls each once, so give it once")
    return made


def only(callbacks: Sequence[Callback], kind: type[_T]) -> _T | None:
    """Returns the callback of a kind that a run can have once, or None."""
    found = [callback for callback in callbacks if isinstance(callback, kind)]
    if len(found) > 1:
        raise InvalidArgumentError(f"callbacks: a run can have one {kind.__name__}, not {len(found)}")
    return found[0] if found else None


def any_true(answers: Iterable[Any]) -> bool:
    """Takes the answers of all callbacks; reports whether one is True."""
    return any(isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in list(answers))
