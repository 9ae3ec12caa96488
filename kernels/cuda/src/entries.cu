// An output at the stored entries of its target: what kernels/entries.go says, in three steps.
//
//   output_entries        logits, loss and gradient of every entry
//   gather                the gradient with respect to the hidden layer (sparse.cu), by the gradients of the entries
//   entries_by_item       the gradients in the order by item, for scatter
#include "output.cuh"

constexpr int kEntryWarps = 8;
constexpr int kMostSources = 8;  // kernels.MaxSources

struct EntriesArgs {
  const StepRecord *step;
  const float *bias;  // [I], may be null
  float *dz;  // [entries], in the order by row
  double *loss;  // [B]
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

// z_e = h_u . w_i + b_i of each stored entry of the target; its loss, and dz_e = r_u dl/da f'(z_e). The row's losses are added up.
//
// Mapping: a block has a row, a warp each eighth of its entries, a lane four columns of an entry's row of W, or one. Every lane of a
// warp then has the logit and computes the same; the first one writes.
// Bytes: reads nnz K 4 of W and 12 an entry, writes 4 an entry and 8 a row: bound by the rows of W.
// Source: kernels/entries.go; scheme: own, the sampled product of two dense matrices.
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
    if (a.bias) z += a.bias[item];
    const float value = value_of_logit(a.kind.activation, a.kind.alpha, z);
    const LossAndDelta x = loss_of(a.kind, row, value, target.values[e]);
    const float at = slope_at(a.kind.activation, z, value);
    const float dz = weight * (x.delta * slope_from(a.kind.activation, a.kind.alpha, at));
    logits = logits && finite(z), good = good && finite(dz);
    total += double(x.loss);
    if (lane_id() == 0) a.dz[e] = dz;
  }
  if (!logits || !good || !(fabs(total) <= 1.7976931348623157e308))
    fail(step, a.launch, logits ? kFailLoss : kFailLogit);
  if (lane_id() == 0) losses[warp_id()] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int n = 1; n < kEntryWarps; n++) total += losses[n];
  a.loss[u] = total * double(weight);
}

struct EntriesByItemArgs {
  const StepRecord *step;
  const float *dz;  // [entries], in the order by row
  float *by_item;  // [entries]
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
    for (int e = target.item_offsets[n] + lane_id(); e < target.item_offsets[n + 1]; e += 32) {
      const int begin = target.offsets[target.item_rows[e]], end = target.offsets[target.item_rows[e] + 1];
      a.by_item[e] = a.dz[begin + position(target.indices + begin, end - begin, target.items[n])];
    }
  }
}
