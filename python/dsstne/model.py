"""Models: how they are made, saved, loaded and copied."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne import _checks, _handles, _native, _options
from dsstne._extending import extended
from dsstne._items import check_integers, decode_names, first_difference
from dsstne._netcdf_network import ATTRIBUTE as NETCDF
from dsstne._scoring import Scoring
from dsstne._tables import History, Shown, Table, cell, size
from dsstne._weights import sparse_matrix
from dsstne.errors import (
    CorruptFileError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from dsstne.network import Network, definition_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dsstne.report import Report

__all__ = ["Model", "load"]

# Attributes of a model file that this module writes.
_HISTORY, _ITEM_KIND, _SAME_ITEMS = "dsstne.history", "dsstne.items", "dsstne.same_items"
_REPORT = "dsstne.report"
_SAME_ITEMS_WORDS = {"null": None, "true": True, "false": False}

_DEEPEST = 50  # levels of a history: far below Python's limit of recursion, for what copies it or writes it

# Attributes of a model that follow from its native object; a pickle and a copy have the others, also yours.
_DERIVED = {"_handle", "_network", "_definition", "_parameters", "_layers", "_names", "_checkpoint"}

_STATE_VERSION = 1  # of pickles

# Attributes of the file of a checkpoint: where training is, and where fit() is.
CHECKPOINT, FIT = "dsstne.checkpoint", "dsstne.fit"
LONGEST_HEADER = 100_000_000  # bytes, see docs/model-file.md

# Values in the history of a model file; reading one may take 200 bytes of memory.
_MOST_VALUES = 400_000


class Model(Scoring, Shown):
    """A network with its weights, or a model that scores by weights between items.

    Models are usually made by :func:`dsstne.fit`, :func:`dsstne.load` or :meth:`from_item_weights`. A model can be
    pickled, copied and used by several threads at once, but not while a :class:`dsstne.Trainer` trains it. Common
    options of the methods:

    - ``rows``: Row numbers of X or a boolean mask; None = all.
    - ``items``: Rank only these items. ``filter_items``: Never recommend these items. (Ids or a boolean mask; or names
      of items that are strings. Integers are always ids: :meth:`ids` finds those of names that are integers.)
    - ``batch_size``: Rows at a time. ``devices``, ``threads``: As in :func:`dsstne.fit`.
    - ``memory_limit``: Maximum bytes of the call and of the arrays that it returns.

    Args:
        network: Definition as a mapping, JSON text or path of a JSON file; or a network file of DSSTNE. What that says
            about training has no effect here: it is in :attr:`dsstne.Network.training`. Of a :class:`dsstne.Network`
            the model keeps it in ``attributes["netcdf"]``, for files of DSSTNE that :meth:`save` writes.
        sizes: Sizes of the layers whose size is ``"auto"`` in the definition.
        seed: Seed of the initial weights.
        items: Names of the items of the output, in order: strings or integers.

    Attributes:
        history: One record per epoch of training, see :func:`dsstne.fit`.
        attributes: Your own strings, saved with the model.
        report: What :func:`dsstne.auto` tried and chose, a :class:`dsstne.report.Report`, saved with the model; else
            None.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> layers = [dict(name="in", kind="input", size=4), dict(name="h", kind="hidden", size=2),
        ...           dict(name="out", kind="output", size=4)]
        >>> model = dsstne.Model({"layers": layers}, seed=1)
        >>> X = scipy.sparse.csr_array(np.eye(4, dtype=np.float32))
        >>> ids, scores = model.recommend(X, k=2)
        >>> ids.shape, scores.dtype
        ((4, 2), dtype('float32'))
    """

    report: Report | None = None

    def __init__(
        self,
        network: Network | Mapping[str, Any] | str | os.PathLike[str],
        *,
        sizes: Mapping[str, int] | None = None,
        seed: int = 0,
        items: Sequence[str] | ArrayLike | None = None,
    ) -> None:
        if sizes is not None and not isinstance(sizes, Mapping):
            raise InvalidArgumentError(f"sizes must be a mapping, not {_checks.shown(sizes)}")
        self._create(network, items, seed=seed, sizes=sizes or None)

    def _create(self, network: Any, items: Any = None, **options: Any) -> None:
        """Makes the native model; the options are those of ``dsstne_model_create``."""
        self._adopt(_handles.Handle("model_create", definition_text(network), _options.to_json(options)))
        if isinstance(network, Network) and (network.training or network.datasets or network.words):
            kept = {**network.words, **network.training, "datasets": network.datasets}
            self.attributes[NETCDF] = _options.to_json(kept).decode()
        if items is not None:
            self.items = items

    @classmethod
    def _new(cls, network: Any, items: Any = None, **options: Any) -> Model:
        model = cls.__new__(cls)
        model._create(network, items, **options)
        return model

    @classmethod
    def _solved(cls, solver: _handles.Handle, items: Any) -> Model:
        """Takes the model that a solver has computed; the stored items of a row are the seen ones."""
        model = cls.__new__(cls)
        model._adopt(_handles.Handle("model_from_solver", solver.value))
        model.same_items = True
        if items is not None:
            model.items = items
        return model

    @classmethod
    def from_item_weights(cls, W: Any, *, items: Sequence[str] | ArrayLike | None = None) -> Model:
        """Makes a model of weights between items, such as EASE, SLIM or item-based neighbourhoods: score(x) = x W.

        The rows of W are the items that a row of X has, the columns the items to score. The model has no network and
        cannot be trained; everything else works as for other models. :meth:`similar_items` ranks the entries of a row.

        Args:
            W: Matrix [items, items]: a dense array, or a sparse matrix of SciPy, which stays sparse (duplicates are
                summed). Values are converted to float32.
            items: Names of the items.

        Raises:
            InvalidArgumentError: W is not a square matrix of numbers.
            NotFiniteError: A value of W is not finite.
            OutOfMemoryError: W does not fit into memory.

        Example:
            >>> import dsstne, numpy as np
            >>> W = np.array([[0, 0.5, 0.1], [0.5, 0, 0], [0.1, 0, 0]])
            >>> model = dsstne.Model.from_item_weights(W, items=["tea", "milk", "bread"])
            >>> model.recommend(np.array([[1, 0, 0]]), k=2)
            (array([[1, 2]], dtype=int32), array([[0.5, 0.1]], dtype=float32))
        """
        is_sparse = scipy.sparse.issparse(W)
        W = W if is_sparse else _checks.array(W)
        if W.dtype.kind not in "buif":
            raise InvalidArgumentError(f"W: expected a matrix of numbers, got {W.dtype}")
        if W.ndim != 2 or W.shape[0] != W.shape[1] or not W.shape[0]:
            raise InvalidArgumentError(f"W: expected one row and one column for each item, got the shape {W.shape}")
        definition = {"kind": "item_weights", "items": W.shape[0]}
        if is_sparse:
            W = sparse_matrix(W, "W")
            definition |= {"weight": "csr", "entries": W.nnz}
        model = cls._new(definition, items)
        model.same_items = True
        model.set_tensor("weight", W)
        return model

    def check_gradients(
        self,
        X: Any,
        targets: Any = None,
        *,
        tensors: str | Sequence[str] | None = None,
        rows: Any = None,
        elements: int = 10,
        tolerance: float = 1e-3,
        seed: int = 0,
        devices: Any = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> dict[str, Any]:
        """Compares the gradients of a training step with central differences of the loss.

        It computes with copies and leaves the model as it is. Some elements of each tensor are changed by 1/64 to 1/512
        in either direction, and each such change is a training step of a copy: 8 steps an element, or 16 if the loss is
        so curved there that smaller changes are needed. The quotients are extrapolated (Romberg), and their error is
        estimated. What dropout and denoising drop follows from the seed and
        the number of the step, so it is the same in all these steps.

        An element agrees if the gradient differs from the quotient by at most ``tolerance`` times the larger of the
        two, plus 1.5e-5 times the loss for its rounding (2.4e-4 for the smaller changes), plus four times the estimated
        error. It is uncertain if that error alone is larger than the first two: where the loss is strongly curved, or
        near a kink of ``"relu"`` or ``"absolute"``. A tensor agrees if all its certain elements do, and at least half
        of the uncertain ones; so a gradient that is wrong in few uncertain elements is not found.

        Args:
            X, targets: The data, see :class:`dsstne.Trainer`. Stored zeros are absent, also for a loss with
                ``stored_only``.
            tensors: Names of tensors, see :attr:`tensors`, or of layers, whose tensors they stand for; None = all.
            rows: Row numbers of the batch, or a boolean mask; None = the first 64.
            elements: Number of elements of each tensor: half of them those with the largest gradients, the others drawn
                by the seed.
            tolerance: The relative difference that is allowed.
            seed: Of the elements, of dropout and of denoising.
            devices, threads, memory_limit: See :class:`dsstne.Trainer`.

        Returns:
            A dictionary that prints as a table: ``rows``, ``loss``, ``agrees`` (whether all tensors agree),
            ``disagreeing`` (the names of those that do not), and ``tensors``, which has for each name ``elements`` (how
            many were compared), ``uncertain`` (how many of them are), ``difference`` and ``relative`` (the largest
            absolute and the largest relative difference of the others; the relative one means little where a gradient
            is near 0), ``agrees``, and of the worst element its place ``at``, its ``gradient`` and the ``quotient``.

        Raises:
            InvalidArgumentError: The model is not a network, or an argument is not valid.
            NotFoundError: The model has no such tensor or layer.
            DsstneError: Otherwise as :meth:`dsstne.Trainer.run`.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=4, epochs=1, progress=False)
            >>> found = model.check_gradients(X, tensors="hidden1", elements=4)
            >>> found["agrees"], list(found["tensors"])
            (True, ['hidden1.weight', 'hidden1.bias'])
        """
        from dsstne import _gradients  # which imports this module

        compute = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
        return _gradients.check(self, X, targets, tensors, rows, elements, tolerance, seed, compute)

    # ---- files and copies ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file: definition, weights, item names, history and attributes.

        An existing file stays intact until the new one is on the disk. The file contains no code.

        Args:
            path: The file. A name that ends with ``.nc`` makes it a network file of Amazon's DSSTNE, in NetCDF-4, which
                has the network, its weights and the names of the items, but neither history nor attributes
                (docs/dsstne-files.md).

        Raises:
            InputOutputError: The operating system refused to write; an existing file is unchanged.
            InvalidArgumentError: An attribute is not a str, or the history is not a list of dicts.
            UnsupportedError: The file of DSSTNE cannot express the model; the message names the layer.
            ImportError: The packages that write NetCDF are missing: ``pip install dsstne[netcdf]``.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse, tempfile
            >>> model = dsstne.popularity(scipy.sparse.csr_array(np.eye(3, dtype=np.float32)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/popular.dsstne")
            ...     dsstne.load(f"{folder}/popular.dsstne")
            Model(3 - 3; 3 parameters)
        """
        with _options.path_argument(path) as name:
            if name.endswith(b".nc"):
                from dsstne import _netcdf_model  # which imports this module

                _netcdf_model.save(self, path)
                return
            options = _options.to_json({"attributes": self._file_attributes()})
            _native.call("model_save", self._handle.value, name, options)

    def _file_attributes(self) -> dict[str, str]:
        """Returns the attributes of a file of the model."""
        _, attributes = self._kept()
        for key, value in attributes.items():
            _checks.text(key, "a key of attributes")
            _checks.text(value, f"attributes[{key!r}]")
        try:
            attributes[_HISTORY] = json.dumps(self.history, default=_plain)
            _read_history(attributes[_HISTORY])
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"the history of the model cannot be saved: {error}") from None
        if self.report is not None:
            attributes[_REPORT] = _report_text(self.report)
        attributes[_ITEM_KIND] = self._item_kind
        if self._same_items is not None:
            attributes[_SAME_ITEMS] = json.dumps(self._same_items)
        return attributes

    def _take_history(self) -> None:
        """Moves the history and what a checkpoint has beside the model from the attributes to their places."""
        self.history = _read_history(self.attributes.pop(_HISTORY, "[]"))
        kept = {key: self.attributes.pop(key, None) for key in (CHECKPOINT, FIT)}
        self._checkpoint = {key: text for key, text in kept.items() if text is not None}

    def _resumed(self, path: str | os.PathLike[str]) -> str | None:
        """Takes history and attributes that a trainer has read from a checkpoint; returns what fit() has kept there."""
        self._read_attributes()
        with _reading_attributes(path):
            self._take_history()
        kind, *_ = [self.attributes.pop(key, "none") for key in (_ITEM_KIND, _SAME_ITEMS, _REPORT)]
        self._keep_items(path, kind)
        return self._checkpoint.get(FIT)

    def _keep_items(self, path: str | os.PathLike[str], kind: str) -> None:
        """Takes the names of the items of a checkpoint, or compares them with those that the model has."""
        from dsstne.export import views  # which imports this module

        file, own = views(path), self._item_names()
        if kind == "none" or "items.offsets" not in file:
            return
        names = decode_names(file["items.bytes"], file["items.offsets"], kind)
        if own is None:
            self.items = names
        elif (difference := first_difference(own, names)) is not None:
            at, given, kept = difference
            raise InvalidArgumentError(
                f"{os.fsdecode(path)}: items: item {at} is {given} and in the checkpoint {kept}; give the items that "
                "the run began with, or none"
            )

    def _state(self) -> dict[str, Any]:
        history, attributes = self._kept()
        names = ("items.bytes", "items.offsets")  # in the order of setting them
        listed = self._listed()
        tensors = {name: self._stored(name, listed) for name in listed if name not in names}
        with _native.lock:
            item_kind, listed = self._item_kind, self._listed()
            tensors |= {name: self.tensor(name) for name in names if name in listed}
        return {
            "version": _STATE_VERSION,
            "network": self._definition,
            "step": self.step,
            "tensors": tensors,
            "values": {**self._values(), "_item_kind": item_kind, "history": history, "attributes": attributes},
        }

    def _kept(self) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Returns copies of the history and the attributes, to which anything may have been assigned."""
        if not isinstance(self.attributes, Mapping):
            raise InvalidArgumentError(f"attributes must be a mapping, not {_checks.shown(self.attributes)}")
        if not isinstance(self.history, list):
            raise InvalidArgumentError(f"history must be a list, not {_checks.shown(self.history)}")
        try:
            return copy.deepcopy(self.history), dict(self.attributes)
        except RecursionError:
            raise InvalidArgumentError("history is nested too deeply") from None

    def _values(self) -> dict[str, Any]:
        """Returns the attributes of this object that its native object does not determine."""
        return {name: value for name, value in vars(self).items() if name not in _DERIVED}

    @classmethod
    def _from_state(cls, state: Mapping[str, Any]) -> Model:
        version = state.get("version")
        if version != _STATE_VERSION:
            raise UnsupportedError(
                f"another version of dsstne pickled this model (format {version}, this one reads {_STATE_VERSION}); "
                "use save() and load() between versions"
            )
        model = cls._new(state["network"], step=state["step"])
        for name, array in state["tensors"].items():
            model._set(name, array)
        vars(model).update(state["values"])
        return model

    def __reduce__(self) -> Any:
        return type(self)._from_state, (self._state(),)

    def copy(self) -> Model:
        """Returns an independent copy: ``copy.copy`` and ``copy.deepcopy`` do the same.

        A copy takes milliseconds and no memory for the weights: both models share the weights until one of them
        changes. The first run of a :class:`dsstne.Trainer` copies the weights before its first step; its plan lists
        them (``"a private copy of ..."``) and ``memory_limit`` includes them. :meth:`set_tensor` copies the tensor that
        it sets. A copy of an instance of a subclass, or a pickle, keeps the class and all attributes.

        Raises:
            BusyError: A trainer is training the model.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=4, epochs=1, progress=False)
            >>> other = model.copy()
            >>> with dsstne.Trainer(other, X) as trainer:
            ...     now = trainer.run(epochs=1)
            >>> model.step, other.step
            (1, 2)
        """
        history, attributes = self._kept()
        return self._copied(_handles.Handle("model_copy", self._handle.value), history, attributes)

    def _copied(self, handle: _handles.Handle, history: list[dict[str, Any]], attributes: dict[str, str]) -> Model:
        """Makes a copy of a native copy."""
        made = type(self).__new__(type(self))
        made._adopt(handle)
        vars(made).update(self._values(), _names=self._names)
        made.history, made.attributes = history, attributes
        return made

    __copy__ = copy

    def extended(
        self,
        items: int | Sequence[str] | ArrayLike,
        *,
        layers: str | Sequence[str] | None = None,
        seed: int = 0,
    ) -> Model:
        """Returns a model with more items, for training that goes on with a catalogue that has grown.

        The weights of the old items and all others are those of this model. The weights of the new items begin as the
        initializers of their layers say. The new model has the history and the attributes of this one, and is
        otherwise independent; this one stays as it is.

        Args:
            items: Number of all items, where the new ones come last. Or the names of all items, in any order: if the
                items of this model have names, each keeps its weights in its new place, and none may be missing.
            layers: Names of the layers whose columns are the items; None = the output, and the inputs of the same size.
                An input of users can get more columns in the same way.
            seed: Seed of the weights of new items.

        Raises:
            UnsupportedError: The model has no network.
            InvalidArgumentError: There are not more items than before, or a name is missing or there twice.
            BusyError: A trainer is training the model.

        Example:
            >>> import dsstne, numpy as np, scipy.sparse
            >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
            >>> model = dsstne.fit(X, hidden=4, epochs=1, progress=False)
            >>> larger = model.extended(25)
            >>> bool((larger.tensor("hidden1.weight")[:20] == model.tensor("hidden1.weight")).all())
            True
            >>> new = scipy.sparse.random_array((100, 25), density=0.2, format="csr", rng=1, dtype=np.float32)
            >>> with dsstne.Trainer(larger, new) as trainer:
            ...     now = trainer.run(epochs=1)
        """
        return extended(self, items, layers, seed)

    def parts(self) -> list[Model]:
        """Returns the models that a :func:`dsstne.blend` adds up, as copies; their weights are in ``weights``.

        Raises:
            NotFoundError: The model is not a blend.

        Example:
            >>> import dsstne, numpy as np
            >>> model = dsstne.blend([dsstne.Model.from_item_weights(np.eye(3))])
            >>> [part.tensors for part in model.parts()]
            [{'weight': (3, 3)}]
        """
        models = []
        for n, part in enumerate(self._definition.get("parts", ())):
            models.append(type(self)._new(part["model"], self.items))
            models[-1].same_items = self.same_items
            self._copy_tensors(models[-1], f"part{n}.", "")
        if not models:
            raise NotFoundError("this model is not a blend, so it has no parts")
        return models

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        made = memo[id(self)] = self.copy()
        vars(made).update(copy.deepcopy(self._values(), memo))
        return made

    # ---- closing ----

    def close(self) -> None:
        """Frees the weights; closing twice does nothing. The garbage collector closes models that are no longer used.

        Raises:
            BusyError: A trainer or predictor uses the model; close that first.
        """
        self._handle.close()

    def _parts(self) -> list[str | Table]:
        if self.closed:
            return [repr(self)]
        described, history = self._describe(), self.history
        network = self._network or {"layers": []}
        facts = [["weights", f"{self.parameters:,} in {size(described['bytes'])}"]]
        facts += [
            [name, cell(value)] for name, value in self._definition.items() if _is_plain(value) and name != "items"
        ]
        facts += [["loss of " + one["layer"], _settings(one, "layer", "kind")] for one in network.get("loss", ())]
        names = "" if self._item_kind == "none" else ", with names"
        if self.outputs:
            facts.append(["items", f"{self.output_units:,}{names}"])
        if described["step"] or history:
            facts.append(["trained", f"{described['step']:,} steps, {len(history):,} epochs in the history"])
        if isinstance(history, list) and history and isinstance(history[-1], Mapping):
            facts.append(["last epoch", ", ".join(f"{name} {cell(value)}" for name, value in history[-1].items())])
        defined = {layer["name"]: layer for layer in network["layers"]}
        layers = [
            [
                name,
                layer["kind"],
                f"{layer['size']:,}",
                ", ".join(defined.get(name, {}).get("sources", ())),
                _settings(defined.get(name, {}), "name", "kind", "size"),
            ]
            for name, layer in self._layers.items()
        ]
        return [repr(self), Table(["layer", "kind", "size", "from", ""], layers, right=[2]), Table(None, facts)]

    def __repr__(self) -> str:
        sizes = " - ".join(f"{layer['size']:,}" for layer in self._layers.values())
        state = "closed" if self.closed else f"{self.parameters:,} parameters"
        return f"Model({sizes}; {state})"


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != ""


def _settings(of: Mapping[str, Any], *without: str) -> str:
    """Returns what a layer or a loss is set to, except what is off."""
    shown = {name: value for name, value in of.items() if name not in without and _is_plain(value)}
    words = [str(of["kind"])] if "layer" in without else []
    words += [name if value is True else f"{name} {cell(value)}" for name, value in shown.items() if value]
    return ", ".join(words)


def fit_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what fit() has kept in a checkpoint, without reading the weights; {} if that cannot be found."""
    try:
        with Path(os.fsdecode(path)).open("rb") as file:
            header = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), LONGEST_HEADER)))
        return dict(json.loads(header["__metadata__"][f"attributes.{FIT}"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}  # the engine will read the file, and say what is wrong with it


def load(path: str | os.PathLike[str], *, threads: int | None = None, sizes: Mapping[str, int] | None = None) -> Model:
    """Reads a model file of :meth:`Model.save` and checks all digests and numbers in it.

    It also reads the model of a checkpoint, which has the state of its training, too (:meth:`dsstne.Trainer.resume`),
    and network files of Amazon's DSSTNE, which are NetCDF-4 (docs/dsstne-files.md).

    Args:
        path: The file. Its content decides what it is.
        threads: Number of threads that read a model file; None = as many as pay.
        sizes: Only for a file of DSSTNE, which fills inputs and outputs up to a multiple of 128: the columns or items
            of these layers by name; a smaller output has the first names of the items. Without, they are as wide as in
            the file, or as it was saved by :meth:`Model.save`.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: The file is not a model file, or is damaged.
        InvalidArgumentError: An argument is not valid, or the network of a file of DSSTNE has a mistake.
        UnsupportedError: The file is in a classic NetCDF format; the message says how to convert it.
        ImportError: The packages that read NetCDF are missing: ``pip install dsstne[netcdf]``.
        KeyboardInterrupt: Ctrl-C; the rest is read in the background and freed.

    Example:
        >>> import dsstne
        >>> dsstne.load("no-such-file.dsstne")
        Traceback (most recent call last):
            ...
        dsstne.errors.MissingFileError: cannot load no-such-file.dsstne: no such file
    """
    options = _options.to_json({"threads": threads})
    model = Model.__new__(Model)
    with _options.path_argument(path) as name:
        from dsstne import _netcdf_file

        if _netcdf_file.is_netcdf(path):
            from dsstne import _netcdf_model  # which imports this module

            return _netcdf_model.load(path, sizes)
        if sizes is not None and os.path.exists(name):  # noqa: PTH110 - a Path takes no bytes
            raise InvalidArgumentError("sizes is given, but the file is not a network file of DSSTNE; leave it out")
        model._adopt(_handles.Handle("model_load", name, options, slow=True))
    model._read_attributes()
    with _reading_attributes(path):
        model._take_history()
        model.report = _read_report(model.attributes.pop(_REPORT, None))
        model._item_kind = model.attributes.pop(_ITEM_KIND, "none")
        same_items = model.attributes.pop(_SAME_ITEMS, "null")
        if same_items not in _SAME_ITEMS_WORDS or model._item_kind not in ("none", "text", "integer"):
            raise ValueError(f"same_items is {same_items:.80}, the kind of names is {model._item_kind:.80}")
        model._same_items = _SAME_ITEMS_WORDS[same_items]
        if model._item_kind != "none" and "items.offsets" not in model._listed():
            raise ValueError(f"the kind of names is {model._item_kind}, but there are no names")
        if model._item_kind == "integer":
            check_integers(model.tensor("items.bytes"), model.tensor("items.offsets"))
    return model


@contextlib.contextmanager
def _reading_attributes(path: str | os.PathLike[str]) -> Iterator[None]:
    """Names the file in errors of the block."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{os.fsdecode(path)}: an attribute is damaged: {error}") from None


def _read_history(text: str) -> list[dict[str, Any]]:
    """Decodes a history.

    Raises:
        ValueError: It is not a list of dicts of moderate size and depth.
        RecursionError: It is nested very deeply.
    """
    if _values_of(text) > _MOST_VALUES:
        raise ValueError(f"a model file can hold a history of about {_MOST_VALUES:,} values")
    history = json.loads(text)
    if not (isinstance(history, list) and all(isinstance(record, dict) for record in history)):
        raise ValueError("the history must be a list of dicts")
    if _depth(history) > _DEEPEST:
        raise ValueError(f"the history is nested more than {_DEEPEST} levels deep")
    return History(history)


def _read_report(text: str | None) -> Report | None:
    """Decodes a report; None = the model has none."""
    if text is None:
        return None
    from dsstne.report import Report

    if _values_of(text) > _MOST_VALUES:
        raise ValueError(f"a model file can hold a report of about {_MOST_VALUES:,} values")
    return Report._from_json(text)


def _report_text(report: Any) -> str:
    """Encodes a report."""
    from dsstne.report import Report

    if not isinstance(report, Report):
        raise InvalidArgumentError(f"report must be a dsstne.report.Report or None, not {_checks.shown(report)}")
    return report._to_json()


def _depth(value: Any) -> int:
    """Returns the number of lists and dicts inside each other, in a value that JSON has made."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_depth, inside), default=0)


def _values_of(history: str) -> int:
    """Returns an upper bound on the number of values in a history."""
    return sum(map(history.count, ",[{"))


def _plain(value: Any) -> Any:
    """Converts NumPy numbers and other values that JSON does not support."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
