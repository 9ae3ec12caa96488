"""Network files of DSSTNE train as they are, or say which key of which layer cannot be used."""

import doctest
import json

import numpy as np
import pytest
import scipy.sparse

import dsstne

X = scipy.sparse.random_array((60, 30), density=0.15, format="csr", rng=0, dtype=np.float32)
X.data[:] = 1

MARGIN = {"ErrorFunction": "ScaledMarginalCrossEntropy"}
GAUSSIAN = {"Scheme": "Gaussian", "Scale": 0.01}
INPUT = {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True}
OUTPUT = {"Name": "Output", "Kind": "Output", "Type": "FullyConnected", "DataSet": "gl_output", "N": "auto"}
ODDS = {"WeightInit": {**GAUSSIAN, "Bias": -10.2}}


def layer(name, units, activation, **more):
    keys = {"Kind": "Hidden", "Type": "FullyConnected", "N": units, "Activation": activation}
    return {"Name": name, **keys, **more}


def file(*layers, **keys):
    return {"Version": 0.7, "Name": "AE", "Kind": "FeedForward", **keys, "Layers": list(layers)}


def sigmoid(**more):
    return {**OUTPUT, "Activation": "Sigmoid", "Sparse": True, **more}


# The shapes that DSSTNE has examples of, in sizes that train in a moment.
SHAPES = {
    "movielens": file(
        INPUT,
        layer("Hidden", 128, "Sigmoid", Source="Input", Sparse=True),
        sigmoid(),
        **MARGIN,
        ShuffleIndices=False,
        Denoising={"p": 0.2},
        SparsenessPenalty={"p": 0.5, "beta": 2.0},
        ScaledMarginalCrossEntropy={"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 1.0, "zeroScale": 1.0},
    ),
    "one layer, weighted ones": file(
        INPUT,
        layer("Hidden", 256, "Sigmoid", Source="Input", Sparse=True),
        sigmoid(Source="Hidden"),
        **MARGIN,
        Denoising={"p": 0.4},
        SparsenessPenalty={"p": 0.5, "beta": 2.0},
        ScaledMarginalCrossEntropy={"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 30.0, "zeroScale": 1.0},
    ),
    "benchmark": file(
        INPUT,
        *(layer(f"Hidden{n}", 64, "Sigmoid", pDropout=0.5, WeightInit=GAUSSIAN) for n in (1, 2, 3)),
        sigmoid(**ODDS),
        **MARGIN,
        ShuffleIndices=False,
        ScaledMarginalCrossEntropy={"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 1.0, "zeroScale": 1.0},
    ),
    "three layers of ReLU": file(
        INPUT,
        *(layer(f"Hidden{n}", 96, "Relu", pDropout=0.37, WeightInit=GAUSSIAN) for n in (1, 2, 3)),
        sigmoid(**ODDS),
        **MARGIN,
    ),
    "names and kinds by place": {"Layers": [{"N": 30, "Sparse": True}, {"N": 16}, {"N": 8}, {"N": 30}]},
    "soft-max": file(INPUT, layer("Hidden", 32, "Tanh"), {**OUTPUT, "Activation": "SoftMax"}),
    "squared": file(INPUT, layer("Hidden", 32, "Linear"), {**OUTPUT, "Activation": "Linear"}, ErrorFunction="L2"),
    "values": file(
        INPUT, layer("Hidden", 32, "LRELU", Slope=0.2), {**OUTPUT, "Activation": "SoftSign"}, ErrorFunction="L1"
    ),
    "values of a sigmoid": file(INPUT, layer("Hidden", 32, "SoftPlus"), sigmoid(), ErrorFunction="L2Hinge"),
    "hinge": file(INPUT, layer("Hidden", 32, "ELU"), {**OUTPUT, "Activation": "Linear"}, ErrorFunction="Hinge"),
    "data scaled": file(
        INPUT, layer("Hidden", 32, "SELU"), sigmoid(), ErrorFunction="DataScaledMarginalCrossEntropy", Decay=0.01
    ),
    "two sources": file(
        INPUT, layer("A", 16, "Relu"), layer("B", 8, "Tanh", Source="Input"), sigmoid(Source=["A", "B"]), **MARGIN
    ),
    "embeddings compared": file(
        INPUT,
        layer("A", 16, "Tanh"),
        layer("B", 16, "Tanh", Source="Input"),
        layer("C", 1, "Linear", Type="Pooling", Function="Cosine", Source=["A", "B"]),
        sigmoid(),
    ),
    "linear": file(INPUT, sigmoid()),
    "skips": file(INPUT, layer("A", 16, "Relu"), layer("B", 16, "Relu", Skip="A"), sigmoid(), DeltaBoost={"one": 2}),
    "capped weights": file(INPUT, layer("A", 16, "Relu", WeightNorm=1.0), sigmoid(WeightNorm=0.5)),
    "soft-max units": file(INPUT, layer("A", 16, "SoftMax", DeltaNorm=1.0), sigmoid()),
    "tied": file(
        INPUT,
        layer("Hidden", 32, "Tanh"),
        sigmoid(
            SharedWeights={
                "InputLayer": "Hidden",
                "SourceInputLayer": "Input",
                "SourceOutputLayer": "Hidden",
                "Transposed": True,
            }
        ),
    ),
}

# Shapes of which the engine lacks something, and what it says.
LACKING = {
    "images": (
        file(
            {"Name": "Input", "Kind": "Input", "N": [32, 32, 3], "DataSet": "input"},
            layer("C1", [32], "Relu", Type="Convolutional", Kernel=[5, 5]),
            {**OUTPUT, "N": 10, "Activation": "SoftMax"},
        ),
        'layer "C1": Type is Convolutional; convolution is not supported',
    ),
    "kernels": (
        file(INPUT, layer("Hidden", 16, "Relu", KernelStride=[1]), sigmoid()),
        'layer "Hidden": KernelStride is of convolution and pooling layers, which are not supported; remove it',
    ),
}


OURS = {
    "layers": [
        {"name": "in", "kind": "input"},
        {"name": "h", "kind": "hidden", "size": 4},
        {"name": "out", "kind": "output"},
    ]
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_trains_and_predicts(name):
    model = dsstne.fit(X, network=SHAPES[name], optimizer="sgd", learning_rate=0.025, epochs=2, progress=False)
    assert [record["epoch"] for record in model.history] == [1, 2]
    assert np.isfinite(model.history[-1]["loss"])
    ids, scores = model.recommend(X, k=5)
    assert ids.shape == (60, 5)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", LACKING)
def test_a_shape_that_the_engine_lacks_is_an_error(name):
    shape, message = LACKING[name]
    with pytest.raises(dsstne.InvalidArgumentError) as caught:
        dsstne.fit(X, network=shape, epochs=1)
    assert str(caught.value) == "DSSTNE network: " + message
    assert caught.value.model is None


def test_a_file_a_text_a_mapping_and_a_network_are_the_same(tmp_path):
    shape = SHAPES["benchmark"]
    (tmp_path / "config.json").write_text(json.dumps(shape))
    sources = [tmp_path / "config.json", str(tmp_path / "config.json"), json.dumps(shape), shape]
    sources += [dsstne.Network.from_dsstne(source) for source in sources]
    models = [dsstne.fit(X, network=source, epochs=1, progress=False) for source in sources]
    for model in models[1:]:
        np.testing.assert_array_equal(model.tensor("Output.weight"), models[0].tensor("Output.weight"))


def test_the_definition_is_one_of_ours():
    network = dsstne.Network.from_dsstne(SHAPES["benchmark"])
    again = dsstne.Model(network.definition, sizes={"*input": 30, "*output": 30})
    assert again.network["layers"][1]["dropout"] == 0.5
    assert network.definition["layers"][4]["initializer"] == {"kind": "normal", "scale": 0.01, "bias": -10.2}


def trained(network, **keys):
    model = dsstne.Model(network, sizes={"*input": 30, "*output": 30})
    with dsstne.Trainer(model, X, batch_size=16, **keys) as trainer:
        trainer.run(epochs=2)
    return model.tensor("Output.weight")


def test_fit_trains_as_the_file_says():
    shape = file(INPUT, layer("Hidden", 16, "Tanh"), sigmoid(), ShuffleIndices=False, Decay=0.5)
    network = dsstne.Network.from_dsstne(shape)
    assert network.training == {"shuffle": False, "schedule": {"kind": "inverse", "rate": 0.5}}
    model = dsstne.fit(X, network=shape, batch_size=16, epochs=2, precision="float32", progress=False)
    np.testing.assert_array_equal(model.tensor("Output.weight"), trained(shape, **network.training))
    assert not np.array_equal(trained(shape), trained(shape, shuffle=False))
    assert model.history[0]["learning_rate"] == pytest.approx(1e-3 / (1 + 0.5 * 3))  # that of the fourth step


def test_an_argument_of_fit_comes_before_the_file():
    shape = file(INPUT, layer("Hidden", 16, "Tanh"), sigmoid(), Decay=0.5)
    for given in (None, "constant"):
        model = dsstne.fit(X, network=shape, schedule=given, epochs=2, progress=False)
        assert model.history[-1]["learning_rate"] == 1e-3


def sigma(z):
    return 1 / (1 + np.exp(-z))


def test_the_call_of_the_page_is_the_training_of_dsstne():
    """DSSTNE's rule of the scaled marginal cross-entropy, with its SGD and weight decay, in NumPy."""
    margins = {"oneScale": 3.0, "zeroScale": 2.0, "oneTarget": 0.6, "zeroTarget": 0.4}
    wide = {"Scheme": "Uniform", "Scale": 0.5}
    shape = file(
        INPUT,
        layer("Hidden", 8, "Sigmoid", WeightInit=wide),
        sigmoid(WeightInit={**wide, "Bias": -0.5}),
        **MARGIN,
        ScaledMarginalCrossEntropy=margins,
        ShuffleIndices=False,
        Decay=0.1,
    )
    call = {"optimizer": "sgd", "learning_rate": 0.25, "weight_decay": 0.01, "batch_size": 16, "seed": 3}
    model = dsstne.fit(X, network=shape, epochs=2, progress=False, devices="cpu", precision="float32", **call)

    first = dsstne.Model(shape, sizes={"*input": 30, "*output": 30}, seed=3)
    names = ("Hidden.weight", "Hidden.bias", "Output.weight", "Output.bias")
    V, b, W, c = (first.tensor(name).astype(float) for name in names)
    rows = X.toarray().astype(float)
    outside = 0
    for step, start in enumerate([0, 16, 32, 48] * 2):
        x = rows[start : start + 16]
        h = sigma(x @ V + b)
        a = sigma(h @ W.T + c)
        one, zero = (x == 1) & (a < margins["oneTarget"]), (x == 0) & (a > margins["zeroTarget"])
        outside += (~one & ~zero).sum()
        delta = np.where(one, margins["oneScale"] * (a - 1), np.where(zero, margins["zeroScale"] * a, 0))
        below = delta @ W * h * (1 - h)
        rate = 0.25 / (1 + 0.1 * step)
        W, c = W - rate * (delta.T @ h / len(x) + 0.01 * W), c - rate * delta.mean(0)
        V, b = V - rate * (x.T @ below / len(x) + 0.01 * V), b - rate * below.mean(0)
    assert outside > 100  # items that were good enough
    for name, expected in zip(names, (V, b, W, c), strict=True):
        np.testing.assert_allclose(model.tensor(name), expected, rtol=1e-4, atol=1e-6, err_msg=name)  # sums in float32


def test_partial_fit_trains_as_the_file_says():
    shape = file(INPUT, layer("Hidden", 16, "Tanh"), sigmoid(), ShuffleIndices=False, Decay=0.5)
    recommender = dsstne.Recommender("network", network=shape, batch_size=16)
    recommender.partial_fit(X)
    assert recommender.model_.history[0]["learning_rate"] == pytest.approx(1e-3 / (1 + 0.5 * 3))
    assert recommender._training._earlier._options["shuffle"] is False
    constant = dsstne.Recommender("network", network=shape, batch_size=16).set_params(schedule=None)
    assert constant.partial_fit(X).model_.history[0]["learning_rate"] == 1e-3


def test_data_are_found_by_the_names_of_data_sets_too():
    shape = file(
        INPUT,
        {"Name": "More", "Kind": "Input", "N": "auto", "DataSet": "gl_more"},
        layer("Hidden", 8, "Tanh", Source=["Input", "More"]),
        sigmoid(),
    )
    sets = dsstne.fit({"gl_input": X, "gl_more": X}, {"gl_output": X}, network=shape, epochs=1, progress=False)
    layers = dsstne.fit({"Input": X, "More": X}, {"Output": X}, network=shape, epochs=1, progress=False)
    np.testing.assert_array_equal(sets.tensor("Output.weight"), layers.tensor("Output.weight"))
    with pytest.raises(dsstne.NotFoundError, match="gl_mroe"):
        dsstne.fit({"gl_input": X, "gl_mroe": X}, {"gl_output": X}, network=shape, epochs=1)


def test_one_data_set_may_feed_several_layers():
    shape = file(INPUT, {**INPUT, "Name": "Again"}, layer("Hidden", 8, "Tanh", Source=["Input", "Again"]), sigmoid())
    assert dsstne.fit({"gl_input": X}, X, network=shape, epochs=1, progress=False).step == 1


def test_a_size_that_is_not_that_of_the_data_is_an_error():
    shape = file({**INPUT, "N": 128}, layer("Hidden", 8, "Tanh"), sigmoid())
    with pytest.raises(dsstne.InvalidArgumentError, match='"Input" has size 128 .* but 30 in the data'):
        dsstne.fit(X, network=shape, epochs=1)


def test_a_mixture_of_dialects_is_an_error():
    with pytest.raises(dsstne.InvalidArgumentError, match=r'"layers\[0\].N" is a key of DSSTNE\'s .* "loss" is one'):
        dsstne.Model({"layers": [{"name": "a", "N": 5}], "loss": "softmax"})


def test_a_definition_of_ours_is_not_one_of_dsstne():
    ours = {"layers": [{"name": "in", "kind": "input", "size": 3}]}
    with pytest.raises(dsstne.InvalidArgumentError, match='^DSSTNE network: layer "in": '):
        dsstne.Network.from_dsstne(ours)


def test_a_file_that_is_missing_is_told(tmp_path):
    with pytest.raises(dsstne.MissingFileError, match=r"config\.json"):
        dsstne.fit(X, network=tmp_path / "config.json")


def test_a_network_prints_as_a_table():
    network = dsstne.Network.from_dsstne(file(INPUT, layer("Hidden", 8, "Tanh"), sigmoid(), Decay=0.5))
    assert repr(network) == "Network(Input auto - Hidden 8 - Output auto)"
    assert [line.split() for line in str(network).splitlines()[2:6]] == [
        ["layer", "kind", "size", "from", "data"],
        ["Input", "input", "auto", "gl_input"],
        ["Hidden", "hidden", "8", "Input"],
        ["Output", "output", "auto", "Hidden", "gl_output"],
    ]
    assert "<td" in network._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("config.json",), "definition must be a mapping"),
        (({},), "network definition: layers is missing"),
        ((SHAPES["soft-max"],), "network definition: Version is not a known key"),
        ((OURS, None), "training must be a mapping"),
        ((OURS, {"epochs": 3}), "training: 'epochs' is not one of 'shuffle', 'schedule'"),
        ((OURS, {}, {"inn": "gl_input"}), "datasets: the network has no layer 'inn'"),
        ((OURS, {}, {"in": 3}), "in"),
        ((OURS, {}, {}, {"word": "AutoEncoder"}), "words: 'word' is not one of 'kind', 'loss'"),
    ],
)
def test_a_network_of_wrong_parts_is_refused(arguments, message):
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        dsstne.Network(*arguments)


def test_a_network_of_ours_has_all_defaults():
    assert dsstne.Network(OURS).definition["layers"][1]["activation"] == "tanh"
    assert dsstne.Network(OURS).training == dsstne.Network(OURS).datasets == dsstne.Network(OURS).words == {}


def test_the_examples_of_the_docstrings_run():
    import dsstne.network

    assert doctest.testmod(dsstne.network).failed == 0
