/* wholerows.h: operations on whole rows of a layer. Formulas: kernels/wholerows.go. Bound by the caches, where the rows
 * are. Workers take blocks of rows. */

/* Lanes behind the n numbers are -inf, which no maximum and no sum of exponentials sees. */
INLINE vf load_padded(const float *x, int64_t n) {
  if (n == LANES) return load(x);
  float padded[LANES];
  store(padded, splat(-INFINITY));
  store_some(padded, load_some(x, n), n);
  return load(padded);
}

static float row_maximum(const float *x, int64_t n) {
  vf most = splat(-INFINITY);
  for (int64_t k = 0; k < n; k += LANES) most = maximum(most, load_padded(x + k, smaller(LANES, n - k)));
  float top = most[0];
  for (int lane = 1; lane < LANES; lane++)
    if (most[lane] > top) top = most[lane];
  return top;
}

/* Replaces x by exp(x - top), and returns the sum. */
static double row_exponentials(float *x, float top, int64_t n) {
  double total = 0;
  for (int64_t from = 0; from < n; from += SUM_ROWS * LANES) {
    vf sum = {0};
    for (int64_t k = from; k < smaller(from + SUM_ROWS * LANES, n); k += LANES) {
      const int64_t here = smaller(LANES, n - k);
      const vf e = exponential(load_padded(x + k, here) - top);
      sum += e;
      store_some(x + k, e, here);
    }
    total += sum_lanes(sum);
  }
  return total;
}

static void softmax_row(const whole_rows_t *o, int64_t u) {
  float *x = o->x + u * o->units;
  const float by = (float)(1 / row_exponentials(x, row_maximum(x, o->units), o->units));
  for (int64_t k = 0; k < o->units; k += LANES) {
    const int64_t here = smaller(LANES, o->units - k);
    store_some(x + k, load_some(x + k, here) * by, here);
  }
}

static void softmax_row_backward(const whole_rows_t *o, int64_t u) {
  const float *a = o->h + u * o->units;
  float *g = o->x + u * o->units;
  for (int64_t k = 0; o->shift && k < o->units; k += LANES) {
    const int64_t here = smaller(LANES, o->units - k);
    store_some(g + k, load_some(g + k, here) + load_some(o->shift + k, here), here);
  }
  const float along = (float)dot(a, g, o->units);
  for (int64_t k = 0; k < o->units; k += LANES) {
    const int64_t here = smaller(LANES, o->units - k);
    store_some(g + k, load_some(a + k, here) * (load_some(g + k, here) - along), here);
  }
}

/* A norm that is not a number is not within the limit. The factor may be below float32, so it stays in float64. */
static void cap_row(const whole_rows_t *o, int64_t u) {
  float *x = o->x + u * o->units;
  const double norm = sqrt(dot(x, x, o->units)), by = o->limit / norm;
  if (norm <= o->limit) return;
  for (int64_t k = 0; k < o->units; k++) x[k] = (float)((double)x[k] * by);
}

INLINE void each_row(whole_rows_t *o, void (*const change)(const whole_rows_t *, int64_t)) {
  for (int64_t block; (block = take(&o->next)) * ACTIVATE_ROWS < o->rows;)
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, o->rows); u++) change(o, u);
}

static void softmax_rows(whole_rows_t *o, UNUSED int32_t worker) { each_row(o, softmax_row); }
static void softmax_rows_backward(whole_rows_t *o, UNUSED int32_t worker) { each_row(o, softmax_row_backward); }
static void cap_rows(whole_rows_t *o, UNUSED int32_t worker) { each_row(o, cap_row); }
