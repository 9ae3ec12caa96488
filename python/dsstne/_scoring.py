"""What a model computes: recommendations, scores of items, values of layers, neighbours, and the plan of these."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _attribution, _checks, _frames
from dsstne._activations import activation_of
from dsstne._layers import nearest, numbers
from dsstne._matrices import one_row
from dsstne._predictor import (
    WEIGHTS_ONLY,
    Predictor,
    are_names,
    check_item_names,
    check_k,
    chosen_items,
    item_numbers,
    ranked_units,
)
from dsstne._weights import Weights
from dsstne.dataset import names_of
from dsstne.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsstne.serving import OpenPredictor

_BY_ROW = ("ridge", "spectral")  # kinds of models that keep the data: their scores are linear, without a matrix


def _one_item_rows(ids: NDArray[Any], values: NDArray[Any], columns: int) -> Any:
    """Returns a matrix whose rows have one stored item each."""
    return scipy.sparse.csr_array((values, ids, np.arange(len(ids) + 1)), shape=(len(ids), columns))


def _stored(x: Any, name: str) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Returns the columns and values that are not zero, and the number of columns, of a matrix with one row."""
    ids, values, columns = one_row(x, name)
    return ids[values != 0], values[values != 0], columns


def _named(X: Any) -> Interactions | None:
    """Returns Interactions, or the first in a mapping of input layers; None for anything else."""
    matrices = X.values() if _checks.is_mapping(X) else [X]
    return next((one for one in matrices if isinstance(one, Interactions)), None)


class Scoring(Weights):
    """The predictions of :class:`dsstne.Model`, which describes their common options."""

    def recommend(
        self,
        X: Any,
        k: int | None = None,
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
            k: Length of the lists, from 1 to the number of items; None = 10, or all items if there are fewer.
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
        choice = chosen_items(self, items, filter_items, units, layer)
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
        first = _named(X)
        if first is None:
            return ids, scores
        units = ranked_units(self, layer)
        names = self._item_names() if layer in (None, self.output) else None
        if names is None and not (self.same_items and len(first.item_names) == units):
            names = np.arange(units)
        return first._recommended(ids, scores, rows, names)

    def predictor(self, k: int | None = None, **options: Any) -> OpenPredictor:
        """Opens a predictor that stays open, for recommendations that are asked for one by one, as in a server.

        Args:
            k: Length of the longest lists; None = 10, or all items if there are fewer.
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
        activation: bool = False,
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
            activation: Return the values after the activation of the output, with which training compares the targets,
                instead of the scores: the soft-max of each row over all items for the loss ``"softmax"``, the sigmoid
                for ``"sigmoid"`` and ``"scaled_marginal"``, for other losses the activation in the definition of the
                layer. Computed in float64 and rounded. The values of a hidden layer are the same with and without it.
            rows, batch_size, devices, threads, memory_limit: See :class:`Model`.

        Returns:
            float32 [n, units of the layer].

        Raises:
            NotFoundError: The model does not have this layer, or it is an input layer. Otherwise as :meth:`recommend`.
            InvalidArgumentError: ``activation`` is True and the model is not a network, so it has none.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
            >>> dsstne.popularity(X).predict(X, rows=[0])
            array([[1., 0., 2.]], dtype=float32)
            >>> network = dsstne.fit(X, hidden=2, epochs=0)
            >>> network.predict(X, activation=True).sum(axis=1)
            array([1., 1.], dtype=float32)
        """
        known = [name for name, entry in self._layers.items() if entry["kind"] != "input"]
        if layer is not None and _checks.text(layer, "layer") not in known:
            raise NotFoundError(f"the model has no computed layer {_checks.shown(layer)}; {nearest(layer, known)}")
        asked = self._layers[layer or self.output]
        units, value = asked["size"], None
        if _checks.boolean(activation, "activation") and asked["kind"] == "output":
            value = activation_of(self, asked["name"])
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        with Predictor(self, X, rows=rows, options=options, row_bytes=4 * units) as predictor:
            out = np.empty((predictor.count, units), np.float32)
            predictor.predict(layer, units, out)
        if value is not None:
            value.apply(out)
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
        hidden = list(self._hidden)
        if not hidden:
            raise NotFoundError("the model has no hidden layer")
        return self.predict(X, hidden[-1] if layer is None else layer, **options)

    def scores(
        self, X: Any, items: Any, *, activation: bool = False, rows: Any = None, **options: Any
    ) -> NDArray[np.float32]:
        """Scores the given items only, float32 [n, items]; computes rows in blocks to limit memory.

        Args:
            X: Interaction matrix [n, inputs].
            items: Ids or names of the items, in the order of the columns of the result.
            activation: As in :meth:`predict`. A soft-max is that over all items, so the values of the given items are
                the same as there, and their sum is at most 1.
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
        chosen = item_numbers(self, items, "items", self.output_units)
        value = activation_of(self, self.output) if _checks.boolean(activation, "activation") else None
        size = 4 * len(chosen)
        with Predictor(self, X, rows=rows, options=options, row_bytes=size, in_blocks=True) as predictor:
            out = np.empty((predictor.count, len(chosen)), np.float32)
            for places, of_block in predictor.blocks():
                block = predictor.block(of_block)
                if value is not None:
                    value.apply(block)
                out[places] = block[:, chosen]
        return out

    def neighbors(
        self,
        queries: Any,
        k: int | None = None,
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
            k: Length of the lists; None = 10, or all rows if there are fewer.
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
        choice = chosen_items(self, items, filter_items, count, tensor)
        asked = numbers(queries, count, "queries", np.int32)
        options = {"metric": metric, "include_self": include_self}
        with Predictor(self, WEIGHTS_ONLY, options={"devices": devices, "threads": threads}) as predictor:
            return predictor.neighbors(tensor, asked, k, options, choice)

    def similar_items(
        self, items: Any, k: int | None = None, **options: Any
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Finds the k items most similar to each given item, with :meth:`neighbors` on the weight of the output layer.

        In a model of weights between items, these are the items with the greatest entries in the row of the item; in
        a model that keeps the data instead of weights, and in a :func:`dsstne.blend`, those with the greatest scores
        for a row with this item alone.

        Args:
            items: Ids or names, [n].
            k: Length of the lists; None = 10, or all items if there are fewer.
            **options: As in :meth:`neighbors`, or in :meth:`recommend` for a model that keeps the data or a blend.

        Returns:
            Ids, int32 [n, k], and similarities, float32 [n, k], as :meth:`neighbors`. If names were given, the first
            array has names, and None where no item is left.

        Raises:
            NotFoundError: The model has no item of this name; the message suggests the nearest one.
            InvalidArgumentError: As for :meth:`neighbors`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> ids, cosines = dsstne.fit(X, hidden=4, epochs=1, progress=False).similar_items([7, 2], k=3)
            >>> ids.shape, cosines.shape
            ((2, 3), (2, 3))
        """
        asked = item_numbers(self, items, "items", self.output_units)
        if self._definition.get("kind") in (*_BY_ROW, "blend"):
            alone = _one_item_rows(asked, np.ones(len(asked), np.float32), self.output_units)
            ids, scores = self.recommend(alone, k, exclude="input", **options)
        else:
            if self._definition.get("kind") == "item_weights":
                options = {"metric": "entry", **options}
            ids, scores = self.neighbors(asked, k, **options)
        return (self.names(ids) if are_names(items) else ids), scores

    def similar_users(
        self,
        users: Any,
        X: Any,
        k: int | None = None,
        *,
        layer: str | None = None,
        metric: str = "cosine",
        include_self: bool = False,
        filter_users: Any = None,
        batch_size: int = 2048,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> Any:
        """Finds the k rows of X whose vectors are most similar to those of the given users; the result is exact.

        The vector of a row is what :meth:`embed` computes: the values of a hidden layer of a network, or the factors of
        the row in a model of factors. Other models have no such vectors; for them, similar users are rows of X with a
        small angle: ``dsstne.item_knn(X.T, k=100, shrink=0).similar_items(users)``.

        Args:
            users: Row numbers of X, [n], or a matrix [n, inputs] with rows of other users, who may be new. If X is
                :class:`dsstne.Interactions`, also names of its users.
            X: Interaction matrix [rows, inputs] of the users to find.
            k: Length of the lists, up to the number of rows of X; None = 10, or all rows if there are fewer.
            layer: Name of the hidden layer; None = the last one.
            metric: ``"cosine"`` or ``"dot"``.
            include_self: Whether a user can be similar to itself, if ``users`` are row numbers.
            filter_users: Never return these rows of X: numbers, a boolean mask, or names as in ``users``.
            batch_size, devices, threads: See :class:`Model`.
            memory_limit: Maximum bytes of computing the vectors, which take 4 bytes a row and unit. Comparing them
                takes as much again.

        Returns:
            Row numbers of X, int32 [n, k], and similarities, float32 [n, k], best first; -1 and -inf where no row is
            left. If X is Interactions, a frame as :meth:`recommend` returns one, with the columns of the user,
            ``similar``, ``score`` and ``rank``.

        Raises:
            NotFoundError: The model has no hidden layer, or none with this name; or X has no user of this name.
            InvalidArgumentError: k, a row number or an option is not valid. Otherwise as :meth:`recommend`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
            >>> model = dsstne.factorize(X, factors=2, progress=False)
            >>> model.similar_users([0], X, k=1)[0]
            array([[2]], dtype=int32)
        """
        from dsstne.model import Model  # which imports this module

        if not self._hidden:
            raise NotFoundError(
                "the model has no vectors of users, since it has no hidden layer; "
                "compare the rows of X: dsstne.item_knn(X.T, k=100, shrink=0).similar_items(users)"
            )
        options = {"batch_size": batch_size, "devices": devices, "threads": threads, "memory_limit": memory_limit}
        named = _named(X)
        if named is not None:
            users, filter_users = (named.rows(one) if are_names(one) else one for one in (users, filter_users))
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
            ids, scores = compared.neighbors(asked, k, filter_items=left_out, **options)
        if named is None:
            return ids, scores
        known = _frames.Names(named.row_names, asked, named._form.types[0])
        if len(vectors) > rows:
            new, places = _named(users), np.arange(len(asked))
            asking = _frames.Names(places if new is None else new.row_names, places)
        else:
            asking = known
        return _frames.ranking(named._form.library, (named._form.heads[0], "similar"), asking, known, ids, scores)

    def explain(
        self,
        x: Any,
        item: Any,
        *,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> Any:
        """Returns the part that each stored item of a row has in the score of an item.

        - In models of weights between items, and those that keep the data, the score is a sum over the stored items.
        - In a model of factors, each stored item adds its share to the factors of the row, which are linear in the
          targets of the items once their weights are given (Hu et al., 2008, section 5).
        - In a network, the parts are integrated gradients along the straight line from the empty row to x, or to x
          divided by its length if the input is scaled (Sundararajan et al., "Axiomatic Attribution for Deep Networks",
          2017). This is computed on the CPU, with a copy of the weights. If there are several inputs, the parts are
          those of the items of the first, and the rows of the others stay as they are.
        - In a :func:`dsstne.blend`, the parts are the sums over its models p of weights[p] times the parts in the score
          by p, divided by the deviation d_p(x). :meth:`explain_parts` returns what each model adds instead. This copies
          the weights of one model at a time.

        Args:
            x: One row [1, items], such as ``X[[7]]``; a mapping from input layers to rows if there are several.
            item: Id or name of the item that is scored, or a list or array of one.
            devices, threads, memory_limit: See :class:`Model`.

        Returns:
            ``(ids, parts)``: the stored items of the row and their parts, largest first; of equal parts the lower item.
            Their sum is the score, without the bias of the item if the model has one. In a network it is the score
            less that of an empty row, to about a thousandth of the larger of the two. In a blend it is the score less a
            constant, in which no single item has a part: the sum over the models of weights[p] / d_p(x) times what p
            itself leaves out (its bias, or the score of an empty row; all of its score if it gives all rows the same)
            less its mean m_p(x).

            For Interactions a frame as :meth:`recommend` returns one, with the stored items of the user; ``score`` has
            their parts. For other rows, if the item was named, names of the items instead of ids.

        Raises:
            NotFoundError: The scores do not depend on the row, as in :func:`dsstne.popularity`, or the model has no
                item of this name.
            InvalidArgumentError: x is not one row, or there is no such item.

        Example:
            >>> import dsstne, numpy as np
            >>> model = dsstne.Model.from_item_weights(np.array([[0, 0.5, 0.1], [0.5, 0, 0], [0.1, 2, 0]]))
            >>> model.explain(np.array([[1, 0, 1]]), 1)
            (array([2, 0], dtype=int32), array([2. , 0.5], dtype=float32))
        """
        options = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
        found = self._contributions(x, self._one_item(x, item), options)
        if found is None:
            raise NotFoundError("this model gives all rows the same scores, so no item has a part in a score")
        ids, parts = found[0].astype(np.int32), found[1].astype(np.float32)
        order = np.lexsort((ids, -parts))
        ids, parts = ids[order], parts[order]
        row = x[next(iter(self.inputs))] if _checks.is_mapping(x) else x
        if isinstance(row, Interactions):
            return row._recommended(ids[None], parts[None], None, None)
        return (self.names(ids) if self.same_items and are_names(item) else ids), parts

    def _one_item(self, x: Any, item: Any) -> int:
        """Returns the id of the item to explain, and checks the names of the row."""
        chosen = item_numbers(self, item, "item", self.output_units)
        if len(chosen) != 1:
            raise InvalidArgumentError(f"item must be one item, not {_checks.shown(item)}")
        if self.same_items:
            check_item_names(self, names_of(x), "x")
        return int(chosen[0])

    def _contributions(
        self, x: Any, item: int, options: dict[str, Any]
    ) -> tuple[NDArray[Any], NDArray[np.floating[Any]]] | None:
        """Returns the stored items of a row and their parts in a score; None if no item has one."""
        kind = self._definition.get("kind")
        if kind == "blend":
            return self._of_blend(x, item, options)
        if kind == "vectors":
            raise UnsupportedError("the columns of a query are no items, so an index has no parts of scores to explain")
        weighs = kind != "item_weights" or any(name.startswith("weight") for name in self.tensors)
        if not (weighs and self.inputs):
            return None
        if kind in _BY_ROW or kind == "item_weights":
            ids, values, columns = _stored(x, "x")
            # Each stored item as a row of its own, whose score is the part.
            parts = self.scores(_one_item_rows(ids, values, columns), [item], **options)[:, 0]
            if "bias" in self.tensors and not self._definition.get("bias_if_empty"):
                parts = parts - self.tensor("bias")[item]
            return ids, parts
        given = x if _checks.is_mapping(x) else {next(iter(self.inputs)): x}
        rows = {name: _stored(row, "x" if row is x else f"x[{name!r}]")[:2] for name, row in given.items()}
        self.scores(x, [item], **options)  # raises the errors of bad data
        rows = {name: rows[name] for name in self.inputs}  # in the order of the layers
        first = next(iter(rows.values()))
        is_network = self._network is not None
        found = _attribution.of_network(self, rows, item) if is_network else _attribution.of_factors(self, first, item)
        return first[0], found

    def _of_blend(
        self, x: Any, item: int, options: dict[str, Any]
    ) -> tuple[NDArray[Any], NDArray[np.floating[Any]]] | None:
        """Adds up the parts that the stored items have in the scores by the models of a blend."""
        from dsstne.model import Model  # which imports this module

        ids, values, columns = _stored(x, "x")
        row = scipy.sparse.csr_array((values, ids, [0, len(ids)]), shape=(1, columns))
        sums: list[NDArray[np.float64]] = []
        for n, (about, weight) in enumerate(zip(self._definition["parts"], self.tensor("weights"), strict=True)):
            with Model._new(about["model"]) as part:
                self._copy_tensors(part, f"part{n}.", "")
                found = part._contributions(row, item, options)
                if found is None:
                    continue
                deviation = 1.0
                if about["standardized"]:
                    others = np.delete(part.predict(row, **options)[0].astype(np.float64), ids)
                    deviation = np.std(others - others[0]) if len(others) else 0.0  # exactly 0 if all are equal
                sums.append(weight / deviation * found[1] if deviation else np.zeros(len(ids)))
        return (ids, np.sum(sums, axis=0)) if sums else None

    def explain_parts(
        self,
        x: Any,
        item: Any,
        *,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> NDArray[np.float32]:
        """Returns what each model of a :func:`dsstne.blend` adds to the score of an item.

        Args:
            x, item, devices, threads, memory_limit: As in :meth:`explain`.

        Returns:
            float32 [models], in the order of :meth:`dsstne.Model.parts`. Their sum is the score.

        Raises:
            NotFoundError: The model is not a blend, or has no item of this name.
            InvalidArgumentError: x is not one row, or there is no such item.

        Example:
            >>> import dsstne, numpy as np
            >>> X = np.array([[1, 0, 1], [0, 0, 1]])
            >>> dsstne.blend([dsstne.popularity(X)], scales=[2]).explain_parts(X[:1], 2)
            array([1.], dtype=float32)
        """
        if self._definition.get("kind") != "blend":
            raise NotFoundError("this model is not a blend, so it has no parts; explain() is about the items of a row")
        options = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
        item = self._one_item(x, item)
        ids, values, columns = one_row(x, "x")
        row = scipy.sparse.csr_array((values, ids, [0, len(ids)]), shape=(1, columns))
        weights = self.tensor("weights")
        parts = np.empty(len(weights), np.float32)
        with contextlib.closing(copy.copy(self)) as alone:
            for n in range(len(weights)):
                alone.set_tensor("weights", np.where(np.arange(len(weights)) == n, weights, 0))
                parts[n] = alone.scores(row, [item], **options)[0, 0]
        return parts

    def plan(
        self,
        X: Any = None,
        *,
        k: int | None = None,
        layer: str | None = None,
        batch_size: int = 2048,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> dict[str, Any]:
        """Returns what :meth:`recommend` needs and does; allocates nothing.

        Args:
            X: Interaction matrix [n, inputs]; None = the plan assumes empty rows.
            k: Length of the lists; None = 10, or all items if there are fewer.
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
