"""Contestants that take turns on one machine.

Each contestant lives in a process of its own, so that none leaves spinning threads, a changed memory allocator or
a full heap to the other; while one works, the other waits for its next call. The ratio of two turns that follow
each other is less disturbed by the machine's moods than a ratio of means.
"""

from __future__ import annotations

import multiprocessing
import statistics
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection


class Contestant:
    """An object that is made in a process of its own, and whose methods are called there."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, make, arguments), daemon=True)
        self._process.start()
        other.close()
        self._receive()

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method; what it raises is raised here."""
        self._pipe.send((method, arguments))
        return self._receive()

    def _receive(self) -> Any:
        try:
            fine, result = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"a contestant died with exit code {self._process.exitcode}") from None
        if not fine:
            raise RuntimeError(f"a contestant failed:\n{result}")
        return result

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()  # ends the process
        self._process.join()


def _serve(pipe: Connection, make: Callable[..., Any], arguments: Sequence[Any]) -> None:
    try:
        target = make(*arguments)
        pipe.send((True, None))
        while True:
            method, given = pipe.recv()
            pipe.send((True, getattr(target, method)(*given)))
    except EOFError:
        pass
    except BaseException:
        pipe.send((False, traceback.format_exc()))


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range as text: `2.31 (2.27-2.40)`."""
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def ratios(slower: Sequence[float], faster: Sequence[float]) -> list[float]:
    """How many times as long the first took, turn by turn."""
    return [a / b for a, b in zip(slower, faster, strict=True)]
