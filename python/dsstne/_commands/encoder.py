"""``dsstne encoder``: does what a CDL file says, which is to train, evaluate or check a network."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from dsstne._commands.cdl import Cdl
    from dsstne._commands.sources import Source
    from dsstne.model import Model

_K = 10  # longest list that is evaluated
_ALPHA = 0.1  # of the optimizers of DSSTNE; others have their own
_WITH_ALPHA = ("sgd", "momentum", "nesterov")


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    parser = flags.Parser("encoder", "Does what a CDL file says: trains, evaluates or checks a network.")
    language = "file in DSSTNE's command definition language, which is JSON"
    parser.operand("cdl", "FILE.cdl", nargs="?", type=flags.path, help=language)
    parser.flag("--overwrite", action="store_true", help="replace Results and networks of epochs if they exist")
    parser.flag("--resume", action="store_true", help="go on from Results.checkpoint, if it exists")
    parser.flag("--dry-run", action="store_true", help="read all files, print the plan of a training, write nothing")
    flags.precision(parser)
    flags.computing(parser)
    given = parser.parse(arguments)
    if given.cdl is None:
        parser.error(
            "FILE.cdl is missing. DSSTNE's encoder then evaluates network.nc on ../../data/data_test.nc; here a file "
            "says what to do"
        )
    given.command = ["encoder", *arguments]
    return given


def run(given: Namespace) -> None:
    """Reads the CDL file and does what it says."""
    from dsstne._commands import cdl
    from dsstne.errors import InvalidArgumentError

    said = cdl.read(given.cdl)
    if said.command == "train":
        _train(given, said)
        return
    for flag, value, none in (("--precision", given.precision, "auto"), ("--resume", given.resume, False)):
        if value != none:
            raise InvalidArgumentError(f"{flag}: Command is {said.command}, and the flag is one of train; leave it out")
    {"predict": _predict, "validate": _validate}[said.command](given, said)


def _as_flags(given: Namespace, said: Cdl) -> Namespace:
    """Returns the flags of ``dsstne train`` that a CDL file stands for."""
    wanted = said.training
    interval = wanted["AlphaInterval"]
    drops = {"kind": "step", "epochs": interval, "factor": wanted["AlphaMultiplier"]}
    several = len(said.data) > 1
    missing = ("checkpoint", "features", "samples", "validation", "validation_input", "metrics", "metrics_file", "d")
    return argparse.Namespace(
        **vars(given),
        **dict.fromkeys(missing),
        t="indicator",
        c=said.network,
        i=said.data[0],
        o=said.data[-1],
        n=wanted["Results"],
        b=wanted["MiniBatch"],
        e=wanted.get("Epochs"),
        alpha=wanted.get("Alpha", _ALPHA if wanted["Optimizer"] in _WITH_ALPHA else None),
        schedule=drops if interval else "auto",
        l1=0.0,
        l2=wanted["Lambda"],
        mu=wanted.get("Mu"),
        mu1=None,
        optimizer=wanted["Optimizer"],
        seed=12134 if said.seed in (None, -1) else said.seed,
        checkpoint_interval=wanted["CheckpointInterval"],
        checkpoint_name=wanted["CheckpointName"],
        words={
            "c": "Network",
            "i": "Data[0]" if several else "Data",
            "o": "Data[1]" if several else "Data",
            "n": "TrainingParameters.Results",
            "interval": "TrainingParameters.CheckpointName",
        },
    )


def _train(given: Namespace, said: Cdl) -> None:
    import dataclasses
    from pathlib import Path

    from dsstne import network
    from dsstne._commands import train
    from dsstne.errors import InvalidArgumentError

    wanted = said.training
    optimizer = wanted["Optimizer"]
    if "Mu" in wanted and train.MOMENTS[optimizer][0] is None and optimizer != "sgd":  # with which DSSTNE ignores it
        raise InvalidArgumentError(
            f"{given.cdl}: TrainingParameters.Mu: the optimizer {optimizer} has no parameter for it; remove it"
        )
    if not _is_definition(said.network):
        raise InvalidArgumentError(f"Network: {said.network} is not JSON; Command train takes a network definition")
    definition = network.read(Path(said.network))
    if wanted["AlphaInterval"] and "schedule" in definition.training:
        raise InvalidArgumentError(
            f"{given.cdl}: TrainingParameters.AlphaInterval: {said.network} has Decay, which changes the learning "
            "rate, too; remove one of them"
        )
    if "ShuffleIndices" in wanted:
        training = {**definition.training, "shuffle": wanted["ShuffleIndices"]}
        definition = dataclasses.replace(definition, training=training)
    train.work(_as_flags(given, said), definition)


def _is_definition(path: str) -> bool:
    """Reports whether a file begins as JSON does."""
    from dsstne.errors import InputOutputError, MissingFileError

    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    except FileNotFoundError as error:
        raise MissingFileError(f"Network: {path}: no such file", error.errno or 0, path) from None
    except OSError as error:
        raise InputOutputError(f"Network: {path}: {error.strerror}", error.errno or 0, path) from None


def _computing(given: Namespace) -> dict[str, Any]:
    return {key: getattr(given, key) for key in ("devices", "threads", "memory_limit")}


def _predict(given: Namespace, said: Cdl) -> None:
    """Prints precision, recall and NDCG of the lists of a trained network."""
    from dsstne import evaluate, load
    from dsstne._commands import indexes
    from dsstne._tables import Table
    from dsstne.errors import InvalidArgumentError, InvalidDataError

    if _is_definition(said.network):
        raise InvalidArgumentError(f"Network: {said.network} is a definition; Command predict takes a trained network")
    with load(said.network, threads=given.threads) as model:
        if not model.outputs:
            raise InvalidArgumentError(f"Network: {said.network} has no output, so there is nothing to evaluate")
        inputs = _sources(given, model, said.data[0], [*model.inputs], are_targets=False)
        targets = _sources(given, model, said.data[-1], [model.output], are_targets=True)
        (inputs, targets), notes = indexes.same_samples(
            [(f"Data: {said.data[0]}", inputs), (f"Data: {said.data[-1]}", targets)]
        )
        first, last = next(iter(inputs.values())), targets[model.output]
        rows = first.matrix.shape[0]
        if not rows:
            raise InvalidDataError(f"Data: {said.data[0]} has no rows to evaluate")
        items = last.matrix.shape[1]  # the other units fill up a layer of DSSTNE
        X = _fitted(inputs, model, "Data", said.data[0], said, notes)
        Y = _fitted(targets, model, "Data", said.data[-1], said, notes)
        if given.dry_run:
            _finish(["nothing was computed", *notes])
            return
        k = min(_K, items)
        kinds = ("precision", "recall", "ndcg")
        found = evaluate(
            model,
            X,
            Y[model.output],
            [f"{kind}@1..{k}" for kind in kinds],
            exclude=None,
            items=None if items == model.output_units else range(items),
            batch_size=said.prediction["MiniBatch"] or rows,
            **_computing(given),
        )
    table = [[str(n), *(f"{found[f'{kind}@{n}']:.4f}" for kind in kinds)] for n in range(1, k + 1)]
    print(Table(["k", *kinds], table, right=range(4)).text())
    _finish(notes)


def _sources(
    given: Namespace, model: Model, path: str, layers: Sequence[str], *, are_targets: bool
) -> dict[str, Source]:
    """Reads the matrices of layers: the data sets "input" and "output", or those of the layers."""
    from dsstne import netcdf
    from dsstne._commands import indexes, sources
    from dsstne.errors import InvalidDataError

    kind = sources.kind_of(path)
    if kind == "text":
        raise InvalidDataError(f"Data: {path} is a text, whose features have no numbers; make a NetCDF file of it")
    names = indexes.kept(model, "datasets")
    usual = "output" if are_targets else "input"
    if kind == "netcdf" and len(layers) == 1 and usual in {one.name for one in netcdf.datasets(path)}:
        names |= dict.fromkeys(layers, usual)
    without = argparse.Namespace(**vars(given), d=None)
    return sources.by_layer("Data", path, layers, names, without, are_targets=are_targets)


def _validate(given: Namespace, said: Cdl) -> None:
    """Prints a comparison of gradients with differences of the loss.

    Raises:
        DsstneError: They do not agree.
    """
    import contextlib
    from pathlib import Path

    from dsstne import fit, load, network
    from dsstne._commands import indexes, train
    from dsstne.errors import DsstneError, InvalidArgumentError
    from dsstne.network import Network

    wanted = _as_flags(given, said)
    words, is_new, model = wanted.words, _is_definition(said.network), None
    with contextlib.ExitStack() as opened:
        if is_new:
            definition = network.read(Path(said.network))
        else:
            model = opened.enter_context(load(said.network, threads=given.threads))
            if model.network is None:
                raise InvalidArgumentError(f"Network: {said.network} is not a network of layers; it has no gradients")
            definition = Network(model.network, {}, indexes.kept(model, "datasets"))
        inputs, targets = train.read(wanted, definition, {})
        findings = [one.findings for one in [*inputs.values(), *targets.values()]]
        (inputs, targets), notes = indexes.same_samples(
            [(f"{words['i']}: {wanted.i}", inputs), (f"{words['o']}: {wanted.o}", targets)]
        )
        notes += filter(None, findings)
        if model is None:
            X, Y = ({layer: one.matrix for layer, one in read.items()} for read in (inputs, targets))
            definition = train.with_stored_only(definition, targets)
            options = {"seed": wanted.seed, **_computing(given)}
            model = opened.enter_context(fit(X, Y, network=definition, epochs=0, progress=False, **options))
        else:
            X = _fitted(inputs, model, words["i"], wanted.i, said, notes)
            Y = _fitted(targets, model, words["o"], wanted.o, said, notes)
        if given.dry_run:
            _finish(["nothing was computed", *notes])
            return
        found: Any = model.check_gradients(X, Y, seed=wanted.seed, **_computing(given))
    print(found)
    _finish(notes)
    if not found["agrees"]:
        wrong = ", ".join(found["disagreeing"])
        raise DsstneError(f"the gradients of {wrong} do not agree with the differences of the loss")


def _fitted(read: dict[str, Source], model: Model, what: str, path: str, said: Cdl, notes: list[str]) -> dict[str, Any]:
    """Returns the matrices of layers, as wide as these; adds notes for the user."""
    from dsstne._commands import indexes

    fitted = {}
    for layer, source in read.items():
        wide, more = indexes.as_wide(what, path, source, indexes.of_layer(model, layer, said.network))
        notes += more
        fitted[layer] = wide.matrix
    return fitted


def _finish(lines: Sequence[str]) -> None:
    """Writes the last lines for the user."""
    for line in dict.fromkeys(lines):
        print(line, file=sys.stderr)
