"""The code of the leaderboard: metrics of lists, bootstrap, search, and the tables of the page."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import dsstne

BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.fixture(autouse=True)
def board(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] in {"board", "measure"}]:
        del sys.modules[name]


def random_matrix(seed, density):
    return scipy.sparse.random_array((300, 80), density=density, format="csr", rng=seed, dtype=np.float32)


def test_metrics_of_lists_equal_those_of_evaluate():
    from board import figures

    X, held_out = random_matrix(0, 0.1), random_matrix(1, 0.02)
    assert (np.diff(held_out.indptr) == 0).any()
    model = dsstne.item_knn(X, progress=False)
    ids, _ = model.recommend(X, k=figures.LENGTH)
    found = figures.of_lists(ids, held_out)
    expected = dsstne.evaluate(model, X, held_out, figures.METRICS, per_row=True)
    for metric in figures.METRICS:
        np.testing.assert_allclose(found[metric], expected[metric], rtol=1e-12, equal_nan=True)


def test_a_place_without_an_item_is_no_hit():
    from board import figures

    held_out = scipy.sparse.csr_array(np.array([[0, 0, 1], [0, 0, 1]], np.float32))
    ids = np.full((2, figures.LENGTH), -1)
    assert figures.of_lists(ids, held_out)["recall@20"].tolist() == [0, 0]


def test_a_bootstrap_interval_has_the_width_of_the_normal_one():
    from board import figures

    rng = np.random.default_rng(0)
    baseline = rng.random(2000)
    better = baseline + 0.01 + 0.1 * rng.standard_normal(2000)
    ((low, high), same) = figures.intervals(np.stack([better, baseline], axis=1), baseline)
    difference = better - baseline
    error = difference.std() / np.sqrt(2000)
    # 2,000 resamples give an end of the interval to about 0.06 standard errors.
    assert abs(low - (difference.mean() - 1.96 * error)) < 0.25 * error
    assert abs(high - (difference.mean() + 1.96 * error)) < 0.25 * error
    assert same == (0, 0)


def test_bootstrap_intervals_are_the_same_again():
    from board import figures

    values = np.random.default_rng(1).random((50, 3))
    assert figures.intervals(values, values[:, 0]) == figures.intervals(values, values[:, 0])


def test_a_search_begins_with_the_defaults_repeats_nothing_and_ends_near_the_best():
    from board import search

    space = {"a": (0, 1, 2, 3), "b": (0.0, 0.5, 1.0)}
    tried = []
    for _ in range(12):
        settings = search.following({"a": 1, "b": 0.5}, space, tried)
        tried.append({"settings": settings, search.METRIC: -abs(settings["a"] - 3) - abs(settings["b"] - 1)})
    settings = [trial["settings"] for trial in tried]
    assert settings[0] == {"a": 1, "b": 0.5}
    assert all(settings.count(one) == 1 for one in settings)
    assert search.best(tried)["settings"] == {"a": 3, "b": 1.0}
    assert search.following({"a": 1, "b": 0.5}, space, tried) is None


def test_the_defaults_of_every_family_are_in_its_space_and_are_those_of_the_library():
    import inspect

    from board.families import FAMILIES

    functions = {"item_knn": dsstne.item_knn, "rp3beta": dsstne.rp3beta, "linear": dsstne.linear}
    for name, family in FAMILIES.items():
        assert set(family.defaults) == set(family.space)
        for key, value in family.defaults.items():
            assert value in family.space[key]
            if name in functions:
                usual = inspect.signature(functions[name]).parameters[key].default
                assert usual is None or usual == value


def row(family, how, seed, ndcg):
    return {
        "set": "lastfm",
        "family": family,
        "how": how,
        "settings": {},
        "seed": seed,
        "recall@20": 2 * ndcg,
        "ndcg@20": ndcg,
        "precision@20": ndcg / 2,
        "fit_seconds": 1.0,
        "score_seconds": 20.0,
        "peak_bytes": 5_000_000,
        "load_before": 0.5,
        "date": "2026-01-02",
        "machine": {"cpu": "CPU", "instruction_set": "avx512", "threads": 2},
        "versions": {"dsstne": "1"},
    }


def test_the_page_has_a_line_for_each_measured_row_and_names_what_is_missing(tmp_path, monkeypatch):
    from board import entries, page, records

    for name in ("TRIALS", "CHOSEN", "ROWS", "INTERVALS"):
        monkeypatch.setattr(records, name, tmp_path / f"{name}.jsonl")
    monkeypatch.setattr(records, "USERS", tmp_path / "users")
    rows = [row("factorize", "D", seed, 0.2 + seed / 1000) for seed in range(3)] + [row("popularity", "D", 0, 0.1)]
    records.write(records.ROWS, rows)
    users = {"factorize": 0.2 + np.linspace(-0.1, 0.1, 101), "popularity": np.full(101, 0.1)}
    for line in rows:
        path = records.users("lastfm", line["family"], line["how"], line["seed"])
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.append(users[line["family"]] + line["seed"] / 1000, np.nan)
        np.savez(path, **{"recall@20": 2 * values, "ndcg@20": values})
    records.write(
        records.TRIALS,
        [
            {
                "set": "lastfm",
                "family": "factorize",
                "settings": {"factors": 128},
                "ndcg@20": 0.3,
                "seconds": 2.5,
                "split": {"fraction": 0.2, "last": False, "core": 0, "rows": 100},
            }
        ],
    )
    records.choose()
    entries.update_intervals()
    text = "\n".join(page.lines())
    assert "| **factorize** | D | 0.4020 ±0.0020 | 0.2010 ±0.0010 | best | 1.00 | 20 | 5 |" in text
    interval = json.loads(records.INTERVALS.read_text())["ndcg@20"]
    assert interval[0] < -0.101 < interval[1] < 0
    assert f"| popularity | D | 0.2000 | 0.1000 | {page.signed(interval[0])} to {page.signed(interval[1])} |" in text
    assert "| factorize | 1 | 2 | 0.3000 | 0.3000 | `factors=128` |" in text
    assert "Not run yet, and therefore absent: item_knn (D), item_knn (V)" in text
    assert text.count("Nothing was run on this dataset yet.") == 3

    # Intervals of other figures are not shown.
    records.write(records.ROWS, [*rows[:3], row("popularity", "D", 0, 0.15)])
    assert "| popularity | D | 0.3000 | 0.1500 |  |" in "\n".join(page.lines())
