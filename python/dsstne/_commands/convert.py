"""``dsstne convert``: writes data or a network in another format."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Mapping, Sequence

    from dsstne._commands.parts import Part

# The endings of names and the formats that they stand for; the longest that fits counts.
_ENDINGS = {
    ".arrow": "arrow",
    ".dsstne": "dsstne",
    ".mtx": "mtx",
    ".mtx.gz": "mtx",
    ".nc": "netcdf",
    ".npz": "npz",
    ".xc": "extreme",
    ".xc.gz": "extreme",
    ".xc.txt": "extreme",
    ".xc.txt.gz": "extreme",
    ".txt": "text",
    ".txt.gz": "text",
}
_SUFFIXES = {"features": "_input", "labels": "_output"}  # of DSSTNE's names of data sets


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    text = "Writes data or a network in another format. The content of IN tells what it is."
    parser = flags.Parser("convert", text)
    kinds = "NetCDF, a file of Dataset.save, .npz of SciPy, Matrix Market, text, extreme classification, or a network"
    parser.operand("input", "IN", type=flags.path, help=f"file to read: {kinds}")
    parser.operand("output", "OUT", type=flags.path, help="file to write")
    formats = tuple(dict.fromkeys(_ENDINGS.values()))
    parser.flag("--to", type=flags.word(*formats), metavar="FORMAT", help=f"{', '.join(formats)} (default: by OUT)")
    parser.flag("-d", type=flags.name, metavar="NAME", help="name of the data set in a NetCDF file")
    both = "features or labels: what the matrix is, where a file has both (default: both, or features)"
    parser.flag("--part", type=flags.word(*_SUFFIXES), metavar="PART", help=both)
    parser.flag("--labels", type=flags.path, metavar="FILE", help="file with the labels of the samples of IN")
    index = "index of the features; written with those of IN if it does not exist"
    parser.flag("--features", type=flags.path, metavar="FILE", help=index)
    index = "index of the samples; written with those of IN if it does not exist"
    parser.flag("--samples", type=flags.path, metavar="FILE", help=index)
    kinds = "values of a text that is read: indicator (the default) makes all 1, analog reads them"
    parser.flag("-t", type=flags.word("indicator", "analog"), metavar="TYPE", help=kinds)
    parser.flag("--overwrite", action="store_true", help="replace OUT and its indexes if they exist")
    flags.reading(parser)
    given = parser.parse(arguments)
    ending = max((end for end in _ENDINGS if given.output.endswith(end)), key=len, default="")
    given.to = given.to or _ENDINGS.get(ending)
    if given.to is None:
        parser.error(f"OUT, {given.output}, must end with {', '.join(_ENDINGS)}; or --to names its format")
    if given.output.endswith(".gz") and given.to not in ("mtx", "text", "extreme"):
        parser.error(f"OUT, {given.output}: a file of the format {given.to} cannot be compressed; leave .gz out")
    if given.labels is not None and given.to not in ("netcdf", "extreme"):
        parser.error(f"--labels: a file of the format {given.to} holds one matrix; netcdf and extreme hold two")
    if given.labels is not None and given.part == "labels":
        parser.error("--labels names the labels, so that IN has the features; leave --part out")
    return given


def run(given: Namespace) -> None:
    """Reads IN and writes OUT."""
    from dsstne._commands import locks, outputs, sources
    from dsstne.errors import InvalidArgumentError

    indexes = {f"--{key}": getattr(given, key) for key in ("features", "samples")}
    made = {flag: path for flag, path in indexes.items() if path is not None and not os.path.exists(path)}  # noqa: PTH110
    read = {"IN": given.input, "--labels": given.labels, **{f: path for f, path in indexes.items() if f not in made}}
    kind = sources.kind_of(given.input)
    written = {"OUT": given.output, **made}
    outputs.check_distinct(written, {flag: path for flag, path in read.items() if path is not None})
    for flag, path in written.items():
        outputs.check(flag, path)
    _check_new(given, [given.output])
    if kind == "dsstne" or (kind == "netcdf" and _is_network(given.input)):
        _convert_network(given)
        return
    if given.to == "dsstne":
        raise InvalidArgumentError(f"{given.input} holds data, and a .dsstne file a network; give OUT another ending")
    with locks.held(made.values()):
        # Another command may have made an index in the meantime.
        made = {flag: path for flag, path in made.items() if not os.path.exists(path)}  # noqa: PTH110
        read |= {flag: path for flag, path in indexes.items() if flag not in made}
        _convert_data(given, kind, made, {flag: path for flag, path in read.items() if path is not None})


def _is_network(path: str) -> bool:
    from dsstne import _netcdf_file

    with _netcdf_file.reading(path) as file:
        return "layers" in file


def _check_new(given: Namespace, paths: Sequence[str]) -> None:
    """Refuses to replace files without ``--overwrite``."""
    from dsstne.errors import InvalidArgumentError

    for path in paths:
        if os.path.exists(path) and not given.overwrite:  # noqa: PTH110
            raise InvalidArgumentError(f"{path} exists already; give OUT another name, or --overwrite to replace it")


def _finish(given: Namespace, result: str, findings: Sequence[str], lost: Sequence[str]) -> None:
    """Writes the last lines for the user."""
    lines = [f"{given.output}: {result}", *findings]
    lines += [f"warning: {given.output} has no place for {what}" for what in lost]
    print("\n".join(lines), file=sys.stderr)


# ---- networks ----


def _convert_network(given: Namespace) -> None:
    """Writes a network with its weights."""
    import dsstne
    from dsstne import _netcdf_model
    from dsstne._commands import outputs, parts
    from dsstne._netcdf_network import ATTRIBUTE
    from dsstne.errors import InvalidArgumentError

    for flag in ("-d", "--part", "--labels", "--features", "--samples", "-t"):
        if getattr(given, flag.lstrip("-")) is not None:
            raise InvalidArgumentError(f"{flag} is for data, and {given.input} is a network; leave it out")
    if given.to not in ("netcdf", "dsstne"):
        raise InvalidArgumentError(f"{given.input} is a network; OUT must end with .nc or .dsstne")
    parts.need(given, given.input, os.path.getsize(given.input))  # noqa: PTH202
    with dsstne.load(given.input, threads=given.threads) as model:
        lost = ["the state of the training, with which it would go on"] if model._checkpoint else []
        labels: dict[str, Any] = {}
        if given.to == "netcdf":
            _netcdf_model.check(model, given.output)
            has = {"the history of the training": model.history, "the report of fit()": model.report}
            own = sorted(set(model.attributes) - {ATTRIBUTE})
            lost += [what for what, value in (has | {f"the attributes {', '.join(own)}": own}).items() if value]
            if model.items is not None:
                labels[f"{given.output}.features"] = list(map(str, model.items))
        labels = _writable(labels, (), lost)
        _check_new(given, [*labels])
        with outputs.together([*labels]) as names:
            _write_indexes(labels, names)
            if given.to == "netcdf":
                _netcdf_model.save(model, given.output)
            else:
                model.save(given.output)
        result = f"{model._parameters:,} parameters"
    _remove_stale(given, labels)
    _finish(given, result, [], lost)


def _remove_stale(given: Namespace, written: Collection[str]) -> None:
    """Removes indexes of the file that OUT has replaced, which would give its names to the new one."""
    from pathlib import Path

    for suffix in ("features", "samples", "labels"):
        if given.overwrite and (path := f"{given.output}.{suffix}") not in {*written, given.features, given.samples}:
            Path(path).unlink(missing_ok=True)


# ---- data ----


def _convert_data(given: Namespace, kind: str, made: Mapping[str, str], read: dict[str, str]) -> None:
    """Writes one matrix, or features and labels."""
    from dsstne._commands import outputs, sources
    from dsstne.errors import InvalidArgumentError
    from dsstne.textfile import read_index

    known = {
        key: read_index(getattr(given, key))
        for key in ("features", "samples")
        if getattr(given, key) is not None and f"--{key}" not in made
    }
    holds_two = given.to in ("netcdf", "extreme")
    if kind == "extreme" and given.part is None and given.labels is None and not holds_two:
        raise InvalidArgumentError(
            f"{given.input} holds features and labels, and {given.output} one matrix; --part features or --part labels "
            "says which"
        )
    theirs = None if given.labels is None else sources.kind_of(given.labels)
    notes: list[str] = []
    if given.to == "netcdf" and given.d is None and {kind, theirs or kind} != {"netcdf"}:
        raise InvalidArgumentError(f"-d is missing: it names the data set of {given.output}")
    first = given.part or "features"
    found = _read(given.input, kind, given, first, known, two=holds_two and given.part is None and given.labels is None)
    if theirs is not None:
        of_rows = {"samples": found[first].source.rows} if theirs == "text" else {}
        found |= _read(given.labels, theirs, given, "labels", of_rows, two=False)
        notes = _align(given, found, first)
    if given.d is not None and given.to != "netcdf" and all(part.source.name is None for part in found.values()):
        raise InvalidArgumentError("-d names a data set of a NetCDF file, and neither IN nor OUT is one; leave it out")
    lost = [text for name, part in found.items() for text in _lost(part, name, given.to)]
    planned = _indexes(given, found, made)
    labels = _writable(planned, planned if given.to == "text" else made.values(), lost)
    _check_new(given, [path for path in labels if path not in made.values()])
    outputs.check_distinct({path: path for path in (given.output, *labels)}, read)
    own = () if given.to in ("netcdf", "arrow") else (given.output,)  # which are whole or not there by themselves
    with outputs.together([*labels, *own]) as names:
        _write_indexes(labels, names)
        _write(names.get(given.output, given.output), given, found)
    _remove_stale(given, labels)
    sizes = [f"{sources.counted(part.shape[1], name[:-1])} ({part.data.nnz:,} stored)" for name, part in found.items()]
    findings = notes + [part.source.findings for part in found.values() if part.source.findings]
    rows = sources.counted(next(iter(found.values())).shape[0], "sample")
    _finish(given, f"{rows}, {' and '.join(sizes)}", [*dict.fromkeys(findings)], lost)


def _align(given: Namespace, found: dict[str, Part], first: str) -> list[str]:
    """Gives features and labels of two files the same samples; returns notes for the user."""
    from dsstne._commands import indexes
    from dsstne._commands.parts import Part

    paths = {first: given.input, "labels": given.labels}
    places = {first: given.input, "labels": f"--labels: {given.labels}"}
    made, notes = indexes.aligned([(place, found[part].source) for part, place in places.items()])
    for part, source in zip(places, made, strict=True):
        if source is not found[part].source:
            found[part] = Part(source, paths[part])
    return notes


def _read(path: str, kind: str, given: Namespace, part: str, known: Mapping[str, Any], *, two: bool) -> dict[str, Part]:
    """Reads a part of a file, or both parts if there are ``two``; ``known`` has the labels of indexes."""
    from dsstne._commands import extreme, market, matrixfiles, sources
    from dsstne._commands.parts import Part
    from dsstne._commands.sources import Source

    if kind == "text":
        source = sources.read_text(path, given, values=given.t or "indicator", **known)
        if given.t is None and _has_values(path):
            hint = f"{path}: its values count as 1; -t analog keeps them"
            source = source._replace(findings="\n".join(filter(None, [source.findings, hint])))
        return {part: Part(source._replace(matrix=source.matrix.to_scipy()), path)}
    if kind == "extreme":
        found = extreme.read(path, given, ("features", "labels") if two else (part,))
    elif kind == "netcdf":
        found = _read_netcdf(path, given, part, two)
    elif kind == "mapped":
        found = {part: sources.read_mapped(path)}
    else:
        found = {part: Source((matrixfiles.read_npz if kind == "npz" else market.read)(path, given))}
    return {
        name: Part(_named(source, path, known if name == part else {**known, "features": None}), path)
        for name, source in found.items()
    }


def _has_values(path: str) -> bool:
    """Reports whether a text has a value in its first lines."""
    from dsstne._commands import sources

    with sources.opened(sources.files_of(path)[0]) as text:
        return any(b"," in line.partition(b"\t")[2] for line in text.read(1 << 16).split(b"\n"))


def _read_netcdf(path: str, given: Namespace, part: str, two: bool) -> dict[str, Any]:
    """Reads the data sets that ``-d`` names."""
    from dsstne import netcdf
    from dsstne._commands import parts
    from dsstne._commands.sources import Source
    from dsstne.errors import NotFoundError

    listed = {one.name: one for one in netcdf.datasets(path)}
    base = given.d
    if base is None and len(listed) == 2 and two:
        base = next((name.removesuffix("_input") for name in listed if name.endswith("_input")), None)
    pair = {name: f"{base}{suffix}" for name, suffix in _SUFFIXES.items()}
    candidates = [*listed] if base is None and len(listed) == 1 else [base, pair[part]]
    chosen = {part: next((name for name in candidates if name in listed), "")}
    if two and base not in listed and set(pair.values()) <= set(listed):
        chosen = pair
    if "" in chosen.values():
        there = f"{'the data sets' if len(listed) > 1 else 'the data set'} {', '.join(map(repr, listed))}"
        wanted = "" if given.d is None else f", and not {given.d!r}"
        raise NotFoundError(f"{path} has {there}{wanted}; -d names the one to convert")
    found = {}
    for what, name in chosen.items():
        one = listed[name]
        parts.need(given, path, 32 * one.rows + 28 * one.entries)
        data = netcdf.read(path, name, as_target=what == "labels")
        found[what] = Source(
            data.matrix,
            data.items,
            data.rows,
            data.sample_weight,
            one.stored_only,
            name,
            items_digest=one.items_digest,
            rows_digest=one.rows_digest,
        )
    return found


def _named(source: Any, path: str, known: Mapping[str, Any]) -> Any:
    """Names columns and rows by indexes, which may have grown since the file was made.

    Raises:
        InvalidDataError: The index is another one than the file has, or too short for a file without names.
    """
    from dsstne._commands import indexes
    from dsstne.errors import InvalidDataError

    for key, field in (("features", "items"), ("samples", "rows")):
        labels, what = known.get(key), key.removesuffix("s")
        if labels is None:
            continue
        own, index = indexes.of(what, path, source), indexes.Index(f"--{key}", len(labels), labels)
        indexes.compare(what, index, own)  # a file without names gets its names here, so that a note would say nothing
        if index.size >= own.size:
            source = source._replace(**{field: labels[: own.size]})
        elif own.labels is None:
            raise InvalidDataError(f"{indexes.different(what, index, own)}; the index must have all of them")
    return source


def _lost(part: Part, name: str, target: str) -> list[str]:
    """Says what a format has no place for."""
    from dsstne._commands.sources import counted

    source, lost = part.source, []
    nameless = {"features": source.items_digest if source.items is None else None}
    nameless["samples"] = source.rows_digest if source.rows is None else None
    lost += [
        f"the digest of its {what}, of which {part.path} has no names" for what, known in nameless.items() if known
    ]
    if target != "netcdf":
        if source.sample_weight is not None:
            lost.append("the weights of the samples")
        if source.stored_only:
            lost.append("the mark that only stored entries count (the key stored_only of a loss has this effect)")
    if target in ("netcdf", "arrow") and part.is_rounded():
        lost.append("all digits of the values, which are rounded to float32")
    if (part.exact is None or target in ("netcdf", "arrow") or (name, target) == ("labels", "extreme")) and (
        zeros := part.zeros()
    ):
        lost.append(f"{counted(zeros, 'zero')} that {'is' if zeros == 1 else 'are'} stored")
    if (name, target) == ("labels", "extreme") and not part.is_boolean and part.data.nnz:
        lost.append("the values of the labels")
    return lost


def _indexes(given: Namespace, found: Mapping[str, Part], made: Mapping[str, str]) -> dict[str, Sequence[str] | None]:
    """Returns the labels of the indexes that are written, by their paths; None where there are none.

    These are the indexes that flags name and that do not exist, and those of names that OUT has no place for. A text
    has no place for the order of its features.

    Raises:
        MissingFileError: A flag names an index that does not exist, and IN has no names to make it of.
    """
    from dsstne.errors import MissingFileError

    labels: dict[str, Any] = {}
    (name, part), *others = found.items()
    ending = name if given.to == "extreme" else "features"
    has_place = {"features": given.to in ("netcdf", "arrow"), "samples": given.to in ("netcdf", "arrow", "text")}
    own = {"features": (ending, _items(given, part)), "samples": ("samples", _rows(found))}
    for key, (suffix, names) in own.items():
        if (path := made.get(f"--{key}")) is not None:
            labels[path] = names
            if names is None:
                text = f"{path}: no such index, and {given.input} has no names to make it of"
                raise MissingFileError(text, errno.ENOENT, path)
        elif getattr(given, key) is None and not has_place[key]:
            labels[f"{given.output}.{suffix}"] = names
    for name, part in others:
        labels |= {f"{given.output}.{name}": part.source.items} if given.to == "extreme" else {}
    return {path: None if names is None else list(map(str, names)) for path, names in labels.items()}


def _rows(found: Mapping[str, Part]) -> Any:
    """Returns the names of the samples, which one of two files may have alone; None if there are none."""
    return next((part.source.rows for part in found.values() if part.source.rows is not None), None)


def _items(given: Namespace, part: Part) -> Any:
    """Returns the names of the columns; a text needs some, so that columns without names have their numbers."""
    return range(part.shape[1]) if part.source.items is None and given.to == "text" else part.source.items


def _writable(labels: Mapping[str, Sequence[str] | None], needed: Collection[str], lost: list[str]) -> dict[str, Any]:
    """Returns the indexes that can hold their labels; others are lost, or errors if they are needed.

    Raises:
        InvalidArgumentError: An index that is needed cannot hold its labels.
    """
    from dsstne._commands.matrixfiles import unwritable
    from dsstne.errors import InvalidArgumentError

    kept = {}
    for path, names in labels.items():
        if names is None:
            continue
        if not (fault := unwritable(names)):
            kept[path] = names
        elif path in needed:
            raise InvalidArgumentError(f"{path}: {fault}")
        else:
            lost.append(f"names, and the index {path} cannot hold them: {fault}")
    return kept


def _write_indexes(labels: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> None:
    from dsstne.textfile import write_index

    for path, listed in labels.items():
        write_index(names[path], listed)


def _write(path: str, given: Namespace, found: Mapping[str, Part]) -> None:
    """Writes the data file."""
    from dsstne._commands import extreme, market, matrixfiles

    if given.to == "netcdf":
        _write_netcdf(path, given, found)
        return
    (part,) = list(found.values())[:1]
    if given.to == "arrow":
        part.data.save(path, items=part.source.items, rows=part.source.rows, threads=given.threads)
        return
    with matrixfiles.new_file(path, given.output) as file:
        if given.to == "extreme":
            extreme.write(file, found.get("features"), found.get("labels"))
        elif given.to == "text":
            rows = range(part.shape[0]) if part.source.rows is None else part.source.rows
            matrixfiles.write_text(file, part, list(map(str, rows)), list(map(str, _items(given, part))))
        else:
            (matrixfiles.write_npz if given.to == "npz" else market.write)(file, part)


def _write_netcdf(path: str, given: Namespace, found: Mapping[str, Part]) -> None:
    """Writes data sets with the names that they have, or that ``-d`` gives."""
    from dsstne import netcdf
    from dsstne.errors import InvalidArgumentError

    names = {
        what: part.source.name or given.d + (_SUFFIXES[what] if len(found) > 1 else "") for what, part in found.items()
    }
    if len({*names.values()}) < len(names):
        raise InvalidArgumentError(f"the features and the labels are both data sets with the name {names['labels']!r}")
    sources = {names[what]: part.source for what, part in found.items()}
    rows = _rows(found)
    netcdf.write(
        path,
        {names[what]: part.data for what, part in found.items()},
        items={name: one.items for name, one in sources.items() if one.items is not None},
        rows=None if rows is None else list(map(str, rows)),
        sample_weight={name: one.sample_weight for name, one in sources.items() if one.sample_weight is not None},
        stored_only=[name for name, one in sources.items() if one.stored_only],
    )
