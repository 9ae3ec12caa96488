// The sparse input: sums of weight rows, and their updates.
#include "epilogue.cuh"
#include "update.cuh"

struct GatherArgs {
  const StepRecord *step;
  const float *weight;  // [I, columns]
  float *out;           // [B, columns]
  int64_t columns;
  Epilogue epilogue;
  int32_t slot, accumulate, launch;
};

// h_u = sum over the stored entries j of row u of x_uj W[j, :], in rising j; then bias, activation, dropout.
//
// Mapping: block (x, y) has columns 128 x .. of row y of the batch; a thread has one column, so that a warp reads 128 bytes of a
// weight row at a time, four rows under way.
// Bytes: reads nnz K 4 of W and writes B K 4: bound by them.
// Source: kernels/ops.go, Gather; scheme: as DSSTNE's kCalculateSparseZ, whose warps too go along weight rows, without its lists
// in shared memory.
KERNEL_BOUNDS(gather, GatherArgs, 128, 8) {
  const StepRecord *step = a.step;
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (k >= a.columns || u >= step->rows || failed_before(step, a.launch)) return;
  const SparseRecord &batch = step->slots[a.slot];
  float sum = a.accumulate ? a.out[u * a.columns + k] : 0.0f;
  int64_t e = batch.offsets[u];
  const int64_t end = batch.offsets[u + 1];
  for (; e + 4 <= end; e += 4) {
    float w[4];
    for (int i = 0; i < 4; i++) w[i] = __ldg(a.weight + batch.indices[e + i] * a.columns + k);
    for (int i = 0; i < 4; i++) sum = fmaf(batch.values[e + i], w[i], sum);
  }
  for (; e < end; e++) sum = fmaf(batch.values[e], __ldg(a.weight + batch.indices[e] * a.columns + k), sum);
  a.out[u * a.columns + k] = finish_unit(step, a.epilogue, u, k, sum);
}

struct ScatterArgs {
  const StepRecord *step;
  const float *dz;    // [B, columns]
  const float *tied;  // [touched items, columns], may be null
  Weights weight;
  int32_t slot, launch;
};

// dW[j, :] = sum over the rows u with item j of x_uj dz[u, :], in rising u, plus the output layer's part where the weight is
// tied; then the update of row j. Rows that the batch does not touch are not looked at.
//
// Mapping: block (x, y) has columns 128 x .. of the batch's item number y. An item is one block's alone, so no two add to the
// same number.
// Bytes: reads nnz K 4 of dz, mostly from the second-level cache, and reads and writes the touched rows of W and its states:
// bound by these.
// Source: kernels/ops.go, Scatter; scheme: as DSSTNE's kCalculateSparseTransposedWeightGradient, which has a block for every
// item, touched or not, and stores the gradient.
KERNEL_BOUNDS(scatter, ScatterArgs, 128, 8) {
  const StepRecord *step = a.step;
  const SparseRecord &batch = step->slots[a.slot];
  const int64_t columns = a.weight.columns;
  const int64_t k = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= columns || failed_before(step, a.launch)) return;
  const Rates rates = rates_of(step, step->number);
  for (int64_t n = blockIdx.y; n < batch.item_count; n += gridDim.y) {
    float sum = 0.0f;
    for (int64_t e = batch.item_offsets[n]; e < batch.item_offsets[n + 1]; e++)
      sum = fmaf(batch.item_values[e], a.dz[batch.item_rows[e] * columns + k], sum);
    if (a.tied) sum += a.tied[n * columns + k];
    const int64_t row = batch.items[n];
    update_element(step, a.launch, a.weight, rates, row, row * columns + k, sum);
    if (k == 0 && a.weight.last && !a.weight.gradient) a.weight.last[row] = int32_t(step->number);
  }
}

struct ReplayArgs {
  const StepRecord *step;
  Weights weight;
  int32_t slot;  // -1: all rows, up to the step; else the rows that its batch touches, up to the step before
  int32_t launch;
};

// The steps that a row has missed, each with gradient zero and the rates of its time. A row without decay whose states are all
// zero stays as it is.
//
// Mapping: a warp has a row: it reads the row and its states, makes all missed steps in registers, 32 columns at a time, and
// writes them once.
// Bytes: reads the states of a row that is behind, unless there is decay; reads and writes 4 (1 + states) K of one that moves:
// bound by that for few missed steps and by arithmetic for many.
// Source: kernels/ops.go, Replay; scheme: own.
KERNEL_BOUNDS(replay, ReplayArgs, 256, 4) {
  const StepRecord *step = a.step;
  const Weights &w = a.weight;
  if (failed_before(step, a.launch)) return;
  const int64_t count = a.slot < 0 ? w.rows : step->slots[a.slot].item_count;
  const int64_t upto = a.slot < 0 ? step->number : step->number - 1;
  const int states = states_of(w.optimizer.kind), lane = lane_id();
  for (int64_t n = int64_t(blockIdx.x) * 8 + warp_id(); n < count; n += int64_t(gridDim.x) * 8) {
    const int64_t row = a.slot < 0 ? n : step->slots[a.slot].items[n];
    const int64_t last = w.last[row];
    if (last >= upto) continue;
    bool moves = w.optimizer.decay != 0.0f;
    for (int64_t first = 0; first < w.columns && !moves; first += 32) {
      const int64_t at = row * w.columns + first + lane;
      const bool inside = first + lane < w.columns;
      bool state = inside && states > 0 && w.state[0][at] != 0.0f;
      state = state || (inside && states > 1 && w.state[1][at] != 0.0f);
      moves = __any_sync(kAllLanes, state);
    }
    if (moves) {
      for (int64_t k = lane; k < w.columns; k += 32) {
        const int64_t at = row * w.columns + k;
        float value = w.value[at], s0 = states > 0 ? w.state[0][at] : 0.0f, s1 = states > 1 ? w.state[1][at] : 0.0f;
        bool good = true;
        for (int64_t number = last + 1; number <= upto && good; number++) {
          float v = value, x = s0, y = s1;
          apply_rule(w.optimizer, rates_of(step, number), 0.0f, v, x, y);
          good = finite(v) && finite(x) && finite(y);
          if (good) value = v, s0 = x, s1 = y;
        }
        if (!good) fail(step, a.launch, kFailWeight, row);
        w.value[at] = value;
        if (states > 0) w.state[0][at] = s0;
        if (states > 1) w.state[1][at] = s1;
      }
    }
    __syncwarp(kAllLanes);
    if (lane == 0) w.last[row] = int32_t(upto);
  }
}
