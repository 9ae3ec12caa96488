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

constexpr int kScreenItems = 128, kScreenSlab = 32, kScreenWords = 5;

// How a block of screen_tile is made up: eight threads have four numbers of an item each, four threads eight of a row.
template <int kRows>
struct Screen {
  static constexpr int kThreads = kRows <= 32 ? 256 : 512;
  static constexpr int kItemsApart = kThreads / 8, kFours = kScreenItems / kItemsApart;  // of a thread
  static constexpr int kParts = kScreenSlab / 8, kRowsApart = kThreads / kParts;
};

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
  uint16_t *narrow;  // [rows, pitch]: h_u in bfloat16, each source from a slab's beginning on, zeros beyond its end
  int64_t pitch;
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

// s_u = h_u . h_u, over all sources together; norm_u = (s_u + floor)^(1/2), made a little larger; h_u in bfloat16; no candidates
// yet.
//
// Mapping: eight threads have a row, as in squares.
// Bytes: reads 4 K a row, which bounds it, and writes 2 K + 16.
// Source: kernels/dot.go, Dot; what the norm is for: the error above.
KERNEL_BOUNDS(begin_screen, ScreenArgs, 256, 4) {
  const int64_t row = int64_t(blockIdx.x) * (256 / kRankLanes) + threadIdx.x / kRankLanes;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  double total = 0.0;
  int64_t slab = row * a.pitch;
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    const float *h = source.h + row * source.columns;
    total += square_of(h, row < rows ? source.columns : 0);
    const int64_t padded = (source.columns + kScreenSlab - 1) / kScreenSlab * kScreenSlab;
    for (int64_t k = threadIdx.x % kRankLanes; row < rows && k < padded; k += kRankLanes)
      a.narrow[slab + k] = uint16_t(to_bf16x2(k < source.columns ? h[k] : 0.0f, 0.0f));
    slab += padded;
  }
  if (row >= rows || threadIdx.x % kRankLanes != 0) return;
  a.hidden_squares[row] = total;
  a.hidden_norm[row] = float(sqrt(total + a.floor) * (1.0 + 1e-6));
  a.count[row] = 0;
}

// Four numbers of a row that has `left` more.
DEVICE float4 four_of(const float *row, int left) {
  return {left > 0 ? row[0] : 0.0f, left > 1 ? row[1] : 0.0f, left > 2 ? row[2] : 0.0f, left > 3 ? row[3] : 0.0f};
}

// What is on its way into shared memory while a block of screen_tile multiplies: the next slab of rows, the next two of weights.
template <int kRows>
struct ScreenShared {
  uint4 left[2][kRows][kScreenWords], right[2][kScreenItems][kScreenWords];  // bfloat16
  float4 fetched[2][Screen<kRows>::kFours]
                [Screen<kRows>::kThreads];  // weights: a thread's own, before they are rounded
};

// Where a thread's part of the next slab of the rows' numbers is: 16 bytes of some rows.
struct NextRows {
  const uint16_t *from;
  int64_t apart;
  int i, part, rows, slabs;  // rows that are there, slabs that are left
};

template <int kRows>
DEVICE NextRows first_rows(const ScreenArgs &a, int64_t row, int rows) {
  constexpr int kParts = Screen<kRows>::kParts;
  const int i = threadIdx.x / kParts, part = threadIdx.x % kParts;
  const int64_t apart = Screen<kRows>::kRowsApart * a.pitch;
  return {a.narrow + (row + i) * a.pitch + 8 * part, apart, i, part, rows, int(a.pitch / kScreenSlab)};
}

template <int kRows>
DEVICE void fetch_rows(NextRows &next, uint4 (&to)[kRows][kScreenWords]) {
  constexpr int kRowsApart = Screen<kRows>::kRowsApart;
  if (next.slabs > 0 && (kRows >= kRowsApart || next.i < kRows)) {
#pragma unroll
    for (int n = 0; n < (kRows + kRowsApart - 1) / kRowsApart; n++) {
      const int i = next.i + kRowsApart * n;
      cp_async_16(&to[i][next.part], next.from + n * next.apart, i < next.rows ? 16 : 0);
    }
  }
  next.from += kScreenSlab, next.slabs--;
  cp_async_commit();
}

// Where a thread's part of the next slab of weights is: four numbers of some items, of one source after the other.
struct NextWeights {
  const float *from;
  int64_t apart;
  int source, left;  // columns of the source that are left
  int items;  // that are there
};

template <int kRows>
DEVICE void begin_source(NextWeights &next, const ScreenArgs &a, int64_t item) {
  if (next.source == a.sources) return;
  const ScoreSource &source = a.source[next.source];
  next.from = source.weight + (item + threadIdx.x / 8) * source.columns + threadIdx.x % 8 * 4;
  next.apart = Screen<kRows>::kItemsApart * source.columns, next.left = int(source.columns);
}

template <int kRows>
DEVICE void fetch_weights(NextWeights &next, float4 (&to)[Screen<kRows>::kFours][Screen<kRows>::kThreads],
                          const ScreenArgs &a, int64_t item) {
  if (next.source < a.sources) {
    const int left = next.left - int(threadIdx.x % 8) * 4;
    const bool aligned = a.source[next.source].columns % 4 == 0;
#pragma unroll
    for (int i = 0; i < Screen<kRows>::kFours; i++) {
      const bool there = int(threadIdx.x / 8) + Screen<kRows>::kItemsApart * i < next.items;
      if (aligned)
        cp_async_16(&to[i][threadIdx.x], next.from + i * next.apart, there && left > 0 ? 16 : 0);
      else
        to[i][threadIdx.x] = there ? four_of(next.from + i * next.apart, left) : float4{};
    }
    next.from += kScreenSlab, next.left -= kScreenSlab;
    if (next.left <= 0) next.source++, begin_source<kRows>(next, a, item);
  }
  cp_async_commit();
}

// What a row or an item has in the bound of its scores: z~ times both scales is the score without its bias, but for an error of at
// most the product of both errors.
struct Side {
  float scale, error;
};

// The sides by norms. A cosine is as good as the norms are: only where what was added to them is nothing beside them, and their
// squares are finite; otherwise it is not a number, which may be among the best.
DEVICE float inverse_of(const ScreenArgs &a, float norm) {
  const float square = norm * norm;
  return square >= float(a.floor) * 1048576.0f && finite(square) ? 1.0f / norm : __int_as_float(0x7fc00000);
}

DEVICE Side row_side(const ScreenArgs &a, float norm) {
  if (a.temperature == 0.0f) return {1.0f, 1.001f * a.error * norm};
  return {inverse_of(a, norm) / a.temperature, 1.001f * (1.01f * a.error + 4.0f * a.widens) / a.temperature};
}

DEVICE Side item_side(const ScreenArgs &a, float norm) {
  if (a.temperature == 0.0f) return {1.0f, norm};
  return {inverse_of(a, norm), 1.0f};
}

// Whether an item may be among the best, by its product z~ in low precision.
DEVICE bool may_reach(float z, const Side &row, const Side &item, float bias, float limit) {
  z *= row.scale * item.scale;
  return !(z + bias + (row.error * item.error + 1e-6f * (fabsf(z) + fabsf(bias))) < limit);
}

// z~_ui of the wave's items in bfloat16; an item whose z~ may reach the row's limit goes to the row's candidates.
//
// Mapping: a block has a tile of the wave and kRows rows, the blocks of a tile follow each other: 8 or 16 warps of 32 rows each by 16
// or 64 items, slabs of 32 units in shared memory. While it multiplies one, weights of the next two are on their way, and rows
// of the next. Weights are rounded when they have arrived, and their squares added.
// Bytes: W is read once for all rows in device memory, and once for every kRows in the second-level cache, the rows for every
// tile: K B (4 / 256 + 2 / 128) an item for B rows, which bounds it for many rows; at one row bound by memory. 2 K operations of bfloat16 a
// pair. Scores are not written.
// Source: the bound above; scheme: own.
template <int kRows>
DEVICE void screen_tile(const ScreenArgs &a) {
  constexpr int kRowWarps = kRows / 32, kItems = kScreenItems * kRowWarps / (Screen<kRows>::kThreads / 32),
                kColumns = kItems / 8;
  constexpr int kFours = Screen<kRows>::kFours, kItemsApart = Screen<kRows>::kItemsApart;
  SHARED(float, norm, [kScreenItems]);
  ScreenShared<kRows> &shared = *dynamic_shared<ScreenShared<kRows>>();
  const int lane = lane_id(), place = threadIdx.x / 8, quarter = threadIdx.x % 8;
  const int warp_row = warp_id() % kRowWarps * 32, warp_item = warp_id() / kRowWarps * kItems;
  const uint32_t row_blocks = uint32_t((a.rows + kRows - 1) / kRows);
  const int64_t row = int64_t(blockIdx.x % row_blocks) * kRows;
  const int64_t item = tile_of(a.wave, blockIdx.x / row_blocks) * kScreenItems;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  if (row >= rows || failed_before(a.step, a.launch)) return;
  float sum[2][kColumns][4] = {}, squares[kFours] = {};
  const int items = int(min(a.wave.items - item, int64_t(kScreenItems))), slabs = int(a.pitch / kScreenSlab);
  NextRows next_rows = first_rows<kRows>(a, row, int(min(rows - row, int64_t(kRows))));
  NextWeights next_weights{nullptr, 0, 0, 0, items};
  begin_source<kRows>(next_weights, a, item);
  fetch_weights<kRows>(next_weights, shared.fetched[0], a, item);
  fetch_rows(next_rows, shared.left[0]);
  fetch_weights<kRows>(next_weights, shared.fetched[1], a, item);
  const int left = (warp_row + lane % 16) * kScreenWords + lane / 16;  // of what the thread names to ldmatrix
  const int right = (warp_item + lane % 8 + lane / 16 * 8) * kScreenWords + lane / 8 % 2;
  int stage = 0;
  for (int slab = 0; slab < slabs; slab++) {
    cp_async_wait<1>();  // all but the weights of the next slab
#pragma unroll
    for (int i = 0; i < kFours; i++) {
      const float4 w = shared.fetched[stage][i][threadIdx.x];
      reinterpret_cast<uint2 *>(shared.right[stage][place + kItemsApart * i])[quarter] = {to_bf16x2(w.x, w.y),
                                                                                          to_bf16x2(w.z, w.w)};
      squares[i] = fmaf(w.x, w.x, fmaf(w.y, w.y, fmaf(w.z, w.z, fmaf(w.w, w.w, squares[i]))));
    }
    __syncthreads();
    fetch_rows(next_rows, shared.left[stage ^ 1]);
    fetch_weights<kRows>(next_weights, shared.fetched[stage], a, item);
    const uint4 *h_at = &shared.left[stage][0][0] + left, *w_at = &shared.right[stage][0][0] + right;
#pragma unroll
    for (int part = 0; part < 2; part++) {
      uint32_t h[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++) ldmatrix_x4(h[m], h_at + 16 * m * kScreenWords + 2 * part);
#pragma unroll
      for (int n = 0; n < kColumns; n += 2) {
        uint32_t w[4];
        ldmatrix_x4(w, w_at + 8 * n * kScreenWords + 2 * part);
#pragma unroll
        for (int m = 0; m < 2; m++) {
          mma_bf16_16x8x16(sum[m][n], h[m], {w[0], w[1]});
          mma_bf16_16x8x16(sum[m][n + 1], h[m], {w[2], w[3]});
        }
      }
    }
    stage ^= 1;
  }
#pragma unroll
  for (int i = 0; i < kFours; i++) {
    for (int lanes = 4; lanes > 0; lanes /= 2) squares[i] += __shfl_xor_sync(kAllLanes, squares[i], lanes);
    if (quarter == 0) norm[place + kItemsApart * i] = sqrtf(squares[i] + float(a.floor)) * (1.0f + a.widens);
  }
  __syncthreads();
  Side mine[4];  // of the thread's rows, every eighth
  float limit[4];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int64_t u = row + warp_row + 8 * r + lane / 4;
    mine[r] = row_side(a, u < rows ? a.hidden_norm[u] : 0.0f);
    limit[r] = u < rows ? a.limit[u] : infinity();
  }
  uint64_t reaching = 0;  // a bit for each of the thread's pairs
#pragma unroll
  for (int n = 0; n < 2 * kColumns; n++) {
    const int i = warp_item + 8 * (n / 2) + lane % 4 * 2 + n % 2;
    const float bias = a.bias && i < items ? a.bias[item + i] : 0.0f;
    const Side its = item_side(a, norm[i]);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const float z = sum[r / 2][n / 2][2 * (r % 2) + n % 2];
      if (may_reach(z, mine[r], its, bias, limit[r])) reaching |= uint64_t(1) << (4 * n + r);
    }
  }
  while (reaching) {
    const int bit = __ffsll(static_cast<long long>(reaching)) - 1, n = bit / 4;
    reaching &= reaching - 1;
    const int64_t u = row + warp_row + 8 * (bit % 4) + lane / 4;
    const int i = warp_item + 8 * (n / 2) + lane % 4 * 2 + n % 2;
    if (u >= rows || i >= items) continue;
    if (!may_have(permitted(a.step, a.exclude, a.allowed, a.row + u), item + i)) continue;
    const int at = atomicAdd(&a.count[u], 1);
    if (at < a.room) a.candidates[u * a.room + at] = int32_t(item + i);
  }
}

KERNEL_BOUNDS(screen_32, ScreenArgs, Screen<32>::kThreads, 2) { screen_tile<32>(a); }

KERNEL_BOUNDS(screen_256, ScreenArgs, Screen<256>::kThreads, 1) { screen_tile<256>(a); }

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
