"""Errors name the cause; a model file that was made on purpose takes little memory and time to refuse."""

import _thread
import contextlib
import hashlib
import json
import os
import signal
import threading

import numpy as np
import pyarrow
import pytest
import scipy.sparse

import dsstne
from dsstne import _native

X = scipy.sparse.csr_array(np.array([[1, 0, 2, 0], [0, 0, 0, 1], [0, 3, 0, 1]] * 20, np.float32))


# ---- divergence ----


def weighted(**term):
    return {"loss": {"kind": "softmax", **term}}


STEEP = {"kind": "step", "steps": 1, "factor": 1e308}
CAUSES = {
    "the learning rate": (
        {"learning_rate": 1e5, "optimizer": "sgd", "loss": "squared"},
        "the learning_rate is 100000;",
    ),
    "the learning rate of Adam": ({"learning_rate": 1e38}, r"the learning_rate is 1e\+38;"),
    "the loss weight": (weighted(weight=1e30), r'the weight of the loss of layer "output" is 1e\+30;'),
    "the temperature": ({"temperature": 1e-30}, 'the temperature of layer "output" is 1e-30;'),
    "the schedule": (
        {"schedule": STEEP},
        r"the schedule multiplies the learning_rate by (1e\+308|\+Inf) at this step;",
    ),
    "the schedule of the loss": (weighted(schedule=STEEP), r'the schedule multiplies the loss of layer "output" by'),
    "the data": (
        {"factor": 1e30, "input_scaling": None, "loss": "squared"},
        r'the (data|targets) of layer "\w+" reach 3e',
    ),
    "the targets": ({"factor": 1e30, "loss": "squared"}, r'the targets of layer "output" reach 3e\+30;'),
}


@pytest.mark.parametrize(("options", "cause"), CAUSES.values(), ids=CAUSES.keys())
def test_the_cause_of_a_divergence_is_named_first(options, cause):
    options = dict(options)
    data = X * np.float32(options.pop("factor", 1))
    with pytest.raises(dsstne.NotFiniteError, match=f"last finite weights. The likely cause: {cause}"):
        dsstne.fit(data, hidden=4, epochs=100, batch_size=20, progress=False, **options)


def test_usual_numbers_are_not_blamed():
    model = dsstne.fit(X, hidden=4, epochs=0)
    model.set_tensor("output.weight", np.full((4, 4), 3e38, np.float32))
    model.set_tensor("hidden1.weight", np.full((4, 4), 3e38, np.float32))
    with pytest.raises(dsstne.NotFiniteError, match=r"weights\. Try a learning_rate below 0\.001, a warm-up"):
        dsstne.Trainer(model, X).run(epochs=10)


# ---- options ----

MESSAGES = {
    "denoising": (
        {"denoising": 1e-308},
        "denoising is 1e-308, which is too small: 32-bit numbers other than 0 begin at",
    ),
    "weight_decay": ({"weight_decay": 1e-60}, "weight_decay is 1e-60, which is too small: 32-bit numbers other than 0"),
    "loss": (weighted(weight=1e39), r"weight is 1e\+39, which is too large: 32-bit numbers end at 3\.4e38"),
    "activation": ({"activation": None}, "activation must be a str such as 'tanh', or a list of them, not None"),
    "schedule": ({"schedule": 3}, "schedule must be a str such as 'cosine' or a mapping, not 3"),
    "schedule of a loss": (
        weighted(schedule=3),
        r'schedule is a number; it must be an object such as {"kind": "cosine"',
    ),
}


@pytest.mark.parametrize(("options", "message"), MESSAGES.values(), ids=MESSAGES.keys())
def test_the_message_says_what_is_wrong(options, message):
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        dsstne.fit(X, hidden=4, epochs=1, progress=False, **options)


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (pyarrow.array([["a"]]), "the indices are of type string: a matrix is"),
        (pyarrow.array([[1]], pyarrow.list_(pyarrow.uint16())), "the indices are of type uint16"),
        (pyarrow.array([[[1, 2]]], pyarrow.list_(pyarrow.list_(pyarrow.int32(), 2))), "of type fixed-size list of 2"),
        (pyarrow.array([[1]], pyarrow.list_(pyarrow.timestamp("ms", "UTC"))), "the indices are of type timestamp"),
        (pyarrow.array([3.0]), "the array is of type float64"),
    ],
)
def test_arrow_types_are_named_by_words(array, name):
    with pytest.raises(dsstne.InvalidDataError, match=name):
        dsstne.Dataset(array, columns=3)


def test_a_closed_object_cannot_be_entered():
    model, data = dsstne.popularity(X), dsstne.Dataset(X)
    for closed in (model, data):
        closed.close()
        with pytest.raises(dsstne.InvalidHandleError, match="is closed"), closed:
            pass


# ---- model files ----


def sealed(path, header, data=b""):
    """Writes a model file with a header that may be anything, and with the right digests."""
    blocks, end = -(-len(data) // (1 << 26)), len(data)
    size = 32 + 32 * blocks
    text = header(f'"dsstne.digests":{{"dtype":"U8","shape":[{size}],"data_offsets":[{end},{end + size}]}}')
    text = text.encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    digests = [head, *(data[n << 26 : (n + 1) << 26] for n in range(blocks))]
    path.write_bytes(head + data + b"".join(hashlib.sha256(part).digest() for part in digests))
    return path


def metadata(network, attributes=""):
    return (
        '{"__metadata__":{"format":"dsstne.model","format_version":"1","minimum_reader_version":"1",'
        f'"digest_block_bytes":"67108864","step":"0","network":{json.dumps(network)}{attributes}}},'
    )


LAYERS = [
    {"name": name, "kind": kind, "size": 1} for name, kind in (("in", "input"), ("h", "hidden"), ("out", "output"))
]
NETWORK = json.dumps({"layers": LAYERS})
TENSORS = "".join(
    f'"{name}":{{"dtype":"F32","shape":[1,1],"data_offsets":[{4 * n},{4 * n + 4}]}},'
    for n, name in enumerate(["h.weight", "h.bias", "out.weight", "out.bias"])
)


EMPTY = '"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'


def many(count, of):
    return ",".join(of % n if "%d" in of else of for n in range(count))


def attribute(name, text):
    return f',"attributes.{name}":{json.dumps(text, ensure_ascii=False)}'


# Name -> network, attributes, further members of the header, and words of the error ("": it can be loaded).
HEADERS = {
    "layers": lambda: (f'{{"layers": [{many(300_000, "{}")}]}}', "", "", "the definition has"),
    "most layers": lambda: (f'{{"layers": [{many(86_000, "{}")}]}}', "", "", "layers"),
    "most numbers": lambda: (f'{{"layers": [{many(130_000, "0")}]}}', "", "", "layers"),
    "attributes": lambda: (NETWORK, "," + many(100_000, '"attributes.%d":""'), "", "more than 65,536 names"),
    "a long attribute": lambda: (NETWORK, attribute("a", "x" * 20_000_000 + "\U0001f600"), "", ""),  # 80 MB in Python
    "history": lambda: (NETWORK, attribute("dsstne.history", f"[{many(1_500_000, '{}')}]"), "", "history"),
    "tensors": lambda: (NETWORK, "", many(70_000, EMPTY) + ",", "more than 65,536 names"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HEADERS)
def test_reading_a_header_takes_at_most_eight_times_its_size(python, tmp_path, name):
    network, attributes, members, words = HEADERS[name]()
    path = sealed(
        tmp_path / "m.dsstne",
        lambda digests: metadata(network, attributes) + members + TENSORS + digests + "}",
        bytes(16),
    )
    code = """
import sys
import dsstne
dsstne.Model({"layers": [{"name": "in", "kind": "input", "size": 1}, {"name": "out", "kind": "hidden", "size": 1},
                         {"name": "o", "kind": "output", "size": 1}]}).close()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak so far is forgotten
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
before = peak()
try:
    model = dsstne.load(sys.argv[1])
    print("", peak() - before)
except dsstne.CorruptFileError as error:
    print(str(error)[:500], peak() - before)
"""
    *message, grown = python(code, path).rsplit(None, 1)
    assert words in "".join(message)
    assert bool(words) == bool("".join(message).strip())
    assert int(grown) < 64e6 + 8 * path.stat().st_size


def test_ctrl_c_ends_a_load_and_the_model_is_closed_in_the_background(monkeypatch, tmp_path):
    path = tmp_path / "m.dsstne"
    dsstne.popularity(X).save(path)
    interrupted, call, handles = threading.Event(), _native.call, []

    def slow(name, *arguments):
        if name == "model_load":
            for _ in range(60):
                _thread.interrupt_main()  # once may be lost in a destructor
                if interrupted.wait(1):
                    break
            call(name, *arguments)
            handles.append(arguments[-1].value)
            return
        call(name, *arguments)

    monkeypatch.setattr(_native, "call", slow)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever tests before have left
    try:
        with pytest.raises(KeyboardInterrupt):
            dsstne.load(path)
    finally:
        signal.signal(signal.SIGINT, before)
    interrupted.set()
    for thread in threading.enumerate():
        if thread.name == "dsstne-model_load":
            thread.join(60)
    (handle,) = handles
    assert handle
    with pytest.raises(dsstne.InvalidHandleError):
        _native.call_json("model_describe", handle)


def test_attributes_are_read_once(monkeypatch, tmp_path):
    model = dsstne.popularity(X, items=["a", "b", "c", "d"])
    model.attributes = {"note": "tea \0 \u00e9 \U0001f600", "": "no name"}
    with pytest.raises(dsstne.InvalidArgumentError, match="empty name"):
        model.save(tmp_path / "m.dsstne")
    model.attributes = {"a\0b": ""}
    with pytest.raises(dsstne.InvalidArgumentError, match="contains a NUL character"):
        model.save(tmp_path / "m.dsstne")
    model.attributes = {"note": "tea \0 \u00e9 \U0001f600", "empty": ""}
    model.save(tmp_path / "m.dsstne")
    loaded = dsstne.load(tmp_path / "m.dsstne")
    assert loaded.attributes == model.attributes
    described = []
    monkeypatch.setattr(
        _native,
        "call_json",
        lambda *arguments, real=_native.call_json: described.append(real(*arguments)) or described[-1],
    )
    assert (loaded.step, loaded.nbytes, len(loaded.tensor("bias"))) == (0, 60, 4)
    assert len(described) == 3
    assert not any("note" in json.dumps(text["definition"]) or "tea" in json.dumps(text) for text in described)


def test_a_history_that_could_not_be_read_is_not_written(tmp_path):
    model = dsstne.popularity(X)
    model.history = [{"epoch": n, "loss": 0.5} for n in range(1000)]
    model.save(tmp_path / "m.dsstne")
    assert dsstne.load(tmp_path / "m.dsstne").history == model.history
    model.history *= 150
    with pytest.raises(dsstne.InvalidArgumentError, match="a history of about 400,000 values"):
        model.save(tmp_path / "m.dsstne")


def test_what_a_saved_file_keeps_of_the_one_before_is_as_documented(tmp_path):
    path, link = tmp_path / "m.dsstne", tmp_path / "link"
    dsstne.popularity(X).save(path)
    path.chmod(0o640)
    os.link(path, link)
    before = link.read_bytes()
    with contextlib.suppress(PermissionError):
        os.chown(path, 1234, 1235)
    dsstne.popularity(X, items=["a", "b", "c", "d"]).save(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert (path.stat().st_uid, path.stat().st_nlink) == (os.geteuid(), 1)
    assert link.read_bytes() == before


def test_ids_of_minus_one_have_no_name():
    ids, _ = dsstne.popularity(X, items=["a", "b", "c", "d"]).recommend(np.ones((1, 4)), k=2)
    assert ids.tolist() == [[-1, -1]]
    assert dsstne.popularity(X, items=["a", "b", "c", "d"]).names(ids).tolist() == [[None, None]]
