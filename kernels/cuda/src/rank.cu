// Scores, defined to the bit (kernels/dot.go), and the best of them.
#include "rank.cuh"

constexpr int kRankTile = 32, kRankSlab = 32;

struct SquaresArgs {
  const StepRecord *step;  // null: all rows are there
  const void *x;   // [rows, columns] numbers of the storage
  double *squares;  // [rows]
  int64_t rows, row, columns, storage;  // row: of the batch, of the first row here
};

// x_r . x_r by kernels.Dot.
//
// Mapping: eight threads have a row, see square_of.
// Bytes: reads 4 K a row, which bounds it, and writes 8.
// Source: kernels/dot.go, Dot; scheme: own.
KERNEL_BOUNDS(squares, SquaresArgs, 256, 4) {
  const int64_t row = int64_t(blockIdx.x) * (256 / kRankLanes) + threadIdx.x / kRankLanes;
  const int64_t rows = a.step ? rows_from(a.step, a.row, a.rows) : a.rows;
  const int64_t columns = row < rows ? a.columns : 0, at = row * a.columns;
  const double square = a.storage == STORAGE_float32
                            ? square_of(reinterpret_cast<const float *>(a.x) + at, columns, a.storage)
                            : square_of(reinterpret_cast<const uint16_t *>(a.x) + at, columns, a.storage);
  if (row < rows && threadIdx.x % kRankLanes == 0) a.squares[row] = square;
}

struct ScoresArgs {
  const StepRecord *step;
  ScoreSource source[kMostSources];
  const float *bias;             // [I], may be null
  const double *hidden_squares;  // [rows], null: no cosines
  const double *item_squares;    // [items of the tile]
  float *out;                    // [rows, stride]
  int64_t rows, row, first, items, stride;  // rows from that one of the batch on; items first .. first + items
  int32_t sources;
  float temperature;
};

// score_ui = float32(sum over sources of Dot(h_u, w_i) + b_i), or over |h_u| |w_i| T: kernels.Score.
//
// Mapping: block (x, y) has 32 items, 32 rows; a thread has 2 x 2 pairs with eight lanes each. Slabs of 32 numbers go through
// shared memory; products of float32 are exact in float64, so that fused sums have Dot's bits.
// Bytes: 4 K a row and an item, each read once for 32 scores, and 4 a score written. 2 K float64 operations a score, which bound
// it: about 30 TFLOP/s where float64 has half float32's rate, a 64th of that elsewhere.
// Source: kernels/dot.go, Dot and Score; scheme: own.
KERNEL_BOUNDS(scores, ScoresArgs, 256, 2) {
  SHARED(float, left, [kRankTile][kRankSlab + 1]);
  SHARED(float, right, [kRankTile][kRankSlab + 1]);
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int64_t row = int64_t(blockIdx.y) * kRankTile, item = int64_t(blockIdx.x) * kRankTile;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  if (row >= rows) return;
  double total[2][2] = {};
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    double lane[2][2][kRankLanes] = {};
    for (int64_t k = 0; k < source.columns; k += kRankSlab) {
      for (int n = threadIdx.x; n < kRankTile * kRankSlab; n += 256) {
        const int i = n / kRankSlab, j = n % kRankSlab;
        const bool column = k + j < source.columns;
        left[i][j] = column && row + i < rows ? source.h[(row + i) * source.columns + k + j] : 0.0f;
        right[i][j] = !column || item + i >= a.items ? 0.0f
                      : source.storage == STORAGE_float32
                          ? weights_of<float>(source, a.first + item + i)[k + j]
                          : number_at(weights_of<uint16_t>(source, a.first + item + i), k + j, source.storage);
      }
      __syncthreads();
      for (int j = 0; j < kRankSlab; j += kRankLanes) {
        for (int l = 0; l < kRankLanes; l++) {
          const double h[2] = {left[y][j + l], left[y + 16][j + l]}, w[2] = {right[x][j + l], right[x + 16][j + l]};
          for (int p = 0; p < 2; p++)
            for (int q = 0; q < 2; q++) lane[p][q][l] = fma(h[p], w[q], lane[p][q][l]);
        }
      }
      __syncthreads();
    }
    for (int p = 0; p < 2; p++)
      for (int q = 0; q < 2; q++) total[p][q] += sum_lanes(lane[p][q]);
  }
  for (int p = 0; p < 2; p++) {
    for (int q = 0; q < 2; q++) {
      const int64_t u = row + y + 16 * p, i = item + x + 16 * q;
      if (u >= rows || i >= a.items) continue;
      double score = total[p][q];
      if (a.hidden_squares) {
        const double norm = sqrt(a.hidden_squares[u]) * sqrt(a.item_squares[i]);
        score = norm == 0.0 ? 0.0 : score / norm / double(a.temperature);
      }
      a.out[u * a.stride + i] = float(score + double(a.bias ? a.bias[a.first + i] : 0.0f));
    }
  }
}

constexpr int kSparseTile = 1024;

struct SparseScoresArgs {
  const StepRecord *step;
  const int64_t *offsets;  // of the rows of W; null: values is [rows of W, columns]
  const int32_t *indices;
  const float *values;
  const float *bias;  // [I], may be null
  float *out;         // [rows, stride]
  int64_t rows, row, first, items, stride;  // rows from that one of the batch on; items first .. first + items
  int64_t columns, column;                  // of W, and the one that is item `first`
  int64_t slot;
  int64_t bias_if_empty;  // the bias counts for rows without entries only
};

// score_ui = float32(sum over the stored j of row u, ascending, of x_uj W[j, i] + b_i): kernels.SparseSource.
//
// Mapping: block (x, y) has row x of the batch and 1024 items, whose sums stay in shared memory. For each stored j the threads go
// along row j of W, each adding to items of its own; the columns of a stored row differ, so no two add to the same sum, and a
// barrier between rows keeps their order.
// Bytes: reads nnz(x) 4 an item of a dense W, 8 an entry of a stored one, and writes 4 an item: bound by the reads.
// Source: kernels/ranking.go, SparseSource; scheme: own.
KERNEL_BOUNDS(sparse_scores, SparseScoresArgs, 256, 4) {
  SHARED(double, sum, [kSparseTile]);
  const int64_t u = blockIdx.x;
  if (u >= rows_from(a.step, a.row, a.rows)) return;
  const SparseRecord &batch = a.step->slots[a.slot];
  const int64_t entry = batch.offsets[a.row + u], last = batch.offsets[a.row + u + 1];
  const float *bias = a.bias_if_empty && entry < last ? nullptr : a.bias;
  for (int64_t tile = int64_t(blockIdx.y) * kSparseTile; tile < a.items; tile += int64_t(gridDim.y) * kSparseTile) {
    const int64_t left = a.items - tile, n = left < kSparseTile ? left : kSparseTile, from = a.column + tile;
    for (int64_t t = threadIdx.x; t < n; t += blockDim.x) sum[t] = 0.0;
    __syncthreads();
    for (int64_t e = entry; e < last; e++) {
      const int64_t j = batch.indices[e];
      const double x = batch.values[e];
      if (a.offsets) {
        const int64_t end = a.offsets[j + 1];
        const int64_t begin = first_where(a.offsets[j], end, [&](int64_t i) { return a.indices[i] >= from; });
        for (int64_t at = begin + threadIdx.x; at < end && a.indices[at] < from + n; at += blockDim.x)
          sum[a.indices[at] - from] = fma(x, double(a.values[at]), sum[a.indices[at] - from]);
        __syncthreads();
      } else {
        const float *w = a.values + j * a.columns + from;
        for (int64_t t = threadIdx.x; t < n; t += blockDim.x) sum[t] = fma(x, double(w[t]), sum[t]);
      }
    }
    for (int64_t t = threadIdx.x; t < n; t += blockDim.x)
      a.out[u * a.stride + tile + t] = float(sum[t] + double(bias ? bias[a.first + tile + t] : 0.0f));
    __syncthreads();
  }
}

struct SelectArgs {
  const StepRecord *step;
  const float *scores;      // [rows, stride] of items first .. first + items
  const uint64_t *allowed;  // a bit an item, null: all
  uint64_t *list[2];        // [rows, k], falling; the best so far stand in list[0]
  int64_t rows, row, first, items, stride, k;  // row: of the batch, of the first row here
  int32_t exclude;          // slot, -1: none
  int32_t launch;
};

// The best k of what was best before and of a tile of scores.
//
// Mapping: a block has a row of the batch. Any k: the list lies in global memory.
// Bytes: reads 4 a score; soon few scores get any further.
// Source: kernels/ops.go, TopK; scheme: as DSSTNE's kCalculateTopK (what is better than the least so far is collected in shared
// memory, and sorted when that is full), with a block and a list of any length where that has a warp and registers.
KERNEL_BOUNDS(select_best, SelectArgs, kSelectThreads, 4) {
  const int64_t u = blockIdx.x;
  if (u >= rows_from(a.step, a.row, a.rows) || failed_before(a.step, a.launch)) return;
  const Permitted may = permitted(a.step, a.exclude, a.allowed, a.row + u);
  keep_best({a.list[0] + u * a.k, a.list[1] + u * a.k, a.k}, (a.items + kSelectThreads - 1) / kSelectThreads,
            [&](int64_t round, uint64_t least) -> uint64_t {
              const int64_t i = round * kSelectThreads + threadIdx.x, item = a.first + i;
              const float score = i < a.items ? a.scores[u * a.stride + i] : 0.0f;
              if (i >= a.items || score != score) return 0;
              const uint64_t key = rank_key(score, item);
              return key > least && may_have(may, item) ? key : 0;
            });
}

struct RankedArgs {
  const StepRecord *step;
  const uint64_t *list;  // [rows, k]
  int32_t *ids;          // [rows, k]
  float *scores;
  int64_t rows, row, k, first;  // row: of the batch, of the first row here; first: the number of item 0
};

// The item and the score of each key; -1 and -Inf where nothing is left.
//
// Mapping: a thread has a place of a row's list.
// Bytes: reads 8 a place and writes 8.
// Source: kernels/ops.go, TopK; keys: rank_key in rank.cuh.
KERNEL_BOUNDS(ranked, RankedArgs, 256, 4) {
  const int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= rows_from(a.step, a.row, a.rows) * a.k) return;
  const int32_t item = item_of(a.list[n]);
  a.ids[n] = item < 0 ? item : item + int32_t(a.first);
  a.scores[n] = score_of(a.list[n]);
}

struct MergeTopKArgs {
  const StepRecord *step;
  const int32_t *parts;  // [shards, 2, stride, each], items and then the bits of scores
  int32_t *ids;          // [B, k]
  float *scores;
  int64_t shards, stride, each, k;
};

// The key at place n of a shard's list.
DEVICE uint64_t key_at(const int32_t *items, const int32_t *scores, int64_t n) {
  return items[n] < 0 ? 0 : rank_key(__int_as_float(scores[n]), items[n]);
}

// How many of a falling list are better than a key; those that are missing are 0.
DEVICE int64_t better_than(const int32_t *items, const int32_t *scores, int64_t n, uint64_t key) {
  return first_where(0, n, [&](int64_t i) { return key_at(items, scores, i) <= key; });
}

// The best k of what the shards have found: place of an item = how many in all lists are better.
//
// Mapping: a block has a row, a thread an item at a time, whose place it finds by bisection in the other lists.
// Bytes: reads 8 an item, and for each some from every other list, out of the first-level cache; writes 8 a place.
// Source: kernels/ops.go, MergeTopK; scheme: own.
KERNEL_BOUNDS(merge_top_k, MergeTopKArgs, 256, 4) {
  const int64_t u = blockIdx.x, whole = a.stride * a.each;
  if (u >= a.step->rows) return;
  const int32_t *row = a.parts + u * a.each;
  int64_t found = 0;
  for (int64_t shard = 0; shard < a.shards; shard++)
    found += better_than(row + 2 * shard * whole, row + (2 * shard + 1) * whole, a.each, 0);
  for (int64_t place = found + threadIdx.x; place < a.k; place += blockDim.x) {
    a.ids[u * a.k + place] = -1;
    a.scores[u * a.k + place] = -infinity();
  }
  for (int64_t n = threadIdx.x; n < a.shards * a.each; n += blockDim.x) {
    const int64_t own = n / a.each, at = n % a.each;
    const uint64_t key = key_at(row + 2 * own * whole, row + (2 * own + 1) * whole, at);
    if (key == 0) continue;
    int64_t place = at;
    for (int64_t shard = 0; shard < a.shards && place < a.k; shard++)
      if (shard != own) place += better_than(row + 2 * shard * whole, row + (2 * shard + 1) * whole, a.each, key);
    if (place >= a.k) continue;
    a.ids[u * a.k + place] = item_of(key);
    a.scores[u * a.k + place] = score_of(key);
  }
}
