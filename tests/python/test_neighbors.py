"""Exact nearest neighbours: beside brute force in float64, to the bit."""

import copy
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse

import dsstne
from dsstne.neighbors import Index


def dots(a, b):
    """kernels.Dot of rows of a with all rows of b: lane l of eight adds the products l, l + 8, ... in order."""
    products = a.astype(np.float64)[:, None, :] * b.astype(np.float64)[None]
    size = products.shape[2]
    products = np.pad(products, ((0, 0), (0, 0), (0, -size % 8)))
    lane = np.zeros((*products.shape[:2], 8))
    for first in range(0, products.shape[2], 8):
        lane += products[:, :, first : first + 8]
    lane = np.moveaxis(lane, 2, 0)
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]))


def scores_of(vectors, queries, metric):
    """kernels.Score, rounded to float32."""
    vectors, queries = np.asarray(vectors, np.float32), np.asarray(queries, np.float32)
    scores = dots(queries, vectors)
    if metric == "cosine":
        lengths = [np.sqrt(np.array([dots(row[None], row[None])[0, 0] for row in x])) for x in (queries, vectors)]
        norms = lengths[0][:, None] * lengths[1]
        scores = np.divide(scores, norms, out=np.zeros_like(scores), where=norms != 0)
    return scores.astype(np.float32)


def nearest(vectors, queries, k, metric, allowed=None):
    scores = scores_of(vectors, queries, metric)
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
    best = np.take_along_axis(scores, order, 1)
    order[best == -np.inf] = -1
    return order, best


def same(found, wanted):
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[0].dtype == np.int32
    assert found[1].dtype == np.float32
    assert (found[1] + 0.0).tobytes() == (wanted[1] + 0.0).tobytes()  # 0 has two signs


def collection(n, d, m, seed=0):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(n, d)).astype(np.float32)
    vectors[n // 2 :: 7] = vectors[: len(vectors[n // 2 :: 7])]  # ties
    vectors[n // 3 :: 11] = 0
    queries = random.normal(size=(m, d)).astype(np.float32)
    queries[:: max(2, m // 3)] = 0
    return vectors, queries


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize(
    ("n", "d", "m", "k"),
    [(1, 1, 1, 1), (1, 5, 3, 1), (20, 1, 4, 20), (300, 8, 7, 10), (517, 33, 70, 13), (2000, 64, 2, 2000)],
)
def test_neighbours_have_the_ids_and_the_bits_of_brute_force(n, d, m, k, metric):
    vectors, queries = collection(n, d, m)
    wanted = nearest(vectors, queries, k, metric)
    for options in ({}, {"devices": "cpu", "threads": 1}, {"devices": "cpu:4"}, {"devices": "cpu:3", "threads": 2}):
        with Index(vectors, metric=metric, **options) as index:
            same(index.search(queries, k), wanted)
            for row in range(min(m, 9)):  # alone, and from the 4th call on also with weights in low precision
                same(index.search(queries[row : row + 1], k), (wanted[0][row : row + 1], wanted[1][row : row + 1]))


def test_huge_and_tiny_numbers_have_the_bits_of_brute_force():
    vectors, queries = collection(400, 12, 9)
    scale = 10.0 ** np.random.default_rng(1).integers(-18, 18, (400, 1))
    vectors = (vectors * scale).astype(np.float32)
    for metric in ("dot", "cosine"):
        for factor in (1, 1e-20, 1e18):
            asked = (queries * factor).astype(np.float32)
            with Index(vectors, metric=metric) as index, np.errstate(over="ignore"):
                for _ in range(5):
                    same(index.search(asked, 30), nearest(vectors, asked, 30, metric))


def test_a_search_equals_recommendations_of_the_model():
    vectors, queries = collection(300, 9, 20)
    for metric in ("dot", "cosine"):
        index = Index(vectors, metric=metric)
        same(index.model.recommend(queries, k=7), index.search(queries, 7))
        assert index.model.same_items is False
        with index.model.predictor(k=7) as predictor:
            same(predictor.recommend(queries), index.search(queries, 7))
        same(index.model.recommend(queries, k=7, devices="cpu:3"), index.search(queries, 7))
    same(
        Index(np.eye(5)).model.recommend(np.eye(5), k=1), (np.arange(5, dtype=np.int32)[:, None], np.ones((5, 1), "f4"))
    )


def test_filters_leave_vectors_out_and_lists_end_with_minus_one():
    vectors, queries = collection(50, 6, 5)
    index = Index(vectors, names=[f"v{n}" for n in range(50)])
    some = np.isin(np.arange(50), [3, 4, 9])
    wanted = nearest(vectors, queries, 5, "dot", some)
    assert (wanted[0][:, 3:] == -1).all()
    same(index.search(queries, 5, items=[9, 3, 4]), wanted)
    same(index.search(queries, 5, items=some), wanted)
    same(index.search(queries, 5, items=["v9", "v3", "v4"]), wanted)
    same(index.search(queries, 5, filter_items=np.flatnonzero(~some)), wanted)
    same(index.search(queries, 9, filter_items=[]), nearest(vectors, queries, 9, "dot"))
    names, _ = index.search(queries, 4, items=[9, 3, 4], return_names=True)
    assert names[:, 3].tolist() == [None] * 5
    assert names[0, 0] == f"v{wanted[0][0, 0]}"


def test_vectors_come_as_arrays_lists_and_iterators_of_any_type():
    vectors, queries = collection(70, 6, 4)
    wanted = nearest(vectors, queries, 8, "dot")
    blocks = [vectors[:30], vectors[30:31], vectors[31:31], vectors[31:]]
    mixed = [vectors[:30].astype(np.float64), np.asfortranarray(vectors[30:60]), vectors[60:].tolist()]
    given = [vectors, vectors.astype(np.float64), np.asfortranarray(vectors), vectors.tolist(), blocks, mixed]
    for one in given:
        same(Index(one).search(queries, 8), wanted)
    same(Index((block for block in blocks), shape=(70, 6)).search(queries, 8), wanted)
    same(Index(vectors, shape=(70, 6)).search(queries.astype(np.float64), 8), wanted)
    integers = np.arange(12, dtype=np.int8).reshape(4, 3)
    same(Index(integers).search(integers, 4), nearest(integers, integers, 4, "dot"))
    read_only = vectors.copy()
    read_only.flags.writeable = False
    index = Index(read_only)
    same(index.search(queries, 8), wanted)
    changed = vectors.copy()
    index = Index(changed)
    changed[:] = 0  # the index has a copy
    same(index.search(queries, 8), wanted)


def test_a_tight_memory_limit_only_leaves_out_what_makes_searches_faster():
    vectors, queries = collection(20_000, 32, 3)
    wanted = nearest(vectors, queries, 10, "dot")
    for limit in (vectors.nbytes + 450_000, vectors.nbytes + 1_000_000, 10 * vectors.nbytes):
        index = Index(vectors, devices="cpu", threads=1, memory_limit=limit)
        for _ in range(5):
            same(index.search(queries, 10), wanted)


def test_an_index_can_be_saved_loaded_pickled_and_copied(tmp_path):
    vectors, queries = collection(60, 5, 3)
    index = Index(vectors, names=list(range(100, 160)), metric="cosine", devices="cpu")
    index.save(tmp_path / "index.dsstne")
    wanted = index.search(queries, 6)
    loaded = Index.load(tmp_path / "index.dsstne", devices="cpu:2")
    for other in (loaded, pickle.loads(pickle.dumps(index)), copy.copy(index), copy.deepcopy(index)):
        same(other.search(queries, 6), wanted)
        assert repr(other) == "Index(60 x 5, cosine)"
        assert len(other) == 60
        assert other.shape == (60, 5)
        assert other.names.tolist() == list(range(100, 160))
        assert other.metric == "cosine"
    same(dsstne.load(tmp_path / "index.dsstne").recommend(queries, k=6), wanted)
    dsstne.popularity(scipy.sparse.csr_array(np.eye(3))).save(tmp_path / "other.dsstne")
    with pytest.raises(dsstne.InvalidArgumentError, match=r"other.dsstne: this file is not an index but has Model\(3"):
        Index.load(tmp_path / "other.dsstne")
    with pytest.raises(dsstne.MissingFileError):
        Index.load(tmp_path / "none.dsstne")


def test_threads_that_search_at_the_same_time_take_turns():
    vectors, queries = collection(3000, 24, 40)
    wanted = nearest(vectors, queries, 10, "dot")
    index, failures = Index(vectors), []

    def ask(row):
        try:
            for _ in range(5):
                same(index.search(queries[row : row + 2], 10), (wanted[0][row : row + 2], wanted[1][row : row + 2]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(0, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_closed_index_says_so():
    index = Index(np.eye(3))
    with index:
        assert not index.closed
    assert index.closed
    assert repr(index) == "Index(closed)"
    index.close()
    for call in (lambda: index.search(np.eye(3)), lambda: index.save("nowhere"), index.__enter__):
        with pytest.raises(dsstne.InvalidHandleError, match="this index is closed"):
            call()


def not_finite(row, column, value=np.nan):
    vectors = np.ones((40, 6))
    vectors[row, column] = value
    return vectors


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Index(np.empty((0, 5))),
            "InvalidArgument",
            r"vectors has the shape \(0, 5\); an index needs at least",
        ),
        (
            lambda: Index(np.empty((5, 0))),
            "InvalidArgument",
            r"vectors has the shape \(5, 0\); an index needs at least",
        ),
        (
            lambda: Index([1, 2, 3]),
            "InvalidArgument",
            r"vectors must be a matrix, .*; a single vector is vectors\[None\]",
        ),
        (lambda: Index("abc"), "InvalidArgument", "vectors must be a matrix, not 'abc'"),
        (lambda: Index([["a"]]), "InvalidArgument", "vectors must have numbers, not <U1"),
        (
            lambda: Index(scipy.sparse.eye(3)),
            "InvalidArgument",
            r"vectors is a sparse matrix; .* give vectors.toarray\(\)",
        ),
        (lambda: Index(not_finite(31, 4)), "NotFinite", "vectors, row 31, column 4: NaN is not finite"),
        (
            lambda: Index(not_finite(2, 0, 1e39)),
            "NotFinite",
            r"vectors, row 2, column 0: 1e\+39 is too large for float32",
        ),
        (
            lambda: Index([np.ones((9, 6)), not_finite(1, 2)]),
            "NotFinite",
            "vectors, row 10, column 2: NaN is not finite",
        ),
        (
            lambda: Index([np.ones((2, 3)), np.ones((2, 4))]),
            "InvalidArgument",
            r"vectors\[1\] has 4 columns, but 3 are",
        ),
        (
            lambda: Index(iter([np.eye(3)])),
            "InvalidArgument",
            r"vectors is an iterator: give shape=\(vectors, columns\)",
        ),
        (
            lambda: Index(iter([np.eye(3)]), shape=(4, 3)),
            "InvalidArgument",
            "shape has 4 vectors, but there are only 3",
        ),
        (
            lambda: Index(iter([np.eye(3)]), shape=(2, 3)),
            "InvalidArgument",
            "shape has 2 vectors, but there are more: 3",
        ),
        (lambda: Index(np.eye(3), shape=3), "InvalidArgument", r"shape must be \(vectors, columns\), not 3"),
        (lambda: Index(np.eye(3), shape=(3, 0)), "InvalidArgument", "shape must be at least 1, not 0"),
        (lambda: Index(np.ones((1, 16385))), "InvalidArgument", "size is 16385"),
        (
            lambda: Index(np.eye(3), metric="euclid"),
            "InvalidArgument",
            "metric must be one of 'dot', 'cosine', not 'euc",
        ),
        (lambda: Index(np.eye(3), names=["a", "b"]), "InvalidArgument", "there are 2 names for 3 vectors"),
        (
            lambda: Index(np.eye(3), names=["a", "b", "a"]),
            "InvalidArgument",
            r"names\[2\] is 'a', and so is names\[0\]",
        ),
        (
            lambda: Index(np.eye(3), names=["a", 1, "c"]),
            "InvalidArgument",
            r"names\[1\] is 1; names must all be str or",
        ),
        (lambda: Index(np.eye(3), devices="tpu"), "InvalidArgument", "tpu"),
        (lambda: Index(np.eye(300), memory_limit=1000), "OutOfMemory", "memory_limit is"),
    ],
)
def test_bad_vectors_are_errors_that_say_what_and_where(make, error, message):
    with pytest.raises(getattr(dsstne, error + "Error"), match=message):
        make()


@pytest.mark.parametrize(
    ("search", "error", "message"),
    [
        ({"k": 41}, "InvalidArgument", "k is 41; with 40 vectors it can be 1 to 40"),
        ({"k": 0}, "InvalidArgument", "k is 0"),
        ({"queries": np.ones((2, 5))}, "InvalidData", "queries has 5 columns, the vectors of the index have 6"),
        (
            {"queries": np.ones(6)},
            "InvalidArgument",
            r"queries must be a matrix, .*; a single vector is queries\[None\]",
        ),
        ({"queries": not_finite(7, 3)}, "NotFinite", "queries, row 7, column 3: NaN is not finite"),
        ({"items": [40]}, "InvalidArgument", "items"),
        ({"items": [1], "filter_items": [2]}, "InvalidArgument", "not both"),
        ({"return_names": True}, "InvalidArgument", "have no names"),
        ({"return_names": 1}, "InvalidArgument", "return_names must be True or False, not 1"),
    ],
)
def test_bad_queries_are_errors_that_say_what_and_where(search, error, message):
    index = Index(np.arange(240.0).reshape(40, 6))
    given = {"queries": np.ones((2, 6)), "k": 3, **search}
    with pytest.raises(getattr(dsstne, error + "Error"), match=message):
        index.search(given.pop("queries"), **given)
    assert index.search(np.ones((1, 6)), 1)[0].tolist() == [[39]]


def test_no_queries_have_no_neighbours():
    ids, scores = Index(np.eye(3)).search(np.empty((0, 3)), 2)
    assert ids.shape == scores.shape == (0, 2)


def test_what_an_index_cannot_do_says_what_to_do_instead(tmp_path):
    model = Index(np.eye(3)).model
    with pytest.raises(dsstne.UnsupportedError, match="export model.tensor"):
        dsstne.export.to_onnx(model, tmp_path / "index.onnx")
    with pytest.raises(dsstne.UnsupportedError, match=r"the vectors of an index are model.tensor\(\"vectors\"\)"):
        dsstne.export.item_vectors(model)
    with pytest.raises(dsstne.UnsupportedError, match="no parts of scores to explain"):
        model.explain(np.eye(3)[:1], 1)


@pytest.mark.long
def test_neighbours_on_emulated_gpus_have_the_bits_of_the_cpu(emulated):
    emulated("""
import numpy as np
from dsstne.neighbors import Index

random = np.random.default_rng(1)
for n, d, m, k in ((1, 1, 1, 1), (70, 33, 3, 70), (3000, 40, 5, 9)):
    vectors, queries = (random.normal(size=(rows, d)).astype(np.float32) for rows in (n, m))
    vectors[n // 2 :] = vectors[: len(vectors[n // 2 :])]
    for metric in ("dot", "cosine"):
        wanted = Index(vectors, metric=metric, devices="cpu").search(queries, k)
        for devices in ("cuda:0", ["cuda:0", "cuda:1"]):
            index = Index(vectors, metric=metric, devices=devices)
            for _ in range(6):  # the last ones with weights that are kept in low precision
                found = index.search(queries, k)
                assert all(one.tobytes() == other.tobytes() for one, other in zip(found, wanted)), (devices, n, metric)
            found = index.model.recommend(queries, k=k, devices=devices)
            assert all(one.tobytes() == other.tobytes() for one, other in zip(found, wanted)), (devices, n, metric)
""")
