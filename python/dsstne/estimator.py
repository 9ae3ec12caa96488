"""All models behind the interface of scikit-learn's estimators."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _kept_estimators, _partial_fit, _recipes, _sklearn
from dsstne._estimator_data import check_names, column_names, compressed, matrix_of, pair_of, refuse, weights_of
from dsstne._layers import check_row_names, nearest
from dsstne._metric_names import is_metric, one_metric
from dsstne._predictor import check_item_names
from dsstne.dataset import Dataset, names_of
from dsstne.datasets import hold_out
from dsstne.datasets._split import canonical
from dsstne.errors import InvalidArgumentError, InvalidDataError, InvalidStateError, OutOfMemoryError, UnsupportedError
from dsstne.evaluation import evaluate
from dsstne.interactions import Interactions
from dsstne.selection import auto

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from dsstne.model import Model

__all__ = ["NotFittedError", "Recommender"]

METHODS: dict[str, Callable[..., Model]] = {"auto": auto} | {
    {"autoencoder": "network", "ials": "factorize"}.get(name, name): function
    for name, function in _recipes.FUNCTIONS.items()
}
_RENAMED = {"method": "variant", "metric": "similarity"}  # arguments of these functions that mean something else here
_COMPUTE = ("devices", "threads", "memory_limit")
_COMMON = ("metric", "random_state", "progress", "store", "disk_limit", *_COMPUTE)  # options of all methods
# Arguments that an estimator does not have: data, and files that the fits of a search would share.
_WITHOUT = (
    "X",
    "targets",
    "sample_weight",
    "items",
    "times",
    "validation",
    "seed",
    "checkpoint",
    "checkpoint_every",
    "resume",
)

# The values of a row are multiplied by this power of its weight: it then counts as often as the weight says in the
# products of columns that item_knn and linear are made of.
_POWERS = {"item_knn": 0.5, "linear": 0.5}


class NotFittedError(InvalidStateError, _sklearn.NotFittedError):  # type: ignore[misc]
    """The estimator has to be fitted first; also scikit-learn's error of this name, where that is installed."""


_goes_on = functools.partial(
    _sklearn.OnlyFor,
    lambda self: _is(self.method, "network"),
    'only method="network" is trained step by step; fit() computes the others anew from all rows',
)
_embeds = functools.partial(
    _sklearn.OnlyFor,
    lambda self: self._has_embeddings(),
    'only "network" and "factorize" compute a vector for a row ("auto", if it has chosen one of these)',
)


class Recommender(_kept_estimators.PickledByReference, _sklearn.BaseEstimator):  # type: ignore[misc]
    """A recommender of any kind, as an estimator for scikit-learn.

    It works in ``Pipeline``, ``GridSearchCV``, ``cross_val_score`` and what else takes estimators; scikit-learn is used
    if it is installed, and not needed. The page docs/scikit-learn.md has examples.

    X is an interaction matrix [rows, items], as for :func:`dsstne.fit`, or :class:`dsstne.Interactions`, whose elements
    are single interactions. X is both input and target; ``y`` is ignored everywhere.

    Args:
        method: ``"network"`` (:func:`dsstne.fit`), ``"linear"``, ``"spectral"``, ``"factorize"``, ``"item_knn"``,
            ``"rp3beta"``, ``"popularity"`` or ``"auto"``, the functions of these names.
        metric: The metric of :meth:`score` and of ``eval_set``, see :func:`dsstne.evaluate`; ``"auto"`` chooses by it.
            Not ``"rmse"`` or ``"mae"``, since scores must rise as models get better.
        variant: The argument ``method`` of ``linear``, ``spectral`` and ``factorize``, such as ``"explicit"``.
        similarity: The argument ``metric`` of ``item_knn``.
        network, hidden, activation, loss, temperature, tied, input_scaling, denoising: See :func:`dsstne.fit`.
        optimizer, learning_rate, weight_decay, schedule, locked: See :func:`dsstne.fit`.
        batch_size, parallel, precision, callbacks: See :func:`dsstne.fit`.
        dropout: See :func:`dsstne.fit` or :func:`dsstne.linear`.
        epochs: See :func:`dsstne.fit` or :func:`dsstne.factorize`.
        factors, nu, unobserved_weight: See :func:`dsstne.factorize`.
        alpha: See :func:`dsstne.factorize` or :func:`dsstne.rp3beta`.
        regularization: See :func:`dsstne.factorize` or :func:`dsstne.linear`.
        regularization_exponent, item_exponent, per_item, neighbors, probes, tolerance: See :func:`dsstne.linear`.
        row_exponent, output_exponent: See :func:`dsstne.linear` or :func:`dsstne.spectral`.
        rank, first_in, first_out, low_pass, low_pass_exponent, sharpening: See :func:`dsstne.spectral`.
        balanced, oversampling, iterations: See :func:`dsstne.spectral`.
        k: Number of similar items that an item keeps; see :func:`dsstne.item_knn` or :func:`dsstne.rp3beta`. The length
            of lists is an argument of :meth:`recommend`.
        shrink: See :func:`dsstne.item_knn`.
        beta: See :func:`dsstne.rp3beta`.
        seconds: Budget of :func:`dsstne.auto`.
        max_seconds: Time limit of :meth:`fit` with another method.
        random_state: Seed of the model and of the split in :meth:`score`: an integer, a generator of NumPy, which then
            draws the seeds, or None = other seeds each time.
        devices, threads, memory_limit: As in :func:`dsstne.fit`, for all methods of the estimator.
        progress: Show a progress bar if stderr is a terminal or a notebook.
        store: A folder that all processes of a search see. The estimator then pickles to a reference of about a
            kilobyte to a file in it, which is written once and never changes; :meth:`partial_fit` goes on from the file
            with the bits of an estimator that was not pickled. Searches that send candidates to workers, such as
            dask-ml's, set it. The files of the last two calls are kept, and those that an estimator of this process
            refers to. After the search, save what you need and delete the folder (docs/search.md).
            None = pickles are whole, with the bytes of :meth:`dsstne.Model.save`, and load on any machine.
        disk_limit: Most bytes of the files in the store; None = half of the disk's free space. Above the limit, files
            that were not used for longest are deleted. An estimator that is sent to another process after its file was
            deleted is a :class:`dsstne.MissingFileError` there, unless the model was in memory.

    The word ``"default"`` stands for the default of the function. An option that the function does not have is an error
    of :meth:`fit`.

    Attributes:
        model_: The :class:`dsstne.Model`; it has all further methods, such as ``similar_items``.
        n_features_in_: Number of items.
        feature_names_in_: Names of the items, if X has them as strings.
        evals_result_: The metrics of ``eval_set``, a list of values for each name: ``metric``, and of each epoch of a
            network recall@20 and ndcg@20. ``"auto"`` has a report instead, ``model_.report``.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
        >>> recommender = dsstne.Recommender("linear", regularization=10).fit(X)
        >>> ids, scores = recommender.recommend(X[:5], k=3)
        >>> ids.shape, 0 < recommender.score(X) < 1
        ((5, 3), True)
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        metric: str = "ndcg@20",
        variant: str = "default",
        similarity: str = "default",
        network: Any = "default",
        hidden: Any = "default",
        activation: Any = "default",
        loss: Any = "default",
        temperature: Any = "default",
        tied: Any = "default",
        input_scaling: Any = "default",
        denoising: Any = "default",
        dropout: Any = "default",
        optimizer: Any = "default",
        learning_rate: Any = "default",
        weight_decay: Any = "default",
        schedule: Any = "default",
        locked: Any = "default",
        batch_size: Any = "default",
        epochs: Any = "default",
        parallel: Any = "default",
        precision: Any = "default",
        callbacks: Any = "default",
        factors: Any = "default",
        regularization: Any = "default",
        alpha: Any = "default",
        unobserved_weight: Any = "default",
        nu: Any = "default",
        regularization_exponent: Any = "default",
        row_exponent: Any = "default",
        item_exponent: Any = "default",
        output_exponent: Any = "default",
        per_item: Any = "default",
        neighbors: Any = "default",
        probes: Any = "default",
        tolerance: Any = "default",
        rank: Any = "default",
        first_in: Any = "default",
        first_out: Any = "default",
        low_pass: Any = "default",
        low_pass_exponent: Any = "default",
        sharpening: Any = "default",
        balanced: Any = "default",
        oversampling: Any = "default",
        iterations: Any = "default",
        k: Any = "default",
        shrink: Any = "default",
        beta: Any = "default",
        seconds: Any = "default",
        max_seconds: Any = "default",
        random_state: Any = 0,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
        progress: bool = False,
        store: Any = None,
        disk_limit: int | None = None,
    ) -> None:
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    # ---- fitting ----

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, eval_set: Any = None) -> Recommender:
        """Makes the model; an earlier one is forgotten, and no reference to X is kept.

        Args:
            X: Interaction matrix [rows, items] or ``Interactions``.
            y: Ignored.
            sample_weight: Weights of the rows [rows], at least 0, for the methods that have them: ``"network"``
                (weights of the rows in the loss, see :func:`dsstne.fit`), ``"linear"`` and ``"item_knn"`` by
                ``"cosine"`` or ``"dot"`` (weights in the products of columns; numbers of rows that have an item stay as
                they are), and ``"popularity"``.
            eval_set: Held-out items to compute ``metric`` with: a matrix for the rows of X, a pair (V_in, V_out) for
                other rows, or a part of ``Interactions``. ``"network"`` and ``"auto"`` take it as their
                ``validation``, for early stopping and for the choice of the model.

        Returns:
            The estimator.

        Raises:
            InvalidArgumentError: An option is not valid, or the method does not have it.
            InvalidDataError: X is damaged or has values that the method does not take.
            UnsupportedError: The method has no weights of rows.
            DsstneError: As the function of the method.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> inputs, held_out = dsstne.datasets.hold_out(X)
            >>> recommender = dsstne.Recommender("item_knn", k=5).fit(inputs, eval_set=held_out)
            >>> list(recommender.evals_result_)
            ['ndcg@20']
        """
        options = self._options()
        for name in ("model_", "evals_result_", "feature_names_in_", "_training", "_kept"):
            self.__dict__.pop(name, None)
        X = self._read(X, fitting=True)
        self._check_signs(X)
        weighted = self._weighted(X, sample_weight)
        held_out = pair_of(eval_set)
        pair = held_out if held_out is None or isinstance(held_out, tuple) else (X, held_out)
        if pair is not None:
            names = ("eval_set[0]", "eval_set[1]") if pair is held_out else ("X", "eval_set")
            check_row_names(zip(names, pair, strict=True))
        if self.method == "network":
            options["sample_weight"] = sample_weight
        if self.method in ("network", "auto"):
            options["validation"] = held_out
        self.model_ = self._made(weighted, self._item_names(X), options)
        if self.method == "popularity" and sample_weight is not None:
            self.model_.set_tensor("bias", weights_of(sample_weight, X) @ (weighted != 0))
        if pair is not None and self.method != "auto":  # whose model may have learned from the held-out items
            self.evals_result_ = self._validated(*pair)
        return self

    def _made(self, X: Any, items: Any, options: dict[str, Any]) -> Model:
        """Returns what the function of the method makes of the data."""
        function = METHODS[self.method]
        known = inspect.signature(function).parameters
        common = {name: getattr(self, name) for name in _COMMON if name in known and name not in _RENAMED}
        if self.method == "auto":
            common["metric"] = self.metric
        elif self.method == "factorize" and "factors" not in options:
            options = {**dict(_recipes.ials(matrix_of(X).shape).arguments), **options}
        if "seed" in known:
            common["seed"] = self._seed()
        try:
            return function(X, items=items, **options, **common)
        except InvalidArgumentError as error:
            for argument, renamed in _RENAMED.items():
                given = options.get(argument)
                if isinstance(given, str) and given in str(error):
                    words = f"{renamed}= is the argument {argument}= of dsstne.{function.__name__}"
                    raise InvalidArgumentError(f"{error} ({words})") from None
            raise

    def _validated(self, given: Any, held_out: Any) -> dict[str, list[float]]:
        """Returns the metrics on held-out items: those of the epochs, if there are any, and that of the estimator."""
        history = self.model_.history
        names = [key for key in (history[-1] if history else ()) if is_metric(key)]
        metrics = {name: [record[name] for record in history] for name in names}
        if self.metric not in metrics:
            metrics[self.metric] = [self._evaluated(given, held_out)]
        return metrics

    @_goes_on
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, steps: int | None = None
    ) -> Recommender:
        """Trains a network for an epoch of X or for some steps: a new one, or that of earlier calls and of :meth:`fit`.

        Calls go on from each other: weights, state of the optimizer, steps and random numbers are those of one run, so
        that calls with the same X have the bits of a ``fit`` with as many epochs and ``schedule=None``. The state takes
        as much memory as the run, with Adam twice the weights, until the next :meth:`fit`. It begins anew after
        :meth:`fit`, in a copy, after unpickling, and if ``optimizer`` is another.

        Options count in each call, but those of the network itself, such as ``hidden``, only in the first. The learning
        rate is constant, unless ``schedule`` has ``steps``. Callbacks see one run in each call, whose epochs and
        ``model_.history`` go on; ``epochs``, ``EarlyStopping`` and ``Checkpoint`` are for :meth:`fit` only.

        Args:
            X: Interaction matrix [rows, items] or ``Interactions``: any rows, with the items of the first call.
            y: Ignored.
            sample_weight: As in :meth:`fit`.
            steps: Number of steps, of ``batch_size`` rows each; more than an epoch has go on with the next epoch.
                None = one epoch. Each call begins an epoch: after one that has ended within an epoch, the next draws
                another order of the rows. Calls whose steps are whole epochs have the bits of one call with all steps.

        Returns:
            The estimator.

        Raises:
            UnsupportedError: The method is not ``"network"``. ``hasattr(recommender, "partial_fit")`` is then False.
            InvalidArgumentError: A callback needs validation data or the epochs of :meth:`fit`.
            DsstneError: As :meth:`fit`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> recommender = dsstne.Recommender("network", hidden=8)
            >>> for rows in (X[:50], X[50:], X[:50]):
            ...     recommender = recommender.partial_fit(rows)
            >>> len(recommender.model_.history)
            3
        """
        options = self._options()
        called = _partial_fit.callbacks_of(options)
        steps = None if steps is None else _checks.integer(steps, "steps", 1)
        kept = self.__dict__.get("_kept")
        is_first = kept is None and not hasattr(self, "model_")
        X = self._read(X, fitting=is_first)
        self._check_signs(X)
        if is_first:
            self.model_ = self._made(X, self._item_names(X), {**options, "epochs": 0, "callbacks": None})
        else:
            if kept is not None and kept.trains and "_training" not in self.__dict__:
                resumed = _partial_fit.Training.resume(kept.path(), X, **self._compute())
                self._training, self.model_ = resumed  # which forgets the reference
            check_item_names(self.model_, self._item_names(X), "X")
        training = self.__dict__.setdefault("_training", _partial_fit.Training())
        compute = {**self._compute(), "progress": self.progress}
        self.__dict__.pop("_kept", None)  # the model is about to change
        run = (self.model_, X, sample_weight, steps, options, called, self._seed, self._keeping(kept))
        training.run(*run, **compute)
        return self

    # ---- using the model ----

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Computes the scores of all items, float32 [rows, items].

        Args:
            X: Interaction matrix [rows, items] or ``Interactions``.

        Raises:
            OutOfMemoryError: The scores are above ``memory_limit``, or above the memory of the machine.
            DsstneError: As :meth:`dsstne.Model.predict`.
        """
        X = self._read(X)
        try:
            return self.model_.predict(X, **self._compute())
        except OutOfMemoryError as error:
            remedy = "Call recommend(X, k) for the best items only, or model_.predict(X, rows=...) for some of the rows"
            raise OutOfMemoryError(f"{error}. {remedy}") from None

    def recommend(self, X: Any, k: int | None = None, **options: Any) -> Any:
        """Returns the k best items of each row that are not stored in it, and their scores.

        Args:
            X: Interaction matrix [rows, items] or ``Interactions``.
            k: Length of the lists; None = 10, or all items if there are fewer.
            **options: As in :meth:`dsstne.Model.recommend`, which also says what it returns and raises.
        """
        X = self._read(X)  # first: it says whether there is a model
        return self.model_.recommend(X, k, **{**self._compute(), **options})

    @_embeds
    def transform(self, X: Any) -> NDArray[np.float32]:
        """Computes embeddings of the rows, float32 [rows, units]: of the last hidden layer, or the factors.

        Args:
            X: Interaction matrix [rows, items] or ``Interactions``.

        Raises:
            UnsupportedError: The model has no vectors of rows. ``hasattr(recommender, "transform")`` is then False.
            DsstneError: As :meth:`dsstne.Model.embed`.
        """
        X = self._read(X)
        return self.model_.embed(X, **self._compute())

    @_embeds
    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> NDArray[np.float32]:
        """Fits, and returns the embeddings of X; the arguments are those of :meth:`fit`."""
        made: NDArray[np.float32] = self.fit(X, y, **options).transform(X)
        return made

    def score(self, X: Any, y: Any = None) -> float:
        """Returns ``metric`` on held-out items: NDCG, unless another one was chosen.

        Of a matrix, a random fifth of the entries of each row is held out, and the others are the input
        (:func:`dsstne.datasets.hold_out`). For a part of ``Interactions``, its entries are held out, and the input is
        what the same users have in the rest of the table. Items of the input are left out of the lists.

        Args:
            X: Interaction matrix [rows, items], or ``Interactions``.
            y: Ignored.

        Returns:
            The mean over the rows with held-out items; NaN if there is none.

        Raises:
            DsstneError: As :func:`dsstne.evaluate`.
        """
        X = self._read(X)
        given = X.given if isinstance(X, Interactions) else None
        if given is not None:
            return self._evaluated(given, X)
        return self._evaluated(*hold_out(X, seed=self._seed()))

    def _evaluated(self, given: Any, held_out: Any) -> float:
        metric = one_metric(self.metric)
        return float(evaluate(self.model_, given, held_out, metric, exclude="input", **self._compute())[metric])

    # ---- what the methods have in common ----

    def _options(self) -> dict[str, Any]:
        """Returns the arguments of the function that are not its defaults."""
        method = _checks.text(self.method, "method")
        if method not in METHODS:
            raise InvalidArgumentError(f"method: {_checks.shown(method)} is unknown; {nearest(method, METHODS)}")
        one_metric(self.metric)
        if self.store is not None:
            _kept_estimators.check_folder(self.store)
        if self.disk_limit is not None:
            _checks.integer(self.disk_limit, "disk_limit", 0)
        known, given = options_of(method), {}
        for name in inspect.signature(Recommender).parameters:
            value = getattr(self, name)
            if name == "method" or name in _COMMON or _is(value, "default"):
                continue
            if name not in known:
                words = ", ".join(known) or "none"
                raise InvalidArgumentError(f"{name}= is not an option of method={method!r}; its options are: {words}")
            given[known[name]] = value
        return given

    def _item_names(self, X: Any) -> Any:
        names = names_of(X)
        return getattr(self, "feature_names_in_", None) if names is None else names

    def _compute(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _COMPUTE}

    def _seed(self) -> int:
        """Returns a seed: the given one, or a new one that the given generator draws."""
        state = self.random_state
        if state is None:
            state = np.random.default_rng()
        if isinstance(state, np.random.RandomState):
            return int(state.randint(1 << 31))
        if isinstance(state, np.random.Generator):
            return int(state.integers(1 << 31))
        return _checks.integer(state, "random_state", 0)

    def _has_embeddings(self) -> bool:
        model = getattr(self, "model_", None)
        if _is(self.method, "auto"):
            return model is not None and bool(model._hidden)
        return _is(self.method, "network", "factorize")

    def _takes_no_negatives(self) -> bool:
        """Reports whether negative values are an error; other losses of networks have rules of their own."""
        if _is(self.method, "network"):
            return _is(self.network, "default") and _is(self.loss, "default", "softmax")
        return _is(self.method, "rp3beta") or (_is(self.method, "factorize") and _is(self.variant, "default", "ials"))

    def _read(self, X: Any, fitting: bool = False) -> Any:
        """Returns X as compressed rows, or what can be read as it is, and checks its items."""
        if not fitting and "_kept" not in self.__dict__ and not hasattr(self, "model_"):
            raise NotFittedError("this Recommender is not fitted yet; call fit(X) first")
        names, X = column_names(X), X if isinstance(X, (Dataset, Interactions)) else compressed(X)
        rows, columns = matrix_of(X).shape
        if fitting:
            for count, what in ((rows, "sample(s)"), (columns, "feature(s)")):
                if not count:
                    raise InvalidDataError(
                        f"X has 0 {what} (shape=({rows}, {columns})) while a minimum of 1 is required."
                    )
            self.n_features_in_ = columns
            if names is not None:
                self.feature_names_in_ = names
        elif names is not None and hasattr(self, "feature_names_in_"):
            check_names(names, self.feature_names_in_)
        if columns != self.n_features_in_:
            raise InvalidArgumentError(
                f"X has {columns} features, but Recommender is expecting {self.n_features_in_} features as input: the "
                "items of the fitted model"
            )
        return X

    def _check_signs(self, X: Any) -> None:
        if isinstance(X, Dataset) or not self._takes_no_negatives():
            return
        what = f"Negative values in data passed to X, which method={self.method!r} cannot take"
        refuse(matrix_of(X), lambda values: values < 0, what)

    def _weighted(self, X: Any, sample_weight: Any) -> Any:
        """Returns X with the weights of its rows in the values; as it is for a network, whose loss has them."""
        if sample_weight is None or self.method == "network":
            return X
        weights = weights_of(sample_weight, X)
        is_exact = {
            "popularity": True,
            "linear": True,
            "item_knn": _is(self.similarity, "default", "cosine", "dot"),
        }
        if not is_exact.get(self.method):
            raise UnsupportedError(
                f"method={self.method!r} has no weights of rows with these options. sample_weight is for linear, "
                "popularity, item_knn (cosine or dot) and network"
            )
        weighted = canonical(matrix_of(X), "X")
        factors = weights ** _POWERS.get(self.method, 1.0)
        weighted.data = weighted.data * np.repeat(factors, np.diff(weighted.indptr))
        weighted.eliminate_zeros()
        return weighted

    # ---- what scikit-learn asks for ----

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self._takes_no_negatives()
        tags.non_deterministic = _is(self.method, "auto")
        if self._has_embeddings():
            from sklearn.utils import TransformerTags

            tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags

    def _more_tags(self) -> dict[str, Any]:  # before scikit-learn 1.6
        return {"X_types": ["2darray", "sparse"], "requires_positive_X": self._takes_no_negatives()}


def options_of(method: str) -> dict[str, str]:
    """Returns the options of a method: the parameter of the estimator and that of the function."""
    names = [name for name in inspect.signature(METHODS[method]).parameters if name not in (*_WITHOUT, *_COMPUTE)]
    names = [name for name in names if name != "progress" and (method, name) != ("auto", "metric")]
    return {_RENAMED.get(name, name): name for name in names}


def _is(value: Any, *words: str) -> bool:
    """Reports whether a parameter is one of some words; it may be anything, also an array."""
    return isinstance(value, str) and value in words
