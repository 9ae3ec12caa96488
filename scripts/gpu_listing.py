"""Reads compiled kernels: what each takes of a multiprocessor, its loops, and the instructions of a trip.

Registers, shared memory and local frames come from the image itself. Loops come from the text of ``nvdisasm`` on a
build with line information, which has the same instructions as the image that is shipped. Labels and branches are read
here, since nvdisasm draws no control flow of images for sm_80 and sm_90a. Builds and listings are cached under
build/listing.
"""

from __future__ import annotations

import fcntl
import importlib.util
import re
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compile_kernels

CACHE = compile_kernels.ROOT / "build" / "listing"
Line = tuple[str, int]  # file and line


class ListingError(Exception):
    """Why there is no listing, or what is not found in it."""


# ---- an image: what its kernels take ----


@dataclass
class Resources:
    """What a kernel takes: registers of a thread, static shared memory of a block, local memory of a thread.

    `threads` is the size of the largest block, and shared memory includes what the system takes of it.
    """

    registers: int = 0
    shared: int = 0
    local: int = 0
    threads: int = 0


def text(image: bytes, at: int) -> str:
    """A string of an image."""
    return image[at : image.index(b"\0", at)].decode()


def sections(image: bytes) -> tuple[dict[str, tuple[int, ...]], list[tuple[int, ...]]]:
    """The section headers of an ELF file, by name and in their order."""
    start, size, count, names = struct.unpack_from("<Q10xHHH", image, 40)
    head = [struct.unpack_from("<IIQQQQIIQQ", image, start + n * size) for n in range(count)]
    return {text(image, head[names][4] + section[0]): section for section in head}, head


def resources(image: bytes) -> dict[str, Resources]:
    """The resources of each kernel of a cubin."""
    named, head = sections(image)
    found: dict[str, Resources] = {}
    for name, section in named.items():
        if name.startswith(".text."):
            found[name[6:]] = Resources(registers=section[7] >> 24)
    for kernel, taken in found.items():
        if shared := named.get(f".nv.shared.{kernel}"):
            taken.shared = shared[5]
    symbols, names = named[".symtab"], head[named[".symtab"][6]][4]
    for attribute, at in attributes(image, named[".nv.info"]):
        if attribute in (0x11, 0x2F):  # the size of the frame, registers
            symbol, value = struct.unpack_from("<II", image, at)
            kernel = text(image, names + struct.unpack_from("<I", image, symbols[4] + 24 * symbol)[0])
            if kernel in found:
                setattr(found[kernel], "local" if attribute == 0x11 else "registers", value)
    for kernel, taken in found.items():
        for attribute, at in attributes(image, named[f".nv.info.{kernel}"]):
            if attribute == 0x05:  # the largest block
                x, y, z = struct.unpack_from("<III", image, at)
                taken.threads = x * y * z
    return found


def code(image: bytes) -> dict[str, bytes]:
    """The instructions of each kernel of a cubin."""
    named, _ = sections(image)
    return {name: image[x[4] : x[4] + x[5]] for name, x in named.items() if name.startswith(".text.")}


def attributes(image: bytes, section: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The attributes of a section that have values of their own size: number, and where the value begins."""
    at, end = section[4], section[4] + section[5]
    while at < end:  # the format, the attribute, and with format 4 the size of what follows
        kind, attribute, length = struct.unpack_from("<BBH", image, at)
        if kind == 4:
            yield attribute, at + 4
        at += 4 + (length if kind == 4 else 0)


# ---- a listing ----


@dataclass
class Instruction:
    """One instruction, and the source lines that it belongs to: the innermost first, then where that is inlined."""

    address: int
    opcode: str
    text: str
    lines: tuple[Line, ...]


@dataclass
class Block:
    """Instructions that are executed one after the other, and the blocks that may follow."""

    instructions: list[Instruction]
    after: list[int] = field(default_factory=list)


@dataclass
class Loop:
    """A natural loop: its first block, all its blocks, and those that jump back to the first."""

    header: int
    blocks: set[int]
    latches: set[int]


@dataclass
class Function:
    """A kernel as blocks, in the order of their addresses."""

    name: str
    blocks: list[Block]

    @cached_property
    def loops(self) -> list[Loop]:
        """All natural loops, the inner ones after those around them."""
        before: list[set[int]] = [set() for _ in self.blocks]
        for n, block in enumerate(self.blocks):
            for after in block.after:
                before[after].add(n)
        everything = (1 << len(self.blocks)) - 1
        dominators = [1] + [everything] * (len(self.blocks) - 1)
        changed = True
        while changed:
            changed = False
            for n in range(1, len(self.blocks)):
                common = everything
                for p in before[n]:
                    common &= dominators[p]
                if before[n] and (common | 1 << n) != dominators[n]:
                    dominators[n], changed = common | 1 << n, True
        found: dict[int, Loop] = {}
        for n, block in enumerate(self.blocks):
            for header in block.after:
                if not dominators[n] >> header & 1 or dominators[n] == everything:
                    continue
                loop = found.setdefault(header, Loop(header, {header}, set()))
                loop.latches.add(n)
                waiting = [n]
                while waiting:
                    if (at := waiting.pop()) not in loop.blocks:
                        loop.blocks.add(at)
                        waiting.extend(before[at])
        return sorted(found.values(), key=lambda loop: -len(loop.blocks))

    def inner(self, loop: Loop | None) -> list[Loop]:
        """The loops directly inside one, or inside none."""
        around = loop.blocks if loop else set(range(len(self.blocks)))
        inside = [x for x in self.loops if x is not loop and x.blocks <= around and (not loop or x.blocks < around)]
        return [x for x in inside if not any(x.blocks < y.blocks for y in inside)]

    def path(
        self, loop: Loop | None, cold: Callable[[Block], bool], wanted: Callable[[Instruction], bool] = lambda _: False
    ) -> list[Instruction]:
        """The longest way through a trip of a loop, or through the kernel, past inner loops and with few cold blocks.

        It goes where the most instructions are that are wanted, if any are.
        A block that every way leads through is not cold, whatever its lines say: instructions are moved between lines.
        """
        node = {n: n for n in (loop.blocks if loop else range(len(self.blocks)))}
        inner = self.inner(loop)
        for x in inner:
            node |= dict.fromkeys(x.blocks, x.header)
        collapsed = {x.header for x in inner}
        after: dict[int, set[int]] = {n: set() for n in node.values()}
        for n, to in node.items():
            after[to] |= {node[m] for m in self.blocks[n].after if m in node and node[m] != to}
        # to the end: wanted instructions; cold ones, below 0; all; and the next block
        best: dict[int, tuple[int, int, int, int]] = {}
        exits = {n for n, block in enumerate(self.blocks) if block.instructions[-1].opcode in ("EXIT", "RET")}
        ends = {node[n] for n in (loop.latches if loop else exits)}
        first = loop.header if loop else 0
        order: list[int] = []
        seen: set[int] = set()
        stack: list[tuple[int, Iterator[int]]] = [(first, iter(after[first]))]
        seen.add(first)
        while stack:
            at, rest = stack[-1]
            for m in rest:
                if m not in seen and not (loop and m == first):
                    seen.add(m)
                    stack.append((m, iter(after[m])))
                    break
            else:
                order.append(at)
                stack.pop()
        for n in order:
            block = self.blocks[n]
            own = 0 if n in collapsed else len(block.instructions)
            chill = -own if own and cold(block) else 0
            hits = sum(map(wanted, block.instructions)) if own else 0
            ways = [
                (hits + best[m][0], chill + best[m][1], own + best[m][2], m)
                for m in after[n]
                if m in best and m != first
            ]
            if n in ends and (loop or not ways):
                ways.append((hits, chill, own, -1))
            if ways:
                best[n] = max(ways)
        if first not in best:
            where = f"the loop at {self.blocks[first].instructions[0].address:#x}" if loop else "the whole kernel"
            raise ListingError(f"{self.name}: there is no way through {where}")
        found, n = [], first
        while n >= 0:
            found += [] if n in collapsed else self.blocks[n].instructions
            n = best[n][3]
        return found

    def at(self, lines: Iterable[Line]) -> list[Loop]:
        """The loops whose jump back belongs to one of the lines.

        Compilers may give a jump the line of what is before it. If there is no such loop, it is the smallest with an
        instruction of the lines, which counts the trips.
        """
        wanted = set(lines)
        found = [
            loop
            for loop in self.loops
            if any(wanted & set(self.blocks[n].instructions[-1].lines) for n in loop.latches)
        ]
        if not found:
            counting = [
                loop
                for loop in self.loops
                if any(wanted & set(i.lines[:1]) for n in loop.blocks for i in self.blocks[n].instructions)
            ]
            found = sorted(counting, key=lambda loop: len(loop.blocks))[:1]
        return found


INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(\{?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)[^;]*)")
PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
JUMP = re.compile(r"`\((\.L_\w+)\)")


def functions(text: str) -> dict[str, Function]:
    """All kernels of a listing."""
    found: dict[str, Function] = {}
    for part in re.split(r"^//-+ \.text\.", text, flags=re.MULTILINE)[1:]:
        name = part.split(None, 1)[0]
        part = part.split("\n//-----", 1)[0]
        found[name] = function(name, part)
    return found


def function(name: str, text: str) -> Function:
    """A kernel, up to the subroutines behind it, which are called only where numbers are unusual."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    targets: dict[int, list[str]] = {}
    lines: list[Line] = []
    fresh = True  # whether the next line information replaces the last
    for line in text.splitlines():
        if match := PLACE.search(line):
            if fresh:
                lines, fresh = [], False
            lines += [(Path(file).name, int(number)) for file, number in PLACE.findall(line)]
            lines += [(Path(file).name, int(n)) for file, n in re.findall(r'inlined at "([^"]*)", line (\d+)', line)]
        elif match := INSTRUCTION.match(line):
            address, whole, opcode = match.groups()
            if opcode.startswith("NOP"):
                continue
            fresh = True
            if opcode.startswith("BRX"):
                targets[len(instructions)] = re.findall(r"\.L_\w+", line)
            instructions.append(Instruction(int(address, 16), opcode, whole.strip(), tuple(dict.fromkeys(lines))))
        elif line.endswith(":") and line.startswith((".L_", "$")):
            if line.startswith("$"):
                break  # a subroutine
            labels[line[:-1]] = len(instructions)
    begins = {0, *labels.values()}
    for n, instruction in enumerate(instructions):
        if instruction.opcode.split(".")[0] in ("BRA", "BRX", "EXIT", "RET", "JMP", "BREAK"):
            begins.add(n + 1)
    starts = sorted(n for n in begins if n < len(instructions))
    number = {start: n for n, start in enumerate(starts)}
    blocks = [Block(instructions[a:b]) for a, b in zip(starts, [*starts[1:], len(instructions)], strict=True)]
    for n, block in enumerate(blocks):
        last, place = block.instructions[-1], starts[n] + len(block.instructions) - 1
        kind, following = last.opcode.split(".")[0], [n + 1] if n + 1 < len(blocks) else []
        always = not last.text.startswith("@") and not re.match(r"BRA\S* !?U?P\d", last.text)
        jumps = [number[labels[label]] for label in JUMP.findall(last.text) if labels.get(label) in number]
        if last.opcode.startswith(("BRA.DIV", "BRA.CONV")):  # to where lanes that have parted take turns
            block.after = following
        elif kind in ("BRA", "JMP"):
            block.after = jumps if always else [*following, *jumps]
        elif kind == "BRX":
            block.after = [number[labels[label]] for label in targets[place] if labels.get(label) in number]
        elif kind in ("EXIT", "RET"):
            block.after = [] if always else following
        else:
            block.after = following
    return Function(name, blocks)


# ---- the sources, for the names of what is inlined ----


class Sources:
    """The lines of the kernels' sources."""

    def __init__(self) -> None:
        folder = compile_kernels.SOURCES
        self.lines = {path.name: path.read_text().splitlines() for path in sorted(folder.glob("*.cu*"))}
        self.of: dict[Line, str] = {}  # the function that a line belongs to
        for name, lines in self.lines.items():
            current = ""
            for number, line in enumerate(lines, 1):
                if line[:1].isalpha() and "(" in line:
                    words = re.match(r"(?:KERNEL_BOUNDS|LOSS|OPTIMIZER)\((\w+)|.*?(\w+)\(", line)
                    prefix = {"LOSS(": "loss_", "OPTIMIZ": "update_"}.get(line.split("(")[0][:7].ljust(5, "("), "")
                    current = prefix + ((words.group(1) or words.group(2)) if words else "")
                self.of[name, number] = current

    def find(self, fragment: str, within: str = "") -> set[Line]:
        """The lines that hold a piece of text, in one function or anywhere."""
        return {
            (name, number)
            for name, lines in self.lines.items()
            for number, line in enumerate(lines, 1)
            if fragment in line and (not within or self.of[name, number] == within)
        }

    def text(self, line: Line) -> str:
        """What stands there."""
        lines = self.lines.get(line[0], [])
        return lines[line[1] - 1] if 0 < line[1] <= len(lines) else ""


# ---- making it ----


def disassembler() -> Path:
    """The program nvdisasm of the wheel nvidia-cuda-nvdisasm."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in Path(folder).glob("*/bin/nvdisasm"):
            return path
    raise ListingError("nvdisasm is missing: pip install nvidia-cuda-nvdisasm (the test extra has it)")


@cache
def listing(target: str = "sm_90a") -> dict[str, Function]:
    """The kernels of an architecture, from the cache if it belongs to the sources."""
    path, stamp = CACHE / f"{target}.txt", CACHE / f"{target}.digest"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests may begin at once
        if not (path.exists() and stamp.exists() and stamp.read_text() == compile_kernels.digest()):
            program, nvrtc = disassembler(), compile_kernels.compiler()
            if nvrtc is None:
                raise ListingError("the CUDA compiler is missing: pip install " + " ".join(compile_kernels.WHEELS))
            stamp.unlink(missing_ok=True)
            image = CACHE / f"{target}.cubin"
            image.write_bytes(compile_kernels.compile_for(nvrtc, target, lines=True))
            done = subprocess.run([str(program), "-gi", str(image)], capture_output=True, text=True, check=True)
            path.write_text(done.stdout)
            stamp.write_text(compile_kernels.digest())
    return functions(path.read_text())


@cache
def images() -> dict[str, dict[str, Resources]]:
    """What the kernels of each image that is shipped take."""
    targets = [target for target in compile_kernels.TARGETS if target.startswith("sm_")]
    missing = [target for target in targets if not (compile_kernels.IMAGES / f"{target}.cubin").exists()]
    if missing:
        raise ListingError(f"there are no images for {', '.join(missing)}: make build")
    return {target: resources((compile_kernels.IMAGES / f"{target}.cubin").read_bytes()) for target in targets}
