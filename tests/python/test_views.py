"""Views of model files: the tensors, neither read nor copied, and never dangling."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne.export import views


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model.dsstne")
    return tmp_path / "model.dsstne"


def test_views_are_the_tensors_of_the_model(model, saved):
    found = views(saved)
    assert set(found) == set(model.tensors)
    for name, array in found.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, model.tensor(name))


def test_a_stored_matrix_is_three_views_and_names_are_two(tmp_path, X):
    names = [f"item {n}" for n in range(X.shape[1])]
    model = dsstne.item_knn(X, k=5, items=names, progress=False)
    model.save(tmp_path / "knn")
    found = views(tmp_path / "knn")
    parts = [found["weight." + part] for part in ("values", "indices", "offsets")]
    matrix = scipy.sparse.csr_array(tuple(parts), shape=model.tensors["weight"])
    np.testing.assert_array_equal(matrix.toarray(), model.tensor("weight").toarray())
    assert found["items.bytes"].tobytes() == "".join(names).encode()
    assert found["items.offsets"][-1] == len(found["items.bytes"])


def test_views_read_nothing_in_advance_and_cannot_be_written(saved):
    array = views(saved)["output.weight"]
    assert not array.flags.owndata
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


def test_views_keep_the_file_that_they_were_made_of(saved, model):
    array, before = views(saved)["output.bias"], model.tensor("output.bias")
    other = model.copy()
    other.set_tensor("output.bias", before + 1)
    other.save(saved)
    np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(views(saved)["output.bias"], before + 1)
    saved.unlink()
    np.testing.assert_array_equal(array, before)


def test_a_checkpoint_has_the_state_of_the_optimizer_too(X, tmp_path):
    model = dsstne.fit(X, hidden=4, epochs=0)
    with dsstne.Trainer(model, X, optimizer="adam") as trainer:
        trainer.run(steps=2)
        trainer.save(tmp_path / "run")
    found = views(tmp_path / "run")
    np.testing.assert_array_equal(found["output.weight"], model.tensor("output.weight"))
    assert found["optimizer/0/output.weight"].shape == found["output.weight"].shape


def test_what_is_not_a_model_file_is_refused(saved, tmp_path):
    data = saved.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])

    def with_header(**changes):
        text = json.dumps({**header, **changes}).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    weight = header["output.weight"]
    damaged = {
        "nothing": b"",
        "a word": b"model",
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "a short header": data[: length // 2],
        "a long header": struct.pack("<Q", 1 << 40) + data[8:],
        "a short file": data[: 8 + length + 10],
        "another format": with_header(__metadata__={"format": "pt"}),
        "a list": struct.pack("<Q", 2) + b"[]",
        "a deep list": struct.pack("<Q", 200_000) + b"[" * 200_000,
        "an offset below 0": with_header(**{"output.weight": {**weight, "data_offsets": [-8, 8]}}),
        "an odd offset": with_header(**{"output.weight": {**weight, "data_offsets": [1, 10]}}),
        "another shape": with_header(**{"output.weight": {**weight, "shape": [3, 3]}}),
        "another type": with_header(**{"output.weight": {**weight, "dtype": "BF16"}}),
        "no shape": with_header(**{"output.weight": {"dtype": "F32", "data_offsets": [0, 4]}}),
    }
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(dsstne.CorruptFileError, match=f"{name}: (not a dsstne model file|the file is empty)"):
            views(tmp_path / name)


def test_errors_name_the_file(tmp_path):
    with pytest.raises(dsstne.MissingFileError, match="cannot map .*nothing: no such file") as caught:
        views(tmp_path / "nothing")
    assert caught.value.filename == str(tmp_path / "nothing")
    with pytest.raises(dsstne.InputOutputError, match="Is a directory"):
        views(tmp_path)
