"""Deep networks over very wide and very sparse data, for recommendation and more.

>>> import dsstne
>>> from dsstne.datasets import load_debian
>>> X = load_debian().matrix
>>> model = dsstne.fit(X, hidden=[64], epochs=1, progress=False)
>>> ids, scores = model.recommend(X[:5], k=10)

``import dsstne`` loads neither the submodules nor the native library; their first use does. A process may fork until
the native library is loaded.
"""

# __all__ is the only list of the error classes.
# ruff: noqa: F403, F405

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from dsstne import datasets, errors, export, plots
    from dsstne.api import fit, popularity
    from dsstne.blending import blend
    from dsstne.dataset import Dataset
    from dsstne.decomposition import spectral, svd
    from dsstne.devices import keep_devices, set_limits
    from dsstne.diagnosis import doctor
    from dsstne.errors import *
    from dsstne.evaluation import evaluate
    from dsstne.model import Model, load
    from dsstne.selection import auto
    from dsstne.solvers import factorize, item_knn, linear, rp3beta
    from dsstne.trainer import Progress, Trainer

__all__ = [
    "BusyError",
    "CancelledError",
    "CorruptFileError",
    "Dataset",
    "DeviceFailedError",
    "DeviceUnavailableError",
    "DsstneError",
    "ForkError",
    "InputOutputError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidDataError",
    "InvalidHandleError",
    "InvalidStateError",
    "LibraryError",
    "MissingFileError",
    "Model",
    "NotFiniteError",
    "NotFoundError",
    "OutOfMemoryError",
    "Progress",
    "Trainer",
    "UnsupportedError",
    "__version__",
    "auto",
    "blend",
    "datasets",
    "doctor",
    "errors",
    "evaluate",
    "export",
    "factorize",
    "fit",
    "item_knn",
    "keep_devices",
    "linear",
    "load",
    "plots",
    "popularity",
    "rp3beta",
    "set_limits",
    "spectral",
    "svd",
]

_MODULES = {
    "Dataset": "dataset",
    "Model": "model",
    "Progress": "trainer",
    "Trainer": "trainer",
    "auto": "selection",
    "blend": "blending",
    "doctor": "diagnosis",
    "evaluate": "evaluation",
    "factorize": "solvers",
    "fit": "api",
    "item_knn": "solvers",
    "linear": "solvers",
    "keep_devices": "devices",
    "load": "model",
    "popularity": "api",
    "rp3beta": "solvers",
    "set_limits": "devices",
    "spectral": "decomposition",
    "svd": "decomposition",
}

_SUBMODULES = {"datasets", "errors", "export", "plots", *_MODULES.values(), "cli", "progress", "report"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _SUBMODULES:
        value = importlib.import_module("dsstne." + name)
    elif name not in __all__:
        raise AttributeError(f"module 'dsstne' has no attribute {name!r}")
    else:
        value = getattr(importlib.import_module("dsstne." + _MODULES.get(name, "errors")), name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("dsstne")
    except metadata.PackageNotFoundError:  # a checkout on sys.path that is not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
