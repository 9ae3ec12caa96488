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

/* activation is a constant at every call of these two, so that the compiler resolves the switch. */
INLINE vf activate(const int32_t activation, vf z) {
  switch (activation) {
    ACTIVATIONS(CASE_BY_WORD, ACTIVATION, activate_, z)
  }
  __builtin_unreachable();
}

INLINE vf activation_slope(const int32_t activation, vf a) {
  switch (activation) {
    ACTIVATIONS(CASE_BY_WORD, ACTIVATION, slope_, a)
  }
  __builtin_unreachable();
}
