"""What the options of the calls do, where the header promises something about leaving them out."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from ctypes import byref, c_size_t
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_abi_panics import run

from native import Blocks, Failure, Library, Matrix


@pytest.fixture
def defaults(library: Library) -> Iterator[None]:
    yield
    library.call("configure", b'{"threads": 0, "instruction_set": "auto"}')


@pytest.mark.usefixtures("defaults")
def test_a_default_that_is_not_given_stays_and_is_described(library: Library) -> None:
    library.call("configure", b'{"threads": 3}')
    library.call("configure", b'{"instruction_set": "portable"}')
    library.call("configure", None)
    described = library.text("describe")
    device = next(device for device in described["devices"] if device["name"] == "cpu")
    assert (described["cpu"]["threads"], described["cpu"]["instruction_set"]) == (3, "portable")
    assert (device["threads"], device["kind"]) == (3, "portable")


@pytest.mark.parametrize("options", [None, b"{}", b'{"attributes": null}'])
def test_a_save_that_names_no_attributes_keeps_them(blocks: Blocks, tmp_path: Path, options: bytes | None) -> None:
    library, path = blocks.library, str(tmp_path / "model").encode()
    library.call("model_save", blocks.model, path, b'{"attributes": {"a": "b"}}')
    library.call("model_save", blocks.model, path, options)
    loaded = library.open("model_load", path, None)
    for model in (blocks.model, loaded):
        assert library.text("model_describe", model)["attribute_bytes"] == {"a": 1}
        text, length = ctypes.create_string_buffer(2), ctypes.c_size_t(2)
        library.call("model_get_attribute", model, b"a", text, ctypes.byref(length))
        assert (text.value, length.value) == (b"b", 2)
        with pytest.raises(Failure, match='NOT_FOUND: the model has no attribute "b"; known: a'):
            library.call("model_get_attribute", model, b"b", None, ctypes.byref(length))
    library.call("model_save", loaded, path, b'{"attributes": {}}')
    assert library.text("model_describe", loaded)["attribute_bytes"] == {}
    library.call("model_close", loaded)


def test_an_output_layer_can_be_named(library: Library) -> None:
    layers: list[dict[str, Any]] = [
        {"name": "input", "kind": "input", "size": 8},
        {"name": "hidden", "kind": "hidden", "sources": ["input"], "size": 4},
        {"name": "items", "kind": "output", "sources": ["hidden"], "size": 8},
        {"name": "tags", "kind": "output", "sources": ["hidden"], "size": 3},
    ]
    loss = [{"layer": "items", "kind": "softmax"}, {"layer": "tags", "kind": "softmax"}]
    model = library.open("model_create", json.dumps({"name": "two", "layers": layers, "loss": loss}).encode(), None)
    predictor = library.open("predictor_open", model, None)
    matrices = Matrix(library, [[0, 3], [5]], 8), Matrix(library, [[0], [2]], 3)  # they own the memory
    data, tags = (library.dataset(matrix) for matrix in matrices)
    library.call("predictor_bind", predictor, b"input", data)
    ids, scores = np.empty((2, 3), np.int32), np.empty((2, 3), np.float32)

    def recommend(options: bytes | None) -> None:
        where = ids.ctypes.data, scores.ctypes.data
        library.call("predictor_recommend", predictor, None, 2, 0, None, 0, 3, options, *where)

    recommend(b'{"layer": "tags"}')
    assert sorted(ids[0]) == [0, 1, 2]
    with pytest.raises(Failure, match="several output layers") as caught:
        recommend(None)
    assert caught.value.status == "INVALID_ARGUMENT"
    result = evaluate(library, predictor, tags, b'{"layer": "tags", "metrics": ["recall@1000000000"]}')
    assert result == {"rows": 2, "metrics": {"recall@1000000000": 1}}
    with pytest.raises(Failure, match="at least one metric"):
        evaluate(library, predictor, tags, b'{"layer": "tags"}')
    for name, handle in [("predictor", predictor), ("model", model), ("dataset", data), ("dataset", tags)]:
        library.call(f"{name}_close", handle)


def evaluate(library: Library, predictor: int, targets: int, options: bytes) -> Any:
    buffer = ctypes.create_string_buffer(1000)
    library.call(
        "predictor_evaluate", predictor, targets, 0, None, 2, None, 0, options, buffer, byref(c_size_t(1000)), None
    )
    return json.loads(buffer.value)


def test_binding_to_a_trainer_works_on_a_goroutine_of_its_own(faulty_library: Path) -> None:
    run(
        """
trainer = library.open("trainer_open", blocks.model, None)
inject("goroutine")
error = failing("trainer_bind", trainer, b"input", blocks.dataset)
assert error.status == "INTERNAL" and "injected" in error.message, error
library.call("trainer_close", trainer)
blocks.close()
""",
        faulty_library,
    )
