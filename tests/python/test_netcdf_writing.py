"""Data sets that dsstne.netcdf.write writes. netCDF4, the C library, reads them."""

import hashlib
import struct

import netCDF4
import numpy as np
import pandas
import pytest
import scipy.sparse

import dsstne

u4, f4 = np.uint32, np.float32
SPARSE, BOOLEAN, WEIGHTED = 1, 2, 128  # bits of the attributes

ROWS = np.zeros((3, 8))
ROWS[[0, 0, 2, 2, 2], [5, 1, 0, 7, 2]] = [3, 1, 2, 4, 5]


def damaged(indptr, indices, values=None):
    """Returns a matrix of 3 columns with arrays that SciPy does not check."""
    made = scipy.sparse.csr_array((len(indptr) - 1, 3), dtype=f4)
    made.indptr, made.indices = np.array(indptr, np.int32), np.array(indices, np.int32)
    made.data = np.ones(len(indices), f4) if values is None else np.array(values, f4)
    return made


def digest(labels):
    """Returns the digest of labels as docs/dsstne-commands.md describes it."""
    encoded = [label.encode() for label in labels]
    ends = [sum(map(len, encoded[:n])) for n in range(len(encoded) + 1)]
    whole = struct.pack(f"<{len(ends)}q", *ends) + b"".join(encoded)
    return f"{len(encoded)} {hashlib.sha256(whole).hexdigest()}"


def test_a_written_file_is_what_dsstne_reads(tmp_path):
    path = tmp_path / "gl.nc"
    weights = np.array([1, 2, 3], f4)
    dsstne.netcdf.write(
        path,
        {"in": ROWS, "out": ROWS != 0},
        sample_weight={"out": weights},
        items={"in": list("abcdefgh")},
        rows=[7, 8, 9],
    )
    with netCDF4.Dataset(path, "a") as file:
        assert file.ncattrs() == [
            *["datasets", "name0", "attributes0", "kind0", "dataType0", "dimensions0", "width0", "columns0"],
            *["featuresDigest0", "samplesDigest0"],
            *["name1", "attributes1", "kind1", "dataType1", "dimensions1", "width1", "columns1", "samplesDigest1"],
        ]
        assert file.featuresDigest0 == digest("abcdefgh")
        assert file.samplesDigest0 == file.samplesDigest1 == digest("789")
        assert (file.attributes0, file.dataType0, file.width0, file.columns0) == (SPARSE, 4, 128, 8)
        assert (file.attributes1, file.dataType1) == (SPARSE | BOOLEAN | WEIGHTED, 0)
        wanted = {"sparseStart0", "sparseEnd0", "sparseIndex0", "sparseData0", "indToFeature0", "indToSample0"}
        wanted |= {"sparseStart1", "sparseEnd1", "sparseIndex1", "dataWeight1", "indToSample1"}
        assert set(file.variables) == wanted
        assert file["sparseStart0"].dtype == file["sparseIndex0"].dtype == u4
        np.testing.assert_array_equal(file["sparseEnd0"][:], [2, 2, 5])
        np.testing.assert_array_equal(file["sparseIndex0"][:], [1, 5, 0, 2, 7])
        np.testing.assert_array_equal(file["sparseData0"][:], [1, 3, 2, 5, 4])
        file.setncattr("remark", "appended")
    data = dsstne.netcdf.read(path, "in")
    np.testing.assert_array_equal(data.matrix.toarray(), ROWS)
    assert (data.items, data.rows) == (list("abcdefgh"), ["7", "8", "9"])
    np.testing.assert_array_equal(dsstne.netcdf.read(path, "out").sample_weight, weights)


def test_the_matrix_of_the_caller_stays_as_it_is(tmp_path):
    X = scipy.sparse.csr_array((np.array([0, 2], f4), [0, 1], [0, 2]), shape=(1, 3))
    dsstne.netcdf.write(tmp_path / "gl.nc", {"x": X})
    assert X.nnz == 2
    assert dsstne.netcdf.datasets(tmp_path / "gl.nc")[0].entries == 1


def test_all_types_of_matrices(tmp_path):
    wanted = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0]], f4)
    csr = scipy.sparse.csr_array(wanted)
    shifted = damaged([1, 3, 3, 4], [2, 0, 2, 1], [9, 1, 2, 3])  # SciPy itself refuses offsets that do not begin at 0
    with dsstne.Dataset(csr) as data, dsstne.Dataset(csr[[2, 0]], index=[1, 1, 0]) as indexed:
        data.save(tmp_path / "x.arrow")
        with dsstne.Dataset.open(tmp_path / "x.arrow") as file, dsstne.Dataset.product(csr, np.eye(3)) as product:
            matrices = {
                "array": wanted,
                "big endian": wanted.astype(">f8"),
                "Fortran": np.asfortranarray(wanted),
                "half": wanted.astype("f2"),
                "bool": wanted != 0,
                "csr": csr,
                "csc": csr.tocsc(),
                "coo": csr.tocoo(),
                "shifted": shifted,
                "dataset": data,
                "file": file,
                "product": product,
                "indexed": indexed,
                "interactions": dsstne.Interactions(csr),
                "frame": pandas.DataFrame(wanted),
            }
            dsstne.netcdf.write(tmp_path / "gl.nc", matrices)
    for name in matrices:
        stored = {"bool": wanted != 0, "indexed": wanted[[0, 0, 2]]}.get(name, wanted)
        np.testing.assert_array_equal(dsstne.netcdf.read(tmp_path / "gl.nc", name).matrix.toarray(), stored, name)


def test_names_of_the_data_are_written_unless_others_are_given(tmp_path):
    interactions = dsstne.Interactions(scipy.sparse.csr_array(np.eye(2, 3)), ["ann", "bob"], ["tea", "milk", "ale"])
    path, names = tmp_path / "gl.nc", {"y": ["1", "2", "3"]}
    with dsstne.Dataset(interactions, index=[1, 0, 1]) as data:
        dsstne.netcdf.write(path, {"x": interactions, "y": interactions, "z": data}, items=names)
    read = {name: dsstne.netcdf.read(path, name) for name in "xyz"}
    assert [read[name].items for name in "xyz"] == [["tea", "milk", "ale"], names["y"], ["tea", "milk", "ale"]]
    assert [read[name].rows for name in "xyz"] == [["ann", "bob"], ["ann", "bob"], ["bob", "ann", "bob"]]
    dsstne.netcdf.write(path, {"x": interactions}, rows=["r", "s"])
    assert dsstne.netcdf.read(path).rows == ["r", "s"]


@pytest.mark.parametrize("width", [1, 127, 128, 129])
def test_columns_are_rounded_up_and_come_back(tmp_path, width):
    dsstne.netcdf.write(tmp_path / "gl.nc", {"x": np.ones((2, width))})
    with netCDF4.Dataset(tmp_path / "gl.nc") as file:
        assert file.width0 % 128 == 0
        assert file.width0 - width < 128
    assert dsstne.netcdf.read(tmp_path / "gl.nc").matrix.shape == (2, width)


def test_data_sets_are_marked_of_which_only_stored_entries_count(tmp_path):
    dsstne.netcdf.write(tmp_path / "gl.nc", {"x": ROWS, "y": ROWS}, stored_only=["y"])
    with netCDF4.Dataset(tmp_path / "gl.nc") as file:
        assert (file.attributes0 & 32, file.attributes1 & 32) == (0, 32)
    assert [one.stored_only for one in dsstne.netcdf.datasets(tmp_path / "gl.nc")] == [False, True]


BAD_CALLS = {
    "no mapping": ({"matrices": ROWS}, "matrices must be a mapping"),
    "none": ({"matrices": {}}, "matrices must be a mapping"),
    "name": ({"matrices": {3: ROWS}}, "the name of a data set must be a str"),
    "empty name": ({"matrices": {"": ROWS}}, "the name of a data set is ''"),
    "no matrix": ({"matrices": {"x": "rows"}}, "the matrix 'x'"),
    "no entries": ({"matrices": {"x": np.zeros((2, 3))}}, "the matrix 'x' has no entries"),
    "not finite": ({"matrices": {"x": np.full((2, 3), np.nan)}}, "the matrix 'x': row 0, column 0 holds NaN"),
    "allowed": (
        {"matrices": {"x": dsstne.Dataset(np.array([[0, 1], [2, np.inf]]), allow_not_finite=True)}},
        "the matrix 'x': row 1, column 1 is inf",
    ),
    "too large": ({"matrices": {"x": np.array([[0, 1e300]])}}, "the matrix 'x': row 0, column 1 holds 1e"),
    "too large sum": (
        {"matrices": {"x": damaged([0, 2, 2], [1, 1], [3e38, 3e38])}},
        "the matrix 'x': row 0, column 1: the sum of the values",
    ),
    "column beyond": (
        {"matrices": {"x": damaged([0, 1, 2], [1, 7])}},
        "'x': row 1 holds column 7, but the matrix",
    ),
    "negative column": ({"matrices": {"x": damaged([0, 1, 2], [-1, 1])}}, "'x': row 0 holds column -1"),
    "backward offsets": ({"matrices": {"x": damaged([0, 3, 2], [0, 1, 2])}}, "the matrix 'x': .*row"),
    "NUL in a name": ({"matrices": {"a\0": ROWS}}, "the name of a data set 'a.x00' contains a NUL character"),
    "surrogate": ({"matrices": {"\ud800": ROWS}}, "the name of a data set '.ud800' is not valid Unicode"),
    "surrogate item": ({"items": {"x": [*"abcdefg", "\ud800"]}}, r"items of 'x'\[7\] is '.ud800', which is not valid"),
    "negative weight": ({"sample_weight": {"x": [1, -1, 2]}}, "sample_weight of 'x': the weight of row 1 is -1.0; "),
    "infinite weight": ({"sample_weight": {"x": [1, 2, 1e39]}}, "sample_weight of 'x': the weight of row 2 is inf"),
    "NaN as weight": ({"sample_weight": {"x": [np.nan, 1, 2]}}, "sample_weight of 'x': the weight of row 0 is nan"),
    "boolean": ({"boolean": "yes"}, "boolean must be True or False"),
    "weights": ({"sample_weight": {"x": [1, 2]}}, r"sample_weight of 'x' is an array \(2,\) of int64; expected 3"),
    "weights of nobody": ({"sample_weight": {"y": [1]}}, r"sample_weight must be a mapping with names among \['x'\]"),
    "items": ({"items": {"x": ["a"]}}, "items of 'x': 1 names were given for 8"),
    "items of nobody": ({"items": ["a"]}, r"items must be a mapping with names among \['x'\]"),
    "rows": ({"rows": ["a", "b\0", "c"]}, "rows: a name has a NUL character"),
    "stored_only of nobody": ({"stored_only": ["y"]}, r"stored_only must have names among \['x'\], not "),
    "stored_only as a str": ({"stored_only": "x"}, "stored_only must be a list, not 'x'"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_arguments_of_write(tmp_path, case):
    arguments, message = BAD_CALLS[case]
    with pytest.raises(dsstne.DsstneError, match=message):
        dsstne.netcdf.write(tmp_path / "gl.nc", **({"matrices": {"x": ROWS}} | arguments))
    assert list(tmp_path.iterdir()) == []
