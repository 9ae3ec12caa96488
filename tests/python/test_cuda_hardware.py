"""What is promised of CUDA devices, on whatever there are: emulated ones, or real ones under `make gpu-check`."""

import json

import pytest

pytestmark = pytest.mark.device

HEAD = """
import json, sys
import numpy as np, scipy.sparse, dsstne

def matrix(rows, items, density, seed=0):
    return scipy.sparse.random(rows, items, density, "csr", np.float32, random_state=np.random.default_rng(seed))

def fitted(X, devices, **options):
    return dsstne.fit(X, devices=devices, epochs=3, batch_size=16, precision="float32", progress=False, **options)
"""

CASES = {
    "softmax, adam": {"loss": "softmax", "hidden": [12]},
    "cosine logits, momentum": {
        "loss": "softmax",
        "hidden": [8],
        "temperature": 0.2,
        "optimizer": "momentum",
        "learning_rate": 0.001,
    },
    "two layers, dropout, rmsprop": {"loss": "sigmoid", "hidden": [9, 7], "dropout": 0.2, "optimizer": "rmsprop"},
    "hinge, elu and selu, adagrad": {
        "loss": "hinge",
        "hidden": [9, 7],
        "activation": ["elu", "selu"],
        "optimizer": "adagrad",
        "learning_rate": 0.01,
    },
    "adadelta, l1": {"loss": "softmax", "hidden": [9], "optimizer": {"kind": "adadelta", "l1": 1e-5}},
    "values of an output, leaky units": {
        "network": {
            "layers": [
                {"name": "input", "kind": "input"},
                {"name": "h", "kind": "hidden", "size": 9, "activation": "leaky_relu", "slope": 0.1},
                {"name": "output", "kind": "output", "activation": "softsign"},
            ],
            "loss": "absolute",
        },
        "learning_rate": 0.01,
    },
    "stored entries, adam": {
        "loss": {"kind": "squared", "stored_only": True},
        "hidden": [9, 7],
        "temperature": None,
        "learning_rate": 0.01,
    },
    "pairs, momentum": {
        "loss": {"kind": "bpr", "negatives": 2},
        "hidden": [9],
        "temperature": None,
        "optimizer": "momentum",
    },
    "sampled softmax of cosines, adam": {
        "loss": {"kind": "softmax", "negatives": 3},
        "hidden": [9],
        "temperature": 0.2,
    },
    "soft-max with a margin, adam": {
        "loss": {"kind": "softmax", "one_target": 0.05, "one_scale": 2, "normalize_rows": True},
        "hidden": [9],
        "temperature": 0.2,
    },
    "contrastive, dot products": {
        "loss": {"kind": "cosine_contrastive", "negatives": 3},
        "hidden": [9],
        "temperature": None,
    },
    "64 sources": {
        "network": {
            "layers": [
                {"name": "input", "kind": "input"},
                *({"name": f"h{n}", "kind": "hidden", "sources": ["input"], "size": 1 + n % 3} for n in range(64)),
                {"name": "output", "kind": "output", "sources": [f"h{n}" for n in range(64)]},
            ],
            "loss": "sigmoid",
        },
    },
    "stored entries, activation, momentum": {
        "network": {
            "layers": [
                {"name": "input", "kind": "input"},
                {"name": "h", "kind": "hidden", "size": 9},
                {"name": "output", "kind": "output", "activation": "softplus"},
            ],
            "loss": {"kind": "absolute", "stored_only": True},
        },
        "optimizer": "momentum",
        "learning_rate": 0.01,
    },
    "tied, decay": {"loss": "squared", "hidden": [10], "tied": True, "weight_decay": 0.01},
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_training_has_the_loss_of_the_cpu(device, case):
    out = device(
        HEAD + "X = matrix(50, 70, 0.15)\n"
        "options = json.loads(sys.argv[1])\n"
        "print(json.dumps([[entry['loss'] for entry in fitted(X, d, **options).history] for d in ('cpu', 'cuda:0')]))",
        json.dumps(CASES[case]),
    )
    cpu, cuda = json.loads(out)
    assert cuda == pytest.approx(cpu, rel=1e-4)


@pytest.mark.long
def test_the_same_seed_gives_the_same_bits(device):
    out = device(
        HEAD + "X = matrix(50, 70, 0.15)\n"
        "a, b = (fitted(X, 'cuda:0', hidden=[12], dropout=0.2) for _ in range(2))\n"
        "print(all(a.tensor(name).tobytes() == b.tensor(name).tobytes() for name in a.tensors))"
    )
    assert out == "True\n"


def test_recommendations_and_metrics_of_a_model_are_those_of_the_cpu(device):
    out = device(
        HEAD + "X, Y = matrix(60, 90, 0.1), matrix(60, 90, 0.1, seed=1)\n"
        "model = fitted(X, 'cpu', hidden=[12])\n"
        "(ids, scores), (other_ids, other_scores) = (model.recommend(X, k=20, devices=d) for d in ('cpu', 'cuda:0'))\n"
        "near = np.allclose(scores, other_scores, rtol=1e-5, atol=1e-6)\n"  # hidden values are sums in another order
        "metrics = [dsstne.evaluate(model, X, Y, ['recall@10', 'ndcg@10'], devices=d) for d in ('cpu', 'cuda:0')]\n"
        "embedded = [model.embed(X, devices=d) for d in ('cpu', 'cuda:0')]\n"
        "close = all(abs(value - metrics[1][name]) < 0.01 for name, value in metrics[0].items())\n"
        "print((ids == other_ids).mean() > 0.999, near, close, np.allclose(*embedded, rtol=1e-5))"
    )
    assert out == "True True True True\n"


def test_neighbours_have_the_bits_of_the_cpu(device):
    out = device(
        HEAD + "model = fitted(matrix(60, 90, 0.1), 'cpu', hidden=[12])\n"
        "a, b = (model.neighbors(np.arange(90), k=7, devices=d) for d in ('cpu', 'cuda:0'))\n"
        "print((a[0] == b[0]).all() and (a[1] == b[1]).all())"
    )
    assert out == "True\n"


def test_a_model_trained_on_a_device_is_saved_loaded_and_trained_on_elsewhere(device, tmp_path):
    out = device(
        HEAD + "X = matrix(50, 70, 0.15)\n"
        "model = fitted(X, 'cuda:0', hidden=[12])\n"
        "model.save(sys.argv[1])\n"
        "loaded = dsstne.load(sys.argv[1])\n"
        "print(all(model.tensor(name).tobytes() == loaded.tensor(name).tobytes() for name in model.tensors))\n"
        "for devices in 'cpu', 'cuda:0', 'cpu:2':\n"
        "    with dsstne.Trainer(loaded, X, devices=devices) as trainer:\n"
        "        print(np.isfinite(trainer.run(epochs=1).loss))\n",
        tmp_path / "m.dsstne",
    )
    assert out == "True\n" * 4


@pytest.mark.long
def test_training_goes_on_after_each_run_as_if_there_had_been_one(device):
    out = device(
        HEAD + "X = matrix(50, 70, 0.15)\n"
        "def weights(*steps):\n"
        "    model = dsstne.fit(X, hidden=[12], epochs=0)\n"
        "    with dsstne.Trainer(model, X, batch_size=16, devices='cuda:0') as trainer:\n"
        "        for n in steps:\n            trainer.run(steps=n)\n"
        "    return b''.join(model.tensor(name).tobytes() for name in model.tensors)\n"
        "print(weights(7) == weights(1, 2, 4))"
    )
    assert out == "True\n"


def test_a_device_that_is_not_there_is_an_error_in_words(device):
    out = device(
        HEAD + "try:\n    fitted(matrix(50, 70, 0.15), 'cuda:97', hidden=[4])\n"
        "except dsstne.DeviceUnavailableError as error:\n    print(error)"
    )
    assert out.startswith('device "cuda:97": it is not there; ')


@pytest.mark.long
def test_all_devices_train_and_rank_one_model_together(device):
    out = device(
        HEAD + "X = matrix(70, 83, 0.15)\n"
        "devices = [d['name'] for d in dsstne.doctor().engine['devices'] if d['name'].startswith('cuda:')]\n"
        "result = {'devices': len(devices)}\n"
        "if len(devices) > 1:\n"
        "    cpu = fitted(X, 'cpu', hidden=[9, 7])\n"
        "    result['cpu'] = cpu.history[-1]['loss']\n"
        "    for parallel in ('model', 'data'):\n"
        "        models = [fitted(X, devices, hidden=[9, 7], parallel=parallel) for _ in range(2)]\n"
        "        result[parallel] = models[0].history[-1]['loss']\n"
        "        assert all(models[0].tensor(n).tobytes() == models[1].tensor(n).tobytes() for n in cpu.tensors)\n"
        "    for one, all_of_them in zip(*(cpu.recommend(X, k=20, devices=d) for d in (devices[:1], devices))):\n"
        "        assert one.tobytes() == all_of_them.tobytes()\n"
        "print(json.dumps(result))"
    )
    result = json.loads(out)
    if result["devices"] < 2:
        pytest.skip("there is one device")
    for parallel in ("model", "data"):
        assert result[parallel] == pytest.approx(result["cpu"], rel=1e-4)
