// What the ranking of all scores (rank.cu) and that of screened ones (screen.cu) have in common.
#pragma once
#include "device.cuh"
#include "step.cuh"

constexpr int kRankLanes = 8, kSelectThreads = 256, kSelectRoom = 2048;

// kernels.Dot's order of adding its eight lanes.
DEVICE double sum_lanes(const double *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// Numbers in memory; 2 bytes each are those of a storage.
DEVICE float number_at(const float *x, int64_t n, int64_t) { return x[n]; }
DEVICE float number_at(const uint16_t *x, int64_t n, int64_t storage) {
  return storage == STORAGE_bfloat16 ? from_bf16(x[n]) : from_half(x[n]);
}

// x . x of a row by eight threads, each one of Dot's lanes; exchanging sums with the lane 4, then 2, then 1 away adds them in
// Dot's order. All threads of a warp call.
template <class Number>
DEVICE double square_of(const Number *row, int64_t columns, int64_t storage) {
  double sum = 0.0;
  for (int64_t k = threadIdx.x % kRankLanes; k < columns; k += kRankLanes) {
    const double x = number_at(row, k, storage);
    sum = fma(x, x, sum);
  }
  for (int lanes = 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  return sum;
}

struct ScoreSource {
  const float *h;       // [rows, K], from the block's first row on
  const void *weight;   // [I, K] numbers of the storage
  int64_t columns, storage;
};

template <class Number>
DEVICE const Number *weights_of(const ScoreSource &source, int64_t item) {
  return reinterpret_cast<const Number *>(source.weight) + item * source.columns;
}

// An item and its score as a number that is greater the better the item: the score's order, then the lower item, then, as it
// is the score's and not its place's, the sign of a zero. 0 is no item.
DEVICE uint64_t rank_key(float score, int64_t item) {
  const uint32_t bits = __float_as_uint(score == 0.0f ? 0.0f : score);
  const uint32_t order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  const uint32_t negative_zero = __float_as_uint(score) == 0x80000000u ? 1 : 0;
  return uint64_t(order) << 32 | uint64_t(0x7fffffffu - uint32_t(item)) << 1 | negative_zero;
}

// The item and the score of a key.
DEVICE int32_t item_of(uint64_t key) { return key == 0 ? -1 : int32_t(0x7fffffffu - (uint32_t(key) >> 1)); }

DEVICE float score_of(uint64_t key) {
  const uint32_t order = uint32_t(key >> 32);
  if (key == 0) return -infinity();
  return key & 1 ? -0.0f : __uint_as_float(order & 0x80000000u ? order ^ 0x80000000u : ~order);
}

// The items that a row of the batch may be given: those with a bit, but for those that the row has stored.
struct Permitted {
  const uint64_t *allowed;  // a bit an item, null: all
  const int32_t *seen;
  int64_t seen_count;
};

DEVICE bool may_have(const Permitted &p, int64_t item) {
  const bool here = !p.allowed || (p.allowed[item / 64] >> (item % 64) & 1) != 0;
  return here && position(p.seen, p.seen_count, int32_t(item)) < 0;
}

DEVICE Permitted permitted(const StepRecord *step, int32_t exclude, const uint64_t *allowed, int64_t row) {
  if (exclude < 0) return {allowed, nullptr, 0};
  const SparseRecord &batch = step->slots[exclude];
  return {allowed, batch.indices + batch.offsets[row], batch.offsets[row + 1] - batch.offsets[row]};
}

// The best keys of a row so far: k of them, falling, 0 where there are none; and room for the next list.
struct Best {
  uint64_t *list, *other;
  int64_t k;
};

// Merges the falling lists x[0 .. n) and y[0 .. m) into out[0 .. k); what is missing is 0. Every thread finds its places'
// origins by bisection.
DEVICE void merge_lists(const uint64_t *x, int64_t n, const uint64_t *y, int64_t m, uint64_t *out, int64_t k) {
  for (int64_t place = threadIdx.x; place < k; place += kSelectThreads) {
    // i of the first `place` come from x: the fewest such that the next of y is not better than the last of these.
    const int64_t i = first_where(place > m ? place - m : 0, place < n ? place : n,
                                  [&](int64_t first) { return x[first] <= y[place - 1 - first]; });
    const int64_t j = place - i;
    const uint64_t from_x = i < n ? x[i] : 0, from_y = j < m ? y[j] : 0;
    out[place] = from_x > from_y ? from_x : from_y;
  }
}

// Sorts found[0 .. n), falling, by the bitonic network for the next power of two.
DEVICE void sort_found(uint64_t *found, int n) {
  int size = 1;
  while (size < n) size *= 2;
  for (int t = n + threadIdx.x; t < size; t += kSelectThreads) found[t] = 0;
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int t = threadIdx.x; t < size / 2; t += kSelectThreads) {
        const int low = 2 * t - (t & (step - 1)), high = low + step;  // step is a power of two
        const bool falling = (low & run) == 0;
        const uint64_t x = found[low], y = found[high];
        if ((x < y) == falling) found[low] = y, found[high] = x;
      }
      __syncthreads();
    }
  }
}

// In each round every thread of the block may offer a key, if it is better than the least one wanted; 0 is none. Offers are
// collected in shared memory, in any order since no two keys are equal; when that is full they are sorted and merged with the
// list, which in the end is in best.list again.
template <class Offer>
DEVICE void keep_best(const Best &best, int64_t rounds, Offer offer) {
  SHARED(uint64_t, found, [kSelectRoom]);
  SHARED(int, count, [1]);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  bool swapped = false;
  for (int64_t round = 0; round < rounds; round++) {
    const uint64_t key = offer(round, (swapped ? best.other : best.list)[best.k - 1]);
    if (key != 0) found[atomicAdd(&count[0], 1)] = key;
    __syncthreads();
    const int n = count[0];
    const bool full = n > kSelectRoom - kSelectThreads, last = round + 1 == rounds;
    if (!full && !(last && n > 0)) {
      __syncthreads();
      continue;
    }
    sort_found(found, n);
    merge_lists(found, n, swapped ? best.other : best.list, best.k, swapped ? best.list : best.other, best.k);
    swapped = !swapped;
    if (threadIdx.x == 0) count[0] = 0;
    __syncthreads();
  }
  if (swapped)
    for (int64_t place = threadIdx.x; place < best.k; place += kSelectThreads) best.list[place] = best.other[place];
}
