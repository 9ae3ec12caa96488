"""Which devices are taken where nobody names them, and that they are tried first."""

import pytest

BEGIN = """
import sys, types
import numpy as np, scipy.sparse
import dsstne

X = scipy.sparse.csr_array((np.random.default_rng(0).random((40, 20)) < 0.3).astype(np.float32))
model = dsstne.fit(X, hidden=[4], temperature=None, epochs=1, progress=False, devices="cpu")


def devices(wanted):
    with dsstne.Trainer(model, X, devices=wanted) as trainer:
        return [device["name"] for device in trainer.plan()["devices"]]


"""


@pytest.mark.long
def test_automatic_devices_are_all_that_can_be_used(emulated):
    every, both, first, cpu = emulated(
        BEGIN + "for wanted in 'auto', 'all', 'first', 'cpu': print(*devices(wanted))"
    ).splitlines()
    assert every == both == "cuda:0 cuda:1 cuda:2 cuda:3"
    assert (first, cpu) == ("cuda:0", "cpu")


@pytest.mark.long
def test_what_is_computed_on_automatic_devices_is_what_the_cpu_computes(emulated):
    out = emulated(
        BEGIN + "for devices in 'cpu', None:\n"
        "    options = {} if devices is None else {'devices': devices}\n"
        "    trained = dsstne.fit(X, hidden=[4], epochs=2, precision='float32', progress=False, **options)\n"
        "    print(f\"{trained.history[-1]['loss']:.4f}\", model.recommend(X, k=3, **options)[0].tolist())"
    )
    cpu, automatic = out.splitlines()
    assert cpu == automatic


def test_without_a_device_automatic_devices_are_the_cpu(emulated):
    out = emulated(BEGIN + "print(*devices('auto'), *devices('first'), *devices('all'))", DSSTNE_CUDAEMU_DEVICES="0")
    assert out.split() == ["cpu"] * 3


# Workers of one machine would otherwise all take all of its devices.
WORKERS = {
    "dask": "sys.modules['distributed'] = types.SimpleNamespace(get_worker=lambda: 'a worker')\n",
    "ray": "context = types.SimpleNamespace(worker=types.SimpleNamespace(mode=1))\n"
    "sys.modules['ray'] = types.SimpleNamespace(\n"
    "    is_initialized=lambda: True, get_runtime_context=lambda: context, WORKER_MODE=1)\n",
}


@pytest.mark.parametrize("kind", WORKERS)
def test_a_worker_takes_the_first_device(emulated, kind):
    assert emulated(BEGIN + WORKERS[kind] + "print(*devices('auto'))").split() == ["cuda:0"]


@pytest.mark.long
def test_a_worker_of_dask_is_recognised(python):
    distributed = pytest.importorskip("distributed")
    assert distributed
    out = python(
        "from distributed import Client, LocalCluster\nfrom dsstne.devices import chosen\n"
        "if __name__ == '__main__':\n"
        "    print(chosen('auto'))\n"
        "    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:\n"
        "        with Client(cluster) as client:\n"
        "            print(client.submit(chosen, 'auto').result())\n"
    )
    assert out.split() == ["auto", "first"]


@pytest.mark.long
def test_beside_the_workers_all_devices_are_taken(emulated):
    client = (
        "def get_worker():\n    raise ValueError('no worker found')\n"
        "sys.modules['distributed'] = types.SimpleNamespace(get_worker=get_worker)\n"
        "sys.modules['ray'] = types.SimpleNamespace(is_initialized=lambda: False)\n"
    )
    assert len(emulated(BEGIN + client + "print(*devices('auto'))").split()) == 4


@pytest.mark.long
@pytest.mark.parametrize(("rank", "name"), [("1", "cuda:1"), ("6", "cuda:2")])
def test_processes_that_torchrun_starts_share_the_devices_out(emulated, rank, name):
    assert emulated(BEGIN + "print(*devices('auto'))", LOCAL_RANK=rank).split() == [name]


def test_devices_that_fail_in_their_trial_are_an_error_and_tried_again(emulated):
    out = emulated(
        BEGIN + "from emulator import Control\n"
        "Control().fail('cuLaunchKernel', 5, 719)\n"
        "for wanted in 'first', 'first', 'cuda:1', 'cpu':\n"
        "    try:\n        print(*devices(wanted))\n"
        "    except dsstne.DsstneError as error:\n        print(type(error).__name__, error)\n"
    )
    first, again, other, cpu = out.splitlines()
    assert "a trial of cuda:0, before its first use, failed" in first
    assert 'devices="cpu"' in first
    assert (again, other, cpu) == ("cuda:0", "cuda:1", "cpu")
