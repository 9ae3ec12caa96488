/* update.h: the optimizers, on one vector, a row, and over missed steps. Formulas: kernels/optimizer.go. */

/* OPTIMIZER(word) { ... } is one step of a vector w with states s0 and s1 and gradient g, without weight decay as yet. */
#define OPTIMIZER(word)                                                                                        \
  INLINE void update_##word(UNUSED const optimizer_t *o, UNUSED rates_t rate, UNUSED float decay, vf g, vf *w, \
                            UNUSED vf *s0, UNUSED vf *s1)

OPTIMIZER(sgd) {
  g = fma_(splat(decay), *w, g);
  *w = fma_(splat(-rate.learning_rate), g, *w);
}

OPTIMIZER(momentum) {
  g = fma_(splat(decay), *w, g);
  *s0 = fma_(splat(-rate.learning_rate), g, o->momentum * *s0);
  *w = *w + *s0;
}

OPTIMIZER(nesterov) {
  g = fma_(splat(decay), *w, g);
  *s0 = fma_(splat(-rate.learning_rate), g, o->momentum * *s0);
  *w = *w + fma_(splat(-rate.learning_rate), g, o->momentum * *s0);
}

OPTIMIZER(rmsprop) {
  g = fma_(splat(decay), *w, g);
  *s0 = fma_(splat(o->beta2), *s0, (1.0f - o->beta2) * (g * g));
  *w = *w - rate.learning_rate * g / (square_root(*s0) + o->epsilon);
}

INLINE void adam(const optimizer_t *o, rates_t rate, vf g, vf *w, vf *s0, vf *s1) {
  *s0 = fma_(splat(o->beta1), *s0, (1.0f - o->beta1) * g);
  *s1 = fma_(splat(o->beta2), *s1, (1.0f - o->beta2) * (g * g));
  *w = *w - (rate.learning_rate * rate.scale1) * *s0 / (square_root(rate.scale2 * *s1) + o->epsilon);
}

OPTIMIZER(adam) { adam(o, rate, fma_(splat(decay), *w, g), w, s0, s1); }

OPTIMIZER(adamw) {
  *w = fma_(splat(-rate.learning_rate * decay), *w, *w);
  adam(o, rate, g, w, s0, s1);
}

OPTIMIZER(adagrad) {
  g = fma_(splat(decay), *w, g);
  *s0 = fma_(g, g, *s0);
  *w = *w - rate.learning_rate * g / (square_root(*s0) + o->epsilon);
}

OPTIMIZER(adadelta) {
  g = fma_(splat(decay), *w, g);
  *s0 = fma_(splat(o->beta2), *s0, (1.0f - o->beta2) * (g * g));
  const vf change = square_root(*s1 + o->epsilon) / square_root(*s0 + o->epsilon) * g;
  *s1 = fma_(splat(o->beta2), *s1, (1.0f - o->beta2) * (change * change));
  *w = fma_(splat(-rate.learning_rate), change, *w);
}

/* What moves a weight beside its gradient; both are 0 for a weight that is exempt. */
typedef struct {
  float decay, l1;
} penalty_t;

INLINE penalty_t penalty_of(const weights_t *w, const optimizer_t *o) {
  return w->no_decay ? (penalty_t){0} : (penalty_t){o->decay, o->l1};
}

/* sign(w) max(0, |w| - by): w, moved towards 0 by at most `by`. What is not finite stays so, to be found afterwards. */
INLINE vf shrunk(vf w, vf by) { return w - minimum(by, maximum(-by, w)); }

/* kind is a constant at every call of these, so that the compiler resolves the switch. */
INLINE void update_vector(const int32_t kind, const optimizer_t *o, rates_t rate, float decay, vf gradient, vf *w,
                          vf *s0, vf *s1) {
  switch (kind) { OPTIMIZERS(OPTIMIZER_CASE, CASE_BY_WORD, update_, o, rate, decay, gradient, w, s0, s1) }
  __builtin_unreachable();
}

/* One step on a few vectors at once, whose chains of dependent operations overlap; gradient null: it is zero. The only
 * place that applies l1. */
INLINE void step_vectors(const int count, const int32_t kind, const optimizer_t *o, rates_t rate, penalty_t penalty,
                         const vf *gradient, vf *w, vf *s0, vf *s1) {
#pragma GCC unroll 4
  for (int v = 0; v < count; v++)
    update_vector(kind, o, rate, penalty.decay, gradient ? gradient[v] : splat(0), w + v, s0 + v, s1 + v);
  if (penalty.l1 == 0) return;
  const vf by = splat(rate.learning_rate * penalty.l1);
#pragma GCC unroll 4
  for (int v = 0; v < count; v++) w[v] = shrunk(w[v], by);
}

#define STATES(word, states) [OPTIMIZER_##word] = states,
static const int states_of[] = {OPTIMIZERS(STATES)};

/* Fetches the next SPAN numbers of a row that will be updated later into the second-level cache. */
enum { UPDATE_VECTORS = 4, SPAN = UPDATE_VECTORS * LANES };
INLINE void fetch_span(const float *p) {
  for (int i = 0; i < SPAN; i += LINE) __builtin_prefetch(p + i, 0, 2);
}

INLINE void fetch_ahead(const int32_t kind, const float *w, const float *s0, const float *s1, int64_t ahead) {
  if (!ahead) return;
  fetch_span(w + ahead);
  if (states_of[kind] > 0) fetch_span(s0 + ahead);
  if (states_of[kind] > 1) fetch_span(s1 + ahead);
}

/* The steps of update_span on a few vectors at once; now: the rates of the step with the gradient, passed by value so that
 * they need not be read again after each store. */
INLINE vi update_vectors(const int count, const int32_t kind, const optimizer_t *o, rates_t now, penalty_t penalty,
                         int64_t from, int64_t to, const vf *gradient, float *w, float *s0, float *s1) {
  vf x[UPDATE_VECTORS], a[UPDATE_VECTORS] = {{0}}, b[UPDATE_VECTORS] = {{0}};
#pragma GCC unroll 4
  for (int v = 0; v < count; v++) {
    x[v] = load(w + v * LANES);
    if (states_of[kind] > 0) a[v] = load(s0 + v * LANES);
    if (states_of[kind] > 1) b[v] = load(s1 + v * LANES);
  }
  for (int64_t step = from + 1; step <= to; step++)
    step_vectors(count, kind, o, o->rates[step - o->rates_from], penalty, 0, x, a, b);
  if (gradient) step_vectors(count, kind, o, now, penalty, gradient, x, a, b);
  vi residues = {0};
#pragma GCC unroll 4
  for (int v = 0; v < count; v++) {
    residues |= residue(x[v]);
    if (states_of[kind] > 0) residues |= residue(a[v]);
    if (states_of[kind] > 1) residues |= residue(b[v]);
  }
  const vi bad = not_finite(residues);
  if (__builtin_expect(any(bad), 0)) { /* those that are not finite keep their old numbers */
    for (int v = 0; v < count; v++) {
      vi good = is_finite(x[v]) & is_finite(a[v]) & is_finite(b[v]);
      x[v] = select_(good, x[v], load(w + v * LANES));
      if (states_of[kind] > 0) a[v] = select_(good, a[v], load(s0 + v * LANES));
      if (states_of[kind] > 1) b[v] = select_(good, b[v], load(s1 + v * LANES));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < count; v++) {
    store(w + v * LANES, x[v]);
    if (states_of[kind] > 0) store(s0 + v * LANES, a[v]);
    if (states_of[kind] > 1) store(s1 + v * LANES, b[v]);
  }
  return bad;
}

/* Steps from + 1 .. to with a zero gradient and then, if gradient is not null, one step with it, on n weights. A vector is
 * written only if everything new in it is finite; the return value is nonzero if one was not. The weights and states that
 * lie `ahead` numbers further on are fetched meanwhile, unless ahead is 0. */
INLINE int update_span(const int32_t kind, const optimizer_t *o, penalty_t penalty, int64_t from, int64_t to,
                       const float *gradient, float *w, float *s0, float *s1, int64_t n, int64_t ahead) {
  vi bad = {0};
  rates_t now = {0};
  if (gradient) now = o->rates[o->step - o->rates_from];
  int64_t i = 0;
  for (; i + SPAN <= n; i += SPAN) {
    fetch_ahead(kind, w + i, s0 + i, s1 + i, ahead);
    vf g[UPDATE_VECTORS] = {{0}};
#pragma GCC unroll 4
    for (int v = 0; v < UPDATE_VECTORS && gradient; v++) g[v] = load(gradient + i + v * LANES);
    bad |= update_vectors(UPDATE_VECTORS, kind, o, now, penalty, from, to, gradient ? g : 0, w + i, s0 + i, s1 + i);
  }
  for (; i < n; i += LANES) {
    int64_t here = smaller(LANES, n - i);
    float part[3][LANES]; /* padded copies, since the last vector may be a partial one */
    store(part[0], load_some(w + i, here));
    if (states_of[kind] > 0) store(part[1], load_some(s0 + i, here));
    if (states_of[kind] > 1) store(part[2], load_some(s1 + i, here));
    vf g = {0};
    if (gradient) g = load_some(gradient + i, here);
    bad |= update_vectors(1, kind, o, now, penalty, from, to, gradient ? &g : 0, part[0], part[1], part[2]);
    store_some(w + i, load(part[0]), here);
    if (states_of[kind] > 0) store_some(s0 + i, load(part[1]), here);
    if (states_of[kind] > 1) store_some(s1 + i, load(part[2]), here);
  }
  return any(bad);
}

static int update_any(const optimizer_t *o, penalty_t penalty, int64_t from, int64_t to, const float *gradient,
                      float *w, float *s0, float *s1, int64_t n, int64_t ahead) {
  switch (o->kind) {
    OPTIMIZERS(OPTIMIZER_CASE, CASE_BY_NUMBER, update_span, o, penalty, from, to, gradient, w, s0, s1, n, ahead)
  }
  __builtin_unreachable();
}

/* Elements first .. first + n of the weight, counted flat, with their gradient: update, or write the gradient out, or
 * nothing if the weight is locked. */
INLINE int apply_gradient(const weights_t *w, const optimizer_t *o, int64_t first, const float *gradient, int64_t n) {
  if (w->locked) return 0;
  if (w->gradient) {
    memcpy(w->gradient + first, gradient, n * 4);
    return 0;
  }
  return update_any(o, penalty_of(w, o), 0, 0, gradient, w->value + first, w->state0 ? w->state0 + first : 0,
                    w->state1 ? w->state1 + first : 0, n, 0);
}
