"""dsstne_model_copy: two models share memory, and neither sees the other's changes."""

from __future__ import annotations

import numpy as np
import pytest

from native import Blocks, Failure, Library


def tensors(library: Library, model: int) -> dict[str, bytes]:
    found = {}
    for tensor in library.text("model_describe", model)["tensors"]:
        size = {"F32": 4, "U8": 1, "I64": 8}[tensor["dtype"]]
        array = np.empty(int(np.prod(tensor["shape"])) * size, np.uint8)
        library.call("model_get_tensor", model, tensor["name"].encode(), array.ctypes.data, array.nbytes)
        found[tensor["name"]] = array.tobytes()
    return found


def private_copies(library: Library, trainer: int) -> list[str]:
    parts = library.text("trainer_plan", trainer)["parts"]
    return [part["of"] for part in parts if part.get("of", "").startswith("a private copy of ")]


def test_a_copy_is_described_like_the_model_and_outlives_it(blocks: Blocks) -> None:
    library = blocks.library
    library.call("trainer_run", blocks.trainer, 2, 0.0, None)
    first = library.open("model_copy", blocks.model)
    second = library.open("model_copy", first)
    assert library.text("model_describe", second) == library.text("model_describe", blocks.model)
    known = tensors(library, first)
    library.call("model_close", first)
    assert tensors(library, second) == known == tensors(library, blocks.model)
    library.call("model_close", second)


def test_a_tensor_that_is_set_is_set_in_one_model(blocks: Blocks) -> None:
    library, values = blocks.library, np.arange(8, dtype=np.float32)
    other, before = library.open("model_copy", blocks.model), tensors(library, blocks.model)
    library.call("model_set_tensor", other, b"hidden.bias", values.ctypes.data, values.nbytes)
    assert tensors(library, other) == before | {"hidden.bias": values.tobytes()}
    assert tensors(library, blocks.model) == before
    shared = [name for name in before if name != "hidden.bias"]
    assert private_copies(library, blocks.trainer) == [f"a private copy of {name}" for name in shared]
    library.call("model_close", other)
    assert private_copies(library, blocks.trainer) == []


def test_rows_that_are_set_are_set_in_one_model(blocks: Blocks) -> None:
    library, rows = blocks.library, np.array([[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]], np.float32)
    other, before = library.open("model_copy", blocks.model), tensors(library, blocks.model)
    weight = np.frombuffer(before["hidden.weight"], np.float32).reshape(-1, 8).copy()
    got = np.empty((3, 8), np.float32)
    library.call("model_get_rows", other, b"hidden.weight", 2, 3, got.ctypes.data, got.nbytes)
    np.testing.assert_array_equal(got, weight[2:5])
    library.call("model_set_rows", other, b"hidden.weight", 3, 2, rows.ctypes.data, rows.nbytes)
    weight[3:5] = rows
    assert tensors(library, other) == before | {"hidden.weight": weight.tobytes()}
    assert tensors(library, blocks.model) == before
    library.call("model_set_rows", other, b"hidden.weight", len(weight), 0, None, 0)
    rows[1, 7] = np.nan
    with pytest.raises(Failure, match=r"hidden.weight, row 4, column 7: NaN is not finite"):
        library.call("model_set_rows", other, b"hidden.weight", 3, 2, rows.ctypes.data, rows.nbytes)
    assert tensors(library, other) == before | {"hidden.weight": weight.tobytes()}
    library.call("model_close", other)


def test_a_trainer_that_has_begun_goes_on_in_memory_of_its_own(blocks: Blocks) -> None:
    library = blocks.library
    library.call("trainer_run", blocks.trainer, 2, 0.0, None)
    other, before = library.open("model_copy", blocks.model), tensors(library, blocks.model)
    library.call("trainer_run", blocks.trainer, 2, 0.0, None)
    assert tensors(library, other) == before
    now = tensors(library, blocks.model)
    assert all(now[name] != before[name] for name in before)
    library.call("model_close", other)


def test_copies_that_do_not_fit_are_out_of_memory(blocks: Blocks) -> None:
    library = blocks.library
    limit = library.text("trainer_plan", blocks.trainer)["bytes"] + 1
    other = library.open("model_copy", blocks.model)
    before = tensors(library, other)
    options = b'{"batch_size": 20, "devices": "cpu", "memory_limit": %d}' % limit
    trainer = library.open("trainer_open", other, options)
    for layer in (b"input", b"output"):
        library.call("trainer_bind", trainer, layer, blocks.dataset)
    with pytest.raises(Failure) as caught:
        library.call("trainer_run", trainer, 1, 0.0, None)
    assert caught.value.status == "OUT_OF_MEMORY"
    assert tensors(library, other) == before
    library.call("trainer_close", trainer)
    library.call("model_close", other)
