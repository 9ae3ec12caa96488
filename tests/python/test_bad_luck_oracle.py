"""Random valid input gives what NumPy computes; `make fuzz-long` tries many more cases."""

import warnings

import numpy as np
import oracle
import pytest
import scipy.sparse

import dsstne


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_random_cases_give_what_numpy_computes(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # all held-out items of a case may be excluded
        for seed in range(first, first + 30):
            oracle.run(seed)


def test_the_first_of_several_outputs_is_ranked_unless_a_call_names_another(X):
    layers = [{"name": "in", "kind": "input", "size": X.shape[1]}, {"name": "h", "kind": "hidden", "size": 3}]
    layers += [{"name": name, "kind": "output", "size": size, "sources": ["h"]} for name, size in (("a", 7), ("b", 5))]
    model = dsstne.Model({"layers": layers}, seed=1)
    held_out = scipy.sparse.csr_array(np.eye(X.shape[0], 7, dtype=np.float32))
    assert (model.predict(X) == model.predict(X, "a")).all()
    assert (model.scores(X, [6, 0]) == model.predict(X, "a")[:, [6, 0]]).all()
    assert (model.recommend(X, 7)[0] == model.recommend(X, 7, layer="a")[0]).all()
    assert dsstne.evaluate(model, X, held_out) == dsstne.evaluate(model, X, held_out, layer="a")
    assert model.plan(X, k=7)["operations"] == model.plan(X, k=7, layer="a")["operations"]


def test_a_part_of_larger_arrays_is_evaluated_although_every_metric_is_zero():
    part = scipy.sparse.csr_array((1, 3), dtype=np.float32)
    part.data, part.indices, part.indptr = np.ones(3, np.float32), np.array([2, 0, 1], np.int32), np.array([1, 3])
    with pytest.warns(UserWarning, match="all held-out items are excluded as seen"):
        assert dsstne.evaluate(dsstne.popularity(part), part, np.array([[1, 1, 0]]), "recall@1") == {"recall@1": 0}
