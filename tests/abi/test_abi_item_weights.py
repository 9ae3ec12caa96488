"""A model of weights between items, made through C: tensors are set one by one, and a stored matrix is not trusted."""

from __future__ import annotations

import numpy as np
import pytest

from native import Failure, Library, Matrix


def test_a_stored_matrix_is_checked_before_every_use(library: Library) -> None:
    definition = b'{"kind": "item_weights", "items": 3, "weight": "csr", "entries": 2, "bias": true}'
    model = library.open("model_create", definition, None)
    described = library.text("model_describe", model)
    assert described["network"] is None
    assert [layer["name"] for layer in described["layers"]] == ["input", "output"]
    assert {tensor["role"] for tensor in described["tensors"]} == {"fixed"}
    predictor = library.open("predictor_open", model, b'{"devices": "cpu"}')
    matrix = Matrix(library, [[0], [1, 2]], 3)  # it owns the memory
    data = library.dataset(matrix)
    library.call("predictor_bind", predictor, b"input", data)
    ids, scores = np.empty((2, 2), np.int32), np.empty((2, 2), np.float32)

    def change(name: bytes, *values: float, dtype: type = np.float32) -> None:
        array = np.array(values, dtype)
        library.call("model_set_tensor", model, name, array.ctypes.data, array.nbytes)

    def recommend() -> None:
        where = ids.ctypes.data, scores.ctypes.data
        library.call("predictor_recommend", predictor, None, 2, 0, None, 0, 2, None, *where)

    with pytest.raises(Failure, match="ends with 0, but there are 2 entries") as caught:
        recommend()
    assert caught.value.status == "INVALID_DATA"
    change(b"weight.offsets", 0, 1, 1, 2, dtype=np.int64)
    change(b"weight.indices", 2, 1 << 30, dtype=np.int32)
    change(b"weight.values", 5, 7)
    change(b"bias", 1, 2, 3)
    with pytest.raises(Failure, match="columns are 0 to 2"):
        recommend()
    change(b"weight.indices", 2, 0, dtype=np.int32)
    recommend()
    assert ids.tolist() == [[2, 1], [0, 2]]
    assert scores.tolist() == [[8, 2], [8, 3]]
    assert library.text("predictor_plan", predictor, b'{"k": 2}')["operations"] == ["TopK 2 of 3 items <- weight[3, 3]"]
    with pytest.raises(Failure, match="not a network") as caught:
        library.open("trainer_open", model, None)
    assert caught.value.status == "INVALID_ARGUMENT"
    for name, handle in [("predictor", predictor), ("model", model), ("dataset", data)]:
        library.call(f"{name}_close", handle)
