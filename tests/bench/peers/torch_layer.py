"""An output layer alone in PyTorch: linear, loss, backward to the input and the weights, fused optimizer."""

from __future__ import annotations

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


class TorchLayer:
    """What one run of the output op does: all of it but the layers before."""

    def __init__(self, shape: dict[str, Any], operations: float, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        random = np.random.default_rng(0)
        self.size, self.kind, self.precision = shape["rows"], shape["loss"], shape["precision"]
        length = shape["row_length"]
        self.rows = torch.from_numpy(np.repeat(np.arange(self.size), length))
        targets = [random.choice(shape["items"], length, replace=False) for _ in range(self.size)]
        self.targets = torch.from_numpy(np.concatenate(targets))
        self.h = (torch.rand(self.size, shape["units"]) - 0.5).requires_grad_()
        with torch.no_grad():
            self.weight = xavier(shape["items"], shape["units"])
            self.bias = torch.zeros(shape["items"], requires_grad=True)
        self.optimizer = Optimizer(shape["optimizer"], [self.weight, self.bias], 1e-5)
        self._functions: dict[Setting, Callable[..., Tensor]] = {}

        def attempt(setting: Setting) -> None:
            torch.set_num_threads(setting.threads)
            self._step(setting)

        self.setting, self.tried = torch_settings.search(
            attempt, threads=threads, operations=operations, precision=self.precision, optimizer=shape["optimizer"]
        )
        torch.set_num_threads(self.setting.threads)

    def run(self, steps: int) -> float:
        """Seconds of a step."""
        begin = time.perf_counter()
        for _ in range(steps):
            self._step(self.setting)
        return (time.perf_counter() - begin) / steps

    def name(self) -> str:
        """What was found to be fastest, in words."""
        return f"PyTorch {torch.__version__.split('+')[0]}: {self.setting}"

    def variants(self) -> dict[str, float]:
        """Seconds per step of everything that was tried."""
        return self.tried

    def _step(self, setting: Setting) -> None:
        self.optimizer.clear(set_to_none=True)
        self.h.grad = None
        with precision_of(self.precision):
            self._function(setting)(self.h, self.weight, self.bias, self.rows, self.targets).backward()
        self.optimizer.step(setting.compiled_optimizer)

    def _function(self, setting: Setting) -> Callable[..., Tensor]:
        if setting not in self._functions:

            def loss(h: Tensor, weight: Tensor, bias: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
                z = functional.linear(h, weight, bias)
                return torch_settings.loss(z, rows, targets, self.kind, self.size, setting)

            self._functions[setting] = torch.compile(loss) if setting.compiled else loss
        return self._functions[setting]


def make(*arguments: Any) -> TorchLayer:
    """For `alternate.Contestant`."""
    return TorchLayer(*arguments)
