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
  const void *z;  // [rows, tile]: products
  void *gradient;  // [rows, tile]: where output_loss leaves the gradients, maybe in the place of z
  // [B, 2]: maximum, log-sum-exp. While they are made [parts, rows, 2], and until the last tile the sum of exp(z - maximum) in place
  // of the latter.
  float *stats;
  const float *targets, *target_sums;  // [entries] in the order by row, and [B]; null: those of the batch
  float *bias_gradient;  // [strips of rows, tile]: each strip's sum
  double *loss;  // [strips of rows, strips]: each block's sum over the tiles so far
  Finish finish;
  int64_t tile, first, items;
  int64_t rows;  // up to here gradients of rows beyond the batch's end are made zero; those of a part of the statistics
  Loss kind;
  int32_t slot, begins, ends;
  int32_t strips, strip_rows;  // strips of items that the first tile has; rows of a strip of rows, a multiple of 8
  int32_t narrow, launch;  // narrow: z is of bfloat16, else float32
};

// What input layers add to the logits of a tile, and where the gradients with respect to these are left.
struct AddendArgs {
  const StepRecord *step;
  void *z;  // [rows, tile]
  float *addend;  // [B, stride], from the tile's first column on
  int64_t tile, items, stride;
  int32_t narrow, launch;  // narrow: z is of bfloat16, else float32
};

// z_ui += addend_ui.
//
// Mapping: a thread has an element.
// Bytes: 12 an element, or 8 with a narrow z; bound by them.
// Source: kernels/output.go, Addend; scheme: own.
KERNEL_BOUNDS(add_to_logits, AddendArgs, 128, 8) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (i >= a.items || u >= a.step->rows || failed_before(a.step, a.launch)) return;
  const float x = a.addend[u * a.stride + i];
  if (a.narrow) {
    uint16_t &z = static_cast<uint16_t *>(a.z)[u * a.tile + i];
    z = to_bf16(normal(from_bf16(z) + x));
  } else {
    static_cast<float *>(a.z)[u * a.tile + i] += x;
  }
}

// addend_ui = z_ui, which is the gradient by now.
//
// Mapping: a thread has an element.
// Bytes: 8 an element, or 6 with a narrow z; bound by them.
// Source: kernels/output.go, Addend; scheme: own.
KERNEL_BOUNDS(leave_gradient, AddendArgs, 128, 8) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (i >= a.items || u >= a.step->rows || failed_before(a.step, a.launch)) return;
  const int64_t at = u * a.tile + i;
  a.addend[u * a.stride + i] = a.narrow ? from_bf16(static_cast<uint16_t *>(a.z)[at]) : static_cast<float *>(a.z)[at];
}

struct ClearOthersArgs {
  const StepRecord *step;
  float *x;  // [B, stride]
  int64_t first, end, stride;
  int32_t launch;
};

// Makes all columns 0 but those from first to end.
//
// Mapping: a thread has an element.
// Bytes: writes 4 an element; bound by them.
// Source: kernels/output.go, Addend; scheme: own.
KERNEL_BOUNDS(clear_others, ClearOthersArgs, 128, 8) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (i >= a.stride || u >= a.step->rows || failed_before(a.step, a.launch)) return;
  if (i < a.first || i >= a.end) a.x[u * a.stride + i] = 0.0f;
}

// Logits are worked on by eights: those of items i .. i + 3 and i + apart .. i + apart + 3 of a tile's row. In a warp whose lanes
// are four items apart they are two pieces of memory.
constexpr int kEight = 8;

struct Eight {
  int i, apart;
  bool whole;  // whether the tile has all items of the block's eights
  int items, room;  // of the tile, and those that are written
};

DEVICE int item_of(const Eight &e, int n) { return n < 4 ? e.i + n : e.i + e.apart + n - 4; }
DEVICE bool has(const Eight &e, int n) { return e.whole || item_of(e, n) < e.items; }

// An eight as it is read: float32, or two bfloat16 a word.
template <class Number>
struct Raw {
  uint32_t word[kEight * sizeof(Number) / 4];
};

// Reads a row's eight; what the tile has not is zero.
DEVICE Raw<float> read_eight(const Eight &e, const float *row) {
  Raw<float> x;
  if (e.whole) {
    const float4 low = *reinterpret_cast<const float4 *>(row + e.i);
    const float4 high = *reinterpret_cast<const float4 *>(row + e.i + e.apart);
    const float eight[kEight] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int n = 0; n < kEight; n++) x.word[n] = __float_as_uint(eight[n]);
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++) x.word[n] = has(e, n) ? __float_as_uint(row[item_of(e, n)]) : 0;
  }
  return x;
}

DEVICE Raw<uint16_t> read_eight(const Eight &e, const uint16_t *row) {
  Raw<uint16_t> x;
  if (e.whole) {
    const uint2 low = *reinterpret_cast<const uint2 *>(row + e.i);
    const uint2 high = *reinterpret_cast<const uint2 *>(row + e.i + e.apart);
    x.word[0] = low.x, x.word[1] = low.y, x.word[2] = high.x, x.word[3] = high.y;
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n += 2) {
      x.word[n / 2] = has(e, n) ? row[item_of(e, n)] : 0;
      if (has(e, n + 1)) x.word[n / 2] |= uint32_t(row[item_of(e, n + 1)]) << 16;
    }
  }
  return x;
}

DEVICE float number_of(const Raw<float> &x, int n) { return __uint_as_float(x.word[n]); }
DEVICE float number_of(const Raw<uint16_t> &x, int n) {
  return __uint_as_float(n % 2 ? x.word[n / 2] & 0xffff0000u : x.word[n / 2] << 16);
}

DEVICE void write_eight(const Eight &e, float *row, const float (&eight)[kEight]) {
  if (e.whole) {
    *reinterpret_cast<float4 *>(row + e.i) = make_float4(eight[0], eight[1], eight[2], eight[3]);
    *reinterpret_cast<float4 *>(row + e.i + e.apart) = make_float4(eight[4], eight[5], eight[6], eight[7]);
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++)
      if (item_of(e, n) < e.room) row[item_of(e, n)] = eight[n];
  }
}

DEVICE void write_eight(const Eight &e, uint16_t *row, const float (&eight)[kEight]) {
  uint32_t two[kEight / 2];
#pragma unroll
  for (int n = 0; n < kEight; n += 2) two[n / 2] = to_bf16x2(normal(eight[n]), normal(eight[n + 1]));
  if (e.whole) {
    *reinterpret_cast<uint2 *>(row + e.i) = make_uint2(two[0], two[1]);
    *reinterpret_cast<uint2 *>(row + e.i + e.apart) = make_uint2(two[2], two[3]);
  } else {
#pragma unroll
    for (int n = 0; n < kEight; n++)
      if (item_of(e, n) < e.room) row[item_of(e, n)] = uint16_t(two[n / 2] >> n % 2 * 16);
  }
}

// What all items of a row have in common: 1 / (|h_u| T), of cosine logits only.
DEVICE float row_scale(const Finish &f, int64_t u) {
  return f.hidden_inverse ? f.hidden_inverse[u] / f.temperature : 1.0f;
}

// Adds another part's maximum and sum of exp(z - maximum); a part without logits has -Inf and 0.
DEVICE void add_stats(float &top, float &sum, float other_top, float other_sum) {
  const float next = fmaxf(top, other_top);
  if (next == -infinity()) {
    sum += other_sum;  // NaN, if one of them is
    return;
  }
  sum = sum * exp_negative(top - next) + other_sum * exp_negative(other_top - next);
  top = next;
}

// How many rows a block of output_stats has, and its threads; statsRows and statsThreads of output.go.
constexpr int kStatsRows = 4, kStatsThreads = 256;

// A thread's part of output_stats: maximum and sum of its eights, for each of the block's rows.
struct RowStats {
  float top[kStatsRows], sum[kStatsRows];
};

template <class Number, bool cosine>
DEVICE void add_eights(const TileArgs &a, const Eight &at, const uint32_t (&rows)[kStatsRows],
                       const float (&scale)[kStatsRows], RowStats &stats) {
  Raw<Number> z[kStatsRows];
  Raw<float> bias = {}, inverse;
#pragma unroll
  for (int r = 0; r < kStatsRows; r++) z[r] = read_eight(at, static_cast<const Number *>(a.z) + rows[r]);
  if (a.finish.bias) bias = read_eight(at, a.finish.bias + a.first);
  if (cosine) inverse = read_eight(at, a.finish.item_inverse);
#pragma unroll
  for (int r = 0; r < kStatsRows; r++) {
    float x[kEight], next = stats.top[r];
#pragma unroll
    for (int n = 0; n < kEight; n++) {
      x[n] = number_of(z[r], n);
      if (cosine) x[n] *= scale[r] * number_of(inverse, n);
      x[n] += number_of(bias, n);
      if (!has(at, n)) x[n] = -infinity();
      next = fmaxf(next, x[n]);
    }
    stats.sum[r] *= exp_negative(stats.top[r] - next);
#pragma unroll
    for (int n = 0; n < kEight; n++) stats.sum[r] += exp_less(x[n], next);
    stats.top[r] = next;
  }
}

template <class Number, bool cosine>
DEVICE RowStats stats_of_eights(const TileArgs &a, int first_row, int rows) {
  RowStats stats;
  uint32_t begins[kStatsRows];  // a tile's logits fit into a cache
  float scale[kStatsRows];
#pragma unroll
  for (int r = 0; r < kStatsRows; r++) {
    const int u = min(first_row + r, rows - 1);  // the last rows of a batch may have no others: the last one again
    begins[r] = uint32_t(u) * uint32_t(a.tile);
    scale[r] = cosine ? row_scale(a.finish, u) : 1.0f;
    stats.top[r] = -infinity(), stats.sum[r] = 0.0f;
  }
  const int items = int(a.items), apart = int(gridDim.y) * kStatsThreads * kEight;
  int i = (int(blockIdx.y) * kStatsThreads + int(threadIdx.x)) * kEight;
  for (; i + kEight <= items; i += apart)
    add_eights<Number, cosine>(a, {i, 4, true, items, items}, begins, scale, stats);
  if (i < items) add_eights<Number, cosine>(a, {i, 4, false, items, items}, begins, scale, stats);
  return stats;
}

// m_u = max over i of z_ui, s_u = sum over i of exp(z_ui - m_u), carried from tile to tile; in the end m_u and m_u + ln s_u.
//
// Mapping: a block has four rows of the batch, which share what is read of the items, and with p parts, p the blocks in y, every
// p-th 2,048 of the tile's items; each part has statistics of its own. A thread goes along the rows by eights, and carries maximum
// and sum of each from eight to eight. The threads' are added by halves of a warp, then in the warps' order. What is not finite
// makes a sum that is no number; logits of -Inf are left to output_loss.
// Bytes: reads 4 or 2 a logit, and the bias once for four logits, from the second-level cache where the tile fits. A logit takes an
// exponential, of which a multiprocessor makes 16 a cycle.
// Source: kernels/ops.go, OutputStats; carrying m and s: Milakov and Gimelshein, Online normalizer calculation for softmax,
// 2018.
KERNEL_BOUNDS(output_stats, TileArgs, kStatsThreads, 4) {
  SHARED(float2, parts, [kStatsRows][kStatsThreads / 32]);
  const StepRecord *step = a.step;
  const int first_row = kStatsRows * int(blockIdx.x), rows = int(step->rows);
  if (first_row >= rows || failed_before(step, a.launch)) return;
  RowStats mine;
  if (a.finish.hidden_inverse && a.narrow)
    mine = stats_of_eights<uint16_t, true>(a, first_row, rows);
  else if (a.finish.hidden_inverse)
    mine = stats_of_eights<float, true>(a, first_row, rows);
  else if (a.narrow)
    mine = stats_of_eights<uint16_t, false>(a, first_row, rows);
  else
    mine = stats_of_eights<float, false>(a, first_row, rows);
#pragma unroll
  for (int r = 0; r < kStatsRows; r++) {
    float top = mine.top[r], sum = mine.sum[r];
    for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, lanes));
    if (top > -infinity()) sum *= exp_negative(mine.top[r] - top);
    sum = warp_sum(sum);
    if (lane_id() == 0) parts[r][warp_id()] = make_float2(top, sum);
  }
  __syncthreads();
  const int r = int(threadIdx.x);
  if (r >= kStatsRows || first_row + r >= rows) return;
  float row_top = parts[r][0].x, row_sum = parts[r][0].y;
  for (int n = 1; n < kStatsThreads / 32; n++) add_stats(row_top, row_sum, parts[r][n].x, parts[r][n].y);
  if (!(row_sum >= 0.0f)) fail(step, a.launch, kFailLogit);
  float *stats = a.stats + 2 * (blockIdx.y * a.rows + first_row + r);
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

// What a block of output_loss has of a tile, stripItems and mostStripRows of output.go, and how many rows a warp has at most.
constexpr int kStripItems = 256, kMostStripRows = 96, kWarpRows = kMostStripRows / 8;

// What output_loss has to know of a row: its targets in the strip, and what its logits have in common.
struct StripRow {
  int begin, end;  // entries
  LossRow loss;
  float scale;
  float weight, r;  // its own, and that in loss and gradient
};

// The batch of targets, with the values that stand in for its own.
DEVICE SparseRecord targets_of(const TileArgs &a) {
  SparseRecord target = a.step->slots[a.slot];
  if (a.target_sums) target.values = a.targets, target.row_sum = a.target_sums;
  return target;
}

// The rows of a warp, each eighth from `first_row` on: lane l < 12 finds the first entry of the l-th that is not before the strip,
// lane l + 12 the first behind it. All lanes call.
DEVICE void find_rows(const TileArgs &a, const SparseRecord &target, int first_row, int rows, StripRow *found) {
  const int lane = lane_id(), n = lane % kWarpRows, u = first_row + 8 * n;
  if (lane < 2 * kWarpRows && u < rows) {
    const int item = int(a.first) + int(blockIdx.x) * kStripItems + (lane < kWarpRows ? 0 : kStripItems);
    int low = target.offsets[u], high = target.offsets[u + 1];
    while (low < high) {
      const int middle = (low + high) / 2;
      if (target.indices[middle] >= item)
        high = middle;
      else
        low = middle + 1;
    }
    if (lane < kWarpRows) {
      found[n].begin = low;
      found[n].loss = loss_row(a.kind, target.row_sum[u], a.stats ? a.stats[2 * u + 1] : 0.0f);
      found[n].scale = row_scale(a.finish, u);
      found[n].weight = own_weight(a.step, a.kind, u);
      found[n].r = row_weight(a.step, a.kind) * found[n].weight;
    } else {
      found[n].end = low;
    }
  }
  __syncwarp();
}

// Has the logits of the warp's rows come from memory while it looks for targets.
DEVICE void fetch_logits(const TileArgs &a, int first_row, int rows) {
  const int size = a.narrow ? 2 : 4, lines = kStripItems * size / 128, items = 128 / size;
  for (int n = lane_id(); n < kWarpRows * lines; n += 32) {
    const int u = first_row + n / lines * 8, i = int(blockIdx.x) * kStripItems + n % lines * items;
    if (u < rows && i < a.items) prefetch(static_cast<const char *>(a.z) + (u * a.tile + i) * size);
  }
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

// What a number counts: all, if it counts at all, or as much as its weight.
DEVICE float counted(bool counts, float x) { return counts ? x : 0.0f; }
DEVICE float counted(float weight, float x) { return weight * x; }

// The losses of eight logits, added up, and in the logits' place dl/dz. target(i) is the target of number i; numbers of which
// counts(i) is false count as nothing; it may be a weight, too. For absent items the target is a constant, so that what it cancels is not compiled.
template <bool activated, class Target, class Counts>
DEVICE float differentiate_eight(const Loss &l, const LossRow &row, float (&z)[kEight], Target target, Counts counts) {
  float loss = 0.0f;
#define EIGHT(word)                                                    \
  case LOSS_##word:                                                    \
    if (activated && !kOfValues<LOSS_##word>) __builtin_unreachable(); \
    _Pragma("unroll") for (int i = 0; i < kEight; i++) {               \
      const LossAndDelta one = loss_##word(l, row, z[i], target(i));   \
      loss += counted(counts(i), one.loss);                            \
      z[i] = counted(counts(i), one.delta);                            \
    }                                                                  \
    return loss;
  switch (l.kind) { LOSSES(EIGHT) }
#undef EIGHT
  __builtin_unreachable();
}

// What a warp of output_loss adds up over its rows.
struct StripSums {
  double loss;
  float gradient[kEight], not_finite;
};

// The rows of a warp in output_loss, each eighth from `begin` on, of which `found` is known; `targets` are zeros for take_targets.
// Where values are not logits, one instance is for cosine logits and others.
template <class Number, bool kCosine, bool activated>
DEVICE StripSums loss_of_rows(const TileArgs &a, const Eight &at, int begin, int end, const StripRow *found,
                              float *targets) {
  const SparseRecord target = targets_of(a);
  const int rows = min(int(a.step->rows), end), first = int(a.first) + int(blockIdx.x) * kStripItems;
  const int64_t apart = 8 * a.tile;
  const bool cosine = kCosine && (!activated || a.finish.hidden_inverse);
  const Number *row = static_cast<const Number *>(a.z) + begin * a.tile;
  Number *to = static_cast<Number *>(a.gradient) + begin * a.tile;
  Raw<float> bias = {}, inverse = {};
  Raw<Number> next = {};
  if (a.finish.bias) bias = read_eight(at, a.finish.bias + a.first);
  if (cosine) inverse = read_eight(at, a.finish.item_inverse);
  if (begin < rows) next = read_eight(at, row);
  StripSums sums = {};
  int u = begin;
  for (; u < rows; u += 8, row += apart, to += apart, found++) {
    const Raw<Number> x = next;
    if (u + 8 < rows) next = read_eight(at, row + apart);
    float z[kEight];
#pragma unroll
    for (int k = 0; k < kEight; k++) {
      z[k] = number_of(x, k);
      if (cosine) z[k] *= found->scale * number_of(inverse, k);
      z[k] += number_of(bias, k);
      sums.not_finite = fmaf(z[k], 0.0f, sums.not_finite);
    }
    float loss, boost = 1.0f, at_slope[kEight];
    if (activated) {
#pragma unroll
      for (int k = 0; k < kEight; k++) {
        const float value = value_of_logit(a.kind.activation, a.kind.alpha, z[k]);
        at_slope[k] = slope_at(a.kind.activation, z[k], value);
        z[k] = value;
      }
    }
    if (at.whole && found->begin == found->end) {
      loss = differentiate_eight<activated>(a.kind, found->loss, z, [](int) { return 0.0f; }, [](int) { return true; });
      if (activated) boost = a.kind.zero_boost, loss *= boost;
    } else {
      float t[kEight];
      take_targets(target, *found, first, targets, at, t);
      const auto counts = [&](int k) {
        if constexpr (activated)
          return has(at, k) ? boost_of(a.kind, t[k]) : 0.0f;
        else
          return has(at, k);
      };
      loss = differentiate_eight<activated>(a.kind, found->loss, z, [&](int k) { return t[k]; }, counts);
    }
    sums.loss += double(found->weight * loss);
    const float r = activated ? found->r * boost : found->r;
    if (activated) {
#pragma unroll
      for (int k = 0; k < kEight; k++) z[k] *= slope_from(a.kind.activation, a.kind.alpha, at_slope[k]);
    }
#pragma unroll
    for (int k = 0; k < kEight; k++) {
      z[k] *= r;
      sums.gradient[k] += z[k];
      if (cosine) z[k] *= found->scale * number_of(inverse, k);
    }
    write_eight(at, to, z);
  }
  const float zeros[kEight] = {};
  for (; u < end; u += 8, to += apart) write_eight(at, to, zeros);
  return sums;
}

// z <- r dl/dz (for cosine logits over |h| |w| T), and the sums of the losses and, for the bias, of r dl/dz.
//
// Mapping: block (x, y) has a strip of items 256 x .. and a strip of rows; a warp has every eighth row, a lane eight items of it. It
// finds the targets of its rows first, all at once, and reads a row's logits while it works on those of the row before. A row
// that has no targets in the strip, as most have, goes by formulas in which the target is a constant. Sums of a lane are in
// rising rows, then over the warps.
// Bytes: reads 4 a logit and writes 4, or 2 and 2; logits that are kept for the step come from memory. Bound by
// instructions; tests/python/test_gpu_model.py counts them.
// Source: kernels/ops.go, Output, and kernels/loss.go; scheme: own, one pass where DSSTNE has one over all logits and one over
// targets; gradients in the logits' place as in llm.c's fused_classifier.
template <bool activated>
DEVICE void loss_of_strip(const TileArgs &a) {
  SHARED(float, rows_of_strip, [8][kStripItems]);  // targets, in the end sums
  SHARED(StripRow, found, [8][kWarpRows]);
  SHARED(double, losses, [8]);
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  constexpr int kApart = 128;
  const int lane = lane_id(), warp = warp_id(), strip = int(blockIdx.x) * kStripItems;
  const int room = int(a.items + 7) / 8 * 8;  // gradients of items that are not there are zeros, for products
  const Eight at{strip + 4 * lane, kApart, strip + kStripItems <= a.items, int(a.items), room};
  const int begin = int(blockIdx.y) * a.strip_rows, end = min(begin + a.strip_rows, max(int(step->rows), int(a.rows)));
  float *targets = rows_of_strip[warp];
  float4 *mine = reinterpret_cast<float4 *>(targets + 4 * lane), *mine_apart = mine + kApart / 4;
  *mine = *mine_apart = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  const int rows = min(int(step->rows), end);
  if (a.z != a.gradient) fetch_logits(a, begin + warp, rows);
  find_rows(a, targets_of(a), begin + warp, rows, found[warp]);
  StripSums sums;
  if (activated ? a.narrow : a.finish.hidden_inverse && a.narrow)
    sums = loss_of_rows<uint16_t, true, activated>(a, at, begin + warp, end, found[warp], targets);
  else if (activated || a.finish.hidden_inverse)
    sums = loss_of_rows<float, true, activated>(a, at, begin + warp, end, found[warp], targets);
  else if (a.narrow)
    sums = loss_of_rows<uint16_t, false, false>(a, at, begin + warp, end, found[warp], targets);
  else
    sums = loss_of_rows<float, false, false>(a, at, begin + warp, end, found[warp], targets);
  const float (&gradient)[kEight] = sums.gradient;
  bool good = fabs(sums.loss) <= 1.7976931348623157e308;
#pragma unroll
  for (int k = 0; k < kEight; k++) good = good && finite(gradient[k]);
  if (sums.not_finite != 0.0f || !good) fail(step, a.launch, sums.not_finite != 0.0f ? kFailLogit : kFailLoss);
  *mine = make_float4(gradient[0], gradient[1], gradient[2], gradient[3]);
  *mine_apart = make_float4(gradient[4], gradient[5], gradient[6], gradient[7]);
  double total = warp_sum(sums.loss);
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
  total *= double(row_weight(step, a.kind));
  double *sum = a.loss + int64_t(blockIdx.y) * a.strips + blockIdx.x;
  *sum = a.begins ? total : *sum + total;
}

KERNEL_BOUNDS(output_loss, TileArgs, 256, 3) { loss_of_strip<false>(a); }
// With an activation of the output before the loss and its derivative after it, which need more registers.
KERNEL_BOUNDS(output_loss_of_values, TileArgs, 256, 2) { loss_of_strip<true>(a); }

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
  uint16_t *rounded;  // [rows, pitch], the weight in bfloat16 as products read it; may be null
  const float *bias_gradient;  // [bias_parts, bias_pitch], whose parts are added; null: no bias
  Weights weight, bias;
  ItemGradient to;
  int64_t first, items, pitch, bias_parts, bias_pitch;
  int64_t each;  // columns of a warp; for cosine logits all
  int32_t launch;  // the next one is the bias's
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
  const int begin = int(blockIdx.y) * int(a.each), end = min(begin + int(a.each), int(columns));
  for (int k = begin + n * lane_id(); k < end; k += 32 * n) {
    float g[n];
    read<n>(q + k, g);
    if (a.item_inverse) {
      float x[n];
      read<n>(w + k, x);
#pragma unroll
      for (int c = 0; c < n; c++) g[c] -= along * (x[c] * inverse);
    }
    if (!take_gradients<n>(step, a.launch, a.weight, rates, a.to, item, touched, k, g) || !a.rounded) continue;
    uint16_t *rounded = a.rounded + item * a.pitch + k;
    if constexpr (n == 4)
      write_four(rounded, g);
    else
      *rounded = to_bf16(normal(g[0]));
  }
}

// The update of the bias of an item.
DEVICE void update_bias(const OutputUpdateArgs &a, int64_t i) {
  const StepRecord *step = a.step;
  const Rates rates = rates_of(step, step->number);
  float sum[1] = {a.bias_gradient[i]};
  for (int64_t p = 1; p < a.bias_parts; p++) sum[0] += a.bias_gradient[p * a.bias_pitch + i];
  update_elements<1>(step, a.launch + 1, a.bias, rates, a.first + i, a.first + i, sum);
}

// The update with dw = q, or for cosine logits dw_i = q_i - (w_i . q_i) w_i / |w_i|^2; and that of the bias.
//
// Mapping: a warp has 256 columns of an item, for cosine logits all, a lane four at a time where the weight's rows allow it. Blocks
// behind those have the bias, a thread an item.
// Bytes: reads 4 K of q an item, reads and writes 4 (1 + states) K of W, writes 2 K of the rounded copy, and for cosine logits
// reads q and W again, from the cache: bound by that.
// Source: kernels/ops.go, Output, and kernels/optimizer.go; cosine logits: above; scheme: own.
KERNEL_BOUNDS(output_update, OutputUpdateArgs, 256, 4) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t blocks = (a.items + 7) / 8, i = int64_t(blockIdx.x) * 8 + warp_id();
  if (blockIdx.x >= blocks) {
    const int64_t item = (blockIdx.x - blocks) * blockDim.x + threadIdx.x;
    if (item < a.items && blockIdx.y == 0) update_bias(a, item);
    return;
  }
  if (i >= a.items) return;
  if (updates_fours(a.weight) && by_fours(a.strip, a.pitch) && by_fours(a.to.tied, 0))
    update_item<4>(a, i);
  else
    update_item<1>(a, i);
}
