"""Files of Amazon's DSSTNE in NetCDF-4: networks and data sets.

They need the packages h5netcdf and h5py: ``pip install dsstne[netcdf]``. :func:`dsstne.load` and
:meth:`dsstne.Model.save` read and write networks with their weights; docs/dsstne.md describes both kinds of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsstne import _netcdf_model

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from dsstne.network import Network

__all__ = ["network"]


def network(path: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> Network:
    """Reads the network of a file without its weights, and what the file says about training and data.

    Args:
        path: A network file of DSSTNE.
        sizes: Columns or items of inputs and outputs, see :func:`dsstne.load`.

    Returns:
        The network; :func:`dsstne.fit` trains it from the beginning.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: The file is not a network file, or is damaged.
        InvalidArgumentError: The network has a mistake, or needs what dsstne lacks. The message names the layer.
        UnsupportedError: The file is in a classic NetCDF format.
        ImportError: The packages are not installed.

    Example:
        >>> import dsstne, tempfile
        >>> layers = [dict(name="in", kind="input", size=4), dict(name="out", kind="output", size=4)]
        >>> model = dsstne.Model({"layers": layers, "loss": "sigmoid"})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/net.nc")
        ...     dsstne.netcdf.network(f"{folder}/net.nc")
        Network(in 4 - out 4)
    """
    return _netcdf_model.read_network(path, sizes)
