// The best items without computing all scores: products of bfloat16 on matrix units show, with a bound on their error, which
// items cannot be among the best; the scores of the others are computed as they are defined (kernels/dot.go). So the result is
// that of rank.cu to the bit.
//
// Each product bounds the item's score from below and above. A row's limit is the k-th largest of its bounds from below: k items
// are that good, so an item whose bound from above is less is none of the best k. Items come in waves. All of the first, a few
// times k, are candidates; of every further wave, seven times as many items as all before it, those whose bound from above
// reaches the limit. After each wave the limit is raised, and candidates below it are dropped. In the end the rest of them, a few
// times k, are scored. Among n items in no special order, k (1/n + ... + 1/8n) ~ 2.1 k of a wave are better than the best k
// before, and some more are within the error of them. So that the order is no special one, a wave is made of tiles of 128 items
// from all over: tile number p is (p stride) mod tiles. If there are more candidates than there is room for, the whole wave is
// scored for that row; of its items only those whose scores are among the k best bounds may be of the best.
//
// The error. With ~ for what is rounded to bfloat16, |h.w - h~.w~| <= |h - h~| |w| + |h~| |w - w~|, where the norms of what rounding
// takes away are computed with it (about 0.4 2^-8 of |h|). Sums in float32, in whatever order and way matrix units add, are off by at
// most (K 2^-21 + 2^-14) |h| |w|. Numbers that are too small for this to hold are covered by norms that are never below
// K^(1/2) 2^-56; numbers that are too large give sums that are not finite, which are candidates and bound nothing from below.
// Source: Cauchy-Schwarz, and Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
#include "rank.cuh"

constexpr int kScreenItems = 128, kScreenSlab = 32, kScreenWords = 5, kScreenStages = 4;

// Which items a wave, or a part of it, has: tiles begin .. begin + count in the order of the permutation.
struct Wave {
  int64_t begin, count, tiles, stride, items;
};

DEVICE int64_t tile_of(const Wave &w, int64_t place) { return (w.begin + place) * w.stride % w.tiles; }

// What the kernels share.
struct ScreenArgs {
  const StepRecord *step;
  ScoreSource source[kMostSources];
  const float *bias;  // [I], may be null
  const uint64_t *allowed;  // a bit an item, null: all
  double *hidden_squares;  // [rows]: h_u . h_u, by kernels.Dot if there is one source
  float2 *hidden_norms;  // [rows]: at least |h_u| and |h_u - h~_u|
  uint16_t *hidden;  // [rows, pitch]: h_u in bfloat16, each source from a slab's beginning on, zeros beyond its end
  float2 *norms;  // [I], or of the items of the part: of w_i
  uint16_t *weights;  // [I, pitch], or of the items of the part: w_i in bfloat16; or the source's own, if they are that
  int64_t pitch;
  float *limit;  // [rows]
  int32_t *candidates;  // [rows, room]
  float2 *bounds;  // [rows, room]: of the candidates' scores, from below and above
  int32_t *count;  // [rows]: of candidates, also of those that found no room
  int32_t *kept;  // [rows]: of candidates of earlier waves
  uint64_t *least[2];  // [rows, k]: the best bounds from below
  uint64_t *list[2];  // [rows, k]: the best scores
  int32_t *ids;  // [rows, k]
  float *scores;
  Wave wave;
  double floor;  // added to the squares of a norm
  int64_t rows, row, k, first;  // row: of the batch, of the first row here; first: the number of item 0
  int32_t sources, exclude, room, all, part, launch;  // all: this is the first wave; part: weights are those of a part
  float temperature;
  float adding;  // the error of sums, relative to |h| |w|
  float widens;  // a norm is multiplied by 1 + this, lest it be too small
};

// What rounding to bfloat16 takes away.
DEVICE float taken_away(float x, uint16_t rounded) { return x - from_bf16(rounded); }

// s_u = h_u . h_u, over all sources together; h_u in bfloat16; norm_u = (s_u + floor)^(1/2), made a little larger, and that of what
// rounding takes away; no candidates and no limit yet.
//
// Mapping: eight threads have a row, as in squares.
// Bytes: reads 4 K a row, which bounds it, and writes 2 K + 16 k.
// Source: kernels/dot.go, Dot; what the norms are for: the error above.
KERNEL_BOUNDS(begin_screen, ScreenArgs, 256, 4) {
  const int64_t row = int64_t(blockIdx.x) * (256 / kRankLanes) + threadIdx.x / kRankLanes;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  double total = 0.0, taken = 0.0;
  int64_t slab = row * a.pitch;
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    const float *h = source.h + row * source.columns;
    total += square_of(h, row < rows ? source.columns : 0, STORAGE_float32);
    const int64_t padded = (source.columns + kScreenSlab - 1) / kScreenSlab * kScreenSlab;
    for (int64_t k = threadIdx.x % kRankLanes; row < rows && k < padded; k += kRankLanes) {
      const float x = k < source.columns ? h[k] : 0.0f;
      const double away = taken_away(x, a.hidden[slab + k] = to_bf16(x));
      taken = fma(away, away, taken);
    }
    slab += padded;
  }
  for (int lanes = 4; lanes > 0; lanes /= 2) taken += __shfl_xor_sync(kAllLanes, taken, lanes);
  if (row >= rows) return;
  for (int64_t place = threadIdx.x % kRankLanes; place < a.k; place += kRankLanes)
    a.least[0][row * a.k + place] = a.list[0][row * a.k + place] = 0;
  if (threadIdx.x % kRankLanes != 0) return;
  a.hidden_squares[row] = total;
  a.hidden_norms[row] = {float(sqrt(total + a.floor) * (1.0 + 1e-6)), float(sqrt(taken + a.floor) * (1.0 + 1e-6))};
  a.count[row] = a.kept[row] = 0;
  a.limit[row] = -infinity();
}

// Four numbers of a row of weights from k on, 0 behind its end.
DEVICE float4 four_weights(const float *w, int k, int columns, int64_t) {
  if (columns % 4 == 0) return k < columns ? *reinterpret_cast<const float4 *>(w + k) : float4{};
  return {k < columns ? w[k] : 0.0f, k + 1 < columns ? w[k + 1] : 0.0f, k + 2 < columns ? w[k + 2] : 0.0f,
          k + 3 < columns ? w[k + 3] : 0.0f};
}
DEVICE float4 four_weights(const uint16_t *w, int k, int columns, int64_t storage) {
  const auto at = [&](int n) { return k + n < columns ? number_at(w, k + n, storage) : 0.0f; };
  if (columns % 4 != 0 || k >= columns) return {at(0), at(1), at(2), at(3)};
  const uint2 four = *reinterpret_cast<const uint2 *>(w + k);
  const uint16_t halves[4] = {uint16_t(four.x), uint16_t(four.x >> 16), uint16_t(four.y), uint16_t(four.y >> 16)};
  return {number_at(halves, 0, storage), number_at(halves, 1, storage), number_at(halves, 2, storage),
          number_at(halves, 3, storage)};
}

// Rounds an item's weights of a source, and adds the squares of those and of what rounding takes away.
template <class Number>
DEVICE void round_weights(const ScreenArgs &a, const ScoreSource &source, int64_t item, int64_t slab, int padded,
                          float &total, float &taken) {
  const int columns = int(source.columns);
  const Number *weights = weights_of<Number>(source, item);
  const bool is_own = a.weights == source.weight;
#pragma unroll 2
  for (int k = 4 * lane_id(); k < padded; k += 128) {
    const float4 w = four_weights(weights, k, columns, source.storage);
    const uint32_t low = to_bf16x2(w.x, w.y), high = to_bf16x2(w.z, w.w);
    if (sizeof(Number) == 4 || !is_own) *reinterpret_cast<uint2 *>(a.weights + slab + k) = {low, high};
    const float away[4] = {taken_away(w.x, uint16_t(low)), taken_away(w.y, uint16_t(low >> 16)),
                           taken_away(w.z, uint16_t(high)), taken_away(w.w, uint16_t(high >> 16))};
    total = fmaf(w.x, w.x, fmaf(w.y, w.y, fmaf(w.z, w.z, fmaf(w.w, w.w, total))));
    for (int n = 0; n < 4; n++) taken = fmaf(away[n], away[n], taken);
  }
}

// w_i of the wave's items in bfloat16, with its norm and that of what rounding takes away.
//
// Mapping: a warp has an item, a thread four numbers at a time.
// Bytes: reads 4 K an item, which bounds it, and writes 2 K + 8.
// Source: the error above.
KERNEL_BOUNDS(round_tiles, ScreenArgs, 256, 4) {
  const int64_t place = int64_t(blockIdx.x) * 8 + warp_id();
  const int64_t item = tile_of(a.wave, place / kScreenItems) * kScreenItems + place % kScreenItems;
  if (item >= a.wave.items) return;
  float total = 0.0f, taken = 0.0f;
  int64_t slab = place * a.pitch;
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    const int padded = (int(source.columns) + kScreenSlab - 1) / kScreenSlab * kScreenSlab;
    if (source.storage == STORAGE_float32)
      round_weights<float>(a, source, item, slab, padded, total, taken);
    else
      round_weights<uint16_t>(a, source, item, slab, padded, total, taken);
    slab += padded;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    total += __shfl_xor_sync(kAllLanes, total, lanes);
    taken += __shfl_xor_sync(kAllLanes, taken, lanes);
  }
  const float floor = float(a.floor), wider = 1.0f + a.widens;
  if (lane_id() == 0) a.norms[place] = {sqrtf(total + floor) * wider, sqrtf(taken + floor) * wider};
}

// How a block of screen_tile is made up: four threads have 32 numbers of a row or an item.
template <int kRows>
struct Screen {
  static constexpr int kThreads = kRows <= 32 ? 256 : 512;
  static constexpr int kApart = kThreads / 4;  // rows that are fetched at a time
};

// Slabs of numbers in bfloat16: those that are multiplied, and those that are on their way.
template <int kRows>
struct ScreenShared {
  uint4 left[kScreenStages][kRows][kScreenWords], right[kScreenStages][kScreenItems][kScreenWords];
};

// Where a thread's part of the next slab of a matrix is: 16 bytes of some rows.
struct NextSlab {
  const uint16_t *from;
  int64_t apart;
  int rows;  // that are there
};

template <int kRows, int kApart>
DEVICE void fetch(NextSlab &next, uint4 (&to)[kRows][kScreenWords]) {
  const int first = threadIdx.x / 4, part = threadIdx.x % 4;
  if (kRows >= kApart || first < kRows) {
#pragma unroll
    for (int n = 0; n < (kRows + kApart - 1) / kApart; n++) {
      const int i = first + kApart * n;
      cp_async_16(&to[i][part], next.from + n * next.apart, i < next.rows ? 16 : 0);
    }
  }
  next.from += kScreenSlab;
}

template <int kApart>
DEVICE NextSlab first_slab(const uint16_t *matrix, int64_t pitch, int rows) {
  return {matrix + threadIdx.x / 4 * pitch + threadIdx.x % 4 * 8, kApart * pitch, rows};
}

// What a row has in the bounds of its scores, and what an item has: a score without its bias is the product times both scales, but
// for an error of at most the sum of by_norm norm and by_taken taken.
struct RowSide {
  float scale, by_norm, by_taken, limit;
};
struct ItemSide {
  float scale, norm, taken, bias;
};

// 1 / norm for a cosine, which is as good as the norms are: only where what was added to them is nothing beside them, and their
// squares are finite; otherwise it is not a number, which may be among the best.
DEVICE float inverse_of(const ScreenArgs &a, float norm) {
  const float square = norm * norm;
  return square >= float(a.floor) * 1048576.0f && finite(square) ? 1.0f / norm : __int_as_float(0x7fc00000);
}

DEVICE RowSide row_side(const ScreenArgs &a, const float2 &norms, float limit) {
  if (a.temperature == 0.0f) return {1.0f, 1.001f * (norms.y + 1.03f * a.adding * norms.x), 1.02f * norms.x, limit};
  const float inverse = inverse_of(a, norms.x), off = norms.y * inverse + 1.03f * a.adding;
  return {inverse / a.temperature, 1.001f * (1.01f * off + 4.0f * a.widens) / a.temperature, 1.03f / a.temperature,
          limit};
}

DEVICE ItemSide item_side(const ScreenArgs &a, const float2 &norms, float bias) {
  if (a.temperature == 0.0f) return {1.0f, norms.x, norms.y, bias};
  const float inverse = inverse_of(a, norms.x);
  return {inverse, 1.0f, norms.y * inverse, bias};
}

// The bounds of a score, by the product in low precision.
DEVICE float2 bounds_of(float product, const RowSide &row, const ItemSide &item) {
  const float z = product * (row.scale * item.scale), score = z + item.bias;
  const float off = row.by_norm * item.norm + row.by_taken * item.taken + 1e-6f * (fabsf(z) + fabsf(item.bias));
  return {score - off, score + off};
}

// Notes a candidate. Of the first wave every item has its place.
DEVICE void note(const ScreenArgs &a, int64_t u, int64_t place, int64_t item, const float2 &bounds) {
  int64_t at = place;
  if (!a.all) {
    if (item < 0 || !may_have(permitted(a.step, a.exclude, a.allowed, a.row + u), item)) return;
    at = atomicAdd(&a.count[u], 1);
    if (at >= a.room) return;
  }
  a.candidates[u * a.room + at] = int32_t(item);
  a.bounds[u * a.room + at] = bounds;
}

// z~_ui of the wave's items in bfloat16; an item whose score may reach the row's limit goes to the row's candidates.
//
// Mapping: a block has a tile of the wave and kRows rows, the blocks of a tile follow each other: 8 or 16 warps of 32 rows each by 16
// or 64 items, slabs of 32 units in shared memory. While it multiplies one, the next three are on their way. Products that may
// reach the limit go through shared memory, as they are few and may be any of a thread's.
// Bytes: weights are read once for all rows in device memory, and once for every kRows in the second-level cache, the rows for every
// tile: 2 K B (1 / kRows + 1 / 128) an item for B rows. 2 K operations of bfloat16 a pair, which bound it for many rows; memory does
// for few. Scores are not written.
// Source: the bounds above; scheme: own.
template <int kRows>
DEVICE void screen_tile(const ScreenArgs &a) {
  constexpr int kRowWarps = kRows / 32, kItems = kScreenItems * kRowWarps / (Screen<kRows>::kThreads / 32),
                kColumns = kItems / 8, kAhead = kScreenStages - 1, kApart = Screen<kRows>::kApart;
  SHARED(RowSide, row_sides, [kRows]);
  SHARED(ItemSide, item_sides, [kScreenItems]);
  ScreenShared<kRows> &shared = *dynamic_shared<ScreenShared<kRows>>();
  const int lane = lane_id(), thread = threadIdx.x;
  const int warp_row = warp_id() % kRowWarps * 32, warp_item = warp_id() / kRowWarps * kItems;
  const uint32_t row_blocks = uint32_t((a.rows + kRows - 1) / kRows);
  const int64_t row = int64_t(blockIdx.x % row_blocks) * kRows, place = blockIdx.x / row_blocks;
  const int64_t item = tile_of(a.wave, place) * kScreenItems, from = a.part ? place * kScreenItems : item;
  const int64_t rows = rows_from(a.step, a.row, a.rows);
  if (row >= rows || failed_before(a.step, a.launch)) return;
  const int items = int(min(a.wave.items - item, int64_t(kScreenItems))), slabs = int(a.pitch / kScreenSlab);
  NextSlab hidden = first_slab<kApart>(a.hidden + row * a.pitch, a.pitch, int(min(rows - row, int64_t(kRows))));
  NextSlab weights = first_slab<kApart>(a.weights + from * a.pitch, a.pitch, items);
  const auto fetch_slab = [&](int slab) {
    if (slab < slabs) {
      fetch<kRows, kApart>(hidden, shared.left[slab % kScreenStages]);
      fetch<kScreenItems, kApart>(weights, shared.right[slab % kScreenStages]);
    }
    cp_async_commit();
  };
  for (int slab = 0; slab < kAhead; slab++) fetch_slab(slab);
  if (thread < kRows)
    row_sides[thread] = row + thread < rows ? row_side(a, a.hidden_norms[row + thread], a.limit[row + thread])
                                            : RowSide{0.0f, 0.0f, 0.0f, infinity()};
  if (thread < kScreenItems)
    item_sides[thread] =
        thread < items ? item_side(a, a.norms[from + thread], a.bias ? a.bias[item + thread] : 0.0f) : ItemSide{};
  const int left = (warp_row + lane % 16) * kScreenWords + lane / 16;  // of what the thread names to ldmatrix
  const int right = (warp_item + lane % 8 + lane / 16 * 8) * kScreenWords + lane / 8 % 2;
  float sum[2][kColumns][4] = {};
  for (int slab = 0; slab < slabs; slab++) {
    cp_async_wait<kAhead - 1>();
    __syncthreads();
    fetch_slab(slab + kAhead);
    const uint4 *h_at = &shared.left[slab % kScreenStages][0][0] + left;
    const uint4 *w_at = &shared.right[slab % kScreenStages][0][0] + right;
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
  }
  __syncthreads();  // slabs have been read; their memory takes products
  float *reached = reinterpret_cast<float *>(&shared) + thread;
  const int64_t of_wave = (a.wave.begin + place) * kScreenItems;
  constexpr int kThreads = Screen<kRows>::kThreads, kAtOnce = 2 * kColumns < 8 ? 2 * kColumns : 8;
#pragma unroll
  for (int first = 0; first < 2 * kColumns; first += kAtOnce) {
    uint32_t reaching = 0;  // a bit for each of the thread's pairs
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const RowSide mine = row_sides[warp_row + 8 * r + lane / 4];
      uint32_t reaches = 0;
#pragma unroll
      for (int n = 0; n < kAtOnce; n++) {
        const int column = (first + n) / 2;
        const ItemSide &its = item_sides[warp_item + 8 * column + lane % 4 * 2 + n % 2];
        if (!(bounds_of(sum[r / 2][column][2 * (r % 2) + n % 2], mine, its).y < mine.limit))
          reaches |= 1u << (4 * n + r);
      }
      if (reaches == 0) continue;
      reaching |= reaches;
#pragma unroll
      for (int n = 0; n < kAtOnce; n++)
        reached[(4 * n + r) * kThreads] = sum[r / 2][(first + n) / 2][2 * (r % 2) + n % 2];
    }
    while (reaching) {
      const int bit = __ffs(int(reaching)) - 1, n = first + bit / 4, u = warp_row + 8 * (bit % 4) + lane / 4;
      reaching &= reaching - 1;
      const int i = warp_item + 8 * (n / 2) + lane % 4 * 2 + n % 2;
      if (row + u >= rows) continue;
      note(a, row + u, of_wave + i, i < items ? item + i : -1,
           bounds_of(reached[bit * kThreads], row_sides[u], item_sides[i]));
    }
  }
}

KERNEL_BOUNDS(screen_32, ScreenArgs, Screen<32>::kThreads, 2) { screen_tile<32>(a); }

KERNEL_BOUNDS(screen_256, ScreenArgs, Screen<256>::kThreads, 1) { screen_tile<256>(a); }

constexpr int kInFlight = 16;

DEVICE float ldg(const float *x, int64_t) { return __ldg(x); }
DEVICE float ldg(const uint16_t *x, int64_t storage) { return number_at(x, 0, storage); }

// A lane's products with weights of an item, added up, and if it is for cosines those of the weights with themselves.
template <class Number>
DEVICE double2 products(const float *hidden, const Number *weights, int columns, int64_t storage, bool cosine) {
  double sum = 0.0, square = 0.0;
  for (int from = threadIdx.x % kRankLanes; from < columns; from += kInFlight * kRankLanes) {
    float w[kInFlight], h[kInFlight];
#pragma unroll
    for (int n = 0; n < kInFlight; n++) {
      const int k = from + n * kRankLanes;
      w[n] = k < columns ? ldg(weights + k, storage) : 0.0f;
      h[n] = k < columns ? hidden[k] : 0.0f;
    }
#pragma unroll
    for (int n = 0; n < kInFlight; n++) {  // a product of zeros changes no sum
      sum = fma(double(h[n]), double(w[n]), sum);
      if (cosine) square = fma(double(w[n]), double(w[n]), square);
    }
  }
  return {sum, square};
}

// The same of 2 bytes, not inlined: the registers of both would not fit.
DEVICE_CALL double2 products_of_halves(const float *hidden, const uint16_t *weights, int columns, int64_t storage,
                                       bool cosine) {
  return products(hidden, weights, columns, storage, cosine);
}

// The score of an item by eight threads, each one of Dot's lanes; it is known to all of them. Item -1 is none, but the threads
// take part in the exchange of sums.
DEVICE float score_of_item(const ScreenArgs &a, int64_t u, int64_t item) {
  double score = 0.0;
  for (int s = 0; s < a.sources; s++) {
    const ScoreSource &source = a.source[s];
    const int columns = item < 0 ? 0 : int(source.columns);
    const float *hidden = source.h + u * source.columns;
    const bool cosine = a.temperature != 0.0f;
    auto [sum, square] =
        source.storage == STORAGE_float32
            ? products(hidden, weights_of<float>(source, item), columns, source.storage, cosine)
            : products_of_halves(hidden, weights_of<uint16_t>(source, item), columns, source.storage, cosine);
    for (int lanes = 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    score += sum;
    if (a.temperature == 0.0f) continue;
    for (int lanes = 4; lanes > 0; lanes /= 2) square += __shfl_xor_sync(kAllLanes, square, lanes);
    const double norm = sqrt(a.hidden_squares[u]) * sqrt(square);
    score = norm == 0.0 ? 0.0 : score / norm / double(a.temperature);
  }
  return float(score + double(a.bias && item >= 0 ? a.bias[item] : 0.0f));
}

// Scores things and keeps the best: 32 at a time, each by eight threads. item_at says which item a thing is, -1: none.
template <class ItemAt, class Key>
DEVICE void keep_scored(const ScreenArgs &a, int64_t u, const Best &best, int64_t things, ItemAt item_at, Key key_of) {
  constexpr int kAtOnce = kSelectThreads / kRankLanes;
  keep_best(best, (things + kAtOnce - 1) / kAtOnce, [&](int64_t round, uint64_t least) -> uint64_t {
    const int64_t n = round * kAtOnce + threadIdx.x / kRankLanes, item = n < things ? item_at(n) : -1;
    const float score = score_of_item(a, u, item);
    if (threadIdx.x % kRankLanes != 0 || item < 0 || score != score) return 0;
    const uint64_t key = key_of(score, item);
    return key > least ? key : 0;
  });
}

// The key of a bound from below. Those that are scores have the lowest bit.
DEVICE uint64_t bound_key(float bound, int64_t item, bool is_score) {
  return rank_key(bound == 0.0f ? 0.0f : bound, item) | (is_score ? 1 : 0);
}

// Drops the candidates of a row that do not reach the limit: n there are, and how many stay is returned to all threads.
DEVICE int drop_candidates(int32_t *candidates, float2 *bounds, int n, float limit) {
  SHARED(int, of_warp, [kSelectThreads / 32]);
  int kept = 0;
  for (int from = 0; from < n; from += kSelectThreads) {
    const int at = from + threadIdx.x, item = at < n ? candidates[at] : -1;
    const float2 bound = item < 0 ? float2{} : bounds[at];
    const bool stays = item >= 0 && !(bound.y < limit);
    const uint32_t staying = __ballot_sync(kAllLanes, stays);
    if (lane_id() == 0) of_warp[warp_id()] = __popc(staying);
    __syncthreads();
    int to = kept + __popc(staying & ((1u << lane_id()) - 1));
    for (int warp = 0; warp < kSelectThreads / 32; warp++) {
      if (warp < warp_id()) to += of_warp[warp];
      kept += of_warp[warp];
    }
    if (stays) candidates[to] = item, bounds[to] = bound;
    __syncthreads();
  }
  return kept;
}

// Raises the limit of a row by the candidates of a wave, or by the scores of all of its items if there was no room for them, and
// drops the candidates that do not reach it.
//
// Mapping: a block has a row.
// Bytes: 12 a candidate, out of the second-level cache; what bounds it is sorting.
// Source: the bounds above; keeping the best: as select_best.
KERNEL_BOUNDS(raise_limit, ScreenArgs, kSelectThreads, 4) {
  const int64_t u = blockIdx.x;
  if (u >= rows_from(a.step, a.row, a.rows) || failed_before(a.step, a.launch)) return;
  int32_t *candidates = a.candidates + u * a.room;
  float2 *bounds = a.bounds + u * a.room;
  const int kept = a.kept[u], in_wave = int(a.wave.count) * kScreenItems;
  int found = a.all ? in_wave : a.count[u];
  const Permitted may = permitted(a.step, a.exclude, a.allowed, a.row + u);
  const Best best = {a.least[0] + u * a.k, a.least[1] + u * a.k, a.k};
  if (found <= a.room) {
    keep_best(best, (found - kept + kSelectThreads - 1) / kSelectThreads,
              [&](int64_t round, uint64_t least) -> uint64_t {
                const int64_t n = kept + round * kSelectThreads + threadIdx.x;
                const int64_t item = n < found ? candidates[n] : -1;
                if (item < 0) return 0;
                if (a.all && !may_have(may, item)) {
                  candidates[n] = -1;
                  return 0;
                }
                const float bound = bounds[n].x;
                const uint64_t key = bound != bound ? 0 : bound_key(bound, item, false);
                return key > least ? key : 0;
              });
  } else {
    found = kept;
    const auto item_at = [&](int64_t n) {
      const int64_t item = tile_of(a.wave, n / kScreenItems) * kScreenItems + n % kScreenItems;
      return item < a.wave.items && may_have(may, item) ? item : -1;
    };
    keep_scored(a, u, best, in_wave, item_at, [](float score, int64_t item) { return bound_key(score, item, true); });
  }
  __syncthreads();
  const float limit = score_of(best.list[a.k - 1] & ~uint64_t(1));
  const int stay = drop_candidates(candidates, bounds, found, limit);
  if (threadIdx.x != 0) return;
  a.limit[u] = limit;
  a.count[u] = a.kept[u] = stay;
}

// The best of a row's candidates, and of the scores among its bounds.
//
// Mapping: a block has a row, and scores 32 items at a time, each by eight threads.
// Bytes: 4 K an item, from device memory.
// Source: kernels/dot.go, Dot and Score; keeping the best: as select_best.
KERNEL_BOUNDS(refine, ScreenArgs, kSelectThreads, 4) {
  const int64_t u = blockIdx.x;
  if (u >= rows_from(a.step, a.row, a.rows) || failed_before(a.step, a.launch)) return;
  const int64_t count = a.count[u];
  const Best best = {a.list[0] + u * a.k, a.list[1] + u * a.k, a.k};
  const auto item_at = [&](int64_t n) -> int64_t {
    if (n < count) return a.candidates[u * a.room + n];
    const uint64_t key = a.least[0][u * a.k + n - count];
    return key & 1 ? item_of(key) : -1;
  };
  keep_scored(a, u, best, count + a.k, item_at, rank_key);
  __syncthreads();
  for (int64_t place = threadIdx.x; place < a.k; place += kSelectThreads) {
    const uint64_t key = best.list[place];
    a.ids[u * a.k + place] = key == 0 ? -1 : int32_t(a.first) + item_of(key);
    a.scores[u * a.k + place] = score_of(key);
  }
}
