"""The command ``dsstne``, also ``python -m dsstne``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

from dsstne._commands import ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["main"]

# The commands of DSSTNE: their modules in dsstne._commands, and what they do.
_COMMANDS = {
    "encoder": ("encoder", "train, evaluate or check a network as a CDL file says"),
    "convert": ("convert", "write data or a network in another format"),
    "generateNetCDF": ("generate", "make a data file of DSSTNE from text"),
    "install-commands": ("install", "write scripts with the names of DSSTNE's programs"),
    "knn": ("knn", "write the nearest vectors of a collection for each vector of a text"),
    "predict": ("predict", "write the best items of each sample, or the values of a layer"),
    "train": ("train", "train a network on data files"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status.

    The status is 0 after success, 1 after an error in data, files or devices, 130 after Ctrl-C and 143 after SIGTERM.

    Args:
        arguments: The command and its flags; None = those of the process.

    Raises:
        SystemExit: With status 2 for a mistake in the command line, and 0 for ``-h`` and ``--version``.

    Example:
        >>> from dsstne.cli import main
        >>> main(["doctor"])  # doctest: +ELLIPSIS
        dsstne    ...
        0
    """
    import dsstne

    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0] in _COMMANDS:
        return _run(arguments[0], arguments[1:])
    parser = argparse.ArgumentParser(
        prog="dsstne", description="Deep networks over very wide and very sparse data.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"dsstne {dsstne.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="show the versions, devices and problems of this installation")
    for name, (_, text) in _COMMANDS.items():
        commands.add_parser(name, help=text)
    parser.parse_args(arguments)
    report = dsstne.doctor()
    print(report)
    return 0 if report.ok else 1


def _run(name: str, arguments: Sequence[str]) -> int:
    command = importlib.import_module(f"dsstne._commands.{_COMMANDS[name][0]}")

    def work(job: ranks.Job | None) -> int:
        given = command.parse(arguments)

        def run() -> int:
            if hasattr(given, "devices"):
                given.devices = ranks.devices(given.devices, job)
            command.run(given)
            return 0

        return _reported(name, run)

    return _reported(name, lambda: ranks.together([name, *arguments], work))


def _reported(name: str, work: Callable[[], int]) -> int:
    """Returns the exit status of a command, and writes what went wrong to stderr."""
    ended: list[int] = []  # the signal that ended the command, if it was not Ctrl-C
    try:
        with _terminable(ended), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(
                f"dsstne {name}: warning: {message}", file=sys.stderr
            )
            return work()
    except KeyboardInterrupt as stop:
        how = f"; {stop}" if str(stop) else ""
        print(f"dsstne {name}: {'ended by SIGTERM' if ended else 'interrupted'}{how}", file=sys.stderr)
        return 128 + (ended[0] if ended else signal.SIGINT)
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        print(f"dsstne {name}: error: {_text(error)}", file=sys.stderr)
        return 1


def _expected() -> tuple[type[Exception], ...]:
    """Returns the errors that have a message for users; others are mistakes of this program and show where."""
    from dsstne.errors import DsstneError

    return DsstneError, OSError, ImportError, MemoryError


def _text(error: Exception) -> str:
    return str(error) or ("there is not enough memory" if isinstance(error, MemoryError) else type(error).__name__)


@contextlib.contextmanager
def _terminable(ended: list[int]) -> Iterator[None]:
    """Makes SIGTERM end the block as Ctrl-C does: training stops after a step, and files are whole or not there.

    Python drops an exception that a signal raises in ``__del__``, so the signal would be lost. It is sent once more.
    """

    def handle(number: int, frame: Any) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    def dropped(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            dropped_before(unraisable)
            return
        number = ended[0] if ended else signal.SIGINT
        timers.append(threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, number)))
        timers[-1].start()

    if threading.current_thread() is not threading.main_thread():  # where Python allows no handler
        yield
        return
    timers: list[threading.Timer] = []
    before, dropped_before = signal.signal(signal.SIGTERM, handle), sys.unraisablehook
    try:
        sys.unraisablehook = dropped
        yield
    finally:
        for timer in timers:
            timer.cancel()
        sys.unraisablehook = dropped_before
        signal.signal(signal.SIGTERM, before)
