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

# Addresses that the library reserves, in bytes: 1.25 GiB are tables of Go's memory manager, the rest is room for work.
_ADDRESSES = 1_400 << 20


def check() -> bool:
    """Checks the limits of this process; reports whether its address space is limited.

    Raises:
        LibraryError: A limit is too low for the library.
    """
    if sys.platform != "linux":
        return False
    limited = _check_addresses()  # first: a thread needs addresses
    _check_threads()
    return limited


def _check_addresses() -> bool:
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


def _check_threads() -> None:
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
