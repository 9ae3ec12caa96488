"""Limits of the system that would end the process in the library. They are checked before the library is loaded."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

from dsstne.errors import LibraryError

if sys.platform != "win32":
    import resource

# Threads that the library needs at least: those of Go's runtime, and one for a long call.
_THREADS = 12

# Addresses that the library reserves, in bytes: 1.25 GiB are tables of Go's memory manager; then room for work, of
# which a claim of threads leaves 256 MiB (pool.c).
_ADDRESSES = 1_700 << 20


def check_addresses() -> bool:
    """Checks the limit on the address space; reports whether there is one.

    Raises:
        LibraryError: It is too low for the library.
    """
    if sys.platform != "linux":
        return False
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return False
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]  # what pthread_create reserves for each thread
    threads = _THREADS + 3 * len(os.sched_getaffinity(0))
    needed = used + _ADDRESSES + threads * ((2 << 20) if stack == resource.RLIM_INFINITY else stack)
    if limit < needed:
        enough = ((needed >> 26) + 2) << 16  # KiB, as ulimit has them; the next process may use a bit more
        raise LibraryError(
            f"the address space of this process is limited to {limit:,} bytes (RLIMIT_AS), and the library needs at "
            f"least {needed:,}, most of which it only reserves. Raise the limit to `ulimit -v {enough}` or more, "
            "plus what your models need, or limit the resident memory instead (cgroups; h_rss or --mem of a scheduler)"
        )
    return True


def check_threads() -> None:
    """Checks that the system lets this process start threads. They need addresses, which are to be checked first.

    Raises:
        LibraryError: There are too few for the library.
    """
    if sys.platform != "linux":
        return
    started = _startable(_THREADS)
    if started < _THREADS:
        limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        now = "unlimited" if limit == resource.RLIM_INFINITY else limit
        raise LibraryError(
            f"the system lets this process start {started} more threads, and the library needs {_THREADS} or more. "
            f"Raise the limit of the user (`ulimit -u`, now {now}) or of the container (pids.max; Docker: --pids-limit)"
        )


def _startable(most: int) -> int:
    """Returns how many threads can be started, at most ``most``. Only a trial shows what all limits together leave."""
    end = threading.Event()
    threads: list[threading.Thread] = []
    try:
        with contextlib.suppress(RuntimeError):
            while len(threads) < most:
                thread = threading.Thread(target=end.wait, daemon=True)
                thread.start()
                threads.append(thread)
        return len(threads)
    finally:
        end.set()
        for thread in threads:
            thread.join()
