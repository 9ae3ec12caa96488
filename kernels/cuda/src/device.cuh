// What kernels say to the machine: how a kernel is declared, shared memory, and every instruction that C++ has no word for.
// The only file with inline PTX. Each wrapper stands beside a twin in plain C++ that does the same arithmetic, so that the
// very same sources also compile with a host compiler, for the emulator in tests/cudaemu.
//
//   struct ScaleArgs { float *x; int64_t count; float factor; };        // 8-byte fields first: Go lays it out the same
//   KERNEL_BOUNDS(scale, ScaleArgs, 256, 4) {                           // at most 256 threads, 4 blocks a multiprocessor
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
#define DEVICE_CALL static __device__ __noinline__
#define KERNEL_BOUNDS(name, Args, max_threads, min_blocks)                              \
  static_assert(sizeof(Args) <= 4000, "arguments of a kernel are at most 4,000 bytes"); \
  extern "C" __global__ void __launch_bounds__(max_threads, min_blocks) name(const __grid_constant__ Args a)

// SHARED(float, tile, [32][33]); declares an array in shared memory, SHARED(int, count, ); a single value.
#define SHARED(type, name, ...) __shared__ type name __VA_ARGS__

extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];

#else

#include "builtins.h"  // from tests/cudaemu: what NVRTC has built in, and the registration of kernels

#define DEVICE static inline
#define DEVICE_CALL static inline
#define KERNEL(name, Args) KERNEL_BOUNDS(name, Args, 1024, 0)  // for tests
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

// ---- memory ----

// Copies 16 bytes from global to shared memory beside the thread: the first `bytes` are read, the others become zeros. Both
// addresses are aligned to 16. The thread that asked for a copy may read it after cp_async_wait, the others of the block after
// a barrier as well.
DEVICE void cp_async_16(void *shared, const void *global, int bytes = 16) {
#ifdef __CUDACC__
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
  emulator::async_copy(shared, global, 16, bytes);
#endif
}

// A word that a launch reads while another one, in another stream, may raise it: which value it gets must not matter.
DEVICE void raise(unsigned long long *word, unsigned long long value) {
#ifdef __CUDACC__
  atomicMax(word, value);
#else
  emulator::atomic_update<unsigned long long>(word, [=](unsigned long long old) { return old < value ? value : old; });
#endif
}

DEVICE unsigned long long old_or_new(const unsigned long long *word) {
#ifdef __CUDACC__
  return *word;
#else
  return emulator::unordered_load(word);
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

// Numbers that lie beside each other, four of them at an address that is aligned to 16.
template <int n>
DEVICE void read(const float *from, float (&x)[n]) {
  static_assert(n == 1 || n == 4, "");
  if constexpr (n == 4) {
    const float4 four = *reinterpret_cast<const float4 *>(from);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else {
    x[0] = *from;
  }
}

template <int n>
DEVICE void write(float *to, const float (&x)[n]) {
  static_assert(n == 1 || n == 4, "");
  if constexpr (n == 4)
    *reinterpret_cast<float4 *>(to) = make_float4(x[0], x[1], x[2], x[3]);
  else
    *to = x[0];
}

// Brings what lies at an address into the second-level cache.
DEVICE void prefetch(const void *at) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

// Whether rows of a matrix at an address may be read by fours.
DEVICE bool by_fours(const void *at, int64_t columns) {
  return columns % 4 == 0 && reinterpret_cast<uint64_t>(at) % 16 == 0;
}

// ---- numbers ----

DEVICE float infinity() { return __int_as_float(0x7f800000); }

// x without the numbers below the normal ones, which products in bfloat16 take for zero.
DEVICE float normal(float x) {
#ifdef __CUDACC__
  float y;
  asm("mul.ftz.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));  // by 1
  return y;
#else
  return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x;
#endif
}

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

// A finite number of float16.
DEVICE float from_half(uint16_t x) {
#ifdef __CUDACC__
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
#else
  return copysignf(__uint_as_float(uint32_t(x & 0x7fff) << 13) * 0x1p112f, x >> 15 ? -1.0f : 1.0f);
#endif
}

// Four numbers in bfloat16, for products, at an address that is aligned to 8.
DEVICE void write_four(uint16_t *to, const float (&x)[4]) {
  *reinterpret_cast<uint2 *>(to) =
      make_uint2(to_bf16x2(normal(x[0]), normal(x[1])), to_bf16x2(normal(x[2]), normal(x[3])));
}

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

// 2^x and 1 / x by the units that approximate them, to 2 and 1 units in the last place; results below the smallest normal
// float32 may be zero. Many times as fast as exp2f and a division.
DEVICE float exp2_fast(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

DEVICE float reciprocal_fast(float x) {
#ifdef __CUDACC__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
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

// ---- what threads do together, and searches ----

// The sum of x over the warp, by halves; every lane gets it.
template <class T>
DEVICE T warp_sum(T x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}

// The first place from low to high where `holds` is true, which it is from there on; high if it is nowhere.
template <class Holds>
DEVICE int64_t first_where(int64_t low, int64_t high, Holds holds) {
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
