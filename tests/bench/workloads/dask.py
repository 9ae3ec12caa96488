"""What Dask adds: the time of a job above its training, and the bytes that a search sends through the scheduler."""

from __future__ import annotations

import contextlib
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.lines import Goal, Line
from scipy import sparse

import dsstne

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(r) Dask: a job above its training, bytes through the scheduler"
WORKERS = 4
OPTIONS: dict[str, Any] = {"hidden": 16, "progress": False, "threads": 1, "devices": "cpu"}


def lines(bench: Bench) -> Iterator[Line]:
    """On a cluster of processes on this machine, the scheduler in this one."""
    import distributed

    import dsstne.dask

    X = sparse.random_array((500, 60), density=0.1, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    cluster = distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        overheads = [overhead(client, X, bench.repeats(20, 40)) for _ in range(bench.repeats(3, 7) + 1)][1:]
        yield Line("a job above its training, median", "ms", overheads, goal=Goal("value", 100, 30))
        count = 1000 if bench.full else 100
        with Traffic(cluster.scheduler.address) as traffic, tempfile.TemporaryDirectory() as store:
            rates = np.geomspace(1e-4, 1e-1, count)
            space = [{"learning_rate": float(rate)} for rate in rates]
            begin = time.perf_counter()
            found = dsstne.dask.search(
                client, X, space, store=store, metric="ndcg@10", epochs=18, rungs=3, batch_size=100, **OPTIONS
            )
            seconds = time.perf_counter() - begin
        results = len(found.report.table)
        yield Line(
            f"bytes through the scheduler, a candidate of {count:,}",
            "kB",
            [traffic.bytes / count / 1e3],
            goal=Goal("value", 10, 2),
            parameters={"candidates": count, "results": results, "bytes": traffic.bytes},
            note=f"{traffic.bytes / 1e6:.1f} MB for {results:,} trainings in {seconds:.0f} s",
        )


def overhead(client: Any, X: sparse.csr_array, times: int) -> float:
    """Returns the median of the seconds of jobs, less that of trainings here, which take turns."""
    here, there = [], []
    for _ in range(times):
        begin = time.perf_counter()
        dsstne.fit(X, epochs=2, **OPTIONS)
        middle = time.perf_counter()
        dsstne.dask.fit(client, X, epochs=2, **OPTIONS)
        here.append(middle - begin)
        there.append(time.perf_counter() - middle)
    return float(np.median(there) - np.median(here))


class Traffic(contextlib.AbstractContextManager["Traffic"]):
    """Counts what the scheduler, which is in this process, reads and writes.

    The client is in this process too, but its end of a connection is not counted, whose other end is the scheduler's.

    Args:
        address: Address of the scheduler.

    Attributes:
        bytes: The count.
    """

    def __init__(self, address: str) -> None:
        from tornado.iostream import IOStream

        self._port, self._stream = int(address.rsplit(":", 1)[1]), IOStream
        self._real = IOStream.read_from_fd, IOStream.write_to_fd
        self.bytes = 0

    def __enter__(self) -> Traffic:
        def counting(real: Any) -> Any:
            def call(stream: Any, data: Any) -> int | None:
                ours = self._is_of_scheduler(stream)
                count: int | None = real(stream, data)
                self.bytes += (count or 0) * ours
                return count

            return call

        self._stream.read_from_fd, self._stream.write_to_fd = map(counting, self._real)
        return self

    def _is_of_scheduler(self, stream: Any) -> bool:
        try:
            return bool(stream.socket.getpeername()[1] != self._port)
        except OSError:  # it is closed
            return False

    def __exit__(self, *_: object) -> None:
        self._stream.read_from_fd, self._stream.write_to_fd = self._real
