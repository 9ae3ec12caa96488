"""Streams, graphs, counters, faults and refusals of the emulated driver."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from emulator import DriverError, pack

NON_BLOCKING = 1


@pytest.fixture
def stream(driver):
    return driver.out("cuStreamCreate", NON_BLOCKING)


def add_one(driver, x, count, stream):
    driver.launch("example_multiply_add", 1, 64, pack("qqiff", x, count, 1, 1.0, 1.0), stream=stream)


def floats(driver, address, count):
    return np.frombuffer(driver.download(address, 4 * count), np.float32)


def pinned(driver, count):
    address = driver.out("cuMemHostAlloc", 4 * count, 0)
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,)), address


# ---- work is done late ----


def test_lazy_work_is_not_done_before_somebody_waits(driver, stream):
    driver.set("lazy", 1)
    x = driver.upload(bytes(256))
    result, address = pinned(driver, 64)
    add_one(driver, x, 64, stream)
    driver("cuMemcpyDtoHAsync_v2", address, x, 256, stream)
    assert driver.count("launches") == 0
    assert np.all(result == 0), "read without waiting"
    driver("cuStreamSynchronize", stream)
    assert np.all(result == 1)


def test_lazy_a_missing_event_between_streams_shows(driver, stream):
    driver.set("lazy", 1)
    other = driver.out("cuStreamCreate", NON_BLOCKING)
    x = driver.upload(bytes(256))
    result, address = pinned(driver, 64)
    add_one(driver, x, 64, stream)
    driver("cuMemcpyDtoHAsync_v2", address, x, 256, other)  # does not wait for the kernel
    driver("cuStreamSynchronize", other)
    assert np.all(result == 0)
    event = driver.out("cuEventCreate", 0)
    driver("cuEventRecord", event, stream)
    driver("cuStreamWaitEvent", other, event, 0)
    driver("cuMemcpyDtoHAsync_v2", address, x, 256, other)
    driver("cuStreamSynchronize", other)
    assert np.all(result == 1)


def test_lazy_the_null_stream_waits_for_streams_that_block_it(driver):
    driver.set("lazy", 1)
    blocking = driver.out("cuStreamCreate", 0)
    x = driver.upload(bytes(256))
    add_one(driver, x, 64, blocking)
    assert np.all(floats(driver, x, 64) == 1)


def test_lazy_a_source_that_changes_before_the_copy_shows(driver, stream):
    driver.set("lazy", 1)
    x = driver.alloc(256)
    source, address = pinned(driver, 64)
    source[:] = 1
    driver("cuMemcpyHtoDAsync_v2", x, address, 256, stream)
    source[:] = 2
    driver("cuStreamSynchronize", stream)
    assert np.all(floats(driver, x, 64) == 2)


def test_lazy_queries_end(driver, stream):
    driver.set("lazy", 1)
    x = driver.upload(bytes(256))
    add_one(driver, x, 64, stream)
    event = driver.out("cuEventCreate", 0)
    driver("cuEventRecord", event, stream)
    assert [driver.code("cuEventQuery", event) for _ in range(3)] == [600, 0, 0]


# ---- graphs ----


def capture(driver, stream, x, times):
    driver("cuStreamBeginCapture_v2", stream, 1)
    for _ in range(times):
        add_one(driver, x, 64, stream)
    return end_capture(driver, stream)


def end_capture(driver, stream):
    graph = ctypes.c_uint64()
    driver("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph.value


def test_a_captured_graph_runs_when_launched(driver, stream):
    x = driver.upload(bytes(256))
    graph = capture(driver, stream, x, 3)
    assert driver.count("launches") == 0
    exec_ = driver.out("cuGraphInstantiateWithFlags", graph, 0)
    driver("cuGraphDestroy", graph)
    for _ in range(2):
        driver("cuGraphLaunch", exec_, stream)
    driver("cuStreamSynchronize", stream)
    assert np.all(floats(driver, x, 64) == 6)
    assert (driver.count("graph_launches"), driver.count("launches.example_multiply_add")) == (2, 6)
    driver("cuGraphExecDestroy", exec_)


def test_a_graph_is_updated_in_place_unless_its_shape_changed(driver, stream):
    x, y = driver.upload(bytes(256)), driver.upload(bytes(256))
    exec_ = driver.out("cuGraphInstantiateWithFlags", capture(driver, stream, x, 2), 0)
    info = (ctypes.c_uint64 * 3)()
    driver("cuGraphExecUpdate_v2", exec_, capture(driver, stream, y, 2), info)
    driver("cuGraphLaunch", exec_, stream)
    driver("cuStreamSynchronize", stream)
    assert np.all(floats(driver, x, 64) == 0)
    assert np.all(floats(driver, y, 64) == 2)
    assert driver.code("cuGraphExecUpdate_v2", exec_, capture(driver, stream, y, 3), info) == 910


def test_waiting_for_a_stream_that_captures_breaks_the_capture(driver, stream):
    driver("cuStreamBeginCapture_v2", stream, 1)
    assert driver.code("cuStreamSynchronize", stream) == 900
    graph = ctypes.c_uint64()
    assert driver.code("cuStreamEndCapture", stream, ctypes.byref(graph)) == 901


def test_a_capture_forks_and_joins_by_events(driver, stream):
    other = driver.out("cuStreamCreate", NON_BLOCKING)
    fork, join = driver.out("cuEventCreate", 2), driver.out("cuEventCreate", 2)
    x, y = driver.upload(bytes(256)), driver.upload(bytes(256))
    driver("cuStreamBeginCapture_v2", stream, 1)
    driver("cuEventRecord", fork, stream)
    driver("cuStreamWaitEvent", other, fork, 0)
    add_one(driver, x, 64, stream)
    add_one(driver, y, 64, other)
    driver("cuEventRecord", join, other)
    driver("cuStreamWaitEvent", stream, join, 0)
    add_one(driver, y, 64, stream)
    exec_ = driver.out("cuGraphInstantiateWithFlags", end_capture(driver, stream), 0)
    driver("cuGraphLaunch", exec_, stream)
    driver("cuStreamSynchronize", stream)
    assert np.all(floats(driver, x, 64) == 1)
    assert np.all(floats(driver, y, 64) == 2)
    driver("cuStreamBeginCapture_v2", stream, 1)
    driver("cuEventRecord", fork, stream)
    driver("cuStreamWaitEvent", other, fork, 0)
    add_one(driver, y, 64, other)
    graph = ctypes.c_uint64()
    assert driver.code("cuStreamEndCapture", stream, ctypes.byref(graph)) == 904, "the other stream never came back"


# ---- counters ----


def test_copies_allocations_and_waits_are_counted(driver):
    driver.reset_counts()
    live = driver.count("live_bytes")
    x = driver.upload(bytes(1000))
    y = driver.alloc(500)
    driver("cuMemcpyDtoD_v2", y, x, 500)
    driver("cuMemsetD8_v2", y, 1, 100)
    assert driver.download(y, 200) == b"\1" * 100 + bytes(100)
    driver.synchronize()
    counts = driver.counts()
    assert (counts["copies.host_to_device"], counts["bytes.host_to_device"]) == (1, 1000)
    assert (counts["copies.device_to_host"], counts["bytes.device_to_host"]) == (1, 200)
    assert (counts["copies.device_to_device"], counts["bytes.device_to_device"]) == (1, 500)
    assert counts["allocations"] == 2
    assert counts["fills"] == 1
    assert counts["synchronisations"] == 3
    assert driver.count("live_bytes") - live == 1500
    driver("cuMemFree_v2", x)
    driver("cuMemFree_v2", y)
    assert driver.count("live_bytes") == live


# ---- faults ----


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_nth_call_fails_as_asked(driver, n):
    driver.fail("cuMemAlloc", n, 2)
    codes = []
    for _ in range(4):
        address = ctypes.c_uint64()
        codes.append(driver.code("cuMemAlloc_v2", ctypes.byref(address), 64))
    assert codes == [2 if i + 1 == n else 0 for i in range(4)]


def test_a_failed_launch_stays_as_the_context_s_error(driver, stream):
    x = driver.upload(bytes(256))
    driver.fail("kernel:example_multiply_add", 2, 719)
    for _ in range(2):
        add_one(driver, x, 64, stream)
    assert driver.code("cuStreamSynchronize", stream) == 719
    assert driver.code("cuMemFree_v2", x) == 719
    driver("cuDevicePrimaryCtxReset_v2", 0)


def test_a_lost_device_answers_nothing_but_its_loss(driver):
    x = driver.upload(bytes(256))
    driver.lose(0, 214)
    for function, args in [("cuMemFree_v2", (x,)), ("cuCtxSynchronize", ())]:
        with pytest.raises(DriverError) as raised:
            driver(function, *args)
        assert raised.value.code == 214
    assert driver.code("cuDevicePrimaryCtxRetain", ctypes.byref(ctypes.c_uint64()), 0) == 214
    driver.lose(0, 0)
    driver("cuDevicePrimaryCtxReset_v2", 0)


def test_memory_runs_out_and_comes_back(driver):
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    driver("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    big = driver.alloc(free.value - 4096)
    with pytest.raises(DriverError) as raised:
        driver.alloc(8192)
    assert raised.value.code == 2
    driver("cuMemFree_v2", big)
    driver("cuMemFree_v2", driver.alloc(free.value))


# ---- refusals ----


def test_images_that_do_not_fit_the_device_are_refused(driver):
    def load(data):
        return driver.code("cuModuleLoadData", ctypes.byref(ctypes.c_uint64()), data)

    def cubin(sm):
        data = bytearray(64)
        data[:9] = b"\x7fELF\2\1\1\x33\7"
        data[18:20] = (190).to_bytes(2, "little")
        data[48:52] = sm.to_bytes(4, "little")
        data[40:48] = (64).to_bytes(8, "little")
        return bytes(data)

    assert [load(cubin(sm)) for sm in (80, 90, 100)] == [209, 0, 209]
    assert [load(driver.image(target)) for target in ("sm_80", "sm_90a", "sm_100")] == [0, 0, 209]
    assert load(b"something else") == 200


def test_launches_beyond_limits_are_refused(driver):
    args = pack("qqiff", driver.upload(bytes(256)), 64, 1, 1.0, 1.0)
    for grid, block, shared in [(0, 64, 0), (1, 2048, 0), ((1, 1, 1), (64, 64, 1), 0), (1, 64, 49156)]:
        with pytest.raises(DriverError) as raised:
            driver.launch("example_multiply_add", grid, block, args, shared=shared)
        assert raised.value.code == 1
    with pytest.raises(DriverError):
        driver.launch("example_multiply_add", 1, 64, args + bytes(8))
    assert "40 bytes of arguments, its struct has 32" in driver.messages()
    function = driver.function("example_multiply_add")
    driver("cuFuncSetAttribute", function, 8, 200_000)
    driver.launch("example_multiply_add", 1, 64, args, shared=200_000)


def test_copies_out_of_bounds_are_refused(driver):
    x = driver.alloc(256)
    assert driver.code("cuMemcpyHtoD_v2", x + 4, bytes(256), 256) == 1
    assert "256 bytes out of bounds: begins 4 bytes into" in driver.messages()


def test_errors_have_names_and_words(driver):
    text = ctypes.c_char_p()
    driver("cuGetErrorName", 2, ctypes.byref(text))
    assert text.value == b"CUDA_ERROR_OUT_OF_MEMORY"
    driver("cuGetErrorString", 700, ctypes.byref(text))
    assert text.value == b"illegal address"


@pytest.mark.parametrize("protect", ["", "pages"])
def test_the_host_cannot_touch_device_memory(library, protect):
    program = "import ctypes, emulator; d = emulator.Driver(); ctypes.string_at(d.upload(bytes(64)), 4)"
    environment = {**os.environ, "DSSTNE_CUDAEMU_PROTECT": protect, "PYTHONPATH": str(Path(__file__).parent)}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert result.returncode == -signal.SIGSEGV
