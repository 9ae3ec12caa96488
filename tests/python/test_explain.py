"""The parts of a score in networks and models of factors; test_neighborhoods.py and others have the linear models."""

import numpy as np
import oracle
import pytest
import scipy.sparse
from matrices import blocks

import dsstne

# The integral stops at an error of 1e-6 of the larger score on each of its intervals, of which a wide network with ReLU
# has hundreds; the engine's scores are float32.
COMPLETE = 1e-3


def check_is_complete(model, row, item):
    """Compares the sum of the parts with the change of the score; returns the parts by item."""
    ids, parts = model.explain(row, item)
    name = next(iter(model.inputs))
    empty = scipy.sparse.csr_array((1, model.inputs[name]), dtype=np.float32)
    with_it, without = model.scores(row, [item])[0, 0], model.scores({**row, name: empty}, [item])[0, 0]
    assert (np.diff(parts) <= 0).all()
    size = max(abs(with_it), abs(without))
    np.testing.assert_allclose(parts.sum(dtype=float), with_it - without, atol=COMPLETE * size + 1e-6)
    return dict(zip(ids.tolist(), parts.tolist(), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_the_parts_of_random_networks_add_up_to_the_score_less_that_of_an_empty_row(first):
    count = 0
    for seed in range(first, first + 20):
        case = oracle.Case(seed)
        if case.model.network is None or case.rows == 0:
            continue
        row = {name: scipy.sparse.csr_array(matrix.dense[[-1]]) for name, matrix in case.inputs.items()}
        parts = check_is_complete(case.model, row, case.items // 2)
        assert sorted(parts) == np.flatnonzero(case.inputs["first"].dense[-1]).tolist()
        count += 1
    assert count > 5


@pytest.mark.parametrize(
    "options",
    [
        {"hidden": [12]},
        {"hidden": [12, 8], "activation": "relu"},
        {"hidden": [256], "activation": "relu"},
        {"hidden": [12], "activation": "linear", "tied": True},
        {"hidden": [12], "temperature": None, "loss": "sigmoid", "input_scaling": "none"},
        {"hidden": [12, 8], "activation": ["gelu", "silu"]},
        {
            "network": {
                "layers": [
                    {"name": "input", "kind": "input", "scaling": "l2"},
                    {"name": "out", "kind": "output"},
                ]
            }
        },
        {
            "network": {
                "layers": [
                    {"name": "input", "kind": "input", "scaling": "l2"},
                    {"name": "h", "kind": "hidden", "size": 8},
                    {"name": "out", "kind": "output", "sources": ["input", "h"]},
                ]
            }
        },
        {
            "network": {
                "layers": [
                    {"name": "input", "kind": "input"},
                    {"name": "h", "kind": "hidden", "size": 8, "activation": "softmax"},
                    {"name": "g", "kind": "hidden", "size": 8, "activation": "softmax", "layer_norm": True},
                    {"name": "out", "kind": "output", "sources": ["h", "g"]},
                ]
            }
        },
        {
            "network": {
                "layers": [
                    {"name": "input", "kind": "input", "scaling": "l2"},
                    {"name": "h", "kind": "hidden", "size": 8},
                    {"name": "g", "kind": "hidden", "size": 8, "skips": ["h"], "batch_norm": True},
                    {"name": "m", "kind": "merge", "function": "maximum", "sources": ["h", "g"]},
                    {"name": "c", "kind": "merge", "function": "cosine", "sources": ["m", "h", "g"]},
                    {"name": "d", "kind": "merge", "function": "dot", "sources": ["h", "g", "m"]},
                    {"name": "s", "kind": "hidden", "size": 60, "sources": ["d", "c"], "activation": "linear"},
                    {"name": "out", "kind": "output", "sources": ["m"], "skips": ["s"]},
                ]
            }
        },
        {
            "network": {
                "layers": [
                    {"name": "input", "kind": "input"},
                    {"name": "h", "kind": "hidden", "size": 12},
                    {"name": "g", "kind": "hidden", "size": 8},
                    {"name": "f", "kind": "hidden", "size": 12, "shared": "g.weight"},
                    {"name": "s", "kind": "hidden", "size": 12},
                    {
                        "name": "r",
                        "kind": "hidden",
                        "size": 12,
                        "shared": {"weight": "s.weight", "transposed": True},
                        "layer_norm": True,
                    },
                    {
                        "name": "out",
                        "kind": "output",
                        "sources": ["f", "r"],
                        "shared": [{"source": "f", "weight": "h.weight"}],
                    },
                ]
            }
        },
        {
            "network": {
                "layers": [
                    {"name": "input", "kind": "input"},
                    {"name": "z", "kind": "variational", "size": 12, "kl": {"weight": 0.1}},
                    {"name": "h", "kind": "hidden", "size": 8},
                    {"name": "y", "kind": "variational", "size": 8, "kl": {"weight": 0.1}},
                    {"name": "out", "kind": "output"},
                ]
            }
        },
    ],
    ids=str,
)
def test_the_parts_of_trained_networks_add_up_and_name_the_taste_of_the_user(X, options):
    model = dsstne.fit(X, epochs=30, batch_size=64, learning_rate=0.01, seed=1, threads=1, progress=False, **options)
    row = X[[0]].copy()
    other = np.setdiff1d(np.arange(1, 60, 6), row.indices)[0]  # an item of another group
    row = scipy.sparse.csr_array(
        row + scipy.sparse.csr_array(([1.0], ([0], [other])), shape=row.shape, dtype=np.float32)
    )
    item = np.setdiff1d(np.arange(0, 60, 6), row.indices)[0]  # another one of the user's group
    parts = check_is_complete(model, {"input": row}, item)
    own = [part for number, part in parts.items() if number % 6 == 0]
    assert np.mean(own) > parts[other]


def test_parts_are_the_integral_of_the_gradient():
    layers = [
        {"name": "in", "kind": "input", "size": 3},
        {"name": "h", "kind": "hidden", "size": 1, "activation": "sigmoid", "bias": False},
        {"name": "out", "kind": "output", "size": 1},
    ]
    model = dsstne.Model({"layers": layers})
    model.set_tensor("h.weight", [[1], [2], [-1]])
    model.set_tensor("out.weight", [[3]])
    ids, parts = model.explain(np.array([[1, 0.5, 0.5]]), 0)
    # All along the line, the gradient by item j is s'(t) 3 w_j: the parts are shares of 3 (sigmoid(1.5) - 1/2).
    whole = 3 * (1 / (1 + np.exp(-1.5)) - 0.5)
    np.testing.assert_array_equal(ids, [0, 1, 2])
    np.testing.assert_allclose(parts, whole * np.array([1, 1, -0.5]) / 1.5, rtol=1e-5)


def test_the_parts_of_two_layers_agree_with_a_fine_sum_of_differences(X):
    model = dsstne.fit(X, hidden=[12, 8], temperature=None, epochs=5, input_scaling="none", threads=1, progress=False)
    row = X[[3]].toarray().astype(float)
    ids, parts = model.explain(row, 7)
    weights = {name: model.tensor(name).astype(float) for name in model.tensors}

    def scores(rows):
        h = np.tanh(rows @ weights["hidden1.weight"] + weights["hidden1.bias"])
        h = np.tanh(h @ weights["hidden2.weight"].T + weights["hidden2.bias"])
        return h @ weights["output.weight"][7]

    steps = (np.arange(2000) + 0.5) / 2000
    for item, part in zip(ids, parts, strict=True):
        change = np.zeros(row.shape)
        change[0, item] = 1e-6
        slopes = (scores(steps[:, None] * row + change) - scores(steps[:, None] * row - change)) / 2e-6
        assert part == pytest.approx(slopes.mean(), rel=1e-4, abs=1e-6)


def test_cosines_of_a_network_whose_empty_row_has_no_direction_are_explained():
    layers = [
        {"name": "in", "kind": "input", "size": 3},
        {"name": "h", "kind": "hidden", "size": 2, "activation": "linear", "bias": False},
        {"name": "out", "kind": "output", "size": 1, "temperature": 0.5},
    ]
    model = dsstne.Model({"layers": layers})
    model.set_tensor("h.weight", [[3, 0], [0, 4], [1, 1]])
    model.set_tensor("out.weight", [[2, 0]])
    assert model.explain(np.array([[1, 1, 0]]), 0)[1].tolist() == pytest.approx([1.2, 0])  # 3 / 5 / 0.5


@pytest.mark.parametrize("method", ["ials", "explicit"])
def test_the_parts_of_factors_add_up_to_the_score_without_the_bias_of_the_item(method):
    X = blocks()
    X.data[:] = np.random.default_rng(0).integers(1, 6, X.nnz)
    model = dsstne.factorize(X, method=method, factors=8, epochs=5, threads=1, progress=False)
    for row, item in ((0, 6), (7, 3)):
        ids, parts = model.explain(X[[row]], item)
        bias = model.tensor("bias")[item] if method == "explicit" else 0
        assert sorted(ids) == X[[row]].indices.tolist()
        assert parts.sum() == pytest.approx(model.scores(X[[row]], [item])[0, 0] - bias, rel=1e-4)


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")
def test_the_parts_of_factors_are_those_of_implicit():
    als = pytest.importorskip("implicit.cpu.als")
    X = blocks()
    model = dsstne.factorize(X, factors=8, epochs=5, regularization=0.05, nu=0, unobserved_weight=1 / 3, progress=False)
    # The same equations for the factors of a row, times 3: implicit gives an observation the weight 4 and the target 1,
    # factorize the weights 3 and 1 and the targets 1 and 0, which is a target of 3/4.
    theirs = als.AlternatingLeastSquares(factors=8, regularization=0.05 * 3, num_threads=1)
    theirs.item_factors = model.tensor("factors")
    contributions = dict(theirs.explain(0, scipy.sparse.csr_matrix(4 * X[[2]]), 14, N=100)[1])
    ids, parts = model.explain(X[[2]], 14)
    assert sorted(contributions) == sorted(ids)
    np.testing.assert_allclose(parts, [contributions[n] * 3 / 4 for n in ids], rtol=1e-4, atol=1e-6)


def test_an_empty_row_has_no_parts():
    X = blocks()
    empty = scipy.sparse.csr_array((1, 60), dtype=np.float32)
    for model in (dsstne.fit(X, hidden=4, epochs=1, progress=False), dsstne.factorize(X, factors=2, progress=False)):
        ids, parts = model.explain(empty, 1)
        assert (len(ids), len(parts)) == (0, 0)


def test_what_cannot_be_explained_is_an_error(X, model):
    without_input = dsstne.Model({"layers": [{"name": "out", "kind": "output", "size": 3, "sources": []}]})
    for same in (dsstne.popularity(X), without_input):
        with pytest.raises(dsstne.NotFoundError, match="gives all rows the same scores"):
            same.explain(X[[0]], 1)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"x must be one row, such as X\[\[7\]\]; it has 240 rows"):
        model.explain(X, 1)
    with pytest.raises(dsstne.InvalidArgumentError, match="item is 60; expected 0 to 59"):
        model.explain(X[[0]], 60)
    with pytest.raises(dsstne.InvalidArgumentError, match="59 columns"):
        model.explain(X[[0], :59], 1)
    with pytest.raises(dsstne.InvalidDataError, match="row 0, column 18 holds NaN"):
        model.explain(X[[0]] * np.float32("nan"), 1)
    with pytest.raises(dsstne.NotFoundError, match="no such layer 'inputs'; did you mean 'input'"):
        model.explain({"inputs": X[[0]]}, 1)
