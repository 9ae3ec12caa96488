"""Matrices that the engine reads from the caller's memory without copying or changing them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _arrow, _checks, _handles, _items, _native, _options
from dsstne._matrices import STORED, Arrays, as_csr, as_matrix, csr_arrays, in_row_order, index_of, plain_arrays
from dsstne._tables import Shown, Table, cell, size
from dsstne.errors import BusyError, CorruptFileError, InvalidArgumentError, InvalidDataError, UnsupportedError
from dsstne.interactions import Interactions
from dsstne.textfile import Lent, open_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Dataset", "open_dataset"]

log = logging.getLogger("dsstne")

_BLOCK = 1 << 24  # entries counted at a time


class Dataset(_handles.Closing, Shown):
    """A matrix that several calls can share without copying it.

    Every function that takes a matrix also takes a Dataset; those that read rows in Python, such as splits, refuse
    files, products, Arrow data and a Dataset with an index or a scale. ``data[[7, 9]]`` is a copy of two rows, and
    ``data[:]`` of all. A Dataset is checked once, not at each use. The arrays are borrowed: do not change them before
    :meth:`close`. The engine checks row offsets and column indices again as it reads them, so changing them raises an
    error instead of crashing the process; changed values may go unnoticed. The arrays may be a mapped file; if its file
    is shortened, calls raise InvalidDataError (docs/processes.md).

    Args:
        X: Interaction matrix [rows, columns]. SciPy ``csr_matrix`` and ``csr_array`` with int32 or int64 indices and
            values of any type of integers or floats up to 8 bytes are not copied, whether sorted or not, read-only or
            not; nor are booleans, unless a False is stored. Duplicates are summed, boolean duplicates count once, and
            stored zeros are absent. Batches, and copies on CUDA devices, have float32 values: integers of more than 24
            bits are rounded. Objects with ``__arrow_c_array__`` that contain ``list<struct<index, value>>``,
            ``list<index>`` or ``fixed_size_list<value>`` are not copied either, nor are dense NumPy arrays of float32,
            float64, integers or booleans whose rows follow one another (``X.flags.c_contiguous``). What is 0 in a dense
            matrix is absent, as if it was not stored; reading a row takes time for all of its columns, so
            ``csr_array(X)`` is faster if most of them are 0. Other types that SciPy or NumPy supports (CSC, COO, DOK,
            other orders of arrays and bytes, dense float16) and DataFrames of pandas and polars are converted, with a
            debug message of the logger ``dsstne``. Of :class:`dsstne.Interactions` the matrix is taken.
            :meth:`from_csr` takes arrays of types that SciPy lacks.
        columns: Number of columns; required for Arrow data, which do not contain it; otherwise it is checked.
        allow_not_finite: Accept NaN and infinite values.
        index: Row numbers [rows of the dataset], each from 0 to ``X.shape[0] - 1``: row r of the dataset is row
            ``index[r]`` of X, which may also be an open Dataset. Rows may repeat; they are looked up when a batch is
            made and never copied. Arrays of int32, int64 and uint32 are borrowed like those of X, other integers are
            converted.
        scale: Factor of the values of X, which are integers: a batch has ``integer * scale + offset``, computed in
            float64 and rounded to float32. X stays as it is. Not 0.
        offset: What is added to them. In a dense matrix a value that is 0 then is absent, and 0 itself is not.

    Raises:
        InvalidDataError: The matrix is damaged; the message names row, column and value.
        InvalidArgumentError: The matrix does not have two dimensions and ``columns`` columns, the index names a row
            that X does not have (the message names the first one), or values that are not integers have a scale.

    Example:
        >>> import numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.eye(3, 5, dtype=np.float32))
        >>> with Dataset(X) as data, Dataset(X, index=np.array([2, 0, 2, 2], np.uint32)) as repeated:
        ...     data.shape, data.nnz, repeated.shape, repeated.nnz
        ((3, 5), 3, (4, 5), 4)
        >>> with Dataset(np.array([[0, 64, 128]], np.uint8), scale=1 / 256, offset=-0.5) as image:
        ...     image[:].toarray()
        array([[-0.5 , -0.25,  0.  ]], dtype=float32)
    """

    _arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None] | None = None  # of SciPy, or of _dense if needed
    _dense: NDArray[Any] | None = None  # of NumPy
    _described: dict[str, Any] | None = None  # what the engine says about a text, or a file opened with its record
    _path: str | bytes | None = None  # of this file
    _lent: Lent | None = None  # the arrays of a text, which belong to the engine
    _interactions: Interactions | None = None  # whose matrix it is
    _item_names: NDArray[Any] | None = None  # of a file, when they have been read
    _factors: tuple[Dataset, Dataset] | None = None  # whose product it is
    _indexed: tuple[Dataset, bool] | None = None  # whose rows an index chooses, and whether close() closes it, too
    _index: NDArray[Any] | None = None  # that chooses them
    _value_type: str | None = None  # of a sparse matrix, if it has values and Python knows

    def __init__(
        self,
        X: Any,
        *,
        columns: int | None = None,
        allow_not_finite: bool = False,
        index: ArrayLike | None = None,
        scale: float = 1,
        offset: float = 0,
    ) -> None:
        if index is None:
            self._open(X, "X", columns, allow_not_finite, _scaling(scale, offset))
        else:
            self._open_indexed(X, index, columns, allow_not_finite, scale, offset)

    def _open_indexed(
        self, X: Any, index: Any, columns: int | None, allow_not_finite: bool, scale: float, offset: float
    ) -> None:
        """Opens rows of a matrix, or of a Dataset."""
        numbers = index_of(index)
        made = not isinstance(X, Dataset)
        if made:
            X = Dataset(X, columns=columns, allow_not_finite=allow_not_finite, scale=scale, offset=offset)
        elif columns is not None or allow_not_finite or _scaling(scale, offset):
            raise InvalidArgumentError(
                "X is a Dataset already: give columns, allow_not_finite, scale and offset where it is opened"
            )
        options = _options.to_json({"type": numbers.dtype.name})
        arguments = (X._handle.value, numbers, len(numbers), options)
        try:
            self._handle = _handles.Handle("dataset_index", *arguments, owners=(X, numbers))
        except BaseException:
            if made:
                X.close()
            raise
        self._indexed, self._index = (X, made), numbers
        self._info = _native.dataset_info(self._handle)

    @classmethod
    def from_csr(
        cls,
        indptr: ArrayLike,
        indices: ArrayLike,
        data: ArrayLike | None = None,
        *,
        columns: int,
        allow_not_finite: bool = False,
    ) -> Dataset:
        """Makes a dataset of the three arrays of a matrix in compressed row form, also of types that SciPy lacks.

        Row r has the columns ``indices[indptr[r]:indptr[r + 1]]`` and the values at the same places of ``data``. The
        arrays are borrowed, as those of a SciPy matrix. Row offsets of int32, int64, uint32 and uint64, columns of
        int32, int64 and uint32, and values of floats of 16, 32 and 64 bits and of integers of 8 to 64 bits are not
        copied. Other numbers are converted, with a debug message of the logger ``dsstne``.

        Args:
            indptr: Row offsets [rows + 1]; they do not decrease.
            indices: Columns [nnz or more], counted from 0.
            data: Values [nnz or more]; None: all are 1, and a column that is stored twice in a row counts once.
            columns: Number of columns.
            allow_not_finite: Accept NaN and infinite values.

        Raises:
            InvalidDataError: An array does not fit the others, or is damaged; the message names row, column and value.

        Example:
            >>> import numpy as np
            >>> indptr, indices = np.array([0, 2, 3], np.uint64), np.array([0, 4, 1], np.uint32)
            >>> with Dataset.from_csr(indptr, indices, np.array([3, 200, 7], np.uint8), columns=5) as data:
            ...     data[:].toarray()
            array([[  3.,   0.,   0.,   0., 200.],
                   [  0.,   7.,   0.,   0.,   0.]], dtype=float32)
        """
        offsets, stored = _checks.array(indptr), _checks.array(indices)
        if offsets.ndim != 1 or not len(offsets):
            raise InvalidDataError(f"indptr has the shape {offsets.shape}; expected one dimension of rows + 1 offsets")
        if not stored.size:
            stored = stored.astype(np.int32)  # of what is empty NumPy knows no type
        values = None if data is None else _checks.array(data)
        shape = len(offsets) - 1, _checks.integer(columns, "columns", 0)
        return cls(Arrays(offsets, stored, values, shape), allow_not_finite=allow_not_finite)

    def _open(
        self,
        X: Any,
        name: str,
        columns: int | None = None,
        allow_not_finite: bool = False,
        scaling: Mapping[str, float] | None = None,
    ) -> None:
        """Opens the matrix; error messages call it by the name."""
        if columns is not None:
            columns = _checks.integer(columns, "columns", 0)
        if isinstance(X, Dataset):
            raise InvalidArgumentError(f"{name} is a Dataset already; use it as it is")
        if isinstance(X, Interactions):
            X, self._interactions = X.matrix, X
        if not hasattr(X, "__arrow_c_array__"):
            X = as_matrix(X, name)
            if columns is not None and columns != X.shape[1]:
                raise InvalidArgumentError(f"{name} has {X.shape[1]:,} columns, but columns={columns:,} was given")
            columns = X.shape[1]
        elif columns is None:
            raise InvalidArgumentError(
                f"{name} is an Arrow array, which does not contain its number of columns: "
                "give dsstne.Dataset(array, columns=...)"
            )
        options = _options.to_json({"columns": columns, "allow_not_finite": allow_not_finite, **(scaling or {})})
        try:
            if hasattr(X, "__arrow_c_array__"):
                exported = _arrow.import_capsules(X)
            elif isinstance(X, np.ndarray):
                self._dense = X = in_row_order(X)
                if scaling and X.dtype.kind == "b":
                    raise InvalidArgumentError("scale and offset are for integers, and the matrix is of booleans")
                exported = _arrow.export_dense(X.view(np.uint8) if X.dtype.kind == "b" else X)
            else:
                self._arrays = csr_arrays(X, STORED)
                exported = _arrow.export_csr(*self._arrays)
                self._value_type = None if self._arrays[2] is None else self._arrays[2].dtype.name
            owners = (exported.owners, self._arrays, self._dense)
            arguments = (exported.schema, exported.array, options)
            self._handle = _handles.Handle("dataset_open", *arguments, owners=owners)
        except (InvalidArgumentError, InvalidDataError) as error:
            if name == "X":
                raise
            raise type(error)(f"{name}: {error}") from None
        self._info = _native.dataset_info(self._handle)
        if scaling:
            self._arrays = self._dense = None  # whose numbers are not the values

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, columns: int, allow_not_finite: bool = False) -> Dataset:
        """Opens a matrix in any Arrow file and checks all of it; the file may be larger than the memory.

        :meth:`open` opens the files of :meth:`save` at once, without reading all of them.

        The file is an uncompressed Arrow IPC file (Feather version 2) with one column of type
        ``list<struct<index, value>>``, or ``list<index>`` if every stored value is 1. Lists may be large lists. An
        index is int32, int64, uint32 or a dictionary of strings, a value float32 or float64. A column of strings beside
        it is ignored. Results have the same bits as with the matrix in memory. Do not change the file before
        :meth:`close`. To write a file with pyarrow::

            entries = pyarrow.StructArray.from_arrays([X.indices, X.data], names=["index", "value"])
            rows = pyarrow.ListArray.from_arrays(X.indptr, entries)
            table = pyarrow.table({"items": rows})
            pyarrow.feather.write_feather(table, "data.arrow", compression="uncompressed")

        Args:
            path: Path of the file.
            columns: Number of columns, which the file does not contain.
            allow_not_finite: Accept NaN and infinite values.

        Raises:
            MissingFileError: The file does not exist.
            CorruptFileError: The file is not an Arrow IPC file, or is damaged.
            InvalidDataError: The column has another type, or an entry is not valid; the message names it.
            UnsupportedError: The file is compressed.

        Example:
            >>> Dataset.from_file("no-such-file.arrow", columns=3)
            Traceback (most recent call last):
                ...
            dsstne.errors.MissingFileError: no-such-file.arrow: no such file
        """
        columns = _checks.integer(columns, "columns", 0)
        made = cls.__new__(cls)
        made._open_file(path, {"columns": columns, "allow_not_finite": allow_not_finite})
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Dataset:
        """Opens a file of :meth:`save` by mapping it into memory, without reading all of it.

        The file has a record of its rows: their number, the extremes of the values, the counts of the columns and the
        digests of the rows (`docs/dataset-file.md`). Opening reads the record. Rows are compared with their digests
        when they are read for the first time; a call that finds damaged rows raises CorruptFileError. Results have the
        same bits as with the matrix in memory. Processes that open the same file share one copy of it in memory. The
        dataset can be pickled: the pickle contains the path, not the rows.

        Args:
            path: Path of the file. Do not change the file before :meth:`close`; to replace it, save to its path, which
                leaves open datasets as they are.

        Raises:
            MissingFileError: The file does not exist.
            CorruptFileError: The file is not an Arrow IPC file, or is damaged.
            InvalidDataError: The file has no record of its rows; :meth:`from_file` opens it.
            UnsupportedError: A newer version has written the file.

        Example:
            >>> import scipy.sparse, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with Dataset(scipy.sparse.eye_array(3, format="csr")) as data:
            ...         data.save(f"{folder}/data.arrow", items=["tea", "milk", "bread"])
            ...     with Dataset.open(f"{folder}/data.arrow") as data:
            ...         data.shape, data.nnz, data.item_names
            ((3, 3), 3, array(['tea', 'milk', 'bread'], dtype=object))
        """
        made = cls.__new__(cls)
        made._open_file(path, {})
        made._described = _native.call_json("dataset_describe", made._handle.value)
        made._path = os.path.abspath(os.fspath(path))  # noqa: PTH100 - of bytes too, and links stay
        return made

    @classmethod
    def from_text(
        cls,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        features: Sequence[str] | ArrayLike | None = None,
        samples: Sequence[str] | ArrayLike | None = None,
        values: str = "indicator",
        default_value: float | None = None,
        new_features: str = "drop",
        new_samples: str = "drop",
        on_malformed: str = "error",
        on_repeated: str = "replace",
        longest_line: int = 1_000_000_000,
        memory_limit: int | None = None,
        threads: int | None = None,
    ) -> Dataset:
        r"""Reads the text data of Amazon's DSSTNE on all threads.

        A line is a sample: its label, a TAB, and its features between colons, each a label or a label, a comma and a
        value (`docs/text.md`). A sample becomes a row and a feature a column; :attr:`row_names` and :attr:`item_names`
        are their labels. ``data.info["text"]`` counts what was found: ``files``, ``bytes``, ``lines``, ``samples``,
        ``repeated_samples``, ``new_samples`` and ``new_features`` (not in the indexes), ``unknown_samples`` (rows
        dropped) and ``unknown_features`` (entries dropped), and by kind the ``malformed`` lines that were skipped, with
        the first place of each. Ctrl-C ends the reading.

        Args:
            paths: Paths of files, or of folders, which stand for their files in the order of their names, without those
                whose names begin with a dot. Files may be compressed with gzip.
            features: Labels of the columns in order, such as :func:`dsstne.read_index` returns; None: they are numbered
                as they appear in the text.
            samples: Labels of the rows in order; rows of samples that the text lacks are empty. None: they are numbered
                as they appear.
            values: ``"indicator"``: every value is 1. ``"analog"``: the values of the text.
            default_value: With ``"analog"``, the value of features that have none; None: their lines are malformed.
            new_features: What happens to features that ``features`` lacks: ``"drop"``, or ``"add"`` behind them.
            new_samples: What happens to samples that ``samples`` lacks.
            on_malformed: ``"error"``, or ``"skip"`` a malformed line and count it.
            on_repeated: What happens if a sample is there again: its last line counts (``"replace"``), the entries of
                all its lines count (``"merge"``), or it is an ``"error"``.
            longest_line: Most bytes of a line, at most 1,000,000,000.
            memory_limit: Most bytes of memory for the dataset and its reading; None: no limit.
            threads: Number of CPU threads; None: as many as the process may use.

        Raises:
            MissingFileError: A path does not exist.
            InvalidDataError: A line is malformed or too long, or the text has no features; the message names file, line
                and column.
            CorruptFileError: A compressed file is damaged.
            OutOfMemoryError: Reading would need more than ``memory_limit``.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "ratings.txt")
            ...     _ = path.write_text("ann\ttea,5:milk,3\nbob\ttea,4\n")
            ...     data = Dataset.from_text(path, values="analog")
            >>> data.to_scipy().toarray()
            array([[5., 3.],
                   [4., 0.]], dtype=float32)
            >>> data.row_names, data.item_names
            (array(['ann', 'bob'], dtype=object), array(['tea', 'milk'], dtype=object))
        """
        options = {
            "values": values,
            "default_value": default_value,
            "new_features": new_features,
            "new_samples": new_samples,
            "on_malformed": on_malformed,
            "on_repeated": on_repeated,
            "longest_line": longest_line,
            "memory_limit": memory_limit,
            "threads": threads,
        }
        made = cls.__new__(cls)
        made._handle = open_text(paths, features, samples, options)
        made._described = _native.call_json("dataset_describe", made._handle.value)
        info = _native.dataset_info(made._handle)
        made._lent = Lent(made._handle, info)
        made._arrays = made._lent.arrays
        made._info = info | {"text": made._described["text"]}
        return made

    @classmethod
    def product(cls, X: Any, F: Any, *, threads: int | None = None) -> Dataset:
        """Makes the product X F, such as the features of the items of each user, without storing it.

        Row u is the sum of the rows of F that row u of X names, times the values of X: with one row of F for each item,
        it says how much of each feature the items of the row have. Names of its rows are those of X, names of its
        columns those of F's columns. It feeds an input layer beside the items::

            features = dsstne.Dataset.product(X, F)
            dsstne.Trainer(model, {"input": X, "features": features})

        Rows are computed when a batch needs them. Making the product computes all rows once, on all threads, to count
        their entries and to check them; it keeps 4 bytes for each row. Sums are computed in float64, in the order of
        the columns of X, and rounded to float32, so bits depend neither on threads nor on batches. :meth:`save` writes
        the product to a file.

        Args:
            X: Interaction matrix [rows, items], a matrix or a Dataset, which must stay open.
            F: Features of the items [items, features], a matrix or a Dataset, which must stay open.
            threads: Number of CPU threads; None: as many as the process may use.

        Raises:
            InvalidArgumentError: F does not have a row for each column of X, or its rows have other names.
            InvalidDataError: An entry of the product is too large for float32; the message names it.

        Example:
            >>> import numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1]], bool))
            >>> F = scipy.sparse.csr_array(np.array([[1, 0], [1, 2], [0, 1]], np.float32))
            >>> with Dataset.product(X, F) as data:
            ...     data.shape, data.nnz, data.info["maximum"]
            ((2, 2), 3, 2.0)
        """
        made = cls.__new__(cls)
        made._factors = parts = open_dataset(X, "X")[0], open_dataset(F, "F")[0]
        _check_features(*parts)
        left, right = (part._handle.value for part in parts)
        options = _options.to_json({"threads": threads})
        made._handle = _handles.Handle("dataset_product", left, right, options, owners=parts)
        made._info = _native.dataset_info(made._handle)
        return made

    def _open_file(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        with _options.path_argument(path) as name:
            self._handle = _handles.Handle("dataset_open_file", name, _options.to_json(options))
        self._info = _native.dataset_info(self._handle)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        items: Sequence[str] | ArrayLike | None = None,
        rows: Sequence[str] | ArrayLike | None = None,
        threads: int | None = None,
    ) -> None:
        """Writes the dataset to a file that :meth:`open` opens, and that pyarrow and polars read.

        The file is an Arrow IPC file with a column ``items`` of type ``list<struct<index: int32, value: float>>``; with
        names, ``index`` is a dictionary of them and a column ``row`` has those of the rows (`docs/dataset-file.md`).
        Duplicates are summed, zeros left out, and values rounded to float32, as training does it. The rows are written
        in batches of up to 64 MB. Beside a few of these, writing takes 8 bytes of memory for each column and one for
        each row. The old file, if there is one, stays complete until the new one is on the disk.

        Args:
            path: Path of the file.
            items: Names of the columns, in order; integers are saved as text. By default those of :attr:`item_names`.
            rows: Names of the rows, in order. By default those of :attr:`row_names`.
            threads: Number of CPU threads; None: as many as the process may use.

        Raises:
            InvalidDataError: A value is not finite.
            InputOutputError: The file cannot be written.

        Example:
            >>> import pyarrow.feather, scipy.sparse, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Dataset(scipy.sparse.eye_array(2, 3, format="csr")).save(f"{folder}/data.arrow")
            ...     pyarrow.feather.read_table(f"{folder}/data.arrow")["items"].to_pylist()
            [[{'index': 0, 'value': 1.0}], [{'index': 1, 'value': 1.0}]]
        """
        names: list[Any] = []
        for what, given, n in (("items", items, self.shape[1]), ("rows", rows, self.shape[0])):
            given = getattr(self, f"{what[:-1]}_names") if given is None else given
            text, offsets, _ = (None, None, None) if given is None else _items.encode_names(given, what)
            if offsets is not None and len(offsets) != n + 1:
                raise InvalidArgumentError(f"{what} has {len(offsets) - 1:,} names, but the dataset has {n:,} {what}")
            names += [offsets, text]
        options = _options.to_json({"threads": threads})
        with _options.path_argument(path) as name:
            _native.call("dataset_save", self._handle.value, name, options, *names)

    @property
    def item_names(self) -> NDArray[Any] | None:
        """Names of the columns: of :class:`dsstne.Interactions`, a text or a file; else None.

        Those of a text or a file are read at the first access.
        """
        if self._interactions is not None:
            return self._interactions.item_names
        if self._factors is not None:
            return self._factors[1].item_names
        if self._indexed is not None:
            return self._indexed[0].item_names
        if self._item_names is None:
            self._item_names = self._names("items", self.shape[1])
        return self._item_names

    @property
    def row_names(self) -> NDArray[Any] | None:
        """Names of the rows, like :attr:`item_names`, but read at each access."""
        if self._factors is not None:
            return self._factors[0].row_names
        if self._indexed is not None:
            names = self._indexed[0].row_names
            return None if names is None else names[self._row_numbers()]
        return self._interactions.row_names if self._interactions is not None else self._names("rows", self.shape[0])

    def _row_numbers(self) -> NDArray[Any]:
        """Returns the index, after a look whether it still names rows of the other dataset."""
        index, indexed = self._index, self._indexed  # which close() may drop meanwhile
        if index is None or indexed is None:
            return np.empty(0, np.int64)
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < indexed[0].shape[0]:
            raise InvalidDataError(
                f"the index names rows from {index.min():,} to {index.max():,}, but the matrix has "
                f"{indexed[0].shape[0]:,} rows: the index must not be changed while it is in use"
            )
        return index

    def _names(self, what: str, n: int) -> NDArray[Any] | None:
        _ = self._handle.value  # raises an error if it is closed
        array = self._array(what, np.uint8)
        if array is None:
            return None
        return _items.decode_names(array[8 * (n + 1) :], array[: 8 * (n + 1)].view(np.int64), "text", what)

    def _array(self, name: str, dtype: Any) -> NDArray[Any] | None:
        """Reads an array beside the rows of a file or a text, if there is one."""
        size = (self._described or {"arrays": {}})["arrays"].get(name)
        if size is None:
            return None
        array = np.empty(size // np.dtype(dtype).itemsize, dtype)
        _native.call("dataset_get_array", self._handle.value, name.encode(), array, array.nbytes)
        return array

    def _digest(self) -> str:
        """Returns what identifies the rows, however they are stored."""
        digest = np.empty(32, np.uint8)
        _native.call("dataset_get_array", self._handle.value, b"digest", digest, digest.nbytes)
        return digest.tobytes().decode()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._info["rows"], self._info["columns"]

    @property
    def nnz(self) -> int:
        """Number of stored entries, including stored zeros and duplicates."""
        return int(self._info["non_zeros"])

    @property
    def nbytes(self) -> int:
        """Size in bytes of the arrays, which are borrowed or in a file; of a product, those of both matrices.

        With an index these are the bytes of X and of the index.
        """
        return int(self._info["bytes"])

    @property
    def info(self) -> dict[str, Any]:
        """Description of the matrix in the engine.

        ``rows``, ``columns``, ``non_zeros``, ``bytes``; ``minimum`` and ``maximum`` of the values; ``index_bits``,
        ``offset_bits``, ``value_bits`` (0 = every value is 1); the addresses ``offsets``, ``indices`` and ``values``,
        which are None for a file, a product or an index; ``values`` also if they are neither float32 nor float64. A
        dense matrix has no indices and offsets: both have 0 bits. For a text, ``text`` is what the reading found, see
        :meth:`from_text`.
        """
        return dict(self._info)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Returns the matrix as a ``csr_array`` [rows, columns], without copying indices and values if possible.

        The result shares its memory with a dataset of a SciPy matrix or a text whose columns ascend in each row: do not
        change it. That of a text may be used after :meth:`close`. If columns do not ascend, or are stored twice, the
        result is a copy in which they ascend and duplicates are summed, because SciPy would do so in place. Without
        values ``data`` is a new array of True. The rows of Arrow data, files, products and datasets with an index or a
        scale are copied, as by ``dataset[:]``.

        Raises:
            InvalidHandleError: The dataset is closed.

        Example:
            >>> import numpy as np
            >>> with Dataset(np.eye(2, 3, dtype=np.float32)) as data:
            ...     data.to_scipy().toarray()
            array([[1., 0., 0.],
                   [0., 1., 0.]], dtype=float32)
        """
        in_memory = self._arrays is not None or self._dense is not None
        if not (in_memory or self.closed):
            return self[:]
        matrix: scipy.sparse.csr_array = self._matrix("the dataset")
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return matrix

    def __getitem__(self, rows: Any) -> scipy.sparse.csr_array:
        """Copies rows, of files and products too: ``csr_array`` of float32 [len(rows), columns].

        In the copy duplicates are summed, stored zeros left out, and the columns of a row ascend.

        Args:
            rows: Row numbers, in any order, a boolean mask, or a slice.

        Raises:
            InvalidArgumentError: There is no such row.
            CorruptFileError: A row that was read is damaged.

        Example:
            >>> import scipy.sparse
            >>> with Dataset(scipy.sparse.eye_array(4, format="csr")) as data:
            ...     data[[3, 0]].toarray()
            array([[0., 0., 0., 1.],
                   [1., 0., 0., 0.]], dtype=float32)
        """
        from dsstne._layers import numbers  # which imports this module

        if isinstance(rows, tuple):
            raise InvalidArgumentError(
                f"rows: expected one index, got {_checks.shown(rows)}; data[rows][:, columns] are some columns of rows"
            )
        wanted = np.arange(self.shape[0])[rows] if isinstance(rows, slice) else rows
        wanted = numbers(wanted, self.shape[0], "rows", np.int64)
        offsets = np.empty(len(wanted) + 1, np.int64)
        asked = self._handle.value, wanted, len(wanted), offsets
        _native.call("dataset_get_rows", *asked, None, None, 0)
        room = int(offsets[-1])
        indices, values = np.empty(room, np.int32), np.empty(room, np.float32)
        _native.call("dataset_get_rows", *asked, indices, values, room)
        stored = slice(int(offsets[-1]))
        if room < 1 << 31:
            offsets = offsets.astype(np.int32)
        made = scipy.sparse.csr_array((values[stored], indices[stored], offsets), shape=(len(wanted), self.shape[1]))
        made.has_canonical_format = True
        return made

    __iter__ = None  # or Python would try the rows 0, 1, ...

    def close(self) -> None:
        """Releases the borrowed arrays; closing twice does nothing.

        The arrays of a text stay as long as there is a NumPy view of them.

        Raises:
            BusyError: A trainer, a predictor or a dataset made of it still uses it; close that first. A text of which
                there are views closes with the last one.
        """
        lent = self._lent
        if lent is not None:
            self._arrays = None
            lent.forget()
            if lent.is_viewed:
                self._handle = _handles.Handle.awaiting("dataset")  # the last view closes the dataset
        try:
            self._handle.close()
        except BusyError:
            if lent is not None:
                self._lent = lent = Lent(self._handle, self._info)
                self._arrays = lent.arrays
            raise
        self._lent, indexed = None, self._indexed
        self._arrays = self._dense = self._interactions = self._factors = self._indexed = self._index = None
        if indexed is not None and indexed[1]:
            indexed[0].close()

    def column_counts(self) -> NDArray[np.int64]:
        """Counts the stored entries of each column that are not zero, [columns]; each duplicate counts.

        Raises:
            UnsupportedError: The dataset is Arrow data, a product or a file without a record, or has an index of these
                or of any file.
            InvalidHandleError: The dataset is closed.

        Example:
            >>> import numpy as np, scipy.sparse
            >>> with Dataset(scipy.sparse.csr_array(np.array([[1, 0, 2], [0, 0, 3]], dtype=np.float32))) as data:
            ...     data.column_counts()
            array([1, 0, 2])
        """
        columns = self.shape[1]
        if self._path is not None:
            counts: NDArray[np.int64] | None = self._array("column_counts", np.int64)
            assert counts is not None  # every such file has them
            return counts
        source, times = self, None
        if self._indexed is not None and self._index is not None:
            source = self._indexed[0]
            times = np.bincount(self._row_numbers(), minlength=source.shape[0])  # how often the index names each row
        if source._arrays is None and source._dense is None and not self.closed:
            raise UnsupportedError(
                "counting by columns needs the SciPy matrix or a saved dataset: save() this one and open it with "
                "Dataset.open"
            )
        indptr, indices, values = source._in_memory("X")
        counts = np.zeros(columns, np.int64)
        first, last = int(indptr[0]), int(indptr[-1])
        for start in range(first, last, _BLOCK):  # in blocks, because bincount copies the indices
            stop = min(start + _BLOCK, last)
            used, weights = indices[start:stop], None
            if times is not None:
                weights = times[np.searchsorted(indptr, np.arange(start, stop), side="right") - 1]
            if values is not None:
                there = values[start:stop] != 0
                used, weights = used[there], None if weights is None else weights[there]
            counts += np.bincount(used, weights, columns).astype(np.int64)  # whole numbers below 2^53
        return counts

    def _is_within(self, other: Dataset) -> bool:
        """Reports whether every stored entry is stored in ``other`` too; False for Arrow data and files."""
        if self is other:
            return True
        if any(data._arrays is None and data._dense is None for data in (self, other)):
            return False
        patterns = []
        for dataset in (self, other):
            matrix = dataset._matrix("")
            parts = np.ones(len(matrix.indices), bool), matrix.indices, matrix.indptr  # `matrix != 0` sorts in place
            patterns.append(scipy.sparse.csr_array(parts, shape=matrix.shape))
        return bool((patterns[0] > patterns[1]).nnz == 0)

    def _in_memory(self, name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """Returns row offsets, column indices and values of a dataset that was made of a SciPy or NumPy matrix.

        Those of a NumPy matrix are a copy, which is made at the first call.

        Raises:
            UnsupportedError: It was made of something else; the message begins with the name.
        """
        _ = self._handle.value  # raises an error if it is closed
        dense = self._dense  # which close() may drop meanwhile
        if self._arrays is None and dense is not None:
            self._arrays = csr_arrays(as_csr(dense, name))
        arrays = self._arrays
        if arrays is None:
            raise UnsupportedError(
                f"{name} is a Dataset of Arrow data, a file or a product, or has an index or a scale; here the rows "
                "must be in memory: dataset[rows] copies some, and dataset[:] all, to a SciPy matrix"
            )
        self._arrays = arrays = plain_arrays(*arrays)  # the engine keeps reading those that it has borrowed
        return arrays

    def _matrix(self, name: str) -> Any:
        """Returns the arrays of :meth:`_in_memory` as a ``csr_array``, without copying values."""
        indptr, indices, values = self._in_memory(name)
        stored = slice(int(indptr[0]), int(indptr[-1]))
        data = np.ones(stored.stop - stored.start, bool) if values is None else values[stored]
        parts: Any = data, indices[stored], indptr - indptr[0]  # SciPy wants offsets from 0
        return scipy.sparse.csr_array(parts, shape=self.shape)

    def __reduce__(self) -> Any:
        if self._indexed is not None and self._indexed[0]._path is not None:
            return _index_again, (*self._indexed[0].__reduce__()[1], self._index)
        if self._path is None or self._described is None:
            raise TypeError(
                "a Dataset borrows memory of its process and cannot be pickled or copied; pass on the matrix, or save "
                "the dataset and open it with Dataset.open"
            )
        return _reopen, (self._path, self._described["sha256"])

    def _parts(self) -> list[str | Table]:
        if self.closed:
            return [repr(self)]
        info, (rows, columns) = self._info, self.shape
        share = f", {self.nnz / (rows * columns):.3%} of the cells" if rows and columns else ""
        facts = [
            ["rows", f"{rows:,}"],
            ["columns", f"{columns:,}"],
            ["stored entries", f"{self.nnz:,}{share}"],
            ["entries of a row", f"{self.nnz / rows:,.1f} on average" if rows else ""],
            ["values", f"{cell(info['minimum'])} to {cell(info['maximum'])}" if self.nnz else ""],
            ["stored as", self._stored_as()],
            ["size", size(self.nbytes)],
        ]
        return [repr(self), Table(None, [row for row in facts if row[1]])]

    def _stored_as(self) -> str:
        if self._indexed is not None and self._index is not None:
            source = self._indexed[0]
            return f"{len(self._index):,} row numbers ({self._index.dtype.name}) of {source!r}"
        bits = self._info["value_bits"]
        if not self._info["index_bits"]:
            return f"dense; numbers of {bits} bits" if self._dense is None else f"dense; {self._dense.dtype.name}"
        values = f"{self._value_type or f'numbers of {bits} bits'}" if bits else "no values, each counts as 1"
        return f"{values}; columns of {self._info['index_bits']} bits"

    def __repr__(self) -> str:
        if self.closed:
            return "Dataset(closed)"
        return f"Dataset({self.shape[0]:,} x {self.shape[1]:,}, {self.nnz:,} stored)"


def _scaling(scale: Any, offset: Any) -> dict[str, float]:
    """Returns options of the engine; none if they change nothing."""
    given = {}
    for name, number in (("scale", scale), ("offset", offset)):
        if not _checks.is_number(number):
            raise InvalidArgumentError(f"{name} must be a number, not {_checks.shown(number)}")
        try:
            given[name] = float(number)
        except OverflowError:
            raise InvalidArgumentError(f"{name} is {_checks.shown(number)}, which is too large") from None
    return {} if given == {"scale": 1, "offset": 0} else given


def _index_again(path: str, digest: str, index: NDArray[Any]) -> Dataset:
    """Opens rows of the file of a pickled dataset, which is closed with them."""
    X = _reopen(path, digest)
    made = Dataset(X, index=index)
    made._indexed = X, True
    return made


def _reopen(path: str, digest: str) -> Dataset:
    """Opens the file of a pickled dataset."""
    made = Dataset.open(path)
    if made._described is None or made._described["sha256"] != digest:
        made.close()
        raise CorruptFileError(f"{os.fsdecode(path)}: the file is not the one of the dataset that was pickled")
    return made


def open_dataset(X: Any, name: str, columns: int | None = None) -> tuple[Dataset, bool]:
    """Returns X as a Dataset, and whether it is new, so that the caller must close it; errors begin with the name.

    ``columns`` is the number of columns of Arrow data.
    """
    if isinstance(X, Dataset):
        return X, False
    made = Dataset.__new__(Dataset)
    made._open(X, name, columns if hasattr(X, "__arrow_c_array__") else None)
    return made, True


def names_of(X: Any) -> NDArray[Any] | None:
    """Returns the names of the items of Interactions or of a Dataset; None for anything else, or without names."""
    return X.item_names if isinstance(X, (Interactions, Dataset)) else None


def named_rows(X: Any) -> Interactions | Dataset | None:
    """Returns what has the names of the rows of X: Interactions, or a Dataset of a file or text; None without names."""
    if not isinstance(X, Dataset):
        return X if isinstance(X, Interactions) else None
    if X._factors is not None:
        return named_rows(X._factors[0])
    if X._indexed is not None:
        return None if named_rows(X._indexed[0]) is None else X
    if X._interactions is not None:
        return X._interactions
    return X if X._described is not None and "rows" in X._described["arrays"] else None


def same_rows(left: Interactions | Dataset, right: Interactions | Dataset) -> bool:
    """Reports whether the names of rows are equal; those of files and texts are not decoded."""
    if left is right:
        return True
    if isinstance(left, Interactions) and isinstance(right, Interactions):
        return left.row_names is right.row_names or _items.same_names(left.row_names, right.row_names)
    return np.array_equal(_row_bytes(left), _row_bytes(right))


def _row_bytes(source: Interactions | Dataset) -> Any:
    """Returns names of rows as a file has them: their offsets and their text."""
    if isinstance(source, Dataset) and source._indexed is None:
        return source._array("rows", np.uint8)
    text, offsets, _ = _items.encode_names(source.row_names, "rows")
    return np.concatenate([offsets.view(np.uint8), text])


def _check_features(X: Dataset, F: Dataset) -> None:
    """Raises an error if the rows of F have other names than the columns of X, and both have names."""
    rows, items = F.row_names, X.item_names
    if rows is None or items is None:
        return
    if len(rows) != len(items):
        text = f"F has {len(rows):,} rows and X {len(items):,} items"
    elif (difference := _items.row_difference(rows, items)) is not None:
        text = "F has other rows than X has items: row {0} of F is {1} and item {0} of X {2}".format(*difference)
    else:
        return
    raise InvalidArgumentError(f"{text}; Interactions.from_frame(..., users=X.item_names) makes a row for each item")


def item_names(items: Any, X: Any) -> Any:
    """Returns the names of items that a caller gave, or else those of Interactions, or of a Dataset of them.

    Raises:
        InvalidArgumentError: Both are there and differ.
    """
    names = names_of(X)
    if items is None or names is None:
        return names if items is None else items
    if not _items.same_names(_checks.array(items), names):
        raise InvalidArgumentError("items= has other names than X; leave it out")
    return items


def pattern(X: Any, name: str) -> Any:
    """Returns a ``csr_array`` of float64 with a 1 where X has a value that is not zero; its indices are sorted.

    Raises:
        InvalidDataError: X is damaged; the message names row, column and value.
        UnsupportedError: X is Arrow data, or a Dataset of a file, of a product or with an index.
    """
    data, made = open_dataset(X, name)
    try:
        matrix = data._matrix(name).astype(np.float64)  # a copy
    finally:
        if made:
            data.close()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.data[:] = 1
    return matrix
