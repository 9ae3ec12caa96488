// The update of a weight, or a part of it, from a gradient that was written before, and perhaps summed over devices.
#include "update.cuh"

struct UpdateWrittenArgs {
  const StepRecord *step;
  const float *gradient;  // [parts, pitch], of elements first .. first + count: the sum of the parts is the gradient
  Weights weight;
  int64_t first, count, parts, pitch;
  int32_t launch;
};

template <int n>
DEVICE void update_part(const UpdateWrittenArgs &a) {
  const StepRecord *step = a.step;
  const Rates rates = rates_of(step, step->number);
  const int64_t apart = int64_t(gridDim.x) * blockDim.x * n;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * n; i < a.count; i += apart) {
    float g[n], part[n];
    read<n>(a.gradient + i, g);
    for (int64_t p = 1; p < a.parts; p++) {
      read<n>(a.gradient + p * a.pitch + i, part);
#pragma unroll
      for (int c = 0; c < n; c++) g[c] += part[c];
    }
    update_elements<n>(step, a.launch, a.weight, rates, (a.first + i) / a.weight.columns, a.first + i, g);
  }
}

// w, state = rule(w, state, gradient), for each of the elements.
//
// Mapping: a thread has four elements at a time, or one where they are not aligned for it.
// Bytes: reads 4 of each part of the gradient, reads and writes 4 (1 + states) of the weight an element: bound by that.
// Source: kernels/ops.go, Update and Output (its bias), and kernels/optimizer.go; scheme: a thread an
// element, as DSSTNE's updates of weights.
KERNEL_BOUNDS(update_written, UpdateWrittenArgs, 256, 4) {
  if (failed_before(a.step, a.launch)) return;
  if (updates_fours(a.weight) && by_fours(a.gradient, a.pitch) && a.count % 4 == 0 && a.first % 4 == 0)
    update_part<4>(a);
  else
    update_part<1>(a);
}

struct ClipArgs {
  const StepRecord *step;
  float *gradients;
  double *squares;  // [blocks]
  int64_t count;
  float limit;
  int32_t launch;
};

constexpr int kClipThreads = 256;

// squares[b] = the sum of the squares of a block's numbers.
//
// Mapping: a thread has each number that is as far from the last as there are threads.
// Bytes: reads 4 a number, which bound it.
// Source: kernels/clip.go; scheme: own.
KERNEL_BOUNDS(clip_sum, ClipArgs, kClipThreads, 4) {
  SHARED(double, sums, [kClipThreads / 32]);
  if (failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t i = int64_t(blockIdx.x) * kClipThreads + threadIdx.x; i < a.count;
       i += int64_t(gridDim.x) * kClipThreads)
    total += double(a.gradients[i]) * double(a.gradients[i]);
  total = warp_sum(total);
  if (lane_id() == 0) sums[warp_id()] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int n = 1; n < kClipThreads / 32; n++) total += sums[n];
  a.squares[blockIdx.x] = total;
}

// The numbers times limit over their norm, where that is above limit.
//
// Mapping: as clip_sum, with as many blocks; each adds up the squares of all.
// Bytes: reads 8 a block of clip_sum, and reads and writes 4 a number.
// Source: kernels/clip.go; scheme: own.
KERNEL_BOUNDS(clip_scale, ClipArgs, kClipThreads, 4) {
  if (failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t b = lane_id(); b < gridDim.x; b += 32) total += a.squares[b];
  const double norm = sqrt(warp_sum(total));
  if (!(norm > double(a.limit))) return;
  const float factor = float(double(a.limit) / norm);
  for (int64_t i = int64_t(blockIdx.x) * kClipThreads + threadIdx.x; i < a.count;
       i += int64_t(gridDim.x) * kClipThreads)
    a.gradients[i] *= factor;
}
