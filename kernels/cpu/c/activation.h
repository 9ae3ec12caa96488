/* activation.h: the activations, activate_<word>(z), and their derivatives, slope_<word>(a), written with the value
 * a = activate_<word>(z). Formulas: kernels/ops.go. */

INLINE vf activate_linear(vf z) { return z; }
INLINE vf slope_linear(UNUSED vf a) { return splat(1.0f); }

INLINE vf activate_sigmoid(vf z) { return sigmoid(z); }
INLINE vf slope_sigmoid(vf a) { return a * (1.0f - a); }

INLINE vf activate_tanh(vf z) { return hyperbolic_tangent(z); }
INLINE vf slope_tanh(vf a) { return 1.0f - a * a; }

INLINE vf activate_relu(vf z) { return select_(z > 0.0f, z, (vf){0} * z); /* 0 * z keeps NaN */ }
INLINE vf slope_relu(vf a) { return select_(a > 0.0f, splat(1.0f), splat(0.0f)); }

/* exp(z) - 1 of a z that is not positive: 2 t / (1 - t) with t = tanh(z / 2), where nothing cancels; NaN stays NaN. */
INLINE vf exponential_minus_one(vf z) {
  vf t = hyperbolic_tangent(0.5f * z);
  return 2.0f * t / (1.0f - t);
}

INLINE vf activate_elu(vf z) { return select_(z > 0.0f, z, exponential_minus_one(minimum(splat(0), z))); }
INLINE vf slope_elu(vf a) { return select_(a > 0.0f, splat(1.0f), a + 1.0f); }

#define SELU_SCALE 1.05070099f
#define SELU_ALPHA 1.67326324f
INLINE vf activate_selu(vf z) {
  return SELU_SCALE * select_(z > 0.0f, z, SELU_ALPHA * exponential_minus_one(minimum(splat(0), z)));
}
INLINE vf slope_selu(vf a) { return select_(a > 0.0f, splat(SELU_SCALE), a + SELU_SCALE * SELU_ALPHA); }

/* activation is a constant at every call of these two, so that the compiler resolves the switch. */
INLINE vf activate(const int32_t activation, vf z) {
  switch (activation) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, activate_, z) }
  __builtin_unreachable();
}

INLINE vf activation_slope(const int32_t activation, vf a) {
  switch (activation) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, slope_, a) }
  __builtin_unreachable();
}
