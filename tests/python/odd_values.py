"""Odd values to give to any parameter, and the small matrix that the right values are made of."""

import datetime
import enum
import io
import pathlib
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas
import pyarrow
import scipy.sparse

import dsstne

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1]], np.float32)
X = scipy.sparse.csr_array(DENSE)


class Two(enum.IntEnum):
    """An int that is not only an int."""

    value_of_two = 2


class Text(str):
    """A str that is not only a str."""


def nested(levels, inside):
    for _ in range(levels):
        inside = [inside]
    return inside


def endless():
    value = {}
    value["a"] = [value]
    return value


def closed(thing):
    thing.close()
    return thing


# Functions that make the values, because a generator can be used only once.
ODD = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "-0.0": lambda: -0.0,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: -float("inf"),
    "1e308": lambda: 1e308,
    "5e-324": lambda: 5e-324,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "-2**63": lambda: -(2**63),
    "10**400": lambda: 10**400,
    "-10**5000": lambda: -(10**5000),
    "an enum": lambda: Two.value_of_two,
    "bytes": lambda: b"cpu",
    "no bytes": lambda: b"",
    "an empty str": lambda: "",
    "a long str": lambda: "x" * 100_000,
    "NUL": lambda: "a\0b",
    "a surrogate": lambda: "\ud800",
    "an accent": lambda: "\u00e9",
    "braces": lambda: "{}",
    "a str of numpy": lambda: np.str_("cpu"),
    "a subclass of str": lambda: Text("cpu"),
    "a set": lambda: {1, 2},
    "an empty dict": dict,
    "a dict": lambda: {1: 2},
    "a dict of None": lambda: {"kind": None},
    "an endless dict": endless,
    "an empty list": list,
    "a list of lists": lambda: [[1], [2, 3]],
    "a deep list": lambda: nested(5000, 1),
    "a pair": lambda: (0, 1),
    "a list of None": lambda: [None],
    "a list of str": lambda: ["a", "b", "c", "d"],
    "a range": lambda: range(2),
    "a generator": lambda: (n for n in range(2)),
    "a view": lambda: memoryview(b"\1\2"),
    "a 0-d array": lambda: np.array(1),
    "two numbers": lambda: np.array([1.0, 2.0]),
    "no numbers": lambda: np.array([]),
    "float16": lambda: np.float16(0.5),
    "longdouble": lambda: np.longdouble(0.5),
    "int8": lambda: np.int8(2),
    "bool of numpy": lambda: np.bool_(True),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64": lambda: np.timedelta64(1, "s"),
    "an array of objects": lambda: np.array([1, "a", None], object),
    "an array of str": lambda: np.array(["a", "b"]),
    "a record array": lambda: np.zeros(2, [("a", "i4")]),
    "an array of complex": lambda: np.array([[1j]]),
    "a masked array": lambda: np.ma.masked_array([1, 2], [0, 1]),
    "three dimensions": lambda: np.zeros((1, 2, 2)),
    "a matrix of NaN": lambda: np.full((3, 4), np.nan),
    "complex": lambda: 1j,
    "Decimal": lambda: Decimal("0.5"),
    "Decimal NaN": lambda: Decimal("sNaN"),
    "Fraction": lambda: Fraction(1, 2),
    "a date": lambda: datetime.datetime(2020, 1, 1),
    "a class": lambda: int,
    "a function": lambda: len,
    "a module": lambda: types,
    "an object": object,
    "a closed file": lambda: closed(io.StringIO()),
    "a closed model": lambda: closed(dsstne.popularity(X)),
    "a closed dataset": lambda: closed(dsstne.Dataset(X)),
    "a folder": lambda: pathlib.Path.cwd(),
    "a row": lambda: X[0],
    "bsr": lambda: scipy.sparse.bsr_array(DENSE),
    "dia": lambda: scipy.sparse.dia_matrix(DENSE),
    "a complex matrix": lambda: X * 1j,
    "a matrix without rows": lambda: scipy.sparse.csr_array((0, 4)),
    "a matrix without columns": lambda: scipy.sparse.csr_array((3, 0)),
    "a damaged matrix": lambda: damaged_matrix(),
    "NA of pandas": lambda: pandas.NA,
    "NaT of pandas": lambda: pandas.NaT,
    "a scalar of arrow": lambda: pyarrow.scalar(1),
    "a table": lambda: pyarrow.table({"a": [1]}),
}


def damaged_matrix():
    matrix = X.copy()
    matrix.indices = matrix.indices + 2**30
    return matrix
