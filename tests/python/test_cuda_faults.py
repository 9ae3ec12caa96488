"""What goes wrong on a CUDA device is an error in words, at once; nothing leaks, and the model and the process live on.

All on the emulated driver, which can be told to fail. Each program first does its work undisturbed and ends with it.
"""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from emulated import PROGRAM, emulated_driver

HEAD = (
    PROGRAM
    + """
X = matrix(40, 60, ones=False)

def fitted(devices="cuda:0", epochs=1, **options):
    return dsstne.fit(
        X, devices=devices, hidden=[8], loss="sigmoid", epochs=epochs, batch_size=20, progress=False, **options)

def raises(call, *kinds):
    return raised(call, *kinds, within=20)
"""
)


# ---- memory ----

EVERY_ALLOCATION = """
import tempfile
model = fitted()
start = model.tensor("output.weight").tobytes()
want = model.recommend(X[:3], k=5, devices="cuda:0")
held = live()

def fit():
    fitted()

def recommend():
    model.recommend(X[:3], k=5, devices="cuda:0")

def predict():
    model.predict(X[:3], devices="cuda:0")

def neighbors():
    model.neighbors([1, 2], k=3, devices="cuda:0")

def evaluate():
    dsstne.evaluate(model, X, X, ["recall@5"], devices="cuda:0")

def predictor():
    with model.predictor(5, devices="cuda:0") as opened:
        opened.recommend(X[:3])

def checkpoint():
    with dsstne.Trainer(model.copy(), X, batch_size=20, devices="cuda:0") as trainer:
        trainer.run(steps=1)
        trainer.save(path, background=True)
    with dsstne.Trainer.resume(path, X, devices="cuda:0") as trainer:
        trainer.run(steps=1)

path = tempfile.mkdtemp() + "/run"
for what in fit, recommend, predict, neighbors, evaluate, predictor, checkpoint:
    for function in "cuMemAlloc", "cuMemHostAlloc":
        for n in range(1, 400):
            control.fail(function, n, OUT_OF_MEMORY)
            error = raises(what, dsstne.OutOfMemoryError)
            control.clear_faults()
            if error is None:
                break
            assert live() == held, (what.__name__, function, n, live(), held)
            assert "cuda:0" in str(error) and "Parts: " in str(error), (what.__name__, function, n, error)
            if what is fit and error.plan is not None:
                parts = {part["name"] for part in error.plan["parts"] if part["device"] == "cuda:0"}
                assert {"weights", "optimizer state", "batch", "workspace"} <= parts, parts
                planned = True
        if n > 1:
            print(what.__name__, function)
assert planned
again = model.recommend(X[:3], k=5, devices="cuda:0")
assert (again[0] == want[0]).all() and (again[1] == want[1]).all() and same(fitted(), model)
"""


@pytest.mark.slow
def test_every_allocation_may_fail_and_the_error_lists_the_plan(emulated):
    lines = emulated(HEAD + EVERY_ALLOCATION).splitlines()
    assert lines == [
        f"{what} {function}"
        for what in ("fit", "recommend", "predict", "neighbors", "evaluate", "predictor", "checkpoint")
        for function in ("cuMemAlloc", "cuMemHostAlloc")
    ]


WITHOUT_PINNED_MEMORY = """
items, units = 70_000, 256  # 68 MiB, which go through pinned memory if there is some
layers = [{"name": "input", "kind": "input", "size": items},
          {"name": "hidden", "kind": "hidden", "size": units, "activation": "linear", "bias": False},
          {"name": "output", "kind": "output", "size": 5, "bias": False}]
large = dsstne.Model({"layers": layers})
large.set_tensor("hidden.weight", np.random.default_rng(0).standard_normal((items, units), dtype=np.float32))
rows = scipy.sparse.random_array((3, items), density=0.001, format="csr", dtype=np.float32, rng=0)
want = large.predict(rows, devices="cpu")
for function, n, code in (
    ("cuMemHostAlloc", 1, OUT_OF_MEMORY), ("cuMemHostAlloc", 2, OUT_OF_MEMORY), ("cuEventRecord", 1, 999)
):
    control.fail(function, n, code)
    error = raises(lambda: large.predict(rows, devices="cuda:0"), dsstne.DsstneError)
    control.clear_faults()
    assert (error is None) == (code == OUT_OF_MEMORY), (function, n, error)
    assert (large.predict(rows, devices="cuda:0") == want).all()
    dsstne.keep_devices(False)
    dsstne.keep_devices(True)
"""


@pytest.mark.long
def test_large_weights_reach_a_device_without_pinned_memory(emulated):
    emulated(HEAD + WITHOUT_PINNED_MEMORY)


def test_the_text_of_out_of_memory_on_a_device_names_the_largest_parts(emulated):
    out = emulated(
        HEAD + "control.fail('cuMemAlloc', 3, OUT_OF_MEMORY)\n"
        "error = raises(fitted, dsstne.OutOfMemoryError)\n"
        "print(error)\nprint(len(error.plan['parts']) > 10)"
    )
    text, listed = out.strip().rsplit("\n", 1)
    assert "cuda:0" in text
    assert "cuMemAlloc: out of memory" in text
    assert re.search(r"\. Parts: [a-z ]+ [\d.]+ MB, .*weights [\d.]+ kB.*\. Smaller: batch_size", text), text
    assert listed == "True"


def test_a_plan_that_does_not_fit_allocates_nothing(emulated):
    out = emulated(
        HEAD + "wide = scipy.sparse.random(40, 20_000, 0.01, 'csr', np.float32, random_state=1)\n"
        "dsstne.fit(wide, hidden=[64], epochs=0, devices='cpu')\n"
        "def fit():\n    dsstne.fit(wide, devices='cuda:0', hidden=[64], epochs=1, progress=False)\n"
        "error = raises(fit, dsstne.OutOfMemoryError)\n"
        "print(error)\n"
        "print(control.count('live_bytes'), {part['device'] for part in error.plan['parts']})",
        DSSTNE_CUDAEMU_MEMORY=str(8 << 20),
    )
    text, counted = out.strip().rsplit("\n", 1)
    assert "MB" in text or "bytes" in text or "MiB" in text
    assert counted.startswith("0 ")
    assert "'cuda:0'" in counted


def test_the_memory_limit_holds_for_a_device_before_anything_is_allocated(emulated):
    out = emulated(
        HEAD + "error = raises(lambda: fitted(memory_limit=50_000), dsstne.OutOfMemoryError)\n"
        "print('memory_limit' in str(error), control.count('live_bytes'), control.count('launches'))"
    )
    assert out == "True 0 0\n"


def test_the_plan_tells_what_the_device_will_hold_and_allocates_nothing(emulated):
    out = emulated(
        HEAD + "model = fitted('cpu')\n"
        "with dsstne.Trainer(model, X, batch_size=20, devices='cuda:0') as trainer:\n"
        "    before = control.count('live_bytes')\n"
        "    plan = trainer.plan()\n"
        "    asked = control.count('live_bytes') - before\n"
        "    trainer.run(steps=1)\n"
        "    held = control.count('live_bytes')\n"
        "planned = sum(part['bytes'] for part in plan['parts'] if part['device'] == 'cuda:0')\n"
        "print(asked, planned > 0, plan['available'] > 0)\n"
        # sizes are rounded up: 512 bytes, then an eighth
        "print(held <= 1.125 * planned + 512 * len(plan['parts']) + 4096)"
    )
    assert out == "0 True True\nTrue\n"


# ---- the device ----


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("'kernel:*', 3, LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_FAILED"),
        ("'kernel:*', 3, ILLEGAL_ADDRESS", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("'cuLaunchKernel', 5, UNKNOWN", "kernel"),
        ("'cuLaunchKernel', 5, INVALID_VALUE", "kernel"),
        ("'cuMemcpyHtoDAsync', 4, UNKNOWN", "cuMemcpyHtoDAsync"),
        ("'cuMemcpyDtoHAsync', 2, UNKNOWN", "cuMemcpyDtoHAsync"),
        ("'cuStreamSynchronize', 2, LAUNCH_FAILED", "cuStreamSynchronize"),
    ],
)
def test_a_failure_on_the_device_is_an_error_that_says_what_failed(emulated, fault, words):
    out = emulated(
        HEAD + f"model = fitted('cpu')\n"
        "trainer = dsstne.Trainer(model, X, batch_size=20, devices='cuda:0')\n"
        f"control.fail({fault})\n"
        "error = raises(lambda: trainer.run(epochs=3), dsstne.DeviceFailedError)\n"
        "control.clear_faults()\n"
        "print(error)\n"
        "trainer.close()\n"
        "assert finite(model)\n"
        "assert model.recommend(X, k=3, devices='cpu')[0].shape == (40, 3)\n"
        "with dsstne.Trainer(model, X, devices='cpu') as trainer:\n"
        "    trainer.run(epochs=1)\n"
        "print(live().get('live_bytes', 0))"
    )
    text, bytes_left = out.strip().rsplit("\n", 1)
    assert "cuda:0" in text
    assert words in text
    assert bytes_left == "0"


def test_a_device_lost_in_the_middle_of_a_run_ends_it_and_the_model_stays(emulated):
    out = emulated(
        HEAD + "import threading\n"
        "model = fitted('cpu')\n"
        "trainer = dsstne.Trainer(model, X, batch_size=20, devices='cuda:0')\n"
        "def lose():\n"
        "    while trainer.progress.step < 3:\n        time.sleep(0.001)\n"
        "    control.lose(0)\n    lost.append(time.perf_counter())\n"
        "lost = []\n"
        "thread = threading.Thread(target=lose)\n"
        "thread.start()\n"
        "print(fails(lambda: trainer.run(epochs=10**6), *LOST))\n"
        "told = time.perf_counter()\n"
        "thread.join()\n"
        "assert told - lost[0] < 1, 'too late'\n"
        "print(trainer.progress.step >= 3)\n"
        "trainer.close()\n"
        "print(model.recommend(X, k=3, devices='cpu')[0].shape, finite(model))\n"
        "print(type(raises(lambda: fitted('cuda:0'), dsstne.DsstneError)).__name__)\n"
        "print(fitted('cuda:1').recommend(X, k=3, devices='cuda:1')[0].shape)",
        timeout=60,
    )
    text, rest = out.split("\n", 1)
    assert "cuda:0" in text
    assert rest.startswith("True\n(40, 3) True\nDevice")
    assert rest.endswith("(40, 3)\n")


# ---- who may use it ----


@pytest.mark.parametrize(
    ("settings", "device", "kind", "words"),
    [
        ({"DSSTNE_CUDAEMU_DEVICES": "2"}, "cuda:7", "DeviceUnavailableError", "there are 2 devices, cuda:0 to cuda:1"),
        ({"DSSTNE_CUDAEMU_DEVICES": "0"}, "cuda:0", "DeviceUnavailableError", "no device"),
        ({"DSSTNE_CUDAEMU_DRIVER": "11080"}, "cuda:0", "DeviceUnavailableError", "driver is too old"),
        ({"DSSTNE_CUDAEMU_CAPABILITY": "75"}, "cuda:0", "DeviceUnavailableError", "compute capability 7.5"),
    ],
)
def test_a_device_that_cannot_be_used_is_an_error_that_says_why(emulated, settings, device, kind, words):
    out = emulated(
        HEAD + f"error = raises(lambda: fitted({device!r}), dsstne.DsstneError)\n"
        "print(type(error).__name__, error)\n"
        "print(fitted('cpu').recommend(X, k=3, devices='cpu')[0].shape)",
        **settings,
    )
    assert out.startswith(kind)
    assert words in out
    assert out.endswith("(40, 3)\n")


def test_kernels_that_do_not_fit_the_device_are_an_error_that_says_so(emulated):
    out = emulated(
        HEAD + "model = fitted('cpu')\n"
        "control.library.cuInit(0)\n"
        "control.fail('cuModuleLoadData', 1, 209)\n"
        "print(raises(fitted, dsstne.UnsupportedError))\n"
        "control.clear_faults()\n"
        "print(live().get('live_bytes', 0), same(fitted(), fitted()))\n"
        "print(model.recommend(X, k=3, devices='cuda:0')[0].shape)"
    )
    text, rest = out.split("\n", 1)
    assert text.startswith("cuda:0, opening: the kernels (sm_90a.cubin) do not load: ")
    assert "(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)" in text
    assert rest == "0 True\n(40, 3)\n"


@pytest.mark.long
@pytest.mark.parametrize(("mode", "words"), [(2, '"prohibited"'), (3, '"exclusive process"')])
def test_a_device_whose_mode_keeps_us_out_says_so(emulated, mode, words):
    out = emulated(
        HEAD + f"dsstne.doctor()\ncontrol.set_attribute(0, 20, {mode})\n"
        "if sys.argv[1] == '3':\n    control.fail('cuDevicePrimaryCtxRetain', 1, 46)\n"  # in use by another process
        "error = raises(lambda: fitted(), dsstne.DsstneError)\n"
        "print(type(error).__name__, error)\n"
        "control.clear_faults()\ncontrol.set_attribute(0, 20, 0)\n"
        "print(fitted().recommend(X, k=3, devices='cuda:0')[0].shape)",
        mode,
    )
    assert out.startswith("DeviceUnavailableError")
    assert words in out
    assert out.endswith("(40, 3)\n")


# ---- the process ----


def test_a_child_forked_after_a_device_was_used_gets_a_clear_error_and_the_parent_goes_on(emulated):
    out = emulated(
        HEAD + "model = fitted()\n"
        "want = model.recommend(X, k=3, devices='cuda:0')[0]\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (lambda: model.recommend(X, devices='cuda:0'), fitted):\n"
        "        print(type(raises(use, dsstne.ForkError)).__name__)\n"
        "    sys.stdout.flush(); os._exit(0)\n"
        "again = model.recommend(X, k=3, devices='cuda:0')[0]\n"
        "print(os.waitpid(child, 0)[1], (again == want).all(), same(fitted(), model))"
    )
    assert out == "ForkError\nForkError\n0 True True\n"


@pytest.mark.long
@pytest.mark.parametrize("devices", ["cuda:0", "all"])
def test_ctrl_c_in_an_epoch_ends_it_at_once_and_the_model_and_the_devices_stay_usable(devices):
    settings = emulated_driver()
    program = HEAD + (
        "model = fitted('cpu')\n"
        "trainer = dsstne.Trainer(model, X, batch_size=20, devices=sys.argv[1])\n"
        "told = []\n"
        "def tell(now):\n"
        "    if now.step > 3 and not told:\n        told.append(now)\n        print('go', flush=True)\n"
        "try:\n    trainer.run(epochs=10**6, on_progress=tell)\n"
        "except KeyboardInterrupt:\n    print('stopped', flush=True)\n"
        "step = trainer.progress.step\n"
        "print(trainer.run(steps=2).step - step)\n"
        "trainer.close()\n"
        "print(finite(model))\n"
        "print(model.recommend(X, k=3, devices=sys.argv[1])[0].shape)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, devices], stdout=subprocess.PIPE, text=True, env={**os.environ, **settings}
    )
    assert process.stdout.readline() == "go\n"
    begin = time.perf_counter()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopped\n"
    assert time.perf_counter() - begin < 1
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == "2\nTrue\n(40, 3)\n"


@pytest.mark.long
def test_an_index_that_changed_to_one_out_of_range_never_reaches_a_kernel(emulated):
    out = emulated(
        HEAD + "model = fitted('cpu')\n"
        "for wrong in 60, -1, 2**31 - 1:\n"
        "    Y = X.copy()\n"
        "    trainer = dsstne.Trainer(model, Y, batch_size=20, devices='cuda:0')\n"
        "    kept, Y.indices[5] = Y.indices[5], wrong\n"
        "    print(raises(lambda: trainer.run(epochs=2), dsstne.InvalidDataError))\n"
        "    print(raises(lambda: model.recommend(Y, k=3, devices='cuda:0'), dsstne.DsstneError))\n"
        "    Y.indices[5] = kept\n"
        "    trainer.run(steps=1)\n"
        "    Y.indices[5] = wrong\n"  # the device may have a copy by now, which is as it was
        "    raises(lambda: trainer.run(epochs=2), dsstne.InvalidDataError)\n"
        "    trainer.close()\n"
        "print(repr(control.messages()), model.recommend(X, k=3, devices='cuda:0')[0].shape)"
    )
    lines = out.splitlines()
    assert all("column" in line for line in lines[:6])
    assert lines[6:] == ["'' (40, 3)"]
