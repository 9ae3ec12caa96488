"""Report on the installation: versions, library, devices and problems."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

from dsstne import _native
from dsstne._tables import Shown, Table, size
from dsstne.errors import DsstneError

__all__ = ["Report", "doctor"]


@dataclass(frozen=True)
class Report(Shown):
    """A report on the installation; ``str()`` gives a text to read or to attach to a bug report.

    Attributes:
        versions: Versions of dsstne, Python, NumPy and SciPy.
        library: Path of the native library.
        engine: Description by the library: version, cpu, memory, backends, devices,
            extras (third-party libraries that CUDA devices use); empty if the library cannot be loaded.
        problems: The problems found, each with a remedy.
    """

    versions: dict[str, str]
    library: str
    engine: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    __repr__ = Shown.__str__

    def _parts(self) -> list[str | Table]:
        rows = [[*pair] for pair in self.versions.items()]
        rows += [["system", platform.platform()], ["library", self.library]]
        for key, value in self.engine.items():
            if not (key == "version" and value == self.versions["dsstne"]):
                rows += _rows(key, value)
        rows += [["problem", problem] for problem in self.problems]
        return [Table(None, rows)]


def doctor() -> Report:
    """Reports versions, library, instruction set, threads, memory, devices, and why a device is not available.

    If there are CUDA devices, the report also says which of their optional libraries are installed: cuBLASLt, NCCL.

    Returns:
        A :class:`dsstne.diagnosis.Report`. If the library cannot be loaded, this is one of the problems in it.

    Example:
        >>> import dsstne
        >>> print(dsstne.doctor())  # doctest: +ELLIPSIS
        dsstne    ...
    """
    import numpy
    import scipy

    import dsstne

    versions = {
        "dsstne": dsstne.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
    path = " or ".join(map(str, _native.library_paths()))
    try:
        return Report(versions, path, _native.call_json("describe"))
    except DsstneError as error:
        return Report(versions, path, {}, [str(error)])


def _rows(key: str, value: Any) -> list[list[str]]:
    """Returns the rows of a table for one entry of the library's description."""
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        return [row for entry in value for row in _rows(key.removesuffix("s"), entry)]
    if isinstance(value, dict) and value.get("missing"):
        value = f"{value['name']}: not available: {value['missing']}"
    elif isinstance(value, dict):
        words = [_word(name, entry) for name, entry in value.items() if name != "name"]
        text = ", ".join(word for word in words if word)
        value = f"{value['name']}: {text}" if "name" in value else text
    elif isinstance(value, list):
        value = ", ".join(map(str, value))
    return [[key, str(value)]]


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if isinstance(value, list):
        return f"{name} {' '.join(map(str, value))}"
    if name == "available" and value < 0:  # unknown
        return ""
    if isinstance(value, int) and value >= 1 << 20:
        return f"{name} {size(value)}"
    if name == "used":
        return f"used by {value}"
    return f"{name} {value}"
