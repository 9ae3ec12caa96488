"""What a model file or a pickle contains besides the weights is checked when it is read, and survives writing."""

import copy
import hashlib
import json
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import Model

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1]], np.float32)
NAMES = ["tea", "milk", "bread", "salt"]


def rewritten(model, path, **metadata):
    """Saves the model and writes the file with other metadata and right digests; None removes a key."""
    model.save(path)
    raw = path.read_bytes()
    length = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:length])
    changed = header["__metadata__"] | {key.replace("__", "."): value for key, value in metadata.items()}
    header["__metadata__"] = {key: value for key, value in changed.items() if value is not None}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head, data = len(text).to_bytes(8, "little") + text, bytearray(raw[length:])
    start = header["dsstne.digests"]["data_offsets"][0]
    data[start : start + 32] = hashlib.sha256(head).digest()
    path.write_bytes(head + data)
    return path


def test_a_file_that_is_written_again_is_read(tmp_path):
    path = rewritten(dsstne.popularity(DENSE, items=NAMES), tmp_path / "m", attributes__a="b")
    model = dsstne.load(path)
    assert (model.attributes, model.items.tolist(), model.history) == ({"a": "b"}, NAMES, [])
    path = rewritten(model, path, attributes__dsstne__items="none", attributes__dsstne__history=None)
    assert (dsstne.load(path).items, dsstne.load(path).history) == (None, [])


HISTORIES = ["", "[", "5", '"a"', "{}", "[1]", "NaN", "[null]", "[[]]", "[" * 100_000, '[{"a": ' + "9" * 5000 + "}]"]
DEEP = '[{"a": ' + "[" * 200 + "]" * 200 + "}]"

DAMAGED = {
    **{f"history {text:.10}": {"attributes__dsstne__history": text} for text in HISTORIES},
    "a deep history": {"attributes__dsstne__history": DEEP},
    **{f"same_items {text}": {"attributes__dsstne__same_items": text} for text in ("", "1", "0.0", "x", "[]", "True")},
    **{f"items {text}": {"attributes__dsstne__items": text} for text in ("", "integer", "float", "text" * 9999)},
    **{f"step {text}": {"step": text} for text in ("", "-1", "1.5", "x", str(2**63), None)},
    **{f"definition {text!s:.10}": {"definition": text} for text in ("", "{}", "null", "[" * 9999, None)},
}


@pytest.mark.parametrize("metadata", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_metadata_are_a_corrupt_file(tmp_path, metadata):
    path = rewritten(dsstne.popularity(DENSE, items=NAMES), tmp_path / "model.dsstne", **metadata)
    with pytest.raises(dsstne.CorruptFileError, match=r"model\.dsstne") as caught:
        dsstne.load(path)
    assert len(str(caught.value)) < 500


def test_names_that_are_missing_are_a_corrupt_file(tmp_path):
    for kind in ("text", "integer"):
        path = rewritten(dsstne.popularity(DENSE), tmp_path / "m", attributes__dsstne__items=kind)
        with pytest.raises(dsstne.CorruptFileError, match="there are no names"):
            dsstne.load(path)


def test_names_beyond_64_bits_are_a_corrupt_file(tmp_path):
    model = dsstne.popularity(DENSE, items=["1", "2", "3", str(2**63)])
    with pytest.raises(dsstne.CorruptFileError, match="names of the items"):
        dsstne.load(rewritten(model, tmp_path / "m", attributes__dsstne__items="integer"))


@pytest.mark.parametrize("name", ["", "-", "--1", "1-", "1.5", "x", " 1", "\u0661", "9" * 30, "-" + "9" * 19])
def test_a_name_that_is_no_integer_is_a_corrupt_file(tmp_path, name):
    model = dsstne.popularity(DENSE, items=["1", "2", name, "4"])
    with pytest.raises(dsstne.CorruptFileError, match="names of the items"):
        dsstne.load(rewritten(model, tmp_path / "m", attributes__dsstne__items="integer"))


def test_every_integer_is_a_name(tmp_path):
    names = [-(2**63), 2**63 - 1, 0, -1]
    dsstne.popularity(DENSE, items=names).save(tmp_path / "m")
    assert dsstne.load(tmp_path / "m").items.tolist() == names


def test_a_model_with_the_greatest_step_can_be_trained_and_saved(tmp_path):
    network = {"layers": [{"name": "i", "kind": "input", "size": 4}, {"name": "h", "kind": "hidden", "size": 2}]}
    network["layers"].append({"name": "o", "kind": "output", "size": 4})
    model = dsstne.load(rewritten(Model(network), tmp_path / "m", step=str(2**62)))
    with dsstne.Trainer(model, DENSE) as trainer:
        trainer.run(steps=3)
    model.save(tmp_path / "m")
    model = dsstne.load(tmp_path / "m")
    assert pickle.loads(pickle.dumps(model)).step == model.step == 2**62 + 3
    assert model.recommend(DENSE, k=2)[0].shape == (3, 2)
    with pytest.raises(dsstne.InvalidArgumentError, match="training steps, above"):
        dsstne.Trainer(model, DENSE)


DEEP_LIST = []
for _ in range(60):
    DEEP_LIST = [DEEP_LIST]
ENDLESS = []
ENDLESS.append({"a": ENDLESS})


HOPELESS = {
    **{str(value): value for value in (None, 5, "a", {}, [1])},
    "deep": [{"a": DEEP_LIST}],
    "endless": ENDLESS,
    "a tuple as key": [{(1, 2): 3}],
    "a huge number": [{"a": 10**5000}],
}


@pytest.mark.parametrize("history", HOPELESS.values(), ids=HOPELESS.keys())
def test_a_history_that_load_would_refuse_is_not_saved(tmp_path, history):
    model = dsstne.popularity(DENSE)
    model.history = history
    with pytest.raises(dsstne.InvalidArgumentError, match="history"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_history_with_arrays_and_other_objects_is_saved(tmp_path):
    model = dsstne.popularity(DENSE)
    model.history = [{"per_item": np.arange(3), "when": np.datetime64("2020-01-01"), "loss": np.float32("nan")}]
    model.save(tmp_path / "m")
    (record,) = dsstne.load(tmp_path / "m").history
    assert record["per_item"] == [0, 1, 2]
    assert np.isnan(record["loss"])


@pytest.mark.parametrize(("key", "value"), [("a", "\ud800"), ("\ud800", "a"), ("a", "b\udcff")])
def test_an_attribute_that_is_no_unicode_is_refused(tmp_path, key, value):
    model = dsstne.popularity(DENSE)
    model.attributes[key] = value
    with pytest.raises(dsstne.InvalidArgumentError, match="attributes.*is not valid Unicode"):
        model.save(tmp_path / "m")


class Named(Model):
    """A subclass with an attribute of its own."""

    note = "class"


@pytest.fixture
def own():
    model = Named._new({"kind": "item_weights", "items": 4, "weight": "none", "bias": True}, NAMES)
    model.note, model.tags, model.attributes, model.history = "mine", ["a"], {"k": "v"}, [{"loss": 1.0}]
    return model


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "old pickle": lambda model: pickle.loads(pickle.dumps(model, 2)),
    "copy": copy.copy,
    "method": Model.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_keeps_the_class_and_own_attributes(own, way):
    other = COPIES[way](own)
    assert type(other) is Named
    assert (other.note, other.tags, other.items.tolist()) == ("mine", ["a"], NAMES)
    assert (other.attributes, other.history) == (own.attributes, own.history)
    assert other.predict(DENSE).tobytes() == own.predict(DENSE).tobytes()
    other.attributes["k"], other.history[0]["loss"] = "w", 2.0
    assert (own.attributes, own.history) == ({"k": "v"}, [{"loss": 1.0}])
    assert (other.tags is own.tags) == (way in ("copy", "method"))


def test_a_deep_copy_of_a_model_that_refers_to_itself_ends(own):
    own.tags.append(own)
    other = copy.deepcopy(own)
    assert other.tags[1] is other


def test_a_copy_shares_what_cannot_be_copied_deeply(own):
    own.lock = threading.Lock()
    assert own.copy().lock is own.lock


def test_a_pickle_of_another_version_is_refused(own):
    make, (state,) = own.__reduce__()
    for version in (2, None, "x"):
        with pytest.raises(dsstne.UnsupportedError, match=r"another version of dsstne.*save\(\) and load\(\)"):
            make({**state, "version": version})
    with pytest.raises(dsstne.UnsupportedError):
        make({key: value for key, value in state.items() if key != "version"})


def test_a_pickle_of_sparse_weights_keeps_them():
    W = scipy.sparse.random_array((5, 5), density=0.4, format="csr", rng=0, dtype=np.float32)
    other = pickle.loads(pickle.dumps(Model.from_item_weights(W)))
    assert (other.tensor("weight") != W).nnz == 0
