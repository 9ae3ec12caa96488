"""Forks, signals, memory and the end of the process: what can only be seen from outside."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import terminal

HEAD = """
import os, signal, sys, time
import numpy as np, scipy.sparse, dsstne
X = scipy.sparse.csr_array((np.random.default_rng(0).random((400, 50)) < 0.2).astype(np.float32))
"""


def test_a_child_forked_after_use_gets_a_clear_error(python, tmp_path):
    out = python(
        HEAD + "model = dsstne.fit(X, hidden=[4], epochs=1, progress=False)\n"
        "data = dsstne.Dataset(X)\n"
        "trainer = dsstne.Trainer(model, data)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (lambda: model.recommend(X), lambda: dsstne.Dataset(X), lambda: trainer.run(steps=1),\n"
        "                lambda: dsstne.fit(X, epochs=1), lambda: model.save(sys.argv[1]), lambda: model.tensors):\n"
        "        try:\n            use(); print('no error')\n"
        "        except dsstne.ForkError as error:\n"
        "            print('ForkError', *(word in str(error) for word in ('spawn', 'forkserver')))\n"
        "    trainer.close(); data.close(); model.close()\n"
        "    del trainer, data, model\n"
        "    sys.stdout.flush(); sys.exit(0)\n"
        "_, status = os.waitpid(child, 0)\n"
        "print('status', status)\n"
        "print(model.recommend(X, k=1)[0].shape)\n",
        tmp_path / "no.dsstne",
    ).split("\n")
    assert not list(tmp_path.iterdir())
    assert out[:6] == ["ForkError True True"] * 6
    assert out[6:8] == ["status 0", "(400, 1)"]


def test_doctor_tells_of_the_fork_instead_of_failing(python):
    out = python(
        HEAD + "dsstne.doctor()\n"
        "child = os.fork()\n"
        "if child == 0:\n    print(dsstne.doctor().problems); sys.stdout.flush(); os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    assert "forkserver" in out


def test_forking_before_the_first_use_is_fine(python):
    out = python(
        HEAD + "children = []\n"
        "for n in range(3):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        model = dsstne.fit(X, hidden=[4], epochs=1, progress=False)\n"
        "        os._exit(0 if model.recommend(X)[0].shape == (400, 10) else 1)\n"
        "    children.append(child)\n"
        "print([os.waitpid(child, 0)[1] for child in children])\n"
        "print(dsstne.fit(X, hidden=[4], epochs=1, progress=False))"
    )
    assert out.startswith("[0, 0, 0]\nModel(")


@pytest.mark.long
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods_work_after_use(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(
        HEAD + "import multiprocessing\n"
        "def work(seed):\n"
        "    model = dsstne.fit(X, hidden=[4], epochs=1, seed=seed, progress=False)\n"
        "    return model.tensor('output.bias').tobytes()\n"
        "if __name__ == '__main__':\n"
        "    here = [work(1), work(2)]\n"
        f"    with multiprocessing.get_context('{method}').Pool(2) as pool:\n"
        "        print(pool.map(work, [1, 2]) == here)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


BIG = """
import threading, time
import numpy as np, scipy.sparse, dsstne
n, items, per_row = 20_000, 20_000, 20
random = np.random.default_rng(0)
indices = random.integers(0, items, n * per_row, dtype=np.int32)
offsets = np.arange(n + 1, dtype=np.int32) * per_row
X = scipy.sparse.csr_array((np.ones(n * per_row, np.float32), indices, offsets), shape=(n, items))
def say_go_in(call):
    def look():
        while not any(thread.name == "dsstne-" + call for thread in threading.enumerate()):
            time.sleep(0.001)
        print("go", flush=True)
    threading.Thread(target=look, daemon=True).start()
"""


def interrupted(code, stderr=subprocess.PIPE):
    """Runs a program, sends SIGINT when it says 'go', and returns what else it says."""
    process = subprocess.Popen([sys.executable, "-c", BIG + code], stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)  # in practice the end of a step
    assert process.returncode == 0, err
    return out


@pytest.mark.long
def test_ctrl_c_ends_fit_with_the_step_and_hands_over_the_model():
    out = interrupted(
        "def after_an_epoch(model, record):\n"
        "    if record['epoch'] == 1:\n        say_go_in('trainer_run')\n"
        "try:\n"
        "    dsstne.fit(X[:6400], hidden=[64], epochs=10**6, batch_size=64, progress=False, callbacks=after_an_epoch)\n"
        "except KeyboardInterrupt as stop:\n"
        "    print(stop.model.step >= 100, stop.model.recommend(X[:5], k=3)[0].shape)\n"
    )
    assert out == "True (5, 3)\n"


def test_ctrl_c_leaves_model_and_trainer_usable():
    out = interrupted(
        "model = dsstne.fit(X, hidden=[64], epochs=0)\n"
        "with dsstne.Trainer(model, X, batch_size=2048) as trainer:\n"
        "    say_go_in('trainer_run')\n"
        "    try:\n        trainer.run(epochs=10**6)\n"
        "    except KeyboardInterrupt:\n        print('stopped')\n"
        "    step = trainer.progress.step\n"
        "    print(trainer.run(steps=2).step - step)\n"
        "print(np.isfinite(model.tensor('output.weight')).all())\n"
    )
    assert out == "stopped\n2\nTrue\n"


def test_ctrl_c_ends_a_long_recommendation():
    out = interrupted(
        "model = dsstne.fit(X, hidden=[512], epochs=0)\n"
        "say_go_in('predictor_recommend')\n"
        "try:\n    [model.recommend(X, k=10) for _ in range(1000)]\n"
        "except KeyboardInterrupt:\n    print(model.recommend(X[:2], k=1)[0].shape)\n"
    )
    assert out == "(2, 1)\n"


def test_ctrl_c_is_seen_with_a_progress_bar_and_validation():
    with terminal() as (stderr, shown):
        out = interrupted(
            "say_go_in('trainer_run')\n"
            "try:\n    dsstne.fit(X, hidden=[16], epochs=10**6, max_seconds=60, validation=X[::-1], progress=True)\n"
            "except KeyboardInterrupt as stop:\n    print(stop.model is not None)\n",
            stderr=stderr,
        )
    assert out == "True\n"
    assert b"examples/s" in shown


@pytest.mark.long
@pytest.mark.parametrize("during", ["opening", "closing"])
def test_ctrl_c_between_any_two_instructions_leaks_no_handle(python, during):
    out = python(
        HEAD + "from dsstne import _handles, _native\n"
        "def interrupted(act, moment):\n"
        "    passed = 0\n"
        "    def trace(frame, event, _):\n"
        "        nonlocal passed\n"
        "        if frame.f_code.co_filename not in (_native.__file__, _handles.__file__):\n            return None\n"
        "        frame.f_trace_opcodes = True\n"
        "        if event == 'opcode':\n"
        "            passed += 1\n"
        "            if passed == moment:\n                raise KeyboardInterrupt\n"
        "        return trace\n"
        "    sys.settrace(trace)\n"
        "    try:\n        act()\n"
        "    except KeyboardInterrupt:\n        pass\n"
        "    finally:\n        sys.settrace(None)\n"
        "    return passed == moment\n"
        "def opened(model):\n"
        "    return _handles.Handle('predictor_open', model._handle.value, b'{}')\n"
        "moment, more = 0, True\n"
        "while more:\n"
        "    moment += 1\n"
        "    model = dsstne.fit(X, hidden=[1], epochs=0)\n"
        "    if sys.argv[1] == 'opening':\n"
        "        more = interrupted(lambda: opened(model).close(), moment)\n"
        "    else:\n"
        "        handle = opened(model)\n"
        "        more = interrupted(handle.close, moment)\n"
        "        handle.close()\n"
        "    model.close()\n"  # refused with BusyError while a predictor of it is open
        "print(moment)\n",
        during,
    )
    assert int(out) > 50  # instructions there are; the last moment was after all of them


def test_a_process_ends_cleanly_with_everything_open(python):
    done = python(
        HEAD + "model = dsstne.fit(X, hidden=[4], epochs=1, progress=False)\n"
        "data = dsstne.Dataset(X)\ntrainer = dsstne.Trainer(model, data)\nprint('end')",
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_broken_pipes_and_fault_handlers_still_work(python):
    out = python(
        HEAD + "import faulthandler\nfaulthandler.enable()\ndsstne.doctor()\n"
        "a, b = os.pipe(); os.close(a)\n"
        "try:\n    os.write(b, b'x')\n"
        "except BrokenPipeError:\n    print('broken pipe')\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    assert out == "broken pipe\nTrue\n"


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_resident_memory_stays_within_the_plan_and_five_percent(python):
    out = python(
        "import numpy as np, scipy.sparse, dsstne\n"
        "def resident():\n"
        "    with open('/proc/self/status') as status:\n"
        "        fields = dict(line.split(':', 1) for line in status)\n"
        "    return [int(fields[name].split()[0]) * 1024 for name in ('VmRSS', 'VmHWM')]\n"
        "n, items, per_row = 300_000, 50_000, 50\n"
        "indices = np.random.default_rng(0).integers(0, items, n * per_row, dtype=np.int32)\n"
        "offsets = np.arange(n + 1, dtype=np.int32) * per_row\n"
        "X = scipy.sparse.csr_array((np.ones(n * per_row, np.float32), indices, offsets), shape=(n, items))\n"
        "tiny = X[:600]\n"
        "dsstne.fit(tiny, hidden=[8], epochs=1, progress=False)\n"  # the library and its threads are there
        "before = resident()[0]\n"
        "model = dsstne.fit(X, hidden=[32], epochs=0)\n"
        "with dsstne.Trainer(model, X, batch_size=512) as trainer:\n"
        "    plan = trainer.plan()\n"
        "    data = sum(part['bytes'] for part in plan['parts'] if part['name'] == 'data')\n"
        "    trainer.run(steps=20)\n"
        "    print(resident()[1] - before, plan['bytes'], data, X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)\n"
    )
    growth, plan, data, matrix = map(int, out.split())
    print(f"grew by {growth:,} bytes; the plan has {plan:,}, of which {data:,} are the data that was there before")
    assert matrix > 100e6
    # 5 % above the plan's new parts, and 8 MiB for the interpreter and threads; a copy of the data would be 121 MB
    assert growth < 1.05 * (plan - data) + (8 << 20)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_weights_above_the_limit_are_refused_before_they_take_memory(python):
    out = python(
        HEAD + "def peak():\n"
        "    with open('/proc/self/status') as status:\n"
        "        return next(int(line.split()[1]) * 1024 for line in status if line.startswith('VmHWM'))\n"
        "dsstne.fit(X, hidden=[4], epochs=1, progress=False)\n"
        "wide = scipy.sparse.csr_array((np.ones(400), (range(400), range(400))), shape=(400, 50_000))\n"
        "before = peak()\n"
        "try:\n    dsstne.fit(wide, hidden=[500], epochs=1, memory_limit=1_000_000)\n"
        "except MemoryError as error:\n    print(peak() - before, type(error).__name__, error)\n"
    )
    growth, name, text = out.split(maxsplit=2)
    assert name == "OutOfMemoryError"
    assert "memory_limit" in text
    assert int(growth) < 20e6  # the weights are 2 * 500 * 50,000 * 4 bytes = 200 MB
