// The output layer, a tile of items after the other: logits, then in their place the gradients with respect to them, then the
// products with these, of which the gradient with respect to the weight ends in the update. A tile's logits are the only ones
// there are.
//
// With cosine logits, c the cosine of h_u and w_i, T the temperature and g_ui = dz_ui / (|h_u| |w_i| T),
//   p_u = sum over i of g_ui w_i, dh_u = p_u - (h_u . p_u) h_u / |h_u|^2, and dw_i likewise,
// so the same products serve, and a pass over their rows follows.
#include "output.cuh"
#include "product.cuh"

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
  const float inverse = inverse_norm(a.x + row * a.columns, a.columns);
  if (lane_id() == 0) a.inverse[row] = inverse;
}

// What output_stats and output_loss share.
struct TileArgs {
  const StepRecord *step;
  float *z;  // [B, tile]: products; output_loss leaves the gradients in their place
  float *stats;  // [B, 2]: maximum, log-sum-exp; until the last tile the sum of exp(z - maximum) in place of the latter
  float *bias_gradient;  // [items of the tile]
  double *loss;  // [blocks]: each block's sum over the tiles so far
  uint16_t *narrow;  // [rows, tile]: receives the gradients instead, in bfloat16; may be null
  Finish finish;
  int64_t tile, first, items;
  int64_t rows;  // gradients of rows from the batch's end up to here are made zero
  Loss kind;
  int32_t slot, begins, ends, launch;
};

// What the 256 threads of a block have, added or the like by halves in a fixed order; every thread gets the result.
template <class Of>
DEVICE float fold(float (&part)[256], float x, Of of) {
  const int t = threadIdx.x;
  part[t] = x;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) part[t] = of(part[t], part[t + half]);
    __syncthreads();
  }
  x = part[0];
  __syncthreads();
  return x;
}

// m_u = max over i of z_ui, s_u = sum over i of exp(z_ui - m_u), carried from tile to tile; in the end m_u and m_u + ln s_u.
//
// Mapping: a block of 256 threads has a row of the batch; sums are added by halves in a fixed order.
// Bytes: reads 4 a logit twice, from the second-level cache where the tile fits.
// Source: kernels/ops.go, OutputStats; carrying m and s: Milakov and Gimelshein, Online normalizer calculation for softmax,
// 2018.
KERNEL_BOUNDS(output_stats, TileArgs, 256, 4) {
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
  top = fold(part, top, [](float x, float y) { return fmaxf(x, y); });
  const float before = a.begins ? -infinity() : a.stats[2 * u];
  const float maximum = fmaxf(before, top);
  float sum = 0.0f;
  for (int64_t i = t; i < a.items; i += 256) sum += expf(finish_logit(a.finish, z[i], u, a.first, i) - maximum);
  sum = fold(part, sum, [](float x, float y) { return x + y; });
  if (t != 0) return;
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

constexpr int kLossRows = 8;

// z <- r dl/dz (for cosine logits over |h| |w| T), and the sums of the losses and, for the bias, of r dl/dz.
//
// Mapping: a block has 32 items: 8 warps walk the rows of the batch 8 at a time, each lane with an item, and go along the item's
// stored targets. Sums of a lane are in rising rows, then over the warps, then over the items, in float64 for the loss.
// Bytes: reads 4 a logit and writes 4, or 2.
// Source: kernels/ops.go, Output, and kernels/loss.go; scheme: own, one pass where DSSTNE has one over all logits and one over
// targets; gradients in the logits' place as in llm.c's fused_classifier.
KERNEL_BOUNDS(output_loss, TileArgs, 32 * kLossRows, 2) {
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
  total = warp_sum(total);
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
KERNEL_BOUNDS(output_sum, OutputSumArgs, 32, 1) {
  if (threadIdx.x != 0 || failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t b = 0; b < a.blocks; b++) total += a.loss[b];
  if (!(fabs(total) <= 1.7976931348623157e308)) fail(a.step, a.launch, kFailLoss);
  a.step->losses[a.term] += total;
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
