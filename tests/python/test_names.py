"""Names of rows and items: rows are paired by their names, and names are taken wherever numbers are."""

import contextlib

import numpy as np
import pandas
import pytest
import scipy.sparse
from matrices import blocks

import dsstne
from dsstne import Interactions, InvalidArgumentError, NotFoundError

QUIET = {"progress": False}
ROWS = 30
ITEM_NAMES = [f"item {n}" for n in range(60)]


def users(first=0, rows=ROWS, named=True):
    """Interactions of users with 60 items; of others than the first if it is not 0."""
    names = [f"user {n:02}" for n in range(first, first + rows)] if named else None
    return Interactions(blocks(rows), names, ITEM_NAMES)


WIDE = [
    {"name": "played", "kind": "input", "size": "auto"},
    {"name": "about", "kind": "input", "size": "auto"},
    {"name": "hidden", "kind": "hidden", "size": 4, "sources": ["played", "about"]},
    {"name": "output", "kind": "output", "size": "auto"},
]


def wide(X, about):
    network = {"layers": WIDE}
    return dsstne.fit({"played": X, "about": about}, {"output": X}, network=network, epochs=1, **QUIET)


def calls():
    """Calls with two matrices of the same rows, with the names of both in messages."""
    X = users()
    knn, network = dsstne.item_knn(X, **QUIET), dsstne.fit(X, hidden=2, epochs=1, **QUIET)
    model, second = wide(X, X), dsstne.popularity(X)
    return {
        "evaluate": ("X_held_out", "X_in", lambda Y: dsstne.evaluate(knn, X, Y, "recall@5", exclude=None)),
        "compare": ("X_held_out", "X_in", lambda Y: dsstne.compare([knn, second], X, Y, "recall@5", exclude=None)),
        "exclude": ("exclude", "X", lambda Y: knn.recommend(X, exclude=Y)),
        "evaluate exclude": ("exclude", "X_in", lambda Y: dsstne.evaluate(knn, X, X, exclude=Y)),
        "validation": (
            "validation",
            "X",
            lambda Y: dsstne.fit(X, hidden=2, epochs=1, validation=Y, **QUIET),
        ),
        "pair": (
            r"validation\[1\]",
            r"validation\[0\]",
            lambda Y: dsstne.fit(X, hidden=2, epochs=1, validation=(X, Y), **QUIET),
        ),
        "targets": ("targets", "X", lambda Y: dsstne.fit(X, Y, hidden=2, epochs=1, **QUIET)),
        "trainer": ("targets", "X", lambda Y: dsstne.Trainer(network.copy(), X, Y).close()),
        "inputs": (r"X\['about'\]", r"X\['played'\]", lambda Y: wide(X, Y)),
        "recommend": (
            r"X\['about'\]",
            r"X\['played'\]",
            lambda Y: model.recommend({"played": X, "about": Y}, exclude=X),
        ),
        "auto": ("validation", "X", lambda Y: dsstne.auto(X, "ndcg@5", seconds=1, validation=Y, **QUIET)),
        "blend": ("validation", "X", lambda Y: dsstne.blend([knn, second], X, validation=Y, **QUIET)),
        "eval_set": ("eval_set", "X", lambda Y: dsstne.Recommender("linear").fit(X, eval_set=Y)),
        "eval_set pair": (
            r"eval_set\[1\]",
            r"eval_set\[0\]",
            lambda Y: dsstne.Recommender("network", hidden=2, epochs=1).fit(X, eval_set=(X, Y)),
        ),
        "predictor": ("exclude", "X", lambda Y: asked(knn, X, Y)),
        "predictor of inputs": (
            r"X\['about'\]",
            r"X\['played'\]",
            lambda Y: asked(model, {"played": X, "about": Y}, X),
        ),
    }


def asked(model, X, exclude):
    with model.predictor(3) as predictor:
        return predictor.recommend(X, exclude=exclude)


CALLS = calls()


@pytest.mark.parametrize("call", CALLS)
def test_rows_with_other_names_are_refused_with_the_remedy(call):
    name, other, run = CALLS[call]
    words = f"^{name} has other rows than {other}: row 0 is 'user 01' and in {other} 'user 00'; "
    with pytest.raises(InvalidArgumentError, match=words + rf"Interactions.from_frame\(..., users={other}.row_names\)"):
        run(users(first=1))


@pytest.mark.filterwarnings("ignore:all held-out items are excluded")
@pytest.mark.parametrize("call", [call for call in CALLS if call != "auto"])  # which refuses rows without other items
def test_rows_with_the_same_names_and_rows_without_names_are_taken(call):
    for Y in (users(), users(named=False), users().matrix):
        CALLS[call][2](Y)


@pytest.mark.parametrize("call", ["evaluate", "targets", "inputs", "eval_set"])
def test_another_number_of_named_rows_is_refused_with_the_remedy(call):
    name, other, run = CALLS[call]
    with pytest.raises(InvalidArgumentError, match=rf"^{name} has 20 rows and {other} 30; .*users={other}.row_names"):
        run(users(rows=20))


def test_the_remedy_pairs_the_users_of_two_frames():
    table = pandas.DataFrame({"user": ["ann", "bob", "bob", "cid"], "item": ["tea", "tea", "rice", "rice"]})
    later = pandas.DataFrame({"user": ["bob", "cid", "dan"], "item": ["milk", "tea", "tea"]})
    items = ["milk", "rice", "tea"]
    X = Interactions.from_frame(table, items=items)
    model = dsstne.popularity(X)
    with pytest.raises(InvalidArgumentError, match="row 0 is 'bob' and in X_in 'ann'"):
        dsstne.evaluate(model, X, Interactions.from_frame(later, items=items), "recall@1")
    held_out = Interactions.from_frame(later, items=items, users=X.row_names, unknown="skip")
    assert held_out.matrix.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert dsstne.evaluate(model, X, held_out, "recall@1") == {"recall@1": 1.0}


def test_shifted_integers_are_refused_but_numbers_beside_strings_are_no_names():
    X, numbers = users(), np.arange(ROWS)
    model = dsstne.item_knn(X, **QUIET)
    integers = Interactions(X.matrix, numbers, ITEM_NAMES)
    with pytest.raises(InvalidArgumentError, match="row 0 is 1 and in X_in 0"):
        dsstne.evaluate(model, integers, Interactions(X.matrix, numbers + 1, ITEM_NAMES), exclude=None)
    with pytest.raises(InvalidArgumentError, match="row 0 is 1 and in X_in 'user 00'"):
        dsstne.evaluate(model, X, Interactions(X.matrix, numbers + 1, ITEM_NAMES), exclude=None)
    dsstne.evaluate(model, X, integers, exclude=None)


def test_rows_of_files_are_compared_with_each_other_and_with_interactions(tmp_path):
    for name, X in (("same", users()), ("other", users(first=1)), ("none", users().matrix)):
        dsstne.Dataset(X).save(tmp_path / name)
    model = dsstne.item_knn(users(), **QUIET)
    with (
        dsstne.Dataset.open(tmp_path / "same") as one,
        dsstne.Dataset.open(tmp_path / "same") as same,
        dsstne.Dataset.open(tmp_path / "other") as other,
        dsstne.Dataset.open(tmp_path / "none") as unnamed,
    ):
        for X_in, held_out in (
            (one, one),
            (one, same),
            (users(), same),
            (one, users()),
            (one, unnamed),
            (unnamed, other),
        ):
            dsstne.evaluate(model, X_in, held_out, exclude=None)
        for X_in, held_out in ((one, other), (users(), other), (other, users())):
            with pytest.raises(InvalidArgumentError, match="X_held_out has other rows than X_in: row 0"):
                dsstne.evaluate(model, X_in, held_out, exclude=None)


def test_names_of_one_object_are_not_compared(monkeypatch):
    X = users()
    monkeypatch.setattr("dsstne._items.same_names", lambda *_: pytest.fail("names were compared"))
    numbers = np.arange(len(X)) % 2 == 0
    dsstne.evaluate(dsstne.popularity(X.matrix), X[numbers], X[~numbers], exclude=None)  # parts of a table


# ---- products ----


def features(of=ITEM_NAMES):
    table = {"item": list(of), "feature": [f"group {n % 3}" for n in range(len(of))]}
    return Interactions.from_frame(table, user="item", item="feature", users=of)


def test_a_product_has_the_names_of_the_rows_and_of_the_features(tmp_path):
    X, F = users(), features()
    with dsstne.Dataset.product(X, F) as made:
        assert made.row_names is X.row_names
        assert made.item_names.tolist() == ["group 0", "group 1", "group 2"]
        made.save(tmp_path / "product")
        with pytest.raises(InvalidArgumentError, match=r"X\['about'\] has other rows than X\['played'\]: row 0"):
            wide(users(first=1), made)
        wide(X, made)
    with dsstne.Dataset.open(tmp_path / "product") as opened:
        assert opened.row_names.tolist() == X.row_names.tolist()
        assert opened.item_names.tolist() == ["group 0", "group 1", "group 2"]
    with dsstne.Dataset.product(X.matrix, F.matrix) as made:
        assert made.row_names is None
        assert made.item_names is None


def test_a_product_refuses_features_of_other_items():
    words = "F has other rows than X has items: row 0 of F is 'item 1' and item 0 of X 'item 0'; .*users=X.item_names"
    with pytest.raises(InvalidArgumentError, match=words):
        dsstne.Dataset.product(users(), features([*ITEM_NAMES[1:], "item 60"]))
    with pytest.raises(InvalidArgumentError, match="F has 59 rows and X 60 items; .*users=X.item_names"):
        dsstne.Dataset.product(users(), features(ITEM_NAMES[1:]))
    with dsstne.Dataset.product(users(), Interactions(features().matrix)) as made:  # numbers are no names
        assert made.shape == (ROWS, 3)


# ---- checkpoints ----


@pytest.mark.parametrize("early", [False, True])
def test_a_resumed_run_keeps_the_names_of_its_items(tmp_path, early):
    train, held_out = users().matrix, users().matrix
    options = {"hidden": 2, "checkpoint": tmp_path / "run", **QUIET}
    if early:
        options |= {"validation": held_out, "callbacks": dsstne.callbacks.EarlyStopping(patience=1)}
    with pytest.warns(UserWarning, match="all held-out items are excluded") if early else contextlib.nullcontext():
        dsstne.fit(train, epochs=2, items=ITEM_NAMES, **options)
        for epochs in (2, 3):  # the first time, nothing is left to do
            resumed = dsstne.fit(train, epochs=epochs, resume=True, **options)
            assert resumed.items.tolist() == ITEM_NAMES
        assert dsstne.load(tmp_path / "run").items.tolist() == ITEM_NAMES
        with pytest.raises(InvalidArgumentError, match="items: item 7 is 'other' and in the checkpoint 'item 7'"):
            dsstne.fit(train, epochs=4, resume=True, items=[*ITEM_NAMES[:7], "other", *ITEM_NAMES[8:]], **options)


def test_a_resumed_run_keeps_integers_and_takes_names_that_it_did_not_have(tmp_path):
    options = {"hidden": 2, "checkpoint": tmp_path / "run", **QUIET}
    X = users().matrix
    dsstne.fit(X, epochs=1, items=np.arange(60) + 5, **options)
    assert dsstne.fit(X, epochs=2, resume=True, **options).items.dtype == np.int64
    dsstne.fit(X, epochs=1, **options)
    assert dsstne.fit(X, epochs=2, resume=True, items=ITEM_NAMES, **options).items.tolist() == ITEM_NAMES


# ---- names instead of ids ----


def test_a_model_finds_ids_by_names_and_suggests_the_nearest():
    model = dsstne.popularity(users())
    assert model.ids(["item 7", "item 3"]).tolist() == [7, 3]
    assert model.ids("item 7").tolist() == [7]
    assert model.ids(["item 7", "no"], unknown="skip").tolist() == [7]
    with pytest.raises(NotFoundError, match="no item is named 'itm 7'; did you mean 'item 7'"):
        model.ids(["itm 7"])
    with pytest.raises(InvalidArgumentError, match="the items of this model have no names"):
        dsstne.popularity(users().matrix).ids("item 7")


def same(one, other):
    one, other = (list(result.values()) if isinstance(result, dict) else result for result in (one, other))
    return all(np.array_equal(np.asarray(a, str), np.asarray(b, str)) for a, b in zip(one, other, strict=True))


CHOICES = {
    "recommend": lambda model, X, **chosen: model.recommend(X, 3, **chosen),
    "predictor": lambda model, X, **chosen: model.predictor(3, **chosen).recommend(X),
    "evaluate": lambda model, X, **chosen: dsstne.evaluate(model, X, X, per_row=True, exclude=None, **chosen),
    "beyond_accuracy": lambda model, X, **chosen: dsstne.beyond_accuracy(model, X, 3, **chosen),
    "neighbors": lambda model, _, **chosen: model.neighbors([1, 2], 3, metric="entry", **chosen),
    "similar_items": lambda model, _, **chosen: model.similar_items([1, 2], 3, **chosen),
}


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (call, parameter)
        for call in CHOICES
        for parameter in ("items", "filter_items")
        if (call, parameter) != ("similar_items", "items")  # those to find others for
    ],
)
def test_items_to_rank_are_chosen_by_names(call, parameter):
    X, run = users().matrix, CHOICES[call]
    model = dsstne.item_knn(users(), **QUIET)
    ids = [2, 9, 17, 40]
    expected = run(model, X, **{parameter: ids})
    for names in ([ITEM_NAMES[n] for n in ids], model.items[ids], np.array(ITEM_NAMES)[ids]):
        assert same(run(model, X, **{parameter: names}), expected)
    with pytest.raises(NotFoundError, match="no item is named 'item x'; did you mean 'item"):
        run(model, X, **{parameter: ["item x"]})
    with pytest.raises(InvalidArgumentError, match=rf"{parameter}: expected one list of integers.*model.ids\(names\)"):
        run(dsstne.item_knn(X, **QUIET), X, **{parameter: ["item 2"]})


@pytest.mark.parametrize("maker", ["item_knn", "spectral", "fit"])
def test_similar_items_of_names_are_names(maker):
    model = getattr(dsstne, maker)(users(), **QUIET, **({"rank": 5} if maker == "spectral" else {}))
    ids, scores = model.similar_items([3, 1], k=4)
    names, same_scores = model.similar_items(["item 3", "item 1"], k=4)
    assert names.tolist() == [[ITEM_NAMES[n] if n >= 0 else None for n in row] for row in ids]
    assert np.array_equal(scores, same_scores)


def test_scores_are_those_of_named_items():
    model, X = dsstne.item_knn(users(), **QUIET), users()
    assert np.array_equal(model.scores(X, ["item 4", "item 2"]), model.scores(X, [4, 2]))


def test_integers_are_always_ids_and_the_message_names_the_way_from_names():
    model = dsstne.item_knn(Interactions(blocks(ROWS), item_names=np.arange(60) + 1000), **QUIET)
    assert model.ids([1007, 1003]).tolist() == [7, 3]
    assert same(model.similar_items([7], 3), model.similar_items(model.ids([1007]), 3))
    with pytest.raises(InvalidArgumentError, match=r"items\[0\] is 1007; expected 0 to 59; model.ids\(names\) finds"):
        model.similar_items([1007], 3)
    with pytest.raises(NotFoundError, match="no item is named '1007'"):
        model.similar_items(["1007"], 3)


def test_names_are_those_of_the_first_output():
    X = users()
    layers = [
        {"name": "in", "kind": "input", "size": "auto"},
        {"name": "h", "kind": "hidden", "size": 2},
        {"name": "a", "kind": "output", "size": "auto"},
        {"name": "b", "kind": "output", "size": "auto", "sources": ["h"]},
    ]
    model = dsstne.fit({"in": X}, {"a": X, "b": X}, network={"layers": layers}, epochs=1, **QUIET)
    assert same(model.recommend(X.matrix, 2, items=["item 3"]), model.recommend(X.matrix, 2, items=[3]))
    with pytest.raises(InvalidArgumentError, match="items: expected one list of integers"):
        model.recommend(X.matrix, 2, items=["item 3"], layer="b")


# ---- explain ----


def test_explain_takes_an_item_as_a_number_a_name_or_an_array_of_one():
    X = users()
    model = dsstne.item_knn(X, **QUIET)
    ids, parts = model.explain(X.matrix[[4]], 3)
    for item in ([3], np.array([3]), X.items(["item 3"]), X.items("item 3"), np.int32(3)):
        assert same(model.explain(X.matrix[[4]], item), (ids, parts))
    for item in ("item 3", ["item 3"], np.array(["item 3"])):
        assert same(model.explain(X.matrix[[4]], item), (np.array(ITEM_NAMES, object)[ids], parts))
    for item in ([3, 4], [], ["item 3", "item 4"]):
        with pytest.raises(InvalidArgumentError, match="item must be one item, not"):
            model.explain(X.matrix[[4]], item)
    with pytest.raises(NotFoundError, match="did you mean 'item"):
        model.explain(X.matrix[[4]], "itm 3")


def test_explain_returns_a_frame_for_interactions():
    table = pandas.DataFrame(
        {"who": ["ann", "ann", "bob", "bob", "cid"], "what": ["tea", "rice", "tea", "milk", "milk"]}
    )
    X = Interactions.from_frame(table, user="who", item="what")
    model = dsstne.item_knn(X, **QUIET)
    found = model.explain(X.users("ann"), "milk")
    ids, parts = model.explain(X.users("ann").matrix, 0)
    assert isinstance(found, pandas.DataFrame)
    assert list(found) == ["who", "what", "score", "rank"]
    assert found.who.tolist() == ["ann", "ann"]
    assert (found.what.tolist(), found.score.tolist()) == (X.item_names[ids].tolist(), parts.tolist())


def test_parts_of_a_network_of_several_inputs_have_the_names_of_the_first():
    X, F = users(), Interactions(users().matrix[:, :5], users().row_names, list("abcde"))
    model = wide(X, F)
    found = model.explain({"played": X.users("user 03"), "about": F.users("user 03")}, "item 7")
    assert sorted(found["item"].tolist()) == sorted(X.item_names[X.users("user 03").matrix.indices].tolist())
    with pytest.raises(InvalidArgumentError, match=r"has other rows than X\['played'\]: row 0 is 'user 04'"):
        model.explain({"played": X.users("user 03"), "about": F.users("user 04")}, "item 7")


# ---- k ----


def test_without_k_there_are_ten_items_or_all_if_there_are_fewer():
    for items, k in ((4, 4), (60, 10)):
        X = scipy.sparse.csr_array(blocks(ROWS)[:, :items] + scipy.sparse.eye_array(ROWS, items, dtype=np.float32))
        knn = dsstne.item_knn(X, **QUIET)
        network = dsstne.fit(X, hidden=2, epochs=1, **QUIET)
        with knn.predictor() as predictor:
            assert predictor.recommend(X)[0].shape == (ROWS, k)
        assert knn.recommend(X)[0].shape == (ROWS, k)
        assert knn.similar_items([0])[0].shape == (1, k)
        assert network.neighbors([0])[0].shape == (1, k)
        assert network.similar_users([0], X)[0].shape == (1, 10)
        assert network.similar_users([0], X[:3])[0].shape == (1, 3)
        assert dsstne.Recommender("item_knn").fit(X).recommend(X)[0].shape == (ROWS, k)
        assert f"TopK {k} of {items} items" in knn.plan()["operations"][-1]
    named = Interactions(X[:, :4], item_names=list("abcd"))
    model = dsstne.item_knn(named, **QUIET)
    assert len(named.similar_items(model, "a")["similar"]) <= 3
    with pytest.raises(InvalidArgumentError, match="k is 10; with 4 items it can be 1 to 4"):
        model.recommend(named, k=10)
