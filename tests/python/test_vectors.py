"""Item vectors and query vectors: their inner products are the scores, and indexes find the best items by them."""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne.export import item_vectors, query_vectors

ITEMS = 300


def rows(count=90, seed=0):
    X = scipy.sparse.random_array((count, ITEMS), density=0.05, format="csr", rng=seed, dtype=np.float32)
    return scipy.sparse.vstack([X, scipy.sparse.csr_array((1, ITEMS), dtype=np.float32)]).tocsr()


def network(output, *hidden):
    layers = [{"name": "in", "kind": "input", "size": ITEMS}, {"name": "h", "kind": "hidden", "size": 8, "bias": False}]
    layers += [*hidden, {"name": "out", "kind": "output", "size": ITEMS, **output}]
    model = dsstne.Model({"layers": layers}, seed=1)
    if "out.bias" in model.tensors:
        model.set_tensor("out.bias", np.random.default_rng(0).standard_normal(ITEMS))
    return model


@functools.cache
def models():
    X, quiet = rows(), {"progress": False, "threads": 1}
    return {
        "dot products": network({}),
        "no bias": network({"bias": False}),
        "cosines": network({"temperature": 0.2}),
        "cosines without bias": network({"temperature": 0.2, "bias": False}),
        "tied cosines": network({"temperature": 0.2, "shared": "h.weight"}),
        "several sources": network({"sources": ["g", "h"]}, {"name": "g", "kind": "hidden", "size": 5}),
        "fit": dsstne.fit(X, hidden=[16], epochs=2, **quiet),
        "ials": dsstne.factorize(X, factors=8, **quiet),
    }


@pytest.mark.parametrize("name", models())
def test_inner_products_are_the_scores(name):
    model, X = models()[name], rows(seed=1)
    vectors, queries, scores = item_vectors(model), query_vectors(model, X), model.predict(X)
    assert vectors.dtype == queries.dtype == np.float32
    # Sums of up to 17 float32 products, in any order, and rounded factors of them.
    np.testing.assert_allclose(queries @ vectors.T, scores, rtol=0, atol=3e-6 * np.abs(scores).max())


def test_inner_products_of_a_model_of_ratings_are_the_scores_but_for_a_constant_of_the_row():
    X = rows()
    model = dsstne.factorize(X, factors=8, method="explicit", progress=False, threads=1)
    rest = model.predict(X) - query_vectors(model, X) @ item_vectors(model).T
    np.testing.assert_allclose(rest, np.broadcast_to(rest[:, :1], rest.shape), rtol=0, atol=1e-5)


def test_an_output_layer_can_be_named():
    layers = [{"name": "in", "kind": "input", "size": ITEMS}, {"name": "h", "kind": "hidden", "size": 3}]
    layers += [{"name": name, "kind": "output", "size": size, "sources": ["h"]} for name, size in (("a", 7), ("b", 9))]
    model, X = dsstne.Model({"layers": layers}, seed=1), rows()
    assert item_vectors(model).shape == (7, 4)
    scores = query_vectors(model, X, "b", rows=[3]) @ item_vectors(model, "b").T
    np.testing.assert_allclose(scores, model.predict(X, "b", rows=[3]), atol=1e-6)
    with pytest.raises(dsstne.NotFoundError, match="no output layer 'c'"):
        item_vectors(model, "c")


def test_models_without_item_vectors_are_refused_by_name():
    X, quiet = rows(), {"progress": False, "threads": 1}
    for model, word in {
        dsstne.popularity(X): "weights between items",
        dsstne.item_knn(X, **quiet): "weights between items",
        dsstne.linear(X, method="operator", **quiet): 'method="operator"',
        dsstne.spectral(X, rank=8, **quiet): "spectral",
        dsstne.blend([dsstne.popularity(X)]): "blend",
        network({"sources": []}, {"name": "o", "kind": "output", "size": 2, "sources": ["h"]}): "'o' has no sources",
    }.items():
        layer = "out" if "sources" in word else None
        word = word.replace("'o'", "'out'")
        with pytest.raises(dsstne.UnsupportedError, match=f"^item_vectors: .*{word}"):
            item_vectors(model, layer)
        with pytest.raises(dsstne.UnsupportedError, match=f"^query_vectors: .*{word}"):
            query_vectors(model, X, layer)


# ---- indexes ----


def package(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of SWIG
        return pytest.importorskip(name)


def searched_by_faiss(model, X, k):
    faiss = package("faiss")
    vectors = item_vectors(model)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.search(query_vectors(model, X), k)[1]


def searched_by_usearch(model, X, k):
    index = package("usearch.index")
    vectors = item_vectors(model)
    return index.search(vectors, query_vectors(model, X), k, index.MetricKind.IP, exact=True).keys


def searched_by_hnswlib(model, X, k):
    hnswlib = package("hnswlib")
    vectors = item_vectors(model)
    index = hnswlib.Index("ip", vectors.shape[1])
    index.init_index(len(vectors), M=32, ef_construction=200)
    index.add_items(vectors)
    index.set_ef(ITEMS)  # looks at every item
    return index.knn_query(query_vectors(model, X), k)[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "search", [searched_by_faiss, searched_by_usearch, pytest.param(searched_by_hnswlib, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", ["fit", "dot products", "ials"])
def test_an_index_finds_what_recommend_does(name, search):
    model, X = models()[name], rows(seed=1)[:-1]
    wanted, _ = model.recommend(X, 10, exclude_seen=False)
    found = search(model, X, 10)
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), wanted.tolist(), strict=True)])
    assert share > 0.99  # scores that are closer than rounding may change places with those behind the last


@pytest.mark.long
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    package("usearch")
    package("faiss").omp_set_num_threads(1)  # several would wait for each other beside other tests
    page = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text()
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if "hnswlib" not in block or importlib.util.find_spec("hnswlib"):
            exec(block, names)
    model, X = names["model"], names["X"][:100]
    wanted, _ = model.recommend(X, 10)
    pairs = zip(names["unseen"], wanted.tolist(), strict=True)
    assert np.mean([len({*found} & {*row}) / 10 for found, row in pairs]) > 0.98
    assert "libc6" in capsys.readouterr().out
    np.testing.assert_array_equal(names["weights"]["output.weight"], model.tensor("output.weight"))
