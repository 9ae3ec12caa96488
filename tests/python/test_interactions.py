"""Interactions: from frames of several libraries to matrices, models and back to frames of names."""

import datetime
import pathlib
import pickle
import re

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy import sparse

import dsstne
from dsstne import Interactions
from dsstne.errors import InvalidArgumentError, InvalidDataError, NotFoundError

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "names.md"

duckdb = pytest.importorskip("duckdb")

USERS = ["zoe", "ann", "ann", "bob", "bob", "ann"]
ITEMS = ["tea", "milk", "tea", "milk", "rice", "tea"]
STARS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
DAYS = [datetime.datetime(2026, 1, day) for day in (3, 1, 6, 4, 5, 2)]
DATA = {"who": USERS, "what": ITEMS, "stars": STARS, "day": DAYS}
PANDAS = pandas.DataFrame(DATA)
COLUMNS = {"user": "who", "item": "what", "value": "stars", "time": "day"}
EXPECTED = [[2, 0, 9], [4, 5, 0], [0, 0, 1]]  # ann, bob, zoe; milk, rice, tea; ann's tea twice


def arrow(**changed):
    return pyarrow.table({**DATA, **changed})


FRAMES = {
    "pandas": lambda: PANDAS,
    "pandas string": lambda: PANDAS.astype({"who": "string", "what": "string"}),
    "pandas category": lambda: PANDAS.astype({"who": "category", "what": "category"}),
    "pandas pyarrow": lambda: PANDAS.convert_dtypes(dtype_backend="pyarrow"),
    "pandas nullable": lambda: PANDAS.assign(stars=PANDAS.stars.astype("Float64")),
    "polars": lambda: polars.DataFrame(DATA),
    "polars categories": lambda: polars.DataFrame(DATA).with_columns(
        polars.col("what").cast(polars.Categorical), polars.col("who").cast(polars.Enum(["zoe", "bob", "ann"]))
    ),
    "arrow": arrow,
    "arrow in chunks": lambda: pyarrow.concat_tables([arrow().slice(0, 2), arrow().slice(2)]),
    "arrow dictionary": lambda: arrow(what=pyarrow.array(ITEMS).dictionary_encode()),
    "arrow large string": lambda: arrow(who=pyarrow.array(USERS, pyarrow.large_string())),
    "arrow batch": lambda: pyarrow.RecordBatch.from_pydict(DATA),
    "arrow reader": lambda: arrow().to_reader(),
    "duckdb": lambda: duckdb.sql("select * from arrow_table", connection=connected()),
    "arrays": lambda: {**DATA, "day": np.array(DAYS, "datetime64[s]")},
}


def connected():
    connection = duckdb.connect()
    connection.register("arrow_table", arrow())
    return connection


@pytest.fixture
def taken():
    return Interactions.from_frame(PANDAS, **COLUMNS)


def types_of(frame):
    """The type of each column, under its name."""
    if isinstance(frame, (pyarrow.Table, pyarrow.RecordBatch)):
        return {field.name: field.type for field in frame.schema}
    return dict(frame.schema) if isinstance(frame, polars.DataFrame) else frame.dtypes.to_dict()


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_gives_the_same_interactions(kind):
    taken = Interactions.from_frame(FRAMES[kind](), **COLUMNS)
    assert taken.row_names.tolist() == ["ann", "bob", "zoe"]
    assert taken.item_names.tolist() == ["milk", "rice", "tea"]
    assert taken.matrix.toarray().tolist() == EXPECTED
    assert taken.matrix.dtype == np.float32
    assert taken.matrix.has_canonical_format
    assert taken.times.astype("datetime64[D]").astype(str).tolist() == [f"2026-01-0{day}" for day in (1, 6, 4, 5, 3)]


@pytest.mark.parametrize("kind", [kind for kind in FRAMES if kind not in ("arrow reader", "arrays", "duckdb")])
def test_recommendations_have_the_library_and_the_types_of_the_frame(kind):
    frame = FRAMES[kind]()
    taken = Interactions.from_frame(frame, **COLUMNS)
    answer = dsstne.popularity(taken).recommend(taken, k=1)
    library = pyarrow.Table if isinstance(frame, pyarrow.RecordBatch) else type(frame)
    assert type(answer) is library
    given, types = types_of(frame), types_of(answer)
    assert list(types) == ["who", "what", "score", "rank"]
    assert (types["who"], types["what"]) == (given["who"], given["what"])
    assert [tuple(row)[:2] for row in rows_of(answer)] == [("ann", "rice"), ("bob", "tea"), ("zoe", "milk")]


def rows_of(frame):
    if isinstance(frame, pandas.DataFrame):
        return frame.values.tolist()
    return frame.rows() if isinstance(frame, polars.DataFrame) else [tuple(row.values()) for row in frame.to_pylist()]


def test_duckdb_gives_a_table_of_arrow():
    taken = Interactions.from_frame(FRAMES["duckdb"](), **COLUMNS)
    assert isinstance(dsstne.popularity(taken).recommend(taken, k=1), pyarrow.Table)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16", "Int64", "int64[pyarrow]"])
def test_integers_of_pandas_keep_their_type(dtype):
    frame = pandas.DataFrame({"user": [30, 10, 10], "item": [7, 7, 5]}).astype(dtype)
    taken = Interactions.from_frame(frame)
    answer = dsstne.popularity(taken).recommend(taken, k=1)
    assert (taken.row_names.tolist(), taken.item_names.tolist()) == ([10, 30], [5, 7])
    assert answer.dtypes[["user", "item"]].tolist() == [frame.dtypes["user"]] * 2
    assert answer[["user", "item", "rank"]].values.tolist() == [[30, 5, 1]]  # the other user has all items


@pytest.mark.parametrize("kind", [polars.Int16, polars.UInt32, polars.Int64])
def test_integers_of_polars_keep_their_type(kind):
    frame = polars.DataFrame({"user": [3, 1], "item": [7, 5]}, schema={"user": kind, "item": kind})
    taken = Interactions.from_frame(frame)
    answer = dsstne.popularity(taken).recommend(taken, k=1)
    assert answer.schema["user"] == answer.schema["item"] == kind
    assert answer.rows() == [(1, 7, 1.0, 1), (3, 5, 1.0, 1)]


def test_the_order_of_the_rows_of_the_frame_does_not_matter():
    shuffled = PANDAS.sample(frac=1, random_state=1)
    first, second = (Interactions.from_frame(frame, **COLUMNS) for frame in (PANDAS, shuffled))
    assert abs(first.matrix - second.matrix).nnz == 0
    assert first.times.tolist() == second.times.tolist()


def test_without_values_the_rows_of_a_pair_are_counted():
    counted = Interactions.from_frame(DATA, user="who", item="what")
    assert counted.matrix.toarray().tolist() == [[1, 0, 2], [1, 1, 0], [0, 0, 1]]


def test_of_duplicates_the_last_by_time_counts():
    taken = Interactions.from_frame(PANDAS, **COLUMNS, duplicates="last")
    assert taken.matrix.toarray()[0].tolist() == [2, 0, 3]  # the row of 6 stars is older
    assert taken.times[1] == np.datetime64("2026-01-06")
    untimed = Interactions.from_frame(PANDAS, **{**COLUMNS, "time": None}, duplicates="last")
    assert untimed.matrix.toarray()[0].tolist() == [2, 0, 6]
    ones = Interactions.from_frame(PANDAS, user="who", item="what", duplicates="last")
    assert set(ones.matrix.data.tolist()) == {1.0}


def test_many_duplicates_are_summed_as_a_dense_matrix_would():
    rng = np.random.default_rng(0)
    user, item, value, time = (rng.integers(0, most, 5000) for most in (30, 20, 5, 100))
    taken = Interactions.from_frame({"user": user, "item": item, "v": value, "t": time}, value="v", time="t")
    sums, latest = np.zeros((30, 20)), np.full((30, 20), -1)
    np.add.at(sums, (user, item), value)
    np.maximum.at(latest, (user, item), time)
    assert np.array_equal(taken.matrix.toarray(), sums)
    row = np.repeat(np.arange(30), np.diff(taken.matrix.indptr))
    assert np.array_equal(taken.times, latest[row, taken.matrix.indices])


def test_a_value_of_zero_is_no_interaction_but_its_names_count():
    taken = Interactions.from_frame({"user": [1, 2], "item": [1, 2], "v": [0.0, 3.0], "t": [5, 6]}, value="v", time="t")
    assert (len(taken), taken.matrix.shape, taken.times.tolist()) == (1, (2, 2), [6])


def test_an_empty_frame_has_no_interactions():
    for frame in (PANDAS[:0], polars.DataFrame(DATA)[:0], arrow()[:0], {"who": [], "what": []}):
        taken = Interactions.from_frame(frame, user="who", item="what")
        assert (len(taken), taken.matrix.shape) == (0, (0, 0))


def test_times_with_a_zone_are_in_utc():
    for frame in (
        PANDAS.assign(day=PANDAS.day.dt.tz_localize("Europe/Berlin")),
        polars.DataFrame(DATA).with_columns(polars.col("day").dt.replace_time_zone("Europe/Berlin")),
        arrow(day=pyarrow.array(PANDAS.day.dt.tz_localize("Europe/Berlin"))),
    ):
        assert Interactions.from_frame(frame, **COLUMNS).times.max() == np.datetime64("2026-01-05T23:00")


# ---- what is wrong with a frame ----


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_a_missing_value_is_refused_with_its_column_and_row(library, column):
    name = COLUMNS[column]
    frame = library({**DATA, name: [*DATA[name][:4], None, DATA[name][5]]})
    with pytest.raises(InvalidDataError, match=rf"^{column}: column '{name}' has no value in row 4 \(1 such rows\)"):
        Interactions.from_frame(frame, **COLUMNS)


def test_a_value_that_is_not_a_number_is_missing_too():
    with pytest.raises(InvalidDataError, match="value: column 'v' has no value in row 1"):
        Interactions.from_frame({"user": [1, 2], "item": [1, 2], "v": [1.0, np.nan]}, value="v")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"what": [1.5] * 6}, "item: column 'what' has ids of type float"),
        ({"what": ["a", 1, "b", 2, "c", 3]}, "ids of type int, str; convert them all to strings or all to integers"),
        ({"what": [True] * 6}, "ids of type bool"),
        ({"what": [2**70] * 6}, "item: column 'what' has integers that do not fit in 64 bits; convert all to strings"),
        ({"what": np.array(DAYS, "datetime64[ns]")}, "ids of type datetime64"),
        ({"stars": ["1"] * 6}, "value: column 'stars' is of type .*; expected numbers"),
        ({"stars": [1e300] * 6}, "not finite as a float32"),
        ({"day": ["2026-01-01"] * 6}, "time: column 'day' is of type .*; expected numbers or datetime64"),
    ],
)
def test_a_column_of_another_type_is_refused(changed, words):
    for frame in (pandas.DataFrame({**DATA, **changed}), {**DATA, "day": [1] * 6, **changed}):
        with pytest.raises(InvalidDataError, match=words):
            Interactions.from_frame(frame, **COLUMNS)


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (PANDAS, {"user": "name"}, "user: the frame has no column 'name'; it has .'who', 'what'"),
        (pandas.concat([PANDAS, PANDAS[["who"]]], axis=1), {}, "user: the frame has several columns 'who'"),
        (PANDAS, {"user": "what"}, "user and item are the same column, 'what'"),
        (PANDAS.rename(columns={"what": "score"}), {"item": "score"}, "rename the column 'score'"),
        (PANDAS, {"duplicates": "mean"}, "duplicates must be one of 'sum', 'last', not 'mean'"),
        (PANDAS, {"unknown": "ignore"}, "unknown must be one of 'raise', 'warn', 'skip', not 'ignore'"),
        (polars.LazyFrame(DATA), {}, "not 'LazyFrame'; call collect"),
        (PANDAS["who"], {}, "not .*Series"),
        (polars.Series(USERS), {}, "df must be a table, not a Series"),
        ([USERS, ITEMS], {}, "df must be a DataFrame of pandas or polars"),
        ({"who": USERS, "what": ITEMS[:2]}, {}, "df: 'what' has the shape .2,."),
        ({"who": "a", "what": ["tea"]}, {}, "df: 'who' has the shape ..;"),
        (PANDAS, {"items": ["tea", 1]}, "items must be a list of strings or of integers"),
    ],
)
def test_what_is_no_frame_or_option_is_refused(frame, options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        Interactions.from_frame(frame, **{"user": "who", "item": "what", **options})


# ---- names that are not known ----


def test_items_of_a_model_are_the_columns_of_a_new_frame(taken):
    model = dsstne.popularity(taken)
    new = Interactions.from_frame({"user": ["eve"], "item": ["tea"]}, items=model.items)
    assert new.matrix.toarray().tolist() == [[0, 0, 1]]
    assert model.recommend(new, k=3)["item"].tolist() == ["milk", "rice"]


def test_unknown_items_of_a_frame_are_an_error_a_warning_or_skipped(taken):
    frame = {"user": ["eve", "eve", "kim"], "item": ["tee", "tea", "salt"]}
    with pytest.raises(NotFoundError, match="no item is named 'salt'; 2 of 3 names are unknown"):
        Interactions.from_frame(frame, items=taken.item_names)
    with pytest.warns(UserWarning, match="no item is named 'salt'; 2 of 3 names are unknown; left out"):
        warned = Interactions.from_frame(frame, items=taken.item_names, unknown="warn")
    skipped = Interactions.from_frame(frame, items=taken.item_names, unknown="skip")
    for new in (warned, skipped):
        assert new.matrix.toarray().tolist() == [[0, 0, 1], [0, 0, 0]]
        assert new.row_names.tolist() == ["eve", "kim"]


@pytest.mark.parametrize("what", ["users", "items"])
def test_a_name_that_is_listed_twice_has_no_place(what):
    frame = {"user": ["a", "b"], "item": ["a", "b"]}
    with pytest.raises(dsstne.InvalidArgumentError, match=f"{what}: 'b' is at 1 and 2; name each once"):
        dsstne.Interactions.from_frame(frame, user="user", item="item", **{what: ["a", "b", "b"]})


def test_unknown_users_and_items_by_name_are_an_error_a_warning_or_skipped(taken):
    with pytest.raises(NotFoundError, match="no row is named 'anne'; did you mean 'ann'"):
        taken.users(["anne"])
    with pytest.warns(UserWarning, match="no row is named 'anne'"):
        assert taken.users(["bob", "anne"], unknown="warn").row_names.tolist() == ["bob"]
    assert taken.users(["anne"], unknown="skip").matrix.shape == (0, 3)
    assert taken.items(["tea", "salt", "milk"], unknown="skip").tolist() == [2, 0]
    assert taken.matrix_of([["salt", "tea"], ["salt"]], unknown="skip").toarray().tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda taken: taken.users(["anne"], unknown="warn"),
        lambda taken: taken.rows(["anne"], unknown="warn"),
        lambda taken: taken.items(["anne"], unknown="warn"),
        lambda taken: taken.matrix_of([["anne"]], unknown="warn"),
        lambda taken: taken.similar_items(dsstne.item_knn(taken, progress=False), ["anne"], unknown="warn"),
        lambda taken: dsstne.popularity(taken).ids(["anne"], unknown="warn"),
        lambda taken: Interactions.from_frame(PANDAS, **COLUMNS, items=taken.item_names[:1], unknown="warn"),
    ],
)
def test_a_warning_of_an_unknown_name_points_to_the_caller(taken, call):
    with pytest.warns(UserWarning, match="is named") as caught:
        call(taken)
    assert [(one.filename, one.lineno) for one in caught] == [(__file__, call.__code__.co_firstlineno)]


def test_a_number_is_no_name_where_names_are_strings():
    taken = Interactions.from_frame({"user": ["1", "2"], "item": [1, 2]})
    with pytest.raises(NotFoundError, match="no row is named 1"):
        taken.users([1])
    with pytest.raises(NotFoundError, match="no item is named '1'"):
        taken.items(["1"])
    with pytest.raises(NotFoundError, match="no item is named True"):
        taken.items([True])
    assert taken.items([2, np.int8(1)]).tolist() == [1, 0]


def test_categories_that_lack_an_item_of_the_model_lose_no_recommendation(taken):
    model = dsstne.popularity(taken)
    frame = pandas.DataFrame({"user": ["eve"], "item": ["tea"]}).astype("category")
    answer = model.recommend(Interactions.from_frame(frame, items=model.items), k=2)
    assert answer["item"].tolist() == ["milk", "rice"]


# ---- models ----

MAKERS = {
    "fit": lambda X: dsstne.fit(X, hidden=[2], epochs=1, progress=False, devices="cpu"),
    "popularity": dsstne.popularity,
    "item_knn": lambda X: dsstne.item_knn(X, k=2, progress=False),
    "rp3beta": lambda X: dsstne.rp3beta(X, k=2, progress=False),
    "linear": lambda X: dsstne.linear(X, progress=False),
    "linear all": lambda X: dsstne.linear(X, per_item=None, progress=False),
    "iterative": lambda X: dsstne.linear(X, method="iterative", progress=False),
    "spectral": lambda X: dsstne.spectral(X, 2, progress=False),
    "factorize": lambda X: dsstne.factorize(X, factors=2, progress=False),
    "blend": lambda X: dsstne.blend([dsstne.popularity(X)]),
    "dataset": lambda X: dsstne.popularity(dsstne.Dataset(X)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_model_keeps_the_names_and_has_the_bits_of_the_matrix(maker, taken):
    named, plain = MAKERS[maker](taken), MAKERS[maker](taken.matrix)
    assert named.items.tolist() == ["milk", "rice", "tea"]
    assert plain.items is None
    for one, other in zip(named.recommend(taken.matrix, k=3), plain.recommend(taken.matrix, k=3), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("maker", [dsstne.popularity, dsstne.item_knn, dsstne.fit, dsstne.auto])
def test_names_that_are_given_must_be_those_of_the_interactions(maker, taken):
    assert dsstne.popularity(taken, items=["milk", "rice", "tea"]).items.tolist() == ["milk", "rice", "tea"]
    with pytest.raises(InvalidArgumentError, match="items= has other names than X"):
        maker(taken, items=["tea", "rice", "milk"])


def test_a_trainer_refuses_other_items_than_those_of_its_model(taken):
    model = dsstne.fit(taken, hidden=[2], epochs=1, progress=False, devices="cpu")
    model.items = ["tea", "rice", "milk"]
    with pytest.raises(InvalidArgumentError, match="X has other items than the model: item 0 is 'milk'"):
        dsstne.Trainer(model, taken, devices="cpu")


def test_weights_of_a_blend_are_chosen_with_interactions():
    rng = np.random.default_rng(0)
    taken = Interactions.from_frame({"user": rng.integers(0, 30, 400), "item": rng.integers(0, 20, 400)})
    train, test = taken[::2], taken[1::2]
    parts = [dsstne.popularity(train), dsstne.item_knn(train, progress=False)]
    named = dsstne.blend(parts, train, validation=test, metric="ndcg@5", progress=False)
    plain = dsstne.blend(parts, train.matrix, validation=test.matrix, metric="ndcg@5", progress=False)
    assert named.items.tolist() == list(range(20))
    assert named.tensor("weights").tolist() == plain.tensor("weights").tolist()


@pytest.mark.filterwarnings("ignore:auto returns popularity")  # on a slow machine
def test_auto_splits_interactions_by_their_times():
    rng = np.random.default_rng(0)
    frame = {"user": rng.integers(0, 40, 600), "item": rng.integers(0, 12, 600), "time": rng.integers(0, 99, 600)}
    taken = Interactions.from_frame(frame, time="time")
    model = dsstne.auto(taken, "ndcg@5", seconds=1, progress=False, threads=1)
    assert model.items.tolist() == list(range(12))
    assert model.report.split.startswith("the last fifth of each row by times=")
    assert "items = X.item_names\nX = X.matrix\n" in model.report.code


@pytest.mark.filterwarnings("ignore:auto returns popularity")  # on a slow machine
def test_auto_takes_a_dataset_of_interactions_with_its_names(taken):
    with dsstne.Dataset(taken) as data:
        model = dsstne.auto(data, "ndcg@1", seconds=1, progress=False, threads=1)
    assert model.items.tolist() == taken.item_names.tolist()
    assert "items = X.item_names" in model.report.code


def test_the_names_survive_a_file(taken, tmp_path):
    dsstne.popularity(taken).save(tmp_path / "model.dsstne")
    model = dsstne.load(tmp_path / "model.dsstne")
    assert model.recommend(taken.users("zoe"), k=1).values.tolist() == [["zoe", "milk", 2.0, 1]]


def test_a_model_of_other_items_is_refused(taken):
    model = dsstne.popularity(taken)
    other = Interactions.from_frame({"user": [1, 1, 1], "item": ["milk", "rye", "tea"]})
    words = r"X has other items than the model: item 1 is 'rye' and in the model 'rice'; .*items=model.items"
    with pytest.raises(InvalidArgumentError, match=words):
        model.recommend(other, k=1)
    with pytest.raises(InvalidArgumentError, match="X_held_out has other items"):
        dsstne.evaluate(model, other.matrix, other, "recall@1")
    with pytest.raises(InvalidArgumentError, match="interactions has other items"):
        other.similar_items(model, ["tea"])
    with pytest.raises(InvalidArgumentError, match="interactions has 1 items, the model 3"):
        Interactions.from_frame({"user": [1], "item": ["milk"]}).similar_items(model, ["milk"], k=1)


def test_a_model_without_names_answers_with_those_of_the_interactions(taken):
    assert dsstne.popularity(taken.matrix).recommend(taken.users("zoe"), k=2)["what"].tolist() == ["milk", "rice"]


def test_a_frame_has_the_ids_and_scores_of_the_arrays(taken):
    model = dsstne.linear(taken, progress=False)
    ids, scores = model.recommend(taken.matrix, k=3, rows=[2, 0])
    answer = model.recommend(taken, k=3, rows=[2, 0])
    kept = ids >= 0
    assert answer["who"].tolist() == ["zoe"] * 2 + ["ann"]
    assert answer["what"].tolist() == taken.item_names[ids[kept]].tolist()
    assert answer["score"].tolist() == scores[kept].tolist()
    assert answer["rank"].tolist() == [1, 2, 1]


def test_similar_items_come_by_name(taken):
    model = dsstne.item_knn(taken, progress=False)
    ids, scores = model.similar_items([2, 1], k=2)
    answer = taken.similar_items(model, ["tea", "rice"], k=2)
    kept = ids >= 0
    assert list(answer.columns) == ["what", "similar", "score", "rank"]
    assert answer["what"].tolist() == np.repeat(["tea", "rice"], kept.sum(axis=1)).tolist()
    assert answer["similar"].tolist() == taken.item_names[ids[kept]].tolist()
    assert answer["score"].tolist() == scores[kept].tolist()


def test_features_of_users_are_a_further_input_in_the_same_order(taken):
    about = pandas.DataFrame({"person": ["zoe", "ann", "kim", "zoe"], "feature": ["tall", "old", "old", "new"]})
    features = Interactions.from_frame(about, user="person", item="feature", users=taken.row_names, unknown="skip")
    assert features.matrix.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]  # ann, bob, zoe; new, old, tall
    layers = [
        {"name": "likes", "kind": "input", "size": "auto"},
        {"name": "about", "kind": "input", "size": "auto"},
        {"name": "hidden", "kind": "hidden", "size": 2, "sources": ["likes", "about"]},
        {"name": "output", "kind": "output", "size": "auto"},
    ]
    inputs = {"likes": taken, "about": features}
    model = dsstne.fit(inputs, {"output": taken}, network={"layers": layers}, epochs=1, progress=False, devices="cpu")
    assert model.items.tolist() == ["milk", "rice", "tea"]
    answer = model.recommend(inputs, k=1, exclude=taken)
    assert answer["who"].tolist() == ["ann", "bob", "zoe"]
    assert answer["what"].tolist()[:2] == ["rice", "tea"]


# ---- parts ----


def test_a_part_and_what_is_given_are_the_whole(taken):
    part = taken[[3, 0]]
    assert (len(part), part.shape, part.matrix.shape) == (2, (2,), (3, 3))
    assert part.parent is taken
    assert abs(part.matrix + part.given - taken.matrix).nnz == 0
    assert part.times.tolist() == taken.times[[0, 3]].tolist()
    assert taken.given is None


def test_all_ways_of_indexing_select_the_same(taken):
    mask = np.array([True, False, True, False, False])
    for key in ([0, 2], (np.array([0, 2]), ...), mask, slice(0, 3, 2), np.array([2, 0], np.uint8)):
        assert abs(taken[key].matrix - taken[[0, 2]].matrix).nnz == 0


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ([5], r"index\[0\] is 5; expected 0 to 4"),
        ([-1], "is -1"),
        ([1, 1], "twice"),
        ([True], "5 entries"),
        ("a", "integers"),
        ((0, 1), "index: expected one, got .0, 1."),
    ],
)
def test_an_index_that_selects_nothing_right_is_refused(taken, key, words):
    with pytest.raises(InvalidArgumentError, match=words):
        taken[key]


def test_interactions_are_no_iterable_of_parts(taken):
    with pytest.raises(TypeError):
        iter(taken)


def test_what_is_given_in_a_nested_part_has_nothing_of_the_outer_test_part(taken):
    train, test = taken[[0, 1, 3]], taken[[2, 4]]
    inner = train[[1]]
    assert inner.parent is train
    assert abs(inner.given + inner.matrix - train.matrix).nnz == 0
    assert inner.given.multiply(test.matrix).nnz == 0


def test_parts_of_a_pickle_share_their_parent(taken):
    parts = pickle.loads(pickle.dumps([taken[[0, 1]], taken[[2]][[0]]]))
    assert parts[0].parent is parts[1].parent.parent
    assert abs(parts[1].matrix - taken[[2]].matrix).nnz == 0
    assert parts[1].times.tolist() == taken.times[[2]].tolist()
    copied = dsstne.popularity(parts[0]).recommend(parts[0].users(["zoe"]), k=1)
    assert isinstance(copied, pandas.DataFrame)


def test_users_of_a_part_have_what_was_given_of_these_users(taken):
    part = taken[[1, 2, 4]].users(["zoe", "ann"])
    assert part.row_names.tolist() == ["zoe", "ann"]
    assert part.matrix.toarray().tolist() == [[0, 0, 1], [0, 0, 9]]
    assert part.given.toarray().tolist() == [[0, 0, 0], [2, 0, 0]]
    assert part.times.tolist() == taken.times[[4, 1]].tolist()


# ---- made of a matrix ----


def test_a_matrix_without_names_has_numbers():
    made = Interactions(sparse.coo_matrix(np.array([[0, 2], [1, 0]])))
    assert (made.row_names.tolist(), made.item_names.tolist()) == ([0, 1], [0, 1])
    assert (type(made.matrix), made.matrix.dtype) == (sparse.csr_array, np.float32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"matrix": np.eye(2)}, "matrix must be a sparse matrix"),
        ({"matrix": sparse.csr_array(np.eye(2) * 1j)}, "values of type complex128"),
        ({"row_names": ["a"]}, "row_names has 1 names; the matrix has 2"),
        ({"item_names": ["a", None]}, "item_names must be a list of strings or of integers"),
        ({"times": [1, 2, 3]}, r"times must be a number or time for each of 2 entries, not .*\(3,\)"),
        ({"matrix": sparse.csr_array(np.eye(2)), "times": [1, 2]}, "a csr_array of float32 that needs no conversion"),
    ],
)
def test_a_constructor_that_does_not_fit_together_is_refused(arguments, words):
    with pytest.raises(InvalidArgumentError, match=words):
        Interactions(**{"matrix": sparse.csr_array(np.eye(2, dtype=np.float32)), **arguments})


@pytest.mark.parametrize("times", [[1, np.nan], np.array(["2026-01-01", "NaT"], "M8[D]")])
def test_a_time_that_is_not_known_is_refused(times):  # splits by time would take it for the earliest or the latest
    with pytest.raises(InvalidDataError, match="times.1. is (nan|NaT); give a time"):
        Interactions(sparse.csr_array(np.eye(2, dtype=np.float32)), times=times)


def test_interactions_print_as_a_short_table(taken):
    text = repr(taken[[0, 1]])
    assert text.startswith("2 interactions of 3 rows and 3 items, a part of 5\n\nwho  what  value  time")
    assert "<th" in taken._repr_html_()
    many = repr(Interactions(sparse.csr_array(np.ones((9, 9), np.float32))))
    assert many.count("\n") < 12
    assert many.endswith("...")


def test_neither_pandas_nor_polars_nor_arrow_is_loaded_before_a_frame_of_it(python):
    out = python(
        "import sys, dsstne\n"
        "taken = dsstne.Interactions.from_frame({'user': [1, 2], 'item': ['a', 'b']})\n"
        "dsstne.popularity(taken).recommend(taken, k=1)\n"
        "print({'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules))"
    )
    assert out.strip() == "set()"
    out = python(
        "import sys; sys.modules['pyarrow'] = None; sys.modules['sklearn'] = None\n"
        "import dsstne, polars\n"
        "taken = dsstne.Interactions.from_frame(polars.DataFrame({'user': [1, 2], 'item': ['a', 'b']}))\n"
        "print(dsstne.popularity(taken).recommend(taken, k=1).rows())"
    )
    assert out.strip() == "[(1, 'b', 1.0, 1), (2, 'a', 1.0, 1)]"


def test_arrow_without_pyarrow_is_told():
    class Table:
        def __arrow_c_stream__(self):
            """Of another library than pyarrow."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "pyarrow", None)
        with pytest.raises(ImportError, match="pip install pyarrow"):
            Interactions.from_frame(Table())


def test_the_code_of_the_page_prints_what_the_page_shows(capsys):
    page, names = PAGE.read_text(encoding="utf-8"), {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    shown = re.findall(r"^    (.*)", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [line.split() for line in shown]


def test_every_function_with_a_model_refuses_other_items(taken):
    other = Interactions(taken.matrix, taken.row_names, ["milk", "rye", "tea"])
    quiet = {"progress": False}
    model, second = dsstne.linear(taken, **quiet), dsstne.item_knn(taken, **quiet)
    words = "has other items than the model: item 1 is 'rye' and in the model 'rice'"
    for name, call in {
        "x": lambda: model.explain(other.users("zoe"), 0),
        "train": lambda: dsstne.beyond_accuracy(model, taken, 1, train=other),
        "validation": lambda: dsstne.auto(taken, seconds=1, validation=other, **quiet),
        "X": lambda: dsstne.blend([model, second], X=other, validation=taken, **quiet),
    }.items():
        with pytest.raises(InvalidArgumentError, match=f"^{name} {words}"):
            call()
