"""``dsstne knn``: writes the nearest vectors of a collection for each vector of a text."""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from dsstne._commands.vectors import Block, Reader
    from dsstne.neighbors import Index

# Bytes of vectors in an array. The C library gives blocks of this size back to the system as soon as they are freed.
_PART = 1 << 26
# Types of numbers in the index, by KnnSearch's words and one of ours.
_STORAGES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_K = 100  # neighbours of a vector, where --k does not say


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    parser = flags.Parser("knn", "Writes the nearest vectors of a collection for each vector of a text.")
    texts = "text of the collection: each line a key, a TAB and numbers; several files or folders; .gz too"
    parser.flag("--data-files", required=True, action="append", type=flags.path, metavar="TEXT", help=texts)
    texts = "vectors whose neighbours are wanted, in the same format"
    parser.flag("--input-files", required=True, action="append", type=flags.path, metavar="TEXT", help=texts)
    written = "text to write; replaced if it exists (default: stdout)"
    parser.flag("--output-file", type=flags.path, default="/dev/stdout", metavar="FILE", help=written)
    most = f"neighbours of a vector (default: {_K}, or all if there are fewer)"
    parser.flag("--k", type=flags.count, metavar="K", help=most)
    parser.flag("--metric", type=flags.word("dot", "cosine"), default="dot", help="dot (the default) or cosine")
    parser.flag("--batch-size", type=flags.count, default=128, metavar="ROWS", help="vectors at a time (default: 128)")
    kinds = "how vectors of the collection are kept: " + ", ".join(_STORAGES) + " (default: fp32)"
    parser.flag("--data-type", type=flags.word(*_STORAGES), default="fp32", metavar="TYPE", help=kinds)
    parser.flag("--key-val-delim", type=flags.character, default="\t", metavar="C", help="behind a key (default: TAB)")
    between = "between numbers, and between neighbours (default: space)"
    parser.flag("--vec-delim", type=_delimiter, default=" ", metavar="C", help=between)
    between = "between a neighbour and its score (default: a colon)"
    parser.flag("--id-score-sep", type=_separator, default=":", metavar="TEXT", help=between)
    digits = "digits of a score after its point (default: 3)"
    parser.flag("--score-precision", type=_digits, default=3, metavar="DIGITS", help=digits)
    parser.flag("--output-keys-only", action="store_true", help="write no scores")
    often = "batches from one line about the speed to the next (default: 1000)"
    parser.flag("--report-interval", type=flags.count, default=1000, metavar="BATCHES", help=often)
    flags.computing(parser)
    return parser.parse(arguments)


def _delimiter(text: str) -> str:
    character = flags.character(text)
    if re.fullmatch(r"[0-9A-Za-z.+-]", character):
        raise argparse.ArgumentTypeError(f"{text!r} can be part of a number; expected another character")
    return character


def _separator(text: str) -> str:
    if not text or re.search(r"[\r\n\0]", text):
        raise argparse.ArgumentTypeError(f"expected a text of one line, got {text!r}")
    return text


def _digits(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 99, got {text!r}")
    return int(text)


def run(given: Namespace) -> None:
    """Reads the collection, searches it for each input vector, and writes the lines."""
    from dsstne._commands import outputs, sources
    from dsstne._commands.vectors import Reader, files_of

    data, inputs = files_of("--data-files", given.data_files), files_of("--input-files", given.input_files)
    for flag, texts in (("--data-files", data), ("--input-files", inputs)):
        for text in texts:
            outputs.check_distinct({"--output-file": given.output_file}, {flag: text})
    outputs.check("--output-file", given.output_file, regular=False)
    collection = Reader(data, given, distinct=True)
    keys, index = _index(given, collection)
    with index:
        wanted = Reader(inputs, given, collection.columns, distinct=False)
        count = 0
        with outputs.texts([given.output_file]) as (file,):
            for line in _lines(given, keys, index, wanted.blocks()):
                file.write(line)
                count += 1
    found = {"--data-files": collection.findings(), "--input-files": wanted.findings()}
    findings = [f"{flag}: {text}" for flag, text in found.items() if text]
    print("\n".join([f"{given.output_file}: {sources.counted(count, 'line')}", *findings]), file=sys.stderr)


def _index(given: Namespace, collection: Reader) -> tuple[list[str], Index]:
    """Reads the collection; returns its keys and its vectors."""
    import numpy as np

    from dsstne._commands.sources import counted
    from dsstne.errors import InvalidArgumentError, InvalidDataError, OutOfMemoryError
    from dsstne.neighbors import Index

    start = time.monotonic()
    keys: list[str] = []
    blocks: list[Any] = []
    parts: list[Any] = []
    size = 0
    for block in collection.blocks():
        keys += block.keys
        blocks.append(block.vectors)
        size += block.vectors.nbytes
        if sum(one.nbytes for one in blocks) >= _PART:
            parts.append(np.concatenate(blocks))
            blocks.clear()
        if given.memory_limit is not None and size > given.memory_limit:
            taken = f"the first {len(keys):,} vectors of --data-files take {size:,} bytes"
            raise OutOfMemoryError(f"--memory-limit is {given.memory_limit:,} bytes, and {taken}; give more")
    if not keys:
        found = collection.findings()
        raise InvalidDataError("--data-files: there are no vectors" + (f"; {found}" if found else ""))
    if given.k is not None and given.k > len(keys):
        raise InvalidArgumentError(f"--k is {given.k:,}, and --data-files have {counted(len(keys), 'vector')}")
    parts += blocks
    blocks.clear()
    parts.reverse()
    options = {key: getattr(given, key) for key in ("metric", "devices", "threads", "memory_limit")}
    # A part is freed when it has been copied, so that the vectors are not in memory twice.
    copied = (parts.pop() for _ in range(len(parts)))
    shape = (len(keys), collection.columns or 0)
    index = Index(copied, shape=shape, storage=_STORAGES[given.data_type], **options)
    took = time.monotonic() - start
    print(f"{counted(len(keys), 'vector')} of {counted(index.shape[1], 'number')} in {took:.1f} s", file=sys.stderr)
    return keys, index


def _lines(given: Namespace, keys: Sequence[str], index: Index, blocks: Iterator[Block]) -> Iterator[str]:
    """Searches for the neighbours of vectors, and gives a line for each."""
    k = min(_K, len(keys)) if given.k is None else given.k
    score = "" if given.output_keys_only else f"{given.id_score_sep.replace('%', '%%')}%.{given.score_precision}f"
    form = given.vec_delim.replace("%", "%%").join([f"%s{score}"] * k) + "\n"
    start, batches, done = time.monotonic(), 0, 0
    for block in blocks:
        for first in range(0, len(block.keys), given.batch_size):
            named = block.keys[first : first + given.batch_size]
            ids, scores = index.search(block.vectors[first : first + given.batch_size], k)
            for key, row, values in zip(named, ids.tolist(), scores.tolist(), strict=True):
                found = [keys[place] for place in row]
                parts = found if not score else [part for pair in zip(found, values, strict=True) for part in pair]
                yield f"{key}{given.key_val_delim}{form % tuple(parts)}"
            batches, done = batches + 1, done + len(named)
            if batches % given.report_interval == 0:
                took = time.monotonic() - start
                speed = f"{batches:,} batches in {took:.1f} s, {done / took:,.0f} vectors a second"
                print(speed, file=sys.stderr, flush=True)
