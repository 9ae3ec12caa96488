"""``dsstne predict``: writes the best items of each sample, or the values of a layer, as text."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from dsstne._commands.sources import Source
    from dsstne.model import Model

_K = 100  # items of a sample, where -k does not say


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    parser = flags.Parser("predict", "Writes the best items of each sample, or the values of a layer, as text.")
    parser.flag("-n", required=True, type=flags.path, metavar="NETWORK", help="trained network: .nc or .dsstne")
    parser.flag("-r", required=True, type=flags.path, metavar="SAMPLES", help="samples: text, NetCDF or Dataset.save")
    parser.flag("-s", required=True, type=flags.path, metavar="RECS", help="text file to write; replaced if it exists")
    parser.flag("-d", type=flags.name, metavar="NAME", help="data set NAME_input or NAME is the network's input")
    parser.flag("-i", type=flags.path, metavar="FEATURES", help="index of the input's features; a text needs it")
    index = "index of the output's features (default: the names in NETWORK)"
    parser.flag("-o", type=flags.path, metavar="FEATURES", help=index)
    listed = "items to leave out for each sample, in the format of SAMPLES; their values do not count"
    parser.flag("-f", type=flags.path, metavar="FILTER", help=listed)
    factor = "multiply the scores by the values of FILTER; 0 or no value leaves out"
    parser.flag("--filter-values", action="store_true", help=factor)
    parser.flag("-b", type=flags.count, default=1024, metavar="ROWS", help="batch size (default: 1024)")
    most = f"items of a sample (default: {_K}, and of a hidden layer all units)"
    parser.flag("-k", type=flags.count, metavar="K", help=most)
    parser.flag("-l", type=flags.name, metavar="LAYER", help="layer: an output or a hidden one (default: the output)")
    parser.flag("-p", type=conversion, default="%4.3f", metavar="FORMAT", help="format of a score (default: 4.3f)")
    kinds = "values of a text: indicator (the default) makes all 1, analog reads them"
    parser.flag("-t", type=flags.word("indicator", "analog"), default="indicator", metavar="TYPE", help=kinds)
    flags.computing(parser)
    given = parser.parse(arguments)
    if given.filter_values and given.f is None:
        parser.error("--filter-values needs -f, the filter")
    return given


def conversion(text: str) -> str:
    """Reads the conversion of a float by printf, with or without its percent sign."""
    if not re.fullmatch(r"%?[-+ 0#]*[0-9]{0,3}(\.[0-9]{0,3})?[efgEFG]", text):
        raise argparse.ArgumentTypeError(f"expected one format of a number for printf, such as 4.3f, got {text!r}")
    return "%" + text.removeprefix("%")


def run(given: Namespace) -> None:
    """Reads the samples, computes, and writes the lines."""
    from dsstne import load
    from dsstne._commands import filters, outputs, ranking, sources
    from dsstne.progress import Steps

    read = {"-n": given.n, "-r": given.r, "-i": given.i, "-o": given.o, "-f": given.f}
    outputs.check_distinct({"-s": given.s}, {flag: path for flag, path in read.items() if path is not None})
    outputs.check("-s", given.s, regular=False)
    with load(given.n, threads=given.threads) as model:
        layer = _layer(given, model)
        is_output = layer in model.outputs
        labels = _labels(given, model, layer) if is_output else None
        data = _samples(given, model)
        first = next(iter(data.values()))
        count = first.matrix.shape[0]
        samples = list(map(str, first.rows if first.rows is not None else range(count)))
        units = model._layers[layer]["size"] if labels is None else len(labels)
        k = _length(given, layer, units, is_output)
        findings = [one.findings for one in data.values()]
        options = {key: getattr(given, key) for key in ("devices", "threads", "memory_limit")}
        X = {name: source.matrix for name, source in data.items()}
        task = ranking.Task(model, X, count, layer, units, {"batch_size": given.b, **options})
        if labels is None or k is None:
            answers = ranking.values_of(task, k)
        else:
            chosen = None
            if given.f is not None:
                chosen = filters.read(given, samples, labels, model.outputs[layer], layer, data_sets(model))
                findings.append(chosen.findings)
            if chosen is not None and given.filter_values:
                answers = ranking.multiplied(task, k, chosen.matrix)
            else:
                answers = ranking.best_items(task, k, None if chosen is None else filters.listed(chosen.matrix))
        names = list(map(str, range(units))) if labels is None else labels
        piece, short = f"%s,{given.p}:", 0
        bar = Steps("samples", wanted=True)
        with outputs.lines(given.s) as file:
            for number, (sample, (ids, values)) in enumerate(zip(samples, answers, strict=True), 1):
                pairs = zip([names[unit] for unit in ids.tolist()], values.tolist(), strict=True)
                line = piece * len(ids) % tuple(part for pair in pairs for part in pair)
                file.write(f"{sample}\t{line}\n")
                short += len(ids) < (units if k is None else k)
                if number % 1000 == 0:
                    bar.update({"steps": count, "done": number})
        bar.update({"steps": count, "done": count})
        bar.close()
    result = f"{given.s}: {sources.counted(count, 'line')}"
    if short:
        result += f", of which {short:,} have fewer than {k:,} items, because the filter leaves no more"
    print("\n".join([result, *dict.fromkeys(filter(None, findings))]), file=sys.stderr)


def _layer(given: Namespace, model: Model) -> str:
    """Returns the name of the layer to write."""
    from dsstne._layers import nearest
    from dsstne.errors import InvalidArgumentError, NotFoundError

    if given.l is None:
        if not model.outputs:
            raise InvalidArgumentError(f"-n: {given.n}: the network has no output; -l names the layer to write")
        return model.output
    known = [name for name, layer in model._layers.items() if layer["kind"] != "input"]
    if given.l not in known:
        raise NotFoundError(f"-l: {given.n} has no layer {given.l!r} that it computes; {nearest(given.l, known)}")
    if given.f is not None and given.l not in model.outputs:
        raise InvalidArgumentError(f"-f: a filter lists items, and the layer {given.l!r} is not an output")
    name: str = given.l
    return name


def _labels(given: Namespace, model: Model, layer: str) -> list[str]:
    """Returns the labels of the items of an output."""
    from dsstne._commands import sources
    from dsstne.errors import InvalidArgumentError, InvalidDataError
    from dsstne.textfile import read_index

    known = None if layer != model.output or model.items is None else list(map(str, model.items))
    if given.o is None:
        if known is None:
            raise InvalidArgumentError(f"-o: {given.n} has no names for the layer {layer!r}; give the features' index")
        return known
    labels: list[str] = read_index(given.o).tolist()
    sources.check_size("-o", given.o, len(labels), model.outputs[layer], layer, given.n)
    for number, (label, name) in enumerate(zip(labels, known or [], strict=False)):
        if label != name:
            raise InvalidDataError(
                f"-o: {given.o} has the feature {label!r} at {number}, and {given.n} has {name!r}: "
                "the network was trained with another index"
            )
    return labels


def data_sets(model: Model) -> dict[str, str]:
    """Returns the names of the data sets that the layers of a model take, as far as they are known."""
    import json

    from dsstne._netcdf_network import ATTRIBUTE

    try:
        kept = json.loads(model.attributes.get(ATTRIBUTE, "{}"))["datasets"]
        return {layer: name for layer, name in kept.items() if name}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _samples(given: Namespace, model: Model) -> dict[str, Source]:
    """Reads the matrices of the inputs, as wide as the layers."""
    from dsstne._commands import sources
    from dsstne.errors import InvalidArgumentError, InvalidDataError
    from dsstne.textfile import read_index

    names = data_sets(model)
    is_text = sources.kind_of(given.r) == "text"
    if is_text and given.i is None:
        raise InvalidArgumentError(f"-i is missing: {given.r} is a text, which needs the index of the features")
    features = None if given.i is None else read_index(given.i)
    first = next(iter(model.inputs))
    if features is not None and len(model.inputs) == 1:
        sources.check_size("-i", given.i, len(features), model.inputs[first], first, given.n)
    # A layer without a data set has its own name for one in a file of DSSTNE.
    if is_text and given.d is not None and names.get(first) not in (None, first, given.d, f"{given.d}_input"):
        raise InvalidArgumentError(
            f"-d: the layer {first!r} of {given.n} takes the data set {names[first]!r}, and not {given.d}_input"
        )
    read = sources.by_layer("-r", given.r, [*model.inputs], names, given, features=features, values=given.t)
    for layer, source in read.items():
        read[layer] = sources.fitted("-r", given.r, source, model.inputs[layer], layer, given.n)
        if features is not None and source.items is not None and list(features) != list(map(str, source.items)):
            raise InvalidDataError(f"-r: {given.r} has other features than -i, {given.i}, or in another order")
    return read


def _length(given: Namespace, layer: str, units: int, is_output: bool) -> int | None:
    """Returns the number of units of a line; None = all, in their order."""
    from dsstne.errors import InvalidArgumentError

    if given.k is None:
        return min(_K, units) if is_output else None
    if given.k > units:
        what = "items" if is_output else "units"
        raise InvalidArgumentError(f"-k is {given.k:,}, and the layer {layer!r} has {units:,} {what}")
    k: int = given.k
    return k
