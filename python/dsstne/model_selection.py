"""Splitters for cross-validation, with the interface of those of scikit-learn, which they do not need.

Splitters over users (:class:`UserKFold`, :class:`UserShuffleSplit`) return numbers of rows of a matrix: how well does a
model serve users that it has not learned from? Splitters over entries (:class:`HoldOut`, :class:`EntryKFold`,
:class:`LeaveLastOut`, :class:`TimeSplit`) return indices of :class:`dsstne.Interactions`: how well does it predict
further items of the users that it knows? Train and test entries together are always all entries, so ``test.given``, the
entries of the parent that are not in a part, are the training entries:

>>> import dsstne
>>> from dsstne.model_selection import HoldOut
>>> interactions = dsstne.datasets.load_debian()
>>> for train, test in HoldOut(0.2).split(interactions):
...     model = dsstne.linear(interactions[train], progress=False)
...     fold = interactions[test]
...     metrics = dsstne.evaluate(model, fold.given, fold, "ndcg@20")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne.datasets._split import places, share
from dsstne.errors import InvalidArgumentError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["EntryKFold", "HoldOut", "LeaveLastOut", "TimeSplit", "UserKFold", "UserShuffleSplit"]

_MOST = 1 << 20  # splits


class _Splitter(ABC):
    """Yields the numbers of what is trained with and what is tested with."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yields pairs of ascending indices ``(train, test)``.

        Args:
            X: What to split, see the class.
            y, groups: Not used; they are here for scikit-learn.

        Raises:
            InvalidArgumentError: X is not what the class splits, an option is not valid, or nothing is left to train
                or test with.
        """
        for is_test in self._tests(X):
            if is_test.all() or not is_test.any():
                word = "train" if is_test.all() else "test"
                raise InvalidArgumentError(f"{_checks.shown(self)} leaves nothing to {word} with")
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Returns the number of pairs that :meth:`split` yields; no argument is used."""
        return _splits(getattr(self, "n_splits", 1), 1)

    @abstractmethod
    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        """Yields which elements of X are tested with."""

    def _seeds(self) -> list[int]:
        """Returns a seed for each pair, of which the first is the given one."""
        seed = _checks.integer(getattr(self, "seed", None), "seed", 0)
        return [seed, *map(int, np.random.SeedSequence(seed).generate_state(self.get_n_splits() - 1))]


@dataclass(frozen=True)
class UserKFold(_Splitter):
    """Divides the rows of a matrix at random into parts of equal sizes, give or take one; each is tested with once.

    Args:
        n_splits: Number of parts.
        seed: Seed of the division.

    Example:
        >>> import numpy as np
        >>> [test.tolist() for _, test in UserKFold(n_splits=2).split(np.eye(4))]
        [[0, 1], [2, 3]]
    """

    n_splits: int = 5
    seed: int = 0

    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        parts, rows = _splits(self.n_splits, 2), _rows(X, self)
        if parts > rows:
            raise InvalidArgumentError(f"{_checks.shown(self)} needs at least as many rows as parts; X has {rows:,}")
        part = np.random.default_rng(self._seeds()[0]).permutation(rows) % parts
        yield from (part == n for n in range(parts))


@dataclass(frozen=True)
class UserShuffleSplit(_Splitter):
    """Draws rows of a matrix to test with, independently in each split.

    Args:
        fraction: Share of the rows to test with, rounded.
        n_splits: Number of splits.
        seed: Seed of the draws.

    Example:
        >>> import numpy as np
        >>> [test.tolist() for _, test in UserShuffleSplit(0.25, n_splits=2).split(np.eye(8))]
        [[5, 6], [2, 7]]
    """

    fraction: float = 0.2
    n_splits: int = 1
    seed: int = 0

    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        fraction, rows = _fraction(self.fraction), _rows(X, self)
        for seed in self._seeds():
            yield np.random.default_rng(seed).permutation(rows) < round(fraction * rows)


@dataclass(frozen=True)
class HoldOut(_Splitter):
    """Holds out a random share of the entries of each user, as :func:`dsstne.datasets.hold_out` does.

    Of ``n`` entries of a user, ``n * fraction`` (rounded, halves up) are tested with, but at least one is trained with.

    Args:
        fraction: Share of the entries of each user.
        n_splits: Number of splits, which are independent of each other.
        seed: Seed of the draws; the first split is that of ``hold_out(interactions, fraction, seed)``.

    Example:
        >>> import dsstne
        >>> frame = {"user": ["ann"] * 4 + ["bob"], "item": ["tea", "milk", "rice", "salt", "tea"]}
        >>> interactions = dsstne.Interactions.from_frame(frame)
        >>> [(train.tolist(), test.tolist()) for train, test in HoldOut(0.5).split(interactions)]
        [([0, 1, 4], [2, 3])]
    """

    fraction: float = 0.2
    n_splits: int = 1
    seed: int = 0

    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        fraction, matrix = _fraction(self.fraction), _interactions(X, self).matrix
        for seed in self._seeds():
            count = np.repeat(share(matrix, fraction), np.diff(matrix.indptr))
            yield places(matrix, np.random.default_rng(seed)) < count


@dataclass(frozen=True)
class EntryKFold(_Splitter):
    """Divides the entries of each user at random into parts of equal sizes, give or take one; each is tested with once.

    The only entry of a user is always trained with.

    Args:
        n_splits: Number of parts.
        seed: Seed of the division.

    Example:
        >>> import dsstne
        >>> frame = {"user": ["ann"] * 4 + ["bob"], "item": ["tea", "milk", "rice", "salt", "tea"]}
        >>> interactions = dsstne.Interactions.from_frame(frame)
        >>> [test.tolist() for _, test in EntryKFold(n_splits=2).split(interactions)]
        [[0, 2], [1, 3]]
    """

    n_splits: int = 5
    seed: int = 0

    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        parts, matrix = _splits(self.n_splits, 2), _interactions(X, self).matrix
        random = np.random.default_rng(self._seeds()[0])
        place, lengths = places(matrix, random), np.diff(matrix.indptr)
        # Each user begins with another part, or the first parts would have more of the users with few entries.
        part = (place + np.repeat(random.integers(parts, size=len(lengths)), lengths)) % parts
        several = np.repeat(lengths > 1, lengths)
        yield from ((part == n) & several for n in range(parts))


@dataclass(frozen=True)
class LeaveLastOut(_Splitter):
    """Tests with the last entries of each user by ``times``; at least one entry of a user is trained with.

    Of equal times, the later is the entry whose item has the higher number.

    Args:
        n: Number of entries of each user to test with.

    Example:
        >>> import dsstne
        >>> frame = {"user": ["ann"] * 3 + ["bob"], "item": ["tea", "milk", "rice", "tea"], "time": [3, 1, 2, 4]}
        >>> interactions = dsstne.Interactions.from_frame(frame, time="time")
        >>> for train, test in LeaveLastOut().split(interactions):
        ...     interactions.item_names[interactions[test].matrix.indices].tolist()
        ['tea']
    """

    n: int = 1

    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        count = _checks.integer(self.n, "n", 1)
        interactions = _interactions(X, self)
        order = np.empty(len(interactions), np.int64)
        order[np.argsort(_times(interactions, self), kind="stable")] = np.arange(len(order))
        lengths = np.diff(interactions.matrix.indptr).astype(np.int64)
        yield places(interactions.matrix, order) < np.repeat(np.minimum(count, lengths - 1), lengths)


@dataclass(frozen=True)
class TimeSplit(_Splitter):
    """Trains with the entries before a point in time and tests with the others, of all users.

    This is what happens to a model in use. Users whose first entry is later have no training entries.

    Args:
        before: The time: a number if the times are numbers, else a datetime or a str such as ``"2026-01-31"``. If the
            times had a time zone, a datetime with a zone, or in UTC.

    Example:
        >>> import dsstne
        >>> frame = {"user": ["ann", "ann", "bob"], "item": ["tea", "milk", "tea"], "year": [2020, 2026, 2025]}
        >>> interactions = dsstne.Interactions.from_frame(frame, time="year")
        >>> [test.tolist() for _, test in TimeSplit(before=2024).split(interactions)]
        [[0, 2]]
    """

    before: Any

    def _tests(self, X: Any) -> Iterator[NDArray[np.bool_]]:
        times, before = _times(_interactions(X, self), self), self.before
        if times.dtype.kind == "M":
            if isinstance(before, datetime) and before.tzinfo is not None:  # NumPy would convert it with a warning
                before = before.astimezone(timezone.utc).replace(tzinfo=None)
            try:
                before = np.datetime64(before)
            except (TypeError, ValueError):
                before = np.datetime64("NaT", "s")
        is_right = isinstance(before, np.datetime64) if times.dtype.kind == "M" else _checks.is_number(before)
        if not is_right or before != before:
            wanted = "a time" if times.dtype.kind == "M" else "a number"
            raise InvalidArgumentError(f"before must be {wanted}, as the times are, not {_checks.shown(self.before)}")
        yield times >= before


def _interactions(X: Any, splitter: _Splitter) -> Interactions:
    if not isinstance(X, Interactions):
        raise InvalidArgumentError(
            f"{type(splitter).__name__} splits the entries of dsstne.Interactions, not of a {type(X).__name__}; "
            "dsstne.Interactions(X) makes them of a sparse matrix"
        )
    return X


def _rows(X: Any, splitter: _Splitter) -> int:
    shape: Any = getattr(X, "shape", ())
    if isinstance(X, Interactions) or not isinstance(shape, tuple) or len(shape) != 2:
        remedy = "; give interactions.matrix" if isinstance(X, Interactions) else f", not of a {type(X).__name__}"
        raise InvalidArgumentError(f"{type(splitter).__name__} splits the rows of a matrix{remedy}")
    return int(shape[0])


def _times(interactions: Interactions, splitter: _Splitter) -> NDArray[Any]:
    if interactions.times is None:
        name = type(splitter).__name__
        raise InvalidArgumentError(f"{name} needs the times of the interactions: Interactions.from_frame(..., time=)")
    return interactions.times


def _splits(n_splits: Any, least: int) -> int:
    count = _checks.integer(n_splits, "n_splits", least)
    if count > _MOST:
        raise InvalidArgumentError(f"n_splits must be at most {_MOST:,}, not {_checks.shown(count)}")
    return count


def _fraction(fraction: Any) -> float:
    if not _checks.is_number(fraction) or not 0 < fraction < 1:
        raise InvalidArgumentError(f"fraction must be between 0 and 1, not {_checks.shown(fraction)}")
    return float(fraction)
