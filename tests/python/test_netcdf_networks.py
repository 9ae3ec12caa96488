"""Network files of DSSTNE are read and written."""

import json

import netCDF4
import numpy as np
import pytest
import scipy.sparse
from netcdf_files import File, autoencoder, every_kind, f4, u4

import dsstne
from dsstne import _netcdf_file

ROWS = scipy.sparse.random_array((20, 256), density=0.05, format="csr", rng=1, dtype=np.float32)
ROWS.data[:] = 1


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def close(given, wanted):
    np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-5)


# ---- files of DSSTNE ----


def test_an_autoencoder_computes_what_dsstne_did(tmp_path):
    file = autoencoder()
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    hidden = sigmoid(ROWS @ file.matrix(0) + file.bias(0))
    close(model.embed(ROWS, "Hidden"), hidden)
    close(model.predict(ROWS), hidden @ file.matrix(1) + file.bias(1))
    np.testing.assert_array_equal(model.tensor("Hidden.weight"), file.matrix(0))
    np.testing.assert_array_equal(model.tensor("Output.weight"), file.matrix(1).T)


def test_a_width_cuts_the_columns_that_fill_up_the_file(tmp_path):
    file = autoencoder()
    path = file.write(tmp_path / "net.nc")
    model = dsstne.load(path, sizes={"Input": 200, "Output": 190})
    assert (model.inputs, model.outputs) == ({"Input": 200}, {"Output": 190})
    X = ROWS[:, :200]
    hidden = sigmoid(X @ file.matrix(0)[:200] + file.bias(0))
    close(model.predict(X), (hidden @ file.matrix(1) + file.bias(1))[:, :190])


def test_a_file_can_be_trained_on(tmp_path):
    model = dsstne.load(autoencoder().write(tmp_path / "net.nc"))
    with dsstne.Trainer(model, ROWS, learning_rate=0.01) as trainer:
        assert np.isfinite(trainer.run(steps=2).loss)


def test_everything_that_training_needs_is_read(tmp_path):
    file = File(
        name="all",
        errorFunction=u4(3),
        decay=f4(0.01),
        ShuffleIndices=u4(0),
        kind=u4(1),
        SMCE_oneScale=f4(30),
        SMCE_zeroScale=f4(0.5),
        SMCE_oneTarget=f4(1),
        SMCE_zeroTarget=f4(0),
        bSparsenessPenalty=u4(1),
        sparsenessPenalty_p=f4(0.5),
        sparsenessPenalty_beta=f4(2),
        bDenoising=u4(1),
        denoising_p=f4(0.2),
    )
    file.layer("Input", 256, 0, dataSet="gl_input", attributes=u4(3))
    drop = {"pDropout": f4(0.3), "weightNorm": f4(2), "deltaNorm": f4(0.5)}
    file.layer("H1", 8, 1, ["Input"], attributes=u4(1), sparsenessPenalty_p=f4(0.1), **drop)
    file.layer(
        "H2", 8, 1, ["H1"], ["H1"], attributes=u4(1), sparsenessPenalty_beta=f4(3), activation=u4(11), RELUSlope=f4(0.1)
    )
    file.layer("Output", 256, 2, ["H2"], weightInit=u4(2), weightInitScale=f4(0.01), biasInit=f4(-10.2))
    file.weight("Input", "H1", norm=f4(2)).weight("H1", "H2", bLocked=u4(1)).weight("H2", "Output")
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    network = model.network
    layers = {layer["name"]: layer for layer in network["layers"]}
    assert network["name"] == "all"
    assert layers["Input"]["denoising"] == 0.2
    assert layers["H1"]["sparsity"] == {"mean": 0.1, "weight": 2}  # its own mean, which DSSTNE's loader lost
    assert layers["H2"]["sparsity"] == {"mean": 0.5, "weight": 3}
    assert [layers["H1"][key] for key in ("dropout", "weight_norm", "delta_norm")] == [0.3, 2, 0.5]
    assert (layers["H2"]["activation"], layers["H2"]["slope"], layers["H2"]["skips"]) == ("leaky_relu", 0.1, ["H1"])
    assert layers["Output"]["initializer"] == {"kind": "normal", "scale": 0.01, "bias": -10.2}
    loss = {"kind": "scaled_marginal", "one_scale": 30, "zero_scale": 0.5, "one_target": 1, "zero_target": 0}
    assert loss.items() <= network["loss"][0].items()
    assert json.loads(model.attributes["netcdf"]) == {
        "kind": "AutoEncoder",
        "loss": "ScaledMarginalCrossEntropy",
        "shuffle": False,
        "schedule": {"kind": "inverse", "rate": 0.01},
        "datasets": {"Input": "gl_input"},
        "features": {},
        "locked": ["H2.weight", "H2.bias"],
    }
    other = dsstne.netcdf.network(tmp_path / "net.nc")
    assert other.definition == network
    assert other.training == {"shuffle": False, "schedule": {"kind": "inverse", "rate": 0.01}}


def test_the_words_of_a_definition_are_in_the_file_that_is_trained_of_it(tmp_path):
    units = [{"N": 256, "Sparse": True}, {"N": 8}, {"N": 256, "Activation": "Sigmoid"}]
    words = {"Kind": "AutoEncoder", "ErrorFunction": "DataScaledMarginalCrossEntropy"}
    (tmp_path / "config.json").write_text(json.dumps({**words, "Layers": units}))
    model = dsstne.fit(ROWS, network=tmp_path / "config.json", epochs=1, progress=False)
    for _ in range(2):  # what is loaded is saved as it was
        model.save(tmp_path / "net.nc")
        with netCDF4.Dataset(tmp_path / "net.nc") as stored:
            assert (stored.kind, stored.errorFunction) == (1, 4)
        model = dsstne.load(tmp_path / "net.nc")
    assert dsstne.netcdf.network(tmp_path / "net.nc").words == {
        "kind": "AutoEncoder",
        "loss": "DataScaledMarginalCrossEntropy",
    }


def test_the_units_of_four_axes_are_one_layer(tmp_path):
    file = autoencoder()
    file.layers[1] |= {"Nx": u4(2), "Ny": u4(2), "Nz": u4(2), "Nw": u4(1), "dimensions": u4(3)}
    file.layers[2] |= {"Nx": u4(64), "Nw": u4(4)}
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    assert [layer["size"] for layer in model.network["layers"]] == [256, 8, 256]
    np.testing.assert_array_equal(model.tensor("Hidden.weight"), file.matrix(0))


def test_several_sources_have_one_bias(tmp_path):
    file = File().layer("A", 128, 0).layer("B", 128, 0).layer("H", 4, 1, ["A", "B"], activation=u4(1))
    file.layer("Output", 128, 2, ["H"]).weight("A", "H").weight("B", "H").weight("H", "Output")
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    A, B = ROWS[:, :128], ROWS[:, 128:]
    wanted = np.tanh(A @ file.matrix(0) + B @ file.matrix(1) + file.bias(0) + file.bias(1))
    close(model.embed({"A": A, "B": B}, "H"), wanted)


def test_batch_normalisation_is_that_of_the_file(tmp_path):
    file = autoencoder().normalise(1)
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    scale, shift, mean, variance = (
        file.variables[f"layer1_{name}"] for name in ("scaleBN", "biasBN", "runningMeanBN", "runningVarianceBN")
    )
    z = ROWS @ file.matrix(0) + file.bias(0)
    close(model.embed(ROWS, "Hidden"), sigmoid(scale * (z - mean) / np.sqrt(variance + 1e-5) + shift))


@pytest.mark.parametrize("transposed", [False, True])
def test_shared_weights(tmp_path, transposed):
    file = File().layer("A", 256, 0).layer("H", 8, 1, ["A"], activation=u4(3))
    file.layer("G", 8, 1, ["H"], activation=u4(3)).layer("F", 8, 1, ["G"], activation=u4(3)).layer(
        "Output", 256, 2, ["F"]
    )
    file.weight("A", "H").weight("H", "G").share("G", "F", ("H", "G"), transposed).share(
        "F", "Output", ("A", "H"), True
    )
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    W = file.matrix(1).T if transposed else file.matrix(1)
    first = (ROWS @ file.matrix(0) + file.bias(0)) @ file.matrix(1) + file.bias(1)
    wanted = (first @ W + file.bias(2)) @ file.matrix(0).T + file.bias(3)
    np.testing.assert_allclose(model.predict(ROWS), wanted, rtol=1e-4, atol=1e-3)
    assert "Output.weight" not in model.tensors
    model.save(tmp_path / "again.nc")
    with netCDF4.Dataset(tmp_path / "again.nc") as again:
        assert (again.weight2_bShared, again.weight2_bTransposed) == (1, transposed)
        assert (again.weight3_sourceInputLayer, again.weight3_sourceOutputLayer) == ("A", "H")
        assert not any(name in again.variables for name in ("weight2_weights", "weight3_weights"))
    np.testing.assert_array_equal(dsstne.load(tmp_path / "again.nc").predict(ROWS), model.predict(ROWS))


def test_pooling_layers_have_no_weights(tmp_path):
    file = File(errorFunction=u4(1)).layer("A", 128, 0).layer("B", 128, 0)
    file.layer("U", 4, 1, ["A"], activation=u4(1)).layer("V", 4, 1, ["B"], activation=u4(1))
    file.layer("Output", 1, 2, ["U", "V"], type=u4(2), poolingfunction=u4(5), activation=u4(3))
    file.weight("A", "U").weight("B", "V")
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    X = {"A": ROWS[:, :128], "B": ROWS[:, 128:]}
    u, v = np.tanh(X["A"] @ file.matrix(0) + file.bias(0)), np.tanh(X["B"] @ file.matrix(1) + file.bias(1))
    close(model.predict(X), (u * v).sum(1, keepdims=True))
    model.save(tmp_path / "again.nc")
    np.testing.assert_array_equal(dsstne.load(tmp_path / "again.nc").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("number", "function"),
    [
        (0, sigmoid),
        (1, np.tanh),
        (2, lambda z: np.maximum(z, 0)),
        (3, lambda z: z),
        (4, lambda z: z),  # what DSSTNE computes for these
        (5, lambda z: z),
        (6, lambda z: z),
        (7, lambda z: np.exp(z - z.max(1, keepdims=True)) / np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)),
        (8, lambda z: z),
        (9, lambda z: z),
        (10, lambda z: np.where(z > 0, z, 0.5 * np.expm1(z))),
        (11, lambda z: np.where(z > 0, z, 0.2 * z)),
    ],
)
def test_activations_are_those_that_dsstne_computes(tmp_path, number, function):
    file = autoencoder()
    file.layers[1] |= {"activation": u4(number), "ELUAlpha": f4(0.5), "RELUSlope": f4(0.2)}
    model = dsstne.load(file.write(tmp_path / "net.nc"))
    close(model.embed(ROWS, "Hidden"), function(ROWS @ file.matrix(0) + file.bias(0)))


def test_large_weights_pass_in_blocks(tmp_path, monkeypatch):
    file = File().layer("A", 256, 0).layer("H", 7, 1, ["A"]).layer("Output", 384, 2, ["H", "A"])
    file.weight("A", "H").weight("H", "Output").weight("A", "Output")
    path = file.write(tmp_path / "net.nc")
    sizes = {"A": 250, "Output": 301}
    whole = dsstne.load(path, sizes=sizes)
    whole.save(tmp_path / "whole.nc")
    monkeypatch.setattr(_netcdf_file, "BLOCK", 3000)  # bytes, which divide no weight
    parts = dsstne.load(path, sizes=sizes)
    parts.save(tmp_path / "parts.nc")
    for name in whole.tensors:
        np.testing.assert_array_equal(parts.tensor(name), whole.tensor(name), name)
    with netCDF4.Dataset(tmp_path / "whole.nc") as one, netCDF4.Dataset(tmp_path / "parts.nc") as other:
        for name in one.variables:
            np.testing.assert_array_equal(one[name][:], other[name][:], name)
        padded = one["weight0_weights"][:].reshape(256, 7)
        np.testing.assert_array_equal(padded[:250], file.matrix(0)[:250])
        np.testing.assert_array_equal(padded[250:], 0)
        np.testing.assert_array_equal(one["weight1_weights"][:].reshape(7, 384)[:, 301:], 0)
        assert (one.layer0_columns, one.layer2_columns, one.layer2_Nx) == (250, 301, 384)
    again = dsstne.load(tmp_path / "parts.nc")
    for name in whole.tensors:
        np.testing.assert_array_equal(again.tensor(name), whole.tensor(name), name)


# ---- files of dsstne ----


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "loss", "output"),
    [
        ("sigmoid", {"one_scale": 3}, {}),
        ("softmax", {"normalize_rows": True}, {}),
        ("softmax", {"normalize_rows": True, "one_target": 0.05}, {}),
        ("softmax", {"normalize_rows": True, "one_scale": 2}, {}),
        ("scaled_marginal", {"one_target": 1, "zero_target": 0, "one_scale": 30}, {}),
        ("squared", {}, {"activation": "linear"}),
        ("absolute", {"zero_scale": 0.5}, {"activation": "tanh"}),
        ("hinge", {}, {"activation": "linear"}),
        ("l2_hinge", {}, {"activation": "leaky_relu", "slope": 0.1}),
    ],
)
def test_a_saved_network_comes_back(tmp_path, kind, loss, output):
    model = every_kind(kind, loss, **output)
    model.items = [f"item {n}" for n in range(200)]
    path = tmp_path / "net.nc"
    model.save(path)
    again = dsstne.load(path)
    assert again.network == model.network
    assert again.tensors == model.tensors
    for name in model.tensors:
        np.testing.assert_array_equal(again.tensor(name), model.tensor(name), name)
    assert list(again.items) == list(model.items)
    assert (again.history, again.step) == ([], 0)


@pytest.mark.parametrize("names", [["a", "ü", "", *map(str, range(197))], list(range(100, 300))])
def test_names_of_items_keep_their_kind(tmp_path, names):
    model = every_kind("sigmoid", {})
    model.items = names
    model.save(tmp_path / "net.nc")
    assert list(dsstne.load(tmp_path / "net.nc").items) == names
    with netCDF4.Dataset(tmp_path / "net.nc") as file:
        assert list(file["itemNames"][:]) == list(map(str, names))


def test_sizes_cut_the_names(tmp_path):
    model = every_kind("sigmoid", {})
    model.items = list(range(200))
    path = tmp_path / "net.nc"
    model.save(path)
    assert list(dsstne.load(path, sizes={"Out": 150}).items) == list(range(150))
    assert list(dsstne.load(path, sizes={"In": 150}).items) == list(range(200))
    with pytest.raises(dsstne.InvalidArgumentError, match=r"net\.nc: sizes\['Out'\] is 201, but .* names of 200 items"):
        dsstne.load(path, sizes={"Out": 201})
    with netCDF4.Dataset(path, "a") as file:
        file.layer5_columns = 199
        del file.layer5_featuresDigest
    with pytest.raises(dsstne.CorruptFileError, match="itemNames has 200 elements; the layer 'Out' needs 199"):
        dsstne.load(path)


@pytest.mark.parametrize(
    ("locked", "bits"),
    [
        (["h1.weight"], [1, 0, 0]),
        (["h1"], [1, 0, 0]),
        (["h1.bias", "h1.weight"], [1, 0, 0]),
        (["h2", "out.bias"], [0, 1, 1]),
        (["out"], [1, 0, 1]),
    ],
)
def test_locked_weights_are_written_and_come_back(tmp_path, locked, bits):
    layers = [
        {"name": "in", "kind": "input", "size": 4},
        {"name": "h1", "kind": "hidden", "size": 3},
        {"name": "h2", "kind": "hidden", "size": 3},
        {"name": "out", "kind": "output", "size": 4, "shared": {"weight": "h1.weight"}},
    ]
    model = dsstne.Model({"layers": layers, "loss": "sigmoid"})
    model.attributes["netcdf"] = json.dumps({"locked": locked})
    for name in ("net.nc", "again.nc"):
        model.save(tmp_path / name)
        with netCDF4.Dataset(tmp_path / name) as file:
            assert [file.getncattr(f"weight{n}_bLocked") for n in range(3)] == bits
        model = dsstne.load(tmp_path / name)


def test_what_a_model_does_not_hold_is_written_back(tmp_path):
    file = autoencoder(decay=f4(0.25), ShuffleIndices=u4(0), kind=u4(1))
    file.weights[1]["bLocked"] = u4(1)
    dsstne.load(file.write(tmp_path / "net.nc")).save(tmp_path / "again.nc")
    with netCDF4.Dataset(tmp_path / "again.nc") as again:
        assert (again.decay, again.ShuffleIndices, again.kind) == (0.25, 0, 1)
        assert (again.weight0_bLocked, again.weight1_bLocked) == (0, 1)
        assert (again.layer0_dataSet, again.layer2_dataSet) == ("gl_input", "gl_output")


@pytest.mark.parametrize("make", ["fit with a path", "fit", "Model"])
def test_what_a_definition_says_about_training_and_data_is_written(tmp_path, make):
    layers = [
        {"Name": "Input", "N": 5, "DataSet": "gl_input", "Sparse": True},
        {"Name": "Hidden", "N": 3},
        {"Name": "Output", "N": 5, "DataSet": "gl_output"},
    ]
    definition = {"ShuffleIndices": False, "Decay": 0.25, "Layers": layers}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(definition))
    network = dsstne.Network.from_dsstne(definition)
    if make == "Model":
        model = dsstne.Model(network)
    else:
        network = path if make == "fit with a path" else network
        model = dsstne.fit(np.eye(5), network=network, epochs=1, progress=False)
    model.save(tmp_path / "model.dsstne")
    dsstne.load(tmp_path / "model.dsstne").copy().save(tmp_path / "net.nc")
    with netCDF4.Dataset(tmp_path / "net.nc") as file:
        assert (file.decay, file.ShuffleIndices) == (0.25, 0)
        assert (file.layer0_dataSet, file.layer2_dataSet) == ("gl_input", "gl_output")


def test_a_definition_of_dsstne_itself_adds_no_attribute():
    definition = every_kind("sigmoid", {}).network
    assert dsstne.Model(dsstne.Network(definition)).attributes == dsstne.Model(definition).attributes == {}


SOFTMAX, MARGINS = 7, {"SMCE_zeroTarget": f4(0), "SMCE_oneTarget": f4(0.25), "SMCE_oneScale": f4(3)}


@pytest.mark.parametrize(
    ("loss", "activation", "margins"),
    [
        *[(0, 3, {}), (1, 2, {}), (2, 0, {}), (2, SOFTMAX, {}), (5, 3, {}), (6, 3, {})],
        *[(3, 0, {}), (3, SOFTMAX, MARGINS), (3, SOFTMAX, {"SMCE_zeroTarget": f4(0), "SMCE_oneTarget": f4(1)})],
        *[(4, 0, {"SMCE_zeroScale": f4(0.5)}), (4, SOFTMAX, MARGINS)],
    ],
)
def test_a_file_of_dsstne_comes_back_as_it_was(tmp_path, loss, activation, margins):
    file = autoencoder(errorFunction=u4(loss), **margins)
    file.layers[2]["activation"] = u4(activation)
    dsstne.load(file.write(tmp_path / "net.nc")).save(tmp_path / "again.nc")
    with netCDF4.Dataset(tmp_path / "again.nc") as again:
        own = {name: again.getncattr(name) for name in again.ncattrs()}
        assert own.pop("layer0_attributes") == 1
        assert own.pop("layer1_attributes") == 0  # without a penalty it has no effect that the layer is sparse
        wanted = {
            name: value
            for name, value in file.attributes().items()
            if name not in ("layer0_attributes", "layer1_attributes")
        }
        assert own == wanted
        for name, values in file.variables.items():
            np.testing.assert_array_equal(again[name][:], values, name)


def test_the_c_library_reads_and_appends(tmp_path):
    layers = [{"name": "In", "kind": "input", "size": 10}]
    layers += [{"name": f"h{n}", "kind": "hidden", "size": 3} for n in range(10)]
    layers += [{"name": "Out", "kind": "output", "size": 10}]
    model = dsstne.Model({"layers": layers, "loss": "sigmoid"})
    model.save(tmp_path / "net.nc")
    with netCDF4.Dataset(tmp_path / "net.nc", "a") as file:
        names = file.ncattrs()
        assert len(names) > 400
        assert names[:3] == ["version", "name", "kind"]  # in the order of writing
        assert file.layer5_name == "h4"
        file.setncattr("remark", "added later")
        file.createDimension("more", 4)
        file.createVariable("more", "f4", ("more",))[:] = 1
    again = dsstne.load(tmp_path / "net.nc")
    assert again.network == model.network


def test_texts_are_characters(tmp_path):
    h5py = pytest.importorskip("h5py")
    every_kind("sigmoid", {}).save(tmp_path / "net.nc")
    with h5py.File(tmp_path / "net.nc") as file:
        for name in ("name", "layer0_name", "weight0_inputLayer"):
            kind = h5py.h5a.open(file.id, name.encode()).get_type()
            assert isinstance(kind, h5py.h5t.TypeStringID)
            assert not kind.is_variable_str()


@pytest.mark.parametrize(
    ("loss", "items", "bias"), [("sigmoid", 130, -80), ("squared", 130, 0), ("sigmoid", 128, None)]
)
def test_units_that_fill_up_an_output_rank_last_or_are_zero(tmp_path, loss, items, bias):
    layers = [{"name": "In", "kind": "input", "size": items}, {"name": "h", "kind": "hidden", "size": 3}]
    model = dsstne.Model({"layers": [*layers, {"name": "Out", "kind": "output", "size": items}], "loss": loss})
    model.save(tmp_path / "net.nc")
    with netCDF4.Dataset(tmp_path / "net.nc") as file:
        filled = file["weight1_bias"][items:]
        assert set(filled.tolist()) == ({bias} if bias is not None else set())
        assert len(filled) == -items % 128


@pytest.mark.parametrize(("tied", "units"), [(False, (256, 130)), (True, (130, 130))])
def test_an_output_with_skips_is_not_filled_up_nor_what_shares_its_weight(tmp_path, tied, units):
    shared = {"shared": [{"source": "h", "weight": "h.weight"}]} if tied else {}
    layers = [
        {"name": "in", "kind": "input", "size": 130},
        {"name": "h", "kind": "hidden", "size": 3},
        {"name": "wide", "kind": "hidden", "size": 130},
        {"name": "out", "kind": "output", "size": 130, "sources": ["h"], "skips": ["wide"], **shared},
    ]
    model = dsstne.Model({"layers": layers, "loss": "sigmoid"}, seed=1)
    model.save(tmp_path / "net.nc")
    with netCDF4.Dataset(tmp_path / "net.nc") as file:
        assert (file.layer0_Nx, file.layer3_Nx) == units
    again = dsstne.load(tmp_path / "net.nc")
    for name in model.tensors:
        np.testing.assert_array_equal(again.tensor(name), model.tensor(name), name)


def test_an_encoder_has_a_file(tmp_path):
    layers = [{"name": "in", "kind": "input", "size": 5}, {"name": "h", "kind": "hidden", "size": 3}]
    model = dsstne.Model({"layers": layers}, seed=1)
    model.save(tmp_path / "net.nc")
    again = dsstne.load(tmp_path / "net.nc")
    assert again.network == model.network
    np.testing.assert_array_equal(again.embed(np.eye(5), "h"), model.embed(np.eye(5), "h"))
