/* backward.h: the step from a hidden layer's output back to its sums. Bound by the caches, where h and dh are. */

enum { BACKWARD_UNITS = 64, BACKWARD_AHEAD = 16, SUM_ROWS = 32 /* added as float */ };

/* Workers take blocks of units. */
static void unit_sums(unit_sums_t *s, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&s->next)) * BACKWARD_UNITS < s->units;) {
    const int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, s->units - first);
    double total[BACKWARD_UNITS] = {0};
    for (int64_t u = 0; u < s->rows; u += SUM_ROWS) {
      float sum[BACKWARD_UNITS] = {0};
      for (int64_t r = u; r < smaller(u + SUM_ROWS, s->rows); r++)
        for (int64_t k = 0; k < n; k += LANES)
          store(sum + k, load(sum + k) + load_some(s->x + r * s->units + first + k, smaller(LANES, n - k)));
      for (int64_t k = 0; k < n; k++) total[k] += (double)sum[k];
    }
    for (int64_t k = 0; k < n; k++) s->sums[first + k] = (float)total[k];
  }
}

/* dz = (dh + shift) * mask * scale * act'(z), in place, for some units of a row; adds dz to sum. */
INLINE void backward_row(const int32_t activation, const backward_t *b, int64_t u, int64_t first, int64_t n,
                         float *sum) {
  const epilogue_t *e = &b->epilogue;
  const float *h = b->h + u * b->units + first;
  float *dh = b->dh + u * b->units + first, factor[PHILOX_COLUMNS];
  for (int64_t k = 0; k < n; k += LANES) {
    int64_t here = smaller(LANES, n - k);
    if (u + BACKWARD_AHEAD < b->rows) {
      __builtin_prefetch(h + k + BACKWARD_AHEAD * b->units);
      __builtin_prefetch(dh + k + BACKWARD_AHEAD * b->units);
    }
    vf at = load_some(h + k, here), g = load_some(dh + k, here);
    if (b->shift) g = g + load_some(b->shift + first + k, here);
    if (e->dropout > 0) {
      if (k % PHILOX_COLUMNS == 0) dropout_factors(e, u, first + k, factor);
      /* the activation before it was scaled; where it was dropped the factor is 0 */
      if (!SLOPE_NEEDS_SUM(activation)) at = (at - e->shift) * e->undo;
      g = g * load(factor + k % PHILOX_COLUMNS);
    }
    g = g * activation_slope(activation, e->alpha, at);
    store_some(dh + k, g, here);
    store(sum + k, load(sum + k) + g);
  }
}

INLINE void backward_rows(const int32_t activation, const backward_t *b, int64_t first, int64_t n, float *sum) {
  for (int64_t u = 0; u < b->rows; u++) backward_row(activation, b, u, first, n, sum);
}

static void backward_units(const backward_t *b, int64_t first, int64_t n, float *sum) {
  switch (b->epilogue.activation) { ACTIVATIONS(CASE_BY_NUMBER, ACTIVATION, backward_rows, b, first, n, sum) }
}

static int any_not_finite(const float *x, int64_t n) {
  vi residues = {0};
  for (int64_t i = 0; i < n; i += LANES) residues |= residue(load_some(x + i, n - i));
  return any(not_finite(residues));
}

/* Workers take blocks of units, whose gradients they sum down the rows for the bias. */
static void backward(backward_t *b, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&b->next)) * BACKWARD_UNITS < b->units && !failed(&b->failure);) {
    int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, b->units - first);
    float sum[BACKWARD_UNITS] = {0};
    backward_units(b, first, n, sum);
    if (any_not_finite(sum, n)) {
      fail(&b->failure, FAIL_GRADIENT, b->bias.id, -1);
      return;
    }
    if (b->bias.value && apply_gradient(&b->bias, &b->optimizer, first, sum, n)) {
      fail(&b->failure, FAIL_WEIGHT, b->bias.id, -1);
      return;
    }
  }
}
