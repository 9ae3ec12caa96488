"""What several test files use: small matrices, and another Python process."""

import subprocess
import sys
from pathlib import Path

import pytest
from matrices import blocks

import dsstne

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session", name="X")
def interactions():
    return blocks()


@pytest.fixture(scope="session")
def model(X):
    return dsstne.fit(X, hidden=[12], epochs=3, batch_size=64, learning_rate=0.01, progress=False)


@pytest.fixture
def python():
    """Runs a program in another process and returns what it prints; its failure is the test's."""

    def run(code, *arguments, timeout=60, check=True):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if check:
            assert done.returncode == 0, done.stderr
            return done.stdout
        return done

    return run


@pytest.fixture(scope="session")
def shared_data():
    """The folder of research data, which is not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"research data is not at {SHARED}")
    return SHARED
