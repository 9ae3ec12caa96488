// What devices that have no library of collectives do for themselves: copies between them are the driver's, the sum is here.
#include "device.cuh"

struct AddPartsArgs {
  float *own;  // [count] this rank's numbers, which become the sums
  const float *parts;  // [ranks - 1, stride] those of the others, in the order of the ranks
  int64_t count, stride;
  int32_t rank, ranks;
};

// own[i] = ((x_0[i] + x_1[i]) + x_2[i]) + ..., in the order of the ranks, so that it does not depend on who adds.
//
// Mapping: a thread has a number at a time.
// Bytes: reads 4 `ranks` for each number and writes 4: bound by memory.
// Source: kernels/communicator.go, AllReduce; scheme: own (a ring, as DSSTNE has it, adds each part in another order).
KERNEL_BOUNDS(add_parts, AddPartsArgs, 256, 6) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += step) {
    float sum = 0.0f;
    for (int rank = 0; rank < a.ranks; rank++) {
      const float x = rank == a.rank ? a.own[i] : a.parts[(rank < a.rank ? rank : rank - 1) * a.stride + i];
      sum = rank == 0 ? x : sum + x;
    }
    a.own[i] = sum;
  }
}
