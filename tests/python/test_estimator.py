"""Recommender: all kinds of models behind the interface of scikit-learn."""

import copy
import gc
import inspect
import pickle
import re
import warnings
import weakref
from pathlib import Path

import joblib
import numpy as np
import pandas
import pytest
import scipy.sparse
from matrices import blocks
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import dsstne
from dsstne import Recommender
from dsstne.estimator import METHODS, options_of
from dsstne.model_selection import EntryKFold, HoldOut, LeaveLastOut, UserKFold, UserShuffleSplit

QUICK = {"network": {"hidden": 4, "epochs": 2}, "factorize": {"factors": 4}, "auto": {"seconds": 1}}
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scikit-learn.md").read_text()


def quick(method, **options):
    return Recommender(method, **{**QUICK.get(method, {}), **options}, threads=1)


def interactions(X):
    names = [f"item{n:02}" for n in range(X.shape[1])]
    return dsstne.Interactions(X, [f"user{n:03}" for n in range(X.shape[0])], names)


@pytest.fixture(scope="module")
def linear(X):
    return Recommender("linear").fit(X)


# ---- the protocol ----


def exceptions(method):
    """Returns the failing checks of the table in the documentation, with the reasons."""
    rows = re.findall(r"^\| `(check_\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == len({check for check, _, _ in rows})
    return {check: reason for check, methods, reason in rows if methods.strip() == "all" or f"`{method}`" in methods}


@pytest.mark.long
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=pytest.mark.slow if method == "auto" else ())  # 20 s
        for method in METHODS
    ],
)
def test_the_checks_of_scikit_learn_pass_except_those_that_the_documentation_lists(method):
    expected = exceptions(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the data of some checks are too few to choose a model by them
        estimator = Recommender(method, threads=1, **{"network": {"hidden": 4}, "auto": {"seconds": 1}}.get(method, {}))
        results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None, on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


def test_parameters_are_those_of_the_functions():
    listed = {name for method in METHODS for name in options_of(method)}
    common = {"method", "metric", "random_state", "devices", "threads", "memory_limit", "progress"}
    common |= {"store", "disk_limit"}
    assert set(Recommender().get_params()) == listed | common


def test_a_parameter_that_is_not_common_to_all_methods_has_the_word_default():
    listed = {name for method in METHODS for name in options_of(method)}
    defaults = inspect.signature(Recommender).parameters
    assert {defaults[name].default for name in listed} == {"default"}


@pytest.mark.parametrize("method", [method for method in METHODS if method != "auto"])
def test_the_model_is_that_of_the_function(X, method):
    options = QUICK.get(method, {})
    model = METHODS[method](X, **options, **({} if method == "popularity" else {"progress": False}))
    assert np.array_equal(quick(method).fit(X).predict(X), model.predict(X))


def test_auto_chooses_and_reports(X):
    recommender = quick("auto", metric="recall@5").fit(X)
    assert recommender.model_.report.metric == "recall@5"


def test_arguments_of_the_functions_with_other_names_are_passed_on(X):
    expected = dsstne.item_knn(X, metric="jaccard", progress=False).predict(X)
    assert np.array_equal(Recommender("item_knn", similarity="jaccard").fit(X).predict(X), expected)
    expected = dsstne.spectral(X, method="gf_cf", progress=False).predict(X)
    assert np.array_equal(Recommender("spectral", variant="gf_cf").fit(X).predict(X), expected)


def test_an_error_about_such_an_argument_says_its_name(X):
    with pytest.raises(dsstne.InvalidArgumentError, match=r"'gfcf' is unknown.*variant= is the argument method= of"):
        Recommender("spectral", variant="gfcf").fit(X)


def test_none_is_none_and_not_the_default(X):
    assert Recommender("linear", per_item=None).fit(X).model_.tensors["weight"] == (60, 60)


def test_an_option_of_another_method_is_an_error_that_lists_the_right_ones(X):
    with pytest.raises(
        dsstne.InvalidArgumentError, match=r"factors= is not an option of method='rp3beta'.*alpha, beta"
    ):
        Recommender("rp3beta", factors=3).fit(X)


def test_an_unknown_method_is_an_error_that_suggests_the_nearest(X):
    with pytest.raises(dsstne.InvalidArgumentError, match="did you mean 'linear'"):
        Recommender("linaer").fit(X)


def test_few_items_take_fewer_factors_by_default(X):
    assert Recommender("factorize").fit(X).model_.tensors["factors"] == (60, 60)


def test_copies_and_pickles_predict_the_same(X, linear, tmp_path):
    joblib.dump(linear, tmp_path / "linear.joblib")
    copies = [copy.deepcopy(linear), pickle.loads(pickle.dumps(linear)), joblib.load(tmp_path / "linear.joblib")]
    expected = linear.predict(X)
    assert all(np.array_equal(made.predict(X), expected) for made in copies)


def test_a_clone_has_the_parameters_and_no_model(linear):
    made = clone(linear.set_params(regularization=3))
    assert made.get_params() == linear.get_params()
    assert not hasattr(made, "model_")


def test_a_second_fit_forgets_the_first(X):
    recommender = quick("linear").fit(X, eval_set=dsstne.datasets.hold_out(X)).fit(X[:, :20])
    assert recommender.n_features_in_ == 20
    assert not hasattr(recommender, "evals_result_")


@pytest.mark.parametrize("call", ["predict", "recommend", "transform", "score"])
def test_an_estimator_that_is_not_fitted_says_so_with_the_error_of_both_packages(X, call):
    with pytest.raises(NotFittedError, match=r"call fit\(X\) first") as raised:
        getattr(Recommender("network"), call)(X)
    assert isinstance(raised.value, dsstne.InvalidStateError)


@pytest.mark.long
@pytest.mark.parametrize("method", ["linear", "network", "spectral"])
def test_no_reference_to_the_data_is_kept(method):
    X = blocks()
    gone = weakref.ref(X), weakref.ref(X.data)
    recommender = quick(method).fit(X)
    if method == "network":
        recommender.partial_fit(X)
    recommender.score(X)
    recommender.predict(X)
    del X
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_tags_say_which_methods_take_no_negative_values():
    positive = [method for method in METHODS if get_tags(Recommender(method)).input_tags.positive_only]
    assert positive == ["rp3beta", "factorize", "network"]
    assert not get_tags(Recommender("factorize", variant="explicit")).input_tags.positive_only
    assert not get_tags(Recommender("network", loss="squared")).input_tags.positive_only


def test_it_works_without_scikit_learn(python):
    out = python(
        "import sys\n"
        "sys.modules['sklearn'] = None\n"
        "import copy, pickle, dsstne, numpy as np\n"
        "recommender = dsstne.Recommender('linear', regularization=3).set_params(dropout=0.2)\n"
        "X = np.kron(np.eye(3), np.ones((4, 4)))\n"
        "try: recommender.predict(X)\n"
        "except (ValueError, AttributeError, RuntimeError) as error: print(type(error).__name__)\n"
        "print(pickle.loads(pickle.dumps(recommender.fit(X))).predict(X).shape, hasattr(recommender, 'transform'))\n"
        "print(recommender, recommender.get_params()['dropout'])\n"
        "try: recommender.set_params(dropuot=1)\n"
        "except ValueError as error: print(error)\n"
    )
    assert out.splitlines() == [
        "NotFittedError",
        "(12, 12) False",
        "Recommender(method='linear', dropout=0.2, regularization=3) 0.2",
        "'dropuot' is not a parameter; did you mean 'dropout'?",
    ]


# ---- data ----


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dense", "Dataset", "Interactions"])
def test_data_of_all_forms_give_the_same_model(X, linear, form):
    forms = {"dense": X.toarray, "Dataset": lambda: dsstne.Dataset(X), "Interactions": lambda: interactions(X)}
    given = forms.get(form, lambda: X.asformat(form))()
    recommender = Recommender("linear").fit(given)
    assert recommender.predict(given).tobytes() == Recommender("linear").fit(X).predict(X).tobytes()


def test_values_outside_of_the_rows_are_not_looked_at(X):
    part = scipy.sparse.csr_array(X)
    part.data, part.indices = (np.concatenate([[-1], array, [-1]]) for array in (X.data, X.indices))
    part.data[[0, -1]], part.indptr = np.nan, X.indptr + 1
    assert np.array_equal(Recommender("rp3beta").fit(part).predict(part), Recommender("rp3beta").fit(X).predict(X))


@pytest.mark.parametrize("method", ["rp3beta", "factorize", "network"])
def test_a_negative_value_is_refused_with_its_row(X, method):
    wrong = X.copy()
    wrong.data[wrong.indptr[7]] = -3
    with pytest.raises(
        dsstne.InvalidDataError, match="Negative values in data passed to X.*: row 7 has the value -3.0"
    ):
        quick(method).fit(wrong)


@pytest.mark.parametrize("method", ["popularity", "linear", "network"])
def test_columns_of_a_frame_name_the_items(X, method):
    frame = pandas.DataFrame(X.toarray(), columns=interactions(X).item_names)
    recommender = quick(method).fit(frame)
    assert recommender.model_.items.tolist() == recommender.feature_names_in_.tolist() == list(frame.columns)


def test_a_frame_with_columns_in_another_order_is_refused(X):
    frame = pandas.DataFrame(X.toarray(), columns=interactions(X).item_names)
    recommender = Recommender("linear").fit(frame)
    with pytest.raises(dsstne.InvalidArgumentError, match="must be in the same order"):
        recommender.recommend(frame[frame.columns[::-1]])


def test_interactions_are_recommended_by_name(X):
    frame = Recommender("linear").fit(interactions(X)).recommend(interactions(X), k=2)
    assert set(frame["item"]) <= set(interactions(X).item_names.tolist())


def test_interactions_of_other_items_are_refused(X):
    recommender = quick("network").partial_fit(interactions(X))
    with pytest.raises(dsstne.InvalidArgumentError, match="X has other items than the model: item 0 is 'item59'"):
        recommender.partial_fit(dsstne.Interactions(X, item_names=interactions(X).item_names[::-1]))


def test_weighted_interactions_keep_the_names(X):
    recommender = Recommender("linear").fit(interactions(X), sample_weight=np.ones(X.shape[0]))
    assert recommender.model_.items.tolist() == interactions(X).item_names.tolist()


# ---- weights of rows ----

TWICE = {
    "popularity": {},
    "item_knn": {},
    "linear": {"item_exponent": 0.0, "output_exponent": 0.0},
}


@pytest.mark.parametrize("method", TWICE)
def test_a_row_of_weight_two_counts_as_two_rows_and_one_of_weight_zero_as_none(X, method):
    # The squares of float32 square roots of weights differ from the weights by rounding.
    weights = np.random.default_rng(0).integers(0, 3, X.shape[0])
    weighted = quick(method, **TWICE[method]).fit(X, sample_weight=weights)
    repeated = quick(method, **TWICE[method]).fit(X[np.repeat(np.arange(X.shape[0]), weights)])
    assert np.allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-5)


def test_weights_of_a_network_multiply_the_loss_of_the_rows(X):
    # One step of gradient descent with all rows, whose loss is a mean: over five rows more, at a higher rate.
    rows, more = 60, 5
    weights = np.ones(rows)
    weights[:more] = 2
    common = {
        "hidden": 8,
        "epochs": 1,
        "batch_size": 1000,
        "denoising": 0.0,
        "optimizer": "sgd",
        "schedule": None,
        "precision": "float32",
    }
    X = X[:rows]
    weighted = quick("network", **common, learning_rate=0.1).fit(X, sample_weight=weights)
    twice = scipy.sparse.vstack([X, X[:more]]).tocsr()
    repeated = quick("network", **common, learning_rate=0.1 * (rows + more) / rows).fit(twice)
    untrained = quick("network", **common, learning_rate=0.1).set_params(epochs=0).fit(X)
    start = untrained.predict(X)
    assert np.allclose(weighted.predict(X), repeated.predict(X), rtol=0, atol=1e-4 * np.ptp(start))
    assert not np.allclose(weighted.predict(X), start, rtol=0, atol=1e-2 * np.ptp(start))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("rp3beta", {}),
        ("spectral", {}),
        ("factorize", {}),
        ("auto", {}),
        ("item_knn", {"similarity": "jaccard"}),
    ],
)
def test_weights_that_a_method_does_not_have_are_refused(X, method, options):
    with pytest.raises(dsstne.UnsupportedError, match="sample_weight is for linear, popularity, item_knn"):
        quick(method, **options).fit(X, sample_weight=np.ones(X.shape[0]))


@pytest.mark.parametrize("weights", [[1.0], np.full(240, -1.0), np.full(240, np.nan), np.zeros(240), ["a"] * 240])
def test_weights_that_are_not_valid_are_refused(X, weights):
    with pytest.raises(dsstne.InvalidArgumentError, match="sample_weight: "):
        quick("linear").fit(X, sample_weight=weights)


def test_rows_of_a_dataset_have_weights_as_those_of_its_matrix(X):
    named, weights = interactions(X), np.linspace(0, 2, X.shape[0])
    with dsstne.Dataset(named) as data:
        of_dataset, of_matrix = (quick("linear").fit(one, sample_weight=weights).model_ for one in (data, named))
    assert (of_dataset.tensor("weight") != of_matrix.tensor("weight")).nnz == 0
    assert of_dataset.items.tolist() == of_matrix.items.tolist()


# ---- validation data ----


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ("auto", "network")])
def test_the_metric_on_validation_data_is_that_of_evaluate(X, method):
    inputs, held_out = dsstne.datasets.hold_out(X)
    recommender = quick(method, metric="recall@5").fit(inputs, eval_set=held_out)
    expected = dsstne.evaluate(recommender.model_, inputs, held_out, "recall@5")
    assert recommender.evals_result_ == {"recall@5": [expected["recall@5"]]}


def test_a_network_has_the_metrics_of_its_epochs_and_the_wanted_one(X):
    inputs, held_out = dsstne.datasets.hold_out(X)
    recommender = quick("network", metric="map@3", epochs=3).fit(inputs, eval_set=(inputs, held_out))
    lengths = {name: len(values) for name, values in recommender.evals_result_.items()}
    assert lengths == {"recall@20": 3, "ndcg@20": 3, "map@3": 1}


def test_a_part_of_interactions_validates_with_the_rest_of_its_parent(X):
    data = interactions(X)
    train, test = next(EntryKFold(4).split(data))
    recommender = quick("linear").fit(data[train], eval_set=data[test])
    assert recommender.evals_result_ == {"ndcg@20": [recommender.score(data[test])]}


def test_weights_of_rows_do_not_change_what_a_network_is_validated_with(X):
    inputs, held_out = dsstne.datasets.hold_out(X)
    weights = np.arange(X.shape[0]) % 2
    results = [
        quick("network").fit(inputs, sample_weight=weights, eval_set=given).evals_result_
        for given in (held_out, (inputs, held_out))
    ]
    assert results[0] == results[1]


def test_auto_chooses_by_the_validation_data(X):
    inputs, held_out = dsstne.datasets.hold_out(X)
    recommender = quick("auto").fit(inputs, eval_set=[inputs, held_out])
    assert "the pair (V_in, V_out) that was given" in recommender.model_.report.split


# ---- going on ----


def test_partial_fit_begins_and_goes_on(X):
    recommender = quick("network", hidden=16, learning_rate=0.01)
    scores = [recommender.partial_fit(X).score(X) for _ in range(10)]
    assert scores[-1] > scores[0] + 0.05
    assert [record["epoch"] for record in recommender.model_.history] == [*range(1, 11)]
    assert recommender.model_.step == 10


def test_partial_fit_goes_on_from_a_fit(X):
    recommender = quick("network").fit(X)
    before = recommender.predict(X)
    assert recommender.partial_fit(X).model_.step == 3
    assert not np.array_equal(recommender.predict(X), before)


def test_partial_fit_draws_other_numbers_in_each_call(X):
    # At a learning rate of almost 0 the losses of two epochs differ only by the entries that denoising drops.
    recommender = quick("network", learning_rate=1e-12).partial_fit(X).partial_fit(X)
    first, second = (record["loss"] for record in recommender.model_.history)
    assert first != second


def test_partial_fit_gives_the_same_bits_again(X):
    made = [quick("network").partial_fit(X[:100]).partial_fit(X[100:]).predict(X) for _ in range(2)]
    assert np.array_equal(*made)


def test_a_copy_does_not_train_with_the_original(X):
    recommender = quick("network").partial_fit(X)
    other = copy.deepcopy(recommender)
    before = other.predict(X)
    recommender.partial_fit(X)
    assert np.array_equal(other.predict(X), before)


def test_partial_fit_refuses_rows_with_other_items(X):
    with pytest.raises(dsstne.InvalidArgumentError, match="X has 20 features, but Recommender is expecting 60"):
        quick("network").partial_fit(X).partial_fit(X[:, :20])


@pytest.mark.parametrize("method", [method for method in METHODS if method != "network"])
def test_methods_that_cannot_go_on_have_no_partial_fit(X, method):
    assert not hasattr(quick(method), "partial_fit")
    with pytest.raises(dsstne.UnsupportedError, match='only method="network" is trained step by step'):
        quick(method).partial_fit(X)


# ---- results ----


def test_the_score_of_a_matrix_is_that_of_a_fifth_of_its_entries(X, linear):
    inputs, held_out = dsstne.datasets.hold_out(X, seed=7)
    expected = dsstne.evaluate(linear.model_, inputs, held_out, "ndcg@20", exclude="input")["ndcg@20"]
    assert clone(linear).set_params(random_state=7).fit(X).score(X) == pytest.approx(expected, rel=0.1)
    linear.set_params(random_state=7)
    assert linear.score(X) == expected


def test_the_score_of_a_part_leaves_out_what_the_users_have_in_the_rest(X):
    data = interactions(X)
    train, test = next(EntryKFold(3).split(data))
    recommender = quick("linear").fit(data[train])
    part = data[test]
    expected = dsstne.evaluate(recommender.model_, part.given, part.matrix, "ndcg@20", exclude="input")
    assert recommender.score(part) == expected["ndcg@20"]


def test_no_held_out_item_gives_nan(linear):
    assert np.isnan(linear.score(scipy.sparse.csr_array(np.eye(60, dtype=np.float32))))


@pytest.mark.parametrize("state", [np.random.RandomState, np.random.default_rng])
def test_a_generator_draws_seeds(X, state):
    first, second = (quick("network", random_state=state(5)).fit(X).predict(X) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(quick("network", random_state=state(6)).fit(X).predict(X), first)


def test_none_draws_another_seed_each_time(X):
    recommender = quick("network", random_state=None)
    assert not np.array_equal(recommender.fit(X).predict(X), recommender.fit(X).predict(X))


@pytest.mark.parametrize("method", ["network", "factorize"])
def test_embeddings_are_those_of_the_model(X, method):
    recommender = quick(method)
    embedded = recommender.fit_transform(X)
    assert embedded.shape == (240, 4)
    assert np.array_equal(embedded, recommender.model_.embed(X))


def test_methods_without_embeddings_have_no_transform(X, linear):
    assert not hasattr(linear, "transform")
    assert not hasattr(Recommender("auto"), "transform")
    with pytest.raises(dsstne.UnsupportedError, match='only "network" and "factorize"'):
        linear.transform(X)


def test_dense_scores_above_the_limit_are_refused_with_a_remedy(X):
    recommender = Recommender("popularity", memory_limit=2_000_000).fit(X)
    many = scipy.sparse.csr_array((10_000, 60), dtype=np.float32)
    with pytest.raises(dsstne.OutOfMemoryError, match=r"2,400,000 bytes, memory_limit is 2,000,000.*recommend\(X, k\)"):
        recommender.predict(many)
    assert recommender.recommend(many)[0].shape == (10_000, 10)


def test_recommend_takes_the_options_of_the_model(X, linear):
    ids, _ = linear.recommend(X, k=3, items=[5, 9, 30], exclude_seen=False, rows=[7])
    assert sorted(ids[0]) == [5, 9, 30]


# ---- what scikit-learn does with it ----


@pytest.mark.parametrize("splitter", [UserKFold(3), UserShuffleSplit(0.3, n_splits=3), KFold(3)])
def test_users_are_cross_validated(X, splitter):
    scores = cross_val_score(quick("linear"), X, cv=splitter, error_score="raise")
    expected = [quick("linear").fit(X[train]).score(X[test]) for train, test in splitter.split(X)]
    assert scores.tolist() == expected


@pytest.mark.parametrize("splitter", [EntryKFold(3), HoldOut(0.2), LeaveLastOut(), KFold(3, shuffle=True)])
def test_entries_are_cross_validated(X, splitter):
    data = dsstne.Interactions(X, times=np.arange(X.nnz))
    scores = cross_val_score(quick("linear"), data, cv=splitter, error_score="raise")
    assert len(scores) == splitter.get_n_splits(data)
    assert all(0 < score < 1 for score in scores)


def test_a_grid_search_finds_the_best_options(X):
    grid = {"factors": [2, 6], "regularization": [0.01, 0.1]}
    search = GridSearchCV(quick("factorize", epochs=4), grid, cv=EntryKFold(3), error_score="raise").fit(
        interactions(X)
    )
    assert search.best_params_["factors"] == 6  # there are six tastes
    assert search.best_estimator_.model_.tensors["factors"] == (60, 6)


def test_a_grid_search_compares_methods(X):
    grid = [{"method": ["linear"], "regularization": [1, 10]}, {"method": ["popularity"]}]
    search = GridSearchCV(Recommender(threads=1), grid, cv=UserKFold(3), error_score="raise").fit(X)
    assert search.best_params_["method"] == "linear"


@pytest.mark.long
def test_a_grid_search_in_processes_gives_the_same_scores(X):
    grid = {"regularization": [1, 10]}
    here, there = (
        GridSearchCV(quick("linear"), grid, cv=UserKFold(2), n_jobs=jobs, error_score="raise").fit(X) for jobs in (1, 2)
    )
    assert here.cv_results_["mean_test_score"].tolist() == there.cv_results_["mean_test_score"].tolist()


def test_a_pipeline_weights_the_items_before(X):
    search = GridSearchCV(
        make_pipeline(TfidfTransformer(), quick("linear")),
        {"recommender__regularization": [1, 10], "tfidftransformer__use_idf": [True, False]},
        cv=UserKFold(3),
        error_score="raise",
    ).fit(X)
    assert search.predict(X).shape == X.shape
    assert 0 < search.score(X) < 1


def test_a_pipeline_embeds(X):
    assert make_pipeline(TfidfTransformer(), quick("network")).fit_transform(X).shape == (240, 4)


@pytest.mark.long
def test_the_code_of_the_documentation_runs(monkeypatch):
    monkeypatch.setattr(dsstne.datasets, "load_debian", lambda: interactions(blocks(400, 150)))
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, names)
    assert set(names["search"].best_params_) >= {"method", "regularization"}
