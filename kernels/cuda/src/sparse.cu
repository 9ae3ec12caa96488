// The sparse input: sums of weight rows, and their updates.
#include "epilogue.cuh"
#include "update.cuh"

constexpr int kGatherWarps = 16, kGatherRows = 4, kGatherPieces = 16, kScatterWarps = 4, kScatterPieces = 2;

// Up to 32 entries, one a lane; lanes beyond them have the last one.
struct Entry {
  int32_t index;
  float value;
};

DEVICE Entry fetch_entry(const int32_t *indices, const float *values, int count) {
  const int at = min(lane_id(), min(count, 32) - 1);
  return {indices[at], values[at]};
}

// sum[p] += value * from[p][index * columns ..] for the first `count` lanes' entries, in this order. All lanes of a warp call, each
// with its own n columns of the first row, or several times n.
//
// A warp has `under_way` rows under way, since a row is read from far away. Where there are fewer, the last one is read again and
// counts as nothing: there is no branch between the reads.
template <int under_way, int pieces, int n>
DEVICE void add_fetched(const Entry &entry, int count, const float *const (&from)[pieces], int64_t columns,
                        float (&sum)[pieces][n]) {
  for (int first = 0; first < count; first += under_way) {
    float x[under_way][pieces][n];
#pragma unroll
    for (int i = 0; i < under_way; i++) {
      const int64_t row = __shfl_sync(kAllLanes, entry.index, first + i) * columns;
#pragma unroll
      for (int p = 0; p < pieces; p++) read<n>(from[p] + row, x[i][p]);
    }
#pragma unroll
    for (int i = 0; i < under_way; i++) {
      const float factor = __shfl_sync(kAllLanes, entry.value, first + i);
#pragma unroll
      for (int p = 0; p < pieces; p++)
#pragma unroll
        for (int c = 0; c < n; c++) sum[p][c] = first + i < count ? fmaf(factor, x[i][p][c], sum[p][c]) : sum[p][c];
    }
  }
}

// The same for entries begin .. entries - 1, 32 at a time.
template <int under_way, int pieces, int n>
DEVICE void add_rows(const int32_t *indices, const float *values, int begin, int entries,
                     const float *const (&from)[pieces], int64_t columns, float (&sum)[pieces][n]) {
  for (int e = begin; e < entries; e += 32)
    add_fetched<under_way>(fetch_entry(indices + e, values + e, entries - e), min(entries - e, 32), from, columns, sum);
}

struct GatherArgs {
  const StepRecord *step;
  const float *weight;  // [I, columns]
  const float *values;  // instead of the batch's; may be null
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
    float sum[1][n] = {};  // what was there before comes first, as when the row is not cut
    if (a.accumulate && from == 0 && own < a.columns) read<n>(a.out + (u + r) * a.columns + own, sum[0]);
    const float *const weight[1] = {a.weight + (own < a.columns ? own : 0)};
    const float *values = (a.values ? a.values : batch.values) + cut.begin + from;
    add_rows<8>(batch.indices + cut.begin + from, values, 0, min(cut.each, cut.count - from), weight, a.columns, sum);
#pragma unroll
    for (int c = 0; c < n; c++) sums[piece][n * lane_id() + c] = sum[0][c];
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
  const float *values;  // instead of the batch's, in the order by item; may be null
  const float *dz;    // [B, columns]; null: ones, in one column (scatter_ones)
  const float *tied;  // [touched items, columns], may be null
  const float *own;  // [touched items], may be null
  Weights weight;
  int32_t slot, launch;
};

// What a warp of scatter does at a time: some columns of an item of the batch, a lane those from k on.
struct Touched {
  int item, k, row, entries;
  int64_t begin;
};

// A warp's part of scatter, by pieces of n columns a lane. While it works, it finds out what comes next, and after that.
template <int n>
DEVICE void scatter_columns(const ScatterArgs &a) {
  constexpr int pieces = kScatterPieces, kApart = 32 * n;
  const StepRecord *step = a.step;
  const SparseRecord &batch = step->slots[a.slot];
  const int columns = int(a.weight.columns), groups = (columns + kApart * pieces - 1) / (kApart * pieces);
  const float *values = a.values ? a.values : batch.item_values;
  const int items = int(batch.item_count), warps = int(gridDim.x) * kScatterWarps;
  const int warp = int(blockIdx.x) * kScatterWarps + warp_id();
  int item = warp / groups, group = warp % groups;
  const auto look_up = [&]() {
    Touched x = {item, kApart * pieces * group + n * lane_id(), 0, 1, 0};
    if (item < items) {
      x.row = batch.items[item], x.begin = batch.item_offsets[item];
      x.entries = int(batch.item_offsets[item + 1] - x.begin);
    }
    item += warps / groups, group += warps % groups;
    if (group >= groups) item++, group -= groups;
    return x;
  };
  const auto first_entries = [&](const Touched &x) {
    return x.item < items ? fetch_entry(batch.item_rows + x.begin, values + x.begin, x.entries) : Entry{};
  };
  Touched next = look_up(), after = look_up();
  Entry next_entry = first_entries(next);
  while (next.item < items) {
    const Touched x = next;
    const Entry entry = next_entry;
    const int64_t row = int64_t(x.row) * columns;
    const float *dz[pieces];
#pragma unroll
    for (int p = 0; p < pieces; p++) {
      const int k = x.k + kApart * p;
      if (k < columns) fetch_elements(a.weight, row + k);  // while the sums are made
      dz[p] = a.dz + (k < columns ? k : 0);
    }
    next = after, next_entry = first_entries(next), after = look_up();
    float sum[pieces][n] = {};
    if (x.entries <= 4 / pieces) {
      add_fetched<4 / pieces>(entry, x.entries, dz, columns, sum);
    } else {
      add_fetched<8 / pieces>(entry, min(x.entries, 32), dz, columns, sum);
      add_rows<8 / pieces>(batch.item_rows + x.begin, values + x.begin, 32, x.entries, dz, columns, sum);
    }
    Elements<n> elements[pieces] = {};
#pragma unroll
    for (int p = 0; p < pieces; p++) {
      if (x.k + kApart * p < columns) elements[p] = read_elements_to_update<n>(a.weight, row + x.k + kApart * p);
    }
    const Rates rates = rates_of(step, step->number);  // here, since registers are short
#pragma unroll
    for (int p = 0; p < pieces; p++) {
      const int k = x.k + kApart * p;
      if (k >= columns) continue;
      if (a.tied) {
        float part[n];
        read<n>(a.tied + int64_t(x.item) * columns + k, part);
#pragma unroll
        for (int c = 0; c < n; c++) sum[p][c] += part[c];
      }
      if (a.own) {
        float part[n];
        read<n>(a.weight.value + row + k, part);
#pragma unroll
        for (int c = 0; c < n; c++) sum[p][c] = fmaf(a.own[x.item], part[c], sum[p][c]);
      }
      update_read<n>(step, a.launch, a.weight, rates, x.row, row + k, sum[p], elements[p]);
    }
    if (x.k == 0 && a.weight.last && !a.weight.gradient) a.weight.last[x.row] = int32_t(step->number);
  }
}

// dW[j, :] = sum over the rows u with item j of x_uj dz[u, :], in rising u, plus the output layer's part where the weight is
// tied; then the update of row j. Rows that the batch does not touch are not looked at.
//
// Mapping: a warp has twice 128 columns of an item of the batch at a time, a lane twice four; with columns that are not aligned for
// that, twice 32 and one. No two warps add to the same number.
// Bytes: reads nnz K 4 of dz, mostly from the second-level cache, and reads and writes the touched rows of W and its states:
// bound by these.
// Source: kernels/ops.go, Scatter; scheme: as DSSTNE's kCalculateSparseTransposedWeightGradient, which has a block for every
// item, touched or not, and stores the gradient.
KERNEL_BOUNDS(scatter, ScatterArgs, 32 * kScatterWarps, 5) {
  if (failed_before(a.step, a.launch)) return;
  if (updates_fours(a.weight) && by_fours(a.dz, 0) && by_fours(a.tied, 0))
    scatter_columns<4>(a);
  else
    scatter_columns<1>(a);
}

// scatter of a weight of one column, with ones for dz: the update of a bias.
//
// Mapping: a warp has an item of the batch at a time, a lane each 32nd of its entries; lanes are added by halves.
// Bytes: reads 4 an entry, and reads and writes the touched numbers with their states, 32 bytes each where they lie apart.
// Source: kernels/hidden.go, Scatter; scheme: own.
KERNEL_BOUNDS(scatter_ones, ScatterArgs, 32 * kScatterWarps, 5) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const SparseRecord &batch = step->slots[a.slot];
  const float *values = a.values ? a.values : batch.item_values;
  const Rates rates = rates_of(step, step->number);
  const int64_t warps = int64_t(gridDim.x) * kScatterWarps;
  for (int64_t n = int64_t(blockIdx.x) * kScatterWarps + warp_id(); n < batch.item_count; n += warps) {
    float sum = 0.0f;
    for (int e = batch.item_offsets[n] + lane_id(); e < batch.item_offsets[n + 1]; e += 32) sum += values[e];
    sum = warp_sum(sum);
    if (lane_id() != 0) continue;
    const int64_t row = batch.items[n];
    if (a.tied) sum += a.tied[n];
    update_element(step, a.launch, a.weight, rates, row, row, sum);
    if (a.weight.last && !a.weight.gradient) a.weight.last[row] = int32_t(step->number);
  }
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
  Elements<n> x = read_elements<n>(w, at);  // though they may stay as they are: a second wait for the value costs more
  bool moves = w.optimizer.decay != 0.0f || w.optimizer.l1 != 0.0f;
#pragma unroll
  for (int c = 0; c < n; c++) moves = moves || x.a[c] != 0.0f || x.b[c] != 0.0f;
  if (!moves) return;
  const float zeros[n] = {};
  for (int64_t number = last + 1; number <= upto; number++)
    apply_rule<n>(w.optimizer, rates_of(a.step, number), zeros, x.value, x.a, x.b);
  write_elements<n>(a.step, a.launch, w, row, at, x);  // what is not finite has stayed so
}

// The steps that a row has missed, each with gradient zero and the rates of its time. An element without decay and l1 whose
// states are all zero stays as it is.
//
// Mapping: a block has a row at a time, a thread four of its columns or one: it reads them with their states, makes all missed
// steps in registers, and writes them once. There are as many blocks as are at work at the same time; the row that comes next is on
// its way meanwhile, if it has missed steps, and so is what is known of those that follow.
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
  int64_t next = row_of(blockIdx.x), next_last = last_of(next);
  int64_t after = row_of(blockIdx.x + apart), after_last = last_of(after), then = row_of(blockIdx.x + 2 * apart);
  for (int64_t n = blockIdx.x; n < count; n += apart) {
    const int64_t row = next, last = next_last;
    next = after, next_last = after_last;
    after = then, after_last = last_of(after), then = row_of(n + 3 * apart);
    if (next_last < upto) {
      for (int64_t k = 32 * threadIdx.x; k < w.columns; k += 32 * blockDim.x) fetch_elements(w, next * w.columns + k);
    }
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
