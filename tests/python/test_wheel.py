"""The wheels that are built from these sources: their names, their content, and that they work where nothing else is.

They are built here, or DSSTNE_TEST_WHEELS is the folder of finished ones (`make wheels`).
"""

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import dsstne

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["capi", "engine", "internal", "kernels", "include", "python", "scripts", "tools"]
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
OFFLINE = ["--no-deps", "--no-index", "--no-compile"]

PROGRAM = Path(__file__).with_name("wheel_program.py")
EMULATED_ARM = [sys.executable, str(ROOT / "scripts" / "emulated_arm.py")]

# The other machine is compiled for with a cross compiler.
HERE = platform.machine()
OTHERS = {"aarch64"} - {HERE}


@pytest.fixture(scope="module", params=[HERE, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def machine(request):
    return request.param


@pytest.fixture(scope="module")
def wheel(machine, tmp_path_factory):
    """Builds in a copy, so that the library of the checkout stays what it is."""
    if finished := os.environ.get("DSSTNE_TEST_WHEELS"):
        (found,) = (ROOT / finished).glob(f"*_{machine}.whl")
        return found
    if machine != HERE and not shutil.which(f"{machine}-linux-gnu-gcc"):
        pytest.skip(f"{machine}-linux-gnu-gcc is not installed")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    unwanted = shutil.ignore_patterns("_lib", "__pycache__", "*_test.go", "testdata")
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=unwanted)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"]
    environment = {**os.environ, "DSSTNE_ARCHITECTURE": machine}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory):
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("dsstne/_lib/libdsstne.so", tmp_path_factory.mktemp("library")))


def test_the_wheel_is_for_any_python_on_any_linux_since_glibc_2_28(machine, wheel):
    assert re.fullmatch(rf"dsstne-[\d.]+-py3-none-manylinux_2_28_{machine}", wheel.stem)
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(about).decode().splitlines()


def test_the_library_asks_for_no_symbol_newer_than_the_name_of_the_wheel_says(machine, library):
    """As readelf sees it; hatch_build.py, which chose the name, reads the file itself."""
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    read = subprocess.run(["readelf", "-hVW", library], check=True, capture_output=True, text=True).stdout
    versions = {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", read)}
    assert (2, 2) < max(versions) <= (2, 28), "a newer symbol has come in; see capi/glibc.c"
    assert {"x86_64": "X86-64", "aarch64": "AArch64"}[machine] in read


def test_the_wheel_has_less_than_12_megabytes(wheel):
    assert wheel.stat().st_size < 12_000_000


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


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """What the program finds on this machine with the package of the checkout."""
    return outcome([sys.executable, PROGRAM], tmp_path_factory.mktemp("elsewhere"))


def outcome(command, folder, environment=None):
    """What the program prints, run in a folder where nothing is."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_it_works(found, site, machine):
    assert Path(found["file"]) == site / "dsstne" / "__init__.py"
    assert Path(found["library"]) == site / "dsstne" / "_lib" / "libdsstne.so"
    assert found["version"] == dsstne.__version__
    assert found["target"] == {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}[machine]
    assert found["bits"] == found["bits_of_one_thread"]
    assert found["right"] > 0.9  # of four groups, chance finds 0.25


@pytest.mark.long
@pytest.mark.parametrize("machine", [HERE], indirect=True, scope="module")
def test_a_wheel_installed_in_an_empty_environment_trains(machine, wheel, tmp_path):
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = [*PIP[:-2], "--python", python, *PIP[-2:]]
    subprocess.run([*pip, "install", *OFFLINE, wheel], check=True, timeout=120, cwd=tmp_path)
    (site,) = environment.glob("lib/python*/site-packages")
    # NumPy, SciPy and tqdm are those of this environment. Its own .pth files, such as the checkout's, are not read.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    assert_it_works(outcome([python, "-I", PROGRAM], tmp_path), site, machine)
    described = subprocess.run([environment / "bin" / "dsstne", "doctor"], capture_output=True, text=True, cwd=tmp_path)
    assert described.returncode == 0, described.stderr
    assert str(site) in described.stdout


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["aarch64"], indirect=True, scope="module")
def test_the_wheel_for_arm_trains_under_emulation(machine, wheel, native, tmp_path):
    """pip runs there, too, so that it takes the wheel's tags for its machine's."""
    needed = ROOT / "build" / "arm" / "site-packages"
    if not needed.exists():
        pytest.skip(f"{needed} is not there; run scripts/emulated_arm.py, which says what is missing")
    pip = Path(importlib.util.find_spec("pip").origin).parent
    install = [*EMULATED_ARM, "python", "-I", pip, "-q", "--disable-pip-version-check", "install"]
    subprocess.run([*install, *OFFLINE, "--target", tmp_path, wheel], check=True, timeout=300)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{needed}"}
    found = outcome([*EMULATED_ARM, "python", PROGRAM], tmp_path, environment)
    assert_it_works(found, tmp_path, machine)
    assert found["backends"] == ["cpu", "reference"]
    assert found["instruction_set"] == "portable"  # which is NEON there
    assert found["losses"] == pytest.approx(native["losses"], rel=1e-4)  # sums in another order
    for name in ("linear", "neighbours"):
        assert found[name] == native[name]
