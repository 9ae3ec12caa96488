"""What the innermost loops of the products of dense matrices are compiled to.

A CPU with AVX-512 at full rate does two multiply-adds in a cycle, and beside them at most two loads. A loop that needs
more than that per multiply-add is slower than the units, which no test of results shows; nor does the clock on another
kind of machine.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "kernels" / "cpu" / "c"
FLAGS = ["-std=c11", "-g", "-O2", "-O3", "-Wno-psabi"]  # those of cgo and of call.go
PRODUCTS = ("product_panels", "product_transposed", "product_rows")
TILE_ROWS = 14
MULTIPLY_ADD = {"avx512": "vfmadd", "avx512bf16": "vdpbf16ps"}
MODELS = {"skylake-avx512": 6, "sapphirerapids": 17}
"""CPUs with AVX-512 at full rate, and the first LLVM that models them; the ones before accept the name."""


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str

    def reads_or_writes(self):
        return "(" in self.operands and not self.name.startswith(("lea", "nop"))

    def stores(self):
        return self.name.startswith(("mov", "vmov")) and self.operands.endswith(")")


def installed(tool):
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not installed")
    return path


@pytest.fixture(scope="session")
def loops(tmp_path_factory):
    """The innermost loops over a whole register tile: {(instruction set, product): [instructions of a loop]}."""
    if platform.machine() != "x86_64":
        pytest.skip(f"there is no AVX-512 on {platform.machine()}")
    compiler, objdump = installed("gcc"), installed("objdump")
    folder, found = tmp_path_factory.mktemp("objects"), {}
    for level in MULTIPLY_ADD:
        headers = "\n".join(f'#include "{name}.h"' for name in ("vector", "bfloat16", "product"))
        kept = f"{headers}\nvoid *const products[] = {{{', '.join(PRODUCTS)}}};"
        source, made = folder / f"{level}.c", folder / f"{level}.o"
        source.write_text((SOURCES / f"isa_{level}.c").read_text().replace('#include "table.h"', kept))
        subprocess.run([compiler, *FLAGS, f"-I{SOURCES}", "-c", source, "-o", made], check=True)
        command = [objdump, "-d", "--no-show-raw-insn", made]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for product, code in functions(listing):
            found[level, product] = list(innermost(code, MULTIPLY_ADD[level]))
    return found


def functions(listing):
    """The functions of a disassembly, with their instructions."""
    for part in re.split(r"\n(?=[0-9a-f]+ <)", listing):
        if title := re.match(r"[0-9a-f]+ <(\w+)>:", part):
            lines = re.findall(r"^ *([0-9a-f]+):\t(\S+) *(.*)$", part, re.MULTILINE)
            yield title[1], [Instruction(int(address, 16), name, rest.strip()) for address, name, rest in lines]


def innermost(code, multiply_add):
    """The loops without a loop in them that multiply a whole tile or several, as the CPU can."""
    place = {instruction.address: at for at, instruction in enumerate(code)}
    begin = 0  # of the code behind the end of the last loop
    for at, (_, name, target) in enumerate(code):
        to = re.match(r"[0-9a-f]+", target) if name.startswith("j") else None
        start = place.get(int(to[0], 16), at + 1) if to else at + 1
        if start > at:
            continue
        body = code[start : at + 1]
        emulated = count(body, "vpslld")  # products of bfloat16 in float32's instructions
        products = count(body, multiply_add)
        if start >= begin and products and products % (2 * TILE_ROWS) == 0 and not emulated:
            yield body
        begin = max(begin, start + 1)


def count(body, name):
    return sum(instruction.name.startswith(name) for instruction in body)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("level", MULTIPLY_ADD)
def test_a_loop_needs_two_loads_and_four_instructions_a_cycle(loops, level, product):
    assert loops[level, product], "no loop was found that multiplies a tile"
    for body in loops[level, product]:
        products = count(body, MULTIPLY_ADD[level])
        memory = [instruction for instruction in body if instruction.reads_or_writes()]
        stores = [instruction for instruction in memory if instruction.stores()]
        vectors = [i for i in body if i.name.startswith("v") and not i.name.startswith(MULTIPLY_ADD[level])]
        other = [instruction for instruction in vectors if not instruction.reads_or_writes()]
        assert len(memory) - len(stores) <= 0.75 * products  # a multiply-add has half a cycle: one load at most
        assert len(stores) <= 0.05 * products
        assert len(other) <= 0.1 * products  # copies between registers; nothing that computes
        assert len(body) <= 2 * products


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("level", MULTIPLY_ADD)
@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_the_cpu_multiplies_at_nine_tenths_of_its_rate(loops, model, level, product):
    mca = installed("llvm-mca")
    version = int(re.search(r"LLVM version (\d+)", subprocess.check_output([mca, "--version"], text=True))[1])
    if version < MODELS[model]:
        pytest.skip(f"llvm-mca {version} does not model {model}; {MODELS[model]} does")
    if model == "skylake-avx512" and level == "avx512bf16":
        pytest.skip(f"{model} has no bfloat16")
    for body in loops[level, product]:
        text = "\n".join(f"{i.name} {re.sub(r' <.*', '', i.operands)}" for i in body)
        command = [mca, f"-mcpu={model}", "-mtriple=x86_64", "-iterations=100"]
        report = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
        cycles = int(re.search(r"Total Cycles: +(\d+)", report)[1])
        assert 100 * count(body, MULTIPLY_ADD[level]) >= 0.9 * 2 * cycles
