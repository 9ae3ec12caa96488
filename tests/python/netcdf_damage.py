"""Damaged NetCDF files, read in processes of their own, because a file can crash libhdf5, or keep it for ever.

A file follows from its number. `python tests/python/netcdf_damage.py FIRST COUNT` reads COUNT files, beginning with
FIRST, and prints what has become of them. It fails if an error is not one of dsstne that names the file. What libhdf5
itself does wrong is counted and shown: crashes, hangs, and files that take much memory.
"""

import collections
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

SECONDS = 2  # of a processor that a file may take
PATIENCE = 300  # seconds without a line after which a process is taken to wait forever
GROWTH = 256 << 20  # bytes of memory that a file may take
ROOM = 2 << 30  # bytes after which the system refuses more
OUTCOMES = ("refused", "read", "crash", "hang", "memory", "other error")


# ---- the files ----


def write_samples(folder):
    """Writes whole files to damage: data sets, and networks whose names begin with `network`."""
    import netcdf_files
    import scipy.sparse
    from test_netcdf_data import BOOLEAN, INDEXED, WEIGHTED, dense_set, sparse_set, write

    import dsstne

    X = scipy.sparse.random_array((200, 60), density=0.1, format="csr", rng=0, dtype=np.float32)
    names = [f"item {n}" for n in range(60)]
    write(folder / "data-indexed.nc", sparse_set(INDEXED | WEIGHTED))
    attributes, *dense = dense_set(WEIGHTED)
    write(folder / "data-two.nc", sparse_set(BOOLEAN), (attributes | {"name": "dense"}, *dense))
    dsstne.netcdf.write(folder / "data-named.nc", {"in": X, "out": X != 0}, items={"in": names}, rows=range(200))
    compress(folder / "data-named.nc", folder / "data-packed.nc")
    netcdf_files.autoencoder().write(folder / "network-plain.nc")
    netcdf_files.autoencoder().normalise(1).write(folder / "network-normalised.nc")
    netcdf_files.every_kind("softmax", {"normalize_rows": True}).save(folder / "network-saved.nc")


def compress(path, packed):
    """Copies a file; its variables have chunks that the deflate filter has packed."""
    import h5py

    with h5py.File(path) as old, h5py.File(packed, "w") as new:
        for key, value in old.attrs.items():
            new.attrs[key] = value
        for name, data in old.items():
            new.create_dataset(name, data=data[()], dtype=data.dtype, compression="gzip", chunks=True)


def damage(whole, random):
    """Returns a damaged copy of a file, whose first 8 bytes are left: they say that it is NetCDF-4."""
    broken, size = bytearray(whole), len(whole)
    way = random.choice(["bits", "bytes", "zeros", "cut", "moved"])
    if way == "bits":
        for at in random.integers(8, size, random.integers(1, 17)):
            broken[at] ^= 1 << random.integers(8)
    elif way == "bytes":
        for at in random.integers(8, size, random.integers(1, 41)):
            broken[at] = random.integers(256)
    elif way == "cut":
        del broken[random.integers(8, size) :]
    else:
        for at in random.integers(8, size, random.integers(1, 5)):
            length = min(int(2 ** random.uniform(0, 10)), size - at)
            start = random.integers(8, size - length + 1)
            broken[at : at + length] = bytes(length) if way == "zeros" else whole[start : start + length]
    return bytes(broken)


# ---- a process that reads them ----


def read(path):
    """Reads all that a file holds."""
    import dsstne

    if path.name.startswith("network"):
        dsstne.load(path).close()
        dsstne.netcdf.network(path)
    else:
        for data in dsstne.netcdf.datasets(path):
            dsstne.netcdf.read(path, data.name)


def outcome(path):
    """Reads a file and returns one of OUTCOMES, with the error."""
    import dsstne

    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak so far is forgotten
    before = peak()
    try:
        read(path)
        found = "read"
    except dsstne.DsstneError as error:
        found = "refused " + type(error).__name__
        if path.name not in str(error):
            found = f"other error: it does not name the file: {error}"
    except Exception as error:
        found = f"other error: {type(error).__name__}: {error}"
    grown = peak() - before
    return found if grown <= GROWTH else f"memory: {grown:,} bytes; {found}"


def peak():
    """The most memory that this process has had, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024


def work(folder, first, last):
    """Reads the files with the numbers from first to last, and prints a line before and after each one."""
    faulthandler.enable()
    os.nice(5)
    names = sorted(folder.glob("*.nc"))
    whole = [name.read_bytes() for name in names]
    for name in names:
        read(name)  # libraries are loaded, and a file that is not damaged can be read
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + ROOM, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory(dir=folder) as mine:
        for number in range(first, last):
            sample = number % len(names)
            path = Path(mine, names[sample].name)
            path.write_bytes(damage(whole[sample], np.random.default_rng(number)))
            print(number, flush=True)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # SIGPROF ends a process that libhdf5 does not come back to
            print(" ".join(outcome(path).split()), flush=True)
            signal.setitimer(signal.ITIMER_PROF, 0)


# ---- the process that counts ----


def outcomes(command, first, last, patience=PATIENCE):
    """Runs ``command FIRST LAST``, and again behind each file that ends it; yields numbers of files and outcomes."""
    while first < last:
        late, begun = threading.Event(), False
        arguments = [*command, str(first), str(last)]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            for line in lines(process, patience, late):
                if begun:
                    yield first, line
                    first += 1
                else:
                    assert int(line) == first, line
                begun = not begun
            status = process.wait()
            errors.seek(0)
            said = errors.read()
        if not begun:
            assert (status, first) == (0, last), (status, first, said)
            return
        place = next((line.strip() for line in said.splitlines() if line.startswith("  File")), said[-300:])
        is_late = late.is_set() or status == -signal.SIGPROF
        yield first, "hang" if is_late else f"crash: status {status}: {place}"
        first += 1


def lines(process, patience, late):
    """Yields what a process prints; ends it, and sets ``late``, if there is no new line for some seconds."""

    def end():
        late.set()
        process.kill()

    while True:
        timer = threading.Timer(patience, end)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line.endswith("\n"):
            return
        yield line.strip()


def count(first, files, show=lambda line: None):
    """Reads damaged files, and returns how many have had each outcome.

    ``show`` gets a line for each that is neither read nor refused.
    """
    processes = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        write_samples(Path(folder))
        command = [sys.executable, __file__, "--work", folder]

        def read_share(n):
            kinds = collections.Counter()
            for number, text in outcomes(command, *(first + files * m // processes for m in (n, n + 1))):
                kind = next(kind for kind in OUTCOMES if text.startswith(kind))
                kinds[kind] += 1
                if kind not in ("refused", "read"):
                    show(f"file {number}: {text}")
            return kinds

        with ThreadPoolExecutor(processes) as pool:
            kinds = sum(pool.map(read_share, range(processes)), collections.Counter())
    assert kinds.total() == files
    return kinds


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        kinds = count(int(sys.argv[1]), int(sys.argv[2]), show=lambda line: print(line, flush=True))
        print(", ".join(f"{name}: {kinds[name]:,}" for name in OUTCOMES))
        sys.exit(kinds["other error"] > 0)
