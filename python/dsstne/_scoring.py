"""What a model computes: recommendations, scores of items, values of layers, neighbours, and the plan of these."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _attribution, _checks
from dsstne._layers import nearest, numbers
from dsstne._predictor import WEIGHTS_ONLY, Predictor, check_item_names, check_k, chosen_items, ranked_units
from dsstne._weights import Weights
from dsstne.dataset import names_of, one_row
from dsstne.errors import InvalidArgumentError, NotFoundError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsstne.serving import OpenPredictor

_BLOCK = 1 << 24  # floats in a dense block of scores
_BY_ROW = ("ridge", "spectral")  # kinds of models that keep the data: their scores are linear, without a matrix


def _one_item_rows(ids: NDArray[Any], values: NDArray[Any], columns: int) -> Any:
    """Returns a matrix whose rows have one stored item each."""
    return scipy.sparse.csr_array((values, ids, np.arange(len(ids) + 1)), shape=(len(ids), columns))


def _stored(x: Any, name: str) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Returns the columns and values that are not zero, and the number of columns, of a matrix with one row."""
    ids, values, columns = one_row(x, name)
    return ids[values != 0], values[values != 0], columns


def _largest_first(ids: NDArray[Any], parts: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    order = np.lexsort((ids, -parts))
    return ids[order].astype(np.int32), parts[order]


class Scoring(Weights):
    """The predictions of :class:`dsstne.Model`, which describes their common options."""

    def recommend(
        self,
        X: Any,
        k: int = 10,
        *,
        exclude_seen: bool | None = None,
        exclude: Any = None,
        items: Any = None,
        filter_items: Any = None,
        rows: Any = None,
        layer: str | None = None,
        batch_size: int = 2048,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> Any:
        """Finds the k best items for each row.

        All items are scored and the ranking is exact; among equal scores, the lower id comes first.

        Args:
            X: Interaction matrix [n, inputs] with one row per user; the users may be new to the model. Or
                :class:`dsstne.Interactions`, also in a mapping of input layers.
            k: Length of the lists, from 1 to the number of items.
            exclude_seen: Leave out the items stored in the row of X, for the first input layer. None =
                :attr:`same_items` if the first output is ranked, else False.
            exclude: Matrix [n, outputs] whose stored items are left out, instead of those of X.
            items, filter_items: Rank only these items, never recommend these; see :class:`Model`.
            layer: Name of the output layer to rank; None = the first. Its units are the items.
            rows, batch_size, devices, threads, memory_limit: See :class:`Model`.

        Returns:
            Ids, int32 [n, k], and scores (logits), float32 [n, k], best first; -1 and -inf where no item is left.

            For Interactions a frame of the library that they were made from (pandas, polars, pyarrow; otherwise a dict
            of arrays) with a row for each recommended item: the user and the item under the names and with the types
            of the columns they came from, ``score`` and ``rank`` (from 1).

        Raises:
            NotFoundError: The model does not have this output layer.
            InvalidArgumentError: k, a shape, an id or an option is not valid, or Interactions have other items than the
                model.
            InvalidDataError: X is damaged; the message names row, column and value.
            OutOfMemoryError: The plan is above ``memory_limit`` or does not fit.
            KeyboardInterrupt: Ctrl-C.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
            >>> ids, scores = dsstne.popularity(X).recommend(X, k=2)
            >>> ids
            array([[ 1, -1],
                   [ 0,  1]], dtype=int32)
            >>> scores
            array([[  0., -inf],
                   [  1.,   0.]], dtype=float32)
        """
        units = ranked_units(self, layer)
        k = check_k(k, units)
        choice = chosen_items(items, filter_items, units)
        if exclude_seen is not None:
            exclude_seen = _checks.boolean(exclude_seen, "exclude_seen")
        without = exclude_seen is False
        if exclude is not None and without:
            raise InvalidArgumentError("exclude= and exclude_seen=False contradict each other; give one of them")
        if exclude is None and not without:
            exclude = "input" if exclude_seen else "auto"
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Predictor(self, X, rows=rows, options=options, layer=layer, row_bytes=8 * k) as predictor:
            ids, scores = predictor.recommend(k, exclude, choice)
            numbers_of_rows = predictor.rows
        return self._answer(X, ids, scores, numbers_of_rows, layer)

    def _answer(
        self, X: Any, ids: NDArray[np.int32], scores: NDArray[np.float32], rows: Any = None, layer: str | None = None
    ) -> Any:
        """Returns recommendations for some rows (None = all): ids and scores, or for Interactions a frame."""
        first = next((one for one in X.values() if isinstance(one, Interactions)), X) if _checks.is_mapping(X) else X
        if not isinstance(first, Interactions):
            return ids, scores
        units = ranked_units(self, layer)
        names = self._item_names() if layer in (None, self.output) else None
        if names is None and not (self.same_items and len(first.item_names) == units):
            names = np.arange(units)
        return first._recommended(ids, scores, rows, names)

    def predictor(self, k: int = 10, **options: Any) -> OpenPredictor:
        """Opens a predictor that stays open, for recommendations that are asked for one by one, as in a server.

        Args:
            k: Length of the longest lists.
            **options: See :class:`dsstne.OpenPredictor`.

        Returns:
            A predictor, whose ``recommend(X)`` may be called from any number of threads. Use it in a ``with`` block.

        Raises:
            OutOfMemoryError: The plan is above ``memory_limit`` or does not fit. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np
            >>> with dsstne.popularity(np.array([[1, 0, 1], [0, 0, 1]])).predictor(k=1) as predictor:
            ...     predictor.recommend(np.array([[0, 0, 1]]))
            (array([[0]], dtype=int32), array([[1.]], dtype=float32))
        """
        from dsstne.serving import OpenPredictor

        return OpenPredictor(self, k, **options)

    def predict(
        self,
        X: Any,
        layer: str | None = None,
        *,
        rows: Any = None,
        batch_size: int = 512,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> NDArray[np.float32]:
        """Computes all values of a layer: the scores (logits) of an output layer, the activations of a hidden layer.

        Args:
            X: Interaction matrix [n, inputs].
            layer: Name of the layer; None = the first output layer.
            rows, batch_size, devices, threads, memory_limit: See :class:`Model`.

        Returns:
            float32 [n, units of the layer].

        Raises:
            NotFoundError: The model does not have this layer, or it is an input layer. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
            >>> dsstne.popularity(X).predict(X, rows=[0])
            array([[1., 0., 2.]], dtype=float32)
        """
        known = [name for name, entry in self._layers.items() if entry["kind"] != "input"]
        if layer is not None and _checks.text(layer, "layer") not in known:
            raise NotFoundError(f"the model has no computed layer {_checks.shown(layer)}; {nearest(layer, known)}")
        units = self._layers[layer or self.output]["size"]
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Predictor(self, X, rows=rows, options=options, row_bytes=4 * units) as predictor:
            out = np.empty((predictor.count, units), np.float32)
            predictor.predict(layer, units, out)
        return out

    def embed(self, X: Any, layer: str | None = None, **options: Any) -> NDArray[np.float32]:
        """Computes the activations of a hidden layer (None = the last one), float32 [n, units].

        Args:
            X: Interaction matrix [n, inputs].
            layer: Name of the layer.
            **options: As in :meth:`predict`.

        Raises:
            NotFoundError: The model does not have this layer, or has no hidden layer. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=[8, 4], epochs=1, progress=False)
            >>> model.embed(X).shape, model.embed(X, "hidden1", rows=[3, 1]).shape
            ((100, 4), (2, 8))
        """
        hidden = list(self._sizes("hidden"))
        if not hidden:
            raise NotFoundError("the model has no hidden layer")
        return self.predict(X, hidden[-1] if layer is None else layer, **options)

    def scores(self, X: Any, items: Any, *, rows: Any = None, **options: Any) -> NDArray[np.float32]:
        """Scores the given items only, float32 [n, items]; computes rows in blocks to limit memory.

        Args:
            X: Interaction matrix [n, inputs].
            items: Ids of the items, in the order of the columns of the result.
            rows, **options: As in :meth:`predict`.

        Raises:
            InvalidArgumentError: An id, a shape or an option is not valid. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
            >>> dsstne.popularity(X).scores(X, [2, 0])
            array([[2., 1.],
                   [2., 1.]], dtype=float32)
        """
        chosen = numbers(items, self.output_units, "items", np.int32)
        with Predictor(self, X, rows=rows, options=options, row_bytes=4 * len(chosen)) as predictor:
            every = np.arange(predictor.count, dtype=np.int64) if predictor.rows is None else predictor.rows
            out = np.empty((len(every), len(chosen)), np.float32)
            size = max(1, _BLOCK // self.output_units)
            for start in range(0, len(every), size):
                predictor.rows = every[start : start + size]
                predictor.count = len(predictor.rows)
                block = np.empty((predictor.count, self.output_units), np.float32)
                predictor.predict(None, self.output_units, block)
                out[start : start + size] = block[:, chosen]
        return out

    def neighbors(
        self,
        queries: Any,
        k: int = 10,
        *,
        tensor: str | None = None,
        metric: str = "cosine",
        include_self: bool = False,
        items: Any = None,
        filter_items: Any = None,
        devices: Any = "auto",
        threads: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Finds the k nearest rows of a weight for each of the given rows.

        Args:
            queries: Row numbers, [n].
            k: Length of the lists.
            tensor: Name of the weight; None = that of the output layer, whose rows are the items.
            metric: ``"cosine"`` or ``"dot"``; in a model of weights between items also ``"entry"``, which ranks the
                entries of the row.
            include_self: Whether a row can be its own neighbour.
            items, filter_items: Return only these rows, never these.
            devices, threads: See :class:`Model`.

        Returns:
            Row numbers, int32 [n, k], and similarities, float32 [n, k], best first; -1 and -inf where no row is left.

        Raises:
            NotFoundError: The model does not have this tensor.
            InvalidArgumentError: k, a row number or an option is not valid; for an unknown metric the message suggests
                the nearest known one.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.eye(3, dtype=np.float32))
            >>> model = dsstne.fit(X, hidden=2, epochs=0)
            >>> model.set_tensor("output.weight", [[1, 0], [0, 1], [2, 1]])
            >>> model.neighbors([0, 1], k=1, metric="dot")
            (array([[2],
                   [2]], dtype=int32), array([[2.],
                   [1.]], dtype=float32))
        """
        shapes = {} if tensor is None else self.tensors
        if tensor is not None and _checks.text(tensor, "tensor") not in shapes:
            raise NotFoundError(f"the model has no tensor {_checks.shown(tensor)}; {nearest(tensor, shapes)}")
        count = self.output_units if tensor is None else shapes[tensor][0]
        k = check_k(k, count)
        choice = chosen_items(items, filter_items, count)
        asked = numbers(queries, count, "queries", np.int32)
        options = {"metric": metric, "include_self": include_self}
        with Predictor(self, WEIGHTS_ONLY, options={"devices": devices, "threads": threads}) as predictor:
            return predictor.neighbors(tensor, asked, k, options, choice)

    def similar_items(self, items: Any, k: int = 10, **options: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Finds the k items most similar to each given item, with :meth:`neighbors` on the weight of the output layer.

        In a model of weights between items, these are the items with the greatest entries in the row of the item; in
        a model that keeps the data instead of weights, and in a :func:`dsstne.blend`, those with the greatest scores
        for a row with this item alone.

        Args:
            items: Ids, [n].
            k: Length of the lists.
            **options: As in :meth:`neighbors`, or in :meth:`recommend` for a model that keeps the data or a blend.

        Raises:
            InvalidArgumentError: As for :meth:`neighbors`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> ids, cosines = dsstne.fit(X, hidden=4, epochs=1, progress=False).similar_items([7, 2], k=3)
            >>> ids.shape, cosines.shape
            ((2, 3), (2, 3))
        """
        if self._definition.get("kind") in (*_BY_ROW, "blend"):
            asked = numbers(items, self.output_units, "items", np.int32)
            alone = _one_item_rows(asked, np.ones(len(asked), np.float32), self.output_units)
            ids, scores = self.recommend(alone, k, exclude="input", **options)
            return ids, scores
        if self._definition.get("kind") == "item_weights":
            options = {"metric": "entry", **options}
        return self.neighbors(items, k, **options)

    def similar_users(
        self,
        users: Any,
        X: Any,
        k: int = 10,
        *,
        layer: str | None = None,
        metric: str = "cosine",
        include_self: bool = False,
        filter_users: Any = None,
        batch_size: int = 2048,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Finds the k rows of X whose vectors are most similar to those of the given users; the result is exact.

        The vector of a row is what :meth:`embed` computes: the values of a hidden layer of a network, or the factors of
        the row in a model of factors. Other models have no such vectors; for them, similar users are rows of X with a
        small angle: ``dsstne.item_knn(X.T, k=100, shrink=0).similar_items(users)``.

        Args:
            users: Row numbers of X, [n], or a matrix [n, inputs] with rows of other users, who may be new.
            X: Interaction matrix [rows, inputs] of the users to find.
            k: Length of the lists, up to the number of rows of X.
            layer: Name of the hidden layer; None = the last one.
            metric: ``"cosine"`` or ``"dot"``.
            include_self: Whether a user can be similar to itself, if ``users`` are row numbers.
            filter_users: Never return these rows of X: numbers or a boolean mask.
            batch_size, devices, threads: See :class:`Model`.
            memory_limit: Maximum bytes of computing the vectors, which take 4 bytes a row and unit. Comparing them
                takes as much again.

        Returns:
            Row numbers of X, int32 [n, k], and similarities, float32 [n, k], best first; -1 and -inf where no row is
            left.

        Raises:
            NotFoundError: The model has no hidden layer, or none with this name.
            InvalidArgumentError: k, a row number or an option is not valid. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
            >>> model = dsstne.factorize(X, factors=2, progress=False)
            >>> model.similar_users([0], X, k=1)[0]
            array([[2]], dtype=int32)
        """
        from dsstne.model import Model  # which imports this module

        if not self._sizes("hidden"):
            raise NotFoundError(
                "the model has no vectors of users, since it has no hidden layer; "
                "compare the rows of X: dsstne.item_knn(X.T, k=100, shrink=0).similar_items(users)"
            )
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        vectors = self.embed(X, layer, **options)
        rows = len(vectors)
        k = check_k(k, rows, "rows")
        left_out = None if filter_users is None else numbers(filter_users, rows, "filter_users", np.int32)
        if _checks.is_mapping(users) or isinstance(users, Interactions) or len(getattr(users, "shape", ())) == 2:
            vectors = np.concatenate([vectors, self.embed(users, layer, **options)])
            asked = np.arange(rows, len(vectors))
            left_out = asked if left_out is None else np.append(left_out, asked)
        else:
            asked = numbers(users, rows, "users", np.int32)
        # A network whose output has a row for each user: neighbors() then compares them.
        start = {"initializer": {"kind": "constant", "scale": 0}}
        layers = [
            {"name": "input", "kind": "input", "size": 1},
            {"name": "hidden", "kind": "hidden", "size": vectors.shape[1], **start},
            {"name": "users", "kind": "output", "size": len(vectors), "bias": False, **start},
        ]
        with Model({"layers": layers}) as compared:
            compared.set_tensor("users.weight", vectors)
            options = {"metric": metric, "include_self": include_self, "devices": devices, "threads": threads}
            return compared.neighbors(asked, k, filter_items=left_out, **options)

    def explain(
        self,
        x: Any,
        item: int,
        *,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the part that each stored item of a row has in the score of an item.

        - In models of weights between items, and those that keep the data, the score is a sum over the stored items.
        - In a model of factors, each stored item adds its share to the factors of the row, which are linear in the
          targets of the items once their weights are given (Hu et al., 2008, section 5).
        - In a network, the parts are integrated gradients along the straight line from the empty row to x, or to x
          divided by its length if the input is scaled (Sundararajan et al., "Axiomatic Attribution for Deep Networks",
          2017). This is computed on the CPU, with a copy of the weights. If there are several inputs, the parts are
          those of the items of the first, and the rows of the others stay as they are.
        - For a :func:`dsstne.blend`, the parts are those of its models instead: ``ids`` are their numbers.

        Args:
            x: One row [1, items], such as ``X[[7]]``; a mapping from input layers to rows if there are several.
            item: Id of the item that is scored.
            devices, threads, memory_limit: See :class:`Model`.

        Returns:
            ``(ids, parts)``: the stored items of the row and their parts, largest first; of equal parts the lower item.
            Their sum is the score, without the bias of the item if the model has one. In a network it is the score
            less that of an empty row, to about a thousandth of the larger of the two.

        Raises:
            NotFoundError: The scores do not depend on the row, as in :func:`dsstne.popularity`.
            InvalidArgumentError: x is not one row, or there is no such item.

        Example:
            >>> import dsstne, numpy as np
            >>> model = dsstne.Model.from_item_weights(np.array([[0, 0.5, 0.1], [0.5, 0, 0], [0.1, 2, 0]]))
            >>> model.explain(np.array([[1, 0, 1]]), 1)
            (array([2, 0], dtype=int32), array([2. , 0.5], dtype=float32))
        """
        options = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
        item = _checks.integer(item, "item", 0)
        if self.same_items:
            check_item_names(self, names_of(x), "x")
        kind = self._definition.get("kind")
        if kind == "blend":
            return self._explain_parts(x, item, options)
        weighs = kind != "item_weights" or any(name.startswith("weight") for name in self.tensors)
        if not (weighs and self.inputs):
            raise NotFoundError("this model gives all rows the same scores, so no item has a part in a score")
        if kind in _BY_ROW or kind == "item_weights":
            ids, values, columns = _stored(x, "x")
            # Each stored item as a row of its own, whose score is the part.
            parts = self.scores(_one_item_rows(ids, values, columns), [item], **options)[:, 0]
            if "bias" in self.tensors and not self._definition.get("bias_if_empty"):
                parts = parts - self.tensor("bias")[item]
            return _largest_first(ids, parts)
        given = x if _checks.is_mapping(x) else {next(iter(self.inputs)): x}
        rows = {name: _stored(row, "x" if row is x else f"x[{name!r}]")[:2] for name, row in given.items()}
        self.scores(x, [item], **options)  # raises the errors of bad data
        rows = {name: rows[name] for name in self.inputs}  # in the order of the layers
        first = next(iter(rows.values()))
        is_network = self._network is not None
        found = _attribution.of_network(self, rows, item) if is_network else _attribution.of_factors(self, first, item)
        return _largest_first(first[0], found.astype(np.float32))

    def _explain_parts(
        self, x: Any, item: int, options: dict[str, Any]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns the numbers of the models of a blend and what each adds: the score without the others."""
        ids, values, columns = one_row(x, "x")
        row = scipy.sparse.csr_array((values, ids, [0, len(ids)]), shape=(1, columns))
        weights = self.tensor("weights")
        parts = np.empty(len(weights), np.float32)
        with contextlib.closing(copy.copy(self)) as alone:
            for n in range(len(weights)):
                alone.set_tensor("weights", np.where(np.arange(len(weights)) == n, weights, 0))
                parts[n] = alone.scores(row, [item], **options)[0, 0]
        return _largest_first(np.arange(len(parts)), parts)

    def plan(
        self,
        X: Any = None,
        *,
        k: int = 10,
        layer: str | None = None,
        batch_size: int = 2048,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> dict[str, Any]:
        """Returns what :meth:`recommend` needs and does; allocates nothing.

        Args:
            X: Interaction matrix [n, inputs]; None = the plan assumes empty rows.
            k: Length of the lists.
            layer: Name of the output layer to rank; None = the first.
            batch_size, devices, threads, memory_limit: See :class:`Model`.

        Returns:
            As :meth:`dsstne.Trainer.plan`, a dictionary that prints as tables: ``parts`` of memory, their sum
            ``bytes``, ``operations``, ``devices``.

        Raises:
            NotFoundError: The model does not have this output layer. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np
            >>> dsstne.Model.from_item_weights(np.eye(3)).plan(k=2, devices="cpu")["operations"]
            ['TopK 2 of 3 items <- weight[3, 3]']
        """
        k = check_k(k, ranked_units(self, layer))
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Predictor(self, WEIGHTS_ONLY if X is None else X, options=options, layer=layer) as predictor:
            return predictor.plan(k)
