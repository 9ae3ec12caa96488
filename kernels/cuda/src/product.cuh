// C[m, n] = sum over k of A[m, k] B[k, n] in float32, one 64 x 64 tile a block of 256 threads. With `narrow` the factors are
// rounded to bfloat16 or TF32 first, as kernels.Precision defines it; that saves no time here.
//
// Slabs of 16 k go through shared memory, transposed where they have to be, so that global reads run along rows of what is
// stored; a thread keeps 4 x 4 sums in registers, added in rising k. An element of A or B is read once for 64 results.
#pragma once
#include "device.cuh"

constexpr int kTile = 64, kSlab = 16, kProductThreads = 256, kTilePitch = kTile + 4;

// A matrix, or the transpose of one that is stored: element (i, k) is data[i * stride + k], or data[k * stride + i].
struct Operand {
  const float *data;
  int64_t stride;
  int64_t extent;  // of i; beyond it are zeros
};

// x as products of a precision see it.
DEVICE float narrowed(float x, int32_t precision) {
#define KIND(word) +1
  static_assert(PRECISIONS(KIND) == 3, "a precision is missing here");
#undef KIND
  if (precision == PRECISION_tensorfloat32) return __uint_as_float(to_tf32(x));
  return precision == PRECISION_bfloat16 ? from_bf16(to_bf16(normal(x))) : x;
}

// Fetches rows first .. first + 63 of an operand, columns k .. k + 15, to slab[k][row].
template <bool transposed>
DEVICE void fetch_slab(float *slab, const Operand &x, int64_t first, int64_t k, int64_t depth, int32_t narrow) {
  for (int n = threadIdx.x; n < kTile * kSlab; n += kProductThreads) {
    const int i = transposed ? n % kTile : n / kSlab, j = transposed ? n / kTile : n % kSlab;
    const bool inside = first + i < x.extent && k + j < depth;
    const float value = !inside      ? 0.0f
                        : transposed ? x.data[(k + j) * x.stride + first + i]
                                     : x.data[(first + i) * x.stride + k + j];
    slab[j * kTilePitch + i] = narrowed(value, narrow);
  }
}

// Computes the tile at (m, n) and calls store(row, column, sums, count) for runs of up to four columns that are inside.
template <bool a_transposed, bool b_transposed, class Store>
DEVICE void product_tile(const Operand &a, const Operand &b, int64_t depth, int64_t m, int64_t n, int32_t narrow,
                         Store store) {
  SHARED(float4, left, [kSlab][kTilePitch / 4]);  // so that a thread reads its four numbers at once
  SHARED(float4, right, [kSlab][kTilePitch / 4]);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  const bool idle = m + row >= a.extent || n + column >= b.extent;
  float sum[4][4] = {};
  for (int64_t k = 0; k < depth; k += kSlab) {
    fetch_slab<a_transposed>(&left[0][0].x, a, m, k, depth, narrow);
    fetch_slab<b_transposed>(&right[0][0].x, b, n, k, depth, narrow);
    __syncthreads();
    const int end = idle ? 0 : depth - k < kSlab ? int(depth - k) : kSlab;
    for (int j = 0; j < end; j++) {
      const float4 l = left[j][row / 4], r = right[j][column / 4];
      const float x[4] = {l.x, l.y, l.z, l.w}, y[4] = {r.x, r.y, r.z, r.w};
      for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++) sum[p][q] = fmaf(x[p], y[q], sum[p][q]);
    }
    __syncthreads();
  }
  const int64_t left_over = b.extent - n - column;
  if (left_over <= 0) return;
  const int count = left_over < 4 ? int(left_over) : 4;
  for (int p = 0; p < 4; p++)
    if (m + row + p < a.extent) store(m + row + p, n + column, sum[p], count);
}
