// The learning rates of a run's steps.
#include "step.cuh"

struct KeepRatesArgs {
  const StepRecord *step;
};

// Puts the rates that a step brings, as a rule its own, to those of the steps before it. One block; a few bytes.
KERNEL_BOUNDS(keep_rates, KeepRatesArgs, 128, 1) {
  const StepRecord *step = a.step;
  for (int64_t i = threadIdx.x; i < step->fresh_count; i += blockDim.x)
    step->rates[step->fresh_from + i] = step->fresh_rates[i];
}
