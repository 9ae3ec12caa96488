"""A progress bar for terminals and notebooks."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsstne.trainer import Progress

__all__ = ["Bar", "Budget", "Download", "Steps"]


class _Shown:
    """A bar of tqdm, or none where nobody would see it."""

    _bar: Any = None

    @property
    def shown(self) -> bool:
        """Whether a bar is shown."""
        return self._bar is not None

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()


class Bar(_Shown):
    """Shows epochs, loss, examples per second and the remaining time, if stderr is a terminal or notebook.

    Args:
        epochs: Number of epochs.
        rows: Number of examples in an epoch.
        wanted: False = show nothing.
    """

    def __init__(self, epochs: int, rows: int, wanted: bool) -> None:
        self._epochs, self._rows = epochs, rows
        self._metrics: dict[str, str] = {}
        self._updated = -math.inf  # when the bar was last drawn
        if wanted and epochs > 0 and _is_seen():
            from tqdm.auto import tqdm

            self._bar = tqdm(total=epochs * rows, unit=" examples", unit_scale=True, dynamic_ncols=True)

    def glance(self, progress: Progress) -> None:
        """Calls :meth:`update` at most 5 times a second."""
        if time.monotonic() - self._updated >= 0.2:
            self.update(progress)

    def update(self, progress: Progress) -> None:
        """Shows the state of the training."""
        if self._bar is None:
            return
        self._updated = time.monotonic()
        done = progress.epoch * self._rows + progress.examples
        loss = progress.epoch_loss if math.isnan(progress.loss) else progress.loss
        self._bar.n = min(done, self._bar.total)
        self._bar.set_description(f"epoch {min(progress.epoch + 1, self._epochs)}/{self._epochs}", refresh=False)
        if not math.isnan(loss):
            self._bar.set_postfix({"loss": f"{loss:.5g}", **self._metrics}, refresh=False)
        self._bar.refresh()

    def end_epoch(self, record: Mapping[str, Any]) -> None:
        """Shows the metrics of an epoch after the loss; they stay until the next epoch ends."""
        if self._bar is not None:
            self._metrics = {name: f"{value:.4f}" for name, value in record.items() if "@" in name}
            self._bar.set_postfix({"loss": f"{record['loss']:.5g}", **self._metrics})


class Steps(_Shown):
    """Shows the steps of a solver and the remaining time, if stderr is a terminal or notebook.

    Args:
        title: What is computed.
        wanted: False = show nothing.
    """

    def __init__(self, title: str, wanted: bool) -> None:
        if wanted and _is_seen():
            from tqdm.auto import tqdm

            self._bar = tqdm(desc=title, total=1, unit=" steps", dynamic_ncols=True)

    def update(self, state: Mapping[str, Any]) -> None:
        """Shows the state of a solver; no share and no remaining time if its steps are 0."""
        if self._bar is not None:
            self._bar.total, self._bar.n = state["steps"] or None, state["done"]
            self._bar.refresh()


class Budget(_Shown):
    """Shows how much of a budget of time has passed, and what is done, if stderr is a terminal or a notebook.

    Args:
        title: What is done.
        seconds: The budget.
        wanted: False = show nothing.
    """

    def __init__(self, title: str, seconds: float, wanted: bool) -> None:
        self._title, self._start = title, time.monotonic()
        if wanted and _is_seen():
            from tqdm.auto import tqdm

            form = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s{postfix}"
            self._bar = tqdm(desc=title, total=seconds, bar_format=form, dynamic_ncols=True)

    def update(self, now: str, best: str = "") -> None:
        """Shows what is done now and what was best so far."""
        if self._bar is not None:
            self._bar.n = min(time.monotonic() - self._start, self._bar.total)
            self._bar.set_description(f"{self._title}: {now}", refresh=False)
            self._bar.set_postfix_str(best, refresh=False)
            self._bar.refresh()


class Download(_Shown):
    """Shows the bytes of a download, if stderr is a terminal or a notebook.

    Args:
        title: Name of the file.
        wanted: False = show nothing.
    """

    def __init__(self, title: str, wanted: bool) -> None:
        if wanted and _is_seen():
            from tqdm.auto import tqdm

            self._bar = tqdm(desc=title, unit="B", unit_scale=True, dynamic_ncols=True)

    def begin(self, have: int, whole: int | None) -> None:
        """Sets the bytes that are there and the size of the file, if it is known."""
        if self._bar is not None:
            self._bar.n, self._bar.total = have, whole
            self._bar.refresh()

    def update(self, more: int) -> None:
        """Shows further bytes."""
        if self._bar is not None:
            self._bar.update(more)


def _is_seen() -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr is not None and hasattr(sys.stderr, "isatty") and sys.stderr.isatty()
    except (OSError, ValueError):  # closed, as in a daemon
        return False
