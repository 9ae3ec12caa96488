"""The files of the leaderboard: trials of the searches, rows of the tables, and intervals, a JSON line for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from board import search

FOLDER = Path(__file__).resolve().parents[1] / "results"
TRIALS = FOLDER / "leaderboard-trials.jsonl"
CHOSEN = FOLDER / "leaderboard-settings.jsonl"
ROWS = FOLDER / "leaderboard.jsonl"
INTERVALS = FOLDER / "leaderboard-intervals.jsonl"
USERS = Path(__file__).resolve().parents[3] / "build" / "leaderboard"  # metrics of each user; not in the repository


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file; none where it is not there."""
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, line: dict[str, Any]) -> None:
    """Writes a line at once: a run that breaks keeps what it has."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    """Replaces a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def trials(name: str, family: str) -> list[dict[str, Any]]:
    """The trials of a family on a dataset, in order."""
    return [line for line in read(TRIALS) if (line["set"], line["family"]) == (name, family)]


def choose() -> None:
    """Writes the best trial of each family on each dataset."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in read(TRIALS):
        groups.setdefault((line["set"], line["family"]), []).append(line)
    write(
        CHOSEN,
        [
            {
                "set": name,
                "family": family,
                "settings": search.best(lines)["settings"],
                search.METRIC: search.best(lines)[search.METRIC],
                "defaults": lines[0][search.METRIC],
                "trials": len(lines),
                "seconds": round(sum(line["seconds"] for line in lines), 1),
                "split": lines[0]["split"],
            }
            for (name, family), lines in groups.items()
        ],
    )


def chosen(name: str, family: str) -> dict[str, Any] | None:
    """What the search chose for a family on a dataset; None without a search."""
    return next((line for line in read(CHOSEN) if (line["set"], line["family"]) == (name, family)), None)


def rows() -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """The newest line of each row and seed, by dataset, family, how it was chosen, and seed."""
    return {(line["set"], line["family"], line["how"], line["seed"]): line for line in read(ROWS)}


def users(name: str, family: str, how: str, seed: int) -> Path:
    """The file of the metrics of each user."""
    return USERS / name / f"{family.replace(' ', '-')}-{how}-{seed}.npz"
