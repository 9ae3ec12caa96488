"""What the word "auto" stands for in the arguments of fit(); docs/defaults.md has the search that chose it.

It stands for something else than the plain value only where that was searched: for soft-max losses of networks that
fit() makes itself, and a learning rate for Adam.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPERATURE = 0.1
LEARNING_RATE = 2e-3
PLAIN_EPOCHS = 20
STEPS, LEAST_EPOCHS, MOST_EPOCHS = 800, 8, 50
WARMUP = 20  # the learning rate rises during the first 1 / WARMUP of the steps


def is_auto(value: Any, name: str, wanted: str) -> bool:
    """Reports whether the value is the word "auto"; refuses other words."""
    if isinstance(value, str) and value != "auto":
        raise InvalidArgumentError(f"{name} must be {wanted} or 'auto', not {_checks.shown(value)}")
    return isinstance(value, str)


def temperature(value: Any, searched: bool) -> float | None:
    """Returns the temperature of cosine logits, or None for dot products."""
    if is_auto(value, "temperature", "a number, None"):
        return TEMPERATURE if searched else None
    return None if value is None else _checks.positive(value, "temperature")


def learning_rate(value: Any, rule: Mapping[str, Any], searched: bool) -> Any:
    """Returns the learning rate of an optimizer that does not give it itself; None = the optimizer's own default."""
    if not is_auto(value, "learning_rate", "a number"):
        return value
    fast = searched and "learning_rate" not in rule and rule.get("kind", "adam") in ("adam", "adamw")
    return LEARNING_RATE if fast else None


def epochs(value: Any, steps_per_epoch: int, searched: bool) -> int:
    """Returns the number of passes over the rows."""
    if not is_auto(value, "epochs", "an integer"):
        return _checks.integer(value, "epochs", 0)
    if not searched:
        return PLAIN_EPOCHS
    return min(max(round(STEPS / max(1, steps_per_epoch)), LEAST_EPOCHS), MOST_EPOCHS)


def schedule(value: Any, steps: int, searched: bool) -> Mapping[str, Any] | None:
    """Returns the schedule of a run of ``steps`` steps; ``"cosine"`` and ``"linear"`` without a length span the run."""
    auto = isinstance(value, str) and value == "auto"
    if value is None or (auto and not searched):
        return None
    rule = _checks.kind("cosine" if auto else value, "schedule", "cosine")
    if rule.get("kind") not in ("cosine", "linear") or "steps" in rule:
        return rule
    warmup = _checks.integer(rule.get("warmup_steps", steps // WARMUP), "schedule: warmup_steps", 0)
    hold = _checks.integer(rule.get("hold_steps", 0), "schedule: hold_steps", 0)
    return {**rule, "warmup_steps": warmup, "steps": max(1, steps - warmup - hold)}
