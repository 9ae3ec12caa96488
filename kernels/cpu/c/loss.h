/* loss.h: losses and their derivatives, an item's logits at a time. Formulas: kernels/loss.go. */

/* The loss with target 0 of one vector of logits; *dz is its derivative. */
INLINE vf zero_loss(const int32_t kind, const loss_t *loss, vf z, vf lse, vf *dz) {
  switch (kind) {
    case LOSS_SIGMOID:
      *dz = sigmoid(z);
      return softplus(z);
    case LOSS_SCALED_MARGINAL: {
      vf a = sigmoid(z);
      vi on = (a > loss->zero_target) | (a != a);
      *dz = (vf)((vi)(loss->zero_scale * a) & on);
      return (vf)((vi)(loss->zero_scale * softplus(z)) & on);
    }
    case LOSS_SOFTMAX:
      *dz = exponential(z - lse);
      return splat(0);
    default:
      *dz = z;
      return 0.5f * (z * z);
  }
}

/* Corrects the gradient d of target 0 for a stored target t, and returns what that adds to the loss. */
INLINE float target_loss(const int32_t kind, const loss_t *loss, float z, float t, float weight, float lse, float *d) {
  switch (kind) {
    case LOSS_SIGMOID:
      *d -= weight * t;
      return -t * z;
    case LOSS_SCALED_MARGINAL: {
      vf ignored;
      float a = sigmoid(splat(z))[0];
      float zero = zero_loss(kind, loss, splat(z), splat(0), &ignored)[0];
      int on = a < loss->one_target || a != a;
      *d = on ? weight * (loss->one_scale * t * (a - 1.0f)) : 0;
      return (on ? loss->one_scale * t * softplus(splat(-z))[0] : 0) - zero;
    }
    case LOSS_SOFTMAX:
      *d -= weight * t;
      return t * (lse - z);
    default:
      *d -= weight * t;
      return t * (0.5f * t - z);
  }
}

/* Turns the logits of an item (bias not yet added) into their gradient, in place, and returns the loss. *bias_gradient is
 * the sum of the gradient, *size bounds the sum of its magnitudes. Entries from .. end of the targets are the item's. */
INLINE double item_delta(const int32_t kind, const layer_t *o, const layout_t *l, float bias, int64_t from, int64_t end,
                         float *z, float *logit, float *bias_gradient, double *size) {
  const float *ws = o->workspace, *weight = ws + l->weight, *count = ws + l->count, *lse = ws + l->lse;
  const int32_t *row = o->target.rows;
  for (int64_t e = from; e < end; e++) logit[e - from] = z[row[e]] + bias;
  vf loss = splat(0), sum = splat(0), magnitude = splat(0);
  for (int64_t u = 0; u < l->Bp; u += LANES) {
    vf x = load(z + u) + bias, r = load(weight + u), d;
    loss = fma_(zero_loss(kind, &o->loss, x, load(lse + u), &d), r, loss);
    d = d * (kind == LOSS_SOFTMAX ? load(count + u) : r);
    sum = sum + d;
    magnitude = magnitude + absolute(d);
    store(z + u, d);
  }
  double total = sum_lanes(loss), gradient = sum_lanes(sum), bound = sum_lanes(magnitude);
  for (int64_t e = from; e < end; e++) {
    int64_t u = row[e];
    float before = z[u];
    total += (double)weight[u] *
             (double)target_loss(kind, &o->loss, logit[e - from], o->target.values[e], weight[u], lse[u], z + u);
    gradient += (double)z[u] - before;
    bound += fabs((double)z[u]);
  }
  *bias_gradient = (float)gradient;
  *size = bound;
  return total;
}

static double any_item_delta(const layer_t *o, const layout_t *l, float bias, int64_t from, int64_t end, float *z,
                             float *logit, float *bias_gradient, double *size) {
  switch (o->loss.kind) {
    case LOSS_SIGMOID:
      return item_delta(LOSS_SIGMOID, o, l, bias, from, end, z, logit, bias_gradient, size);
    case LOSS_SCALED_MARGINAL:
      return item_delta(LOSS_SCALED_MARGINAL, o, l, bias, from, end, z, logit, bias_gradient, size);
    case LOSS_SOFTMAX:
      return item_delta(LOSS_SOFTMAX, o, l, bias, from, end, z, logit, bias_gradient, size);
    default:
      return item_delta(LOSS_SQUARED, o, l, bias, from, end, z, logit, bias_gradient, size);
  }
}
