// Products with a weight in float32, of hidden layers and of the output's simple form; what ends a layer, and the way back
// through activation, dropout and bias.
#include "epilogue.cuh"
#include "output.cuh"
#include "product.cuh"
#include "units.cuh"

struct ProductArgs {
  const StepRecord *step;
  const float *in;  // [B, inputs]; of input_gradient [B, pitch]
  const float *weight;  // [units, inputs]
  float *out;  // [B, pitch]; of input_gradient [B, inputs]
  int64_t inputs, units, pitch;
  Epilogue epilogue;
  int32_t accumulate, narrow, launch;
};

// out[u, :] (+)= in[u, :] W^T; then bias, activation, dropout.
//
// Mapping: block (x, y) has units 64 x .., rows 64 y ...
// Bytes: (B + units) inputs 4, each read once for 64 results, and B units 4 written. 2 B inputs units operations: bound by
// multiply-adds, or by shared memory, of which a thread reads 8 numbers for 16 of them.
// Source: kernels/ops.go, Dense and Output; scheme: product.cuh, own.
KERNEL_BOUNDS(multiply, ProductArgs, kProductThreads, 2) {
  const StepRecord *step = a.step;
  const int64_t first = int64_t(blockIdx.y) * kTile;
  if (first >= step->rows || failed_before(step, a.launch)) return;
  product_tile<false, false>({a.in, a.inputs, step->rows}, {a.weight, a.inputs, a.units}, a.inputs, first,
                             int64_t(blockIdx.x) * kTile, a.narrow,
                             [&](int64_t u, int64_t unit, const float *sum, int count) {
                               for (int i = 0; i < count; i++) {
                                 float *out = a.out + u * a.pitch + unit + i;
                                 const float z = a.accumulate ? *out + sum[i] : sum[i];
                                 *out = finish_unit(step, a.epilogue, u, unit + i, z);
                               }
                             });
}

// out[u, :] (+)= in[u, :] W: the gradient with respect to the input, of the output a tile of items after the other.
//
// Mapping: block (x, y) has inputs 64 x .., rows 64 y ...
// Bytes: (B + inputs) units 4, each read once for 64 results, and B inputs 4 written; bounds as for multiply.
// Source: kernels/ops.go, DenseBackward and Output; scheme: product.cuh, own.
KERNEL_BOUNDS(input_gradient, ProductArgs, kProductThreads, 2) {
  const StepRecord *step = a.step;
  const int64_t first = int64_t(blockIdx.y) * kTile;
  if (first >= step->rows || failed_before(step, a.launch)) return;
  product_tile<false, true>({a.in, a.pitch, step->rows}, {a.weight, a.inputs, a.inputs}, a.units, first,
                            int64_t(blockIdx.x) * kTile, a.narrow,
                            [&](int64_t u, int64_t k, const float *sum, int count) {
                              for (int i = 0; i < count; i++) {
                                float *out = a.out + u * a.inputs + k + i;
                                const float value = a.accumulate ? *out + sum[i] : sum[i];
                                if (!finite(value)) fail(step, a.launch, kFailGradient);
                                *out = value;
                              }
                            });
}

struct WeightGradientArgs {
  const StepRecord *step;
  const float *g;  // [B, pitch]
  const float *in;  // [B, inputs]
  float *strip;  // [units, inputs]: written instead, for cosine logits; else null
  Weights weight;  // rows first .. first + units are updated
  ItemGradient to;
  int64_t pitch, first, units;
  int32_t narrow, launch;
};

// dW = g^T in, and the update of what the block has of it, which is never stored.
//
// Mapping: block (x, y) has inputs 64 x .., units 64 y ...
// Bytes: (units + inputs) B 4, each read once for 64 results; reads and writes W and its states once. 2 B inputs units
// operations.
// Source: kernels/ops.go, DenseBackward and Output; scheme: product.cuh, own.
KERNEL_BOUNDS(weight_gradient, WeightGradientArgs, kProductThreads, 2) {
  const StepRecord *step = a.step;
  const int64_t inputs = a.weight.columns;
  if (failed_before(step, a.launch)) return;
  const Rates rates = rates_of(step, step->number);
  product_tile<true, true>({a.g, a.pitch, a.units}, {a.in, inputs, inputs}, step->rows, int64_t(blockIdx.y) * kTile,
                           int64_t(blockIdx.x) * kTile, a.narrow,
                           [&](int64_t i, int64_t k, const float *sum, int count) {
                             if (a.strip) {
                               for (int n = 0; n < count; n++) a.strip[i * inputs + k + n] = sum[n];
                               return;
                             }
                             const int64_t row = a.first + i, touched = touched_by(step, a.to, row);
                             for (int n = 0; n < count; n++)
                               take_gradient(step, a.launch, a.weight, rates, a.to, row, touched, k + n, sum[n]);
                           });
}

struct FinishArgs {
  const StepRecord *step;
  const float *sums;  // [B, pitch], may be out
  float *out;  // [B, units]
  int64_t units, pitch;
  Epilogue epilogue;
  int32_t accumulate, launch;
};

// out = dropout(act(sums (+ out) + bias)), for sums that a library made or that came from several devices.
//
// Mapping: a thread has an element.
// Bytes: 8 or, with out, 12 an element, which bound it.
// Source: kernels/ops.go, Epilogue and Activate; scheme: own.
KERNEL_BOUNDS(finish, FinishArgs, 128, 8) {
  const StepRecord *step = a.step;
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (k >= a.units || u >= step->rows || failed_before(step, a.launch)) return;
  float *out = a.out + u * a.units + k;
  const float sum = a.sums[u * a.pitch + k];
  *out = finish_unit(step, a.epilogue, u, k, a.accumulate ? *out + sum : sum);
}

struct BackwardArgs {
  const StepRecord *step;
  const float *h;  // [B, units], sums where SLOPE_NEEDS_SUM
  float *dh;  // [B, units]
  const float *shift;  // [units], null: nothing is added to dh
  int64_t units;
  Weights bias;  // value null: none
  Epilogue epilogue;
  int32_t launch;
};

// dz = (dh + shift) mask scale act'(z), in place; dbias = sum over the rows of dz, then the update.
//
// Mapping: a block has 8 units, so that there are enough blocks: a warp has four neighbouring rows of each 128, a lane one of them
// and a unit, and reads four such rows at once.
// Bytes: reads h and dh, writes dz: 12 B units, which bound it.
// Source: kernels/ops.go, Backward; scheme: own.
KERNEL_BOUNDS(backward, BackwardArgs, 32 * kBackwardWarps, 1) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int lane = lane_id(), warp = warp_id();
  constexpr int kRows = 32 / kBackwardUnits, kApart = kBackwardWarps * kRows;
  const int64_t k = int64_t(blockIdx.x) * kBackwardUnits + lane % kBackwardUnits;
  const float shift = a.shift && k < a.units ? a.shift[k] : 0.0f;
  float sum = 0.0f;
  if (k < a.units) {
    for (int64_t first = warp * kRows + lane / kBackwardUnits; first < step->rows; first += kApart * kBackwardAtOnce) {
      float h[kBackwardAtOnce], dh[kBackwardAtOnce];
#pragma unroll
      for (int n = 0; n < kBackwardAtOnce; n++) {
        const int64_t u = first + kApart * n;
        h[n] = u < step->rows ? a.h[u * a.units + k] : 0.0f;
        dh[n] = u < step->rows ? a.dh[u * a.units + k] + shift : 0.0f;
      }
#pragma unroll
      for (int n = 0; n < kBackwardAtOnce; n++) {
        const int64_t u = first + kApart * n;
        if (u >= step->rows) break;
        const float scale = kept(step, a.epilogue, u, k);
        const int32_t kind = a.epilogue.activation;
        const float at = slope_at(kind, h[n], (h[n] - a.epilogue.shift) / scale);
        const float dz = scale == 0.0f ? 0.0f : dh[n] * scale * slope(kind, a.epilogue.alpha, at);
        if (!finite(dz)) fail(step, a.launch, kFailGradient);
        a.dh[u * a.units + k] = dz;
        sum += dz;
      }
    }
  }
  sum = sum_of_unit(sum);
  if (warp != 0 || lane >= kBackwardUnits || k >= a.units || !a.bias.value) return;
  update_element(step, a.launch, a.bias, rates_of(step, step->number), k, k, sum);
}

struct UnitSumsArgs {
  const StepRecord *step;
  const float *x;  // [B, units]
  float *sums;  // [units]
  int64_t units;
  int32_t launch;
};

// sums[k] = sum over the rows of x.
//
// Mapping: that of backward, and its order of sums.
// Bytes: reads 4 B units, which bound it.
// Source: kernels/sparsity.go, UnitSums; scheme: own.
KERNEL_BOUNDS(unit_sums, UnitSumsArgs, 32 * kBackwardWarps, 1) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int lane = lane_id(), warp = warp_id();
  constexpr int kRows = 32 / kBackwardUnits, kApart = kBackwardWarps * kRows;
  const int64_t k = int64_t(blockIdx.x) * kBackwardUnits + lane % kBackwardUnits;
  float sum = 0.0f;
  if (k < a.units)
    for (int64_t u = warp * kRows + lane / kBackwardUnits; u < step->rows; u += kApart) sum += a.x[u * a.units + k];
  sum = sum_of_unit(sum);
  if (warp == 0 && lane < kBackwardUnits && k < a.units) a.sums[k] = sum;
}

struct SparsityArgs {
  const StepRecord *step;
  float *sums;  // [units], in: of all rows; out: what backward adds
  int64_t units;
  float mean, weight;
  int32_t term, silent, launch;
};

// x ln(x / y), 0 for x = 0.
DEVICE float x_log_ratio(float x, float y) { return x == 0.0f ? 0.0f : x * logf(x / y); }

// losses[term] += weight sum over k of p ln(p / m) + (1 - p) ln((1 - p) / (1 - m)); sums[k] <- its derivative by a row's h.
//
// Mapping: one block; a thread has each 256th unit.
// Bytes: reads and writes 4 a unit; bound by its launch.
// Source: kernels/sparsity.go, Sparsity; scheme: own.
KERNEL_BOUNDS(sparsity, SparsityArgs, 256, 1) {
  SHARED(double, losses, [8]);
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  constexpr float kLeast = 1e-6f;
  const float p = a.mean, rows = float(step->whole);
  double total = 0.0;
  for (int64_t k = threadIdx.x; k < a.units; k += 256) {
    const float mean = a.sums[k] / rows;
    const float m = fminf(fmaxf(mean, kLeast), 1.0f - kLeast), rest = 1.0f - m;
    total += finite(mean) ? double(x_log_ratio(p, m) + x_log_ratio(1.0f - p, rest)) : double(infinity());
    a.sums[k] = a.weight * ((1.0f - p) / rest - p / m) / rows;
  }
  total = warp_sum(total);
  if (lane_id() == 0) losses[warp_id()] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int n = 1; n < 8; n++) total += losses[n];
  total *= double(a.weight);
  if (!(fabs(total) <= 1.7976931348623157e308)) fail(step, a.launch, kFailLoss);
  if (!a.silent) step->losses[a.term] += total;
}
