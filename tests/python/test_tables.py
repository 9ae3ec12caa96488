"""Plans, profiles, progress and reports print as tables, as text and as HTML."""

import json
import pickle
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import _tables

X = scipy.sparse.random_array((60, 20), density=0.2, format="csr", rng=0, dtype=np.float32)


@pytest.fixture(scope="module")
def shown():
    """A plan, a profile and the state of a training."""
    model = dsstne.fit(X, hidden=[4], epochs=1, progress=False)
    with dsstne.Trainer(model, X, batch_size=16, devices="cpu", memory_limit=50_000_000) as trainer:
        plan = trainer.plan()
        trainer.run(steps=1)
        profile = trainer.profile(steps=2)
        return {"plan": plan, "profile": profile, "progress": trainer.progress, "ranking": model.plan(X, k=3)}


def test_a_plan_lists_memory_and_operations(shown):
    text = str(shown["plan"])
    assert text.splitlines()[0].endswith("limit 47.7 MiB; on cpu; " + shown["plan"]["precision"])
    for part in shown["plan"]["parts"]:
        assert any(part["name"] in line and _tables.size(part["bytes"]) in line for line in text.splitlines())
    for operation in shown["plan"]["operations"]:
        assert operation in text
    assert "TopK 3 of 20 items" in str(shown["ranking"])


def test_a_profile_lists_the_operations_with_their_times(shown):
    profile = shown["profile"]
    lines = str(profile).splitlines()
    assert lines[0] == f"{profile['milliseconds']:,.3f} ms a step, the mean of 2 steps"
    assert lines[2].split()[:3] == ["device", "ms", "share"]
    assert len(lines) == 3 + len(profile["operations"]) + len(profile["outside"])


def test_the_state_of_a_training_says_what_is_not_known_yet(shown):
    assert "3 steps, 0 epochs and 48 examples" in str(shown["progress"])
    assert "none yet" in str(shown["progress"])
    assert repr(shown["progress"]).startswith("Progress(step=3, ")


def test_they_are_still_the_dictionaries_that_they_were(shown):
    for name in ("plan", "profile", "ranking"):
        assert isinstance(shown[name], dict)
        assert json.loads(json.dumps(shown[name])) == dict(shown[name])
        assert pickle.loads(pickle.dumps(shown[name])) == shown[name]
        assert dict(shown[name]) == shown[name]


def test_html_is_well_formed_and_has_the_same_cells(shown):
    report = dsstne.auto(X, seconds=1, progress=False).report
    for value in (*shown.values(), dsstne.doctor(), report):
        tree = ElementTree.fromstring(f"<div>{value._repr_html_()}</div>")
        cells = [cell.text for cell in tree.iter() if cell.tag in ("td", "th") and cell.text]
        assert len(cells) > 5
        for cell in cells:
            assert cell.strip() in str(value)


def test_text_is_escaped_in_html_and_numbers_are_aligned():
    table = _tables.Table(["a", "n"], [["<b>", "10"], ["c", "7"]], right=[1])
    assert table.text().splitlines() == ["a     n", "<b>  10", "c     7"]
    assert "&lt;b&gt;" in table.html()
    assert 'right">10<' in table.html()


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 62, "4,194,304.0 TiB")],
)
def test_sizes_are_given_in_words(count, words):
    assert _tables.size(count) == words
