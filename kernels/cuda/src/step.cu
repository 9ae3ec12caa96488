// The beginning of every step.
#include "step.cuh"

struct BeginStepArgs {
  const StepRecord *step;
};

// stopped <- whether an earlier step has failed; losses <- 0. One block; a few words.
KERNEL_BOUNDS(begin_step, BeginStepArgs, 128, 1) {
  const StepRecord *step = a.step;
  if (threadIdx.x == 0 && step->results->failure != 0) step->results->stopped = 1;
  for (int64_t t = threadIdx.x; t < step->terms; t += blockDim.x) step->losses[t] = 0.0;
}
