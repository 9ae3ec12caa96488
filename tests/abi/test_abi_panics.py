"""A defect of the library is a status; the process and everything but the handle at hand live on.

Each case runs in a process of its own, with a library that panics where it is asked to.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import header

HERE = Path(__file__).parent

PREPARE = """
import sys
from ctypes import byref, c_size_t, c_uint64
from pathlib import Path
from native import *

library = Library(Path(sys.argv[1]))
blocks = Blocks(library)

def inject(place):
    library.call("configure", json.dumps({"inject_panic": place}).encode())

def failing(name, *arguments):
    try:
        library.call(name, *arguments)
    except Failure as error:
        return error
    raise AssertionError(name + " succeeded")
"""


def run(script: str, library: Path) -> None:
    command = [sys.executable, "-c", PREPARE + script, str(library)]
    ended = subprocess.run(command, cwd=HERE, text=True, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


EXPORTS = sorted(
    name.removeprefix("dsstne_") for name, (result, _) in header.functions().items() if result == "dsstne_status"
)


def test_every_export_turns_a_panic_into_a_status(faulty_library: Path) -> None:
    run(
        f"""
for name in {EXPORTS}:
    types = header.functions()["dsstne_" + name][1][:-1]
    inject("export:" + name)
    error = failing(name, *(None if type_.endswith("*") else 0 for type_ in types))
    assert error.status == "INTERNAL", error
    assert "dsstne_" + name in error.message and "injected" in error.message, error
    assert ".go:" in error.message, error
library.call("trainer_run", blocks.trainer, 2, 0.0, None)
blocks.recommend()
blocks.close()
""",
        faulty_library,
    )


def test_a_panic_in_a_training_run_poisons_the_trainer_only(faulty_library: Path) -> None:
    run(
        """
inject("call")
error = failing("trainer_run", blocks.trainer, 1, 0.0, None)
assert error.status == "INTERNAL" and "injected" in error.message, error
again = failing("trainer_run", blocks.trainer, 1, 0.0, None)
assert again.status == "INTERNAL" and "only closed" in again.message, again
library.call("trainer_progress", blocks.trainer, byref(Progress(struct_size=80)))
blocks.recommend()
library.call("trainer_close", blocks.trainer)
blocks.trainer = library.open("trainer_open", blocks.model, None)
blocks.close()
""",
        faulty_library,
    )


def test_a_panic_in_a_prediction_leaves_the_predictor_usable(faulty_library: Path) -> None:
    run(
        """
inject("goroutine")
try:
    blocks.recommend()
except Failure as error:
    assert error.status == "INTERNAL", error
else:
    raise AssertionError("no panic")
blocks.recommend()
blocks.close()
""",
        faulty_library,
    )


@pytest.mark.parametrize("place", ["export:dataset_open", "goroutine"])
def test_a_panic_while_a_dataset_is_opened_releases_both_structs(faulty_library: Path, place: str) -> None:
    run(
        f"""
matrix = Matrix(library, [[0, 1], [2]], columns=4)
inject({place!r})
error = failing("dataset_open", byref(matrix.schema), byref(matrix.array), b'{{"columns": 4}}', byref(c_uint64(0)))
assert error.status == "INTERNAL", error
assert not matrix.schema.release and not matrix.array.release
""",
        faulty_library,
    )
