"""Frames of pandas, polars, Arrow and DuckDB, and mappings of arrays: their columns as NumPy arrays, and the way back.

Each library is imported only when one of its frames is read or made. Ids are numbered by the library of the frame,
whose hash tables are several times as fast as sorting with NumPy.
"""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne import _checks
from dsstne.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Names(NamedTuple):
    """A column of a frame to make: names, the number of the name in each row, and the column's type in the library."""

    names: NDArray[Any]
    numbers: NDArray[Any]
    type: Any = None  # None: the library chooses


class Frame(ABC):
    """The columns of a frame.

    Args:
        frame: The frame; an index selects a column.
        columns: The names of its columns.
    """

    library: str

    def __init__(self, frame: Any, columns: Iterable[Any]) -> None:
        self._frame, self._columns = frame, list(columns)

    def ids(self, column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """Returns the number of the id in each row, the ids that occur in any order, and the type of the column.

        Raises:
            InvalidArgumentError: There is no such column.
            InvalidDataError: An id is missing, or the ids are neither strings nor integers.
        """
        values = self._complete(column, name)
        numbers, ids = self._numbered(values)
        kinds = {np.datetime64} if ids.dtype.kind in "mM" else set(map(type, ids.tolist()))
        if len(kinds) > 1 or not kinds <= {str, int}:
            words = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InvalidDataError(
                f"{name}: column {column!r} has ids of type {words}; convert them all to strings or all to integers"
            )
        if ids.dtype == object and kinds == {int}:
            try:
                ids = ids.astype(np.int64)
            except OverflowError:
                text = f"{name}: column {column!r} has integers that do not fit in 64 bits; convert all to strings"
                raise InvalidDataError(text) from None
        return numbers, ids, self._type(values)

    def numbers(self, column: Any, name: str, kinds: str, wanted: str) -> NDArray[Any]:
        """Returns a column whose NumPy type is of one of the kinds, such as ``"iuf"``.

        Raises:
            InvalidArgumentError: There is no such column.
            InvalidDataError: A value is missing, or the column has another type.
        """
        values = self._complete(column, name)
        array = self._array(values)
        if array.dtype.kind not in kinds:
            raise InvalidDataError(f"{name}: column {column!r} is of type {self._type(values)}; expected {wanted}")
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise _missing(column, name, np.isnan(array))
        return array

    def _complete(self, column: Any, name: str) -> Any:
        """Returns a column without missing values."""
        is_name = isinstance(column, (str, int)) and not isinstance(column, bool)
        if not is_name or column not in self._columns:
            listed = _checks.shown(self._columns)
            raise InvalidArgumentError(f"{name}: the frame has no column {_checks.shown(column)}; it has {listed}")
        if self._columns.count(column) > 1:
            raise InvalidArgumentError(f"{name}: the frame has several columns {column!r}")
        values = self._frame[column]
        missing = self._missing(values)
        if missing.any():
            raise _missing(column, name, missing)
        return values

    def _missing(self, values: Any) -> NDArray[np.bool_]:
        """Reports which values of a column are missing."""
        return np.asarray(values.is_null().to_numpy())

    @abstractmethod
    def _numbered(self, values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the number of each value, and the values that occur."""

    def _array(self, values: Any) -> NDArray[Any]:
        """Returns a column as an array; times are datetime64 in UTC."""
        return np.asarray(values.to_numpy())

    def _type(self, values: Any) -> Any:
        return values.dtype

    @classmethod
    def make(cls, columns: dict[Any, Any]) -> Any:
        """Returns a frame of arrays and :class:`Names`."""
        return cls._made({key: cls._named(c) if isinstance(c, Names) else c for key, c in columns.items()})

    @staticmethod
    @abstractmethod
    def _made(columns: dict[Any, Any]) -> Any:
        """Returns a frame of columns."""

    @staticmethod
    def _named(column: Names) -> Any:
        """Returns a column of names, of its type."""
        return column.names[column.numbers]


class _Pandas(Frame):
    library = "pandas"

    def _missing(self, values: Any) -> NDArray[np.bool_]:
        return np.asarray(values.isna().to_numpy(bool))

    def _numbered(self, values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        numbers, ids = values.factorize()
        return numbers, np.asarray(ids)

    def _array(self, values: Any) -> NDArray[Any]:
        kind = getattr(values.dtype, "kind", "O")
        if kind == "M":
            return np.asarray(values.to_numpy("datetime64[ns]"))
        return np.asarray(values.to_numpy() if isinstance(values.dtype, np.dtype) else values.array, _PLAIN.get(kind))

    @staticmethod
    def _made(columns: dict[Any, Any]) -> Any:
        return _library("pandas").DataFrame(columns)

    @staticmethod
    def _named(column: Names) -> Any:
        return _library("pandas").Series(column.names[column.numbers], dtype=column.type)


_PLAIN = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}


class _Polars(Frame):
    library = "polars"

    def _numbered(self, values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        polars = _library("polars")
        if values.dtype in (polars.Categorical, polars.Enum):
            values = values.cast(polars.String)
        ids = values.unique()
        numbers = polars.int_range(len(ids), dtype=polars.Int64, eager=True)
        return values.replace_strict(ids, numbers, return_dtype=polars.Int64).to_numpy(), ids.to_numpy()

    @staticmethod
    def _made(columns: dict[Any, Any]) -> Any:
        return _library("polars").DataFrame(columns)

    @staticmethod
    def _named(column: Names) -> Any:
        polars = _library("polars")
        strings = polars.String if column.names.dtype.kind in "OU" else None
        names = polars.Series(values=column.names.tolist() if strings else column.names, dtype=strings)
        chosen = names.gather(column.numbers)
        return chosen if column.type is None else chosen.cast(column.type)


class _Arrow(Frame):
    library = "pyarrow"

    def __init__(self, frame: Any) -> None:
        pyarrow = _library("pyarrow")
        try:
            table = pyarrow.table(frame)
        except (TypeError, pyarrow.ArrowInvalid) as error:  # of a single column, such as a Series
            raise InvalidArgumentError(f"df must be a table, not a {type(frame).__name__}: {error}") from None
        super().__init__(table, table.column_names)

    def _numbered(self, values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        if _is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        coded = values.dictionary_encode().unify_dictionaries()
        numbers = np.concatenate([np.empty(0, np.int32), *(part.indices.to_numpy() for part in coded.chunks)])
        ids = coded.chunk(0).dictionary.to_numpy(zero_copy_only=False) if coded.num_chunks else np.empty(0, object)
        return numbers, ids

    def _type(self, values: Any) -> Any:
        return values.type

    @staticmethod
    def _made(columns: dict[Any, Any]) -> Any:
        return _library("pyarrow").table(columns)

    @staticmethod
    def _named(column: Names) -> Any:
        pyarrow = _library("pyarrow")
        chosen = pyarrow.array(column.names).take(pyarrow.array(column.numbers))
        if column.type is None:
            return chosen
        return (chosen.dictionary_encode() if _is_dictionary(column.type) else chosen).cast(column.type)


class _Arrays(Frame):
    library = ""

    def __init__(self, frame: Mapping[Any, Any]) -> None:
        arrays = {name: _column_of(values) for name, values in frame.items()}
        for name, array in arrays.items():
            if array.ndim != 1 or len(array) != len(next(iter(arrays.values()))):
                raise InvalidArgumentError(
                    f"df: {_checks.shown(name)} has the shape {array.shape}; all arrays must have one dimension and "
                    "the same length"
                )
        super().__init__(arrays, arrays)

    def _missing(self, values: Any) -> NDArray[np.bool_]:
        if values.dtype == object:
            missing: NDArray[np.bool_] = ((values == None) | (values != values)).astype(np.bool_)  # noqa: E711
            return missing
        return np.isnat(values) if values.dtype.kind in "mM" else np.zeros(len(values), bool)

    def _numbered(self, values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        try:
            ids, numbers = np.unique(values, return_inverse=True)
        except TypeError:  # of several types, which cannot be sorted; ids() says so
            return np.zeros(len(values), np.int64), values
        return numbers, ids

    def _array(self, values: Any) -> NDArray[Any]:
        return np.asarray(values)

    @staticmethod
    def _made(columns: dict[Any, Any]) -> Any:
        return columns


def _column_of(values: Any) -> NDArray[Any]:
    """Converts a list to an array; NumPy would convert numbers among strings to strings."""
    array = _checks.array(values)
    is_list = array.ndim > 0 and not isinstance(values, np.ndarray)
    return np.array(list(values), object) if is_list and array.dtype.kind == "U" else array


_LIBRARIES: dict[str, Any] = {one.library: one for one in (_Pandas, _Polars, _Arrow, _Arrays)}


def opened(frame: Any) -> Frame:
    """Returns the columns of a frame.

    Raises:
        InvalidArgumentError: The frame is of no known kind.
        ImportError: It is of Arrow or DuckDB, and pyarrow is not installed.
    """
    for library in (_Pandas, _Polars):
        module = sys.modules.get(library.library)
        if module is not None and isinstance(frame, module.DataFrame):
            return library(frame, frame.columns)
    if isinstance(frame, Mapping):
        return _Arrays(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        return _Arrow(frame)
    remedy = "; call collect() first" if hasattr(frame, "collect") else ""
    raise InvalidArgumentError(
        "df must be a DataFrame of pandas or polars, a table of Arrow, a relation of DuckDB or a mapping from names "
        f"to arrays, not {_checks.shown(type(frame).__name__)}{remedy}"
    )


def ranking(
    library: str, heads: tuple[Any, Any], rows: Names, items: Names, ids: NDArray[Any], scores: NDArray[Any]
) -> Any:
    """Returns the lists of a ranking as a frame of a library, without the places where no item is left.

    Args:
        library: Name of the library; empty = a dict of arrays.
        heads: Names of the columns of the rows and the items.
        rows: Names of the rows; ``numbers`` has one for each list.
        items: Names of the items; ``numbers`` is not used.
        ids, scores: The lists, [n, k]; the id -1 means no item.
    """
    row, place = np.nonzero(ids >= 0)
    columns = {
        heads[0]: rows._replace(numbers=rows.numbers[row]),
        heads[1]: items._replace(numbers=ids[row, place]),
        "score": scores[row, place],
        "rank": place + 1,
    }
    return _LIBRARIES[library].make(columns)


def _missing(column: Any, name: str, missing: NDArray[np.bool_]) -> InvalidDataError:
    count, first = np.count_nonzero(missing), int(np.argmax(missing))
    return InvalidDataError(
        f"{name}: column {column!r} has no value in row {first} ({count:,} such rows); drop these rows or fill them"
    )


def _is_dictionary(arrow_type: Any) -> bool:
    return bool(_library("pyarrow").types.is_dictionary(arrow_type))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"frames of Arrow and DuckDB need {name}: pip install {name}") from error
