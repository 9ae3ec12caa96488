"""Top-k from dense factors: ours, implicit's and PyTorch's, over the same vectors and with the same items left out."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scipy import sparse

Lists = tuple[np.ndarray, np.ndarray]  # ids and scores, [rows, k]


def model_of(W: np.ndarray, H: np.ndarray) -> tuple[Any, Any]:
    """A model whose hidden vectors are H, and its input: row u holds item u alone."""
    from scipy import sparse

    import dsstne

    layers = [
        {"name": "input", "kind": "input", "size": len(H)},
        {"name": "hidden", "kind": "hidden", "size": W.shape[1], "activation": "linear", "bias": False},
        {"name": "output", "kind": "output", "size": len(W), "bias": False},
    ]
    model = dsstne.Model({"layers": layers})
    model.set_tensor("hidden.weight", H)
    model.set_tensor("output.weight", W)
    return model, dsstne.Dataset(sparse.eye_array(len(H), format="csr", dtype=np.float32))


class Ranker:
    """Ranks rows of H against W; `lists` is what a contestant does, `run` times it."""

    setting: Any = None

    def __init__(self, W: np.ndarray, H: np.ndarray, seen: sparse.csr_array, k: int, threads: int) -> None:
        self.W, self.H, self.seen, self.k, self.threads = W, H, seen, k, threads
        self.rows = len(H)

    def lists(self, rows: int) -> Lists:
        """Ranks the first ``rows`` rows."""
        raise NotImplementedError

    def run(self, rows: int, seconds: float) -> float:
        """Seconds of a call for the first ``rows`` rows; repeats the call until ``seconds`` have passed."""
        begin, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - begin < seconds:
            self.lists(rows)
            calls += 1
        return (time.perf_counter() - begin) / calls

    def choose(self, rows: int, settings: Iterable[Any]) -> str:
        """Keeps the fastest setting for this number of rows."""
        taken: dict[Any, float] = {}
        for self.setting in settings:
            self.run(rows, 0.0)
            taken[self.setting] = self.run(rows, 0.2)
        self.setting = min(taken, key=taken.__getitem__)
        return self.name()

    def name(self) -> str:
        """Who it is, with its setting."""
        raise NotImplementedError


class OurRanker(Ranker):
    """`Model.recommend` of a model whose hidden vectors are H: row u of its input holds item u alone.

    A single row is ranked by an open predictor, as a server of recommendations does it.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from scipy import sparse

        import dsstne

        self.model, self.X = model_of(self.W, self.H)
        self.exclude = dsstne.Dataset(self.seen)
        options = {"devices": "cpu", "threads": self.threads}
        self.single = self.model.predictor(self.k, exclude_seen=False, **options)
        self.first = sparse.eye_array(1, len(self.H), format="csr", dtype=np.float32), self.seen[[0]]

    def lists(self, rows: int) -> Lists:
        if rows == 1:
            return self.single.recommend(self.first[0], exclude=self.first[1])
        return self.model.recommend(
            self.X, k=self.k, exclude=self.exclude, rows=np.arange(rows), devices="cpu", threads=self.threads
        )

    def name(self) -> str:
        return "dsstne"


class Implicit(Ranker):
    """implicit's `topk`, the engine of all its recommenders; the setting is the threads of BLAS and of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from scipy import sparse

        self.seen = sparse.csr_matrix(self.seen)  # it takes rows of it, which are no CSR for a csr_array

    def choose_best(self, rows: int) -> str:
        return self.choose(rows, {(1, self.threads), (self.threads, 1), (self.threads, self.threads)})

    def lists(self, rows: int) -> Lists:
        from implicit.cpu.topk import topk
        from threadpoolctl import threadpool_limits

        blas, own = self.setting or (1, self.threads)
        if getattr(self, "_limited", None) != blas:
            self._limits = threadpool_limits(blas, user_api="blas")
            self._limited = blas
        ids, scores = topk(self.W, self.H[:rows], self.k, filter_query_items=self.seen[:rows], num_threads=own)
        return ids, scores

    def name(self) -> str:
        import implicit

        blas, own = self.setting or (1, self.threads)
        return f"implicit {implicit.__version__}: topk, {own} of its threads, {blas} of BLAS"


class Torch(Ranker):
    """A matrix product and `torch.topk`, block by block of rows; the setting is the block and the threads."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import torch

        torch.set_grad_enabled(False)
        self.torch = torch
        self.weight, self.hidden = torch.from_numpy(self.W), torch.from_numpy(self.H)
        self.row = torch.from_numpy(np.repeat(np.arange(self.rows), np.diff(self.seen.indptr)))
        self.item = torch.from_numpy(self.seen.indices.astype(np.int64))
        torch.set_num_threads(self.threads)

    def choose_best(self, rows: int) -> str:
        blocks = {min(rows, block) for block in (128, 512)}
        return self.choose(rows, list(itertools.product(blocks, {1, self.threads} if rows == 1 else {self.threads})))

    def lists(self, rows: int) -> Lists:
        block, threads = self.setting or (256, self.threads)
        if self.torch.get_num_threads() != threads:
            self.torch.set_num_threads(threads)
        ids, scores = [], []
        for begin in range(0, rows, block):
            end = min(rows, begin + block)
            all_scores = self.hidden[begin:end] @ self.weight.T
            first, last = self.seen.indptr[begin], self.seen.indptr[end]
            all_scores[self.row[first:last] - begin, self.item[first:last]] = -self.torch.inf
            top = self.torch.topk(all_scores, self.k)
            ids.append(top.indices.numpy())
            scores.append(top.values.numpy())
        return np.concatenate(ids), np.concatenate(scores)

    def name(self) -> str:
        block, threads = self.setting or (256, self.threads)
        version = self.torch.__version__.split("+")[0]
        return f"PyTorch {version}: matmul and topk, {block} rows at a time, {threads} threads"


def compare(ours: Lists, theirs: Lists) -> str:
    """How alike two results are; raises where they differ by more than the rounding of scores explains."""
    (ids, scores), (other_ids, other_scores) = ours, theirs
    difference = np.abs(scores - other_scores).max() / np.abs(scores).max()
    if not difference < 1e-5:
        raise AssertionError(f"the scores of two rankings differ by {difference:.1e}")
    same = (ids == other_ids).all(axis=1).mean()
    return "all lists equal" if same == 1 else f"{same:.2%} of the lists equal, the others in ties by rounding"


MAKERS: dict[str, Callable[..., Ranker]] = {"dsstne": OurRanker, "implicit": Implicit, "PyTorch": Torch}


def make(who: str, *arguments: Any) -> Ranker:
    """For `alternate.Contestant`."""
    return MAKERS[who](*arguments)
