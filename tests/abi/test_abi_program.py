"""A program in C, compiled and linked as a user would, trains and recommends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import header
from native import Library


def test_a_c_program_gets_recommendations_of_the_right_block(library: Library, tmp_path: Path) -> None:
    program, folder = tmp_path / "recommend", library.path.parent
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    link = [f"-L{folder}", "-ldsstne", f"-Wl,-rpath,{folder}", "-lm"]
    source = Path(__file__).with_name("recommend.c")
    command = [*header.COMPILER, *strict, f"-I{header.HEADER.parent}", str(source), "-o", str(program), *link]
    subprocess.run(command, check=True)
    ended = subprocess.run([str(program)], text=True, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "items of their own block" in ended.stdout
