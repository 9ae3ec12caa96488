"""Reads include/dsstne.h: the functions for ctypes, and the ABI as a text that is compared with a checked-in one.

``python tests/abi/header.py`` prints that text. A layout is asked of the C compiler, not computed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "dsstne.h"
COMPILER = shlex.split(os.environ.get("CC", "cc"))


def code() -> str:
    """The header without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.DOTALL)
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)


def functions() -> dict[str, tuple[str, list[str]]]:
    """The result type and the parameter types of every function, by name."""
    found = {}
    for result, name, parameters in re.findall(r"([\w ]+?[ *]+)(dsstne_\w+)\(([^()]*)\);", code()):
        types = [] if parameters.strip() == "void" else [type_of(p) for p in parameters.split(",")]
        found[name] = (normal(result), types)
    return found


def type_of(parameter: str) -> str:
    """``const char *`` of ``const char *name``."""
    return normal(re.sub(r"\w+\s*$", "", parameter.strip()))


def normal(text: str) -> str:
    return re.sub(r"\s*\*", " *", " ".join(text.split())).strip()


def enumerators() -> list[str]:
    return [
        name for body in re.findall(r"enum \{(.*?)\}", code(), re.DOTALL) for name in re.findall(r"(\w+)\s*=", body)
    ]


def typedefs() -> dict[str, str]:
    """The scalar types."""
    return {name: type_ for type_, name in re.findall(r"typedef (\w+) (\w+);", code())}


def structs() -> dict[str, list[str]]:
    """The fields of every struct, by the name that C code says."""
    found = {}
    for tag, body in re.findall(r"struct (\w+) \{(.*?)\n\}", code(), re.DOTALL):
        fields = [re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d+\])?$", line.strip()) for line in body.split(";")[:-1]]
        name = tag if re.search(rf"typedef struct {tag}\b", code()) else f"struct {tag}"
        found[name] = [match[1] or match[2] for match in fields if match]
    return found


def snapshot() -> str:
    """The ABI of the header: what a program that was compiled against it relies on."""
    lines = [f"function {result} {name}({', '.join(types)})" for name, (result, types) in sorted(functions().items())]
    lines += [f"type {name} {type_}" for name, type_ in sorted(typedefs().items())]
    prints = [r'printf("version %u.%u\n", DSSTNE_ABI_VERSION >> 16, DSSTNE_ABI_VERSION & 0xffff);']
    prints += [rf'printf("value {name} %d\n", (int){name});' for name in enumerators()]
    for name, fields in structs().items():
        prints.append(rf'printf("layout {name}: size %zu, alignment %zu\n", sizeof({name}), _Alignof({name}));')
        for field in fields:
            place = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
            prints.append(rf'printf("layout {name}: {field} at %zu, size %zu\n", {place});')
    return "\n".join(lines) + "\n" + run_c(prints)


def run_c(statements: list[str]) -> str:
    """The output of a C program of these statements."""
    source = "#include <stdio.h>\n#include <stddef.h>\n#include <dsstne.h>\nint main(void) {\n"
    source += "\n".join(statements) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        file, program = Path(folder) / "layout.c", Path(folder) / "layout"
        file.write_text(source)
        subprocess.run([*COMPILER, "-std=c11", f"-I{HEADER.parent}", str(file), "-o", str(program)], check=True)
        return subprocess.run([str(program)], check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    print(snapshot(), end="")
