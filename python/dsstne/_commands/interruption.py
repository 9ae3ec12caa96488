"""What a training leaves behind that Ctrl-C or SIGTERM ends, and signals that wait until files are written."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
from typing import TYPE_CHECKING, Any

from dsstne.callbacks import Checkpoint

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator


class _IfInterrupted(Checkpoint):
    """Keeps the state of the run only if Ctrl-C or SIGTERM ends it.

    Args:
        path: The file.
        waiting: What to leave when the trained network is written; from the end of the training on, signals wait for
            that, because there is no file to go on from.
    """

    _after_epochs = False

    def __init__(self, path: str, waiting: contextlib.ExitStack) -> None:
        super().__init__(path)
        self._waiting = waiting

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> None:
        """Writes nothing."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Writes the file after Ctrl-C; another one waits until it is there."""
        if kind is None:
            self._waiting.enter_context(deferred())
            return
        with deferred():
            super().__exit__(kind, *_)


def path_of(given: Namespace) -> str:
    """Returns the file in which the state of a run is kept."""
    return given.checkpoint or f"{given.n}.checkpoint"


def checkpoint(given: Namespace, waiting: contextlib.ExitStack) -> Checkpoint:
    """Returns the callback that keeps the state: after each epoch with ``--checkpoint``, else only if interrupted."""
    return _IfInterrupted(path_of(given), waiting) if given.checkpoint is None else Checkpoint(given.checkpoint)


def explained(given: Namespace, kept: Checkpoint) -> KeyboardInterrupt:
    """Returns an interruption whose text says how to go on, if there is a file to go on from."""
    path = path_of(given)
    if not (os.path.exists(path) and (given.resume or kept._written >= 0)):  # noqa: PTH110
        return KeyboardInterrupt()
    more = [] if given.resume else ["--resume"]
    again = shlex.join(["dsstne", *given.command, *more])
    return KeyboardInterrupt(f"{path} has the state of the run. This goes on with it:\n{again}")


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM wait for the end of the block."""
    if threading.current_thread() is not threading.main_thread():  # where Python allows no handler
        yield
        return
    came: list[int] = []
    waiting = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda number, _: came.append(number)) for one in waiting]
    try:
        yield
    finally:
        for one, handler in zip(waiting, before, strict=True):
            signal.signal(one, handler)
    for number in came[:1]:
        signal.raise_signal(number)
