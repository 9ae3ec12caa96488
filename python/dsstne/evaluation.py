"""Metrics of a model: how well it ranks held-out items, and what its lists are like beyond that."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _score_metrics
from dsstne import metrics as of_lists
from dsstne._activations import activation_of
from dsstne._layers import Bound, numbers
from dsstne._losses import loss_of
from dsstne._metric_names import OF_SCORES, metric_names
from dsstne._predictor import Predictor, check_item_names, check_k, chosen_items, ranked_units
from dsstne._tables import Shown, Table
from dsstne._weights import Weights
from dsstne.dataset import names_of, pattern
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dsstne.model import Model

__all__ = ["BeyondAccuracy", "beyond_accuracy", "evaluate"]

_FIRST = "precision@1"  # whether the first item is held out

_IDS = 1 << 22  # recommended items that beyond_accuracy looks at together
_MEANINGS = {
    "coverage": "share of the items that are recommended to anybody",
    "gini": "0: all items equally often, 1: only one item",
    "novelty": "bits of a recommended item; one that every row has carries 0",
    "average_popularity": "rows that have a recommended item, on average",
    "popularity_lift": "0: as popular as what the rows had, 1: twice as popular",
    "diversity": "1 minus the cosine of two items of a list",
}


def evaluate(
    model: Model,
    X_in: Any,
    X_held_out: Any,
    metrics: str | Sequence[str] = ("recall@20", "ndcg@20"),
    *,
    exclude: Any = "auto",
    per_row: bool = False,
    items: Any = None,
    filter_items: Any = None,
    rows: Any = None,
    layer: str | None = None,
    batch_size: int = 2048,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
) -> dict[str, Any]:
    """Ranks all items for each row of X_in and compares them with the items stored in the same row of X_held_out.

    Below, hits is the number of held-out items among the first k, and t the number of held-out items of the row:

    - ``recall@k``: hits / t;  ``truncated_recall@k``: hits / min(k, t);  ``precision@k``: hits / k;
    - ``hit_rate@k``: 1 if there is a hit;  ``mrr@k``: 1 / rank of the first hit;  ``map@k``: average precision;
    - ``ndcg@k``: sum over hits of 1 / log2(1 + rank), divided by its best possible value for min(k, t) hits
      (Jarvelin and Kekalainen, 2002);
    - ``coverage@k``: share of the items that are recommended to at least one row with held-out items, among the items
      that may be ranked (see ``items`` and ``filter_items``);
    - ``accuracy``: 1 if the first item is held out, else 0, which is ``precision@1``;
    - ``auc``: the probability that a held-out item has a higher score than another item; an equal score counts one
      half. The other items are those that may be ranked and are neither held out nor left out by ``exclude``. It is
      NaN for a row without other items, which then does not count;
    - ``rmse``, ``mae``: the root of the mean squared difference, and the mean absolute difference, of value and
      target over all entries of X_held_out. Values are those of ``predict(..., activation=True)``, or the scores of
      models that are not networks. ``exclude``, ``items`` and ``filter_items`` have no effect on them, and stored
      zeros are absent, as everywhere. Lower is better;
    - ``held_out_loss``: the loss that the network was trained with, of the items that ``auc`` looks at, with the
      entries of X_held_out as targets. With ``exclude=None`` it is the loss that training reports, but for denoising,
      dropout and penalties. Lower is better.

    The last four need the scores of all items, which are computed for some rows at a time (64 MiB at most).

    Args:
        model: The model.
        X_in: Input matrix [n, inputs].
        X_held_out: Held-out items [n, outputs]; rows without any are not counted.
        metrics: One name or several. A range of lengths stands for a metric of each: ``"precision@1..3"`` is
            ``"precision@1"``, ``"precision@2"`` and ``"precision@3"``.
        exclude: Items that the ranking leaves out: ``"input"`` (the items stored in X_in, for the first input layer),
            a matrix [n, outputs], None, or ``"auto"`` = ``"input"`` if :attr:`dsstne.Model.same_items`, else None.
        per_row: Return a value for each row instead of the mean.
        layer: Name of the output layer to rank; None = the first. Its units are the items.
        items, filter_items, rows, batch_size, devices, threads, memory_limit: See :class:`dsstne.Model`.

    Returns:
        Name -> mean over the rows with held-out items, or for ``rmse`` and ``mae`` the value over all entries; with
        ``per_row`` name -> float64 [n], NaN for rows without held-out items.
        Coverage describes all rows together, so with ``per_row`` it is NaN for every row.

    Raises:
        InvalidArgumentError: A metric is unknown (the message suggests the nearest known one), shapes or names of rows
            do not match, or a model that is not a network has no loss.
        DsstneError: As :meth:`dsstne.Model.recommend`.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float32))
        >>> dsstne.evaluate(dsstne.popularity(X), X, X, metrics=["recall@2"], exclude=None)
        {'recall@2': 1.0}
    """
    names = metric_names(metrics)
    choice = chosen_items(model, items, filter_items, ranked_units(model, layer), layer)
    options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
    row_bytes = 8 * len(names) if _checks.boolean(per_row, "per_row") else 0
    of_scores = [name for name in names if name in OF_SCORES]
    loss = loss_of(model, layer or model.output) if "held_out_loss" in names else None
    ranked = _ranked(names)
    row_bytes += 32 if of_scores else 0
    about: Any = {"name": "X_in", "layer": layer, "row_bytes": row_bytes, "in_blocks": bool(of_scores)}
    found: dict[str, Any] = {}
    with Predictor(model, X_in, rows=rows, options=options, **about) as predictor:
        if ranked:
            values: NDArray[np.float64] | None = np.empty((predictor.count, len(ranked))) if per_row else None
            means = predictor.evaluate(X_held_out, exclude, ranked, values, choice)["metrics"]
            for column, name in enumerate(ranked):
                mean = float("nan" if means[name] is None else means[name])  # the mean over no rows is null in JSON
                found[name] = mean if values is None else values[:, column].copy()
        if of_scores:
            judged = predictor.judged(X_held_out, exclude)
            value = None if model._network is None else activation_of(model, layer or model.output)
            computed = _score_metrics.compute(predictor, *judged, choice, value, loss, of_scores)
            found |= {name: each if per_row else mean for name, (mean, each) in computed.items()}
    return {name: found[_FIRST if name == "accuracy" else name] for name in names}


def _ranked(names: Sequence[str]) -> list[str]:
    """Returns the metrics that the engine computes for some names."""
    ranked = [name for name in names if name not in (*OF_SCORES, "accuracy")]
    return [*ranked, _FIRST] if "accuracy" in names and _FIRST not in ranked else ranked


class BeyondAccuracy(Shown, dict[str, float]):
    """The metrics of :func:`dsstne.beyond_accuracy`: a dictionary that prints as a table."""

    __repr__ = Shown.__str__

    def _parts(self) -> list[str | Table]:
        rows = [[name, f"{value:,.4f}", _MEANINGS[name.partition("@")[0]]] for name, value in self.items()]
        return [Table(["metric", "value", ""], rows, right=[1])]


def beyond_accuracy(
    model: Model,
    X: Any,
    k: int = 20,
    *,
    train: Any = None,
    vectors: Any = None,
    rows: Any = None,
    items: Any = None,
    filter_items: Any = None,
    layer: str | None = None,
    **options: Any,
) -> dict[str, float]:
    """Recommends k items to each row and computes what the lists are like, whether or not they are right.

    The metrics are those of :mod:`dsstne.metrics`, which also computes them for the lists of other libraries.

    Args:
        model: The model.
        X: Interaction matrix [n, inputs].
        k: Length of the lists.
        train: Matrix [N, outputs] that the popularity of the items is counted in; None = X.
        vectors: A vector for each item, [outputs, d], dense or sparse, whose cosines tell which items are alike; None =
            the columns of ``train``: items are alike if the same rows have them.
        items, filter_items: Rank only these items, never recommend these. The catalogue is what remains.
        layer: Name of the output layer to rank; None = the first. Its units are the items.
        rows: Row numbers of X, or a boolean mask; None = all.
        **options: As in :meth:`dsstne.Model.recommend`: ``exclude_seen``, ``exclude``, ``batch_size``, ``devices``,
            ``threads``, ``memory_limit``.

    Returns:
        A dictionary that prints as a table: ``coverage@k``, ``gini@k``, ``novelty@k``, ``average_popularity@k``,
        ``popularity_lift@k`` and ``diversity@k``. A metric without any row to compute it from is NaN; the popularity
        lift is NaN too if the columns of X are not the items.

    Raises:
        InvalidArgumentError: ``train`` or ``vectors`` do not have the items of the model, or as in ``recommend``.
        UnsupportedError: ``train`` is Arrow data, a file or a product; give a SciPy matrix.
        DsstneError: As :meth:`dsstne.Model.recommend`.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]], dtype=np.float32))
        >>> print(dsstne.beyond_accuracy(dsstne.popularity(X), X, k=1))
        metric                  value
        coverage@1             0.7500  share of the items that are recommended to anybody
        gini@1                 0.2500  0: all items equally often, 1: only one item
        novelty@1              0.9183  bits of a recommended item; one that every row has carries 0
        average_popularity@1   1.6667  rows that have a recommended item, on average
        popularity_lift@1     -0.0909  0: as popular as what the rows had, 1: twice as popular
        diversity@1               nan  1 minus the cosine of two items of a list
    """
    units = ranked_units(model, layer)
    k, choice = check_k(_checks.integer(k, "k"), units), chosen_items(model, items, filter_items, units, layer)
    named = 0 if choice.items is None else len(np.unique(choice.items))
    same = model.same_items and layer in (None, model.output) and not _checks.is_mapping(X)
    had = pattern(X, "X") if same else None
    if train is None and had is None:
        raise InvalidArgumentError(
            "train is None, but the columns of X are not the items; give the matrix of the items"
        )
    if layer in (None, model.output):
        check_item_names(model, names_of(train), "train")
    tally = _Tally(had if train is None else pattern(train, "train"), vectors, units)
    options |= {"items": items, "filter_items": filter_items, "layer": layer}
    every = [np.empty(0, np.int64)]
    for ids, part in _lists(model, X, k, rows, options):
        every.append(part)
        tally.add(ids)
    catalogue = units if choice.items is None else units - named if choice.mode == "deny" else named
    found = tally.metrics(catalogue, had, np.concatenate(every))
    return BeyondAccuracy({f"{name}@{k}": value for name, value in found.items()})


def exposure(model: Any, X: Any, k: int, units: int, **options: Any) -> NDArray[np.int64]:
    """Returns how often each of the items is recommended by a model, or by lists [rows, k] of it."""
    times = np.zeros(units, np.int64)
    rows = options.pop("rows", None)
    blocks = _lists(model, X, k, rows, options) if isinstance(model, Weights) else [(model, None)]
    for block, _ in blocks:
        ids = of_lists.lists(block, units)
        times += np.bincount(ids[ids >= 0], minlength=units)
    return times


def _lists(
    model: Any, X: Any, k: int, rows: Any, options: dict[str, Any]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    """Recommends to the rows block by block; gives ids [block, k] and the numbers of these rows."""
    with closing(Bound(X, "X", model.inputs)) as inputs:
        chosen = np.arange(inputs.rows) if rows is None else numbers(rows, inputs.rows, "rows", np.int64)
        step = max(1, _IDS // _checks.integer(k, "k", 1))
        for start in range(0, len(chosen), step):
            part = chosen[start : start + step]
            yield model.recommend(inputs.datasets, k, rows=part, **options)[0], part


class _Tally:
    """Collects what the metrics need from lists that come in blocks."""

    def __init__(self, train: Any, vectors: Any, units: int) -> None:
        self._unit = of_lists.unit_vectors(train.T if vectors is None else vectors)
        for name, count in (("train", train.shape[1]), ("vectors", self._unit.shape[0])):
            if count != units:
                raise InvalidArgumentError(f"{name} has {count:,} items; the model has {units:,}")
        self._counts, total = of_lists.counts_of(train)
        self._bits = of_lists.self_information(self._counts, total)
        self._exposure = np.zeros(units, np.int64)
        self._rows: list[NDArray[np.float64]] = []  # for each block, values [3, rows]

    def add(self, ids: NDArray[np.int32]) -> None:
        """Takes the lists of further rows."""
        self._exposure += np.bincount(ids[ids >= 0], minlength=len(self._exposure))
        values = [of_lists.row_means(ids, self._bits), of_lists.row_means(ids, self._counts)]
        self._rows.append(np.stack([*values, of_lists.mean_distances(ids, self._unit)]))

    def metrics(self, catalogue: int, had: Any, rows: NDArray[np.int64]) -> dict[str, float]:
        """Computes the metrics; the lists are those of these rows of ``had``, and of ``catalogue`` items."""
        bits, popular, distances = np.concatenate([np.empty((3, 0)), *self._rows], axis=1)
        before = np.full(len(rows), np.nan) if had is None else of_lists.profile_means(had, self._counts)[rows]
        exposure = self._exposure[self._exposure > 0]
        return {
            "coverage": len(exposure) / catalogue if catalogue else float("nan"),
            "gini": of_lists.gini_of(exposure, catalogue),
            "novelty": of_lists.mean_of(bits),
            "average_popularity": of_lists.mean_of(popular),
            "popularity_lift": of_lists.lift_of(popular, before),
            "diversity": of_lists.mean_of(distances),
        }
