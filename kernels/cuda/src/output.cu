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
  void *z;  // [rows, tile]: products; output_loss leaves the gradients in their place
  float *stats;  // [B, 2]: maximum, log-sum-exp; until the last tile the sum of exp(z - maximum) in place of the latter
  float *bias_gradient;  // [strips of rows, tile]: each strip's sum
  double *loss;  // [strips of rows, strips]: each block's sum over the tiles so far
  Finish finish;
  int64_t tile, first, items;
  int64_t rows;  // gradients of rows from the batch's end up to here are made zero
  Loss kind;
  int32_t slot, begins, ends;
  int32_t strips, strip_rows;  // strips of items that the first tile has; rows of a strip of rows, a multiple of 8
  int32_t narrow, launch;  // narrow: z is of bfloat16, else float32
};

// Logits are worked on by eights: those of items i .. i + 3 and i + apart .. i + apart + 3 of a tile's row, so that a warp reads
// 512 bytes at once.
constexpr int kEight = 8;

struct Eight {
  int i, apart;
  bool whole;  // whether the tile has all items of the block's eights
  int items;
};

DEVICE int item_of(const Eight &e, int n) { return n < 4 ? e.i + n : e.i + e.apart + n - 4; }
DEVICE bool has(const Eight &e, int n) { return e.whole || item_of(e, n) < e.items; }

// Reads a row's eight; what the tile has not is zero.
DEVICE void read_eight(const Eight &e, const float *x, float (&eight)[kEight]) {
  if (e.whole) {
    const float4 low = *reinterpret_cast<const float4 *>(x + e.i);
    const float4 high = *reinterpret_cast<const float4 *>(x + e.i + e.apart);
    eight[0] = low.x, eight[1] = low.y, eight[2] = low.z, eight[3] = low.w;
    eight[4] = high.x, eight[5] = high.y, eight[6] = high.z, eight[7] = high.w;
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++) eight[n] = has(e, n) ? x[item_of(e, n)] : 0.0f;
  }
}

DEVICE void read_eight(const Eight &e, const uint16_t *x, float (&eight)[kEight]) {
  if (e.whole) {
    const uint2 low = *reinterpret_cast<const uint2 *>(x + e.i),
                high = *reinterpret_cast<const uint2 *>(x + e.i + e.apart);
    const uint32_t two[kEight / 2] = {low.x, low.y, high.x, high.y};
#pragma unroll
    for (int n = 0; n < kEight; n++) eight[n] = __uint_as_float(n % 2 ? two[n / 2] & 0xffff0000u : two[n / 2] << 16);
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++) eight[n] = has(e, n) ? from_bf16(x[item_of(e, n)]) : 0.0f;
  }
}

DEVICE void write_eight(const Eight &e, float *x, const float (&eight)[kEight]) {
  if (e.whole) {
    *reinterpret_cast<float4 *>(x + e.i) = make_float4(eight[0], eight[1], eight[2], eight[3]);
    *reinterpret_cast<float4 *>(x + e.i + e.apart) = make_float4(eight[4], eight[5], eight[6], eight[7]);
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++)
      if (has(e, n)) x[item_of(e, n)] = eight[n];
  }
}

DEVICE void write_eight(const Eight &e, uint16_t *x, const float (&eight)[kEight]) {
  uint32_t two[kEight / 2];
#pragma unroll
  for (int n = 0; n < kEight; n += 2) two[n / 2] = to_bf16x2(normal(eight[n]), normal(eight[n + 1]));
  if (e.whole) {
    *reinterpret_cast<uint2 *>(x + e.i) = make_uint2(two[0], two[1]);
    *reinterpret_cast<uint2 *>(x + e.i + e.apart) = make_uint2(two[2], two[3]);
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++)
      if (has(e, n)) x[item_of(e, n)] = uint16_t(two[n / 2] >> n % 2 * 16);
  }
}

// The logits of row u before they are finished, and what becomes of them.
DEVICE void read_row(const TileArgs &a, int64_t u, const Eight &at, float (&z)[kEight]) {
  if (a.narrow)
    read_eight(at, static_cast<const uint16_t *>(a.z) + u * a.tile, z);
  else
    read_eight(at, static_cast<const float *>(a.z) + u * a.tile, z);
}

DEVICE void write_row(const TileArgs &a, int64_t u, const Eight &at, const float (&z)[kEight]) {
  if (a.narrow)
    write_eight(at, static_cast<uint16_t *>(a.z) + u * a.tile, z);
  else
    write_eight(at, static_cast<float *>(a.z) + u * a.tile, z);
}

// What all items of a row have in common: 1 / (|h_u| T), of cosine logits only.
DEVICE float row_scale(const Finish &f, int64_t u) {
  return f.hidden_inverse ? f.hidden_inverse[u] / f.temperature : 1.0f;
}

// Adds another part's maximum and sum of exp(z - maximum); a part without logits has -Inf and 0.
DEVICE void add_stats(float &top, float &sum, float other_top, float other_sum) {
  const float next = fmaxf(top, other_top);
  if (next == -infinity()) return;
  sum = sum * exp_negative(top - next) + other_sum * exp_negative(other_top - next);
  top = next;
}

// How many rows a block of output_stats has, and its threads; statsRows and statsThreads of output.go.
constexpr int kStatsRows = 2, kStatsThreads = 256;

// m_u = max over i of z_ui, s_u = sum over i of exp(z_ui - m_u), carried from tile to tile; in the end m_u and m_u + ln s_u.
//
// Mapping: a block of 256 threads has two rows of the batch, which share what is read of the items; a thread goes along them by
// eights, and carries maximum and sum of each from eight to eight. The threads' are added by halves of a warp, then in the warps'
// order.
// Bytes: reads 4 or 2 a logit, and the bias once for two logits, from the second-level cache where the tile fits. A logit takes an
// exponential, of which a multiprocessor makes 16 a cycle.
// Source: kernels/ops.go, OutputStats; carrying m and s: Milakov and Gimelshein, Online normalizer calculation for softmax,
// 2018.
KERNEL_BOUNDS(output_stats, TileArgs, kStatsThreads, 4) {
  SHARED(float2, parts, [kStatsRows][kStatsThreads / 32]);
  const StepRecord *step = a.step;
  const int first_row = kStatsRows * int(blockIdx.x), rows = int(step->rows);
  if (first_row >= rows || failed_before(step, a.launch)) return;
  constexpr int kApart = 4 * kStatsThreads, kTrip = 2 * kApart;
  int u[kStatsRows];
  float scale[kStatsRows], top[kStatsRows], sum[kStatsRows], not_finite = 0.0f;
#pragma unroll
  for (int r = 0; r < kStatsRows; r++) {
    u[r] = min(first_row + r, rows - 1);  // a batch may end with a row that has no other: that row twice
    scale[r] = row_scale(a.finish, u[r]);
    top[r] = -infinity(), sum[r] = 0.0f;
  }
  for (int first = 0; first < a.items; first += kTrip) {
    const Eight at{first + 4 * int(threadIdx.x), kApart, first + kTrip <= a.items, int(a.items)};
    float z[kStatsRows][kEight], bias[kEight] = {}, inverse[kEight];
#pragma unroll
    for (int r = 0; r < kStatsRows; r++) read_row(a, u[r], at, z[r]);
    if (a.finish.bias) read_eight(at, a.finish.bias + a.first, bias);
    if (a.finish.hidden_inverse) {
      read_eight(at, a.finish.item_inverse, inverse);
#pragma unroll
      for (int n = 0; n < kStatsRows * kEight; n++)
        z[n / kEight][n % kEight] *= scale[n / kEight] * inverse[n % kEight];
    }
#pragma unroll
    for (int r = 0; r < kStatsRows; r++) {
      float next = top[r];
#pragma unroll
      for (int n = 0; n < kEight; n++) {
        z[r][n] += bias[n];
        not_finite = fmaf(z[r][n], 0.0f, not_finite);
        z[r][n] = has(at, n) ? z[r][n] : -infinity();
        next = fmaxf(next, z[r][n]);
      }
      if (!(next > -infinity())) continue;  // none of these items is there
      sum[r] *= exp_negative(top[r] - next);
#pragma unroll
      for (int n = 0; n < kEight; n++) sum[r] += exp_negative(z[r][n] - next);
      top[r] = next;
    }
  }
  if (not_finite != 0.0f) fail(step, a.launch, kFailLogit);
#pragma unroll
  for (int r = 0; r < kStatsRows; r++) {
    for (int lanes = 16; lanes > 0; lanes /= 2)
      add_stats(top[r], sum[r], __shfl_xor_sync(kAllLanes, top[r], lanes), __shfl_xor_sync(kAllLanes, sum[r], lanes));
    if (lane_id() == 0) parts[r][warp_id()] = make_float2(top[r], sum[r]);
  }
  __syncthreads();
  const int r = int(threadIdx.x);
  if (r >= kStatsRows || first_row + r >= rows) return;
  float row_top = parts[r][0].x, row_sum = parts[r][0].y, *stats = a.stats + 2 * (first_row + r);
  for (int n = 1; n < kStatsThreads / 32; n++) add_stats(row_top, row_sum, parts[r][n].x, parts[r][n].y);
  if (!a.begins) add_stats(row_top, row_sum, stats[0], stats[1]);
  stats[0] = row_top;
  stats[1] = a.ends ? row_top + logf(row_sum) : row_sum;
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

// What a block of output_loss has of a tile; kStripItems and kMostStripRows of output.go.
constexpr int kStripItems = 256, kMostStripRows = 96;

// What output_loss has to know of a row: its targets in the strip, and what its logits have in common.
struct StripRow {
  int begin, end;  // entries
  LossRow loss;
  float scale;
};

// The rows of a warp, each eighth from `first_row` on: lane l < 8 finds the first entry of the l-th that is not before the strip,
// lane l + 8 the first behind it. All lanes call.
DEVICE void find_rows(const TileArgs &a, const SparseRecord &target, int first_row, int rows, StripRow *found) {
  const int lane = lane_id(), n = lane % 8, u = first_row + 8 * n;
  if (lane < 16 && u < rows) {
    const int item = int(a.first) + int(blockIdx.x) * kStripItems + (lane < 8 ? 0 : kStripItems);
    int low = target.offsets[u], high = target.offsets[u + 1];
    while (low < high) {
      const int middle = (low + high) / 2;
      if (target.indices[middle] >= item)
        high = middle;
      else
        low = middle + 1;
    }
    if (lane < 8) {
      found[n].begin = low;
      found[n].loss = loss_row(a.kind, target.row_sum[u], a.stats ? a.stats[2 * u + 1] : 0.0f);
      found[n].scale = row_scale(a.finish, u);
    } else {
      found[n].end = low;
    }
  }
  __syncwarp();
}

// Takes a row's targets in a strip that begins with item `first` out of `to`, where there are zeros otherwise. All lanes call.
DEVICE void take_targets(const SparseRecord &target, const StripRow &row, int first, float *to, const Eight &at,
                         float (&t)[kEight]) {
  for (int e = row.begin + lane_id(); e < row.end; e += 32) to[target.indices[e] - first] = target.values[e];
  __syncwarp();
  float4 *mine = reinterpret_cast<float4 *>(to + at.i % kStripItems), *apart = mine + at.apart / 4;
  t[0] = mine->x, t[1] = mine->y, t[2] = mine->z, t[3] = mine->w;
  t[4] = apart->x, t[5] = apart->y, t[6] = apart->z, t[7] = apart->w;
  *mine = *apart = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  __syncwarp();
}

// The losses of eight logits, added up, and in the logits' place dl/dz. target(i) is the target of number i; numbers of which
// counts(i) is false count as nothing. For absent items the target is a constant, so that what it cancels is not compiled.
template <class Target, class Counts>
DEVICE float differentiate_eight(const Loss &l, const LossRow &row, float (&z)[kEight], Target target, Counts counts) {
  float loss = 0.0f;
#define EIGHT(word)                                                  \
  case LOSS_##word:                                                  \
    _Pragma("unroll") for (int i = 0; i < kEight; i++) {             \
      const LossAndDelta one = loss_##word(l, row, z[i], target(i)); \
      loss += counts(i) ? one.loss : 0.0f;                           \
      z[i] = counts(i) ? one.delta : 0.0f;                           \
    }                                                                \
    return loss;
  switch (l.kind) { LOSSES(EIGHT) }
#undef EIGHT
  __builtin_unreachable();
}

// z <- r dl/dz (for cosine logits over |h| |w| T), and the sums of the losses and, for the bias, of r dl/dz.
//
// Mapping: block (x, y) has a strip of items 256 x .. and a strip of rows; a warp has every eighth row, a lane eight items of it. It
// finds the targets of its rows first, all at once, and reads a row's logits while it works on those of the row before. A row
// that has no targets in the strip, as most have, goes by formulas in which the target is a constant. Sums of a lane are in
// rising rows, then over the warps.
// Bytes: reads 4 a logit and writes 4, or 2 and 2. Bound by instructions; tests/python/test_gpu_model.py counts them.
// Source: kernels/ops.go, Output, and kernels/loss.go; scheme: own, one pass where DSSTNE has one over all logits and one over
// targets; gradients in the logits' place as in llm.c's fused_classifier.
KERNEL_BOUNDS(output_loss, TileArgs, 256, 3) {
  SHARED(float, rows_of_strip, [8][kStripItems]);  // targets, in the end sums
  SHARED(StripRow, found, [8][kMostStripRows / 8]);
  SHARED(double, losses, [8]);
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  constexpr int kApart = 128;
  const SparseRecord target = step->slots[a.slot];
  const int lane = lane_id(), warp = warp_id(), rows = int(step->rows);
  const int strip = int(blockIdx.x) * kStripItems;
  const Eight at{strip + 4 * lane, kApart, strip + kStripItems <= a.items, int(a.items)};
  const int begin = int(blockIdx.y) * a.strip_rows + warp;
  const int end = min(begin - warp + a.strip_rows, max(rows, int(a.rows)));
  const float weight = row_weight(step, a.kind);
  float *targets = rows_of_strip[warp];
  float4 *mine = reinterpret_cast<float4 *>(targets + 4 * lane), *mine_apart = mine + kApart / 4;
  *mine = *mine_apart = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float bias[kEight] = {}, inverse[kEight] = {}, next[kEight] = {};
  if (a.finish.bias) read_eight(at, a.finish.bias + a.first, bias);
  if (a.finish.hidden_inverse) read_eight(at, a.finish.item_inverse, inverse);
  if (begin < min(rows, end)) read_row(a, begin, at, next);
  find_rows(a, target, begin, min(rows, end), found[warp]);
  double total = 0.0;
  float gradient[kEight] = {}, not_finite = 0.0f;
  for (int u = begin; u < end; u += 8) {
    float z[kEight] = {};
    if (u < rows) {
      const StripRow &row = found[warp][(u - begin) / 8];
#pragma unroll
      for (int k = 0; k < kEight; k++) z[k] = next[k];
      if (u + 8 < min(rows, end)) read_row(a, u + 8, at, next);
      if (a.finish.hidden_inverse) {
#pragma unroll
        for (int k = 0; k < kEight; k++) z[k] *= row.scale * inverse[k];
      }
#pragma unroll
      for (int k = 0; k < kEight; k++) {
        z[k] += bias[k];
        not_finite = fmaf(z[k], 0.0f, not_finite);
      }
      float loss;
      if (at.whole && row.begin == row.end) {
        loss = differentiate_eight(a.kind, row.loss, z, [](int) { return 0.0f; }, [](int) { return true; });
      } else {
        float t[kEight];
        take_targets(target, row, int(a.first) + strip, targets, at, t);
        loss = differentiate_eight(a.kind, row.loss, z, [&](int k) { return t[k]; }, [&](int k) { return has(at, k); });
      }
      total += double(loss);
#pragma unroll
      for (int k = 0; k < kEight; k++) {
        z[k] *= weight;
        gradient[k] += z[k];
      }
      if (a.finish.hidden_inverse) {
#pragma unroll
        for (int k = 0; k < kEight; k++) z[k] *= row.scale * inverse[k];
      }
    }
    write_row(a, u, at, z);
  }
  bool good = fabs(total) <= 1.7976931348623157e308;
#pragma unroll
  for (int k = 0; k < kEight; k++) good = good && finite(gradient[k]);
  if (not_finite != 0.0f || !good) fail(step, a.launch, not_finite != 0.0f ? kFailLogit : kFailLoss);
  *mine = make_float4(gradient[0], gradient[1], gradient[2], gradient[3]);
  *mine_apart = make_float4(gradient[4], gradient[5], gradient[6], gradient[7]);
  total = warp_sum(total);
  if (lane == 0) losses[warp] = total;
  __syncthreads();
  const int item = strip + int(threadIdx.x);
  if (item < a.items) {
    float sum = 0.0f;
    for (int n = 0; n < 8; n++) sum += rows_of_strip[n][threadIdx.x];
    a.bias_gradient[blockIdx.y * a.tile + item] = sum;
  }
  if (threadIdx.x != 0) return;
  for (int n = 1; n < 8; n++) total += losses[n];
  total *= double(weight);
  double *sum = a.loss + int64_t(blockIdx.y) * a.strips + blockIdx.x;
  *sum = a.begins ? total : *sum + total;
}

struct OutputSumArgs {
  const StepRecord *step;
  const double *loss;  // [blocks]
  int64_t blocks;
  int32_t term, launch;
};

// Step.Loss[term] += the blocks' losses.
//
// Mapping: one warp; a lane adds every 32nd, and the lanes are added by halves.
// Bytes: reads 8 a block.
// Source: kernels/ops.go, Output; scheme: own.
KERNEL_BOUNDS(output_sum, OutputSumArgs, 32, 1) {
  if (failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t b = lane_id(); b < a.blocks; b += 32) total += a.loss[b];
  total = warp_sum(total);
  if (lane_id() != 0) return;
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

// The update of an item, by n columns a lane.
template <int n>
DEVICE void update_item(const OutputUpdateArgs &a, int64_t i) {
  const StepRecord *step = a.step;
  const int64_t columns = a.weight.columns, item = a.first + i, touched = touched_by(step, a.to, item);
  const float *q = a.strip + i * a.pitch, *w = a.weight.value + item * columns;
  const Rates rates = rates_of(step, step->number);
  const float inverse = a.item_inverse ? a.item_inverse[i] : 0.0f;
  const float along = a.item_inverse ? warp_dot(w, q, columns) * inverse : 0.0f;
  for (int64_t k = n * lane_id(); k < columns; k += 32 * n) {
    float g[n];
    read<n>(q + k, g);
    if (a.item_inverse) {
      float x[n];
      read<n>(w + k, x);
#pragma unroll
      for (int c = 0; c < n; c++) g[c] -= along * (x[c] * inverse);
    }
    take_gradients<n>(step, a.launch, a.weight, rates, a.to, item, touched, k, g);
  }
}

// The update with dw = q, or for cosine logits dw_i = q_i - (w_i . q_i) w_i / |w_i|^2.
//
// Mapping: a warp has an item, a lane four columns at a time where the weight's rows allow it.
// Bytes: reads 4 K of q an item, reads and writes 4 (1 + states) K of W, and for cosine logits reads both again, from the cache:
// bound by that.
// Source: kernels/ops.go, Output, and kernels/optimizer.go; cosine logits: above; scheme: own.
KERNEL_BOUNDS(output_update, OutputUpdateArgs, 256, 4) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t i = int64_t(blockIdx.x) * 8 + warp_id();
  if (i >= a.items) return;
  if (updates_fours(a.weight) && by_fours(a.strip, a.pitch) && by_fours(a.to.tied, 0))
    update_item<4>(a, i);
  else
    update_item<1>(a, i);
}
