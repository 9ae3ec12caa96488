// How tensor cores add: the products of a step and the sum so far are cut off at one place and added exactly, and the
// new sum is cut off to float32. Published measurements of devices find steps of 4 to 16 products, and one to some bits
// that are kept below those of float32. Here it is as on the oldest devices that the kernels are for: 8 products of
// bfloat16 numbers, 4 of TF32 numbers, one bit.
//
// With u = 2^-24, and M the largest absolute value among the products and the sum: each of G + 1 addends loses less
// than u M, the result less than 2 u of itself.
#pragma once

#include <immintrin.h>

namespace emulator {

// A TF32 operand as the units read it: float32, of which the upper 19 bits count.
inline float truncated_tf32(float x) {
  return _mm_cvtss_f32(_mm_and_ps(_mm_set_ss(x), _mm_castsi128_ps(_mm_set1_epi32(int(0xffffe000u)))));
}

// sums + a[0] b[0] + ... + a[G-1] b[G-1], rows of b are `stride` apart.
template <int G>
inline __m256 tensor_step(const float *a, const float *b, long stride, __m256 sums) {
  const __m256i exponents = _mm256_set1_epi32(0x7f800000);
  __m256 product[G];
  __m256i largest = _mm256_and_si256(_mm256_castps_si256(sums), exponents);
  for (int k = 0; k < G; k++) {
    product[k] = _mm256_mul_ps(_mm256_set1_ps(a[k]), _mm256_loadu_ps(b + k * stride));  // exact: the factors are short
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(product[k]), exponents));
  }
  // 2^24 units are as much as the largest exponent. That works but for infinities, what is no number, and sums of numbers
  // that are all tiny (below 2^-101), which are added as usual.
  const __m256i least = _mm256_set1_epi32(26 << 23);
  const __m256i special = _mm256_or_si256(_mm256_cmpeq_epi32(largest, exponents), _mm256_cmpgt_epi32(least, largest));
  __m256 usual = sums;
  if (!_mm256_testz_si256(special, special))
    for (int k = 0; k < G; k++) usual = _mm256_add_ps(usual, product[k]);
  const __m256i unit = _mm256_sub_epi32(_mm256_max_epi32(largest, least), _mm256_set1_epi32(24 << 23));
  const __m256 inverse = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(254 << 23), unit));
  __m256i total = _mm256_cvttps_epi32(_mm256_mul_ps(sums, inverse));
  for (int k = 0; k < G; k++) total = _mm256_add_epi32(total, _mm256_cvttps_epi32(_mm256_mul_ps(product[k], inverse)));
  // To float32 towards zero: where rounding has enlarged it, the number before.
  __m256 rounded = _mm256_cvtepi32_ps(total);
  const __m256i size = _mm256_abs_epi32(total), rounded_size = _mm256_abs_epi32(_mm256_cvttps_epi32(rounded));
  rounded = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(rounded), _mm256_cmpgt_epi32(rounded_size, size)));
  const __m256 cut = _mm256_mul_ps(rounded, _mm256_castsi256_ps(unit));
  return _mm256_blendv_ps(cut, usual, _mm256_castsi256_ps(special));
}

}  // namespace emulator
