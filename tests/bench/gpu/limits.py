"""What the card could do, measured: matrix products by PyTorch, and copies by the driver and by PyTorch."""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCTS = {"bfloat16": 8192, "tensorfloat32": 8192, "float32": 4096}  # edges of the matrices
BYTES, TINY_BYTES = 4 << 30, 1 << 20  # that a copy moves
REPEATS = 5


class Limits:
    """Measures in a process of its own; without PyTorch's device only what the driver does."""

    def __init__(self, tiny: bool) -> None:
        self.tiny = tiny
        self.bytes = TINY_BYTES if tiny else BYTES

    def measure(self) -> dict[str, Any]:
        """Operations and bytes a second (copies: read and written), and what could not be measured."""
        found: dict[str, Any] = {"flops": {}, "bandwidth": {}, "missing": []}
        found["bandwidth"] = self.copies()
        try:
            import torch
        except ImportError:
            found["missing"].append("matrix products: PyTorch is not installed")
            return found
        if self.tiny or not torch.cuda.is_available():
            found["missing"].append("matrix products: PyTorch has no device here")
            return found
        for precision, edge in PRODUCTS.items():
            found["flops"][precision] = self.product(torch, precision, edge)
        source = torch.empty(self.bytes, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        seconds = self.fastest(lambda: target.copy_(source), torch.cuda.synchronize)
        found["bandwidth"]["PyTorch, on the device"] = 2 * self.bytes / seconds
        return found

    def product(self, torch: Any, precision: str, edge: int) -> float:
        """Operations a second of a product of random square matrices."""
        torch.backends.cuda.matmul.allow_tf32 = precision == "tensorfloat32"
        kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
        a, b = (torch.randn(edge, edge, device="cuda").to(kind) for _ in range(2))
        c = torch.empty_like(a)

        def ten() -> None:
            for _ in range(10):
                torch.mm(a, b, out=c)

        return float(10 * 2 * edge**3 / self.fastest(ten, torch.cuda.synchronize))

    def fastest(self, work: Callable[[], object], wait: Callable[[], object]) -> float:
        """Median seconds, after a turn to warm up."""
        taken = []
        for _ in range(REPEATS + 1):
            wait()
            begin = time.perf_counter()
            work()
            wait()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken[1:])

    def copies(self) -> dict[str, float]:
        """Bytes a second of the driver's copies: on the device, to it and from it (pinned memory)."""
        cuda = ctypes.CDLL("libcuda.so.1")

        def ask(function: str, *arguments: Any) -> None:
            if code := getattr(cuda, function)(*arguments):
                raise RuntimeError(f"{function} answers {code}")

        def answer(function: str, *arguments: Any) -> int:
            value = ctypes.c_uint64()
            ask(function, ctypes.byref(value), *arguments)
            return value.value

        size = ctypes.c_size_t(self.bytes)
        ask("cuInit", 0)
        context = ctypes.c_void_p(answer("cuDevicePrimaryCtxRetain", 0))
        ask("cuCtxPushCurrent_v2", context)
        a, b = (ctypes.c_uint64(answer("cuMemAlloc_v2", size)) for _ in range(2))
        ask("cuMemsetD8_v2", a, 1, size)
        ask("cuMemsetD8_v2", b, 2, size)
        host = answer("cuMemHostAlloc", size, 0)
        pointer = ctypes.c_void_p(host)
        ctypes.memset(host, 1, self.bytes)

        def wait() -> None:
            ask("cuCtxSynchronize")

        works: dict[str, tuple[Callable[[], None], int]] = {
            "on the device": (lambda: ask("cuMemcpyDtoDAsync_v2", b, a, size, None), 2),
            "to the device": (lambda: ask("cuMemcpyHtoDAsync_v2", a, pointer, size, None), 1),
            "from the device": (lambda: ask("cuMemcpyDtoHAsync_v2", pointer, a, size, None), 1),
        }
        found = {name: count * self.bytes / self.fastest(work, wait) for name, (work, count) in works.items()}
        ask("cuMemFreeHost", pointer)
        for at in (a, b):
            ask("cuMemFree_v2", at)
        ask("cuCtxPopCurrent_v2", None)
        ask("cuDevicePrimaryCtxRelease_v2", 0)
        return found


class Usage:
    """How much of the device's memory is in use, by all processes together."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        if self.cuda.cuInit(0) or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0):
            raise RuntimeError("the driver does not let us in")

    def used(self) -> int:
        """Bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.cuCtxPushCurrent_v2(self.context)
        code = self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        self.cuda.cuCtxPopCurrent_v2(None)
        if code:
            raise RuntimeError(f"cuMemGetInfo answers {code}")
        return total.value - free.value


def make(tiny: bool) -> Limits:
    """For `alternate.Contestant`."""
    return Limits(tiny)
