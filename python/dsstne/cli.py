"""The command ``dsstne``, also ``python -m dsstne``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status.

    Example:
        >>> from dsstne.cli import main
        >>> main(["doctor"])  # doctest: +ELLIPSIS
        dsstne    ...
        0
    """
    import dsstne

    parser = argparse.ArgumentParser(prog="dsstne", description="Deep networks over very wide and very sparse data.")
    parser.add_argument("--version", action="version", version=f"dsstne {dsstne.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="show the versions, devices and problems of this installation")
    parser.parse_args(arguments)
    report = dsstne.doctor()
    print(report)
    return 0 if report.ok else 1
