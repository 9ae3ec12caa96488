// The update rules, the same formulas as kernels/optimizer.go, and how an element of a weight is updated. Every update of
// every kernel goes through update_element, so that a replayed step has the bits of a step that was made in time.
#pragma once
#include "step.cuh"

enum { kSGD, kMomentum, kNesterov, kRMSProp, kAdam, kAdamW };  // kernels.OptimizerKind

struct Optimizer {
  int32_t kind;
  float momentum, beta1, beta2, epsilon, decay;
};

// A kernels.Weights with its optimizer; decay is 0 for a weight that is exempt.
struct Weights {
  float *value;  // [rows, columns]
  float *state[2];  // as many as the rule needs
  float *gradient;  // written instead of an update, if there is one
  int32_t *last;  // [rows], may be null
  int64_t rows;
  int64_t columns;
  Optimizer optimizer;
};

DEVICE int states_of(int32_t kind) { return kind == kSGD ? 0 : kind <= kRMSProp ? 1 : 2; }

// One step of the rule on a weight w with states a and b and gradient g.
DEVICE void apply_rule(const Optimizer &o, const Rates &r, float g, float &w, float &a, float &b) {
  const float rate = r.learning_rate;
  if (o.kind == kAdamW)
    w -= rate * o.decay * w;
  else
    g += o.decay * w;
  switch (o.kind) {
    case kSGD:
      w -= rate * g;
      break;
    case kMomentum:
      a = o.momentum * a - rate * g;
      w += a;
      break;
    case kNesterov:
      a = o.momentum * a - rate * g;
      w += o.momentum * a - rate * g;
      break;
    case kRMSProp:
      a = o.beta2 * a + (1.0f - o.beta2) * g * g;
      w -= rate * g / (sqrtf(a) + o.epsilon);
      break;
    default:
      a = o.beta1 * a + (1.0f - o.beta1) * g;
      b = o.beta2 * b + (1.0f - o.beta2) * g * g;
      w -= rate * r.scale1 * a / (sqrtf(r.scale2 * b) + o.epsilon);
  }
}

enum { kFailGradient, kFailWeight };

// Updates element `at` of row `row` with gradient g, or writes the gradient. A number that is not finite is noted and not
// stored, so that every weight stays finite.
DEVICE void update_element(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates, int64_t row,
                           int64_t at, float g) {
  if (!finite(g)) {
    fail(step, launch, kFailGradient, row);
    return;
  }
  if (w.gradient) {
    w.gradient[at] = g;
    return;
  }
  const int states = states_of(w.optimizer.kind);
  float value = w.value[at], a = states > 0 ? w.state[0][at] : 0.0f, b = states > 1 ? w.state[1][at] : 0.0f;
  apply_rule(w.optimizer, rates, g, value, a, b);
  if (!finite(value) || !finite(a) || !finite(b)) {
    fail(step, launch, kFailWeight, row);
    return;
  }
  w.value[at] = value;
  if (states > 0) w.state[0][at] = a;
  if (states > 1) w.state[1][at] = b;
}
