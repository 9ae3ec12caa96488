/* entries.h: the loss of an output at the stored entries of the target alone, see kernels.OutputEntries, and which targets count
 * in a soft-max with a margin, see kernels.MarginalTargets. Bound by memory: the entries of a row choose rows of W that lie
 * anywhere. They come from memory for the logits, and for dh from the second-level cache: a long row is done in parts. */

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

/* Adds the products of h and the rows of W to the logits of entries from .. to - 1 of row u. */
static void add_logits(const entries_t *o, const span_t *s, int64_t u, int64_t from, int64_t to) {
  float *z = o->dz;
  for (int32_t n = 0; n < o->sources; n++) {
    const int64_t K = o->source[n].weight.columns, by = gather_ahead(K * 4);
    const float *w = o->source[n].weight.value, *row[PRODUCTS], *ahead[PRODUCTS];
    const float *h = (o->temperature == 0 ? o->source[n].h : o->directions) + u * K;
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

/* 1 over the length of a vector; 0 of zeros. */
static float inverse_length(const float *x, int64_t K) {
  const double square = dot(x, x, K);
  return (float)(square > 0 ? 1 / sqrt(square) : 0 * square);
}

/* The logits of entries from .. to - 1 of row u. */
static void entry_logits(const entries_t *o, const span_t *s, int64_t u, int64_t from, int64_t to) {
  float *z = o->dz;
  const int cosine = o->temperature != 0;
  for (int64_t e = from; e < to; e++) z[e] = o->bias && !cosine ? o->bias[o->indices[e]] : 0;
  const float *addend = o->addend ? o->addend + u * o->addend_stride + o->addend_first : 0;
  for (int64_t e = from; addend && e < to; e++) z[e] += addend[o->indices[e]];
  add_logits(o, s, u, from, to);
  for (int64_t e = from; cosine && e < to; e++) {
    const weights_t *w = &o->source[0].weight;
    o->inverse[e] = inverse_length(w->value + o->indices[e] * w->columns, w->columns);
    o->cosine[e] = z[e] * o->inverse[e];
    z[e] = o->cosine[e] / o->temperature + (o->bias ? o->bias[o->indices[e]] : 0);
  }
}

/* 1 / |h_u|, whose direction is stored. */
static float take_direction(const entries_t *o, int64_t u) {
  const int64_t K = o->source[0].weight.columns;
  const float *h = o->source[0].h + u * K, inverse = inverse_length(h, K);
  for (int64_t k = 0; k < K; k++) o->directions[u * K + k] = h[k] * inverse;
  return inverse;
}

/* From the gradient of entries from .. to - 1 by their cosine logits to x and the parts of y; by_item has room for what dh
 * takes of the rows of W. Returns what it takes of the direction of h, before it is divided by |h|. */
static double turn_entries(const entries_t *o, float hidden, int64_t from, int64_t to) {
  double along = 0;
  for (int64_t e = from; e < to; e++) {
    const float d = hidden > 0 ? o->dz[e] / o->temperature : 0, inverse = o->inverse[e];
    const float turned = inverse > 0 ? d * o->cosine[e] : 0;
    along -= (double)turned;
    o->by_item[e] = d * inverse * hidden;
    o->cosine[e] = -turned * inverse * inverse;
    o->inverse[e] = d * inverse;
  }
  return along;
}

/* What the losses of a row's entries have in common. Soft-max alone needs the log-sum-exp, and the weight times the sum of the
 * targets. */
typedef struct {
  loss_t loss; /* its weight is the row's */
  float lse, counted;
} row_loss_t;

/* The loss of n values, LANES at most, and the gradient d with respect to them. It is made of the parts that a tile's is made
 * of: that of target 0, and the correction for another one. */
INLINE double lanes_loss(const int32_t kind, const row_loss_t *row, vf value, const float *target, int64_t n,
                         float *d) {
  const loss_t *l = &row->loss;
  float a[LANES], absent[LANES];
  double total = 0;
  vf excess = {0}, linear = {0};
  store(a, value);
  store(d, absent_target(kind, l, value, splat(row->lse), &excess, &linear) *
               (needs[kind] & COUNTED ? row->counted : l->weight));
  if (needs[kind] & LOGISTIC) linear = linear + log_1p(excess);
  if (needs[kind] & SCALED) linear = l->zero_scale * linear;
  store(absent, linear);
  for (int64_t i = 0; i < n; i++) {
    double loss = (double)absent[i];
    if (target[i] != 0) loss += (double)stored_target(kind, l, a[i], target[i], l->weight, row->lse, d + i);
    const float boost = target[i] != 0 ? l->one_boost : l->zero_boost;
    d[i] *= boost;
    total += loss * (double)boost;
  }
  return total;
}

static double any_lanes_loss(const row_loss_t *row, vf value, const float *target, int64_t n, float *d) {
  switch (row->loss.kind) { LOSSES(CASE_BY_NUMBER, LOSS, lanes_loss, row, value, target, n, d) }
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
static double entry_losses(const row_loss_t *row, const float *target, int64_t n, float *z) {
  const loss_t *l = &row->loss;
  double total = 0;
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t here = smaller(LANES, n - i);
    const vf x = load_some(z + i, here), a = fma_(splat(0), x, activate_lanes(l->activation, l->alpha, x));
    float d[LANES];
    total += any_lanes_loss(row, a, target + i, here, d);
    store_some(z + i, load(d) * slope_lanes(l->activation, l->alpha, slope_at(l->activation, x, a)), here);
  }
  return total * (double)l->weight;
}

static int64_t count_negatives(const float *target, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += target[i] == 0;
  return count;
}

/* ln of the sum of exp(z[i]); 0 z keeps what is not finite. */
static float log_sum_exp(const float *z, int64_t n) {
  float top = z[0];
  for (int64_t i = 1; i < n; i++) top = z[i] > top ? z[i] : top;
  vf sum = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vf x = load(z + i);
    sum = sum + fma_(splat(0), x, exponential_of_negative(x - top));
  }
  double total = sum_lanes(sum);
  for (; i < n; i++) total += (double)fma_(splat(0), splat(z[i]), exponential_of_negative(splat(z[i] - top)))[0];
  return top + log_1p(splat((float)(total - 1)))[0];
}

/* Sampled soft-max: what the n entries of a row have in common, and their corrected logits. */
static void sample_softmax(const entries_t *o, int64_t u, const float *target, int64_t n, float *z, row_loss_t *row) {
  const int64_t negatives = count_negatives(target, n), left_out = o->items - n;
  if (negatives) {
    const float correction = log_1p(splat((float)((double)left_out / (double)negatives)))[0];
    for (int64_t i = 0; i < n; i++) z[i] += target[i] == 0 ? correction : 0;
  }
  const float sum = o->row_sum[u], weight = row->loss.weight;
  row->lse = n ? log_sum_exp(z, n) : 0;
  row->counted = weight * (row->loss.normalize_rows ? sum != 0 : sum);
  if (row->loss.normalize_rows) row->loss.weight = sum == 0 ? 0 : weight / sum;
}

/* Some pairs of a row: LANES at most. */
typedef struct {
  int64_t n, other[LANES], negative[LANES];
  float difference[LANES];
} pairs_t;

/* The loss of pairs of a row, whose gradient is added to d. */
static double add_pair_losses(const float *target, float weight, const pairs_t *pairs, float *d) {
  const vf x = load(pairs->difference), q = exponential_of_negative(-absolute(x));
  float loss[LANES], slope[LANES];
  double total = 0;
  store(loss, fma_(splat(0), x, maximum(splat(0), -x) + log_1p(q)));
  store(slope, sigmoid_with(-x, q));
  for (int64_t p = 0; p < pairs->n; p++) {
    const float t = target[pairs->other[p]], change = weight * t * slope[p];
    total += (double)t * (double)loss[p];
    d[pairs->other[p]] -= change;
    d[pairs->negative[p]] += change;
  }
  return total;
}

/* Turns the n logits of row u into the gradient of the loss of Pairs, in place; returns the loss. logit is room for them. */
static double pair_losses(const entries_t *o, const row_loss_t *row, int64_t u, const float *target, int64_t n,
                          float *z, float *logit) {
  const int64_t negatives = count_negatives(target, n), others = n - negatives;
  memcpy(logit, z, n * 4);
  memset(z, 0, n * 4);
  if (!others || !negatives) {
    double none = 0;
    for (int64_t i = 0; i < n; i++) none += 0 * logit[i]; /* keeps what is not finite */
    return none;
  }
  vu word[4];
  philox(o->seed, 4, o->first + u, o->step, o->stream, word);
  int64_t i = 0, skip = others * (int64_t)(word[0][0] >> 8) >> 24;
  for (; skip || target[i] == 0; i++) skip -= target[i] != 0;
  const float share = (float)((double)others / (double)negatives);
  pairs_t pairs = {0};
  double total = 0;
  for (int64_t e = 0, left = negatives; left; e++) {
    if (target[e] != 0) continue;
    pairs.other[pairs.n] = i, pairs.negative[pairs.n] = e;
    pairs.difference[pairs.n++] = logit[i] - logit[e];
    if (--left == 0 || pairs.n == LANES) {
      total += add_pair_losses(target, row->loss.weight * share, &pairs, z);
      pairs.n = 0;
    }
    do i = i + 1 == n ? 0 : i + 1;
    while (target[i] == 0);
  }
  return total * (double)share * (double)row->loss.weight;
}

static void entries_row(entries_t *o, const span_t *s, int64_t u) {
  const int64_t begin = o->offsets[u], end = o->offsets[u + 1];
  int64_t K = 0, from = begin, to;
  row_loss_t row = {o->loss, 0, 0};
  const int softmax = row.loss.kind == LOSS_softmax, cosine = o->temperature != 0;
  const float hidden = cosine ? take_direction(o, u) : 0;
  double along = 0;
  if (o->row_weights) row.loss.weight *= o->row_weights[u];
  for (int32_t n = 0; n < o->sources; n++) K += o->source[n].weight.columns;
  double loss = 0;
  do {
    const float *target = o->values + from;
    float *z = o->dz + from;
    to = softmax || o->pairs ? end : smaller(from + larger(PRODUCTS, PART_FLOATS / larger(K, 1)), end);
    entry_logits(o, s, u, from, to);
    if (softmax) sample_softmax(o, u, target, to - from, z, &row);
    /* dz in the order by item is filled later, so there is room */
    loss += o->pairs ? pair_losses(o, &row, u, target, to - from, z, o->by_item + from)
                     : entry_losses(&row, target, to - from, z) + 0 * (double)row.lse;
    if (cosine) along += turn_entries(o, hidden, from, to);
    const span_t fetched = {from, to, to, to};
    for (int32_t n = 0; n < o->sources; n++) {
      const source_t *source = &o->source[n];
      if (source->dh)
        add_entries(&fetched, o->indices, cosine ? o->by_item : o->dz, from, to, source->weight.value,
                    source->weight.columns, source->dh + u * source->weight.columns,
                    source->accumulate || from > begin);
    }
    from = to;
  } while (from < end);
  if (cosine && o->source[0].dh) {
    float *dh = o->source[0].dh + u * K;
    for (int64_t k = 0; k < K; k++) dh[k] += (float)along * hidden * o->directions[u * K + k];
  }
  o->losses[u] = loss;
  if (!(loss - loss == 0)) fail(&o->failure, FAIL_LOSS, -1, u);
}

/* The targets of row u that count, in the place of their logits, and their sum. */
static void marginal_row(entries_t *o, const span_t *s, int64_t u) {
  const int64_t begin = o->offsets[u], end = o->offsets[u + 1];
  const float lse = o->stats[2 * u + 1], divisor = o->loss.normalize_rows ? o->row_sum[u] : 1;
  float *z = o->dz, zero = 0;
  double sum = 0;
  if (o->temperature != 0) take_direction(o, u);
  entry_logits(o, s, u, begin, end);
  for (int64_t e = begin; e < end; e++) {
    zero += 0 * z[e]; /* keeps what is not finite */
    const float t = o->values[e];
    z[e] = t != 0 && z[e] - lse < o->log_target ? o->one_scale * (t / divisor) : 0;
    sum += (double)z[e];
  }
  o->sums[u] = (float)sum;
  if (!(zero == 0)) fail(&o->failure, FAIL_LOGITS, -1, u);
}

/* Does all rows, a block after the other. */
INLINE void rows_with_entries(entries_t *o, void (*const row)(entries_t *, const span_t *, int64_t)) {
  const int64_t entries = o->offsets[o->rows];
  const int64_t size = larger(1, smaller(BLOCK_ROWS, o->rows * BLOCK_ENTRIES / larger(entries, 1)));
  for (span_t rows = {0}; !failed(&o->failure) && next_block(&rows, &o->next, size, o->rows);) {
    const span_t s = entries_of(&rows, o->offsets);
    for (int64_t u = rows.from; u < rows.end; u++) row(o, &s, u);
  }
}

static void entries_rows(entries_t *o, UNUSED int32_t worker) { rows_with_entries(o, entries_row); }
static void marginal_rows(entries_t *o, UNUSED int32_t worker) { rows_with_entries(o, marginal_row); }

/* dz in the order by item. A row's entries have ascending items, so items in their order find the entries of each row in
 * theirs. That takes one worker a nanosecond or two for each entry. */
static void entries_by_item(entries_t *o, UNUSED int32_t worker) {
  if (take(&o->taken)) return;
  int32_t *next = o->next_entry;
  memcpy(next, o->offsets, o->rows * 4);
  if (!o->x) {
    for (int64_t e = 0; e < o->offsets[o->rows]; e++) o->by_item[e] = o->dz[next[o->item_rows[e]]++];
    return;
  }
  for (int64_t n = 0; n < o->item_count; n++) {
    double own = 0;
    for (int64_t e = o->item_offsets[n]; e < o->item_offsets[n + 1]; e++) {
      const int64_t from = next[o->item_rows[e]]++;
      o->by_item[e] = o->dz[from];
      o->x[e] = o->inverse[from];
      own += (double)o->cosine[from];
    }
    o->y[n] = (float)own;
  }
}
