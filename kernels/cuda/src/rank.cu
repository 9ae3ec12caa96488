// Scores, defined to the bit (kernels/dot.go), and the best of them.
#include "device.cuh"
#include "step.cuh"

constexpr int kRankTile = 32, kRankSlab = 32, kRankLanes = 8;

// kernels.Dot's order of adding its eight lanes.
DEVICE double sum_lanes(const double *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

struct SquaresArgs {
  const float *x;
  double *squares;  // [rows]
  int64_t rows, columns;
};

// x_r . x_r by kernels.Dot. Eight threads have a row, each one of Dot's lanes; exchanging sums with the lane 4, then 2, then 1
// away adds them in Dot's order. Reads the rows once, which bounds it.
KERNEL_BOUNDS(squares, SquaresArgs, 256, 4) {
  const int lane = threadIdx.x % kRankLanes;
  const int64_t row = int64_t(blockIdx.x) * (256 / kRankLanes) + threadIdx.x / kRankLanes;
  double sum = 0.0;
  if (row < a.rows) {
    for (int64_t k = lane; k < a.columns; k += kRankLanes) {
      const double x = a.x[row * a.columns + k];
      sum = fma(x, x, sum);
    }
  }
  for (int lanes = 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  if (row < a.rows && lane == 0) a.squares[row] = sum;
}

struct ScoreSource {
  const float *h;       // [rows, K], from the block's first row on
  const float *weight;  // [I, K]
  int64_t columns;
};

struct ScoresArgs {
  ScoreSource source[8];
  const float *bias;             // [I], may be null
  const double *hidden_squares;  // [rows], null: no cosines
  const double *item_squares;    // [items of the tile]
  float *out;                    // [rows, stride]
  int64_t rows, first, items, stride;  // items first .. first + items
  int32_t sources;
  float temperature;
};

// score_ui = float32(sum over sources of Dot(h_u, w_i) + b_i), or over |h_u| |w_i| T: kernels.Score.
//
// Block (x, y): 32 items, 32 rows; a thread has 2 x 2 pairs with eight lanes each. Slabs of 32 numbers go through shared
// memory; products of float32 are exact in float64, so that fused sums have Dot's bits. 2 K float64 operations a score,
// which bound it: about 30 TFLOP/s where float64 has half float32's rate, a 64th of that where it has not.
KERNEL_BOUNDS(scores, ScoresArgs, 256, 2) {
  SHARED(float, left, [kRankTile][kRankSlab + 1]);
  SHARED(float, right, [kRankTile][kRankSlab + 1]);
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int64_t row = int64_t(blockIdx.y) * kRankTile, item = int64_t(blockIdx.x) * kRankTile;
  double total[2][2] = {};
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    double lane[2][2][kRankLanes] = {};
    for (int64_t k = 0; k < source.columns; k += kRankSlab) {
      for (int n = threadIdx.x; n < kRankTile * kRankSlab; n += 256) {
        const int i = n / kRankSlab, j = n % kRankSlab;
        const bool column = k + j < source.columns;
        left[i][j] = column && row + i < a.rows ? source.h[(row + i) * source.columns + k + j] : 0.0f;
        right[i][j] =
            column && item + i < a.items ? source.weight[(a.first + item + i) * source.columns + k + j] : 0.0f;
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
      if (u >= a.rows || i >= a.items) continue;
      double score = total[p][q];
      if (a.hidden_squares) {
        const double norm = sqrt(a.hidden_squares[u]) * sqrt(a.item_squares[i]);
        score = norm == 0.0 ? 0.0 : score / norm / double(a.temperature);
      }
      a.out[u * a.stride + i] = float(score + double(a.bias ? a.bias[a.first + i] : 0.0f));
    }
  }
}

// An item and its score as a number that is greater the better the item: the score's order, then the lower item, then, as it
// is the score's and not its place's, the sign of a zero. 0 is no item.
DEVICE uint64_t rank_key(float score, int64_t item) {
  const uint32_t bits = __float_as_uint(score == 0.0f ? 0.0f : score);
  const uint32_t order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  const uint32_t negative_zero = __float_as_uint(score) == 0x80000000u ? 1 : 0;
  return uint64_t(order) << 32 | uint64_t(0x7fffffffu - uint32_t(item)) << 1 | negative_zero;
}

constexpr int kSelectThreads = 256, kSelectRoom = 2048;

struct SelectArgs {
  const StepRecord *step;
  const float *scores;      // [rows, stride] of items first .. first + items
  const uint64_t *allowed;  // a bit an item, null: all
  uint64_t *list[2];        // [rows, k], falling; the best so far stand in list[0]
  int64_t rows, row, first, items, stride, k;  // row: of the batch, of the first row here
  int32_t exclude;          // slot, -1: none
};

// Merges the falling lists x[0 .. n) and y[0 .. m) into out[0 .. k); what is missing is 0. Every thread finds its places'
// origins by bisection.
DEVICE void merge_lists(const uint64_t *x, int64_t n, const uint64_t *y, int64_t m, uint64_t *out, int64_t k) {
  for (int64_t place = threadIdx.x; place < k; place += kSelectThreads) {
    // i of the first `place` come from x: the fewest such that the next of y is not better than the last of these.
    int64_t low = place > m ? place - m : 0, high = place < n ? place : n;
    while (low < high) {
      const int64_t i = (low + high) / 2;
      if (x[i] > y[place - 1 - i])
        low = i + 1;
      else
        high = i;
    }
    const int64_t i = low, j = place - low;
    const uint64_t from_x = i < n ? x[i] : 0, from_y = j < m ? y[j] : 0;
    out[place] = from_x > from_y ? from_x : from_y;
  }
}

// The best k of what was best before and of a tile of scores.
//
// A block has a row of the batch. Whatever beats the k-th best so far is collected in shared memory, in any order since no
// two keys are equal; when that is full it is sorted (bitonic) and merged with the list. Reads 4 bytes a score; soon few
// scores get any further. Any k: the list lies in global memory.
KERNEL_BOUNDS(select_best, SelectArgs, kSelectThreads, 4) {
  SHARED(uint64_t, found, [kSelectRoom]);
  SHARED(int, count, [1]);
  const int64_t u = blockIdx.x;
  if (u >= a.rows) return;
  uint64_t *best = a.list[0] + u * a.k, *other = a.list[1] + u * a.k;
  const int32_t *seen = nullptr;
  int64_t seen_count = 0;
  if (a.exclude >= 0) {
    const SparseRecord &batch = a.step->slots[a.exclude];
    seen = batch.indices + batch.offsets[a.row + u];
    seen_count = batch.offsets[a.row + u + 1] - batch.offsets[a.row + u];
  }
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  bool swapped = false;
  for (int64_t from = 0; from < a.items; from += kSelectThreads) {
    const int64_t i = from + threadIdx.x, item = a.first + i;
    const uint64_t least = (swapped ? other : best)[a.k - 1];
    const float score = i < a.items ? a.scores[u * a.stride + i] : 0.0f;
    if (i < a.items && score == score) {
      const uint64_t key = rank_key(score, item);
      const bool allowed = !a.allowed || (a.allowed[item / 64] >> (item % 64) & 1) != 0;
      if (key > least && allowed && position(seen, seen_count, int32_t(item)) < 0) found[atomicAdd(&count[0], 1)] = key;
    }
    __syncthreads();
    const int n = count[0];
    const bool full = n > kSelectRoom - kSelectThreads, last = from + kSelectThreads >= a.items;
    if (!full && !(last && n > 0)) {
      __syncthreads();
      continue;
    }
    int size = 1;
    while (size < n) size *= 2;
    for (int t = n + threadIdx.x; t < size; t += kSelectThreads) found[t] = 0;
    __syncthreads();
    for (int run = 2; run <= size; run *= 2) {
      for (int step = run / 2; step > 0; step /= 2) {
        for (int t = threadIdx.x; t < size / 2; t += kSelectThreads) {
          const int low = t / step * 2 * step + t % step, high = low + step;
          const bool falling = (low & run) == 0;
          const uint64_t x = found[low], y = found[high];
          if ((x < y) == falling) found[low] = y, found[high] = x;
        }
        __syncthreads();
      }
    }
    merge_lists(found, n, swapped ? other : best, a.k, swapped ? best : other, a.k);
    swapped = !swapped;
    if (threadIdx.x == 0) count[0] = 0;
    __syncthreads();
  }
  if (swapped)
    for (int64_t place = threadIdx.x; place < a.k; place += kSelectThreads) best[place] = other[place];
}

struct RankedArgs {
  const uint64_t *list;
  int32_t *ids;
  float *scores;
  int64_t count;
};

// Keys to items and scores; -1 and -Inf where nothing is left.
KERNEL_BOUNDS(ranked, RankedArgs, 256, 4) {
  const int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= a.count) return;
  const uint64_t key = a.list[n];
  const uint32_t order = uint32_t(key >> 32);
  const uint32_t bits = order & 0x80000000u ? order ^ 0x80000000u : ~order;
  a.ids[n] = key == 0 ? -1 : int32_t(0x7fffffffu - (uint32_t(key) >> 1));
  a.scores[n] = key == 0 ? -infinity() : key & 1 ? -0.0f : __uint_as_float(bits);
}
