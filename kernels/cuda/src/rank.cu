// Scores, defined to the bit (kernels/dot.go), and the best of them.
#include "rank.cuh"

constexpr int kRankTile = 32, kRankSlab = 32;

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

struct SelectArgs {
  const StepRecord *step;
  const float *scores;      // [rows, stride] of items first .. first + items
  const uint64_t *allowed;  // a bit an item, null: all
  uint64_t *list[2];        // [rows, k], falling; the best so far stand in list[0]
  int64_t rows, row, first, items, stride, k;  // row: of the batch, of the first row here
  int32_t exclude;          // slot, -1: none
};

// The best k of what was best before and of a tile of scores.
//
// A block has a row of the batch. Reads 4 bytes a score; soon few scores get any further. Any k: the list lies in global memory.
KERNEL_BOUNDS(select_best, SelectArgs, kSelectThreads, 4) {
  const int64_t u = blockIdx.x;
  if (u >= a.rows) return;
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
  const uint64_t *list;
  int32_t *ids;
  float *scores;
  int64_t count;
};

// Keys to items and scores; -1 and -Inf where nothing is left.
KERNEL_BOUNDS(ranked, RankedArgs, 256, 4) {
  const int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= a.count) return;
  a.ids[n] = item_of(a.list[n]);
  a.scores[n] = score_of(a.list[n]);
}
