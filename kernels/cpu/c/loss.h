/* loss.h: losses and their derivatives on a tile of logits. Formulas: kernels/loss.go.
 *
 * Where an output has an activation, it is applied to a few items' logits before their loss, and its derivative after it,
 * both in the first-level cache: a loss knows nothing of activations, nor they of losses.
 *
 * Nearly all targets are zero, so the loss of the whole tile is taken with target 0 first, BLOCK_ITEMS items at a time, and
 * corrected at the stored targets. A logistic loss needs ln(1 + exp(z)) of every logit: the logarithms of a row are taken
 * together, as one of the product of all 1 + exp(-|z|), stored as its excess f over 1: f <- f + q + f q loses no accuracy. */
enum { RUN_ITEMS = 64 /* a product of that many factors up to 2 is finite */ };

/* A loss is needs_<word>, ABSENT(word) and STORED(word). What it may need, to be dropped by the compiler elsewhere: */
enum {
  LINEAR = 1,   /* *linear, to which ABSENT adds the loss */
  LOGISTIC = 2, /* *excess, whose factors ABSENT multiplies; the gradients of an item have one sign */
  SCALED = 4,   /* both are times zero_scale */
  COUNTED = 8,  /* the gradient of ABSENT is times the sum of the row's targets: layout_t.absent has it */
  OF_VALUES = 16 /* the loss is one of activated logits */
};

/* The gradient of target 0 with respect to logits z, or to their values, before the row's weight; lse: log-sum-exp of the rows. */
#define ABSENT(word) \
  INLINE vf absent_##word(UNUSED const loss_t *l, vf z, UNUSED vf lse, UNUSED vf *excess, UNUSED vf *linear)

/* Corrects the gradient *d of target 0, weight included, for a stored target t. Returns what that adds to the loss, without
 * the weight. */
#define STORED(word) \
  INLINE float stored_##word(UNUSED const loss_t *l, UNUSED float z, float t, float weight, UNUSED float lse, float *d)

/* Multiplies a product, stored as its excess over 1, by 1 + q. */
INLINE void multiply(vf *excess, vf q) { *excess = fma_(*excess, q, *excess + q); }

enum { needs_sigmoid = LINEAR | LOGISTIC };
ABSENT(sigmoid) {
  vf q = exponential_of_negative(-absolute(z));
  multiply(excess, q);
  *linear = *linear + maximum(splat(0), z);
  return sigmoid_with(z, q);
}
STORED(sigmoid) {
  *d -= weight * t;
  return -t * z;
}

enum { needs_scaled_marginal = LINEAR | LOGISTIC | SCALED };
ABSENT(scaled_marginal) {
  vf q = exponential_of_negative(-absolute(z)), a = sigmoid_with(z, q);
  vi on = (a > l->zero_target) | (a != a);
  multiply(excess, (vf)((vi)q & on));
  *linear = *linear + (vf)((vi)maximum(splat(0), z) & on);
  return (vf)((vi)(l->zero_scale * a) & on);
}
STORED(scaled_marginal) {
  float a = sigmoid(splat(z))[0];
  int zero_on = a > l->zero_target || a != a, on = a < l->one_target || a != a;
  *d = on ? weight * (l->one_scale * t * (a - 1.0f)) : 0;
  return (on ? l->one_scale * t * softplus(splat(-z))[0] : 0) - (zero_on ? l->zero_scale * softplus(splat(z))[0] : 0);
}

enum { needs_softmax = COUNTED };
ABSENT(softmax) { return exponential_of_negative(minimum(splat(0), z - lse)); }
STORED(softmax) {
  *d -= weight * t;
  return t * (lse - z);
}

enum { needs_squared = LINEAR | OF_VALUES };
ABSENT(squared) {
  *linear = fma_(0.5f * z, z, *linear);
  return z;
}
STORED(squared) {
  *d -= weight * t;
  return t * (0.5f * t - z);
}

enum { needs_hinge = LINEAR | OF_VALUES }; /* an absent item has target -1; 0 * margin keeps what is not finite */
ABSENT(hinge) {
  vf margin = 1.0f + z;
  *linear = *linear + select_(margin > 0.0f, margin, 0.0f * margin);
  return select_(margin > 0.0f, splat(1.0f), 0.0f * margin);
}
STORED(hinge) {
  float margin = 1.0f - t * z, absent = 1.0f + z;
  *d = margin > 0 ? -weight * t : 0.0f * margin;
  return (margin > 0 ? margin : 0.0f * margin) - (absent > 0 ? absent : 0.0f * absent);
}

/* The sign of what is not 0 and not NaN, which stay as they are. */
INLINE vf sign_of(vf x) { return select_(x > 0.0f, splat(1.0f), select_(x < 0.0f, splat(-1.0f), x)); }

enum { needs_absolute = LINEAR | OF_VALUES };
ABSENT(absolute) {
  *linear = *linear + absolute(z);
  return sign_of(z);
}
STORED(absolute) {
  *d = weight * sign_of(splat(z - t))[0];
  return fabsf(z - t) - fabsf(z);
}

enum { needs_l2_hinge = LINEAR | OF_VALUES };
ABSENT(l2_hinge) {
  vf d = maximum(splat(0), z); /* NaN stays NaN */
  *linear = fma_(0.5f * d, d, *linear);
  return d;
}
STORED(l2_hinge) {
  float e = z - t, absent = z < 0 ? 0 : z;
  if (t > 0 ? e > 0 : e < 0) e = 0;
  *d = weight * e;
  return 0.5f * e * e - 0.5f * absent * absent;
}

enum { needs_cosine_contrastive = LINEAR | OF_VALUES }; /* 0 * z keeps what is not finite */
ABSENT(cosine_contrastive) {
  vf beyond = z - l->zero_target;
  *linear = *linear + l->zero_scale * select_(beyond > 0.0f, beyond, 0.0f * z);
  return select_(beyond > 0.0f, splat(l->zero_scale), 0.0f * z);
}
STORED(cosine_contrastive) {
  float beyond = z - l->zero_target;
  *d = -weight * t;
  return t * (1.0f - z) - (beyond > 0 ? l->zero_scale * beyond : 0);
}

/* kind is a constant wherever these three are used, so that the compiler resolves them. */
#define NEEDS(word) [LOSS_##word] = needs_##word,
static const int needs[] = {LOSSES(NEEDS)};

INLINE vf absent_target(const int32_t kind, const loss_t *l, vf z, vf lse, vf *excess, vf *linear) {
  switch (kind) { LOSSES(CASE_BY_WORD, LOSS, absent_, l, z, lse, excess, linear) }
  __builtin_unreachable();
}

INLINE float stored_target(const int32_t kind, const loss_t *l, float z, float t, float weight, float lse, float *d) {
  switch (kind) { LOSSES(CASE_BY_WORD, LOSS, stored_, l, z, t, weight, lse, d) }
  __builtin_unreachable();
}

/* stored_target of a loss that weighs items with and without a target differently: *d is the gradient of target 0 with the weight
 * of the latter. */
INLINE float boosted_target(const int32_t kind, const loss_t *l, float z, float t, float weight, float lse, float *d) {
  vf excess = {0}, linear = {0};
  float plain = absent_target(kind, l, splat(z), splat(lse), &excess, &linear)[0] * weight;
  if (needs[kind] & LOGISTIC) linear = linear + log_1p(excess);
  const float stored = linear[0] + stored_target(kind, l, z, t, weight, lse, &plain);
  *d = l->one_boost * plain;
  return l->one_boost * stored - l->zero_boost * linear[0];
}

/* What a worker keeps while it goes over a tile. */
typedef struct {
  float *excess; /* [Bp] of the product of 1 + exp(-|z|), LOGISTIC */
  float *linear; /* [Bp] sum of the loss but for that, LINEAR */
  float *logit;  /* [BLOCK_ITEMS, Bp] of the stored targets */
  float *lse;    /* [Bp] log-sum-exp of each row, soft-max */
  float *slope;  /* [BLOCK_ITEMS, Bp] of the activation, if it is not linear */
} loss_scratch_t;

static loss_scratch_t loss_scratch(const layout_t *l, float *extra) {
  return (loss_scratch_t){extra, extra + l->Bp, extra + 2 * l->Bp, extra + (2 + BLOCK_ITEMS) * l->Bp,
                          extra + EXTRA * l->Bp};
}

/* Takes the log-sum-exp out of the statistics. */
static void take_stats(const layer_t *o, const layout_t *l, float *lse) {
  for (int64_t u = 0; u < l->Bp; u++) lse[u] = o->stats && u < l->B ? o->stats[2 * u + 1] : 0;
}

/* The slope at the sum x and its value a. That of soft-plus is made of the exponential that the value has, too; a hidden
 * layer, which keeps no sum, makes it of the value by another one. */
INLINE vf slope_beside(const int32_t activation, float alpha, vf x, vf a) {
  if (activation == ACTIVATION_softplus) return sigmoid_with(x, exponential_of_negative(-absolute(x)));
  return activation_slope(activation, alpha, slope_at(activation, x, a));
}

/* Replaces the logits of n items by their values, and keeps the slopes there: what both are made of, such as an exponential, is
 * computed once. 0 * z keeps what is not finite. */
INLINE void activate_items(const int32_t activation, float alpha, const layout_t *l, int64_t n, const float *bias,
                           float *restrict z, float *restrict slope) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t u = 0; u < l->Bp; u += LANES) {
      vf x = load(z + i * l->ldz + u) + bias[i], a = fma_(splat(0), x, activate(activation, alpha, x));
      store(z + i * l->ldz + u, a);
      store(slope + i * l->Bp + u, slope_beside(activation, alpha, x, a));
    }
  }
}

/* From the gradient d with respect to n items' values to that with respect to their logits, with its sums. */
static void differentiate_items(const layout_t *l, int64_t n, const float *restrict slope, float *restrict d,
                                double *gradient, double *size) {
  for (int64_t i = 0; i < n; i++) {
    vf sum = {0}, magnitude = {0};
    for (int64_t u = 0; u < l->Bp; u += LANES) {
      vf x = load(d + i * l->ldz + u) * load(slope + i * l->Bp + u);
      sum = sum + x;
      magnitude = magnitude + absolute(x);
      store(d + i * l->ldz + u, x);
    }
    gradient[i] = sum_lanes(sum);
    size[i] = sum_lanes(magnitude);
  }
}

static void activate_block(const layer_t *o, const layout_t *l, int64_t n, const float *bias, float *z, float *slope) {
  const float alpha = o->loss.alpha;
  switch (o->loss.activation) { ACTIVATIONS(CASE_BY_NUMBER, ACTIVATION, activate_items, alpha, l, n, bias, z, slope) }
}

/* The gradient with target 0 of n items (a constant) on all rows, in place of their logits z, to which the bias is added
 * first. gradient and size get, for each item, the sums of the gradient and of its magnitude. */
INLINE void zero_targets(const int32_t kind, const int n, const layer_t *o, const layout_t *l, const float *bias,
                         float *restrict z, const loss_scratch_t *scratch, double *gradient, double *size) {
  const float *weight = o->workspace + l->absent, *lse = scratch->lse;
  vf sum[BLOCK_ITEMS], magnitude[BLOCK_ITEMS];
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) sum[i] = magnitude[i] = splat(0);
  for (int64_t u = 0; u < l->Bp; u += LANES) {
    vf r = load(weight + u), excess = {0}, linear = {0};
    if (needs[kind] & LOGISTIC) excess = load(scratch->excess + u);
    if (needs[kind] & LINEAR) linear = load(scratch->linear + u);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      vf x = load(z + i * l->ldz + u) + bias[i];
      vf d = absent_target(kind, &o->loss, x, load(lse + u), &excess, &linear) * r;
      sum[i] = sum[i] + d;
      if (!(needs[kind] & LOGISTIC)) magnitude[i] = magnitude[i] + absolute(d);
      store(z + i * l->ldz + u, d);
    }
    if (needs[kind] & LOGISTIC) store(scratch->excess + u, excess);
    if (needs[kind] & LINEAR) store(scratch->linear + u, linear);
  }
  for (int i = 0; i < n; i++) {
    gradient[i] = sum_lanes(sum[i]);
    size[i] = needs[kind] & LOGISTIC ? fabs(gradient[i]) : sum_lanes(magnitude[i]);
  }
}

/* Ends a run of items: their loss with target 0, weighted by row. */
INLINE double take_loss(const int32_t kind, const layer_t *o, const layout_t *l, const loss_scratch_t *scratch) {
  if (!(needs[kind] & LINEAR)) return 0;
  const float *weight = o->workspace + l->absent;
  vf total = {0};
  for (int64_t u = 0; u < l->Bp; u += LANES) {
    vf loss = load(scratch->linear + u);
    if (needs[kind] & LOGISTIC) loss = loss + log_1p(load(scratch->excess + u));
    if (needs[kind] & SCALED) loss = o->loss.zero_scale * loss;
    total = fma_(load(weight + u), loss, total);
    store(scratch->linear + u, splat(0));
    store(scratch->excess + u, splat(0));
  }
  return sum_lanes(total);
}

/* The gradient by the logits of items from .. end - 1 as words, for both products that read it. If their number is odd, a row
 * of zeros completes the last pair. */
static void narrow_delta(const layout_t *l, int64_t from, int64_t end, float *z, float *words) {
  for (int64_t t = from; t < end; t += 2) {
    float *even = z + t * l->ldz, *odd = even + l->ldz, *pair = words + t / 2 * l->ldz;
    if (t + 1 == end) memset(odd, 0, l->Bp * 4);
    for (int64_t u = 0; u < l->Bp; u += LANES) store(pair + u, zip(load(even + u), load(odd + u)));
    narrow_row(even, l->Bp, even);
    narrow_row(odd, l->Bp, odd);
  }
}

/* Turns the logits of the tile's items first .. first + n (biases not yet added) into their gradient, in place, and adds to
 * the loss. db[t] is the sum of item t's gradient, size[t] bounds the sum of its magnitudes.
 * With `words` the gradient becomes words, while it is in the first-level cache. */
INLINE double tile_loss(const int32_t kind, const layer_t *o, const layout_t *l, int64_t first, int64_t n, float *z,
                        float *words, const loss_scratch_t *scratch, float *db, double *size) {
  const float *weight = o->workspace + l->weight, *lse = scratch->lse;
  const by_item_t *target = &o->target;
  const int32_t *row = target->rows;
  const int activated = needs[kind] & OF_VALUES && o->loss.activation != ACTIVATION_linear;
  const int boosted = o->loss.one_boost != 1 || o->loss.zero_boost != 1;
  int64_t at = lower_bound(target->items, target->count, first);
  double total = 0;
  memset(scratch->linear, 0, l->Bp * 4);
  memset(scratch->excess, 0, l->Bp * 4);
  for (int64_t t = 0, step; t < n; t += step) {
    step = n - t >= BLOCK_ITEMS ? BLOCK_ITEMS : 1;
    float bias[BLOCK_ITEMS] = {0}, *block = z + t * l->ldz;
    double gradient[BLOCK_ITEMS];
    int64_t from[BLOCK_ITEMS] = {0}, end[BLOCK_ITEMS] = {0};
    if (o->bias.value) memcpy(bias, o->bias.value + first + t, step * 4);
    if (activated) {
      activate_block(o, l, step, bias, block, scratch->slope);
      memset(bias, 0, sizeof bias);
    }
    for (int64_t i = 0; i < step; i++) {
      if (at < target->count && target->items[at] == first + t + i) {
        from[i] = target->offsets[at], end[i] = target->offsets[++at];
      }
      for (int64_t e = from[i]; e < end[i]; e++)
        scratch->logit[i * l->Bp + e - from[i]] = block[i * l->ldz + row[e]] + bias[i];
    }
    if (step == BLOCK_ITEMS)
      zero_targets(kind, BLOCK_ITEMS, o, l, bias, block, scratch, gradient, size + t);
    else
      zero_targets(kind, 1, o, l, bias, block, scratch, gradient, size + t);
    for (int64_t i = 0; i < step; i++) {
      for (int64_t e = from[i]; e < end[i]; e++) {
        int64_t u = row[e];
        float *d = block + i * l->ldz + u, before = *d;
        const float x = scratch->logit[i * l->Bp + e - from[i]], y = target->values[e];
        total += (double)weight[u] * (double)(boosted ? boosted_target(kind, &o->loss, x, y, weight[u], lse[u], d)
                                                      : stored_target(kind, &o->loss, x, y, weight[u], lse[u], d));
        gradient[i] += (double)*d - before;
        size[t + i] += fabs((double)*d);
      }
    }
    if (activated) differentiate_items(l, step, scratch->slope, block, gradient, size + t);
    for (int64_t i = 0; i < step; i++) db[t + i] = (float)gradient[i];
    if (words && step == BLOCK_ITEMS) narrow_delta(l, t, t + step, z, words);
    if ((t + step) % RUN_ITEMS == 0 || t + step == n) total += take_loss(kind, o, l, scratch);
  }
  if (words) narrow_delta(l, n / BLOCK_ITEMS * BLOCK_ITEMS, n, z, words);
  return total;
}

/* tile_loss with the kind made a constant, so that the compiler drops what it does not need. */
static double any_tile_loss(const layer_t *o, const layout_t *l, int64_t first, int64_t n, float *z, float *words,
                            const loss_scratch_t *scratch, float *db, double *size) {
  switch (o->loss.kind) { LOSSES(CASE_BY_NUMBER, LOSS, tile_loss, o, l, first, n, z, words, scratch, db, size) }
  __builtin_unreachable();
}
