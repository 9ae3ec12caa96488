"""The benchmarks beside the peers, one after the other: `make bench`, and `make bench-full` with --full.

A ratio says how many times as long the peer took.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SHORT = [
    ["step.py", "--repeats", "3", "--steps", "6"],
    ["gowalla.py", "--peer", "torch", "--network", "plain", "--epochs", "2"],
]
FULL = [
    ["step.py", "--repeats", "9", "--steps", "20"],
    ["gowalla.py", "--peer", "torch", "--epochs", "5"],
    ["gowalla.py", "--seeds", "3"],
]


def main() -> None:
    """Runs the chosen list and fails if one of it does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="longer runs, more repeats, all networks")
    failed = []
    for script, *options in FULL if parser.parse_args().full else SHORT:
        print(f"\n== {script} {' '.join(options)}", flush=True)
        if subprocess.run([sys.executable, str(FOLDER / script), *options]).returncode:
            failed.append(script)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
