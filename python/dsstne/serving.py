"""Predictors that stay open: recommendations for rows that arrive one by one, from any number of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _handles, _native, _options
from dsstne._layers import check_row_names, check_rows, nearest
from dsstne._matrices import arrays_of
from dsstne._predictor import check_item_names, check_k, chosen_items, ranked_units
from dsstne._tables import Plan
from dsstne.dataset import Dataset, names_of, open_dataset
from dsstne.devices import chosen
from dsstne.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsstne._scoring import Scoring

__all__ = ["OpenPredictor"]

# Multiplications of a call, about: some tenths of a second, after which Ctrl-C ends a long request.
_CALL = 1 << 35


class OpenPredictor(_handles.Closing):
    """Recommends items for rows that arrive one by one or a few at a time; :meth:`dsstne.Model.predictor` makes it.

    Opening plans and allocates everything that requests need. Requests may come from any number of threads. Rows that
    arrive while others are computed form the next batch. Many threads therefore get more rows a second than one does. A
    row's answer has the same bits whoever else asks.

    The model can be trained on and changed between requests; requests then see its new weights. A request while it is
    changed raises BusyError. Close the predictor before the model. It cannot be pickled.

    Args:
        model: The model.
        k: Length of the longest lists; None = 10, or all items if there are fewer.
        exclude_seen, items, filter_items, layer: As in :meth:`dsstne.Model.recommend`, for all requests.
        wait: Seconds that a batch waits for further rows unless it is full. Batches become larger and answers later.
            None: rows only wait for those that are being computed.
        batch_size: The most rows that are computed together.
        devices, threads: As in :func:`dsstne.fit`.
        memory_limit: Maximum bytes of everything that is planned here.

    Attributes:
        k, batch_size: As given.

    Example:
        >>> import dsstne, numpy as np
        >>> model = dsstne.Model.from_item_weights(np.array([[0, 0.5, 0.1], [0.5, 0, 0.2], [0.1, 0.2, 0]]))
        >>> with model.predictor(k=2) as predictor:
        ...     predictor.recommend(np.array([[1, 0, 0]]))
        ...     predictor.recommend(np.array([[0, 1, 1]]), k=1)
        (array([[1, 2]], dtype=int32), array([[0.5, 0.1]], dtype=float32))
        (array([[0]], dtype=int32), array([[0.6]], dtype=float32))
    """

    def __init__(
        self,
        model: Scoring,
        k: int | None = None,
        *,
        exclude_seen: bool | None = None,
        items: Any = None,
        filter_items: Any = None,
        layer: str | None = None,
        wait: float | None = None,
        batch_size: int = 1024,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        units = ranked_units(model, layer)
        self.k = check_k(k, units)
        self.batch_size = _checks.integer(batch_size, "batch_size", 1)
        choice = chosen_items(model, items, filter_items, units, layer)
        ranked = layer or model.output
        if exclude_seen is None:
            exclude_seen = model.same_items and ranked == model.output
        self._model, self._layer, self._inputs, self._units = model, layer, dict(model.inputs), units
        self._names: Any = None  # of items, which a request had and which are those of the model
        self._plan_options = _options.to_json({"k": self.k, "layer": ranked})
        self._rows = max(1, min(self.batch_size, _CALL // max(1, model.parameters)))
        opening = {"batch_size": self.batch_size, "devices": chosen(devices), "threads": threads}
        if memory_limit is not None:
            memory_limit = _checks.integer(memory_limit, "memory_limit", 1)
        wait = None if wait is None else _checks.duration(wait, "wait")
        exclude_seen = _checks.boolean(exclude_seen, "exclude_seen")
        serving = {"items": choice.mode, "layer": ranked, "wait": wait, "exclude_seen": exclude_seen}
        with _handles.Undo() as undo:
            arguments = (model._handle.value, _options.to_json({**opening, "memory_limit": memory_limit}))
            self._handle = _handles.Handle("predictor_open", *arguments, owners=model._handle)
            undo.callback(self._handle.close)
            chosen_ids = (choice.items, choice.length)
            _native.call("predictor_serve", self._handle.value, *chosen_ids, self.k, _options.to_json(serving))
            undo.pop_all()

    def recommend(self, X: Any, k: int | None = None, *, exclude: Any = None) -> Any:
        """Recommends items for each row of X, as :meth:`dsstne.Model.recommend` does.

        Args:
            X: Interaction matrix [n, inputs], most often one row; a CSR matrix is not copied. Or
                :class:`dsstne.Interactions`. For a network with several inputs, a mapping from their names to these.
            k: Length of the lists, up to that of the predictor; None = that.
            exclude: Matrix [n, items] whose stored items are left out; None = what ``exclude_seen`` said when the
                predictor was opened.

        Returns:
            Ids, int32 [n, k], and scores (logits), float32 [n, k], best first; -1 and -inf where no item is left. For
            Interactions a frame of names, as :meth:`dsstne.Model.recommend`.

        Raises:
            InvalidArgumentError: k or a shape is not valid, or Interactions have other items than the model.
            InvalidDataError: X is damaged; the message names row, column and value. Other requests go on.
            BusyError: The model is being trained or changed.
        """
        k = self.k if k is None else self._check_k(k)
        layers = self._of_layers(X)
        if names_of(layers[0][1]) is not None and self._model.same_items:
            self._check_names(layers[0][1], "X")
        given = [
            _described(matrix, "X" if matrix is X else f"X[{name!r}]", self._inputs[name]) for name, matrix in layers
        ]
        if exclude is not None:
            if self._layer in (None, self._model.output):
                self._check_names(exclude, "exclude")
            given.append(_described(exclude, "exclude", self._units))
        rows, inputs = given[0].rows, len(self._inputs)
        for other in given[1:]:
            check_rows(other.name, other.rows, given[0].name, rows)
        if len(given) > 1:
            names, given_as = (one.name for one in given), [*(matrix for _, matrix in layers), exclude]
            check_row_names(zip(names, given_as, strict=False))
        ids, scores = np.empty((rows, k), np.int32), np.empty((rows, k), np.float32)
        for first in range(0, rows, self._rows):
            count = min(self._rows, rows - first)
            matrices = b"".join([matrix.info(first, count) for matrix in given[:inputs]])
            left_out = None if exclude is None else given[inputs].info(first, count)
            part = slice(first, first + count)
            _native.call("predictor_ask", self._handle.value, matrices, inputs, left_out, k, ids[part], scores[part])
        return self._model._answer(X, ids, scores, layer=self._layer)

    def plan(self) -> dict[str, Any]:
        """Returns the plan of the memory that the predictor has taken and of its operations, as :meth:`Model.plan`."""
        return Plan(_native.call_json("predictor_plan", self._handle.value, self._plan_options))

    def _check_names(self, X: Any, name: str) -> None:
        """Checks the names of items, once for all requests whose Interactions share them."""
        names = names_of(X)
        if names is not None and names is not self._names:
            check_item_names(self._model, names, name)
            self._names = names

    def _check_k(self, k: Any) -> int:
        k = _checks.integer(k, "k")
        if not 1 <= k <= self.k:
            raise InvalidArgumentError(f"k is {k:,}; this predictor was opened for lists of 1 to {self.k:,} items")
        return int(k)

    def _of_layers(self, X: Any) -> list[tuple[str, Any]]:
        """Returns name and matrix of each input layer, in the order of the model's layers."""
        names = list(self._inputs)
        if not _checks.is_mapping(X):
            if len(names) > 1:
                listed = ", ".join(map(repr, names))
                raise InvalidArgumentError(f"X: the network has {len(names)} inputs; give a mapping with {listed}")
            return [(names[0], X)]
        given: Mapping[Any, Any] = X
        for name in given:
            if name not in self._inputs:
                raise NotFoundError(f"X: the network has no such input {name!r}; {nearest(str(name), names)}")
        for name in names:
            if name not in given:
                raise InvalidArgumentError(f"X: no matrix for layer {name!r}")
        return [(name, given[name]) for name in names]

    def __reduce__(self) -> Any:
        raise TypeError("an open predictor uses memory of its process and cannot be pickled; pickle the model")

    def __repr__(self) -> str:
        return "OpenPredictor(closed)" if self.closed else f"OpenPredictor(k={self.k}, {self._units:,} items)"


def _described(X: Any, name: str, columns: int) -> _native.MatrixArrays:
    """Returns where the arrays of a matrix are, and what keeps them alive."""
    if isinstance(X, Dataset):
        parts: Any = X._in_memory(name)  # which close() may drop meanwhile
    elif hasattr(X, "__arrow_c_array__"):
        X, parts = open_dataset(X, name, columns)[0], None
        if X.info["value_bits"] and not X.info["values"] and X.info["index_bits"]:  # neither float32 nor float64
            X, parts = arrays_of(X[:], name)
    else:
        X, parts = arrays_of(X, name)
    rows, found = X.shape
    if found != columns:
        raise InvalidArgumentError(
            f"{name} has {found:,} columns and the layer of the model has {columns:,} units; "
            "was the matrix built with another item list?"
        )
    if parts is None:
        info = X.info
        bits = (info["index_bits"], info["offset_bits"], info["value_bits"])
        addresses = (info["offsets"] or 0, info["indices"] or 0, info["values"] or 0)
        return _native.MatrixArrays(*bits, rows, columns, info["non_zeros"], *addresses, name, X)
    indptr, indices, values = parts
    bits = (8 * indices.itemsize, 8 * indptr.itemsize, 0 if values is None else 8 * values.itemsize)
    entries = len(indices) if values is None else min(len(indices), len(values))
    to_values = 0 if values is None else _native.address(values)
    addresses = (_native.address(indptr), _native.address(indices), to_values)
    return _native.MatrixArrays(*bits, rows, columns, entries, *addresses, name, parts)
