"""``dsstne install-commands``: writes scripts with the names of DSSTNE's programs."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from dsstne._commands import flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

# DSSTNE's programs, and the commands that do the same.
_PROGRAMS = {
    "generateNetCDF": "generateNetCDF",
    "train": "train",
    "predict": "predict",
    "encoder": "encoder",
    "KnnSearch": "knn",
}

_MARK = "# Written by `dsstne install-commands`, which replaces only files with this line."

# The current folder is not searched for modules: it may have a folder "dsstne", such as the sources.
_CODE = """import sys
sys.path = [place for place in sys.path if place]
from dsstne.cli import main
sys.exit(main([{command!r}, *sys.argv[1:]]))"""


def parse(arguments: Sequence[str]) -> Namespace:
    """Reads the command line."""
    programs = ", ".join(_PROGRAMS)
    parser = flags.Parser("install-commands", f"Writes scripts with the names of DSSTNE's programs: {programs}.")
    parser.operand("folder", "DIR", type=flags.path, help="folder for the scripts; made if it does not exist")
    return parser.parse(arguments)


def run(given: Namespace) -> None:
    """Writes the scripts."""
    from pathlib import Path

    from dsstne._commands import outputs
    from dsstne.errors import InputOutputError, InvalidArgumentError

    folder = os.path.abspath(given.folder)  # noqa: PTH100 - a Path would change the name
    if not sys.executable:
        raise InvalidArgumentError("the path of this Python is not known, so that no script can start it")
    if os.pathsep in folder:
        raise InvalidArgumentError(f"DIR: {folder} has a {os.pathsep!r}, and such a folder cannot be in PATH")
    paths = {name: Path(folder, name) for name in _PROGRAMS}
    others = [str(path) for path in paths.values() if os.path.lexists(path) and not _is_ours(path)]
    if others:
        raise InvalidArgumentError(
            f"{', '.join(others)}: this command did not write {'this file' if len(others) == 1 else 'these files'}, "
            "and nothing was changed; choose another folder, or move what is there away"
        )
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            code = shlex.quote(_CODE.format(command=_PROGRAMS[name]))
            script = f'#!/bin/sh\n{_MARK}\nexec {shlex.quote(sys.executable)} -c {code} "$@"\n'
            with outputs.beside(os.fspath(path)) as beside:
                Path(beside).write_bytes(os.fsencode(script))
                Path(beside).chmod(0o755)
                os.replace(beside, path)  # noqa: PTH105
    except OSError as error:
        raise InputOutputError(f"cannot write to {folder}: {error.strerror}", error.errno or 0, folder) from None
    print(f"wrote {', '.join(_PROGRAMS)} to {folder}", file=sys.stderr)
    if folder not in os.environ.get("PATH", "").split(os.pathsep):
        print(f'this puts them into PATH:\n    export PATH={shlex.quote(folder)}:"$PATH"', file=sys.stderr)


def _is_ours(path: os.PathLike[str]) -> bool:
    """Reports whether this command wrote a file; a link is not a file of this command."""
    if os.path.islink(path) or not os.path.isfile(path):  # noqa: PTH113, PTH114
        return False
    with open(path, "rb") as file:  # noqa: PTH123
        return _MARK.encode() in file.read(200).splitlines()
