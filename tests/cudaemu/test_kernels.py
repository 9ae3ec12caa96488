"""The example kernels compute what they say."""

import numpy as np

from emulator import pack


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def numbers(driver, address, count, dtype=np.float32):
    return np.frombuffer(driver.download(address, count * np.dtype(dtype).itemsize), dtype)


def test_sums_in_shared_memory(driver):
    x = np.random.default_rng(0).integers(-8, 8, 1000).astype(np.float32)
    sums = driver.alloc(4 * 4)
    driver.launch("example_tiled_sum", 4, 256, pack("qqq", driver.upload(x.tobytes()), sums, 1000))
    expected = np.pad(x, (0, 24)).reshape(4, 256).sum(1)
    assert np.array_equal(numbers(driver, sums, 4), expected)


def test_scans_with_shuffles(driver):
    x = np.arange(64, dtype=np.int32)
    out = driver.alloc(256)
    driver.launch("example_warp_scan", 1, 64, pack("qqq", driver.upload(x.tobytes()), out, 64))
    assert np.array_equal(numbers(driver, out, 64, np.int32).reshape(2, 32), x.reshape(2, 32).cumsum(1))


def test_bfloat16_products_through_asynchronous_copies(driver):
    rng = np.random.default_rng(1)
    left, right = bf16(rng.normal(size=(32, 64))), bf16(rng.normal(size=(24, 64)))
    out = driver.alloc(32 * 24 * 4)
    args = pack("qqqiii", driver.upload(left.tobytes()), driver.upload(right.tobytes()), out, 32, 24, 64)
    driver.launch("example_bf16_product", (3, 2, 1), 32, args)
    expected = wide(left).astype(np.float64) @ wide(right).astype(np.float64).T
    # 64 products of which each is exact, summed in float32
    assert np.abs(numbers(driver, out, 32 * 24).reshape(32, 24) - expected).max() < 64 * 2.0**-24 * 64


def test_tensorfloat32_products(driver):
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(16, 32)).astype(np.float32), rng.normal(size=(8, 32)).astype(np.float32)
    out = driver.alloc(16 * 8 * 4)
    args = pack("qqqi", driver.upload(left.tobytes()), driver.upload(right.tobytes()), out, 32)
    driver.launch("example_tf32_product", 1, 32, args)
    product = numbers(driver, out, 128).reshape(16, 8)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.abs(product - exact).max() < 2.0**-9 * 32  # ten bits of mantissa
    assert not np.array_equal(product, (left @ right.T))


def test_grid_barriers_keep_all_blocks_in_step(driver):
    x = np.random.default_rng(3).normal(size=512).astype(np.float32)
    front, back, counter = driver.upload(x.tobytes()), driver.alloc(2048), driver.upload(bytes(4))
    driver.launch("example_grid_steps", 4, 128, pack("qqqi", front, back, counter, 6))
    for _ in range(6):
        x = np.float32(0.5) * (np.roll(x, 1) + np.roll(x, -1))
    assert np.array_equal(numbers(driver, front, 512), x)
    # The counter is ready for the next launch, also of another number of blocks.
    driver.launch("example_grid_steps", 2, 128, pack("qqqi", front, back, counter, 2))
    driver.synchronize()


def test_atomics_and_dynamic_shared_memory(driver):
    x = np.random.default_rng(4).integers(0, 10, 3000).astype(np.int32)
    counts = driver.upload(bytes(40))
    driver.launch("example_histogram", 12, 256, pack("qqqi", driver.upload(x.tobytes()), counts, 3000, 10), shared=40)
    assert np.array_equal(numbers(driver, counts, 10, np.uint32), np.bincount(x, minlength=10))


def test_a_kernel_without_barriers_never_switches_fibres(driver):
    x = driver.upload(np.ones(100_000, np.float32).tobytes())
    before = driver.count("switches")
    driver.launch("example_multiply_add", 391, 256, pack("qqiff", x, 100_000, 3, 2.0, 1.0))
    assert np.all(numbers(driver, x, 100_000) == 15.0)
    assert driver.count("switches") - before <= 2
