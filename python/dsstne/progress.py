"""A progress bar for terminals and notebooks, and lines for logs."""

from __future__ import annotations

import contextlib
import math
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from dsstne._metric_names import is_metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsstne.trainer import Progress

__all__ = ["Bar", "Budget", "Download", "Steps"]


_LOG_SECONDS = 30.0  # from one line of a log to the next


class _Shown:
    """A bar of tqdm in terminals and notebooks, or else lines of a log.

    Args:
        wanted: False = show nothing.
        options: Arguments of tqdm.
    """

    _bar: Any = None

    def __init__(self, wanted: bool, **options: Any) -> None:
        if not wanted:
            return
        if not _is_seen():
            self._bar = _Lines(**options)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets a bar of text
            from tqdm.auto import tqdm
        self._bar = tqdm(**options, dynamic_ncols=True)

    @property
    def shown(self) -> bool:
        """Whether a bar or lines are shown."""
        return self._bar is not None

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()


class _Lines:
    """A bar for stderr that is a file or a pipe: a line now and then, the first after :data:`_LOG_SECONDS`.

    It has what :class:`_Shown` uses of tqdm. Something short writes nothing.
    """

    def __init__(
        self,
        total: float | None,
        desc: str = "",
        unit: str = "it",
        unit_scale: bool = False,
        bar_format: str | None = None,
        **_: Any,
    ) -> None:
        self.n, self.total = 0.0, total
        self._endless = bar_format or "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"
        self._desc, self._unit, self._scale, self._postfix = desc, unit, unit_scale, ""
        self._start = self._shown = time.monotonic()

    def set_description(self, text: str, refresh: bool) -> None:
        """Sets what is written before the numbers."""
        self._desc = text

    set_description_str = set_description

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """Sets what is written after the numbers."""
        self._postfix = text
        if refresh:
            self.refresh()

    def set_postfix(self, values: Mapping[str, str], refresh: bool = True) -> None:
        """Sets what is written after the numbers."""
        self.set_postfix_str(", ".join(f"{name}={value}" for name, value in values.items()), refresh)

    def refresh(self) -> None:
        """Writes a line if it is time to."""
        now = time.monotonic()
        if now - self._shown < _LOG_SECONDS or sys.stderr is None:
            return
        from tqdm.std import tqdm

        self._shown = now
        form = "{desc}: {percentage:.0f}% of {total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        form = form if self.total else self._endless
        with contextlib.suppress(OSError, ValueError):  # closed, as in a daemon
            line = tqdm.format_meter(
                self.n,
                self.total or 0,
                now - self._start,
                prefix=self._desc,
                unit=self._unit,
                unit_scale=self._scale,
                postfix=self._postfix,
                bar_format=form,
            )
            print(line, file=sys.stderr)

    def close(self) -> None:
        """Ends the lines."""


class Bar(_Shown):
    """Shows epochs, loss, examples per second and the remaining time.

    Args:
        epochs: Number of epochs.
        rows: Number of examples in an epoch.
        wanted: False = show nothing.
    """

    def __init__(self, epochs: int, rows: int, wanted: bool) -> None:
        self._epochs, self._rows = epochs, rows
        self._metrics: dict[str, str] = {}
        self._updated = -math.inf  # when the bar was last drawn
        super().__init__(wanted and epochs > 0, total=epochs * rows, unit=" examples", unit_scale=True)

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
            self._metrics = {name: f"{value:.4f}" for name, value in record.items() if is_metric(name)}
            self._bar.set_postfix({"loss": f"{record['loss']:.5g}", **self._metrics})


class Steps(_Shown):
    """Shows the steps of a solver and the remaining time.

    Args:
        title: What is computed.
        wanted: False = show nothing.
    """

    def __init__(self, title: str, wanted: bool) -> None:
        super().__init__(wanted, desc=title, total=1, unit=" steps")

    def update(self, state: Mapping[str, Any]) -> None:
        """Shows the state of a solver; no share and no remaining time if its steps are 0."""
        if self._bar is not None:
            self._bar.total, self._bar.n = state["steps"] or None, state["done"]
            self._bar.refresh()


class Budget(_Shown):
    """Shows how much of a budget of time has passed, and what is done.

    Args:
        title: What is done.
        seconds: The budget; None = there is none.
        wanted: False = show nothing.
    """

    def __init__(self, title: str, seconds: float | None, wanted: bool) -> None:
        self._title, self._start = title, time.monotonic()
        form = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s{postfix}"
        form = "{desc} [{elapsed}{postfix}]" if seconds is None else form
        super().__init__(wanted, desc=title, total=seconds, unit=" s", bar_format=form)

    def update(self, now: str, best: str = "") -> None:
        """Shows what is done now and what was best so far."""
        if self._bar is not None:
            self._bar.n = min(time.monotonic() - self._start, self._bar.total or math.inf)
            self._bar.set_description_str(f"{self._title}: {now}", refresh=False)  # without a colon at the end
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
