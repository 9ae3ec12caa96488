"""What auto() learns from and what it compares models with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _blending, _checks, api
from dsstne._layers import check_row_names
from dsstne._metric_names import one_metric
from dsstne._predictor import check_item_names
from dsstne.dataset import Dataset, item_names, names_of
from dsstne.datasets import hold_out
from dsstne.datasets._split import _csr, canonical, is_sorted_by_item
from dsstne.errors import InvalidArgumentError
from dsstne.evaluation import evaluate
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsstne.model import Model

CORE = 10
LEAST_ROWS = 10  # with held-out items; fewer say nothing about models
_ENOUGH, _MOST_FOLDS = 10_000, 5  # held-out entries; fewer tell models apart only if the data are split several times
_DEEPER = 5  # times as long lists tell models apart that few held-out entries in short lists do not


@dataclass(frozen=True)
class Fold:
    """One split of the data.

    Attributes:
        train: What the candidates learn from, CSR [rows, items].
        inputs, held_out: Input rows and the items to find in them, CSR [validation rows, items].
    """

    train: Any
    inputs: Any
    held_out: Any


@dataclass(frozen=True)
class Task:
    """The data of a search.

    Attributes:
        folds: The splits, with the same validation rows; a candidate is made and measured on each.
        fresh: Further splits of few data, on which settings are confirmed that look better on the first ones.
        whole: What the chosen model learns from in the end.
        split: How the data were split, a sentence.
        notes: What a user should know about the split.
        problem: Why the data allow no comparison, or None.
        preparation: Lines of Python that make ``whole`` of the arguments.
    """

    folds: list[Fold]
    whole: Any
    split: str
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    preparation: str = ""
    fresh: list[Fold] = field(default_factory=list)

    @property
    def train(self) -> Any:
        """What candidates learn from in the first split."""
        return self.folds[0].train

    @property
    def rows(self) -> int:
        """Number of validation rows, which are the same in all splits."""
        return int(self.folds[0].inputs.shape[0])

    @property
    def is_whole(self) -> bool:
        """Whether the candidates learn from all data, so that nothing has to be refitted."""
        return self.whole is self.train

    @property
    def growth(self) -> float:
        """How many times as many entries the refit has."""
        return float(self.whole.nnz / max(1, self.train.nnz))


@dataclass(frozen=True)
class Given:
    """The arguments of a search.

    Attributes:
        X: The interaction matrix.
        items: Names of the items, or None.
        times: The times of X, or None.
        begin: Lines of Python that make X and the names of the arguments.
        popular: The popularity of the items of X.
    """

    X: Any
    items: Any
    times: Any
    begin: str
    popular: Model


def given(X: Any, items: Any, times: Any, validation: Any) -> Given:
    """Takes matrix, names and times out of what was given, and checks that the names of rows and items match.

    Raises:
        InvalidArgumentError: Names differ.
        InvalidDataError: X is damaged.
    """
    parts = validation if isinstance(validation, (tuple, list)) else [validation]
    if parts is validation:
        check_row_names((f"validation[{n}]", part) for n, part in enumerate(parts))
    else:
        check_row_names([("X", X), ("validation", validation)])
    begin = ""
    names = item_names(items, X)
    line = "" if items is not None or names is None else "items = X.item_names\n"
    if isinstance(X, Interactions):
        begin = line + "X = X.matrix\n"
        times = X._times_matrix() if times is None and validation is None else times
        X = X.matrix
    elif isinstance(X, Dataset):
        begin, X = line, X._matrix("X")
    popular = api.popularity(X, items=names)
    for part in parts:
        check_item_names(popular, names_of(part), "validation")
    return Given(X, names, times, begin, popular)


def try_metric(given: Given, metric: str, compute: Mapping[str, Any]) -> None:
    """Raises an error if the metric or the options of computing are not valid: before anything is trained."""
    if given.popular.output_units:
        first = np.arange(min(1, given.X.shape[0]))
        evaluate(given.popular, given.X, given.X, metric, exclude=None, rows=first, **compute)


def prepare(X: Any, times: Any, validation: Any, seed: int, most_folds: int = _MOST_FOLDS) -> Task:
    """Splits X, in several ways if there are few held-out items, or takes the validation data that are given.

    Raises:
        InvalidArgumentError: Both times and validation data are given, or shapes do not match.
        InvalidDataError: A matrix is damaged, or a time is not a number.
    """
    if times is not None and validation is not None:
        raise InvalidArgumentError("give times= (from which auto makes a split) or validation= (a split), not both")
    if validation is None:
        return _split(X, times, seed, most_folds)
    X = canonical(X, "X")
    if not isinstance(validation, (tuple, list)):
        held_out = canonical(validation, "validation")
        if held_out.shape != X.shape:
            raise InvalidArgumentError(
                f"validation: expected the shape of X, {X.shape}, got {held_out.shape}; for other rows give a pair "
                "(V_in, V_out)"
            )
        split = "the validation matrix that was given, for rows of X"
        added = "X = X + validation.matrix\n" if isinstance(validation, Interactions) else "X = X + validation\n"
        return _task([Fold(X, X, held_out)], X + held_out, split, [], seed, True, added)
    if len(validation) != 2:
        raise InvalidArgumentError(f"validation: expected a matrix or a pair, got {len(validation)} items")
    inputs, held_out = (canonical(part, f"validation[{n}]") for n, part in enumerate(validation))
    if inputs.shape != held_out.shape or inputs.shape[1] != X.shape[1]:
        raise InvalidArgumentError(
            f"validation: expected two matrices of the same shape with {X.shape[1]:,} items, as X has, got "
            f"{inputs.shape} and {held_out.shape}"
        )
    split = "the pair (V_in, V_out) that was given, for other rows"
    return _task([Fold(X, inputs, held_out)], X, split, [], seed, True)


def _split(X: Any, times: Any, seed: int, most_folds: int) -> Task:
    """Holds out a fifth of each row: the last part if the order in time is known, else a random part."""
    notes: list[str] = []
    last: Any = False
    if times is not None:
        if not scipy.sparse.issparse(times):
            given = _checks.shown(times)
            raise InvalidArgumentError(f"times must be a CSR matrix of the times of the entries of X, not {given}")
        hold_out(X, last=times)  # checks the times
        last = times
        if _says_nothing(times):
            notes.append("most rows of times= have a single time, so that the times do not order the items of a row")
            times = None
    X_csr = _csr(X, "X", unconverted=False)
    if times is None:
        last = bool(X.format == "csr" and X_csr.nnz and not is_sorted_by_item(X_csr))
    if scipy.sparse.issparse(last):
        split = "the last fifth of each row by times="
    elif last:
        split = "the last fifth of each row in the order in which X stores it (its rows are not sorted by item)"
    else:
        split = "a random fifth of each row (X is stored in the order of the items, which says nothing about time)"
        notes.append(
            "the split is random, which can prefer another model than the future does; give times= if they are known"
        )
    core = CORE if _has_core(X_csr) else 0
    if core:
        split += f", of the items that at least {core} rows have"
    parts = [hold_out(X, seed=seed, last=last, core=core)]
    count = min(most_folds, -(-_ENOUGH // max(1, parts[0][1].nnz)))
    if last is False and count > 1:
        split += f"; {count} such splits, and {count} to confirm settings"
        seeds = np.random.SeedSequence(seed).generate_state(2 * count - 1)
        parts += [hold_out(X, seed=int(n), core=core) for n in seeds]
    folds = [Fold(train, train, held_out) for train, held_out in parts]
    return _task(folds[:count], X, split, notes, seed, False, fresh=folds[count:])


def _says_nothing(times: Any) -> bool:
    """Reports whether most rows with several entries have a single time."""
    lengths = np.diff(times.indptr)
    row = np.repeat(np.arange(times.shape[0]), lengths)
    differing = np.unique(row[times.data != times.data[times.indptr[row]]])
    several = np.count_nonzero(lengths > 1)
    return bool(several and 2 * len(differing) < several)


def _has_core(X: Any) -> bool:
    """Reports whether at least half of the items that occur are in ten rows or more.

    Such data were probably filtered before a test set was split off, which then has no rarer items either.
    """
    counts = np.bincount(X.indices, minlength=X.shape[1])
    return bool(2 * np.count_nonzero(counts >= CORE) >= np.count_nonzero(counts) > 0)


def _task(
    folds: list[Fold],
    whole: Any,
    split: str,
    notes: list[str],
    seed: int,
    given: bool,
    preparation: str = "",
    fresh: Sequence[Fold] = (),
) -> Task:
    """Draws the rows to compare models with, and looks for what makes a comparison impossible.

    Raises:
        InvalidArgumentError: No model can find a held-out item of validation data that the caller gave.
    """
    problem = None
    every = np.count_nonzero(np.diff(folds[0].held_out.indptr))
    rows = _blending.sample(folds[0].held_out, seed)  # how many items of a row are held out follows from its length
    folds, confirming = (
        [Fold(fold.train, fold.inputs[rows], fold.held_out[rows]) for fold in group] for group in (folds, fresh)
    )
    train, inputs, held_out = folds[0].train, folds[0].inputs, folds[0].held_out
    known = np.bincount(train.indices, minlength=train.shape[1]) > 0
    new = held_out - held_out.multiply(inputs != 0)
    new.eliminate_zeros()
    if train.shape[1] < 2:
        problem = f"X has {train.shape[1]} items, so there is nothing to rank"
    elif len(rows) < LEAST_ROWS:
        problem = f"only {len(rows)} rows have items to hold out, too few to compare models"
    elif not new.nnz:
        problem = "all held-out items are also in the input, where they count as seen and are never recommended"
    elif not known[new.indices].any():
        problem = "no held-out item occurs in the rows to learn from, so no model could find one"
    if problem and given and len(rows) >= LEAST_ROWS:
        raise InvalidArgumentError(f"validation: {problem}; are its rows and columns those of X?")
    if len(rows) < every:
        split += f"; {len(rows):,} of {every:,} rows, drawn by the seed"
    else:
        split += f"; {len(rows):,} rows"
    return Task(folds, whole, split, notes, problem, preparation, confirming)


def compared(metric: str, task: Task) -> str:
    """Returns the metric to compare models by: where data are few, that of lists up to five times as long.

    Few of the held-out items are in the first places, and chance decides which. Longer lists have more of them, and
    models differ more clearly: Valcarce et al., "On the robustness and discriminative power of information retrieval
    metrics for top-N recommendation", RecSys 2018.
    """
    name, _, length = metric.rpartition("@")
    deeper = min(_DEEPER * int(length), task.train.shape[1] // 10)
    return f"{name}@{deeper}" if task.fresh and deeper >= 2 * int(length) else metric


def check_metric(metric: Any) -> str:
    """Refuses coverage, which has no value for a row; :func:`dsstne.evaluate` refuses what it does not know."""
    name = one_metric(metric, of_lists=True)
    if name.startswith("coverage"):
        raise InvalidArgumentError(
            f"metric: {name[:40]} describes all rows together and does not measure how good recommendations are; "
            'choose another metric, such as "ndcg@20"'
        )
    return name
