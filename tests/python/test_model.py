"""What a model answers, and that it survives files, pickles and copies."""

import copy
import json
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse

import dsstne


def bits(arrays):
    return [array.tobytes() for array in arrays]


def test_recommend_equals_sorting_all_scores(model, X):
    scores = model.predict(X)
    scores[X.toarray() > 0] = -np.inf
    ids, best = model.recommend(X, k=7)
    expected = np.array([sorted(range(60), key=lambda i: (-row[i], i))[:7] for row in scores])
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(scores, expected, axis=1))
    assert (ids.dtype, best.dtype) == (np.int32, np.float32)


def test_predict_is_the_network(model, X):
    dense = X.toarray()
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    hidden = np.tanh(dense @ model.tensor("hidden1.weight") + model.tensor("hidden1.bias"))
    logits = hidden @ model.tensor("output.weight").T + model.tensor("output.bias")
    # sums of at most 60 products below 1 in float32
    np.testing.assert_allclose(model.embed(X), hidden, atol=60 * 2**-23)
    np.testing.assert_allclose(model.predict(X), logits, atol=1e-5)


def test_seen_items_are_left_out_unless_asked(model, X):
    ids, _ = model.recommend(X, k=20)
    seen = X.toarray() > 0
    assert not np.take_along_axis(seen, ids.astype(int), axis=1).any()
    ids, _ = model.recommend(X, k=20, exclude_seen=False)
    assert np.take_along_axis(seen, ids.astype(int), axis=1).any()


def test_another_matrix_may_say_what_is_seen(model, X):
    seen = scipy.sparse.csr_array((np.arange(60)[None, :] < 55).repeat(240, axis=0))
    ids, scores = model.recommend(X, k=8, exclude=seen)
    assert (ids[:, :5] >= 55).all()
    assert (ids[:, 5:] == -1).all()
    assert (scores[:, 5:] == -np.inf).all()


def test_items_and_filter_items_choose_what_is_ranked(model, X):
    chosen = np.array([40, 2, 17])
    assert set(model.recommend(X, k=3, items=chosen, exclude_seen=False)[0].ravel()) == {2, 17, 40}
    others = model.recommend(X, k=57, filter_items=chosen, exclude_seen=False)[0]
    assert not np.isin(others, chosen).any()
    mask = np.isin(np.arange(60), chosen)
    np.testing.assert_array_equal(model.recommend(X, k=3, items=mask)[0], model.recommend(X, k=3, items=chosen)[0])
    assert (model.recommend(X, k=1, items=[])[0] == -1).all()
    assert (model.recommend(X, k=1, filter_items=[])[0] >= 0).all()


@pytest.mark.parametrize("rows", [[5, 0, 5], np.arange(240) < 3, range(10, 13), np.array([], int)])
def test_rows_choose_examples_in_any_order(model, X, rows):
    ids, scores = model.recommend(X, k=5, rows=rows)
    every, values = model.recommend(X, k=5)
    picked = np.flatnonzero(rows) if isinstance(rows, np.ndarray) and rows.dtype == bool else np.array(rows, int)
    np.testing.assert_array_equal(ids, every[picked])
    np.testing.assert_array_equal(scores, values[picked])
    np.testing.assert_array_equal(model.predict(X, rows=rows), model.predict(X)[picked])


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_batch_size_does_not_change_a_bit(model, X, batch_size):
    assert bits(model.recommend(X, batch_size=batch_size)) == bits(model.recommend(X))


def test_given_scores_equal_the_dense_ones(model, X):
    np.testing.assert_array_equal(model.scores(X, [3, 50, 3]), model.predict(X)[:, [3, 50, 3]])
    np.testing.assert_array_equal(model.scores(X, [7], rows=[9, 1]), model.predict(X)[[9, 1]][:, [7]])


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_similar_items_are_the_nearest_rows_of_the_weight(model, metric):
    weight = model.tensor("output.weight").astype(np.float64)
    if metric == "cosine":
        weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    similarity = weight @ weight.T
    np.fill_diagonal(similarity, -np.inf)
    ids, values = model.similar_items(np.arange(60), k=4, metric=metric)
    np.testing.assert_array_equal(ids, np.argsort(-similarity, axis=1, kind="stable")[:, :4])
    np.testing.assert_allclose(values, np.take_along_axis(similarity, ids.astype(int), axis=1), rtol=1e-6)


def test_an_item_is_its_own_neighbour_only_if_asked(model):
    assert model.neighbors([8], k=1, include_self=True)[0].tolist() == [[8]]
    assert model.neighbors([8], k=60)[0][0, -1] == -1
    ids, _ = model.neighbors([8], k=3, tensor="hidden1.weight", filter_items=[1, 2])
    assert ids.shape == (1, 3)


def test_empty_rows_get_the_best_items_for_nobody(model):
    nobody = scipy.sparse.csr_array((2, 60), dtype=np.float32)
    ids, _ = model.recommend(nobody, k=3)
    assert (ids >= 0).all()
    np.testing.assert_array_equal(ids[0], ids[1])


def test_no_rows_give_no_lists(model):
    ids, scores = model.recommend(scipy.sparse.csr_array((0, 60), dtype=np.float32), k=3)
    assert ids.shape == scores.shape == (0, 3)


def test_tensors_are_copied_out_and_in(model):
    copied = copy.deepcopy(model)
    weight = copied.tensor("output.weight")
    weight[:] = 0.5
    assert not (copied.tensor("output.weight") == 0.5).any()
    copied.set_tensor("output.weight", weight.astype(np.float64))
    assert (copied.tensor("output.weight") == 0.5).all()
    assert not (model.tensor("output.weight") == 0.5).any()
    assert copied.tensors["output.bias"] == (60,)


def test_the_weight_of_a_source_named_bias_keeps_its_shape():
    layers = [{"name": name, "kind": "input", "size": 4} for name in ("bias", "other")]
    layers += [{"name": "h", "kind": "hidden", "size": 2, "sources": ["bias", "other"]}]
    model = dsstne.Model({"layers": [*layers, {"name": "out", "kind": "output", "size": 3}]})
    assert model.tensors["h.weight.bias"] == (4, 2)
    assert model.tensors["h.bias"] == (2,)


def test_set_tensor_refuses_what_does_not_fit(model):
    with pytest.raises(dsstne.InvalidArgumentError, match=r"expected shape \(60, 12\), got \(3,\)"):
        model.set_tensor("output.weight", [1, 2, 3])
    for values in (None, "x", [[1, 2], [3]], [1j] * 60):
        with pytest.raises(dsstne.InvalidArgumentError, match=r"output\.bias: expected numbers"):
            model.set_tensor("output.bias", values)
    with pytest.raises(KeyError, match=r"did you mean 'output\.weight'"):
        model.tensor("output.wieght")
    bad = model.tensor("output.weight")
    bad[4, 2] = np.nan
    before = model.tensor("output.weight")
    with pytest.raises(dsstne.NotFiniteError, match=r"output\.weight, row 4, column 2"):
        model.set_tensor("output.weight", bad)
    np.testing.assert_array_equal(model.tensor("output.weight"), before)


def test_items_may_have_names(model, tmp_path):
    named = copy.deepcopy(model)
    named.items = [f"Gerät {n}" for n in range(60)]
    named.save(tmp_path / "named.dsstne")
    for other in (dsstne.load(tmp_path / "named.dsstne"), copy.deepcopy(named)):
        assert other.items.tolist() == named.items.tolist()
        assert other.names([[3, -1]]).tolist() == [["Gerät 3", None]]
    assert model.items is None
    with pytest.raises(dsstne.InvalidArgumentError, match="no names"):
        model.names([1])


def test_integer_names_stay_integers(X, tmp_path):
    model = dsstne.fit(X, hidden=[4], epochs=0, items=np.arange(60) * 10**10)
    model.save(tmp_path / "m.dsstne")
    items = dsstne.load(tmp_path / "m.dsstne").items
    assert (items.dtype, items[59]) == (np.int64, 59 * 10**10)


def test_names_are_removed_by_none(model):
    named = copy.deepcopy(model)
    named.items = range(60)
    named.items = None
    assert named.items is None
    assert copy.deepcopy(named).items is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([0] * 59 + [1 << 63], r"items\[59\] is 9223372036854775808, which does not fit in 64 bits"),
        (["x"] * 59 + ["\ud800"], r"items\[59\] is '\\ud800', which is not valid Unicode"),
        ("x" * 60, "items must be a list, not 'x"),
        (np.array("x" * 60), "items must be a list"),
        (7, "items must be a list, not 7"),
    ],
)
def test_names_that_cannot_be_kept_are_refused(model, names, words):
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        copy.deepcopy(model).items = names


@pytest.mark.parametrize("ids", [[2.5], "a", [None], [60], [-2]])
def test_only_ids_have_names(model, ids):
    named = copy.deepcopy(model)
    named.items = range(60)
    with pytest.raises(dsstne.InvalidArgumentError, match="ids"):
        named.names(ids)
    assert named.names([]).tolist() == []


def test_names_are_decoded_once(model, monkeypatch):
    named = copy.deepcopy(model)
    named.items = range(60)
    assert named.names([3]).tolist() == [3]
    monkeypatch.setattr(named, "tensor", None)
    assert named.names([[4, -1]]).tolist() == [[4, None]]


def test_changing_the_names_that_were_asked_for_changes_nothing(model):
    named = copy.deepcopy(model)
    named.items = range(60)
    named.items[0] = 99
    assert named.items[0] == 0


def test_attributes_are_texts(model, tmp_path):
    noted = copy.deepcopy(model)
    noted.attributes["note"] = None
    with pytest.raises(dsstne.InvalidArgumentError, match=r"attributes\['note'\] must be a str, not None"):
        noted.save(tmp_path / "m.dsstne")
    assert not list(tmp_path.iterdir())


def test_other_programs_read_a_model_file(model, tmp_path):
    safetensors = pytest.importorskip("safetensors")
    model.save(tmp_path / "m.dsstne")
    with safetensors.safe_open(tmp_path / "m.dsstne", "np") as file:
        np.testing.assert_array_equal(file.get_tensor("output.weight"), model.tensor("output.weight"))
        assert json.loads(file.metadata()["network"]) == model.network


def test_names_must_fit(X):
    with pytest.raises(dsstne.InvalidArgumentError, match="59 names; the model has 60"):
        dsstne.fit(X, hidden=[4], epochs=0, items=["x"] * 59)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"items\[1\] is 2"):
        dsstne.fit(X, hidden=[4], epochs=0, items=["x", 2] * 30)


def same(a, b, X):
    return bits(a.recommend(X)) == bits(b.recommend(X)) and a.history == b.history


def test_a_loaded_model_has_the_same_bits_in_another_process(model, X, tmp_path, python):
    model.save(tmp_path / "m.dsstne")
    scipy.sparse.save_npz(tmp_path / "X.npz", X)
    python(
        "import sys, dsstne, numpy as np, scipy.sparse\n"
        "ids, scores = dsstne.load(sys.argv[1]).recommend(scipy.sparse.load_npz(sys.argv[2]))\n"
        "np.savez(sys.argv[3], ids=ids, scores=scores)",
        tmp_path / "m.dsstne",
        tmp_path / "X.npz",
        tmp_path / "out.npz",
    )
    with np.load(tmp_path / "out.npz") as out:
        assert bits((out["ids"], out["scores"])) == bits(model.recommend(X))


def test_a_loaded_model_keeps_history_attributes_and_step(model, X, tmp_path):
    original = copy.deepcopy(model)
    original.attributes["shop"] = "Zürich"
    original.save(tmp_path / "m.dsstne")
    loaded = dsstne.load(tmp_path / "m.dsstne")
    assert same(loaded, model, X)
    assert loaded.attributes == {"shop": "Zürich"}
    assert loaded.network == model.network
    model.save(tmp_path / "stepped.dsstne")
    assert dsstne.load(tmp_path / "stepped.dsstne").step == model.step > 0


def test_pickles_and_deep_copies_have_the_same_bits(model, X):
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert same(other, model, X)
        assert other.step == model.step > 0
        assert bits(map(other.tensor, model.tensors)) == bits(map(model.tensor, model.tensors))
        other.history.append({})
    assert {} not in model.history


def test_saving_over_the_loaded_file_keeps_the_loaded_model(model, X, tmp_path):
    path = tmp_path / "m.dsstne"
    model.save(path)
    loaded = dsstne.load(path)
    dsstne.fit(X, hidden=[3], epochs=0).save(path)
    assert same(loaded, model, X)
    assert dsstne.load(path).tensors["hidden1.bias"] == (3,)
    assert [file.name for file in tmp_path.iterdir()] == ["m.dsstne"]


def test_a_full_disk_keeps_the_old_file(model, tmp_path, python):
    path = tmp_path / "m.dsstne"
    model.save(path)
    before = path.read_bytes()
    out = python(
        "import resource, signal, sys, dsstne\n"
        "model = dsstne.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    model.save(sys.argv[1])\n"
        "except OSError as error:\n    print(type(error).__name__, error)\n"
        "assert model.step > 0",
        path,
    )
    assert out.startswith("InputOutputError")
    assert "m.dsstne" in out
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.dsstne"]


def test_a_folder_that_is_not_there_is_an_error(model, tmp_path):
    with pytest.raises(dsstne.DsstneError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "m.dsstne")


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"m\.dsstne: no such file"):
        dsstne.load(tmp_path / "m.dsstne")


@pytest.mark.parametrize("share", [0, 0.001, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(model, tmp_path, share):
    path = tmp_path / "m.dsstne"
    model.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(dsstne.CorruptFileError, match=r"m\.dsstne"):
        dsstne.load(path)


def test_a_flipped_bit_anywhere_is_found(model, tmp_path):
    path = tmp_path / "m.dsstne"
    model.save(path)
    whole = path.read_bytes()
    for position in [*np.random.default_rng(0).integers(0, len(whole), 60).tolist(), 0, 8, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(dsstne.DsstneError):
            dsstne.load(path)


@pytest.mark.parametrize("content", [b"hello", b"\x89HDF\r\n\x1a\n" + bytes(100), b"\xff" * 64, bytes(64)])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(dsstne.CorruptFileError):
        dsstne.load(tmp_path / "x")


def test_several_threads_may_read_a_model_at_once(X, tmp_path):
    # 60 * 512 weights take longer to copy than a thread to come, so that readers meet
    model = dsstne.fit(X, hidden=[512], epochs=0, items=range(60))
    readers = {
        "recommend": lambda: bits(model.recommend(X[:5])),
        "tensor": lambda: model.tensor("output.weight").tobytes(),
        "pickle": lambda: bits(pickle.loads(pickle.dumps(model)).recommend(X[:5])),
        "deepcopy": lambda: copy.deepcopy(model).items.tolist(),
        "save": lambda: model.save(tmp_path / f"{threading.get_ident()}.dsstne"),
        "describe": lambda: model.tensors,
    }
    expected, results = {name: read() for name, read in readers.items()}, []

    def work(name):
        for _ in range(20):
            results.append(readers[name]() == expected[name])

    threads = [threading.Thread(target=work, args=[name]) for name in (*readers, *readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 20 * len(threads)


def meanwhile(model, method, use, monkeypatch):
    """Lets another thread use the model when `method` has had the text of the names, but not yet where each begins."""
    helper, original = threading.Thread(target=use), getattr(type(model), method)

    def half(self, name, *array):
        result = original(self, name, *array)
        if name == "items.bytes":
            monkeypatch.setattr(type(model), method, original)
            helper.start()
            helper.join(0.2)  # either it ends now, between the halves, or it waits for the other half
        return result

    monkeypatch.setattr(type(model), method, half)
    return helper


def test_two_threads_that_name_items_do_not_mix_the_names(model, monkeypatch):
    named, later = copy.deepcopy(model), ["x", "yyy"] * 30
    other = meanwhile(named, "_set", lambda: setattr(named, "items", later), monkeypatch)
    named.items = ["ab"] * 60  # as many bytes as the later ones
    other.join()
    assert named.items.tolist() == later


@pytest.mark.parametrize(
    "read", [lambda named: named, lambda named: pickle.loads(pickle.dumps(named))], ids=["items", "pickle"]
)
def test_names_that_are_read_are_those_of_one_naming(model, monkeypatch, read):
    named, later = copy.deepcopy(model), ["x", "yyy"] * 30
    named.items = ["ab"] * 60
    other = meanwhile(named, "tensor", lambda: setattr(named, "items", later), monkeypatch)
    assert read(named).items.tolist() == ["ab"] * 60
    other.join()
    assert named.items.tolist() == later


def test_a_closed_model_says_so(X):
    with dsstne.fit(X, hidden=[4], epochs=0) as model:
        assert "parameters" in repr(model)
    assert model.closed
    model.close()
    with pytest.raises(dsstne.InvalidHandleError, match="model is closed"):
        model.recommend(X)
    assert "closed" in repr(model)


def test_closing_is_refused_while_a_trainer_uses_the_model(X):
    model = dsstne.fit(X, hidden=[4], epochs=0)
    with dsstne.Trainer(model, X), pytest.raises(dsstne.BusyError):
        model.close()
    model.close()
