// What the forms of the output layer have in common.
#pragma once
#include "loss.cuh"
#include "update.cuh"

// What turns products into logits: a bias, and for cosine logits the lengths and the temperature.
struct Finish {
  const float *bias;  // [I], may be null
  const float *hidden_inverse;  // [B], null: no cosines
  const float *item_inverse;  // [items of the tile]
  float temperature;
};

enum { kFailLogit, kFailLoss };

// r, the weight of a row of the batch in loss and gradient, without the row's own.
DEVICE float row_weight(const StepRecord *step, const Loss &kind) {
  const float factor = step->term_factors ? step->term_factors[kind.term] : 1.0f;
  return kind.weight * factor / float(step->whole);
}

// A row's own weight.
DEVICE float own_weight(const StepRecord *step, const Loss &kind, int64_t u) {
  return step->row_weights ? step->row_weights[kind.term * step->rows + u] : 1.0f;
}

// Where an item's gradient goes: to the update, or with a weight that an input shares to the input's op.
struct ItemGradient {
  float *tied;  // [touched items, K], null: not shared
  int32_t slot;  // of that input
};

// Gradients of the elements of an item from column k on. Returns whether the elements are updated, whose new values are then in g.
template <int n>
DEVICE bool take_gradients(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates,
                           const ItemGradient &to, int64_t item, int64_t touched, int64_t k, float (&g)[n]) {
  if (touched < 0) return update_elements<n>(step, launch, w, rates, item, item * w.columns + k, g);
  for (int i = 0; i < n; i++) {
    if (!finite(g[i])) {
      fail(step, launch, kFailGradient, item);
      return false;
    }
  }
  write<n>(to.tied + touched * w.columns + k, g);
  return false;
}

DEVICE void take_gradient(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates,
                          const ItemGradient &to, int64_t item, int64_t touched, int64_t k, float g) {
  float one[1] = {g};
  take_gradients<1>(step, launch, w, rates, to, item, touched, k, one);
}

DEVICE int64_t touched_by(const StepRecord *step, const ItemGradient &to, int64_t item) {
  if (!to.tied) return -1;
  const SparseRecord &input = step->slots[to.slot];
  return position(input.items, input.item_count, int32_t(item));
}

// The sum of products of the lanes of a warp.
DEVICE float warp_dot(const float *x, const float *y, int64_t columns) {
  float sum = 0.0f;
  for (int64_t k = lane_id(); k < columns; k += 32) sum = fmaf(x[k], y[k], sum);
  return warp_sum(sum);
}

// 1 / |x|, or 0 for zeros, from sums in float64. All lanes call.
DEVICE float inverse_norm(const float *row, int64_t columns) {
  double sum = 0.0;
  for (int64_t k = lane_id(); k < columns; k += 32) {
    const double x = row[k];
    sum += x * x;
  }
  sum = warp_sum(sum);
  return sum == 0.0 ? 0.0f : float(1.0 / sqrt(sum));
}
