/* epilogue.h: the end of a hidden layer forward: bias, activation, dropout. */

/* Ends the forward computation of units first .. first + n of row u, in place. */
static void finish_row(const epilogue_t *e, int64_t row, int64_t first, int64_t n, float *out) {
  for (int64_t k = 0; k < n; k += LANES) {
    int64_t here = smaller(LANES, n - k);
    float z[LANES] = {0}, factor[LANES];
    memcpy(z, out + k, here * 4);
    if (e->bias)
      for (int64_t i = 0; i < here; i++) z[i] += e->bias[first + k + i];
    vf h = activate(e->activation, load(z));
    if (e->dropout > 0) {
      dropout_factors(e, row, first + k, LANES, factor);
      h = h * load(factor);
    }
    store(z, h);
    memcpy(out + k, z, here * 4);
  }
}
