"""Damaged NetCDF files are refused, or read; `make fuzz-long` reads many more."""

import sys

import netcdf_damage
import pytest

# A process that says what it is told to about file n; the numbers are those of test_what_ends_a_process_is_counted.
WORKER = """
import os, signal, sys, time
for n in range(int(sys.argv[1]), int(sys.argv[2])):
    print(n, flush=True)
    if n == 1:
        os.abort()
    if n == 3:
        signal.setitimer(signal.ITIMER_PROF, 0.01)
        while True:
            pass
    if n == 5:
        time.sleep(60)
    print("refused" if n % 2 else "read", flush=True)
"""


@pytest.mark.long
def test_damaged_files_are_refused_or_read():
    shown = []
    kinds = netcdf_damage.count(72, 84, show=shown.append)
    assert kinds["refused"] > 40, shown
    assert kinds["read"] > 4, shown
    assert kinds["refused"] + kinds["read"] == 84, shown


def test_the_same_number_is_the_same_damage():
    whole = bytes(range(256)) * 8
    damages = [netcdf_damage.damage(whole, netcdf_damage.np.random.default_rng(n)) for n in [*range(40)] * 2]
    assert damages[:40] == damages[40:]
    assert len(set(damages)) > 35
    assert all(broken[:8] == whole[:8] for broken in damages)


@pytest.mark.long
def test_what_ends_a_process_is_counted():
    found = dict(netcdf_damage.outcomes([sys.executable, "-c", WORKER], 0, 8, patience=3))
    assert found.pop(1).startswith("crash: status -6")
    assert found == {0: "read", 2: "read", 3: "hang", 4: "read", 5: "hang", 6: "read", 7: "refused"}


def test_a_process_that_cannot_begin_is_an_error():
    with pytest.raises(AssertionError, match="no such thing"):
        list(netcdf_damage.outcomes([sys.executable, "-c", "raise SystemExit('no such thing')"], 0, 3))
