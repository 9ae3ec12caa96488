"""The guide for users of DSSTNE, docs/dsstne*.md, has every name of DSSTNE, and its commands print what it shows."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import dsstne_names as names
import dsstne_programs as programs
import numpy as np
import pytest

import dsstne
from dsstne import _netcdf_file, cli
from dsstne._commands import flags

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("docs/dsstne*.md"))
GO_KEYS = (ROOT / "engine" / "dsstnejson" / "keys.go").read_text(encoding="utf-8")
sys.path.insert(0, str(ROOT / "tests" / "python"))

import netcdf_files  # noqa: E402
from test_netcdf_data import INDEXED, WEIGHTED, dense_set, sparse_set, write  # noqa: E402


def cells():
    """Yields the first cell of each row of the guide's tables: the heading above, the title of the column, the cell."""
    for page in PAGES:
        heading, title = "", None
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                heading = line.lstrip("# ").replace("`", "")
            if not line.startswith("| "):
                title = title if line.startswith("|---") else None
            elif title is None:
                title = line.split("|")[1].strip()
            else:
                yield heading, title, line.split("|")[1].strip()


CELLS = list(cells())


def named(title, heading=None):
    """The names in the first column of tables, each with how often it is there."""
    found = [text for where, column, text in CELLS if column == title and heading in (None, where)]
    return [name for text in found for name in expanded(re.findall(r"`([^`]+)`", text))]


def expanded(listed):
    """Makes two names of `Get/SetBatch`."""
    for name in listed:
        yield from ("Get" + name[7:], "Set" + name[7:]) if name.startswith("Get/Set") else (name,)


TABLES = {
    "key, Keys of the file": names.NETWORK_KEYS,
    "key, Keys of a layer": names.LAYER_KEYS,
    "key, Keys of objects": names.NESTED_KEYS,
    "key, Keys that DSSTNE refuses, too": names.REFUSED_KEYS,
    "CDL key": names.CDL_KEYS,
    "field": names.DATA_FIELDS,
    "attribute of the network": names.NETWORK_ATTRIBUTES,
    "attribute of a layer": names.LAYER_ATTRIBUTES,
    "attribute of a weight": names.WEIGHT_ATTRIBUTES,
    "function": programs.FUNCTIONS | programs.JAVA_NAMES,
}
GROUPS = [*TABLES.values(), *names.FLAGS.values(), programs.UNFINISHED, programs.DEFECTS]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_names_of_the_list_and_no_others(table):
    title, _, heading = table.partition(", ")
    found = [name for name in named(title, heading or None) if name not in names.OWN_FIELDS]
    assert sorted(found) == sorted(expanded(TABLES[table]))


def test_defects_and_unfinished_parts_are_those_of_the_list():
    for title, group in (("defect", programs.DEFECTS), ("combination", programs.UNFINISHED)):
        assert [text.split(":")[0] for _, column, text in CELLS if column == title] == list(group)


def test_every_test_that_is_named_exists():
    for group in GROUPS:
        for name, entry in group.items():
            if isinstance(entry, names.Absent):
                assert entry.reason, name
                continue
            path, _, function = entry.test.partition("::")
            form = r"^func {}\(" if path.endswith(".go") else r"^def {}\("
            text = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(form.format(re.escape(function)), text, re.MULTILINE), f"{name}: {entry.test}"


# ---- what reads them ----


def go_strings(begin, end):
    """The strings, and the constants that stand for strings, in a part of keys.go."""
    part = GO_KEYS.partition(begin)[2].partition(end)[0]
    constants = dict(re.findall(r'^\t(\w+) += "(\w+)"$', GO_KEYS, re.MULTILINE))
    return [text or constants.get(word) for text, word in re.findall(r'"(\w+)"|\b(\w+Key)\b', part)]


def test_the_reader_of_network_files_knows_the_keys_of_the_list():
    assert sorted(go_strings("var topKeys = []string{", "\n}")) == sorted(names.NETWORK_KEYS)
    assert sorted(go_strings("var layerKeys", "\n}\n")) == sorted(names.LAYER_KEYS)


LAYERS = [{"Name": "In", "N": 8}, {"Name": "Units", "N": 4}, {"Name": "Out", "N": 8}]


def fault(key, value, of_layer):
    """What is said about a file with a key, or "" if it is right."""
    layers = [LAYERS[0], LAYERS[1] | {key: value}, LAYERS[2]] if of_layer else LAYERS
    try:
        dsstne.Network.from_dsstne({"Layers": layers, **({} if of_layer else {key: value})})
    except dsstne.InvalidArgumentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", names.NESTED_KEYS)
def test_the_reader_knows_the_key_of_an_object(name):
    key, _, inner = name.partition(".")
    for of_layer in (True, False):
        if key in (names.LAYER_KEYS if of_layer else names.NETWORK_KEYS):
            assert f"{key}.{inner} is not a known key" not in fault(key, {inner: 1}, of_layer)
            # The error about an unknown key shows that the reader has looked into the object.
            assert "unknown is not a known key" in fault(key, {"unknown": 1}, of_layer) or key == "SharedWeights"


@pytest.mark.parametrize("name", names.REFUSED_KEYS)
def test_the_reader_refuses_a_key_that_dsstne_refuses(name):
    assert all(f"{name} is not a known key" in fault(name, 1, of_layer) for of_layer in (True, False))


class KnownError(Exception):
    """Ends a command when it has all its flags."""


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_a_command_has_the_flags_of_the_list_and_of_the_tables(command, monkeypatch):
    found = set()

    def parse(self, arguments):
        found.update(self._flags)
        raise KnownError

    monkeypatch.setattr(flags.Parser, "parse", parse)
    module = importlib.import_module("dsstne._commands." + cli._COMMANDS[command][0])
    with pytest.raises(KnownError):
        module.parse([])
    found -= {"-h", "--help"}
    tables = set(named("flag", command))
    assert set(names.FLAGS.get(command, ())) - tables == set()
    assert tables - found == set()
    assert found - tables - set(named("flag", "Commands of DSSTNE")) == set()


def test_the_command_encoder_has_the_keys_of_cdl_files():
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("python/dsstne/_commands/*.py"))
    for name in names.CDL_KEYS:
        assert f'"{name.rpartition(".")[2]}"' in text, name


@pytest.fixture
def looked_up(monkeypatch):
    """The names of the attributes, dimensions and variables that are looked up in files."""
    found = set()

    def watch(of, method):
        call = getattr(of, method)

        def watched(self, name, *others):
            found.add(name)
            return call(self, name, *others)

        monkeypatch.setattr(of, method, watched)

    for of, method in ((_netcdf_file.Attributes, "_value"), (_netcdf_file.Reader, "_own")):
        watch(of, method)
    watch(_netcdf_file.Attributes, "__contains__")
    return found


DIMENSIONS = {"bnDim", "weightDim", "biasDim"}  # which the sizes of variables say, too


def without_numbers(found):
    """The names of a file: of the network, of layers and of weights."""
    parts = {"": set(), "layer": set(), "weight": set()}
    for name in found - {"datasets"}:  # which a network does not have
        prefix, own = re.fullmatch(r"(?:(layer|weight)\d+_)?(.*)", name).groups()
        if (f"{prefix}<n>_{own}" if prefix else own) not in names.OWN_FIELDS:
            parts[prefix or ""].add(re.sub(r"^(source|skip)\d+$", r"\1<j>", own))
    return parts["layer"], parts["weight"], parts[""]


def test_networks_are_read_by_the_attributes_of_the_list(tmp_path, looked_up):
    file = netcdf_files.File(bDenoising=np.uint32(1), bSparsenessPenalty=np.uint32(1), errorFunction=np.uint32(3))
    file.layer("Input", 128, 0, dataSet="gl_input", attributes=np.uint32(3))
    file.layer("A", 8, 1, ["Input"], pDropout=np.float32(0.1), activation=np.uint32(11), RELUSlope=np.float32(0.5))
    file.layer("B", 8, 1, ["A"], ["A"], activation=np.uint32(12), ELUAlpha=np.float32(1.6732632))
    file.layer("M", 8, 1, ["A", "B"], type=np.uint32(2), poolingfunction=np.uint32(4)).layer("Output", 128, 2, ["M"])
    file.normalise(2).weight("Input", "A").weight("A", "B").share("M", "Output", ("Input", "A"), transposed=True)
    dsstne.load(file.write(tmp_path / "net.nc")).close()
    groups = names.LAYER_ATTRIBUTES, names.WEIGHT_ATTRIBUTES, names.NETWORK_ATTRIBUTES
    for found, group in zip(without_numbers(looked_up), groups, strict=True):
        read = {name for name, entry in group.items() if not isinstance(entry, names.Absent)}
        assert found == read - DIMENSIONS


def test_files_of_networks_have_the_attributes_of_the_list(tmp_path):
    import netCDF4

    netcdf_files.every_kind("softmax", {"normalize_rows": True}).save(tmp_path / "net.nc")
    with netCDF4.Dataset(tmp_path / "net.nc") as file:
        written = {*file.ncattrs(), *file.variables, *file.dimensions}
    written |= {"weight0_" + name for name in ("bTransposed", "sourceInputLayer", "sourceOutputLayer")}  # if shared
    groups = names.LAYER_ATTRIBUTES, names.WEIGHT_ATTRIBUTES, names.NETWORK_ATTRIBUTES
    for found, group in zip(without_numbers(written), groups, strict=True):
        assert found == set(group)


def test_data_sets_are_read_by_the_fields_of_the_list(tmp_path, looked_up):
    of_dense, *dense = dense_set(WEIGHTED)
    of_dense |= {"name": "dense", "dimensions": np.uint32(3), "width": np.uint32(2), "height": np.uint32(2)}
    write(tmp_path / "sets.nc", sparse_set(INDEXED), (of_dense | {"length": np.uint32(2)}, *dense))
    for name in ("gl", "dense"):
        dsstne.netcdf.read(tmp_path / "sets.nc", name)
    found = {re.sub(r"\d+$", "<n>", name) for name in looked_up}
    assert found - names.OWN_FIELDS == set(names.DATA_FIELDS)


# ---- questions ----


def commands():
    """The commands of the guide, each with what it prints."""
    text = (ROOT / "docs" / "dsstne.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield part.partition("\n")[::2]


def text_and_numbers(printed):
    """What is printed without its numbers with a point, and these."""
    number = r"\d+\.\d+"
    return re.sub(number, "", printed), [float(found) for found in re.findall(number, printed)]


@pytest.mark.long
def test_commands_print_what_the_guide_shows(tmp_path):
    pytest.importorskip("h5netcdf")
    text = (ROOT / "docs" / "dsstne.md").read_text(encoding="utf-8")
    for name, kind in (("T", "text"), ("config.json", "json")):
        (tmp_path / name).write_text(re.search(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": ""}
    listed = list(commands())
    assert len(listed) > 10
    [cpu] = (device for device in dsstne.doctor().engine["devices"] if device["name"] == "cpu")
    for command, printed in listed:
        joined = f"{{ {command}\n}} 2>&1 | cat"
        bash = {"cwd": tmp_path, "env": environment, "timeout": 300}
        done = subprocess.run(["bash", "-c", joined], capture_output=True, text=True, **bash)
        (text, numbers), (wanted, shown) = text_and_numbers(done.stdout), text_and_numbers(printed)
        assert text == wanted, command
        tolerance = 0.01 if cpu.get("fast_bfloat16") else 0  # the commands train in bfloat16 there
        assert numbers == pytest.approx(shown, rel=tolerance, abs=0), command
    assert not (tmp_path / "bad.nc").exists()
