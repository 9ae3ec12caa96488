/* norm.h: normalisation of a hidden layer's sums, forward and back. Formulas: kernels/norm.go. Bound by the caches,
 * where the sums and their gradients are. Workers take blocks of units, or of rows. */

/* The sum of x - mean over a row, or of its square. */
INLINE double row_sum(const float *x, const int squared, float mean, int64_t n) {
  double total = 0;
  for (int64_t from = 0; from < n; from += SUM_ROWS * LANES) {
    vf sum = {0};
    for (int64_t k = from; k < smaller(from + SUM_ROWS * LANES, n); k += LANES) {
      const int64_t here = smaller(LANES, n - k);
      float padded[LANES];
      store(padded, splat(mean));
      store_some(padded, load_some(x + k, here), here);
      const vf d = load(padded) - mean;
      sum += squared ? d * d : d;
    }
    total += sum_lanes(sum);
  }
  return total;
}

/* Workers take blocks of rows. */
static void row_moments(row_moments_t *m, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&m->next)) * ACTIVATE_ROWS < m->rows;)
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, m->rows); u++) {
      const float *x = m->x + u * m->units;
      m->mean[u] = (float)(row_sum(x, 0, 0, m->units) / (double)m->units);
      m->variance[u] = (float)(row_sum(x, 1, m->mean[u], m->units) / (double)m->units);
    }
}

/* The mean and 1 / sqrt(variance + epsilon) of a block of units. */
typedef struct {
  float mean[BACKWARD_UNITS], inverse[BACKWARD_UNITS];
} centring_t;

INLINE void centring_of(const norm_t *norm, int64_t first, int64_t n, centring_t *c) {
  for (int64_t k = 0; k < n; k += LANES) {
    const int64_t here = smaller(LANES, n - k);
    store(c->mean + k, load_some(norm->mean + first + k, here));
    store(c->inverse + k, 1.0f / square_root(load_some(norm->variance + first + k, here) + norm->epsilon));
  }
}

/* The same of a row, for as many units. */
INLINE void centring_of_row(const norm_t *norm, int64_t row, int64_t n, centring_t *c) {
  const float inverse = 1.0f / sqrtf(norm->variance[row] + norm->epsilon);
  for (int64_t k = 0; k < n; k += LANES) {
    store(c->mean + k, splat(norm->mean[row]));
    store(c->inverse + k, splat(inverse));
  }
}

/* Adds x - mean of some rows, or its square, to total. */
INLINE void add_centred(const unit_moments_t *m, const int squared, const float *mean, int64_t first, int64_t n,
                        double *total) {
  for (int64_t u = 0; u < m->rows; u += SUM_ROWS) {
    float sum[BACKWARD_UNITS] = {0};
    for (int64_t r = u; r < smaller(u + SUM_ROWS, m->rows); r++)
      for (int64_t k = 0; k < n; k += LANES) {
        const vf x = load_some(m->x + r * m->units + first + k, smaller(LANES, n - k)) - load(mean + k);
        store(sum + k, load(sum + k) + (squared ? x * x : x));
      }
    for (int64_t k = 0; k < n; k++) total[k] += (double)sum[k];
  }
}

static void unit_moments(unit_moments_t *m, UNUSED int32_t worker) {
  const double rows = m->rows ? (double)m->rows : 1.0;
  for (int64_t block; (block = take(&m->next)) * BACKWARD_UNITS < m->units;) {
    const int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, m->units - first);
    double total[BACKWARD_UNITS] = {0}, squares[BACKWARD_UNITS] = {0};
    float mean[BACKWARD_UNITS] = {0};
    add_centred(m, 0, mean, first, n, total);
    for (int64_t k = 0; k < n; k++) mean[k] = (float)(total[k] / rows);
    add_centred(m, 1, mean, first, n, squares);
    for (int64_t k = 0; k < n; k++) {
      m->moments[first + k] = mean[k];
      m->moments[m->units + first + k] = (float)squares[k];
    }
    if (first == 0) m->moments[2 * m->units] = (float)m->rows;
  }
}

static void norm_sums(norm_sums_t *s, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&s->next)) * BACKWARD_UNITS < s->units;) {
    const int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, s->units - first);
    double total[2][BACKWARD_UNITS] = {{0}};
    centring_t c;
    if (!s->norm.by_row) centring_of(&s->norm, first, n, &c);
    for (int64_t u = 0; u < s->rows; u += SUM_ROWS) {
      float sum[2][BACKWARD_UNITS] = {{0}};
      for (int64_t r = u; r < smaller(u + SUM_ROWS, s->rows); r++) {
        if (s->norm.by_row) centring_of_row(&s->norm, r, n, &c);
        for (int64_t k = 0; k < n; k += LANES) {
          const int64_t at = r * s->units + first + k, here = smaller(LANES, n - k);
          const vf dy = load_some(s->dy + at, here);
          const vf xhat = (load_some(s->x + at, here) - load(c.mean + k)) * load(c.inverse + k);
          store(sum[0] + k, load(sum[0] + k) + dy);
          store(sum[1] + k, fma_(dy, xhat, load(sum[1] + k)));
        }
      }
      for (int64_t k = 0; k < n; k++) total[0][k] += (double)sum[0][k], total[1][k] += (double)sum[1][k];
    }
    for (int which = 0; which < 2; which++)
      for (int64_t k = 0; k < n; k++) s->sums[which * s->units + first + k] = (float)total[which][k];
  }
}

/* The means of g and g xhat over the units of a row. */
INLINE void row_means(const norm_backward_t *b, int64_t u, float mean, float inverse, float means[2]) {
  const float *dy = b->dy + u * b->units, *x = b->x + u * b->units;
  double total[2] = {0};
  for (int64_t from = 0; from < b->units; from += SUM_ROWS * LANES) {
    vf sum[2] = {{0}};
    for (int64_t k = from; k < smaller(from + SUM_ROWS * LANES, b->units); k += LANES) {
      const int64_t here = smaller(LANES, b->units - k);
      const vf g = load_some(dy + k, here) * load_some(b->norm.scale + k, here);
      sum[0] += g;
      sum[1] += g * ((load_some(x + k, here) - mean) * inverse);
    }
    for (int which = 0; which < 2; which++) total[which] += sum_lanes(sum[which]);
  }
  for (int which = 0; which < 2; which++) means[which] = (float)(total[which] / (double)b->units);
}

/* Workers take blocks of rows. */
static void norm_backward_rows(norm_backward_t *b, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&b->next)) * ACTIVATE_ROWS < b->rows && !failed(&b->failure);) {
    vi residues = {0};
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, b->rows); u++) {
      const float mean = b->norm.mean[u], inverse = 1.0f / sqrtf(b->norm.variance[u] + b->norm.epsilon);
      float means[2];
      row_means(b, u, mean, inverse, means);
      for (int64_t k = 0; k < b->units; k += LANES) {
        const int64_t at = u * b->units + k, here = smaller(LANES, b->units - k);
        const vf g = load_some(b->dy + at, here) * load_some(b->norm.scale + k, here);
        const vf dz = (g - means[0] - (load_some(b->x + at, here) - mean) * inverse * means[1]) * inverse;
        residues |= here == LANES ? residue(dz) : residue(load_some((const float *)&dz, here));
        store_some(b->dy + at, dz, here);
      }
    }
    if (any(not_finite(residues))) fail(&b->failure, FAIL_GRADIENT, b->scale.id, -1);
  }
}

/* The means over the whole batch of dy and dy xhat; 0 where the moments are constant. */
static void gradient_means(const norm_backward_t *b, int64_t first, int64_t n, float mean[2][BACKWARD_UNITS]) {
  for (int which = 0; which < 2; which++)
    for (int64_t k = 0; k < n; k++) {
      double sum = 0;
      for (int64_t r = 0; r < b->ranks; r++) sum += (double)b->parts[(2 * r + which) * b->units + first + k];
      mean[which][k] = (float)(sum / (double)b->whole);
    }
}

static void norm_backward(norm_backward_t *b, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&b->next)) * BACKWARD_UNITS < b->units && !failed(&b->failure);) {
    const int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, b->units - first);
    float mean[2][BACKWARD_UNITS] = {{0}};
    centring_t c;
    vi residues = {0};
    centring_of(&b->norm, first, n, &c);
    gradient_means(b, first, n, mean);
    for (int64_t u = 0; u < b->rows; u++)
      for (int64_t k = 0; k < n; k += LANES) {
        const int64_t at = u * b->units + first + k, here = smaller(LANES, n - k);
        const vf inverse = load(c.inverse + k), factor = load_some(b->norm.scale + first + k, here) * inverse;
        const vf xhat = (load_some(b->x + at, here) - load(c.mean + k)) * inverse;
        const vf dz = (load_some(b->dy + at, here) - load(mean[0] + k) - xhat * load(mean[1] + k)) * factor;
        residues |= residue(dz);
        store_some(b->dy + at, dz, here);
      }
    if (any(not_finite(residues))) fail(&b->failure, FAIL_GRADIENT, b->scale.id, -1);
  }
}

/* The update of the scale, whose old values norm_backward has used. */
static void norm_scale(norm_backward_t *b, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&b->next_scaled)) * BACKWARD_UNITS < b->units && !failed(&b->failure);) {
    const int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, b->units - first);
    if (any_not_finite(b->own + first, n))
      fail(&b->failure, FAIL_GRADIENT, b->scale.id, -1);
    else if (apply_gradient(&b->scale, &b->optimizer, first, b->own + first, n))
      fail(&b->failure, FAIL_WEIGHT, b->scale.id, -1);
  }
}
