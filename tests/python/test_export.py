"""Models as ONNX graphs: onnxruntime recommends what dsstne does."""

from __future__ import annotations

import functools
import json

import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.sparse

import dsstne
from dsstne import _onnx
from dsstne.datasets import load_debian
from dsstne.export import to_onnx

ITEMS, TAGS = 60, 25
ACTIVATIONS = ("linear", "sigmoid", "tanh", "relu", "elu", "selu", "leaky_relu", "softplus", "softsign", "gelu", "silu")


def rows(columns=ITEMS, count=80, seed=0):
    """Rows of positive and negative values, the last one empty."""
    X = scipy.sparse.random_array((count, columns), density=0.2, format="csr", rng=seed, dtype=np.float32)
    X.data -= 0.3
    return scipy.sparse.vstack([X, scipy.sparse.csr_array((1, columns), dtype=np.float32)]).tocsr()


def layer(name, kind, **options):
    return {"name": name, "kind": kind, **options}


def network(*layers, outputs=None, seed=1):
    """A network with random weights, and biases that are not 0."""
    sizes = {each["name"]: ITEMS for each in layers if each["kind"] in ("input", "output") and each["name"] != "tags"}
    sizes |= {each["name"]: TAGS for each in layers if each["name"] == "tags"}
    model = dsstne.Model({"layers": list(layers)}, sizes=sizes, seed=seed)
    random = np.random.default_rng(seed)
    for name, shape in model.tensors.items():
        if len(shape) == 1:
            values = random.standard_normal(shape)
            model.set_tensor(name, np.abs(values) if name.endswith(".running_variance") else values)
    return model


IN, OUT = layer("in", "input"), layer("out", "output")
HIDDEN = layer("h", "hidden", size=8)
NETWORKS = {
    **{word: (IN, layer("h", "hidden", size=8, activation=word), OUT) for word in ACTIVATIONS},
    "variational": (IN, HIDDEN, layer("z", "variational", size=5), layer("g", "hidden", size=7), OUT),
    "variational, of items": (IN, layer("h", "variational", size=5), OUT),
    "scaled rows": (layer("in", "input", scaling="l2"), HIDDEN, OUT),
    "leaky units": (IN, layer("h", "hidden", size=8, activation="leaky_relu", slope=0.3), OUT),
    "alpha": (IN, layer("h", "hidden", size=8, activation="elu", alpha=0.3), OUT),
    "three layers": (IN, HIDDEN, layer("g", "hidden", size=5, activation="relu"), layer("f", "hidden", size=9), OUT),
    "no biases": (IN, layer("h", "hidden", size=8, bias=False), layer("out", "output", bias=False)),
    "dropout and denoising": (
        layer("in", "input", denoising=0.5),
        layer("h", "hidden", size=8, dropout=0.5),
        OUT,
    ),
    "cosines": (IN, HIDDEN, layer("out", "output", temperature=0.1)),
    "cosines of zeros": (
        IN,
        layer("h", "hidden", size=8, bias=False),
        layer("out", "output", temperature=0.1),
    ),
    "tied": (IN, HIDDEN, layer("out", "output", shared="h.weight")),
    "tied cosines": (
        layer("in", "input", scaling="l2"),
        layer("h", "hidden", size=8, activation="linear"),
        layer("out", "output", shared="h.weight", temperature=0.1),
    ),
    "bias alone": (IN, HIDDEN, layer("other", "output"), layer("out", "output", sources=[])),
    "a hidden layer of several": (
        IN,
        HIDDEN,
        layer("g", "hidden", size=5, sources=["h", "in"]),
        layer("f", "hidden", size=4, sources=["g", "h"], bias=False),
        OUT,
    ),
    "normalised": (
        IN,
        layer("h", "hidden", size=8, batch_norm=True),
        layer("g", "hidden", size=5, sources=["h", "in"], batch_norm={"epsilon": 0.1}, bias=False),
        OUT,
    ),
    "normalised by row": (IN, layer("h", "hidden", size=8, layer_norm=True), layer("g", "hidden", size=5), OUT),
    "an output of several": (
        IN,
        HIDDEN,
        layer("g", "hidden", size=5),
        layer("out", "output", sources=["h", "g"]),
    ),
    "two inputs": (IN, layer("tags", "input", scaling="l2"), layer("h", "hidden", size=8, sources=["in", "tags"]), OUT),
    "two inputs with each a layer": (
        IN,
        layer("tags", "input"),
        layer("h", "hidden", size=8, sources=["in"]),
        layer("g", "hidden", size=8, sources=["tags"]),
        layer("out", "output", sources=["h", "g"]),
    ),
    "an output of an input": (layer("in", "input", scaling="l2"), OUT),
    "an output of inputs and a hidden layer": (
        IN,
        layer("tags", "input", scaling="l2"),
        layer("h", "hidden", size=8, sources=["in"]),
        layer("out", "output", sources=["tags", "h", "in"]),
    ),
    "skips": (
        IN,
        HIDDEN,
        layer("g", "hidden", size=8, skips=["h"], layer_norm=True),
        layer("f", "hidden", size=8, skips=["g", "h"], batch_norm=True),
        layer("s", "hidden", size=60, activation="linear"),
        layer("out", "output", sources=["f", "in"], skips=["s"]),
    ),
    "merge layers": (
        IN,
        HIDDEN,
        layer("g", "hidden", size=8),
        layer("m", "merge", function="maximum", sources=["h", "g"]),
        layer("d", "merge", function="dot", sources=["m", "g", "h"]),
        layer("c", "merge", function="cosine", sources=["g", "h"]),
        layer("out", "output", sources=["m", "d", "c"]),
    ),
    "soft-max units": (
        IN,
        layer("h", "hidden", size=8, activation="softmax", delta_norm=0.5),
        layer("g", "hidden", size=8, skips=["h"], activation="softmax", batch_norm=True, weight_norm=0.5),
        OUT,
    ),
    "shared weights": (
        IN,
        HIDDEN,
        layer("t", "hidden", size=8, sources=["in"], shared="h.weight", activation="sigmoid"),
        layer("g", "hidden", size=5),
        layer("f", "hidden", size=8, shared="g.weight"),
        layer("s", "hidden", size=8),
        layer("r", "hidden", size=8, shared={"weight": "s.weight", "transposed": True}),
        layer("first", "output", sources=["r"]),
        layer(
            "out",
            "output",
            sources=["f", "h", "r"],
            shared=[{"source": "f", "weight": "first.weight"}, {"source": "h", "weight": "h.weight"}],
        ),
    ),
    "two outputs": (IN, HIDDEN, layer("first", "output"), layer("out", "output", sources=["h"])),
}


@functools.cache
def linear_models():
    X, quiet = abs(rows()), {"progress": False, "threads": 1}
    return {
        "linear": dsstne.linear(X, **quiet),
        "restricted": dsstne.linear(X, method="restricted", neighbors=20, per_item=9, **quiet),
        "dense linear": dsstne.linear(X, per_item=None, **quiet),
        "item_knn": dsstne.item_knn(X, k=5, **quiet),
        "jaccard": dsstne.item_knn(X, k=9, metric="jaccard", **quiet),  # many equal scores
        "rp3beta": dsstne.rp3beta(X, k=5, **quiet),
        "popularity": dsstne.popularity(X),
        "no entries": dsstne.Model.from_item_weights(scipy.sparse.csr_array((ITEMS, ITEMS))),
        "one item": dsstne.Model.from_item_weights([[2.0]]),
    }


def padded(X):
    """The ids and values of rows, of which no two are filled up in the same way."""
    length, random = int(np.diff(X.indptr).max(initial=0)) + 3, np.random.default_rng(0)
    ids, values = -np.ones((X.shape[0], length), np.int64), np.full((X.shape[0], length), 7, np.float32)
    for row in range(X.shape[0]):
        stored = slice(X.indptr[row], X.indptr[row + 1])
        places = random.permutation(length)[: stored.stop - stored.start]
        ids[row, places], values[row, places] = X.indices[stored], X.data[stored]
    return ids, values


def inputs_of(model, X):
    """What a graph takes for rows, or for a mapping from input layers to rows."""
    if len(model.inputs) == 1:
        return dict(zip(("ids", "values"), padded(X), strict=True))
    pairs = {name: padded(matrix) for name, matrix in X.items()}
    ends = (("ids.", 0), ("values.", 1))
    return {start + name: pair[n] for name, pair in pairs.items() for start, n in ends}


def session(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def exported(model, path, X, k=10, **options):
    """What a graph recommends, written and read again."""
    to_onnx(model, path / "model.onnx", k, **options)
    return session(path / "model.onnx").run(["items", "scores"], inputs_of(model, X))


def same(found, expected, scores):
    """Asserts that lists agree but for scores that are closer than rounding.

    A score is a sum of up to some hundred float32 products, each of at most the largest score's size; sums in another
    order differ by a few units of the last place (1.2e-7) of it. The tolerance is 16 of them.
    """
    (items, best), (wanted, wanted_best) = found, expected
    tolerance = 2e-6 * np.abs(scores).max()
    assert items.dtype == np.int64
    assert best.dtype == np.float32
    np.testing.assert_array_equal(items < 0, wanted < 0)
    np.testing.assert_array_equal(np.isneginf(best), wanted < 0)
    there = wanted >= 0
    np.testing.assert_allclose(best[there], wanted_best[there], rtol=0, atol=tolerance)
    chosen = np.take_along_axis(scores, np.maximum(items, 0), 1)
    np.testing.assert_allclose(chosen[there], wanted_best[there], rtol=0, atol=tolerance)
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in items)
    assert (items == wanted).mean() > 0.99


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_recommends_the_same_in_onnxruntime(name, exclude_seen, tmp_path):
    model, X = network(*NETWORKS[name]), rows()
    given = {"in": X, "tags": rows(TAGS, seed=2)} if "tags" in model.inputs else X
    options = {"exclude_seen": exclude_seen, "layer": "out"}
    found = exported(model, tmp_path, given, **options)
    same(found, model.recommend(given, 10, **options), model.predict(given, "out"))


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("name", ["linear", "restricted", "dense linear", "item_knn", "jaccard", "rp3beta"])
def test_a_linear_model_recommends_the_same_in_onnxruntime(name, exclude_seen, tmp_path):
    model, X = linear_models()[name], rows(seed=3)
    found = exported(model, tmp_path, X, exclude_seen=exclude_seen)
    same(found, model.recommend(X, exclude_seen=exclude_seen), model.predict(X))


@pytest.mark.parametrize("name", ["linear", "restricted", "item_knn", "jaccard", "rp3beta", "popularity", "no entries"])
def test_stored_weights_have_equal_scores_where_dsstne_has(name, tmp_path):
    model, X = linear_models()[name], abs(rows(seed=3))
    items, scores = exported(model, tmp_path, X)
    wanted, wanted_scores = model.recommend(X)
    np.testing.assert_array_equal(items, wanted)
    np.testing.assert_array_equal(scores, wanted_scores)


@pytest.mark.parametrize("form", [np.array, scipy.sparse.csr_array])
def test_a_model_of_one_item_recommends_it(form, tmp_path):
    model, X = dsstne.Model.from_item_weights(form([[2.0]])), scipy.sparse.csr_array([[3.0]], dtype=np.float32)
    items, scores = exported(model, tmp_path, X, k=1, exclude_seen=False)
    assert (items.tolist(), scores.tolist()) == ([[0]], [[6.0]])


@pytest.mark.long
@pytest.mark.parametrize("name", ["default", "dot products", "linear", "item_knn"])
def test_debian_s_recommendations_are_the_same(name, tmp_path):
    X, quiet = load_debian().matrix, {"progress": False, "threads": 1}
    model = {
        "default": lambda: dsstne.fit(X, hidden=[32], epochs=1, **quiet),
        "dot products": lambda: dsstne.fit(X, hidden=[32, 16], temperature=None, epochs=1, **quiet),
        "linear": lambda: dsstne.linear(X, **quiet),
        "item_knn": lambda: dsstne.item_knn(X, **quiet),
    }[name]()
    some = X[::40]
    same(exported(model, tmp_path, some), model.recommend(some, threads=1), model.predict(some, threads=1))


def test_a_weight_near_0_has_a_finite_score(tmp_path):
    model, X = network(*NETWORKS["cosines"]), rows()
    weight = model.tensor("out.weight")
    weight[5], weight[6] = 2e-37, 0
    model.set_tensor("out.weight", weight)
    _, scores = exported(model, tmp_path, X, k=ITEMS, exclude_seen=False)
    assert np.isfinite(scores).all()


ANY = [("network", "tanh"), ("network", "scaled rows"), ("linear", "linear"), ("linear", "dense linear")]
EVERY = [*ANY, ("linear", "popularity"), ("linear", "item_knn")]


def made(group, name):
    return network(*NETWORKS[name]) if group == "network" else linear_models()[name]


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_duplicates_of_an_id_are_summed_and_what_cancels_is_not_seen(group, name, tmp_path):
    model = made(group, name)
    to_onnx(model, tmp_path / "model.onnx", exclude_seen=True)
    ids = np.array([[3, 9, 3, 7, 7, 20, -1]])
    values = np.array([[1, 2, 0.5, 1, -1, 0, 5]], np.float32)  # 7 cancels, and 20 is a stored zero
    X = scipy.sparse.csr_array(([1.5, 2], ([0, 0], [3, 9])), shape=(1, ITEMS), dtype=np.float32)
    found = session(tmp_path / "model.onnx").run(None, {"ids": ids, "values": values})
    same(found, model.recommend(X), model.predict(X))


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_every_negative_id_is_padding_whatever_its_value(group, name, tmp_path):
    model = made(group, name)
    to_onnx(model, tmp_path / "model.onnx")
    run = functools.partial(session(tmp_path / "model.onnx").run, None)
    plain = run({"ids": np.array([[5, 2]]), "values": np.ones((1, 2), np.float32)})
    odd = np.array([[9, 1, 9, np.inf, 1, np.nan]], np.float32)
    filled = run({"ids": np.array([[-1, 5, -(2**60), -1, 2, -60]]), "values": odd})
    np.testing.assert_array_equal(filled[0], plain[0])
    np.testing.assert_allclose(filled[1], plain[1], rtol=1e-6)


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_rows_of_length_0_are_empty_rows(group, name, tmp_path):
    model = made(group, name)
    empty = scipy.sparse.csr_array((2, ITEMS), dtype=np.float32)
    to_onnx(model, tmp_path / "model.onnx")
    none = {"ids": np.zeros((2, 0), np.int64), "values": np.zeros((2, 0), np.float32)}
    same(session(tmp_path / "model.onnx").run(None, none), model.recommend(empty), model.predict(empty))


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_an_id_beyond_the_items_is_an_error(group, name, tmp_path, capfd):
    to_onnx(made(group, name), tmp_path / "model.onnx")
    run = session(tmp_path / "model.onnx").run
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of data bounds"):
        run(None, {"ids": np.array([[ITEMS]]), "values": np.ones((1, 1), np.float32)})


@pytest.mark.parametrize(("group", "name"), ANY)
def test_places_without_an_item_have_the_id_minus_1(group, name, tmp_path):
    model = made(group, name)
    X = scipy.sparse.csr_array(np.arange(ITEMS)[None] >= 4, dtype=np.float32)
    items, scores = exported(model, tmp_path, X, k=6)
    assert sorted(items[0, :4]) == [0, 1, 2, 3]
    assert items[0, 4:].tolist() == [-1, -1]
    assert np.isneginf(scores[0, 4:]).all()


def test_of_equal_scores_the_lower_item_comes_first(tmp_path):
    model = network(IN, layer("out", "output", sources=[]), layer("h", "hidden", size=1, sources=["in"]),
                    layer("o", "output", sources=["h"]))  # fmt: skip
    model.set_tensor("out.bias", np.arange(ITEMS) // 20)
    items, _ = exported(model, tmp_path, rows(), k=25, layer="out", exclude_seen=False)
    assert items[0].tolist() == [*range(40, 60), *range(20, 25)]


def test_seen_items_are_excluded_as_in_recommend(tmp_path):
    model, X = network(*NETWORKS["tanh"]), rows()
    for is_same, seen in ((True, True), (False, False)):
        model.same_items = is_same
        items, _ = exported(model, tmp_path, X)
        np.testing.assert_array_equal(items, model.recommend(X, exclude_seen=seen)[0])
        assert session(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map["exclude_seen"] == (
            "true" if seen else "false"
        )


def test_the_graph_has_only_the_layers_that_the_output_needs(tmp_path):
    model = network(IN, HIDDEN, layer("out", "output"), layer("far", "hidden", size=9, sources=["in"]),
                    layer("other", "output", sources=["far"]))  # fmt: skip
    to_onnx(model, tmp_path / "model.onnx", layer="out")
    stored = {tensor.name for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert {name for name in stored if name.startswith("tensor/")} == {
        "tensor/" + name for name in model.tensors if name.startswith(("h.", "out."))
    }


def test_no_layer_s_name_is_mistaken_for_a_graph_s_own(tmp_path):
    model = network(
        layer("weight", "input"),
        layer("bias", "input"),
        layer("ids", "hidden", size=4, sources=["weight", "bias"]),
        layer("values", "hidden", size=4),
        layer("scores", "output"),
    )
    X = {"weight": rows(), "bias": rows(seed=1)}
    same(exported(model, tmp_path, X), model.recommend(X, exclude_seen=False), model.predict(X))


# ---- files ----


@pytest.mark.parametrize("items", [[f"paket {n} \u00e9" for n in range(ITEMS)], np.arange(ITEMS) + 2**40])
def test_the_metadata_have_the_names_of_the_items(items, tmp_path, monkeypatch):
    model = network(*NETWORKS["tanh"])
    model.items = items
    to_onnx(model, tmp_path / "model.onnx")
    metadata = session(tmp_path / "model.onnx").get_modelmeta()
    assert json.loads(metadata.custom_metadata_map["items"]) == list(items)
    assert metadata.producer_name == "dsstne"
    monkeypatch.setattr(_onnx, "_MOST_NAMES", 100)
    to_onnx(model, tmp_path / "model.onnx")
    assert "items" not in session(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_large_weights_are_in_a_file_beside_the_graph(group, name, tmp_path, monkeypatch):
    model, X = made(group, name), rows()
    within = exported(model, tmp_path, X)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    size = (tmp_path / "model.onnx").stat().st_size
    monkeypatch.setattr(_onnx, "_LARGEST", 1)
    monkeypatch.setattr(_onnx, "_SMALL", 100)
    beside = exported(model, tmp_path, X)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert (tmp_path / "model.onnx").stat().st_size < max(size - 200, 20_000)
    for one, other in zip(beside, within, strict=True):
        np.testing.assert_array_equal(one, other)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    places = [{e.key: e.value for e in tensor.external_data} for tensor in graph.initializer if tensor.external_data]
    assert places
    assert all(place["location"] == "model.onnx.data" for place in places)
    assert all(int(place["offset"]) % 65536 == 0 for place in places)


@pytest.mark.slow  # 9 GB of memory
def test_weights_above_2_gb_give_the_same_lists(tmp_path):
    items = 1_100_000
    X = scipy.sparse.random_array((4, items), density=1e-5, format="csr", rng=0, dtype=np.float32)
    model = dsstne.fit(X, hidden=[256], epochs=0, progress=False)
    to_onnx(model, tmp_path / "model.onnx", 10)
    assert (tmp_path / "model.onnx.data").stat().st_size > 2**31
    wanted, feed = model.recommend(X, k=10), inputs_of(model, X)
    scores = model.predict(X)
    model.close()
    same(session(tmp_path / "model.onnx").run(["items", "scores"], feed), wanted, scores)


def test_a_graph_of_another_model_replaces_the_file(tmp_path):
    X = rows()
    for model in (network(*NETWORKS["tanh"]), linear_models()["linear"]):
        same(exported(model, tmp_path, X), model.recommend(X), model.predict(X))


@pytest.mark.parametrize("largest", [1, 1 << 30])
def test_a_failure_leaves_existing_files_and_nothing_else(largest, tmp_path, monkeypatch):
    names = ("model.onnx", "model.onnx.data")
    for name in names:
        (tmp_path / name).write_text("before")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    model = network(*NETWORKS["tanh"])
    monkeypatch.setattr(_onnx, "_LARGEST", largest)
    monkeypatch.setattr(type(model), "_stored", refuse)
    with pytest.raises(dsstne.InputOutputError, match="model.onnx.*: No space left on device") as caught:
        to_onnx(model, tmp_path / "model.onnx")
    assert caught.value.errno == 28
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert {(tmp_path / name).read_text() for name in names} == {"before"}


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(dsstne.InputOutputError, match="nowhere/model.onnx: No such file or directory"):
        to_onnx(network(*NETWORKS["tanh"]), tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(dsstne.InputOutputError, match="Is a directory"):
        to_onnx(network(*NETWORKS["tanh"]), tmp_path)
    assert not list(tmp_path.iterdir())


# ---- what is refused ----


@functools.cache
def other_models():
    X, quiet = abs(rows()), {"progress": False, "threads": 1}
    return {
        "operator": dsstne.linear(X, method="operator", **quiet),
        "spectral": dsstne.spectral(X, rank=8, **quiet),
        "factorization": dsstne.factorize(X, factors=4, **quiet),
        "blend": dsstne.blend([dsstne.popularity(X)]),
    }


@pytest.mark.parametrize("name", ["operator", "spectral", "factorization", "blend"])
def test_other_families_are_refused_by_name(name, tmp_path):
    with pytest.raises(dsstne.UnsupportedError, match=f"^to_onnx: .*{name}.*; "):
        to_onnx(other_models()[name], tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_family_that_is_not_known_is_refused_too(tmp_path, monkeypatch):
    monkeypatch.delitem(dsstne.export._NOT_ONNX, "spectral")
    with pytest.raises(dsstne.UnsupportedError, match="^to_onnx: models of the kind 'spectral' are not supported"):
        to_onnx(other_models()["spectral"], tmp_path / "model.onnx")


def test_seen_items_of_another_kind_cannot_be_excluded(tmp_path):
    model = dsstne.Model({"layers": [IN, HIDDEN, OUT]}, sizes={"in": 9, "out": 7})
    with pytest.raises(dsstne.InvalidArgumentError, match="'in', has 9 columns and the output 'out' 7 items"):
        to_onnx(model, tmp_path / "model.onnx", k=3, exclude_seen=True)
    to_onnx(model, tmp_path / "model.onnx", k=3)


def test_k_is_at_most_the_number_of_items(tmp_path):
    with pytest.raises(dsstne.InvalidArgumentError, match="k is 61; with 60 items it can be 1 to 60"):
        to_onnx(network(*NETWORKS["tanh"]), tmp_path / "model.onnx", k=61)


def test_without_the_package_onnx_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx needs the package onnx: pip install dsstne\[onnx\]"):
        to_onnx(network(*NETWORKS["tanh"]), tmp_path / "model.onnx")


def test_the_module_loads_no_extra(python):
    out = python("import sys, dsstne.export\nprint({'onnx', 'onnxruntime', 'faiss', 'usearch'} & set(sys.modules))")
    assert out.strip() == "set()"
