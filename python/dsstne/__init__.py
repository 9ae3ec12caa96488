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
    from dsstne import callbacks, datasets, errors, export, metrics, model_selection, neighbors, netcdf, plots
    from dsstne.api import fit, popularity
    from dsstne.blending import blend
    from dsstne.comparison import compare
    from dsstne.dataset import Dataset
    from dsstne.decomposition import spectral, svd
    from dsstne.devices import keep_devices, set_limits
    from dsstne.diagnosis import doctor
    from dsstne.errors import *
    from dsstne.estimator import Recommender
    from dsstne.evaluation import beyond_accuracy, evaluate
    from dsstne.interactions import Interactions
    from dsstne.model import Model, load
    from dsstne.network import Network
    from dsstne.searching import search
    from dsstne.selection import auto
    from dsstne.serving import OpenPredictor
    from dsstne.solvers import factorize, item_knn, linear, rp3beta
    from dsstne.textfile import read_index, write_index
    from dsstne.trainer import Progress, Trainer
    from dsstne.weighting import bm25_weight, tfidf_weight

__all__ = [
    "BusyError",
    "CancelledError",
    "ClusterError",
    "CorruptFileError",
    "Dataset",
    "DeviceFailedError",
    "DeviceUnavailableError",
    "DsstneError",
    "ForkError",
    "InputOutputError",
    "Interactions",
    "InternalError",
    "InvalidArgumentError",
    "InvalidDataError",
    "InvalidHandleError",
    "InvalidStateError",
    "LibraryError",
    "MissingFileError",
    "Model",
    "Network",
    "NotFiniteError",
    "NotFoundError",
    "OpenPredictor",
    "OutOfMemoryError",
    "Progress",
    "Recommender",
    "Trainer",
    "UnsupportedError",
    "__version__",
    "auto",
    "beyond_accuracy",
    "blend",
    "bm25_weight",
    "callbacks",
    "compare",
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
    "metrics",
    "model_selection",
    "neighbors",
    "netcdf",
    "plots",
    "popularity",
    "read_index",
    "rp3beta",
    "search",
    "set_limits",
    "spectral",
    "svd",
    "tfidf_weight",
    "write_index",
]

_MODULES = {
    "Dataset": "dataset",
    "Interactions": "interactions",
    "Model": "model",
    "Network": "network",
    "OpenPredictor": "serving",
    "Progress": "trainer",
    "Recommender": "estimator",
    "Trainer": "trainer",
    "auto": "selection",
    "beyond_accuracy": "evaluation",
    "blend": "blending",
    "bm25_weight": "weighting",
    "compare": "comparison",
    "doctor": "diagnosis",
    "evaluate": "evaluation",
    "factorize": "solvers",
    "fit": "api",
    "item_knn": "solvers",
    "linear": "solvers",
    "keep_devices": "devices",
    "load": "model",
    "popularity": "api",
    "read_index": "textfile",
    "rp3beta": "solvers",
    "search": "searching",
    "set_limits": "devices",
    "spectral": "decomposition",
    "svd": "decomposition",
    "tfidf_weight": "weighting",
    "write_index": "textfile",
}

_SUBMODULES = {
    *("callbacks", "datasets", "errors", "export", "metrics", "model_selection"),  # in __all__
    *("neighbors", "netcdf", "plots"),  # in __all__, too
    *_MODULES.values(),
    *("cli", "dask", "progress", "report"),  # not in __all__: the name dask would hide Dask's own after an import of *
}


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
    except (metadata.PackageNotFoundError, TypeError):  # not installed; the latter if sys.path has odd entries, too
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
