"""What a machine with CUDA devices is, and with which settings a process on it finds the library of build/gpu."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import gzip
import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KIT, PACKED = ROOT / "build" / "kit", ROOT / "build" / "gpu"  # as it is used, and as it travels
PACKAGES = (
    "numpy",
    "scipy",
    "pytest",
    "torch",
    "cuvs-cu12",
    "cuvs-cu13",
    "nvidia-cublas",
    "nvidia-cublas-cu12",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
)
MAJOR, MINOR, MULTIPROCESSORS, L2_BYTES, SHARED_BYTES = 75, 76, 16, 38, 97  # CUdevice_attribute


@dataclass
class Device:
    """One device, as the driver describes it."""

    name: str
    memory: int  # bytes
    capability: str  # "9.0"
    multiprocessors: int
    l2: int  # bytes of the second-level cache
    shared: int  # bytes that a block may ask for

    def __str__(self) -> str:
        return (
            f"{self.name}, compute capability {self.capability}, {self.multiprocessors} multiprocessors,"
            f" {self.memory / 2**30:.1f} GiB, {self.l2 / 2**20:.0f} MiB of second-level cache"
        )


@dataclass
class Machine:
    """The devices, or why there are none, and the versions of what takes part."""

    devices: list[Device] = field(default_factory=list)
    emulated: bool = False  # the driver is tests/cudaemu
    driver: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def file_name(self) -> str:
        """The device and the date, as a part of a file's name: `nvidia-h200-2026-11-21`."""
        name = "emulator" if self.emulated else self.devices[0].name if self.devices else "no device"
        count = f" x{len(self.devices)}" if len(self.devices) > 1 and not self.emulated else ""
        day = datetime.datetime.now(datetime.timezone.utc).date()
        return re.sub(r"[^a-z0-9]+", "-", f"{name}{count} {day}".lower()).strip("-")

    def folder(self) -> Path:
        """Where reports of it belong: what an emulator says is not for the documentation."""
        return KIT / "reports" if self.emulated or not self.devices else ROOT / "docs" / "gpu"

    def lines(self) -> list[str]:
        """The description, as Markdown."""
        found = [f"- {device}" for device in self.devices] or [f"- no device: {self.problem}"]
        found.append(f"- driver {self.driver}; {platform.system()} {platform.release()}, {cpu()}")
        found.append("- " + ", ".join(f"{name} {version}" for name, version in self.versions.items()))
        return found


def look() -> Machine:
    """Asks the driver. To be called in a process that does nothing else with it."""
    machine = Machine(versions=versions())
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        machine.problem = f"libcuda.so.1 does not load: {error}"
        return machine
    machine.emulated = hasattr(driver, "dsstne_cudaemu_count")
    version, count = ctypes.c_int(), ctypes.c_int()
    if code := driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(version)):
        machine.problem = f"cuInit answers {code}"
        return machine
    machine.driver = f"{kernel_module()}for CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    driver.cuDeviceGetCount(ctypes.byref(count))
    machine.devices = [device(driver, number) for number in range(count.value)]
    if not machine.devices:
        machine.problem = "the driver finds none"
    return machine


def look_elsewhere() -> Machine:
    """The same, from a process that then ends: this one stays without the driver."""
    code = "import gpu_machine, json, dataclasses; print(json.dumps(dataclasses.asdict(gpu_machine.look())))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", check=True, text=True, stdout=subprocess.PIPE
    )
    described = json.loads(done.stdout)
    return Machine(**{**described, "devices": [Device(**device) for device in described["devices"]]})


def device(driver: ctypes.CDLL, number: int) -> Device:
    """Describes one device."""
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    driver.cuDeviceGetName(name, len(name), number)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), number)

    def attribute(what: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), what, number)
        return value.value

    return Device(
        name.value.decode(),
        memory.value,
        f"{attribute(MAJOR)}.{attribute(MINOR)}",
        attribute(MULTIPROCESSORS),
        attribute(L2_BYTES),
        attribute(SHARED_BYTES),
    )


def kernel_module() -> str:
    """The driver's own version, such as "580.95.05 "; empty where it is not told."""
    path = Path("/proc/driver/nvidia/version")
    if path.exists() and (found := re.search(r"\b(\d+\.\d+(\.\d+)?)\b", path.read_text())):
        return found[1] + " "
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(command, text=True, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.split("\n")[0].strip() + " " if answer.returncode == 0 else ""


def cpu() -> str:
    """The processor and how many of its threads there are."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.*)$", path.read_text(), re.MULTILINE) if path.exists() else None
    return f"{found[1] if found else platform.machine()}, {len(os.sched_getaffinity(0))} threads"


def versions() -> dict[str, str]:
    """Of the interpreter and of packages, those that are installed."""
    installed = {name: list(importlib.metadata.distributions(name=name)) for name in PACKAGES}
    found = {name: there[0].version for name, there in installed.items() if there}
    return {"Python": platform.python_version(), **found}


def library_folders() -> list[str]:
    """Where NVIDIA's packages put libraries such as cuBLASLt, as python/dsstne looks for them."""
    return [str(folder) for entry in sys.path if (folder := Path(entry).absolute() / "nvidia").is_dir()]


def environment(**more: str) -> dict[str, str]:
    """That of a process which finds the package in this tree, the library in build/gpu, and NVIDIA's packages.

    Go programs find libraries by DSSTNE_LIBRARIES. Processes that compile with PyTorch share what they have compiled.
    """
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "DSSTNE_LIBRARIES": os.environ.get("DSSTNE_LIBRARIES", os.pathsep.join(library_folders())),
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(KIT / "inductor")),
        "DSSTNE_LIBRARY": str(KIT / "libdsstne.so"),
        "DSSTNE_TEST_DRIVER": "real",  # the tests take the driver that is there
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def use_environment() -> None:
    """Gives this process's children the same settings."""
    os.environ.update(environment())


def kill_group(pid: int) -> None:
    """Kills a process that leads a session, and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def unpack_kit() -> None:
    """Unpacks what was brought along, if anything was."""
    KIT.mkdir(parents=True, exist_ok=True)
    for packed in PACKED.glob("*.gz"):
        path = KIT / packed.stem
        if not path.exists() or path.stat().st_mtime < packed.stat().st_mtime:
            with gzip.open(packed) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
            path.chmod(0o755)


def need_kit() -> None:
    """Unpacks what was brought along; ends the program where nothing was."""
    unpack_kit()
    if not (KIT / "libdsstne.so").exists():
        sys.exit(f"{PACKED} is not there: run `make gpu-kit` where Go is, and copy the folder along")


if __name__ == "__main__":
    print("\n".join(look().lines()))
