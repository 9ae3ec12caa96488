"""Digests of what small trainings compute: weights after 20 steps, recommendations, metrics and the memory plan.

    python tests/python/bits.py             print the digests of this machine's instruction sets
    python tests/python/bits.py --write     record them, in tests/golden/bits.json

A change that is meant to compute the same has the same digests. Those of the emulated devices are taken in a process of
their own, which finds the emulated driver.
"""

import hashlib
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse
from emulated import emulated_driver
from matrices import blocks

import dsstne
from dsstne import _native

RECORD = Path(__file__).resolve().parents[1] / "golden" / "bits.json"
STEPS = 20


def layers(*hidden, output=None, **input_layer):
    """A network: input, hidden layers by size or as dictionaries, output."""
    middle = [
        {"name": f"h{n}", "kind": "hidden", **(h if isinstance(h, dict) else {"size": h})} for n, h in enumerate(hidden)
    ]
    first = {"name": "input", "kind": "input", "scaling": "l2", "denoising": 0.25, **input_layer}
    return {"layers": [first, *middle, {"name": "output", "kind": "output", **(output or {})}]}


TWO_INPUTS = {
    "layers": [
        {"name": "input", "kind": "input", "scaling": "l2"},
        {"name": "tags", "kind": "input", "denoising": 0.1},
        {"name": "a", "kind": "hidden", "size": 9, "sources": ["input", "tags"], "dropout": 0.2},
        {"name": "b", "kind": "hidden", "size": 7, "sources": ["a", "tags"], "activation": "relu"},
        {"name": "output", "kind": "output", "sources": ["a", "b"]},
    ]
}
TWO_OUTPUTS = {
    "layers": [
        {"name": "input", "kind": "input"},
        {"name": "a", "kind": "hidden", "size": 12, "activation": "sigmoid"},
        {"name": "b", "kind": "hidden", "size": 10, "sources": ["a"]},
        {"name": "output", "kind": "output", "sources": ["b"]},
        {"name": "labels", "kind": "output", "sources": ["a"]},
    ],
    "loss": [{"layer": "output", "kind": "softmax"}, {"layer": "labels", "kind": "sigmoid", "weight": 0.5}],
}
TIED = layers(12, output={"shared": "h0.weight"})
COSINE = layers(12, output={"temperature": 0.1})
TIED_COSINE = layers({"size": 12, "activation": "linear"}, output={"shared": "h0.weight", "temperature": 0.2})
SCALED = {"kind": "scaled_marginal", "one_scale": 1.5, "zero_scale": 0.7}


def _case(network=None, loss="softmax", **options):
    network = network or layers(12)
    return {"network": {"loss": loss, **network}, "options": options}


def _optimizer(kind, **numbers):
    return {"optimizer": {"kind": kind, "learning_rate": 0.02, **numbers}}


ONE_DEVICE = {
    "softmax": _case(),
    "softmax, rows normalized": _case(loss={"kind": "softmax", "normalize_rows": True}),
    "sigmoid": _case(loss="sigmoid"),
    "scaled marginal": _case(loss=SCALED),
    "squared": _case(loss={"kind": "squared", "weight": 2}),
    "sgd": _case(**_optimizer("sgd")),
    "sgd with decay": _case(**_optimizer("sgd", weight_decay=0.01)),
    "momentum": _case(**_optimizer("momentum")),
    "nesterov": _case(**_optimizer("nesterov", momentum=0.8)),
    "rmsprop": _case(**_optimizer("rmsprop")),
    "adam with decay": _case(**_optimizer("adam", weight_decay=0.001, beta2=0.99)),
    "adamw": _case(**_optimizer("adamw", weight_decay=0.01)),
    "schedule": _case(schedule={"kind": "cosine", "steps": 15, "minimum": 0.1, "warmup_steps": 4}),
    "deep": _case(
        layers(
            *({"size": n, "activation": a, "dropout": 0.3} for n, a in ((20, "relu"), (9, "sigmoid"), (13, "linear")))
        )
    ),
    "without biases": _case(layers({"size": 12, "bias": False}, output={"bias": False})),
    "bias alone": _case({"layers": [*layers(12)["layers"], {"name": "labels", "kind": "output", "sources": []}]}),
    "wide": _case(layers(200), batch_size=64),
    "tied": _case(TIED),
    "tied with sgd": _case(TIED, **_optimizer("sgd")),
    "cosine": _case(COSINE),
    "tied and cosine": _case(TIED_COSINE),
    "tied and deep": _case(layers(12, {"size": 12, "sources": ["h0"]}, output={"shared": "h0.weight"}), loss="sigmoid"),
    "two inputs": _case(TWO_INPUTS),
    "two outputs": _case(TWO_OUTPUTS, loss=None),
    "bfloat16": _case(layers(40, 24), precision="bfloat16"),
    "bfloat16, sigmoid": _case(layers(40), loss="sigmoid", precision="bfloat16"),
    "bfloat16, tied and cosine": _case(TIED_COSINE, precision="bfloat16"),
}
SEVERAL_DEVICES = {
    "cpu:3": _case(parallel="model"),
    "cpu:3, bfloat16": _case(layers(40), parallel="model", precision="bfloat16"),
    "cpu:3, squared, sgd": _case(loss="squared", parallel="model", **_optimizer("sgd")),
    "cpu:3, tied and cosine": _case(TIED_COSINE, parallel="model"),
    "cpu:3, two inputs": _case(TWO_INPUTS, parallel="model"),
    "cpu:3, two outputs": _case(TWO_OUTPUTS, loss=None, parallel="model"),
    "cpu:3, by rows": _case(parallel="data"),
    "cpu:3, by rows, tied": _case(TIED, parallel="data", **_optimizer("momentum", weight_decay=0.01)),
    "cpu:3, by rows, two inputs": _case(TWO_INPUTS, loss="sigmoid", parallel="data"),
    "cpu:3, deep": _case(layers(20, {"size": 9, "dropout": 0.3}), loss=SCALED, parallel="model"),
}
CPU = {
    **{name: {**case, "devices": "cpu"} for name, case in ONE_DEVICE.items()},
    **{name: {**case, "devices": "cpu:3"} for name, case in SEVERAL_DEVICES.items()},
}
FOUR = [f"cuda:{n}" for n in range(4)]
CUDA = {
    **{
        f"cuda, {name}": {**ONE_DEVICE[name], "devices": "cuda:0"}
        for name in ("softmax", "sigmoid", "squared", "tied and cosine", "two inputs", "bfloat16", "deep")
    },
    "cuda, tensorfloat32": {**_case(layers(40), precision="tensorfloat32"), "devices": "cuda:0"},
    **{
        name.replace("cpu:3", "four cuda"): {**SEVERAL_DEVICES[name], "devices": FOUR}
        for name in ("cpu:3", "cpu:3, two inputs", "cpu:3, tied and cosine", "cpu:3, by rows", "cpu:3, bfloat16")
    },
}


def data(network):
    """Matrices for the layers of a network, by their names, and one of other rows with items to find in each."""
    X = blocks(rows=130, items=53)
    values = np.random.default_rng(3).random(X.nnz, dtype=np.float32)
    weighted = scipy.sparse.csr_array((0.1 + 0.9 * values, X.indices, X.indptr), shape=X.shape)
    tags = blocks(rows=130, items=17, groups=4, seed=5)
    of = {"input": weighted, "output": X, "tags": tags, "labels": tags}
    names = {
        kind: [layer["name"] for layer in network["layers"] if layer["kind"] == kind] for kind in ("input", "output")
    }
    inputs, outputs = ({name: of[name] for name in names[kind]} for kind in ("input", "output"))
    return inputs, outputs


def digest(*arrays):
    """The first 16 hex digits of the SHA-256 of the arrays' bytes, or of texts."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(array.encode() if isinstance(array, str) else np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()[:16]


def measure(case):
    """Trains 20 steps and returns the digests."""
    network = {key: value for key, value in case["network"].items() if value is not None}
    inputs, outputs = data(network)
    sizes = {name: matrix.shape[1] for name, matrix in {**inputs, **outputs}.items()}
    network = {**network, "layers": [{"size": sizes.get(layer["name"]), **layer} for layer in network["layers"]]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # bfloat16 may be emulated
        model = dsstne.Model(network, seed=7)
        options = {"batch_size": 24, "seed": 11, "threads": 2, "devices": case["devices"], **case["options"]}
        with dsstne.Trainer(model, inputs or outputs, outputs, **options) as trainer:
            plan = trainer.plan()
            trainer.run(steps=STEPS)
    found = {
        "weights": digest(*(model.tensor(name) for name in model.tensors)),
        "parts": digest(
            json.dumps([[part[key] for key in ("name", "of", "bytes", "device", "held")] for part in plan["parts"]])
        ),
        "bytes": plan["bytes"],
    }
    if inputs and len(outputs) == 1:
        where = {"devices": case["devices"], "threads": 2, "batch_size": 48}
        found["recommendations"] = digest(*model.recommend(inputs, k=7, exclude=outputs["output"], **where))
        metrics = dsstne.evaluate(
            model, inputs, outputs["output"], ["recall@5", "ndcg@9", "coverage@3"], exclude=None, **where
        )
        found["metrics"] = {name: value.hex() for name, value in metrics.items()}
    return found


def measured(cases, instruction_set="auto"):
    """The digests of some cases on an instruction set of this CPU."""
    _native.call("configure", json.dumps({"instruction_set": instruction_set}).encode())
    try:
        return {name: measure(case) for name, case in cases.items()}
    finally:
        _native.call("configure", b'{"instruction_set": "auto"}')


def toolchain():
    """What the bits of the emulated devices depend on: the compiler of the emulator and the C library's functions."""
    version = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    libc = (
        subprocess.run(["ldd", "--version"], capture_output=True, text=True, check=True)
        .stdout.split("\n")[0]
        .split()[-1]
    )
    return f"g++ {version}, libc {libc}"


def emulated_bits(run):
    """The digests of the emulated devices; `run` starts a Python program of arguments where these are found."""
    return json.loads(run("import bits, json; print(json.dumps(bits.measured(bits.CUDA)))"))


def _main():
    import os

    def run(program):
        folder = str(Path(__file__).parent)
        more = emulated_driver()
        path = os.pathsep.join([folder, more.pop("PYTHONPATH")])
        environment = {**os.environ, **more, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stdout

    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"cpu": {}}
    for instruction_set in sys.argv[2:] or ("avx512bf16", "avx2", "portable"):
        record["cpu"][instruction_set] = measured(CPU, instruction_set)
    record["cuda"] = {"toolchain": toolchain(), "cases": emulated_bits(run)}
    text = json.dumps(record, indent=1) + "\n"
    if sys.argv[1:2] == ["--write"]:
        RECORD.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    _main()
