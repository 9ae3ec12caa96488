"""What the process of a leaderboard entry does: read the data, fit, rank everyone, and report."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.resident import forget_most, resident

from board import data, figures
from board.families import FAMILIES, in_trial
from dsstne.errors import DsstneError

if TYPE_CHECKING:
    from pathlib import Path


class Worker:
    """One family on one dataset."""

    def __init__(self, folder: Path, name: str, family: str) -> None:
        split = data.load(folder, name)
        if split is None:
            raise FileNotFoundError(f"{name} is not in {folder}")
        self.split, self.name, self.family = split, family, FAMILIES[family]
        self.parts: list[data.Validation] = []

    def trial(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Fits on a part of the training data and evaluates on what was held out of it; the mean of several splits."""
        self.parts = self.parts or data.validation(self.split)
        begin = time.perf_counter()
        found: dict[str, Any]
        try:
            each = [self.fold(part, settings) for part in self.parts]
            found = rounded({name: float(np.mean([values[name] for values in each])) for name in figures.METRICS})
        except DsstneError as error:  # as of factors that became 0; the search avoids such settings
            found = {**dict.fromkeys(figures.METRICS, 0.0), "error": str(error)}
        about = {**self.parts[0].about, "splits": len(self.parts)}
        return {**found, "seconds": round(time.perf_counter() - begin, 2), "split": about}

    def fold(self, part: data.Validation, settings: dict[str, Any]) -> dict[str, float]:
        """The metrics on one split."""
        fitted = self.family.fit(part.shown, in_trial(self.name, settings, part.shown.shape[1]), 0)
        return figures.means(figures.of_lists(fitted.top(part.shown, part.rows), part.hidden[part.rows]))

    def row(self, settings: dict[str, Any], seed: int, save: Path) -> dict[str, Any]:
        """Fits on all training data, ranks all rows, and evaluates on the test data, once.

        The metrics of each user go to a file, for the bootstrap.
        """
        X = data.ordered(self.split.train)
        learns: Any = self.split if self.family.takes_split else X
        load = os.getloadavg()[0]
        forget_most()
        before = resident()
        begin = time.perf_counter()
        fitted = self.family.fit(learns, settings, seed)
        middle = time.perf_counter()
        ids = fitted.top(X, None)
        done = time.perf_counter()
        peak = resident("VmHWM") - before
        values = figures.of_lists(ids, self.split.test)
        save.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(save, **{name: value.astype(np.float32) for name, value in values.items()})
        return {
            **rounded(figures.means(values)),
            "users": int(np.isfinite(values["ndcg@20"]).sum()),
            "fit_seconds": round(middle - begin, 2),
            "score_seconds": round(done - middle, 2),
            "peak_bytes": peak,
            "load_before": round(load, 1),
            **({"chosen": fitted.chosen} if fitted.chosen else {}),
        }


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Six digits after the point."""
    return {name: round(value, 6) for name, value in values.items()}


def make(*arguments: Any) -> Worker:
    """For `alternate.Contestant`."""
    return Worker(*arguments)
