"""Choice of the devices, and whether they stay open between calls."""

from __future__ import annotations

import sys
from typing import Any

from dsstne import _checks, _native, _options

__all__ = ["keep_devices", "set_limits"]


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


def set_limits(*, memory: int | None = None, threads: int | None = None) -> None:
    """Limits what all computations of this process use together, such as several trainings in threads.

    Args:
        memory: Most bytes of weights, optimizer state, workspaces and loaded data in the host's memory; None = no
            limit. Data that are passed as SciPy matrices or files do not count. What would exceed it raises
            OutOfMemoryError before it begins; what is there already goes on. The argument ``memory_limit`` of single
            calls holds as well.
        threads: CPU threads of all calls together that do not give ``threads``; None = as many as the process may use.
            Calls that compute at the same time share them, with at least one each. A call that gives ``threads`` has
            its own number, and leaves the rest to the others.

    Raises:
        InvalidArgumentError: A limit is not an integer above 0.

    Example:
        >>> import dsstne
        >>> dsstne.set_limits(memory=8_000_000_000, threads=1)
        >>> dsstne.set_limits()  # none
    """
    limits = {"memory_limit": memory, "threads": threads}
    checked = {key: 0 if n is None else _checks.integer(n, key.split("_")[0], 1) for key, n in limits.items()}
    _native.call("configure", _options.to_json(checked))


def cuda_devices() -> list[str]:
    """Returns the names of the CUDA devices that this process can use."""
    devices = _native.call_json("describe")["devices"]
    return [one["name"] for one in devices if str(one["name"]).startswith("cuda") and not one.get("missing")]


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
