"""Training a model from a matrix in one call."""

from __future__ import annotations

import contextlib
import inspect
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _defaults
from dsstne._handles import Undo
from dsstne._layers import Bound, bind
from dsstne._metric_names import is_metric, metric_names
from dsstne.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochFunction,
    EvalsLog,
    LearningRate,
    Run,
    TimeBudget,
    any_true,
    as_list,
    only,
)
from dsstne.dataset import item_names, open_dataset
from dsstne.errors import InvalidArgumentError, OutOfMemoryError
from dsstne.evaluation import evaluate
from dsstne.model import Model
from dsstne.network import read
from dsstne.progress import Bar
from dsstne.trainer import Trainer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from dsstne.dataset import Dataset
    from dsstne.network import Network

__all__ = ["fit", "popularity"]

_NETWORK_PARAMETERS = ("hidden", "activation", "loss", "temperature", "tied", "input_scaling", "denoising", "dropout")


def fit(
    X: Any,
    targets: Any = None,
    *,
    network: Network | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    items: Sequence[str] | ArrayLike | None = None,
    hidden: int | Sequence[int] = (512,),
    activation: str | Sequence[str] = "tanh",
    loss: str | Mapping[str, Any] = "softmax",
    temperature: float | str | None = "auto",
    tied: bool = False,
    input_scaling: str | None = "l2",
    denoising: float = 0.5,
    dropout: float = 0.0,
    optimizer: str | Mapping[str, Any] = "adam",
    learning_rate: float | str = "auto",
    weight_decay: float = 0.0,
    schedule: str | Mapping[str, Any] | None = "auto",
    locked: Sequence[str] = (),
    sample_weight: Any = None,
    batch_size: int = 512,
    epochs: int | str = "auto",
    validation: Any = None,
    seed: int = 0,
    devices: Any = "auto",
    parallel: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
    callbacks: Callback | EpochFunction | Iterable[Callback | EpochFunction] | None = (),
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
) -> Model:
    """Trains a recommendation network on an interaction matrix.

    By default the network is a denoising autoencoder with a multinomial (soft-max) likelihood: each row is
    reconstructed from a random half of its entries (Liang et al., "Variational Autoencoders for Collaborative
    Filtering", 2018).

    The word ``"auto"`` stands for what did best on held-out parts of several public datasets (docs/defaults.md). With
    ``network``, it stands for the plain values: learning rate 0.001, no schedule, 20 epochs without early stopping.

    Initializers are set in a network definition. :class:`dsstne.Trainer` can train single steps and, with
    ``shuffle=False``, visits the rows in their order.

    Every exception has an attribute ``model``: the partially trained, usable model, or None if training has not begun.

    Args:
        X: Interaction matrix [rows, items]; :class:`dsstne.Dataset` lists the types that need no copy. Or
            :class:`dsstne.Interactions`, whose names of the items the model keeps. For a network with several input
            layers, a mapping from their names to matrices.
        targets: Target matrix [rows, outputs]; None = X. A mapping for several output layers. Without targets, the
            items stored in a row of X count as seen, and recommendations and metrics leave them out by default
            (:attr:`dsstne.Model.same_items`).
        network: A network definition (mapping, JSON text or file, or :class:`dsstne.Network`) instead of the parameters
            from ``hidden`` to ``dropout``; sizes of ``"auto"`` are taken from the matrices. A network file of DSSTNE is
            one, too (docs/dsstne.md): its ``ShuffleIndices`` decides whether rows are visited in their order, and its
            ``DataSet`` names are keys of mappings of matrices beside the names of layers.
        items: Names of the items of the output; the model stores them. None = those of Interactions, if given.
        hidden: Number of units of each hidden layer.
        activation: ``"tanh"``, ``"sigmoid"``, ``"relu"``, ``"leaky_relu"``, ``"elu"``, ``"selu"``, ``"softplus"``,
            ``"softsign"``, ``"gelu"``, ``"silu"``, ``"linear"`` or ``"softmax"``, which is of the whole row, for all
            hidden layers or a list with one for each.
        loss: ``"softmax"``, ``"sigmoid"``, ``"scaled_marginal"``, ``"squared"``, ``"absolute"``, ``"l2_hinge"``,
            ``"hinge"`` (an item that is not stored has the target -1), ``"cosine_contrastive"`` or ``"bpr"``, or a
            mapping with ``kind`` and its parameters (docs/network.md). ``{"kind": "squared", "stored_only": True}``
            leaves out items that are not stored. ``{"kind": "softmax", "negatives": 100}`` compares each stored item
            with 100 others, drawn at random in each step, instead of all: that is faster for millions of items.
        temperature: If a number, logits are cosines between the hidden vector and the item vectors, divided by this
            number; None = dot products; ``"auto"`` = 0.1 for soft-max, else None.
        tied: Share one weight between input and output layer.
        input_scaling: ``"l2"`` divides each row by its Euclidean length; None = no scaling.
        denoising: Probability that an entry of the input is dropped in a training step; the others are multiplied by
            1 / (1 - denoising).
        dropout: Probability that a hidden unit is dropped in a training step; the others are multiplied by
            1 / (1 - dropout).
        optimizer: ``"sgd"``, ``"momentum"``, ``"nesterov"``, ``"rmsprop"``, ``"adam"``, ``"adamw"``, ``"adagrad"`` or
            ``"adadelta"``; or a mapping with ``kind`` and its parameters, such as ``{"kind": "adam", "beta2": 0.99}``.
            All kinds have the parameter ``l1``: each step moves each weight by learning rate times ``l1`` towards 0, so
            that many weights become exactly 0. And ``clip_norm``: a gradient of all weights that is longer is shortened
            to this length, which needs memory for the gradients.
        learning_rate: Learning rate; give it here or in the mapping, not both. ``"auto"`` = 0.002 for soft-max with
            Adam or AdamW, 1 for AdaDelta, else 0.001.
        weight_decay: This times the weight is added to the gradient (``"adamw"`` applies it separately). Biases do not
            decay. Give it here or in the mapping, not both.
        schedule: Schedule of the learning rate: ``"constant"``, ``"linear"``, ``"cosine"``, ``"step"`` or
            ``"inverse"``, or a mapping with ``kind`` and its parameters. ``"cosine"`` and ``"linear"`` span the run, of
            which the first twentieth is warm-up, unless the mapping has ``steps``. ``{"kind": "step", "epochs": 10,
            "factor": 0.5}`` halves the rate every ten epochs. None = constant; ``"auto"`` = ``"cosine"`` for soft-max,
            the ``Decay`` of a network file of DSSTNE, else None.
        locked: Names of weights that training leaves as they are, such as ``"hidden1.weight"``
            (:attr:`dsstne.Model.tensors`), and of layers, all of whose weights it leaves. The weights of a new model
            are random; :class:`dsstne.Trainer` trains a model that has others.
        sample_weight: Weights of the rows [rows], finite and at least 0: each multiplies the row's loss, and with it
            the row's part of the gradients. The loss of a batch is still divided by the number of its rows. For several
            output layers one array counts for all, or a mapping gives some of them arrays of their own. None = 1.
        batch_size: Examples per step.
        epochs: Passes over the rows. ``"auto"``: for soft-max as many as 800 steps take, but at least 8 and at most
            50; else 20. With ``validation``, training then stops early if the last metric has not risen for a fifth
            of the epochs (at least 3), and the returned model has the weights of the best epoch.
        validation: Held-out items for ``recall@20`` and ``ndcg@20`` after each epoch: a matrix for the rows of X, or a
            pair (V_in, V_out) for other rows. Computed by :func:`dsstne.evaluate` with its defaults.
        seed: Seed of the initial weights, shuffling, denoising and dropout. The same seed gives the same bits, with any
            number of threads.
        devices: ``"auto"`` = all usable CUDA devices, or the CPU if there is none; in a worker of Dask, Ray or torchrun
            only the first CUDA device (torchrun: that of the local rank), as with ``"first"``. Also ``"all"``,
            ``"cpu"``, ``"cuda:0"``, ``["cuda:0", "cuda:1"]``. A named device that is not available raises an error.
            ``"cpu:4"`` makes four virtual devices of the CPU. See docs/training.md.
        parallel: How several devices train: ``"model"`` divides the items among them, ``"data"`` the rows of each
            batch; ``"auto"`` chooses the way that exchanges fewer numbers.
        precision: ``"float32"`` or ``"bfloat16"``, which rounds the factors of products of hidden values, weights and
            gradients to 8 bits; sums, weights and optimizer state stay float32. It is about 1.7 times as fast on
            AMD's CPUs with AVX512_BF16, and slower on other CPUs, with a warning where it is emulated. CUDA devices
            also support ``"tensorfloat32"`` (11 bits). ``"auto"`` = bfloat16 on devices where it is
            faster, else float32.
        threads: CPU threads; None = as many as the process may use. More than 64, and than 4 for each processor that
            the process may use, count as that many.
        memory_limit: Maximum bytes of the run; a plan that needs more raises an error before anything is allocated.
        max_seconds: Time limit; the run stops after the step in which it is reached.
        progress: Show a progress bar in terminals and notebooks, or a line every 30 seconds if stderr is a file.
        callbacks: One or several objects of :mod:`dsstne.callbacks`, such as ``EarlyStopping("recall@50")`` or
            ``CSVLogger("run.csv")``, or functions, called as ``callback(model, record)`` after each epoch. Training
            ends if one returns True. See docs/training.md.
        checkpoint: Path of a file in which the state of the run is kept, with the best weights of early stopping. It is
            written beside training, and once more at the end, or after Ctrl-C.
        checkpoint_every: Number of epochs from one writing to the next.
        resume: Go on from ``checkpoint`` if the file exists, with the same data and arguments; the result has the bits
            of a run that was not stopped. ``learning_rate``, ``schedule`` and ``epochs`` may be others; ``"auto"``, the
            default, stands for those of the run before. So the same call starts a run and goes on with it, as jobs that
            may be stopped at any time need.

    Returns:
        The model. Its ``history`` has a dict for each epoch: ``epoch`` (from 1), ``step``, ``loss`` (mean over the
        epoch), ``seconds`` (training time since the start), ``examples_per_second``, ``learning_rate`` and the
        validation metrics. If the time limit was reached within an epoch, the last ``epoch`` is a fraction.

    Raises:
        InvalidArgumentError: An option or shape is not valid; for an unknown word the message suggests the nearest one.
        NotFoundError: ``locked`` has a name that is neither a layer nor a weight; the message suggests the nearest one.
        InvalidDataError: A matrix is damaged; the message names row, column and value.
        NotFiniteError: The run diverged; the message names tensor and step and suggests remedies.
        OutOfMemoryError: The weights or the plan do not fit; the attribute ``plan`` lists the parts of the plan.
        InputOutputError: The last checkpoint could not be written; the file is as it was before. Of an earlier one this
            is a warning, and training goes on.
        KeyboardInterrupt: Ctrl-C; training stopped after the current step.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.random_array((200, 50), density=0.1, format="csr", rng=0, dtype=np.float32)
        >>> model = dsstne.fit(X, hidden=[16], epochs=2, progress=False)
        >>> [record["epoch"] for record in model.history]
        [1, 2]
        >>> model.recommend(X[:3], k=5)[0].shape
        (3, 5)
    """
    run: Run | None = None  # once the training has begun
    try:
        term, rule = _checks.kind(loss, "loss", "softmax"), _checks.kind(optimizer, "optimizer", "adam")
        searched = network is None and term.get("kind") == "softmax"  # what "auto" was chosen for
        makes_network = network is None
        training: Mapping[str, Any] = {}  # what a file says about it
        if network is None:
            degrees = _defaults.temperature(temperature, searched)
            network = _definition(hidden, activation, term, degrees, tied, input_scaling, denoising, dropout)
        else:
            _refuse_beside_network(locals())  # in no variable, which would be among them
            network = read(network)
            X, targets = network._by_layer(X, "input"), network._by_layer(targets, "output")
            sample_weight = network._by_layer(sample_weight, "output")
            training = network.training
            if not any(layer["kind"] == "output" for layer in network.definition["layers"]):
                raise InvalidArgumentError("network: it has no output layer, so there is nothing to train")
        called, progress = as_list(callbacks), _checks.boolean(progress, "progress")
        resume = _checks.boolean(resume, "resume")
        if max_seconds is not None:
            called.append(TimeBudget(_checks.duration(max_seconds, "max_seconds")))
        if checkpoint is not None:
            called.append(Checkpoint(checkpoint, _checks.integer(checkpoint_every, "checkpoint_every", 1)))
        early, kept, rates = only(called, EarlyStopping), only(called, Checkpoint), only(called, LearningRate)
        if resume and kept is None:
            raise InvalidArgumentError("resume=True needs checkpoint=, the path of the file to go on from")
        if kept is not None:
            rate = rule.get("learning_rate", learning_rate)
            of_run = kept._arguments({"learning_rate": rate, "schedule": schedule, "epochs": epochs}, resume)
            schedule, epochs = of_run["schedule"], of_run["epochs"]
            learning_rate = learning_rate if "learning_rate" in rule else of_run["learning_rate"]
        if isinstance(schedule, str) and schedule == "auto":
            schedule = training.get("schedule", schedule)
        if early is None and isinstance(epochs, str) and validation is not None and makes_network:
            early = EarlyStopping()
            called.append(early)
        if early is not None and validation is None:
            raise InvalidArgumentError("EarlyStopping needs validation=, the held-out items for its metric")
        # The first one keeps the best weights before others use the model; the last one writes what all have done.
        called.sort(key=lambda callback: (callback is not early) + (callback is kept))
        if targets is None and _checks.is_mapping(X):
            raise InvalidArgumentError(
                "X is a mapping of input layers; also give targets= as a mapping of output layers"
            )
        compute = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Undo() as undo:
            inputs, outputs = bind(undo, X, targets)
            sizes = {**inputs.sizes("*input"), **outputs.sizes("*output")}
            model = Model._new(network, items, seed=seed, sizes=sizes, memory_limit=memory_limit)
            inputs.pair(model.inputs)
            outputs.pair(model.outputs)
            named = item_names(items, next(iter(outputs.datasets.values())))
            if items is None and named is not None:
                model.items = named
            steps = -(-inputs.rows // max(1, _checks.integer(batch_size, "batch_size", 1)))
            passes = _defaults.epochs(epochs, steps, searched)
            asked = [_checks.several(callback.metrics, "metrics") for callback in called]
            extra = [name for names in asked if names for name in metric_names(names)]
            judge, held_out = _judge(undo, model, inputs, validation, extra, compute)
            beside = kept is not None and kept._after_epochs and rates is None
            trainer = Trainer(
                model,
                inputs.datasets,
                outputs.datasets,
                optimizer=rule,
                learning_rate=_defaults.learning_rate(learning_rate, rule, searched),
                weight_decay=weight_decay,
                schedule=_defaults.schedule(schedule if rates is None else None, passes * steps, searched),
                locked=locked,
                sample_weight=sample_weight,
                seed=seed,
                shuffle=training.get("shuffle", True),
                parallel=parallel,
                precision=precision,
                checkpoints=beside,
                **compute,
            )
            undo.callback(trainer.close)
            if passes == 0:
                return model
            if trainer.rows == 0:
                raise InvalidArgumentError("X has no rows to learn from")
            bar = Bar(passes, trainer.rows, progress)
            undo.callback(bar.close)
            run = Run(trainer, passes, model)
            if memory_limit is not None or extra:
                judge(rows=[])  # raises an error now, not after an epoch
            if kept is not None:
                kept._begin(run, early, beside, resume, [data._digest() for data in held_out])
            train(run, judge, bar, called)
        return run.model
    except BaseException as error:  # also of a second Ctrl-C, while the first leaves the block above
        error.__dict__["model"] = None if run is None else run.model
        raise


def train(run: Run, judge: Callable[..., dict[str, float]], bar: Bar, called: Sequence[Callback]) -> None:
    """Trains the epochs of a run with its callbacks; the model of the run is then the one to return."""
    early = only(called, EarlyStopping)
    with Undo() as ends:
        for callback in called:
            callback._run = run
            ends.callback(callback._forget)
            callback.before_training(run.model)
            ends.callback(callback._end)
        try:
            with only(called, Checkpoint) or contextlib.nullcontext():
                _train_epochs(run, judge, bar, called)
        except OutOfMemoryError as error:
            if early is not None and early.restore_best:
                why = "early stopping (epochs='auto' with validation, or EarlyStopping)"
                error.args = (f"{error}; {why} keeps the best weights beside the current",)
            raise
        if early is not None:
            run.model = early._choose(run.model)


def _train_epochs(run: Run, judge: Callable[..., dict[str, float]], bar: Bar, called: Sequence[Callback]) -> None:
    """Trains the epochs and writes the history."""
    model, trainer = run.model, run.trainer
    evals_log: EvalsLog = {"train": {"loss": []}, "validation": {}}
    for record in model.history:
        _log(evals_log, record)
    judged = partial(_judge_epoch, run, judge, bar, called, evals_log)
    if run.unjudged is not None and judged(run.unjudged):
        return
    for epoch in range(run.before + trainer.progress.epoch + 1, run.epochs + 1):
        if any_true(callback.before_iteration(model, epoch, evals_log) for callback in called):
            break
        left = min((callback._seconds_left for callback in called), default=math.inf)
        seconds = None if math.isinf(left) else left
        begun, poll = model.step, bar.glance if bar.shown else None
        now = trainer.run(epochs=1, steps=run.steps, seconds=seconds, on_progress=poll)
        if model.step == begun:  # the time was over before the first step
            break
        run.steps = None if run.steps is None else run.steps - (model.step - begun)
        bar.update(now)
        if judged(run.record(now)) or now.examples:
            break
    model.history.extend(run.unfinished)


def _judge_epoch(
    run: Run,
    judge: Callable[..., dict[str, float]],
    bar: Bar,
    called: Sequence[Callback],
    evals_log: EvalsLog,
    record: dict[str, Any],
) -> bool:
    """Adds the metrics to the record of an epoch, and the record to the history; reports whether training ends."""
    model = run.model
    record = {**record, **judge()}
    model.history.append(record)
    run.seconds, run.unfinished, run.unjudged = record["seconds"], (), None
    _log(evals_log, record)
    bar.end_epoch(record)
    epoch = math.ceil(record["epoch"])
    return any_true(callback.after_iteration(model, epoch, evals_log) for callback in called)


def _log(evals_log: EvalsLog, record: Mapping[str, Any]) -> None:
    evals_log["train"]["loss"].append(record["loss"])
    for name, value in record.items():
        if is_metric(name):
            evals_log["validation"].setdefault(name, []).append(value)


def _judge(
    undo: Undo, model: Model, inputs: Bound, validation: Any, extra: Sequence[str], compute: Mapping[str, Any]
) -> tuple[Callable[..., dict[str, float]], list[Dataset]]:
    """Checks the validation data; returns a function that computes the current metrics of the model, and the data."""
    if validation is None and extra:
        raise InvalidArgumentError(f"a callback needs validation=, the held-out items for its metric {extra[0]!r}")
    if validation is None:
        return lambda **_: {}, []
    if len(model.outputs) != 1:
        raise InvalidArgumentError(f"validation: ranking needs one output layer; the network has {len(model.outputs)}")
    held_out, name = validation, "validation"
    given: list[Dataset] = []
    if isinstance(validation, (tuple, list)):
        if len(validation) != 2:
            raise InvalidArgumentError(f"validation: expected a matrix or a pair, got {len(validation)} items")
        inputs = Bound(validation[0], "validation[0]", model.inputs)
        undo.callback(inputs.close)
        held_out, name = validation[1], "validation[1]"
        given += inputs.datasets.values()
    opened = inputs.open(held_out, name, model.output_units, model.output)
    k = min(20, model.output_units)
    last = f"ndcg@{k}"  # what early stopping looks at
    names = [name for name in dict.fromkeys([f"recall@{k}", *extra]) if name != last]
    judge = partial(evaluate, model, inputs.datasets, opened, [*names, last], **compute)
    return judge, [*given, opened]


def _definition(
    hidden: int | Sequence[int],
    activation: str | Sequence[str],
    term: Mapping[str, Any],
    temperature: float | None,
    tied: bool,
    input_scaling: str | None,
    denoising: float,
    dropout: float,
) -> dict[str, Any]:
    """Returns the parameters of fit() as a network definition."""
    is_list = isinstance(hidden, (list, tuple, range)) or np.ndim(hidden) > 0
    given: list[Any] = _checks.several(hidden, "hidden") if is_list else [hidden]
    units = [_checks.integer(size, "hidden" if len(given) == 1 else f"hidden[{n}]") for n, size in enumerate(given)]
    if not units:
        raise InvalidArgumentError("hidden: expected the units of at least one hidden layer, got an empty list")
    wanted = "a str such as 'tanh', or a list of them"
    activations = (
        [activation] * len(units) if isinstance(activation, str) else _checks.several(activation, "activation", wanted)
    )
    if len(activations) != len(units):
        raise InvalidArgumentError(f"activation: expected {len(units)}, one per hidden layer, got {len(activations)}")
    if temperature is not None and not math.isfinite(temperature):
        raise InvalidArgumentError(
            f"temperature must be above 0, not {_checks.shown(temperature)}; None means no cosine logits"
        )
    names = [f"hidden{n + 1}" for n in range(len(units))]
    layers: list[dict[str, Any]] = [
        {"name": "input", "kind": "input", "size": "auto", "scaling": "none", "denoising": denoising}
    ]
    if input_scaling is not None:
        layers[0]["scaling"] = input_scaling
    for name, source, size, word in zip(names, ["input", *names[:-1]], units, activations, strict=True):
        _checks.text(word, "activation")
        layer = {"name": name, "kind": "hidden", "sources": [source], "size": size, "activation": word}
        layers.append({**layer, "dropout": dropout})
    output: dict[str, Any] = {"name": "output", "kind": "output", "sources": [names[-1]], "size": "auto"}
    if temperature is not None:
        output["temperature"] = temperature
    if _checks.boolean(tied, "tied"):
        output["shared"] = "hidden1.weight"
    return {"layers": [*layers, output], "loss": [{"layer": "output", **term}]}


def _refuse_beside_network(given: Mapping[str, Any]) -> None:
    parameters = inspect.signature(fit).parameters
    for name in _NETWORK_PARAMETERS:
        default = parameters[name].default
        if given[name] is not default and given[name] != default:
            raise InvalidArgumentError(f"{name}= and network= exclude each other; set {name} in the network definition")


def popularity(X: Any, *, items: Sequence[str] | ArrayLike | None = None) -> Model:
    """Makes a baseline model that recommends the items stored in the most rows; its scores are a bias only.

    Args:
        X: Interaction matrix [rows, items].
        items: Names of the items.

    Returns:
        A model. The score of an item is the number of its stored entries that are not zero; without duplicates, this
        is the number of rows that have the item.

    Raises:
        InvalidDataError: X is damaged; the message names row, column and value.
        UnsupportedError: X is Arrow data, a product or a file without a record; save it first, or give a SciPy matrix.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[0, 1, 1], [0, 0, 1]], dtype=np.float32))
        >>> dsstne.popularity(X).recommend(X, k=2, exclude_seen=False)[0][0]
        array([2, 1], dtype=int32)
    """
    data, made = open_dataset(X, "X")
    try:
        columns = data.shape[1]
        definition = {"kind": "item_weights", "items": columns, "weight": "none", "bias": True}
        model = Model._new(definition, item_names(items, data))
        model.same_items = True
        model.set_tensor("bias", data.column_counts())
        return model
    finally:
        if made:
            data.close()
