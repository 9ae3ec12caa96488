// Kernels that show what the emulator offers: each uses one thing that a graphics processor has and a loop has not.
#include "device.cuh"

struct SumArgs {
  const float *x;
  float *sums;
  int64_t count;
};

// Sum of each block's share, by halving in shared memory.
KERNEL_BOUNDS(example_tiled_sum, SumArgs, 256, 2) {
  SHARED(float, tile, [256]);
  const int t = threadIdx.x;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + t;
  tile[t] = i < a.count ? __ldg(a.x + i) : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) tile[t] += tile[t + half];
    __syncthreads();
  }
  if (t == 0) a.sums[blockIdx.x] = tile[0];
}

struct ScanArgs {
  const int *x;
  int *scanned;
  int64_t count;
};

// Inclusive prefix sums of each warp's 32 values.
KERNEL(example_warp_scan, ScanArgs) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  int value = i < a.count ? a.x[i] : 0;
  for (int step = 1; step < 32; step *= 2) {
    const int lower = __shfl_up_sync(kAllLanes, value, step);
    if (lane_id() >= step) value += lower;
  }
  if (i < a.count) a.scanned[i] = value;
}

struct ProductArgs {
  const uint16_t *left;   // [m, k] bfloat16
  const uint16_t *right;  // [n, k] bfloat16
  float *product;         // [m, n]
  int32_t m, n, k;        // multiples of 16, 8, 16
};

// One 16 x 8 tile of left * right^T a warp, k in steps of 16 through shared memory, the next step on its way meanwhile.
KERNEL_BOUNDS(example_bf16_product, ProductArgs, 32, 4) {
  SHARED(uint16_t, left, [2][16][24]);  // 24: rows 48 bytes apart, so that ldmatrix meets no bank twice
  SHARED(uint16_t, right, [2][8][24]);
  const int lane = lane_id();
  const int row = blockIdx.y * 16, column = blockIdx.x * 8;
  auto fetch = [&](int stage, int k) {
    cp_async_16(&left[stage][lane / 2][lane % 2 * 8], a.left + int64_t(row + lane / 2) * a.k + k + lane % 2 * 8);
    if (lane < 16)
      cp_async_16(&right[stage][lane / 2][lane % 2 * 8], a.right + int64_t(column + lane / 2) * a.k + k + lane % 2 * 8);
    cp_async_commit();
  };
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  fetch(0, 0);
  for (int k = 0; k < a.k; k += 16) {
    const int stage = k / 16 % 2;
    if (k + 16 < a.k) {
      fetch(1 - stage, k + 16);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    uint32_t fragment[4];
    ldmatrix_x4(fragment, &left[stage][lane % 16][lane / 16 * 8]);
    const int g = lane / 4, t = lane % 4;
    uint32_t other[2] = {*reinterpret_cast<const uint32_t *>(&right[stage][g][2 * t]),
                         *reinterpret_cast<const uint32_t *>(&right[stage][g][2 * t + 8])};
    mma_bf16_16x8x16(sums, fragment, other);
    __syncthreads();
  }
  const int g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; i++) a.product[int64_t(row + g + i / 2 * 8) * a.n + column + 2 * t + i % 2] = sums[i];
}

struct FloatProductArgs {
  const float *left;   // [16, k]
  const float *right;  // [8, k]
  float *product;      // [16, 8]
  int32_t k;           // a multiple of 8
};

// The same for one tile in TF32, straight from global memory.
KERNEL(example_tf32_product, FloatProductArgs) {
  const int lane = lane_id(), g = lane / 4, t = lane % 4;
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int k = 0; k < a.k; k += 8) {
    const float *left = a.left + k, *right = a.right + k;
    const uint32_t fragment[4] = {to_tf32(left[g * a.k + t]), to_tf32(left[(g + 8) * a.k + t]),
                                  to_tf32(left[g * a.k + t + 4]), to_tf32(left[(g + 8) * a.k + t + 4])};
    const uint32_t other[2] = {to_tf32(right[g * a.k + t]), to_tf32(right[g * a.k + t + 4])};
    mma_tf32_16x8x8(sums, fragment, other);
  }
  for (int i = 0; i < 4; i++) a.product[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

struct NeighborArgs {
  float *front, *back;  // [blocks * threads]
  unsigned *counter;
  int32_t steps;
};

// Steps of x[i] = (x[i - 1] + x[i + 1]) / 2 around a ring, the whole grid in step.
KERNEL_BOUNDS(example_grid_steps, NeighborArgs, 128, 1) {
  const int count = gridDim.x * blockDim.x;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float *from = a.front, *to = a.back;
  for (int step = 0; step < a.steps; step++) {
    to[i] = 0.5f * (from[(i + count - 1) % count] + from[(i + 1) % count]);
    emulator::grid_barrier(a.counter);
    float *const next = from;
    from = to;
    to = next;
  }
}

struct MultiplyAddArgs {
  float *x;
  int64_t count;
  int32_t times;
  float factor, summand;
};

// Arithmetic without any waiting.
KERNEL(example_multiply_add, MultiplyAddArgs) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  float x = a.x[i];
  for (int step = 0; step < a.times; step++) x = fmaf(x, a.factor, a.summand);
  a.x[i] = x;
}

struct HistogramArgs {
  const int *x;
  unsigned *counts;  // [bins]
  int64_t count;
  int32_t bins;
};

// Counts in dynamic shared memory, then added to global memory.
KERNEL(example_histogram, HistogramArgs) {
  unsigned *const local = dynamic_shared<unsigned>();
  for (int bin = threadIdx.x; bin < a.bins; bin += blockDim.x) local[bin] = 0;
  __syncthreads();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < a.count) atomicAdd(local + a.x[i], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < a.bins; bin += blockDim.x) atomicAdd(a.counts + bin, local[bin]);
}

struct FunctionArgs {
  const float *x;
  float *y;
  int64_t count;
  int32_t function;
};

// Functions of float32 that devices have.
KERNEL(example_functions, FunctionArgs) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  const float x = a.x[i];
  switch (a.function) {
    case 0:
      a.y[i] = expf(x);
      break;
    case 1:
      a.y[i] = expm1f(x);
      break;
    case 2:
      a.y[i] = logf(x);
      break;
    case 3:
      a.y[i] = log1pf(x);
      break;
    default:
      a.y[i] = tanhf(x);
  }
}
