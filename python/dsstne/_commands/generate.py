"""``dsstne generateNetCDF``: makes a data file of DSSTNE from text."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    parser = flags.Parser("generateNetCDF", "Makes a data file of DSSTNE, which is NetCDF-4, from text.")
    parser.flag("-d", required=True, type=flags.name, metavar="NAME", help="name of the data set")
    parser.flag("-i", required=True, type=flags.path, metavar="TEXT", help="text file, or a folder of them; .gz too")
    parser.flag("-o", required=True, type=flags.path, metavar="OUT.nc", help="file to write; replaced if it exists")
    index = "index of the features, which is read; features that it lacks are left out"
    parser.flag("-f", required=True, type=flags.path, metavar="FEATURES", help=index)
    index = "index of the samples: extended by new ones, or written if it does not exist"
    parser.flag("-s", required=True, type=flags.path, metavar="SAMPLES", help=index)
    parser.flag("-c", action="store_true", help="write a new index of the features")
    parser.flag("-m", action="store_true", help="merge: extend the index of the features by new ones")
    kinds = "indicator (the default): all values are 1; analog: the values of the text"
    parser.flag("-t", type=flags.word("indicator", "analog"), default="indicator", metavar="TYPE", help=kinds)
    flags.reading(parser)
    given = parser.parse(arguments)
    if given.c and given.m:
        parser.error("-c makes a new index of the features, and -m extends the old one; give one of them")
    return given


def run(given: Namespace) -> None:
    """Reads the text and writes the data file and the indexes."""
    from dsstne import _netcdf_data, _netcdf_file
    from dsstne._commands import locks, outputs, sources
    from dsstne.errors import InvalidArgumentError, InvalidDataError, MissingFileError
    from dsstne.textfile import read_index, write_index

    _netcdf_file.need_packages()
    if sources.kind_of(given.i) != "text":
        raise InvalidDataError(f"-i: {given.i} is a data file already; expected text")
    written = {"-o": given.o, "-s": given.s, **({"-f": given.f} if given.c or given.m else {})}
    outputs.check_distinct(written, {"-i": given.i, "-f": given.f} if len(written) == 2 else {"-i": given.i})
    for flag, path in written.items():
        outputs.check(flag, path)
    with locks.held([path for flag, path in written.items() if flag != "-o"]):
        features: Any = None
        if not given.c:
            try:
                features = read_index(given.f)
            except MissingFileError as error:
                text = f"{error}; -c makes a new index of the features"
                raise MissingFileError(text, error.errno or 0, given.f) from None
        samples: Any = read_index(given.s) if os.path.exists(given.s) else []  # noqa: PTH110
        source = sources.read_text(
            given.i,
            given,
            features=features,
            samples=samples,
            new_samples="add",
            values=given.t,
            **({"new_features": "add"} if given.m else {}),
        )
        data = source.matrix
        if not data.nnz:
            nothing = f"{given.i}: no feature is left, so there is nothing to write. {source.findings}"
            raise InvalidArgumentError(nothing)

        def write_indexes() -> None:
            if len(source.rows) > len(samples):
                write_index(given.s, source.rows)
            if given.c or (given.m and len(source.items) > len(features)):
                write_index(given.f, source.items)

        matrices, items = {given.d: data.to_scipy()}, {given.d: source.items}
        _netcdf_data.write(given.o, matrices, given.t == "indicator", {}, items, source.rows, (), write_indexes)
    new = len(source.items) - (0 if features is None else len(features))
    print(
        f"{given.o}: data set {given.d} with {sources.counted(len(source.rows), 'sample')} "
        f"({len(source.rows) - len(samples):,} new), {sources.counted(len(source.items), 'feature')} ({new:,} new) "
        f"and {data.nnz:,} entries",
        file=sys.stderr,
    )
    if source.findings:
        print(source.findings, file=sys.stderr)
