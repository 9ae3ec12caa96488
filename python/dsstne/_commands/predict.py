"""``dsstne predict``: writes the best items of each sample, or the values of a layer, as text."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from dsstne._commands.filter_sets import FilterSet
    from dsstne._commands.indexes import Index
    from dsstne._commands.sources import Source
    from dsstne.model import Model

_K = 100  # items of a sample, where -k does not say


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    parser = flags.Parser("predict", "Writes the best items of each sample, or the values of a layer, as text.")
    parser.flag("-n", required=True, type=flags.path, metavar="NETWORK", help="trained network: .nc or .dsstne")
    parser.flag("-r", required=True, type=flags.path, metavar="SAMPLES", help="samples: text, NetCDF or Dataset.save")
    written = "text file to write, replaced if it exists; JSON of -f may name others"
    parser.flag("-s", required="-f" not in arguments, type=flags.path, metavar="RECS", help=written)
    parser.flag("-d", type=flags.name, metavar="NAME", help="data set NAME_input or NAME is the network's input")
    parser.flag("-i", type=flags.path, metavar="FEATURES", help="index of the input's features; a text needs it")
    index = "index of the output's features (default: the names in NETWORK)"
    parser.flag("-o", type=flags.path, metavar="FEATURES", help=index)
    listed = (
        "items to leave out for each sample, like SAMPLES (values do not count), or JSON that names several filters"
    )
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
    import numpy as np

    from dsstne import load
    from dsstne._commands import filter_sets, filters, indexes, listing, outputs, ranking, sources
    from dsstne.progress import Steps

    sets = filter_sets.of(given)
    with load(given.n, threads=given.threads) as model:
        layer = _layer(given, model)
        is_output = layer in model.outputs
        labels, whole, notes = _labels(given, model, layer) if is_output else (None, [], [])
        data, shared, more = _samples(given, model, labels, sets)
        first = next(iter(data.values()))
        count = first.matrix.shape[0]
        samples = list(map(str, first.rows if first.rows is not None else range(count)))
        units = model._layers[layer]["size"] if labels is None else len(labels)
        k = _length(given, layer, units, is_output)
        findings = [one.findings for one in data.values()] + more + notes
        options = {key: getattr(given, key) for key in ("devices", "threads", "memory_limit")}
        X = {name: source.matrix for name, source in data.items()}
        task = ranking.Task(model, X, count, layer, units, {"batch_size": given.b, **options})
        if labels is None or k is None:
            blocks = ranking.values_of(task, k)
        else:
            data_sets = indexes.kept(model, "datasets")
            reader = filters.Reader(
                given, samples, labels, whole, model.outputs[layer], layer, data_sets, first, shared
            )
            chosen = [reader.read(one) for one in sets]
            findings += reader.findings
            blocks = ranking.best_items(task, k, chosen)
        names = np.array(list(map(str, range(units))) if labels is None else labels, object)
        short, done = [0] * len(sets), 0
        bar = Steps("samples", wanted=True)
        with outputs.texts([one.output for one in sets]) as files:
            for answers in blocks:
                block = samples[done : done + len(answers[0][0])]
                done += len(block)
                for number, (file, (ids, values)) in enumerate(zip(files, answers, strict=True)):
                    for text in listing.lines(block, names, ids, values, given.p):
                        file.write(text)
                    short[number] += int(np.count_nonzero(ids[:, -1] < 0))
                bar.update({"steps": count, "done": done})
        bar.close()
    results = []
    for one, fewer in zip(sets, short, strict=True):
        results.append(f"{one.output}: {sources.counted(count, 'line')}")
        if fewer:
            results[-1] += f", of which {fewer:,} have fewer than {k:,} items, because the filter leaves no more"
    print("\n".join([*results, *dict.fromkeys(filter(None, findings))]), file=sys.stderr)


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


def _labels(given: Namespace, model: Model, layer: str) -> tuple[list[str], list[str], list[str]]:
    """Returns the labels of the items of an output, those of the whole index, and notes for the user."""
    from dsstne._commands import indexes
    from dsstne.errors import InvalidArgumentError
    from dsstne.textfile import read_index

    known = indexes.of_layer(model, layer, given.n)
    if given.o is None:
        if known.labels is None:
            raise InvalidArgumentError(f"-o: {given.n} has no names for the layer {layer!r}; give the features' index")
        return known.labels, known.labels, []
    whole = read_index(given.o)
    labels, notes = _of_layer("-o", given.o, whole, known)
    return labels.tolist(), whole.tolist(), notes


def _of_layer(flag: str, path: str, labels: Any, known: Index) -> tuple[Any, list[str]]:
    """Returns the labels of an index that belong to the units of a layer, and notes for the user.

    Raises:
        InvalidDataError: The network was trained with another index.
    """
    from dsstne._commands import indexes, sources
    from dsstne.errors import InvalidDataError

    own = indexes.Index(f"{flag}: {path}", len(labels), labels)
    notes = [note] if (note := indexes.compare("feature", own, known)) else []
    if own.size > known.size:  # of an index that was not compared, more labels are an error
        more = own.size - known.size
        notes.append(f"{path} has {sources.counted(more, 'feature')} that {known.place} does not have: left out")
    elif not indexes.fits("feature", own, known):
        raise InvalidDataError(f"{indexes.different('feature', own, known)}: give the index of the network")
    return labels[: known.size], notes


def _samples(
    given: Namespace, model: Model, labels: Sequence[str] | None, sets: Sequence[FilterSet]
) -> tuple[dict[str, Source], Source | None, list[str]]:
    """Reads the matrices of the inputs, as wide as the layers.

    Returns:
        What was read by layer; the text of the samples for filters that are it; and notes for the user.
    """
    from dsstne._commands import filters, indexes, sources
    from dsstne.errors import InvalidArgumentError
    from dsstne.textfile import read_index

    names = indexes.kept(model, "datasets")
    is_text = sources.kind_of(given.r) == "text"
    if is_text and given.i is None:
        raise InvalidArgumentError(f"-i is missing: {given.r} is a text, which needs the index of the features")
    features = None if given.i is None else read_index(given.i)
    first = next(iter(model.inputs))
    notes: list[str] = []
    known = {layer: indexes.of_layer(model, layer, given.n) for layer in model.inputs}
    if features is not None and len(model.inputs) == 1:
        whole = features
        features, notes = _of_layer("-i", given.i, whole, known[first])
        known[first] = known[first]._replace(labels=whole)  # the same as those of the layer, and maybe more
    # A layer without a data set has its own name for one in a file of DSSTNE.
    if is_text and given.d is not None and names.get(first) not in (None, first, given.d, f"{given.d}_input"):
        raise InvalidArgumentError(
            f"-d: the layer {first!r} of {given.n} takes the data set {names[first]!r}, and not {given.d}_input"
        )
    # A filter that is the text of the samples, with the same index, is read with them.
    is_shared = is_text and features is not None and labels == list(features)
    is_shared = is_shared and any(sources.is_same(path, given.r) for one in sets for path in one.samples)
    reading: dict[str, Any] = {"values": given.t}
    if is_shared and given.filter_values and given.t == "indicator":
        reading = {"values": "analog", "default_value": 0.0}
    read = sources.by_layer("-r", given.r, [*model.inputs], names, given, features=features, **reading)
    # Without a value a line of the samples may be malformed where that of a filter is not.
    source = next(iter(read.values()))
    is_shared = is_shared and "no_value" not in source.matrix.info["text"]["malformed"]
    shared = source if is_shared else None
    if reading["values"] != given.t:
        read[first] = source._replace(matrix=filters.ones(source.matrix.to_scipy(), bool))
    for layer, source in read.items():
        if features is not None and len(model.inputs) > 1:
            own = indexes.Index(f"-i: {given.i}", len(features), features)
            notes.append(indexes.compare("feature", own, indexes.of("feature", f"-r: {given.r}", source)))
        read[layer], more = indexes.as_wide("-r", given.r, source, known[layer])
        notes += more
    return read, shared, [note for note in dict.fromkeys(notes) if note]


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
