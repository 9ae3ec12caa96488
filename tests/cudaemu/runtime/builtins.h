// What NVRTC has built in, for kernels that are compiled for the host.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "thread.h"

#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

constexpr int warpSize = 32;
#define threadIdx (emulator::place.thread)
#define blockIdx (emulator::place.block)
#define blockDim (emulator::place.block_size)
#define gridDim (emulator::place.grid_size)

// Where the caller stands.
#define EMULATOR_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// ---- barriers and fences ----

static inline void __syncthreads(EMULATOR_HERE) {
  emulator::block_barrier({file, line, "__syncthreads"}, emulator::Vote::none, 0);
}
static inline int __syncthreads_count(int predicate, EMULATOR_HERE) {
  return emulator::block_barrier({file, line, "__syncthreads_count"}, emulator::Vote::count, predicate);
}
static inline int __syncthreads_and(int predicate, EMULATOR_HERE) {
  return emulator::block_barrier({file, line, "__syncthreads_and"}, emulator::Vote::all, predicate);
}
static inline int __syncthreads_or(int predicate, EMULATOR_HERE) {
  return emulator::block_barrier({file, line, "__syncthreads_or"}, emulator::Vote::any, predicate);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATOR_HERE) {
  emulator::sync_warp(mask, {file, line, "__syncwarp"});
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __nanosleep(unsigned) { emulator::yield(); }
static inline void __trap() { emulator::trap(); }

// ---- the lanes of a warp ----

namespace emulator {
template <class T>
static inline T shuffle_value(Shuffle kind, unsigned mask, T value, int parameter, int width, Site site) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "shuffles take numbers of 4 or 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(kind, mask, bits, parameter, width, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace emulator

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATOR_HERE) {
  return emulator::shuffle_value(emulator::Shuffle::from, mask, value, source, width, {file, line, "__shfl_sync"});
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_HERE) {
  return emulator::shuffle_value(emulator::Shuffle::up, mask, value, delta, width, {file, line, "__shfl_up_sync"});
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_HERE) {
  return emulator::shuffle_value(emulator::Shuffle::down, mask, value, delta, width, {file, line, "__shfl_down_sync"});
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMULATOR_HERE) {
  return emulator::shuffle_value(emulator::Shuffle::across, mask, value, lanes, width, {file, line, "__shfl_xor_sync"});
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATOR_HERE) {
  return emulator::ballot(mask, predicate, {file, line, "__ballot_sync"});
}
static inline int __any_sync(unsigned mask, int predicate, EMULATOR_HERE) {
  return emulator::ballot(mask, predicate, {file, line, "__any_sync"}) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, EMULATOR_HERE) {
  return emulator::ballot(mask, predicate, {file, line, "__all_sync"}) == mask;
}
template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value, EMULATOR_HERE) {
  return unsigned(
      emulator::shuffle_value(emulator::Shuffle::match, mask, value, 0, 32, {file, line, "__match_any_sync"}));
}

// ---- bits ----

template <class To, class From>
static inline To emulator_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
static inline int __float_as_int(float x) { return emulator_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulator_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulator_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulator_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulator_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulator_bits<double>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
static inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((uint64_t(high) << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t(y) << 32 | x;
  unsigned picked = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned s = selector >> 4 * i & 15;
    const unsigned byte = unsigned(bytes >> 8 * (s & 7)) & 255;
    picked |= ((s & 8) ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return picked;
}

// ---- numbers ----

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
#define expf emulator::exp_near
#define exp2f emulator::exp2_near
#define expm1f emulator::expm1_near
#define logf emulator::log_near
#define log2f emulator::log2_near
#define log1pf emulator::log1p_near
#define tanhf emulator::tanh_near
#define normcdff emulator::normcdf_near
#define powf emulator::pow_near
#define rsqrtf emulator::rsqrt_near
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float emulator_fast_expf(float x) { return expf(x); }
static inline float emulator_fast_logf(float x) { return logf(x); }
static inline float emulator_fast_powf(float x, float y) { return powf(x, y); }
#define __expf emulator_fast_expf  // the C library has functions of these names
#define __logf emulator_fast_logf
#define __powf emulator_fast_powf
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline int __float2int_rn(float x) { return int(lrintf(x)); }
static inline int __float2int_rz(float x) { return int(x); }
static inline float __double2float_rn(double x) { return float(x); }
static inline float __int2float_rn(int x) { return float(x); }
static inline float __uint2float_rn(unsigned x) { return float(x); }

#define EMULATOR_MINMAX(T)                                \
  static inline T min(T a, T b) { return b < a ? b : a; } \
  static inline T max(T a, T b) { return a < b ? b : a; }
EMULATOR_MINMAX(int)
EMULATOR_MINMAX(unsigned)
EMULATOR_MINMAX(long)
EMULATOR_MINMAX(unsigned long)
EMULATOR_MINMAX(long long)
EMULATOR_MINMAX(unsigned long long)
#undef EMULATOR_MINMAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

// ---- memory ----

template <class T>
static inline T __ldg(const T *p) {
  return *p;
}

// Atomics are on integers only: a sum of floats in no fixed order does not compile here.
#define EMULATOR_ATOMIC(name, T, change)                                                           \
  static inline T name(T *p, T value) {                                                            \
    emulator::check_atomic(p, sizeof(T));                                                          \
    return emulator::atomic_update<T>(p, [value]([[maybe_unused]] T old) -> T { return change; }); \
  }
#define EMULATOR_ATOMICS(T)                                                                          \
  EMULATOR_ATOMIC(atomicAdd, T, old + value)                                                         \
  EMULATOR_ATOMIC(atomicMax, T, old < value ? value : old)                                           \
  EMULATOR_ATOMIC(atomicMin, T, value < old ? value : old)                                           \
  EMULATOR_ATOMIC(atomicExch, T, value)                                                              \
  EMULATOR_ATOMIC(atomicAnd, T, old &value)                                                          \
  EMULATOR_ATOMIC(atomicOr, T, old | value)                                                          \
  EMULATOR_ATOMIC(atomicXor, T, old ^ value)                                                         \
  static inline T atomicCAS(T *p, T expected, T value) {                                             \
    emulator::check_atomic(p, sizeof(T));                                                            \
    return emulator::atomic_update<T>(p, [=](T old) -> T { return old == expected ? value : old; }); \
  }
EMULATOR_ATOMICS(int)
EMULATOR_ATOMICS(unsigned)
EMULATOR_ATOMICS(long long)
EMULATOR_ATOMICS(unsigned long long)
EMULATOR_ATOMICS(unsigned long)
static inline int atomicSub(int *p, int value) { return atomicAdd(p, -value); }
static inline unsigned atomicSub(unsigned *p, unsigned value) { return atomicAdd(p, 0u - value); }
