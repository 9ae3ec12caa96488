"""Programs in C and Java, compiled and linked as a user would, train, recommend and search."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from ctypes import byref, c_uint64
from pathlib import Path

import numpy as np
import pytest

import header
from native import Library


def run(library: Library, source: str, folder: Path, *arguments: str) -> str:
    """Compiles and runs a program; returns what it prints."""
    program, lib = folder / Path(source).stem, library.path.parent
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    link = [f"-L{lib}", "-ldsstne", f"-Wl,-rpath,{lib}", "-lm"]
    path = Path(__file__).with_name(source)
    command = [*header.COMPILER, *strict, f"-I{header.HEADER.parent}", str(path), "-o", str(program), *link]
    subprocess.run(command, check=True)
    ended = subprocess.run([str(program), *arguments], text=True, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_c_program_gets_recommendations_of_the_right_block(library: Library, tmp_path: Path) -> None:
    assert "items of their own block" in run(library, "recommend.c", tmp_path)


def test_a_c_program_of_forty_lines_searches_vectors(library: Library, vectors: Path, tmp_path: Path) -> None:
    assert len(Path(__file__).with_name("search.c").read_text().splitlines()) <= 40
    check_neighbours(run(library, "search.c", tmp_path, str(vectors)))


def test_a_java_program_searches_vectors(library: Library, vectors: Path, tmp_path: Path) -> None:
    program = Path(__file__).with_name("Search.java")
    command = [java(), "--enable-native-access=ALL-UNNAMED", program, library.path]
    ended = subprocess.run([*command, vectors], text=True, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    check_neighbours(ended.stdout)
    ended = subprocess.run([*command, tmp_path / "none.dsstne"], text=True, capture_output=True, timeout=120)
    assert "none.dsstne: no such file" in ended.stderr


def java() -> str:
    """Returns a Java that can call C functions: 22 or newer."""
    homes = [Path(os.environ.get("JAVA_HOME", "/nowhere")), *sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)]
    for name in [shutil.which("java"), *(str(home / "bin" / "java") for home in homes)]:
        if name and Path(name).exists():
            said = subprocess.run([name, "-version"], text=True, capture_output=True, timeout=60).stderr
            if (version := re.search(r'version "(\d+)', said)) and int(version[1]) >= 22:
                return name
    pytest.skip("there is no Java 22 or newer on PATH, in JAVA_HOME or in /usr/lib/jvm")


VECTORS = np.array([[1, 0, 0], [1, 2, 3], [0, 0, -2], [2, 4, 6]], np.float32)


@pytest.fixture
def vectors(library: Library, tmp_path: Path) -> Path:
    """A model file with the vectors."""
    path, model = tmp_path / "index.dsstne", c_uint64(0)
    definition = b'{"kind": "vectors", "items": 4, "size": 3, "metric": "cosine"}'
    library.call("model_create", definition, None, byref(model))
    for row in range(0, 4, 2):
        library.call("model_set_rows", model, b"vectors", row, 2, VECTORS[row:].ctypes.data, 24)
    library.call("model_save", model, str(path).encode(), None)
    library.call("model_close", model)
    return path


def check_neighbours(printed: str) -> None:
    """Checks what a program prints: id and score of each neighbour, first found by a search and then recommended."""
    found = [line.split() for line in printed.splitlines()]
    queries, norms = np.array([[1.0, 2, 3], [-3, -2, -1]]), np.linalg.norm(VECTORS.astype(float), axis=1)
    cosines = queries @ VECTORS.T / norms / np.sqrt(14)
    assert [int(line[0]) for line in found] == [1, 3, 2, 1] == [int(line[2]) for line in found]
    # dsstne_predictor_search has compared cosines, the default, and recommendations have the metric of the model.
    np.testing.assert_allclose([float(line[1]) for line in found], cosines[[0, 0, 1, 1], [1, 3, 2, 1]], rtol=1e-5)
    assert all(line[1] == line[3] for line in found)
