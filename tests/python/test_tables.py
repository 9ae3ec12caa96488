"""Plans, profiles, progress, models, datasets and histories print as tables, as text and as HTML."""

import copy
import json
import pickle
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import _tables

X = scipy.sparse.random_array((60, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
HELD_OUT = scipy.sparse.csr_array(X.toarray() == 0, dtype=np.float32)


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
    chosen = dsstne.auto(X, seconds=1, progress=False)
    model = dsstne.fit(X, hidden=[4], epochs=3, progress=False)
    described = [chosen, model, model.history, dsstne.Dataset(X)]
    for value in (*shown.values(), dsstne.doctor(), chosen.report, *described):
        tree = ElementTree.fromstring(f"<div>{value._repr_html_()}</div>")
        cells = [cell.text for cell in tree.iter() if cell.tag in ("td", "th") and cell.text]
        assert len(cells) > 5
        for cell in cells:
            assert cell.strip() in str(value)


def test_a_model_says_what_its_layers_are_and_where_its_training_is():
    names = [f"item {n}" for n in range(20)]
    model = dsstne.fit(X, hidden=[4], epochs=3, dropout=0.25, validation=HELD_OUT, items=names, progress=False)
    lines = [" ".join(line.split()) for line in str(model).splitlines()]
    assert lines[0] == repr(model) == "Model(20 - 4 - 20; 184 parameters)"
    assert "hidden1 hidden 4 input activation tanh, dropout 0.25, bias" in lines
    assert f"weights 184 in {_tables.size(model.nbytes)}" in lines
    assert "items 20, with names" in lines
    assert "trained 3 steps, 3 epochs in the history" in lines
    assert any(line.startswith("last epoch epoch 3, step 3, loss ") and "ndcg@20" in line for line in lines)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: dsstne.popularity(X), "item_weights"),
        (lambda: dsstne.item_knn(X, progress=False), "bias_if_empty"),
        (lambda: dsstne.factorize(X, factors=3, progress=False), "unobserved_weight"),
        (lambda: dsstne.spectral(X, rank=3, progress=False), "sharpening"),
        (lambda: dsstne.blend([dsstne.popularity(X)]), "blend"),
    ],
)
def test_every_kind_of_model_has_a_table(made, words):
    model = made()
    assert words in str(model)
    assert words in model._repr_html_()
    model.close()
    assert str(model) == repr(model)
    assert model._repr_html_() == f"<p>{model!r}</p>"


def test_a_dataset_says_what_it_holds():
    with dsstne.Dataset(X) as data:
        lines = [" ".join(line.split()) for line in str(data).splitlines()]
        assert lines[0] == repr(data) == "Dataset(60 x 20, 240 stored)"
        assert "stored entries 240, 20.000% of the cells" in lines
        assert "entries of a row 4.0 on average" in lines
        assert f"values {X.data.min():.5g} to {X.data.max():.5g}" in lines
        assert f"size {_tables.size(data.nbytes)}" in lines
    assert str(data) == "Dataset(closed)"
    assert "each counts as 1" in str(dsstne.Dataset(X.astype(bool)))
    assert "rows            0" in str(dsstne.Dataset(X[:0]))


def test_a_history_is_a_list_that_prints_as_a_table(tmp_path):
    model = dsstne.fit(X, hidden=[4], epochs=3, validation=HELD_OUT, progress=False)
    history = model.history
    assert repr(history) == repr(list(history))
    assert history == list(history)
    assert json.loads(json.dumps(history)) == history
    lines = str(history).splitlines()
    assert lines[0].split() == list(history[0])
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3"]
    model.save(tmp_path / "model")
    copies = model.copy(), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), dsstne.load(tmp_path / "model")
    for other in copies:
        assert other.history == history
        assert other.history is not history
        assert other.history._repr_html_() == history._repr_html_()
    assert dsstne.popularity(X).history._repr_html_() == "<p>no epochs</p>"


def test_a_long_history_is_shortened_and_odd_records_are_shown():
    history = _tables.History({"epoch": n, "loss": 1 / n} for n in range(1, 1001))
    lines = str(history).splitlines()
    assert len(lines) == 1 + 40 + 1
    assert (lines[20].split()[0], lines[21].split()[0], lines[22].split()[0]) == ("20", "...", "981")
    odd = _tables.History([{"epoch": None, "note": "x" * 1000}, {"loss": [1, 2], 3: True}])
    assert [line.split() for line in str(odd).splitlines()] == [
        ["epoch", "note", "loss", "3"],
        ["None", "x" * 37 + "..."],
        ["[1,", "2]", "True"],
    ]


def test_names_cannot_put_markup_into_a_notebook():
    evil = "<script>alert('x')</script>"
    layers = [
        {"name": "in", "kind": "input", "size": 20},
        {"name": "h", "kind": "hidden", "size": 4},
        {"name": "out", "kind": "output", "size": 20},
    ]
    network = {"name": evil, "layers": layers}
    model = dsstne.fit(X, network=network, items=[evil + str(n) for n in range(20)], epochs=1, progress=False)
    model.history[-1][evil] = evil
    for shown in (model._repr_html_(), model.history._repr_html_()):
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown
        ElementTree.fromstring(f"<div>{shown}</div>")


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
