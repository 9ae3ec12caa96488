"""What a caller does wrong is a status with words, never a crash, and leaves everything as it was."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import threading
import time
from collections.abc import Callable
from ctypes import byref, c_int64, c_size_t, c_uint64
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import header
from native import STATUS, Blocks, Error, Failure, Info, Library, Matrix, Progress

ANYWHERE = np.zeros(1000, np.int32)
ROW = (np.array([0, 2], np.int64), np.array([1, 5], np.int32), np.ones(2, np.float32))


def matrix() -> Info:
    """One row of 12 columns, as the functions that take rows want it."""
    numbers = {"rows": 1, "columns": 12, "non_zeros": 2, "offset_bits": 64, "index_bits": 32, "value_bits": 32}
    addresses = dict(zip(("offsets", "indices", "values"), (array.ctypes.data for array in ROW), strict=True))
    return Info(struct_size=ctypes.sizeof(Info), **numbers, **addresses)


# ---- handles ----

# Every function with a handle first, with arguments that are good enough to reach it.
WITH_HANDLE: dict[str, Callable[[], tuple[Any, ...]]] = {
    "dataset_get_info": lambda: (byref(Info(struct_size=88)),),
    "dataset_product": lambda: (1, None, byref(c_uint64(0))),
    "dataset_index": lambda: (np.zeros(3, np.int64).ctypes.data, 3, None, byref(c_uint64(0))),
    "dataset_save": lambda: (b"/nonexistent/data", None, None, None, None, None),
    "dataset_describe": lambda: (None, byref(c_size_t(0))),
    "dataset_get_array": lambda: (b"column_counts", None, 0),
    "dataset_get_rows": lambda: (None, 0, (c_int64 * 1)(), None, None, 0),
    "dataset_close": tuple,
    "model_save": lambda: (b"/nonexistent/model", None),
    "model_describe": lambda: (None, byref(c_size_t(0))),
    "model_get_attribute": lambda: (b"a", None, byref(c_size_t(0))),
    "model_get_tensor": lambda: (b"hidden.bias", np.zeros(8, np.float32).ctypes.data, 32),
    "model_set_tensor": lambda: (b"hidden.bias", np.zeros(8, np.float32).ctypes.data, 32),
    "model_get_rows": lambda: (b"hidden.bias", 0, 8, np.zeros(8, np.float32).ctypes.data, 32),
    "model_set_rows": lambda: (b"hidden.bias", 0, 8, np.zeros(8, np.float32).ctypes.data, 32),
    "model_copy": lambda: (byref(c_uint64(0)),),
    "model_close": tuple,
    "trainer_open": lambda: (None, byref(c_uint64(0))),
    "trainer_bind": lambda: (b"input", 1),
    "trainer_set_row_weights": lambda: (b"output", np.ones(60, np.float32).ctypes.data, 60),
    "trainer_plan": lambda: (None, byref(c_size_t(0))),
    "trainer_run": lambda: (1, 0.0, None),
    "trainer_profile": lambda: (1, None, byref(c_size_t(0))),
    "trainer_progress": lambda: (byref(Progress(struct_size=80)),),
    "trainer_save": lambda: (b"/nonexistent/checkpoint", None, 0),
    "trainer_settle": tuple,
    "trainer_resume": lambda: (b"/nonexistent/checkpoint", byref(c_uint64(0))),
    "trainer_continue": lambda: (1,),
    "trainer_fork": lambda: (None, byref(c_uint64(0)), byref(c_uint64(0))),
    "trainer_close": tuple,
    "predictor_plan": lambda: (None, None, byref(c_size_t(0))),
    "predictor_open": lambda: (None, byref(c_uint64(0))),
    "predictor_bind": lambda: (b"input", 1),
    "predictor_predict": lambda: (None, None, 0, None, 1),
    "predictor_recommend": lambda: (None, 0, 0, None, 0, 1, None, None, None),
    "predictor_neighbors": lambda: (None, None, 0, None, 0, 1, None, None, None),
    "predictor_search": lambda: (None, None, 0, 3, None, 0, 1, None, None, None),
    "predictor_evaluate": lambda: (
        1,
        0,
        None,
        0,
        None,
        0,
        b'{"metrics": ["recall@5"]}',
        None,
        byref(c_size_t(0)),
        None,
    ),
    "predictor_serve": lambda: (None, 0, 1, None),
    "predictor_ask": lambda: (byref(matrix()), 1, None, 1, ANYWHERE.ctypes.data, ANYWHERE.ctypes.data),
    "predictor_close": tuple,
    "cancel": tuple,
}
OPENS = {"trainer_open": "model", "predictor_open": "model"}  # the handle they take is not of the kind in their name


def takes(name: str) -> str:
    return "handle" if name == "cancel" else OPENS.get(name, name.split("_")[0])


def failure(library: Library, name: str, *arguments: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        library.call(name, *arguments)
    return caught.value


def test_the_table_above_is_complete() -> None:
    handles = {"uint64_t", "dsstne_dataset", "dsstne_model", "dsstne_trainer", "dsstne_predictor"}
    expected = {name for name, (_, types) in header.functions().items() if types and types[0] in handles}
    assert {"dsstne_" + name for name in WITH_HANDLE} == expected


@pytest.mark.parametrize("name", WITH_HANDLE)
@pytest.mark.parametrize("handle", [0, 1, 2**32, 2**63, 2**64 - 1])
def test_a_number_that_is_no_handle(library: Library, name: str, handle: int) -> None:
    error = failure(library, name, handle, *WITH_HANDLE[name]())
    assert error.status == "INVALID_HANDLE"
    assert takes(name) in error.message


@pytest.mark.parametrize("name", WITH_HANDLE)
def test_a_handle_of_another_kind(blocks: Blocks, name: str) -> None:
    other = blocks.model if takes(name) in ("dataset", "handle") else blocks.dataset
    error = failure(blocks.library, name, other, *WITH_HANDLE[name]())
    assert error.status == "INVALID_HANDLE"
    assert "is the handle of a" in error.message


@pytest.mark.parametrize("name", WITH_HANDLE)
def test_a_closed_handle_also_when_its_slot_is_used_again(library: Library, name: str) -> None:
    closed = Blocks(library)
    closed.close()
    in_between = Blocks(library)
    kind = "trainer" if name == "cancel" else takes(name)
    error = failure(library, name, getattr(closed, kind), *WITH_HANDLE[name]())
    in_between.close()
    assert error.status == "INVALID_HANDLE"
    assert "has been closed" in error.message


def test_a_bad_handle_in_the_middle_names_its_parameter(blocks: Blocks) -> None:
    targets = failure(blocks.library, "predictor_evaluate", blocks.predictor, 5, 0, None, 60, None, 0,
                      b'{"metrics": ["recall@5"]}', None, byref(c_size_t(0)), None)  # fmt: skip
    assert targets.status == "INVALID_HANDLE"
    assert targets.message.startswith("targets")
    bind = failure(blocks.library, "trainer_bind", blocks.trainer, b"input", blocks.model)
    assert bind.message.startswith("dataset is the handle of a model")


# ---- in use ----


def test_what_is_in_use_is_not_closed(blocks: Blocks) -> None:
    assert failure(blocks.library, "model_close", blocks.model).status == "BUSY"
    assert failure(blocks.library, "dataset_close", blocks.dataset).status == "BUSY"
    blocks.recommend()


def test_a_running_trainer_refuses_all_but_progress_and_cancel(blocks: Blocks) -> None:
    library, trainer = blocks.library, blocks.trainer
    ended: list[Failure] = []

    def run() -> None:
        try:
            library.call("trainer_run", trainer, 0, 60.0, byref(last))
        except Failure as error:
            ended.append(error)

    last, progress = Progress(struct_size=80), Progress(struct_size=80)
    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30  # guards against a hang only
    while not progress.running or progress.step < 3:
        library.call("trainer_progress", trainer, byref(progress))
        assert not ended
        assert time.monotonic() < deadline
    refused = [
        failure(library, "trainer_run", trainer, 1, 0.0, None),
        failure(library, "trainer_plan", trainer, None, byref(c_size_t(0))),
        failure(library, "trainer_bind", trainer, b"input", blocks.dataset),
        failure(library, "trainer_close", trainer),
        failure(library, "model_close", blocks.model),
        failure(library, "model_copy", blocks.model, byref(c_uint64(0))),
        failure(library, "dataset_close", blocks.dataset),
    ]
    described = library.text("model_describe", blocks.model)
    library.call("cancel", trainer)
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert [error.status for error in refused] == ["BUSY"] * len(refused)
    assert "dsstne_trainer_run" in refused[0].message
    assert [error.status for error in ended] == ["CANCELLED"]
    assert described["parameters"] > 0
    assert last.step >= progress.step
    assert last.running == 0
    library.call("trainer_run", trainer, 1, 0.0, None)


def test_cancelling_what_does_not_run_does_nothing(blocks: Blocks) -> None:
    blocks.library.call("cancel", blocks.trainer)
    blocks.library.call("cancel", blocks.predictor)
    blocks.library.call("trainer_run", blocks.trainer, 2, 0.0, None)
    blocks.recommend()


def test_one_dataset_serves_many_predictors_at_once(blocks: Blocks) -> None:
    library, failed = blocks.library, []

    def serve() -> None:
        ids, scores = np.empty((60, 3), np.int32), np.empty((60, 3), np.float32)
        where = ids.ctypes.data, scores.ctypes.data
        try:
            for _ in range(20):
                predictor = library.open("predictor_open", blocks.model, b'{"threads": 1}')
                library.call("predictor_bind", predictor, b"input", blocks.dataset)
                library.call("predictor_recommend", predictor, None, 60, blocks.dataset, None, 0, 3, None, *where)
                library.call("predictor_close", predictor)
        except Failure as error:
            failed.append(error)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_many_calls_read_one_model_at_once(blocks: Blocks, tmp_path: Path) -> None:
    library, failed = blocks.library, []
    described = library.text("model_describe", blocks.model)["tensors"]
    elements = {tensor["name"]: prod(tensor["shape"]) for tensor in described}

    def read() -> None:
        file = str(tmp_path / f"{threading.get_ident()}.dsstne").encode()
        try:
            for _ in range(20):
                for name, number in elements.items():
                    values = np.empty(number, np.float32)
                    library.call("model_get_tensor", blocks.model, name.encode(), values.ctypes.data, values.nbytes)
                library.call("model_save", blocks.model, file, None)
                library.call("predictor_close", library.open("predictor_open", blocks.model, None))
        except Failure as error:
            failed.append(error.message)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# ---- arguments ----


@pytest.mark.parametrize("name", ["describe", "model_describe", "trainer_plan"])
@pytest.mark.parametrize("short", ["null", "one byte short"])
def test_a_short_buffer_is_left_alone_and_the_size_is_told(blocks: Blocks, name: str, short: str) -> None:
    handle = {"model_describe": [blocks.model], "trainer_plan": [blocks.trainer]}.get(name, [])
    length = c_size_t(0)
    blocks.library.call(name, *handle, None, byref(length))
    needed = length.value
    buffer = ctypes.create_string_buffer(b"\x7f" * (needed + 8), needed + 8)
    length.value = needed - 1
    blocks.library.call(name, *handle, None if short == "null" else buffer, byref(length))
    assert length.value == needed
    assert buffer.raw == b"\x7f" * (needed + 8)
    blocks.library.call(name, *handle, buffer, byref(length))
    assert length.value == needed
    assert buffer.raw[needed - 1 :] == b"\0" + b"\x7f" * 8
    assert json.loads(buffer.raw[: needed - 1])


def test_null_where_something_is_needed_names_the_parameter(blocks: Blocks) -> None:
    library, some = blocks.library, np.zeros(1000, np.int32).ctypes.data
    evaluate = (blocks.predictor, blocks.dataset, 0, None, 60, None, 0, b'{"metrics": ["recall@5"]}', None)
    calls = {
        ("describe", None, None): "len is null",
        ("dataset_open", None, None, None, None): "out is null",
        ("dataset_open_file", None, None, byref(c_uint64(0))): "path is null",
        ("dataset_open_file", b"data.arrow", None, None): "out is null",
        ("dataset_get_info", blocks.dataset, None): "info is null",
        ("dataset_read_text", None, 0, None, 0, None, None, 0, None, None, None): "out is null",
        ("dataset_read_text", None, 1, None, 0, None, None, 0, None, None, byref(c_uint64(0))): (
            "paths is null but n_paths is 1"
        ),
        ("index_read", None, some, None, byref(c_size_t(0)), None): "path is null",
        ("index_read", b"index", None, None, byref(c_size_t(0)), None): "n is null",
        ("index_read", b"index", some, None, None, None): "len is null",
        ("index_write", None, 0, some, None): "path is null",
        ("index_write", b"index", 0, None, None): "offsets is null",
        ("dataset_save", blocks.dataset, None, None, None, None, None, None): "path is null",
        ("dataset_describe", blocks.dataset, None, None): "len is null",
        ("dataset_get_array", blocks.dataset, None, None, 0): "name is null",
        ("network_read", None, None, None, byref(c_size_t(0))): "definition is null",
        ("network_read", b'{"Layers": []}', None, None, None): "len is null",
        ("model_create", None, None, byref(c_uint64(0))): "definition is null",
        ("model_create", b"{}", None, None): "out is null",
        ("model_load", None, None, byref(c_uint64(0))): "path is null",
        ("model_save", blocks.model, None, None): "path is null",
        ("model_copy", blocks.model, None): "out is null",
        ("model_get_tensor", blocks.model, None, some, 4): "name is null",
        ("model_get_tensor", blocks.model, b"hidden.bias", None, 32): "dst is null",
        ("model_set_tensor", blocks.model, b"hidden.bias", None, 32): "src is null",
        ("model_get_rows", blocks.model, None, 0, 1, some, 4): "name is null",
        ("model_get_rows", blocks.model, b"hidden.bias", 0, 8, None, 32): "dst is null",
        ("model_set_rows", blocks.model, b"hidden.bias", 0, 8, None, 32): "src is null",
        ("trainer_open", blocks.model, None, None): "out is null",
        ("trainer_bind", blocks.trainer, None, blocks.dataset): "layer is null",
        ("trainer_set_row_weights", blocks.trainer, None, some, 1): "layer is null",
        ("trainer_set_row_weights", blocks.trainer, b"output", None, 60): "weights is null but n_rows is 60",
        ("trainer_progress", blocks.trainer, None): "progress is null",
        ("predictor_predict", blocks.predictor, None, None, 60, None, 12): "dst is null",
        ("predictor_recommend", blocks.predictor, None, 60, 0, None, 0, 3, None, None, some): "ids is null",
        ("predictor_recommend", blocks.predictor, None, 60, 0, None, 0, 3, None, some, None): "scores is null",
        ("predictor_recommend", blocks.predictor, None, 60, 0, None, 4, 3, None, some, some): "items is null",
        ("predictor_neighbors", blocks.predictor, None, None, 5, None, 0, 3, None, some, some): "queries is null",
        ("predictor_search", blocks.predictor, None, None, 5, 8, None, 0, 3, None, some, some): "queries is null",
        ("predictor_evaluate", *evaluate, None, None): "len is null",
        ("predictor_ask", blocks.predictor, None, 1, None, 1, some, some): "inputs: expected one matrix",
        ("predictor_ask", blocks.predictor, byref(matrix()), 1, None, 1, None, some): "ids is null",
        ("predictor_ask", blocks.predictor, byref(matrix()), 1, None, 1, some, None): "scores is null",
        ("predictor_serve", blocks.predictor, None, 2, 1, None): "items is null",
    }
    for (name, *arguments), words in calls.items():
        error = failure(library, name, *arguments)
        assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True), str(error)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("struct_size", 8, "struct_size is 8"),
        ("struct_size", 1001, "struct_size is 1001"),
        ("rows", -1, "rows is -1"),
        ("rows", 2**62, "more than memory can hold"),
        ("non_zeros", -1, "non_zeros is -1"),
        ("offset_bits", 16, "offset_bits is 16"),
        ("index_bits", 0, "index_bits is 0"),
        ("value_bits", 8, "value_bits is 8"),
        ("offsets", None, "null"),
        ("indices", None, "null"),
        ("values", None, "null"),
        ("columns", 0, "columns"),
    ],
)
def test_a_struct_of_a_matrix_that_cannot_be_meant(blocks: Blocks, field: str, value: object, words: str) -> None:
    wrong = matrix()
    setattr(wrong, field, value)
    error = failure(
        blocks.library, "predictor_ask", blocks.predictor, byref(wrong), 1, None, 1, *(ANYWHERE.ctypes.data,) * 2
    )
    assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True), str(error)


def test_a_predictor_that_serves_answers_many_and_does_nothing_else(blocks: Blocks) -> None:
    library, out = blocks.library, c_uint64(0)
    library.call("predictor_open", blocks.model, None, byref(out))
    ids, scores = np.zeros((1, 3), np.int32), np.zeros((1, 3), np.float32)
    ask = ("predictor_ask", out.value, byref(matrix()), 1, None, 3, ids.ctypes.data, scores.ctypes.data)
    assert failure(library, *ask).status == "INVALID_STATE"
    library.call("predictor_serve", out.value, None, 0, 3, None)
    library.call(*ask)
    assert sorted(set(ids[0])) == sorted(ids[0])
    assert failure(library, "predictor_serve", out.value, None, 0, 3, None).status == "INVALID_STATE"
    assert failure(library, "predictor_bind", out.value, b"input", blocks.dataset).status == "INVALID_STATE"
    rows = np.zeros(1, np.int64).ctypes.data
    recommend = ("predictor_recommend", out.value, rows, 1, 0, None, 0, 3, None, ids.ctypes.data, scores.ctypes.data)
    assert failure(library, *recommend).status == "INVALID_STATE"
    library.call("predictor_close", out.value)


def test_sizes_that_cannot_be_meant(blocks: Blocks) -> None:
    library, some, one = blocks.library, np.zeros(1000, np.int32).ctypes.data, blocks.predictor
    calls = [
        ("predictor_recommend", one, None, 60, 0, None, 0, 0, None, some, some),
        ("predictor_recommend", one, None, 60, 0, None, 0, -3, None, some, some),
        ("predictor_recommend", one, None, -1, 0, None, 0, 3, None, some, some),
        ("predictor_recommend", one, None, 60, 0, None, 0, 2**60, None, some, some),
        ("predictor_recommend", one, some, 2**62, 0, None, 0, 3, None, some, some),
        ("predictor_recommend", one, None, 60, 0, some, -1, 3, None, some, some),
        ("predictor_recommend", one, None, 59, 0, None, 0, 3, None, some, some),
        ("predictor_neighbors", one, None, some, 2**62, None, 0, 4, None, some, some),
        ("predictor_search", one, None, some, 2**62, 2**62, None, 0, 4, None, some, some),
        ("predictor_search", one, None, some, 0, 0, None, 0, 4, None, some, some),
        ("predictor_search", one, None, some, -1, 8, None, 0, 4, None, some, some),
        ("predictor_search", one, None, some, 1, 8, None, 0, 4, b'{"metric": "entry"}', some, some),
        ("predictor_predict", one, None, None, 60, some, -1),
        ("predictor_predict", one, None, None, 60, some, 2**60),
        ("model_get_tensor", blocks.model, b"hidden.bias", some, 2**64 - 1),
        ("model_get_rows", blocks.model, b"hidden.bias", -1, 1, some, 4),
        ("model_get_rows", blocks.model, b"hidden.bias", 0, -1, some, 4),
        ("model_get_rows", blocks.model, b"hidden.bias", 0, 9, some, 36),
        ("model_get_rows", blocks.model, b"hidden.bias", 2**63 - 1, 2**63 - 1, some, 4),
        ("model_set_rows", blocks.model, b"hidden.bias", 8, 1, some, 4),
        ("model_set_rows", blocks.model, b"hidden.bias", 0, 2, some, 4),
        ("trainer_run", blocks.trainer, 0, 0.0, None),
        ("trainer_run", blocks.trainer, 0, -1.0, None),
        ("trainer_run", blocks.trainer, 1, float("nan"), None),
    ]
    for name, *arguments in calls:
        assert failure(library, name, *arguments).status == "INVALID_ARGUMENT"


def test_text_that_is_not_utf_8_is_refused(blocks: Blocks) -> None:
    error = failure(blocks.library, "trainer_bind", blocks.trainer, b"in\xffput", blocks.dataset)
    assert (error.status, error.message) == ("INVALID_ARGUMENT", "layer is not valid UTF-8")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("configure", b'{"treads": 2}', "threads"),
        ("configure", b'{"threads": -1}', "threads"),
        ("configure", b'{"instruction_set": "avx3"}', "avx2"),
        ("configure", b'{"inject_panic": "goroutine"}', "inject_panic"),
        ("configure", b"[]", "library options"),
        ("configure", b"{", "library options"),
    ],
)
def test_options_are_read_strictly(library: Library, name: str, options: bytes, words: str) -> None:
    error = failure(library, name, options)
    assert error.status == "INVALID_ARGUMENT"
    assert words in error.message


def test_a_definition_is_read_in_the_dialect_of_the_options(library: Library) -> None:
    theirs = b'{"ErrorFunction": "CrossEntropy", "Layers": [{"N": 9}, {"N": 4}, {"N": 9}]}'
    answer = library.text("network_read", theirs, None)
    assert sorted(answer) == ["datasets", "dialect", "network", "training", "words"]
    assert (answer["dialect"], answer["training"], answer["datasets"]) == ("dsstne", {"shuffle": True}, {})
    ours = json.dumps(answer["network"]).encode()
    again = library.text("network_read", ours, b'{"dialect": "native"}')
    assert again == {**answer, "dialect": "native", "training": {}, "words": {}}
    for definition, options, words in (
        (theirs, b'{"dialect": "native"}', "network definition: ErrorFunction is not a known key"),
        (ours, b'{"dialect": "dsstne"}', "DSSTNE network: "),
        (theirs, b'{"dialect": "dsstn"}', 'did you mean "dsstne"?'),
        (b" " * (1 << 18) + theirs, None, "262,144 are allowed"),
    ):
        error = failure(library, "network_read", definition, options, None, byref(c_size_t(0)))
        assert error.status == "INVALID_ARGUMENT"
        assert words in error.message


def test_a_failed_open_writes_no_handle_and_releases_both_structs(library: Library) -> None:
    matrix, handle = Matrix(library, [[0, 9]], columns=4), c_uint64(77)
    error = failure(
        library, "dataset_open", byref(matrix.schema), byref(matrix.array), b'{"columns": 4}', byref(handle)
    )
    assert error.status == "INVALID_DATA"
    assert handle.value == 77
    assert not matrix.schema.release
    assert not matrix.array.release


@pytest.mark.parametrize("options", [b"{}", b'{"columns": 0}', b'{"columns": 4, "colums": 4}'])
def test_bad_options_release_both_structs_too(library: Library, options: bytes) -> None:
    matrix = Matrix(library, [[0, 1]], columns=4)
    error = failure(library, "dataset_open", byref(matrix.schema), byref(matrix.array), options, byref(c_uint64(0)))
    assert error.status == "INVALID_ARGUMENT"
    assert not matrix.schema.release
    assert not matrix.array.release


# ---- struct_size ----


@pytest.mark.parametrize("size", [0, 4, 7, 8, 9, 12, 1031, 1032, 1035, 1036, 5000])
def test_an_error_is_filled_as_far_as_its_struct_size(library: Library, size: int) -> None:
    memory = ctypes.create_string_buffer(b"\x7f" * 6000, 6000)
    error = Error.from_buffer(memory)
    error.struct_size = size
    assert library.raw.dsstne_model_close(0, byref(error)) == STATUS["INVALID_HANDLE"]
    known = min(size, 1036) if size >= 1036 else min(size, 1032)
    assert memory.raw[max(known, 4) :] == b"\x7f" * (6000 - max(known, 4))
    if size >= 8:
        assert error.status == STATUS["INVALID_HANDLE"]
    if size > 8:
        assert memory.raw[8:known].split(b"\0")[0] == b"model is 0, which is not a handle"[: known - 9]
    if size >= 1036:
        assert error.system_error == 0


def test_an_error_has_the_errno_of_the_operating_system(library: Library, tmp_path: Path) -> None:
    definition = b'{"kind": "item_weights", "items": 2, "weight": "none", "bias": true}'
    model = library.open("model_create", definition, None)
    for path, number in (
        (tmp_path / "none" / "m", errno.ENOENT),
        (tmp_path, errno.EISDIR),
        ("x" * 256, errno.ENAMETOOLONG),
    ):
        assert failure(library, "model_save", model, str(path).encode(), None).system_error == number
    missing = failure(library, "model_load", str(tmp_path / "m").encode(), None, byref(c_uint64(0)))
    assert (missing.status, missing.system_error) == ("NOT_FOUND", errno.ENOENT)
    library.call("model_close", model)


def test_a_path_may_be_any_bytes_and_a_message_is_utf_8(library: Library, tmp_path: Path) -> None:
    model = library.open("model_create", b'{"kind": "item_weights", "items": 2, "weight": "none", "bias": true}', None)
    path = os.fsencode(tmp_path) + b"/m\xe8l\xff"
    library.call("model_save", model, path, None)
    assert os.listdir(os.fsencode(tmp_path)) == [b"m\xe8l\xff"]
    library.call("model_close", library.open("model_load", path, None))
    library.call("model_close", model)
    os.truncate(path, 100)
    assert "/m\ufffdl\ufffd: " in failure(library, "model_load", path, None, byref(c_uint64(0))).message


def test_an_error_may_be_null(library: Library) -> None:
    assert library.raw.dsstne_model_close(0, None) == STATUS["INVALID_HANDLE"]


def test_a_long_message_is_cut_between_characters(library: Library) -> None:
    error = failure(library, "configure", json.dumps({"ä" * 3000: 1}, ensure_ascii=False).encode())
    assert len(error.message.encode()) <= 1023


@pytest.mark.parametrize("size", [8, 16, 24, 88, 200])
def test_an_info_is_filled_as_far_as_its_struct_size(blocks: Blocks, size: int) -> None:
    memory = ctypes.create_string_buffer(b"\x7f" * 300, 300)
    info = Info.from_buffer(memory)
    info.struct_size = size
    blocks.library.call("dataset_get_info", blocks.dataset, byref(info))
    assert info.struct_size == size
    assert info.index_bits == 32
    assert memory.raw[min(size, 88) :] == b"\x7f" * (300 - min(size, 88))


@pytest.mark.parametrize("size", [8, 16, 80, 200])
def test_a_progress_is_filled_as_far_as_its_struct_size(blocks: Blocks, size: int) -> None:
    memory = ctypes.create_string_buffer(b"\x7f" * 300, 300)
    progress = Progress.from_buffer(memory)
    progress.struct_size = size
    blocks.library.call("trainer_run", blocks.trainer, 4, 0.0, byref(progress))
    assert progress.running == 0
    assert size < 16 or progress.step == 4
    assert memory.raw[min(size, 80) :] == b"\x7f" * (300 - min(size, 80))


@pytest.mark.parametrize("size", [0, 4])
def test_a_struct_whose_size_was_not_set_is_refused(blocks: Blocks, size: int) -> None:
    for name, handle, struct in (
        ("dataset_get_info", blocks.dataset, Info(struct_size=size)),
        ("trainer_progress", blocks.trainer, Progress(struct_size=size)),
    ):
        error = failure(blocks.library, name, handle, byref(struct))
        assert error.status == "INVALID_ARGUMENT"
        assert "struct_size" in error.message
