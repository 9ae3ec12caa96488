"""Sums of models: one model that adds up the scores of several."""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._blending import choose_weights, sample
from dsstne._items import same_names
from dsstne._layers import check_row_names
from dsstne._predictor import check_item_names
from dsstne.dataset import names_of
from dsstne.datasets._split import canonical
from dsstne.errors import CancelledError, InvalidArgumentError
from dsstne.model import Model
from dsstne.progress import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = ["blend"]

_MOST = 8


def blend(
    models: Sequence[Model],
    X: Any = None,
    *,
    validation: Any = None,
    weights: ArrayLike | None = None,
    scales: Sequence[float | None] | None = None,
    metric: str = "ndcg@20",
    items: Sequence[str] | ArrayLike | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Model:
    """Makes a model that adds up the scores of several models for the same items.

    The scores of different models have different sizes, so they are standardized: with the mean m and the standard
    deviation d of the scores that part p gives a row x, over all items but those stored in x::

        score(x, i) = sum over the parts p of weights[p] (score_p(x, i) - m_p(x)) / d_p(x)

    A part whose scores are all equal for a row adds 0 to that row. Mean and deviation do not depend on the items that a
    call ranks or leaves out.

    Args:
        models: Up to 8 models with one input and one output of the same items, such as those of :func:`dsstne.fit`,
            :func:`dsstne.linear` and :func:`dsstne.spectral`. The result has copies of their weights.
        X: Interaction matrix [rows, items] for the choice of the weights, with ``validation``.
        validation: Held-out items of the rows of X, [rows, items]: the weights are those with the best ``metric`` on up
            to 4,000 rows, multiples of 0.05 with the sum 1. The parts must not have learned from these items.
        weights: Non-negative weight of each part, instead of ``validation``; None = equal weights of the sum 1.
        scales: For each part None, or a number by which its scores are divided instead of standardizing them: its
            typical standard deviation, for example. Such a part is not centered either.
        metric: A metric of :func:`dsstne.evaluate` with a length of the list, but for coverage.
        items: Names of the items; None = those of the first part that has any.
        seed: Chooses the rows, if X has more than 4,000 with held-out items.
        devices, threads, memory_limit: Of the predictions that the choice of the weights needs, see
            :func:`dsstne.fit`.
        max_seconds: Time limit for that choice; one that is not done then raises :class:`dsstne.CancelledError`.
        progress: Show a progress bar of it, as in :func:`dsstne.fit`.

    Returns:
        A model with the tensor ``weights`` [parts], which can be changed with :meth:`dsstne.Model.set_tensor`, and with
        the tensors of part n under names that begin with ``part<n>.``. The top-k of the sum is exact.
        ``model.explain(x, item)`` returns what each part adds to a score. The model predicts on the CPU, or on one
        device, if one of its parts does.

    Raises:
        InvalidArgumentError: The models do not fit together, or an option is not valid; or a weight is negative.
        OutOfMemoryError: The parts do not fit into memory a second time.
        CancelledError: ``max_seconds`` passed.
        KeyboardInterrupt: Ctrl-C.
        DsstneError: As :func:`dsstne.evaluate`, where weights are chosen.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]], dtype=np.float32))
        >>> parts = [dsstne.popularity(X), dsstne.linear(X, progress=False)]
        >>> dsstne.blend(parts, weights=[0.25, 0.75]).recommend(X[:1], k=2)[0]
        array([[2, 3]], dtype=int32)
    """
    parts, seed = _checked(models), _checks.integer(seed, "seed", 0)
    limit = math.inf if max_seconds is None else _checks.duration(max_seconds, "max_seconds")
    progress = _checks.boolean(progress, "progress")
    if weights is not None and validation is not None:
        raise InvalidArgumentError("weights= and validation= contradict each other; give one of them")
    divisors = _scales(scales, len(parts))
    if (X is None) != (validation is None):
        raise InvalidArgumentError("X and validation= belong together: the held-out items of the rows of X; give both")
    if validation is not None:
        if scales is not None:
            raise InvalidArgumentError("validation= chooses weights of standardized scores; give weights= with scales=")
        for name, given in (("X", X), ("validation", validation)):
            check_item_names(parts[0], names_of(given), name)
        inputs, held_out = canonical(X, "X"), canonical(validation, "validation")
        shape = inputs.shape[0], parts[0].output_units
        for name, matrix in (("X", inputs), ("validation", held_out)):
            if matrix.shape != shape:
                raise InvalidArgumentError(f"{name}: expected the shape {shape}, got {matrix.shape}")
        check_row_names([("X", X), ("validation", validation)])
        options = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
        bar, end, tried = Steps("weights", progress), time.monotonic() + limit, itertools.count(1)

        def check() -> None:
            bar.update({"done": next(tried), "steps": 0})  # how many there will be is not known
            if time.monotonic() > end:
                raise CancelledError(f"the choice of the weights was not done within max_seconds={max_seconds}")

        try:
            weights, _ = choose_weights(parts, inputs, held_out, metric, sample(held_out, seed), options, check=check)
        finally:
            bar.close()
    factors = _weights(weights, len(parts))
    standardized = [divisor is None for divisor in divisors]
    definition = {
        "kind": "blend",
        "items": parts[0].output_units,
        "parts": [
            {"model": part._definition, "standardized": whether}
            for part, whether in zip(parts, standardized, strict=True)
        ],
    }
    model = Model._new(definition, memory_limit=memory_limit)
    for n, part in enumerate(parts):
        part._copy_tensors(model, "", f"part{n}.")
    model.set_tensor("weights", factors / [divisor or 1.0 for divisor in divisors])
    model.same_items = all(part.same_items for part in parts)
    names = items if items is not None else next((part.items for part in parts if part.items is not None), None)
    if names is not None:
        model.items = names
    return model


def _checked(models: Any) -> list[Model]:
    """Returns the parts of a sum; each has to score the same items."""
    parts = list(_checks.several(models, "models"))
    for n, part in enumerate(parts):
        if not isinstance(part, Model):
            raise InvalidArgumentError(f"models[{n}]: expected a dsstne.Model, got {_checks.shown(part)}")
        if part._definition.get("kind") == "blend":
            raise InvalidArgumentError(f"models[{n}] is a blend itself; give its parts, model.parts()")
        if len(part.inputs) != 1 or len(part.outputs) != 1:
            raise InvalidArgumentError(
                f"models[{n}] has several inputs or outputs; a blend adds up models with one each"
            )
        sizes = (*part.inputs.values(), part.output_units)
        if set(sizes) != {parts[0].output_units}:
            raise InvalidArgumentError(
                f"models[{n}] has {sizes[0]:,} input items and {sizes[1]:,} output items; "
                f"all parts must have the same {parts[0].output_units:,} items"
            )
        names, first = part.items, parts[0].items
        if n and names is not None and first is not None and not same_names(names, first):
            raise InvalidArgumentError(f"models[{n}] has other item names than models[0]")
    if not 1 <= len(parts) <= _MOST:
        raise InvalidArgumentError(f"models: expected 1 to {_MOST} models, got {len(parts)}")
    return parts


def _weights(weights: Any, count: int) -> Any:
    factors = np.full(count, 1 / count) if weights is None else _checks.array(weights)
    if factors.shape != (count,) or factors.dtype.kind not in "buif":
        raise InvalidArgumentError(
            f"weights: expected {count} numbers, one for each model, got {_checks.shown(weights)}"
        )
    if not (np.all(factors >= 0) and np.all(np.isfinite(factors))):
        raise InvalidArgumentError(
            f"weights: expected finite numbers that are not negative, got {_checks.shown(weights)}"
        )
    if not np.any(factors > 0):
        raise InvalidArgumentError("weights: all are 0, so every score would be 0; give at least one above 0")
    return factors.astype(np.float64)


def _scales(scales: Any, count: int) -> list[float | None]:
    if scales is None:
        return [None] * count
    given = list(_checks.several(scales, "scales"))
    if len(given) != count:
        raise InvalidArgumentError(f"scales: expected {count} numbers or None, one for each model, got {len(given)}")
    return [None if scale is None else _checks.positive(scale, f"scales[{n}]") for n, scale in enumerate(given)]
