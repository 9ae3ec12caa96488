"""How fast the emulator runs the example kernels: python tests/cudaemu/speed.py."""

import time

import numpy as np

from emulator import Driver, pack


def seconds(work, repeats=5):
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def main():
    driver = Driver()

    def launch(*args, **kwargs):
        driver.launch(*args, **kwargs)
        driver.synchronize()

    n = 1 << 18
    x = driver.upload(np.ones(n, np.float32).tobytes())
    integers = driver.upload(np.ones(n, np.int32).tobytes())
    out = driver.alloc(4 * n)
    empty = seconds(lambda: launch("example_multiply_add", 1, 32, pack("qqiff", x, 32, 1, 1.0, 0.0)), 50)
    print(f"smallest launch and wait  {empty * 1e6:8.1f} us, {n * 12 >> 20} MiB in use")
    t = seconds(lambda: launch("example_multiply_add", n // 256, 256, pack("qqiff", x, n, 1, 1.0, 0.0)))
    print(f"load, multiply, store     {n / t / 1e6:8.1f} M threads/s")
    t = seconds(lambda: launch("example_multiply_add", n // 256, 256, pack("qqiff", x, n, 256, 1.0, 0.0)))
    print(f"multiply-adds, dependent  {n * 256 / t / 1e6:8.1f} M/s")
    before = driver.count("switches")
    t = seconds(lambda: launch("example_tiled_sum", n // 256, 256, pack("qqq", x, out, n)), 1)
    switches = driver.count("switches") - before
    print(f"tiled sum                 {n / t / 1e6:8.1f} M elements/s, {switches / t / 1e6:.1f} M switches/s")
    before = driver.count("switches")
    t = seconds(lambda: launch("example_warp_scan", n // 256, 256, pack("qqq", integers, out, n)), 1)
    switches = driver.count("switches") - before
    print(f"warp scan                 {5 * n / t / 1e6:8.1f} M lane shuffles/s, {switches / t / 1e6:.1f} M switches/s")
    m, k = 256, 256
    matrix = driver.upload(np.ones(m * k, np.uint16).tobytes())
    t = seconds(
        lambda: launch("example_bf16_product", (m // 8, m // 16, 1), 32, pack("qqqiii", matrix, matrix, out, m, m, k))
    )
    print(f"bf16 products             {m * m * k / t / 1e6:8.1f} M multiply-adds/s")


if __name__ == "__main__":
    main()
