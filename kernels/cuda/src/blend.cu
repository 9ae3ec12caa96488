// Sums of the scores of several models, standardised row by row: kernels.Moments and kernels.Blend.
#include "rank.cuh"

constexpr int kMomentLanes = 256, kMaxParts = 8;

struct MomentsArgs {
  const StepRecord *step;
  const float *scores;  // [B, items]
  double *out;          // [B, 4]
  int64_t items, slot, first;  // first: how the slot numbers item 0
};

// [count, origin, sum of s - origin, sum of (s - origin)^2] of a row's scores but for those of its stored items.
//
// Mapping: a block has a row, thread l the items l, l + 256, ...; sums are added by halves in shared memory.
// Bytes: reads 4 a score, a second time from the second-level cache where that has room.
// Source: kernels/blend.go, Moments; scheme: own.
KERNEL_BOUNDS(moments, MomentsArgs, kMomentLanes, 4) {
  SHARED(double, sums, [kMomentLanes]);
  SHARED(double, squares, [kMomentLanes]);
  SHARED(unsigned long long, from_origin, [1]);  // items from the origin on, 0: none counts
  SHARED(unsigned long long, count, [1]);
  const int64_t u = blockIdx.x;
  const int lane = threadIdx.x;
  if (u >= a.step->rows) return;
  const Permitted others = permitted(a.step, int32_t(a.slot), nullptr, u);
  const float *score = a.scores + u * a.items;
  if (lane == 0) from_origin[0] = 0, count[0] = 0;
  __syncthreads();
  int64_t found = lane;
  while (found < a.items && !(finite(score[found]) && may_have(others, a.first + found))) found += kMomentLanes;
  if (found < a.items) atomicMax(&from_origin[0], (unsigned long long)(a.items - found));
  __syncthreads();
  const double origin = from_origin[0] > 0 ? double(score[a.items - int64_t(from_origin[0])]) : 0.0;
  double sum = 0.0, square = 0.0;
  unsigned long long counted = 0;
  for (int64_t i = found; i < a.items; i += kMomentLanes) {
    if (!finite(score[i]) || !may_have(others, a.first + i)) continue;
    const double d = double(score[i]) - origin;
    sum += d;
    square = fma(d, d, square);
    counted++;
  }
  sums[lane] = sum, squares[lane] = square;
  if (counted) atomicAdd(&count[0], counted);
  for (int n = kMomentLanes / 2; n > 0; n /= 2) {
    __syncthreads();
    if (lane < n) sums[lane] += sums[lane + n], squares[lane] += squares[lane + n];
  }
  __syncthreads();
  if (lane > 0) return;
  double *out = a.out + 4 * u;
  out[0] = double(count[0]), out[1] = origin, out[2] = sums[0], out[3] = squares[0];
}

struct BlendPart {
  const float *scores;    // [B, items]
  const double *moments;  // [shards, stride, 4]; null: mean 0 and deviation 1
};

struct BlendArgs {
  const StepRecord *step;
  const float *weights;  // [parts]
  float *out;            // [B, items]
  int64_t items, shards, stride;
  int64_t parts;
  BlendPart part[kMaxParts];
};

struct Standard {
  double mean, factor;
};

struct ShardMoments {
  double count, mean, squares;
};

DEVICE ShardMoments shard_moments(const double *at) {
  const double n = at[0];
  if (!(n > 0.0)) return {0.0, 0.0, 0.0};
  return {n, at[1] + at[2] / n, at[3] - at[2] * at[2] / n};
}

// kernels.Blend.Standard.
DEVICE Standard standard_of(const BlendArgs &a, const BlendPart &part, float weight, int64_t u) {
  if (!part.moments) return {0.0, double(weight)};
  double count = 0.0, origin = 0.0, shift = 0.0, squares = 0.0;
  for (int64_t r = 0; r < a.shards; r++) {
    const ShardMoments m = shard_moments(part.moments + 4 * (r * a.stride + u));
    if (count == 0.0) origin = m.mean;
    shift += m.count * (m.mean - origin);
    count += m.count;
  }
  if (count == 0.0) return {0.0, 0.0};
  const double mean = origin + shift / count;
  for (int64_t r = 0; r < a.shards; r++) {
    const ShardMoments m = shard_moments(part.moments + 4 * (r * a.stride + u));
    squares += m.squares + m.count * ((m.mean - mean) * (m.mean - mean));
  }
  if (!(squares > 0.0)) return {mean, 0.0};
  return {mean, double(weight) / sqrt(squares / count)};
}

// out = sum over parts of w / d (s - m), with d and m of the row.
//
// Mapping: block (x, y) has row x and 256 items at a time; a thread has one of them, and threads 0 .. parts the parts' numbers.
// Bytes: reads 4 a score of each part, which bounds it, and writes 4 an item.
// Source: kernels/blend.go, Blend; scheme: own.
KERNEL_BOUNDS(blend, BlendArgs, 256, 4) {
  SHARED(Standard, standard, [kMaxParts]);
  const int64_t u = blockIdx.x;
  if (u >= a.step->rows) return;
  if (int64_t(threadIdx.x) < a.parts)
    standard[threadIdx.x] = standard_of(a, a.part[threadIdx.x], a.weights[threadIdx.x], u);
  __syncthreads();
  for (int64_t i = int64_t(blockIdx.y) * 256 + threadIdx.x; i < a.items; i += int64_t(gridDim.y) * 256) {
    double sum = 0.0;
    for (int64_t p = 0; p < a.parts; p++) {
      const Standard by = standard[p];
      if (by.factor != 0.0) sum = fma(by.factor, double(a.part[p].scores[u * a.items + i]) - by.mean, sum);
    }
    a.out[u * a.items + i] = float(sum);
  }
}
