"""The tasks of a call on a Dask cluster: sends them, waits, watches the workers, and sends tasks again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from distributed.scheduler import heartbeat_interval

from dsstne._dask_cluster import (
    CANCELLED,
    FAILURES,
    ask,
    check_open,
    distributed,
    failure,
    in_words,
    own_task,
    place,
    shown,
    workers_of,
)
from dsstne.errors import CancelledError, ClusterError, DsstneError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SILENT = 20.0  # seconds without a sign of life after which the tasks of a worker begin on another one, too
_GRACE = 30.0  # seconds in which a suitable worker must come back, as one does that its nanny starts again
_SLICE = 1.0  # seconds between two looks at tasks that are under way
_LOOK = 5.0  # seconds between two questions to the scheduler
_ATTEMPTS = 4  # how often a task is sent at most


class UnreachableError(ClusterError):
    """The result of a task is lost, or on workers that give no sign of life."""


class Task:
    """A task of Dask that is sent again if its worker gives no sign of life; the first result counts.

    Args:
        what: Its name in messages.
        send: Submits it, and returns its future. Called with True if it was sent before.
        needs: Futures of its data, which Dask cannot bring from a worker that gives no sign of life.
        renews: Whether ``send`` sends all data, so that the task can be sent again if its data are lost.

    Attributes:
        futures: The future of each time that it was sent.
    """

    def __init__(self, what: str, send: Callable[[bool], Any], needs: Sequence[Any] = (), renews: bool = False) -> None:
        self.what, self.needs, self.renews = what, needs, renews
        self._send = send
        self.futures = [send(False)]

    @property
    def future(self) -> Any:
        """The future that counts: one with an end if there is one, else the last one."""
        order = ("finished", "error", "pending")
        return min(reversed(self.futures), key=lambda one: order.index(one.status) if one.status in order else 3)

    @property
    def done(self) -> bool:
        """Whether it has a result, has failed, or was dropped by Dask."""
        return bool(self.future.status != "pending")

    def again(self, why: str) -> None:
        """Sends it again.

        Args:
            why: The reason, for the message if it was sent too often.
        """
        if len(self.futures) >= _ATTEMPTS:
            raise ClusterError(f"{self.what}: it was sent {_ATTEMPTS} times; the last time {why}")
        self.futures.append(self._send(True))

    def forget(self, future: Any) -> None:
        """Drops a future whose result cannot be fetched, and sends the task again if it has no other one."""
        if len(self.futures) == 1:
            if not self.renews:
                raise ClusterError(f"{self.what}: its result was lost, or its worker gives no sign of life")
            self.again("its worker gave no sign of life")
        self.futures.remove(future)

    def cancel(self) -> None:
        """Cancels it; a scheduler that is gone has no more of it."""
        for future in self.futures:
            with suppress(Exception):
                future.cancel()

    def release(self) -> None:
        """Ends the times that do not count, and lets Dask forget it, which would compute it again for a lost result."""
        for future in self.futures:
            if future.status == "pending":
                with suppress(Exception):
                    future.cancel()
            future.release()


class Session:
    """The tasks of a call: sends them, waits for them, and watches the workers meanwhile.

    Args:
        client: The client.
        workers: Addresses, names or hosts of the workers that may run tasks; None = any.
        resources: What each task takes of the resources of a worker.
        what: The call, in messages.

    Attributes:
        client, what: As given.
        placement: Where tasks may run, of the workers that were there at the last look.
        silent: Addresses of the workers that give no sign of life.
    """

    def __init__(self, client: Any, workers: Any, resources: Any, what: str) -> None:
        self.client, self.what, self._wanted = client, what, (workers, resources)
        self.silent: set[str] = set()
        self._known = workers_of(client)
        self.placement = place(client, workers, resources, self._known)
        self._signs: dict[str, tuple[float, int]] = {}  # the last sign of life, and in how many looks it was the last
        self._next_look = time.monotonic() + _LOOK
        self._alone_since: float | None = None
        self._is_wanted = own_task()
        self._bound: dict[Any, list[str]] = {}  # by key, the only workers that may run a task

    @property
    def living(self) -> list[str]:
        """Addresses of the workers that could run a task and give signs of life."""
        return [address for address in self.placement.eligible if address not in self.silent]

    # ---- sending ----

    def submit(self, function: Callable[..., Any], *arguments: Any, key: str, near: Sequence[str] = ()) -> Any:
        """Submits a task of Dask and returns its future.

        Args:
            function: The function.
            *arguments: Its arguments.
            key: Its key.
            near: Workers that should run it, if they are free to.
        """
        given: dict[str, Any] = {"resources": self.placement.resources} if self.placement.resources else {}
        bound = self._wanted[0] is not None
        near = [address for address in near if address in self.living]
        if bound or self.silent or near:
            given |= {"workers": near if near and not bound else self.living or self.placement.eligible}
            given |= {"allow_other_workers": not bound}
        if bound:
            self._bound[key] = given["workers"]
        check_open(self.client)
        try:
            return self.client.submit(function, *arguments, key=key, pure=False, **given)
        except (OSError, RuntimeError, *FAILURES) as error:
            check_open(self.client)
            raise in_words(self.client, error, self.what) from None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function on a worker and returns its result."""
        return self.results([self.task(function, *arguments)])[0]

    def task(self, function: Callable[..., Any], *arguments: Any) -> Task:
        """Returns a task that calls a function on a worker."""
        name = f"dsstne-{function.__name__.strip('_')}-{uuid.uuid4().hex[:12]}"
        keys = (f"{name}-{n}" for n in itertools.count())
        needs = [one for one in arguments if isinstance(one, distributed.Future)]
        send = lambda _: self.submit(function, *arguments, key=next(keys))  # noqa: E731
        return Task(self.what, send, needs, renews=not needs)

    def scatter(self, value: Any, copies: bool = False) -> Any:
        """Sends a value to a worker and returns its future; ``copies`` sends it to all workers that may run a task."""
        for _ in range(_ATTEMPTS):
            with suppress(UnreachableError, KeyError):  # a KeyError is about a worker that is gone
                return self._scatter(value, copies, self.living)
            self.look(now=True)
        raise ClusterError(f"{self.what}: data could not be sent to workers, which died or gave no sign of life")

    def _scatter(self, value: Any, copies: bool, targets: list[str]) -> Any:
        given = {"workers": targets, "broadcast": copies, "hash": False, "asynchronous": True}
        try:
            return self._in_time(lambda: self.client.scatter(value, **given), lambda: self.silent.intersection(targets))
        except DsstneError:
            raise
        except (OSError, RuntimeError, *FAILURES) as error:  # a worker died meanwhile
            check_open(self.client)
            raise UnreachableError(str(in_words(self.client, error, self.what))) from None

    # ---- waiting ----

    def settle(self, tasks: Sequence[Task], timeout: float | None = None) -> None:
        """Waits until all tasks are done or one has failed.

        Args:
            tasks: The tasks.
            timeout: Seconds to wait at most; None = as long as it takes.

        Raises:
            TimeoutError: They are still under way after this time.
            ClusterError: The scheduler is gone, or no worker is left that could do the work.
            CancelledError: The task that calls was cancelled.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self.wait(tasks, _SLICE if end is None else max(0.0, min(_SLICE, end - time.monotonic())))
            states = {task.future.status for task in tasks}
            if states <= {"finished"} or states - {"finished", "pending"}:
                return
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{self.what} is still under way after {timeout:g} s")

    def wait(self, tasks: Sequence[Task], seconds: float, when: str = "ALL_COMPLETED") -> None:
        """Waits some seconds for tasks, and sends those again whose workers give no sign of life.

        Args:
            tasks: The tasks.
            seconds: How long.
            when: When to return before; an argument of ``distributed.wait``.

        Raises:
            ClusterError: As :meth:`settle`.
            CancelledError: The task that calls was cancelled.
        """
        pending = [future for task in tasks for future in task.futures if future.status == "pending"]
        try:
            with self.client.as_current():  # distributed.wait() asks no client of its futures, but the current one
                distributed.wait(pending, timeout=seconds, return_when=when)
        except FAILURES:
            pass  # the status of the futures tells
        except (OSError, RuntimeError, ValueError):
            check_open(self.client)
            raise
        for task in tasks:
            if task.renews and task.future.status not in ("finished", "error", "pending"):
                check_open(self.client)
                if len(task.futures) < _ATTEMPTS:
                    self.look(now=True)
                    task.again("Dask dropped it")
        if self.look():
            self._replace(tasks)

    def result(self, task: Task) -> Any:
        """Waits for a task and returns its result.

        Raises:
            DsstneError: That of the task, or of the cluster. Otherwise as :meth:`settle`.
        """
        while True:
            self.settle([task])
            if task.future.status != "finished":
                raise failure(self.client, task.future, task.what)
            try:
                return self.gather([task])[0]
            except UnreachableError:
                task.forget(task.future)

    def results(self, tasks: Sequence[Task]) -> list[Any]:
        """Waits for tasks and returns their results; raises what the first one that fails has raised."""
        self.settle(tasks)
        for task in tasks:
            if task.future.status not in ("finished", "pending"):
                raise failure(self.client, task.future, task.what)
        try:
            return self.gather(tasks)
        except UnreachableError:
            return [self.result(task) for task in tasks]

    def gather(self, tasks: Sequence[Task], direct: bool | None = None) -> list[Any]:
        """Fetches the results of finished tasks.

        Args:
            tasks: The tasks.
            direct: Whether the results come from their workers themselves; None = as Dask has it.

        Raises:
            UnreachableError: One is lost, or only on workers that give no sign of life.
        """
        futures = [task.future for task in tasks]
        coming = lambda: self.client.gather(futures, direct=direct, asynchronous=True)  # noqa: E731
        try:
            return list(self._in_time(coming, lambda: self.only_on_silent(futures)))
        except DsstneError:
            raise
        except CANCELLED as error:  # the workers were restarted
            check_open(self.client)
            raise UnreachableError(str(in_words(self.client, error, self.what))) from None
        except (OSError, RuntimeError, *FAILURES) as error:
            check_open(self.client)
            words = f"{type(error).__name__} {' '.join(str(error).split()):.300}"
            raise ClusterError(f"{self.what}: a result could not be fetched from its worker ({words})") from None

    def _in_time(self, coming: Callable[[], Any], stuck: Callable[[], Any]) -> Any:
        """Runs a coroutine of the client and returns its result.

        Args:
            coming: Returns the coroutine.
            stuck: Reports whether it waits for workers that are silent.

        Raises:
            UnreachableError: It is stuck.
        """
        check_open(self.client)
        running = None
        try:
            while True:
                if self.silent and stuck():
                    raise UnreachableError(f"{self.what}: workers that have its data give no sign of life")
                running = running or asyncio.run_coroutine_threadsafe(coming(), self.client.loop.asyncio_loop)
                concurrent.futures.wait([running], _SLICE)
                if running.done():
                    return running.result()
                self.look()
        finally:
            if running is not None:
                running.cancel()

    # ---- watching ----

    def look(self, now: bool = False) -> bool:
        """Asks the scheduler for the workers, if it was not asked for some time; reports whether it was.

        Args:
            now: Ask in any case.

        Raises:
            ClusterError: The scheduler is gone, no worker was there for some time, or none gives a sign of life.
            CancelledError: The task that calls was cancelled.
        """
        if not self._is_wanted():
            raise CancelledError(f"{self.what}: the task that waited for it was cancelled")
        clock = time.monotonic()
        if clock < self._next_look and not now:
            return False
        counts = clock >= self._next_look
        self._next_look = clock + _LOOK if counts else self._next_look
        self._known = workers_of(self.client)
        eligible: list[str] = []
        with suppress(ClusterError, InvalidArgumentError):  # none, or none of these
            eligible = place(self.client, *self._wanted, self._known).eligible
        self.placement = self.placement._replace(eligible=eligible)
        if counts:
            self._count_signs()
        self._alone_since = None if eligible else (self._alone_since or clock)
        if self._alone_since is not None and clock - self._alone_since >= _GRACE:
            raise ClusterError(
                f"{self.what}: no worker that could do it was there for {_GRACE:g} s; {self._wanted_words()}"
            )
        if eligible and not self.living:
            raise ClusterError(
                f"{self.what}: the worker {', '.join(eligible[:4])} has given no sign of life for {SILENT:g} s, and "
                "there is no other one that could do it"
            )
        return True

    def _count_signs(self) -> None:
        """Finds the workers that are silent: those whose last sign of life was the same in several looks.

        Clocks of other machines do not count, nor the time in which this process or the scheduler was stopped.
        """
        signs = {}
        for address, info in self._known.items():
            last = info.get("last_seen", 0.0)
            before, looks = self._signs.get(address, (None, 0))
            signs[address] = last, looks + 1 if last == before else 0
        self._signs = signs
        limit = max(SILENT, 4 * heartbeat_interval(len(signs)))
        self.silent = {address for address, (_, looks) in signs.items() if looks * _LOOK >= limit}

    def _wanted_words(self) -> str:
        if self.placement.workers is not None:
            return f"it may run on {', '.join(self.placement.workers[:4])} only"
        wanted = self.placement.resources
        return f"it needs {shown(wanted)} on one worker" if wanted else "start workers"

    def only_on_silent(self, futures: Sequence[Any]) -> bool:
        """Reports whether the value of one of these futures is only on workers that give no sign of life."""
        held = ask(self.client, "who_has", keys=[future.key for future in futures])
        return any(where and set(where) <= self.silent for where in held.values())

    def _replace(self, tasks: Sequence[Task]) -> None:
        """Sends the tasks again that wait for workers that are silent or gone."""
        if not self.living:
            return
        stuck: set[Any] = set()
        if self.silent:
            under_way = ask(self.client, "processing")
            stuck = {key for address in self.silent for key in under_way.get(address, ())}
        for task in tasks:
            pending = [future for future in task.futures if future.status == "pending"]
            if task.done or not pending:
                continue
            if all(one.key in stuck or self._is_gone(one.key) for one in pending):
                task.again("its worker gave no sign of life")
            elif self.silent and task.needs and self.only_on_silent(task.needs):
                if not task.renews:
                    raise ClusterError(
                        f"{task.what}: its data are on a worker that has given no sign of life for {SILENT:g} s "
                        f"({', '.join(sorted(self.silent)[:4])}). Give the path of a saved dataset, which outlives "
                        "workers"
                    )
                task.again("its data were on a worker that gave no sign of life")

    def _is_gone(self, key: Any) -> bool:
        """Reports whether a task may only run on workers that are gone."""
        return key in self._bound and not any(address in self._known for address in self._bound[key])
