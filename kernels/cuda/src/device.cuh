// What kernels say to the machine: how a kernel is declared, shared memory, and every instruction that C++ has no word for.
// The only file with inline PTX. Each wrapper stands beside a twin in plain C++ that does the same arithmetic, so that the
// very same sources also compile with a host compiler, for the emulator in tests/cudaemu.
//
//   struct ScaleArgs { float *x; int64_t count; float factor; };        // 8-byte fields first: Go lays it out the same
//   KERNEL(scale, ScaleArgs) {
//     const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
//     if (i < a.count) a.x[i] *= a.factor;                              // the arguments are visible as `a`
//   }
//
// The comment above a kernel, or above the template that it is made from, has its mathematics, and lines that begin with
// "Mapping: " (who computes what), "Bytes: " (what is moved in global memory) and "Source: "; tests/architecture looks for them.
// B is the rows of a batch, I the items, K the columns of a weight.
//
// Beside this file, kernels use what NVRTC has built in: threadIdx, blockIdx, blockDim, gridDim, vector types, __syncthreads,
// __syncwarp, __shfl_*_sync, __ballot_sync, __any_sync, __all_sync, atomics on integers (never on floats: sums have a
// fixed order), float32 mathematics, __ldg, bit casts and counts. Conversions between bits and numbers are to be written
// with them, not with pointer casts.
#pragma once
#include "../../kinds.h"

#ifdef __CUDACC__

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

#define DEVICE static __device__ __forceinline__
#define KERNEL(name, Args)                                                              \
  static_assert(sizeof(Args) <= 4000, "arguments of a kernel are at most 4,000 bytes"); \
  extern "C" __global__ void name(const __grid_constant__ Args a)
#define KERNEL_BOUNDS(name, Args, max_threads, min_blocks)                              \
  static_assert(sizeof(Args) <= 4000, "arguments of a kernel are at most 4,000 bytes"); \
  extern "C" __global__ void __launch_bounds__(max_threads, min_blocks) name(const __grid_constant__ Args a)

// SHARED(float, tile, [32][33]); declares an array in shared memory, SHARED(int, count, ); a single value.
#define SHARED(type, name, ...) __shared__ type name __VA_ARGS__

extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];

#else

#include "builtins.h"  // from tests/cudaemu: what NVRTC has built in, and the registration of kernels

#define DEVICE static inline
#define KERNEL(name, Args) KERNEL_BOUNDS(name, Args, 1024, 0)
#define KERNEL_BOUNDS(name, Args, max_threads, min_blocks)                                                  \
  static_assert(sizeof(Args) <= 4000, "arguments of a kernel are at most 4,000 bytes");                     \
  static_assert(std::is_trivially_copyable_v<Args>, "arguments of a kernel are plain values");              \
  static void name(const Args a);                                                                           \
  EMULATOR_UNCHECKED static void name##_entry(const void *args) { name(*static_cast<const Args *>(args)); } \
  static const emulator::Registration name##_registration{#name, sizeof(Args), max_threads, name##_entry};  \
  static void name(const Args a)

#define SHARED(type, name, ...)           \
  using name##_shared = type __VA_ARGS__; \
  static const char name##_key = 0;       \
  name##_shared &name =                   \
      *static_cast<name##_shared *>(emulator::shared(&name##_key, sizeof(name##_shared), alignof(name##_shared)))

#endif

constexpr unsigned kAllLanes = 0xffffffffu;

// The dynamic shared memory of the launch, 16-byte aligned.
template <class T>
DEVICE T *dynamic_shared() {
#ifdef __CUDACC__
  return reinterpret_cast<T *>(dynamic_shared_bytes);
#else
  return static_cast<T *>(emulator::dynamic_shared());
#endif
}

DEVICE int lane_id() { return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31; }
DEVICE int warp_id() { return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) >> 5; }

// Orders this thread's memory accesses before the fence with those after it, as seen by the whole device.
DEVICE void fence() { __threadfence(); }

// ---- memory ----

// Reads and writes of what is used once: they do not push other lines out of the cache. T: 4, 8 or 16 bytes.
template <class T>
DEVICE T load_streaming(const T *p) {
#ifdef __CUDACC__
  return __ldcs(p);
#else
  return *p;
#endif
}

template <class T>
DEVICE void store_streaming(T *p, T value) {
#ifdef __CUDACC__
  __stcs(p, value);
#else
  *p = value;
#endif
}

// Copies from global to shared memory that run beside the thread: `bytes` are read, the rest of the 16, 8 or 4 is filled
// with zeros. Both addresses are aligned to the full size. What was copied may be read after cp_async_wait by the thread
// that asked for it, and by others of the block after a barrier as well.
DEVICE void cp_async_16(void *shared, const void *global, int bytes = 16) {
#ifdef __CUDACC__
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
  emulator::async_copy(shared, global, 16, bytes);
#endif
}

DEVICE void cp_async_8(void *shared, const void *global, int bytes = 8) {
#ifdef __CUDACC__
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
  emulator::async_copy(shared, global, 8, bytes);
#endif
}

DEVICE void cp_async_4(void *shared, const void *global, int bytes = 4) {
#ifdef __CUDACC__
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
  emulator::async_copy(shared, global, 4, bytes);
#endif
}

// Ends a group of copies; cp_async_wait<n> returns when all but the last n groups have arrived.
DEVICE void cp_async_commit() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::async_commit();
#endif
}

template <int pending>
DEVICE void cp_async_wait() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#else
  emulator::async_wait(pending);
#endif
}

// ---- numbers ----

DEVICE float infinity() { return __int_as_float(0x7f800000); }

// Two bfloat16 in a word, each rounded to nearest even; `low` goes to the lower half. NaN becomes 0x7fff.
DEVICE uint32_t to_bf16x2(float low, float high) {
#ifdef __CUDACC__
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return uint32_t(emulator::to_bf16(low)) | uint32_t(emulator::to_bf16(high)) << 16;
#endif
}

DEVICE uint16_t to_bf16(float x) { return uint16_t(to_bf16x2(x, 0.0f)); }
DEVICE float from_bf16(uint16_t x) { return __uint_as_float(uint32_t(x) << 16); }
DEVICE float low_bf16(uint32_t x) { return __uint_as_float(x << 16); }
DEVICE float high_bf16(uint32_t x) { return __uint_as_float(x & 0xffff0000u); }

// The bits of x rounded to TF32's ten bits of mantissa, ties away from zero.
DEVICE uint32_t to_tf32(float x) {
#ifdef __CUDACC__
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  return emulator::to_tf32(x);
#endif
}

// ---- products of a warp ----
// All 32 lanes call together. Lane l holds, with g = l / 4 and t = l % 4, of D[16][8] += A[16][k] B[k][8]:
//   d[0..1] = D[g][2t, 2t + 1], d[2..3] = D[g + 8][2t, 2t + 1]

// k = 16, two bfloat16 a word:
//   a[0] = A[g][2t, 2t + 1], a[1] = A[g + 8][same], a[2] = A[g][2t + 8, 2t + 9], a[3] = A[g + 8][same]
//   b[0] = B[2t, 2t + 1][g], b[1] = B[2t + 8, 2t + 9][g]
DEVICE void mma_bf16_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulator::mma_bf16(d, a, b);
#endif
}

// k = 8, one TF32 a word:
//   a[0] = A[g][t], a[1] = A[g + 8][t], a[2] = A[g][t + 4], a[3] = A[g + 8][t + 4]; b[0] = B[t][g], b[1] = B[t + 4][g]
DEVICE void mma_tf32_16x8x8(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulator::mma_tf32(d, a, b);
#endif
}

// Four 8 x 8 matrices of 16-bit values out of shared memory. Lanes 8 i .. 8 i + 7 give the addresses of the rows of
// matrix i, 16-byte aligned. Lane l receives in r[i] the elements [g][2t, 2t + 1] of matrix i; transposed: [2t, 2t + 1][g].
DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void *row) {
#ifdef __CUDACC__
  const unsigned from = unsigned(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
#else
  emulator::ldmatrix_x4(r, row, false);
#endif
}

DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void *row) {
#ifdef __CUDACC__
  const unsigned from = unsigned(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
#else
  emulator::ldmatrix_x4(r, row, true);
#endif
}

// ---- the whole grid ----

// Waits until all threads of the grid have come here; what they wrote before is visible after. All blocks must fit on the
// device at once. The counter is a word in global memory that was zero before its first use; only the highest bit has a
// meaning between barriers: block 0 adds what is missing to flip it, everyone else adds one, and all wait for the flip.
DEVICE void grid_barrier(unsigned *counter) {
#ifdef __CUDACC__
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    __threadfence();
    const unsigned before = atomicAdd(counter, first ? 0x80000000u - (blocks - 1) : 1u);
    while (((before ^ *static_cast<volatile unsigned *>(counter)) & 0x80000000u) == 0) __nanosleep(32);
    __threadfence();
  }
  __syncthreads();
#else
  emulator::grid_barrier(counter);
#endif
}
