"""The stand-in for cuBLASLt: products of float32, TF32 and bfloat16."""

import ctypes

import numpy as np
import pytest

from emulator import LIBRARY

FLOAT32, BFLOAT16 = 0, 14
COMPUTE_32F, COMPUTE_TF32 = 68, 77
M, N, K = 5, 7, 19


class Lt:
    def __init__(self):
        self.library = ctypes.CDLL(str(LIBRARY.with_name("libcublasLt.so.12")))
        self.handle = self.out("cublasLtCreate")

    def code(self, function, *args):
        return getattr(self.library, function)(*(ctypes.c_uint64(a) if isinstance(a, int) else a for a in args))

    def out(self, function, *args):
        result = ctypes.c_uint64()
        assert self.code(function, ctypes.byref(result), *args) == 0
        return result.value

    def layout(self, kind, rows, columns, row_major=True):
        layout = self.out("cublasLtMatrixLayoutCreate", kind, rows, columns, columns if row_major else rows)
        assert self.code("cublasLtMatrixLayoutSetAttribute", layout, 1, ctypes.byref(ctypes.c_int(row_major)), 4) == 0
        return layout

    def description(self, compute, transpose_b):
        description = self.out("cublasLtMatmulDescCreate", compute, FLOAT32)
        assert (
            self.code("cublasLtMatmulDescSetAttribute", description, 4, ctypes.byref(ctypes.c_int(transpose_b)), 4) == 0
        )
        return description

    def multiply(self, description, a, b, d, alpha=1.0, beta=0.0):
        """Each matrix is (address, layout)."""
        alpha, beta = ctypes.byref(ctypes.c_float(alpha)), ctypes.byref(ctypes.c_float(beta))
        return self.code("cublasLtMatmul", self.handle, description, alpha, *a, *b, beta, *d, *d, None, None, 0, None)


@pytest.fixture
def lt(driver):
    return Lt()


def bf16(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("kind", ["float32", "tf32", "bf16"])
def test_products_are_those_of_the_rounded_factors(driver, lt, kind, row_major):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=s).astype(np.float32) for s in [(M, K), (N, K), (M, N)])
    order = "C" if row_major else "F"
    dtype = BFLOAT16 if kind == "bf16" else FLOAT32
    stored = bf16 if kind == "bf16" else lambda x: x
    d = driver.upload(c.tobytes(order))
    code = lt.multiply(
        lt.description(COMPUTE_TF32 if kind == "tf32" else COMPUTE_32F, 1),
        (driver.upload(stored(a).tobytes(order)), lt.layout(dtype, M, K, row_major)),
        (driver.upload(stored(b).tobytes(order)), lt.layout(dtype, N, K, row_major)),
        (d, lt.layout(FLOAT32, M, N, row_major)),
        alpha=2.0,
        beta=0.5,
    )
    assert code == 0
    result = np.frombuffer(driver.download(d, 4 * M * N), np.float32).reshape((M, N), order=order)
    if kind == "bf16":
        a, b = ((bf16(x).astype(np.uint32) << 16).view(np.float32) for x in (a, b))
    if kind == "tf32":
        a, b = (((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32) for x in (a, b))
    exact = 2.0 * (a.astype(np.float64) @ b.astype(np.float64).T) + 0.5 * c
    assert np.abs(result - exact).max() < (K + 3) * 2.0**-24 * 2 * K  # float32 sums of K terms
    assert driver.count("works.cublasLtMatmul") == 1


def test_shapes_and_types_that_do_not_fit_are_refused(driver, lt):
    x = driver.upload(bytes(4 * 64))
    square = lt.layout(FLOAT32, 8, 8)
    description = lt.description(COMPUTE_32F, 0)
    assert lt.multiply(description, (x, square), (x, square), (driver.alloc(256), square)) == 0
    assert lt.multiply(description, (x, square), (x, lt.layout(FLOAT32, 4, 8)), (x, square)) == 7
    assert lt.multiply(description, (x, square), (x, lt.layout(BFLOAT16, 8, 8)), (x, square)) == 15
    assert lt.multiply(lt.description(64, 0), (x, square), (x, square), (x, square)) == 15
    assert lt.multiply(description, (x + 4, square), (x, square), (x, square)) == 13
    driver.fail("cublasLtMatmul", 1, 14)
    assert lt.multiply(description, (x, square), (x, square), (x, square)) == 14


def test_heuristics_offer_one_way_and_fail_during_a_capture_if_they_are_told_to(driver, lt, monkeypatch):
    square = lt.layout(FLOAT32, 8, 8)
    preference = lt.out("cublasLtMatmulPreferenceCreate")
    results, found = ctypes.create_string_buffer(96), ctypes.c_int()
    description = lt.description(COMPUTE_32F, 0)
    args = (lt.handle, description, square, square, square, square, preference, 1, results, ctypes.byref(found))
    assert lt.code("cublasLtMatmulAlgoGetHeuristic", *args) == 0
    assert found.value == 1
    stream = driver.out("cuStreamCreate", 1)
    driver("cuStreamBeginCapture_v2", stream, 2)
    assert lt.code("cublasLtMatmulAlgoGetHeuristic", *args) == 0
    monkeypatch.setenv("DSSTNE_CUDAEMU_HEURISTIC", "14")
    assert lt.code("cublasLtMatmulAlgoGetHeuristic", *args) == 14
    assert found.value == 0
    graph = ctypes.c_uint64()
    driver("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver("cuGraphDestroy", graph.value)
    assert lt.code("cublasLtMatmulAlgoGetHeuristic", *args) == 0
