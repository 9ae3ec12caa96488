/* philox.h: random numbers as a function of their place, see engine/random. */

/* Philox4x32-10 (Salmon et al., 2011); the same function as engine/random. */
INLINE void philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Factors of dropout for units first .. first + n of a row: 0 or 1 / (1 - p). */
INLINE void dropout_factors(const epilogue_t *e, int64_t row, int64_t first, int64_t n, float *factor) {
  float keep = 1.0f / (1.0f - e->dropout);
  uint32_t x[4];
  for (int64_t k = 0; k < n; k++) {
    int lane = (int)((first + k) & 3);
    if (lane == 0 || k == 0) philox(e->seed, (uint32_t)((first + k) >> 2), (uint32_t)row, e->step, e->stream, x);
    factor[k] = (float)(x[lane] >> 8) * 0x1p-24f < e->dropout ? 0.0f : keep;
  }
}
