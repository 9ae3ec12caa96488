"""The same networks in PyTorch, as fast as its own means make them on a CPU.

Sparse input through `embedding_bag` with a weight per entry, dense hidden layers and output; `torch_settings` tells
what is tried. Batches are made before the clock starts, as a loader on cores of its own would.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from peers import torch_settings
from peers.torch_settings import Optimizer, Setting, precision_of, xavier

if TYPE_CHECKING:
    from collections.abc import Callable

    from measure.network import Network
    from scipy import sparse

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "linear": lambda x: x,
}


class Batch:
    """A batch with the entries of the input (after denoising) and of the target."""

    def __init__(
        self, items: Tensor, weights: Tensor, offsets: Tensor, rows: Tensor, targets: Tensor, size: int
    ) -> None:
        self.items, self.weights, self.offsets = items, weights, offsets
        self.rows, self.targets, self.size = rows, targets, size


class TorchNetwork:
    """Trains a network on a matrix; the methods are those that `ours.Ours` has."""

    def __init__(self, X: sparse.csr_array, network: Network, threads: int) -> None:
        self.network, self.items, self.rows, self.threads = network, X.shape[1], X.shape[0], threads
        self.indptr = X.indptr.astype(np.int64)
        self.indices = X.indices.astype(np.int64)
        self.lengths = np.diff(self.indptr)
        self.values = X.data.astype(np.float32)
        if network.scaling == "l2":
            row = np.repeat(np.arange(self.rows), self.lengths)
            norm = np.sqrt(np.bincount(row, self.values.astype(np.float64) ** 2, self.rows))
            self.values = (self.values / norm[row]).astype(np.float32)
        self._functions: dict[Setting, Callable[[Batch], Tensor]] = {}
        torch.set_num_threads(threads)
        self.start(0)
        self.setting, self.tried = self._fastest()
        torch.set_num_threads(self.setting.threads)
        self.start(0)

    def start(self, seed: int) -> None:
        """New weights and a new optimizer."""
        torch.manual_seed(seed)
        self.random = np.random.default_rng(seed)
        net = self.network
        with torch.no_grad():
            fresh = [xavier(self.items, net.hidden[0])]
            fresh += [xavier(b, a) for a, b in itertools.pairwise(net.hidden)]
            fresh += [torch.zeros(size, requires_grad=True) for size in net.hidden]
            fresh += [xavier(self.items, net.hidden[-1])]
            fresh += [torch.zeros(self.items, requires_grad=True)] * net.output_bias
        layers = len(net.hidden)
        self.input, self.dense, self.biases = fresh[0], fresh[1:layers], fresh[layers : 2 * layers]
        self.output, self.output_bias = fresh[2 * layers], fresh[-1] if net.output_bias else None
        self.optimizer = Optimizer(net.optimizer, fresh, net.learning_rate)

    def epoch(self) -> dict[str, float]:
        """Trains for an epoch: loss (mean over the rows) and seconds."""
        batches = [self._batch(rows, training=True) for rows in self._shuffled()]
        begin = time.perf_counter()
        total = sum(self._step(batch, self.setting) * batch.size for batch in batches)
        return {"loss": total / self.rows, "seconds": time.perf_counter() - begin}

    def run(self, steps: int) -> float:
        """Seconds of a step."""
        batches = [self._batch(rows, training=True) for rows in self._shuffled()[:steps]]
        begin = time.perf_counter()
        for batch in itertools.islice(itertools.cycle(batches), steps):
            self._step(batch, self.setting)
        return (time.perf_counter() - begin) / steps

    def evaluate(self, held_out: sparse.csr_array, k: int = 20) -> dict[str, float]:
        """Recall and NDCG of the rows that have held-out items, without the items of the input."""
        discount = 1 / np.log2(np.arange(2, k + 2))
        recall, ndcg = [], []
        for rows in np.array_split(np.arange(self.rows), max(1, self.rows // 512)):
            batch = self._batch(rows, training=False)
            with torch.no_grad():
                scores = self._logits(batch, training=False)
                scores[batch.rows, batch.targets] = -torch.inf
                top = torch.topk(scores, k).indices.numpy()
            wanted = held_out[rows]
            count = np.diff(wanted.indptr)
            hits = np.take_along_axis(wanted.toarray(), top, axis=1)[count > 0] > 0
            count = count[count > 0]
            recall.append(hits.sum(axis=1) / count)
            ndcg.append(hits @ discount / np.cumsum(discount)[np.minimum(count, k) - 1])
        return {f"recall@{k}": float(np.concatenate(recall).mean()), f"ndcg@{k}": float(np.concatenate(ndcg).mean())}

    def name(self) -> str:
        """What was found to be fastest, in words."""
        return f"PyTorch {torch.__version__.split('+')[0]}: {self.setting}"

    def variants(self) -> dict[str, float]:
        """Seconds per step of everything that was tried."""
        return self.tried

    def _shuffled(self) -> list[np.ndarray]:
        order = self.random.permutation(self.rows)
        return [order[i : i + self.network.batch_size] for i in range(0, self.rows, self.network.batch_size)]

    def _batch(self, rows: np.ndarray, training: bool) -> Batch:
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        where = np.repeat(self.indptr[rows] - ends + lengths, lengths) + np.arange(ends[-1])
        targets, row = self.indices[where], np.repeat(np.arange(len(rows)), lengths)
        items, weights, kept = targets, self.values[where], lengths
        p = self.network.denoising
        if training and p > 0:
            keep = self.random.random(len(items), dtype=np.float32) >= p
            items, weights = items[keep], weights[keep] / np.float32(1 - p)
            kept = np.bincount(row[keep], minlength=len(rows))
        offsets = np.cumsum(kept) - kept
        arrays = (torch.from_numpy(a) for a in (items, weights, offsets, row, targets))
        return Batch(*arrays, size=len(rows))

    def _step(self, batch: Batch, setting: Setting) -> float:
        # The last, shorter batch of an epoch stays eager: a second shape would make the compiled code slower.
        compiled = setting.compiled and batch.size == self.network.batch_size
        self.optimizer.clear(set_to_none=True)
        with precision_of(self.network.precision):
            loss = self._compiled(setting)(batch) if compiled else self._loss(batch, setting)
        loss.backward()
        self.optimizer.step(setting.compiled_optimizer)
        return loss.item()

    def _compiled(self, setting: Setting) -> Callable[[Batch], Tensor]:
        if setting not in self._functions:
            size = self.network.batch_size
            whole = torch.compile(lambda *tensors: self._loss(Batch(*tensors, size=size), setting))

            def call(batch: Batch) -> Tensor:
                tensors = (batch.items, batch.weights, batch.offsets, batch.rows, batch.targets)
                for tensor in (batch.items, batch.weights, batch.rows, batch.targets):
                    torch._dynamo.mark_dynamic(tensor, 0)  # the number of entries differs from batch to batch
                return whole(*tensors)

            self._functions[setting] = call
        return self._functions[setting]

    def _logits(self, batch: Batch, training: bool) -> Tensor:
        net = self.network
        bag = functional.embedding_bag(
            batch.items, self.input, batch.offsets, mode="sum", per_sample_weights=batch.weights
        )
        act = ACTIVATIONS[net.activation]
        h = functional.dropout(act(bag + self.biases[0]), net.dropout, training)
        for weight, bias in zip(self.dense, self.biases[1:], strict=True):
            h = functional.dropout(act(functional.linear(h, weight, bias)), net.dropout, training)
        if net.temperature is None:
            return functional.linear(h, self.output, self.output_bias)
        return functional.linear(
            functional.normalize(h) / net.temperature, functional.normalize(self.output), self.output_bias
        )

    def _loss(self, batch: Batch, setting: Setting) -> Tensor:
        z = self._logits(batch, training=True)
        return torch_settings.loss(z, batch.rows, batch.targets, self.network.loss, batch.size, setting)

    def _fastest(self) -> tuple[Setting, dict[str, float]]:
        batches = itertools.cycle([self._batch(rows, training=True) for rows in self._shuffled()[:6]])

        def run(setting: Setting) -> None:
            torch.set_num_threads(setting.threads)
            self._step(next(batches), setting)

        net = self.network
        operations = net.operations(self.items, stored_logits=True)
        return torch_settings.search(
            run, threads=self.threads, operations=operations, precision=net.precision, optimizer=net.optimizer
        )


def make(*arguments: Any) -> TorchNetwork:
    """For `alternate.Contestant`."""
    return TorchNetwork(*arguments)
