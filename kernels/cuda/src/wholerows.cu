// Operations on whole rows of a layer. Formulas: kernels/wholerows.go.
#include "step.cuh"

struct WholeRowsArgs {
  const StepRecord *step;
  float *x;  // [B, units]: the sums, or a gradient in the way back
  const float *h;  // [B, units], in the way back
  const float *shift;  // [units], may be null
  int64_t units;
  float cap;
  int32_t launch;
};

// The row of a warp; false: it has none.
DEVICE bool row_of_warp(const WholeRowsArgs &a, int64_t &u) {
  u = int64_t(blockIdx.x) * kRowWarps + warp_id();
  return u < a.step->rows && !failed_before(a.step, a.launch);
}

// x = soft-max of x.
//
// Mapping: a warp has a row.
// Bytes: reads and writes x: 8 B units, and does so once more in the cache; bound by them.
// Source: kernels/wholerows.go, SoftmaxRows; scheme: own.
KERNEL_BOUNDS(softmax_rows, WholeRowsArgs, 32 * kRowWarps, 4) {
  int64_t u;
  if (!row_of_warp(a, u)) return;
  float *x = a.x + u * a.units, top = -infinity();
  for (int64_t k = lane_id(); k < a.units; k += 32) top = fmaxf(top, x[k]);
  for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, lanes));
  double sum = 0.0;
  for (int64_t k = lane_id(); k < a.units; k += 32) {
    const float e = expf(x[k] - top);
    sum += double(e);
    x[k] = e;
  }
  const float scale = float(1.0 / warp_sum(sum));
  for (int64_t k = lane_id(); k < a.units; k += 32) x[k] *= scale;
}

// x = h (g - sum of h g), g = x + shift.
//
// Mapping: a warp has a row.
// Bytes: reads h and x, writes x: 12 B units, and reads both once more from the cache; bound by them.
// Source: kernels/wholerows.go, SoftmaxRowsBackward; scheme: own.
KERNEL_BOUNDS(softmax_rows_backward, WholeRowsArgs, 32 * kRowWarps, 4) {
  int64_t u;
  if (!row_of_warp(a, u)) return;
  float *x = a.x + u * a.units;
  const float *h = a.h + u * a.units;
  double sum = 0.0;
  for (int64_t k = lane_id(); k < a.units; k += 32) {
    const float g = a.shift ? x[k] + a.shift[k] : x[k];
    sum += double(h[k]) * double(g);
    x[k] = g;
  }
  const float along = float(warp_sum(sum));
  for (int64_t k = lane_id(); k < a.units; k += 32) x[k] = h[k] * (x[k] - along);
}

// x is scaled to the norm cap / rows of the whole batch where it is longer.
//
// Mapping: a warp has a row.
// Bytes: reads x, and writes it where it is long: 8 B units at most, which bound it.
// Source: kernels/wholerows.go, CapRows; scheme: own.
KERNEL_BOUNDS(cap_rows, WholeRowsArgs, 32 * kRowWarps, 4) {
  int64_t u;
  if (!row_of_warp(a, u)) return;
  float *x = a.x + u * a.units;
  double square = 0.0;
  for (int64_t k = lane_id(); k < a.units; k += 32) square += double(x[k]) * double(x[k]);
  const double norm = sqrt(warp_sum(square)), limit = double(a.cap) / double(a.step->whole);
  if (norm <= limit) return;  // a norm that is not a number is not
  const double scale = limit / norm;  // may be below float32
  for (int64_t k = lane_id(); k < a.units; k += 32) x[k] = float(double(x[k]) * scale);
}
