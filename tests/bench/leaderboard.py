"""The leaderboard: all families of models, and implicit, on four recommendation sets with published splits.

    python tests/bench/leaderboard.py --search     # choose settings on held-out parts of the training data
    python tests/bench/leaderboard.py              # fit, rank all users and evaluate on the test data
    python tests/bench/leaderboard.py --page       # docs/leaderboard.md and its picture
    python tests/bench/leaderboard.py --sets lastfm --families linear "implicit ALS" --seeds 0

Each command goes on where the last one ended; --again measures again. Each entry runs in a process of its own.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from board import data, records, search, worker
from board.families import FAMILIES, PARTS
from measure import results
from measure.alternate import Contestant

import dsstne._native as native

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(data.SETS), choices=list(data.SETS))
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="models without chance only run with 0")
    parser.add_argument("--data", type=Path, default=FOLDER.parents[2] / "shared" / "data", help="folder of real data")
    parser.add_argument("--search", action="store_true", help="search settings on validation data and stop")
    parser.add_argument("--trials", type=int, help="most trials of a search; 24 for gowalla, else 48")
    parser.add_argument("--seconds", type=float, help="of a search, for each split; 150 for gowalla, else 300")
    parser.add_argument("--page", action="store_true", help="write the page and the picture from the results and stop")
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    args = parser.parse_args()
    if args.page:
        from board import page

        page.write()
        return 0
    failed = []
    for name in args.sets:
        if data.load(args.data, name) is None:
            print(f"{name}: not in {args.data}")
            continue
        for family in args.families:
            try:
                if args.search:
                    look(args, name, family)
                else:
                    measure(args, name, family)
            except RuntimeError as error:  # the others are still worth running
                print(f"{name}, {family}: FAILED: {error}", flush=True)
                failed.append(f"{name}, {family}")
    if failed:
        print(f"failed: {'; '.join(failed)}")
    return 1 if failed else 0


def look(args: argparse.Namespace, name: str, family: str) -> None:
    """Searches the settings of a family; goes on after the trials that are recorded."""
    about = FAMILIES[family]
    if not about.space:
        return
    if args.again:
        kept = [line for line in records.read(records.TRIALS) if (line["set"], line["family"]) != (name, family)]
        records.write(records.TRIALS, kept)
    tried = records.trials(name, family)

    trials, seconds = (24, 150) if name == "gowalla" else (48, 300)
    trials, seconds = args.trials or trials, args.seconds or seconds

    def next_settings() -> dict[str, Any] | None:
        splits = tried[0]["split"].get("splits", 1) if tried else 1
        if len(tried) >= trials or sum(line["seconds"] for line in tried) >= seconds * splits:
            return None
        return search.following(about.defaults, about.space, tried)

    settings = next_settings()
    if settings is None:
        return
    with Contestant(worker.make, args.data, name, family, environment=about.environment) as process:
        while settings is not None:
            line = {"set": name, "family": family, "settings": settings, **process.call("trial", settings)}
            tried.append(line)
            records.append(records.TRIALS, line)
            print(f"{name}, {family}: {line[search.METRIC]:.4f} {line['seconds']:.1f} s {settings}", flush=True)
            settings = next_settings()
    records.choose()
    print(f"{name}, {family}: chosen {records.chosen(name, family)}", flush=True)


def measure(args: argparse.Namespace, name: str, family: str) -> None:
    """Measures the rows of a family that are not in the results."""
    about, done = FAMILIES[family], records.rows()
    for how, settings in rows_of(name, family):
        for seed in args.seeds if about.chance else {0}.intersection(args.seeds):
            if (name, family, how, seed) in done and not args.again:
                continue
            with Contestant(worker.make, args.data, name, family, environment=about.environment) as process:
                found = process.call("row", settings, seed, records.users(name, family, how, seed))
            line = {"set": name, "family": family, "how": how, "settings": settings, "seed": seed, **found}
            records.append(records.ROWS, {**line, **circumstances()})
            print(
                f"{name}, {family} {how}, seed {seed}: recall {line['recall@20']:.4f}, NDCG {line['ndcg@20']:.4f}, fit "
                f"{line['fit_seconds']} s, score {line['score_seconds']} s, {line['peak_bytes'] / 1e6:.0f} MB",
                flush=True,
            )


def rows_of(name: str, family: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """How the settings of each row of a family were chosen, and the settings."""
    about = FAMILIES[family]
    for how in about.how:
        if how == "D":
            yield how, {}
        elif how == "P":
            yield how, about.published
        elif family == "auto":
            yield how, {}
        else:
            parts = [part for part, chosen in PARTS.items() if chosen == "V"] if family == "sum" else [family]
            found = {part: records.chosen(name, part) for part in parts}
            if None in found.values():
                print(f"{name}, {family}: no search yet, so the row of chosen settings is left out")
            elif family == "sum":
                yield how, {part: line["settings"] if (line := found.get(part)) else {} for part in PARTS}
            else:
                yield how, found[family]["settings"]


def circumstances() -> dict[str, Any]:
    """Date, commit, machine and versions of a row."""
    machine = results.machine()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": results.commit(),
        "machine": {key: machine[key] for key in ("cpu", "family", "model", "instruction_set", "threads")},
        "versions": {
            **{key: value for key, value in results.versions().items() if key != "torch"},
            "dsstne": native.call_json("describe")["version"],
        },
    }


if __name__ == "__main__":
    sys.exit(main())
