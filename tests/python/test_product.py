"""A product of datasets has the bits of SciPy's product in float64, and works wherever a dataset does."""

import numpy as np
import pyarrow.ipc
import pytest
import scipy.sparse
from matrices import blocks, valued

import dsstne


def features(items=60, width=40, seed=3):
    random = np.random.default_rng(seed)
    return scipy.sparse.random_array((items, width), density=0.2, format="csr", dtype=np.float32, rng=random)


def product(X, F):
    """The product in float64, rounded, without zeros."""
    X, F = X.astype(np.float64), F.astype(np.float64)
    X.sum_duplicates()
    F.sum_duplicates()
    made = (X @ F).astype(np.float32)
    made.sort_indices()
    made.eliminate_zeros()
    return made


def rows_of(data, folder):
    """The rows of a dataset, by way of a file."""
    data.save(folder / "product.arrow")
    table = pyarrow.ipc.open_file(folder / "product.arrow").read_all()
    return [[(e["index"], e["value"]) for e in row] for row in table["items"].to_pylist()]


def weights(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


@pytest.mark.parametrize("X", [blocks(), valued(), blocks().astype(bool), blocks()[:0]])
def test_a_product_is_that_of_scipy(X, tmp_path):
    F = features()
    want = product(X, F)
    with dsstne.Dataset.product(X, F) as data:
        assert (data.shape, data.nnz) == (want.shape, want.nnz)
        got = rows_of(data, tmp_path)
    pairs = zip(want.indptr, want.indptr[1:], strict=False)
    assert got == [[(want.indices[n], want.data[n]) for n in range(begin, end)] for begin, end in pairs]


@pytest.mark.parametrize("devices", ["cpu", "cpu:3"])
def test_training_with_a_product_has_the_bits_of_the_matrix(devices):
    X, F = valued(), features()
    options = {"hidden": [8], "loss": "squared", "epochs": 3, "batch_size": 64, "seed": 3, "progress": False}
    with dsstne.Dataset.product(X, F) as data:
        for threads in (1, 2):
            got = dsstne.fit(data, devices=devices, threads=threads, **options)
            assert weights(got) == weights(dsstne.fit(product(X, F), devices=devices, **options))


def test_a_network_takes_items_and_their_features():
    X, F = blocks(), features()
    network = {
        "layers": [
            {"name": "input", "kind": "input", "size": 60},
            {"name": "features", "kind": "input", "size": 40},
            {"name": "hidden", "kind": "hidden", "size": 8, "sources": ["input", "features"]},
            {"name": "output", "kind": "output", "size": 60, "sources": ["hidden"]},
        ]
    }
    trained = []
    with dsstne.Dataset.product(X, F) as data:
        for given in (data, product(X, F)):
            model = dsstne.Model(network, seed=1)
            with dsstne.Trainer(model, {"input": X, "features": given}, X, batch_size=64) as trainer:
                trainer.run(epochs=2)
            trained.append((weights(model), model.recommend({"input": X, "features": given})[0].tobytes()))
    assert trained[0] == trained[1]


def test_the_matrices_stay_open_until_the_product_is_closed():
    with dsstne.Dataset(blocks()) as X, dsstne.Dataset(features()) as F:
        data = dsstne.Dataset.product(X, F)
        for part in (X, F):
            with pytest.raises(dsstne.BusyError):
                part.close()
        data.close()


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(dsstne.InvalidArgumentError, match="has 60 columns, but the second has 59 rows"):
        dsstne.Dataset.product(blocks(), features(59))


def test_sums_that_are_too_large_are_refused():
    X = scipy.sparse.csr_array(np.full((1, 2), 3e20, np.float32))
    with pytest.raises(dsstne.InvalidDataError, match=r"row 0: column 0 of the product is 1\.8e\+41"):
        dsstne.Dataset.product(X, X.T.tocsr())


def test_a_matrix_that_is_not_one_is_named():
    with pytest.raises(dsstne.InvalidArgumentError, match="F is None"):
        dsstne.Dataset.product(blocks(), None)


def test_a_dataset_has_a_product_with_itself_and_a_product_has_one():
    A = features(30, 30)
    want = product(A, A)
    with dsstne.Dataset(A) as data, dsstne.Dataset.product(data, data) as square:
        assert square.nnz == want.nnz
        with dsstne.Dataset.product(square, data) as cube:
            assert cube.shape == (30, 30)


MEMORY = """
import numpy as np, dsstne, scipy.sparse
def kilobytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
def use(rows):
    random = np.random.default_rng(0)
    def matrix(height, width, each):
        ends = np.arange(height + 1, dtype=np.int32) * each
        indices = random.integers(0, width, height * each, dtype=np.int32)
        return scipy.sparse.csr_array((np.ones(height * each, np.float32), indices, ends), shape=(height, width))
    X, F = dsstne.Dataset(matrix(rows, 300, 12)), dsstne.Dataset(matrix(300, 4000, 60))
    product = dsstne.Dataset.product(X, F)
    dsstne.fit(product, hidden=[4], epochs=1, batch_size=64, denoising=0, threads=2, progress=False).close()
    return kilobytes(), product
before, _ = use(500)
after, product = use(5000)
print(after - before, product.nnz)
"""


@pytest.mark.long
def test_a_product_is_not_stored(python):
    grown, entries = map(int, python(MEMORY).split())
    assert 8 * entries > 24_000_000  # bytes, if it were
    assert grown < 6000  # kilobytes
