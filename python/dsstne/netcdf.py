"""Files of Amazon's DSSTNE in NetCDF-4: networks and data sets.

They need the packages h5netcdf and h5py: ``pip install dsstne[netcdf]``. :func:`dsstne.load` and
:meth:`dsstne.Model.save` read and write networks with their weights. docs/dsstne-files.md describes both kinds of
files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsstne import _checks, _netcdf_data, _netcdf_file, _netcdf_model, _options
from dsstne._netcdf_data import Data, DataSet
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from dsstne.network import Network

__all__ = ["Data", "DataSet", "datasets", "network", "read", "write"]

Data.__module__ = DataSet.__module__ = __name__  # where they are documented


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


def datasets(path: str | os.PathLike[str]) -> list[DataSet]:
    """Lists the data sets of a file without reading them.

    Args:
        path: A data file of DSSTNE.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: The file is not a data file, or is damaged; the message names attribute or dimension.
        UnsupportedError: The file is in a classic NetCDF format, or has a type that DSSTNE cannot read either.
        ImportError: The packages are not installed.

    Example:
        >>> import dsstne, numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.netcdf.write(f"{folder}/gl.nc", {"gl_input": np.eye(3), "gl_output": 2 * np.eye(3)})
        ...     [(one.name, one.rows, one.columns, one.boolean) for one in dsstne.netcdf.datasets(f"{folder}/gl.nc")]
        [('gl_input', 3, 3, True), ('gl_output', 3, 3, False)]
    """
    with _netcdf_file.reading(path) as file:
        return [header.listed for header in _netcdf_data.listed(file)]


def read(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    columns: int | None = None,
    as_target: bool = False,
) -> Data:
    """Reads a data set into memory, as what :func:`dsstne.fit` and others take.

    A data set of single entries becomes a sparse matrix, one of whole rows an array. Values are those that DSSTNE
    computes with: ``UChar`` and ``RGB8`` are divided by 256, ``Char`` by 128; other types stay as they are. Such bytes
    stay bytes in memory: they become a :class:`dsstne.Dataset` with a scale. If examples share stored rows (DSSTNE's
    attribute "indexed"), they become a Dataset with an index, which copies none. ``matrix[:]`` of a Dataset is a copy
    as float32. A Dataset refuses values that are not finite, so they become a matrix with a copy for each example.

    Args:
        path: A data file of DSSTNE.
        name: Name of the data set; None = the only one of the file.
        columns: Number of columns of the matrix, where the file has more that only fill it up to a multiple of 128;
            None = as many as the file says. The names of other columns are left out.
        as_target: The data are the targets of an output. From arrays of ``UChar`` and ``RGB8`` DSSTNE subtracts 0.5,
            unless they are targets.

    Raises:
        MissingFileError: The file does not exist.
        NotFoundError: It has no data set of this name.
        InvalidArgumentError: An argument is not valid, the file has several data sets and ``name`` is missing, or an
            entry is in a column beyond ``columns``.
        CorruptFileError: The file is damaged; the message names the data set, the variable and the place.
        UnsupportedError: The file is in a classic NetCDF format, or has a type that DSSTNE cannot read either.
        OutOfMemoryError: Rows that overlap in the file, or that examples share, do not fit into memory one by one.
        ImportError: The packages are not installed.

    Example:
        >>> import dsstne, numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.netcdf.write(f"{folder}/gl.nc", {"gl_input": np.eye(3)}, items={"gl_input": ["a", "b", "c"]})
        ...     data = dsstne.netcdf.read(f"{folder}/gl.nc")
        >>> data.matrix.toarray().tolist(), data.items
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], ['a', 'b', 'c'])
    """
    if name is not None:
        _checks.text(name, "name")
    if columns is not None:
        columns = _checks.integer(columns, "columns", 1)
    as_target = _checks.boolean(as_target, "as_target")
    with _netcdf_file.reading(path) as file:
        return _netcdf_data.read(file, name, columns, as_target)


def write(
    path: str | os.PathLike[str],
    matrices: Mapping[str, Any],
    *,
    boolean: bool | None = None,
    sample_weight: Mapping[str, ArrayLike] | None = None,
    items: Mapping[str, Sequence[str] | ArrayLike] | None = None,
    rows: Sequence[str] | ArrayLike | None = None,
    stored_only: Sequence[str] = (),
) -> None:
    """Writes a data file that DSSTNE reads, with a sparse data set for each matrix.

    As DSSTNE's converter does, it rounds the columns up to a multiple of 128; the attribute ``columns<n>`` has the
    number before, and :func:`read` takes it. Names are variables of strings, and their digests attributes
    (docs/dsstne-commands.md), which DSSTNE does not read.

    Args:
        path: File to write. An existing one is replaced when the new one is complete, and the new one has its mode.
        matrices: Matrices by the names of the data sets, of any type that :func:`dsstne.fit` takes. They have the
            same number of rows if one network is to use them. Zeros are not written, and duplicates are summed.
        boolean: Leave out the values, so that every entry is 1; None = where all values of a matrix are 1. Others are
            written as ``Float``.
        sample_weight: Weights of the rows [rows] by the names of data sets; finite and at least 0.
        items: Names of the columns by the names of data sets; without, those of :class:`dsstne.Interactions` and of a
            :class:`dsstne.Dataset` that has names.
        rows: Names of the rows of all matrices; None = those of Interactions and Datasets.
        stored_only: Names of the data sets of which only stored entries count in the loss (DSSTNE's "ignore zero").

    Raises:
        InvalidArgumentError: An argument is not valid, or a matrix has no entries.
        InvalidDataError: A matrix is damaged, or a value is not finite in float32; the message names the place.
        InputOutputError: The operating system refused to write, or the existing file is not a regular file; it is
            unchanged.
        ImportError: The packages are not installed.

    Example:
        >>> import dsstne, numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.netcdf.write(f"{folder}/gl.nc", {"gl_input": np.eye(3)}, boolean=True)
    """
    if not _checks.is_mapping(matrices) or not matrices:
        raise InvalidArgumentError(
            f"matrices must be a mapping from names of data sets to matrices, not {_checks.shown(matrices)}"
        )
    for name in matrices:
        if not _options.text_argument(_checks.text(name, "the name of a data set"), "the name of a data set"):
            raise InvalidArgumentError("the name of a data set is ''")
    if boolean is not None:
        boolean = _checks.boolean(boolean, "boolean")
    given: dict[str, Any] = {
        "sample_weight": {} if sample_weight is None else sample_weight,
        "items": {} if items is None else items,
    }
    for argument, values in given.items():
        if not _checks.is_mapping(values) or not set(values) <= set(matrices):
            raise InvalidArgumentError(
                f"{argument} must be a mapping with names among {list(matrices)}, not {_checks.shown(values)}"
            )
    marked = {_checks.text(name, "a name in stored_only") for name in _checks.several(stored_only, "stored_only")}
    if not marked <= set(matrices):
        raise InvalidArgumentError(
            f"stored_only must have names among {list(matrices)}, not {_checks.shown(stored_only)}"
        )
    _netcdf_data.write(path, matrices, boolean, given["sample_weight"], given["items"], rows, marked)
