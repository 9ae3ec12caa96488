"""Held-out items of ``dsstne train``, of which it computes metrics after each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsstne._commands import indexes, sources
from dsstne.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from argparse import Namespace

    from dsstne._commands.sources import Source
    from dsstne.network import Network


def read(
    given: Namespace, network: Network, inputs: dict[str, Source], targets: dict[str, Source]
) -> tuple[Any, list[str]]:
    """Reads the files of ``--validation`` and ``--validation-input``.

    Args:
        given: The flags.
        network: The definition.
        inputs, targets: The data that the network is trained with, by layer.

    Returns:
        What :func:`dsstne.fit` takes as ``validation``, and what the reading of a text found.

    Raises:
        InvalidArgumentError: The network has several outputs.
        InvalidDataError: Rows or columns are not those of the other data.
        DsstneError: A file cannot be read.
    """
    if given.validation is None:
        return None, []
    if len(targets) != 1:
        raise InvalidArgumentError(
            f"--validation: the network has {len(targets)} outputs, and metrics are those of one; train without it"
        )
    findings, pair = [], None
    rows, of_rows = next(iter(inputs.values())), f"-i: {given.i}"
    if given.validation_input is not None:
        pair = _by_layer("--validation-input", given.validation_input, given, network, inputs, f"-i: {given.i}")
        rows, of_rows = next(iter(pair.values())), f"--validation-input: {given.validation_input}"
        findings += [one.findings for one in pair.values()]
    flag = "--validation"
    found = _by_layer(flag, given.validation, given, network, targets, f"-o: {given.o}", rows, of_rows)
    held_out = next(iter(found.values()))
    (same, held_out), notes = indexes.aligned([(of_rows, rows), (f"{flag}: {given.validation}", held_out)])
    if same is not rows:
        raise InvalidDataError(f"{flag}: {given.validation} has samples that {of_rows} lacks")
    findings += [held_out.findings, *notes]
    if pair is None:
        return held_out.matrix, findings
    return ({layer: one.matrix for layer, one in pair.items()}, held_out.matrix), findings


def _by_layer(
    flag: str,
    path: str,
    given: Namespace,
    network: Network,
    like: dict[str, Source],
    of_items: str,
    rows: Source | None = None,
    of_rows: str = "",
) -> dict[str, Source]:
    """Reads a file whose columns are those of the data of the same layers, and whose rows may be given, too."""
    text: dict[str, Any] = {"values": given.t}
    if sources.kind_of(path) == "text":
        items = next(iter(like.values())).items
        for what, names, where in (
            ("features", items, of_items),
            ("samples", [] if rows is None else rows.rows, of_rows),
        ):
            if names is None:
                raise InvalidDataError(f"{flag}: {path} is a text, and {where} has no names of {what} to read it by")
        text["features"] = items
        if rows is not None:
            text["samples"] = rows.rows
    read = sources.by_layer(flag, path, [*like], network.datasets, given, are_targets=rows is not None, **text)
    for layer, one in read.items():
        items = like[layer].items
        if one.items is not None and items is not None and list(map(str, one.items)) != list(map(str, items)):
            raise InvalidDataError(f"{flag}: {path} has other features than {of_items}, or in another order")
    return read
