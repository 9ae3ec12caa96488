"""Data sets in NetCDF-4 files of DSSTNE: read and refused. netCDF4, the C library, makes the files."""

import os

import netCDF4
import numpy as np
import pytest
import scipy.sparse

import dsstne

u1, u4, u8, i8, f4, f8 = np.uint8, np.uint32, np.uint64, np.int64, np.float32, np.float64
SPARSE, BOOLEAN, IGNORE_ZERO, INDEXED, WEIGHTED = 1, 2, 32, 64, 128
TYPES = {0: u4, 1: i8, 4: f4, 5: f8, 6: u1, 8: u1, 9: np.int8}

STARTS, ENDS = [0, 2, 2], [2, 2, 5]
COLUMNS, VALUES = [5, 1, 0, 7, 2], [3, 1, 2, 4, 5]
# These rows, with values, in 8 columns:
ROWS = np.zeros((3, 8))
ROWS[[0, 0, 2, 2, 2], COLUMNS] = VALUES
DENSE = np.arange(24).reshape(3, 8) * 5 % 17


def sparse_set(bits=0, kind=4, starts=STARTS, ends=ENDS, offsets=u4):
    """Returns attributes, dimensions and variables of a data set of 3 stored rows."""
    bits |= SPARSE
    attributes = header(bits, kind)
    variables = {
        "sparseStart": (offsets, "rows", starts),
        "sparseEnd": (offsets, "rows", ends),
        "sparseIndex": (u4, "sparseDataDim", COLUMNS),
    }
    dimensions = {"sparseDataDim": 5}
    if not bits & BOOLEAN:
        variables["sparseData"] = (TYPES[kind], "sparseDataDim", VALUES)
    return with_rows(attributes, dimensions, variables)


def dense_set(bits=0, kind=4, values=None):
    values = DENSE.ravel() if values is None else values
    variables = {"data": (TYPES[kind], "dataDim", values)}
    return with_rows(header(bits, kind), {"dataDim": len(values)}, variables)


def header(bits, kind):
    return {
        **dict.fromkeys(["kind"], u4(0)),
        "name": "gl",
        "attributes": u4(bits),
        "dataType": u4(kind),
        "dimensions": u4(1),
        "width": u4(8),
    }


def with_rows(attributes, dimensions, variables):
    bits = int(attributes["attributes"])
    examples, rows = ("examplesDim", "uniqueExamplesDim") if bits & INDEXED else ("examplesDim", "examplesDim")
    dimensions |= {rows: 3}
    if bits & INDEXED:
        dimensions[examples] = 5
        variables["index"] = (u4, examples, [2, 0, 0, 1, 2])
    if bits & WEIGHTED:
        variables["dataWeight"] = (f4, examples, np.arange(dimensions[examples]) + 0.5)
    named = {name: (kind, rows if at == "rows" else at, values) for name, (kind, at, values) in variables.items()}
    return attributes, dimensions, named


def write(path, *sets, attributes=None, without=()):
    with netCDF4.Dataset(path, "w") as file:
        values = {"datasets": u4(len(sets))}
        for n, (own, dimensions, variables) in enumerate(sets):
            values |= {f"{key}{n}": value for key, value in own.items()}
            for name, size in dimensions.items():
                if name + str(n) not in without:
                    file.createDimension(name + str(n), size)
            for name, (kind, dimension, numbers) in variables.items():
                if name + str(n) not in without and dimension + str(n) not in without:
                    made = file.createVariable(name + str(n), kind, (dimension + str(n),))
                    made.set_auto_mask(False)
                    made[:] = np.array(numbers, kind)
        for name, value in (values | (attributes or {})).items():
            if name not in without:
                file.setncattr(name, value)
    return path


def plain(matrix):
    return matrix.toarray() if scipy.sparse.issparse(matrix) else matrix


# ---- reading ----


@pytest.mark.parametrize("weighted", [0, WEIGHTED])
@pytest.mark.parametrize("indexed", [0, INDEXED])
@pytest.mark.parametrize("boolean", [0, BOOLEAN])
@pytest.mark.parametrize("sparse", [True, False])
def test_every_combination_of_attributes(tmp_path, sparse, boolean, indexed, weighted):
    bits = boolean | indexed | weighted
    if sparse:
        made, wanted = sparse_set(bits), (ROWS != 0) * 1.0 if boolean else ROWS
    elif boolean:  # a column of each row
        made, wanted = dense_set(bits, 0, [4, 0, 7]), np.eye(8)[[4, 0, 7]]
    else:
        made, wanted = dense_set(bits), DENSE
    path = write(tmp_path / "data.nc", made)
    data = dsstne.netcdf.read(path)
    rows = 5 if indexed else 3
    if indexed:
        np.testing.assert_array_equal(data.matrix[:].toarray(), wanted[[2, 0, 0, 1, 2]])
        assert isinstance(data.matrix, dsstne.Dataset)  # which copies no row
    else:
        np.testing.assert_array_equal(plain(data.matrix), wanted)
        assert scipy.sparse.issparse(data.matrix) == (sparse or bool(boolean))
    if weighted:
        np.testing.assert_array_equal(data.sample_weight, np.arange(rows, dtype=f4) + f4(0.5))
    else:
        assert data.sample_weight is None
    (one,) = dsstne.netcdf.datasets(path)
    assert (one.name, one.rows, one.columns) == ("gl", rows, 8)
    assert (one.sparse, one.boolean) == (sparse, bool(boolean))
    assert (one.indexed, one.weighted, one.stored_only) == (bool(indexed), bool(weighted), False)
    assert data.matrix.shape == (rows, 8)


@pytest.mark.parametrize(
    ("kind", "word", "dtype"),
    [
        *[(0, "UInt", u4), (1, "Int", i8), (4, "Float", f4), (5, "Double", f8)],
    ],
)
def test_every_type_of_values(tmp_path, kind, word, dtype):
    sparse, dense = write(tmp_path / "s.nc", sparse_set(0, kind)), write(tmp_path / "d.nc", dense_set(0, kind))
    matrix = dsstne.netcdf.read(sparse).matrix
    assert matrix.dtype == dtype
    np.testing.assert_array_equal(matrix.toarray(), ROWS)
    assert dsstne.netcdf.datasets(sparse)[0].dtype == word
    for as_target in (False, True):
        matrix = dsstne.netcdf.read(dense, as_target=as_target).matrix
        assert matrix.dtype == dtype
        np.testing.assert_array_equal(matrix, DENSE)


@pytest.mark.parametrize(
    ("kind", "word", "divisor", "moved"), [(6, "RGB8", 256, 0.5), (8, "UChar", 256, 0.5), (9, "Char", 128, 0)]
)
@pytest.mark.parametrize("indexed", [0, INDEXED])
def test_bytes_stay_bytes_with_the_scale_of_dsstne(tmp_path, kind, word, divisor, moved, indexed):
    sparse = write(tmp_path / "s.nc", sparse_set(indexed, kind))
    dense = write(tmp_path / "d.nc", dense_set(indexed, kind))
    assert dsstne.netcdf.datasets(sparse)[0].dtype == word
    rows, cells = (all_rows[[2, 0, 0, 1, 2]] if indexed else all_rows for all_rows in (ROWS, DENSE))
    for path, as_target, wanted in (
        (sparse, False, rows / divisor),
        (sparse, True, rows / divisor),
        (dense, False, cells / divisor - moved),
        (dense, True, cells / divisor),
    ):
        matrix = dsstne.netcdf.read(path, as_target=as_target).matrix
        assert isinstance(matrix, dsstne.Dataset)
        assert matrix.nbytes < 4 * wanted.size
        np.testing.assert_array_equal(matrix[:].toarray(), wanted)


def test_bytes_may_be_stored_as_larger_integers_or_characters(tmp_path):
    attributes, dimensions, variables = dense_set(0, 8)
    wide = {"data": (u4, "dataDim", variables["data"][2])}
    path = write(tmp_path / "wide.nc", (attributes, dimensions, wide))
    np.testing.assert_array_equal(dsstne.netcdf.read(path, as_target=True).matrix[:].toarray(), DENSE / 256)
    signed = (-DENSE.ravel()).astype(np.int8)
    attributes, dimensions, _ = dense_set(0, 9)
    path = write(tmp_path / "text.nc", (attributes, dimensions, {"data": ("S1", "dataDim", signed.view("S1"))}))
    np.testing.assert_array_equal(dsstne.netcdf.read(path).matrix[:].toarray(), -DENSE / 128)


@pytest.mark.parametrize("offsets", [u4, u8])
@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ([0, 2, 2], [2, 2, 5]),
        ([0, 1, 0], [3, 4, 5]),  # they overlap
        ([1, 4, 3], [2, 5, 4]),  # they leave gaps, in another order
        ([2, 0, 0], [4, 0, 5]),
        ([3, 3, 3], [3, 3, 3]),  # all are empty
    ],
)
def test_rows_may_overlap_and_leave_gaps(tmp_path, starts, ends, offsets):
    wanted = np.zeros((3, 8))
    for row, (a, b) in enumerate(zip(starts, ends, strict=True)):
        wanted[row, COLUMNS[a:b]] = VALUES[a:b]
    path = write(tmp_path / "data.nc", sparse_set(0, 4, starts, ends, offsets))
    matrix = dsstne.netcdf.read(path).matrix
    np.testing.assert_array_equal(matrix.toarray(), wanted)


@pytest.mark.parametrize("kind", ["<u4", ">u4", "<i4", ">i4", "<u8", ">u8", "u1"])
def test_columns_of_any_integers(tmp_path, kind):
    h5py = pytest.importorskip("h5py")
    path = write(tmp_path / "data.nc", sparse_set(0))
    wanted = dsstne.netcdf.read(path).matrix
    with h5py.File(path, "r+") as file:
        numbers = file["sparseIndex0"][()]
        del file["sparseIndex0"]
        file["sparseIndex0"] = numbers.astype(kind)
    found = dsstne.netcdf.read(path).matrix
    assert found.indices.dtype == np.int32
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())


def test_two_and_three_dimensions_are_one_row(tmp_path):
    for sizes in ({"dimensions": 2, "width": 4, "height": 2}, {"dimensions": 3, "width": 2, "height": 2, "length": 2}):
        attributes, *rest = dense_set()
        path = write(tmp_path / "data.nc", (attributes | {k: u4(v) for k, v in sizes.items()}, *rest))
        np.testing.assert_array_equal(dsstne.netcdf.read(path).matrix, DENSE)


def test_several_data_sets_of_a_file(tmp_path):
    first, second = sparse_set(IGNORE_ZERO), dense_set()
    second[0]["name"] = "other"
    path = write(tmp_path / "data.nc", first, second)
    assert [(one.name, one.stored_only) for one in dsstne.netcdf.datasets(path)] == [("gl", True), ("other", False)]
    np.testing.assert_array_equal(dsstne.netcdf.read(path, "gl").matrix.toarray(), ROWS)
    np.testing.assert_array_equal(dsstne.netcdf.read(path, "other").matrix, DENSE)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"several data sets, \['gl', 'other'\]; name one"):
        dsstne.netcdf.read(path)
    with pytest.raises(dsstne.NotFoundError, match=r"no data set 'third'; it has \['gl', 'other'\]"):
        dsstne.netcdf.read(path, "third")


def test_columns_cuts_what_fills_up_the_file(tmp_path):
    sparse = write(tmp_path / "s.nc", sparse_set())
    attributes, *rest = sparse_set()
    attributes["width"] = u4(128)
    wide = write(tmp_path / "w.nc", (attributes, *rest))
    np.testing.assert_array_equal(dsstne.netcdf.read(wide, columns=8).matrix.toarray(), ROWS)
    np.testing.assert_array_equal(
        dsstne.netcdf.read(write(tmp_path / "d.nc", dense_set()), columns=5).matrix, DENSE[:, :5]
    )
    with pytest.raises(dsstne.InvalidArgumentError, match=r"s\.nc: columns is 7, but row 2 of .* entry in column 7"):
        dsstne.netcdf.read(sparse, columns=7)
    with pytest.raises(dsstne.InvalidArgumentError, match="columns is 9, but the data set 'gl' has 8"):
        dsstne.netcdf.read(sparse, columns=9)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("made", [sparse_set, dense_set])
def test_values_that_are_not_finite_are_read_with_and_without_an_index(tmp_path, made, value):
    refused, name = [], "data" if made is dense_set else "sparseData"
    for bits in (0, INDEXED):
        data = made(bits, 5)
        data = changed(data, name, values=[value, *data[2][name][2][1:]])
        matrix = dsstne.netcdf.read(write(tmp_path / "gl.nc", data)).matrix
        column = 0 if made is dense_set else 5
        np.testing.assert_array_equal(plain(matrix[[0, 1]] if bits == 0 else matrix[[1, 3]])[0, column], value)
        assert matrix.shape == (5 if bits else 3, 8)
        with pytest.raises(dsstne.InvalidDataError) as caught:
            dsstne.fit(matrix, epochs=1, progress=False)
        refused.append(str(caught.value).replace(f"row {'1' if bits else '0'}", "the row"))
    assert refused[0] == refused[1]


def test_columns_cuts_the_names(tmp_path):
    dsstne.netcdf.write(tmp_path / "gl.nc", {"x": np.eye(2, 5)}, items={"x": list("abcde")})
    read = {columns: dsstne.netcdf.read(tmp_path / "gl.nc", columns=columns) for columns in (None, 2, 5)}
    assert {columns: "".join(data.items) for columns, data in read.items()} == {None: "abcde", 2: "ab", 5: "abcde"}
    assert read[2].matrix.shape == (2, 2)


def test_a_network_file_of_dsstne_trains_with_its_data(tmp_path):
    X = scipy.sparse.random_array((30, 100), density=0.1, format="csr", rng=0, dtype=f4)
    dsstne.netcdf.write(tmp_path / "gl.nc", {"gl_input": X, "gl_output": X}, boolean=True)
    matrices = {
        one.name: dsstne.netcdf.read(tmp_path / "gl.nc", one.name).matrix
        for one in dsstne.netcdf.datasets(tmp_path / "gl.nc")
    }
    network = {
        "Layers": [
            {"Name": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
            {"Name": "Hidden", "N": 8},
            {"Name": "Output", "N": "auto", "DataSet": "gl_output"},
        ]
    }
    network = dsstne.Network.from_dsstne(network)
    given, target = {"gl_input": matrices["gl_input"]}, {"gl_output": matrices["gl_output"]}
    model = dsstne.fit(given, target, network=network, epochs=1, progress=False)
    assert model.outputs == {"Output": 100}


# ---- files that are not right ----


def changed(made, name, kind=None, values=None):
    """Returns a data set with other numbers in a variable."""
    attributes, dimensions, variables = made
    old, dimension, before = variables[name]
    return attributes, dimensions, variables | {name: (kind or old, dimension, before if values is None else values)}


def sized(made, **dimensions):
    return made[0], made[1] | dimensions, made[2]


BAD_FILES = {
    "no data sets": (sparse_set(), {"without": ["datasets"]}, "the attribute datasets is missing"),
    "none": (sparse_set(), {"attributes": {"datasets": u4(0)}}, "datasets is 0; it must be from 1"),
    "too many": (sparse_set(), {"attributes": {"datasets": u4(2**32 - 1)}}, "the attribute name1 is missing"),
    "no name": (sparse_set(), {"without": ["name0"]}, "the attribute name0 is missing"),
    "bits": (sparse_set(), {"attributes": {"attributes0": u4(257)}}, "attributes0 is 257, which has bits without"),
    "kind": (sparse_set(), {"attributes": {"kind0": u4(3)}}, "kind0 is 3; it must be one of"),
    "type": (sparse_set(), {"attributes": {"dataType0": u4(10)}}, "dataType0 is 10; it must be one of"),
    "LLInt": (sparse_set(), {"attributes": {"dataType0": u4(2)}}, "'gl' is of type LLInt, which DSSTNE itself"),
    "dimensions": (sparse_set(), {"attributes": {"dimensions0": u4(4)}}, "dimensions0 is 4; it must be from 1 to 3"),
    "no height": (sparse_set(), {"attributes": {"dimensions0": u4(2)}}, "the attribute height0 is missing"),
    "no width": (sparse_set(), {"attributes": {"width0": u4(0)}}, "width0 is 0; it must be from 1"),
    "width": (sparse_set(), {"attributes": {"width0": u4(2**31)}}, "'gl' has 2,147,483,648 columns, more than"),
    "columns": (sparse_set(), {"attributes": {"columns0": u4(9)}}, "'gl' has 9 columns, more than its width"),
    "no examples": (sparse_set(), {"without": ["examplesDim0"]}, "the dimension examplesDim0 is missing"),
    "no starts": (sparse_set(), {"without": ["sparseStart0"]}, "the variable sparseStart0 is missing"),
    "no values": (sparse_set(), {"without": ["sparseData0"]}, "the variable sparseData0 is missing"),
    "no index": (sparse_set(INDEXED), {"without": ["index0"]}, "the variable index0 is missing"),
    "no weights": (sparse_set(WEIGHTED), {"without": ["dataWeight0"]}, "the variable dataWeight0 is missing"),
    "backward range": (sparse_set(0, 4, [0, 3, 2], [2, 2, 5]), {}, "'gl', row 1: .* are 3 and 2; they must be a range"),
    "range": (sparse_set(0, 4, [0, 2, 2], [2, 2, 6]), {}, "'gl', row 2: .* are 2 and 6; .* within the 5 entries"),
    "negative range": (
        sparse_set(0, 4, [0, 2, -2], [2, 2, 5], i8),
        {},
        "'gl': the variable sparseStart0 has a number that is negative",
    ),
    "floats for ranges": (sparse_set(0, 4, offsets=f4), {}, "sparseStart0 is of type float32; it must be of unsigned"),
    "huge range": (
        sparse_set(0, 4, [0, 2, 2], [2, 2, 2**64 - 1], u8),
        {},
        "sparseEnd0 has a number that is negative or",
    ),
    "column": (
        changed(sparse_set(), "sparseIndex", values=[5, 1, 0, 8, 2]),
        {},
        "'gl', row 2: the column 8 is beyond the 8 columns",
    ),
    "index": (
        changed(sparse_set(INDEXED), "index", values=[0, 1, 2, 3, 0]),
        {},
        r"'gl': index0\[3\] is 3; .* stores 3 rows",
    ),
    "dense boolean column": (dense_set(BOOLEAN, 0, [1, 8, 0]), {}, "'gl', row 1: the column 8 is beyond"),
    "dense size": (dense_set(values=np.arange(23)), {}, "data0 has 23 elements; the data set 'gl' needs 24"),
    "texts for values": (changed(sparse_set(), "sparseData", "S1", np.full(5, b"a")), {}, "sparseData0 is of type"),
    "too large bytes": (
        changed(dense_set(0, 8), "data", u4, np.full(24, 256)),
        {},
        "data0 has a number that is not a UChar",
    ),
    "floats for bytes": (changed(dense_set(0, 8), "data", f4), {}, "data0 is of type float32"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_its_name_and_the_place(tmp_path, case):
    made, options, message = BAD_FILES[case]
    path = write(tmp_path / "data.nc", made, **options)
    with pytest.raises(dsstne.DsstneError, match=message) as caught:
        dsstne.netcdf.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("made", [sparse_set, dense_set])
def test_values_that_are_not_finite_and_need_more_memory_than_there_is(tmp_path, monkeypatch, made):
    name = "data" if made is dense_set else "sparseData"
    data = made(INDEXED)
    path = write(tmp_path / "data.nc", changed(data, name, values=[np.nan, *data[2][name][2][1:]]))
    monkeypatch.setattr("os.sysconf", lambda _: 1)
    with pytest.raises(dsstne.OutOfMemoryError, match=r"'gl' needs .* bytes with a copy for each row"):
        dsstne.netcdf.read(path)


def test_a_size_that_the_file_has_no_room_for_is_refused_before_it_is_read(tmp_path):
    """2^40 numbers that were never written take no place in a file."""
    h5netcdf = pytest.importorskip("h5netcdf")
    path = tmp_path / "data.nc"
    with h5netcdf.File(path, "w") as file:
        for key, value in {"datasets": 1, **{f"{k}0": v for k, v in header(0, 4).items()}}.items():
            file.attrs[key] = value
        file.dimensions["examplesDim0"], file.dimensions["dataDim0"] = 1 << 37, 1 << 40
        file.create_variable("data0", ("dataDim0",), f4, chunks=(1 << 20,))
    with pytest.raises(dsstne.CorruptFileError, match=r"data0 claims to have 4,398,046,511,104 bytes, .* stores 0"):
        dsstne.netcdf.read(path)


def test_rows_that_need_more_memory_than_there_is(tmp_path, monkeypatch):
    path = write(tmp_path / "data.nc", sparse_set(0, 4, [0, 0, 0], [5, 5, 5]))
    monkeypatch.setattr("os.sysconf", lambda _: 8)
    with pytest.raises(dsstne.OutOfMemoryError, match=r"'gl' needs 360 bytes with a copy for each row"):
        dsstne.netcdf.read(path)


def test_the_same_name_twice(tmp_path):
    with pytest.raises(dsstne.CorruptFileError, match="several data sets 'gl'"):
        dsstne.netcdf.datasets(write(tmp_path / "data.nc", sparse_set(), sparse_set()))


def test_truncated_files(tmp_path):
    whole = write(tmp_path / "data.nc", sparse_set(INDEXED | WEIGHTED)).read_bytes()
    bad = tmp_path / "bad.nc"
    for share in range(1, 10):
        bad.write_bytes(whole[: len(whole) * share // 10])
        with pytest.raises(dsstne.CorruptFileError, match=r"bad\.nc"):
            dsstne.netcdf.read(bad)


def test_a_data_file_is_not_a_network_and_the_other_way_round(tmp_path):
    path = write(tmp_path / "data.nc", sparse_set())
    with pytest.raises(
        dsstne.CorruptFileError, match="not a network file .*; it is a data file, which dsstne.netcdf.read"
    ):
        dsstne.load(path)
    layers = [{"name": "in", "kind": "input", "size": 4}, {"name": "out", "kind": "output", "size": 4}]
    dsstne.Model({"layers": layers, "loss": "sigmoid"}).save(tmp_path / "net.nc")
    with pytest.raises(dsstne.CorruptFileError, match="the attribute datasets is missing"):
        dsstne.netcdf.read(tmp_path / "net.nc")


def test_other_files(tmp_path, model):
    model.save(tmp_path / "model.dsstne")
    os.mkfifo(tmp_path / "pipe")
    for call in (dsstne.netcdf.datasets, dsstne.netcdf.read, dsstne.netcdf.network):
        with pytest.raises(dsstne.CorruptFileError, match=r"model\.dsstne: this is not a NetCDF-4 file"):
            call(tmp_path / "model.dsstne")
        with pytest.raises(dsstne.MissingFileError, match=r"no\.nc: no such file"):
            call(tmp_path / "no.nc")
        with pytest.raises(dsstne.InputOutputError, match="Is a directory"):
            call(tmp_path)
        with pytest.raises(dsstne.CorruptFileError, match="this is not a NetCDF-4 file"):
            call(tmp_path / "pipe")
        with pytest.raises(dsstne.InvalidArgumentError, match="path must be a str or a path"):
            call(3)


def foreign(file, name, other):
    """Ways in which a variable of a file refers to what is in another file; each replaces the variable by one."""
    h5py = pytest.importorskip("h5py")
    kind, shape = file[name].dtype, file[name].shape
    del file[name]

    def external():
        file.create_dataset(name, shape, kind, external=[(other, 0, h5py.h5f.UNLIMITED)])

    def virtual():
        layout = h5py.VirtualLayout(shape, kind)
        layout[:] = h5py.VirtualSource(other, name, shape, kind)
        file.create_virtual_dataset(name, layout)

    def linked():
        file[name] = h5py.ExternalLink(other, "/" + name)

    def soft():
        file["elsewhere"] = h5py.ExternalLink(other, "/")
        file[name] = h5py.SoftLink("/elsewhere/" + name)

    return {"external": external, "virtual": virtual, "link": linked, "soft link": soft}


NAMES, WAYS = ["sparseIndex0", "examplesDim0", "dataWeight0", "indToFeature0"], ["virtual", "link", "soft link"]


@pytest.mark.parametrize(
    ("way", "name"),
    [("external", name) for name in NAMES[:-1]] + [(way, name) for way in WAYS for name in NAMES],
)
def test_a_file_that_refers_to_another_is_refused(tmp_path, way, name):
    h5py = pytest.importorskip("h5py")
    paths = tmp_path / "gl.nc", tmp_path / "other.nc"
    for path in paths:
        dsstne.netcdf.write(path, {"x": ROWS}, items={"x": list("abcdefgh")}, sample_weight={"x": [1, 2, 3]})
    with h5py.File(paths[0], "r+") as file:
        foreign(file, name, str(paths[1]))[way]()
    with pytest.raises(dsstne.CorruptFileError, match=rf"gl\.nc: {name} is a link or refers to other files"):
        dsstne.netcdf.read(paths[0])


def test_a_network_that_refers_to_another_file_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    layers = [{"name": "in", "kind": "input", "size": 4}, {"name": "out", "kind": "output", "size": 4}]
    paths = tmp_path / "net.nc", tmp_path / "other.nc"
    for path in paths:
        dsstne.Model({"layers": layers, "loss": "sigmoid"}).save(path)
    with h5py.File(paths[0], "r+") as file:
        foreign(file, "weight0_weights", str(paths[1]))["virtual"]()
    with pytest.raises(dsstne.CorruptFileError, match=r"net\.nc: weight0_weights is a link or refers to other files"):
        dsstne.load(paths[0])
