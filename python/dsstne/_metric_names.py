"""Names of metrics: those that a call asks for, with ranges of lengths such as ``precision@1..10`` written out."""

from __future__ import annotations

import re
from typing import Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError

_MOST = 1000  # metrics of a range
_RANGE = re.compile(r"(.*)@([1-9][0-9]*)\.\.([1-9][0-9]*)", re.DOTALL)


def metric_names(metrics: Any) -> list[Any]:
    """Returns the names of one or several metrics as a list; ``precision@1..3`` is three of them.

    Raises:
        InvalidArgumentError: There is no name, or a range is not valid. The engine refuses unknown names.
    """
    given = [metrics] if isinstance(metrics, str) else _checks.several(metrics, "metrics")
    if not given:
        raise InvalidArgumentError("metrics: expected at least one name, such as 'recall@20', got none")
    return [name for one in given for name in _written_out(one)]


def one_metric(metric: Any, name: str = "metric") -> str:
    """Returns the name of a single metric, by which a caller compares models; refuses a range.

    Args:
        metric: The name.
        name: What messages call it.
    """
    if _written_out(_checks.text(metric, name)) != [metric]:
        raise InvalidArgumentError(
            f"{name}: expected one metric, got the range {_checks.shown(metric)}; choose a length, such as "
            f"{metric.partition('..')[0]!r}"
        )
    return str(metric)


def _written_out(metric: Any) -> list[Any]:
    """Returns the metrics that a name stands for: several for a range, else the name itself."""
    if not isinstance(metric, str) or ".." not in metric:
        return [metric]
    found = _RANGE.fullmatch(metric)
    shown = _checks.shown(metric)
    if found is None:
        raise InvalidArgumentError(
            f"metric {shown}: a range has two whole numbers from 1, as in 'precision@1..10', which is ten metrics"
        )
    name, first, last = found[1], int(found[2][:20]), int(found[3][:20])  # more digits are too many anyway
    if last < first:
        raise InvalidArgumentError(f"metric {shown}: the range ends before it begins; write '{name}@{last}..{first}'")
    if last - first >= _MOST:
        raise InvalidArgumentError(
            f"metric {shown}: the range is {last - first + 1:,} metrics; it can be {_MOST:,}. Name the lengths you need"
        )
    return [f"{name}@{k}" for k in range(first, last + 1)]
