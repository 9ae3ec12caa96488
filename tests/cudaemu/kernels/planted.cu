// Kernels with one mistake each, chosen by an argument: what the emulator has to find. Mistake 0 is none.
#include "device.cuh"

struct PlantedArgs {
  float *x;
  float *y;
  int64_t count;  // of x and of y
  int32_t mistake;
};

// y[i] = x[count - 1 - i], one block, through shared memory.
KERNEL_BOUNDS(planted_reverse, PlantedArgs, 256, 1) {
  SHARED(float, tile, [256]);
  const int t = threadIdx.x, last = int(a.count) - 1;
  switch (a.mistake) {
    case 1:
      tile[t] = a.x[t + 1];
      break;          // one beyond the end
    case 2:
      tile[t] = a.x[t - 1];
      break;          // one before the beginning
    case 3:
      tile[t] = *reinterpret_cast<const float *>(reinterpret_cast<const char *>(a.x) + 2 + 4 * (t / 2));
      break;
    case 4:
      if (t != 7) tile[t] = a.x[t];
      break;  // one element of shared memory is left as it was
    case 5:
      tile[t + 1] = a.x[t];
      break;          // beyond the shared array
    default:
      tile[t] = a.x[t];
  }
  if (a.mistake == 6 && t == 5) return;  // before a barrier
  if (a.mistake == 7) {
    if (t < 32)
      __syncthreads();
    else
      __syncthreads();  // two barriers
  } else if (a.mistake != 8) {  // 8: none
    __syncthreads();
  }
  float value = tile[last - t];
  if (a.mistake == 9) value = tile[0], tile[t] = value;  // written while others read
  if (a.mistake == 10) value += __shfl_down_sync(0x0000ffffu, value, 1);  // half of the lanes do not take part
  if (a.mistake == 11 && t < 16) value += __shfl_xor_sync(kAllLanes, value, 1);  // the other half never comes
  if (a.mistake == 12) __trap();
  if (a.mistake == 13) *reinterpret_cast<float *>(a.count - 51) = value;
  a.y[t] = value;
}

// The same copy with cp.async, which has to be waited for.
KERNEL(planted_async, PlantedArgs) {
  SHARED(float, tile, [64]);
  const int t = threadIdx.x;
  emulator::async_copy(&tile[t], a.x + t + (a.mistake == 2), 4, 4);
  cp_async_commit();
  if (a.mistake != 1) cp_async_wait<0>();
  __syncthreads();
  a.y[t] = tile[63 - t];
}

// Loads and stores of 8 and 16 bytes.
KERNEL(planted_vectors, PlantedArgs) {
  const int t = threadIdx.x;
  const float4 four = reinterpret_cast<const float4 *>(a.x)[t + (a.mistake == 1)];
  float *const to = a.y + 4 * t + (a.mistake == 2 ? 2 : 0);
  *reinterpret_cast<float4 *>(to) = four;
}

struct WaitArgs {
  unsigned *flag;
  unsigned *counter;
  int32_t mistake;
};

// All blocks wait for the last one; that works only if all fit on the device.
KERNEL(planted_grid, WaitArgs) {
  if (a.mistake == 1 && blockIdx.x == 1) return;
  if (a.mistake == 2) {
    while (*static_cast<volatile unsigned *>(a.flag) == 0) __nanosleep(10);
  }
  emulator::grid_barrier(a.counter);
}

// Each block adds its part of x to its own part of y, or to what others touch, too.
KERNEL(planted_blocks, PlantedArgs) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  a.y[i] = a.x[i];
  if (a.mistake == 1) a.y[threadIdx.x] = 1;  // all blocks write the same
  if (a.mistake == 2) a.y[i] += a.y[(i + blockDim.x) % a.count];  // of a block that may not have written yet
  if (a.mistake == 3 && blockIdx.x > 0) a.y[i] = a.y[i - blockDim.x];  // of one that may not have been there
}

// Results that need a warp's lanes to see each other's stores to shared memory.
KERNEL(planted_warp, PlantedArgs) {
  SHARED(float, tile, [64]);
  const int t = threadIdx.x;
  tile[t] = a.x[t];
  if (a.mistake == 0) __syncwarp();
  a.y[t] = tile[a.mistake == 2 ? t & ~1 : t ^ 1];  // 2: the threads' order here makes it come out right
}
