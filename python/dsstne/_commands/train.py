"""``dsstne train``: trains the network of a JSON file on data files."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from dsstne._commands.sources import Source
    from dsstne.model import Model
    from dsstne.network import Network

# What -mu and -mu1 are for an optimizer, and None where the optimizer has nothing like it.
MOMENTS: dict[str, tuple[str | None, str | None]] = {
    "sgd": (None, None),
    "momentum": ("momentum", None),
    "nesterov": ("momentum", None),
    "rmsprop": ("decay_rate", None),
    "adam": ("beta1", "beta2"),
    "adamw": ("beta1", "beta2"),
    "adagrad": (None, None),
    "adadelta": ("decay_rate", None),
}
_RATE = 0.025  # of stochastic gradient descent


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    parser = flags.Parser("train", "Trains the network of a JSON file on data files: NetCDF, Dataset.save or text.")
    parser.flag("-c", required=True, type=flags.path, metavar="CONFIG", help="network definition in JSON")
    parser.flag("-i", required=True, type=flags.path, metavar="INPUT", help="data of the inputs")
    parser.flag("-o", required=True, type=flags.path, metavar="OUTPUT", help="data of the outputs")
    new = "file to create: .nc is DSSTNE's format, .dsstne the one with names and history"
    parser.flag("-n", required=True, type=_network, metavar="NETWORK", help=new)
    parser.flag("-d", type=flags.name, metavar="NAME", help="data set to use where a file holds several")
    parser.flag("-b", type=flags.count, default=1024, metavar="ROWS", help="batch size (default: 1024)")
    parser.flag("-e", type=flags.count, default=40, metavar="EPOCHS", help="epochs (default: 40)")
    rate = f"learning rate (default: {_RATE}; with another --optimizer than sgd its own)"
    parser.flag("-alpha", type=flags.number, metavar="RATE", help=rate)
    parser.flag("-lambda", type=flags.number, default=1e-4, dest="l2", metavar="L2", help="L2 (default: 0.0001)")
    parser.flag("-lambda1", type=flags.number, default=0.0, dest="l1", metavar="L1", help="L1 (default: 0)")
    moment = "momentum or decay rate of the optimizer, or its first beta (default: its own)"
    parser.flag("-mu", type=flags.number, metavar="NUMBER", help=moment)
    parser.flag("-mu1", type=flags.number, metavar="NUMBER", help="second beta of the optimizer (default: its own)")
    kinds = f"{', '.join(MOMENTS)} (default: sgd)"
    parser.flag("--optimizer", type=flags.word(*MOMENTS), default="sgd", metavar="KIND", help=kinds)
    parser.flag("--seed", type=flags.seed, default=12134, help="seed of all random numbers (default: 12134)")
    flags.precision(parser)
    state = "keep the state of the run in this file, after each epoch (default: in NETWORK.checkpoint, if interrupted)"
    parser.flag("--checkpoint", type=flags.path, metavar="FILE", help=state)
    again = "go on from the file of --checkpoint or from NETWORK.checkpoint, if it exists"
    parser.flag("--resume", action="store_true", help=again)
    parser.flag("--overwrite", action="store_true", help="replace NETWORK if it exists")
    parser.flag("--dry-run", action="store_true", help="print the plan of the training and write nothing")
    index = "index of the features of a text; written with those of INPUT if it does not exist"
    parser.flag("--features", type=flags.path, metavar="FILE", help=index)
    index = "index of the samples of a text; written with those of INPUT if it does not exist"
    parser.flag("--samples", type=flags.path, metavar="FILE", help=index)
    kinds = "values of a text: indicator (the default) makes all 1, analog reads them"
    parser.flag("-t", type=flags.word("indicator", "analog"), default="indicator", metavar="TYPE", help=kinds)
    held_out = "held-out items for metrics after each epoch: data of the output for the samples of INPUT"
    parser.flag("--validation", type=flags.path, metavar="FILE", help=held_out)
    others = "data of the input for the samples of --validation, if they are not those of INPUT"
    parser.flag("--validation-input", type=flags.path, metavar="FILE", help=others)
    more = "metrics beside recall@20 and ndcg@20, such as precision@1..10,auc"
    parser.flag("--metrics", type=flags.names, metavar="NAMES", help=more)
    table = "write loss, speed and metrics to this file: comma-separated values, a line for each epoch"
    parser.flag("--metrics-file", type=flags.path, metavar="FILE", help=table)
    every = "write NETWORK<epoch>.nc every N epochs (.dsstne if NETWORK is in that format)"
    parser.flag("--checkpoint-interval", type=flags.count, metavar="N", help=every)
    flags.computing(parser)
    given = parser.parse(arguments)
    for flag, value in (("--validation-input", given.validation_input), ("--metrics", given.metrics)):
        if value is not None and given.validation is None:
            parser.error(f"{flag} needs --validation, the held-out items")
    for flag, value, name in zip(("-mu", "-mu1"), (given.mu, given.mu1), MOMENTS[given.optimizer], strict=True):
        if value is not None and name is None and given.optimizer != "sgd":  # with which DSSTNE ignores them
            parser.error(f"{flag}: the optimizer {given.optimizer} has no parameter for it; leave it out")
    given.command = ["train", *arguments]
    given.checkpoint_name, given.schedule = None, "auto"
    given.words = {name: f"-{name}" for name in "cion"} | {"interval": "--checkpoint-interval"}
    return given


def _network(text: str) -> str:
    import argparse

    if not flags.path(text).endswith((".nc", ".dsstne")):
        raise argparse.ArgumentTypeError(f"{text!r} must end with .nc or .dsstne, which says the format of the file")
    return text


def run(given: Namespace) -> None:
    """Reads the data, trains, and writes the network."""
    from pathlib import Path

    from dsstne import network

    work(given, network.read(Path(given.c)))


def work(given: Namespace, definition: Network) -> None:
    """Trains a network.

    Args:
        given: The flags, and what else says how to train: ``schedule`` as of :func:`dsstne.fit`, ``checkpoint_name``
            (None = that of the network), and ``words``, which has the names of files in messages.
        definition: The network.
    """
    from dsstne import fit
    from dsstne._commands import indexes, interruption, locks, sources, validation
    from dsstne._commands.epochs import Epochs
    from dsstne.callbacks import CSVLogger
    from dsstne.errors import InvalidDataError
    from dsstne.textfile import write_index

    words = given.words
    names_file = f"{given.n}.features" if given.n.endswith(".nc") else None
    _check_outputs(given, names_file)
    places = {key: f"{words[key]}: {getattr(given, key)}" for key in ("i", "o")}
    named = {key: path for key in ("features", "samples") if (path := getattr(given, key)) is not None}
    with contextlib.ExitStack() as waiting, contextlib.ExitStack() as until_training:
        absent = [path for path in named.values() if not os.path.exists(path)]  # noqa: PTH110
        until_training.enter_context(locks.held([] if given.dry_run else absent))
        missing = {key: path for key, path in named.items() if not os.path.exists(path)}  # noqa: PTH110
        inputs, targets = read(given, definition, named)
        findings = [one.findings for one in [*inputs.values(), *targets.values()]]
        (inputs, targets), notes = indexes.same_samples([(places["i"], inputs), (places["o"], targets)])
        findings += notes + _check_indexes(given, named, next(iter(inputs.values())))
        first, last = next(iter(inputs.values())), next(iter(targets.values()))
        if not first.matrix.shape[0]:
            raise InvalidDataError(f"{places['i']} has no rows to learn from")
        made = _made(given, missing, first)
        held_out, found = validation.read(given, definition, inputs, targets)
        findings = list(dict.fromkeys(filter(None, findings + found)))

        def begin() -> None:
            """Writes the new indexes before the training, so that no other command waits for its end."""
            for path, labels in made.items():
                write_index(path, labels)
            until_training.close()

        digests = _digests({**inputs, **targets})
        kept = interruption.checkpoint(given, waiting)
        called: list[Any] = [Epochs(given, _same_items(inputs, targets), digests, begin)]
        if not given.dry_run:
            called += [kept, *([] if given.metrics_file is None else [CSVLogger(given.metrics_file)])]
        weights = {layer: one.sample_weight for layer, one in targets.items() if one.sample_weight is not None}
        try:
            model = fit(
                {layer: source.matrix for layer, source in inputs.items()},
                {layer: source.matrix for layer, source in targets.items()},
                network=with_stored_only(definition, targets),
                items=last.items,
                sample_weight=weights,
                validation=held_out,
                **_training(given, first.matrix.shape[0]),
                resume=given.resume and not given.dry_run,
                callbacks=called,
                progress=not given.dry_run,
            )
        except KeyboardInterrupt:
            raise interruption.explained(given, kept) from None
        if given.dry_run:
            _finish("nothing was trained or written", findings)
            return
        waiting.enter_context(interruption.deferred())  # if it is not there already
        _write(given, model, names_file)
        record = model.history[-1]
        _finish(
            f"{given.n}: {sources.counted(record['epoch'], 'epoch')}, {sources.counted(record['step'], 'step')}, "
            f"loss {record['loss']:.5g}",
            findings,
        )


def _write(given: Namespace, model: Model, names_file: str | None) -> None:
    """Writes the trained network and the index of its items, and removes the state of a run that was interrupted."""
    from pathlib import Path

    from dsstne._commands import interruption, outputs
    from dsstne.textfile import write_index

    labels = [] if model.items is None else list(map(str, model.items))
    with outputs.together([names_file] if names_file is not None and labels else []) as names:
        for beside in names.values():
            write_index(beside, labels)
        model.save(given.n)
    if names_file is not None and not labels:
        Path(names_file).unlink(missing_ok=True)  # of the network that was replaced
    if given.checkpoint is None:
        Path(interruption.path_of(given)).unlink(missing_ok=True)


def _finish(result: str, findings: Sequence[str]) -> None:
    """Writes the last lines for the user."""
    print("\n".join([result, *findings]), file=sys.stderr)


def _check_outputs(given: Namespace, names_file: str | None) -> None:
    """Refuses files that cannot be written or that would replace others."""
    from dsstne._commands import interruption, outputs
    from dsstne._commands.epochs import networks
    from dsstne.errors import InvalidArgumentError

    words, state = given.words, interruption.path_of(given)
    of_state = f"{words['n']} (checkpoint)" if given.checkpoint is None else "--checkpoint"
    optional = {f"{words['n']} (names)": names_file, of_state: state, "--metrics-file": given.metrics_file}
    indexes = {"--features": given.features, "--samples": given.samples}
    optional |= {flag: path for flag, path in indexes.items() if path is None or not os.path.exists(path)}  # noqa: PTH110
    written = {words["n"]: given.n, **{flag: path for flag, path in optional.items() if path is not None}}
    used = {words["c"]: given.c, words["i"]: given.i, words["o"]: given.o}
    more = {"--validation": given.validation, "--validation-input": given.validation_input}
    used |= {flag: path for flag, path in (more | indexes).items() if path is not None and flag not in written}
    outputs.check_distinct(written, used)
    for flag, path in written.items():
        outputs.check(flag, path, regular=flag != "--metrics-file")
        if path in (given.n, names_file) and os.path.exists(path) and not given.overwrite:  # noqa: PTH110
            raise InvalidArgumentError(
                f"{path} exists already; give {words['n']} another name, or --overwrite to replace it"
            )
    is_left = given.checkpoint is None and os.path.exists(state)  # noqa: PTH110
    if is_left and not (given.resume or given.overwrite):
        raise InvalidArgumentError(
            f"{state} has the state of a run that was interrupted; --resume goes on with it, --overwrite starts anew"
        )
    between = networks(given)
    if between is None:
        return
    outputs.check(words["interval"], between.name(between.every))
    for flag, path in [*written.items(), *used.items()]:
        if between.has(path):
            raise InvalidArgumentError(f"{flag}: {path} is the name of the network of an epoch; give another name")
    if not (given.overwrite or given.resume) and (there := between.existing()):
        raise InvalidArgumentError(f"{there[0]} exists already; --overwrite replaces the networks of epochs")


def read(given: Namespace, network: Network, named: Mapping[str, str]) -> tuple[dict[str, Source], dict[str, Source]]:
    """Reads the data of all inputs and outputs."""
    from dsstne._commands import sources
    from dsstne.errors import InvalidArgumentError, NotFoundError
    from dsstne.textfile import read_index

    words = given.words
    layers: dict[str, list[str]] = {"input": [], "output": []}
    for layer in network.definition["layers"]:
        layers.setdefault(layer["kind"], []).append(layer["name"])
    for kind in ("input", "output"):
        if not layers[kind]:
            raise InvalidArgumentError(
                f"{words['c']}: {given.c}: the network has no {kind} layer, so there is nothing to train"
            )
    text: dict[str, Any] = {"values": given.t}
    for key, path in named.items():
        if "text" in (sources.kind_of(given.i), sources.kind_of(given.o)) and os.path.exists(path):  # noqa: PTH110
            text[key] = read_index(path)
    inputs = sources.by_layer(words["i"], given.i, layers["input"], network.datasets, given, **text)
    first = next(iter(inputs.values()))
    if first.name is None and os.path.realpath(given.i) == os.path.realpath(given.o) and len(layers["output"]) == 1:
        return inputs, {layers["output"][0]: first}
    text["samples"] = text.get("samples", first.rows)  # the rows of both are the same samples
    if given.features is not None and first.items is not None:
        text.setdefault("features", first.items)
    targets = sources.by_layer(words["o"], given.o, layers["output"], network.datasets, given, are_targets=True, **text)
    taken = sorted({one.name for one in [*inputs.values(), *targets.values()] if one.name is not None})
    if given.d is not None and taken and not {given.d, given.d + "_input", given.d + "_output"} & set(taken):
        raise NotFoundError(f"-d: neither {given.i} nor {given.o} has a data set {given.d!r}; the layers take {taken}")
    return inputs, targets


def _same_items(inputs: dict[str, Source], targets: dict[str, Source]) -> bool:
    """Reports whether the network has one input and one output with the same names of items."""
    names = [next(iter(data.values())).items for data in (inputs, targets) if len(data) == 1]
    return len(names) == 2 and all(one is not None for one in names) and list(names[0]) == list(names[1])


def _check_indexes(given: Namespace, named: Mapping[str, str], first: Source) -> list[str]:
    """Refuses data files of other indexes than those of ``--features`` and ``--samples``; returns notes for the user.

    The labels of a text are those of the indexes, so they are not compared.
    """
    from dsstne._commands import indexes, sources
    from dsstne.textfile import read_index

    kinds = {key: sources.kind_of(path) for key, path in (("-i", given.i), ("-o", given.o))}
    notes = []
    for key, path in named.items():
        # The samples are those of both files, but the features of a text may be others than those of a data file.
        is_text = kinds["-i"] == "text" or (key == "features" and kinds["-o"] == "text")
        if not is_text and os.path.exists(path):  # noqa: PTH110
            labels, what = read_index(path), key.removesuffix("s")
            index = indexes.Index(f"--{key}: {path}", len(labels), labels)
            notes.append(indexes.compare(what, index, indexes.of(what, f"-i: {given.i}", first)))
    return [note for note in notes if note]


def _made(given: Namespace, missing: Mapping[str, str], first: Source) -> dict[str, Any]:
    """Returns the labels of the indexes to write, by their paths."""
    from dsstne.errors import MissingFileError

    made = {path: first.items if key == "features" else first.rows for key, path in missing.items()}
    for path, labels in made.items():
        if labels is None:
            raise MissingFileError(
                f"{path}: no such index, and {given.i} has no names to make it of", errno.ENOENT, path
            )
    return made


def _digests(layers: Mapping[str, Source]) -> dict[str, str]:
    """Returns the digests of the features of layers, as far as these have names or digests."""
    from dsstne._items import digest_of

    known = {layer: one.items_digest if one.items is None else digest_of(one.items) for layer, one in layers.items()}
    return {layer: digest for layer, digest in known.items() if digest is not None}


def with_stored_only(network: Network, targets: dict[str, Source]) -> Network:
    """Returns the network with losses that count stored entries only where the data set says so."""
    import dataclasses

    losses = [
        {**loss, "stored_only": True} if loss["layer"] in targets and targets[loss["layer"]].stored_only else loss
        for loss in network.definition["loss"]
    ]
    return dataclasses.replace(network, definition={**network.definition, "loss": losses})


def _training(given: Namespace, rows: int) -> dict[str, Any]:
    """Returns the options of fit() that the flags stand for; a batch size of 0 is all rows."""
    moments = zip(MOMENTS[given.optimizer], (given.mu, given.mu1), strict=True)
    chosen = {name: value for name, value in moments if name is not None and value is not None}
    rule = {"kind": given.optimizer, "l1": given.l1, **chosen}
    rate = _RATE if given.alpha is None and given.optimizer == "sgd" else given.alpha
    return {
        "optimizer": rule,
        "learning_rate": "auto" if rate is None else rate,
        "weight_decay": given.l2,
        "batch_size": given.b or rows,
        "schedule": given.schedule,
        "epochs": given.e,
        "seed": given.seed,
        "precision": given.precision,
        "devices": given.devices,
        "threads": given.threads,
        "memory_limit": given.memory_limit,
    }
