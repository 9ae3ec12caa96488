"""Another user of CUDA in the process finds everything as it was after each call: context, device, stream, memory."""

import os

import pytest

CALLS = """
import numpy as np, scipy.sparse, tempfile, pathlib, dsstne

X = scipy.sparse.random(60, 50, 0.2, "csr", np.float32, random_state=np.random.default_rng(1))
kept = {}

def closing(name):
    kept[name].close()

def fit(devices="cuda:0"):
    kept["model"] = dsstne.fit(
        X, hidden=[8], loss="sigmoid", epochs=2, batch_size=30, devices=devices, progress=False)

def saved():
    with tempfile.TemporaryDirectory() as folder:
        kept["model"].save(pathlib.Path(folder) / "m.dsstne")
        kept["model"] = dsstne.load(pathlib.Path(folder) / "m.dsstne")

def refused(call):
    try:
        call()
    except dsstne.DsstneError:
        return
    raise AssertionError("an error was expected")

def use(**what):
    for device in ("cuda:0", "cuda:" + str(kept["last"])):
        for call in what.values():
            call(device)

CALLS = {
    "doctor": dsstne.doctor,
    "fit": fit,
    "fit on the last device": lambda: fit("cuda:" + str(kept["last"])),
    "a device that is not there": lambda: refused(lambda: fit("cuda:99")),
    "open a trainer": lambda: kept.update(
        trainer=dsstne.Trainer(kept["model"], X, batch_size=20, devices="cuda:0")),
    "plan": lambda: kept["trainer"].plan(),
    "train": lambda: kept["trainer"].run(epochs=1),
    "train in another thread": lambda: kept["trainer"].run(seconds=0.05, on_progress=lambda now: None),
    "close the trainer": lambda: closing("trainer"),
    "recommend": lambda: use(a=lambda d: kept["model"].recommend(X, k=5, devices=d)),
    "recommend of some items": lambda: kept["model"].recommend(X, k=3, items=range(20), devices="cuda:0"),
    "predict": lambda: kept["model"].predict(X[:5], devices="cuda:0"),
    "embed": lambda: kept["model"].embed(X[:5], devices="cuda:0"),
    "neighbors": lambda: kept["model"].neighbors([1, 2], k=3, devices="cuda:0"),
    "evaluate": lambda: dsstne.evaluate(kept["model"], X, X, ["recall@5"], devices="cuda:0"),
    "fit on all devices": lambda: fit("all"),
    "recommend by all devices": lambda: kept["model"].recommend(X, k=5, devices="all"),
    "give kept devices back": lambda: dsstne.keep_devices(False),
    "save and load": saved,
    "close the model": lambda: closing("model"),
}

def check(state, memory):
    before = state()
    for name, call in CALLS.items():
        call()
        assert state() == before, (name, before, state())
        memory(name)
"""

# A context of its own beside the primary one, a stream with work that has not been done yet, memory in both.
DRIVER_USER = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")

def ask(function, *arguments):
    code = getattr(cuda, function)(*arguments)
    assert code == 0, (function, code)

def answer(function, kind, *arguments):
    value = kind()
    ask(function, ctypes.byref(value), *arguments)
    return value.value

ask("cuInit", 0)
kept["last"] = answer("cuDeviceGetCount", ctypes.c_int) - 1
WORDS = 1 << 14

def area(stream, value):
    at = answer("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(4 * WORDS))
    ask("cuMemsetD32Async", ctypes.c_uint64(at), value, ctypes.c_size_t(WORDS), stream)
    return at, value

def holds(at, value):
    host = (ctypes.c_uint32 * WORDS)()
    ask("cuMemcpyDtoH_v2", host, ctypes.c_uint64(at), ctypes.c_size_t(4 * WORDS))
    return set(host) == {value}

# The primary context's memory first, as other libraries use it, then the own context, which stays current.
primary = answer("cuDevicePrimaryCtxRetain", ctypes.c_void_p, 0)
ask("cuCtxPushCurrent_v2", ctypes.c_void_p(primary))
shared, shared_value = area(None, 7)
ask("cuStreamSynchronize", None)
ask("cuCtxPopCurrent_v2", None)
own = answer("cuCtxCreate_v2", ctypes.c_void_p, 0, 0)
stream = ctypes.c_void_p(answer("cuStreamCreate", ctypes.c_void_p, 1))

def state():
    return (answer("cuCtxGetCurrent", ctypes.c_void_p), answer("cuCtxGetDevice", ctypes.c_int))

areas = []

def memory(name):
    for at, value in areas:
        assert holds(at, value), name
    at, value = area(stream, 1000 + len(areas))  # goes on while the next call runs
    areas.append((at, value))
    ask("cuCtxPushCurrent_v2", ctypes.c_void_p(primary))
    assert holds(shared, shared_value), name
    ask("cuCtxPopCurrent_v2", None)

"""

UNDISTURBED = """
memory("the beginning")
check(state, lambda name: (ask("cuStreamSynchronize", stream), memory(name)))
ask("cuStreamSynchronize", stream)
assert all(holds(at, value) for at, value in areas)
ask("cuCtxDestroy_v2", ctypes.c_void_p(own))
ask("cuDevicePrimaryCtxRelease_v2", 0)
print("as it was")
"""

TORCH_USER = """
import ctypes, torch
cuda = ctypes.CDLL("libcuda.so.1")
kept["last"] = torch.cuda.device_count() - 1
torch.cuda.set_device(kept["last"])
side = torch.cuda.Stream()
keep = torch.arange(1 << 20, device="cuda", dtype=torch.int64)
want = torch.arange(1 << 20, dtype=torch.int64)
results = []

def state():
    now = ctypes.c_void_p()
    assert cuda.cuCtxGetCurrent(ctypes.byref(now)) == 0
    return now.value, torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream

def work():
    # Goes on while the next call runs; its result says whether it was disturbed.
    x = keep.clone()
    for _ in range(200):
        x = x * 3 + 1
    results.append(x)

def memory(name):
    work()
    assert (keep[::4099].cpu() == want[::4099]).all(), name

with torch.cuda.stream(side):
    work()
    check(state, memory)
torch.cuda.synchronize()
expected = want.clone()
for _ in range(200):
    expected = expected * 3 + 1
assert all((x.cpu() == expected).all() for x in results)
a = torch.randn(64, 64, device="cuda", requires_grad=True)
(a @ a).sum().backward()  # PyTorch goes on working
print("as it was")
"""


@pytest.mark.long
@pytest.mark.device
def test_another_user_of_the_driver_finds_everything_as_it_was(device):
    assert device(CALLS + DRIVER_USER + UNDISTURBED) == "as it was\n"


@pytest.mark.long
def test_it_does_so_when_its_work_waits_for_somebody_to_wait_for_it(emulated):
    assert emulated(CALLS + DRIVER_USER + UNDISTURBED, DSSTNE_CUDAEMU_LAZY="1") == "as it was\n"


# A capture in the mode that forbids all threads of the process to allocate, to free and to ask for events, as PyTorch's
# does: the forbidden call fails, and breaks the capture.
CAPTURE = """
at = answer("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(4 * WORDS))
ask("cuStreamBeginCapture_v2", stream, 0)
ask("cuMemsetD32Async", ctypes.c_uint64(at), 5, ctypes.c_size_t(WORDS), stream)
for call in CALLS.values():
    call()
graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
ask("cuStreamEndCapture", stream, ctypes.byref(graph))
ask("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
ask("cuGraphLaunch", ready, stream)
ask("cuStreamSynchronize", stream)
assert holds(at, 5)
print("captured")
"""


@pytest.mark.long
@pytest.mark.device
def test_a_capture_of_another_user_is_neither_broken_nor_in_the_way(device, monkeypatch):
    modes = os.environ.get("DSSTNE_CUDAEMU_CUBLASLT", "").split(",")
    monkeypatch.setenv("DSSTNE_CUDAEMU_CUBLASLT", ",".join(mode for mode in modes if mode != "capture"))
    assert device(CALLS + DRIVER_USER + CAPTURE) == "captured\n"


# Where cuBLASLt fails as long as the capture lasts, training cannot begin.
REFUSED = """
at = answer("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(4 * WORDS))
CALLS["doctor"]()
for turn in range(2):
    ask("cuStreamBeginCapture_v2", stream, 0)
    ask("cuMemsetD32Async", ctypes.c_uint64(at), 5, ctypes.c_size_t(WORDS), stream)
    if turn == 0:
        try:
            fit()
        except dsstne.DeviceFailedError as error:
            print(error)
    else:
        fit()
        kept["model"].recommend(X, k=5, devices="cuda:0")
    graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
    ask("cuStreamEndCapture", stream, ctypes.byref(graph))
    ask("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
    ask("cuGraphLaunch", ready, stream)
    ask("cuStreamSynchronize", stream)
    assert holds(at, 5)
    if turn == 0:
        fit()  # finds the algorithms, which the device keeps
"""


@pytest.mark.long
def test_a_capture_during_which_cublas_fails_is_not_broken_and_training_says_why_it_does_not_begin(emulated):
    out = emulated(CALLS + DRIVER_USER + REFUSED, DSSTNE_CUDAEMU_CUBLASLT="capture", keep=True)
    assert "(status 14). Some versions of the library fail while a stream of the process is captured" in out


@pytest.mark.device
def test_pytorch_in_the_process_finds_everything_as_it_was(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no device here")
    assert device(CALLS + TORCH_USER, timeout=300) == "as it was\n"
