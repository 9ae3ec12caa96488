"""The scripts for a machine with a GPU, on the emulator: a mistake in one is not to be found out on a borrowed card."""

import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest
import scipy
from emulated import emulated_driver

import dsstne

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Machine:
    """A copy of the tracked files with build/gpu; there is a Python with NumPy and SciPy, and neither Go nor .venv."""

    root: Path
    environment: dict[str, str]

    def run(self, command, *arguments, timeout=120):
        return subprocess.run(
            [shutil.which(command, path=self.environment["PATH"]), *map(str, arguments)],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def script(self, path, *arguments, **options):
        return self.run("python3", path, *arguments, **options)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    driver = emulated_driver()
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: which files are tracked is unknown")
    folder = tmp_path_factory.mktemp("machine")
    root, python = folder / "tree", folder / "python"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    venv.create(python, symlinks=True, with_pip=False)
    (packages,) = python.glob("lib/python3*/site-packages")
    for module in (numpy, scipy):
        for path in Path(module.__file__).parents[1].glob(f"{module.__name__}*"):  # with its libraries and its version
            (packages / path.name).symlink_to(path)
    for tool in ("make", "sh", "find", "uname", "sed"):
        if there := shutil.which(tool):
            (python / "bin" / tool).symlink_to(there)
    environment = {"PATH": str(python / "bin"), "HOME": str(folder), **driver}
    del environment["PYTHONPATH"]
    found = Machine(root, environment)
    kit = root / "build" / "kit"
    kit.mkdir(parents=True)
    shutil.copy(dsstne.doctor().library, kit / "libdsstne.so")
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(ROOT / "build" / "opbench", kit)
    packing = found.script("-c", "import sys; sys.path.insert(0, 'scripts'); import gpu_kit; sys.exit(gpu_kit.pack())")
    assert packing.returncode == 0, packing.stderr
    shutil.rmtree(kit)  # what travels is build/gpu
    return found


@pytest.fixture
def opbench(machine):
    if not (ROOT / "build" / "opbench").exists():
        pytest.skip("build/opbench is not built: make build/opbench")
    assert (machine.root / "build" / "gpu" / "opbench.gz").exists(), "it was not packed"


@pytest.fixture
def bench(monkeypatch):
    """What is in tests/bench and scripts can be imported."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")
    monkeypatch.syspath_prepend(ROOT / "scripts")


def report_in(folder):
    (page,), (values,) = folder.glob("*.md"), folder.glob("*.json")
    assert page.stem == values.stem
    return page.read_text(), json.loads(values.read_text())


def test_make_takes_a_python_that_has_numpy_and_scipy(machine):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = machine.run("make", "-n", "gpu-check", "gpu-bench")
    assert done.stdout.splitlines() == ["python3 scripts/gpu_check.py", "python3 tests/bench/run_gpu.py"], done.stderr


def test_benchmarks_run_from_the_kit_and_a_second_call_adds_to_the_report(machine, opbench, tmp_path):
    for case in ("output step float32", "topk 27k"):
        done = machine.script("tests/bench/run_gpu.py", "--tiny", "--only", case, "--out", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    page, values = report_in(tmp_path)
    first = {record["workload"]: record for record in reversed(values["cases"])}
    assert list(first) == ["output step float32", "topk 27k"]  # the last first: the order is that of importance
    assert values["not measured"] == {}
    assert all(record["ours"] for record in first.values())
    assert all(f"| {record['case']} |" in page for record in first.values())
    assert first["topk 27k"]["parameters"]["precision"] == "bfloat16"  # that of the products that screen
    assert "this is not a measurement" in page


def test_a_ranking_is_held_against_the_limit_of_the_products_that_screen(bench):
    from gpu import setting
    from measure.lines import Line

    limits = {"flops": {"float32": 1e12, "bfloat16": 4e12}, "bandwidth": {"on the device": 1e15}}
    line = setting.finished(Line("", ours=[2.0]), 1, 4e12, 1.0, "bfloat16", setting.Setting(False, ROOT, limits))
    assert line.share == [0.5]


def test_checks_run_from_the_kit_and_a_second_call_adds_to_the_report(machine, tmp_path):
    for parts in (("doctor", "python"), ("memcheck",)):
        only = [word for part in parts for word in ("--only", part)]
        done = machine.script("scripts/gpu_check.py", *only, "--out", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    page, values = report_in(tmp_path)
    state = {part["part"]: (part["state"], part["what"]) for part in values["parts"]}
    assert state["doctor"] == ("passed", "")
    assert state["python"] == ("skipped", "pytest is not installed")
    assert state["memcheck"][0] == "skipped"
    assert state["training"][0] == "not run"
    assert "| doctor | passed |" in page
    assert "| memcheck | skipped |" in page
    assert "not passed: kernels, training, conformance" in page
    for text in (page, json.dumps(values)):  # which may be passed on
        assert " ./build/kit/libdsstne.so" in text
        assert str(machine.root.parent) not in text


def test_a_call_that_is_killed_leaves_a_report_of_what_was_done(machine, tmp_path):
    python = shutil.which("python3", path=machine.environment["PATH"])
    command = [python, "scripts/gpu_check.py", "--only", "doctor", "--only", "training", "--out", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=machine.root, env=machine.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        while not process.stdout.readline().startswith("doctor "):
            assert process.poll() is None
        process.kill()
    _, values = report_in(tmp_path)
    state = {part["part"]: part["state"] for part in values["parts"]}
    assert state["doctor"] == "passed"
    assert state["conformance"] == "not run"


def test_forms_of_the_output_are_timed_from_the_kit_and_the_table_stays(machine, opbench):
    table = machine.root / "kernels" / "cuda" / "forms.txt"
    before = table.read_text()
    shape = ("--items", 40, "--turns", 1, "--units", 8, "--rows", 4)
    done = machine.script("scripts/choose_output_form.py", "--print", *shape)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert [line.split(",")[0] for line in told] == ["float32", "tensorfloat32", "bfloat16"]
    assert all("simple" in line and "chunked" in line for line in told)
    assert table.read_text() == before


def test_times_of_the_emulator_are_not_written_into_the_table_of_forms(machine):
    table = machine.root / "kernels" / "cuda" / "forms.txt"
    before = table.read_text()
    done = machine.script("scripts/choose_output_form.py", "--items", 40, "--turns", 1, "--units", 8, "--rows", 4)
    assert done.returncode == 2
    assert "only --print" in done.stderr
    assert table.read_text() == before


def test_forms_are_not_compared_without_the_library_of_one_of_them(machine, tmp_path):
    (tmp_path / "libcuda.so.1").symlink_to(Path(machine.environment["LD_LIBRARY_PATH"]) / "libcuda.so.1")
    machine = dataclasses.replace(machine, environment={**machine.environment, "LD_LIBRARY_PATH": str(tmp_path)})
    done = machine.script("scripts/choose_output_form.py", "--print", "--items", 40, "--turns", 1)
    assert done.returncode == 2
    assert "the loader does not find cuBLASLt" in done.stderr


def test_the_page_of_the_roofline_is_what_its_script_writes(bench):
    import gpu_roofline

    reports = (ROOT / "docs" / "gpu").glob("bench-*.json")
    pages = [gpu_roofline.page(measured) for measured in (gpu_roofline.Measured(), *map(gpu_roofline.read, reports))]
    assert (ROOT / "docs" / "gpu-performance.md").read_text() in pages


def record(workload, case, *ours):
    return {"workload": workload, "case": case, "ours": list(ours)}


def test_a_report_keeps_what_a_later_call_does_not_measure(bench):
    from gpu.report import NO_TIME, merged

    earlier = {
        "limits": {"flops": {"float32": 1.0}, "bandwidth": {"a": 1.0}},
        "cases": [record("one", "x", 1.0), record("one", "y", 2.0), record("three", "z", 3.0)],
        "not measured": {"two": NO_TIME, "four": "failed: so", "five": NO_TIME},
    }
    later = {
        "limits": {"bandwidth": {"a": 2.0}, "missing": ["products"]},
        "cases": [record("two", "w", 4.0), record("one", "y", 5.0)],
        "not measured": {"one": "stopped after 9 s", "three": NO_TIME, "four": NO_TIME, "six": NO_TIME},
    }
    found = merged(earlier, later, ["one", "two", "three", "four", "five", "six"])
    assert [(r["case"], r["ours"]) for r in found["cases"]] == [("x", [1.0]), ("y", [5.0]), ("w", [4.0]), ("z", [3.0])]
    assert found["not measured"] == {
        "four": "failed: so",
        "five": NO_TIME,
        "one": "stopped after 9 s",
        "six": NO_TIME,
    }
    assert found["limits"] == {"flops": {"float32": 1.0}, "bandwidth": {"a": 2.0}, "missing": ["products"]}


def test_a_part_that_was_not_run_leaves_its_earlier_result(bench):
    from gpu_check import Result, merged

    earlier = {
        "parts": [vars(Result("a", "passed", 1.0)), vars(Result("b", "FAILED", 2.0)), vars(Result("c", "passed"))]
    }
    later = [Result("a", "not run"), Result("b", "passed", 3.0), Result("d", "not run", what="no time was left")]
    found = merged(["a", "b", "c", "d", "e"], earlier, later)
    assert [(r.part, r.state, r.seconds) for r in found] == [
        ("a", "passed", 1.0),
        ("b", "passed", 3.0),
        ("c", "passed", 0.0),
        ("d", "not run", 0.0),
        ("e", "not run", 0.0),
    ]
    assert found[3].what == "no time was left"


@pytest.mark.parametrize("there", [(), ("cuvs",), ("cupy",)], ids=lambda there: "".join(there) or "neither")
def test_what_cuvs_lacks_is_named(bench, monkeypatch, tmp_path, there):
    from measure.alternate import UnavailableError
    from peers import device_rankers

    for name in there:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(p for p in sys.path if "site-packages" not in p)])
    with pytest.raises(UnavailableError) as error:
        device_rankers.make("cuVS", 10, 4, 2, 1)
    assert str(error.value).split(": ")[-1].split(", ") == [name for name in ("cupy", "cuvs") if name not in there]


@pytest.mark.slow
def test_the_kit_that_is_built_has_all_that_the_scripts_run(machine, tmp_path):
    command = [sys.executable, ROOT / "scripts" / "gpu_kit.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(machine.root / "build")
    shutil.copytree(ROOT / "build" / "gpu", machine.root / "build" / "gpu")
    only = [word for part in ("kernels", "training") for word in ("--only", part)]
    done = machine.script("scripts/gpu_check.py", *only, "--out", tmp_path / "check", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    done = machine.run(machine.root / "build" / "kit" / "conformance.test", "-test.list", "TestEveryOpAgrees")
    assert "TestEveryOpAgreesWithTheReference" in done.stdout.splitlines()  # `make test` runs it, from the sources
    done = machine.script("tests/bench/run_gpu.py", "--tiny", "--out", tmp_path / "bench", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report_in(tmp_path / "bench")[1]["not measured"] == {}
