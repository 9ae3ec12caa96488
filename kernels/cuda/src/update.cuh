// The update rules, the same formulas as kernels/optimizer.go, and how an element of a weight is updated. Every update of
// every kernel goes through update_element, so that a replayed step has the bits of a step that was made in time.
#pragma once
#include "step.cuh"

struct Optimizer {
  int32_t kind;  // OPTIMIZER_<word>
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

// OPTIMIZER(word) { ... } is one step on a weight w with states a and b and gradient g, without weight decay as yet.
#define OPTIMIZER(word) \
  DEVICE void update_##word(const Optimizer &o, const Rates &r, float g, float &w, float &a, float &b)

OPTIMIZER(sgd) {
  g += o.decay * w;
  w -= r.learning_rate * g;
}

OPTIMIZER(momentum) {
  g += o.decay * w;
  a = o.momentum * a - r.learning_rate * g;
  w += a;
}

OPTIMIZER(nesterov) {
  g += o.decay * w;
  a = o.momentum * a - r.learning_rate * g;
  w += o.momentum * a - r.learning_rate * g;
}

OPTIMIZER(rmsprop) {
  g += o.decay * w;
  a = o.beta2 * a + (1.0f - o.beta2) * g * g;
  w -= r.learning_rate * g / (sqrtf(a) + o.epsilon);
}

DEVICE void adam(const Optimizer &o, const Rates &r, float g, float &w, float &a, float &b) {
  a = o.beta1 * a + (1.0f - o.beta1) * g;
  b = o.beta2 * b + (1.0f - o.beta2) * g * g;
  w -= r.learning_rate * r.scale1 * a / (sqrtf(r.scale2 * b) + o.epsilon);
}

OPTIMIZER(adam) { adam(o, r, g + o.decay * w, w, a, b); }

OPTIMIZER(adamw) {
  w -= r.learning_rate * o.decay * w;
  adam(o, r, g, w, a, b);
}

OPTIMIZER(adagrad) {
  g += o.decay * w;
  a += g * g;
  w -= r.learning_rate * g / (sqrtf(a) + o.epsilon);
}

// One step of the rule.
DEVICE void apply_rule(const Optimizer &o, const Rates &r, float g, float &w, float &a, float &b) {
  switch (o.kind) { OPTIMIZERS(OPTIMIZER_CASE, CASE_BY_WORD, update_, o, r, g, w, a, b) }
  __builtin_unreachable();
}

// How many states a weight has: two bits for each kind, since a switch would be branches.
DEVICE int states_of(int32_t kind) {
#define KIND(word, states) | uint32_t(states) << 2 * OPTIMIZER_##word
  constexpr uint32_t all = 0 OPTIMIZERS(KIND);
#undef KIND
  return int(all >> 2 * kind & 3);
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
