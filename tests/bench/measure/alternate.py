"""Contestants that take turns on one machine.

Each contestant lives in a process of its own, so that none leaves spinning threads, a changed memory allocator or
a full heap to the other; while one works, the other waits for its next call. The ratio of two turns that follow
each other is less disturbed by the machine's moods than a ratio of means.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection


class UnavailableError(Exception):
    """A contestant cannot do what is asked; the message says why, and the line is reported as not available."""


class Contestant:
    """An object that is made in a process of its own, and whose methods are called there."""

    def __init__(self, make: Callable[..., Any], *arguments: Any, environment: Mapping[str, str] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, make, arguments), daemon=True)
        with _environment(environment or {}):
            self._process.start()
        other.close()
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method; what it raises is raised here."""
        self._pipe.send((method, arguments))
        return self._receive()

    def _receive(self) -> Any:
        try:
            kind, result = self._pipe.recv()
        except EOFError:
            self._process.join()
            if self._process.exitcode == -signal.SIGKILL:
                raise UnavailableError("killed by the system, as when memory runs out") from None
            raise RuntimeError(f"a contestant died with exit code {self._process.exitcode}") from None
        if kind == "unavailable":
            raise UnavailableError(result)
        if kind == "failed":
            raise RuntimeError(f"a contestant failed:\n{result}")
        return result

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(pipe: Connection, make: Callable[..., Any], arguments: Sequence[Any]) -> None:
    try:
        target = make(*arguments)
        pipe.send(("fine", None))
        while True:
            method, given = pipe.recv()
            pipe.send(("fine", getattr(target, method)(*given)))
    except EOFError:
        pass
    except UnavailableError as error:
        pipe.send(("unavailable", str(error)))
    except BaseException:
        pipe.send(("failed", traceback.format_exc()))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables that a child starts with; some are read before its first line runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass
class Turns:
    """What was measured in turns: seconds of each side, and the limit beside ours."""

    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)


def take_turns(
    ours: Callable[[], float],
    peer: Callable[[], float] | None = None,
    limit: Callable[[], float] | None = None,
    repeats: int = 5,
) -> Turns:
    """Calls both sides in turns, whoever was second being first in the next; an untimed turn of each comes first.

    Args:
        ours, peer: do the work and return its seconds.
        limit: measures the machine's limit, before and after each turn of ours. The higher of the two counts, so that a
            disturbed measurement cannot flatter us.
        repeats: number of turns.
    """
    turns = Turns()
    ours()
    if peer is not None:
        peer()
    for turn in range(repeats):
        if peer is not None and turn % 2 == 0:
            turns.peer.append(peer())
        before = limit() if limit else math.nan
        turns.ours.append(ours())
        if limit:
            turns.limit.append(max(before, limit()))
        if peer is not None and turn % 2 == 1:
            turns.peer.append(peer())
    return turns
