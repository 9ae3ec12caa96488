"""What makes PyTorch fast on a CPU, tried out instead of believed: the settings of every comparison with it."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMS = ("plain", "gathered")  # ways to write the loss
SMALL = 2e9  # operations of a step below which one thread may beat several


@dataclass(frozen=True)
class Setting:
    """A way to run a step."""

    compiled: bool = False
    form: str = "plain"
    threads: int = 1
    low_loss: bool = False  # under autocast: the loss in bfloat16 too
    compiled_optimizer: bool = False

    def __str__(self) -> str:
        more = [f"{self.threads} thread{'s' * (self.threads > 1)}"]
        more += ["loss in bfloat16"] * self.low_loss + ["compiled optimizer"] * self.compiled_optimizer
        return ", ".join([f"{'compiled' if self.compiled else 'eager'}, {self.form} loss", *more])


def search(
    run: Callable[[Setting], None],
    *,
    threads: int,
    operations: float,
    precision: str,
    optimizer: str,
    patience: float = 60.0,
) -> tuple[Setting, dict[str, float]]:
    """The fastest setting for steps that `run` makes, and seconds of a step for each that was tried.

    Eager and compiled, each with both forms of the loss, come first; then what sometimes pays, on the best of them.
    """
    tried: dict[Setting, float] = {}

    def attempt(setting: Setting) -> None:
        tried[setting] = seconds_of_step(run, setting, patience)

    for compiled in (False, True):
        for form in FORMS:
            attempt(Setting(compiled, form, threads))
    best = min(tried, key=tried.__getitem__)
    if precision == "bfloat16":
        attempt(replace(best, low_loss=True))
    best = min(tried, key=tried.__getitem__)
    if optimizer == "rmsprop":  # the one without a fused kernel
        attempt(replace(best, compiled_optimizer=True))
    best = min(tried, key=tried.__getitem__)
    if threads > 1 and operations < SMALL:
        attempt(replace(best, threads=1))
    best = min(tried, key=tried.__getitem__)
    return best, {str(setting): seconds for setting, seconds in tried.items()}


def seconds_of_step(run: Callable[[Setting], None], setting: Setting, patience: float) -> float:
    """Median after two steps to warm up; infinite if torch.compile finds no compiler."""
    times: list[float] = []
    begin = time.perf_counter()
    try:
        while len(times) < 5 or (len(times) < 40 and time.perf_counter() - begin < 0.3):
            start = time.perf_counter()
            run(setting)
            times.append(time.perf_counter() - start)
            if len(times) >= 3 and time.perf_counter() - begin > patience:
                break
    except Exception as error:
        if not (setting.compiled or setting.compiled_optimizer):
            raise
        print(f"    (torch.compile failed: {str(error).splitlines()[0]})", flush=True)
        return math.inf
    return statistics.median(times[2:])


class Optimizer:
    """A fused optimizer where PyTorch has one; `step` may be compiled."""

    def __init__(self, kind: str, parameters: list[Tensor], learning_rate: float) -> None:
        made: torch.optim.Optimizer
        if kind == "adam":
            made = torch.optim.Adam(parameters, lr=learning_rate, fused=True)
        elif kind in ("sgd", "momentum"):
            momentum = 0.9 if kind == "momentum" else 0.0
            made = torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum, fused=True)
        elif kind == "rmsprop":
            made = torch.optim.RMSprop(parameters, lr=learning_rate, alpha=0.9, foreach=True)
        else:
            raise ValueError(f"optimizer {kind!r} is not known")
        self._made = made
        self._compiled: Callable[[], Any] | None = None
        self.clear = made.zero_grad

    def step(self, compiled: bool = False) -> None:
        """Updates the parameters."""
        if not compiled:
            self._made.step()
            return
        if self._compiled is None:
            self._compiled = torch.compile(self._made.step)
        self._compiled()


def loss(z: Tensor, rows: Tensor, targets: Tensor, kind: str, size: int, setting: Setting) -> Tensor:
    """The sum over the items, averaged over the batch; the targets are ones at (rows, targets)."""
    if not setting.low_loss:
        z = z.float()
    if kind == "softmax":
        if setting.form == "plain":
            return -functional.log_softmax(z, dim=1)[rows, targets].sum() / size
        return (torch.logsumexp(z, dim=1)[rows].sum() - z[rows, targets].sum()) / size
    if setting.form == "plain":
        wanted = torch.zeros_like(z)
        wanted[rows, targets] = 1
        return functional.binary_cross_entropy_with_logits(z, wanted, reduction="sum") / size
    return (functional.softplus(z).sum() - z[rows, targets].sum()) / size


@contextlib.contextmanager
def precision_of(precision: str) -> Iterator[None]:
    """Autocast for bfloat16."""
    if precision == "bfloat16":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            yield
    else:
        yield


def xavier(rows: int, columns: int) -> Tensor:
    """Initial weights."""
    bound = (6 / (rows + columns)) ** 0.5
    return torch.empty(rows, columns).uniform_(-bound, bound).requires_grad_()
