"""dsstne_trainer_profile: it trains once, however often its text is asked for."""

from __future__ import annotations

from ctypes import byref, c_size_t

import pytest

from native import Blocks, Failure, Progress


def step(blocks: Blocks) -> int:
    progress = Progress(struct_size=80)
    blocks.library.call("trainer_progress", blocks.trainer, byref(progress))
    return int(progress.step)


def test_without_steps_the_last_profile_is_written_again(blocks: Blocks) -> None:
    library, length = blocks.library, c_size_t(0)
    with pytest.raises(Failure, match="no profile yet") as caught:
        library.text("trainer_profile", blocks.trainer, 0)
    assert caught.value.status == "INVALID_STATE"
    library.call("trainer_profile", blocks.trainer, 4, None, byref(length))
    assert length.value > 100
    assert step(blocks) == 4
    profile = library.text("trainer_profile", blocks.trainer, 0)
    assert profile["steps"] == 4
    assert profile == library.text("trainer_profile", blocks.trainer, 0)
    assert [o["operation"].split()[0] for o in profile["operations"]][-1] == "Scatter"
    assert step(blocks) == 4
    library.call("trainer_run", blocks.trainer, 1, 0.0, None)
    assert step(blocks) == 5


def test_a_call_that_could_not_answer_does_not_train(blocks: Blocks) -> None:
    with pytest.raises(Failure, match="len is null"):
        blocks.library.call("trainer_profile", blocks.trainer, 3, None, None)
    assert step(blocks) == 0
