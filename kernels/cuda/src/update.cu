// The update of a whole weight from a gradient that was written before, and perhaps summed over devices.
#include "update.cuh"

struct UpdateWrittenArgs {
  const StepRecord *step;
  const float *gradient;  // [rows, columns]
  Weights weight;         // without a gradient
  int32_t launch;
};

// w, state = rule(w, state, gradient), for every element.
//
// Mapping: a thread has an element at a time.
// Bytes: reads 4 of the gradient, reads and writes 4 (1 + states) of the weight an element: bound by that.
// Source: kernels/ops.go, Update, and kernels/optimizer.go; scheme: a thread an element, as DSSTNE's updates of weights.
KERNEL_BOUNDS(update_written, UpdateWrittenArgs, 256, 8) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t columns = a.weight.columns, count = a.weight.rows * columns;
  const Rates rates = rates_of(step, step->number);
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
    update_element(step, a.launch, a.weight, rates, i / columns, i, a.gradient[i]);
}
