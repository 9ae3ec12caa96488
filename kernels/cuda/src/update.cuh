// The update rules, the same formulas as kernels/optimizer.go, and how an element of a weight is updated. Every update of
// every kernel goes through update_element, so that a replayed step has the bits of a step that was made in time.
#pragma once
#include "step.cuh"

struct Optimizer {
  int32_t kind;  // OPTIMIZER_<word>
  float momentum, beta1, beta2, epsilon, decay, l1;
};

// A kernels.Weights with its optimizer; decay and l1 are 0 for a weight that is exempt.
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

OPTIMIZER(adadelta) {
  g += o.decay * w;
  a = o.beta2 * a + (1.0f - o.beta2) * g * g;
  const float change = sqrtf(b + o.epsilon) / sqrtf(a + o.epsilon) * g;
  b = o.beta2 * b + (1.0f - o.beta2) * change * change;
  w -= r.learning_rate * change;
}

// sign(w) max(0, |w| - by): w, moved towards 0 by at most `by`. What is not finite stays so, for write_elements to find.
DEVICE float shrink(float w, float by) { return w - fminf(fmaxf(w, -by), by); }

// One step of the rule on n weights with their gradients and states: one branch for all of them. The only place that
// applies l1.
template <int n>
DEVICE void apply_rule(const Optimizer &o, const Rates &r, const float *g, float *w, float *a, float *b) {
#define RULE(word, states)                                                                     \
  case OPTIMIZER_##word:                                                                       \
    _Pragma("unroll") for (int i = 0; i < n; i++) update_##word(o, r, g[i], w[i], a[i], b[i]); \
    break;
  switch (o.kind) {
    OPTIMIZERS(RULE)
    default:
      __builtin_unreachable();
  }
#undef RULE
  if (o.l1 == 0.0f) return;
#pragma unroll
  for (int i = 0; i < n; i++) w[i] = shrink(w[i], r.learning_rate * o.l1);
}

// How many states a weight has: two bits for each kind, since a switch would be branches.
DEVICE int states_of(int32_t kind) {
#define KIND(word, states) | uint32_t(states) << 2 * OPTIMIZER_##word
  constexpr uint32_t all = 0 OPTIMIZERS(KIND);
#undef KIND
  return int(all >> 2 * kind & 3);
}

enum { kFailGradient, kFailWeight };

// Elements of a weight with their states. All that a thread updates is read before it writes anything: no read waits for a write.
template <int n>
struct Elements {
  float value[n], a[n], b[n];
};

template <int n>
DEVICE Elements<n> read_elements(const Weights &w, int64_t at) {
  const int states = states_of(w.optimizer.kind);
  Elements<n> x = {};
  read<n>(w.value + at, x.value);
  if (states > 0) read<n>(w.state[0] + at, x.a);
  if (states > 1) read<n>(w.state[1] + at, x.b);
  return x;
}

// Whether n gradients of row `row` are finite, which is noted if they are not.
template <int n>
DEVICE bool good_gradients(const StepRecord *step, int32_t launch, int64_t row, const float (&g)[n]) {
  bool good = true;
#pragma unroll
  for (int i = 0; i < n; i++) good = good && finite(g[i]);
  if (!good) fail(step, launch, kFailGradient, row);
  return good;
}

// Writes updated elements of row `row`. A number that is not finite is noted, and none of the n is stored, so that every weight
// stays finite. Returns whether they are stored.
template <int n>
DEVICE bool write_elements(const StepRecord *step, int32_t launch, const Weights &w, int64_t row, int64_t at,
                           const Elements<n> &x) {
  bool good = true;
#pragma unroll
  for (int i = 0; i < n; i++) good = good && finite(x.value[i]) && finite(x.a[i]) && finite(x.b[i]);
  if (!good) {
    fail(step, launch, kFailWeight, row);
    return false;
  }
  const int states = states_of(w.optimizer.kind);
  write<n>(w.value + at, x.value);
  if (states > 0) write<n>(w.state[0] + at, x.a);
  if (states > 1) write<n>(w.state[1] + at, x.b);
  return true;
}

// What update_read takes: nothing has to be read where gradients are only written.
template <int n>
DEVICE Elements<n> read_elements_to_update(const Weights &w, int64_t at) {
  if (w.gradient) return {};
  return read_elements<n>(w, at);
}

// Updates elements that are read already with gradients g, or writes the gradients. Returns whether it has updated.
template <int n>
DEVICE bool update_read(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates, int64_t row,
                        int64_t at, const float (&g)[n], Elements<n> &x) {
  if (!good_gradients<n>(step, launch, row, g)) return false;
  if (w.gradient) {
    write<n>(w.gradient + at, g);
    return false;
  }
  apply_rule<n>(w.optimizer, rates, g, x.value, x.a, x.b);
  return write_elements<n>(step, launch, w, row, at, x);
}

// The same for elements at .. at + n - 1; where it has updated, g has the new values.
template <int n>
DEVICE bool update_elements(const StepRecord *step, int32_t launch, const Weights &w, const Rates &rates, int64_t row,
                            int64_t at, float (&g)[n]) {
  Elements<n> x = read_elements_to_update<n>(w, at);
  if (!update_read<n>(step, launch, w, rates, row, at, g, x)) return false;
#pragma unroll
  for (int i = 0; i < n; i++) g[i] = x.value[i];
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
