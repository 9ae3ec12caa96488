"""Data sets that dsstne.netcdf.write writes. netCDF4, the C library, reads them."""

import netCDF4
import numpy as np
import pytest
import scipy.sparse

import dsstne

u4, f4 = np.uint32, np.float32
SPARSE, BOOLEAN, WEIGHTED = 1, 2, 128  # bits of the attributes

ROWS = np.zeros((3, 8))
ROWS[[0, 0, 2, 2, 2], [5, 1, 0, 7, 2]] = [3, 1, 2, 4, 5]


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
            *["name1", "attributes1", "kind1", "dataType1", "dimensions1", "width1", "columns1"],
        ]
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


@pytest.mark.parametrize("width", [1, 127, 128, 129])
def test_columns_are_rounded_up_and_come_back(tmp_path, width):
    dsstne.netcdf.write(tmp_path / "gl.nc", {"x": np.ones((2, width))})
    with netCDF4.Dataset(tmp_path / "gl.nc") as file:
        assert file.width0 % 128 == 0
        assert file.width0 - width < 128
    assert dsstne.netcdf.read(tmp_path / "gl.nc").matrix.shape == (2, width)


BAD_CALLS = {
    "no mapping": ({"matrices": ROWS}, "matrices must be a mapping"),
    "none": ({"matrices": {}}, "matrices must be a mapping"),
    "name": ({"matrices": {3: ROWS}}, "the name of a data set must be a str"),
    "empty name": ({"matrices": {"": ROWS}}, "the name of a data set is ''"),
    "no matrix": ({"matrices": {"x": "rows"}}, "the matrix 'x'"),
    "no entries": ({"matrices": {"x": np.zeros((2, 3))}}, "the matrix 'x' has no entries"),
    "not finite": ({"matrices": {"x": np.full((2, 3), np.nan)}}, "the matrix 'x', row 0, column 0: nan is not finite"),
    "boolean": ({"boolean": "yes"}, "boolean must be True or False"),
    "weights": ({"sample_weight": {"x": [1, 2]}}, r"sample_weight of 'x' is an array \(2,\) of int64; expected 3"),
    "weights of nobody": ({"sample_weight": {"y": [1]}}, r"sample_weight must be a mapping with names among \['x'\]"),
    "items": ({"items": {"x": ["a"]}}, "items of 'x': 1 names were given for 8"),
    "items of nobody": ({"items": ["a"]}, r"items must be a mapping with names among \['x'\]"),
    "rows": ({"rows": ["a", "b\0", "c"]}, "rows: a name has a NUL character"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_arguments_of_write(tmp_path, case):
    arguments, message = BAD_CALLS[case]
    with pytest.raises(dsstne.DsstneError, match=message):
        dsstne.netcdf.write(tmp_path / "gl.nc", **({"matrices": {"x": ROWS}} | arguments))
    assert list(tmp_path.iterdir()) == []
