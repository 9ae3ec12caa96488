// How a layer ends: h = dropout(act(z + bias)), and the way back. Formulas: kernels/ops.go.
#pragma once
#include "philox.cuh"
#include "step.cuh"

struct Epilogue {
  const float *bias;  // [units], may be null
  int32_t present;    // 0: the sums are stored as they are
  int32_t activation;  // ACTIVATION_<word>
  float dropout;
  uint32_t stream;
};

DEVICE float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

// activate_<word>(z), and its derivative slope_<word>(a), computed from a = act(z).
DEVICE float activate_linear(float z) { return z; }
DEVICE float slope_linear(float) { return 1.0f; }

DEVICE float activate_sigmoid(float z) { return sigmoid(z); }
DEVICE float slope_sigmoid(float a) { return a * (1.0f - a); }

DEVICE float activate_tanh(float z) { return tanhf(z); }
DEVICE float slope_tanh(float a) { return 1.0f - a * a; }

DEVICE float activate_relu(float z) { return z < 0.0f ? 0.0f : z; }  // NaN stays NaN
DEVICE float slope_relu(float a) { return a == 0.0f ? 0.0f : 1.0f; }

DEVICE float activate_elu(float z) { return z > 0.0f ? z : expm1f(z); }
DEVICE float slope_elu(float a) { return a > 0.0f ? 1.0f : a + 1.0f; }

constexpr float kSeluScale = 1.05070099f, kSeluAlpha = 1.67326324f;
DEVICE float activate_selu(float z) { return kSeluScale * (z > 0.0f ? z : kSeluAlpha * expm1f(z)); }
DEVICE float slope_selu(float a) { return a > 0.0f ? kSeluScale : a + kSeluScale * kSeluAlpha; }

DEVICE float activate(int32_t kind, float z) {
  switch (kind) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, activate_, z) }
  __builtin_unreachable();
}

DEVICE float slope(int32_t kind, float a) {
  switch (kind) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, slope_, a) }
  __builtin_unreachable();
}

// The factor of dropout of unit k in row u: 0, or 1 / (1 - p).
DEVICE float kept(const StepRecord *step, const Epilogue &e, int64_t u, int64_t k) {
  if (!step->training || e.dropout == 0.0f) return 1.0f;
  const PhiloxWords x =
      philox(step->seed, uint32_t(k >> 2), uint32_t(step->first + u), uint32_t(step->number), e.stream);
  const uint32_t word = k & 2 ? (k & 1 ? x.word[3] : x.word[2]) : (k & 1 ? x.word[1] : x.word[0]);
  return uniform(word) < e.dropout ? 0.0f : 1.0f / (1.0f - e.dropout);
}

DEVICE float finish_unit(const StepRecord *step, const Epilogue &e, int64_t u, int64_t k, float z) {
  if (!e.present) return z;
  if (e.bias) z += e.bias[k];
  const float scale = kept(step, e, u, k);
  return scale == 0.0f ? 0.0f : activate(e.activation, z) * scale;
}
