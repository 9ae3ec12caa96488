// An output at the stored entries of its target: what kernels/entries.go says, in up to six steps, and kernels/marginal.go.
//
//   directions            of cosine logits: those of the rows of h
//   output_entries        logits, loss and gradient of every entry
//   compare_entries       or, after the logits, loss and gradient of entries that are compared with each other
//   turn_entries          of cosine logits: from the gradients of entries to what they add to those of h and W
//   gather                the gradient with respect to the hidden layer (sparse.cu), by the gradients of the entries
//   entries_by_item       the gradients in the order by item, for scatter; or the targets that count
//   marginal_targets      after the logits: which targets count
#include "output.cuh"
#include "philox.cuh"

constexpr int kEntryWarps = 8;

struct EntriesArgs {
  const StepRecord *step;
  const float *bias;  // [I], may be null
  const float *addend;  // [B, addend_stride], from the first item on; may be null
  int64_t addend_stride;
  float *dz;  // [entries], in the order by row
  float *z;  // [entries], gets the logits instead of a loss; may be null
  float *cosine, *inverse;  // [entries], of cosine logits: cosines and 1 / |w_i|; else null
  float inverse_temperature;
  double *loss;  // [B]; may be null with z
  Loss kind;
  int32_t slot, launch, sources;
  int32_t fours;  // all rows may be read by fours
  const float *h[kMostSources];  // [B, columns]
  const float *weight[kMostSources];  // [I, columns]
  int64_t columns[kMostSources];
};

// The logit of an entry without its bias, by n columns a lane. All lanes get it.
template <int n>
DEVICE float entry_logit(const EntriesArgs &a, int64_t u, int64_t item) {
  float sum[n] = {};
  for (int s = 0; s < a.sources; s++) {
    const int64_t columns = a.columns[s];
    const float *h = a.h[s] + u * columns, *w = a.weight[s] + item * columns;
#pragma unroll 2
    for (int64_t k = n * lane_id(); k < columns; k += 32 * n) {
      float x[n], y[n];
      read<n>(h + k, x);
      read<n>(w + k, y);
#pragma unroll
      for (int c = 0; c < n; c++) sum[c] = fmaf(x[c], y[c], sum[c]);
    }
  }
#pragma unroll
  for (int c = 1; c < n; c++) sum[0] += sum[c];
  return warp_sum(sum[0]);
}

struct DirectionsArgs {
  const StepRecord *step;
  const float *h;  // [B, columns]
  float *direction;  // [B, columns]
  float *inverse;  // [B]: 1 / |h_u|, 0 for a row of zeros
  int64_t columns;
  int32_t launch;
};

// h_u / |h_u|, by sums in float64.
//
// Mapping: a warp has a row.
// Bytes: reads and writes the rows, 8 K each.
// Source: kernels/entries.go; scheme: own.
KERNEL_BOUNDS(directions, DirectionsArgs, 256, 4) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t u = int64_t(blockIdx.x) * 8 + warp_id();
  if (u >= step->rows) return;
  const float inverse = inverse_norm(a.h + u * a.columns, a.columns);
  for (int64_t k = lane_id(); k < a.columns; k += 32) a.direction[u * a.columns + k] = a.h[u * a.columns + k] * inverse;
  if (lane_id() == 0) a.inverse[u] = inverse;
}

// z_e = h_u . w_i + b_i of each stored entry of the target; its loss, and dz_e = r_u dl/da f'(z_e). The row's losses are added up.
//
// Mapping: a block has a row, a warp each eighth of its entries, a lane four columns of an entry's row of W, or one. Every lane of a
// warp then has the logit and computes the same; the first one writes.
// Bytes: reads nnz K 4 of W and 12 an entry, writes 4 an entry and 8 a row: bound by the rows of W.
// Source: kernels/entries.go and kernels/marginal.go; scheme: own, the sampled product of two dense matrices.
KERNEL_BOUNDS(output_entries, EntriesArgs, 32 * kEntryWarps, 4) {
  SHARED(double, losses, [kEntryWarps]);
  const StepRecord *step = a.step;
  const int64_t u = blockIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const SparseRecord &target = step->slots[a.slot];
  const float weight = row_weight(step, a.kind) * own_weight(step, a.kind, u);
  const LossRow row = {};
  double total = 0.0;
  bool logits = true, good = true;
  for (int e = target.offsets[u] + warp_id(); e < target.offsets[u + 1]; e += kEntryWarps) {
    const int64_t item = target.indices[e];
    float z = a.fours ? entry_logit<4>(a, u, item) : entry_logit<1>(a, u, item);
    if (a.cosine) {
      const float inverse = inverse_norm(a.weight[0] + item * a.columns[0], a.columns[0]);
      z *= inverse;
      if (lane_id() == 0) a.cosine[e] = z, a.inverse[e] = inverse;
      z *= a.inverse_temperature;
    }
    if (a.addend) z += a.addend[u * a.addend_stride + item];
    if (a.bias) z += a.bias[item];
    if (a.z) {
      logits = logits && finite(z);
      if (lane_id() == 0) a.z[e] = z;
      continue;
    }
    const float value = value_of_logit(a.kind.activation, a.kind.alpha, z);
    const LossAndDelta x = boosted_loss_of(a.kind, row, value, target.values[e]);
    const float at = slope_at(a.kind.activation, z, value);
    const float dz = weight * (x.delta * slope_from(a.kind.activation, a.kind.alpha, at));
    logits = logits && finite(z), good = good && finite(dz);
    total += double(x.loss);
    if (lane_id() == 0) a.dz[e] = dz;
  }
  if (!logits || !good || !(fabs(total) <= 1.7976931348623157e308))
    fail(step, a.launch, logits ? kFailLoss : kFailLogit);
  if (a.z || !a.loss) return;  // without room for entries both are null where logits are asked for
  if (lane_id() == 0) losses[warp_id()] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int n = 1; n < kEntryWarps; n++) total += losses[n];
  a.loss[u] = total * double(weight);
}

struct CompareEntriesArgs {
  const StepRecord *step;
  float *z;  // [entries], in the order by row
  float *dz;  // [entries]
  int32_t *order;  // [entries], room for pairs
  double *loss;  // [B]
  Loss kind;
  int64_t items;
  uint32_t stream;
  int32_t pairs, slot, launch;
};

constexpr int kCompareThreads = 32 * kEntryWarps;

// One number for all threads of the block, made of one from each, always in the same order.
template <class T, class Join>
DEVICE T of_block(T x, Join join) {
  SHARED(T, parts, [kCompareThreads]);
  __syncthreads();
  parts[threadIdx.x] = x;
  for (int n = kCompareThreads / 2; n > 0; n /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < n) parts[threadIdx.x] = join(parts[threadIdx.x], parts[threadIdx.x + n]);
  }
  __syncthreads();
  return parts[0];
}

template <class T>
DEVICE T block_sum(T x) {
  return of_block(x, [](T a, T b) { return a + b; });
}

// Puts the entries of a row with a target in front, and those without one at the end, the first of them last. Returns how many
// have one. All threads call together.
DEVICE int order_entries(const float *targets, int n, int32_t *order) {
  SHARED(int, of_warp, [kEntryWarps]);
  int others = 0;
  for (int first = 0; first < n; first += kCompareThreads) {
    const int e = first + int(threadIdx.x);
    const bool other = e < n && targets[e] != 0.0f;
    const unsigned lanes = __ballot_sync(kAllLanes, other);
    __syncthreads();
    if (lane_id() == 0) of_warp[warp_id()] = __popc(lanes);
    __syncthreads();
    int before = others + __popc(lanes & ((1u << lane_id()) - 1u));
    for (int w = 0; w < kEntryWarps; w++) {
      if (w < warp_id()) before += of_warp[w];
      others += of_warp[w];
    }
    if (other)
      order[before] = e;
    else if (e < n)
      order[n - 1 - (e - before)] = e;
  }
  __syncthreads();
  return others;
}

// The loss of pairs of a row, without its weight. A thread has an entry with a target, and all negatives that it is compared with.
DEVICE double compare_pairs(const CompareEntriesArgs &a, int64_t u, const float *targets, const float *z, int n,
                            float weight, float *dz, int32_t *order) {
  const int others = order_entries(targets, n, order), negatives = n - others;
  if (others == 0) {
    for (int e = threadIdx.x; e < n; e += kCompareThreads) dz[e] = 0.0f;
    return 0.0;
  }
  const uint32_t word =
      philox(a.step->seed, 1, uint32_t(a.step->first + u), uint32_t(a.step->number), a.stream).word[0];
  const int shift = int(int64_t(others) * int64_t(word >> 8) >> 24);
  const float share = negatives == 0 ? 0.0f : float(others) / float(negatives);
  const LossRow row = {};
  double total = 0.0;
  for (int k = threadIdx.x; k < others; k += kCompareThreads) {
    const int i = order[k];
    float sum = 0.0f;
    for (int at = k >= shift ? k - shift : k - shift + others; at < negatives; at += others) {
      const int e = order[n - 1 - at];
      const LossAndDelta x = boosted_loss_of(a.kind, row, z[i] - z[e], 1.0f);
      const float delta = weight * share * targets[i] * x.delta;
      sum += delta;
      dz[e] = -delta;
      total += double(targets[i]) * double(x.loss);
    }
    dz[i] = sum;
  }
  return total * double(share);
}

// The loss of the sampled soft-max of a row, without its weight.
DEVICE double compare_softmax(const CompareEntriesArgs &a, int64_t u, const float *targets, float *z, int n,
                              float weight, float *dz) {
  int mine = 0;
  for (int e = threadIdx.x; e < n; e += kCompareThreads) mine += targets[e] == 0.0f;
  const int negatives = block_sum(mine);
  const float correction = negatives == 0 ? 0.0f : log1pf(float(double(a.items - n) / double(negatives)));
  float top = -infinity();
  for (int e = threadIdx.x; e < n; e += kCompareThreads) {
    if (targets[e] == 0.0f) z[e] += correction;
    top = fmaxf(top, z[e]);
  }
  top = of_block(top, [](float x, float y) { return fmaxf(x, y); });
  float sum = 0.0f;
  for (int e = threadIdx.x; e < n; e += kCompareThreads) sum += exp_negative(z[e] - top);
  const LossRow row = loss_row(a.kind, a.step->slots[a.slot].row_sum[u], top + logf(block_sum(sum)));
  double total = 0.0;
  for (int e = threadIdx.x; e < n; e += kCompareThreads) {
    const LossAndDelta x = boosted_loss_of(a.kind, row, z[e], targets[e]);
    dz[e] = weight * x.delta;
    total += double(x.loss);
  }
  return total;
}

// Loss and gradient of the entries of each row by their logits, where these are compared with each other.
//
// Mapping: a block has a row, a thread each 256th of its entries.
// Bytes: reads 12 an entry a few times, from the second-level cache but for the first, and writes 8 an entry and 8 a row.
// Source: kernels/entries.go; scheme: own.
KERNEL_BOUNDS(compare_entries, CompareEntriesArgs, kCompareThreads, 4) {
  const StepRecord *step = a.step;
  const int64_t u = blockIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const SparseRecord &target = step->slots[a.slot];
  const int begin = target.offsets[u], n = target.offsets[u + 1] - begin;
  const float weight = row_weight(step, a.kind) * own_weight(step, a.kind, u), *targets = target.values + begin;
  float *z = a.z + begin, *dz = a.dz + begin;
  double total = a.pairs ? compare_pairs(a, u, targets, z, n, weight, dz, a.order + begin)
                         : compare_softmax(a, u, targets, z, n, weight, dz);
  total = block_sum(total);
  if (threadIdx.x != 0) return;
  if (!(fabs(total) <= 1.7976931348623157e308)) fail(step, a.launch, kFailLoss);
  a.loss[u] = total * double(weight);
}

struct MarginalTargetsArgs {
  const StepRecord *step;
  float *z;  // [entries], in the order by row: logits, and then the targets that count
  const float *stats;  // [B, 2]
  float *sums;  // [B]
  float one_scale, log_target;
  int32_t normalize_rows, slot, launch;
};

// The targets that count, in the place of the logits, and their sum by row.
//
// Mapping: a block has a row, a thread each 256th of its entries.
// Bytes: reads 8 an entry and writes 4, from the second-level cache as a rule; reads 8 a row and writes 4.
// Source: kernels/marginal.go; scheme: own.
KERNEL_BOUNDS(marginal_targets, MarginalTargetsArgs, kCompareThreads, 4) {
  const StepRecord *step = a.step;
  const int64_t u = blockIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const SparseRecord &target = step->slots[a.slot];
  const float log_sum_exp = a.stats[2 * u + 1], divisor = a.normalize_rows ? target.row_sum[u] : 1.0f;
  float sum = 0.0f;
  for (int e = target.offsets[u] + int(threadIdx.x); e < target.offsets[u + 1]; e += kCompareThreads) {
    const float t = target.values[e];
    const bool counts = t != 0.0f && a.z[e] - log_sum_exp < a.log_target;
    const float scaled = counts ? a.one_scale * (t / divisor) : 0.0f;
    a.z[e] = scaled;
    sum += scaled;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.sums[u] = sum;
}

struct TurnEntriesArgs {
  const StepRecord *step;
  const float *dz;  // [entries], in the order by row
  float *cosine, *inverse;  // [entries]: c_e and 1 / |w_i|; then the parts of y, and x
  float *along;  // [entries], gets what the rows of W add to dh
  const float *direction, *hidden;  // [B, columns]; [B]: 1 / |h_u|
  float *dh;  // [B, columns], may be null
  int64_t columns;
  float inverse_temperature;
  int32_t accumulate, slot, launch;
};

// From the gradients of entries by their cosine logits to x and the parts of y, and the part of dh along h_u: |h_u| times it is
// - sum of dz_e c_e / Temperature h_u/|h_u|.
//
// Mapping: a block has a row, a thread each 256th of its entries and of its units.
// Bytes: reads 12 an entry and writes 12, and reads and writes a row of h; from the second-level cache as a rule.
// Source: kernels/entries.go; scheme: own.
KERNEL_BOUNDS(turn_entries, TurnEntriesArgs, kCompareThreads, 4) {
  const StepRecord *step = a.step;
  const int64_t u = blockIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const SparseRecord &target = step->slots[a.slot];
  const float hidden = a.hidden[u];
  float sum = 0.0f;
  for (int e = target.offsets[u] + int(threadIdx.x); e < target.offsets[u + 1]; e += kCompareThreads) {
    const float inverse = a.inverse[e], d = hidden > 0.0f ? a.dz[e] * a.inverse_temperature : 0.0f;
    const float turned = inverse > 0.0f ? d * a.cosine[e] : 0.0f;
    sum -= turned;
    a.along[e] = d * inverse * hidden;
    a.cosine[e] = -turned * inverse * inverse;
    a.inverse[e] = d * inverse;
  }
  if (!a.dh) return;
  sum = block_sum(sum) * hidden;
  for (int64_t k = u * a.columns + threadIdx.x; k < (u + 1) * a.columns; k += kCompareThreads)
    a.dh[k] = fmaf(sum, a.direction[k], a.accumulate ? a.dh[k] : 0.0f);
}

struct EntriesByItemArgs {
  const StepRecord *step;
  const float *dz;  // [entries], in the order by row
  float *by_item;  // [entries]
  const float *row_x, *row_y;  // [entries], in the order by row; null unless logits are cosines
  float *x, *y;  // [entries] and [items], by item
  int32_t slot, launch;
};

// by_item[e] = dz of the same row and item.
//
// Mapping: a warp has an item of the batch, a lane each 32nd of its entries, which it looks up among those of the entry's row.
// Bytes: reads 12 an entry and some of the row's indices, from the second-level cache; writes 4.
// Source: kernels/entries.go; scheme: own.
KERNEL_BOUNDS(entries_by_item, EntriesByItemArgs, 256, 4) {
  if (failed_before(a.step, a.launch)) return;
  const SparseRecord &target = a.step->slots[a.slot];
  const int64_t warps = int64_t(gridDim.x) * (blockDim.x / 32);
  for (int64_t n = int64_t(blockIdx.x) * (blockDim.x / 32) + warp_id(); n < target.item_count; n += warps) {
    double own = 0.0;
    for (int e = target.item_offsets[n] + lane_id(); e < target.item_offsets[n + 1]; e += 32) {
      const int begin = target.offsets[target.item_rows[e]], end = target.offsets[target.item_rows[e] + 1];
      const int64_t from = begin + position(target.indices + begin, end - begin, target.items[n]);
      a.by_item[e] = a.dz[from];
      if (!a.x) continue;
      a.x[e] = a.row_x[from];
      own += double(a.row_y[from]);
    }
    if (!a.x) continue;
    own = warp_sum(own);
    if (lane_id() == 0) a.y[n] = float(own);
  }
}
