"""The example kernels compute what they say."""

import numpy as np
import pytest

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


def test_products_that_are_cut_off_as_on_tensor_cores(driver):
    # One product is 1, seven are 1.5 * 2^-24, 0.75 of what separates 1 from the next float32.
    left, right = np.zeros((16, 16), np.float32), np.zeros((8, 16), np.float32)
    left[:, 0], right[:, 0] = 1, 1
    left[:, 1:8], right[:, 1:8] = 1.5 * 2.0**-12, 2.0**-12
    out = driver.alloc(16 * 8 * 4)
    args = pack("qqqiii", driver.upload(bf16(left).tobytes()), driver.upload(bf16(right).tobytes()), out, 16, 8, 16)
    # Each is rounded up; or cut off to one unit of 2^-24, and so is their sum to steps of 2^-23.
    for truncate, steps in ((0, 7), (1, 3)):
        driver.set("truncate", truncate)
        driver.launch("example_bf16_product", (1, 1, 1), 32, args)
        assert np.all(numbers(driver, out, 128) == 1 + steps * 2.0**-23)


@pytest.mark.parametrize("negative", [False, True])
def test_products_that_are_cut_off_are_as_near_as_tensor_cores_are(driver, negative):
    driver.set("truncate", 1)
    rng = np.random.default_rng(1)
    k = 256
    left, right = rng.random((16, k)), rng.random((8, k))
    left = bf16(-left if negative else left)
    out = driver.alloc(16 * 8 * 4)
    args = pack("qqqiii", driver.upload(left.tobytes()), driver.upload(bf16(right).tobytes()), out, 16, 8, k)
    driver.launch("example_bf16_product", (1, 1, 1), 32, args)
    exact = np.abs(wide(left).astype(np.float64) @ wide(bf16(right)).astype(np.float64).T)
    short = exact - np.abs(numbers(driver, out, 128).reshape(16, 8))
    assert np.all(short >= 0), "what is cut off goes towards zero"
    # In each of k / 8 steps nine addends lose less than 2^-24 of the largest, and the sum less than 2^-23 of itself.
    assert np.all(short < k / 8 * (9 + 2) * 2.0**-24 * exact)
    assert short.max() > 2.0**-24 * exact.max(), "more than rounding to nearest would"


@pytest.mark.parametrize("value", [np.inf, np.nan, 3e38, 1e-38])
def test_products_that_are_cut_off_know_special_numbers(driver, value):
    driver.set("truncate", 1)
    left, right = np.zeros((16, 16), np.float32), np.zeros((8, 16), np.float32)
    left[:, 3], right[:, 3] = value, 1
    out = driver.alloc(16 * 8 * 4)
    args = pack("qqqiii", driver.upload(bf16(left).tobytes()), driver.upload(bf16(right).tobytes()), out, 16, 8, 16)
    driver.launch("example_bf16_product", (1, 1, 1), 32, args)
    assert np.array_equal(numbers(driver, out, 128), np.full(128, wide(bf16(value))), equal_nan=True)


FUNCTIONS = (np.exp, np.expm1, np.log, np.log1p, np.tanh)


@pytest.mark.parametrize("function", range(len(FUNCTIONS)))
def test_functions_are_off_by_as_many_ulps_as_asked_for(driver, function):
    x = np.concatenate([np.linspace(1e-3, 4, 1000), [0, 1, np.inf, 30]]).astype(np.float32)
    where, y = driver.upload(x.tobytes()), driver.alloc(x.nbytes)
    results = []
    for ulps in (0, 2, 2):
        driver.set("ulps", ulps)
        driver.launch("example_functions", 4, 256, pack("qqqi", where, y, len(x), function))
        results.append(numbers(driver, y, len(x)))
    usual, moved, again = results
    assert np.array_equal(moved, again), "the argument decides"
    off = moved.view(np.int32).astype(np.int64) - usual.view(np.int32)
    assert set(off) == {-2, -1, 0, 1, 2}
    assert np.all(off[1000:][usual[1000:] == 0] == 0)
    assert np.array_equal(moved[-2], usual[-2]), "infinity"
    assert moved.max() <= 1 or FUNCTIONS[function] is not np.tanh
