"""Top-k of the same vectors on a CUDA device: ours, PyTorch's product and `topk`, and cuVS where it is installed."""

from __future__ import annotations

import importlib.util
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measure.alternate import UnavailableError
from measure.synthetic import interactions

from peers.rankers import model_of

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 1 << 14  # rows that are drawn; further ones are these, scaled


def vectors(items: int, units: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """W [items, units] and H [rows, units] of about normal numbers, made quickly and alike in every process."""
    random = np.random.default_rng(0)
    drawn = random.standard_normal((min(items, BLOCK), units), dtype=np.float32)
    W = np.empty((items, units), np.float32)
    for begin in range(0, items, BLOCK):
        part = W[begin : begin + BLOCK]
        scale = random.uniform(0.5, 1.5, (len(part), 1)).astype(np.float32)
        np.multiply(drawn[: len(part)], scale, out=part)
    return W, random.standard_normal((rows, units), dtype=np.float32)


class DeviceRanker:
    """Ranks rows of H against W without what each row has seen."""

    def __init__(self, items: int, units: int, rows: int, k: int) -> None:
        self.W, self.H = vectors(items, units, rows)
        self.seen = interactions(rows, items, min(144, items // 8))
        self.k, self.rows = k, rows

    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and scores of all rows."""
        raise NotImplementedError

    def run(self, seconds: float) -> float:
        """Seconds of a call for all rows, with the result on the host; repeated until `seconds` have passed."""
        begin, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - begin < seconds:
            self.lists()
            calls += 1
        return (time.perf_counter() - begin) / calls

    def name(self) -> str:
        """Who it is, with its setting."""
        raise NotImplementedError


class OurDeviceRanker(DeviceRanker):
    """An open predictor of a model whose hidden vectors are H: row u of its input holds item u alone."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from scipy import sparse

        model, _ = model_of(self.W, self.H)
        self.predictor = model.predictor(k=self.k, devices="cuda:0", batch_size=self.rows)
        self.X = sparse.eye_array(self.rows, format="csr", dtype=np.float32)

    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        return self.predictor.recommend(self.X, exclude=self.seen)

    def name(self) -> str:
        return "dsstne"


class TorchDeviceRanker(DeviceRanker):
    """A matrix product and `torch.topk`; in bfloat16 the lists are not exact."""

    def __init__(self, precision: str, *arguments: Any) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UnavailableError("PyTorch has no device here")
        super().__init__(*arguments)
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.precision = torch, precision
        kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self.weight, self.hidden = (torch.from_numpy(a).to("cuda", kind) for a in (self.W, self.H))
        self.row = torch.from_numpy(np.repeat(np.arange(self.rows), np.diff(self.seen.indptr))).cuda()
        self.item = torch.from_numpy(self.seen.indices.astype(np.int64)).cuda()

    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        scores = self.hidden @ self.weight.T
        scores[self.row, self.item] = -self.torch.inf
        top = self.torch.topk(scores, self.k)
        return top.indices.cpu().numpy(), top.values.float().cpu().numpy()

    def name(self) -> str:
        return f"PyTorch {self.torch.__version__.split('+')[0]}: product in {self.precision}, and topk"


class CuvsRanker(DeviceRanker):
    """cuVS's brute force by inner product; it leaves nothing out, which is less to do."""

    def __init__(self, *arguments: Any) -> None:
        missing = [name for name in ("cupy", "cuvs") if importlib.util.find_spec(name) is None]
        if missing:
            raise UnavailableError(f"cuVS cannot take part: not installed: {', '.join(missing)}")
        import cupy
        from cuvs.neighbors import brute_force

        super().__init__(*arguments)
        self.cupy, self.brute_force = cupy, brute_force
        self.index = brute_force.build(cupy.asarray(self.W), metric="inner_product")
        self.queries = cupy.asarray(self.H)

    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        scores, ids = self.brute_force.search(self.index, self.queries, self.k)
        return self.cupy.asnumpy(self.cupy.asarray(ids)), self.cupy.asnumpy(self.cupy.asarray(scores))

    def name(self) -> str:
        return "cuVS: brute force, nothing left out"


MAKERS: dict[str, Callable[..., DeviceRanker]] = {
    "dsstne": OurDeviceRanker,
    "PyTorch": lambda *arguments: TorchDeviceRanker("float32", *arguments),
    "PyTorch bfloat16": lambda *arguments: TorchDeviceRanker("bfloat16", *arguments),
    "cuVS": CuvsRanker,
}


def make(who: str, *arguments: Any) -> DeviceRanker:
    """For `alternate.Contestant`."""
    return MAKERS[who](*arguments)
