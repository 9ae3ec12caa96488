// The sparse input: sums of weight rows, and their updates.
#include "epilogue.cuh"
#include "update.cuh"

constexpr int kGatherWarps = 16, kGatherRows = 4, kGatherPieces = 16, kScatterWarps = 4;

// sum += values[e] * from[indices[e] * columns ..] for e = 0 .. entries - 1, in this order. All lanes of a warp call with the same
// entries, each with its own n columns of the first row.
//
// A warp fetches 32 indices and values at once and has `under_way` rows under way, since a row is read from far away. Where there
// are fewer, the last one is read again and counts as nothing: there is no branch between the reads.
template <int under_way, int n>
DEVICE void add_rows(const int32_t *indices, const float *values, int entries, const float *from, int64_t columns,
                     float (&sum)[n]) {
  for (int e = 0; e < entries; e += 32) {
    const int count = min(entries - e, 32), lane = lane_id();
    const int at = e + min(lane, count - 1);
    const int32_t index = indices[at];
    const float value = values[at];
    for (int first = 0; first < count; first += under_way) {
      float x[under_way][n];
#pragma unroll
      for (int i = 0; i < under_way; i++) read<n>(from + __shfl_sync(kAllLanes, index, first + i) * columns, x[i]);
#pragma unroll
      for (int i = 0; i < under_way; i++) {
        const float factor = __shfl_sync(kAllLanes, value, first + i);
#pragma unroll
        for (int c = 0; c < n; c++) sum[c] = first + i < count ? fmaf(factor, x[i][c], sum[c]) : sum[c];
      }
    }
  }
}

struct GatherArgs {
  const StepRecord *step;
  const float *weight;  // [I, columns]
  float *out;           // [B, columns]
  int64_t columns;
  Epilogue epilogue;
  int32_t slot, accumulate, fours, launch;  // fours: rows of the weight are aligned to 16 bytes
};

// How a block of gather cuts one of its rows. The pieces of all rows stand one behind the other; the last of the cuts begins behind
// them.
struct Cut {
  int64_t begin;  // of the row's entries
  int count, each, first;
};

// In training a row is cut into pieces of 8, or more entries if that made too many pieces: their length then is a multiple of 8. Else
// it is one piece.
DEVICE void cut_rows(const StepRecord *step, const SparseRecord &batch, int64_t u, Cut (&cuts)[kGatherRows + 1]) {
  const int lane = lane_id();
  Cut cut = {};
  int pieces = 0;
  if (lane < kGatherRows && u + lane < step->rows) {
    cut.begin = batch.offsets[u + lane];
    cut.count = int(batch.offsets[u + lane + 1] - cut.begin);
    cut.each =
        step->training ? 8 * max(1, (cut.count + 8 * kGatherPieces - 1) / (8 * kGatherPieces)) : max(1, cut.count);
    pieces = max(1, (cut.count + cut.each - 1) / cut.each);
  }
  for (int r = 0; r < kGatherRows; r++) cut.first += __shfl_sync(kAllLanes, pieces, r) * int(r < lane);
  if (lane <= kGatherRows) cuts[lane] = cut;
}

// The columns of a block of gather, n of them a lane.
template <int n>
DEVICE void gather_columns(const GatherArgs &a, Cut (&cuts)[kGatherRows + 1], int64_t u) {
  float (*const sums)[32 * n] = dynamic_shared<float[32 * n]>();  // of pieces
  const StepRecord *step = a.step;
  const SparseRecord &batch = step->slots[a.slot];
  const int64_t first = int64_t(blockIdx.x) * 32 * n, own = first + n * lane_id();
  if (warp_id() == 0) cut_rows(step, batch, u, cuts);
  __syncthreads();
  const int pieces = cuts[kGatherRows].first;
  for (int piece = warp_id(); piece < pieces; piece += int(blockDim.x) / 32) {
    int r = 0;
    while (piece >= cuts[r + 1].first) r++;
    const Cut &cut = cuts[r];
    const int from = (piece - cut.first) * cut.each;
    float sum[n] = {};  // what was there before comes first, as when the row is not cut
    if (a.accumulate && from == 0 && own < a.columns) read<n>(a.out + (u + r) * a.columns + own, sum);
    add_rows<8>(batch.indices + cut.begin + from, batch.values + cut.begin + from, min(cut.each, cut.count - from),
                a.weight + (own < a.columns ? own : 0), a.columns, sum);
#pragma unroll
    for (int c = 0; c < n; c++) sums[piece][n * lane_id() + c] = sum[c];
  }
  __syncthreads();
  for (int at = threadIdx.x; at < kGatherRows * 32 * n; at += blockDim.x) {
    const int r = at / (32 * n), c = at % (32 * n);  // a warp has one row here
    const int begin = cuts[r].first, end = cuts[r + 1].first;
    if (begin == end || first + c >= a.columns) continue;
    float sum = sums[begin][c];
#pragma unroll 4
    for (int i = begin + 1; i < end; i++) sum += sums[i][c];
    a.out[(u + r) * a.columns + first + c] = finish_unit(step, a.epilogue, u + r, first + c, sum);
  }
}

// h_u = sum over the stored entries j of row u of x_uj W[j, :]; then bias, activation, dropout. In training a row is cut into up to
// sixteen pieces that warps add, since the longest row of a batch may have a hundred times the entries of others; else one warp adds
// all in rising j.
//
// Mapping: block (x, y) has columns 128 x .. of rows 4 y .. of the batch, a warp a piece of a row at a time, a lane four columns; with
// columns that are not aligned for that, 32 x .. and one.
// Bytes: reads nnz K 4 of W and writes B K 4: bound by them.
// Source: kernels/ops.go, Gather; scheme: as DSSTNE's kCalculateSparseZ, whose warps too go along weight rows, without its lists
// in shared memory.
KERNEL_BOUNDS(gather, GatherArgs, 32 * kGatherWarps, 2) {
  SHARED(Cut, cuts, [kGatherRows + 1]);
  const StepRecord *step = a.step;
  const int64_t u = kGatherRows * (blockIdx.y + int64_t(gridDim.y) * blockIdx.z);
  if (u >= step->rows || failed_before(step, a.launch)) return;
  if (a.fours)
    gather_columns<4>(a, cuts, u);
  else
    gather_columns<1>(a, cuts, u);
}

struct ScatterArgs {
  const StepRecord *step;
  const float *dz;    // [B, columns]
  const float *tied;  // [touched items, columns], may be null
  Weights weight;
  int32_t slot, launch;
};

// A warp's part of scatter, by n columns a lane.
template <int n>
DEVICE void scatter_columns(const ScatterArgs &a) {
  const StepRecord *step = a.step;
  const SparseRecord &batch = step->slots[a.slot];
  const int columns = int(a.weight.columns), groups = (columns + 32 * n - 1) / (32 * n);
  const int64_t units = batch.item_count * groups, warps = int64_t(gridDim.x) * kScatterWarps;
  for (int64_t unit = int64_t(blockIdx.x) * kScatterWarps + warp_id(); unit < units; unit += warps) {
    const int64_t item = unit / groups, k = unit % groups * 32 * n + n * lane_id(), row = batch.items[item];
    if (k < columns) fetch_elements(a.weight, row * columns + k);  // while the sums are made
    float sum[n] = {};
    const int64_t begin = batch.item_offsets[item];
    const int entries = int(batch.item_offsets[item + 1] - begin);
    const int32_t *rows = batch.item_rows + begin;
    const float *values = batch.item_values + begin, *dz = a.dz + (k < columns ? k : 0);
    if (entries > 4)
      add_rows<8>(rows, values, entries, dz, columns, sum);
    else
      add_rows<4>(rows, values, entries, dz, columns, sum);
    if (k < columns) {
      if (a.tied) {
        float part[n];
        read<n>(a.tied + item * columns + k, part);
#pragma unroll
        for (int c = 0; c < n; c++) sum[c] += part[c];
      }
      const Rates rates = rates_of(step, step->number);  // here, since registers are short
      update_elements<n>(step, a.launch, a.weight, rates, row, row * columns + k, sum);
    }
    if (k == 0 && a.weight.last && !a.weight.gradient) a.weight.last[row] = int32_t(step->number);
  }
}

// dW[j, :] = sum over the rows u with item j of x_uj dz[u, :], in rising u, plus the output layer's part where the weight is
// tied; then the update of row j. Rows that the batch does not touch are not looked at.
//
// Mapping: a warp has 128 columns of an item of the batch at a time, a lane four; with columns that are not aligned for that, 32
// and one. No two warps add to the same number.
// Bytes: reads nnz K 4 of dz, mostly from the second-level cache, and reads and writes the touched rows of W and its states:
// bound by these.
// Source: kernels/ops.go, Scatter; scheme: as DSSTNE's kCalculateSparseTransposedWeightGradient, which has a block for every
// item, touched or not, and stores the gradient.
KERNEL_BOUNDS(scatter, ScatterArgs, 32 * kScatterWarps, 6) {
  if (failed_before(a.step, a.launch)) return;
  if (updates_fours(a.weight) && by_fours(a.dz, 0) && by_fours(a.tied, 0))
    scatter_columns<4>(a);
  else
    scatter_columns<1>(a);
}

struct ReplayArgs {
  const StepRecord *step;
  Weights weight;
  int32_t slot;  // -1: all rows, up to the step; else the rows that its batch touches, up to the step before
  int32_t launch;
};

// The steps after `last` up to `upto` of n elements of a row.
template <int n>
DEVICE void replay_elements(const ReplayArgs &a, int64_t row, int64_t k, int64_t last, int64_t upto) {
  const Weights &w = a.weight;
  const int64_t at = row * w.columns + k;
  const int states = states_of(w.optimizer.kind);
  float value[n], s0[n] = {}, s1[n] = {};
  read<n>(w.value + at, value);  // with the states, though it may stay as it is: a second wait costs more
  if (states > 0) read<n>(w.state[0] + at, s0);
  if (states > 1) read<n>(w.state[1] + at, s1);
  bool moves = w.optimizer.decay != 0.0f;
#pragma unroll
  for (int c = 0; c < n; c++) moves = moves || s0[c] != 0.0f || s1[c] != 0.0f;
  if (!moves) return;
  for (int64_t number = last + 1; number <= upto; number++) {
    const Rates rates = rates_of(a.step, number);
#pragma unroll
    for (int c = 0; c < n; c++) apply_rule(w.optimizer, rates, 0.0f, value[c], s0[c], s1[c]);
  }
  bool good = true;  // what is not finite stays so
#pragma unroll
  for (int c = 0; c < n; c++) good = good && finite(value[c]) && finite(s0[c]) && finite(s1[c]);
  if (!good) {
    fail(a.step, a.launch, kFailWeight, row);
    return;
  }
  write<n>(w.value + at, value);
  if (states > 0) write<n>(w.state[0] + at, s0);
  if (states > 1) write<n>(w.state[1] + at, s1);
}

// The steps that a row has missed, each with gradient zero and the rates of its time. An element without decay whose states are
// all zero stays as it is.
//
// Mapping: a block has a row at a time, a thread four of its columns or one: it reads them with their states, makes all missed
// steps in registers, and writes them once. There are as many blocks as are at work at the same time; which row comes next, and
// what that has missed, is on its way meanwhile.
// Bytes: reads 4 (1 + states) K of a row that is behind, and writes as many of one that moves: bound by that for few missed steps
// and by arithmetic for many.
// Source: kernels/ops.go, Replay; scheme: own.
KERNEL_BOUNDS(replay, ReplayArgs, 256, 4) {
  const StepRecord *step = a.step;
  const Weights &w = a.weight;
  if (failed_before(step, a.launch)) return;
  const int64_t count = a.slot < 0 ? w.rows : step->slots[a.slot].item_count;
  const int64_t upto = a.slot < 0 ? step->number : step->number - 1;
  const bool fours = updates_fours(w);
  const int32_t *items = a.slot < 0 ? nullptr : step->slots[a.slot].items;
  const auto row_of = [&](int64_t n) { return n >= count ? int64_t(-1) : items ? int64_t(items[n]) : n; };
  const auto last_of = [&](int64_t row) { return row < 0 ? upto : int64_t(w.last[row]); };
  const int64_t apart = gridDim.x;
  int64_t next = row_of(blockIdx.x), next_last = last_of(next), after = row_of(blockIdx.x + apart);
  for (int64_t n = blockIdx.x; n < count; n += apart) {
    const int64_t row = next, last = next_last;
    next = after, next_last = last_of(next), after = row_of(n + 2 * apart);
    if (last >= upto) continue;
    if (fours) {
      for (int64_t k = 4 * threadIdx.x; k < w.columns; k += 4 * blockDim.x) replay_elements<4>(a, row, k, last, upto);
    } else {
      for (int64_t k = threadIdx.x; k < w.columns; k += blockDim.x) replay_elements<1>(a, row, k, last, upto);
    }
    __syncthreads();
    if (threadIdx.x == 0) w.last[row] = int32_t(upto);
  }
}
