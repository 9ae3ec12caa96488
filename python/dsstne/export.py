"""Models for other programs: ONNX graphs, item vectors for nearest-neighbour search, and views of model files.

``to_onnx`` needs the package onnx: ``pip install dsstne[onnx]``.
"""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks, _onnx, _options
from dsstne._predictor import check_k, ranked_units
from dsstne._weights import DTYPES, user_shape
from dsstne.errors import (
    CorruptFileError,
    InputOutputError,
    InvalidArgumentError,
    MissingFileError,
    UnsupportedError,
)
from dsstne.model import LONGEST_HEADER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsstne.model import Model

__all__ = ["item_vectors", "query_vectors", "to_onnx", "views"]

# Why a kind of model cannot be an ONNX graph, and what to do instead.
_NOT_ONNX = {
    "ridge": 'a linear model with method="operator" solves a system of equations for each row; export one with another '
    "method, whose weights are stored",
    "spectral": "a spectral model filters rows by the data that it keeps; export a network or a linear model instead",
    "factors": "a factorization solves a system of equations for each row; give its item_vectors to an index instead",
    "vectors": "the scores of an index are inner products with the query; export model.tensor('vectors') instead",
    "blend": "a blend standardizes the scores of its parts by row; export one of model.parts() instead",
}

# Why a kind of model has no item vectors, and what to do instead.
_BY_ITEMS = "which are not inner products of few numbers; recommend() ranks all items exactly"
_NO_VECTORS = {
    "item_weights": f"a model of weights between items scores by sums of them, {_BY_ITEMS}, and so does its ONNX graph",
    "ridge": f'a linear model with method="operator" scores by solutions, {_BY_ITEMS}',
    "spectral": f"a spectral model scores by a filter of the row, {_BY_ITEMS}",
    "vectors": 'the vectors of an index are model.tensor("vectors")',
    "blend": f"a blend scores by standardized sums, {_BY_ITEMS}; parts among model.parts() can have vectors",
}


def to_onnx(
    model: Model,
    path: str | os.PathLike[str],
    k: int | None = None,
    *,
    exclude_seen: bool | None = None,
    layer: str | None = None,
) -> None:
    """Writes a network or a model of weights between items as an ONNX graph that recommends.

    The graph computes what :meth:`dsstne.Model.recommend` does: the same items, except where scores are closer than the
    rounding of float32 sums. It needs opset 18, as in onnxruntime from 1.14 on. docs/export.md has its inputs and
    outputs. Weights above 2 GB are written to ``<path>.data``, which must stay beside the graph.

    Args:
        model: A network, or a model of weights between items: linear, of neighbourhoods, random walks or popularity.
        path: File to write, usually ``*.onnx``. Existing files are replaced when the new ones are complete.
        k: Length of the lists; None = 10, or all items if there are fewer.
        exclude_seen: Leave out the items of the row, for the first input layer. None = as in
            :meth:`dsstne.Model.recommend`.
        layer: Name of the output layer to rank; None = the first.

    Raises:
        UnsupportedError: ONNX cannot express the model; the message says what to do instead.
        NotFoundError: The model does not have this output layer.
        InvalidArgumentError: k, an option or the path is not valid.
        BusyError: A trainer is training the model.
        InputOutputError: The operating system refused to write; existing files are unchanged.
        ImportError: The package onnx is not installed.

    Example:
        >>> import dsstne, numpy as np, onnxruntime, tempfile
        >>> model = dsstne.Model.from_item_weights(np.eye(3)[[1, 2, 0]], items=["tea", "milk", "bread"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.export.to_onnx(model, f"{folder}/model.onnx", k=2)
        ...     session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
        ...     row = {"ids": np.array([[0, -1]]), "values": np.ones((1, 2), np.float32)}
        ...     session.run(["items"], row)[0].tolist()
        [[1, 2]]
    """
    units = ranked_units(model, layer)
    k = check_k(k, units)
    _refuse(model, "item_weights", _NOT_ONNX, "to_onnx")
    layer = model.output if layer is None else layer
    if exclude_seen is None:
        exclude_seen = model.same_items and layer == model.output
    exclude_seen = _checks.boolean(exclude_seen, "exclude_seen")
    if exclude_seen:
        name, size = next(iter(model.inputs.items()))
        if size != units:
            raise InvalidArgumentError(
                f"exclude_seen is True, but the first input layer, {name!r}, has {size:,} columns and the output "
                f"{layer!r} {units:,} items, so they are not the same items"
            )
    _onnx.write(model, path, k, layer, exclude_seen)


def item_vectors(model: Model, layer: str | None = None) -> NDArray[np.float32]:
    """Returns a vector for each item, whose inner products with the query vectors of rows rank the items.

    An index for nearest neighbours, such as those of FAISS, usearch and hnswlib, finds items by them without scoring
    all; docs/export.md shows how, and how many of the best items each finds.

    The inner product of :func:`query_vectors` and item vectors is the score of :meth:`dsstne.Model.predict` up to
    rounding; in a model of ratings, up to a constant of the row.

    Args:
        model: A network, or a model of :func:`dsstne.factorize`.
        layer: Name of the output layer; None = the first.

    Returns:
        float32 [items, d]: the units of the output's sources, and one more if there is a bias. A copy.

    Raises:
        UnsupportedError: The scores of the model are not inner products of vectors, as in a linear model.
        NotFoundError: The model does not have this output layer.
        BusyError: A trainer is training the model.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
        >>> model = dsstne.fit(X, hidden=4, epochs=1, progress=False)
        >>> vectors, queries = dsstne.export.item_vectors(model), dsstne.export.query_vectors(model, X)
        >>> vectors.shape, queries.shape
        ((20, 5), (100, 5))
        >>> bool(np.allclose(queries @ vectors.T, model.predict(X), atol=1e-5))
        True
    """
    sources, temperature, bias = _vectors(model, layer, "item_vectors")
    parts = []
    for _, weight in sources:
        part = model.tensor(weight)
        if temperature:
            part *= _onnx.reciprocal(_onnx.lengths(part))[:, None].astype(np.float32)
        parts.append(part)
    if bias:
        parts.append(model.tensor(bias)[:, None])
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def query_vectors(model: Model, X: Any, layer: str | None = None, **options: Any) -> NDArray[np.float32]:
    """Returns a vector for each row, to search the vectors of :func:`dsstne.export.item_vectors` with.

    Args:
        model: A network, or a model of :func:`dsstne.factorize`.
        X: Interaction matrix [n, inputs].
        layer: Name of the output layer; None = the first.
        **options: As in :meth:`dsstne.Model.predict`.

    Returns:
        float32 [n, d].

    Raises:
        UnsupportedError: The scores of the model are not inner products of vectors, as in a linear model.
        DsstneError: Otherwise as :meth:`dsstne.Model.predict`.

    Example:
        >>> import dsstne, numpy as np
        >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]], np.float32)
        >>> model = dsstne.factorize(X, factors=2, progress=False)
        >>> dsstne.export.query_vectors(model, X).shape
        (3, 2)
    """
    sources, temperature, bias = _vectors(model, layer, "query_vectors")
    parts: list[NDArray[Any]] = [model.embed(X, source, **options) for source, _ in sources]
    if temperature:
        parts = [part * (_onnx.reciprocal(_onnx.lengths(part))[:, None] / temperature) for part in parts]
    if bias:
        parts.append(np.ones((len(parts[0]), 1)))
    return np.concatenate(parts, axis=1, dtype=np.float32)


def views(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Maps a model file into memory and returns its tensors as read-only arrays, without reading or copying them.

    The system reads the parts that are used, and processes that map the same file share them. An array is valid for as
    long as it exists: :meth:`dsstne.Model.save` puts a new file in the place of the old one, whose content the arrays
    keep. A program that shortens the file itself ends the processes that use it (SIGBUS). The digests are not compared;
    :func:`dsstne.load` does so.

    Args:
        path: A file of :meth:`dsstne.Model.save`.

    Returns:
        The arrays by the names of docs/model-file.md; biases have one dimension. Numbers of bfloat16, which NumPy does
        not have, are their bits as uint16.

    Raises:
        CorruptFileError: The file is not a model file, or its header is damaged.
        MissingFileError: The file does not exist.
        InputOutputError: The operating system refused to map the file.

    Example:
        >>> import dsstne, numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.Model.from_item_weights(np.eye(2)).save(f"{folder}/model.dsstne")
        ...     dsstne.export.views(f"{folder}/model.dsstne")["weight"].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    whole, shown = _mapped(path)
    try:
        start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
        if start > 8 + LONGEST_HEADER:
            raise ValueError(f"a header of {start - 8:,} bytes")
        header = json.loads(whole[8:start].tobytes())
        if header.pop("__metadata__")["format"] != "dsstne.model":
            raise ValueError("it has another format")
        header.pop("dsstne.digests")
        return {name: _view({"name": name, **entry}, whole[start:]) for name, entry in header.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{shown}: not a dsstne model file, or its header is damaged: {error!r:.200}") from None


def _mapped(path: Any) -> tuple[NDArray[np.uint8], str]:
    """Maps a file into memory; returns its bytes and its name for messages."""
    with _options.path_argument(path) as name:
        shown = f"{os.fsdecode(name)!s:.300}"
        try:
            return np.asarray(np.memmap(os.fsdecode(name), np.uint8, "r")), shown
        except FileNotFoundError:
            raise MissingFileError(f"cannot map {shown}: no such file", errno.ENOENT, path) from None
        except OSError as error:
            raise InputOutputError(f"{shown}: {error.strerror}", error.errno or 0, path) from None
        except ValueError:  # there is nothing to map
            raise CorruptFileError(f"{shown}: the file is empty") from None


def _view(entry: dict[str, Any], data: NDArray[np.uint8]) -> NDArray[Any]:
    """Returns the tensor of an entry of the header."""
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(data):
        raise ValueError(f"{entry['name']!r} ends after the file")
    return data[begin:end].view(DTYPES[entry["dtype"]]).reshape(user_shape(entry))


def _vectors(model: Model, layer: str | None, what: str) -> tuple[list[tuple[str, str]], float, str | None]:
    """Returns what scores are inner products of: layers and weights, the temperature, and the name of the bias."""
    ranked_units(model, layer)
    _refuse(model, "factors", _NO_VECTORS, what)
    if model.network is None:
        return [("user", "factors")], 0, "bias" if "bias" in model.tensors else None
    name = model.output if layer is None else layer
    output = next(layer for layer in model.network["layers"] if layer["name"] == name)
    if not output["sources"]:
        raise UnsupportedError(f"{what}: the output {name!r} has no sources; every row has the scores of its bias")
    return _onnx.sources_of(output), output["temperature"], f"{name}.bias" if output["bias"] else None


def _refuse(model: Model, taken: str, reasons: dict[str, str], what: str) -> None:
    """Raises an error if a model is neither a network nor of the kind that is taken."""
    kind = model._definition.get("kind")
    if kind not in (None, taken):
        raise UnsupportedError(f"{what}: " + reasons.get(kind, f"models of the kind {kind!r} are not supported"))
