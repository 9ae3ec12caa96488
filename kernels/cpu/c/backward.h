/* backward.h: the step from a hidden layer's output back to its sums. */

enum { BACKWARD_UNITS = 64 };

/* dz = dh * mask / (1 - p) * act'(h), in place; the bias gradient is summed down the rows. Workers take blocks of units. */
static void backward(backward_t *b, int32_t worker) {
  (void)worker;
  const epilogue_t *e = &b->epilogue;
  const float kept = 1.0f - e->dropout;
  for (int64_t block; (block = take(&b->next)) * BACKWARD_UNITS < b->units && !failed(&b->failure);) {
    int64_t first = block * BACKWARD_UNITS, n = smaller(BACKWARD_UNITS, b->units - first);
    float sum[BACKWARD_UNITS] = {0}, h[BACKWARD_UNITS] = {0}, d[BACKWARD_UNITS] = {0}, factor[BACKWARD_UNITS];
    for (int64_t u = 0; u < b->rows; u++) {
      float *row = b->dh + u * b->units + first;
      memcpy(h, b->h + u * b->units + first, n * 4);
      memcpy(d, row, n * 4);
      if (e->dropout > 0) dropout_factors(e, u, first, BACKWARD_UNITS, factor);
      for (int64_t k = 0; k < n; k += LANES) {
        vf a = load(h + k), g = load(d + k);
        if (e->dropout > 0) {
          a = a * kept; /* the activation before it was scaled; where it was dropped the factor is 0 */
          g = g * load(factor + k);
        }
        g = g * activation_slope(e->activation, a);
        store(d + k, g);
        store(sum + k, load(sum + k) + g);
      }
      memcpy(row, d, n * 4);
    }
    if (any_not_finite(sum, n)) {
      fail(&b->failure, FAIL_GRADIENT, b->bias.id, -1);
      return;
    }
    if (b->bias.value && apply_gradient(&b->bias, &b->optimizer, first, sum, n)) {
      fail(&b->failure, FAIL_WEIGHT, b->bias.id, -1);
      return;
    }
  }
}
