"""The report of dsstne.auto and dsstne.search: what was tried, what was chosen, and how to make it again."""

from __future__ import annotations

import html
import json
import textwrap
from typing import TYPE_CHECKING, Any

from dsstne._tables import Table, as_html, as_text
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

__all__ = ["Report"]

_FIELDS = {"metric": str, "split": str, "chosen": str, "code": str, "seconds": float, "table": list, "notes": list}
_LINE = 120  # characters
_MOST_LINES = 20  # of the trials of a search that a table shows
_WIDEST = 60  # characters of the settings and notes that a table shows


class Report:
    """What :func:`dsstne.auto` or :func:`dsstne.search` tried and chose.

    ``str(report)`` is a table of the best model of each kind, or of the best trials, and the notes. The model file
    keeps the report.

    Attributes:
        metric: The metric that models were compared by.
        split: How validation data were held out, a sentence.
        chosen: The chosen model in words, such as ``"0.8 autoencoder + 0.2 spectral"``.
        code: Python that makes the model again from X.
        seconds: Seconds that the whole search took, the refit included.
        table: A dict for each model that was tried: ``model``, ``settings``; the metric, or None if it failed;
            ``rows``, on how many validation rows; ``seconds`` to make it, ``score_seconds`` to rank the items for the
            rows, ``refit_seconds`` that making it from all data was expected to take; ``memory``, by how many bytes
            the memory of the process grew at most, or None where the system does not tell; ``kept``, whether the
            settings are those that stand for their kind of model; ``chosen``; ``note``. A search has a dict for each
            result of each trial, with ``trial``, its number; ``epochs``, how long it trained; and ``arguments``, those
            of :func:`dsstne.fit`. ``memory`` is then what the plan of the training needs.
        notes: Sentences on what happened.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((5, 6))).astype(np.float32))
        >>> report = dsstne.auto(X, "ndcg@5", seconds=1, progress=False).report
        >>> [row["model"] for row in report.table][:3]
        ['popularity', 'item_knn', 'rp3beta']
    """

    def __init__(
        self,
        metric: str,
        split: str,
        chosen: str,
        code: str,
        seconds: float,
        table: Sequence[Mapping[str, Any]],
        notes: Sequence[str],
    ) -> None:
        self.metric, self.split, self.chosen, self.code = metric, split, chosen, code
        self.seconds = seconds
        self.table = [dict(row) for row in table]
        self.notes = list(notes)

    def best(self) -> list[dict[str, Any]]:
        """Returns the row of each kind of model that was kept, the best first, and then the kinds that all failed."""

        def order(row: Mapping[str, Any]) -> tuple[bool, float]:
            return row["kept"], -1.0 if row[self.metric] is None else row[self.metric]

        kinds: dict[str, dict[str, Any]] = {}
        for row in self.table:
            name = row["model"] if row["model"] != "sum" else row["settings"]
            if name not in kinds or order(row) > order(kinds[name]):
                kinds[name] = row
        return sorted(kinds.values(), key=order, reverse=True)

    def __str__(self) -> str:
        begin, table, notes, code = self._parts()
        lines = [line for paragraph in begin for line in _wrapped(paragraph)]
        notes = [line for note in notes for line in _wrapped(f"- {note}")]
        return as_text(["\n".join(lines), table, *(["\n".join(notes)] if notes else []), code])

    def _repr_html_(self) -> str:
        begin, table, notes, code = self._parts()
        return f"{as_html([*begin, table, *notes])}\n<pre>{html.escape(code)}</pre>"

    def _parts(self) -> tuple[list[str], Table, list[str], str]:
        """Returns the paragraphs before the table, the table, the notes and the code."""
        same: dict[str, list[dict[str, Any]]] = {}
        for row in self.table:
            same.setdefault(row["model"], []).append(row)
        best, notes = self.best(), list(self.notes)
        of_search = any("trial" in row for row in best)
        if len(best) > _MOST_LINES and of_search:
            chosen = [row for row in best[_MOST_LINES:] if row["chosen"]]
            notes.append(f"{len(best) - _MOST_LINES - len(chosen):,} more trials are in the attribute table")
            best = best[:_MOST_LINES] + chosen
        shown = []
        for row in best:
            value, all_rows = row[self.metric], same[row["model"]]
            seconds = [one["seconds"] + one["score_seconds"] for one in (all_rows if of_search else [row])]
            tried = f"{row['epochs']:.3g}" if of_search else "" if row["model"] == "sum" else str(len(all_rows))
            shown.append(
                (
                    ("> " if row["chosen"] else "  ") + row["model"],
                    _short(row["settings"], 80 if of_search else _WIDEST),
                    "-" if value is None else f"{value:.4f}",
                    tried,
                    f"{sum(seconds):.1f}",
                    "" if row["memory"] is None else f"{row['memory'] / 2**20:,.0f} MiB",
                    _short(row["note"]),
                )
            )
        begin = [f"{self.chosen}, chosen by {self.metric} in {self.seconds:,.1f} s", f"held out: {self.split}"]
        tried = "epochs" if of_search else "tried"
        table = Table(["  model", "settings", self.metric, tried, "seconds", "memory", ""], shown, right=(2, 3, 4, 5))
        return begin, table, notes, self.code.rstrip()

    def __repr__(self) -> str:
        return f"Report({self.chosen}; {len(self.table)} results in {self.seconds:,.1f} s)"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plots the metric of everything that was tried, one line for each kind of model, or for each trial.

        A small point is a model that was tried, the large one that of its kind that was kept; the text beside it has
        its metric and the seconds that it took. The chosen model has another colour.

        Args:
            ax: Axes to draw on; None = those of a new figure.

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidArgumentError: ``ax`` is not Axes of matplotlib, or no model was tried.

        Example::

            dsstne.auto(X).report.plot().figure.savefig("tried.png")
        """
        from dsstne.plots import _style

        _style.check(None, ax, None)
        best = [row for row in self.best() if row[self.metric] is not None][::-1]
        if not best:
            raise InvalidArgumentError("no model was tried, so there is nothing to plot")
        if "trial" in best[0]:
            from dsstne.plots import search_results

            return search_results(self, ax=ax)
        ax = ax or _style.new_axes(interactive=False)
        for height, row in enumerate(best):
            colour = _style.COLOURS[1 if row["chosen"] else 0]
            name = row["settings"] if row["model"] == "sum" else row["model"]
            same = [one for one in self.table if one["model"] == row["model"] != "sum" and one[self.metric] is not None]
            values = [one[self.metric] for one in same]
            ax.plot(values, [height] * len(values), "o", color=colour, markersize=4, alpha=0.35)
            ax.plot([row[self.metric]], [height], "o", color=colour, markersize=9)
            text = f"{row[self.metric]:.4f}  {row['seconds'] + row['score_seconds']:.1f} s"
            ax.annotate(name, (row[self.metric], height), (-8, 7), textcoords="offset points", ha="right", fontsize=9)
            ax.annotate(text, (row[self.metric], height), (8, -3), textcoords="offset points", fontsize=9)
        ax.set_yticks([])
        ax.set_ylim(-0.7, len(best) - 0.2)
        ax.margins(x=0.3)
        ax.set_xlabel(self.metric, color=_style.TEXT)
        for side in ("left", "right", "top"):
            ax.spines[side].set_visible(False)
        return ax

    def _to_json(self) -> str:
        """Returns the report as JSON, for the model file."""
        return json.dumps({name: getattr(self, name) for name in _FIELDS})

    @classmethod
    def _from_json(cls, text: str) -> Report:
        """Reads a report of a model file.

        Raises:
            ValueError: It is not one.
        """
        values = json.loads(text)
        if not isinstance(values, dict) or set(values) != set(_FIELDS):
            raise ValueError("the report does not have the fields of a report")
        for name, kind in _FIELDS.items():
            if not isinstance(values[name], kind):
                raise ValueError(f"the report has a {type(values[name]).__name__} as {name}")
        report = cls(**values)
        try:
            str(report)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the table of the report is damaged: {error!r:.100}") from None
        return report


def table_row(metric: str, model: str, settings: str, value: float | None, **others: Any) -> dict[str, Any]:
    """Returns a row of the table; what is not given is as for a model that was not made."""
    rest = {"rows": 0, "seconds": 0.0, "score_seconds": 0.0, "refit_seconds": None, "memory": None}
    flags = {"kept": False, "chosen": False, "note": ""}
    return {"model": model, "settings": settings, metric: value, **rest, **flags, **others}


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _LINE, subsequent_indent="  ", break_long_words=False)


def _short(text: str, widest: int = _WIDEST) -> str:
    return text if len(text) <= widest else text[: widest - 3] + "..."
