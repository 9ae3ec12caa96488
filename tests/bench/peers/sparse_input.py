"""The first layer's forward pass and update over sparse rows, in PyTorch and SciPy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional


class SparseInput:
    """Rows of ones at random items; several batches take turns, so that caches do not keep what is read."""

    def __init__(self, rows: int, items: int, units: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.rows, self.items = rows, items
        self.weight = torch.full((items, units), 0.01).requires_grad_()
        self.gradient = torch.full((rows, units), 1e-6)
        self.optimizer = torch.optim.SGD([self.weight], lr=1e-5)

    def prepare(self, row_length: int, batches: int) -> None:
        """Makes batches of that row length."""
        random = np.random.default_rng(0)
        entries = self.rows * row_length
        self.offsets = torch.arange(self.rows) * row_length
        self.indices = [torch.from_numpy(random.integers(0, self.items, entries)) for _ in range(batches)]
        ones, offsets, shape = np.ones(entries, np.float32), self.offsets.numpy(), (self.rows, self.items)
        ends = np.append(offsets, entries)
        self.matrices = [sparse.csr_array((ones, i.numpy(), ends), shape=shape) for i in self.indices]
        self.number = 0

    def forward(self, steps: int) -> float:
        """Seconds of `embedding_bag`."""
        with torch.no_grad():
            begin = time.perf_counter()
            for _ in range(steps):
                functional.embedding_bag(self._next(), self.weight, self.offsets, mode="sum")
            return (time.perf_counter() - begin) / steps

    def update(self, steps: int) -> float:
        """Seconds of the backward pass and plain SGD with sparse gradients, without the forward pass."""
        total = 0.0
        for _ in range(steps):
            out = functional.embedding_bag(self._next(), self.weight, self.offsets, mode="sum", sparse=True)
            begin = time.perf_counter()
            self.optimizer.zero_grad(set_to_none=True)
            out.backward(self.gradient)
            self.optimizer.step()
            total += time.perf_counter() - begin
        return total / steps

    def scipy(self, steps: int) -> float:
        """Seconds of `csr @ dense`, which SciPy does on one thread."""
        dense = self.weight.detach().numpy()
        begin = time.perf_counter()
        for _ in range(steps):
            self.number += 1
            self.matrices[self.number % len(self.matrices)] @ dense
        return (time.perf_counter() - begin) / steps

    def _next(self) -> torch.Tensor:
        self.number += 1
        return self.indices[self.number % len(self.indices)]


def make(*arguments: Any) -> SparseInput:
    """For `alternate.Contestant`."""
    return SparseInput(*arguments)
