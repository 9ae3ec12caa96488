"""The same networks in PyTorch, as fast as its own means make them on a CPU.

Sparse input through `embedding_bag` with a weight per entry, dense hidden layers and output, fused optimizer. Two
ways of writing the loss, eager and compiled, are tried on real batches, and the fastest is kept: `variant`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy import sparse
    from settings import Network

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "linear": lambda x: x,
}

FORMS = ("plain", "gathered")  # ways to write the loss


class Batch:
    """A batch with the entries of the input (after denoising) and of the target."""

    def __init__(
        self, items: Tensor, weights: Tensor, offsets: Tensor, rows: Tensor, targets: Tensor, size: int
    ) -> None:
        self.items, self.weights, self.offsets = items, weights, offsets
        self.rows, self.targets, self.size = rows, targets, size


class TorchPeer:
    """Trains a network on a matrix; the methods are those that `ours.Ours` has."""

    def __init__(self, X: sparse.csr_array, network: Network, threads: int) -> None:
        torch.set_num_threads(threads)
        self.network, self.items, self.rows = network, X.shape[1], X.shape[0]
        self.indptr = X.indptr.astype(np.int64)
        self.indices = X.indices.astype(np.int64)
        self.lengths = np.diff(self.indptr)
        self.values = X.data.astype(np.float32)
        if network.scaling == "l2":
            row = np.repeat(np.arange(self.rows), self.lengths)
            norm = np.sqrt(np.bincount(row, self.values.astype(np.float64) ** 2, self.rows))
            self.values = (self.values / norm[row]).astype(np.float32)
        self.start(0)
        self.variant = self._fastest()
        self.start(0)

    def start(self, seed: int) -> None:
        """New weights and a new optimizer."""
        torch.manual_seed(seed)
        self.random = np.random.default_rng(seed)
        net = self.network
        sizes = [self.items, *net.hidden]
        self.input = _xavier(self.items, net.hidden[0])
        self.dense = [_xavier(b, a) for a, b in itertools.pairwise(net.hidden)]
        self.biases = [torch.zeros(size, requires_grad=True) for size in net.hidden]
        self.output = _xavier(self.items, sizes[-1])
        self.output_bias = torch.zeros(self.items, requires_grad=True) if net.output_bias else None
        parameters = [self.input, *self.dense, *self.biases, self.output]
        parameters += [] if self.output_bias is None else [self.output_bias]
        if net.optimizer == "adam":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, lr=net.learning_rate, fused=True)
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=net.learning_rate, momentum=0.9, fused=True)

    def epoch(self) -> dict[str, float]:
        """Trains for an epoch: loss (mean over the rows) and seconds."""
        begin, total = time.perf_counter(), 0.0
        for rows in self._shuffled():
            total += self._step(self._batch(rows, training=True), self.variant) * len(rows)
        return {"loss": total / self.rows, "seconds": time.perf_counter() - begin}

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
        return {f"recall@{k}": np.concatenate(recall).mean(), f"ndcg@{k}": np.concatenate(ndcg).mean()}

    def name(self) -> str:
        """What was found to be fastest, in words."""
        return f"{'compiled' if self.variant[0] else 'eager'}, {self.variant[1]} loss"

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

    def _step(self, batch: Batch, variant: tuple[bool, str]) -> float:
        compiled, form = variant
        # The last, shorter batch of an epoch stays eager: a second shape would make the compiled code slower.
        loss_of = self._compiled(form) if compiled and batch.size == self.network.batch_size else self._loss
        self.optimizer.zero_grad(set_to_none=True)
        low = self.network.precision == "bfloat16"
        with torch.autocast("cpu", dtype=torch.bfloat16) if low else contextlib.nullcontext():
            loss = loss_of(batch, form)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _compiled(self, form: str) -> Callable[[Batch, str], Tensor]:
        function = self.__dict__.setdefault("_functions", {})
        if form not in function:
            whole = torch.compile(lambda *tensors: self._loss(Batch(*tensors, size=self.network.batch_size), form))

            def call(batch: Batch, _: str) -> Tensor:
                tensors = (batch.items, batch.weights, batch.offsets, batch.rows, batch.targets)
                for tensor in (batch.items, batch.weights, batch.rows, batch.targets):
                    torch._dynamo.mark_dynamic(tensor, 0)  # the number of entries differs from batch to batch
                return whole(*tensors)

            function[form] = call
        return function[form]

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

    def _loss(self, batch: Batch, form: str) -> Tensor:
        """The sum over the items, averaged over the batch, in one of two ways to write it."""
        z = self._logits(batch, training=True).float()
        rows, targets = batch.rows, batch.targets
        if self.network.loss == "softmax":
            if form == "plain":
                return -functional.log_softmax(z, dim=1)[rows, targets].sum() / batch.size
            return (torch.logsumexp(z, dim=1)[rows].sum() - z[rows, targets].sum()) / batch.size
        if form == "plain":
            wanted = torch.zeros_like(z)
            wanted[rows, targets] = 1
            return functional.binary_cross_entropy_with_logits(z, wanted, reduction="sum") / batch.size
        return (functional.softplus(z).sum() - z[rows, targets].sum()) / batch.size

    def _fastest(self) -> tuple[bool, str]:
        batches = [self._batch(rows, training=True) for rows in self._shuffled()[:6]]
        taken = {variant: self._time(variant, batches) for variant in itertools.product((False, True), FORMS)}
        self.tried = {f"{'compiled' if c else 'eager'} {form}": t for (c, form), t in taken.items()}
        return min(taken, key=taken.__getitem__)

    def _time(self, variant: tuple[bool, str], batches: list[Batch]) -> float:
        """Seconds per step, infinite where there is no compiler that torch.compile can use."""
        times = []
        try:
            for batch in batches:
                begin = time.perf_counter()
                self._step(batch, variant)
                times.append(time.perf_counter() - begin)
        except Exception as error:
            if not variant[0]:
                raise
            print(f"  (torch.compile failed: {str(error).splitlines()[0]})")
            return math.inf
        return statistics.median(times[2:])

    def variants(self) -> dict[str, float]:
        """Seconds per step of everything that was tried."""
        return self.tried


def _xavier(rows: int, columns: int) -> Tensor:
    bound = (6 / (rows + columns)) ** 0.5
    return torch.empty(rows, columns).uniform_(-bound, bound).requires_grad_()


def make(*arguments: Any) -> TorchPeer:
    """For `alternate.Contestant`."""
    return TorchPeer(*arguments)
