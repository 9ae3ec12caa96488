/* update.h: the optimizers, on one vector, a row, and over missed steps. Formulas: kernels/optimizer.go. */

/* One step of one vector; kind is a constant at every call, so that the switch is resolved by the compiler. */
INLINE void update_vector(const int32_t kind, const optimizer_t *o, rates_t rate, float decay, vf gradient, vf *w,
                          vf *s0, vf *s1) {
  vf g = kind == OPT_ADAMW ? gradient : fma_(splat(decay), *w, gradient);
  const float lr = rate.learning_rate;
  switch (kind) {
    case OPT_SGD:
      *w = fma_(splat(-lr), g, *w);
      break;
    case OPT_MOMENTUM:
      *s0 = fma_(splat(-lr), g, o->momentum * *s0);
      *w = *w + *s0;
      break;
    case OPT_NESTEROV: {
      *s0 = fma_(splat(-lr), g, o->momentum * *s0);
      *w = *w + fma_(splat(-lr), g, o->momentum * *s0);
      break;
    }
    case OPT_RMSPROP:
      *s0 = fma_(o->beta2 - (vf){0}, *s0, (1.0f - o->beta2) * (g * g));
      *w = *w - lr * g / (square_root(*s0) + o->epsilon);
      break;
    default: {
      if (kind == OPT_ADAMW) *w = fma_(splat(-lr * decay), *w, *w);
      *s0 = fma_(splat(o->beta1), *s0, (1.0f - o->beta1) * g);
      *s1 = fma_(splat(o->beta2), *s1, (1.0f - o->beta2) * (g * g));
      *w = *w - (lr * rate.scale1) * *s0 / (square_root(rate.scale2 * *s1) + o->epsilon);
    }
  }
}

INLINE int states_of(const int32_t kind) { return kind == OPT_SGD ? 0 : kind <= OPT_RMSPROP ? 1 : 2; }

/* Steps from + 1 .. to with a zero gradient and then, if gradient is not null, one step with it, on n weights. A vector is
 * written only if everything new in it is finite; the return value is nonzero if one was not. */
INLINE int update_span(const int32_t kind, const optimizer_t *o, float decay, int64_t from, int64_t to,
                       const float *gradient, float *w, float *s0, float *s1, int64_t n) {
  vi bad = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    float tail[4][LANES];
    int64_t here = smaller(LANES, n - i);
    const float *gp = gradient ? gradient + i : 0;
    float *wp = w + i, *p0 = s0 ? s0 + i : 0, *p1 = s1 ? s1 + i : 0;
    if (here < LANES) { /* work on padded copies of the last, partial vector */
      memset(tail, 0, sizeof tail);
      memcpy(tail[0], wp, here * 4), wp = tail[0];
      if (states_of(kind) > 0) memcpy(tail[1], p0, here * 4), p0 = tail[1];
      if (states_of(kind) > 1) memcpy(tail[2], p1, here * 4), p1 = tail[2];
      if (gp) memcpy(tail[3], gp, here * 4), gp = tail[3];
    }
    vf x = load(wp), a = {0}, b = {0};
    if (states_of(kind) > 0) a = load(p0);
    if (states_of(kind) > 1) b = load(p1);
    vf x0 = x, a0 = a, b0 = b;
    for (int64_t step = from + 1; step <= to; step++)
      update_vector(kind, o, o->rates[step - o->rates_from], decay, splat(0), &x, &a, &b);
    if (gp) update_vector(kind, o, o->rates[o->step - o->rates_from], decay, load(gp), &x, &a, &b);
    vi good = is_finite(x) & is_finite(a) & is_finite(b);
    bad |= ~good;
    store(wp, select_(good, x, x0));
    if (states_of(kind) > 0) store(p0, select_(good, a, a0));
    if (states_of(kind) > 1) store(p1, select_(good, b, b0));
    if (here < LANES) {
      memcpy(w + i, wp, here * 4);
      if (states_of(kind) > 0) memcpy(s0 + i, p0, here * 4);
      if (states_of(kind) > 1) memcpy(s1 + i, p1, here * 4);
    }
  }
  return any(bad);
}

static int update_any(const optimizer_t *o, float decay, int64_t from, int64_t to, const float *gradient, float *w,
                      float *s0, float *s1, int64_t n) {
  switch (o->kind) {
    case OPT_SGD:
      return update_span(OPT_SGD, o, decay, from, to, gradient, w, s0, s1, n);
    case OPT_MOMENTUM:
      return update_span(OPT_MOMENTUM, o, decay, from, to, gradient, w, s0, s1, n);
    case OPT_NESTEROV:
      return update_span(OPT_NESTEROV, o, decay, from, to, gradient, w, s0, s1, n);
    case OPT_RMSPROP:
      return update_span(OPT_RMSPROP, o, decay, from, to, gradient, w, s0, s1, n);
    case OPT_ADAM:
      return update_span(OPT_ADAM, o, decay, from, to, gradient, w, s0, s1, n);
    default:
      return update_span(OPT_ADAMW, o, decay, from, to, gradient, w, s0, s1, n);
  }
}

INLINE float decay_of(const weights_t *w, const optimizer_t *o) { return w->no_decay ? 0.0f : o->decay; }

/* Elements first .. first + n of the weight, counted flat, with their gradient: update, or write the gradient out. */
INLINE int apply_gradient(const weights_t *w, const optimizer_t *o, int64_t first, const float *gradient, int64_t n) {
  if (w->gradient) {
    memcpy(w->gradient + first, gradient, n * 4);
    return 0;
  }
  return update_any(o, decay_of(w, o), 0, 0, gradient, w->value + first, w->state0 ? w->state0 + first : 0,
                    w->state1 ? w->state1 + first : 0, n);
}
