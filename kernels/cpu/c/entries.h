/* entries.h: the loss of an output at the stored entries of the target alone, see kernels.OutputEntries. Bound by memory: the
 * entries of a row choose rows of W that lie anywhere. They come from memory for the logits, and for dh from the
 * second-level cache: a long row is done in parts. */

enum {
  PRODUCTS = 4 /* made at the same time */,
  PART_FLOATS = 32 * 1024 /* of W, in a part of a row; at least PRODUCTS rows */
};

/* z[i] += h . row i, of a few rows. Meanwhile the rows ahead are fetched. */
INLINE void add_products(const int rows, const float *h, const float *const row[], const float *const ahead[],
                         int64_t K, float *z) {
  vf sum[PRODUCTS];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) sum[i] = splat(0);
  int64_t k = 0;
  for (; k + LANES <= K; k += LANES) {
    const vf x = load(h + k);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
      if (k % LINE == 0) __builtin_prefetch(ahead[i] + k, 0, 2);
      sum[i] = fma_(x, load(row[i] + k), sum[i]);
    }
  }
  if (k < K) {
    const vf x = load_some(h + k, K - k);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) sum[i] = fma_(x, load_some(row[i] + k, K - k), sum[i]);
  }
  for (int i = 0; i < rows; i++) z[i] += (float)sum_lanes(sum[i]);
}

/* The logits of entries from .. to - 1 of row u. */
static void entry_logits(const entries_t *o, const span_t *s, int64_t u, int64_t from, int64_t to) {
  float *z = o->dz;
  for (int64_t e = from; e < to; e++) z[e] = o->bias ? o->bias[o->indices[e]] : 0;
  for (int32_t n = 0; n < o->sources; n++) {
    const int64_t K = o->source[n].weight.columns, by = gather_ahead(K * 4);
    const float *w = o->source[n].weight.value, *h = o->source[n].h + u * K, *row[PRODUCTS], *ahead[PRODUCTS];
    for (int64_t e = from, rows; e < to; e += rows) {
      rows = to - e < PRODUCTS ? 1 : PRODUCTS;
      for (int64_t i = 0; i < rows; i++) {
        row[i] = w + o->indices[e + i] * K;
        ahead[i] = w + o->indices[look_ahead(s, e + i, by)] * K;
      }
      if (rows == PRODUCTS)
        add_products(PRODUCTS, h, row, ahead, K, z + e);
      else
        add_products(1, h, row, ahead, K, z + e);
    }
  }
}

/* The loss of n values, LANES at most, and the gradient d with respect to them. It is made of the parts that a tile's is made
 * of: that of target 0, and the correction for another one. */
INLINE double lanes_loss(const int32_t kind, const loss_t *l, vf value, const float *target, int64_t n, float *d) {
  float a[LANES], absent[LANES];
  double total = 0;
  vf excess = {0}, linear = {0};
  store(a, value);
  store(d, absent_target(kind, l, value, splat(0), &excess, &linear) * l->weight);
  if (needs[kind] & LOGISTIC) linear = linear + log_1p(excess);
  if (needs[kind] & SCALED) linear = l->zero_scale * linear;
  store(absent, linear);
  for (int64_t i = 0; i < n; i++) {
    total += (double)absent[i];
    if (target[i] != 0) total += (double)stored_target(kind, l, a[i], target[i], l->weight, 0, d + i);
  }
  return total;
}

static double any_lanes_loss(const loss_t *l, vf value, const float *target, int64_t n, float *d) {
  switch (l->kind) { LOSSES(CASE_BY_NUMBER, LOSS, lanes_loss, l, value, target, n, d) }
  __builtin_unreachable();
}

static vf activate_lanes(int32_t activation, float alpha, vf z) {
  switch (activation) { ACTIVATIONS(CASE_BY_NUMBER, ACTIVATION, activate, alpha, z) }
  __builtin_unreachable();
}

static vf slope_lanes(int32_t activation, float alpha, vf at) {
  switch (activation) { ACTIVATIONS(CASE_BY_NUMBER, ACTIVATION, activation_slope, alpha, at) }
  __builtin_unreachable();
}

/* Turns n logits of a row into their gradient, in place; returns their loss. */
static double entry_losses(const loss_t *l, const float *target, int64_t n, float *z) {
  double total = 0;
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t here = smaller(LANES, n - i);
    const vf x = load_some(z + i, here), a = fma_(splat(0), x, activate_lanes(l->activation, l->alpha, x));
    float d[LANES];
    total += any_lanes_loss(l, a, target + i, here, d);
    store_some(z + i, load(d) * slope_lanes(l->activation, l->alpha, slope_at(l->activation, x, a)), here);
  }
  return total * (double)l->weight;
}

static void entries_row(entries_t *o, const span_t *s, int64_t u) {
  const int64_t begin = o->offsets[u], end = o->offsets[u + 1];
  int64_t K = 0, from = begin, to;
  loss_t kind = o->loss;
  if (o->row_weights) kind.weight *= o->row_weights[u];
  for (int32_t n = 0; n < o->sources; n++) K += o->source[n].weight.columns;
  double loss = 0;
  do {
    to = smaller(from + larger(PRODUCTS, PART_FLOATS / larger(K, 1)), end);
    entry_logits(o, s, u, from, to);
    loss += entry_losses(&kind, o->values + from, to - from, o->dz + from);
    const span_t fetched = {from, to, to, to};
    for (int32_t n = 0; n < o->sources; n++) {
      const source_t *source = &o->source[n];
      if (source->dh)
        add_entries(&fetched, o->indices, o->dz, from, to, source->weight.value, source->weight.columns,
                    source->dh + u * source->weight.columns, source->accumulate || from > begin);
    }
    from = to;
  } while (from < end);
  o->losses[u] = loss;
  if (!(loss - loss == 0)) fail(&o->failure, FAIL_LOSS, -1, u);
}

static void entries_rows(entries_t *o, UNUSED int32_t worker) {
  const int64_t entries = o->offsets[o->rows];
  const int64_t size = larger(1, smaller(BLOCK_ROWS, o->rows * BLOCK_ENTRIES / larger(entries, 1)));
  for (span_t rows = {0}; !failed(&o->failure) && next_block(&rows, &o->next, size, o->rows);) {
    const span_t s = entries_of(&rows, o->offsets);
    for (int64_t u = rows.from; u < rows.end; u++) entries_row(o, &s, u);
  }
}

/* dz in the order by item. A row's entries have ascending items, so items in their order find the entries of each row in
 * theirs. That takes one worker a nanosecond or two for each entry. */
static void entries_by_item(entries_t *o, UNUSED int32_t worker) {
  if (take(&o->taken)) return;
  int32_t *next = o->next_entry;
  memcpy(next, o->offsets, o->rows * 4);
  for (int64_t e = 0; e < o->offsets[o->rows]; e++) o->by_item[e] = o->dz[next[o->item_rows[e]]++];
}
