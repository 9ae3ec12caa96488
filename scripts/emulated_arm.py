"""Runs programs for 64-bit ARM on another machine, under the user-mode emulation of QEMU, with Debian's Python for ARM.

``python scripts/emulated_arm.py`` prepares everything: as root it installs the cross compiler and QEMU with apt-get,
and it unpacks Debian's packages of Python, NumPy's wheel and others into ``build/arm``. It ends with status 1 and a
reason if something is missing. ``python scripts/emulated_arm.py PROGRAM ARGUMENT...`` runs a program; "python" is the
unpacked one. ``go test -exec`` takes that command.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "arm"
SYSTEM = FOLDER / "system"  # what would be the root folder of a machine
SITE = FOLDER / "site-packages"  # what the package needs

QEMU = "qemu-aarch64-static"
# An ARMv8.0 without extensions: what runs on it runs on every 64-bit ARM. On QEMU 7.2's default CPU, which has SVE,
# products of OpenBLAS in float32 are wrong by up to a quarter.
CPU = "cortex-a57"
COMPILER = "aarch64-linux-gnu-gcc"
TOOLS = ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static")
SYSTEM_PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
NEEDED = ("numpy==2.2.6", "scipy==1.15.3", "tqdm==4.70.1")

# apt-get then neither reads nor changes what this machine has installed, and needs no rights: only the sources of
# packages and their keys are the machine's.
APT = """
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
Dir::Cache "{0}";
Dir::State "{0}";
Dir::State::status "/dev/null";
"""


class UnavailableError(Exception):
    """What is missing here, and how to get it."""


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments:
        os.execv(*program(*arguments))
    try:
        prepare()
    except UnavailableError as error:
        print(f"no programs for 64-bit ARM can run here: {error}", file=sys.stderr)
        return 1
    return 0


def program(name: str, *arguments: str) -> tuple[str, list[str]]:
    """The emulator's path and its arguments, for a program and its own."""
    if name == "python":
        name = str(SYSTEM / "usr" / "bin" / "python3")
    qemu = shutil.which(QEMU) or QEMU
    return qemu, [qemu, "-cpu", CPU, "-L", str(SYSTEM), name, *arguments]


def prepare() -> None:
    """Installs and unpacks what is not there yet."""
    if platform.machine() == "aarch64":
        raise UnavailableError("this machine is one, so nothing is emulated")
    install_tools()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not SYSTEM.exists():
        unpack_system()
    if not SITE.exists():
        install_needed()


def install_tools() -> None:
    """The emulator and the cross compiler, by apt-get if this is root."""
    missing = [tool for tool in (QEMU, COMPILER) if shutil.which(tool) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise UnavailableError(f"{' and '.join(missing)} missing; on Debian and Ubuntu: apt install {' '.join(TOOLS)}")
    print("apt-get install " + " ".join(TOOLS))
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    check(["apt-get", "update", "-qq"], env=quiet)
    check(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *TOOLS], env=quiet)


def unpack_system() -> None:
    """Debian's Python for ARM, and the libraries it is linked with."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UnavailableError("apt-get and dpkg-deb are missing, which fetch and unpack Debian's Python for ARM")
    print(f"unpacking Debian's Python for 64-bit ARM into {SYSTEM.relative_to(ROOT)}")
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".apt-") as folder:
        for name in ("lists/partial", "archives/partial", "system"):
            (Path(folder) / name).mkdir(parents=True)
        configuration = Path(folder) / "apt.conf"
        configuration.write_text(APT.format(folder))
        environment = {**os.environ, "APT_CONFIG": str(configuration)}
        check(["apt-get", "update", "-qq"], env=environment)
        check(["apt-get", "install", "-y", "-qq", "--download-only", *SYSTEM_PACKAGES], env=environment)
        for package in sorted((Path(folder) / "archives").glob("*.deb")):
            check(["dpkg-deb", "--extract", str(package), f"{folder}/system"])
        (Path(folder) / "system").rename(SYSTEM)


def install_needed() -> None:
    """NumPy, SciPy and tqdm from their wheels for ARM."""
    asked = [*program("python", "-c", "import sys; print(*sys.version_info[:2], sep='.')")[1]]
    version = subprocess.run(asked, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    print(f"installing {' '.join(NEEDED)} for Python {version} into {SITE.relative_to(ROOT)}")
    command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", version]
    for minor in range(17, 29):
        command += ["--platform", f"manylinux_2_{minor}_aarch64"]
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".pip-") as folder:
        check([*command, "--platform", "manylinux2014_aarch64", "--target", f"{folder}/site-packages", *NEEDED])
        (Path(folder) / "site-packages").rename(SITE)


def check(command: list[str], env: dict[str, str] | None = None) -> None:
    """Runs a command; its last words are the reason if it fails."""
    done = subprocess.run(command, env=env, text=True, capture_output=True)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()
        raise UnavailableError(f"{' '.join(command[:2])} failed: {words[-1]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
