"""DSSTNE's files and commands together: text, NetCDF, a saved network, predict, and neighbours of vectors."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from measure.alternate import UnavailableError
from measure.lines import Goal, Line
from scipy import sparse

from workloads import dsstne_files, dsstne_text, neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measure.bench import Bench

TITLE = "(dsstne) DSSTNE's files and commands: text, NetCDF, networks, predict, neighbours"

UNITS, K = 128, 10


class Sizes(NamedTuple):
    """Entries, samples and features.

    Attributes:
        generated: Of the text that generateNetCDF reads; the shape of MovieLens 20M.
        predicted: Of the text that predict reads; the shape of MovieLens 10M.
        stored: Of the NetCDF data set: 8 bytes an entry.
    """

    generated: tuple[int, int, int] = (20_000_000, 138_493, 26_744)
    predicted: tuple[int, int, int] = (10_000_054, 69_878, 10_677)
    stored: tuple[int, int, int] = (125_000_000, 1_000_000, 100_000)


TINY = Sizes((20_000, 139, 267), (10_000, 70, 107), (10_000, 100, 1_000))


def lines(bench: Bench) -> Iterator[Line]:
    """Each part in turn; their files are in a temporary folder, which takes 2 GB."""
    sizes = TINY if bench.tiny else Sizes()
    yield from dsstne_text.lines(bench)
    with tempfile.TemporaryDirectory() as folder:
        if not (find_spec("h5netcdf") and find_spec("h5py")):
            yield Line("NetCDF", unavailable="h5netcdf or h5py is not installed")
        else:
            yield generated(bench, Path(folder), sizes.generated)
            yield from networks(bench, Path(folder), sizes.generated[2])
            yield stored(bench, Path(folder), sizes.stored)
        yield from predicted(bench, Path(folder), sizes.predicted)
    try:
        yield from neighbours.lines(bench)
    except UnavailableError as error:
        yield Line("neighbours", unavailable=str(error))


def command(folder: Path, *arguments: str) -> float:
    """Runs a command of dsstne in a folder and returns its seconds, from the start of Python to its end."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "dsstne", *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"dsstne {' '.join(arguments)}: {done.stderr}")
    return time.perf_counter() - begin


def timed(call: Callable[[], Any]) -> float:
    """Returns the seconds of a call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def generated(bench: Bench, folder: Path, sizes: tuple[int, int, int]) -> Line:
    """The command that makes a NetCDF data set of a text, with both indexes."""
    dsstne_text.write(folder / "T", *sizes, times=True)
    flags = ["generateNetCDF", "-d", "gl", "-i", "T", "-o", "gl.nc", "-f", "features", "-s", "samples", "-c"]
    seconds = []
    for _ in range(bench.repeats(3, 5)):
        (folder / "samples").unlink(missing_ok=True)
        seconds.append(command(folder, *flags))
    (folder / "T").unlink()
    note = f"{sizes[0]:,} entries, {(folder / 'gl.nc').stat().st_size / 1e6:.0f} MB"
    return Line("generateNetCDF, the whole command", "s", seconds, note=note)


def networks(bench: Bench, folder: Path, items: int) -> Iterator[Line]:
    """Saving and loading a network in DSSTNE's format."""
    import dsstne

    X = sparse.csr_array(([True], ([0], [0])), shape=(1, items))
    with dsstne.fit(X, network=dsstne_files.definition([UNITS]), epochs=0, progress=False) as model:
        saved = [timed(lambda: model.save(folder / "net.nc")) for _ in range(bench.repeats(5, 9))]
    loaded = [timed(lambda: dsstne.load(folder / "net.nc").close()) for _ in range(bench.repeats(5, 9))]
    note = f"{(folder / 'net.nc').stat().st_size / 1e6:.1f} MB"
    yield Line(f"save a network {items:,} - {UNITS} - {items:,} as .nc", "ms", saved, note=note)
    yield Line("load it", "ms", loaded)


def stored(bench: Bench, folder: Path, sizes: tuple[int, int, int]) -> Line:
    """Reading a data set with values, beside h5py, which copies the arrays and checks nothing."""
    import h5py

    import dsstne

    entries, samples, features = sizes
    random, each = np.random.default_rng(0), entries // samples
    width = features // each  # columns of a row ascend: one of each part of the features
    columns = random.integers(0, width, (samples, each), np.int32) + np.arange(each, dtype=np.int32) * width
    ends = np.arange(samples + 1, dtype=np.int32) * each
    values = random.random(entries, np.float32)
    path = folder / "data.nc"
    dsstne.netcdf.write(path, {"data": sparse.csr_array((values, columns.ravel(), ends), shape=(samples, features))})
    del values, columns

    def peer() -> None:
        with h5py.File(path) as file:
            for array in file.values():
                array[()]

    ours, theirs = [], []
    for _ in range(bench.repeats(3, 5)):
        ours.append(timed(lambda: dsstne.netcdf.read(path)))
        theirs.append(timed(peer))
    note = f"{path.stat().st_size / 1e9:.2f} GB"
    path.unlink()
    return Line("read a NetCDF data set", "s", ours, theirs, f"h5py {h5py.__version__}", note=note)


def predicted(bench: Bench, folder: Path, sizes: tuple[int, int, int]) -> Iterator[Line]:
    """The command predict with no filter, the samples as filter, values of a filter, and several filters at once."""
    import dsstne

    _, samples, features = sizes
    dsstne_text.write(folder / "T", *sizes, times=True)
    labels = [str(item) for item in range(features)]
    dsstne.write_index(folder / "index", labels)
    (folder / "node").write_text("".join(f"{label}\n" for label in labels[::20]))
    with (folder / "T").open() as text, (folder / "halves").open("w") as file:
        for line in text:
            sample, _, rest = line.rstrip("\n").partition("\t")
            file.write(f"{sample}\t{':'.join(one.partition(',')[0] + ',0.5' for one in rest.split(':'))}\n")
    several = [
        {"sampleFilters": "T", "outputFile": "a"},
        {"sampleFilters": "T", "nodeFilters": "node", "outputFile": "b"},
    ]
    (folder / "F").write_text(json.dumps({"filters": several}))
    with dsstne.Dataset.from_text(folder / "T", features=labels) as data:
        network = dsstne_files.definition([UNITS])
        with dsstne.fit(data, network=network, items=labels, epochs=1, progress=False, threads=bench.threads) as model:
            model.save(folder / "net.dsstne")
    flags = ["predict", "-n", "net.dsstne", "-r", "T", "-i", "index", "-k", str(K)]
    shape = f"{samples:,} samples, {features:,} items, {UNITS} units, k {K}"
    cases = {
        "no filter": ["-s", "recs"],
        "the samples as filter": ["-s", "recs", "-f", "T"],
        "a filter whose values multiply": ["-s", "recs", "-f", "halves", "--filter-values"],
        "two filters, one with a node filter": ["-f", "F"],
    }
    for case, more in cases.items():
        seconds = [command(folder, *flags, *more) for _ in range(bench.repeats(3, 5))]
        goal = Goal("value", 6, 3) if more[-2:] == ["-f", "T"] else None
        yield Line(f"predict: {case}", "s", seconds, goal=goal, note=f"the whole command; {shape}")
