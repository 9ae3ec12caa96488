/* bfloat16.h: numbers of 8 bits of precision in the upper half of a float, two in a word, and the dot product of two words
 * that is added to a float. CPUs with AVX512_BF16 have one instruction for it; elsewhere the halves are taken apart, which
 * gives the same kind of numbers at less than float32's speed. Rounding is to nearest, ties to even; below the normal
 * numbers there is only zero. */

/* Every lane has the bits of x, which may be no number. */
INLINE vf splat_bits(float x) {
  int32_t bits;
  memcpy(&bits, &x, 4);
  return (vf)splat_int(bits);
}

#ifdef __AVX512BF16__
#define HAS_BFLOAT16 1

INLINE vf add_pairs(vf a, vf b, vf c) { return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b); }

/* 2 LANES numbers as words of neighbours. */
INLINE void store_neighbours(float *out, vf first, vf second) {
  store(out, (vf)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
}

/* Words of a number of each vector. */
INLINE vf zip(vf low, vf high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (vf)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}

#else
#define HAS_BFLOAT16 0

typedef uint32_t vu __attribute__((vector_size(VECTOR_BYTES)));

INLINE vf add_pairs(vf a, vf b, vf c) {
  c = fma_((vf)((vu)a & 0xffff0000u), (vf)((vu)b & 0xffff0000u), c);
  return fma_((vf)((vu)a << 16), (vf)((vu)b << 16), c);
}

/* The rounded number in the upper half; the lower half is rubbish. */
INLINE vu round_to_half(vf x) {
  vu bits = (vu)x, rounded = bits + 0x7fffu + (bits >> 16 & 1);
  rounded &= (vu)((bits & 0x7fffffffu) >= 0x00800000u) | 0x80000000u; /* before rounding, as the instruction has it */
  return (vu)select_(x == x, (vf)rounded, splat(NAN));
}

INLINE vf zip(vf low, vf high) { return (vf)(round_to_half(low) >> 16 | (round_to_half(high) & 0xffff0000u)); }

INLINE void store_neighbours(float *out, vf first, vf second) {
  float x[2 * LANES], low[LANES], high[LANES];
  store(x, first);
  store(x + LANES, second);
  for (int i = 0; i < LANES; i++) low[i] = x[2 * i], high[i] = x[2 * i + 1];
  store(out, zip(load(low), load(high)));
}

#endif

/* c + a b of floats, or the same of words of two. */
INLINE vf multiply_add(const int pairs, vf a, vf b, vf c) { return pairs ? add_pairs(a, b, c) : fma_(a, b, c); }

/* The lower or upper number of a word. */
INLINE float half_of(float word, int64_t upper) {
  uint32_t bits;
  memcpy(&bits, &word, 4);
  bits = upper ? bits & 0xffff0000u : bits << 16;
  memcpy(&word, &bits, 4);
  return word;
}

/* n numbers as n / 2 words of neighbours, possibly in place; n is a multiple of two vectors. */
INLINE void narrow_row(const float *from, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i += 2 * LANES) store_neighbours(to + i / 2, load(from + i), load(from + i + LANES));
}
