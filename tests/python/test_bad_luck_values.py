"""Odd values of any parameter give a right result or an exception of this package, and nothing hangs."""

import datetime
import enum
import gzip
import inspect
import io
import os
import pathlib
import pickle
import resource
import threading
import types
import zipfile
from decimal import Decimal
from fractions import Fraction

import matplotlib.figure
import numpy as np
import pandas
import pyarrow
import pyarrow.feather
import pytest
import scipy.sparse

import dsstne
from dsstne._tables import Profile
from dsstne.datasets import _fetch

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1]], np.float32)
X = scipy.sparse.csr_array(DENSE)


class Two(enum.IntEnum):
    """An int that is not only an int."""

    value_of_two = 2


class Text(str):
    """A str that is not only a str."""


def nested(levels, inside):
    for _ in range(levels):
        inside = [inside]
    return inside


def endless():
    value = {}
    value["a"] = [value]
    return value


def closed(thing):
    thing.close()
    return thing


# Functions that make the values, because a generator can be used only once.
ODD = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "-0.0": lambda: -0.0,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: -float("inf"),
    "1e308": lambda: 1e308,
    "5e-324": lambda: 5e-324,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "-2**63": lambda: -(2**63),
    "10**400": lambda: 10**400,
    "-10**5000": lambda: -(10**5000),
    "an enum": lambda: Two.value_of_two,
    "bytes": lambda: b"cpu",
    "no bytes": lambda: b"",
    "an empty str": lambda: "",
    "a long str": lambda: "x" * 100_000,
    "NUL": lambda: "a\0b",
    "a surrogate": lambda: "\ud800",
    "an accent": lambda: "\u00e9",
    "braces": lambda: "{}",
    "a str of numpy": lambda: np.str_("cpu"),
    "a subclass of str": lambda: Text("cpu"),
    "a set": lambda: {1, 2},
    "an empty dict": dict,
    "a dict": lambda: {1: 2},
    "a dict of None": lambda: {"kind": None},
    "an endless dict": endless,
    "an empty list": list,
    "a list of lists": lambda: [[1], [2, 3]],
    "a deep list": lambda: nested(5000, 1),
    "a pair": lambda: (0, 1),
    "a list of None": lambda: [None],
    "a list of str": lambda: ["a", "b", "c", "d"],
    "a range": lambda: range(2),
    "a generator": lambda: (n for n in range(2)),
    "a view": lambda: memoryview(b"\1\2"),
    "a 0-d array": lambda: np.array(1),
    "two numbers": lambda: np.array([1.0, 2.0]),
    "no numbers": lambda: np.array([]),
    "float16": lambda: np.float16(0.5),
    "longdouble": lambda: np.longdouble(0.5),
    "int8": lambda: np.int8(2),
    "bool of numpy": lambda: np.bool_(True),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64": lambda: np.timedelta64(1, "s"),
    "an array of objects": lambda: np.array([1, "a", None], object),
    "an array of str": lambda: np.array(["a", "b"]),
    "a record array": lambda: np.zeros(2, [("a", "i4")]),
    "an array of complex": lambda: np.array([[1j]]),
    "a masked array": lambda: np.ma.masked_array([1, 2], [0, 1]),
    "three dimensions": lambda: np.zeros((1, 2, 2)),
    "a matrix of NaN": lambda: np.full((3, 4), np.nan),
    "complex": lambda: 1j,
    "Decimal": lambda: Decimal("0.5"),
    "Decimal NaN": lambda: Decimal("sNaN"),
    "Fraction": lambda: Fraction(1, 2),
    "a date": lambda: datetime.datetime(2020, 1, 1),
    "a class": lambda: int,
    "a function": lambda: len,
    "a module": lambda: types,
    "an object": object,
    "a closed file": lambda: closed(io.StringIO()),
    "a closed model": lambda: closed(dsstne.popularity(X)),
    "a closed dataset": lambda: closed(dsstne.Dataset(X)),
    "a folder": lambda: pathlib.Path.cwd(),
    "a row": lambda: X[0],
    "bsr": lambda: scipy.sparse.bsr_array(DENSE),
    "dia": lambda: scipy.sparse.dia_matrix(DENSE),
    "a complex matrix": lambda: X * 1j,
    "a matrix without rows": lambda: scipy.sparse.csr_array((0, 4)),
    "a matrix without columns": lambda: scipy.sparse.csr_array((3, 0)),
    "a damaged matrix": lambda: damaged_matrix(),
    "NA of pandas": lambda: pandas.NA,
    "NaT of pandas": lambda: pandas.NaT,
    "a scalar of arrow": lambda: pyarrow.scalar(1),
    "a table": lambda: pyarrow.table({"a": [1]}),
}


def damaged_matrix():
    matrix = X.copy()
    matrix.indices = matrix.indices + 2**30
    return matrix


LAYERS = [
    {"name": "in", "kind": "input", "size": 4},
    {"name": "h", "kind": "hidden", "size": 2},
    {"name": "out", "kind": "output", "size": 4},
]
COMPUTE = {"devices": lambda: "cpu", "threads": lambda: 1, "memory_limit": lambda: 50_000_000}
LEARN = {
    "optimizer": lambda: "adam",
    "learning_rate": lambda: 1e-3,
    "weight_decay": lambda: 0.0,
    "schedule": lambda: None,
    "batch_size": lambda: 2,
    "seed": lambda: 0,
    "parallel": lambda: "auto",
    "precision": lambda: "float32",
    **COMPUTE,
}
RIDGE = ["regularization_exponent", "dropout", "row_exponent", "item_exponent", "output_exponent"]
FILTER = [
    "row_exponent",
    "first_in",
    "first_out",
    "low_pass",
    "low_pass_exponent",
    "sharpening",
    "output_exponent",
]
RANK = {"items": lambda: None, "filter_items": lambda: None, "rows": lambda: None, "layer": lambda: None}


def network_model():
    return dsstne.Model({"layers": LAYERS}, seed=1)


def matrix():
    return X


def named(value):
    model = network_model()
    model.items = value
    return model


def same(value):
    model = network_model()
    model.same_items = value
    return model.same_items


def replaced(name, values):
    model = network_model()
    model.set_tensor(name, values)
    return model


def calls():
    """Returns every public function and method with a valid value of each parameter."""
    model = network_model()
    model.items = ["a", "b", "c", "d"]
    trainer = dsstne.Trainer(network_model(), X, devices="cpu", threads=1)
    saved = lambda path: (model.save(path), dsstne.load(path))[1]  # noqa: E731
    debian = small_interactions()
    figure = matplotlib.figure.Figure(figsize=(1, 1))
    axes = figure.add_subplot()
    figure.savefig = lambda path, **_: matplotlib.figure.Figure.savefig(figure, path, dpi=10)  # 0.3 s less than usual

    def plot(name):
        def draw(**given):
            try:
                return getattr(dsstne.plots, name)(**given).get_title(loc="left")
            finally:
                for other in figure.axes[1:]:
                    other.remove()
                axes.clear()

        return draw

    drawing = {"title": lambda: None, "ax": lambda: axes, "path": lambda: None}
    rows = {"recall@2": np.array([0.5, np.nan, 1.0])}
    compared = dsstne.compare({"a": rows, "b": rows}, resamples=100)
    profiled = Profile(operations=[], outside={"batch": 1.0}, milliseconds=1.0, steps=1)
    report = dsstne.report.Report(
        "recall@2", "", "", "", 0.0, [dsstne.report.table_row("recall@2", "item_knn", "", 0.5)], []
    )
    ids = {"ids": lambda: [[0, 2], [1, -1], [3, 0]]}

    serve = {"exclude_seen": lambda: None, "wait": lambda: None, "batch_size": lambda: 2, **COMPUTE}
    serve |= {name: RANK[name] for name in ("items", "filter_items", "layer")}
    predictor = model.predictor(2)
    predict = {"rows": lambda: None, "batch_size": lambda: 2, **COMPUTE}
    solve = {"items": lambda: None, "seed": lambda: 0, "max_seconds": lambda: 1000, "progress": lambda: False}
    solve |= COMPUTE
    near = {"metric": lambda: "dot", "include_self": lambda: False, "items": lambda: None, "filter_items": lambda: None}
    near |= {"devices": lambda: "cpu", "threads": lambda: 1}
    find = {"names": lambda: ["a"], "unknown": lambda: "raise"}
    return {
        "fit": (
            dsstne.fit,
            {
                "X": matrix,
                "targets": lambda: None,
                "network": lambda: None,
                "items": lambda: None,
                "hidden": lambda: 2,
                "activation": lambda: "tanh",
                "loss": lambda: "softmax",
                "temperature": lambda: None,
                "tied": lambda: False,
                "input_scaling": lambda: None,
                "denoising": lambda: 0.5,
                "dropout": lambda: 0.0,
                "epochs": lambda: 1,
                "validation": lambda: None,
                "max_seconds": lambda: 1000,
                "progress": lambda: False,
                "callbacks": lambda: None,
                "checkpoint": lambda: "run",
                "checkpoint_every": lambda: 1,
                "resume": lambda: False,
                **LEARN,
            },
        ),
        "popularity": (dsstne.popularity, {"X": matrix, "items": lambda: None}),
        "auto": (
            dsstne.auto,
            {
                "X": matrix,
                "metric": lambda: "recall@2",
                "seconds": lambda: 10,
                "times": lambda: None,
                "validation": lambda: None,
                **{key: value for key, value in solve.items() if key != "max_seconds"},
            },
        ),
        "item_knn": (
            dsstne.item_knn,
            {"X": matrix, "k": lambda: 2, "metric": lambda: "dice", "shrink": lambda: 1.0, **solve},
        ),
        "rp3beta": (
            dsstne.rp3beta,
            {"X": matrix, "k": lambda: 2, "alpha": lambda: 0.5, "beta": lambda: 0.5, **solve},
        ),
        "linear": (
            dsstne.linear,
            {
                "X": matrix,
                "method": lambda: "iterative",
                "per_item": lambda: 2,
                "regularization": lambda: 1.5,
                **dict.fromkeys(RIDGE, lambda: 0.5),
                "neighbors": lambda: 2,
                "probes": lambda: 2,
                "tolerance": lambda: 0.01,
                **solve,
            },
        ),
        "spectral": (
            dsstne.spectral,
            {
                "X": matrix,
                "rank": lambda: 2,
                "method": lambda: "f",
                **dict.fromkeys(FILTER, lambda: 0.5),
                "balanced": lambda: True,
                "oversampling": lambda: None,
                "iterations": lambda: 1,
                **solve,
            },
        ),
        "svd": (
            dsstne.svd,
            {
                "X": matrix,
                "k": lambda: 2,
                "oversampling": lambda: None,
                "iterations": lambda: 1,
                **{key: value for key, value in solve.items() if key != "items"},
            },
        ),
        "factorize": (
            dsstne.factorize,
            {
                "X": matrix,
                "method": lambda: "ials",
                "factors": lambda: 2,
                "regularization": lambda: 0.1,
                "alpha": lambda: 1.0,
                "unobserved_weight": lambda: 0.1,
                "nu": lambda: 1.0,
                "epochs": lambda: 1,
                **solve,
            },
        ),
        "blend": (
            dsstne.blend,
            {
                "models": lambda: [model],
                "X": matrix,
                "validation": matrix,
                "weights": lambda: None,
                "scales": lambda: None,
                "metric": lambda: "recall@2",
                **solve,
                **COMPUTE,
            },
        ),
        "tfidf_weight": (dsstne.tfidf_weight, {"X": matrix}),
        "bm25_weight": (dsstne.bm25_weight, {"X": matrix, "k1": lambda: 1.2, "b": lambda: 0.75}),
        "evaluate": (
            dsstne.evaluate,
            {
                "model": lambda: model,
                "X_in": matrix,
                "X_held_out": matrix,
                "metrics": lambda: "recall@2",
                "exclude": lambda: None,
                "per_row": lambda: False,
                "batch_size": lambda: 2,
                **RANK,
                **COMPUTE,
            },
        ),
        "load": (dsstne.load, {"path": lambda: "model.dsstne", "threads": lambda: 1}),
        "keep_devices": (dsstne.keep_devices, {"keep": lambda: True}),
        "set_limits": (limits, {"memory": lambda: 1 << 40, "threads": lambda: 1}),
        "doctor": (dsstne.doctor, {}),
        "Dataset": (dsstne.Dataset, {"X": matrix, "columns": lambda: 4, "allow_not_finite": lambda: False}),
        "Dataset.from_file": (
            dsstne.Dataset.from_file,
            {"path": lambda: "data.arrow", "columns": lambda: 4, "allow_not_finite": lambda: False},
        ),
        "Dataset.open": (dsstne.Dataset.open, {"path": lambda: "saved.arrow"}),
        "Dataset.save": (
            dsstne.Dataset(X).save,
            {"path": lambda: "saved.arrow", "items": lambda: None, "rows": lambda: None, "threads": lambda: 1},
        ),
        "Dataset.product": (
            dsstne.Dataset.product,
            {"X": matrix, "F": lambda: scipy.sparse.eye_array(4, format="csr"), "threads": lambda: 1},
        ),
        "Dataset.close": (lambda: dsstne.Dataset(X).close(), {}),
        "Dataset.column_counts": (lambda: dsstne.Dataset(X).column_counts(), {}),
        "Model": (
            dsstne.Model,
            {
                "network": lambda: {"layers": LAYERS},
                "sizes": lambda: None,
                "seed": lambda: 0,
                "items": lambda: None,
            },
        ),
        "Model.from_item_weights": (dsstne.Model.from_item_weights, {"W": lambda: np.eye(4), "items": lambda: None}),
        "Model.items": (named, {"value": lambda: None}),
        "Model.same_items": (same, {"value": lambda: True}),
        "Model.history": (kept("history"), {"value": list}),
        "Model.attributes": (kept("attributes"), {"value": dict}),
        "Model.close": (lambda: network_model().close(), {}),
        "Model.copy": (lambda: model.copy(), {}),
        "Model.parts": (lambda: dsstne.blend([model]).parts(), {}),
        "Model.save": (saved, {"path": lambda: "saved.dsstne"}),
        "Model.tensor": (model.tensor, {"name": lambda: "out.bias"}),
        "Model.set_tensor": (
            replaced,
            {"name": lambda: "out.bias", "values": lambda: [1, 2, 3, 4]},
        ),
        "Model.names": (model.names, {"ids": lambda: [0, -1]}),
        "Model.ids": (model.ids, {"names": lambda: ["b", "a"], "unknown": lambda: "raise"}),
        "Model.recommend": (
            model.recommend,
            {
                "X": matrix,
                "k": lambda: 2,
                "exclude_seen": lambda: None,
                "exclude": lambda: None,
                "batch_size": lambda: 2,
                **RANK,
                **COMPUTE,
            },
        ),
        "Model.predict": (model.predict, {"X": matrix, "layer": lambda: None, **predict}),
        "Model.embed": (model.embed, {"X": matrix, "layer": lambda: None, **predict}),
        "Model.scores": (model.scores, {"X": matrix, "items": lambda: [1, 0], **predict}),
        "Model.neighbors": (
            model.neighbors,
            {"queries": lambda: [1], "k": lambda: 2, "tensor": lambda: None, **near},
        ),
        "Model.similar_items": (
            model.similar_items,
            {"items": lambda: [1], "k": lambda: 2, **{k: v for k, v in near.items() if k != "items"}},
        ),
        "Model.similar_users": (
            model.similar_users,
            {
                "users": lambda: [1],
                "X": matrix,
                "k": lambda: 2,
                "layer": lambda: None,
                "filter_users": lambda: None,
                "batch_size": lambda: 2,
                **{name: near[name] for name in ("metric", "include_self")},
                **COMPUTE,
            },
        ),
        "Model.explain": (
            model.explain,
            {"x": lambda: X[[1]], "item": lambda: 1, **COMPUTE},
        ),
        "Model.explain_parts": (
            dsstne.blend([model]).explain_parts,
            {"x": lambda: X[[1]], "item": lambda: 1, **COMPUTE},
        ),
        "Model.plan": (
            model.plan,
            {"X": matrix, "k": lambda: 2, "layer": lambda: None, "batch_size": lambda: 2, **COMPUTE},
        ),
        "Model.predictor": (
            lambda **given: asked(lambda: model.predictor(**given)),
            {"k": lambda: 2},
        ),
        "OpenPredictor": (
            lambda **given: asked(lambda: dsstne.OpenPredictor(**given)),
            {"model": lambda: model, "k": lambda: 2, **serve},
        ),
        "OpenPredictor.recommend": (
            predictor.recommend,
            {"X": matrix, "k": lambda: 2, "exclude": lambda: None},
        ),
        "OpenPredictor.plan": (predictor.plan, {}),
        "OpenPredictor.close": (lambda: model.predictor(2).close(), {}),
        "Recommender": (
            estimated,
            {
                **dict.fromkeys(inspect.signature(dsstne.Recommender).parameters, lambda: "default"),
                "method": lambda: "linear",
                "variant": lambda: "iterative",
                "metric": lambda: "recall@2",
                "random_state": lambda: 0,
                "progress": lambda: False,
                **COMPUTE,
            },
        ),
        "Recommender.fit": (
            lambda **given: recommender("linear").fit(**given).model_,
            {"X": matrix, "y": lambda: None, "sample_weight": lambda: [1, 1, 2], "eval_set": lambda: None},
        ),
        "Recommender.partial_fit": (
            lambda **given: recommender("network").partial_fit(**given).model_,
            {"X": matrix, "y": lambda: None, "sample_weight": lambda: None},
        ),
        "Recommender.fit_transform": (recommender("network").fit_transform, {"X": matrix, "y": lambda: None}),
        "Recommender.transform": (recommender("network").fit(X).transform, {"X": matrix}),
        "Recommender.predict": (recommender("linear").fit(X).predict, {"X": matrix}),
        "Recommender.score": (recommender("linear").fit(X).score, {"X": matrix, "y": lambda: None}),
        "Recommender.recommend": (
            recommender("linear").fit(X).recommend,
            {
                "X": matrix,
                "k": lambda: 2,
                "exclude_seen": lambda: None,
                "exclude": lambda: None,
                "batch_size": lambda: 2,
                **RANK,
                **COMPUTE,
            },
        ),
        "Trainer": (
            trained,
            {
                "model": network_model,
                "X": matrix,
                "targets": lambda: None,
                "shuffle": lambda: True,
                "checkpoints": lambda: True,
                **LEARN,
            },
        ),
        "Trainer.save": (save, {"path": lambda: "saved", "background": lambda: False}),
        "Trainer.settle": (trainer.settle, {}),
        "Trainer.resume": (
            resume,
            {
                "path": lambda: "run.checkpoint",
                "X": matrix,
                "targets": lambda: None,
                "checkpoints": lambda: False,
                **{key: LEARN[key] for key in ("learning_rate", "schedule", "parallel")},
                **COMPUTE,
            },
        ),
        "Trainer.fork": (
            fork,
            {**{key: LEARN[key] for key in ("learning_rate", "weight_decay", "schedule")}, **COMPUTE},
        ),
        "Trainer.plan": (trainer.plan, {}),
        "Trainer.profile": (profile, {"steps": lambda: 1, "on_progress": lambda: None}),
        "Trainer.run": (
            run,
            {
                "steps": lambda: 1,
                "epochs": lambda: None,
                "seconds": lambda: 1000,
                "on_progress": lambda: None,
            },
        ),
        "Trainer.cancel": (trainer.cancel, {}),
        "Trainer.close": (lambda: dsstne.Trainer(network_model(), X).close(), {}),
        "datasets.load_debian": (lambda: small_interactions().matrix, {}),
        **{
            f"datasets.{function.__name__}": (
                downloaded(function, body),
                {**more, "folder": lambda: "data", "progress": lambda: False},
            )
            for function, body, more in (
                (
                    dsstne.datasets.fetch_movielens,
                    zipped_films(),
                    {"size": lambda: "100k", "minimum_rating": lambda: None},
                ),
                (dsstne.datasets.fetch_gowalla, gzip.compress(b"1\t2010-01-01T00:00:00Z\t0.5\t-1\t7\n"), {}),
                (dsstne.datasets.fetch_gowalla_split, b"0 0\n0 0\n", {}),
                (
                    dsstne.datasets.fetch_amazon,
                    gzip.compress(b"user_id,parent_asin,rating,timestamp\na,b,5.0,1\n"),
                    {"category": lambda: "Books", "core": lambda: 0, "minimum_rating": lambda: None},
                ),
            )
        },
        "datasets.hold_out": (
            dsstne.datasets.hold_out,
            {"X": matrix, "fraction": lambda: 0.5, "seed": lambda: 0, "last": lambda: False, "core": lambda: 0},
        ),
        "Interactions": (
            lambda **given: contents(dsstne.Interactions(**given)),
            {
                "matrix": lambda: X.astype(np.float32),
                **dict.fromkeys(["row_names", "item_names", "times"], lambda: None),
                **dict.fromkeys(["row_descriptions", "item_descriptions"], list),
                "description": lambda: "",
            },
        ),
        "Interactions.from_frame": (
            lambda **given: contents(dsstne.Interactions.from_frame(**given)),
            {
                "df": lambda: {"user": [1, 2, 2], "item": ["a", "b", "a"], "v": [1, 2, 3], "t": [1, 2, 3]},
                "user": lambda: "user",
                "item": lambda: "item",
                "value": lambda: "v",
                "time": lambda: "t",
                "users": lambda: None,
                "items": lambda: None,
                "unknown": lambda: "raise",
                "duplicates": lambda: "sum",
            },
        ),
        "Interactions.users": (lambda **given: contents(debian.users(**given)), find),
        "Interactions.rows": (debian.rows, find),
        "Interactions.items": (debian.items, find),
        "Interactions.matrix_of": (debian.matrix_of, {"rows": lambda: [["a"]], "unknown": lambda: "raise"}),
        "Interactions.similar_items": (
            debian.similar_items,
            {"model": lambda: dsstne.item_knn(X, progress=False), **find, "k": lambda: 2},
        ),
        **splitters(),
        "callbacks.Callback": (with_callback("Callback"), {}),
        "callbacks.TimeBudget": (with_callback("TimeBudget"), {"seconds": lambda: 1000}),
        "callbacks.LearningRate": (with_callback("LearningRate"), {"rates": lambda: [0.1]}),
        "callbacks.Checkpoint": (with_callback("Checkpoint"), {"path": lambda: "run", "every": lambda: 1}),
        "callbacks.CSVLogger": (with_callback("CSVLogger"), {"path": lambda: "log.csv"}),
        "callbacks.TensorBoard": (lambda **given: vars(dsstne.callbacks.TensorBoard(**given)), {"folder": lambda: "a"}),
        "callbacks.MLflow": (dsstne.callbacks.MLflow, {}),
        "callbacks.EarlyStopping": (
            with_callback("EarlyStopping"),
            {
                "metric": lambda: "ndcg@2",
                "patience": lambda: 1,
                "min_delta": lambda: 0.0,
                "restore_best": lambda: True,
            },
        ),
        "beyond_accuracy": (
            dsstne.beyond_accuracy,
            {
                "model": lambda: model,
                "X": matrix,
                "k": lambda: 2,
                "train": matrix,
                "vectors": lambda: np.eye(4),
                **RANK,
            },
        ),
        "compare": (
            dsstne.compare,
            {
                "models": lambda: [model],
                "X_in": matrix,
                "X_held_out": matrix,
                "metrics": lambda: "recall@2",
                "baseline": lambda: None,
                "groups": lambda: None,
                "rows": lambda: None,
                "level": lambda: 0.9,
                "resamples": lambda: 100,
                "seed": lambda: 0,
            },
        ),
        "metrics.coverage": (dsstne.metrics.coverage, {**ids, "items": lambda: 4}),
        "metrics.gini": (dsstne.metrics.gini, {**ids, "items": lambda: 4}),
        "metrics.novelty": (dsstne.metrics.novelty, {**ids, "train": matrix, "per_row": lambda: False}),
        "metrics.average_popularity": (
            dsstne.metrics.average_popularity,
            {**ids, "train": matrix, "per_row": lambda: False},
        ),
        "metrics.popularity_lift": (dsstne.metrics.popularity_lift, {**ids, "X": matrix, "train": matrix}),
        "metrics.diversity": (
            dsstne.metrics.diversity,
            {**ids, "vectors": lambda: np.eye(4), "per_row": lambda: False},
        ),
        "plots.metric_at_k": (
            plot("metric_at_k"),
            {
                "models": lambda: [model],
                "X_in": matrix,
                "X_held_out": matrix,
                "metric": lambda: "recall",
                "ks": lambda: [1, 2],
                **drawing,
            },
        ),
        "plots.comparison": (
            plot("comparison"),
            {"result": lambda: compared, "metric": lambda: None, "baseline": lambda: None, **drawing},
        ),
        "plots.popularity_bias": (
            plot("popularity_bias"),
            {"models": lambda: [model], "X": matrix, "k": lambda: 2, "train": matrix, **drawing},
        ),
        "plots.embedding_map": (
            plot("embedding_map"),
            {
                "vectors": lambda: np.eye(4),
                "X": matrix,
                "names": lambda: None,
                "groups": lambda: None,
                "labels": lambda: 0,
                **drawing,
            },
        ),
        "plots.search_results": (plot("search_results"), {"report": lambda: report, **drawing}),
        "plots.profile": (plot("profile"), {"profile": lambda: profiled, **drawing}),
        "export.to_onnx": (
            exported,
            {
                "model": lambda: model,
                "path": lambda: "model.onnx",
                "k": lambda: 2,
                "exclude_seen": lambda: None,
                "layer": lambda: None,
            },
        ),
        "export.item_vectors": (
            dsstne.export.item_vectors,
            {"model": lambda: model, "layer": lambda: None},
        ),
        "export.query_vectors": (
            dsstne.export.query_vectors,
            {"model": lambda: model, "X": matrix, "layer": lambda: None, **predict},
        ),
        "export.views": (viewed, {"path": lambda: "model.dsstne"}),
        "plots.learning_curve": (
            plot("learning_curve"),
            {
                "history": lambda: [{"loss": 1.0, "ndcg@2": 0.5}],
                "metrics": lambda: None,
                "baseline": lambda: None,
                "baseline_name": lambda: "popularity",
                "title": lambda: None,
                "ax": lambda: axes,
                "path": lambda: None,
            },
        ),
    }


def zipped_films():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ml-100k/u.data", "1\t20\t5\t874965758\n")
        archive.writestr("ml-100k/u.item", "20|Toy Story (1995)\n")
    return file.getvalue()


def downloaded(function, body):
    """Returns a function that downloads datasets, with a file in place of the server's and of the digest."""

    def call(**given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DSSTNE_DATA", "data")
            patch.setattr(_fetch, "_download", lambda url, part, progress: part.write_bytes(body))
            patch.setattr(_fetch, "_digest", lambda path, like: like)
            made = function(**given)
            return [part.matrix for part in made] if isinstance(made, tuple) else made.matrix

    return call


def with_callback(name):
    """Returns a function that trains with a callback of these parameters."""

    def train(**given):
        callback = getattr(dsstne.callbacks, name)(**given)
        fixed = {"hidden": 2, "epochs": 1, "devices": "cpu", "threads": 1, "progress": False}
        return dsstne.fit(X, **fixed, validation=(X, X), callbacks=callback)

    return train


def small_interactions():
    names = np.array(["a", "b", "c", "d"])
    return dsstne.Interactions(X, names[:3], names, names[:3], names, "", times=np.arange(X.nnz))


def contents(made):
    return made.matrix, made.row_names, made.item_names, made.times


def splitters():
    """Returns the splitters, which check their options when they split, and their methods."""
    shared = {"n_splits": lambda: 2, "seed": lambda: 0}
    options = {
        "UserKFold": shared,
        "UserShuffleSplit": {"fraction": lambda: 0.5, **shared},
        "HoldOut": {"fraction": lambda: 0.5, **shared},
        "EntryKFold": shared,
        "LeaveLastOut": {"n": lambda: 1},
        "TimeSplit": {"before": lambda: 2},
    }
    listed = {}
    for name, usual in options.items():
        make = getattr(dsstne.model_selection, name)
        data = (lambda: X) if name.startswith("User") else small_interactions
        splitter = make(**{key: value() for key, value in usual.items()})
        unused = {"y": lambda: None, "groups": lambda: None}
        listed |= {
            f"model_selection.{name}": (lambda make=make, data=data, **given: list(make(**given).split(data())), usual),
            f"model_selection.{name}.split": (
                lambda splitter=splitter, **given: list(splitter.split(**given)),
                {"X": data, **unused},
            ),
            f"model_selection.{name}.get_n_splits": (splitter.get_n_splits, {"X": data, **unused}),
        }
    return listed


def kept(name):
    """Returns a function that sets an attribute of a model, and then copies, pickles, saves and loads the model."""

    def use(value):
        model = network_model()
        setattr(model, name, value)
        copied = pickle.loads(pickle.dumps(model.copy()))
        copied.save("kept.dsstne")
        return getattr(dsstne.load("kept.dsstne"), name)

    return use


def recommender(method):
    options = {"hidden": 2, "epochs": 1} if method == "network" else {}
    return dsstne.Recommender(method, **options, devices="cpu", threads=1, memory_limit=50_000_000)


def estimated(**given):
    made = dsstne.Recommender(**given).fit(X)
    made.score(X)
    return made.model_


def trained(**given):
    with dsstne.Trainer(**given) as trainer:
        trainer.run(steps=2)
        return trainer.model


def asked(opened):
    with opened() as predictor:
        return predictor.recommend(X)


def exported(**given):
    dsstne.export.to_onnx(**given)
    return pathlib.Path(os.fsdecode(given["path"])).read_bytes()


def viewed(path):
    return {name: array.tobytes() for name, array in dsstne.export.views(path).items()}


def run(**limits):
    with dsstne.Trainer(network_model(), X, devices="cpu", threads=1) as trainer:
        trainer.run(**limits)
        return trainer.model


def limits(**given):
    try:
        dsstne.set_limits(**given)
    finally:
        dsstne.set_limits()


def save(**given):
    with dsstne.Trainer(network_model(), X, devices="cpu", threads=1) as trainer:
        trainer.save(**given)


def resume(**given):
    with dsstne.Trainer.resume(**given) as trainer:
        trainer.run(steps=2)
        return trainer.model


def fork(**given):
    with dsstne.Trainer(network_model(), X, devices="cpu", threads=1) as trainer, trainer.fork(**given) as other:
        other.run(steps=2)
        return other.model


def profile(**limits):
    with dsstne.Trainer(network_model(), X, devices="cpu", threads=1) as trainer:
        trainer.profile(steps=1)  # the first one in a process measures the machine, which takes its time
        enough = threading.Timer(1, trainer.cancel)  # a profile has no other limit than its steps
        enough.start()
        try:
            trainer.profile(**limits)
        finally:
            enough.cancel()
        return trainer.model


# ---- what is public ----

RECORDS = {"Progress"}  # classes that only hold values, which users do not make
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
    "Trainer.run steps": {"None", "2**31"},
    **{key: {"2**31"} for key in ("batch_size", "memory_limit")},
    **dict.fromkeys(["tied", "progress", "per_row", "keep", "allow_not_finite", "exclude_seen"], FLAG),
    **dict.fromkeys(["checkpoints", "background", "resume"], FLAG),
    **dict.fromkeys(["include_self", "shuffle", "last", "Model.same_items value"], FLAG),
    "items": {*IDS, "a list of str"},
    "filter_items": {*IDS, "a list of str"},
    **dict.fromkeys(["filter_users", "rows", "queries"], IDS),
    "users": {*IDS, "a matrix without rows"},
    "ids": {*IDS, "-1"},
    "Model.items value": {"None", "a list of str"},
    "Model.history value": {"an empty list"},
    "Model.attributes value": {"an empty dict"},
    "evaluate exclude": {"None"},
    "on_progress": {"a class", "a function"},
    **{key: {"an accent", "braces", "a folder"} for key in ("path", "checkpoint")},
    **dict.fromkeys(["checkpoint_every", "memory"], frozenset({"2**31"})),
    **{key: {"an empty list"} for key in ("callbacks", "metrics")},
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
    "callbacks.EarlyStopping metric": {"None"},
    "patience": {"None", "2**31"},
    "min_delta": {*FLOATS, "0", "5e-324", "1e308"},
    "restore_best": FLAG,
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
    for name in ("model.dsstne", "\u00e9", "{}", "cpu"):
        dsstne.popularity(X).save(folder / name)
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


@pytest.mark.filterwarnings("ignore:all held-out items are excluded")
@pytest.mark.filterwarnings("ignore:auto returns popularity")
@pytest.mark.filterwarnings("ignore:last=True, but most rows of X are sorted")
@pytest.mark.parametrize("name", public())
def test_odd_values_are_taken_as_what_they_mean_or_refused(name, table):
    call, usual = table[name]
    defaults = public()[name]
    expected = answer(call, {key: make() for key, make in usual.items()})
    assert not isinstance(expected, type), expected
    wrong = {}
    for parameter in usual:
        plain = PLAIN.get(f"{name} {parameter}", PLAIN.get(parameter, set()))
        for word, make in ODD.items():
            given = {key: value() for key, value in usual.items()} | {parameter: make()}
            if (parameter, word) in ENDLESS:
                given |= {key: 0.02 for key in ("max_seconds", "seconds") if key in usual}
            try:
                got = answer(call, given)
            except THEIRS.get(word, ()):
                continue
            except BaseException as error:
                got = error
            if isinstance(got, type) or word in plain:
                continue
            given = {key: value() for key, value in usual.items()}
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
