// The best items without computing all scores: products of bfloat16 on matrix units show, with a bound on their error, which
// items cannot be among the best; the scores of the others are computed as they are defined (kernels/dot.go). So the result is
// that of rank.cu to the bit.
//
// Items come in waves. All of the first, a few times k, are scored, which gives each row the score that its k-th best has so
// far, the limit. Every further wave, three times as many as all before it, is screened: what may reach the limit is written
// to the row's list of candidates, and scored. Among n items in no special order, k (1/n + ... + 1/3n) ~ 1.4 k of a wave are
// better than the best k before, and some more are within the error of them. So that the order is no special one, a wave is
// made of tiles of 128 items from all over: tile number p is (p stride) mod tiles. If there are more candidates than there is
// room for, the whole wave is scored for that row.
//
// The error. With u = 2^-8 for rounding to bfloat16, |z - z~| <= (2 u + u^2 + K 2^-21) sum of |h_k w_k| (the last term is for
// sums in float32, in whatever order and way matrix units add), and that sum is at most |h| |w|. Numbers that are too small for
// this to hold are covered by norms that are never below K^(1/2) 2^-56; numbers that are too large give sums that are not
// finite, which are candidates. Source: Cauchy-Schwarz, and Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
#include "rank.cuh"

constexpr int kScreenItems = 128, kScreenThreads = 256, kScreenSlab = 32, kScreenWords = 5;

// Which items a wave has: tiles begin .. begin + count in the order of the permutation.
struct Wave {
  int64_t begin, count, tiles, stride, items;
};

DEVICE int64_t tile_of(const Wave &w, int64_t place) { return (w.begin + place) * w.stride % w.tiles; }

// What the three kernels share.
struct ScreenArgs {
  const StepRecord *step;
  ScoreSource source[8];
  const float *bias;  // [I], may be null
  const uint64_t *allowed;  // a bit an item, null: all
  double *hidden_squares;  // [rows]: h_u . h_u, by kernels.Dot if there is one source
  float *hidden_norm;  // [rows]: at least |h_u|
  float *limit;  // [rows]
  int32_t *candidates;  // [rows, room]
  int32_t *count;  // [rows]: of candidates, also of those that found no room
  uint64_t *list[2];  // [rows, k]
  Wave wave;
  double floor;  // added to the squares of a norm
  int64_t rows, row, k;  // row: of the batch, of the first row here
  int32_t sources, exclude, room, all, launch;  // all: the whole wave is scored
  float temperature;
  float error;  // of z~, relative to |h| |w|
  float widens;  // a norm is multiplied by 1 + this, lest it be too small
};

// s_u = h_u . h_u, over all sources together; norm_u = (s_u + floor)^(1/2), made a little larger; no candidates yet.
//
// Mapping: eight threads have a row, as in squares.
// Bytes: reads 4 K a row, which bounds it, and writes 16.
// Source: kernels/dot.go, Dot; what the norm is for: the error above.
KERNEL_BOUNDS(begin_screen, ScreenArgs, 256, 4) {
  const int64_t row = int64_t(blockIdx.x) * (256 / kRankLanes) + threadIdx.x / kRankLanes;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  double total = 0.0;
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    total += square_of(source.h + row * source.columns, row < rows ? source.columns : 0);
  }
  if (row >= rows || threadIdx.x % kRankLanes != 0) return;
  a.hidden_squares[row] = total;
  a.hidden_norm[row] = float(sqrt(total + a.floor) * (1.0 + 1e-6));
  a.count[row] = 0;
}

// Four numbers of a row, zeros beyond its end.
DEVICE float4 four_of(const float *row, int64_t k, int64_t columns) {
  if (columns % 4 == 0) return k < columns ? *reinterpret_cast<const float4 *>(row + k) : float4{};
  return {k < columns ? row[k] : 0.0f, k + 1 < columns ? row[k + 1] : 0.0f, k + 2 < columns ? row[k + 2] : 0.0f,
          k + 3 < columns ? row[k + 3] : 0.0f};
}

DEVICE uint2 narrow_four(const float4 &x) { return {to_bf16x2(x.x, x.y), to_bf16x2(x.z, x.w)}; }

// What a thread fetches of the next slab: four numbers of every 32nd row of each tile.
template <int kRows>
struct Fetched {
  float4 h[kRows / 32], w[kScreenItems / 32];
};

template <int kRows>
DEVICE void fetch(Fetched<kRows> &to, const ScreenArgs &a, const ScoreSource &source, int64_t rows, int64_t row,
                  int64_t item, int64_t k) {
  const int place = threadIdx.x / 8;
  const int64_t column = k + threadIdx.x % 8 * 4;
  for (int i = 0; i < kRows / 32; i++) {
    const int64_t u = row + place + 32 * i;
    to.h[i] = u < rows ? four_of(source.h + u * source.columns, column, source.columns) : float4{};
  }
  for (int i = 0; i < kScreenItems / 32; i++) {
    const int64_t n = item + place + 32 * i;
    to.w[i] = n < a.wave.items ? four_of(source.weight + n * source.columns, column, source.columns) : float4{};
  }
}

// Whether an item may be among the best, by its product z~ in low precision.
DEVICE bool may_reach(const ScreenArgs &a, float z, float h_norm, float w_norm, float bias, float limit) {
  float error;
  if (a.temperature == 0.0f) {
    error = a.error * h_norm * w_norm;
  } else {
    // The quotient by the norms is as good as they are: only where what was added to them is nothing beside them.
    const float least = float(a.floor) * 1048576.0f, product = h_norm * w_norm;
    if (!(h_norm * h_norm >= least) || !(w_norm * w_norm >= least) || !finite(product)) return true;
    z = z / product / a.temperature;
    error = (1.01f * a.error + 4.0f * a.widens) / a.temperature;
  }
  if (!finite(z)) return true;
  return !(z + bias + (1.001f * error + 1e-6f * (fabsf(z) + fabsf(bias))) < limit);
}

// z~_ui of the wave's items in bfloat16; an item whose z~ may reach the row's limit goes to the row's candidates.
//
// Mapping: a block has a tile of the wave and kRows rows, the blocks of a tile follow each other: 8 warps of 32 rows each by 16
// or 64 items, slabs of 32 units in shared memory, which the next one is fetched for meanwhile. Numbers are rounded as they are
// fetched, and the squares of the items' added.
// Bytes: W is read once for all rows in device memory, and once for every kRows in the second-level cache: at 512 rows 256
// operations a byte, bound by arithmetic; at one row bound by memory. 2 K operations of bfloat16 a pair. Scores are not written.
// Source: the bound above; scheme: own.
template <int kRows>
DEVICE void screen_tile(const ScreenArgs &a) {
  constexpr int kRowWarps = kRows / 32, kItems = kScreenItems * kRowWarps / 8, kColumns = kItems / 8;
  SHARED(uint4, left, [2][kRows][kScreenWords]);
  SHARED(uint4, right, [2][kScreenItems][kScreenWords]);
  SHARED(float, norm, [kScreenItems]);
  const int lane = lane_id(), place = threadIdx.x / 8, quarter = threadIdx.x % 8;
  const int warp_row = warp_id() % kRowWarps * 32, warp_item = warp_id() / kRowWarps * kItems;
  const uint32_t row_blocks = uint32_t((a.rows + kRows - 1) / kRows);
  const int64_t row = int64_t(blockIdx.x % row_blocks) * kRows;
  const int64_t item = tile_of(a.wave, blockIdx.x / row_blocks) * kScreenItems;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  if (row >= rows || failed_before(a.step, a.launch)) return;
  float sum[2][kColumns][4] = {}, squares[kScreenItems / 32] = {};
  int source = 0, stage = 0;
  int64_t k = 0;
  Fetched<kRows> next;
  fetch(next, a, a.source[0], rows, row, item, 0);
  while (source < a.sources) {
    for (int i = 0; i < kRows / 32; i++)
      reinterpret_cast<uint2 *>(left[stage][place + 32 * i])[quarter] = narrow_four(next.h[i]);
    for (int i = 0; i < kScreenItems / 32; i++) {
      const float4 &w = next.w[i];
      reinterpret_cast<uint2 *>(right[stage][place + 32 * i])[quarter] = narrow_four(w);
      squares[i] = fmaf(w.x, w.x, fmaf(w.y, w.y, fmaf(w.z, w.z, fmaf(w.w, w.w, squares[i]))));
    }
    __syncthreads();
    k += kScreenSlab;
    if (k >= a.source[source].columns) k = 0, source++;
    if (source < a.sources) fetch(next, a, a.source[source], rows, row, item, k);
    for (int part = 0; part < 2; part++) {
      uint32_t h[2][4];
      for (int m = 0; m < 2; m++) ldmatrix_x4(h[m], &left[stage][warp_row + 16 * m + lane % 16][2 * part + lane / 16]);
      for (int n = 0; n < kColumns; n += 2) {
        uint32_t w[4];
        ldmatrix_x4(w, &right[stage][warp_item + 8 * n + lane % 8 + lane / 16 * 8][2 * part + lane / 8 % 2]);
        for (int m = 0; m < 2; m++) {
          mma_bf16_16x8x16(sum[m][n], h[m], {w[0], w[1]});
          mma_bf16_16x8x16(sum[m][n + 1], h[m], {w[2], w[3]});
        }
      }
    }
    stage ^= 1;
  }
  for (int i = 0; i < kScreenItems / 32; i++) {
    for (int lanes = 4; lanes > 0; lanes /= 2) squares[i] += __shfl_xor_sync(kAllLanes, squares[i], lanes);
    if (quarter == 0) norm[place + 32 * i] = sqrtf(squares[i] + float(a.floor)) * (1.0f + a.widens);
  }
  __syncthreads();
  for (int m = 0; m < 2; m++) {
    for (int half = 0; half < 2; half++) {
      const int64_t u = row + warp_row + 16 * m + 8 * half + lane / 4;
      if (u >= rows) continue;
      const float h_norm = a.hidden_norm[u], limit = a.limit[u];
      for (int n = 0; n < kColumns; n++) {
        for (int c = 0; c < 2; c++) {
          const int i = warp_item + 8 * n + lane % 4 * 2 + c;
          if (item + i >= a.wave.items) continue;
          const float bias = a.bias ? a.bias[item + i] : 0.0f;
          if (!may_reach(a, sum[m][n][2 * half + c], h_norm, norm[i], bias, limit)) continue;
          if (!may_have(permitted(a.step, a.exclude, a.allowed, a.row + u), item + i)) continue;
          const int at = atomicAdd(&a.count[u], 1);
          if (at < a.room) a.candidates[u * a.room + at] = int32_t(item + i);
        }
      }
    }
  }
}

KERNEL_BOUNDS(screen_32, ScreenArgs, kScreenThreads, 2) { screen_tile<32>(a); }

KERNEL_BOUNDS(screen_128, ScreenArgs, kScreenThreads, 2) { screen_tile<128>(a); }

// The score of an item by eight threads, each one of Dot's lanes; it is known to all of them. Item -1 is none, but the threads
// take part in the exchange of sums.
DEVICE float score_of_item(const ScreenArgs &a, int64_t u, int64_t item) {
  const int lane = threadIdx.x % kRankLanes;
  double score = 0.0;
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    double sum = 0.0, square = 0.0;
    for (int64_t k = lane; item >= 0 && k < source.columns; k += kRankLanes) {
      const double h = source.h[u * source.columns + k], w = __ldg(source.weight + item * source.columns + k);
      sum = fma(h, w, sum);
      if (a.temperature != 0.0f) square = fma(w, w, square);
    }
    for (int lanes = 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    score += sum;
    if (a.temperature == 0.0f) continue;
    for (int lanes = 4; lanes > 0; lanes /= 2) square += __shfl_xor_sync(kAllLanes, square, lanes);
    const double norm = sqrt(a.hidden_squares[u]) * sqrt(square);
    score = norm == 0.0 ? 0.0 : score / norm / double(a.temperature);
  }
  return float(score + double(a.bias && item >= 0 ? a.bias[item] : 0.0f));
}

// Scores the candidates of a wave, or all of its items, and keeps the best; then the row is ready for the next wave.
//
// Mapping: a block has a row, and scores 32 items at a time, each by eight threads.
// Bytes: 4 K an item, from device memory where candidates are few.
// Source: kernels/dot.go, Dot and Score; keeping the best: as select_best.
KERNEL_BOUNDS(refine, ScreenArgs, kSelectThreads, 4) {
  const int64_t u = blockIdx.x;
  if (u >= rows_from(a.step, a.row, a.rows) || failed_before(a.step, a.launch)) return;
  const int32_t found = a.count[u];
  const bool all = a.all || found > a.room;
  const Permitted may = permitted(a.step, a.exclude, a.allowed, a.row + u);
  const int64_t things = all ? a.wave.count * kScreenItems : found;
  const Best best = {a.list[0] + u * a.k, a.list[1] + u * a.k, a.k};
  constexpr int kAtOnce = kSelectThreads / kRankLanes;
  keep_best(best, (things + kAtOnce - 1) / kAtOnce, [&](int64_t round, uint64_t least) -> uint64_t {
    const int64_t n = round * kAtOnce + threadIdx.x / kRankLanes;
    int64_t item = -1;
    if (n < things)
      item = all ? tile_of(a.wave, n / kScreenItems) * kScreenItems + n % kScreenItems : a.candidates[u * a.room + n];
    if (item >= a.wave.items) item = -1;
    const float score = score_of_item(a, u, item);
    if (threadIdx.x % kRankLanes != 0 || item < 0 || score != score) return 0;
    const uint64_t key = rank_key(score, item);
    return key > least && (!all || may_have(may, item)) ? key : 0;
  });
  __syncthreads();
  if (threadIdx.x != 0) return;
  a.limit[u] = score_of(best.list[a.k - 1]);
  a.count[u] = 0;
}
