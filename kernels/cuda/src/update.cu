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
// A thread has an element at a time. Reads the gradient, reads and writes the weight and its states once: bound by that.
KERNEL_BOUNDS(update_written, UpdateWrittenArgs, 256, 8) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t columns = a.weight.columns, count = a.weight.rows * columns;
  const Rates rates = rates_of(step, step->number);
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
    update_element(step, a.launch, a.weight, rates, i / columns, i, a.gradient[i]);
}
