"""Model.check_gradients: correct gradients agree with differences of the loss, and wrong ones are found."""

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import _gradients

X = scipy.sparse.random_array((100, 40), density=0.15, format="csr", rng=0, dtype=np.float32)

NETWORKS = {
    "default": {},
    "tied": {"tied": True, "hidden": 6},
    "dropout and denoising": {"dropout": 0.3, "denoising": 0.4},
    "two layers": {"hidden": [6, 4], "temperature": None},
    "relu": {"activation": "relu", "loss": "squared", "temperature": None},
    "sigmoid": {"loss": "sigmoid", "temperature": None},
    "scaled marginal": {"loss": "scaled_marginal", "temperature": None},
    "soft-max with a margin": {"loss": {"kind": "softmax", "one_target": 0.05, "one_scale": 2}, "temperature": 0.3},
    "rows with a margin": {"loss": {"kind": "softmax", "one_target": 0.1, "normalize_rows": True}, "temperature": None},
    "linear": {"network": {"layers": [{"name": "in", "kind": "input"}, {"name": "out", "kind": "output"}]}},
    "wide and deep": {
        "network": {
            "layers": [
                {"name": "in", "kind": "input", "scaling": "l2"},
                {"name": "h", "kind": "hidden", "size": 6},
                {"name": "out", "kind": "output", "sources": ["h", "in"]},
            ],
            "loss": "sigmoid",
        }
    },
    "skips and merge layers": {
        "network": {
            "layers": [
                {"name": "in", "kind": "input"},
                {"name": "h", "kind": "hidden", "size": 6},
                {"name": "g", "kind": "hidden", "size": 6, "skips": ["h"], "activation": "silu"},
                {"name": "m", "kind": "merge", "function": "maximum", "sources": ["h", "g"]},
                {"name": "c", "kind": "merge", "function": "cosine", "sources": ["m", "h", "g"]},
                {"name": "d", "kind": "merge", "function": "dot", "sources": ["h", "g", "m"]},
                {"name": "s", "kind": "hidden", "size": 40, "sources": ["d", "c"], "activation": "linear"},
                {"name": "out", "kind": "output", "sources": ["m", "in"], "skips": ["s"]},
            ],
            "loss": "sigmoid",
        }
    },
    "boosted": {"loss": {"kind": "sigmoid", "one_scale": 5, "zero_scale": 0.2}, "temperature": None},
    "boosted values": {"loss": {"kind": "squared", "one_scale": 0.5}, "temperature": None},
    "soft-max units": {
        "network": {
            "layers": [
                {"name": "in", "kind": "input"},
                {"name": "h", "kind": "hidden", "size": 6, "activation": "softmax", "sparsity": {"mean": 0.1}},
                {"name": "g", "kind": "hidden", "size": 6, "skips": ["h"], "activation": "softmax", "layer_norm": True},
                {"name": "out", "kind": "output", "sources": ["h", "g"]},
            ],
            "loss": "sigmoid",
        }
    },
    "shared weights": {
        "network": {
            "layers": [
                {"name": "in", "kind": "input"},
                {"name": "h", "kind": "hidden", "size": 6},
                {"name": "g", "kind": "hidden", "size": 4},
                {"name": "f", "kind": "hidden", "size": 6, "shared": "g.weight"},
                {"name": "z", "kind": "variational", "size": 2},
                {"name": "y", "kind": "variational", "size": 2, "sources": ["f"], "shared": "z.weight"},
                {"name": "e", "kind": "hidden", "sources": ["in"], "size": 6, "shared": "h.weight"},
                {"name": "s", "kind": "hidden", "size": 6},
                {"name": "r", "kind": "hidden", "size": 6, "shared": {"weight": "s.weight", "transposed": True}},
                {
                    "name": "out",
                    "kind": "output",
                    "sources": ["f", "y", "z", "r"],
                    "shared": [{"source": "f", "weight": "h.weight"}],
                },
            ],
            "loss": "sigmoid",
        }
    },
    "tied, stored only": {
        "network": {
            "layers": [
                {"name": "in", "kind": "input"},
                {"name": "h", "kind": "hidden", "size": 6},
                {"name": "out", "kind": "output", "shared": "h.weight", "temperature": 0.5},
            ],
            "loss": {"kind": "squared", "stored_only": True},
        }
    },
    "absolute": {"loss": "absolute", "temperature": None},
    "stored only": {"loss": {"kind": "squared", "stored_only": True}, "temperature": None},
}


def trained(**options):
    hidden = {} if "network" in options else {"hidden": 6}
    return dsstne.fit(X, **{**hidden, "epochs": 2, "progress": False, **options})


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_agree_with_differences(network):
    model = trained(**NETWORKS[network])
    before = {name: model.tensor(name) for name in model.tensors}
    found = model.check_gradients(X, elements=6)
    assert found["agrees"], found
    assert found["disagreeing"] == []
    assert list(found["tensors"]) == list(model.tensors)
    for name, values in before.items():
        np.testing.assert_array_equal(model.tensor(name), values)


def test_most_elements_are_compared_where_the_loss_is_smooth():
    found = trained(loss="sigmoid", temperature=None).check_gradients(X, elements=8)
    assert sum(one["uncertain"] for one in found["tensors"].values()) == 0
    for one in found["tensors"].values():
        assert one["difference"] < 1e-3 * max(1, abs(one["gradient"]))


@pytest.mark.long
@pytest.mark.parametrize("network", ["default", "relu", "two layers"])
@pytest.mark.parametrize("wrong", ["hidden1.weight", "hidden1.bias", "output.weight", "output.bias"])
def test_a_wrong_gradient_is_named(network, wrong, monkeypatch):
    right = _gradients._Steps.gradients

    def gradients(self, names):
        loss, found = right(self, names)
        found[wrong] *= 0.5
        return loss, found

    monkeypatch.setattr(_gradients._Steps, "gradients", gradients)
    found = trained(**NETWORKS[network]).check_gradients(X, elements=6)
    assert not found["agrees"]
    assert found["disagreeing"] == [wrong]
    one = found["tensors"][wrong]
    assert one["gradient"] == pytest.approx(0.5 * one["quotient"], rel=0.3)
    assert f"{one['gradient']:.5g} instead of" in str(found)


def test_tensors_are_chosen_by_their_names_or_those_of_layers():
    model = trained()
    found = model.check_gradients(X, tensors=["output.bias", "hidden1"], elements=2, rows=[3, 1])
    assert list(found["tensors"]) == ["output.bias", "hidden1.weight", "hidden1.bias"]
    assert found["rows"] == 2
    assert all(one["elements"] == 2 for one in found["tensors"].values())
    assert list(model.check_gradients(X, tensors="output.bias", elements=1)["tensors"]) == ["output.bias"]


def test_several_inputs_and_outputs_are_checked():
    tags = scipy.sparse.random_array((100, 9), density=0.3, format="csr", rng=1, dtype=np.float32)
    layers = [
        {"name": "input", "kind": "input"},
        {"name": "tags", "kind": "input"},
        {"name": "hidden", "kind": "hidden", "size": 4, "sources": ["input", "tags"]},
        {"name": "output", "kind": "output", "sources": ["hidden"]},
        {"name": "other", "kind": "output", "sources": ["hidden"]},
    ]
    data = {"input": X, "tags": tags}, {"output": X, "other": tags}
    model = dsstne.fit(*data, network={"layers": layers}, epochs=1, progress=False)
    found = model.check_gradients(*data, elements=2)
    assert found["agrees"], found
    assert len(found["tensors"]) == 7


def test_the_same_seed_gives_the_same_result():
    model = trained(dropout=0.5)
    assert dict(model.check_gradients(X, elements=3, seed=4)) == dict(model.check_gradients(X, elements=3, seed=4))


WRONG = {
    "no tensor or layer 'hiden1'; did you mean 'hidden1": {"tensors": "hiden1"},
    "tensors: expected at least one name": {"tensors": []},
    "rows: expected at least one row": {"rows": []},
    "elements must be at least 1": {"elements": 0},
    "tolerance must be above 0": {"tolerance": 0},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_refused(message):
    with pytest.raises(dsstne.DsstneError, match=message):
        trained(epochs=0).check_gradients(X, **WRONG[message])


def test_a_model_that_is_not_trained_has_no_gradients():
    with pytest.raises(dsstne.InvalidArgumentError, match="'item_weights' is not trained"):
        dsstne.popularity(X).check_gradients(X)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("delta_norm", "the layer 'h' has delta_norm, which changes gradients"),
        ("weight_norm", "the layer 'h' has weight_norm, which changes weights after a step"),
    ],
)
def test_a_network_that_caps_gradients_or_weights_is_refused(key, message):
    layers = [
        {"name": "in", "kind": "input"},
        {"name": "h", "kind": "hidden", "size": 6, key: 1},
        {"name": "out", "kind": "output"},
    ]
    model = trained(network={"layers": layers})
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        model.check_gradients(X)
