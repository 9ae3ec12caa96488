"""Odd values of any parameter give a right result or an exception of this package, and nothing hangs."""

import inspect
import pathlib
import resource

import numpy as np
import pyarrow
import pyarrow.feather
import pytest
import scipy.sparse
from odd_values import ODD, X
from public_calls import FILTER, LAYERS, RIDGE, calls, network_model, run

import dsstne

# ---- what is public ----

RECORDS = {"Progress", "netcdf.Data", "netcdf.DataSet"}  # classes that only hold values, which users do not make
ATTRIBUTES = ("Model.history", "Model.attributes")  # that users may set
FORWARDS = {"Model.embed": "predict", "Model.scores": "predict", "Model.similar_items": "neighbors"}  # **options
FORWARDS |= {"Recommender.recommend": "recommend"}
FORWARDS |= {"export.query_vectors": "predict"}


def parameters(function):
    """Returns the names of the parameters of a function or a setter, and their defaults."""
    if isinstance(function, property):
        return {"value": inspect.Parameter.empty}
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    listed = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in listed if one.name != "self" and one.kind not in kinds}


def is_ours(function):
    """Reports whether a method is not one that scikit-learn gives to its estimators."""
    return not (getattr(function, "__module__", None) or "").startswith("sklearn")


def public():
    """Returns the parameters of every public function, constructor, method and setter by its name."""
    found = {name: {"value": inspect.Parameter.empty} for name in ATTRIBUTES}

    def visit(name, thing):
        if inspect.ismodule(thing):
            for inner in thing.__all__ if thing is not dsstne.errors else ():
                visit(f"{name}.{inner}", getattr(thing, inner))
        elif thing is dsstne.Interactions and name != "Interactions":
            return  # the same under another name
        elif inspect.isclass(thing) and not issubclass(thing, Exception):
            if name not in RECORDS:
                found[name] = parameters(thing)
            called_by_fit = dir(dsstne.callbacks.Callback) if issubclass(thing, dsstne.callbacks.Callback) else ()
            for inner in filter(lambda inner: not inner.startswith("_") and inner not in called_by_fit, dir(thing)):
                member = inspect.getattr_static(thing, inner)
                if isinstance(member, property) and member.fset:
                    found[f"{name}.{inner}"] = parameters(member)
                elif inspect.isroutine(getattr(thing, inner)) and is_ours(getattr(thing, inner)):
                    found[f"{name}.{inner}"] = parameters(getattr(thing, inner))
        elif inspect.isroutine(thing):
            found[name] = parameters(thing)

    for name in dsstne.__all__:
        visit(name, getattr(dsstne, name))
    for name, target in FORWARDS.items():
        found[name] = {**found[f"Model.{target}"], **found[name]}
    for name, dropped in (
        ("Model.scores", "layer"),
        ("Model.similar_items", "queries"),
        ("Model.similar_items", "tensor"),
    ):
        del found[name][dropped]  # the method itself gives it
    return found


# ---- what an odd value means, where it is taken ----

MEANS = {
    **dict.fromkeys(["an enum", "int8"], 2),
    **dict.fromkeys(["a 0-d array", "a scalar of arrow"], 1),
    **dict.fromkeys(["float16", "longdouble"], 0.5),
    **dict.fromkeys(["a str of numpy", "a subclass of str", "bytes"], "cpu"),
    **dict.fromkeys(["bsr", "dia"], X),
    "-0.0": 0,
    "bool of numpy": True,
    "a range": [0, 1],
    "a view": [1, 2],
    "no numbers": [],
    "a table": [[1]],
    "an array of str": ["a", "b"],
}
DEFAULT = {"None", "an empty dict", "a dict of None"}  # mean what the default is
NONE = {
    "denoising": 0.0,
    "input_scaling": "none",
    "temperature": None,
    "learning_rate": 1e-3,
    "schedule": None,
    "precision": "float32",
}  # but here None is not the default

SPLITTERS = dsstne.model_selection.__all__
SHAPES = {"a matrix of NaN", "a complex matrix", "a closed dataset", "a matrix without columns", "a damaged matrix"}
IDS = {"0", "an empty list", "a pair"}
TEXTS = {"an empty str", "a long str", "NUL", "a surrogate", "an accent", "braces"}
FLOATS = {"1.5", "2**31", "2**63", "2**64"}
FLAG = {"True", "False"}

# The odd values that are plain and right, by parameter, or by function and parameter.
PLAIN = {
    "X": {"a matrix without rows"},
    "datasets.hold_out X": {"a matrix without rows", "a matrix without columns", "a complex matrix"},
    "temperature": FLOATS,
    "learning_rate": {*FLOATS, "5e-324", "1e308"},
    "weight_decay": {*FLOATS, "0"},
    "wait": {"1.5", "5e-324"},
    "max_seconds": {*FLOATS, "5e-324", "1e308"},
    "seconds": {*FLOATS, "5e-324", "1e308"},
    **{key: {"0"} for key in ("denoising", "dropout", "threads")},
    "fraction": {"0", "5e-324"},
    "epochs": {"0", "2**31"},
    "seed": {"0", "2**31", "2**63"},
    "core": {"0", "2**31"},
    "datasets.fetch_amazon core": {"0"},
    "minimum_rating": {"1.5", "5e-324"},
    "folder": {"an empty str", "an accent", "braces", "a folder", "a str of numpy", "a subclass of str"},
    "Dataset.from_text memory_limit": {"0", "2**31"},
    "Dataset.from_text default_value": {*FLOATS, "0", "-1", "-2**63"},
    **{key: {"an empty list", "a pair", "a list of str", "a generator"} for key in ("features", "samples", "labels")},
    "size": set(),
    "item": {"0"},
    **{key: {"2**31"} for key in ("item_knn k", "rp3beta k", "iterations", "oversampling")},
    **{f"linear {key}": {"0", "1.5", "5e-324"} for key in RIDGE},
    "linear dropout": {"0", "5e-324"},
    "linear regularization": FLOATS,
    "linear per_item": {"None", "2**31", "2**63", "2**64"},
    **{f"factorize {key}": FLOATS for key in ("regularization", "alpha", "unobserved_weight")},
    "factorize nu": {"0", "1.5", "5e-324"},
    "factorize epochs": set(),
    "k1": {*FLOATS, "5e-324", "1e308"},
    "b": {"0", "5e-324"},
    "tfidf_weight X": {"a matrix without rows", "a matrix without columns"},
    "shrink": {*FLOATS, "0", "5e-324", "1e308"},
    **{key: {"0", "1.5", "5e-324"} for key in ("alpha", "beta")},
    **{key: {"0", "-1", "1.5", "5e-324"} for key in FILTER},
    **{key: {"0", "1.5", "5e-324"} for key in ("low_pass", "sharpening")},
    "balanced": FLAG,
    **{f"{key} steps": {"None", "2**31"} for key in ("Trainer.run", "Recommender.partial_fit")},
    **{key: {"2**31"} for key in ("batch_size", "memory_limit")},
    **dict.fromkeys(["tied", "progress", "per_row", "keep", "allow_not_finite", "exclude_seen"], FLAG),
    **dict.fromkeys(["checkpoints", "background", "resume"], FLAG),
    **{f"Model.{name} activation": FLAG for name in ("predict", "scores", "embed")},
    "export.query_vectors activation": FLAG,
    **dict.fromkeys(["netcdf.read as_target", "netcdf.write boolean"], FLAG),
    "Model.check_gradients elements": {"2**31"},
    "Model.check_gradients tolerance": {*FLOATS, "5e-324", "1e308"},
    **dict.fromkeys(["include_self", "shuffle", "last", "return_names", "Model.same_items value"], FLAG),
    "items": {*IDS, "a list of str"},
    "filter_items": {*IDS, "a list of str"},
    **dict.fromkeys(["filter_users", "rows", "queries"], IDS),
    "users": {*IDS, "a matrix without rows"},
    "ids": {*IDS, "-1"},
    "Dataset index": {"an empty list", "a pair"},
    "Dataset offset": {"0"},
    "Dataset.from_csr indptr": {"a pair"},
    "Model.items value": {"None", "a list of str"},
    "Model.history value": {"an empty list"},
    "Model.attributes value": {"an empty dict"},
    "evaluate exclude": {"None"},
    "on_progress": {"a class", "a function"},
    **{key: {"an accent", "braces", "a folder"} for key in ("path", "checkpoint")},
    **dict.fromkeys(["checkpoint_every", "memory", "eta", "jobs"], frozenset({"2**31"})),
    "disk_limit": {"0", "2**31"},
    "sampler": {"a class", "a function"},
    **{key: {"an empty list"} for key in ("callbacks", "metrics", "locked", "stored_only")},
    "names": {"an empty list", "a list of str"},
    "Interactions.matrix_of rows": {"an empty list", "a list of str"},
    **dict.fromkeys(["y", "groups", *(f"model_selection.{name}.get_n_splits X" for name in SPLITTERS)], frozenset(ODD)),
    **{f"model_selection.{name}.split X": SHAPES for name in ("UserKFold", "UserShuffleSplit")},
    "before": {"1.5", "5e-324"},
    "description": TEXTS,
    "matrix": {"a matrix without rows", "a matrix without columns"},
    **dict.fromkeys(
        ["item_names", "row_descriptions", "item_descriptions"], frozenset({"an empty list", "a list of str"})
    ),
    "n": {"2**31"},
    "Interactions.from_frame items": {"an array of str", "a list of str"},
    "every": {"2**31"},
    "rates": {"a set", "two numbers", "a class"},
    "callbacks.TensorBoard folder": {*TEXTS - {"NUL"}, "no bytes", "a folder"},
    **{key: {*TEXTS - {"NUL"}, "no bytes", "a folder"} for key in ("Recommender store", "search store")},
    "callbacks.EarlyStopping metric": {"None"},
    "patience": {"None", "2**31"},
    "min_delta": {*FLOATS, "0", "5e-324", "1e308"},
    **dict.fromkeys(["restore_best", "refit", "other_data"], FLAG),
    "plots.learning_curve baseline": {"a dict"},
    **{f"metrics.{key} items": {"2**31"} for key in ("coverage", "gini")},
    "plots.embedding_map labels": {"0", "2**31"},
    "plots.embedding_map groups": {"a list of str"},
    "compare groups": {"an array of objects"},
    "level": {"5e-324"},
    "ks": {"a set"},
    **dict.fromkeys(["baseline_name", "title"], TEXTS),
}

PLAIN |= {f"Recommender {key}": PLAIN[f"linear {key}"] for key in ("regularization", *RIDGE, "per_item")}
PLAIN |= {"y": set(ODD), "random_state": PLAIN["seed"]}

# What only the limit of time ends.
ENDLESS = {("epochs", "2**31"), ("steps", "2**31"), ("steps", "None")}

# What a function or an object of the caller raises itself passes through.
THEIRS = {"a class": TypeError, "a function": TypeError, "a closed file": (ValueError, TypeError)}


def seen(result):
    """Returns what can be compared of a result."""
    if isinstance(result, dsstne.Model):
        shown = {name: seen(result.tensor(name)) for name in result.tensors}
        return shown, seen(result.items), result.attributes
    if isinstance(result, dsstne.Dataset):
        return repr(result), result.info["minimum"]
    if isinstance(result, np.ndarray):
        return result.shape, result.tolist() if result.dtype == object else result.tobytes()
    if scipy.sparse.issparse(result):
        return seen(result.toarray())
    if isinstance(result, dict):
        return {key: seen(value) for key, value in result.items() if key != "available"}
    if isinstance(result, (tuple, list)):
        return [seen(value) for value in result]
    return repr(result) if isinstance(result, float) else result  # of which NaN is no exception


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """A folder to work in, and a limit of the memory that a call can take."""
    folder = tmp_path_factory.mktemp("odd") / "working"
    folder.mkdir()
    rows = pyarrow.array([[0, 2], [3]], pyarrow.list_(pyarrow.int32()))
    pyarrow.feather.write_feather(pyarrow.table({"a": rows}), folder / "data.arrow", compression="uncompressed")
    dsstne.Dataset(X).save(folder / "saved.arrow")
    (folder / "text.txt").write_text("s\ta:b\n")
    dsstne.write_index(folder / "index.txt", ["a", "b"])
    for name in ("model.dsstne", "\u00e9", "{}", "cpu"):
        dsstne.popularity(X).save(folder / name)
    dsstne.Model({"layers": LAYERS, "loss": "sigmoid"}).save(folder / "net.nc")
    dsstne.netcdf.write(folder / "data.nc", {"x": X})
    dsstne.neighbors.Index(np.eye(4)).save(folder / "index.dsstne")
    with dsstne.Trainer(network_model(), X, devices="cpu", threads=1) as trainer:
        trainer.save(folder / "run.checkpoint")
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 30), before[1]))
        yield
        resource.setrlimit(resource.RLIMIT_AS, before)
    dsstne.keep_devices(True)


@pytest.fixture(scope="module")
def table():
    return calls()


def test_every_parameter_of_what_is_public_is_in_the_table(table):
    assert {name: sorted(given) for name, (_, given) in table.items()} == {
        name: sorted(defaults) for name, defaults in public().items()
    }


def answer(call, given):
    """Returns what a call gives: its result, or an error of this package."""
    try:
        return seen(call(**given))
    except dsstne.DsstneError as error:
        return type(error) if 10 < len(str(error)) < 1024 else f"a message of {len(str(error))} characters"


def badly_answered(call):
    """Returns the errors, by the odd value, of ``call(word, value)`` that are neither this package's nor expected."""
    wrong = {}
    for word, make in ODD.items():
        try:
            call(word, make())
        except dsstne.DsstneError as error:
            if not 10 < len(str(error)) < 1024:
                wrong[word] = error
        except THEIRS.get(word, ()):
            continue
        except BaseException as error:
            wrong[word] = error
    return wrong


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:all held-out items are excluded")
@pytest.mark.filterwarnings("ignore:auto returns popularity")
@pytest.mark.filterwarnings("ignore:last=True, but most rows of X are sorted")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("plots.")) for name in public()]
)
def test_odd_values_are_taken_as_what_they_mean_or_refused(name, table):
    call, usual = table[name]
    defaults = public()[name]
    expected = answer(call, usual)
    assert not isinstance(expected, type), expected
    wrong = {}
    for parameter in usual:
        plain = PLAIN.get(f"{name} {parameter}", PLAIN.get(parameter, set()))
        for word, make in ODD.items():
            given = usual | {parameter: make()}
            if (parameter, word) in ENDLESS:
                given |= {key: 0.02 for key in ("max_seconds", "seconds") if key in usual}
                given |= {"budget": "0.5 s"} if "budget" in usual else {}
            try:
                got = answer(call, given)
            except THEIRS.get(word, ()):
                continue
            except BaseException as error:
                got = error
            if isinstance(got, type) or word in plain:
                continue
            given = dict(usual)
            if word in MEANS:
                given[parameter] = MEANS[word]
            elif word in DEFAULT and defaults[parameter] is not inspect.Parameter.empty:
                given[parameter] = NONE.get(parameter, defaults[parameter])
            else:
                wrong[parameter, word] = got
                continue
            if parameter not in ("max_seconds", "seconds") and got != answer(call, given):
                wrong[parameter, word] = got
    assert not wrong


def test_more_threads_than_are_useful_are_not_started():
    model = dsstne.popularity(X)
    usual, many = (model.plan(devices="cpu", k=2, threads=n)["devices"][0]["threads"] for n in (None, 4096))
    assert many == max(64, 4 * usual)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"threads is -1; .*\(0: as many as the process may use"):
        model.recommend(X, k=2, threads=-1)


class MineError(Exception):
    """An error of the caller's own code."""


class Raising:
    """Fails at whatever is done with it."""

    def fail(self, *_, **__):
        raise MineError

    __index__ = __array__ = __iter__ = __fspath__ = __call__ = fail


THROUGH = {
    "k": lambda bad: dsstne.popularity(X).recommend(X, k=bad),
    "rows": lambda bad: dsstne.popularity(X).recommend(X, k=1, rows=bad),
    "X": lambda bad: dsstne.fit(bad, progress=False),
    "items": lambda bad: dsstne.popularity(X, items=bad),
    "path": dsstne.load,
    "network": dsstne.Model,
    "callbacks": lambda bad: dsstne.fit(X, hidden=2, epochs=1, progress=False, callbacks=bad),
    "epochs": lambda bad: run(epochs=bad),
}


@pytest.mark.parametrize("call", THROUGH.values(), ids=THROUGH.keys())
def test_what_an_object_of_the_caller_raises_passes_through(call):
    with pytest.raises(MineError):
        call(Raising())


def test_unknown_and_missing_arguments_are_errors_of_python():
    model = network_model()
    for call in (dsstne.fit, dsstne.evaluate, dsstne.load, dsstne.Dataset, dsstne.Model, model.recommend, model.embed):
        with pytest.raises(TypeError, match="argument"):
            call()
        with pytest.raises(TypeError, match="unexpected keyword argument 'surprise'"):
            call(**{next(iter(inspect.signature(call).parameters)): X}, surprise=1)
