"""Names of metrics: those that a call asks for, with ranges of lengths such as ``precision@1..10`` written out.

A metric of rankings has a length, as in ``recall@20``; :data:`WITHOUT_LENGTH` are the others. The engine knows the
metrics of rankings, and refuses what it does not know.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError

FALLING = ("rmse", "mae", "held_out_loss")  # the better a model is, the lower they are
OF_SCORES = (*FALLING, "auc")
WITHOUT_LENGTH = (*OF_SCORES, "accuracy")

_OTHER_NAMES = {
    "acc": "accuracy",
    "loss": "held_out_loss",
    "val_loss": "held_out_loss",
    "validation_loss": "held_out_loss",
    "mean_absolute_error": "mae",
    "mean_squared_error": "rmse",
    "roc_auc": "auc",
    "root_mean_squared_error": "rmse",
}
_CLOSE = 0.7  # "map" is not meant to be "mae"

_MOST = 1000  # metrics of a range
_RANGE = re.compile(r"(.*)@([1-9][0-9]*)\.\.([1-9][0-9]*)", re.DOTALL)


def metric_names(metrics: Any) -> list[str]:
    """Returns the names of one or several metrics as a list; ``precision@1..3`` is three of them.

    Raises:
        InvalidArgumentError: There is no name, a name is not a str, or a range is not valid. The engine refuses
            unknown names.
    """
    given = [metrics] if isinstance(metrics, str) else _checks.several(metrics, "metrics")
    if not given:
        raise InvalidArgumentError("metrics: expected at least one name, such as 'recall@20', got none")
    names = [name for place, one in enumerate(given) for name in _written_out(_checks.text(one, f"metrics[{place}]"))]
    for place, name in enumerate(names):
        _check_without_length(name)
        if name in WITHOUT_LENGTH and name in names[:place]:
            raise InvalidArgumentError(f"metric {name!r} is listed twice")
    return names


def is_metric(key: str) -> bool:
    """Reports whether a key of a history is the name of a metric."""
    return "@" in key or key in WITHOUT_LENGTH


def one_metric(metric: Any, *, rising: bool = True, of_lists: bool = False) -> str:
    """Returns the name of a single metric, by which a caller compares models.

    Args:
        metric: The name.
        rising: Refuse errors, which are lower for better models.
        of_lists: Refuse what is not a metric of the first k items.

    Raises:
        InvalidArgumentError: It is a range, or refused.
    """
    if _written_out(_checks.text(metric, "metric")) != [metric]:
        raise InvalidArgumentError(
            f"metric: expected one metric, got the range {_checks.shown(metric)}; choose a length, such as "
            f"{metric.partition('..')[0]!r}"
        )
    if (of_lists and metric in WITHOUT_LENGTH) or (rising and metric in FALLING):
        why = "falls as models get better" if metric in FALLING else "is not a metric of the first k items"
        raise InvalidArgumentError(
            f"metric: {metric} {why}, so it cannot choose here; choose another metric, such as 'ndcg@20'"
        )
    return str(metric)


def _check_without_length(name: str) -> None:
    """Refuses a wrong name that is probably meant to be that of a metric without a length."""
    kind, has_length, _ = name.partition("@")
    if has_length:
        if kind in WITHOUT_LENGTH:
            raise InvalidArgumentError(f"metric {_checks.shown(name)}: {kind} has no cut-off; write {kind!r}")
    elif name not in WITHOUT_LENGTH:
        lower = name[:40].lower()
        close = difflib.get_close_matches(lower, WITHOUT_LENGTH, n=1, cutoff=_CLOSE)
        meant = _OTHER_NAMES.get(lower) or (close[0] if close else None)
        if meant is not None:
            raise InvalidArgumentError(f"metric {_checks.shown(name)} is unknown; did you mean {meant!r}?")


def _written_out(metric: str) -> list[str]:
    """Returns the metrics that a name stands for: several for a range, else the name itself."""
    if ".." not in metric:
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
