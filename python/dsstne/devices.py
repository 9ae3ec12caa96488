"""Where to compute."""

from __future__ import annotations

import sys
from typing import Any

from dsstne import _native, _options
from dsstne.errors import InvalidArgumentError

__all__ = ["keep_devices"]


def keep_devices(keep: bool) -> None:
    """Says whether CUDA devices stay open between calls, which is so at first.

    Opening devices, joining several and copying a model to them takes long. So a call leaves them open for the next
    one, and a model keeps its weights on the devices that it answered on last, until memory is short there, others use
    the devices, or the model is closed or collected.

    Args:
        keep: False closes the devices that no trainer uses, gives their memory back, and keeps none from now on.

    Raises:
        InvalidArgumentError: keep is not a bool.

    Example:
        >>> import dsstne
        >>> dsstne.keep_devices(False)  # room for others
        >>> dsstne.keep_devices(True)
    """
    if not isinstance(keep, bool):
        raise InvalidArgumentError(f"keep is {keep!r}; it must be True or False")
    _native.call("configure", _options.to_json({"keep_devices": keep}))


def chosen(wanted: Any) -> Any:
    """Returns the devices to ask the engine for: in a worker of Dask or Ray, "auto" is "first".

    A machine has several workers, and each is shown its own device first, or only that. The engine itself looks for a
    process that torchrun has started.
    """
    automatic = wanted is None or (isinstance(wanted, str) and wanted == "auto")
    return "first" if automatic and (_in_dask_worker() or _in_ray_worker()) else wanted


def _in_dask_worker() -> bool:
    distributed = sys.modules.get("distributed")
    try:
        return distributed is not None and distributed.get_worker() is not None
    except (AttributeError, ValueError):  # it is being imported; there is no worker here
        return False


def _in_ray_worker() -> bool:
    ray = sys.modules.get("ray")
    try:
        if ray is None or not ray.is_initialized():
            return False
        return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
    except AttributeError:
        return False
