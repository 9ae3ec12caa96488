"""Ranking metrics over all items, computed by the engine without a dense array of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._predictor import Predictor, chosen_items, ranked_units
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dsstne.model import Model

__all__ = ["evaluate"]


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
      that may be ranked (see ``items`` and ``filter_items``).

    Args:
        model: The model.
        X_in: Input matrix [n, inputs].
        X_held_out: Held-out items [n, outputs]; rows without any are not counted.
        metrics: One name or several.
        exclude: Items that the ranking leaves out: ``"input"`` (the items stored in X_in, for the first input layer),
            a matrix [n, outputs], None, or ``"auto"`` = ``"input"`` if :attr:`dsstne.Model.same_items`, else None.
        per_row: Return a value for each row instead of the mean.
        layer: Name of the output layer to rank; None = the first. Its units are the items.
        items, filter_items, rows, batch_size, devices, threads, memory_limit: See :class:`dsstne.Model`.

    Returns:
        Name -> mean over the rows with held-out items; with ``per_row`` name -> float64 [n], NaN for rows without them.
        Coverage describes all rows together, so with ``per_row`` it is NaN for every row.

    Raises:
        InvalidArgumentError: A metric is unknown (the message suggests the nearest known one), or shapes do not match.
        DsstneError: As :meth:`dsstne.Model.recommend`.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float32))
        >>> dsstne.evaluate(dsstne.popularity(X), X, X, metrics=["recall@2"], exclude=None)
        {'recall@2': 1.0}
    """
    names = [metrics] if isinstance(metrics, str) else _checks.several(metrics, "metrics")
    if not names:
        raise InvalidArgumentError("metrics: expected at least one name, such as 'recall@20', got none")
    choice = chosen_items(items, filter_items, ranked_units(model, layer))
    options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
    row_bytes = 8 * len(names) if _checks.boolean(per_row, "per_row") else 0
    with Predictor(model, X_in, rows=rows, options=options, name="X_in", layer=layer, row_bytes=row_bytes) as predictor:
        values: NDArray[np.float64] | None = np.empty((predictor.count, len(names))) if per_row else None
        result = predictor.evaluate(X_held_out, exclude, names, values, choice)
    if values is not None:
        return {name: values[:, column].copy() for column, name in enumerate(names)}
    means = result["metrics"]  # the mean over no rows is null in JSON
    return {name: float("nan" if means[name] is None else means[name]) for name in names}
