"""The same networks in PyTorch on a CUDA device, as fast as its own means make them there.

`embedding_bag` with a weight per entry, dense layers, autocast for bfloat16, fused optimizers. A step, the optimizer
included, is one CUDA graph, of compiled or of eager code: whichever is faster. Batches are on the device before the
clock starts, padded with entries of weight zero to one size, which a graph needs.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from measure.alternate import UnavailableError
from torch.nn import functional

from peers.torch_network import ACTIVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measure.network import Network
    from scipy import sparse
    from torch import Tensor

FIELDS = ("items", "weights", "offsets", "rows", "targets", "counted")


class TorchDevice:
    """Trains a network on a matrix; the methods are those of `gpu.ours.Ours`."""

    def __init__(self, X: sparse.csr_array, network: Network, device: str = "cuda") -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise UnavailableError("PyTorch has no device here")
        self.X, self.network, self.device = X, network, torch.device(device)
        self.indptr, self.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
        self.values = X.data.astype(np.float32)
        lengths = np.diff(self.indptr)
        if network.scaling == "l2":
            row = np.repeat(np.arange(X.shape[0]), lengths)
            norm = np.sqrt(np.bincount(row, self.values.astype(np.float64) ** 2, X.shape[0]))
            self.values = (self.values / norm[row]).astype(np.float32)
        self.random = np.random.default_rng(0)
        # What does not fill a batch is left out, which favours this side.
        size, order = network.batch_size, self.random.permutation(X.shape[0])
        whole = [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        self.capacity = max(int(lengths[rows].sum()) for rows in whole)
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = network.precision == "tensorfloat32"
        torch.set_float32_matmul_precision("high" if network.precision == "tensorfloat32" else "highest")
        try:
            self._build(X.shape[1])
            self.batches = [self._batch(rows) for rows in whole]
            self.setting, self.step, self.tried = self._fastest()
        except torch.cuda.OutOfMemoryError as error:
            raise UnavailableError(f"PyTorch does not fit: {str(error).split('.')[0]}") from error

    def _build(self, items: int) -> None:
        net = self.network
        sizes = [(items, net.hidden[0]), *((b, a) for a, b in itertools.pairwise(net.hidden)), (items, net.hidden[-1])]
        self.matrices = [self._parameter(*size) for size in sizes]
        self.biases = [torch.zeros(size, device=self.device, requires_grad=True) for size in net.hidden]
        self.output_bias = torch.zeros(items, device=self.device, requires_grad=True) if net.output_bias else None
        self.parameters = [*self.matrices, *self.biases, *([] if self.output_bias is None else [self.output_bias])]
        rate, graphs = net.learning_rate, self.device.type == "cuda"
        if net.optimizer == "adam":
            self.optimizer: Any = torch.optim.Adam(self.parameters, lr=rate, fused=True, capturable=graphs)
        elif net.optimizer == "rmsprop":
            self.optimizer = torch.optim.RMSprop(self.parameters, lr=rate, alpha=0.9, foreach=True, capturable=graphs)
        else:
            momentum = 0.9 if net.optimizer == "momentum" else 0.0
            self.optimizer = torch.optim.SGD(self.parameters, lr=rate, momentum=momentum, fused=True)
        size = net.batch_size
        numbers = {"items": torch.int64, "rows": torch.int64, "targets": torch.int64}
        self.static = {
            name: torch.zeros(
                size if name == "offsets" else self.capacity,
                dtype=torch.int64 if name == "offsets" else numbers.get(name, torch.float32),
                device=self.device,
            )
            for name in FIELDS
        }

    def _parameter(self, rows: int, columns: int) -> Tensor:
        bound = math.sqrt(6 / (rows + columns))
        return torch.empty(rows, columns, device=self.device).uniform_(-bound, bound).requires_grad_()

    def _batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        ends = np.cumsum(lengths)
        where = np.repeat(self.indptr[rows] - ends + lengths, lengths) + np.arange(ends[-1])
        targets, row = self.indices[where], np.repeat(np.arange(len(rows)), lengths)
        items, weights, kept = targets, self.values[where], lengths
        if (p := self.network.denoising) > 0:
            keep = self.random.random(len(items), dtype=np.float32) >= p
            items, weights = items[keep], weights[keep] / np.float32(1 - p)
            kept = np.bincount(row[keep], minlength=len(rows))
        arrays = {
            "items": self._padded(items),
            "weights": self._padded(weights),
            "offsets": np.cumsum(kept) - kept,
            "rows": self._padded(row),
            "targets": self._padded(targets),
            "counted": self._padded(np.ones(len(targets), np.float32)),
        }
        return {name: torch.from_numpy(a).to(self.device) for name, a in arrays.items()}

    def _padded(self, a: np.ndarray) -> np.ndarray:
        return np.concatenate([a, np.zeros(self.capacity - len(a), a.dtype)])

    # ---- a step ----

    def _loss(self) -> Tensor:
        net, s = self.network, self.static
        act = ACTIVATIONS[net.activation]
        bag = functional.embedding_bag(
            s["items"], self.matrices[0], s["offsets"], mode="sum", per_sample_weights=s["weights"]
        )
        h = functional.dropout(act(bag + self.biases[0]), net.dropout)
        for weight, bias in zip(self.matrices[1:-1], self.biases[1:], strict=True):
            h = functional.dropout(act(functional.linear(h, weight, bias)), net.dropout)
        output = self.matrices[-1]
        if net.temperature is not None:
            h, output = functional.normalize(h) / net.temperature, functional.normalize(output)
        z = functional.linear(h, output, self.output_bias)
        hit = (z[s["rows"], s["targets"]].float() * s["counted"]).sum()
        if net.loss == "softmax":
            return ((torch.logsumexp(z.float(), dim=1)[s["rows"]] * s["counted"]).sum() - hit) / net.batch_size
        return (functional.softplus(z.float()).sum() - hit) / net.batch_size

    def _body(self, loss: Callable[[], Tensor]) -> Callable[[], None]:
        def body() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with self._precision():
                value = loss()
            value.backward()
            self.optimizer.step()

        return body

    @contextlib.contextmanager
    def _precision(self) -> Iterator[None]:
        if self.network.precision == "bfloat16":
            with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False):
                yield
        else:
            yield

    def _captured(self, body: Callable[[], None]) -> Callable[[], None]:
        """The body as a graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                body()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            body()
        return graph.replay

    def _fastest(self) -> tuple[str, Callable[[], None], dict[str, float]]:
        """Eager and compiled code, as graphs if these work at all; what does not work is not raced."""
        losses: dict[str, Callable[[], Tensor]] = {
            "eager": self._loss,
            "compiled": torch.compile(self._loss, dynamic=False),
        }
        ways = {"one CUDA graph a step": self._captured} if self.device.type == "cuda" else {}
        failed: list[str] = []
        self._put(self.batches[0])
        for way, prepared in {**ways, "no graph": lambda body: body}.items():
            tried: dict[str, float] = {}
            for name, loss in losses.items():
                try:
                    tried[name] = self._seconds(prepared(self._body(loss)))
                except Exception as error:
                    failed.append(f"{name}, {way}: {(str(error).splitlines() or [repr(error)])[0]}")
                self._forget()  # a graph keeps memory of its own
            if tried:
                best = min(tried, key=tried.__getitem__)
                return f"{best}, {way}", prepared(self._body(losses[best])), tried
        raise UnavailableError("PyTorch: " + "; ".join(failed))

    def _forget(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def _seconds(self, step: Callable[[], None]) -> float:
        taken = []
        for _ in range(6):
            self._wait()
            begin = time.perf_counter()
            step()
            self._wait()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken[1:])

    def _put(self, batch: dict[str, Tensor]) -> None:
        for name in FIELDS:
            self.static[name].copy_(batch[name])

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    # ---- what is raced ----

    def run(self, steps: int) -> float:
        """Seconds of a step."""
        self._wait()
        begin = time.perf_counter()
        for batch in itertools.islice(itertools.cycle(self.batches), steps):
            self._put(batch)
            self.step()
        self._wait()
        return (time.perf_counter() - begin) / steps

    def epoch(self) -> float:
        """Seconds of an epoch of whole batches, scaled to all rows."""
        whole = len(self.batches)
        return self.run(whole) * self.X.shape[0] / self.network.batch_size

    def memory(self) -> dict[str, int]:
        """Bytes that it holds at most, and those of weights and optimizer's state."""
        states = {"adam": 2, "momentum": 1, "rmsprop": 1}.get(self.network.optimizer, 0)
        kept = sum(4 * p.numel() for p in self.parameters) * (1 + states)
        most = torch.cuda.max_memory_reserved() if self.device.type == "cuda" else 0
        return {"most": most, "kept": kept}

    def name(self) -> str:
        """The setting, in words."""
        return f"PyTorch {torch.__version__.split('+')[0]}: {self.setting}"


def make(*arguments: Any) -> TorchDevice:
    """For `alternate.Contestant`."""
    return TorchDevice(*arguments)
