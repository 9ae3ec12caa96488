"""Losses of stored items and of others that are drawn at random: loss.negatives."""

import re

import numpy as np
import pytest
import scipy.sparse

import dsstne

LAYERS = [
    {"name": "user", "kind": "input"},
    {"name": "factors", "kind": "hidden", "size": 8, "activation": "linear", "bias": False},
    {"name": "item", "kind": "output"},
]
DEVICES = {"cpu:4": {"devices": "cpu:4"}, "rows": {"devices": "cpu:4", "parallel": "data"}}
LOSSES = {
    "bpr": "bpr",
    "bpr, 3 negatives": {"kind": "bpr", "negatives": 3},
    "softmax": {"kind": "softmax", "negatives": 2},
    "shares of a row": {"kind": "softmax", "negatives": 2, "normalize_rows": True},
    "sigmoid": {"kind": "sigmoid", "negatives": 4},
    "squared": {"kind": "squared", "negatives": 1},
    "hinge": {"kind": "hinge", "negatives": 2},
    "contrastive": {"kind": "cosine_contrastive", "negatives": 3, "zero_scale": 0.5, "margin": 0.2},
}
# Outputs with cosine logits
COSINE = {"contrastive": {"temperature": 1, "bias": False}, "cosines": {"temperature": 0.2}}
LOSSES["cosines"] = {"kind": "softmax", "negatives": 4}


def network(loss, **output):
    return {"layers": [*LAYERS[:2], {**LAYERS[2], **output}], "loss": loss}


@pytest.fixture(scope="module")
def groups():
    """60 users in three groups, each with 40 items of its own, of which a user has a third; some users have nothing."""
    rng = np.random.default_rng(0)
    X = np.zeros((60, 120), np.float32)
    for user in range(55):
        X[user, user % 3 * 40 + rng.permutation(40)[:13]] = 1
    return scipy.sparse.csr_array(X)


def users(X):
    return scipy.sparse.eye_array(X.shape[0], format="csr", dtype=np.float32)


def fitted(X, loss, inputs=None, **options):
    inputs = users(X) if inputs is None else inputs
    options = {"optimizer": "adam", "learning_rate": 0.05, "batch_size": 16, "seed": 3, "devices": "cpu", **options}
    output = next((COSINE[name] for name in COSINE if loss is LOSSES[name]), {})
    return dsstne.fit(
        inputs, X, network=network(loss, **{**output, **options.pop("output", {})}), progress=False, **options
    )


def tensors(model):
    return {name: model.tensor(name) for name in model.tensors}


@pytest.mark.parametrize("loss", LOSSES)
def test_items_of_the_own_group_come_first(groups, loss):
    model = fitted(groups, LOSSES[loss], epochs=40)
    assert model.history[-1]["loss"] < 0.6 * model.history[0]["loss"]
    held_out = scipy.sparse.csr_array(
        np.repeat(np.eye(3, dtype=np.float32), 40, axis=1)[np.arange(60) % 3] * (groups.toarray() == 0)
    )[:55]
    assert dsstne.evaluate(model, users(groups)[:55], held_out, "auc", exclude=groups[:55])["auc"] > 0.85


@pytest.mark.parametrize("output", [{}, {"temperature": 0.3}], ids=["dot products", "cosines"])
@pytest.mark.parametrize("kind", ["softmax", "sigmoid", "squared", "cosine_contrastive"])
def test_with_all_items_as_negatives_the_loss_is_that_of_all_items(groups, kind, output):
    X = groups[:55]  # a row without items has no negatives
    full, drawn = (
        fitted(X, {"kind": kind, **more}, epochs=3, optimizer="sgd", schedule=None, precision="float32", output=output)
        for more in ({}, {"negatives": 120})
    )
    assert drawn.history[-1]["loss"] == pytest.approx(full.history[-1]["loss"], rel=1e-5)
    for name, values in tensors(full).items():
        np.testing.assert_allclose(drawn.tensor(name), values, atol=2e-5)


def test_the_sampled_softmax_is_on_average_that_of_all_items(groups):
    X = groups[:55]  # all of which have items
    still = {"epochs": 1, "optimizer": "sgd", "learning_rate": 1e-12, "schedule": None, "batch_size": 55}
    full = fitted(X, "softmax", **still).history[0]["loss"]
    drawn = [
        fitted(X, {"kind": "softmax", "negatives": 2}, **{**still, "seed": 3 + n}).history[0]["loss"] for n in range(20)
    ]
    same = [fitted(X, "softmax", **{**still, "seed": 3 + n}).history[0]["loss"] for n in range(20)]
    assert np.std(np.subtract(drawn, same)) > 0  # other negatives, other loss
    assert np.mean(drawn) == pytest.approx(np.mean(same), rel=1e-3)
    assert full == same[0]


def test_bpr_begins_at_the_logarithm_of_two_for_each_stored_item(groups):
    X = groups[:55]
    model = fitted(X, "bpr", epochs=1, optimizer="sgd", learning_rate=1e-12, schedule=None, batch_size=55)
    scores = model.predict(users(X))
    assert np.abs(scores).max() < 0.3
    assert model.history[0]["loss"] == pytest.approx(13 * np.log(2), rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_agree_with_differences(groups, loss):
    model = fitted(groups, LOSSES[loss], epochs=2)
    found = model.check_gradients(users(groups), groups, elements=6)
    assert found["agrees"], found


@pytest.mark.parametrize("options", DEVICES.values(), ids=DEVICES.keys())
@pytest.mark.parametrize("loss", ["bpr", "softmax", "sigmoid", "contrastive", "cosines"])
def test_several_devices_draw_the_same_negatives(groups, loss, options):
    one = fitted(groups, LOSSES[loss], epochs=3, optimizer="momentum", learning_rate=0.01)
    several = fitted(groups, LOSSES[loss], epochs=3, optimizer="momentum", learning_rate=0.01, **options)
    for name, values in tensors(one).items():
        np.testing.assert_allclose(several.tensor(name), values, atol=1e-5)


@pytest.mark.parametrize("loss", ["bpr", "softmax", "squared", "cosines"])
def test_the_bits_do_not_depend_on_the_threads(groups, loss):
    want, same = (tensors(fitted(groups, LOSSES[loss], epochs=3, threads=threads)) for threads in (1, 5))
    assert all(want[name].tobytes() == same[name].tobytes() for name in want)


def test_a_run_that_goes_on_draws_what_one_run_would_have_drawn(groups, tmp_path):
    whole = fitted(groups, "bpr", epochs=4)
    path = tmp_path / "run.ckpt"

    def stop(model, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(groups, "bpr", epochs=4, checkpoint=path, callbacks=[stop])
    resumed = fitted(groups, "bpr", epochs=4, checkpoint=path, resume=True)
    assert all(whole.tensor(name).tobytes() == resumed.tensor(name).tobytes() for name in whole.tensors)


def test_other_seeds_draw_others(groups):
    model = dsstne.fit(users(groups), groups, network=network("bpr"), epochs=0, progress=False)
    biases = []
    for seed in (1, 2):
        copy = model.copy()
        with dsstne.Trainer(copy, users(groups), groups, optimizer="sgd", seed=seed, batch_size=60) as trainer:
            trainer.run(steps=1)
        biases.append(copy.tensor("item.bias"))
    assert not np.array_equal(*biases)


def test_a_row_with_all_items_has_no_pairs():
    X = scipy.sparse.csr_array(np.ones((3, 5), np.float32))
    model = fitted(X, "bpr", epochs=2)
    assert [record["loss"] for record in model.history] == [0, 0]
    np.testing.assert_array_equal(model.tensor("item.bias"), 0)


def test_zeros_that_are_stored_count_as_not_stored(groups):
    zeros = groups.copy()
    zeros.data[::4] = 0
    without = zeros.copy()
    without.eliminate_zeros()
    first, second = (tensors(fitted(X, "bpr", epochs=2)) for X in (zeros, without))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_weights_of_rows_count(groups):
    nothing = np.where(np.arange(60) % 3 == 0, 0, 1)
    model = fitted(groups, "bpr", epochs=3, sample_weight=nothing)
    before = dsstne.fit(users(groups), groups, network=network("bpr"), epochs=0, seed=3, progress=False)
    moved = np.abs(model.tensor("factors.weight") - before.tensor("factors.weight")).max(axis=1)
    assert (moved[:55][nothing[:55] == 0] == 0).all()
    assert (moved[:55][nothing[:55] == 1] > 0).all()


def test_bpr_has_no_activation(groups):
    model = fitted(groups, "bpr", epochs=1)
    rows = users(groups)[:5]
    np.testing.assert_array_equal(model.predict(rows, activation=True), model.predict(rows))


@pytest.mark.parametrize("loss", ["bpr", "softmax", "sigmoid", "squared", "contrastive"])
def test_the_held_out_loss_is_the_mean_over_draws(groups, loss):
    X = groups[:55]
    still = {"epochs": 1, "optimizer": "sgd", "learning_rate": 1e-12, "schedule": None, "batch_size": 55}
    model = fitted(X, LOSSES[loss], **still)
    found = dsstne.evaluate(model, users(X), X, "held_out_loss", exclude=None)["held_out_loss"]
    assert found == pytest.approx(model.history[0]["loss"], rel=0.02)


def test_the_plan_names_the_operations_and_counts_the_negatives(groups):
    model = dsstne.fit(users(groups), groups, network=network("bpr"), epochs=0, progress=False)
    with dsstne.Trainer(model, users(groups), groups, optimizer="adam", devices="cpu", batch_size=16) as trainer:
        plan = trainer.plan()
    assert "OutputEntries item <- item.weight[120, 8], pairs, sigmoid at the stored entries" in str(plan)
    # 16 rows of 13 entries and as many negatives, 12 words each
    assert {"name": "batch", "of": "item", "bytes": 4 * (2 * 16 + 12 * 416)}.items() <= next(
        part for part in plan["parts"] if part["of"] == "item" and part["name"] == "batch"
    ).items()


def test_the_definition_keeps_the_keys(groups, tmp_path):
    for loss in ("bpr", {"kind": "softmax", "negatives": 7}):
        model = dsstne.fit(users(groups), groups, network=network(loss), epochs=0, progress=False)
        model.save(tmp_path / "model")
        term = dsstne.load(tmp_path / "model").network["loss"][0]
        wanted = {"kind": "bpr", "negatives": 1} if loss == "bpr" else loss
        assert wanted.items() <= term.items()


REFUSED = {
    "both": (
        network({"kind": "squared", "stored_only": True, "negatives": 2}),
        "loss.stored_only is true, but there are negatives, which count, too; leave it out",
    ),
    "bpr of stored entries": (
        network({"kind": "bpr", "stored_only": True}),
        'loss.stored_only is true, but the loss "bpr" compares stored items with negatives',
    ),
    "bpr without negatives": (
        network({"kind": "bpr", "negatives": 0}),
        'loss.negatives is 0, but the loss "bpr" compares stored items with negatives',
    ),
    "softmax of stored entries": (
        network({"kind": "softmax", "stored_only": True}),
        'loss.stored_only is true, but the loss "softmax" compares the scores of all items; with "negatives" it '
        "compares stored items with some of the others",
    ),
    "negative": (
        network({"kind": "sigmoid", "negatives": -1}),
        "loss.negatives is -1; it must be an integer from 0 to 1048576",
    ),
    "activation": (
        network("bpr", activation="tanh"),
        'layers[2].activation is "tanh", but the loss "bpr" has the activation "linear"; '
        "other activations go with the losses squared, hinge, absolute, l2_hinge",
    ),
    "mistyped": (
        network({"kind": "bpr", "negative": 3}),
        'loss.negative is not a known key; did you mean "negatives"?',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_an_error_that_says_why(groups, case):
    definition, message = REFUSED[case]
    with pytest.raises(dsstne.DsstneError, match=re.escape(message)):
        dsstne.fit(users(groups), groups, network=definition, epochs=0, progress=False)


def test_model_parallel_training_cannot_compare_the_items_of_a_row(groups):
    message = 'the loss of "item" compares the entries of a row; with several devices it goes with parallel="data" only'
    with pytest.raises(dsstne.InvalidArgumentError, match=re.escape(message)):
        fitted(groups, "bpr", epochs=1, devices="cpu:2", parallel="model")
