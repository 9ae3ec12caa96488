"""Models that are computed from a matrix without training steps."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from dsstne import _checks, _handles, _inverse, _native, _options
from dsstne._layers import nearest
from dsstne.dataset import Dataset, item_names, open_dataset
from dsstne.devices import chosen
from dsstne.errors import CancelledError, InvalidArgumentError
from dsstne.model import Model
from dsstne.progress import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike

__all__ = ["factorize", "item_knn", "linear", "rp3beta"]

_T = TypeVar("_T")


def item_knn(
    X: Any,
    *,
    k: int = 200,
    metric: str = "cosine",
    shrink: float | None = None,
    items: Sequence[str] | ArrayLike | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Model:
    """Makes a model that recommends the items that are most similar to those of a row.

    The score of item j for a row x is the sum of x[i] s(i, j) over the items i of the row that have j among the k items
    most similar to them. With x_i the column of item i, and n_i the number of rows that have it:

    - ``"cosine"``: s = x_i x_j / (length of x_i times length of x_j + shrink);
    - ``"jaccard"``: s = n_ij / (n_i + n_j - n_ij + shrink), where n_ij is the number of rows that have both;
    - ``"dice"``: s = 2 n_ij / (n_i + n_j + shrink);
    - ``"dot"``: s = x_i x_j.

    Sarwar et al., "Item-based Collaborative Filtering Recommendation Algorithms", 2001.

    Args:
        X: Interaction matrix [rows, items], or :class:`dsstne.Interactions`, whose names of the items the model keeps.
        k: Number of similar items that an item keeps.
        metric: ``"cosine"``, ``"jaccard"``, ``"dice"`` or ``"dot"``.
        shrink: Shrink term; it makes items less similar that few rows have. None = 20; ``"dot"`` has none.
        items: Names of the items; None = those of Interactions, if X is that.
        seed: Not used; nothing is random.
        devices: The computation runs on the CPU. A named device that is not available raises an error.
        threads: CPU threads; None = as many as the process may use. They change no bit of the result.
        memory_limit: Maximum bytes of the computation; a plan that needs more raises an error.
        max_seconds: Time limit; a computation that is not done then raises :class:`dsstne.CancelledError`.
        progress: Show a progress bar in terminals and notebooks, or a line every 30 seconds if stderr is a file.

    Returns:
        A model with a sparse matrix of weights between items, as made by :meth:`dsstne.Model.from_item_weights`.

    Raises:
        InvalidArgumentError: An option is not valid.
        InvalidDataError: X is damaged or has values that are not finite; the message names row, column and value.
        OutOfMemoryError: The plan is above ``memory_limit`` or does not fit.
        CancelledError: ``max_seconds`` passed.
        KeyboardInterrupt: Ctrl-C.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
        >>> model = dsstne.item_knn(X, k=1, progress=False)
        >>> model.similar_items([0], k=1)[0]
        array([[1]], dtype=int32)
    """
    method = {"kind": "item_knn", "k": _k(k), "metric": metric}
    if shrink is not None:
        method["shrink"] = shrink
    return _solve(X, method, items, seed, devices, threads, memory_limit, max_seconds, progress)


def rp3beta(
    X: Any,
    *,
    k: int = 200,
    alpha: float = 0.6,
    beta: float = 0.2,
    items: Sequence[str] | ArrayLike | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Model:
    """Makes a model of random walks of three steps, from a row to an item to a row to an item.

    The weight of item j for a row that has item i is the sum over the rows u that have both of (x_ui / d_i)^alpha
    (x_uj / d_u)^alpha / n_j^beta, where d_i and d_u are the sums of the values of the item and of the row, and n_j is
    the number of rows that have item j. Each item keeps its k largest weights.

    Christoffel et al., "Blockbusters and Wallflowers: Accurate, Diverse, and Scalable Recommendations with Random
    Walks", 2015; Paudel et al., "Updatable, Accurate, Diverse, and Scalable Recommendations for Interactive
    Applications", 2017.

    Args:
        X: Interaction matrix [rows, items]; values must not be negative.
        k: Number of weights that an item keeps.
        alpha: Exponent of the probabilities of a step.
        beta: Exponent of the popularity by which an item is divided; 0 gives P3alpha.
        items, seed, devices, threads, memory_limit, max_seconds, progress: See :func:`dsstne.item_knn`.

    Returns:
        A model with a sparse matrix of weights between items, as made by :meth:`dsstne.Model.from_item_weights`.

    Raises:
        DsstneError: As :func:`dsstne.item_knn`; InvalidDataError also for a negative value.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
        >>> dsstne.rp3beta(X, k=2, progress=False).recommend(X[:1], k=1)[0]
        array([[2]], dtype=int32)
    """
    method = {"kind": "rp3beta", "k": _k(k), "alpha": alpha, "beta": beta}
    return _solve(X, method, items, seed, devices, threads, memory_limit, max_seconds, progress)


def linear(
    X: Any,
    *,
    method: str = "auto",
    per_item: int | None = 128,
    regularization: float = 18.0,
    regularization_exponent: float = 0.25,
    dropout: float = 0.1,
    row_exponent: float = 0.5,
    item_exponent: float = 0.2,
    output_exponent: float = 0.2,
    neighbors: int = 512,
    probes: int = 256,
    tolerance: float = 1e-3,
    items: Sequence[str] | ArrayLike | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Model:
    """Makes a linear model, weighted EASE: each item is predicted from the other items of the row.

    With d_u and d_i the numbers of stored entries of row u and item i, D the diagonal matrix of the d_i, and W that of
    d_u^-row_exponent:

    - Y = W^1/2 X D^-item_exponent, scaled so that the mean of g = diag(Y'Y) is 1;
    - P = (Y'Y + diag(regularization g^regularization_exponent + dropout / (1 - dropout) g))^-1;
    - score(x) = x S with S[i, j] = -d_i^-item_exponent P[i, j] / P[j, j] d_j^(item_exponent - output_exponent), and
      S[i, i] = 0.

    The exponents 0 and ``dropout=0`` give EASE, whose λ is ``regularization`` times the mean number of rows of an item.
    A row without stored items is answered by popularity.

    Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", 2019; Steck, "Autoencoders that don't overfit towards
    the Identity", 2020; Steck, "Markov Random Fields for Collaborative Filtering", 2019 (``"restricted"``).

    Args:
        X: Interaction matrix [rows, items].
        method: How P is computed. ``"inverse"`` is LAPACK's dense inverse, for up to some thousand items;
            ``"iterative"`` solves for the rows of P by conjugate gradients, for any number of items. Both give the same
            weights up to rounding and ``tolerance``. ``"restricted"`` computes each column of S from the items alone
            that are most correlated with its item, an approximation for very many items. ``"operator"`` computes no
            weights: the model keeps the data and solves for each row that it scores, which takes longer than weights
            do. ``"auto"`` takes the inverse, if its three matrices fit into ``memory_limit``, or the iterative method,
            whichever is less work, or the restricted one where both would take hours: from 32 times stored entries
            times items = 1e14 on.
        neighbors: Number of items from which ``"restricted"`` computes a column, up to 1,024.
        per_item: Number of weights that a row of S keeps, the largest; None keeps all, as a dense matrix.
        regularization: Ridge regularization, relative to the mean diagonal of Y'Y.
        regularization_exponent: How much more the regularization is for items with a larger diagonal.
        dropout: Probability of dropping an item of a row, whose expectation the model takes into account.
        row_exponent: How much less rows with many items count.
        item_exponent: How much less items with many rows count as inputs.
        output_exponent: How much less items with many rows count as outputs.
        probes: Number of random vectors that estimate the diagonal of P: for ``"operator"``, and to choose the weights
            that ``"iterative"`` keeps.
        tolerance: Where conjugate gradients end: the residual, relative to that after the first iteration.
        items, devices, threads, memory_limit, max_seconds, progress: See :func:`dsstne.item_knn`. LAPACK has threads
            of its own, and neither ``max_seconds`` nor Ctrl-C ends it early.
        seed: Of the random vectors.

    Returns:
        A model with a matrix of weights between items, as made by :meth:`dsstne.Model.from_item_weights`; for
        ``"operator"`` a model that keeps the data.

    Warns:
        UserWarning: Conjugate gradients have not reached the tolerance within 20 iterations; the regularization is low.

    Raises:
        DsstneError: As :func:`dsstne.item_knn`.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
        >>> dsstne.linear(X, progress=False).recommend(X[:1], k=1)[0]
        array([[2]], dtype=int32)
    """
    parameters = {
        "regularization": regularization,
        "regularization_exponent": regularization_exponent,
        "dropout": dropout,
        "row_exponent": row_exponent,
        "item_exponent": item_exponent,
        "output_exponent": output_exponent,
    }
    for name, value in parameters.items():
        if value is None:
            raise InvalidArgumentError(f"{name} must be a number, not None")
    common = (items, seed, devices, threads, memory_limit, max_seconds, progress)
    methods = ("auto", "inverse", "iterative", "restricted", "operator")
    if _checks.text(method, "method") not in methods:
        raise InvalidArgumentError(f"method: {_checks.shown(method)} is unknown; {nearest(method, methods)}")
    if _checks.integer(neighbors, "neighbors", 1) > 1024:
        raise InvalidArgumentError(f"neighbors: expected 1 to 1,024, got {neighbors:,}")
    kept = None if per_item is None else _checks.integer(per_item, "per_item", 1)
    with _opened(X) as data:
        columns = data.shape[1]
        if method == "auto":
            limit = None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1)
            fits = limit is None or 3 * 4 * columns**2 + 16 * data.nnz <= limit  # three matrices and X twice
            if columns <= 20_000 and columns**2 <= 100 * data.nnz and fits:
                method = "inverse"
            else:  # eight iterations for each item are 32 FLOP for each entry
                method = "iterative" if 32 * data.nnz * columns <= 1e14 else "restricted"
        if method == "inverse":
            gram = _solve(data, {"kind": "gram", **parameters}, *common)
            return _inverse.invert(gram, item_exponent, output_exponent, kept)
        size = {"operator": True} if method == "operator" else {"per_item": min(kept or columns, columns)}
        if method == "restricted":
            special = {"kind": "linear_restricted", "neighbors": neighbors}
        else:
            special = {"kind": "linear", "probes": probes, "tolerance": tolerance, "seed": seed}
        return _solve(data, {**parameters, **size, **special}, *common)


def _k(k: int) -> int:
    return min(_checks.integer(k, "k", 1), (1 << 31) - 1)


@contextlib.contextmanager
def _opened(X: Any) -> Iterator[Dataset]:
    """Opens a matrix as a dataset; one that is open already stays open."""
    data, made = open_dataset(X, "X")
    try:
        yield data
    finally:
        if made:
            data.close()


def _solve(
    X: Any,
    method: dict[str, Any] | Callable[[tuple[int, int]], dict[str, Any]],
    items: Any,
    seed: int,
    devices: Any,
    threads: int | None,
    memory_limit: int | None,
    max_seconds: float | None,
    progress: bool,
) -> Model:
    """Runs a solver until it is done, and returns its model; see :func:`compute`."""
    names = item_names(items, X)

    def take(solver: _handles.Handle, _: tuple[int, int]) -> Model:
        return Model._solved(solver, names)

    return compute(X, method, seed, devices, threads, memory_limit, max_seconds, progress, take)


def compute(
    X: Any,
    method: dict[str, Any] | Callable[[tuple[int, int]], dict[str, Any]],
    seed: int,
    devices: Any,
    threads: int | None,
    memory_limit: int | None,
    max_seconds: float | None,
    progress: bool,
    take: Callable[[_handles.Handle, tuple[int, int]], _T],
) -> _T:
    """Runs a solver until it is done, and returns what ``take`` makes of it and of the shape of X.

    ``method`` are its options, or a function that makes them of the shape of X.
    """
    _checks.integer(seed, "seed", 0)
    seconds = 0.0 if max_seconds is None else _checks.positive(max_seconds, "max_seconds")
    limit = None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1)
    common = {"devices": chosen(devices), "threads": threads, "memory_limit": limit}
    with _opened(X) as data, _handles.Undo() as undo:
        method = method(data.shape) if callable(method) else method
        options = {**method, **common}
        solver = _handles.Handle("solver_open", _options.to_json(options), owners=data)
        undo.callback(solver.close)
        _native.call("solver_bind", solver.value, b"input", data._handle.value)
        bar = Steps(method["kind"], _checks.boolean(progress, "progress"))
        undo.callback(bar.close)
        poll = (lambda: bar.update(_native.solver_progress(solver))) if bar.shown else None
        state = _native.solver_run(solver, seconds, poll=poll)
        if state["done"] < state["steps"]:
            raise CancelledError(
                f"{method['kind']} did {state['done']:,} of {state['steps']:,} steps within max_seconds={max_seconds}"
            )
        if state["unfinished"]:
            warnings.warn(
                f"{method['kind']}: {state['unfinished']:,} systems of equations are not solved to tolerance="
                f'{method["tolerance"]} after 20 iterations; use more regularization, or method="inverse"',
                stacklevel=5,
            )
        return take(solver, data.shape)


def factorize(
    X: Any,
    *,
    method: str = "ials",
    factors: int = 128,
    regularization: float | None = None,
    alpha: float | None = None,
    unobserved_weight: float | None = None,
    nu: float = 1.0,
    epochs: int = 16,
    items: Sequence[str] | ArrayLike | None = None,
    seed: int = 0,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Model:
    """Makes a model of factors of rows and items by alternating least squares (ALS).

    With ``"ials"``, the values of X are weights of observations, and the factors w of the rows and h of the items
    minimize::

        sum over the stored (u, i) of alpha X[u, i] (w_u h_i - 1)^2
        + unobserved_weight sum over all (u, i) of (w_u h_i)^2
        + regularization (sum over u of (n_u + unobserved_weight I)^nu |w_u|^2
                          + sum over i of (n_i + unobserved_weight U)^nu |h_i|^2)

    where U and I are the numbers of rows and items, and n the numbers of stored entries of a row or an item. This is
    iALS as in Rendle et al., "Revisiting the Performance of iALS on Item Recommendation Benchmarks", 2021. An epoch
    solves exactly for all rows, then for all items. A row that the model has not seen gets its factors in the same way,
    by one solve.

    With ``"explicit"``, the values are ratings, and only stored entries count. With the mean m of all values and biases
    b, the factors minimize::

        sum over the stored (u, i) of (m + b_u + b_i + w_u h_i - X[u, i])^2
        + regularization (sum over u of n_u^nu (|w_u|^2 + b_u^2) + sum over i of n_i^nu (|h_i|^2 + b_i^2))

    (Zhou et al., "Large-Scale Parallel Collaborative Filtering for the Netflix Prize", 2008).

    From implicit: its ``iterations`` are ``epochs``. For a matrix of ones, its objective with ``alpha=c`` and
    ``regularization=r`` is that of ``unobserved_weight=1 / (c - 1)``, ``regularization=r / c`` and ``nu=0``, which
    ranks items alike.

    Args:
        X: Interaction matrix [rows, items]; for ``"ials"``, values must not be negative.
        method: ``"ials"`` or ``"explicit"``.
        factors: Number of factors, up to 1,024 and to the smaller side of X.
        regularization: Weight of the squares of the factors. None = 0.05 for ``"explicit"``, and for ``"ials"`` such
            that a row with the mean number of entries m has the weight 3 in all: 3 / (m + unobserved_weight I)^nu, but
            at most 0.1.
        alpha: Weight of an observation of value 1, for ``"ials"``; None = 1.
        unobserved_weight: Weight of all pairs of a row and an item, observed or not, for ``"ials"``; None = 0.02.
        nu: How the regularization grows with the number of entries: 1 = in proportion, 0 = not at all.
        epochs: Number of epochs.
        items: Names of the items.
        seed: Seed of the first factors of the items, which are random.
        devices, threads, memory_limit, max_seconds, progress: See :func:`dsstne.item_knn`.

    Returns:
        A model with the tensors ``factors`` [items, factors] and, for ``"ials"``, ``squares`` [factors]: its factors
        are turned so that the matrix of their squares is diagonal. For ``"explicit"`` there is ``bias`` [items]
        instead. ``model.embed(X)`` returns the factors of rows; those of rows without entries are 0. The model predicts
        on the CPU.

    Raises:
        InvalidDataError: X is damaged or has values that the method does not take; the message names row and column.
        InvalidArgumentError: An option is not valid, or ``factors`` is above the smaller side of X.
        NotFiniteError: Values or weights are too large or too small for float32.
        DsstneError: Otherwise as :func:`dsstne.item_knn`.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]], dtype=np.float32))
        >>> model = dsstne.factorize(X, factors=2, progress=False)
        >>> model.recommend(X[:1], k=1)[0]
        array([[2]], dtype=int32)
    """
    _checks.text(method, "method")
    options = {"kind": method, "factors": _checks.integer(factors, "factors", 1)}
    options |= {"epochs": _checks.integer(epochs, "epochs", 1), "nu": nu, "seed": _checks.integer(seed, "seed", 0)}
    given = {"regularization": regularization, "alpha": alpha, "unobserved_weight": unobserved_weight}
    options |= {name: value for name, value in given.items() if value is not None}
    return _solve(X, options, items, seed, devices, threads, memory_limit, max_seconds, progress)
