// The output layer, a tile of items after the other: logits, then loss and gradient by the logit in their place, then the
// products with the gradient, of which the one by the weight ends in the update. A tile's logits are the only ones there are.
//
// With cosine logits, c the cosine of h_u and w_i, T the temperature and g_ui = dz_ui / (|h_u| |w_i| T),
//   p_u = sum over i of g_ui w_i, dh_u = p_u - (h_u . p_u) h_u / |h_u|^2, and dw_i likewise,
// so the same products serve, and a pass over their rows follows.
#include "output.cuh"
#include "product.cuh"

struct LogitsArgs {
  const StepRecord *step;
  const float *h;  // [B, K]
  const float *weight;  // [I, K]
  float *z;  // [B, tile]
  int64_t columns, tile, first, items;  // the tile's items: first .. first + items
  int32_t accumulate, narrow, launch;
};

// z[u, i] (+)= h_u . w_(first + i).
//
// Mapping: block (x, y) has items 64 x .., rows 64 y .. of the batch.
// Bytes: W is read once for every 64 rows, h for every 64 items; 4 a logit written. 2 B K operations an item.
// Source: kernels/ops.go, Output; scheme: product.cuh, own.
KERNEL_BOUNDS(logits, LogitsArgs, kProductThreads, 2) {
  const StepRecord *step = a.step;
  const int64_t row = int64_t(blockIdx.y) * kTile;
  if (row >= step->rows || failed_before(step, a.launch)) return;
  product_tile<false, false>({a.h, a.columns, step->rows}, {a.weight + a.first * a.columns, a.columns, a.items},
                             a.columns, row, int64_t(blockIdx.x) * kTile, a.narrow,
                             [&](int64_t u, int64_t i, const float *sum, int count) {
                               float *z = a.z + u * a.tile + i;
                               for (int n = 0; n < count; n++) z[n] = a.accumulate ? z[n] + sum[n] : sum[n];
                             });
}

struct InverseNormsArgs {
  const StepRecord *step;
  const float *x;  // rows of columns
  float *inverse;  // 1 / |row|, 0 for a row of zeros
  int64_t columns, rows;  // rows -1: those of the batch
  int32_t launch;
};

// 1 / |x_r| from sums in float64.
//
// Mapping: a warp has a row.
// Bytes: reads the rows once, 4 K each, which bounds it; writes 4 a row.
// Source: kernels/ops.go, Output, cosine logits; scheme: own.
KERNEL_BOUNDS(inverse_norms, InverseNormsArgs, 256, 4) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t row = int64_t(blockIdx.x) * 8 + warp_id(), rows = a.rows < 0 ? step->rows : a.rows;
  if (row >= rows) return;
  double sum = 0.0;
  for (int64_t k = lane_id(); k < a.columns; k += 32) {
    const double x = a.x[row * a.columns + k];
    sum += x * x;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  if (lane_id() == 0) a.inverse[row] = sum == 0.0 ? 0.0f : float(1.0 / sqrt(sum));
}

struct OutputStatsArgs {
  const StepRecord *step;
  const float *z;  // [B, tile]
  float *stats;  // [B, 2]: maximum, log-sum-exp; until the last tile the sum of exp(z - maximum) in place of the latter
  Finish finish;
  int64_t tile, first, items;
  int32_t begins, ends, launch;
};

// m_u = max over i of z_ui, s_u = sum over i of exp(z_ui - m_u), carried from tile to tile; in the end m_u and m_u + ln s_u.
//
// Mapping: a block of 256 threads has a row of the batch; sums are added by halves in a fixed order.
// Bytes: reads 4 a logit twice, from the second-level cache where the tile fits.
// Source: kernels/ops.go, OutputStats; carrying m and s: Milakov and Gimelshein, Online normalizer calculation for softmax,
// 2018.
KERNEL_BOUNDS(output_stats, OutputStatsArgs, 256, 4) {
  SHARED(float, part, [256]);
  const StepRecord *step = a.step;
  const int64_t u = blockIdx.x;
  const int t = threadIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const float *z = a.z + u * a.tile;
  float top = -infinity();
  for (int64_t i = t; i < a.items; i += 256) {
    const float x = finish_logit(a.finish, z[i], u, a.first, i);
    if (!finite(x)) fail(step, a.launch, kFailLogit, a.first + i);
    top = fmaxf(top, x);
  }
  part[t] = top;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) part[t] = fmaxf(part[t], part[t + half]);
    __syncthreads();
  }
  top = part[0];
  const float before = a.begins ? -infinity() : a.stats[2 * u];
  const float maximum = fmaxf(before, top);
  __syncthreads();
  float sum = 0.0f;
  for (int64_t i = t; i < a.items; i += 256) sum += expf(finish_logit(a.finish, z[i], u, a.first, i) - maximum);
  part[t] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t != 0) return;
  sum = part[0];
  if (!a.begins) sum += a.stats[2 * u + 1] * expf(before - maximum);
  a.stats[2 * u] = maximum;
  a.stats[2 * u + 1] = a.ends ? maximum + logf(sum) : sum;
}

struct CombineStatsArgs {
  const StepRecord *step;
  const float *parts;  // [shards, stride, 2]
  float *stats;  // [B, 2]
  int64_t shards, stride;
  int32_t launch;
};

// m_u = max over the shards of theirs; ln sum over all items = ln of the sum over the shards of exp(log-sum-exp). A shard
// without items has -Inf twice.
//
// Mapping: a thread has a row of the batch.
// Bytes: reads 8 a shard and row, 4 of them twice, and writes 8 a row.
// Source: kernels/ops.go, CombineStats; scheme: own.
KERNEL_BOUNDS(combine_stats, CombineStatsArgs, 256, 4) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  float maximum = -infinity(), top = -infinity(), sum = 0.0f;
  for (int64_t s = 0; s < a.shards; s++) {
    const float *part = a.parts + 2 * (s * a.stride + u);
    maximum = fmaxf(maximum, part[0]);
    top = fmaxf(top, part[1]);
  }
  for (int64_t s = 0; s < a.shards && top > -infinity(); s++) sum += expf(a.parts[2 * (s * a.stride + u) + 1] - top);
  a.stats[2 * u] = maximum;
  a.stats[2 * u + 1] = top > -infinity() ? top + logf(sum) : top;
}

struct OutputLossArgs {
  const StepRecord *step;
  float *z;  // [B, tile]: products in, gradients out
  const float *stats;  // [B, 2], soft-max only
  float *bias_gradient;  // [items of the tile]
  double *loss;  // [blocks]: each block's sum over the tiles so far
  uint16_t *narrow;  // [rows, tile]: receives the gradients instead, in bfloat16; may be null
  Finish finish;
  int64_t tile, first, items;
  int64_t rows;  // gradients of rows from the batch's end up to here are made zero
  Loss kind;
  int32_t slot, begins, launch;
};

constexpr int kLossRows = 8;

// z <- r dl/dz (for cosine logits over |h| |w| T), and the sums of the losses and, for the bias, of r dl/dz.
//
// Mapping: a block has 32 items: 8 warps walk the rows of the batch 8 at a time, each lane with an item, and go along the item's
// stored targets. Sums of a lane are in rising rows, then over the warps, then over the items, in float64 for the loss.
// Bytes: reads 4 a logit and writes 4, or 2.
// Source: kernels/ops.go, Output, and kernels/loss.go; scheme: own, one pass where DSSTNE has one over all logits and one over
// targets; gradients in the logits' place as in llm.c's fused_classifier.
KERNEL_BOUNDS(output_loss, OutputLossArgs, 32 * kLossRows, 2) {
  SHARED(double, losses, [kLossRows][32]);
  SHARED(float, gradients, [kLossRows][33]);
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const SparseRecord &target = step->slots[a.slot];
  const int lane = lane_id(), warp = warp_id();
  const int64_t i = int64_t(blockIdx.x) * 32 + lane;
  const float weight = row_weight(step, a.kind);
  double total = 0.0;
  float gradient = 0.0f;
  if (i < a.items) {
    const int64_t found = position(target.items, target.item_count, int32_t(a.first + i));
    int64_t e = found < 0 ? 0 : target.item_offsets[found];
    const int64_t end = found < 0 ? 0 : target.item_offsets[found + 1];
    for (int64_t u = warp; u < step->rows; u += kLossRows) {
      float *place = a.z + u * a.tile + i;
      const float z = finish_logit(a.finish, *place, u, a.first, i);
      while (e < end && target.item_rows[e] < u) e++;
      const float t = e < end && target.item_rows[e] == u ? target.item_values[e] : 0.0f;
      const LossAndDelta l = loss_of(a.kind, z, t, target.row_sum[u], a.stats ? a.stats[2 * u + 1] : 0.0f);
      float dz = weight * l.delta;
      if (!finite(z)) fail(step, a.launch, kFailLogit, a.first + i);
      if (!finite(l.loss) || !finite(dz)) fail(step, a.launch, kFailLoss);
      total += double(weight) * double(l.loss);
      gradient += dz;
      if (a.finish.hidden_inverse)
        dz = dz / a.finish.temperature * a.finish.hidden_inverse[u] * a.finish.item_inverse[i];
      if (a.narrow)
        a.narrow[u * a.tile + i] = to_bf16(normal(dz));
      else
        *place = dz;
    }
    for (int64_t u = (step->rows + kLossRows - 1 - warp) / kLossRows * kLossRows + warp; u < a.rows; u += kLossRows) {
      if (a.narrow)
        a.narrow[u * a.tile + i] = 0;
      else
        a.z[u * a.tile + i] = 0.0f;
    }
  }
  losses[warp][lane] = total;
  gradients[warp][lane] = gradient;
  __syncthreads();
  if (warp != 0) return;
  total = 0.0;
  gradient = 0.0f;
  for (int n = 0; n < kLossRows; n++) total += losses[n][lane], gradient += gradients[n][lane];
  if (i < a.items) a.bias_gradient[i] = gradient;
  for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(kAllLanes, total, lanes);
  if (lane == 0) a.loss[blockIdx.x] = a.begins ? total : a.loss[blockIdx.x] + total;
}

struct OutputSumArgs {
  const StepRecord *step;
  const double *loss;  // [blocks]
  int64_t blocks;
  int32_t term, launch;
};

// Step.Loss[term] += the blocks' losses, in their order.
//
// Mapping: one thread: there are a few dozen.
// Bytes: reads 8 a block.
// Source: kernels/ops.go, Output; scheme: own.
KERNEL(output_sum, OutputSumArgs) {
  if (threadIdx.x != 0 || failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t b = 0; b < a.blocks; b++) total += a.loss[b];
  if (!(fabs(total) <= 1.7976931348623157e308)) fail(a.step, a.launch, kFailLoss);
  a.step->losses[a.term] += total;
}

struct OutputHiddenArgs {
  const StepRecord *step;
  const float *g;  // [B, tile]
  const float *weight;  // [I, K]
  float *dh;  // [B, K]
  int64_t columns, tile, first, items;
  int32_t accumulate, narrow, launch;
};

// dh[u, :] (+)= sum over the tile's items of g_ui w_i, added to what earlier tiles have left, in their order.
//
// Mapping: block (x, y) has columns 64 x .., rows 64 y ...
// Bytes: g is read once for every 64 columns, W for every 64 rows; dh is read and written once a tile. 2 B K operations an item.
// Source: kernels/ops.go, Output; scheme: product.cuh, own.
KERNEL_BOUNDS(output_hidden, OutputHiddenArgs, kProductThreads, 2) {
  const StepRecord *step = a.step;
  const int64_t row = int64_t(blockIdx.y) * kTile;
  if (row >= step->rows || failed_before(step, a.launch)) return;
  product_tile<false, true>({a.g, a.tile, step->rows}, {a.weight + a.first * a.columns, a.columns, a.columns}, a.items,
                            row, int64_t(blockIdx.x) * kTile, a.narrow,
                            [&](int64_t u, int64_t k, const float *sum, int count) {
                              float *dh = a.dh + u * a.columns + k;
                              for (int n = 0; n < count; n++) {
                                const float value = a.accumulate ? dh[n] + sum[n] : sum[n];
                                if (!finite(value)) fail(step, a.launch, kFailGradient);
                                dh[n] = value;
                              }
                            });
}

struct OutputWeightArgs {
  const StepRecord *step;
  const float *g;  // [B, tile]
  const float *h;  // [B, K]
  float *strip;  // [tile, K]: written instead, for cosine logits; else null
  Weights weight;  // [I, K]
  ItemGradient to;
  int64_t tile, first, items;
  int32_t narrow, launch;
};

// dw_i = sum over u of g_ui h_u, and the update of what the block has of it.
//
// Mapping: block (x, y) has columns 64 x .., items 64 y ...
// Bytes: g is read once for every 64 columns, h for every 64 items; reads and writes W and its states once. 2 B K operations an
// item.
// Source: kernels/ops.go, Output; scheme: product.cuh, own.
KERNEL_BOUNDS(output_weight, OutputWeightArgs, kProductThreads, 2) {
  const StepRecord *step = a.step;
  const int64_t columns = a.weight.columns;
  if (failed_before(step, a.launch)) return;
  const Rates rates = rates_of(step, step->number);
  product_tile<true, true>({a.g, a.tile, a.items}, {a.h, columns, columns}, step->rows, int64_t(blockIdx.y) * kTile,
                           int64_t(blockIdx.x) * kTile, a.narrow,
                           [&](int64_t i, int64_t k, const float *sum, int count) {
                             if (a.strip) {
                               for (int n = 0; n < count; n++) a.strip[i * columns + k + n] = sum[n];
                               return;
                             }
                             const int64_t item = a.first + i, touched = touched_by(step, a.to, item);
                             for (int n = 0; n < count; n++)
                               take_gradient(step, a.launch, a.weight, rates, a.to, item, touched, k + n, sum[n]);
                           });
}

struct OutputUpdateArgs {
  const StepRecord *step;
  const float *strip;  // [tile, pitch]
  const float *item_inverse;  // [items of the tile], null: no cosines
  Weights weight;
  ItemGradient to;
  int64_t first, items, pitch;
  int32_t launch;
};

// The update with dw = q, or for cosine logits dw_i = q_i - (w_i . q_i) w_i / |w_i|^2.
//
// Mapping: a warp has an item.
// Bytes: reads 4 K of q an item, reads and writes 4 (1 + states) K of W, and for cosine logits reads both again, from the cache:
// bound by that.
// Source: kernels/ops.go, Output, and kernels/optimizer.go; cosine logits: above; scheme: own.
KERNEL_BOUNDS(output_update, OutputUpdateArgs, 256, 4) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t i = int64_t(blockIdx.x) * 8 + warp_id(), columns = a.weight.columns;
  if (i >= a.items) return;
  const int64_t item = a.first + i, touched = touched_by(step, a.to, item);
  const float *q = a.strip + i * a.pitch, *w = a.weight.value + item * columns;
  const Rates rates = rates_of(step, step->number);
  const float inverse = a.item_inverse ? a.item_inverse[i] : 0.0f;
  const float along = a.item_inverse ? warp_dot(w, q, columns) * inverse : 0.0f;
  for (int64_t k = lane_id(); k < columns; k += 32)
    take_gradient(step, a.launch, a.weight, rates, a.to, item, touched, k,
                  a.item_inverse ? q[k] - along * (w[k] * inverse) : q[k]);
}

struct OutputBiasArgs {
  const StepRecord *step;
  const float *gradient;  // [items of the tile]
  Weights bias;  // [I, 1]
  int64_t first, items;
  int32_t launch;
};

// b_i, state = rule(b_i, state, sum over u of r dl/dz_ui), for the tile's items.
//
// Mapping: a thread has an item.
// Bytes: reads 4 of the gradient, reads and writes 4 (1 + states) an item.
// Source: kernels/ops.go, Output, and kernels/optimizer.go; scheme: own.
KERNEL_BOUNDS(output_bias, OutputBiasArgs, 256, 4) {
  const StepRecord *step = a.step;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.items || failed_before(step, a.launch)) return;
  update_element(step, a.launch, a.bias, rates_of(step, step->number), a.first + i, a.first + i, a.gradient[i]);
}
