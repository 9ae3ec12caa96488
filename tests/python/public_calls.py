"""Every public function and method, with a valid value of each of its parameters."""

import gzip
import inspect
import io
import os
import pathlib
import pickle
import threading
import zipfile

import matplotlib.figure
import numpy as np
import pytest
import scipy.sparse
from odd_values import X

import dsstne
from dsstne._tables import Profile
from dsstne.datasets import _fetch

LAYERS = [
    {"name": "in", "kind": "input", "size": 4},
    {"name": "h", "kind": "hidden", "size": 2},
    {"name": "out", "kind": "output", "size": 4},
]
COMPUTE = {"devices": "cpu", "threads": 1, "memory_limit": 50_000_000}
LEARN = {
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "schedule": None,
    "batch_size": 2,
    "seed": 0,
    "parallel": "auto",
    "precision": "float32",
    **COMPUTE,
}
RIDGE = ["regularization_exponent", "dropout", "row_exponent", "item_exponent", "output_exponent"]
FILTER = ["row_exponent", "first_in", "first_out", "low_pass", "low_pass_exponent", "sharpening", "output_exponent"]
BLOCKS = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((9, 6))).astype(np.float32))
RANK = {"items": None, "filter_items": None, "rows": None, "layer": None}


def network_model():
    return dsstne.Model({"layers": LAYERS}, seed=1)


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
    """Returns every public function and method, and a valid value of each of its parameters."""
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

    drawing = {"title": None, "ax": axes, "path": None}
    rows = {"recall@2": np.array([0.5, np.nan, 1.0])}
    compared = dsstne.compare({"a": rows, "b": rows}, resamples=100)
    profiled = Profile(operations=[], outside={"batch": 1.0}, milliseconds=1.0, steps=1)
    report = dsstne.report.Report(
        "recall@2", "", "", "", 0.0, [dsstne.report.table_row("recall@2", "item_knn", "", 0.5)], []
    )
    ids = {"ids": [[0, 2], [1, -1], [3, 0]]}

    serve = {"exclude_seen": None, "wait": None, "batch_size": 2, **COMPUTE}
    serve |= {name: RANK[name] for name in ("items", "filter_items", "layer")}
    predictor = model.predictor(2)
    predict = {"activation": False, "rows": None, "batch_size": 2, **COMPUTE}
    solve = {"items": None, "seed": 0, "max_seconds": 1000, "progress": False}
    solve |= COMPUTE
    near = {"metric": "dot", "include_self": False, "items": None, "filter_items": None}
    near |= {"devices": "cpu", "threads": 1}
    find = {"names": ["a"], "unknown": "raise"}
    index = dsstne.neighbors.Index(np.eye(4), ["a", "b", "c", "d"], devices="cpu", threads=1)
    return {
        "fit": (
            dsstne.fit,
            {
                "X": X,
                "targets": None,
                "network": None,
                "items": None,
                "hidden": 2,
                "activation": "tanh",
                "loss": "softmax",
                "temperature": None,
                "tied": False,
                "input_scaling": None,
                "denoising": 0.5,
                "dropout": 0.0,
                "epochs": 1,
                "validation": None,
                "max_seconds": 1000,
                "progress": False,
                "callbacks": None,
                "checkpoint": "run",
                "checkpoint_every": 1,
                "resume": False,
                "locked": ["hidden1"],
                "sample_weight": [1, 1, 2],
                **LEARN,
            },
        ),
        "popularity": (dsstne.popularity, {"X": X, "items": None}),
        "auto": (
            dsstne.auto,
            {
                "X": X,
                "metric": "recall@2",
                "seconds": 10,
                "times": None,
                "validation": None,
                **{key: value for key, value in solve.items() if key != "max_seconds"},
            },
        ),
        "search": (
            dsstne.search,
            {
                "X": BLOCKS,
                "space": [{"hidden": 2}],
                "budget": "1 trials",
                "metric": "recall@2",
                "times": None,
                "validation": None,
                "epochs": 1,
                "rungs": 1,
                "eta": 3,
                "brackets": 1,
                "jobs": 1,
                "refit": True,
                "store": None,
                "disk_limit": None,
                "sampler": None,
                **{key: value for key, value in solve.items() if key != "max_seconds"},
                "items": None,
            },
        ),
        "item_knn": (dsstne.item_knn, {"X": X, "k": 2, "metric": "dice", "shrink": 1.0, **solve}),
        "rp3beta": (dsstne.rp3beta, {"X": X, "k": 2, "alpha": 0.5, "beta": 0.5, **solve}),
        "linear": (
            dsstne.linear,
            {
                "X": X,
                "method": "iterative",
                "per_item": 2,
                "regularization": 1.5,
                **dict.fromkeys(RIDGE, 0.5),
                "neighbors": 2,
                "probes": 2,
                "tolerance": 0.01,
                **solve,
            },
        ),
        "spectral": (
            dsstne.spectral,
            {
                "X": X,
                "rank": 2,
                "method": "f",
                **dict.fromkeys(FILTER, 0.5),
                "balanced": True,
                "oversampling": None,
                "iterations": 1,
                **solve,
            },
        ),
        "svd": (
            dsstne.svd,
            {
                "X": X,
                "k": 2,
                "oversampling": None,
                "iterations": 1,
                **{key: value for key, value in solve.items() if key != "items"},
            },
        ),
        "factorize": (
            dsstne.factorize,
            {
                "X": X,
                "method": "ials",
                "factors": 2,
                "regularization": 0.1,
                "alpha": 1.0,
                "unobserved_weight": 0.1,
                "nu": 1.0,
                "epochs": 1,
                **solve,
            },
        ),
        "blend": (
            dsstne.blend,
            {
                "models": [model],
                "X": X,
                "validation": X,
                "weights": None,
                "scales": None,
                "metric": "recall@2",
                **solve,
                **COMPUTE,
            },
        ),
        "tfidf_weight": (dsstne.tfidf_weight, {"X": X}),
        "bm25_weight": (dsstne.bm25_weight, {"X": X, "k1": 1.2, "b": 0.75}),
        "evaluate": (
            dsstne.evaluate,
            {
                "model": model,
                "X_in": X,
                "X_held_out": X,
                "metrics": "recall@2",
                "exclude": None,
                "per_row": False,
                "batch_size": 2,
                **RANK,
                **COMPUTE,
            },
        ),
        "load": (dsstne.load, {"path": "model.dsstne", "threads": 1, "sizes": None}),
        "netcdf.network": (dsstne.netcdf.network, {"path": "net.nc", "sizes": None}),
        "netcdf.datasets": (dsstne.netcdf.datasets, {"path": "data.nc"}),
        "netcdf.read": (read_data, {"path": "data.nc", "name": None, "columns": 4, "as_target": False}),
        "netcdf.write": (
            dsstne.netcdf.write,
            {
                "path": "written.nc",
                "matrices": {"x": X},
                "boolean": True,
                "sample_weight": None,
                "items": None,
                "rows": None,
                "stored_only": ["x"],
            },
        ),
        "keep_devices": (dsstne.keep_devices, {"keep": True}),
        "set_limits": (limits, {"memory": 1 << 40, "threads": 1}),
        "doctor": (dsstne.doctor, {}),
        "Dataset": (
            dsstne.Dataset,
            {"X": X, "columns": 4, "allow_not_finite": False, "index": None, "scale": 1, "offset": 0},
        ),
        "Dataset.from_csr": (
            dsstne.Dataset.from_csr,
            {
                "indptr": X.indptr,
                "indices": X.indices,
                "data": X.data,
                "columns": 4,
                "allow_not_finite": False,
            },
        ),
        "Dataset.from_file": (
            dsstne.Dataset.from_file,
            {"path": "data.arrow", "columns": 4, "allow_not_finite": False},
        ),
        "Dataset.from_text": (
            dsstne.Dataset.from_text,
            {
                "paths": "text.txt",
                "features": ["a"],
                "samples": ["s"],
                "values": "analog",
                "default_value": 0.5,
                "new_features": "drop",
                "new_samples": "drop",
                "threads": 1,
                "on_malformed": "error",
                "on_repeated": "replace",
                "longest_line": 1000,
                "memory_limit": 50_000_000,
            },
        ),
        "Dataset.to_scipy": (lambda: dsstne.Dataset(X).to_scipy(), {}),
        "read_index": (dsstne.read_index, {"path": "index.txt"}),
        "write_index": (dsstne.write_index, {"path": "index.txt", "labels": ["a", "b"]}),
        "Dataset.open": (dsstne.Dataset.open, {"path": "saved.arrow"}),
        "Dataset.save": (dsstne.Dataset(X).save, {"path": "saved.arrow", "items": None, "rows": None, "threads": 1}),
        "Dataset.product": (
            dsstne.Dataset.product,
            {"X": X, "F": scipy.sparse.eye_array(4, format="csr"), "threads": 1},
        ),
        "Dataset.close": (lambda: dsstne.Dataset(X).close(), {}),
        "Dataset.column_counts": (lambda: dsstne.Dataset(X).column_counts(), {}),
        "Network": (dsstne.Network, {"definition": {"layers": LAYERS}, "training": {}, "datasets": {}, "words": {}}),
        "Network.from_dsstne": (
            dsstne.Network.from_dsstne,
            {"source": {"Layers": [{"N": 4}, {"N": 2}, {"N": 4}]}},
        ),
        "Model": (dsstne.Model, {"network": {"layers": LAYERS}, "sizes": None, "seed": 0, "items": None}),
        "Model.from_item_weights": (dsstne.Model.from_item_weights, {"W": np.eye(4), "items": None}),
        "Model.items": (named, {"value": None}),
        "Model.same_items": (same, {"value": True}),
        "Model.history": (kept("history"), {"value": []}),
        "Model.attributes": (kept("attributes"), {"value": {}}),
        "Model.close": (lambda: network_model().close(), {}),
        "Model.copy": (lambda: model.copy(), {}),
        "Model.extended": (network_model().extended, {"items": 5, "layers": None, "seed": 0}),
        "Model.parts": (lambda: dsstne.blend([model]).parts(), {}),
        "Model.save": (saved, {"path": "saved.dsstne"}),
        "Model.tensor": (model.tensor, {"name": "out.bias"}),
        "Model.set_tensor": (replaced, {"name": "out.bias", "values": [1, 2, 3, 4]}),
        "Model.names": (model.names, {"ids": [0, -1]}),
        "Model.ids": (model.ids, {"names": ["b", "a"], "unknown": "raise"}),
        "Model.recommend": (
            model.recommend,
            {"X": X, "k": 2, "exclude_seen": None, "exclude": None, "batch_size": 2, **RANK, **COMPUTE},
        ),
        "Model.predict": (model.predict, {"X": X, "layer": None, **predict}),
        "Model.embed": (model.embed, {"X": X, "layer": None, **predict}),
        "Model.scores": (model.scores, {"X": X, "items": [1, 0], **predict}),
        "Model.neighbors": (model.neighbors, {"queries": [1], "k": 2, "tensor": None, **near}),
        "Model.similar_items": (
            model.similar_items,
            {"items": [1], "k": 2, **{k: v for k, v in near.items() if k != "items"}},
        ),
        "Model.similar_users": (
            model.similar_users,
            {
                "users": [1],
                "X": X,
                "k": 2,
                "layer": None,
                "filter_users": None,
                "batch_size": 2,
                **{name: near[name] for name in ("metric", "include_self")},
                **COMPUTE,
            },
        ),
        "Model.explain": (model.explain, {"x": X[[1]], "item": 1, **COMPUTE}),
        "Model.explain_parts": (dsstne.blend([model]).explain_parts, {"x": X[[1]], "item": 1, **COMPUTE}),
        "Model.check_gradients": (
            model.check_gradients,
            {
                "X": X,
                "targets": None,
                "tensors": ["out.bias"],
                "rows": [0, 1],
                "elements": 1,
                "tolerance": 1e-3,
                "seed": 0,
                **COMPUTE,
            },
        ),
        "Model.plan": (model.plan, {"X": X, "k": 2, "layer": None, "batch_size": 2, **COMPUTE}),
        "Model.predictor": (lambda **given: asked(lambda: model.predictor(**given)), {"k": 2}),
        "OpenPredictor": (
            lambda **given: asked(lambda: dsstne.OpenPredictor(**given)),
            {"model": model, "k": 2, **serve},
        ),
        "OpenPredictor.recommend": (predictor.recommend, {"X": X, "k": 2, "exclude": None}),
        "OpenPredictor.plan": (predictor.plan, {}),
        "OpenPredictor.close": (lambda: model.predictor(2).close(), {}),
        "neighbors.Index": (
            lambda **given: found(dsstne.neighbors.Index(**given)),
            {"vectors": np.eye(4), "names": None, "metric": "dot", "storage": "float32", "shape": None, **COMPUTE},
        ),
        "neighbors.Index.search": (
            index.search,
            {"queries": np.eye(4), "k": 2, "items": None, "filter_items": None, "return_names": False},
        ),
        "neighbors.Index.save": (lambda path: (index.save(path), dsstne.load(path))[1], {"path": "m.dsstne"}),
        "neighbors.Index.load": (
            lambda **given: found(dsstne.neighbors.Index.load(**given)),
            {"path": "index.dsstne", **COMPUTE},
        ),
        "neighbors.Index.close": (lambda: dsstne.neighbors.Index(np.eye(4)).close(), {}),
        "Recommender": (
            estimated,
            {
                **dict.fromkeys(inspect.signature(dsstne.Recommender).parameters, "default"),
                "method": "linear",
                "variant": "iterative",
                "metric": "recall@2",
                "random_state": 0,
                "progress": False,
                "store": None,
                "disk_limit": None,
                **COMPUTE,
            },
        ),
        "Recommender.model_": (remodelled, {"value": "model"}),
        "Recommender.fit": (
            lambda **given: recommender("linear").fit(**given).model_,
            {"X": X, "y": None, "sample_weight": [1, 1, 2], "eval_set": None},
        ),
        "Recommender.partial_fit": (
            lambda **given: recommender("network").set_params(max_seconds=1).partial_fit(**given).model_,
            {"X": X, "y": None, "sample_weight": None, "steps": 1},
        ),
        "Recommender.fit_transform": (recommender("network").fit_transform, {"X": X, "y": None}),
        "Recommender.transform": (recommender("network").fit(X).transform, {"X": X}),
        "Recommender.predict": (recommender("linear").fit(X).predict, {"X": X}),
        "Recommender.score": (recommender("linear").fit(X).score, {"X": X, "y": None}),
        "Recommender.recommend": (
            recommender("linear").fit(X).recommend,
            {"X": X, "k": 2, "exclude_seen": None, "exclude": None, "batch_size": 2, **RANK, **COMPUTE},
        ),
        "Trainer": (
            trained,
            {
                "model": network_model(),
                "X": X,
                "targets": None,
                "locked": ["h"],
                "sample_weight": [1, 1, 2],
                "shuffle": True,
                "checkpoints": True,
                **LEARN,
            },
        ),
        "Trainer.save": (save, {"path": "saved", "background": False}),
        "Trainer.settle": (trainer.settle, {}),
        "Trainer.resume": (
            resume,
            {
                "path": "run.checkpoint",
                "X": X,
                "targets": None,
                "sample_weight": None,
                "checkpoints": False,
                "other_data": False,
                **{key: LEARN[key] for key in ("learning_rate", "schedule", "parallel")},
                **COMPUTE,
            },
        ),
        "Trainer.fork": (
            fork,
            {
                "X": None,
                "targets": None,
                "sample_weight": None,
                **{key: LEARN[key] for key in ("learning_rate", "weight_decay", "schedule")},
                **COMPUTE,
            },
        ),
        "Trainer.plan": (trainer.plan, {}),
        "Trainer.profile": (profile, {"steps": 1, "on_progress": None}),
        "Trainer.run": (run, {"steps": 1, "epochs": None, "seconds": 1000, "on_progress": None}),
        "Trainer.cancel": (trainer.cancel, {}),
        "Trainer.close": (lambda: dsstne.Trainer(network_model(), X).close(), {}),
        "datasets.load_debian": (lambda: small_interactions().matrix, {}),
        **{
            f"datasets.{function.__name__}": (downloaded(function, body), {**more, "folder": "data", "progress": False})
            for function, body, more in (
                (dsstne.datasets.fetch_movielens, zipped_films(), {"size": "100k", "minimum_rating": None}),
                (dsstne.datasets.fetch_gowalla, gzip.compress(b"1\t2010-01-01T00:00:00Z\t0.5\t-1\t7\n"), {}),
                (dsstne.datasets.fetch_gowalla_split, b"0 0\n0 0\n", {}),
                (
                    dsstne.datasets.fetch_amazon,
                    gzip.compress(b"user_id,parent_asin,rating,timestamp\na,b,5.0,1\n"),
                    {"category": "Books", "core": 0, "minimum_rating": None},
                ),
            )
        },
        "datasets.hold_out": (dsstne.datasets.hold_out, {"X": X, "fraction": 0.5, "seed": 0, "last": False, "core": 0}),
        "Interactions": (
            lambda **given: contents(dsstne.Interactions(**given)),
            {
                "matrix": X.astype(np.float32),
                **dict.fromkeys(["row_names", "item_names", "times"], None),
                "row_descriptions": [],
                "item_descriptions": [],
                "description": "",
            },
        ),
        "Interactions.from_frame": (
            lambda **given: contents(dsstne.Interactions.from_frame(**given)),
            {
                "df": {"user": [1, 2, 2], "item": ["a", "b", "a"], "v": [1, 2, 3], "t": [1, 2, 3]},
                "user": "user",
                "item": "item",
                "value": "v",
                "time": "t",
                "users": None,
                "items": None,
                "unknown": "raise",
                "duplicates": "sum",
            },
        ),
        "Interactions.users": (lambda **given: contents(debian.users(**given)), find),
        "Interactions.rows": (debian.rows, find),
        "Interactions.items": (debian.items, find),
        "Interactions.matrix_of": (debian.matrix_of, {"rows": [["a"]], "unknown": "raise"}),
        "Interactions.similar_items": (
            debian.similar_items,
            {"model": dsstne.item_knn(X, progress=False), **find, "k": 2},
        ),
        **splitters(),
        "callbacks.Callback": (with_callback("Callback"), {}),
        "callbacks.TimeBudget": (with_callback("TimeBudget"), {"seconds": 1000}),
        "callbacks.LearningRate": (with_callback("LearningRate"), {"rates": [0.1]}),
        "callbacks.Checkpoint": (with_callback("Checkpoint"), {"path": "run", "every": 1}),
        "callbacks.CSVLogger": (with_callback("CSVLogger"), {"path": "log.csv"}),
        "callbacks.TensorBoard": (lambda **given: vars(dsstne.callbacks.TensorBoard(**given)), {"folder": "a"}),
        "callbacks.MLflow": (dsstne.callbacks.MLflow, {}),
        "callbacks.EarlyStopping": (
            with_callback("EarlyStopping"),
            {"metric": "ndcg@2", "patience": 1, "min_delta": 0.0, "restore_best": True},
        ),
        "beyond_accuracy": (
            dsstne.beyond_accuracy,
            {"model": model, "X": X, "k": 2, "train": X, "vectors": np.eye(4), **RANK},
        ),
        "compare": (
            dsstne.compare,
            {
                "models": [model],
                "X_in": X,
                "X_held_out": X,
                "metrics": "recall@2",
                "baseline": None,
                "groups": None,
                "rows": None,
                "level": 0.9,
                "resamples": 100,
                "seed": 0,
            },
        ),
        "metrics.coverage": (dsstne.metrics.coverage, {**ids, "items": 4}),
        "metrics.gini": (dsstne.metrics.gini, {**ids, "items": 4}),
        "metrics.novelty": (dsstne.metrics.novelty, {**ids, "train": X, "per_row": False}),
        "metrics.average_popularity": (dsstne.metrics.average_popularity, {**ids, "train": X, "per_row": False}),
        "metrics.popularity_lift": (dsstne.metrics.popularity_lift, {**ids, "X": X, "train": X}),
        "metrics.diversity": (dsstne.metrics.diversity, {**ids, "vectors": np.eye(4), "per_row": False}),
        "plots.metric_at_k": (
            plot("metric_at_k"),
            {"models": [model], "X_in": X, "X_held_out": X, "metric": "recall", "ks": [1, 2], **drawing},
        ),
        "plots.comparison": (plot("comparison"), {"result": compared, "metric": None, "baseline": None, **drawing}),
        "plots.popularity_bias": (plot("popularity_bias"), {"models": [model], "X": X, "k": 2, "train": X, **drawing}),
        "plots.embedding_map": (
            plot("embedding_map"),
            {"vectors": np.eye(4), "X": X, "names": None, "groups": None, "labels": 0, **drawing},
        ),
        "plots.search_results": (plot("search_results"), {"report": report, **drawing}),
        "plots.profile": (plot("profile"), {"profile": profiled, **drawing}),
        "export.to_onnx": (
            exported,
            {"model": model, "path": "model.onnx", "k": 2, "exclude_seen": None, "layer": None},
        ),
        "export.item_vectors": (dsstne.export.item_vectors, {"model": model, "layer": None}),
        "export.query_vectors": (dsstne.export.query_vectors, {"model": model, "X": X, "layer": None, **predict}),
        "export.views": (viewed, {"path": "model.dsstne"}),
        "plots.learning_curve": (
            plot("learning_curve"),
            {
                "history": [{"loss": 1.0, "ndcg@2": 0.5}],
                "metrics": None,
                "baseline": None,
                "baseline_name": "popularity",
                "title": None,
                "ax": axes,
                "path": None,
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
    shared = {"n_splits": 2, "seed": 0}
    options = {
        "UserKFold": shared,
        "UserShuffleSplit": {"fraction": 0.5, **shared},
        "HoldOut": {"fraction": 0.5, **shared},
        "EntryKFold": shared,
        "LeaveLastOut": {"n": 1},
        "TimeSplit": {"before": 2},
    }
    listed = {}
    for name, usual in options.items():
        make = getattr(dsstne.model_selection, name)
        data = X if name.startswith("User") else small_interactions()
        splitter = make(**usual)
        unused = {"y": None, "groups": None}
        listed |= {
            f"model_selection.{name}": (lambda make=make, data=data, **given: list(make(**given).split(data)), usual),
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


def remodelled(value):
    estimator = recommender("linear").fit(X)
    estimator.model_ = network_model() if isinstance(value, str) and value == "model" else value
    return estimator.predict(X)


def estimated(**given):
    made = dsstne.Recommender(**given).fit(X)
    made.score(X)
    return made.model_


def trained(model, **given):
    model = model.copy() if isinstance(model, dsstne.Model) else model
    with dsstne.Trainer(model, **given) as trainer:
        trainer.run(steps=2)
        return trainer.model


def asked(opened):
    with opened() as predictor:
        return predictor.recommend(X[:2])  # a whole batch, which does not wait for more rows


def read_data(**given):
    return vars(dsstne.netcdf.read(**given))


def found(index):
    with index:
        return index.search(np.eye(4), 2), index.names


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
