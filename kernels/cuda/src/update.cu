// The update of a weight, or a part of it, from a gradient that was written before, and perhaps summed over devices.
#include "update.cuh"

struct UpdateWrittenArgs {
  const StepRecord *step;
  const float *gradient;  // [count], of elements first .. first + count
  Weights weight;
  int64_t first, count;
  int32_t launch;
};

// w, state = rule(w, state, gradient), for each of the elements.
//
// Mapping: a thread has an element at a time.
// Bytes: reads 4 of the gradient, reads and writes 4 (1 + states) of the weight an element: bound by that.
// Source: kernels/ops.go, Update and Output (its bias), and kernels/optimizer.go; scheme: a thread an
// element, as DSSTNE's updates of weights.
KERNEL_BOUNDS(update_written, UpdateWrittenArgs, 256, 8) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const Rates rates = rates_of(step, step->number);
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += int64_t(gridDim.x) * blockDim.x)
    update_element(step, a.launch, a.weight, rates, (a.first + i) / a.weight.columns, a.first + i, a.gradient[i]);
}
