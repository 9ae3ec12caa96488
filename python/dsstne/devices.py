"""Choice of the devices, and whether they stay open between calls."""

from __future__ import annotations

import sys
from typing import Any

from dsstne import _checks, _native, _options

__all__ = ["keep_devices"]


def keep_devices(keep: bool) -> None:
    """Sets whether CUDA devices stay open between calls; the default is True.

    Opening devices, connecting them and copying a model to them takes long. A call therefore leaves its devices open,
    and a model keeps its weights on the devices that it used last, until their memory is short, other work uses the
    devices, or the model is closed or garbage-collected.

    Args:
        keep: False closes the devices that no trainer uses, frees their memory, and ends the keeping of devices.

    Raises:
        InvalidArgumentError: keep is not a bool.

    Example:
        >>> import dsstne
        >>> dsstne.keep_devices(False)  # room for others
        >>> dsstne.keep_devices(True)
    """
    options = {"keep_devices": _checks.boolean(keep, "keep")}
    _native.call("configure", _options.to_json(options))


def chosen(wanted: Any) -> Any:
    """Returns the option ``devices`` for the engine: in a worker of Dask or Ray, "auto" becomes "first".

    A machine runs several workers, and each of them sees its own device first, or no other. The engine itself detects
    processes that torchrun has started.
    """
    automatic = wanted is None or (isinstance(wanted, str) and wanted == "auto")
    return "first" if automatic and (_in_dask_worker() or _in_ray_worker()) else wanted


def _in_dask_worker() -> bool:
    distributed = sys.modules.get("distributed")
    try:
        return distributed is not None and distributed.get_worker() is not None
    except (AttributeError, ValueError):  # distributed is still being imported, or this process is not a worker
        return False


def _in_ray_worker() -> bool:
    ray = sys.modules.get("ray")
    try:
        if ray is None or not ray.is_initialized():
            return False
        return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
    except AttributeError:
        return False
