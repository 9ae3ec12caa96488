"""Gathers in build/gpu what `make gpu-first`, `gpu-check` and `gpu-bench` need on a machine with a GPU but no Go.

    make gpu-kit        # which builds the library first, and calls this

The folder and the tracked files, copied anywhere, are enough there: the library with the images of all kernels, and the
tests of the backends as compiled programs.
"""

from __future__ import annotations

import gzip
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KIT, PACKED = ROOT / "build" / "kit", ROOT / "build" / "gpu"  # as it is used, and as it travels
LIBRARY = ROOT / "python" / "dsstne" / "_lib" / "libdsstne.so"

# Programs of tests: where they run, too, since they find files of the repository from there.
TESTS = {"conformance.test": "tests/conformance", "cuda.test": "kernels/cuda"}
PROGRAMS = {"opbench": "tests/bench/opbench"}
MOST = 60 << 20  # bytes that are easily copied


def settings() -> dict[str, str]:
    """The environment of Go commands, as the build of the library has it."""
    command = [sys.executable, ROOT / "hatch_build.py", "--print-environment"]
    text = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    words = (word for line in text.splitlines() for word in shlex.split(line.removeprefix("export ")))
    return dict(word.split("=", 1) for word in words if "=" in word)


def main() -> int:
    """Builds what is out of date, packs it and tells the size."""
    KIT.mkdir(parents=True, exist_ok=True)
    found = settings()
    environment = {**os.environ, **found}
    shutil.copy2(LIBRARY, KIT / LIBRARY.name)
    common = ["-tags", found["TAGS"], "-trimpath", "-ldflags", "-s -w"]
    for name, folder in TESTS.items():
        subprocess.run(
            [found["GO"], "test", "-c", *common, "-o", KIT / name, f"./{folder}"],
            cwd=ROOT,
            env=environment,
            check=True,
        )
    for name, folder in PROGRAMS.items():
        subprocess.run(
            [found["GO"], "build", *common, "-o", KIT / name, f"./{folder}"], cwd=ROOT, env=environment, check=True
        )
    return pack()


def pack() -> int:
    """Compresses all, since each program holds the images of all kernels, and tells the size."""
    PACKED.mkdir(parents=True, exist_ok=True)
    for path in filter(Path.is_file, KIT.iterdir()):
        with path.open("rb") as source, gzip.open(PACKED / f"{path.name}.gz", "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)
        os.utime(path)  # newer than what was packed: nothing to unpack here
    sizes = {path.name: path.stat().st_size for path in sorted(PACKED.iterdir())}
    for name, size in sizes.items():
        print(f"  {size / 1e6:6.1f} MB  {name}")
    print(f"  {sum(sizes.values()) / 1e6:6.1f} MB  {PACKED.relative_to(ROOT)}")
    if sum(sizes.values()) > MOST:
        print(f"{PACKED} holds more than {MOST >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
