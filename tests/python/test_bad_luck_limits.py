"""Limits of the system on threads and addresses give errors in words, or fewer threads; they never end the process."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")

# Runs uses of the library in children that were forked before the first use, each with limits of its own.
HEAD = """
import ctypes, os, resource, sys
import numpy as np, scipy.sparse, dsstne
X = scipy.sparse.csr_array((np.random.default_rng(0).random((2000, 300)) < 0.1).astype(np.float32))
def use(threads, devices="cpu"):
    model = dsstne.fit(X, hidden=[32], epochs=2, progress=False, threads=threads, devices=devices)
    model.recommend(X, k=5, threads=threads, devices=devices)
    with dsstne.Trainer(model, X, threads=threads, devices=devices) as trainer:
        used = max(device["threads"] for device in trainer.plan()["devices"])
    return f"{used} threads, checksum {int(model.tensor('output.weight').view(np.uint32).sum())}"
def child(limit, *arguments, **options):
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        try:
            limit()
            print(use(*arguments, **options))
        except dsstne.DsstneError as error:
            print(type(error).__name__, error)
        sys.stdout.flush()
        os._exit(0)
    status = os.waitpid(number, 0)[1]
    if status:
        print("died of", status)
        sys.stdout.flush()
"""

# A user without other processes, for whom the limit on processes holds; the files stay readable.
NOBODY = """
def processes(n):
    def limit():
        resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
        os.setresuid(50_000 + os.getpid() % 10_000, 0, 0)
        none = (ctypes.c_uint32 * 6)()
        version = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert ctypes.CDLL(None, use_errno=True).capset(version, none) == 0, os.strerror(ctypes.get_errno())
    return limit
"""
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become a user without other processes"
)


def test_an_address_space_that_is_too_small_is_an_error_in_words(python):
    out = python(
        HEAD + "def addresses(n):\n"
        "    return lambda: resource.setrlimit(resource.RLIMIT_AS, (n, n))\n"
        "for n in (300, 800, 1000, 1200, 1400, 1500):\n"
        "    child(addresses(n << 20), 2)\n"
    ).splitlines()
    assert len(out) == 6
    for line in out:
        assert line.startswith("LibraryError the address space of this process is limited to"), line
        assert "ulimit -v" in line


@pytest.mark.long
def test_the_address_space_that_the_error_names_is_enough(python):
    out = python(
        HEAD + "from dsstne import _limits\n"
        "def least():\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (200 << 20,) * 2)\n"
        "    try:\n        _limits.check_addresses()\n"
        "    except dsstne.LibraryError as error:\n"
        "        needed = int(str(error).split('ulimit -v ')[1].split('`')[0])\n"
        "    return needed\n"
        "sys.stdout.flush()\n"
        "a, b = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(b, str(least()).encode()); os._exit(0)\n"
        "needed = int(os.read(a, 100))\n"
        "for n in (needed, needed + 100_000, needed + 200_000, needed + 500_000):\n"
        "    for threads in (2, 64):\n"
        "        child(lambda: resource.setrlimit(resource.RLIMIT_AS, (n << 10,) * 2), threads)\n"
    ).splitlines()
    assert len(out) == 8
    for line in out:
        assert line.split(" ")[1] == "threads,", line
    assert len({line.split("checksum ")[1] for line in out}) == 1


@pytest.mark.long
@needs_root
def test_a_limit_on_processes_is_an_error_in_words_or_caps_the_threads(python):
    out = python(
        HEAD + NOBODY + "child(lambda: None, 2)\n"
        "for n in (1, 4, 8, 12):\n    child(processes(n), 2)\n"
        "for n in (13, 14, 16, 20):\n    child(processes(n), 8)\n"
        "child(processes(40), 64)\n"
        "child(processes(40), None, devices='cpu:64')\n"
        "child(processes(400), 64)\n"
    ).splitlines()
    assert len(out) == 12
    checksum = out[0].split("checksum ")[1]
    for line in out[1:5]:
        assert line.startswith("LibraryError the system lets this process start "), line
        assert "ulimit -u" in line
    for line in [*out[5:10], out[11]]:
        assert line.endswith("threads, checksum " + checksum), line
    assert 8 <= int(out[9].split()[0]) < 40
    assert out[10].startswith("OutOfMemoryError the system has no thread left for the device cpu["), out[10]
    assert out[11].startswith("64 threads")


def pids_folder():
    """A cgroup that limits processes, which the caller removes; None where it cannot be made."""
    name = f"dsstne-test-{os.getpid()}"
    for parent in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
        with contextlib.suppress(OSError):
            folder = parent / name
            folder.mkdir()
            if (folder / "pids.max").exists():
                return folder
            folder.rmdir()
    return None


def test_a_cgroups_limit_on_processes_caps_the_threads(python):
    folder = pids_folder()
    if folder is None:
        pytest.skip("cgroups with the controller pids cannot be made here")
    try:
        out = python(
            HEAD + "def join(n):\n"
            "    def limit():\n"
            "        open(sys.argv[1] + '/pids.max', 'w').write(str(n))\n"
            "        open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
            "    return limit\n"
            "child(join(6), 2)\n"
            "child(join(40), 64)\n",
            folder,
        ).splitlines()
        assert out[0].startswith("LibraryError the system lets this process start "), out
        assert 8 <= int(out[1].split(" threads, ")[0]) < 40, out
    finally:
        folder.rmdir()
