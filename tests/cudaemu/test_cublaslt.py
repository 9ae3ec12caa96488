"""The stand-in for cuBLASLt: products of float32, TF32 and bfloat16."""

import ctypes

import numpy as np
import pytest

from emulator import LIBRARY, pack

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


class Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def heuristic(lt, description, *layouts, workspace=0, alignment=16):
    """The status and the algorithms for layouts of A, B and D."""
    preference = lt.out("cublasLtMatmulPreferenceCreate")

    assert lt.code("cublasLtMatmulPreferenceSetAttribute", preference, 1, pack("q", workspace), 8) == 0
    for of in range(5, 9):
        assert lt.code("cublasLtMatmulPreferenceSetAttribute", preference, of, pack("i", alignment)[:4], 4) == 0
    a, b, d = layouts
    results, found = (Proposal * 1)(), ctypes.c_int()
    args = (lt.handle, description, a, b, d, d, preference, 1, results, ctypes.byref(found))
    return lt.code("cublasLtMatmulAlgoGetHeuristic", *args), list(results[: found.value])


@pytest.fixture
def modes(monkeypatch):
    return lambda *names: monkeypatch.setenv("DSSTNE_CUDAEMU_CUBLASLT", ",".join(names))


def test_heuristics_fail_during_a_capture_if_they_are_told_to(driver, lt, modes):
    square, description = lt.layout(FLOAT32, 8, 8), lt.description(COMPUTE_32F, 0)

    def ask():
        return heuristic(lt, description, square, square, square)

    assert (ask()[0], len(ask()[1])) == (0, 1)
    stream = driver.out("cuStreamCreate", 1)
    driver("cuStreamBeginCapture_v2", stream, 2)
    assert ask()[0] == 0
    modes("order", "capture")
    assert ask() == (14, [])
    graph = ctypes.c_uint64()
    driver("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver("cuGraphDestroy", graph.value)
    assert ask()[0] == 0


def test_heuristics_fail_now_and_then_if_they_are_told_to(driver, lt, modes):
    modes("flaky")
    square, description = lt.layout(FLOAT32, 8, 8), lt.description(COMPUTE_32F, 0)
    statuses = [heuristic(lt, description, square, square, square)[0] for _ in range(20)]
    assert set(statuses) == {0, 3, 14}
    assert statuses.count(0) == 16


def test_no_product_is_supported_or_none_of_16_bits(driver, lt, modes):
    description = lt.description(COMPUTE_32F, 0)
    narrow, wide = lt.layout(BFLOAT16, 8, 8), lt.layout(FLOAT32, 8, 8)
    modes("half")
    assert heuristic(lt, description, narrow, narrow, wide) == (15, [])
    assert len(heuristic(lt, description, wide, wide, wide)[1]) == 1
    modes("refuse")
    assert heuristic(lt, description, wide, wide, wide) == (0, [])


def multiply(lt, description, a, b, d, proposal, workspace=0, size=0):
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    algorithm = ctypes.byref(proposal.algorithm)
    return lt.code(
        "cublasLtMatmul", lt.handle, description, one, *a, *b, zero, *d, *d, algorithm, workspace, size, None
    )


def test_an_algorithm_takes_workspace_if_it_may_and_leaves_garbage_there(driver, lt, modes):
    modes("workspace")
    square, description = lt.layout(FLOAT32, 8, 8), lt.description(COMPUTE_32F, 0)
    assert heuristic(lt, description, square, square, square)[1][0].workspace == 0
    (proposal,) = heuristic(lt, description, square, square, square, workspace=1 << 20)[1]
    assert proposal.workspace == 4 * 8 * 8 * 4
    x, d, space = driver.upload(bytes(256)), driver.upload(bytes(256)), driver.upload(bytes(2048))
    args = (lt, description, (x, square), (x, square), (d, square), proposal)
    assert multiply(*args, space, proposal.workspace - 1) == 7
    assert multiply(*args, space, 2048) == 0
    assert driver.download(space, 2048) == b"\xff" * 1024 + bytes(1024)
    assert driver.download(d, 256) == bytes(256)


def test_an_algorithm_is_for_the_product_that_it_was_found_for(driver, lt):
    square, description = lt.layout(FLOAT32, 8, 8), lt.description(COMPUTE_32F, 0)
    small = lt.layout(FLOAT32, 4, 8)
    (proposal,) = heuristic(lt, description, square, square, square)[1]
    x, d = driver.upload(bytes(256)), driver.alloc(256)
    assert multiply(lt, description, (x, small), (x, square), (d, small), proposal) == 7


def test_matrices_are_aligned_as_promised_and_lines_of_16_bits_to_16_bytes(driver, lt, modes):
    modes("align")
    description = lt.description(COMPUTE_32F, 0)
    wide, odd, narrow = lt.layout(FLOAT32, 9, 9), lt.layout(BFLOAT16, 9, 9), lt.layout(BFLOAT16, 8, 8)
    assert heuristic(lt, description, odd, odd, wide) == (15, [])
    assert len(heuristic(lt, description, wide, wide, wide)[1]) == 1
    square = lt.layout(FLOAT32, 8, 8)
    (proposal,) = heuristic(lt, description, narrow, narrow, square)[1]
    x, d = driver.upload(bytes(1024)), driver.alloc(1024)
    assert multiply(lt, description, (x, narrow), (x + 16, narrow), (d, square), proposal) == 0
    assert multiply(lt, description, (x, narrow), (x + 8, narrow), (d, square), proposal) == 15
    (proposal,) = heuristic(lt, description, narrow, narrow, square, alignment=64)[1]
    assert multiply(lt, description, (x, narrow), (x + 16, narrow), (d, square), proposal) == 15


def product(driver, lt, a, b):
    """a @ b.T of float32 matrices."""
    out = driver.alloc(4 * len(a) * len(b))
    matrices = ((driver.upload(x.tobytes()), lt.layout(FLOAT32, *x.shape)) for x in (a, b))
    assert lt.multiply(lt.description(COMPUTE_32F, 1), *matrices, (out, lt.layout(FLOAT32, len(a), len(b)))) == 0
    return np.frombuffer(driver.download(out, 4 * len(a) * len(b)), np.float32).reshape(len(a), len(b))


def test_sums_have_an_order_of_their_own_that_depends_on_the_shape(driver, lt, modes):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(rows, 300)).astype(np.float32) for rows in (300, 200))
    rising = product(driver, lt, a, b)
    modes("order")
    other = product(driver, lt, a, b)
    assert np.array_equal(other, product(driver, lt, a, b)), "the same each time"
    assert np.mean(other != rising) > 0.5
    assert np.abs(other - rising).max() < 302 * 2.0**-24 * 300
    assert np.mean(product(driver, lt, a[:50], b) != other[:50]) > 0.5, "rows depend on how many there are"


@pytest.mark.parametrize("mode", ["", "order"])
@pytest.mark.parametrize("kind", ["float32", "tf32", "bf16"])
def test_tensor_cores_cut_sums_off(driver, lt, modes, kind, mode):
    modes(mode)
    driver.set("truncate", 1)
    rng = np.random.default_rng(0)
    k = 160
    a, b = (rng.random(size=(rows, k)).astype(np.float32) for rows in (9, 7))
    dtype, stored = (BFLOAT16, bf16) if kind == "bf16" else (FLOAT32, lambda x: x)
    d = driver.alloc(4 * 63)
    description = lt.description(COMPUTE_TF32 if kind == "tf32" else COMPUTE_32F, 1)
    factors = ((driver.upload(stored(x).tobytes()), lt.layout(dtype, *x.shape)) for x in (a, b))
    assert lt.multiply(description, *factors, (d, lt.layout(FLOAT32, 9, 7))) == 0
    result = np.frombuffer(driver.download(d, 4 * 63), np.float32).reshape(9, 7)
    if kind == "bf16":
        a, b = ((bf16(x).astype(np.uint32) << 16).view(np.float32) for x in (a, b))
    if kind == "tf32":
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    # Of each step, of 8 products at most, all addends lose 2^-24 of the largest, and the sum 2^-23; parts are rounded.
    short = (exact - result) / exact
    assert np.all(np.abs(short) < (k / 4 * (5 + 2) + 3) * 2.0**-24)
    if kind != "float32":
        assert short.mean() > 2.0**-25, "what is cut off goes towards zero"
