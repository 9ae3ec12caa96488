"""Compiles the CUDA kernels ahead of time, with NVRTC from a wheel: no CUDA installation is needed.

``python scripts/compile_kernels.py`` makes ``kernels/cuda/images`` from ``kernels/cuda/src``, or leaves it alone if it
is up to date; the build of the library calls it. All ``.cu`` files are one translation unit, so there is one image for
each architecture, and a compressed copy, which is a part of the library; it is found by name, and a digest of
everything that it depends on stands beside it.

``--resources sm_80 sm_90a`` makes nothing, and prints registers, shared memory and spills of each kernel.
"""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import importlib.util
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ROOT / "kernels" / "kinds.h"
SOURCES = ROOT / "kernels" / "cuda" / "src"
IMAGES = ROOT / "kernels" / "cuda" / "images"
DIGEST = IMAGES / "digest"

# The compiler, and the headers for gorgonia.org/cu and kernels/cuda/driver. Those of CUDA 13 lack what cu uses.
WHEELS = ("nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79")

# An image for every generation from Ampere on; PTX lets a driver compile for those that come later.
TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120", "compute_80")

# Products and sums are fused only where the source says so, as on the CPU: the same bits where they are promised.
FLAGS = ("--std=c++17", "--fmad=false")


class CompileError(Exception):
    """What NVRTC has to say about the sources."""


def digest() -> str:
    """A digest of what the images are made of: the sources, and this file with its flags and versions."""
    total = hashlib.sha256()
    for path in [Path(__file__), KINDS, *sorted(SOURCES.iterdir())]:
        if path.suffix in (".py", ".h", ".cu", ".cuh"):
            content = path.read_bytes()
            total.update(f"{path.name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def image_names() -> list[str]:
    """The files that images are written to."""
    return [target + (".ptx" if target.startswith("compute") else ".cubin") for target in TARGETS]


def up_to_date() -> bool:
    """Whether the images belong to the sources."""
    there = all((IMAGES / (name + ending)).exists() for name in image_names() for ending in ("", ".gz"))
    return there and DIGEST.exists() and DIGEST.read_text().strip() == digest()


def package_folder(name: str) -> Path | None:
    """The folder of a module of the wheels, e.g. ``nvidia.cuda_nvrtc``."""
    try:
        found = importlib.util.find_spec(f"nvidia.{name}")
    except ModuleNotFoundError:
        return None
    places = found.submodule_search_locations if found else None
    return Path(next(iter(places))) if places else None


def headers() -> Path | None:
    """The folder of cuda.h, if the wheel is installed."""
    folder = package_folder("cuda_runtime")
    return folder / "include" if folder and (folder / "include" / "cuda.h").exists() else None


def compiler() -> ctypes.CDLL | None:
    """NVRTC, if the wheel is installed."""
    folder = package_folder("cuda_nvrtc")
    return ctypes.CDLL(str(folder / "lib" / "libnvrtc.so.12")) if folder else None


def compile_for(nvrtc: ctypes.CDLL, target: str, *, verbose: bool = False, lines: bool = False) -> bytes:
    """The image of one architecture, with `lines` of the sources; what the compiler has to say goes to stderr."""
    unit = "".join(f'#include "{path.name}"\n' for path in sorted(SOURCES.glob("*.cu")))
    options = [*FLAGS, f"--gpu-architecture={target}", f"--include-path={SOURCES}"]
    options += ["--ptxas-options=-v"] if verbose else []
    options += ["--generate-line-info"] if lines else []
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), unit.encode(), b"kernels.cu", 0, None, None)
    if created != 0:
        raise CompileError(f"NVRTC does not start (error {created})")
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    log = fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0\n").decode()
    if failed:
        raise CompileError(f"the kernels do not compile for {target}:\n{log}")
    if log:
        print(f"{target}:\n{log}", file=sys.stderr)
    if target.startswith("compute"):
        image = fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
    else:
        image = fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return image


def fetch(size_of: ctypes._FuncPointer, copy: ctypes._FuncPointer, program: ctypes.c_void_p) -> bytes:
    """A result of a program: one function tells its size, another copies it."""
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    copy(program, buffer)
    return buffer.raw


def write(path: Path, content: bytes) -> None:
    """Writes a file in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def ensure_images() -> None:
    """Compiles what is missing or stale; the digest is last: an interrupted run is not a whole one."""
    if up_to_date():
        return
    nvrtc = compiler()
    if nvrtc is None:
        raise CompileError("the CUDA compiler is missing: pip install " + " ".join(WHEELS))
    wanted = digest()
    print("compiling CUDA kernels for " + ", ".join(TARGETS))
    IMAGES.mkdir(exist_ok=True)
    DIGEST.unlink(missing_ok=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # NVRTC runs outside Python's lock
        for name, image in zip(
            image_names(), pool.map(lambda target: compile_for(nvrtc, target), TARGETS), strict=True
        ):
            write(IMAGES / name, image)
            write(IMAGES / f"{name}.gz", gzip.compress(image, mtime=0))
    write(DIGEST, wanted.encode() + b"\n")


def print_resources(targets: list[str]) -> None:
    """Prints what each kernel takes, as the assembler tells it."""
    nvrtc = compiler()
    if nvrtc is None:
        raise CompileError("the CUDA compiler is missing: pip install " + " ".join(WHEELS))
    for target in targets:
        compile_for(nvrtc, target, verbose=True)


def main() -> int:
    """The command."""
    try:
        if sys.argv[1:2] == ["--resources"]:
            print_resources(sys.argv[2:] or list(TARGETS[:-1]))
        else:
            ensure_images()
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
