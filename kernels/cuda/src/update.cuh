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

// Updates elements at .. at + n - 1 of row `row` with gradients g, or writes the gradients. A number that is not finite is noted,
// and none of the n is stored, so that every weight stays finite. All is read before anything is written: no read waits for a
// write. Returns whether it has updated; then g has the new values.
template <int n>
DEVICE bool update_elements(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates, int64_t row,
                            int64_t at, float (&g)[n]) {
  bool good = true;
#pragma unroll
  for (int i = 0; i < n; i++) good = good && finite(g[i]);
  if (!good) {
    fail(step, launch, kFailGradient, row);
    return false;
  }
  if (w.gradient) {
    write<n>(w.gradient + at, g);
    return false;
  }
  const int states = states_of(w.optimizer.kind);
  float value[n], a[n] = {}, b[n] = {};
  read<n>(w.value + at, value);
  if (states > 0) read<n>(w.state[0] + at, a);
  if (states > 1) read<n>(w.state[1] + at, b);
#pragma unroll
  for (int i = 0; i < n; i++) {
    apply_rule(w.optimizer, rates, g[i], value[i], a[i], b[i]);
    good = good && finite(value[i]) && finite(a[i]) && finite(b[i]);
  }
  if (!good) {
    fail(step, launch, kFailWeight, row);
    return false;
  }
  write<n>(w.value + at, value);
  if (states > 0) write<n>(w.state[0] + at, a);
  if (states > 1) write<n>(w.state[1] + at, b);
#pragma unroll
  for (int i = 0; i < n; i++) g[i] = value[i];
  return true;
}

// Brings the lines of element `at` and of its states into the second-level cache, for update_elements.
DEVICE void fetch_elements(const Weights &w, int64_t at) {
  if (w.gradient) return;
  const int states = states_of(w.optimizer.kind);
  prefetch(w.value + at);
  if (states > 0) prefetch(w.state[0] + at);
  if (states > 1) prefetch(w.state[1] + at);
}

DEVICE void update_element(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates, int64_t row,
                           int64_t at, float g) {
  float one[1] = {g};
  update_elements<1>(step, launch, w, rates, row, at, one);
}

// Whether update_elements may take fours: rows of the weight, and all that belongs to it, are aligned to 16 bytes.
DEVICE bool updates_fours(const Weights &w) {
  return by_fours(w.value, w.columns) && by_fours(w.state[0], 0) && by_fours(w.state[1], 0) && by_fours(w.gradient, 0);
}
