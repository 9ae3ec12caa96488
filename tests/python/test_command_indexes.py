"""Samples and features of the files of commands: the same, of an index that has grown, unknown, or others."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne import _items
from dsstne._commands import indexes, sources
from dsstne.cli import main

ITEMS, ROWS = ["a", "b", "c", "d"], ["s0", "s1", "s2"]
X = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1]], np.float32)
CONFIG = {
    "Layers": [
        {"Name": "Input", "N": "auto", "DataSet": "in"},
        {"Name": "Hidden", "N": 3},
        {"Name": "Output", "N": "auto", "DataSet": "out"},
    ]
}
TRAIN = ["train", "-c", "config.json", "-e", "2"]
PREDICT = ["predict", "-s", "recs", "-k", "2"]

DOCUMENTED = {}
PAGE = Path(__file__).parents[2] / "docs" / "dsstne-commands.md"
exec(re.search(r"```python\n(import hashlib.*?)```", PAGE.read_text(), re.DOTALL)[1], DOCUMENTED)
digest = DOCUMENTED["digest"]  # of labels


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for name in ("in", "out"):
        dsstne.netcdf.write(f"{name}.nc", {name: X}, items={name: ITEMS}, rows=ROWS)
    (tmp_path / "T").write_text("s0\ta:d\ns1\tb:c\ns2\ta:d\n")
    dsstne.write_index("features", ITEMS)
    dsstne.write_index("samples", ROWS)
    return tmp_path


def without_names(path, digests=True):
    with h5py.File(path, "r+") as file:
        for name in list(file):
            if name.startswith(("indTo", "itemNames")):
                del file[name]
        for name in list(file.attrs):
            if not digests and "Digest" in name:
                del file.attrs[name]
    return path


def weights(path):
    with dsstne.load(path) as model:
        return {name: model.tensor(name) for name in model.tensors}


def same(left, right):
    return all(np.array_equal(left[name], right[name]) for name in left)


# ---- digests ----


@pytest.mark.parametrize(
    "labels",
    [[], [""], ["a"], ["a", "bc"], ["ab", "c"], ["tea", "Käse", "", "豆腐", "🍵"], ["x" * 1000] * 3, ["\0", "é"]],
)
def test_a_digest_is_that_of_the_documentation(labels):
    assert _items.digest_of(labels) == _items.digest_of(np.array(labels, object)) == digest(labels)
    assert _items.digest_of_encoded(*_items.encode_names(labels)[:2]) == digest(labels)
    assert _items.is_digest(digest(labels))
    assert _items.number_of(digest(labels)) == len(labels)


def test_integers_have_the_digest_of_their_text():
    assert _items.digest_of([7, -3]) == digest(["7", "-3"])


def test_the_record_of_a_dataset_file_has_the_same_sha_256(folder):
    with dsstne.Dataset(X) as data:
        data.save("x.arrow", items=ITEMS, rows=ROWS)
    whole = (folder / "x.arrow").read_bytes()
    for labels in (ITEMS, ROWS):
        assert digest(labels).split()[1].encode() in whole


def test_data_files_and_networks_carry_digests():
    (listed,) = dsstne.netcdf.datasets("in.nc")
    assert (listed.items_digest, listed.rows_digest) == (digest(ITEMS), digest(ROWS))
    assert main([*TRAIN, "-i", "in.nc", "-o", "out.nc", "-n", "net.nc"]) == 0
    assert main([*TRAIN, "-i", "in.nc", "-o", "out.nc", "-n", "net.dsstne"]) == 0
    with dsstne.load("net.dsstne") as model:
        assert json.loads(model.attributes["netcdf"])["features"] == {"Input": digest(ITEMS), "Output": digest(ITEMS)}
        model.items = ["x", "y", "z", "w"]
        model.save("renamed.nc")
    for name, output in (("net.nc", ITEMS), ("renamed.nc", ["x", "y", "z", "w"])):
        with h5py.File(name) as file:
            assert file.attrs["layer0_featuresDigest"] == digest(ITEMS).encode()
            assert file.attrs["layer2_featuresDigest"] == digest(output).encode()
            assert "layer1_featuresDigest" not in file.attrs
        with dsstne.load(name) as model:
            assert json.loads(model.attributes["netcdf"])["features"]["Output"] == digest(output)
    with dsstne.load("net.nc", sizes={"Input": 3}) as model:
        assert json.loads(model.attributes["netcdf"])["features"] == {"Output": digest(ITEMS)}


def test_a_network_without_names_has_no_digest(folder):
    dsstne.Model(dsstne.Network.from_dsstne(CONFIG | {"Layers": [{"N": 3}, {"N": 3}]})).save("net.nc")
    with h5py.File("net.nc") as file:
        assert not [name for name in file.attrs if "Digest" in name]


# ---- samples of two data files ----

GROWN = np.vstack([X, [[0, 0, 1, 1], [1, 1, 0, 0]]]).astype(np.float32)
PADDED = np.vstack([X, np.zeros((2, 4))]).astype(np.float32)


def shorter(kind):
    """Makes a file of the samples of X alone, of a kind; the named network trains on it."""
    if kind == "text":
        return "T"
    if kind == "mapped":
        with dsstne.Dataset(X) as data:
            data.save("x.arrow", items=ITEMS, rows=ROWS)
        return "x.arrow"
    return without_names("in.nc") if kind == "digest" else "in.nc"


@pytest.mark.parametrize("kind", ["netcdf", "digest", "text", "mapped"])
def test_the_shorter_of_two_data_files_has_empty_rows_at_its_end(kind, capsys):
    grown = [*ROWS, "s3", "s4"]
    dsstne.netcdf.write("more.nc", {"out": GROWN}, items={"out": ITEMS}, rows=grown)
    dsstne.netcdf.write("padded.nc", {"in": PADDED}, items={"in": ITEMS}, rows=grown)
    path = shorter(kind)
    # The samples of a text are those of the index, so that of the time before is given.
    more = ["--features", "features", "--samples", "samples"] if kind == "text" else []
    assert main([*TRAIN, "-i", path, "-o", "more.nc", "-n", "one.dsstne", *more]) == 0
    text = f"-i: {path} has 2 samples fewer than -o: more.nc: its last 2 rows are empty"
    assert capsys.readouterr().err.splitlines()[-1] == text
    assert main([*TRAIN, "-i", "padded.nc", "-o", "more.nc", "-n", "two.dsstne"]) == 0
    assert same(weights("one.dsstne"), weights("two.dsstne"))


def test_targets_may_be_the_shorter_ones_and_their_empty_rows_have_the_weight_1(capsys):
    grown = [*ROWS, "s3", "s4"]
    dsstne.netcdf.write("more.nc", {"in": GROWN}, items={"in": ITEMS}, rows=grown)
    for name, matrix, weight in (("short.nc", X, [2, 0.5, 3]), ("padded.nc", PADDED, [2, 0.5, 3, 1, 1])):
        rows = grown[: len(weight)]
        dsstne.netcdf.write(name, {"out": matrix}, items={"out": ITEMS}, rows=rows, sample_weight={"out": weight})
        assert main([*TRAIN, "-i", "more.nc", "-o", name, "-n", f"{name}.dsstne"]) == 0
    assert "-o: short.nc has 2 samples fewer than -i: more.nc: its last 2 rows are empty" in capsys.readouterr().err
    assert same(weights("short.nc.dsstne"), weights("padded.nc.dsstne"))


def test_one_missing_sample_is_said_in_the_singular(capsys):
    dsstne.netcdf.write("more.nc", {"out": GROWN[:4]}, items={"out": ITEMS}, rows=[*ROWS, "s3"])
    assert main([*TRAIN, "-i", "in.nc", "-o", "more.nc", "-n", "one.dsstne"]) == 0
    text = "-i: in.nc has 1 sample fewer than -o: more.nc: its last row is empty"
    assert capsys.readouterr().err.splitlines()[-1] == text


def test_an_index_is_made_of_all_samples_when_the_inputs_are_the_shorter_ones():
    dsstne.netcdf.write("more.nc", {"out": GROWN}, items={"out": ITEMS}, rows=[*ROWS, "s3", "s4"])
    assert main([*TRAIN, "-i", "in.nc", "-o", "more.nc", "-n", "n.nc", "--samples", "new"]) == 0
    assert dsstne.read_index("new").tolist() == [*ROWS, "s3", "s4"]


def test_rows_of_an_array_are_added_too():
    source = indexes._lengthened(sources.Source(np.ones((1, 2), np.float32), sample_weight=np.array([3.0])), 3)
    assert source.matrix.tolist() == [[1, 1], [0, 0], [0, 0]]
    assert source.sample_weight.tolist() == [3, 1, 1]


def test_files_without_digests_are_checked_by_their_counts_and_that_is_said(capsys):
    without_names("out.nc", digests=False)
    assert main([*TRAIN, "-i", "in.nc", "-o", "out.nc", "-n", "n.nc"]) == 0
    text = "-o: out.nc has neither names nor a digest of its samples: only their number was compared"
    assert capsys.readouterr().err.splitlines()[-1] == text


# ---- an index that has grown, and predictions ----


def train(name):
    assert main([*TRAIN, "-i", "in.nc", "-o", "out.nc", "-n", name, "--overwrite"]) == 0


@pytest.mark.parametrize("name", ["net.nc", "net.dsstne"])
def test_an_index_that_has_only_grown_fits_a_network(folder, name, capsys):
    train(name)
    command = [*PREDICT, "-n", name, "-r", "T", "-i", "features", "-o", "features"]
    assert main(command) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "recs: 3 lines"
    before = (folder / "recs").read_text()
    dsstne.write_index("features", [*ITEMS, "new"])
    assert main(command) == 0
    err = capsys.readouterr().err.splitlines()
    assert f"features has 1 feature that the layer 'Input' of {name} does not have: left out" in err
    assert f"features has 1 feature that the layer 'Output' of {name} does not have: left out" in err
    assert (folder / "recs").read_text() == before
    wider = scipy.sparse.csr_array(np.hstack([X, np.ones((3, 1))]))
    dsstne.netcdf.write("wider.nc", {"in": wider}, items={"in": [*ITEMS, "new"]}, rows=ROWS)
    for is_bare in (False, True):
        if is_bare:
            without_names("wider.nc")
            before = before.replace("s", "")  # rows without names have their numbers
        assert main([*PREDICT, "-n", name, "-r", "wider.nc", "-i", "features", "-o", "features"]) == 0
        assert (folder / "recs").read_text() == before
        note = f"wider.nc: left out 3 entries in columns that the layer 'Input' of {name} does not have"
        assert note in capsys.readouterr().err.splitlines()


def test_a_data_file_of_the_index_before_it_grew_fits_a_network(folder):
    train("net.nc")
    expected = main([*PREDICT, "-n", "net.nc", "-r", "in.nc", "-p", "e"]) or (folder / "recs").read_text()
    narrow = scipy.sparse.csr_array(X[:, :3])
    dsstne.netcdf.write("narrow.nc", {"in": narrow}, items={"in": ITEMS[:3]}, rows=ROWS)
    zeroed = X * [1, 1, 1, 0]
    dsstne.netcdf.write("zeroed.nc", {"in": zeroed}, items={"in": ITEMS}, rows=ROWS)
    assert main([*PREDICT, "-n", "net.nc", "-r", "zeroed.nc", "-p", "e"]) == 0
    wanted = (folder / "recs").read_text()
    assert wanted != expected
    assert main([*PREDICT, "-n", "net.nc", "-r", "narrow.nc", "-p", "e", "-i", "features"]) == 0
    assert (folder / "recs").read_text() == wanted


def test_a_network_of_dsstne_is_checked_by_its_counts_and_that_is_said(capsys):
    train("net.nc")
    without_names("net.nc", digests=False)
    capsys.readouterr()
    dsstne.write_index("features", list("efgh"))
    assert main([*PREDICT, "-n", "net.nc", "-r", "T", "-i", "features", "-o", "features"]) == 0
    text = "of net.nc has neither names nor a digest of its features: only their number was compared"
    assert capsys.readouterr().err.splitlines()[2:] == [f"the layer 'Input' {text}", f"the layer 'Output' {text}"]


def test_sizes_that_dsstne_rounds_up():
    def index(size, labels=None):
        return indexes.Index("", size, labels and list(map(str, range(labels))))

    assert indexes.fits("feature", index(250), index(256))
    assert indexes.fits("feature", index(256), index(250, 250))
    assert indexes.fits("feature", index(250), index(256, 250))  # a layer with the labels of its items
    assert not indexes.fits("feature", index(250), index(256, 256))  # an index is not filled up
    assert not indexes.fits("feature", index(250), index(384))
    assert not indexes.fits("sample", index(250), index(256))


def test_an_index_does_not_pass_for_one_that_dsstne_has_filled_up(folder, capsys):
    wide = scipy.sparse.csr_array(np.eye(3, 250, dtype=np.float32))
    for name in ("in", "out"):
        dsstne.netcdf.write(f"{name}.nc", {name: wide})
    train("net.dsstne")
    dsstne.write_index("features", [f"f{n}" for n in range(256)])
    assert main([*PREDICT, "-n", "net.dsstne", "-r", "T", "-i", "features", "-o", "features"]) == 1
    assert "features has 256 features, and the layer 'Output' of net.dsstne has 250" in capsys.readouterr().err


# ---- what is refused ----


@pytest.fixture
def others():
    """Makes files of other samples and features, and networks."""
    dsstne.netcdf.write("other.nc", {"out": X, "in": X}, items={"in": list("abxd")}, rows=["s0", "x1", "s2"])
    dsstne.netcdf.write("more.nc", {"out": GROWN}, rows=["s0", "s1", "x2", "s3", "s4"])
    dsstne.netcdf.write("few.nc", {"out": X[:2]}, rows=ROWS[:2])
    dsstne.netcdf.write("nameless.nc", {"in": X})
    dsstne.netcdf.write("wide.nc", {"in": np.eye(3, 6)})
    for name in ("out", "in"):
        dsstne.netcdf.write(f"bare_{name}.nc", {name: X}, items={name: ITEMS}, rows=ROWS)
        without_names(f"bare_{name}.nc")
    dsstne.netcdf.write("bare_few.nc", {"out": X[:2]}, items={"out": ITEMS}, rows=ROWS[:2])
    dsstne.netcdf.write("bare_other.nc", {"out": X}, items={"out": ITEMS}, rows=["s0", "x1", "s2"])
    for name in ("bare_few.nc", "bare_other.nc"):
        without_names(name)
    dsstne.write_index("swapped", ["b", "a", "c", "d"])
    dsstne.write_index("grown", [*ITEMS, "e"])
    dsstne.write_index("three", ITEMS[:3])
    dsstne.write_index("others", ["s0", "s2", "s1"])
    train("net.nc")
    train("bare.nc")
    without_names("bare.nc")
    train("old.nc")
    without_names("old.nc", digests=False)


FIT = "train -c config.json -n new.nc -e 1 -i in.nc -o"
ASK = "predict -s recs -k 2 -r"
CASES = [
    (f"{FIT} other.nc", "sample 1 is 's1' in -i: in.nc and 'x1' in -o: other.nc; both need the same index"),
    (f"{FIT} more.nc", "sample 2 is 'x2' in -o: more.nc and 's2' in -i: in.nc"),
    (f"{FIT} bare_other.nc", "the 3 samples of -o: bare_other.nc, of which it has the digest, are not the first 3 of"),
    (f"{FIT} bare_out.nc -d z", "neither in.nc nor bare_out.nc has a data set 'z'"),
    (f"{FIT.replace('in.nc', 'bare_in.nc')} bare_other.nc", "the 3 samples of -i: bare_in.nc"),
    (
        f"{FIT.replace('in.nc', 'bare_in.nc')} bare_few.nc",
        "-i: bare_in.nc has only a digest of 3 samples, which cannot be compared with the 2 of -o: bare_few.nc",
    ),
    (f"{FIT.replace('in.nc', 'nameless.nc')} few.nc", "-i: nameless.nc has 3 samples, and -o: few.nc has 2"),
    (f"{FIT} out.nc --samples others", "sample 1 is 's2' in --samples: others and 's1' in -i: in.nc"),
    (f"{FIT.replace('in.nc', 'bare_in.nc')} out.nc --samples others", "the 3 samples of -i: bare_in.nc, of which"),
    (f"{FIT} out.nc --features swapped", "feature 0 is 'b' in --features: swapped and 'a' in -i: in.nc"),
    (f"{FIT} out.nc --features config.json", "config.json"),
    (f"{ASK} T -n net.nc -i swapped", "the 4 features of the layer 'Input' of net.nc, of which it has the digest"),
    (f"{ASK} T -n bare.nc -i features -o swapped", "the 4 features of the layer 'Output' of bare.nc"),
    (f"{ASK} T -n net.nc -i features -o swapped", "feature 0 is 'b' in -o: swapped and 'a' in the layer 'Output' of"),
    (f"{ASK} T -n net.nc -i three", "cannot be compared with the 3 of -i: three"),
    (f"{ASK} T -n net.nc -i features -o three", "-o: three has 3 features, and the layer 'Output' of net.nc has 4"),
    (f"{ASK} T -n old.nc -i grown -o grown", "-o: grown has 5 features, and the layer 'Output' of old.nc has 4"),
    (f"{ASK} other.nc -d in -n net.nc", "the 4 features of the layer 'Input' of net.nc, of which it has the digest"),
    (f"{ASK} other.nc -d in -n net.nc -i features", "feature 2 is 'x' in -r: other.nc and 'c' in the layer 'Input'"),
    (f"{ASK} wide.nc -n net.nc", "-r: wide.nc has 6 features, and the layer 'Input' of net.nc has 4; -r: wide.nc has"),
    (f"{ASK} in.nc -n net.nc -f bare_other.nc", "the 3 samples of -f: bare_other.nc, of which it has the digest"),
]


@pytest.mark.parametrize(("line", "message"), CASES, ids=[case[0] for case in CASES])
def test_other_samples_and_features_are_refused(folder, others, capsys, line, message):
    before = {path.name for path in folder.iterdir()}
    capsys.readouterr()
    assert main(line.split()) == 1
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("featuresDigest0", b"4", "featuresDigest0 is '4'; it must be a number of labels, a blank and a SHA-256"),
        ("featuresDigest0", b"4 " + b"A" * 64, "it must be a number of labels"),
        ("featuresDigest0", 4, "featuresDigest0 is .*4.*, which is not a text"),
        ("samplesDigest0", digest(ROWS[:2]).encode(), "digest of 2 labels; the data set 'in' has 3 rows"),
        ("featuresDigest0", digest([*ITEMS, "e"]).encode(), "digest of 5 labels; the data set 'in' has 4 columns"),
    ],
)
def test_damaged_digests_of_data(attribute, value, message):
    with h5py.File("in.nc", "r+") as file:
        file.attrs[attribute] = np.bytes_(value) if isinstance(value, bytes) else np.uint32(value)
    with pytest.raises(dsstne.CorruptFileError, match=message):
        dsstne.netcdf.datasets("in.nc")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"four", "the attribute layer0_featuresDigest is 'four'; it must be a number of labels"),
        (digest(ROWS).encode(), "layer0_featuresDigest is a digest of 3 labels; the layer 'Input' has 4 units"),
    ],
)
def test_damaged_digests_of_a_network(value, message):
    train("net.nc")
    with h5py.File("net.nc", "r+") as file:
        file.attrs["layer0_featuresDigest"] = np.bytes_(value)
    with pytest.raises(dsstne.CorruptFileError, match=message):
        dsstne.load("net.nc")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"Input": "four"}, "features has 'four' for the layer 'Input'; expected a number of labels"),
        ({"Input": 4}, "features has 4 for the layer 'Input'"),
        ({"None": digest(ITEMS)}, "features names 'None', which is not a layer"),
        ([1], "a value of it is of another type"),
    ],
)
def test_digests_that_somebody_has_edited(features, message):
    train("net.dsstne")
    with dsstne.load("net.dsstne") as model:
        model.attributes["netcdf"] = json.dumps({"features": features})
        with pytest.raises(dsstne.InvalidArgumentError, match=message):
            model.save("net.nc")
        model.save("edited.dsstne")
    assert main([*PREDICT, "-n", "edited.dsstne", "-r", "in.nc", "-d", "in"]) == 0  # where they are no digests


# ---- a filter that is the file of the samples ----


def count_reads(monkeypatch):
    paths, read = [], sources.read_text

    def counting(path, given, **options):
        paths.append(path)
        return read(path, given, **options)

    monkeypatch.setattr(sources, "read_text", counting)
    return paths


@pytest.mark.parametrize("more", [[], ["--filter-values"]])
def test_a_filter_that_is_the_file_of_the_samples_is_read_once(folder, monkeypatch, more):
    train("net.nc")
    (folder / "copy").write_bytes((folder / "T").read_bytes())
    (folder / "link").symlink_to("T")
    paths = count_reads(monkeypatch)
    command = [*PREDICT, "-n", "net.nc", "-r", "T", "-i", "features", *more, "-f"]
    assert main([*command, "copy"]) == 0
    wanted, twice = (folder / "recs").read_text(), len(paths)
    for same_file in ("T", "./T", "link"):
        paths.clear()
        assert main([*command, same_file]) == 0
        assert (folder / "recs").read_text() == wanted
        assert len(paths) == twice - 1


def test_a_filter_is_read_itself_where_the_samples_lack_its_items_or_its_values_differ(folder, monkeypatch):
    dsstne.netcdf.write("in.nc", {"in": X[:, :3]}, items={"in": ITEMS[:3]}, rows=ROWS)
    dsstne.write_index("few", ITEMS[:3])
    train("net.nc")
    paths = count_reads(monkeypatch)
    (folder / "T").write_text("s0\ta,1:d,0\ns1\tb,1:c,1\ns2\ta,1:d,1\n")
    assert main([*PREDICT, "-n", "net.nc", "-r", "T", "-i", "few", "-f", "T"]) == 0
    assert paths == ["T", "T"]
    lines = (folder / "recs").read_text().splitlines()
    assert [{pair.split(",")[0] for pair in line.split("\t")[1].split(":")[:-1]} for line in lines] == [
        {"b", "c"},
        {"a", "d"},
        {"b", "c"},
    ]


def test_a_mapped_file_may_be_samples_and_filter(folder):
    train("net.nc")
    assert main([*PREDICT, "-n", "net.nc", "-r", "T", "-i", "features", "-f", "T"]) == 0
    wanted = (folder / "recs").read_text()
    with dsstne.Dataset(X) as data:
        data.save("x.arrow", items=ITEMS, rows=ROWS)
    assert main([*PREDICT, "-n", "net.nc", "-r", "x.arrow", "-f", "x.arrow"]) == 0
    assert (folder / "recs").read_text() == wanted


def test_a_filter_of_an_index_that_has_grown_is_matched_by_its_digests(folder):
    train("net.nc")
    (folder / "F").write_text("s0\ta\ns1\tb\n")
    command = [*PREDICT, "-n", "net.nc", "-r", "T", "-i", "features", "-f"]
    assert main([*command, "F"]) == 0
    wanted = (folder / "recs").read_text()
    dsstne.netcdf.write("f.nc", {"out": np.eye(2)}, items={"out": ITEMS[:2]}, rows=ROWS[:2])
    assert main([*command, without_names("f.nc")]) == 0
    assert (folder / "recs").read_text() == wanted
    dsstne.write_index("features", [*ITEMS, "new"])  # of which the filter has all, and the network the first
    listed = np.eye(2, len(ITEMS) + 1)
    dsstne.netcdf.write("f.nc", {"out": listed}, items={"out": [*ITEMS, "new"]}, rows=ROWS[:2])
    assert main([*command, without_names("f.nc"), "-o", "features"]) == 0
    assert (folder / "recs").read_text() == wanted


@pytest.mark.parametrize(("weight", "reads"), [(None, 1), ([1, 0, 2], 2)])
def test_a_netcdf_file_may_be_samples_and_filter(folder, monkeypatch, weight, reads):
    train("net.nc")
    assert main([*PREDICT, "-n", "net.nc", "-r", "T", "-i", "features", "-f", "T"]) == 0
    wanted, names, read = (folder / "recs").read_text(), [], dsstne.netcdf.read

    def counting(path, name, **options):
        names.append(name)
        return read(path, name, **options)

    monkeypatch.setattr(dsstne.netcdf, "read", counting)
    weights = {} if weight is None else {"in": weight}
    dsstne.netcdf.write("in.nc", {"in": X}, items={"in": ITEMS}, rows=ROWS, sample_weight=weights)
    assert main([*PREDICT, "-n", "net.nc", "-r", "in.nc", "-f", "in.nc", "-d", "in"]) == 0
    assert names == ["in"] * reads
    if weight is None:
        assert (folder / "recs").read_text() == wanted
    both = {"in": X, "out": 1 - X}
    dsstne.netcdf.write("both.nc", both, items=dict.fromkeys(both, ITEMS), rows=ROWS)
    names.clear()
    assert main([*PREDICT, "-n", "net.nc", "-r", "both.nc", "-f", "both.nc"]) == 0
    assert names == ["in", "out"]
    assert {pair.split(",")[0] for pair in (folder / "recs").read_text().splitlines()[0][3:-1].split(":")} == {"a", "d"}


def test_items_beyond_those_of_the_input_are_read_for_the_filter(folder):
    wider = np.hstack([X, [[1], [0], [1]]]).astype(np.float32)
    dsstne.netcdf.write("out.nc", {"out": wider}, items={"out": [*ITEMS, "e"]}, rows=ROWS)
    dsstne.netcdf.write("one.nc", {"x": wider}, items={"x": [*ITEMS, "e"]}, rows=ROWS)
    train("net.nc")
    command = [*PREDICT, "-n", "net.nc", "-r", "one.nc", "-d", "x", "-i", "features", "-f", "one.nc"]
    assert main(command) == 0
    line = (folder / "recs").read_text().splitlines()[0]
    assert {pair.split(",")[0] for pair in line[3:-1].split(":")} == {"b", "c"}
