// Sums of each unit of a layer over the rows of a batch.
#pragma once
#include "step.cuh"

constexpr int kBackwardUnits = 8, kBackwardWarps = 32, kBackwardAtOnce = 4;

// The sum over the threads of a block that have the same unit, for the lanes of the first warp that have one each: by halves of
// a warp, then in the warps' order. All threads call.
DEVICE float sum_of_unit(float sum) {
  SHARED(float, sums, [kBackwardWarps][kBackwardUnits]);
  const int lane = lane_id(), warp = warp_id();
  for (int lanes = 16; lanes >= kBackwardUnits; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  if (lane < kBackwardUnits) sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || lane >= kBackwardUnits) return 0.0f;
  sum = 0.0f;
  for (int i = 0; i < kBackwardWarps; i++) sum += sums[i][lane];
  return sum;
}

// Calls use(u) for the rows that a thread has of its unit: a warp has four neighbouring rows of each 128.
template <class Use>
DEVICE void rows_of_unit(int64_t rows, Use use) {
  constexpr int kRows = 32 / kBackwardUnits;
  for (int64_t u = warp_id() * kRows + lane_id() / kBackwardUnits; u < rows; u += kBackwardWarps * kRows) use(u);
}

// The unit of a thread.
DEVICE int64_t unit_of_thread() { return int64_t(blockIdx.x) * kBackwardUnits + lane_id() % kBackwardUnits; }
