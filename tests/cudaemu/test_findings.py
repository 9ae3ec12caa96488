"""Each mistake planted in a kernel is found, and said where."""

import numpy as np
import pytest

from emulator import ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED, OUT_OF_RESOURCES, DriverError, pack


def run(driver, kernel, mistake, threads=64, count=64, grid=1):
    x = driver.upload(np.arange(count, dtype=np.float32).tobytes())
    y = driver.alloc(4 * count)
    driver.messages()
    driver.launch(kernel, grid, threads, pack("qqqi", x, y, count, mistake))
    code = driver.code("cuCtxSynchronize")
    said = driver.messages()
    if code == 0:
        assert said == ""
        return np.frombuffer(driver.download(y, 4 * count), np.float32)
    driver("cuDevicePrimaryCtxReset_v2", driver.device)
    return code, said


def test_a_kernel_without_mistake_passes(driver):
    assert np.array_equal(run(driver, "planted_reverse", 0), np.arange(64)[::-1])
    assert np.array_equal(run(driver, "planted_async", 0), np.arange(64)[::-1])
    assert np.array_equal(run(driver, "planted_vectors", 0, threads=16), np.arange(64))
    assert np.array_equal(run(driver, "planted_warp", 0), np.arange(64) ^ 1)


@pytest.mark.parametrize(
    ("kernel", "mistake", "threads", "code", "words"),
    [
        (
            "planted_reverse",
            1,
            64,
            ILLEGAL_ADDRESS,
            ["thread (63, 0, 0)", "reads 4 bytes", "0 bytes after the end of", "(256 bytes"],
        ),
        (
            "planted_reverse",
            2,
            64,
            ILLEGAL_ADDRESS,
            ["thread (0, 0, 0)", "reads 4 bytes", "out of bounds", "4 bytes before"],
        ),
        ("planted_reverse", 3, 64, MISALIGNED, ["thread (0, 0, 0)", "misaligned", "2 bytes into"]),
        ("planted_reverse", 4, 64, LAUNCH_FAILED, ["shared memory that nobody has written, offset 28"]),
        (
            "planted_reverse",
            5,
            256,
            ILLEGAL_ADDRESS,
            ["thread (255, 0, 0)", "writes 4 bytes", "out of bounds of shared arrays"],
        ),
        ("planted_reverse", 6, 64, LAUNCH_FAILED, ["63 wait at __syncthreads (planted.cu:", "1 of 64 have ended"]),
        (
            "planted_reverse",
            7,
            64,
            LAUNCH_FAILED,
            ["waits at __syncthreads", "while other threads of the block wait at"],
        ),
        ("planted_reverse", 8, 64, LAUNCH_FAILED, ["shared memory that nobody has written"]),
        (
            "planted_reverse",
            9,
            64,
            LAUNCH_FAILED,
            ["shared memory that thread 63 of the block wrote since the last barrier"],
        ),
        ("planted_reverse", 10, 64, LAUNCH_FAILED, ["__shfl_down_sync", "lanes"]),
        ("planted_reverse", 11, 64, LAUNCH_FAILED, ["16 wait at __shfl_xor_sync", "lanes ffff0000"]),
        ("planted_reverse", 12, 64, LAUNCH_FAILED, ["__trap"]),
        ("planted_reverse", 13, 64, ILLEGAL_ADDRESS, ["writes 4 bytes at 0xd", "a null pointer"]),
        ("planted_async", 1, 64, LAUNCH_FAILED, ["shared memory that nobody has written"]),
        ("planted_async", 2, 64, ILLEGAL_ADDRESS, ["thread (63, 0, 0)", "out of bounds"]),
        ("planted_vectors", 1, 16, ILLEGAL_ADDRESS, ["thread (15, 0, 0)", "reads 16 bytes"]),
        ("planted_vectors", 2, 16, MISALIGNED, ["writes 16 bytes", "misaligned, 8 bytes into"]),
        ("planted_warp", 1, 64, LAUNCH_FAILED, ["shared memory"]),
    ],
)
def test_a_planted_mistake_is_found(driver, kernel, mistake, threads, code, words):
    answered, said = run(driver, kernel, mistake, threads, count=max(threads, 64))
    assert answered == code
    assert f"kernel {kernel}, block (0, 0, 0), thread" in said
    for word in words:
        assert word in said


def test_a_race_is_found_also_where_the_order_of_threads_hides_it(driver):
    answered, said = run(driver, "planted_warp", 2)
    assert answered == LAUNCH_FAILED
    assert "thread (1, 0, 0): reads 4 bytes" in said
    assert "shared memory that thread 0 of the block wrote since the last barrier" in said


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (1, ["block (1, 0, 0)", "writes 4 bytes", "which block (0, 0, 0) has written with no barrier of the grid"]),
        (2, ["block (0, 0, 0) has read"]),
        (3, ["block (1, 0, 0)", "reads 4 bytes", "which block (0, 0, 0) has written"]),
    ],
)
def test_a_race_between_blocks_is_found_when_asked_for(driver, mistake, words):
    driver.set("checks", 2)  # races within blocks only
    run(driver, "planted_blocks", mistake, threads=32, grid=2)
    driver.set("checks", 6)
    assert np.array_equal(run(driver, "planted_blocks", 0, threads=32, grid=2), np.arange(64))
    answered, said = run(driver, "planted_blocks", mistake, threads=32, grid=2)
    assert answered == LAUNCH_FAILED
    for word in words:
        assert word in said


def test_memory_that_was_freed_is_named(driver):
    x = driver.upload(bytes(256))
    y = driver.alloc(256)
    driver("cuMemFree_v2", x)
    driver.launch("planted_reverse", 1, 64, pack("qqqi", x, y, 64, 0))
    assert driver.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "into freed allocation" in driver.messages()
    driver("cuDevicePrimaryCtxReset_v2", 0)


def test_memory_that_was_never_written_is_named(driver):
    x, y = driver.alloc(256), driver.alloc(256)
    driver.launch("planted_reverse", 1, 64, pack("qqqi", x, y, 64, 0))
    assert driver.code("cuCtxSynchronize") == LAUNCH_FAILED
    assert "never written, 0 bytes into" in driver.messages()
    driver("cuDevicePrimaryCtxReset_v2", 0)


def test_memory_of_another_device_needs_access(driver):
    other = driver.out("cuDevicePrimaryCtxRetain", 1)
    driver("cuCtxPushCurrent_v2", other)
    x = driver.upload(bytes(256))
    driver("cuCtxPopCurrent_v2", None)
    y = driver.alloc(256)
    args = pack("qqqi", x, y, 64, 0)
    driver("cuCtxEnablePeerAccess", other, 0)
    driver.launch("planted_reverse", 1, 64, args)
    driver.synchronize()
    driver("cuCtxDisablePeerAccess", other)
    driver.launch("planted_reverse", 1, 64, args)
    assert driver.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "memory of device 1, to which device 0 has no access" in driver.messages()
    driver("cuDevicePrimaryCtxReset_v2", 0)
    driver("cuDevicePrimaryCtxRelease_v2", 1)


def test_host_memory_is_out_of_reach(driver):
    x = np.zeros(64, np.float32)
    y = driver.alloc(256)
    driver.launch("planted_reverse", 1, 64, pack("qqqi", x.ctypes.data, y, 64, 0))
    assert driver.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "no memory of a device" in driver.messages()
    driver("cuDevicePrimaryCtxReset_v2", 0)


@pytest.mark.parametrize(
    ("mistake", "grid", "code", "words"),
    [
        (1, 4, LAUNCH_FAILED, "blocks that have ended are missing"),
        (2, 4, LAUNCH_FAILED, "waits in a loop for something that nobody does"),
        (0, 2 * 32 + 1, OUT_OF_RESOURCES, "more blocks than fit"),
    ],
)
def test_grids_that_cannot_meet_are_told(driver, mistake, grid, code, words):
    flag, counter = driver.upload(bytes(4)), driver.upload(bytes(4))
    driver.set_attribute(0, 16, 2)  # multiprocessors, of 32 blocks each
    driver.launch("planted_grid", grid, 32, pack("qqi", flag, counter, mistake))
    assert driver.code("cuCtxSynchronize") == code
    assert words in driver.messages()
    driver.set_attribute(0, 16, 132)
    driver("cuDevicePrimaryCtxReset_v2", 0)


def test_after_a_mistake_every_call_answers_the_error_until_the_context_is_reset(driver):
    y = driver.alloc(256)
    driver.launch("planted_reverse", 1, 64, pack("qqqi", 0, y, 64, 0))
    for _ in range(2):
        with pytest.raises(DriverError) as raised:
            driver.alloc(4)
        assert raised.value.code == ILLEGAL_ADDRESS
    driver("cuDevicePrimaryCtxReset_v2", 0)
    driver.alloc(4)
