"""dsstne_trainer_save, _resume, _fork and _continue: what goes on has the bits of what was not stopped."""

from __future__ import annotations

from ctypes import byref, c_uint64
from typing import TYPE_CHECKING

import pytest
from test_abi_copy import tensors

from native import Blocks, Failure, Library

if TYPE_CHECKING:
    from pathlib import Path


def new_trainer(library: Library, blocks: Blocks, path: bytes) -> tuple[int, int]:
    """A model of a checkpoint and a trainer of it, with the options and the data of the other one."""
    model = library.open("model_load", path, None)
    trainer = library.open("trainer_open", model, b'{"batch_size": 16, "threads": 1}')
    for layer in (b"input", b"output"):
        library.call("trainer_bind", trainer, layer, blocks.dataset)
    return trainer, model


def closed(library: Library, trainer: int, model: int) -> None:
    library.call("trainer_close", trainer)
    library.call("model_close", model)


@pytest.fixture
def bound(blocks: Blocks) -> tuple[int, int]:
    """A trainer of a copy of the model."""
    library, model = blocks.library, blocks.library.open("model_copy", blocks.model)
    trainer = library.open("trainer_open", model, b'{"batch_size": 16, "checkpoints": true}')
    for layer in (b"input", b"output"):
        library.call("trainer_bind", trainer, layer, blocks.dataset)
    return trainer, model


@pytest.mark.parametrize("options", [None, b'{"background": true, "attributes": {"who": "test"}}'])
def test_a_resumed_trainer_goes_on_with_the_same_bits(
    blocks: Blocks, bound: tuple[int, int], tmp_path: Path, options: bytes | None
) -> None:
    library, (trainer, model), path = blocks.library, bound, bytes(tmp_path / "checkpoint")
    library.call("trainer_run", trainer, 5, 0.0, None)
    library.call("trainer_save", trainer, path, options, model)
    library.call("trainer_settle", trainer)
    begun = tensors(library, model)
    library.call("trainer_run", trainer, 4, 0.0, None)
    other, copy = new_trainer(library, blocks, path)
    best = c_uint64(7)
    library.call("trainer_resume", other, path, byref(best))
    assert tensors(library, copy) == tensors(library, best.value) == begun
    library.call("model_close", best.value)
    library.call("trainer_run", other, 4, 0.0, None)
    assert tensors(library, copy) == tensors(library, model)
    with pytest.raises(Failure, match="before the first run"):
        library.call("trainer_resume", other, path, byref(best))
    closed(library, other, copy)
    closed(library, trainer, model)


def test_a_fork_leaves_its_trainer_alone(blocks: Blocks, bound: tuple[int, int]) -> None:
    library, (trainer, model) = blocks.library, bound
    library.call("trainer_run", trainer, 5, 0.0, None)
    copy = c_uint64(0)
    fork = library.open("trainer_fork", trainer, b'{"batch_size": 16}', byref(copy))
    before = tensors(library, model)
    library.call("trainer_run", fork, 4, 0.0, None)
    assert tensors(library, model) == before
    library.call("trainer_run", trainer, 4, 0.0, None)
    assert tensors(library, model) == tensors(library, copy.value)
    with pytest.raises(Failure, match="batch_size"):
        library.open("trainer_fork", trainer, b'{"batch_size": 8}', byref(copy))
    closed(library, fork, copy.value)
    closed(library, trainer, model)


def test_a_trainer_without_data_keeps_the_state_for_another(blocks: Blocks, bound: tuple[int, int]) -> None:
    library, (trainer, model) = blocks.library, bound
    library.call("trainer_run", trainer, 1, 0.0, None)
    copy = c_uint64(0)
    fork = library.open("trainer_fork", trainer, b'{"batch_size": 16}', byref(copy))
    keeper = library.open("trainer_open", model, None)
    library.call("trainer_continue", keeper, trainer)
    library.call("trainer_close", trainer)
    last = library.open("trainer_open", model, b'{"batch_size": 16}')
    library.call("trainer_continue", last, keeper)
    for layer in (b"input", b"output"):
        library.call("trainer_bind", last, layer, blocks.dataset)
    library.call("trainer_run", last, 1, 0.0, None)
    library.call("trainer_run", fork, 1, 0.0, None)
    assert tensors(library, model) != tensors(library, copy.value)  # which is in its first epoch
    for other, text in ((fork, "before its first run"), (last, "still running"), (7, "never a handle")):
        with pytest.raises(Failure, match=text):
            library.call("trainer_continue", last, other)
    library.call("trainer_close", keeper)
    closed(library, fork, copy.value)
    closed(library, last, model)


def test_what_is_missing_is_said(blocks: Blocks, bound: tuple[int, int], tmp_path: Path) -> None:
    library, (trainer, model) = blocks.library, bound
    for name, arguments, status in (
        ("trainer_save", (None, None, 0), "INVALID_ARGUMENT"),
        ("trainer_save", (b"/nonexistent/checkpoint", None, 0), "IO"),
        ("trainer_save", (bytes(tmp_path / "a"), b'{"backgrund": true}', 0), "INVALID_ARGUMENT"),
        ("trainer_save", (bytes(tmp_path / "a"), None, trainer), "INVALID_HANDLE"),
        ("trainer_resume", (bytes(tmp_path / "none"), byref(c_uint64(0))), "NOT_FOUND"),
        ("trainer_resume", (bytes(tmp_path / "none"), None), "INVALID_ARGUMENT"),
        ("trainer_fork", (None, byref(c_uint64(0)), None), "INVALID_ARGUMENT"),
        ("trainer_fork", (None, None, byref(c_uint64(0))), "INVALID_ARGUMENT"),
    ):
        with pytest.raises(Failure) as caught:
            library.call(name, trainer, *arguments)
        assert caught.value.status == status, (name, arguments, caught.value.message)
    closed(library, trainer, model)


def test_a_trainer_without_datasets_has_nothing_to_save_or_to_fork(blocks: Blocks, tmp_path: Path) -> None:
    library, model = blocks.library, blocks.library.open("model_copy", blocks.model)
    trainer = library.open("trainer_open", model, None)
    for name, arguments in (
        ("trainer_save", (bytes(tmp_path / "a"), None, 0)),
        ("trainer_fork", (None, byref(c_uint64(0)), byref(c_uint64(0)))),
    ):
        with pytest.raises(Failure, match="no dataset is bound") as caught:
            library.call(name, trainer, *arguments)
        assert caught.value.status == "INVALID_STATE"
    closed(library, trainer, model)
