// Losses and their derivatives with respect to the logit. Formulas: kernels/loss.go.
#pragma once
#include "epilogue.cuh"

struct Loss {
  int32_t kind;  // LOSS_<word>
  int32_t normalize_rows;
  int32_t activation;  // ACTIVATION_<word>, linear unless the loss is one of values
  float alpha;
  float weight, one_scale, zero_scale, one_target, zero_target;
  float one_boost, zero_boost;  // see kernels.Loss.Boosts
  int32_t term;  // of StepRecord.term_factors
};

struct LossAndDelta {
  float loss, delta;
};

constexpr float kLog2E = 1.44269504f;

// exp(x) for x up to 0. Rounding x log2(e) costs x units of roundoff, as much as rounding the logit does.
DEVICE float exp_negative(float x) { return exp2_fast(x * kLog2E); }

// exp(x - top), by one product less than exp_negative(x - top).
DEVICE float exp_less(float x, float top) { return exp2_fast(fmaf(x, kLog2E, -top * kLog2E)); }

// 1 / (1 + exp(-z)), ln(1 + exp(z)) and ln(1 + exp(-z)), all from e = exp(-|z|) <= 1.
struct Logistic {
  float sigmoid, softplus, softplus_of_minus;
};

DEVICE Logistic logistic(float z) {
  const float e = exp_negative(-fabsf(z)), r = reciprocal_fast(1.0f + e);
  // ln(1 + e) / e, the polynomial of degree 8 that is nearest for 0 <= e <= 1, relative to it: off by 3 units of roundoff.
  float p = 5.232679658e-03f;
  p = fmaf(p, e, -2.950517833e-02f);
  p = fmaf(p, e, 7.822585106e-02f);
  p = fmaf(p, e, -1.366323680e-01f);
  p = fmaf(p, e, 1.910600215e-01f);
  p = fmaf(p, e, -2.484298050e-01f);
  p = fmaf(p, e, 3.331909776e-01f);
  p = fmaf(p, e, -4.999949336e-01f);
  p = fmaf(p, e, 9.999999404e-01f);
  return {z < 0.0f ? e * r : r, fmaf(p, e, fmaxf(z, 0.0f)), fmaf(p, e, fmaxf(-z, 0.0f))};
}

// What the logits of a row have in common; only soft-max asks for it.
struct LossRow {
  float log_sum_exp;
  float n;  // the sum of the targets after they were multiplied by
  float scale;  // 1, or where they are divided by their sum, 1 over that
};

// The row for targets with a sum.
DEVICE LossRow loss_row(const Loss &l, float sum, float log_sum_exp) {
  if (!l.normalize_rows) return {log_sum_exp, sum, 1.0f};
  return {log_sum_exp, sum == 0.0f ? 0.0f : 1.0f, sum == 0.0f ? 0.0f : 1.0f / sum};
}

// LOSS(word) { ... } is l(z, t) and dl/dz; z may be the value that an activation gives a logit. Nearly all targets are 0, and are
// compiled as that: where t is 0 a formula should have
// few operations.
#define LOSS(word) DEVICE LossAndDelta loss_##word(const Loss &l, const LossRow &row, float z, float t)

LOSS(sigmoid) {
  const Logistic a = logistic(z);
  return {a.softplus - t * z, a.sigmoid - t};
}

LOSS(scaled_marginal) {
  const Logistic a = logistic(z);
  if (t == 0.0f) {
    if (!(a.sigmoid > l.zero_target)) return {0.0f, 0.0f};
    return {l.zero_scale * a.softplus, l.zero_scale * a.sigmoid};
  }
  if (a.sigmoid >= l.one_target) return {0.0f, 0.0f};
  const float scale = l.one_scale * t;
  return {scale * a.softplus_of_minus, scale * (a.sigmoid - 1.0f)};
}

LOSS(softmax) {
  // z - log_sum_exp is at most 0 but for rounding, which may be large in bfloat16
  const float p = row.n * exp2_fast(fminf(fmaf(z, kLog2E, -row.log_sum_exp * kLog2E), 0.0f));
  if (t == 0.0f) return {0.0f, p};
  t *= row.scale;
  return {t * (row.log_sum_exp - z), p - t};
}

LOSS(squared) { return {0.5f * (z - t) * (z - t), z - t}; }

LOSS(hinge) {
  if (t == 0.0f) t = -1.0f;  // an absent item
  const float margin = 1.0f - t * z;
  if (margin > 0.0f) return {margin, -t};
  return {0.0f * margin, 0.0f * margin};  // keeps what is not finite
}

LOSS(absolute) {
  const float e = z - t;
  return {fabsf(e), e > 0.0f ? 1.0f : e < 0.0f ? -1.0f : e};  // 0 and NaN stay as they are
}

LOSS(l2_hinge) {
  float e = z - t;
  if (t > 0.0f ? e > 0.0f : e < 0.0f) e = 0.0f;
  return {0.5f * e * e, e};
}

LOSS(cosine_contrastive) {
  if (t != 0.0f) return {t * (1.0f - z), -t};
  const float beyond = z - l.zero_target;
  if (beyond > 0.0f) return {l.zero_scale * beyond, l.zero_scale};
  return {0.0f * z, 0.0f * z};  // keeps what is not finite
}

DEVICE LossAndDelta loss_of(const Loss &l, const LossRow &row, float z, float t) {
  switch (l.kind) { LOSSES(CASE_BY_WORD, LOSS, loss_, l, row, z, t) }
  __builtin_unreachable();
}

// The factor of a loss and its derivative.
DEVICE float boost_of(const Loss &l, float t) { return t == 0.0f ? l.zero_boost : l.one_boost; }

DEVICE LossAndDelta boosted_loss_of(const Loss &l, const LossRow &row, float z, float t) {
  const LossAndDelta x = loss_of(l, row, z, t);
  const float boost = boost_of(l, t);
  return {boost * x.loss, boost * x.delta};
}

// Which losses output_loss_of_values computes: those of values, which an activation gives logits, and those that may be boosted.
template <int kind>
constexpr bool kOfValues = kind >= LOSS_squared || kind == LOSS_sigmoid;

// The activation of a logit, and its derivative from what slope_at tells. They are called, not inlined: copies for each of eight logits make
// output_loss_of_values two and a half times as large.
DEVICE_CALL float value_of_logit(int32_t kind, float alpha, float z) { return activate(kind, alpha, z); }
DEVICE_CALL float slope_from(int32_t kind, float alpha, float at) { return slope(kind, alpha, at); }
