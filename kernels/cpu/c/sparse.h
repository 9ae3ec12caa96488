/* sparse.h: gather and scatter of weight rows, and the replay of missed optimizer steps. Bound by memory bandwidth: a
 * gather reads nnz K floats, a scatter reads as many of dz from cache and rewrites the distinct rows with their states. */

/* out[k] (+)= sum of value_j W[index_j, k] for a few vectors of columns, which stay in registers. */
#define GATHER_VECTORS 8
INLINE void gather_chunk(const int32_t *index, const float *value, int64_t count, const float *weight, int64_t columns,
                         float *out, int accumulate, const int vectors) {
  vf sum[GATHER_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) sum[v] = splat(0);
  for (int64_t j = 0; j < count; j++) {
    const float *row = weight + (int64_t)index[j] * columns;
    if (j + 4 < count) {
      const float *ahead = weight + (int64_t)index[j + 4] * columns;
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) __builtin_prefetch(ahead + v * LANES);
    }
    vf x = splat(value[j]);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[v] = fma_(x, load(row + v * LANES), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) store(out + v * LANES, accumulate ? load(out + v * LANES) + sum[v] : sum[v]);
}

static void weighted_rows(const int32_t *index, const float *value, int64_t count, const float *weight, int64_t columns,
                          float *out, int accumulate) {
  int64_t k = 0;
  for (; k + GATHER_VECTORS * LANES <= columns; k += GATHER_VECTORS * LANES)
    gather_chunk(index, value, count, weight + k, columns, out + k, accumulate, GATHER_VECTORS);
  for (; k + LANES <= columns; k += LANES)
    gather_chunk(index, value, count, weight + k, columns, out + k, accumulate, 1);
  for (; k < columns; k++) {
    float sum = 0;
    for (int64_t j = 0; j < count; j++) sum += value[j] * weight[(int64_t)index[j] * columns + k];
    out[k] = accumulate ? out[k] + sum : sum;
  }
}

enum { GATHER_BLOCK = 8 };

static void gather(gather_t *g, int32_t worker) {
  (void)worker;
  const int64_t K = g->columns;
  for (int64_t block; (block = take(&g->next)) * GATHER_BLOCK < g->rows;) {
    for (int64_t u = block * GATHER_BLOCK; u < smaller(g->rows, (block + 1) * GATHER_BLOCK); u++) {
      int64_t from = g->offsets[u], count = g->offsets[u + 1] - from;
      weighted_rows(g->indices + from, g->values + from, count, g->weight, K, g->out + u * K, g->accumulate);
      if (g->has_epilogue) finish_row(&g->epilogue, u, 0, K, g->out + u * K);
    }
  }
}

/* Is anything but zero in n floats? */
static int any_nonzero(const float *x, int64_t n) {
  vi found = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) found |= load(x + i) != (vf){0};
  for (; i < n; i++)
    if (x[i] != 0) return 1;
  return any(found);
}

static int any_not_finite(const float *x, int64_t n) {
  vi bad = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) bad |= ~is_finite(load(x + i));
  for (; i < n; i++)
    if (!(x[i] - x[i] == 0)) return 1;
  return any(bad);
}

enum { SCATTER_BLOCK = 16 };

static int64_t scatter_workspace(int64_t columns, int32_t workers) { return workers * round_up(columns, PANEL); }

static void scatter(scatter_t *s, int32_t worker) {
  const int64_t K = s->weight.columns;
  float *sum = s->workspace + worker * round_up(K, PANEL);
  const by_item_t *b = &s->batch;
  for (int64_t block; (block = take(&s->next)) * SCATTER_BLOCK < b->count && !failed(&s->failure);) {
    for (int64_t n = block * SCATTER_BLOCK; n < smaller(b->count, (block + 1) * SCATTER_BLOCK); n++) {
      int64_t from = b->offsets[n], count = b->offsets[n + 1] - from, row = b->items[n];
      if (s->tied) memcpy(sum, s->tied + n * K, K * 4);
      weighted_rows(b->rows + from, b->values + from, count, s->dz, K, sum, s->tied != 0);
      if (any_not_finite(sum, K)) {
        fail(&s->failure, FAIL_GRADIENT, s->weight.id, row);
        return;
      }
      if (apply_gradient(&s->weight, &s->optimizer, row * K, sum, K)) {
        fail(&s->failure, FAIL_WEIGHT, s->weight.id, row);
        return;
      }
      if (s->weight.last) s->weight.last[row] = (int32_t)s->optimizer.step;
    }
  }
}

enum { REPLAY_BLOCK = 64 };

static void replay(replay_t *r, int32_t worker) {
  (void)worker;
  const weights_t *w = &r->weight;
  const int64_t K = w->columns;
  const float decay = decay_of(w, &r->optimizer);
  for (int64_t block; (block = take(&r->next)) * REPLAY_BLOCK < r->count;) {
    for (int64_t n = block * REPLAY_BLOCK; n < smaller(r->count, (block + 1) * REPLAY_BLOCK); n++) {
      int64_t row = r->items ? r->items[n] : n;
      /* no row can be behind the rates; if one were, its older steps would be lost and not read out of bounds */
      int64_t from = larger(w->last[row], r->optimizer.rates_from - 1);
      if (from >= r->upto) continue;
      float *s0 = w->state0 ? w->state0 + row * K : 0, *s1 = w->state1 ? w->state1 + row * K : 0;
      /* Zero state stays zero, and moves nothing without decay. */
      int moves = decay != 0 || (s0 && any_nonzero(s0, K)) || (s1 && any_nonzero(s1, K));
      /* Where new numbers are not finite the old ones stay, and the row counts as up to date all the same: every row is
       * after this, whatever happened to some. */
      if (moves && update_any(&r->optimizer, decay, from, r->upto, 0, w->value + row * K, s0, s1, K))
        fail(&r->failure, FAIL_WEIGHT, w->id, row);
      w->last[row] = (int32_t)r->upto;
    }
  }
}
