"""What small trainings compute, compared to the bit with what tests/golden/bits.json recorded (see bits.py)."""

import json
from pathlib import Path

import bits
import pytest

import dsstne

RECORD = json.loads(bits.RECORD.read_text())
SETS = ("avx512bf16", "avx512vnni", "avx512", "avx2", "portable")
"""Instruction sets, widest first; a CPU that has one has those behind it, too."""


@pytest.mark.long
@pytest.mark.parametrize("instruction_set", RECORD["cpu"])
def test_the_cpu_computes_the_recorded_bits(instruction_set):
    widest = next(device["kind"] for device in dsstne.doctor().engine["devices"] if device["name"] == "cpu")
    if widest not in SETS or SETS.index(widest) > SETS.index(instruction_set):
        pytest.skip(f"this CPU has {widest}, not {instruction_set}")
    assert bits.measured(bits.CPU, instruction_set) == RECORD["cpu"][instruction_set]


@pytest.mark.slow
def test_emulated_devices_compute_the_recorded_bits(emulated):
    if bits.toolchain() != RECORD["cuda"]["toolchain"]:
        pytest.skip(f"the bits of {RECORD['cuda']['toolchain']} are recorded, here is {bits.toolchain()}")
    folder = str(Path(__file__).parent)
    found = bits.emulated_bits(lambda program: emulated(f"import sys\nsys.path.insert(0, {folder!r})\n{program}"))
    assert found == RECORD["cuda"]["cases"]
