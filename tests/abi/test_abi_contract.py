"""The library offers what the header declares, all of it and nothing else, and the header keeps its promises."""

from __future__ import annotations

import ctypes
import difflib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import hatch_build
import header
from dsstne import _arrow, _native
from native import NUMBERS, Library

HERE = Path(__file__).parent


def dynamic_symbols(path: Path, *options: str) -> list[str]:
    command = ["nm", "-D", *options, str(path)]
    lines = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    return sorted(line.split()[-1] for line in lines)


def test_the_library_exports_the_functions_of_the_header_and_nothing_else(library: Library) -> None:
    assert dynamic_symbols(library.path, "--defined-only") == sorted(header.functions())


def test_the_library_runs_on_every_glibc_since_2_28(library: Library) -> None:
    assert hatch_build.needed_glibc(library.path) <= (2, 28), "a newer symbol has come in; see capi/glibc.c"


def test_the_scan_for_glibc_versions_sees_what_nm_sees(library: Library) -> None:
    names = [name for name in dynamic_symbols(library.path) if "@GLIBC_" in name]
    versions = [tuple(map(int, name.split("@GLIBC_")[1].split(".")[:2])) for name in names]
    assert hatch_build.needed_glibc(library.path) == max(versions)


def test_the_library_is_at_most_11_megabytes_and_the_kernel_images(library: Library) -> None:
    images = (hatch_build.ROOT / "kernels" / "cuda" / "images").glob("*")
    allowed = 11 * 2**20 + sum(path.stat().st_size for path in images)
    assert library.path.stat().st_size <= allowed


def test_the_library_needs_only_the_c_library(library: Library) -> None:
    answer = subprocess.run(["objdump", "-p", str(library.path)], check=True, text=True, stdout=subprocess.PIPE).stdout
    needed = {line.split()[1] for line in answer.splitlines() if line.split()[:1] == ["NEEDED"]}
    system = {"libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6"}
    assert needed <= system | {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


# The structs that the Python package declares, by their names in the header.
STRUCTS = {
    "dsstne_error": _native.ErrorStruct,
    "dsstne_dataset_info": _native.DatasetInfoStruct,
    "dsstne_progress": _native.ProgressStruct,
    "dsstne_solver_state": _native.SolverStateStruct,
    "struct ArrowSchema": _arrow.ArrowSchema,
    "struct ArrowArray": _arrow.ArrowArray,
}


def accepts(declared: object, type_: str) -> bool:
    """Whether a type that Python declares is right for a type of the header; ``void *`` takes any pointer."""
    if type_ == "const char *" or not type_.endswith("*"):
        return declared is Library.ctype(type_)
    pointed = type_.removeprefix("const ").removesuffix("*").strip()
    return declared in (ctypes.c_void_p, ctypes.POINTER(STRUCTS.get(pointed, NUMBERS.get(pointed))))


def test_the_package_declares_the_functions_of_the_header_and_nothing_else() -> None:
    declared = {"dsstne_" + name: [result, *types] for name, (result, types) in _native._FUNCTIONS.items()}
    expected = {name: [result, *types] for name, (result, types) in header.functions().items()}
    assert sorted(declared) == sorted(expected)
    for name, types in expected.items():
        assert len(declared[name]) == len(types), name
        wrong = [t for python, t in zip(declared[name], types, strict=True) if not accepts(python, t)]
        assert not wrong, f"{name}: {wrong}"


@pytest.mark.parametrize("name", STRUCTS)
def test_the_package_declares_the_structs_of_the_header(name: str) -> None:
    struct = STRUCTS[name]
    lines = [f"layout {name}: size {ctypes.sizeof(struct)}, alignment {ctypes.alignment(struct)}"]
    for field, *_ in struct._fields_:
        place = getattr(struct, field)
        lines.append(f"layout {name}: {field} at {place.offset}, size {place.size}")
    assert [line for line in header.snapshot().splitlines() if line.startswith(f"layout {name}:")] == lines


# One for every version of the interface; the last one is that of the header.
SNAPSHOTS = sorted(HERE.glob("abi-*.txt"), key=lambda file: [int(n) for n in file.stem.removeprefix("abi-").split(".")])


def test_the_abi_is_the_one_of_the_snapshot() -> None:
    file = SNAPSHOTS[-1]
    expected, found = file.read_text().splitlines(), header.snapshot().splitlines()
    changes = "\n".join(difflib.unified_diff(expected, found, file.name, "include/dsstne.h", lineterm="", n=0))
    assert not changes, (
        f"the C interface has changed:\n{changes}\n\n"
        "A function, a status code or a trailing field that was added is a new minor version, anything else a new "
        "major one. Change DSSTNE_ABI_VERSION and the Versions section of the header, name a new snapshot after it:\n"
        "    python tests/abi/header.py > tests/abi/abi-<major>.<minor>.txt"
    )


@pytest.mark.parametrize("file", SNAPSHOTS, ids=lambda file: file.stem)
def test_programs_of_an_earlier_minor_version_find_what_they_know(file: Path) -> None:
    """A struct may grow, for it says its size; all else is there as it was. A new major version starts a new list."""
    known, present = file.read_text().splitlines(), set(header.snapshot().splitlines())
    lost = [line for line in known if line not in present]
    assert [line for line in lost if not re.match(r"version|layout dsstne_\w+: size", line)] == []


def test_every_snapshot_is_of_the_version_in_its_name() -> None:
    assert [file.stem for file in SNAPSHOTS][:2] == ["abi-1.0", "abi-1.1"]
    for file in SNAPSHOTS:
        assert f"version {file.stem.removeprefix('abi-')}" in file.read_text().splitlines()


def test_the_library_tells_the_abi_of_the_header(library: Library) -> None:
    number = library.raw.dsstne_abi_version()
    assert SNAPSHOTS[-1].stem == f"abi-{number >> 16}.{number & 0xFFFF}"


def test_the_library_tells_the_version_of_the_project(library: Library) -> None:
    assert library.raw.dsstne_version().decode() == hatch_build.project_version()


@pytest.mark.parametrize(
    ("compiler", "options"),
    [("cc", ["-x", "c", "-std=c99"]), ("cc", ["-x", "c", "-std=c17"]), ("c++", ["-x", "c++", "-std=c++11"])],
)
def test_the_header_compiles_alone_and_without_a_warning(compiler: str, options: list[str]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes"] if compiler == "cc" else ["-Wall", "-Wextra"]
    subprocess.run([compiler, *options, *strict, "-Werror", "-fsyntax-only", str(header.HEADER)], check=True)
