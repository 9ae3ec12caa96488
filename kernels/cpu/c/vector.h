/* vector.h: vectors of LANES floats for the instruction set of the including file, and the functions of one number that
 * activations and losses are made of. Bits are the same wherever a function is inlined: contraction is off, and fused
 * multiply-add is always written out. (gcc contracts nothing under -std=c11, which cgo lets us set; clang is told so.) */
#define _GNU_SOURCE
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
#include <float.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define UNUSED __attribute__((unused))
#define VECTOR_BYTES (LANES * 4)

typedef float vf __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf_any __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double vd8 __attribute__((vector_size(64)));
typedef double vd4 __attribute__((vector_size(32)));
typedef double vd2 __attribute__((vector_size(16)));
typedef float vf8 __attribute__((vector_size(32)));
typedef float vf8_any __attribute__((vector_size(32), aligned(4), may_alias));

INLINE vf load(const float *p) { return *(const vf_any *)p; }
INLINE void store(float *p, vf x) { *(vf_any *)p = x; }
/* The first n lanes, where there may be fewer than LANES; the others are 0. */
INLINE vf load_some(const float *p, int64_t n) {
  float x[LANES] = {0};
  if (n >= LANES) return load(p);
  memcpy(x, p, n * 4);
  return load(x);
}
INLINE void store_some(float *p, vf x, int64_t n) {
  float some[LANES];
  if (n >= LANES) {
    store(p, x);
    return;
  }
  store(some, x);
  memcpy(p, some, n * 4);
}
/* Numbers of 2 bytes as floats, which are the same numbers. */
typedef uint16_t vh_any __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef uint32_t vw __attribute__((vector_size(VECTOR_BYTES)));
INLINE vf load_bfloat16(const uint16_t *p) { return (vf)(__builtin_convertvector(*(const vh_any *)p, vw) << 16); }
INLINE vf load_float16(const uint16_t *p) {
  const vw half = __builtin_convertvector(*(const vh_any *)p, vw), magnitude = (half & 0x7fff) << 13;
  /* The exponent's bias is 112 less; numbers without a leading bit get one for the subtraction, which is exact. */
  const vw normal = magnitude + (112u << 23), small = (vw)((vf)(magnitude + (113u << 23)) - 0x1p-14f);
  const vw is_small = (vw)(magnitude < 1u << 23);
  return (vf)((small & is_small) | (normal & ~is_small) | (half & 0x8000) << 16);
}
INLINE vf splat(float x) { return x - (vf){0}; }
INLINE vi splat_int(int32_t x) { return x - (vi){0}; }
INLINE vf select_(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
/* The larger and the smaller of two; b where one of them is NaN. */
INLINE vf maximum(vf a, vf b);
INLINE vf minimum(vf a, vf b);
INLINE vf absolute(vf a) { return (vf)((vi)a & 0x7fffffff); }

#if LANES >= 8
#include <immintrin.h>
#if LANES == 16
#define MM(operation) _mm512_##operation
typedef __m512 mm;
typedef __m512i mmi;
INLINE int any(vi mask) { return _mm512_test_epi32_mask((mmi)mask, (mmi)mask) != 0; }
INLINE uint32_t mask_bits(vi mask) { return _mm512_movepi32_mask((mmi)mask); }
#else
#define MM(operation) _mm256_##operation
typedef __m256 mm;
typedef __m256i mmi;
INLINE int any(vi mask) { return _mm256_movemask_ps((mm)mask) != 0; }
INLINE uint32_t mask_bits(vi mask) { return (uint32_t)_mm256_movemask_ps((mm)mask); }
#endif
INLINE vf fma_(vf a, vf b, vf c) { return (vf)MM(fmadd_ps)((mm)a, (mm)b, (mm)c); }
INLINE vf square_root(vf a) { return (vf)MM(sqrt_ps)((mm)a); }
INLINE vf maximum(vf a, vf b) { return (vf)MM(max_ps)((mm)a, (mm)b); }
INLINE vf minimum(vf a, vf b) { return (vf)MM(min_ps)((mm)a, (mm)b); }
#elif defined(__aarch64__)
#include <arm_neon.h>
INLINE vf fma_(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
INLINE vf square_root(vf a) { return (vf)vsqrtq_f32((float32x4_t)a); }
INLINE int any(vi mask) { return vmaxvq_u32((uint32x4_t)mask) != 0; }
#else
#define FUSED 0
INLINE vf fma_(vf a, vf b, vf c) { return a * b + c; }
INLINE vf square_root(vf a) {
  for (int i = 0; i < LANES; i++) a[i] = sqrtf(a[i]);
  return a;
}
INLINE int any(vi mask) { return (mask[0] | mask[1] | mask[2] | mask[3]) != 0; }
#endif

#if LANES == 4
INLINE uint32_t mask_bits(vi mask) { return (uint32_t)((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8)); }
INLINE vf maximum(vf a, vf b) { return select_(a > b, a, b); }
INLINE vf minimum(vf a, vf b) { return select_(a < b, a, b); }
#endif

#ifndef FUSED
#define FUSED 1 /* fma_ rounds once */
#endif

/* Sum of the lanes, by halves, in double. */
INLINE double sum_lanes(vf x) {
  double lane[LANES];
  for (int i = 0; i < LANES; i++) lane[i] = x[i];
  for (int n = LANES / 2; n; n /= 2)
    for (int i = 0; i < n; i++) lane[i] += lane[i + n];
  return lane[0];
}

/* All ones where x is finite. */
INLINE vi is_finite(vf x) { return (x - x) == (vf){0}; }
/* 0 where x is finite, else the bits of a NaN; those of several vectors can be joined by |. */
INLINE vi residue(vf x) { return (vi)(x - x); }
/* All ones where one of the joined vectors was not finite. */
INLINE vi not_finite(vi residues) { return (vf)residues != (vf){0}; }

INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* exp(y) for y from -87.3 to 88.3, NaN for NaN: y = n ln2 + r, |r| <= ln2 / 2; the polynomial is the minimax one of degree
 * six for the relative error with its first two coefficients 1 (3e-9 before rounding). float32's ln2 is off by 2e-9 only, so
 * that leaving its remainder out, as losses do, costs 0.03 ULP for each unit of |y|. The sigmoid made of it is within
 * 2.2 ULP and tanh within 1.5, see accuracy_test.go. */
INLINE vf exponential_inside(vf y, const int exact) {
  /* Adding 1.5 * 2^23 + 127 rounds to the nearest integer and leaves n + 127, the exponent of 2^n, in the low bits. */
  const vf magic = splat(12583039.0f);
  vf shifted = fma_(y, splat(1.44269504088896341f), magic), n = shifted - magic;
  vf r;
  if (exact || !FUSED) { /* the first product is exact even without a fused multiply-add */
    r = fma_(n, splat(-0.693359375f), y);
    r = fma_(n, splat(2.12194440e-4f), r);
  } else {
    r = fma_(n, splat(-0.693147182464599609375f), y);
  }
  vf p = splat(1.3814599e-3f);
  p = fma_(p, r, splat(8.368717e-3f));
  p = fma_(p, r, splat(4.166839e-2f));
  p = fma_(p, r, splat(0.16666521f));
  p = fma_(p, r, splat(0.49999994f));
  p = fma_(p, r, splat(1.0f));
  p = fma_(p, r, splat(1.0f));
  return p * (vf)((vi)shifted << 23);
}

/* exp(x), 0 below -87.3, saturating at exp(88.3) so that it is finite for every finite x; NaN stays NaN. */
INLINE vf exponential(vf x) {
  const vf low = splat(-87.3365447f);
  vf y = exponential_inside(minimum(splat(88.3762589f), maximum(low, x)), 1);
  return (vf)((vi)y & ~(x < low));
}

/* exp(x) of an x that is not positive, but 1.2e-38 instead of less, within 4 ULP; NaN stays NaN. */
INLINE vf exponential_of_negative(vf x) { return exponential_inside(maximum(splat(-87.3365447f), x), 0); }

/* 1 / (1 + exp(-z)), q = exp(-|z|). */
INLINE vf sigmoid_with(vf z, vf q) { return select_(z < 0.0f, q, splat(1)) / (1.0f + q); }

INLINE vf sigmoid(vf z) { return sigmoid_with(z, exponential(-absolute(z))); }

/* ln(1 + f), f >= 0: 1 + f = m 2^n with m near 1, and ln m = 2 atanh((m - 1) / (m + 1)), where m - 1 is f itself for n = 0. */
INLINE vf log_1p(vf f) {
  vf y = 1.0f + f;
  vi n = ((vi)y - 0x3f3504f3) >> 23; /* m from sqrt(1/2) to sqrt(2) */
  vf above = select_(n == 0, f, (vf)((vi)y - (n << 23)) - 1.0f);
  vf s = above / (2.0f + above), q = s * s; /* |s| <= 0.172 */
  vf p = splat(2.0f / 9);
  p = fma_(p, q, splat(2.0f / 7));
  p = fma_(p, q, splat(2.0f / 5));
  p = fma_(p, q, splat(2.0f / 3));
  p = fma_(p, q, splat(2.0f));
  return fma_(__builtin_convertvector(n, vf), splat(0.693147182464599609375f), p * s);
}

/* ln(1 + exp(z)) = max(z, 0) + ln(1 + exp(-|z|)); NaN stays NaN. */
INLINE vf softplus(vf z) { return maximum(splat(0), z) + log_1p(exponential_of_negative(-absolute(z))); }

/* ln(x) of a positive, finite, normal double: x = m 2^e with m near 1, ln m = 2 atanh((m - 1) / (m + 1)). The C library's
 * would do, but then bits would depend on its version. */
INLINE double natural_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  int64_t e = (int64_t)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
  double m;
  memcpy(&m, &bits, 8);
  if (m > 1.4142135623730951) m /= 2, e++;
  double s = (m - 1) / (m + 1), q = s * s, p = 0; /* |s| <= 0.172: q^11 < 1e-16 */
  for (int n = 23; n >= 1; n -= 2) p = p * q + 2.0 / n;
  return (double)e * 0.69314718055994531 + s * p;
}

/* tanh(x): an odd polynomial below 0.625, else 1 - 2 / (exp(2|x|) + 1) with x's sign. */
INLINE vf hyperbolic_tangent(vf x) {
  vf a = absolute(x), q = x * x;
  vf p = splat(-5.70498872745e-3f);
  p = fma_(p, q, splat(2.06390887954e-2f));
  p = fma_(p, q, splat(-5.37397155531e-2f));
  p = fma_(p, q, splat(1.33314422036e-1f));
  p = fma_(p, q, splat(-3.33332819422e-1f));
  vf small = fma_(p * q, x, x);
  vf large = 1.0f - 2.0f / (exponential(2.0f * a) + 1.0f);
  large = (vf)((vi)large | ((vi)x & splat_int((int32_t)0x80000000)));
  return select_(a < 0.625f, small, large);
}

/* Eight floats in float64. (gcc 12 makes two conversions of a convertvector to 512 bits.) */
INLINE vd8 widen(const float *p) {
#if LANES == 16
  return (vd8)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#else
  return __builtin_convertvector(*(const vf8_any *)p, vd8);
#endif
}

/* sum + a b. Products of two float32 are exact in float64, so that it is the same with one rounding or two. */
INLINE vd8 add_product(vd8 a, vd8 b, vd8 sum) {
#if LANES == 16
  return (vd8)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)sum);
#else
  return sum + a * b;
#endif
}

/* The lanes of a sum in the order of dot. */
INLINE double add_eight(vd8 x) {
  vd4 half = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
  vd2 quarter = __builtin_shufflevector(half, half, 0, 1) + __builtin_shufflevector(half, half, 2, 3);
  return quarter[0] + quarter[1];
}

/* kernels.Dot: eight lanes, added in its order. */
INLINE double dot(const float *a, const float *b, int64_t n) {
  double lane[8];
  vd8 sum = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) sum = add_product(widen(a + i), widen(b + i), sum);
  if (i == n) return add_eight(sum);
  for (int j = 0; j < 8; j++) lane[j] = sum[j];
  for (; i < n; i++) lane[i & 7] += (double)a[i] * (double)b[i];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* n numbers of a storage of 2 bytes as floats. */
static UNUSED void widen_numbers(const uint16_t *from, int64_t n, int32_t storage, float *to) {
  int64_t k = 0;
  if (storage == STORAGE_bfloat16)
    for (; k + LANES <= n; k += LANES) store(to + k, load_bfloat16(from + k));
  else
    for (; k + LANES <= n; k += LANES) store(to + k, load_float16(from + k));
  if (k == n) return;
  uint16_t last[LANES] = {0};
  memcpy(last, from + k, (n - k) * sizeof *last);
  store_some(to + k, storage == STORAGE_bfloat16 ? load_bfloat16(last) : load_float16(last), n - k);
}

/* Row i of a weight as floats: where it lies, or in scratch. */
INLINE const float *weight_row(const weights_t *w, int64_t i, float *scratch) {
  if (w->storage == STORAGE_float32) return w->value + i * w->columns;
  widen_numbers((const uint16_t *)w->value + i * w->columns, w->columns, w->storage, scratch);
  return scratch;
}

/* Takes the next piece of work. */
INLINE int64_t take(int64_t *counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

INLINE void fail(failure_t *failure, int32_t kind, int32_t id, int64_t row) {
  int32_t none = FAIL_NONE;
  if (__atomic_compare_exchange_n(&failure->kind, &none, kind, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    failure->id = id;
    failure->row = row;
  }
}
INLINE int failed(failure_t *failure) { return __atomic_load_n(&failure->kind, __ATOMIC_ACQUIRE) != FAIL_NONE; }
