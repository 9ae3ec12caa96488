"""Definitions of networks, and the network files of Amazon's DSSTNE."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsstne import _checks, _native, _options
from dsstne._tables import Shown, Table, cell
from dsstne.errors import InputOutputError, InvalidArgumentError, MissingFileError

__all__ = ["Network"]

_KEYS = {"training": ("shuffle", "schedule"), "words": ("kind", "loss")}  # what a definition can say beside itself


@dataclass(frozen=True, repr=False)
class Network(Shown):
    """The definition of a network, and what its file says about training and data.

    :func:`dsstne.fit` and :class:`dsstne.Model` take it as ``network``. They take the file itself, too:
    ``dsstne.fit(X, network="config.json")`` reads the definitions of docs/network.md and the files of DSSTNE
    (docs/dsstne.md), and tells them apart by their keys.

    Args:
        definition: The definition, as docs/network.md describes it. The attribute has all defaults.
        training: What a file of DSSTNE says about training, as arguments of :class:`dsstne.Trainer`: ``shuffle``
            (``ShuffleIndices``) and, if the learning rate decays, ``schedule`` (``Decay``).
        datasets: The name of the data set by that of the layer (``DataSet``). :func:`dsstne.fit` takes both names as
            keys of a mapping of matrices.
        words: Words of a file of DSSTNE that make no difference here: ``kind`` (``Kind``) and ``loss``
            (``ErrorFunction``, where DSSTNE has several words for a loss). Files that :meth:`dsstne.Model.save` writes
            for DSSTNE have them again.

    Raises:
        InvalidArgumentError: The definition has a mistake; the message says where.

    Example:
        >>> import dsstne
        >>> text = '''{"ShuffleIndices": false, "Layers": [
        ...     {"Name": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
        ...     {"Name": "Hidden", "N": 128, "Activation": "Sigmoid"},
        ...     {"Name": "Output", "N": "auto", "DataSet": "gl_output"}]}'''
        >>> network = dsstne.Network.from_dsstne(text)
        >>> network
        Network(Input auto - Hidden 128 - Output auto)
        >>> network.training
        {'shuffle': False}
        >>> network.definition["layers"][1]["activation"]
        'sigmoid'
        >>> model = dsstne.Model(network, sizes={"Input": 20, "Output": 20})
    """

    definition: dict[str, Any]
    training: dict[str, Any] = field(default_factory=dict)
    datasets: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("definition", "training", "datasets", "words"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise InvalidArgumentError(f"{name} must be a mapping, not {_checks.shown(value)}")
        object.__setattr__(self, "definition", _native_read(self.definition, "native")["network"])
        for name, known in _KEYS.items():
            for key in getattr(self, name):
                if key not in known:
                    raise InvalidArgumentError(
                        f"{name}: {_checks.shown(key)} is not one of {', '.join(map(repr, known))}"
                    )
        layers = {layer["name"] for layer in self.definition["layers"]}
        for layer, name in self.datasets.items():
            if layer not in layers:
                raise InvalidArgumentError(f"datasets: the network has no layer {_checks.shown(layer)}")
            _checks.text(name, f"datasets[{layer!r}]")
        for key, word in self.words.items():
            _checks.text(word, f"words[{key!r}]")

    @classmethod
    def from_dsstne(cls, source: Mapping[str, Any] | str | os.PathLike[str]) -> Network:
        """Reads a network file of DSSTNE (``config.json``).

        Every key either has an effect or is an error; docs/dsstne-keys.md lists them.

        Args:
            source: Path of the file, its text, or its content as a mapping.

        Raises:
            InvalidArgumentError: The file has a mistake, or needs what dsstne lacks. The message names layer and key.
            MissingFileError: There is no such file.
            InputOutputError: The file cannot be read.

        Example:
            >>> import dsstne
            >>> layers = [{"N": 20}, {"Name": "C", "N": 8, "Type": "Convolutional"}, {"N": 20}]
            >>> dsstne.Network.from_dsstne({"Layers": layers})  # doctest: +ELLIPSIS
            Traceback (most recent call last):
            dsstne.errors.InvalidArgumentError: ... layer "C": Type is Convolutional; convolution is not supported
        """
        return _read(source, "dsstne")

    def _by_layer(self, matrices: Any, kind: str) -> Any:
        """Returns a mapping of matrices with names of layers of a kind as keys, where there are names of data sets."""
        if not _checks.is_mapping(matrices):
            return matrices
        layers = [layer["name"] for layer in self.definition["layers"] if layer["kind"] == kind]
        named = {}
        for key, matrix in matrices.items():
            bound = [layer for layer in layers if self.datasets.get(layer) == key]
            named.update(dict.fromkeys([key] if key in layers or not bound else bound, matrix))
        return named

    def _parts(self) -> list[str | Table]:
        layers = [
            [
                layer["name"],
                layer["kind"],
                cell(layer["size"]),
                ", ".join(layer.get("sources", ())),
                self.datasets.get(layer["name"], ""),
            ]
            for layer in self.definition["layers"]
        ]
        tables = [Table(["layer", "kind", "size", "from", "data"], layers, right=[2])]
        if self.training:
            tables.append(Table(None, [[name, cell(value)] for name, value in self.training.items()]))
        return [repr(self), *tables]

    def __repr__(self) -> str:
        return "Network({})".format(
            " - ".join(f"{layer['name']} {layer['size']}" for layer in self.definition["layers"])
        )


def read(network: Network | Mapping[str, Any] | str | os.PathLike[str]) -> Network:
    """Reads a definition in either dialect."""
    return network if isinstance(network, Network) else _read(network, "auto")


def _read(source: Any, dialect: str) -> Network:
    answer = _native_read(source, dialect)
    return Network(answer["network"], answer["training"], answer["datasets"], answer["words"])


def _native_read(source: Any, dialect: str) -> dict[str, Any]:
    return _native.call_json("network_read", definition_text(source), _options.to_json({"dialect": dialect}))


def definition_text(network: Network | Mapping[str, Any] | str | os.PathLike[str]) -> bytes:
    """Returns a definition as JSON; a str that does not begin with a brace is the path of a file."""
    if isinstance(network, Network):
        network = network.definition
    if isinstance(network, Mapping):
        return _options.to_json(network) or b"{}"
    if isinstance(network, str) and network.lstrip().startswith("{"):
        return _options.text_argument(network, "network")
    if not isinstance(network, (str, os.PathLike)):
        raise InvalidArgumentError(f"network must be a mapping, JSON text or a path, not {_checks.shown(network)}")
    name = os.fspath(network)
    try:
        with open(name, encoding="utf-8-sig") as file:  # noqa: PTH123 - a Path takes no bytes
            return _options.text_argument(file.read(), "network")
    except FileNotFoundError as error:
        raise MissingFileError(f"network: {name!r:.300}: no such file", error.errno or 0, name) from None
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"network: {name!r:.300} is not a text in UTF-8: {error}") from None
    except OSError as error:
        text = f"network: {name!r:.300}: {error.strerror}"
        raise InputOutputError(text, error.errno or 0, name) from None
    except ValueError as error:  # a NUL character, or one that the file system cannot represent
        raise InvalidArgumentError(f"network: {name!r:.300}: {error}") from None
