/* blend.h: sums of the scores of several models, standardised row by row. Workers take rows. Both read a score once from
 * memory, 4 bytes for some operations, which bounds them. */

/* d = score - origin in float64, and 0 where an item does not count; returns how many do. The stored
 * items among these are left out. */
static int64_t differences(const float *score, int64_t n, double origin, const int32_t *stored, int64_t count,
                           int64_t first, double *d) {
  int64_t counted = 0;
  for (int64_t t = 0; t < n; t++) {
    const int finite = fabsf(score[t]) < INFINITY;
    d[t] = finite ? (double)score[t] - origin : 0;
    counted += finite;
  }
  for (int64_t t = n; t < MOMENT_LANES; t++) d[t] = 0;
  for (int64_t at = 0; at < count; at++) {
    const int64_t t = stored[at] - first;
    counted -= fabsf(score[t]) < INFINITY;
    d[t] = 0;
  }
  return counted;
}

/* The score of the first item that counts; 0 if none does. */
static double first_counted(const float *score, int64_t items, const int32_t *stored, int64_t count, int64_t first) {
  for (int64_t i = 0; i < items; i++) {
    if (count > 0 && *stored == first + i)
      stored++, count--;
    else if (fabsf(score[i]) < INFINITY)
      return score[i];
  }
  return 0;
}

static void moments(moments_t *a, int32_t worker) {
  (void)worker;
  for (int64_t u; (u = take(&a->next)) < a->rows;) {
    const float *score = a->scores + u * a->items;
    const int32_t *stored = a->stored_items + a->stored_offsets[u];
    int64_t left = a->stored_offsets[u + 1] - a->stored_offsets[u], counted = 0;
    const int64_t skip = lower_bound(stored, left, a->first);
    stored += skip, left -= skip;
    const double origin = first_counted(score, a->items, stored, left, a->first);
    double sum[MOMENT_LANES] = {0}, square[MOMENT_LANES] = {0}, d[MOMENT_LANES];
    for (int64_t i = 0; i < a->items; i += MOMENT_LANES) {
      const int64_t n = smaller(MOMENT_LANES, a->items - i), first = a->first + i;
      const int64_t here = lower_bound(stored, left, first + n);
      counted += differences(score + i, n, origin, stored, here, first, d);
      stored += here, left -= here;
      for (int64_t t = 0; t < MOMENT_LANES; t++) {
        sum[t] += d[t];
        square[t] = fma(d[t], d[t], square[t]);
      }
    }
    for (int64_t n = MOMENT_LANES / 2; n > 0; n /= 2)
      for (int64_t t = 0; t < n; t++) sum[t] += sum[t + n], square[t] += square[t + n];
    double *out = a->out + 4 * u;
    out[0] = (double)counted, out[1] = origin, out[2] = sum[0], out[3] = square[0];
  }
}

/* Tiles of items, whose sums stay in the first-level cache. */
static void blend(blend_t *a, int32_t worker) {
  (void)worker;
  for (int64_t u; (u = take(&a->next)) < a->rows;) {
    const double *mean = a->means + u * a->parts, *factor = a->factors + u * a->parts;
    for (int64_t first = 0; first < a->items; first += MOMENT_LANES) {
      const int64_t n = smaller(MOMENT_LANES, a->items - first), at = u * a->items + first;
      double sum[MOMENT_LANES] = {0};
      for (int32_t p = 0; p < a->parts; p++) {
        const float *score = a->scores[p] + at;
        const double m = mean[p], f = factor[p];
        if (f == 0) continue;
        for (int64_t t = 0; t < n; t++) sum[t] = fma(f, (double)score[t] - m, sum[t]);
      }
      for (int64_t t = 0; t < n; t++) a->out[at + t] = (float)sum[t];
    }
  }
}
