"""Interactions of users and items by their names, made of frames and split into parts."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dsstne import _checks, _entries, _frames, _naming
from dsstne._tables import Shown, Table
from dsstne.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dsstne.model import Model

__all__ = ["Interactions"]

_DUPLICATES = ("sum", "last")
_OF_A_RANKING = ("similar", "score", "rank")  # columns of the frames that models return

_SHOWN = 5  # interactions in the repr


@dataclass(frozen=True)
class _Form:
    """What the frame was like: its library, the names of two columns and their types."""

    library: str = ""
    heads: tuple[Any, Any] = ("user", "item")
    types: tuple[Any, Any] = (None, None)


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Shown):
    """Interactions of users (rows) and items (columns): a sparse matrix and the names of its rows and columns.

    :meth:`from_frame` makes it. Every function that takes an interaction matrix also takes Interactions: models keep
    the names of the items, and :meth:`dsstne.Model.recommend` returns a frame of names.

    ``len(interactions)`` is the number of interactions, and an index selects some of them, in the order of the matrix:
    ``interactions[numbers]``, with an array of integers, a boolean mask or a slice, is a part with the same users and
    items. A part knows the interactions that it was taken from, its ``parent``. The splitters of
    :mod:`dsstne.model_selection` and of scikit-learn therefore split Interactions.

    Args:
        matrix: Sparse matrix of SciPy [rows, items]; duplicates are summed, stored zeros are no interactions.
        row_names, item_names: The names; None = their numbers.
        row_descriptions, item_descriptions: Arrays of str, one line each; empty if there is no description.
        description: Source of the data, how they were prepared, and their licence.
        times: Time of each entry of the matrix, which must then be a ``csr_array`` of float32 with sorted indices,
            without duplicates and zeros.

    Attributes:
        matrix: ``csr_array`` of float32 [rows, items], indices sorted. A part has the shape of its parent.
        row_names, item_names: Arrays of strings or integers, in the order of the matrix.
        times: Numbers or datetime64 [len], in the order of ``matrix.data``, or None.
        parent: The interactions that this part was taken from, or None.

    Raises:
        InvalidArgumentError: The numbers of names or times are not those of the matrix.
        InvalidDataError: The matrix is damaged, or a time is NaN or NaT.

    Example:
        >>> import dsstne
        >>> frame = {"user": ["ann", "ann", "bob"], "item": ["tea", "milk", "tea"]}
        >>> interactions = dsstne.Interactions.from_frame(frame)
        >>> interactions.item_names.tolist(), interactions.matrix.toarray().tolist()
        (['milk', 'tea'], [[1.0, 1.0], [0.0, 1.0]])
        >>> dsstne.popularity(interactions).recommend(interactions.users(["bob"]), k=1)["item"].tolist()
        ['milk']
    """

    matrix: sparse.csr_array
    row_names: NDArray[Any] = None  # type: ignore[assignment] # never None after construction
    item_names: NDArray[Any] = None  # type: ignore[assignment]
    row_descriptions: NDArray[Any] = field(default_factory=lambda: np.empty(0, str))
    item_descriptions: NDArray[Any] = field(default_factory=lambda: np.empty(0, str))
    description: str = ""
    times: NDArray[Any] | None = None
    parent: Interactions | None = field(default=None, init=False)
    _chosen: NDArray[np.bool_] | None = field(default=None, init=False)  # which entries of the parent
    _form: _Form = field(default=_Form(), init=False)

    def __post_init__(self) -> None:
        matrix = _entries.canonical(self.matrix)
        if matrix is not self.matrix:
            if self.times is not None:
                raise InvalidArgumentError("times: the matrix must be a csr_array of float32 that needs no conversion")
            object.__setattr__(self, "matrix", matrix)
        for name, count in zip(("row_names", "item_names"), matrix.shape, strict=True):
            names = np.arange(count) if getattr(self, name) is None else _naming.array_of(getattr(self, name), name)
            if len(names) != count:
                raise InvalidArgumentError(f"{name} has {len(names):,} names; the matrix has {count:,}")
            object.__setattr__(self, name, names)
            about = name.replace("names", "descriptions")
            descriptions = _naming.array_of(getattr(self, about), about)
            if len(descriptions) and (len(descriptions) != count or isinstance(descriptions[0], np.integer)):
                raise InvalidArgumentError(f"{about} must be {count:,} strings or none")
            object.__setattr__(self, about, descriptions)
        _checks.text(self.description, "description")
        if self.times is not None:
            times = _checks.array(self.times)
            if times.shape != (matrix.nnz,) or times.dtype.kind not in "iufM":
                got = f"an array of {times.dtype} with the shape {times.shape}"
                raise InvalidArgumentError(
                    f"times must be a number or time for each of {matrix.nnz:,} entries, not {got}"
                )
            if np.isnan(times).any():
                at = int(np.argmax(np.isnan(times)))
                raise InvalidDataError(f"times[{at}] is {times[at]}; give a time for each entry, or no times")
            object.__setattr__(self, "times", times)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        *,
        user: Any = "user",
        item: Any = "item",
        value: Any = None,
        time: Any = None,
        users: Sequence[Any] | ArrayLike | None = None,
        items: Sequence[Any] | ArrayLike | None = None,
        unknown: str = "raise",
        duplicates: str = "sum",
    ) -> Interactions:
        """Makes Interactions from a frame with one row for each interaction.

        Users and items are sorted (strings by code point, integers by value), so the order of the rows of the frame
        does not matter. A row whose value is 0 is no interaction, but its user and its item count.

        Args:
            df: A DataFrame of pandas or polars, a table, record batch or reader of Arrow, a relation of DuckDB (these
                need pyarrow), or a mapping from names to arrays.
            user, item: Names of the columns with the ids, which are strings or integers.
            value: Name of the column with the values, which are numbers; None = every value is 1.
            time: Name of the column with the times, which are numbers or times, or None.
            users, items: The users of the rows and the items of the columns, instead of those of the frame: for
                example ``items=model.items``, to ask a model about new users.
            unknown: What to do about users and items of the frame that are not in ``users=`` or ``items=``:
                ``"raise"`` an error, ``"warn"`` and leave their rows out, or ``"skip"`` them silently.
            duplicates: What several rows with the same user and item become: ``"sum"`` of their values, or the value
                of the ``"last"`` by ``time``, or by the order of the frame if it has no times or equal ones. The
                latest time is kept.

        Raises:
            InvalidArgumentError: df is not a frame, has no such column, or an option is not valid.
            InvalidDataError: A column has missing values or values of another type; the message names column and row.
            NotFoundError: A user or an item is unknown, and ``unknown`` is ``"raise"``.
            ImportError: A frame of Arrow or DuckDB needs pyarrow, which is not installed.

        Warns:
            UserWarning: Users or items are unknown, and ``unknown`` is ``"warn"``.

        Example:
            >>> import pandas
            >>> frame = pandas.DataFrame({"who": [7, 7, 3], "what": ["tea", "milk", "tea"], "stars": [5, 3, 4]})
            >>> interactions = Interactions.from_frame(frame, user="who", item="what", value="stars")
            >>> interactions.row_names, interactions.matrix.toarray()
            (array([3, 7]), array([[0., 4.],
                   [3., 5.]], dtype=float32))
        """
        _naming.check_word(unknown, "unknown", _naming.UNKNOWN)
        _naming.check_word(duplicates, "duplicates", _DUPLICATES)
        frame = _frames.opened(df)
        rows, row_names, row_type = _coded(frame, user, "user", users, unknown)
        columns, item_names, item_type = _coded(frame, item, "item", items, unknown)
        if user == item:
            raise InvalidArgumentError(f"user and item are the same column, {user!r}; name the column of each")
        for name, column in (("user", user), ("item", item)):
            if column in _OF_A_RANKING:
                raise InvalidArgumentError(
                    f"{name}: rename the column {column!r}: frames of recommendations have the columns user, item, "
                    "similar, score and rank"
                )
        values = None if value is None else frame.numbers(value, "value", "biuf", "numbers")
        times = None if time is None else frame.numbers(time, "time", "iufM", "numbers or datetime64")
        known = (rows >= 0) & (columns >= 0)
        if not known.all():
            rows, columns = rows[known], columns[known]
            values, times = (None if array is None else array[known] for array in (values, times))
        shape = len(row_names), len(item_names)
        matrix, times = _entries.matrix_of(rows, columns, values, times, shape, duplicates)
        form = _Form(frame.library, (user, item), (row_type, item_type))
        return cls(matrix, row_names, item_names, times=times)._like(form)

    def _like(self, form: _Form) -> Interactions:
        """Sets what the frame was like, for new Interactions."""
        object.__setattr__(self, "_form", form)
        return self

    # ---- parts ----

    def __len__(self) -> int:
        return int(self.matrix.nnz)

    @property
    def shape(self) -> tuple[int]:
        """``(len(self),)``: as an array with one element an interaction."""
        return (len(self),)

    __iter__ = None  # or Python would try the indices 0, 1, ...

    def __getitem__(self, key: Any) -> Interactions:
        from dsstne._layers import numbers  # which imports this module

        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # the way of scikit-learn
            key = key[0]
        if isinstance(key, tuple):
            raise InvalidArgumentError(f"index: expected one, got {_checks.shown(key)}; .matrix has rows and columns")
        if isinstance(key, slice):
            key = np.arange(len(self))[key]
        chosen = np.zeros(len(self), bool)
        asked = numbers(key, len(self), "index", np.int64)
        chosen[asked] = True
        if np.count_nonzero(chosen) < len(asked):
            raise InvalidArgumentError("index: an interaction is chosen twice; a matrix has each only once")
        return self._part(chosen)

    def _part(self, chosen: NDArray[np.bool_]) -> Interactions:
        times = None if self.times is None else self.times[chosen]
        part = replace(self, matrix=_entries.chosen_entries(self.matrix, chosen), times=times)._like(self._form)
        object.__setattr__(part, "parent", self)
        object.__setattr__(part, "_chosen", chosen)
        return part

    @property
    def given(self) -> sparse.csr_array | None:
        """The entries of the parent that are not in this part, ``csr_array`` [rows, items]; None without a parent.

        They are what is known when this part is to be predicted. In a nested cross-validation the parent is the outer
        training part, so that no interaction of the outer test part is in it.
        """
        if self.parent is None or self._chosen is None:
            return None
        return _entries.chosen_entries(self.parent.matrix, ~self._chosen)

    def __reduce__(self) -> Any:
        if self.parent is None:
            return super().__reduce__()
        return operator.getitem, (self.parent, self._chosen)  # several parts of a pickle share the parent

    # ---- names ----

    def users(self, names: Iterable[Any], unknown: str = "raise") -> Interactions:
        """Returns the interactions of the named users only, one row for each, in the order of the names.

        A part remains a part: of the same users' interactions.

        Args:
            names: Names of users, or one name.
            unknown: What to do about unknown users: ``"raise"``, ``"warn"`` and leave them out, or ``"skip"`` them.

        Raises:
            NotFoundError: A user is unknown, and ``unknown`` is ``"raise"``; the message suggests the nearest name.

        Example:
            >>> from dsstne.datasets import load_debian
            >>> load_debian().users(["gimp", "vim"]).matrix.shape
            (2, 5926)
        """
        return self._rows(_naming.known_numbers(names, self.row_names, "row", unknown))

    def _rows(self, rows: NDArray[np.int64]) -> Interactions:
        if self.parent is not None and self._chosen is not None:
            return self.parent._rows(rows)._part(_entries.aligned(self._chosen, self.parent.matrix, rows))
        matrix: Any = self.matrix
        return replace(
            self,
            matrix=_entries.marked(matrix[rows]),
            row_names=self.row_names[rows],
            row_descriptions=self.row_descriptions[rows] if len(self.row_descriptions) else self.row_descriptions,
            times=None if self.times is None else _entries.aligned(self.times, matrix, rows),
        )._like(self._form)

    def rows(self, names: Iterable[Any], unknown: str = "raise") -> NDArray[np.int64]:
        """Returns the numbers of the named rows, int64; the NotFoundError of an unknown name suggests the nearest.

        ``unknown`` is as in :meth:`users`.
        """
        return _naming.known_numbers(names, self.row_names, "row", unknown)

    def items(self, names: Iterable[Any], unknown: str = "raise") -> NDArray[np.int64]:
        """Returns the numbers of the named items, int64; the NotFoundError of an unknown name suggests the nearest.

        ``unknown`` is as in :meth:`users`.
        """
        return _naming.known_numbers(names, self.item_names, "item", unknown)

    def matrix_of(self, rows: Iterable[Iterable[Any]], unknown: str = "raise") -> sparse.csr_array:
        """Returns a matrix with the same items and new rows, each given as a list of item names.

        ``unknown`` is as in :meth:`users`, about the items.

        Example:
            >>> from dsstne.datasets import load_debian
            >>> debian = load_debian()
            >>> debian.matrix_of([["libssl3", "zlib1g"], ["python3"]]).shape[0]
            2
        """
        lists = [_naming.listed(names) for names in _checks.several(rows, "rows")]
        asked = [name for names in lists for name in names]
        columns = _naming.numbers_of(asked, self.item_names, "item", unknown, stacklevel=3)
        of_row = np.repeat(np.arange(len(lists)), [len(names) for names in lists])
        known = columns >= 0
        shape = len(lists), len(self.item_names)
        return _entries.matrix_of(of_row[known], columns[known], None, None, shape, "last")[0]

    def similar_items(
        self, model: Model, names: Iterable[Any], k: int | None = None, unknown: str = "raise", **options: Any
    ) -> Any:
        """Returns the items that are most similar to the named items, see :meth:`dsstne.Model.similar_items`.

        Args:
            model: A model of these items.
            names: Names of items, or one name.
            k: Length of the lists; None = 10, or all items if there are fewer.
            unknown: As in :meth:`users`.
            **options: As in :meth:`dsstne.Model.similar_items`.

        Returns:
            A frame as :meth:`dsstne.Model.recommend` returns one, with the columns of the item, ``similar``, ``score``
            and ``rank``.

        Raises:
            NotFoundError: An item is unknown, and ``unknown`` is ``"raise"``.
            InvalidArgumentError: The model has other items. Otherwise as :meth:`dsstne.Model.similar_items`.

        Example:
            >>> import dsstne
            >>> frame = {"user": [1, 1, 2, 2, 3], "item": ["tea", "milk", "tea", "milk", "tea"]}
            >>> interactions = dsstne.Interactions.from_frame(frame)
            >>> model = dsstne.item_knn(interactions, progress=False)
            >>> interactions.similar_items(model, "tea", k=1)["similar"].tolist()
            ['milk']
        """
        from dsstne._predictor import check_item_names
        from dsstne._weights import check_model  # these import this module

        check_model(model)
        check_item_names(model, self.item_names, "interactions")
        asked = _naming.known_numbers(names, self.item_names, "item", unknown)
        ids, scores = model.similar_items(asked, k, **options)
        named = _frames.Names(self.item_names, asked, self._form.types[1])
        return _frames.ranking(self._form.library, (self._form.heads[1], "similar"), named, named, ids, scores)

    def _recommended(
        self, ids: NDArray[Any], scores: NDArray[Any], rows: NDArray[Any] | None, item_names: NDArray[Any] | None
    ) -> Any:
        """Returns the lists of some rows (None = of all) as a frame; ``item_names`` None = those of the columns."""
        form = self._form
        row = np.arange(len(ids)) if rows is None else rows
        items = _frames.Names(self.item_names, row, form.types[1])
        if item_names is not None and not np.array_equal(item_names, self.item_names):
            items = _frames.Names(item_names, row)
        users = _frames.Names(self.row_names, row, form.types[0])
        return _frames.ranking(form.library, form.heads, users, items, ids, scores)

    def _times_matrix(self) -> sparse.csr_array | None:
        """Returns the places of the entries in the order of time, [rows, items], 1 = the first; None without times."""
        if self.times is None:
            return None
        _, places = np.unique(self.times, return_inverse=True)
        parts = places.astype(np.float64) + 1, self.matrix.indices, self.matrix.indptr
        return sparse.csr_array(parts, shape=self.matrix.shape)

    def _parts(self) -> list[str | Table]:
        rows, items = len(self.row_names), len(self.item_names)
        words = f"{len(self):,} interactions of {rows:,} rows and {items:,} items"
        if self.parent is not None:
            words += f", a part of {len(self.parent):,}"
        first = slice(min(_SHOWN, len(self)))
        row = np.searchsorted(self.matrix.indptr, np.arange(len(self))[first], "right") - 1
        columns = [self.row_names[row], self.item_names[self.matrix.indices[first]], self.matrix.data[first]]
        heads = [*map(str, self._form.heads), "value"]
        if self.times is not None:
            columns.append(self.times[first])
            heads.append("time")
        cells = [[str(cell)[:40] for cell in line] for line in zip(*columns, strict=True)]
        cells += [["..."] + [""] * (len(heads) - 1)] if len(self) > _SHOWN else []
        return [words, Table(heads, cells, right=[2])]

    __repr__ = Shown.__str__


def _coded(
    frame: _frames.Frame, column: Any, what: str, wanted: Any, unknown: str
) -> tuple[NDArray[np.int64], NDArray[Any], Any]:
    """Returns the number of the name in each row of the frame (-1 = unknown), the names, and the column's type."""
    known = None if wanted is None else _naming.array_of(wanted, f"{what}s")
    codes, names, kind = frame.ids(column, what)
    if known is not None and (hasattr(kind, "categories") or known.dtype.kind in "iu"):
        kind = None  # it might not have all of the names
    if known is None:
        order = np.argsort(names, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        known = names[order]
    else:
        first: dict[Any, int] = {}
        for n, name in enumerate(known.tolist()):
            if first.setdefault(name, n) < n:
                at = f"at {first[name]} and {n}"
                raise InvalidArgumentError(f"{what}s: {_checks.shown(name)} is {at}; name each once")
        place = _naming.numbers_of(names.tolist(), known, what, unknown)
    return place[codes.astype(np.int64, copy=False)], known, kind
