// Layers that compute with the values of other layers without weights, and the way back.
#include "step.cuh"

// The rows of a block; mergeRows of merge.go.
constexpr int kMergeRows = 4;

struct MergeArgs {
  const StepRecord *step;
  const float *h[kMostSources];  // [B, units] each
  float *dh[kMostSources];  // null: not needed
  uint64_t accumulate;  // a bit for each source
  float *out;  // [B, columns]; in the way back its gradient
  int64_t units;
  int32_t sources, kind, launch;
};

// The product of rows of two sources in float64, on all lanes.
DEVICE double row_product(const float *a, const float *b, int64_t n) {
  double sum = 0.0;
  for (int64_t k = lane_id(); k < n; k += 32) sum += double(a[k]) * double(b[k]);
  return warp_sum(sum);
}

// 1 over the lengths of both rows, 0 if one is a zero vector; 1 for a plain product.
struct Lengths {
  double first, second;
};

DEVICE Lengths lengths_of(const MergeArgs &a, const float *x, const float *y) {
  if (a.kind != MERGE_cosine) return {1.0, 1.0};
  const double xx = row_product(x, x, a.units), yy = row_product(y, y, a.units);
  if (xx == 0.0 || yy == 0.0) return {0.0, 0.0};
  return {1.0 / sqrt(xx), 1.0 / sqrt(yy)};
}

// The maximum of the sources, or the products of the first one with the others.
//
// Mapping: a warp has a row.
// Bytes: reads 4 a unit and source; bound by them.
// Source: kernels/merge.go, Merge; scheme: own.
KERNEL_BOUNDS(merge, MergeArgs, 32 * kMergeRows, 8) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * kMergeRows + warp_id(), at = u * a.units;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  if (a.kind == MERGE_maximum) {
    for (int64_t k = lane_id(); k < a.units; k += 32) {
      float most = a.h[0][at + k];
      for (int s = 1; s < a.sources; s++) {
        const float x = a.h[s][at + k];
        if (x > most) most = x;
      }
      a.out[at + k] = most;
    }
    return;
  }
  for (int s = 1; s < a.sources; s++) {
    const float *x = a.h[0] + at, *y = a.h[s] + at;
    const Lengths inverse = lengths_of(a, x, y);
    const double product = row_product(x, y, a.units) * inverse.first * inverse.second;
    if (lane_id() == 0) a.out[u * (a.sources - 1) + s - 1] = float(product);
  }
}

DEVICE void give(const MergeArgs &a, int s, int64_t at, float g, bool add) {
  if (!a.dh[s]) return;
  a.dh[s][at] = add ? g + a.dh[s][at] : g;
}

DEVICE bool adds(const MergeArgs &a, int s) { return a.accumulate >> s & 1; }

// The gradients with respect to the sources.
//
// Mapping: a warp has a row.
// Bytes: reads 4 a unit and source, and writes as many; bound by them.
// Source: kernels/merge.go, MergeBackward; scheme: own.
KERNEL_BOUNDS(merge_backward, MergeArgs, 32 * kMergeRows, 8) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * kMergeRows + warp_id(), at = u * a.units;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  if (a.kind == MERGE_maximum) {
    for (int64_t k = lane_id(); k < a.units; k += 32) {
      int first = 0;
      for (int s = 1; s < a.sources; s++)
        if (a.h[s][at + k] > a.h[first][at + k]) first = s;
      for (int s = 0; s < a.sources; s++) give(a, s, at + k, s == first ? a.out[at + k] : 0.0f, adds(a, s));
    }
    return;
  }
  for (int s = 1; s < a.sources; s++) {
    const float *x = a.h[0] + at, *y = a.h[s] + at;
    const Lengths inverse = lengths_of(a, x, y);
    const double product = row_product(x, y, a.units) * inverse.first * inverse.second;
    const double g = double(a.out[u * (a.sources - 1) + s - 1]), across = g * inverse.first * inverse.second;
    const double turn = a.kind == MERGE_cosine ? g * product : 0.0;
    const double of_x = turn * inverse.first * inverse.first, of_y = turn * inverse.second * inverse.second;
    for (int64_t k = lane_id(); k < a.units; k += 32) {
      const double p = double(x[k]), q = double(y[k]);
      give(a, 0, at + k, float(across * q - of_x * p), s > 1 || adds(a, 0));
      give(a, s, at + k, float(across * p - of_y * q), adds(a, s));
    }
  }
}

struct SkipArgs {
  const StepRecord *step;
  const float *in;  // [B, stride], from the first column on
  float *out;  // [B, units]
  int64_t units, stride;
  int32_t accumulate, launch;
};

// out (+)= in.
//
// Mapping: a thread has an element.
// Bytes: 8 an element, or 12 where it adds; bound by them.
// Source: kernels/merge.go, Skip; scheme: own.
KERNEL_BOUNDS(skip, SkipArgs, 128, 8) {
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (k >= a.units || u >= a.step->rows || failed_before(a.step, a.launch)) return;
  const float x = a.in[u * a.stride + k];
  float &out = a.out[u * a.units + k];
  out = a.accumulate ? out + x : x;
}
