"""The benchmarks: ours beside the peers and beside the machine's limits.

    python tests/bench/run.py                   # quick: under five minutes on two cores
    python tests/bench/run.py --full            # everything, with more turns
    python tests/bench/run.py step topk         # some of it
    python tests/bench/run.py --full output --case bfloat16
    python tests/bench/run.py --tiny dsstne     # whether it runs

A ratio says how many times as fast as the peer we are; a share is of what the machine could do, measured beside each
turn; brackets hold the range over the turns. Results are appended to tests/bench/results.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from measure.bench import Bench
from measure.lines import head, shown
from measure.results import Results

FOLDER = Path(__file__).resolve().parent

# Adding a workload: a module in workloads/ with TITLE and lines(bench), and its name here. In the order of running.
QUICK = [
    "startup",
    "output",
    "sparse",
    "dense",
    "entries",
    "topk",
    "serving",
    "small",
    "search",
    "dask",
    "step",
    "sample",
    "memory",
    "gowalla",
    "factors",
    "ratings",
    "spectrum",
    "checkpoint",
]
FULL = [
    *QUICK,
    "losses",
    "mapped",
    "softmax",
    "devices",
    "quality",
    "labels",
    "logistic",
    "dsstne_files",
    "dsstne_text",
    "growth",
    "neighbours",
    "giant",
]
ALL = [*FULL, "dsstne"]  # which has dsstne_text and neighbours in it
TINY = ["dsstne_text", "dsstne", "neighbours"]  # those that have the smallest sizes of --tiny


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="workload", help=f"some of {', '.join(ALL)}")
    parser.add_argument("--full", action="store_true", help="all workloads and cases, more turns")
    parser.add_argument("--data", type=Path, default=FOLDER.parents[2] / "shared" / "data", help="folder of real data")
    parser.add_argument("--case", default="", help="only cases with this in their names, such as bfloat16")
    tiny = f"try {', '.join(TINY)} with the smallest sizes; measures and records nothing"
    parser.add_argument("--tiny", action="store_true", help=tiny)
    parser.add_argument("--no-record", action="store_true", help="append nothing to the results")
    args = parser.parse_args()
    chosen = args.workloads or (TINY if args.tiny else FULL if args.full else QUICK)
    if unknown := sorted(set(chosen) - set(ALL)):
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(ALL)}")
    if args.tiny and (large := sorted(set(chosen) - set(TINY))):
        parser.error(f"--tiny: {', '.join(large)} has no smallest sizes; {', '.join(TINY)} have")

    bench = Bench(full=args.full, data=args.data, case=args.case, tiny=args.tiny)
    results = Results("full" if args.full else "quick", keep=not (args.no_record or args.tiny))
    about = results.machine
    print(
        f"{about['cpu']}, {about['threads']} threads, {about['instruction_set']}, {about['memory_gib']} GiB;", end=" "
    )
    print(", ".join(f"{name} {version}" for name, version in results.run["versions"].items()))
    missed, failed, begin = [], [], time.perf_counter()
    for name in chosen:
        workload = importlib.import_module(f"workloads.{name}")
        print(f"\n{workload.TITLE}\n{head()}", flush=True)
        try:
            for line in filter(lambda line: bench.wants(line.case), workload.lines(bench)):
                print(shown(line), flush=True)
                results.add(name, line)
                if line.verdict().startswith("MISSES") and not bench.tiny:
                    missed.append(f"{name}: {line.case}: {line.verdict()} (goal {line.goal})")
        except Exception as error:  # the others are still worth running
            print(f"    FAILED: {error}", flush=True)
            failed.append(name)
    print(f"\n{time.perf_counter() - begin:.0f} s", end="")
    print(f"; results in {results.path.relative_to(FOLDER.parents[1])}" if results.keep else "")
    for text in missed:
        print(f"below its goal: {text}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
