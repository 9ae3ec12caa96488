"""fit(): from a matrix to a model, its history, and what stops it."""

import copy
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks
from terminal import terminal

import dsstne

FAST = {"hidden": [8], "epochs": 2, "batch_size": 64, "progress": False}


def test_a_model_learns_the_groups_of_its_users(X):
    model = dsstne.fit(X, hidden=[16], epochs=40, batch_size=32, learning_rate=0.01, progress=False)
    ids, _ = model.recommend(X, k=3)
    share = np.mean(ids % 6 == (np.arange(X.shape[0]) % 6)[:, None])
    assert share > 0.95  # 1/6 by chance


def test_history_has_a_record_per_epoch(X):
    model = dsstne.fit(X, **FAST, validation=blocks(seed=5))
    assert [r["epoch"] for r in model.history] == [1, 2]
    assert [r["step"] for r in model.history] == [4, 8]
    for record in model.history:
        assert set(record) >= {"loss", "seconds", "examples_per_second", "recall@20", "ndcg@20"}
        assert all(math.isfinite(value) for value in record.values())
    assert model.history[0]["loss"] > model.history[1]["loss"]
    assert model.history[0]["seconds"] < model.history[1]["seconds"]
    assert model.step == 8


def test_no_epochs_gives_an_untrained_model(X):
    model = dsstne.fit(X, hidden=[8], epochs=0)
    assert model.history == []
    assert model.step == 0
    assert model.recommend(X, k=2)[0].shape == (240, 2)


@pytest.mark.parametrize(
    "loss", ["softmax", "sigmoid", "scaled_marginal", "squared", "hinge", {"kind": "softmax", "normalize_rows": True}]
)
def test_every_loss_falls(X, loss):
    model = dsstne.fit(X, hidden=[8], epochs=4, batch_size=32, loss=loss, learning_rate=0.01, progress=False)
    losses = [record["loss"] for record in model.history]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "optimizer",
    ["sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw", "adagrad", "adadelta", {"kind": "adam", "beta2": 0.99}],
)
def test_every_optimizer_lowers_the_loss(X, optimizer):
    rate = 0.01 if "adam" in str(optimizer) or optimizer == "rmsprop" else 1 if optimizer == "adadelta" else 0.05
    model = dsstne.fit(X, hidden=[8], epochs=4, batch_size=32, optimizer=optimizer, learning_rate=rate, progress=False)
    losses = [record["loss"] for record in model.history]
    assert losses[-1] < losses[0]


def test_with_hinge_an_absent_item_has_the_target_minus_one(X):
    options = {"hidden": [8], "epochs": 2, "batch_size": 32, "loss": "hinge", "denoising": 0, "progress": False}
    full = X.toarray()
    full[full == 0] = -1
    models = [dsstne.fit(X, targets, **options) for targets in (X, scipy.sparse.csr_array(full))]
    losses = [[record["loss"] for record in model.history] for model in models]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < 60  # that of logits of 0


def test_hinge_refuses_targets_beyond_one(X):
    targets = X.tolil()
    targets[3, 17] = -1.5
    with pytest.raises(
        dsstne.InvalidDataError, match=r"row 3, column 17: the target is -1\.5; this loss needs targets from -1 to 1"
    ):
        dsstne.fit(X, targets.tocsr(), loss="hinge", progress=False)


@pytest.mark.parametrize(
    "activation",
    [
        "tanh",
        "sigmoid",
        "relu",
        "elu",
        "selu",
        "linear",
        "leaky_relu",
        "softplus",
        "softsign",
        "gelu",
        "silu",
        "softmax",
    ],
)
def test_every_activation_works_in_a_deep_network(X, activation):
    model = dsstne.fit(X, hidden=[8, 6, 5], activation=activation, epochs=1, progress=False)
    assert [model.embed(X, layer).shape[1] for layer in ("hidden1", "hidden2", "hidden3")] == [8, 6, 5]


@pytest.mark.parametrize(
    ("activation", "loss"),
    [
        ("sigmoid", "squared"),
        ("tanh", "hinge"),
        ("leaky_relu", "absolute"),
        ("softplus", "l2_hinge"),
        ("gelu", "squared"),
    ],
)
def test_an_output_has_an_activation_before_its_loss(X, activation, loss):
    network = {
        "layers": [
            {"name": "input", "kind": "input"},
            {"name": "h", "kind": "hidden", "size": 8},
            {"name": "output", "kind": "output", "activation": activation},
        ],
        "loss": loss,
    }
    models = [
        dsstne.fit(X, network=network, epochs=4, learning_rate=0.01, progress=False, devices=devices, parallel=parallel)
        for devices, parallel in (("cpu", "auto"), ("cpu:4", "model"), ("cpu:4", "data"))
    ]
    for model in models:
        assert model.network["layers"][2]["activation"] == activation
        losses = [entry["loss"] for entry in model.history]
        assert losses[-1] < losses[0]
        assert losses == pytest.approx([entry["loss"] for entry in models[0].history], rel=1e-4)
    ids, scores = models[0].recommend(X[:3], k=4)
    assert ids.shape == scores.shape == (3, 4)


def test_parameters_become_the_network(X):
    model = dsstne.fit(
        X,
        hidden=[8, 7],
        activation=["relu", "tanh"],
        temperature=0.2,
        input_scaling=None,
        denoising=0.25,
        dropout=0.1,
        epochs=0,
    )
    source, first, second, output = model.network["layers"]
    assert (source["scaling"], source["denoising"]) == ("none", 0.25)
    assert (first["activation"], second["activation"], second["size"]) == ("relu", "tanh", 7)
    assert first["dropout"] == pytest.approx(0.1)
    assert output["temperature"] == pytest.approx(0.2)
    assert (source["size"], output["size"]) == (60, 60)


def test_a_tied_network_shares_one_weight(X):
    model = dsstne.fit(X, hidden=8, tied=True, epochs=2, progress=False)
    assert model.network["layers"][-1]["shared"] == "hidden1.weight"
    assert "output.weight" not in model.tensors
    assert model.parameters == 60 * 8 + 8 + 60


def test_cosine_scores_are_bounded_by_the_temperature(X):
    model = dsstne.fit(X, hidden=8, temperature=0.5, epochs=1, progress=False)
    model.set_tensor("output.bias", np.zeros(60))
    assert np.abs(model.predict(X)).max() <= 2.0001


def test_targets_may_be_other_columns_than_the_input(X):
    labels = scipy.sparse.csr_array(np.eye(6, dtype=np.float32)[np.arange(240) % 6])
    model = dsstne.fit(X, labels, hidden=[16], epochs=30, batch_size=32, learning_rate=0.01, progress=False)
    ids, _ = model.recommend(X, k=1)
    assert ids.shape == (240, 1)
    assert np.mean(ids[:, 0] == np.arange(240) % 6) > 0.95
    pair = dsstne.evaluate(model, X, labels, ["precision@1"], exclude=None)
    assert pair["precision@1"] == pytest.approx(np.mean(ids[:, 0] == np.arange(240) % 6))


def test_only_without_targets_do_stored_items_count_as_seen(X, tmp_path):
    other = scipy.sparse.csr_array(np.roll(X.toarray(), 7, axis=1))  # as many columns, but other things
    labelled = dsstne.fit(X, other, **FAST, validation=other)
    assert not labelled.same_items
    labelled.save(tmp_path / "m.dsstne")
    for model in (labelled, dsstne.load(tmp_path / "m.dsstne"), copy.deepcopy(labelled)):
        np.testing.assert_array_equal(model.recommend(X)[0], model.recommend(X, exclude_seen=np.False_)[0])
        assert (model.recommend(X)[0] != model.recommend(X, exclude_seen=True)[0]).any()
        found = dsstne.evaluate(model, X, other, ["recall@20", "ndcg@20"])
        assert found == dsstne.evaluate(model, X, other, ["recall@20", "ndcg@20"], exclude=None)
        assert found == {name: labelled.history[-1][name] for name in found}
    assert dsstne.fit(X, **FAST).same_items
    assert dsstne.fit(X, X, **FAST).same_items


def test_a_trainer_tells_an_untrained_model_what_its_outputs_are(X):
    model = dsstne.Model(dsstne.fit(X, hidden=4, epochs=0).network)
    assert model.same_items  # one input and one output of the same size
    with dsstne.Trainer(model, X, X.copy()):
        assert not model.same_items
    with dsstne.Trainer(model, X):
        assert not model.same_items
    model.same_items = True
    assert model.same_items


def test_validation_may_be_a_pair_for_new_rows(X):
    new, held_out = blocks(rows=50, seed=9), blocks(rows=50, seed=10)
    model = dsstne.fit(X, **FAST, validation=(new, held_out))
    assert "recall@20" in model.history[-1]


def test_validation_metrics_are_those_of_evaluate(X):
    held_out = blocks(seed=5)
    model = dsstne.fit(X, **FAST, validation=held_out)
    again = dsstne.evaluate(model, X, held_out, ["recall@20", "ndcg@20"])
    assert {name: model.history[-1][name] for name in again} == again


def test_validation_above_the_memory_limit_is_refused_before_the_first_step(X):
    many = scipy.sparse.vstack([X] * 400, format="csr")  # 4.8 MB of data
    with pytest.raises(dsstne.OutOfMemoryError, match="memory_limit") as caught:
        dsstne.fit(X, **FAST, validation=(many, many), memory_limit=3_000_000)
    assert caught.value.model.step == 0
    assert len(dsstne.fit(X, **FAST, validation=blocks(seed=5), memory_limit=3_000_000).history) == 2


def test_validation_of_a_small_catalogue_uses_shorter_lists():
    X, held_out = (blocks(rows=30, items=8, groups=2, seed=seed) for seed in (0, 1))
    assert "recall@8" in dsstne.fit(X, **FAST, validation=held_out).history[0]


def test_a_network_definition_replaces_the_parameters(X, tmp_path):
    definition = {
        "layers": [
            {"name": "in", "kind": "input", "size": "auto"},
            {"name": "h", "kind": "hidden", "size": 5},
            {"name": "out", "kind": "output", "size": "auto"},
        ],
        "loss": "sigmoid",
    }
    path = tmp_path / "network.json"
    path.write_text(json.dumps(definition))
    first, *others = [
        dsstne.fit(X, network=n, epochs=1, progress=False)
        for n in (definition, json.dumps(definition), path, str(path))
    ]
    assert first.inputs == {"in": 60}
    for other in others:
        np.testing.assert_array_equal(other.tensor("out.weight"), first.tensor("out.weight"))


def test_several_inputs_and_outputs_are_fed_by_name(X):
    definition = {
        "layers": [
            {"name": "bought", "kind": "input", "size": "auto"},
            {"name": "seen", "kind": "input", "size": "auto"},
            {"name": "h", "kind": "hidden", "sources": ["bought", "seen"], "size": 6},
            {"name": "next", "kind": "output", "sources": ["h"], "size": "auto"},
        ]
    }
    model = dsstne.fit({"bought": X, "seen": X[:, :20]}, {"next": X}, network=definition, epochs=2, progress=False)
    assert model.inputs == {"bought": 60, "seen": 20}
    ids, _ = model.recommend({"bought": X, "seen": X[:, :20]}, k=4, exclude=X)
    assert ids.shape == (240, 4)
    with pytest.raises(dsstne.InvalidArgumentError, match="give a mapping"):
        model.recommend(X)
    with pytest.raises(dsstne.NotFoundError, match="did you mean 'seen'"):
        model.recommend({"bought": X, "sen": X})
    with pytest.raises(dsstne.InvalidArgumentError, match="no matrix for layer 'seen'"):
        model.recommend({"bought": X})


def test_callbacks_see_each_epoch_and_can_stop(X):
    seen = []

    def stop_after_three(model, record):
        model.recommend(X[:1], k=1)
        seen.append(record["epoch"])
        return record["epoch"] == 3

    model = dsstne.fit(X, hidden=[4], epochs=10, progress=False, callbacks=[stop_after_three, lambda *_: None])
    assert seen == [1, 2, 3]
    assert len(model.history) == 3


@pytest.mark.parametrize("answer", [True, np.True_])
def test_one_function_is_a_callback_too_and_any_true_stops(X, answer):
    assert len(dsstne.fit(X, **FAST, callbacks=lambda *_: answer).history) == 1


@pytest.mark.parametrize("answer", [None, False, np.False_, 1, "stop", np.ones(3)])
def test_what_is_no_truth_value_does_not_stop(X, answer):
    assert len(dsstne.fit(X, **FAST, callbacks=[lambda *_: answer]).history) == 2


def test_no_callbacks_are_none(X):
    assert len(dsstne.fit(X, **FAST, callbacks=None).history) == 2


def test_a_schedule_changes_the_learning_rate(X):
    model = dsstne.fit(X, **FAST, learning_rate=0.5, optimizer="sgd", schedule={"kind": "linear", "steps": 8})
    assert [record["learning_rate"] for record in model.history] == pytest.approx([0.5 * 5 / 8, 0.5 * 1 / 8])


def test_an_exception_in_a_callback_carries_the_model(X):
    def fail(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough") as caught:
        dsstne.fit(X, **FAST, callbacks=[fail])
    assert len(caught.value.model.history) == 1
    assert caught.value.model.recommend(X, k=1)[0].shape == (240, 1)


def test_max_seconds_ends_inside_an_epoch(X):
    model = dsstne.fit(X, hidden=[64], epochs=10**6, batch_size=16, max_seconds=0.3, progress=False)
    assert 0 < model.history[-1]["seconds"] < 30  # late on a busy machine, but it ends
    assert model.history[-1]["epoch"] == model.history[-1]["step"] / 15


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("temperature", [None, 0.3])
def test_threads_do_not_change_a_bit(X, tied, temperature):
    def train(threads):
        return dsstne.fit(
            X,
            hidden=[24],
            tied=tied,
            temperature=temperature,
            dropout=0.2,
            epochs=3,
            batch_size=64,
            threads=threads,
            progress=False,
        )

    one, two, three = train(1), train(2), train(3)
    for name in one.tensors:
        assert one.tensor(name).tobytes() == two.tensor(name).tobytes() == three.tensor(name).tobytes(), name
    assert one.history[-1]["loss"] == two.history[-1]["loss"] == three.history[-1]["loss"]
    for threads in (1, 2, 3):
        ids, scores = one.recommend(X, threads=threads)
        assert (ids.tobytes(), scores.tobytes()) == tuple(a.tobytes() for a in one.recommend(X, threads=2))


def test_the_seed_changes_the_result_and_repeats_it(X):
    a, b, c = (dsstne.fit(X, **FAST, seed=seed).tensor("output.weight").tobytes() for seed in (1, 1, 2))
    assert a == b
    assert a != c


def test_the_bar_is_quiet_without_a_terminal(X, capfd):
    dsstne.fit(X, hidden=[4], epochs=1, progress=True)
    assert capfd.readouterr() == ("", "")


def test_the_bar_shows_epochs_loss_speed_and_metrics_in_a_terminal():
    code = (
        "import numpy as np, scipy.sparse, dsstne\n"
        "X = scipy.sparse.csr_array((np.random.default_rng(0).random((400, 30)) < 0.3).astype(np.float32))\n"
        "dsstne.fit(X, hidden=[4], epochs=3, batch_size=50, validation=X[::-1])\n"
    )
    with terminal() as (stderr, shown):
        subprocess.run([sys.executable, "-c", code], stderr=stderr, check=True, timeout=60)
    for word in (b"epoch 3/3", b"loss=", b"examples/s", b"ndcg@20="):
        assert word in shown, shown


def test_popularity_scores_are_counts(X):
    model = dsstne.popularity(X)
    counts = X.sum(axis=0)
    np.testing.assert_array_equal(model.predict(X[:2]), np.stack([counts, counts]))
    ids, _ = model.recommend(X[:1], k=60, exclude_seen=False)
    assert ids[0].tolist() == sorted(range(60), key=lambda i: (-counts[i], i))


def test_popularity_of_a_large_matrix_is_counted_in_blocks(X, monkeypatch):
    monkeypatch.setattr("dsstne.dataset._BLOCK", 7)
    assert dsstne.popularity(X).tensor("bias").tolist() == X.sum(axis=0).tolist()


def test_popularity_of_arrow_data_is_refused_with_a_remedy():
    pyarrow = pytest.importorskip("pyarrow")
    lists = pyarrow.array([[0]], type=pyarrow.list_(pyarrow.int32()))
    with (
        dsstne.Dataset(lists, columns=3) as data,
        pytest.raises(dsstne.UnsupportedError, match="needs the SciPy matrix or a saved dataset"),
    ):
        dsstne.popularity(data)
