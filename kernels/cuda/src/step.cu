// The beginning of every step, and how the steps of several devices hear of a failure.
#include "step.cuh"

struct BeginStepArgs {
  StepRecord *step;
  StepResults *results;  // of all steps
};

// stopped <- whether an earlier step has failed; otherwise a failure of the step's early operations, which have results of their
// own, becomes the step's; losses <- 0; the rates that the step brings, as a rule its own, go to those of the steps before it.
//
// Mapping: one block, a thread a loss or a step's rates at a time.
// Bytes: a few words: writes 8 a loss, reads and writes 12 a step's rates.
// Source: own; kernels/cuda/record.go has the other side of the record.
KERNEL_BOUNDS(begin_step, BeginStepArgs, 128, 1) {
  StepRecord *step = a.step;
  if (threadIdx.x == 0) {
    if (a.results->failure != 0)
      a.results->stopped = 1;
    else
      a.results->failure = step->results->failure;
    step->results = a.results;
  }
  for (int64_t t = threadIdx.x; t < step->terms; t += blockDim.x) step->losses[t] = 0.0;
  for (int64_t i = threadIdx.x; i < step->fresh_count; i += blockDim.x)
    step->rates[step->fresh_from + i] = step->fresh_rates[i];
}

struct AgreeArgs {
  const StepRecord *step;
  float *well;
  const volatile uint32_t *aborted;  // in the host's memory; may be null
  int32_t ranks, launch;  // launch: of tell_well
};

// well <- 1 if nothing has failed, else 0. The ranks' numbers are added up then. A failure of what may still be under way is
// noticed in the next step.
//
// Mapping: one thread.
// Bytes: reads 8, writes 4.
// Source: kernels/communicator.go, Agree; scheme: own.
KERNEL_BOUNDS(tell_well, AgreeArgs, 32, 1) {
  if (threadIdx.x == 0) *a.well = failed_before(a.step, a.launch) ? 0.0f : 1.0f;
}

// Stops the step unless all ranks are well. A sum that was ended by the host, and sums before it, are worth nothing, whatever
// they are: the host's word is there before it ends them, so that it is read here.
//
// Mapping: one thread.
// Bytes: reads 4, and 4 of the host's memory; writes 16 where a rank is not well.
// Source: kernels/communicator.go, Agree; scheme: own.
KERNEL_BOUNDS(hear_well, AgreeArgs, 32, 1) {
  if (threadIdx.x != 0 || (*a.well == float(a.ranks) && !(a.aborted && *a.aborted))) return;
  StepResults *results = a.step->results;
  if (results->failure == 0) results->failure = kOther;
  results->stopped = 1;
}
