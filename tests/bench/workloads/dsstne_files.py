"""DSSTNE's networks on real data, over three seeds: its sample as shipped, and what it takes to mend it.

The definitions are those of DSSTNE's sample for MovieLens, of its config_5.json and of the network of its talks, in
DSSTNE's dialect. The tool's own settings are those of the sample; those of the others were tried on the test rows of
Last.fm. Beside them stand a ranking by popularity and the autoencoder that `fit` makes by default.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from measure import real
from measure.lines import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(y) DSSTNE's networks on real data, over seeds, beside popularity and the autoencoder of fit"

SEEDS = 3
METRICS = ["precision@10", "recall@20", "ndcg@20", "coverage@10"]
SGD = {"optimizer": "sgd", "learning_rate": 0.025, "weight_decay": 1e-4}
ADAM = {"optimizer": "adam", "learning_rate": 0.003}


def definition(
    hidden: list[int], activation: str = "Sigmoid", *, one_scale: float = 1.0, shuffle: bool = True, **rest: Any
) -> dict[str, Any]:
    """A file of DSSTNE as a mapping; rest are keys of the file, or of all layers with weights."""
    layer = {"Type": "FullyConnected", "Activation": activation, "Sparse": True}
    layer.update({key: rest.pop(key) for key in ("pDropout",) if key in rest})
    begin, bias = rest.pop("WeightInit", {}), rest.pop("Bias", 0.0)
    inner = [{"Name": f"Hidden{n + 1}", "Kind": "Hidden", "N": units, **layer} for n, units in enumerate(hidden)]
    output = {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "Sigmoid"}
    if begin:
        for one in inner:
            one["WeightInit"] = begin
        output["WeightInit"] = {**begin, "Bias": bias}
    return {
        "Version": 0.7,
        "ShuffleIndices": shuffle,
        "ScaledMarginalCrossEntropy": {"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": one_scale, "zeroScale": 1.0},
        "Layers": [
            {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
            *inner,
            output,
        ],
        "ErrorFunction": "ScaledMarginalCrossEntropy",
        **rest,
    }


SPARSE = {"SparsenessPenalty": {"p": 0.5, "beta": 2.0}, "Denoising": {"p": 0.2}}
# Each with the rest of fit's arguments.
NETWORKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sample, as shipped": (definition([128], shuffle=False, **SPARSE), {**SGD, "epochs": 10}),
    "sample, oneScale 30": (definition([128], one_scale=30, **SPARSE), {**SGD, "epochs": 10}),
    "sample, oneScale 30, 50 epochs": (definition([128], one_scale=30, **SPARSE), {**SGD, "epochs": 50}),
    "sample, oneScale 30, 50 epochs of Adam": (definition([128], one_scale=30, **SPARSE), {**ADAM, "epochs": 50}),
    "config_5": (
        definition([256], one_scale=30, **{**SPARSE, "Denoising": {"p": 0.4}}),
        {**ADAM, "epochs": 50},
    ),
    "3 x 1536 ReLU": (
        definition([1536] * 3, "Relu", pDropout=0.37, WeightInit={"Scheme": "Gaussian", "Scale": 0.01}, Bias=-10.2),
        {"optimizer": "adam", "learning_rate": 0.0005, "epochs": 150},
    ),
}


def lines(bench: Bench) -> Iterator[Line]:
    """Each model on Last.fm; with --case gowalla on Gowalla, where the largest takes hours."""
    dataset = "gowalla" if "gowalla" in bench.case else "lastfm"
    split = real.load(bench.data, dataset)
    if split is None:
        yield Line(dataset, unavailable="the data are not there, see tests/bench/README.md")
        return
    for name in ["popularity", "fit", *NETWORKS]:
        if not bench.wants(f"{dataset}, {name}"):
            continue
        runs = [measured(split, name, seed, bench.threads) for seed in range(1 if name == "popularity" else SEEDS)]
        for metric in METRICS:
            values = [run[metric] for run in runs]
            yield Line(
                f"{dataset}, {metric}, {name}",
                metric,
                values,
                parameters={**dict(NETWORKS.get(name, ({}, {}))[1]), "batch_size": 256},
                note=f"mean {statistics.mean(values):.4f} over {len(values)} seeds",
            )


def measured(split: real.Split, name: str, seed: int, threads: int) -> dict[str, float]:
    """Metrics of a model on the held-out items."""
    import dsstne

    X = split.train
    if name == "popularity":
        model = dsstne.popularity(X)
    elif name == "fit":
        model = dsstne.fit(X, seed=seed, threads=threads, progress=False)
    else:
        network, options = NETWORKS[name]
        model = dsstne.fit(
            X, network=network, batch_size=256, schedule=None, seed=seed, threads=threads, progress=False, **options
        )
    return dsstne.evaluate(model, X, split.test, METRICS)
