"""docs/coming-from-implicit.md names everything that implicit has, and its code runs."""

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import dsstne

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coming-from-implicit.md").read_text(encoding="utf-8")


def public_names(tree):
    """Yields the public functions, classes and methods of a module; what it defines inside functions is not public."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name
            if isinstance(node, ast.ClassDef):
                yield from public_names(node)


FILES = ("als", "bpr", "annoy", "faiss", "nmslib")


def parameters(tree):
    """The parameters of the public methods and constructors of a module."""
    methods = [f for node in tree.body if isinstance(node, ast.ClassDef) for f in node.body]
    methods = [f for f in methods if isinstance(f, ast.FunctionDef) and (f.name == "__init__" or f.name[0] != "_")]
    return {argument.arg for f in methods for argument in f.args.args + f.args.kwonlyargs}


def test_the_page_names_every_public_function_class_and_method_of_implicit():
    spec = importlib.util.find_spec("implicit")
    if spec is None:
        pytest.skip("implicit is not installed")
    names = set()
    for compiled in ("evaluation", "_nearest_neighbours", "cpu.topk", "cpu.bpr", "cpu.lmf"):
        module = pytest.importorskip(f"implicit.{compiled}")
        own = [n for n, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
        names |= {n for n in own if n[0] != "_"}
    for path in Path(spec.origin).parent.rglob("*.py"):
        names |= set(public_names(ast.parse(path.read_text(encoding="utf-8"))))
    assert len(names) > 70
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_page_names_every_parameter_and_attribute_of_the_models_of_implicit():
    neighbours, names = pytest.importorskip("implicit.nearest_neighbours"), set()
    modules = ["nearest_neighbours", *(f"{part}.{name}" for part in ("cpu", "gpu", "ann") for name in FILES)]
    for module in modules:
        path = Path(neighbours.__file__).parent / (module.replace(".", "/") + ".py")
        if path.exists():
            names |= parameters(ast.parse(path.read_text(encoding="utf-8")))
    bpr, lmf = pytest.importorskip("implicit.cpu.bpr"), pytest.importorskip("implicit.cpu.lmf")
    for kind in (bpr.BayesianPersonalizedRanking, lmf.LogisticMatrixFactorization):
        names |= {name for method in (kind.__init__, kind.fit) for name in inspect.signature(method).parameters}
    model = neighbours.ItemItemRecommender(K=3)
    names |= {name for name in vars(model) if name[0] != "_"}
    assert {"use_cg", "neg_prop", "verify_negative_samples", "similarity"} <= names
    names -= {"self", "cls", "Cui", "args", "kwargs"}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", PAGE)] == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")
def test_the_code_of_the_page_runs_and_both_libraries_recommend_similar_lists():
    pytest.importorskip("implicit.als")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    assert names["ids"].shape == names["their_ids"].shape == (100, 10)
    assert names["mean_overlap"] > 0.7  # 0.78 to 0.86 for 8 to 64 factors


class Theirs:
    """A model with the method that implicit's metrics call."""

    def __init__(self, model):
        self.model = model

    def recommend(self, users, user_items, **options):
        return self.model.recommend(user_items, options["N"])


def test_metrics_are_those_of_implicit(X):
    evaluation = pytest.importorskip("implicit.evaluation")
    given, held_out = dsstne.datasets.hold_out(X, 0.4)
    model = dsstne.item_knn(given, progress=False)
    train, test = scipy.sparse.csr_matrix(given), scipy.sparse.csr_matrix(held_out)
    theirs = evaluation.ranking_metrics_at_k(Theirs(model), train, test, K=5, show_progress=False)
    metrics = ["ndcg@5", "map@5", "truncated_recall@5"]
    ours = dsstne.evaluate(model, given, held_out, metrics, per_row=True)
    assert np.nanmean(ours["ndcg@5"]) == pytest.approx(theirs["ndcg"])
    assert np.nanmean(ours["map@5"]) == pytest.approx(theirs["map"])
    possible = np.minimum(np.diff(held_out.indptr), 5)
    hits = np.nansum(ours["truncated_recall@5"] * possible)
    assert hits / possible.sum() == pytest.approx(theirs["precision"])


@pytest.mark.filterwarnings("ignore:Method expects CSR input")
@pytest.mark.parametrize(
    ("recommender", "metric", "weighted"),
    [
        ("ItemItemRecommender", "dot", lambda X: X),
        ("CosineRecommender", "cosine", lambda X: X),
        ("TFIDFRecommender", "cosine", lambda X: dsstne.tfidf_weight(X.T).T),
        ("BM25Recommender", "dot", lambda X: dsstne.bm25_weight(X.T, 1.2, 0.75).T),
    ],
)
def test_neighbours_of_items_are_those_of_implicit(X, recommender, metric, weighted):
    neighbours = pytest.importorskip("implicit.nearest_neighbours")
    theirs = getattr(neighbours, recommender)(K=8, num_threads=1)
    theirs.fit(scipy.sparse.csr_matrix(X.astype(float)), show_progress=False)
    model = dsstne.item_knn(weighted(X), k=7, metric=metric, shrink=0, progress=False)
    _, scores = model.similar_items(np.arange(60), k=7)
    for item in range(60):
        their_ids, their_scores = theirs.similar_items(item, N=8)
        np.testing.assert_allclose(scores[item], their_scores[their_ids != item][:7], rtol=1e-5)
