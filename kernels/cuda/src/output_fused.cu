// The output layer without logits in memory, for up to 256 units: a block keeps 64 rows of one factor in shared memory while
// tiles of 64 rows of the other pass by, and a tile of logits, 64 x 64, lives from one product to the next. Logits are computed
// anew where they are needed: for the statistics of soft-max, for dh (a block keeps rows of the batch, items pass), and for
// dW with the update (a block keeps items, the batch passes).
//
// Work of a tile of 64 x 64 logits: 2 * 64 * 64 K operations a product, one product for statistics and two for dh and dW
// each, so 10 B K I in all with soft-max where storing logits would take 6. Shared memory is read with 1.5 KB for each 4
// instructions of 16 x 8 x 16 of the first product and 3 KB for each 16 of the second (K = 256, bfloat16): 2,300 cycles a tile
// at 128 bytes a cycle, against 2,048 for the instructions at 1,024 multiply-adds a cycle (sm_80), 1,024 at twice that. So
// shared memory bounds it where K is large; where it is small, the loss does (some 40 instructions a logit).
//
// Memory: W is read once for every 64 rows of the batch for dh and the statistics, mostly from the second-level cache, since
// blocks of all rows walk the items at the same time; for the update W and its states are read and written once. Rows of
// the batch are rounded once (pack_rows) and come from the second-level cache.
//
// Shared memory in KB, K = 64, 128, 256: bfloat16 36, 52, 85; TF32 53, 86, 152. Two blocks a multiprocessor, 128 registers a
// thread, hide each other's waits where they fit.
#include "fused.cuh"
#include "output.cuh"

struct PackArgs {
  const StepRecord *step;
  const float *x;  // [valid, columns]
  void *to;  // [rows, padded] of two or four bytes, padded a multiple of 4
  int64_t columns, padded, rows;
  int64_t valid;  // rows that are there, -1: those of the batch
  int32_t precision, launch;
};

// x rounded to a precision; zeros beyond its end.
//
// Mapping: a warp has 512 columns of a row, a lane four at a time where the rows are aligned for it, and four such fours at once,
// so that enough reads are under way.
// Bytes: 6 or 8 a number, which bound it.
// Source: kernels.Precision; scheme: own.
KERNEL_BOUNDS(pack_rows, PackArgs, 128, 8) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * 4 + warp_id();
  if (u >= a.rows || failed_before(step, a.launch)) return;
  constexpr int kFours = 4;
  const bool inside = u < (a.valid < 0 ? step->rows : a.valid), fours = by_fours(a.x, a.columns);
  const float *row = a.x + u * a.columns;
  const int columns = int(a.columns), padded = int(a.padded), first = int(blockIdx.y) * 128 * kFours + 4 * lane_id();
  float x[kFours][4];
#pragma unroll
  for (int n = 0; n < kFours; n++) {
    const int k = first + 128 * n;
    if (inside && fours && k < columns) {
      read<4>(row + k, x[n]);
    } else {
#pragma unroll
      for (int c = 0; c < 4; c++) x[n][c] = inside && k + c < columns ? row[k + c] : 0.0f;
    }
  }
#pragma unroll
  for (int n = 0; n < kFours; n++) {
    const int k = first + 128 * n;
    if (k >= padded) continue;
    const int64_t at = u * a.padded + k;
    if (a.precision == PRECISION_bfloat16) {
      write_four(static_cast<uint16_t *>(a.to) + at, x[n]);
    } else {
#pragma unroll
      for (int c = 0; c < 4; c++) x[n][c] = narrowed(x[n][c], a.precision);
      write<4>(static_cast<float *>(a.to) + at, x[n]);
    }
  }
}

struct FusedArgs {
  const StepRecord *step;
  const void *hidden;  // [rows, K] of pack_rows, rows a multiple of 64
  const float *hidden_inverse;  // [B], cosine logits only
  const float *bias;  // [I], may be null
  const float *stats;  // [B, 2], soft-max only; null while they are made
  const float *targets, *item_targets, *target_sums;  // [entries] by row and by item, [B]; null: those of the batch
  float *parts;  // [splits, rows, K] of dh, or [splits, rows, 2] of statistics
  double *loss;  // [blocks]
  int64_t items, rows, splits;
  Weights weight, bias_weights;
  ItemGradient to;
  Loss kind;
  float temperature;
  int32_t slot, fours;
  int32_t launch;  // of logits and losses; the next two are of the weight and of the bias
};

constexpr int64_t kNoEntry = int64_t(1) << 40;

// What belongs to the 64 rows and the 64 items at hand, and where each row of the tile that stays is in its list of targets.
struct FusedMargins {
  int64_t at[kFusedTile], end[kFusedTile], next[kFusedTile];
  double losses[kFusedThreads / 32];
  float weight;  // of a row
  float log_sum_exp[kFusedTile], row_sum[kFusedTile], hidden_inverse[kFusedTile];
  float bias[kFusedTile], item_inverse[kFusedTile], bias_gradient[kFusedTile];
  float item_scale[kFusedTile];  // item_inverse over the temperature
};

DEVICE void rows_at_hand(const FusedArgs &a, FusedMargins &m, int64_t first, bool targets) {
  const int r = threadIdx.x;
  if (r >= kFusedTile) return;
  const int64_t u = first + r;
  const bool inside = u < a.step->rows;
  const float *sums = a.target_sums ? a.target_sums : a.step->slots[a.slot].row_sum;
  m.log_sum_exp[r] = inside && a.stats ? a.stats[2 * u + 1] : 0.0f;
  m.row_sum[r] = inside && targets ? sums[u] : 0.0f;
  m.hidden_inverse[r] = inside && a.hidden_inverse ? a.hidden_inverse[u] : 0.0f;
}

DEVICE void items_at_hand(const FusedArgs &a, FusedMargins &m, int64_t first) {
  const int r = threadIdx.x;
  if (r < kFusedTile) {
    m.bias[r] = a.bias && first + r < a.items ? a.bias[first + r] : 0.0f;
    m.bias_gradient[r] = 0.0f;
  }
  if (!a.hidden_inverse) return;
  for (int i = warp_id(); i < kFusedTile; i += kFusedThreads / 32) {
    const int64_t columns = a.weight.columns;
    const float inverse = inverse_norm(a.weight.value + (first + i) * columns, first + i < a.items ? columns : 0);
    if (lane_id() == 0) m.item_inverse[i] = inverse, m.item_scale[i] = inverse / a.temperature;
  }
}

// The entries of what stays: each row's in a list of items, or each item's in a list of rows.
struct Entries {
  const int32_t *index;
  const float *value;
};

template <bool by_items>
DEVICE Entries entries_of(const FusedArgs &a) {
  const SparseRecord &target = a.step->slots[a.slot];
  if (by_items) return {target.item_rows, a.item_targets ? a.item_targets : target.item_values};
  return {target.indices, a.targets ? a.targets : target.values};
}

DEVICE void start_entries(FusedMargins &m, int r, const Entries &list, int64_t at, int64_t end) {
  m.at[r] = at;
  m.end[r] = end;
  m.next[r] = at < end ? list.index[at] : kNoEntry;
}

// The targets of a row of the tile that stays in columns 2 l and 2 l + 1 of the tile that passes. All lanes call.
DEVICE void targets_of(FusedMargins &m, int r, const Entries &list, int64_t first, float (&t)[2]) {
  const int lane = lane_id();
  int64_t next = m.next[r];
  t[0] = t[1] = 0.0f;
  if (next >= first + kFusedTile) return;
  int64_t at = m.at[r];
  const int64_t end = m.end[r];
  while (next < first + kFusedTile) {
    const int column = int(next - first);
    const float value = list.value[at];
    if (column == 2 * lane) t[0] = value;
    if (column == 2 * lane + 1) t[1] = value;
    at++;
    next = at < end ? list.index[at] : kNoEntry;
  }
  __syncwarp();
  if (lane == 0) m.at[r] = at, m.next[r] = next;
}

DEVICE float finish_fused(const FusedArgs &a, const FusedMargins &m, float z, int u, int i) {
  if (a.hidden_inverse) z = z * m.hidden_inverse[u] * m.item_scale[i];
  return a.bias ? z + m.bias[i] : z;
}

// Logits become r dl/dz (for cosine logits over |h| |w| T), rounded, in their place. Of the tile that stays, rows are items with
// `by_items` and rows of the batch without; then there is no loss, and no gradient of the bias. Between barriers.
//
// A warp has every eighth row, a lane two columns of it. A lane reads what it needs anew in each tile: registers are short.
template <class P, bool by_items>
DEVICE void differentiate(const FusedArgs &a, FusedMargins &m, float *scores, int64_t row, int64_t item) {
  const int lane = lane_id();
  const int64_t rows = a.step->rows;
  const float weight = m.weight;
  const Entries list = entries_of<by_items>(a);
  float part = 0.0f;
#pragma unroll 1
  for (int r = warp_id(); r < kFusedTile; r += kFusedThreads / 32) {
    float *place = scores + r * P::kScorePitch;
    const float2 product = *reinterpret_cast<const float2 *>(place + 2 * lane);
    float t[2], g[2], sum = 0.0f;
    targets_of(m, r, list, by_items ? row : item, t);
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const int u = by_items ? 2 * lane + c : r, i = by_items ? r : 2 * lane + c;
      g[c] = 0.0f;
      if (row + u >= rows || item + i >= a.items) continue;
      const float z = finish_fused(a, m, c ? product.y : product.x, u, i);
      const LossAndDelta l = loss_of(a.kind, loss_row(a.kind, m.row_sum[u], m.log_sum_exp[u]), z, t[c]);
      const float dz = weight * l.delta;
      if (!finite(z)) fail(a.step, a.launch, kFailLogit, item + i);
      if (!finite(dz)) fail(a.step, a.launch, kFailLoss);
      if (by_items) {
        if (!finite(l.loss)) fail(a.step, a.launch, kFailLoss);
        part += l.loss;
        sum += dz;
      }
      g[c] = a.hidden_inverse ? dz * m.hidden_inverse[u] * m.item_scale[i] : dz;
    }
    if (by_items && a.bias) {
      sum = warp_sum(sum);
      if (lane == 0) m.bias_gradient[r] += sum;
    }
    __syncwarp();
    P::store_gradients(place, lane, g[0], g[1]);
  }
  if constexpr (by_items) {
    part = warp_sum(part);
    if (lane == 0) m.losses[warp_id()] += double(weight) * double(part);
  }
}

// The items of split y: tiles are shared out evenly.
DEVICE int64_t split_begins(const FusedArgs &a, int64_t split) {
  return (a.items + kFusedTile - 1) / kFusedTile * split / a.splits;
}

// m_u = max over i of z_ui and ln of the sum over i of exp(z_ui), i in a split of the items, for combine_stats.
//
// Mapping: block (x, y) has rows 64 x .., split y. A warp has every eighth row; maximum and sum of a row go from tile to tile.
// Bytes: W is read once for every 64 rows, mostly from the second-level cache, the rounded h once for every split; writes 8 a
// row and split. 2 B K I operations.
// Source: kernels/ops.go, OutputStats; carrying maximum and sum: as output_stats; scheme: own.
template <class P, int K>
DEVICE void fused_stats(const FusedArgs &a) {
  SHARED(FusedMargins, m, );
  SHARED(float, top, [kFusedTile]);
  SHARED(float, total, [kFusedTile]);
  using Tiles = FusedTiles<P, K>;
  const StepRecord *step = a.step;
  const int64_t row = int64_t(blockIdx.x) * kFusedTile;
  if (row >= step->rows || failed_before(step, a.launch)) return;
  const int lane = lane_id();
  rows_at_hand(a, m, row, false);
  if (threadIdx.x < kFusedTile) top[threadIdx.x] = -infinity(), total[threadIdx.x] = 0.0f;
  Tiles::fetch_rows(Tiles::stays(), a.hidden, row);
  const int64_t end = split_begins(a, blockIdx.y + 1);
  for (int64_t tile = split_begins(a, blockIdx.y); tile < end; tile++) {
    const int64_t item = tile * kFusedTile;
    Tiles::fetch_items(Tiles::passes(), a.weight.value, a.weight.columns, item, a.items, a.fours);
    items_at_hand(a, m, item);
    cp_async_wait<0>();
    __syncthreads();
    Tiles::multiply();
    __syncthreads();
#pragma unroll 1
    for (int r = warp_id(); r < kFusedTile; r += kFusedThreads / 32) {
      const float2 product = *reinterpret_cast<const float2 *>(Tiles::scores() + r * P::kScorePitch + 2 * lane);
      float z[2] = {product.x, product.y};
#pragma unroll
      for (int c = 0; c < 2; c++) {
        const int i = 2 * lane + c;
        const bool inside = item + i < a.items;
        z[c] = inside ? finish_fused(a, m, z[c], r, i) : -infinity();
        if (inside && !finite(z[c]) && row + r < step->rows) fail(step, a.launch, kFailLogit, item + i);
      }
      const float before = top[r];
      float maximum = fmaxf(before, fmaxf(z[0], z[1]));
      for (int lanes = 16; lanes > 0; lanes /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, lanes));
      const float sum = warp_sum(expf(z[0] - maximum) + expf(z[1] - maximum));
      __syncwarp();
      if (lane == 0) {
        top[r] = maximum;
        total[r] = total[r] * expf(before - maximum) + sum;
      }
    }
    __syncthreads();
  }
  const int64_t u = row + threadIdx.x;
  if (threadIdx.x >= kFusedTile || u >= step->rows) return;
  float *part = a.parts + 2 * (blockIdx.y * a.rows + u);
  part[0] = top[threadIdx.x];
  part[1] = top[threadIdx.x] + logf(total[threadIdx.x]);
}

// dh_u = sum over i of g_ui w_i, i in a split of the items, for output_merge_hidden.
//
// Mapping: block (x, y) has rows 64 x .., split y; the sums of its rows stay in registers.
// Bytes: W is read once for every 64 rows, mostly from the second-level cache, the rounded h once for every split; writes 4 K a
// row and split. 4 B K I operations.
// Source: kernels/ops.go, Output; scheme: own; logits are computed anew, as in Cut Cross-Entropy (ICLR 2025).
template <class P, int K>
DEVICE void fused_hidden(const FusedArgs &a) {
  SHARED(FusedMargins, m, );
  using Tiles = FusedTiles<P, K>;
  const StepRecord *step = a.step;
  const int64_t row = int64_t(blockIdx.x) * kFusedTile;
  if (row >= step->rows || failed_before(step, a.launch)) return;
  const int64_t begin = split_begins(a, blockIdx.y), end = split_begins(a, blockIdx.y + 1);
  rows_at_hand(a, m, row, true);
  if (threadIdx.x == 0) m.weight = row_weight(step, a.kind);
  if (threadIdx.x < kFusedTile) {
    const SparseRecord &target = step->slots[a.slot];
    const Entries list = entries_of<false>(a);
    const int64_t u = row + threadIdx.x;
    const int64_t all = u < step->rows ? target.offsets[u] : 0, last = u < step->rows ? target.offsets[u + 1] : 0;
    const int64_t at = first_where(all, last, [&](int64_t e) { return list.index[e] >= begin * kFusedTile; });
    start_entries(m, threadIdx.x, list, at, last);
  }
  Tiles::fetch_rows(Tiles::stays(), a.hidden, row);
  float sum[2][K / 32][4] = {};
  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t item = tile * kFusedTile;
    Tiles::fetch_items(Tiles::passes(), a.weight.value, a.weight.columns, item, a.items, a.fours);
    items_at_hand(a, m, item);
    cp_async_wait<0>();
    __syncthreads();
    Tiles::multiply();
    __syncthreads();
    differentiate<P, false>(a, m, Tiles::scores(), row, item);
    __syncthreads();
    Tiles::accumulate(sum);
    __syncthreads();
  }
  Tiles::store_sums(a.parts + (blockIdx.y * a.rows + row) * K, K, sum);
}

// dw_i = sum over u of g_ui h_u and the update of w_i; loss; gradient of the bias and its update.
//
// Mapping: a block has 64 items at a time, every gridDim.x-th tile; the sums of its items stay in registers while the batch
// passes.
// Bytes: W and its states are read and written once; the rounded h, 2 or 4 B K, is read once for every 64 items, from the
// second-level cache. 4 B K I operations.
// Source: kernels/ops.go, Output, and kernels/optimizer.go; scheme: own, see fused_hidden.
template <class P, int K>
DEVICE void fused_weight(const FusedArgs &a) {
  SHARED(FusedMargins, m, );
  using Tiles = FusedTiles<P, K>;
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int lane = lane_id(), warp = warp_id();
  if (threadIdx.x == 0) m.weight = row_weight(step, a.kind);
  if (lane == 0) m.losses[warp] = 0.0;
  for (int64_t item = int64_t(blockIdx.x) * kFusedTile; item < a.items; item += int64_t(gridDim.x) * kFusedTile) {
    Tiles::fetch_items(Tiles::stays(), a.weight.value, a.weight.columns, item, a.items, a.fours);
    items_at_hand(a, m, item);
    if (threadIdx.x < kFusedTile) {
      const SparseRecord &target = step->slots[a.slot];
      const Entries list = entries_of<true>(a);
      const int64_t found =
          item + threadIdx.x < a.items ? position(target.items, target.item_count, int32_t(item + threadIdx.x)) : -1;
      start_entries(m, threadIdx.x, list, found < 0 ? 0 : target.item_offsets[found],
                    found < 0 ? 0 : target.item_offsets[found + 1]);
    }
    float sum[2][K / 32][4] = {};
    for (int64_t row = 0; row < step->rows; row += kFusedTile) {
      Tiles::fetch_rows(Tiles::passes(), a.hidden, row);
      rows_at_hand(a, m, row, true);
      cp_async_wait<0>();
      __syncthreads();
      Tiles::multiply();
      __syncthreads();
      differentiate<P, true>(a, m, Tiles::scores(), row, item);
      __syncthreads();
      Tiles::accumulate(sum);
      __syncthreads();
    }
    __syncthreads();  // the sums lie where the items were fetched to, and a batch without rows has not waited yet
    Tiles::store_sums(Tiles::sums(), Tiles::kSumPitch, sum);
    __syncthreads();
    const Rates rates = rates_of(step, step->number);
#pragma unroll 1
    for (int i = warp; i < kFusedTile && item + i < a.items; i += kFusedThreads / 32) {
      const int64_t columns = a.weight.columns, touched = touched_by(step, a.to, item + i);
      const float *q = Tiles::sums() + i * Tiles::kSumPitch, *w = a.weight.value + (item + i) * columns;
      const float inverse = a.hidden_inverse ? m.item_inverse[i] : 0.0f;
      const float along = a.hidden_inverse ? warp_dot(w, q, columns) * inverse : 0.0f;
#pragma unroll 1
      for (int64_t k = lane; k < columns; k += 32) {
        const float g = a.hidden_inverse ? q[k] - along * (w[k] * inverse) : q[k];
        take_gradient(step, a.launch + 1, a.weight, rates, a.to, item + i, touched, k, g);
      }
    }
    if (a.bias && threadIdx.x < kFusedTile && item + threadIdx.x < a.items)
      update_element(step, a.launch + 2, a.bias_weights, rates, item + threadIdx.x, item + threadIdx.x,
                     m.bias_gradient[threadIdx.x]);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  double loss = 0.0;
  for (int n = 0; n < kFusedThreads / 32; n++) loss += m.losses[n];
  a.loss[blockIdx.x] = loss;
}

#define FUSED_KERNELS(name, P, K)                                                                              \
  KERNEL_BOUNDS(fused_stats_##name##_##K, FusedArgs, kFusedThreads, 2) { fused_stats<P, K>(a); }               \
  KERNEL_BOUNDS(fused_hidden_##name##_##K, FusedArgs, kFusedThreads, (sizeof(P::Element) * K > 512 ? 1 : 2)) { \
    fused_hidden<P, K>(a);                                                                                     \
  }                                                                                                            \
  KERNEL_BOUNDS(fused_weight_##name##_##K, FusedArgs, kFusedThreads, (sizeof(P::Element) * K > 512 ? 1 : 2)) { \
    fused_weight<P, K>(a);                                                                                     \
  }

FUSED_KERNELS(bfloat16, InBFloat16, 64)
FUSED_KERNELS(bfloat16, InBFloat16, 128)
FUSED_KERNELS(bfloat16, InBFloat16, 256)
FUSED_KERNELS(tensorfloat32, InTensorFloat32, 64)
FUSED_KERNELS(tensorfloat32, InTensorFloat32, 128)
FUSED_KERNELS(tensorfloat32, InTensorFloat32, 256)

struct MergeHiddenArgs {
  const StepRecord *step;
  const float *h;  // [B, K]
  const float *parts;  // [count, rows, padded]
  const float *hidden_inverse;  // [B], null: no cosines
  float *dh;  // [B, K]
  int64_t columns, padded, rows, count;
  int64_t each;  // columns of a warp; for cosine logits all
  int32_t accumulate, launch;
};

// Columns k .. k + n - 1 of row u of the gradient: the sum of the parts less what is along h, `along` times h / |h|.
template <int n>
DEVICE void merge_columns(const MergeHiddenArgs &a, int64_t u, int64_t k, float along, float inverse, float (&g)[n]) {
  const float *p = a.parts + u * a.padded + k;
  read<n>(p, g);
  for (int64_t part = 1; part < a.count; part++) {
    float more[n];
    read<n>(p + part * a.rows * a.padded, more);
#pragma unroll
    for (int c = 0; c < n; c++) g[c] += more[c];
  }
  if (along == 0.0f) return;
  float h[n];
  read<n>(a.h + u * a.columns + k, h);
#pragma unroll
  for (int c = 0; c < n; c++) g[c] -= along * (h[c] * inverse);
}

template <int n>
DEVICE void merge_row(const MergeHiddenArgs &a, int64_t u) {
  const float inverse = a.hidden_inverse ? a.hidden_inverse[u] : 0.0f;
  const int columns = int(a.columns), begin = int(blockIdx.y) * int(a.each), end = min(begin + int(a.each), columns);
  float along = 0.0f;
  if (a.hidden_inverse) {
    for (int k = n * lane_id(); k < columns; k += 32 * n) {
      float g[n], h[n];
      merge_columns<n>(a, u, k, 0.0f, inverse, g);
      read<n>(a.h + u * a.columns + k, h);
#pragma unroll
      for (int c = 0; c < n; c++) along = fmaf(h[c], g[c], along);
    }
    along = warp_sum(along) * inverse;
  }
  bool good = true;
  for (int k = begin + n * lane_id(); k < end; k += 32 * n) {
    float g[n], *dh = a.dh + u * a.columns + k;
    merge_columns<n>(a, u, k, along, inverse, g);
    if (a.accumulate) {
      float before[n];
      read<n>(dh, before);
#pragma unroll
      for (int c = 0; c < n; c++) g[c] += before[c];
    }
#pragma unroll
    for (int c = 0; c < n; c++) good = good && finite(g[c]);
    write<n>(dh, g);
  }
  if (!good) fail(a.step, a.launch, kFailGradient);
}

// dh (+)= the sum of the parts in their order; for cosine logits the projection of it, see output.cu.
//
// Mapping: a warp has 256 columns of a row of the batch, for cosine logits all, a lane four at a time, or one where they are not
// aligned for it.
// Bytes: reads count times 4 B K, which bounds it, for cosine logits twice; writes 4 B K.
// Source: kernels/ops.go, Output; scheme: own.
KERNEL_BOUNDS(output_merge_hidden, MergeHiddenArgs, 256, 4) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * 8 + warp_id();
  if (u >= step->rows || failed_before(step, a.launch)) return;
  if (by_fours(a.parts, a.padded) && by_fours(a.dh, a.columns) && by_fours(a.h, 0))
    merge_row<4>(a, u);
  else
    merge_row<1>(a, u);
}
