"""The wheel that is built from these sources: its name, its content, and that it works where nothing else is."""

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["capi", "engine", "internal", "kernels", "include", "python", "scripts", "tools"]
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Builds in a copy, so that the library of the checkout stays what it is."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    unwanted = shutil.ignore_patterns("_lib", "__pycache__", "*_test.go", "testdata")
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=unwanted)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, source)
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder / "dist", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (folder / "dist").iterdir()
    return built


def test_the_wheel_is_for_any_python_on_this_platform(wheel):
    assert re.fullmatch(rf"dsstne-[\d.]+-py3-none-(many)?linux_\w*{platform.machine()}", wheel.stem)
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(about).decode().splitlines()


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "python" / "dsstne"
    modules = {f"dsstne/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    assert modules | {"dsstne/py.typed", "dsstne/_lib/libdsstne.so", "dsstne/include/dsstne.h"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dsstne"}
    assert not any(name.endswith((".pyc", ".go", ".c")) for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/NOTICE") for name in names)


def test_an_installed_wheel_trains(wheel, tmp_path):
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", tmp_path, wheel], check=True, timeout=120)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np, scipy.sparse, dsstne\n"
        "X = scipy.sparse.csr_array((np.random.default_rng(0).random((40, 20)) < 0.3).astype(np.float32))\n"
        "print(dsstne.__file__)\n"
        "print(dsstne.doctor().library)\n"
        "print(dsstne.fit(X, hidden=[4], epochs=1, progress=False).recommend(X, k=3)[0].shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    file, library, shape = done.stdout.splitlines()
    assert Path(file) == tmp_path / "dsstne" / "__init__.py"
    assert Path(library) == tmp_path / "dsstne" / "_lib" / "libdsstne.so"
    assert shape == "(40, 3)"
