"""The entries of the tables: figures of all seeds together, and their intervals."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from board import data, figures, published, records
from board.families import FAMILIES

LEADING = {"citeulike": "precision@20"}  # what its published figures have; elsewhere NDCG@20


@dataclass
class Entry:
    """A row of a table.

    Attributes:
        title: The model's name.
        family, how: As in the records; "published" for published figures.
        runs: The records of its seeds; none for published figures.
        values: Means over the seeds.
        source: The address of published figures.
        interval: Ends of the interval of NDCG@20 minus that of the best entry; None for the best one, and where it is
            not known.
    """

    title: str
    family: str
    how: str
    runs: list[dict[str, Any]]
    values: dict[str, float]
    source: str = ""
    interval: tuple[float, float] | None = None

    def spread(self, metric: str) -> float:
        """Half the range over the seeds."""
        values = [run[metric] for run in self.runs]
        return (max(values) - min(values)) / 2

    def middle(self, key: str) -> float:
        """Median over the seeds."""
        return statistics.median(run[key] for run in self.runs)


def leading(name: str) -> str:
    """The metric that orders the table of a dataset."""
    return LEADING.get(name, "ndcg@20")


def measured(name: str) -> list[Entry]:
    """The entries that were run on a dataset, best NDCG@20 first, with intervals where these are recorded."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (of, family, how, _), line in sorted(records.rows().items()):
        if of == name:
            groups.setdefault((family, how), []).append(line)
    found = []
    for (family, how), runs in groups.items():
        values = {metric: statistics.mean(run[metric] for run in runs) for metric in figures.METRICS}
        title = FAMILIES[family].title if family in FAMILIES else family
        found.append(Entry(title, family, how, runs, values))
    found.sort(key=lambda entry: -entry.values["ndcg@20"])
    known = {(line["family"], line["how"]): line for line in records.read(records.INTERVALS) if line["set"] == name}
    for entry in found[1:]:
        line = known.get((entry.family, entry.how))
        if line and line["baseline"] == [found[0].family, found[0].how] and line["of"] == identity(entry):
            entry.interval = tuple(line["ndcg@20"])
    return found


def identity(entry: Entry) -> list[float]:
    """Returns the NDCG@20 of each seed; a recorded interval belongs to the entry that has the same ones."""
    return [run["ndcg@20"] for run in entry.runs]


def ordered(name: str) -> list[Entry]:
    """Measured and published entries, best first."""
    known = [Entry(title, title, "published", [], values, at) for title, values, at in published.ROWS[name]]
    return sorted([*measured(name), *known], key=lambda entry: -entry.values[leading(name)])


def missing(name: str) -> list[str]:
    """The rows that were not run on a dataset."""
    done = {(entry.family, entry.how) for entry in measured(name)}
    return [
        f"{about.title} ({how})" for family, about in FAMILIES.items() for how in about.how if (family, how) not in done
    ]


def update_intervals() -> None:
    """Computes the intervals of the datasets whose metrics of each user are on this machine."""
    lines = []
    for name in data.SETS:
        found = measured(name)
        kept = [line for line in records.read(records.INTERVALS) if line["set"] == name]
        values = [users(name, entry) for entry in found]
        present = [value for value in values if value is not None]
        lines += kept if len(present) < len(values) or not found else differences(name, found, np.array(present))
    records.write(records.INTERVALS, lines)


def differences(name: str, found: list[Entry], values: np.ndarray) -> list[dict[str, Any]]:
    """A line for each entry but the first, the best; values [entries, metrics, users]."""
    ends = []
    for number in range(2):
        metric = values[:, number].T
        ends.append(figures.intervals(metric[:, 1:], metric[:, 0]))
    return [
        {
            "set": name,
            "family": entry.family,
            "how": entry.how,
            "baseline": [found[0].family, found[0].how],
            "of": identity(entry),
            "recall@20": [round(end, 6) for end in recall],
            "ndcg@20": [round(end, 6) for end in ndcg],
            "resamples": figures.RESAMPLES,
        }
        for entry, recall, ndcg in zip(found[1:], *ends, strict=True)
    ]


def users(name: str, entry: Entry) -> np.ndarray | None:
    """Recall@20 and NDCG@20 of each test user, means over the seeds [2, users]; None where a file is missing."""
    found = []
    for run in entry.runs:
        path = records.users(name, entry.family, entry.how, run["seed"])
        if not path.exists():
            return None
        with np.load(path) as file:
            values = np.array([file["recall@20"], file["ndcg@20"]], dtype=np.float64)
        values = values[:, np.isfinite(values[1])]
        if abs(values[1].mean() - run["ndcg@20"]) > 2e-6:  # of another run than the record
            return None
        found.append(values)
    return np.mean(found, axis=0)
