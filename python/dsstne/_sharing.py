"""Which weight stands between a layer of a network and one of its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence


def _share(layer: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """Returns what a layer says of a weight that it shares; empty: the weight is its own."""
    shared = layer.get("shared") or ()
    if isinstance(shared, str):
        return {"weight": shared}
    if not isinstance(shared, (list, tuple)):
        return dict(shared)
    return next((share for share in shared if share["source"] == source), {})


def weight_of(layer: Mapping[str, Any], source: str) -> str:
    """Returns the name of the tensor between a layer and one of its sources."""
    own = f"{layer['name']}.weight" + (f".{source}" if len(layer["sources"]) > 1 else "")
    return str(_share(layer, source).get("weight", own))


def shared_weights(layer: Mapping[str, Any], without: Container[str]) -> list[str]:
    """Returns the names of the tensors of other layers that a layer uses, for all its sources without some."""
    sources = [source for source in layer["sources"] if source not in without]
    return [share["weight"] for source in sources if (share := _share(layer, source))]


def is_transposed(layer: Mapping[str, Any], source: str, shape: Sequence[int]) -> bool:
    """Whether a layer with a dense source uses a tensor of a shape [inputs, units] instead of [units, inputs].

    Weights between items and units always have a row for each item. A definition says "transposed" of a weight between
    units where the shape does not tell.
    """
    share = _share(layer, source)
    if layer["kind"] == "output" or not share:
        return False
    units = layer["size"] * (2 if layer["kind"] == "variational" else 1)
    return bool(share.get("transposed", shape[0] != units))
