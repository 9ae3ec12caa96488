"""Models with more items than before: the old items keep their weights."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _checks
from dsstne._items import decode_names, encode_names
from dsstne._layers import nearest
from dsstne.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dsstne.model import Model


def extended(
    model: Model, items: int | Sequence[str] | ArrayLike, layers: str | Sequence[str] | None, seed: int
) -> Model:
    """Makes the model of :meth:`dsstne.Model.extended`."""
    network = model.network
    if network is None:
        raise UnsupportedError("only networks can be extended; this model has none: compute it again with all items")
    before, grown = _grown_layers(model, layers)
    named = next(iter(model.outputs)) in grown  # the names of a model are those of its first output
    names, places = model.items, np.arange(before)
    if isinstance(items, (int, np.integer)) and not isinstance(items, bool):
        if names is not None and named:
            raise InvalidArgumentError(
                "items is a number, but the items of the model have names; pass the names of all items"
            )
        after = _checks.integer(items, "items", least=before + 1)
    elif named:
        old, names = names, decode_names(*encode_names(items))
        after, places = len(names), _places(old, names, before)
    else:
        layers_text = " and ".join(grown)
        raise InvalidArgumentError(f"items must be the number of columns of {layers_text}, which have no names")
    definition = copy.deepcopy(network)
    for layer in definition["layers"]:
        if layer["name"] in grown:
            layer["size"] = int(after)
    made = type(model)._new(definition, names, seed=seed)
    shapes = model.tensors
    for name, shape in made.tensors.items():
        values = model.tensor(name)
        if shape != shapes[name]:
            new = made.tensor(name)
            new[places] = values
            values = new
        made.set_tensor(name, values)
    made.history, made.attributes = copy.deepcopy(model.history), dict(model.attributes)
    made.same_items = model.same_items
    return made


def _grown_layers(model: Model, layers: str | Sequence[str] | None) -> tuple[int, list[str]]:
    """Returns the size of the layers before, and their names."""
    sizes = {**model.inputs, **model.outputs}
    if layers is None:
        if len(model.outputs) != 1:
            raise InvalidArgumentError(
                f"layers must name those that get more columns: the outputs are {[*model.outputs]}"
            )
        size = model.output_units
        return size, [*model.outputs, *(name for name, columns in model.inputs.items() if columns == size)]
    chosen = [layers] if isinstance(layers, str) else _checks.several(layers, "layers")
    if not chosen:
        raise InvalidArgumentError("layers is empty; it must name at least one layer")
    for name in chosen:
        if _checks.text(name, "layers") not in sizes:
            raise InvalidArgumentError(
                f"layers: the model has no input or output layer {_checks.shown(name)}; {nearest(name, sizes)}"
            )
    different = {sizes[name] for name in chosen}
    if len(different) > 1:
        text = ", ".join(f"{name} has {sizes[name]:,}" for name in chosen)
        raise InvalidArgumentError(f"layers must have equally many columns, but {text}")
    return different.pop(), chosen


def _places(old: NDArray[Any] | None, new: NDArray[Any], before: int) -> NDArray[np.intp]:
    """Returns where the old items are among the new ones."""
    if len(new) <= before:
        raise InvalidArgumentError(f"items has {len(new):,} names, but the model has {before:,} items already")
    if old is None:
        return np.arange(before)
    place = {name: at for at, name in enumerate(new.tolist())}
    if len(place) < len(new):
        twice = next(name for at, name in enumerate(new.tolist()) if place[name] != at)
        raise InvalidArgumentError(f"items has the name {_checks.shown(twice)} more than once")
    missing = [name for name in old.tolist() if name not in place]
    if missing:
        raise InvalidArgumentError(
            f"items lacks {len(missing):,} of the model's items, such as {_checks.shown(missing[0])}; "
            "a model can get more items, and keeps those that it has"
        )
    return np.array([place[name] for name in old.tolist()], dtype=np.intp)
