/* philox.h: random numbers as a function of their place, the same as internal/random's: Philox4x32-10 (Salmon et al., 2011),
 * counted by (column / 4, row, step, stream); word number column % 4 belongs to the column. A call makes the words of
 * PHILOX_COLUMNS neighbouring columns, each lane those of four. */

typedef uint32_t vu __attribute__((vector_size(VECTOR_BYTES)));

enum { PHILOX_COLUMNS = 4 * LANES };

/* The upper halves of the products of 32-bit numbers; and the 4 x 4 transposes of each four lanes of four vectors. */
#if LANES >= 8
#if LANES == 16
#define ODD_LANES(odd, even) _mm512_mask_blend_epi32(0xaaaa, even, odd)
#else
#define ODD_LANES(odd, even) _mm256_blend_epi32(even, odd, 0xaa)
#endif
INLINE vu high_product(vu a, uint32_t by) {
  mmi x = (mmi)a, m = MM(set1_epi32)((int32_t)by);
  mmi even = MM(mul_epu32)(x, m), odd = MM(mul_epu32)(MM(srli_epi64)(x, 32), m);
  return (vu)ODD_LANES(odd, MM(srli_epi64)(even, 32));
}
INLINE void transpose_fours(vu x[4]) {
  mmi a = (mmi)x[0], b = (mmi)x[1], c = (mmi)x[2], d = (mmi)x[3];
  mmi ab = MM(unpacklo_epi32)(a, b), cd = MM(unpacklo_epi32)(c, d);
  mmi AB = MM(unpackhi_epi32)(a, b), CD = MM(unpackhi_epi32)(c, d);
  x[0] = (vu)MM(unpacklo_epi64)(ab, cd), x[1] = (vu)MM(unpackhi_epi64)(ab, cd);
  x[2] = (vu)MM(unpacklo_epi64)(AB, CD), x[3] = (vu)MM(unpackhi_epi64)(AB, CD);
}
#else
INLINE vu high_product(vu a, uint32_t by) {
  for (int i = 0; i < LANES; i++) a[i] = (uint32_t)((uint64_t)a[i] * by >> 32);
  return a;
}
INLINE void transpose_fours(vu x[4]) {
  vu a[4] = {x[0], x[1], x[2], x[3]};
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < 4; j++) x[j][i] = a[i % 4][i / 4 * 4 + j];
}
#endif

/* The words of the columns first .. first + PHILOX_COLUMNS, first being a multiple of 4: x[j] has words j, of the columns
 * 4 q + j. transpose_fours puts them into the order of the columns. */
INLINE void philox(uint64_t key, int64_t first, int64_t row, uint32_t step, uint32_t stream, vu x[4]) {
  /* Lane 4 g + j counts for the four columns that the transposes put into lanes 4 g .. 4 g + 3 of vector j. */
  vu a, b = (uint32_t)row - (vu){0}, c = step - (vu){0}, d = stream - (vu){0};
  for (uint32_t i = 0; i < LANES; i++) a[i] = (uint32_t)(first >> 2) + i % 4 * (LANES / 4) + i / 4;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    vu p = high_product(a, 0xD2511F53u), q = high_product(c, 0xCD9E8D57u);
    vu low_p = a * 0xD2511F53u, low_q = c * 0xCD9E8D57u;
    a = q ^ b ^ k0, b = low_q, c = p ^ d ^ k1, d = low_p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  x[0] = a, x[1] = b, x[2] = c, x[3] = d;
}

/* A uniform number of 0 .. 1 is this times 2^-24; both are exact. */
INLINE vf uniform_24(vu word) { return __builtin_convertvector((vi)(word >> 8), vf); }

/* Factors of dropout of a row from a column on, which is a multiple of 4: 0 or the scale of units that are kept. */
INLINE void dropout_factors(const epilogue_t *e, int64_t row, int64_t column, float factor[PHILOX_COLUMNS]) {
  vf keep = splat(e->scale), limit = splat(e->dropout * 0x1p24f);
  vu x[4];
  philox(e->seed, column, e->first + row, e->step, e->stream, x);
  transpose_fours(x);
  for (int v = 0; v < 4; v++) store(factor + v * LANES, (vf)((vi)keep & ~(uniform_24(x[v]) < limit)));
}
