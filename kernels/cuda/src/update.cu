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
