/* cholesky.h: systems of n linear equations whose matrix is symmetric and positive definite, by A = U'U in place.
 *
 * A matrix is a row-major square of CHOLESKY_STRIDE(n) rows and columns. Only its upper triangle counts: below the diagonal
 * there may be anything, and afterwards there is. cholesky() pads the matrix with columns of the identity, so that no loop
 * has an end of its own. Arrays with an element for each unknown have CHOLESKY_STRIDE(n) elements, too.
 *
 * Sums are float32 in the order of the rows: the bits depend on the numbers and the instruction set alone. */
#define CHOLESKY_STRIDE(n) (((n) + 15) / 16 * 16)
enum { PIVOTS = 8 /* rows of U that are computed together */ };

typedef vf pivots_t[PIVOTS];

INLINE void load_pivots(const float *tile, int64_t stride, pivots_t c) {
#pragma GCC unroll 8
  for (int r = 0; r < PIVOTS; r++) c[r] = load(tile + r * stride);
}

INLINE void store_pivots(float *tile, int64_t stride, pivots_t c) {
#pragma GCC unroll 8
  for (int r = 0; r < PIVOTS; r++) store(tile + r * stride, c[r]);
}

/* c[r] += or -= the sum over the rows p of X of X[p][i + r] X[p][j .. j + LANES). */
INLINE void add_squares(const float *restrict x, int64_t stride, int64_t rows, int64_t i, int64_t j, const int subtract,
                        pivots_t c) {
  pivots_t sum;
#pragma GCC unroll 8
  for (int r = 0; r < PIVOTS; r++) sum[r] = splat(0);
  for (; rows > 0; rows--, x += stride) {
    const vf b = load(x + j);
#pragma GCC unroll 8
    for (int r = 0; r < PIVOTS; r++) sum[r] = fma_(splat(x[i + r]), b, sum[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < PIVOTS; r++) c[r] = subtract ? c[r] - sum[r] : c[r] + sum[r];
}

/* Adds X'X to the upper triangle of A. X has the stride of A. */
static UNUSED void add_gram(float *restrict a, const float *restrict x, int64_t stride, int64_t rows) {
  for (int64_t i = 0; i < stride; i += PIVOTS)
    for (int64_t j = i / LANES * LANES; j < stride; j += LANES) {
      pivots_t c;
      load_pivots(a + i * stride + j, stride, c);
      add_squares(x, stride, rows, i, j, 0, c);
      store_pivots(a + i * stride + j, stride, c);
    }
}

/* The factor of a diagonal block, and the reciprocals of its diagonal; 0 if a pivot is not a positive normal number. */
INLINE int factor_pivots(const float *block, int64_t stride, float factor[PIVOTS][PIVOTS], float *reciprocals) {
  vf8 d[PIVOTS];
#pragma GCC unroll 8
  for (int r = 0; r < PIVOTS; r++) d[r] = *(const vf8_any *)(block + r * stride);
#pragma GCC unroll 8
  for (int r = 0; r < PIVOTS; r++) {
    const float pivot = d[r][r];
    if (!(pivot >= 0x1p-126f && pivot <= 0x1.fffffep127f)) return 0;
    reciprocals[r] = 1 / sqrtf(pivot);
    d[r] *= reciprocals[r];
    *(vf8_any *)factor[r] = d[r];
#pragma GCC unroll 8
    for (int s = r + 1; s < PIVOTS; s++) d[s] -= factor[r][s] * d[r];
  }
  return 1;
}

/* Replaces a matrix by U, and writes the reciprocals of U's diagonal. Returns 0 if the matrix is not positive definite, up
 * to rounding, or has numbers that are not finite; the matrix is destroyed then. */
static UNUSED int cholesky(float *a, int64_t n, float *reciprocals) {
  const int64_t stride = CHOLESKY_STRIDE(n), end = round_up(n, PIVOTS);
  for (int64_t i = 0; i < end; i++)
    for (int64_t j = larger(i, n); j < stride; j++) a[i * stride + j] = i == j;
  for (int64_t i = 0; i < end; i += PIVOTS) {
    float factor[PIVOTS][PIVOTS], *panel = a + i * stride;
    const int64_t first = i / LANES * LANES, behind = round_up(i + PIVOTS, LANES);
    pivots_t c;
    for (int64_t j = first; j < behind; j += LANES) {
      load_pivots(panel + j, stride, c);
      add_squares(a, stride, i, i, j, 1, c);
      store_pivots(panel + j, stride, c);
    }
    if (!factor_pivots(panel + i, stride, factor, reciprocals + i)) return 0;
    for (int64_t j = first; j < stride; j += LANES) {
      load_pivots(panel + j, stride, c);
      if (j >= behind) add_squares(a, stride, i, i, j, 1, c);
#pragma GCC unroll 8
      for (int r = 0; r < PIVOTS; r++) {
        c[r] *= splat(reciprocals[i + r]);
#pragma GCC unroll 8
        for (int s = r + 1; s < PIVOTS; s++) c[s] -= splat(factor[r][s]) * c[r];
      }
      store_pivots(panel + j, stride, c);
    }
  }
  return 1;
}

INLINE vf8 load8(const float *p) { return *(const vf8_any *)p; }

/* Replaces b by the solution x of U'U x = b. A panel's unknowns go at once into the sums of all others. */
static UNUSED void cholesky_solve(const float *u, int64_t n, const float *reciprocals, float *b) {
  const int64_t stride = CHOLESKY_STRIDE(n), end = round_up(n, PIVOTS);
  for (int64_t j = n; j < stride; j++) b[j] = 0;
  for (int64_t i = 0; i < end; i += PIVOTS) {
    const float *panel = u + i * stride;
    float y[PIVOTS];
    vf8 left = load8(b + i);
#pragma GCC unroll 8
    for (int r = 0; r < PIVOTS; r++) {
      y[r] = left[r] * reciprocals[i + r];
      left -= y[r] * load8(panel + r * stride + i); /* wrong before r, where the triangle has ended */
    }
    memcpy(b + i, y, sizeof y);
    for (int64_t j = i + PIVOTS; j < end; j += 8) {
      vf8 sum = {0};
#pragma GCC unroll 8
      for (int r = 0; r < PIVOTS; r++) sum += y[r] * load8(panel + r * stride + j);
      *(vf8_any *)(b + j) -= sum;
    }
  }
  for (int64_t i = end - PIVOTS; i >= 0; i -= PIVOTS) {
    const float *panel = u + i * stride;
    float x[PIVOTS];
    vf8 sum[PIVOTS];
#pragma GCC unroll 8
    for (int r = 0; r < PIVOTS; r++) sum[r] = (vf8){0};
    for (int64_t j = i + PIVOTS; j < end; j += 8) {
#pragma GCC unroll 8
      for (int r = 0; r < PIVOTS; r++) sum[r] += load8(panel + r * stride + j) * load8(b + j);
    }
#pragma GCC unroll 8
    for (int r = PIVOTS - 1; r >= 0; r--) {
      const vf8 y = sum[r];
      x[r] = b[i + r] - (((y[0] + y[4]) + (y[2] + y[6])) + ((y[1] + y[5]) + (y[3] + y[7])));
#pragma GCC unroll 8
      for (int s = PIVOTS - 1; s > r; s--) x[r] -= panel[r * stride + i + s] * x[s];
      x[r] *= reciprocals[i + r];
    }
    memcpy(b + i, x, sizeof x);
  }
}
