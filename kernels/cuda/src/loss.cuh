// Losses and their derivatives with respect to the logit. Formulas: kernels/loss.go.
#pragma once
#include "epilogue.cuh"

struct Loss {
  int32_t kind;  // LOSS_<word>
  int32_t normalize_rows;
  float weight, one_scale, zero_scale, one_target, zero_target;
  int32_t term;  // of StepRecord.term_factors
};

struct LossAndDelta {
  float loss, delta;
};

// ln(1 + exp(z)) without overflow.
DEVICE float softplus(float z) { return fmaxf(z, 0.0f) + log1pf(expf(-fabsf(z))); }

// LOSS(word) { ... } is l(z, t) and dl/dz. Soft-max also needs n, the sum of the row's targets, and its log-sum-exp.
#define LOSS(word) DEVICE LossAndDelta loss_##word(const Loss &l, float z, float t, float n, float log_sum_exp)

LOSS(sigmoid) { return {softplus(z) - t * z, sigmoid(z) - t}; }

LOSS(scaled_marginal) {
  const float p = sigmoid(z);
  if (t == 0.0f) {
    if (!(p > l.zero_target)) return {0.0f, 0.0f};
    return {l.zero_scale * softplus(z), l.zero_scale * p};
  }
  if (p >= l.one_target) return {0.0f, 0.0f};
  const float scale = l.one_scale * t;
  return {scale * softplus(-z), scale * (p - 1.0f)};
}

LOSS(softmax) {
  if (n == 0.0f) return {0.0f, 0.0f};
  if (l.normalize_rows) t = t / n, n = 1.0f;
  const float x = z - log_sum_exp;  // at most 0 but for rounding, which may be large in bfloat16
  return {t * (log_sum_exp - z), n * expf(x > 0.0f ? 0.0f : x) - t};
}

LOSS(squared) { return {0.5f * (z - t) * (z - t), z - t}; }

LOSS(hinge) {
  if (t == 0.0f) t = -1.0f;  // an absent item
  const float margin = 1.0f - t * z;
  if (margin > 0.0f) return {margin, -t};
  return {0.0f * margin, 0.0f * margin};  // keeps what is not finite
}

DEVICE LossAndDelta loss_of(const Loss &l, float z, float t, float n, float log_sum_exp) {
  switch (l.kind) { LOSSES(CASE_BY_WORD, LOSS, loss_, l, z, t, n, log_sum_exp) }
  __builtin_unreachable();
}
