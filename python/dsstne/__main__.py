"""Runs the command ``dsstne`` for ``python -m dsstne``."""

from dsstne.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
