"""TF-IDF and BM25, which weight the entries of a matrix."""

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne


@pytest.fixture
def counts():
    X = blocks()
    X.data[:] = np.random.default_rng(0).integers(1, 50, X.nnz)
    return X


def test_weights_are_those_of_the_formulas(counts):
    n, d = counts.shape[0], (counts.toarray() > 0).sum(axis=0)
    idf = np.log(n / (1 + d))
    dense, lengths = counts.toarray().astype(float), counts.toarray().sum(axis=1, keepdims=True, dtype=float)
    np.testing.assert_allclose(dsstne.tfidf_weight(counts).toarray(), np.sqrt(dense) * idf, rtol=1e-6)
    norm = 0.25 + 0.75 * lengths / lengths.mean()
    expected = dense * 2.2 / (dense + 1.2 * norm) * idf
    np.testing.assert_allclose(dsstne.bm25_weight(counts, k1=1.2, b=0.75).toarray(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["tfidf_weight", "bm25_weight"])
def test_they_are_those_of_implicit(counts, name):
    theirs = pytest.importorskip("implicit.nearest_neighbours")
    weights = getattr(theirs, name)(counts)
    np.testing.assert_allclose(getattr(dsstne, name)(counts).toarray(), weights.toarray(), rtol=1e-5)


@pytest.mark.parametrize("weight", [dsstne.tfidf_weight, dsstne.bm25_weight])
def test_the_matrix_is_not_changed_and_kinds_of_matrices_do_not_matter(counts, weight):
    before = counts.copy()
    expected = weight(counts).toarray()
    assert expected.dtype == np.float32
    assert (counts != before).nnz == 0
    for other in (counts.tocsc(), counts.astype(np.int64), counts.toarray(), counts.tocoo()):
        np.testing.assert_array_equal(weight(other).toarray(), expected)
    assert weight(scipy.sparse.csr_array((3, 2))).shape == (3, 2)


def test_mistakes_are_refused(counts):
    for k1, b, message in ((0, 0.5, "k1 must be above 0"), (1, 1.5, "b must be from 0 to 1"), (np.inf, 0, "finite")):
        with pytest.raises(dsstne.InvalidArgumentError, match=message):
            dsstne.bm25_weight(counts, k1=k1, b=b)
    with pytest.raises(dsstne.InvalidDataError, match="counts are not negative"):
        dsstne.tfidf_weight(-counts)
