/* epilogue.h: the end of a hidden layer forward: bias, activation, dropout. */

INLINE void finish_units(const int32_t activation, const epilogue_t *e, int64_t row, int64_t first, int64_t n,
                         float *out) {
  float factor[PHILOX_COLUMNS + LANES] = {0};
  for (int64_t k = 0; k < n;) {
    int64_t skip = (first + k) & 3, block = smaller(PHILOX_COLUMNS - skip, n - k);
    if (e->dropout > 0) dropout_factors(e, row, first + k - skip, factor);
    for (int64_t i = 0; i < block; i += LANES) {
      int64_t here = smaller(LANES, block - i);
      vf z = load_some(out + k + i, here);
      if (e->bias) z += load_some(e->bias + first + k + i, here);
      z = activate(activation, e->alpha, z);
      if (e->dropout > 0) {
        const vf scale = load(factor + skip + i);
        z = z * scale + select_(scale == 0.0f, splat(e->dropped), splat(e->shift));
      }
      store_some(out + k + i, z, here);
    }
    k += block;
  }
}

/* Ends the forward computation of units first .. first + n of row u, in place. */
static void finish_row(const epilogue_t *e, int64_t row, int64_t first, int64_t n, float *out) {
  switch (e->activation) { ACTIVATIONS(CASE_BY_NUMBER, ACTIVATION, finish_units, e, row, first, n, out) }
}

enum { ACTIVATE_ROWS = 8 };

/* Workers take blocks of rows. */
static void activate_rows(activate_t *a, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&a->next)) * ACTIVATE_ROWS < a->rows;)
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, a->rows); u++) {
      float *out = a->out + u * a->units;
      if (a->in != a->out) memcpy(out, a->in + u * a->units, 4 * a->units);
      finish_row(&a->epilogue, u, 0, a->units, out);
    }
}
