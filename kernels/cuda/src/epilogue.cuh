// How a layer ends: h = dropout(act(z + bias)), and the way back. Formulas: kernels/ops.go.
#pragma once
#include "philox.cuh"
#include "step.cuh"

struct Epilogue {
  const float *bias;  // [units], may be null
  int32_t present;    // 0: the sums are stored as they are
  int32_t activation;  // ACTIVATION_<word>
  float alpha;        // of the activation
  float dropout;
  float scale, shift, dropped;  // of units, see kernels.Drop
  uint32_t stream;
};

DEVICE float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

// activate_<word>(alpha, z), and its derivative slope_<word>(alpha, a), computed from a = act(z), or from z where
// SLOPE_NEEDS_SUM.
DEVICE float activate_linear(float, float z) { return z; }
DEVICE float slope_linear(float, float) { return 1.0f; }

DEVICE float activate_sigmoid(float, float z) { return sigmoid(z); }
DEVICE float slope_sigmoid(float, float a) { return a * (1.0f - a); }

DEVICE float activate_tanh(float, float z) { return tanhf(z); }
DEVICE float slope_tanh(float, float a) { return 1.0f - a * a; }

DEVICE float activate_relu(float, float z) { return z < 0.0f ? 0.0f : z; }  // NaN stays NaN
DEVICE float slope_relu(float, float a) { return a == 0.0f ? 0.0f : 1.0f; }

DEVICE float activate_elu(float alpha, float z) { return z > 0.0f ? z : alpha * expm1f(z); }
DEVICE float slope_elu(float alpha, float a) { return a > 0.0f ? 1.0f : a + alpha; }

constexpr float kSeluScale = 1.05070099f, kSeluAlpha = 1.67326324f;
DEVICE float activate_selu(float, float z) { return kSeluScale * (z > 0.0f ? z : kSeluAlpha * expm1f(z)); }
DEVICE float slope_selu(float, float a) { return a > 0.0f ? kSeluScale : a + kSeluScale * kSeluAlpha; }

DEVICE float activate_leaky_relu(float alpha, float z) { return z > 0.0f ? z : alpha * z; }
DEVICE float slope_leaky_relu(float alpha, float a) { return a > 0.0f ? 1.0f : alpha; }

DEVICE float activate_softplus(float, float z) { return fmaxf(z, 0.0f) + log1pf(expf(-fabsf(z))); }
DEVICE float slope_softplus(float, float a) { return -expm1f(-a); }  // the sigmoid of z

// Through the reciprocal where |z| is large, since inf / inf would be NaN.
DEVICE float activate_softsign(float, float z) {
  const float size = fabsf(z);
  return size > 1.0f ? copysignf(1.0f / (1.0f + 1.0f / size), z) : z / (1.0f + size);
}
DEVICE float slope_softsign(float, float a) { return (1.0f - fabsf(a)) * (1.0f - fabsf(a)); }

// Beyond bounds these are 0 or z: 0 times infinity would be NaN.
DEVICE float activate_gelu(float, float z) { return z < -14.0f ? 0.0f : z * normcdff(z); }
DEVICE float slope_gelu(float, float z) {
  if (fabsf(z) > 14.0f) return z > 0.0f ? 1.0f : 0.0f;
  return normcdff(z) + 0.398942280f * z * expf(-0.5f * z * z);
}

DEVICE float activate_silu(float, float z) { return z < -88.0f ? 0.0f : z * sigmoid(z); }
DEVICE float slope_silu(float, float z) {
  if (fabsf(z) > 88.0f) return z > 0.0f ? 1.0f : 0.0f;
  const float share = sigmoid(z);
  return share + z * share * sigmoid(-z);
}

DEVICE float activate(int32_t kind, float alpha, float z) {
  switch (kind) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, activate_, alpha, z) }
  __builtin_unreachable();
}

DEVICE float slope(int32_t kind, float alpha, float at) {
  switch (kind) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, slope_, alpha, at) }
  __builtin_unreachable();
}

// What the slope is computed from: the sum z or the value a.
DEVICE float slope_at(int32_t kind, float z, float a) { return SLOPE_NEEDS_SUM(kind) ? z : a; }

// The factor of dropout of unit k in row u: 0, or the scale of units that are kept.
DEVICE float kept(const StepRecord *step, const Epilogue &e, int64_t u, int64_t k) {
  if (!step->training || e.dropout == 0.0f) return 1.0f;
  const PhiloxWords x =
      philox(step->seed, uint32_t(k >> 2), uint32_t(step->first + u), uint32_t(step->number), e.stream);
  const uint32_t word = k & 2 ? (k & 1 ? x.word[3] : x.word[2]) : (k & 1 ? x.word[1] : x.word[0]);
  return uniform(word) < e.dropout ? 0.0f : e.scale;
}

DEVICE float finish_unit(const StepRecord *step, const Epilogue &e, int64_t u, int64_t k, float z) {
  if (!e.present) return z;
  if (e.bias) z += e.bias[k];
  const float scale = kept(step, e, u, k);
  if (scale == 0.0f) return e.dropped;
  return activate(e.activation, e.alpha, z) * scale + (step->training ? e.shift : 0.0f);
}
