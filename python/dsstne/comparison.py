"""Comparison of models on the same rows: intervals, paired tests, and a table for each group of rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._layers import nearest, numbers
from dsstne._metric_names import metric_names
from dsstne._tables import Shown, Table
from dsstne.dataset import pattern
from dsstne.errors import InvalidArgumentError, NotFoundError
from dsstne.evaluation import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Comparison", "compare", "resampled_means"]

_RESAMPLES, _FEWEST = 10_000, 1_000
_DRAWS = 300_000_000  # of rows, in all resamples; they take seconds
_BLOCK = 1 << 18  # rows that are drawn together, so that what is computed with them stays in the cache
_QUARTERS = 4  # groups by activity
_MOST_GROUPS = 1000


class Comparison(Shown, dict[str, Any]):
    """The result of :func:`dsstne.compare`: a dictionary that prints as tables."""

    __repr__ = Shown.__str__

    def _parts(self) -> list[str | Table]:
        level, among = f"{100 * self['level']:g} %", "all rows"
        words = [f"{self['rows']:,} rows with held-out items; brackets are {level} intervals of the bootstrap"]
        parts: list[str | Table] = [*words, self._means(self["means"], [among])]
        if self["differences"]:
            rows = [
                [
                    one["metric"],
                    f"{one['model']} - {one['other']}",
                    f"{one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]",
                    _p(one["p"]),
                    _p(one["p_holm"]),
                ]
                for one in self["differences"]
            ]
            parts.append(Table(["metric", "models", "paired difference", "p", "p (Holm)"], rows, right=[3, 4]))
        labels = list(dict.fromkeys(one["group"] for one in self["groups"]))
        return [*parts, self._means(self["groups"], labels)] if labels else parts

    def _means(self, found: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Table:
        """Returns a table with a line for each group and model."""
        cells = {
            (one.get("group", labels[0]), one["model"], one["metric"]): (
                f"{one['mean']:.4f} [{one['low']:.4f}, {one['high']:.4f}]",
                f"{one['rows']:,}",
            )
            for one in found
        }
        rows = [
            [label, cells[label, model, self["metrics"][0]][1], model]
            + [cells[label, model, metric][0] for metric in self["metrics"]]
            for label in labels
            for model in self["models"]
        ]
        return Table(["group", "rows", "model", *self["metrics"]], rows, right=[1])


def compare(
    models: Any,
    X_in: Any = None,
    X_held_out: Any = None,
    metrics: str | Sequence[str] | None = None,
    *,
    baseline: str | None = None,
    groups: Any = None,
    rows: Any = None,
    level: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Evaluates models on the same rows and tests whether their differences could be chance.

    Rows differ far more than models do. So models are compared row by row: an interval of a mean difference comes from
    the paired bootstrap, its p value from the paired randomisation test, which Smucker, Allan and Carterette (2007)
    recommend for rankings. If several differences are tested, Holm's correction (1979) keeps the probability of any
    false discovery within a metric below the p value that it reports.

    Args:
        models: Name -> model, or a list of models. Instead of a model, also its metrics of each row, as
            ``evaluate(..., per_row=True)`` returns them: name -> [rows], NaN for rows that do not count. So models of
            other libraries can take part.
        X_in: Input matrix [n, inputs]; not needed if all metrics are given.
        X_held_out: Held-out items [n, outputs]; rows without any are not counted.
        metrics: One name or several, see :func:`evaluate`, but not coverage, which describes all rows together. None =
            those that the first model is given with, or else ``"recall@20"`` and ``"ndcg@20"``. For ``"rmse"`` the
            means are those of the rows' values, and a negative difference is the better one.
        baseline: Name of the model that all others are compared with; None = all pairs are compared, which makes
            Holm's correction stronger.
        groups: A label for each row of X_in, such as a user's country, to report the groups one by one;
            ``"activity"`` = four groups by the number of items in the row of X_in, of about as many rows each.
        rows: Row numbers, or a boolean mask; None = all.
        level: Probability of the intervals.
        resamples: Number of resamples of the bootstrap and of the randomisation test, from 100 to 1,000,000. None =
            10,000, or fewer for more than 30,000 rows, but at least 1,000.
        seed: Of the resamples; the same seed gives the same result.
        **options: As in :func:`evaluate`: ``exclude``, ``items``, ``filter_items``, ``layer``, ``batch_size``,
            ``devices``, ``threads``, ``memory_limit``.

    Returns:
        A dictionary that prints as tables. ``rows``, ``level``, ``resamples``, ``metrics``, ``models`` (their names)
        and ``baseline``; and three lists of dictionaries, ready for ``pandas.DataFrame``:

        - ``means``: ``metric``, ``model``, ``rows``, ``mean``, ``low``, ``high``;
        - ``differences``: ``metric``, ``model``, ``other``, ``difference`` of their means, ``low``, ``high``, ``p`` and
          ``p_holm``, the p value corrected for the differences of this metric that were tested;
        - ``groups``: as ``means``, with ``group``.

    Raises:
        InvalidArgumentError: A metric is unknown or has no value for a row; no row has held-out items; models have
            values for different rows; or an argument has another type.
        NotFoundError: The baseline is not among the models.
        DsstneError: As :func:`evaluate`.

    Example:
        >>> import dsstne, numpy as np
        >>> found = dsstne.compare({"a": {"recall@5": np.array([1.0, 0.5] * 8)}, "b": {"recall@5": np.zeros(16)}})
        >>> print(found)
        16 rows with held-out items; brackets are 95 % intervals of the bootstrap
        <BLANKLINE>
        group     rows  model  recall@5
        all rows    16  a      0.7500 [0.6250, 0.8750]
        all rows    16  b      0.0000 [0.0000, 0.0000]
        <BLANKLINE>
        metric    models  paired difference                 p  p (Holm)
        recall@5  a - b   +0.7500 [+0.6250, +0.8750]  <0.0001   <0.0001
    """
    resamples = None if resamples is None else _checks.integer(resamples, "resamples", 100)
    if resamples is not None and resamples > 1_000_000:
        raise InvalidArgumentError(f"resamples must be at most 1,000,000, not {resamples:,}")
    level = _checks.positive(level, "level")
    if level >= 1:
        raise InvalidArgumentError(f"level must be below 1, not {_checks.shown(level)}")
    rng = np.random.default_rng(_checks.integer(seed, "seed", 0))
    named = named_models(models)
    if baseline is not None and _checks.text(baseline, "baseline") not in named:
        raise NotFoundError(f"baseline: there is no model {_checks.shown(baseline)}; {nearest(baseline, named)}")
    if metrics is None:
        first = next(iter(named.values()))
        metrics = list(first) if isinstance(first, Mapping) else ("recall@20", "ndcg@20")
    wanted = metric_names(metrics)
    values, counted = _values(named, wanted, {"X_in": X_in, "X_held_out": X_held_out, "rows": rows, **options})
    labels = None if groups is None else _labels(groups, X_in, rows, counted)
    columns = list(product(wanted, named))

    if resamples is None:
        resamples = min(_RESAMPLES, max(_FEWEST, _DRAWS // len(values)))
    pairs = list(combinations(named, 2)) if baseline is None else [(name, baseline) for name in named]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    one, other = ([columns.index((m, pair[side])) for m in wanted for pair in pairs] for side in (0, 1))
    paired = values[:, one] - values[:, other]
    intervals = _intervals(np.hstack([values, paired]), resamples, level, rng)
    means = _means(values, columns, intervals[: len(columns)])
    p = _p_values(paired, resamples, rng).reshape(len(wanted), len(pairs))
    differences = _differences(list(product(wanted, pairs)), paired.mean(axis=0), intervals[len(columns) :], p)
    per_group = []
    for label in [] if labels is None else sorted(set(labels), key=_in_order):
        own = values[labels == label]
        found = _means(own, columns, _intervals(own, resamples, level, rng))
        per_group += [{"group": label, **one} for one in found]
    settings = {"rows": len(values), "level": level, "resamples": resamples, "baseline": baseline}
    names = {"metrics": wanted, "models": list(named)}
    return Comparison({**settings, **names, "means": means, "differences": differences, "groups": per_group})


def named_models(models: Any) -> dict[str, Any]:
    """Returns the models by their names; those of a list are called "model 1", "model 2" and so on."""
    if not _checks.is_mapping(models):
        listed = _checks.several(models, "models", "a mapping from names to models, or a list")
        models = {f"model {number}": model for number, model in enumerate(listed, 1)}
    if not models:
        raise InvalidArgumentError("models: expected at least one model, got none")
    return {_checks.text(name, "a name in models"): model for name, model in models.items()}


def _values(named: Mapping[str, Any], metrics: Sequence[str], options: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the metrics of the rows that count, [counted, metrics x models], and a mask of these rows."""
    columns: dict[tuple[str, str], NDArray[np.float64]] = {}
    for name, model in named.items():
        found = model if _checks.is_mapping(model) else evaluate(model, metrics=metrics, per_row=True, **options)
        for metric in metrics:
            if metric not in found:
                raise InvalidArgumentError(f"models[{name!r}] has no values of {metric!r}")
            array = _checks.array(found[metric])
            if array.ndim != 1 or array.dtype.kind not in "buif" or np.isinf(array).any():
                raise InvalidArgumentError(f"models[{name!r}][{metric!r}] must be finite numbers or NaN, [rows]")
            columns[metric, name] = array.astype(np.float64)
    (first, one), *_ = columns.items()
    for key, other in columns.items():
        if len(other) != len(one) or not np.array_equal(np.isnan(other), np.isnan(one)):
            raise InvalidArgumentError(
                f"{key[0]} of {key[1]!r} and {first[0]} of {first[1]!r} have values for different rows; compare needs "
                "the same rows, and metrics with a value for each (not coverage, see beyond_accuracy)"
            )
    counted = ~np.isnan(one)
    if not counted.any():
        raise InvalidArgumentError("no row has a value: X_held_out is empty, or the metric is coverage")
    return np.stack([columns[metric, name][counted] for metric in metrics for name in named], axis=1), counted


# ---- statistics ----


def resampled_means(values: NDArray[Any], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws as many rows as there are, with replacement, many times; returns the means, [resamples, columns]."""
    rows = len(values)
    means = np.empty((resamples, values.shape[1]))
    step = max(1, _BLOCK // rows)
    for start in range(0, resamples, step):
        draws = range(min(step, resamples - start))
        counts = np.stack([np.bincount(rng.integers(rows, size=rows), minlength=rows) for _ in draws])
        means[start : start + step] = counts.astype(np.float64) @ values / rows
    return means


def _flipped_means(values: NDArray[Any], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Changes the sign of each row by chance, many times; returns the means, [resamples, columns]."""
    rows = len(values)
    means = np.empty((resamples, values.shape[1]))
    step = max(1, _BLOCK // rows)
    for start in range(0, resamples, step):
        packed = rng.integers(256, size=(min(step, resamples - start), (rows + 7) // 8), dtype=np.uint8)
        signs = 2.0 * np.unpackbits(packed, axis=1, count=rows) - 1
        means[start : start + step] = signs @ values / rows
    return means


def _means(values: NDArray[Any], columns: Sequence[Any], intervals: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns the mean of each column with its interval."""
    return [
        {"metric": metric, "model": model, "rows": len(values), "mean": mean, "low": low, "high": high}
        for (metric, model), mean, (low, high) in zip(columns, values.mean(axis=0).tolist(), intervals, strict=True)
    ]


def _differences(
    keys: Sequence[Any], means: NDArray[Any], intervals: Sequence[Any], p: NDArray[Any]
) -> list[dict[str, Any]]:
    """Returns the differences (metric, (model, other)) with their intervals and p values [metrics, pairs]."""
    corrected = [value for of_metric in p for value in holm(of_metric)]
    return [
        {"metric": metric, "model": a, "other": b, "difference": mean, "low": low, "high": high, "p": p1, "p_holm": p2}
        for (metric, (a, b)), mean, (low, high), p1, p2 in zip(
            keys, means.tolist(), intervals, p.ravel().tolist(), corrected, strict=True
        )
    ]


def _intervals(values: NDArray[Any], resamples: int, level: float, rng: np.random.Generator) -> list[list[float]]:
    """Returns the bootstrap interval of the mean of each column, by percentiles."""
    ends = np.quantile(resampled_means(values, resamples, rng), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return [[float(low), float(high)] for low, high in ends.T]


def _p_values(paired: NDArray[Any], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns how probable a mean as far from 0 is if the two models could be exchanged in each row, [columns].

    The observed mean counts as one of the resamples, so that p is never 0; and rounding must not make an equally large
    mean a smaller one.
    """
    slack = 1e-12 * np.abs(paired).mean(axis=0)
    extreme = np.abs(_flipped_means(paired, resamples, rng)) >= np.abs(paired.mean(axis=0)) - slack
    p: NDArray[np.float64] = (1 + extreme.sum(axis=0)) / (1 + resamples)
    return p


def holm(p: NDArray[np.float64]) -> list[float]:
    """Returns p values corrected for their number (Holm, 1979)."""
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in corrected]


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


# ---- groups ----


def _labels(groups: Any, X_in: Any, rows: Any, counted: NDArray[np.bool_]) -> NDArray[np.object_]:
    """Returns the label of each row that counts."""
    activity = isinstance(groups, str)
    if activity:
        if groups != "activity":
            raise InvalidArgumentError(
                f"groups must be a label for each row or 'activity', not {_checks.shown(groups)}"
            )
        matrix = next(iter(X_in.values())) if _checks.is_mapping(X_in) else X_in
        given = np.diff(pattern(matrix, "X_in").indptr)
    else:
        given = np.array(_checks.labels(groups, "groups"), object)
    try:
        chosen = given if rows is None else given[numbers(rows, len(given), "rows", np.int64)]
    except InvalidArgumentError:  # X_in has the rows, as evaluate() has found
        text = f"groups has {len(given):,} labels; with rows= too, it must have one for each row of X_in"
        raise InvalidArgumentError(text) from None
    if len(chosen) != len(counted):
        raise InvalidArgumentError(f"groups has {len(given):,} labels; X_in has {len(counted):,} rows")
    labels = _by_activity(chosen[counted]) if activity else chosen[counted]
    if len(set(labels)) > _MOST_GROUPS:
        raise InvalidArgumentError(f"groups has {len(set(labels)):,} different labels; {_MOST_GROUPS:,} are possible")
    return labels


def _by_activity(lengths: NDArray[Any]) -> NDArray[np.object_]:
    """Returns a label for each row, by the quarter that its number of items is in."""
    edges = np.quantile(lengths, np.arange(1, _QUARTERS) / _QUARTERS)
    quarter = np.searchsorted(edges, lengths)
    labels = np.empty(len(lengths), object)
    for number in np.unique(quarter):
        own = lengths[quarter == number]
        low, high = f"{own.min():,}", f"{own.max():,}"
        labels[quarter == number] = f"{low} items" if low == high else f"{low}-{high} items"
    return labels


def _in_order(label: str) -> list[Any]:
    """Returns a key that sorts numbers in labels as numbers."""
    return [
        (1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", label.replace(",", ""))
    ]
