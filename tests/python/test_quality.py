"""Models are good on real data: bundled, and research data where that is at hand."""

import lzma

import numpy as np
import pytest
import scipy.sparse

import dsstne


def read_lists(path, shape=None):
    """Reads lines of 'row item item ...'."""
    with lzma.open(path, "rt") as file:
        lines = [np.array(line.split(), np.int64) for line in file if line.strip()]
    rows = np.concatenate([np.full(len(line) - 1, line[0]) for line in lines])
    items = np.concatenate([line[1:] for line in lines])
    shape = shape or (int(rows.max()) + 1, int(items.max()) + 1)
    return scipy.sparse.csr_array((np.ones(len(rows), np.float32), (rows, items)), shape=shape)


@pytest.mark.long
def test_a_trained_model_beats_popularity_clearly_on_the_bundled_data():
    from dsstne.datasets import hold_out, load_debian

    X_in, X_held_out = hold_out(load_debian().matrix, fraction=0.2, seed=0)
    model = dsstne.fit(
        X_in, hidden=[128], epochs=8, learning_rate=3e-3, validation=X_held_out, max_seconds=60, progress=False
    )
    popular = dsstne.evaluate(dsstne.popularity(X_in), X_in, X_held_out)
    print(f"recall@20: trained {model.history[-1]['recall@20']:.4f}, popularity {popular['recall@20']:.4f}")
    assert model.history[-1]["recall@20"] > 1.3 * popular["recall@20"]
    assert model.history[-1]["ndcg@20"] > 1.3 * popular["ndcg@20"]
    assert model.history[-1]["recall@20"] > model.history[0]["recall@20"]


@pytest.fixture(scope="module")
def gowalla(shared_data):
    folder = shared_data / "gowalla-lightgcn"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    shape = (29858, 40981)
    return read_lists(folder / "train.txt.xz", shape), read_lists(folder / "test.txt.xz", shape)


def test_popularity_on_gowalla_equals_the_published_row(gowalla):
    train, test = gowalla
    assert (train.nnz, test.nnz) == (810128, 217242)
    metrics = dsstne.evaluate(dsstne.popularity(train), train, test, ["recall@20", "ndcg@20", "hit_rate@20"])
    # ItemPop of the BARS benchmark, Gowalla_m1
    assert {name: round(value, 5) for name, value in metrics.items()} == {
        "recall@20": 0.04163,
        "ndcg@20": 0.03169,
        "hit_rate@20": 0.20383,
    }


@pytest.mark.long
def test_a_trained_model_beats_popularity_on_last_fm(last_fm):
    train, test = last_fm
    model = dsstne.fit(
        train, hidden=[128], epochs=15, batch_size=128, learning_rate=3e-3, validation=test, progress=False
    )
    popular = dsstne.evaluate(dsstne.popularity(train), train, test)
    print(f"recall@20: trained {model.history[-1]['recall@20']:.4f}, popularity {popular['recall@20']:.4f}")
    assert model.history[-1]["recall@20"] > 1.5 * popular["recall@20"]
