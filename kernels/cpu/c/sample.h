/* sample.h: the units of a variational layer and the way back, see kernels/variational.go. Bound by making the noise. */

/* Standard normal numbers of a row from a column on, which is a multiple of 4. */
INLINE void noise(const sample_t *s, int64_t row, int64_t column, vf e[4]) {
  vu words[4];
  philox(s->seed, column, s->first + row, s->step, s->stream, words);
  normal_numbers(words, 1);
  transpose_fours(words);
  for (int v = 0; v < 4; v++) e[v] = (vf)words[v];
}

static void sample_row(const sample_t *s, int64_t u) {
  const float *mean = s->heads + 2 * u * s->units, *log_variance = mean + s->units;
  float *out = s->out + u * s->units;
  if (!s->training) {
    memcpy(out, mean, 4 * s->units);
    return;
  }
  for (int64_t column = 0; column < s->units; column += PHILOX_COLUMNS) {
    vf e[4];
    noise(s, u, column, e);
    for (int64_t v = 0, k = column; v < 4 && k < s->units; v++, k += LANES) {
      const int64_t here = smaller(LANES, s->units - k);
      const vf deviation = exponential(0.5f * load_some(log_variance + k, here));
      store_some(out + k, load_some(mean + k, here) + deviation * e[v], here);
    }
  }
}

/* Returns the divergence of the row, without the weight. */
static double sample_back_row(sample_t *s, int64_t u) {
  float *mean = s->heads + 2 * u * s->units, *log_variance = mean + s->units;
  const float *dh = s->dh + u * s->units;
  double total = 0;
  for (int64_t column = 0; column < s->units; column += PHILOX_COLUMNS) {
    vf e[4];
    noise(s, u, column, e);
    for (int64_t v = 0, k = column; v < 4 && k < s->units; v++, k += LANES) {
      const int64_t here = smaller(LANES, s->units - k);
      const vf m = load_some(mean + k, here), l = load_some(log_variance + k, here), g = load_some(dh + k, here);
      const vf variance = select_(l > s->most, splat(INFINITY), exponential(l));
      const vf dm = g + s->weight * m;
      const vf dl = 0.5f * (g * e[v] * exponential(0.5f * l) + s->weight * (variance - 1.0f));
      if (any(not_finite(residue(dm) | residue(dl)))) fail(&s->failure, FAIL_GRADIENT, -1, -1);
      total += 0.5 * sum_lanes(m * m + (variance - 1.0f - l));
      store_some(mean + k, dm, here);
      store_some(log_variance + k, dl, here);
    }
  }
  return total;
}

enum { SAMPLE_ROWS = 8 };

/* Workers take blocks of rows. */
static void sample(sample_t *s, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&s->next)) * SAMPLE_ROWS < s->rows;)
    for (int64_t u = block * SAMPLE_ROWS; u < smaller((block + 1) * SAMPLE_ROWS, s->rows); u++) sample_row(s, u);
}

static void sample_backward(sample_t *s, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&s->next)) * SAMPLE_ROWS < s->rows;)
    for (int64_t u = block * SAMPLE_ROWS; u < smaller((block + 1) * SAMPLE_ROWS, s->rows); u++)
      s->losses[u] = sample_back_row(s, u);
}
