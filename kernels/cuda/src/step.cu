// The beginning of every step.
#include "step.cuh"

struct BeginStepArgs {
  const StepRecord *step;
};

// stopped <- whether an earlier step has failed; losses <- 0; the rates that the step brings, as a rule its own, go to those of
// the steps before it. One block; a few words.
KERNEL_BOUNDS(begin_step, BeginStepArgs, 128, 1) {
  const StepRecord *step = a.step;
  if (threadIdx.x == 0 && step->results->failure != 0) step->results->stopped = 1;
  for (int64_t t = threadIdx.x; t < step->terms; t += blockDim.x) step->losses[t] = 0.0;
  for (int64_t i = threadIdx.x; i < step->fresh_count; i += blockDim.x)
    step->rates[step->fresh_from + i] = step->fresh_rates[i];
}
