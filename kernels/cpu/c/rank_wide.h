/* rank_wide.h: screening with float32 products. The factors are 1: rows and weights are multiplied as they are, or for cosine
 * scores normalised, so that N = 1 / temperature and N' = 1; E = E' = 0. A float32 product of K terms is wrong by at most
 * K u 1.01 (N N') (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), normalisation by 6 u more. */

enum { UNPACKED, PACKING, PACKED };

/* What is 1 where x is a normal number: neither 0, infinite, NaN nor too small for full precision. */
INLINE int is_normal(float x) { return fabsf(x) >= 0x1p-126f && fabsf(x) < INFINITY; }

static void pack_wide(const rank_t *r, const block_t *b, int64_t p) {
  for (int64_t u = p * PANEL; u < (p + 1) * PANEL; u++) {
    float *panel = b->panels + p * b->K * PANEL + u % PANEL;
    double norm = 0;
    int64_t at = 0;
    for (int32_t s = 0; s < r->sources; s++) {
      int64_t K = r->source[s].weight.columns;
      const float *h = r->source[s].h + (b->lists.first + u) * K;
      for (int64_t k = 0; k < K; k++, at++) {
        panel[at * PANEL] = u < b->lists.n ? h[k] : 0;
        if (u < b->lists.n) norm += (double)h[k] * h[k];
      }
    }
    norm = sqrt(norm);
    if (r->temperature != 0) {
      float scale = norm > 0 ? (float)(1 / (norm * (double)r->temperature)) : 0;
      for (int64_t k = 0; k < b->K; k++) panel[k * PANEL] *= scale;
      norm = norm > 0 ? (is_normal(scale) ? 1 / (double)r->temperature : INFINITY) : 0;
    }
    b->wide.step[u] = 1;
    b->wide.norm[u] = (float)(norm * 1.001);
    b->wide.error[u] = 0;
  }
}

static void load_wide(const rank_t *r, const block_t *b, tile_t *tile) {
  reading_t *of = &tile->wide;
  double most = 0;
  of->largest_step = 1;
  of->largest_bias = of->error = 0;
  for (int64_t t = 0; t < tile->n; t++) {
    float *row = b->w + t * b->ldw, bias = r->bias ? r->bias[tile->item[t]] : 0;
    item_weights(r, tile->item[t], row);
    double norm = sqrt(dot(row, row, b->K));
    if (r->temperature != 0) {
      float inverse = norm > 0 ? (float)(1 / norm) : 0;
      for (int64_t k = 0; k < b->K; k++) row[k] *= inverse;
      norm = norm > 0 ? (is_normal(inverse) ? 1 : INFINITY) : 0;
    }
    of->step[t] = norm < INFINITY && fabsf(bias) < INFINITY ? 1 : NAN;
    of->bias[t] = bias + fabsf(bias) * 0x1p-21f;
    if (of->step[t] != 1) continue;
    if (norm > most) most = norm;
    if (fabsf(of->bias[t]) > of->largest_bias) of->largest_bias = fabsf(of->bias[t]);
  }
  of->norm = (float)(most * 1.001);
  tile->has_wide = 1;
}

/* The candidates of a panel in a tile; returns the rows that have any. Panels are packed when they are first needed. */
static uint32_t screen_wide(const rank_t *r, const block_t *b, int64_t p, tile_t *tile, limits_t *limits) {
  int32_t state = UNPACKED;
  if (__atomic_compare_exchange_n(b->packed + p, &state, PACKING, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    pack_wide(r, b, p);
    __atomic_store_n(b->packed + p, PACKED, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(b->packed + p, __ATOMIC_ACQUIRE) != PACKED) sched_yield();
  if (!tile->has_wide) load_wide(r, b, tile);
  product_rows(0, b->w, b->ldw, b->panels + p * b->K * PANEL, b->K, b->K, b->z, PANEL, tile->n, PANEL, 0);
  find_limits(b, &b->wide, &tile->wide, p, limits);
  if (!limits->known && r->k <= tile->n) {
    raise_thresholds(r, b, &b->wide, &tile->wide, p, tile, limits);
    find_limits(b, &b->wide, &tile->wide, p, limits);
  }
  return note_all(b, &tile->wide, tile, limits);
}
