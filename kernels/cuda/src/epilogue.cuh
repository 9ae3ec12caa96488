// How a layer ends: h = dropout(act(z + bias)), and the way back. Formulas: kernels/ops.go.
#pragma once
#include "philox.cuh"
#include "step.cuh"

enum { kLinear, kSigmoid, kTanh, kReLU };  // kernels.Activation

struct Epilogue {
  const float *bias;  // [units], may be null
  int32_t present;    // 0: the sums are stored as they are
  int32_t activation;
  float dropout;
  uint32_t stream;
};

DEVICE float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

DEVICE float activate(int32_t kind, float z) {
  switch (kind) {
    case kSigmoid:
      return sigmoid(z);
    case kTanh:
      return tanhf(z);
    case kReLU:
      return z < 0.0f ? 0.0f : z;  // NaN stays NaN
    default:
      return z;
  }
}

// act'(z), told from a = act(z). ReLU has slope 0 at 0.
DEVICE float slope(int32_t kind, float a) {
  switch (kind) {
    case kSigmoid:
      return a * (1.0f - a);
    case kTanh:
      return 1.0f - a * a;
    case kReLU:
      return a == 0.0f ? 0.0f : 1.0f;
    default:
      return 1.0f;
  }
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
