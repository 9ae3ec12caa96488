"""Networks that DSSTNE's files cannot express, files that are damaged, and packages that are missing.

netcdf_damage.py damages files at random.
"""

import subprocess
import sys

import netCDF4
import numpy as np
import pytest
from netcdf_files import autoencoder, every_kind, f4, u4

import dsstne
from dsstne import _netcdf_saving

# ---- models that DSSTNE cannot have ----

REFUSED = {
    "gelu": (
        [("hidden", {"activation": "gelu"})],
        "sigmoid",
        r"layer 'h1': DSSTNE does not have the activation 'gelu'",
    ),
    "softplus": ([("hidden", {"activation": "softplus"})], "sigmoid", r"layer 'h1': .*activation 'softplus'"),
    "layer norm": ([("hidden", {"layer_norm": True})], "sigmoid", r"layer 'h1': layer_norm is \{'epsilon': 1e-05\}"),
    "no bias": ([("hidden", {"bias": False})], "sigmoid", r"layer 'h1': bias is False"),
    "variational": ([("variational", {})], "sigmoid", r"layer 'h1': DSSTNE does not have layers of kind 'variational'"),
    "epsilon": ([("hidden", {"batch_norm": {"epsilon": 0.1}})], "sigmoid", r"layer 'h1': batch_norm is .*0.1"),
    "scaling": ([("input", {"scaling": "l2"})], "sigmoid", r"layer 'in': scaling is 'l2'.*does not scale rows"),
    "denoising": (
        [("input", {"denoising": 0.5}), ("input2", {"denoising": 0.25})],
        "sigmoid",
        r"layer 'in2': denoising is 0.25, but what DSSTNE's files can say is 0.5",
    ),
    "temperature": ([("output", {"temperature": 0.5})], "sigmoid", r"layer 'out': temperature is 0.5"),
    "no source": ([("output", {"sources": []})], "sigmoid", r"layer 'out': .*layers without a source"),
    "bpr": ([], {"kind": "bpr", "negatives": 2}, r"layer 'out': DSSTNE does not have the loss 'bpr'"),
    "plain soft-max": ([], "softmax", r"layer 'out': the loss: normalize_rows is False.*divides the targets"),
    "soft-max with a margin": ([], {"kind": "softmax", "one_target": 0.5}, r"the loss: normalize_rows is False"),
    "stored only": ([], {"kind": "sigmoid", "stored_only": True}, r"layer 'out': the loss: stored_only is True"),
    "weighted loss": ([("output2", {})], [0.5, 1], r"layer 'out2': the loss: weight is 1, .*|the loss: weight is 0.5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_network_that_dsstne_cannot_have_is_refused_before_anything_is_written(tmp_path, case):
    changes, loss, message = REFUSED[case]
    changed = dict(changes)
    kind = "variational" if "variational" in changed else "hidden"
    layers = [{"name": "in", "kind": "input", "size": 20, **changed.get("input", {})}]
    hidden = {"name": "h1", "kind": kind, "size": 4, "sources": ["in"], **changed.get(kind, {})}
    if "input2" in changed:
        layers.append({"name": "in2", "kind": "input", "size": 20, **changed["input2"]})
        hidden["sources"] = ["in", "in2"]
    layers += [hidden, {"name": "out", "kind": "output", "size": 20, "sources": ["h1"], **changed.get("output", {})}]
    losses = [{"layer": "out", **({"kind": loss} if isinstance(loss, str) else loss if isinstance(loss, dict) else {})}]
    if "output2" in changed:
        layers.append({"name": "out2", "kind": "output", "size": 20, "sources": ["h1"]})
        losses = [
            {"layer": name, "kind": "sigmoid", "weight": w} for name, w in zip(("out", "out2"), loss, strict=True)
        ]
    model = dsstne.Model({"layers": layers, "loss": losses})
    path = tmp_path / "net.nc"
    path.write_bytes(b"before")
    with pytest.raises(dsstne.UnsupportedError, match=message):
        model.save(path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_other_models_are_refused(tmp_path):
    with pytest.raises(dsstne.UnsupportedError, match=r"networks only, and this is a model of kind 'item_weights'"):
        dsstne.popularity(np.eye(3)).save(tmp_path / "net.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ("no JSON", "is not JSON"),
        ('{"kindd": "x"}', "expected an object with keys"),
        ('{"kind": "Recurrent"}', "another type or word"),
        ('{"loss": "L3"}', "another type or word"),
        ('{"loss": 3}', "another type or word"),
        ('{"loss": ["L1"]}', "another type or word"),
        ('{"datasets": {"nobody": "x"}}', "which is not a layer"),
        ('{"datasets": {"In": 3}}', "must be a str"),
        (r'{"datasets": {"In": "\ud800"}}', "the data set of 'In' '.ud800' is not valid Unicode"),
        (r'{"datasets": {"In": "a\u0000"}}', "the data set of 'In' .* contains a NUL character"),
        ('{"locked": [3]}', "a name in locked must be a str, not 3"),
        ('{"locked": ["h1", "h9"]}', r"locked names 'h9', .*; name layers among \['h1', 'h2', 'h3'"),
        ('{"locked": ["h2.scale"]}', "locked names 'h2.scale', which a file of DSSTNE cannot lock"),
        ('{"locked": ["h2.bias"]}', "locked names 'h2.bias', which a file of DSSTNE cannot lock"),
        ('{"locked": ["In"]}', "locked names 'In', which a file of DSSTNE cannot lock"),
        ('{"schedule": {"kind": "cosine", "rate": 1}}', 'schedule is .*cosine.*; DSSTNE has only {"kind": "inverse"'),
        ('{"schedule": {"kind": "inverse", "rate": 1e39}}', "a rate of at least 0 that is finite in float32"),
        ('{"schedule": {"kind": "inverse", "rate": NaN}}', "a rate of at least 0 that is finite in float32"),
        ('{"schedule": {"kind": "inverse", "rate": "fast"}}', "a rate of at least 0 that is finite in float32"),
        ('{"schedule": [1]}', r"schedule is \[1\]; DSSTNE has only"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_damaged_attribute_is_named(tmp_path, kept, message):
    model = every_kind("sigmoid", {})
    model.attributes["netcdf"] = kept
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        model.save(tmp_path / "net.nc")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_where_the_disk_refuses(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_netcdf_saving.Writer, "dimension", full)
    with pytest.raises(dsstne.InputOutputError, match=r"cannot save .*net.nc: No space left on device"):
        every_kind("sigmoid", {}).save(tmp_path / "net.nc")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(dsstne.InputOutputError, match="No such file or directory"):
        every_kind("sigmoid", {}).save(tmp_path / "no-folder" / "net.nc")


# ---- files that are not right ----

BAD = {
    "no layers": ({"layers": None}, {}, "the attribute layers is missing"),
    "no weights": ({"weights": None}, {}, "the attribute weights is missing"),
    "count of layers": ({"layers": u4(4)}, {}, "the attribute layer3_kind is missing"),
    "huge count of layers": ({"layers": u4(2**32 - 1)}, {}, "the attribute layer3_kind is missing"),
    "count is a text": ({"layers": "three"}, {}, "the attribute layers is 'three', which is not a number"),
    "count is a list": (
        {"layers": np.array([1, 2], u4)},
        {},
        r"the attribute layers is array\(.*, which is not a number",
    ),
    "count is not whole": ({"layers": f4(2.5)}, {}, "the attribute layers is 2.5, which is not a whole number"),
    "negative count": ({"layers": np.int32(-3)}, {}, "the attribute layers is -3; it must be from 1"),
    "name is not UTF-8": ({"layer1_name": b"\xff\xfe"}, {}, r"layer1_name is .*xff.*, which is not a text in UTF-8"),
    "name is a number": ({"layer1_name": u4(3)}, {}, "the attribute layer1_name is .*, which is not a text"),
    "same name": ({"layer1_name": "Input"}, {}, "layer1_name is 'Input', the name of another layer"),
    "name with a space": ({"layer1_name": "a b"}, {}, 'layer "a b"|names a layer|there is no weight'),
    "kind": ({"layer1_kind": u4(9)}, {}, r"layer1_kind is 9; it must be one of 0 \(Input\), 1 \(Hidden\)"),
    "target": ({"layer1_kind": u4(3)}, {}, "leads to a layer that does not have this source|Target"),
    "convolution": ({"layer1_type": u4(1)}, {}, "Convolutional|does not have this source"),
    "activation": ({"layer1_activation": u4(13)}, {}, "layer1_activation is 13; it must be one of"),
    "steep leaky": (
        {"layer1_activation": u4(11), "layer1_RELUSlope": f4(2)},
        {},
        "RELUSlope of the layer 'Hidden' is 2.0; above 1",
    ),
    "selu": ({"layer1_activation": u4(12)}, {}, 'layer "Hidden": Activation ScaledExponentialLinear has ELUAlpha 1'),
    "loss": ({"errorFunction": u4(7)}, {}, "errorFunction is 7; it must be one of"),
    "pair": (
        {"layer2_activation": u4(3)},
        {},
        'layer "Output": Activation is Linear; with the ErrorFunction CrossEntropy',
    ),
    "not finite": ({"layer1_pDropout": f4(np.nan)}, {}, "layer1_pDropout is nan, which is not finite"),
    "version": ({"version": f4(0.5)}, {}, "Version: is 0.5|Version is 0.5"),
    "no units": ({"layer1_Nx": u4(0)}, {}, "layer1_Nx is 0; it must be from 1"),
    "too many units": ({"layer0_Nx": u4(2**31)}, {}, 'layer "Input": N is 2147483648'),
    "claims": ({"layer0_Nx": u4(2**31 - 1)}, {}, r"weight0_weights has 2,048 elements; .* needs 17,179,869,176"),
    "columns": ({"layer0_columns": np.uint64(300)}, {}, "layer0_columns is 300; the layer 'Input' has 256 units"),
    "unknown source": ({"layer1_source0": "Nobody"}, {}, "no weight from 'Nobody' to 'Hidden'"),
    "unknown end": ({"weight0_inputLayer": "Nobody"}, {}, "names a layer that the file does not have: 'Nobody'"),
    "weight twice": (
        {"weight1_inputLayer": "Input", "weight1_outputLayer": "Hidden"},
        {},
        "weight 1, from 'Input' to 'Hidden' is there twice; the other is weight 0",
    ),
    "weight of no source": (
        {"weights": u4(3), "weight2_inputLayer": "Input", "weight2_outputLayer": "Output"},
        {},
        "weight 2, from 'Input' to 'Output' leads to a layer that does not have this source",
    ),
    "shared with nobody": (
        {"weight1_bShared": u4(1), "weight1_sourceInputLayer": "x", "weight1_sourceOutputLayer": "y"},
        {},
        'layer "Output": SharedWeights names "x"',
    ),
    "no matrix": ({}, {"weight1_weights": None}, "the variable weight1_weights is missing"),
    "no bias": ({}, {"weight0_bias": None}, "the variable weight0_bias is missing"),
    "short matrix": (
        {},
        {"weight1_weights": np.zeros(100, f4)},
        "weight1_weights has 100 elements; weight 1, .* needs 2,048",
    ),
    "long bias": ({}, {"weight0_bias": np.zeros(9, f4)}, "weight0_bias has 9 elements; weight 0, .*, needs 8"),
    "integers": ({}, {"weight0_bias": np.zeros(8, u4)}, "weight0_bias is of type uint32; it must be of floats"),
    "infinite weight": (
        {},
        {"weight0_weights": np.where(np.arange(2048) == 17, np.inf, 0).astype(f4)},
        "net.nc: Hidden.weight, row 2, column 1: .*Inf is not finite",
    ),
    "batch norm without variables": ({"layer1_attributes": u4(4)}, {}, "the variable layer1_scaleBN is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_its_name_and_the_place(tmp_path, case):
    changed, variables, message = BAD[case]
    file = autoencoder()
    without = [name for name, value in (changed | variables).items() if value is None]
    file.variables |= {name: value for name, value in variables.items() if value is not None}
    path = file.write(tmp_path / "net.nc", {k: v for k, v in changed.items() if v is not None}, without)
    with pytest.raises(dsstne.DsstneError, match=message) as caught:
        dsstne.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"Nobody": 3}, "sizes names 'Nobody'; the layers are 'Input', 'Hidden', 'Output'"),
        ({"Hidden": 3}, "sizes names 'Hidden', a hidden layer"),
        ({"Output": 257}, r"sizes\['Output'\] is 257; the layer has 256 units"),
        ({"Output": 0}, r"sizes\['Output'\] must be at least 1"),
        ([3], "sizes must be a mapping"),
    ],
)
def test_sizes_that_do_not_fit(tmp_path, sizes, message):
    path = autoencoder().write(tmp_path / "net.nc")
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        dsstne.load(path, sizes=sizes)


def test_sizes_are_for_these_files_only(tmp_path, model):
    model.save(tmp_path / "model.dsstne")
    with pytest.raises(dsstne.InvalidArgumentError, match="not a network file of DSSTNE"):
        dsstne.load(tmp_path / "model.dsstne", sizes={"input": 3})
    with pytest.raises(dsstne.MissingFileError):
        dsstne.load(tmp_path / "no.nc", sizes={"input": 3})


def test_truncated_files(tmp_path):
    whole = autoencoder().write(tmp_path / "net.nc").read_bytes()
    cut = tmp_path / "cut.nc"
    for share in range(1, 20):
        cut.write_bytes(whole[: len(whole) * share // 20])
        with pytest.raises(dsstne.CorruptFileError, match=r"cut\.nc"):
            dsstne.load(cut)


def test_classic_files_are_refused_with_the_way_to_convert(tmp_path):
    path = tmp_path / "old.nc"
    for version in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"):
        with netCDF4.Dataset(path, "w", format=version) as file:
            file.setncattr("layers", np.int32(3))
        with pytest.raises(dsstne.UnsupportedError, match=r"nccopy -k nc4 .*old\.nc new\.nc"):
            dsstne.load(path)


@pytest.mark.parametrize("missing", ["h5py", "h5netcdf"])
def test_a_missing_package_is_named_before_anything_else(tmp_path, missing):
    path = autoencoder().write(tmp_path / "net.nc")
    program = f"""
import sys, pathlib
sys.modules[{missing!r}] = None
import dsstne, pytest
with pytest.raises(ImportError, match=r"pip install dsstne\\[netcdf\\]"):
    dsstne.load({str(path)!r})
model = dsstne.Model({{"layers": [dict(name="i", kind="input", size=4), dict(name="o", kind="output", size=4)]}})
with pytest.raises(ImportError, match=r"pip install dsstne\\[netcdf\\]"):
    model.save({str(tmp_path / "other.nc")!r})
assert not pathlib.Path({str(tmp_path / "other.nc")!r}).exists()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_model_files_do_not_need_the_packages(tmp_path, python):
    python(
        "import sys, numpy as np, dsstne\n"
        "model = dsstne.popularity(np.eye(3))\n"
        "model.save(sys.argv[1]); dsstne.load(sys.argv[1])\n"
        "assert not {'h5py', 'h5netcdf'} & set(sys.modules)",
        tmp_path / "model.dsstne",
    )
