"""Small systems of equations, kernels/cpu/c/cholesky.h, compiled alone for each instruction set."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCES = Path(__file__).resolve().parents[2] / "kernels" / "cpu" / "c"
PROGRAM = """
#include "vector.h"
#include "cholesky.h"
int solved(float *a, long n, float *reciprocals, float *b) {
  if (!cholesky(a, n, reciprocals)) return 0;
  cholesky_solve(a, n, reciprocals, b);
  return 1;
}
void gram(float *a, const float *x, long stride, long rows) { add_gram(a, x, stride, rows); }
"""
LEVELS = {"portable": None, "avx2": "avx2", "avx512": "avx512dq"}
SIZES = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 128, 257, 512]


@pytest.fixture(scope="session", params=LEVELS)
def compiled(request, tmp_path_factory):
    flag = LEVELS[request.param]
    if flag and (platform.machine() != "x86_64" or flag not in Path("/proc/cpuinfo").read_text()):
        pytest.skip(f"this CPU lacks {request.param}")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("cholesky")
    source, made = folder / f"{request.param}.c", folder / f"{request.param}.so"
    source.write_text((SOURCES / f"isa_{request.param}.c").read_text().replace('#include "table.h"', PROGRAM))
    flags = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, f"-I{SOURCES}", source, "-o", made, "-lm"], check=True)
    return ctypes.CDLL(str(made))


def pointer(x):
    assert x.dtype == np.float32
    assert x.flags.c_contiguous
    return x.ctypes.data_as(ctypes.c_void_p)


def padded(n):
    return -(-n // 16) * 16


def solved(library, matrix, right):
    """The solution; numbers that nobody must read are NaN, and numbers behind the arrays must stay."""
    n = len(matrix)
    stride = padded(n)
    room = np.full(stride * stride + 16, np.nan, np.float32)
    a = room[: stride * stride].reshape(stride, stride)
    a[:n, :n] = np.where(np.tri(n, k=-1, dtype=bool), np.nan, matrix)
    b, reciprocals = np.full(stride + 16, np.nan, np.float32), np.full(stride + 16, np.nan, np.float32)
    b[:n] = right
    done = library.solved(pointer(room), ctypes.c_long(n), pointer(reciprocals), pointer(b))
    for array, size in ((room, stride * stride), (b, stride), (reciprocals, stride)):
        assert np.isnan(array[size:]).all()
    return b[:n] if done else None


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_solutions_have_small_residuals(compiled, n, scale):
    random = np.random.default_rng(n)
    x = random.standard_normal((2 * n, n))
    matrix = scale * (x.T @ x + np.eye(n))
    right = random.standard_normal(n)
    x = solved(compiled, matrix, right).astype(np.float64)
    # The backward error, which no condition of the matrix makes larger.
    left = matrix @ x - right
    assert np.abs(left).max() <= 1e-6 * (np.abs(matrix) @ np.abs(x) + np.abs(right)).max()


@pytest.mark.parametrize("n", SIZES)
def test_what_is_not_positive_definite_is_reported(compiled, n):
    for last in (-1.0, 0.0, 1e-39, np.nan, np.inf):
        for place in {0, n // 2, n - 1}:
            matrix = np.eye(n)
            matrix[place, place] = last
            assert solved(compiled, matrix, np.ones(n)) is None, (last, place)
    x = np.random.default_rng(n).standard_normal((n, 1))
    if n > 1:
        assert solved(compiled, x @ x.T - 1e-3 * np.eye(n), np.ones(n)) is None


@pytest.mark.parametrize("n", SIZES[:-1])
@pytest.mark.parametrize("rows", [0, 1, 5, 64])
def test_sums_of_squares_are_those_of_float64(compiled, n, rows):
    stride = padded(n)
    random = np.random.default_rng(rows)
    a = random.standard_normal((stride, stride)).astype(np.float32)
    x = np.zeros((rows, stride), np.float32)
    x[:, :n] = random.standard_normal((rows, n))
    exact = a + x.T.astype(np.float64) @ x
    compiled.gram(pointer(a), pointer(x), ctypes.c_long(stride), ctypes.c_long(rows))
    upper = np.triu_indices(n)
    np.testing.assert_allclose(a[upper], exact[upper], rtol=2e-6, atol=2e-6 * np.sqrt(rows + 1))
