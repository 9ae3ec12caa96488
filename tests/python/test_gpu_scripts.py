"""The scripts for a machine with a GPU, on the emulator: a mistake in one is not to be found out on a borrowed card."""

import contextlib
import dataclasses
import json
import math
import shutil
import subprocess
import sys
import types
import venv
from pathlib import Path

import numpy
import pytest
import scipy
from emulated import EMULATOR, emulated_driver

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

    def having(self, **settings):
        """The same machine with other variables."""
        return dataclasses.replace(self, environment={**self.environment, **settings})


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
def bare(machine, tmp_path):
    """The machine with a driver for CUDA 13, where only NVIDIA's packages have cuBLASLt and NCCL."""
    folder = tmp_path / "driver"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(EMULATOR / "libcuda.so.1")
    (packages,) = (machine.root.parent / "python").glob("lib/python3*/site-packages")
    for name, source in {
        "cu13/lib/libcublasLt.so.13": "libcublasLt.so.12",
        "nccl/lib/libnccl.so.2": "libnccl.so.2",
    }.items():
        (packages / "nvidia" / name).parent.mkdir(parents=True)
        shutil.copy(EMULATOR / source, packages / "nvidia" / name)
    yield machine.having(LD_LIBRARY_PATH=str(folder), DSSTNE_CUDAEMU_DRIVER="13000")
    shutil.rmtree(packages / "nvidia")


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
    assert done.stdout.split("\n")[0].split() == ["python3", "scripts/gpu_check.py"], done.stderr
    assert done.stdout.split("\n")[1].split() == ["python3", "tests/bench/run_gpu.py"], done.stderr
    done = machine.run("make", "-n", "gpu-check", "OUT=a", "EARLIER=b", "ONLY=doctor memcheck")
    options = '--out "a" --earlier "b" --only "doctor" --only "memcheck"'
    assert done.stdout == f"python3 scripts/gpu_check.py {options}\n", done.stderr
    done = machine.run("make", "-n", "gpu-first", "OUT=a")
    assert done.stdout == 'python3 scripts/gpu_first.py --out "a"\n', done.stderr


@pytest.mark.long
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
    first, second = tmp_path / "first", tmp_path / "second"  # an output folder may be empty at each call
    for parts, folders in ((("doctor", "python"), (first,)), (("memcheck",), (second, "--earlier", first))):
        only = [word for part in parts for word in ("--only", part)]
        done = machine.script("scripts/gpu_check.py", *only, "--out", *folders)
        assert done.returncode == 0, done.stdout + done.stderr
    page, values = report_in(second)
    state = {part["part"]: (part["state"], part["what"]) for part in values["parts"]}
    assert state["doctor"] == ("passed", "")
    assert state["python"] == ("skipped", "pytest is not installed")
    assert state["memcheck"][0] == "skipped"
    assert state["training"][0] == "not run"
    assert "| doctor | passed |" in page
    assert "| memcheck | skipped |" in page
    assert "not passed: libraries, kernels, training, conformance" in page
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


def test_go_programs_and_python_find_libraries_where_packages_are(bare, opbench, tmp_path):
    done = bare.script("scripts/gpu_check.py", "--only", "libraries", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    output = report_in(tmp_path)[1]["parts"][1]["output"].splitlines()
    assert "Python: cuBLASLt 12.9.0" in output
    assert "Python: NCCL 2.27.0" in output
    for precision in ("float32", "bfloat16"):
        for form in ("chunked", "the form that is chosen"):
            assert f"opbench: {precision}, {form}: chunked, cuBLASLt 12.9.0" in output
    assert "opbench: bfloat16, fused: fused" in output


def test_a_library_that_is_missing_fails_the_check_and_is_named(bare, opbench, tmp_path):
    done = bare.having(DSSTNE_LIBRARIES="/nowhere").script(
        "scripts/gpu_check.py", "--only", "libraries", "--out", tmp_path
    )
    assert done.returncode == 1
    part = report_in(tmp_path)[1]["parts"][1]
    assert part["state"] == "FAILED"
    why = (
        "libcublasLt.so.12 was not found; the package nvidia-cublas-cu12 has it (looked for libcublasLt.so.12,"
        " libcublasLt.so.13, /nowhere/cublas/lib/libcublasLt.so.12, /nowhere/cu13/lib/libcublasLt.so.13)"
    )
    assert f"opbench, float32, chunked: cuda:0: {why}" in part["what"]
    assert "opbench: float32, the form that is chosen: simple" in part["output"]


def test_tools_of_the_sanitizer_watch_our_kernels_and_run_when_they_are_asked_for(bench, monkeypatch):
    import gpu_check

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    found = {part.name: part for part in gpu_check.parts(gpu_check.gpu_machine.Machine())}
    assert [name for name, part in found.items() if part.alone] == ["memcheck", "racecheck", "synccheck", "initcheck"]
    command = found["racecheck"].command
    names = command[command.index("--kernel-name") + 1].split(",")
    assert {"kne=output_loss", "kne=screen_32", "kns=fused_"} <= set(names)
    assert "--kernel-name" not in found["initcheck"].command
    assert found["initcheck"].environment == {"DSSTNE_LIBRARIES": "none"}
    assert found["racecheck"].seconds + 20 <= 8.8 * 60


def test_an_op_that_fails_is_told_by_the_turn_that_fails(bench, opbench, monkeypatch):
    from measure.alternate import UnavailableError
    from measure.ops import Op

    for name, value in emulated_driver().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DSSTNE_CUDAEMU_LAZY", "1")  # nothing is done before somebody waits
    shape = {"units": 4, "rows": 3, "items": 20, "row_length": 2, "loss": "softmax"}
    with Op(op="output", backend="cuda", **shape, temperature=1e-40) as op:
        assert op.form.startswith("chunked, cuBLASLt")
        with pytest.raises(UnavailableError, match="not finite"):
            op.run(1)


@pytest.mark.long
def test_forms_of_the_output_are_timed_from_the_kit_and_the_table_stays(bare, opbench):
    table = bare.root / "kernels" / "cuda" / "forms.txt"
    before = table.read_text()
    shape = ("--only-these", "--items", 40, "--turns", 1, "--units", 8, "--rows", 4)
    done = bare.script("scripts/choose_output_form.py", "--print", *shape)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert [line.split(",")[0] for line in told] == ["bfloat16", "float32", "tensorfloat32"]
    assert all("simple" in line and "chunked" in line for line in told)
    assert table.read_text() == before


def test_times_of_the_emulator_are_not_written_into_the_table_of_forms(machine):
    table = machine.root / "kernels" / "cuda" / "forms.txt"
    before = table.read_text()
    done = machine.script("scripts/choose_output_form.py", "--items", 40, "--turns", 1, "--units", 8, "--rows", 4)
    assert done.returncode == 2
    assert "only --print" in done.stderr
    assert table.read_text() == before


def test_forms_are_not_compared_without_the_library_of_one_of_them(bare, opbench):
    shape = ("--only-these", "--items", 40, "--turns", 1, "--units", 8, "--rows", 4)
    done = bare.having(DSSTNE_LIBRARIES="/nowhere").script("scripts/choose_output_form.py", "--print", *shape)
    assert done.returncode == 1
    assert "libcublasLt.so.12 was not found" in done.stderr


def test_the_table_of_forms_grows_line_by_line_and_a_second_call_goes_on(bench, monkeypatch, tmp_path):
    import choose_output_form as forms
    import gpu_machine

    device = gpu_machine.Device("a device", 0, "9.0", 1, 1, 1)
    monkeypatch.setattr(gpu_machine, "look_elsewhere", lambda: gpu_machine.Machine([device]))
    monkeypatch.setattr(gpu_machine, "unpack_kit", lambda: None)
    monkeypatch.setattr(gpu_machine, "use_environment", lambda: None)
    monkeypatch.setattr(sys, "argv", ["", "--out", str(tmp_path), "--units", "8", "--rows", "4"])
    table, asked = tmp_path / "forms.txt", []

    def measure(shape, turns, deadline):
        if len(asked) in (2, 5):
            asked.append(None)
            raise KeyboardInterrupt  # the call is ended
        asked.append(shape)
        return {"simple": 2.0, "fused": 1.0 + 2 * (shape.units > 256)}

    monkeypatch.setattr(forms, "measure", measure)
    for lines in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            forms.main()
        assert len([line for line in table.read_text().splitlines() if line[0] != "#"]) == lines
    shapes = [shape for shape in asked if shape]
    assert [(s.precision, s.units, s.rows, s.items) for s in shapes] == [
        ("bfloat16", 1024, 256, 27_278),
        ("bfloat16", 256, 512, 40_981),
        ("bfloat16", 256, 512, 1_000_000),
        ("float32", 1024, 256, 27_278),
    ]
    assert table.read_text().splitlines()[2:4] == [
        "90 bfloat16 1024 256 27278 simple",
        "90 bfloat16 256 512 40981 fused",
    ]
    assert forms.with_line(table.read_text(), 90, shapes[0], "chunked").count("90 bfloat16 1024") == 1
    monkeypatch.setattr(sys, "argv", ["", "--out", str(tmp_path), "--minutes", "0"])
    assert forms.main() == 0  # no time for any shape
    assert len(asked) == 6


def test_ours_is_told_before_the_peer_begins(bench, monkeypatch):
    from gpu import setting, training
    from measure.network import Network

    begun = []

    class Side:
        def __init__(self, make, *_):
            begun.append(make)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def call(self, method, *_):
            return {"form": "output: chunked", "run": 2.0}.get(method, method)

    monkeypatch.setattr(training, "Contestant", Side)
    monkeypatch.setattr(training, "peer_of", lambda setting: lambda *arguments: Side("peer", *arguments))
    X = scipy.sparse.csr_array((3, 4), dtype="float32")
    lines = training.race(
        "a step", X, Network(hidden=(8,)), lambda side: side.call("run"), setting.Setting(False, ROOT, {}, repeats=3)
    )
    alone = next(lines)
    assert (alone.ours, alone.peer, alone.note) == ([2.0] * 3, [], "output: chunked; PyTorch not measured yet")
    assert "peer" not in begun
    (both,) = lines
    assert (both.ours, both.peer, both.note) == ([2.0] * 3, [2.0] * 3, "output: chunked")


def test_a_record_is_handed_on_before_its_case_has_ended(bench, monkeypatch):
    import run_gpu

    case = run_gpu.Case("a", 9.0, lambda setting: ())
    alone = {"case": "x", "unit": "s", "ours": [1.0], "parameters": {}}
    answers = iter([alone, {**alone, "peer": [2.0]}, "stopped after 9 s"])
    monkeypatch.setattr(run_gpu, "run", lambda *_: answers)
    arguments = run_gpu.argparse.Namespace(each=9.0)
    found = run_gpu.run_all([case], run_gpu.time.monotonic() + 60, arguments, {})
    assert next(found) == ([alone], {})
    assert next(found) == ([{**alone, "peer": [2.0]}], {})
    assert next(found)[1] == {"a": "stopped after 9 s"}


def test_a_case_that_takes_too_long_is_stopped_and_leaves_what_it_has_said(bench, monkeypatch, tmp_path):
    import run_gpu

    (tmp_path / "run_gpu.py").write_text(
        "import time\nprint('noise')\nprint('record: {\"case\": \"x\"}', flush=True)\ntime.sleep(60)\n"
    )
    monkeypatch.setattr(run_gpu, "FOLDER", tmp_path)
    arguments = run_gpu.argparse.Namespace(data=tmp_path, tiny=True)
    said = run_gpu.run("a", 1000.0, arguments, {})
    assert next(said) == {"case": "x"}
    with monkeypatch.context() as patch:
        patch.setattr(run_gpu, "time", types.SimpleNamespace(monotonic=lambda: math.inf))
        assert list(said) == ["stopped after 1000 s"]
    (tmp_path / "run_gpu.py").write_text("raise SystemExit('no such device')\n")
    assert list(run_gpu.run("a", 60.0, arguments, {})) == ["failed: no such device"]


def test_an_earlier_report_is_taken_from_another_folder_and_another_day(bench, tmp_path):
    import gpu_reports

    before, now = tmp_path / "before", tmp_path / "now" / "check-nvidia-h200-2026-11-23.md"
    for day, name in (("21", "nvidia-h200"), ("22", "nvidia-h200"), ("22", "nvidia-h200-x2"), ("22", "other")):
        gpu_reports.write(before / f"check-{name}-2026-11-{day}.md", "", {"is": f"{name} {day}"})
    assert gpu_reports.earlier(now, before) == {"is": "nvidia-h200 22"}
    assert gpu_reports.earlier(now) == {}
    gpu_reports.write(now, "", {"is": "now"})
    assert gpu_reports.earlier(now, before) == {"is": "now"}


NSYS = """Processing [profile.sqlite] with [cuda_gpu_kern_sum.py]...
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,2000000,40,50000.0,50000.0,1,2,3.0,output_loss
40.0,1000000,20,50000.0,50000.0,1,2,3.0,"void gemm<a, b>(c)"
"""


NCU = """==PROF== Disconnected
"ID","Process ID","Kernel Name","gpu__time_duration.sum"
"","","","ns"
"0","7","output_loss","1,900,000.0"
"1","7","void gemm<a, b>(c)","1000000"
"2","7","output_loss","100000"
"""


def test_profiles_of_all_tools_are_read(bench):
    import gpu_machine
    import gpu_profile

    events = [{"cat": "kernel", "name": "output_loss", "dur": 50.0}] * 40
    events += [{"cat": "kernel", "name": "void gemm<a, b>(c)", "dur": 50.0}] * 20
    events += [{"cat": "gpu_memcpy", "name": "Memcpy HtoD", "dur": 9.0}, {"name": "process_name", "ph": "M"}]
    kernels = gpu_profile.of_trace({"traceEvents": events})
    wanted = {"output_loss": (40, 2e-3), "void gemm<a, b>(c)": (20, 1e-3)}
    for found in (kernels, gpu_profile.of_nsys(NSYS)):
        assert {name: (k["launches"], pytest.approx(k["seconds"])) for name, k in found.items()} == wanted
    wanted = {"output_loss": (2, 2e-3), "void gemm<a, b>(c)": (1, 1e-3)}
    found = gpu_profile.of_ncu(NCU)
    assert {name: (k["launches"], pytest.approx(k["seconds"])) for name, k in found.items()} == wanted
    kernels = {name: {what: x / 20 for what, x in kernel.items()} for name, kernel in kernels.items()}
    case = {"case": "step", "tool": "nsys", "form": "output: chunked", "kernels": kernels}
    page = gpu_profile.page(gpu_machine.Machine(), {"cases": [case], "not profiled": ["by x: y"]})
    assert "| output_loss | 2.0 | 50.0 | 100.0 | 66.7% |" in page
    assert "By nsys; output: chunked. All kernels of a step together take\n150.0 us" in page
    assert "- by x: y" in page


def test_the_stages_of_the_first_call_share_its_time_in_the_order_of_what_they_tell(bench):
    import gpu_first

    stages = gpu_first.stages(emulated=False)
    assert [name for name, _, _ in stages] == ["probe", "kernels", "conformance", "training", "steps", "profile"]
    assert sum(share for _, share, _ in stages) == pytest.approx(1)
    assert gpu_first.SECONDS <= 540
    assert not any("--tiny" in command for _, _, command in stages)


def test_a_stage_of_the_first_call_that_hangs_is_stopped_and_the_others_go_on(bench, monkeypatch, tmp_path, capsys):
    import gpu_first

    programs = {"fine": "", "hangs": "import time; time.sleep(600)", "fails": "raise SystemExit(1)", "last": ""}
    shares = {"fine": 1000.0, "hangs": 1e-3, "fails": 1000.0, "last": 1.0}  # the rest of the time is for the others
    stages = [(name, shares[name], ["-c", program]) for name, program in programs.items()]
    monkeypatch.setattr(gpu_first, "stages", lambda emulated: stages)
    monkeypatch.setattr(gpu_first, "RESERVE", 0.0)
    monkeypatch.setattr(gpu_first.gpu_machine, "need_kit", lambda: None)
    device = gpu_first.gpu_machine.Device("a device", 0, "9.0", 1, 1, 1)
    monkeypatch.setattr(gpu_first.gpu_machine, "look_elsewhere", lambda: gpu_first.gpu_machine.Machine([device]))
    monkeypatch.setattr(sys, "argv", ["", "--out", str(tmp_path)])
    assert gpu_first.main() == 1
    ended = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[-5:-1]]
    assert ended == [["fine", "passed"], ["hangs", "stopped"], ["fails", "FAILED"], ["last", "passed"]]


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


@pytest.mark.slow  # 100 s
def test_the_kit_that_is_built_has_all_that_the_scripts_run(bare, tmp_path):
    command = [sys.executable, ROOT / "scripts" / "gpu_kit.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(bare.root / "build")
    shutil.copytree(ROOT / "build" / "gpu", bare.root / "build" / "gpu")
    first_call_on(bare, tmp_path / "first")
    command = (bare.root / "build" / "kit" / "conformance.test", "-test.v", "-test.run", "TestAFormThatDoesNot")
    done = bare.having(DSSTNE_TEST_DRIVER="real", DSSTNE_LIBRARIES="none").run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- SKIP: TestAFormThatDoesNotServeAnOutputRefusesIt/float32_chunked" in done.stdout
    assert 'the form "chunked": cuda:0: libcublasLt.so.12 is turned off' in done.stdout
    done = bare.script("tests/bench/run_gpu.py", "--tiny", "--out", tmp_path / "bench", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report_in(tmp_path / "bench")[1]["not measured"] == {}


def first_call_on(machine, out):
    """All of `make gpu-first`, with more time than on hardware, since the emulator is slow."""
    done = machine.script("scripts/gpu_first.py", "--out", out, "--seconds", 1500, timeout=1600)
    assert done.returncode == 0, done.stdout + done.stderr
    names = ["probe", "kernels", "conformance", "training", "steps", "profile"]
    assert [line.split()[:2] for line in done.stdout.splitlines()[-7:-1]] == [[name, "passed"] for name in names]
    (check,) = out.glob("check-*.json")
    parts = {part["part"]: part for part in json.loads(check.read_text())["parts"]}
    for name in ("doctor", "libraries", "kernels", "conformance", "training"):
        assert parts[name]["state"] == "passed"
    assert "chunked, cuBLASLt 12.9.0" in parts["training"]["output"]
    (bench_report,) = out.glob("bench-*.json")
    notes = {record["workload"]: record["note"] for record in json.loads(bench_report.read_text())["cases"]}
    steps = {"step bfloat16", "softmax 41k bfloat16"}
    assert set(notes) == steps | {f"output {name}" for name in steps}
    for name, note in notes.items():
        assert note.startswith("output: chunked, cuBLASLt 12.9.0" + "; PyTorch not measured" * (name in steps))
    (profile,) = out.glob("profile-*.md")
    assert "by nsys: nsys is not installed" in profile.read_text()
    assert "CUPTI, is not installed" in profile.read_text()
