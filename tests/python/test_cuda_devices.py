"""One model on several CUDA devices: those of the emulated driver, joined by a stand-in for NCCL or by copies."""

import json

import pytest
from emulated import EMULATOR, PROGRAM, WAYS, sample


@pytest.mark.long
@pytest.mark.parametrize(
    "joined", ["NCCL", *(pytest.param(w, marks=pytest.mark.slow) for w in WAYS[1:])], indirect=True
)
def test_training_on_several_devices_reaches_the_loss_of_the_cpu(joined):
    result = json.loads(
        joined(
            PROGRAM
            + """
X = matrix(70, 83, 0.15)
def fit(devices, **options):
    return dsstne.fit(
        X, devices=devices, epochs=2, batch_size=32, seed=0, learning_rate=0.01, precision="float32", progress=False,
        **options)
result = []
shared = {"layers": [
    {"name": "in", "kind": "input", "scaling": "l2"},
    {"name": "h", "kind": "hidden", "size": 12},
    {"name": "g", "kind": "hidden", "size": 40, "activation": "sigmoid"},
    {"name": "f", "kind": "hidden", "size": 12, "shared": "g.weight"},
    {"name": "e", "kind": "hidden", "size": 12, "sources": ["in"], "shared": "h.weight", "dropout": 0.2},
    {"name": "out", "kind": "output", "sources": ["f", "e"], "shared": [{"source": "f", "weight": "h.weight"}]}]}
for options in (
    {"hidden": [12]}, {"hidden": [9, 5], "loss": "sigmoid", "tied": False, "dropout": 0.2}, {"network": shared}):
    devices = ("cpu", "cuda:0", ["cuda:0", "cuda:1"], ["cuda:3", "cuda:0", "cuda:2"], "all")
    models = {str(d): fit(d, **options) for d in devices}
    for d in devices[2:4]:
        models[f"{d} by rows"] = fit(d, parallel="data", **options)
    result.append({name: [entry["loss"] for entry in model.history] for name, model in models.items()})
    model = models["['cuda:0', 'cuda:1']"]
    want, scores = model.recommend(X, k=20, devices="cuda:0"), model.predict(X, devices="cuda:0")
    for devices in (["cuda:0", "cuda:1"], ["cuda:2", "cuda:1", "cuda:0"], "all"):
        for one, many in zip(want, model.recommend(X, k=20, devices=devices)):
            assert (one == many).all(), devices
        assert (scores == model.predict(X, devices=devices)).all()
        metrics = ["recall@5", "ndcg@9"]
        assert dsstne.evaluate(model, X, X, metrics, exclude=None, devices=devices) == dsstne.evaluate(
            model, X, X, metrics, exclude=None, devices="cuda:0")
assert not control.messages()
print(json.dumps(result))
"""
        )
    )
    for losses in result:
        for devices, values in losses.items():
            assert values == pytest.approx(losses["cpu"], rel=1e-4), devices


@pytest.mark.long
def test_devices_without_items_or_rows_do_no_harm(joined):
    result = json.loads(
        joined(
            PROGRAM
            + """
X = matrix(22, 3, 0.6)  # 22 = 3 x 7 + 1: in the last step of an epoch, three of four have no row
print(json.dumps([[entry["loss"] for entry in dsstne.fit(
    X, devices=devices, parallel=way, hidden=[4], epochs=3, batch_size=7, precision="float32", progress=False).history]
    for devices, way in (("cpu", "auto"), ("all", "model"), ("all", "data"))]))
assert not control.messages()
"""
        )
    )
    assert result[1] == pytest.approx(result[0], rel=1e-4)
    assert result[2] == pytest.approx(result[0], rel=1e-4)


@pytest.mark.long
def test_nccl_is_found_in_the_folder_of_its_python_package(tmp_path, emulated):
    library = tmp_path / "packages" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    (tmp_path / "libcuda.so.1").symlink_to(EMULATOR / "libcuda.so.1")
    program = f"""
sys.path.append({str(tmp_path / "packages")!r})
dsstne.fit(matrix(20, 30, 0.15), devices="all", hidden=[4], epochs=1, progress=False)
print([line.split()[-1] for line in open("/proc/self/maps") if "libnccl" in line][:1])
"""
    for there in (False, True):
        if there:
            library.symlink_to(EMULATOR / "libnccl.so.2")
        out = emulated(PROGRAM + program, keep=True, LD_LIBRARY_PATH=str(tmp_path))
        assert ("libnccl.so.2" in out) == there


# What goes wrong on one of the devices, in a collective or elsewhere, while the others wait for it.
FAULTS = """
X = matrix(40, 60, 0.15)
NCCL = {"ncclAllReduce": 1, "ncclBroadcast": 1, "ncclAllGather": 1, "ncclCommInitRank": 2, "ncclCommGetAsyncError": 6}
CUDA = {"cuLaunchKernel": 999, "cuMemcpyHtoDAsync": 999, "cuStreamSynchronize": 999, "cuEventRecord": 999}
PEERS = {"cuMemcpyPeerAsync": 999, "cuStreamWaitEvent": 999, "cuEventCreate": 999, "cuMemAlloc": 2}

def work():
    with dsstne.Dataset(X) as data:
        model = dsstne.fit(
            data, devices="all", parallel=way, hidden=[8], epochs=1, batch_size=20, progress=False)
    return model.recommend(X[:3], k=5, devices="all")

want = work()
assert with_nccl == ("libnccl" in open("/proc/self/maps").read())
first = live()
reached = set()
for function, code in {**CUDA, **(NCCL if with_nccl else PEERS)}.items():
    for n in (1, 3, 8, 21, 55, 144):
        control.fail(function, n, code)
        try:
            work()
            failed = False
        except dsstne.DsstneError as error:
            failed = True
            assert type(error).__name__ in ("DeviceFailedError", "OutOfMemoryError"), (function, n, error)
            assert "group has failed" not in str(error), "the cause is told and not what followed"
        control.clear_faults()
        if not failed:
            break
        reached.add(function)
        assert live() == first, (function, n, live(), first)
expected = set(CUDA) | set(NCCL if with_nccl else PEERS)
assert reached == expected, expected - reached
again = work()
assert (again[0] == want[0]).all() and (again[1] == want[1]).all()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("joined", "parallel"),
    sample(("peer copies", "data"), of=(WAYS, ("model", "data"))),
    indirect=["joined"],
)
def test_a_failure_on_one_device_ends_the_step_on_all_with_its_error(joined, parallel):
    # NCCL gives back what it took when it is asked to in the background, and somewhat later: that is waited for.
    joined(f"{PROGRAM}way = {parallel!r}\n{FAULTS}", DSSTNE_CUDAEMU_ABORT="20")


@pytest.mark.long
def test_a_run_goes_on_after_a_failed_step(joined):
    joined(
        PROGRAM
        + """
X = matrix(40, 60, 0.15)
model = dsstne.fit(X, hidden=[8], epochs=1, progress=False, devices="cpu")
with dsstne.Trainer(model, X, devices="all", batch_size=10) as trainer:
    trainer.run(steps=1)
    # A step is a graph where collectives are launches, and many launches otherwise.
    for n in (1, 4, 7) if with_nccl else (1, 4, 15):
        control.fail("cuGraphLaunch" if with_nccl else "cuLaunchKernel", n, 999)
        fails(lambda: trainer.run(steps=2), dsstne.DeviceFailedError)
        control.clear_faults()
        trainer.run(steps=2)
    model = trainer.model
assert np.isfinite(model.tensor("hidden1.weight")).all()
"""
    )


@pytest.mark.long
def test_a_lost_device_leaves_the_model_as_it_was_before_the_run(joined):
    joined(
        PROGRAM
        + """
X = matrix(40, 60, 0.15)
model = dsstne.fit(X, hidden=[8], epochs=1, progress=False, devices="cpu")
trainer = dsstne.Trainer(model, X, devices="all", batch_size=10)
trainer.run(steps=1)
before = tensors(model)
for n in (3, 30):
    control.fail("kernel:scatter", n, 719)
    error = fails(lambda: trainer.run(epochs=3), dsstne.DeviceFailedError)
    assert "cuda:" in str(error), error
assert same(before, model)
raised(trainer.close, dsstne.DeviceFailedError)
assert model.recommend(X, k=3, devices="cpu")[0].shape == (40, 3)
"""
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("devices", "kind", "words"),
    [
        ("cuda:7", "DeviceUnavailableError", 'device "cuda:7": it is not there; there are 4 devices, cuda:0 to cuda:3'),
        (["cuda:0", "cuda:7"], "DeviceUnavailableError", "it is not there; there are 4 devices, cuda:0 to cuda:3"),
        (["cuda:1", "cuda:1"], "InvalidArgumentError", 'names 2 devices, "cuda:1" twice'),
        (["cuda", "cuda:0"], "InvalidArgumentError", 'names 2 devices, "cuda:0" twice'),
        (["cuda:0", "cpu"], "InvalidArgumentError", "some of cuda and some of cpu"),
        (["all", "cuda:0"], "InvalidArgumentError", '"all", which stands alone'),
        (["cuda:2", "cuda:0"], "DeviceUnavailableError", '"cuda:2": Emulated H100'),
    ],
)
def test_devices_that_cannot_be_had_are_told_and_nothing_else_is_opened(emulated, devices, kind, words):
    out = emulated(
        PROGRAM
        + f"""
X = matrix(20, 30, 0.15)
model = dsstne.fit(X, hidden=[4], epochs=1, progress=False, devices="cpu")
control.library.cuInit(0)
control.set_attribute(2, 20, 2)  # compute mode: prohibited
error = fails(lambda: dsstne.Trainer(model, X, devices={devices!r}), dsstne.DsstneError)
print(type(error).__name__, error)
print(control.count("calls.cuDevicePrimaryCtxRetain"), model.recommend(X, k=3)[0].shape)
"""
    )
    assert out.startswith(kind)
    assert words in out
    assert out.splitlines()[-1] == "0 (20, 3)"


def test_all_leaves_out_devices_that_cannot_be_used(emulated):
    out = emulated(
        PROGRAM
        + """
X = matrix(20, 30, 0.15)
model = dsstne.fit(X, hidden=[4], epochs=1, progress=False, devices="cpu")
control.library.cuInit(0)
def names():
    with dsstne.Trainer(model, X, devices="all") as trainer:
        return [device["name"] for device in trainer.plan()["devices"]]
print(names())
control.set_attribute(2, 20, 2)
print(names())
control.set_attribute(-1, 20, 2)
print(names())
"""
    )
    assert out.splitlines() == [
        "['cuda:0', 'cuda:1', 'cuda:2', 'cuda:3']",
        "['cuda:0', 'cuda:1', 'cuda:3']",
        "['cpu']",
    ]


@pytest.mark.slow  # 90 s
@pytest.mark.parametrize("joined", ["NCCL"], indirect=True)
def test_gowalla_on_four_devices_equals_the_cpu(joined, shared_data):
    folder = shared_data / "gowalla-lightgcn"
    if not folder.exists():
        pytest.skip("Gowalla is not here")
    joined(f"""{PROGRAM}
import lzma
count = 2000
with lzma.open("{folder}/train.txt.xz", "rt") as file:
    rows = [[int(item) for item in line.split()[1:]] for _, line in zip(range(count), file)]
indices = [item for row in rows for item in row]
X = scipy.sparse.csr_matrix(
    (np.ones(len(indices), np.float32), indices, np.cumsum([0] + [len(row) for row in rows])), shape=(count, 40981))
X.sum_duplicates()
options = dict(hidden=[32], epochs=2, precision="float32", progress=False)
cpu, all_of_them = (dsstne.fit(X, devices=devices, **options) for devices in ("cpu", "all"))
for one, many in zip(cpu.history, all_of_them.history):
    assert abs(many["loss"] / one["loss"] - 1) < 1e-4
for model in (cpu, all_of_them):
    one, many = (model.recommend(X, k=20, devices=devices) for devices in ("cpu", "all"))
    assert (one[0] == many[0]).all()
    assert np.allclose(one[1], many[1], rtol=1e-5, atol=1e-5 * np.abs(one[1]).max())
""")
