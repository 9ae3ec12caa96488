// A copy of a matrix, or a sum of two. Formula: kernels/copymatrix.go.
#include "step.cuh"

// The rows and columns of a tile, and how many of its rows a block reads at the same time; those of copymatrix.go.
constexpr int kCopyTile = 32, kCopyRows = 8;

struct CopyMatrixArgs {
  const StepRecord *step;
  const float *in;  // [rows, columns], or [columns, rows] if transposed
  float *out;  // [rows, columns]
  int64_t rows, columns;
  int32_t transposed, accumulate, launch;
};

// out (+)= in or its transpose.
//
// Mapping: a block has a tile of 32 x 32 numbers, a thread every eighth of a column. The tile of a matrix that is
// transposed goes through shared memory, whose rows are one number longer, so that no two lanes meet in a bank.
// Bytes: 8 an element, or 12 where it adds; bound by them.
// Source: kernels/copymatrix.go; scheme: own.
KERNEL_BOUNDS(copy_matrix, CopyMatrixArgs, kCopyTile *kCopyRows, 4) {
  SHARED(float, tile, [kCopyTile][kCopyTile + 1]);
  if (failed_before(a.step, a.launch)) return;
  const int64_t across = (a.columns + kCopyTile - 1) / kCopyTile;
  const int64_t top = int64_t(blockIdx.x) / across * kCopyTile, left = int64_t(blockIdx.x) % across * kCopyTile;
  const int lane = threadIdx.x % kCopyTile, first = threadIdx.x / kCopyTile;
  if (a.transposed) {
    for (int n = first; n < kCopyTile; n += kCopyRows)
      if (left + n < a.columns && top + lane < a.rows) tile[n][lane] = a.in[(left + n) * a.rows + top + lane];
    __syncthreads();
  }
  for (int n = first; n < kCopyTile; n += kCopyRows) {
    const int64_t i = top + n, j = left + lane;
    if (i >= a.rows || j >= a.columns) continue;
    const float x = a.transposed ? tile[lane][n] : a.in[i * a.columns + j];
    float &out = a.out[i * a.columns + j];
    out = a.accumulate ? out + x : x;
  }
}
