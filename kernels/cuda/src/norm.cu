// Normalisation of a layer's sums, forward and back. Formulas: kernels/norm.go.
#include "epilogue.cuh"
#include "units.cuh"
#include "update.cuh"

struct Norm {
  const float *mean, *variance;  // [units], or [B] with by_row
  const float *scale;  // [units]
  float epsilon;
  int32_t by_row;
};

// 1 / sqrt(variance + epsilon) of a unit or a row.
DEVICE float inverse_of(const Norm &norm, int64_t at) { return 1.0f / sqrtf(norm.variance[at] + norm.epsilon); }

struct UnitMomentsArgs {
  const StepRecord *step;
  const float *x;  // [B, units]
  float *moments;  // [2 units + 1]
  int64_t units;
  int32_t launch;
};

// moments[k] = mean of x, moments[units + k] = sum of (x - mean)^2, moments[2 units] = rows.
//
// Mapping: that of backward, and its order of sums.
// Bytes: reads 4 B units twice, the second time from the cache; bound by that.
// Source: kernels/norm.go, UnitMoments; scheme: own.
KERNEL_BOUNDS(unit_moments, UnitMomentsArgs, 32 * kBackwardWarps, 1) {
  SHARED(float, means, [kBackwardUnits]);
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t k = unit_of_thread(), rows = k < a.units ? step->rows : 0;
  const bool writes = warp_id() == 0 && lane_id() < kBackwardUnits && k < a.units;
  float sum = 0.0f;
  rows_of_unit(rows, [&](int64_t u) { sum += a.x[u * a.units + k]; });
  sum = sum_of_unit(sum);
  if (warp_id() == 0 && lane_id() < kBackwardUnits) means[lane_id()] = step->rows == 0 ? 0.0f : sum / float(step->rows);
  __syncthreads();
  const float mean = means[lane_id() % kBackwardUnits];
  float squares = 0.0f;
  rows_of_unit(rows, [&](int64_t u) {
    const float d = a.x[u * a.units + k] - mean;
    squares += d * d;
  });
  squares = sum_of_unit(squares);
  if (!writes) return;
  a.moments[k] = mean;
  a.moments[a.units + k] = squares;
  if (k == 0) a.moments[2 * a.units] = float(step->rows);
}

struct CombineMomentsArgs {
  const StepRecord *step;
  const float *parts;  // [ranks, 2 units + 1]
  float *mean, *variance;  // [units]
  int64_t ranks, units;
  int32_t launch;
};

// The mean and the variance of each unit over the parts of a batch.
//
// Mapping: a thread has a unit.
// Bytes: reads 8 a unit and rank; bound by its launch.
// Source: kernels/norm.go, CombineMoments (Chan et al., 1979); scheme: own.
KERNEL_BOUNDS(combine_moments, CombineMomentsArgs, 128, 8) {
  const StepRecord *step = a.step;
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, size = 2 * a.units + 1;
  if (k >= a.units || failed_before(step, a.launch)) return;
  double rows = 0.0, mean = 0.0, squares = 0.0;
  for (int64_t r = 0; r < a.ranks; r++) {
    const float *part = a.parts + r * size;
    const double n = double(part[size - 1]);
    if (n == 0.0) continue;
    const double d = double(part[k]) - mean;
    squares += double(part[a.units + k]) + d * d * n * rows / (n + rows);
    mean += d * n / (n + rows);
    rows += n;
  }
  const float variance = float(squares / fmax(1.0, rows));
  if (!finite(float(mean)) || !finite(variance)) {
    fail(step, a.launch, kFailGradient, k);
    return;
  }
  a.mean[k] = float(mean);
  a.variance[k] = variance;
}

struct MoveMomentsArgs {
  const StepRecord *step;
  const float *mean, *variance;  // [units], of the batch
  float *running_mean, *running_variance;  // [units]
  int64_t units;
  float momentum;
  int32_t launch;
};

// running += momentum (that of the batch - running).
//
// Mapping: a thread has a unit.
// Bytes: reads 16 and writes 8 a unit; bound by its launch.
// Source: kernels/norm.go, MoveMoments; scheme: own.
KERNEL_BOUNDS(move_moments, MoveMomentsArgs, 128, 8) {
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= a.units || failed_before(a.step, a.launch)) return;
  const float keep = 1.0f - a.momentum;
  a.running_mean[k] = a.running_mean[k] * keep + a.momentum * a.mean[k];
  a.running_variance[k] = a.running_variance[k] * keep + a.momentum * a.variance[k];
}

struct NormaliseArgs {
  const StepRecord *step;
  const float *in;  // [B, units], may be out
  float *out;  // [B, units]
  int64_t units;
  Norm norm;
  Epilogue epilogue;
  int32_t launch;
};

// out = dropout(act((in - mean) scale / sqrt(variance + epsilon) + bias)).
//
// Mapping: a thread has an element.
// Bytes: 8 an element, which bound it.
// Source: kernels/norm.go, Norm, and kernels/hidden.go, Activate; scheme: own.
KERNEL_BOUNDS(normalise, NormaliseArgs, 128, 8) {
  const StepRecord *step = a.step;
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (k >= a.units || u >= step->rows || failed_before(step, a.launch)) return;
  const int64_t at = a.norm.by_row ? u : k;
  const float z = (a.in[u * a.units + k] - a.norm.mean[at]) * (a.norm.scale[k] * inverse_of(a.norm, at));
  a.out[u * a.units + k] = finish_unit(step, a.epilogue, u, k, z);
}

struct NormSumsArgs {
  const StepRecord *step;
  const float *dy, *x;  // [B, units]
  float *sums;  // [2, units]
  int64_t units;
  Norm norm;
  int32_t launch;
};

// sums[k] = sum over the rows of dy, sums[units + k] = sum over the rows of dy xhat.
//
// Mapping: that of backward, and its order of sums.
// Bytes: reads 8 B units, which bound it.
// Source: kernels/norm.go, NormSums; scheme: own.
KERNEL_BOUNDS(norm_sums, NormSumsArgs, 32 * kBackwardWarps, 1) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t k = unit_of_thread(), rows = k < a.units ? step->rows : 0;
  const bool by_row = a.norm.by_row != 0, has = k < a.units && !by_row;
  const float mean = has ? a.norm.mean[k] : 0.0f, inverse = has ? inverse_of(a.norm, k) : 0.0f;
  float sum = 0.0f, product = 0.0f;
  rows_of_unit(rows, [&](int64_t u) {
    const float dy = a.dy[u * a.units + k];
    sum += dy;
    product +=
        dy * ((a.x[u * a.units + k] - (by_row ? a.norm.mean[u] : mean)) * (by_row ? inverse_of(a.norm, u) : inverse));
  });
  sum = sum_of_unit(sum);
  __syncthreads();  // the first warp has read the sums
  product = sum_of_unit(product);
  if (warp_id() != 0 || lane_id() >= kBackwardUnits || k >= a.units) return;
  a.sums[k] = sum;
  a.sums[a.units + k] = product;
}

struct NormBackwardArgs {
  const StepRecord *step;
  float *dy;  // [B, units], in: dL/dy, out: dL/dz
  const float *x;  // [B, units]
  const float *parts;  // [ranks, 2, units]
  int64_t units, ranks, own;  // ranks 0: the moments are constant; own: whose part is the gradient of the scale
  Norm norm;
  Weights scale;  // value null: it stays
  int32_t launch;
};

// dz = scale / sqrt(variance + epsilon) (dy - mean of dy - xhat mean of dy xhat), in place; then the scale is updated.
//
// Mapping: that of backward.
// Bytes: reads dy and x, writes dz: 12 B units, which bound it.
// Source: kernels/norm.go, NormBackward; scheme: own.
KERNEL_BOUNDS(norm_backward, NormBackwardArgs, 32 * kBackwardWarps, 1) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t k = unit_of_thread();
  if (k < a.units) {
    double sum = 0.0, product = 0.0;
    for (int64_t r = 0; r < a.ranks; r++) {
      sum += double(a.parts[2 * r * a.units + k]);
      product += double(a.parts[(2 * r + 1) * a.units + k]);
    }
    const float of_sum = float(sum / double(step->whole)), of_product = float(product / double(step->whole));
    const float mean = a.norm.mean[k], inverse = inverse_of(a.norm, k), factor = a.norm.scale[k] * inverse;
    rows_of_unit(step->rows, [&](int64_t u) {
      float *dy = a.dy + u * a.units + k;
      const float dz = (*dy - of_sum - (a.x[u * a.units + k] - mean) * inverse * of_product) * factor;
      if (!finite(dz)) fail(step, a.launch, kFailGradient);
      *dy = dz;
    });
  }
  __syncthreads();  // all have read the scale
  if (warp_id() != 0 || lane_id() >= kBackwardUnits || k >= a.units || !a.scale.value) return;
  update_element(step, a.launch, a.scale, rates_of(step, step->number), k, k, a.parts[(2 * a.own + 1) * a.units + k]);
}

struct RowMomentsArgs {
  const StepRecord *step;
  const float *x;  // [B, units]
  float *mean, *variance;  // [B]
  int64_t units;
  int32_t launch;
};

// The mean and the mean squared deviation of each row.
//
// Mapping: a warp has a row.
// Bytes: reads 4 B units twice, the second time from the cache; bound by that.
// Source: kernels/norm.go, RowMoments; scheme: own.
KERNEL_BOUNDS(row_moments, RowMomentsArgs, 32 * kRowWarps, 4) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * kRowWarps + warp_id();
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const float *x = a.x + u * a.units;
  float sum = 0.0f, squares = 0.0f;
  for (int64_t k = lane_id(); k < a.units; k += 32) sum += x[k];
  const float mean = warp_sum(sum) / float(a.units);
  for (int64_t k = lane_id(); k < a.units; k += 32) squares += (x[k] - mean) * (x[k] - mean);
  squares = warp_sum(squares);
  if (lane_id() != 0) return;
  a.mean[u] = mean;
  a.variance[u] = squares / float(a.units);
}

struct NormBackwardRowsArgs {
  const StepRecord *step;
  float *dy;  // [B, units], in: dL/dy, out: dL/dz
  const float *x;  // [B, units]
  int64_t units;
  Norm norm;
  int32_t launch;
};

// dz = (g - mean of g - xhat mean of g xhat) / sqrt(variance + epsilon), in place; g = scale dy, and means are those
// over the row.
//
// Mapping: a warp has a row.
// Bytes: reads dy and x, writes dz: 12 B units, and reads both once more from the cache.
// Source: kernels/norm.go, NormBackward; scheme: own.
KERNEL_BOUNDS(norm_backward_rows, NormBackwardRowsArgs, 32 * kRowWarps, 4) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * kRowWarps + warp_id();
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const float mean = a.norm.mean[u], inverse = inverse_of(a.norm, u);
  const float *x = a.x + u * a.units;
  float *dy = a.dy + u * a.units, sum = 0.0f, product = 0.0f;
  for (int64_t k = lane_id(); k < a.units; k += 32) {
    const float g = dy[k] * a.norm.scale[k];
    sum += g;
    product += g * ((x[k] - mean) * inverse);
  }
  const float of_sum = warp_sum(sum) / float(a.units), of_product = warp_sum(product) / float(a.units);
  for (int64_t k = lane_id(); k < a.units; k += 32) {
    const float dz = (dy[k] * a.norm.scale[k] - of_sum - (x[k] - mean) * inverse * of_product) * inverse;
    if (!finite(dz)) fail(step, a.launch, kFailGradient);
    dy[k] = dz;
  }
}
