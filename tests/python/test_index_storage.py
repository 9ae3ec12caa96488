"""Indexes whose vectors are stored with 2 bytes a number: results beside brute force with the rounded numbers."""

import copy
import pickle

import numpy as np
import pytest
from test_neighbors import collection, nearest, same

import dsstne
from dsstne.export import views
from dsstne.neighbors import Index

STORAGES = ["float16", "bfloat16"]

# Bits of the significand, and the exponent of the smallest normal number.
FORMATS = {"float16": (11, -14), "bfloat16": (8, -126)}


def rounded(numbers, storage):
    """Rounds to the nearest number, of two to the even one."""
    bits, smallest = FORMATS[storage]
    numbers = np.asarray(numbers, np.float64)
    exponent = np.maximum(np.frexp(numbers)[1] - 1, smallest) + 1 - bits  # of the last place
    return np.ldexp(np.rint(np.ldexp(numbers, -exponent)), exponent).astype(np.float32)


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("n", "d", "m", "k"),
    [
        (1, 1, 1, 1),
        (1, 5, 3, 1),
        (20, 1, 4, 20),
        (300, 8, 7, 10),
        (517, 33, 70, 13),
        (2000, 64, 2, 2000),
        (40, 400, 9, 5),
    ],
)
def test_neighbours_have_the_ids_and_the_bits_of_brute_force_with_the_numbers_as_stored(n, d, m, k, metric, storage):
    vectors, queries = collection(n, d, m)
    wanted = nearest(rounded(vectors, storage), queries, k, metric)
    # Shards of an odd number of odd rows begin between two numbers of 4 bytes.
    for options in ({}, {"devices": "cpu", "threads": 1}, {"devices": "cpu:4"}, {"devices": "cpu:3", "threads": 2}):
        with Index(vectors, metric=metric, storage=storage, **options) as index:
            same(index.search(queries, k), wanted)
            for row in range(min(m, 9)):  # alone, and from the 4th call on also with weights in low precision
                same(index.search(queries[row : row + 1], k), (wanted[0][row : row + 1], wanted[1][row : row + 1]))


@pytest.mark.parametrize("storage", STORAGES)
def test_huge_and_tiny_numbers_have_the_bits_of_brute_force(storage):
    vectors, queries = collection(400, 12, 9)
    exponents = (-9, 4) if storage == "float16" else (-41, 37)  # from subnormal numbers on
    vectors *= 10.0 ** np.random.default_rng(1).integers(*exponents, (400, 1))
    stored = rounded(vectors, storage)
    for metric in ("dot", "cosine"):
        with Index(vectors, metric=metric, storage=storage) as index, np.errstate(over="ignore"):
            for _ in range(5):
                same(index.search(queries, 30), nearest(stored, queries, 30, metric))


@pytest.mark.parametrize("storage", STORAGES)
def test_numbers_are_rounded_once(storage):
    bits, smallest = FORMATS[storage]
    half, more = 2.0**-bits, 2.0**-52
    numbers = [1 + half, 1 + 3 * half, 1 + half + more, 1 + half - more, 1 + 3 * half - more, -1 - half - more, -0.0]
    numbers += [2.0 ** (smallest - bits) * x for x in (0.5, 0.75, 1, 1.5, 2, 3, 3.5)]  # around the smallest numbers
    wanted = rounded(numbers, storage)
    for given in (np.array([numbers]), np.array([numbers], np.longdouble), [np.array([numbers])]):
        np.testing.assert_array_equal(Index(given, storage=storage).model.tensor("vectors"), wanted[None])
    narrow = np.array([numbers], np.float32)
    for given in (narrow, np.asfortranarray(narrow), narrow.astype(">f4")):
        stored = Index(given, storage=storage).model.tensor("vectors")
        np.testing.assert_array_equal(stored, rounded(narrow, storage))
    halves = np.array([numbers], np.float16)
    np.testing.assert_array_equal(
        Index(halves, storage=storage).model.tensor("vectors"), rounded(halves.astype(np.float32), storage)
    )
    integers = np.arange(-2000, 2000).reshape(40, 100)
    np.testing.assert_array_equal(Index(integers, storage=storage).model.tensor("vectors"), rounded(integers, storage))


@pytest.mark.parametrize("storage", STORAGES)
def test_an_index_keeps_its_storage_in_files_copies_and_pickles(storage, tmp_path):
    vectors, queries = collection(61, 5, 3)
    index = Index(vectors, storage=storage, metric="cosine", devices="cpu")
    assert index.storage == storage
    assert Index(vectors).storage == "float32"
    assert index.model.nbytes == 61 * 5 * 2
    assert index.model.parameters == 61 * 5
    wanted = index.search(queries, 6)
    path = tmp_path / "index.dsstne"
    index.save(path)
    assert path.stat().st_size < 61 * 5 * 2 + 1024
    loaded = Index.load(path, devices="cpu:2")
    for other in (loaded, pickle.loads(pickle.dumps(index)), copy.copy(index), copy.deepcopy(index)):
        same(other.search(queries, 6), wanted)
        assert repr(other) == f"Index(61 x 5, cosine, {storage})"
        assert other.storage == storage
    loaded.save(tmp_path / "again.dsstne")
    assert path.read_bytes() == (tmp_path / "again.dsstne").read_bytes()
    stored = rounded(vectors, storage)
    np.testing.assert_array_equal(loaded.model.tensor("vectors"), stored)
    seen = views(path)["vectors"]
    assert seen.dtype == (np.float16 if storage == "float16" else np.uint16)
    assert (
        seen.tobytes() == (stored.astype(np.float16) if storage == "float16" else stored.view("<u2")[:, 1::2]).tobytes()
    )


@pytest.mark.parametrize("storage", STORAGES)
def test_the_model_of_an_index_scores_by_the_stored_numbers(storage):
    vectors, queries = collection(300, 9, 20)
    stored = rounded(vectors, storage)
    for metric in ("dot", "cosine"):
        index = Index(vectors, metric=metric, storage=storage)
        wide = Index(stored, metric=metric)
        same(index.model.recommend(queries, k=7, devices="cpu:3"), wide.search(queries, 7))
        np.testing.assert_array_equal(index.model.predict(queries), wide.model.predict(queries))
        for one, other in zip(
            index.model.neighbors(range(300), k=4, tensor="vectors"),
            wide.model.neighbors(range(300), k=4, tensor="vectors"),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
    index.model.set_tensor("vectors", vectors * 2)
    np.testing.assert_array_equal(index.model.tensor("vectors"), rounded(vectors * 2, storage))
    same(index.search(queries, 7), nearest(rounded(vectors * 2, storage), queries, 7, "cosine"))


@pytest.mark.parametrize(
    ("storage", "number", "message"),
    [
        ("float16", 65520.0, r"row 40, column 3: 65520.0 is too large for float16, whose numbers go up to 65,504"),
        ("float16", -1e300, r"row 40, column 3: -1e\+300 is too large for float16"),
        ("bfloat16", 3.4e38, r"row 40, column 3: 3.4e\+38 is too large for bfloat16, whose numbers go up to 3.3895e38"),
        ("float16", np.nan, r"row 40, column 3: NaN is not finite"),
        ("bfloat16", np.nan, r"row 40, column 3: NaN is not finite"),
        ("float16", -np.inf, r"row 40, column 3: -Inf is not finite"),
        ("bfloat16", np.inf, r"row 40, column 3: \+Inf is not finite"),
    ],
)
def test_numbers_that_a_storage_does_not_have_are_named_with_their_place(storage, number, message):
    vectors = np.ones((50, 7))
    vectors[40, 3] = number
    for given in (vectors, [vectors[:30], vectors[30:]], vectors.astype(np.float64, order="F")):
        with pytest.raises(dsstne.NotFiniteError, match=message):
            Index(given, storage=storage)
    index = Index(np.ones((50, 7)), storage=storage)
    with pytest.raises(dsstne.NotFiniteError, match="vectors, row 40, column 3"):
        index.model.set_tensor("vectors", vectors)
    assert (index.model.tensor("vectors") == 1).all()


def test_the_largest_numbers_are_stored():
    assert Index(np.array([[65519.9, -65504]]), storage="float16").model.tensor("vectors").tolist() == [[65504, -65504]]
    largest = 3.3895313892515355e38
    stored = Index(np.array([[1.001 * largest, -largest]]), storage="bfloat16").model.tensor("vectors")
    assert stored.tolist() == [[largest, -largest]]


def test_an_unknown_storage_is_refused():
    with pytest.raises(dsstne.InvalidArgumentError, match="storage"):
        Index(np.eye(3), storage="float8")
