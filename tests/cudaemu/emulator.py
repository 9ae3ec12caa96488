"""The emulator from Python: its driver functions, and what it counts, injects and reports.

`Driver` calls the library directly, as the tests of the emulator itself do. Who tests a program that runs on the
emulator needs `Control` only; it finds the library that the program has loaded.
"""

import ctypes
import json
import os
import struct
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "build" / "cudaemu" / "libcuda.so.1"

ILLEGAL_ADDRESS, MISALIGNED, LAUNCH_FAILED, OUT_OF_RESOURCES = 700, 716, 719, 701


class DriverError(Exception):
    """What a driver function answered instead of success."""

    def __init__(self, function: str, code: int):
        super().__init__(f"{function}: {code}")
        self.code = code


class Control:
    """Counters, faults, settings and messages of the emulator in this process."""

    def __init__(self, path: Path = LIBRARY):
        self.library = ctypes.CDLL(str(path))
        self.library.dsstne_cudaemu_count.restype = ctypes.c_int64
        for name in ("counts", "launches", "messages", "kernels"):
            function = getattr(self.library, f"dsstne_cudaemu_{name}")
            function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
        self.library.dsstne_cudaemu_fail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]

    def _text(self, name: str) -> str:
        function = getattr(self.library, f"dsstne_cudaemu_{name}")
        buffer = ctypes.create_string_buffer(1 << 16)
        while (needed := function(buffer, len(buffer))) > len(buffer):
            buffer = ctypes.create_string_buffer(needed)
        return buffer.value.decode()

    def count(self, counter: str) -> int:
        """A counter: "launches", "launches.NAME", "graph_launches", "copies.KIND", "bytes.KIND", ..."""
        return self.library.dsstne_cudaemu_count(counter.encode())

    def counts(self) -> dict[str, int]:
        return json.loads(self._text("counts"))

    def reset_counts(self) -> None:
        self.library.dsstne_cudaemu_reset_counts()

    def launches(self) -> list[dict]:
        """What each launch since the last call has read and written, after set("counts", 1): runtime/counts.h."""
        return [json.loads(line) for line in self._text("launches").splitlines()]

    def messages(self) -> str:
        """What was found wrong since the last call."""
        return self._text("messages")

    def kernels(self) -> list[str]:
        return self._text("kernels").split()

    def fail(self, function: str, n: int, code: int) -> None:
        """Let the n-th call of a function from now on answer `code`; "kernel:NAME" for runs of a kernel."""
        self.library.dsstne_cudaemu_fail(function.encode(), n, code)

    def clear_faults(self) -> None:
        self.library.dsstne_cudaemu_clear_faults()

    def lose(self, device: int, code: int = 46) -> None:
        self.library.dsstne_cudaemu_lose(device, code)

    def set(self, what: str, value: int) -> int:
        return self.library.dsstne_cudaemu_set(what.encode(), value)

    def set_attribute(self, device: int, attribute: int, value: int) -> None:
        self.library.dsstne_cudaemu_set_attribute(device, attribute, value)


class Driver(Control):
    """One device of the emulator, and the driver functions that tests need."""

    def __init__(self, device: int = 0):
        os.environ.setdefault("DSSTNE_CUDAEMU_QUIET", "1")
        super().__init__()
        self.device = device
        self("cuInit", 0)
        self.context = self.out("cuDevicePrimaryCtxRetain", device)
        self("cuCtxPushCurrent_v2", self.context)
        self.module = self.load(self.image())

    def close(self) -> None:
        self.library.cuCtxPopCurrent_v2(None)
        self.library.cuDevicePrimaryCtxRelease_v2(self.device)

    def __call__(self, function: str, *args: object) -> None:
        code = self.code(function, *args)
        if code:
            raise DriverError(function, code)

    def code(self, function: str, *args: object) -> int:
        """Call a driver function; integers are passed with 64 bits."""
        return getattr(self.library, function)(*(ctypes.c_uint64(a) if isinstance(a, int) else a for a in args))

    def out(self, function: str, *args: object) -> int:
        """Call a driver function whose first argument is where it puts its result."""
        result = ctypes.c_uint64()
        self(function, ctypes.byref(result), *args)
        return result.value

    def image(self, target: str = "sm_80") -> bytes:
        """What stands for a compiled image: PTX that names all kernels."""
        return f".version 8.0\n.target {target}\n{' '.join(self.kernels())}\n".encode()

    def load(self, image: bytes) -> int:
        return self.out("cuModuleLoadData", image)

    def function(self, name: str) -> int:
        return self.out("cuModuleGetFunction", self.module, name.encode())

    def alloc(self, size: int) -> int:
        return self.out("cuMemAlloc_v2", size)

    def upload(self, data: bytes) -> int:
        """A new allocation with the data in it."""
        address = self.alloc(len(data))
        self("cuMemcpyHtoD_v2", address, data, len(data))
        return address

    def download(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", buffer, address, size)
        return buffer.raw

    def launch(self, name: str, grid: object, block: object, args: bytes, shared: int = 0, stream: int = 0) -> None:
        grid = (grid, 1, 1) if isinstance(grid, int) else grid
        block = (block, 1, 1) if isinstance(block, int) else block
        size = ctypes.c_size_t(len(args))
        buffer = ctypes.create_string_buffer(args, len(args))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), None)
        self("cuLaunchKernel", self.function(name), *grid, *block, shared, stream, None, extra)

    def synchronize(self) -> None:
        self("cuCtxSynchronize")


def pack(layout: str, *values: object) -> bytes:
    """A kernel's argument struct: q, i, f as in the struct module, padded to 8 bytes."""
    data = struct.pack("<" + layout, *values)
    return data + bytes(-len(data) % 8)
