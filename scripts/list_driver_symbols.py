"""Lists the driver functions that gorgonia.org/cu and kernels/cuda/driver call, for the shim that answers for them.

``python scripts/list_driver_symbols.py kernels/cuda/driver/symbols.h``, in the environment that
``hatch_build.py --print-environment`` prints: compiles both packages and writes what their objects leave undefined.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CU, OURS = "gorgonia.org/cu", "./kernels/cuda/driver"
HEAD = """\
/* symbols.h: the functions of libcuda that are called, by the names that it exports. Made by
 * scripts/list_driver_symbols.py; cuInit is left out, because its slot has another default. */
/* clang-format off */
"""


def symbols(package: str, kind: str) -> set[str]:
    """The names like a driver function's in a compiled package: those asked for (U) or those defined (T)."""
    listed = ["go", "list", "-export", "-f", "{{.Export}}", package]
    archive = subprocess.run(listed, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    lines = subprocess.run(["nm", archive], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return set(re.findall(rf"^[0-9a-f ]+ {kind} (cu[A-Z]\w+)$", lines.stdout, re.MULTILINE))


def main() -> None:
    """The command."""
    asked = symbols(CU, "U") - symbols(CU, "T") | symbols(OURS, "U")
    names = sorted(asked - {"cuInit"})
    calls = textwrap.wrap(" ".join(f"SYMBOL({name})" for name in names), width=120)
    Path(sys.argv[1]).write_text(HEAD + "\n".join(calls) + "\n")


if __name__ == "__main__":
    main()
