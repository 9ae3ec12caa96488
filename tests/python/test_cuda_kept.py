"""Devices stay open between calls, with the weights that they were given, by the counters of the emulated driver."""

import pytest
from emulated import PROGRAM

HEAD = (
    PROGRAM
    + """
import threading
X = matrix(30, 400, 0.1, ones=False)
device = "cuda:0"

def fitted():
    return dsstne.fit(X, hidden=[16], epochs=1, progress=False, devices="cpu")

def asked(model, devices=None):
    return model.recommend(X[:4], k=5, devices=devices or device)[0]

def uploaded(work):
    return copied(work)["host_to_device"]

def held_bytes():
    return control.count("live_bytes")

model = fitted()
weights = 4 * model.parameters
"""
)


@pytest.fixture(params=["cuda:0", "all"])
def kept(request, emulated):
    """Runs a program that keeps its devices."""
    return lambda code: emulated(HEAD + f"device = {request.param!r}\n" + code, keep=True)


def test_a_model_that_answers_again_is_not_copied_again(kept):
    kept(
        "first = uploaded(lambda: asked(model))\n"
        "again = counted(lambda: asked(model))\n"
        "assert first > weights > 4 * again['bytes.host_to_device'], (first, again, weights)\n"
        "assert again.get('calls.cuDevicePrimaryCtxRetain', 0) == again.get('calls.cuModuleLoadData', 0) == 0, again\n"
        "similar = uploaded(lambda: model.similar_items([1, 2], k=3, devices=device))\n"
        "assert 4 * similar < weights, similar\n"
        "assert (asked(model) == asked(model, 'cpu')).all()\n"
    )


@pytest.mark.long
def test_weights_that_were_changed_are_copied_again(kept):
    kept(
        "asked(model)\n"
        "model.set_tensor('output.weight', -model.tensor('output.weight'))\n"
        "assert uploaded(lambda: asked(model)) > weights\n"
        "assert (asked(model) == asked(model, 'cpu')).all()\n"
        "with dsstne.Trainer(model, X, learning_rate=0.1, devices=device) as trainer:\n"
        "    trainer.run(epochs=2)\n"
        "    assert (asked(model) == asked(model, 'cpu')).all()\n"
        "assert (asked(model) == asked(model, 'cpu')).all()\n"
    )


@pytest.mark.long
def test_copies_of_a_model_whose_weights_are_on_the_devices_are_apart(kept):
    kept(
        "whole, options = model.copy(), dict(batch_size=10, devices=device)\n"
        "with dsstne.Trainer(whole, X, **options) as trainer:\n"
        "    trainer.run(steps=4)\n"
        "with dsstne.Trainer(model, X, **options) as trainer:\n"
        "    trainer.run(steps=2)\n"
        "    halfway = model.copy()\n"  # the newest weights are on the device: they are fetched first
        "    before = tensors(halfway)\n"
        "    private = [part for part in trainer.plan()['parts'] if 'private' in part.get('of', '')]\n"
        "    assert {part['device'] for part in private} == {'host'} and len(private) == len(before), private\n"
        "    answers = asked(halfway)\n"
        "    trainer.run(steps=2)\n"
        "    assert (asked(model) == asked(model, 'cpu')).all()\n"
        "assert not same(before, model) and same(model, whole)\n"
        "assert same(halfway, before) and halfway.step == model.step - 2\n"
        "assert (asked(halfway) == answers).all() and (asked(halfway, 'cpu') == answers).all()\n"
    )


@pytest.mark.long
def test_another_model_takes_the_devices_over(kept):
    kept(
        "other = fitted()\n"
        "other.set_tensor('output.weight', -model.tensor('output.weight'))\n"
        "for _ in range(2):\n"
        "    for one in model, other:\n"
        "        assert (asked(one) == asked(one, 'cpu')).all()\n"
        "        held = held_bytes()\n"
        "asked(model)\n"
        "assert held_bytes() == held\n"
    )


@pytest.mark.long
def test_memory_comes_back_with_the_model_and_when_nothing_is_to_be_kept(kept):
    kept(
        "asked(model)\n"
        "held = held_bytes()\n"
        "model.close()\n"
        "assert held - held_bytes() >= weights, (held, held_bytes(), weights)\n"
        "dsstne.keep_devices(False)\n"
        "assert held_bytes() == 0\n"
        "other = fitted()\n"
        "asked(other)\n"
        "assert held_bytes() == 0\n"
        "dsstne.keep_devices(True)\n"
        "asked(other)\n"
        "assert held_bytes() > 0\n"
    )


@pytest.mark.long
def test_what_is_kept_goes_when_memory_is_short(emulated):
    emulated(
        HEAD + "wide = dsstne.fit(scipy.sparse.random(9, 30_000, 0.1, 'csr', np.float32), hidden=[100], epochs=0,\n"
        "    progress=False, devices='cpu')\n"  # 24 MB
        "def ask(device): return wide.similar_items([1, 2], k=3, devices=device)[0]\n"
        "ask('cuda:0')\n"
        "assert held_bytes() > 12_000_000\n"
        "for _ in range(3):\n"
        "    assert (ask(['cuda:0', 'cuda:1']) == ask('cpu')).all()\n"
        "    assert (ask('cuda:0') == ask('cpu')).all()\n"
        "wider = dsstne.fit(scipy.sparse.random(9, 30_000, 0.1, 'csr', np.float32), hidden=[100], epochs=0,\n"
        "    progress=False, devices='cpu')\n"
        "assert wider.similar_items([1, 2], k=3, devices='cuda:0')[0].shape == (2, 3)\n",
        keep=True,
        DSSTNE_CUDAEMU_MEMORY=str(30 << 20),
    )


@pytest.mark.long
def test_devices_that_fail_are_not_kept(kept):
    kept(
        "asked(model)\n"
        "for function, code in ('kernel:*', 719), ('cuMemcpyHtoDAsync', 700), ('cuLaunchKernel', 999):\n"
        "    control.fail(function, 1, code)\n"
        "    fails(lambda: asked(model), dsstne.DeviceFailedError)\n"
        "    control.clear_faults()\n"
        "    assert (asked(model) == asked(model, 'cpu')).all(), function\n"
    )


@pytest.mark.long
def test_calls_at_the_same_time_have_devices_of_their_own(kept):
    kept(
        "want, found = asked(model, 'cpu'), []\n"
        "def work():\n    found.extend((asked(model) == want).all() for _ in range(5))\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert found == [True] * 20\n"
    )


@pytest.mark.long
def test_a_forked_process_does_not_touch_what_is_kept(kept):
    out = kept(
        "asked(model)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print(fails(lambda: asked(model), dsstne.DsstneError), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "assert (asked(model) == asked(model, 'cpu')).all()\n"
    )
    assert "fork" in out


def test_keep_devices_takes_a_truth_value(emulated):
    out = emulated(HEAD + "print(fails(lambda: dsstne.keep_devices(None), dsstne.InvalidArgumentError))")
    assert out.strip() == "keep must be True or False, not None"
