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

/* out = (in - mean) scale / sqrt(variance + epsilon) for some rows. */
static void normalise_rows(const activate_t *a, int64_t first, int64_t end) {
  const norm_t *norm = &a->norm;
  for (int64_t k = 0; k < a->units; k += LANES) {
    const int64_t here = smaller(LANES, a->units - k);
    if (norm->by_row) {
      const vf scale = load_some(norm->scale + k, here);
      for (int64_t u = first; u < end; u++) {
        const float inverse = 1.0f / sqrtf(norm->variance[u] + norm->epsilon);
        const vf xhat = (load_some(a->in + u * a->units + k, here) - norm->mean[u]) * inverse;
        store_some(a->out + u * a->units + k, xhat * scale, here);
      }
      continue;
    }
    const vf mean = load_some(norm->mean + k, here), variance = load_some(norm->variance + k, here);
    const vf factor = load_some(norm->scale + k, here) / square_root(variance + norm->epsilon);
    for (int64_t at = first * a->units + k; at < end * a->units; at += a->units)
      store_some(a->out + at, (load_some(a->in + at, here) - mean) * factor, here);
  }
}

/* Workers take blocks of rows. */
static void activate_rows(activate_t *a, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&a->next)) * ACTIVATE_ROWS < a->rows;) {
    const int64_t first = block * ACTIVATE_ROWS, end = smaller(first + ACTIVATE_ROWS, a->rows);
    if (a->norm.mean)
      normalise_rows(a, first, end);
    else if (a->in != a->out)
      memcpy(a->out + first * a->units, a->in + first * a->units, (size_t)((end - first) * a->units) * 4);
    for (int64_t u = first; u < end; u++) finish_row(&a->epilogue, u, 0, a->units, a->out + u * a->units);
  }
}
