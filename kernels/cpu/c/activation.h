/* activation.h: the activations, activate_<word>(alpha, z), and their derivatives, slope_<word>(alpha, a), written with
 * the value a = activate_<word>(alpha, z), or with z where SLOPE_NEEDS_SUM. Formulas: kernels/ops.go. */

INLINE vf activate_linear(UNUSED float alpha, vf z) { return z; }
INLINE vf slope_linear(UNUSED float alpha, UNUSED vf a) { return splat(1.0f); }

INLINE vf activate_sigmoid(UNUSED float alpha, vf z) { return sigmoid(z); }
INLINE vf slope_sigmoid(UNUSED float alpha, vf a) { return a * (1.0f - a); }

INLINE vf activate_tanh(UNUSED float alpha, vf z) { return hyperbolic_tangent(z); }
INLINE vf slope_tanh(UNUSED float alpha, vf a) { return 1.0f - a * a; }

INLINE vf activate_relu(UNUSED float alpha, vf z) { return select_(z > 0.0f, z, (vf){0} * z); /* 0 * z keeps NaN */ }
INLINE vf slope_relu(UNUSED float alpha, vf a) { return select_(a > 0.0f, splat(1.0f), splat(0.0f)); }

/* exp(z) - 1 of a z that is not positive: 2 t / (1 - t) with t = tanh(z / 2), where nothing cancels; NaN stays NaN. */
INLINE vf exponential_minus_one(vf z) {
  vf t = hyperbolic_tangent(0.5f * z);
  return 2.0f * t / (1.0f - t);
}

INLINE vf activate_elu(float alpha, vf z) {
  return select_(z > 0.0f, z, alpha * exponential_minus_one(minimum(splat(0), z)));
}
INLINE vf slope_elu(float alpha, vf a) { return select_(a > 0.0f, splat(1.0f), a + alpha); }

#define SELU_SCALE 1.05070099f
#define SELU_ALPHA 1.67326324f
INLINE vf activate_selu(UNUSED float alpha, vf z) {
  return SELU_SCALE * select_(z > 0.0f, z, SELU_ALPHA * exponential_minus_one(minimum(splat(0), z)));
}
INLINE vf slope_selu(UNUSED float alpha, vf a) {
  return select_(a > 0.0f, splat(SELU_SCALE), a + SELU_SCALE * SELU_ALPHA);
}

INLINE vf activate_leaky_relu(float alpha, vf z) { return select_(z > 0.0f, z, alpha * z); }
INLINE vf slope_leaky_relu(float alpha, vf a) { return select_(a > 0.0f, splat(1.0f), splat(alpha)); }

INLINE vf activate_softplus(UNUSED float alpha, vf z) { return softplus(z); }
INLINE vf slope_softplus(UNUSED float alpha, vf a) { return -exponential_minus_one(-a); /* the sigmoid of z */ }

/* Through the reciprocal where |z| is large, since inf / inf would be NaN. */
INLINE vf activate_softsign(UNUSED float alpha, vf z) {
  vf size = absolute(z), large = 1.0f / (1.0f + 1.0f / size);
  return select_(size > 1.0f, select_(z < 0.0f, -large, large), z / (1.0f + size));
}
INLINE vf slope_softsign(UNUSED float alpha, vf a) {
  vf rest = 1.0f - absolute(a);
  return rest * rest;
}

/* The probability that a standard normal number is above a size of at least 0; *density = exp(-size^2 / 2). The tail is that
 * times a quotient of polynomials, of which nothing cancels: the minimax one for the relative error up to 13.5 (5e-9 before
 * rounding). The square is cut into two exact parts, since an error of it is one of the exponential's relative to 1. NaN stays
 * NaN. GELU made of it is within 7 ULP, see accuracy_test.go. */
INLINE vf normal_tail(vf size, vf *density) {
  const vf x = minimum(splat(14), size), high = (vf)((vi)x & ~0xfff);
  *density = exponential(-0.5f * high * high) * exponential(-0.5f * (x - high) * (x + high));
  vf p = fma_(splat(0.00403698f), x, splat(0.04009793f)), q = fma_(splat(0.01011907f), x, splat(0.10051782f));
  p = fma_(p, x, splat(0.18164546f)), q = fma_(q, x, splat(0.46527424f));
  p = fma_(p, x, splat(0.43614575f)), q = fma_(q, x, splat(1.19589466f));
  p = fma_(p, x, splat(0.5f)), q = fma_(q, x, splat(1.67017644f));
  return *density * p / fma_(q, x, splat(1));
}

/* z within bounds beyond which these functions are 0 or z, so that 0 times infinity, which is NaN, does not occur. */
INLINE vf within(float bound, vf z) { return minimum(splat(bound), maximum(splat(-bound), z)); }

INLINE vf activate_gelu(UNUSED float alpha, vf z) {
  vf density, tail = normal_tail(absolute(z), &density);
  return maximum(splat(-14), z) * select_(z < 0.0f, tail, 1.0f - tail);
}
INLINE vf slope_gelu(UNUSED float alpha, vf z) {
  vf density, tail = normal_tail(absolute(z), &density);
  return select_(z < 0.0f, tail, 1.0f - tail) + 0.398942280f * within(14, z) * density;
}

INLINE vf activate_silu(UNUSED float alpha, vf z) { return maximum(splat(-88), z) * sigmoid(z); }
INLINE vf slope_silu(UNUSED float alpha, vf z) {
  vf q = exponential(-absolute(z)), share = sigmoid_with(z, q);
  return share + within(88, z) * share * sigmoid_with(-z, q);
}

/* activation is a constant at every call of these three, so that the compiler resolves the switch. */
INLINE vf activate(const int32_t activation, float alpha, vf z) {
  switch (activation) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, activate_, alpha, z) }
  __builtin_unreachable();
}

INLINE vf activation_slope(const int32_t activation, float alpha, vf at) {
  switch (activation) { ACTIVATIONS(CASE_BY_WORD, ACTIVATION, slope_, alpha, at) }
  __builtin_unreachable();
}

/* What the slope is computed from: the sum z or the value a. */
INLINE vf slope_at(const int32_t activation, vf z, vf a) { return SLOPE_NEEDS_SUM(activation) ? z : a; }
