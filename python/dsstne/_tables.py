"""Tables as text for terminals and as HTML for notebooks, and dictionaries that show themselves as tables."""

from __future__ import annotations

import html
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["History", "Plan", "Profile", "Shown", "Table", "as_html", "as_text", "cell", "size"]

_MOST_LINES = 40  # of a history that are shown

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Table:
    """Cells in rows and columns.

    Args:
        heads: Names of the columns, or None.
        rows: The cells.
        right: Numbers of the columns that are aligned to the right.
    """

    def __init__(self, heads: Sequence[str] | None, rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
        self.heads, self.rows, self.right = heads, rows, right

    def text(self) -> str:
        """Returns lines whose columns are aligned."""
        every = self.rows if self.heads is None else [self.heads, *self.rows]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        lines = []
        for row in every:
            cells = [
                cell.rjust(width) if column in self.right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def html(self) -> str:
        """Returns a table of HTML."""
        lines = []
        for row in self.rows if self.heads is None else [self.heads, *self.rows]:
            tag = "th" if row is self.heads else "td"
            cells = [
                f'<{tag} style="text-align: {"right" if column in self.right else "left"}">{html.escape(cell)}</{tag}>'
                for column, cell in enumerate(row)
            ]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return "<table>\n{}\n</table>".format("\n".join(lines))


def as_text(parts: Sequence[str | Table]) -> str:
    """Returns paragraphs and tables as text."""
    return "\n\n".join(part.text() if isinstance(part, Table) else part for part in parts)


def as_html(parts: Sequence[str | Table]) -> str:
    """Returns paragraphs and tables as HTML."""
    return "\n".join(part.html() if isinstance(part, Table) else f"<p>{html.escape(part)}</p>" for part in parts)


def size(count: int) -> str:
    """Returns a number of bytes in words, such as ``"1.5 GiB"``."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:,.1f} {_UNITS[unit]}" if unit else f"{count:,} bytes"


def cell(value: Any) -> str:
    """Returns a value of a history or a definition as a short text."""
    if isinstance(value, float):
        return f"{value:.5g}"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


class Shown:
    """Prints as paragraphs and tables, also in notebooks."""

    @abstractmethod
    def _parts(self) -> list[str | Table]:
        """Returns what to show."""

    def __str__(self) -> str:
        return as_text(self._parts())

    def _repr_html_(self) -> str:
        return as_html(self._parts())


class Plan(Shown, dict[str, Any]):
    """The plan of a run: a dictionary, see :meth:`dsstne.Trainer.plan`, that prints as tables."""

    __repr__ = Shown.__str__

    def _parts(self) -> list[str | Table]:
        words = [f"{size(self['bytes'])} planned"]
        if self.get("available", -1) >= 0:
            words.append(f"{size(self['available'])} free")
        if "limit" in self:
            words.append(f"limit {size(self['limit'])}")
        devices = ", ".join(str(device["name"]) for device in self.get("devices", ()))
        words += [f"on {devices}"] if devices else []
        words += [str(self[key]) for key in ("parallel", "precision") if self.get(key)]
        memory = [
            [
                part["name"],
                part.get("of") or "",
                part.get("device") or "",
                size(part["bytes"]),
                "in memory already" if part.get("held") else "",
            ]
            for part in self["parts"]
        ]
        steps = [[str(number), operation] for number, operation in enumerate(self["operations"], 1)]
        return [
            "; ".join(words),
            Table(["memory", "of", "device", "size", ""], memory, right=[3]),
            Table(["", "operation"], steps, right=[0]),
        ]


class History(Shown, list[dict[str, Any]]):
    """The history of a model: a list with a dict for each epoch, see :func:`dsstne.fit`, that prints as a table."""

    def _parts(self) -> list[str | Table]:
        if not self:
            return ["no epochs"]
        names = list(dict.fromkeys(name for record in self for name in record))
        rows = [[cell(record.get(name, "")) for name in names] for record in self]
        if len(rows) > _MOST_LINES:
            half = _MOST_LINES // 2
            rows = [*rows[:half], ["..."] * len(names), *rows[-half:]]
        return [Table([str(name) for name in names], rows, right=range(len(names)))]


class Profile(Shown, dict[str, Any]):
    """The profile of a training: a dictionary, see :meth:`dsstne.Trainer.profile`, that prints as a table."""

    __repr__ = Shown.__str__

    def _parts(self) -> list[str | Table]:
        def number(value: float | None, form: str) -> str:
            return "" if value is None else format(value, form)

        rows = [
            [
                operation["device"],
                f"{operation['milliseconds']:,.3f}",
                f"{operation['share']:.1%}",
                number(operation["gflop_per_second"], ",.1f"),
                number(operation["gigabytes_per_second"], ",.1f"),
                "" if operation["limit"] is None else f"{operation['limit_share']:.0%} of {operation['limit']}",
                operation["operation"],
            ]
            for operation in self["operations"]
        ]
        rows += [["host", f"{value:,.3f}", "", "", "", "", name] for name, value in self["outside"].items()]
        heads = ["device", "ms", "share", "GFLOP/s", "GB/s", "of the limit", "operation"]
        return [
            f"{self['milliseconds']:,.3f} ms a step, the mean of {self['steps']:,} steps",
            Table(heads, rows, right=[1, 2, 3, 4]),
        ]
